"""Pictures of the site's pages for the documents, from a running server.

    kgwalk serve --data world --feedback said &
    python scripts/screenshots.py http://127.0.0.1:8000          # docs/images/ask-light.png, ask-dark.png, ...

Needs chromium and playwright. Look at them before they are committed; they are made smaller with 256 colours.
"""

from __future__ import annotations

import argparse
import io
import shutil
from pathlib import Path
from typing import Any, NamedTuple

IMAGES = Path(__file__).parents[1] / "docs" / "images"
WIDE: dict[str, Any] = {"viewport": {"width": 1200, "height": 860}}
PHONE: dict[str, Any] = {"viewport": {"width": 400, "height": 1150}, "device_scale_factor": 2, "is_mobile": True}
STILL = 4000  # milliseconds until a graph that is being laid out stands still


class Picture(NamedTuple):
    """A page, what is waited for on it, and how the browser stands to it."""

    name: str
    path: str
    wait: str
    options: dict[str, Any]


WALK = (
    "/explore?view=walk&question=which countries border both France and Germany?&from=France&from=Germany"
    '&call=tail_entities($1, "borders")&call=tail_entities($2, "borders")&call=intersect($3, $4)'
)
PICTURES = [
    Picture("ask-light", "/?q=which currencies are used in the countries that border Brazil?", ".outcome", WIDE),
    Picture(
        "ask-dark",
        "/?q=which countries border both France and Germany?",
        ".outcome",
        {**WIDE, "color_scheme": "dark"},
    ),
    Picture("explore-light", "/explore", "#schema svg", WIDE),
    Picture("explore-dark", "/explore?view=look&name=France", "#entity h2", {**WIDE, "color_scheme": "dark"}),
    Picture("explore-walk", WALK, "#steps .step >> nth=4", WIDE),
    Picture("explore-phone", "/explore?view=look&name=Portugal", "#entity h2", PHONE),
    Picture("ask-phone", "/?q=what is the capital of Franse?", ".outcome", PHONE),
    # of a server with --runs, over the runs of docs/guides/site.md
    Picture("runs-light", "/runs?run=world-tiny", '[data-chart="Seconds a step"] canvas', WIDE),
    Picture(
        "runs-dark",
        "/runs?run=eight-turns&with=two-turns",
        ".figures svg",
        {**WIDE, "color_scheme": "dark"},
    ),
    Picture("runs-walks", "/runs?run=world-tiny&tab=walks&show=right", ".turn", WIDE),
    Picture("runs-phone", "/runs?run=two-turns&tab=walks&show=wrong", ".turn", PHONE),
]


def main() -> None:
    from PIL import Image
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description="Pictures of the site's pages for the documents.")
    parser.add_argument("url")
    parser.add_argument("names", nargs="*", help="only these pictures")
    asked = parser.parse_args()
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for picture in PICTURES:
            if asked.names and picture.name not in asked.names:
                continue
            page = browser.new_page(**picture.options)
            page.goto(asked.url + picture.path)
            page.wait_for_selector(picture.wait, timeout=120_000)
            page.wait_for_timeout(STILL)
            taken = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            place = IMAGES / f"{picture.name}.png"
            taken.quantize(256, dither=Image.Dither.NONE).save(place, optimize=True)
            print(f"{place}: {place.stat().st_size:,} bytes")
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
