"""The server over real sockets: batches, limits, the key, views, counts, shutdown, several workers."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil  # type: ignore[import-untyped]
import pytest
from fastapi import HTTPException
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from pydantic import ValidationError

from kgwalk.bench.servers import ScanGraph
from kgwalk.kg.build import build
from kgwalk.kg.graph import Graph
from kgwalk.serve import shapes
from kgwalk.serve.api import model_of
from kgwalk.serve.app import App, create_app
from kgwalk.serve.run import bind, in_background, run_server
from kgwalk.serve.settings import ServeSettings, check_bind, read_key
from kgwalk.types import KgwalkError, Neighbors, RemoteError, UnknownQuestion

FACTS = [
    ("Big", "film.film.director", "Penny Marshall"),
    ("Big", "film.film.star", "Tom Hanks"),
    ("Cast Away", "film.film.star", "Tom Hanks"),
    ("Cast Away", "film.film.star", "Helen Hunt"),
]
DATED = [("Iran", "visit", "Malaysia", "2006-05"), ("Japan", "visit", "Malaysia", "2005-05")]
JSON = {"Content-Type": "application/json"}
GOOD = {"action": "get_tail_relations", "entity": "Big"}
GOOD_RESULT = {
    "ok": True,
    "items": ["film.film.director", "film.film.star"],
    "total": 2,
    "left_out": 0,
    "text": 'Tail relations for entity "Big": film.film.director, film.film.star',
}
quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Dated(ScanGraph):
    """With the views that a store has: question "q1" holds the first fact; a window is two years."""

    def question(self, question: str) -> Dated:
        if question != "q1":
            raise UnknownQuestion(question)
        return Dated(self.triples[:1])

    def between(self, start: str | None, end: str | None) -> Dated:
        if not (start or "2000").isdigit():
            raise ValueError(f"{start!r} is not a time")
        return Dated(fact for fact in self.triples if (start or "") <= fact.time[:4] <= (end or "9999"))

    def info(self) -> dict[str, Any]:
        return {"triples": len(self.triples), "path": "/secret/place"}


class Slow(ScanGraph):
    def relations(self, entity: str, *, out: bool = True) -> list[str]:
        time.sleep(0.01)
        return super().relations(entity, out=out)


class Broken(ScanGraph):
    def relations(self, entity: str, *, out: bool = True) -> list[str]:
        raise ZeroDivisionError("secret detail")

    def neighbors(self, entity: str, relation: str, *, out: bool = True, limit: int | None = None) -> Neighbors:
        raise RemoteError("http://secret-host failed")


@contextmanager
def serving(graphs: Mapping[str, Graph] | None = None, **options: Any) -> Iterator[httpx.Client]:
    app = create_app(ServeSettings(**options), graphs or {"films": ScanGraph(FACTS)})
    with in_background(app) as url, httpx.Client(base_url=url, timeout=20, trust_env=False) as client:
        yield client


@pytest.fixture(scope="module")
def films() -> Iterator[httpx.Client]:
    with serving() as client:
        yield client


def actions(client: httpx.Client, *items: object) -> list[dict[str, Any]]:
    response = client.post("/kg/actions", json={"actions": items})
    assert response.status_code == 200, response.text
    model_of(shapes.ActionResults).model_validate_json(response.content)
    results: list[dict[str, Any]] = response.json()["results"]
    assert len(results) == len(items)
    return results


def queries(client: httpx.Client, *items: object) -> list[dict[str, Any]]:
    response = client.post("/kg/query", json={"queries": items})
    assert response.status_code == 200, response.text
    model_of(shapes.QueryResults).model_validate_json(response.content)
    results: list[dict[str, Any]] = response.json()["results"]
    assert len(results) == len(items)
    return results


def error_of(response: httpx.Response) -> tuple[int, str]:
    model_of(shapes.RequestError).model_validate_json(response.content)
    return response.status_code, response.json()["error"]["kind"]


def counts(client: httpx.Client) -> dict[tuple[str, ...], float]:
    """(sample, label values...) -> value"""
    text = client.get("/metrics").text
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


# --- POST /kg/actions


def test_one_action(films: httpx.Client) -> None:
    assert actions(films, GOOD) == [GOOD_RESULT]


def test_a_bare_list_and_an_empty_batch(films: httpx.Client) -> None:
    assert films.post("/kg/actions", json=[GOOD]).json() == {"results": [GOOD_RESULT]}
    assert films.post("/kg/actions", json=[]).json() == {"results": []}
    assert actions(films) == []


def test_format_limit_and_dates() -> None:
    with serving({"visits": Dated(DATED), "films": ScanGraph(FACTS)}, limit=2) as client:
        tree, cut, capped, dated = actions(
            client,
            {"graph": "films", **GOOD, "format": "hierarchical"},
            {"graph": "films", **GOOD, "limit": 1},
            {
                "graph": "films",
                "action": "get_tail_entities",
                "entity": "Big",
                "relation": "film.film.star",
                "limit": 99,
            },
            {"graph": "visits", "action": "get_head_entities", "entity": "Malaysia", "relation": "visit"},
        )
    assert tree["text"] == 'Tail relations for entity "Big":\nfilm\n  film: director, star'
    assert (cut["items"], cut["total"], cut["left_out"]) == (["film.film.director"], 2, 1)
    assert "times" not in capped
    assert dated["times"] == [["2006-05"], ["2005-05"]]
    assert dated["text"].endswith(": Iran [2006-05]; Japan [2005-05]")


BAD_ITEMS: list[tuple[object, str, str]] = [
    (5, "BAD_REQUEST", "an action is an object, not a number"),
    (None, "BAD_REQUEST", "an action is an object, not null"),
    ([GOOD], "BAD_REQUEST", "an action is an object, not a list"),
    ({}, "KG_FORMAT_ERROR", "Missing required fields: action"),
    ({"action": 7}, "BAD_REQUEST", '"action" must be a string, not a number'),
    ({**GOOD, "entity": ["Big"]}, "BAD_REQUEST", '"entity" must be a string, not a list'),
    ({**GOOD, "entitty": "Big"}, "BAD_REQUEST", 'unknown field "entitty"; did you mean "entity"?'),
    ({**GOOD, "limit": True}, "BAD_REQUEST", '"limit" must be a whole number, not a boolean'),
    ({**GOOD, "limit": -1}, "BAD_REQUEST", '"limit" must be at least 0, not -1'),
    ({**GOOD, "suggest": 21}, "BAD_REQUEST", '"suggest" must be between 0 and 20, not 21'),
    ({**GOOD, "format": "tree"}, "BAD_REQUEST", '"format" must be "flat" or "hierarchical"'),
    ({**GOOD, "graph": "x"}, "UNKNOWN_GRAPH", 'graph "x" is not served; there are "films"'),
    ({**GOOD, "question": "q9"}, "KG_SAMPLE_NOT_FOUND", 'Sample "q9" not found in KG'),
    ({**GOOD, "start": "2005"}, "BAD_REQUEST", 'this graph has no time windows; leave out "start" and "end"'),
    (
        {"action": "get_tail_relations"},
        "KG_FORMAT_ERROR",
        "Missing required fields for get_tail_relations: entity_name",
    ),
    ({**GOOD, "relation": "r"}, "KG_FORMAT_ERROR", "get_tail_relations accepts only one entity argument"),
    ({**GOOD, "entity": "Bigg"}, "KG_ENTITY_NOT_FOUND", 'Entity "Bigg" not found in KG'),
]


def test_one_bad_item_among_good_ones(films: httpx.Client) -> None:
    items = [item for bad, _, _ in BAD_ITEMS for item in (GOOD, bad)] + [GOOD]
    results = actions(films, *items)
    assert results[::2] == [GOOD_RESULT] * (len(BAD_ITEMS) + 1)
    assert [(one["error"]["kind"], one["error"]["message"]) for one in results[1::2]] == [
        (kind, message) for _, kind, message in BAD_ITEMS
    ]


any_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
field_values = any_json | st.sampled_from(["Big", "film.film.star", "flat", "films", "get_tail_entities", 3])
fields = st.sampled_from(["graph", "question", "action", "entity", "relation", "limit", "format", "suggest"])


@quick
@given(any_json | st.dictionaries(fields | st.sampled_from(["start", "end", "more"]), field_values))
def test_no_item_hurts_its_neighbours(films: httpx.Client, item: object) -> None:
    before, result, after = actions(films, GOOD, item, GOOD)
    assert before == after == GOOD_RESULT
    assert result["ok"] or result["error"]["message"]


@quick
@given(st.dictionaries(fields, field_values))
def test_the_schema_and_the_checks_by_hand_agree(films: httpx.Client, item: dict[str, object]) -> None:
    try:
        model_of(shapes.ActionItem).model_validate(item)
        fits = True
    except ValidationError:
        fits = False
    (result,) = actions(films, item)
    error = result.get("error", {})
    refused = error.get("kind") == "BAD_REQUEST" or error.get("message") == "Missing required fields: action"
    assert fits is not refused


@quick
@given(
    any_json
    | st.dictionaries(
        st.sampled_from(["op", "entity", "relation", "out", "head", "text", "k", "limit", "offset"]),
        field_values | st.sampled_from(["neighbors", "match", "find"]),
    )
)
def test_no_query_hurts_its_neighbours(films: httpx.Client, item: object) -> None:
    query = {"op": "contains", "entity": "Big"}
    before, result, after = queries(films, query, item, query)
    assert before == after == {"ok": True, "value": True}
    assert result["ok"] or result["error"]["message"]


def test_suggestions_only_when_asked(films: httpx.Client) -> None:
    plain, entity, relation = actions(
        films,
        {**GOOD, "entity": "Tom Hank"},
        {**GOOD, "entity": "Tom Hank", "suggest": 1},
        {"action": "get_tail_entities", "entity": "Big", "relation": "film.film.actor", "suggest": 2},
    )
    assert "nearest" not in plain["error"]
    assert entity["error"]["nearest"] == ["Tom Hanks"]
    assert sorted(relation["error"]["nearest"]) == ["film.film.director", "film.film.star"]


def test_views_and_several_graphs() -> None:
    visit = {"graph": "visits", "action": "get_head_entities", "entity": "Malaysia", "relation": "visit"}
    with serving({"visits": Dated(DATED), "films": ScanGraph(FACTS)}) as client:
        question, window, missing, bad_date, nameless = actions(
            client,
            {**visit, "question": "q1"},
            {**visit, "start": "2005", "end": "2005"},
            {**visit, "question": "q2"},
            {**visit, "start": "May"},
            GOOD,
        )
        graphs = client.get("/kg/graphs")
    assert question["items"] == ["Iran"]
    assert window["items"] == ["Japan"]
    assert missing["error"] == {
        "kind": "KG_SAMPLE_NOT_FOUND",
        "title": "Sample Missing",
        "message": 'Sample "q2" not found in KG',
    }
    assert bad_date["error"]["message"] == "bad time window: 'May' is not a time"
    assert nameless["error"]["message"] == '"graph" is missing; there are "visits", "films"'
    model_of(shapes.GraphList).model_validate_json(graphs.content)
    assert graphs.json() == {"graphs": [{"name": "visits", "info": {"triples": 2}}, {"name": "films", "info": {}}]}


# --- POST /kg/query


def test_every_op(films: httpx.Client) -> None:
    assert [
        one["value"]
        for one in queries(
            films,
            {"op": "contains", "entity": "Big"},
            {"op": "has_relation", "relation": "Big"},
            {"op": "relations", "entity": "Tom Hanks", "out": False},
            {"op": "neighbors", "entity": "Cast Away", "relation": "film.film.star", "limit": 1, "offset": 1},
            {"op": "match", "relation": "film.film.star", "limit": 1, "offset": 1},
            {"op": "find", "text": "big", "k": 1},
            {"op": "find_relation", "text": "film.film.star", "k": 1},
        )
    ] == [
        True,
        False,
        ["film.film.star"],
        {"names": ["Tom Hanks"], "total": 2, "times": None},
        [["Cast Away", "film.film.star", "Tom Hanks", ""]],
        [{"name": "Big", "score": 1.0, "how": "normalised", "id": None}],
        [{"name": "film.film.star", "score": 1.0, "how": "exact", "id": None}],
    ]


def test_pages_say_whether_more_follows(films: httpx.Client) -> None:
    star = {"op": "match", "relation": "film.film.star"}
    pages = queries(films, {**star, "limit": 2}, {**star, "limit": 2, "offset": 2}, {**star, "limit": 0}, star)
    assert [(len(page["value"]), page["more"]) for page in pages] == [
        (2, True),
        (1, False),
        (0, True),
        (3, False),
    ]


def test_query_errors(films: httpx.Client) -> None:
    results = queries(
        films,
        {"op": "relations", "entity": "Bigg"},
        {"op": "neighbors", "entity": "Big", "relation": "r"},
        {"op": "contains", "entity": "Big", "question": "q"},
        {"op": "contains", "entity": "Big", "graph": "g"},
        {"op": "drop"},
        {"op": "contains"},
        {"op": "match", "limit": 10_001},
    )
    assert [one["error"]["kind"] for one in results] == [
        "unknown_entity",
        "unknown_relation",
        "unknown_question",
        "unknown_graph",
        "bad_request",
        "bad_request",
        "bad_request",
    ]
    assert results[0]["error"]["name"] == "Bigg"


# --- limits of a whole request


def test_time_limit_keeps_what_was_done() -> None:
    with serving({"slow": Slow(FACTS)}, time_limit=0.25) as client:
        results = actions(client, *[GOOD] * 60)
    done = sum(one["ok"] for one in results)
    assert 1 <= done <= 25
    assert results[:done] == [GOOD_RESULT] * done
    assert {one["error"]["kind"] for one in results[done:]} == {"TIME_LIMIT"}


def test_a_long_match_stops_at_the_time_limit() -> None:
    class Endless(ScanGraph):
        def match(self, *pattern: Any, **limits: Any) -> Iterator[Any]:
            while True:
                time.sleep(0.0001)
                yield FACTS[0]

    with serving({"endless": Endless(FACTS)}, time_limit=0.25) as client:
        start = time.monotonic()
        long, after = queries(client, {"op": "match", "offset": 1_000_000}, {"op": "contains", "entity": "Big"})
    assert time.monotonic() - start < 5
    assert (long["error"]["kind"], after["error"]["kind"]) == ("time_limit", "time_limit")


def test_a_long_batch_does_not_hold_up_others() -> None:
    with serving({"slow": Slow(FACTS)}) as client:
        batch = threading.Thread(target=actions, args=(client, *[GOOD] * 100))
        batch.start()
        time.sleep(0.1)
        waits: list[float] = []
        while batch.is_alive() and len(waits) < 5:
            start = time.monotonic()
            assert client.get("/health").status_code == 200
            waits.append(time.monotonic() - start)
        batch.join()
    assert waits
    assert min(waits) < 0.5  # the batch takes 1 s


def test_sizes() -> None:
    with serving(max_body=2000, max_batch=5) as client:
        assert len(actions(client, *[GOOD] * 5)) == 5
        assert error_of(client.post("/kg/actions", json=[GOOD] * 6)) == (413, "batch_too_large")
        big = json.dumps([{**GOOD, "entity": "x" * 2000}]).encode()
        assert error_of(client.post("/kg/actions", content=big, headers=JSON)) == (413, "body_too_large")
        chunks = (big[at : at + 100] for at in range(0, len(big), 100))
        assert error_of(client.post("/kg/actions", content=chunks, headers=JSON)) == (413, "body_too_large")
        # also where FastAPI answers, and the server is none the worse for it
        assert error_of(client.post("/nowhere", content=big, headers=JSON)) == (413, "body_too_large")
        assert actions(client, GOOD) == [GOOD_RESULT]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", (400, "malformed_json")),
        (b"[1,", (400, "malformed_json")),
        (b'"\xff"', (400, "malformed_json")),
        (b"[" * 5000, (400, "malformed_json")),
        (b"7", (422, "wrong_content")),
        (b"{}", (422, "wrong_content")),
        (b'{"actions": {}}', (422, "wrong_content")),
        (b'{"actions": [], "more": 1}', (422, "wrong_content")),
    ],
)
def test_wrong_bodies(films: httpx.Client, body: bytes, expected: tuple[int, str]) -> None:
    assert error_of(films.post("/kg/actions", content=body, headers=JSON)) == expected


def test_wrong_paths_and_methods(films: httpx.Client) -> None:
    assert error_of(films.get("/nowhere")) == (404, "not_found")
    response = films.get("/kg/actions")
    assert error_of(response) == (405, "method_not_allowed")
    assert response.headers["allow"] == "POST"
    assert films.head("/health").status_code == 200


def test_a_body_that_does_not_arrive(films: httpx.Client) -> None:
    about = b"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 100"
    head = b"POST /kg/actions HTTP/1.1\r\n" + about + b"\r\n\r\n[1,"
    with serving(time_limit=0.2) as client:
        address = (client.base_url.host, client.base_url.port)
        with socket.create_connection(address) as slow, socket.create_connection(address) as leaving:
            slow.sendall(head)
            leaving.sendall(head)
            leaving.close()
            assert slow.recv(4096).startswith(b"HTTP/1.1 408")
        after = counts(client)
    assert after["kgwalk_requests_total", "/kg/actions", "408"] == 1
    assert after["kgwalk_requests_total", "/kg/actions", "499"] == 1


# --- the key


def test_key() -> None:
    with serving(api_key="s3cret") as client:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic s3cret"}):
            for path in ("/kg/actions", "/metrics", "/openapi.json", "/nowhere"):
                response = client.post(path, json=[GOOD], headers=headers)
                assert error_of(response) == (401, "unauthorized")
                assert response.headers["www-authenticate"] == "Bearer"
        assert client.get("/health").status_code == 200
        client.headers["Authorization"] = "bearer s3cret"
        assert actions(client, GOOD) == [GOOD_RESULT]
        description = client.get("/openapi.json").json()
    assert description["components"]["securitySchemes"] == {"key": {"type": "http", "scheme": "bearer"}}


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_no_key(host: str) -> None:
    check_bind(ServeSettings(host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "192.168.1.2", "example.org"])
def test_other_hosts_do(host: str) -> None:
    with pytest.raises(KgwalkError, match="KGWALK_API_KEY or pass --api-key-file"):
        run_server(ServeSettings(host=host, port=0), graphs={"films": ScanGraph(FACTS)})
    check_bind(ServeSettings(host=host, api_key="k"))
    check_bind(ServeSettings(host=host, insecure=True))


def test_where_the_key_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KGWALK_API_KEY", raising=False)
    assert read_key() is None
    monkeypatch.setenv("KGWALK_API_KEY", " from-env\n")
    assert read_key() == "from-env"
    file = tmp_path / "key"
    file.write_text("from-file\n")
    assert read_key(file) == "from-file"
    file.write_text("\n")
    with pytest.raises(KgwalkError, match="holds no API key"):
        read_key(file)
    with pytest.raises(KgwalkError, match="cannot read the API key"):
        read_key(tmp_path / "nothing")


# --- settings


def test_settings_travel_as_json_and_hide_the_key() -> None:
    before = ServeSettings({"g": "/x.kg"}, port=0, workers=3, api_key="s3cret", time_limit=1.5)
    assert ServeSettings.from_json(before.to_json()) == before
    assert "s3cret" not in repr(before)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"max_bach": 1}', "unknown setting `max_bach`; did you mean `max_batch`?"),
        ('{"workers": 0}', "`workers` must be a whole number of at least 1, not 0"),
        ('{"port": 70000}', "`port` must be between 0 and 65535, not 70000"),
        ('{"time_limit": 0}', "`time_limit` must be a number of seconds above 0, not 0"),
        ('{"api_key": ""}', "the API key must not be empty or hold spaces"),
        ('{"api_key": "kéy"}', "the API key must be printable ASCII"),
        ("[]", "are a JSON object, not list"),
        ("{", "are not JSON"),
    ],
)
def test_wrong_settings(text: str, message: str) -> None:
    with pytest.raises(KgwalkError, match=re.escape(message)):
        ServeSettings.from_json(text)


def test_nothing_to_serve_and_a_taken_port() -> None:
    for workers in (1, 2):
        with pytest.raises(KgwalkError, match="there is no graph to serve"):
            run_server(ServeSettings(port=0, workers=workers))
    with bind("127.0.0.1", 0) as taken, pytest.raises(KgwalkError, match=r"cannot listen on 127\.0\.0\.1:"):
        bind("127.0.0.1", taken.getsockname()[1])


# --- bugs and failing graphs


def test_a_bug_is_a_plain_500_in_the_log_and_the_counts(caplog: pytest.LogCaptureFixture) -> None:
    with serving({"broken": Broken(FACTS)}) as client, caplog.at_level(logging.ERROR, "kgwalk.serve"):
        response = client.post("/kg/actions", json=[GOOD])
        assert error_of(response) == (500, "internal")
        assert "secret" not in response.text
        after = counts(client)
    assert "ZeroDivisionError: secret detail" in caplog.text
    assert after["kgwalk_exceptions_total",] == 1
    assert after["kgwalk_requests_total", "/kg/actions", "500"] == 1


def test_a_graph_that_fails_is_one_items_error(caplog: pytest.LogCaptureFixture) -> None:
    item = {"action": "get_tail_entities", "entity": "Big", "relation": "film.film.star"}
    with serving({"broken": Broken(FACTS)}) as client:
        (result,) = actions(client, item)
        (answer,) = queries(client, {"op": "neighbors", "entity": "Big", "relation": "film.film.star"})
    assert result["error"]["kind"] == "GRAPH_FAILED"
    assert answer["error"]["kind"] == "graph_failed"
    assert "secret" not in json.dumps([result, answer])
    assert "secret-host" in caplog.text


# --- counts and descriptions


def test_counts_rise() -> None:
    with serving() as client:
        actions(client, GOOD, GOOD, {**GOOD, "entity": "x"}, {"action": "dance"}, 5)
        queries(client, {"op": "contains", "entity": "Big"}, {"op": "relations", "entity": "x"})
        client.get("/no/such/path")
        after = counts(client)
        actions(client, GOOD)
        later = counts(client)
    assert after["kgwalk_requests_total", "/kg/actions", "200"] == 1
    assert after["kgwalk_requests_total", "other", "404"] == 1
    assert after["kgwalk_actions_total", "get_tail_relations", "ok"] == 2
    assert after["kgwalk_actions_total", "get_tail_relations", "KG_ENTITY_NOT_FOUND"] == 1
    assert after["kgwalk_actions_total", "other", "KG_SERVER_ERROR"] == 1
    assert after["kgwalk_actions_total", "other", "BAD_REQUEST"] == 1
    assert after["kgwalk_queries_total", "contains", "ok"] == 1
    assert after["kgwalk_queries_total", "relations", "unknown_entity"] == 1
    assert after["kgwalk_batch_items_sum", "/kg/actions"] == 5
    assert after["kgwalk_request_seconds_count", "/kg/actions"] == 1
    assert after["kgwalk_graphs",] == 1
    assert later["kgwalk_actions_total", "get_tail_relations", "ok"] == 3
    assert later["kgwalk_requests_total", "/metrics", "200"] == 1


def test_openapi_describes_every_route(films: httpx.Client) -> None:
    description = films.get("/openapi.json").json()
    served = [*create_app(ServeSettings(), {"films": ScanGraph(FACTS)}).routes, "/kg/build/file"]
    assert set(description["paths"]) == {path for path in served if not path.startswith("/v1/")}  # there is no model
    assert {"/kg/actions", "/kg/query", "/kg/graphs", "/kg/suggest", "/health", "/metrics"} <= set(description["paths"])
    body = description["paths"]["/kg/actions"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/ActionBatch"}
    known = description["components"]["schemas"]
    references = re.findall(r'"#/components/schemas/(\w+)"', json.dumps(description))
    assert set(references) <= set(known)
    assert known["ActionItem"]["additionalProperties"] is False
    model_of(shapes.Health).model_validate_json(films.get("/health").content)


def test_fastapi_alone_gives_the_same_answers() -> None:
    app = create_app(ServeSettings(max_batch=3), {"films": ScanGraph(FACTS)})
    expected = [(200, {"results": [GOOD_RESULT]}), (413, None), (422, None), (400, None)]

    async def ask(app: Any) -> list[tuple[int, Any]]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=JSON) as client:
            bodies = [json.dumps([GOOD]), json.dumps([GOOD] * 4), "{}", "["]
            replies = [await client.post("/kg/actions", content=body) for body in bodies]
        return [(reply.status_code, reply.json()) for reply in replies]

    async def both() -> tuple[list[tuple[int, Any]], list[tuple[int, Any]]]:
        return await ask(app), await ask(await app.api())

    direct, api = asyncio.run(both())
    assert direct == api
    assert [status for status, _ in direct] == [status for status, _ in expected]
    assert direct[0] == expected[0]


def test_pages_of_fastapi_have_the_same_door(caplog: pytest.LogCaptureFixture) -> None:
    app = create_app(ServeSettings(api_key="k"), {"films": ScanGraph(FACTS)})
    api = asyncio.run(app.api())

    @api.get("/runs/{name}")
    async def run_page(name: str) -> dict[str, str]:
        if name == "none":
            raise HTTPException(404, "there is no such run")
        return {"length": str(10 // len(name.strip("x")))}

    with in_background(app) as url, httpx.Client(base_url=url, trust_env=False) as client:
        assert error_of(client.get("/runs/abc")) == (401, "unauthorized")
        client.headers["Authorization"] = "Bearer k"
        assert client.get("/runs/abc").json() == {"length": "3"}
        missing = client.get("/runs/none")
        assert error_of(missing) == (404, "not_found")
        assert missing.json()["error"]["message"] == "there is no such run"
        broken = client.get("/runs/xxx")
        assert error_of(broken) == (500, "internal")
        assert "division" not in broken.text
        after = counts(client)
    assert "ZeroDivisionError" in caplog.text
    assert after["kgwalk_exceptions_total",] == 1
    assert after["kgwalk_requests_total", "/runs/{name}", "500"] == 1


def test_starting_imports_no_framework() -> None:
    heavy = {"fastapi", "pydantic", "pyarrow", "pandas", "rich", "scipy", "httpx"}
    code = f"import sys, kgwalk.serve.run, kgwalk.kg.store; print(*({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


# --- whole processes

SLOW_SERVER = """
import sys, time
from kgwalk.bench.servers import ScanGraph
from kgwalk.serve.run import run_server
from kgwalk.serve.settings import ServeSettings

