// The grids of blocks in the scene: their squares, the sentence that says what runs, and the lines down to SRAM.

import { textWidth } from '../layout/measures.js';
import { splitHue } from '../palette.js';
import { box, text } from './items.js';

function fraction(trace, launch, block, step) {
  if (step < 0) return 0;
  const [first, last] = trace.blockRange(launch, block);
  return (step - first + 1) / (last - first + 1);
}

/** What the blocks of a square are at: {state, done, busy, part: how much of their steps is done, in blocks}. */
function workOf({ trace, at }, { launch }, { first, end }, now, over) {
  const count = end - first;
  let [done, busy, part] = over ? [count, 0, count] : [0, 0, 0];
  for (let b = first; now && b < end; b++) {
    const state = at.state(b);
    if (state === 'done') done++;
    else if (state === 'running') busy++;
    part += state === 'done' ? 1 : fraction(trace, launch, b, at.progress(b));
  }
  return { state: busy ? 'running' : done === count ? 'done' : done ? 'partly' : 'waiting', done, busy, part };
}

/**
 * The lines from a square to its SRAM: straight down behind the squares of its column in the rows below, then apart.
 * Null for a panel that stands under another: its lines would cross that.
 */
function leader(key, square, bottom, panel, { m, panels }) {
  if (panel.y > panels[0].box.y) return null;
  const [left, right] = [square.x, square.x + square.w];
  const [top, end] = [square.y + square.h, bottom].map((y) => y + 2 * m.k);
  const [to0, to1] = [panel.x + 10 * m.k, panel.x + panel.w - 10 * m.k];
  return { kind: 'path', key, cls: 'leader', d: `M${left} ${top}V${end}L${to0} ${panel.y}H${to1}L${right} ${end}V${top}Z` };
}

/** One square: its state, how far it is where that is not plain, its number, and the colour of its split. */
function drawSquare({ trace, order, frame, scene }, group, square, { state, part }, led) {
  const { items } = scene;
  const { m } = frame;
  const key = `g${group.launch}/${square.first}`;
  const count = square.end - square.first;
  items.push(box(key, square, `square ${state} ${led ? 'led' : ''}`, { r: Math.min(4 * m.k, square.w / 3) }));
  if ((order.name === 'together' || count > 1) && part > 0 && state !== 'done') {
    const h = (square.h - 2) * (part / count);
    items.push(box(`${key}/fill`, { x: square.x + 1, y: square.y + square.h - 1 - h, w: square.w - 2, h }, `progress ${state}`, { r: 1 }));
  }
  if (count > 1) return;
  const words = state === 'done' ? '✓' : `${square.first}`;
  const size = Math.min(m.font.text, square.w * 0.62);
  if (square.w >= 12 && (state === 'done' || textWidth(words, size) <= square.w)) {
    items.push(text(`${key}/t`, square.x + square.w / 2, square.y + square.h / 2 + size * 0.36, words, size, `square-text ${state} ${led ? 'led' : ''}`, 'middle'));
  }
  const split = trace.axes(group.launch, square.first).find(({ axis, size: splits }) => axis === 'split' && splits > 1);
  if (split) items.push(box(`${key}/split`, { x: square.x + 2, y: square.y + square.h + 1.5 * m.k, w: square.w - 4, h: 2.5 * m.k }, `bracket hue-${splitHue(split.index)}`, { r: 1 }));
}

/** The squares of every launch's grid, the sentence beside them and the lines to SRAM. */
export function drawGrid(view) {
  const { trace, at, started, shown, frame, scene } = view;
  const { m, grid } = frame;
  const { items } = scene;
  const running = shown.map(({ block, active }, index) => ({ block, active, panel: frame.panels[index].box })).filter(({ active }) => active);
  const lines = [];
  const ground = items.length;
  const target = { id: 'grid', kind: 'grid', squares: [] };
  for (const group of grid.groups) {
    const g = `g${group.launch}`;
    const now = started && group.launch === at.launch;
    const over = started && group.launch < at.launch;
    if (group.chip) {
      items.push(box(`${g}/chip`, group.chip, `chip ${over ? 'done' : 'waiting'}`, { r: group.chip.h / 2 }));
      items.push(text(`${g}/chip/t`, group.chip.x + group.chip.w / 2, group.chip.y + group.chip.h / 2 + m.font.small * 0.35, `${group.title}${over ? ' ✓' : ''}`, m.font.small, 'quiet', 'middle'));
      continue;
    }
    items.push(text(`${g}/title`, group.label.x, group.label.y + m.font.text * 0.36, group.title, m.font.text, `${now || trace.launches.length === 1 ? 'strong ink' : 'quiet'}`));
    for (const square of group.squares) {
      const work = workOf(view, group, square, now, over);
      const led = now ? running.filter(({ block }) => block >= square.first && block < square.end) : [];
      drawSquare(view, group, square, work, led.length > 0);
      const { state, done, busy } = work;
      target.squares.push({ ...square, launch: group.launch, state, done, busy, count: square.end - square.first });
      lines.push(...led.map(({ panel }, n) => leader(`${g}/${square.first}/line${n}`, square, group.bottom, panel, frame)).filter(Boolean));
    }
  }
  scene.targets.push(target);
  items.splice(ground, 0, ...lines); // under the squares
  grid.sentence.lines.forEach((line, n) => {
    items.push(text(`grid/sentence${n}`, grid.sentence.x, grid.sentence.y + n * m.font.text * 1.35, line, m.font.text, 'quiet'));
  });
}
