// The description in a trace's header: its fields that the page relies on; what it only shows is not checked.

import { ITEM_BYTES, NONE } from './codes.js';
import { demand, isCount } from './demand.js';

const MOST_TILES = 2 ** 24; // of an array: a few numbers are kept for each
const MOST_NESTED = 32; // calls within calls in a formula

const isObject = (x) => x !== null && typeof x === 'object' && !Array.isArray(x);

/** Refuses a description that is not one. @param {any} meta */
export function checkMeta(meta) {
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
