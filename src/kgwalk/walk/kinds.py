"""Kinds: all countries, our suppliers. A walk can start from all of a kind, where a question names no entity.

    kinds_in("which departments have more than five employees", graph)      [Kind("Department", ...)]

A graph says in two ways what kind a thing is: by a relation of types (`rdf:type`, `is_a`, `instance of`), whose values
are the kinds; and by its relations (what `country` leads to are countries, what has an `employee_id` is an employee).
Of a graph that does not say what its things are ("the largest package", where no relation has that word) there is still
the kind of all things that it says something of, `thing`.
`kinds_of` lists them, once a graph; `kinds_in` finds them in a question's words, singular or plural.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from rapidfuzz.distance import OSA

from kgwalk.kg.csr import I64
from kgwalk.kg.graph import Batched, Graph, HasClasses, HasRelationEnds, RelationEnds
from kgwalk.kg.names import normalise, singular, split_words
from kgwalk.kg.store import Store, StoredGraph
from kgwalk.types import KgwalkError, RemoteError, Triple, UnknownName
from kgwalk.walk.name_lookup import (
    ALIKE,
    ALIKE_LETTERS,
    TYPE_RELATIONS,
    is_naming,
)
from kgwalk.walk.name_lookup import last_words as _plain
from kgwalk.walk.question_words import (
    FUNCTION_WORDS,
    Text,
    is_noun,
    is_usual,
    same_kind,
    singular_name,
    spellings,
    stem,
)
from kgwalk.walk.values import value_of

log = logging.getLogger(__name__)
OF_TYPE, TAILS, HEADS, ALL = "type", "tails", "heads", "all"  # what is surer comes first
THING = "thing"
SAMPLED = 50  # ends of a relation that are looked at: numbers and dates make no kind
MOST_RELATIONS, FACTS_LOOKED_AT = 200, 2000  # of a graph elsewhere; with more relations it has too many kinds to list
MOST_READ = 100_000  # facts of a graph elsewhere that are read for all of a kind
MOST_VALUES = 0.2  # the share of values among them from which on they make none
OWN_VALUES = 0.7  # the share of values that are one thing's alone from which on they make no kind
LONGEST = 4  # words of a kind's name
MOST_SPELT = 200  # kinds that a question's words are compared with letter by letter, beside the classes
# Words around the noun in a relation's name: has_part leads to parts, employee_of comes from employees.
_LEADS_TO, _COMES_FROM = re.compile(r"^(?:has|have|had|is) (.+)$"), re.compile(r"^(.+) (?:of|for|in|at)$")
_KEY = re.compile(r"^(.+) (?:id|key|code|no|nr|number|ref)$")
_PARTICIPLE = re.compile(r"(?:ed|en|\b(?:born|made|held|built|found|known|sold|bought|won|led|set|put|worn|kept))$")
_AGENTS = re.compile(r"^(\w+) by$")  # what designed_by leads to are designers
_VERBAL = re.compile(r"^.+ (?:by|to|from|with|on|as)$")


CLASS_WORDS = frozenset({"rdf type", "a", "is a", "isa", "instance of", "instanceof"})  # from a thing to its class
RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"


def is_type(relation: str) -> bool:
    """Whether a relation's values are kinds, by its name: rdf:type, but also a column called `type` or `category`.

    >>> is_type("rdf:type"), is_type("category"), is_type("born_in")
    (True, True, False)
    """
    return _plain(relation) in TYPE_RELATIONS


def names_class(graph: Graph, relation: str) -> bool:
    """Whether a relation does nothing but lead from a thing to its class: rdf:type, or `is_a`. A column called `type`
    may say more: it is a kind to start from (`is_type`), and something to ask about as well.
    """
    if _plain(relation) in CLASS_WORDS:
        return True
    if _plain(relation) != "type" or not isinstance(graph, StoredGraph) or graph.store.relation_id is None:
        return False
    number = graph.store.relation_number(relation)
    return number is not None and graph.store.relation_id[number] == RDF_TYPE


@dataclass(frozen=True, slots=True)
class Kind:
    """All things of a kind. `how` says what makes them so: the value of a relation of types (OF_TYPE), that a relation
    leads to them (TAILS), that they have it (HEADS), or that there are facts of them at all (ALL).
    """

    name: str
    how: str
    relation: str
    value: str = ""  # of OF_TYPE: the entity that is the kind

    def members(self, graph: Graph) -> list[str]:
        """Each once, the most mentioned first where the graph is a store."""
        if (kept := getattr(graph, "kind_members", None)) is not None:  # a graph that keeps its latest answers
            members: list[str] = kept(self)
            return members
        if self.how == OF_TYPE:
            try:
                return list(graph.neighbors(self.value, self.relation, out=False).names)
            except UnknownName:
                return []
        if not isinstance(graph, StoredGraph):
            read = list(islice(graph.match(relation=None if self.how == ALL else self.relation), MOST_READ + 1))
            if len(read) > MOST_READ:
                raise KgwalkError(f"there are more than {MOST_READ:,} facts to read for all of the kind {self.name!r}")
            return list(dict.fromkeys(fact.tail if self.how == TAILS else fact.head for fact in read))
        if self.how == ALL:
            if type(graph) is StoredGraph:
                return graph.store.entity.several(np.flatnonzero(np.diff(graph.store.out.groups_array)).tolist())
            return list(dict.fromkeys(fact.head for fact in graph.match()))
        if type(graph) is StoredGraph:
            number = graph.store.relation_number(self.relation)
            ends = [] if number is None else ends_of(graph.store, number, self.how == HEADS).tolist()
            return graph.store.entity.several(ends)
        facts = graph.match(relation=self.relation)
        return list(dict.fromkeys(fact.head if self.how == HEADS else fact.tail for fact in facts))

    def fact(self, graph: Graph, name: str) -> Triple | None:
        """A fact by which a thing is of this kind."""
        pattern = {
            OF_TYPE: (name, self.relation, self.value),
            HEADS: (name, self.relation, None),
            TAILS: (None, self.relation, name),
            ALL: (name, None, None),
        }[self.how]
        return next(iter(islice(graph.match(*pattern), 1)), None)


EVERYTHING = Kind(THING, ALL, "")  # all that the graph says something of


class MentionedKind(NamedTuple):
    """A kind, and where a question has it, in words and in characters."""

    kind: Kind
    first: int
    start: int
    end: int


def kinds_in(question: str, graph: Graph, *, taken: Sequence[tuple[int, int]] = ()) -> list[MentionedKind]:
    """The kinds that a question's words name, in order of mention, the longest name first where two begin together.

    `taken` are stretches of characters that mean something else, such as a name.
    """
    known, text = kinds_of(graph), Text(question)
    found: list[MentionedKind] = []
    at = 0
    while at < len(text.words):
        for last in range(min(at + LONGEST, len(text.words)) - 1, at - 1, -1):
            start, end = text.span(at, last)
            kind = known.called(
                singular_words(word.plain for word in text.words[at : last + 1]), is_noun(text, at, last)
            )
            free = all(end <= low or high <= start for low, high in taken)
            if kind is not None and free and not (at == last and text.words[at].plain in FUNCTION_WORDS):
                if kind not in (one.kind for one in found):
                    found.append(MentionedKind(kind, at, start, end))
                at = last
                break
        at += 1
    return found


class KnownKinds(dict[str, "Kind"]):
    """The kinds of a graph by name, normalised and in the singular, and by what else may be said for them. All is read
    once: a graph like Freebase has thousands, and a question asks for each of its words.
    """

    @cached_property
    def classes(self) -> list[tuple[str, Kind]]:
        return [(plain, kind) for plain, kind in self.items() if kind.how == OF_TYPE]

    @cached_property
    def ending(self) -> dict[str, list[Kind]]:
        """By the last words of a name of several: lines are order lines."""
        found: dict[str, list[Kind]] = {}
        for plain, kind in self.items():
            words = plain.split(" ")
            for at in range(1, len(words) if kind.value or kind.how == TAILS else 0):
                found.setdefault(" ".join(words[at:]), []).append(kind)
        return found

    @cached_property
    def beginning(self) -> dict[str, list[Kind]]:
        found: dict[str, list[Kind]] = {}
        for plain, kind in self.classes:
            words = plain.split(" ")
            for at in range(1, len(words)):
                found.setdefault(" ".join(words[:at]), []).append(kind)
        return found

    @cached_property
    def agents(self) -> dict[str, Kind]:
        """By the stem of who does what a relation says: designers, of designed_by."""
        found: dict[str, Kind] = {}
        for kind in self.values():
            if kind.how == TAILS and (verb := _AGENTS.match(_plain(kind.relation))) is not None:
                found.setdefault(_IRREGULAR.get(verb[1], stem(verb[1])), kind)
        return found

    def called(self, name: str, noun: bool = True) -> Kind | None:
        """The kind that a name in the singular means: by itself, or if it is a `noun` by another word for it (clients
        are customers), as the end or the beginning of just one kind's name (lines are order lines).
        """
        if name in self or not noun:
            return self.get(name) or self.misspelt(name)
        others = [self[other] for other in (*spellings(name), *same_kind(name)) if other in self]
        for how in (OF_TYPE, TAILS) if self.classes else ():
            if len(found := [kind for kind in self.ending.get(name, ()) if kind.how == how]) == 1:
                return found[0]
            if found := [kind for kind in others if kind.how == how]:
                return found[0]
        if name.endswith(("er", "or")) and (maker := self.agents.get(stem(name))) is not None:
            return maker
        begun = self.beginning.get(name, ())
        return begun[0] if len(begun) == 1 else self.misspelt(name)

    def misspelt(self, name: str) -> Kind | None:
        """The class whose name is spelt nearly so: "goverment". Not what is a word of its own."""
        if len(name) < ALIKE_LETTERS or " " in name or name in FUNCTION_WORDS or is_usual(name):
            return None
        spelt = self.items() if len(self) <= MOST_SPELT else self.classes
        near = [(OSA.normalized_similarity(name, plain), kind) for plain, kind in spelt]
        best = max(near, key=lambda entry: entry[0], default=(0.0, None))
        return best[1] if best[0] >= ALIKE else None


# Written by a writer: participles from which the noun cannot be read
_IRREGULAR = {"written": "writ", "made": "mak", "built": "build", "led": "lead", "sung": "sing", "taught": "teach"}
_IRREGULAR |= {"driven": "driv", "sold": "sell", "held": "hold", "won": "win", "drawn": "draw", "run": "run"}
_KINDS: WeakKeyDictionary[Store | StoredGraph, KnownKinds] = WeakKeyDictionary()
_TOLD: WeakKeyDictionary[Graph, KnownKinds] = WeakKeyDictionary()


def kinds_of(graph: Graph) -> KnownKinds:
    """Every kind of a graph by its name, normalised and in the singular; read once. A view has those of its facts, and
    of a graph elsewhere there are the classes that it tells.
    """
    if not isinstance(graph, StoredGraph):
        if graph not in _TOLD:
            _TOLD[graph] = _told(graph)
        return _TOLD[graph]
    whole = type(graph) is StoredGraph
    known = _KINDS.get(graph.store if whole else graph)
    if known is None:
        relations, ends = _all_of_store(graph.store) if whole else _all_of_view(graph)
        looked_at = [_StoredEnds(graph.store, number, ends) for number in relations]
        known = _KINDS[graph.store if whole else graph] = _by_name(_listed(looked_at))
    return known


def can_be_all(kind: Kind, graph: Graph) -> bool:
    """Whether a walk can start from all of a kind: of a graph elsewhere only of one that it tells."""
    if isinstance(graph, StoredGraph) or kind.how == OF_TYPE:
        return True
    told = kinds_of(graph).values()
    return kind in (EVERYTHING, *told) and bool(told) and all(one.how != OF_TYPE for one in told)


def _by_name(kinds: Iterable[Kind]) -> KnownKinds:
    known = KnownKinds()
    for kind in sorted(kinds, key=lambda kind: (OF_TYPE, TAILS, HEADS).index(kind.how)):
        known.setdefault(singular_words(_plain(kind.name).split()), kind)
    known.pop("", None)
    return known


def _told(graph: Graph) -> KnownKinds:
    """The kinds of a graph elsewhere: the classes that it tells; where it has none, what its relations come from and
    lead to, by the same rules as of a store, over some facts of each. Of a graph that cannot tell in its time no kinds
    are known: its questions are walked without them.
    """
    known = KnownKinds()
    relation, classes = graph.classes() if isinstance(graph, HasClasses) else ("", [])
    for name in classes:
        words = singular_words(_plain(split_words(name)).split())
        known.setdefault(words, Kind(class_name(name), OF_TYPE, relation, name))
    if classes or not isinstance(graph, HasRelationEnds) or not isinstance(graph, Batched):
        return known
    try:
        ends = graph.relation_ends(MOST_RELATIONS, FACTS_LOOKED_AT, SAMPLED)
        graph.fetch_relations(dict.fromkeys(name for one in ends for name in one.some_tails), out=True)
        return _by_name(_listed([_ToldEnds(graph, one) for one in ends]))
    except RemoteError as error:
        log.warning("the kinds of this graph are not known: %s", error)
        return known


def kind_named(name: str, graph: Graph) -> Kind | None:
    """The kind of a name, as a question or a program writes it."""
    known = kinds_of(graph)
    plain = singular_words(_plain(name).split())
    kind = known.get(plain) or known.get(f"{plain} by") or (EVERYTHING if plain == THING else None)
    return Kind(_plain(name), TAILS, name) if kind is None and known and graph.has_relation(name) else kind


# What the relations come from and lead to


_Ends = Callable[[int, bool], I64]  # the entities that a relation comes from, or leads to, by number


class _RelationEnds(Protocol):
    """What a relation comes from and leads to, as far as kinds are told by it."""

    name: str

    def count(self, heads: bool) -> int: ...

    def some(self, heads: bool) -> list[str]:
        """At most SAMPLED of its ends."""
        ...

    def every_tail(self) -> list[str]: ...

    def leads_on(self) -> bool:
        """Whether the first of its tails have facts of their own, as things have and values have not."""
        ...


class _StoredEnds:
    """Those of a relation of a store."""

    def __init__(self, store: Store, number: int, ends: _Ends) -> None:
        self.name, self._store, self._number, self._ends = store.relation_name(number), store, number, ends

    def count(self, heads: bool) -> int:
        return len(self._ends(self._number, heads))

    def some(self, heads: bool) -> list[str]:
        return self._store.entity.several(self._ends(self._number, heads)[:SAMPLED].tolist())

    def every_tail(self) -> list[str]:
        return self._store.entity.several(self._ends(self._number, False).tolist())

    def leads_on(self) -> bool:
        sample, groups = self._ends(self._number, False)[:SAMPLED], self._store.out.groups_array
        return len(sample) > 0 and bool(np.mean(groups[sample + 1] > groups[sample]) > 0.5)


class _ToldEnds:
    """Those that a graph elsewhere tells of a relation; the relations around its tails have been fetched."""

    def __init__(self, graph: Graph, told: RelationEnds) -> None:
        self.name, self._graph, self._told = told.relation, graph, told

    def count(self, heads: bool) -> int:
        return self._told.heads if heads else self._told.tails

    def some(self, heads: bool) -> list[str]:
        return list(self._told.some_heads if heads else self._told.some_tails)[:SAMPLED]

    def every_tail(self) -> list[str]:
        if len(self._told.some_tails) < SAMPLED:  # these are all: reading every fact of a relation may take minutes
            return list(self._told.some_tails)
        facts = islice(self._graph.match(relation=self.name), FACTS_LOOKED_AT)
        return list(dict.fromkeys(fact.tail for fact in facts))

    def leads_on(self) -> bool:
        leading = [bool(self._graph.relations(name)) for name in self.some(False)]
        return bool(leading) and sum(leading) > 0.5 * len(leading)


def _listed(relations: Sequence[_RelationEnds]) -> Iterator[Kind]:
    typed = any(is_type(one.name) for one in relations)
    for one in relations:
        relation, words = one.name, _plain(one.name)
        if is_type(relation):
            values = one.every_tail()
            yield from (Kind(class_name(value), OF_TYPE, relation, value) for value in values)
            yield from _called_alike(relation, values)
            continue
        if _AGENTS.match(words):
            if _things(one.some(False)):
                yield Kind(words, TAILS, relation)
            continue
        comes, key, leads = _COMES_FROM.match(words), _KEY.match(words), _LEADS_TO.match(words)
        if is_naming(words) or _VERBAL.match(words) or (comes and _PARTICIPLE.search(comes[1])):
            continue
        if comes:
            if _things(one.some(True)):
                yield Kind(comes[1], HEADS, relation)
        elif key:
            # A foreign key leads to what it is called after; a key of its own tells what its things are.
            if one.leads_on():
                yield Kind(key[1], TAILS, relation)
            elif not typed and one.count(False) == one.count(True) and _things(one.some(True)):
                yield Kind(key[1], HEADS, relation)
        elif _things(one.some(False)) and not _tells_apart(one):
            yield Kind(leads[1] if leads else words, TAILS, relation)


def _called_alike(relation: str, values: Sequence[str]) -> Iterator[Kind]:
    """What the values of a relation of types have in common: e-bikes, city bikes and cargo bikes are bikes."""
    last = Counter(singular(normalise(value).split()[-1]) for value in values if " " in value or "-" in value)
    for word, count in last.most_common(1):
        if count > 1 and 2 * count > len(values):
            yield Kind(word, HEADS, relation)


def _tells_apart(relation: _RelationEnds) -> bool:
    """Whether nearly everything has a value of its own, such as an address or a telephone number."""
    heads, tails = relation.count(True), relation.count(False)
    return heads > SAMPLED and tails > OWN_VALUES * heads and not relation.leads_on()


def ends_of(store: Store, relation: int, heads: bool) -> I64:
    """The entities that a relation comes from, or leads to, by number."""
    return (store.out if heads else store.in_).having(relation)


def _all_of_store(store: Store) -> tuple[Iterable[int], _Ends]:
    having = store.in_.by_relation(), store.out.by_relation()  # one pass for all relations
    return range(len(store.relation)), lambda relation, heads: having[heads](relation)


def _all_of_view(graph: StoredGraph) -> tuple[Iterable[int], _Ends]:
    """The relations of a view, which may be few of the store's, and their ends."""
    heads_E, relations_E, tails_E = graph.facts_by_number()
    return np.unique(relations_E).tolist(), lambda relation, heads: np.unique(
        (heads_E if heads else tails_E)[relations_E == relation]
    )


def _things(names: Sequence[str]) -> bool:
    """Whether the ends of a relation are things with names, not numbers and dates."""
    values = sum(value_of(name) is not None for name in names)
    return bool(names) and values <= MOST_VALUES * len(names)


def class_name(name: str) -> str:
    """The last part of an address: `http://example.org/Product` is called Product."""
    return re.split(r"[/#]", name.rstrip("/#"))[-1] if "://" in name else name


def singular_words(words: Iterable[str]) -> str:
    return singular_name(" ".join(words))
