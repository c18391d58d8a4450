// Curves over logarithmic scales, drawn by Plotly when they come near. Their numbers stand in a table below each.

import { plotly } from "../compare/charts.js";

const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const MARKERS = ["circle", "square", "diamond", "cross", "triangle-up", "x", "star", "pentagon"];
const HUES = ["m", "o", "s", "q", "alpha", "l", "k", "x"];

/** @param {Iterable<HTMLElement>} figures each with data-chart */
export function charts(figures) {
  const near = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      draw(target);
      document.addEventListener("themechange", () => draw(target));
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(target));
    }
  }, { rootMargin: "400px" });
  for (const figure of figures) near.observe(figure);
}

async function draw(figure) {
  const { x, y, series } = JSON.parse(figure.dataset.chart);
  const Plotly = await plotly();
  const of = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const font = { family: getComputedStyle(document.body).fontFamily, size: 12, color: of("ink-2") };
  const axis = (title) => ({ type: "log", dtick: 1, title: { text: title, standoff: 8 }, gridcolor: of("line"), linecolor: of("line-2"), tickcolor: of("line-2"),
    ticks: "outside", ticklen: 3, fixedrange: true, automargin: true, zeroline: false });
  const places = [...new Set(Object.values(series).flatMap((curve) => Object.keys(curve).map(Number)))].sort((a, b) => a - b);
  const data = Object.entries(series).map(([name, curve], n) => ({
    type: "scatter", mode: "lines+markers", name, x: Object.keys(curve).map(Number), y: Object.values(curve),
    line: { color: of(HUES[n % HUES.length]), width: 2, dash: DASHES[n % DASHES.length] }, marker: { symbol: MARKERS[n % MARKERS.length], size: 7 },
    hovertemplate: `${name}<br>%{x:,} : %{y:,.1f}<extra></extra>`,
  }));
  await Plotly.react(figure.querySelector(".plot"), data, {
    template: "none", paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font, height: 320 + 20 * data.length, margin: { l: 56, r: 8, t: 8, b: 40 }, dragmode: false,
    hoverlabel: { bgcolor: of("raised"), bordercolor: of("line-2"), font: { ...font, color: of("ink") } },
    legend: { orientation: "h", x: 0, y: -0.2, yanchor: "top", font: { ...font, size: 12 } },
    xaxis: { ...axis(x), dtick: undefined, tickvals: places, ticktext: places.map(short) }, yaxis: axis(y),
  }, { displayModeBar: false, responsive: true });
}

/** 65,536 as "64k". */
function short(n) {
  return n >= 1024 && n % 1024 === 0 ? `${n / 1024}k` : String(n);
}
