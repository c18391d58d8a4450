// The state in the address: read from it, written to it, pushed on jumps, replaced while stepping.

import { keepAddress } from "../address.js";

/** What the player writes; every other parameter of the address belongs to the recording and is kept as it is. */
const OWN = ["step", "order", "focus", "cell"];

/**
 * odd: what step, order and focus say where they say nothing that could be.
 * @param {URLSearchParams} search
 * @returns {{step: number|null, order: "serial"|"together", focus: number, cell: string|null,
 *   odd: {step: string|null, order: string|null, focus: string|null}}}
 */
export function read(search) {
  const whole = (name) => (/^\s*\d{1,12}\s*$/.test(search.get(name) ?? "") ? Number(search.get(name)) : null);
  const order = search.get("order");
  return {
    step: whole("step"),
    order: order === "together" ? "together" : "serial",
    focus: whole("focus") ?? 0,
    cell: search.get("cell") || null,
    odd: {
      step: whole("step") === null ? search.get("step") || null : null,
      order: ["serial", "together"].includes(order) ? null : order || null,
      focus: whole("focus") === null ? search.get("focus") || null : null,
    },
  };
}

/**
 * The address that opens exactly this state.
 * @param {URL|Location} from the address now
 * @param {import("./state.js").State} state
 * @returns {URL}
 */
export function address(from, state) {
  const url = new URL(from.href);
  for (const name of OWN) url.searchParams.delete(name);
  url.searchParams.set("step", String(state.position));
  if (state.order !== "serial") url.searchParams.set("order", state.order);
  if (state.focus) url.searchParams.set("focus", String(state.focus));
  if (state.cell) url.searchParams.set("cell", state.cell);
  // URLSearchParams escapes "@", which every browser shows and accepts as it is in a query.
  url.search = url.search.replaceAll("%40", "@");
  return url;
}

/** @returns {string} the part of the address that says what was recorded */
function recordingPart(search) {
  const rest = new URLSearchParams(search);
  for (const name of [...OWN, "theme"]) rest.delete(name);
  for (const name of [...rest.keys()]) if (name.startsWith("my-")) rest.delete(name); // a lesson's form about other sizes
  rest.sort();
  return rest.toString();
}

/**
 * Keep the address and the state equal.
 * @param {ReturnType<typeof import("./state.js").createState>} state
 * @param {{restore: (found: ReturnType<typeof read>) => void, wrong?: boolean}} options
 *   wrong: the address asks for what is not there; whoever copies it or records from it should find what is shown
 */
export function followState(state, { restore, wrong }) {
  const recording = recordingPart(location.search);
  keepAddress(state, { keys: ["position", "order", "focus", "cell"], addressOf: (now) => address(location, now), wrong });
  addEventListener("popstate", () => {
    if (recordingPart(location.search) !== recording) location.reload(); // the page opens it as it would a link
    else restore(read(new URLSearchParams(location.search)));
  });
}
