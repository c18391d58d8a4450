// The explorer's page: asks for the recording, with progress and a way out, and opens the player on it.

import { progressView } from "../progress.js";
import { RecordingError } from "../record.js";
import { el } from "./dom.js";
import { explore, recording } from "./early.js";
import { createPlayer } from "./player.js";
import { parse } from "./trace.js";
import { address } from "./url.js";

const host = document.getElementById("player");

/** Says in the host what went wrong and what can be done. */
function fail(sentence) {
  host.replaceChildren(el("div", { class: "waiting", role: "alert" }, el("p", { text: sentence }),
    el("button", { class: "button", type: "button", text: "Try again", on: { click: start } })));
}

/** Record (or fetch) the trace, with progress and a way out. */
async function start() {
  const asked = recording();
  const { stop } = asked;
  const waiting = el("div", { class: "waiting" });
  host.replaceChildren(waiting);
  const view = progressView(waiting, { onCancel: () => stop.abort() });
  let trace;
  try {
    asked.onProgress = view.update;
    const { buffer } = await asked.result;
    performance.mark("flashstep:recorded");
    trace = parse(buffer);
  } catch (error) {
    if (stop.signal.aborted) fail("The recording was cancelled; nothing was kept.");
    else if (error instanceof RecordingError) fail(sentences(error));
    else if (error instanceof TypeError) fail("The server does not answer. Is flashstep still running?");
    else fail(error.message);
    return;
  }
  open(trace);
}

/** A refusal's own words, and those of the fields at fault where it does not repeat them. */
function sentences({ message, fields }) {
  return [message, ...Object.values(fields).filter((text) => !message.includes(text))].join(" ");
}

function open(trace) {
  const { idea, regions } = explore; // an embedded player has none of the regions that may be left out
  const source = regions?.includes("tabs") === false ? null
    : fetch(`/api/source/${encodeURIComponent(trace.meta.kernel)}`).then((r) => (r.ok ? r.json() : null), () => null);
  const player = createPlayer(host, trace, { idea, regions });
  performance.mark("flashstep:first-figure");
  if (!regions) {
    const here = (page) => `/${page}/${encodeURIComponent(trace.meta.kernel)}${address(location, player.state.get()).search}`;
    player.save.offer("HTML", () => here("export"), "the whole run in one file, to play without a server");
    player.save.offer("Handout", () => here("handout"), "chosen steps with their captions, to print");
  }
  document.dispatchEvent(new CustomEvent("playeropen", { detail: player }));
  source?.then((found) => player.fill(found));
}

start();
