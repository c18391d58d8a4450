// Orders of the same steps: one block after another, or together: every block at work takes one step a tick. The second is
// a picture, not a timing: a GPU promises no order, and several blocks may share an SM.
//
//   serial(trace) -> Order                  position = step
//   together(trace, sms = 132) -> Order     position = tick; launches one after another, at most `sms` blocks at work
//
//   order.name                              'serial' | 'together'
//   order.length                            positions 0 ... length - 1; 0 is the start in both
//   order.at(position) -> {
//     launch                                -1 at the start
//     active: [{launch, block, step}]       blocks at work at this position and the step each has just done, by block
//     progress(block) -> step               last finished step of that block of `launch`, or -1
//     state(block) -> 'done'|'running'|'waiting'
//   }
//   order.progress(launch, block, position) -> step | -1      the same for any launch
//   order.positionOf(step) -> position
//   order.stepAt(position, prefer = {launch, block}) -> step  the preferred block's step when it is active, else the first's
//   To switch and keep one's place: other.positionOf(order.stepAt(position, focus)).

/** @typedef {{launch: number, block: number, step: number}} Active */
/** @typedef {import('./trace.js').Trace} Trace */

/**
 * @typedef {object} Order
 * @property {'serial'|'together'} name
 * @property {number} length
 * @property {(position: number) => {launch: number, active: Active[], progress: (block: number) => number,
 *   state: (block: number) => 'done'|'running'|'waiting'}} at
 * @property {(launch: number, block: number, position: number) => number} progress
 * @property {(step: number) => number} positionOf
 * @property {(position: number, prefer?: {launch: number, block: number} | null) => number} stepAt
 */

/** One block after another: a position is a step. @param {Trace} trace @returns {Order} */
export function serial(trace) {
  return order('serial', trace, trace.stepCount, trace.blockFirst.subarray(0, trace.blockFirst.length - 1));
}

/**
 * Every block at work takes a step a tick, at most `sms` of them, as if one to an SM; a block that ends makes room
 * for the next at the next tick, and a launch begins when the one before has ended.
 * @param {Trace} trace @returns {Order}
 */
export function together(trace, sms = 132) {
  const first = trace.blockFirst;
  const starts = new Uint32Array(first.length - 1);
  let tick = 1; // 0 is the start
  for (const launch of trace.launches) {
    const base = trace.blockBase[launch.index];
    const free = new Heap(Math.min(sms, launch.blocks), tick);
    for (let b = base; b < base + launch.blocks; b++) {
      starts[b] = free.least();
      const end = starts[b] + first[b + 1] - first[b];
      free.replaceLeast(end);
      tick = Math.max(tick, end);
    }
  }
  return order('together', trace, tick, starts);
}

/** An order is known by the position at which each block takes its first step. */
function order(name, trace, length, starts) {
  const first = trace.blockFirst, base = trace.blockBase;
  const lengthOf = (b) => first[b + 1] - first[b];
  const launchStart = trace.launches.map((launch) => (launch.blocks ? starts[base[launch.index]] : Infinity));
  const longest = trace.launches.map((launch) => {
    let most = 0;
    for (let b = base[launch.index]; b < base[launch.index] + launch.blocks; b++) most = Math.max(most, lengthOf(b));
    return most;
  });

  const progressOf = (b, position) => {
    const taken = Math.min(position - starts[b] + 1, lengthOf(b));
    return taken > 0 ? first[b] + taken - 1 : -1;
  };

  const launchAt = (position) => {
    if (position <= 0) return -1;
    let launch = -1;
    for (let n = 0; n < launchStart.length; n++) if (launchStart[n] <= position) launch = n;
    return launch;
  };

  /** Blocks start in the order of their numbers: those at work stand just before the first that has not begun. */
  const activeAt = (position, launch) => {
    const active = [];
    if (launch < 0) return active;
    const from = base[launch];
    let low = from, high = from + trace.launches[launch].blocks;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (starts[middle] <= position) low = middle + 1;
      else high = middle;
    }
    for (let b = low - 1; b >= from && starts[b] + longest[launch] > position; b--) {
      if (starts[b] + lengthOf(b) > position) active.push({ launch, block: b - from, step: first[b] + position - starts[b] });
    }
    return active.reverse();
  };

  return {
    name,
    length,
    at(position) {
      const launch = launchAt(position);
      return {
        launch,
        active: activeAt(position, launch),
        progress: (block) => (launch < 0 ? -1 : progressOf(base[launch] + block, position)),
        state: (block) => {
          const b = base[launch] + block;
          if (launch < 0 || starts[b] > position) return 'waiting';
          return starts[b] + lengthOf(b) > position ? 'running' : 'done';
        },
      };
    },
    progress: (launch, block, position) => progressOf(base[launch] + block, position),
    positionOf(step) {
      if (step <= 0) return 0;
      const b = trace.blockOfStep[step];
      return starts[b] + step - first[b];
    },
    stepAt(position, prefer = null) {
      const active = activeAt(position, launchAt(position));
      const chosen = active.find((one) => one.launch === prefer?.launch && one.block === prefer?.block) ?? active[0];
      return chosen ? chosen.step : 0;
    },
  };
}

/** The times at which places come free, the earliest on top. */
class Heap {
  constructor(size, time) {
    this.times = new Float64Array(size).fill(time);
  }

  least() {
    return this.times[0];
  }

  replaceLeast(time) {
    const { times } = this;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= times.length) break;
      if (child + 1 < times.length && times[child + 1] < times[child]) child++;
      if (times[child] >= time) break;
      times[at] = times[child];
      at = child;
    }
    times[at] = time;
  }
}
