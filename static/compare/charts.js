// The page's charts, drawn by Plotly (vendored, loaded here alone): ULP over steps, shares by slot and step, blocks over time.

import { label, number } from "../player/words.js";
import { atOnce, lanes, lessonBars, measuredBars } from "./schedule.js";

const SOURCE = "/static/vendor/plotly-cartesian.min.js";
const LINE_FROM = 1200; // so many steps make bars thinner than a pixel
const LOG_FROM = 500; // ULP
const MOST_LANES = 24, MOST_NAMED = 6; // blocks of a lane that are named in their bars
const MILLISECONDS_FROM = 10_000; // microseconds
const CONFIG = { displayModeBar: false, responsive: true, doubleClick: "reset" };

let loading = null;

/** Plotly, fetched once. */
export function plotly() {
  loading ??= window.Plotly ? Promise.resolve(window.Plotly) : new Promise((resolve, reject) => { // a saved page holds it
    const script = document.createElement("script");
    script.src = SOURCE;
    script.addEventListener("load", () => resolve(window.Plotly));
    script.addEventListener("error", () => reject(new Error("The charts could not be loaded.")));
    document.head.append(script);
  });
  return loading;
}

/** The theme's colours and type, for Plotly, which knows no CSS variables. */
function theme() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    ink: of("ink"), quiet: of("ink-2"), line: of("line"), line2: of("line-2"), paper: of("bg"), raised: of("raised"), good: of("l"), wrong: of("wrong"), accent: of("accent"),
    panel: of("panel"), launches: ["m", "o", "s", "q", "alpha"].map(of),
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: of("ink-2") },
  };
}

function layout(colours, more) {
  return {
    template: "none", paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: colours.font, showlegend: false,
    margin: { l: 56, r: 12, t: 6, b: 36 }, hovermode: "closest", dragmode: false,
    hoverlabel: { bgcolor: colours.raised, bordercolor: colours.line2, font: { ...colours.font, color: colours.ink }, align: "left" },
    ...more,
  };
}

const axis = (colours, more = {}) => ({
  gridcolor: colours.line, zerolinecolor: colours.line2, linecolor: colours.line2, tickcolor: colours.line2, ticks: "outside", ticklen: 3, fixedrange: true,
  automargin: true, ...more,
});

/** Two "#rrggbb" colours mixed. */
function mixed(a, b, share) {
  const at = (colour, n) => parseInt(colour.slice(1 + 2 * n, 3 + 2 * n), 16);
  return `rgb(${[0, 1, 2].map((n) => Math.round(at(a, n) + (at(b, n) - at(a, n)) * share)).join(", ")})`;
}

const stepRange = (trace) => [-0.5, trace.stepCount - 0.5];

/** The widest ULP difference after each step. */
export function ulpChart(trace, comparison) {
  const colours = theme();
  const steps = [], ulps = [], fills = [], texts = [];
  for (let t = 0; t < trace.stepCount; t += 1) {
    if (Number.isNaN(comparison.maxUlp[t])) continue;
    const entries = comparison.at(t);
    const worst = entries.reduce((a, b) => (b.maxUlp > a.maxUlp ? b : a));
    steps.push(t);
    ulps.push(comparison.maxUlp[t]);
    fills.push(entries.some((entry) => entry.first) ? colours.wrong : colours.accent);
    texts.push(`step ${t}: ${label(trace, t)}<br>${number(worst.maxUlp, 1)} ULP in ${worst.slot}`);
  }
  const many = steps.length > LINE_FROM;
  // One cancellation near zero may be worth thousands of ULP, beside which all others would vanish.
  const most = Math.max(1, ...ulps);
  const scale = most > LOG_FROM ? { type: "log", range: [Math.log10(0.5), Math.log10(1.3 * most)], dtick: 1, title: { text: "ULP (log)", standoff: 6 } }
    : { rangemode: "tozero", title: { text: "ULP", standoff: 6 } };
  return {
    data: [many
      ? { type: "scatter", mode: "lines", x: steps, y: ulps, text: texts, hovertemplate: "%{text}<extra></extra>", line: { width: 1, shape: "hv", color: colours.accent } }
      : { type: "bar", x: steps, y: ulps, text: texts, textposition: "none", hovertemplate: "%{text}<extra></extra>", marker: { color: fills, line: { width: 0 } }, width: 0.7 }],
    layout: layout(colours, {
      height: 168, bargap: 0,
      xaxis: axis(colours, { range: stepRange(trace), showgrid: false, zeroline: false, title: { text: "step", standoff: 4 } }),
      yaxis: axis(colours, scale),
    }),
  };
}

