// The lecturer's moves as they come, over a connection that is made again whenever it is lost.

const SILENCE_MS = 25_000; // the server speaks every ten seconds
const FIRST_MS = 500; // then longer, up to LONGEST_MS, and never all students at once
const LONGEST_MS = 8_000;

/**
 * @typedef {"connecting"|"level"|"lost"|"gone"|"full"|"over"} Link  level: every move arrives; gone: there is no such session (now);
 *   over: the lecturer ended it; full: too many follow, and this page is told where the lecturer is each time that it tries
 * @param {string} code
 * @param {{place: (place: object) => void, link: (link: Link) => void}} told
 */
export function stream(code, told) {
  const path = `/api/follow/${encodeURIComponent(code)}`;
  /** @type {EventSource|null} */
  let source = null;
  let heard = 0;
  let timer = 0;
  let wait = FIRST_MS;
  let over = false;

  function open() {
    clearTimeout(timer);
    timer = 0;
    source?.close();
    heard = performance.now();
    source = new EventSource(`${path}/events`);
    source.addEventListener("open", alive);
    source.addEventListener("beat", alive);
    source.addEventListener("place", (event) => {
      alive();
      told.place(JSON.parse(/** @type {MessageEvent} */ (event).data));
    });
    source.addEventListener("over", () => {
      over = true;
      source.close();
      told.link("over");
      again(); // the next lecture may go on under the same code
    });
    source.addEventListener("error", lost);
  }

  function alive() {
    heard = performance.now();
    wait = FIRST_MS;
    over = false;
    told.link("level");
  }

  /** The browser connects anew by itself, with the number of the last move; where it has given up, it is done here. */
  async function lost() {
    if (!over) told.link("lost");
    if (source.readyState !== EventSource.CLOSED) return;
    const answer = await fetch(path).catch(() => null);
    if (answer?.status === 404) told.link(over ? "over" : "gone");
    const found = answer?.ok ? await answer.json().catch(() => null) : null;
    if (found?.full) told.link("full");
    if (found?.place) told.place(found.place); // not live, but not behind by long
    again();
  }

  function again() {
    clearTimeout(timer);
    timer = setTimeout(open, wait * (0.5 + Math.random()));
    wait = Math.min(2 * wait, LONGEST_MS);
  }

  /** A phone that slept, a network that changed: nobody tells of a connection that died in silence. */
  function check() {
    if (timer || performance.now() - heard <= SILENCE_MS) return;
    if (!over) told.link("lost");
    open();
  }
  setInterval(check, 5000);
  document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && check());
  addEventListener("online", open);
  addEventListener("offline", () => told.link("lost"));
  told.link("connecting");
  open();
}
