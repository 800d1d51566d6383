"""Relations that a graph has only through rows: orders join customers and products, flights join airlines and airports.

    junctions = Junctions({"contains": (Hop("product_id", out=False), Hop("part_id"))})
    junctions.through(plan)       # head_entities $1 contains -> head_entities $1 part_id, tail_entities $2 product_id

People do not ask for the rows: "which bikes have a leather saddle" names neither `product_parts` nor its columns. So a
question is drawn and worded over a graph where the two things are joined directly, and its plan is then led through the
rows of the graph that is walked (`RowTables` writes them). A hop becomes several hops, in the full language's own
patterns one path; a relation inside a path or value becomes the path through the rows, also again and again:
`(^part_id/component_id)+`.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kgwalk.demos.route import HOPS as ROUTE_HOPS
from kgwalk.kg.store import StoredGraph
from kgwalk.questions.invented.concepts import PlacedConcept, words_of
from kgwalk.questions.invented.values import SYMMETRIC
from kgwalk.questions.plan import FULL_PATTERNS, QuestionPlan
from kgwalk.questions.wording.bank_lexicon import bare_nouns
from kgwalk.questions.wording.english import plural, singular
from kgwalk.types import Call, Triple
from kgwalk.walk.kinds import Kind
from kgwalk.walk.paths import Expression, Hop, Path, inverse, renumbered, written


@dataclass(frozen=True)
class Junctions:
    """By the label that a relation is asked under, the hops through the rows from its head to its tail.

    A column that several tables have, such as `country`, is one relation from several kinds of things. `kinds` has the
    kind that a relation comes from there: backwards the kind must be told, or there are customers among the suppliers.
    """

    paths: Mapping[str, tuple[Hop, ...]]
    kinds: Mapping[str, str] = field(default_factory=dict)

    def passes(self, plan: QuestionPlan) -> bool:
        """Whether a plan goes through rows."""
        return any(way.relation in self.paths for way in plan.ways())

    def through(self, plan: QuestionPlan, *, stepwise: bool | None = None, named: Sequence[Kind] = ()) -> QuestionPlan:
        """The plan for the graph with the rows. Hops are made one by one, which shows what a row has; the patterns of
        the full language have them in one path unless `stepwise` says otherwise. Of the kinds that the question has
        `named`, those are started from that tell apart what a shared column leads to.

        >>> parts = Junctions({"contains": (Hop("product_id", out=False), Hop("part_id"))})
        >>> saddle = QuestionPlan("chain", ("Saddle",), (Call("head_entities", (1, "contains")), Call("count", (2,))))
        >>> parts.through(saddle).program()
        [['head_entities', '$1', 'part_id'], ['tail_entities', '$2', 'product_id'], ['count', '$3']]
        >>> parts.through(saddle, stepwise=False).program()
        [['tail_entities', '$1', '^part_id/product_id'], ['count', '$2']]
        """
        stepwise = plan.pattern not in FULL_PATTERNS if stepwise is None else stepwise
        needed = {self.kinds[way.relation] for way in plan.ways() if way.relation in self.kinds and not way.out}
        told = [kind for kind in named if kind.value in needed and kind not in plan.kinds]
        plan_kinds = (*plan.kinds, *told)
        starts = len(plan.topics) + len(plan_kinds)
        places = {kind.value: len(plan.topics) + at for at, kind in enumerate(plan_kinds, 1)}
        steps: list[Call] = []
        place = {number: number for number in range(1, plan.starts + 1)}
        for number, step in enumerate(plan.steps, plan.starts + 1):
            source, label = place.get(int(step.args[0]), 0), str(step.args[1]) if len(step.args) > 1 else ""
            if step.tool in ROUTE_HOPS and label in self.paths and (stepwise or label in self.kinds):
                steps += self._hops(source, label, step.tool == "tail_entities", starts + len(steps))
                if step.tool == "head_entities" and self.kinds.get(label) in places:
                    steps.append(Call("intersect", (starts + len(steps), places[self.kinds[label]])))
            else:
                steps.append(self._step(step, plan.expressions, place, places))
            place[number] = starts + len(steps)
        return replace(plan, steps=tuple(steps), kinds=plan_kinds, expressions={})

    def _hops(self, source: int, label: str, out: bool, made: int) -> list[Call]:
        steps = []
        for at, hop in enumerate(self._path(label, out)):
            steps.append(Call("tail_entities" if hop.out else "head_entities", (source, hop.relation)))
            source = made + at + 1
        return steps

    def _path(self, label: str, out: bool) -> tuple[Hop, ...]:
        hops = self.paths[label]
        return hops if out else inverse((hops,))[0]

    def _step(
        self, step: Call, expressions: Mapping[str, Expression], place: Mapping[int, int], kinds: Mapping[str, int]
    ) -> Call:
        """A call whose sets have their new numbers, and whose paths go through the rows."""
        args: list[str | int] = []
        tool = step.tool
        for arg in step.args:
            if isinstance(arg, int):
                args.append(place[arg])
                continue
            read = expressions.get(arg) or Expression(((Hop(arg),),))
            if self.paths.keys().isdisjoint(read.relations):
                args.append(renumbered(arg, place.__getitem__))
                continue
            ways = inverse(read.path) if step.tool == "head_entities" else read.path
            tool = "tail_entities" if step.tool == "head_entities" else tool
            among = None if read.among is None else place[read.among]
            hop = read.path[0][0]
            if read.how == "count" and among is None and len(read.path[0]) == 1 and not hop.out:
                among = kinds.get(self.kinds.get(hop.relation, ""))
            args.append(written(Expression(self._expanded(ways), read.how, among, read.outside), str))
        return Call(tool, tuple(args))

    def _expanded(self, ways: Path) -> Path:
        return tuple(tuple(one for hop in way for one in self._through(hop)) for way in ways)

    def _through(self, hop: Hop) -> tuple[Hop, ...]:
        if hop.relation not in self.paths:
            return (hop,)
        path = self._path(hop.relation, hop.out)
        return (Hop("", again=True, path=(path,)),) if hop.again else path


@dataclass(frozen=True)
class RowGraph:
    """The graph that is walked, where questions are drawn from one without its rows."""

    graph: StoredGraph
    junctions: Junctions


# The rows of an invented graph


_SHARED = 0.9  # the share of kinds that several tables have a column for which is called alike in all of them
_AS_ROWS, _AS_ROWS_OF_ONE = 0.75, 0.2  # the share of relations that are rows: of many to many, of others
_ONE_TABLE = 0.4  # the share of relations that stand in the rows of another one with the same head, as a flight's do
_HEADED = 0.35  # the share of tables whose rows are lines of something: of orders, of invoices
_HEADERS = (
    *("orders", "invoices", "contracts", "deliveries", "requests", "batches", "sessions", "campaigns", "reports"),
    *("bookings", "shipments", "projects", "visits", "agreements", "surveys"),
)
_ROWS = ("lines", "items", "entries", "records", "links", "assignments", "details")
_SUFFIXES = ("_id", "_id", "_id", "", "", "_ref", "_key", "_code")
_NUMBERS = ("quantity", "qty", "position", "sort_order", "revision")
_BY_NUMBER = 0.7  # the share of tables whose rows are called by their number
_ROLE = 0.4  # the share of columns called by what the other thing is to the one: `director_id`, not `person_id`


def chosen_for_rows(
    relations: Mapping[str, PlacedConcept], chance: random.Random
) -> tuple[dict[str, PlacedConcept], dict[str, PlacedConcept]]:
    """Of the relations between things, those that become rows, and of the others those with one tail a head."""
    chosen: dict[str, PlacedConcept] = {}
    single: dict[str, PlacedConcept] = {}
    for label, placed in relations.items():
        if placed.literal or placed.concept.id in SYMMETRIC:
            continue
        if chance.random() < (_AS_ROWS if placed.concept.many == "n:m" else _AS_ROWS_OF_ONE):
            chosen[label] = placed
        elif placed.concept.many == "n:1":
            single[label] = placed
    return chosen, single


@dataclass
class RowTables:
    """Writes some relations of an invented graph as tables of rows between two things, as databases are exported."""

    chance: random.Random
    free: Callable[[str], bool]  # whether a label is not taken
    type: str  # the relation to the table's name
    camel: bool
    paths: dict[str, tuple[Hop, ...]] = field(default_factory=dict)
    columns: dict[str, PlacedConcept] = field(default_factory=dict)  # by the column to the tail, which is its own
    kinds: dict[str, str] = field(default_factory=dict)  # of relations in a column that several tables have
    _suffix: str = ""
    _near: dict[str, str] = field(default_factory=dict)  # by kind, the column to a head

    def __post_init__(self) -> None:
        self._suffix = self.chance.choice(_SUFFIXES)

    def written(self, relations: Mapping[str, PlacedConcept], facts: Sequence[Triple]) -> list[Triple]:
        """The facts with those of these relations as rows; what has no free column stays as it is."""
        pairs: dict[str, dict[str, list[str]]] = {label: defaultdict(list) for label in relations}
        for fact in facts:
            if fact.relation in pairs:
                pairs[fact.relation][fact.head].append(fact.tail)
        rows: list[Triple] = []
        used: set[str] = set()
        for together in self._tables(relations):
            near = self._column_to_head(relations[together[0]])
            fars = {label: far for label in together if (far := self._column_to_tail(relations[label], near))}
            if near and fars:
                used |= fars.keys()
                rows += self._rows(near, fars, relations, pairs)
        return [fact for fact in facts if fact.relation not in used] + rows

    def shared(
        self, relations: Mapping[str, PlacedConcept], facts: Sequence[Triple], type_of: Callable[[str], str]
    ) -> list[Triple]:
        """The facts with relations of several kinds of things to one kind in one column: the country of customers and
        of suppliers.
        """
        by_tail: dict[str, dict[str, str]] = defaultdict(dict)  # the first relation of each kind of head
        for label, placed in relations.items():
            if placed.tail not in (placed.head, "thing"):
                by_tail[placed.tail].setdefault(placed.head, label)
        called: dict[str, str] = {}
        for tail, labels in by_tail.items():
            column = self._column(tail.split()[-1:])
            if len(labels) > 1 and self.free(column) and self.chance.random() < _SHARED:
                called |= dict.fromkeys(labels.values(), column)
                self.kinds |= {label: type_of(head) for head, label in labels.items()}
        self.paths |= {label: (Hop(column),) for label, column in called.items()}
        return [fact._replace(relation=called.get(fact.relation, fact.relation)) for fact in facts]

    def _tables(self, relations: Mapping[str, PlacedConcept]) -> list[list[str]]:
        """The relations, some of them with others of the same head in one table."""
        tables: list[list[str]] = []
        for label, placed in relations.items():
            same = [table for table in tables if relations[table[0]].head == placed.head != placed.tail]
            if same and self.chance.random() < _ONE_TABLE:
                same[0].append(label)
            else:
                tables.append([label])
        return tables

    def _column_to_head(self, placed: PlacedConcept) -> str:
        if placed.head not in self._near:
            words = placed.head.split()
            names = [self._column(words[-1:]), self._column(words), f"{self._column(words)}_1"]
            self._near[placed.head] = next(filter(self.free, names), "")
        return self._near[placed.head]

    def _column_to_tail(self, placed: PlacedConcept, near: str) -> str:
        roles = [singular(noun) for noun in bare_nouns(placed.concept, True)]
        label = [word for word in words_of(placed.concept.labels[0]) if word not in ("has", "is")]
        names = [role.split() for role in roles] + [[*label, *placed.tail.split()], ["other", *placed.tail.split()]]
        if placed.head != placed.tail and self.chance.random() > _ROLE:
            names = [placed.tail.split()[-1:], placed.tail.split(), *names]
        taken = {near, *self._near.values(), *self.columns}
        far = next((one for words in names if (one := self._column(words)) not in taken and self.free(one)), "")
        if far:
            self.columns[far] = placed
        return far

    def _column(self, words: Sequence[str]) -> str:
        text = "_".join(words).lower() + self._suffix
        first, *rest = text.split("_")
        return first + "".join(map(str.title, rest)) if self.camel else text

    def _rows(
        self,
        near: str,
        fars: Mapping[str, str],
        relations: Mapping[str, PlacedConcept],
        pairs: Mapping[str, Mapping[str, list[str]]],
    ) -> list[Triple]:
        chance, placed = self.chance, relations[next(iter(fars))]
        head, tail = placed.head.replace(" ", "_"), placed.tail.replace(" ", "_")
        table = chance.choice((f"{head}_{plural(tail)}", f"{head}_{chance.choice(_ROWS)}"))
        number = next(filter(self.free, chance.sample(_NUMBERS, len(_NUMBERS))), "")
        header = _Header.of(chance, self._column, self.free, near) if chance.random() < _HEADED else None
        named = _RowNames(table, chance.random() < _BY_NUMBER, chance.randrange(1, 9000))
        made: list[Triple] = []
        for name in dict.fromkeys(name for label in fars for name in pairs[label]):
            tails = {far: pairs[label].get(name, []) for label, far in fars.items()}
            for at in range(max(map(len, tails.values()))):
                row = named.next()
                joined = [Triple(row, near, name)] if header is None else header.joined(row, name, self.type, chance)
                made += [Triple(row, self.type, table), *joined]
                made += [Triple(row, far, some[at % len(some)]) for far, some in tails.items() if some]
                made += [Triple(row, number, str(chance.randint(1, 40)))] * bool(number)
        into = [Hop(near, out=False)] if header is None else [Hop(near, out=False), Hop(header.column, out=False)]
        self.paths |= {label: (*into, Hop(far)) for label, far in fars.items()}
        return made


@dataclass
class _Header:
    """What rows are lines of: an order of a customer has several."""

    table: str
    column: str  # from a line to it
    near: str  # from it to the head
    names: _RowNames
    last: str = ""  # the head of the latest one
    code: str = ""

    @classmethod
    def of(
        cls, chance: random.Random, column: Callable[[Sequence[str]], str], free: Callable[[str], bool], near: str
    ) -> _Header | None:
        table = chance.choice(_HEADERS)
        to = column([singular(table)])
        return cls(table, to, near, _RowNames(table, False, chance.randrange(100, 9000))) if free(to) else None

    def joined(self, row: str, head: str, type: str, chance: random.Random) -> list[Triple]:
        made = []
        if head != self.last or chance.random() < 0.5:
            self.last, self.code = head, self.names.next()
            made = [Triple(self.code, type, self.table), Triple(self.code, self.near, head)]
        return [*made, Triple(row, self.column, self.code)]


@dataclass
class _RowNames:
    """Names of rows: "order_lines 17", or "OL-1017"."""

    table: str
    numbered: bool
    last: int

    def next(self) -> str:
        self.last += 1
        letters = "".join(word[0] for word in self.table.split("_"))[:3].upper()
        return f"{self.table} {self.last}" if self.numbered else f"{letters}{self.table[1].upper()}-{self.last}"
