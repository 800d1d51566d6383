// Curves: many points, few lines of code; drawn by uPlot (vendor/, MIT).
//
//   const chart = await lineChart(host, { title: "reward", x: "step" });
//   chart.show([{ label: "run a", xs: [0, 1, 2], ys: [0.1, null, 0.4] }]);   // as often as there is news
//
// Drag over a part to look closer, double-click for the whole; a click on a name in the legend hides its curve.

import { colour, el, onTheme } from "./site.js";

const WHOLE = [1, 2, 5].flatMap((one) => [...Array(9).keys()].map((power) => one * 10 ** power)).sort((one, other) => one - other); // no half steps
const CURVES = 6; // colours of site.css; the next ones are dashed
let loading = null;

function load() {
  return (loading ??= new Promise((resolve, reject) => {
    const at = (name) => new URL(`vendor/${name}`, import.meta.url).href;
    document.head.append(el("link", { rel: "stylesheet", href: at("uPlot.min.css") }));
    const script = el("script", { src: at("uPlot.iife.min.js") });
    script.addEventListener("load", () => resolve(window.uPlot));
    script.addEventListener("error", () => reject(new Error("the script that draws curves cannot be loaded")));
    document.head.append(script);
  }));
}

// `title` and `x` are the words of the chart and its axis, `height` in pixels, `log` for a logarithmic axis.
export async function lineChart(host, { title, x = "step", height = 220, log = false } = {}) {
  const uPlot = await load();
  const place = el("div");
  host.classList.add("chart");
  host.replaceChildren(...(title ? [el("h3", {}, title)] : []), place);
  let plot = null, labels = "", shown = [];

  const options = (series) => {
    const axis = { stroke: colour("--faint"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
    return {
      width: Math.max(200, host.clientWidth), height,
      scales: { x: { time: false }, y: log ? { distr: 3 } : {} },
      axes: [{ ...axis, incrs: WHOLE, label: x, labelSize: 18, size: 32 }, { ...axis, size: 56 }],
      cursor: { points: { size: 6 } },
      series: [{ label: x }, ...series.map((one, at) => ({
        label: one.label, stroke: colour(`--curve-${at % CURVES + 1}`), width: 1.5, spanGaps: true,
        dash: at < CURVES ? undefined : [6, 4], points: { show: one.xs.length < 2 },
        value: (_, value) => value === null || value === undefined ? "–" : String(Number(value.toPrecision(5))),
      }))],
    };
  };

  function show(series, { again = false } = {}) {
    shown = series;
    const data = aligned(uPlot, series);
    const names = JSON.stringify(series.map((one) => one.label));
    if (plot && names === labels && !again) return plot.setData(data);
    plot?.destroy();
    labels = names;
    plot = new uPlot(options(series), data, place);
  }

  new ResizeObserver(() => plot?.setSize({ width: Math.max(200, host.clientWidth), height })).observe(host);
  onTheme(() => plot && show(shown, { again: true }));
  return { show, destroy: () => { plot?.destroy(); plot = null; } };
}

function aligned(uPlot, series) {
  if (!series.length) return [[]];
  const tables = series.map((one) => [one.xs, one.ys]);
  return tables.length === 1 ? tables[0] : uPlot.join(tables);
}
