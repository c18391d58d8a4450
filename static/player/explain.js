// Where did this number come from? The formula of the step that wrote a cell, with that step's own operands.
//
//   explain(trace, replay, order, position, cell) -> Explanation
//     cell: {node, row, col, block?}     a slot, row and col in the slot; block defaults to the first one at work
//           {node, plane, row, col}      an array, row and col in the whole matrix
//   Explanation {
//     cell               what was asked, complete (a slot's block is filled in)
//     name, place        "li[2]"; "row 2 of li in block 0: query 6"
//     status             'formula' | 'hidden'      computed by a formula; hidden: a score that the mask sets to −∞
//                        'loaded' | 'stored'       a copy of another cell (its one operand)
//                        'given' | 'filled'        in HBM before the first step
//                        'empty' | 'guarded'       holds nothing
//                        'unkept'                  its value (or an operand's) was not kept; title and links still stand
//     title              "l = α · l_old + sum(P)"; a sentence where there is no formula.  titlePieces: the same in pieces
//     lines              Piece[][]: "= 0.0498 × 1.3679 + 1.1353", "= 1.2034", and so on
//     roles              what each line is: 'substituted' and 'result' as above; then one 'part' for each sum or dot that
//                        the substituted line shows as one number ("sum(P) = 0.6 + 0.3 = 0.9"); a long one is followed
//                        by its products or numbers as 'term' lines, however many: let them scroll
//     operands           Operand[], in the order in which they are first shown
//     notes              sentences: why a key is hidden, what is stale, why a value is missing
//     value              the trace's own float32, null when unknown
//     computed           the same from the operands, in double; null when unknown
//     substituted        the formula with ["operand", n] for references (vectors: ["list", …]), for whoever recomputes it
//     step               the step that wrote the cell, -1 when none did
//   }
//   Piece {text, operand?: index into operands, node?: the node a name stands for}
//   Operand {text, value, name, cell, node, row, col, plane?, block?, when: 'old'|'new', step, visit}
//     step: the step that wrote it (-1: it stood in HBM from the start). visit: the step to go to, to see it explained
//     with `cell` selected: one hop; -1: stay where you are

import { slotSymbol, symbol, symbolOf } from './explain/names.js';
import { BY_DEFINITION, spell, valueText } from './explain/pieces.js';
import { arrayPlace, arrayText, cellText, maskOf, operandOf, slotPlace } from './explain/places.js';
import { Scope } from './explain/scope.js';
import { number } from './words.js';

/** @typedef {import('./trace.js').Trace} Trace */
/** @typedef {import('./cellname.js').Cell} Cell */
/** @typedef {import('./replay.js').Replay} Replay */
/** @typedef {import('./order.js').Order} Order */
/** @typedef {{text: string, operand?: number, node?: number}} Piece */
/** @typedef {{role: 'substituted'|'result'|'part'|'term', pieces: Piece[]}} Line */
/** @typedef {{text: string, value: number|null, name: string, cell: Cell, node: number, row: number, col: number,
 *   plane?: number, block?: number, when: 'old'|'new', step: number, visit: number}} Operand */

/**
 * @typedef {object} Explanation
 * @property {Cell} cell
 * @property {string} name
 * @property {string} place
 * @property {'formula'|'hidden'|'loaded'|'stored'|'given'|'filled'|'empty'|'guarded'|'unkept'} status
 * @property {string} title
 * @property {Piece[]} titlePieces
 * @property {Piece[][]} lines
 * @property {Line['role'][]} roles
 * @property {Operand[]} operands
 * @property {string[]} notes
 * @property {number|null} value
 * @property {number|null} computed
 * @property {any[]|null} substituted
 * @property {number} step
 */

/**
 * @param {Trace} trace @param {Replay} replay @param {Order} order @param {number} position @param {Cell} cell
 * @returns {Explanation}
 */
export function explain(trace, replay, order, position, cell) {
  const { lines, ...rest } = answer({ trace, replay, order }, position, cell);
  // What stood in HBM from the start may be overwritten by now: an input is not, the rest is met where it was read.
  const isInput = (node) => trace.arrays[node]?.role === 'input'; // arrays come first among the nodes
  const place = ({ node, step }) => (step >= 0 ? step : isInput(node) ? -1 : rest.step);
  const operands = rest.operands.map((operand) => ({ ...operand, visit: place(operand) }));
  return { ...rest, operands, lines: lines.map((line) => line.pieces), roles: lines.map((line) => line.role) };
}

function answer(at, position, cell) {
  const { trace, order } = at;
  const node = trace.nodes[cell.node];
  if (node.kind === 'array') return explainArray(at, position, { ...cell, plane: cell.plane ?? 0 }, node);
  const block = cell.block ?? order.at(position).active.find((one) => one.launch === node.launch)?.block ?? 0;
  const step = order.progress(node.launch, block, position);
  return explainSlot(at, step, { ...cell, block }, node);
}

