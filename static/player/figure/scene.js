// The scene: everything that stands in the figure at one position, as plain objects with keys and boxes.
// A pure function of (trace, order, position, selection, size). draw.js turns it into SVG, motion.js flies between two boxes.
//
// Item kinds: 'box' {x, y, w, h, r}, 'text' {x, y, text, size, anchor}, 'path' {d}, 'cells' (a tile whose cells show numbers)
// and 'heat' (tiles as one image). Every item has a key that is the same for the same thing at every step, and classes.
// Targets are what can be pointed at: a slot, an array (its tiles in the frame), a grid's squares.

import { sum, soFar } from '../ledger.js';
import { number } from '../words.js';
import { arithmetic, arithmeticItems } from './arithmetic.js';
import { placesOf, planesOf, scaleOf, splitOf, splitsOf } from './facts.js';
import { chooseUnits, gridHeight, layout, textWidth, FREE_BELOW } from './layout.js';
import { hueOf, splitHue } from './palette.js';

/** A CUDA block's static shared memory ends here. */
const SHARED_LIMIT = 49152;
const THIN = '\u2009';

const grouped = new Intl.NumberFormat('en-US').format; // toLocaleString looks the language up each time
const plural = (n, one, many = `${one}s`) => `${grouped(n)} ${n === 1 ? one : many}`;

/** "8×4", or "8" for a vector. */
function shapeText(node) {
  return node.vector ? `${node.rows}` : `${node.rows}×${node.cols}`;
}

/** Name of a tile: "K1", "S01", "lse0"; the array's own name where it is one tile. */
export function tileName(array, rowTile, colTile) {
  if (array.rowTiles <= 1 && array.colTiles <= 1) return array.name;
  const long = rowTile > 9 || colTile > 9;
  const index = array.colTiles > 1 ? `${rowTile}${long ? ',' : ''}${colTile}` : `${rowTile}`;
  return array.name.includes('_') || array.name.length > 2 ? `${array.name}${THIN}${index}` : `${array.name}${index}`;
}

/** "head 1 of 4", "batch 0, head 1 of 2 × 4"; empty where there is one plane. */
function planeText(array, plane) {
  if (array.planes <= 1) return '';
  const batch = Math.floor(plane / array.heads);
  const head = plane % array.heads;
  if (array.batch === 1) return `head ${head} of ${array.heads}`;
  if (array.heads === 1) return `batch ${batch} of ${array.batch}`;
  return `b${batch} h${head} of ${array.batch}×${array.heads}`;
}

/** "i = 0, head = 1": a block's place on the axes that have one. */
function blockPlace(trace, launch, block) {
  return trace
    .axes(launch, block)
    .filter((axis) => axis.size > 1)
    .map((axis) => `${axis.axis} = ${axis.index}`)
    .join(', ');
}

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
 * @returns {Scene} {width, height, items, targets, buttons, moves, launch, active, shown}
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
  };
  const view = { trace, replay, order, position, at, started, shown, cell, frame, scene };
  const written = new Map();
  const touched = touchedBy(trace, shown, written);
  const held = heldBy(view);
  drawHbm(view, touched, held);
  drawGrid(view);
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

const box = (key, at, cls, more = {}) => ({ kind: 'box', key, x: at.x, y: at.y, w: at.w, h: at.h, cls, ...more });
const text = (key, x, y, value, size, cls, anchor = 'start', more = {}) => ({ kind: 'text', key, x, y, text: value, size, cls, anchor, ...more });
const grown = (at, by) => ({ x: at.x - by, y: at.y - by, w: at.w + 2 * by, h: at.h + 2 * by });

/** Font size of the numbers in a cell. */
function cellFont(ux, uy) {
  return Math.min(ux / 3.34, uy * 0.66);
}

