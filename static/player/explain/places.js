// Cells in words: their names, what their rows and columns stand for, and why a mask hides them.

import { valueText } from './pieces.js';

/** @typedef {import('../explain.js').Operand} Operand */

/** "Kj[1, 2]", "mi[3]". */
export function cellText(node, row, col) {
  return node.cols === 1 ? `${node.name}[${row}]` : `${node.name}[${row}, ${col}]`;
}

/** "K[5, 2]", and with batch and head where there are several: "K[0, 1, 5, 2]". */
export function arrayText(array, plane, row, col) {
  const at = [];
  if (array.batch > 1) at.push(Math.floor(plane / array.heads));
  if (array.batch > 1 || array.heads > 1) at.push(plane % array.heads);
  at.push(row);
  if (!array.vector && array.cols > 1) at.push(col);
  return `${array.name}[${at.join(', ')}]`;
}

export function operandOf({ trace }, cell, value, when, step, symbolPieces = null) {
  const node = trace.nodes[cell.node];
  const name = node.kind === 'slot'
    ? cellText({ name: symbolPieces?.[0].text ?? node.name, cols: node.cols }, cell.row, cell.col)
    : arrayText(node, cell.plane, cell.row, cell.col);
  const { row, col, plane, block } = cell;
  return { text: valueText(value), value, name, cell, node: node.id, row, col, plane, block, when, step, visit: step };
}

/** What a row and a column of an array are, by its name; null where they are just numbers. */
const MEANING = {
  Q: ['query', 'feature'], O: ['query', 'feature'], K: ['key', 'feature'], V: ['key', 'feature'],
  S: ['query', 'key'], P: ['query', 'key'], lse: ['query', null], l: ['query', null], m: ['query', null],
  O_partial: ['split', 'feature'], m_partial: ['split', null], l_partial: ['split', null], key_mask: ['key', null],
};

function meaning(array, row, col) {
  const [rows, cols] = MEANING[array.name] ?? [null, null];
  const words = [];
  if (rows) words.push(`${rows} ${row}`);
  if (cols && array.cols > 1) words.push(`${cols} ${col}`);
  return words.join(', ');
}

export function arrayPlace(array, { plane, row, col }) {
  const words = [meaning(array, row, col) || `row ${row}${array.cols > 1 ? `, column ${col}` : ''}`];
  if (array.heads > 1) words.push(`head ${plane % array.heads}`);
  if (array.batch > 1) words.push(`batch entry ${Math.floor(plane / array.heads)}`);
  return `${array.name} in HBM: ${words.join(', ')}`;
}

export function slotPlace({ trace, replay }, node, { block, row, col }, state, step) {
  const where = `row ${row}${node.cols > 1 ? `, column ${col}` : ''} of ${state?.label ?? node.name} in block ${block}`;
  let { array, tile } = state ?? { array: null, tile: 0 };
  if (array === null && node.carry) {
    // A carry stands for nothing in HBM: its rows are those of the block's query tile.
    const query = replay.slots(node.launch, block, step).find((one) => one.state?.array && MEANING[one.state.array.name]?.[0] === 'query');
    if (query?.state && row < query.state.rows) return `${where}: query ${trace.box(query.state.array, query.state.tile).row + row}`;
  }
  if (array === null) return where;
  const box = trace.box(array, tile);
  const words = meaning(array, box.row + row, box.col + col);
  return words ? `${where}: ${words}` : where;
}

/** Query and key at the corner of the tile of scores that a slot stands for. */
export function maskOf(state, { trace }) {
  if (!state?.array) return null;
  const box = trace.box(state.array, state.tile);
  return { batch: box.batch, query: box.row, key: box.col };
}

export function hiddenText(trace, why, query, key) {
  if (why === 'mask') return `Key ${key} is hidden by the key mask: its score is −∞ and nothing is multiplied.`;
  const { seqlen_q: queries, seqlen_k: keys } = trace.meta.problem;
  const last = query + keys - queries;
  const sees = last < 0 ? 'sees no key' : `sees the keys up to ${last}`;
  const shift = keys === queries ? '' : ` (${query} + ${keys} − ${queries})`;
  return `Key ${key} is hidden by the causal mask, aligned bottom-right: query ${query} ${sees}${shift}.`;
}

export function leftOut(keys, query) {
  const runs = [];
  for (const key of keys) {
    const last = runs[runs.length - 1];
    if (last && last[1] === key - 1) last[1] = key;
    else runs.push([key, key]);
  }
  const text = runs.map(([from, to]) => (from === to ? `${from}` : to === from + 1 ? `${from}, ${to}` : `${from} to ${to}`)).join(', ');
  return keys.length === 1
    ? `Key ${text} is hidden from query ${query} and left out.`
    : `Keys ${text} are hidden from query ${query} and left out.`;
}
