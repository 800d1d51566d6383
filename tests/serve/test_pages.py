"""The site's pages and files: who gets them, that nothing else can be read, and that no name of a graph can speak."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

import httpx
import pytest

from conftest import FILMS
from kgwalk.bench.servers import ScanGraph
from kgwalk.serve.app import create_app
from kgwalk.serve.pages import PAGES, site
from kgwalk.serve.run import in_background
from kgwalk.serve.settings import ServeSettings

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8"
THERE = [path for path in PAGES if path in site()]
OURS = [path for path in site() if path.endswith((".js", ".css")) and "/vendor/" not in path]
MOST_BYTES = 600_000  # of all that a page could load


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
@pytest.mark.parametrize("path", THERE)
def test_browsers_get_a_page(films: httpx.Client, path: str, accept: str) -> None:
    reply = films.get(path, headers={"Accept": accept})
    assert (reply.status_code, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert f"<title>{PAGES[path].title} - kgwalk</title>" in reply.text
    assert "{{" not in reply.text
    assert re.findall(r'<a href="([^"]*)" aria-current=page>', reply.text) == [path[1:] or "./"]
    assert films.head(path, headers={"Accept": accept}).headers["content-length"] == str(len(reply.content))


def test_programs_get_no_page(films: httpx.Client) -> None:
    reply = films.get("/", headers={"Accept": "application/json"})
    assert (reply.status_code, reply.json()["error"]["kind"]) == (404, "not_found")
    assert films.post("/", headers={"Accept": BROWSER}).status_code == 404
    assert films.post("/site/site.js").status_code == 404
    counted = films.get("/metrics").text
    assert 'kgwalk_requests_total{path="/",status="404"} 2.0' in counted


def test_the_site_needs_no_key_and_what_it_asks_for_does() -> None:
    with serving(api_key="s3cret") as client:
        for path in site():
            assert client.get(path).status_code == 200
        assert client.get("/", headers={"Accept": "application/json"}).status_code == 401
        for path in ("/kg/graphs", "/openapi.json", "/nothing", "/site/nothing.js"):
            assert client.get(path).status_code == 401


@pytest.mark.parametrize(
    "path",
    [
        "/site/frame.html",
        "/site/ask.html",
        "/site/../pages.py",
        "/site/vendor/../../app.py",
        "/site/",
        "/site/%2e%2e/app.py",
    ],
)
def test_only_what_is_listed_can_be_read(films: httpx.Client, path: str) -> None:
    request = films.build_request("GET", "/")
    request.url = request.url.copy_with(raw_path=path.encode())  # httpx would take the dots out
    assert films.send(request).status_code == 404


def test_a_file_that_the_browser_has_costs_no_bytes(films: httpx.Client) -> None:
    for path in ("/", "/site/site.js"):
        first = films.get(path)
        assert first.headers["cache-control"] == "no-cache"
        again = films.get(path, headers={"If-None-Match": f'"other", W/{first.headers["etag"]}'})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]
        assert films.get(path, headers={"If-None-Match": '"other"'}).content == first.content


@pytest.mark.parametrize("path", [*THERE, "/site/site.js", "/site/vendor/uPlot.iife.min.js"])
def test_only_this_servers_scripts_run_and_no_site_may_frame_a_page(films: httpx.Client, path: str) -> None:
    headers = films.get(path).headers
    policy = headers["content-security-policy"]
    assert policy.startswith(
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    )
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    told = {name: headers[name] for name in ("x-frame-options", "x-content-type-options", "referrer-policy")}
    assert told == {"x-frame-options": "DENY", "x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
    assert films.get("/health").headers["x-content-type-options"] == "nosniff"  # nor take an answer for a script


@pytest.mark.parametrize("path", THERE)
def test_a_page_has_no_script_or_style_in_it_and_loads_what_is_there(path: str) -> None:
    html = site()[path].body.decode()
    assert re.findall(r"<style|<script(?![^>]* src=)|\sstyle=|\son\w+=|javascript:", html) == []
    for loaded in re.findall(r'<(?:script|link)[^>]* (?:src|href)="([^"]*)"', html):
        assert loaded == "data:," or f"/{loaded}" in site()


@pytest.mark.parametrize("path", OURS)
def test_our_scripts_make_text_nodes_only_and_name_no_other_host(path: str) -> None:
    text = site()[path].body.decode()
    for way_in in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "javascript:", "cookie"):
        assert way_in not in text
    hosts = re.findall(r"https?://[^\s\"'`<>)]*", text)
    assert set(hosts) <= {"http://www.w3.org/2000/svg"}  # a name, not an address that is asked
    for imported in re.findall(r'from "\./([^"]+)"', text):
        assert f"/site/{imported}" in site()


def test_all_of_it_is_small() -> None:
    assert sum(len(reply.body) for path, reply in site().items() if not path.endswith(".txt")) < MOST_BYTES


def test_what_is_from_others_has_its_licence() -> None:
    vendored = {path.rpartition("/")[2].partition(".")[0] for path in site() if "/vendor/" in path}
    for name in vendored:
        assert "Permission is hereby granted" in site()[f"/site/vendor/{name}.LICENSE.txt"].body.decode()
    told = files("kgwalk").joinpath("..", "..", "THIRD_PARTY.md")
    assert not told.is_file() or all(name in told.read_text("utf-8") for name in vendored)


def test_docs_needs_no_key_itself_and_the_other_pages_of_fastapi_are_gone() -> None:
    with serving(api_key="s3cret") as client:
        assert client.get("/docs", headers={"Accept": BROWSER}).status_code == 200
        assert client.get("/docs/oauth2-redirect", headers={"Authorization": "Bearer s3cret"}).status_code == 404
