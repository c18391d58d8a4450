// The scene: everything that stands in the figure at one position, as plain objects with keys and boxes.
// A pure function of (trace, order, position, selection, size). draw.js turns it into SVG, motion.js flies between two boxes.
//
// Item kinds: 'box' {x, y, w, h, r}, 'text' {x, y, text, size, anchor}, 'path' {d}, 'cells' (a tile whose cells show numbers)
// and 'heat' (tiles as one image). Every item has a key that is the same for the same thing at every step, and classes.
// Targets are what can be pointed at: a slot, an array (its tiles in the frame), a grid's squares.

import { placesOf, planesOf, splitsOf } from './facts.js';
import { layout } from './layout.js';
import { gridHeight } from './layout/grid.js';
import { FREE_BELOW, measures } from './layout/measures.js';
import { chooseUnits, easy, roomy } from './layout/units.js';
import { drawGrid } from './scene/grid.js';
import { drawHbm } from './scene/hbm.js';
import { drawMoves } from './scene/moves.js';
import { planeText, plural, shapeText } from './scene/names.js';
import { drawPanel } from './scene/panel.js';
import { gridSentence, longestSentence } from './scene/sentence.js';

/**
 * The blocks whose SRAM is drawn, up to `room`: [{block, step, active}]. Where the whole grid fits, each block keeps its
 * panel from its first step to the end of the launch (step -1: not started); else the panels follow the first blocks at work,
 * or those around the focus block.
 */
function shownBlocks(trace, order, at, room, focus = 0) {
  const blocks = at.launch >= 0 ? trace.launches[at.launch].blocks : 0;
  if (order.name !== 'together' || blocks > room) {
    const place = Math.max(0, at.active.findIndex((each) => each.block === focus));
    const from = order.name === 'together' ? place - (place % room) : 0;
    return at.active.slice(from, from + room).map(({ block, step }) => ({ block, step, active: true }));
  }
  const step = (block) => at.active.find((each) => each.block === block)?.step;
  return Array.from({ length: blocks }, (_, block) => ({ block, step: step(block) ?? at.progress(block), active: step(block) !== undefined }));
}

/** The most blocks whose SRAM is drawn. */
const mostPanels = (width) => (width < FREE_BELOW ? 2 : 4);

/**
 * How many blocks' SRAM stands side by side: a whole grid of up to four; of a larger one as many, from two to four, as can
 * show numbers that are read with ease, else two that can be read at all, and leave HBM its room.
 */
function roomFor(trace, order, launch, width, m, unitsFor) {
  const most = mostPanels(width);
  if (order.name !== 'together' || (trace.launches[launch]?.blocks ?? 0) <= most) return most;
  const [lead, hbm] = [(panels) => unitsFor(panels).sram[launch], (panels) => unitsFor(panels).hbm];
  for (let panels = most; panels > 2; panels--) if (easy(lead(panels), m) && roomy(hbm(panels))) return panels;
  return lead(2).unit.mode === 'numbers' && roomy(hbm(2)) ? 2 : most;
}

/** Remembers what does not change from step to step: units by size and launch. One for each figure. */
export class SceneMemory {
  #kept = new Map();