function drawHbm({ trace, replay, order, position, frame, scene, cell }, touched, held) {
  const { m } = frame;
  const { items } = scene;
  const at = frame.hbm.box;
  items.push(box('hbm', at, 'panel hbm', { r: 10 * m.k }));
  items.push(text('hbm/title', at.x + m.pad, at.y + m.heading * 0.68, 'HBM', m.font.heading, 'strong ink'));
  const { loads, stores } = sum(soFar(trace, order, position));
  const bytes = `${grouped(loads.bytes + stores.bytes)} B`;
  const moved = `${grouped(loads.elements)} loaded, ${grouped(stores.elements)} stored`;
  const room = at.w - 2 * m.pad - textWidth('HBM', m.font.heading, true) - 16 * m.k;
  const note = [`requested so far: ${moved} (elements) · ${bytes}`, `${moved} · ${bytes}`, `${bytes} requested`].find((each) => textWidth(each, m.font.text) <= room) ?? bytes;
  const left = room - textWidth(note, m.font.text);
  items.push(text('hbm/note', at.x + at.w - m.pad, at.y + m.heading * 0.68, note, m.font.text, 'quiet', 'end'));

  const virtual = trace.arrays.filter((array) => array.space === 'virtual').map((array) => `${array.name} ${shapeText(array)}`);
  if (virtual.length) {
    const words = `${virtual.join(' and ')} ${virtual.length > 1 ? 'are' : 'is'} never stored here`;
    const fits = textWidth(words, m.font.small) + 20 * m.k <= left;
    if (fits) items.push(text('hbm/virtual', at.x + m.pad + 44 * m.k, at.y + m.heading * 0.68, words, m.font.small, 'quiet'));
  }
  for (const array of frame.hbm.arrays) {
    const { node, plane, split, of } = array.entry;
    const hue = hueOf(node.name);
    const id = `a${node.id}`;
    const last = node.tileCount <= 65536 ? replay.tiles(node.id, order, position) : null;
    items.push(text(`${id}/title`, array.heading.x, array.heading.y, array.title, m.font.title, `strong hue-${hue}`, 'middle'));
    const short = `${plane % node.heads}`;
    const ofs = [of, of.replace(/^(head|batch) /, ''), node.batch > 1 && node.heads > 1 ? `b${Math.floor(plane / node.heads)} h${short}` : ''];
    const said = of && ofs.find((each) => textWidth(each, m.font.small) <= array.w + 8 * m.k);
    if (said) {
      const at = { x: array.heading.x - array.w / 2, y: array.heading.y - m.title * 0.7, w: array.w, h: m.title + m.note };
      scene.buttons.push({ ...at, node: node.id, look: { plane: (plane + 1) % node.planes }, words: `${node.name}: ${of}. Show the next` });
    }
    if (said) items.push(text(`${id}/of`, array.heading.x, array.heading.y + m.note, said, m.font.small, 'quiet', 'middle'));
    if (of) {
      // Sheets behind say that there are more planes than the one in front.
      const body = array.body;
      for (const n of [2, 1]) {
        const off = 3 * m.k * n;
        items.push({ kind: 'path', key: `${id}/sheet${n}`, cls: `sheet hue-${hue}`, d: `M${body.x + body.w + off} ${body.y + off}V${body.y + body.h + off}H${body.x + off}` });
      }
    }
    if (!array.tiles.length) {
      items.push(box(`${id}/none`, array.body, `frame empty hue-${hue}`, { r: 2 }));
      items.push(text(`${id}/none/t`, array.body.x + array.body.w / 2, array.body.y + array.body.h / 2 + 3.5 * m.k, 'none', m.font.small, 'quiet', 'middle'));
    }
    const perPlane = node.rowTiles * node.colTiles;
    const parts = [];
    const scale = scaleOf(trace, node);
    const target = { id, kind: 'array', node: node.id, name: node.name, plane, planes: node.planes, tiles: [], beyond: Object.fromEntries(array.more.map((more) => [more.side, turned(array, more.side)])) };
    const low = Math.min(...array.tiles.map((tile) => tile.h), 1e9) + array.gap;
    const stride = Math.max(1, Math.ceil((m.font.small * 1.05) / low));
    for (const tile of array.tiles) {
      const index = plane * perPlane + tile.rt * node.colTiles + tile.ct;
      const state = replay.tile(node.id, index, order, position);
      const owner = splitOf(trace, node, index);
      const colour = owner >= 0 && split ? splitHue(owner) : hue;
      const row = node.rowEdges[tile.rt];
      const col = node.colEdges[tile.ct];
      const rows = node.rowEdges[tile.rt + 1] - row;
      const cols = node.colEdges[tile.ct + 1] - col;
      const look = state.values ? '' : state.origin === 'unwritten' ? 'unwritten' : 'unkept';
      const use = touched[node.id]?.[index] ?? (held[node.id]?.has(index) ? 'held' : '');
      const tiny = Math.min(tile.w, tile.h) < 13 * m.k ? 'tiny' : '';
      const key = `${id}/${tile.rt}.${tile.ct}`;
      target.tiles.push({ ...tile, tile: index, row, col, rows, cols });
      if (array.mode === 'numbers') {
        items.push(cellsItem(key, tile, { rows, cols, validRows: rows, validCols: cols, values: state.values, look, hue: colour, scale, ux: array.ux, uy: array.uy }));
      } else {
        parts.push({ ...tile, rows, cols, validRows: rows, validCols: cols, values: state.values, hue: colour, look, event: state.event });
      }
      items.push(box(`${key}/frame`, tile, `frame ${look || 'written'} hue-${colour} ${use === 'held' ? use : use && `used ${use}`} ${tiny}`, { r: 1.5 }));
      if (array.labelled && tile.ct === array.tiles[0].ct && (tile.rt - array.tiles[0].rt) % stride === 0) {
        const label = node.name.length > 2 || node.colTiles > 1 ? `${node.colTiles > 1 ? node.name : ''}${tile.rt}` : `${node.name}${tile.rt}`;
        const short = label.length > 4 ? `${tile.rt}` : label;
        items.push(text(`${key}/label`, tile.ct > 0 ? array.labels.x : tile.x - 4 * m.k, tile.y + Math.min(tile.h, low * stride) / 2 + m.font.small * 0.35, short, m.font.small, `label hue-${hue} ${use && 'strong'}`, 'end'));
      }
      if (node.colTiles > 1 && tile.rt === array.tiles[0].rt) {
        const narrow = textWidth(`${tile.ct}`, m.font.small) > tile.w + array.gap;
        if (!narrow || tile.ct % Math.ceil((m.font.small * 2) / (tile.w + array.gap)) === 0) {
          items.push(text(`${id}/col${tile.ct}`, tile.x + tile.w / 2, array.labels.y, `${tile.ct}`, m.font.small, `label hue-${hue}`, 'middle'));
        }
      }
    }
    if (parts.some((part) => part.values)) items.splice(findFirst(items, `${id}/`), 0, heatItem(`${id}/heat`, array.body, parts, scale, array));
    if (split) drawSplits(items, trace, array, m);
    for (const more of array.more) {
      const key = `${id}/more/${more.side}`;
      items.push(box(key, more, `more hue-${hue}`, { r: 3 * m.k }));
      const side = more.side === 'left' || more.side === 'right';
      scene.buttons.push({ ...more, node: node.id, look: { plane, ...turned(array, more.side) }, words: `${plural(more.count, 'more tile')} of ${node.name}: show the next` });
      const grid = node.colTiles > 1; // then a bar counts rows or columns of tiles
      const done = last && node.role !== 'input' && !side && !grid ? storedAmong(node, plane, last, more, array) : null;
      const words = side ? `${grouped(more.count)}` : `${grouped(more.count)} more ${grid ? 'rows of tiles' : more.count > 1 ? 'tiles' : 'tile'}`;
      const full = done === null || more.w < 110 * m.k ? words : `${words}, ${grouped(done)} written`;
      const fitted = [full, words, `+${more.count}`].find((each) => side || textWidth(each, m.font.small) <= more.w + 6) ?? `+${more.count}`;
      const [cx, cy] = [more.x + more.w / 2, more.y + more.h / 2];
      items.push(text(`${key}/t`, cx, cy + m.font.small * 0.35, side ? `${words} more` : fitted, m.font.small, 'quiet', 'middle', side ? { turn: `rotate(-90 ${cx} ${cy})` } : {}));
    }
    scene.targets.push(target);
    if (cell && cell.node === node.id && cell.plane === plane) select(scene, target, cell.row, cell.col);
  }
}

