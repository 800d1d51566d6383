"""Kinds: all countries, our suppliers. A walk can start from all of a kind, where a question names no entity.

    kinds_in("which departments have more than five employees", graph)      [Kind("Department", ...)]

A graph says in two ways what kind a thing is: by a relation of types (`rdf:type`, `is_a`, `instance of`), whose values
are the kinds; and by its relations (what `country` leads to are countries, what has an `employee_id` is an employee).
Of a graph that does not say what its things are ("the largest package", where no relation has that word) there is still
the kind of all things that it says something of, `thing`.
`kinds_of` lists them, once a graph; `kinds_in` finds them in a question's words, singular or plural.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from kgwalk.kg.csr import I64
from kgwalk.kg.graph import Graph
from kgwalk.kg.names import normalise, singular
from kgwalk.kg.store import Store, StoredGraph
from kgwalk.types import Question, Triple, UnknownName
from kgwalk.walk.name_lookup import FUNCTION_WORDS, Text
from kgwalk.walk.values import value_of

# Relations whose values are kinds, by the end of their names, normalised
TYPE_RELATIONS = frozenset({"type", "rdf type", "a", "is a", "isa", "instance of", "instanceof", "kind", "category"})
OF_TYPE, TAILS, HEADS, ALL = "type", "tails", "heads", "all"  # what is surer comes first
THING = "thing"
SAMPLED = 50  # ends of a relation that are looked at: numbers and dates make no kind
MOST_VALUES = 0.2  # the share of values among them from which on they make none
LONGEST = 4  # words of a kind's name
# Words around the noun in a relation's name: has_part leads to parts, employee_of comes from employees.
_LEADS_TO, _COMES_FROM = re.compile(r"^(?:has|have|had|is) (.+)$"), re.compile(r"^(.+) (?:of|for|in|at)$")
_VERBAL = re.compile(r"^.+ (?:by|to|from|with|on|as)$")


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
        if self.how == ALL:
            if type(graph) is StoredGraph:
                return graph.store.entity.several(np.flatnonzero(np.diff(graph.store.out.groups_array)).tolist())
            return list(dict.fromkeys(fact.head for fact in graph.match()))
        if type(graph) is StoredGraph:
            number = graph.store.relation_number(self.relation)
            ends = [] if number is None else _ends(graph.store, number, self.how == HEADS).tolist()
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


class MentionedKind(NamedTuple):
    """A kind, and where a question has it, in characters."""

    kind: Kind
    start: int
    end: int


def kinds_in(
    question: str, graph: Graph, *, taken: Sequence[tuple[int, int]] = (), most: int = 3
) -> list[MentionedKind]:
    """The kinds that a question's words name, in order of mention, the longest name first where two begin together.

    `taken` are stretches of characters that mean something else, such as a name. A graph that is not a store on this
    machine is not searched for kinds: that would read all of it.
    """
    if not isinstance(graph, StoredGraph):
        return []
    known = kinds_of(graph)
    text = Text(question)
    found: list[MentionedKind] = []
    at = 0
    while at < len(text.words) and len(found) < most:
        for last in range(min(at + LONGEST, len(text.words)) - 1, at - 1, -1):
            start, end = text.span(at, last)
            kind = known.get(_singular(word.plain for word in text.words[at : last + 1]))
            free = all(end <= low or high <= start for low, high in taken)
            if kind is not None and free and not (at == last and text.words[at].plain in FUNCTION_WORDS):
                if kind not in (one.kind for one in found):
                    found.append(MentionedKind(kind, start, end))
                at = last
                break
        at += 1
    return found


_KINDS: WeakKeyDictionary[Store | StoredGraph, dict[str, Kind]] = WeakKeyDictionary()


def kinds_of(graph: StoredGraph) -> dict[str, Kind]:
    """Every kind of a graph by its name, normalised and in the singular; read once. A view has those of its facts."""
    whole = type(graph) is StoredGraph
    known = _KINDS.get(graph.store if whole else graph)
    if known is None:
        known = _KINDS[graph.store if whole else graph] = {}
        relations, ends = _all_of_store(graph.store) if whole else _all_of_view(graph)
        listed = _listed(graph.store, relations, ends)
        for kind in sorted(listed, key=lambda kind: (OF_TYPE, TAILS, HEADS).index(kind.how)):
            known.setdefault(_singular(_plain(kind.name).split()), kind)
        known.pop("", None)
        known.setdefault(THING, Kind(THING, ALL, ""))
    return known


def kind_named(name: str, graph: Graph) -> Kind | None:
    """The kind of a name, as a question or a program writes it."""
    known = kinds_of(graph) if isinstance(graph, StoredGraph) else {}
    return known.get(_singular(_plain(name).split()))


def starting_kinds(question: Question, topics: Sequence[str], graph: Graph) -> list[Kind]:
    """What a walk starts from beside its topics: the kinds that the dataset names, else those in the question."""
    return gold_kinds(question, graph) if "kinds" in question.extra else kinds_beside(question.question, topics, graph)


def kinds_beside(question: str, topics: Sequence[str], graph: Graph) -> list[Kind]:
    """The kinds that a question's words name beside its topics."""
    plain = question.casefold()
    places = [(plain.find(name.casefold()), len(name)) for name in topics]
    taken = [(at, at + length) for at, length in places if at >= 0]
    return [one.kind for one in kinds_in(question, graph, taken=taken)]


