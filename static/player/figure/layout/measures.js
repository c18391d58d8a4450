// Sizes of the frame and of its type, and how wide a text stands: what every part of the layout measures with.

/** Below this width the figure may be as tall as it likes: the page scrolls. */
export const FREE_BELOW = 600;
export const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
export const total = (numbers) => numbers.reduce((sum, x) => sum + x, 0);
export const shifted = (box, x, y) => ({ ...box, x: box.x + x, y: box.y + y });

/** In a hall words are read from the back row: so much larger than at a desk. */
const HALL_TYPE = 1.38;

/**
 * Sizes that grow with the frame, so that 1920×1080 is 1366×768 seen from nearer.
 * hall: for a projector: larger words, and fewer of them.
 */
export function measures(width, height, hall = false) {
  const free = height === null || width < FREE_BELOW;
  const k = free ? 1 : clamp(Math.min(width / 800, height / 560), 0.82, 1.7);
  const type = Math.max(k, 0.98) * (hall && !free ? HALL_TYPE : 1); // room may shrink a little; words must not
  return {
    k,
    free,
    hall: hall && !free,
    pad: 10 * k, // inside panels
    heading: hall && !free ? 23 * type : 25 * k, // a panel's title line
    title: 18 * type, // an array's name
    note: 13.5 * type, // a line of small type
    slotNote: hall && !free ? 0 : 13.5 * type, // the line under a slot's name; in a hall it stands beside it
    ring: 5 * k, // around a slot
    gap: 11 * k, // between neighbours, at least
    between: 8 * k, // between panels
    font: { heading: 13.5 * type, title: 12.5 * type, text: 11.5 * type, small: 10.3 * type },
  };
}

/** Width of a text in px, near enough to place things: the browser is not asked. */
export function textWidth(text, size, bold = false) {
  return text.length * size * (bold ? 0.66 : 0.57);
}

/** Width of a panel's name, whose capitals are wider than `textWidth` reckons. */
export function nameWidth(name, size) {
  const capitals = name.match(/[A-Z]/g)?.length ?? 0;
  return (capitals * 0.82 + (name.length - capitals) * 0.66) * size;
}

/** Breaks a sentence into lines no wider than `width`. */
export function wrap(sentence, width, size) {
  const lines = [''];
  for (const word of sentence.split(' ')) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (textWidth(longer, size) > width && lines.at(-1)) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  return lines;
}
