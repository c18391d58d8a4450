// The sentence beside the squares: which blocks run, and that a GPU would run them side by side.

import { grouped } from './names.js';

const NONE = 'nothing has run yet';
const same = (sentence) => ({ full: sentence, brief: sentence });

/**
 * Of a launch at work, in full, and in brief for where there is little room.
 * parts: {index, launches, blocks, together, block, running, waiting, shown: how many of the running ones have a panel}.
 * Returns {full, brief}.
 */
function said({ index, launches, blocks, together, block, running, waiting, shown }) {
  const many = launches > 1 ? `launch ${index + 1} of ${launches}, ` : '';
  if (blocks === 1) return same(`${many}its one block is running`);
  const all = grouped(blocks);
  if (!together) {
    const one = `block ${block} of ${all}`;
    return { full: `${many}${one}: shown one after another, though a GPU runs blocks side by side`, brief: `${one}; a GPU runs blocks side by side` };
  }
  const queue = waiting ? `, ${waiting === 1 ? '1 waits its' : `${grouped(waiting)} wait their`} turn` : '';
  const some = shown < running ? `; showing ${shown} of ${grouped(running)} running blocks` : '';
  const does = running === 1 ? 'is running' : 'advance together';
  const run = `${grouped(running)} of ${all} blocks ${does}`;
  return { full: `${many}${run}${queue}${some}; a GPU promises no order`, brief: `${run}${some}` };
}

/** The sentence at a position. shown: how many of the running blocks have a panel. Returns {full, brief}. */
export function gridSentence(trace, order, at, started, shown = at.active.length) {
  if (!started) return same(NONE);
  const { blocks } = trace.launches[at.launch];
  let waiting = 0;
  if (order.name === 'together' && blocks <= 4096) for (let b = 0; b < blocks; b++) if (at.state(b) === 'waiting') waiting++;
  return said({
    index: at.launch, launches: trace.launches.length, blocks, together: order.name === 'together',
    block: at.active[0].block, running: at.active.length, waiting, shown,
  });
}

/** The longest that a launch comes to in an order: its room is kept from the first step to the last. panels: the most shown. */
export function longestSentence(trace, order, index, panels) {
  const { blocks } = trace.launches[index];
  if (!blocks) return same(NONE);
  const running = order.at(order.positionOf(trace.blockRange(index, 0)[0])).active.length; // never more than when it begins
  const waiting = running < blocks ? blocks - 1 : 0;
  return said({ index, launches: trace.launches.length, blocks, together: order.name === 'together', block: blocks - 1, running, waiting, shown: Math.min(panels, running) });
}