/** The share of what is allowed, slot by step. */
export function shareChart(trace, comparison) {
  const colours = theme();
  const keys = [...new Set(comparison.entries.map((entry) => entry.key))];
  const row = new Map(keys.map((key, n) => [key, n]));
  const z = keys.map(() => new Array(trace.stepCount).fill(null));
  const text = keys.map(() => new Array(trace.stepCount).fill(""));
  for (const entry of comparison.entries) {
    const share = Number.isFinite(entry.used) ? entry.used : 2;
    z[row.get(entry.key)][entry.step] = share;
    const used = Number.isFinite(entry.used) ? `${Math.ceil(100 * entry.used - 1e-9)} % of what is allowed` : "differs beyond any bound";
    text[row.get(entry.key)][entry.step] = `step ${entry.step}: ${label(trace, entry.step)}<br>${entry.array ? `${entry.slot} at the end` : entry.slot}: ${used}<br>largest difference ${number(entry.maxAbs)}`;
  }
  // Most shares are small: the colours rise quickly at first, so that 5 % is seen beside 0.
  const ramp = [[0, colours.panel], [0.02, mixed(colours.panel, colours.accent, 0.22)], [0.12, mixed(colours.panel, colours.accent, 0.48)],
    [0.4, mixed(colours.panel, colours.accent, 0.75)], [1, colours.accent]];
  const scale = comparison.verdict.ok ? ramp : [...ramp.map(([at, colour]) => [at / 2, colour]), [0.5, colours.wrong], [1, colours.wrong]];
  return {
    data: [{
      type: "heatmap", x: Array.from({ length: trace.stepCount }, (_, t) => t), y: keys.map((key) => key.replace("@", " (end)")), z, text, hoverongaps: false,
      hovertemplate: "%{text}<extra></extra>", zmin: 0, zmax: comparison.verdict.ok ? 1 : 2, colorscale: scale, xgap: trace.stepCount < 200 ? 1 : 0, ygap: 1,
      colorbar: { thickness: 8, outlinewidth: 0, tickformat: ",.0%", tickvals: comparison.verdict.ok ? [0, 0.5, 1] : [0, 1], len: 1, tickfont: { size: 11 } },
    }],
    keys,
    layout: layout(colours, {
      height: Math.max(120, 24 * keys.length + 44),
      xaxis: axis(colours, { range: stepRange(trace), showgrid: false, zeroline: false, title: { text: "step", standoff: 4 } }),
      yaxis: axis(colours, { autorange: "reversed", showgrid: false, ticks: "" }),
    }),
  };
}

