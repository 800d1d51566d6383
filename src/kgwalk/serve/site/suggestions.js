// Suggestions below the box while people type: example questions, entities, kinds.

import { listbox } from "./listbox.js";
import { el, getJSON, withQuery } from "./site.js";

const PAUSE = 120; // milliseconds without a key before names are asked for

// `graph()` names the graph, `ask(question)` asks an example that was taken.
export function suggestInto(input, list, { graph, ask }) {
  return listbox(input, list, {
    find: async (typed, signal) => {
      if (typed.trim().length < 2) return [];
      return ordered(typed, await getJSON(withQuery("kg/suggest", { q: typed, graph: graph() }), { signal }));
    },
    shown: (one) => [el("span", { class: "text" }, one.name), el("span", { class: "what" }, one.what)],
    take: (one) => {
      if (one.what === "question") { input.value = one.name; ask(one.name); return; }
      const caret = input.selectionStart ?? input.value.length;
      const before = input.value.slice(0, caret).slice(0, -one.replaces.length || undefined) + one.name;
      input.value = before + (input.value.slice(caret) || " ");
      input.setSelectionRange(before.length + 1, before.length + 1);
      input.focus();
    },
  });
}

// What goes on as people type comes before what has their words somewhere.
function ordered(typed, found) {
  const goesOn = (name, start) => name.toLowerCase().startsWith(start.toLowerCase());
  const entities = found.entities.map((one) => ({ ...one, what: "entity" })), near = entities.filter((one) => goesOn(one.name, one.replaces));
  const questions = found.questions.map((text) => ({ name: text, what: "question" })), begun = questions.filter((one) => goesOn(one.name, typed)).slice(0, 3);
  return [
    ...begun,
    ...near,
    ...found.kinds.slice(0, 2).map((one) => ({ ...one, what: "kind" })),
    ...entities.filter((one) => !near.includes(one)).slice(0, near.length || begun.length ? 3 : 6),
    ...questions.filter((one) => !begun.includes(one)).slice(0, 3),
  ];
}

// Example questions as buttons; asked for again while the server still makes them.
export async function showExamples(place, graph, ask, tries = 8) {
  const found = await getJSON(withQuery("kg/suggest", { graph, limit: 6 }));
  place.replaceChildren(...found.questions.map((text) =>
    el("button", { type: "button", class: "chip", on: { click: () => ask(text) } }, text)));
  if (!found.ready && tries) setTimeout(() => showExamples(place, graph, ask, tries - 1).catch(() => {}), 800);
}

// Names for a box that takes one entity, as a <datalist>.
export function nameList(input, list, graph) {
  let timer = 0;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const found = await getJSON(withQuery("kg/suggest", { q: input.value, graph: graph() })).catch(() => ({ entities: [] }));
      list.replaceChildren(...found.entities.map((one) => el("option", { value: one.name })));
    }, PAUSE);
  });
}
