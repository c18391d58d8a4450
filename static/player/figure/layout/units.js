// How large a cell is: units are tried from large to small, and the first that fits is kept: numbers while they are
// legible, then a heat map of every tile, then a heat map (or numbers) of a window of tiles with the rest as a count.

import { cellCount, cellHeight, hbmHeight, tileCount } from './hbm.js';
import { arithmeticHeight, panelColumns, slotCells, sramHeight } from './sram.js';

/** Cells that show a number, in the whole figure: two nodes each, so that it stays near 2,000 nodes at most. */
const MAX_NUMBER_CELLS = 720;
/** Tiles drawn, in the whole figure. */
const MAX_TILES = 220;
/** The narrowest cell that still shows a number such as −0.54 at 10 px. */
const MIN_NUMBER_WIDTH = 30;
const NUMBER_WIDTHS = [72, 66, 60, 56, 52, 48, 45, 42, 40, 38, 36, 34, 33, 32, 31, MIN_NUMBER_WIDTH];
const NUMBER_RATIOS = [0.61, 0.57, 0.53, 0.49, 0.46, 0.43];
/** The widest cell of a slot, in units of the frame: while HBM wants the room, and where there is more than enough. */
const WIDE_SLOT = 44;
const WIDEST_SLOT = 56;
/** The lowest cell that still shows a number. */
const MIN_NUMBER_HEIGHT = 13.8;
const HEAT_WIDTHS = [30, 26, 22, 18, 15, 12, 10, 8, 6.5, 5, 4, 3.2, 2.5, 2, 1.6, 1.25, 1, 0.8, 0.6, 0.45, 0.3, 0.2];
const HEAT_RATIOS = [1, 0.75, 0.5, 0.35, 0.25, 0.15];
const WINDOWS = [12, 8, 6, 5, 4, 3, 2, 1];

/** Units of one cell width, from roomy to flat. */
function numberUnits(ux) {
  return NUMBER_RATIOS.map((ratio) => ({ ux, uy: ux * ratio, mode: 'numbers' })).filter((unit) => unit.uy >= MIN_NUMBER_HEIGHT);
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
  const tile = matrices[0]?.node;
  for (const each of candidates) {
    for (const [n, fill] of WINDOWS.flatMap((n) => [[n, true], [n, false]])) {
      const tall = tile ? Math.min(tile.rowEdges[1] * each.uy, 40 * m.k) / m.k : 0;
      const wide = tile ? Math.min(tile.colEdges[1] * each.ux, 70 * m.k) / m.k : 0;
      const score =
        each.mode === 'numbers' ? (n > 1 ? 100 : 40) + Math.min(n, 3) * 10 + each.ux / 10 : Math.min(n, 6) * 8 + tall / 2 + wide / 4;
      if (best && best.score >= score) continue;
      const unit = { ...each, fill };
      if (tileCount(entries, n, unit, m) > MAX_TILES) continue;
      if (unit.mode === 'numbers' && cellCount(entries, n, unit, m) > cells) continue;
      if (hbmHeight(entries, unit, n, width, m) <= height) best = { unit, n, score };
    }
  }
  return best ?? { unit: { ux: 0.2, uy: 0.1, mode: 'image' }, n: 1 };
}

/**
 * Units and old values in the order they are tried for numbers: with old values in any size, then without; in a hall without,
 * because the numbers themselves must be large, and the arithmetic under them says the old ones.
 */
function* numberChoices(withOld, m) {
  for (const choices of m.hall ? [['']] : [withOld, ['']]) for (const ux of NUMBER_WIDTHS) for (const unit of numberUnits(ux)) for (const ghosts of choices) yield { unit, ghosts };
}

/** Slots with numbers in a given room: {unit, ghosts}; null where they do not fit. */
function fitNumbers(slots, width, height, m, cells, widest = WIDE_SLOT) {
  for (const { unit, ghosts } of numberChoices(m.free ? ['vectors'] : ['all', 'vectors'], m)) {
    if (unit.ux > widest * m.k || slotCells(slots, ghosts) > cells) continue;
    if (sramHeight(slots, unit, ghosts, width, m) <= height) return { unit, ghosts };
  }
  return null;
}

/** Rows made as high as the room allows: a unit is wide in steps, and what is left over makes its numbers larger. */
function heightened({ unit, ghosts }, slots, width, height, m) {
  if (unit.mode !== 'numbers') return { unit, ghosts };
  for (const more of [1.4, 1.3, 1.22, 1.15, 1.1, 1.05]) {
    const taller = { ...unit, uy: Math.min(unit.ux * NUMBER_RATIOS[0], unit.uy * more) };
    if (taller.uy > unit.uy && sramHeight(slots, taller, ghosts, width, m) <= height) return { unit: taller, ghosts };
  }
  return { unit, ghosts };
}

/** How the slots are drawn in a given room: {unit, ghosts}. */
function fitSram(slots, width, height, m, cells) {
  const numbers = fitNumbers(slots, width, height, m, cells);
  if (numbers) return numbers;
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

/**
 * The units for a frame: how large a cell of HBM is, the same in every launch, and of the slots of each launch.
 * Costly (some ms), so callers keep it: it depends on shapes and size only, never on the step.
 * slots: of each launch; gridHeight: of the row between; m: measures. Returns {hbm: {unit, n}, sram: {unit, ghosts}[]}; n is the tiles of a window, null for all.
 */
export function chooseUnits({ entries, slots, width, height, panels = 1, gridHeight, m }) {
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
  const cells = (MAX_NUMBER_CELLS - (hbm.unit.mode === 'numbers' ? cellCount(entries, hbm.n, hbm.unit, m) : 0)) / panels;
  const under = panels === 1 ? arithmeticHeight(m) : 0; // the arithmetic has its room, unless numbers would go for it
  const sram = slots.map((ofLaunch) => {
    const fitted = fitNumbers(ofLaunch, panelWidth, left - under, m, cells, WIDEST_SLOT) ?? fitSram(ofLaunch, panelWidth, left, m, cells);
    return heightened(fitted, ofLaunch, panelWidth, left - under, m);
  });
  return { hbm, sram };
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
  const under = panels === 1 ? [arithmeticHeight(m), 0] : [0];
  for (const spared of under) for (const { unit, ghosts } of numberChoices(['all', 'vectors'], m)) {
    if (all + panels * slotCells(slots, ghosts) > cells) continue;
    const hbm = hbmHeight(entries, unit, null, width, m);
    if (hbm >= room) continue;
    if (hbm + spared + rows * sramHeight(slots, unit, ghosts, panelWidth, m) <= room) return { hbm: { unit, n: null }, sram: { unit, ghosts } };
  }
  // They do not share a unit: the slots first, because there the arithmetic is read, then HBM in the rest.
  let sram = fitSram(slots, panelWidth, (room * 0.5) / rows, m, share);
  for (const part of [0.56, 0.62, 0.67, 0.72, 0.8]) {
    if (sram.unit.mode === 'numbers') break;
    const larger = fitSram(slots, panelWidth, (room * part) / rows, m, share);
    if (larger.unit.mode === 'numbers') sram = larger;
  }
  const height = rows * sramHeight(slots, sram.unit, sram.ghosts, panelWidth, m);
  return { hbm: fitHbm(entries, width, room - height, m, cells - used(sram)), sram };
}
