// Files of people's own become a graph: chosen, sent, built, with the rows that cannot be read listed by their lines.

import { $, call, el, getJSON, number, postJSON, say, sayError, withQuery } from "./site.js";

const EVERY = 250; // milliseconds between two looks at a job
const WORDS = { receiving: "Sending", waiting: "Waiting for another build", building: "Building", done: "Done", failed: "Not built", stopped: "Stopped" };

export class UploadView {
  constructor(host, page) {
    this.host = host;
    this.page = page;
    this.files = [];
  }

  async show() {
    this.about = await getJSON("kg/uploads");
    if (this.form) { this.#tellGraphs(); return; }
    this.input = el("input", { type: "file", id: "files", multiple: true, accept: this.about.formats.join(",") });
    this.drop = el("label", { class: "drop", for: "files" }, el("strong", {}, "Choose files"), el("span", {}, " or drop them here"), this.input,
      el("span", { class: "faint small" }, `Facts or tables: ${this.about.formats.filter((end) => !/\.(gz|zst)$/.test(end)).join(" ")}, also .gz and .zst; ${size(this.about.max_bytes)} at most. They stay on this server.`));
    this.list = el("ul", { id: "file-list", class: "small" });
    this.name = el("input", { id: "new-name", maxlength: "60", pattern: "[A-Za-z0-9][A-Za-z0-9_\\-]*", required: true, autocomplete: "off", title: "Letters, digits, - and _" });
    this.table = el("select", { id: "table" }, el("option", { value: "" }, "work it out from the file"), el("option", { value: "yes" }, "tables: the first row has column names, each other row is a thing"),
      el("option", { value: "no" }, "facts: head, relation, tail"));
    this.skip = el("input", { type: "checkbox", id: "skip" });
    this.button = el("button", { class: "main" }, "Build the graph");
    this.told = el("div", { id: "job", "aria-live": "polite" });
    this.others = el("div", { id: "uploaded" });
    this.form = el("form", { class: "card upload", id: "upload-form" }, this.drop, this.list,
      el("div", { class: "fields" },
        el("label", { for: "new-name" }, "Name of the graph"), this.name,
        el("label", { for: "table" }, "TSV and CSV files hold"), this.table),
      el("label", { class: "check" }, this.skip, "Leave out rows that cannot be read"),
      el("p", {}, this.button));
    this.form.addEventListener("submit", (event) => { event.preventDefault(); this.#send().catch((error) => { this.button.disabled = false; sayError(error); }); });
    this.input.addEventListener("change", () => this.#choose([...this.input.files]));
    this.drop.addEventListener("dragover", (event) => { event.preventDefault(); this.drop.classList.add("over"); });
    this.drop.addEventListener("dragleave", () => this.drop.classList.remove("over"));
    this.drop.addEventListener("drop", (event) => { event.preventDefault(); this.drop.classList.remove("over"); this.#choose([...event.dataTransfer.files]); });
    this.host.replaceChildren(el("div", { class: "columns" }, this.form, el("div", {}, this.told, this.others)));
    this.#tellGraphs();
  }

  #choose(files) {
    if (!files.length) return;
    this.files = files;
    this.list.replaceChildren(...files.map((file) => el("li", {}, el("span", { class: "text" }, file.name), el("span", { class: "faint" }, ` ${size(file.size)}`))));
    if (!this.name.value || this.named) {
      this.name.value = files[0].name.replace(/\..*$/, "").replace(/[^A-Za-z0-9_-]+/g, "-").replace(/^[^A-Za-z0-9]+/, "").slice(0, 60);
      this.named = true;
    }
  }

  async #send() {
    if (!this.files.length) { this.input.focus(); say("Choose one or more files first.", "bad"); return; }
    say("");
    this.button.disabled = true;
    const wanted = { name: this.name.value, files: this.files.map((file) => file.name), skip_bad_rows: this.skip.checked };
    if (this.table.value) wanted.table = this.table.value === "yes";
    let job = await postJSON("kg/build", wanted);
    this.#tell(job);
    const watching = this.#watch(job.id);
    try {
      for (const file of this.files) await call(withQuery("kg/build/file", { job: job.id, file: file.name }), { method: "PUT", body: file });
    } catch (error) {
      await postJSON("kg/job/stop", { id: job.id }).catch(() => {});
      sayError(error);
    }
    job = await watching;
    this.button.disabled = false;
    if (job.state === "done") {
      await this.page.graphsChanged();
      this.about = await getJSON("kg/uploads");
      this.#tellGraphs();
    }
  }

  async #watch(id) {
    for (;;) {
      const job = await getJSON(withQuery("kg/job", { id }));
      this.#tell(job);
      if (["done", "failed", "stopped"].includes(job.state)) return job;
      await new Promise((resolve) => setTimeout(resolve, EVERY));
    }
  }

  #tell(job) {
    const sent = job.files.reduce((sum, file) => sum + file.bytes, 0), all = this.files.reduce((sum, file) => sum + file.size, 0);
    const [done, total] = job.state === "receiving" ? [sent, all] : [job.done, job.total];
    const busy = !["done", "failed", "stopped"].includes(job.state);
    this.told.replaceChildren(el("div", { class: "card" }, ...[
      el("h2", {}, `${WORDS[job.state]}: `, el("span", { class: "text" }, job.name)),
      busy && el("progress", { "aria-label": "How far it is", ...(total ? { value: Math.min(done, total), max: total } : {}) }),
      busy && el("p", { class: "row spread faint small" }, el("span", {}, job.state === "receiving" ? `${size(sent)} of ${size(all)}` : job.stage), el("span", {}, `${number(job.seconds, 1)} s`),
        el("button", { type: "button", class: "small", on: { click: () => postJSON("kg/job/stop", { id: job.id }).catch(sayError) } }, "Stop")),
      job.message && el("p", { class: "bad", id: "why" }, job.message),
      job.report && el("p", { id: "report" }, `${number(job.report.triples)} facts of ${number(job.report.entities)} things by ${number(job.report.relations)} relations, in ${number(job.seconds, 1)} s.`),
      ...(job.report?.tables ?? []).map((text) => el("p", { class: "small text" }, text)),
      job.bad_rows.length > 0 && badRows(job),
      job.state === "failed" && job.bad > 0 && el("p", { class: "row" },
        el("button", { type: "button", id: "leave-out", on: { click: () => { this.skip.checked = true; this.#send().catch(sayError); } } }, "Leave these rows out and build"),
        this.table.value !== "yes" && job.files.some((file) => /\.[ct]sv(\.|$)/i.test(file.name))
          && el("button", { type: "button", id: "as-table", on: { click: () => { this.table.value = "yes"; this.#send().catch(sayError); } } }, "Read them as tables")),
      // what is said of each table stands above
      ...job.notes.filter((note) => !note.includes(": read as a table of ")).map((note) => el("p", { class: looksLikeTable([note]) ? "warn small text" : "faint small text" }, plainly(note))),
      job.state === "done" && looksLikeTable(job.notes) && el("p", { class: "small" }, "If it is a table, remove this graph and build it again as one."),
      job.state === "done" && el("p", { class: "row" }, el("button", { type: "button", class: "main", id: "explore-it", on: { click: () => this.page.showGraph(job.name).catch(sayError) } }, "Explore it"),
        el("a", { class: "button", id: "ask-it", href: withQuery("./", { graph: job.name }) }, "Ask about it")),
    ].filter(Boolean)));
  }

  #tellGraphs() {
    const { graphs } = this.about;
    this.others.replaceChildren(...(graphs.length ? [el("div", { class: "card" }, el("h2", {}, "Uploaded graphs"),
      el("ul", { class: "plain" }, graphs.map((name) => el("li", { class: "row spread" },
        el("button", { type: "button", class: "quiet text link", on: { click: () => this.page.showGraph(name).catch(sayError) } }, name),
        el("button", { type: "button", class: "small", "aria-label": `Remove ${name}`, on: { click: (event) => this.#remove(name, event.target).catch(sayError) } }, "Remove")))))] : []));
  }

  // The first click asks, the second removes.
  async #remove(name, button) {
    if (button.textContent === "Remove") { button.textContent = "Really?"; setTimeout(() => { button.textContent = "Remove"; }, 4000); return; }
    await postJSON("kg/remove", { name });
    say(`${name} is removed.`);
    this.about = await getJSON("kg/uploads");
    this.#tellGraphs();
    await this.page.graphsChanged();
  }
}

function badRows(job) {
  const cannot = job.state === "done" ? "were left out" : "cannot be read";
  return el("div", { class: "scroll" }, el("table", { id: "bad-rows" }, el("caption", { class: "small faint" }, job.bad > job.bad_rows.length ? `The first ${job.bad_rows.length} of ${number(job.bad)} rows that ${cannot}` : `Rows that ${cannot}`),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "file"), el("th", { scope: "col", class: "number" }, "line"), el("th", { scope: "col" }, "what is wrong"))),
    el("tbody", {}, job.bad_rows.map((row) => el("tr", {}, el("td", { class: "file" }, row.file ?? ""), el("td", { class: "number" }, row.line === null ? "" : number(row.line)), el("td", {}, row.message))))));
}

const looksLikeTable = (notes) => notes.some((note) => note.includes("looks like a table"));
const plainly = (note) => note.replace(/ If its first row has column names, build it with --table/, "");
const size = (bytes) => bytes < 1e3 ? `${bytes} B` : bytes < 1e6 ? `${number(bytes / 1e3, 1)} KB` : `${number(bytes / 1e6, bytes < 1e8 ? 1 : 0)} MB`;
