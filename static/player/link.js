// The place that a link asks for, in this recording: what is there, and a sentence for each thing that is not.

import { readCell } from "./cellname.js";
import { clamp } from "./moves.js";

/**
 * @param {any} trace
 * @param {(name: "serial"|"together") => import("./order.js").Order} orderOf
 * @param {ReturnType<typeof import("./url.js").read>} asked
 * @returns {{place: {position: number, order: "serial"|"together", focus: number, cell: string|null}, notice: string}}
 */
export function placed(trace, orderOf, asked) {
  const order = orderOf(asked.order);
  const blocks = Math.max(...trace.launches.map((launch) => launch.blocks));
  const noBlock = asked.focus >= blocks;
  const noCell = asked.cell === null ? "" : cellFault(trace, asked.cell);
  const faults = [
    stepFault(asked, order.length - 1),
    asked.odd.order && `The link asks for the order “${asked.odd.order}”, which is neither “serial” nor “together”; blocks are shown one after another.`,
    asked.odd.focus && `The link follows block “${asked.odd.focus}”, which is no block's number; this is block 0.`,
    noBlock && `The link follows block ${asked.focus}; ${blocks === 1 ? "there is only block 0" : `blocks end at ${blocks - 1}`}, so this is block 0.`,
    noCell && `${noCell}, so nothing is selected.`,
  ];
  return {
    place: { position: clamp(order, asked.step ?? 0), order: asked.order, focus: noBlock ? 0 : asked.focus, cell: noCell ? null : asked.cell },
    notice: faults.filter(Boolean).join(" "),
  };
}

function stepFault({ step, odd }, last) {
  if (step !== null && step > last) return `The link asks for step ${step}; this recording ends at step ${last}, shown here.`;
  if (odd.step === null) return "";
  const why = /^\s*-\d+\s*$/.test(odd.step) ? "which is below 0" : "which is no whole number";
  return `The link asks for step “${odd.step}”, ${why}; this is the start.`;
}

/** Why no launch has a cell of that name; empty where one has. */
function cellFault(trace, text) {
  const cell = readCell(text);
  const what = `The link selects “${text}”`;
  if (cell === null) return `${what}, which names no cell`;
  const nodes = trace.nodes.filter((node) => node.name === cell.name && node.kind === (cell.plane === undefined ? "slot" : "array"));
  if (!nodes.length) return `${what}; there is no ${cell.plane === undefined ? "slot" : "array"} ${cell.name}`;
  const inside = (node) => cell.row < node.rows && cell.col < node.cols && (cell.plane ?? 0) < (node.planes ?? 1);
  if (nodes.some(inside)) return "";
  const { name, rows, cols, planes = 1 } = nodes[0];
  const size = [planes > 1 ? `planes 0 to ${planes - 1}` : "", `rows 0 to ${rows - 1}`, `columns 0 to ${cols - 1}`];
  return `${what}; ${name} has ${size.filter(Boolean).join(", ")}`;
}
