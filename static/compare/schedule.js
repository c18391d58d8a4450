// When each block ran, as bars on lanes: what the device's clock read, and what the lesson draws. Pure.

import { together } from "../player/order.js";

/** @typedef {{launch: number, block: number, lane: string, start: number, end: number}} Bar */

/**
 * The blocks as they ran, in microseconds; a lane is an SM. Launches stand end to end: the host's pauses between them,
 * many times their length for small problems, are left out and summed in `pauses`.
 * @param {import("./numbers.js").Comparison} comparison
 * @returns {{bars: Bar[], pauses: number}}
 */
export function measuredBars(comparison) {
  const host = comparison.verdict.engine === "cpu";
  /** @type {Bar[]} */
  const bars = [];
  let pauses = 0, ended = 0; // ended: nanoseconds on the device's clock
  for (const { launch, blocks } of comparison.launches) {
    if (!blocks.length) continue;
    const begun = Math.min(...blocks.map((block) => block.start));
    pauses += Math.max(0, begun - ended);
    for (const [block, { start, end, sm }] of blocks.entries()) {
      bars.push({ launch, block, lane: host ? "host" : `SM ${sm}`, start: (start - pauses) / 1000, end: (end - pauses) / 1000 });
    }
    ended = Math.max(ended, ...blocks.map((block) => block.end));
  }
  return { bars, pauses: pauses / 1000 };
}

/**
 * The blocks as the lesson draws them: a step a tick, up to `sms` at once, as if each had an SM to itself.
 * @returns {Bar[]}
 */
export function lessonBars(trace, sms) {
  const order = together(trace, sms);
  /** @type {Bar[]} */
  const bars = [];
  for (const launch of trace.launches) {
    const freeAt = [];
    for (let block = 0; block < launch.blocks; block += 1) {
      const [first, last] = trace.blockRange(launch.index, block);
      if (last < first) continue;
      const start = order.positionOf(first);
      const end = order.positionOf(last) + 1;
      let lane = freeAt.findIndex((time) => time <= start);
      if (lane < 0) lane = freeAt.length;
      freeAt[lane] = end;
      bars.push({ launch: launch.index, block, lane: `SM ${lane}`, start, end });
    }
  }
  return bars;
}

/** The lanes that bars use, in the order of their numbers. */
export function lanes(bars) {
  const numberOf = (lane) => Number(lane.replace(/\D/g, "")) || 0;
  return [...new Set(bars.map((bar) => bar.lane))].sort((a, b) => numberOf(a) - numberOf(b));
}

/** How many bars overlap at most. */
export function atOnce(bars) {
  const edges = bars.flatMap((bar) => [[bar.start, 1], [bar.end, -1]]).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let now = 0, most = 0;
  for (const [, change] of edges) most = Math.max(most, now += change);
  return most;
}
