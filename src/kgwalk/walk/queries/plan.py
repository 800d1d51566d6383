"""The plan of a query: a program is walked once more, and every call becomes a step of the `algebra`.

Short names of relations have become whole ones, names in calls have become sets of their own, and what a call compares
has a reading that was tested on the values it read in the walk (`readings`). What no language can say is refused here;
what one language cannot say is refused there.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from math import floor

from kgwalk.kg.graph import Graph
from kgwalk.kg.store import StoredGraph
from kgwalk.kg.times import parse_time
from kgwalk.types import Call
from kgwalk.walk.language import Sets
from kgwalk.walk.paths import AGGREGATES, TIMES, Expression, Hop, Path, inverse
from kgwalk.walk.queries.algebra import (
    EXTREMES,
    Aggregated,
    AlgebraStep,
    AllOfKind,
    Arithmetic,
    ByTime,
    Combined,
    ExtremeMembers,
    Filtered,
    Followed,
    MemberValue,
    Place,
    Plan,
    Quantified,
    RankedMembers,
    SetSize,
    SetVerdict,
    Tabled,
    TimesOf,
    Topic,
    ValueVerdict,
    Window,
    last_day,
)
from kgwalk.walk.queries.program import QueryError, WalkProgram
from kgwalk.walk.queries.readings import DATE, MADE_NUMBER, NoReading, ValueReading, comparing, ordering, summing
from kgwalk.walk.sets import SetError
from kgwalk.walk.values import day, value_of

_DAY_TEXT = re.compile(r"\d{4}(-\d\d(-\d\d)?)?")
_TIME_TEXT = re.compile(r"(\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?)?(\.\.)?(\d{4}(-\d\d(-\d\d)?)?)?")


def plan(program: WalkProgram, graph: Graph) -> Plan:
    """Walk the program once more over the graph, and settle every call."""
    return _Planner(program, graph).plan()


class _Planner:
    def __init__(self, program: WalkProgram, graph: Graph) -> None:
        if type(graph) is not StoredGraph:
            raise QueryError("a query is written of a whole graph that is a store here; `kgwalk kg build` makes one")
        self.program, self.graph = program, graph
        self.sets = Sets(graph, program.topics, kinds=program.kinds, short=True, empty=True, facts=False)
        self.steps: list[AlgebraStep] = [*map(Topic, program.topics), *map(AllOfKind, program.kinds)]
        self.calls = [_quoted(name) for name in program.topics] + [f"all {kind.name}" for kind in program.kinds]
        self.number: dict[int, int] = {at: at for at in range(1, program.starts + 1)}  # of the walk -> of the plan
        self.dates_checked = False
        self.read: set[str] = set()
        # what sets in order are ordered by: the values of members, how they are read, whether the largest is first
        self._ranks: dict[int, tuple[dict[str, list[str]], ValueReading, bool]] = {}

    def plan(self) -> Plan:
        for name in self.program.topics:
            self._check_name(name)
        for call in self.program.calls:
            text = f"{call.tool}({', '.join(f'${arg}' if isinstance(arg, int) else _quoted(arg) for arg in call.args)})"
            try:
                made = self.sets.call(call.tool, call.args)
                step = self._step(call)
            except (SetError, NoReading, QueryError) as error:
                raise QueryError(f"no query for `{text}`: {error}") from error
            self._add(step, text)
            self.number[made] = len(self.steps)
        answer, timed = self.number[self.program.answer], self.graph.store.timed
        return Plan(tuple(self.steps), tuple(self.calls), answer, timed, frozenset(self.read))

    def _add(self, step: AlgebraStep, call: str) -> int:
        self.steps.append(step)
        self.calls.append(call)
        return len(self.steps)

    def _set(self, reference: str | int) -> int:
        """The number in the plan of a set, or of an entity that a call names."""
        if isinstance(reference, int):
            return self.number[reference]
        self._check_name(reference)
        return self._add(Topic(reference), _quoted(reference))

    def _check_name(self, name: str) -> None:
        if self.graph.store.entity.number(name) is None:
            raise QueryError(f"{_quoted(name)} is an id of the graph; queries go by names")

    def _members(self, reference: str | int) -> Sequence[str]:
        return self.sets.get(reference)[0].members

    def _single(self, reference: str | int) -> str:
        if isinstance(reference, int):
            self.read.update(self._members(reference))
        return reference if isinstance(reference, str) else self._members(reference)[0]

    def _operand(self, reference: str | int) -> int | str:
        return reference if isinstance(reference, str) else self.number[reference]

    # Calls

    def _step(self, call: Call) -> AlgebraStep:
        args = call.args
        match call.tool:
            case "tail_entities" | "head_entities" | "between":
                return self._followed(call)
            case "intersect" | "union" | "minus":
                return Combined(call.tool, self._set(args[0]), self._set(args[1]))
            case "only" | "none" | "every":
                path = self._path(str(args[1]), args[0])
                return Quantified(call.tool, self._set(args[0]), path, self._set(args[2]))
            case "filter":
                return self._filtered(*args)
            case "argmax" | "argmin":
                value = self._value(str(args[1]), args[0])
                reading = self._ordering(args[0], value, str(args[1]))
                return ExtremeMembers(self._set(args[0]), value, call.tool == "argmax", reading)
            case "top" | "bottom":
                return self._ranked(args[0], str(args[1]), str(args[2]), largest=call.tool == "top")
            case "nth":
                return self._place(args[0], int(str(args[1]).replace(",", "")))
            case "all":
                kind = self.sets.made[-1].kind  # the set that the call has just made
                assert kind is not None
                return AllOfKind(kind)
            case "count":
                return SetSize(self._set(args[0]))
            case "sum" | "average" | "least" | "greatest":
                return self._aggregated(call.tool, args[0], str(args[1]))
            case "subtract" | "divide":
                return self._arithmetic(call.tool, args[0], args[1])
            case "is_in" | "overlap":
                return SetVerdict(call.tool, self._set(args[0]), self._set(args[1]))
            case "compare":
                comparison, pair = str(args[1]), (self._single(args[0]), self._single(args[2]))
                return ValueVerdict(
                    self._operand(args[0]), comparison, self._operand(args[2]), comparing(comparison, [pair])
                )
            case "table":
                columns = tuple((str(text), self._value(str(text), args[0])) for text in args[1:])
                return Tabled(self._set(args[0]), columns)
        return self._dated(call)

    def _followed(self, call: Call) -> Followed:
        path = self._path(str(call.args[1]), call.args[0])
        if call.tool == "between":
            first, last = (day(self._single(arg)) for arg in call.args[2:4])
            window = self._window(first.partition("..")[0].strip(), (last.partition("..")[2] or last).strip())
            return Followed(self._set(call.args[0]), path, window)
        return Followed(self._set(call.args[0]), path if call.tool == "tail_entities" else inverse(path))

    def _filtered(self, source: str | int, relation: str | int, comparison: str | int, bound: str | int) -> Filtered:
        value, comparison = self._value(str(relation), source), str(comparison)
        found = {name: self._texts(name, str(relation), source) for name in self._members(source)}
        bounds: tuple[str, ...] | int | MemberValue
        if isinstance(bound, int):
            against = list(self._members(bound))
            self.read.update(against)
            bounds = self.number[bound]
            if comparison == "!=" and len(against) != 1:
                raise NoReading(f"!= with a set of {len(against)} members means any of them; a query has one")
        elif comparison in ("=", "!=") or value_of(day(bound)) is not None:
            against, bounds = [day(bound)], (day(bound),)
        else:
            bounds = self._value(bound, source)
            pairs = [(t, b) for name, texts in found.items() for t in texts for b in self._texts(name, bound, source)]
            made = value.is_number and bounds.is_number
            if value.is_number != bounds.is_number and pairs:
                raise NoReading("a number that the query makes is compared with a text of the graph")
            return Filtered(self._set(source), value, comparison, bounds, comparing(comparison, pairs, made=made))
        pairs = [(text, one) for texts in found.values() for text in texts for one in against]
        pairs = pairs or [(one, one) for one in against]
        reading = comparing(comparison, pairs, made=value.is_number, raw=isinstance(bounds, int))
        if isinstance(bounds, tuple):
            spelt = dict(reading.spellings)
            bounds = tuple(one for text in bounds for one in (reading.bound(text), *spelt.get(text, ())))
        elif reading.spellings:
            raise NoReading("values and bounds are spelt differently, and a query compares letter by letter")
        return Filtered(self._set(source), value, comparison, bounds, reading)

    def _ordering(self, source: str | int, value: MemberValue, relation: str) -> ValueReading:
        texts = [text for name in self._members(source) for text in self._texts(name, relation, source)]
        return ordering(texts, made=value.is_number)

    def _ranked(self, source: str | int, relation: str, k: str, *, largest: bool) -> RankedMembers:
        value, members = self._value(relation, source), self._members(source)
        reading = self._ordering(source, value, relation)
        size = None if k.strip() == "all" else int(k.replace(",", ""))
        found = {name: texts for name in members if (texts := self._texts(name, relation, source))}
        if reading.form == "text" and any(len(texts) > 1 for texts in found.values()):
            raise NoReading("a member has several values that are no numbers; the walk takes the first that it meets")
        step = RankedMembers(self._set(source), value, size, largest, reading)
        if size is not None and size < len(found):
            self._check_tie(found, reading, largest, size)
        self._ranks[len(self.steps) + 1] = found, reading, largest
        return step

    def _check_tie(self, found: dict[str, list[str]], reading: ValueReading, largest: bool, at: int) -> None:
        """A cut between two of one value is made by the order of the graph, which a query does not know."""
        keys = _ranked_keys(found, reading, largest)
        if 0 < at < len(keys) and keys[at - 1] == keys[at]:
            raise NoReading(f"members {at} and {at + 1} in order have the same value; the walk takes the one that the "
                             "graph mentions more, which a query cannot know")  # fmt: skip

    def _place(self, source: str | int, n: int) -> Place:
        step = self._set(source)
        if not isinstance(self.steps[step - 1], RankedMembers):
            raise NoReading("the set has no order but that of the graph, which a query does not know")
        found, reading, largest = self._ranks[step]
        for at in (n - 1, n):
            self._check_tie(found, reading, largest, at)
        return Place(step, n)

    def _aggregated(self, how: str, source: str | int, relation: str) -> Aggregated:
        value = self._value(relation, source)
        texts = [text for name in self._members(source) for text in self._all_texts(name, relation, source)]
        return Aggregated(how, self._set(source), value, self._inner(how, texts, made=value.is_number))

    def _inner(self, how: str, texts: Sequence[str], *, made: bool = False) -> ValueReading:
        if made:
            return MADE_NUMBER
        if how not in EXTREMES:
            return summing(texts)
        reading = ordering(texts)
        if reading.others:
            raise NoReading("some of the values are no numbers or dates")
        shared = Counter(reading.key(text) for text in set(texts)).most_common(1)
        if shared and shared[0][1] > 1:
            raise NoReading("one value is written in two ways; the walk takes the first that it meets")
        return reading

    def _arithmetic(self, how: str, left: str | int, right: str | int) -> Arithmetic:
        one, two = self._single(left), self._single(right)
        first, second = value_of(one), value_of(two)
        assert first is not None  # the call would have failed
        assert second is not None
        operands = self._operand(left), self._operand(right)
        if first.date or second.date:
            pair = (one, first), (two, second)
            if how == "subtract" and all(re.fullmatch(r"\d{4}-\d\d-\d\d", text) for text, _ in pair):
                return Arithmetic(how, *operands, ValueReading(DATE), by="days")
            # the walk takes the year off a fraction, which for the first of January may be the year before
            if how == "subtract" and all(re.match(rf"{floor(value.number)}(?!\d)", text) for text, value in pair):
                return Arithmetic(how, *operands, ValueReading(DATE), by="years")
            raise NoReading(f'"{one}" and "{two}" are not two days or years')
        unit = first.unit or second.unit
        if how == "divide":
            unit = first.unit if first.unit and not second.unit else ""
        return Arithmetic(how, *operands, summing([one, two]), unit)

    def _dated(self, call: Call) -> AlgebraStep:
        source, relation = call.args[0], str(call.args[1])
        hop = self.sets.expression(relation, self._members(source)).single
        assert hop is not None  # the call would have failed
        hop = self._settled(((hop,),))[0][0]
        self._check_dates()
        if call.tool == "when":
            others = call.args[2] if len(call.args) > 2 and call.args[2] != "" else None
            return TimesOf(self._set(source), hop, None if others is None else self._set(others))
        limit = ""
        if call.tool in ("before", "after"):
            text = day(self._single(call.args[2]))
            text = text.partition("..")[0].strip() or text
            window = self._window(text, text)
            limit = window.first if call.tool == "before" else window.last
        return ByTime(call.tool, self._set(source), hop, limit)

    # Paths, values and times

    def _path(self, text: str, source: str | int) -> Path:
        expression = self.sets.expression(text, self._members(source))
        return self._settled(expression.path)

    def _settled(self, path: Path) -> Path:
        """Relations by their names, not their ids; dates as days."""
        return tuple(tuple(self._hop(hop) for hop in way) for way in path)

    def _hop(self, hop: Hop) -> Hop:
        if hop.path:
            return Hop("", hop.out, hop.again, hop.at, self._settled(hop.path))
        store = self.graph.store
        number = store.relation_number(hop.relation)
        assert number is not None  # it was followed
        at = hop.at
        if at:
            window = self._window(day(at).partition("..")[0].strip(), (day(at).partition("..")[2] or day(at)).strip())
            at = f"{window.first}..{window.last}"
        return Hop(store.relation_name(number), hop.out, hop.again, at)

    def _expression(self, text: str, source: str | int) -> Expression:
        return self.sets.value_expression(text, self._members(source))

    def _value(self, text: str, source: str | int) -> MemberValue:
        expression = self._expression(text, source)
        path = self._settled(expression.path)
        among = None if expression.among is None else self.number[expression.among]
        inner, unit = None, ""
        if expression.how in TIMES:
            self._check_dates()
        if expression.how in AGGREGATES:
            each = [self.sets.all_values(name, expression) for name in self._members(source)]
            if any(texts and not self.sets.values(name, expression) for name, texts in zip(
                self._members(source), each, strict=True)):  # fmt: skip
                raise NoReading("some of the values are not all numbers of one unit")
            texts = [text for some in each for text in some]
            self.read.update(texts)
            inner = self._inner(expression.how, texts) if texts else ValueReading("number")
            unit = inner.unit if expression.how not in EXTREMES else ""
        return MemberValue(path, expression.how, among, expression.outside, inner, unit)

    def _texts(self, name: str, text: str, source: str | int) -> list[str]:
        found = [one.text for one in self.sets.values(name, self._expression(text, source))]
        self.read.update(found)
        return found

    def _all_texts(self, name: str, text: str, source: str | int) -> list[str]:
        expression = self._expression(text, source)
        if expression.how or expression.single is not None:
            return self._texts(name, text, source)
        found = self.sets.all_values(name, expression)
        self.read.update(found)
        return found

    def _window(self, first: str, last: str) -> Window:
        self._check_dates()
        for text in filter(None, (first, last)):
            if _DAY_TEXT.fullmatch(text) is None:
                raise NoReading(f'"{text}" is not written as 1999, 1999-12 or 1999-12-31')
            parse_time(text)
        return Window(f"{first}-01-01"[:10] if first else "0000-00-00", last_day(last) if last else "9999-99-99")

    def _check_dates(self) -> None:
        """Every date of the graph must be one whose text sorts as its days do."""
        store = self.graph.store
        if not store.timed:
            raise NoReading("the graph has no dates")
        if self.dates_checked:
            return
        for text in store.date.several(range(len(store.date))):
            if _TIME_TEXT.fullmatch(text) is None:
                raise NoReading(f'the graph has the date "{text}", which does not sort as a text')
        self.dates_checked = True


def _ranked_keys(found: dict[str, list[str]], reading: ValueReading, largest: bool) -> list[float | str]:
    best = max if largest else min
    keys = [[key for text in texts if (key := reading.key(text)) is not None] for texts in found.values()]
    return sorted((best(some) for some in keys if some), reverse=largest)


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)
