// What is wrong with where the parts of the figure stand at a position, in words; and how many nodes it takes.
(position) => {
  stage.show(position);
  const { scene, svg: root } = stage.figure;
  const frame = root.getBoundingClientRect();
  const placed = (node) => {
    const at = node.getBoundingClientRect();
    return { x: at.left - frame.left, y: at.top - frame.top, w: at.width, h: at.height };
  };
  const faults = new Set();
  const texts = [...root.querySelectorAll('.fig-layer text[data-key]')].filter((node) => node.textContent).map((node) => ({ key: node.dataset.key, ...placed(node) }));
  const boxes = scene.items.filter(({ kind }) => kind === 'box');
  const keyed = (pattern) => boxes.filter(({ key }) => pattern.test(key));
  const panels = keyed(/^(hbm|p\d+)$/);
  const squares = keyed(/^g\d+\/(\d+|chip)$/);
  const bars = keyed(/\/more\/\w+$/);
  const brackets = keyed(/\/split\d*$/);
  const frames = boxes.filter(({ cls }) => cls.startsWith('frame'));
  const meet = (a, b, dx = 2, dy = 2.5) =>
    Math.min(a.x + a.w, b.x + b.w) - Math.max(a.x, b.x) > dx && Math.min(a.y + a.h, b.y + b.h) - Math.max(a.y, b.y) > dy;
  const within = (a, b, slack) => a.x >= b.x - slack && a.y >= b.y - slack && a.x + a.w <= b.x + b.w + slack && a.y + a.h <= b.y + b.h + slack;
  const apart = (ones, others, words, ...by) => {
    for (const one of ones) for (const other of others) if (one !== other && meet(one, other, ...by)) faults.add(`${one.key} ${words} ${other.key}`);
  };
  const panelOf = ({ key }) => panels.find((panel) => panel.key === (/^(a\d|hbm)/.test(key) ? 'hbm' : key.match(/^p\d+/)?.[0]));

  apart(panels, panels, 'meets', 0.5, 0.5);
  apart(squares, [...panels, ...squares], 'meets', 0.5, 0.5);
  apart(frames, frames, 'meets', 0.5, 0.5);
  const whole = { x: 0, y: 0, w: scene.width, h: scene.height };
  for (const [parts, slack] of [[boxes, 1.5], [texts, 1]]) {
    for (const part of parts) {
      if (!within(part, whole, slack)) faults.add(`${part.key} is off the figure`);
      const panel = panelOf(part);
      if (panel && panel !== part && !within(part, panel, slack)) faults.add(`${part.key} is not within ${panel.key}`);
    }
  }
  apart(texts, texts, 'lies on');
  apart(texts, frames.filter(({ cls }) => !cls.includes('empty')), 'lies on');
  apart(texts, brackets, 'lies on', 1);
  apart(texts.filter(({ key }) => key.startsWith('g')), panels, 'lies on', 1, 1);
  for (const text of texts) {
    for (const part of [...squares, ...bars]) {
      const own = text.key === `${part.key}/t`;
      if (own && !within(text, part, 4)) faults.add(`${text.key} is larger than its place`);
      if (!own && meet(text, part)) faults.add(`${text.key} lies on ${part.key}`);
    }
  }
  for (const number of root.querySelectorAll('.f-cells text')) {
    if (number.textContent && placed(number).w > placed(number.previousSibling).w + 0.5) faults.add(`${number.textContent} is wider than its cell`);
  }
  // The lines to SRAM, from where they leave the column of their square.
  for (const { key, d } of scene.items.filter(({ cls }) => cls === 'leader')) {
    const [x0, , y0, to0, y1, to1, x1] = d.match(/-?[\d.]+(e-?\d+)?/g).map(Number);
    const points = [];
    for (let t = 0; t <= 1; t += 1 / 64) for (const [from, to] of [[x0, to0], [x1, to1]]) points.push([from + (to - from) * t, y0 + (y1 - y0) * t]);
    for (const part of [...squares, ...texts, ...panels]) {
      const crossed = points.some(([x, y]) => x > part.x + 1 && x < part.x + part.w - 1 && y > part.y + 1 && y < part.y + part.h - 1);
      if (crossed) faults.add(`${key} crosses ${part.key}`);
    }
  }
  return { faults: [...faults], nodes: root.querySelectorAll('*').length };
}
