// One place of the lecture in small: its figure at the hall's proportions, and the words that stand with it there.

import { createFigure } from "../player/figure/figure.js";
import { parseCell } from "../player/cellname.js";
import { el } from "../player/dom.js";
import { current } from "../player/moves.js";
import { placedCaption } from "../player/words.js";
import { answerOf } from "./cards.js";
import { typeset } from "../lesson/math.js";

const WIDTH = 860; // the figure is drawn at this width and scaled, so that it looks as it does in the hall
const LEAST_HEIGHT = 470;
const EDGE = 2; // a panel's border is half outside the figure

/**
 * @param {HTMLElement} host
 * @param {{trace: any, replay: any, order: import("../player/order.js").Order, focus: number, title: string}} options
 */
export function createPreview(host, { trace, replay, order, focus, title }) {
  const frame = el("div", { class: "preview-frame", inert: true });
  const box = el("div", { class: "preview-box" }, frame);
  const card = el("p", { class: "preview-card", hidden: true });
  const words = el("div", { class: "preview-words" });
  host.append(el("div", { class: "preview-screen" }, box, card), words);
  const figure = createFigure(frame, { trace, replay, hall: true });
  new ResizeObserver(() => {
    const [width, height] = [box.clientWidth - 2 * EDGE, box.clientHeight - 2 * EDGE];
    if (width <= 0 || height <= 0) return;
    const high = Math.max(LEAST_HEIGHT, (WIDTH * height) / width);
    const scale = Math.min(width / WIDTH, height / high);
    frame.style.width = `${WIDTH}px`;
    frame.style.height = `${high}px`;
    frame.style.transform = `translate(${EDGE + (width - WIDTH * scale) / 2}px, ${EDGE}px) scale(${scale})`;
  }).observe(box);

  return {
    /** @param {import("./places.js").Place|null} place null: there is none @param {string|null} cell */
    show(place, cell = null) {
      const whole = place === null || place.kind === "title" || place.kind === "end";
      box.hidden = whole;
      card.hidden = !whole;
      words.hidden = whole;
      if (whole) {
        card.textContent = place === null ? "Nothing: this is the end." : place.kind === "title" ? title : "This is the end.";
        return;
      }
      const at = current(trace, order, place.position, focus);
      const chosen = cell === null ? null : parseCell(trace, cell, at.launch);
      figure.show({ order, position: place.position, cell: chosen && { ...chosen, block: at.block }, focus: order.name === "together" ? focus : at.block });
      if (place.question) {
        words.innerHTML = place.question.prompt; // the server's own, from the lesson's text
        words.prepend(el("b", { class: "preview-kind", text: place.kind === "answer" ? "Answer to: " : "Question: " }));
        typeset(words);
        if (place.kind === "answer") words.append(el("div", { class: "preview-answer" }, ...answerOf(place.question)));
      } else {
        words.replaceChildren(...placedCaption(trace, order, at.step).map((part) => (part.number ? el("b", { text: part.text }) : part.text)));
      }
    },
  };
}
