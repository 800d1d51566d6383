// Walks to read: of each step of a training, or of an evaluation. What the model wrote has a line beside it, what it was
// told is grey: no loss is taken there.

import { el, getJSON, number, sayError, withQuery } from "./site.js";
import { go, place, score, share } from "./runs_place.js";

const PAGE = 10;
const SHOW = { all: "every walk", wrong: "wrong", right: "right", malformed: "with a malformed turn", failed_call: "with a failed call", no_answer: "without an answer" };
const MARKS = { hops: "Hops", kind: "Kind of answer", type: "Type of question", error: "Class of error" };

export async function walksTab(panel, about, other) {
  const name = about.summary.name, beside = other?.walks ? other.summary.name : null;
  const filters = el("div", { class: "filters" }), slider = el("div", { class: "slider" });
  const count = el("p", { class: "faint small", role: "status" }), list = el("div"), pages = el("div", { class: "row pages" });
  panel.append(el("div", { class: "card" }, filters, slider), count, list, pages);
  let asked = 0, total = -1, steps = [];

  const set = (values, replace = true) => { go({ offset: "", ...values }, { replace, draw: false }); read().catch(sayError); };
  const text = el("input", { type: "search", id: "walk-text", autocomplete: "off", value: place().text });
  let typing = 0;
  text.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => set({ text: text.value.trim() }), 250); });
  const selects = Object.fromEntries(["show", ...Object.keys(MARKS)].map((key) => [key, el("select", { id: `walk-${key}`, on: { change: (event) => set({ [key]: event.target.value }) } })]));
  const box = (words, field) => el("div", {}, el("label", { for: field.id }, words), field);
  const boxes = { show: box("Show", selects.show), ...Object.fromEntries(Object.entries(MARKS).map(([key, words]) => [key, box(words, selects[key])])) };
  filters.append(...Object.values(boxes), box("Words of the question", text));

  const range = el("input", { type: "range", id: "walk-step", min: "0", step: "1", on: { input: () => tellStep(), change: () => set({ step: steps[range.valueAsNumber - 1] ?? "" }) } });
  const output = el("output", { for: "walk-step" });
  const move = (by) => () => { range.valueAsNumber += by; range.dispatchEvent(new Event("input")); range.dispatchEvent(new Event("change")); };
  slider.append(el("label", { for: "walk-step" }, "Step"),
    el("button", { type: "button", class: "small", "aria-label": "the step before", on: { click: move(-1) } }, "‹"), range,
    el("button", { type: "button", class: "small", "aria-label": "the next step", on: { click: move(1) } }, "›"), output);
  const tellStep = () => {
    const step = steps[range.valueAsNumber - 1];
    output.textContent = step === undefined ? "all steps" : `step ${number(step)}`;
    range.setAttribute("aria-valuetext", output.textContent);
  };

  function fill(told) {
    const values = place();
    for (const [key, select] of Object.entries(selects)) {
      const counts = told.counts[key] ?? {};
      const options = Object.entries(counts).map(([value, many]) => [value, key === "show" ? SHOW[value] : value, many]);
      if (key !== "show") options.unshift(["", "any", null]);
      if (values[key] && !options.some(([value]) => value === values[key])) options.push([values[key], values[key], 0]);
      select.replaceChildren(...options.map(([value, words, many]) => el("option", { value }, many === null ? words : `${words} (${number(many)})`)));
      select.value = values[key] || (key === "show" ? "all" : "");
      boxes[key].hidden = key !== "show" && options.length < 3 && !values[key];
    }
    steps = told.steps;
    slider.hidden = !steps.length;
    range.max = String(steps.length);
    range.valueAsNumber = values.step === "" ? 0 : steps.indexOf(Number(values.step)) + 1;
    tellStep();
  }

  async function read() {
    const now = ++asked;
    const { show, step, hops, kind, type, error, text: words, offset } = place();
    const order = steps.length || about.summary.kind === "train" ? "last" : ""; // of a training the newest
    const query = { name, show, step, hops, kind, type, error, text: words, order, offset, limit: PAGE };
    let told = await getJSON(withQuery("v1/runs/walks", query));
    while (told.read < 1 && now === asked) { // a large file is read in several goes
      count.textContent = `reading the walks, ${Math.floor(100 * told.read)}%`;
      told = await getJSON(withQuery("v1/runs/walks", query));
    }
    if (now !== asked) return;
    total = told.total;
    fill(told);
    const first = told.offset + 1, end = told.offset + told.walks.length;
    count.textContent = told.found ? `${number(first)} to ${number(end)} of ${number(told.found)} walks${told.found < told.total ? ` (of ${number(told.total)} in all)` : ""}` : "No walk fits.";
    list.replaceChildren(...told.walks.map((walk, at) => walkCard(walk, { open: at === 0, beside })));
    const turn = (to, words, off) => el("button", { type: "button", disabled: off, on: { click: () => set({ offset: to || "" }, false) } }, words);
    pages.hidden = told.found <= PAGE;
    pages.replaceChildren(turn(Math.max(0, told.offset - PAGE), "Previous", told.offset === 0), turn(told.offset + PAGE, "Next", end >= told.found));
  }

  await read();
  return {
    look: async () => { // new walks do not move those that are being read: only the counts and the slider change
      const { show, step, hops, kind, type, error, text: words } = place();
      const told = await getJSON(withQuery("v1/runs/walks", { name, show, step, hops, kind, type, error, text: words, limit: 0 }));
      if (told.total === total || filters.contains(document.activeElement) || slider.contains(document.activeElement)) return;
      const was = total;
      total = told.total;
      fill(told);
      if (was <= 0 || told.total < was) await read();
      else count.textContent = `${number(told.found)} walks fit; ${number(told.total - was)} came while you read`;
    },
    update: () => read(),
  };
}

