// Asks for the recording as soon as the page's data is there, while the player's own modules are still on their way.

import { record } from "../record.js";

/** The page's data, as the server wrote it into the page. */
export const explore = JSON.parse(document.getElementById("explore").textContent);

/**
 * A recording asked for: its bytes, a way to stop it, and who hears of its progress.
 * @typedef {{result: ReturnType<typeof record>, stop: AbortController, onProgress: (progress: import("../record.js").Progress) => void}} Asked
 */

/** @returns {Asked} */
function ask() {
  const stop = new AbortController();
  const asked = { stop, onProgress: () => {}, result: record(explore.request, { signal: stop.signal, onProgress: (progress) => asked.onProgress(progress) }) };
  asked.result.catch(() => {}); // whoever takes it says what went wrong
  return asked;
}

/** @type {Asked|null} */
let early = ask();

/** The recording asked for when the page came, the first time; after that one asked for anew. @returns {Asked} */
export function recording() {
  const asked = early ?? ask();
  early = null;
  return asked;
}
