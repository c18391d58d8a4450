// The hall: one screen for everyone in the room. Holds the lecture's place; keys, buttons, the presenter's window and the
// address move it, and the figure, the cards and those who follow show it.

import { keepAddress } from "../address.js";
import { createPlayer } from "../player/player.js";
import { createState } from "../player/state.js";
import { stayAwake } from "./awake.js";
import { createBar } from "./bar.js";
import { createEnd, createQuestion } from "./cards.js";
import { listen } from "./early.js";
import { createHelp } from "./help.js";
import { lecture, open } from "./opening.js";
import { atPosition, following, placesOf, preceding, progress, readPlace, written } from "./places.js";
import { createStudents } from "./students.js";
import { wire } from "./wire.js";

const OWN = ["step", "card", "cell"];
const part = (id) => document.getElementById(id);

/** What a lesson shows on another run, the hall shows as a lecture on that run. @param {HTMLAnchorElement} link */
function asLecture(link) {
  link.pathname = link.pathname.replace(/^\/lessons\//, "/lecture/");
}

open(part("opening"), (trace, reading) => {
  part("opening").remove();
  const search = new URLSearchParams(location.search);
  const player = createPlayer(part("player"), trace, { regions: ["explain"], at: search, hall: true });
  const order = player.order();
  const places = placesOf(trace, order, player.state.get().focus, reading.questions);
  const state = createState({ index: readPlace(places, search), cell: player.state.get().cell, blank: false });
  const place = () => places[state.get().index];

  const go = (index, how = "step") => state.set({ index, blank: false, ...(places[index].position === place().position ? {} : { cell: null }) }, how);
  /** The first press after a blank screen brings the lecture back, and no more; and a key held down does not answer a question. */
  const move = (way, every = false) => (held = false) => {
    if (held && (state.get().blank || place().kind === "question")) return;
    if (state.get().blank) state.set({ blank: false });
    else go(way(places, state.get().index, every));
  };
  const actions = {
    next: move(following),
    nextEvent: move(following, true),
    previous: move(preceding),
    previousEvent: move(preceding, true),
    first: () => go(0, "jump"),
    last: () => go(places.length - 1, "jump"),
    blank: () => state.set({ blank: !state.get().blank }),
    clear: () => state.set({ blank: false, cell: null }),
    fullscreen: () => (document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen()).catch(() => {}),
    presenter: () => window.open(addressOf({ path: `/lecture/${lecture.kernel}/presenter` }), `flashstep-presenter-${lecture.kernel}`, "popup,width=1280,height=720"),
    students: () => students.open(),
    help: () => help.open(),
    close: () => /** @type {HTMLDialogElement|null} */ (document.querySelector("dialog[open]"))?.close(),
  };

  /** This place in the address, of this page or of another. */
  function addressOf({ path = location.pathname, index = state.get().index, cell = state.get().cell } = {}) {
    const url = new URL(path, location.href);
    url.search = location.search;
    for (const name of OWN) url.searchParams.delete(name);
    for (const [name, value] of Object.entries(written(places[index]))) url.searchParams.set(name, value);
    if (cell) url.searchParams.set("cell", cell);
    url.search = url.search.replaceAll("%40", "@");
    return url;
  }
  function exploreAddress() {
    const url = addressOf({ path: `/explore/${lecture.kernel}` });
    url.searchParams.delete("card"); // the explorer has steps only
    return url.href;
  }
  keepAddress(state, { keys: ["index", "cell"], addressOf: ({ index, cell }) => addressOf({ index, cell }) });
  addEventListener("popstate", () => {
    const found = new URLSearchParams(location.search);
    state.set({ index: readPlace(places, found), cell: found.get("cell"), blank: false }, "restore");
  });

  const help = createHelp(document.body);
  const question = createQuestion(part("question"), (step) => go(atPosition(places, order.positionOf(step)), "jump"), asLecture);
  createEnd(part("end"), trace, lecture);
  const bar = createBar(part("bar"), { title: lecture.title, explore: exploreAddress }, actions);
  const windows = wire(lecture, order.name);
  const tell = () => windows.postMessage({ type: "at", ...state.get() });
  const tellSession = (session) => windows.postMessage({ type: "session", session });
  const students = createStudents({ title: part("title-students"), count: bar.count, lecture, told: tellSession });

  // What a person chooses in the figure and in a formula moves the lecture.
  let showing = false;
  let revealed = false;
  player.state.subscribe((now, before) => {
    if (showing) return;
    const to = now.position === before.position ? {} : { index: atPosition(places, now.position) };
    const moved = state.set({ ...to, cell: now.cell }, now.position === before.position ? "step" : "jump");
    if (!moved && now.focus !== before.focus) show(state.get(), state.get()); // another block is followed where several run
  });

  windows.addEventListener("message", ({ data }) => {
    if (data.type === "hello") {
      tell();
      tellSession(students.session());
    } else if (data.type === "go" && places[data.index]) go(data.index, "jump");
    else if (data.type === "do" && Object.hasOwn(actions, data.action)) actions[data.action](data.held);
  });
  addEventListener("pagehide", () => windows.postMessage({ type: "bye" }));
  addEventListener("pageshow", tell);

  function show(now, before) {
    const here = places[now.index];
    document.body.dataset.card = here.kind;
    showing = true;
    player.state.set({ position: here.position, cell: now.cell }, "step");
    showing = false;
    part("title").hidden = here.kind !== "title";
    part("end").hidden = here.kind !== "end";
    part("blank").hidden = !now.blank;
    question.show(here);
    const says = here.kind === "title" || here.kind === "end" ? "" : `step ${here.position} of ${order.length - 1}`;
    bar.show(progress(places, now.index), says, now.index === 0, now.index === places.length - 1);
    students.show({ ...now, position: here.position, order: order.name, focus: player.state.get().focus, card: here.kind, question: here.question?.id ?? null });
    if (before) tell();
    if (revealed || here.kind === "title" || here.kind === "end") return;
    revealed = true; // once: where the page stands is the reader's from then on
    player.reveal();
  }
  state.subscribe((now, before) => show(now, before));
  listen(Object.fromEntries(Object.entries(actions).map(([name, act]) => [name, (held) => {
    bar.rest();
    act(held);
  }])));
  show(state.get(), null);
  tell();
  stayAwake();
});
