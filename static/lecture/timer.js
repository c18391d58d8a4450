// The presenter's clock: how long the talk has run, and what time it is. It outlives a reload of its window.

import { el, setText } from "../player/dom.js";

const KEPT = "flashstep-timer";

/** @param {number} ms @returns {string} "04:07", "1:04:07" */
function elapsedText(ms) {
  const seconds = Math.floor(ms / 1000);
  const two = (n) => String(n).padStart(2, "0");
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  return `${hours ? `${hours}:` : ""}${two(minutes)}:${two(seconds % 60)}`;
}

/** @param {HTMLElement} host */
export function createTimer(host) {
  let { before, since } = read(); // milliseconds of earlier runs; when this one began, or null
  const elapsed = () => before + (since === null ? 0 : Date.now() - since);
  const shown = el("time", { class: "elapsed", role: "timer", "aria-label": "Time since the start" });
  const toggle = el("button", { class: "button", type: "button", on: { click: () => set(since === null ? { before, since: Date.now() } : { before: elapsed(), since: null }) } });
  const reset = el("button", { class: "button", type: "button", text: "Reset", on: { click: () => set({ before: 0, since: since === null ? null : Date.now() }) } });
  const clock = el("time", { class: "clock", title: "Time of day" });
  host.append(shown, toggle, reset, clock);

  function set(next) {
    ({ before, since } = next);
    try {
      sessionStorage.setItem(KEPT, JSON.stringify(next));
    } catch {
      // it counts on without
    }
    show();
  }
  function show() {
    setText(shown, elapsedText(elapsed()));
    setText(toggle, since === null ? (before ? "Go on" : "Start") : "Pause");
    setText(clock, new Date().toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }));
  }
  setInterval(show, 500);
  show();
}

function read() {
  try {
    const { before, since } = JSON.parse(sessionStorage.getItem(KEPT) ?? "{}");
    return { before: Number(before) || 0, since: Number.isFinite(since) ? since : null };
  } catch {
    return { before: 0, since: null };
  }
}