function findFirst(items, prefix) {
  const found = items.findIndex((item) => item.key.startsWith(prefix) && item.key.endsWith('/frame'));
  return found < 0 ? items.length : found;
}

/** The tile to turn an array's frame to, one step past its edge. */
function turned(array, side) {
  const [first, last] = [array.tiles[0], array.tiles.at(-1)];
  const at = { rt: first.rt, ct: first.ct };
  if (side === 'above') at.rt = first.rt - 1;
  if (side === 'below') at.rt = last.rt + 1;
  if (side === 'left') at.ct = first.ct - 1;
  if (side === 'right') at.ct = last.ct + 1;
  return at;
}

/** How many of the tiles beyond the frame, above or below, have been stored to. */
function storedAmong(node, plane, last, more, array) {
  const shownFirst = array.tiles[0]?.rt ?? 0;
  const shownEnd = (array.tiles.at(-1)?.rt ?? -1) + 1;
  const [from, end] = more.side === 'above' ? [0, shownFirst] : [shownEnd, node.rowTiles];
  let count = 0;
  for (let rt = from; rt < end; rt++) {
    const tile = (plane * node.rowTiles + rt) * node.colTiles;
    if (last[tile] >= 0) count++;
  }
  return count;
}

/** Brackets on the right of an array: which of its tiles each split owns. */
function drawSplits(items, trace, array, m) {
  const { node, plane } = array.entry;
  const runs = [];
  for (const tile of array.tiles) {
    const owner = splitOf(trace, node, (plane * node.rowTiles + tile.rt) * node.colTiles + tile.ct);
    const end = tile.y + tile.h;
    if (owner < 0) continue;
    if (runs.at(-1)?.owner === owner) runs.at(-1).end = end;
    else runs.push({ owner, start: tile.y, end, x: tile.x + tile.w });
  }
  for (const run of runs) {
    const key = `a${node.id}/split${run.owner}`;
    const hue = splitHue(run.owner);
    items.push(box(key, { x: run.x + 4 * m.k, y: run.start, w: 3 * m.k, h: run.end - run.start }, `bracket hue-${hue}`, { r: 1.5 }));
    const words = run.end - run.start > textWidth('split 00', m.font.small) ? `split ${run.owner}` : `${run.owner}`;
    const [cx, cy] = [run.x + 13 * m.k, (run.start + run.end) / 2];
    const upright = words.length <= 2;
    if (upright && run.end - run.start < m.font.small * 0.9) continue;
    items.push(text(`${key}/t`, cx, cy + (upright ? m.font.small * 0.35 : 0), words, m.font.small, `label hue-${hue}`, 'middle', upright ? {} : { turn: `rotate(90 ${cx} ${cy - m.font.small * 0.35})` }));
  }
}

