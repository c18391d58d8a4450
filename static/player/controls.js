// First, previous, play, next, last; the slider; the speed; the list of keys.

import { el, icon, setAttribute, setText } from "./dom.js";

const SIGNS = {
  first: "M4 4h2v12H4zM16 4v12L7 10z",
  previous: "M14 4v12L5 10z",
  Play: "M6 3.5v13l11-6.5z",
  "Play again": "M10 5V1L4.5 6l5.5 5V7a4.5 4.5 0 1 1-4.5 4.5h-2A6.5 6.5 0 1 0 10 5z",
  Pause: "M5 4h3.5v12H5zm6.5 0H15v12h-3.5z",
  next: "M6 4v12l9-6z",
  last: "M14 4h2v12h-2zM4 4v12l9-6z",
};
const SPEEDS = [0.5, 1, 2, 4];

function button(name, title) {
  const says = title.split(" (")[0];
  return el("button", { class: `control ${name}`, type: "button", title, "aria-label": says }, icon(SIGNS[name] ?? SIGNS[says]));
}

/**
 * @param {HTMLElement} host
 * @param {{first(): void, previous(): void, toggle(): void, next(): void, last(): void, help(): void,
 *   seek(position: number, begins: boolean): void, speed(times: number): void}} actions
 */
export function createControls(host, actions) {
  const first = button("first", "First step (Home)");
  const previous = button("previous", "Previous step (←)");
  const play = button("play", "Play (Space)");
  const next = button("next", "Next step (→)");
  const last = button("last", "Last step (End)");
  for (const [node, name] of [[first, "first"], [previous, "previous"], [play, "toggle"], [next, "next"], [last, "last"]]) {
    node.addEventListener("click", () => actions[name]());
  }
  const slider = /** @type {HTMLInputElement} */ (el("input", { type: "range", class: "slider", min: "0", step: "1", value: "0",
    "aria-label": "Step" }));
  let dragging = false; // a drag, or a held key, is one jump
  slider.addEventListener("input", () => {
    actions.seek(Number(slider.value), !dragging);
    dragging = true;
  });
  slider.addEventListener("change", () => { dragging = false; });
  const place = el("output", { class: "place", "aria-live": "off" });
  const speed = /** @type {HTMLSelectElement} */ (el("select", { class: "speed", "aria-label": "Speed", title: "Speed of play" },
    ...SPEEDS.map((times) => el("option", { value: String(times), text: `${times}×` }))));
  speed.value = "1";
  let byPointer = false; // after a choice by mouse the arrows step again
  speed.addEventListener("pointerdown", () => { byPointer = true; });
  speed.addEventListener("keydown", () => { byPointer = false; });
  speed.addEventListener("change", () => {
    actions.speed(Number(speed.value));
    if (byPointer) speed.blur();
  });
  const help = el("button", { class: "control keys", type: "button", text: "?", title: "Keys (?)", "aria-label": "Keys" });
  help.addEventListener("click", () => actions.help());
  host.append(el("div", { class: "buttons", role: "group", "aria-label": "Stepping" }, first, previous, play, next, last),
    slider, place, speed, help);

  return {
    /** @param {number} position @param {number} end the last position */
    show(position, end, playing) {
      if (slider.max !== String(end)) slider.max = String(end);
      if (slider.value !== String(position)) slider.value = String(position);
      slider.style.setProperty("--done", end ? `${(100 * position) / end}%` : "100%");
      const text = `step ${position} of ${end}`;
      setText(place, text);
      setAttribute(slider, "aria-valuetext", text);
      for (const node of [first, previous]) setAttribute(node, "aria-disabled", position === 0 ? "true" : null);
      for (const node of [next, last]) setAttribute(node, "aria-disabled", position === end ? "true" : null);
      const does = playing ? "Pause" : position === end ? "Play again" : "Play";
      if (play.title !== `${does} (Space)`) {
        play.title = `${does} (Space)`;
        play.setAttribute("aria-label", does);
        play.replaceChildren(icon(SIGNS[does]));
      }
    },
  };
}
