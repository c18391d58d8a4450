// A lesson's page: the text is there already; this opens the player beside it and ties the two together.

import { obtain } from "../obtain.js";
import { createPlayer } from "../player/player.js";
import { parse } from "../player/trace.js";
import { record } from "../record.js";
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

async function start() {
  const trace = await obtain(host, async (options) => parse((await record(data.request, options)).buffer),
    { again: start, cancelled: "The recording was cancelled; the text stands without its figure." });
  if (trace) open(trace);
}

function open(trace) {
  keepReadingKeys(host);
  const player = createPlayer(host, trace, { regions: ["explain"] });
  followLinks(document.getElementById("lesson"), player, host);
  markSections(document.querySelectorAll(".of-step"), player, document.getElementById("in-text"));
  liveFormulas(document.querySelectorAll(".live"), player);
  document.documentElement.dataset.lesson = "ready";
}
