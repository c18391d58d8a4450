// The squares of every launch's grid and the sentence beside them, between HBM and SRAM.

import { clamp, textWidth, wrap } from './measures.js';

/** More blocks than this are drawn as bins, each of which counts some. */
const MAX_SQUARES = 64;
const BINS = 48;
/** In units of the frame: a square, the narrowest that holds a number one can read, the narrowest bin, and what stands between. */
const [SIDE, LEAST, BIN, GAP, CLOSE] = [24, 17, 10, 5, 3];
/** Rows of squares, where the height is given and where it is free. */
const [ROWS, FREE_ROWS] = [2, 4];
const NOTHING = { full: '', brief: '' };
/**
 * How tall the row of the grids is, the same whichever launch is at work: squares, a sentence, and room for the lines to SRAM.
 * groups: as layoutGrid; longest: by launch, as layoutGrid; width: between the margins.
 */
export function gridHeight(groups, longest, width, m) {
  const least = (m.free ? 112 : m.hall ? 46 : 64) * m.k;
  const lines = (m.free ? 53 : 21) * m.k;
  const at = (launch) => groups.map((group) => ({ ...group, run: group === launch }));
  return Math.max(least, ...groups.map((launch) => layoutGrid(at(launch), NOTHING, longest[launch.launch], { x: 0, y: 0, w: width }, m).bottom + lines));
}

/**
 * Squares of the launches' grids, and the sentence that says what runs: beside the squares where it fits, else above them
 * (below would be under the lines to SRAM).
 * groups: [{launch, blocks, run: boolean, per: size of the first axis, title}]; sentence: {full, brief}; longest: the same, of
 * the longest that this launch comes to: by it the places are chosen, so that the squares stand still from step to step.
 */
export function layoutGrid(groups, sentence, longest, box, m) {
  const laid = placeSquares(groups, box, m);
  const size = m.font.text;
  const length = laid.apart || m.hall ? 'brief' : 'full';
  if (laid.end.y === box.y && textWidth(longest[length], size) <= box.x + box.w - laid.end.x) {
    return { ...laid, sentence: { lines: [sentence[length]], x: laid.end.x, y: laid.end.y + laid.side / 2 + size * 0.36 } };
  }
  const broken = ({ full, brief }) => wrap(m.hall ? brief : full, box.w, size);
  const down = broken(longest).length * size * 1.35 + 4 * m.k;
  return { ...placeSquares(groups, { ...box, y: box.y + down }, m), sentence: { lines: broken(sentence), x: box.x, y: box.y + size * 0.9 } };
}

/** How a launch's squares share up to `most` rows: {bins, binned, perRow, w, between}, as large as they fit; else one row of bins. */
function share({ blocks, per }, width, most, m) {
  const set = per > 1 && per < blocks ? per : blocks; // blocks of one value of the other axes: a wider gap stands after them
  const span = (count, w, between) => count * w + (count - 2 + Math.ceil(count / set)) * between;
  for (let rows = 1; rows <= most && blocks <= MAX_SQUARES; rows++) {
    const even = Math.ceil(blocks / rows);
    const perRow = even > set ? Math.ceil(even / set) * set : even;
    for (const [w, between] of [[SIDE, GAP], [LEAST, CLOSE]].map((pair) => pair.map((x) => x * m.k))) {
      if (span(perRow, w, between) > width) continue;
      return { bins: blocks, binned: false, set, perRow, between, w: Math.min(SIDE * m.k, (width - span(perRow, 0, between)) / perRow) };
    }
  }
  const between = CLOSE * m.k;
  const bins = clamp(Math.floor((width + between) / (BIN * m.k + between)), 1, Math.min(BINS, blocks));
  return { bins, binned: bins !== blocks, set: bins, perRow: bins, between, w: clamp((width - (bins - 1) * between) / bins, 1, SIDE * m.k) };
}

/** Squares, or for a launch that is not at work and does not fit, a chip with its name. */
function placeSquares(groups, box, m) {
  const side = SIDE * m.k;
  const others = groups.filter((group) => !group.run);
  const chip = (group) => textWidth(group.title, m.font.small) + 22 * m.k;
  const label = (group) => textWidth(group.title, m.font.text, true) + 6 * m.k;
  const plain = (group) => label(group) + group.blocks * (SIDE + GAP) * m.k + 14 * m.k;
  const one = groups.find((group) => group.run);
  const small = others.every((group) => group.blocks <= 8) && others.reduce((sum, group) => sum + plain(group), plain(one)) <= box.w * 1.02;
  const beside = others.reduce((sum, group) => sum + (small ? plain(group) : chip(group) + 14 * m.k), 0);
  const room = small ? Infinity : box.w - label(one) - beside - 20 * m.k;
  const inline = room > side ? share(one, room, 1, m) : null;
  // One row where it fits; else the names in their order, and under them the squares of the launch at work: its lines to
  // SRAM cross nothing.
  const apart = !inline || (inline.binned && (one.blocks <= MAX_SQUARES || room < 230 * m.k));
  const laid = [];
  let { x, y } = box;
  const turn = (w) => {
    if (x > box.x && x + w > box.x + box.w) [x, y] = [box.x, y + side + 4 * m.k];
  };
  const put = (group, shared, label, left, top) => {
    const { bins, binned, set, perRow, w, between } = shared;
    const h = Math.min(side, Math.max(w, 16 * m.k));
    const squares = [];
    let at = left;
    let down = top + (perRow < bins ? 0 : (side - h) / 2);
    for (let i = 0; i < bins; i++) {
      if (i > 0 && i % perRow === 0) [at, down] = [left, down + h + 7 * m.k];
      else if (i > 0 && i % set === 0) at += between;
      const first = Math.floor((i * group.blocks) / bins);
      const end = Math.floor(((i + 1) * group.blocks) / bins);
      squares.push({ first, end, x: at, y: down, w, h });
      at += w + between;
    }
    laid.push({ ...group, label, squares, chip: null, binned, bottom: down + h });
    return { right: at, bottom: down + h };
  };
  let bottom = y + side;
  let lead = null; // where the name of the launch at work stands, above its squares
  for (const group of groups) {
    if (!group.run && !small) {
      const w = chip(group);
      turn(w);
      laid.push({ ...group, chip: { x, y: y + 2 * m.k, w, h: side - 4 * m.k }, squares: [], label: null });
      x += w + 14 * m.k;
    } else if (apart) {
      turn(label(group));
      lead = { x, y: y + side / 2 };
      x += label(group) + 8 * m.k;
    } else {
      const shared = group === one && !small ? inline : share(group, Infinity, 1, m);
      turn(label(group) + shared.bins * (shared.w + shared.between));
      ({ right: x, bottom } = put(group, shared, { x, y: y + side / 2 }, x + label(group), y));
      x += 14 * m.k;
    }
    bottom = Math.max(bottom, y + side);
  }
  if (apart) bottom = put(one, share(one, box.w, m.free ? FREE_ROWS : ROWS, m), lead, box.x, y + side + 2 * m.k).bottom;
  return { groups: laid, end: { x, y }, side, apart, bottom };
}
