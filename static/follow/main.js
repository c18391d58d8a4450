// A student's page: a small player that goes where the lecturer goes, may look around, and comes back with one press.

import { besides, createQuestion } from "../lecture/cards.js";
import { obtain } from "../obtain.js";
import { setAttribute, setText } from "../player/dom.js";
import { listen } from "../player/keys.js";
import { createPlayer } from "../player/player.js";
import { parse } from "../player/trace.js";
import { record } from "../record.js";
import { stream } from "./stream.js";

/**
 * @typedef {{kernel: string, query: string, position: number, order: "serial"|"together", focus: number, cell: string|null,
 *   card: "title"|"step"|"question"|"answer"|"end", question: string|null, blank: boolean}} Place
 */

const { code, titles } = JSON.parse(document.getElementById("follow").textContent);
const part = (id) => document.getElementById(id);
const ACTIONS = ["first", "previous", "next", "last", "nextTile", "previousTile", "toggle", "clear", "help"];

/** @type {Place|null} where the lecturer is */
let newest = null;
/** @type {import("./stream.js").Link} */
let link = "connecting";
let following = true;
/** @type {{name: string, player: ReturnType<typeof createPlayer>|null, questions: object[]}|null} what is shown, or on its way */
let shown = null;
let applying = false;

const nameOf = ({ kernel, query }) => `${kernel}?${query}`;
const question = createQuestion(part("question"), (step) => shown?.player?.goTo(step), besides);

/** The address of a place in the explorer. */
function exploreAt({ kernel, query }, { position, order, focus, cell }) {
  const search = new URLSearchParams(query);
  search.set("step", String(position));
  if (order === "together") search.set("order", order);
  if (order === "together" && focus) search.set("focus", String(focus));
  if (cell) search.set("cell", cell);
  return `/explore/${kernel}?${search.toString().replaceAll("%40", "@")}`;
}

/** Go where the lecturer is: move the figure, or first get what it shows. */
function goThere() {
  if (newest === null) return;
  if (shown?.name !== nameOf(newest)) load(newest);
  else if (shown.player) {
    const { state } = shown.player;
    const { position, order, focus, cell } = newest;
    const own = position === state.get().position && order === state.get().order ? state.get().cell : null;
    applying = true;
    state.set({ position, order, focus, cell: cell ?? own, playing: false }, "step");
    applying = false;
  }
}

/** @param {Place} place */
async function load(place) {
  const asked = shown = { name: nameOf(place), player: null, questions: [] };
  const host = part("player");
  const request = { ...Object.fromEntries(new URLSearchParams(place.query)), kernel: place.kernel };
  const found = await obtain(host, async (options) => {
    const [{ buffer }, questions] = await Promise.all([record(request, options), questionsOf(place)]);
    return { trace: parse(buffer), questions };
  }, { again: () => load(newest), wanted: () => shown === asked, cancelled: "The recording was cancelled." });
  if (!found) return;
  const { position, order, focus, cell } = newest;
  const at = new URLSearchParams({ step: String(position), order, focus: String(focus), ...(cell ? { cell } : {}) });
  asked.questions = found.questions;
  asked.player = createPlayer(host, found.trace, { regions: ["explain"], at });
  asked.player.state.subscribe((now, before) => {
    if (!applying && (now.position !== before.position || now.order !== before.order || now.playing)) following = false;
    show();
  });
  if (following) goThere();
  show();
}

async function questionsOf({ kernel, query }) {
  const answer = await fetch(`/api/lecture/${encodeURIComponent(kernel)}?${query}`).catch(() => null);
  return answer?.ok ? (await answer.json()).questions : [];
}

/** Where the lecturer is, in words. */
function whereabouts() {
  if (newest.card === "title") return "about to begin";
  if (newest.card === "end") return "at the end";
  return `at step ${newest.position}`;
}

/** What the line under the header says. */
function sentence() {
  if (link === "over") return "The lecture is over. What you see stays yours to look around in.";
  if (link === "gone") return "There is no lecture with this code now; this page joins when it goes on.";
  if (link === "full") return "As many follow live as the server takes; this page looks again every few seconds.";
  if (link === "lost") return "Connection lost; trying again.";
  if (newest === null) return link === "connecting" ? "Joining the lecture." : "Waiting for the lecturer to begin.";
  const elsewhere = shown && shown.name !== nameOf(newest) ? ` in ${titles[newest.kernel]}` : "";
  if (!following) return `You are looking around. The lecturer is ${whereabouts()}${elsewhere}.`;
  if (newest.blank) return "The lecturer's screen is blank: look up.";
  if (newest.card === "title") return "The lecture is about to begin.";
  if (newest.card === "end") return "This is the end.";
  return "Following the lecturer.";
}

function show() {
  document.body.dataset.link = link === "level" ? (following ? "following" : "around") : link;
  setText(part("said"), sentence());
  const leave = part("leave");
  leave.hidden = !shown?.player;
  setText(leave, following ? "Look around" : "Back to the lecturer");
  leave.classList.toggle("primary", !following);
  if (newest) setText(part("kernel"), titles[shown ? shown.name.split("?")[0] : newest.kernel]);
  const asked = following && newest?.question ? shown?.questions.find(({ id }) => id === newest.question) : undefined;
  question.show({ kind: newest?.card ?? "step", question: asked });
  document.body.classList.toggle("asking", asked !== undefined);
  const explore = part("explore");
  explore.hidden = !shown?.player;
  if (shown?.player) {
    const [kernel, query] = [shown.name.slice(0, shown.name.indexOf("?")), shown.name.slice(shown.name.indexOf("?") + 1)];
    setAttribute(explore, "href", exploreAt({ kernel, query }, shown.player.state.get()));
  }
}

part("leave").addEventListener("click", (event) => {
  following = !following;
  if (following) goThere();
  else shown?.player?.state.set({ playing: false });
  show();
  if (event.detail > 0) part("leave").blur();
});

listen(Object.fromEntries(ACTIONS.map((name) => [name, () => shown?.player?.actions[name]()])));
stream(code, {
  place: (place) => {
    newest = place;
    if (following) goThere();
    show();
  },
  link: (now) => {
    link = now;
    show();
  },
});
