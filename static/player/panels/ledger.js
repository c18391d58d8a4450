// The ledger: what loads and stores have asked of HBM so far, of the whole, array by array.

import { soFar, totals } from "../ledger.js";
import { el, setText } from "../dom.js";
import { hueOf } from "../figure/palette.js";

const grouped = new Intl.NumberFormat("en").format; // toLocaleString looks the language up each time

/** Exact up to eight figures, which fit; three figures and a letter beyond, with the exact number in the title. */
export function short(n) {
  if (n < 1e8) return grouped(n);
  for (const [unit, letter] of [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"]]) {
    if (n >= 0.9995 * unit) return `${(n / unit).toPrecision(3)}${letter}`;
  }
  return String(n);
}

const COUNTS = ["transfers", "elements", "bytes"];

/** The colour of an array's or a slot's name, as in the figure. */
export const hue = (name) => `var(--${hueOf(name)})`;

/**
 * @param {HTMLElement} host
 */
export function createLedger(host, { trace }) {
  const whole = totals(trace);
  const body = el("tbody");
  const cells = [];
  for (const array of trace.arrays) {
    const entry = whole[array.name];
    if (!entry) continue; // a virtual array never crosses
    const ways = ["loads", "stores"].filter((way) => entry[way].transfers > 0);
    for (const way of ways.length ? ways : [array.role === "input" ? "loads" : "stores"]) {
      const tds = COUNTS.map((count) => {
        const now = el("span", { class: "now" });
        const td = el("td", { "data-count": count }, now, " ", el("span", { class: "of", text: `/ ${short(entry[way][count])}` }));
        td.dataset.total = String(entry[way][count]);
        cells.push({ array: array.name, way, count, now, td, total: entry[way][count] });
        return td;
      });
      body.append(el("tr", { "data-array": array.name, "data-way": way },
        el("th", { scope: "row" }, el("span", { class: "array-name", style: { color: hue(array.name) }, text: array.name }),
          el("span", { class: "way", text: way === "loads" ? " read" : " written" })), ...tds));
    }
  }
  host.append(
    el("div", { class: "panel-head" }, el("h2", { text: "Requested traffic" }), el("span", { class: "head-note", text: "so far / total" })),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Requested traffic, array by array" },
      el("table", { class: "ledger" },
        el("thead", {}, el("tr", {}, el("th", { scope: "col", text: "array" }), el("th", { scope: "col", text: "transfers" }),
          el("th", { scope: "col", text: "elements" }), el("th", { scope: "col", text: "bytes" }))),
        body)));
  body.addEventListener("pointerover", (event) => { // the exact numbers, said when somebody asks
    const td = /** @type {Element} */ (event.target).closest("td");
    if (td) td.title = `${grouped(Number(td.dataset.now))} of ${grouped(Number(td.dataset.total))} ${td.dataset.count}`;
  });
  return {
    show(order, position) {
      const ledger = soFar(trace, order, position);
      for (const cell of cells) {
        const n = ledger[cell.array][cell.way][cell.count];
        const before = cell.last ?? 0;
        if (cell.last === n) continue;
        cell.last = n;
        setText(cell.now, short(n));
        cell.td.dataset.now = String(n);
        if (n === 0 || before === 0) cell.td.parentElement.classList.toggle("none", n === 0);
      }
    },
  };
}
