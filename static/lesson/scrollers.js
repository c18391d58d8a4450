// What is wider than the text scrolls sideways, by keyboard too: only then is it a stop of the Tab key.

/** @param {Iterable<HTMLElement>} nodes */
export function scrollers(nodes) {
  const all = [...nodes];
  const measured = new ResizeObserver((entries) => { for (const { target } of entries) measure(/** @type {HTMLElement} */ (target)); });
  for (const node of all) measured.observe(node);
  // The letters of mathematics arrive later, and widen what is inside a box without changing the box.
  document.fonts.addEventListener("loadingdone", () => all.forEach(measure));
}

/** @param {HTMLElement} node */
function measure(node) {
  if (node.scrollWidth > node.clientWidth + 1) {
    node.tabIndex = 0;
    node.setAttribute("role", "group");
    node.setAttribute("aria-label", "Scrolls sideways");
  } else {
    for (const name of ["tabindex", "role", "aria-label"]) node.removeAttribute(name);
  }
}

/**
 * A formula amid a sentence that is wider than the column stands on a line of its own, and scrolls there.
 * @param {HTMLElement} text @param {NodeListOf<HTMLElement>} formulas the inline ones
 */
export function wideFormulas(text, formulas) {
  const fit = () => {
    for (const node of formulas) node.classList.remove("wide");
    const end = text.getBoundingClientRect().right + 1;
    const wide = [...formulas].filter((node) => !node.closest(".table") && node.getBoundingClientRect().right > end);
    for (const node of wide) node.classList.add("wide");
  };
  let width = 0; // the text grows in height when its letters come: that alone changes nothing
  new ResizeObserver(([{ contentRect }]) => { if (contentRect.width !== width) { width = contentRect.width; fit(); } }).observe(text);
  document.fonts.addEventListener("loadingdone", fit);
}
