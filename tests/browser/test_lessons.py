"""A lesson in the browser: the text moves the figure, the figure marks the text, and the numbers are the trace's."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

import flashstep as fs
from flashstep.app.lessons import LESSONS, read
from flashstep.trace import words

pytestmark = pytest.mark.browser


def opened(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.locator("html[data-lesson=ready]")).to_be_attached(timeout=15_000)


def place(page: Page) -> Locator:
    return page.locator("#player .place")


def test_a_phrase_moves_the_figure_and_the_figure_marks_its_paragraph(page: Page, site: str) -> None:
    opened(page, f"{site}/lessons/online-softmax")
    trace = fs.record("online-softmax").trace
    last = len(trace.steps) - 1
    expect(page.locator(".of-step[aria-current]")).to_have_count(0)

    phrase = page.get_by_role("link", name="raises the maximum of a row")
    step = int(phrase.get_attribute("data-step") or "")
    assert trace.steps[step].name == "update m, l"
    phrase.click()
    expect(place(page)).to_have_text(f"step {step} of {last}")
    expect(page).to_have_url(re.compile(rf"[?&]step={step}&cell=li\.\d+\.0"))
    expect(page.locator("#player .caption-text")).to_have_text(trace.steps[step].caption)

    marked = page.locator(".of-step[aria-current=step]")
    expect(marked).to_have_count(1)
    expect(marked).to_contain_text("The figure is here")  # in words, not by colour alone
    expect(marked).to_contain_text("raises the maximum of a row")
    expect(page.locator("#in-text a")).to_have_text("The maximum and the sum take it in")

    page.keyboard.press("ArrowRight")
    expect(place(page)).to_have_text(f"step {step + 1} of {last}")
    expect(marked).not_to_contain_text("raises the maximum of a row")
    # A phrase pushes the history, a step does not: one Back returns to before the phrase.
    expect(page).to_have_url(re.compile(rf"step={step + 1}"))
    page.go_back()
    expect(place(page)).to_have_text(f"step 0 of {last}")


def test_a_formula_shows_the_numbers_of_the_step(page: Page, site: str) -> None:
    trace = fs.record("online-softmax").trace
    step = read(LESSONS["online-softmax"], fs.record("online-softmax")).questions[0].step
    assert step is not None
    opened(page, f"{site}/lessons/online-softmax?step={step}&cell=li.2.0")
    rule = page.locator(".live[data-slot=li]")
    expect(rule.locator(".katex-mathml math")).to_have_count(1)  # what a screen reader reads
    rule.get_by_role("button", name="Numbers of this step").click()
    told = rule.locator(".live-line").inner_text()
    now, before = trace.state(step), trace.state(step - 1)
    alpha, old, new = (float(x[2]) for x in (now["alpha"], before["li"], now["li"]))
    assert told.startswith(f"li[2] = {words.number(alpha)} × {words.number(old)} + ")
    assert told.endswith(f"= {words.number(new)}")
    added = float(told.split("+ ")[1].split(" =")[0])
    assert alpha * old + added == pytest.approx(new, abs=2e-4)
    # The numbers follow the figure, and each leads to where it was made.
    page.keyboard.press("ArrowLeft")
    expect(rule.locator(".live-note")).to_contain_text(f"as step {step - 2} made it")
    rule.locator(".operand").first.click()
    expect(place(page)).to_have_text(re.compile(rf"step {step - 2} of"))
    rule.get_by_role("button", name="Letters").click()
    expect(rule.locator(".letters")).to_be_visible()


@pytest.mark.parametrize("name", list(LESSONS))
def test_every_step_marks_one_section_and_its_rules_show_its_numbers(page: Page, site: str, name: str) -> None:
    trace = fs.record(name, values="all").trace
    last = len(trace.steps) - 1
    page.add_init_script("localStorage.setItem('flashstep.formulas', 'numbers')")
    opened(page, f"{site}/lessons/{name}")
    marked, ruled = set(), 0
    for t in range(1, last + 1):
        page.keyboard.press("ArrowRight")
        expect(place(page)).to_have_text(f"step {t} of {last}")
        expect(page.locator("#player .caption-text")).to_have_text(trace.steps[t].caption)
        sections, rules = page.evaluate(
            """() => {
              const here = [...document.querySelectorAll(".of-step[aria-current=step]")];
              const said = (rule, part) => [...rule.querySelectorAll(part)].map((one) => one.textContent).join(" ");
              return [here.map((one) => one.dataset.kinds), here.flatMap((one) => [...one.querySelectorAll(".live")])
                .map((rule) => [rule.dataset.slot, rule.dataset.row, rule.dataset.col,
                  said(rule, ".live-line"), said(rule, ".live-note")])];
            }"""
        )
        assert len(sections) == 1, (t, trace.steps[t].label)
        assert str(trace.steps_kind[t]) in sections[0].split()
        marked.add(sections[0])
        for slot, row, col, line, note in rules:
            table = trace.state(t)[slot]
            number = words.number(float(table.reshape(len(table), -1)[int(row), int(col)]))
            assert line.rstrip().endswith(f"= {number}"), (t, slot, line)
            ruled += "at this step" in note
    assert len(marked) == page.locator(".of-step").count()
    assert ruled >= last / 3


def test_a_question_keeps_the_prediction_beside_the_answer(page: Page, site: str) -> None:
    opened(page, f"{site}/lessons/online-softmax")
    text = read(LESSONS["online-softmax"], fs.record("online-softmax"))
    question = next(one for one in text.questions if one.id == "alpha")
    box = page.locator("#q-alpha")
    expect(box.locator(".answer")).to_be_hidden()
    told = f"{float(question.result):.2f}"
    assert told != question.result
    box.get_by_label("Your prediction").fill(told)
    page.keyboard.press("Enter")
    expect(box.locator(".said")).to_have_text(f"You predicted {told}")
    expect(box.locator(".said")).to_have_attribute("data-verdict", "right")  # to as many digits
    expect(box.locator(".result")).to_have_text(f"Answer: {question.result}")
    expect(box.get_by_label("Your prediction")).to_have_value(told)
    box.get_by_role("link", name=re.compile("See it in the figure")).click()
    expect(place(page)).to_have_text(re.compile(f"step {question.step} of"))
    expect(page.locator("#player .explain")).to_contain_text(question.result)  # the number itself is selected there


@pytest.mark.parametrize(
    ("typed", "right"),
    [("−∞", True), ("-inf", True), ("minus infinity", True), ("0", False), ("infinity", False)],
)
def test_minus_infinity_may_be_written_as_one_likes(page: Page, site: str, typed: str, right: bool) -> None:
    opened(page, f"{site}/lessons/flash-attention-2")
    box = page.locator("#q-blind")
    box.get_by_label("Your prediction").fill(typed)
    page.keyboard.press("Enter")
    expect(box.locator(".result")).to_have_text("Answer: −∞")
    expect(box.locator(".said")).to_have_attribute("data-verdict", "right" if right else "")


def test_keys_read_the_text_and_step_the_figure(page: Page, site: str) -> None:
    opened(page, f"{site}/lessons/standard")
    page.evaluate("document.fonts.ready.then(() => true)")  # the text is as long as it will be
    page.keyboard.press("End")  # a text scrolls to its end, and the figure stays
    expect(page.get_by_role("heading", name="Papers and further reading")).to_be_in_viewport()
    expect(place(page)).to_have_text(re.compile("step 0 of"))
    page.keyboard.press("ArrowRight")
    expect(place(page)).to_have_text(re.compile("step 1 of"))
    page.locator("#player .slider").focus()
    page.keyboard.press("End")
    last = len(fs.record("standard").trace.steps) - 1
    expect(place(page)).to_have_text(f"step {last} of {last}")
    for control in page.locator("#player button:visible").all():
        assert control.get_attribute("aria-label") or control.inner_text()


FOCUSED = """() => {
  const node = document.activeElement, { width, top, bottom } = node.getBoundingClientRect();
  const { outlineStyle, boxShadow } = getComputedStyle(node);
  return { href: node.getAttribute("href"), tag: node.tagName, seen: width > 0 && bottom > 0 && top < innerHeight,
    marked: outlineStyle !== "none" || boxShadow !== "none" };
}"""


def tab_to(page: Page, href: str) -> None:
    for _ in range(60):
        page.keyboard.press("Tab")
        focused = page.evaluate(FOCUSED)
        assert focused["seen"], focused
        assert focused["marked"], focused
        if focused["href"] == href:
            return
    raise AssertionError(f"Tab never comes to {href}")


@pytest.mark.parametrize(("width", "height"), [(1366, 768), (390, 844), (683, 384)])  # the last is the first at 200 % zoom
def test_from_home_to_a_lessons_last_step_by_keyboard_alone(page: Page, site: str, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.goto(site)
    tab_to(page, "/lessons/")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{site}/lessons/")  # and its load: a key before that goes to the page that is left
    tab_to(page, "/lessons/flash-decoding")
    page.keyboard.press("Enter")
    expect(page.locator("html[data-lesson=ready]")).to_be_attached(timeout=15_000)
    last = len(fs.record("flash-decoding").trace.steps) - 1
    for step in range(1, last + 1):
        page.keyboard.press("ArrowRight")
        expect(place(page)).to_have_text(f"step {step} of {last}")
    # A phrase and a question are reached and answered the same way.
    page.locator("#q-weight").get_by_label("Your prediction").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#q-weight .answer")).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(place(page)).not_to_have_text(f"step {last} of {last}")
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")


def test_other_sizes_change_the_text_and_keep_the_place(page: Page, site: str) -> None:
    opened(page, f"{site}/lessons/online-softmax")
    page.locator("#trips-across-hbm").scroll_into_view_if_needed()
    loaded = [fs.record("online-softmax", seqlen_k=keys).trace.ledger()["X"]["loads"]["elements"] for keys in (8, 6)]
    expect(page.locator(".prose table").filter(has_text="ledger").locator("td").nth(3)).to_have_text(str(loaded[0]))
    page.evaluate("document.getElementById('trips-across-hbm').scrollIntoView()")
    page.get_by_label("columns").fill("6")
    page.get_by_label("columns").press("Enter")
    expect(page).to_have_url(re.compile("seqlen_k=6"))
    expect(page.locator("html[data-lesson=ready]")).to_be_attached(timeout=15_000)
    expect(page.locator(".prose table").filter(has_text="ledger").locator("td").nth(3)).to_have_text(str(loaded[1]))


def test_sizes_beyond_a_lesson_are_refused_at_their_field(page: Page, site: str) -> None:
    page.goto(f"{site}/lessons/standard?seqlen_q=200&seqlen_k=200")
    expect(page.locator("#e-seqlen_k")).to_contain_text("a lesson goes through 2,000 at most")
    expect(page.get_by_role("link", name="The lesson with its own sizes")).to_be_visible()
    page.get_by_role("link", name="These sizes in the explorer").click()
    expect(page).to_have_url(re.compile(r"/explore/standard\?seqlen_q=200&seqlen_k=200"))


def test_a_lesson_without_script_is_whole(browser: Browser, site: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{site}/lessons/online-softmax?seqlen_k=6")
    phrase = page.get_by_role("link", name="the first tile").first
    assert re.search(r"\?seqlen_k=6&step=\d+", phrase.get_attribute("href") or "")
    page.locator("#q-reads summary").click()
    reads = fs.record("online-softmax", seqlen_k=6).trace.ledger()["X"]["loads"]["elements"]
    expect(page.locator("#q-reads .result")).to_have_text(f"Answer: {reads}")
    page.get_by_role("link", name="All steps in words").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Online softmax: all steps in words")
    context.close()


def test_all_mathematics_is_typeset_and_read_aloud(page: Page, site: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    for name in LESSONS:
        opened(page, f"{site}/lessons/{name}")
        expect(page.locator(".math.unread")).to_have_count(0)
        formulas = page.locator(".math")
        assert formulas.count() > 20
        assert page.locator(".math .katex-mathml math").count() == formulas.count()
        assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")  # what is wide scrolls in its own place
