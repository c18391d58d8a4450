// From a point to a cell, and from a cell to its neighbour: pure geometry over a scene's targets.

const within = (at, x, y) => x >= at.x && x < at.x + at.w && y >= at.y && y < at.y + at.h;

/** {target, row, col} under a point of the scene, {target, square} for a block's square, {button}, or null. */
export function hit(scene, x, y) {
  const button = scene.buttons.find((each) => within(each, x, y));
  if (button) return { button };
  for (const target of scene.targets) {
    if (target.kind === 'grid') {
      const square = target.squares.find((at) => x >= at.x - 1 && x <= at.x + at.w + 1 && y >= at.y - 2 && y <= at.y + at.h + 6);
      if (square) return { target, square };
      continue;
    }
    for (const tile of target.tiles) {
      if (!within(tile, x, y)) continue;
      const row = tile.row + Math.min(tile.rows - 1, Math.floor(((y - tile.y) / tile.h) * tile.rows));
      const col = tile.col + Math.min(tile.cols - 1, Math.floor(((x - tile.x) / tile.w) * tile.cols));
      return { target, row, col };
    }
  }
  return null;
}

/** Rows and columns of a target that are in the frame, ascending. */
function extent(target) {
  const rows = new Set();
  const cols = new Set();
  for (const tile of target.tiles) {
    for (let r = 0; r < tile.rows; r++) rows.add(tile.row + r);
    for (let c = 0; c < tile.cols; c++) cols.add(tile.col + c);
  }
  const ascending = (set) => [...set].sort((a, b) => a - b);
  return { rows: ascending(rows), cols: ascending(cols) };
}

const near = (list, value) => {
  let best = 0;
  for (let i = 1; i < list.length; i++) if (Math.abs(list[i] - value) < Math.abs(list[best] - value)) best = i;
  return best;
};

/** A place that is in the frame: the nearest cell of the target, or square of the grid. */
export function settle(scene, place) {
  const target = scene.targets.find((each) => each.id === place?.target) ?? first(scene);
  if (!target) return null;
  if (target.kind === 'grid') {
    return { target: target.id, index: Math.max(0, Math.min(target.squares.length - 1, place?.index ?? 0)) };
  }
  const { rows, cols } = extent(target);
  return { target: target.id, row: rows[near(rows, place?.row ?? 0)], col: cols[near(cols, place?.col ?? 0)] };
}

function usable(scene) {
  return scene.targets.filter((target) => (target.kind === 'grid' ? target.squares.length : target.tiles.length));
}

function first(scene) {
  return usable(scene)[0] ?? null;
}

const SIDES = { ArrowUp: 'above', ArrowDown: 'below', ArrowLeft: 'left', ArrowRight: 'right' };

/** How a key at the edge of an array's frame, or a comma or full stop, turns the frame: {node, look} or null. */
export function turnedBy(scene, place, key) {
  const now = settle(scene, place);
  const target = now && scene.targets.find((each) => each.id === now.target);
  if (target?.kind !== 'array') return null;
  if (key === ',' || key === '.') {
    const step = key === '.' ? 1 : target.planes - 1;
    return target.planes > 1 ? { node: target.node, look: { plane: (target.plane + step) % target.planes } } : null;
  }
  const to = target.beyond[SIDES[key]];
  const next = moved(scene, now, key);
  if (!to || !next || next.row !== now.row || next.col !== now.col) return null;
  return { node: target.node, look: { plane: target.plane, ...to } };
}

/** Where a key takes the cursor; null when the key means nothing here. */
export function moved(scene, place, key) {
  const now = settle(scene, place);
  if (!now) return null;
  const all = usable(scene);
  const index = all.findIndex((target) => target.id === now.target);
  const target = all[index];
  if (key === '[' || key === ']') {
    const next = all[(index + (key === ']' ? 1 : all.length - 1)) % all.length];
    return settle(scene, { ...now, target: next.id });
  }
  if (target.kind === 'grid') {
    const to = { ArrowLeft: now.index - 1, ArrowUp: now.index - 1, ArrowRight: now.index + 1, ArrowDown: now.index + 1, Home: 0, End: target.squares.length - 1 }[key];
    return to === undefined ? null : settle(scene, { ...now, index: to });
  }
  const { rows, cols } = extent(target);
  let [r, c] = [near(rows, now.row), near(cols, now.col)];
  if (key === 'ArrowLeft') c--;
  else if (key === 'ArrowRight') c++;
  else if (key === 'ArrowUp') r--;
  else if (key === 'ArrowDown') r++;
  else if (key === 'Home') c = 0;
  else if (key === 'End') c = cols.length - 1;
  else return null;
  const clamp = (x, length) => Math.max(0, Math.min(length - 1, x));
  return { target: now.target, row: rows[clamp(r, rows.length)], col: cols[clamp(c, cols.length)] };
}
