// Taking a step along: a button beside the controls, and behind it the figure as SVG and PNG, and what the page adds.

import { el, icon } from "./dom.js";
import { pngOf, standalone, svgText } from "./standalone.js";
import { caption, label } from "./words.js";

const ARROW = "M9 3h2v7h3.2L10 14.6 5.8 10H9zM4 15.5h12v2H4z";

let count = 0;

/** Hand a file to the person. @param {Blob} blob @param {string} name */
function download(blob, name) {
  const address = URL.createObjectURL(blob);
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000); // the browser may take it a little later
}

/**
 * @param {HTMLElement} host the controls
 * @param {{trace: any, figure: any, order: () => any, state: {get: () => any}, here: () => {step: number}}} player
 * @returns {{offer: (text: string, address: () => string, about?: string) => void}} offer: a link among the rest
 */
export function createSave(host, { trace, figure, order, state, here }) {
  const said = el("p", { class: "save-said", role: "status" });
  const id = `save-list-${++count}`;
  const list = el("div", { class: "save-list", id, hidden: true });
  const opener = el("button", { class: "control save-open", type: "button", title: "Save this step", "aria-label": "Save this step",
    "aria-expanded": "false", "aria-controls": id }, icon(ARROW));
  const box = el("div", { class: "save" }, opener, list);
  host.append(box);

  function open(is) {
    list.hidden = !is;
    said.textContent = "";
    opener.setAttribute("aria-expanded", String(is));
  }
  opener.addEventListener("click", () => open(list.hidden));
  document.addEventListener("pointerdown", (event) => { if (!box.contains(/** @type {Node} */ (event.target))) open(false); });
  box.addEventListener("focusout", (event) => { if (event.relatedTarget && !box.contains(/** @type {Node} */ (event.relatedTarget))) open(false); });
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || list.hidden) return;
    event.stopPropagation();
    open(false);
    opener.focus();
  });

  function picture() {
    figure.finish(); // what flies lands first
    const { step } = here();
    const { position } = state.get();
    return standalone(figure.svg, {
      title: `${trace.meta.title}, step ${position} of ${order().length - 1}: ${label(trace, step)}`,
      description: caption(trace, step),
      ground: getComputedStyle(document.body).backgroundColor,
    });
  }
  const name = (ending) => `${trace.meta.kernel}-step-${state.get().position}.${ending}`;
  async function save(ending) {
    try {
      const made = picture();
      download(ending === "svg" ? new Blob([svgText(made)], { type: "image/svg+xml" }) : await pngOf(made), name(ending));
      open(false);
      opener.focus();
    } catch (error) {
      said.textContent = `The picture could not be made: ${error.message}`;
    }
  }
  const item = (text, about, act) => el("button", { class: "save-item", type: "button", on: { click: act } }, el("b", { text }), el("span", { text: about }));
  list.append(item("SVG", "this step's figure, to edit or print", () => save("svg")), item("PNG", "this step's figure, as a picture", () => save("png")), said);

  return {
    offer(text, address, about = "") {
      const link = /** @type {HTMLAnchorElement} */ (el("a", { class: "save-item", href: "" }, el("b", { text }), el("span", { text: about })));
      // The address as it is when the link is followed: it holds the step.
      for (const type of ["pointerdown", "focus", "click"]) link.addEventListener(type, () => { link.href = address(); });
      link.href = address();
      link.addEventListener("click", () => open(false));
      said.before(link);
    },
  };
}
