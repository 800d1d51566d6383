"""Named result sets: every result is `$1`, `$2`, ..., and tools make new sets of sets and entities.

So a director's thirty films are one call and one name, an answer is a set and cannot be misspelt, and each member has
the facts it came by. The methods of `Sets` are the tools of the `kgwalk` protocol: their first lines are what the model
reads of them.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from rapidfuzz import fuzz, process

from kgwalk.kg.graph import Graph
from kgwalk.kg.names import ShortNames
from kgwalk.kg.times import parse_time
from kgwalk.types import Triple, UnknownName
from kgwalk.walk.tagged_text import escape_name

# Numbers and dates as texts have them: 67391582, "1,234.5", "10 million", 1999-12-31


SCALES = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_FIGURES, _SCALE = r"[-+]?\d[\d,]*(?:\.\d+)?", rf"[ -]({'|'.join(SCALES)})\b"
_WRITTEN = re.compile(f"{_FIGURES}(?:{_SCALE})?", re.IGNORECASE)
_SCALED = re.compile(f"({_FIGURES}){_SCALE}", re.IGNORECASE)


def number_of(text: str) -> float | None:
    """A number, or a date as a year with its fraction, so that years and days compare; None for anything else.

    >>> number_of("67391582"), number_of("1,234.5"), number_of("2.5 million"), number_of("Paris")
    (67391582.0, 1234.5, 2500000.0, None)
    >>> number_of("1999") < number_of("1999-12-31") < number_of("2000")
    True
    """
    scaled = _SCALED.fullmatch(text.strip())
    if scaled is not None:
        return float(scaled[1].replace(",", "")) * SCALES[scaled[2].lower()]
    try:
        return float(text.replace(",", ""))
    except ValueError:
        pass
    try:
        return 1970 + parse_time(text)[0] / 365.2425
    except ValueError:
        return None


def as_written(number: str, text: str) -> str:
    """A number in the words that a text has for it; itself, if there are none.

    >>> as_written("10000000", "Which of Angola's neighbours have more than 10 million inhabitants?")
    '10 million'
    >>> as_written("150000", "cities over 150,000 in 1990"), as_written("3", "Which of the 30 are above three?")
    ('150,000', '3')
    """
    wanted = number_of(number)
    found = (match[0].rstrip(",") for match in _WRITTEN.finditer(text))
    return next((words for words in found if wanted is not None and number_of(words) == wanted), number)


# Members asked for the relations around a set: a set of thousands shares its relations among the first few.
RELATIONS_OF = 200
MOST_MEMBERS = 100_000
MOST_COUNTED = 24  # members of a set that was counted, whose facts are the count's evidence
ALIKE = 70  # of 100: from where on a name is taken for a misspelt other one
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "!=": operator.ne,
}


Reference = str | int  # an entity by name, or a set by number


# what a walk may call; the last only where facts have dates
TOOLS = ("tail_entities", "head_entities", "intersect", "union", "minus", "count", "filter", "argmax", "argmin")
DATED_TOOLS = ("between",)


class SetError(Exception):
    """A call that makes no set: the message is for the model, with names escaped."""


class TooMany(SetError):
    """The set would have more members than is allowed."""


@dataclass(frozen=True)
class NamedSet:
    """Members in a fixed order, and how each came to be: the fact by which, and the set from which."""

    members: tuple[str, ...]
    came: dict[str, Triple]  # members reached by a fact
    parents: tuple[int, ...]  # numbers of the sets it was made from
    chosen: dict[str, Triple] = field(default_factory=dict)  # members chosen by a value: the fact that has it
    counts: bool = False  # its one member is how many the set has that it was made from

    def __len__(self) -> int:
        return len(self.members)


class Sets:
    """The sets of one walk, over one graph.

    A tool's first line of documentation is what the model reads about it. With `short` relations go by their short
    names (`kg.short_names`) where the graph is a store; whole names are understood as well, and facts have these.
    A set that a relation leads to has at most `most` members. Without `facts` nothing is kept of how they were reached:
    enough for those who only want to know the members, and quicker.
    """

    def __init__(
        self,
        graph: Graph,
        topics: Sequence[str],
        *,
        short: bool = False,
        most: int = MOST_MEMBERS,
        facts: bool = True,
    ) -> None:
        self.graph, self.most, self.facts = graph, most, facts
        store = getattr(graph, "store", None)
        self._names: ShortNames | None = store.short_names if short and store is not None else None
        self.made: list[NamedSet] = [NamedSet((topic,), {}, ()) for topic in topics]

    def get(self, reference: Reference) -> tuple[NamedSet, tuple[int, ...]]:
        """The set of a number, or of one entity by its name; and the number, if it has one."""
        if isinstance(reference, int):
            if (missing := self.missing([reference])) is not None:
                raise SetError(missing)
            return self.made[reference - 1], (reference,)
        if reference not in self.graph:
            raise SetError(f'entity "{escape_name(reference)}" is not in the graph')
        return NamedSet((reference,), {}, ()), ()

    def missing(self, references: Iterable[Reference]) -> str | None:
        """What to say of the first set among these that was never made; None if there is none."""
        last = len(self.made)
        wrong = next((number for number in references if isinstance(number, int) and not 1 <= number <= last), None)
        return None if wrong is None else f"there is no set ${wrong}; the last is ${last}"

    def add(self, made: NamedSet) -> int:
        if not made.members:
            raise SetError("the result is empty")
        self.made.append(made)
        return len(self.made)

    def shown(self, relation: str) -> str:
        """A relation as it is called here."""
        return relation if self._names is None else self._names.shown(relation)

    def _real(self, relation: str) -> str:
        return relation if self._names is None else self._names.real(relation)

    # Tools

    def tail_entities(self, source: Reference, relation: str) -> int:
        """follow a relation forwards: the tails of facts whose heads are in the set"""
        return self._hop(source, relation, out=True)

    def head_entities(self, source: Reference, relation: str) -> int:
        """follow a relation backwards: the heads of facts whose tails are in the set"""
        return self._hop(source, relation, out=False)

    def intersect(self, left: Reference, right: Reference) -> int:
        """members of both sets"""
        return self._combine(left, right, lambda a, b: [name for name in a if name in b])

    def union(self, left: Reference, right: Reference) -> int:
        """members of either set"""
        return self._combine(left, right, lambda a, b: dict.fromkeys([*a, *b]))

    def minus(self, left: Reference, right: Reference) -> int:
        """members of the first set that are not in the second"""
        return self._combine(left, right, lambda a, b: [name for name in a if name not in b])

    def count(self, source: Reference) -> int:
        """how many members a set has"""
        members, number = self.get(source)
        return self.add(NamedSet((str(len(members)),), {}, number, counts=True))

    def argmax(self, source: Reference, relation: str) -> int:
        """the members with the largest value of a relation"""
        return self._extreme(source, relation, max)

    def argmin(self, source: Reference, relation: str) -> int:
        """the members with the smallest value of a relation"""
        return self._extreme(source, relation, min)

    def filter(self, source: Reference, relation: str, comparison: str, value: str) -> int:
        """members whose value of a relation compares so (> >= < <= = !=) with a value"""
        compare = COMPARISONS.get(comparison)
        if compare is None:
            raise SetError(f'"{escape_name(comparison)}" is no comparison; use one of {" ".join(COMPARISONS)}')
        bound = number_of(value)
        members, number = self.get(source)
        if bound is None and comparison not in ("=", "!="):
            raise SetError(f'"{escape_name(value)}" is not a number or date')
        kept: dict[str, Triple] = {}
        for name in members.members:
            for fact in self._values(name, relation):
                found = number_of(fact.tail)
                same = fact.tail == value
                fits = compare(found, bound) if found is not None and bound is not None else same == (comparison == "=")
                if fits:
                    kept[name] = fact
                    break
        return self.add(NamedSet(tuple(kept), {}, number, kept))

    def between(self, source: Reference, relation: str, start: str, end: str) -> int:
        """follow a relation forwards, only by facts that hold at some time from start to end"""
        view = getattr(self.graph, "between", None)
        if view is None:
            raise SetError("this graph has no dates")
        try:
            window = view(start or None, end or None, undated=False)
        except ValueError as error:
            raise SetError(escape_name(str(error))) from error
        return self._hop(source, relation, out=True, graph=window)

    # How

    def _hop(self, source: Reference, relation: str, *, out: bool, graph: Graph | None = None) -> int:
        members, number = self.get(source)
        relation = self._real(relation)
        found: dict[str, None] = {}
        came: dict[str, Triple] = {}
        seen = graph or self.graph
        limit = self.most + 1 if self.most < MOST_MEMBERS else None
        for name in members.members:
            others = self._neighbors(seen, name, relation, out, limit)
            if self.facts:
                for other in others:
                    if other not in came:
                        came[other] = Triple(name, relation, other) if out else Triple(other, relation, name)
            found.update(dict.fromkeys(others))
            if len(found) > self.most:
                raise TooMany(f"the result has more than {self.most:,} members; narrow it down first")
        if not found and graph is None and self._follows(members, relation, not out):
            where, tool = ("enters", "head_entities") if out else ("leaves", "tail_entities")
            raise SetError(f'the result is empty; "{escape_name(self.shown(relation))}" {where} the set: {tool}')
        return self.add(NamedSet(tuple(found), came, number))

    def _follows(self, members: NamedSet, relation: str, out: bool) -> bool:
        """Whether the relation leads anywhere from the set, in this direction."""
        return any(next(iter(self._neighbors(self.graph, name, relation, out)), None) for name in members.members)

    def _neighbors(self, graph: Graph, name: str, relation: str, out: bool, limit: int | None = None) -> Iterable[str]:
        try:
            return graph.neighbors(name, relation, out=out, limit=limit).names
        except UnknownName as error:
            if error.name == relation and not self.graph.has_relation(relation):
                near = self._nearest(name, relation)
                raise SetError(f'relation "{escape_name(relation)}" is not in the graph{near}') from None
            return ()  # a member that is no entity (a count), or has no fact in the view

    def _nearest(self, name: str, relation: str) -> str:
        """Of the relations at an entity the one that is written most like another."""
        there = {self.shown(one) for out in (True, False) for one in self.graph.relations(name, out=out)}
        found = process.extractOne(relation, sorted(there), scorer=fuzz.ratio, score_cutoff=ALIKE)
        return "" if found is None else f'; there is "{escape_name(found[0])}"'

    def _combine(
        self, left: Reference, right: Reference, how: Callable[[dict[str, None], dict[str, None]], Iterable[str]]
    ) -> int:
        (one, first), (two, second) = self.get(left), self.get(right)
        names = tuple(how(dict.fromkeys(one.members), dict.fromkeys(two.members)))
        return self.add(NamedSet(names, {}, first + second))

    def _values(self, name: str, relation: str) -> list[Triple]:
        relation = self._real(relation)
        return [Triple(name, relation, value) for value in self._neighbors(self.graph, name, relation, True)]

    def _extreme(self, source: Reference, relation: str, choose: Callable[[Iterable[float]], float]) -> int:
        members, number = self.get(source)
        values: dict[str, float] = {}
        facts: dict[str, Triple] = {}
        for name in members.members:
            numbers = [(n, fact) for fact in self._values(name, relation) if (n := number_of(fact.tail)) is not None]
            if numbers:
                values[name] = choose(value for value, _ in numbers)
                facts[name] = next(fact for value, fact in numbers if value == values[name])
        if not values:
            raise SetError(f'no member has a number for "{escape_name(relation)}"')
        best = choose(values.values())
        chosen = {name: facts[name] for name, value in values.items() if value == best}
        return self.add(NamedSet(tuple(chosen), {}, number, chosen))

    def relations_around(self, number: int) -> tuple[list[str], list[str]]:
        """The relations that leave and that enter a set, the most shared first."""
        result = []
        names = self.made[number - 1].members[:RELATIONS_OF]
        for out in (True, False):
            counts = Counter(relation for name in names for relation in self._relations(name, out))
            ranked = sorted(counts, key=lambda relation: (-counts[relation], relation))
            result.append([self.shown(relation) for relation in ranked])
        return result[0], result[1]

    def _relations(self, name: str, out: bool) -> list[str]:
        try:
            return self.graph.relations(name, out=out)
        except UnknownName:  # a count
            return []

    def evidence(self, name: str, number: int) -> list[Triple]:
        """The facts by which a member is in a set, each once: a path from a topic, or of what was combined one from
        each. After it the value that a member was chosen by; of a count the facts of the first that it counts.
        """
        return list(dict.fromkeys(self._facts(name, number)))

    def _facts(self, name: str, number: int) -> Iterator[Triple]:
        made = self.made[number - 1]
        if made.counts:
            for parent in made.parents:
                for member in self.made[parent - 1].members[:MOST_COUNTED]:
                    yield from self._facts(member, parent)
        elif (fact := made.came.get(name)) is not None:
            before = fact.head if fact.tail == name else fact.tail
            if made.parents:
                yield from self._facts(before, made.parents[0])
            yield fact
        else:  # a topic, or a combination: the same member further up, where it is there
            for parent in made.parents:
                if name in self.made[parent - 1].members:
                    yield from self._facts(name, parent)
            if name in made.chosen:
                yield made.chosen[name]
