// The arrays of HBM as blocks of boxes, with a window of tiles where there are too many.

import { clamp, textWidth, total } from './measures.js';
import { flow, stack } from './shelves.js';

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

/**
 * An array as a block of boxes whose corner is 0, 0.
 * window: {rows: [first, end], cols: [first, end]} in tiles. Boxes: tiles {rt, ct, x, y, w, h}, more {x, y, w, h, count, side}.
 */
function measureArray(entry, unit, window, m) {
  const { node, split } = entry;
  const [r0, r1] = window.rows;
  const [c0, c1] = window.cols;
  const ux = node.cols === 1 ? Math.max(unit.ux, unit.mode === 'numbers' ? 0 : 9 * m.k) : unit.ux;
  const uy = cellHeight(node, unit, m);
  const rowHeights = [];
  for (let rt = r0; rt < r1; rt++) rowHeights.push((node.rowEdges[rt + 1] - node.rowEdges[rt]) * uy);
  const colWidths = [];
  for (let ct = c0; ct < c1; ct++) colWidths.push((node.colEdges[ct + 1] - node.colEdges[ct]) * ux);
  const least = Math.min(...rowHeights, ...(colWidths.length > 1 ? colWidths : []), 1e9);
  const gap = gapBetween(unit, least, m);

  const labelled = node.rowTiles > 1 || node.colTiles > 1;
  const longest = `${node.name.length > 2 ? '' : node.name}${Math.max(0, node.rowTiles - 1)}`;
  const left = labelled ? textWidth(longest, m.font.small) + 6 * m.k : 0;
  const right = split ? 16 * m.k : 0;
  const bar = 17 * m.k;
  // A frame of some tiles keeps room for both bars, so that its tiles stand still when it turns to others.
  const above = r1 - r0 < node.rowTiles ? bar + gap : 0;
  const before = c1 - c0 < node.colTiles ? bar + gap : 0;
  const [below, after] = [above, before];
  const header = m.title + (node.planes > 1 ? m.note : 0) + (node.colTiles > 1 ? m.note : 0);

  const inner = Math.max(total(colWidths) + gap * Math.max(0, colWidths.length - 1), 26 * m.k);
  const tall = Math.max(total(rowHeights) + gap * Math.max(0, rowHeights.length - 1), 14 * m.k);
  const body = before + inner + after;
  // The shape goes with the name where there is room for it.
  const long = textWidth(`${node.name} ${entry.shape}`, m.font.title, true);
  const title = long > left + body + right + 14 * m.k ? node.name : `${node.name} ${entry.shape}`;
  const titled = textWidth(title, m.font.title, true);
  // The name stands centred over the tiles; what it lacks in room is added on its side.
  const leftHalf = Math.max(left + body / 2, titled / 2);
  const rightHalf = Math.max(body / 2 + right, titled / 2);
  const w = leftHalf + rightHalf;
  const x0 = leftHalf - body / 2 + before;
  const vector = node.cols === 1 ? (inner - total(colWidths)) / 2 : 0;

  const tiles = [];
  let y = header + above;
  for (let i = 0; i < rowHeights.length; i++) {
    let x = x0 + vector;
    for (let j = 0; j < colWidths.length; j++) {
      tiles.push({ rt: r0 + i, ct: c0 + j, x, y, w: colWidths[j], h: rowHeights[i] });
      x += colWidths[j] + gap;
    }
    y += rowHeights[i] + gap;
  }
  const more = [];
  const top = header + above;
  if (r0 > 0) more.push({ side: 'above', count: r0, x: x0, y: header, w: inner, h: bar });
  if (r1 < node.rowTiles) more.push({ side: 'below', count: node.rowTiles - r1, x: x0, y: top + tall + gap, w: inner, h: bar });
  if (c0 > 0) more.push({ side: 'left', count: c0, x: x0 - before, y: top, w: bar, h: tall });
  if (c1 < node.colTiles) more.push({ side: 'right', count: node.colTiles - c1, x: x0 + inner + gap, y: top, w: bar, h: tall });
  return {
    entry,
    title,
    ux,
    uy,
    mode: unit.mode,
    gap,
    tiles,
    more,
    labelled,
    body: { x: x0, y: top, w: inner, h: tall },
    heading: { x: leftHalf, y: m.title * 0.68 },
    // Where labels of rows end and labels of columns stand: outside the bars that count tiles beyond the frame.
    labels: { x: x0 - before - 4 * m.k, y: header - 4 * m.k },
    w,
    h: header + above + tall + below,
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

export function hbmBlocks(entries, unit, n, m) {
  const rows = n === null ? [] : rowsShown(entries, unit, n, m);
  return entries.map((entry, index) =>
    measureArray(entry, unit, n === null ? whole(entry.node) : windowOf(entry.node, entry.focus, rows[index], n), m),
  );
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
  const flowed = hbmFlow(hbmBlocks(entries, unit, n, m), width, m);
  return flowed ? m.heading + flowed.h + m.pad : Infinity;
}
