// Small helpers that make elements; everything else on the page is plain DOM.

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element with properties, listeners and children.
 * `class`, `text`, `data`, `style` and `on` are understood; everything else is an attribute
 * (false, null and undefined leave it out; true writes it empty).
 * @param {string} tag
 * @param {Record<string, any>} [properties]
 * @param {...(Node|string|null)} children
 * @returns {HTMLElement}
 */
export function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === false || value === null || value === undefined) continue;
    if (name === "class") node.className = value;
    else if (name === "text") node.textContent = value;
    else if (name === "data") Object.assign(node.dataset, value);
    else if (name === "style") for (const [key, rule] of Object.entries(value)) node.style.setProperty(key, rule);
    else if (name === "on") for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child !== null && child !== undefined) node.append(child);
  return node;
}

/**
 * A drawn sign of 20 by 20 units, filled with the colour of the text.
 * @param {string} path
 * @returns {SVGSVGElement}
 */
export function icon(path) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 20 20");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", "sign");
  const shape = document.createElementNS(SVG, "path");
  shape.setAttribute("d", path);
  svg.append(shape);
  return svg;
}

/**
 * Write a text only where it differs: a step touches few of the page's texts.
 * @param {Element} node
 * @param {string} text
 */
export function setText(node, text) {
  const only = node.firstChild;
  // A text node that stays costs the page less than one that comes for another.
  if (only?.nodeType === Node.TEXT_NODE && only === node.lastChild) {
    if (only.data !== text) only.data = text;
  } else if (node.textContent !== text) node.textContent = text;
}

/**
 * Write or take away an attribute only where it differs.
 * @param {Element} node
 * @param {string} name
 * @param {string|null} value
 */
export function setAttribute(node, name, value) {
  if (value === null) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}
