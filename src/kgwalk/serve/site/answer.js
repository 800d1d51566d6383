// An answer in its kind, with the facts behind it: names, a number, yes or no, a table, or that the graph does not say.

import { el, number } from "./site.js";

const MOST = 100; // names or rows shown until people ask for all
const SURE = 0.7; // from this confidence on an answer is green
const OPEN = 3; // answers whose facts are all shown at once; of more, the first answer's

export const fact = ([head, relation, tail]) =>
  el("li", {}, el("span", { class: "text" }, head), " ", el("span", { class: "relation" }, relation), " ", el("span", { class: "text" }, tail));

const path = (facts) => el("ul", { class: "path" }, facts.map(fact));

// `point(facts)` is told the path that people look at, or null.
export function showAnswer(found, { point = () => {} } = {}) {
  const parts = [];
  if (found.answer_kind === "none" || !found.answers.length) parts.push(...nothing(found));
  else if (found.answer_kind === "table" && found.rows) parts.push(table(found));
  else if (found.answer_kind === "boolean" || found.answers.length === 1) parts.push(...single(found));
  else parts.push(names(found, point));
  if (found.left_out) parts.push(el("p", { class: "faint" }, `and ${number(found.left_out)} more`));
  parts.push(sure(found));
  if (found.note) parts.push(el("p", { class: "warn" }, `${found.note[0].toUpperCase()}${found.note.slice(1)}.`));
  return el("div", { class: "outcome" }, parts);
}

function nothing(found) {
  const words = found.answer_kind === "none" || found.stop === "answered" ? "The graph does not say." : `No answer: the walk ran out of ${found.stop}.`;
  const near = found.nearest?.length ? [el("p", { class: "faint" }, "What comes nearest:"), el("ul", { class: "path" }, found.nearest.map(fact))] : [];
  return [el("p", { class: "big none" }, words), ...near];
}

function single(found) {
  const [answer] = found.answers;
  const said = found.answer_kind === "boolean" ? { yes: "Yes", no: "No" }[answer] ?? answer
    : found.answer_kind === "number" && /^-?\d{5,}$/.test(answer) ? number(Number(answer)) : answer;
  const facts = found.evidence[answer] ?? [];
  const doubtful = answer === "no" || found.note || found.confidence < SURE;
  return [el("p", { class: `big${doubtful ? " plain" : ""}` }, said), path(facts.slice(0, MOST)),
    facts.length > MOST && el("p", { class: "faint" }, `and ${number(facts.length - MOST)} more facts`)];
}

function table(found) {
  const numeric = found.columns.map((_, at) => found.rows.every((row) => row[at] === "" || Number.isFinite(Number(row[at]))));
  const line = (tag, cells) => el("tr", {}, cells.map((cell, at) => el(tag, { class: numeric[at] ? "number" : null }, cell)));
  const rows = found.rows.map((row) => line("td", row));
  return el("div", {}, el("div", { class: "scroll" }, el("table", {}, line("th", found.columns), cut(rows, "rows"))));
}

function names(found, point) {
  const total = found.answers.length;
  const items = found.answers.map((name, at) => {
    const facts = found.evidence[name] ?? [];
    const votes = found.votes?.[name];
    const more = votes ? `${votes} of ${found.walks ?? "the"} walks` : "";
    const shown = el("details", { open: total <= OPEN || at === 0 }, el("summary", {}, found.ordered ? `${at + 1}. ` : "", el("span", { class: "text name" }, name),
      more && el("span", { class: "faint" }, more)), path(facts));
    return el("li", { on: { pointerenter: () => point(facts), pointerleave: () => point(null), focusin: () => point(facts) } }, shown);
  });
  return el("div", {}, total > 1 && el("p", { class: "faint" }, `${number(total)} answers`), el(found.ordered ? "ol" : "ul", { class: "names" }, cut(items, "answers")));
}

// The first of many, and a button for the others.
function cut(items, what) {
  if (items.length <= MOST) return items;
  const more = el("button", { type: "button", class: "small", on: { click: () => place.replaceWith(...items.slice(MOST)) } }, `show all ${number(items.length)} ${what}`);
  const inside = items[0].tagName === "TR" ? el("td", {}, more) : more;
  const place = el(items[0].tagName, {}, inside);
  return [...items.slice(0, MOST), place];
}

function sure(found) {
  if (found.confidence === null || found.confidence === undefined) return null;
  const percent = Math.min(found.calibrated ? 99 : 100, Math.round(100 * found.confidence)); // a fitted probability is never 1
  const words = found.calibrated ? `${percent}% sure` : found.votes ? `${percent}% of the walks gave the first answer` : `likelihood of the walk ${percent}%`;
  const about = found.calibrated ? "How often answers like this one are right, measured for this agent" : "How likely the model found its own walk; not a probability of being right";
  return el("div", { class: "sure", title: about }, el("meter", { min: 0, max: 1, low: 0.4, high: SURE, optimum: 1, value: found.confidence, "aria-label": words }), el("span", {}, words));
}

// Copies

export const asJSON = (found) => JSON.stringify(found, null, 2);

const cell = (text) => /[",\n\r]/.test(text) || /^[=+\-@\t]/.test(text) && Number.isNaN(Number(text)) ? `"${/^[=+\-@\t]/.test(text) ? "'" : ""}${text.replaceAll('"', '""')}"` : text; // a spreadsheet runs what begins with =

export function asCSV(found) {
  const lines = found.rows ? [found.columns, ...found.rows]
    : [["answer", "evidence"], ...found.answers.map((name) => [name, (found.evidence[name] ?? []).map((one) => one.join(" > ")).join("; ")])];
  return lines.map((line) => line.map((one) => cell(String(one))).join(",")).join("\r\n") + "\r\n";
}

const server = () => new URL("v1/ask", location.href).href;

export function asCurl(body, withKey) {
  const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
  const key = withKey ? ` -H "Authorization: Bearer $KGWALK_API_KEY"` : "";
  return `curl -s ${quoted(server())}${key} -H 'Content-Type: application/json' \\\n  -d ${quoted(JSON.stringify(body))}\n`;
}

export function asPython(body, withKey) {
  // JSON text is a Python literal too, but for these three words
  const literal = JSON.stringify(body, null, 4).replace(/: (true|false|null)(?=,?\n)/g, (_, word) => `: ${{ true: "True", false: "False", null: "None" }[word]}`);
  const key = withKey ? `headers = {"Authorization": f"Bearer {os.environ['KGWALK_API_KEY']}"}\n` : "";
  return `${withKey ? "import os\n\n" : ""}import httpx\n\nquestion = ${literal}\n${key}reply = httpx.post(${JSON.stringify(server())}, json=question, ${withKey ? "headers=headers, " : ""}timeout=130)\nreply.raise_for_status()\nprint(reply.json()["answers"])\n`;
}
