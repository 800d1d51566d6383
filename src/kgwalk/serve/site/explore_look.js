// One entity: what is around it drawn, its properties, its relations with counts, and its neighbours page by page.

import { $, el, getJSON, number, postJSON, say, sayError, withQuery } from "./site.js";
import { GraphView, legend } from "./graph.js";

const PAGE = 20; // neighbours
const RELATIONS = 40; // of an entity, at once

export class LookView {
  constructor(host, page) {
    this.page = page;
    this.shown = ""; // what the picture began with
    this.picture = el("div", { class: "picture" });
    this.depth = el("select", { id: "depth" }, [1, 2, 3, 4].map((depth) => el("option", { value: depth }, depth === 1 ? "1 step" : `${depth} steps`)));
    this.nodes = el("select", { id: "nodes" }, [30, 60, 150, 400, 1000, 2000].map((most) => el("option", { value: most, selected: most === 60 }, `${number(most)} entities`)));
    this.values = el("input", { type: "checkbox", id: "with-values" });
    this.cut = el("p", { class: "faint small", id: "cut" });
    this.panel = el("div", { class: "card panel", id: "entity", tabindex: "-1" });
    this.nothing = el("p", { class: "card", id: "nothing-chosen" }, "Search for a name above, or choose one under “Overview”.");
    this.both = el("div", { class: "columns look", hidden: true },
      el("div", {},
        el("div", { class: "row limits" },
          el("label", { for: "depth" }, "Draw what is up to"), this.depth, el("label", { for: "nodes" }, "away, at most"), this.nodes,
          el("label", { class: "check" }, this.values, "numbers and dates too")),
        this.picture, this.cut),
      this.panel);
    host.replaceChildren(this.nothing, this.both);
    for (const one of [this.depth, this.nodes, this.values]) one.addEventListener("change", () => this.draw(this.name).catch(sayError));
  }

  async show({ graph, name }) {
    this.nothing.hidden = Boolean(name);
    this.both.hidden = !name;
    if (!name || (graph === this.graph && name === this.name)) return;
    const growing = graph === this.graph && this.view?.byId.has(name); // one that is in the picture grows there
    this.graph = graph;
    try {
      const about = await getJSON(withQuery("kg/entity", { graph, name, limit: RELATIONS }));
      this.name = about.name;
      this.tell(about);
    } catch (error) {
      if (error.kind !== "unknown_entity") throw error;
      this.name = "";
      this.missing(error, name);
      return;
    }
    await (growing ? this.grow(this.name) : this.draw(this.name));
  }

