// The player in another page's frame: it is driven by messages, and says where it is. README, "In your slides".
//
//   to the player    {flashstep: "go", step}  {flashstep: "next" | "previous" | "play" | "pause"}
//                    {flashstep: "select", cell}    a cell as links name it, "li.2.0" or "K@0.3.1"; null clears
//   from the player  {flashstep: "at", step, last, label, caption}    when it opens, and at each step
//
// A step counts as it does in links. What is not one of these, or names what there is not, is ignored.

import { parseCell } from "./cellname.js";
import { caption, label } from "./words.js";

/** The page whose frame this is; null when it is open by itself. */
const page = window.parent === window ? null : window.parent;

/**
 * What a message asks for, as something to do to the player; null when it asks for nothing that can be.
 * @param {any} message
 * @param {any} player as `createPlayer` gives it
 * @returns {(() => void)|null}
 */
function wanted(message, { trace, state, actions, order, here, select }) {
  if (typeof message !== "object" || message === null) return null;
  switch (message.flashstep) {
    case "go": {
      const { step } = message;
      const there = Number.isInteger(step) && step >= 0 && step < order().length;
      return there ? () => actions.seek(step, false) : null;
    }
    case "next": return () => state.get().position < order().length - 1 && actions.next();
    case "previous": return () => actions.previous();
    case "play": return () => !state.get().playing && actions.toggle();
    case "pause": return () => state.set({ playing: false });
    case "select": {
      const { cell } = message;
      if (cell === null) return () => select(null);
      if (typeof cell !== "string") return null;
      return () => parseCell(trace, cell, here().launch) && select(cell);
    }
    default: return null;
  }
}

/** Messages that came before the recording was there. */
const early = [];
let opened = null;

function take(message) {
  if (!opened) early.push(message);
  else wanted(message, opened)?.();
}

function tell() {
  const { trace, state, order, here } = opened;
  const { step } = here();
  page.postMessage({ flashstep: "at", step: state.get().position, last: order().length - 1, label: label(trace, step), caption: caption(trace, step) }, "*");
}

if (page) {
  addEventListener("message", (event) => { if (event.source === page && early.length < 100) take(event.data); });
  document.addEventListener("playeropen", (event) => {
    opened = /** @type {CustomEvent} */ (event).detail;
    opened.state.subscribe((now, before) => {
      if (now.position !== before.position || now.order !== before.order) tell();
    });
    tell();
    for (const message of early.splice(0)) take(message);
  });
}
