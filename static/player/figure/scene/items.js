// Items of a scene: plain objects with a key and a box, as scene.js lists them.

export const box = (key, at, cls, more = {}) => ({ kind: 'box', key, x: at.x, y: at.y, w: at.w, h: at.h, cls, ...more });
export const text = (key, x, y, value, size, cls, anchor = 'start', more = {}) => ({ kind: 'text', key, x, y, text: value, size, cls, anchor, ...more });
export const grown = (at, by) => ({ x: at.x - by, y: at.y - by, w: at.w + 2 * by, h: at.h + 2 * by });

/** Font size of the numbers in a cell: five characters, as in −0.54, leave a seventh of it free, so that neighbours never touch. */
function cellFont(ux, uy) {
  return Math.min(ux / 3.52, uy * 0.68);
}

/** A tile whose cells show their numbers. Lanes beyond validRows and validCols are guarded. */
export function cellsItem(key, at, { rows, cols, validRows, validCols, values, look, hue, scale, ux, uy }) {
  return { kind: 'cells', key, x: at.x, y: at.y, w: cols * ux, h: rows * uy, rows, cols, validRows, validCols, values, look, hue, scale, ux, uy, size: cellFont(ux, uy), cls: `cells hue-${hue} ${look}` };
}

/** Tiles as one picture. `sign` changes when any of its numbers do. */
export function heatItem(key, at, parts, scale, unit) {
  const x0 = Math.min(...parts.map((part) => part.x));
  const y0 = Math.min(...parts.map((part) => part.y));
  const x1 = Math.max(...parts.map((part) => part.x + part.w));
  const y1 = Math.max(...parts.map((part) => part.y + part.h));
  const sign = parts.map((part) => `${part.rt ?? 0}.${part.ct ?? 0}:${part.event}:${part.validRows}.${part.validCols}${part.look}${part.hue}`).join('|');
  return { kind: 'heat', key, x: x0, y: y0, w: x1 - x0, h: y1 - y0, parts, scale, ux: unit.ux, uy: unit.uy, sign: `${key}|${x1 - x0}x${y1 - y0}|${sign}|${scale}`, cls: 'heat' };
}

/** Outline of the selected cell. */
export function select(scene, target, row, col) {
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
