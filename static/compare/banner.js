// The verdict in plain words, with where it ran; a difference leads to its step.

import { el } from "../player/dom.js";

/**
 * @param {HTMLElement} host
 * @param {{onGo: (place: {step: number, slot: string, row: number, col: number}) => void, onRetry: () => void}} options
 */
export function createBanner(host, { onGo, onRetry }) {
  const show = (look, ...children) => {
    host.className = `verdict ${look}`;
    host.replaceChildren(...children);
  };
  return {
    /** While it is made: an empty box for the progress. */
    waiting() {
      const box = el("div", { class: "verdict-progress" });
      show("waiting", box);
      return box;
    },
    /** It could not be made. @param {string} sentence */
    failed(sentence, again = true) {
      const retry = el("button", { class: "button", type: "button", text: "Try again", on: { click: onRetry } });
      show("failed", el("span", { class: "sign-word", "aria-hidden": "true", text: "!" }),
        el("div", { class: "verdict-text", role: "alert" }, el("p", { class: "said", text: "Not compared." }), el("p", { class: "reason", text: sentence })),
        ...(again ? [retry] : []));
    },
    /** @param {any} verdict as the server says it */
    verdict(verdict) {
      const found = verdict.first_divergence;
      const sentence = `${verdict.verdict[0].toUpperCase()}${verdict.verdict.slice(1)}.`;
      const said = found
        ? el("a", { class: "said", href: "#", text: sentence, on: { click: (event) => {
          event.preventDefault();
          onGo(found);
        } } })
        : el("p", { class: "said", text: sentence });
      const numbers = `${verdict.compared_numbers.toLocaleString("en")} numbers after ${verdict.compared_steps.toLocaleString("en")} of ${verdict.last_step.toLocaleString("en")} steps`;
      show(verdict.ok ? "agrees" : "differs",
        el("span", { class: "sign-word", "aria-hidden": "true", text: verdict.ok ? "✓" : "✕" }),
        el("div", { class: "verdict-text" }, said,
          verdict.note ? el("p", { class: "note", text: verdict.note }) : null,
          el("p", { class: "where", text: `${where(verdict)} · ${numbers}` })));
    },
  };
}

function where({ engine, place, fmad }) {
  if (engine === "recorded") return `Recorded on an ${place}`;
  if (engine === "gpu") return `Run here on an ${place}${fmad ? "" : ", without fused multiply-add"}`;
  return "Run here on the processor, from the same kernel.cu";
}
