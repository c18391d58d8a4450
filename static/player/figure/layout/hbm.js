// The arrays of HBM as blocks of boxes, with a window of tiles where there are too many.

import { clamp, textWidth, total } from './measures.js';
import { flow, stack } from './shelves.js';

/** A bar that counts tiles beyond the frame, in units of the frame. */
const BAR = 17;

/** Height of a cell of an array: tiles of one row, such as partials, stay high enough to see. */
export function cellHeight(node, unit, m) {
  const rows = node.rowEdges[1] ?? 1;
  const few = node.rowTiles <= (unit.fill ? 16 : 10);
  return unit.mode === 'image' && few ? Math.max(unit.uy, ((unit.fill ? 9.5 : 7) * m.k) / rows) : unit.uy;
}

/** What stands between the tiles of an array. */
function gapBetween(unit, least, m) {
  return unit.mode === 'numbers' ? 7 * m.k : clamp(least * 0.15, 1, 5 * m.k);
}

/** Rows of an array in a window of its tiles, from edge to edge of `edges`. */
const span = (edges, [first, end]) => edges[end] - edges[first];

/** The smallest tile of a window along one axis: only the last may be smaller than the first. */
const smallest = (edges, [first, end]) => (end > first ? Math.min(edges[first + 1] - edges[first], edges[end] - edges[end - 1]) : Infinity);

/**
 * How wide and high an array stands, and what that is made of: enough to choose a unit by, without a box for each tile.
 * window: {rows: [first, end], cols: [first, end]} in tiles.
 */
function measureArray({ node, split, shape }, unit, window, m) {
  const { rows, cols } = window;
  const ux = node.cols === 1 ? Math.max(unit.ux, unit.mode === 'numbers' ? 0 : 9 * m.k) : unit.ux;
  const uy = cellHeight(node, unit, m);
  const [down, across] = [rows[1] - rows[0], cols[1] - cols[0]];
  const least = Math.min(smallest(node.rowEdges, rows) * uy, across > 1 ? smallest(node.colEdges, cols) * ux : Infinity, 1e9);
  const gap = gapBetween(unit, least, m);

  const labelled = node.rowTiles > 1 || node.colTiles > 1;
  const longest = `${node.name.length > 2 ? '' : node.name}${Math.max(0, node.rowTiles - 1)}`;
  const left = labelled ? textWidth(longest, m.font.small) + 6 * m.k : 0;
  // On the right the brackets of the splits and their numbers, beyond the sheets of further planes; those alone fit between neighbours.
  const sheets = node.planes > 1 ? 6 * m.k : 0;
  const right = split ? sheets + 9.5 * m.k + Math.max(m.font.small, textWidth(`${split - 1}`, m.font.small)) : 0;
  // A frame of some tiles keeps room for both bars, so that its tiles stand still when it turns to others.
  const above = down < node.rowTiles ? BAR * m.k + gap : 0;
  const before = across < node.colTiles ? BAR * m.k + gap : 0;
  const header = m.title + (node.planes > 1 ? m.note : 0) + (node.colTiles > 1 ? m.note : 0);

  const wide = span(node.colEdges, cols) * ux;
  const counted = above ? textWidth(`+${node.rowTiles - down}`, 1.2 * m.font.small) : 0; // in the bars; a plus is wide
  const inner = Math.max(wide + gap * Math.max(0, across - 1), 26 * m.k, counted);
  const tall = Math.max(span(node.rowEdges, rows) * uy + gap * Math.max(0, down - 1), 14 * m.k);
  const body = inner + 2 * before;
  // The shape goes with the name where there is room for it.
  const long = textWidth(`${node.name} ${shape}`, m.font.title, true);
  const title = long > left + body + right + 14 * m.k ? node.name : `${node.name} ${shape}`;
  const titled = textWidth(title, m.font.title, true);
  // The name stands centred over the tiles; what it lacks in room is added on its side.
  const leftHalf = Math.max(left + body / 2, titled / 2);
  const rightHalf = Math.max(body / 2 + right, titled / 2);
  const vector = node.cols === 1 ? (inner - wide) / 2 : 0;
  return {
    node, window, title, ux, uy, gap, labelled, header, above, before, inner, tall, vector, leftHalf,
    x0: leftHalf - inner / 2,
    bracket: sheets + 4 * m.k,
    headroom: 2 * Math.min(leftHalf, rightHalf), // a line this wide, centred under the name, stays within w
    w: leftHalf + rightHalf,
    h: header + 2 * above + tall,
  };
}

/**
 * An array as a block of boxes whose corner is 0, 0; window as measureArray.
 * Boxes: tiles {rt, ct, x, y, w, h}, more {x, y, w, h, count, side}.
 */
