// The other tabs of a run: scores with the figures of `kgwalk report`, two runs paired, and what the run was told to do.

import { copyText, el, getJSON, number, sayError, withQuery } from "./site.js";
import { ago, leadTo, score, share, stateChip } from "./runs_place.js";
import { walkCard } from "./runs_walks.js";

const plain = (name) => name.replaceAll("_", " ");
const heads = (...words) => el("thead", {}, el("tr", {}, words.map((one) => el("th", { scope: "col", class: one.startsWith("#") ? "number" : "" }, one.replace("#", "")))));
const cell = (value) => el("td", { class: "number" }, value);

// Scores

export async function scoresTab(panel, about, other) {
  let fit = about.fit ? fitCard(about) : null;
  if (fit) panel.append(fit);
  const refresh = (now) => { if (fit && now.fit) { const next = fitCard(now); fit.replaceWith(next); fit = next; } };
  const name = about.evaluated;
  if (!name) {
    if (!fit) panel.append(el("p", { class: "card" }, "There is no finished evaluation of this run yet."));
    return { update: refresh, refresh };
  }
  const inner = name === about.summary.name ? about : await getJSON(withQuery("v1/runs/run", { name }));
  const means = inner.evaluation;
  const table = el("table", {}, heads("metric", "#mean", "#95% interval"), el("tbody", {}, Object.entries(means.groups).flatMap(([group, names]) => [
    el("tr", {}, el("th", { colspan: "3", scope: "colgroup" }, group)),
    ...names.map((one) => el("tr", {}, el("td", {}, plain(one)), cell(share(means.metrics[one])), cell(means.intervals[one] ? means.intervals[one].map(share).join(" to ") : ""))),
  ])));
  const counts = (title, of) => Object.keys(of).length ? [el("h3", {}, title), el("table", {}, el("tbody", {}, Object.entries(of).map(([one, many]) => el("tr", {}, el("td", {}, plain(one)), cell(number(many))))))] : [];
  const figures = el("div");
  panel.append(figures, el("div", { class: "card columns" },
    el("div", {}, el("h2", {}, `Means of ${number(means.n)} questions`), el("div", { class: "wide", tabindex: "0" }, table)),
    el("div", {}, counts("Wrong walks by class of error", means.errors), counts("Why walks ended", means.stops))));
  await drawFigures(figures, about.summary.name, other?.summary.name).catch(sayError);
  return { update: refresh, refresh };
}

async function drawFigures(host, name, beside) {
  const told = await getJSON(withQuery("v1/runs/figures", { name, beside }));
  host.replaceChildren(...told.sections.map((section) => el("section", { class: "card" }, el("h2", {}, section.title),
    section.note ? el("p", { class: "faint small" }, section.note) : null,
    el("div", { class: "figures" }, section.figures.map((figure) => el("figure", {}, drawing(figure.svg)))))));
}

const SHAPES = new Set(["svg", "g", "path", "line", "rect", "circle", "polyline", "text", "tspan", "title"]);

// A picture of the report as elements of this page. Only shapes and text are taken, no links, scripts or handlers.
function drawing(svg) {
  const read = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  for (const one of [read, ...read.querySelectorAll("*")]) {
    if (!SHAPES.has(one.localName)) { one.remove(); continue; }
    for (const { name } of [...one.attributes]) if (/^(on|style$|href$|xlink)/.test(name)) one.removeAttribute(name);
  }
  read.removeAttribute("width");
  read.removeAttribute("height");
  return document.importNode(read, true);
}

