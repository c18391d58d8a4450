// Whose keys: beside a text the arrows step the figure, while Space, Page Down, Home and End go on scrolling the text,
// except where the player itself has the focus.

const READING = ["PageDown", "PageUp", "Home", "End", " "];

/** @param {HTMLElement} host the player's; call it before the player listens */
export function keepReadingKeys(host) {
  addEventListener("keydown", (event) => {
    if (READING.includes(event.key) && !host.contains(document.activeElement)) event.stopImmediatePropagation();
  }, { capture: true });
}
