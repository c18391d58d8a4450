// The caption: this step in a full sentence, spoken politely, never flooding while playing.

import { el } from "./dom.js";

const NUMBER = /(?<![\w.])[−-]?(?:\d+\.\d+(?:e[−+-]?\d+)?|∞|inf\b|NaN\b)/g;

/** The text with its measured numbers set apart. */
function marked(text) {
  const pieces = [];
  let end = 0;
  for (const match of text.matchAll(NUMBER)) {
    pieces.push(text.slice(end, match.index), el("b", { text: match[0] }));
    end = match.index + match[0].length;
  }
  pieces.push(text.slice(end));
  return pieces;
}

/** @returns {{show: (text: string, note: string, playing: boolean) => void}} */
export function createCaption(host) {
  const sentence = el("p", { class: "caption-text", "aria-live": "polite", "aria-atomic": "true" });
  const note = el("p", { class: "caption-note", hidden: true });
  host.append(sentence, note);
  let shown = "";
  let silent = false;
  return {
    show(text, extra, playing) {
      if (playing !== silent) {
        silent = playing;
        sentence.setAttribute("aria-live", playing ? "off" : "polite");
        if (!playing) shown = ""; // written anew, so that the step where play stopped is spoken
      }
      if (text !== shown) {
        shown = text;
        sentence.replaceChildren(...marked(text));
      }
      note.hidden = !extra;
      if (note.textContent !== extra) note.textContent = extra;
    },
  };
}
