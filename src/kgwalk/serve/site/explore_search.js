// A box in which people type a name and choose an entity.

import { listbox } from "./listbox.js";
import { getJSON, postJSON, withQuery } from "./site.js";

const MOST = 10;

// `graph()` names the graph, `choose(name)` is told what was taken.
export function searchNames(input, list, { graph, choose }) {
  return listbox(input, list, {
    find: async (_, signal) => (input.value.trim() ? names(input.value.trim(), graph(), signal) : []),
    shown: (name) => name,
    take: (name) => { input.value = name; choose(name); },
  });
}

// Entities whose names begin like the text or are nearest to it.
async function names(typed, graph, signal) {
  const near = postJSON("kg/query", { queries: [{ op: "find", text: typed, k: MOST, graph }] }, { signal });
  const begun = getJSON(withQuery("kg/suggest", { q: typed, graph, limit: MOST }), { signal }).catch(() => ({ entities: [] }));
  const [first, second] = await Promise.all([near, begun]);
  const found = (first.results[0].value ?? []);
  const exact = found.filter((one) => one.how !== "fuzzy").map((one) => one.name);
  const rest = found.filter((one) => one.how === "fuzzy").map((one) => one.name);
  return [...new Set([...exact, ...second.entities.map((one) => one.name), ...rest])].slice(0, MOST);
}
