"""How long the replies take by which people look around a graph: /kg/entity, /kg/around, /kg/kinds, /kg/schema, ...

    python -m benchmarks.explore                                # the bundled world, and a made graph of 2 million facts
    python -m benchmarks.explore --facts 10000000 my.kg         # a made graph of another size, and a store of yours

Over loopback, with a server in this process: the first request of each, which works out what is then kept, and the
median of nine more. Then the made graph is uploaded as a file, while another client asks. The made graph has people,
companies, cities, countries and products, with classes and values.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import threading
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any

import httpx

from kgwalk.data.bundled import world_path
from kgwalk.kg.build import build
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.serve.app import create_app
from kgwalk.serve.run import in_background
from kgwalk.serve.settings import ServeSettings

TIMES = 9
A_PERSON = 6.55  # facts of the made graph for each person in it


def made_graph(folder: Path, facts: int) -> StoredGraph:
    """A graph of about so many facts."""
    draw, people = random.Random(1), int(facts / A_PERSON)
    companies, cities, products = people // 15, people // 60, people // 10
    with (folder / "made.tsv").open("w") as file:

        def say(head: str, relation: str, tail: object) -> None:
            file.write(f"{head}\t{relation}\t{tail}\n")

        for number in range(cities):
            say(f"City {number}", "is_a", "city")
            say(f"City {number}", "located_in", f"Country {number % 120}")
            say(f"City {number}", "population", draw.randint(1_000, 10_000_000))
        for number in range(120):
            say(f"Country {number}", "is_a", "country")
        for number in range(companies):
            say(f"Company {number}", "is_a", "company")
            say(f"Company {number}", "based_in", f"City {draw.randrange(cities)}")
        for number in range(products):
            say(f"Product {number}", "is_a", "product")
            say(f"Product {number}", "made_by", f"Company {draw.randrange(companies)}")
            say(f"Product {number}", "price", draw.randint(1, 9_999))
        for number in range(people):
            name = f"Person {number}"
            say(name, "is_a", "person")
            say(name, "born_in", f"City {int(cities * draw.random() ** 3)}")  # a few cities have many
            say(name, "works_for", f"Company {int(companies * draw.random() ** 2)}")
            say(name, "born_on", f"{draw.randint(1930, 2005)}-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}")
            say(name, "likes", f"Product {draw.randrange(products)}")
            say(name, "knows", f"Person {draw.randrange(people)}")
    build([folder / "made.tsv"], folder / "made.kg")
    return open_graph(folder / "made.kg", private=True)


def requests_of(graph: StoredGraph) -> dict[str, tuple[str, dict[str, Any]]]:
    """What is asked of a graph, about its most mentioned entity and its largest relation there."""
    hub = graph.store.entity[0]
    ways = [
        (graph.neighbors(hub, one, out=out, limit=1).total, one, out)
        for out in (True, False)
        for one in graph.relations(hub, out=out)
    ]
    total, relation, out = max(ways)
    neighbours = {"op": "neighbors", "entity": hub, "relation": relation, "out": out, "limit": 20}
    return {
        "schema": ("GET", {"path": "/kg/schema"}),
        "kinds": ("GET", {"path": "/kg/kinds"}),
        "entity": ("GET", {"path": "/kg/entity", "name": hub}),
        "around, 1 hop, 60 entities": ("GET", {"path": "/kg/around", "name": hub}),
        "around, 3 hops, 2,000 entities": (
            "GET",
            {"path": "/kg/around", "name": hub, "depth": 3, "nodes": 2000, "each": 100},
        ),
        "neighbours, first page": ("POST", {"path": "/kg/query", "body": [neighbours]}),
        "neighbours, last page": (
            "POST",
            {"path": "/kg/query", "body": [{**neighbours, "offset": max(0, total - 20)}]},
        ),
        "walk by hand, two calls": (
            "POST",
            {
                "path": "/kg/walk",
                "body": {
                    "topics": [hub],
                    "calls": [f"{'tail' if out else 'head'}_entities($1, {json.dumps(relation)})", "count($2)"],
                },
            },
        ),
    }


def asked(client: httpx.Client, graph: str, method: str, about: dict[str, Any]) -> float:
    """Seconds until the reply is there, asked again where the server still works on it."""
    fields = {name: value for name, value in about.items() if name not in ("path", "body")}
    body = about.get("body")
    body = [{**one, "graph": graph} for one in body] if isinstance(body, list) else body and {**body, "graph": graph}
    began = perf_counter()
    while True:
        if method == "GET":
            reply = client.get(about["path"], params={**fields, "graph": graph})
        else:
            reply = client.post(about["path"], json=body)
        if reply.status_code != 503:
            assert reply.status_code == 200, reply.text
            return perf_counter() - began
        sleep(0.2)


def upload(client: httpx.Client, url: str, path: Path) -> dict[str, float]:
    """Seconds until a file is a graph that is served, and what another client waits meanwhile, in milliseconds."""
    waits: list[float] = []
    done = threading.Event()

    def ask_meanwhile() -> None:
        with httpx.Client(base_url=url, timeout=120, trust_env=False) as other:
            while not done.wait(0.02):
                waits.append(1000 * asked(other, "world", "GET", {"path": "/kg/entity", "name": "France"}))

    asking = threading.Thread(target=ask_meanwhile)
    asking.start()
    began = perf_counter()
    job = client.post("/kg/build", json={"name": "uploaded", "files": [path.name]}).json()["id"]
    headers = {"Content-Type": "application/octet-stream"}
    client.put("/kg/build/file", params={"job": job, "file": path.name}, content=path.read_bytes(), headers=headers)
    while (state := client.get("/kg/job", params={"id": job}).json()["state"]) not in ("done", "failed"):
        sleep(0.05)
    seconds = perf_counter() - began
    done.set()
    asking.join()
    assert state == "done"
    return {"bytes": path.stat().st_size, "seconds": seconds, "others_ms": median(waits), "others_most_ms": max(waits)}


def main() -> None:
    parser = argparse.ArgumentParser(description="How long the replies take by which people look around a graph.")
    parser.add_argument("stores", nargs="*", type=Path)
    parser.add_argument("--facts", type=int, default=2_000_000, help="of the made graph; 0 for none")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    uploaded: dict[str, float] | None = None
    with tempfile.TemporaryDirectory() as folder:
        graphs = {"world": open_graph(world_path(), private=True)}
        graphs |= {path.name.removesuffix(".kg"): open_graph(path, private=True) for path in given.stores}
        if given.facts:
            graphs["made"] = made_graph(Path(folder), given.facts)
        app = create_app(ServeSettings(uploads=f"{folder}/uploads", max_upload=1 << 34), graphs)
        with in_background(app) as url, httpx.Client(base_url=url, timeout=120, trust_env=False) as client:
            client.get("/health")
            for name, graph in graphs.items():
                for what, (method, about) in requests_of(graph).items():
                    first = asked(client, name, method, about)
                    again = median(asked(client, name, method, about) for _ in range(TIMES))
                    rows.append(
                        {
                            "graph": name,
                            "facts": len(graph),
                            "what": what,
                            "first_ms": round(first * 1000, 1),
                            "again_ms": round(again * 1000, 1),
                        }
                    )
            if given.facts:
                uploaded = upload(client, url, Path(folder) / "made.tsv")
    if given.json:
        print(json.dumps({"rows": rows, "upload": uploaded}))
        return
    for row in rows:
        times = f"{row['first_ms']:>10,.1f}{row['again_ms']:>10,.1f}  ms"
        print(f"{row['graph']:<10}{row['facts']:>12,}  {row['what']:<34}{times}")
    if uploaded is not None:
        print(f"an upload of {uploaded['bytes']:,} bytes: served after {uploaded['seconds']:.1f} s")
        print(f"others waited {uploaded['others_ms']:.1f} ms in the median, {uploaded['others_most_ms']:.0f} at most")


if __name__ == "__main__":
    main()