class Slow(ScanGraph):
    def relations(self, entity, *, out=True):
        time.sleep(0.01)
        return super().relations(entity, out=out)

run_server(ServeSettings(port=0), graphs={"slow": Slow([("a", "r", "b")])})
"""


@contextmanager
def process(
    *command: str, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A running server and its URL, read from its first line."""
    with subprocess.Popen(
        [sys.executable, *command],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
        cwd=folder,
    ) as server:
        try:
            assert server.stderr is not None
            line = server.stderr.readline()
            found = re.search(r"http://\S+:\d+", line)
            assert found is not None, line + server.stderr.read()
            yield server, found[0]
        finally:
            # in order, so that a failing test leaves no workers behind
            server.terminate()
            try:
                server.wait(15)
            finally:
                server.kill()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    (folder / "films.tsv").write_text("".join("\t".join(fact) + "\n" for fact in FACTS))
    build([folder / "films.tsv"], folder / "films.kg")
    return folder / "films.kg"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_requests_under_way_are_answered_before_the_end(number: signal.Signals) -> None:
    answers: list[httpx.Response] = []

    def ask(url: str) -> None:
        batch = [{"action": "get_tail_relations", "entity": "a"}] * 80
        answers.append(httpx.post(f"{url}/kg/actions", json=batch, timeout=20, trust_env=False))

    with process("-c", SLOW_SERVER) as (server, url):
        asking = threading.Thread(target=ask, args=(url,))
        asking.start()
        time.sleep(0.4)
        server.send_signal(number)
        asking.join()
        assert server.wait(10) == 0
    assert [one["ok"] for one in answers[0].json()["results"]] == [True] * 80


