// What the player's model says of a whole trace, as plain data: Python compares it with what Python says.

import { cellName, parseCell } from '/static/player/cellname.js';
import { explain } from '/static/player/explain.js';
import { soFar, totals } from '/static/player/ledger.js';
import { serial, together } from '/static/player/order.js';
import { Replay } from '/static/player/replay.js';
import { parse } from '/static/player/trace.js';
import * as words from '/static/player/words.js';

const traces = new Map();

export async function open(name) {
  if (!traces.has(name)) {
    const answer = await fetch(`/traces/${name}`);
    const trace = parse(await answer.arrayBuffer());
    traces.set(name, { trace, replay: new Replay(trace), serial: serial(trace) });
  }
  return traces.get(name);
}

/** An answer as JSON, for which the browser's own way home is slow: NaN and infinities, and vectors as bytes, marked. */
export const written = (answer) => JSON.stringify(answer, (_, value) => {
  if (value instanceof Float32Array) return { float32: btoa(String.fromCharCode(...new Uint8Array(value.slice().buffer))) };
  return typeof value === 'number' && !Number.isFinite(value) ? { number: String(value) } : value;
});

/** Every number as the page writes it. */
export const numbers = ({ values, digits }) => values.map((value) => words.number(value, digits));
export const cellNumbers = ({ values }) => values.map(words.cellNumber);

/** Label, caption, path of every step, and the caption again from its pieces. */
export async function spoken({ name }) {
  const { trace } = await open(name);
  return Array.from({ length: trace.stepCount }, (_, t) => [
    words.label(trace, t), words.caption(trace, t), words.path(trace, t),
    words.captionParts(trace, t).filter((part) => part.number).map((part) => part.text),
  ]);
}

/** After every step: the slots of its block, and every tile of every array in HBM. */
export async function states({ name, order: orderName = 'serial', sms = 132 }) {
  const { trace, replay, serial: one } = await open(name);
  const order = orderName === 'serial' ? one : together(trace, sms);
  return Array.from({ length: order.length }, (_, position) => ({
    blocks: order.at(position).active.map(({ launch, block, step }) => ({
      launch, block, step, slots: replay.slots(launch, block, step).filter(({ state }) => state !== null).map(slot),
    })),
    arrays: trace.arrays.filter((array) => array.space === 'hbm').map((array) => ({
      name: array.name,
      stored: Array.from(replay.tiles(array.id, order, position)),
      tiles: Array.from({ length: array.tileCount }, (_, n) => tile(trace, replay, order, position, array, n)),
    })),
  }));
}

const slot = ({ node, state }) => ({
  name: node.name, label: state.label, stale: state.stale, event: state.event, rows: state.rows, cols: state.cols,
  values: state.values,
});

function tile(trace, replay, order, position, array, n) {
  const state = replay.tile(array.id, n, order, position), box = trace.box(array, n);
  const corner = trace.tileAt(array, box.plane, box.row + box.rows - 1, box.col + box.cols - 1);
  return { ...box, found: corner, event: state.event, origin: state.origin, values: state.values };
}

/** The ledger at every position, and in total. */
export async function ledgers({ name, order: orderName = 'serial', sms = 132 }) {
  const { trace, serial: one } = await open(name);
  const order = orderName === 'serial' ? one : together(trace, sms);
  const positions = Array.from({ length: order.length }, (_, p) => p).reverse(); // any position first
  return { total: totals(trace), soFar: positions.map((p) => soFar(trace, order, p)).reverse() };
}

/** The whole schedule: what every block does at every position, and the way back from each step. */
export async function schedule({ name, sms }) {
  const { trace, serial: one } = await open(name);
  const order = sms === null ? one : together(trace, sms);
  return {
    length: order.length,
    positions: Array.from({ length: trace.stepCount }, (_, step) => order.positionOf(step)),
    at: Array.from({ length: order.length }, (_, position) => {
      const at = order.at(position);
      const blocks = at.launch < 0 ? [] : Array.from({ length: trace.launches[at.launch].blocks }, (_, b) => [at.progress(b), at.state(b)]);
      return { launch: at.launch, active: at.active, blocks, step: order.stepAt(position) };
    }),
    kept: Array.from({ length: trace.stepCount }, (_, step) => order.stepAt(order.positionOf(step), trace.step(step))),
  };
}

/** Explanations of every cell that a step writes, of every step: slots after it, and tiles of arrays. */
export async function explanations({ name, from = 0, to = Infinity, guarded = false }) {
  const { trace, replay, serial: order } = await open(name);
  const found = [];
  for (let t = from; t < Math.min(to, trace.stepCount); t++) {
    for (const cell of cellsOf(trace, t, guarded)) {
      const answer = explain(trace, replay, order, t, cell);
      const node = trace.nodes[cell.node];
      const place = parseCell(trace, cellName(trace, cell), node.launch);
      found.push({
        ...answer,
        step_shown: t,
        node: node.name,
        same: place !== null && place.node === cell.node && place.row === cell.row && place.col === cell.col,
        lines: answer.lines.map((pieces) => pieces.map((piece) => piece.text).join('')),
        shown: [...new Set(answer.lines.flat().map((piece) => piece.operand).filter((n) => n !== undefined))],
        pieces: answer.lines.flat().filter((piece) => piece.operand !== undefined).map((piece) => [piece.operand, piece.text]),
        operands: answer.operands.map((operand) => ({ ...operand, slot: trace.nodes[operand.node].kind === 'slot', array: trace.nodes[operand.node].name })),
      });
    }
  }
  return found;
}

