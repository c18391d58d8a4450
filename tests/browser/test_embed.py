"""The player in another page's frame: who may frame what, and the messages that drive it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, FrameLocator, Page, expect

import flashstep as fs

pytestmark = pytest.mark.browser

DECK = """<!doctype html><title>a deck</title>
<iframe id="player" src="{site}/explore/flash-attention-2?embed=1&step=3" width="960" height="560"></iframe>
<script>
  const said = [];
  addEventListener("message", (event) => said.push(event.data));
  const send = (message) => document.getElementById("player").contentWindow.postMessage(message, "*");
</script>"""


@pytest.fixture
def browser_context_args(browser_context_args: dict[str, Any]) -> dict[str, Any]:
    return {**browser_context_args, "viewport": {"width": 1000, "height": 800}, "reduced_motion": "reduce"}


class Deck:
    """A page of slides, opened from a file, with a player in a frame."""

    def __init__(self, page: Page, site: str, folder: Path) -> None:
        self.page = page
        (folder / "deck.html").write_text(DECK.format(site=site))
        page.goto((folder / "deck.html").as_uri())
        self.at(3)

    @property
    def player(self) -> FrameLocator:
        return self.page.frame_locator("#player")

    def send(self, message: object) -> None:
        self.page.evaluate(f"send({json.dumps(message)})")

    def at(self, step: int) -> None:
        expect(self.player.locator(".place")).to_have_text(f"step {step} of {len(TRACE.steps) - 1}")

    def said(self) -> list[Any]:
        found: list[Any] = self.page.evaluate("said")
        return found


TRACE = fs.record("flash-attention-2").trace


def test_another_page_drives_the_player_in_its_frame(page: Page, site: str, tmp_path: Path) -> None:
    deck = Deck(page, site, tmp_path)
    steps = [3]
    moves: list[tuple[object, int]] = [
        ({"flashstep": "go", "step": 7}, 7),
        ({"flashstep": "next"}, 8),
        ({"flashstep": "previous"}, 7),
        ({"flashstep": "go", "step": 0}, 0),
        ({"flashstep": "go", "step": len(TRACE.steps) - 1}, len(TRACE.steps) - 1),
    ]
    for message, step in moves:
        deck.send(message)
        deck.at(step)
        steps.append(step)
    at = [TRACE.steps[step] for step in steps]
    last = len(TRACE.steps) - 1
    assert deck.said() == [
        {"flashstep": "at", "step": step.index, "last": last, "label": step.label, "caption": step.caption} for step in at
    ]

    deck.send({"flashstep": "go", "step": 7})
    deck.send({"flashstep": "select", "cell": "li.1.0"})
    expect(deck.player.locator(".f-selected")).to_have_count(1)
    # Nothing of this is understood, and nothing of it does harm.
    nonsense: list[object] = [None, 7, "go", [], {}, {"flashstep": "fly"}, {"flashstep": "go"}, {"flashstep": "go", "step": "3"},
                              {"flashstep": "go", "step": -1}, {"flashstep": "go", "step": 2.5},
                              {"flashstep": "go", "step": 10**9},
                              {"flashstep": "select", "cell": 3}, {"flashstep": "select", "cell": "no.0.0"},
                              {"flashstep": "select", "cell": "li.99.0"}, {"step": 3}]  # fmt: skip
    for message in nonsense:
        deck.send(message)
    deck.send({"flashstep": "next"})  # which is answered after all of them
    deck.at(8)
    expect(deck.player.locator(".f-selected")).to_have_count(1)
    deck.send({"flashstep": "select", "cell": None})
    expect(deck.player.locator(".f-selected")).to_have_count(0)

    deck.send({"flashstep": "play"})
    expect(deck.player.locator(".control.play")).to_have_attribute("aria-label", "Pause")
    deck.send({"flashstep": "pause"})
    expect(deck.player.locator(".control.play")).to_have_attribute("aria-label", "Play")

    # It fills its frame with figure, caption and controls, and leaves the deck's history alone.
    assert page.evaluate("history.length") <= 2
    for part in (".steps", ".panels", "header", "form#parameters"):
        expect(deck.player.locator(part)).to_have_count(0)
    frame, controls = (deck.page.locator("#player").bounding_box(), deck.player.locator(".controls").bounding_box())
    assert frame is not None
    assert controls is not None
    assert abs(frame["y"] + frame["height"] - controls["y"] - controls["height"]) <= 4


def test_only_the_page_around_it_drives_it(page: Page, site: str, tmp_path: Path) -> None:
    """Another frame of the deck, and the player's own window, send what would be understood from the deck itself."""
    deck = Deck(page, site, tmp_path)
    page.evaluate("document.body.append(Object.assign(document.createElement('iframe'), {id: 'other', srcdoc: '<p>other'}))")
    expect(page.frame_locator("#other").get_by_text("other")).to_be_visible()
    player, other = (frame for frame in page.frames if frame != page.main_frame)
    other.evaluate("parent.frames[0].postMessage({flashstep: 'go', step: 7}, '*')")
    player.evaluate("postMessage({flashstep: 'go', step: 8}, '*')")
    deck.send({"flashstep": "next"})  # after both
    deck.at(4)
    assert [message["step"] for message in deck.said()] == [3, 4]