/** A tile whose cells show their numbers. Lanes beyond validRows and validCols are guarded. */
function cellsItem(key, at, { rows, cols, validRows, validCols, values, look, hue, scale, ux, uy }) {
  return { kind: 'cells', key, x: at.x, y: at.y, w: cols * ux, h: rows * uy, rows, cols, validRows, validCols, values, look, hue, scale, ux, uy, size: cellFont(ux, uy), cls: `cells hue-${hue} ${look}` };
}

/** Tiles as one picture. `sign` changes when any of its numbers do. */
function heatItem(key, at, parts, scale, unit) {
  const x0 = Math.min(...parts.map((part) => part.x));
  const y0 = Math.min(...parts.map((part) => part.y));
  const x1 = Math.max(...parts.map((part) => part.x + part.w));
  const y1 = Math.max(...parts.map((part) => part.y + part.h));
  const sign = parts.map((part) => `${part.rt ?? 0}.${part.ct ?? 0}:${part.event}:${part.validRows}.${part.validCols}${part.look}${part.hue}`).join('|');
  return { kind: 'heat', key, x: x0, y: y0, w: x1 - x0, h: y1 - y0, parts, scale, ux: unit.ux, uy: unit.uy, sign: `${key}|${x1 - x0}x${y1 - y0}|${sign}|${scale}`, cls: 'heat' };
}

/** Outline of the selected cell. */
function select(scene, target, row, col) {
  const at = cellBox(target, row, col);
  if (at) scene.items.push(box('selected', grown(at, 1), 'selected', { r: 2 }));
}

