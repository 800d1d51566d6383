// A graph on a canvas: it lays itself out while it grows, pans and zooms, and tells what was pointed at.
//
//   const view = new GraphView(host, { label: "The walk", click: (node) => ..., tell: (thing) => "text for a hover" });
//   view.add([{ id: "Big", role: "start" }], [{ source: "Big", target: "Tom Hanks", label: "starred_actors" }]);
//
// A node has an `id`, and perhaps a `label`, a `role` (start, answer, or none) and a `size`; `add` may be called again
// with news of one that is there. The same calls give the same picture. Names are painted or become text nodes, so none of them is ever taken for HTML.
// Layout: springs along the edges, repulsion by a quadtree (Barnes and Hut), a pull to the middle; it cools and stops.

import { colour, el, onTheme } from "./site.js";

const SPRING = 70; // length of an edge, in the graph's own units
const REPULSION = 130;
const FAR = 0.81; // square of the ratio from which a cell of the tree counts as one body
const COOLING = 0.975, COLD = 0.02;
const MOST_LABELS = 160; // painted at once
const MANY = 800; // nodes from which on they are painted as fast as can be
const LABEL_FONT = "12px system-ui, sans-serif", STRONG_FONT = "600 13px system-ui, sans-serif";

export class GraphView {
  constructor(host, { label = "A graph", click, tell, tools = true } = {}) {
    this.nodes = [];
    this.links = [];
    this.frames = 0; // painted so far, for measurements
    this.byId = new Map();
    this.linkKeys = new Map();
    this.click = click;
    this.tell = tell ?? ((thing) => thing.source ? `${thing.source.label} ${thing.label} ${thing.target.label}` : thing.label);
    this.heat = 0;
    this.x = this.y = 0; // the middle of the picture, in the graph's units
    this.zoom = 1;
    this.follow = true; // keep all in the picture until somebody moves it
    this.hovered = null;
    this.selected = new Set();
    this.canvas = el("canvas", { tabindex: "0", role: "img", "aria-label": label });
    this.tip = el("div", { class: "tip", hidden: true });
    host.classList.add("graph");
    host.replaceChildren(this.canvas, this.tip, ...(tools ? [this.#tools()] : []));
    this.host = host;
    host.graph = this; // for whoever has the element
    this.pen = this.canvas.getContext("2d");
    this.pointers = new Map();
    this.#listen();
    new ResizeObserver(() => this.#resize()).observe(host);
    onTheme(() => { this.colours = null; this.paint(); });
    this.#resize();
  }

  // New nodes and links; what is there already gets the new fields. A link makes the nodes that it needs.
  add(nodes, links = []) {
    let grown = false;
    const have = (given, near) => {
      let node = this.byId.get(given.id);
      if (!node) {
        const angle = this.nodes.length * 2.4, away = near ? SPRING * 0.6 : 20 * Math.sqrt(this.nodes.length + 1);
        node = { label: String(given.id), role: "", size: 1, vx: 0, vy: 0, degree: 0, links: [],
          x: (near?.x ?? 0) + away * Math.cos(angle), y: (near?.y ?? 0) + away * Math.sin(angle) };
        this.byId.set(given.id, node);
        this.nodes.push(node);
        grown = true;
      }
      return Object.assign(node, given);
    };
    for (const one of nodes) have(one, one.near === undefined ? undefined : this.byId.get(one.near));
    for (const { source, target, label = "", ...more } of links) {
      const key = JSON.stringify([source, label, target]);
      if (this.linkKeys.has(key)) continue;
      const from = have({ id: source }, this.byId.get(target)), to = have({ id: target }, from);
      const link = { source: from, target: to, label, ...more };
      this.linkKeys.set(key, link);
      this.links.push(link);
      for (const end of [from, to]) { end.degree++; end.links.push(link); }
      grown = true;
    }
    if (grown) this.heat = Math.max(this.heat, 0.6);
    this.#run();
  }

  clear() {
    this.nodes = []; this.links = [];
    this.byId.clear(); this.linkKeys.clear(); this.selected.clear();
    this.hovered = null; this.tip.hidden = true;
    this.follow = true;
    this.paint();
  }

  // Paint these nodes (by id) with a ring, and strongly the links between them, or those of `facts` ([head, relation, tail]).
  select(ids, facts) {
    this.selected = new Set(ids);
    this.marked = facts && new Set(facts.map(([head, relation, tail]) => this.linkKeys.get(JSON.stringify([head, relation, tail]))));
    this.paint();
  }

  // The whole graph in the picture.
  fit() { this.follow = true; this.#fitNow(1); this.paint(); }

  // Lay out to the end at once, without pictures in between.
  settle(most = 400) {
    for (let at = 0; at < most && this.heat > COLD; at++) this.#tick();
    this.heat = 0;
    if (this.follow) this.#fitNow(1);
    this.paint();
  }

  move(dx, dy) { this.follow = false; this.x -= dx / this.zoom; this.y -= dy / this.zoom; this.paint(); }

  scale(by, px = this.width / 2, py = this.height / 2) {
    this.follow = false;
    const zoom = Math.min(8, Math.max(0.02, this.zoom * by));
    this.x += (px - this.width / 2) * (1 / this.zoom - 1 / zoom);
    this.y += (py - this.height / 2) * (1 / this.zoom - 1 / zoom);
    this.zoom = zoom;
    this.paint();
  }

  // Where a node is in the picture, in pixels of the page's; for tests and for what stands beside it.
  place(id) {
    const node = this.byId.get(id);
    return node && { x: (node.x - this.x) * this.zoom + this.width / 2, y: (node.y - this.y) * this.zoom + this.height / 2 };
  }

  paint() {
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => { this.asked = 0; this.#paintNow(); });
  }

  // Layout

  #run() {
    if (this.running) return;
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const step = () => {
      this.running = 0;
      if (still) return this.settle();
      // small graphs take several steps a picture
      for (let at = 0; at < (this.nodes.length < 400 ? 3 : 1); at++) this.#tick();
      if (this.follow) this.#fitNow(this.heat > COLD ? 0.2 : 1);
      this.#paintNow();
      if (this.heat > COLD) this.running = requestAnimationFrame(step);
    };
    this.running = requestAnimationFrame(step);
  }

  #tick() {
    const { nodes, heat } = this;
    this.heat *= COOLING;
    if (!nodes.length) return;
    const tree = quadtree(nodes), strength = heat * (nodes.length < 60 ? 3 : nodes.length < 200 ? 2 : 1);
    for (const node of nodes) {
      repel(tree, node, strength);
      node.vx -= node.x * 0.012 * heat;
      node.vy -= node.y * 0.012 * heat;
    }
    for (const { source, target } of this.links) {
      const dx = target.x - source.x || 0.01, dy = target.y - source.y || 0.01, far = Math.hypot(dx, dy);
      const pull = (far - SPRING) / far * heat * 0.6 / Math.min(source.degree, target.degree);
      const share = source.degree / (source.degree + target.degree);
      target.vx -= dx * pull * share; target.vy -= dy * pull * share;
      source.vx += dx * pull * (1 - share); source.vy += dy * pull * (1 - share);
    }
    for (const node of nodes) {
      node.vx *= 0.6; node.vy *= 0.6;
      if (node.held) continue;
      node.x += node.vx; node.y += node.vy;
    }
  }

  #fitNow(share) {
    if (!this.nodes.length || !this.width) return;
    let left = Infinity, right = -Infinity, top = Infinity, bottom = -Infinity;
    for (const { x, y } of this.nodes) {
      left = Math.min(left, x); right = Math.max(right, x); top = Math.min(top, y); bottom = Math.max(bottom, y);
    }
    const zoom = Math.min(2.2, (this.width - 130) / (right - left + 1), (this.height - 100) / (bottom - top + 1));
    this.zoom += (Math.max(0.02, zoom) - this.zoom) * share;
    this.x += ((left + right) / 2 - this.x) * share;
    this.y += ((top + bottom) / 2 - this.y) * share;
  }

  // Painting

  #resize() {
    const { clientWidth, clientHeight } = this.host, dots = Math.min(2, devicePixelRatio || 1);
    if (!clientWidth || !clientHeight) return;
    this.width = clientWidth; this.height = clientHeight; this.dots = dots;
    this.canvas.width = Math.round(clientWidth * dots); this.canvas.height = Math.round(clientHeight * dots);
    if (this.follow) this.#fitNow(1);
    this.paint();
  }

  #paintNow() {
    const { pen, zoom } = this;
    if (!this.width) return;
    this.frames++;
    this.colours ??= Object.fromEntries(["start", "frontier", "answer", "edge", "trail", "ink", "faint", "card", "accent"].map((name) => [name, colour(`--${name}`)]));
    const colours = this.colours;
    pen.setTransform(this.dots, 0, 0, this.dots, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    const sx = this.width / 2 - this.x * zoom, sy = this.height / 2 - this.y * zoom;
    const seen = [];
    for (const node of this.nodes) {
      node.px = node.x * zoom + sx; node.py = node.y * zoom + sy;
      node.radius = (node.role ? 7 : 4.5) * Math.sqrt(node.size) * Math.min(1.25, Math.max(node.role ? 0.8 : 0.5, Math.sqrt(zoom)));
      if (node.px > -60 && node.px < this.width + 60 && node.py > -20 && node.py < this.height + 20) seen.push(node);
    }
    const labelled = this.#paintLinks(colours);
    for (const role of ["", "start", "answer"]) {
      const some = seen.filter((node) => (node.role === "start" || node.role === "answer" ? node.role : "") === role);
      pen.beginPath();
      for (const node of some) shape(pen, role, node.px, node.py, node.radius, seen.length > MANY);
      pen.fillStyle = colours[role || "frontier"];
      pen.fill();
    }
    pen.beginPath();
    for (const node of seen) {
      if (!this.selected.has(node.id) && node !== this.hovered) continue;
      pen.moveTo(node.px + node.radius + 4, node.py);
      pen.arc(node.px, node.py, node.radius + 4, 0, 7);
    }
    pen.strokeStyle = colours.accent; pen.lineWidth = 2;
    pen.stroke();
    const taken = this.#paintLabels(seen, colours);
    pen.font = LABEL_FONT; pen.textBaseline = "middle";
    for (const { source, target, label } of labelled) {
      const text = shortened(label, 24), x = (source.px + target.px) / 2, y = (source.py + target.py) / 2;
      if (Math.hypot(target.px - source.px, target.py - source.py) < 50 || !take(taken, x, y - 8, text.length * 3.1)) continue;
      words(pen, text, x, y, colours.faint, colours.card);
    }
  }

  #paintLinks(colours) {
    const { pen } = this, strong = [];
    pen.beginPath();
    for (const link of this.links) {
      const { source, target } = link;
      if (Math.max(source.px, target.px) < 0 || Math.min(source.px, target.px) > this.width) continue;
      if (Math.max(source.py, target.py) < 0 || Math.min(source.py, target.py) > this.height) continue;
      const marked = link === this.hovered || source === this.hovered || target === this.hovered
        || (this.marked ? this.marked.has(link) : this.selected.has(source.id) && this.selected.has(target.id));
      if (marked) { strong.push(link); continue; }
      pen.moveTo(source.px, source.py);
      pen.lineTo(target.px, target.py);
    }
    pen.strokeStyle = colours.edge; pen.lineWidth = 1;
    pen.stroke();
    pen.beginPath();
    for (const { source, target } of strong) arrow(pen, source, target);
    pen.strokeStyle = colours.trail; pen.lineWidth = strong.length > 30 ? 1 : 1.6;
    pen.stroke();
    return this.links.length <= 6 ? this.links : strong.slice(0, 12);
  }

  // Labels do not cover one another: the important come first, and take their place in a grid.
  #paintLabels(seen, colours) {
    const { pen } = this, taken = new Set();
    const weight = (node) => (node === this.hovered ? 1e6 : 0) + (node.role ? 1e4 : 0) + (this.selected.has(node.id) ? 1e3 : 0) + node.degree;
    const order = seen.length > MOST_LABELS ? seen.filter((node) => weight(node) >= 2 || this.zoom > 0.9) : seen;
    order.sort((a, b) => weight(b) - weight(a));
    let painted = 0;
    pen.textAlign = "center"; pen.textBaseline = "top";
    for (const node of order) {
      if (painted >= MOST_LABELS) break;
      const strong = node.role === "start" || node.role === "answer" || node === this.hovered;
      if (!strong && this.zoom < 0.35 && seen.length > 80) continue;
      const text = node.short?.[0] === node.label ? node.short[1] : (node.short = [node.label, shortened(node.label, 26)])[1];
      const wide = text.length * (strong ? 7 : 6.2) / 2, top = node.py + node.radius + 3;
      if (!take(taken, node.px, top, wide) && node !== this.hovered) continue;
      pen.font = strong ? STRONG_FONT : LABEL_FONT;
      words(pen, text, node.px, top, strong ? colours.ink : colours.faint, colours.card);
      painted++;
    }
    return taken;
  }

