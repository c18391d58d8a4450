// The hall's keyboard: a lecturer's clicker, and the keys of a talk.

/** What the list of keys says; the second column finishes "this key …". */
export const HELP = [
  [["→", "↓", "Page down", "Space"], "the next stop: the next tile, question or card"],
  [["←", "↑", "Page up"], "the stop before"],
  [["Shift", "→"], "the next step: every event"],
  [["Shift", "←"], "the step before"],
  [["Home"], "the title"],
  [["End"], "the end"],
  [["B", "."], "a blank screen, and back"],
  [["F", "F5"], "full screen, and back"],
  [["N", "P"], "the presenter window: notes, what comes next, a clock"],
  [["L"], "the link for students to follow"],
  [["Esc"], "back to the figure: no blank, no selected cell"],
  [["?"], "this list"],
];

const PRESSED_BY_SPACE = "button, a, summary, select, input, [role='button']";
const TYPING = "input:not([type='range']), textarea, select";

/** Actions that a key held down asks for once. */
export const ONCE = ["blank", "fullscreen", "presenter", "students", "help", "clear", "close"];

/** @type {Record<string, string>} keys that do the same with Shift and without, by their lower case */
const PLAIN = { b: "blank", ".": "blank", f: "fullscreen", f5: "fullscreen", n: "presenter", p: "presenter", l: "students", escape: "clear", "?": "help", home: "first", end: "last" };

/**
 * Which action a key press asks for, or null when the press belongs to someone else.
 * @param {KeyboardEvent} event
 * @returns {string|null}
 */
export function actionOf(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return null;
  const target = event.target instanceof Element ? event.target : document.body;
  if (document.querySelector("dialog[open]")) return ["PageDown", "PageUp"].includes(event.key) ? "close" : null; // a clicker goes on
  if (target.closest(TYPING)) return null;
  switch (event.key) {
    case "ArrowRight": case "PageDown": return event.shiftKey ? "nextEvent" : "next";
    case "ArrowLeft": case "PageUp": return event.shiftKey ? "previousEvent" : "previous";
    case "ArrowDown": return scrolls(target) ? null : "next"; // some clickers send these
    case "ArrowUp": return scrolls(target) ? null : "previous";
    case " ": return target.closest(PRESSED_BY_SPACE) ? null : event.shiftKey ? "previous" : "next";
    default: return PLAIN[event.key.toLowerCase()] ?? null;
  }
}

/** Would the page, or a part of it with the focus, scroll by an arrow key? @param {Element} target */
function scrolls(target) {
  for (let node = /** @type {Element|null} */ (target); node && node !== document.body; node = node.parentElement) {
    if (node.scrollHeight > node.clientHeight + 1 && /auto|scroll/.test(getComputedStyle(node).overflowY)) return true;
  }
  const page = document.documentElement;
  return page.scrollHeight > page.clientHeight + 1;
}
