// The list of keys, in the hall and in the presenter's window.

import { el } from "../player/dom.js";
import { HELP } from "./keys.js";

/** @returns {{open: () => void}} */
export function createHelp(host) {
  const rows = HELP.map(([keys, does]) => el("tr", {},
    el("th", { scope: "row" }, ...keys.flatMap((key, i) => [
      i === 0 ? null : keys[0] === "Shift" ? " + " : " ", el("kbd", { text: key })])),
    el("td", { text: does })));
  const dialog = /** @type {HTMLDialogElement} */ (el("dialog", { class: "keys-help", "aria-labelledby": "keys-title" },
    el("h2", { id: "keys-title", text: "Keys" }),
    el("table", {}, el("tbody", {}, ...rows)),
    el("form", { method: "dialog", class: "buttons" }, el("button", { class: "button", autofocus: true, text: "Close" }))));
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  host.append(dialog);
  return { open: () => { if (!dialog.open) dialog.showModal(); } };
}
