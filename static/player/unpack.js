// The trace that a saved page holds in itself.

import { parse } from "./trace.js";

/** @returns {Promise<any>} the trace of the element #trace, which is gone after: it need not be there twice */
export async function savedTrace() {
  const node = document.getElementById("trace");
  const packed = Uint8Array.from(atob(node.textContent), (letter) => letter.charCodeAt(0));
  const bytes = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
  node.remove();
  return parse(bytes);
}

/** Why a saved page cannot be played, in a sentence. @param {Error} error */
export function whyNot(error) {
  if ("DecompressionStream" in globalThis) return `This file cannot be played: ${error.message}`;
  return "This browser is too old to play this file: one of 2023 or later can.";
}
