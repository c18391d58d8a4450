// Draws a scene into an <svg>: nodes are kept by key and only attributes that differ are written.

import { cellNumber } from '../words.js';
import { paint, readColours, toDataUrl } from './cells.js';
import { intensity, special, SPLIT_HUES, TINT } from './palette.js';

const SVG = 'http://www.w3.org/2000/svg';
const HUES = ['q', 'k', 'v', 's', 'm', 'l', 'o', 'x', 'alpha', ...Array.from({ length: SPLIT_HUES }, (_, n) => `split-${n}`)];

/** A new SVG element with attributes. */
export function svg(tag, attributes = {}) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

/** Width of a character of the monospaced font, of its size; and how much of a cell a number may fill. */
const MONO = 0.602;
const WIDEST = 0.88;

const round = (x) => Math.round(x * 100) / 100;

/** Sets an attribute if it differs from the last one set here. */
function set(node, name, value) {
  const kept = (node.kept ??= {});
  if (kept[name] === value) return;
  kept[name] = value;
  if (value === null || value === undefined || value === '') node.removeAttribute(name);
  else node.setAttribute(name, value);
}

const classes = new Map();

/** Class names of the scene, set apart from the page's own: 'frame used' -> 'f-frame f-used'. */
function className(names) {
  let full = classes.get(names);
  if (full === undefined) {
    if (classes.size > 2000) classes.clear();
    full = names.split(' ').filter(Boolean).map((name) => `f-${name}`).join(' ');
    classes.set(names, full);
  }
  return full;
}

/** The text of a node that holds nothing else; its text node stays, which costs the page less than a new one. */
function setText(node, value) {
  const kept = (node.kept ??= {});
  if (kept.text === value) return;
  kept.text = value;
  if (node.firstChild) node.firstChild.data = value;
  else node.textContent = value;
}

/** The patterns that say: guarded, stale, uninitialised, minus infinity, plus infinity, NaN. */
function patterns(id) {
  const defs = svg('defs');
  const add = (name, size, turn, ...shapes) => {
    const pattern = svg('pattern', { id: `${id}-${name}`, width: size, height: size, patternUnits: 'userSpaceOnUse', ...(turn ? { patternTransform: `rotate(${turn})` } : {}) });
    pattern.append(...shapes);
    defs.append(pattern);
  };
  const rect = (cls, x, y, w, h) => svg('rect', { class: cls, x, y, width: w, height: h });
  add('guarded', 5, 45, rect('fig-guard-ground', 0, 0, 5, 5), rect('fig-guard-line', 0, 0, 1.2, 5));
  add('stale', 6, 45, rect('fig-stale-line', 0, 0, 1.5, 6));
  add('uninit', 7, 0, rect('fig-uninit-ground', 0, 0, 7, 7), svg('circle', { class: 'fig-uninit-dot', cx: 3.5, cy: 3.5, r: 0.9 }));
  add('ninf', 5, 45, rect('fig-ninf-ground', 0, 0, 5, 5), rect('fig-ninf-line', 0, 0, 1.8, 5));
  add('inf', 5, -45, rect('fig-inf-ground', 0, 0, 5, 5), rect('fig-inf-line', 0, 0, 1.8, 5));
  add('nan', 8, 0, rect('fig-nan-ground', 0, 0, 8, 8), rect('fig-nan-square', 0, 0, 4, 4), rect('fig-nan-square', 4, 4, 4, 4));
  return defs;
}

const sameBox = (a, b) => a.x === b.x && a.y === b.y && a.w === b.w && a.h === b.h && a.cls === b.cls;

/** Views of the pool of values: the same place of it holds the same numbers. */
const sameValues = (a, b) => a === b || (a && b && a.buffer === b.buffer && a.byteOffset === b.byteOffset && a.length === b.length);

