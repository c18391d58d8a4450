// Where everything stands: pure geometry, from shapes and a size to boxes. Knows no step and no number.
//
// One unit of the figure is the cell: ux wide, uy high, the same for every array of a panel, so that tiles stand in
// proportion. layout/units.js chooses the units, the others in layout/ measure one part each.

import { layoutGrid } from './layout/grid.js';
import { hbmBlocks, hbmFlow } from './layout/hbm.js';
import { shifted, total } from './layout/measures.js';
import { flow, place } from './layout/shelves.js';
import { arithmeticHeight, panelColumns, sramBlocks } from './layout/sram.js';

/** The room under a panel's slots: beside its registers where those reach down, if that is most of the width; else below them too. */
function roomUnder(box, placed, registers, m) {
  const end = (parts) => Math.max(box.y, ...parts.map((each) => each.y + each.block.h)) + 2 * m.k;
  const room = (y, right) => ({ x: box.x + m.pad, y, w: right - 2 * m.pad - box.x, h: box.y + box.h - 4 * m.k - y });
  const slots = end(placed.filter(({ block }) => !block.registers));
  const beside = registers && registers.x - box.x > box.w / 2 && registers.y + registers.h > slots;
  return beside ? room(slots, registers.x) : room(end(placed), box.x + box.w);
}

/**
 * Every box of a frame.
 * entries: [{node, plane, focus: {rt, ct} | null, split: how many own tiles of it, shape}]; slots: of the launch drawn; groups: as layoutGrid;
 * hbm, sram: units, as chooseUnits gives them; m: measures; grid: the height of the row of the grids; sentence, longest: as layoutGrid.
 * Returns {width, height, m, hbm: {box, arrays}, grid: {box, groups, ...}, panels: [{box, slots, registers, under}]}.
 */
export function layout({ entries, slots, groups, sentence, longest, width, height, m, grid, panels = 1, hbm: hbmUnits, sram }) {
  const inner = width - 2 * m.pad;
  let y = 0;

  const blocks = hbmBlocks(entries, hbmUnits.unit, hbmUnits.n, m);
  const flowed = hbmFlow(blocks, width, m) ?? { shelves: blocks.map((block) => [block]), h: total(blocks.map((b) => b.h)) };
  const columns = panelColumns(panels, width);
  const rows = Math.ceil(panels / columns);
  const panelWidth = (width - m.between * (columns - 1)) / columns;
  const parts = sramBlocks(slots, sram.unit, sram.ghosts, panelWidth, m) ?? [];
  const slotFlow = flow(parts, panelWidth - 2 * m.pad, 10 * m.k, 4 * m.k) ?? { shelves: parts.map((part) => [part]), h: total(parts.map((p) => p.h)) };
  let hbmHeight = m.heading + flowed.h + m.pad;
  let panelHeight = m.heading + slotFlow.h + 6 * m.k;
  // What is left over is shared out, so that the panels fill the frame and the grid stays between them.
  const left = m.free ? 0 : Math.max(0, height - hbmHeight - grid - rows * panelHeight - m.between * (rows - 1));
  // Two rows of arithmetic under the slots of a panel that stands alone come first.
  const under = panels === 1 ? Math.min(left, arithmeticHeight(m)) : 0;
  const spare = left - under;
  const hbmSpare = Math.min(spare * 0.4, 28 * m.k);
  const panelSpare = Math.min((spare - hbmSpare) * 0.6, 36 * m.k) / rows;
  hbmHeight += hbmSpare;
  panelHeight += panelSpare + under;
  const gridSpare = Math.min(spare - hbmSpare - panelSpare * rows, 30 * m.k);
  y += m.free ? 0 : Math.max(0, (spare - hbmSpare - panelSpare * rows - gridSpare) / 2);

  const hbm = { box: { x: 0, y, w: width, h: hbmHeight }, arrays: [] };
  const at = place(flowed, m.pad, y + m.heading + hbmSpare / 2, inner, m.gap, 8 * m.k, m);
  for (const { block, x, y: top } of at) {
    hbm.arrays.push({
      ...block,
      tiles: block.tiles.map((tile) => shifted(tile, x, top)),
      more: block.more.map((more) => shifted(more, x, top)),
      body: shifted(block.body, x, top),
      labels: shifted(block.labels, x, top),
      heading: shifted(block.heading, x, top),
    });
  }
  y += hbmHeight;
  const gridBox = { x: m.pad, y: y + 9 * m.k, w: inner, h: grid + gridSpare };
  const laid = layoutGrid(groups, sentence, longest, gridBox, m);
  y += grid + gridSpare;

  const framed = [];
  for (let p = 0; p < panels; p++) {
    const x0 = (p % columns) * (panelWidth + m.between);
    const y0 = y + Math.floor(p / columns) * (panelHeight + m.between);
    const slotsOut = [];
    let registers = null;
    const shelves = slotFlow.shelves.length;
    const loose = panelSpare / (shelves + 1);
    const placed = place(slotFlow, x0 + m.pad, y0 + m.heading + loose, panelWidth - 2 * m.pad, 10 * m.k, 4 * m.k + loose, m);
    const put = (block, x, top) =>
      slotsOut.push({ ...block, box: shifted(block.box, x, top), ghost: block.ghost && shifted(block.ghost, x, top) });
    for (const { block, x, y: top } of placed) {
      if (!block.registers) {
        put(block, x, top);
        continue;
      }
      registers = { x, y: top, w: block.w, h: block.h };
      const within = place(block.registers, x + 8 * m.k, top + block.caption, block.w - 16 * m.k, 8 * m.k, 4 * m.k, m);
      for (const part of within) put(part.block, part.x, part.y);
    }
    const box = { x: x0, y: y0, w: panelWidth, h: panelHeight };
    framed.push({ box, slots: slotsOut, registers, under: roomUnder(box, placed, registers, m) });
  }
  const end = y + rows * panelHeight + (rows - 1) * m.between;
  return { width, height: m.free ? end : height, m, hbm, grid: { box: gridBox, ...laid }, panels: framed };
}
