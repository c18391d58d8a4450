// Where a lecture can stand, in order: its title, every position of the run, a question before the step that answers it, the
// end. Pure functions of the trace.
//
// Some places are stops: the title, the questions and the end, and of each tile the step at which it has computed. The next
// stop is a clicker's next slide; every place in between is a Shift away.

import { current, tileKey } from "../player/moves.js";

/**
 * @typedef {{id: string, prompt: string, answer: string, step: number|null, result: string}} Question  prompt and answer are the
 *   server's HTML, result is the answer in a word, or empty
 * @typedef {{kind: "title"|"step"|"question"|"answer"|"end", position: number, stop: boolean, question?: Question}} Place
 *   position: what the figure shows meanwhile
 */

/**
 * @param {any} trace
 * @param {import("../player/order.js").Order} order
 * @param {number} focus the block that is followed where several run together
 * @param {Question[]} questions
 * @returns {Place[]}
 */
export function placesOf(trace, order, focus, questions) {
  const last = order.length - 1;
  const asked = Map.groupBy(questions, ({ step }) => (step === null ? Infinity : order.positionOf(Math.min(step, trace.stepCount - 1))));
  const pair = (question, before, after) => [
    { kind: "question", position: before, stop: true, question },
    { kind: "answer", position: after, stop: true, question },
  ];
  const stops = tellingPositions(trace, order, focus);
  const places = [{ kind: "title", position: 0, stop: true }];
  for (let position = 0; position <= last; position += 1) {
    const here = asked.get(position) ?? [];
    const before = Math.max(0, position - 1);
    // The figure shows the step with the last answer: it would give away what the next question asks, and then walk back.
    for (const question of here) places.push(...pair(question, before, question === here.at(-1) ? position : before));
    places.push({ kind: "step", position, stop: here.length > 0 || stops.has(position) });
  }
  for (const question of asked.get(Infinity) ?? []) places.push(...pair(question, last, last));
  places.push({ kind: "end", position: last, stop: true });
  return places;
}

/** Of each tile the last position that computes, or the last of all where none does. @returns {Set<number>} */
function tellingPositions(trace, order, focus) {
  const found = new Set();
  let key = null;
  let [computed, last] = [-1, -1];
  const close = () => found.add(computed < 0 ? last : computed);
  for (let position = 0; position < order.length; position += 1) {
    const { step } = current(trace, order, position, focus);
    const now = tileKey(trace, step);
    if (key !== null && now !== key) {
      close();
      computed = -1;
    }
    key = now;
    last = position;
    if (computes(trace, step)) computed = position;
  }
  close();
  return found;
}

function computes(trace, step) {
  const flops = trace.columns["events.flops"];
  const [from, to] = trace.eventRange(step);
  for (let event = from; event < to; event += 1) if (flops[event] > 0) return true;
  return false;
}

/** @returns {number} the index of the next stop, or of the next place of all; the last stays */
export function following(places, index, every = false) {
  let next = Math.min(index + 1, places.length - 1);
  while (!every && !places[next].stop) next += 1; // the end is a stop
  return next;
}

/** @returns {number} the index of the stop before, or of the place before; the first stays */
export function preceding(places, index, every = false) {
  let next = Math.max(index - 1, 0);
  while (!every && !places[next].stop) next -= 1; // the title is a stop
  return next;
}

/** @returns {{at: number, of: number}} how many stops have been reached, the title apart, and how many there are */
export function progress(places, index) {
  let [at, of] = [0, 0];
  for (let i = 1; i < places.length; i += 1) {
    if (!places[i].stop) continue;
    of += 1;
    if (i <= index) at += 1;
  }
  return { at, of };
}

/** @returns {number} the index of the place that shows a position as a step */
export const atPosition = (places, position) => places.findIndex((place) => place.kind === "step" && place.position === position);

/**
 * What an address says of a place, and back: the title says nothing, a step its number, the others a card besides.
 * @param {Place} place @returns {Record<string, string>}
 */
export function written(place) {
  if (place.kind === "title") return {};
  const step = { step: String(place.position) };
  if (place.kind === "step") return step;
  return { ...step, card: place.question ? `${place.kind}-${place.question.id}` : place.kind };
}

/** @param {Place[]} places @param {URLSearchParams} search @returns {number} an index; the title's where nothing is asked for */
export function readPlace(places, search) {
  const card = search.get("card");
  const found = card === null ? -1 : places.findIndex((place) => written(place).card === card);
  if (found >= 0) return found;
  const step = Number(search.get("step") ?? NaN);
  const steps = places.filter((place) => place.kind === "step");
  if (!Number.isInteger(step)) return 0;
  return places.indexOf(steps[Math.max(0, Math.min(steps.length - 1, step))]);
}
