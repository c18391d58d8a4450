// A cell's name in the address: "li.2.0" in a slot, "K@plane.row.column" in an array. Knows no trace.

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
