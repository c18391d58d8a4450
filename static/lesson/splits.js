// The reader's own decode: what is typed in one form stands in all of them, is worked out by the server as it is typed, and is
// kept in the address. Without this the forms are sent as any form is.

import { setAttribute, setText } from "../player/dom.js";

const API = "/api/splits";
const PREFIX = "my-"; // of the form's names in the page's address
const AFTER = 160; // milliseconds without a key

/** @param {Iterable<HTMLFormElement>} forms each with the same fields */
export function decodeForms(forms) {
  const all = [...forms];
  let stop = null, timer = 0;
  for (const form of all) {
    form.addEventListener("input", (event) => {
      const { target } = event;
      if (target instanceof HTMLSelectElement) {
        if (target.value) type(all, "sms", target.value);
        else form.elements.namedItem(`${PREFIX}sms`).select();
      } else type(all, target.name.slice(PREFIX.length), target.value, target);
      clearTimeout(timer);
      timer = setTimeout(ask, AFTER);
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      clearTimeout(timer);
      ask();
    });
  }

  async function ask() {
    stop?.abort();
    const mine = (stop = new AbortController());
    const sizes = typed(all[0]);
    try {
      const answer = await fetch(`${API}?${new URLSearchParams(sizes)}`, { signal: mine.signal });
      const found = await answer.json();
      showErrors(all, found.errors ?? {});
      if (!answer.ok) return;
      tell(found);
      keep(all[0], sizes);
    } catch (error) {
      if (mine.signal.aborted) return;
      showErrors(all, { sms: "The server does not answer. Is flashstep still running?" });
    }
  }
}

/** The fields that are named, by their name without the prefix. */
const fields = (form) => new Map([...form.elements].filter((input) => input.name?.startsWith(PREFIX)).map((input) => [input.name.slice(PREFIX.length), input]));

const typed = (form) => Object.fromEntries([...fields(form)].map(([name, input]) => [name, input.value.trim()]));

/** One field, in every form but where it is being typed; and the GPU that has so many SMs. */
function type(forms, name, value, from = null) {
  for (const form of forms) {
    const input = fields(form).get(name);
    if (input !== from) input.value = value;
    if (name !== "sms") continue;
    const gpu = form.querySelector("select");
    gpu.value = [...gpu.options].some((option) => option.value === value.trim()) ? value.trim() : "";
  }
}

function showErrors(forms, errors) {
  for (const form of forms) {
    for (const [name, input] of fields(form)) {
      const box = document.getElementById(input.getAttribute("aria-describedby"));
      setText(box, errors[name] ?? "");
      box.hidden = !errors[name];
      setAttribute(input, "aria-invalid", errors[name] ? "true" : null);
      input.closest(".field").classList.toggle("wrong", Boolean(errors[name]));
    }
  }
}

/** Every text and picture of the answer in its place: data-of names it, "engines.0.splits". */
function tell(found) {
  for (const node of document.querySelectorAll(".decode [data-of]")) {
    const value = node.dataset.of.split(".").reduce((part, name) => part[name], found);
    setText(node, typeof value === "number" ? value.toLocaleString("en") : value);
  }
  for (const figure of document.querySelectorAll(".decode [data-picture]")) {
    const { busy, idle, width, height } = found.picture[figure.dataset.picture];
    const svg = figure.querySelector("svg");
    for (const [name, value] of Object.entries({ viewBox: `0 0 ${width} ${height}`, width: String(width), height: String(height) })) setAttribute(svg, name, value);
    setAttribute(svg.querySelector(".busy"), "d", busy);
    setAttribute(svg.querySelector(".idle"), "d", idle);
  }
}

/** The address names what differs from the usual sizes, so that a link opens these. */
function keep(form, sizes) {
  const url = new URL(location.href);
  for (const [name, input] of fields(form)) {
    if (sizes[name] === "" || sizes[name] === input.dataset.usual) url.searchParams.delete(PREFIX + name);
    else url.searchParams.set(PREFIX + name, sizes[name]);
  }
  url.search = url.search.replaceAll("%40", "@");
  history.replaceState(history.state, "", url);
}
