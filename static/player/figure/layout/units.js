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
/** The narrowest whose number is read with ease, in units of the frame. */
const EASE = 35;
/** The widest cell of a slot, in units of the frame: while HBM wants the room, and where there is more than enough. */
const WIDE_SLOT = 44;
const WIDEST_SLOT = 56;
/** The lowest cell that still shows a number. */
const MIN_NUMBER_HEIGHT = 13.8;
const HEAT_WIDTHS = [30, 26, 22, 18, 15, 12, 10, 8, 6.5, 5, 4, 3.2, 2.5, 2, 1.6, 1.25, 1, 0.8, 0.6, 0.45, 0.3, 0.2];
const HEAT_RATIOS = [1, 0.75, 0.5, 0.35, 0.25, 0.15];
/** A heat map made wider to fill its room: how much, at most so much wider than high, and so wide in units of the frame. */
const WIDENED = [4, 3.2, 2.6, 2.1, 1.7, 1.4, 1.2];
const FLATTEST = 14;
const WIDEST_HEAT = 30;
/** How much of the frame the slots may take for their numbers, and for numbers that are read with ease. */
const PARTS = [0.5, 0.56, 0.62, 0.67, 0.72, 0.8];
const EASY_PARTS = PARTS.slice(0, 3);
const WINDOWS = [12, 8, 6, 5, 4, 3, 2, 1].flatMap((n) => [[n, true], [n, false]]); // tiles, and whether low arrays fill up
/** What is drawn of HBM where nothing of it can be. */
const NOTHING = { unit: { ux: 0.2, uy: 0.1, mode: 'image' }, n: 1 };

/** Units of one cell width, from roomy to flat. */
function numberUnits(ux) {
  return NUMBER_RATIOS.map((ratio) => ({ ux, uy: ux * ratio, mode: 'numbers' })).filter((unit) => unit.uy >= MIN_NUMBER_HEIGHT);
}

/** The heights of a frame's parts, each measured once: many units are asked for again and again. */
function heights(kept, entries, width, panelWidth, slots, m) {
  const keep = (key, make) => {
    if (!kept.has(key)) kept.set(key, make());
    return kept.get(key);
  };
  return {
    hbm: (unit, n) => keep(`${unit.ux} ${unit.uy} ${unit.fill} ${n}`, () => hbmHeight(entries, unit, n, width, m)),
    sram: (launch, unit, ghosts) => keep(`${panelWidth} ${launch} ${unit.ux} ${unit.uy} ${unit.mode} ${ghosts}`, () => sramHeight(slots[launch], unit, ghosts, panelWidth, m)),
  };
}

/** A heat map made as wide as the room allows without standing taller: tiles of few rows would be lost in it. */
function widened({ unit, n }, { high, m }, height) {
  for (const more of unit.mode === 'image' ? WIDENED : []) {
    const wider = { ...unit, ux: unit.ux * more };
    if (wider.ux <= Math.min(FLATTEST * unit.uy, WIDEST_HEAT * m.k) && high.hbm(wider, n) <= height) return { unit: wider, n };
  }
  return { unit, n };
}

/** How HBM is drawn in a given room: {unit, n} with n the tiles of the window, null for all of them. */
function fitHbm(frame, height, cells) {
  const { entries, high, m } = frame;
  if (cellCount(entries, null) <= cells) {
    for (const unit of NUMBER_WIDTHS.flatMap(numberUnits)) if (high.hbm(unit, null) <= height) return { unit, n: null };
  }
  const best = wholeHeat(frame, height) ?? windowed(frame, height, cells);
  return best ? widened(best, frame, height) : NOTHING;
}

const matrices = (entries) => entries.filter(({ node }) => node.cols > 1 && node.rowTiles > 0);

/** Every tile as a heat map, where there are not too many and each can be told from the next; else null. */
function wholeHeat({ entries, high, m }, height) {
  if (tileCount(entries, null) > MAX_TILES) return null;
  let best = null;
  for (const ux of HEAT_WIDTHS) {
    for (const ratio of HEAT_RATIOS) {
      const unit = { ux, uy: ux * ratio, mode: 'image' };
      const legible = matrices(entries).every(
        ({ node }) => (node.rowTiles === 1 || node.rowEdges[1] * cellHeight(node, unit, m) >= 6 * m.k) && node.cols * ux >= 20 * m.k,
      );
      if (!legible) continue;
      const score = Math.sqrt(ux * unit.uy) * (ratio >= 0.5 ? 1 : 0.8);
      if (best && best.score >= score) continue;
      if (high.hbm(unit, null) <= height) best = { unit, n: null, score };
    }
  }
  return best;
}

