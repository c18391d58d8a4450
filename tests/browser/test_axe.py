"""Every page for everyone: axe finds no violation in light and in dark, figures keep their contrast, and zoom and still
figures work."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, Page, ViewportSize, expect

import flashstep as fs
from flashstep.app import export

pytestmark = pytest.mark.browser

WIDE: ViewportSize = {"width": 1366, "height": 768}
ZOOMED: ViewportSize = {"width": 683, "height": 384}  # what 200 % leaves of it
PLAYER = ".place"
# A page, and what is there once it has opened.
PAGES = {
    "/": ".card .count:text('step')",
    **{f"/explore/{kernel}?step=8": PLAYER for kernel in ("standard", "flash-decoding")},  # the others' pages are made alike
    "/explore/flash-attention-2?inputs=first-tile-masked&step=8&cell=li.1.0&order=together": ".explanation-name",
    "/explore/flash-attention-2?embed=1&step=8": PLAYER,
    "/explore/flash-attention-2?seqlen_k=no": ".notice",
    "/explore/no-such-kernel": ".notice",
    "/compare/flash-attention-2": "#verdict:not(.waiting)",
    "/handout/flash-attention-2?steps=2,8": "#paper[aria-busy='false']",
    "/lessons/": "main",
    **{f"/lessons/{kernel}": PLAYER for kernel in ("online-softmax", "flash-decoding")},
    "/lessons/flash-attention-2/walk": "main",
    "/lecture/flash-attention-2?step=8": ".strip .line",
    "/lecture/flash-decoding": ".strip .line",
    "/lecture/flash-decoding?step=1&card=answer-idle": "#question .katex",
    "/lecture/flash-attention-2?step=18&card=end": "#end h1",
    "/lecture/flash-attention-2/presenter": "main",
    "/f/": "main",
}
COLOURS = ["color-contrast", "link-in-text-block"]  # what another theme can break

# The words in a figure, which axe cannot judge: each text's contrast with its cell, or with the panel under it.
CONTRAST = """async () => {
  const { plainColour } = await import("/static/player/standalone.js");
  const rgba = (text) => {
    const { colour, alpha } = plainColour(text);
    return [...[1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16)), alpha];
  };
  const over = ([r, g, b, a], under) => [r, g, b].map((x, i) => a * x + (1 - a) * under[i]);
  const light = (colour) => {
    const [r, g, b] = colour.map((x) => (x / 255 <= 0.03928 ? x / 255 / 12.92 : ((x / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const svg = document.querySelector(".figure-svg");
  const style = (node) => getComputedStyle(node);
  const opacity = (node) => (node === svg ? 1 : Number(style(node).opacity) * opacity(node.parentElement));
  const panel = svg.querySelector(".f-panel.f-hbm");
  const [ground, paper] = [rgba(style(panel).fill), rgba(style(document.body).backgroundColor)];
  const edge = panel.getBoundingClientRect().bottom;
  const faint = [];
  let judged = 0;
  for (const text of svg.querySelectorAll("text:not(.f-square-text)")) {
    if (!text.textContent.trim()) continue;
    const cell = text.parentElement.matches(".f-cells") ? text.previousElementSibling : null;
    let under = text.getBoundingClientRect().bottom < edge ? ground : paper;
    if (cell && style(cell).fill.startsWith("url")) continue; // a pattern; its text is bold or has a halo
    if (cell && style(cell).fill !== "none") {
      const [r, g, b, a] = rgba(style(cell).fill);
      under = over([r, g, b, a * Number(style(cell).fillOpacity) * opacity(cell)], under);
    }
    for (const part of [text, ...text.querySelectorAll("tspan")]) {
      const [r, g, b, a] = rgba(style(part).fill);
      const [low, high] = [light(over([r, g, b, a * opacity(text)], under)), light(under)].sort((x, y) => x - y);
      judged += 1;
      if ((high + 0.05) / (low + 0.05) < 4.5) faint.push(`${part.textContent.slice(0, 20)} (${text.getAttribute("class")})`);
    }
  }
  return { judged, faint };
}"""


@pytest.fixture
def browser_context_args(browser_context_args: dict[str, Any]) -> dict[str, Any]:
    return {**browser_context_args, "viewport": WIDE, "reduced_motion": "reduce", "color_scheme": "light"}


def violations(page: Page, rules: list[str] | None = None) -> list[str]:
    """What axe finds, a line each: the rule, and the first elements at fault."""
    options = {"resultTypes": ["violations"], **({"runOnly": rules} if rules else {})}
    found = page.evaluate("(options) => axe.run(document, options)", options)["violations"]
    return [f"{one['id']}: {one['help']}: {[node['html'][:120] for node in one['nodes'][:3]]}" for one in found]


def judged(page: Page) -> list[str]:
    """What axe finds in light, and what the dark colours break."""
    page.evaluate(AXE_SCRIPT)
    # A figure is hidden from screen readers, and of its contrast axe can only say, after half a minute, that it cannot judge
    # it: see CONTRAST. A listing's colours are judged by its first lines, and the thousands of parts of a lesson's mathematics
    # as its letters.
    page.evaluate("""() => {
      for (const figure of document.querySelectorAll(".figure-svg")) figure.remove();
      for (const listing of document.querySelectorAll(".listing")) {
        for (const line of [...listing.querySelectorAll(".line")].slice(20)) {
          for (const word of line.querySelectorAll("span:not(:has(*))")) word.replaceWith(word.textContent);
        }
      }
      for (const math of document.querySelectorAll(".math:has(.katex-html)")) {
        math.textContent = math.querySelector(".katex-html").textContent;
      }
    }""")
    found = violations(page)
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    return found + [f"dark: {line}" for line in violations(page, COLOURS)]


def opened(page: Page, site: str, path: str) -> None:
    """Open a page of PAGES; the students' page follows a lecture that is opened for it."""
    if path == "/f/":
        path += page.request.post(f"{site}/api/follow", data={}).json()["code"]
    page.goto(site + path)
    expect(page.locator(PAGES.get(path, "main")).first).to_be_visible(timeout=30_000)


@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_nothing(page: Page, site: str, path: str) -> None:
    opened(page, site, path)
    assert judged(page) == []


def test_axe_finds_nothing_in_what_opens_on_a_page(page: Page, site: str) -> None:
    opened(page, site, "/explore/flash-attention-2?step=8")
    page.evaluate(AXE_SCRIPT)
    page.get_by_role("button", name="Save this step").click()
    page.locator(".more > summary").click()
    assert violations(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Keys").click()
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    assert violations(page) == []


def test_axe_finds_nothing_in_what_opens_in_a_lecture(page: Page, site: str) -> None:
    opened(page, site, "/lecture/flash-attention-2?step=8")
    page.evaluate(AXE_SCRIPT)
    for key, name in (("?", "Keys"), ("l", "Follow this lecture")):
        page.keyboard.press(key)
        dialog = page.get_by_role("dialog", name=name)
        expect(dialog).to_be_visible()
        expect(dialog).not_to_contain_text("Opening a session")
        assert violations(page) == [], name
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
    page.keyboard.press("b")
    expect(page.locator("#blank")).to_be_visible()
    assert violations(page) == []


def test_axe_finds_nothing_in_a_saved_file(page: Page, tmp_path: Path) -> None:
    trace = fs.record("flash-decoding").to_bytes()
    for name, html, step in (("run", export.page(trace, {"step": "9"}), 9), ("lesson", export.lesson_page(trace), 0)):
        (tmp_path / f"{name}.html").write_text(html, encoding="utf-8")
        page.goto((tmp_path / f"{name}.html").as_uri())
        expect(page.locator(".place")).to_have_text(re.compile(f"^step {step} of"))
        assert judged(page) == [], name


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_word_of_a_figure_can_be_read(page: Page, site: str, theme: str) -> None:
    # Old and stale numbers, deep tints, splits, and NaN, where words stand on patterns.
    for path in ("flash-attention-2?step=8&inputs=large", "flash-attention-1?step=12&causal=true", "flash-decoding?step=9"):
        page.goto(f"{site}/explore/{path}&theme={theme}")
        expect(page.locator(".place")).to_have_text(re.compile(r"step \d+ of"))
        found = page.evaluate(CONTRAST)
        assert found["judged"] > 60
        assert found["faint"] == [], path


@pytest.mark.parametrize("path", ["/", "/explore/flash-attention-2?step=8", "/explore/flash-attention-2?embed=1&step=8",
                                  "/compare/flash-attention-2", "/handout/flash-attention-2?steps=2,8", "/lessons/",
                                  "/lessons/flash-attention-2", "/lecture/flash-decoding?step=1&card=answer-idle",
                                  "/lecture/flash-attention-2/presenter", "/f/"])  # fmt: skip
def test_at_twice_the_size_nothing_is_cut_off(page: Page, site: str, path: str) -> None:
    page.set_viewport_size(ZOOMED)
    opened(page, site, path)
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    if path.startswith("/explore"):
        next_button = page.get_by_role("button", name="Next step")
        next_button.click()
        expect(page.locator(".place")).to_have_text(re.compile("^step 9 of"))
        for part in (next_button, page.locator(".caption-text"), page.get_by_role("button", name="Save this step")):
            expect(part).to_be_in_viewport(ratio=1)


def test_nothing_moves_for_whoever_wants_it_still(page: Page, browser: Browser, site: str) -> None:
    running = "document.getAnimations().filter((animation) => animation.playState === 'running').length"
    step = f"""() => new Promise((resolve) => {{
      document.dispatchEvent(new KeyboardEvent("keydown", {{ key: "ArrowRight", bubbles: true }}));
      requestAnimationFrame(() => resolve({running}));
    }})"""
    for path in ("/explore/flash-attention-2?step=2", "/lessons/flash-attention-2", "/lecture/flash-attention-2?step=8"):
        opened(page, site, path)
        assert page.evaluate(step) == 0
    assert page.evaluate(running) == 0
    with browser.new_context(reduced_motion="no-preference") as context:  # so that the above can fail
        other = context.new_page()
        other.goto(f"{site}/explore/flash-attention-2?step=2")
        expect(other.locator(".place")).to_have_text(re.compile("^step 2 of"))
        assert other.evaluate(step) > 0
