// The strip under the caption: where the lecture stands, and, while the mouse moves, its buttons.

import { el, icon, setAttribute, setText } from "../player/dom.js";

const REST_MS = 2500; // the mouse lies still for so long, and buttons and pointer go

const SIGNS = {
  previous: "M14 4v12L5 10z",
  next: "M6 4v12l9-6z",
  blank: "M3 4h14v10H3zM7 16h6v1.5H7z",
  fullscreen: "M3 3h6v2H5v4H3zM11 3h6v6h-2V5h-4zM3 11h2v4h4v2H3zM15 11h2v6h-6v-2h4z",
  presenter: "M2 4h9v7H2zM13 4h5v3h-5zM13 9h5v2h-5zM2 13h16v3H2z",
  students: "M3 3h6v6H3zM5 5v2h2V5zM11 3h6v6h-6zM13 5v2h2V5zM3 11h6v6H3zM5 13v2h2v-2zM11 11h2v2h-2zM15 11h2v2h-2zM13 13h2v2h-2zM11 15h2v2h-2zM15 15h2v2h-2z",
};

/**
 * @param {HTMLElement} host
 * @param {{title: string, explore: () => string}} lecture  explore: the address of the explorer at this step
 * @param {Record<string, () => void>} actions
 */
export function createBar(host, { title, explore }, actions) {
  const button = (name, says, key) => {
    const node = el("button", { class: `control ${name}`, type: "button", title: `${says} (${key})`, "aria-label": says }, icon(SIGNS[name]));
    node.addEventListener("click", (event) => {
      actions[name]();
      if (event.detail > 0) node.blur(); // after a click the space bar goes on with the lecture
    });
    return node;
  };
  const previous = button("previous", "Back", "←");
  const next = button("next", "Next stop", "→");
  const leave = el("a", { class: "button leave", href: "#", text: "Explore" });
  for (const type of ["pointerdown", "focus", "click"]) leave.addEventListener(type, () => { /** @type {HTMLAnchorElement} */ (leave).href = explore(); });
  const keys = el("button", { class: "control keys", type: "button", text: "?", title: "Keys (?)", "aria-label": "Keys", on: { click: () => actions.help() } });
  const done = el("span", { class: "done" });
  const line = el("span", { class: "line", role: "progressbar", "aria-label": "Stops", "aria-valuemin": "0" }, done);
  const count = el("output", { class: "count", hidden: true });
  const place = el("output", { class: "place", "aria-live": "off" });
  host.append(
    el("span", { class: "name", text: title }),
    el("span", { class: "tools" }, el("span", { class: "pair", role: "group", "aria-label": "Stops" }, previous, next), button("students", "Let students follow", "L"), button("presenter", "Presenter window", "N"),
      button("blank", "Blank screen", "B"), button("fullscreen", "Full screen", "F"), keys, leave),
    line, count, place);

  let timer = 0;
  const rest = () => document.body.classList.add("at-rest");
  const wake = () => {
    document.body.classList.remove("at-rest");
    clearTimeout(timer);
    timer = setTimeout(rest, REST_MS);
  };
  for (const type of ["pointermove", "pointerdown"]) document.addEventListener(type, wake, { passive: true });
  host.addEventListener("focusin", wake);
  wake();

  return {
    count,
    /** @param {{at: number, of: number}} progress @param {string} says "step 5 of 18" @param {boolean} first @param {boolean} last */
    show({ at, of }, says, first, last) {
      done.style.setProperty("width", `${of ? (100 * at) / of : 0}%`);
      setAttribute(line, "aria-valuemax", String(of));
      setAttribute(line, "aria-valuenow", String(at));
      setText(place, says);
      setAttribute(previous, "aria-disabled", first ? "true" : null);
      setAttribute(next, "aria-disabled", last ? "true" : null);
    },
    /** A key moves the lecture: buttons that a mouse woke go at once. */
    rest,
  };
}
