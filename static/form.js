// The parameter bar: recording with what it holds, its errors beside their fields, the link, the person's own arrays.
// Without this script the form still works: it is a plain GET form, and the server puts errors beside the fields.

import { ownArrays } from "./ownarrays.js";
import { progressView } from "./progress.js";
import { ask, RecordingError } from "./record.js";

const data = JSON.parse(document.getElementById("explore").textContent);
const form = document.getElementById("parameters");
const recordButton = document.getElementById("record");
const formError = document.getElementById("e-form");

/** Changing one of these leaves the steps as they are, so the link's step and cell still stand. */
const SAME_STEPS = new Set(["inputs", "seed", "scale", "values", "focus", "causal"]);
const STEP_STATE = ["step", "slot", "cell"];
const LINK_STATE = ["order", "theme", "engine", "fmad"];

const inputs = () => [...form.querySelectorAll("input[name], select[name]")].filter((input) => !input.disabled);
const field = (name) => form.elements.namedItem(name);
const valueOf = (input) => (input.type === "checkbox" ? String(input.checked) : input.value.trim());
const presetDefaults = (preset) => data.presets[preset]?.defaults ?? {};
const preset = () => field("inputs")?.value ?? "random";

/** What the form holds, as texts; "" where a field is empty. */
function texts() {
  return Object.fromEntries(inputs().filter((input) => !LINK_STATE.includes(input.name) && !input.name.startsWith("my-")).map((input) => [input.name, valueOf(input)]));
}

const shown = texts(); // what the page was opened with

/**
 * What to record. The focus is the form's where a person typed it there; else it stays as the address has it (following
 * a number puts it there) where the blocks stay, and goes where they change.
 */
function wanted() {
  const now = texts();
  const changed = Object.keys(now).filter((name) => now[name] !== shown[name]);
  const sameSteps = changed.every((name) => SAME_STEPS.has(name));
  if (now.focus === shown.focus) now.focus = (sameSteps && new URLSearchParams(location.search).get("focus")) || "0";
  return { now, sameSteps };
}

/** The address of what the form holds: only what differs from the preset's defaults, so that links stay short. */
function address() {
  const { now, sameSteps } = wanted();
  const defaults = { values: "auto", focus: "0", arrays: "", ...presetDefaults(preset()), inputs: "random" };
  const here = new URLSearchParams(location.search);
  const query = new URLSearchParams();
  for (const [name, text] of Object.entries(now)) {
    if (text !== "" && text !== (defaults[name] ?? "")) query.set(name, text);
  }
  const kept = sameSteps ? [...STEP_STATE, ...LINK_STATE] : LINK_STATE;
  for (const name of kept) if (here.has(name)) query.set(name, here.get(name));
  for (const [name, text] of here) if (name.startsWith("my-")) query.set(name, text); // of the reader, not of the run
  const search = query.toString().replaceAll("%40", "@");
  return `${location.pathname}${search ? `?${search}` : ""}`;
}

/* ------------------------------------------------------------ errors */

/** What each field is called: a sentence of the library's names it as Python does, "block_cols" for Bc. */
const labels = Object.fromEntries([...form.querySelectorAll(".error[data-of]")].map((box) => [box.id.slice(2), box.dataset.of]));
const spoken = (sentence) => sentence.replace(/\b[a-z]+_[a-z]+\b/g, (name) => labels[name] ?? name);

/** @param {Record<string, string>} said a sentence by field; a field that is not on the form says it at its end */
function showErrors(said) {
  const errors = Object.fromEntries(Object.entries(said).map(([name, sentence]) => [name, spoken(sentence)]));
  for (const box of form.querySelectorAll(".field .error")) {
    const name = box.id.slice(2);
    const input = field(name);
    const sentence = errors[name] ?? "";
    box.textContent = sentence;
    box.hidden = !sentence;
    box.closest(".field").classList.toggle("wrong", Boolean(sentence));
    if (!(input instanceof HTMLElement)) continue;
    if (sentence) {
      input.setAttribute("aria-invalid", "true");
      input.setAttribute("aria-describedby", box.id);
    } else {
      input.removeAttribute("aria-invalid");
      input.removeAttribute("aria-describedby");
    }
    if (sentence && box.closest("details")) box.closest("details").open = true;
  }
  const others = Object.entries(errors).filter(([name]) => !form.querySelector(`.field #e-${name}`)).map(([, sentence]) => sentence);
  formError.textContent = others.join(" ");
  formError.hidden = others.length === 0;
  form.querySelector("[aria-invalid]")?.focus();
}

