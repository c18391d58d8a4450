// The grids of blocks in the scene: their squares, the sentence that says what runs, and the lines down to SRAM.

import { textWidth } from '../layout/measures.js';
import { splitHue } from '../palette.js';
import { box, text } from './items.js';
import { grouped } from './names.js';

function fraction(trace, launch, block, step) {
  if (step < 0) return 0;
  const [first, last] = trace.blockRange(launch, block);
  return (step - first + 1) / (last - first + 1);
}

/** The squares of every launch's grid, the sentence under them and the lines to SRAM. */
export function drawGrid({ trace, order, at, started, shown, frame, scene }) {
  const { m, grid } = frame;
  const { items } = scene;
  const together = order.name === 'together';
  const running = new Map(shown.map((each, index) => [each.block, index]).filter(([, index]) => shown[index].active));
  const lines = [];
  const target = { id: 'grid', kind: 'grid', squares: [] };
  for (const group of grid.groups) {
    const g = `g${group.launch}`;
    const now = started && group.launch === at.launch;
    const over = started && group.launch < at.launch;
    const words = now ? 'running' : over ? 'done' : 'waiting';
    if (group.chip) {
      items.push(box(`${g}/chip`, group.chip, `chip ${words}`, { r: group.chip.h / 2 }));
      items.push(text(`${g}/chip/t`, group.chip.x + group.chip.w / 2, group.chip.y + group.chip.h / 2 + m.font.small * 0.35, `${group.title}${over ? ' ✓' : ''}`, m.font.small, 'quiet', 'middle'));
      continue;
    }
    items.push(text(`${g}/title`, group.label.x, group.label.y + m.font.text * 0.36, group.title, m.font.text, `${now || trace.launches.length === 1 ? 'strong ink' : 'quiet'}`));
    const splitAxis = trace.launches[group.launch].grid.some((axis) => axis.axis === 'split' && axis.size > 1);
    for (const square of group.squares) {
      const key = `${g}/${square.first}`;
      const count = square.end - square.first;
      let done = 0;
      let busy = 0;
      let part = 0;
      if (count === 1 || now) {
        for (let b = square.first; b < square.end; b++) {
          const state = now ? at.state(b) : over ? 'done' : 'waiting';
          if (state === 'done') done++;
          else if (state === 'running') busy++;
          part += state === 'done' ? 1 : now ? fraction(trace, group.launch, b, at.progress(b)) : 0;
        }
      } else if (over) done = part = count;
      const state = busy ? 'running' : done === count ? 'done' : done ? 'partly' : 'waiting';
      const panel = now ? [...running.keys()].find((b) => b >= square.first && b < square.end) : undefined;
      const led = panel !== undefined;
      items.push(box(key, square, `square ${state} ${led ? 'led' : ''}`, { r: Math.min(4 * m.k, square.w / 3) }));
      if ((together || count > 1) && part > 0 && state !== 'done') {
        const h = (square.h - 2) * (part / count);
        items.push(box(`${key}/fill`, { x: square.x + 1, y: square.y + square.h - 1 - h, w: square.w - 2, h }, `progress ${state}`, { r: 1 }));
      }
      const words = state === 'done' ? '✓' : `${square.first}`;
      const size = Math.min(m.font.text, square.w * 0.62);
      if (count === 1 && square.w >= 12 && (state === 'done' || textWidth(words, size) <= square.w)) {
        items.push(text(`${key}/t`, square.x + square.w / 2, square.y + square.h / 2 + size * 0.36, words, size, `square-text ${state} ${led ? 'led' : ''}`, 'middle'));
      }
      if (splitAxis && count === 1) {
        const { index } = trace.axes(group.launch, square.first).find((axis) => axis.axis === 'split');
        items.push(box(`${key}/split`, { x: square.x + 2, y: square.y + square.h + 1.5 * m.k, w: square.w - 4, h: 2.5 * m.k }, `bracket hue-${splitHue(index)}`, { r: 1 }));
      }
      target.squares.push({ ...square, launch: group.launch, state, done, busy, count });
      if (led) lines.push({ square, panels: [...running].filter(([b]) => b >= square.first && b < square.end).map(([, index]) => index) });
    }
  }
  scene.targets.push(target);

  for (const { square, panels } of lines) {
    for (const index of panels) {
      const panel = frame.panels[index].box;
      const y = square.y + square.h + 2 * m.k;
      const [to0, to1] = [panel.x + 10 * m.k, panel.x + panel.w - 10 * m.k];
      items.push({ kind: 'path', key: `line${index}`, cls: 'leader', d: `M${square.x} ${y}L${to0} ${panel.y}H${to1}L${square.x + square.w} ${y}Z` });
    }
  }
  grid.sentence.lines.forEach((line, n) => {
    items.push(text(`grid/sentence${n}`, grid.sentence.x, grid.sentence.y + n * m.font.text * 1.35, line, m.font.text, 'quiet'));
  });
}

/**
 * Says which blocks run, and that a GPU would run them side by side: in full, and in brief for where there is little room.
 * shown: how many of the running ones have a panel. Returns {full, brief}.
 */
export function gridSentence(trace, order, at, started, shown = at.active.length) {
  const one = (sentence) => ({ full: sentence, brief: sentence });
  if (!started) return one('nothing has run yet');
  const launch = trace.launches[at.launch];
  const many = trace.launches.length > 1 ? `launch ${at.launch + 1} of ${trace.launches.length}, ` : '';
  if (launch.blocks === 1) return one(`${many}its one block is running`);
  if (order.name === 'together') {
    const running = at.active.length;
    let waiting = 0;
    if (launch.blocks <= 4096) for (let b = 0; b < launch.blocks; b++) if (at.state(b) === 'waiting') waiting++;
    const queue = waiting ? `, ${waiting === 1 ? '1 waits its' : `${grouped(waiting)} wait their`} turn` : '';
    const some = shown < running ? `; showing ${shown} of ${grouped(running)} running blocks` : '';
    const does = running === 1 ? 'is running' : 'advance together';
    const said = `${grouped(running)} of ${grouped(launch.blocks)} blocks ${does}`;
    return { full: `${many}${said}${queue}${some}; a GPU promises no order`, brief: `${said}${some}` };
  }
  const block = at.active[0].block;
  const said = `block ${block} of ${grouped(launch.blocks)}`;
  return { full: `${many}${said}: shown one after another, though a GPU runs blocks side by side`, brief: `${said}; a GPU runs blocks side by side` };
}
