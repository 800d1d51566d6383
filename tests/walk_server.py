"""A server process with a scripted agent over a small graph of films, for tests of streams and of the page.

    with walk_server(tmp_path) as url: ...

Run as a program it serves until it is stopped, and prints its URL. A question that says "slowly" takes a second a turn.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kgwalk.kg.build import build
from kgwalk.kg.store import load_graph
from kgwalk.llm.engine import Generation, Request, ScriptedEngine
from kgwalk.serve.run import run_server
from kgwalk.serve.settings import ServeSettings

HOSTILE = "<img src=x onerror=\"document.title='owned'\">"
FACTS = [
    ("Big", "starred_actors", "Tom Hanks"),
    ("Big", "directed_by", "Penny Marshall"),
    ("Big", "release_year", "1988"),
    ("Cast Away", "starred_actors", "Tom Hanks"),
    ("Cast Away", "starred_actors", "Helen Hunt"),
    ("Cast Away", "directed_by", "Robert Zemeckis"),
    ("Cast Away", "release_year", "2000"),
    ("Contact", "directed_by", "Robert Zemeckis"),
    ("Contact", "starred_actors", "Jodie Foster"),
    ("Contact", "release_year", "1997"),
    ("Robert Zemeckis", "born_in", "Chicago"),
    ("Penny Marshall", "born_in", "New York"),
    ("Contact", "has_tag", HOSTILE),
    *(("Chicago", "has_street", f"Street {number}") for number in range(1, 61)),
]
DIRECTORS = "who directed the films Tom Hanks starred in?"
HOW_MANY = "how many films did Robert Zemeckis direct?"
IS_IT = "did Robert Zemeckis direct Contact?"
TABLE = "list the films of Robert Zemeckis with their release year"
NOT_SAID = "what did Contact cost?"
TAGGED = "what is the tag of Contact?"
STREETS = "which streets does Chicago have?"
ANY_ONE = "which film of Robert Zemeckis is the first?"
ODDLY_TAGGED = "which film has the same tag as Contact?"
WALKS = {
    DIRECTORS: ['head_entities($1, "starred_actors")', 'tail_entities($2, "directed_by")', "<answer>$3</answer>"],
    HOW_MANY: ['head_entities($1, "directed_by")', "count($2)", "<answer>$3</answer>"],
    IS_IT: ['head_entities($1, "directed_by")', "is_in($2, $3)", "<answer>$4</answer>"],
    TABLE: ['head_entities($1, "directed_by")', 'table($2, "release_year")', "<answer>$3</answer>"],
    NOT_SAID: ['tail_entities($1, "costs")', "<answer>[]</answer>"],
    TAGGED: ['tail_entities($1, "has_tag")', "<answer>$2</answer>"],
    ANY_ONE: ['head_entities($1, "directed_by")', 'nth($2, "1")', "<answer>$3</answer>"],  # no query knows the order
    ODDLY_TAGGED: [f'head_entities({json.dumps(HOSTILE)}, "has_tag")', "<answer>$2</answer>"],
    STREETS: ['tail_entities($1, "has_street")', "<answer>$2</answer>"],
}


class SlowOrNot(ScriptedEngine):
    """Walks as WALKS says. It writes a line to stderr for each walk that was cut off."""

    def __init__(self) -> None:
        super().__init__(self._turn)

    def _turn(self, request: Request) -> str:
        asked = request.messages[1].content
        walk = next((walk for question, walk in WALKS.items() if question in asked), ["<answer>[]</answer>"])
        return walk[sum(message.role == "assistant" for message in request.messages)]

    async def generate(self, request: Request) -> Generation:
        if "slowly" in request.messages[1].content:
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                print("cut off", file=sys.stderr, flush=True)
                raise
        return await super().generate(request)


@contextmanager
def walk_server(folder: Path, **options: str) -> Iterator[str]:
    """The URL of a server in a process of its own; `cut_off` is in the file stderr.txt of the folder."""
    command = [
        sys.executable,
        str(Path(__file__)),
        str(folder),
        *(f"{name}={value}" for name, value in options.items()),
    ]
    with (
        (folder / "stderr.txt").open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as server,
    ):
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            assert url.startswith("http://"), (folder / "stderr.txt").read_text()
            yield url
        finally:
            server.terminate()
            server.wait(20)


def main(folder: Path, options: list[str]) -> None:
    store, recipe = folder / "films.kg", folder / "full.toml"
    if not store.exists():
        (folder / "films.tsv").write_text("".join("\t".join(fact) + "\n" for fact in FACTS))
        build([folder / "films.tsv"], store)
        recipe.write_text('[protocol]\nname = "kgwalk"\nlanguage = "full"\n')
    values: dict[str, str | int] = {}
    for option in options:
        name, _, text = option.partition("=")
        values[name] = int(text) if text.isdecimal() else text
    settings = ServeSettings(port=values.pop("port", 0), model="scripted", recipe=str(recipe), **values)  # type: ignore[arg-type]
    graphs = {"films": load_graph(store)}
    run_server(settings, graphs=graphs, engine=SlowOrNot(), ready=lambda url: print(url, flush=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
