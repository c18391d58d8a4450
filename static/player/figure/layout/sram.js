// The slots of an SRAM panel as blocks of boxes: shared memory, then the registers as one framed group.

import { FREE_BELOW, textWidth, total } from './measures.js';
import { flow } from './shelves.js';

/** Is the old value of a slot worth showing beside the new? alpha is made anew for each tile: nothing of it is carried. */
function carries(slot) {
  return slot.carry && !(slot.space === 'register' && slot.lifetime === 'tile');
}

/** A slot: its tile, room for the old values of a carry on its left, its name below. Corner at 0, 0. */
function measureSlot(slot, unit, ghosts, m) {
  const ux = slot.cols === 1 ? Math.max(unit.ux, unit.mode === 'numbers' ? 0 : 10 * m.k) : unit.ux;
  const uy = slot.rows === 1 ? Math.max(unit.uy, unit.mode === 'numbers' ? 0 : 10 * m.k) : unit.uy;
  const w = slot.cols * ux;
  const h = slot.rows * uy;
  const ghost = carries(slot) && (ghosts === 'all' || (ghosts === 'vectors' && slot.cols === 1));
  const arrow = 20 * m.k;
  const lead = ghost ? w + arrow : 0;
  const named = textWidth(slot.name, m.font.title, true);
  const side = Math.max(m.ring, (named - w) / 2);
  return {
    slot,
    ux,
    uy,
    mode: unit.mode,
    ghost: ghost ? { x: m.ring, y: m.ring, w, h } : null,
    box: { x: (ghost ? m.ring : side) + lead, y: m.ring, w, h },
    w: (ghost ? m.ring : side) + lead + w + side,
    h: m.ring + h + m.ring + m.title + m.slotNote,
  };
}

/** The blocks of one SRAM panel: shared slots, then the registers as one framed group. */
export function sramBlocks(slots, unit, ghosts, width, m) {
  const shared = slots.filter((slot) => slot.space === 'shared').map((slot) => measureSlot(slot, unit, ghosts, m));
  const registers = slots.filter((slot) => slot.space === 'register').map((slot) => measureSlot(slot, unit, ghosts, m));
  // A shelf of what is kept from tile to tile, under the tiles that pass.
  shared.forEach((block, n) => (block.fresh = n > 0 && carries(block.slot) && !carries(shared[n - 1].slot)));
  if (!registers.length) return shared;
  const inside = flow(registers, width - 2 * m.pad - 2 * m.pad, 8 * m.k, 4 * m.k);
  if (!inside) return null;
  const widths = inside.shelves.map((shelf) => total(shelf.map((block) => block.w)) + 8 * m.k * (shelf.length - 1));
  const caption = Math.max(15 * m.k, m.font.small * 1.4);
  const group = {
    registers: inside,
    caption,
    w: Math.max(...widths, textWidth('registers', m.font.small)) + 16 * m.k,
    h: inside.h + caption + 4 * m.k,
  };
  return [...shared, group];
}

export function sramHeight(slots, unit, ghosts, width, m) {
  const blocks = sramBlocks(slots, unit, ghosts, width, m);
  const flowed = blocks && flow(blocks, width - 2 * m.pad, 10 * m.k, 4 * m.k);
  return flowed ? m.heading + flowed.h + 6 * m.k : Infinity;
}

export function slotCells(slots, ghosts) {
  return total(
    slots.map((slot) => slot.rows * slot.cols * (carries(slot) && (ghosts === 'all' || (ghosts && slot.cols === 1)) ? 2 : 1)),
  );
}

/** Two rows of arithmetic under the slots of a panel that stands alone. */
export function arithmeticHeight(m) {
  return 2.75 * m.font.text;
}

/** Columns of SRAM panels side by side. */
export function panelColumns(panels, width) {
  if (panels <= 1) return 1;
  return width < FREE_BELOW ? 1 : panels;
}
