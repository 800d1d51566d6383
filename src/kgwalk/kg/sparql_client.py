"""A SPARQL 1.1 endpoint over HTTP: terms as query text, retries, pages, and a cache of replies.

Every value that enters a query goes through `render`, and nothing else writes a term: that is what keeps a hostile name
from changing a query. `Endpoint` sends queries as they are given and does not parse them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import httpx
import orjson
from pyoxigraph import NamedNode

from kgwalk import __version__
from kgwalk.config import http
from kgwalk.kg.graph import LruCache
from kgwalk.types import InputError, RemoteError

# Terms

XSD = "http://www.w3.org/2001/XMLSchema#"

_IRI = re.compile(r'[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>"{}|^`\\\ud800-\udfff]*')
_LANGUAGE = re.compile(r"[A-Za-z]+(-[A-Za-z0-9]+)*")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_ESCAPES["\0"] = "\\u0000"  # engines in C end a query where a NUL stands
_NEEDS_ESCAPE = re.compile(r'\\[uU]|[\\"\n\r\t\b\f\0]')
_FORMS = [
    (re.compile(form, re.ASCII), [XSD + name for name in names.split()])
    for form, names in (
        (r"[+-]?\d+", "integer int long short nonNegativeInteger positiveInteger"),
        (r"[+-]?(\d+\.?\d*|\.\d+)", "decimal"),
        (r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", "double float"),
        (r"-?\d{4,}", "gYear"),
        (r"-?\d{4,}-\d\d", "gYearMonth"),
        (r"-?\d{4,}-\d\d-\d\d", "date"),
        (r"-?\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?", "dateTime"),
        (r"true|false", "boolean"),
    )
]


class Term(NamedTuple):
    """An RDF term as in SPARQL's JSON results; `kind` is "uri", "literal" or "bnode"."""

    kind: str
    value: str
    lang: str = ""
    datatype: str = ""


def iri(value: str) -> Term:
    return Term("uri", value)


def literal(value: str, *, lang: str = "", datatype: str = "") -> Term:
    return Term("literal", value, lang, "" if datatype == f"{XSD}string" else datatype)


def is_iri(text: str) -> bool:
    """Whether the text is an absolute IRI that SPARQL can write: a scheme, and nothing IRIREF forbids."""
    return _IRI.fullmatch(text) is not None


def is_wellformed(text: str) -> bool:
    """Whether every endpoint must accept the text as an absolute IRI.

    Stricter than `is_iri`. Endpoints hold and accept IRIs that break RFC 3987 (a `[` in the path), but some refuse a
    whole query because of one. So a text from a caller must pass this test; an IRI from the endpoint need not.
    """
    try:
        return is_iri(text) and bool(NamedNode(text))
    except ValueError:
        return False


def is_language(text: str) -> bool:
    return _LANGUAGE.fullmatch(text) is not None


def render(term: Term) -> str:
    r"""The term as SPARQL text; ValueError where SPARQL has no way to write it.

    >>> render(iri("http://example.org/a")), render(literal('say "hi"', lang="en"))
    ('<http://example.org/a>', '"say \\"hi\\""@en')
    """
    if term.kind == "uri":
        if not is_iri(term.value):
            raise ValueError(f"not an absolute IRI: {term.value!r}")
        return f"<{term.value}>"
    if term.kind != "literal":
        raise ValueError(f"a blank node has no name outside its reply: {term.value!r}")
    term.value.encode()  # a lone surrogate cannot be sent: UnicodeEncodeError is a ValueError
    quoted = '"' + _NEEDS_ESCAPE.sub(_escape, term.value) + '"'
    if term.lang:
        if not is_language(term.lang):
            raise ValueError(f"not a language tag: {term.lang!r}")
        return f"{quoted}@{term.lang}"
    return f"{quoted}^^{render(iri(term.datatype))}" if term.datatype else quoted


def _escape(match: re.Match[str]) -> str:
    # Some engines replace \uXXXX before they parse, so the text \u0022, escaped as \\u0022, could still close the
    # string. With the letter u written as \u0075, every engine reads a backslash and a u.
    text = match.group()
    return _ESCAPES[text[0]] + (f"\\u{ord(text[1]):04X}" if len(text) == 2 else "")


def can_render(term: Term) -> bool:
    try:
        render(term)
    except ValueError:
        return False
    return True


def values(variable: str, terms: Iterable[Term]) -> str:
    return f"VALUES {variable} {{ {' '.join(map(render, terms))} }}"


def local_part(thing: str) -> str:
    """What follows the last `/` or `#` of an IRI, or the last `:` where it has neither; may be empty.

    >>> local_part("http://example.org/city#Paris"), local_part("urn:isbn:123"), local_part("http://example.org/")
    ('Paris', '123', '')
    """
    cut = max(thing.rfind("/"), thing.rfind("#"))
    return thing[(cut if cut >= 0 else thing.rfind(":")) + 1 :]


def readings(text: str, lang: str) -> list[Term]:
    """The literals that a text may be: plain, in the language, and of each type whose form it has.

    Every endpoint looks up a whole term quickly; by the text alone it would scan all literals.
    """
    types = [datatype for form, datatypes in _FORMS if form.fullmatch(text) for datatype in datatypes]
    types += [f"{XSD}anyURI"] if is_iri(text) else []
    tagged = [literal(text, lang=lang)] if lang else []
    return [literal(text), *tagged, *(literal(text, datatype=datatype) for datatype in types)]


# The endpoint

# Who asks, where to find them, and by what: public endpoints such as Wikidata's turn away requests that do not say it.
USER_AGENT = f"kgwalk/{__version__} (https://github.com/kgwalk/kgwalk) httpx/{httpx.__version__}"
_ADVICE = {
    401: "check the credentials in headers",
    403: "check the credentials in headers",
    404: "check the address",
    405: "check that the address is the one for queries",
}

