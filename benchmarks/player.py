"""What the player costs: run by hand, `python benchmarks/player.py`; results go to `benchmarks/results/`.

It serves the app, drives a real Chromium at 1366×768 with motion on, and measures on the trace of 200,000 steps (FA2,
N = 8192, d = 64, tiles of 32, structure only): opening it, 300 steps forward one key press at a time, each with its
flights; 500 with the key held down, a step a frame, where nothing flies; 200 jumps anywhere; and how long a cold request
of the textbook's page takes to its first figure. A step's time runs from the key press until the frame that shows it is
ready: the handlers, and the layout and style that they call for.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, Playwright, expect, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).with_name("results")

LONG = "/explore/flash-attention-2?seqlen_q=8192&seqlen_k=8192&head_dim=64&block_rows=32&block_cols=32&values=none"
BOOK = "/explore/flash-attention-2"
MINUTES = 180_000  # recording 200,000 steps may take a while on a small machine

PRESSED_MS = 150  # slower than a key held down: each step flies
HELD_MS = 0

# Each press is timed until the page is laid out; a frame passes in between, so that presses do not share one.
STEPS = """
async ([count, pause]) => {
  const times = [];
  for (let i = 0; i < count; i++) {
    const start = performance.now();
    document.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true, cancelable: true}));
    document.body.getBoundingClientRect();
    times.push(performance.now() - start);
    if (pause) await new Promise((done) => setTimeout(done, pause));
    await new Promise(requestAnimationFrame);
  }
  return times;
}
"""
JUMPS = """
async (places) => {
  const slider = document.querySelector(".slider");
  const times = [];
  for (const place of places) {
    const start = performance.now();
    slider.value = String(place);
    slider.dispatchEvent(new Event("input"));
    document.body.getBoundingClientRect();
    times.push(performance.now() - start);
    slider.dispatchEvent(new Event("change"));
    await new Promise(requestAnimationFrame);
  }
  return times;
}
"""
MARKS = "performance.getEntriesByType('mark').map((mark) => [mark.name, mark.startTime])"


def launched(playwright: Playwright) -> Browser:
    """The browser that the tests drive: their own finder, which no package holds, says which and how it is started."""
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    import chromium

    found = chromium.find(chromium.WINDOWED)
    path = None if found is None else str(found)
    return playwright.chromium.launch(args=list(chromium.ARGUMENTS), executable_path=path)


@contextmanager
def served() -> Iterator[str]:
    """The app on a free port, with a fresh store of recordings."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "FLASHSTEP_DATA_DIRECTORY": folder}
        command = [sys.executable, "-m", "flashstep", "serve", "--no-open", "--port", "0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder)
        try:
            assert server.stdout is not None
            found = re.search(r"http://\S+?(?=[\s)]|$)", server.stdout.readline())
            assert found, "the server printed no address"
            yield found[0].rstrip("/")
        finally:
            server.terminate()
            server.wait(10)


def percentile(times: list[float], percent: int) -> float:
    ordered = sorted(times)
    return round(ordered[min(len(ordered) - 1, len(ordered) * percent // 100)], 2)


def summary(times: list[float]) -> dict[str, Any]:
    return {
        "count": len(times),
        "p50_ms": percentile(times, 50),
        "p95_ms": percentile(times, 95),
        "max_ms": round(max(times), 2),
    }


def ready(page: Page, address: str, timeout: float = MINUTES) -> dict[str, float]:
    """Open a page and wait for its figure; the marks, in milliseconds since the request."""
    page.goto(address)
    expect(page.locator(".place")).to_have_text(re.compile(r"step \d+ of \d+"), timeout=timeout)
    return dict(page.evaluate(MARKS))


def long_trace(page: Page, site: str) -> dict[str, Any]:
    """Opening, stepping and jumping in the trace of 200,000 steps."""
    ready(page, site + LONG)  # records it; the second visit finds it recorded, as a link given to a class does
    opened = [ready(page, site + LONG) for _ in range(5)]
    steps = int(page.locator(".place").inner_text().rsplit(" ", 1)[1])
    page.evaluate(STEPS, [50, HELD_MS])  # warm
    stepped: list[float] = page.evaluate(STEPS, [300, PRESSED_MS])
    held: list[float] = page.evaluate(STEPS, [500, HELD_MS])
    places = [(i * 7_368_787) % (steps + 1) for i in range(1, 201)]
    jumped: list[float] = page.evaluate(JUMPS, places)
    return {
        "steps": steps,
        "open_ms": round(statistics.median(marks["flashstep:first-figure"] for marks in opened)),
        "open_of_which_fetch_ms": round(statistics.median(marks["flashstep:recorded"] for marks in opened)),
        "step": summary(stepped),
        "step_key_held": summary(held),
        "jump": summary(jumped),
    }


def cold(browser: Browser) -> dict[str, Any]:
    """A fresh server's and a fresh browser's first request: until the figure stands."""
    taken = []
    for _ in range(3):
        with served() as site:
            context = browser.new_context(viewport={"width": 1366, "height": 768})
            taken.append(ready(context.new_page(), site + BOOK)["flashstep:first-figure"])
            context.close()
    return {"first_figure_ms": [round(time) for time in taken], "median_ms": round(statistics.median(taken))}


def machine(browser: Browser) -> dict[str, Any]:
    return {
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "system": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "browser": f"chromium {browser.version}",
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--no-save", action="store_true", help="print only")
    options = arguments.parse_args()
    with sync_playwright() as playwright:
        browser = launched(playwright)
        started = time.time()
        result: dict[str, Any] = {"date": date.today().isoformat(), "machine": machine(browser), "cold": cold(browser)}
        with served() as site:
            page = browser.new_context(viewport={"width": 1366, "height": 768}).new_page()
            result["long_trace"] = long_trace(page, site)
        result["took_s"] = round(time.time() - started)
        browser.close()
    text = json.dumps(result, indent=2)
    print(text)
    if not options.no_save:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"player-{result['date']}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
