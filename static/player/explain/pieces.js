// How formulas are written: numbers in place of names, parentheses where they are due, long sums over several lines.

import { number } from '../words.js';

/** @typedef {import('../explain.js').Piece} Piece */
/** @typedef {import('../explain.js').Line} Line */

/**
 * A value on its way into the explanation.
 * @typedef {object} Item
 * @property {number|null} value
 * @property {Piece[]} pieces    how it is written, numbers in place of names
 * @property {number} rank       3 an atom, 2 a product, 1 a sum: what needs parentheses
 * @property {any[]} tree        for `substituted`
 * @property {{terms: Item[], join: string, short: boolean}} [expand]   the numbers it was made of, while nothing shows them yet
 * @property {Piece[]} [title]   its name, for the 'part' line
 * @property {boolean} [agreed]  what is written comes to no number (0 ÷ 0, −∞ − −∞): the value is by definition
 */

/** Products of a dot that are shown within the formula; more are listed below it. */
export const INLINE = 4;
/** Numbers of a sum or maximum that share one line. */
export const A_LINE = 8;

export const BY_DEFINITION = ' by definition'; // 0 ÷ 0 is no number: where the kernel gives one, the line says that it was agreed

export const SIGNS = { '+': ' + ', '-': ' − ', '*': ' × ', '/': ' ÷ ' };

export const atom = (value, pieces, tree) => ({ value, pieces, rank: 3, tree });
export const valueText = (value) => (value === null ? '?' : number(value));

/** Parentheses where the sign around binds tighter; and around a negative number after a minus. */
export function wrap(item, rank, afterMinus = false) {
  const negative = afterMinus && item.value !== null && item.rank === 3 && (item.value < 0 || Object.is(item.value, -0));
  return item.rank < rank || negative ? [{ text: '(' }, ...item.pieces, { text: ')' }] : item.pieces;
}

export function joined(items, join) {
  return items.flatMap((item, n) => (n ? [{ text: join }, ...item.pieces] : item.pieces));
}

/** Lines for a sum, dot or maximum of many numbers. */
export function spell(title, { terms, join }, value, isPart) {
  const open = join === ', ' ? 'max(' : '', close = join === ', ' ? ')' : '';
  const products = terms.some((term) => term.rank < 3);
  const role = isPart ? 'part' : 'substituted';
  const end = isPart ? [{ text: ` = ${valueText(value)}${terms.some((term) => term.agreed) ? BY_DEFINITION : ''}` }] : [];
  if (terms.length <= (products ? INLINE : A_LINE)) {
    return [{ role, pieces: [...title, { text: `${isPart ? ' ' : ''}= ${open}` }, ...joined(terms, join), { text: close }, ...end] }];
  }
  const what = `${terms.length} ${products ? 'products' : 'numbers'}`;
  const head = { role, pieces: [...title, { text: `${isPart ? ' ' : ''}= ${close ? `the largest of ${what}` : `the sum of ${what}`}` }, ...end] };
  const lines = [head];
  if (products) {
    for (const term of terms) lines.push({ role: 'term', pieces: [...term.pieces, { text: ` = ${valueText(term.value)}${term.agreed ? BY_DEFINITION : ''}` }] });
  } else {
    for (let n = 0; n < terms.length; n += A_LINE) {
      const more = n + A_LINE < terms.length;
      lines.push({ role: 'term', pieces: [...joined(terms.slice(n, n + A_LINE), join), { text: more ? join.trimEnd() : '' }] });
    }
  }
  return lines;
}
