"""The names of things behind a SPARQL endpoint, and the way back from a name to an IRI.

A thing is shown by the first of these that no other thing answers to: its label, `label (local part of its IRI)`, its
IRI. A thing without a label is shown by its IRI, without the namespace where that is enough. So a name means one thing
whoever asked first, and can always be given back. `TermKind` says, as patterns of SPARQL, which things count and where
their labels are; `SparqlGraph` has one for entities and one for relations. Literals have no names here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rapidfuzz import fuzz, process

from kgwalk.kg.graph import LruCache
from kgwalk.kg.names import normalise
from kgwalk.kg.sparql_client import (
    Endpoint,
    Term,
    can_render,
    iri,
    is_iri,
    is_wellformed,
    literal,
    local_part,
    render,
    values,
)

MOST_CARRIERS = 50  # things with one label that are weighed against each other
BATCH = 200  # things named in one query: Virtuoso refuses long queries
MOST_WORDS = 5  # words of a text that are searched for: each costs one more scan of the labels
_RECENT = 2000  # shown names that a misspelt one is compared with
_SEPARATORS = ("/", "#", ":")


@dataclass(frozen=True)
class TermKind:
    """What differs between entities and relations: where their labels are, and which of them are in the graph."""

    label: str | None
    """IRI of the predicate that gives labels; None: things are shown by IRI."""
    present: str
    """A condition on `?x`, true where it is in the graph."""
    bearer: str = ""
    """A pattern from `?x` to `?bearer`, the node that has the label; "" where `?x` has it itself."""
    weight: str = ""
    """A pattern whose matches are counted to choose among things with one label; "" to choose by IRI alone."""
    hidden: frozenset[str] = frozenset()
    """IRIs that are never in the graph: `present` says so too, but Virtuoso 7 overlooks it where ?x is a relation."""


class TermNames:
    """Names for one kind of thing. Remembers the names it has shown, at most `cache` of them; safe in threads."""

    def __init__(self, endpoint: Endpoint, kind: TermKind, *, lang: str, namespace: str, cache: int) -> None:
        self._endpoint, self._kind, self._namespace = endpoint, kind, namespace
        self._langs = dict.fromkeys((lang, ""))  # in order of preference
        self._names: LruCache[str, str] = LruCache(cache)
        self._iris: LruCache[str, str] = LruCache(cache)
        self._resolved: LruCache[str, tuple[str | None]] = LruCache(cache)  # names that were looked up together

    def show(self, iris: Iterable[str]) -> dict[str, str]:
        """The name of each IRI."""
        names, new = {}, []
        for thing in dict.fromkeys(iris):
            known = self._names.get(thing)
            if known is not None:
                names[thing] = known
            elif is_iri(thing):
                new.append(thing)
            else:
                names[thing] = thing  # an IRI that no query can write, so its label cannot be asked for
        for start in range(0, len(new), BATCH):
            names |= self._named(new[start : start + BATCH])
        return names

    def resolve(self, name: str) -> str | None:
        """The IRI that a name means, or None.

        Tried in order: a name that was shown, an IRI, a label, `label (local part)`, an IRI without the namespace.
        Of several things with the label, it is the first of `carriers`.
        """
        shown = self._iris.get(name)
        if shown is not None:
            return shown
        if (known := self._resolved.get(name)) is not None:
            return known[0]
        if not can_render(literal(name)):
            return None
        if self._present(name):
            return name
        label, local = _parted(name)
        found = self.carriers(name) or (self.carriers(label, local) if label else [])
        if found:
            return found[0]
        whole = self._namespace + name
        return whole if self._namespace and self._present(whole) else None

    def resolve_all(self, names: Iterable[str]) -> dict[str, str]:
        """The same of many names at once; a name that means nothing is left out. As few queries for a hundred as for
        one, and one more for each label that several things have.
        """
        found: dict[str, str] = {}
        unknown: list[str] = []
        for name in dict.fromkeys(names):
            shown, known = self._iris.get(name), self._resolved.get(name)
            thing = shown if shown is not None or known is None else known[0]
            if thing is not None:
                found[name] = thing
            elif known is None and can_render(literal(name)):
                unknown.append(name)
        for start in range(0, len(unknown), BATCH):
            some = unknown[start : start + BATCH]
            new = self._looked_up(some)
            found |= new
            for name in some:
                self._resolved.put(name, (new.get(name),))
        return found

    def _looked_up(self, names: Sequence[str]) -> dict[str, str]:
        found = {name: name for name in self._all_present(names)}
        labels = dict.fromkeys(label for name in names for label in (name, _parted(name)[0]) if label)
        things = self._all_carriers([label for label in labels if label not in found])
        for name in names:
            label, local = _parted(name)
            parted = [thing for thing in things.get(label, ()) if local and local_part(thing) == local]
            if name not in found and (those := things.get(name) or parted):
                found[name] = self._weightiest(those[:MOST_CARRIERS])[0]
        wholes = {self._namespace + name: name for name in names if self._namespace and name not in found}
        return found | {wholes[whole]: whole for whole in self._all_present(wholes)}

    def _all_present(self, names: Iterable[str]) -> list[str]:
        """Those texts that are IRIs in the graph."""
        iris = [iri(name) for name in names if is_wellformed(name) and name not in self._kind.hidden]
        if not iris:
            return []
        query = f"SELECT DISTINCT ?x WHERE {{ {values('?x', iris)} FILTER({self._kind.present}) }}"
        return [row["x"].value for rows in self._endpoint.pages(query, "STR(?x)") for row in rows]

    def _all_carriers(self, labels: Sequence[str]) -> dict[str, list[str]]:
        """The things with each of these labels, in the order of `carriers` but for their facts."""
        if self._kind.label is None or not labels:
            return {}
        spellings = [term for label in labels for term in self._spellings(label)]
        query = (
            f"SELECT DISTINCT ?x ?l WHERE {{ {values('?l', spellings)} {self._labelled()}\n"
            f"FILTER({self._kind.present}) }}"
        )
        found: dict[str, dict[str, None]] = {}
        for rows in self._endpoint.pages(query, "STR(?x) LANG(?l) STR(?l)"):
            for row in rows:
                if _writable(row["x"]):
                    found.setdefault(row["l"].value, {})[row["x"].value] = None
        return {label: sorted(things, key=lambda thing: (len(thing), thing)) for label, things in found.items()}

    def carriers(self, label: str, local: str = "") -> list[str]:
        """The things with this label (and local part), at most MOST_CARRIERS.

        Entities come by outgoing facts, most first; then, as relations do, by length of the IRI, then by alphabet.
        """
        if self._kind.label is None or not can_render(literal(label)):
            return []
        ending = f"FILTER(STRENDS(STR(?x), {render(literal(local))}))" if local else ""
        rows = self._endpoint.select(
            f"SELECT DISTINCT ?x WHERE {{ {values('?l', self._spellings(label))} {self._labelled()}\n"
            f"{ending} FILTER({self._kind.present}) }} ORDER BY STRLEN(STR(?x)) STR(?x) LIMIT {MOST_CARRIERS}"
        )
        things = [thing for row in rows if _writable(thing := row["x"]) and local in ("", local_part(thing.value))]
        return self._weightiest([thing.value for thing in things])

    def search(self, text: str, most: int) -> dict[str, str]:
        """IRI to label, for labels that have words of the text in any case; those with most of the words first.

        Most engines scan all labels for this: slow on a large endpoint, and bounded by its timeout.
        """
        words = sorted(set(re.findall(r"[^\W_]+", text.lower())) or {text.lower()}, key=lambda word: (-len(word), word))
        if self._kind.label is None or not text.strip() or not can_render(literal(text)):
            return {}
        tests = [f"IF(CONTAINS(LCASE(STR(?l)), {render(literal(word))}), 1, 0)" for word in words[:MOST_WORDS]]
        rows = self._endpoint.select(
            f"SELECT DISTINCT ?x ?l ?n WHERE {{ {self._labelled()} {self._filter_language()}\n"
            f"BIND({' + '.join(tests)} AS ?n) FILTER(?n > 0) FILTER({self._kind.present}) }}\n"
            f"ORDER BY DESC(?n) STRLEN(STR(?l)) STR(?x) STR(?l) LIMIT {most}"
        )
        labels: dict[str, str] = {}
        for row in rows:
            if _writable(row["x"]):
                labels.setdefault(row["x"].value, row["l"].value)
        return labels

    def near(self, name: str, most: int = 3) -> list[str]:
        """Names that were shown and are spelt much like this one."""
        shown = self._iris.recent(_RECENT)
        close = process.extract(name, shown, scorer=fuzz.ratio, processor=normalise, score_cutoff=70, limit=most)
        return [match for match, _, _ in close]

    def _named(self, things: Sequence[str]) -> dict[str, str]:
        """Choose the name of each thing, and remember it: the first candidate that no other thing answers to."""
        labels = self._labels(things)
        first = {thing: labels.get(thing) or self._less_namespace(thing) for thing in things}
        second = {thing: f"{label} ({local_part(thing)})" for thing, label in labels.items() if local_part(thing)}
        taken = self._taken([(thing, name, "") for thing, name in first.items() if not is_iri(name)])
        taken |= {thing for thing, label in labels.items() if is_iri(label)}  # the label would be taken for that IRI
        contested = {thing: name for thing, name in second.items() if thing in taken}
        rivals = [(thing, labels[thing], local_part(thing)) for thing in contested]
        second_taken = self._taken(rivals + [(thing, name, "") for thing, name in contested.items()])
        names = {}
        for thing in things:
            if thing not in taken:
                names[thing] = first[thing]
            else:
                names[thing] = thing if thing in second_taken else contested.get(thing, thing)
            self._names.put(thing, names[thing])
            self._iris.put(names[thing], thing)
        return names

    def _less_namespace(self, thing: str) -> str:
        rest = thing.removeprefix(self._namespace)
        return rest if rest and not is_iri(rest) else thing

    def _labels(self, things: Sequence[str]) -> dict[str, str]:
        """The label of each thing that has one: in the language, else untagged; of several, the first by alphabet."""
        if self._kind.label is None:
            return {}
        query = (
            f"SELECT DISTINCT ?x ?l WHERE {{ {values('?x', map(iri, things))} {self._labelled()}\n"
            f"{self._filter_language()} }}"
        )
        ranks = {lang.lower(): rank for rank, lang in enumerate(self._langs)}
        best: dict[str, tuple[int, str]] = {}
        for rows in self._endpoint.pages(query, "STR(?x) LANG(?l) STR(?l)"):
            for row in rows:
                thing, label = row["x"].value, row["l"]
                # a label of another type, or a blank one, could not be found again by its text
                if label.kind == "literal" and not label.datatype and label.value.strip():
                    one = (ranks[label.lang.lower()], label.value)
                    best[thing] = min(one, best.get(thing, one))
        return {thing: label for thing, (_, label) in best.items()}

    def _taken(self, claims: Sequence[tuple[str, str, str]]) -> set[str]:
        """Given claims (thing, label, local part): the things whose label another thing has too.

        With a local part, only another thing with the same local part counts.
        """
        if not claims or self._kind.label is None:
            return set()
        # The other thing is ?x, as in every pattern of TermKind; the one that claims the label is ?thing.
        table = " ".join(
            f"({render(iri(thing))} {render(spelling)} {render(literal(local))})"
            for thing, label, local in claims
            for spelling in self._spellings(label)
        )
        ends = " || ".join(f"STRENDS(STR(?x), CONCAT({render(literal(mark))}, ?local))" for mark in _SEPARATORS)
        spelt = {spelling: None for _, label, _ in claims for spelling in self._spellings(label)}
        # All that have one of the labels first, then the claims: Virtuoso 7 finds nothing where a table of several
        # columns is joined with a pattern beside it.
        bearers = f"SELECT DISTINCT ?x ?l WHERE {{ {values('?l', spelt)} {self._labelled()}\n"
        query = (
            f"SELECT DISTINCT ?thing WHERE {{ {{ {bearers}FILTER({self._kind.present}) }} }}\n"
            f"VALUES (?thing ?l ?local) {{ {table} }}\n"
            f'FILTER(?x != ?thing && (?local = "" || {ends})) }}'
        )
        return {row["thing"].value for rows in self._endpoint.pages(query, "STR(?thing)") for row in rows}

    def _present(self, name: str) -> bool:
        """Whether a text is an IRI in the graph."""
        if not is_wellformed(name) or name in self._kind.hidden:
            return False
        query = f"SELECT ?x WHERE {{ {values('?x', [iri(name)])} FILTER({self._kind.present}) }} LIMIT 1"
        return bool(self._endpoint.select(query))

    def _weightiest(self, things: Sequence[str]) -> list[str]:
        if len(things) < 2 or not self._kind.weight:
            return list(things)
        rows = self._endpoint.select(
            f"SELECT ?x (COUNT(*) AS ?n) WHERE {{ {values('?x', map(iri, things))} {self._kind.weight} }}\nGROUP BY ?x"
        )
        weights = {row["x"].value: int(row["n"].value) for row in rows}
        return sorted(things, key=lambda thing: (-weights.get(thing, 0), len(thing), thing))

    def _labelled(self) -> str:
        bearer = "?bearer" if self._kind.bearer else "?x"
        return f"{self._kind.bearer} {bearer} {render(iri(self._kind.label or ''))} ?l ."

    def _filter_language(self) -> str:
        langs = ", ".join(render(literal(lang.lower())) for lang in self._langs)
        return f"FILTER(LCASE(LANG(?l)) IN ({langs}))"

    def _spellings(self, label: str) -> list[Term]:
        return [literal(label, lang=lang) for lang in self._langs]


def _parted(name: str) -> tuple[str, str]:
    """The label and the local part of a name that has both.

    >>> _parted("Titanic (t1997)"), _parted("Titanic")
    (('Titanic', 't1997'), ('', ''))
    """
    label, _, local = name[:-1].rpartition(" (") if name.endswith(")") else ("", "", "")
    return (label, local) if label and local else ("", "")


def _writable(term: Term) -> bool:
    return term.kind == "uri" and is_iri(term.value)


def rank(text: str, candidates: Mapping[str, str], k: int) -> list[tuple[str, float, str]]:
    """The k things whose text in `candidates` is nearest, best first: (thing, score, how), with `how` as in Found.

    >>> rank("paris", {"a": "Parma", "b": "Paris"}, 1)
    [('b', 1.0, 'normalised')]
    """
    wanted = normalise(text)
    ranked = []
    for thing, candidate in candidates.items():
        if candidate == text:
            ranked.append((thing, 1.0, "exact"))
        elif (plain := normalise(candidate)) == wanted:
            ranked.append((thing, 1.0, "normalised"))
        elif score := fuzz.WRatio(wanted, plain):
            ranked.append((thing, min(score / 100, 0.99), "fuzzy"))
    ranked.sort(key=lambda one: (-one[1], one[2], len(candidates[one[0]]), candidates[one[0]], one[0]))
    return ranked[:k]