  // Pointing

  #listen() {
    const { canvas } = this;
    const at = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      const [x, y] = at(event);
      this.pointers.set(event.pointerId, { x, y });
      this.moved = false;
      this.held = this.pointers.size === 1 ? this.#node(x, y) : null;
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = at(event), before = this.pointers.get(event.pointerId);
      if (!before) return this.#hover(x, y);
      if (!this.moved && Math.hypot(x - before.x, y - before.y) < 4) return;
      this.moved = true;
      canvas.classList.add("held");
      const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
      if (other) this.scale(Math.hypot(x - other.x, y - other.y) / (Math.hypot(before.x - other.x, before.y - other.y) || 1), (x + other.x) / 2, (y + other.y) / 2);
      else if (this.held) {
        this.follow = false;
        Object.assign(this.held, { held: true, x: this.held.x + (x - before.x) / this.zoom, y: this.held.y + (y - before.y) / this.zoom });
        this.heat = Math.max(this.heat, 0.15);
        this.#run();
      } else this.move(x - before.x, y - before.y);
      this.pointers.set(event.pointerId, { x, y });
    });
    const up = (event) => {
      const there = this.pointers.delete(event.pointerId);
      canvas.classList.remove("held");
      if (this.held) this.held.held = false;
      if (there && !this.moved && event.type === "pointerup") {
        const [x, y] = at(event), node = this.#node(x, y);
        this.#hover(x, y); // a finger has no other way to ask
        if (node) this.click?.(node);
      }
      this.held = null;
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("pointerleave", () => this.#tell(null));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.scale(Math.exp(-event.deltaY * 0.0015), ...at(event));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] };
      if (moves[event.key]) this.move(...moves[event.key]);
      else if (event.key === "+" || event.key === "=") this.scale(1.25);
      else if (event.key === "-") this.scale(0.8);
      else if (event.key === "0") this.fit();
      else return;
      event.preventDefault();
    });
  }

  #node(x, y) {
    let best = null, least = 14 * 14;
    for (const node of this.nodes) {
      const far = (node.px - x) ** 2 + (node.py - y) ** 2;
      if (far < least) [best, least] = [node, far];
    }
    return best;
  }

  #link(x, y) {
    let best = null, least = 5;
    for (const link of this.links) {
      const { source, target } = link, dx = target.px - source.px, dy = target.py - source.py;
      const along = ((x - source.px) * dx + (y - source.py) * dy) / (dx * dx + dy * dy || 1);
      if (along < 0 || along > 1) continue;
      const far = Math.hypot(source.px + along * dx - x, source.py + along * dy - y);
      if (far < least) [best, least] = [link, far];
    }
    return best;
  }

  #hover(x, y) { this.#tell(this.#node(x, y) ?? this.#link(x, y), x, y); }

  #tell(thing, x = 0, y = 0) {
    this.canvas.classList.toggle("over", Boolean(thing && !thing.source && this.click));
    this.tip.hidden = !thing;
    if (thing) {
      this.tip.textContent = this.tell(thing);
      const left = Math.min(x + 14, this.width - this.tip.offsetWidth - 6), below = y + 16;
      const top = below + this.tip.offsetHeight > this.height ? y - this.tip.offsetHeight - 8 : below;
      this.tip.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
    }
    if (thing !== this.hovered) { this.hovered = thing; this.paint(); }
  }

  #tools() {
    const tool = (text, label, act) => el("button", { type: "button", "aria-label": label, title: label, on: { click: act } }, text);
    return el("div", { class: "tools" }, tool("+", "Closer", () => this.scale(1.3)), tool("−", "Further away", () => this.scale(1 / 1.3)), tool("⤢", "All of it", () => this.fit()));
  }
}

