// The explorer's page: asks for the recording, with progress and a way out, and opens the player on it.

import { obtain } from "../obtain.js";
import { explore, recording } from "./early.js";
import { createPlayer } from "./player.js";
import { parse } from "./trace.js";
import { address } from "./url.js";

const host = document.getElementById("player");

async function start() {
  const trace = await obtain(host, async (options) => {
    const { buffer } = await recording(options);
    performance.mark("flashstep:recorded");
    return parse(buffer);
  }, { again: start });
  if (trace) open(trace);
}

function open(trace) {
  const { idea, regions } = explore; // an embedded player has none of the regions that may be left out
  const source = regions?.includes("tabs") === false ? null
    : fetch(`/api/source/${encodeURIComponent(trace.meta.kernel)}`).then((r) => (r.ok ? r.json() : null), () => null);
  const player = createPlayer(host, trace, { idea, regions });
  performance.mark("flashstep:first-figure");
  if (!regions) {
    const here = (page) => `/${page}/${encodeURIComponent(trace.meta.kernel)}${address(location, player.state.get()).search}`;
    player.save.offer("HTML", () => here("export"), "the whole run in one file, to play without a server");
    player.save.offer("Handout", () => here("handout"), "chosen steps with their captions, to print");
  }
  document.dispatchEvent(new CustomEvent("playeropen", { detail: player }));
  source?.then((found) => player.fill(found));
}

start();
