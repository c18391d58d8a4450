// What stands beside or before the figure: a question with its answer, and the end.

import { el, setText } from "../player/dom.js";
import { sum, totals } from "../player/ledger.js";
import { typeset } from "../lesson/math.js";

/** What the answer to a question is, in a word and then in full. @param {import("./places.js").Question} question */
export function answerOf({ result, answer }) {
  const whole = el("div");
  whole.innerHTML = answer; // the server's own, from the lesson's text
  typeset(whole);
  return [result ? el("p", { class: "question-result", text: result }) : "", whole];
}

/**
 * The question, under the figure in the caption's place; its answer comes when asked for.
 * @param {HTMLElement} host
 * @param {(step: number) => void} goTo  for a phrase of the text that leads to a step
 */
export function createQuestion(host, goTo) {
  host.addEventListener("click", (event) => {
    const link = /** @type {HTMLElement|null} */ (/** @type {Element} */ (event.target).closest("a[data-step]"));
    if (!link) return;
    event.preventDefault();
    goTo(Number(link.dataset.step));
  });
  const kind = el("p", { class: "question-kind" });
  const prompt = el("div", { class: "question-prompt" });
  const answer = el("div", { class: "question-answer" });
  host.append(kind, prompt, answer);
  let shown = null;
  return {
    /** @param {import("./places.js").Place} place */
    show({ kind: which, question }) {
      host.hidden = !question;
      if (!question) return;
      if (shown !== question) {
        shown = question;
        prompt.innerHTML = question.prompt; // the server's own, from the lesson's text
        typeset(prompt);
        answer.replaceChildren(...answerOf(question));
      }
      setText(kind, which === "answer" ? "Answer" : "What do you expect?");
      answer.hidden = which !== "answer";
      host.classList.toggle("answered", which === "answer");
    },
  };
}

/** The end: that it is the end, and what the run came to. @param {HTMLElement} host */
export function createEnd(host, trace, lecture) {
  const all = sum(totals(trace));
  const steps = trace.stepCount - 1;
  const blocks = trace.launches.reduce((count, launch) => count + launch.blocks, 0);
  const count = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
  const facts = [
    [count(steps, "step"), `in ${count(blocks, "block")}`],
    [count(all.loads.bytes, "byte"), "loaded from HBM"],
    [count(all.stores.bytes, "byte"), "stored to HBM"],
  ];
  host.append(
    el("h1", { text: "This is the end." }),
    el("p", { class: "end-of", text: lecture.title }),
    el("ul", { class: "facts" }, ...facts.map(([number, what]) => el("li", {}, el("b", { text: number }), " ", what))),
    ...(lecture.next ? [el("p", { class: "next" }, "Next: ", el("a", { href: `/lecture/${lecture.next.kernel}`, text: lecture.next.title }))] : []));
}