// What the shapes mean, as a line of HTML for below the picture: legend({start: "start", answer: "answer"}).
export function legend(words) {
  const paths = { start: "M6 0 12 6 6 12 0 6Z", answer: "M6 0 7.7 4.1 12 4.4 8.7 7.2 9.8 11.6 6 9.2 2.2 11.6 3.3 7.2 0 4.4 4.3 4.1Z", frontier: "M6 2a4 4 0 1 0 .01 0Z" };
  const drawn = (role) => {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"), path = document.createElementNS(svg.namespaceURI, "path");
    svg.setAttribute("viewBox", "0 0 12 12"); svg.setAttribute("aria-hidden", "true"); svg.setAttribute("class", role);
    path.setAttribute("d", paths[role]);
    svg.append(path);
    return svg;
  };
  return el("div", { class: "legend" }, Object.entries(words).map(([role, text]) => el("span", {}, drawn(role), text)));
}

function shape(pen, role, x, y, radius, fast) {
  if (role === "start") { // a diamond
    const r = radius * 1.25;
    pen.moveTo(x, y - r); pen.lineTo(x + r, y); pen.lineTo(x, y + r); pen.lineTo(x - r, y); pen.closePath();
  } else if (role === "answer") { // a star
    for (let at = 0; at < 10; at++) {
      const r = at % 2 ? radius * 0.62 : radius * 1.45, angle = at * Math.PI / 5 - Math.PI / 2;
      pen[at ? "lineTo" : "moveTo"](x + r * Math.cos(angle), y + r * Math.sin(angle));
    }
    pen.closePath();
  } else if (fast && radius < 3) { // so small that nobody sees its corners, and painted much faster
    pen.rect(x - radius * 0.9, y - radius * 0.9, radius * 1.8, radius * 1.8);
  } else {
    pen.moveTo(x + radius, y);
    pen.arc(x, y, radius, 0, 7);
  }
}

