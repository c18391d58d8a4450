// The step list's model: launches, blocks and loops opened one at a time, flattened to the rows on show. No DOM.
//
// A trace of 200,000 steps never becomes 200,000 rows: a group's rows are made when it opens, and a group that
// opened itself to show the current step closes when the step leaves it.

import { blockName, label, loopName } from "./words.js";

/** A trace with at most this many steps shows them all at once. */
const ALL_OPEN = 400;

/**
 * @typedef {object} Row
 * @property {"launch"|"block"|"loop"|"step"} type
 * @property {number} depth    0 is the outermost
 * @property {number} first    first step inside
 * @property {number} last     last step inside (a step row: the step itself)
 * @property {number} launch
 * @property {number} block    -1 for a launch
 * @property {string} text
 * @property {boolean} open    a group with its rows on show
 * @property {number} index    place among its siblings, from 1
 * @property {number} size     how many siblings there are
 */

/** @returns {Row} */
function row(type, depth, first, last, launch, block, text) {
  return { type, depth, first, last, launch, block, text, open: false, index: 0, size: 0 };
}

function numbered(rows) {
  rows.forEach((one, i) => { one.index = i + 1; one.size = rows.length; });
  return rows;
}

/** The outermost rows: the start, and each launch that has blocks. */
function roots(trace) {
  const rows = [row("step", 0, 0, 0, -1, -1, label(trace, 0))];
  for (const launch of trace.launches) {
    const [first, last] = trace.launchRange(launch.index);
    if (last < first) continue;
    rows.push(row("launch", 0, first, last, launch.index, -1, launch.title || launch.name));
  }
  return numbered(rows);
}

/** The rows directly inside a group. */
function children(trace, group) {
  if (group.type === "launch") {
    const rows = [];
    for (let block = 0; block < trace.launches[group.launch].blocks; block += 1) {
      const [first, last] = trace.blockRange(group.launch, block);
      if (first > last) continue;
      rows.push(row("block", group.depth + 1, first, last, group.launch, block, blockName(trace, group.launch, block)));
    }
    return numbered(rows);
  }
  const level = group.type === "block" ? 0 : group.level + 1;
  const rows = [];
  let run = null;
  for (let t = group.first; t <= group.last; t += 1) {
    const step = trace.step(t);
    const index = step.loops[level];
    if (index === undefined) {
      run = null;
      rows.push(row("step", group.depth + 1, t, t, group.launch, group.block, label(trace, t)));
      continue;
    }
    const name = step.meta.loops[level];
    if (run && run.loopIndex === index && run.loopName === name) {
      run.last = t;
      continue;
    }
    run = row("loop", group.depth + 1, t, t, group.launch, group.block, loopName(name, index));
    Object.assign(run, { level, loopIndex: index, loopName: name });
    rows.push(run);
  }
  return numbered(rows);
}

export class StepTree {
  constructor(trace) {
    this.trace = trace;
    /** @type {Row[]} the rows on show, in order */
    this.rows = roots(trace);
    /** @type {Set<Row>} groups that opened themselves */
    this.opened = new Set();
    /** @type {Set<number>} first steps of groups that a person closed (kept closed), by depth · 2^32 + first */
    this.closed = new Set();
    this.all = trace.stepCount <= ALL_OPEN;
    if (this.all) for (let i = 0; i < this.rows.length; i += 1) if (this.rows[i].type !== "step") this.#open(i);
  }

  static key(group) {
    return group.depth * 2 ** 32 + group.first;
  }

  #open(i) {
    const group = this.rows[i];
    if (group.open) return;
    group.open = true;
    const inside = children(this.trace, group);
    if (this.rows.length + inside.length < 5000) this.rows.splice(i + 1, 0, ...inside);
    else this.rows = this.rows.slice(0, i + 1).concat(inside, this.rows.slice(i + 1));
  }

  #close(i) {
    const group = this.rows[i];
    if (!group.open) return;
    group.open = false;
    let end = i + 1;
    while (end < this.rows.length && this.rows[end].depth > group.depth) end += 1;
    for (const inside of this.rows.splice(i + 1, end - i - 1)) this.opened.delete(inside);
  }

  /** The row on show that holds step t most closely. */
  indexOf(t) {
    let low = 0;
    let high = this.rows.length - 1;
    while (low < high) { // rows ascend by first step, then by depth
      const middle = (low + high + 1) >> 1;
      if (this.rows[middle].first <= t) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /**
   * Open what leads to step t (but not what a person closed) and close what opened itself and is left.
   * @returns {number} the row of the step, or of the closed group around it
   */
  reveal(t) {
    for (const group of [...this.opened]) {
      if (!this.opened.has(group) || (group.first <= t && t <= group.last)) continue;
      this.opened.delete(group);
      const at = this.rows.indexOf(group);
      if (at >= 0) this.#close(at);
    }
    let i = this.indexOf(t);
    while (this.rows[i].type !== "step" && !this.rows[i].open && !this.closed.has(StepTree.key(this.rows[i]))) {
      this.opened.add(this.rows[i]);
      this.#open(i);
      i = this.indexOf(t);
    }
    return i;
  }

  /** Open or close a group by hand. @returns {boolean} whether the row is a group */
  toggle(i, open = !this.rows[i].open) {
    const group = this.rows[i];
    if (group.type === "step") return false;
    this.opened.delete(group);
    if (open) {
      this.closed.delete(StepTree.key(group));
      this.#open(i);
    } else {
      this.closed.add(StepTree.key(group));
      this.#close(i);
    }
    return true;
  }

  /** Close every group, then the way to step t opens by itself at the next reveal. */
  collapse() {
    for (let i = this.rows.length - 1; i >= 0; i -= 1) if (this.rows[i].open) this.#close(i);
    this.opened.clear();
    this.closed.clear();
  }
}

/** @returns {string[]} lower-case words that all have to be found */
export function terms(query) {
  return query.toLowerCase().replaceAll("=", " = ").split(/\s+/).filter(Boolean);
}

/**
 * The steps whose label, block or loop holds every word of the query, under their groups, found slice by slice.
 * @param {string} query
 * @returns {Generator<Row[], void>} each time the rows found since the last; yields often, so that a page can breathe
 */
export function* search(trace, query) {
  const words = terms(query);
  let found = [];
  let blockRow = null;
  let loopKey = null;
  for (let t = 0; t < trace.stepCount; t += 1) {
    if (t % 2000 === 1999) {
      yield found;
      found = [];
    }
    const step = trace.step(t);
    const text = label(trace, t);
    const loops = step.loops.map((index, level) => loopName(step.meta.loops[level], index)).join(" · ");
    const block = step.launch < 0 ? "" : blockName(trace, step.launch, step.block);
    const hay = ` ${block} ${loops} ${text} `.toLowerCase();
    if (!words.every((word) => hay.includes(word))) continue;
    if (step.launch >= 0 && (blockRow === null || blockRow.launch !== step.launch || blockRow.block !== step.block)) {
      const [first, last] = trace.blockRange(step.launch, step.block);
      const title = trace.launches.length > 1 ? `${trace.launches[step.launch].name} · ` : "";
      blockRow = { ...row("block", 0, first, last, step.launch, step.block, title + block), open: true };
      loopKey = null;
      found.push(blockRow);
    }
    if (loops && loops !== loopKey) found.push({ ...row("loop", 1, t, t, step.launch, step.block, loops), open: true });
    loopKey = loops;
    found.push(row("step", loops ? 2 : 1, t, t, step.launch, step.block, text));
  }
  yield found;
}
