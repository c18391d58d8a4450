// What the hall and the presenter's window open with: the recording and the lesson's questions and notes, with progress.

import { obtain } from "../obtain.js";
import { parse } from "../player/trace.js";
import { record } from "../record.js";
import { forget, keep } from "./early.js";

/**
 * @typedef {{questions: import("./places.js").Question[], notes: Record<string, string>}} Reading  notes: HTML by step
 * @typedef {{kernel: string, title: string, query: string, request: object}} Lecture  query: the recording's part of the address
 */

/** The page's data, as the server wrote it into the page. */
export const lecture = JSON.parse(document.getElementById("lecture").textContent);

/** The lesson's questions and notes on this recording; none where the server has none. @returns {Promise<Reading>} */
export async function reading({ kernel, query }) {
  try {
    const answer = await fetch(`/api/lecture/${encodeURIComponent(kernel)}${query ? `?${query}` : ""}`);
    if (answer.ok) return await answer.json();
  } catch {
    // a lecture goes on without
  }
  return { questions: [], notes: {} };
}

/**
 * Fills `host` with progress until both are there, or with what went wrong and a way to try again.
 * @param {HTMLElement} host
 * @param {(trace: any, reading: Reading) => void} then
 */
export async function open(host, then) {
  keep();
  const found = await obtain(host, async (options) => {
    const [{ buffer }, read] = await Promise.all([record(lecture.request, options), reading(lecture)]);
    return { trace: parse(buffer), read };
  }, { again: () => open(host, then) });
  if (found) then(found.trace, found.read);
  else forget();
}
