"""What the page of runs costs for a long training: until its curves are answered, and until they are drawn.

    python -m benchmarks.site_runs                 # a run of 100,000 steps, made up, with as many metrics as a real one
    python -m benchmarks.site_runs --steps 10000 --json

Needs chromium and playwright. The server is fresh for the first figure of each kind, so that it has read nothing; the
second asks again. "Drawn" is from the address typed to the last chart.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from kgwalk.config.run_folder import RowFile, begin_run
from kgwalk.data.bundled import world_path
from kgwalk.serve.app import create_app
from kgwalk.serve.run import in_background
from kgwalk.serve.settings import ServeSettings

CURVES = ("reward", "f1", "loss", "kl", "entropy", "generated_tokens", "tokens_a_second", "seconds")
OTHERS = 30  # metrics of a step besides
LAST = '[data-chart="Seconds a step"] canvas'


def make_run(folder: Path, steps: int) -> int:
    """A training's folder with so many steps of GRPO; the bytes of its metrics."""
    draw = random.Random(0)
    settings = {"recipe": "kgwalk", "data": "made up", "sections": {"grpo": {"steps": steps}}}
    with begin_run(folder, "train", settings), RowFile(folder / "grpo" / "metrics.jsonl") as rows:
        for step in range(1, steps + 1):
            level = 1 - math.exp(-3 * step / steps)
            values = {name: level + draw.gauss(0, 0.1) for name in CURVES}
            others = {f"other_{at}": draw.random() for at in range(OTHERS)}
            rows.add({"stage": "grpo", "step": step, **values, **others})
    return (folder / "grpo" / "metrics.jsonl").stat().st_size


def measure(steps: int) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as made:
        found: dict[str, Any] = {"steps": steps, "bytes": make_run(Path(made) / "long", steps)}
        settings = ServeSettings(graphs={"world": str(world_path())}, runs=made)
        with in_background(create_app(settings)) as url, httpx.Client(base_url=url, trust_env=False) as client:
            client.get("/v1/runs")
            found["answered_s"] = [_timed(lambda: client.get("/v1/runs/metrics?name=long", timeout=60)) for _ in "12"]
            found["reply_bytes"] = len(client.get("/v1/runs/metrics?name=long").content)
        with in_background(create_app(settings)) as url, sync_playwright() as started:
            time.sleep(3)  # what is imported is imported by then
            browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            found["drawn_s"] = []
            for _ in range(2):
                page = browser.new_page()

                def draw(page: Any = page) -> None:
                    page.goto(f"{url}/runs?run=long")
                    page.wait_for_selector(LAST, timeout=60_000)

                found["drawn_s"].append(_timed(draw))
                loaded = page.evaluate("performance.getEntriesByType('resource').map((one) => one.transferSize)")
                found["loaded_bytes"] = sum(loaded)
                page.close()
            browser.close()
    return found


def _timed(do: Any) -> float:
    began = time.monotonic()
    do()
    return round(time.monotonic() - began, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description="What the page of runs costs for a long training.")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = measure(asked.steps)
    if asked.json:
        print(json.dumps(found))
        return
    print(f"{found['steps']:,} steps, {found['bytes'] / 1e6:.0f} MB of metrics")
    first, again = found["answered_s"]
    print(f"curves answered after {first} s, again {again} s; {found['reply_bytes']:,} bytes")
    print(f"drawn after {found['drawn_s'][0]} s, again {found['drawn_s'][1]} s; {found['loaded_bytes']:,} bytes loaded")


if __name__ == "__main__":
    main()