def test_the_readmes_slide_steps_the_player(page: Page, site: str, root: Path, tmp_path: Path) -> None:
    (slide,) = re.findall(r"^```html\n(.*?)^```$", (root / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    # What reveal.js does of it: loads the frame, shows and hides fragments, and says so.
    reveal = """<script>
      const heard = {};
      const Reveal = { on: (type, listener) => { heard[type] = listener; } };
      function turn(n, shown) {
        document.querySelectorAll(".fragment")[n].classList.toggle("visible", shown);
        heard[shown ? "fragmentshown" : "fragmenthidden"]({});
      }
    </script>"""
    framed = slide.replace("data-src", "src").replace("http://127.0.0.1:8642", site)
    assert framed.count(site) == 1
    (tmp_path / "slides.html").write_text(f"<!doctype html><title>slides</title>{reveal}{framed}", encoding="utf-8")
    page.goto((tmp_path / "slides.html").as_uri())
    place = page.frame_locator("#fa2").locator(".place")
    expect(place).to_have_text(re.compile("^step 3 of"))
    for turn, step in (("0, true", 5), ("1, true", 8), ("1, false", 5), ("0, false", 3)):
        page.evaluate(f"turn({turn})")
        expect(place).to_have_text(re.compile(f"^step {step} of"))
    # Turned away from, the frame is emptied; turned back to, it stands where its fragments do.
    page.evaluate("turn(0, true)")
    expect(place).to_have_text(re.compile("^step 5 of"))
    source = page.evaluate("() => { const { src } = fa2; fa2.src = 'about:blank'; return src; }")
    expect(place).to_have_count(0)
    page.evaluate("(src) => { fa2.src = src; }", source)
    expect(place).to_have_text(re.compile("^step 5 of"))


def test_the_whole_page_is_framed_by_nobody_else(browser: Browser, site: str, tmp_path: Path) -> None:
    (tmp_path / "deck.html").write_text(DECK.format(site=site).replace("embed=1&", ""))
    with browser.new_context() as context:  # of its own: here a policy is meant to be broken
        page = context.new_page()
        with page.expect_console_message(lambda message: "frame-ancestors 'self'" in message.text):
            page.goto((tmp_path / "deck.html").as_uri())
        expect(page.frame_locator("#player").locator("#parameters")).to_have_count(0)


def test_messages_of_others_are_ignored(page: Page, site: str) -> None:
    """A page that is open by itself has no page to answer to: a message to its own window does nothing."""
    page.goto(f"{site}/explore/flash-attention-2?embed=1&step=3")
    expect(page.locator(".place")).to_have_text(f"step 3 of {len(TRACE.steps) - 1}")
    page.evaluate("postMessage({flashstep: 'go', step: 7}, '*')")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".place")).to_have_text(f"step 4 of {len(TRACE.steps) - 1}")
