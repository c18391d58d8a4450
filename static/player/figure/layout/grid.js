// The squares of every launch's grid and the sentence beside them, between HBM and SRAM.

import { clamp, FREE_BELOW, measures, textWidth, wrap } from './measures.js';

/** More blocks than this are drawn as bins. */
const MAX_SQUARES = 64;
const BINS = 48;

/** How tall the row of the grids is: squares, a sentence, and room for the lines down to SRAM. */
export function gridHeight(width, height) {
  const m = measures(width, height);
  return (width < FREE_BELOW ? 112 : 64) * m.k;
}

/**
 * Squares of the launches' grids, and the sentence that says what runs: beside the squares where it fits, else above them
 * (below would be under the lines to SRAM).
 * groups: [{launch, blocks, run: boolean, per: size of the first axis, title}]
 */
export function layoutGrid(groups, sentence, box, m) {
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
