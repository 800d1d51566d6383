// Where people are among the runs, as the address says it, and the small things that all tabs show.

import { el, number, withQuery } from "./site.js";

const KEPT = ["run", "with", "tab", "stage", "show", "step", "hops", "kind", "type", "error", "text", "offset"];

export const runURL = (values) => withQuery("runs", values);
export const place = () => Object.fromEntries(KEPT.map((key) => [key, new URLSearchParams(location.search).get(key) ?? ""]));

let redraw = () => {};
export const onMove = (draw) => { redraw = draw; }; // called when the address has changed

// Change the address: `replace` for what is no step back worth, such as a slider.
export function go(values, { replace = false, draw = true } = {}) {
  const next = runURL({ ...place(), ...values });
  history[replace ? "replaceState" : "pushState"](null, "", next);
  if (draw) redraw();
}

export const leadTo = (values, ...children) =>
  el("a", { href: runURL(values), on: { click: (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    history.pushState(null, "", runURL(values));
    redraw();
  } } }, ...children);

export const share = (value) => value === null || value === undefined ? "" : number(value, 3);

export const score = (value) => value === null || value === undefined ? "" : value.toFixed(3); // between 0 and 1

export function ago(seconds) {
  if (!seconds) return "";
  const past = Date.now() / 1000 - seconds;
  for (const [size, word] of [[86400, "day"], [3600, "hour"], [60, "minute"]]) {
    const count = Math.floor(past / size);
    if (count) return `${count} ${word}${count > 1 ? "s" : ""} ago`;
  }
  return past < 10 ? "just now" : `${Math.floor(past)} s ago`;
}

export const stateChip = (run) => el("span", { class: `state ${run.state}`, title: run.error }, run.state);

export function stepsBar(run) {
  const count = run.step === null ? "" : run.steps && run.step < run.steps ? `${number(run.step)} of ${number(run.steps)}` : number(run.step);
  const words = !run.stage ? [] : run.stage === "walks" && count ? [`${count} walks`] : [run.stage, count && `, step ${count}`];
  if (!run.steps || run.step === null || run.state === "finished") return el("div", { class: "steps" }, ...words);
  const inside = el("span");
  inside.style.width = `${Math.min(100, 100 * run.step / run.steps)}%`;
  return el("div", { class: "steps" }, ...words, el("div", { class: "bar", "aria-hidden": "true" }, inside));
}
