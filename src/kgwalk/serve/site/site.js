// What every page shares: elements from text, requests with the key, streams, messages, light and dark.
//
// Text from the server only ever becomes text nodes: a name that holds HTML is shown, not obeyed.

export const $ = (selector, root = document) => root.querySelector(selector);

// An element. `attrs` takes attributes, `class`, `on: {click: f}`, and properties that are no text (`hidden: true`).
// A child is a node or text; null and false are left out.
export function el(tag, attrs = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attrs ?? {})) {
    if (value === null || value === undefined) continue;
    if (name === "class") made.className = value;
    else if (name === "on") for (const [event, heard] of Object.entries(value)) made.addEventListener(event, heard);
    else if (name.startsWith("on") || name === "style" || name === "srcdoc") throw new Error(`no ${name} here`);
    else if (typeof value === "boolean" && name in made) made[name] = value;
    else made.setAttribute(name, String(value));
  }
  made.append(...children.flat().filter((one) => one !== null && one !== undefined && one !== false)
    .map((one) => one instanceof Node ? one : String(one)));
  return made;
}

export const number = (value, digits) =>
  value === null || value === undefined ? "" : value.toLocaleString("en", digits === undefined ? {} : { maximumFractionDigits: digits });

// Messages

// Say something to people; also read out by screen readers. What is `bad` stays until it is clicked away.
let saying = 0;
export function say(text, kind = "") {
  const place = $("#status");
  place.textContent = text;
  place.className = kind;
  clearTimeout(saying);
  if (kind !== "bad") saying = setTimeout(() => { place.textContent = ""; }, 4000);
}
$("#status").addEventListener("click", () => { $("#status").textContent = ""; });

export function sayError(error) {
  if (error?.name === "AbortError") return;
  if (!(error instanceof ServerError)) console.error(error);
  say(error.message, "bad");
}

// Requests

export class ServerError extends Error {
  constructor(status, told) {
    super(told?.error?.message ?? `the server answered ${status}`);
    this.name = "ServerError";
    this.status = status;
    this.kind = told?.error?.kind ?? "";
    this.about = told?.error ?? {};
  }
}

const KEY = "kgwalk.key"; // of this tab alone: sessionStorage ends with it
let key = stored(() => sessionStorage.getItem(KEY)) ?? "";
let waiting = null; // the promise of a key that people are asked for

function stored(read) {
  try { return read(); } catch { return null; } // a browser may have no storage
}

function askKey(why) {
  if (waiting) return waiting;
  const form = $("#key");
  form.hidden = false;
  $("#key-why").textContent = why;
  $("#key-text").focus();
  waiting = new Promise((resolve) => {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      key = $("#key-text").value.trim();
      stored(() => sessionStorage.setItem(KEY, key));
      $("#key-text").value = "";
      form.hidden = true;
      waiting = null;
      resolve();
    }, { once: true });
  });
  return waiting;
}

// The reply of the server, once it is a good one. Where it wants a key, people are asked for it and it is sent again.
export async function call(path, { body, signal, method } = {}) {
  for (;;) {
    const headers = { Accept: "application/json" };
    const sent = key;
    if (sent) headers.Authorization = `Bearer ${sent}`;
    const bytes = body instanceof Blob; // a file goes as it is
    if (body !== undefined) headers["Content-Type"] = bytes ? "application/octet-stream" : "application/json";
    const options = body === undefined ? { method: method ?? "GET" } : { method: method ?? "POST", body: bytes ? body : JSON.stringify(body) };
    let reply;
    try {
      reply = await fetch(path, { headers, signal, ...options });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ServerError(0, { error: { kind: "unreachable", message: "the server cannot be reached; is it still running?" } });
    }
    if (reply.ok) return reply;
    const told = await reply.json().catch(() => null);
    if (reply.status !== 401) throw new ServerError(reply.status, told);
    if (sent === key) await askKey(sent ? "That is not the key." : "");
  }
}

export const hasKey = () => key !== "";
export const getJSON = async (path, options) => (await call(path, options)).json();
export const postJSON = async (path, body, options) => (await call(path, { ...options, body })).json();

// path?a=1&b=2; what is null or "" is left out.
export function withQuery(path, values) {
  const pairs = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return pairs.length ? `${path}?${new URLSearchParams(pairs)}` : path;
}

// The events of a server-sent stream, as they come: their data, read as JSON.
export async function* stream(path, body, options) {
  const reply = await call(path, { ...options, body });
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const parts = (text + value).split("\n\n");
      text = parts.pop();
      for (const part of parts) {
        const data = part.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
        if (data && data !== "[DONE]") yield JSON.parse(data);
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // whoever stops listening ends the walk
  }
}

// Graphs

let listed = null;
export const graphs = () => (listed ??= getJSON("kg/graphs").then((told) => told.graphs).catch((error) => { listed = null; throw error; }));

export const graphsChanged = () => { listed = null; }; // the next who asks for them asks the server

// Fill a <select> with the graphs that are served, hidden where there is one; gives the list.
export async function fillGraphs(select, chosen) {
  const found = await graphs();
  select.replaceChildren(...found.map((graph) => el("option", { value: graph.name }, graph.name)));
  if (found.some((graph) => graph.name === chosen)) select.value = chosen;
  const label = select.labels?.[0];
  for (const one of [select, label]) if (one) one.hidden = found.length < 2;
  return found;
}

// Copy and save

export async function copyText(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = el("textarea", { class: "off-screen", "aria-hidden": "true" }); // no clipboard without https, but on localhost
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  say(`Copied ${what}.`);
}

export function saveAs(name, text, type = "text/plain") {
  const url = URL.createObjectURL(new Blob([text], { type }));
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// Light and dark

const dark = matchMedia("(prefers-color-scheme: dark)");
const repaints = new Set();
export const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
export const onTheme = (repaint) => { repaints.add(repaint); }; // for what is painted on a canvas
const repaint = () => repaints.forEach((one) => one());

// A colour of site.css as a canvas takes it: colour("--accent").
export function colour(name) {
  const probe = el("span", { hidden: true });
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

dark.addEventListener("change", repaint);
$("#theme").addEventListener("click", () => {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  stored(() => localStorage.setItem("kgwalk.theme", next));
  repaint();
});

document.documentElement.dataset.ready = "";
