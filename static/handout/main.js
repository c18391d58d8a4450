// The handout's page: draws each chosen step once, keeps it as a picture that stands alone, and lays them out for paper.

import { whyNot } from "../obtain.js";
import { el } from "../player/dom.js";
import { createFigure } from "../player/figure/figure.js";
import { serial } from "../player/order.js";
import { Replay } from "../player/replay.js";
import { standalone } from "../player/standalone.js";
import { parse } from "../player/trace.js";
import { captionParts, label, path } from "../player/words.js";
import { record } from "../record.js";
import { readSteps, tellingSteps, writeSteps } from "./steps.js";

/** The room of a figure by how many share a page, in units of which some 720 make the paper's width. */
const ROOM = { 1: [720, 760], 2: [900, 440] };
const LISTED = 400; // steps that are offered for ticking

const { request } = JSON.parse(document.getElementById("explore").textContent);
const byId = (id) => document.getElementById(id);
const [paper, sheets, waiting, easel] = ["paper", "sheets", "waiting", "easel"].map(byId);
const field = /** @type {HTMLInputElement} */ (byId("steps"));
const asked = new URLSearchParams(location.search);

/** One picture of each step that was drawn, by room. */
const drawn = new Map();
let order, trace, replay;

/** The figure of a step: drawn where nobody sees it, then taken off the stylesheet. */
function picture(step, per) {
  const key = `${per}/${step}`;
  if (!drawn.has(key)) {
    const [width, height] = ROOM[per];
    easel.style.width = `${width}px`;
    easel.style.height = `${height}px`;
    const figure = createFigure(easel, { trace, replay });
    const { block, launch } = trace.step(step);
    figure.show({ order, position: step, cell: null, focus: launch < 0 ? 0 : block });
    const made = standalone(figure.svg, { title: `Step ${step}: ${label(trace, step)}`, description: captionParts(trace, step).map(({ text }) => text).join(""), ground: "rgb(255, 255, 255)" });
    figure.destroy();
    drawn.set(key, made);
  }
  return drawn.get(key);
}

function plate(step, per) {
  const where = path(trace, step).slice(1).join(" · ");
  return el("figure", { class: "plate", id: `step-${step}` }, picture(step, per),
    el("figcaption", {},
      el("h2", {}, el("span", { class: "number", text: `Step ${step} of ${order.length - 1}` }), ` ${label(trace, step)}`, where ? el("span", { class: "path", text: where }) : null),
      el("p", {}, ...captionParts(trace, step).map(({ text, number }) => (number ? el("b", { text }) : text)))));
}

let turn = 0; // a newer choice ends the drawing of an older one

/** Lay out these steps; a breath after each figure keeps the page alive. */
async function lay(steps, per) {
  const mine = ++turn;
  paper.setAttribute("aria-busy", "true");
  paper.dataset.per = String(per);
  const made = [];
  for (const step of steps) {
    const fresh = !drawn.has(`${per}/${step}`);
    made.push(plate(step, per));
    if (!fresh) continue;
    waiting.textContent = `Drawing ${made.length} of ${steps.length} …`;
    waiting.hidden = false;
    await new Promise((resolve) => setTimeout(resolve));
    if (mine !== turn) return;
  }
  sheets.replaceChildren(...made);
  waiting.hidden = made.length > 0;
  if (!made.length) waiting.textContent = "No step is chosen.";
  /** @type {HTMLButtonElement} */ (byId("print")).disabled = !made.length;
  paper.setAttribute("aria-busy", "false");
}

const per = () => Number(/** @type {HTMLInputElement} */ (document.querySelector("input[name='per']:checked")).value);
const ticks = () => /** @type {HTMLInputElement[]} */ ([...document.querySelectorAll("#ticks input")]);

/** Show what the field says, and write it to the address. */
function choose() {
  const { steps, fault } = readSteps(field.value, order.length - 1);
  byId("steps-fault").textContent = fault;
  byId("steps-fault").hidden = !fault;
  field.setAttribute("aria-invalid", String(Boolean(fault)));
  const chosen = new Set(steps);
  for (const tick of ticks()) tick.checked = chosen.has(Number(tick.value));
  const here = new URL(location.href);
  for (const name of ["step", "cell", "order"]) here.searchParams.delete(name);
  here.searchParams.set("steps", writeSteps(steps).replaceAll(" ", ""));
  here.searchParams.set("per", String(per()));
  here.search = here.search.replaceAll("%2C", ",");
  history.replaceState(null, "", here);
  lay(steps, per());
}

function open() {
  order = serial(trace);
  replay = new Replay(trace);
  const one = asked.get("per") === "1" ? "1" : "2";
  /** @type {HTMLInputElement} */ (document.querySelector(`input[name='per'][value='${one}']`)).checked = true;
  field.value = asked.get("steps") ?? writeSteps(tellingSteps(trace, order));
  if (order.length <= LISTED) {
    byId("ticks").append(...Array.from({ length: order.length }, (_, step) => el("label", {},
      el("input", { type: "checkbox", value: String(step) }), el("span", { class: "number", text: String(step) }), ` ${label(trace, step)}`)));
    byId("list").hidden = false;
  }
  byId("ticks").addEventListener("change", () => {
    field.value = writeSteps(ticks().filter((tick) => tick.checked).map((tick) => Number(tick.value)));
    choose();
  });
  field.addEventListener("change", choose);
  byId("choice").addEventListener("submit", (event) => { event.preventDefault(); choose(); });
  for (const radio of document.querySelectorAll("input[name='per']")) radio.addEventListener("change", choose);
  byId("print").addEventListener("click", () => print());
  choose();
}

record(request).then(({ buffer }) => {
  trace = parse(buffer);
  open();
}).catch((error) => {
  waiting.textContent = whyNot(error);
  paper.setAttribute("aria-busy", "false");
});
