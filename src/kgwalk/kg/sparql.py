"""A graph behind a SPARQL 1.1 endpoint: Wikidata, Virtuoso, QLever, Fuseki, Oxigraph.

    with SparqlGraph("https://query.wikidata.org/sparql", wikibase=True) as graph:
        graph.relations("Douglas Adams")

An address is `sparql+https://HOST/PATH`; settings of `SparqlGraph` stand behind a `?` (SPARQL_SETTINGS), beside what
the endpoint itself is told there: `sparql+https://host/sparql?default-graph-uri=http://films&lang=de`. Wikidata's own
endpoint is recognised (`open_sparql`).

Facts are the triples of the endpoint's default graph, without labels (they are names, not facts) and without blank
nodes and quoted triples (they have no name that could be given back). A literal is shown by its text, whatever its type
or language; a literal and an entity of one name are one node, as in a table of names.

A set of names is asked for at once (`sparql_facts`): `fetch_names`, `fetch_relations`, `fetch_neighbors` and
`fetch_some` take as many queries for a hundred as for one, and keep the answers for the calls that follow.

Facts have dates on Wikidata alone (`times`). There is no inference. It does not notice changes: replies are cached
while the graph is open. `sparql_client` sends the queries, `sparql_names` names things.
"""

from __future__ import annotations

import itertools
import logging
import math
import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any
from urllib.parse import unquote

from kgwalk.config import http
from kgwalk.kg.graph import RelationEnds, TimeWindow
from kgwalk.kg.sparql_client import (
    CacheInfo,
    Term,
    iri,
    local_part,
)
from kgwalk.kg.sparql_facts import CLAIM, SparqlFacts, merged
from kgwalk.kg.sparql_names import TermNames, rank
from kgwalk.kg.store import SPARQL, SPARQL_SETTINGS, shown_address
from kgwalk.kg.times import parse_window
from kgwalk.types import Found, InputError, Neighbors, RemoteError, Triple, UnknownName

log = logging.getLogger(__name__)

MOST_RELATIONS = 10_000  # fetched by find_relation; Wikidata has about that many
# Wikidata's own endpoints: of all, of what is not scholarly articles, and of those
WIKIDATA = ("query.wikidata.org", "query-main.wikidata.org", "query-scholarly.wikidata.org")
WIKIDATA_TIMEOUT = 60.0  # seconds after which Wikidata gives up itself


def open_sparql(address: str) -> SparqlGraph:
    """The graph at an address: `sparql+https://host/sparql?lang=de&page=500`.

    Settings that are not said are those of `SparqlGraph`, and at one of Wikidata's own endpoints those of a Wikibase.
    What else stands behind the `?` is the endpoint's, and sent to it.
    """
    url, _, query = address.removeprefix(SPARQL).partition("?")
    given: dict[str, str] = {}
    others = []
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        if name in SPARQL_SETTINGS:
            given[name] = unquote(value)
        elif near := get_close_matches(name.lower(), SPARQL_SETTINGS, 1, 0.75):
            raise InputError(
                f"unknown setting {name!r}; did you mean {near[0]!r}?",
                path=shown_address(address),
                hint=f"settings are {', '.join(SPARQL_SETTINGS)}; for one of the endpoint's own, use SparqlGraph",
            )
        else:
            others.append(part)
    parsed = http.parse_address(url)
    if parsed is None:
        hint = "as in sparql+https://HOST/PATH"
        raise InputError("not the address of a SPARQL endpoint", path=shown_address(address), hint=hint)
    wikidata = parsed.host in WIKIDATA
    settings: dict[str, Any] = {"wikibase": True, "timeout": WIKIDATA_TIMEOUT} if wikidata else {}
    settings |= {name: _setting(address, name, value) for name, value in given.items()}
    if wikidata:
        settings.setdefault("times", settings["wikibase"])
    return SparqlGraph(url + "?" * bool(others) + "&".join(others), **settings)


