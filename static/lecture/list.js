// The presenter's list of places: what comes, what was, and a press away.

import { el } from "../player/dom.js";
import { current } from "../player/moves.js";
import { label } from "../player/words.js";

const WINDOW = 300; // of a long run so many rows stand around the place; a list of all would cost seconds

/**
 * @param {HTMLElement} host
 * @param {{trace: any, order: import("../player/order.js").Order, focus: number, places: import("./places.js").Place[], title: string,
 *   go: (index: number) => void}} options
 */
export function createList(host, { trace, order, focus, places, title, go }) {
  const list = el("ol", { class: "places-list", "aria-label": "Steps" });
  host.append(list);
  list.addEventListener("click", (event) => {
    const row = /** @type {Element} */ (event.target).closest("[data-index]");
    if (row) go(Number(/** @type {HTMLElement} */ (row).dataset.index));
  });
  const name = ({ kind, position }) => {
    if (kind === "title") return title;
    if (kind === "end") return "The end";
    if (kind === "question") return "Question";
    if (kind === "answer") return "Answer";
    return label(trace, current(trace, order, position, focus).step);
  };
  const row = (place, index) => el("li", {}, el("button", { class: `place-row ${place.kind}${place.stop ? " stop" : ""}`, type: "button", data: { index: String(index) } },
    el("span", { class: "place-number", text: place.kind === "step" ? String(place.position) : "" }), el("span", { text: name(place) })));

  let [from, to] = [0, 0];
  let shown = null;
  return {
    /** @param {number} index */
    show(index) {
      if (to === 0 || index < from || index >= to) {
        from = places.length <= 2 * WINDOW ? 0 : Math.max(0, index - WINDOW);
        to = places.length <= 2 * WINDOW ? places.length : Math.min(places.length, index + WINDOW);
        list.replaceChildren(...places.slice(from, to).map((place, i) => row(place, from + i)));
      }
      shown?.removeAttribute("aria-current");
      shown = list.children[index - from].firstElementChild;
      shown.setAttribute("aria-current", "step");
      shown.scrollIntoView({ block: "nearest" });
    },
  };
}
