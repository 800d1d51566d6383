// The page to look around: one graph, four views of it. The address says which: explore?graph=world&view=look&name=France.
// A walk by hand has a link too: explore?view=walk&from=France&call=tail_entities($1, "borders").

import { $, fillGraphs, getJSON, graphs, graphsChanged, number, sayError, say } from "./site.js";
import { searchNames } from "./explore_search.js";
import { SchemaView } from "./explore_schema.js";
import { LookView } from "./explore_look.js";
import { WalkView } from "./explore_walk.js";
import { UploadView } from "./explore_upload.js";

const TABS = ["schema", "look", "walk", "upload"];
const state = { graph: "", view: "", name: "" };

// What the views may ask of the page.
const page = {
  graph: () => state.graph,
  look: (name) => go({ view: "look", name }),
  walk: (start) => { views.walk.begin(start); go({ view: "walk" }); },
  showGraph: async (name) => { graphsChanged(); await listGraphs(name); go({ graph: name, view: "schema", name: "" }); },
  graphsChanged: async () => { graphsChanged(); await listGraphs(state.graph); },
};
const views = {
  schema: new SchemaView($("#view-schema"), page),
  look: new LookView($("#view-look"), page),
  walk: new WalkView($("#view-walk"), page),
  upload: new UploadView($("#view-upload"), page),
};

function address() {
  const values = new URLSearchParams(location.search);
  const view = values.get("view"), name = values.get("name") ?? values.get("entity") ?? "";
  return { graph: values.get("graph") ?? "", name, view: TABS.includes(view) ? view : name ? "look" : "schema" };
}

let went = false; // whether the person has gone somewhere, perhaps before the page had begun

// Change the state, the address and what is shown.
function go(change) {
  went = true;
  const next = { ...state, ...change };
  const query = new URLSearchParams(Object.entries(next).filter(([, value]) => value));
  if (location.search !== `?${query}`) history.pushState(null, "", `?${query}`);
  show(next);
}

function show(next) {
  Object.assign(state, next);
  for (const tab of TABS) {
    const chosen = tab === state.view;
    $(`#tab-${tab}`).setAttribute("aria-selected", String(chosen));
    $(`#tab-${tab}`).tabIndex = chosen ? 0 : -1;
    $(`#view-${tab}`).hidden = !chosen;
  }
  $(`#tab-${state.view}`).scrollIntoView({ block: "nearest", inline: "nearest" });
  if ($("#graph").value !== state.graph) $("#graph").value = state.graph;
  if (state.view === "look") $("#name").value = state.name;
  tellGraph().catch(sayError);
  say("");
  views[state.view].show(state).catch(sayError);
}

async function tellGraph() {
  const info = (await graphs()).find((graph) => graph.name === state.graph)?.info ?? {};
  const counts = [["triples", "facts"], ["entities", "entities"], ["relations", "relations"]];
  $("#about-graph").textContent = counts.filter(([key]) => info[key] !== undefined).map(([key, word]) => `${number(info[key])} ${word}`).join(" · ");
}

async function listGraphs(chosen) {
  const found = await fillGraphs($("#graph"), chosen);
  return found.some((graph) => graph.name === chosen) ? chosen : found[0].name;
}

$("#graph").addEventListener("change", () => go({ graph: $("#graph").value, name: "", view: state.view === "look" ? "schema" : state.view }));
const search = searchNames($("#name"), $("#names"), { graph: page.graph, choose: page.look });
$("#search").addEventListener("submit", (event) => {
  event.preventDefault();
  search.close();
  const typed = $("#name").value.trim();
  if (typed) page.look(typed);
});

const tabs = $(".tabs");
tabs.addEventListener("click", (event) => {
  const tab = event.target.closest("[role=tab]");
  if (tab) go({ view: tab.id.slice(4) });
});
tabs.addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const there = TABS.filter((tab) => !$(`#tab-${tab}`).hidden);
  const next = there[(there.indexOf(state.view) + step + there.length) % there.length];
  go({ view: next });
  $(`#tab-${next}`).focus();
  event.preventDefault();
});
addEventListener("popstate", () => show({ ...address(), graph: address().graph || state.graph }));

async function begin() {
  const wanted = address();
  const graph = await listGraphs(wanted.graph);
  const uploads = await getJSON("kg/uploads");
  $("#tab-upload").hidden = !uploads.allowed;
  if (wanted.view === "upload" && !uploads.allowed) wanted.view = "schema";
  const given = new URLSearchParams(location.search); // a link to a walk: its question, start and calls
  if (wanted.view === "walk" && (given.has("from") || given.has("question"))) views.walk.begin({ topics: given.getAll("from"), kinds: given.getAll("kind"), question: given.get("question") ?? "", calls: given.getAll("call") });
  show(went ? { ...state, graph: state.graph || graph } : { ...wanted, graph }); // who was quicker is not sent back
}
begin().catch(sayError);
