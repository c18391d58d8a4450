// Blocks on shelves: broken like words into lines, stacked where they are low, and put in place.

import { clamp, total } from './measures.js';

/**
 * Breaks blocks, in order, into shelves no wider than `width` so that they stand least tall; among equals, evenly filled
 * shelves, broken before a block that asks for it (`fresh`). Null: one is too wide.
 */
export function flow(blocks, width, gap, rowGap) {
  const n = blocks.length;
  const best = [{ h: 0, cost: 0, from: -1 }];
  for (let i = 1; i <= n; i++) {
    let w = -gap;
    let h = 0;
    best[i] = { h: Infinity, cost: Infinity, from: -1 };
    for (let j = i - 1; j >= 0; j--) {
      w += blocks[j].w + gap;
      if (w > width + 0.01) break;
      h = Math.max(h, blocks[j].h);
      const sum = best[j].h + h + (j > 0 ? rowGap : 0);
      const slack = (1 - w / width) ** 2 * 6;
      const cost = best[j].cost + h + (j > 0 ? rowGap : 0) + slack - (j > 0 && blocks[j].fresh ? 6 : 0);
      if (cost < best[i].cost - 0.01) best[i] = { h: sum, cost, from: j };
    }
    if (best[i].h === Infinity) return null;
  }
  const shelves = [];
  for (let i = n; i > 0; i = best[i].from) shelves.unshift(blocks.slice(best[i].from, i));
  return { shelves, h: best[n].h };
}

/** Sets low neighbours one above the other while they stay under the tallest: a column of partials beside K and V. */
export function stack(blocks, gap) {
  const tallest = Math.max(0, ...blocks.map((block) => block.h));
  const out = [];
  for (const block of blocks) {
    const last = out.at(-1);
    if (last?.stack && block.h <= tallest / 2 && last.h + gap + block.h <= tallest) {
      last.stack.push({ block, y: last.h + gap });
      last.h += gap + block.h;
      last.w = Math.max(last.w, block.w);
    } else if (block.h <= tallest / 2) out.push({ stack: [{ block, y: 0 }], w: block.w, h: block.h });
    else out.push(block);
  }
  return out;
}

/** Puts the shelves of a flow at x, y: each block gets its corner. Neighbours share the room that is left. */
export function place(flowed, x, y, width, gap, rowGap, m) {
  const placed = [];
  for (const shelf of flowed.shelves) {
    const used = total(shelf.map((block) => block.w));
    const between = shelf.length > 1 ? clamp((width - used) / (shelf.length - 1), gap, gap + 40 * m.k) : 0;
    let left = x + Math.max(0, (width - used - between * (shelf.length - 1)) / 2);
    const h = Math.max(...shelf.map((block) => block.h));
    for (const block of shelf) {
      if (block.stack) {
        for (const part of block.stack) placed.push({ block: part.block, x: left + (block.w - part.block.w) / 2, y: y + part.y });
      } else placed.push({ block, x: left, y });
      left += block.w + between;
    }
    y += h + rowGap;
  }
  return placed;
}
