// The compare page: records the run, asks for the comparison, and ties steps, grids, charts and address together.

import { readCell, writeCell } from "../player/cellname.js";
import { el, setText } from "../player/dom.js";
import { actionOf } from "../player/keys.js";
import { current } from "../player/moves.js";
import { serial, together } from "../player/order.js";
import { createState } from "../player/state.js";
import { createStepList } from "../player/steplist.js";
import { parse } from "../player/trace.js";
import { captionParts, label, path } from "../player/words.js";
import { progressView, sentence } from "../progress.js";
import { ask, record, RecordingError } from "../record.js";
import * as addresses from "./address.js";
import { createBanner } from "./banner.js";
import * as charts from "./charts.js";
import { createGrids, createReadout } from "./grids.js";
import { element, read } from "./numbers.js";

const explore = JSON.parse(document.getElementById("explore").textContent);
const part = (id) => /** @type {HTMLElement} */ (document.getElementById(id));
const asked = addresses.read(new URLSearchParams(location.search));

let trace = null; // the run on show
/** @type {import("./numbers.js").Comparison|null} */
let comparison = null;
let view = null; // the parts that need the trace
let stop = new AbortController();

const state = createState(/** @type {any} */ ({ step: asked.step ?? 0, slot: null, cell: null, engine: explore.engine, fmad: explore.fmad }));
addresses.createAddress(state);
const banner = createBanner(part("verdict"), {
  onGo: ({ step, slot, row, col }) => {
    const entry = comparison.at(step).find((one) => one.slot === slot && one.first) ?? comparison.at(step).find((one) => one.slot === slot);
    if (entry) state.set({ step, slot: entry.key, cell: cellName(entry, { row, col }) }, "jump");
  },
  onRetry: () => compare(),
});

/* ------------------------------------------------------------ names of cells, as the explorer has them */

const arrayOf = (entry) => trace.arrays.find((one) => one.name === entry.slot);

/** An array's planes stand one under another in its entry. */
function cellName(entry, { row, col }) {
  if (!entry.array) return writeCell({ name: entry.slot, row, col });
  const { rows } = arrayOf(entry);
  return writeCell({ name: entry.slot, plane: Math.floor(row / rows), row: row % rows, col });
}

/** @returns {{key: string, row: number, col: number}|null} */
function parseCell(text) {
  const cell = readCell(text ?? "");
  if (cell === null || cell.plane === undefined) return cell && { key: cell.name, row: cell.row, col: cell.col };
  const node = trace.arrays.find((one) => one.name === cell.name);
  return node ? { key: `${cell.name}@`, row: cell.plane * node.rows + cell.row, col: cell.col } : null;
}

/** The element that used most of what is allowed. */
function worstOf(entry) {
  let worst = { row: 0, col: 0 }, most = -1;
  for (let row = 0; row < entry.rows; row += 1) {
    for (let col = 0; col < entry.cols; col += 1) {
      const { share } = element(entry, row, col);
      if (share > most) [most, worst] = [share, { row, col }];
    }
  }
  return worst;
}

/* ------------------------------------------------------------ making the comparison */

async function compare() {
  stop.abort();
  const mine = stop = new AbortController();
  const { engine, fmad } = state.get();
  comparison = null;
  part("charts").hidden = true;
  view?.show(state.get());
  const progress = progressView(banner.waiting(), { onCancel: () => mine.abort(), say: (now) => said(now, engine) });
  progress.update({ state: "running", done: 0, total: 0, secondsLeft: null });
  try {
    if (!trace) {
      const { buffer } = await record(explore.request, { signal: mine.signal });
      trace = parse(buffer);
      open();
    }
    const info = /** @type {any} */ (await ask({ ...explore.request, engine, fmad }, { signal: mine.signal, onProgress: progress.update, path: "/api/comparisons" }));
    const response = await fetch(info.numbers, { signal: mine.signal });
    if (!response.ok) throw new RecordingError((await response.json()).error);
    comparison = read(await response.arrayBuffer(), trace);
  } catch (error) {
    if (mine !== stop) return;
    if (mine.signal.aborted) banner.failed("The comparison was cancelled; nothing was kept.");
    else if (error instanceof RecordingError) banner.failed(error.message, !Object.keys(error.fields).length);
    else banner.failed(error instanceof TypeError ? "The server does not answer. Is flashstep still running?" : error.message);
    // What was captured stands ready to be chosen.
    if (engine === "recorded") /** @type {HTMLDetailsElement} */ (document.querySelector(".captures")).open = true;
    return;
  }
  if (mine !== stop) return;
  banner.verdict(comparison.verdict);
  // Whoever comes without a place sees the first difference, or the step that came nearest to one.
  if (asked.step === null && state.get().step === 0 && comparison.entries.length) {
    const found = comparison.verdict.first_divergence;
    const entry = (found && comparison.at(found.step).find((one) => one.slot === found.slot && one.first))
      ?? comparison.entries.reduce((a, b) => (b.used > a.used ? b : a));
    state.set({ step: entry.step, slot: entry.key, cell: cellName(entry, entry.first ?? worstOf(entry)) }, "restore");
  }
  view.show(state.get());
  view.drawCharts();
}

