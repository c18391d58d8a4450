// What a page opens with, on its way: progress and a way out, and in the end what was asked for, or a sentence on why not and
// a way to try again.

import { el } from "./player/dom.js";
import { progressView } from "./progress.js";
import { RecordingError } from "./record.js";

/**
 * @template T
 * @param {HTMLElement} host is filled, and left empty where all is well
 * @param {(options: {signal: AbortSignal, onProgress: (progress: import("./record.js").Progress) => void}) => Promise<T>} ask
 * @param {{again: () => void, cancelled?: string, wanted?: () => boolean}} options  again: what "Try again" does; cancelled: what
 *   is said to whoever stopped it; wanted: whether the page still waits for this (else nothing is shown of it)
 * @returns {Promise<T|null>} null where there is nothing, which the page then says, or where it is not wanted any more
 */
export async function obtain(host, ask, { again, cancelled = "The recording was cancelled; nothing was kept.", wanted = () => true }) {
  const stop = new AbortController();
  const waiting = el("div", { class: "waiting" });
  host.replaceChildren(waiting);
  const view = progressView(waiting, { onCancel: () => stop.abort() });
  try {
    const found = await ask({ signal: stop.signal, onProgress: view.update });
    if (!wanted()) return null;
    host.replaceChildren();
    return found;
  } catch (error) {
    if (wanted()) {
      host.replaceChildren(el("div", { class: "waiting", role: "alert" },
        el("p", { text: stop.signal.aborted ? cancelled : whyNot(error) }),
        el("button", { class: "button", type: "button", text: "Try again", on: { click: again } })));
    }
    return null;
  }
}

/** A refusal's own words, and those of the fields at fault where it does not repeat them; a connection that failed. */
export function whyNot(error) {
  if (error instanceof RecordingError) {
    return [error.message, ...Object.values(error.fields).filter((text) => !error.message.includes(text))].join(" ");
  }
  return error instanceof TypeError ? "The server does not answer. Is flashstep still running?" : error.message;
}