/** Would two items of a kind be drawn alike? */
const SAME = {
  box: (a, b) => sameBox(a, b) && a.r === b.r,
  text: (a, b) => a.text === b.text && a.x === b.x && a.y === b.y && a.cls === b.cls && a.size === b.size && a.anchor === b.anchor && a.turn === b.turn && a.tail === b.tail,
  path: (a, b) => a.d === b.d && a.cls === b.cls,
  heat: (a, b) => sameBox(a, b) && a.sign === b.sign,
  cells: (a, b) => sameBox(a, b) && a.ux === b.ux && a.uy === b.uy && a.rows === b.rows && a.cols === b.cols && a.validRows === b.validRows
    && a.validCols === b.validCols && a.look === b.look && a.scale === b.scale && sameValues(a.values, b.values),
};

let figures = 0;

export class Renderer {
  /** @param {SVGSVGElement} root @param {HTMLElement} host whose stylesheet gives the colours */
  constructor(root, host) {
    this.root = root;
    this.host = host;
    this.id = `fig${++figures}`;
    this.nodes = new Map();
    this.pictures = new Map();
    this.layer = svg('g', { class: 'fig-layer' });
    this.flying = svg('g', { class: 'fig-flying', 'aria-hidden': 'true' });
    this.over = svg('g', { class: 'fig-over', 'aria-hidden': 'true' });
    root.append(patterns(this.id), this.layer, this.flying, this.over);
    for (const name of ['guarded', 'stale', 'uninit', 'ninf', 'inf', 'nan']) {
      root.style.setProperty(`--fig-url-${name}`, `url(#${this.id}-${name})`);
    }
  }

  /** Colours changed: heat maps are painted anew. */
  themed() {
    this.colours = null;
    this.pictures.clear();
    for (const entry of this.nodes.values()) if (entry.kind === 'heat') entry.item = entry.sign = null;
  }

  /** Draw all items of a scene, and nothing else. */
  draw(scene) {
    set(this.root, 'viewBox', `0 0 ${round(scene.width)} ${round(scene.height)}`);
    set(this.root, 'width', round(scene.width));
    set(this.root, 'height', round(scene.height));
    this.items(this.layer, this.nodes, scene.items);
  }

  /** Marks, cursor and tooltips live above the scene and change without it. */
  drawOver(items) {
    this.overNodes ??= new Map();
    this.items(this.over, this.overNodes, items);
  }

  items(layer, nodes, items) {
    // What is no longer asked for serves, first come first served, what is new and of its kind: then nothing moves.
    const wanted = new Map(items.map((item) => [item.key, item.kind]));
    const spare = {};
    for (const [key, entry] of nodes) {
      if (wanted.get(key) === entry.kind) continue;
      nodes.delete(key);
      (spare[entry.kind] ??= []).push(entry);
    }
    for (const item of items) {
      let entry = nodes.get(item.key);
      if (!entry) {
        entry = spare[item.kind]?.shift() ?? { kind: item.kind, node: this.make(item) };
        entry.node.dataset.key = item.key;
        nodes.set(item.key, entry);
      }
      this.update(entry, item);
    }
    for (const entry of Object.values(spare).flat()) entry.node.remove();
    let next = layer.firstChild;
    for (const { key } of items) {
      const { node } = nodes.get(key);
      if (node === next) next = next.nextSibling;
      else layer.insertBefore(node, next);
    }
  }

  make(item) {
    if (item.kind === 'box') return svg('rect');
    if (item.kind === 'text') return svg('text');
    if (item.kind === 'path') return svg('path');
    if (item.kind === 'heat') return svg('image', { preserveAspectRatio: 'none' });
    return svg('g');
  }