def gold_kinds(question: Question, graph: Graph) -> list[Kind]:
    """The kinds that a question is known to start from: those that its dataset names under `kinds`."""
    names = question.extra.get("kinds")
    found = [kind_named(str(name), graph) for name in names] if isinstance(names, list) else []
    return [kind for kind in found if kind is not None]


def is_type(relation: str) -> bool:
    """Whether a relation says of what kind a thing is.

    >>> is_type("rdf:type"), is_type("instance of"), is_type("born_in")
    (True, True, False)
    """
    return _plain(relation) in TYPE_RELATIONS


_Ends = Callable[[int, bool], I64]  # the entities that a relation comes from, or leads to, by number


def _listed(store: Store, relations: Iterable[int], ends: _Ends) -> Iterator[Kind]:
    for number in relations:
        relation = store.relation_name(number)
        words = _plain(relation)
        if is_type(relation):
            for value in store.entity.several(ends(number, False).tolist()):
                yield Kind(_last(value), OF_TYPE, relation, value)
            continue
        comes = _COMES_FROM.match(words)
        if comes:
            if _things(store, ends(number, True)):
                yield Kind(comes[1], HEADS, relation)
            continue
        leads = _LEADS_TO.match(words)
        if not _VERBAL.match(words) and _things(store, ends(number, False)):
            yield Kind(leads[1] if leads else words, TAILS, relation)
        noun, _, rest = words.rpartition(" ")
        if noun and rest in ("id", "name", "number", "no", "code", "key") and _things(store, ends(number, True)):
            yield Kind(noun, HEADS, relation)


def _ends(store: Store, relation: int, heads: bool) -> I64:
    """The entities that a relation comes from, or leads to, by number."""
    edges = store.out if heads else store.in_
    groups = np.flatnonzero(edges.relation_array == relation)
    return np.searchsorted(edges.groups_array, groups, side="right") - 1


def _all_of_store(store: Store) -> tuple[Iterable[int], _Ends]:
    return range(len(store.relation)), lambda relation, heads: _ends(store, relation, heads)


def _all_of_view(graph: StoredGraph) -> tuple[Iterable[int], _Ends]:
    """The relations of a view, which may be few of the store's, and their ends."""
    heads_E, relations_E, tails_E = graph.facts_by_number()
    return np.unique(relations_E).tolist(), lambda relation, heads: np.unique(
        (heads_E if heads else tails_E)[relations_E == relation]
    )


def _things(store: Store, ends: I64) -> bool:
    """Whether the ends are things with names, not numbers and dates."""
    names = store.entity.several(ends[:SAMPLED].tolist())
    values = sum(value_of(name) is not None for name in names)
    return bool(names) and values <= MOST_VALUES * len(names)


def _last(name: str) -> str:
    """The last part of an address: `http://example.org/Product` is called Product."""
    return re.split(r"[/#]", name.rstrip("/#"))[-1] if "://" in name else name


def _plain(name: str) -> str:
    """The words of a relation's or a class's name, without what comes before the last dot, slash or hash."""
    last = re.split(r"[./#:]", name.rstrip("./#:"))[-1] or name
    return normalise(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", last))


def _singular(words: Iterable[str]) -> str:
    """
    >>> _singular(["countries"]), _singular(["sales", "people"]), _singular(["buses"]), _singular(["bus"])
    ('country', 'sales person', 'bus', 'bus')
    """
    *before, last = [*words] or [""]
    return " ".join([*before, singular(last)])
