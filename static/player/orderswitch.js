// The switch between one block after another and all together, with a sentence on what a GPU really does.

import { el, setAttribute, setText } from "./dom.js";

/** Streaming multiprocessors of the GPU that the page speaks of (an H200). */
export const SMS = 132;

/**
 * What is shown and what a GPU does, for a launch of so many blocks.
 * @param {"serial"|"together"} order
 * @param {number} blocks 0 at the start
 */
export function orderSentence(order, blocks, sms = SMS) {
  if (blocks === 1) return "This launch has one block, so nothing runs beside it.";
  const count = blocks.toLocaleString("en");
  if (order === "serial") {
    if (!blocks) return "Blocks are shown one after another; on a GPU they run side by side.";
    return blocks <= sms ? `Shown one after another. On a GPU these ${count} blocks run side by side, each on its own SM.`
      : `Shown one after another. On a GPU ${sms} of these ${count} blocks run at a time, one to an SM.`;
  }
  if (!blocks) return "Every running block advances at each step, as on a GPU.";
  return blocks <= sms ? `As on a GPU: all ${count} blocks run side by side and each advances at every step.`
    : `As on a GPU with ${sms} SMs: ${sms} of the ${count} blocks run, the others wait for a free SM.`;
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