  update(entry, item) {
    const last = entry.item;
    entry.item = item;
    if (last && SAME[item.kind](last, item)) return; // most of the figure, at most steps
    const { node } = entry;
    if (item.kind === 'box') {
      set(node, 'class', className(item.cls));
      set(node, 'x', round(item.x));
      set(node, 'y', round(item.y));
      set(node, 'width', round(Math.max(0, item.w)));
      set(node, 'height', round(Math.max(0, item.h)));
      set(node, 'rx', item.r ? round(item.r) : null);
    } else if (item.kind === 'text') {
      set(node, 'class', className(item.cls));
      set(node, 'x', round(item.x));
      set(node, 'y', round(item.y));
      set(node, 'font-size', round(item.size));
      set(node, 'text-anchor', item.anchor === 'start' ? null : item.anchor);
      set(node, 'transform', item.turn ?? null);
      this.words(node, item.text, item.tail ?? '');
    } else if (item.kind === 'path') {
      set(node, 'class', className(item.cls));
      set(node, 'd', item.d.replace(/\d+\.\d{3,}/g, (x) => round(Number(x))));
    } else if (item.kind === 'heat') this.heat(entry, item);
    else this.cells(entry, item);
  }

  words(node, text, tail) {
    if (!tail) {
      if (node.tail) {
        node.tail = null;
        node.textContent = '';
        node.kept.text = undefined;
      }
      setText(node, text);
      return;
    }
    if (!node.tail) {
      node.textContent = '';
      if (node.kept) node.kept.text = undefined;
      node.lead = document.createTextNode('');
      node.tail = svg('tspan', { class: 'f-tail' });
      node.append(node.lead, node.tail);
    }
    if (node.lead.data !== text) node.lead.data = text;
    setText(node.tail, tail);
  }

  heat(entry, item) {
    const { node } = entry;
    set(node, 'class', className(item.cls));
    set(node, 'x', round(item.x));
    set(node, 'y', round(item.y));
    set(node, 'width', round(item.w));
    set(node, 'height', round(item.h));
    if (entry.sign === item.sign) return;
    entry.sign = item.sign;
    this.colours ??= readColours(this.host, HUES);
    let url = this.pictures.get(item.sign);
    if (!url) {
      const density = Math.min(2, Math.max(1, globalThis.devicePixelRatio || 1));
      url = toDataUrl(paint(item, this.colours, density));
      if (this.pictures.size > 200) this.pictures.clear();
      this.pictures.set(item.sign, url);
    }
    set(node, 'href', url);
  }

  /** A tile with numbers: a rectangle and a text for each cell. Nodes are pooled by place. */
  cells(entry, item) {
    const { node } = entry;
    set(node, 'class', className(item.cls));
    set(node, 'transform', `translate(${round(item.x)} ${round(item.y)})`);
    const shape = `${item.rows}x${item.cols}/${round(item.ux)}x${round(item.uy)}/${round(item.size)}`;
    if (entry.shape !== shape) {
      entry.shape = shape;
      entry.pool = [];
      node.textContent = '';
      for (let r = 0; r < item.rows; r++) {
        for (let c = 0; c < item.cols; c++) {
          const rect = svg('rect', { x: round(c * item.ux), y: round(r * item.uy), width: round(item.ux), height: round(item.uy) });
          const text = svg('text', { x: round((c + 0.5) * item.ux), y: round((r + 0.5) * item.uy + item.size * 0.355), 'font-size': round(item.size) });
          node.append(rect, text);
          entry.pool.push({ rect, text, r, c });
        }
      }
    }
    for (const { rect, text, r, c } of entry.pool) {
      const guarded = r >= item.validRows || c >= item.validCols;
      let look = 'cell';
      let words = '';
      let opacity = null;
      if (guarded) look = 'cell guarded';
      else if (!item.values) look = `cell ${item.look || 'unkept'}`;
      else {
        const x = item.values[r * item.validCols + c];
        const kind = special(x);
        words = cellNumber(x);
        if (kind) look = `cell ${kind}`;
        else {
          if (x < 0) look = 'cell negative';
          opacity = round(0.04 + (TINT - 0.04) * intensity(x, item.scale));
        }
      }
      set(rect, 'class', className(look));
      set(rect, 'fill-opacity', opacity);
      setText(text, words);
      set(text, 'textLength', null);
      const room = item.ux * WIDEST;
      const wide = words.length * item.size * MONO > room + 0.1;
      set(text, 'font-size', wide ? round(room / (words.length * MONO)) : round(item.size));
    }
  }
}
