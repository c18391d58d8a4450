// Which steps a handout shows: read from "2, 5, 9-12", written so again, and chosen where nobody chose.

import { nextTile } from "../player/moves.js";

/** Figures that one handout holds; drawing more would take a minute, and no one reads them. */
export const MOST = 60;
const CHOSEN = 12;

/**
 * @param {string} text
 * @param {number} last the last step there is
 * @returns {{steps: number[], fault: string}} steps: in order, each once; fault: a sentence on what was left out
 */
export function readSteps(text, last) {
  const found = new Set();
  const faults = [];
  for (const part of text.replace(/\s*[-–]\s*/g, '-').split(/[\s,;]+/).filter(Boolean)) {
    const range = /^(\d{1,9})(?:-(\d{1,9}))?$/.exec(part);
    if (!range) {
      faults.push(`“${part.slice(0, 20)}” is neither a step nor a range such as 9-12.`);
      continue;
    }
    const [from, to] = [Number(range[1]), Number(range[2] ?? range[1])].sort((a, b) => a - b);
    if (to > last) faults.push(`The last step is ${last}.`);
    for (let step = from; step <= Math.min(to, last); step += 1) found.add(step);
  }
  const steps = [...found].sort((a, b) => a - b);
  if (steps.length > MOST) faults.push(`A handout holds ${MOST} steps; the first ${MOST} are shown.`);
  return { steps: steps.slice(0, MOST), fault: [...new Set(faults)].join(" ") };
}

/** "2, 5, 9-12". @param {number[]} steps in order */
export function writeSteps(steps) {
  const runs = [];
  for (const step of steps) {
    const run = runs.at(-1);
    if (run && step === run[1] + 1) run[1] = step;
    else runs.push([step, step]);
  }
  return runs.map(([from, to]) => (from === to ? `${from}` : to === from + 1 ? `${from}, ${to}` : `${from}-${to}`)).join(", ");
}

/** Where nobody chose: the last step of each tile of the first block of each launch, when its numbers are all there. */
export function tellingSteps(trace, order) {
  const found = [];
  for (const launch of trace.launches) {
    if (!launch.blocks) continue;
    const [first, last] = trace.blockRange(launch.index, 0);
    for (let at = first + 1; at <= last;) {
      const next = nextTile(trace, order, at, 0);
      const end = next > last || next === at ? last : next - 1;
      found.push(end);
      at = end + 1;
    }
  }
  return found.slice(0, CHOSEN);
}
