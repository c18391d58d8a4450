// The arithmetic of one row, spelled out under the slots: explain.js's own lines, as far as there is room.

import { explain } from '../explain.js';
import { textWidth, wrap } from './layout/measures.js';
import { hueOf } from './palette.js';
import { grouped, plural, tileName } from './scene/names.js';

const MOST = 4;
const CROSSINGS = ['load', 'store', 'partial'];
const MONO = 0.605; // width of a character of the monospaced font, of its size

/**
 * What this step computed in one row, a line a slot: "m = max(1.1033, 2.2951) = 2.2951". Carries and what a row has
 * one of (α, lse) where it writes any, else what it fills. The row is the selected cell's, or the first.
 * @param {{trace, replay, order, position, cell}} view
 * @param {number} block
 * @param {Record<number, {kind: string}>} written  the step's event by slot
 * @returns {{row: number, lines: {name: string, text: string}[]}}
 */
export function arithmetic({ trace, replay, order, position, cell }, block, written) {
  const events = Object.values(written).filter(({ kind, value }) => value >= 0 && (kind === 'fill' || kind === 'update')); // value: kept
  const computed = events.sort((a, b) => a.index - b.index).map((event) => event.slot);
  const ofRow = computed.filter((slot) => slot.carry || slot.cols === 1);
  const chosen = cell && trace.nodes[cell.node].kind === 'slot' ? cell : null;
  const row = chosen?.row ?? 0;
  const lines = [];
  for (const slot of ofRow.length ? ofRow : computed) {
    if (row >= slot.rows) continue;
    const found = explain(trace, replay, order, position, { node: slot.id, block, row, col: chosen?.node === slot.id ? chosen.col : 0 });
    const part = (role) => found.lines[found.roles.indexOf(role)]?.map((piece) => piece.text).join('');
    const [substituted, result] = [shortMaximum(found) ?? part('substituted'), part('result')];
    if (substituted && result) lines.push({ name: slot.name, text: `${found.titlePieces[0].text} ${substituted} ${result.replace(' in float32', '')}` });
  }
  return { row, lines: lines.slice(0, MOST) };
}

/**
 * What this step moved, a line an array: "K1 → Kj: 16 elements, 64 B". For the steps that compute nothing.
 * @returns {{row: null, lines: {name: string, key: number, text: string}[]}}  key: one array may move twice in a step
 */
export function traffic({ trace }, step) {
  const lines = [];
  const [from, end] = trace.eventRange(step);
  for (let e = from; e < end; e++) {
    const { array, slot, kind, tile, tiles, elements } = trace.event(e);
    if (!slot || array?.space !== 'hbm' || !CROSSINGS.includes(kind)) continue;
    const { rowTile, colTile } = trace.box(array, tile);
    const there = tiles === 1 ? tileName(array, rowTile, colTile) : array.name;
    const way = kind === 'load' ? `${there} → ${slot.name}` : `${slot.name} → ${there}`;
    lines.push({ name: array.name, key: lines.length, text: `${way}: ${plural(elements, 'element')}, ${grouped(elements * array.itemBytes)} B` });
  }
  return { row: null, lines: lines.slice(0, MOST) };
}

/** "= max(m_old, the tile's largest)" of a running maximum, else null: here a row of the tile is one number. */
function shortMaximum({ substituted, operands }) {
  if (substituted?.[1] !== 'max') return null;
  const read = substituted[2].slice(1).map(([, n]) => operands[n]).filter(Boolean);
  const old = read.find(({ when }) => when === 'old');
  const tile = read.filter((operand) => operand !== old);
  if (!old || !tile.length) return null;
  return `= max(${old.text}, ${tile.reduce((most, each) => (each.value > most.value || Number.isNaN(each.value) ? each : most)).text})`;
}

/** The lines as items in a room {x, y, w, h}: several share a row where they fit, and what finds no place is left out. */
export function arithmeticItems(key, { row, lines }, room, m) {
  const size = m.font.text, high = size * 1.32, gap = 2 * size;
  const rows = Math.floor((room.h + 1) / high);
  if (!lines.length || rows < 1) return [];
  const label = row === null ? 'moves' : `row ${row}`;
  const left = room.x + (label.length + 2) * size * MONO;
  const right = room.x + room.w;
  const items = [];
  const put = (name, x, n, text, cls) => items.push({ kind: 'text', key: `${key}/${name}`, x, y: room.y + n * high + size, text, size, cls, anchor: 'start' });
  const ends = Array(rows).fill(left); // where each row is free
  for (const { name, key: of = name, text } of lines) {
    const cls = `arithmetic hue-${hueOf(name)}`;
    const wide = text.length * size * MONO;
    const n = ends.findIndex((end) => end + wide <= right);
    if (n >= 0) {
      put(of, ends[n], n, text, cls);
      ends[n] += wide + gap;
    } else if (lines.length === 1) { // alone, it may take several rows
      const broken = wrap(text, ((right - left) / MONO) * textWidth('0', 1), size);
      if (broken.length <= rows) broken.forEach((part, at) => put(`${of}${at}`, left, at, part, cls));
    }
  }
  if (items.length) put('row', room.x, 0, label, 'arithmetic quiet');
  const taken = Math.max(2, ...items.map(({ y }) => (y - room.y - size) / high + 1));
  const lower = Math.min(size, Math.max(0, room.h - taken * high) / 2); // in the middle of what is left, where that is more
  return items.map((item) => ({ ...item, y: item.y + lower }));
}
