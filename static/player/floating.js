// A panel that can be lifted out of its column by a grip, moved over the page, and docked back. Its place is remembered.

const STORE = "flashstep.steps";
const KEY_MOVES = { ArrowLeft: [-16, 0], ArrowRight: [16, 0], ArrowUp: [0, -16], ArrowDown: [0, 16] };
const LEAST = 200; // pixels of its height that stay in the window
const EDGE = 8;
const LIFT = 6; // pixels of dragging before the panel leaves its column

function remembered() {
  try {
    const kept = JSON.parse(localStorage.getItem(STORE) ?? "null");
    return kept && Number.isFinite(kept.left) && Number.isFinite(kept.top) ? kept : null;
  } catch {
    return null; // storage forbidden or spoilt: start docked
  }
}

function remember(place) {
  try {
    localStorage.setItem(STORE, JSON.stringify(place));
  } catch { /* storage forbidden: the panel starts docked next time */ }
}

/**
 * @param {HTMLElement} panel
 * @param {HTMLElement} grip      drag to move; double-click or Enter floats and docks; arrows move while floating
 * @param {HTMLElement} dockButton
 * @param {(floating: boolean) => void} changed
 */
export function makeFloating(panel, grip, dockButton, changed) {
  let place = null;

  /** Wholly inside the window: further down it is lower. */
  function put(left, top) {
    const inside = (x, most) => Math.max(0, Math.min(most, x));
    place = { left: inside(left, innerWidth - panel.offsetWidth), top: inside(top, innerHeight - LEAST - EDGE) };
    panel.style.left = `${place.left}px`;
    panel.style.top = `${place.top}px`;
    panel.style.maxHeight = `${innerHeight - place.top - EDGE}px`;
  }
  function float(left, top) {
    const was = place !== null;
    if (!was) panel.classList.add("floating");
    put(left, top);
    if (!was) changed(true);
  }
  function dock() {
    if (place === null) return;
    place = null;
    panel.classList.remove("floating");
    panel.style.left = panel.style.top = panel.style.maxHeight = "";
    remember({ docked: true });
    changed(false);
  }
  function toggle() {
    if (place !== null) dock();
    else {
      const box = panel.getBoundingClientRect();
      float(box.left + 24, box.top + 24);
      remember(place);
    }
  }

  grip.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const box = panel.getBoundingClientRect();
    const dx = event.clientX - box.left;
    const dy = event.clientY - box.top;
    const from = [event.clientX, event.clientY];
    grip.setPointerCapture(event.pointerId);
    const move = (e) => {
      if (place === null && Math.hypot(e.clientX - from[0], e.clientY - from[1]) < LIFT) return;
      float(e.clientX - dx, e.clientY - dy);
    };
    const end = () => {
      grip.removeEventListener("pointermove", move);
      if (place !== null) remember(place);
    };
    grip.addEventListener("pointermove", move);
    grip.addEventListener("pointerup", end, { once: true });
    grip.addEventListener("pointercancel", end, { once: true });
  });
  grip.addEventListener("dblclick", toggle);
  grip.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") toggle();
    else if (event.key in KEY_MOVES && place !== null) {
      const [dx, dy] = KEY_MOVES[event.key];
      put(place.left + dx, place.top + dy);
      remember(place);
    } else return;
    event.preventDefault();
  });
  dockButton.addEventListener("click", dock);
  addEventListener("resize", () => { if (place !== null) put(place.left, place.top); });

  const kept = remembered();
  if (kept && !kept.docked && matchMedia("(min-width: 900px)").matches) queueMicrotask(() => float(kept.left, kept.top));
  return { dock, isFloating: () => place !== null };
}
