// A trace file as the page reads it: typed arrays over the file's own bytes, and a few lookups.
// The contract is trace/FORMAT.md; trace/ reads and checks it. Nothing here knows of drawing, and nothing copies the numbers.
//
//   parse(arrayBuffer) -> Trace                       throws Error with one sentence
//   trace.meta                                        the header, as FORMAT.md lists it
//   trace.nodes[id]                                   ArrayNode | SlotNode; arrays first, then slots
//   trace.arrays, trace.launches                      ArrayNode[]; Launch[] {index, name, title, grid, blocks, slots, ...}
//   trace.stepCount, trace.eventCount                 steps 0 ... stepCount - 1; step 0 is the start
//   trace.eventRange(t) -> [a, b)                     events of step t
//   trace.step(t) -> {index, kind, meta, name, launch, block, loops}     launch -1 for the start
//   trace.event(e) -> {index, kind, src, dst, array, slot, tile, tiles, rows, cols, elements, flops, value, writes}
//   trace.stepOf(e)                                   the step an event belongs to
//   trace.blockRange(launch, block) -> [first, last]  its steps, both included
//   trace.launchRange(launch) -> [first, last]        [0, -1] when it has no blocks
//   trace.axes(launch, block) -> [{axis, index, size}]
//   trace.node(name, launch = -1)                     the slot of that launch, else the array; null when none
//   trace.box(arrayNode, tile) -> {plane, batch, head, rowTile, colTile, row, col, rows, cols, offset}
//   trace.tileAt(arrayNode, plane, row, col)          tile index
//   trace.numbers(offset, count)                      Float32Array view of the pool, null for offset -1
//   trace.visible(batch, query, key)                  may this query see this key? (causal bottom-right, key mask)
//   trace.hidden(batch, query, key)                   why not: 'causal', 'mask', 'unkept' (its mask was not kept), or null
//   trace.mask                                        the key mask's ArrayNode, or null
//   trace.blockIndex(launch, block), trace.blockOfStep[t]   a block's place among the blocks of all launches

import { BARRIER, KINDS, NONE, PARTIAL, STORE } from './trace/codes.js';
import { demand } from './trace/demand.js';
import { readFile } from './trace/file.js';
import { checkMeta } from './trace/header.js';
import { arrayNode, launchNode } from './trace/nodes.js';
import { checkEvents, indexBlocks } from './trace/runs.js';

/** @typedef {import('./trace/nodes.js').ArrayNode} ArrayNode */
/** @typedef {import('./trace/nodes.js').SlotNode} SlotNode */
/** @typedef {import('./trace/nodes.js').Launch} Launch */

/** @typedef {{index: number, kind: number, meta: object, name: string, launch: number, block: number, loops: number[]}} Step */

/**
 * @typedef {object} TraceEvent
 * @property {number} index
 * @property {string} kind          one of KINDS
 * @property {number} src
 * @property {number} dst
 * @property {ArrayNode|null} array the array among src and dst
 * @property {SlotNode|null} slot   the slot among src and dst
 * @property {number} tile
 * @property {number} tiles
 * @property {number} rows
 * @property {number} cols
 * @property {number} elements
 * @property {number} flops
 * @property {number} value         offset in the pool, or -1
 * @property {'slot'|'array'|null} writes   what it changes
 */

/**
 * Read a trace. The typed arrays are views of `buffer`: keep it, and do not change it.
 * @param {ArrayBuffer} buffer
 * @returns {Trace}
 */
export function parse(buffer) {
  const { meta, columns } = readFile(buffer);
  return new Trace(meta, columns);
}

/** What one run of a kernel's twin left behind. See the top of this file. */
export class Trace {
  /** @param {object} meta @param {Record<string, any>} columns */
  constructor(meta, columns) {
    checkMeta(meta);
    this.meta = meta;
    this.columns = columns;
    this.stepCount = columns['steps.kind'].length;
    this.eventCount = columns['events.kind'].length;
    /** @type {ArrayNode[]} */
    this.arrays = meta.arrays.map(arrayNode);
    /** @type {Launch[]} */
    this.launches = [];
    /** @type {(ArrayNode|SlotNode)[]} */
    this.nodes = [...this.arrays];
    for (const [index, described] of meta.launches.entries()) {
      const launch = launchNode(described, index, this.nodes.length);
      this.launches.push(launch);
      this.nodes.push(...launch.slots);
    }
    demand(this.nodes.length < NONE, 'The trace has more arrays and slots than the format can number.');
    for (const array of this.arrays) {
      const size = array.planes * array.rows * array.cols;
      const known = array.initial === -1 || array.initial + size <= columns.values.length;
      demand(known, `The trace is damaged: the first contents of ${array.name} end after the pool of values.`);
    }
    const { blockBase, blockFirst, blockOfStep } = indexBlocks(this);
    /** Index of a launch's first block among all blocks. */
    this.blockBase = blockBase;
    /** First step of every block, launch after launch; one more at the end. */
    this.blockFirst = blockFirst;
    /** Which of all blocks a step belongs to; nothing for the start. */
    this.blockOfStep = blockOfStep;
    checkEvents(this);
    this.#names = new Map(this.nodes.map((node) => [`${node.launch}/${node.name}`, node]));
    this.#mask = this.arrays.find((array) => array.dtype === 'bool') ?? null;
  }

  /** @type {Map<string, ArrayNode|SlotNode>} */
  #names;
  /** @type {ArrayNode|null} */
  #mask;

  /** Events of step t: [first, one past the last]. @returns {[number, number]} */
  eventRange(t) {
    const ends = this.columns['steps.events'];
    return [t > 0 ? ends[t - 1] : 0, ends[t]];
  }