function fitCard(about) {
  const fit = about.fit, time = (seconds) => !seconds ? "" : seconds < 90 ? `${number(seconds, 0)} s` : `${number(seconds / 60, 1)} min`;
  const both = [["before", fit.before], ["after", fit.after]].filter(([, means]) => "f1" in means);
  const used = fit.minutes ? `${time(fit.spent) || "0 s"} used of ${number(fit.minutes)} min` : `${time(fit.spent) || "0 s"} used`;
  return el("section", { class: "card fit" }, el("h2", {}, "The fit"),
    fit.minutes && about.summary.state !== "finished" ? el("progress", { max: String(60 * fit.minutes), value: String(Math.min(fit.spent, 60 * fit.minutes)), "aria-label": used }) : null,
    el("p", {}, used, both.map(([when, means]) => ` · F1 ${when} ${score(means.f1)}`)),
    el("table", {}, heads("part", "state", "#planned", "#used"), el("tbody", {}, fit.parts.map((part) => el("tr", {}, el("td", {}, part.part), el("td", {}, part.state), cell(time(part.planned)), cell(time(part.used)))))),
    about.parts.map((part) => el("p", { class: "small" }, leadTo({ run: part.name }, part.name), " ", stateChip(part), ` ${ago(part.updated)}`)),
    fit.notes.map((note) => el("p", { class: "warn small" }, note)));
}

// Two runs

export async function comparedTab(panel, about, other) {
  const [a, b] = [about.summary.name, other.summary.name];
  const told = await getJSON(withQuery("v1/runs/compare", { a, b }));
  const paired = told.paired;
  const names = el("p", { class: "small" }, el("span", { class: "faint" }, "first "), leadTo({ run: a }, a), el("span", { class: "faint" }, " · second "), leadTo({ run: b }, b));
  if (!paired) panel.append(el("section", { class: "card" }, names, el("p", {}, "They cannot be paired question by question: ", told.why)));
  else {
    const most = Math.max(1e-9, ...Object.entries(paired.metrics).filter(([name]) => !costs(name)).flatMap(([, one]) => one.interval.map(Math.abs)));
    const rowOf = ([name, one]) => {
      const told = costs(name) ? (value) => number(value, 1) : score;
      const clear = one.p < 0.05 && !costs(name) ? one.difference > 0 ? "good" : "bad" : "";
      return el("tr", {}, el("td", {}, plain(name), one.n < paired.n ? el("span", { class: "faint small" }, ` of ${number(one.n)}`) : null),
        cell(told(one.first)), cell(told(one.second)), cell(el("span", { class: clear }, `${one.difference > 0 ? "+" : ""}${told(one.difference)}`)),
        el("td", {}, costs(name) ? one.interval.map(told).join(" to ") : interval(one, most)), cell(one.p < 0.001 ? "< 0.001" : score(one.p)));
    };
    panel.append(el("section", { class: "card" }, el("h2", {}, `${number(paired.n)} questions in both, paired`), names,
      el("p", { class: "faint small" }, "The difference is the second less the first. p says how likely so large a difference is by chance.",
        paired.left_out.some(Boolean) ? ` Not in both and left out: ${paired.left_out.map((one) => number(one)).join(" and ")}.` : ""),
      el("div", { class: "wide", tabindex: "0" }, el("table", {}, heads("metric", "#first", "#second", "#difference", "95% interval", "#p"), el("tbody", {}, Object.entries(paired.metrics).map(rowOf))))));
  }
  panel.append(el("section", { class: "card" }, el("h2", {}, "Settings that differ"), told.differing.length ?
    el("div", { class: "wide", tabindex: "0" }, el("table", { class: "settings" }, heads("setting", "first", "second"), el("tbody", {}, told.differing.map((one) =>
      el("tr", {}, el("td", { class: "mono" }, one.key), el("td", { class: "mono" }, said(one.a)), el("td", { class: "mono" }, said(one.b))))))) : el("p", {}, "None.")));
  if (paired) {
    const figures = el("div");
    panel.append(el("section", { class: "card columns changed" }, changed("Better in the second", paired.gained, paired.gained_count, told.evaluated), changed("Worse in the second", paired.lost, paired.lost_count, told.evaluated)), figures);
    drawFigures(figures, a, b).catch(sayError);
  }
  return { update: () => {} };
}

const costs = (name) => ["generated_tokens", "turns"].includes(name);
const said = (value) => value === null || value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);

