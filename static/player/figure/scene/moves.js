// What flies, or appears, at this step: from one box to another. Plain data for motion.js.

/** What flies, or appears, at this step: from one box to another. Pure data for motion.js. */
export function drawMoves({ trace, frame, scene, shown }) {
  const arrays = new Map(frame.hbm.arrays.map((array) => [array.entry.node.id, array]));
  shown.forEach(({ step, active }, index) => {
    if (!active) return;
    const panel = frame.panels[index];
    const slots = new Map(panel.slots.map((part) => [part.slot.id, part]));
    const [from, end] = trace.eventRange(step);
    for (let e = from; e < end; e++) {
      const event = trace.event(e);
      const part = event.slot && slots.get(event.slot.id);
      if (!part) continue;
      const key = `p${index}/s${event.slot.index}`;
      if (event.array && event.array.space === 'hbm' && event.elements >= 0 && ['load', 'store', 'partial'].includes(event.kind)) {
        const array = arrays.get(event.array.id);
        const place = array && tileBox(array, event.tile, event.tiles);
        if (!place) continue;
        const load = event.kind === 'load';
        scene.moves.push({
          kind: load ? 'load' : 'store',
          key,
          // What is copied, where it comes from and goes to, and what appears when it lands.
          from: load ? place.box : part.box,
          to: load ? part.box : place.box,
          source: load ? place.keys : [key],
          lands: load ? [key] : place.keys,
        });
      } else if (event.kind === 'fill') scene.moves.push({ kind: 'fill', key, box: part.box, rows: event.rows, cols: event.cols });
      else if (event.kind === 'update') scene.moves.push({ kind: 'update', key, box: part.box });
      else if (event.kind === 'init') scene.moves.push({ kind: 'init', key, box: part.box });
    }
  });
}

/** Where a run of tiles stands: the boxes in the frame together, else the bar that counts those beyond, else the array's middle. */
function tileBox(array, tile, tiles) {
  const { node, plane } = array.entry;
  const perPlane = node.rowTiles * node.colTiles;
  const keys = [];
  let found = null;
  for (const box of array.tiles) {
    const index = plane * perPlane + box.rt * node.colTiles + box.ct;
    if (index < tile || index >= tile + tiles) continue;
    keys.push(`a${node.id}/${box.rt}.${box.ct}`);
    const { x, y, w, h } = box;
    if (!found) found = { x, y, w, h };
    else {
      const [right, bottom] = [Math.max(found.x + found.w, x + w), Math.max(found.y + found.h, y + h)];
      found.x = Math.min(found.x, x);
      found.y = Math.min(found.y, y);
      found.w = right - found.x;
      found.h = bottom - found.y;
    }
  }
  if (found) return { box: found, keys };
  const bar = array.more.find((more) => more.side === 'below') ?? array.more[0];
  return { box: bar ?? array.body, keys: [] };
}
