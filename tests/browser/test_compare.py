"""The compare page in a real Chromium: verdict, marks, every number, charts under the policy, keyboard, links."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, Request, Route, expect

import flashstep as fs
from flashstep.app import compare as comparisons
from flashstep.app import verdicts
from flashstep.kernels.engines import compare as engine_compare
from flashstep.kernels.engines import cpu
from flashstep.kernels.registry import KERNELS
from flashstep.trace.agreement import Agreement

pytestmark = pytest.mark.browser

FA2 = "/compare/flash-attention-2?engine=recorded"
needs_compiler = pytest.mark.skipif(cpu.unavailable() is not None, reason="no C++ compiler here")


@pytest.fixture
def browser_context_args(browser_context_args: dict[str, Any]) -> dict[str, Any]:
    return {**browser_context_args, "viewport": {"width": 1366, "height": 768}, "reduced_motion": "reduce"}


def opened(page: Page, address: str) -> Page:
    """The page once its charts are drawn."""
    page.goto(address)
    expect(page.locator("#charts")).to_have_attribute("data-drawn", "yes", timeout=30_000)
    return page


def agreement_of(kernel: str) -> tuple[fs.Run, Agreement]:
    run = fs.record(kernel)
    return run, fs.compare(run, "recorded")


def at(page: Page, step: int) -> None:
    expect(page.locator("#place")).to_have_text(re.compile(rf"^step {step} of "))


CELLS = """name => [...document.querySelectorAll(`.grid-${name} .cell`)].map(cell => cell.title)"""


def numbers(page: Page, side: str) -> np.ndarray:
    """The numbers of a grid, to the last digit."""
    texts = page.evaluate(CELLS, side)
    return np.array([float(text.replace("−", "-").replace("∞", "inf")) for text in texts], np.float32)


# The verdict and its grounds


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_verdict_and_the_marks_are_the_agreements(page: Page, site: str, kernel: str) -> None:
    run, agreement = agreement_of(kernel)
    opened(page, f"{site}/compare/{kernel}?engine=recorded&step=1")
    said = verdicts.sentence(agreement)
    expect(page.locator(".verdict.agrees .said")).to_have_text(f"{said[0].upper()}{said[1:]}.")
    expect(page.locator(".verdict .where")).to_contain_text("Recorded on an NVIDIA H200, 2026-")
    compared = {step.step for step in agreement.steps} | {len(run.trace.steps) - 1}  # the arrays stand at the end
    rows = page.locator(".row.step:not([hidden])").evaluate_all("rows => rows.map(r => [Number(r.dataset.step), r.className])")
    assert len(rows) > 5
    for step, look in rows:
        assert ("mark-agree" in look) == (step in compared), step
    expect(page.locator(".mark-differ")).to_have_count(0)


def test_every_number_of_every_step_is_the_agreements(page: Page, site: str) -> None:
    run, agreement = agreement_of("flash-attention-2")
    opened(page, f"{site}{FA2}&step=0")
    steps = {step.step: {slot.slot: slot for slot in step.slots} for step in agreement.steps}
    last = len(run.trace.steps) - 1
    ends = {f"{output.slot} (end)": output for output in agreement.outputs}
    for step in range(last + 1):
        at(page, step)
        wanted = {**steps.get(step, {}), **(ends if step == last else {})}
        tabs = page.locator(".slot-tab")
        assert set(tabs.locator("b").all_inner_texts()) == set(wanted)
        for tab in tabs.all():
            tab.click()
            slot = wanted[tab.locator("b").inner_text()]
            np.testing.assert_array_equal(numbers(page, "kernel"), slot.got.ravel())
            np.testing.assert_array_equal(numbers(page, "trace"), slot.want.ravel())
        if not wanted:
            expect(page.locator("#nothing")).not_to_be_empty()
        if step < last:
            page.locator("#next").click()


def test_a_cell_is_spelled_out(page: Page, site: str) -> None:
    _, agreement = agreement_of("flash-attention-2")
    slot = next(slot for step in agreement.steps if step.step == 5 for slot in step.slots if slot.slot == "Sij")
    opened(page, f"{site}{FA2}&step=5&cell=Sij.1.2")
    expect(page.locator(".readout-title")).to_have_text("Sij, row 1, column 2")
    values = page.locator("#readout dd").all_inner_texts()
    got, want = (np.float32(float(text.replace("−", "-"))) for text in values[:2])
    assert (got, want) == (slot.got[1, 2], slot.want[1, 2])
    gap = abs(float(got) - float(want))
    assert float(values[2].replace("−", "-")) == pytest.approx(gap, rel=1e-3)
    assert float(values[3]) == gap / float(np.spacing(np.abs(want)))
    assert values[5] == verdicts.percent(gap / slot.allowed[1, 2])
    # Hovering reads another cell for as long as it lasts.
    page.locator(".grid-kernel .cell").nth(0).hover()
    expect(page.locator(".readout-title")).to_have_text("Sij, row 0, column 0")
    page.locator("#step-label").hover()
    expect(page.locator(".readout-title")).to_have_text("Sij, row 1, column 2")


def broken(kernel: str, slot: str) -> tuple[bytes, Agreement]:
    """The comparison of a kernel that leaves a wrong number in a slot at its last tile."""
    run = fs.record(kernel)
    plan, result, note = engine_compare.execute(run, "recorded")
    assert result.probes is not None
    probes = result.probes.copy()
    probe = [probe for probe in plan.probes if probe.slot == slot][-1]
    probes[probe.offset + 2] *= 1.25
    agreement = engine_compare.judge(run, plan, dataclasses.replace(result, probes=probes), "recorded", note)
    return comparisons.pack(run, agreement, result.times, True), agreement


def test_a_difference_is_named_and_leads_to_its_step(page: Page, site: str) -> None:
    content, agreement = broken("flash-attention-2", "li")
    found = agreement.first_divergence
    assert found is not None
    page.route("**/numbers", lambda route: route.fulfill(body=content, content_type="application/octet-stream"))
    opened(page, f"{site}{FA2}&step=3")
    link = page.locator(".verdict.differs a.said")
    expect(link).to_have_text(f"F{str(found)[1:]}.")
    link.click()
    at(page, found.step)
    expect(page.locator(".slot-tab[aria-selected='true'] b")).to_have_text("li")
    expect(page.locator(f".row.step[data-step='{found.step}']")).to_have_class(re.compile("mark-differ"))
    assert page.locator(".row.mark-differ.step:not([hidden])").count() == 1
    wrong = page.locator(".grid-share .cell.wrong")
    expect(wrong).to_have_count(1)
    assert wrong.get_attribute("data-row") == "2"
    expect(page.locator("#readout")).to_have_class(re.compile("wrong"))
    expect(page).to_have_url(re.compile(rf"step={found.step}&cell=li\.2\.0"))
    page.go_back()
    at(page, 3)


# Charts


def test_the_charts_are_drawn_within_the_policy(page: Page, site: str) -> None:
    # The context fixture fails the test at any violation of the policy.
    opened(page, f"{site}/compare/flash-decoding?engine=recorded&step=5")
    run, agreement = agreement_of("flash-decoding")
    bars = page.locator("#chart-ulp .bars .point")
    compared = {step.step for step in agreement.steps} | {len(run.trace.steps) - 1}
    expect(bars).to_have_count(len(compared))
    expect(page.locator("#chart-share .heatmaplayer image")).to_have_count(1)
    blocks = sum(launch.blocks for launch in run.trace.meta.launches)
    for chart in ("measured", "lesson"):
        expect(page.locator(f"#chart-{chart} .bars .point")).to_have_count(blocks)
    expect(page.locator("#said-measured")).to_contain_text("3 blocks on 2 SMs in ")
    expect(page.locator("#said-measured")).to_contain_text("pauses between launches")
    expect(page.locator("#said-lesson")).to_contain_text("at most 2 run at once")
    # Its own rules arrived, though it may make no <style>.
    assert page.locator("#chart-ulp .main-svg").first.evaluate("svg => getComputedStyle(svg).position") == "absolute"
    assert page.locator("style").count() == 0


def test_a_chart_leads_to_its_step(page: Page, site: str) -> None:
    _, agreement = agreement_of("flash-attention-2")
    ulps = [max(slot.max_ulp for slot in step.slots) for step in agreement.steps]
    tallest = int(np.argmax(ulps))
    opened(page, f"{site}{FA2}&step=1")
    page.locator("#chart-ulp").scroll_into_view_if_needed()
    box = page.locator("#chart-ulp .bars .point").nth(tallest).bounding_box()
    assert box
    place = box["x"] + box["width"] / 4, box["y"] + box["height"] / 2
    page.mouse.move(*place)
    expect(page.locator("#chart-ulp .hovertext")).to_contain_text(f"step {agreement.steps[tallest].step}: ")
    page.mouse.click(*place)
    at(page, agreement.steps[tallest].step)


def test_only_this_page_loads_the_charts(page: Page, site: str) -> None:
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    page.on("request", note)
    for path in ("/", "/explore/flash-attention-2"):
        page.goto(site + path)
        page.wait_for_load_state("networkidle")
    assert not [address for address in asked if "plotly" in address]
    opened(page, site + FA2)
    assert [address for address in asked if "plotly" in address]


# The keyboard and the address


def test_an_address_that_the_browser_refused_is_written_later(page: Page, site: str) -> None:
    opened(page, f"{site}{FA2}&step=4")
    page.evaluate("""() => {
      const replace = history.replaceState;
      history.replaceState = () => {
        history.replaceState = replace; // refused once, for being too many
        throw new DOMException("too many", "SecurityError");
      };
    }""")
    page.keyboard.press("ArrowRight")
    at(page, 5)
    expect(page).to_have_url(re.compile(r"[?&]step=5(&|$)"))


def test_the_keyboard_reaches_every_cell_and_step(page: Page, site: str) -> None:
    opened(page, f"{site}{FA2}&step=4")
    page.locator(".grid-kernel .cell[tabindex='0']").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    expect(page.locator(".readout-title")).to_have_text("Sij, row 1, column 2")
    expect(page.locator(".grid-kernel .cell[aria-selected]")).to_be_focused()
    expect(page.locator(".cell[aria-selected]")).to_have_count(3)
    at(page, 4)
    page.keyboard.press("Escape")
    expect(page.locator(".cell[aria-selected]")).to_have_count(0)
    page.locator("#step-label").click()
    page.keyboard.press("ArrowRight")
    at(page, 5)
    page.keyboard.press("PageUp")
    at(page, 4)
    page.keyboard.press("End")
    at(page, 18)
    page.keyboard.press("Home")
    at(page, 0)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    at(page, 2)
    page.locator(".engine input:checked").focus()  # a clicker's key steps, and the engine stays
    page.keyboard.press("PageUp")
    at(page, 1)
    page.keyboard.press("PageDown")
    at(page, 2)
    expect(page).to_have_url(re.compile("engine=recorded"))
    page.locator(".slot-tab[aria-selected='true']").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".slot-tab[aria-selected='true'] b")).to_have_text("mi")
    at(page, 2)


def test_a_link_opens_the_same_place_here_and_in_the_explorer(page: Page, site: str) -> None:
    opened(page, f"{site}{FA2}&seqlen_q=8&step=8&cell=li.2.0")
    at(page, 8)
    expect(page.locator(".slot-tab[aria-selected='true'] b")).to_have_text("li")
    expect(page.locator(".grid-trace .cell[aria-selected]")).to_have_attribute("data-row", "2")
    page.get_by_role("link", name="Open in the explorer").click()
    expect(page.locator(".place")).to_have_text("step 8 of 18")
    expect(page).to_have_url(re.compile(r"/explore/flash-attention-2\?.*step=8&cell=li\.2\.0"))
    page.keyboard.press("ArrowRight")
    page.get_by_role("navigation", name="Views").get_by_role("link", name="Compare").click()
    at(page, 9)
    expect(page).to_have_url(re.compile(r"/compare/flash-attention-2\?.*step=9"))


def test_a_place_in_the_other_order_is_found(page: Page, site: str) -> None:
    opened(page, f"{site}{FA2}&step=5&order=together&focus=1")
    at(page, 14)  # what block 1 does at tick 5


@needs_compiler
def test_another_engine_is_one_click_and_back(page: Page, site: str) -> None:
    opened(page, f"{site}{FA2}&step=5")
    page.get_by_role("radio", name="cpu").check()
    expect(page.locator(".verdict.agrees .where")).to_contain_text("Run here on the processor", timeout=60_000)
    expect(page).to_have_url(re.compile("engine=cpu"))
    expect(page.locator("#said-measured")).to_contain_text("On the host, blocks run one after another")
    at(page, 5)
    page.go_back()
    expect(page.locator(".verdict.agrees .where")).to_contain_text("Recorded on")


# What cannot be


def test_what_is_unavailable_says_why(page: Page, site: str) -> None:
    missing = {name: why for name, why in fs.engines().items() if why is not None}
    opened(page, site + FA2)
    for name in fs.engines():
        choice = page.locator(f".engine input[value='{name}']")
        assert choice.is_disabled() == (name in missing)
        if name in missing:
            expect(page.locator(".why-not", has_text=missing[name])).to_be_visible()
            assert missing[name] in (page.locator(f".engine:has(input[value='{name}'])").get_attribute("title") or "")


def test_a_problem_that_was_not_captured_offers_those_that_were(page: Page, site: str) -> None:
    page.goto(f"{site}/compare/standard?engine=recorded&seqlen_k=9")
    expect(page.locator(".verdict.failed")).to_contain_text("was not captured")
    page.get_by_role("link", name="ragged").click()
    expect(page.locator(".verdict.agrees")).to_be_visible()


def test_a_comparison_can_be_cancelled_and_asked_again(page: Page, site: str) -> None:
    held: list[Route] = []
    page.route("**/api/comparisons", lambda route: held.append(route))
    page.goto(site + FA2)
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".verdict.failed")).to_contain_text("was cancelled")
    page.unroute("**/api/comparisons")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".verdict.agrees")).to_be_visible()


@pytest.mark.parametrize(("width", "height"), [(1366, 768), (1920, 1080), (390, 844)])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_is_wider_than_the_window(page: Page, site: str, width: int, height: int, theme: str) -> None:
    page.set_viewport_size({"width": width, "height": height})
    wide = "seqlen_q=40&seqlen_k=70&head_dim=16&block_rows=16&block_cols=16"
    opened(page, f"{site}{FA2}&{wide}&theme={theme}")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    expect(page.locator(".picture canvas")).to_have_count(3)


# The explorer's sources


@pytest.mark.parametrize("kernel", KERNELS)
def test_steps_and_both_sources_lead_to_each_other(page: Page, site: str, kernel: str) -> None:
    trace = fs.record(kernel).trace
    page.goto(f"{site}/explore/{kernel}")
    for name in ("cuda", "twin"):
        page.locator(f"#tab-{name}").click()
        lit = f"#panel-{name} .line.lit"
        for kind, step in enumerate(trace.meta.steps):
            lines = step.lines.get(name)
            if step.launch < 0:
                continue
            assert lines, f"{step.name} has no lines in {name}"
            page.locator(f"#{name}-{lines[0]}").click()
            place = re.match(r"step (\d+) of", page.locator(".place").inner_text())
            assert place
            assert trace.steps_kind[int(place[1])] == kind
            expect(page.locator(lit)).to_have_count(lines[1] - lines[0] + 1)
            assert page.locator(lit).first.get_attribute("id") == f"{name}-{lines[0]}"


def test_a_rows_mark_keeps_clear_of_its_words(page: Page, site: str) -> None:
    page.goto(f"{site}/compare/flash-attention-2")
    row = page.locator(".row.step.done").nth(2)
    expect(row).to_be_visible()
    mark, words = row.locator(".row-done .sign").first.bounding_box(), row.locator(".row-text").bounding_box()
    assert mark is not None
    assert words is not None
    assert mark["x"] + mark["width"] + 2 <= words["x"]


@pytest.mark.parametrize("width", [390, 1366])
def test_the_names_of_the_launches_stand_above_their_bars(page: Page, site: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(f"{site}/compare/standard")
    for chart in page.locator(".pair .chart").all():
        expect(chart.locator(".legend")).to_be_visible()
        top = min(bar["y"] for one in chart.locator(".barlayer .point path").all() if (bar := one.bounding_box()))
        for name in chart.locator(".legendtext").all():
            box = name.bounding_box()
            assert box is not None
            assert box["y"] + box["height"] <= top + 1
