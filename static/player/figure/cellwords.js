// A cell of the figure in words, for the tip, the keyboard's cursor and a screen reader.

import { number } from '../words.js';
import { planeText } from './scene/names.js';

/** A cell's value at this position: a number, or null with the reason in `why`. */
function readCell({ trace, replay, order, position, scene }, target, row, col) {
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
function exact(x) {
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
