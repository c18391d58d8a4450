"""Text from an untrusted file: what may be shown on a terminal and a page, and written again as UTF-8."""

from __future__ import annotations

import re

# Controls (ESC steers a terminal), what turns the direction of writing, and surrogates, which no UTF-8 holds.
_STRANGE = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_STRANGE_IN_SOURCES = re.compile(_STRANGE.pattern.replace("\x00-\x1f", "\x00-\x08\x0b\x0e-\x1f"))  # tab, line and page breaks
_DEPTH = 64  # a header's formulas reach half of it


def strange(data: object) -> str | None:
    """What is wrong with the first text of a header, at any depth, that is not plain; or None.

    Sources alone have lines. Lists and objects deeper than any header's are refused too: they could not be written again.
    """
    return _strange(data, (), _STRANGE)


def _strange(data: object, place: tuple[str, ...], wrong: re.Pattern[str]) -> str | None:
    if isinstance(data, str):
        found = wrong.search(data)
        if found:
            return f"{'.'.join(place) or 'a name'} holds the character U+{ord(found[0]):04X}, which is no plain text"
        return None
    if not isinstance(data, dict | list):
        return None
    if len(place) >= _DEPTH:
        return "its header is nested too deeply"
    if isinstance(data, dict):
        for name, value in data.items():
            inside = _STRANGE_IN_SOURCES if place == () and name == "sources" else wrong
            if said := _strange(name, (), _STRANGE) or _strange(value, (*place, name), inside):
                return said
        return None
    nested = ((n, value) for n, value in enumerate(data) if isinstance(value, str | dict | list))
    return next((said for n, value in nested if (said := _strange(value, (*place, str(n)), wrong))), None)
