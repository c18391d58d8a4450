// Formulas in names: "l = α · l_old + sum(P)".

import { number } from '../words.js';
import { joined, SIGNS, wrap } from './pieces.js';

/** @typedef {import('../explain.js').Piece} Piece */

/** The formula with names in place of numbers. Indices that are the cell's own are left out. */
export function symbol(scope, formula) {
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
  const at = (index) => (index === 'r' ? scope.row : index === 'c' ? scope.col : index);
  const narrow = col === 0 && node.cols === 1;
  const own = narrow ? row === 'r' || row === ':' || node.rows === 1 : row === 'r' && (col === 'c' || col === ':');
  if (own) return scope.nameOf(node, when);
  const text = col === ':' || narrow ? `[${at(row)}]` : `[${at(row)}, ${at(col)}]`;
  return [...scope.fullName(node, when), { text, node: node.id }];
}

const GREEK = { alpha: 'α', beta: 'β', gamma: 'γ' };

/** "mi" is written m, "Sij" S: the tile's indices are the cell's own. Never before an index: K[1] is a row of the array in HBM. */
export function symbolOf(name) {
  return GREEK[name] ?? name.replace(/^([A-Za-z]|lse)(ij|i|j)$/, '$1');
}

export function slotSymbol(label, old = false, node = undefined) {
  return [{ text: symbolOf(label) + (old ? '_old' : ''), node }];
}
