"""What lies behind a relation: of what class the things are that it leads to, and which relations go on from there.

    -> supplier_id (suppliers: city, country, ^ships_to), replaced_by (alike), since = 2019-04-01
    -> born_in = Oslo (country, mayor), height = 1.82
    <- dest (flights: carrier, origin, tailnum), origin (as dest)

A model that reads `dest` alone cannot know that an airline lies one step behind a flight: it takes another relation, or
says that the graph does not know. Tables of a company are like that, where a row joins two things and has no name that
anyone asks for. And one that reads `since` cannot know that it is a day: a sample of what a relation leads to tells
numbers, days and names apart.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from kgwalk.kg.graph import Batched, Graph
from kgwalk.types import UnknownName
from kgwalk.walk.kinds import class_name, names_class
from kgwalk.walk.name_lookup import NAMES as NAMING
from kgwalk.walk.name_lookup import last_words
from kgwalk.walk.tagged_text import escape_name
from kgwalk.walk.values import value_of

LOOKED_AT = 6  # things behind a relation that are asked for theirs
ASKED = 12  # members of a set that are asked where a relation leads
NEAREST = 32  # neighbours of one member that these are chosen from
CLASSES = 2  # names of classes that are shown
NAMES = 40  # names behind all relations of a set together: a thing with many relations shows fewer behind each
LEAST = 3  # names behind a relation that are worth showing
SAMPLES = 24  # relations of a set that are listed with a sample of what they lead to
SAMPLE_LENGTH = 24  # characters of a sample
UNNAMED = re.compile(r"_:|[mg]\.[0-9a-z_]+$|cvt\.")  # nodes that only join others: their ids say nothing
SHARED = 3  # relations that things without a class have in common, at least, to be alike
SAME = 0.7  # and the share of relations


@dataclass(frozen=True, slots=True)
class Behind:
    """What is behind one relation: relations to things, then to values, then those that enter, written `^so`; of each
    sort the most shared first.
    """

    classes: tuple[str, ...] = ()
    relations: tuple[str, ...] = ()

    def like(self, other: Behind) -> bool:
        """Whether the things are of the same sort: of the same classes, or where there are none, most relations of
        the one are relations of the other (a thing may lack some).
        """
        if self.classes or other.classes:
            return self.classes == other.classes
        mine, theirs = set(self.relations), set(other.relations)
        return len(mine & theirs) >= max(SHARED, SAME * min(len(mine), len(theirs)))

    def note(self, most: int) -> str:
        """How a listing says it, with at most so many relations.

        >>> Behind(("flights",), ("carrier", "origin", "^leg")).note(2)
        ' (flights: carrier, origin)'
        """
        relations = ", ".join(map(escape_name, self.relations[:most]))
        classes = " or ".join(map(escape_name, self.classes[:CLASSES]))
        return f" ({': '.join(filter(None, (classes, relations)))})" if relations else ""


@dataclass
class Outlook:
    """Looks behind the relations of one graph. `called` is how a walk calls a relation, `real` the way back."""

    graph: Graph
    called: Callable[[str], str] = str
    real: Callable[[str], str] = str
    _class: dict[str, bool] = field(default_factory=dict)  # of relations: whether it leads to a thing's class
    _naming: dict[str, bool] = field(default_factory=dict)
    _things: dict[str, bool] = field(default_factory=dict)

    def notes(
        self, members: Sequence[str], around: Sequence[tuple[str, bool]], most: int, *, samples: bool = False
    ) -> list[str]:
        """What is behind each relation around a set, as its listing says it; `around` has relations and directions.

        What is like the set itself, or like what another relation of the listing leads to, is said in a word. With
        `samples` a relation that leads to values, or to things of no class, is shown with one of their names.
        """
        self._fetch(members, around)
        own = self._sort(members)
        first: list[tuple[str, Behind]] = []
        found: list[str | Behind] = []
        for relation, out in around:
            behind = self.behind(members, relation, out)
            twin = next((name for name, one in first if one.like(behind)), None)
            if behind.relations and own.like(behind):
                found.append(" (alike)")
            elif behind.relations and twin is not None:
                found.append(f" (as {escape_name(twin)})")
            else:
                first += [(relation, behind)] if behind.relations else []
                found.append(behind)
        each = min(most, NAMES // len(first)) if first else 0
        shown = each >= min(LEAST, most)
        left = SAMPLES if samples else 0
        notes = []
        for (relation, out), one in zip(around, found, strict=True):
            note = "" if not shown else one if isinstance(one, str) else one.note(each)
            if left and not (shown and (isinstance(one, str) or one.classes)):
                sample = self._sample(members, relation, out)
                left -= bool(sample)
                note = sample + note
            notes.append(note)
        return notes

    def behind(self, members: Sequence[str], relation: str, out: bool) -> Behind:
        """Of a relation by the name that it has in the walk; nothing of a path, which says itself where it leads."""
        relation = self.real(relation)
        return self._sort(self._there(members, relation, out), (relation, not out))

    def _there(self, members: Sequence[str], relation: str, out: bool) -> list[str]:
        """Some of what a relation leads to."""
        there: list[str] = []
        for name in spread(members, ASKED):
            there += spread(self._neighbors(name, relation, out), LOOKED_AT)
            if len(there) > ASKED:
                break
        return list(dict.fromkeys(there))

    def _fetch(self, members: Sequence[str], around: Sequence[tuple[str, bool]]) -> None:
        """Of a graph elsewhere, ask at once for all that `notes` looks at: the neighbours of some members, the
        relations around these, what their classes are and what their relations lead to. That are as many queries for
        a set of thousands with forty relations as for one thing with one.
        """
        if not isinstance(self.graph, Batched):
            return
        ways = [(self.real(relation), out) for relation, out in around]
        self.graph.fetch_some(spread(members, ASKED), ways, NEAREST)
        looked_at = [spread(self._there(members, relation, out), LOOKED_AT) for relation, out in ways]
        things = [name for some in (spread(members, LOOKED_AT), *looked_at) for name in some if value_of(name) is None]
        things = list(dict.fromkeys(things))
        for out in (True, False):
            self.graph.fetch_relations(things, out=out)
        classes: dict[str, set[str]] = {}
        first: dict[str, str] = {}  # by a relation that is not known yet to lead to things: what has it first
        for name in things:
            for one in self._relations(name, True):
                if self._is_class(one):
                    classes.setdefault(one, set()).add(name)
                elif not self._is_naming(one) and one not in self._things:
                    first.setdefault(one, name)
        classed = dict.fromkeys(name for some in classes.values() for name in some)
        self.graph.fetch_some(classed, [(one, True) for one in classes], NEAREST)
        self.graph.fetch_some(dict.fromkeys(first.values()), [(one, True) for one in first], NEAREST)
        ends = [end for one, name in first.items() for end in self._neighbors(name, one)[:1] if value_of(end) is None]
        self.graph.fetch_relations(dict.fromkeys(ends), out=True)

    def _sample(self, members: Sequence[str], relation: str, out: bool) -> str:
        """One of the names that a relation leads to, or a path of two to a value, as a listing says it."""
        first, _, second = relation.partition("/")
        path = second and not self.graph.has_relation(self.real(relation))
        for name in spread(members, ASKED):
            there = self._neighbors(name, self.real(first if path else relation), out)
            if path and there:
                there = self._neighbors(there[0], self.real(second))
            if there:
                text = " ".join(there[0].split())
                cut = text if len(text) <= SAMPLE_LENGTH else f"{text[: SAMPLE_LENGTH - 3].rstrip()}..."
                return "" if UNNAMED.match(text) else f" = {escape_name(cut)}"
        return ""

    def _sort(self, names: Sequence[str], back: tuple[str, bool] = ("", True)) -> Behind:
        """What some things are, and the relations around them but the one that leads back."""
        classes: Counter[str] = Counter()
        things: Counter[str] = Counter()
        values: Counter[str] = Counter()
        entering: Counter[str] = Counter()
        for name in spread(names, LOOKED_AT):
            if value_of(name) is not None:
                continue
            leaving = self._relations(name, True)
            classes.update(self._classes(name, leaving))
            for one in leaving:
                if not self._is_class(one) and not self._is_naming(one) and back != (one, True):
                    (things if self._to_thing(name, one) else values)[one] += 1
            entering.update(
                one for one in self._relations(name, False) if not self._is_naming(one) and back != (one, False)
            )
        onward = [self.called(one) for some in (things, values) for one in _ranked(some)]
        return Behind(tuple(_ranked(classes)), (*onward, *(f"^{self.called(one)}" for one in _ranked(entering))))

    def _to_thing(self, name: str, relation: str) -> bool:
        """Whether a relation leads to something that leads on; decided once, by the first thing that has it."""
        if relation not in self._things:
            ends = self._neighbors(name, relation)[:1]
            self._things[relation] = any(value_of(end) is None and self._relations(end, True) for end in ends)
        return self._things[relation]

    def class_of(self, members: Sequence[str]) -> str:
        """The class that the first members share, if they do."""
        of_each = [set(self._classes(name, self._relations(name, True))) for name in members[:LOOKED_AT]]
        shared = sorted(set.intersection(*of_each)) if of_each else []
        return shared[0] if len(shared) == 1 else ""

    def _classes(self, name: str, relations: Iterable[str]) -> list[str]:
        named = [one for relation in relations if self._is_class(relation) for one in self._neighbors(name, relation)]
        return [class_name(one) for one in named]

    def _is_class(self, relation: str) -> bool:
        if relation not in self._class:
            self._class[relation] = names_class(self.graph, relation)
        return self._class[relation]

    def _is_naming(self, relation: str) -> bool:
        if relation not in self._naming:
            self._naming[relation] = last_words(relation) in NAMING
        return self._naming[relation]

    def _relations(self, name: str, out: bool) -> list[str]:
        return relations_at(self.graph, name, out)

    def _neighbors(self, name: str, relation: str, out: bool = True) -> list[str]:
        try:
            return list(self.graph.neighbors(name, relation, out=out, limit=NEAREST).names)
        except UnknownName:
            return []


def relations_at(graph: Graph, name: str, out: bool) -> list[str]:
    """The relations that leave a thing, or enter it; none where it is no thing of the graph, such as a count."""
    try:
        return graph.relations(name, out=out)
    except UnknownName:
        return []


def spread(names: Sequence[str], most: int) -> Sequence[str]:
    """At most so many of the names, from all over them: the first few of a table may be of one sort.

    >>> spread("abcdefghi", 3)
    ['a', 'd', 'g']
    """
    return names if len(names) <= most else [names[at * len(names) // most] for at in range(most)]


def _ranked(counts: Counter[str]) -> list[str]:
    return sorted(counts, key=lambda name: (-counts[name], name))