def test_a_stored_graph_in_a_process_of_its_own(store: Path) -> None:
    settings = json.dumps({"graphs": {"films": str(store)}, "port": 0, "access_log": True})
    # somebody else's folder of counts must not disturb ours
    environment = {"KGWALK_API_KEY": "k", "PROMETHEUS_MULTIPROC_DIR": "/nowhere"}
    with process("-m", "kgwalk.serve.run", settings, environment=environment) as (server, url):
        with httpx.Client(base_url=url, trust_env=False) as client:
            assert client.post("/kg/actions", json=[GOOD]).status_code == 401
            client.headers["Authorization"] = "Bearer k"
            assert actions(client, GOOD) == [GOOD_RESULT]
            (page,) = queries(client, {"op": "match", "tail": "Helen Hunt"})
            assert page["value"] == [["Cast Away", "film.film.star", "Helen Hunt", ""]]
            assert client.get("/kg/graphs").json()["graphs"][0]["info"]["triples"] == 4
            assert counts(client)["kgwalk_actions_total", "get_tail_relations", "ok"] == 1
        server.terminate()
        assert server.wait(10) == 0
        assert server.stderr is not None
        assert '"POST /kg/actions HTTP/1.1" 200' in server.stderr.read()


def test_several_workers_count_together_and_leave_nothing(store: Path, tmp_path: Path) -> None:
    settings = json.dumps({"graphs": {"films": str(store)}, "port": 0, "workers": 2})
    environment = {"TMPDIR": str(tmp_path)}
    with process("-m", "kgwalk.serve.run", settings, environment=environment) as (server, url):
        for _ in range(30):  # a connection each, so that both workers get some
            with httpx.Client(base_url=url, trust_env=False) as client:
                assert actions(client, GOOD) == [GOOD_RESULT]
        with httpx.Client(base_url=url, trust_env=False) as client:
            after = counts(client)
        assert list(tmp_path.iterdir()) != []
        server.terminate()
        assert server.wait(10) == 0
    assert after["kgwalk_actions_total", "get_tail_relations", "ok"] == 30
    assert after["kgwalk_graphs",] == 1
    assert list(tmp_path.iterdir()) == []


