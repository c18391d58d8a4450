// A player in a host: ties state, figure, panels, keys and address together over one trace.

import { createCaption } from "./caption.js";
import { cellName, parseCell } from "./cellname.js";
import { createControls } from "./controls.js";
import { el } from "./dom.js";
import { createExplainer } from "./explainer.js";
import { createFigure } from "./figure/figure.js";
import { createHelp } from "./help.js";
import { listen } from "./keys.js";
import { placed } from "./link.js";
import * as moves from "./moves.js";
import { createOrderSwitch } from "./orderswitch.js";
import { serial, together } from "./order.js";
import { createCarries } from "./panels/carries.js";
import { createLedger } from "./panels/ledger.js";
import { createTabs } from "./panels/source.js";
import { Replay } from "./replay.js";
import { createSave } from "./save.js";
import { createState } from "./state.js";
import { createStepList } from "./steplist.js";
import * as url from "./url.js";
import { placedCaption } from "./words.js";

const STEP_MS = 1100; // one step at speed 1
const HURRIED_MS = 100; // steps closer than this are not flown

/** Regions that a small player leaves out; figure, caption and controls every player has. */
const REGIONS = ["steps", "order", "explain", "tabs", "ledger"];

/** The regions of the page; CSS places them. */
function layout(host, regions) {
  const part = (name, label) => el("section", { class: name, "aria-label": label });
  const parts = {
    steps: part("steps", "Steps"),
    order: part("order", "Order of the blocks"),
    figure: part("figure-host", "Figure"),
    explain: part("explain", "Where did this number come from?"),
    caption: part("caption", "Caption"),
    controls: part("controls", "Controls"),
    tabs: part("tabs-host", "Source and carries"),
    carries: el("div", { class: "carries-host" }),
    ledger: part("ledger-host", "Requested traffic"),
  };
  const has = (name) => regions.includes(name);
  const shown = (name, node) => (has(name) ? [node] : []);
  const panels = [...shown("tabs", foldable(parts.tabs, "Source and carries")), ...shown("explain", parts.explain), ...shown("ledger", foldable(parts.ledger, "Requested traffic"))];
  host.replaceChildren(el("div", { class: `player${REGIONS.every(has) ? "" : " small"}` },
    ...shown("steps", foldable(parts.steps, "Steps")),
    el("div", { class: "stage" }, ...shown("order", parts.order), parts.figure,
      el("div", { class: "deck" }, parts.caption, parts.controls)),
    ...(panels.length ? [el("div", { class: "panels" }, ...panels)] : [])));
  return parts;
}

/** On a phone a part is folded under its title; on a wide page the title is not there and the part always is. */
function foldable(part, title) {
  const button = el("button", { class: "unfold", type: "button", "aria-expanded": "false", text: title });
  const box = el("div", { class: `foldable ${part.className}-box` }, button, part);
  button.addEventListener("click", () => {
    const open = box.classList.toggle("unfolded");
    button.setAttribute("aria-expanded", String(open));
    dispatchEvent(new Event("resize"));
  });
  return box;
}

/**
 * @param {HTMLElement} host  emptied
 * @param {any} trace
 * @param {{idea?: string, regions?: string[], at?: URLSearchParams|null, alone?: boolean, hall?: boolean}} [options]  idea: what this kernel shows, in a
 *   sentence; regions: those of `REGIONS` that are shown; at: where to begin, written as in an address. Given it, the player
 *   leaves the page's address and keys to its host; alone: no server can be asked to record anything else; hall: the figure's
 *   words are for a back row
 * @returns the state, and the moves: `goTo(step)` is a deliberate jump to a step of the trace; `fill(sources)` gives the
 *   source pane what to show; `reveal()` scrolls to the running block where the figure is taller than the window; `save.offer(text, address)` adds a link to what can be saved
 */
