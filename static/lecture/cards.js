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
 * The links in a lesson's words: one to a step of this run asks for it, one to another page leads where `other` says.
 * @param {HTMLElement} host
 * @param {(step: number) => void} goTo
 * @param {(link: HTMLAnchorElement) => void} other  may change the link that is about to be followed
 */
export function heedLinks(host, goTo, other) {
  host.addEventListener("click", (event) => {
    const link = /** @type {HTMLAnchorElement|null} */ (/** @type {Element} */ (event.target).closest("a[href]"));
    if (!link) return;
    if (link.dataset.step === undefined) {
      other(link);
      return;
    }
    event.preventDefault();
    goTo(Number(link.dataset.step));
  });
}

/** For `heedLinks`: beside this page, which goes on. @param {HTMLAnchorElement} link */
export function besides(link) {
  link.target = "_blank";
}

/**
 * The question, under the figure in the caption's place; its answer comes when asked for.
 * @param {HTMLElement} host
 * @param {(step: number) => void} goTo  as `heedLinks` takes them
 * @param {(link: HTMLAnchorElement) => void} other
 */
export function createQuestion(host, goTo, other) {
  heedLinks(host, goTo, other);
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