function ganttChart(trace, bars, { unit, digits }) {
  const colours = theme();
  const names = lanes(bars);
  const launches = [...new Set(bars.map((bar) => bar.launch))];
  const data = launches.map((launch, n) => {
    const mine = bars.filter((bar) => bar.launch === launch);
    const named = names.length <= MOST_LANES && bars.length <= MOST_NAMED * names.length;
    return {
      type: "bar", orientation: "h", name: trace.launches[launch].title || trace.launches[launch].name,
      y: mine.map((bar) => bar.lane), base: mine.map((bar) => bar.start), x: mine.map((bar) => bar.end - bar.start),
      text: mine.map((bar) => (named ? `block ${bar.block}` : "")), textposition: "inside", insidetextanchor: "start", constraintext: "none", cliponaxis: true, textangle: 0,
      insidetextfont: { color: colours.paper, size: 11 },
      customdata: mine.map((bar) => [trace.launches[launch].title, bar.block, bar.lane, number(bar.start, digits), number(bar.end, digits)]),
      hovertemplate: `%{customdata[0]}, block %{customdata[1]} on %{customdata[2]}<br>%{customdata[3]} – %{customdata[4]} ${unit}<extra></extra>`,
      marker: { color: colours.launches[n % colours.launches.length], line: { width: 1, color: colours.paper } }, width: 0.72,
    };
  });
  // On a phone the launches stand one under the other, and the chart grows by their lines.
  const narrow = matchMedia("(max-width: 599px)").matches;
  const top = launches.length < 2 ? 6 : narrow ? 8 + 19 * launches.length : 26;
  return {
    data,
    layout: layout(colours, {
      barmode: "overlay", height: Math.min(420, Math.max(110, 24 * names.length + 52)) + Math.max(0, top - 26),
      showlegend: launches.length > 1, legend: { orientation: narrow ? "v" : "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 11 } },
      margin: { l: 56, r: 12, t: top, b: 36 },
      xaxis: axis(colours, { title: { text: unit, standoff: 4 }, rangemode: "tozero", zeroline: false }),
      yaxis: axis(colours, { type: "category", categoryorder: "array", categoryarray: names, autorange: "reversed", showgrid: false, ticks: "" }),
    }),
  };
}

/** When the blocks ran, by the device's own clock, and a sentence on it. */
export function measuredChart(trace, comparison) {
  const { bars, pauses } = measuredBars(comparison);
  if (!bars.length) return { data: [], layout: {}, said: "No launch of this problem has blocks." };
  const host = comparison.verdict.engine === "cpu";
  const length = Math.max(...bars.map((bar) => bar.end));
  const left = pauses >= 0.1 ? ` The host's pauses between launches (${duration(pauses)}) are left out.` : "";
  const said = host
    ? `On the host, blocks run one after another: ${count(bars.length, "block")} in ${duration(length)}. How they overlap, only a GPU shows.`
    : `${count(bars.length, "block")} on ${count(lanes(bars).length, "SM")} in ${duration(length)}, probes included; at most ${atOnce(bars)} ran at once.${left}`;
  const long = length >= MILLISECONDS_FROM;
  const shown = long ? bars.map((bar) => ({ ...bar, start: bar.start / 1000, end: bar.end / 1000 })) : bars;
  return { ...ganttChart(trace, shown, { unit: long ? "ms" : "µs", digits: 2 }), said };
}

/** Microseconds as people read them: "8.2 µs", "322 ms". */
function duration(microseconds) {
  const long = microseconds >= MILLISECONDS_FROM;
  const x = long ? microseconds / 1000 : microseconds;
  return `${x < 100 ? number(Math.round(10 * x) / 10, 1) : Math.round(x).toLocaleString("en")} ${long ? "ms" : "µs"}`;
}

/** When the blocks run in the lesson: one step a tick. */
export function lessonChart(trace, comparison) {
  const sms = comparison.verdict.device.sms ?? 132;
  const bars = lessonBars(trace, sms);
  if (!bars.length) return { data: [], layout: {}, said: "No launch of this problem has blocks." };
  const said = `The explorer's order “together”, a picture and no timing: every block takes one step a tick, up to ${sms} at once as if each had an SM to itself (on a GPU several may share one); at most ${atOnce(bars)} run at once.`;
  return { ...ganttChart(trace, bars, { unit: "ticks", digits: 0 }), said };
}

const count = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

/** Draw or draw again. @param {HTMLElement} host */
export async function draw(host, chart) {
  const Plotly = await plotly();
  if (!chart.data.length) Plotly.purge(host);
  else await Plotly.react(host, chart.data, chart.layout, CONFIG);
}

/** A line at the step on show. */
export async function markStep(hosts, step) {
  const Plotly = await plotly();
  const colour = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
  const shape = { type: "line", xref: "x", yref: "paper", x0: step, x1: step, y0: 0, y1: 1, line: { width: 1.5, color: colour, dash: "dot" } };
  for (const host of hosts) if (host.data?.length) await Plotly.relayout(host, { shapes: [shape] });
}
