// One question's walk as it happens: each call in words, the graph as it grows, the answer, and what can be done with it.

import { asCSV, asCurl, asJSON, asPython, fact, showAnswer } from "./answer.js";
import { GraphView, legend } from "./graph.js";
import { ServerError, copyText, el, hasKey, number, postJSON, say, sayError, stream } from "./site.js";

const MOST_DRAWN = 250; // facts of one turn that are drawn
const NEAR = 0.75; // the score from which on another name may be meant
const EXPANDED = 12; // facts each way that a click on an entity adds
// Languages of an answer's query: what each is called, and where it runs.
const QUERIES = {
  sparql: ["SPARQL", () => ["Runs over what ", el("code", {}, "kgwalk kg export GRAPH --format nt"), " writes; nq where facts have dates."]],
  cypher: ["Cypher", () => ["Runs over a node ", el("code", {}, "(:Entity {name})"), " for each name and a relationship for each fact, of the relation’s type."]],
  sql: ["SQL", () => ["Runs over a table ", el("code", {}, "facts(head, relation, tail, time)"), "; the time is asked for only where the walk does."]],
  python: ["Python", () => ["Runs over the file that ", el("code", {}, "kgwalk kg export GRAPH"), " writes, and needs no package."]],
};

export class Walk {
  // `body` is what /v1/ask takes; `again(changes)` asks it otherwise; `models` are recipes for another walk beside it.
  constructor(place, body, { again, beside, recipes = [], feedback = false, done = () => {} }) {
    Object.assign(this, { body, again, beside, recipes, feedback, done });
    this.control = new AbortController();
    this.runs = 0;
    this.kinds = [];
    this.status = el("span", { class: "faint" });
    this.meant = el("div");
    this.answer = el("div", { "aria-live": "polite" });
    this.steps = el("ol", { class: "steps" });
    this.way = el("details", { open: true }, el("summary", { class: "faint small" }, "The walk"), this.steps);
    this.facts = el("div", { class: "facts" });
    this.tools = el("div");
    this.host = el("div");
    this.picture = el("div", { class: "picture", hidden: true }, this.host, this.facts);
    const how = [body.recipe && `recipe ${body.recipe}`, body.runs > 1 && `${body.runs} walks`, body.topics && `from ${body.topics.join(", ")}`].filter(Boolean).join(", ");
    this.card = el("section", { class: "card walk", "aria-label": "A walk" },
      el("header", {}, el("h2", { class: "text" }, body.question), el("span", { class: "small" }, how && el("span", { class: "chip" }, how), " ", this.status)),
      el("div", { class: "body" }, el("div", { class: "first" }, this.meant, this.answer), this.picture, el("div", { class: "way" }, this.way, this.tools)));
    place.append(this.card);
  }

  stop() { this.control.abort(); }

  // Walk to the end; gives the answer, or null where there is none.
  async run() {
    const began = performance.now();
    const seconds = () => `${((performance.now() - began) / 1000).toFixed(1)} s`;
    this.wait = "walking";
    const clock = setInterval(() => this.status.replaceChildren(el("span", { class: "spin" }), `${this.wait}, ${seconds()}`), 100);
    let found = null;
    try {
      for await (const event of stream("v1/ask", { ...this.body, stream: true }, { signal: this.control.signal })) {
        if (event.event === "waiting") this.#waits(event);
        else if (event.event === "start") this.#starts(event);
        else if (event.event === "turn") this.#turn(event);
        else if (event.event === "answer") { const { event: _, ...told } = event; found = told; }
        else if (event.event === "error") throw new ServerError(200, event);
      }
      if (!found) throw new ServerError(0, { error: { message: "the server stopped before the end of the walk" } });
      clearInterval(clock);
      this.#ends(found, seconds());
    } catch (error) {
      clearInterval(clock);
      if (error.name === "AbortError") this.#stopped(seconds());
      else this.#fails(error);
    }
    this.done(found);
    return found;
  }

