// The keys of a lecture from its first moment: what is pressed while the page still opens is kept, and done once it is open.

import { actionOf } from "./keys.js";

const MOST = 20; // presses that are kept
/** Left to the browser until the page is open: loading it anew may be what is wanted. */
const NOT_KEPT = ["fullscreen", "clear", "close"];

/** @type {string[]} */
let kept = [];
/** @type {Record<string, () => void>|null} */
let actions = null;

document.addEventListener("keydown", (event) => {
  const action = actionOf(event);
  if (action === null || (actions ? !actions[action] : NOT_KEPT.includes(action))) return;
  event.preventDefault(); // F5 too: a clicker's "start the show" must not load the page anew
  if (actions) actions[action]();
  else if (kept.length < MOST) kept.push(action);
});

/** The page is open: do what was asked for meanwhile, in its order. @param {Record<string, () => void>} by the names that `actionOf` gives */
export function listen(by) {
  actions = by;
  for (const action of kept.splice(0)) actions[action]?.();
}

/** The page does not open: what was pressed was meant for another. */
export function forget() {
  kept = [];
}