/** A window of tiles, with numbers where they fit, and the others counted; null where not even one fits. */
function windowed({ entries, high, m }, height, cells) {
  if (high.hbm(NOTHING.unit, NOTHING.n) > height) return null;
  const candidates = [
    ...[44, 38, 34, MIN_NUMBER_WIDTH].flatMap(numberUnits),
    ...HEAT_WIDTHS.flatMap((ux) => [1, 0.5].map((ratio) => ({ ux, uy: ux * ratio, mode: 'image' }))),
  ];
  const tile = matrices(entries)[0]?.node;
  let best = null;
  for (const each of candidates) {
    for (const [n, fill] of WINDOWS) {
      const tall = tile ? Math.min(tile.rowEdges[1] * each.uy, 40 * m.k) / m.k : 0;
      const wide = tile ? Math.min(tile.colEdges[1] * each.ux, 70 * m.k) / m.k : 0;
      const score =
        each.mode === 'numbers' ? (n > 1 ? 100 : 40) + Math.min(n, 3) * 10 + each.ux / 10 : Math.min(n, 6) * 8 + tall / 2 + wide / 4;
      if (best && best.score >= score) continue;
      const unit = { ...each, fill };
      if (tileCount(entries, n, unit, m) > MAX_TILES) continue;
      if (unit.mode === 'numbers' && cellCount(entries, n, unit, m) > cells) continue;
      if (high.hbm(unit, n) <= height) best = { unit, n, score };
    }
  }
  return best;
}

/**
 * Units and old values in the order they are tried for numbers: with old values while the numbers are read with ease, then
 * without, then smaller ones in the same order; in a hall without, because the numbers themselves must be large, and the
 * arithmetic under them says the old ones.
 */
function* numberChoices(withOld, m) {
  for (const small of [false, true]) {
    const widths = NUMBER_WIDTHS.filter((ux) => ux < EASE * m.k === small);
    for (const choices of m.hall ? [['']] : [withOld, ['']]) for (const unit of widths.flatMap(numberUnits)) for (const ghosts of choices) yield { unit, ghosts };
  }
}

/** Slots with numbers in a given room: {unit, ghosts}; null where they do not fit. */
function fitNumbers({ slots, high, m }, launch, height, cells, widest = WIDE_SLOT) {
  for (const { unit, ghosts } of numberChoices(m.free ? ['vectors'] : ['all', 'vectors'], m)) {
    if (unit.ux > widest * m.k || slotCells(slots[launch], ghosts) > cells) continue;
    if (high.sram(launch, unit, ghosts) <= height) return { unit, ghosts };
  }
  return null;
}

/** Rows made as high as the room allows: a unit is wide in steps, and what is left over makes its numbers larger. */
function heightened({ unit, ghosts }, { high }, launch, height) {
  if (unit.mode !== 'numbers') return { unit, ghosts };
  for (const more of [1.4, 1.3, 1.22, 1.15, 1.1, 1.05]) {
    const taller = { ...unit, uy: Math.min(unit.ux * NUMBER_RATIOS[0], unit.uy * more) };
    if (taller.uy > unit.uy && high.sram(launch, taller, ghosts) <= height) return { unit: taller, ghosts };
  }
  return { unit, ghosts };
}

/** How the slots of a launch are drawn in a given room: {unit, ghosts}. */
function fitSram(frame, launch, height, cells) {
  const { high, m } = frame;
  const numbers = fitNumbers(frame, launch, height, cells);
  if (numbers) return numbers;
  let best = null;
  for (const ux of HEAT_WIDTHS) {
    for (const ratio of HEAT_RATIOS) {
      for (const ghosts of ['all', 'vectors', '']) {
        const unit = { ux, uy: ux * ratio, mode: 'image' };
        const score = Math.sqrt(ux * unit.uy) * (ratio >= 0.5 ? 1 : 0.8) * (ghosts ? 1 : 0.8);
        if (best && best.score >= score) continue;
        if (high.sram(launch, unit, ghosts) <= Math.min(height, m.free ? 340 : Infinity)) best = { unit, ghosts, score };
      }
    }
  }
  return best ?? { unit: { ux: 0.3, uy: 0.2, mode: 'image' }, ghosts: '' };
}