  #stopped(seconds) {
    this.status.textContent = `stopped after ${seconds}`;
    this.answer.replaceChildren(el("p", { class: "faint" }, "You stopped it before there was an answer."));
    this.way.hidden = !this.steps.children.length;
  }

  // Events

  #waits({ before, model }) {
    const ahead = before === 1 ? "1 question before this one" : `${number(before)} questions before this one`;
    this.wait = model === "open" || before ? `waiting, ${ahead}` : "the language model is being opened";
  }

  #starts({ topics, kinds, mentions }) {
    this.wait = "walking";
    this.kinds = kinds;
    this.topics = topics;
    if (topics.length) this.#draw(topics.map((name) => ({ id: name, role: "start" })), []);
    for (const one of mentions ?? []) this.#guessed(one, topics);
    const begin = [...topics, ...kinds.map((kind) => `all of the kind ${kind}`)];
    if (begin.length) this.meant.append(el("p", { class: "faint small" }, "The walk starts from ", el("span", { class: "text" }, begin.join(", "))));
  }

  // A name that was guessed: what it was read as, and what else it may be.
  async #guessed({ text, candidates }, topics) {
    const [chosen, ...others] = candidates;
    if (!others.length && text.toLowerCase() === chosen.toLowerCase()) return;
    const place = el("p", { class: "meant" }, `“${text}” was read as `, el("b", { class: "text" }, chosen), ".");
    this.meant.append(place);
    if (!others.length) {
      const found = await postJSON("kg/query", { queries: [{ op: "find", text, k: 5, graph: this.body.graph }] }).catch(() => null);
      const near = found?.results[0].ok ? found.results[0].value : [];
      others.push(...near.filter((one) => one.score >= NEAR && one.name !== chosen).map((one) => one.name));
    }
    const other = (name) => el("button", { type: "button", class: "chip", on: { click: () => this.again({ topics: topics.map((one) => one === chosen ? name : one) }) } }, name);
    if (others.length) place.append(" Did you mean ", ...others.slice(0, 4).flatMap((name, at) => [at ? " " : "", other(name)]), "?");
  }

  #turn(turn) {
    if (this.body.runs > 1 && turn.run !== this.runs) this.steps.append(el("li", { class: "run" }, `walk ${turn.run} of ${this.body.runs}`));
    this.runs = turn.run;
    const many = turn.size === 0 ? "nothing" : turn.size > 1 ? `${number(turn.size)}: ` : "";
    const size = turn.size === null ? null : el("div", { class: "found" }, "found ", el("b", {}, many), el("span", { class: "text" }, turn.names.slice(0, 8).join(", ")),
      turn.size > Math.min(8, turn.names.length) && turn.names.length ? ", …" : "");
    const written = el("details", {}, el("summary", {}, "as the model wrote it"), el("pre", {}, turn.text.trim()), turn.observation && el("pre", {}, turn.observation.trim()));
    const failed = turn.ok ? null : el("div", { class: "bad small" }, "the graph could not follow this step");
    this.steps.append(el("li", { class: turn.ok ? "" : "failed" }, el("div", { class: "text" }, turn.words), size, failed, written));
    const facts = turn.facts.slice(0, MOST_DRAWN);
    if (facts.length) this.#draw(turn.names.slice(0, MOST_DRAWN).map((name) => ({ id: name, near: this.topics?.[0] })), facts);
    else if (turn.set !== null) this.view?.add(turn.names.filter((name) => this.view.byId.has(name)).map((name) => ({ id: name })));
    this.view?.select(turn.names);
  }

  #ends(found, seconds) {
    const steps = found.turns === 1 ? "1 step" : `${number(found.turns)} steps`;
    this.status.textContent = `${steps}, ${number(found.tokens.generated)} tokens written, ${seconds}`;
    const shown = new Set(found.answers.slice(0, MOST_DRAWN));
    const evidence = Object.entries(found.evidence).filter(([name]) => shown.has(name)).flatMap(([, facts]) => facts);
    // numbers and verdicts are no things of the graph
    const drawn = [...shown].filter((name) => evidence.some(([head, , tail]) => head === name || tail === name) || this.view?.byId.has(name));
    if (evidence.length || drawn.length) this.#draw(drawn.map((id) => ({ id, role: "answer" })), evidence.slice(0, 2 * MOST_DRAWN));
    if (!found.answers.length && found.nearest?.length) this.#draw([], found.nearest);
    const point = (facts) => this.view?.select((facts ?? []).flatMap(([head, , tail]) => [head, tail]), facts ?? evidence.slice(0, 60));
    point(null);
    this.answer.replaceChildren(showAnswer(found, { point }));
    this.way.open = this.steps.children.length <= 6;
    this.found = found;
    this.#offer(found);
  }

  #fails(error) {
    this.status.textContent = "";
    const near = error.about?.nearest ?? [];
    if (near.length) {
      this.meant.append(el("p", { class: "meant" }, "The graph has no such name. Did you mean ", near.slice(0, 5).flatMap((name, at) =>
        [at ? " " : "", el("button", { type: "button", class: "chip", on: { click: () => this.again({ topics: [name] }) } }, name)]), "?"));
      const facts = error.about.facts ?? [];
      if (facts.length) this.meant.append(el("p", { class: "faint" }, "What the graph says of them:"), el("ul", { class: "path" }, facts.slice(0, 8).map(fact)));
    }
    const nowhere = error.kind === "unknown_entity" && !this.body.topics && !near.length;
    this.answer.replaceChildren(nowhere
      ? el("div", { class: "outcome", role: "alert" }, el("p", { class: "big none" }, "The graph does not say."), el("p", {}, "The question names nothing that is in the graph, so there is nowhere to start. Write a name as the graph has it (the box suggests some), or choose one under “Options”."))
      : el("p", { class: "bad", role: "alert" }, error.message));
    this.way.hidden = !this.steps.children.length;
    if (!(error instanceof ServerError)) sayError(error);
  }

  // The picture

  #draw(nodes, facts) {
    if (!this.view) {
      this.picture.hidden = false;
      this.view = new GraphView(this.host, { label: `The facts of the walk for: ${this.body.question}`, click: (node) => this.#expand(node.id), tell: (thing) => this.#tell(thing) });
      this.host.append(legend({ start: "start", frontier: "on the way", answer: "answer" }));
    }
    this.view.add(nodes, facts.map(([source, label, target]) => ({ source, target, label })));
  }

  #tell(thing) {
    if (thing.source) return `${thing.source.label} → ${thing.label} → ${thing.target.label}`;
    const role = { start: "\nthe walk starts here", answer: "\nan answer" }[thing.role] ?? "";
    const facts = thing.links.slice(0, 4).map((link) => `\n${link.source.label} → ${link.label} → ${link.target.label}`).join("");
    return `${thing.label}${role}${facts}${thing.links.length > 4 ? `\n… ${thing.links.length - 4} more` : ""}\nclick for its facts`;
  }

  async #expand(name) {
    const graph = this.body.graph;
    try {
      const both = [{ op: "match", head: name, limit: EXPANDED, graph }, { op: "match", tail: name, limit: EXPANDED, graph }];
      const { results } = await postJSON("kg/query", { queries: both });
      const facts = results.flatMap((one) => one.ok ? one.value : []).map(([head, relation, tail]) => [head, relation, tail]);
      const more = results.some((one) => one.more);
      this.#draw([], facts);
      this.view.select([name]);
      const link = new URLSearchParams({ ...(graph ? { graph } : {}), entity: name });
      this.facts.replaceChildren(el("div", { class: "row spread" }, el("b", { class: "text" }, name), el("span", { class: "row" },
        el("button", { type: "button", class: "small", on: { click: () => this.again({ topics: [name] }) } }, "Walk from here"),
        document.querySelector('nav a[href="explore"]') && el("a", { class: "button small", href: `explore?${link}` }, "Explore"))),
        el("ul", {}, facts.map(fact)), more && el("p", { class: "faint" }, "and more facts"));
    } catch (error) {
      sayError(error);
    }
  }

  // What can be done with an answer

  #offer(found) {
    const button = (text, act) => el("button", { type: "button", class: "small", on: { click: act } }, text);
    const { body } = this;
    this.tools.append(el("div", { class: "tools-row" }, el("span", { class: "faint" }, "Copy"),
      button("JSON", () => copyText(asJSON(found), "the answer as JSON")), button("CSV", () => copyText(asCSV(found), "the answer as CSV")),
      button("Python", () => copyText(asPython(body, hasKey()), "a Python program")), button("curl", () => copyText(asCurl(body, hasKey()), "a command")),
      button("Link", () => copyText(location.href, "a link to this view"))), this.#asQuery(found));
    if (this.beside) {
      const recipe = el("select", { "aria-label": "Recipe of the other walk" }, el("option", { value: "" }, "the same recipe"), this.recipes.map((name) => el("option", { value: name }, name)));
      const runs = el("input", { type: "number", min: 1, max: 16, value: 3, "aria-label": "How many walks beside it" });
      this.tools.append(el("div", { class: "tools-row" }, el("span", { class: "faint" }, "Compare with"), recipe, runs, el("span", { class: "faint" }, "walks"),
        button("Ask again", () => this.beside({ recipe: recipe.value, runs: Number(runs.value) || 1 }))));
    }
    if (this.feedback) this.tools.append(this.#feedback(found));
  }

  // The answer as a query, in the language that is chosen. The server writes it from the walk, which is not walked again by the model.
  #asQuery(found) {
    const { graph, question, recipe, runs } = this.body;
    const about = el("p", { class: "faint small", "aria-live": "polite" }), copy = el("span"), text = el("div");
    const replies = new Map(); // by language; of a walk that is over they stay the same
    let chosen = null;
    const buttons = Object.entries(QUERIES).map(([language, [name]]) => el("button", { type: "button", class: "small", "aria-pressed": "false", on: { click: () => choose(language) } }, name));
    const choose = async (language) => {
      chosen = language === chosen ? null : language;
      for (const [at, one] of Object.keys(QUERIES).entries()) buttons[at].setAttribute("aria-pressed", String(one === chosen));
      for (const part of [about, copy, text]) part.replaceChildren();
      if (chosen === null) return;
      about.append(el("span", { class: "spin" }), "being written");
      try {
        if (!replies.has(language)) replies.set(language, await postJSON("v1/ask/query", { query: language, graph, question, recipe, runs, topics: found.topics, walk: found.walk }));
      } catch (error) {
        if (language !== chosen) return;
        about.replaceChildren(el("span", { class: "bad" }, error.message));
        if (!(error instanceof ServerError)) sayError(error);
        return;
      }
      if (language !== chosen) return; // another was chosen meanwhile
      const [name, runsOver] = QUERIES[language], { query, no_query: why } = replies.get(language);
      if (query === null) return about.replaceChildren(el("span", { class: "warn" }, `No ${name} query: `, el("span", { class: "text" }, `${why}.`)));
      about.replaceChildren(...runsOver());
      copy.replaceChildren(el("button", { type: "button", class: "small", "aria-label": `Copy the ${name} query`, on: { click: () => copyText(query, `the ${name} query`) } }, "Copy"));
      text.replaceChildren(el("pre", { class: "scroll", tabindex: 0, role: "region", "aria-label": `The answer as a ${name} query` }, query));
    };
    return el("div", {}, el("div", { class: "tools-row", role: "group", "aria-label": "As a query" }, el("span", { class: "faint" }, "As a query"), buttons),
      el("div", { class: "query" }, el("div", { class: "row" }, about, copy), text));
  }

  #feedback(found) {
    const place = el("div", { class: "said" });
    const send = async (verdict, right) => {
      const paths = Object.values(found.evidence).slice(0, 20);
      const said = { question: this.body.question, graph: this.body.graph, verdict, answers: found.answers, answer_kind: found.answer_kind, topics: found.topics, kinds: this.kinds, paths };
      try {
        const kept = await postJSON("v1/feedback", right === null ? said : { ...said, right_answers: right });
        const unknown = kept.unknown.map((one) => `The graph has no “${one.name}”${one.nearest.length ? `; near are ${one.nearest.join(", ")}` : ""}.`).join(" ");
        place.replaceChildren(el("p", { class: "good" }, `Thank you. ${kept.split ? `Kept as a question; there are ${number(kept.questions)} now.` : "Kept for a person to look at."}`), unknown && el("p", { class: "warn" }, unknown));
      } catch (error) {
        sayError(error);
      }
    };
    const wrong = () => {
      const text = el("textarea", { "aria-label": "The right answer", placeholder: "The right answer, if you know it: a name a line" });
      const none = el("input", { type: "checkbox" });
      const names = () => text.value.split("\n").map((one) => one.trim()).filter(Boolean);
      place.replaceChildren(text, el("div", { class: "row" }, el("label", { class: "small" }, none, " it is not in the graph"),
        el("button", { type: "button", class: "small main", on: { click: () => send("wrong", none.checked ? [] : names().length ? names() : null) } }, "Send")));
      text.focus();
    };
    place.append(el("div", { class: "tools-row" }, el("span", { class: "faint" }, "Was that right?"),
      el("button", { type: "button", class: "small", "aria-label": "Yes, the answer is right", on: { click: () => send("right", null) } }, "Yes"),
      el("button", { type: "button", class: "small", "aria-label": "No, the answer is wrong", on: { click: wrong } }, "No")));
    return place;
  }
}
