// Typesets the mathematics: the text's TeX becomes KaTeX's HTML for the eye and MathML for a screen reader.

import { el } from "../player/dom.js";

/** The figure's hues, by the quantity: \hm{m_i} is an m in the colour of the slot m. */
const MACROS = Object.fromEntries(["q", "k", "v", "s", "m", "l", "o", "x"].map((name) => [`\\h${name}`, `\\htmlClass{hue-${name}}{#1}`]));
MACROS["\\ha"] = "\\htmlClass{hue-alpha}{#1}";

/** @param {ParentNode} root  every `.math` in it is typeset; what KaTeX cannot read stays as its TeX */
export function typeset(root) {
  for (const node of root.querySelectorAll(".math")) {
    const derived = node.closest(".derivation td:nth-child(2)") !== null; // a line of a derivation: sums as large as on their own
    const tex = (derived ? "\\displaystyle " : "") + node.textContent.trim();
    try {
      globalThis.katex.render(tex, node, {
        displayMode: node.classList.contains("block"),
        output: "htmlAndMathml",
        throwOnError: true,
        strict: false, // \htmlClass is an extension
        trust: ({ command }) => command === "\\htmlClass",
        macros: { ...MACROS },
      });
    } catch (error) {
      node.classList.add("unread");
      console.error(`${tex}: ${error.message}`);
    }
    // A link or a heading cell takes its name from its words; where it holds mathematics alone, that is said in letters.
    const named = node.closest("a, th");
    const shown = node.querySelector(".katex-html");
    if (named && shown && !wordsBeside(named)) {
      node.setAttribute("aria-hidden", "true");
      node.after(el("span", { class: "visually-hidden", text: shown.textContent.replaceAll("\u200b", "") }));
    }
  }
}

/** @returns {boolean} whether anything but mathematics stands in it */
function wordsBeside(node) {
  return [...node.childNodes].some((part) => !(part instanceof Element && part.matches(".math")) && part.textContent.trim());
}
