"""Named result sets: every result is `$1`, `$2`, ..., with the facts by which each member is in it.

So a director's thirty films are one call and one name, an answer is a set and cannot be misspelt, and each member has
its evidence. `NamedSets` keeps the sets of one walk, reads paths and values for the calls, and tells the evidence;
the calls themselves are in `language`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from rapidfuzz import fuzz, process

from kgwalk.kg.graph import Batched, Graph
from kgwalk.kg.names import ShortNames
from kgwalk.kg.store import StoredGraph
from kgwalk.types import AnswerForm, Neighbors, Triple, UnknownName
from kgwalk.walk.kinds import Kind, is_type, names_class
from kgwalk.walk.look_ahead import Outlook, relations_at, spread
from kgwalk.walk.name_lookup import NAMES, last_words
from kgwalk.walk.paths import (
    AGGREGATES,
    COUNTED,
    SIGNS,
    TIMES,
    Expression,
    Hop,
    Path,
    PathError,
    fact_of,
    inverse,
    parse,
    reach,
)
from kgwalk.walk.tagged_text import escape_name
from kgwalk.walk.values import aggregate, day, value_of

# Members asked for the relations around a set: a set of thousands shares its relations among the first few.
RELATIONS_OF = 200
MOST_MEMBERS = 100_000
MOST_COUNTED = 24  # members of a set that was counted or added up, whose facts are the evidence
SHARED = 3  # values that have the same unit, at least
NODES_LOOKED_AT = 12  # members that are asked whether a relation leads to nodes that hold a value
MOST_HELD = 4  # relations of a node that only holds a value: its amount, its unit
CODES = (["code"], ["symbol"], ["abbreviation"])  # last words of relations to what else a unit is called
ALIKE = 70  # of 100: from where on a name is taken for a misspelt other one

Reference = str | int  # an entity by name, or a set by number

# What an answer is, in the words of datasets' `answer_kind`: names, a number, a time, yes or no, rows with columns
ENTITY, NUMBER, TIME, BOOLEAN, TABLE = "entity", "number", "time", "boolean", "table"
YES, NO = "yes", "no"


class SetError(Exception):
    """A call that makes no set: the message is for the model, with names escaped."""


class TooMany(SetError):
    """The set would have more members than is allowed."""


@dataclass(frozen=True)
class NamedSet:
    """Members in a fixed order, and how each came to be: the fact by which, and the set from which."""

    members: tuple[str, ...]
    came: Mapping[str, Triple]  # members reached by a fact: the last one
    parents: tuple[int, ...]  # numbers of the sets it was made from
    chosen: Mapping[str, tuple[Triple, ...]] = field(default_factory=dict)  # the facts that decided
    counts: bool = False  # its one member says something of all members of the set that it was made from
    via: Mapping[str, tuple[Triple, ...]] = field(default_factory=dict)  # of a path: the facts before the last
    answer_kind: str = ENTITY
    ordered: bool = False
    columns: tuple[str, ...] = ()  # of a table: what its columns are called
    rows: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)  # and of a member, its values
    kind: Kind | None = None  # all of a kind: where a walk may start
    hint: str = ""  # of an empty set: what may have been meant

    def __len__(self) -> int:
        return len(self.members)

    @property
    def form(self) -> AnswerForm:
        """What it is as an answer."""
        if not self.rows:
            return AnswerForm(self.answer_kind, self.ordered)
        rows = [[name, *("; ".join(cell) for cell in self.rows[name])] for name in self.members]
        return AnswerForm(self.answer_kind, self.ordered, ["name", *self.columns], rows)


@dataclass(frozen=True, slots=True)
class Measured:
    """A value of a member, and the facts that say so."""

    text: str
    facts: tuple[Triple, ...]


class NamedSets:
    """The sets of one walk, over one graph.

    With `short` relations go by their short names (`kg.names.ShortNames`) where the graph is a store; whole names are
    understood as well, and facts have these. A set that a relation leads to has at most `most` members. Without `facts`
    nothing is kept of how they were reached: enough for those who only want to know the members, and quicker. With
    `empty` a set may have no member, which is how a walk says no, none and 0; without, such a call is an error.
    """

    def __init__(
        self,
        graph: Graph,
        topics: Sequence[str],
        *,
        kinds: Sequence[Kind] = (),
        short: bool = False,
        most: int = MOST_MEMBERS,
        facts: bool = True,
        empty: bool = False,
    ) -> None:
        self.graph, self.most, self.facts, self.empty = graph, most, facts, empty
        store = getattr(graph, "store", None)
        self._names: ShortNames | None = store.short_names if short and store is not None else None
        self.made: list[NamedSet] = [NamedSet((topic,), {}, ()) for topic in topics]
        self.made += [NamedSet(tuple(kind.members(graph)), {}, (), kind=kind) for kind in kinds]
        self._parsed: dict[str, Expression] = {}
        self._views: dict[str, Graph] = {}  # by date
        self.outlook = Outlook(graph, self.shown, self._real)
        self._inside: dict[int, frozenset[str]] = {}  # the members of sets that values are limited to

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
        if not made.members and not self.empty:
            raise SetError("the result is empty")
        self.made.append(made)
        return len(self.made)

    # Relations, by the names they have here

    def shown(self, relation: str) -> str:
        """A relation as it is called here."""
        return relation if self._names is None else self._names.shown(relation)

    def _real(self, relation: str) -> str:
        return relation if self._names is None else self._names.real(relation)

    def _known(self, text: str) -> str | None:
        real = self._real(text)
        return real if text and self.graph.has_relation(real) else None

    def expression(self, text: str, near: Sequence[str] = ()) -> Expression:
        """A path or value that a call names. `near` are entities whose relations are proposed for a misspelt one."""
        if text not in self._parsed:
            try:  # a plain name is not looked up before it is followed: over a network that would be a request more
                plain = SIGNS.search(text) is None
                self._parsed[text] = Expression(((Hop(self._real(text)),),)) if plain else parse(text, self._known)
            except PathError as error:
                raise SetError(f"{escape_name(str(error))}{self._nearest(near[:1], error.relation)}") from None
        return self._parsed[text]

    def _nearest(self, names: Sequence[str], relation: str) -> str:
        """Of the relations at an entity the one that is written most like another."""
        there = {self.shown(one) for name in names for out in (True, False) for one in self._relations(name, out)}
        found = process.extractOne(relation, sorted(there), scorer=fuzz.ratio, score_cutoff=ALIKE)
        return "" if found is None else f'; there is "{escape_name(found[0])}"'

    def relations_around(self, number: int, *, values: bool = False) -> tuple[list[str], list[str]]:
        """The relations that leave and that enter a set, the most shared first.

        With `values` a relation to nodes that only hold a value is listed as the paths to what they hold
        (`price/amount, price/currency`): a model that sees `price` alone cannot know how to go on. In the full
        language, where a walk can start from a kind, what leads to a thing's class is not offered, nor a name that is
        a fact of a thing with itself (the first column of a table).
        """
        made, result = self.made[number - 1], []
        if made.counts or made.answer_kind == BOOLEAN:
            return [], []  # a number or a "no" that was worked out is no thing, though one may be called so
        names = made.members[:RELATIONS_OF]
        for out in (True, False):
            if self._batched is not None:
                self._batched.fetch_relations(names, out=out)
            first: dict[str, str] = {}
            counts: Counter[str] = Counter()
            for name in names:
                for relation in self._relations(name, out):
                    counts[relation] += 1
                    first.setdefault(relation, name)
            if self.empty:
                counts = Counter({one: n for one, n in counts.items() if not self._names_itself(first[one], one)})
            ranked = sorted(counts, key=lambda relation: (-counts[relation], relation))
            if out and self.empty:
                ranked = [relation for relation in ranked if not names_class(self.graph, relation)]
            shown = [self.shown(relation) for relation in ranked]
            if values and out:
                behind = [self._held(first[relation], relation) for relation in ranked]
                paths = [
                    [f"{name}/{self.shown(held)}" for held in some] for name, some in zip(shown, behind, strict=True)
                ]
                shown = [one for name, some in zip(shown, paths, strict=True) for one in some or [name]]
            result.append(shown)
        return result[0], result[1]

    def _names_itself(self, name: str, relation: str) -> bool:
        return last_words(relation) in NAMES and list(self._neighbors(self.graph, name, relation, True, 2)) == [name]

    def _held(self, name: str, relation: str) -> list[str]:
        """The relations of a node that holds a value: one fact leads to it, and what it leads to leads nowhere and is a
        number or a date, with its unit. None where the relation leads to something else, or the graph is far away.
        """
        if not isinstance(self.graph, StoredGraph):
            return []
        node = next(iter(self._neighbors(self.graph, name, relation, True, 1)), None)
        if node is None or value_of(node) is not None or self._relations(node, False) != [relation]:
            return []
        held = [one for one in self._relations(node, True) if not is_type(one)]
        if not 1 <= len(held) <= MOST_HELD or len(list(self._neighbors(self.graph, node, relation, False, 2))) > 1:
            return []
        ends = [(one, end) for one in held for end in self._neighbors(self.graph, node, one, True, 2)]
        only = all(value_of(end) is not None or self._is_unit(end, one) for one, end in ends)
        return held if only and any(value_of(end) is not None for _, end in ends) else []

    def _is_unit(self, name: str, relation: str) -> bool:
        """Whether a name may be the unit of values: several have it, and it leads nowhere but to its class and code."""
        shared = len(list(self._neighbors(self.graph, name, relation, False, SHARED))) >= SHARED
        leads = [last_words(one) for one in self._relations(name, True) if not is_type(one)]
        return shared and all(words in NAMES or words.split()[-1:] in CODES for words in leads)

    def _relations(self, name: str, out: bool) -> list[str]:
        return relations_at(self.graph, name, out)

    # Following a relation or a path

    def follow(self, source: Reference, text: str, *, out: bool, graph: Graph | None = None) -> NamedSet:
        """The set that a relation or path leads to; `graph` is a view of the graph that it keeps to."""
        members, number = self.get(source)
        expression = self.expression(text, members.members)
        if expression.how:
            raise SetError(f'"{escape_name(text)}" is a value, not a relation to follow')
        if (hop := expression.single) is not None:
            seen = self._holding(graph or self.graph, hop.at)
            return self._hop(members, number, hop.relation, hop.out == out, seen)
        ways = expression.path if out else inverse(expression.path)
        self.fetch_path(members.members, ways)
        try:
            found = reach(members.members, ways, partial(self._step, graph or self.graph), self.most, self.facts)
        except OverflowError:
            raise self._too_many() from None
        came = {name: chain[-1] for name, chain in found.items() if chain}
        via = {name: chain[:-1] for name, chain in found.items() if len(chain) > 1}
        return NamedSet(tuple(found), came, number, via=via)

    def _hop(self, members: NamedSet, number: tuple[int, ...], relation: str, out: bool, seen: Graph) -> NamedSet:
        self._fetch(members.members, relation, out)
        found: dict[str, None] = {}
        came: dict[str, Triple] = {}
        # a graph elsewhere is asked for all, as others ask it, so that its answer is kept for them
        limit = self.most + 1 if self.most < MOST_MEMBERS or isinstance(seen, StoredGraph) else None
        for name in members.members:
            others = self._neighbors(seen, name, relation, out, limit)
            if self.facts:
                for other in others:
                    if other not in came:
                        came[other] = Triple(name, relation, other) if out else Triple(other, relation, name)
            found.update(dict.fromkeys(others))
            if len(found) > self.most:
                raise self._too_many()
        if not found and seen is self.graph and self._follows(members, relation, not out):
            where, tool = ("enters", "head_entities") if out else ("leaves", "tail_entities")
            hint = f'"{escape_name(self.shown(relation))}" {where} the set: {tool}'
            if not self.empty:
                raise SetError(f"the result is empty; {hint}")
            return NamedSet((), {}, number, hint=hint)
        return NamedSet(tuple(found), came, number)

    def _too_many(self) -> TooMany:
        return TooMany(f"the result has more than {self.most:,} members; narrow it down first")

    def _follows(self, members: NamedSet, relation: str, out: bool) -> bool:
        """Whether the relation leads anywhere from the set, in this direction."""
        return any(next(iter(self._neighbors(self.graph, name, relation, out)), None) for name in members.members)

    def _step(self, graph: Graph, name: str, hop: Hop) -> Iterable[str]:
        """What one hop of a path leads to."""
        return self._neighbors(self._holding(graph, hop.at), name, hop.relation, hop.out)

    def _holding(self, graph: Graph, at: str) -> Graph:
        """The graph, or where a hop has a date of its own the view with the facts that hold then."""
        if not at:
            return graph
        if at not in self._views:
            self._views[at] = self.window(at, at)
        return self._views[at]

    def window(self, start: str, end: str) -> Graph:
        """The view of the graph with the facts that hold at some time from start to end."""
        view = getattr(self.graph, "between", None)
        if view is None:
            raise SetError("this graph has no dates")
        low, high = day(start).partition("..")[0], day(end)
        try:
            seen: Graph = view(low.strip() or None, (high.partition("..")[2] or high).strip() or None, undated=False)
        except ValueError as error:
            raise SetError(escape_name(str(error))) from error
        return seen

    def _neighbors(self, graph: Graph, name: str, relation: str, out: bool, limit: int | None = None) -> Iterable[str]:
        try:
            return graph.neighbors(name, relation, out=out, limit=limit).names
        except UnknownName as error:
            if error.name == relation and not self.graph.has_relation(relation):
                near = self._nearest([name], relation)
                raise SetError(f'relation "{escape_name(relation)}" is not in the graph{near}') from None
            return ()  # a member that is no entity (a count), or has no fact in the view

    # Graphs elsewhere, which answer for many at once

    @cached_property
    def _batched(self) -> Batched | None:
        return self.graph if isinstance(self.graph, Batched) else None

    def _fetch(self, names: Iterable[str], relation: str, out: bool) -> None:
        """Of a graph elsewhere, ask for what is about to be asked of each of the names."""
        if self._batched is not None:
            with suppress(UnknownName):  # which is told where a member is asked
                self._batched.fetch_neighbors(names, relation, out=out)

    def fetch_path(self, names: Iterable[str], ways: Path) -> None:
        """The same of all hops of a path: a query a hop, however many members there are."""
        if self._batched is not None:
            for way in ways:
                self._fetch_way(list(names), way)

    def _fetch_way(self, here: Iterable[str], way: Sequence[Hop]) -> set[str]:
        """What a way leads to; each of its hops is fetched for all that the one before leads to."""
        for hop in way:
            found: set[str] = set()
            edge = set(here)
            while edge:
                if hop.path:
                    reached = {one for inner in hop.path for one in self._fetch_way(edge, inner)}
                else:
                    self._fetch(edge, hop.relation, hop.out)
                    reached = {one for name in edge for one in self._neighbors(self.graph, name, hop.relation, hop.out)}
                edge = reached - found if hop.again else set()
                found |= reached
            here = found
        return set(here)

    # Values

    def value_expression(self, text: str, members: Sequence[str]) -> Expression:
        """A path or value that is ordered, added up, compared or shown. What ends at nodes that only hold a number, as
        `price` does where the node has `amount` and `currency`, goes on to the number: people mean that.
        """
        expression = self.expression(text, members)
        self.fetch_path(members, expression.path)
        if expression.how not in ("", *AGGREGATES):
            return expression
        return replace(expression, path=tuple(self._through(way, members) for way in expression.path))

    def _through(self, way: tuple[Hop, ...], members: Sequence[str]) -> tuple[Hop, ...]:
        last = way[-1]
        if last.path or last.again or not last.out or not isinstance(self.graph, StoredGraph):
            return way
        for name in spread(members, NODES_LOOKED_AT):
            before = (
                reach([name], (way[:-1],), partial(self._step, self.graph), self.most, False) if way[:-1] else [name]
            )
            for one in list(before)[:1]:
                node = next(iter(self._step(self.graph, one, last)), None)
                if node is not None:
                    held = [Hop(held) for held in self._held(one, last.relation)]
                    numbers = [hop for hop in held if any(map(value_of, self._step(self.graph, node, hop)))]
                    return (*way, *numbers) if len(numbers) == 1 else way
        return way

    def values(self, name: str, expression: Expression) -> list[Measured]:
        """What an expression says of a member, each value with its facts; none where the graph says nothing."""
        if (hop := expression.single) is not None:
            others = self._step(self.graph, name, hop)
            return [Measured(other, (fact_of(name, hop, other),)) for other in others]
        if expression.how in TIMES:
            return self._times(name, expression)
        try:
            found = reach([name], expression.path, partial(self._step, self.graph), self.most)
        except OverflowError:
            raise self._too_many() from None
        if expression.how == COUNTED:
            found = {one: facts for one, facts in found.items() if self._wanted(one, expression)}
            some = (fact for facts in list(found.values())[:MOST_COUNTED] for fact in facts)
            return [Measured(str(len(found)), tuple(dict.fromkeys(some)))]
        if expression.how in AGGREGATES:
            # of two ways to one value both count: two lines of an order may cost the same
            texts = self.all_values(name, expression)
            total = aggregate(expression.how, texts)
            some = (fact for facts in list(found.values())[:MOST_COUNTED] for fact in facts)
            return [] if total is None else [Measured(total, tuple(dict.fromkeys(some)))]
        return [Measured(other, facts) for other, facts in found.items()]

    def all_values(self, name: str, expression: Expression) -> list[str]:
        """What is added up: the values at the end of a path, once for each node before the last hop that has it."""
        if expression.how and expression.how not in AGGREGATES:
            return [one.text for one in self.values(name, expression)]
        texts: list[str] = []
        for way in expression.path:
            before = reach([name], (way[:-1],), partial(self._step, self.graph), self.most, False)
            for node in before:
                texts += reach([node], (way[-1:],), partial(self._step, self.graph), self.most, False)
        return texts

    def _times(self, name: str, expression: Expression) -> list[Measured]:
        """When the facts of a relation begin or end; facts without that date are left out."""
        found: list[Measured] = []
        for way in expression.path:
            if len(way) > 1 or way[0].again:
                raise SetError(f"{expression.how}(...) takes one relation")
            for fact in self.dated(name, way[0]):
                if not self._wanted(fact.tail if way[0].out else fact.head, expression):
                    continue
                first, dots, last = fact.time.partition("..")
                text = first if expression.how == "start" or not dots else last
                if text.strip():
                    found.append(Measured(text.strip(), (fact,)))
        return found

    def _wanted(self, name: str, expression: Expression) -> bool:
        """Whether the other end of a fact counts: it is in the set that the value is limited to."""
        if expression.among is None:
            return True
        if expression.among not in self._inside:
            self._inside[expression.among] = frozenset(self.get(expression.among)[0].members)
        return (name in self._inside[expression.among]) != expression.outside

    def dated(self, name: str, hop: Hop) -> list[Triple]:
        """The facts of an entity by one relation, with their dates; those without a date are left out."""
        try:
            found: Neighbors = self._holding(self.graph, hop.at).neighbors(name, hop.relation, out=hop.out)
        except UnknownName:
            return []
        if found.times is None:
            return []
        pairs = zip(found.names, found.times, strict=True)
        return [fact_of(name, hop, other)._replace(time=time) for other, times in pairs for time in times if time]

    # Evidence

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
            chain = (*made.via.get(name, ()), fact)
            if made.parents:
                yield from self._facts(_start(chain, name), made.parents[0])
            yield from chain
        elif made.kind is not None and (fact := made.kind.fact(self.graph, name)) is not None:
            yield fact
        else:  # a topic, or a combination: the same member further up, where it is there
            for parent in made.parents:
                if name in self.made[parent - 1].members:
                    yield from self._facts(name, parent)
        yield from made.chosen.get(name, ())


def _start(chain: Sequence[Triple], end: str) -> str:
    """Where a chain of facts that leads to `end` begins.

    >>> _start([Triple("a", "r", "b"), Triple("c", "s", "b")], "c")
    'a'
    """
    for fact in reversed(chain):
        end = fact.head if fact.tail == end else fact.tail
    return end
