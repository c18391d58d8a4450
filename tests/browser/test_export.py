"""What is taken away: a step as SVG and PNG, a run as one file that plays without a network, a handout as PDF."""

from __future__ import annotations

import base64
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect
from pypdf import PdfReader
from pypdf.generic import DictionaryObject

import flashstep as fs
from flashstep.app import export
from flashstep.trace import file

pytestmark = pytest.mark.browser

WIDE: ViewportSize = {"width": 1366, "height": 768}
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def browser_context_args(browser_context_args: dict[str, Any]) -> dict[str, Any]:
    return {**browser_context_args, "viewport": WIDE, "reduced_motion": "reduce"}


def opened(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.locator(".place")).to_have_text(re.compile(r"step \d+ of \d+"))


def saved(page: Page, kind: str) -> tuple[str, bytes]:
    """The name and the bytes of what the player's Save gives."""
    page.get_by_role("button", name="Save this step").click()
    with page.expect_download() as download:
        page.locator(".save-item", has=page.get_by_text(kind, exact=True)).click()
    expect(page.locator(".save-list")).to_be_hidden()
    return download.value.suggested_filename, download.value.path().read_bytes()


# A step as a picture


# Numbers, carries that begin at minus infinity, NaN and guarded lanes; and heat maps of arrays too large for numbers.
PICTURES = [
    ("/explore/flash-attention-2?seqlen_q=7&seqlen_k=7&step=2&theme=light", "flash-attention-2", 2),
    ("/explore/flash-attention-2?step=8&cell=li.1.0&theme=dark", "flash-attention-2", 8),
    ("/explore/standard?seqlen_q=64&seqlen_k=64&head_dim=32&block_rows=16&block_cols=16&step=40&theme=light", "standard", 40),
]
# How far two pictures are apart, 0 to 255, in the worst of 40 × 30 areas: an edge may fall half a pixel beside another.
COMPARE = """async ([first, second]) => {
  const areas = async (url, [x, y, w, h]) => {
    const image = new Image();
    image.src = url;
    await image.decode();
    const context = new OffscreenCanvas(480, 360).getContext("2d");
    context.imageSmoothingQuality = "high";
    context.drawImage(image, x, y, w || image.width, h || image.height, 0, 0, 480, 360);
    const { data } = context.getImageData(0, 0, 480, 360);
    const sums = new Float64Array(40 * 30 * 3);
    for (let i = 0; i < 480 * 360; i += 1) {
      const area = Math.floor(i / 480 / 12) * 40 + Math.floor((i % 480) / 12);
      for (let c = 0; c < 3; c += 1) sums[area * 3 + c] += data[4 * i + c] / 144;
    }
    return sums;
  };
  const [a, b] = [await areas(...first), await areas(...second)];
  return Math.max(...a.map((x, i) => Math.abs(x - b[i])));
}"""


