// A trace file as the page reads it: one DataView, typed arrays over the file's own bytes, and a few lookups.
// The contract is trace/FORMAT.md. Nothing here knows of drawing, and nothing copies the numbers.
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
//   cellName(trace, cell), parseCell(trace, text, launch)   "li.2.0" and "K@p.r.c" <-> {node, row, col[, plane]}

import { readCell, writeCell } from './cellname.js';

/** Verbs, by the number in `events.kind`. */
const KINDS = ['load', 'store', 'init', 'fill', 'update', 'barrier', 'partial'];
const LOAD = 0, STORE = 1, BARRIER = 5, PARTIAL = 6;

/** No node, and no loop index. */
export const NONE = 65535;

/**
 * @typedef {object} ArrayNode
 * @property {number} id
 * @property {'array'} kind
 * @property {-1} launch
 * @property {string} name
 * @property {'hbm'|'virtual'} space
 * @property {'input'|'output'|'scratch'} role
 * @property {'float32'|'bool'} dtype
 * @property {number} batch
 * @property {number} heads
 * @property {number} planes      batch · heads
 * @property {number} rows
 * @property {number} cols
 * @property {boolean} vector     shown as (batch, heads, rows)
 * @property {number[]} rowEdges
 * @property {number[]} colEdges
 * @property {number} rowTiles
 * @property {number} colTiles
 * @property {number} tileCount   planes · rowTiles · colTiles
 * @property {number} initial     offset in the pool, or -1
 * @property {string|null} filled what the launcher filled it with, in words
 * @property {number} itemBytes
 */

/**
 * @typedef {object} SlotNode
 * @property {number} id
 * @property {'slot'} kind
 * @property {number} launch
 * @property {number} index       among its launch's slots
 * @property {string} name
 * @property {'shared'|'register'} space
 * @property {number} rows
 * @property {number} cols
 * @property {'float32'|'bool'} dtype
 * @property {number} offset
 * @property {'block'|'tile'} lifetime
 * @property {boolean} carry
 */

/**
 * @typedef {object} Launch
 * @property {number} index
 * @property {string} name
 * @property {string} title
 * @property {{axis: string, size: number}[]} grid   first axis fastest
 * @property {number} blocks
 * @property {number} threads
 * @property {SlotNode[]} slots
 * @property {number} sharedBytes   what its shared slots take together
 */

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

const COLUMNS = {
  'events.kind': [Uint8Array, 'U8'],
  'events.src': [Uint16Array, 'U16'],
  'events.dst': [Uint16Array, 'U16'],
  'events.tile': [Uint32Array, 'U32'],
  'events.tiles': [Uint16Array, 'U16'],
  'events.rows': [Uint16Array, 'U16'],
  'events.cols': [Uint16Array, 'U16'],
  'events.elements': [Uint32Array, 'U32'],
  'events.flops': [Uint32Array, 'U32'],
  'events.value': [Int32Array, 'I32'],
  'steps.kind': [Uint16Array, 'U16'],
  'steps.block': [Uint32Array, 'U32'],
  'steps.loop': [Uint16Array, 'U16'],
  'steps.events': [Uint32Array, 'U32'],
  'steps.caption': [Uint16Array, 'U16'],
  'steps.args': [Uint32Array, 'U32'],
  args: [Float32Array, 'F32'],
  values: [Float32Array, 'F32'],
};
const ITEM_BYTES = { float32: 4, bool: 1 };
const MOST_TILES = 2 ** 24; // of an array: a few numbers are kept for each
const MOST_NESTED = 32; // calls within calls in a formula

/** The first sentence that is true ends the reading: everything after may rely on everything before. */
function refuse(sentence) {
  throw new Error(sentence);
}

function demand(condition, sentence) {
  if (!condition) refuse(sentence);
}

const isCount = (x, least = 0) => Number.isInteger(x) && x >= least && x < 2 ** 31;

/**
 * Read a trace. The typed arrays are views of `buffer`: keep it, and do not change it.
 * @param {ArrayBuffer} buffer
 * @returns {Trace}
 */
export function parse(buffer) {
  const { header, start } = readHeader(buffer);
  const columns = {};
  for (const [name, [type, dtype]] of Object.entries(COLUMNS)) {
    columns[name] = readColumn(buffer, header, start, name, type, dtype);
  }
  const text = header.__metadata__?.flashstep;
  demand(typeof text === 'string', 'This file is no Flashstep trace: its header does not describe one.');
  let meta;
  try {
    meta = JSON.parse(text);
  } catch {
    refuse('The trace is damaged: its description is not JSON.');
  }
  return new Trace(meta, columns);
}

