// The caption: this step in a full sentence, spoken politely, never flooding while playing.

import { el, setAttribute, setText } from "./dom.js";

/**
 * `note` stands under the caption: what is odd about this step, and a way out of it; null where nothing is.
 * @returns {{show: (parts: {text: string, number: boolean}[], note: {text: string, href?: string, way?: string}|null,
 *   playing: boolean) => void}}
 */
export function createCaption(host) {
  const sentence = el("p", { class: "caption-text", "aria-live": "polite", "aria-atomic": "true" });
  const said = document.createTextNode("");
  const way = el("a", { hidden: true });
  const note = el("p", { class: "caption-note", hidden: true }, said, " ", way);
  const more = el("button", { class: "caption-more", type: "button", "aria-expanded": "false", text: "▴", "aria-label": "Whole caption" });
  more.addEventListener("click", () => {
    const whole = host.classList.toggle("whole"); // where there is little height, two lines of it stand there
    more.setAttribute("aria-expanded", String(whole));
    setText(more, whole ? "▾" : "▴");
  });
  host.append(sentence, more, note);
  let shown = "";
  let silent = false;
  return {
    show(parts, extra, playing) {
      const text = parts.map((part) => part.text).join("");
      if (playing !== silent) {
        silent = playing;
        sentence.setAttribute("aria-live", playing ? "off" : "polite");
        if (!playing) shown = ""; // written anew, so that the step where play stopped is spoken
      }
      if (text !== shown) {
        shown = text;
        write(sentence, parts);
      }
      note.hidden = extra === null;
      if (extra === null) return;
      if (said.data !== extra.text) said.data = extra.text;
      way.hidden = !extra.href;
      if (!extra.href) return;
      setAttribute(way, "href", extra.href);
      setText(way, extra.way ?? extra.href);
    },
  };
}

/** The parts as text and bold numbers; nodes that are there already keep their place and change their words. */
function write(sentence, parts) {
  const nodes = [...sentence.childNodes];
  const same = nodes.length === parts.length && parts.every(({ number }, n) => number === (nodes[n].nodeName === "B"));
  if (!same) sentence.replaceChildren(...parts.map(({ text, number }) => (number ? el("b", { text }) : text)));
  else parts.forEach(({ text, number }, n) => {
    if (number) setText(nodes[n], text);
    else if (nodes[n].data !== text) nodes[n].data = text;
  });
}
