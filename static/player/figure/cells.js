// Heat maps: the cells of some tiles painted into one picture, so that an array of any size is one node.
// Painting is pixel by pixel in the figure's own resolution: each pixel knows its cell, and where a pixel covers
// several cells the strangest of them shows (NaN before infinities before the largest), so that none is lost.

import { intensity, special } from './palette.js';

/** Colours of one theme as [r, g, b]; `hues` by hue class. Read from the stylesheet, see readColours. */
const COLOUR_NAMES = ['paper', 'ink', 'ninf', 'inf', 'nan', 'nan-2'];

/** The strongest tint of a heat map: no text stands on it, so it may be deeper than a number's cell. */
const DEEPEST = 0.92;
const FAINTEST = 0.05;

const mix = (a, b, t) => a + (b - a) * t;

/** [r, g, b] of an ordinary number: paper to hue by size; a negative one leans to ink. */
export function tint(x, scale, hue, colours) {
  const t = FAINTEST + (DEEPEST - FAINTEST) * intensity(x, scale) ** 0.8;
  const lean = x < 0 ? 0.45 : 0;
  return [0, 1, 2].map((c) => Math.round(mix(colours.paper[c], mix(hue[c], colours.ink[c], lean), t)));
}

function rank(x) {
  if (x !== x) return 3e38 * 2;
  return Math.abs(x);
}

/** The cell that a span of cells shows: the one hardest to overlook. */
function strongest(values, cols, r0, r1, c0, c1) {
  let best = values[r0 * cols + c0];
  let top = rank(best);
  for (let r = r0; r < r1; r++) {
    for (let c = c0; c < c1; c++) {
      const size = rank(values[r * cols + c]);
      if (size > top || size !== size) {
        top = size;
        best = values[r * cols + c];
      }
    }
  }
  return best;
}

/**
 * Paint the parts of a heat item. Pure: returns RGBA bytes, row-major.
 * @returns {{width: number, height: number, pixels: Uint8ClampedArray}}
 */
export function paint(item, colours, density) {
  const width = Math.max(1, Math.round(item.w * density));
  const height = Math.max(1, Math.round(item.h * density));
  const pixels = new Uint8ClampedArray(width * height * 4);
  const words = new Uint32Array(pixels.buffer);
  const word = ([r, g, b]) => (255 << 24) | (b << 16) | (g << 8) | r;
  // Loud enough to find one cell, quiet enough to bear an array of them.
  const softer = (name) => mixWord(colours.paper, colours[name], 0.6, word);
  const marks = { ninf: word(colours.ninf), inf: word(colours.inf), nan: softer('nan'), nan2: softer('nan-2'), paper: word(colours.paper) };
  for (const part of item.parts) {
    if (!part.values) continue;
    const x0 = Math.round((part.x - item.x) * density);
    const y0 = Math.round((part.y - item.y) * density);
    const w = Math.max(1, Math.round(part.w * density));
    const h = Math.max(1, Math.round(part.h * density));
    const validW = Math.round((w * part.validCols) / part.cols);
    const validH = Math.round((h * part.validRows) / part.rows);
    const hue = colours.hues[part.hue];
    const ramp = rampOf(hue, colours, word);
    const { values, validRows, validCols } = part;
    // Which cells a column or row of pixels covers, once for all.
    const spans = (count, size) => {
      const out = new Int32Array(size * 2);
      for (let p = 0; p < size; p++) {
        const from = Math.min(count - 1, Math.floor((p * count) / size));
        out[2 * p] = from;
        out[2 * p + 1] = Math.max(from + 1, Math.min(count, Math.floor(((p + 1) * count) / size)));
      }
      return out;
    };
    if (!validRows || !validCols) continue;
    const across = spans(validCols, validW);
    const down = spans(validRows, validH);
    const fine = validCols <= validW && validRows <= validH;
    for (let py = 0; py < validH && y0 + py < height; py++) {
      const r0 = down[2 * py];
      const line = (y0 + py) * width + x0;
      for (let px = 0; px < validW && x0 + px < width; px++) {
        const c0 = across[2 * px];
        const x = fine ? values[r0 * validCols + c0] : strongest(values, validCols, r0, down[2 * py + 1], c0, across[2 * px + 1]);
        let colour;
        const look = special(x);
        if (look === '') {
          const step = Math.round(intensity(x, part.scale ?? item.scale) * 255);
          colour = ramp[x < 0 ? 256 + step : step];
        } else if (look === 'nan') colour = ((px >> 2) + (py >> 2)) % 2 ? marks.nan : marks.nan2;
        else if (look === 'ninf') colour = (px + py) % 5 < 2 ? marks.ninf : mixWord(colours.paper, colours.ninf, 0.35, word);
        else colour = (px - py + 4096) % 5 < 2 ? marks.paper : marks.inf;
        words[line + px] = colour;
      }
    }
  }
  return { width, height, pixels };
}

function mixWord(a, b, t, word) {
  return word([0, 1, 2].map((c) => Math.round(mix(a[c], b[c], t))));
}

const ramps = new WeakMap();

/** 256 steps for positive numbers, then 256 for negative ones. */
function rampOf(hue, colours, word) {
  let ofTheme = ramps.get(colours);
  if (!ofTheme) ramps.set(colours, (ofTheme = new Map()));
  if (!ofTheme.has(hue)) {
    const ramp = new Uint32Array(512);
    for (let i = 0; i < 256; i++) {
      ramp[i] = word(tint(i / 255, 1, hue, colours));
      ramp[256 + i] = word(tint(-i / 255, 1, hue, colours));
    }
    ofTheme.set(hue, ramp);
  }
  return ofTheme.get(hue);
}

/** Reads the theme's colours off the figure's own element, as the stylesheet resolves them there. */
export function readColours(host, hueNames) {
  const probe = document.createElement('span');
  probe.className = 'figure-probe';
  host.append(probe);
  const rgb = (variable) => {
    probe.style.color = `var(--fig-${variable})`;
    const numbers = getComputedStyle(probe).color.match(/[\d.]+/g) ?? [128, 128, 128];
    const scale = getComputedStyle(probe).color.startsWith('color(') ? 255 : 1;
    return numbers.slice(0, 3).map((x) => Math.round(Number(x) * scale));
  };
  const colours = { hues: {} };
  for (const name of COLOUR_NAMES) colours[name] = rgb(name);
  for (const hue of hueNames) colours.hues[hue] = rgb(hue);
  probe.remove();
  return colours;
}

/** A painted picture as a data URL. */
export function toDataUrl({ width, height, pixels }) {
  const canvas = document.createElement('canvas');
  canvas.width = width;
  canvas.height = height;
  canvas.getContext('2d').putImageData(new ImageData(pixels, width, height), 0, 0);
  return canvas.toDataURL();
}
