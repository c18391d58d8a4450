// What is wider than the text scrolls sideways, by keyboard too: only then is it a stop of the Tab key.

/** @param {Iterable<HTMLElement>} nodes */
export function scrollers(nodes) {
  const measured = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.scrollWidth > target.clientWidth + 1) {
        target.tabIndex = 0;
        target.setAttribute("role", "group");
        target.setAttribute("aria-label", "Scrolls sideways");
      } else {
        for (const name of ["tabindex", "role", "aria-label"]) target.removeAttribute(name);
      }
    }
  });
  for (const node of nodes) measured.observe(node);
}
