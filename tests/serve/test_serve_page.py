"""The page at /: who gets it, that it is whole in itself, and that no name of a graph can speak in it."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from conftest import FILMS
from kgwalk.bench.servers import ScanGraph
from kgwalk.serve.app import create_app
from kgwalk.serve.page import page
from kgwalk.serve.run import in_background
from kgwalk.serve.settings import ServeSettings

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8"
HTML = page("/").body.decode()
DOCS = page("/docs").body.decode()


@contextmanager
def serving(**options: Any) -> Iterator[httpx.Client]:
    app = create_app(ServeSettings(**options), {"films": ScanGraph(FILMS)})
    with in_background(app) as url, httpx.Client(base_url=url, trust_env=False) as client:
        yield client


@pytest.fixture(scope="module")
def films() -> Iterator[httpx.Client]:
    with serving() as client:
        yield client


@pytest.mark.parametrize("accept", [BROWSER, "*/*", "application/json, text/html"])
def test_browsers_get_the_page(films: httpx.Client, accept: str) -> None:
    reply = films.get("/", headers={"Accept": accept})
    assert (reply.status_code, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert reply.text == HTML
    assert films.head("/", headers={"Accept": accept}).headers["content-length"] == str(len(reply.content))


def test_programs_get_what_they_got(films: httpx.Client) -> None:
    reply = films.get("/", headers={"Accept": "application/json"})
    assert (reply.status_code, reply.json()["error"]["kind"]) == (404, "not_found")
    assert films.post("/", headers={"Accept": BROWSER}).status_code == 404
    counted = films.get("/metrics").text
    assert 'kgwalk_requests_total{path="/",status="404"} 2.0' in counted


def test_the_page_needs_no_key_and_what_it_asks_for_does() -> None:
    with serving(api_key="s3cret") as client:
        assert client.get("/", headers={"Accept": BROWSER}).text == HTML
        assert client.get("/", headers={"Accept": "application/json"}).status_code == 401
        assert client.get("/kg/graphs").status_code == 401
    assert "s3cret" not in HTML
    assert "localStorage" not in HTML
    assert "sessionStorage" not in HTML
    assert "cookie" not in HTML


@pytest.mark.parametrize(
    ("html", "links"), [(HTML, ["data:,", "docs", "openapi.json"]), (DOCS, ["data:,", "openapi.json", "./"])]
)
def test_each_is_one_small_file_that_loads_nothing(html: str, links: list[str]) -> None:
    assert len(html) < 12_000
    assert "//" not in re.sub(r"(?m)(^|\s)// .*$", "", html)  # no address of another host
    assert re.findall(r'(?:src|href)="([^"]*)"', html) == links


def test_docs_is_a_page_of_our_own_and_needs_no_key_itself() -> None:
    with serving(api_key="s3cret") as client:
        reply = client.get("/docs", headers={"Accept": BROWSER})
        assert reply.text == DOCS
        assert client.get("/openapi.json").status_code == 401  # it asks for the key, and sends it with this
        assert client.get("/docs/oauth2-redirect", headers={"Authorization": "Bearer s3cret"}).status_code == 404
    assert 'fetch("openapi.json"' in DOCS


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_no_site_may_frame_a_page_or_learn_where_its_links_were(films: httpx.Client, path: str) -> None:
    headers = films.get(path).headers
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    told = {name: headers[name] for name in ("x-frame-options", "x-content-type-options", "referrer-policy")}
    assert told == {
        "x-frame-options": "DENY",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
    }
    assert films.get("/health").headers["x-content-type-options"] == "nosniff"  # nor take an answer for a script


def test_the_page_says_that_what_it_sends_is_json() -> None:
    assert 'headers["Content-Type"] = "application/json"' in HTML


def test_the_paths_that_it_asks_are_served(films: httpx.Client) -> None:
    asked = re.findall(r'call\("([^"]+)"', HTML)
    assert asked == ["kg/graphs", "v1/models", "v1/chat/completions", "openapi.json"]
    # 503: no model is served here; the page then shows why
    assert [films.get(f"/{path}").status_code for path in asked] == [200, 503, 405, 200]


def test_it_offers_a_place_to_start_from_and_shows_the_note() -> None:
    assert '<input id="from" aria-label="start from"' in HTML
    assert "const topics = from ? [from] : null;" in HTML
    assert '"note: " + found.note' in HTML


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_text_becomes_text_nodes_and_only_its_own_script_runs(path: str) -> None:
    html = page(path).body.decode()
    for way_in in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "javascript:"):
        assert way_in not in html
    policy = dict(page(path).headers)[b"content-security-policy"].decode()
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