function said(progress, engine) {
  if (progress.state === "running" && !progress.done) return engine === "recorded" ? "Reading the capture …" : `Running the kernel on the ${engine} engine …`;
  return sentence(progress, "Comparing");
}

/* ------------------------------------------------------------ the page once there is a trace */

function open() {
  const last = trace.stepCount - 1;
  const order = serial(trace);
  let begin = asked.step ?? 0;
  if (asked.together && asked.step !== null) { // the explorer's other order counts differently
    const other = together(trace);
    begin = current(trace, other, Math.min(asked.step, other.length - 1), asked.focus).step;
  }
  state.set({ step: Math.min(begin, last), slot: asked.slot, cell: asked.cell && parseCell(asked.cell) ? asked.cell : null }, "restore");

  part("parts").hidden = false;
  const steps = createStepList(part("steps"), {
    trace,
    goTo: (step) => state.set({ step }, "jump"),
    floated: (is) => part("parts").classList.toggle("floating-steps", is),
    mark: (row) => {
      const name = comparison?.markOf(row.first, row.last) ?? null;
      return name && { name, text: name === "agree" ? "agrees" : "differs" };
    },
  });
  const slots = part("slots");
  let hover = null;
  const grids = createGrids(part("grids"), {
    onSelect: (cell) => {
      const entry = entryOf(state.get());
      if (entry) state.set({ slot: entry.key, cell: cell && cellName(entry, cell) });
    },
    onHover: (cell) => {
      hover = cell;
      readOut();
    },
  });
  const readout = createReadout(part("readout"));

  /** What is on show: the chosen slot if this step has it, else its worst. */
  function entryOf(now) {
    if (!comparison) return null;
    const there = comparison.at(now.step);
    const wanted = parseCell(now.cell)?.key ?? now.slot;
    return there.find((entry) => entry.key === wanted) ?? there.reduce((a, b) => (a && a.used >= b.used ? a : b), null);
  }
  function cellOf(now, entry) {
    const cell = parseCell(now.cell);
    return entry && cell && cell.key === entry.key && cell.row < entry.rows && cell.col < entry.cols ? cell : null;
  }
  function readOut() {
    const now = state.get();
    const entry = entryOf(now);
    const cell = hover && entry ? hover : cellOf(now, entry);
    readout.show(entry, cell, entry && cell ? placeOf(entry, cell) : "");
  }
  function placeOf(entry, { row, col }) {
    if (!entry.array) return `${entry.slot}, row ${row}${entry.cols > 1 ? `, column ${col}` : ""}`;
    const node = arrayOf(entry);
    const plane = node.planes > 1 ? `, batch ${Math.floor(row / node.rows / node.heads)}, head ${Math.floor(row / node.rows) % node.heads}` : "";
    return `${entry.slot} at the end${plane}, row ${row % node.rows}${entry.cols > 1 ? `, column ${col}` : ""}`;
  }

  function tabs(there, chosen) {
    slots.replaceChildren(...there.map((entry) => {
      const share = entry.first ? "differs" : entry.used === 0 ? "equal" : `${Math.ceil(100 * entry.used - 1e-9)} %`;
      const on = entry === chosen;
      return el("button", { class: `slot-tab${entry.first ? " wrong" : ""}`, type: "button", role: "tab", "aria-controls": "grids", "aria-selected": String(on), tabindex: on ? "0" : "-1",
        title: `largest difference ${entry.maxAbs === 0 ? "0" : entry.maxAbs.toPrecision(4)}, ${entry.maxUlp.toLocaleString("en", { maximumFractionDigits: 1 })} ULP`,
        on: { click: () => state.set({ slot: entry.key, cell: null }) } },
      el("b", { text: entry.array ? `${entry.slot} (end)` : entry.slot }), el("span", { text: share }));
    }));
  }
  slots.addEventListener("keydown", (event) => {
    const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!way || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const there = comparison.at(state.get().step);
    const at = there.indexOf(entryOf(state.get()));
    event.preventDefault();
    state.set({ slot: there[(at + way + there.length) % there.length].key, cell: null });
    /** @type {HTMLElement|null} */ (slots.querySelector("[aria-selected='true']"))?.focus();
  });

  let marker = 0;
  function show(now) {
    const there = comparison ? comparison.at(now.step) : [];
    const entry = entryOf(now);
    steps.show(order, now.step, now.step);
    steps.settle();
    setText(part("place"), `step ${now.step} of ${last}`);
    part("path").replaceChildren(...path(trace, now.step).map((text) => el("span", { text })));
    setText(part("step-label"), label(trace, now.step));
    part("caption").replaceChildren(...captionParts(trace, now.step).map(({ text, number }) => (number ? el("b", { text }) : text)));
    setText(part("nothing"), !comparison || there.length ? "" : nothingHere(now.step));
    tabs(there, entry);
    const array = entry?.array ? arrayOf(entry) : null;
    grids.show(entry, cellOf(now, entry), array && array.planes > 1 ? (row) => `${Math.floor(row / array.rows)}·${row % array.rows}` : null);
    readOut();
    for (const [id, enabled] of [["previous", now.step > 0], ["next", now.step < last]]) part(id).setAttribute("aria-disabled", String(!enabled));
    clearTimeout(marker);
    if (comparison && !part("charts").hidden) marker = setTimeout(() => charts.markStep([part("chart-ulp"), part("chart-share")], now.step), 60);
  }
  const nothingHere = (step) => (step === 0
    ? "The start: nothing has run, so there is nothing to compare. Take the next step."
    : "This step leaves no number of its own in shared memory, so there is nothing to compare: what it moved is compared where it is next kept, and at the end.");

  let shareKeys = [];
  async function drawCharts() {
    if (!comparison) return;
    part("charts").hidden = false;
    const share = charts.shareChart(trace, comparison);
    const measured = charts.measuredChart(trace, comparison), lesson = charts.lessonChart(trace, comparison);
    shareKeys = share.keys;
    setText(part("said-measured"), measured.said);
    setText(part("said-lesson"), lesson.said);
    try {
      await charts.draw(part("chart-ulp"), charts.ulpChart(trace, comparison));
      await charts.draw(part("chart-share"), share);
      await charts.draw(part("chart-measured"), measured);
      await charts.draw(part("chart-lesson"), lesson);
    } catch (error) {
      setText(part("said-measured"), error.message);
      return;
    }
    if (!part("chart-ulp").dataset.wired) {
      part("chart-ulp").dataset.wired = "yes";
      /** @type {any} */ (part("chart-ulp")).on("plotly_click", ({ points: [point] }) => state.set({ step: point.x }, "jump"));
      /** @type {any} */ (part("chart-share")).on("plotly_click", ({ points: [point] }) => state.set({ step: point.x, slot: shareKeys[point.pointIndex[0]], cell: null }, "jump"));
    }
    await charts.markStep([part("chart-ulp"), part("chart-share")], state.get().step);
    part("charts").dataset.drawn = "yes";
  }

  const go = (step, how = "step") => state.set({ step: Math.max(0, Math.min(last, step)) }, how);
  part("previous").addEventListener("click", () => go(state.get().step - 1));
  part("next").addEventListener("click", () => go(state.get().step + 1));
  document.addEventListener("keydown", (event) => {
    const moves = { next: () => go(state.get().step + 1), previous: () => go(state.get().step - 1), first: () => go(0, "jump"), last: () => go(last, "jump"),
      clear: () => state.set({ cell: null }) };
    const action = actionOf(event);
    if (!action || !moves[action]) return;
    event.preventDefault();
    moves[action]();
  });
  addEventListener("popstate", () => {
    const found = addresses.read(new URLSearchParams(location.search));
    const engine = found.engine ?? explore.engine;
    const changed = engine !== state.get().engine || found.fmad !== state.get().fmad;
    state.set({ step: Math.min(found.step ?? 0, last), slot: found.slot, cell: found.cell, engine, fmad: found.fmad }, "restore");
    if (changed) compare();
  });
  const repaint = () => {
    grids.redraw();
    drawCharts();
  };
  document.addEventListener("themechange", repaint);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  state.subscribe(show);
  view = { show, drawCharts };
  show(state.get());
}

/* ------------------------------------------------------------ the engines */

const picker = /** @type {NodeListOf<HTMLInputElement>} */ (document.querySelectorAll(".engine input"));
const fused = /** @type {HTMLInputElement|null} */ (document.getElementById("fmad"));

function showEngine(now) {
  for (const one of picker) one.checked = one.value === now.engine;
  if (fused) {
    fused.checked = now.fmad;
    fused.closest("label").hidden = now.engine !== "gpu" || fused.disabled;
  }
}
state.subscribe(showEngine);
for (const one of picker) {
  one.addEventListener("change", () => {
    state.set({ engine: one.value }, "jump");
    compare();
  });
}
fused?.addEventListener("change", () => {
  state.set({ fmad: fused.checked }, "jump");
  compare();
});
showEngine(state.get());
compare();
