// What slots and tiles hold after any step, from a keyframe and a few events.
//
//   new Replay(trace)
//   replay.slot(slotId, block, step) -> SlotState | null     null: uninitialised. step: a step of that block
//                                                            (order.progress(...) when blocks run together)
//   replay.slots(launch, block, step) -> [{node: SlotNode, state: SlotState | null}]     in layout order
//   replay.before(slotId, block, step) -> SlotState | null   as slot(), before this step's events
//   replay.tile(arrayId, tile, order, position) -> TileState
//   replay.tiles(arrayId, order, position) -> Int32Array     last store event of each tile, -1: never stored (do not keep or change it)
//   replay.value(arrayNode, plane, row, col, order, position) -> number | null           null: unknown (see tile().origin)
//
//   SlotState {event, step, kind, rows, cols, values: Float32Array | null, stale, label, array: ArrayNode|null, tile, tiles}
//     values: row-major rows · cols, null when not kept; label: 'Pij' once Sij is relabelled; array, tile: what it stands for
//   TileState {event, step, rows, cols, values: Float32Array | null, origin: 'stored'|'initial'|'filled'|'unwritten'|'unkept'}
//     event, step: -1 when no store reached it yet. Values may be null under 'stored' steps too: origin is then 'unkept'
//   replay.lastStore(arrayId, tile, order, position, beforeEvent?) -> event | -1;  replay.tileOf(arrayId, tile, event) -> TileState

import { NONE } from './trace/codes.js';

/** @typedef {import('./trace.js').Trace} Trace */
/** @typedef {import('./trace.js').ArrayNode} ArrayNode */
/** @typedef {import('./trace.js').SlotNode} SlotNode */
/** @typedef {import('./order.js').Order} Order */

/**
 * @typedef {object} SlotState
 * @property {number} event        the last one that wrote the slot
 * @property {number} step         the step of that event
 * @property {'load'|'init'|'fill'|'update'} kind
 * @property {number} rows         valid part; lanes beyond it are guarded
 * @property {number} cols
 * @property {Float32Array|null} values   row-major, a view of the file; null when not kept
 * @property {boolean} stale       left from another tile
 * @property {string} label        the slot's name, or what a step relabelled it
 * @property {ArrayNode|null} array       what the slot stands for: tile `tile` (and `tiles - 1` more) of this array
 * @property {number} tile
 * @property {number} tiles
 */

/**
 * @typedef {object} TileState
 * @property {number} event        the last store, or -1
 * @property {number} step         its step, or -1
 * @property {number} rows
 * @property {number} cols
 * @property {Float32Array|null} values
 * @property {'stored'|'initial'|'filled'|'unwritten'|'unkept'} origin
 */

const EVERY = 64; // steps between keyframes: a state costs at most this many steps' events
const MOST_STORED = 2 ** 26; // tiles that all stores touch: eight bytes are kept for each
/** @type {(SlotState['kind']|null)[]} kinds of event that write a slot */
const SLOT_KINDS = ['load', null, 'init', 'fill', 'update', null, null];

export class Replay {
  /** @param {Trace} trace */
  constructor(trace) {
    this.trace = trace;
    this.#keyframe();
    this.#indexStores();
  }

  /** Last writer of each slot of a block's launch, before every EVERY-th of its steps; -1: none. */
  #frames;
  /** Where the frames of each block begin. */
  #frameStart;

