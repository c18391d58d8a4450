// One hue a quantity, the same in every panel: the tile of K in HBM and the slot Kj wear one colour.

/** Field's names to hues; longer names first, because 'lse' and 'l' share a letter. */
const HUES = [
  ['key_mask', 'x'],
  ['mask', 'x'],
  ['alpha', 'alpha'],
  ['lse', 'l'],
  ['q', 'q'],
  ['k', 'k'],
  ['v', 'v'],
  ['s', 's'],
  ['p', 's'],
  ['y', 's'],
  ['m', 'm'],
  ['l', 'l'],
  ['o', 'o'],
];

/** How many split colours there are; later splits use them again. */
export const SPLIT_HUES = 6;

/** The hue class of an array or slot by its name: 'Kj' -> 'k', 'lse' -> 'l'; 'x' where the name says nothing. */
export function hueOf(name) {
  const lower = name.toLowerCase();
  const found = HUES.find(([start]) => lower.startsWith(start));
  return found ? found[1] : 'x';
}

/** The hue class of a split: 'split-0' ... */
export function splitHue(split) {
  return `split-${split % SPLIT_HUES}`;
}

/** How strong a cell is tinted: 0 (zero) to 1 (`scale` or more). NaN and infinities have looks of their own. */
export function intensity(x, scale) {
  if (!(scale > 0)) return 0;
  const t = Math.abs(x) / scale;
  return t >= 1 ? 1 : t;
}

/** The strongest tint of a cell under a number, so that text keeps its contrast. */
export const TINT = 0.55;

/** 'nan', 'inf' (+inf), 'ninf' (-inf) or '' for an ordinary number. */
export function special(x) {
  if (x !== x) return 'nan';
  if (x === Infinity) return 'inf';
  if (x === -Infinity) return 'ninf';
  return '';
}
