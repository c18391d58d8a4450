// Reads a formula on one step's own numbers: its value in double, how it is written, and the cells that it reads.

import { number } from '../words.js';
import { slotSymbol, symbol } from './names.js';
import { A_LINE, atom, INLINE, joined, SIGNS, valueText, wrap } from './pieces.js';
import { hiddenText, leftOut, maskOf, operandOf } from './places.js';

/** @typedef {import('../trace.js').Trace} Trace */
/** @typedef {import('../replay.js').Replay} Replay */
/** @typedef {import('../order.js').Order} Order */
/** @typedef {import('../explain.js').Piece} Piece */
/** @typedef {import('../explain.js').Operand} Operand */
/** @typedef {import('./pieces.js').Item} Item */

/** Where a formula is read: the cell it explains, and the block and step whose operands it takes. */
export class Scope {
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
    /** @type {number[]|null} what ":" runs along, when not everything */ this.along = null;
    this.hidden = false;
    this.lost = false;
    /** @type {Map<string, any>} what each name holds */ this.seen = new Map();
    /** @type {Map<string, number>} where each operand stands */ this.places = new Map();
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
    if (index === ':') return this.along ?? Array.from({ length: extent }, (_, n) => n);
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
    const index = this.remember(operandOf(this, cell, value, when, extent.step, this.fullName(node, when)));
    return atom(value, [{ text: this.operands[index].text, operand: index, node: node.id }], ['operand', index]);
  }

  /** The same number is one operand, however often it is used. */
  remember(operand) {
    const key = `${operand.when} ${operand.node} ${operand.row} ${operand.col}`;
    const known = this.places.get(key);
    if (known !== undefined) return known;
    this.places.set(key, this.operands.length);
    return this.operands.push(operand) - 1;
  }

  operate(sign, a, b) {
    const rank = sign === '+' || sign === '-' ? 1 : 2;
    this.settle(a);
    this.settle(b);
    const value = a.value === null || b.value === null ? null
      : sign === '+' ? a.value + b.value : sign === '-' ? a.value - b.value : sign === '*' ? a.value * b.value : a.value / b.value;
    const right = wrap(b, sign === '-' || sign === '/' ? rank + 1 : rank, sign === '-');
    return { value, rank, tree: ['op', sign, a.tree, b.tree], pieces: [...wrap(a, rank), { text: SIGNS[sign] }, ...right], agreed: a.agreed || b.agreed };
  }

  /** A sum that something else takes in is shown there as one number, and spelled out below; a short dot in place. */
  settle(item) {
    if (item.expand === undefined) return;
    const { terms, join, short } = item.expand;
    if (terms.length === 1 || short) {
      item.pieces = joined(terms, join);
      item.rank = terms.length === 1 ? terms[0].rank : 1;
      item.agreed = terms.some((term) => term.agreed);
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
    const keys = node ? this.extent(node, weights[4]).cols : 0;
    const seen = [], hidden = [];
    for (let n = 0; n < keys; n++) {
      const why = mask ? this.trace.hidden(mask.batch, mask.query + row, mask.key + n) : null;
      if (why === 'causal' || why === 'mask') hidden.push(mask.key + n);
      else seen.push(n);
    }
    this.along = seen;
    const left = this.list(weights), right = this.list(values);
    this.along = null;
    const terms = left.map((item, n) => this.operate('*', item, right[n]));
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
    if (items.length <= A_LINE) return { ...atom(value, [{ text: 'max(' }, ...joined(items, ', '), { text: ')' }], tree), agreed: items.some((item) => item.agreed) };
    return { value, tree, title: symbol(this, ['call', 'max', ...args]).pieces, pieces: [{ text: valueText(value) }], rank: 3, expand: { terms: items, join: ', ', short: false } };
  }

  masked(inner) {
    const { mask, trace, row, col } = this;
    const why = mask ? trace.hidden(mask.batch, mask.query + row, mask.key + col) : null;
    if (why === 'causal' || why === 'mask') {
      this.hidden = true;
      if (why === 'causal') this.notes.push(hiddenText(trace, why, mask.query + row, mask.key + col));
      if (trace.masked(mask.batch, mask.key + col) === 'mask') {
        this.notes.push(hiddenText(trace, 'mask', mask.query + row, mask.key + col));
        this.blame(mask.batch, mask.key + col);
      }
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
    const nothing = a.value === -Infinity && b?.value === -Infinity; // −∞ − −∞ is no number: what stands for it is agreed
    const difference = () => [{ text: 'exp(' }, ...wrap(a, 1), { text: ' − ' }, ...wrap(b, 2, true), { text: ')' }];
    switch (name) {
      case 'exp': return { ...atom(evaluate(() => Math.exp(a.value)), [{ text: 'exp(' }, ...a.pieces, { text: ')' }], tree), agreed: a.agreed };
      case 'log': return { ...atom(evaluate(() => Math.log(a.value)), [{ text: 'ln(' }, ...a.pieces, { text: ')' }], tree), agreed: a.agreed };
      case 'rescale':
        if (b.value === -Infinity) this.notes.push('The row has seen no key yet: its maximum is still −∞, so α is 1 by definition and nothing is rescaled.');
        return { ...atom(evaluate(() => (b.value === -Infinity ? 1 : Math.exp(a.value - b.value))), difference(), tree), agreed: nothing };
      case 'weight':
        if (a.value === -Infinity) this.notes.push('What stands at −∞ weighs nothing: its weight is 0 by definition.');
        return { ...atom(evaluate(() => (a.value === -Infinity ? 0 : Math.exp(a.value - b.value))), difference(), tree), agreed: nothing };
      case 'ratio':
        if (b.value === 0) this.notes.push('The row has seen no key: l is 0, so the answer is 0 by definition.');
        return { ...atom(evaluate(() => (b.value === 0 ? 0 : a.value / b.value)), [...wrap(a, 2), { text: ' ÷ ' }, ...wrap(b, 3)], tree), rank: 2, agreed: (a.value === 0 && b.value === 0) || a.agreed || b.agreed };
      case 'lse':
        if (b.value === 0) this.notes.push('The row has seen no key: l is 0, so lse is −∞ by definition.');
        return { ...atom(evaluate(() => (b.value === 0 ? -Infinity : a.value + Math.log(b.value))), [...wrap(a, 1), { text: ' + ln(' }, ...b.pieces, { text: ')' }], tree), rank: 1 };
      default: return atom(null, [{ text: `${name}(…)` }], tree);
    }
  }

  /** What a formula calls a name: the slot's symbol as it stood at that time, and `_old` where both its values are in play. */
  nameOf(node, when) {
    if (node.kind === 'array') return [{ text: node.name, node: node.id }];
    return slotSymbol(this.labelOf(node, when), this.bothInPlay(node, when), node.id);
  }

  /** The same where an index follows: the slot's own name, "Kj[1]", because K[1] would be the array's row in HBM. */
  fullName(node, when) {
    if (node.kind === 'array') return this.nameOf(node, when);
    return [{ text: this.labelOf(node, when) + (this.bothInPlay(node, when) ? '_old' : ''), node: node.id }];
  }

  labelOf(node, when) {
    return this.extent(node, when).state?.label ?? node.name;
  }

  bothInPlay(node, when) {
    return when === 'old' && this.rewrites(node);
  }

  /** Does this step write the slot, and under the name it had before? */
  rewrites(node) {
    const { trace } = this;
    const relabelled = trace.step(this.step).meta.relabel?.[node.name];
    const dst = trace.columns['events.dst'];
    const [from, to] = trace.eventRange(this.step);
    for (let e = from; e < to; e++) if (dst[e] === node.id) return relabelled === undefined || this.labelOf(node, 'old') === relabelled;
    return false;
  }
}

function scaleOf(trace) {
  const { scale, head_dim: d } = trace.meta.problem;
  return Math.fround(typeof scale === 'number' ? scale : 1 / Math.sqrt(d));
}
