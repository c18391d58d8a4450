// Asks for the recording as soon as the page's data is there, while the player's own modules are still on their way.

import { record } from "../record.js";

/** The page's data, as the server wrote it into the page. */
export const explore = JSON.parse(document.getElementById("explore").textContent);

/** @typedef {{signal: AbortSignal, onProgress: (progress: import("../record.js").Progress) => void}} Options */

const stop = new AbortController();
let told = /** @type {Options["onProgress"]} */ (() => {});
/** @type {ReturnType<typeof record>|null} */
let early = record(explore.request, { signal: stop.signal, onProgress: (progress) => told(progress) });
early.catch(() => {}); // whoever takes it says what went wrong

/** The recording asked for when the page came, the first time; after that one asked for anew. @param {Options} options */
export function recording(options) {
  const asked = early;
  early = null;
  if (asked === null) return record(explore.request, options);
  told = options.onProgress;
  options.signal.addEventListener("abort", () => stop.abort(options.signal.reason));
  return asked;
}
