// Runs: the list, one run in tabs, two side by side. What is on the screen stands in the address, so a link shows it again.
//
//   runs?run=NAME&with=OTHER&tab=walks&show=wrong&step=40

import { $, call, el, getJSON, number, say, sayError, saveAs, withQuery } from "./site.js";
import { ago, go, leadTo, onMove, place, score, stateChip, stepsBar } from "./runs_place.js";
import { curvesTab } from "./runs_curves.js";
import { walksTab } from "./runs_walks.js";
import { comparedTab, recipeTab, scoresTab } from "./runs_tabs.js";

const EVERY = 2000; // milliseconds between two looks at what is new
// The list

let listed = [];
const picked = new Set();

const last = (name) => name.slice(name.lastIndexOf("/") + 1);

function rowOf(run) {
  const pick = el("input", { type: "checkbox", "aria-label": `compare ${run.name}`, on: { change: (event) => {
    event.target.checked ? picked.add(run.name) : picked.delete(run.name);
    tellPicked();
  } } });
  pick.checked = picked.has(run.name);
  const name = leadTo({ run: run.name }, run.inside ? last(run.name) : run.name);
  return el("tr", { class: run.inside ? "part" : "" },
    el("td", { class: "pick" }, pick),
    el("td", {}, name, run.error ? el("div", { class: "bad small" }, run.error) : null),
    el("td", {}, stateChip(run)),
    el("td", { class: "less" }, run.kind),
    el("td", { class: "less" }, run.recipe ?? ""),
    el("td", { class: "less" }, [run.data, run.split].filter(Boolean).join(" ")),
    el("td", {}, stepsBar(run)),
    el("td", { class: "number" }, run.f1 === null ? "" : el("span", { title: `F1 of the ${run.f1_of}` }, score(run.f1))),
    el("td", { class: "faint small less" }, ago(run.updated)));
}

function tellPicked() {
  const button = $("#all-compare");
  button.disabled = picked.size !== 2;
  $("#all-chosen").textContent = picked.size === 2 ? [...picked].join(" and ") :
    picked.size > 2 ? "Tick two, not more." : picked.size ? "Tick one more." : "Tick two runs to compare them.";
}

function drawList() {
  const text = $("#all-text").value.trim().toLowerCase(), state = $("#all-state").value;
  const shown = listed.filter((run) => (!state || run.state === state) &&
    [run.name, run.recipe, run.data, run.model].some((one) => (one ?? "").toLowerCase().includes(text)));
  const going = listed.filter((run) => run.state === "running").length;
  $("#all-about").textContent = `${number(listed.length)} run${listed.length === 1 ? "" : "s"}${going ? `, ${going} running` : ""}`;
  if (!listed.length) {
    $("#all-list").replaceChildren(el("p", {}, "There are no runs in this folder yet. This makes a small one in half a minute:"),
      el("pre", {}, "kgwalk train kgwalk --data world --smoke -o FOLDER/first"));
    return;
  }
  if (!shown.length) return $("#all-list").replaceChildren(el("p", { class: "faint" }, "No run fits."));
  const heads = [["", "pick"], ["Run"], ["State"], ["Kind"], ["Recipe"], ["Data"], ["How far"], ["F1", "number"], ["Last change"]];
  $("#all-list").replaceChildren(el("table", { class: "runs-table" },
    el("thead", {}, el("tr", {}, heads.map(([words, kind]) => el("th", { class: kind ?? "", scope: "col" }, words || el("span", { class: "off-screen" }, "Compare"))))),
    el("tbody", {}, shown.map(rowOf))));
}

// One run

const TABS = { curves: "Curves", walks: "Walks", scores: "Scores", compared: "Compared", recipe: "Recipe" };
let drawn = { key: "", tab: null, about: null };

function tabsFor(about, beside) {
  const there = {
    compared: Boolean(beside),
    curves: about.stages.length > 0 || about.summary.kind === "train",
    scores: about.evaluated !== null || about.fit !== null,
    walks: about.walks,
    recipe: true,
  };
  return Object.keys(there).filter((tab) => there[tab]);
}

function drawHead(about, beside) {
  const run = about.summary;
  const facts = [["State", stateChip(run)], ["Recipe", run.recipe], ["Data", [run.data, run.split].filter(Boolean).join(" ")], ["Model", run.model],
    ["How far", run.stage ? stepsBar(run) : null], [run.f1_of ? `F1, ${run.f1_of}` : "F1", score(run.f1)],
    ["Begun", run.begun?.replace("T", " ").replace("Z", " UTC")], ["Last change", ago(run.updated)]];
  const others = listed.filter((one) => one.name !== run.name && one.state !== "damaged");
  const select = el("select", { id: "beside", on: { change: (event) => go({ with: event.target.value, tab: event.target.value ? "compared" : "", offset: "" }) } },
    el("option", { value: "" }, "no other run"), others.map((one) => el("option", { value: one.name }, one.name)));
  select.value = beside;
  $("#one-name").textContent = run.name;
  $("#one-head").replaceChildren(...[
    el("div", { class: "row spread" }, el("h1", {}, run.name),
      el("div", { class: "row actions" },
        el("label", { for: "beside", class: "faint small" }, "compare with"), select,
        el("button", { type: "button", on: { click: () => saveReport(run.name, beside) } }, "Save report"))),
    el("dl", { class: "facts" }, facts.filter(([, value]) => value).map(([words, value]) => el("div", { class: words === "Begun" ? "begun" : "" }, el("dt", {}, words), el("dd", {}, value)))),
    about.parts.length || run.inside ? el("p", { class: "small" }, run.inside ? ["part of ", leadTo({ run: run.inside }, run.inside), " "] : [],
      about.parts.flatMap((part) => [leadTo({ run: part.name }, last(part.name)), ` (${part.state}${part.f1 === null ? "" : `, F1 ${score(part.f1)}`}) `])) : null,
    ...about.notes.map((note) => el("p", { class: "warn small" }, note)),
  ].filter(Boolean));
}

