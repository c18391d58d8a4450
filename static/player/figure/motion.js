// Moves of a step as animations over a figure that already shows the step's final state.
//
// A flight is a copy of the tile that travels; what it lands on is held back until it arrives. Everything is built on
// the Web Animations API with one clock, so a frame is a pure function of (step, milliseconds): seek() shows it, and
// ending the motion at any moment leaves exactly the step.

import { svg } from './draw.js';

/** Milliseconds of a move at speed 1. */
export const MOVE = 350;

const FLY = 'cubic-bezier(.45,.05,.25,1)';

/**
 * The timed list of a scene's moves: a step's loads leave together, stores too. Pure.
 * @returns {{kind, key, start, length, ...}[]}
 */
function timeline(moves, length = MOVE) {
  const several = moves.filter((move) => move.kind === 'load' || move.kind === 'store').length;
  const lag = several > 1 ? Math.min(0.25 * length, (0.6 * length) / several) : 0;
  let flight = 0;
  return moves.map((move) => ({ ...move, start: move.kind === 'load' || move.kind === 'store' ? lag * flight++ : 0, length }));
}

export class Motion {
  #renderer;
  #running = [];
  #clones = [];
  #last = null; // the animation that ends last, and when
  #end = 0;

  /** @param {import('./draw.js').Renderer} renderer */
  constructor(renderer) {
    this.#renderer = renderer;
  }

  /** Is anything in flight? */
  get busy() {
    return this.#running.length > 0;
  }

  /** Fly the moves of a scene that is drawn. Whatever flew before is over. */
  start(scene, length = MOVE) {
    this.finish();
    for (const move of timeline(scene.moves, length)) {
      if (move.kind === 'load' || move.kind === 'store') this.#fly(move);
      else if (move.kind === 'fill') this.#fill(move);
      else if (move.kind === 'update') this.#pulse(move);
      else this.#fade(move.key, move);
    }
    if (!this.#running.length) return;
    const mine = this.#running;
    this.#last.finished.then(
      () => {
        if (this.#running === mine) this.finish();
      },
      () => {}, // cancelled: a newer step took over
    );
  }

  /** Hold every flight at a moment. */
  seek(ms) {
    for (const animation of this.#running) {
      animation.pause();
      animation.currentTime = ms;
    }
  }

  /** End now: the figure shows the step's final state. */
  finish() {
    const running = this.#running;
    this.#running = [];
    this.#end = 0;
    for (const animation of running) animation.cancel();
    for (const clone of this.#clones) clone.remove();
    this.#clones = [];
  }

  #animate(node, frames, { start = 0, length, easing = 'linear' }) {
    const animation = node.animate(frames, { delay: start, duration: length, easing, fill: 'both' });
    this.#running.push(animation);
    if (start + length < this.#end) return;
    this.#end = start + length;
    this.#last = animation;
  }

  #node(key) {
    return this.#renderer.nodes.get(key)?.node ?? null;
  }

  /** The nodes that show a tile or slot: its numbers or picture, and its frame. */
  #parts(key) {
    return [key, `${key}/heat`, `${key}/frame`].map((each) => this.#node(each)).filter(Boolean);
  }

  #fly(move) {
    const { from, to } = move;
    const clone = svg('g', { class: 'f-flight' });
    // The copy is of what lands (its numbers are the ones that travel), drawn at the place it leaves.
    const load = move.kind === 'load';
    const shown = (load ? move.lands : move.source).flatMap((key) => this.#parts(key));
    const home = load ? to : from;
    clone.append(svg('rect', { class: 'f-ground', x: home.x, y: home.y, width: home.w, height: home.h })); // tints are translucent
    for (const part of shown) clone.append(part.cloneNode(true));
    if (!shown.length) clone.append(svg('rect', { class: 'f-frame', x: home.x, y: home.y, width: home.w, height: home.h }));
    for (const part of clone.querySelectorAll('[data-key]')) part.removeAttribute('data-key');
    this.#renderer.flying.append(clone);
    this.#clones.push(clone);
    const at = (box) => {
      const [sx, sy] = [box.w / home.w, box.h / home.h];
      return `translate(${box.x - home.x * sx}px, ${box.y - home.y * sy}px) scale(${sx}, ${sy})`;
    };
    this.#animate(
      clone,
      [
        { transform: at(from), opacity: 1 },
        { transform: at(to), opacity: 1, offset: 0.999 },
        { transform: at(to), opacity: 0 },
      ],
      { ...move, easing: FLY },
    );
    for (const key of move.lands) {
      for (const part of this.#parts(key)) {
        this.#animate(part, [{ opacity: 0.12 }, { opacity: 0.12, offset: 0.97 }, { opacity: 1 }], move);
      }
    }
  }

  /** Cell by cell, in reading order; a picture row by row. */
  #fill(move) {
    const cells = this.#node(move.key);
    if (cells && cells.childNodes.length) {
      const nodes = [...cells.childNodes];
      const count = nodes.length / 2;
      const each = move.length / Math.max(4, count);
      nodes.forEach((node, n) => {
        const start = (Math.floor(n / 2) * move.length) / count;
        this.#animate(node, [{ opacity: 0 }, { opacity: 1 }], { start, length: each });
      });
      return;
    }
    const picture = this.#node(`${move.key}/heat`);
    if (picture) {
      this.#animate(picture, [{ clipPath: 'inset(0 0 100% 0)' }, { clipPath: 'inset(0 0 0% 0)' }], { ...move, easing: `steps(${Math.min(32, Math.max(1, move.rows))})` });
    }
  }

  #pulse(move) {
    const ring = this.#node(`${move.key}/ring`);
    if (ring) this.#animate(ring, [{ opacity: 0, strokeWidth: '7px' }, { opacity: 1, strokeWidth: '4px', offset: 0.5 }, { opacity: 1 }], { ...move, easing: 'ease-out' });
    for (const part of [move.key, `${move.key}/heat`].map((key) => this.#node(key)).filter(Boolean)) {
      this.#animate(part, [{ opacity: 0.25 }, { opacity: 1 }], move);
    }
    for (const part of [`${move.key}/old`, `${move.key}/old/heat`, `${move.key}/old/frame`, `${move.key}/old/arrow`]) {
      const node = this.#node(part);
      if (node) this.#animate(node, [{ opacity: 0 }, { opacity: 1 }], { ...move, length: move.length * 0.6 });
    }
  }

  #fade(key, move) {
    for (const part of this.#parts(key)) this.#animate(part, [{ opacity: 0.1 }, { opacity: 1 }], { ...move, length: move.length * 0.7 });
  }
}
