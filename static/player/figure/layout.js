// Where everything stands: pure geometry, from shapes and a size to boxes. Knows no step and no number.
//
// One unit of the figure is the cell: ux wide, uy high, the same for every array of a panel, so that tiles stand in
// proportion. The layout tries units from large to small and keeps the first that fits: numbers while they are legible,
// then a heat map of every tile, then a heat map (or numbers) of a window of tiles with the rest as a count.

/** Cells that show a number, in the whole figure: two nodes each, so that it stays near 2,000 nodes at most. */
const MAX_NUMBER_CELLS = 720;
/** Tiles drawn, in the whole figure. */
const MAX_TILES = 220;
/** The narrowest cell that still shows a number such as −0.54 at 10 px. */
const MIN_NUMBER_WIDTH = 30;
/** Below this width the figure may be as tall as it likes: the page scrolls. */
export const FREE_BELOW = 600;
/** More blocks than this are drawn as bins. */
const MAX_SQUARES = 64;
const BINS = 48;

const NUMBER_WIDTHS = [72, 66, 60, 56, 52, 48, 45, 42, 40, 38, 36, 34, 33, 32, 31, MIN_NUMBER_WIDTH];
const NUMBER_RATIOS = [0.61, 0.57, 0.53, 0.49, 0.46, 0.43];
/** The lowest cell that still shows a number. */
const MIN_NUMBER_HEIGHT = 13.8;
const HEAT_WIDTHS = [30, 26, 22, 18, 15, 12, 10, 8, 6.5, 5, 4, 3.2, 2.5, 2, 1.6, 1.25, 1, 0.8, 0.6, 0.45, 0.3, 0.2];
const HEAT_RATIOS = [1, 0.75, 0.5, 0.35, 0.25, 0.15];
const WINDOWS = [12, 8, 6, 5, 4, 3, 2, 1];

const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
const total = (numbers) => numbers.reduce((sum, x) => sum + x, 0);

/** Width of a text in px, near enough to place things: the browser is not asked. */
export function textWidth(text, size, bold = false) {
  return text.length * size * (bold ? 0.66 : 0.57);
}

/** Units of one cell width, from roomy to flat. */
function numberUnits(ux) {
  return NUMBER_RATIOS.map((ratio) => ({ ux, uy: ux * ratio, mode: 'numbers' })).filter((unit) => unit.uy >= MIN_NUMBER_HEIGHT);
}

/** Sizes that grow with the frame, so that 1920×1080 is 1366×768 seen from nearer. */
export function measures(width, height) {
  const free = height === null || width < FREE_BELOW;
  const k = free ? 1 : clamp(Math.min(width / 800, height / 560), 0.82, 1.7);
  const type = Math.max(k, 0.98); // room may shrink a little; words must not
  return {
    k,
    free,
    pad: 10 * k, // inside panels
    heading: 25 * k, // a panel's title line
    title: 18 * type, // an array's name
    note: 13.5 * type, // the line under a slot's name
    ring: 5 * k, // around a slot
    gap: 11 * k, // between neighbours, at least
    between: 8 * k, // between panels
    font: { heading: 13.5 * type, title: 12.5 * type, text: 11.5 * type, small: 10.3 * type },
  };
}