function drawTabs(about, tabs, tab) {
  $("#tabs").replaceChildren(...tabs.map((one) => el("button", {
    type: "button", role: "tab", id: `tab-${one}`, "aria-selected": String(one === tab), "aria-controls": "panel", tabindex: one === tab ? "0" : "-1",
    on: { click: () => go({ tab: one, offset: "" }), keydown: arrows },
  }, one === "scores" && about.fit ? "Progress" : TABS[one])));
  $("#panel").setAttribute("aria-labelledby", `tab-${tab}`);
}

async function saveReport(name, beside) {
  say("The report is being made.");
  try {
    const reply = await call(withQuery("v1/runs/report", { name, beside }));
    saveAs("report.html", await reply.text(), "text/html");
    say("The report is saved: one file that opens from disk.");
  } catch (error) {
    sayError(error);
  }
}

async function drawOne(values, list) {
  const { run: name, with: beside } = values;
  const [about, other] = await Promise.all([...[name, beside].map((one) => one ? getJSON(withQuery("v1/runs/run", { name: one })) : null), list]);
  if (place().run !== name || place().with !== beside) return; // people have gone on
  document.title = `${name} - kgwalk`;
  drawHead(about, beside);
  const tabs = tabsFor(about, beside);
  const tab = tabs.includes(values.tab) ? values.tab : tabs[0];
  drawTabs(about, tabs, tab);
  const key = JSON.stringify([name, beside, tab]);
  if (drawn.key === key && drawn.tab?.update) {
    drawn.about = about;
    return drawn.tab.update(about, other);
  }
  drawn.tab?.close?.();
  const panel = $("#panel");
  panel.replaceChildren();
  const made = { curves: curvesTab, walks: walksTab, scores: scoresTab, compared: comparedTab, recipe: recipeTab }[tab];
  drawn = { key, tab: null, about };
  const opened = await made(panel, about, other);
  if (drawn.key === key) drawn.tab = opened;
  else opened?.close?.();
}

function arrows(event) {
  const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!move) return;
  const all = [...$("#tabs").children];
  const next = all[(all.indexOf(event.target) + move + all.length) % all.length];
  next.click();
  requestAnimationFrame(() => setTimeout(() => $(`#${next.id}`)?.focus(), 0));
}

// What is on the screen

async function readList() {
  try {
    listed = (await getJSON("v1/runs")).runs;
    say("");
  } catch (error) {
    if (error.kind === "no_runs") $("#all-list").replaceChildren(el("p", {}, "This server shows no runs. Start it with the folder that holds them:"), el("pre", {}, "kgwalk serve --runs runs"));
    throw error;
  }
}

async function show() {
  const values = place();
  const one = Boolean(values.run);
  $("#all").hidden = one;
  $("#one").hidden = !one;
  const list = readList();
  if (!one) await list;
  if (one) return drawOne(values, list).catch((error) => {
    if (drawn.key && JSON.parse(drawn.key)[0] === values.run) throw error; // what is on the screen stays
    drawn.tab?.close?.();
    drawn = { key: "", tab: null, about: null };
    $("#one-name").textContent = values.run;
    $("#one-head").replaceChildren(el("p", { class: "bad" }, error.message));
    $("#tabs").replaceChildren();
    $("#panel").replaceChildren();
  });
  drawn.tab?.close?.();
  drawn = { key: "", tab: null, about: null };
  document.title = "Runs - kgwalk";
  drawList();
  tellPicked();
}

let looking = false;
async function look() {
  if (document.hidden || looking) return;
  looking = true;
  try {
    const values = place();
    if (!values.run) {
      listed = (await getJSON("v1/runs")).runs;
      drawListUnlessUsed();
    } else if (drawn.tab) {
      const [about] = await Promise.all([getJSON(withQuery("v1/runs/run", { name: values.run })), drawn.tab.look?.()]);
      const now = about.summary, before = drawn.about?.summary;
      if (before && (now.updated !== before.updated || now.state !== before.state) && place().run === values.run) {
        drawn.about = about;
        if (!$("#one-head").contains(document.activeElement)) drawHead(about, values.with);
        const tabs = tabsFor(about, values.with); // walks and scores come while a run goes on
        if (tabs.length > $("#tabs").children.length && !$("#tabs").contains(document.activeElement)) drawTabs(about, tabs, JSON.parse(drawn.key)[2]);
        drawn.tab?.refresh?.(about);
      }
    }
  } catch (error) {
    if (error.kind !== "no_runs") sayError(error);
  } finally {
    looking = false;
  }
}

// Not while somebody is in the list with the keyboard: what has the focus would go.
const drawListUnlessUsed = () => { if (!$("#all-list").contains(document.activeElement)) drawList(); };

$("#all-filter").addEventListener("submit", (event) => event.preventDefault());
$("#all-text").addEventListener("input", drawList);
$("#all-state").addEventListener("input", drawList);
$("#all-compare").addEventListener("click", () => {
  const [run, other] = [...picked];
  go({ run, with: other, tab: "compared" });
});
$("#one-back").addEventListener("click", (event) => {
  event.preventDefault();
  history.pushState(null, "", "runs");
  show().catch(sayError);
});
onMove(() => show().catch(sayError));
addEventListener("popstate", () => show().catch(sayError));
setInterval(look, EVERY);
show().catch(sayError);