def _setting(address: str, name: str, value: str) -> Any:
    """The value of a setting in an address; IRIs and languages are checked by the graph."""
    expected = ""
    if name in ("wikibase", "times"):
        if value in ("yes", "no"):
            return value == "yes"
        expected = "yes or no"
    elif name == "page":
        if value.isascii() and value.isdigit() and int(value):
            return int(value)
        expected = "a number of rows"
    elif name == "timeout":
        try:
            seconds = float(value)
        except ValueError:
            seconds = 0.0
        if 0 < seconds < math.inf:
            return seconds
        expected = "seconds"
    elif name == "label" and not value:
        expected = "the IRI of a predicate"
    else:
        return None if name == "relation_label" and not value else value
    raise InputError(f"{name}={value}: expected {expected}", path=shown_address(address))


class SparqlGraph(SparqlFacts):
    """The Graph protocol over an endpoint.

    An entity is shown by its label, by `label (local part of the IRI)` where another entity has the label too, or by
    its IRI; relations likewise. Any name that was shown can be given back, and so can any label or absolute IRI. A
    label that several entities have means the one with most outgoing facts, then the one with the shorter IRI, then the
    first by alphabet. A literal that was not shown yet is found if it is plain, in `lang`, or of a common type
    (numbers, dates, booleans, xsd:anyURI).

    label: IRI of the predicate whose triples name entities.
    relation_label: the same for relations; None shows them by IRI.
    lang: language of the labels; where there is none in it, an untagged label is used.
    namespace: IRIs without a label are shown without this beginning: `directed_by`, not `http://.../directed_by`.
    wikibase: the endpoint is a Wikibase, such as Wikidata: only direct claims are relations, and their labels are on
        the property behind wikibase:directClaim.
    times: of a Wikibase with Wikidata's properties, the time of a fact is read from the qualifiers of its statement
        (`sparql_facts`): a query more for each page of facts.
    timeout: seconds without an answer after which a query has failed.
    retries: further tries after a lost connection, a 429 or a 5xx; the wait doubles from half a second.
    page: rows fetched at a time; no more than the endpoint allows in one reply.
    cache: how many rows of earlier replies are kept, and how many names.
    headers: sent with each request, such as Authorization, or a User-Agent that says who you are.
    client: an httpx.Client to send with (proxies, certificates); the caller closes it.
    """

    def __repr__(self) -> str:
        return f"SparqlGraph({self._endpoint.shown!r})"

    def cache_info(self) -> CacheInfo:
        """How many queries the cache and the endpoint answered, and how full the cache is."""
        return self._endpoint.cache_info()

    def info(self) -> dict[str, Any]:
        """How the endpoint is read, and one fact of it; counts would take a look at all facts."""
        rows = self._endpoint.select(f"SELECT ?h ?r ?t {self._where()} LIMIT 1")
        fact = []
        for row in rows:
            [head, tail], relation = self._shown([row["h"], row["t"]]), row["r"].value
            fact = [head, self._relations.show([relation])[relation], tail]
        return {"address": self._endpoint.shown, **self._settings, "fact": fact}

    def __contains__(self, entity: object) -> bool:
        return isinstance(entity, str) and self._node(entity) is not None

    def has_relation(self, relation: str) -> bool:
        return self._relations.resolve(relation) is not None

    def relations(self, entity: str, *, out: bool = True) -> list[str]:
        if (ready := self._around.get((entity, out))) is not None:
            return list(ready)
        terms = self._known_node(entity).terms(head=out)
        if not terms:
            return []
        where = self._where(heads=terms) if out else self._where(tails=terms)
        pages = self._endpoint.pages(f"SELECT DISTINCT ?r {where}", "STR(?r)")
        return sorted(set(self._relations.show(row["r"].value for rows in pages for row in rows).values()))

    def neighbors(self, entity: str, relation: str, *, out: bool = True, limit: int | None = None) -> Neighbors:
        """As in the protocol, those first that have most facts; of a hub the first by IRI, and more than FEW by IRI."""
        if limit is not None and limit < 0:
            raise ValueError(f"limit is {limit}, less than none")
        ready = self._near.get((entity, relation, out))
        if ready is not None and len(ready.names) >= (ready.total if limit is None else min(limit, ready.total)):
            return Neighbors(ready.names[:limit], ready.total, None if ready.times is None else ready.times[:limit])
        terms, by = self._known_node(entity).terms(head=out), [iri(self._known_relation(relation))]
        if not terms:
            return Neighbors([], 0, [] if self.timed else None)
        where = self._where(heads=terms, relations=by) if out else self._where(relations=by, tails=terms)
        other = "t" if out else "h"
        found: dict[str, Term] = {}  # each name once: literals of several types may have the same text
        dates: dict[str, list[list[str]]] = {}
        # to look up its statement, all of a fact is needed
        columns = "?h ?r ?t" if self.timed else f"?{other}"
        order = "STR(?h) STR(?t)" if self.timed else f"STR(?{other})"
        total = None
        if limit != 0:
            for rows in self._endpoint.pages(f"SELECT DISTINCT {columns} {where}", order, size=limit):
                ends = [row[other] for row in rows]
                for name, end, times in zip(self._shown(ends), ends, self._times(rows), strict=True):
                    found[name] = end
                    dates.setdefault(name, []).append(times)
                if limit is not None and len(found) >= limit:
                    break
            else:
                total = len(found)
        if total is None:
            total = self._endpoint.count(f"SELECT (COUNT(DISTINCT STR(?{other})) AS ?n) {where}")
        names = self._ordered([found])[0][:limit]
        return Neighbors(names, total, [merged(dates[name]) for name in names] if self.timed else None)

    def match(
        self,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        *,
        limit: int | None = None,
    ) -> Iterator[Triple]:
        """As in the protocol, a page at a time, sorted by IRI. All facts come relation by relation.

        With few names given, the endpoint has much to sort and may give up.
        """
        try:
            heads = None if head is None else self._known_node(head).terms(head=True)
            relations = None if relation is None else [iri(self._known_relation(relation))]
            tails = None if tail is None else self._known_node(tail).terms(head=False)
        except UnknownName:
            return iter(())
        if heads == [] or limit == 0:  # a literal is the head of nothing
            return iter(())
        if heads is relations is tails is None and len(every := self._listed()) < MOST_RELATIONS:
            each = (self._facts(self._where(relations=[iri(one)]), limit) for one in sorted(every))
            return itertools.islice(itertools.chain.from_iterable(each), limit)
        return itertools.islice(self._facts(self._where(heads, relations, tails), limit), limit)

    def find(self, text: str, k: int = 5) -> list[Found]:
        """As in the protocol: first what the text names exactly, then labels that share words with it.

        The endpoint compares the labels, in most engines by a scan of all of them: slow where there are many, and a
        RemoteError past the timeout. A word with a typo finds nothing, though the other words of the text may.
        """
        named = self._entities.resolve(text)
        exact = dict.fromkeys(([named] if named else []) + self._entities.carriers(text))
        found = [(thing, 1.0, "exact") for thing in exact][:k]
        if len(found) < k:
            others = self._entities.search(text, most=max(20 * k, 100))
            candidates = {thing: label for thing, label in others.items() if thing not in exact}
            found += rank(text, candidates, k - len(found))
        return _found(found, self._entities)

    def find_relation(self, text: str, k: int = 5) -> list[Found]:
        """As in the protocol, over all relations; they are fetched once, at most MOST_RELATIONS."""
        found = rank(text, self._listed(), k)
        named = self._relations.resolve(text)
        if named:
            found = [(named, 1.0, "exact"), *(one for one in found if one[0] != named)][:k]
        return _found(found, self._relations)

    def relation_ends(self, most: int, looked_at: int, shown: int) -> list[RelationEnds]:
        """Of each relation a look at so many facts, and some of its ends; nothing where there are more relations than
        `most`, or the endpoint takes too long to tell. A query lists them, one counts, and two give the ends.
        """
        try:
            rows = self._endpoint.select(f"SELECT DISTINCT ?r {self._used()} LIMIT {most + 1}")
            relations = sorted(row["r"].value for row in rows)
            if not relations or len(relations) > most:
                return []
            wheres = [self._where(relations=[iri(one)]) for one in relations]
            counting = [
                f"{{ SELECT ?r (COUNT(DISTINCT ?h) AS ?hs) (COUNT(DISTINCT ?t) AS ?ts) WHERE "
                f"{{ {{ SELECT ?h ?r ?t {where} LIMIT {looked_at} }} }} GROUP BY ?r }}"
                for where in wheres
            ]
            counted = self._endpoint.select(f"SELECT ?r ?hs ?ts WHERE {{ {' UNION '.join(counting)} }}")
            some: dict[str, dict[str, list[str]]] = {}
            for end in ("h", "t"):
                parts = [f"{{ SELECT DISTINCT ?r ?{end} {where} LIMIT {shown} }}" for where in wheres]
                rows = self._endpoint.select(f"SELECT ?r ?{end} WHERE {{ {' UNION '.join(parts)} }}")
                for row, name in zip(rows, self._shown([row[end] for row in rows]), strict=True):
                    some.setdefault(row["r"].value, {"h": [], "t": []})[end].append(name)
        except RemoteError as error:
            log.warning("no kinds are listed: %s", error)
            return []
        names = self._relations.show(relations)
        told = []
        for row in counted:
            thing, of_each_end = row["r"].value, some.get(row["r"].value, {"h": [], "t": []})
            counts = int(row["hs"].value), int(row["ts"].value)
            told.append(RelationEnds(names[thing], *counts, of_each_end["h"], of_each_end["t"]))
        return sorted(told, key=lambda one: one.relation)

    def between(self, start: str | None, end: str | None, *, undated: bool = True) -> TimeWindow:
        """The view of facts that hold at some time from `start` to `end`, with or without those that have no date;
        ValueError where no dates are read.
        """
        if not self.timed:
            raise ValueError("this graph has no dates")
        return TimeWindow(self, *parse_window(start, end), undated=undated)

    def _facts(self, where: str, size: int | None) -> Iterator[Triple]:
        last = None
        query = f"SELECT DISTINCT ?h ?r ?t {where}"
        for rows in self._endpoint.pages(query, "STR(?h) STR(?r) STR(?t)", size=size):
            heads, tails = (self._shown([row[end] for row in rows]) for end in ("h", "t"))
            relations = self._relations.show(row["r"].value for row in rows)
            for head, row, tail, times in zip(heads, rows, tails, self._times(rows), strict=True):
                triple = Triple(head, relations[row["r"].value], tail)
                if triple != last:  # literals of two types with the same text come one after the other
                    for time in times or [""]:
                        yield triple._replace(time=time)
                last = triple

    def _listed(self) -> dict[str, str]:
        if self._catalogue is None:
            self._catalogue = self._all_relations()
        return self._catalogue

    def _all_relations(self) -> dict[str, str]:
        """IRI to the text that find_relation compares with: the name, or the words of an IRI's local part."""
        found: list[str] = []
        for rows in self._endpoint.pages(f"SELECT DISTINCT ?r {self._used()}", "STR(?r)"):
            found += [row["r"].value for row in rows]
            if len(found) >= MOST_RELATIONS:
                break
        named = self._relations.show(found)
        return {one: _words(local_part(one)) if one.endswith(name) else name for one, name in named.items()}

    def _used(self) -> str:
        """Where ?r is a relation. A Wikibase lists its properties; any other endpoint must look through its facts."""
        listed = f"WHERE {{ {CLAIM} ?r . FILTER(EXISTS {{ {self._fact()} }}) }}"
        return listed if self._wikibase else self._where()


def _words(local: str) -> str:
    """`directedBy` in words: `directed By`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", local)


def _found(found: Sequence[tuple[str, float, str]], names: TermNames) -> list[Found]:
    shown = names.show(thing for thing, _, _ in found)
    return [Found(shown[thing], score, how, thing) for thing, score, how in found]