// The interval as a line around nothing changed; its numbers are what a screen reader says.
function interval(one, most) {
  const made = (tag, values) => { const shape = document.createElementNS("http://www.w3.org/2000/svg", tag); for (const [name, value] of Object.entries(values)) shape.setAttribute(name, value); return shape; };
  const at = (value) => 50 + 46 * value / most;
  const words = one.interval.map((value) => `${value > 0 ? "+" : ""}${score(value)}`).join(" to ");
  const svg = made("svg", { viewBox: "0 0 100 12", class: "difference", role: "img", "aria-label": words, preserveAspectRatio: "none" });
  const title = made("title", {});
  title.textContent = words;
  svg.append(title, made("line", { x1: 50, x2: 50, y1: 0, y2: 12 }), made("line", { class: "span", x1: at(one.interval[0]), x2: at(one.interval[1]), y1: 6, y2: 6 }), made("circle", { cx: at(one.difference), cy: 6, r: 3 }));
  return el("span", {}, svg, el("span", { class: "small faint" }, ` ${words}`));
}

function changed(title, rows, count, evaluated) {
  return el("div", {}, el("h2", {}, `${title}: ${number(count)}`), rows.length < count ? el("p", { class: "faint small" }, `the ${rows.length} largest`) : null,
    rows.map((row) => {
      const host = el("div", { class: "pair" });
      return el("details", { on: { toggle: () => { if (!host.childNodes.length) both(host, row.number, evaluated).catch(sayError); } } },
        el("summary", {}, el("span", { class: "faint small" }, `${row.f1.map(share).join(" → ")} `), el("span", { class: "text" }, row.question || row.id)), host);
    }));
}

async function both(host, number_, evaluated) {
  host.textContent = "reading";
  const told = await Promise.all(evaluated.map((name) => getJSON(withQuery("v1/runs/walks", { name, number: number_, limit: 1 }))));
  host.replaceChildren(...told.map((one, at) => el("div", {}, el("h3", {}, evaluated[at]), one.walks.map((walk) => walkCard(walk, { open: true })))));
}

// The recipe

export async function recipeTab(panel, about) {
  const copy = (text, what) => el("button", { type: "button", class: "small", on: { click: () => copyText(text, what) } }, "Copy");
  const command = about.command.map((word) => /^[\w./:=,@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`).join(" ");
  const rows = (pairs) => el("table", { class: "settings" }, el("tbody", {}, pairs.map(([key, value]) => el("tr", {}, el("td", { class: "mono" }, key), el("td", { class: "mono" }, said(value))))));
  const facts = { ...about.versions, ...(about.commit ? { commit: about.commit } : {}), ...about.machine };
  panel.append(
    el("section", { class: "card" }, el("div", { class: "row spread" }, el("h2", {}, "The command"), copy(command, "the command")), el("pre", {}, command || "not known")),
    el("section", { class: "card" }, el("h2", {}, "Settings used"),
      el("div", { class: "sections" }, sections(about.settings).map(([title, pairs]) => el("div", { class: "wide", tabindex: "0" }, el("h3", {}, title), rows(pairs))))),
    ...(about.recipe ? [el("section", { class: "card" }, el("div", { class: "row spread" }, el("h2", {}, "recipe.toml"), copy(about.recipe, "the recipe")), el("pre", { class: "scroll", tabindex: "0", "aria-label": "recipe.toml" }, about.recipe))] : []),
    el("section", { class: "card" }, el("h2", {}, "Made with"), rows(Object.entries(facts))));
  return { update: () => {} };
}

// The settings in the sections of a recipe, the run's own first.
function sections({ sections: inside = {}, ...own }) {
  const tables = { "the run": {}, ...inside };
  for (const [key, value] of Object.entries(own)) {
    if (value && typeof value === "object" && !Array.isArray(value)) tables[key] = value;
    else tables["the run"][key] = value;
  }
  return Object.entries(tables).map(([title, values]) => [title, flat(values)]).filter(([, pairs]) => pairs.length);
}

// {"ask": {"walks": 3}} is ask.walks.
function flat(values, above = "") {
  return Object.entries(values).flatMap(([key, value]) => value && typeof value === "object" && !Array.isArray(value)
    ? flat(value, `${above}${key}.`) : [[`${above}${key}`, value]]);
}
