// The home page's figures: each records its kernel as the explorer would, and shows the steps that ran.
// One figure moves at a time, the one that is looked at; none does when motion is unwanted.

import { parse } from "../player/trace.js";
import { label } from "../player/words.js";
import { record } from "../record.js";
import { miniFigure } from "./minifigure.js";

const PACE = 1100; // milliseconds a step
const REST = 2600; // at the end of a run
const still = matchMedia("(prefers-reduced-motion: reduce)");
const pauseButton = document.getElementById("pause");

/** @type {ReturnType<typeof openCard>[]} */
const cards = [];
let playing = null; // the card that moves
let chosen = null; // the card under the pointer or the keyboard
let paused = still.matches;
let timer = 0;

for (const node of document.querySelectorAll(".card[data-kernel]")) {
  record({ kernel: node.dataset.kernel }).then(
    ({ buffer }) => {
      cards.push(openCard(node, parse(buffer)));
      cards.sort((a, b) => a.place - b.place);
      if (!playing) turn(cards[0]);
    },
    (error) => {
      node.querySelector(".step").textContent = error.message;
    },
  );
}

/** A card and its figure at a telling step. */
function openCard(node, trace) {
  const figure = miniFigure(node.querySelector("svg"), trace);
  const link = node.querySelector("a");
  const page = link.getAttribute("href");
  const stepText = node.querySelector(".step");
  const countText = node.querySelector(".count");
  const card = {
    node,
    place: [...document.querySelectorAll(".card")].indexOf(node),
    length: figure.length,
    step: telling(trace),
    show(step, moving = false) {
      card.step = step;
      figure.draw(step, moving && !still.matches);
      stepText.textContent = label(trace, step);
      countText.textContent = `step ${step} of ${figure.length - 1}`;
      link.href = step === figure.length - 1 ? page : `${page}?step=${step}`;
    },
  };
  const choose = () => {
    chosen = card;
    turn(card);
  };
  node.addEventListener("pointerenter", choose);
  node.addEventListener("focusin", choose);
  const release = () => {
    if (chosen === card) chosen = null;
  };
  node.addEventListener("pointerleave", release);
  node.addEventListener("focusout", release);
  card.show(card.step);
  return card;
}

/** Where a figure that stands still shows most: the last update of the first block that has one. */
function telling(trace) {
  for (const launch of trace.launches) {
    const [first, last] = trace.blockRange(launch.index, 0);
    for (let t = last; t >= first; t--) {
      const [from, to] = trace.eventRange(t);
      for (let e = from; e < to; e++) if (trace.event(e).kind === "update") return t;
    }
  }
  return trace.stepCount - 1;
}

/** Let this card move; the one before stays where it is. */
function turn(card) {
  playing = card;
  clearTimeout(timer);
  if (paused) return;
  timer = setTimeout(advance, card === chosen ? 250 : PACE);
}

function advance() {
  if (paused || !playing) return;
  const card = playing;
  if (!visible(card)) {
    const next = cards.find(visible);
    if (next && next !== card) turn(next);
    else timer = setTimeout(advance, PACE);
    return;
  }
  const next = card.step + 1 < card.length ? card.step + 1 : 0;
  card.show(next, true);
  const ended = next === card.length - 1;
  clearTimeout(timer);
  timer = setTimeout(() => {
    if (!ended || chosen === card) advance();
    else {
      const others = cards.filter(visible);
      turn(others[(others.indexOf(card) + 1) % others.length] ?? card);
    }
  }, ended ? REST : PACE);
}

function visible(card) {
  const box = card.node.getBoundingClientRect();
  return document.visibilityState === "visible" && box.bottom > 80 && box.top < innerHeight - 120;
}

function sayPaused() {
  pauseButton.textContent = paused ? "Play the figures" : "Pause the figures";
}
pauseButton.hidden = false;
sayPaused();
pauseButton.addEventListener("click", () => {
  paused = !paused;
  sayPaused();
  if (playing) turn(playing);
});
still.addEventListener("change", () => {
  paused = still.matches;
  sayPaused();
  if (playing) turn(playing);
});
