"""GET /kg/suggest: the end of a half-typed question, completed from the graph."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from conftest import store_of
from kgwalk.serve.api import model_of
from kgwalk.serve.app import create_app
from kgwalk.serve.run import in_background
from kgwalk.serve.settings import ServeSettings
from kgwalk.serve.suggest import Suggestions
from walk_server import FACTS


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    graph = store_of(tmp_path_factory.mktemp("films"), [*FACTS, ("Tom Hanks", "is_a", "actor")])
    app = create_app(ServeSettings(), {"films": graph})
    with in_background(app) as url, httpx.Client(base_url=url, trust_env=False) as opened:
        yield opened


def suggested(client: httpx.Client, text: str, **values: Any) -> dict[str, Any]:
    reply = client.get("/kg/suggest", params={"q": text, **values})
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    model_of(Suggestions).model_validate(found)
    return found


@pytest.mark.parametrize(
    ("text", "name", "replaces"),
    [
        ("who directed the films of Tom Ha", "Tom Hanks", "Tom Ha"),
        ("what did zemeck", "Robert Zemeckis", "zemeck"),  # by a later word
        ("is cast aw", "Cast Away", "cast aw"),
        ("where was Robert Zemekis", "Robert Zemeckis", "Robert Zemekis"),  # by its spelling
    ],
)
def test_the_end_is_completed(client: httpx.Client, text: str, name: str, replaces: str) -> None:
    assert suggested(client, text)["entities"][0] == {"name": name, "replaces": replaces}


def test_kinds_are_suggested_in_the_plural(client: httpx.Client) -> None:
    assert {"name": "actors", "replaces": "act"} in suggested(client, "which act")["kinds"]


def test_words_that_say_nothing_and_values_are_not_completed(client: httpx.Client) -> None:
    assert suggested(client, "who is the")["entities"] == []
    assert suggested(client, "")["entities"] == []
    assert suggested(client, "in 198")["entities"] == []  # 1988 is no name
    assert len(suggested(client, "stre", limit=3)["entities"]) == 3


def test_example_questions_are_made_once_in_the_background(client: httpx.Client) -> None:
    for _ in range(200):
        found = suggested(client, "")
        if found["ready"]:
            break
        time.sleep(0.05)
    assert found["questions"]
    first = found["questions"][0]
    assert first in suggested(client, first[:12])["questions"]
    assert suggested(client, "")["questions"] == found["questions"]


def test_what_is_wrong_is_refused(client: httpx.Client) -> None:
    wrong = [({"limit": "x"}, 422), ({"limit": "21"}, 422), ({"graph": "none"}, 404), ({"k": "1"}, 422)]
    for values, status in wrong:
        assert client.get("/kg/suggest", params=values).status_code == status
    assert client.get("/kg/suggest", params={"limit": "21"}).json()["error"]["message"] == (
        '"limit" must be between 1 and 20, not 21'
    )
    assert client.get(f"/kg/suggest?{'&'.join(['q=a'] * 40)}").status_code == 422
    assert client.get("/kg/suggest?q=%ff").status_code == 422


def test_it_is_described(client: httpx.Client) -> None:
    described = client.get("/openapi.json").json()["paths"]["/kg/suggest"]["get"]
    named = [(one["name"], one["in"], one["required"]) for one in described["parameters"]]
    assert named == [("q", "query", False), ("graph", "query", False), ("limit", "query", False)]
