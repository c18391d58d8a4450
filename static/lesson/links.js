// A phrase that moves the figure. Without this it is an ordinary link, which opens the lesson at that step.

import { el } from "../player/dom.js";

/**
 * @param {HTMLElement} root @param {ReturnType<typeof import("../player/player.js").createPlayer>} player
 * @param {HTMLElement} host the player's
 */
export function followLinks(root, player, host) {
  const back = el("button", { class: "button back-to-text", type: "button", text: "Back to the text", hidden: true });
  host.after(back);
  let from = null;
  back.addEventListener("click", () => {
    back.hidden = true;
    from?.focus({ preventScroll: true });
    from?.scrollIntoView({ block: "center" });
  });
  root.addEventListener("click", (event) => {
    const link = /** @type {Element} */ (event.target).closest("a[data-step]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || event.button !== 0) return;
    event.preventDefault();
    player.goTo(Number(link.dataset.step), link.dataset.cell ? { cell: link.dataset.cell } : {});
    const fold = host.closest("details");
    if (fold) fold.open = true;
    const { top, bottom } = host.getBoundingClientRect();
    if (bottom > 160 && top < innerHeight - 160) return;
    from = link; // on a narrow page the figure stands above the text: go there, and lead back
    back.hidden = false;
    host.scrollIntoView({ block: "start" });
  });
}
