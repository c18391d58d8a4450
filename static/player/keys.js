// The keyboard: which keys do what, and when they are left alone.

/** What the help lists; the second column finishes "this key …". */
export const HELP = [
  [["→", "Page down"], "the next step"],
  [["←", "Page up"], "the step before"],
  [["Shift", "→"], "the next tile: next loop iteration, or next block"],
  [["Shift", "←"], "the tile before"],
  [["Home"], "the start"],
  [["End"], "the last step"],
  [["Space"], "play or pause"],
  [["Esc"], "clear the selected cell"],
  [["?"], "this list"],
];

const TYPING = "input:not([type='range'], [type='checkbox'], [type='radio']), textarea, [contenteditable]:not([contenteditable='false']), [role='textbox']";
const PRESSED_BY_SPACE = "button, a, summary, input[type='checkbox'], [role='button'], [role='tab'], [role='treeitem'], [role='tree']";
/** The keys that sliders, radio buttons and lists of choices leave to the page; by the others they move by themselves. */
const LEFT_BY = { INPUT: ["PageDown", "PageUp", " ", "Escape", "?"], SELECT: ["PageDown", "PageUp", "ArrowRight", "ArrowLeft", "Escape", "?"] };

/**
 * Which action a key press asks for, or null when the press belongs to someone else.
 * @param {KeyboardEvent} event
 * @returns {string|null}
 */
export function actionOf(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return null;
  const target = event.target instanceof Element ? event.target : document.body;
  if (target.closest(TYPING) || dialogOpen()) return null;
  if (target.matches("input[type='range'], input[type='radio'], select") && !LEFT_BY[target.tagName].includes(event.key)) return null;
  switch (event.key) {
    case "ArrowRight": return event.shiftKey ? "nextTile" : "next";
    case "ArrowLeft": return event.shiftKey ? "previousTile" : "previous";
    case "PageDown": return event.shiftKey ? null : "next"; // what a lecturer's clicker sends
    case "PageUp": return event.shiftKey ? null : "previous";
    case "Home": return event.shiftKey ? null : "first";
    case "End": return event.shiftKey ? null : "last";
    case " ": return event.shiftKey || target.closest(PRESSED_BY_SPACE) ? null : "toggle";
    case "Escape": return "clear";
    case "?": return "help";
    default: return null;
  }
}

/** Is a dialog open? They all stand directly in the body or in #player: to search the whole page costs each step. */
function dialogOpen() {
  const open = (node) => node instanceof HTMLDialogElement && node.open;
  return [...document.body.children, ...(document.getElementById("player")?.children ?? [])].some(open);
}

/**
 * @param {Record<string, () => void>} actions by the names that `actionOf` gives
 */
export function listen(actions) {
  document.addEventListener("keydown", (event) => {
    const action = actionOf(event);
    if (action === null || !actions[action]) return;
    event.preventDefault();
    actions[action]();
  });
}