/* ------------------------------------------------------------ recording */

let stop = null;

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  stop?.abort();
  const mine = (stop = new AbortController());
  showErrors({});
  const host = document.getElementById("recording");
  host.replaceChildren();
  recordButton.hidden = true;
  const view = progressView(host, { onCancel: () => mine.abort() });
  view.update({ state: "running", done: 0, total: 0, secondsLeft: null });
  try {
    // Recorded before the page is left: an error or a change of mind costs nothing of what is shown.
    await ask({ kernel: data.kernel, ...wanted().now }, { signal: mine.signal, onProgress: view.update });
    const target = address();
    if (target === location.pathname + location.search) location.reload();
    else location.assign(target);
    return;
  } catch (error) {
    if (mine.signal.aborted) showErrors({});
    else if (!(error instanceof RecordingError)) showErrors({ form: "The server does not answer; is flashstep still running?" });
    else showErrors(Object.keys(error.fields).length ? error.fields : { form: error.message });
  }
  view.remove();
  if (stop === mine) recordButton.hidden = false;
});

/* ------------------------------------------------------------ fields */

let lastPreset = preset();
field("inputs")?.addEventListener("change", () => {
  // Fields that still hold the old preset's sizes take the new one's; what was typed stays.
  const before = presetDefaults(lastPreset);
  const after = presetDefaults(preset());
  for (const input of inputs()) {
    if (input.name === "inputs" || !(input.name in after)) continue;
    if (valueOf(input) !== (before[input.name] ?? "")) continue;
    if (input.type === "checkbox") input.checked = after[input.name] === "true";
    else input.value = after[input.name];
  }
  lastPreset = preset();
  dirty();
});

form.addEventListener("input", dirty);

/** Up and Down count a whole number up and down, as a number field would (which cannot keep a mistyped text). */
form.addEventListener("keydown", (event) => {
  const input = event.target;
  if (!(input instanceof HTMLInputElement) || input.inputMode !== "numeric") return;
  const by = { ArrowUp: 1, ArrowDown: -1 }[event.key];
  if (!by || !/^\d+$/.test(input.value.trim())) return;
  event.preventDefault();
  input.value = String(Math.max(0, Number(input.value) + by));
  dirty();
});

function dirty() {
  const now = texts();
  const changed = Object.keys(now).some((name) => now[name] !== shown[name]);
  recordButton.classList.toggle("primary", changed);
}

/* ------------------------------------------------------------ the bar itself */

const opener = document.getElementById("parameters-open");
opener.addEventListener("click", () => {
  const open = form.classList.toggle("open");
  opener.setAttribute("aria-expanded", String(open));
});
document.getElementById("parameters-summary").textContent = [...form.querySelectorAll(".field")]
  .filter((box) => box.querySelector("input[type=text]") && !box.closest(".sheet"))
  .map((box) => `${box.querySelector("label").textContent} ${box.querySelector("input").value}`)
  .join("  ");

const more = form.querySelector(".more");
document.addEventListener("click", (event) => {
  if (more.open && !more.contains(event.target) && !more.querySelector("[aria-invalid]")) more.open = false;
});
more.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !more.open) return;
  event.stopPropagation();
  more.open = false;
  more.querySelector("summary").focus();
});

const copy = document.getElementById("copy-link");
const copyText = copy.textContent;
copy.addEventListener("click", async () => {
  document.dispatchEvent(new CustomEvent("linkwanted")); // the player writes its newest state to the address
  let said = "Link copied";
  try {
    await navigator.clipboard.writeText(location.href);
  } catch {
    said = "Copy it from the address bar";
  }
  copy.textContent = said;
  setTimeout(() => (copy.textContent = copyText), 2000);
});

ownArrays({
  openers: form.querySelectorAll("[data-arrays]"),
  onArrays: (hash) => location.assign(`${location.pathname}?${arraysQuery(hash)}`),
});

/** The address of the person's arrays: their shapes decide the sizes, and the rest of the form stays. */
function arraysQuery(hash) {
  const query = new URLSearchParams(address().split("?")[1] ?? "");
  for (const name of ["inputs", "seed", "batch", "heads", "kv_heads", "seqlen_q", "seqlen_k", "head_dim", "step", "cell"]) query.delete(name);
  query.set("arrays", hash);
  return query;
}
