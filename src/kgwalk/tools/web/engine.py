"""A search engine on the network as a web: asked once for each query, its answers kept.

Knows nothing of formats (`providers`) nor of connections (`client`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import orjson

from kgwalk.config.cache import cache_folder
from kgwalk.tools.web.client import WebClient
from kgwalk.tools.web.providers import MOST_QUERY, MOST_RESULTS, OtherShape, Provider
from kgwalk.tools.web.reply_cache import ReplyCache
from kgwalk.types import Document, KgwalkError

RATE_VARIABLE = "KGWALK_WEB_RATE"
DAYS_VARIABLE = "KGWALK_WEB_DAYS"
DAYS = 30.0  # an answer is kept


class SearchEngine:
    """A provider with its address and key; see the variables in docs/guides/web-search.md."""

    def __init__(
        self,
        provider: Provider,
        *,
        cache: Path | None = None,
        client: WebClient | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.provider = provider
        self.url, self._key = provider.configured(environment)
        rate = _number(environment, RATE_VARIABLE, provider.rate)
        self._client = client or WebClient(provider.name, rate=rate)
        days = _number(environment, DAYS_VARIABLE, DAYS)
        self._cache = ReplyCache((cache or cache_folder()) / "web" / "replies.sqlite", days)

    def __repr__(self) -> str:
        return f"SearchEngine({self.provider.name!r})"

    def search(self, query: str, k: int = 3) -> list[Document]:
        query = " ".join(query.encode("utf-8", "replace").decode().split())[:MOST_QUERY]
        k = min(k, MOST_RESULTS)
        if not query or k < 1:
            return []
        request = self.provider.request(self.url, self._key, query, k)
        # the address too: two SearXNGs find different things; its password, if any, is no part of it
        key = "\n".join((self.provider.name, self._client.shown(request), str(k), query))
        kept = self._cache.get(key)
        if kept is not None:
            return kept
        text = self._client.fetch(request)
        try:
            reply = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise self._client.bad_reply(request, "a reply that is not JSON", text) from error
        try:
            if not isinstance(reply, dict):
                raise OtherShape
            found = [one for one in self.provider.read(reply) if one.title or one.text][:k]
        except OtherShape as error:
            raise self._client.bad_reply(request, "a reply of another shape", text) from error
        self._cache.put(key, found)
        return found


def _number(environment: Mapping[str, str], variable: str, default: float) -> float:
    text = environment.get(variable, "").strip()
    try:
        value = float(text) if text else default
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise KgwalkError(f"{variable}={text!r} is not a number above 0")
    return value
