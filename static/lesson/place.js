// Other sizes are another page with the same text: it opens where the reader was.

const STORED = "flashstep.reading";
const SECONDS = 30; // a later visit begins at its beginning

/** @param {NodeListOf<HTMLElement>} headings of the text */
export function keepPlace(headings) {
  const kept = taken();
  const arrival = performance.getEntriesByType("navigation")[0]?.type;
  if (kept && arrival === "navigate" && !location.hash) {
    const heading = document.getElementById(kept.heading);
    if (heading) scrollBy(0, heading.getBoundingClientRect().top - kept.top);
  }
  document.getElementById("parameters")?.addEventListener("submit", () => {
    const above = [...headings].filter((heading) => heading.getBoundingClientRect().top < innerHeight / 2).at(-1);
    if (!above) return;
    const place = { path: location.pathname, heading: above.id, top: above.getBoundingClientRect().top, at: Date.now() };
    store(JSON.stringify(place));
  });
}

function taken() {
  try {
    const place = JSON.parse(sessionStorage.getItem(STORED) ?? "null");
    sessionStorage.removeItem(STORED);
    return place && place.path === location.pathname && Date.now() - place.at < 1000 * SECONDS ? place : null;
  } catch {
    return null;
  }
}

function store(text) {
  try {
    sessionStorage.setItem(STORED, text);
  } catch { /* the page then opens at its beginning */ }
}
