// Where a move leads: pure functions from (trace, order, position) to another position.

/**
 * The block that captions, carries and source follow, and the step that it shows.
 * One after another, that is the running block. Together, it is the focus block while its launch runs
 * (its last finished step, if it is done), else the first running one.
 * @returns {{launch: number, block: number, step: number}}
 */
export function current(trace, order, position, focus) {
  const at = order.at(position);
  const first = at.active[0];
  const chosen = at.active.find((one) => one.block === focus);
  if (chosen) return { launch: at.launch, block: chosen.block, step: chosen.step };
  const exists = at.launch >= 0 && focus < trace.launches[at.launch].blocks;
  if (order.name === "together" && exists && at.state(focus) === "done") {
    return { launch: at.launch, block: focus, step: at.progress(focus) };
  }
  return first ? { launch: at.launch, block: first.block, step: first.step } : { launch: -1, block: 0, step: 0 };
}

/** @returns {number} the position inside the order, whatever was asked for */
export function clamp(order, position) {
  return Math.max(0, Math.min(order.length - 1, Math.round(position) || 0));
}

/** Two steps are in the same tile when launch, block and every loop index agree. */
export function tileKey(trace, t) {
  const { launch, block, loops } = trace.step(t);
  return `${launch}/${block}/${loops.join("/")}`;
}

/** @returns {number} the first position of the next tile; the last position where there is none */
export function nextTile(trace, order, position, focus) {
  const key = tileKey(trace, current(trace, order, position, focus).step);
  let p = position;
  while (p < order.length - 1) {
    p += 1;
    if (tileKey(trace, current(trace, order, p, focus).step) !== key) break;
  }
  return p;
}

/** @returns {number} the first position of this tile, or of the tile before when already there */
export function previousTile(trace, order, position, focus) {
  if (position === 0) return 0;
  const keyAt = (p) => tileKey(trace, current(trace, order, p, focus).step);
  let p = position - 1;
  const key = keyAt(p);
  while (p > 0 && keyAt(p - 1) === key) p -= 1;
  return p;
}

/**
 * The next step after `t` whose kind is among `kinds`: in the same block if it has one, then in any, then from the start.
 * @param {Set<number>} kinds
 * @returns {number} a step, or -1
 */
export function nextOfKind(trace, t, kinds) {
  const column = trace.columns["steps.kind"];
  const here = trace.step(t);
  if (here.launch >= 0) {
    const [, last] = trace.blockRange(here.launch, here.block);
    for (let s = t + 1; s <= last; s += 1) if (kinds.has(column[s])) return s;
  }
  for (let s = t + 1; s < trace.stepCount; s += 1) if (kinds.has(column[s])) return s;
  for (let s = 0; s <= t; s += 1) if (kinds.has(column[s])) return s;
  return -1;
}
