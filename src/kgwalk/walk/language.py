"""The walking language: the calls by which the `kgwalk` protocol asks a graph, each making the next named set.

    sets = Sets(graph, ["France"])
    sets.tail_entities(1, "borders")                     $2, the neighbours
    sets.argmax(2, "population")                         $3, the largest of them
    sets.filter(2, "count(^capital_of)", ">", "1")       $4, those with more than one capital

What a call compares by is a relation, a path or a value made of one (`paths`). A call's first line of documentation is
all that the model reads about it, so it is short and says what comes out. `CORE` are the calls of the first agents,
`CALLS` are all. Whatever goes wrong is a SetError, in words that a model can act on.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from kgwalk.kg.times import parse_time
from kgwalk.types import Triple
from kgwalk.walk.kinds import can_be_all, kind_named
from kgwalk.walk.paths import Expression, Hop
from kgwalk.walk.sets import (
    BOOLEAN,
    MOST_COUNTED,
    NO,
    NUMBER,
    TABLE,
    TIME,
    YES,
    Measured,
    NamedSet,
    NamedSets,
    Reference,
    SetError,
)
from kgwalk.walk.tagged_text import escape_name
from kgwalk.walk.values import Quantity, aggregate, comparable, day, difference, quotient, spans, value_of

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "!=": operator.ne,
}
CORE = ("tail_entities", "head_entities", "intersect", "union", "minus", "count", "filter", "argmax", "argmin")
CORE_DATED = ("between",)  # only where facts have dates
CALLS = (
    *CORE,
    "top",
    "bottom",
    "nth",
    "sum",
    "average",
    "least",
    "greatest",
    "subtract",
    "divide",
    "only",
    "none",
    "every",
    "is_in",
    "overlap",
    "compare",
    "table",
)
# Those whose second argument is a relation, a path or a value; all others of `table` are as well.
WITH_RELATION = frozenset(
    [
        "tail_entities",
        "head_entities",
        "filter",
        "argmax",
        "argmin",
        "top",
        "bottom",
        "sum",
        "average",
        "least",
        "greatest",
        "only",
        "none",
        "every",
        "table",
        "between",
        "when",
        "earliest",
        "latest",
        "before",
        "after",
    ]
)
DATED_CALLS = (*CORE_DATED, "when", "earliest", "latest", "before", "after")
KIND_CALLS = ("all",)  # only where the prompt lists the kinds of the graph


def tools(language: str, dated: bool, kinds: bool = False) -> tuple[str, ...]:
    """The calls of a language, "core" or "full", where facts have dates or not, and kinds are listed or not."""
    calls, with_dates = (CORE, CORE_DATED) if language == "core" else (CALLS, DATED_CALLS)
    return calls + with_dates * dated + KIND_CALLS * kinds


# What is written in the place of each parameter. A relation may be a path or a value where the calls below do not say
# otherwise; `left` and `right` are sets, but of the calls with VALUES.
_WRITTEN = {
    "source": "set", "left": "set", "right": "set", "others": "set", "comparison": "comparison", "value": "text",
    "start": "text", "end": "text", "date": "text", "k": "size", "n": "number", "relation": "value",
    "relations": "values", "kind": "kind",
}  # fmt: skip
_PATHS = frozenset(["tail_entities", "head_entities", "between", "only", "none", "every"])
_HOPS = frozenset(["when", "earliest", "latest", "before", "after"])
_VALUES = frozenset(["subtract", "divide", "compare"])


@cache
def arguments(tool: str) -> tuple[str, ...]:
    """What each argument of a call is: "set", or "text" (a value written out, or a set), "path", "value", "hop"...

    "set?" may be left out, of "values" there may be any number.

    >>> arguments("tail_entities"), arguments("filter"), arguments("compare")
    (('set', 'path'), ('set', 'value', 'comparison', 'text'), ('text', 'comparison', 'text'))
    >>> arguments("when"), arguments("table")
    (('set', 'hop', 'set?'), ('set', 'value', 'values'))
    """
    found = []
    for parameter in list(inspect.signature(getattr(Sets, tool)).parameters.values())[1:]:
        kind = _WRITTEN[parameter.name]
        if parameter.name == "relation":
            kind = "path" if tool in _PATHS else "hop" if tool in _HOPS else kind
        elif kind == "set" and tool in _VALUES:
            kind = "text"
        found.append(kind if parameter.default is parameter.empty else f"{kind}?")
    return tuple(found)


@cache
def signature(tool: str) -> str:
    """How a call is written: `filter(source, relation, comparison, value)`.

    >>> signature("table"), signature("when")
    ('table(source, relation, ...)', 'when(source, relation, [others])')
    """
    shown = []
    for parameter in list(inspect.signature(getattr(Sets, tool)).parameters.values())[1:]:
        many = parameter.kind is inspect.Parameter.VAR_POSITIONAL
        optional = parameter.default is not inspect.Parameter.empty
        shown.append("..." if many else f"[{parameter.name}]" if optional else parameter.name)
    return f"{tool}({', '.join(shown)})"


@cache
def line_of(tool: str) -> str:
    """What the model reads of a call: its signature and the first line of its documentation."""
    return f"{signature(tool)}: {(getattr(Sets, tool).__doc__ or '').splitlines()[0]}"


@cache
def _bounds(tool: str) -> tuple[int, int | None, tuple[bool, ...]]:
    """The fewest and the most arguments of a call, and for each whether it may be a set."""
    parameters = list(inspect.signature(getattr(Sets, tool)).parameters.values())[1:]
    needed = [one for one in parameters if one.default is one.empty and one.kind is not one.VAR_POSITIONAL]
    many = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    return len(needed), None if many else len(parameters), tuple("Reference" in str(p.annotation) for p in parameters)


class Sets(NamedSets):
    """The sets of one walk, with the calls that make them."""

    def call(
        self, tool: str, args: Sequence[Reference], allowed: Sequence[str] = CALLS + DATED_CALLS + KIND_CALLS
    ) -> int:
        """Make a set by a call that a model or a file wrote: its name and its arguments are checked."""
        if tool not in allowed:
            raise SetError(f"there is no tool {escape_name(tool)}; there are {', '.join(allowed)}")
        fewest, most, may_be_set = _bounds(tool)
        if len(args) < fewest or (most is not None and len(args) > most):
            wanted = signature(tool)[len(tool) + 1 : -1]
            raise SetError(f"{tool} takes {fewest}{'' if most == fewest else ' or more'} arguments: {wanted}")
        if any(isinstance(arg, int) and not may_be_set[min(at, len(may_be_set) - 1)] for at, arg in enumerate(args)):
            raise SetError(f"{tool} takes names in double quotes after the set")
        number: int = getattr(self, tool)(*args)
        return number

    # Starting anew

    def all(self, kind: str) -> int:
        """all things of a kind, by its name"""
        found = kind_named(kind, self.graph)
        if found is None or not can_be_all(found, self.graph):
            raise SetError(f'the graph has no kind "{escape_name(kind)}"')
        return self.add(NamedSet(tuple(found.members(self.graph)), {}, (), kind=found))

    # Following relations

    def tail_entities(self, source: Reference, relation: str) -> int:
        """follow a relation forwards: the tails of facts whose heads are in the set"""
        return self.add(self.follow(source, relation, out=True))

    def head_entities(self, source: Reference, relation: str) -> int:
        """follow a relation backwards: the heads of facts whose tails are in the set"""
        return self.add(self.follow(source, relation, out=False))

    # Combining sets

    def intersect(self, left: Reference, right: Reference) -> int:
        """members of both sets"""
        return self._combine(left, right, lambda a, b: [name for name in a if name in b])

    def union(self, left: Reference, right: Reference) -> int:
        """members of either set"""
        return self._combine(left, right, lambda a, b: dict.fromkeys([*a, *b]))

    def minus(self, left: Reference, right: Reference) -> int:
        """members of the first set that are not in the second"""
        return self._combine(left, right, lambda a, b: [name for name in a if name not in b])

    def only(self, source: Reference, relation: str, others: Reference) -> int:
        """members that the relation leads to nothing but members of the other set"""
        return self._quantify(source, relation, others, lambda values, inside: bool(values) and values <= inside)

    def none(self, source: Reference, relation: str, others: Reference) -> int:
        """members that the relation leads to no member of the other set"""
        return self._quantify(source, relation, others, lambda values, inside: not values & inside)

    def every(self, source: Reference, relation: str, others: Reference) -> int:
        """members that the relation leads to all members of the other set"""
        return self._quantify(source, relation, others, lambda values, inside: values >= inside)

    # Choosing members by a value

    def filter(self, source: Reference, relation: str, comparison: str, value: Reference) -> int:
        """members whose value of a relation compares so (> >= < <= = !=) with a value"""
        compare = COMPARISONS.get(comparison)
        if compare is None:
            raise SetError(f'"{escape_name(comparison)}" is no comparison; use one of {" ".join(COMPARISONS)}')
        members, number = self.get(source)
        expression = self.value_expression(relation, members.members)
        bounds = self._bounds_of(value, comparison, members.members)
        numbers = number + ((value,) if isinstance(value, int) else ())
        kept: dict[str, tuple[Triple, ...]] = {}
        for name in members.members:
            found = self.values(name, expression)
            texts = bounds if isinstance(bounds, list) else [one.text for one in self.values(name, bounds)]
            fits = [one for one in found if any(compares(comparison, one.text, text) for text in texts)]
            if comparison == "!=":  # none of its values may be equal
                fits = found if found and len(fits) == len(found) and texts else []
            if fits:
                kept[name] = fits[0].facts
        return self.add(NamedSet(tuple(kept), {}, numbers, kept))

    def argmax(self, source: Reference, relation: str) -> int:
        """the members with the largest value of a relation"""
        return self._extreme(source, relation, largest=True)

    def argmin(self, source: Reference, relation: str) -> int:
        """the members with the smallest value of a relation"""
        return self._extreme(source, relation, largest=False)

    def top(self, source: Reference, relation: str, k: str) -> int:
        """the k members with the largest values of a relation, largest first; "all" for every one"""
        return self._ordered(source, relation, k, largest=True)

    def bottom(self, source: Reference, relation: str, k: str) -> int:
        """the k members with the smallest values of a relation, smallest first; "all" for every one"""
        return self._ordered(source, relation, k, largest=False)

    def nth(self, source: Reference, n: str) -> int:
        """the n-th member of a set in order"""
        members, number = self.get(source)
        at = _whole(n, "n")
        if not 1 <= at <= len(members):
            raise SetError(f"the set has {len(members)} members, so no {at}-th")
        return self.add(NamedSet((members.members[at - 1],), {}, number))

    # Numbers

    def count(self, source: Reference) -> int:
        """how many members a set has"""
        members, number = self.get(source)
        return self.add(NamedSet((str(len(members)),), {}, number, counts=True, answer_kind=NUMBER))

    def sum(self, source: Reference, relation: str) -> int:
        """the sum of the members' values of a relation"""
        return self._aggregate("sum", source, relation)

    def average(self, source: Reference, relation: str) -> int:
        """the average of the members' values of a relation"""
        return self._aggregate("average", source, relation)

    def least(self, source: Reference, relation: str) -> int:
        """the smallest of the members' values of a relation"""
        return self._aggregate("least", source, relation)

    def greatest(self, source: Reference, relation: str) -> int:
        """the largest of the members' values of a relation"""
        return self._aggregate("greatest", source, relation)

    def subtract(self, left: Reference, right: Reference) -> int:
        """the first value less the second; of two dates the time between them"""
        return self._arithmetic(left, right, difference)

    def divide(self, left: Reference, right: Reference) -> int:
        """the first value divided by the second"""
        return self._arithmetic(left, right, quotient)

    # Yes or no

    def is_in(self, left: Reference, right: Reference) -> int:
        """yes if all members of the first set are in the second, else no"""
        (one, first), (two, second) = self.get(left), self.get(right)
        return self._verdict(bool(one.members) and set(one.members) <= set(two.members), first + second, one.members)

    def overlap(self, left: Reference, right: Reference) -> int:
        """yes if the sets have a member in common, else no"""
        (one, first), (two, second) = self.get(left), self.get(right)
        shared = [name for name in one.members if name in set(two.members)]
        return self._verdict(bool(shared), first + second, shared)

    def compare(self, left: Reference, comparison: str, right: Reference) -> int:
        """yes if the first value compares so (> >= < <= = !=) with the second, else no"""
        if comparison not in COMPARISONS:
            raise SetError(f'"{escape_name(comparison)}" is no comparison; use one of {" ".join(COMPARISONS)}')
        (one, first), (two, second) = self._single(left), self._single(right)
        if comparison not in ("=", "!=") and (value_of(one) is None or value_of(two) is None):
            raise SetError(f'"{escape_name(one if value_of(one) is None else two)}" is not a number or date')
        return self._verdict(compares(comparison, one, two), first + second, (one, two))

    # Rows

    def table(self, source: Reference, relation: str, *relations: str) -> int:
        """a row for each member with its values of the relations"""
        members, number = self.get(source)
        columns = (relation, *relations)
        expressions = [self.value_expression(column, members.members) for column in columns]
        rows: dict[str, tuple[tuple[str, ...], ...]] = {}
        chosen: dict[str, tuple[Triple, ...]] = {}
        for name in members.members:
            found = [self.values(name, expression) for expression in expressions]
            rows[name] = tuple(tuple(one.text for one in values) for values in found)
            chosen[name] = tuple(fact for values in found for one in values for fact in one.facts)
        return self.add(NamedSet(members.members, {}, number, chosen, answer_kind=TABLE, columns=columns, rows=rows))

    # Times of facts

    def between(self, source: Reference, relation: str, start: Reference, end: Reference) -> int:
        """follow a relation forwards, only by facts that hold at some time from start to end"""
        window = self.window(self._date(start), self._date(end))
        return self.add(self.follow(source, relation, out=True, graph=window))

    def when(self, source: Reference, relation: str, others: Reference = "") -> int:
        """the dates of the facts by which a relation leads from the set, to the others if given"""
        wanted = None if others == "" else set(self.get(others)[0].members)
        facts, number = self._dated_facts(source, relation)
        chosen: dict[str, tuple[Triple, ...]] = {}
        for other, fact in facts:
            if wanted is None or other in wanted:
                chosen[fact.time] = (*chosen.get(fact.time, ()), fact)
        more = (others,) if isinstance(others, int) else ()
        return self.add(NamedSet(tuple(chosen), {}, number + more, chosen, answer_kind=TIME))

    def earliest(self, source: Reference, relation: str) -> int:
        """follow a relation forwards by the facts that begin first"""
        return self._by_time(source, relation, lambda starts: lambda start: start == min(starts))

    def latest(self, source: Reference, relation: str) -> int:
        """follow a relation forwards by the facts that begin last"""
        return self._by_time(source, relation, lambda starts: lambda start: start == max(starts))

    def before(self, source: Reference, relation: str, date: Reference) -> int:
        """follow a relation forwards by facts that begin before a date"""
        limit = self._days(date)[0]
        return self._by_time(source, relation, lambda starts: lambda start: start < limit)

    def after(self, source: Reference, relation: str, date: Reference) -> int:
        """follow a relation forwards by facts that begin after a date"""
        limit = self._days(date)[1]
        return self._by_time(source, relation, lambda starts: lambda start: start > limit)

    # How

    def _combine(
        self, left: Reference, right: Reference, how: Callable[[dict[str, None], dict[str, None]], Iterable[str]]
    ) -> int:
        (one, first), (two, second) = self.get(left), self.get(right)
        names = tuple(how(dict.fromkeys(one.members), dict.fromkeys(two.members)))
        return self.add(NamedSet(names, {}, first + second))

    def _quantify(
        self, source: Reference, relation: str, others: Reference, fits: Callable[[set[str], set[str]], bool]
    ) -> int:
        members, number = self.get(source)
        inside, second = self.get(others)
        expression, wanted = self.expression(relation, members.members), set(inside.members)
        self.fetch_path(members.members, expression.path)
        kept: dict[str, tuple[Triple, ...]] = {}
        for name in members.members:
            found = self.values(name, expression)
            if fits({one.text for one in found}, wanted):
                kept[name] = tuple(dict.fromkeys(fact for one in found[:MOST_COUNTED] for fact in one.facts))
        return self.add(NamedSet(tuple(kept), {}, number + second, kept))

    def _bounds_of(self, value: Reference, comparison: str, near: Sequence[str]) -> list[str] | Expression:
        """What members are compared with: texts, or another value of each member (wider than tall)."""
        if isinstance(value, int):
            return list(self.get(value)[0].members)
        value = day(value)
        if comparison in ("=", "!=") or value_of(value) is not None:
            return [value]
        try:
            expression = self.value_expression(value, near)
        except SetError:
            expression = None
        if expression is None or not all(map(self.graph.has_relation, expression.relations)):
            raise SetError(f'"{escape_name(value)}" is not a number or date')
        return expression

    def _measured(self, members: NamedSet, relation: str, largest: bool) -> dict[str, tuple[Quantity, Measured]]:
        """Of each member that has one, the value that counts: the largest of its numbers, or the smallest."""
        expression = self.value_expression(relation, members.members)
        found = {}
        for name in members.members:
            read = [(value, one) for one in self.values(name, expression) if (value := value_of(one.text)) is not None]
            if read:
                found[name] = (max if largest else min)(read, key=lambda pair: pair[0].number)
        return found

    def _extreme(self, source: Reference, relation: str, *, largest: bool) -> int:
        members, number = self.get(source)
        found = self._measured(members, relation, largest)
        if not found:
            raise SetError(f'no member has a number for "{escape_name(relation)}"')
        best = (max if largest else min)(value.number for value, _ in found.values())
        chosen = {name: one.facts for name, (value, one) in found.items() if value.number == best}
        return self.add(NamedSet(tuple(chosen), {}, number, chosen))

    def _ordered(self, source: Reference, relation: str, k: str, *, largest: bool) -> int:
        """By numbers and dates; by the letters of the values where no value is a number."""
        members, number = self.get(source)
        size = len(members) if k.strip() == "all" else _whole(k, "k")
        found = self._measured(members, relation, largest)
        if found:
            order = sorted(found, key=lambda name: found[name][0].number, reverse=largest)[:size]
            chosen = {name: found[name][1].facts for name in order}
        else:
            expression = self.expression(relation, members.members)
            texts = {name: values for name in members.members if (values := self.values(name, expression))}
            if not texts:
                raise SetError(f'no member has a value for "{escape_name(relation)}"')
            order = sorted(texts, key=lambda name: texts[name][0].text.casefold(), reverse=largest)[:size]
            chosen = {name: texts[name][0].facts for name in order}
        return self.add(NamedSet(tuple(chosen), {}, number, chosen, ordered=True))

    def _aggregate(self, how: str, source: Reference, relation: str) -> int:
        members, number = self.get(source)
        expression = self.value_expression(relation, members.members)
        found = [one for name in members.members for one in self.values(name, expression)]
        if not found:
            raise SetError(f'no member has a value for "{escape_name(relation)}"')
        made = expression.how != ""  # one value a member; else all there are, equal ones of different things too
        texts = [one.text for one in found]
        if not made and expression.single is None:
            texts = [text for name in members.members for text in self.all_values(name, expression)]
        total = aggregate(how, texts)
        if total is None:
            raise SetError(f'the values of "{escape_name(relation)}" are not all numbers of one unit')
        if how in ("least", "greatest"):
            found = [one for one in found if one.text == total][:1]
        facts = tuple(dict.fromkeys(fact for one in found[:MOST_COUNTED] for fact in one.facts))
        value = value_of(total)
        kind = TIME if value is not None and value.date else NUMBER
        return self.add(NamedSet((total,), {}, number, {total: facts}, counts=True, answer_kind=kind))

    def _arithmetic(self, left: Reference, right: Reference, how: Callable[[str, str], str | None]) -> int:
        (one, first), (two, second) = self._single(left), self._single(right)
        found = how(one, two)
        if found is None:
            raise SetError(f'"{escape_name(one)}" and "{escape_name(two)}" are not two values of one unit')
        return self.add(NamedSet((found,), {}, first + second, counts=True, answer_kind=NUMBER))

    def _single(self, reference: Reference) -> tuple[str, tuple[int, ...]]:
        """The one value of a set, or a value written out."""
        if isinstance(reference, str):
            return reference, ()
        members, number = self.get(reference)
        if len(members) != 1:
            raise SetError(f"${reference} has {len(members)} members; this takes one value")
        return members.members[0], number

    def _verdict(self, yes: bool, parents: tuple[int, ...], decided: Sequence[str]) -> int:
        """Yes or no, with the facts of the members that decided."""
        word = YES if yes else NO
        facts: list[Triple] = []
        for parent in parents:
            inside = set(self.made[parent - 1].members)
            for name in [name for name in decided if name in inside][:MOST_COUNTED] or list(inside)[:1]:
                facts += self.evidence(name, parent)
        return self.add(NamedSet((word,), {}, parents, {word: tuple(dict.fromkeys(facts))}, answer_kind=BOOLEAN))

    def _date(self, reference: Reference) -> str:
        return self._single(reference)[0]

    def _days(self, reference: Reference) -> tuple[int, int]:
        """The first and the last day of a date; of a span, those of the date with which it begins."""
        date = day(self._date(reference))
        try:
            return parse_time(date.partition("..")[0].strip() or date)
        except ValueError as error:
            raise SetError(escape_name(str(error))) from error

    def _dated_facts(self, source: Reference, relation: str) -> tuple[list[tuple[str, Triple]], tuple[int, ...]]:
        """What a relation leads to, with each dated fact."""
        members, number = self.get(source)
        hop = self.expression(relation, members.members).single
        if hop is None:
            raise SetError("times of facts take one relation")
        self.fetch_path(members.members, ((hop,),))
        facts = [(_other(name, hop, fact), fact) for name in members.members for fact in self.dated(name, hop)]
        if not facts:
            raise SetError(f'no fact of "{escape_name(relation)}" has a date here')
        return facts, number

    def _by_time(
        self, source: Reference, relation: str, wanted: Callable[[Sequence[int]], Callable[[int], bool]]
    ) -> int:
        facts, number = self._dated_facts(source, relation)
        starts = [parse_time(fact.time)[0] for _, fact in facts]
        fits = wanted(starts)
        came: dict[str, Triple] = {}
        for (other, fact), start in zip(facts, starts, strict=True):
            if fits(start):
                came.setdefault(other, fact)
        return self.add(NamedSet(tuple(came), came, number))


def _other(name: str, hop: Hop, fact: Triple) -> str:
    return fact.tail if hop.out else fact.head


def _whole(text: str, what: str) -> int:
    try:
        return int(text.replace(",", ""))
    except ValueError:
        raise SetError(f'"{escape_name(text)}" is no whole number for {what}') from None


def compares(comparison: str, text: str, bound: str) -> bool:
    """Whether a value compares so with another. Only equality is asked of what is no number.

    A day in 2010 is in 2010 (=), neither after it nor before it.
    """
    left, right = value_of(text), value_of(bound)
    if left is not None and right is not None:
        if (left.date or right.date) and (days := spans(text, bound)) is not None:
            (first, last), (since, until) = days
            if comparison in ("=", "!="):
                return (since <= first and last <= until) == (comparison == "=")
            return COMPARISONS[comparison](first, until if comparison in (">", "<=") else since)
        return comparable(left, right) and COMPARISONS[comparison](left.number, right.number)
    same = text.casefold() == bound.casefold()
    return same if comparison == "=" else not same if comparison == "!=" else False
