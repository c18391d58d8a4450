// What the figure asks of a whole trace, worked out once and kept: planes, split colours, how strong a tint is.

const kept = new WeakMap();

function memo(trace, name, key, make) {
  let all = kept.get(trace);
  if (!all) kept.set(trace, (all = new Map()));
  const full = `${name}/${key}`;
  if (!all.has(full)) all.set(full, make());
  return all.get(full);
}

/** At most this many events of a block are read to find what it touches. */
const LOOK = 4096;
const STORE = 1;
const PARTIAL = 6;

/** Calls take(array id, tile) for events from, from ± 1, ... to `end`, until it answers true. */
function eachTouch(trace, from, end, take) {
  const { columns } = trace;
  const [kind, src, dst, tile] = ['kind', 'src', 'dst', 'tile'].map((name) => columns[`events.${name}`]);
  const arrays = trace.arrays.length;
  const step = from <= end ? 1 : -1;
  for (let e = from; e !== end; e += step) {
    const array = kind[e] === STORE || kind[e] === PARTIAL ? dst[e] : src[e];
    if (array < arrays && take(array, tile[e])) return;
  }
}

/** The first tile of each array that a block touches: {[array id]: tile}. */
function firstTouches(trace, launch, block) {
  return memo(trace, 'touches', `${launch}.${block}`, () => {
    const touches = {};
    let found = 0;
    const [first, last] = trace.blockRange(launch, block);
    const from = trace.eventRange(first)[0];
    eachTouch(trace, from, Math.min(trace.eventRange(last)[1], from + LOOK), (array, tile) => {
      if (touches[array] === undefined) {
        touches[array] = tile;
        found++;
      }
      return found === trace.arrays.length;
    });
    return touches;
  });
}

/** Which plane (batch · heads + head) of each array a block works on: {[array id]: plane}. */
export function planesOf(trace, launch, block) {
  return memo(trace, 'planes', `${launch}.${block}`, () => {
    const planes = {};
    const widest = Math.max(...trace.arrays.map((array) => array.planes));
    let lead = 0;
    if (launch >= 0 && widest > 1) {
      const touches = firstTouches(trace, launch, block);
      for (const array of trace.arrays) {
        if (touches[array.id] === undefined) continue;
        planes[array.id] = trace.box(array, touches[array.id]).plane;
        if (array.planes === widest) lead = planes[array.id];
      }
    }
    // Arrays that the block does not touch follow its head: query head h reads key-value head h // (heads / kv_heads).
    for (const array of trace.arrays) {
      if (planes[array.id] === undefined) planes[array.id] = Math.floor((lead * array.planes) / widest);
    }
    return planes;
  });
}

/** Which split each tile belongs to, where a launch has an axis named "split": {[array id]: Int32Array by tile}. */
export function splitsOf(trace) {
  return memo(trace, 'splits', '', () => {
    const splits = {};
    for (const launch of trace.launches) {
      const axis = launch.grid.find((part) => part.axis === 'split');
      if (!axis || axis.size < 2) continue;
      for (let block = 0; block < launch.blocks; block++) {
        const split = trace.axes(launch.index, block).find((part) => part.axis === 'split').index;
        const [first, last] = trace.blockRange(launch.index, block);
        if (last < first) continue;
        for (let e = trace.eventRange(first)[0]; e < trace.eventRange(last)[1]; e++) {
          const { array, tile, tiles } = trace.event(e);
          if (!array || array.space !== 'hbm') continue;
          const owner = (splits[array.id] ??= new Int32Array(array.tileCount).fill(-1));
          for (let t = tile; t < tile + tiles; t++) owner[t] = owner[t] === -1 || owner[t] === split ? split : -2;
        }
      }
    }
    for (const id of Object.keys(splits)) {
      if (splits[id].some((owner) => owner === -2)) delete splits[id]; // Q: every split reads it
    }
    return splits;
  });
}

/** The split of a tile, or -1. */
export function splitOf(trace, array, tile) {
  return array && array.kind === 'array' ? (splitsOf(trace)[array.id]?.[tile] ?? -1) : -1;
}

function largest(numbers, into) {
  if (!numbers) return into;
  const stride = Math.max(1, Math.floor(numbers.length / 4096));
  for (let i = 0; i < numbers.length; i += stride) {
    const size = Math.abs(numbers[i]);
    if (size > into && size < Infinity) into = size;
  }
  return into;
}

/** The size of number that gets the full tint of a node: the largest that the trace keeps of it (of a sample, when long). */
export function scaleOf(trace, node) {
  return memo(trace, 'scale', node.id, () => {
    let scale = 0;
    if (node.kind === 'array') scale = largest(trace.numbers(node.initial, node.initial < 0 ? 0 : node.planes * node.rows * node.cols), scale);
    const [first, last] = node.kind === 'slot' ? trace.launchRange(node.launch) : [0, trace.stepCount - 1];
    const stride = Math.max(1, Math.floor((last - first + 1) / 600));
    for (let step = first; step <= last; step += stride) {
      const [from, end] = trace.eventRange(step);
      for (let e = from; e < end; e++) {
        const event = trace.event(e);
        if (event.dst !== node.id || event.value < 0) continue;
        // A loaded tile keeps the tint it had in HBM.
        if (node.kind === 'slot' && event.array && event.kind === 'load' && event.array.role === 'input') return scaleOf(trace, event.array);
        scale = largest(trace.numbers(event.value, event.rows * event.cols), scale);
      }
    }
    return scale || 1;
  });
}

/** The tile of each array that a block is at: touched by this step, else last before it, else first in the block. */
export function placesOf(trace, launch, block, step) {
  if (launch < 0) return {};
  const places = {};
  const touches = firstTouches(trace, launch, block);
  let missing = Object.keys(touches).length;
  const take = (array, tile) => {
    if (places[array] === undefined) {
      places[array] = tile;
      missing--;
    }
    return missing === 0;
  };
  const [from, end] = trace.eventRange(step);
  eachTouch(trace, from, end, take);
  const begin = trace.eventRange(trace.blockRange(launch, block)[0])[0];
  // Far enough back for the tiles that a loop passes; what it left longer ago is where it began.
  if (missing) eachTouch(trace, from - 1, Math.max(begin, from - 512) - 1, take);
  return { ...touches, ...places };
}