function readHeader(buffer) {
  demand(buffer.byteLength >= 8, 'This is no trace: the file ends before its header.');
  const length = new DataView(buffer).getBigUint64(0, true);
  demand(length <= BigInt(buffer.byteLength - 8), 'The trace is cut short: the file ends within its header.');
  const start = 8 + Number(length);
  let header;
  try {
    header = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array(buffer, 8, Number(length))));
  } catch {
    refuse('This is no trace: its header is not JSON.');
  }
  demand(header !== null && typeof header === 'object', 'This is no trace: its header is not a JSON object.');
  return { header, start };
}

function readColumn(buffer, header, start, name, type, dtype) {
  const entry = header[name];
  demand(entry && typeof entry === 'object', `This file is no Flashstep trace: it has no column ${name}.`);
  demand(entry.dtype === dtype, `The trace is damaged: the column ${name} should hold ${dtype}.`);
  const [from, to] = Array.isArray(entry.data_offsets) ? entry.data_offsets : [];
  const known = Number.isInteger(from) && Number.isInteger(to) && from >= 0 && from <= to;
  demand(known, `The trace is damaged: the column ${name} does not say where it stands.`);
  demand(start + to <= buffer.byteLength, `The trace is cut short: the column ${name} ends after the file.`);
  const shape = Array.isArray(entry.shape) ? entry.shape : [];
  const size = shape.reduce((product, side) => product * (isCount(side) ? side : NaN), 1);
  const width = name === 'steps.loop' ? 2 : 1;
  const shaped = shape.length === width && (width === 1 || shape[1] === width);
  const fits = shaped && size * type.BYTES_PER_ELEMENT === to - from;
  demand(fits, `The trace is damaged: the column ${name} has not the length it claims.`);
  // Writers align columns, as safetensors does; one that did not is still right, and costs a copy.
  if ((start + from) % type.BYTES_PER_ELEMENT) return new type(buffer.slice(start + from, start + to));
  return new type(buffer, start + from, size);
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
    for (const [index, launch] of meta.launches.entries()) {
      this.launches.push(this.#launch(launch, index));
    }
    demand(this.nodes.length < NONE, 'The trace has more arrays and slots than the format can number.');
    for (const array of this.arrays) {
      const size = array.planes * array.rows * array.cols;
      const known = array.initial === -1 || array.initial + size <= columns.values.length;
      demand(known, `The trace is damaged: the first contents of ${array.name} end after the pool of values.`);
    }
    this.#indexSteps();
    this.#checkEvents();
    this.#names = new Map(this.nodes.map((node) => [`${node.launch}/${node.name}`, node]));
    this.#mask = this.arrays.find((array) => array.dtype === 'bool') ?? null;
  }

  /** @type {Map<string, ArrayNode|SlotNode>} */
  #names;
  /** @type {ArrayNode|null} */
  #mask;

  #launch(launch, index) {
    demand(launch.first_node === this.nodes.length, `The trace numbers the slots of launch ${launch.name} wrongly.`);
    const slots = launch.slots.map((slot, place) => ({
      ...slot, kind: 'slot', id: this.nodes.length + place, launch: index, index: place,
    }));
    this.nodes.push(...slots);
    const shared = slots.filter((slot) => slot.space === 'shared');
    return {
      index,
      name: launch.name,
      title: launch.title,
      grid: launch.grid,
      threads: launch.threads,
      blocks: launch.grid.reduce((product, { size }) => product * size, 1),
      slots,
      sharedBytes: Math.max(0, ...shared.map((slot) => slot.offset + slot.rows * slot.cols * ITEM_BYTES[slot.dtype])),
    };
  }

  /** One pass over the steps: their order, and where each block begins. */
  #indexSteps() {
    const { columns, meta, stepCount } = this;
    const kinds = columns['steps.kind'], blocks = columns['steps.block'];
    for (const name of ['block', 'events', 'caption', 'args']) {
      demand(columns[`steps.${name}`].length === stepCount, `The trace is damaged: steps.${name} should have ${stepCount} rows.`);
    }
    demand(columns['steps.loop'].length === 2 * stepCount, `The trace is damaged: steps.loop should have ${stepCount} rows.`);
    for (const name of Object.keys(COLUMNS)) {
      const event = name.startsWith('events.');
      demand(!event || columns[name].length === this.eventCount, `The trace is damaged: ${name} should have ${this.eventCount} rows.`);
    }
    demand(stepCount > 0, 'The trace is damaged: it has no start.');
    const launchOf = meta.steps.map((step) => step.launch);
    const started = kinds[0] < launchOf.length && launchOf[kinds[0]] === -1 && columns['steps.events'][0] === 0;
    demand(started, 'The trace is damaged: its first step is not the start.');
    ascending(columns['steps.events'], this.eventCount, 'events');
    ascending(columns['steps.args'], columns.args.length, 'arguments');

    // Every block of a launch takes steps, one block after another: a block's steps are one run.
    const count = this.launches.reduce((sum, launch) => sum + launch.blocks, 0);
    demand(count < stepCount, 'The trace is damaged: it has fewer steps than blocks.');
    /** Index of a launch's first block among all blocks. */
    this.blockBase = [];
    let base = 0;
    for (const launch of this.launches) {
      this.blockBase.push(base);
      base += launch.blocks;
    }
    /** First step of every block, launch after launch; one more at the end. */
    this.blockFirst = new Uint32Array(count + 1);
    /** Which of all blocks a step belongs to; nothing for the start. */
    this.blockOfStep = new Uint32Array(stepCount);
    const captions = columns['steps.caption'], spoken = meta.captions.length;
    // Sentences are made only when they are needed: this loop runs once a step.
    const damaged = (t, what) => refuse(`The trace is damaged: step ${t} ${what}.`);
    const loop = columns['steps.loop'], depths = meta.steps.map((step) => step.loops.length);
    for (let t = 0; t < stepCount; t++) {
      if (kinds[t] >= launchOf.length) damaged(t, 'is of no known kind');
      if (captions[t] >= spoken) damaged(t, 'has a caption that is not listed');
      const depth = loop[2 * t] === NONE ? 0 : loop[2 * t + 1] === NONE ? 1 : 2;
      if (depth !== depths[kinds[t]] || (depth === 0 && loop[2 * t + 1] !== NONE)) damaged(t, 'has not the loops of its kind');
    }
    let current = -1;
    for (let t = 1; t < stepCount; t++) {
      const launch = launchOf[kinds[t]];
      if (launch < 0) damaged(t, 'belongs to no launch');
      if (blocks[t] >= this.launches[launch].blocks) damaged(t, 'belongs to a block outside its grid');
      const block = this.blockBase[launch] + blocks[t];
      this.blockOfStep[t] = block;
      if (block === current) continue;
      if (block !== current + 1) damaged(t, 'is out of order');
      this.blockFirst[block] = t;
      current = block;
    }
    demand(current === count - 1, 'The trace is damaged: a block has no steps.');
    this.blockFirst[count] = stepCount;
  }

  /** One pass over the events, so that nothing later can read beyond a column. */
  #checkEvents() {
    const { columns, nodes, arrays, eventCount } = this;
    const kind = columns['events.kind'], src = columns['events.src'], dst = columns['events.dst'];
    const tile = columns['events.tile'], tiles = columns['events.tiles'], value = columns['events.value'];
    const rows = columns['events.rows'], cols = columns['events.cols'], ends = columns['steps.events'];
    const stepKind = columns['steps.kind'], launches = this.meta.steps.map((step) => step.launch);
    const pool = columns.values.length, none = arrays.length;
    const damaged = (e, what) => refuse(`The trace is damaged: event ${e} ${what}.`);
    for (let t = 1, e = 0; t < this.stepCount; t++) {
      const launch = launches[stepKind[t]];
      for (; e < ends[t]; e++) {
        const verb = kind[e];
        if (verb === BARRIER) continue;
        if (verb > PARTIAL) damaged(e, 'is of no known kind');
        const stores = verb === STORE || verb === PARTIAL;
        const array = stores ? dst[e] : src[e], slot = stores ? src[e] : dst[e];
        if (slot < none || slot >= nodes.length) damaged(e, 'has no slot');
        const node = nodes[slot];
        if (node.launch !== launch) damaged(e, 'touches a slot of another launch');
        if (rows[e] > node.rows || cols[e] > node.cols) damaged(e, `writes more than ${node.name} holds`);
        if (value[e] < -1 || (value[e] >= 0 && value[e] + rows[e] * cols[e] > pool)) {
          damaged(e, 'has numbers beyond the pool of values');
        }
        if (array < none) {
          const size = tilesSize(arrays[array], tile[e], tiles[e]);
          if (size < 0) damaged(e, `touches a tile that ${arrays[array].name} has not`);
          if ((verb === LOAD || stores) && size !== rows[e] * cols[e]) damaged(e, 'is not of the size of its tiles');
        } else if (verb === LOAD || stores || array !== NONE) damaged(e, 'has no array');
      }
    }
  }

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

