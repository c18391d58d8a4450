// A rule that shows the current step's own numbers in place of its letters. The numbers are the explainer's: what the step
// that wrote the slot really read and wrote.

import { cellName, readCell } from "../player/cellname.js";
import { el } from "../player/dom.js";
import { explain } from "../player/explain.js";
import { hue } from "../player/panels/ledger.js";

const STORED = "flashstep.formulas";

/**
 * @param {Iterable<HTMLElement>} nodes each with data-slot, data-row and data-col
 * @param {ReturnType<typeof import("../player/player.js").createPlayer>} player
 */
export function liveFormulas(nodes, player) {
  const rules = [...nodes].map((node) => createRule(node, player));
  let numbers = remembered();
  const show = () => {
    for (const rule of rules) rule.show(numbers);
  };
  for (const rule of rules) {
    rule.button.addEventListener("click", () => {
      numbers = !numbers;
      remember(numbers);
      const before = rule.button.getBoundingClientRect().top;
      show();
      scrollBy(0, rule.button.getBoundingClientRect().top - before); // the rule that was pressed stays where it is
    });
  }
  player.state.subscribe(show);
  show();
}

function createRule(node, player) {
  const letters = el("div", { class: "letters" }, ...node.childNodes);
  const body = el("div", { class: "with-numbers", hidden: true });
  const button = el("button", { class: "quiet", type: "button" });
  node.replaceChildren(letters, body, button);
  let shown = "";
  return {
    button,
    show(numbers) {
      letters.hidden = numbers;
      body.hidden = !numbers;
      button.textContent = numbers ? "Letters" : "Numbers of this step";
      button.setAttribute("aria-pressed", String(numbers));
      if (!numbers) return;
      const { state } = player, { position, cell, order } = state.get(), at = player.here();
      const key = `${order} ${position} ${cell} ${at.block}`;
      if (key === shown) return;
      shown = key;
      const held = body.contains(document.activeElement); // an operand was followed: its button goes, the focus stays near
      body.replaceChildren(...spelled(node, player, at, cell));
      if (held) button.focus({ preventScroll: true });
    },
  };
}

/** The rule with numbers, as elements. */
function spelled(node, player, at, selected) {
  const { trace, replay } = player;
  const slot = node.dataset.slot;
  const place = at.launch < 0 ? null : trace.node(slot, at.launch);
  if (place?.kind !== "slot") return [note(at.launch < 0 ? "No block has begun yet: step on, and the numbers appear." : `There is no ${slot} in this launch.`)];
  const chosen = selected === null ? null : readCell(selected);
  const row = chosen && chosen.plane === undefined && chosen.row < place.rows ? chosen.row : Number(node.dataset.row);
  const col = chosen?.name === slot ? chosen.col : Number(node.dataset.col);
  const found = explain(trace, replay, player.order(), player.state.get().position, { node: place.id, row, col, block: at.block });
  if (found.lines.length === 0) return [note(found.title), ...found.notes.map(note)];
  const piece = ({ text, operand, node: of }) => (operand === undefined
    ? of === undefined ? text : el("span", { style: { color: hue(trace.nodes[of].name) }, text })
    : operandButton(player, found.operands[operand], text));
  const main = found.lines.filter((_, i) => ["substituted", "result"].includes(found.roles[i]));
  const parts = found.lines.filter((_, i) => found.roles[i] === "part");
  const made = found.step === at.step ? "at this step" : `as step ${found.step} made it`;
  return [
    el("p", { class: "live-line" }, el("b", { text: found.name, style: { color: hue(trace.nodes[found.cell.node].name) } }), " ",
      ...main.flatMap((line) => [...line.map(piece), " "])),
    ...parts.map((line) => el("p", { class: "live-part" }, ...line.map(piece))),
    note(`${found.place}, ${made}.`),
    ...found.notes.map(note),
  ];
}

function operandButton(player, operand, text) {
  const { trace } = player;
  const name = cellName(trace, operand.cell);
  return el("button", { class: "operand", type: "button", text, style: { color: hue(trace.nodes[operand.node].name) },
    title: `${operand.name}${operand.when === "old" ? " before this step" : ""}`,
    on: { click: () => (operand.visit < 0 ? player.select(name) : player.goTo(operand.visit, { cell: name })) } });
}

const note = (text) => el("p", { class: "live-note", text });

function remembered() {
  try {
    return localStorage.getItem(STORED) === "numbers";
  } catch {
    return false;
  }
}

function remember(numbers) {
  try {
    localStorage.setItem(STORED, numbers ? "numbers" : "letters");
  } catch { /* it is forgotten with the page */ }
}