def _workers(server: subprocess.Popen[str], number: int) -> list[psutil.Process]:
    """The worker processes, once there are so many of them."""
    for _ in range(200):
        workers = psutil.Process(server.pid).children()
        if len(workers) == number:
            return workers
        time.sleep(0.05)
    raise AssertionError(f"{number} workers did not start")


def test_a_worker_killed_before_it_counted_leaves_the_counts_readable(store: Path, tmp_path: Path) -> None:
    settings = json.dumps({"graphs": {"films": str(store)}, "port": 0, "workers": 2})
    with (
        process("-m", "kgwalk.serve.run", settings, environment={"TMPDIR": str(tmp_path)}) as (_, url),
        httpx.Client(base_url=url, trust_env=False) as client,
    ):
        assert actions(client, GOOD) == [GOOD_RESULT]
        (folder,) = tmp_path.iterdir()
        (folder / "counter_99999.db").touch()  # what a process leaves that is killed as it makes its file
        assert counts(client)["kgwalk_actions_total", "get_tail_relations", "ok"] == 1


def test_a_worker_that_dies_is_replaced_and_its_counts_stay(store: Path) -> None:
    settings = json.dumps({"graphs": {"films": str(store)}, "port": 0, "workers": 2})
    with process("-m", "kgwalk.serve.run", settings) as (server, url):
        assert httpx.get(f"{url}/health", trust_env=False).status_code == 200
        first = _workers(server, 2)
        _wait_for_count(url, 1)
        for worker in first:
            worker.kill()
        psutil.wait_procs(first, 10)
        assert _workers(server, 2) != first
        assert httpx.get(f"{url}/health", trust_env=False).status_code == 200
        _wait_for_count(url, 2)
        server.terminate()
        assert server.wait(10) == 0


