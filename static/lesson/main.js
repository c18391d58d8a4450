// A lesson's page: the text is there already; this opens the player beside it and ties the two together.

import { el } from "../player/dom.js";
import { createPlayer } from "../player/player.js";
import { parse } from "../player/trace.js";
import { progressView } from "../progress.js";
import { record, RecordingError } from "../record.js";
import { charts } from "./chart.js";
import { keepReadingKeys } from "./keys.js";
import { followLinks } from "./links.js";
import { liveFormulas } from "./live.js";
import { typeset } from "./math.js";
import { keepPlace } from "./place.js";
import { printLight } from "./print.js";
import { questions } from "./questions.js";
import { scrollers, wideFormulas } from "./scrollers.js";
import { markSections } from "./sections.js";
import { decodeForms } from "./splits.js";

const data = JSON.parse(document.getElementById("explore").textContent);
const host = document.getElementById("player");

start(); // the recording is on its way while the text is set
typeset(document.getElementById("lesson"));
questions(document.querySelectorAll(".question"));
charts(document.querySelectorAll(".chart"));
decodeForms(document.querySelectorAll(".decode-form"));
scrollers(document.querySelectorAll(".math.block, .prose .table, .prose pre"));
wideFormulas(document.querySelector(".prose"), document.querySelectorAll(".prose .math.inline"));
printLight();
keepPlace(document.querySelectorAll(".prose h2, .prose h3"));

/** Ask for the recording, with progress and a way out, and open the player on it. */
async function start() {
  const waiting = el("div", { class: "waiting" });
  host.replaceChildren(waiting);
  const stop = new AbortController();
  const view = progressView(waiting, { onCancel: () => stop.abort() });
  try {
    const { buffer } = await record(data.request, { signal: stop.signal, onProgress: view.update });
    open(parse(buffer));
  } catch (error) {
    if (stop.signal.aborted) fail("The recording was cancelled; the text stands without its figure.");
    else if (error instanceof RecordingError) fail([error.message, ...Object.values(error.fields)].join(" "));
    else if (error instanceof TypeError) fail("The server does not answer. Is flashstep still running?");
    else fail(error.message);
  }
}

function fail(sentence) {
  host.replaceChildren(el("div", { class: "waiting", role: "alert" }, el("p", { text: sentence }),
    el("button", { class: "button", type: "button", text: "Try again", on: { click: start } })));
}

function open(trace) {
  keepReadingKeys(host);
  const player = createPlayer(host, trace, { regions: ["explain"] });
  followLinks(document.getElementById("lesson"), player, host);
  markSections(document.querySelectorAll(".of-step"), player, document.getElementById("in-text"));
  liveFormulas(document.querySelectorAll(".live"), player);
  document.documentElement.dataset.lesson = "ready";
}
