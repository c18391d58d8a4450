// Shared memory and registers of a running block in the scene, old beside new where a carry is rewritten.

import { arithmetic, arithmeticItems, traffic } from '../arithmetic.js';
import { scaleOf, splitOf } from '../facts.js';
import { nameWidth, textWidth } from '../layout/measures.js';
import { hueOf, splitHue } from '../palette.js';
import { box, cellsItem, grown, heatItem, select, text } from './items.js';
import { blockPlace, grouped, tileName } from './names.js';

/** A CUDA block's static shared memory ends here. */
const SHARED_LIMIT = 49152;

/** Shared memory and registers of one running block. */
export function drawPanel(view, panel, index, written) {
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
  const placeAt = at0.x + m.pad + nameWidth(name, m.font.heading) + 14 * m.k;
  const over = launch && launch.sharedBytes > SHARED_LIMIT;
  const bytes = launch ? launch.sharedBytes : 0;
  let memory = `shared memory ${grouped(bytes)} of ${grouped(SHARED_LIMIT)} B`;
  if (m.hall && !over) memory = ''; // a hall needs it where it does not fit
  const room = at0.x + at0.w - m.pad - placeAt;
  if (over) memory = `⚠ ${memory}: over the limit`;
  if (memory && textWidth(memory, m.font.text) > room) memory = `${over ? '⚠ ' : ''}${grouped(bytes)} of ${grouped(SHARED_LIMIT)} B`;
  const left = room - textWidth(memory, m.font.text) - 12 * m.k;
  if (place && textWidth(place, m.font.text) <= left) items.push(text(`${p}/place`, placeAt, base, place, m.font.text, 'quiet'));
  if (launch && memory && textWidth(memory, m.font.text) <= room + 10) {
    items.push(text(`${p}/bytes`, at0.x + at0.w - m.pad, base, memory, m.font.text, over ? 'warning strong' : 'quiet', 'end'));
  }

  if (panel.registers) {
    const r = panel.registers;
    items.push(box(`${p}/registers`, r, 'registers', { r: 6 * m.k }));
    items.push(text(`${p}/registers/t`, r.x + 8 * m.k, r.y + m.font.small * 1.07, 'registers', m.font.small, 'quiet'));
  }
  for (const part of panel.slots) {
    const { slot } = part;
    const state = active ? replay.slot(slot.id, active.block, active.step) : null;
    const event = active ? written?.[slot.id] : undefined;
    drawSlot({ trace, replay, scene, m, active, cell }, part, `${p}/s${slot.index}`, state, event, p);
  }
  if (block?.active && frame.panels.length === 1 && !m.free) {
    const computed = arithmetic(view, block.block, written);
    const moved = computed.lines.length ? null : traffic(view, block.step);
    items.push(...arithmeticItems(`${p}/${moved ? 'moves' : 'sum'}`, moved ?? computed, panel.under, m));
  }
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
  const room = at.w + 2 * m.ring + 10 * m.k;
  const was = renamed && textWidth(`${name} (was ${slot.name})`, m.font.title) <= at.w + 26 * m.k ? ` (was ${slot.name})` : '';
  const note = slotNote(trace, state, look, m.hall ? room - textWidth(`${name} `, m.font.title, true) : room, m.hall ? m.font.title : m.font.small);
  const tail = m.hall ? note && ` ${note}` : was;
  items.push({ ...text(`${key}/name`, cx, y, name, m.font.title, `strong hue-${words} ${look === 'stale' ? 'dim' : ''}`, 'middle'), tail });
  if (note && !m.hall) items.push(text(`${key}/note`, cx, y + m.note * 0.95, note, m.font.small, `quiet ${look}`, 'middle'));

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
