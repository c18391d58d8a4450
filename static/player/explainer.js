// "Where did this number come from?": the selected cell's formula with its own operands, and the way to each of them.

import { cellName, parseCell } from "./cellname.js";
import { el, setText } from "./dom.js";
import { explain } from "./explain.js";
import { hue } from "./panels/ledger.js";
import { label } from "./words.js";

const EMPTY = "Click a number in the figure or in the carries, or choose one here: its formula appears with this step's own numbers, and each of them leads to the step that made it.";

/**
 * @param {HTMLElement} host
 * @param {{trace: any, replay: any, select: (cell: string|null) => void, goTo: (step: number) => void,
 *   hop: (target: {cell: string, step: number, block: number|undefined}) => void, mark: (cells: object[]) => void}} options
 *   mark: outline the operands in the figure
 */
export function createExplainer(host, { trace, replay, select, goTo, hop, mark }) {
  const picker = createPicker(trace, replay, select);
  const clear = el("button", { class: "quiet", type: "button", text: "Clear", hidden: true, on: { click: () => select(null) } });
  const head = el("div", { class: "panel-head" }, el("h2", { text: "Where did this number come from?" }), picker.node, clear);
  const body = el("div", { class: "explanation scroll", tabindex: "0", role: "region", "aria-label": "Explanation" });
  host.append(head, body);
  /** @type {{cell: string, step: number, block: number|undefined}[]} */
  let hops = [];
  body.addEventListener("click", (event) => {
    const link = /** @type {Element} */ (event.target).closest("[data-operand]");
    if (link) hop(hops[Number(link.dataset.operand)]);
    const step = /** @type {Element} */ (event.target).closest("[data-go]");
    if (step) goTo(Number(step.dataset.go));
  });

  function operandLink(found, piece) {
    const operand = found.operands[piece.operand];
    const made = operand.step < 0 ? "given" : `made at step ${operand.step}, ${label(trace, operand.step)}`;
    return el("button", { class: "operand", type: "button", data: { operand: String(piece.operand), cell: cellName(trace, operand.cell), when: operand.when },
      style: { color: hue(trace.nodes[operand.node].name) },
      title: `${operand.name}${operand.when === "old" ? " before this step" : ""}: ${made}`, text: piece.text });
  }

  const written = (found, pieces) => pieces.map((piece) => (piece.operand === undefined
    ? piece.node === undefined ? piece.text : el("span", { style: { color: hue(trace.nodes[piece.node].name) }, text: piece.text })
    : operandLink(found, piece)));

  /** The explanation of a cell at this place, as elements. */
  function explained(found, at) {
    hops = found.operands.map((operand) => ({ cell: cellName(trace, operand.cell), step: operand.visit, block: operand.block }));
    const made = found.step < 0 ? null
      : found.step === at.step ? el("span", { class: "made", text: "made at this step" })
        : el("button", { class: "link made", type: "button", data: { go: String(found.step) },
          text: `made at step ${found.step}: ${label(trace, found.step)}` });
    const formula = found.lines.length > 0 || found.status === "formula";
    return [
      el("p", { class: "explanation-name" },
        el("b", { text: found.name, style: { color: hue(trace.nodes[found.cell.node].name) } }), " ", made),
      el("p", { class: "explanation-place", text: found.place }),
      el("p", { class: formula ? "formula-title" : "explanation-title" }, ...written(found, found.titlePieces)),
      el("div", { class: "formula" },
        ...found.lines.map((pieces, i) => el("div", { class: `formula-line ${found.roles[i]}` }, ...written(found, pieces)))),
      ...found.notes.map((text) => el("p", { class: "explanation-note", text })),
    ];
  }

  let shown = "";
  return {
    /** @param {{launch: number, block: number, step: number}} at */
    show(order, position, at, cell) {
      if (clear.hidden !== (cell === null)) clear.hidden = cell === null;
      picker.show(at, cell);
      const key = cell === null ? "" : `${order.name} ${position} ${at.block} ${cell}`;
      if (key === shown && body.firstChild) return;
      shown = key;
      host.classList.toggle("empty", cell === null);
      hops = [];
      mark([]);
      if (cell === null) {
        body.replaceChildren(el("p", { class: "panel-note", text: EMPTY }));
        return;
      }
      const place = parseCell(trace, cell, at.launch);
      if (place === null) {
        body.replaceChildren(el("p", { class: "panel-note",
          text: at.launch < 0 ? `${cell} is not there yet: no block has begun.` : `${cell} does not exist in this launch.` }));
        return;
      }
      const found = explain(trace, replay, order, position, { ...place, block: at.block });
      body.replaceChildren(...explained(found, at));
      mark(found.operands);
      body.scrollTop = 0;
    },
  };
}

