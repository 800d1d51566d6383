"""Looking around a graph, walking it by hand and uploading one: over real sockets, with real files and processes."""

from __future__ import annotations

import asyncio
import gzip
import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from conftest import FILMS, store_of
from kgwalk.bench.servers import ScanGraph
from kgwalk.data.bundled import world_path
from kgwalk.kg import blocks, files
from kgwalk.kg.graph import Graph
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.serve import explore_shapes, shapes
from kgwalk.serve.api import model_of
from kgwalk.serve.app import create_app
from kgwalk.serve.asgi import HttpError
from kgwalk.serve.graph_schema import draw
from kgwalk.serve.run import in_background
from kgwalk.serve.settings import ServeSettings
from kgwalk.serve.threads import GraphThreads, kept_for_each_store
from kgwalk.types import KgwalkError
from kgwalk.walk.kinds import kinds_of

MARKUP = "<img src=x onerror=alert(1)>"
OCTETS = {"Content-Type": "application/octet-stream"}
COMPANY = [
    ("Ana", "is_a", "person"),
    ("Bo", "is_a", "person"),
    ("Acme", "is_a", "company"),
    ("Ana", "works_for", "Acme"),
    ("Bo", "works_for", "Acme"),
    ("Ana", "age", "41"),
    ("Bo", "age", "35"),
    (MARKUP, "is_a", "person"),
    (MARKUP, "works_for", "Acme"),
]


@contextmanager
def serving(graphs: dict[str, Graph], **options: Any) -> Iterator[httpx.Client]:
    app = create_app(ServeSettings(**options), graphs)
    with in_background(app) as url, httpx.Client(base_url=url, timeout=20, trust_env=False) as client:
        yield client


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("company")
    graphs = {"world": open_graph(world_path()), "company": store_of(folder, COMPANY), "scan": ScanGraph(FILMS)}
    with serving(graphs) as made:
        yield made


REPLIES = {
    "/kg/entity": explore_shapes.EntityReply,
    "/kg/around": explore_shapes.AroundReply,
    "/kg/path": explore_shapes.PathReply,
    "/kg/kinds": explore_shapes.KindsReply,
    "/kg/members": explore_shapes.MembersReply,
    "/kg/schema": explore_shapes.SchemaReply,
    "/kg/uploads": explore_shapes.UploadsReply,
    "/kg/job": explore_shapes.JobReply,
}


def get(client: httpx.Client, path: str, **query: Any) -> dict[str, Any]:
    reply = client.get(path, params=query)
    assert reply.status_code == 200, reply.text
    model_of(REPLIES[path]).model_validate_json(reply.content)
    value: dict[str, Any] = reply.json()
    return value


def refused(reply: httpx.Response) -> tuple[int, str]:
    model_of(shapes.RequestError).model_validate_json(reply.content)
    return reply.status_code, reply.json()["error"]["kind"]


# Entities


def test_an_entity_with_its_relations_in_both_directions(client: httpx.Client) -> None:
    acme = get(client, "/kg/entity", graph="company", name="acme", examples=2)
    assert acme == {
        "name": "Acme",
        "id": None,
        "kinds": ["company"],
        "relations": [
            {"relation": "is_a", "out": True, "total": 1, "names": ["company"], "times": None, "values": False},
            {"relation": "works_for", "out": False, "total": 3, "names": ["Bo", "Ana"], "times": None, "values": False},
        ],
        "total": 2,
        "more": False,
    }
    ana = get(client, "/kg/entity", graph="company", name="Ana", limit=1)
    assert (ana["relations"][0]["relation"], ana["relations"][0]["values"], ana["more"]) == ("age", True, True)
    rest = get(client, "/kg/entity", graph="company", name="Ana", limit=5, offset=1)
    assert ([one["relation"] for one in rest["relations"]], rest["more"]) == (["is_a", "works_for"], False)


