// The steps and events of a trace as a whole: that they are in order and stay within it, and where each block begins.

import { BARRIER, LOAD, NONE, PARTIAL, STORE } from './codes.js';
import { demand, refuse } from './demand.js';

/** @typedef {import('./nodes.js').Launch} Launch */

/**
 * One pass over the steps: their order, and where each block begins.
 * @param {{columns: Record<string, any>, meta: any, launches: Launch[], stepCount: number, eventCount: number}} trace
 * @returns {{blockBase: number[], blockFirst: Uint32Array, blockOfStep: Uint32Array}} as Trace keeps them
 */
export function indexBlocks(trace) {
  const { columns, meta, launches, stepCount, eventCount } = trace;
  const kinds = columns['steps.kind'], blocks = columns['steps.block'];
  for (const name of ['block', 'events', 'caption', 'args']) {
    demand(columns[`steps.${name}`].length === stepCount, `The trace is damaged: steps.${name} should have ${stepCount} rows.`);
  }
  demand(columns['steps.loop'].length === 2 * stepCount, `The trace is damaged: steps.loop should have ${stepCount} rows.`);
  for (const name of Object.keys(columns)) {
    const event = name.startsWith('events.');
    demand(!event || columns[name].length === eventCount, `The trace is damaged: ${name} should have ${eventCount} rows.`);
  }
  demand(stepCount > 0, 'The trace is damaged: it has no start.');
  const launchOf = meta.steps.map((step) => step.launch);
  const started = kinds[0] < launchOf.length && launchOf[kinds[0]] === -1 && columns['steps.events'][0] === 0;
  demand(started, 'The trace is damaged: its first step is not the start.');
  ascending(columns['steps.events'], eventCount, 'events');
  ascending(columns['steps.args'], columns.args.length, 'arguments');

  // Every block of a launch takes steps, one block after another: a block's steps are one run.
  const count = launches.reduce((sum, launch) => sum + launch.blocks, 0);
  demand(count < stepCount, 'The trace is damaged: it has fewer steps than blocks.');
  const blockBase = [];
  let base = 0;
  for (const launch of launches) {
    blockBase.push(base);
    base += launch.blocks;
  }
  const blockFirst = new Uint32Array(count + 1);
  const blockOfStep = new Uint32Array(stepCount);
  const captions = columns['steps.caption'], spoken = meta.captions.length;
  // Sentences are made only when they are needed: this loop runs once a step.
  const damaged = (t, what) => refuse(`The trace is damaged: step ${t} ${what}.`);
  const loop = columns['steps.loop'], depths = meta.steps.map((step) => step.loops.length);
  for (let t = 0; t < stepCount; t++) {
    if (kinds[t] >= launchOf.length) damaged(t, 'is of no known kind');
    if (captions[t] >= spoken) damaged(t, 'has a caption that is not listed');
    const depth = loop[2 * t] === NONE ? 0 : loop[2 * t + 1] === NONE ? 1 : 2;
    if (depth !== depths[kinds[t]] || (depth === 0 && loop[2 * t + 1] !== NONE)) damaged(t, 'has not the loops of its kind');
  }
  let current = -1;
  for (let t = 1; t < stepCount; t++) {
    const launch = launchOf[kinds[t]];
    if (launch < 0) damaged(t, 'belongs to no launch');
    if (blocks[t] >= launches[launch].blocks) damaged(t, 'belongs to a block outside its grid');
    const block = blockBase[launch] + blocks[t];
    blockOfStep[t] = block;
    if (block === current) continue;
    if (block !== current + 1) damaged(t, 'is out of order');
    blockFirst[block] = t;
    current = block;
  }
  demand(current === count - 1, 'The trace is damaged: a block has no steps.');
  blockFirst[count] = stepCount;
  return { blockBase, blockFirst, blockOfStep };
}

/** One pass over the events, so that nothing later can read beyond a column. */
export function checkEvents(trace) {
  const { columns, meta, nodes, arrays, stepCount } = trace;
  const kind = columns['events.kind'], src = columns['events.src'], dst = columns['events.dst'];
  const tile = columns['events.tile'], tiles = columns['events.tiles'], value = columns['events.value'];
  const rows = columns['events.rows'], cols = columns['events.cols'], ends = columns['steps.events'];
  const stepKind = columns['steps.kind'], launches = meta.steps.map((step) => step.launch);
  const pool = columns.values.length, none = arrays.length;
  const damaged = (e, what) => refuse(`The trace is damaged: event ${e} ${what}.`);
  for (let t = 1, e = 0; t < stepCount; t++) {
    const launch = launches[stepKind[t]];
    for (; e < ends[t]; e++) {
      const verb = kind[e];
      if (verb === BARRIER) continue;
      if (verb > PARTIAL) damaged(e, 'is of no known kind');
      const stores = verb === STORE || verb === PARTIAL;
      const array = stores ? dst[e] : src[e], slot = stores ? src[e] : dst[e];
      if (slot < none || slot >= nodes.length) damaged(e, 'has no slot');
      const node = nodes[slot];
      if (node.launch !== launch) damaged(e, 'touches a slot of another launch');
      if (rows[e] > node.rows || cols[e] > node.cols) damaged(e, `writes more than ${node.name} holds`);
      if (value[e] < -1 || (value[e] >= 0 && value[e] + rows[e] * cols[e] > pool)) {
        damaged(e, 'has numbers beyond the pool of values');
      }
      if (array < none) {
        const size = tilesSize(arrays[array], tile[e], tiles[e]);
        if (size < 0) damaged(e, `touches a tile that ${arrays[array].name} has not`);
        if ((verb === LOAD || stores) && size !== rows[e] * cols[e]) damaged(e, 'is not of the size of its tiles');
      } else if (verb === LOAD || stores || array !== NONE) damaged(e, 'has no array');
    }
  }
}

/** Elements of a run of tiles; -1 when it leaves its plane, or is not one run of rows. */
function tilesSize({ tileCount, rowTiles, colTiles, rowEdges, colEdges }, tile, tiles) {
  if (tile + tiles > tileCount) return -1;
  if (tiles === 0) return 0;
  const within = tile % (rowTiles * colTiles);
  const row = Math.floor(within / colTiles), col = within - row * colTiles;
  if (tiles > 1 && (colTiles > 1 || row + tiles > rowTiles)) return -1;
  return (rowEdges[row + tiles] - rowEdges[row]) * (colEdges[col + 1] - colEdges[col]);
}

function ascending(ends, last, what) {
  let before = 0;
  for (let t = 0; t < ends.length; t++) {
    if (ends[t] < before) refuse(`The trace is damaged: the ${what} of step ${t} end before they begin.`);
    before = ends[t];
  }
  demand(before === last, `The trace is damaged: its steps hold ${before} ${what}, and there are ${last}.`);
}