/** Any cell of any slot or array by keyboard: a name, a plane where there are several, a row and a column. */
function createPicker(trace, replay, select) {
  const name = /** @type {HTMLSelectElement} */ (el("select", { "aria-label": "Slot or array" }));
  const field = (text) => {
    const input = /** @type {HTMLInputElement} */ (el("input", { type: "number", min: "0", value: "0", "aria-label": text, class: "index" }));
    return { input, node: el("label", { class: "index-label" }, `${text} `, input) };
  };
  const plane = field("plane");
  const row = field("row");
  const col = field("column");
  const node = el("form", { class: "picker" }, name, plane.node, row.node, col.node,
    el("button", { class: "quiet", type: "submit", text: "Explain" }));
  let listed = -2;

  function sizes() {
    const chosen = trace.nodes[Number(name.value)];
    plane.node.hidden = !chosen || chosen.kind !== "array" || chosen.planes === 1;
    node.classList.toggle("planes", !plane.node.hidden);
    for (const [input, size] of [[plane.input, chosen?.planes ?? 1], [row.input, chosen?.rows ?? 1], [col.input, chosen?.cols ?? 1]]) {
      input.max = String(Math.max(0, size - 1));
      if (Number(input.value) > size - 1) input.value = String(Math.max(0, size - 1));
    }
  }
  function fill(launch) {
    if (launch === listed) return;
    listed = launch;
    const kept = name.value;
    const option = (one) => el("option", { value: String(one.id), text: one.name });
    const slots = launch < 0 ? [] : trace.launches[launch].slots;
    name.replaceChildren(
      ...(slots.length ? [el("optgroup", { label: "on the block" }, ...slots.map(option))] : []),
      el("optgroup", { label: "in HBM" }, ...trace.arrays.filter((one) => one.space === "hbm").map(option)));
    if ([...name.options].some((one) => one.value === kept)) name.value = kept;
    sizes();
  }
  name.addEventListener("change", sizes);
  node.addEventListener("submit", (event) => {
    event.preventDefault();
    const chosen = trace.nodes[Number(name.value)];
    const at = { node: chosen, row: Number(row.input.value), col: Number(col.input.value), plane: Number(plane.input.value) };
    select(cellName(trace, at));
  });
  return {
    node,
    /** @param {{launch: number, block: number, step: number}} at */
    show(at, cell) {
      const { launch } = at;
      fill(launch);
      (launch < 0 ? [] : trace.launches[launch].slots).forEach(({ id, name: own }, i) => {
        const now = replay.slot(id, at.block, at.step)?.label ?? own; // Sij is called Pij once it holds P
        setText(name.options[i], now === own ? own : `${now} (was ${own})`);
      });
      if (cell === null || node.contains(document.activeElement)) return;
      const place = parseCell(trace, cell, launch);
      if (!place) return;
      const id = typeof place.node === "number" ? place.node : place.node.id;
      if (name.value !== String(id)) { name.value = String(id); sizes(); }
      row.input.value = String(place.row);
      col.input.value = String(place.col);
      plane.input.value = String(place.plane ?? 0);
    },
  };
}