  keep(key, make) {
    if (!this.#kept.has(key)) {
      if (this.#kept.size > 60) this.#kept.clear();
      this.#kept.set(key, make());
    }
    return this.#kept.get(key);
  }
}

/**
 * look: where a person turned an array's frame to, {[array id]: {plane?, rt?, ct?}}; else it follows the block and the selected cell.
 * focus: the block that the page follows where several run together; hall: as measures() takes it.
 * @param {{trace, replay, order, position, cell, focus, look, width, height: number|null, hall?: boolean, memory?: SceneMemory}} view
 * @returns {Scene} {width, height, items, targets, buttons, moves, launch, active, shown, lead}
 */
export function makeScene({ trace, replay, order, position, cell = null, focus: wanted = 0, look = {}, width, height, hall = false, memory = new SceneMemory() }) {
  const at = order.at(position);
  const launch = at.launch >= 0 ? at.launch : 0;
  const started = at.launch >= 0 && at.active.length > 0;
  const m = measures(width, height, hall);
  const groups = trace.launches.map((part) => ({
    launch: part.index,
    blocks: part.blocks,
    per: part.grid[0]?.size ?? 1,
    run: part.index === launch,
    title: trace.launches.length > 1 ? part.title : `grid: ${plural(part.blocks, 'block')}`,
  }));
  const size = `${order.name}/${Math.round(width)}/${height === null ? 'free' : Math.round(height)}`;
  const longest = memory.keep(`longest/${size}`, () => groups.map((group) => longestSentence(trace, order, group.launch, mostPanels(width))));
  const grid = memory.keep(`grid/${size}`, () => gridHeight(groups, longest, width - 2 * m.pad, m));
  const arrays = trace.arrays.filter((array) => array.space === 'hbm');
  const split = splitsOf(trace);
  const splits = Math.max(0, ...trace.launches.flatMap((part) => part.grid.filter(({ axis }) => axis === 'split').map(({ size }) => size)));
  const slotsOf = trace.launches.map((each) => each.slots);
  const unitsFor = (panels) => memory.keep(`${size}/${panels}`, () => chooseUnits({
    // What a block is at changes where an array's frame stands, not how large it is.
    entries: arrays.map((node) => ({ node, focus: null, split: split[node.id] && node.rowTiles > 1 ? splits : 0, shape: shapeText(node) })),
    slots: slotsOf, width, height, panels, gridHeight: grid, m, kept: memory.keep(`heights/${size}`, () => new Map()),
  }));
  const shown = shownBlocks(trace, order, at, roomFor(trace, order, launch, width, m, unitsFor), wanted);
  const lead = shown.find((each) => each.active && each.block === wanted) ?? shown.find((each) => each.active) ?? null;
  const planes = planesOf(trace, started ? at.launch : -1, lead?.block ?? 0);
  const places = lead ? placesOf(trace, at.launch, lead.block, lead.step) : {};

  const entries = arrays.map((node) => {
    const chosen = cell && cell.node === node.id && cell.plane !== undefined && cell.plane < node.planes ? cell.plane : null;
    const turned = look[node.id] ?? {};
    const plane = turned.plane ?? chosen ?? planes[node.id] ?? 0;
    const inside = places[node.id] === undefined ? null : trace.box(node, places[node.id]);
    let focus = inside && { rt: inside.rowTile, ct: inside.colTile };
    if (cell && cell.node === node.id && cell.row < node.rows && cell.col < node.cols) {
      const picked = trace.box(node, trace.tileAt(node, plane, cell.row, cell.col));
      focus = { rt: picked.rowTile, ct: picked.colTile };
    }
    if (turned.rt !== undefined) focus = { rt: turned.rt, ct: turned.ct ?? 0 };
    const of = planeText(node, plane);
    return { node, plane, focus, split: split[node.id] && node.rowTiles > 1 ? splits : 0, of, shape: shapeText(node) };
  });
  const slots = trace.launches[launch]?.slots ?? [];
  const panels = Math.max(1, shown.length);
  const units = unitsFor(panels);
  const sentence = gridSentence(trace, order, at, started, shown.filter(({ active }) => active).length);
  const frame = layout({ entries, slots, groups, sentence, longest: longest[launch] ?? sentence, width, height, m, grid, panels, hbm: units.hbm, sram: units.sram[launch] ?? { unit: units.hbm.unit, ghosts: '' } });

  const scene = {
    width: frame.width,
    height: frame.height,
    m: frame.m,
    items: [],
    targets: [],
    buttons: [],
    moves: [],
    launch,
    active: at.active,
    shown,
    lead: null, // the box of the panel that the page follows
  };
  const view = { trace, replay, order, position, at, started, shown, cell, frame, scene };
  const written = new Map();
  const touched = touchedBy(trace, shown, written);
  const held = heldBy(view);
  drawHbm(view, touched, held);
  drawGrid(view);
  if (lead) scene.lead = frame.panels[shown.indexOf(lead)].box;
  frame.panels.forEach((panel, index) => drawPanel(view, panel, index, written.get(index)));
  drawMoves(view);
  return scene;
}

/** Tiles that the slots of the blocks on screen hold a copy of: {[array id]: Set of tiles}. */
function heldBy({ trace, replay, shown, started, frame }) {
  const held = {};
  if (!started) return held;
  frame.panels.forEach((panel, index) => {
    const { block, step, active } = shown[index];
    if (!active) return;
    for (const { slot } of panel.slots) {
      const state = replay.slot(slot.id, block, step);
      if (!state || state.stale || !state.array || state.kind !== 'load' || state.tiles !== 1) continue;
      (held[state.array.id] ??= new Set()).add(state.tile);
    }
  });
  return held;
}

/** What the steps at this position move: {[array id]: {[tile]: 'read'|'write'}}, and by panel {slot id: event}. */
function touchedBy(trace, shown, written) {
  const touched = {};
  shown.forEach(({ step, active }, index) => {
    const slots = {};
    written.set(index, slots);
    if (!active) return;
    const [from, end] = trace.eventRange(step);
    for (let e = from; e < end; e++) {
      const event = trace.event(e);
      if (event.writes === 'slot') slots[event.dst] = { ...event, first: slots[event.dst]?.first ?? event };
      if (!event.array || event.array.space !== 'hbm') continue;
      const tiles = (touched[event.array.id] ??= {});
      for (let t = event.tile; t < event.tile + event.tiles; t++) tiles[t] = event.writes === 'array' ? 'write' : (tiles[t] ?? 'read');
    }
  });
  return touched;
}