/** Do the slots show numbers, and are those read with ease? */
const shows = ({ unit }) => unit.mode === 'numbers';
export const easy = (sram, m) => shows(sram) && sram.unit.ux >= EASE * m.k;
/** Has HBM the room to be read: its numbers, every tile, or some that are more than specks? */
export const roomy = ({ unit, n }) => unit.mode === 'numbers' || n === null || (n > 1 && unit.ux > 5);

/**
 * The units for a frame: how large a cell of HBM is, the same in every launch, and of the slots of each launch.
 * Costly (some ms), so callers keep it: it depends on shapes and size only, never on the step.
 * slots: of each launch; gridHeight: of the row between; m: measures; kept: a Map for what was measured of these entries and
 * slots at this width. Returns {hbm: {unit, n}, sram: {unit, ghosts}[]}; n is the tiles of a window, null for all.
 */
export function chooseUnits({ entries, slots, width, height, panels = 1, gridHeight, m, kept = new Map() }) {
  const columns = panelColumns(panels, width);
  const panelWidth = (width - m.between * (columns - 1)) / columns;
  const rows = Math.ceil(panels / columns);
  const room = m.free ? Infinity : height - gridHeight - m.between * (1 + rows);
  const frame = { entries, slots, m, panels, rows, room, high: heights(kept, entries, width, panelWidth, slots, m) };
  const each = slots.map((_, launch) => fitLaunch(frame, launch));
  if (!each.length) return { hbm: fitHbm(frame, m.free ? 460 : room / 2, MAX_NUMBER_CELLS), sram: [] };
  // HBM stands still from launch to launch: it takes the smallest unit that one of them asks for.
  const size = ({ hbm }) => (hbm.unit.mode === 'numbers' ? 1e6 : 0) + (hbm.n === null ? 1e3 : 0) + hbm.unit.ux * hbm.unit.uy;
  const { hbm } = each.reduce((least, other) => (size(other) < size(least) ? other : least));
  if (m.free) return { hbm, sram: each.map(({ sram }) => sram) };
  const left = (room - frame.high.hbm(hbm.unit, hbm.n)) / rows;
  const cells = (MAX_NUMBER_CELLS - (hbm.unit.mode === 'numbers' ? cellCount(entries, hbm.n, hbm.unit, m) : 0)) / panels;
  const under = panels === 1 ? arithmeticHeight(m) : 0; // the arithmetic has its room, unless numbers would go for it
  const sram = slots.map((_, launch) => {
    const fitted = fitNumbers(frame, launch, left - under, cells, WIDEST_SLOT) ?? fitSram(frame, launch, left, cells);
    return heightened(fitted, frame, launch, left - under);
  });
  return { hbm, sram };
}

/** HBM and the slots of one launch, sharing a frame: {hbm, sram}. */
function fitLaunch(frame, launch) {
  const { entries, m, panels, rows, room, high } = frame;
  const slots = frame.slots[launch];
  const share = Math.floor((MAX_NUMBER_CELLS * 0.6) / panels);
  const used = (sram) => (shows(sram) ? panels * slotCells(slots, sram.ghosts) : 0);
  const beside = (sram, height) => ({ hbm: fitHbm(frame, height, MAX_NUMBER_CELLS - used(sram)), sram });
  if (m.free) return beside(fitSram(frame, launch, 620, share), 460);
  const all = cellCount(entries, null);
  const under = panels === 1 ? arithmeticHeight(m) : 0;
  for (const spared of new Set([under, 0])) {
    for (const { unit, ghosts } of numberChoices(['all', 'vectors'], m)) {
      if (all + panels * slotCells(slots, ghosts) > MAX_NUMBER_CELLS || high.hbm(unit, null) >= room) continue;
      if (high.hbm(unit, null) + spared + rows * high.sram(launch, unit, ghosts) <= room) return { hbm: { unit, n: null }, sram: { unit, ghosts } };
    }
  }
  // They do not share a unit: the slots first, because there the arithmetic is read, then HBM in the rest.
  const given = (part) => fitSram(frame, launch, (room * part) / rows, share);
  const rest = (sram, spared = 0) => beside(sram, room - spared - rows * high.sram(launch, sram.unit, sram.ghosts));
  for (const part of EASY_PARTS) {
    const sram = given(part);
    const both = easy(sram, m) && rest(sram, under);
    if (both && roomy(both.hbm)) return both;
  }
  for (const part of PARTS) {
    const sram = given(part);
    const both = shows(sram) && rest(sram);
    if (both && both.hbm !== NOTHING) return both;
  }
  return rest(given(PARTS[0]));
}
