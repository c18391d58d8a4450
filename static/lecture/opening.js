// What the hall and the presenter's window open with: the recording and the lesson's questions and notes, with progress.

import { el } from "../player/dom.js";
import { parse } from "../player/trace.js";
import { progressView } from "../progress.js";
import { record, RecordingError } from "../record.js";

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
  const stop = new AbortController();
  const waiting = el("div", { class: "waiting" });
  host.replaceChildren(waiting);
  const view = progressView(waiting, { onCancel: () => stop.abort() });
  let found;
  try {
    found = await Promise.all([record(lecture.request, { signal: stop.signal, onProgress: view.update }), reading(lecture)]);
  } catch (error) {
    const sentence = stop.signal.aborted ? "The recording was cancelled; nothing was kept."
      : error instanceof RecordingError ? error.message : "The server does not answer. Is flashstep still running?";
    host.replaceChildren(el("div", { class: "waiting", role: "alert" }, el("p", { text: sentence }),
      el("button", { class: "button", type: "button", text: "Try again", on: { click: () => open(host, then) } })));
    return;
  }
  host.replaceChildren();
  then(parse(found[0].buffer), found[1]);
}
