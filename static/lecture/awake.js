// A projector must not go dark while somebody explains: the browser is asked to leave the screen on.

/** Asks now, and again whenever the page comes back to sight: a browser lets go of it when the page is hidden. */
export function stayAwake() {
  const ask = () => {
    if (document.visibilityState === "visible") navigator.wakeLock?.request("screen").catch(() => {}); // refused on a low battery
  };
  document.addEventListener("visibilitychange", ask);
  ask();
}
