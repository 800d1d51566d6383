"""What the pages of the site cost: bytes, first paint, when they can be used, and frames while a large graph is moved.

    python -m benchmarks.site                 # starts a server over the bundled world, without an agent
    python -m benchmarks.site --json

Needs chromium and playwright (`pip install playwright`; it fetches no browser). Each figure is the median of five fresh
browser contexts, so nothing is cached. "Used" is when the page's scripts have run and the browser is idle again. The
graph is a tree of 2,000 things with 1,000 edges more, moved by 3 pixels a frame for three seconds.
"""

from __future__ import annotations

import argparse
import json
import shutil
from statistics import median
from typing import Any

from kgwalk.data.bundled import world_path
from kgwalk.serve.app import create_app
from kgwalk.serve.pages import PAGES, site
from kgwalk.serve.run import in_background
from kgwalk.serve.settings import ServeSettings

TIMES = """async () => {
  await new Promise((done) => requestIdleCallback(done, { timeout: 5000 }));
  const idle = performance.now();
  const paint = performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null;
  const loaded = performance.getEntriesByType("resource").filter((one) => one.name.includes("/site/"));
  const [page] = performance.getEntriesByType("navigation");
  return { paint, ready: page.domContentLoadedEventEnd, used: idle, files: loaded.length + 1,
    bytes: loaded.reduce((sum, one) => sum + one.decodedBodySize, page.decodedBodySize) };
}"""
FRAMES = """async (size) => {
  const { GraphView } = await import("/site/graph.js");
  const host = document.createElement("div");
  document.querySelector("main").replaceChildren(host);
  const view = new GraphView(host), links = [], some = (below) => `thing ${Math.floor(Math.random() * below)}`;
  for (let at = 1; at < size; at++) {
    links.push({ source: some(at), target: `thing ${at}`, label: "leads_to" });
    if (at % 2) links.push({ source: some(at), target: `thing ${at}`, label: "knows" });
  }
  const began = performance.now();
  view.add([{ id: "thing 0", role: "start" }], links);
  view.settle(300);
  const laid = performance.now() - began, gaps = [];
  let last = performance.now(), turn = 0;
  for (const end = last + 3000; last < end; ) {
    view.move(Math.floor(turn++ / 60) % 2 ? -3 : 3, 0);
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    gaps.push(now - last);
    last = now;
  }
  gaps.sort((a, b) => a - b);
  return { nodes: view.nodes.length, edges: view.links.length, layout_ms: laid,
    frames_a_second: gaps.length / 3, median_ms: gaps[gaps.length >> 1], p95_ms: gaps[Math.floor(gaps.length * 0.95)] };
}"""


def measure(rounds: int = 5) -> dict[str, Any]:
    """Every page, then the large graph."""
    from playwright.sync_api import sync_playwright

    app = create_app(ServeSettings(graphs={"world": str(world_path())}))
    found: dict[str, Any] = {"pages": {}}
    with in_background(app) as url, sync_playwright() as started:
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for path in (path for path in PAGES if path in site()):
            rows = []
            for _ in range(rounds):
                context = browser.new_context(viewport={"width": 1200, "height": 800})
                page = context.new_page()
                page.goto(url + path, wait_until="load")
                rows.append(page.evaluate(TIMES))
                context.close()
            found["pages"][path] = {name: round(median(row[name] for row in rows), 1) for name in rows[0]}
        page = browser.new_page(viewport={"width": 1200, "height": 800})
        page.goto(url)
        found["graph"] = {name: round(value, 1) for name, value in page.evaluate(FRAMES, 2000).items()}
        browser.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="What the pages of the site cost.")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = measure()
    if asked.json:
        print(json.dumps(found))
        return
    for path, row in found["pages"].items():
        size = f"{row['bytes']:,.0f} bytes in {row['files']:.0f} files"
        print(f"{path}: {size}, first paint {row['paint']:.0f} ms, used after {row['used']:.0f} ms")
    graph = found["graph"]
    size = f"{graph['nodes']:,.0f} things and {graph['edges']:,.0f} edges"
    frames = f"{graph['frames_a_second']:.0f} frames a second while it is moved"
    print(f"graph of {size}: laid out in {graph['layout_ms']:.0f} ms, {frames}", end=" ")
    print(f"(median {graph['median_ms']} ms, 95% under {graph['p95_ms']} ms)")


if __name__ == "__main__":
    main()
