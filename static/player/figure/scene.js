// The scene: everything that stands in the figure at one position, as plain objects with keys and boxes.
// A pure function of (trace, order, position, selection, size). draw.js turns it into SVG, motion.js flies between two boxes.
//
// Item kinds: 'box' {x, y, w, h, r}, 'text' {x, y, text, size, anchor}, 'path' {d}, 'cells' (a tile whose cells show numbers)
// and 'heat' (tiles as one image). Every item has a key that is the same for the same thing at every step, and classes.
// Targets are what can be pointed at: a slot, an array (its tiles in the frame), a grid's squares.

import { placesOf, planesOf, splitsOf } from './facts.js';
import { layout } from './layout.js';
import { gridHeight } from './layout/grid.js';
import { FREE_BELOW } from './layout/measures.js';
import { chooseUnits } from './layout/units.js';
import { drawGrid, gridSentence } from './scene/grid.js';
import { drawHbm } from './scene/hbm.js';
import { drawMoves } from './scene/moves.js';
import { planeText, plural, shapeText } from './scene/names.js';
import { drawPanel } from './scene/panel.js';

/**
 * The blocks whose SRAM is drawn, up to four: [{block, step, active}]. Where the whole grid fits, each block keeps its
 * panel from its first step to the end of the launch (step -1: not started); else the panels follow the first blocks at work,
 * or those around the focus block.
 */
function shownBlocks(trace, order, at, width, focus = 0) {
  const room = width < FREE_BELOW ? 2 : 4;
  const blocks = at.launch >= 0 ? trace.launches[at.launch].blocks : 0;
  if (order.name !== 'together' || blocks > room) {
    const place = Math.max(0, at.active.findIndex((each) => each.block === focus));
    const from = order.name === 'together' ? place - (place % room) : 0;
    return at.active.slice(from, from + room).map(({ block, step }) => ({ block, step, active: true }));
  }
  const step = (block) => at.active.find((each) => each.block === block)?.step;
  return Array.from({ length: blocks }, (_, block) => ({ block, step: step(block) ?? at.progress(block), active: step(block) !== undefined }));
}

/** Remembers what does not change from step to step: units by size and launch. One for each figure. */
export class SceneMemory {
  #units = new Map();

  units(key, make) {
    if (!this.#units.has(key)) {
      if (this.#units.size > 40) this.#units.clear();
      this.#units.set(key, make());
    }
    return this.#units.get(key);
  }
}

/**
 * look: where a person turned an array's frame to, {[array id]: {plane?, rt?, ct?}}; else it follows the block and the selected cell.
 * focus: the block that the page follows where several run together.
 * @param {{trace, replay, order, position, cell, focus, look, width, height: number|null, memory?: SceneMemory}} view
 * @returns {Scene} {width, height, items, targets, buttons, moves, launch, active, shown, lead}
 */
export function makeScene({ trace, replay, order, position, cell = null, focus: wanted = 0, look = {}, width, height, memory = new SceneMemory() }) {
  const at = order.at(position);
  const launch = at.launch >= 0 ? at.launch : 0;
  const started = at.launch >= 0 && at.active.length > 0;
  const shown = shownBlocks(trace, order, at, width, wanted);
  const lead = shown.find((each) => each.active && each.block === wanted) ?? shown.find((each) => each.active) ?? null;
  const planes = planesOf(trace, started ? at.launch : -1, lead?.block ?? 0);
  const places = lead ? placesOf(trace, at.launch, lead.block, lead.step) : {};
  const split = splitsOf(trace);

  const entries = trace.arrays
    .filter((array) => array.space === 'hbm')
    .map((node) => {
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
      return { node, plane, focus, split: Boolean(split[node.id]) && node.rowTiles > 1, of, shape: shapeText(node) };
    });
  const slots = trace.launches[launch]?.slots ?? [];
  const panels = Math.max(1, shown.length);
  const groups = trace.launches.map((part) => ({
    launch: part.index,
    blocks: part.blocks,
    per: part.grid[0]?.size ?? 1,
    run: part.index === launch,
    title: trace.launches.length > 1 ? part.title : `grid: ${plural(part.blocks, 'block')}`,
  }));
  const tall = gridHeight(width, height);
  const key = `${Math.round(width)}/${height === null ? 'free' : Math.round(height)}/${panels}`;
  const units = memory.units(key, () => chooseUnits({ entries, slots: trace.launches.map((each) => each.slots), width, height, panels, gridHeight: tall }));
  const sentence = gridSentence(trace, order, at, started, shown.filter(({ active }) => active).length);
  const frame = layout({ entries, slots, groups, sentence, width, height, panels, hbm: units.hbm, sram: units.sram[launch] ?? { unit: units.hbm.unit, ghosts: '' } });

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
