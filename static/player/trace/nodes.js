// What the figure can point at: arrays, in HBM or only thought of, and the slots of each launch.

import { ITEM_BYTES } from './codes.js';
import { demand } from './demand.js';

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

export function arrayNode(array, id) {
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

/** A launch, whose slots are numbered from `firstNode`. @returns {Launch} */
export function launchNode(launch, index, firstNode) {
  demand(launch.first_node === firstNode, `The trace numbers the slots of launch ${launch.name} wrongly.`);
  const slots = launch.slots.map((slot, place) => ({
    ...slot, kind: 'slot', id: firstNode + place, launch: index, index: place,
  }));
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