function* cellsOf(trace, t, guarded) {
  const { block } = trace.step(t);
  const seen = new Set();
  const [from, to] = trace.eventRange(t);
  for (let e = from; e < to; e++) {
    const event = trace.event(e);
    if (event.writes === null) continue;
    const slot = event.writes === 'slot';
    const key = `${event.dst} ${slot ? '' : event.tile}`;
    if (seen.has(key)) continue;
    seen.add(key);
    const box = slot ? { row: 0, col: 0 } : trace.box(event.array, event.tile);
    const rows = slot && guarded ? event.slot.rows : event.rows, cols = slot && guarded ? event.slot.cols : event.cols;
    for (let r = 0; r < rows; r++) {
      for (let c = 0; c < cols; c++) {
        if (guarded && r < event.rows && c < event.cols) continue;
        yield slot ? { node: event.dst, row: r, col: c, block } : { node: event.dst, plane: box.plane, row: box.row + r, col: box.col + c };
      }
    }
  }
}

/** One cell, by its name in the URL. */
export async function one({ name, position, cell, launch = 0, block, order: orderName = 'serial' }) {
  const { trace, replay, serial: order } = await open(name);
  const place = parseCell(trace, cell, launch);
  const answer = explain(trace, replay, orderName === 'serial' ? order : together(trace), position, { ...place, block });
  return { ...answer, lines: answer.lines.map((pieces) => pieces.map((piece) => piece.text).join('')) };
}

/** From every cell that the last step wrote, along every operand, until nothing is left to ask. */
export async function hops({ name }) {
  const { trace, replay, serial: order } = await open(name);
  const last = trace.stepCount - 1;
  const queue = [...cellsOf(trace, last, false)].map((cell) => ({ position: last, cell }));
  const seen = new Set(), ends = new Set(), taken = [];
  for (const { position, cell } of queue) {
    const key = `${position} ${cellName(trace, cell)}`;
    if (seen.has(key)) continue;
    seen.add(key);
    const one = explain(trace, replay, order, position, cell);
    if (one.operands.length === 0) ends.add(one.status);
    for (const operand of one.operands) {
      const there = operand.visit >= 0 ? operand.visit : position;
      const found = explain(trace, replay, order, there, operand.cell);
      taken.push({ from: key, to: operand.name, left: operand.value, arrived: found.value, expected: operand.step, step: found.step });
      queue.push({ position: there, cell: operand.cell });
    }
  }
  return { hops: taken, ends: [...ends] };
}

/** The sentence with which a damaged file is refused; null when it is read. */
export async function refusal({ name, length = null, at = -1, byte = 0 }) {
  const whole = await (await fetch(`/traces/${name}`)).arrayBuffer();
  const bytes = new Uint8Array(whole.slice(0, length ?? whole.byteLength));
  if (at >= 0) bytes[at] = byte;
  return attempt(bytes.buffer);
}

/** Damage in many ways: what each file is refused with, or null where it is read and everything can be asked of it. */
export async function damages({ name, count }) {
  const whole = new Uint8Array(await (await fetch(`/traces/${name}`)).arrayBuffer());
  const header = 8 + Number(new DataView(whole.buffer).getBigUint64(0, true));
  let seed = 1;
  const random = (below) => {
    seed = (seed * 48271) % 2147483647;
    return seed % below;
  };
  return Array.from({ length: count }, (_, n) => {
    const bytes = whole.slice(0, n % 10 === 9 ? random(whole.length) : whole.length);
    for (let k = random(4) + 1; k > 0 && bytes.length; k--) {
      // Every other damage hits the header, where a byte changes the most.
      const at = n % 2 ? random(Math.min(header, bytes.length)) : random(bytes.length);
      bytes[at] = n % 3 ? random(256) : 48 + random(10);
    }
    return attempt(bytes.buffer);
  });
}

function attempt(buffer) {
  let trace;
  try {
    trace = parse(buffer);
  } catch (error) {
    return `${error.constructor.name}: ${error.message}`;
  }
  const replay = new Replay(trace), order = serial(trace), wide = together(trace, 2);
  soFar(trace, wide, wide.length - 1);
  totals(trace);
  for (let t = 0; t < trace.stepCount; t += 3) {
    words.label(trace, t);
    words.caption(trace, t);
    words.path(trace, t);
    const { launch, block } = trace.step(t);
    if (launch < 0) continue;
    for (const { node } of replay.slots(launch, block, t)) explain(trace, replay, order, t, { node: node.id, row: 0, col: 0, block });
    for (const array of trace.arrays) if (array.rows && array.cols) explain(trace, replay, wide, 1, { node: array.id, plane: 0, row: 0, col: 0 });
  }
  return null;
}

/** Milliseconds to open a trace, and to find states and ledgers at positions all over it. */
export async function timings({ name }) {
  const buffer = await (await fetch(`/traces/${name}`)).arrayBuffer();
  const begin = performance.now();
  const trace = parse(buffer), replay = new Replay(trace), order = serial(trace), wide = together(trace);
  const opened = performance.now() - begin;
  const jumps = [];
  for (let n = 0; n < 200; n++) {
    const which = n % 2 ? order : wide;
    const position = (n * 7919) % which.length;
    const start = performance.now();
    for (const { launch, block, step } of which.at(position).active.slice(0, 4)) replay.slots(launch, block, step);
    for (const array of trace.arrays) if (array.space === 'hbm') replay.tiles(array.id, which, position);
    jumps.push(performance.now() - start);
  }
  jumps.sort((a, b) => a - b);
  return { opened, median: jumps[100], high: jumps[190] };
}
