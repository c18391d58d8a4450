// The page's place in its address: step, cell, slot, engine. Stepping replaces it, a jump pushes it.

import { keepAddress } from "../address.js";

const OWN = ["step", "slot", "cell", "engine", "fmad", "order", "focus"];

/**
 * @param {URLSearchParams} search
 * @returns {{step: number|null, slot: string|null, cell: string|null, engine: string|null, fmad: boolean, together: boolean, focus: number}}
 */
export function read(search) {
  const step = search.get("step") ?? "";
  return {
    step: /^\d{1,9}$/.test(step) ? Number(step) : null,
    slot: search.get("slot"),
    cell: search.get("cell"),
    engine: search.get("engine"),
    fmad: search.get("fmad") !== "false",
    together: search.get("order") === "together",
    focus: Number(search.get("focus")) || 0,
  };
}

/** The address of a state: what was asked stays, the page's own part is written anew. */
function address({ step, slot, cell, engine, fmad }) {
  const url = new URL(location.href);
  for (const name of OWN) url.searchParams.delete(name);
  url.searchParams.set("engine", engine);
  if (!fmad) url.searchParams.set("fmad", "false");
  url.searchParams.set("step", String(step));
  if (cell) url.searchParams.set("cell", cell);
  else if (slot) url.searchParams.set("slot", slot);
  url.search = url.search.replaceAll("%40", "@");
  return url;
}

export const createAddress = (state) => keepAddress(state, { keys: ["step", "slot", "cell", "engine", "fmad"], addressOf: address });