// ---- a slot's cell -------------------------------------------------------------------------------------------------

function explainSlot(at, step, cell, node) {
  const { trace, replay } = at;
  const { block, row, col } = cell;
  const state = replay.slot(node.id, block, step);
  const name = cellText({ name: state?.label ?? node.name, cols: node.cols }, row, col); // Sij is called Pij once it holds P
  const base = blank(cell, name, slotPlace(at, node, cell, state, step));
  if (state === null) {
    const why = step < 0 ? `block ${block} has not begun` : `block ${block} has not written it yet`;
    return { ...base, status: 'empty', ...sentence(`${node.name} holds nothing: ${why}.`) };
  }
  base.step = state.step;
  if (state.stale) base.notes.push(`${state.label} still holds an earlier tile's numbers: nothing reads them any more.`);
  if (row >= state.rows || col >= state.cols) {
    return { ...base, status: 'guarded', ...sentence(guardedText(node, state, row)) };
  }
  base.value = state.values ? state.values[row * state.cols + col] : null;
  if (state.kind === 'load') return loaded(at, base, state, cell, node);
  // An initialisation's formula is its constant: a sentence says more.
  const formula = state.kind === 'init' ? undefined : trace.step(state.step).meta.formulas?.[node.name];
  if (formula) {
    const scope = new Scope(at, node, { block, step: state.step, row, col, mask: maskOf(state, at) });
    return computed(base, scope, formula, slotSymbol(state.label));
  }
  if (state.kind === 'init') {
    const name = symbolOf(node.name);
    const known = base.value === null ? [] : [{ role: /** @type {const} */ ('result'), pieces: [{ text: `= ${number(base.value)}` }] }];
    const title = base.value === null ? `${name} is set to its first value` : `${name} starts at ${number(base.value)}`;
    return unkept({ ...base, status: 'formula', ...sentence(`${title}: this block has seen nothing yet.`), lines: known, computed: base.value }, at);
  }
  return unkept({ ...base, status: 'formula', ...sentence(`${state.label} was computed in this step.`) }, at);
}

function loaded(at, base, state, cell, node) {
  const { trace, replay, order } = at;
  const box = trace.box(state.array, state.tile);
  const source = { node: state.array.id, plane: box.plane, row: box.row + cell.row, col: box.col + cell.col };
  const tile = trace.tileAt(state.array, source.plane, source.row, source.col);
  const store = replay.lastStore(state.array.id, tile, order, order.positionOf(state.step), state.event);
  const operand = operandOf(at, source, base.value, 'new', store < 0 ? -1 : trace.stepOf(store));
  return copied({ ...base, status: 'loaded' }, `${cellText(node, cell.row, cell.col)} is a copy of `, operand, '.', at);
}

function copied(base, before, operand, after, at) {
  const titlePieces = [{ text: before }, { text: operand.name, operand: 0, node: operand.node }, { text: after }];
  const lines = operand.value === null ? [] : [{ role: /** @type {const} */ ('result'), pieces: [{ text: '= ' }, { text: operand.text, operand: 0 }] }];
  const title = titlePieces.map((piece) => piece.text).join('');
  const result = { ...base, title, titlePieces, lines, operands: [operand], computed: operand.value, substituted: ['operand', 0] };
  return unkept(result, at);
}

function guardedText(node, state, row) {
  const which = row >= state.rows ? `row ${row}` : 'this column';
  const end = state.array && state.array.space === 'hbm' ? `${state.array.name} ends before it` : 'the matrix ends before it';
  return `This lane of ${node.name} is guarded: ${end}, so ${which} is never read and never counted.`;
}

// ---- an array's cell -----------------------------------------------------------------------------------------------

function explainArray(at, position, cell, array) {
  const { trace, replay, order } = at;
  const { plane, row, col } = cell;
  const name = arrayText(array, plane, row, col);
  const base = blank(cell, name, arrayPlace(array, cell));
  if (array.space === 'virtual') {
    const text = `${array.name} is never in HBM: its tiles live in shared memory only, one at a time.`;
    return { ...base, status: 'empty', ...sentence(text) };
  }
  const index = trace.tileAt(array, plane, row, col);
  const tile = replay.tile(array.id, index, order, position);
  const box = trace.box(array, index);
  const local = { row: row - box.row, col: col - box.col };
  base.value = tile.values ? tile.values[local.row * tile.cols + local.col] : null;
  base.step = tile.step;
  if (tile.event >= 0) return stored(at, base, tile, box, local, array);
  const shown = base.value === null ? [] : [{ role: /** @type {const} */ ('result'), pieces: [{ text: `= ${number(base.value)}` }] }];
  const known = { ...base, lines: shown, computed: base.value };
  if (array.filled !== null) return unkept({ ...known, status: 'filled', ...sentence(array.filled) }, at);
  if (array.role === 'input') return unkept({ ...known, status: 'given', ...sentence(givenText(trace, array)) }, at);
  return { ...base, status: 'empty', ...sentence(`${name} holds nothing yet: no block has written this tile.`) };
}

