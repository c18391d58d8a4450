// What the figure calls things: arrays and their tiles, planes, blocks, counts.

const THIN = '\u2009';
export const grouped = new Intl.NumberFormat('en-US').format; // toLocaleString looks the language up each time
export const plural = (n, one, many = `${one}s`) => `${grouped(n)} ${n === 1 ? one : many}`;

/** "8×4", or "8" for a vector. */
export function shapeText(node) {
  return node.vector ? `${node.rows}` : `${node.rows}×${node.cols}`;
}

/** Name of a tile: "K1", "S01", "lse0"; the array's own name where it is one tile. */
export function tileName(array, rowTile, colTile) {
  if (array.rowTiles <= 1 && array.colTiles <= 1) return array.name;
  const long = rowTile > 9 || colTile > 9;
  const index = array.colTiles > 1 ? `${rowTile}${long ? ',' : ''}${colTile}` : `${rowTile}`;
  return array.name.includes('_') || array.name.length > 2 ? `${array.name}${THIN}${index}` : `${array.name}${index}`;
}

/** "head 1 of 4", "batch 0, head 1 of 2 × 4"; empty where there is one plane. */
export function planeText(array, plane) {
  if (array.planes <= 1) return '';
  const batch = Math.floor(plane / array.heads);
  const head = plane % array.heads;
  if (array.batch === 1) return `head ${head} of ${array.heads}`;
  if (array.heads === 1) return `batch ${batch} of ${array.batch}`;
  return `b${batch} h${head} of ${array.batch}×${array.heads}`;
}

/** "i = 0, head = 1": a block's place on the axes that have one. */
export function blockPlace(trace, launch, block) {
  return trace
    .axes(launch, block)
    .filter((axis) => axis.size > 1)
    .map((axis) => `${axis.axis} = ${axis.index}`)
    .join(', ');
}