function arrow(pen, source, target) {
  const dx = target.px - source.px, dy = target.py - source.py, far = Math.hypot(dx, dy) || 1;
  const tip = [target.px - dx / far * (target.radius + 3), target.py - dy / far * (target.radius + 3)];
  pen.moveTo(source.px, source.py);
  pen.lineTo(...tip);
  for (const side of [-1, 1]) {
    pen.moveTo(...tip);
    pen.lineTo(tip[0] - (dx + side * dy * 0.5) / far * 7, tip[1] - (dy - side * dx * 0.5) / far * 7);
  }
}

function words(pen, text, x, y, ink, ground) {
  pen.lineWidth = 3; pen.strokeStyle = ground; pen.lineJoin = "round";
  pen.strokeText(text, x, y);
  pen.fillStyle = ink;
  pen.fillText(text, x, y);
}

// Takes the places of a label in a grid of small cells, if all of them are free.
function take(taken, x, top, half) {
  const row = Math.round(top / 8), from = Math.floor((x - half) / 12), to = Math.ceil((x + half) / 12), cells = [];
  for (let at = from; at <= to; at++) for (const down of [0, 1]) {
    if (taken.has((row + down) * 4096 + at)) return false;
    cells.push((row + down) * 4096 + at);
  }
  for (const one of cells) taken.add(one);
  return true;
}