function arrayBlock(entry, unit, window, m) {
  const measured = measureArray(entry, unit, window, m);
  const { node, title, ux, uy, gap, labelled, header, above, before, inner, tall, vector, x0, bracket, headroom, leftHalf, w, h } = measured;
  const [[r0, r1], [c0, c1]] = [window.rows, window.cols];
  const top = header + above;
  const tiles = [];
  let y = top;
  for (let rt = r0; rt < r1; rt++) {
    const tileHeight = (node.rowEdges[rt + 1] - node.rowEdges[rt]) * uy;
    let x = x0 + vector;
    for (let ct = c0; ct < c1; ct++) {
      const tileWidth = (node.colEdges[ct + 1] - node.colEdges[ct]) * ux;
      tiles.push({ rt, ct, x, y, w: tileWidth, h: tileHeight });
      x += tileWidth + gap;
    }
    y += tileHeight + gap;
  }
  const more = [];
  const bar = BAR * m.k;
  if (r0 > 0) more.push({ side: 'above', count: r0, x: x0, y: header, w: inner, h: bar });
  if (r1 < node.rowTiles) more.push({ side: 'below', count: node.rowTiles - r1, x: x0, y: top + tall + gap, w: inner, h: bar });
  if (c0 > 0) more.push({ side: 'left', count: c0, x: x0 - before, y: top, w: bar, h: tall });
  if (c1 < node.colTiles) more.push({ side: 'right', count: node.colTiles - c1, x: x0 + inner + gap, y: top, w: bar, h: tall });
  return {
    entry, title, ux, uy, mode: unit.mode, gap, tiles, more, labelled, bracket, headroom, w, h,
    body: { x: x0, y: top, w: inner, h: tall },
    heading: { x: leftHalf, y: m.title * 0.68 },
    // Where labels of rows end and labels of columns stand: outside the bars that count tiles beyond the frame.
    labels: { x: x0 - before - 4 * m.k, y: header - 4 * m.k },
  };
}

function whole(node) {
  return { rows: [0, node.rowTiles], cols: [0, node.colTiles] };
}

/** How many rows of tiles of each array are shown: n, or with `unit.fill` as many as stand no taller than the tallest array's n. */
function rowsShown(entries, unit, n, m) {
  if (!unit.fill) return entries.map(() => n);
  const tile = ({ node }) => (node.rowEdges[1] ?? 0) * cellHeight(node, unit, m);
  const pitch = (entry) => tile(entry) + gapBetween(unit, tile(entry), m);
  const bars = 40 * m.k; // those that count what is beyond the frame
  const tallest = Math.max(0, ...entries.map((entry) => Math.min(n, entry.node.rowTiles) * pitch(entry) + (entry.node.rowTiles > n ? bars : 0)));
  return entries.map((entry) => {
    const { rowTiles } = entry.node;
    if (rowTiles * pitch(entry) <= tallest) return Math.max(n, rowTiles);
    return Math.max(n, Math.floor((tallest - bars) / pitch(entry)));
  });
}

/** The tiles around a focus, n rows and m columns of them: whole pages, so that the frame stands still while a block walks through it. */
function windowOf(node, focus, rows, cols) {
  const range = (count, at, n) => {
    if (count <= n) return [0, count];
    const first = Math.min(Math.floor(clamp(at, 0, count - 1) / n) * n, count - n);
    return [first, first + n];
  };
  return { rows: range(node.rowTiles, focus?.rt ?? 0, rows), cols: range(node.colTiles, focus?.ct ?? 0, cols) };
}

/** What each array shows: a window of n tiles, as rowsShown has it; null: all of it. */
function windows(entries, unit, n, m) {
  if (n === null) return entries.map(({ node }) => whole(node));
  const rows = rowsShown(entries, unit, n, m);
  return entries.map(({ node, focus }, index) => windowOf(node, focus, rows[index], n));
}

/** Every array as a block of boxes, as arrayBlock gives it. */
export function hbmBlocks(entries, unit, n, m) {
  const shown = windows(entries, unit, n, m);
  return entries.map((entry, index) => arrayBlock(entry, unit, shown[index], m));
}

export function cellCount(entries, n, unit, m) {
  let cells = 0;
  const shown = n === null ? [] : rowsShown(entries, unit, n, m);
  for (const [index, { node }] of entries.entries()) {
    const rows = n === null || node.rowTiles <= shown[index] ? node.rows : shown[index] * (node.rowEdges[1] ?? 0);
    const cols = n === null || node.colTiles <= n ? node.cols : n * (node.colEdges[1] ?? 0);
    cells += rows * cols;
  }
  return cells;
}

export function tileCount(entries, n, unit, m) {
  const rows = n === null ? [] : rowsShown(entries, unit, n, m);
  return total(entries.map(({ node }, index) => Math.min(node.rowTiles, rows[index] ?? Infinity) * Math.min(node.colTiles, n ?? Infinity)));
}

/** The arrays on shelves, as they come or with low ones stacked, whichever stands less tall. */
export function hbmFlow(blocks, width, m) {
  const plain = flow(blocks, width - 2 * m.pad, m.gap, 8 * m.k);
  const stacked = flow(stack(blocks, 6 * m.k), width - 2 * m.pad, m.gap, 8 * m.k);
  if (!plain || !stacked) return plain ?? stacked;
  return stacked.h < plain.h - 1 ? stacked : plain;
}

export function hbmHeight(entries, unit, n, width, m) {
  const shown = windows(entries, unit, n, m);
  const flowed = hbmFlow(entries.map((entry, index) => measureArray(entry, unit, shown[index], m)), width, m);
  return flowed ? m.heading + flowed.h + m.pad : Infinity;
}
