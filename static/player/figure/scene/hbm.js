// HBM in the scene: every array's tiles, what this step does to them, and the bars that count those beyond the frame.

import { soFar, sum } from '../../ledger.js';
import { scaleOf, splitOf } from '../facts.js';
import { nameWidth, textWidth } from '../layout/measures.js';
import { hueOf, splitHue } from '../palette.js';
import { box, cellsItem, heatItem, select, text } from './items.js';
import { grouped, plural, shapeText } from './names.js';

export function drawHbm({ trace, replay, order, position, frame, scene, cell }, touched, held) {
  const { m } = frame;
  const { items } = scene;
  const at = frame.hbm.box;
  items.push(box('hbm', at, 'panel hbm', { r: 10 * m.k }));
  items.push(text('hbm/title', at.x + m.pad, at.y + m.heading * 0.68, 'HBM', m.font.heading, 'strong ink'));
  const { loads, stores } = sum(soFar(trace, order, position));
  const bytes = `${grouped(loads.bytes + stores.bytes)} B`;
  const moved = `${grouped(loads.elements)} loaded, ${grouped(stores.elements)} stored`;
  const named = nameWidth('HBM', m.font.heading);
  const room = at.w - 2 * m.pad - named - 16 * m.k;
  const whole = m.hall ? `requested so far: ${moved}` : `requested so far: ${moved} (elements) · ${bytes}`;
  const note = [whole, `${moved} · ${bytes}`, `${bytes} requested`].find((each) => textWidth(each, m.font.text) <= room) ?? bytes;
  const left = room - textWidth(note, m.font.text);
  items.push(text('hbm/note', at.x + at.w - m.pad, at.y + m.heading * 0.68, note, m.font.text, 'quiet', 'end'));

  const virtual = trace.arrays.filter((array) => array.space === 'virtual').map((array) => `${array.name} ${shapeText(array)}`);
  if (virtual.length) {
    const words = `${virtual.join(' and ')} ${virtual.length > 1 ? 'are' : 'is'} never stored here`;
    const fits = textWidth(words, m.font.small) + 12 * m.k <= left;
    if (fits) items.push(text('hbm/virtual', at.x + m.pad + named + 12 * m.k, at.y + m.heading * 0.68, words, m.font.small, 'quiet'));
  }
  for (const array of frame.hbm.arrays) {
    const { node, plane, split, of } = array.entry;
    const hue = hueOf(node.name);
    const id = `a${node.id}`;
    const last = node.tileCount <= 65536 ? replay.tiles(node.id, order, position) : null;
    items.push(text(`${id}/title`, array.heading.x, array.heading.y, array.title, m.font.title, `strong hue-${hue}`, 'middle'));
    const short = `${plane % node.heads}`;
    const ofs = [of, of.replace(/^(head|batch) /, ''), node.batch > 1 && node.heads > 1 ? `b${Math.floor(plane / node.heads)} h${short}` : ''];
    const said = of && ofs.find((each) => textWidth(each, m.font.small) <= array.headroom + 8 * m.k);
    if (said) {
      const at = { x: array.heading.x - array.headroom / 2, y: array.heading.y - m.title * 0.7, w: array.headroom, h: m.title + m.note };
      scene.buttons.push({ ...at, node: node.id, look: { plane: (plane + 1) % node.planes }, words: `${node.name}: ${of}. Show the next` });
      items.push(text(`${id}/of`, array.heading.x, array.heading.y + m.note, said, m.font.small, 'quiet', 'middle'));
    }
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
    items.push(box(key, { x: run.x + array.bracket, y: run.start, w: 3 * m.k, h: run.end - run.start }, `bracket hue-${hue}`, { r: 1.5 }));
    const long = run.end - run.start > textWidth('split 00', m.font.small);
    const words = long ? `split ${run.owner}` : `${run.owner}`;
    if (!long && run.end - run.start < m.font.small * 0.9) continue;
    const [left, cy] = [run.x + array.bracket + 5.5 * m.k, (run.start + run.end) / 2];
    const [cx, baseline] = [left + m.font.small / 2, m.font.small * 0.35];
    if (long) items.push(text(`${key}/t`, cx, cy, words, m.font.small, `label hue-${hue}`, 'middle', { turn: `rotate(90 ${cx} ${cy - baseline})` }));
    else items.push(text(`${key}/t`, left, cy + baseline, words, m.font.small, `label hue-${hue}`));
  }
}
