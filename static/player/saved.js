// A run in a file of its own: the trace stands in the page, and there is no server to ask for anything.

import { el } from "./dom.js";
import { createPlayer } from "./player.js";
import { parse } from "./trace.js";

const host = document.getElementById("player");
const saved = JSON.parse(document.getElementById("saved").textContent);

/** The trace's bytes, as the page holds them. @returns {Promise<ArrayBuffer>} */
export async function unpack(base64) {
  const packed = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

/** Open where it was saved, unless the address asks for another place. */
function place() {
  if (!saved.at || new URLSearchParams(location.search).has("step")) return;
  try {
    history.replaceState(null, "", `?${saved.at}`);
  } catch {
    // some browsers leave a file's address as it is; it opens at the start then
  }
}

async function open() {
  const node = document.getElementById("trace");
  const trace = parse(await unpack(node.textContent));
  node.remove(); // it is in memory now, and need not be twice
  place();
  const player = createPlayer(host, trace, { idea: saved.idea, alone: true });
  player.fill(saved.sources);
}

open().catch((error) => {
  const sentence = "DecompressionStream" in globalThis ? `This file cannot be played: ${error.message}` : "This browser is too old to play this file: one of 2023 or later can.";
  host.replaceChildren(el("div", { class: "waiting", role: "alert" }, el("p", { text: sentence })));
});
