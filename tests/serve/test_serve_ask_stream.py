"""/v1/ask with `stream`: the walk as it happens, from a server process with a scripted agent."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kgwalk.serve import shapes
from kgwalk.serve.api import model_of
from kgwalk.serve.ask import _WORDS, in_words
from kgwalk.types import Call, Malformed
from kgwalk.walk.actions import ACTIONS
from kgwalk.walk.language import CALLS, DATED_CALLS, arguments
from walk_server import ANY_ONE, DIRECTORS, HOW_MANY, IS_IT, NOT_SAID, TABLE, walk_server

SHAPES = {
    "waiting": shapes.AskWaiting,
    "start": shapes.AskStarted,
    "turn": shapes.AskTurn,
    "answer": shapes.AskAnswered,
    "error": shapes.AskFailed,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("walks")


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[httpx.Client]:
    with walk_server(folder) as url, httpx.Client(base_url=url, timeout=20, trust_env=False) as opened:
        yield opened


def events(client: httpx.Client, question: str, **body: Any) -> list[dict[str, Any]]:
    """The events of a stream, each in its shape, with the name of the event in both places."""
    found = []
    with client.stream("POST", "/v1/ask", json={"question": question, "stream": True, **body}) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"] == "text/event-stream"
        text = response.read().decode()
    for part in text.removesuffix("\n\n").split("\n\n"):
        name, data = part.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['event']}"
        model_of(SHAPES[event["event"]]).model_validate(event)
        found.append(event)
    return found


def test_the_walk_as_it_happens(client: httpx.Client) -> None:
    start, first, second, third, answer = events(client, DIRECTORS)
    assert (start["topics"], start["kinds"], start["mentions"]) == (["Tom Hanks"], [], [])
    assert first["text"] == 'head_entities($1, "starred_actors")'
    assert first["words"] == "follow starred_actors back from Tom Hanks"
    assert (first["set"], first["size"], sorted(first["names"])) == (2, 2, ["Big", "Cast Away"])
    assert sorted(first["facts"]) == [
        ["Big", "starred_actors", "Tom Hanks"],
        ["Cast Away", "starred_actors", "Tom Hanks"],
    ]
    assert second["words"] == "follow directed_by from the 2 of step 1"
    assert ["Big", "directed_by", "Penny Marshall"] in second["facts"]
    assert (third["words"], third["set"]) == ("answer with the 2 of step 2", None)
    assert (answer["event"], sorted(answer["answers"])) == ("answer", ["Penny Marshall", "Robert Zemeckis"])
    whole = client.post("/v1/ask", json={"question": DIRECTORS}).json()
    assert {**whole, "seconds": 0} == {**{k: v for k, v in answer.items() if k != "event"}, "seconds": 0}


@pytest.mark.parametrize(
    ("question", "kind", "answers"),
    [(HOW_MANY, "number", ["2"]), (IS_IT, "boolean", ["yes"]), (TABLE, "table", ["Cast Away", "Contact"])],
)
def test_the_answer_in_its_kind(client: httpx.Client, question: str, kind: str, answers: list[str]) -> None:
    answer = events(client, question)[-1]
    assert (answer["answer_kind"], sorted(answer["answers"])) == (kind, answers)
    if kind == "table":
        assert (answer["columns"], sorted(answer["rows"])) == (
            ["name", "release_year"],
            [["Cast Away", "2000"], ["Contact", "1997"]],
        )


def test_a_query_that_gives_the_same_answer(client: httpx.Client) -> None:
    told = client.post("/v1/ask", json={"question": DIRECTORS, "query": "sql"}).json()
    assert sorted(told["answers"]) == ["Penny Marshall", "Robert Zemeckis"]
    assert told["query"].splitlines()[1] == "s1(name) AS (SELECT 'Tom Hanks'),"
    assert told["query"].splitlines()[-1] == "SELECT name FROM s3;"
    assert events(client, NOT_SAID, query="python")[-1]["no_query"].startswith("the walk says that the graph does not")
    assert client.post("/v1/ask", json={"question": DIRECTORS, "query": "prolog"}).status_code == 422
    assert "query" not in client.post("/v1/ask", json={"question": DIRECTORS}).json()


def as_query(client: httpx.Client, told: dict[str, Any], question: str, language: str, **body: Any) -> dict[str, Any]:
    """What /v1/ask/query gives for a walk that /v1/ask has told."""
    sent = {"query": language, "question": question, "topics": told["topics"], "walk": told["walk"], **body}
    reply = client.post("/v1/ask/query", json=sent)
    assert reply.status_code == 200, reply.text
    model_of(shapes.WalkQueryReply).model_validate_json(reply.content)
    value: dict[str, Any] = reply.json()
    return value


@pytest.mark.parametrize("language", ["sparql", "cypher", "sql", "python"])
@pytest.mark.parametrize("question", [DIRECTORS, HOW_MANY, IS_IT, TABLE, NOT_SAID, ANY_ONE])
def test_a_finished_walk_becomes_the_query_that_ask_would_have_given(
    client: httpx.Client, question: str, language: str
) -> None:
    told = client.post("/v1/ask", json={"question": question, "query": language}).json()
    asked = counted(client)
    expected = {name: told[name] for name in ("query", "no_query") if name in told}
    assert as_query(client, told, question, language) == expected
    assert (expected["query"] is None) == (question in (NOT_SAID, ANY_ONE))
    assert counted(client) == asked  # no question was walked for it


def counted(client: httpx.Client) -> list[str]:
    return [line for line in client.get("/metrics").text.splitlines() if line.startswith("kgwalk_asks_total")]


def test_a_walk_that_is_no_query_says_why(client: httpx.Client) -> None:
    told = client.post("/v1/ask", json={"question": DIRECTORS}).json()

    def why(walk: list[str], **body: Any) -> str:
        turns = [{"text": text, "observation": "", "ok": True} for text in walk]
        reply = as_query(client, {**told, "walk": turns}, DIRECTORS, "sql", **body)
        assert reply["query"] is None
        return str(reply["no_query"])

    texts = [turn["text"] for turn in told["walk"]]
    assert why(texts, runs=3) == "the answers of several runs are united; a query is that of one walk"
    assert why(texts, recipe="kg-r1") == "a walk of `kg-r1` is no algebra; walks of the recipe `kgwalk` are"
    assert why(texts[:-1]) == "the walk has no answer, so there is no query that gives it"
    # what no agent would have written
    assert why(["<answer>$9</answer>"]) == "the walk has no set $9"
    assert why(["get($1)", "<answer>$2</answer>"]) == "`get` is no call of the language"
    assert why(["count($2)", "<answer>$2</answer>"]).endswith("there is no set $1; the last is $0")
    assert why(['tail_entities($1, "costs")', "<answer>$2</answer>"]).endswith('relation "costs" is not in the graph')


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"query": "prolog"}, 422, '"query" must be "sparql" or "cypher" or "sql" or "python"'),
        ({"walk": [{"text": "count($1)", "observation": ""}]}, 422, '"ok" is missing'),
        ({"walk": "count($1)"}, 422, '"walk" must be a list of at most 256 turns'),
        ({"walk": ["count($1)"]}, 422, "a turn of the walk is an object, not a string"),
        ({"recipe": "nobodys"}, 422, "unknown recipe"),
        ({"graph": "x"}, 404, "x"),
        ({"stream": True}, 422, 'unknown field "stream"'),
    ],
)
def test_what_is_wrong_with_a_walk_that_is_sent(
    client: httpx.Client, change: dict[str, Any], status: int, words: str
) -> None:
    body = {"query": "sql", "question": DIRECTORS, "topics": ["Tom Hanks"], "walk": [], **change}
    reply = client.post("/v1/ask/query", json=body)
    assert reply.status_code == status
    assert words in reply.json()["error"]["message"]


def test_the_graph_does_not_say(client: httpx.Client) -> None:
    *_, failed, _, answer = events(client, NOT_SAID)
    assert (failed["ok"], failed["set"], failed["facts"]) == (False, None, [])
    assert (answer["answer_kind"], answer["answers"]) == ("none", [])
    assert answer["nearest"]


def test_what_is_wrong_before_the_first_event_is_a_plain_error(client: httpx.Client) -> None:
    reply = client.post(
        "/v1/ask", json={"question": "who is Tom Hancks Zzyzx?", "topics": ["Tom Hancks"], "stream": True}
    )
    assert (reply.status_code, reply.json()["error"]["kind"]) == (422, "unknown_entity")
    assert reply.json()["error"]["nearest"][0] == "Tom Hanks"
    assert client.post("/v1/ask", json={"question": " ", "stream": True}).status_code == 422
    assert client.post("/v1/ask", json={"question": DIRECTORS, "stream": 1}).status_code == 422
    assert client.post("/v1/ask", json={"question": DIRECTORS, "graph": "x", "stream": True}).status_code == 404


def test_a_client_who_leaves_ends_the_walk(client: httpx.Client, folder: Path) -> None:
    body = {"question": f"slowly, {DIRECTORS}", "stream": True}
    with client.stream("POST", "/v1/ask", json=body) as response:
        assert next(response.iter_lines()) == "event: start"
    for _ in range(200):
        if "cut off" in (folder / "stderr.txt").read_text():
            break
        time.sleep(0.02)
    assert "cut off" in (folder / "stderr.txt").read_text()
    assert client.get("/health").json()["under_way"] == 0


def test_a_question_that_waits_is_told_so(tmp_path: Path) -> None:
    slow = {"question": f"slowly, {DIRECTORS}", "stream": True}
    with (
        walk_server(tmp_path, agent_at_once="1") as url,
        httpx.Client(base_url=url, timeout=20, trust_env=False) as one,
    ):
        with one.stream("POST", "/v1/ask", json=slow) as response:
            lines = response.iter_lines()
            assert next(lines) == "event: start"
            found = events(one, HOW_MANY)
        assert [event["event"] for event in found] == ["waiting", "start", "turn", "turn", "turn", "answer"]
        assert (found[0]["before"], found[0]["model"]) == (0, "open")


def test_the_key_the_host_and_the_origin_are_checked_as_of_other_routes(tmp_path: Path) -> None:
    body = {"question": DIRECTORS, "stream": True}
    with walk_server(tmp_path, api_key="s3cret") as url, httpx.Client(base_url=url, timeout=20, trust_env=False) as one:
        assert one.post("/v1/ask", json=body).status_code == 401
        key = {"Authorization": "Bearer s3cret"}
        assert one.post("/v1/ask", json=body, headers=key).status_code == 200
        other = {**key, "Origin": "http://elsewhere.example"}
        assert one.post("/v1/ask", json=body, headers=other).status_code == 403
    with walk_server(tmp_path) as url, httpx.Client(base_url=url, timeout=20, trust_env=False) as one:
        assert one.post("/v1/ask", json=body, headers={"Host": "rebound.example"}).status_code == 421
        sent = one.post("/v1/ask", content=json.dumps(body), headers={"Content-Type": "text/plain"})
        assert sent.status_code == 415


def test_the_stream_is_described(client: httpx.Client) -> None:
    described = client.get("/openapi.json").json()
    content = described["paths"]["/v1/ask"]["post"]["responses"]["200"]["content"]["text/event-stream"]
    named = [one["$ref"].rpartition("/")[2] for one in content["schema"]["oneOf"]]
    assert named == ["AskWaiting", "AskStarted", "AskTurn", "AskAnswered", "AskFailed"]
    assert set(named) <= set(described["components"]["schemas"])


def test_every_call_has_words() -> None:
    for tool in (*CALLS, *DATED_CALLS):
        given = [one for one in arguments(tool) if not one.endswith("?") and one != "values"]
        said = in_words(Call(tool, tuple(f"<{number}>" for number in range(len(given)))), {})
        assert all(f"<{number}>" in said for number in range(len(given))), said
    assert set(ACTIONS) <= set(_WORDS)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (Call("filter", (2, "release_year", ">", "1990")), "of the 6 films, keep those whose release_year is > 1990"),
        (Call("table", (2, "a", "b", "c")), "make a table of the 6 films with a, b, c"),
        (Call("when", (2, "visited", 1)), "find the dates of visited of the 6 films, Tom Hanks"),
        (Call("tail_entities", (7,)), "tail entities: set 7"),
        (Call("count", (7,)), "count set 7"),
        (Call("look {0}", ("{1}",)), "look {0}: {1}"),
        (Malformed("?"), "something that is no call"),
    ],
)
def test_calls_in_words(call: Call, words: str) -> None:
    assert in_words(call, {1: "Tom Hanks", 2: "the 6 films"}) == words
