// The source with this step's lines lit. A line that some step runs leads to the next step that runs it.

import { el } from "../dom.js";
import { nextOfKind } from "../moves.js";
import { markedSteps } from "./marks.js";

const TITLES = { twin: "NumPy twin", cuda: "CUDA" };

/**
 * @param {HTMLElement} host
 * @param {{trace: any, name: "twin"|"cuda", html: string|null, text: string|null, goTo: (step: number) => void,
 *   where: () => number}} options  where: the step on show
 */
function createListing(host, { trace, name, html, text, goTo, where }) {
  const code = el("div", { class: "code", role: "list", "aria-label": `${TITLES[name]} source` });
  const lines = html === null ? plain(text ?? "", name) : coloured(html, name);
  code.append(...lines);
  host.append(code);

  /** @type {Map<number, Set<number>>} line -> kinds of steps that run it */
  const runs = new Map();
  const marked = name === "cuda" ? markedSteps(lines.map((line) => line.textContent)) : new Map();
  const rangeOf = (step) => (step.lines && step.lines[name]) || marked.get(`${step.launch}/${step.name}`);
  trace.meta.steps.forEach((step, kind) => {
    const range = rangeOf(step);
    if (!range) return;
    for (let n = range[0]; n <= range[1]; n += 1) {
      if (!runs.has(n)) runs.set(n, new Set());
      runs.get(n).add(kind);
    }
  });
  let cursor = 0;
  lines.forEach((line, i) => {
    line.setAttribute("role", "listitem");
    // What does not fit goes on under its own beginning.
    line.style.setProperty("--indent", String(line.textContent.search(/\S|$/)));
    keepBrace(line);
    if (!runs.has(i + 1) || !line.textContent.trim()) return;
    line.classList.add("runs");
    line.title = "Go to the next step that runs this line";
    if (!cursor) cursor = i + 1;
  });
  const focusable = (n) => {
    if (cursor) lines[cursor - 1].removeAttribute("tabindex");
    cursor = n;
    lines[cursor - 1].setAttribute("tabindex", "0");
  };
  if (cursor) focusable(cursor);

  function run(n) {
    const kinds = runs.get(n);
    if (!kinds) return;
    const step = nextOfKind(trace, where(), kinds);
    if (step >= 0) goTo(step);
  }
  const lineOf = (event) => lines.indexOf(/** @type {Element} */ (event.target).closest(".line")) + 1;
  code.addEventListener("click", (event) => {
    if (String(getSelection()).length) return; // someone copies code
    const n = lineOf(event);
    if (n && lines[n - 1].classList.contains("runs")) {
      focusable(n);
      run(n);
    }
  });
  code.addEventListener("keydown", (event) => {
    const n = lineOf(event);
    if (!n || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    if (event.key === "Enter" || event.key === " ") run(n);
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const way = event.key === "ArrowDown" ? 1 : -1;
      let to = n + way;
      while (to >= 1 && to <= lines.length && !lines[to - 1].classList.contains("runs")) to += way;
      if (to >= 1 && to <= lines.length) {
        focusable(to);
        lines[to - 1].focus();
      }
    } else return;
    event.preventDefault();
  });

  let lit = [];
  let shownKind = -1;
  let scroll = null; // lines to bring into sight
  return {
    /** @param {number} step */
    show(step, visible) {
      const { kind, meta } = trace.step(step);
      if (!visible || kind === shownKind) return; // a hidden listing is asked again when it shows
      const range = rangeOf(meta);
      const now = range ? lines.slice(range[0] - 1, range[1]) : [];
      for (const line of lit) if (!now.includes(line)) line.classList.remove("lit");
      for (const line of now) line.classList.add("lit");
      lit = now;
      shownKind = kind;
      scroll = lit.length ? lit : null;
    },
    settle() {
      if (scroll) bringIntoView(host, scroll);
      scroll = null;
    },
    refresh: () => { shownKind = -1; },
  };
}

/** Scroll so that these lines stand in sight, the first of them at the top when they have to move. */
function bringIntoView(scroller, lines) {
  const first = lines[0];
  const last = lines[lines.length - 1];
  const top = first.offsetTop;
  const now = scroller.scrollTop;
  const inSight = top >= now && last.offsetTop + last.offsetHeight <= now + scroller.clientHeight;
  if (!inSight) scroller.scrollTo({ top: top - 4, behavior: "instant" });
}

