// The curves of a training, of two runs in the same charts; rows that are added while the page is open show up.

import { lineChart } from "./chart.js";
import { el, getJSON, number, sayError, withQuery } from "./site.js";
import { go, place, share } from "./runs_place.js";

// Each chart: its words, and the metrics in it with theirs.
const CHARTS = {
  sft: [["Loss", { loss: "loss" }], ["F1 in validation", { eval_f1: "validation" }], ["Tokens a step", { tokens: "tokens" }], ["Seconds a step", { seconds: "seconds" }]],
  grpo: [["Reward", { reward: "reward" }], ["F1", { f1: "training walks", eval_f1: "validation" }], ["Loss", { loss: "loss" }],
    ["KL from the start", { kl: "KL" }], ["Entropy", { entropy: "entropy" }], ["Tokens a walk", { generated_tokens: "tokens" }],
    ["Tokens a second", { tokens_a_second: "tokens" }], ["Seconds a step", { seconds: "seconds" }]],
};
const MOST = 400; // points of a curve; with three times as many it is asked for anew
const WORDS = { sft: "SFT", grpo: "GRPO" };

export async function curvesTab(panel, about, other) {
  const runs = [about, ...(other ? [other] : [])];
  const begun = () => ["sft", "grpo"].filter((stage) => runs.some((run) => run.stages.some((one) => one.stage === stage)));
  let stages = begun();
  if (!stages.length) {
    panel.append(el("p", { class: "card" }, "No step is done yet. The curves begin with the first one."));
    return { refresh: (now) => { if (now.stages.length) go({}, { replace: true }); } };
  }
  let stage = stages.includes(place().stage) ? place().stage : stages.at(-1);
  let smooth = 0, data = new Map(), charts = [], extra = new Set();

  const choice = el("div", { class: "choice", role: "group", "aria-label": "Stage" });
  const grid = el("div", { class: "charts" });
  const rows = el("span", { class: "faint small" });
  const smoother = el("input", { type: "range", min: "0", max: "0.98", step: "0.02", value: "0", on: { input: (event) => { smooth = Number(event.target.value); paint(); } } });
  const more = el("select", { on: { change: (event) => { if (event.target.value) { extra.add(event.target.value); begin().catch(sayError); } } } });
  panel.append(el("div", { class: "row spread tools" }, el("div", { class: "row tools" }, choice, rows),
    el("div", { class: "row tools" }, el("label", {}, "smooth", smoother), el("label", {}, "also show", more))), grid);

  // Two runs in one chart are two curves; four would be too many.
  const wanted = () => [...(runs.length === 1 ? CHARTS[stage] : CHARTS[stage].flatMap(([title, of]) => Object.entries(of).map(([metric, words]) =>
    [Object.keys(of).length === 1 ? title : `${title}, ${words}`, { [metric]: words }]))), ...[...extra].map((one) => [one, { [one]: one }])];
  const names = () => [...new Set([...CHARTS[stage].flatMap(([, of]) => Object.keys(of)), ...extra])];

  const having = () => wanted().filter(([, of]) => [...data.values()].some((one) => Object.keys(of).some((name) => one.curves[name])));

  async function read(run, since) {
    const name = run.summary.name;
    if (!run.stages.some((one) => one.stage === stage) && !since) return null;
    const curves = names().join(","), into = data;
    const told = await getJSON(withQuery("v1/runs/metrics", { name, stage, since, most: MOST, curves }));
    if (into !== data) return null; // the charts were begun anew meanwhile
    const kept = data.get(name);
    if (since && told.since === null || !kept) data.set(name, { ...told });
    else {
      Object.assign(kept, { next: told.next, rows: told.rows, names: told.names });
      for (const [curve, points] of Object.entries(told.curves)) {
        const into = kept.curves[curve] ??= { steps: [], values: [] };
        into.steps.push(...points.steps);
        into.values.push(...points.values);
      }
      const longest = Math.max(0, ...Object.values(kept.curves).map((one) => one.steps.length));
      if (longest > 3 * MOST) { data.delete(name); return read(run); }
    }
    return told;
  }

  let begins = 0;
  async function begin() {
    const now = ++begins;
    data = new Map();
    charts.forEach((one) => one.chart?.destroy());
    charts = [];
    grid.replaceChildren();
    choice.replaceChildren(...stages.map((one) => el("button", { type: "button", "aria-pressed": String(one === stage),
      on: { click: () => { stage = one; go({ stage }, { replace: true, draw: false }); begin().catch(sayError); } } }, WORDS[one])));
    await Promise.all(runs.map((run) => read(run)));
    if (now !== begins) return; // another stage was chosen meanwhile
    const known = new Set(names());
    const others = [...new Set([...data.values()].flatMap((one) => one.names))].filter((one) => !known.has(one)).sort();
    more.replaceChildren(el("option", { value: "" }, "another metric"), ...others.map((one) => el("option", {}, one)));
    for (const [title, of] of having()) {
      const card = el("section", { class: "card", "data-chart": title }), value = el("output"), host = el("div", { role: "img" });
      card.append(el("h2", {}, title, value), host);
      grid.append(card);
      charts.push({ title, of, value, host, chart: null });
    }
    if (!charts.length) grid.append(el("p", { class: "faint" }, "No step of this stage is done yet."));
    for (const one of charts) one.chart = await lineChart(one.host, { x: "step", height: 190 });
    if (now === begins) paint();
  }

  function paint() {
    rows.textContent = runs.map((run) => data.get(run.summary.name)).filter(Boolean).map((one) => `${number(one.rows)} steps`).join(" and ");
    for (const { title, of, value, host, chart } of charts) {
      const series = [], lasts = [];
      for (const [metric, words] of Object.entries(of)) {
        for (const run of runs) {
          const points = data.get(run.summary.name)?.curves[metric];
          if (!points?.steps.length) continue;
          const label = runs.length > 1 ? run.summary.name : words;
          series.push({ label, xs: points.steps, ys: smoothed(points.values, smooth) });
          lasts.push([label, points.values.at(-1), points.steps.at(-1)]);
        }
      }
      value.textContent = lasts.map(([label, last]) => lasts.length > 1 ? `${label} ${short(last)}` : short(last)).join(" · ");
      host.setAttribute("aria-label", `${title}: ${lasts.map(([label, last, step]) => `${label} ${short(last)} at step ${step}`).join(", ")}`);
      chart?.show(series);
    }
  }

  await begin();
  return {
    look: async () => {
      const news = await Promise.all(runs.map((run) => data.has(run.summary.name) ? read(run, data.get(run.summary.name).next) : null));
      if (having().length > charts.length) await begin(); // a metric that no step before had
      else if (news.some((told) => told?.new || (told && told.since === null))) paint();
    },
    update: (now) => { runs[0] = now; },
    refresh: (now) => { // the next stage has begun: go along, unless people have chosen one
      runs[0] = now;
      if (begun().length === stages.length) return;
      stages = begun();
      if (!place().stage) stage = stages.at(-1);
      begin().catch(sayError);
    },
    close: () => charts.forEach((one) => one.chart?.destroy()),
  };
}

export const short = (value) => Math.abs(value) >= 1000 ? number(value, 0) : share(Number(value.toPrecision(3)));

// An exponential mean; the larger `weight`, the smoother.
export function smoothed(values, weight) {
  if (!weight) return values;
  let mean = null;
  return values.map((value) => (mean = mean === null ? value : weight * mean + (1 - weight) * value));
}
