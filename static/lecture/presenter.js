// The presenter's window, on the lecturer's own screen: what the hall sees, what comes next, notes, a clock and the steps. It
// holds no place of its own: the hall tells it, and every key and button here asks the hall.

import { el, setText } from "../player/dom.js";
import { current } from "../player/moves.js";
import { serial, together } from "../player/order.js";
import { Replay } from "../player/replay.js";
import * as url from "../player/url.js";
import { answerOf, besides, heedLinks } from "./cards.js";
import { listen } from "./early.js";
import { createHelp } from "./help.js";
import { createList } from "./list.js";
import { typeset } from "../lesson/math.js";
import { lecture, open } from "./opening.js";
import { atPosition, following, placesOf, progress, readPlace, written } from "./places.js";
import { createPreview } from "./preview.js";
import { remember } from "./students.js";
import { createTimer } from "./timer.js";
import { wire } from "./wire.js";

const PATIENCE_MS = 1200; // a hall that is open answers sooner
const part = (id) => document.getElementById(id);

open(part("waiting"), (trace, reading) => {
  part("waiting").remove();
  part("desk").hidden = false;
  const search = new URLSearchParams(location.search);
  const asked = url.read(search);
  const order = asked.order === "together" ? together(trace) : serial(trace);
  const places = placesOf(trace, order, asked.focus, reading.questions);
  const replay = new Replay(trace);
  const shared = { trace, replay, order, focus: asked.focus, title: lecture.title };

  const hall = wire(lecture, order.name);
  const ask = (action) => (held = false) => hall.postMessage({ type: "do", action, held });
  const goTo = (step) => hall.postMessage({ type: "go", index: atPosition(places, order.positionOf(step)) });
  const help = createHelp(document.body);
  const now = createPreview(part("now"), shared);
  const next = createPreview(part("next"), shared);
  const list = createList(part("list"), { ...shared, places, go: (index) => hall.postMessage({ type: "go", index }) });
  createTimer(part("timer"));

  const actions = {
    ...Object.fromEntries(["next", "nextEvent", "previous", "previousEvent", "first", "last", "blank", "clear", "students"].map((action) => [action, ask(action)])),
    fullscreen: () => (document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen()).catch(() => {}),
    help: () => help.open(),
    close: () => /** @type {HTMLDialogElement|null} */ (document.querySelector("dialog[open]"))?.close(),
  };
  for (const words of ["now", "next", "notes"]) heedLinks(part(words), goTo, besides);
  const button = (name, text, key) => el("button", { class: `button ${name}`, type: "button", title: `${text} (${key})`, text,
    on: { click: (event) => {
      actions[name]();
      if (event.detail > 0) /** @type {HTMLElement} */ (event.currentTarget).blur();
    } } });
  part("drive").append(button("previous", "Back", "←"), button("next", "Next", "→"), button("blank", "Blank", "B"));
  listen(actions);

  /** The note of a place: the lesson's beside its title, a question's answer, a step's own. */
  function note(place) {
    const step = place.kind === "title" ? -1 : current(trace, order, place.position, asked.focus).step;
    const notes = part("notes");
    setText(part("notes-title"), place.question ? "The answer" : "Notes");
    if (place.question) notes.replaceChildren(...answerOf(place.question));
    else if (reading.notes[step] === undefined) notes.replaceChildren(el("p", { class: "none", text: "No note for this step." }));
    else {
      notes.innerHTML = reading.notes[step]; // the server's own, from the lesson's text
      typeset(notes);
    }
  }

  let heard = 0; // when the hall last spoke
  let here = places[0];
  function show({ index, cell, blank }) {
    const place = places[index];
    if (!place) return;
    here = place;
    now.show(place, cell);
    const coming = following(places, index);
    next.show(coming === index ? null : places[coming]);
    list.show(index);
    note(place);
    const { at, of } = progress(places, index);
    setText(part("where"), `stop ${at} of ${of}${place.kind === "step" ? ` · step ${place.position} of ${order.length - 1}` : ""}`);
    document.body.classList.toggle("blanked", blank);
  }
  const connected = (is) => {
    part("alone").hidden = is;
  };
  hall.addEventListener("message", ({ data }) => {
    if (data.type === "at") {
      heard = performance.now();
      connected(true);
      show(data);
    } else if (data.type === "session") {
      remember(data.session);
    } else if (data.type === "bye") {
      heard = 0;
      setTimeout(() => connected(heard > 0), PATIENCE_MS); // a reload comes back at once
    }
  });
  const knock = () => {
    if (heard === 0) hall.postMessage({ type: "hello" });
  };
  setInterval(knock, PATIENCE_MS);
  setTimeout(() => connected(heard > 0), PATIENCE_MS);
  part("open-hall").addEventListener("click", () => { // where this window stands, with those who follow
    const at = new URLSearchParams(location.search);
    for (const name of ["step", "card", "cell"]) at.delete(name);
    for (const [name, value] of Object.entries(written(here))) at.set(name, value);
    window.open(`/lecture/${lecture.kernel}?${at}`, "_blank");
  });

  show({ index: readPlace(places, search), cell: asked.cell, blank: false });
  knock();
});
