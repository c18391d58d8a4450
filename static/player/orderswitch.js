// The switch between one block after another and all together, with a sentence on what a GPU really does.

import { el, setAttribute, setText } from "./dom.js";

/** Blocks that advance together in the view: a picture of one to each SM of an H200. */
export const SMS = 132;

/**
 * What is shown and what a GPU does, for a launch of so many blocks.
 * @param {"serial"|"together"} order
 * @param {number} blocks 0 at the start
 */
function orderSentence(order, blocks, sms = SMS) {
  if (blocks === 1) return "This launch has one block, so nothing runs beside it.";
  const truth = "A GPU runs blocks side by side on its SMs, in no promised order; several may share an SM.";
  if (order === "serial") return `Shown one after another. ${truth}`;
  const many = blocks <= sms ? "All" : `Up to ${sms} of`;
  const which = blocks ? `${many} ${blocks.toLocaleString("en")} blocks` : `Up to ${sms} blocks`;
  return `${which} advance together, a step at a time: a picture with at most one to each of an H200's ${SMS} SMs. ${truth}`;
}

/**
 * @param {HTMLElement} host
 * @param {string} idea what this kernel shows, in one sentence
 * @param {(order: "serial"|"together") => void} choose
 */
export function createOrderSwitch(host, idea, choose) {
  // Two buttons rather than radio buttons: the arrow keys go on stepping after a click.
  const options = [["serial", "one after another"], ["together", "together"]].map(([value, text]) =>
    el("button", { class: "segment", type: "button", "data-order": value, text,
      on: { click: () => choose(/** @type {any} */ (value)) } }));
  // The figure says it in sight beside the grid; here it is the switch's tooltip and description.
  const sentence = el("p", { class: "visually-hidden order-sentence", id: "order-sentence" });
  const group = el("div", { class: "segments", role: "group", "aria-label": "Blocks are shown", "aria-describedby": "order-sentence" },
    el("span", { class: "segments-title", text: "Blocks" }), ...options);
  host.append(group, sentence, el("p", { class: "idea", text: idea }));
  let shown = "";
  return {
    show(order, blocks) {
      if (shown === `${order} ${blocks}`) return;
      shown = `${order} ${blocks}`;
      for (const option of options) setAttribute(option, "aria-pressed", String(option.dataset.order === order));
      setText(sentence, orderSentence(order, blocks));
      setAttribute(group, "title", sentence.textContent);
    },
  };
}
