// The step list: a tree of launches, blocks and loops of which only the rows in sight exist as elements.
// It can be filtered, and dragged by its grip over the figure and docked back.

import { el, icon, setAttribute, setText } from "./dom.js";
import { makeFloating } from "./floating.js";
import { StepTree, search } from "./steptree.js";

const TICK = "M8.2 15 3.6 10.4 5 9l3.2 3.2L15 5.4l1.4 1.4z";
const CROSS = "M5.4 4 10 8.6 14.6 4 16 5.4 11.4 10l4.6 4.6-1.4 1.4-4.6-4.6L5.4 16 4 14.6 8.6 10 4 5.4z"; // drawn only where a page has its own marks
const SLICE_MS = 8;

/**
 * @param {HTMLElement} host
 * @param {{trace: any, goTo: (step: number) => void, floated: (floating: boolean) => void,
 *   mark?: ((row: import("./steptree.js").Row) => {name: string, text: string}|null)|null}} options
 *   mark: a page's own mark on a row (its class is mark-name), instead of the tick on what is done
 */
export function createStepList(host, { trace, goTo, floated, mark = null }) {
  const tree = new StepTree(trace);
  /** @type {import("./steptree.js").Row[]|null} the filter's rows, null while there is no filter */
  let found = null;
  let hunt = 0;
  let cursor = 0; // the row that the keyboard is on
  let currentStep = 0;
  let now = null; // {order, position}
  const rowHeight = matchMedia("(pointer: coarse)").matches ? 40 : 26;

  const grip = el("button", { class: "grip", type: "button", title: "Drag over the figure; double-click or Enter docks it back",
    "aria-label": "Move the step list" }, icon("M7 4h2v2H7zm4 0h2v2h-2zM7 9h2v2H7zm4 0h2v2h-2zm-4 5h2v2H7zm4 0h2v2h-2z"));
  const dock = el("button", { class: "quiet dock", type: "button", text: "Dock", hidden: true });
  const fold = el("button", { class: "quiet", type: "button", text: "Fold", title: "Close every group but the current one" });
  const filter = /** @type {HTMLInputElement} */ (el("input", { type: "search", class: "filter", placeholder: "Filter steps",
    "aria-label": "Filter steps", autocomplete: "off", spellcheck: "false" }));
  const count = el("p", { class: "filter-count", role: "status", hidden: true });
  const space = el("div", { class: "tree-space", role: "presentation" });
  const list = el("div", { class: "tree", role: "tree", tabindex: "0", "aria-label": "Steps" }, space);
  list.style.setProperty("--row", `${rowHeight}px`);
  host.append(
    el("div", { class: "panel-head" }, grip, el("h2", { text: "Steps" }), fold, dock),
    filter, count, list);

  const rows = () => found ?? tree.rows;
  // Reading these from the page would lay it out in the midst of a step; they are kept as they change.
  let height = 400;
  let scrolled = 0;

  /** Scroll to there: drawn for at once, handed to the page when it may lay itself out. */
  let handed = true;
  function scrollTo(top) {
    scrolled = Math.max(0, Math.min(top, rows().length * rowHeight - height));
    handed = false;
  }
  function handOver() {
    if (handed) return;
    handed = true;
    list.scrollTop = scrolled;
    const taken = list.scrollTop; // the page may not scroll as far
    if (Math.abs(taken - scrolled) < 1) return;
    scrolled = taken;
    draw();
  }
  /** @type {Map<import("./steptree.js").Row, HTMLElement>} a row keeps its element while it is in sight */
  const live = new Map();
  /** @type {Set<HTMLElement>} elements of rows that left the sight */
  const spare = new Set();
  let made = 0;

  function isDone(row) {
    if (!now || row.launch < 0) return row.launch < 0 && currentStep > 0;
    const at = now.at;
    if (row.launch !== at.launch) return row.launch < at.launch;
    if (row.block < 0) return false;
    return now.order.name === "serial" ? row.last < currentStep
      : row.type === "step" ? row.first <= at.progress(row.block) && row.first !== currentStep
        : row.last <= at.progress(row.block);
  }

  function makeRow() {
    return el("div", { class: "row", role: "treeitem", id: `row-${made++}` },
      el("span", { class: "twist", "aria-hidden": "true" }), el("span", { class: "row-text" }),
      el("span", { class: "row-done" }, icon(TICK), ...(mark ? [icon(CROSS)] : []), el("span", { class: "visually-hidden", text: "done" })));
  }

  function draw() {
    const all = rows();
    setHeight(all.length * rowHeight);
    const first = Math.max(0, Math.floor(scrolled / rowHeight) - 2);
    const last = Math.min(all.length - 1, Math.ceil((scrolled + height) / rowHeight) + 2);
    const sight = new Set(all.slice(first, last + 1));
    for (const [row, node] of live) {
      if (sight.has(row)) continue;
      live.delete(row);
      spare.add(node);
    }
    let active = null;
    let next = space.firstChild;
    for (let i = first; i <= last; i += 1) {
      const row = all[i];
      let node = live.get(row);
      if (!node) {
        // An element that stands where the row belongs serves it best: nothing moves in the page.
        node = spare.has(next) ? next : spare.values().next().value ?? makeRow();
        spare.delete(node);
        live.set(row, node);
      } else while (spare.has(next)) next = next.nextSibling; // passed by: moving it beats moving all that stay
      if (node === next) next = next.nextSibling; // kept in reading order
      else space.insertBefore(node, next);
      const isStep = row.type === "step";
      const isCurrent = isStep ? row.first === currentStep : !row.open && row.first <= currentStep && currentStep <= row.last;
      const own = mark ? mark(row) : null;
      const done = mark ? own !== null : isDone(row);
      if (mark) setText(node.children[2].lastElementChild, own ? own.text : "");
      if (node.rowIndex !== i) {
        node.rowIndex = i;
        node.style.transform = `translateY(${i * rowHeight}px)`;
      }
      if (node.row !== row) {
        node.row = row;
        node.style.setProperty("--depth", row.depth);
        setText(node.children[1], row.text);
        setAttribute(node, "title", row.text.length + 2 * row.depth > 22 ? row.text : null);
        setAttribute(node, "aria-level", String(row.depth + 1));
        setAttribute(node, "aria-posinset", row.size ? String(row.index) : null);
        setAttribute(node, "aria-setsize", row.size ? String(row.size) : null);
        setAttribute(node, "data-step", isStep ? String(row.first) : null);
      }
      setAttribute(node, "aria-expanded", isStep ? null : String(row.open));
      setAttribute(node, "aria-current", isCurrent && isStep ? "step" : null);
      setAttribute(node, "aria-selected", String(isCurrent && isStep));
      const look = `row ${row.type}${isCurrent ? " current" : ""}${done ? " done" : ""}${own ? ` mark-${own.name}` : ""}${i === cursor ? " cursor" : ""}`;
      if (node.className !== look) node.className = look;
      if (i === cursor) active = node;
    }
    for (const node of spare) if (node.parentNode) node.remove();
    setAttribute(list, "aria-activedescendant", active ? active.id : null);
  }

  let heightSet = -1;
  function setHeight(pixels) {
    if (heightSet !== pixels) space.style.height = `${heightSet = pixels}px`;
  }

  /** Bring row i into sight with some room around it; far jumps put it in the middle. */
  function bringIntoView(i) {
    const top = i * rowHeight;
    const margin = Math.min(2 * rowHeight, height / 4);
    if (top - margin < scrolled - height || top > scrolled + 2 * height) scrollTo(top - height / 2);
    else if (top - margin < scrolled) scrollTo(top - margin);
    else if (top + rowHeight + margin > scrolled + height) scrollTo(top + rowHeight + margin - height);
  }

  function rowOfCurrent() {
    if (!found) return tree.reveal(currentStep);
    return found.findIndex((row) => row.type === "step" && row.first === currentStep);
  }

  function runFilter() {
    const query = filter.value.trim();
    const mine = ++hunt;
    count.hidden = !query;
    if (!query) {
      found = null;
      cursor = rowOfCurrent();
      redraw(cursor);
      return;
    }
    const steps = search(trace, query);
    found = [];
    cursor = 0;
    scrollTo(0);
    handOver();
    const more = () => {
      if (mine !== hunt) return;
      const until = performance.now() + SLICE_MS;
      let ended = false;
      while (!ended && performance.now() < until) {
        const { value, done } = steps.next();
        if (value) for (const row of value) found.push(row);
        ended = Boolean(done);
      }
      const hits = found.reduce((sum, row) => sum + (row.type === "step" ? 1 : 0), 0);
      setText(count, `${hits.toLocaleString("en")} of ${trace.stepCount.toLocaleString("en")} steps${ended ? "" : " …"}`);
      draw();
      if (!ended) setTimeout(more);
    };
    more();
  }

  function activate(i) {
    const row = rows()[i];
    if (!row) return;
    cursor = i;
    if (row.type === "step") goTo(row.first);
    else if (!found) {
      tree.toggle(i);
      draw();
    }
  }

  function redraw(i) {
    bringIntoView(i);
    draw();
    handOver();
  }

  function moveCursor(i) {
    cursor = Math.max(0, Math.min(rows().length - 1, i));
    redraw(cursor);
  }

  filter.addEventListener("input", runFilter);
  filter.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    if (filter.value) {
      filter.value = "";
      runFilter();
    }
    filter.blur(); // the keys step again
    event.preventDefault();
  });
  fold.addEventListener("click", () => {
    tree.collapse();
    cursor = rowOfCurrent();
    redraw(cursor);
  });
  list.addEventListener("scroll", () => {
    if (list.scrollTop === scrolled) return;
    scrolled = list.scrollTop;
    draw();
  }, { passive: true });
  list.addEventListener("click", (event) => {
    const node = /** @type {Element} */ (event.target).closest(".row");
    if (node) activate(node.rowIndex);
  });
  list.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const row = rows()[cursor];
    const group = row && row.type !== "step" && !found;
    switch (event.key) {
      case "ArrowDown": moveCursor(cursor + 1); break;
      case "ArrowUp": moveCursor(cursor - 1); break;
      case "Enter": case " ": activate(cursor); break;
      case "ArrowRight": // on a group as in any tree; on a step the arrows step, as everywhere on the page
        if (!group) return;
        if (row.open) moveCursor(cursor + 1);
        else { tree.toggle(cursor, true); draw(); }
        break;
      case "ArrowLeft":
        if (!group) return;
        if (row.open) { tree.toggle(cursor, false); draw(); }
        else {
          let parent = cursor;
          while (parent > 0 && rows()[parent].depth >= row.depth) parent -= 1;
          moveCursor(parent);
        }
        break;
      default: return;
    }
    event.preventDefault();
  });
  new ResizeObserver(() => {
    height = list.clientHeight || 400;
    scrollTo(scrolled); // a taller list may not scroll as far as it did
    redraw(cursor);
  }).observe(list);
  const floating = makeFloating(host, grip, dock, (is) => {
    dock.hidden = !is;
    floated(is);
  });

  return {
    /** @param {number} step the step to mark as the current one */
    show(order, position, step) {
      const moved = step !== currentStep || !now;
      now = { order, at: order.at(position) };
      currentStep = step;
      if (moved) {
        const at = rowOfCurrent();
        if (at >= 0) {
          cursor = at;
          bringIntoView(at);
        }
      }
      draw();
    },
    /** Scroll the page's list to what was drawn: last in a step, for it lays the page out. */
    settle: handOver,
    /** Draw the rows again: their marks have changed. */
    redraw: draw,
    dock: floating.dock,
  };
}
