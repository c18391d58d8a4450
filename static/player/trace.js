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
//   cellName(trace, cell), parseCell(trace, text, launch)   "li.2.0" and "K@p.r.c" <-> {node, row, col[, plane]}

/** Verbs, by the number in `events.kind`. */
export const KINDS = ['load', 'store', 'init', 'fill', 'update', 'barrier', 'partial'];
const LOAD = 0, STORE = 1, INIT = 2, FILL = 3, UPDATE = 4, BARRIER = 5, PARTIAL = 6;

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
 * @property {string} dtype
 * @property {number} offset
 * @property {'block'|'tile'} lifetime
 * @property {boolean} carry
 */
