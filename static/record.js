// Asking the server for a recording (or a comparison): progress while it is made, cancelling, and its bytes.

/**
 * @typedef {{state: "queued"|"running"|"waiting", done: number, total: number, secondsLeft: number|null}} Progress
 *   `waiting`: the server is busy and will be asked again. `secondsLeft` is null until it can be told.
 * @typedef {{id: string, state: string, done: number, total: number, trace: string, ticket?: string}} Info
 */

/** A recording that was refused or failed; `fields` holds a sentence for each field at fault. */
export class RecordingError extends Error {
  /** @param {string} message @param {Record<string, string>} fields */
  constructor(message, fields = {}) {
    super(message);
    this.name = "RecordingError";
    this.fields = fields;
  }
}

const FIRST_POLL = 120; // milliseconds; then longer, up to LAST_POLL
const LAST_POLL = 500;
const BUSY_TRIES = 20;

/**
 * Ask for a recording and wait until it is made.
 * @param {object} request {kernel, ...parameters}, the body of POST /api/recordings
 * @param {{onProgress?: (progress: Progress) => void, signal?: AbortSignal, path?: string}} options
 *   path: where else such work is asked for, /api/comparisons
 * @returns {Promise<Info>} rejects with RecordingError, or with signal.reason when aborted
 */
export async function ask(request, { onProgress = () => {}, signal, path = "/api/recordings" } = {}) {
  let info = await begin(path, request, onProgress, signal);
  if (info.state === "done") return info;
  const ticket = info.ticket ?? "";
  const address = `${path}/${info.id}?ticket=${encodeURIComponent(ticket)}`;
  const leave = () => fetch(address, { method: "DELETE", keepalive: true }).catch(() => {});
  addEventListener("pagehide", leave);
  try {
    const started = performance.now();
    const before = info.done;
    for (let poll = FIRST_POLL; info.state !== "done"; poll = Math.min(poll * 1.3, LAST_POLL)) {
      const rate = (info.done - before) / (performance.now() - started);
      const secondsLeft = rate > 0 ? (info.total - info.done) / rate / 1000 : null;
      onProgress({ state: info.state === "queued" ? "queued" : "running", done: info.done, total: info.total, secondsLeft });
      await pause(poll, signal);
      info = { ...info, ...(await answer(await fetch(address, { signal }))) };
      if (info.state === "cancelled") throw new RecordingError("The recording was cancelled.");
      if (info.state === "failed") throw new RecordingError(info.error ?? "The recording failed.", info.errors ?? {});
    }
    return info;
  } catch (error) {
    if (signal?.aborted) leave();
    throw error;
  } finally {
    removeEventListener("pagehide", leave);
  }
}

/**
 * Ask for a recording, wait for it and fetch its trace.
 * @returns {Promise<{id: string, buffer: ArrayBuffer, info: Info}>} as `ask`
 */
export async function record(request, options = {}) {
  let info = await ask(request, options);
  let response = await fetch(info.trace, { signal: options.signal });
  if (response.status === 404) { // made, and let go before it was fetched: others were recorded meanwhile
    info = await ask(request, options);
    response = await fetch(info.trace, { signal: options.signal });
  }
  if (!response.ok) await answer(response);
  return { id: info.id, buffer: await response.arrayBuffer(), info };
}

async function begin(path, request, onProgress, signal) {
  for (let tries = 1; ; tries++) {
    const response = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(request),
      signal,
    });
    if (response.status !== 503 || tries === BUSY_TRIES) return answer(response);
    onProgress({ state: "waiting", done: 0, total: 0, secondsLeft: null });
    await pause(1000 * (Number(response.headers.get("Retry-After")) || 2), signal);
  }
}

/** The JSON of an answer; a refusal becomes a RecordingError. */
async function answer(response) {
  const body = await response.json().catch(() => ({}));
  if (response.ok) return body;
  throw new RecordingError(body.error ?? `The server answered ${response.status}.`, body.errors ?? {});
}

function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    }, { once: true });
    if (signal?.aborted) reject(signal.reason);
  });
}