/** Elements of a run of tiles; -1 when it leaves its plane, or is not one run of rows. */
function tilesSize({ tileCount, rowTiles, colTiles, rowEdges, colEdges }, tile, tiles) {
  if (tile + tiles > tileCount) return -1;
  if (tiles === 0) return 0;
  const within = tile % (rowTiles * colTiles);
  const row = Math.floor(within / colTiles), col = within - row * colTiles;
  if (tiles > 1 && (colTiles > 1 || row + tiles > rowTiles)) return -1;
  return (rowEdges[row + tiles] - rowEdges[row]) * (colEdges[col + 1] - colEdges[col]);
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

function arrayNode(array, id) {
  return {
    id,
    kind: 'array',
    launch: -1,
    name: array.name,
    space: array.space,
    role: array.role,
    dtype: array.dtype,
    batch: array.batch,
    heads: array.heads,
    planes: array.batch * array.heads,
    rows: array.rows,
    cols: array.cols,
    vector: array.vector,
    rowEdges: array.row_edges,
    colEdges: array.col_edges,
    rowTiles: array.row_edges.length - 1,
    colTiles: array.col_edges.length - 1,
    tileCount: array.batch * array.heads * (array.row_edges.length - 1) * (array.col_edges.length - 1),
    initial: array.initial,
    filled: array.filled ?? null,
    itemBytes: ITEM_BYTES[array.dtype],
  };
}

function ascending(ends, last, what) {
  let before = 0;
  for (let t = 0; t < ends.length; t++) {
    if (ends[t] < before) refuse(`The trace is damaged: the ${what} of step ${t} end before they begin.`);
    before = ends[t];
  }
  demand(before === last, `The trace is damaged: its steps hold ${before} ${what}, and there are ${last}.`);
}

/** The header's fields that the page relies on; what it only shows is not checked. */
function checkMeta(meta) {
  const damaged = 'The trace is damaged: ';
  demand(meta !== null && typeof meta === 'object' && !Array.isArray(meta), `${damaged}its description is not an object.`);
  demand(meta.format === 1, 'The trace has a format that this version cannot read: it should be 1.');
  for (const key of ['arrays', 'launches', 'steps', 'captions']) {
    demand(Array.isArray(meta[key]), `${damaged}its description should list ${key}.`);
  }
  for (const key of ['problem', 'tiling']) {
    demand(meta[key] !== null && typeof meta[key] === 'object', `${damaged}its description should hold a ${key}.`);
  }
  const { problem } = meta;
  for (const key of ['batch', 'heads', 'kv_heads', 'seqlen_q', 'seqlen_k', 'head_dim']) {
    demand(isCount(problem[key]), `${damaged}the problem's ${key} should be a whole number.`);
  }
  for (const array of meta.arrays) checkArray(array, damaged);
  for (const launch of meta.launches) checkLaunch(launch, damaged);
  for (const step of meta.steps) checkStep(step, meta.launches.length, damaged);
  demand(meta.captions.every((caption) => typeof caption === 'string'), `${damaged}a caption is not text.`);
}

const isObject = (x) => x !== null && typeof x === 'object' && !Array.isArray(x);

function checkArray(array, damaged) {
  demand(isObject(array) && typeof array.name === 'string', `${damaged}an array has no name.`);
  const where = `${damaged}array ${array.name} `;
  demand(array.space === 'hbm' || array.space === 'virtual', `${where}is in no known space.`);
  demand(Object.hasOwn(ITEM_BYTES, array.dtype), `${where}has no known dtype.`);
  demand(isCount(array.batch, 1) && isCount(array.heads, 1), `${where}should have at least one batch and head.`);
  demand(isCount(array.rows) && isCount(array.cols), `${where}has no shape.`);
  demand(array.batch * array.heads * array.rows * array.cols < 2 ** 40, `${where}claims to be too large.`);
  demand(array.initial === -1 || isCount(array.initial), `${where}has no place for its first contents.`);
  demand(array.filled === null || array.filled === undefined || typeof array.filled === 'string', `${where}is filled with no text.`);
  for (const [key, end] of [['row_edges', array.rows], ['col_edges', array.cols]]) {
    const edges = array[key];
    const runs = Array.isArray(edges) && edges.length > 0 && edges.every((edge) => isCount(edge));
    demand(runs && edges[0] === 0 && edges[edges.length - 1] === end, `${where}has ${key} that do not run from 0 to ${end}.`);
    demand(edges.every((edge, n) => n === 0 || edge > edges[n - 1]), `${where}has ${key} that do not ascend.`);
  }
  const tiles = array.batch * array.heads * (array.row_edges.length - 1) * (array.col_edges.length - 1);
  demand(tiles <= MOST_TILES || array.space === 'virtual', `${where}has ${tiles} tiles, more than a page can index.`);
}

function checkLaunch(launch, damaged) {
  demand(isObject(launch) && typeof launch.name === 'string', `${damaged}a launch has no name.`);
  const where = `${damaged}launch ${launch.name} `;
  demand(typeof launch.title === 'string', `${where}has no title.`);
  const axes = Array.isArray(launch.grid) && launch.grid.length > 0;
  const grid = axes && launch.grid.every((axis) => isObject(axis) && isCount(axis.size) && typeof axis.axis === 'string');
  demand(grid, `${where}has no grid.`);
  demand(launch.grid.reduce((product, axis) => product * axis.size, 1) < 2 ** 31, `${where}has too many blocks.`);
  demand(Array.isArray(launch.slots), `${where}lists no slots.`);
  for (const slot of launch.slots) {
    demand(isObject(slot) && typeof slot.name === 'string', `${where}has a slot without a name.`);
    const shaped = isCount(slot.rows) && isCount(slot.cols) && slot.rows <= NONE && slot.cols <= NONE;
    demand(shaped, `${where}has a slot ${slot.name} without a shape.`);
    demand(Object.hasOwn(ITEM_BYTES, slot.dtype), `${where}has a slot ${slot.name} of no known dtype.`);
    demand(isCount(slot.offset), `${where}has a slot ${slot.name} without a place.`);
  }
}

function checkStep(step, launches, damaged) {
  demand(isObject(step) && typeof step.name === 'string', `${damaged}a kind of step has no name.`);
  const where = `${damaged}the step ${JSON.stringify(step.name)} `;
  demand(Number.isInteger(step.launch) && step.launch >= -1 && step.launch < launches, `${where}is of no launch.`);
  demand(typeof step.label === 'string', `${where}has no label.`);
  const loops = Array.isArray(step.loops) && step.loops.length <= 2 && step.loops.every((loop) => typeof loop === 'string');
  demand(loops, `${where}should list at most two loops by name.`);
  const { relabel, formulas } = step;
  demand(isObject(relabel) && Object.values(relabel).every((name) => typeof name === 'string'), `${where}relabels no slot.`);
  demand(isObject(formulas), `${where}has no formulas.`);
  for (const [name, formula] of Object.entries(formulas)) {
    demand(isFormula(formula, MOST_NESTED), `${where}explains ${name} with something that is no formula.`);
  }
}

/** Is this a formula as FORMAT.md lists them? Functions and names are looked up when it is read. */
function isFormula(formula, depth) {
  if (!Array.isArray(formula) || depth === 0) return false;
  const [verb, ...rest] = formula;
  const inner = (parts) => parts.every((part) => isFormula(part, depth - 1));
  const index = (x) => x === 'r' || x === 'c' || x === ':' || isCount(x);
  switch (verb) {
    case 'num': return rest.length === 1 && typeof rest[0] === 'number';
    case 'const': return rest.length === 1 && typeof rest[0] === 'string';
    case 'ref': return rest.length === 4 && typeof rest[0] === 'string' && index(rest[1]) && index(rest[2]) && (rest[3] === 'old' || rest[3] === 'new');
    case 'op': return rest.length === 3 && '+-*/'.includes(rest[0]) && inner(rest.slice(1));
    case 'call': return typeof rest[0] === 'string' && inner(rest.slice(1));
    default: return false;
  }
}

/** @typedef {{node: number, row: number, col: number, plane?: number, block?: number}} Cell */

/** A cell's name in the URL: "li.2.0" for a slot, "K@plane.row.column" for an array; cell.node may be the node itself. */
export function cellName(trace, cell) {
  const node = typeof cell.node === 'number' ? trace.nodes[cell.node] : cell.node;
  const { name } = node, { row, col } = cell;
  return writeCell(node.kind === 'slot' ? { name, row, col } : { name, row, col, plane: cell.plane ?? 0 });
}

/** The cell of a name, for a launch's slots; null when there is no such cell. @returns {Cell|null} */
export function parseCell(trace, text, launch) {
  const { name, ...cell } = readCell(text) ?? { name: '', row: 0, col: 0 };
  const isArray = cell.plane !== undefined;
  const node = trace.node(name, isArray ? -1 : launch);
  if (node === null || node.kind !== (isArray ? 'array' : 'slot')) return null;
  if (cell.row >= node.rows || cell.col >= node.cols || (isArray && cell.plane >= node.planes)) return null;
  return { ...cell, node: node.id };
}
