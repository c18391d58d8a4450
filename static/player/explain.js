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
//   Operand {text, value, name, cell, node, row, col, plane?, block?, when: 'old'|'new', step}
//     step: the step that wrote it (-1: given). Go there with `cell` selected and explain again: one hop.

import { number } from './words.js';

/** @typedef {import('./trace.js').Trace} Trace */
/** @typedef {import('./trace.js').Cell} Cell */
/** @typedef {import('./replay.js').Replay} Replay */
/** @typedef {import('./order.js').Order} Order */
/** @typedef {{text: string, operand?: number, node?: number}} Piece */
/** @typedef {{role: 'substituted'|'result'|'part'|'term', pieces: Piece[]}} Line */
/** @typedef {{text: string, value: number|null, name: string, cell: Cell, node: number, row: number, col: number,
 *   plane?: number, block?: number, when: 'old'|'new', step: number}} Operand */

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

/** Products of a dot that are shown within the formula; more are listed below it. */
const INLINE = 4;
/** Numbers of a sum or maximum that share one line. */
const A_LINE = 8;

/**
 * @param {Trace} trace @param {Replay} replay @param {Order} order @param {number} position @param {Cell} cell
 * @returns {Explanation}
 */
export function explain(trace, replay, order, position, cell) {
  const { lines, ...rest } = answer({ trace, replay, order }, position, cell);
  return { ...rest, lines: lines.map((line) => line.pieces), roles: lines.map((line) => line.role) };
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
  const name = cellText(node, row, col);
  const state = replay.slot(node.id, block, step);
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
  const formula = trace.step(state.step).meta.formulas?.[node.name];
  if (formula) {
    const scope = new Scope(at, node, { block, step: state.step, row, col, mask: maskOf(state, at) });
    return computed(base, scope, formula, slotSymbol(node.name, state.label));
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
  const { inputs, seed, arrays } = trace.meta.problem;
  if (array.dtype === 'bool') return `${array.name} is given: 1 where a key is visible, 0 where it is hidden.`;
  if (arrays) return `${array.name} is given: your own array.`;
  return inputs === 'random' ? `${array.name} is given: random numbers, seed ${seed}.` : `${array.name} is given: the input “${inputs}”, seed ${seed}.`;
}

// ---- formulas ------------------------------------------------------------------------------------------------------

/**
 * A value on its way into the explanation.
 * @typedef {object} Item
 * @property {number|null} value
 * @property {Piece[]} pieces    how it is written, numbers in place of names
 * @property {number} rank       3 an atom, 2 a product, 1 a sum: what needs parentheses
 * @property {any[]} tree        for `substituted`
 * @property {{terms: Item[], join: string, short: boolean}} [expand]   the numbers it was made of, while nothing shows them yet
 * @property {Piece[]} [title]   its name, for the 'part' line
 */

const atom = (value, pieces, tree) => ({ value, pieces, rank: 3, tree });

/** Where a formula is read: the cell it explains, and the block and step whose operands it takes. */
class Scope {
  constructor(at, target, { block, step, row, col, mask, launch = target.launch }) {
    Object.assign(this, at);
    /** @type {Trace} */ this.trace;
    /** @type {Replay} */ this.replay;
    /** @type {Order} */ this.order;
    this.target = target;
    this.launch = launch;
    this.block = block;
    this.step = step;
    this.row = row;
    this.col = col;
    this.mask = mask;
    /** @type {Operand[]} */ this.operands = [];
    /** @type {string[]} */ this.notes = [];
    /** @type {{title: Piece[], expand: Item['expand']|null, value: number|null}[]} */ this.parts = [];
    this.hidden = false;
    this.lost = false;
    this.seen = new Map();
  }

  /** One value, or the values along a ":". @returns {Item|Item[]} */
  read(formula) {
    const [verb, ...rest] = formula;
    if (verb === 'num') return atom(rest[0], [{ text: number(rest[0]) }], ['num', rest[0]]);
    if (verb === 'const') {
      const value = scaleOf(this.trace);
      return atom(value, [{ text: number(value) }], ['num', value]);
    }
    if (verb === 'ref') return this.refer(rest[0], rest[1], rest[2], rest[3]);
    if (verb === 'op') return this.each([this.read(rest[1]), this.read(rest[2])], ([a, b]) => this.operate(rest[0], a, b));
    if (verb === 'call') return this.call(rest[0], rest.slice(1));
    return atom(null, [{ text: '?' }], ['num', null]);
  }

  /** Applies to single values, or along vectors, a single value repeating. */
  each(values, apply) {
    const vector = values.find(Array.isArray);
    if (vector === undefined) return apply(values);
    return vector.map((_, n) => apply(values.map((value) => (Array.isArray(value) ? value[n] : value))));
  }

  refer(name, row, col, when) {
    const { trace } = this;
    const node = trace.node(name, this.launch);
    if (node === null) return atom(null, [{ text: name }], ['num', null]);
    const extent = this.extent(node, when);
    const rows = this.range(row, extent.rows), cols = this.range(col, extent.cols);
    const items = [];
    for (const r of rows) for (const c of cols) items.push(this.operand(node, r, c, when, extent));
    return row === ':' || col === ':' ? items : items[0];
  }

  range(index, extent) {
    if (index === ':') return Array.from({ length: extent }, (_, n) => n);
    return [index === 'r' ? this.row : index === 'c' ? this.col : index];
  }

  /** What a name holds, old or new: its values and valid extent. */
  extent(node, when) {
    const key = `${node.id} ${when}`;
    const known = this.seen.get(key);
    if (known) return known;
    const made = node.kind === 'slot' ? this.slotExtent(node, when) : this.arrayExtent(node);
    this.seen.set(key, made);
    return made;
  }

  slotExtent(node, when) {
    const state = this.replay.slot(node.id, this.block, when === 'old' ? this.step - 1 : this.step);
    if (state === null) return { rows: node.rows, cols: node.cols, values: null, step: -1, state };
    return { rows: state.rows, cols: state.cols, values: state.values, step: state.step, state };
  }

  /** The tiles of an array that this step loads or stores. */
  arrayExtent(array) {
    const { trace, replay, order } = this;
    const [from, to] = trace.eventRange(this.step);
    for (let e = from; e < to; e++) {
      const event = trace.event(e);
      if (event.array !== array || !event.tiles) continue;
      const { rows, cols, value } = event;
      const box = trace.box(array, event.tile);
      const store = event.kind === 'load' ? replay.lastStore(array.id, event.tile, order, order.positionOf(this.step), e) : e;
      return { rows, cols, values: trace.numbers(value, rows * cols), step: store < 0 ? -1 : trace.stepOf(store), box };
    }
    return { rows: 0, cols: 0, values: null, step: -1, box: null };
  }

  operand(node, row, col, when, extent) {
    const inside = row < extent.rows && col < extent.cols;
    const value = extent.values && inside ? extent.values[row * extent.cols + col] : null;
    if (value === null) this.lost = true;
    const box = extent.box;
    const cell = node.kind === 'slot'
      ? { node: node.id, row, col, block: this.block }
      : { node: node.id, plane: box?.plane ?? 0, row: (box?.row ?? 0) + row, col: (box?.col ?? 0) + col };
    const index = this.remember(operandOf(this, cell, value, when, extent.step, this.nameOf(node, when)));
    return atom(value, [{ text: this.operands[index].text, operand: index, node: node.id }], ['operand', index]);
  }

  /** The same number is one operand, however often it is used. */
  remember(operand) {
    const same = this.operands.findIndex((one) =>
      one.when === operand.when && one.node === operand.node && one.row === operand.row && one.col === operand.col);
    return same >= 0 ? same : this.operands.push(operand) - 1;
  }

  operate(sign, a, b) {
    const rank = sign === '+' || sign === '-' ? 1 : 2;
    this.settle(a);
    this.settle(b);
    const value = a.value === null || b.value === null ? null
      : sign === '+' ? a.value + b.value : sign === '-' ? a.value - b.value : sign === '*' ? a.value * b.value : a.value / b.value;
    const right = wrap(b, sign === '-' || sign === '/' ? rank + 1 : rank, sign === '-');
    return { value, rank, tree: ['op', sign, a.tree, b.tree], pieces: [...wrap(a, rank), { text: SIGNS[sign] }, ...right] };
  }

  /** A sum that something else takes in is shown there as one number, and spelled out below; a short dot in place. */
  settle(item) {
    if (item.expand === undefined) return;
    const { terms, join, short } = item.expand;
    if (terms.length === 1 || short) {
      item.pieces = joined(terms, join);
      item.rank = terms.length === 1 ? terms[0].rank : 1;
    } else {
      this.parts.push({ title: item.title, expand: item.expand, value: item.value });
    }
    delete item.expand;
  }

  call(name, args) {
    switch (name) {
      case 'max': return this.maximum(args);
      case 'sum': return this.total(this.list(args[0]), args, false);
      case 'dot': return this.total(this.products(args), args, true);
      case 'mix': return this.total(this.visibleProducts(args), args, false);
      case 'masked': return this.masked(args[0]);
      default: return this.each(args.map((arg) => this.read(arg)), (items) => this.apply(name, items));
    }
  }

  list(formula) {
    const value = this.read(formula);
    return Array.isArray(value) ? value : [value];
  }

  products([a, b]) {
    const [left, right] = [this.list(a), this.list(b)];
    return left.map((item, n) => this.operate('*', item, right[n]));
  }

  /** Products over the keys that the row may see: hidden ones are left out, never multiplied. */
  visibleProducts([weights, values]) {
    const row = weights[2] === 'r' ? this.row : weights[2];
    const node = this.trace.node(weights[1], this.launch);
    const mask = node ? maskOf(this.extent(node, weights[4]).state, this) ?? this.mask : this.mask;
    const left = this.list(weights), right = this.list(values);
    const hidden = [];
    const terms = [];
    for (let n = 0; n < left.length; n++) {
      const why = mask ? this.trace.hidden(mask.batch, mask.query + row, mask.key + n) : null;
      if (why === 'causal' || why === 'mask') hidden.push(mask.key + n);
      else terms.push(this.operate('*', left[n], right[n]));
    }
    if (hidden.length) this.notes.push(leftOut(hidden, mask.query + row));
    return terms;
  }

  total(terms, args, short) {
    const value = terms.some((term) => term.value === null) ? null : terms.reduce((sum, term) => sum + term.value, 0);
    const title = symbol(this, ['call', short ? 'dot' : args.length > 1 ? 'mix' : 'sum', ...args]).pieces;
    const tree = ['call', 'sum', ['list', ...terms.map((term) => term.tree)]];
    if (terms.length === 0) return atom(0, [{ text: '0' }], ['num', 0]);
    return { value, tree, title, pieces: [{ text: valueText(value) }], rank: 3, expand: { terms, join: ' + ', short: short && terms.length <= INLINE } };
  }

  maximum(args) {
    const items = args.flatMap((arg) => this.list(arg));
    for (const item of items) this.settle(item);
    const value = items.some((item) => item.value === null) ? null : items.reduce((most, item) => Math.max(most, item.value), -Infinity);
    const tree = ['call', 'max', ['list', ...items.map((item) => item.tree)]];
    if (items.length === 0) return atom(-Infinity, [{ text: number(-Infinity) }], tree);
    if (items.length <= A_LINE) return atom(value, [{ text: 'max(' }, ...joined(items, ', '), { text: ')' }], tree);
    return { value, tree, title: symbol(this, ['call', 'max', ...args]).pieces, pieces: [{ text: valueText(value) }], rank: 3, expand: { terms: items, join: ', ', short: false } };
  }

  masked(inner) {
    const { mask, trace, row, col } = this;
    const why = mask ? trace.hidden(mask.batch, mask.query + row, mask.key + col) : null;
    if (why === 'causal' || why === 'mask') {
      this.hidden = true;
      this.notes.push(hiddenText(trace, why, mask.query + row, mask.key + col));
      if (why === 'mask') this.blame(mask.batch, mask.key + col);
      return atom(-Infinity, [{ text: number(-Infinity) }], ['call', 'max', ['list']]);
    }
    if (why === 'unkept') this.lost = true;
    return this.read(inner);
  }

  /** The element of the key mask that hides a key, to link to. */
  blame(batch, key) {
    const { trace } = this;
    const cell = { node: trace.mask.id, plane: batch, row: key, col: 0 };
    const operand = this.remember(operandOf(this, cell, 0, 'new', -1));
    this.parts.push({ title: [{ text: `${this.operands[operand].name} = ` }, { text: '0', operand }], expand: null, value: 0 });
  }

  /** Functions of single values, with their answers where infinities meet. */
  apply(name, items) {
    for (const item of items) this.settle(item);
    const [a, b] = items;
    const tree = ['call', name, ...items.map((item) => item.tree)];
    const known = items.every((item) => item.value !== null);
    const evaluate = (f) => (known ? f() : null);
    const difference = () => [{ text: 'exp(' }, ...wrap(a, 1), { text: ' − ' }, ...wrap(b, 2, true), { text: ')' }];
    switch (name) {
      case 'exp': return { ...atom(evaluate(() => Math.exp(a.value)), [{ text: 'exp(' }, ...a.pieces, { text: ')' }], tree) };
      case 'log': return { ...atom(evaluate(() => Math.log(a.value)), [{ text: 'ln(' }, ...a.pieces, { text: ')' }], tree) };
      case 'rescale':
        if (b.value === -Infinity) this.notes.push('The row has seen no key yet: its maximum is still −∞, so α is 1 by definition and nothing is rescaled.');
        return atom(evaluate(() => (b.value === -Infinity ? 1 : Math.exp(a.value - b.value))), difference(), tree);
      case 'weight':
        if (a.value === -Infinity) this.notes.push('A score of −∞ weighs nothing: P is 0 by definition.');
        return atom(evaluate(() => (a.value === -Infinity ? 0 : Math.exp(a.value - b.value))), difference(), tree);
      case 'ratio':
        if (b.value === 0) this.notes.push('The row has seen no key: l is 0, so the answer is 0 by definition.');
        return { ...atom(evaluate(() => (b.value === 0 ? 0 : a.value / b.value)), [...wrap(a, 2), { text: ' ÷ ' }, ...wrap(b, 3)], tree), rank: 2 };
      case 'lse':
        if (b.value === 0) this.notes.push('The row has seen no key: l is 0, so lse is −∞ by definition.');
        return { ...atom(evaluate(() => (b.value === 0 ? -Infinity : a.value + Math.log(b.value))), [...wrap(a, 1), { text: ' + ln(' }, ...b.pieces, { text: ')' }], tree), rank: 1 };
      default: return atom(null, [{ text: `${name}(…)` }], tree);
    }
  }

  /** What the page calls a slot: what it stood for at that time, and `_old` where both its values are in play. */
  nameOf(node, when) {
    if (node.kind === 'array') return [{ text: node.name, node: node.id }];
    const { state } = this.extent(node, when);
    return slotSymbol(node.name, state?.label ?? node.name, when === 'old' && this.rewrites(node), node.id);
  }

  /** Does this step write the slot, and under the name it had before? */
  rewrites(node) {
    const { trace } = this;
    const relabelled = trace.step(this.step).meta.relabel?.[node.name];
    const dst = trace.columns['events.dst'];
    const [from, to] = trace.eventRange(this.step);
    for (let e = from; e < to; e++) if (dst[e] === node.id) return relabelled === undefined || this.oldLabel(node) === relabelled;
    return false;
  }

  oldLabel(node) {
    return this.extent(node, 'old').state?.label ?? node.name;
  }
}

const SIGNS = { '+': ' + ', '-': ' − ', '*': ' × ', '/': ' ÷ ' };

/** Parentheses where the sign around binds tighter; and around a negative number after a minus. */
function wrap(item, rank, afterMinus = false) {
  const negative = afterMinus && item.value !== null && item.rank === 3 && (item.value < 0 || Object.is(item.value, -0));
  return item.rank < rank || negative ? [{ text: '(' }, ...item.pieces, { text: ')' }] : item.pieces;
}

function joined(items, join) {
  return items.flatMap((item, n) => (n ? [{ text: join }, ...item.pieces] : item.pieces));
}

/** The explanation of a cell that a formula computed. */
function computed(base, scope, formula, name) {
  const item = scope.read(formula);
  const single = Array.isArray(item) ? item[0] : item;
  const { expand } = single;
  // At the top, a sum is the formula: its numbers are the substituted line, or as many lines as they need.
  const main = expand ? spell([], expand, single.value, false) : [{ role: 'substituted', pieces: [{ text: '= ' }, ...single.pieces] }];
  const trivial = !expand && single.tree[0] === 'num';
  const lines = trivial ? [] : main;
  lines.push({ role: 'result', pieces: [{ text: `= ${valueText(single.value)}` }] });
  const shown = base.value;
  if (shown !== null && single.value !== null && number(shown) !== number(single.value)) {
    lines[lines.length - 1].pieces.push({ text: ` ≈ ${number(shown)} in float32` });
  }
  for (const { title, expand: part, value } of scope.parts) {
    lines.push(...(part ? spell(title, part, value, true) : [{ role: /** @type {const} */ ('part'), pieces: title }]));
  }
  const right = symbol(scope, formula);
  const titlePieces = scope.hidden ? [...name, { text: ' is hidden: −∞' }] : [...name, { text: ' = ' }, ...right.pieces];
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

/** Lines for a sum, dot or maximum of many numbers. */
function spell(title, { terms, join }, value, isPart) {
  const open = join === ', ' ? 'max(' : '', close = join === ', ' ? ')' : '';
  const products = terms.some((term) => term.rank < 3);
  const role = isPart ? 'part' : 'substituted';
  const end = isPart ? [{ text: ` = ${valueText(value)}` }] : [];
  if (terms.length <= (products ? INLINE : A_LINE)) {
    return [{ role, pieces: [...title, { text: `${isPart ? ' ' : ''}= ${open}` }, ...joined(terms, join), { text: close }, ...end] }];
  }
  const what = `${terms.length} ${products ? 'products' : 'numbers'}`;
  const head = { role, pieces: [...title, { text: `${isPart ? ' ' : ''}= ${close ? `the largest of ${what}` : `the sum of ${what}`}` }, ...end] };
  const lines = [head];
  if (products) {
    for (const term of terms) lines.push({ role: 'term', pieces: [...term.pieces, { text: ` = ${valueText(term.value)}` }] });
  } else {
    for (let n = 0; n < terms.length; n += A_LINE) {
      const more = n + A_LINE < terms.length;
      lines.push({ role: 'term', pieces: [...joined(terms.slice(n, n + A_LINE), join), { text: more ? join.trimEnd() : '' }] });
    }
  }
  return lines;
}

// ---- formulas in names ---------------------------------------------------------------------------------------------

/** The formula with names in place of numbers. Indices that are the cell's own are left out. */
function symbol(scope, formula) {
  const [verb, ...rest] = formula;
  if (verb === 'num') return { pieces: [{ text: number(rest[0]) }], rank: 3 };
  if (verb === 'const') return { pieces: [{ text: rest[0] }], rank: 3 };
  if (verb === 'ref') return { pieces: reference(scope, rest), rank: 3 };
  if (verb === 'op') {
    const [sign, a, b] = rest;
    const rank = sign === '+' || sign === '-' ? 1 : 2;
    const [left, right] = [symbol(scope, a), symbol(scope, b)];
    const text = sign === '*' ? ' · ' : SIGNS[sign];
    return { rank, pieces: [...wrap(left, rank), { text }, ...wrap(right, sign === '-' || sign === '/' ? rank + 1 : rank)] };
  }
  const [name, ...args] = rest;
  if (name === 'masked') return symbol(scope, args[0]);
  if (name === 'max' && args.length === 0) return { pieces: [{ text: number(-Infinity) }], rank: 3 };
  const parts = args.map((arg) => symbol(scope, arg));
  const called = (word, separator) => ({ rank: 3, pieces: [{ text: `${word}(` }, ...joined(parts, separator), { text: ')' }] });
  switch (name) {
    case 'rescale':
    case 'weight': return called('exp', ' − ');
    case 'ratio': return { rank: 2, pieces: [...wrap(parts[0], 2), { text: ' ÷ ' }, ...wrap(parts[1], 3)] };
    case 'mix': return called('sum', ' · ');
    case 'lse': return { rank: 1, pieces: [...wrap(parts[0], 1), { text: ' + ln(' }, ...parts[1].pieces, { text: ')' }] };
    case 'log': return called('ln', ', ');
    default: return called(name, ', ');
  }
}

function reference(scope, [name, row, col, when]) {
  const node = scope.trace.node(name, scope.launch);
  if (node === null) return [{ text: name }];
  const pieces = scope.nameOf(node, when);
  const at = (index) => (index === 'r' ? scope.row : index === 'c' ? scope.col : index);
  const narrow = col === 0 && node.cols === 1;
  const own = narrow ? row === 'r' || row === ':' || node.rows === 1 : row === 'r' && (col === 'c' || col === ':');
  if (own) return pieces;
  const text = col === ':' || narrow ? `[${at(row)}]` : `[${at(row)}, ${at(col)}]`;
  return [...pieces, { text, node: node.id }];
}

const GREEK = { alpha: 'α', beta: 'β', gamma: 'γ' };

/** "mi" is written m, "Sij" S: the tile's indices are the cell's own. */
function symbolOf(name) {
  return GREEK[name] ?? name.replace(/^([A-Za-z]|lse)(ij|i|j)$/, '$1');
}

function slotSymbol(name, label, old = false, node = undefined) {
  return [{ text: symbolOf(label === name ? name : label) + (old ? '_old' : ''), node }];
}

// ---- words ---------------------------------------------------------------------------------------------------------

function blank(cell, name, place) {
  return { cell, name, place, status: 'empty', title: '', titlePieces: [], lines: [], operands: [], notes: [], value: null, computed: null, substituted: null, step: -1 };
}

function sentence(text) {
  return { title: text, titlePieces: [{ text }] };
}

const valueText = (value) => (value === null ? '?' : number(value));

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

/** "Kj[1, 2]", "mi[3]". */
function cellText(node, row, col) {
  return node.cols === 1 ? `${node.name}[${row}]` : `${node.name}[${row}, ${col}]`;
}

/** "K[5, 2]", and with batch and head where there are several: "K[0, 1, 5, 2]". */
function arrayText(array, plane, row, col) {
  const at = [];
  if (array.batch > 1) at.push(Math.floor(plane / array.heads));
  if (array.batch > 1 || array.heads > 1) at.push(plane % array.heads);
  at.push(row);
  if (!array.vector && array.cols > 1) at.push(col);
  return `${array.name}[${at.join(', ')}]`;
}

function operandOf({ trace }, cell, value, when, step, symbolPieces = null) {
  const node = trace.nodes[cell.node];
  const name = node.kind === 'slot'
    ? cellText({ name: symbolPieces?.[0].text ?? node.name, cols: node.cols }, cell.row, cell.col)
    : arrayText(node, cell.plane, cell.row, cell.col);
  const { row, col, plane, block } = cell;
  return { text: valueText(value), value, name, cell, node: node.id, row, col, plane, block, when, step };
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

function arrayPlace(array, { plane, row, col }) {
  const words = [meaning(array, row, col) || `row ${row}${array.cols > 1 ? `, column ${col}` : ''}`];
  if (array.heads > 1) words.push(`head ${plane % array.heads}`);
  if (array.batch > 1) words.push(`batch entry ${Math.floor(plane / array.heads)}`);
  return `${array.name} in HBM: ${words.join(', ')}`;
}

function slotPlace({ trace, replay }, node, { block, row, col }, state, step) {
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
function maskOf(state, { trace }) {
  if (!state?.array) return null;
  const box = trace.box(state.array, state.tile);
  return { batch: box.batch, query: box.row, key: box.col };
}

function hiddenText(trace, why, query, key) {
  if (why === 'mask') return `Key ${key} is hidden by the key mask: its score is −∞ and nothing is multiplied.`;
  const { seqlen_q: queries, seqlen_k: keys } = trace.meta.problem;
  const last = query + keys - queries;
  const sees = last < 0 ? 'sees no key' : `sees the keys up to ${last}`;
  const shift = keys === queries ? '' : ` (${query} + ${keys} − ${queries})`;
  return `Key ${key} is hidden by the causal mask, aligned bottom-right: query ${query} ${sees}${shift}.`;
}

function leftOut(keys, query) {
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

function scaleOf(trace) {
  const { scale, head_dim: d } = trace.meta.problem;
  return Math.fround(typeof scale === 'number' ? scale : 1 / Math.sqrt(d));
}
