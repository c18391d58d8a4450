// The keys of a lecture from its first moment: what is pressed while the page still opens is kept, and done once it is open.

import { ONCE, actionOf } from "./keys.js";

const MOST = 20; // presses that are kept
/** Left to the browser until the page is open: loading it anew may be what is wanted. */
const NOT_KEPT = ["fullscreen", "clear", "close"];

/** @type {string[]} */
let kept = [];
let keeping = true;
/** @type {Record<string, (held?: boolean) => void>|null} */
let actions = null;

document.addEventListener("keydown", (event) => {
  const action = actionOf(event);
  if (action === null || !(actions ? actions[action] : keeping && !NOT_KEPT.includes(action))) return;
  event.preventDefault(); // F5 too: a clicker's "start the show" must not load the page anew
  if (event.repeat && ONCE.includes(action)) return; // a key that is held down would undo itself
  if (actions) actions[action](event.repeat);
  else if (kept.length < MOST) kept.push(action);
});

/** The page is open: do what was asked for meanwhile, in its order. @param {Record<string, (held?: boolean) => void>} by the names that `actionOf` gives; held: the key is held down */
export function listen(by) {
  actions = by;
  for (const action of kept.splice(0)) actions[action]?.();
}

/** The page opens, or tries again: what is pressed is kept. */
export function keep() {
  keeping = true;
}

/** The page does not open: what was pressed was meant for another, and so is what is pressed now. */
export function forget() {
  kept = [];
  keeping = false;
}
