// The page that asks: the box and its options, walks below it, what was asked before, and a link that shows it again.

import { $, ServerError, el, fillGraphs, getJSON, number, say, sayError } from "./site.js";
import { nameList, showExamples, suggestInto } from "./suggestions.js";
import { Walk } from "./walk.js";

const HISTORY = "kgwalk.history", MOST_KEPT = 50;
const form = $("#ask"), question = $("#question");
let walking = []; // walks under way
let recipes = [], feedback = false, served = [];

const graphName = () => $("#graph").value;
const suggestions = suggestInto(question, $("#suggestions"), { graph: graphName, ask: (text) => ask(asked(text)) });
nameList($("#from"), $("#from-names"), graphName);

// What /v1/ask is sent, without what is not chosen.
function asked(text) {
  const body = { question: text, graph: graphName() };
  const from = $("#from").value.trim(), runs = Number($("#runs").value);
  if (from) body.topics = [from];
  if ($("#recipe").value) body.recipe = $("#recipe").value;
  if (runs > 1) body.runs = Math.min(16, runs);
  return body;
}

// Ask, with these other walks beside it. `linked`: the address of the page says so already.
async function ask(body, others = [], { linked = false } = {}) {
  stopAll();
  suggestions.close();
  question.value = body.question;
  question.blur(); // a phone takes its keyboard away
  if (!linked) remember(body, others);
  document.title = `${body.question} - kgwalk`;
  $("#walks").replaceChildren();
  $("#walks").className = "";
  $("#examples").hidden = $("#what").hidden = true;
  await Promise.all([begin(body, others), ...others.map((other) => begin({ ...body, recipe: undefined, runs: undefined, ...other }, null))]);
}

// One walk; `others` are those beside it, null for one that stands beside another.
async function begin(body, others) {
  const walk = new Walk($("#walks"), body, {
    recipes: recipes.filter((name) => name !== body.recipe),
    feedback: feedback && others !== null,
    again: (changes) => ask({ ...body, ...changes }),
    beside: others?.length ? null : others && (({ recipe, runs }) => {
      const other = { ...(recipe ? { recipe } : {}), ...(runs > 1 ? { runs: Math.min(16, runs) } : {}) };
      remember(body, [other]);
      begin({ ...body, recipe: undefined, runs: undefined, ...other }, null);
    }),
  });
  $("#walks").classList.toggle("beside", $("#walks").children.length > 1);
  walking.push(walk);
  buttons();
  const found = await walk.run();
  walking = walking.filter((one) => one !== walk);
  buttons();
  if (found && others !== null) keep(body, found);
}

function stopAll() { for (const walk of walking) walk.stop(); }

function buttons() {
  $("#go").textContent = walking.length ? "Stop" : "Ask";
  $("#go").classList.toggle("main", !walking.length);
}

// A link that shows this view

function remember(body, others) {
  const values = new URLSearchParams({ q: body.question });
  if (served.length > 1) values.set("graph", body.graph);
  if (body.topics) for (const name of body.topics) values.append("from", name);
  if (body.recipe) values.set("recipe", body.recipe);
  if (body.runs) values.set("runs", body.runs);
  for (const { recipe = "", runs = 1 } of others) values.append("beside", `${recipe}*${runs}`);
  if (values.toString() !== new URLSearchParams(location.search).toString()) history.pushState(null, "", `?${values}`);
}

function fromLink() {
  const values = new URLSearchParams(location.search), text = values.get("q") ?? "";
  question.value = text;
  if (served.some((graph) => graph.name === values.get("graph"))) $("#graph").value = values.get("graph");
  if (!text) { stopAll(); $("#walks").replaceChildren(); $("#examples").hidden = $("#what").hidden = false; return; }
  const walked = (recipe, runs) => ({ ...(recipe ? { recipe } : {}), ...(Number(runs) > 1 ? { runs: Math.min(16, Number(runs)) } : {}) });
  const topics = values.getAll("from"), body = { question: text, graph: graphName(), ...walked(values.get("recipe"), values.get("runs")), ...(topics.length ? { topics } : {}) };
  const others = values.getAll("beside").slice(0, 3).map((one) => walked(...(/^(.*)\*(\d+)$/.exec(one) ?? ["", "", "1"]).slice(1)));
  ask(body, others, { linked: true });
}

// What is chosen for the next walk is told where it is not seen.
function showOptions() {
  const { topics, recipe, runs } = asked("");
  const chosen = [topics && `from ${topics[0]}`, recipe && `recipe ${recipe}`, runs && `${runs} walks`].filter(Boolean);
  $("#options summary").textContent = chosen.length ? `Options: ${chosen.join(", ")}` : "Options";
}
$("#options").addEventListener("input", showOptions);

// What was asked before, in this browser

const stored = () => { try { return JSON.parse(localStorage.getItem(HISTORY)) ?? []; } catch { return []; } };

function keep(body, found) {
  const short = found.answer_kind === "none" ? "the graph does not say" : found.answers.slice(0, 3).join(", ") + (found.answers.length > 3 ? `, … (${number(found.answers.length)})` : "");
  const others = stored().filter((one) => one.question !== body.question || one.graph !== body.graph);
  try { localStorage.setItem(HISTORY, JSON.stringify([{ question: body.question, graph: body.graph, short: short.slice(0, 120) }, ...others].slice(0, MOST_KEPT))); } catch { /* no room, no history */ }
  showHistory();
}

function showHistory() {
  const before = stored();
  $("#history").hidden = !before.length;
  $("#history ol").replaceChildren(...before.map((one) => el("li", {},
    el("button", { type: "button", on: { click: () => { if (served.some((graph) => graph.name === one.graph)) $("#graph").value = one.graph; ask(asked(one.question)); scrollTo({ top: 0 }); } } }, one.question),
    el("span", { class: "faint small text" }, one.short))));
}

$("#forget").addEventListener("click", () => { localStorage.removeItem(HISTORY); showHistory(); question.focus(); });

// Start

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (walking.length) return stopAll();
  const text = question.value.trim();
  if (text) ask(asked(text));
  else question.focus();
});
$("#graph").addEventListener("change", aboutGraph);
addEventListener("popstate", fromLink);

function aboutGraph() {
  const info = served.find((graph) => graph.name === graphName())?.info;
  if (info?.triples) $("#about").textContent = `${graphName()}: ${number(info.entities)} entities, ${number(info.triples)} facts, ${number(info.relations)} relations`;
  showExamples($("#examples"), graphName(), (text) => ask(asked(text))).catch(sayError);
}

async function start() {
  showHistory();
  served = await fillGraphs($("#graph"), new URLSearchParams(location.search).get("graph"));
  aboutGraph();
  const [models, health] = await Promise.all([getJSON("v1/models").catch((error) => error), getJSON("health")]);
  feedback = health.feedback;
  if (models instanceof ServerError) {
    for (const part of [question, $("#go")]) part.disabled = true;
    return say(`No questions here: ${models.message}`, "bad");
  }
  recipes = models.data.map((one) => one.id).filter((id) => id.startsWith("kgwalk/")).map((id) => id.slice(7));
  $("#recipe").append(...recipes.map((name) => el("option", { value: name }, name)));
  if (location.search) fromLink();
  else question.focus();
}

start().catch(sayError);