/** Keep " {" at a line's end with what stands before it, where the line does not fit; its text stays what it is. */
function keepBrace(line) {
  if (!/\S \{$/.test(line.textContent)) return;
  const nodes = [];
  for (let node = line.lastChild; node && !/\S \{$/.test(nodes.map((one) => one.textContent).join("")); node = node.previousSibling) nodes.unshift(node);
  const together = el("span", { class: "together" });
  nodes[0].before(together);
  together.append(...nodes);
}

/** Lines of the server's highlighted HTML, each a <span id="twin-12" class="line">. */
function coloured(html, name) {
  const parsed = new DOMParser().parseFromString(html, "text/html");
  const found = [...parsed.querySelectorAll(`[id^="${name}-"]`)];
  return found.map((line) => {
    const copy = document.importNode(line, true);
    copy.classList.add("line");
    const last = copy.lastChild;
    if (last && last.nodeType === Node.TEXT_NODE) last.textContent = last.textContent.replace(/\n$/, "");
    return copy;
  });
}

function plain(text, name) {
  return text.replace(/\n$/, "").split("\n").map((line, i) => el("span", { class: "line", id: `${name}-${i + 1}`, text: line }));
}

/**
 * The tabs of the right column: each source there is, and the carries.
 * @param {HTMLElement} host
 * @param {{trace: any, goTo: (step: number) => void, where: () => number,
 *   extra: {id: string, title: string, panel: HTMLElement}[]}} options
 */
export function createTabs(host, { trace, goTo, where, extra }) {
  const bar = el("div", { class: "tabs", role: "tablist", "aria-label": "Source and carries" });
  const status = el("p", { class: "panel-note", role: "status", text: "Reading the source …" });
  host.append(bar, status);
  /** @type {{id: string, tab: HTMLElement, panel: HTMLElement, listing: any}[]} */
  const tabs = [];
  let chosen = "";

  function choose(id, focus = false) {
    chosen = id;
    for (const one of tabs) {
      const on = one.id === id;
      one.tab.setAttribute("aria-selected", String(on));
      one.tab.tabIndex = on ? 0 : -1;
      one.panel.classList.toggle("chosen", on);
      if (on && focus) one.tab.focus();
      if (on && one.listing) one.listing.refresh();
    }
    show(shown);
    settle();
  }
  function add(id, title, panel, listing) {
    const tab = el("button", { class: "tab", type: "button", role: "tab", id: `tab-${id}`, "aria-controls": `panel-${id}`, text: title,
      on: { click: (event) => {
        choose(id);
        if (event.detail > 0) event.currentTarget.blur(); // after a click by mouse the arrows step again
      } } });
    panel.id = `panel-${id}`;
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", `tab-${id}`);
    panel.classList.add("tabpanel");
    bar.append(tab);
    host.append(panel);
    tabs.push({ id, tab, panel, listing });
  }
  bar.addEventListener("keydown", (event) => {
    const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!way || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const usable = tabs.filter((one) => one.tab.offsetParent !== null);
    const at = usable.findIndex((one) => one.id === chosen);
    choose(usable[(at + way + usable.length) % usable.length].id, true);
    event.preventDefault();
  });

  function addListing(name, html) {
    const panel = el("div", { class: "listing" });
    add(name, TITLES[name], panel, createListing(panel, { trace, name, html, text: trace.meta.sources?.[name] ?? "", goTo, where }));
  }

  let shown = 0;
  let inSight = false; // whether the column shows at all: on a phone it is folded
  function show(step) {
    shown = step;
    for (const { id, listing } of tabs) if (listing) listing.show(step, inSight && id === chosen);
  }
  function settle() {
    for (const { listing } of tabs) if (listing) listing.settle();
  }
  // A listing that comes into sight, or changes its height, brings its lit lines with it.
  new ResizeObserver(() => {
    inSight = host.clientHeight > 0;
    for (const { listing } of tabs) if (listing) listing.refresh();
    show(shown);
    settle();
  }).observe(host);

  return {
    /** @param {{twin: {html: string}|null, cuda: {html: string}|null}|null} source null: it could not be had, the trace's own text serves */
    fill(source) {
      status.remove();
      for (const name of ["cuda", "twin"]) {
        if (source?.[name]) addListing(name, source[name].html);
        else if (trace.meta.sources?.[name]) addListing(name, null);
      }
      for (const { id, title, panel } of extra) add(id, title, panel, null);
      choose(tabs[0].id);
    },
    show,
    settle,
  };
}
