// The caption: this step in a full sentence, spoken politely, never flooding while playing.

import { el } from "./dom.js";

/** @returns {{show: (parts: {text: string, number: boolean}[], note: string, playing: boolean) => void}} */
export function createCaption(host) {
  const sentence = el("p", { class: "caption-text", "aria-live": "polite", "aria-atomic": "true" });
  const note = el("p", { class: "caption-note", hidden: true });
  host.append(sentence, note);
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
        sentence.replaceChildren(...parts.map((part) => (part.number ? el("b", { text: part.text }) : part.text)));
      }
      note.hidden = !extra;
      if (note.textContent !== extra) note.textContent = extra;
    },
  };
}
