// The figure as an SVG that stands alone: what the stylesheet says of each node is written on it, as plain attributes that
// any program reads. Nothing of the page is needed any more, and nothing of it changes.
//
//   standalone(svg, {title, description, ground}) -> <svg>   svg: a drawn figure in the page; ground: the colour behind it
//   svgText(node) -> string                                  as a file holds it
//   pngOf(node, scale) -> Promise<Blob>

import { drawHatching } from './hatching.js';

const SVG = 'http://www.w3.org/2000/svg';
const XLINK = 'http://www.w3.org/1999/xlink';
const MARGIN = 12;

/** Each with what it is where nobody says anything. All but opacity are handed down from parent to child. */
const PROPERTIES = {
  'stroke-width': '1', 'stroke-dasharray': 'none', 'stroke-linecap': 'butt', 'stroke-linejoin': 'miter', 'font-family': '', 'font-size': '',
  'font-weight': '400', 'font-style': 'normal', 'text-anchor': 'start', 'image-rendering': 'auto',
};
const PAGES_OWN = ['class', 'style', 'data-key', 'focusable', 'aria-hidden'];
const LENGTHS = ['stroke-width', 'font-size', 'stroke-dasharray'];

/**
 * A computed colour as programs older than `color()` read it.
 * @param {string} text "rgb(1, 2, 3)", "rgba(…)", "color(srgb 0.1 0.2 0.3 / 0.5)", "none", 'url("#id")'
 * @returns {{colour: string, alpha: number}}
 */
export function plainColour(text) {
  const reference = /^url\("?(#[^")]+)"?\)/.exec(text);
  if (reference) return { colour: `url(${reference[1]})`, alpha: 1 };
  const numbers = (/^(?:rgba?|color)\((?:srgb)?([^)]*)\)/.exec(text)?.[1].match(/[\d.]+(?:e-?\d+)?/g) ?? []).map(Number);
  if (numbers.length < 3) return { colour: text, alpha: 1 };
  const scale = text.startsWith('color') ? 255 : 1;
  const hex = numbers.slice(0, 3).map((x) => Math.max(0, Math.min(255, Math.round(x * scale))).toString(16).padStart(2, '0'));
  return { colour: `#${hex.join('')}`, alpha: numbers[3] ?? 1 };
}

const short = (x) => String(Math.round(x * 1000) / 1000);

/** What a node looks like, as attributes. */
function lookOf(node) {
  const style = getComputedStyle(node);
  const look = {};
  for (const name of Object.keys(PROPERTIES)) {
    const value = style.getPropertyValue(name);
    look[name] = LENGTHS.includes(name) ? value.replace(/(\d)px/g, '$1') : value;
  }
  for (const paint of ['fill', 'stroke']) {
    const { colour, alpha } = plainColour(style.getPropertyValue(paint));
    look[paint] = colour;
    look[`${paint}-opacity`] = short(alpha * Number(style.getPropertyValue(`${paint}-opacity`)));
  }
  return { look, opacity: short(Number(style.opacity)), strokeFirst: style.paintOrder.startsWith('stroke') };
}

/** Copy a node's look onto its copy, where it is another than the one handed down; then its children's. */
function dress(node, copy, handed) {
  const { look, opacity, strokeFirst } = lookOf(node);
  for (const name of PAGES_OWN) copy.removeAttribute(name);
  for (const [name, value] of Object.entries(look)) {
    if (value === handed[name]) copy.removeAttribute(name);
    else copy.setAttribute(name, value);
  }
  if (opacity === '1') copy.removeAttribute('opacity');
  else copy.setAttribute('opacity', opacity);
  if (node.localName === 'image') copy.setAttributeNS(XLINK, 'xlink:href', node.getAttribute('href'));
  const [children, copies] = [[...node.children], [...copy.children]];
  children.forEach((child, n) => dress(child, copies[n], look));
  if (strokeFirst && look.stroke !== 'none' && look.fill !== 'none') under(copy);
}

/** A stroke that is painted first becomes a copy below: few programs know `paint-order`. */
function under(copy) {
  const below = /** @type {SVGElement} */ (copy.cloneNode(true));
  for (const part of [below, ...below.querySelectorAll('*')]) part.setAttribute('fill', 'none');
  for (const part of [copy, ...copy.querySelectorAll('*')]) part.setAttribute('stroke', 'none');
  copy.before(below);
}

/** Nodes that draw nothing, such as the layers of what flies. */
function prune(copy) {
  for (const group of copy.querySelectorAll('g')) if (!group.childElementCount) group.remove();
  for (const text of copy.querySelectorAll('text')) if (!text.textContent) text.remove();
}

/**
 * @param {SVGSVGElement} svg
 * @param {{title: string, description: string, ground: string}} options
 * @returns {SVGSVGElement} not in the page
 */
export function standalone(svg, { title, description, ground }) {
  const copy = /** @type {SVGSVGElement} */ (svg.cloneNode(true));
  dress(svg, copy, PROPERTIES);
  const id = copy.querySelector('pattern').id.split('-')[0];
  drawHatching(copy);
  prune(copy);
  const [, , width, height] = svg.getAttribute('viewBox').split(' ').map(Number);
  const [w, h] = [width + 2 * MARGIN, height + 2 * MARGIN];
  copy.setAttribute('viewBox', `${-MARGIN} ${-MARGIN} ${w} ${h}`);
  copy.setAttribute('width', String(w));
  copy.setAttribute('height', String(h));
  copy.setAttribute('role', 'img');
  copy.setAttribute('aria-labelledby', `${id}-title ${id}-desc`);
  const make = (tag, attributes, text = '') => {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.textContent = text;
    return node;
  };
  const { colour } = plainColour(ground);
  copy.prepend(make('title', { id: `${id}-title` }, title), make('desc', { id: `${id}-desc` }, description),
    make('rect', { x: -MARGIN, y: -MARGIN, width: w, height: h, fill: colour, stroke: 'none' }));
  return copy;
}

/** @param {SVGSVGElement} node @returns {string} */
export function svgText(node) {
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(node)}\n`;
}

/**
 * A picture of `scale` pixels to a unit.
 * @param {SVGSVGElement} node
 * @returns {Promise<Blob>}
 */
export async function pngOf(node, scale = 2) {
  const image = new Image();
  const address = URL.createObjectURL(new Blob([svgText(node)], { type: 'image/svg+xml' }));
  try {
    image.src = address;
    await image.decode();
    const canvas = document.createElement('canvas');
    canvas.width = Math.round(scale * Number(node.getAttribute('width')));
    canvas.height = Math.round(scale * Number(node.getAttribute('height')));
    canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve, reject) => {
      canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error('The picture is too large to be made here.'))), 'image/png');
    });
  } finally {
    URL.revokeObjectURL(address);
  }
}