def url(data: bytes, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


@pytest.mark.parametrize(("address", "kernel", "step"), PICTURES)
def test_a_step_is_saved_as_it_is_shown(page: Page, site: str, browser: Browser, address: str, kernel: str, step: int) -> None:
    opened(page, site + address)
    shown = page.locator(".figure-svg").screenshot()
    name, text = saved(page, "SVG")
    assert name == f"{kernel}-step-{step}.svg"
    root = ET.fromstring(text)
    title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert description is not None
    last = page.locator(".place").inner_text().rsplit(" ", 1)[1]
    assert re.search(rf", step {step} of {last}: \S", title.text or "")
    assert description.text == page.locator(".caption-text").inner_text()

    # It stands alone: no class, no variable, no colour that only a browser reads, and every reference is inside it.
    assert not {name for node in root.iter() for name in node.attrib} & {"class", "style", "data-key"}
    plain = text.decode()
    assert not re.search(r"var\(|color-mix|color\(|\brgba?\(|currentcolor", plain, re.IGNORECASE)
    assert "url(#" not in plain  # hatching is drawn: not every program knows a pattern
    assert f"{SVG}pattern" not in {node.tag for node in root.iter()}
    links = re.findall(r'href="([^"]{0,30})', plain)
    assert all(link.startswith("data:image/png") for link in links)
    assert bool(links) == ("seqlen_q=64" in address)

    name, picture = saved(page, "PNG")
    assert name == f"{kernel}-step-{step}.png"
    assert picture.startswith(b"\x89PNG")
    with browser.new_context() as context:  # a page with none of the site's style
        other = context.new_page()
        size: list[int] = [int(float(root.attrib[side])) - 24 for side in ("width", "height")]
        for data, kind, scale in ((text, "image/svg+xml", 1), (picture, "image/png", 2)):
            inside = [scale * x for x in (12, 12, *size)]  # without the margin
            assert other.evaluate(COMPARE, [[url(shown, "image/png"), [0, 0, 0, 0]], [url(data, kind), inside]]) < 20


# Each pattern of the figure on a rectangle that cuts it anywhere, and the same drawn as shapes, as two pictures.
HATCHED = """async () => {
  const { drawHatching } = await import("/static/player/hatching.js");
  const figure = document.querySelector(".figure-svg");
  const picture = (svg) => `data:image/svg+xml,${encodeURIComponent(new XMLSerializer().serializeToString(svg))}`;
  const make = (tag, attributes) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };
  return [...figure.querySelectorAll("pattern")].map((pattern) => {
    const svg = make("svg", { width: 120, height: 90, viewBox: "0 0 120 90" });
    const copy = pattern.cloneNode(true);
    [...pattern.children].forEach((mark, n) => {
      const style = getComputedStyle(mark);
      for (const name of ["fill", "opacity"]) copy.children[n].setAttribute(name, style[name]);
      copy.children[n].removeAttribute("class");
    });
    const defs = make("defs", {});
    defs.append(copy);
    const turned = make("g", { transform: "translate(4.5 2.25)" });
    const look = { fill: `url(#${pattern.id})`, opacity: 0.8, "fill-opacity": 0.9, stroke: "#000000", "stroke-width": 2 };
    turned.append(make("rect", { x: 3, y: 7.5, width: 101, height: 69, ...look }));
    svg.append(defs, turned);
    const before = picture(svg);
    drawHatching(svg);
    const left = svg.querySelectorAll("pattern, [fill^=url]").length;
    return { name: pattern.id.split("-")[1], before, after: picture(svg), left };
  });
}"""


def test_hatching_is_drawn_as_it_looked(page: Page, site: str) -> None:
    opened(page, f"{site}/explore/flash-attention-2?step=2")
    found = page.evaluate(HATCHED)
    assert [one["name"] for one in found] == ["guarded", "stale", "uninit", "ninf", "inf", "nan"]
    for one in found:
        assert one["left"] == 0
        assert one["before"] != one["after"]
        whole = [0, 0, 120, 90]
        assert page.evaluate(COMPARE, [[one["before"], whole], [one["after"], whole]]) < 12, one["name"]
    blank = "data:image/svg+xml," + "%3Csvg xmlns='http://www.w3.org/2000/svg' width='120' height='90'/%3E"
    for one in found:  # and the comparison would see a mark that is missing
        assert page.evaluate(COMPARE, [[one["before"], whole], [blank, whole]]) > 20, one["name"]


def test_saving_by_keyboard(page: Page, site: str) -> None:
    opened(page, f"{site}/explore/standard?step=3")
    opener, menu = page.get_by_role("button", name="Save this step"), page.locator(".save-list")
    opener.focus()
    page.keyboard.press("Enter")
    expect(menu).to_be_visible()
    expect(opener).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Tab")
    expect(menu.locator(".save-item").first).to_be_focused()
    page.keyboard.press("Escape")
    expect(menu).to_be_hidden()
    expect(opener).to_be_focused()
    expect(page.locator(".place")).to_have_text(re.compile("^step 3 of"))


# A run in one file


class File:
    """A page opened from a file, with the network cut. It notes what it asks for and what its policy stops."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page, self.asked, self.stopped = page, list[str](), list[str]()
        self.errors = list[str]()
        page.context.set_offline(True)
        page.context.route("**/*", lambda route: route.continue_() if route.request.url.startswith("file:") else route.abort())
        page.on("request", lambda request: self.asked.append(request.url) if not request.url.startswith("data:") else None)
        page.on("console", lambda said: self.stopped.append(said.text) if "Content Security Policy" in said.text else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(path.as_uri())
        expect(page.locator(".place")).to_have_text(re.compile(r"step \d+ of \d+"))

    def at(self, step: int, run: fs.Run) -> None:
        expect(self.page.locator(".place")).to_have_text(f"step {step} of {len(run.trace.steps) - 1}")
        expect(self.page.locator(".caption-text")).to_have_text(run.trace.steps[step].caption)


@pytest.fixture
def alone(browser: Browser) -> Iterator[Page]:
    """A page of its own: here the network is cut and policies are meant to be broken."""
    with browser.new_context(viewport=WIDE, reduced_motion="reduce") as context:
        yield context.new_page()


def test_a_run_plays_from_a_file_without_a_network(alone: Page, tmp_path: Path) -> None:
    run = fs.record("flash-attention-2", causal=True)
    (tmp_path / "run.html").write_text(export.page(run.to_bytes(), {"step": "5", "cell": "li.1.0"}), encoding="utf-8")
    opened = File(alone, tmp_path / "run.html")
    opened.at(5, run)
    for step in range(6, len(run.trace.steps)):
        alone.keyboard.press("ArrowRight")
        opened.at(step, run)
    alone.locator(".row.step", has_text="fill S10").click()
    step = next(step.index for step in run.trace.steps if step.label == "fill S10")
    opened.at(step, run)
    # The source with the step's lines, the ledger, the carries and the explanation are there as on the site.
    first, last = run.trace.step_info(step).lines["twin"]
    alone.get_by_role("tab", name="NumPy twin").click()
    lit = alone.locator("#panel-twin .line.lit")
    expect(lit).to_have_count(last - first + 1)
    expect(lit.first).to_have_id(f"twin-{first}")
    assert alone.locator("#panel-twin .line .k, #panel-twin .line .kn").count() > 3  # in colours
    expect(alone.get_by_role("tab", name="CUDA")).to_be_visible()
    for array, entry in run.trace.ledger(step).items():
        for way in ("loads", "stores"):
            row = alone.locator(f"tr[data-array='{array}'][data-way='{way}'] td[data-count='bytes']")
            if row.count():
                expect(row).to_have_attribute("data-now", str(entry[way]["bytes"]))
    expect(alone.locator(".explanation")).to_contain_text("li[1]")
    alone.get_by_role("button", name="together").click()
    expect(alone.locator(".place")).to_have_text(re.compile(r"step \d+ of "))
    assert re.search(r"run\.html\?step=\d+&order=together&", alone.evaluate("location.href"))
    assert saved(alone, "SVG")[1].startswith(b"<?xml")
    assert saved(alone, "PNG")[1].startswith(b"\x89PNG")
    expect(alone.locator("a.save-item")).to_have_count(0)  # nothing that a server would have to make
    assert [address for address in opened.asked if not address.startswith(("blob:", (tmp_path / "run.html").as_uri()))] == []
    assert opened.stopped == []
    assert opened.errors == []

    # Its policy stops whatever else were to reach out or to run.
    for reach in (
        "fetch('https://flashstep.invalid/').catch(() => 0)",
        "new Image().src = 'https://flashstep.invalid/x.png'",
        "document.head.append(Object.assign(document.createElement('script'), {textContent: 'window.broken = 1'}))",
        "document.body.insertAdjacentHTML('beforeend', '<iframe src=\"https://flashstep.invalid/\"></iframe>')",
    ):
        before = len(opened.stopped)
        with alone.expect_console_message(lambda message: "Content Security Policy" in message.text):
            alone.evaluate(f"() => {{ {reach} }}")
        assert len(opened.stopped) > before
    assert alone.evaluate("window.broken") is None


def test_a_hostile_trace_is_only_text_in_its_file(alone: Page, tmp_path: Path) -> None:
    trace = file.from_bytes(fs.record("standard").to_bytes())
    bad = "</script><script>window.broken = 1</script><img src=x onerror='window.broken = 2'>"
    steps = tuple(replace(step, label=step.label + bad) for step in trace.meta.steps)
    sources = {name: f"{bad}\n{text}" for name, text in trace.meta.sources.items()}
    captions = tuple(bad + caption for caption in trace.meta.captions)
    arrays = tuple(replace(array, name=bad + array.name) for array in trace.meta.arrays)
    launches = tuple(
        replace(
            launch,
            name=bad,
            title=bad,
            grid=tuple((bad + name, size) for name, size in launch.grid),
            slots=tuple(replace(slot, name=bad + slot.name) for slot in launch.slots),
        )
        for launch in trace.meta.launches
    )
    trace.meta = replace(
        trace.meta,
        title=bad,
        steps=steps,
        sources=sources,
        captions=captions,
        arrays=arrays,
        launches=launches,
        problem={**trace.meta.problem, "inputs": bad},
    )
    (tmp_path / "bad.html").write_text(export.page(file.to_bytes(trace)), encoding="utf-8")
    opened = File(alone, tmp_path / "bad.html")
    expect(alone.locator("h1")).to_have_text(bad)
    expect(alone.locator(".caption-text")).to_contain_text(bad)
    alone.get_by_role("tab", name="NumPy twin").click()
    expect(alone.locator("#twin-1")).to_have_text(bad)
    for _ in range(3):
        alone.keyboard.press("ArrowRight")
    alone.get_by_role("button", name="Explain").click()
    expect(alone.locator(".explanation-name")).to_contain_text(bad)
    alone.get_by_role("tab", name="Carries").click()
    picture = ET.fromstring(saved(alone, "SVG")[1])
    assert bad in "".join(picture.itertext())
    assert {node.tag for node in picture.iter()} & {f"{SVG}script", f"{SVG}img", "script", "img"} == set()
    assert opened.errors == []
    assert alone.evaluate("window.broken") is None
    assert alone.locator("img").count() == 0
    assert opened.stopped == []


def test_a_lesson_is_read_from_a_file_without_a_network(alone: Page, tmp_path: Path) -> None:
    run = fs.record("flash-decoding")
    (tmp_path / "lesson.html").write_text(export.lesson_page(run.to_bytes()), encoding="utf-8")
    opened = File(alone, tmp_path / "lesson.html")
    expect(alone.locator("html")).to_have_attribute("data-lesson", "ready")
    assert alone.locator(".math").count() == alone.locator(".math:has(.katex)").count() > 50
    assert alone.evaluate("document.fonts.ready.then(() => document.fonts.check('16px KaTeX_Main'))")
    link = alone.locator("a[data-step]:visible").first
    step = int(link.get_attribute("data-step") or -1)
    link.click()
    opened.at(step, run)
    alone.locator(".question .reveal > summary").first.click()
    expect(alone.locator(".question .answer").first).to_be_visible()
    chart = alone.locator(".chart").first
    chart.scroll_into_view_if_needed()
    expect(chart.locator("svg.main-svg").first).to_be_visible(timeout=20_000)
    for field in alone.locator(".decode-form input[type='text']").all():
        expect(field).to_be_disabled()  # nobody could work it out anew
    assert [address for address in opened.asked if not address.startswith((tmp_path / "lesson.html").as_uri())] == []
    assert opened.stopped == []
    assert opened.errors == []


def test_the_explorer_leads_to_the_file_and_the_handout(page: Page, site: str, tmp_path: Path) -> None:
    opened(page, f"{site}/explore/flash-decoding?seqlen_k=12&step=4")
    page.keyboard.press("ArrowRight")
    name, text = saved(page, "HTML")
    assert name == "flash-decoding.html"
    run = fs.record("flash-decoding", seqlen_k=12)
    assert text.decode() == export.page(run.to_bytes(), {"step": "5"})
    page.get_by_role("button", name="Save this step").click()
    page.get_by_role("link", name="Handout").click()
    expect(page).to_have_url(re.compile(r"/handout/flash-decoding\?seqlen_k=12&"))
    laid(page)


# A handout


def laid(page: Page) -> None:
    """Every figure stands on the paper."""
    expect(page.locator("#paper")).to_have_attribute("aria-busy", "false", timeout=30_000)


def test_a_handout_prints_each_chosen_step_with_its_caption(page: Page, site: str) -> None:
    run = fs.record("flash-attention-2", causal=True)
    page.emulate_media(color_scheme="dark")
    page.goto(f"{site}/handout/flash-attention-2?causal=true&steps=2,7-8&theme=dark")
    laid(page)
    expect(page.locator(".plate svg")).to_have_count(3)
    assert page.evaluate("getComputedStyle(document.getElementById('paper')).backgroundColor") == "rgb(255, 255, 255)"
    # Each figure is the step's own, and in light colours.
    expect(page.locator("#step-8 svg title")).to_have_text(f"Step 8: {run.trace.steps[8].label}")
    assert page.locator("#step-8 svg > rect").first.get_attribute("fill") == "#ffffff"
    for per, paper, paged in ((2, "A4", [[2, 7], [8]]), (2, "Letter", [[2, 7], [8]]), (1, "A4", [[2], [7], [8]])):
        page.get_by_role("radio", name="one" if per == 1 else "two").check()
        expect(page.locator("#paper")).to_have_attribute("data-per", str(per))
        laid(page)
        reader = PdfReader(BytesIO(page.pdf(format=paper)))
        assert pictures(reader) == 0  # lines and letters are sharp on any printer, and small: hatching was half a megabyte a step
        pages = [flat(sheet.extract_text()) for sheet in reader.pages]
        assert len(pages) == len(paged), f"{len(pages)} pages of {paper} with {per} on each"
        assert flat("FlashAttention 2") in pages[0]
        for n, (text, steps) in enumerate(zip(pages, paged, strict=True), 1):
            for step in steps:
                assert flat(run.trace.steps[step].caption) in text
                assert flat(f"Step {step} of {len(run.trace.steps) - 1} {run.trace.steps[step].label}") in text
            assert text.count("Step") == len(steps)
            assert flat(f"{n} of {len(paged)}") in text
            assert flat("Or tick them") not in text


def pictures(reader: PdfReader) -> int:
    """How many pictures a PDF holds, those inside its patterns too."""
    found = [reader.get_object(n) for n in range(1, int(str(reader.trailer["/Size"])))]
    return sum(1 for one in found if isinstance(one, DictionaryObject) and one.get("/Subtype") == "/Image")


def flat(text: str) -> str:
    """Without spaces, which a PDF sets as it likes, and without the ligatures of its font."""
    return re.sub(r"\s", "", text).replace("ﬁ", "fi").replace("ﬂ", "fl")


def test_a_handouts_steps_are_typed_and_ticked(page: Page, site: str) -> None:
    page.goto(f"{site}/handout/standard")
    field, fault = page.get_by_label("Steps", exact=True), page.locator("#steps-fault")
    laid(page)
    last = len(fs.record("standard").trace.steps) - 1
    assert page.locator(".plate").count() > 2  # where nobody chose

    def shown(*steps: int) -> None:
        expect(page.locator(".plate")).to_have_count(len(steps))
        wanted = [str(step) for step in steps]
        assert [plate.get_attribute("id") for plate in page.locator(".plate").all()] == [f"step-{step}" for step in wanted]
        assert [tick.get_attribute("value") for tick in page.locator("#ticks input:checked").all()] == wanted

    steps: tuple[int, ...]
    for text, steps in (("5, 2;9-11", (2, 5, 9, 10, 11)), ("4 – 6 6", (4, 5, 6)), (f"{last}", (last,))):
        field.fill(text)
        field.press("Enter")
        shown(*steps)
        expect(fault).to_be_hidden()
    for text, steps, words in (
        ("3, x", (3,), "“x” is neither a step nor a range such as 9-12."),
        (f"3, {last + 1}", (3,), f"The last step is {last}."),
        ("-4", (), "“-4” is neither a step nor a range such as 9-12."),
    ):
        field.fill(text)
        field.press("Enter")
        shown(*steps)
        expect(fault).to_have_text(words)
    expect(page.get_by_role("button", name="Print")).to_be_disabled()
    page.locator("#ticks input[value='1']").check()
    page.locator("#ticks input[value='2']").check()
    shown(1, 2)
    expect(field).to_have_value("1, 2")
    expect(page).to_have_url(re.compile(r"steps=1,2&per=2$"))