function stored(at, base, tile, box, local, array) {
  const { trace, replay } = at;
  const event = trace.event(tile.event);
  const { block, meta } = trace.step(tile.step);
  // A store of several tiles stacks them: this tile begins as many rows down as the ones before it hold.
  const first = trace.box(array, event.tile);
  const row = box.row - first.row + local.row, col = box.col - first.col + local.col;
  const formula = meta.formulas?.[array.name];
  if (formula) {
    const mask = { batch: box.batch, query: box.row, key: box.col };
    const scope = new Scope(at, array, { block, step: tile.step, row, col, mask, launch: trace.step(tile.step).launch });
    return computed(base, scope, formula, [{ text: array.name, node: array.id }]);
  }
  const writer = replay.slot(event.src, block, tile.step);
  const source = { node: event.src, row, col, block };
  const operand = operandOf(at, source, base.value, 'new', writer ? writer.step : tile.step);
  const after = ` by block ${block}${event.kind === 'partial' ? ', as a split’s unfinished result' : ''}.`;
  return copied({ ...base, status: 'stored' }, `${base.name} was stored from `, operand, after, at);
}

function givenText(trace, array) {
  const { inputs, seed } = trace.meta.problem;
  if (array.dtype === 'bool') return `${array.name} is given: 1 where a key is visible, 0 where it is hidden.`;
  if (inputs === 'arrays') return `${array.name} is given: your own array.`; // a key mask alone may be given too
  return inputs === 'random' ? `${array.name} is given: random numbers, seed ${seed}.` : `${array.name} is given: the input “${inputs}”, seed ${seed}.`;
}

// ---- a formula -----------------------------------------------------------------------------------------------------

/** The explanation of a cell that a formula computed. */
function computed(base, scope, formula, name) {
  const item = scope.read(formula);
  const single = Array.isArray(item) ? item[0] : item;
  const { expand } = single;
  const agreed = expand ? expand.terms.some((term) => term.agreed) : single.agreed;
  // At the top, a sum is the formula: its numbers are the substituted line, or as many lines as they need.
  const main = expand ? spell([], expand, single.value, false) : [{ role: 'substituted', pieces: [{ text: '= ' }, ...single.pieces] }];
  const trivial = scope.hidden || (!expand && single.tree[0] === 'num');
  const lines = trivial ? [] : main;
  lines.push({ role: 'result', pieces: [{ text: `= ${valueText(single.value)}${agreed ? BY_DEFINITION : ''}` }] });
  const shown = base.value;
  if (shown !== null && single.value !== null && number(shown) !== number(single.value)) {
    lines[lines.length - 1].pieces.push({ text: ` ≈ ${number(shown)} in float32` });
  }
  for (const { title, expand: part, value } of scope.parts) {
    lines.push(...(part ? spell(title, part, value, true) : [{ role: /** @type {const} */ ('part'), pieces: title }]));
  }
  const right = symbol(scope, formula);
  const titlePieces = scope.hidden ? [...name, { text: ' is hidden' }] : [...name, { text: ' = ' }, ...right.pieces];
  const lost = base.value === null || scope.lost;
  const result = {
    ...base,
    status: scope.hidden ? 'hidden' : 'formula',
    title: titlePieces.map((piece) => piece.text).join(''),
    titlePieces,
    lines: lost ? [] : lines,
    operands: scope.operands,
    notes: [...base.notes, ...new Set(scope.notes)],
    computed: lost ? null : single.value,
    substituted: lost ? null : single.tree,
  };
  return lost ? unkept({ ...result, value: base.value }, scope) : result;
}

// ---- what they share -----------------------------------------------------------------------------------------------

function blank(cell, name, place) {
  return { cell, name, place, status: 'empty', title: '', titlePieces: [], lines: [], operands: [], notes: [], value: null, computed: null, substituted: null, step: -1 };
}

function sentence(text) {
  return { title: text, titlePieces: [{ text }] };
}

function unkept(result, { trace }) {
  if (result.value !== null && result.computed !== null) return result;
  const { values, focus } = trace.meta;
  const { block } = result.cell;
  const notes = [...result.notes];
  if (values === 'none') notes.push('No numbers were kept: record it with values, or smaller.');
  else if (block !== undefined && values === 'focus' && block !== focus) notes.push(`This block's values were not kept: focus block ${block} to see them.`);
  else if (values === 'focus') notes.push(`Only block ${focus}'s values were kept.`);
  else if (result.operands.some((operand) => operand.value === null)) notes.push('A number that this formula reads was never written.');
  return { ...result, status: 'unkept', notes };
}
