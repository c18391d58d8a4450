// The stepping figure: HBM above, the grid of blocks, the running block's SRAM below. Import it from here.
//
//   createFigure(host, {trace, replay, hall?}) -> Figure      hall: larger words and fewer, for a projector
//   figure.show({order, position, cell, focus, previousPosition, animate, speed})   draw this position; cell: {node, row, col, plane?, block?} | null
//                                            focus: the block the page follows where several run together
//                                            animate: fly this step's moves (never under prefers-reduced-motion); speed 1 = 350 ms a move
//   figure.reveal(foot)                      where the figure is taller than the window: scroll to the running block, above `foot` px
//   figure.mark(cells)                       outline operands: [{node, row, col, plane?, block?}]; mark([]) takes it back
//   figure.seek(ms)                          hold this step's flights at a moment (export, tests); figure.finish() ends them
//   figure.resize(), figure.destroy()
//   figure.scene, figure.svg                 what is drawn: plain objects, and the <svg> element
//
//   Events of `host` (CustomEvent): 'cell' {node, row, col, plane?, block?}  a person chose a cell (node is a node id)
//                                   'block' {launch, block}                  a person chose a block's square
//   The figure is one tab stop. Keys it takes while focused: arrows, Home, End, [ and ] (slot or array), comma and full stop (plane),
//   Enter, Escape (leaves).
//   The stylesheet is static/css/figure.css; `host` should have a size (below 600 px of width the height is free).

import { cellWords } from './cellwords.js';
import { Renderer, svg } from './draw.js';
import { hit, moved, settle, turnedBy } from './hit.js';
import { FREE_BELOW } from './layout/measures.js';
import { Motion, MOVE } from './motion.js';
import { makeScene, SceneMemory } from './scene.js';
import { cellBox } from './scene/items.js';

const SPOKEN = 'Figure of the running step. Arrow keys move among cells, brackets go to the next slot or array, comma and full stop to another head, Enter selects, Escape leaves.';
const reduced = globalThis.matchMedia?.('(prefers-reduced-motion: reduce)');
let count = 0;

