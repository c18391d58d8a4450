// What a comparison left, as the page reads it: the verdict and every compared number. Nothing here knows of drawing.
//
//   read(arrayBuffer, trace) -> Comparison         throws Error with one sentence
//   comparison.verdict                             the server's JSON: engine, ok, worst, first_divergence, device, place, note, …
//   comparison.entries                             every compared slot: see Entry, in the order of steps, the arrays at the end last
//   comparison.at(t) -> Entry[]                    what was compared after step t (at the last step: and the arrays)
//   comparison.find(t, key) -> Entry | null        key: "li" for a slot, "O@" for an array
//   comparison.markOf(first, last) -> "agree"|"differ"|null     of all steps first … last
//   comparison.maxUlp[t], comparison.share[t]      the largest over the slots of step t; NaN where nothing was compared
//   comparison.launches -> [{launch, blocks: [{start, end, sm}]}]   nanoseconds after the first start

const TYPES = { F32: Float32Array, F64: Float64Array, I32: Int32Array };

/**
 * @typedef {object} Entry
 * @property {string} key      "li", or "O@" for an array at the end
 * @property {string} slot     the name
 * @property {boolean} array
 * @property {number} step     an array stands with the last step
 * @property {number} rows     of an array: planes · rows
 * @property {number} cols
 * @property {Float32Array} got
 * @property {Float32Array} want
 * @property {Float64Array} allowed
 * @property {number} maxAbs
 * @property {number} maxRel
 * @property {number} maxUlp
 * @property {number} used     the largest share of what is allowed
 * @property {number} nonfinite
 * @property {{row: number, col: number}|null} first   the first element that differs
 */

export class Comparison {
  constructor(buffer, trace) {
    const { tensors, verdict } = unpack(buffer);
    this.verdict = verdict;
    const last = trace.stepCount - 1;
    const { index, stats, wrong, got, want, allowed } = tensors;
    /** @type {Entry[]} */
    this.entries = [];
    /** @type {Map<number, Entry[]>} */
    this.byStep = new Map();
    const worst = new Int8Array(trace.stepCount); // 0 not compared, 1 agrees, 2 differs
    this.maxUlp = new Float64Array(trace.stepCount).fill(NaN);
    this.share = new Float64Array(trace.stepCount).fill(NaN);
    for (let n = 0; n < index.length / 5; n += 1) {
      const [raw, slot, rows, cols, from] = index.subarray(5 * n, 5 * n + 5);
      const step = raw < 0 ? last : raw;
      const name = verdict.slots[slot];
      const [maxAbs, maxRel, maxUlp, used] = stats.subarray(4 * n, 4 * n + 4);
      const [nonfinite, row, col] = wrong.subarray(3 * n, 3 * n + 3);
      const part = (all) => all.subarray(from, from + rows * cols);
      const entry = {
        key: raw < 0 ? `${name}@` : name, slot: name, array: raw < 0, step, rows, cols, maxAbs, maxRel, maxUlp, used, nonfinite,
        got: part(got), want: part(want), allowed: part(allowed), first: row < 0 ? null : { row, col },
      };
      this.entries.push(entry);
      if (!this.byStep.has(step)) this.byStep.set(step, []);
      this.byStep.get(step).push(entry);
      worst[step] = Math.max(worst[step], entry.first ? 2 : 1);
      if (!(this.maxUlp[step] >= maxUlp)) this.maxUlp[step] = maxUlp;
      if (!(this.share[step] >= used)) this.share[step] = used;
    }
    // How many steps up to t were compared, and how many differ: a group's mark is two subtractions.
    this.compared = new Uint32Array(trace.stepCount + 1);
    this.differing = new Uint32Array(trace.stepCount + 1);
    for (let t = 0; t < trace.stepCount; t += 1) {
      this.compared[t + 1] = this.compared[t] + (worst[t] > 0 ? 1 : 0);
      this.differing[t + 1] = this.differing[t] + (worst[t] > 1 ? 1 : 0);
    }
    this.launches = verdict.launches.map((launch, n) => {
      const times = tensors[`times.${n}`] ?? new Float64Array(0);
      const blocks = [];
      for (let b = 0; b < times.length / 3; b += 1) blocks.push({ start: times[3 * b], end: times[3 * b + 1], sm: times[3 * b + 2] });
      return { launch, blocks };
    });
  }

  at(t) {
    return this.byStep.get(t) ?? [];
  }

  find(t, key) {
    return this.at(t).find((entry) => entry.key === key) ?? null;
  }

  markOf(first, last) {
    if (this.differing[last + 1] > this.differing[first]) return "differ";
    return this.compared[last + 1] > this.compared[first] ? "agree" : null;
  }
}

/** @returns {Comparison} */
export function read(buffer, trace) {
  return new Comparison(buffer, trace);
}

function unpack(buffer) {
  const length = buffer.byteLength >= 8 ? Number(new DataView(buffer).getBigUint64(0, true)) : Infinity;
  if (8 + length > buffer.byteLength) throw new Error("The comparison arrived incomplete; ask for it again.");
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const tensors = {};
  for (const [name, { dtype, data_offsets: [from, to] }] of Object.entries(header).filter(([key]) => key !== "__metadata__")) {
    tensors[name] = new TYPES[dtype](buffer.slice(8 + length + from, 8 + length + to));
  }
  return { tensors, verdict: JSON.parse(header.__metadata__.verdict) };
}

const float = new Float32Array(1);
const bits = new Uint32Array(float.buffer);
const TINY = 2 ** -126;

/** The distance from a float32's size to the next larger: one ULP. Below the normal numbers, that of the smallest normal. */
export function ulp(x) {
  float[0] = Math.max(Math.abs(x), TINY);
  bits[0] += 1;
  const next = float[0];
  bits[0] -= 1;
  return next - float[0];
}

/**
 * One element of an entry, with what lies between the two numbers.
 * @param {Entry} entry
 */
export function element(entry, row, col) {
  const n = row * entry.cols + col;
  const got = entry.got[n], want = entry.want[n], allowed = entry.allowed[n];
  const finite = Number.isFinite(got) && Number.isFinite(want);
  const same = Object.is(got, want) || got === want || (Number.isNaN(got) && Number.isNaN(want));
  const gap = same ? 0 : finite ? Math.abs(got - want) : NaN;
  const share = gap === 0 ? 0 : finite ? (allowed > 0 ? gap / allowed : Infinity) : Infinity;
  return { got, want, allowed, gap, ulps: gap === 0 ? 0 : gap / ulp(want), share, ok: same || (finite && gap <= allowed) };
}
