"""The stepping figure on a host of its own, for the tests that drive it.

It stands on an otherwise empty page of the app (so the app's policy and stylesheets hold) and is handed the bytes of a
trace that Python recorded.
"""

from __future__ import annotations

import base64
from typing import Any

from playwright.sync_api import Page

import flashstep as fs

DESK = (754, 536)  # what the page leaves it at 1366×768
LARGE = (1196, 839)  # and at 1920×1080
PHONE = (382, 0)  # there its height is free

# As many tiles as 8,192 rows in tiles of 128 have, and no more arithmetic than they need.
LONG: dict[str, Any] = {"seqlen_q": 1024, "seqlen_k": 1024, "head_dim": 16, "values": "none"}

# Puts a figure on the page: window.stage = {trace, order, figure, show(position, more)}.
PUT = """
async ({bytes, width, height, together, hall}) => {
  const [{parse}, {Replay}, order, {createFigure}] = await Promise.all(["trace", "replay", "order", "figure/figure"].map(
    (name) => import(`/static/player/${name}.js`)));
  const trace = parse(Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0)).buffer);
  const replay = new Replay(trace);
  document.body.innerHTML = '<button id="before">before</button><div id="host"></div>';
  const host = document.querySelector("#host");
  host.style.width = `${width}px`;
  if (height) host.style.height = `${height}px`;
  const chosen = [];
  for (const type of ["cell", "block"]) host.addEventListener(type, (event) => chosen.push([type, event.detail]));
  const figure = createFigure(host, {trace, replay, hall});
  const run = together ? order.together(trace) : order.serial(trace);
  window.stage = {trace, order: run, figure, chosen, show: (position, more = {}) => figure.show({order: run, position, ...more})};
  window.stage.show(0);
  return run.length;
}
"""


class Stage:
    """A figure on a page, and the run that it shows."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.length = 0

    def put(self, run: fs.Run, size: tuple[int, int] = DESK, together: bool = False, hall: bool = False) -> Stage:
        width, height = size
        self.run = run
        self.length = self.page.evaluate(
            PUT,
            {
                "bytes": base64.b64encode(run.to_bytes()).decode(),
                "width": width,
                "height": height,
                "together": together,
                "hall": hall,
            },
        )
        return self

    def js(self, expression: str, argument: Any = None) -> Any:
        return self.page.evaluate(expression, argument)

    def show(self, position: int, **more: Any) -> None:
        self.js("([position, more]) => stage.show(position, more)", [position, more])
