"""The parameter bar in a real Chromium: recording, errors beside fields, cancelling, the person's own arrays."""

from __future__ import annotations

import io
import re
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from playwright.sync_api import Page, Route, expect

pytestmark = pytest.mark.browser


def open_explorer(page: Page, site: str, query: str = "", kernel: str = "flash-attention-2") -> None:
    page.goto(f"{site}/explore/{kernel}{query}")
    expect(page.locator(".player")).to_be_visible()


def query_of(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def form(page: Page, label: str) -> str:
    return page.get_by_label(label, exact=True).input_value()


def test_enter_records_what_the_form_holds_and_the_link_says_so(page: Page, site: str) -> None:
    open_explorer(page, site, "?order=together&step=3")
    page.get_by_label("Nk", exact=True).fill("6")
    page.get_by_label("causal", exact=True).check()
    page.get_by_label("Nk", exact=True).press("Enter")
    page.wait_for_url(re.compile("seqlen_k=6"))
    expect(page.locator(".player")).to_be_visible()
    query = query_of(page)
    assert (query["seqlen_k"], query["causal"], query["order"]) == ("6", "true", "together")
    assert "seqlen_q" not in query  # what is as always is not said
    assert query.get("step", "0") == "0"  # another number of steps: the old one's place means nothing
    assert form(page, "Nk") == "6"
    assert page.get_by_label("causal", exact=True).is_checked()


def test_a_change_that_leaves_the_steps_keeps_the_place(page: Page, site: str) -> None:
    open_explorer(page, site, "?step=7")
    page.get_by_label("seed", exact=True).fill("5")
    page.get_by_role("button", name="Record", exact=True).click()
    page.wait_for_url(re.compile("seed=5"))
    expect(page.locator(".player")).to_be_visible()
    assert query_of(page)["step"] == "7"


def test_errors_appear_beside_their_fields_and_nothing_is_lost(page: Page, site: str) -> None:
    open_explorer(page, site, "?step=4")
    page.get_by_label("Nq", exact=True).fill("ten")
    page.get_by_label("Br", exact=True).fill("0")
    page.get_by_label("d", exact=True).fill("8")
    page.get_by_role("button", name="Record", exact=True).click()
    field = page.get_by_label("Nq", exact=True)
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_be_focused()
    expect(field).to_have_accessible_description(
        re.compile("“ten” is not a whole number; write one such as 8.")
    )
    expect(page.get_by_label("Br", exact=True)).to_have_accessible_description(re.compile("from 1 to"))
    assert (form(page, "Nq"), form(page, "Br"), form(page, "d")) == ("ten", "0", "8")
    expect(page.locator(".player")).to_be_visible()  # what was shown still is
    field.fill("10")
    page.get_by_label("Br", exact=True).fill("5")
    page.get_by_role("button", name="Record", exact=True).click()
    page.wait_for_url(re.compile("seqlen_q=10"))
    expect(page.locator(".error:visible")).to_have_count(0)


def test_a_focus_that_nobody_typed_is_not_sent_with_other_sizes(page: Page, site: str) -> None:
    open_explorer(page, site, "?step=3")
    page.locator(
        ".row.step", has_text="block 1 appears"
    ).click()  # the player follows block 1, and the address says so
    page.wait_for_url(re.compile("focus=1"))
    page.reload()
    expect(page.locator(".player")).to_be_visible()
    page.get_by_label("Br", exact=True).fill("8")
    page.get_by_role("button", name="Record", exact=True).click()
    page.wait_for_url(re.compile("block_rows=8"))
    expect(page.locator(".player")).to_be_visible()
    assert "focus" not in query_of(page)


def test_a_followed_block_stays_followed_where_the_steps_stay(page: Page, site: str) -> None:
    open_explorer(page, site, "?step=12&focus=1")
    page.get_by_label("seed", exact=True).fill("5")
    page.get_by_role("button", name="Record", exact=True).click()
    page.wait_for_url(re.compile("seed=5"))
    expect(page.locator(".player")).to_be_visible()
    assert query_of(page)["focus"] == "1"


def test_a_focus_typed_under_more_is_sent(page: Page, site: str) -> None:
    open_explorer(page, site)
    page.get_by_text("More", exact=True).click()
    page.get_by_label("focus block", exact=True).fill("9")
    page.get_by_label("Br", exact=True).fill("8")
    page.get_by_role("button", name="Record", exact=True).click()
    expect(page.get_by_label("focus block", exact=True)).to_have_accessible_description(
        re.compile("from 0 to 0, not 9")
    )


def test_a_link_to_no_block_opens_and_can_record_anew(page: Page, site: str) -> None:
    open_explorer(page, site, "?focus=99")
    page.get_by_label("seed", exact=True).fill("5")
    page.get_by_role("button", name="Record", exact=True).click()
    page.wait_for_url(re.compile("seed=5"))
    expect(page.locator(".player")).to_be_visible()


def test_every_error_is_read_at_once_and_covers_nothing(page: Page, site: str) -> None:
    page.set_viewport_size({"width": 1366, "height": 768})
    open_explorer(page, site)
    before = [page.get_by_label(name, exact=True).bounding_box() for name in ("Nq", "Br", "seed")]
    page.get_by_label("Nq", exact=True).fill("ten")
    page.get_by_label("Br", exact=True).fill("0")
    page.get_by_role("button", name="Record", exact=True).click()
    bar = page.locator("#parameters")
    for error in (page.locator("#e-seqlen_q"), page.locator("#e-block_rows")):
        expect(error).to_be_in_viewport(ratio=1)
        at, around = error.bounding_box(), bar.bounding_box()
        assert at is not None
        assert around is not None
        assert at["y"] + at["height"] <= around["y"] + around["height"]  # within the bar: filter and order switch stay clear
        assert around["height"] < 80
    assert [page.get_by_label(name, exact=True).bounding_box() for name in ("Nq", "Br", "seed")] == before
    expect(page.locator(".control.next")).to_be_in_viewport(ratio=1)
    page.get_by_label("Nq", exact=True).fill("8")
    page.get_by_label("Br", exact=True).fill("2")
    page.route("**/api/recordings", lambda route: None)  # a recording that goes on
    page.get_by_role("button", name="Record", exact=True).click()
    expect(page.locator("#recording")).to_contain_text("Cancel")
    assert page.locator("[aria-invalid=true]").count() == 0
    expect(page.locator(".error:visible")).to_have_count(0)


def test_a_link_with_faults_shows_them_in_the_form(page: Page, site: str) -> None:
    page.goto(f"{site}/explore/flash-attention-2?seqlen_k=many&scale=wide")
    expect(page.get_by_label("Nk", exact=True)).to_have_value("many")
    expect(page.get_by_label("scale", exact=True)).to_be_visible()  # the sheet that holds it is open
    expect(page.get_by_label("scale", exact=True)).to_have_accessible_description(
        re.compile("“wide” is not a number")
    )
    expect(page.get_by_role("heading", name="Nothing is recorded yet")).to_be_visible()
    page.get_by_label("Nk", exact=True).fill("8")
    page.get_by_label("scale", exact=True).fill("")
    page.get_by_role("button", name="Record", exact=True).click()
    expect(page.locator(".player")).to_be_visible()


def test_another_input_brings_its_sizes_and_keeps_what_was_typed(page: Page, site: str) -> None:
    open_explorer(page, site)
    page.get_by_label("Br", exact=True).fill("3")
    page.get_by_label("inputs", exact=True).select_option("fully-masked-row")
    assert (form(page, "Nk"), form(page, "Br")) == ("6", "3")
    assert page.get_by_label("causal", exact=True).is_checked()
    page.get_by_label("inputs", exact=True).select_option("random")
    assert (form(page, "Nk"), form(page, "Br")) == ("8", "3")
    assert not page.get_by_label("causal", exact=True).is_checked()


def test_arrow_keys_count_and_do_not_step_the_player(page: Page, site: str) -> None:
    open_explorer(page, site)
    field = page.get_by_label("Nq", exact=True)
    field.press("ArrowUp")
    field.press("ArrowUp")
    field.press("ArrowDown")
    field.press("ArrowRight")
    assert field.input_value() == "9"
    assert query_of(page).get("step", "0") == "0"


def test_a_refusal_calls_the_fields_as_the_form_does(page: Page, site: str) -> None:
    """Whether the server wrote it into the page or the script beside the field."""
    sizes = "seqlen_q=60000&seqlen_k=60000&block_rows=4&block_cols=4"
    page.goto(f"{site}/explore/flash-attention-2?{sizes}")
    refusal = page.locator("#e-seqlen_k")
    expect(refusal).to_contain_text(re.compile(r"It would fit with Br and Bc of [\d,]+, or with Nq and Nk of [\d,]+"))
    sentence = refusal.inner_text()
    open_explorer(page, site)
    for label, text in (("Nq", "60000"), ("Nk", "60000")):
        page.get_by_label(label, exact=True).fill(text)
    page.get_by_role("button", name="Record", exact=True).click()
    expect(refusal).to_have_text(sentence)


def test_a_long_recording_shows_how_far_it_is_and_can_be_cancelled(page: Page, site: str) -> None:
    open_explorer(page, site, "?step=5")
    for label, text in (("Nq", "9000"), ("Nk", "9000"), ("Br", "32"), ("Bc", "32")):
        page.get_by_label(label, exact=True).fill(text)
    page.get_by_text("More", exact=True).click()
    page.get_by_label("values kept", exact=True).select_option("none")
    page.get_by_label("values kept", exact=True).press("Escape")
    page.get_by_role("button", name="Record", exact=True).click()
    bar = page.locator("#recording")
    expect(bar.get_by_role("status")).to_have_text(re.compile(r"Recording \d+ % · \d+ s left"))
    bar.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Record", exact=True)).to_be_visible()
    assert form(page, "Nq") == "9000"  # as typed
    assert query_of(page)["step"] == "5"  # and where one was
    expect(page.locator(".player")).to_be_visible()


def test_pasted_numbers_are_recorded_and_the_link_carries_them(page: Page, site: str) -> None:
    open_explorer(page, site)
    page.get_by_role("button", name="Your arrays").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Or paste numbers").fill("q\n1 2\n3")
    dialog.get_by_role("button", name="Use these").click()
    expect(dialog.get_by_role("alert")).to_have_text(re.compile("Row 2 of q has 1 number and row 1 has 2"))
    dialog.get_by_label("Or paste numbers").fill("q\n1\nk\n0\n1\n4\n2\n3\nv\n1\n2\n3\n5\n4")
    dialog.get_by_role("button", name="Use these").click()
    page.wait_for_url(re.compile(r"arrays=[0-9a-f]{64}"))
    expect(page.locator(".player")).to_be_visible()
    expect(page.get_by_label("Nk", exact=True)).to_have_value("5")
    expect(page.get_by_label("Nk", exact=True)).to_be_disabled()
    page.get_by_label("Br", exact=True).fill("1")
    page.get_by_role("button", name="Record", exact=True).click()
    page.wait_for_url(re.compile("block_rows=1"))
    assert re.fullmatch("[0-9a-f]{64}", query_of(page)["arrays"])
    page.get_by_role("link", name="Take named inputs").click()
    expect(page.get_by_label("inputs", exact=True)).to_have_value("random")


def test_a_file_is_recorded(page: Page, site: str) -> None:
    file = io.BytesIO()
    np.savez(file, **{name: np.ones((6, 3)) for name in "qkv"})  # type: ignore[arg-type]
    open_explorer(page, site, kernel="flash-attention-1")
    page.get_by_role("button", name="Your arrays").click()
    chosen = {"name": "mine.npz", "mimeType": "application/octet-stream", "buffer": file.getvalue()}
    page.get_by_label("Drop .npy").set_input_files(chosen)  # type: ignore[arg-type]
    page.get_by_role("button", name="Use these").click()
    page.wait_for_url(re.compile("arrays="))
    expect(page.get_by_label("Nq", exact=True)).to_have_value("6")


def test_what_is_changed_on_the_way_in_is_said_before_it_is_used(page: Page, site: str) -> None:
    open_explorer(page, site, kernel="online-softmax")
    page.get_by_role("button", name="Your arrays").click()
    page.get_by_label("Or paste numbers").fill("x\n0.1 1e300")
    page.get_by_role("button", name="Use these").click()
    expect(page.get_by_role("dialog")).to_contain_text("1 number beyond float32's range became infinite")
    page.get_by_role("button", name="Use them so").click()
    page.wait_for_url(re.compile("arrays="))


def test_arrays_that_are_gone_are_said_to_be(page: Page, site: str) -> None:
    page.goto(f"{site}/explore/flash-attention-2?arrays={'0' * 64}")
    expect(page.locator("#e-arrays")).to_have_text(re.compile("not kept here any more"))
    page.get_by_role("link", name="Take named inputs").click()
    expect(page.locator(".player")).to_be_visible()


@pytest.mark.parametrize(
    "kernel", ["standard", "online-softmax", "flash-attention-1", "flash-attention-2", "flash-decoding"]
)
def test_the_bar_is_one_line_at_1366(page: Page, site: str, kernel: str) -> None:
    page.set_viewport_size({"width": 1366, "height": 768})
    open_explorer(page, site, kernel=kernel)
    box = page.locator("#parameters").bounding_box()
    assert box is not None
    assert box["height"] < 44


def test_a_phone_opens_the_parameters_on_demand(page: Page, site: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    open_explorer(page, site)
    expect(page.get_by_label("Nq", exact=True)).to_be_hidden()
    expect(page.locator("#parameters-summary")).to_contain_text("Nq 8")
    page.get_by_role("button", name="Parameters").click()
    page.get_by_label("Nq", exact=True).fill("6")
    page.get_by_role("button", name="Record", exact=True).click()
    page.wait_for_url(re.compile("seqlen_q=6"))


def test_the_theme_is_remembered_and_a_link_may_ask_for_one(page: Page, site: str) -> None:
    page.emulate_media(color_scheme="light")
    page.goto(f"{site}/")
    page.get_by_role("button", name="Use dark colours").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.goto(f"{site}/explore/standard")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.goto(f"{site}/?theme=light")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_the_link_of_this_step_can_be_copied(page: Page, site: str) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_explorer(page, site)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.get_by_role("button", name="Copy link").first.click()
    expect(page.get_by_role("button", name="Link copied")).to_be_visible()
    assert "step=2" in page.evaluate("navigator.clipboard.readText()")


def test_a_trace_that_was_let_go_is_asked_for_again(page: Page, site: str) -> None:
    answers: list[int] = []

    def once(route: Route) -> None:
        if answers:
            route.continue_()
        else:
            route.fulfill(status=404, content_type="application/json", body='{"error": "It is gone."}')
        answers.append(1)

    page.route("**/api/recordings/*/trace", once)
    open_explorer(page, site)
    assert len(answers) == 2