export function createPlayer(host, trace, { idea = "", regions = REGIONS, at: begin = null, alone = false, hall = false } = {}) {
  const replay = new Replay(trace);
  const orders = { serial: serial(trace) };
  const orderOf = (name) => (orders[name] ??= together(trace));
  const asked = url.read(begin ?? new URLSearchParams(location.search));

  let notice = "";
  const placeOf = (found) => {
    const { place, notice: said } = placed(trace, orderOf, found);
    notice = said;
    return place;
  };
  const state = createState({ ...placeOf(asked), playing: false, speed: 1 });
  const parts = layout(host, regions);
  const order = () => orderOf(state.get().order);
  const here = () => moves.current(trace, order(), state.get().position, state.get().focus);

  const moveTo = (position, how = "step", more = {}) => {
    notice = "";
    state.set({ position: moves.clamp(orderOf(more.order ?? state.get().order), position), ...more }, how);
  };
  const goTo = (step, more = {}) => { // a deliberate jump to a step of the trace
    const { block, launch } = trace.step(step);
    moveTo(orderOf(more.order ?? state.get().order).positionOf(step), "jump", launch < 0 ? more : { focus: block, ...more, playing: false });
  };
  const actions = {
    first: () => moveTo(0, "jump", { playing: false }),
    last: () => moveTo(order().length - 1, "jump", { playing: false }),
    next: () => moveTo(state.get().position + 1),
    previous: () => moveTo(state.get().position - 1, "step", { playing: false }),
    nextTile: () => moveTo(moves.nextTile(trace, order(), state.get().position, state.get().focus), "step", { playing: false }),
    previousTile: () => moveTo(moves.previousTile(trace, order(), state.get().position, state.get().focus), "step", { playing: false }),
    toggle: () => {
      const { playing, position } = state.get();
      if (!playing && position === order().length - 1) moveTo(0, "jump", { playing: true });
      else state.set({ playing: !playing });
    },
    clear: () => state.set({ cell: null }),
    help: () => {
      state.set({ playing: false });
      help.open();
    },
    seek: (position, begins) => moveTo(position, begins ? "jump" : "step", { playing: false }),
    speed: (speed) => state.set({ speed }),
  };
  const choose = (name) => {
    if (name === state.get().order) return;
    const at = here();
    const position = orderOf(name).positionOf(at.step);
    moveTo(position, "jump", { order: name, focus: at.block });
  };
  const select = (cell) => state.set({ cell });

  const help = createHelp(host);
  if (!begin) url.followState(state, { wrong: notice !== "", restore: (found) => state.set({ ...placeOf(found), playing: false }, "restore") });
  const steps = createStepList(parts.steps, { trace, goTo, floated: (is) => host.firstElementChild.classList.toggle("steps-floating", is) });
  const orderSwitch = createOrderSwitch(parts.order, idea, choose);
  const figure = createFigure(parts.figure, { trace, replay, hall });
  const explainer = createExplainer(parts.explain, { trace, replay, select, goTo, mark: (cells) => figure.mark(cells),
    hop: ({ cell, step, block }) => {
      if (step < 0) moveTo(state.get().position, "jump", { cell });
      else goTo(step, { cell, ...(block === undefined ? {} : { focus: block }) });
    } });
  const captionPart = createCaption(parts.caption);
  const controls = createControls(parts.controls, actions);
  const save = createSave(parts.controls, { trace, figure, order, state, here });
  const carries = createCarries(parts.carries, { trace, replay, select });
  const ledger = createLedger(parts.ledger, { trace });
  const tabs = createTabs(parts.tabs, { trace, goTo, where: () => here().step,
    extra: [{ id: "carries", title: "Carries", panel: parts.carries }] });

  parts.figure.addEventListener("cell", (event) => select(cellName(trace, /** @type {CustomEvent} */ (event).detail)));
  parts.figure.addEventListener("block", (event) => {
    const { block } = /** @type {CustomEvent} */ (event).detail;
    const { launch } = here();
    if (state.get().order === "together") state.set({ focus: block });
    else if (launch >= 0) goTo(trace.blockRange(launch, block)[0]);
  });

  /** What stands under the caption, where something is odd. */
  function note(at) {
    if (notice) return { text: notice };
    const { values, focus } = trace.meta;
    if (values === "none") return { text: "Only the structure of this recording was kept: every count is exact, the numbers are not shown." };
    if (values !== "focus" || at.launch < 0 || at.block === focus) return null;
    const text = `Only the numbers of block ${focus} were kept.`;
    return alone ? { text } : { text, way: `Keep those of block ${at.block} instead`,
      href: url.address(location, { ...state.get(), focus: at.block }).href };
  }

  const reveal = () => figure.reveal(innerHeight - parts.caption.parentElement.getBoundingClientRect().top);
  let revealed = false;
  let steppedAt = -Infinity;
  function show(now, before) {
    // A key held down: what would fly is overtaken before it has left.
    const hurried = performance.now() - steppedAt < HURRIED_MS;
    if (before === null || now.position !== before.position) steppedAt = performance.now();
    const orderNow = order();
    const at = here();
    const moved = before === null || now.position !== before.position || now.order !== before.order || now.focus !== before.focus;
    if (moved || now.cell !== before.cell) {
      const cell = now.cell === null ? null : parseCell(trace, now.cell, at.launch);
      figure.show({ order: orderNow, position: now.position, cell: cell && { ...cell, block: at.block }, focus: now.order === "together" ? now.focus : at.block,
        previousPosition: before ? before.position : now.position, speed: now.speed,
        animate: before !== null && before.order === now.order && now.position === before.position + 1 && !hurried });
      carries.show(at, now.cell);
      explainer.show(orderNow, now.position, at, now.cell);
    }
    if (moved) {
      steps.show(orderNow, now.position, at.step);
      orderSwitch.show(now.order, at.launch < 0 ? 0 : trace.launches[at.launch].blocks);
      tabs.show(at.step);
      ledger.show(orderNow, now.position);
    }
    captionPart.show(placedCaption(trace, orderNow, at.step), note(at), now.playing);
    controls.show(now.position, orderNow.length - 1, now.playing);
    // Scrolling lays the page out: once, after everything is written.
    steps.settle();
    tabs.settle();
    if (revealed || at.launch < 0) return;
    revealed = true; // once: where the page stands is the reader's from then on
    if (!begin) reveal();
  }

  let timer = 0;
  function tick() {
    const { position } = state.get();
    const last = order().length - 1;
    moveTo(position + 1, "step", position + 1 >= last ? { playing: false } : {});
  }
  state.subscribe(show);
  state.subscribe((now) => {
    clearTimeout(timer);
    if (now.playing) timer = setTimeout(tick, STEP_MS / now.speed);
  });
  if (!begin) listen(actions);

  show(state.get(), null);
  return { trace, replay, state, actions, order, here, goTo, select, save, reveal, fill: tabs.fill };
}