/** Height of a cell of an array: tiles of one row, such as partials, stay high enough to see. */
function cellHeight(node, unit, m) {
  const rows = node.rowEdges[1] ?? 1;
  const few = node.rowTiles * 9 * m.k <= 90 * m.k;
  return unit.mode === 'image' && few ? Math.max(unit.uy, (7 * m.k) / rows) : unit.uy;
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
  const gap = unit.mode === 'numbers' ? 7 * m.k : clamp(least * 0.15, 1, 5 * m.k);

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

/** Is the old value of a slot worth showing beside the new? alpha is made anew for each tile: nothing of it is carried. */
export function carries(slot) {
  return slot.carry && !(slot.space === 'register' && slot.lifetime === 'tile');
}

/** A slot: its tile, room for the old values of a carry on its left, its name below. Corner at 0, 0. */
function measureSlot(slot, unit, ghosts, m) {
  const ux = slot.cols === 1 ? Math.max(unit.ux, unit.mode === 'numbers' ? 0 : 10 * m.k) : unit.ux;
  const uy = slot.rows === 1 ? Math.max(unit.uy, unit.mode === 'numbers' ? 0 : 10 * m.k) : unit.uy;
  const w = slot.cols * ux;
  const h = slot.rows * uy;
  const ghost = carries(slot) && (ghosts === 'all' || (ghosts === 'vectors' && slot.cols === 1));
  const arrow = 20 * m.k;
  const lead = ghost ? w + arrow : 0;
  const named = textWidth(slot.name, m.font.title, true);
  const side = Math.max(m.ring, (named - w) / 2);
  return {
    slot,
    ux,
    uy,
    mode: unit.mode,
    ghost: ghost ? { x: m.ring, y: m.ring, w, h } : null,
    box: { x: (ghost ? m.ring : side) + lead, y: m.ring, w, h },
    w: (ghost ? m.ring : side) + lead + w + side,
    h: m.ring + h + m.ring + m.title + m.note,
  };
}

/**
 * Breaks blocks, in order, into shelves no wider than `width` so that they stand least tall; among equals, evenly filled
 * shelves, broken before a block that asks for it (`fresh`). Null: one is too wide.
 */
function flow(blocks, width, gap, rowGap) {
  const n = blocks.length;
  const best = [{ h: 0, cost: 0, from: -1 }];
  for (let i = 1; i <= n; i++) {
    let w = -gap;
    let h = 0;
    best[i] = { h: Infinity, cost: Infinity, from: -1 };
    for (let j = i - 1; j >= 0; j--) {
      w += blocks[j].w + gap;
      if (w > width + 0.01) break;
      h = Math.max(h, blocks[j].h);
      const sum = best[j].h + h + (j > 0 ? rowGap : 0);
      const slack = (1 - w / width) ** 2 * 6;
      const cost = best[j].cost + h + (j > 0 ? rowGap : 0) + slack - (j > 0 && blocks[j].fresh ? 6 : 0);
      if (cost < best[i].cost - 0.01) best[i] = { h: sum, cost, from: j };
    }
    if (best[i].h === Infinity) return null;
  }
  const shelves = [];
  for (let i = n; i > 0; i = best[i].from) shelves.unshift(blocks.slice(best[i].from, i));
  return { shelves, h: best[n].h };
}

/** Sets low neighbours one above the other while they stay under the tallest: a column of partials beside K and V. */
export function stack(blocks, gap) {
  const tallest = Math.max(0, ...blocks.map((block) => block.h));
  const out = [];
  for (const block of blocks) {
    const last = out.at(-1);
    if (last?.stack && block.h <= tallest / 2 && last.h + gap + block.h <= tallest) {
      last.stack.push({ block, y: last.h + gap });
      last.h += gap + block.h;
      last.w = Math.max(last.w, block.w);
    } else if (block.h <= tallest / 2) out.push({ stack: [{ block, y: 0 }], w: block.w, h: block.h });
    else out.push(block);
  }
  return out;
}

/** Puts the shelves of a flow at x, y: each block gets its corner. Neighbours share the room that is left. */
function place(flowed, x, y, width, gap, rowGap, m) {
  const placed = [];
  for (const shelf of flowed.shelves) {
    const used = total(shelf.map((block) => block.w));
    const between = shelf.length > 1 ? clamp((width - used) / (shelf.length - 1), gap, gap + 40 * m.k) : 0;
    let left = x + Math.max(0, (width - used - between * (shelf.length - 1)) / 2);
    const h = Math.max(...shelf.map((block) => block.h));
    for (const block of shelf) {
      if (block.stack) {
        for (const part of block.stack) placed.push({ block: part.block, x: left + (block.w - part.block.w) / 2, y: y + part.y });
      } else placed.push({ block, x: left, y });
      left += block.w + between;
    }
    y += h + rowGap;
  }
  return placed;
}

const shifted = (box, x, y) => ({ ...box, x: box.x + x, y: box.y + y });

function whole(node) {
  return { rows: [0, node.rowTiles], cols: [0, node.colTiles] };
}

/** The n tiles around a focus: whole pages, so that the frame stands still while a block walks through it. */
function windowOf(node, focus, n) {
  const range = (count, at) => {
    if (count <= n) return [0, count];
    const first = Math.min(Math.floor(clamp(at, 0, count - 1) / n) * n, count - n);
    return [first, first + n];
  };
  return { rows: range(node.rowTiles, focus?.rt ?? 0), cols: range(node.colTiles, focus?.ct ?? 0) };
}

function hbmBlocks(entries, unit, n, m) {
  return entries.map((entry) =>
    measureArray(entry, unit, n === null ? whole(entry.node) : windowOf(entry.node, entry.focus, n), m),
  );
}

function cellCount(entries, n) {
  let cells = 0;
  for (const { node } of entries) {
    const rows = n === null || node.rowTiles <= n ? node.rows : n * (node.rowEdges[1] ?? 0);
    const cols = n === null || node.colTiles <= n ? node.cols : n * (node.colEdges[1] ?? 0);
    cells += rows * cols;
  }
  return cells;
}

function tileCount(entries, n) {
  const shown = (count) => (n === null ? count : Math.min(n, count));
  return total(entries.map(({ node }) => shown(node.rowTiles) * shown(node.colTiles)));
}

/** The arrays on shelves, as they come or with low ones stacked, whichever stands less tall. */
function hbmFlow(blocks, width, m) {
  const plain = flow(blocks, width - 2 * m.pad, m.gap, 8 * m.k);
  const stacked = flow(stack(blocks, 6 * m.k), width - 2 * m.pad, m.gap, 8 * m.k);
  if (!plain || !stacked) return plain ?? stacked;
  return stacked.h < plain.h - 1 ? stacked : plain;
}

function hbmHeight(entries, unit, n, width, m) {
  const flowed = hbmFlow(hbmBlocks(entries, unit, n, m), width, m);
  return flowed ? m.heading + flowed.h + m.pad : Infinity;
}

/** How HBM is drawn in a given room: {unit, n} with n the tiles of the window, null for all of them. */
function fitHbm(entries, width, height, m, cells) {
  if (cellCount(entries, null) <= cells) {
    for (const unit of NUMBER_WIDTHS.flatMap(numberUnits)) {
      if (hbmHeight(entries, unit, null, width, m) <= height) return { unit, n: null };
    }
  }
  const matrices = entries.filter(({ node }) => node.cols > 1 && node.rowTiles > 0);
  let best = null;
  if (tileCount(entries, null) <= MAX_TILES) {
    for (const ux of HEAT_WIDTHS) {
      for (const ratio of HEAT_RATIOS) {
        const unit = { ux, uy: ux * ratio, mode: 'image' };
        const legible = matrices.every(
          ({ node }) => (node.rowTiles === 1 || node.rowEdges[1] * cellHeight(node, unit, m) >= 6 * m.k) && node.cols * ux >= 20 * m.k,
        );
        if (!legible) continue;
        const score = Math.sqrt(ux * unit.uy) * (ratio >= 0.5 ? 1 : 0.8);
        if (best && best.score >= score) continue;
        if (hbmHeight(entries, unit, null, width, m) <= height) best = { unit, n: null, score };
      }
    }
    if (best) return best;
  }
  const candidates = [
    ...[44, 38, 34, MIN_NUMBER_WIDTH].flatMap(numberUnits),
    ...HEAT_WIDTHS.flatMap((ux) => [1, 0.5].map((ratio) => ({ ux, uy: ux * ratio, mode: 'image' }))),
  ];
  for (const unit of candidates) {
    for (const n of WINDOWS) {
      if (tileCount(entries, n) > MAX_TILES) continue;
      if (unit.mode === 'numbers' && cellCount(entries, n) > cells) continue;
      const tile = matrices[0]?.node;
      const tall = tile ? Math.min(tile.rowEdges[1] * unit.uy, 40 * m.k) / m.k : 0;
      const wide = tile ? Math.min(tile.colEdges[1] * unit.ux, 70 * m.k) / m.k : 0;
      const score =
        unit.mode === 'numbers' ? (n > 1 ? 100 : 40) + Math.min(n, 3) * 10 + unit.ux / 10 : Math.min(n, 6) * 8 + tall / 2 + wide / 4;
      if (best && best.score >= score) continue;
      if (hbmHeight(entries, unit, n, width, m) <= height) best = { unit, n, score };
    }
  }
  return best ?? { unit: { ux: 0.2, uy: 0.1, mode: 'image' }, n: 1 };
}

/** The blocks of one SRAM panel: shared slots, then the registers as one framed group. */
function sramBlocks(slots, unit, ghosts, width, m) {
  const shared = slots.filter((slot) => slot.space === 'shared').map((slot) => measureSlot(slot, unit, ghosts, m));
  const registers = slots.filter((slot) => slot.space === 'register').map((slot) => measureSlot(slot, unit, ghosts, m));
  // A shelf of what is kept from tile to tile, under the tiles that pass.
  shared.forEach((block, n) => (block.fresh = n > 0 && carries(block.slot) && !carries(shared[n - 1].slot)));
  if (!registers.length) return shared;
  const inside = flow(registers, width - 2 * m.pad - 2 * m.pad, 8 * m.k, 4 * m.k);
  if (!inside) return null;
  const widths = inside.shelves.map((shelf) => total(shelf.map((block) => block.w)) + 8 * m.k * (shelf.length - 1));
  const caption = 15 * m.k;
  const group = {
    registers: inside,
    caption,
    w: Math.max(...widths, textWidth('registers', m.font.small)) + 16 * m.k,
    h: inside.h + caption + 4 * m.k,
  };
  return [...shared, group];
}

function sramHeight(slots, unit, ghosts, width, m) {
  const blocks = sramBlocks(slots, unit, ghosts, width, m);
  const flowed = blocks && flow(blocks, width - 2 * m.pad, 10 * m.k, 4 * m.k);
  return flowed ? m.heading + flowed.h + 6 * m.k : Infinity;
}

function slotCells(slots, ghosts) {
  return total(
    slots.map((slot) => slot.rows * slot.cols * (carries(slot) && (ghosts === 'all' || (ghosts && slot.cols === 1)) ? 2 : 1)),
  );
}

/** Units and old values in the order they are tried for numbers: with old values in any size, then without. */
function* numberChoices(withOld) {
  for (const choices of [withOld, ['']]) for (const ux of NUMBER_WIDTHS) for (const unit of numberUnits(ux)) for (const ghosts of choices) yield { unit, ghosts };
}

/** How the slots are drawn in a given room: {unit, ghosts}. */
function fitSram(slots, width, height, m, cells) {
  for (const { unit, ghosts } of numberChoices(m.free ? ['vectors'] : ['all', 'vectors'])) {
    if (unit.ux > 44 * m.k || slotCells(slots, ghosts) > cells) continue;
    if (sramHeight(slots, unit, ghosts, width, m) <= height) return { unit, ghosts };
  }
  let best = null;
  for (const ux of HEAT_WIDTHS) {
    for (const ratio of HEAT_RATIOS) {
      for (const ghosts of ['all', 'vectors', '']) {
        const unit = { ux, uy: ux * ratio, mode: 'image' };
        const score = Math.sqrt(ux * unit.uy) * (ratio >= 0.5 ? 1 : 0.8) * (ghosts ? 1 : 0.8);
        if (best && best.score >= score) continue;
        if (sramHeight(slots, unit, ghosts, width, m) <= Math.min(height, m.free ? 340 : Infinity)) best = { unit, ghosts, score };
      }
    }
  }
  return best ?? { unit: { ux: 0.3, uy: 0.2, mode: 'image' }, ghosts: '' };
}

/** Columns of SRAM panels side by side. */
function panelColumns(panels, width) {
  if (panels <= 1) return 1;
  return width < FREE_BELOW ? 1 : panels;
}

/**
 * The units for a frame: how large a cell of HBM is, the same in every launch, and of the slots of each launch.
 * Costly (some ms), so callers keep it: it depends on shapes and size only, never on the step.
 * slots: of each launch. Returns {hbm: {unit, n}, sram: {unit, ghosts}[]}; n is the tiles of a window, null for all.
 */
export function chooseUnits({ entries, slots, width, height, panels = 1, gridHeight }) {
  const m = measures(width, height);
  const columns = panelColumns(panels, width);
  const panelWidth = (width - m.between * (columns - 1)) / columns;
  const rows = Math.ceil(panels / columns);
  const frame = { entries, width, m, panels, panelWidth, rows, room: m.free ? Infinity : height - gridHeight - m.between * (1 + rows) };
  const each = slots.map((ofLaunch) => fitLaunch(frame, ofLaunch));
  if (!each.length) return { hbm: fitHbm(entries, width, m.free ? 460 : frame.room / 2, m, MAX_NUMBER_CELLS), sram: [] };
  // HBM stands still from launch to launch: it takes the smallest unit that one of them asks for.
  const size = ({ hbm }) => (hbm.unit.mode === 'numbers' ? 1e6 : 0) + (hbm.n === null ? 1e3 : 0) + hbm.unit.ux * hbm.unit.uy;
  const { hbm } = each.reduce((least, other) => (size(other) < size(least) ? other : least));
  if (m.free) return { hbm, sram: each.map(({ sram }) => sram) };
  const left = (frame.room - hbmHeight(entries, hbm.unit, hbm.n, width, m)) / rows;
  const cells = (MAX_NUMBER_CELLS - (hbm.unit.mode === 'numbers' ? cellCount(entries, hbm.n) : 0)) / panels;
  return { hbm, sram: slots.map((ofLaunch) => fitSram(ofLaunch, panelWidth, left, m, cells)) };
}

/** HBM and the slots of one launch, sharing a frame. */
function fitLaunch({ entries, width, m, panels, panelWidth, rows, room }, slots) {
  const cells = MAX_NUMBER_CELLS;
  const share = Math.floor((cells * 0.6) / panels);
  const used = (sram) => (sram.unit.mode === 'numbers' ? panels * slotCells(slots, sram.ghosts) : 0);
  if (m.free) {
    const sram = fitSram(slots, panelWidth, 620, m, share);
    return { hbm: fitHbm(entries, width, 460, m, cells - used(sram)), sram };
  }
  const all = cellCount(entries, null);
  for (const { unit, ghosts } of numberChoices(['all', 'vectors'])) {
    if (all + panels * slotCells(slots, ghosts) > cells) continue;
    const hbm = hbmHeight(entries, unit, null, width, m);
    if (hbm >= room) continue;
    if (hbm + rows * sramHeight(slots, unit, ghosts, panelWidth, m) <= room) return { hbm: { unit, n: null }, sram: { unit, ghosts } };
  }
  // They do not share a unit: the slots first, because there the arithmetic is read, then HBM in the rest.
  let sram = fitSram(slots, panelWidth, (room * 0.5) / rows, m, share);
  for (const part of [0.62, 0.72, 0.8]) {
    if (sram.unit.mode === 'numbers') break;
    const larger = fitSram(slots, panelWidth, (room * part) / rows, m, share);
    if (larger.unit.mode === 'numbers') sram = larger;
  }
  const height = rows * sramHeight(slots, sram.unit, sram.ghosts, panelWidth, m);
  return { hbm: fitHbm(entries, width, room - height, m, cells - used(sram)), sram };
}

/** How tall the row of the grids is: squares, a sentence, and room for the lines down to SRAM. */
export function gridHeight(width, height) {
  const m = measures(width, height);
  return (width < FREE_BELOW ? 112 : 64) * m.k;
}

/** Breaks a sentence into lines no wider than `width`. */
export function wrap(sentence, width, size) {
  const lines = [''];
  for (const word of sentence.split(' ')) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (textWidth(longer, size) > width && lines.at(-1)) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  return lines;
}

/**
 * Squares of the launches' grids, and the sentence that says what runs: beside the squares where it fits, else above them
 * (below would be under the lines to SRAM).
 * groups: [{launch, blocks, run: boolean, per: size of the first axis, title}]
 */
function layoutGrid(groups, sentence, box, m) {
  const laid = placeSquares(groups, box, m);
  const size = m.font.text;
  if (laid.end.y === box.y && textWidth(sentence, size) <= box.x + box.w - laid.end.x) {
    return { ...laid, sentence: { lines: [sentence], x: laid.end.x, y: laid.end.y + laid.side / 2 + size * 0.36 } };
  }
  const lines = wrap(sentence, box.w, size);
  const down = lines.length * size * 1.35 + 4 * m.k;
  return { ...placeSquares(groups, { ...box, y: box.y + down }, m), sentence: { lines, x: box.x, y: box.y + size * 0.9 } };
}

/** Squares, or for a launch that is not at work and does not fit, a chip with its name. */
function placeSquares(groups, box, m) {
  const side = 24 * m.k;
  const others = groups.filter((group) => !group.run);
  const chip = (group) => textWidth(group.title, m.font.small) + 22 * m.k;
  const label = (group) => textWidth(group.title, m.font.text, true) + 6 * m.k;
  const gap = 5 * m.k;
  const plain = (group) => label(group) + group.blocks * (side + gap) + 14 * m.k;
  const one = groups.find((group) => group.run);
  const small = others.every((group) => group.blocks <= 8) && others.reduce((sum, group) => sum + plain(group), plain(one)) <= box.w * 1.02;
  const beside = others.reduce((sum, group) => sum + (small ? plain(group) : chip(group) + 14 * m.k), 0);
  const laid = [];
  let { x, y } = box;
  const turn = (w) => {
    if (x > box.x && x + w > box.x + box.w) [x, y] = [box.x, y + side + 6 * m.k];
  };
  // One row where it fits; else the launch at work stands last, so that its lines to SRAM cross nothing.
  // (and where there is no height for a second row, alone: the sentence says which launch it is).
  const wraps = !small && label(one) + beside + Math.min(one.blocks * (side + gap), 230 * m.k) > box.w;
  for (const group of wraps ? (m.free ? [...others, one] : [one]) : groups) {
    if (wraps && group.run && x > box.x) [x, y] = [box.x, y + side + 4 * m.k];
    if (!group.run && !small) {
      const w = chip(group);
      turn(w);
      laid.push({ ...group, chip: { x, y: y + 2 * m.k, w, h: side - 4 * m.k }, squares: [], label: null });
      x += w + 14 * m.k;
      continue;
    }
    const room = !group.run ? Infinity : wraps ? box.w - label(group) : box.w - label(group) - beside - 20 * m.k;
    const most = Math.max(1, Math.floor(room / (6 * m.k))); // bars of 4 px, 2 px apart
    const bins = group.blocks > Math.min(MAX_SQUARES, most) ? Math.min(BINS, most) : group.blocks;
    const per = group.per > 1 && group.per < bins && bins === group.blocks ? group.per : bins;
    const breaks = Math.ceil(bins / per) - 1;
    let [w, between] = [side, gap];
    const span = () => bins * w + (bins - 1 + breaks) * between;
    if (span() > room) {
      between = (bins > 32 ? 2 : 3) * m.k;
      w = clamp((room - (bins - 1 + breaks) * between) / bins, 4 * m.k, side);
    }
    turn(label(group) + span());
    const h = Math.min(side, Math.max(w, 16 * m.k));
    const squares = [];
    let left = x + label(group);
    for (let i = 0; i < bins; i++) {
      if (i > 0 && i % per === 0) left += between;
      const first = Math.floor((i * group.blocks) / bins);
      const end = Math.floor(((i + 1) * group.blocks) / bins);
      squares.push({ first, end, x: left, y: y + (side - h) / 2, w, h });
      left += w + between;
    }
    laid.push({ ...group, label: { x, y: y + side / 2 }, squares, chip: null, binned: bins !== group.blocks });
    x = left + 14 * m.k;
  }
  return { groups: laid, end: { x, y }, side };
}

/** The room under a panel's slots: beside its registers where those reach down, if that is most of the width; else below them too. */
function roomUnder(box, placed, registers, m) {
  const end = (parts) => Math.max(box.y, ...parts.map((each) => each.y + each.block.h)) + 2 * m.k;
  const room = (y, right) => ({ x: box.x + m.pad, y, w: right - 2 * m.pad - box.x, h: box.y + box.h - 4 * m.k - y });
  const slots = end(placed.filter(({ block }) => !block.registers));
  const beside = registers && registers.x - box.x > box.w / 2 && registers.y + registers.h > slots;
  return beside ? room(slots, registers.x) : room(end(placed), box.x + box.w);
}

/**
 * Every box of a frame.
 * entries: [{node, plane, focus: {rt, ct} | null, split: boolean, shape}]; slots: of the launch drawn; groups: as layoutGrid;
 * hbm, sram: units, as chooseUnits gives them.
 * Returns {width, height, m, hbm: {box, arrays}, grid: {box, groups, ...}, panels: [{box, slots, registers, under}]}.
 */
export function layout({ entries, slots, groups, sentence, width, height, panels = 1, hbm: hbmUnits, sram }) {
  const m = measures(width, height);
  const inner = width - 2 * m.pad;
  let y = 0;

  const blocks = hbmBlocks(entries, hbmUnits.unit, hbmUnits.n, m);
  const flowed = hbmFlow(blocks, width, m) ?? { shelves: blocks.map((block) => [block]), h: total(blocks.map((b) => b.h)) };
  const columns = panelColumns(panels, width);
  const rows = Math.ceil(panels / columns);
  const panelWidth = (width - m.between * (columns - 1)) / columns;
  const parts = sramBlocks(slots, sram.unit, sram.ghosts, panelWidth, m) ?? [];
  const slotFlow = flow(parts, panelWidth - 2 * m.pad, 10 * m.k, 4 * m.k) ?? { shelves: parts.map((part) => [part]), h: total(parts.map((p) => p.h)) };
  const grid = gridHeight(width, height);
  let hbmHeight = m.heading + flowed.h + m.pad;
  let panelHeight = m.heading + slotFlow.h + 6 * m.k;
  // What is left over is shared out, so that the panels fill the frame and the grid stays between them.
  const left = m.free ? 0 : Math.max(0, height - hbmHeight - grid - rows * panelHeight - m.between * (rows - 1));
  // Two rows of arithmetic under the slots of a panel that stands alone come first.
  const under = panels === 1 ? Math.min(left, 3 * m.font.text) : 0;
  const spare = left - under;
  const hbmSpare = Math.min(spare * 0.4, 28 * m.k);
  const panelSpare = Math.min((spare - hbmSpare) * 0.6, 36 * m.k) / rows;
  hbmHeight += hbmSpare;
  panelHeight += panelSpare + under;
  const gridSpare = Math.min(spare - hbmSpare - panelSpare * rows, 30 * m.k);
  y += m.free ? 0 : Math.max(0, (spare - hbmSpare - panelSpare * rows - gridSpare) / 2);

  const hbm = { box: { x: 0, y, w: width, h: hbmHeight }, arrays: [] };
  const at = place(flowed, m.pad, y + m.heading + hbmSpare / 2, inner, m.gap, 8 * m.k, m);
  for (const { block, x, y: top } of at) {
    hbm.arrays.push({
      ...block,
      tiles: block.tiles.map((tile) => shifted(tile, x, top)),
      more: block.more.map((more) => shifted(more, x, top)),
      body: shifted(block.body, x, top),
      labels: shifted(block.labels, x, top),
      heading: shifted(block.heading, x, top),
    });
  }
  y += hbmHeight;
  const gridBox = { x: m.pad, y: y + 9 * m.k, w: inner, h: grid + gridSpare };
  const laid = layoutGrid(groups, sentence, gridBox, m);
  y += grid + gridSpare;

  const framed = [];
  for (let p = 0; p < panels; p++) {
    const x0 = (p % columns) * (panelWidth + m.between);
    const y0 = y + Math.floor(p / columns) * (panelHeight + m.between);
    const slotsOut = [];
    let registers = null;
    const shelves = slotFlow.shelves.length;
    const loose = panelSpare / (shelves + 1);
    const placed = place(slotFlow, x0 + m.pad, y0 + m.heading + loose, panelWidth - 2 * m.pad, 10 * m.k, 4 * m.k + loose, m);
    const put = (block, x, top) =>
      slotsOut.push({ ...block, box: shifted(block.box, x, top), ghost: block.ghost && shifted(block.ghost, x, top) });
    for (const { block, x, y: top } of placed) {
      if (!block.registers) {
        put(block, x, top);
        continue;
      }
      registers = { x, y: top, w: block.w, h: block.h };
      const within = place(block.registers, x + 8 * m.k, top + block.caption, block.w - 16 * m.k, 8 * m.k, 4 * m.k, m);
      for (const part of within) put(part.block, part.x, part.y);
    }
    const box = { x: x0, y: y0, w: panelWidth, h: panelHeight };
    framed.push({ box, slots: slotsOut, registers, under: roomUnder(box, placed, registers, m) });
  }
  const end = y + rows * panelHeight + (rows - 1) * m.between;
  return { width, height: m.free ? end : height, m, hbm, grid: { box: gridBox, ...laid }, panels: framed };
}
