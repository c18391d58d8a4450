// A cell's name in the address: "li.2.0" in a slot, "K@plane.row.column" in an array.

/** @param {{name: string, row: number, col: number, plane?: number}} cell  plane: only of an array's cell */
export function writeCell({ name, row, col, plane }) {
  return plane === undefined ? `${name}.${row}.${col}` : `${name}@${plane}.${row}.${col}`;
}

/** @returns {{name: string, row: number, col: number, plane?: number}|null} null where the text is no cell's name */
export function readCell(text) {
  const found = /^([^@]+)(?:@(\d+))?\.(\d+)\.(\d+)$/.exec(text);
  if (!found) return null;
  const [, name, plane, row, col] = found;
  const cell = { name, row: Number(row), col: Number(col) };
  return plane === undefined ? cell : { ...cell, plane: Number(plane) };
}

/** @typedef {{node: number, row: number, col: number, plane?: number, block?: number}} Cell */

/** The name of a trace's cell; cell.node may be the node itself. @param {import('./trace.js').Trace} trace */
export function cellName(trace, cell) {
  const node = typeof cell.node === 'number' ? trace.nodes[cell.node] : cell.node;
  const { name } = node, { row, col } = cell;
  return writeCell(node.kind === 'slot' ? { name, row, col } : { name, row, col, plane: cell.plane ?? 0 });
}

/**
 * The cell of a name, for a launch's slots; null when there is no such cell.
 * @param {import('./trace.js').Trace} trace
 * @returns {Cell|null}
 */
export function parseCell(trace, text, launch) {
  const { name, ...cell } = readCell(text) ?? { name: '', row: 0, col: 0 };
  const isArray = cell.plane !== undefined;
  const node = trace.node(name, isArray ? -1 : launch);
  if (node === null || node.kind !== (isArray ? 'array' : 'slot')) return null;
  if (cell.row >= node.rows || cell.col >= node.cols || (isArray && cell.plane >= node.planes)) return null;
  return { ...cell, node: node.id };
}
