// A pattern's marks as shapes of their own: what is hatched or dotted looks the same where no pattern is known, and a printer
// is given lines, where it would be given a picture of each cell.

const SVG = 'http://www.w3.org/2000/svg';
const short = (x) => String(Math.round(x * 100) / 100);
/** Of a rectangle that its copy, which is its ground alone, does without. */
const LOOK = ['opacity', 'fill-opacity', 'stroke', 'stroke-opacity', 'stroke-width'];
const number = (node, name) => Number(node.getAttribute(name) ?? 0);

/**
 * Stands a pattern's marks in the place of each rectangle that is filled with it; patterns that nothing needs any more go.
 * @param {SVGSVGElement} copy every look of it written as attributes; changed
 */
export function drawHatching(copy) {
  for (const pattern of copy.querySelectorAll('pattern')) {
    for (const box of copy.querySelectorAll(`rect[fill="url(#${pattern.id})"]`)) drawInside(/** @type {SVGRectElement} */ (box), pattern);
    if (!copy.querySelector(`[fill="url(#${pattern.id})"]`)) pattern.remove();
  }
  for (const defs of copy.querySelectorAll('defs')) if (!defs.childElementCount) defs.remove();
}

/** The ground and the marks of a pattern below a rectangle, which keeps its stroke. */
function drawInside(box, pattern) {
  const room = { x: number(box, 'x'), y: number(box, 'y'), w: number(box, 'width'), h: number(box, 'height') };
  const size = number(pattern, 'width');
  const turn = Number(/rotate\((-?[\d.]+)\)/.exec(pattern.getAttribute('patternTransform') ?? '')?.[1] ?? 0);
  const filling = [...pattern.children].map((mark) => {
    const ground = mark.localName === 'rect' && number(mark, 'width') === size && number(mark, 'height') === size;
    const made = /** @type {SVGElement} */ (ground ? box.cloneNode(true) : document.createElementNS(SVG, 'path'));
    for (const name of LOOK) made.removeAttribute(name);
    const opacity = Number(mark.getAttribute('opacity') ?? 1) * Number(mark.getAttribute('fill-opacity') ?? 1);
    if (opacity !== 1) made.setAttribute('opacity', short(opacity));
    const colour = mark.getAttribute('fill');
    const dot = mark.localName === 'circle';
    made.setAttribute('fill', dot ? 'none' : colour);
    made.setAttribute('stroke', dot ? colour : 'none');
    if (dot) made.setAttribute('stroke-width', short(2 * number(mark, 'r')));
    if (dot) made.setAttribute('stroke-linecap', 'round');
    if (!ground) made.setAttribute('d', dot ? dots(room, mark, size) : bars(room, mark, size, (turn * Math.PI) / 180));
    return made;
  }).filter((made) => made.getAttribute('d') !== '');
  // Opacity is of a whole: what lies over something else of it does not let that through.
  const around = groupOf(box.getAttribute('opacity'));
  const within = groupOf(box.getAttribute('fill-opacity'));
  box.setAttribute('fill', 'none');
  for (const name of ['opacity', 'fill-opacity']) box.removeAttribute(name);
  if (around) box.replaceWith(around);
  around?.append(box);
  within?.append(...filling);
  box.before(...(within ? [within] : filling));
}

/** @param {string|null} opacity @returns {SVGElement|null} null: none is needed */
function groupOf(opacity) {
  if (opacity === null) return null;
  const group = document.createElementNS(SVG, 'g');
  group.setAttribute('opacity', opacity);
  return group;
}

/** Dots that lie whole in the room, as lines of no length with round ends. */
function dots({ x, y, w, h }, mark, size) {
  const [cx, cy, r] = ['cx', 'cy', 'r'].map((name) => number(mark, name));
  const places = [];
  for (let top = Math.ceil((y + r - cy) / size) * size + cy; top <= y + h - r; top += size) {
    for (let left = Math.ceil((x + r - cx) / size) * size + cx; left <= x + w - r; left += size) places.push(`M${short(left)} ${short(top)}h.01`);
  }
  return places.join('');
}

/** The parts of a bar, or of a square, of each tile of the pattern that lie in the room. */
function bars({ x, y, w, h }, mark, size, angle) {
  const corners = [[x, y], [x + w, y], [x + w, y + h], [x, y + h]];
  const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
  const along = { u: ([a, b]) => a * cos + b * sin, v: ([a, b]) => b * cos - a * sin };
  const whole = number(mark, 'height') === size; // a bar goes on from tile to tile
  const reach = (measure) => [Math.floor(Math.min(...corners.map(measure)) / size), Math.floor(Math.max(...corners.map(measure)) / size)];
  const [firstU, lastU] = reach(along.u);
  const [firstV, lastV] = whole ? [0, 0] : reach(along.v);
  const parts = [];
  for (let i = firstU; i <= lastU; i += 1) {
    for (let j = firstV; j <= lastV; j += 1) {
      let part = between(corners, along.u, i * size + number(mark, 'x'), number(mark, 'width'));
      if (!whole) part = between(part, along.v, j * size + number(mark, 'y'), number(mark, 'height'));
      if (part.length > 2) parts.push(`M${part.map(([a, b]) => `${short(a)} ${short(b)}`).join('L')}Z`);
    }
  }
  return parts.join('');
}

/** The part of a polygon where `from <= measure <= from + width`. */
function between(polygon, measure, from, width) {
  const above = cut(polygon, (point) => measure(point) - from);
  return cut(above, (point) => from + width - measure(point));
}

/** The part of a convex polygon where `side` is not negative. @param {number[][]} polygon @param {(point: number[]) => number} side linear */
function cut(polygon, side) {
  return polygon.flatMap((point, n) => {
    const next = polygon[(n + 1) % polygon.length];
    const [here, there] = [side(point), side(next)];
    const kept = here >= 0 ? [point] : [];
    if (here * there < 0) kept.push(point.map((x, i) => x + ((next[i] - x) * here) / (here - there)));
    return kept;
  });
}