/** @returns the figure of one trace in one host; see the top of this file. */
export function createFigure(host, { trace, replay, hall = false }) {
  const id = `flashstep-figure-${++count}`;
  const frame = document.createElement('div');
  frame.className = 'figure';
  frame.tabIndex = 0;
  frame.setAttribute('role', 'application');
  frame.setAttribute('aria-roledescription', 'stepping figure');
  frame.setAttribute('aria-label', SPOKEN);
  // Two cursors take turns: a screen reader speaks the active descendant when it becomes another one.
  const cursors = [0, 1].map((n) => {
    const cursor = document.createElement('span');
    cursor.id = `${id}-cursor${n}`;
    cursor.className = 'figure-cursor';
    cursor.setAttribute('role', 'img');
    cursor.setAttribute('aria-label', 'no cell');
    return cursor;
  });
  const root = svg('svg', { class: 'figure-svg', 'aria-hidden': 'true', focusable: 'false' });
  const tip = document.createElement('div');
  tip.className = 'figure-tip';
  tip.hidden = true;
  tip.setAttribute('aria-hidden', 'true');
  frame.append(...cursors, root, tip);
  host.append(frame);

  const renderer = new Renderer(root, frame);
  const motion = new Motion(renderer);
  const memory = new SceneMemory();
  let shown = null; // the last view asked for
  let scene = null;
  let place = null; // the keyboard's place: {target, row, col} or {target, index}
  let marks = [];
  let hovered = null;
  let look = {}; // where a person turned an array's frame to, until the next step
  let spoken = 0;

  // Asked of the browser only when the host changes: reading a size in the middle of a step costs a layout.
  let size = measure();
  function measure() {
    const width = Math.max(280, host.clientWidth || 800);
    const height = host.clientHeight || 0;
    return { width, height: width < FREE_BELOW || height < 240 ? null : height };
  }

  function draw() {
    scene = makeScene({ trace, replay, memory, look, hall, ...shown, ...size });
    renderer.draw(scene);
    drawOver();
  }

  const context = () => ({ trace, replay, order: shown.order, position: shown.position, scene });
  const targetOf = (key) => scene.targets.find((target) => target.id === key);
  const focused = () => document.activeElement === frame;

  /** The target that shows a cell of a node, if it is in the frame. */
  function targetFor(cell) {
    return scene.targets.find(
      (target) =>
        target.node === cell.node &&
        (target.kind !== 'slot' || cell.block === undefined || cell.block === target.block) &&
        (target.kind !== 'array' || cell.plane === undefined || cell.plane === target.plane),
    );
  }

  function drawOver() {
    const items = [];
    marks.slice(0, 200).forEach((cell, n) => {
      const target = targetFor(cell);
      const at = target && cellBox(target, cell.row, cell.col);
      if (at) items.push({ kind: 'box', key: `mark${n}`, ...at, cls: 'mark', r: 1.5 });
    });
    const now = focused() ? (place = settle(scene, place)) : null;
    const around = now && boxOf(now);
    if (around) items.push({ kind: 'box', key: 'cursor', x: around.x - 2, y: around.y - 2, w: around.w + 4, h: around.h + 4, cls: 'cursor', r: 3 });
    renderer.drawOver(items);
    if (now) speak(now);
    if (hovered) showTip(hovered.x, hovered.y);
    else if (now) showTipAt(now, around);
    else tip.hidden = true;
  }

  function boxOf(at) {
    const target = targetOf(at.target);
    if (!target) return null;
    return target.kind === 'grid' ? target.squares[at.index] : cellBox(target, at.row, at.col);
  }

  function wordsOf(at) {
    const target = targetOf(at.target);
    if (target.kind === 'grid') return squareWords(target.squares[at.index]);
    return cellWords(context(), target, at.row, at.col);
  }

  function squareWords(square) {
    const launch = trace.launches[square.launch];
    const name = square.count === 1 ? `block ${square.first}` : `blocks ${square.first} to ${square.end - 1}`;
    const state = square.count === 1 ? square.state : `${square.done} done, ${square.busy} running, ${square.count - square.done - square.busy} waiting`;
    return { name, value: state, notes: trace.launches.length > 1 ? [launch.title] : [], full: `${name} of ${launch.title}: ${state}` };
  }

  function speak(at) {
    const { full } = wordsOf(at);
    if (cursors[spoken].getAttribute('aria-label') !== full) {
      spoken = 1 - spoken;
      cursors[spoken].setAttribute('aria-label', full);
    }
    frame.setAttribute('aria-activedescendant', cursors[spoken].id);
  }

  function fillTip({ name, value, notes }) {
    tip.replaceChildren();
    const head = document.createElement('b');
    head.textContent = name;
    const number = document.createElement('span');
    number.className = 'figure-tip-value';
    number.textContent = value;
    tip.append(head, ...(value ? [number] : []));
    for (const note of notes) {
      const line = document.createElement('small');
      line.textContent = note;
      tip.append(line);
    }
    tip.hidden = false;
  }

  function putTip(x, y) {
    const [width, height] = [tip.offsetWidth, tip.offsetHeight];
    const left = Math.min(Math.max(4, x + 14), frame.clientWidth - width - 4);
    const top = y + 18 + height > frame.clientHeight ? y - height - 12 : y + 18;
    tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(Math.max(2, top))}px)`;
  }

  function showTipAt(at, around) {
    fillTip(wordsOf(at));
    const [x, y] = fromScene(around.x + around.w, around.y + around.h);
    putTip(x, y);
  }

  function showTip(x, y) {
    const found = hit(scene, x, y);
    frame.classList.toggle('over-cell', Boolean(found));
    if (!found) {
      tip.hidden = true;
      return;
    }
    fillTip(found.button ? { name: found.button.words, value: '', notes: [] } : found.square ? squareWords(found.square) : cellWords(context(), found.target, found.row, found.col));
    putTip(...fromScene(x, y));
  }

  // The svg is drawn at its own size, one unit a px, so scene and frame differ by the svg's offset only.
  const offset = () => {
    const [outer, inner] = [frame.getBoundingClientRect(), root.getBoundingClientRect()];
    return [inner.left - outer.left, inner.top - outer.top];
  };
  const fromScene = (x, y) => {
    const [dx, dy] = offset();
    return [x + dx, y + dy];
  };
  const toScene = (event) => {
    const inner = root.getBoundingClientRect();
    return [event.clientX - inner.left, event.clientY - inner.top];
  };

  /** Turn an array's frame to other tiles or another plane: a look around, not a step. */
  function turn({ node, look: to }) {
    motion.finish();
    look = { ...look, [node]: { ...look[node], ...to } };
    draw();
  }

  const emit = (type, detail) => host.dispatchEvent(new CustomEvent(type, { detail, bubbles: true }));

  function choose(found) {
    if (!found) return;
    if (found.button) {
      turn(found.button);
      return;
    }
    if (found.square) {
      emit('block', { launch: found.square.launch, block: found.square.first });
      return;
    }
    const { target, row, col } = found;
    emit('cell', target.kind === 'slot' ? { node: target.node, row, col, block: target.block } : { node: target.node, row, col, plane: target.plane });
  }

  const listeners = {
    pointermove(event) {
      if (!scene || event.pointerType === 'touch') return;
      const [x, y] = toScene(event);
      hovered = { x, y };
      showTip(x, y);
    },
    pointerleave() {
      hovered = null;
      frame.classList.remove('over-cell');
      if (scene) drawOver();
    },
    // A click must not move the focus here: the arrow keys would stop stepping.
    mousedown(event) {
      event.preventDefault();
    },
    click(event) {
      if (!scene) return;
      const [x, y] = toScene(event);
      choose(hit(scene, x, y));
    },
    focus() {
      if (!scene) return;
      if (!place && shown.cell) {
        const target = targetFor(shown.cell);
        if (target) place = { target: target.id, row: shown.cell.row, col: shown.cell.col };
      }
      drawOver();
    },
    blur() {
      frame.removeAttribute('aria-activedescendant');
      if (scene) drawOver();
    },
    keydown(event) {
      if (!scene || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
      if (event.key === 'Escape') {
        frame.blur();
      } else if (event.key === 'Enter') {
        place = settle(scene, place);
        const target = place && targetOf(place.target);
        if (target) choose(target.kind === 'grid' ? { square: target.squares[place.index] } : { target, row: place.row, col: place.col });
      } else {
        const around = turnedBy(scene, place, event.key);
        if (around) turn(around);
        const next = moved(scene, place, event.key);
        if (!next && !around) return;
        place = next ?? settle(scene, place);
        hovered = null;
        drawOver();
      }
      event.preventDefault();
      event.stopPropagation();
    },
  };
  for (const [type, listener] of Object.entries(listeners)) frame.addEventListener(type, listener);

  function themed() {
    renderer.themed();
    if (shown) draw();
  }
  const dark = globalThis.matchMedia?.('(prefers-color-scheme: dark)');
  dark?.addEventListener('change', themed);
  const theme = new MutationObserver(themed);
  theme.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme', 'class'] });

  function resize() {
    const next = measure();
    if (next.width === size.width && next.height === size.height) return;
    size = next;
    if (!shown) return;
    motion.finish();
    draw();
  }
  const observer = new ResizeObserver(() => resize());
  observer.observe(host);

  return {
    show({ order, position, cell = null, focus = 0, previousPosition = null, animate = false, speed = 1 }) {
      motion.finish();
      if (shown && (shown.order !== order || shown.position !== position || shown.cell !== cell)) look = {};
      shown = { order, position, cell, focus };
      draw();
      const forward = previousPosition === null || position > previousPosition;
      if (animate && forward && !reduced?.matches) motion.start(scene, MOVE / (speed || 1));
    },
    reveal(foot) {
      if (size.height !== null || !scene?.lead) return;
      const top = root.getBoundingClientRect().top + scene.lead.y;
      const below = top + scene.lead.h + 8 - (innerHeight - foot);
      if (below > 0) scrollBy({ top: Math.min(below, top - 8), behavior: 'instant' });
    },
    mark(cells) {
      marks = cells ?? [];
      if (scene) drawOver();
    },
    seek: (ms) => motion.seek(ms),
    finish: () => motion.finish(),
    resize,
    destroy() {
      motion.finish();
      observer.disconnect();
      theme.disconnect();
      dark?.removeEventListener('change', themed);
      frame.remove();
    },
    get scene() {
      return scene;
    },
    get svg() {
      return root;
    },
    get busy() {
      return motion.busy;
    },
  };
}
