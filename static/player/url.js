// The state in the address: read from it, written to it, pushed on jumps, replaced while stepping.

/** What the player writes; every other parameter of the address belongs to the recording and is kept as it is. */
export const OWN = ["step", "order", "focus", "cell"];

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
export function recordingPart(search) {
  const rest = new URLSearchParams(search);
  for (const name of [...OWN, "theme"]) rest.delete(name);
  rest.sort();
  return rest.toString();
}

/**
 * Keep the address and the state equal.
 * Browsers refuse more than about 100 changes of the address in 30 seconds, so replacements are spaced;
 * the newest is always written in the end, and before the page is left.
 * @param {ReturnType<typeof import("./state.js").createState>} state
 * @param {{restore: (found: ReturnType<typeof read>) => void, wrong?: boolean, interval?: number}} options
 *   wrong: the address asks for what is not there; whoever copies it or records from it should find what is shown
 */
export function followState(state, { restore, wrong = false, interval = 320 }) {
  let pending = wrong;
  let timer = 0;
  let written = 0;
  const recording = recordingPart(location.search);

  const write = (method, now) => {
    try {
      history[method](null, "", address(location, now));
      written = performance.now();
      return true;
    } catch {
      return false; // refused for being too many: the timer tries again
    }
  };
  const flush = () => {
    clearTimeout(timer);
    timer = 0;
    if (!pending) return;
    if (write("replaceState", state.get())) pending = false;
    else timer = setTimeout(flush, 1000);
  };

  state.subscribe((now, before, how) => {
    const same = now.position === before.position && now.order === before.order && now.focus === before.focus &&
      now.cell === before.cell;
    if (same || how === "restore") return;
    if (how === "jump") {
      if (pending && write("replaceState", before)) pending = false;
      if (!write("pushState", now)) pending = true;
      else return;
    }
    pending = true;
    if (timer) return;
    const wait = interval - (performance.now() - written);
    if (wait <= 0) flush();
    else timer = setTimeout(flush, wait);
  });
  addEventListener("pagehide", flush);
  document.addEventListener("visibilitychange", () => document.visibilityState === "hidden" && flush());
  addEventListener("popstate", () => {
    clearTimeout(timer);
    timer = 0;
    pending = false;
    if (recordingPart(location.search) !== recording) {
      location.reload(); // another recording: the page opens it as it would a link
      return;
    }
    restore(read(new URLSearchParams(location.search)));
  });
  return {
    flush,
  };
}