def test_what_is_not_there(client: httpx.Client) -> None:
    wrong = client.get("/kg/entity", params={"graph": "company", "name": "Acne"})
    assert refused(wrong) == (422, "unknown_entity")
    assert wrong.json()["error"]["nearest"][0] == "Acme"
    assert refused(client.get("/kg/entity", params={"graph": "nope", "name": "Acme"})) == (404, "unknown_graph")
    assert refused(client.get("/kg/entity", params={"graph": "company"})) == (422, "wrong_content")
    assert refused(client.get("/kg/entity?graph=company&name=Acme&limit=many")) == (422, "wrong_content")
    assert refused(client.get("/kg/entity?graph=company&name=Acme&limit=5000")) == (422, "wrong_content")
    assert refused(client.get("/kg/schema?graph=scan")) == (422, "not_a_store")
    assert get(client, "/kg/entity", graph="scan", name="Big")["total"] == 3


def test_around_an_entity_within_limits(client: httpx.Client) -> None:
    near = get(client, "/kg/around", graph="company", name="Acme", depth=2)
    names = {node["name"]: node["depth"] for node in near["nodes"]}
    assert names == {"Acme": 0, "company": 1, "Ana": 1, "Bo": 1, MARKUP: 1, "person": 2}
    assert ["Ana", "works_for", "Acme"] in near["facts"]
    assert not near["cut"]
    few = get(client, "/kg/around", graph="company", name="Acme", depth=2, nodes=3)
    assert (len(few["nodes"]), few["cut"]) == (3, True)
    assert all({head, tail} <= {node["name"] for node in few["nodes"]} for head, _, tail in few["facts"])
    valued = get(client, "/kg/around", graph="company", name="Ana", values=True)
    assert "41" in {node["name"] for node in valued["nodes"]}
    big = get(client, "/kg/around", graph="world", name="United States", depth=4, nodes=2000, each=100)
    assert len(big["nodes"]) == 2000


def test_a_store_goes_to_a_later_page_at_once(store: Callable[..., StoredGraph]) -> None:
    dated = [("Hub", "visit", f"Town {number % 5}", f"20{number:02}") for number in range(12)]
    for facts in (dated, [fact[:3] for fact in dated]):
        graph = store(facts)
        whole = graph.neighbors("Hub", "visit")
        for offset, limit in ((0, 2), (2, 2), (4, 2), (5, 2), (9, 1), (1, None)):
            page = graph.neighbors("Hub", "visit", limit=limit, offset=offset)
            end = None if limit is None else offset + limit
            assert (page.names, page.total) == (whole.names[offset:end], 5)
            assert page.times == (None if whole.times is None else whole.times[offset:end])
        assert (
            graph.neighbors("Town 1", "visit", out=False, limit=1).times
            == graph.neighbors("Town 1", "visit", out=False).times
        )


def test_how_two_entities_are_connected(client: httpx.Client) -> None:
    """Ana and Bo both work for Acme and are persons; that neither is 41 years old connects nobody."""
    found = get(client, "/kg/path", graph="company", start="ana", end="Bo", limit=1)
    assert (found["start"], found["hops"], found["more"], found["cut"]) == ("Ana", 2, True, False)
    rest = get(client, "/kg/path", graph="company", start="Ana", end="Bo", offset=1)
    assert sorted(found["paths"] + rest["paths"]) == [
        [["Ana", "is_a", "person"], ["Bo", "is_a", "person"]],
        [["Ana", "works_for", "Acme"], ["Bo", "works_for", "Acme"]],
    ]
    assert get(client, "/kg/path", graph="company", start="Ana", end="Bo", hops=1)["hops"] is None
    reply = client.get("/kg/path", params={"graph": "company", "start": "Ana", "end": "Bob"})
    assert (reply.status_code, reply.json()["error"]["nearest"]) == (422, ["Bo"])


# Kinds and the schema


def test_kinds_and_their_members_in_pages(client: httpx.Client) -> None:
    kinds = get(client, "/kg/kinds", graph="company", limit=1)
    assert kinds == {
        "kinds": [{"name": "person", "how": "type", "relation": "is_a", "members": 3}],
        "total": 3,
        "more": True,
    }
    assert [one["name"] for one in get(client, "/kg/kinds", graph="world", like="LANG")["kinds"]] == [
        "language",
        "official language",
    ]
    members = get(client, "/kg/members", graph="company", kind="person", limit=2, offset=1)
    assert (len(members["names"]), members["total"], members["more"]) == (2, 3, False)
    countries = get(client, "/kg/members", graph="world", kind="country", limit=3)
    assert (countries["total"], countries["more"]) == (242, True)
    assert refused(client.get("/kg/members?graph=company&kind=unicorn")) == (422, "wrong_content")


