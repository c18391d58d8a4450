// Keeps the address equal to a page's state: a step replaces it, a jump pushes it, a restoration leaves it.

const SOON = 40; // milliseconds: the frame comes first

/**
 * Browsers refuse more than about 100 changes of the address in 30 seconds, so replacements are spaced and what is refused
 * is tried again; the newest is always written in the end, before the page is left, and before somebody copies it or records from it.
 * @param {{get: () => any, subscribe: (listener: (now: any, before: any, how: "step"|"jump"|"restore") => void) => void}} state
 * @param {{keys: string[], addressOf: (state: any) => URL, wrong?: boolean, interval?: number}} options
 *   keys: the parts of the state that the address shows; wrong: the address asks for what is not there, so it is due at once
 */
export function keepAddress(state, { keys, addressOf, wrong = false, interval = 320 }) {
  let pending = wrong;
  let timer = 0;
  let written = 0;

  const write = (method, now) => {
    try {
      history[method](null, "", addressOf(now));
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
    if (how === "restore" || keys.every((key) => now[key] === before[key])) return;
    // A frame shares its page's history: the Back button of somebody's slides should not step a figure.
    if (how === "jump" && window.parent === window) {
      if (pending && write("replaceState", before)) pending = false;
      if (!write("pushState", now)) pending = true;
      else return;
    }
    pending = true;
    // Never in the midst of a step: changing the address costs as much as drawing it.
    if (!timer) timer = setTimeout(flush, Math.max(SOON, interval - (performance.now() - written)));
  });
  addEventListener("pagehide", flush);
  document.addEventListener("visibilitychange", () => document.visibilityState === "hidden" && flush());
  for (const type of ["linkwanted", "click", "submit"]) document.addEventListener(type, flush, { capture: true });
  addEventListener("popstate", () => {
    clearTimeout(timer);
    timer = 0;
    pending = false; // what was still to be written belongs to the place that is left
  });
}
