// When each block ran, as bars on lanes: what the device's clock read, and what the lesson draws. Pure.

import { together } from "../player/order.js";

/** @typedef {{launch: number, block: number, lane: string, start: number, end: number}} Bar */

/**
 * The blocks as they ran, in microseconds after the first start; a lane is an SM.
 * @param {import("./numbers.js").Comparison} comparison
 * @returns {Bar[]}
 */
export function measuredBars(comparison) {
  const host = comparison.verdict.engine === "cpu";
  return comparison.launches.flatMap(({ launch, blocks }) => blocks.map(({ start, end, sm }, block) => (
    { launch, block, lane: host ? "host" : `SM ${sm}`, start: start / 1000, end: end / 1000 })));
}

/**
 * The blocks as the lesson draws them: a step a tick, every block on an SM of its own while there are `sms`.
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