def test_the_schema_of_a_graph_with_types(client: httpx.Client) -> None:
    schema = get(client, "/kg/schema", graph="company")
    assert [(kind["name"], kind["members"]) for kind in schema["kinds"]] == [("person", 3), ("company", 1)]
    assert schema["kinds"][0]["values"] == [{"relation": "age", "looks": "number", "facts": 2}]
    assert schema["joins"] == [{"head": "person", "relation": "works_for", "tail": "company", "facts": 3}]
    assert (schema["facts"], schema["sampled"], schema["more"]) == (9, False, False)
    assert schema["relations"][0] == {"relation": "is_a", "facts": 4, "heads": 4, "tails": 2}


def test_the_schema_of_a_graph_without_types(client: httpx.Client) -> None:
    """The world says of nothing what it is; its kinds are told apart by their relations."""
    schema = get(client, "/kg/schema", graph="world")
    members = {kind["name"]: kind["members"] for kind in schema["kinds"]}
    assert {name: members[name] for name in ("country", "county", "state", "language", "currency", "timezone")} == {
        "country": 246,
        "county": 3232,
        "state": 51,
        "language": 219,
        "currency": 154,
        "timezone": 406,
    }
    joins = {(join["head"], join["relation"], join["tail"]): join["facts"] for join in schema["joins"]}
    assert joins["country", "borders", "country"] == 642
    assert joins["country", "language", "language"] == 557
    assert joins["like Washington, D.C.", "country", "country"] == 4324
    assert schema["sampled"]
    few = get(client, "/kg/schema", graph="world", limit=2, offset=1)
    assert (len(few["kinds"]), len(few["relations"]), few["more"]) == (2, 2, True)


