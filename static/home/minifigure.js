// A recording in the size of a card: HBM's arrays as their tiles over the grid's squares over the running block's slots.
// Everything drawn is read from the trace: where tiles lie, which moved, what every cell holds. draw(t) is a pure
// function of the step; only the small ghost that flies from source to destination knows of time.

import { scaleOf } from "../player/figure/facts.js";
import { hueOf, intensity } from "../player/figure/palette.js";
import { soFar, sum } from "../player/ledger.js";
import { serial } from "../player/order.js";
import { Replay } from "../player/replay.js";

const WIDTH = 400;
const CELL = 8;
const TILE_GAP = 3;
const LABEL = 15; // the line of names over the cells
const PAD = 9;
const LEFT = 46; // room for the panels' own names
const GRID = 28; // between the two panels
// Every card keeps this room, so that the cards of one row stand level.
const HBM_ROOM = 8 * CELL + 3 * TILE_GAP;
const SRAM_ROOM = 4 * CELL;
const SQUARE = 12;
const FLIGHT = 520; // milliseconds
const NS = "http://www.w3.org/2000/svg";

/**
 * @param {SVGSVGElement} host is filled
 * @param {import("../player/trace.js").Trace} trace
 */
export function miniFigure(host, trace) {
  const replay = new Replay(trace);
  const order = serial(trace);
  const arrays = trace.arrays.filter((array) => array.space === "hbm");
  const hbm = place(arrays.map(arrayBox), PAD + LABEL);
  const hbmHeight = PAD + LABEL + Math.max(HBM_ROOM, hbm.height) + PAD;
  const top = hbmHeight + GRID;
  const rooms = trace.launches.map((launch) => place(launch.slots.map(slotBox), top + PAD + LABEL));
  const sramHeight = PAD + LABEL + Math.max(SRAM_ROOM, ...rooms.map((room) => room.height)) + PAD;
  const height = top + sramHeight;

  host.setAttribute("viewBox", `0 0 ${WIDTH} ${height}`);
  host.replaceChildren();
  const pattern = add(add(host, "defs"), "pattern", { id: `${host.id}-inf`, width: 3, height: 3, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
  add(pattern, "rect", { width: 1.2, height: 3, class: "inf-ink" });

  add(host, "rect", { class: "panel", x: 0.5, y: 0.5, width: WIDTH - 1, height: hbmHeight - 1, rx: 6 });
  add(host, "text", { class: "where", x: 10, y: 19 }).textContent = "HBM";
  const beam = add(host, "path", { class: "beam" });
  add(host, "rect", { class: "sram", x: 0.75, y: top + 0.75, width: WIDTH - 1.5, height: sramHeight - 1.5, rx: 6 });
  add(host, "text", { class: "where", x: 10, y: top + 19 }).textContent = "SRAM";

  const asked = add(host, "text", { class: "asked", x: WIDTH - 10, y: hbmHeight + GRID / 2 + 4 });

  const hbmItems = hbm.boxes.map((box) => drawBox(add(host, "g"), box));
  const squares = drawGrid(add(host, "g"), trace, hbmHeight + (GRID - SQUARE) / 2);
  const roomGroups = rooms.map((room) => {
    const group = add(host, "g");
    return { group, items: room.boxes.map((box) => drawBox(group, box)) };
  });
  const flights = add(host, "g", { class: "flights" });

  /** @param {number} t the step @param {boolean} moving whether its tiles fly */
  function draw(t, moving = false) {
    const step = trace.step(t);
    const at = order.at(t);
    const launch = Math.max(0, step.launch);
    for (const item of hbmItems) {
      for (const { tile, cells } of item.tiles) {
        fill(cells, item, replay.tile(item.node.id, tile, order, t).values);
      }
      item.ring(null);
    }
    for (const [index, room] of roomGroups.entries()) room.group.toggleAttribute("hidden", index !== launch);
    for (const item of roomGroups[launch].items) {
      const state = step.launch < 0 ? null : replay.slot(item.node.id, step.block, t);
      const [{ cells }] = item.tiles;
      fill(cells, item, state?.values ?? null, state);
      item.group.classList.toggle("stale", Boolean(state?.stale));
      const name = state?.label ?? item.node.name;
      item.name.textContent = name;
      item.group.style.setProperty("--hue", `var(--${hueOf(name)})`);
      item.ring(null);
    }
    for (const { launch: of, block, rect } of squares) {
      const running = of === step.launch && block === step.block;
      const finished = of < step.launch || (of === step.launch && at.state(block) === "done");
      rect.setAttribute("class", running ? "square running" : finished ? "square done" : "square");
      if (running) beam.setAttribute("d", beamPath(rect, top));
    }
    beam.toggleAttribute("hidden", step.launch < 0);
    const { loads, stores } = sum(soFar(trace, order, t));
    asked.textContent = `${(loads.bytes + stores.bytes).toLocaleString("en")} B requested`;
    flights.replaceChildren();
    const [from, to] = trace.eventRange(t);
    for (let e = from; e < to; e++) {
      const event = trace.event(e);
      const slot = roomGroups[launch].items.find((item) => item.node === event.slot);
      if (!slot) continue;
      const item = event.array && hbmItems.find((other) => other.node === event.array);
      if (event.kind === "load" || event.kind === "store" || event.kind === "partial") {
        for (let k = 0; k < event.tiles; k++) {
          const tile = item?.tiles.find((one) => one.tile === event.tile + k);
          if (!tile) continue;
          item.ring(tile);
          const ends = event.kind === "load" ? [tile.box, slot.tiles[0].box] : [slot.tiles[0].box, tile.box];
          flight(flights, ends, item.hue, moving);
        }
        if (event.kind === "load") slot.ring(slot.tiles[0]);
      } else if (event.kind !== "barrier") slot.ring(slot.tiles[0]);
    }
  }

  function fill(cells, item, values, state = null) {
    for (const [index, cell] of cells.entries()) {
      let x = values ? values[index] : undefined;
      if (values && state && state.cols !== item.node.cols) {
        // A slot may be less full than it is large: row-major in its valid part.
        const row = Math.floor(index / item.node.cols);
        const col = index % item.node.cols;
        x = row < state.rows && col < state.cols ? values[row * state.cols + col] : undefined;
      }
      if (x === undefined) cell.setAttribute("fill", "none");
      else if (Number.isFinite(x)) {
        cell.setAttribute("fill", "var(--hue)");
        cell.setAttribute("fill-opacity", String(Math.round((0.08 + 0.84 * intensity(x, item.scale)) * 100) / 100));
      } else {
        cell.setAttribute("fill", `url(#${host.id}-inf)`);
        cell.setAttribute("fill-opacity", "1");
      }
    }
  }

  function drawBox(parent, box) {
    const { node } = box;
    const hue = hueOf(node.name);
    const group = add(parent, "g", { class: node.space === "register" ? "box register" : "box", style: `--hue: var(--${hue})` });
    const name = add(group, "text", { class: "name", x: box.x + box.width / 2, y: box.y - 5 });
    name.textContent = node.name;
    const left = box.x + (box.width - box.cellsWidth) / 2;
    const tiles = box.tiles.map(({ tile, x, y, rows, cols }) => {
      const frame = { x: left + x, y: box.y + y, width: cols * CELL, height: rows * CELL };
      const cells = [];
      for (let r = 0; r < rows; r++) {
        for (let c = 0; c < cols; c++) {
          cells.push(add(group, "rect", { x: frame.x + c * CELL, y: frame.y + r * CELL, width: CELL, height: CELL, class: "cell" }));
        }
      }
      return { tile, box: frame, cells, frame: add(group, "rect", { ...frame, rx: 1.5, class: "tile" }) };
    });
    const ring = (tile) => {
      if (tile) tile.frame.setAttribute("class", "tile moved");
      else for (const one of tiles) one.frame.setAttribute("class", "tile");
    };
    return { node, hue, scale: scaleOf(trace, node), group, name, tiles, ring };
  }

  return { length: trace.stepCount, height, draw };
}

/** An array's first matrix (plane 0) as tiles with gaps between. */
function arrayBox(node) {
  const rows = node.rowEdges;
  const cols = node.colEdges;
  const tiles = [];
  for (let i = 0; i + 1 < rows.length; i++) {
    for (let j = 0; j + 1 < cols.length; j++) {
      tiles.push({
        tile: i * (cols.length - 1) + j,
        x: cols[j] * CELL + j * TILE_GAP,
        y: rows[i] * CELL + i * TILE_GAP,
        rows: rows[i + 1] - rows[i],
        cols: cols[j + 1] - cols[j],
      });
    }
  }
  return sized(node, tiles, node.cols * CELL + (cols.length - 2) * TILE_GAP, node.rows * CELL + (rows.length - 2) * TILE_GAP);
}

function slotBox(node) {
  return sized(node, [{ tile: 0, x: 0, y: 0, rows: node.rows, cols: node.cols }], node.cols * CELL, node.rows * CELL);
}

function sized(node, tiles, cellsWidth, height) {
  return { node, tiles, cellsWidth, height, width: Math.max(cellsWidth, node.name.length * 6.2) };
}

/** Boxes in a row, spread over the width. */
function place(boxes, y) {
  const total = boxes.reduce((sum, box) => sum + box.width, 0);
  const room = WIDTH - LEFT - PAD;
  const gap = Math.min(24, (room - total) / Math.max(1, boxes.length - 1));
  let x = LEFT + (room - total - gap * (boxes.length - 1)) / 2;
  for (const box of boxes) {
    Object.assign(box, { x, y });
    x += box.width + gap;
  }
  return { boxes, height: Math.max(...boxes.map((box) => box.height)) };
}

/** A square a block, launch after launch. */
function drawGrid(parent, trace, y) {
  const squares = [];
  const count = trace.launches.reduce((sum, launch) => sum + launch.blocks, 0);
  let x = (WIDTH - count * (SQUARE + 5) - (trace.launches.length - 1) * 12 + 5) / 2;
  for (const launch of trace.launches) {
    for (let block = 0; block < launch.blocks; block++) {
      squares.push({ launch: launch.index, block, rect: add(parent, "rect", { x, y, width: SQUARE, height: SQUARE, rx: 2, class: "square" }) });
      x += SQUARE + 5;
    }
    x += 12;
  }
  return squares;
}

/** From the running block's square to its shared memory. */
function beamPath(rect, top) {
  const x = Number(rect.getAttribute("x"));
  const y = Number(rect.getAttribute("y")) + SQUARE;
  return `M${x} ${y}L6 ${top + 1}M${x + SQUARE} ${y}L${WIDTH - 6} ${top + 1}`;
}

/** A tile on its way: a line that stays for the step, and a ghost that flies along it once. */
function flight(parent, [from, to], hue, moving) {
  const centre = (box) => [box.x + box.width / 2, box.y + box.height / 2];
  const [x0, y0] = centre(from);
  const [x1, y1] = centre(to);
  add(parent, "path", { class: "way", d: `M${x0} ${y0}C${x0} ${(y0 + y1) / 2} ${x1} ${(y0 + y1) / 2} ${x1} ${y1}`, style: `--hue: var(--${hue})` });
  if (!moving) return;
  const ghost = add(parent, "rect", { class: "ghost", x: -from.width / 2, y: -from.height / 2, width: from.width, height: from.height, rx: 2, style: `--hue: var(--${hue})` });
  ghost.animate(
    [
      { transform: `translate(${x0}px, ${y0}px)`, opacity: 0.9 },
      { transform: `translate(${x1}px, ${y1}px)`, opacity: 0.9 },
    ],
    { duration: FLIGHT, easing: "cubic-bezier(.4, 0, .2, 1)" },
  ).finished.then(() => ghost.remove(), () => {});
}

function add(parent, tag, attributes = {}) {
  const node = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  parent.append(node);
  return node;
}
