// The page's place in its address: step, cell, slot, engine. Stepping replaces it, a jump pushes it.

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
export function address({ step, slot, cell, engine, fmad }) {
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

/** Browsers refuse many changes of the address in a short time, so replacements are spaced; the newest is written in the end. */
export function createAddress(state, interval = 300) {
  let timer = 0;
  let due = null;
  function write() {
    clearTimeout(timer);
    timer = 0;
    if (due === null) return;
    const { how, now } = due;
    due = null;
    const url = address(now);
    if (url.href === location.href) return;
    history[how === "jump" ? "pushState" : "replaceState"](null, "", url);
  }
  state.subscribe((now, before, how) => {
    if (how === "restore") return;
    if (how === "jump") {
      write(); // what is still to be written belongs to the place that is left
      due = { how, now };
      write();
      return;
    }
    due = { how, now };
    if (!timer) timer = setTimeout(write, interval);
  });
  for (const type of ["linkwanted", "click", "submit"]) document.addEventListener(type, write, { capture: true });
  addEventListener("pagehide", write);
  addEventListener("popstate", () => { due = null; });
  return { flush: write };
}