Binding = Mapping[str, Term]


class CacheInfo(NamedTuple):
    hits: int
    misses: int
    weight: int
    """Rows held, plus one for each query."""
    capacity: int


class Endpoint:
    """One SPARQL endpoint. The rows of a query are cached, so asking again costs no request; safe in threads."""

    def __init__(
        self,
        url: str,
        *,
        timeout: float,
        retries: int,
        page: int,
        cache: int,
        headers: Mapping[str, str] | None = None,
        client: httpx.Client | None = None,
    ) -> None:
        parsed = http.parse_address(url)
        if parsed is None:
            raise InputError("not the address of a SPARQL endpoint", text=url, hint="it starts http:// or https://")
        if page < 1 or retries < 0 or cache < 0:
            raise InputError(f"page={page}, retries={retries}, cache={cache}: page is at least 1, the others 0")
        self.url, self.timeout, self.page = url, timeout, page
        self.shown, self._retry = http.shown(parsed), http.Retry(retries, http.FIRST_PAUSE)
        self._headers = httpx.Headers({"User-Agent": USER_AGENT})
        self._headers.update(headers)
        self._headers["Accept"] = "application/sparql-results+json"
        self._rows: LruCache[str, list[Binding]] = LruCache(cache)
        self._owned = client is None
        self._client = client or httpx.Client(**http.connection_options(parsed))

    def close(self) -> None:
        """Close the connections, unless the client belongs to the caller."""
        if self._owned:
            self._client.close()

    def cache_info(self) -> CacheInfo:
        return CacheInfo(self._rows.hits, self._rows.misses, self._rows.weight, self._rows.capacity)

    def select(self, query: str) -> list[Binding]:
        """The rows of a SELECT query, from the cache where they are there."""
        rows = self._rows.get(query)
        if rows is None:
            rows = self._parse(self._post(query))
            self._rows.put(query, rows, weight=len(rows))
        return rows

    def pages(self, query: str, order: str, *, size: int | None = None) -> Iterator[list[Binding]]:
        """The rows page by page, `size` (or the endpoint's page) at a time, until a page comes back short.

        Pages are cut from the sorted rows, so `order` must tell apart any two rows that the caller tells apart.
        """
        size = min(size or self.page, self.page)
        offset = 0
        while True:
            rows = self.select(f"{query}\nORDER BY {order}\nLIMIT {size} OFFSET {offset}")
            yield rows
            if len(rows) < size:
                return
            offset += size

    def count(self, query: str) -> int:
        """The number that a query gives as the `?n` of its one row."""
        rows = self.select(query)
        try:
            return int(rows[0]["n"].value)
        except (IndexError, KeyError, ValueError) as error:
            raise self._error("no number where one was asked for", "check that it speaks SPARQL 1.1") from error

    def _post(self, query: str) -> httpx.Response:
        try:
            return self._accepted(self._retry.call(lambda: self._once(query)))
        except http.RequestFailed as failure:
            advice = failure.advice or "check that it is up, or raise retries"
            raise self._error(failure.told, advice) from failure.__cause__

    def _once(self, query: str) -> httpx.Response:
        with http.failures(self.timeout):
            try:
                reply = self._client.post(self.url, data={"query": query}, headers=self._headers, timeout=self.timeout)
            except httpx.ConnectTimeout as error:
                raise http.RequestFailed(f"no connection within {self.timeout:g} s") from error
            except httpx.TimeoutException as error:
                # not tried again: the query is too slow, and asking twice would slow the endpoint further
                told, advice = f"no answer within {self.timeout:g} s", "raise timeout, or ask for less at once"
                raise http.RequestFailed(told, wait=None, advice=advice) from error
        if http.may_pass(reply):
            raise http.RequestFailed(http.status_line(reply, reply.text), wait=http.retry_after(reply))
        return reply

    def _accepted(self, reply: httpx.Response) -> httpx.Response:
        if reply.is_redirect:
            where = reply.headers.get("Location", "another address")
            raise self._error(http.status_line(reply, reply.text), f"give the address it sends to: {where}")
        if reply.is_error:
            advice = _ADVICE.get(reply.status_code, "check that it speaks SPARQL 1.1")
            raise self._error(http.status_line(reply, reply.text), advice)
        # Virtuoso's "anytime" queries end like this when its own time is up, with some rows missing
        if reply.status_code == 206 or "X-SQL-State" in reply.headers:
            told = reply.headers.get("X-SQL-Message", "206 Partial Content")
            raise self._error(f"only part of the rows ({http.shorten(told)})", "lower page, or ask for less at once")
        return reply

    def _parse(self, reply: httpx.Response) -> list[Binding]:
        try:
            bindings = orjson.loads(reply.content)["results"]["bindings"]
            return [{name: _term(cell) for name, cell in binding.items()} for binding in bindings]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            begins = f"a reply that is not SPARQL JSON results: {http.shorten(reply.text)!r}"
            raise self._error(begins, "check that the address is the one for queries") from error

    def _error(self, trouble: str, advice: str) -> RemoteError:
        return RemoteError(f"SPARQL endpoint {self.shown}: {trouble}; {advice}")


def _term(cell: Mapping[str, object]) -> Term:
    kind, value = cell["type"], cell["value"]
    if kind not in ("uri", "literal", "typed-literal", "bnode") or not isinstance(value, str):
        raise ValueError(f"not an RDF term: {cell!r}")
    if kind in ("uri", "bnode"):
        return Term(str(kind), value)
    return literal(value, lang=str(cell.get("xml:lang", "")), datatype=str(cell.get("datatype", "")))
