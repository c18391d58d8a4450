// The dialog that lists the keys.

import { el } from "./dom.js";
import { HELP } from "./keys.js";

/** @returns {{open: () => void}} */
export function createHelp(host) {
  const rows = HELP.map(([keys, does]) => el("tr", {},
    el("th", { scope: "row" }, ...keys.flatMap((key, i) => [
      i === 0 ? null : keys[0] === "Shift" ? " + " : " or ", el("kbd", { text: key })])),
    el("td", { text: does })));
  const dialog = /** @type {HTMLDialogElement} */ (el("dialog", { class: "help", "aria-labelledby": "help-title" },
    el("h2", { id: "help-title", text: "Keys" }),
    el("table", {}, el("tbody", {}, ...rows)),
    el("p", { text: "In the step list ↑ and ↓ move, Enter goes there, → opens and ← closes a group. In the figure the arrows walk the cells of a matrix once one has the focus. Inside a field every key types." }),
    el("form", { method: "dialog" }, el("button", { class: "button", text: "Close" }))));
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  host.append(dialog);
  return { open: () => { if (!dialog.open) dialog.showModal(); } };
}
