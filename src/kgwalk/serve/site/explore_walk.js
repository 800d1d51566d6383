// Play the agent: a question, a start, and the agent's own calls one after the other; then what the agent did.

import { $, copyText, el, getJSON, number, postJSON, say, sayError, stream, withQuery } from "./site.js";
import { searchNames } from "./explore_search.js";

const SHOWN = 12; // members of a set that stand beside it
// Calls that people make with two sets or a value, in a form that they need only complete. $ is the chosen set.
const FORMS = { intersect: "intersect($, $)", union: "union($, $)", minus: "minus($, $)", count: "count($)", nth: 'nth($, "1")', filter: 'filter($, "", ">", "")',
  top: 'top($, "", "3")', bottom: 'bottom($, "", "3")', is_in: "is_in($, $)", overlap: "overlap($, $)", subtract: "subtract($, $)", divide: "divide($, $)", compare: 'compare($, ">", $)' };

export class WalkView {
  constructor(host, page) {
    this.page = page;
    this.calls = [];
    this.topics = [];
    this.kinds = [];
    this.question = el("input", { id: "question", placeholder: "A question to answer, such as: which countries border France?", maxlength: "2000" });
    this.start = el("input", { id: "start", role: "combobox", "aria-expanded": "false", "aria-controls": "starts", "aria-autocomplete": "list", autocomplete: "off", placeholder: "a name; leave it empty to start from the names in the question", maxlength: "500" });
    this.starts = el("ul", { id: "starts", class: "names", role: "listbox", "aria-label": "Entities", hidden: true });
    this.kind = el("select", { id: "kind-of", "aria-label": "All of a kind" });
    this.chosen = el("div", { class: "row", id: "chosen" });
    this.steps = el("ol", { class: "steps", id: "steps" });
    this.panel = el("div", { class: "next", id: "next", hidden: true });
    this.answer = el("div", { id: "my-answer", class: "card", hidden: true });
    this.agent = el("div", { id: "agent", class: "card" });
    const form = el("form", { class: "card start", id: "walk-form" },
      el("label", { for: "question" }, "Question"), this.question,
      el("label", { for: "start" }, "Start from"),
      el("div", { class: "row" }, el("div", { class: "find" }, this.start, this.starts), this.kind, el("button", { class: "main" }, "Start")),
      this.chosen);
    form.addEventListener("submit", (event) => { event.preventDefault(); this.restart().catch(sayError); });
    searchNames(this.start, this.starts, { graph: page.graph, choose: (name) => { this.topics.push(name); this.start.value = ""; this.#tellStart(); } });
    this.kind.addEventListener("change", () => { if (this.kind.value) this.kinds.push(this.kind.value); this.kind.value = ""; this.#tellStart(); });
    host.replaceChildren(form, el("div", { class: "columns walk" },
      el("section", { "aria-label": "Your walk" }, el("h2", {}, "Your walk"), this.steps, this.panel, this.answer),
      el("section", { "aria-label": "The agent’s walk" }, el("h2", {}, "The agent’s walk"), this.agent)));
    this.#tellAgent();
  }

  // What the page or another view wants to begin with.
  begin({ topics = [], kinds = [], question = "", calls = [] }) {
    this.topics = [...topics];
    this.kinds = [...kinds];
    if (question) this.question.value = question;
    this.wanted = calls;
  }

  async show({ graph }) {
    if (graph !== this.graph) {
      const other = this.graph !== undefined && !this.wanted;
      this.graph = graph;
      if (other) { this.topics = []; this.kinds = []; }
      this.calls = [];
      this.steps.replaceChildren();
      this.steps.append(el("li", { class: "faint" }, "Write a question and press Start. Then follow relations, one step at a time, as the agent does. Each step’s result gets a number, such as $1, and can be used again."));
      this.panel.hidden = this.answer.hidden = true;
      this.#tellAgent();
      this.#listKinds(graph).catch(() => {}); // a graph elsewhere has none
    }
    this.#tellStart();
    if (this.wanted) { const calls = this.wanted; this.wanted = undefined; await this.restart(calls); }
  }

  async #listKinds(graph) {
    this.kind.replaceChildren(el("option", { value: "" }, "or all of a kind …"));
    const { kinds } = await getJSON(withQuery("kg/kinds", { graph, limit: 200 }));
    if (graph === this.graph) this.kind.append(...kinds.map((one) => el("option", { value: one.name }, `${one.name} (${number(one.members)})`)));
  }

  #tellStart() {
    const chip = (text, list, at) => el("span", { class: "chip" }, text, " ", el("button", { type: "button", class: "quiet remove", "aria-label": `leave out ${text}`,
      on: { click: () => { list.splice(at, 1); this.#tellStart(); } } }, "×"));
    this.chosen.replaceChildren(...this.topics.map((name, at) => chip(name, this.topics, at)), ...this.kinds.map((name, at) => chip(`all of the kind ${name}`, this.kinds, at)));
    this.chosen.hidden = !this.topics.length && !this.kinds.length;
  }

  async restart(calls = []) {
    const typed = this.start.value.trim();
    if (typed) { this.topics.push(typed); this.start.value = ""; this.#tellStart(); }
    if (!this.topics.length && !this.kinds.length && !this.question.value.trim()) { this.question.focus(); say("Give a question, or something to start from.", "bad"); return; }
    this.calls = [...calls];
    this.#tellAgent();
    await this.#walk();
  }

  async #walk() {
    const found = await postJSON("kg/walk", { graph: this.graph, question: this.question.value.trim() || null,
      topics: this.topics.length ? this.topics : null, kinds: this.kinds.length ? this.kinds : null, calls: this.calls, names: 60 });
    this.found = found;
    const made = found.steps.filter((step) => step.set !== null);
    this.at = made.at(-1)?.set ?? 0;
    say("");
    this.#tellSteps();
    const last = found.steps.at(-1);
    if (last && !last.ok) this.steps.lastChild.scrollIntoView({ block: "nearest" });
  }

  async call(text) {
    this.calls.push(text);
    try {
      await this.#walk();
    } catch (error) {
      this.calls.pop();
      throw error;
    }
  }

  #tellSteps() {
    const { steps } = this.found;
    this.steps.replaceChildren(...steps.map((step, at) => this.#step(step, at)));
    this.panel.hidden = !steps.length;
    this.answer.hidden = true;
    if (steps.length) this.#tellNext();
    else this.steps.replaceChildren(el("li", { class: "faint" }, "The question names nothing that is in the graph. Choose a start."));
  }

  #step(step, at) {
    const names = step.names.slice(0, SHOWN);
    const undo = at === this.found.steps.length - 1 && step.call !== null
      ? el("button", { type: "button", class: "quiet small", id: "undo", on: { click: () => { this.calls.pop(); this.#walk().catch(sayError); } } }, "Undo") : "";
    if (!step.ok) return el("li", { class: "step wrong" }, el("div", { class: "row spread" }, el("code", {}, step.call), undo), el("p", { class: "bad" }, step.observation));
    const chosen = step.set === this.at;
    return el("li", { class: chosen ? "step chosen" : "step" },
      el("div", { class: "row spread" },
        el("button", { type: "button", class: "quiet set", "aria-pressed": String(chosen), title: "Go on from this set", on: { click: () => { this.at = step.set; this.#tellSteps(); } } }, `$${step.set}`),
        el("span", { class: "said text" }, step.call === null ? `start: ${step.words}` : step.words), el("span", { class: "count" }, number(step.size)), undo),
      step.call === null && step.size === 1 ? "" : el("p", { class: "members" }, names.flatMap((name, place) => [place ? ", " : "", el("span", { class: "text" }, name)]),
        step.size > names.length ? el("span", { class: "faint" }, ` … and ${number(step.size - names.length)} more`) : step.size ? "" : el("span", { class: "faint" }, "nothing")),
      step.call === null ? "" : el("details", { class: "small" }, el("summary", { class: "faint" }, "the call as the agent would write it, and what it would read"), el("pre", {}, `${step.call}\n${step.observation}`)));
  }

  // What can be done with the chosen set.
  #tellNext() {
    const step = this.found.steps.find((one) => one.set === this.at);
    const relations = (list, out) => list.length ? el("div", { class: "ways" }, el("h3", {}, out ? "Follow a relation from there →" : "Follow a relation back to what has it ←"),
      el("div", { class: "row" }, list.slice(0, 60).map((relation) => el("button", { type: "button", class: "chip", on: { click: () => this.call(`${out ? "tail" : "head"}_entities($${this.at}, ${JSON.stringify(relation)})`).catch(sayError) } }, relation)))) : "";
    const input = el("input", { id: "call", class: "mono", placeholder: `count($${this.at})`, "aria-label": "The step as a call", spellcheck: "false", autocomplete: "off", maxlength: "2000" });
    const others = el("select", { id: "calls", "aria-label": "Another step" }, el("option", { value: "" }, "another step …"),
      this.found.calls.map((one) => el("option", { value: one.name, title: one.words }, `${one.usage}`)));
    const says = el("p", { class: "faint small", id: "call-says" });
    others.addEventListener("change", () => {
      const chosen = this.found.calls.find((one) => one.name === others.value);
      if (!chosen) return;
      input.value = this.#written(chosen.name);
      says.textContent = chosen.words;
      input.focus();
      const gap = input.value.indexOf('""');
      if (gap >= 0) input.setSelectionRange(gap + 1, gap + 1);
    });
    const form = el("form", { class: "row", id: "call-form" }, others, input, el("button", {}, "Do it"));
    form.addEventListener("submit", (event) => { event.preventDefault(); if (input.value.trim()) this.call(input.value.trim()).catch(sayError); });
    this.panel.replaceChildren(el("h3", {}, `Go on from $${this.at}, ${this.#called(step)}`), relations(step?.leaving ?? [], true), relations(step?.entering ?? [], false), form, says,
      el("p", { class: "row" }, el("button", { type: "button", class: "main", id: "answer-with", on: { click: () => this.#tellAnswer() } }, `Answer with $${this.found.steps.filter((one) => one.set !== null).at(-1)?.set ?? ""}`),
        el("button", { type: "button", on: { click: () => copyText(this.#link(), "a link to this walk").catch(sayError) } }, "Copy a link")));
  }

  #called(step) {
    return !step ? "" : step.size === 1 ? step.names[0] ?? "1 thing" : step.size ? `${number(step.size)} things` : "nothing";
  }

  #link() {
    const values = [["graph", this.graph], ["view", "walk"], ["question", this.question.value.trim()], ...this.topics.map((name) => ["from", name]),
      ...this.kinds.map((name) => ["kind", name]), ...this.calls.map((text) => ["call", text])];
    return new URL(`?${new URLSearchParams(values.filter(([, value]) => value))}`, location.href).href;
  }

  #written(tool) {
    const last = this.at, before = Math.max(1, last - 1);
    const two = /\$, \$/.test(FORMS[tool] ?? "") || tool === "compare";
    const text = FORMS[tool] ?? `${tool}($, "")`;
    let times = 0;
    return text.replace(/\$/g, () => `$${two && times++ === 0 ? before : last}`);
  }

  #tellAnswer() {
    const { answers, answer_kind: kind, evidence, rows, columns } = this.found;
    this.answer.hidden = false;
    this.answer.replaceChildren(el("h3", {}, "Your answer"), ...answerNodes(answers, kind, evidence, columns, rows));
    this.mine = answers;
    this.answer.scrollIntoView({ block: "nearest" });
    this.#compare();
  }

  // The agent

  #tellAgent() {
    this.theirs = undefined;
    this.agent.replaceChildren(el("p", { class: "faint" }, "First walk yourself. Then see which steps the agent takes for the same question."),
      el("button", { type: "button", id: "see-agent", on: { click: (event) => { event.target.disabled = true; this.#ask().catch((error) => { this.#tellAgent(); sayError(error); }); } } }, "See what the agent did"));
  }

  async #ask() {
    const question = this.question.value.trim();
    if (!question) { this.#tellAgent(); this.question.focus(); say("The agent needs the question in words.", "bad"); return; }
    const list = el("ol", { class: "steps" }), news = el("p", { class: "faint", role: "status" }, "It walks …");
    this.agent.replaceChildren(news, list);
    for await (const event of stream("v1/ask", { question, graph: this.graph, topics: this.topics.length ? this.topics : null, stream: true })) {
      if (event.event === "waiting") news.textContent = event.model === "opening" ? "The model is being opened …" : `It waits for ${event.before} other questions …`;
      else if (event.event === "start") {
        const from = [...event.topics, ...event.kinds.map((kind) => `all of the kind ${kind}`)];
        list.append(...from.map((name) => el("li", { class: "step" }, el("span", { class: "text" }, `start: ${name}`))));
      } else if (event.event === "turn") {
        list.append(el("li", { class: event.ok ? "step" : "step wrong" },
          el("div", { class: "row spread" }, el("span", { class: "faint small" }, `step ${event.turn}`), el("span", { class: "said text" }, event.words), event.size === null ? "" : el("span", { class: "count" }, number(event.size))),
          event.names.length ? el("p", { class: "members" }, el("span", { class: "text" }, event.names.slice(0, SHOWN).join(", "))) : "",
          el("details", { class: "small" }, el("summary", { class: "faint" }, "the call as it wrote it, and what it read"), el("pre", {}, `${event.text}\n${event.observation}`))));
      } else if (event.event === "answer") {
        this.theirs = event.answers;
        news.remove();
        this.agent.append(el("h3", {}, "Its answer"), ...answerNodes(event.answers, event.answer_kind, event.evidence, event.columns, event.rows),
          event.confidence === undefined ? "" : el("p", { class: "faint small" }, `${number(event.confidence * 100, 0)}% sure`));
        this.#compare();
      } else if (event.event === "error") {
        news.className = "bad";
        news.textContent = event.error.message;
        return;
      }
    }
  }

  #compare() {
    $("#same", this.agent)?.remove();
    if (this.theirs === undefined || this.mine === undefined || this.answer.hidden) return;
    const mine = new Set(this.mine), both = this.theirs.filter((name) => mine.has(name)).length;
    const same = both === mine.size && both === this.theirs.length;
    this.agent.append(el("p", { id: "same", class: same ? "good" : "warn" }, same ? "The same answer as yours." : `Not the same as yours: ${both} in common, ${mine.size - both} only yours, ${this.theirs.length - both} only the agent’s.`));
  }
}

function answerNodes(answers, kind, evidence, columns, rows) {
  if (!answers.length) return [el("p", {}, "Nothing: the graph does not say.")];
  if (rows?.length) return [el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, columns.map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell) => el("td", {}, cell)))))))];
  const shown = answers.slice(0, 30);
  return [el("ul", { class: "answers" }, shown.map((name) => el("li", {}, el("strong", { class: "text" }, name),
    (evidence[name] ?? []).length ? el("div", { class: "faint small text" }, evidence[name].slice(0, 6).map((fact) => fact.join(" · ")).join("  |  ")) : ""))),
  answers.length > shown.length ? el("p", { class: "faint" }, `and ${number(answers.length - shown.length)} more`) : ""];
}
