// The API as this server describes it: paths and shapes from openapi.json.

import { $, el, getJSON, sayError } from "./site.js";

function link(name) {
  const made = el("a", {}, el("code", {}, name));
  made.href = "#" + name;
  return made;
}

// A schema in a few words, with links to the shapes that it names: "list of ActionItem".
function words(schema) {
  if (schema.$ref) return [link(schema.$ref.split("/").pop())];
  const any = schema.anyOf ?? schema.oneOf ?? schema.allOf;
  if (any) return any.flatMap((one, number) => number ? [" or ", ...words(one)] : words(one));
  if (schema.enum) return [schema.enum.map((one) => JSON.stringify(one)).join(" or ")];
  if (schema.const !== undefined) return [JSON.stringify(schema.const)];
  if (schema.type === "array") return ["list of ", ...words(schema.items ?? {})];
  if (schema.type === "object" && schema.additionalProperties?.type !== undefined)
    return ["object of ", ...words(schema.additionalProperties)];
  return [schema.type ?? "anything", bounds(schema)];
}

function bounds(schema) {
  const least = schema.minimum ?? schema.minLength ?? schema.minItems;
  const most = schema.maximum ?? schema.maxLength ?? schema.maxItems;
  if (least === undefined && most === undefined) return "";
  return ` (${least ?? ""} to ${most ?? ""})`;
}

function table(rows) {
  return el("table", {}, ...rows.map((row) =>
    el("tr", {}, ...row.map((cells) => el("td", {}, ...cells)))));
}

function content(one) {
  return Object.entries(one.content ?? {}).flatMap(([type, { schema }], number) =>
    [number ? "; " : "", el("span", { class: "faint" }, type), " ", ...words(schema ?? {})]);
}

function showPath(path, method, one) {
  const parts = [el("summary", {}, el("code", { class: "method" }, method.toUpperCase()), el("code", {}, path))];
  parts.push(el("p", {}, one.description ?? ""));
  if (one.parameters?.length) parts.push(el("h3", {}, "Query"), table(one.parameters.map((field) =>
    [[el("code", {}, field.name)], words(field.schema), [el("span", { class: "faint" }, field.required ? "" : "optional")], [field.schema.description ?? ""]])));
  if (one.requestBody) parts.push(el("h3", {}, "Body"), el("p", {}, ...content(one.requestBody)));
  const replies = Object.entries(one.responses ?? {}).map(([status, reply]) =>
    [[el("code", {}, status)], [reply.description ?? ""], content(reply)]);
  return el("details", {}, ...parts, el("h3", {}, "Replies"), table(replies));
}

function showShape(name, schema) {
  const needed = new Set(schema.required ?? []);
  const rows = Object.entries(schema.properties ?? {}).map(([field, one]) =>
    [[el("code", {}, field)], words(one), [el("span", { class: "faint" }, needed.has(field) ? "" : "optional")], [one.description ?? ""]]);
  const made = el("details", {}, el("summary", {}, el("code", {}, name)), el("p", {}, schema.description ?? ""), table(rows));
  made.id = name;
  return made;
}

function reveal() {
  const shape = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (shape instanceof HTMLDetailsElement) { shape.open = true; shape.scrollIntoView(); }
}

async function start() {
  const described = await getJSON("openapi.json");
  const paths = Object.entries(described.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, one]) => showPath(path, method, one)));
  const shapes = Object.entries(described.components?.schemas ?? {}).map(([name, schema]) => showShape(name, schema));
  $("#paths").replaceChildren(el("h2", {}, "Paths"), ...paths);
  $("#shapes").replaceChildren(el("h2", {}, "Shapes"), ...shapes);
  reveal();
}

addEventListener("hashchange", reveal);
start().catch(sayError);
