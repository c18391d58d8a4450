// The carries of the block on show, row by row: m, l, alpha and O before and after this step.

import { cellNumber, number } from "../words.js";
import { el, setAttribute, setText } from "../dom.js";
import { hue } from "./ledger.js";

/** A carry wider than this shows as many columns, and says how many more there are. */
const COLUMNS = 4;

/** The slots that the panel follows: those that a tile hands to the next, and the factor between them. */
function carrySlots(launch) {
  return launch.slots.filter((slot) => slot.carry || slot.name === "alpha");
}

/**
 * @param {HTMLElement} host
 * @param {{trace: any, replay: any, select: (cell: string) => void}} options
 */
export function createCarries(host, { trace, replay, select }) {
  const table = el("table", { class: "carries" });
  const note = el("p", { class: "panel-note" });
  const title = el("h2", { text: "Carries" });
  const where = el("span", { class: "head-note" });
  const scroll = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Carries" }, table, note);
  host.append(el("div", { class: "panel-head" }, title, where), scroll);
  table.addEventListener("click", (event) => {
    const cell = /** @type {Element} */ (event.target).closest("[data-cell]");
    if (cell) select(cell.dataset.cell);
  });

  let built = "";
  /** @type {{slot: any, name: string, row: number, col: number, td: HTMLElement, old: HTMLElement, now: HTMLElement}[]} */
  let cells = [];
  /** @type {Map<number, string>} what each slot's cells show: the events that wrote it */
  const drawn = new Map();
  /** @type {HTMLElement|null} */
  let selected = null;

  function build(launch, from) {
    const key = `${launch}:${[...from].join()}`;
    if (key === built) return;
    built = key;
    cells = [];
    drawn.clear();
    selected = null;
    table.replaceChildren();
    const slots = launch < 0 ? [] : carrySlots(trace.launches[launch]);
    note.hidden = slots.length > 0;
    setText(note, launch < 0 ? "The carries appear with the first block." : "This launch carries nothing from tile to tile.");
    if (!slots.length) return;
    const shown = (slot) => Math.min(COLUMNS, slot.cols - (from.get(slot.name) ?? 0));
    const head = el("tr", {}, el("th", { scope: "col", text: "row" }));
    for (const slot of slots) {
      const start = from.get(slot.name) ?? 0;
      const rest = slot.cols - shown(slot);
      head.append(el("th", { scope: "col", colspan: String(shown(slot)), style: { color: hue(slot.name) },
        text: rest > 0 ? `${slot.name} [${start}…${start + shown(slot) - 1} of ${slot.cols}]` : slot.name }));
    }
    table.append(el("thead", {}, head));
    const body = el("tbody");
    const rows = Math.max(...slots.map((slot) => slot.rows));
    for (let r = 0; r < rows; r += 1) {
      const tr = el("tr", {}, el("th", { scope: "row", text: String(r) }));
      for (const slot of slots) {
        const start = from.get(slot.name) ?? 0;
        for (let c = start; c < start + shown(slot); c += 1) {
          if (r >= slot.rows) { tr.append(el("td")); continue; }
          const old = el("span", { class: "old" });
          const now = el("span", { class: "now" });
          const name = `${slot.name}.${r}.${c}`;
          const td = el("td", { data: { cell: name } }, old, now);
          cells.push({ slot, name, row: r, col: c, td, old, now });
          tr.append(td);
        }
      }
      body.append(tr);
    }
    table.append(body);
  }

  /** Write a slot's cells, where another event than before speaks for them. */
  function fill(slot, at) {
    const now = replay.slot(slot.id, at.block, at.step);
    const written = now !== null && now.step === at.step;
    const before = written ? replay.before(slot.id, at.block, at.step) : null;
    const sign = `${now?.event} ${now?.stale} ${written} ${before?.event}`;
    if (drawn.get(slot.id) === sign) return;
    drawn.set(slot.id, sign);
    for (const one of cells) {
      if (one.slot !== slot) continue;
      const value = valueOf(now, one.row, one.col);
      const old = valueOf(before, one.row, one.col);
      setText(one.now, value.text);
      setText(one.old, before ? old.text : "");
      const look = [value.look, now && now.stale ? "stale" : "", written ? "written" : ""].filter(Boolean).join(" ");
      if (one.td.className !== look) one.td.className = look;
      setAttribute(one.td, "title", value.exact === null ? null
        : `${one.name}: ${before && old.exact !== null ? `${old.exact} → ` : ""}${value.exact}${now && now.stale ? ", stale: an earlier tile's" : ""}`);
    }
  }

  /** @type {[{launch: number, block: number, step: number}, string|null]|null} */
  let asked = null;
  let inSight = false; // behind its tab, or folded, nothing of it is written
  function show(at, cell) {
    asked = [at, cell];
    if (!inSight) return;
    const from = new Map();
    const chosen = cell && /^(\w+)\.(\d+)\.(\d+)$/.exec(cell);
    if (chosen && at.launch >= 0) {
      const slot = trace.launches[at.launch].slots.find((one) => one.name === chosen[1]);
      if (slot && slot.cols > COLUMNS) from.set(slot.name, Math.min(Math.floor(chosen[3] / COLUMNS) * COLUMNS, slot.cols - COLUMNS));
    }
    build(at.launch, from);
    setText(where, at.launch < 0 ? "" : `block ${at.block}`);
    for (const slot of new Set(cells.map((one) => one.slot))) fill(slot, at);
    const td = cells.find((one) => one.name === cell)?.td ?? null;
    if (td === selected) return;
    selected?.removeAttribute("aria-selected");
    td?.setAttribute("aria-selected", "true");
    selected = td;
  }
  new ResizeObserver(() => {
    inSight = host.clientHeight > 0;
    if (asked) show(...asked);
  }).observe(host);

  return {
    /** @param {{launch: number, block: number, step: number}} at */
    show,
  };
}

/** What a slot holds at a place, in words: a number, nothing yet, not kept, or a lane past the end. */
function valueOf(state, row, col) {
  if (state === null) return { text: "·", look: "empty", exact: null };
  if (row >= state.rows || col >= state.cols) return { text: "", look: "guarded", exact: null };
  if (state.values === null) return { text: "–", look: "unkept", exact: null };
  const x = state.values[row * state.cols + col];
  return { text: cellNumber(x), look: Number.isFinite(x) ? "" : "special", exact: number(x, 6) };
}
