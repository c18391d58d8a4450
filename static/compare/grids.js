// The numbers of one slot: the kernel's, the trace's, and the share of what is allowed, cell beside cell.
// Small slots are tables of numbers, large ones pictures; one cell is selected in all three.

import { el, setText } from "../player/dom.js";
import { paint, readColours } from "../player/figure/cells.js";
import { hueOf, intensity, special, TINT } from "../player/figure/palette.js";
import { cellNumber, number } from "../player/words.js";
import { element } from "./numbers.js";

const MOST_ROWS = 24;
const CELL = 47, HEAD = 34, GAP = 32; // pixels: a number's cell, the row names, the room between two grids
const LARGE = { cell: 18, side: 300 }; // a picture's largest cell and side
const SIDES = [
  { name: "kernel", title: "CUDA kernel" },
  { name: "trace", title: "trace (NumPy twin)" },
  { name: "share", title: "share of what is allowed" },
];

/** A share as people read it: "0", "<1 %", "34 %", "12×", ">9,999×". */
function shareText({ share }) {
  if (share === 0) return "0";
  if (share === Infinity) return "∞";
  if (share > 9999) return ">9,999×";
  if (share >= 10) return `${Math.round(share).toLocaleString("en")}×`;
  return share < 0.005 ? "<1 %" : `${Math.ceil(100 * share - 1e-9)} %`;
}

/** All the digits that a float32 has. */
export function exact(x) {
  if (!Number.isFinite(x)) return number(x);
  if (Object.is(x, -0)) return "−0";
  return (Number.isInteger(x) && Math.abs(x) < 1e6 ? String(x) : x.toPrecision(9)).replace("e-", "e−").replace(/^-/, "−");
}

/**
 * @param {HTMLElement} host
 * @param {{onSelect: (cell: {row: number, col: number}|null) => void, onHover: (cell: {row: number, col: number}|null) => void}} options
 */
