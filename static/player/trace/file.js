// The file: a length, a JSON header and raw columns, as safetensors lays them out. Typed arrays over the file's own bytes.

import { demand, isCount, refuse } from './demand.js';

const COLUMNS = {
  'events.kind': [Uint8Array, 'U8'],
  'events.src': [Uint16Array, 'U16'],
  'events.dst': [Uint16Array, 'U16'],
  'events.tile': [Uint32Array, 'U32'],
  'events.tiles': [Uint16Array, 'U16'],
  'events.rows': [Uint16Array, 'U16'],
  'events.cols': [Uint16Array, 'U16'],
  'events.elements': [Uint32Array, 'U32'],
  'events.flops': [Uint32Array, 'U32'],
  'events.value': [Int32Array, 'I32'],
  'steps.kind': [Uint16Array, 'U16'],
  'steps.block': [Uint32Array, 'U32'],
  'steps.loop': [Uint16Array, 'U16'],
  'steps.events': [Uint32Array, 'U32'],
  'steps.caption': [Uint16Array, 'U16'],
  'steps.args': [Uint32Array, 'U32'],
  args: [Float32Array, 'F32'],
  values: [Float32Array, 'F32'],
};

/**
 * The description and the columns of a trace file, each column of the length that it claims.
 * @param {ArrayBuffer} buffer
 * @returns {{meta: any, columns: Record<string, any>}}
 */
export function readFile(buffer) {
  const { header, start } = readHeader(buffer);
  const columns = {};
  for (const [name, [type, dtype]] of Object.entries(COLUMNS)) {
    columns[name] = readColumn(buffer, header, start, name, type, dtype);
  }
  const text = header.__metadata__?.flashstep;
  demand(typeof text === 'string', 'This file is no Flashstep trace: its header does not describe one.');
  let meta;
  try {
    meta = JSON.parse(text);
  } catch {
    refuse('The trace is damaged: its description is not JSON.');
  }
  return { meta, columns };
}

function readHeader(buffer) {
  demand(buffer.byteLength >= 8, 'This is no trace: the file ends before its header.');
  const length = new DataView(buffer).getBigUint64(0, true);
  demand(length <= BigInt(buffer.byteLength - 8), 'The trace is cut short: the file ends within its header.');
  const start = 8 + Number(length);
  let header;
  try {
    header = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array(buffer, 8, Number(length))));
  } catch {
    refuse('This is no trace: its header is not JSON.');
  }
  demand(header !== null && typeof header === 'object', 'This is no trace: its header is not a JSON object.');
  return { header, start };
}

function readColumn(buffer, header, start, name, type, dtype) {
  const entry = header[name];
  demand(entry && typeof entry === 'object', `This file is no Flashstep trace: it has no column ${name}.`);
  demand(entry.dtype === dtype, `The trace is damaged: the column ${name} should hold ${dtype}.`);
  const [from, to] = Array.isArray(entry.data_offsets) ? entry.data_offsets : [];
  const known = Number.isInteger(from) && Number.isInteger(to) && from >= 0 && from <= to;
  demand(known, `The trace is damaged: the column ${name} does not say where it stands.`);
  demand(start + to <= buffer.byteLength, `The trace is cut short: the column ${name} ends after the file.`);
  const shape = Array.isArray(entry.shape) ? entry.shape : [];
  const size = shape.reduce((product, side) => product * (isCount(side) ? side : NaN), 1);
  const width = name === 'steps.loop' ? 2 : 1;
  const shaped = shape.length === width && (width === 1 || shape[1] === width);
  const fits = shaped && size * type.BYTES_PER_ELEMENT === to - from;
  demand(fits, `The trace is damaged: the column ${name} has not the length it claims.`);
  // Writers align columns, as safetensors does; one that did not is still right, and costs a copy.
  if ((start + from) % type.BYTES_PER_ELEMENT) return new type(buffer.slice(start + from, start + to));
  return new type(buffer, start + from, size);
}