def test_kinds_of_a_store_that_is_read_by_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An array that is read by block is not compared whole by `==`."""
    whole = store_of(tmp_path, COMPANY)
    expected = {kind.name: len(kind.members(whole)) for kind in kinds_of(whole).values()}
    picture = draw(whole)
    monkeypatch.setattr(files, "WHOLE_BYTES", 0)
    monkeypatch.setattr(files, "SMALL_BYTES", 0)
    for module in (blocks, files):
        monkeypatch.setattr(module, "BLOCK_BYTES", 64)
    by_block = store_of(tmp_path, COMPANY)
    assert isinstance(by_block.store.out.relation_array, blocks.BlockArray)
    assert {kind.name: len(kind.members(by_block)) for kind in kinds_of(by_block).values()} == expected
    assert draw(by_block) == picture


def test_who_asks_too_early_is_told_to_come_back_and_then_finds_it(store: Callable[..., StoredGraph]) -> None:
    graph, worked = store(COMPANY), []

    @kept_for_each_store
    def slowly(graph: StoredGraph) -> str:
        time.sleep(0.3)
        worked.append(graph)
        return "done"

    async def ask() -> str:
        threads = GraphThreads()
        with pytest.raises(HttpError) as told:
            await threads.run(lambda: slowly(graph), time.monotonic() + 0.05)
        assert (told.value.status, told.value.about["kind"]) == (503, "still_working")
        found = await threads.run(lambda: slowly(graph), time.monotonic() + 10)
        threads.close()
        return found

    assert (asyncio.run(ask()), len(worked)) == ("done", 1)


# Walking by hand


def walk(client: httpx.Client, **body: Any) -> dict[str, Any]:
    reply = client.post("/kg/walk", json=body)
    assert reply.status_code == 200, reply.text
    model_of(explore_shapes.HandWalkReply).model_validate_json(reply.content)
    value: dict[str, Any] = reply.json()
    return value


def test_a_walk_by_hand(client: httpx.Client) -> None:
    start = walk(client, graph="company", topics=["Acme"])
    assert [(step["set"], step["call"], step["names"]) for step in start["steps"]] == [(1, None, ["Acme"])]
    assert start["steps"][0]["entering"] == ["works_for"]
    assert start["calls"][0] == {
        "name": "tail_entities",
        "usage": "tail_entities(source, relation)",
        "words": "follow a relation forwards: the tails of facts whose heads are in the set",
    }
    calls = ['head_entities($1, "works_for")', 'argmax($2, "age")']
    whole = walk(client, graph="company", topics=["Acme"], calls=calls)
    assert [(step["set"], step["size"]) for step in whole["steps"]] == [(1, 1), (2, 3), (3, 1)]
    assert whole["steps"][1]["words"] == "follow works_for back from Acme"
    assert whole["steps"][1]["observation"].startswith("$2 = 3")
    assert (whole["answers"], whole["answer_kind"]) == (["Ana"], "entity")
    assert whole["evidence"]["Ana"] == [["Ana", "works_for", "Acme"], ["Ana", "age", "41"]]


def test_a_call_that_goes_wrong_makes_no_set(client: httpx.Client) -> None:
    calls = [
        'tail_entities($1, "owns")',
        "nonsense",
        'head_entities($9, "works_for")',
        'head_entities($1, "works_for")',
    ]
    found = walk(client, graph="company", topics=["Acme"], calls=calls)
    assert [(step["ok"], step["set"]) for step in found["steps"]][1:] == [
        (False, None),
        (False, None),
        (False, None),
        (True, 2),
    ]
    assert "there is no set $9" in found["steps"][3]["observation"]


def test_a_walk_starts_where_the_agent_would(client: httpx.Client) -> None:
    assert walk(client, graph="world", question="which countries border both France and Germany?")["topics"] == [
        "France",
        "Germany",
    ]
    kinds = walk(client, graph="world", kinds=["country"], names=2, calls=['top($1, "population", "3")'])
    assert [step["size"] for step in kinds["steps"]] == [242, 3]
    assert len(kinds["steps"][0]["names"]) == 2
    assert refused(client.post("/kg/walk", json={"graph": "company", "topics": ["Nobody"]})) == (422, "unknown_entity")
    assert refused(client.post("/kg/walk", json={"graph": "company", "kinds": ["x"]})) == (422, "wrong_content")
    assert refused(client.post("/kg/walk", json={"calls": ["x"] * 33})) == (422, "wrong_content")
    table = walk(client, graph="company", kinds=["person"], calls=['table($1, "age")'])
    assert (table["columns"], table["rows"][0]) == (["name", "age"], ["Bo", "35"])


# Uploads


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "uploads").mkdir()
    return tmp_path / "uploads"


@contextmanager
def with_uploads(folder: Path, **options: Any) -> Iterator[httpx.Client]:
    with serving({"films": ScanGraph(FILMS)}, uploads=str(folder), **options) as client:
        yield client


def send(client: httpx.Client, name: str, contents: dict[str, bytes], **options: Any) -> dict[str, Any]:
    """Upload files, and wait for the end of the build."""
    begun = client.post("/kg/build", json={"name": name, "files": list(contents), **options})
    assert begun.status_code == 200, begun.text
    job = begun.json()["id"]
    for file, content in contents.items():
        sent = client.put("/kg/build/file", params={"job": job, "file": file}, content=content, headers=OCTETS)
        assert sent.status_code == 200, sent.text
    until = time.monotonic() + 30
    while (told := get(client, "/kg/job", id=job))["state"] not in ("done", "failed", "stopped"):
        assert time.monotonic() < until, told
        time.sleep(0.05)
    return told


def names(client: httpx.Client) -> list[str]:
    return [one["name"] for one in client.get("/kg/graphs").json()["graphs"]]


def test_a_table_and_a_list_of_facts_become_graphs_that_are_served(folder: Path) -> None:
    with with_uploads(folder) as client:
        assert get(client, "/kg/uploads")["formats"][:2] == [".tsv", ".csv"]
        table = b"name,city,age\nAna,Porto,41\nBo,Bergen,35\n"
        told = send(client, "people", {"people.csv": table}, table=True)
        assert (told["state"], told["message"], told["report"]["triples"] > 4) == ("done", None, True)
        assert told["report"]["tables"][0].startswith("people: 2 rows")
        assert sorted(names(client)) == ["films", "people"]
        joins = get(client, "/kg/schema", graph="people")["joins"]
        assert all(join["head"] != join["tail"] for join in joins)  # that Ana's name is Ana joins nothing
        assert get(client, "/kg/entity", graph="people", name="Ana")["relations"][0]["names"] == ["41"]
        # whoever did not have to name the graph before need not now
        assert client.post("/kg/query", json=[{"op": "contains", "entity": "Big"}]).json()["results"][0]["value"]
        assert "kgwalk_graphs 2.0" in client.get("/metrics").text
        facts = {"a.tsv": b"Ana\tknows\tBo\n", "b.tsv.gz": gzip.compress(b"Bo\tknows\tCy\n")}
        assert send(client, "friends", facts)["report"]["triples"] == 2
        assert not list((folder / ".incoming").iterdir())
    with with_uploads(folder) as client:  # another server finds them again
        assert sorted(get(client, "/kg/uploads")["graphs"]) == ["friends", "people"]
        assert client.post("/kg/remove", json={"name": "friends"}).json() == {"removed": "friends"}
        assert refused(client.post("/kg/remove", json={"name": "films"})) == (404, "unknown_graph")
        assert sorted(names(client)) == ["films", "people"]
        assert sorted(path.name for path in folder.glob("*.kg")) == ["people.kg"]


def test_bad_rows_are_named_by_their_lines(folder: Path) -> None:
    rows = b"Ana\tknows\tBo\nBo\tknows\nCy\tknows\tAna\nnothing\n"
    with with_uploads(folder) as client:
        told = send(client, "friends", {"friends.tsv": rows}, table=False)
        assert (told["state"], told["bad"]) == ("failed", 2)
        assert told["message"] == "2 rows cannot be read; mend them, or leave them out"
        assert [(row["file"], row["line"]) for row in told["bad_rows"]] == [("friends.tsv", 2), ("friends.tsv", 4)]
        assert "got 2 columns" in told["bad_rows"][0]["message"]
        assert names(client) == ["films"]
        told = send(client, "friends", {"friends.tsv": rows}, table=False, skip_bad_rows=True)
        assert (told["state"], told["bad"], told["report"]["triples"]) == ("done", 2, 2)
        broken = send(client, "broken", {"broken.csv.gz": b"not gzip"})
        assert (broken["state"], broken["bad_rows"][0]["file"]) == ("failed", "broken.csv.gz")
        assert str(folder) not in json.dumps(broken)


def test_no_path_leads_out_of_the_folder(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.csv"
    with with_uploads(folder) as client:
        for name in ("../escape", "/etc/x", "..", "", "a/b", "a\x00b", "x" * 61, ".hidden"):
            reply = client.post("/kg/build", json={"name": name, "files": ["a.csv"]})
            assert refused(reply) == (422, "wrong_content"), name
        told = send(client, "safe", {"../../outside.csv": b"a,b,c\n", "/etc/passwd.tsv": b"d\te\tf\n"}, table=False)
        assert told["state"] == "done", told
        assert not outside.exists()
        job = client.post("/kg/build", json={"name": "two", "files": ["a.csv"]}).json()["id"]
        for file in ("../a.csv", "b.csv", ""):
            query = {"job": job, "file": file}
            reply = client.put("/kg/build/file", params=query, content=b"x", headers=OCTETS)
            assert refused(reply) == (422, "wrong_content")
        for one in ("../x", "x" * 500, ""):
            query = {"job": one, "file": "a.csv"}
            assert refused(client.put("/kg/build/file", params=query, content=b"x", headers=OCTETS)) == (
                404,
                "unknown_job",
            )
            assert refused(client.get("/kg/job", params={"id": one})) == (404, "unknown_job")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["uploads"]
        assert stat_mode(folder / ".incoming" / job) == 0o700


def stat_mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_only_known_formats_and_so_many_bytes(folder: Path) -> None:
    with with_uploads(folder, max_upload=1000) as client:
        for files_ in (["run.py"], ["a"], ["a.csv.exe"], [".csv"], ["a.csv", "a.csv"], [], ["a.csv"] * 17):
            reply = client.post("/kg/build", json={"name": "g", "files": files_})
            assert refused(reply) == (422, "wrong_content"), files_
        job = client.post("/kg/build", json={"name": "g", "files": ["a.csv"]}).json()["id"]
        query = {"job": job, "file": "a.csv"}
        assert refused(client.put("/kg/build/file", params=query, content=b"{}", headers={})) == (415, "not_octets")
        assert refused(client.put("/kg/build/file", params=query, content=b"x" * 1001, headers=OCTETS)) == (
            413,
            "upload_too_large",
        )
        assert get(client, "/kg/job", id=job)["state"] == "failed"
        job = client.post("/kg/build", json={"name": "g", "files": ["a.csv"]}).json()["id"]

        def endless() -> Iterator[bytes]:  # chunked: it does not say its size beforehand
            yield from [b"x" * 600] * 10

        query["job"] = job
        reply = client.put("/kg/build/file", params=query, content=endless(), headers=OCTETS)
        assert refused(reply) == (413, "upload_too_large")
        assert not list((folder / ".incoming").iterdir())


def test_an_upload_can_be_stopped_and_its_name_is_free_again(folder: Path) -> None:
    with with_uploads(folder) as client:
        job = client.post("/kg/build", json={"name": "g", "files": ["a.csv"]}).json()["id"]
        taken = client.post("/kg/build", json={"name": "g", "files": ["a.csv"]})
        assert refused(taken) == (422, "name_taken")
        assert refused(client.post("/kg/build", json={"name": "films", "files": ["a.csv"]})) == (422, "name_taken")
        assert client.post("/kg/job/stop", json={"id": job}).json()["state"] == "stopped"
        query = {"job": job, "file": "a.csv"}
        assert refused(client.put("/kg/build/file", params=query, content=b"x", headers=OCTETS)) == (422, "not_awaited")
        assert send(client, "g", {"a.csv": b"a,b,c\n"})["state"] == "done"


def test_a_database_that_is_one_and_one_that_is_not(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE product (id INTEGER PRIMARY KEY, name TEXT, price INT)")
        database.execute("INSERT INTO product VALUES (1, 'Lamp', 40)")
    database.close()
    with with_uploads(folder) as client:
        assert send(client, "shop", {"shop.db": path.read_bytes()})["state"] == "done"
        told = send(client, "fake", {"fake.db": b"#!/bin/sh\necho hello\n"})
        assert (told["state"], "SQLite" in told["message"]) == ("failed", True)


def test_a_server_without_a_folder_takes_none_and_one_with_workers_cannot(client: httpx.Client) -> None:
    about = get(client, "/kg/uploads")
    assert (about["allowed"], about["formats"]) == (False, [])
    assert refused(client.post("/kg/build", json={"name": "x", "files": ["a.csv"]})) == (403, "no_uploads")
    reply = client.put("/kg/build/file?job=x&file=a.csv", content=b"x", headers=OCTETS)
    assert refused(reply) == (403, "no_uploads")
    with pytest.raises(KgwalkError, match="needs one worker"):
        ServeSettings(uploads="here", workers=2)


def test_the_key_the_host_and_the_origin_are_checked_everywhere(folder: Path) -> None:
    paths = [("GET", path) for path in REPLIES]
    paths += [("POST", f"/kg/{path}") for path in ("walk", "build", "job/stop", "remove")] + [("PUT", "/kg/build/file")]
    with with_uploads(folder, api_key="s3cret") as client:
        for method, path in paths:
            assert refused(client.request(method, path, json={})) == (401, "unauthorized"), path
    with with_uploads(folder) as client:
        for method, path in paths:
            reply = client.request(method, path, json={}, headers={"Origin": "http://elsewhere.example"})
            assert refused(reply) == (403, "foreign_origin"), path
            reply = client.request(method, path, json={}, headers={"Host": "rebound.example"})
            assert refused(reply) == (421, "unknown_host"), path
        assert refused(client.post("/kg/build", content=b"{}", headers={"Content-Type": "text/plain"})) == (
            415,
            "not_json",
        )


def test_every_route_is_described(client: httpx.Client) -> None:
    described = client.get("/openapi.json").json()
    for path in REPLIES:
        assert "200" in described["paths"][path]["get"]["responses"]
    parameters = {one["name"]: one for one in described["paths"]["/kg/entity"]["get"]["parameters"]}
    assert (parameters["name"]["required"], parameters["limit"]["required"]) == (True, False)
    assert "application/octet-stream" in described["paths"]["/kg/build/file"]["put"]["requestBody"]["content"]
    assert described["paths"]["/kg/walk"]["post"]["requestBody"]