export function createGrids(host, { onSelect, onHover }) {
  /** @type {import("./numbers.js").Entry|null} */
  let entry = null;
  let selected = null;
  let rowNames = null; // of an array: plane and row
  const parts = SIDES.map(({ name, title }) => {
    const body = el("div", { class: "grid-body" });
    const figure = el("figure", { class: `grid grid-${name}` }, el("figcaption", { text: title }), body);
    return { name, title, figure, body };
  });
  // Pictures are painted in the stepping figure's colours, which are variables of its class.
  const palette = el("div", { class: "figure palette", "aria-hidden": "true" });
  host.append(...parts.map((part) => part.figure), palette);

  const scaleOf = () => {
    let top = 0;
    for (const all of [entry.got, entry.want]) for (const x of all) if (Number.isFinite(x) && Math.abs(x) > top) top = Math.abs(x);
    return top;
  };

  /** Numbers where all three grids stand beside each other with them (on a phone: where one fits); else pictures. */
  function fits() {
    const room = host.parentElement.clientWidth;
    const one = entry.cols * CELL + HEAD;
    return entry.rows <= MOST_ROWS && (room < 640 ? one <= room : 3 * one + 2 * GAP <= room);
  }
  let drawnFor = 0;

  function draw() {
    const small = fits();
    drawnFor = host.parentElement.clientWidth;
    host.classList.toggle("pictures", !small);
    const scale = scaleOf();
    for (const part of parts) part.body.replaceChildren(small ? table(part, scale) : picture(part, scale));
    mark();
  }

  /* ------------------------------------------------------------ tables */

  function table(part, scale) {
    const head = entry.cols > 1
      ? el("thead", {}, el("tr", {}, el("td"), ...range(entry.cols).map((c) => el("th", { scope: "col", text: String(c) }))))
      : null;
    const body = el("tbody", {}, ...range(entry.rows).map((r) => el("tr", {},
      el("th", { scope: "row", text: rowNames ? rowNames(r) : String(r) }),
      ...range(entry.cols).map((c) => cell(part.name, r, c, scale)))));
    return el("table", { role: "grid", class: `cells hue-${hueOf(entry.slot)}`, "aria-label": `${entry.slot}: ${part.title}` }, head, body);
  }

  function cell(name, r, c, scale) {
    const found = element(entry, r, c);
    const x = name === "kernel" ? found.got : found.want;
    const text = name === "share" ? shareText(found) : cellNumber(x);
    const tint = name === "share" ? Math.min(1, found.share) * 0.45 : intensity(Number.isFinite(x) ? x : 0, scale) * TINT;
    const look = name === "share" ? (found.ok ? "" : " wrong") : ` ${special(x)}`;
    return el("td", { role: "gridcell", tabindex: "-1", class: `cell${look}${!found.ok && name !== "share" ? " parted" : ""}`, text,
      title: name === "share" ? null : exact(x), data: { row: String(r), col: String(c) }, style: { "--t": `${Math.round(tint * 100)}%` } });
  }

  /* ------------------------------------------------------------ pictures */

  function picture(part, scale) {
    const room = host.parentElement.clientWidth;
    const side = Math.min(LARGE.side, room < 640 ? room : Math.floor((room - 300 - 3 * GAP) / 3));
    const size = Math.min(LARGE.cell, side / Math.max(entry.cols, entry.rows));
    // A long thin slot keeps at least a strip's width.
    const w = Math.max(Math.round(size * entry.cols), Math.min(8, side)), h = Math.max(Math.round(size * entry.rows), Math.min(8, side));
    const hue = hueOf(entry.slot);
    const colours = readColours(palette, [hue, "warn", "mark"]);
    let values = part.name === "kernel" ? entry.got : entry.want;
    let worst = "mark";
    if (part.name === "share") {
      values = Float32Array.from({ length: entry.rows * entry.cols }, (_, n) => Math.min(1, element(entry, Math.floor(n / entry.cols), n % entry.cols).share));
      if (entry.first) worst = "warn";
    }
    const canvas = /** @type {HTMLCanvasElement} */ (el("canvas", { style: { width: `${w}px`, height: `${h}px` } }));
    const density = Math.max(1, Math.min(3, devicePixelRatio));
    const { width, height, pixels } = paint({ x: 0, y: 0, w, h, scale: part.name === "share" ? 1 : scale, parts: [{
      x: 0, y: 0, w, h, rows: entry.rows, cols: entry.cols, validRows: entry.rows, validCols: entry.cols, values,
      hue: part.name === "share" ? worst : hue,
    }] }, colours, density);
    canvas.width = width;
    canvas.height = height;
    canvas.getContext("2d").putImageData(new ImageData(pixels, width, height), 0, 0);
    const ring = el("div", { class: "ring", hidden: true });
    const box = el("div", { class: "picture", role: "group", tabindex: "0", "aria-label": `${entry.slot}, ${entry.rows} by ${entry.cols}: ${part.title}; the arrow keys choose a cell` }, canvas, ring);
    const at = (event) => {
      const frame = canvas.getBoundingClientRect();
      const row = Math.floor(((event.clientY - frame.top) / frame.height) * entry.rows);
      const col = Math.floor(((event.clientX - frame.left) / frame.width) * entry.cols);
      return row >= 0 && col >= 0 && row < entry.rows && col < entry.cols ? { row, col } : null;
    };
    canvas.addEventListener("pointermove", (event) => onHover(at(event)));
    canvas.addEventListener("pointerleave", () => onHover(null));
    canvas.addEventListener("click", (event) => onSelect(at(event)));
    part.ring = (cell) => {
      ring.hidden = !cell;
      if (!cell) return;
      const cw = w / entry.cols, ch = h / entry.rows;
      Object.assign(ring.style, { left: `${cell.col * cw - 2}px`, top: `${cell.row * ch - 2}px`, width: `${Math.max(cw, 2) + 4}px`, height: `${Math.max(ch, 2) + 4}px` });
    };
    return box;
  }

  function mark() {
    for (const part of parts) {
      if (host.classList.contains("pictures")) {
        part.ring?.(selected);
        continue;
      }
      const cells = /** @type {NodeListOf<HTMLElement>} */ (part.body.querySelectorAll(".cell"));
      const chosen = selected ? selected.row * entry.cols + selected.col : 0;
      cells.forEach((node, n) => {
        node.tabIndex = n === chosen ? 0 : -1;
        if (selected && n === chosen) node.setAttribute("aria-selected", "true");
        else node.removeAttribute("aria-selected");
      });
    }
  }

  new ResizeObserver(() => {
    if (entry && Math.abs(host.parentElement.clientWidth - drawnFor) > 16) draw();
  }).observe(host.parentElement);

  const cellOf = (event) => {
    const node = /** @type {HTMLElement|null} */ (/** @type {Element} */ (event.target).closest(".cell"));
    return node ? { row: Number(node.dataset.row), col: Number(node.dataset.col) } : null;
  };
  host.addEventListener("click", (event) => {
    const cell = cellOf(event);
    if (cell) onSelect(cell);
  });
  host.addEventListener("pointerover", (event) => {
    const cell = cellOf(event);
    if (cell) onHover(cell);
  });
  host.addEventListener("pointerleave", () => onHover(null));
  host.addEventListener("keydown", (event) => {
    if (!entry || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    const box = /** @type {Element} */ (event.target).closest(".cell, .picture");
    if (!box) return;
    if (event.key === "Home" || event.key === "End" || move) {
      const from = selected ?? cellOf(event) ?? { row: 0, col: 0 };
      const clampTo = (x, n) => Math.max(0, Math.min(n - 1, x));
      const to = move ? { row: clampTo(from.row + move[0], entry.rows), col: clampTo(from.col + move[1], entry.cols) }
        : { row: from.row, col: event.key === "Home" ? 0 : entry.cols - 1 };
      event.preventDefault();
      onSelect(to);
      const part = parts.find((one) => one.body.contains(box));
      /** @type {HTMLElement|null} */ (part.body.querySelector(`.cell[data-row="${to.row}"][data-col="${to.col}"]`))?.focus();
    } else if (event.key === "Enter" || event.key === " ") {
      const cell = cellOf(event);
      if (!cell) return;
      event.preventDefault();
      onSelect(cell);
    }
  });

  return {
    /** @param {import("./numbers.js").Entry|null} next @param {((row: number) => string)|null} names */
    show(next, cell, names = null) {
      const changed = next !== entry;
      entry = next;
      selected = cell;
      rowNames = names;
      host.hidden = !entry;
      if (!entry) return;
      if (changed) draw();
      else mark();
    },
    redraw() {
      if (entry) draw();
    },
  };
}

const range = (n) => Array.from({ length: n }, (_, i) => i);

/** One cell spelled out. @param {HTMLElement} host */
export function createReadout(host) {
  const title = el("p", { class: "readout-title" });
  const names = ["CUDA kernel", "trace", "difference", "in ULP", "allowed", "share of it"];
  const values = names.map(() => el("dd"));
  const list = el("dl", {}, ...names.map((name, n) => el("div", { class: n === 5 ? "share" : null }, el("dt", { text: name }), values[n])));
  const hint = el("p", { class: "hint", text: "Choose a cell to read it to the last digit." });
  host.append(title, list, hint);
  return {
    show(entry, cell, place) {
      host.hidden = !entry;
      list.hidden = !entry || !cell;
      hint.hidden = !entry || Boolean(cell);
      title.hidden = !entry || !cell;
      if (!entry || !cell) return;
      const found = element(entry, cell.row, cell.col);
      setText(title, place);
      const texts = [exact(found.got), exact(found.want), Number.isNaN(found.gap) ? "not a number on one side" : number(found.gap),
        Number.isNaN(found.ulps) ? "–" : number(found.ulps, 1), found.allowed === 0 ? "0" : number(found.allowed), shareText(found)];
      texts.forEach((text, n) => setText(values[n], text));
      host.classList.toggle("wrong", !found.ok);
    },
  };
}
