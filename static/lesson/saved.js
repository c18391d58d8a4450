// A lesson in a file of its own: the text, and beside it the player on the run that the file holds.

import { el } from "../player/dom.js";
import { createPlayer } from "../player/player.js";
import { savedTrace, whyNot } from "../player/unpack.js";
import { charts } from "./chart.js";
import { keepReadingKeys } from "./keys.js";
import { followLinks } from "./links.js";
import { liveFormulas } from "./live.js";
import { typeset } from "./math.js";
import { printLight } from "./print.js";
import { questions } from "./questions.js";
import { scrollers, wideFormulas } from "./scrollers.js";
import { markSections } from "./sections.js";

const [lesson, host, inText] = ["lesson", "player", "in-text"].map((id) => document.getElementById(id));

typeset(lesson);
questions(document.querySelectorAll(".question"));
charts(document.querySelectorAll(".chart"));
scrollers(document.querySelectorAll(".math.block, .prose .table, .prose pre"));
wideFormulas(document.querySelector(".prose"), document.querySelectorAll(".prose .math.inline"));
printLight();

savedTrace().then((trace) => {
  keepReadingKeys(host);
  const player = createPlayer(host, trace, { regions: ["explain"], alone: true });
  followLinks(lesson, player, host);
  markSections(document.querySelectorAll(".of-step"), player, inText);
  liveFormulas(document.querySelectorAll(".live"), player);
  document.documentElement.dataset.lesson = "ready";
}).catch((error) => {
  host.replaceChildren(el("div", { class: "waiting", role: "alert" }, el("p", { text: whyNot(error) })));
});
