"""A graph behind a SPARQL 1.1 endpoint: Wikidata, Virtuoso, QLever, Fuseki, Oxigraph.

    with SparqlGraph("https://query.wikidata.org/sparql", wikibase=True) as graph:
        graph.relations("Douglas Adams")

Facts are the triples of the endpoint's default graph, without labels (they are names, not facts) and without blank
nodes and quoted triples (they have no name that could be given back). A literal is shown by its text, whatever its type
or language; a literal and an entity of one name are one node, as in a table of names.

A set of names is asked for at once: `fetch_names`, `fetch_relations`, `fetch_neighbors` and `fetch_some` take as many
queries for a hundred as for one, and keep the answers for the calls that follow.

What it does not do: dates of facts, and inference. It does not notice changes: replies are cached while the graph is
open. `sparql_client` sends the queries, `sparql_names` names things.
"""

from __future__ import annotations

import itertools
import logging
import re
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import httpx

from kgwalk.kg.graph import ClosedAtEnd, LruCache, RelationEnds, batches
from kgwalk.kg.names import name_hash
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
from kgwalk.kg.sparql_names import BATCH, TermKind, TermNames, rank
from kgwalk.types import Found, InputError, Neighbors, RemoteError, Triple, UnknownEntity, UnknownName, UnknownRelation

log = logging.getLogger(__name__)

