"""The search engines there are: for each, how it is asked and how its reply reads.

SearXNG, Brave, a Bing-style API and Tavily. Each is an address, a key from the environment, a function that makes a
request and one that reads a reply. Knows nothing of connections, retries or caches.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from kgwalk.tools.web.client import Request
from kgwalk.tools.web.html_text import plain
from kgwalk.types import Document, KgwalkError

MOST_RESULTS = 20  # that any of them gives at once
MOST_QUERY = 400  # characters; what is longer is cut
MOST_TEXT = 4000  # characters of a result


class OtherShape(Exception):
    """A reply that is JSON, and not of this engine."""


@dataclass(frozen=True)
class Provider:
    """`url` and `key` are what the environment says; `rate` is in requests a second."""

    name: str
    rate: float
    request: Callable[[str, str, str, int], Request]  # url, key, query, k
    read: Callable[[Mapping[str, Any]], list[Document]]  # raises OtherShape
    url: str = ""
    url_variable: str = ""
    key_variable: str = ""

    def configured(self, environment: Mapping[str, str] = os.environ) -> tuple[str, str]:
        """Address and key; a missing one is an error that names the variable to set."""
        url = environment.get(self.url_variable, "").strip() or self.url
        key = environment.get(self.key_variable, "").strip() if self.key_variable else ""
        if not url:
            raise KgwalkError(f"web search by {self.name}: set {self.url_variable} to the address of its API")
        if not _is_address(url):
            raise KgwalkError(
                f"web search by {self.name}: {self.url_variable} is not an address, http://... or https://..."
            )
        if self.key_variable and not key:
            raise KgwalkError(f"web search by {self.name}: set {self.key_variable} to its API key")
        if not key.isascii() or not key.isprintable():
            raise KgwalkError(f"web search by {self.name}: {self.key_variable} holds characters that no key has")
        return url, key


def _is_address(url: str) -> bool:
    try:
        return httpx.URL(url).scheme in ("http", "https") and bool(httpx.URL(url).host)
    except httpx.InvalidURL:
        return False


def document(title: object, text: object, url: object) -> Document:
    """A result as a document, its markup gone.

    >>> document("<b>Oslo</b>", "capital of Norway &amp; more", "https://example.org/oslo")
    Document(title='Oslo', text='capital of Norway & more', source='https://example.org/oslo')
    """
    parts = [str(part)[: 2 * MOST_TEXT] if isinstance(part, str) else "" for part in (title, text, url)]
    return Document(plain(parts[0])[:300], plain(parts[1])[:MOST_TEXT], parts[2].strip()[:2000])


def _rows(found: object) -> list[Mapping[str, Any]]:
    if not isinstance(found, list):
        raise OtherShape
    return [row for row in found if isinstance(row, dict)]


def _ask_searxng(url: str, key: str, query: str, k: int) -> Request:
    address = url.rstrip("/")
    return Request(address if address.endswith("/search") else f"{address}/search", {"q": query, "format": "json"})


def _read_searxng(reply: Mapping[str, Any]) -> list[Document]:
    return [document(row.get("title"), row.get("content"), row.get("url")) for row in _rows(reply.get("results"))]


def _ask_brave(url: str, key: str, query: str, k: int) -> Request:
    return Request(url, {"q": query, "count": str(k)}, headers={"X-Subscription-Token": key}, secrets=[key])


def _read_brave(reply: Mapping[str, Any]) -> list[Document]:
    found = reply.get("web")
    if found is None and reply.get("type") == "search":  # nothing on the web
        return []
    if not isinstance(found, dict):
        raise OtherShape
    rows = _rows(found.get("results"))
    return [document(row.get("title"), _joined(row.get("description"), row), row.get("url")) for row in rows]


def _joined(first: object, row: Mapping[str, Any]) -> str:
    more = row.get("extra_snippets")
    parts = [first, *(more if isinstance(more, list) else [])]
    return " ".join(part for part in parts if isinstance(part, str))


def _ask_bing(url: str, key: str, query: str, k: int) -> Request:
    headers = {"Ocp-Apim-Subscription-Key": key}
    return Request(url, {"q": query, "count": str(k), "textDecorations": "false"}, headers=headers, secrets=[key])


def _read_bing(reply: Mapping[str, Any]) -> list[Document]:
    found = reply.get("webPages")
    if found is None and reply.get("_type") == "SearchResponse":
        return []
    if not isinstance(found, dict):
        raise OtherShape
    return [document(row.get("name"), row.get("snippet"), row.get("url")) for row in _rows(found.get("value"))]


def _ask_tavily(url: str, key: str, query: str, k: int) -> Request:
    body = {"query": query, "max_results": k, "search_depth": "basic"}
    return Request(url, json=body, headers={"Authorization": f"Bearer {key}"}, secrets=[key])


PROVIDERS = {
    provider.name: provider
    for provider in (
        Provider("searxng", 5.0, _ask_searxng, _read_searxng, url_variable="KGWALK_SEARXNG_URL"),
        Provider(
            *("brave", 1.0, _ask_brave, _read_brave, "https://api.search.brave.com/res/v1/web/search"),
            url_variable="KGWALK_BRAVE_URL",
            key_variable="BRAVE_API_KEY",
        ),
        Provider(
            *("bing", 3.0, _ask_bing, _read_bing),
            url_variable="KGWALK_BING_URL",
            key_variable="KGWALK_BING_KEY",
        ),
        Provider(
            # its results have the same fields as SearXNG's
            *("tavily", 2.0, _ask_tavily, _read_searxng, "https://api.tavily.com/search"),
            url_variable="KGWALK_TAVILY_URL",
            key_variable="TAVILY_API_KEY",
        ),
    )
}
