"""A graph behind a SPARQL 1.1 endpoint: Wikidata, Virtuoso, QLever, Fuseki, Oxigraph.

    with SparqlGraph("https://query.wikidata.org/sparql", wikibase=True) as graph:
        graph.relations("Douglas Adams")

Facts are the triples of the endpoint's default graph, without labels (they are names, not facts) and without blank
nodes and quoted triples (they have no name that could be given back). A literal is shown by its text, whatever its type
or language; a literal and an entity of one name are one node, as in a table of names.

What it does not do: dates of facts, inference, and neighbours by degree (they are sorted by IRI). It does not notice
changes: replies are cached while the graph is open. `sparql_client` sends the queries, `sparql_names` names things.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import httpx

from kgwalk.kg.graph import ClosedAtEnd, LruCache
from kgwalk.kg.sparql_client import (
    CacheInfo,
    Endpoint,
    Term,
    can_render,
    iri,
    is_iri,
    is_language,
    literal,
    local_part,
    readings,
    render,
    values,
)
from kgwalk.kg.sparql_names import TermKind, TermNames, rank
from kgwalk.types import Found, InputError, Neighbors, Triple, UnknownEntity, UnknownName, UnknownRelation

RDFS_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
MOST_RELATIONS = 10_000  # fetched by find_relation; Wikidata has about that many

_DIRECT_CLAIM = "<http://wikiba.se/ontology#directClaim>"
_CLAIM = f"?claimed {_DIRECT_CLAIM}"


class _Node(NamedTuple):
    """What one name means: an entity, literals with the same text, or both."""

    entity: list[Term]
    literals: list[Term]

    def terms(self, *, head: bool) -> list[Term]:
        return self.entity if head else self.entity + self.literals


class SparqlGraph(ClosedAtEnd):
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
    timeout: seconds without an answer after which a query has failed.
    retries: further tries after a lost connection, a 429 or a 5xx; the wait doubles from half a second.
    page: rows fetched at a time; no more than the endpoint allows in one reply.
    cache: how many rows of earlier replies are kept, and how many names.
    headers: sent with each request, such as Authorization, or a User-Agent that says who you are.
    client: an httpx.Client to send with (proxies, certificates); the caller closes it.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        label: str = RDFS_LABEL,
        relation_label: str | None = RDFS_LABEL,
        lang: str = "en",
        namespace: str = "",
        wikibase: bool = False,
        timeout: float = 10.0,
        retries: int = 2,
        page: int = 1000,
        cache: int = 65_536,
        headers: Mapping[str, str] | None = None,
        client: httpx.Client | None = None,
    ) -> None:
        for name, given in (("label", label), ("relation_label", relation_label), ("namespace", namespace)):
            if given and not is_iri(given):
                raise InputError(f"{name} is not an absolute IRI", text=given, hint=f"as in {RDFS_LABEL}")
        if lang and not is_language(lang):
            raise InputError("lang is not a language tag", text=lang, hint='as in "en" or "pt-BR"')
        self._endpoint = Endpoint(
            endpoint, timeout=timeout, retries=retries, page=page, cache=cache, headers=headers, client=client
        )
        self._lang, self._wikibase = lang, wikibase
        self._not_facts = ", ".join(render(iri(one)) for one in {label: 0, relation_label: 0} if one)
        leaves, arrives = self._fact(head="?x"), self._fact(tail="?x")
        entity = TermKind(label, present=f"EXISTS {{ {leaves} }} || EXISTS {{ {arrives} }}", weight=leaves)
        relation = TermKind(
            relation_label,
            bearer=f"?bearer {_DIRECT_CLAIM} ?x ." if wikibase else "",
            present=f"EXISTS {{ {self._fact(relation='?x')} }}",
            hidden=frozenset(one for one in (label, relation_label) if one),
        )
        self._entities = TermNames(self._endpoint, entity, lang=lang, namespace=namespace, cache=cache)
        self._relations = TermNames(self._endpoint, relation, lang=lang, namespace=namespace, cache=cache)
        self._literals: LruCache[str, list[Term]] = LruCache(cache)
        self._literals_lock = threading.Lock()
        self._catalogue: dict[str, str] | None = None

    def close(self) -> None:
        self._endpoint.close()

    def __repr__(self) -> str:
        return f"SparqlGraph({self._endpoint.shown!r})"

    def cache_info(self) -> CacheInfo:
        """How many queries the cache and the endpoint answered, and how full the cache is."""
        return self._endpoint.cache_info()

    def __contains__(self, entity: object) -> bool:
        return isinstance(entity, str) and self._node(entity) is not None

    def has_relation(self, relation: str) -> bool:
        return self._relations.resolve(relation) is not None

    def relations(self, entity: str, *, out: bool = True) -> list[str]:
        terms = self._known_node(entity).terms(head=out)
        if not terms:
            return []
        where = self._where(heads=terms) if out else self._where(tails=terms)
        pages = self._endpoint.pages(f"SELECT DISTINCT ?r {where}", "STR(?r)")
        return sorted(set(self._relations.show(row["r"].value for rows in pages for row in rows).values()))

    def neighbors(self, entity: str, relation: str, *, out: bool = True, limit: int | None = None) -> Neighbors:
        """As in the protocol, but sorted by IRI or literal text, since the endpoint keeps no degrees."""
        if limit is not None and limit < 0:
            raise ValueError(f"limit is {limit}, less than none")
        terms, by = self._known_node(entity).terms(head=out), [iri(self._known_relation(relation))]
        if not terms:
            return Neighbors([], 0)
        where = self._where(heads=terms, relations=by) if out else self._where(relations=by, tails=terms)
        other = "t" if out else "h"
        names: dict[str, None] = {}  # each once: literals of several types may have the same text
        if limit != 0:
            for rows in self._endpoint.pages(f"SELECT DISTINCT ?{other} {where}", f"STR(?{other})", size=limit):
                names |= dict.fromkeys(self._shown([row[other] for row in rows]))
                if limit is not None and len(names) >= limit:
                    break
            else:
                return Neighbors(list(names), len(names))
        total = self._endpoint.count(f"SELECT (COUNT(DISTINCT STR(?{other})) AS ?n) {where}")
        return Neighbors(list(names)[:limit], total)

    def match(
        self,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        *,
        limit: int | None = None,
    ) -> Iterator[Triple]:
        """As in the protocol, a page at a time, sorted by IRI.

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
        if self._catalogue is None:
            self._catalogue = self._all_relations()
        found = rank(text, self._catalogue, k)
        named = self._relations.resolve(text)
        if named:
            found = [(named, 1.0, "exact"), *(one for one in found if one[0] != named)][:k]
        return _found(found, self._relations)

    def _fact(self, head: str = "?h", relation: str = "?r", tail: str = "?t") -> str:
        """The pattern of one fact, over three variables."""
        claim = f"{_CLAIM} {relation} ." if self._wikibase else ""
        return (
            f"{head} {relation} {tail} . {claim} FILTER({relation} NOT IN ({self._not_facts}))\n"
            f"FILTER(isIRI({head})) FILTER(isIRI({tail}) || isLiteral({tail}))"
        )

    def _where(
        self,
        heads: Sequence[Term] | None = None,
        relations: Sequence[Term] | None = None,
        tails: Sequence[Term] | None = None,
    ) -> str:
        given = {"?h": heads, "?r": relations, "?t": tails}
        tables = [values(variable, terms) for variable, terms in given.items() if terms is not None]
        return f"WHERE {{ {' '.join(tables)} {self._fact()} }}"

    def _facts(self, where: str, size: int | None) -> Iterator[Triple]:
        last = None
        query = f"SELECT DISTINCT ?h ?r ?t {where}"
        for rows in self._endpoint.pages(query, "STR(?h) STR(?r) STR(?t)", size=size):
            heads, tails = (self._shown([row[end] for row in rows]) for end in ("h", "t"))
            relations = self._relations.show(row["r"].value for row in rows)
            for head, row, tail in zip(heads, rows, tails, strict=True):
                triple = Triple(head, relations[row["r"].value], tail)
                if triple != last:  # literals of two types with the same text come one after the other
                    yield triple
                last = triple

    def _shown(self, terms: Sequence[Term]) -> list[str]:
        """The names of entities and literals, in order. Literals are remembered, since a name does not say its type."""
        entities = self._entities.show(term.value for term in terms if term.kind == "uri")
        for term in terms:
            if term.kind == "literal" and can_render(term):
                self._remember(term)
        return [entities[term.value] if term.kind == "uri" else term.value for term in terms]

    def _remember(self, term: Term) -> None:
        with self._literals_lock:
            known = self._literals.get(term.value) or []
            if term not in known:
                self._literals.put(term.value, [*known, term])

    def _node(self, name: str) -> _Node | None:
        if not can_render(literal(name)):
            return None
        entity = self._entities.resolve(name)
        shown = self._literals.get(name) or []
        literals = list(dict.fromkeys(shown + readings(name, self._lang)))
        if entity is not None:
            return _Node([iri(entity)], literals)
        return _Node([], literals) if shown or self._any_tail(literals) else None

    def _any_tail(self, literals: Sequence[Term]) -> bool:
        return bool(self._endpoint.select(f"SELECT ?h {self._where(tails=literals)} LIMIT 1"))

    def _known_node(self, name: str) -> _Node:
        node = self._node(name)
        if node is None:
            raise UnknownEntity(name, self._entities.near(name))
        return node

    def _known_relation(self, name: str) -> str:
        relation = self._relations.resolve(name)
        if relation is None:
            raise UnknownRelation(name, self._relations.near(name))
        return relation

    def _all_relations(self) -> dict[str, str]:
        """IRI to the text that find_relation compares with: the name, or the words of an IRI's local part."""
        # A Wikibase lists its properties; any other endpoint must look through its facts.
        listed = f"WHERE {{ {_CLAIM} ?r . FILTER(EXISTS {{ {self._fact()} }}) }}"
        where = listed if self._wikibase else self._where()
        found: list[str] = []
        for rows in self._endpoint.pages(f"SELECT DISTINCT ?r {where}", "STR(?r)"):
            found += [row["r"].value for row in rows]
            if len(found) >= MOST_RELATIONS:
                break
        named = self._relations.show(found)
        return {one: _words(local_part(one)) if one.endswith(name) else name for one, name in named.items()}


def _words(local: str) -> str:
    """`directedBy` in words: `directed By`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", local)


def _found(found: Sequence[tuple[str, float, str]], names: TermNames) -> list[Found]:
    shown = names.show(thing for thing, _, _ in found)
    return [Found(shown[thing], score, how, thing) for thing, score, how in found]