  /** Arguments of step t's caption: [first, one past the last]. @returns {[number, number]} */
  argRange(t) {
    const ends = this.columns['steps.args'];
    return [t > 0 ? ends[t - 1] : 0, ends[t]];
  }

  /** @returns {Step} */
  step(t) {
    const kind = this.columns['steps.kind'][t], loop = this.columns['steps.loop'];
    const meta = this.meta.steps[kind];
    const loops = [];
    if (loop[2 * t] !== NONE) loops.push(loop[2 * t]);
    if (loop[2 * t + 1] !== NONE) loops.push(loop[2 * t + 1]);
    return { index: t, kind, meta, name: meta.name, launch: meta.launch, block: this.columns['steps.block'][t], loops };
  }

  /** The step an event belongs to. */
  stepOf(event) {
    const ends = this.columns['steps.events'];
    let low = 0, high = this.stepCount - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ends[middle] > event) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** @returns {TraceEvent} */
  event(e) {
    const { columns, nodes } = this;
    const kind = columns['events.kind'][e];
    const src = columns['events.src'][e], dst = columns['events.dst'][e];
    const stores = kind === STORE || kind === PARTIAL;
    const array = stores ? dst : src, slot = stores ? src : dst;
    return {
      index: e,
      kind: KINDS[kind],
      src,
      dst,
      array: /** @type {ArrayNode|null} */ (nodes[array] ?? null),
      slot: /** @type {SlotNode|null} */ (nodes[slot] ?? null),
      tile: columns['events.tile'][e],
      tiles: columns['events.tiles'][e],
      rows: columns['events.rows'][e],
      cols: columns['events.cols'][e],
      elements: columns['events.elements'][e],
      flops: columns['events.flops'][e],
      value: columns['events.value'][e],
      writes: kind === BARRIER ? null : stores ? 'array' : 'slot',
    };
  }

  /** Place of a block among all blocks of all launches. */
  blockIndex(launch, block) {
    return this.blockBase[launch] + block;
  }

  /** First and last step of a block. @returns {[number, number]} */
  blockRange(launch, block) {
    const index = this.blockBase[launch] + block;
    return [this.blockFirst[index], this.blockFirst[index + 1] - 1];
  }

  /** First and last step of a launch; [0, -1] when its grid is empty. @returns {[number, number]} */
  launchRange(launch) {
    const from = this.blockBase[launch], to = from + this.launches[launch].blocks;
    return from === to ? [0, -1] : [this.blockFirst[from], this.blockFirst[to] - 1];
  }

  /** A block's place on each axis of its grid. */
  axes(launch, block) {
    let rest = block;
    return this.launches[launch].grid.map(({ axis, size }) => {
      const index = rest % size;
      rest = Math.floor(rest / size);
      return { axis, index, size };
    });
  }

  /** The slot of that name in a launch, else the array of that name, else null. */
  node(name, launch = -1) {
    return this.#names.get(`${launch}/${name}`) ?? this.#names.get(`-1/${name}`) ?? null;
  }

  /** Where a tile lies; `offset` is its place in the array's own contents, which stand tile after tile. */
  box(array, tile) {
    const perPlane = array.rowTiles * array.colTiles;
    const plane = Math.floor(tile / perPlane), within = tile - plane * perPlane;
    const rowTile = Math.floor(within / array.colTiles), colTile = within - rowTile * array.colTiles;
    const row = array.rowEdges[rowTile], col = array.colEdges[colTile];
    const rows = array.rowEdges[rowTile + 1] - row, cols = array.colEdges[colTile + 1] - col;
    const offset = (plane * array.rows + row) * array.cols + rows * col;
    const batch = Math.floor(plane / array.heads);
    return { plane, batch, head: plane - batch * array.heads, rowTile, colTile, row, col, rows, cols, offset };
  }

  /** The tile that holds (row, col) of a plane. */
  tileAt(array, plane, row, col) {
    return (plane * array.rowTiles + edgeBelow(array.rowEdges, row)) * array.colTiles + edgeBelow(array.colEdges, col);
  }

  /** Numbers of the pool, not copied; null where they were not kept. @returns {Float32Array|null} */
  numbers(offset, count) {
    return offset < 0 ? null : this.columns.values.subarray(offset, offset + count);
  }

  /** The key mask, if the problem has one. */
  get mask() {
    return this.#mask;
  }

  /** Why a query may not see a key: 'causal', 'mask', 'unkept' (its mask was not kept), or null when it may. */
  hidden(batch, query, key) {
    const { causal, seqlen_q: queries, seqlen_k: keys } = this.meta.problem;
    if (causal && key > query + keys - queries) return 'causal';
    return this.masked(batch, key);
  }

  /** What the key mask alone says of a key: 'mask' where it hides it, 'unkept', or null. */
  masked(batch, key) {
    const mask = this.#mask;
    if (mask === null) return null;
    if (mask.initial < 0) return 'unkept';
    // One row of keys a batch entry, whichever way the array lies.
    return this.columns.values[mask.initial + batch * this.meta.problem.seqlen_k + key] ? null : 'mask';
  }

  /** May this query see this key? (bottom-right causal; key mask True = visible) */
  visible(batch, query, key) {
    return this.hidden(batch, query, key) === null;
  }
}

/** Index of the last edge at or below x. */
function edgeBelow(edges, x) {
  let low = 0, high = edges.length - 2;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (edges[middle] <= x) low = middle;
    else high = middle - 1;
  }
  return low;
}
