// What is in a graph: its kinds as boxes, the relations that join them as lines, and all of it as tables.

import { el, getJSON, number, say, sayError, withQuery } from "./site.js";

const FEW = 14, MANY = 60; // kinds in the picture
const PAGE = 30; // members
const LEAST = 560, NARROW = 560; // units of the picture's width; a unit is a pixel where there is room
const SVG = "http://www.w3.org/2000/svg";
const LOOKS = { name: "text", year: "year", number: "number", date: "date", link: "link", id: "id", text: "long text" };
const RETRIES = 20, PAUSE = 1500; // while the server still works it out

export class SchemaView {
  constructor(host, page) {
    this.host = host;
    this.page = page;
  }

  async show({ graph }) {
    if (graph === this.graph) return;
    this.graph = graph;
    this.kinds = FEW;
    this.host.replaceChildren(el("p", { class: "card faint", role: "status" }, "Counting what is in the graph …"));
    await this.#load();
  }

  async #load() {
    const graph = this.graph;
    let schema;
    for (let tries = 0; schema === undefined; tries++) {
      try {
        schema = await getJSON(withQuery("kg/schema", { graph, limit: this.kinds }));
      } catch (error) {
        if (graph !== this.graph) return;
        if (error.kind !== "still_working" || tries >= RETRIES) {
          this.graph = null;
          this.host.replaceChildren(el("p", { class: "card" }, error.message));
          return;
        }
        await new Promise((resolve) => setTimeout(resolve, PAUSE));
      }
    }
    if (graph === this.graph) this.#tell(schema);
  }

  #tell(schema) {
    this.schema = schema;
    this.detail = el("div", { class: "card panel", id: "kind", tabindex: "-1" });
    const picture = el("div", { class: "schema", id: "schema" });
    const more = schema.total_kinds > schema.kinds.length;
    this.host.replaceChildren(
      el("div", { class: "columns wide" },
        el("div", {},
          picture,
          el("p", { class: "faint small" },
            `${more ? `${number(schema.kinds.length)} of ` : ""}${number(schema.total_kinds)} kinds of things, and the relations between them. Choose one to see what is in it. `,
            schema.sampled ? `Which kinds a relation joins was read from ${number(schema.looked_at)} of the ${number(schema.facts)} facts; the other counts are exact.` : "All counts are exact.",
            more && this.kinds < MANY ? el("button", { type: "button", class: "small", id: "more-kinds", on: { click: () => { this.kinds = MANY; this.#load().catch(sayError); } } }, "Show more kinds") : "")),
        this.detail),
      this.#tables(schema));
    this.drawing = drawSchema(picture, schema, (kind) => this.choose(kind));
    if (schema.kinds.length) this.choose(schema.kinds[0].name);
    else picture.replaceChildren(el("p", { class: "faint" }, "No kinds were found."));
  }

  // Tell of one kind beside the picture.
  choose(name) {
    const kind = this.schema.kinds.find((one) => one.name === name);
    if (!kind) return;
    this.drawing.mark(name);
    const joins = this.schema.joins.filter((join) => join.head === name || join.tail === name);
    const members = el("div", { class: "neighbours" });
    this.detail.replaceChildren(...[
      el("h2", { class: "text" }, kind.name.startsWith("like ") ? `Things ${kind.name}` : kind.name),
      el("p", {}, `${number(kind.members)} in the graph, such as`),
      members,
      joins.length > 0 && el("h3", {}, "Relations"),
      joins.length > 0 && el("ul", { class: "relations" }, joins.map((join) => {
        const out = join.head === name, other = out ? join.tail : join.head;
        return el("li", { class: "toggle" }, el("span", { class: "way" }, join.head === join.tail ? "↻" : out ? "→" : "←"), el("span", { class: "relation" }, join.relation),
          el("button", { type: "button", class: "quiet small text", on: { click: () => this.choose(other) } }, other), el("span", { class: "count" }, number(join.facts)));
      })),
      kind.values.length > 0 && el("h3", {}, "Properties"),
      kind.values.length > 0 && el("table", { class: "values" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "name"), el("th", { scope: "col" }, "looks like a"), el("th", { scope: "col", class: "number" }, "facts"))), el("tbody", {}, kind.values.map((value) => el("tr", {},
        el("th", { scope: "row" }, value.relation), el("td", {}, LOOKS[value.looks] ?? value.looks), el("td", { class: "number" }, number(value.facts)))))),
    ].filter(Boolean));
    const all = el("button", { type: "button", class: "small", on: { click: () => this.#members(members, name, 0).catch(sayError) } }, "All of them");
    members.replaceChildren(el("ul", { class: "page" }, kind.examples.map((one) => el("li", {}, this.#link(one)))), kind.members > kind.examples.length ? all : "");
  }

  #link(name) {
    return el("a", { class: "entity", href: withQuery("explore", { graph: this.graph, view: "look", name }), on: { click: (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      this.page.look(name);
    } } }, name);
  }

  async #members(place, kind, offset) {
    const found = await getJSON(withQuery("kg/members", { graph: this.graph, kind, drawn: true, limit: PAGE, offset }));
    const turn = (text, to, there) => el("button", { type: "button", class: "small", disabled: !there, on: { click: () => this.#members(place, kind, to).catch(sayError) } }, text);
    const last = offset + found.names.length;
    place.replaceChildren(el("ul", { class: "page" }, found.names.map((name) => el("li", {}, this.#link(name)))),
      el("p", { class: "row pager" }, turn("Back", Math.max(0, offset - PAGE), offset > 0),
        el("span", { class: "faint small", role: "status" }, `${number(offset + 1)} to ${number(last)} of ${number(found.total)}`), turn("Next", last, found.more)));
  }

  #tables(schema) {
    const numbers = (values) => values.map((value) => el("td", { class: "number" }, number(value)));
    const relations = el("details", { class: "card" }, el("summary", {}, `Relations: ${number(schema.total_relations)}`),
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Relations" }, el("table", {},
        el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "relation"), ["facts", "things it starts from", "things it leads to"].map((word) => el("th", { scope: "col", class: "number" }, word)))),
        el("tbody", {}, schema.relations.map((one) => el("tr", {}, el("td", {}, one.relation), numbers([one.facts, one.heads, one.tails]))))),
        schema.total_relations > schema.relations.length ? el("p", { class: "faint small" }, `and ${number(schema.total_relations - schema.relations.length)} more`) : ""));
    const joins = el("details", { class: "card" }, el("summary", {}, `Which kinds they join: ${number(schema.joins.length)}`),
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Which kinds they join" }, el("table", {},
        el("thead", {}, el("tr", {}, ["kind", "relation", "kind"].map((word) => el("th", { scope: "col" }, word)), el("th", { scope: "col", class: "number" }, "facts"))),
        el("tbody", {}, schema.joins.map((one) => el("tr", {}, el("td", {}, one.head), el("td", {}, one.relation), el("td", {}, one.tail), numbers([one.facts])))))));
    return el("div", { class: "columns tables" }, relations, joins);
  }
}

// The picture, as SVG. Boxes push one another away and lines pull; then it stands still. `choose` is told of a click.
export function drawSchema(host, schema, choose) {
  const boxes = schema.kinds.map((kind, at) => box(kind, at, schema.kinds.length));
  const byName = new Map(boxes.map((one) => [one.name, one]));
  const lines = new Map(); // the relations between two kinds are one line
  for (const join of schema.joins) {
    const key = JSON.stringify([join.head, join.tail].sort());
    const line = lines.get(key) ?? { a: byName.get(join.head), b: byName.get(join.tail), joins: [], facts: 0 };
    line.joins.push(join);
    line.facts += join.facts;
    lines.set(key, line);
  }
  const narrow = host.clientWidth > 0 && host.clientWidth < NARROW; // a phone: higher than wide
  layOut(boxes, [...lines.values()], narrow ? [0.75, 1.35] : [1.3, 1]);
  let left = Math.min(...boxes.map((one) => one.x - one.w / 2)) - 16, right = Math.max(...boxes.map((one) => one.x + one.w / 2)) + 16;
  const spare = Math.max(0, (narrow ? host.clientWidth - 16 : LEAST) - (right - left)) / 2; // a small picture is not made large
  [left, right] = [left - spare, right + spare];
  const top = Math.min(...boxes.map((one) => one.y - one.h / 2)) - 34, bottom = Math.max(...boxes.map((one) => one.y + one.h / 2)) + 16;
  const svg = node("svg", { viewBox: `${left} ${top} ${right - left} ${bottom - top}`, role: "group", "aria-label": "Kinds and the relations that join them" });
  const taken = boxes.map((one) => ({ left: one.x - one.w / 2, right: one.x + one.w / 2, top: one.y - one.h / 2, bottom: one.y + one.h / 2 }));
  const drawn = [...lines.values()].sort((one, other) => (other.a === other.b) - (one.a === one.b) || other.facts - one.facts).map((line) => drawLine(line, taken));
  svg.append(...drawn.map((one) => one.path), ...drawn.map((one) => one.label));
  for (const one of boxes) svg.append(drawBox(one, choose));
  svg.setAttribute("width", Math.round(right - left)); // not larger than it is; smaller where there is no room
  host.replaceChildren(svg);
  host.scrollLeft = (host.scrollWidth - host.clientWidth) / 2;
  return {
    mark: (name) => {
      for (const one of boxes) one.element.setAttribute("aria-pressed", String(one.name === name));
      for (const one of drawn) for (const part of [one.path, one.label]) part.classList.toggle("marked", one.line.a.name === name || one.line.b.name === name);
    },
  };
}

function node(tag, attrs = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attrs)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

const cut = (text, most) => text.length > most ? `${text.slice(0, most - 1)}…` : text;

// Of a long name its last part says most: location.location.containedby.
const short = (relation) => cut(relation.length > 18 ? relation.split(/[./#]/).filter(Boolean).at(-1) ?? relation : relation, 18);

function box(kind, at, all) {
  const name = cut(kind.name, 24), count = number(kind.members), angle = at / all * 2 * Math.PI;
  return { name: kind.name, text: name, count, x: 300 * Math.cos(angle), y: 300 * Math.sin(angle), w: Math.max(76, 7.6 * Math.max(name.length, count.length) + 26), h: 46 };
}

// Boxes as far from each other as there are lines between them (stress majorization, Gansner and others), stretched to the room.
function layOut(boxes, lines, [wide, high]) {
  const far = hops(boxes, lines);
  for (let step = 0; step < 150; step++) for (const one of boxes) {
    let x = 0, y = 0, all = 0;
    for (const other of boxes) {
      if (one === other) continue;
      const wanted = 165 * far.get(one).get(other) ** 0.7, weight = 1 / (wanted * wanted);
      const dx = one.x - other.x, dy = one.y - other.y, now = Math.hypot(dx, dy) || 1;
      x += weight * (other.x + wanted * dx / now);
      y += weight * (other.y + wanted * dy / now);
      all += weight;
    }
    if (all) { one.x = x / all; one.y = y / all; }
  }
  for (const one of boxes) { one.x *= wide; one.y *= high; }
  for (let step = 0; step < 80; step++) part(boxes);
}

// How many lines lie between two boxes, for all of them; what is not joined counts as far.
function hops(boxes, lines) {
  const near = new Map(boxes.map((one) => [one, new Set()]));
  for (const { a, b } of lines) { near.get(a).add(b); near.get(b).add(a); }
  return new Map(boxes.map((from) => {
    const found = new Map([[from, 0]]);
    for (const one of found.keys()) for (const next of near.get(one)) if (!found.has(next)) found.set(next, found.get(one) + 1);
    for (const one of boxes) if (!found.has(one)) found.set(one, 2.5);
    return [from, found];
  }));
}

// Boxes do not overlap.
function part(boxes) {
  for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
    const a = boxes[i], b = boxes[j], x = (a.w + b.w) / 2 + 34 - Math.abs(a.x - b.x), y = (a.h + b.h) / 2 + 40 - Math.abs(a.y - b.y);
    if (x <= 0 || y <= 0) continue;
    if (x < y) { const by = x / 2 * (a.x < b.x ? -1 : 1); a.x += by; b.x -= by; }
    else { const by = y / 2 * (a.y < b.y ? -1 : 1); a.y += by; b.y -= by; }
  }
}

function drawBox(one, choose) {
  const element = node("g", { class: "kind", role: "button", tabindex: 0, "aria-pressed": "false", transform: `translate(${one.x - one.w / 2} ${one.y - one.h / 2})` },
    node("title", {}, `${one.name}: ${one.count}`),
    node("rect", { width: one.w, height: one.h, rx: 8 }),
    node("text", { x: one.w / 2, y: 20, class: "name" }, one.text),
    node("text", { x: one.w / 2, y: 36, class: "members" }, one.count));
  element.addEventListener("click", () => choose(one.name));
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    choose(one.name);
  });
  one.element = element;
  return element;
}

// Where the line from the middle of a box to another place leaves the box.
function border(one, x, y) {
  const dx = x - one.x, dy = y - one.y, by = Math.min(one.w / 2 / Math.abs(dx || 1e-9), one.h / 2 / Math.abs(dy || 1e-9), 1);
  return [one.x + dx * by, one.y + dy * by];
}

function drawLine(line, taken) {
  const { a, b, joins, facts } = line;
  const words = joins.length > 2 ? `${short(joins[0].relation)} +${joins.length - 1}` : joins.map((join) => short(join.relation)).join(", ");
  const tip = joins.map((join) => `${join.head} → ${join.relation} → ${join.tail}: ${number(join.facts)}`).join("\n");
  const thick = Math.min(5, 1 + Math.log10(1 + facts) / 1.6);
  let d, places;
  if (a === b) {
    const right = a.x + a.w / 2, up = a.y - a.h / 2;
    d = `M ${right - 30} ${up} C ${right - 30} ${up - 30} ${right + 26} ${up - 20} ${right} ${up + 16}`;
    places = [[right - 2, up - 20], [right + 10 + words.length * 3.4, up - 8]];
  } else {
    const [ax, ay] = border(a, b.x, b.y), [bx, by] = border(b, a.x, a.y);
    d = `M ${ax} ${ay} L ${bx} ${by}`;
    places = [4, -9, 17].flatMap((above) => [0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8].map((part) => [ax + (bx - ax) * part, ay + (by - ay) * part + above]));
  }
  // where it covers nothing; a label without such a place shows when its line is marked
  const free = places.find((place) => !covers(place, words, taken));
  const [x, y] = free ?? places[0];
  if (free) taken.push(room(x, y, words));
  return { line, path: node("path", { d, class: "join", "stroke-width": thick }, node("title", {}, tip)),
    label: node("text", { x, y, class: free ? "join-name" : "join-name crowded" }, words, node("title", {}, tip)) };
}

const room = (x, y, words) => ({ left: x - words.length * 3.4, right: x + words.length * 3.4, top: y - 11, bottom: y + 4 });

function covers([x, y], words, taken) {
  const one = room(x, y, words);
  return taken.some((other) => one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom);
}
