// A list below a box while people type: arrows choose, Enter takes, Escape closes; the server is asked after a pause.

import { el } from "./site.js";

const PAUSE = 120; // milliseconds without a key before the server is asked

// `find(typed, signal)` gives the options for what stands before the caret (none: the list closes), `shown(option)` what a
// line of the list holds, and `take(option)` is told what was chosen.
export function listbox(input, list, { find, shown, take }) {
  let options = [], at = -1, timer = 0, latest = null;

  function close() {
    clearTimeout(timer);
    latest?.abort();
    options = []; at = -1;
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  async function look() {
    latest?.abort();
    latest = new AbortController();
    try {
      const found = await find(input.value.slice(0, input.selectionStart ?? input.value.length), latest.signal);
      if (document.activeElement === input) show(found);
    } catch {
      // people go on typing: no suggestion is no mistake
    }
  }

  function show(found) {
    options = found; at = -1;
    list.replaceChildren(...found.map((one, place) => el("li", { role: "option", id: `${list.id}-${place}`, "aria-selected": "false",
      // pointerdown: a click would first take the focus from the box
      on: { pointerdown: (event) => { event.preventDefault(); chosen(one); } } }, ...[shown(one)].flat())));
    list.hidden = !found.length;
    input.setAttribute("aria-expanded", String(found.length > 0));
    input.removeAttribute("aria-activedescendant");
  }

  function mark(next) {
    if (!options.length) return;
    list.children[at]?.setAttribute("aria-selected", "false");
    at = (next + options.length + 1) % (options.length + 1); // one place more: none of them
    const line = list.children[at];
    line?.setAttribute("aria-selected", "true");
    line?.scrollIntoView({ block: "nearest" });
    if (line) input.setAttribute("aria-activedescendant", line.id);
    else input.removeAttribute("aria-activedescendant");
  }

  function chosen(one) {
    close();
    take(one);
  }

  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(look, PAUSE); });
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") mark(at + 1);
    else if (event.key === "ArrowUp") mark(at - 1);
    else if (event.key === "Escape" && !list.hidden) close();
    else if (event.key === "Enter" && options[at]) chosen(options[at]);
    else return;
    event.preventDefault();
  });
  return { close };
}