def _wait_for_count(url: str, wanted: int) -> None:
    """A request is counted just after it is answered, so another worker may be asked before that."""
    for _ in range(100):
        with httpx.Client(base_url=url, trust_env=False) as client:
            found = counts(client).get(("kgwalk_requests_total", "/health", "200"), 0)
        if found == wanted:
            return
        assert found < wanted
        time.sleep(0.05)
    raise AssertionError(f"{found} requests were counted, not {wanted}")


def test_no_worker_outlives_its_parent(store: Path) -> None:
    settings = json.dumps({"graphs": {"films": str(store)}, "port": 0, "workers": 2})
    with process("-m", "kgwalk.serve.run", settings) as (server, url):
        assert httpx.get(f"{url}/health", trust_env=False).status_code == 200
        workers = _workers(server, 2)
        server.kill()
        assert psutil.wait_procs(workers, 10)[1] == []


@pytest.mark.parametrize("workers", [1, 2])
def test_a_store_that_is_not_there(tmp_path: Path, workers: int) -> None:
    settings = json.dumps({"graphs": {"g": str(tmp_path / "no.kg")}, "port": 0, "workers": workers})
    command = [sys.executable, "-m", "kgwalk.serve.run", settings]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert done.returncode == 1
    assert done.stderr.startswith("kgwalk: ")
    assert "no.kg" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_app_is_an_app() -> None:
    app = create_app(ServeSettings(), {"films": ScanGraph(FACTS)})
    assert isinstance(app, App)
    with pytest.raises(NotImplementedError, match="HTTP only"):
        asyncio.run(app({"type": "websocket"}, None, None))  # type: ignore[arg-type]


def test_half_a_surrogate_pair_is_one_items_fault(films: httpx.Client) -> None:
    good = {"action": "get_tail_relations", "entity": "Big"}
    body = json.dumps({"actions": [good, {"action": "get_tail_relations", "entity": "\ud83d"}, good]})
    reply = films.post("/kg/actions", content=body, headers=JSON)
    assert reply.status_code == 200
    first, broken, last = reply.json()["results"]
    assert first["ok"]
    assert first == last
    assert broken["error"]["message"] == "an action is an object, not text that is not valid Unicode"
    assert films.post("/kg/actions", content=b'{"actions": [NaN, "\\u0041"]}', headers=JSON).status_code == 400
