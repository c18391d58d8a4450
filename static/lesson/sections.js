// The figure marks its paragraph: sections about the current kind of step say so, and the player names them.

import { el, setAttribute, setText } from "../player/dom.js";

/**
 * @param {Iterable<HTMLElement>} sections each with data-kinds, the kinds of step it is about
 * @param {ReturnType<typeof import("../player/player.js").createPlayer>} player
 * @param {HTMLElement} place where the player's side says which section it is
 */
export function markSections(sections, player, place) {
  const marked = [...sections].map((node, n) => {
    node.id ||= `about-${n}`;
    const now = el("p", { class: "now", hidden: true, text: "The figure is here" });
    node.prepend(now);
    return { node, now, kinds: new Set(node.dataset.kinds.split(" ").map(Number)), title: titleOf(node) };
  });
  const link = el("a", {});
  place.append("In the text: ", link);
  const show = () => {
    const { kind } = player.trace.step(player.here().step);
    const current = marked.filter(({ kinds }) => kinds.has(kind));
    for (const one of marked) {
      const here = current.includes(one);
      setAttribute(one.node, "aria-current", here ? "step" : null);
      one.now.hidden = !here;
    }
    place.hidden = current.length === 0;
    if (!current.length) return;
    setAttribute(link, "href", `#${current[0].node.id}`);
    setText(link, current[0].title);
  };
  player.state.subscribe(show);
  show();
}

/** The heading that a section stands under, or has. */
function titleOf(section) {
  const own = section.querySelector("h2, h3");
  if (own) return own.textContent;
  const before = [...section.closest(".prose").querySelectorAll("h2, h3")]
    .filter((heading) => heading.compareDocumentPosition(section) & Node.DOCUMENT_POSITION_FOLLOWING);
  return before.at(-1)?.textContent ?? "this step";
}