  #keyframe() {
    const { trace } = this;
    const first = trace.blockFirst, count = first.length - 1;
    const kind = trace.columns['events.kind'], dst = trace.columns['events.dst'], ends = trace.columns['steps.events'];
    this.#frameStart = new Uint32Array(count + 1);
    for (const launch of trace.launches) {
      const base = trace.blockBase[launch.index];
      for (let b = base; b < base + launch.blocks; b++) {
        const frames = Math.ceil((first[b + 1] - first[b]) / EVERY);
        this.#frameStart[b + 1] = this.#frameStart[b] + frames * launch.slots.length;
      }
    }
    this.#frames = new Int32Array(this.#frameStart[count]);
    for (const launch of trace.launches) {
      const base = trace.blockBase[launch.index], size = launch.slots.length;
      const firstNode = size ? launch.slots[0].id : 0;
      const writers = new Int32Array(size);
      for (let b = base; b < base + launch.blocks; b++) {
        writers.fill(-1);
        let at = this.#frameStart[b], e = ends[first[b] - 1];
        for (let t = first[b]; t < first[b + 1]; t++) {
          if ((t - first[b]) % EVERY === 0) {
            this.#frames.set(writers, at);
            at += size;
          }
          for (; e < ends[t]; e++) {
            // Stores write arrays and barriers nothing; both have a dst outside the launch's slots.
            const slot = dst[e] - firstNode;
            if (slot >= 0 && slot < size && SLOT_KINDS[kind[e]] !== null) writers[slot] = e;
          }
        }
      }
    }
  }

  /** Stores of every array's tiles, in serial order: #stores[#storeStart[array][tile] … [tile + 1]]. */
  #storeStart;
  #stores;
  #storeSteps;

  #indexStores() {
    const { trace } = this;
    const { columns, arrays } = trace;
    const kind = columns['events.kind'], dst = columns['events.dst'], ends = columns['steps.events'];
    const tile = columns['events.tile'], tiles = columns['events.tiles'];
    const all = [], when = [];
    for (let t = 1, e = 0; t < trace.stepCount; t++) {
      for (const end = ends[t]; e < end; e++) {
        if (kind[e] !== 1 && kind[e] !== 6) continue;
        all.push(e);
        when.push(t);
      }
    }
    const counts = new Map();
    for (const e of all) {
      let count = counts.get(dst[e]);
      // Only arrays that are stored to get an index: a virtual array may claim any number of tiles.
      if (count === undefined) counts.set(dst[e], (count = new Uint32Array(arrays[dst[e]].tileCount + 1)));
      for (let k = 0; k < tiles[e]; k++) count[tile[e] + k + 1]++;
    }
    let total = 0;
    for (const count of counts.values()) {
      count[0] = total;
      for (let n = 1; n < count.length; n++) count[n] += count[n - 1];
      total = count[count.length - 1];
    }
    if (total > MOST_STORED) throw new Error('The trace is damaged: its stores touch more tiles than a page can index.');
    const stores = new Uint32Array(total), steps = new Uint32Array(total);
    const next = new Map([...counts].map(([array, start]) => [array, start.slice()]));
    for (const [n, e] of all.entries()) {
      const place = next.get(dst[e]);
      for (let k = 0; k < tiles[e]; k++) {
        const at = place[tile[e] + k]++;
        stores[at] = e;
        steps[at] = when[n];
      }
    }
    this.#storeStart = counts;
    this.#stores = stores;
    this.#storeSteps = steps;
  }

  /** Last event up to the end of `step` (a step of that block) that wrote the slot, or -1. */
  #writer(slot, block, step) {
    const { trace } = this;
    const index = trace.blockBase[slot.launch] + block, first = trace.blockFirst[index];
    if (step < first) return -1;
    const kind = trace.columns['events.kind'], dst = trace.columns['events.dst'], ends = trace.columns['steps.events'];
    const frame = Math.floor((step - first) / EVERY);
    const from = ends[first + frame * EVERY - 1];
    for (let e = ends[step] - 1; e >= from; e--) {
      if (dst[e] === slot.id && SLOT_KINDS[kind[e]] !== null) return e;
    }
    return this.#frames[this.#frameStart[index] + frame * trace.launches[slot.launch].slots.length + slot.index];
  }

  /** What a slot of a block holds after a step of that block; null while uninitialised. @returns {SlotState|null} */
  slot(slotId, block, step) {
    const { trace } = this;
    const node = /** @type {SlotNode} */ (trace.nodes[slotId]);
    if (step < 0) return null;
    const last = trace.blockFirst[trace.blockBase[node.launch] + block + 1] - 1;
    const event = this.#writer(node, block, Math.min(step, last));
    return event < 0 ? null : this.#state(node, event, Math.min(step, last));
  }

  /** As slot(), before the events of `step`. @returns {SlotState|null} */
  before(slotId, block, step) {
    return this.slot(slotId, block, step - 1);
  }

  /** Every slot of a launch, in layout order. @returns {{node: SlotNode, state: SlotState|null}[]} */
  slots(launch, block, step) {
    return this.trace.launches[launch].slots.map((node) => ({ node, state: this.slot(node.id, block, step) }));
  }

  #state(node, event, step) {
    const { trace } = this;
    const { columns } = trace;
    const writer = trace.stepOf(event);
    const rows = columns['events.rows'][event], cols = columns['events.cols'][event];
    const src = columns['events.src'][event];
    return {
      event,
      step: writer,
      kind: /** @type {SlotState['kind']} */ (SLOT_KINDS[columns['events.kind'][event]]),
      rows,
      cols,
      values: trace.numbers(columns['events.value'][event], rows * cols),
      stale: node.lifetime === 'tile' && !this.#sameTile(writer, step),
      label: trace.meta.steps[columns['steps.kind'][writer]].relabel?.[node.name] ?? node.name,
      array: /** @type {ArrayNode|null} */ (trace.nodes[src] ?? null),
      tile: columns['events.tile'][event],
      tiles: columns['events.tiles'][event],
    };
  }

  /** Are the writer's loop indices a prefix of this step's? */
  #sameTile(writer, step) {
    const loop = this.trace.columns['steps.loop'];
    for (let k = 0; k < 2; k++) {
      const index = loop[2 * writer + k];
      if (index === NONE) return true;
      if (index !== loop[2 * step + k]) return false;
    }
    return true;
  }

  /**
   * The last store that reached a tile, or -1. `before`: of those at `position`, only stores before this event.
   * @param {Order} order
   */
  lastStore(arrayId, tile, order, position, before = Infinity) {
    const start = this.#storeStart.get(arrayId);
    if (start === undefined) return -1;
    const steps = this.#storeSteps, stores = this.#stores;
    let from = start[tile], to = start[tile + 1];
    if (from === to) return -1;
    if (to - from === 1 && before === Infinity) return order.positionOf(steps[from]) <= position ? stores[from] : -1;
    const reached = (n) => {
      const at = order.positionOf(steps[n]);
      return at < position || (at === position && stores[n] < before);
    };
    const { blockOfStep } = this.trace;
    if (order.name === 'serial' || blockOfStep[steps[from]] === blockOfStep[steps[to - 1]]) {
      // One block's stores come in the same sequence in every order.
      while (from < to) {
        const middle = (from + to) >> 1;
        if (reached(middle)) from = middle + 1;
        else to = middle;
      }
      return from > start[tile] ? stores[from - 1] : -1;
    }
    let best = -1, latest = -1;
    for (let n = from; n < to; n++) {
      const at = order.positionOf(steps[n]);
      if (at < latest || !reached(n)) continue;
      best = stores[n];
      latest = at;
    }
    return best;
  }

  /** What a tile of an array holds. @returns {TileState} */
  tile(arrayId, tile, order, position) {
    return this.tileOf(arrayId, tile, this.lastStore(arrayId, tile, order, position));
  }

  /** What a tile holds once `event` has stored to it (-1: nothing has). @returns {TileState} */
  tileOf(arrayId, tile, event) {
    const { trace } = this;
    const array = /** @type {ArrayNode} */ (trace.nodes[arrayId]);
    const box = trace.box(array, tile);
    const { rows, cols } = box;
    if (event >= 0) {
      const { columns } = trace;
      let offset = columns['events.value'][event];
      // A store of several tiles keeps them tile after tile.
      for (let k = columns['events.tile'][event]; offset >= 0 && k < tile; k++) {
        const other = trace.box(array, k);
        offset += other.rows * other.cols;
      }
      const values = trace.numbers(offset, rows * cols);
      return { event, step: trace.stepOf(event), rows, cols, values, origin: values ? 'stored' : 'unkept' };
    }
    const values = array.initial < 0 ? null : trace.numbers(array.initial + box.offset, rows * cols);
    const known = array.filled === null ? 'initial' : 'filled';
    const unknown = array.role === 'input' || array.filled !== null ? 'unkept' : 'unwritten';
    return { event: -1, step: -1, rows, cols, values, origin: values ? known : unknown };
  }

  /** Last store of each tile, -1: none. The same array again for the same question: do not change it. */
  tiles(arrayId, order, position) {
    const cached = this.#tiles.get(arrayId);
    if (cached && cached.order === order && cached.position === position) return cached.events;
    const count = /** @type {ArrayNode} */ (this.trace.nodes[arrayId]).tileCount;
    const events = new Int32Array(count).fill(-1);
    if (this.#storeStart.has(arrayId)) {
      for (let tile = 0; tile < count; tile++) events[tile] = this.lastStore(arrayId, tile, order, position);
    }
    this.#tiles.set(arrayId, { order, position, events });
    return events;
  }

  #tiles = new Map();

  /** One number of an array, row and col in the whole matrix; null when unknown. @returns {number|null} */
  value(array, plane, row, col, order, position) {
    const tile = this.trace.tileAt(array, plane, row, col);
    const { values, cols } = this.tile(array.id, tile, order, position);
    const box = this.trace.box(array, tile);
    return values ? values[(row - box.row) * cols + col - box.col] : null;
  }
}
