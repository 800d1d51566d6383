"""The facts behind a SPARQL endpoint, asked for sets of names at once: the queries under `SparqlGraph`.

    facts.fetch_neighbors(["Apollo 13", "Big"], "starring", out=True)        one query, and one that names what is new

A name is an entity, literals with that text, or both (`_Node`). What is fetched is kept for the calls that follow:
whether names are there, the relations around each, and neighbours, all of them or of a hub the first.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import httpx

from kgwalk.kg.graph import ClosedAtEnd, LruCache, batches
from kgwalk.kg.names import name_hash
from kgwalk.kg.sparql_client import (
    Endpoint,
    Term,
    can_render,
    iri,
    is_iri,
    is_language,
    literal,
    readings,
    render,
    values,
)
from kgwalk.kg.sparql_names import BATCH, TermKind, TermNames
from kgwalk.kg.times import AT, DAY, END, START, parse_time, statement_time, xsd_date_text
from kgwalk.types import InputError, Neighbors, UnknownEntity, UnknownRelation

RDFS_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
FEW = 1000  # neighbours that are all read where fewer are asked for, and that are ordered by their facts

WIKIBASE = "http://wikiba.se/ontology#"
DIRECT_CLAIM = f"<{WIKIBASE}directClaim>"
CLAIM = f"?claimed {DIRECT_CLAIM}"


class _Node(NamedTuple):
    """What one name means: an entity, literals with the same text, or both."""

    entity: list[Term]
    literals: list[Term]

    def terms(self, *, head: bool) -> list[Term]:
        return self.entity if head else self.entity + self.literals


class SparqlFacts(ClosedAtEnd):
    """The endpoint with the names that were shown and the facts that were fetched; `SparqlGraph` says what the settings
    are.
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
        times: bool = False,
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
        if times and not wikibase:
            raise InputError(
                "times are those of a Wikibase's statements", hint="give wikibase, too, or leave out times"
            )
        self._endpoint = Endpoint(
            endpoint, timeout=timeout, retries=retries, page=page, cache=cache, headers=headers, client=client
        )
        self._lang, self._wikibase, self.timed = lang, wikibase, times
        self._settings = {
            "wikibase": wikibase,
            "times": times,
            "lang": lang,
            "label": label,
            "relation_label": relation_label,
            "namespace": namespace,
            "timeout": timeout,
            "page": page,
        }
        self._not_facts = ", ".join(render(iri(one)) for one in {label: 0, relation_label: 0} if one)
        leaves, arrives = self._fact(head="?x"), self._fact(tail="?x")
        entity = TermKind(label, present=f"EXISTS {{ {leaves} }} || EXISTS {{ {arrives} }}", weight=leaves)
        relation = TermKind(
            relation_label,
            bearer=f"?bearer {DIRECT_CLAIM} ?x ." if wikibase else "",
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
        thing = self._known_relation(relation)
        missing = [name for name in dict.fromkeys(names) if not self._has(name, relation, out, None)]
        for some in batches(missing, BATCH):
            nodes = self._nodes(some)
            owners = _owners(nodes, out)
            query = self._read(owners, [iri(thing)], out) if owners else ""
            self._keep(query, owners, [(name, thing) for name in nodes], {thing: [relation]}, out, {})

    def fetch_some(self, names: Iterable[str], ways: Iterable[tuple[str, bool]], limit: int) -> None:
        """Make `neighbors` with this limit, of these names along each of these relations, ready. For each direction one
        query counts, and one reads all neighbours of those that have few, and of each hub the first by IRI.
        """
        nodes, ways = self._nodes(names), list(dict.fromkeys(ways))
        for out in (True, False):
            by = {one: thing for one, leaves in ways if leaves == out and (thing := self._relations.resolve(one))}
            missing = {(name, one) for name in nodes for one in by if not self._has(name, one, out, limit)}
            owners = _owners({name: nodes[name] for name, _ in sorted(missing)}, out)
            called: dict[str, list[str]] = {}  # an IRI or a shared label may name a relation, too
            for one in dict.fromkeys(one for _, one in sorted(missing)):
                called.setdefault(by[one], []).append(one)
            if owners and called:
                self._fetch_counted(owners, {(name, by[one]) for name, one in missing}, called, out, limit)
            for name, one in missing if not owners else ():
                self._near.put((name, one, out), Neighbors([], 0, [] if self.timed else None))

    def _fetch_counted(
        self,
        owners: Mapping[Term, list[str]],
        asked: Collection[tuple[str, str]],
        called: Mapping[str, Sequence[str]],
        out: bool,
        limit: int,
    ) -> None:
        here, other = ("h", "t") if out else ("t", "h")
        where = self._around_terms(owners, out, map(iri, called))
        rows = self._endpoint.select(f"SELECT ?{here} ?r (COUNT(DISTINCT ?{other}) AS ?n) {where} GROUP BY ?{here} ?r")
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
                totals[name, thing] = count
        alike: dict[tuple[Term, ...], list[Term]] = {}  # relations of the same things stand in one part
        for thing, terms in few.items():
            alike.setdefault(tuple(sorted(terms)), []).append(iri(thing))
        parts += [f"{{ {self._read(terms, things, out)} }}" for terms, things in alike.items()]
        query = f"SELECT ?h ?r ?t WHERE {{ {' UNION '.join(parts)} }}" if parts else ""
        self._keep(query, owners, asked, called, out, totals)

    def _keep(
        self,
        query: str,
        owners: Mapping[Term, list[str]],
        asked: Iterable[tuple[str, str]],
        called: Mapping[str, Sequence[str]],
        out: bool,
        totals: Mapping[tuple[str, str], int],
    ) -> None:
        """Keep what a query of facts gives as the neighbours of names along relations, which are asked for by their
        IRIs, and kept under what they were `called`.
        """
        here, other = ("h", "t") if out else ("t", "h")
        found: dict[tuple[str, str], dict[str, Term]] = {key: {} for key in asked}
        dates: dict[tuple[str, str, str], list[list[str]]] = {}
        for rows in self._endpoint.pages(query, f"STR(?{here}) STR(?r) STR(?{other})") if query else ():
            shown, times = self._shown([row[other] for row in rows]), self._times(rows)
            for row, name, when in zip(rows, shown, times, strict=True):
                for owner in _owned(owners, row[here]):
                    key = owner, row["r"].value
                    if (others := found.get(key)) is not None:
                        others[name] = row[other]
                        dates.setdefault((*key, name), []).append(when)
        for (owner, thing), names in zip(found, self._ordered(list(found.values())), strict=True):
            total = max(totals.get((owner, thing), 0), len(names))
            told = [merged(dates[owner, thing, name]) for name in names] if self.timed else None
            for one in called[thing]:
                self._near.put((owner, one, out), Neighbors(names, total, told), weight=len(names))

    def _times(self, facts: Sequence[Mapping[str, Term]]) -> list[list[str]]:
        """The times of each of some facts, rows of ?h, ?r and ?t; one query more, where the endpoint has times."""
        heads = {row["h"].value for row in facts if is_iri(row["h"].value)} if self.timed else set()
        if not heads:
            return [[] for _ in facts]
        query = statements_of(sorted(heads), sorted({row["r"].value for row in facts if is_iri(row["r"].value)}))
        found = read_times(row for rows in self._endpoint.pages(query, STATEMENT_ORDER) for row in rows)
        ends = (ClaimEnds(row["h"].value, row["r"].value, row["t"].kind, row["t"].value) for row in facts)
        return [found.get(claim, []) for claim in ends]

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
        claim = f"{CLAIM} {relation} ." if self._wikibase else ""
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


# Times of Wikidata's statements. A direct claim (wdt:) has no time; its statement has, by qualifiers:
#     wdt:P39 wd:Q11696      the claim: Grover Cleveland, position held, president
#     p:P39 [ ps:P39 wd:Q11696 ; pq:P580 "1885-03-04T00:00:00Z" ; pq:P582 "1889-03-04T00:00:00Z" ]

QUALIFIER = "http://www.wikidata.org/prop/qualifier/"
QUALIFIER_NODE = f"{QUALIFIER}value/"

STATEMENT_ORDER = "STR(?h) STR(?r) STR(?t) STR(?statement) STR(?q) STR(?v) STR(?n)"


class ClaimEnds(NamedTuple):
    """A direct claim as the reply to a query names it: two IRIs, and the kind and text of the other end."""

    head: str
    relation: str
    kind: str
    tail: str


def statements_of(heads: Iterable[str], relations: Iterable[str]) -> str:
    """The query for the dates of all statements behind the direct claims of these heads, along these relations.

    Only statements of the best rank: they are those that have a direct claim.
    """
    dates = [iri(QUALIFIER + name) for name in (START, END, AT)]
    nodes = [iri(QUALIFIER_NODE + name) for name in (START, END, AT)]
    return (
        f"SELECT DISTINCT ?h ?r ?t ?statement ?q ?v ?n WHERE {{ "
        f"{values('?h', map(iri, heads))} {values('?r', map(iri, relations))}\n"
        f"{CLAIM} ?r ; <{WIKIBASE}claim> ?p ; <{WIKIBASE}statementProperty> ?s .\n"
        f"?h ?p ?statement . ?statement a <{WIKIBASE}BestRank> ; ?s ?t .\n"
        f"{{ {values('?q', dates)} ?statement ?q ?v . FILTER(isLiteral(?v)) }} UNION "
        f"{{ {values('?q', nodes)} ?statement ?q ?node . "
        f"?node <{WIKIBASE}timeValue> ?v ; <{WIKIBASE}timePrecision> ?n . }} }}"
    )


def read_times(rows: Iterable[Mapping[str, Term]]) -> dict[ClaimEnds, list[str]]:
    """The times of each claim, one for each of its statements that has a time that can be read. A date is as precise as
    its pqv: node says, a day where there is none.
    """
    said: dict[tuple[ClaimEnds, Term], dict[str, list[tuple[int, str]]]] = {}
    for row in rows:
        claim = ClaimEnds(row["h"].value, row["r"].value, row["t"].kind, row["t"].value)
        qualifier, precision = row["q"].value.rpartition("/")[2], row.get("n")
        known = precision is not None and precision.value.isascii() and precision.value.isdigit()
        text = xsd_date_text(row["v"].value, int(precision.value) if known and precision is not None else DAY)
        if text:
            # those of a known precision first
            said.setdefault((claim, row["statement"]), {}).setdefault(qualifier, []).append((not known, text))
    found: dict[ClaimEnds, set[str]] = {}
    for (claim, _), dates in said.items():
        since, until, at = (min(dates[name])[1] if name in dates else "" for name in (START, END, AT))
        if time := _readable(statement_time(since, until, at)):
            found.setdefault(claim, set()).add(time)
    return {claim: sorted(times) for claim, times in found.items()}


def merged(lists: Iterable[Sequence[str]]) -> list[str]:
    """All times of some lists, each once, in order."""
    return sorted({time for times in lists for time in times})


def _readable(time: str) -> str:
    """The time, or "" where it ends before it starts or is no date."""
    try:
        parse_time(time)
    except ValueError:
        return ""
    return time