/** The box of a cell of a target, null where it is not in the frame. Cells smaller than a few px get a box one can see. */
export function cellBox(target, row, col) {
  for (const tile of target.tiles) {
    if (row < tile.row || row >= tile.row + tile.rows || col < tile.col || col >= tile.col + tile.cols) continue;
    const [cw, ch] = [tile.w / tile.cols, tile.h / tile.rows];
    const at = { x: tile.x + (col - tile.col) * cw, y: tile.y + (row - tile.row) * ch, w: cw, h: ch };
    const [px, py] = [Math.max(0, 4 - cw) / 2, Math.max(0, 4 - ch) / 2];
    return { x: at.x - px, y: at.y - py, w: cw + 2 * px, h: ch + 2 * py };
  }
  return null;
}

function fraction(trace, launch, block, step) {
  if (step < 0) return 0;
  const [first, last] = trace.blockRange(launch, block);
  return (step - first + 1) / (last - first + 1);
}

/** The squares of every launch's grid, the sentence under them and the lines to SRAM. */
function drawGrid({ trace, order, at, started, shown, frame, scene }) {
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

/** Says which blocks run, and that a GPU would run them side by side; `shown`: how many of the running ones have a panel. */
function gridSentence(trace, order, at, started, shown = at.active.length) {
  if (!started) return 'nothing has run yet';
  const launch = trace.launches[at.launch];
  const many = trace.launches.length > 1 ? `launch ${at.launch + 1} of ${trace.launches.length}, ` : '';
  if (order.name === 'together') {
    const running = at.active.length;
    let waiting = 0;
    if (launch.blocks <= 4096) for (let b = 0; b < launch.blocks; b++) if (at.state(b) === 'waiting') waiting++;
    const queue = waiting ? `, ${grouped(waiting)} wait their turn` : '';
    const some = shown < running ? `; showing ${shown} of ${grouped(running)} running blocks` : '';
    return `${many}${grouped(running)} of ${plural(launch.blocks, 'block')} advance together${queue}${some}; a GPU promises no order`;
  }
  const block = at.active[0].block;
  if (launch.blocks === 1) return `${many}its one block is running`;
  return `${many}block ${block} of ${grouped(launch.blocks)}: shown one after another, though a GPU runs blocks side by side`;
}

/** Shared memory and registers of one running block. */
function drawPanel(view, panel, index, written) {
  const { trace, replay, at, started, frame, scene, cell } = view;
  const { m } = frame;
  const { items } = scene;
  const launch = trace.launches[scene.launch];
  const block = started ? scene.shown[index] : null;
  const active = block && block.step >= 0 ? block : null; // has it any state to show?
  const p = `p${index}`;
  const at0 = panel.box;
  items.push(box(p, at0, `panel sram ${block?.active ? '' : 'idle'}`, { r: 10 * m.k }));
  const base = at0.y + m.heading * 0.68;
  const name = block ? `SRAM of block ${block.block}` : 'SRAM';
  items.push(text(`${p}/title`, at0.x + m.pad, base, name, m.font.heading, 'strong ink'));
  const where = block ? blockPlace(trace, at.launch, block.block) : 'no block has started';
  const place = block && !block.active ? (active ? 'done' : 'waiting') : where;
  const placeAt = at0.x + m.pad + textWidth(name, m.font.heading, true) + 10 * m.k;
  const over = launch && launch.sharedBytes > SHARED_LIMIT;
  const bytes = launch ? launch.sharedBytes : 0;
  let memory = `shared memory ${grouped(bytes)} of ${grouped(SHARED_LIMIT)} B`;
  const room = at0.x + at0.w - m.pad - placeAt;
  if (over) memory = `⚠ ${memory}: over the limit`;
  if (textWidth(memory, m.font.text) > room) memory = `${over ? '⚠ ' : ''}${grouped(bytes)} of ${grouped(SHARED_LIMIT)} B`;
  const left = room - textWidth(memory, m.font.text) - 12 * m.k;
  if (place && textWidth(place, m.font.text) <= left) items.push(text(`${p}/place`, placeAt, base, place, m.font.text, 'quiet'));
  if (launch && textWidth(memory, m.font.text) <= room + 10) {
    items.push(text(`${p}/bytes`, at0.x + at0.w - m.pad, base, memory, m.font.text, over ? 'warning strong' : 'quiet', 'end'));
  }

  if (panel.registers) {
    const r = panel.registers;
    items.push(box(`${p}/registers`, r, 'registers', { r: 6 * m.k }));
    items.push(text(`${p}/registers/t`, r.x + 8 * m.k, r.y + 11 * m.k, 'registers', m.font.small, 'quiet'));
  }
  for (const part of panel.slots) {
    const { slot } = part;
    const state = active ? replay.slot(slot.id, active.block, active.step) : null;
    const event = active ? written?.[slot.id] : undefined;
    drawSlot({ trace, replay, scene, m, active, cell }, part, `${p}/s${slot.index}`, state, event, p);
  }
  if (block?.active && frame.panels.length === 1 && !m.free) items.push(...arithmeticItems(`${p}/sum`, arithmetic(view, block.block, written), panel.under, m));
}

function drawSlot({ trace, replay, scene, m, active, cell }, part, key, state, event, panel) {
  const { items } = scene;
  const { slot, box: at, ux, uy } = part;
  const owner = state?.array && state.kind === 'load' && state.tiles === 1 ? splitOf(trace, state.array, state.tile) : -1;
  const name = state?.label ?? slot.name;
  const hue = owner >= 0 ? splitHue(owner) : hueOf(name);
  const words = hueOf(name);
  const look = !state ? 'uninitialised' : state.stale ? 'stale' : state.values ? '' : 'unkept';
  const scale = scaleOf(trace, slot);
  const content = (prefix, where, shown, lookNow) => {
    const validRows = shown ? shown.rows : slot.rows;
    const validCols = shown ? shown.cols : slot.cols;
    const common = { rows: slot.rows, cols: slot.cols, validRows, validCols, values: shown?.values ?? null, look: lookNow, hue };
    if (part.mode === 'numbers') items.push(cellsItem(prefix, where, { ...common, scale, ux, uy }));
    else if (shown?.values) items.push(heatItem(`${prefix}/heat`, where, [{ ...where, ...common, event: shown.event }], scale, part));
  };
  // What is computed in place gets a ring; what arrives, a thick frame. The hatching of what is stale lies under its numbers.
  const moved = event && event.kind !== 'update' && event.kind !== 'fill' ? 'write' : '';
  const around = box(`${key}/frame`, at, `frame slot ${look || 'written'} hue-${hue} ${moved && `used ${moved}`}`, { r: 1.5 });
  const under = look === 'stale' && part.mode === 'numbers';
  if (under) items.push(around);
  content(key, at, state, look);
  if (!under) items.push(around);
  const carried = event && event.kind === 'update';
  if (event && (event.kind === 'update' || event.kind === 'fill')) {
    items.push(box(`${key}/ring`, grown(at, 4 * m.k), `ring ${event.kind}`, { r: 4 * m.k }));
  }
  const before = carried && part.ghost && active ? replay.before(slot.id, active.block, active.step) : null;
  if (before) {
    content(`${key}/old`, part.ghost, before, 'old');
    items.push(box(`${key}/old/frame`, part.ghost, `frame old hue-${hue}`, { r: 1.5 }));
    const mid = at.y + at.h / 2;
    const x0 = part.ghost.x + part.ghost.w + 3.5 * m.k;
    const x1 = at.x - 6.5 * m.k;
    items.push({ kind: 'path', key: `${key}/old/arrow`, cls: 'arrow', d: `M${x0} ${mid}H${x1}m${-3.5 * m.k} ${-3.5 * m.k}l${3.5 * m.k} ${3.5 * m.k}l${-3.5 * m.k} ${3.5 * m.k}` });
    items.push(text(`${key}/old/t`, part.ghost.x + part.ghost.w / 2, part.ghost.y + part.ghost.h + m.ring + m.title * 0.7, 'old', m.font.small, 'quiet', 'middle'));
  }
  const cx = at.x + at.w / 2;
  const y = at.y + at.h + m.ring + m.title * 0.72;
  const renamed = name !== slot.name;
  items.push({ ...text(`${key}/name`, cx, y, name, m.font.title, `strong hue-${words} ${look === 'stale' ? 'dim' : ''}`, 'middle'), tail: renamed && textWidth(`${name} (was ${slot.name})`, m.font.title) <= at.w + 26 * m.k ? ` (was ${slot.name})` : '' });
  const note = slotNote(trace, state, look, at.w + 2 * m.ring + 10 * m.k, m.font.small);
  if (note) items.push(text(`${key}/note`, cx, y + m.note * 0.95, note, m.font.small, `quiet ${look}`, 'middle'));

  const target = {
    id: `${panel}/${slot.id}`,
    kind: 'slot',
    node: slot.id,
    name,
    block: active?.block ?? 0,
    look,
    frame: at,
    validRows: state?.rows ?? slot.rows,
    validCols: state?.cols ?? slot.cols,
    tiles: [{ ...at, row: 0, col: 0, rows: slot.rows, cols: slot.cols }],
  };
  scene.targets.push(target);
  if (cell && cell.node === slot.id && (cell.block === undefined || cell.block === active?.block)) select(scene, target, cell.row, cell.col);
}

/** The line under a slot's name: the tile it stands for, or why it should not be read; '' where it does not fit. */
function slotNote(trace, state, look, room, size) {
  const fitting = (...choices) => choices.find((each) => textWidth(each, size) <= room) ?? '';
  if (!state) return fitting('uninitialised');
  const array = state.array;
  let stands = '';
  if (array && (array.rowTiles > 1 || array.colTiles > 1)) {
    const { rowTile, colTile } = trace.box(array, state.tile);
    stands = tileName(array, rowTile, colTile);
    if (state.tiles > 1) stands = `${array.name} ${rowTile}–${rowTile + state.tiles - 1}`;
  }
  if (look === 'stale') return fitting(...(stands ? [`stale: ${stands}`] : []), 'stale');
  return fitting(stands);
}

/** What flies, or appears, at this step: from one box to another. Pure data for motion.js. */
function drawMoves({ trace, frame, scene, shown }) {
  const arrays = new Map(frame.hbm.arrays.map((array) => [array.entry.node.id, array]));
  shown.forEach(({ step, active }, index) => {
    if (!active) return;
    const panel = frame.panels[index];
    const slots = new Map(panel.slots.map((part) => [part.slot.id, part]));
    const [from, end] = trace.eventRange(step);
    for (let e = from; e < end; e++) {
      const event = trace.event(e);
      const part = event.slot && slots.get(event.slot.id);
      if (!part) continue;
      const key = `p${index}/s${event.slot.index}`;
      if (event.array && event.array.space === 'hbm' && event.elements >= 0 && ['load', 'store', 'partial'].includes(event.kind)) {
        const array = arrays.get(event.array.id);
        const place = array && tileBox(array, event.tile, event.tiles);
        if (!place) continue;
        const load = event.kind === 'load';
        scene.moves.push({
          kind: load ? 'load' : 'store',
          key,
          // What is copied, where it comes from and goes to, and what appears when it lands.
          from: load ? place.box : part.box,
          to: load ? part.box : place.box,
          source: load ? place.keys : [key],
          lands: load ? [key] : place.keys,
        });
      } else if (event.kind === 'fill') scene.moves.push({ kind: 'fill', key, box: part.box, rows: event.rows, cols: event.cols });
      else if (event.kind === 'update') scene.moves.push({ kind: 'update', key, box: part.box });
      else if (event.kind === 'init') scene.moves.push({ kind: 'init', key, box: part.box });
    }
  });
}

/** Where a run of tiles stands: the boxes in the frame together, else the bar that counts those beyond, else the array's middle. */
function tileBox(array, tile, tiles) {
  const { node, plane } = array.entry;
  const perPlane = node.rowTiles * node.colTiles;
  const keys = [];
  let found = null;
  for (const box of array.tiles) {
    const index = plane * perPlane + box.rt * node.colTiles + box.ct;
    if (index < tile || index >= tile + tiles) continue;
    keys.push(`a${node.id}/${box.rt}.${box.ct}`);
    const { x, y, w, h } = box;
    if (!found) found = { x, y, w, h };
    else {
      const [right, bottom] = [Math.max(found.x + found.w, x + w), Math.max(found.y + found.h, y + h)];
      found.x = Math.min(found.x, x);
      found.y = Math.min(found.y, y);
      found.w = right - found.x;
      found.h = bottom - found.y;
    }
  }
  if (found) return { box: found, keys };
  const bar = array.more.find((more) => more.side === 'below') ?? array.more[0];
  return { box: bar ?? array.body, keys: [] };
}

/** A cell's value at this position: a number, or null with the reason in `why`. */
export function readCell({ trace, replay, order, position, scene }, target, row, col) {
  if (target.kind === 'slot') {
    const active = scene.shown.find((each) => each.block === target.block);
    const state = active && active.step >= 0 ? replay.slot(target.node, active.block, active.step) : null;
    if (!state) return { value: null, why: 'uninitialised' };
    if (row >= state.rows || col >= state.cols) return { value: null, why: 'guarded' };
    if (!state.values) return { value: null, why: 'unkept' };
    return { value: state.values[row * state.cols + col], why: state.stale ? 'stale' : '', state };
  }
  const node = trace.nodes[target.node];
  const tile = target.tiles.find((part) => row >= part.row && row < part.row + part.rows && col >= part.col && col < part.col + part.cols);
  const index = tile ? tile.tile : trace.tileAt(node, target.plane, row, col);
  const state = replay.tile(node.id, index, order, position);
  if (!state.values) return { value: null, why: state.origin };
  const at = trace.box(node, index);
  return { value: state.values[(row - at.row) * at.cols + (col - at.col)], why: state.origin };
}

const WHY = {
  uninitialised: 'not written yet: whatever memory held before',
  guarded: 'guarded: past the end, never read',
  unkept: 'the trace did not keep this number',
  unwritten: 'not written yet',
  stale: 'stale: left from the previous tile',
  filled: 'filled by the launcher',
};

/** A cell in words: {name: "li[2][0]", value: "3.0341987609863281", note, full: all of it in one sentence for a screen reader}. */
export function cellWords(context, target, row, col) {
  const { trace } = context;
  const node = trace.nodes[target.node];
  const { value, why, state } = readCell(context, target, row, col);
  const vector = node.kind === 'array' ? node.vector : node.cols === 1;
  const plane = node.kind === 'array' && node.planes > 1 ? `, ${planeText(node, target.plane)}` : '';
  const name = `${target.name}[${row}]${vector ? '' : `[${col}]`}`;
  const shown = value === null ? '' : exact(value);
  const notes = [];
  if (WHY[why]) notes.push(WHY[why]);
  if (node.kind === 'slot') {
    notes.unshift(`${node.space === 'register' ? 'register' : 'shared memory'} of block ${target.block}`);
    if (state?.array && state.array.rows) {
      const at = trace.box(state.array, state.tile);
      const where = state.array.vector || state.cols === 1 ? `${at.row + row}` : `${at.row + row}, ${at.col + col}`;
      notes.push(`stands for ${state.array.name}[${where}]`);
    }
  } else notes.unshift(`HBM${plane}`);
  const spoken = vector ? `row ${row}` : `row ${row}, column ${col}`;
  const said = value === null ? (WHY[why] ?? why) : spokenNumber(value);
  const full = `${target.name}, ${spoken}${plane}: ${said}${value !== null && why === 'stale' ? ', stale, left from the previous tile' : ''}`;
  return { name, value: shown, notes, full };
}

/** The whole float32: the shortest decimal that gives it back. */
export function exact(x) {
  if (Number.isNaN(x)) return 'NaN';
  if (!Number.isFinite(x)) return x > 0 ? '∞' : '−∞';
  for (let digits = 1; digits < 10; digits++) {
    const short = Number(x.toPrecision(digits));
    if (Math.fround(short) === x) return `${Object.is(x, -0) ? '−0' : String(short).replace('-', '−')}`;
  }
  return String(x).replace('-', '−');
}

function spokenNumber(x) {
  if (Number.isNaN(x)) return 'not a number';
  if (!Number.isFinite(x)) return x > 0 ? 'plus infinity' : 'minus infinity';
  return `${x < 0 ? 'minus ' : ''}${number(Math.abs(x))}`;
}