const signed = (value) => `${value > 0 ? "+" : ""}${share(value)}`;

// One walk; what is in it is made when it is opened.
export function walkCard(walk, { open = false, beside = null } = {}) {
  const marks = [walk.right ? el("span", { class: "good" }, "right") : el("span", { class: "bad" }, "wrong"),
    walk.f1 === null ? null : `F1 ${score(walk.f1)}`, walk.reward === null ? null : `reward ${share(walk.reward)}`,
    walk.step === null ? null : `step ${number(walk.step)}`, walk.hops === null ? null : `${walk.hops} hop${walk.hops === 1 ? "" : "s"}`,
    walk.type, walk.kind === "entity" ? null : walk.kind, walk.error?.replaceAll("_", " "), walk.turns.some((turn) => turn.malformed) ? el("span", { class: "bad" }, "malformed") : null,
    walk.trained === false ? el("span", { class: "warn" }, "left out of the update") : null];
  const body = el("div", { class: "body" });
  const card = el("details", { class: `walk ${walk.right ? "right" : "wrong"}` },
    el("summary", {}, el("span", { class: "asked text" }, walk.question || walk.id),
      el("div", { class: "marks" }, marks.filter(Boolean).map((one) => one instanceof Node ? one : el("span", {}, one)))), body);
  const fill = () => { if (card.open && !body.childNodes.length) body.append(...transcript(walk, beside)); };
  card.addEventListener("toggle", fill);
  card.open = open;
  fill();
  return card;
}

function transcript(walk, beside) {
  const parts = Object.entries(walk.rewards).map(([name, value]) => `${name} ${share(value)}`).join(", ");
  return [
    el("p", { class: "small faint" }, [walk.id, walk.topics.length ? `starts from ${walk.topics.join(", ")}` : "", parts ? `reward: ${parts}` : "",
      walk.confidence === null ? "" : `confidence ${share(walk.confidence)}`, `${number(walk.seconds, 1)} s`].filter(Boolean).join(" · ")),
    el("details", {}, el("summary", { class: "faint small" }, `the prompt, ${number(walk.prompt_tokens)} tokens`), el("pre", { class: "told" }, walk.prompt)),
    ...walk.turns.map(turnOf),
    el("dl", { class: "outcome" },
      el("dt", {}, "Answer"), el("dd", {}, walk.answers.length ? walk.answers.join(", ") : `none (${walk.failure ?? walk.stop})`),
      el("dt", {}, "Right answer"), el("dd", {}, walk.gold.length ? walk.gold.join(", ") : "none: the graph does not say"),
      ...evidence(walk)),
    ...(beside && walk.number !== null ? [besideWalk(walk, beside)] : []),
  ];
}

function evidence(walk) {
  const facts = Object.values(walk.evidence).flat().slice(0, 12);
  if (!facts.length) return [];
  return [el("dt", {}, "Evidence"), el("dd", {}, facts.map(([head, relation, tail]) => el("div", {}, el("span", { class: "text" }, head), " ", el("span", { class: "relation" }, relation), " ", el("span", { class: "text" }, tail))))];
}

function turnOf(turn, at) {
  const credit = turn.advantage === null ? null : el("span", { class: `credit ${turn.advantage > 0 ? "good" : turn.advantage < 0 ? "bad" : ""}` }, `advantage ${signed(turn.advantage)}`);
  return el("div", { class: "turn" },
    el("div", { class: "what" }, el("span", {}, `turn ${at + 1}${turn.answer ? ", the answer" : ""}`), el("span", {}, `${number(turn.tokens)} tokens`),
      turn.reward === null ? null : el("span", {}, `reward ${share(turn.reward)}`), credit,
      turn.ok ? null : el("span", { class: "bad" }, turn.malformed ? `malformed: ${turn.malformed}` : turn.error?.replaceAll("_", " ") ?? "failed")),
    el("pre", { class: turn.malformed ? "own malformed" : "own" }, turn.text),
    turn.observation ? el("pre", { class: "told", title: `told, ${turn.observation_tokens} tokens without loss` }, turn.observation) : null);
}

// The same question in another evaluation.
function besideWalk(walk, beside) {
  const host = el("div");
  return el("details", { on: { toggle: async () => {
    if (host.childNodes.length) return;
    try {
      const told = await getJSON(withQuery("v1/runs/walks", { name: beside, number: walk.number, limit: 1 }));
      host.replaceChildren(...(told.walks.length ? told.walks.map((one) => walkCard(one, { open: true })) : [el("p", {}, "It has no such question.")]));
    } catch (error) {
      sayError(error);
    }
  } } }, el("summary", {}, `the same question in ${beside}`), host);
}