// Characters that show nothing or turn the text around them would change what stands beside them.
const HIDDEN = /[\p{Cc}\p{Cf}]/gu;
const shortened = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text).replace(HIDDEN, "·");

// A cell: its bodies' number and middle, and either four cells or the one node in it.
function quadtree(nodes) {
  let left = Infinity, top = Infinity, right = -Infinity, bottom = -Infinity;
  for (const { x, y } of nodes) {
    left = Math.min(left, x); right = Math.max(right, x); top = Math.min(top, y); bottom = Math.max(bottom, y);
  }
  const root = cell(left, top, Math.max(right - left, bottom - top, 1));
  for (const node of nodes) insert(root, node, 0);
  return root;
}

const cell = (left, top, width) => ({ left, top, width, bodies: 0, x: 0, y: 0, node: null, cells: null });

function insert(into, node, depth) {
  into.x += (node.x - into.x) / (into.bodies + 1);
  into.y += (node.y - into.y) / (into.bodies + 1);
  into.bodies++;
  if (into.bodies === 1) { into.node = node; return; }
  if (depth > 24) return; // at one point: they count together
  if (!into.cells) {
    into.cells = [null, null, null, null];
    const first = into.node;
    into.node = null;
    push(into, first, depth);
  }
  push(into, node, depth);
}

function push(into, node, depth) {
  const half = into.width / 2, across = node.x > into.left + half ? 1 : 0, down = node.y > into.top + half ? 1 : 0;
  const at = across + 2 * down;
  into.cells[at] ??= cell(into.left + across * half, into.top + down * half, half);
  insert(into.cells[at], node, depth + 1);
}

function repel(from, node, strength) {
  if (from.node === node) return;
  let dx = node.x - from.x, dy = node.y - from.y, far = dx * dx + dy * dy;
  if (from.cells && from.width * from.width > FAR * far) {
    for (const one of from.cells) if (one) repel(one, node, strength);
    return;
  }
  if (far < 1) { dx = 0.5; dy = node.degree % 2 ? 0.5 : -0.5; far = 1; } // at one point: apart, whither does not matter
  const push = REPULSION * from.bodies * strength / far;
  node.vx += dx * push; node.vy += dy * push;
}
