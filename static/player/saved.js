// A run in a file of its own: the trace stands in the page, and there is no server to ask for anything.

import { el } from "./dom.js";
import { createPlayer } from "./player.js";
import { savedTrace, whyNot } from "./unpack.js";

const host = document.getElementById("player");
const saved = JSON.parse(document.getElementById("saved").textContent);

/** Open where it was saved, unless the address asks for another place. */
function place() {
  if (!saved.at || new URLSearchParams(location.search).has("step")) return;
  try {
    history.replaceState(null, "", `?${saved.at}`);
  } catch {
    // some browsers leave a file's address as it is; it opens at the start then
  }
}

savedTrace().then((trace) => {
  place();
  const player = createPlayer(host, trace, { idea: saved.idea, alone: true });
  player.fill(saved.sources);
}).catch((error) => {
  host.replaceChildren(el("div", { class: "waiting", role: "alert" }, el("p", { text: whyNot(error) })));
});