RDFS_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
FEW = 1000  # neighbours that are all read where fewer are asked for, and that are ordered by their facts
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
        self._tails: LruCache[str, bool] = LruCache(cache)  # texts that were looked up together: whether they are tails
        self._around: LruCache[tuple[str, bool], list[str]] = LruCache(cache)
        self._near: LruCache[tuple[str, str, bool], Neighbors] = LruCache(cache)
        self._degrees: LruCache[str, int] = LruCache(cache)
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
            return Neighbors(ready.names[:limit], ready.total)
        terms, by = self._known_node(entity).terms(head=out), [iri(self._known_relation(relation))]
        if not terms:
            return Neighbors([], 0)
        where = self._where(heads=terms, relations=by) if out else self._where(relations=by, tails=terms)
        other = "t" if out else "h"
        found: dict[str, Term] = {}  # each name once: literals of several types may have the same text
        if limit != 0:
            for rows in self._endpoint.pages(f"SELECT DISTINCT ?{other} {where}", f"STR(?{other})", size=limit):
                ends = [row[other] for row in rows]
                found |= dict(zip(self._shown(ends), ends, strict=True))
                if limit is not None and len(found) >= limit:
                    break
            else:
                return Neighbors(self._ordered([found])[0], len(found))
        total = self._endpoint.count(f"SELECT (COUNT(DISTINCT STR(?{other})) AS ?n) {where}")
        return Neighbors(self._ordered([found])[0][:limit], total)

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
            rows = self._endpoint.select(f"SELECT DISTINCT ?r {self._where()} LIMIT {most + 1}")
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

    # Many at once: what is fetched is kept for the calls that follow

    def fetch_names(self, names: Iterable[str]) -> None:
        """Look up whether these are entities."""
        self._nodes(names)

    def fetch_relations(self, names: Iterable[str], *, out: bool) -> None:
        """Make `relations` of these names ready."""
        for some in batches([name for name in dict.fromkeys(names) if self._around.get((name, out)) is None], BATCH):
            nodes = self._nodes(some)
            found: dict[str, set[str]] = {name: set() for name in nodes}
            here = "h" if out else "t"
            owners = _owners(nodes, out)
            if owners:
                for rows in self._endpoint.pages(
                    f"SELECT DISTINCT ?{here} ?r {self._around_terms(owners, out)}", f"STR(?{here}) STR(?r)"
                ):
                    for row in rows:
                        for name in _owned(owners, row[here]):
                            found.setdefault(name, set()).add(row["r"].value)
            shown = self._relations.show({one for those in found.values() for one in those})
            for name, those in found.items():
                self._around.put((name, out), sorted({shown[one] for one in those}), weight=len(those))

    def fetch_neighbors(self, names: Iterable[str], relation: str, *, out: bool) -> None:
        """Make `neighbors` of these names along a relation ready; UnknownRelation if it is none."""
        by = [self._known_relation(relation)]
        missing = [name for name in dict.fromkeys(names) if not self._has(name, relation, out, None)]
        for some in batches(missing, BATCH):
            nodes = self._nodes(some)
            owners = _owners(nodes, out)
            query = self._read(owners, [iri(one) for one in by], out) if owners else ""
            self._keep(query, owners, [(name, relation) for name in nodes], out, {})

    def fetch_some(self, names: Iterable[str], ways: Iterable[tuple[str, bool]], limit: int) -> None:
        """Make `neighbors` with this limit, of these names along each of these relations, ready. For each direction one
        query counts, and one reads all neighbours of those that have few, and of each hub the first by IRI.
        """
        nodes, ways = self._nodes(names), list(dict.fromkeys(ways))
        for out in (True, False):
            by = {one: thing for one, leaves in ways if leaves == out and (thing := self._relations.resolve(one))}
            missing = {(name, one) for name in nodes for one in by if not self._has(name, one, out, limit)}
            owners = _owners({name: nodes[name] for name, _ in sorted(missing)}, out)
            by = {one: thing for one, thing in by.items() if any(asked == one for _, asked in missing)}
            if owners and by:
                self._fetch_counted(owners, by, missing, out, limit)
            for name, one in missing if not owners else ():
                self._near.put((name, one, out), Neighbors([], 0))

    def _fetch_counted(
        self,
        owners: Mapping[Term, list[str]],
        by: Mapping[str, str],
        asked: Collection[tuple[str, str]],
        out: bool,
        limit: int,
    ) -> None:
        here, other = ("h", "t") if out else ("t", "h")
        where = self._around_terms(owners, out, map(iri, by.values()))
        rows = self._endpoint.select(f"SELECT ?{here} ?r (COUNT(DISTINCT ?{other}) AS ?n) {where} GROUP BY ?{here} ?r")
        called = {thing: one for one, thing in by.items()}
        few: dict[str, list[Term]] = {}
        parts: list[str] = []
        totals: dict[tuple[str, str], int] = {}
        for row in rows:
            thing, count = row["r"].value, int(row["n"].value)
            if count <= max(FEW, limit):
                few.setdefault(thing, []).append(row[here])
                continue
            parts.append(f"{{ {self._read([row[here]], [iri(thing)], out)} ORDER BY STR(?{other}) LIMIT {limit} }}")
            for name in _owned(owners, row[here]):
                totals[name, called[thing]] = count
        alike: dict[tuple[Term, ...], list[Term]] = {}  # relations of the same things stand in one part
        for thing, terms in few.items():
            alike.setdefault(tuple(sorted(terms)), []).append(iri(thing))
        parts += [f"{{ {self._read(terms, things, out)} }}" for terms, things in alike.items()]
        query = f"SELECT ?h ?r ?t WHERE {{ {' UNION '.join(parts)} }}" if parts else ""
        self._keep(query, owners, asked, out, totals)

    def _keep(
        self,
        query: str,
        owners: Mapping[Term, list[str]],
        asked: Iterable[tuple[str, str]],
        out: bool,
        totals: Mapping[tuple[str, str], int],
    ) -> None:
        """Keep what a query of facts gives as the neighbours of names along relations."""
        here, other = ("h", "t") if out else ("t", "h")
        found: dict[tuple[str, str], dict[str, Term]] = {key: {} for key in asked}
        for rows in self._endpoint.pages(query, f"STR(?{here}) STR(?r) STR(?{other})") if query else ():
            shown, by = self._shown([row[other] for row in rows]), self._relations.show(row["r"].value for row in rows)
            for row, name in zip(rows, shown, strict=True):
                for owner in _owned(owners, row[here]):
                    if (others := found.get((owner, by[row["r"].value]))) is not None:
                        others[name] = row[other]
        for (owner, relation), names in zip(found, self._ordered(list(found.values())), strict=True):
            total = max(totals.get((owner, relation), 0), len(names))
            self._near.put((owner, relation, out), Neighbors(names, total), weight=len(names))

    def _has(self, name: str, relation: str, out: bool, limit: int | None) -> bool:
        """Whether so many neighbours of a name are ready, or all."""
        ready = self._near.get((name, relation, out))
        return ready is not None and len(ready.names) >= (ready.total if limit is None else min(limit, ready.total))

    def _around_terms(self, terms: Iterable[Term], out: bool, relations: Iterable[Term] | None = None) -> str:
        by = None if relations is None else list(relations)
        return self._where(list(terms), by) if out else self._where(None, by, list(terms))

    def _read(self, terms: Iterable[Term], relations: Iterable[Term], out: bool) -> str:
        return f"SELECT DISTINCT ?h ?r ?t {self._around_terms(terms, out, relations)}"

    def _ordered(self, lists: Sequence[Mapping[str, Term]]) -> list[list[str]]:
        """The names of each list as a store has them: those first that have most facts, then by their hashes. Facts are
        counted where a list has several things, but no more than FEW; not on a Wikibase, where a class has millions.
        """
        counted = [not self._wikibase and 1 < len(some) <= FEW for some in lists]
        terms = [term for some, count in zip(lists, counted, strict=True) if count for term in some.values()]
        things = {term.value for term in terms if term.kind == "uri" and is_iri(term.value)}
        degrees = {thing: self._degrees.get(thing) for thing in things}
        for new in batches([thing for thing, degree in degrees.items() if degree is None], BATCH):
            leaves, arrives = self._fact(head="?x", tail="?o"), self._fact(head="?o", tail="?x")
            rows = self._endpoint.select(
                f"SELECT ?x (COUNT(*) AS ?n) WHERE {{ {values('?x', map(iri, sorted(new)))} "
                f"{{ {leaves} }} UNION {{ {arrives} }} }} GROUP BY ?x"
            )
            degrees |= dict.fromkeys(new, 0) | {row["x"].value: int(row["n"].value) for row in rows}
            for thing in new:
                self._degrees.put(thing, degrees[thing] or 0)

        def place(name: str, term: Term) -> tuple[int, int]:
            return -(degrees.get(term.value) or 0), name_hash(name.encode("utf-8", "surrogatepass"))

        return [
            [name for name, _ in sorted(some.items(), key=lambda item: place(*item))] if count else list(some)
            for some, count in zip(lists, counted, strict=True)
        ]

    def _nodes(self, names: Iterable[str]) -> dict[str, _Node]:
        """What these names mean, of those that are entities."""
        wanted = [name for name in dict.fromkeys(names) if can_render(literal(name))]
        entities = self._entities.resolve_all(wanted)
        rest = [name for name in wanted if name not in entities and not self._literals.get(name)]
        unknown = [name for name in rest if self._tails.get(name) is None]
        for some in batches(unknown, BATCH):
            terms = [term for name in some for term in readings(name, self._lang)]
            query = f"SELECT DISTINCT ?t {self._where(tails=terms)}"
            there = {row["t"].value for rows in self._endpoint.pages(query, "STR(?t)") for row in rows}
            for name in some:
                self._tails.put(name, name in there)
        found: dict[str, _Node] = {}
        for name in wanted:
            shown = self._literals.get(name) or []
            literals = list(dict.fromkeys(shown + readings(name, self._lang)))
            if (entity := entities.get(name)) is not None:
                found[name] = _Node([iri(entity)], literals)
            elif shown or self._tails.get(name):
                found[name] = _Node([], literals)
        return found

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
        known = self._tails.get(name)
        return _Node([], literals) if shown or (self._any_tail(literals) if known is None else known) else None

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

    def _listed(self) -> dict[str, str]:
        if self._catalogue is None:
            self._catalogue = self._all_relations()
        return self._catalogue

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


def _owners(nodes: Mapping[str, _Node], out: bool) -> dict[Term, list[str]]:
    """The terms of some names, and whose they are."""
    owners: dict[Term, list[str]] = {}
    for name, node in nodes.items():
        for term in node.terms(head=out):
            owners.setdefault(term, []).append(name)
    return owners


def _owned(owners: Mapping[Term, list[str]], term: Term) -> list[str]:
    """Whose a term of a reply is: an endpoint may give a literal back in another type than it was asked for."""
    return owners.get(term) or ([term.value] if term.kind == "literal" else [])


def _words(local: str) -> str:
    """`directedBy` in words: `directed By`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", local)


def _found(found: Sequence[tuple[str, float, str]], names: TermNames) -> list[Found]:
    shown = names.show(thing for thing, _, _ in found)
    return [Found(shown[thing], score, how, thing) for thing, score, how in found]