  missing(error, name) {
    this.both.hidden = true;
    this.nothing.hidden = false;
    this.nothing.replaceChildren(`There is no “${name}” in this graph. `,
      ...(error.about.nearest?.length ? ["Did you mean ", ...between(error.about.nearest.map((near) => this.#link(near)), ", "), "?"] : []));
  }

  // The picture

  async draw(name) {
    if (!name) return;
    this.view ??= this.#newView();
    this.view.clear();
    this.shown = name;
    this.#add(await this.#around(name, this.depth.value), name);
  }

  // Draw one hop more around an entity that is in the picture.
  async grow(name) {
    const room = Number(this.nodes.value) - this.view.nodes.length;
    if (room < 2) {
      this.view.select([name]);
      this.cut.textContent = `The picture has ${number(this.view.nodes.length)} entities, which is its limit: raise it, or begin again here.`;
      return;
    }
    this.#add(await this.#around(name, 1, room), name);
  }

  #around(name, depth, nodes = this.nodes.value) {
    return getJSON(withQuery("kg/around", { graph: this.graph, name, depth, nodes, each: Math.min(100, nodes), values: this.values.checked }));
  }

  #add(found, name) {
    const view = this.view, there = view.byId.has(name);
    view.add(found.nodes.map((node) => ({ id: node.name, facts: node.facts, role: node.name === this.shown ? "start" : "", near: there ? name : undefined,
      size: 1 + Math.min(2, Math.log10(1 + (node.facts ?? 1)) / 2) })), found.facts.map(([source, label, target]) => ({ source, label, target })));
    view.select([name]);
    this.cut.textContent = `${number(view.nodes.length)} entities, ${number(view.links.length)} facts${found.cut ? "; more are there than the limits show" : ""}.`;
  }

  #newView() {
    const view = new GraphView(this.picture, {
      label: "What is around the entity; the list beside it says the same",
      click: (node) => this.page.look(node.id),
      tell: (thing) => thing.source ? `${thing.source.label}\n${thing.label}\n${thing.target.label}` : thing.facts ? `${thing.label}\n${number(thing.facts)} facts` : thing.label,
    });
    this.picture.append(legend({ start: "where you began", frontier: "click one to go on from there" }));
    return view;
  }

  // The panel

  tell(about) {
    const values = about.relations.filter((one) => one.values && one.total === one.names.length);
    const rest = about.relations.filter((one) => !values.includes(one));
    this.list = el("ul", { class: "relations" }, rest.map((one) => this.#relation(one)));
    this.panel.replaceChildren(...[
      el("h2", { class: "text" }, about.name),
      about.id && about.id !== about.name && el("p", { class: "faint small mono" }, about.id),
      about.kinds.length > 0 && el("p", {}, about.kinds.map((kind) => el("span", { class: "chip" }, kind)).flatMap((chip) => [chip, " "])),
      el("p", { class: "row" },
        el("button", { type: "button", class: "small", on: { click: () => this.draw(about.name).catch(sayError) } }, "Draw from here"),
        el("button", { type: "button", class: "small", on: { click: () => this.page.walk({ topics: [about.name] }) } }, "Walk by hand from here")),
      values.length > 0 && el("table", { class: "values" }, el("caption", { class: "off-screen" }, "Properties"),
        el("tbody", {}, values.map((one) => el("tr", {}, el("th", { scope: "row" }, one.relation), el("td", {}, one.names.map((name, place) => dated(name, one.times?.[place])).join(", ")))))),
      rest.length > 0 && el("h3", {}, "Relations"),
      this.list,
      about.more && el("button", { type: "button", class: "small", id: "more-relations", on: { click: (event) => this.#moreRelations(about, event.target).catch(sayError) } },
        `${number(about.total - about.relations.length)} relations more`),
    ].filter(Boolean));
  }

  async #moreRelations(about, button) {
    const offset = about.relations.length;
    const next = await getJSON(withQuery("kg/entity", { graph: this.graph, name: about.name, limit: RELATIONS, offset }));
    about.relations.push(...next.relations);
    this.list.append(...next.relations.map((one) => this.#relation(one)));
    button.textContent = `${number(next.total - about.relations.length)} relations more`;
    button.hidden = !next.more;
  }

  // A relation with its count and first names; it opens to all of them, a page at a time.
  #relation(one) {
    const place = el("div", { class: "neighbours" });
    const few = () => place.replaceChildren(...between(one.names.map((name, at) => this.#link(name, one.times?.[at])), " "),
      one.total > one.names.length ? el("span", { class: "faint small" }, ` and ${number(one.total - one.names.length)} more`) : "");
    few();
    const all = one.total > one.names.length;
    const head = [el("span", { class: "way", role: "img", "aria-label": one.out ? "from here" : "to here", title: one.out ? "from here" : "to here" }, one.out ? "→" : "←"),
      el("span", { class: "relation" }, one.relation), el("span", { class: "count" }, number(one.total))];
    const toggle = all
      ? el("button", { type: "button", class: "quiet toggle", "aria-expanded": "false",
        on: { click: () => {
          const open = toggle.getAttribute("aria-expanded") !== "true";
          toggle.setAttribute("aria-expanded", String(open));
          if (open) this.#page(place, one, 0).catch(sayError); else few();
        } } }, head)
      : el("div", { class: "toggle" }, head);
    return el("li", {}, toggle, place);
  }

  async #page(place, one, offset) {
    const query = { op: "neighbors", graph: this.graph, entity: this.name, relation: one.relation, out: one.out, limit: PAGE, offset };
    const [result] = (await postJSON("kg/query", { queries: [query] })).results;
    if (!result.ok) throw new Error(result.error.message);
    const { names, times, total } = result.value, last = offset + names.length;
    const turn = (text, to, there) => el("button", { type: "button", class: "small", disabled: !there, on: { click: () => this.#page(place, one, to).catch(sayError) } }, text);
    place.replaceChildren(
      el("ul", { class: "page" }, names.map((name, at) => el("li", {}, this.#link(name, times?.[at])))),
      total > PAGE ? el("p", { class: "row pager" }, turn("Back", Math.max(0, offset - PAGE), offset > 0),
        el("span", { class: "faint small", role: "status" }, `${number(offset + 1)} to ${number(last)} of ${number(total)}`), turn("Next", last, result.more)) : "");
  }

  #link(name, times) {
    const graph = this.graph;
    return el("a", { class: "entity", href: withQuery("explore", { graph, view: "look", name }), on: { click: (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      this.page.look(name);
    } } }, dated(name, times));
  }
}

const dated = (name, times) => times?.length ? `${name} [${times.join("; ")}]` : name;
const between = (nodes, text) => nodes.flatMap((node, at) => at ? [text, node] : [node]);
