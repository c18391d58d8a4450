// Numbers, labels and captions, character for character as trace/words.py writes them.
//
//   number(x, digits = 4) -> string    whole numbers plain, others fixed, extremes "1.235e7"; "−∞", "∞", "NaN", U+2212 for minus
//   cellNumber(x) -> string            at most six characters for ordinary numbers, to fit a cell; "0.00" is small, "0" is zero
//   label(trace, t), caption(trace, t) -> string;  path(trace, t) -> string[]  [launch, block, loops…], empty for the start
//   captionParts(trace, t) -> [{text, number: boolean}]     the caption, its numbers apart
//   placedCaption(trace, order, t) -> the same, and where several blocks advance together, first of all whose step it is
//   blockName(trace, launch, block), loopName(name, index), tileName(trace, t, arrayName)
//   arrayShape(array) -> "8 × 4"

/** @typedef {import('./trace.js').Trace} Trace */

const MINUS = '\u2212'; // as wide as a plus
const LARGE = 1e6;
/** Whole numbers up to here are exact in float32. */
const EXACT = 2 ** 24;
const FIELD = /\{([^{}]+)\}/g;

/** A number as people read it. @param {number} x */
export function number(x, digits = 4) {
  if (Number.isNaN(x)) return 'NaN';
  const sign = x < 0 ? MINUS : '', size = Math.abs(x);
  if (size === Infinity) return `${sign}∞`;
  if (size <= EXACT && Number.isInteger(size)) return sign + String(size);
  if (size >= LARGE || size < 0.5 * Number(`1e-${digits}`)) return sign + scientific(size, 3);
  return sign + size.toFixed(digits);
}

/** The short form for a cell: the exact number is a hover away. @param {number} x */
export function cellNumber(x) {
  const size = Math.abs(x), sign = x < 0 ? MINUS : '';
  if (!Number.isFinite(x) || (Number.isInteger(x) && size < 1e4)) return number(x);
  if (size >= 9999.5) return sign + scientific(size, 1);
  return sign + size.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

function scientific(size, digits) {
  return size.toExponential(digits).replace('e+', 'e').replace('e-', `e${MINUS}`);
}

/** The label of step t in the step list: "load K0, V0". @param {Trace} trace */
export function label(trace, t) {
  return fill(trace, t, trace.step(t).meta.label, []).map((part) => part.text).join('');
}

/** The sentence of step t, with this step's numbers. @param {Trace} trace */
export function caption(trace, t) {
  return captionParts(trace, t).map((part) => part.text).join('');
}

/**
 * The sentence of step t in pieces, said of its block where several advance together: "Block 2 · Row 0 sees …".
 * @param {Trace} trace @param {{name: string}} order @returns {{text: string, number: boolean}[]}
 */
export function placedCaption(trace, order, t) {
  const parts = captionParts(trace, t);
  const { launch, block } = trace.step(t);
  if (order.name !== 'together' || launch < 0 || trace.launches[launch].blocks < 2) return parts;
  if (/^Block \d/.test(parts.map((part) => part.text).join(''))) return parts; // it says so itself
  return [{ text: `Block ${block} · `, number: false }, ...parts];
}

/** The sentence of step t in pieces. @param {Trace} trace @returns {{text: string, number: boolean}[]} */
export function captionParts(trace, t) {
  const [from, to] = trace.argRange(t);
  const template = trace.meta.captions[trace.columns['steps.caption'][t]];
  return fill(trace, t, template, trace.columns.args.subarray(from, to));
}

/** Where step t stands: launch, block, loops. Empty for the start. @param {Trace} trace @returns {string[]} */
export function path(trace, t) {
  const { meta, launch, block, loops } = trace.step(t);
  if (launch < 0) return [];
  const turns = loops.map((index, depth) => loopName(meta.loops[depth], index));
  return [trace.launches[launch].title, blockName(trace, launch, block), ...turns];
}

/** A block and its place: "block 1 · split = 1". @param {Trace} trace */
export function blockName(trace, launch, block) {
  const axes = trace.axes(launch, block);
  const wide = axes.filter(({ size }) => size > 1);
  const place = (wide.length ? wide : axes.slice(0, 1)).map(({ axis, index }) => `${axis} = ${index}`);
  return `block ${block} · ${place.join(', ')}`;
}

/** A turn of a loop: "j = 1"; a heading ("#first sweep") stands alone. */
export function loopName(name, index) {
  return name.startsWith('#') ? name.slice(1) : `${name} = ${index}`;
}

/** "8 × 4", or "8" for a vector. */
function arrayShape(array) {
  return array.vector ? `${array.rows}` : `${array.rows} × ${array.cols}`;
}

function fill(trace, t, template, args) {
  const parts = [];
  let end = 0;
  for (const match of template.matchAll(FIELD)) {
    if (match.index > end) parts.push({ text: template.slice(end, match.index), number: false });
    const digits = /^\d+$/.test(match[1]);
    const known = digits ? Number(match[1]) < args.length : true;
    const text = digits ? (known ? number(args[Number(match[1])]) : match[0]) : field(trace, t, match[1]) ?? match[0];
    parts.push({ text, number: digits && known });
    end = match.index + match[0].length;
  }
  if (end < template.length) parts.push({ text: template.slice(end), number: false });
  return parts;
}

/** What a named field stands for at step t; null when it names nothing. */
function field(trace, t, name) {
  const { meta, launch, block, loops } = trace.step(t);
  const loop = meta.loops.indexOf(name);
  if (loop >= 0) return String(loops[loop]);
  if (name === 'block') return String(block);
  if (name.startsWith('block.') && launch >= 0) {
    const axis = trace.axes(launch, block).find((one) => one.axis === name.slice(6));
    return axis ? String(axis.index) : null;
  }
  return tileName(trace, t, name);
}

/** The tile of an array that step t first touches: "2", "01" of a matrix of tiles, "1,12" beyond nine. */
export function tileName(trace, t, arrayName) {
  const array = trace.arrays.find((one) => one.name === arrayName);
  if (!array) return null;
  const { columns } = trace;
  const [from, to] = trace.eventRange(t);
  for (let e = from; e < to; e++) {
    const touches = columns['events.src'][e] === array.id || columns['events.dst'][e] === array.id;
    if (!touches || !columns['events.tiles'][e]) continue;
    const { rowTile, colTile } = trace.box(array, columns['events.tile'][e]);
    if (array.colTiles === 1 && array.space === 'hbm') return String(rowTile);
    return rowTile < 10 && colTile < 10 ? `${rowTile}${colTile}` : `${rowTile},${colTile}`;
  }
  return null;
}
