// Requested traffic per array: elements that loads and stores ask of HBM, so far and in total.
//
//   totals(trace) -> Ledger
//   soFar(trace, order, position) -> Ledger
//   Ledger: {[array name]: {loads: {transfers, elements, bytes}, stores: {transfers, elements, bytes}}}, every HBM array has its entry
//   sum(ledger) -> {loads, stores}

/** @typedef {import('./trace.js').Trace} Trace */
/** @typedef {import('./order.js').Order} Order */
/** @typedef {{transfers: number, elements: number, bytes: number}} Traffic */
/** @typedef {Record<string, {loads: Traffic, stores: Traffic}>} Ledger */

const WIDTH = 4; // transfers and elements of loads, then of stores
const EVERY = 64; // steps between keyframes

/** The whole run's traffic. @param {Trace} trace @returns {Ledger} */
export function totals(trace) {
  return keyed(trace, (counts) => {
    addSteps(trace, 1, trace.stepCount - 1, counts);
  });
}

/** Traffic up to and with a position of an order. @param {Trace} trace @param {Order} order @returns {Ledger} */
export function soFar(trace, order, position) {
  const { every, frames } = keyframes(trace, order);
  return keyed(trace, (counts) => {
    const frame = Math.floor(position / every);
    counts.set(frames.subarray(frame * counts.length, (frame + 1) * counts.length));
    for (let p = frame * every + 1; p <= position; p++) {
      for (const { step } of order.at(p).active) addSteps(trace, step, step, counts);
    }
  });
}

/** All arrays of a ledger together. @param {Ledger} ledger @returns {{loads: Traffic, stores: Traffic}} */
export function sum(ledger) {
  const all = { loads: { transfers: 0, elements: 0, bytes: 0 }, stores: { transfers: 0, elements: 0, bytes: 0 } };
  for (const entry of Object.values(ledger)) {
    for (const way of ['loads', 'stores']) {
      for (const unit of ['transfers', 'elements', 'bytes']) all[way][unit] += entry[way][unit];
    }
  }
  return all;
}

/** @type {WeakMap<Order, {every: number, frames: Float64Array}>} */
const known = new WeakMap();

/** Counts of every array at every `every`-th position, made once an order. */
function keyframes(trace, order) {
  let made = known.get(order);
  if (made) return made;
  // A position of a wide order stands for many steps: its keyframes lie closer.
  const every = Math.max(1, Math.round((EVERY * order.length) / trace.stepCount));
  const size = trace.arrays.length * WIDTH;
  const frames = new Float64Array(size * (Math.floor((order.length - 1) / every) + 1));
  const last = frames.length / size - 1;
  for (let t = 1; t < trace.stepCount; t++) {
    const frame = Math.ceil(order.positionOf(t) / every);
    if (frame <= last) addSteps(trace, t, t, frames, frame * size);
  }
  for (let n = size; n < frames.length; n++) frames[n] += frames[n - size];
  made = { every, frames };
  known.set(order, made);
  return made;
}

function addSteps(trace, from, to, counts, offset = 0) {
  const { columns } = trace;
  const kind = columns['events.kind'], src = columns['events.src'], dst = columns['events.dst'];
  const elements = columns['events.elements'];
  const end = trace.eventRange(to)[1];
  for (let e = trace.eventRange(from)[0]; e < end; e++) {
    const loads = kind[e] === 0, stores = kind[e] === 1 || kind[e] === 6;
    if (!loads && !stores) continue;
    const at = offset + (loads ? src[e] * WIDTH : dst[e] * WIDTH + 2);
    counts[at] += 1;
    counts[at + 1] += elements[e];
  }
}

function keyed(trace, count) {
  const counts = new Float64Array(trace.arrays.length * WIDTH);
  count(counts);
  /** @type {Ledger} */
  const ledger = {};
  for (const array of trace.arrays) {
    if (array.space !== 'hbm') continue;
    const traffic = (at) => ({ transfers: counts[at], elements: counts[at + 1], bytes: counts[at + 1] * array.itemBytes });
    ledger[array.name] = { loads: traffic(array.id * WIDTH), stores: traffic(array.id * WIDTH + 2) };
  }
  return ledger;
}
