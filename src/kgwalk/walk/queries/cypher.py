"""A walk as Cypher, over nodes (:Entity {name}) and a relationship for each fact, its type the relation, with its time.

    WITH ['France'] AS s1
    OPTIONAL MATCH (a:Entity)-[:`borders`]->(b1:Entity) WHERE a.name IN s1
    WITH collect(DISTINCT b1.name) AS s2
    UNWIND s2 AS name RETURN name

Each set is a list of names that is carried on as long as it is needed. Values are nodes as well, as names are in the
graph. Every hop has a MATCH of its own, since within one no relationship is taken twice, and a walk may turn back.
Where a member is compared by something there is a list [name, values, ...] of each.
"""

from __future__ import annotations

from kgwalk.walk.kinds import ALL, HEADS, OF_TYPE
from kgwalk.walk.paths import COUNTED, TIMES, Hop, Path
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
)
from kgwalk.walk.queries.program import QueryError
from kgwalk.walk.queries.readings import CLOCKED, DATE, MADE, NUMBER, ValueReading

_NAME = "Cypher"
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


def write_cypher(plan: Plan) -> str:
    """The query, which ends with a semicolon."""
    return _Writer(plan).written()


def literal(text: str) -> str:
    r"""A string. `\u` is cut in two, since some engines read it before they read the string.

    >>> print(literal("Saint George's"), literal("a\\u0027"))
    'Saint George\'s' 'a\\' + 'u0027'
    """
    if "\0" in text:
        raise QueryError(f"no Cypher: {text!r} has the character NUL, which Cypher has no literal for")
    escaped = "".join(_ESCAPES.get(one, one) for one in text)
    return f"'{escaped}'".replace("\\\\u", "\\\\' + 'u")


def identifier(name: str) -> str:
    """A relationship's type or a column, in backticks."""
    if "\\u" in name or "\0" in name or not name:
        raise QueryError(f"no Cypher: {name!r} cannot be written as the type of a relationship")
    return f"`{name.replace('`', '``')}`"


class _Writer:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.lines: list[str] = []
        self.variables = 0
        self.made: list[str] = []  # lists that are carried on: s1, s2, ...
        self.number = 0  # of the step that is being written
        self.spent: set[str] = set()  # lists that it has no use for any more
        needed = {number: _needs(step) for number, step in enumerate(plan.steps, 1)}
        self.last_use = {
            number: max([n for n, some in needed.items() if number in some], default=0) for number in needed
        }
        self.last_use[plan.answer] = len(plan.steps) + 1

    def written(self) -> str:
        for number, step in enumerate(self.plan.steps, 1):
            self.number, self.spent = number, set()
            if not isinstance(step, Tabled) or number != self.plan.answer:
                self._step(number, step)
        self._answer()
        return "\n".join(self.lines) + ";\n"

    def _answer(self) -> None:
        number = self.plan.answer
        step = self.plan[number]
        if isinstance(step, Tabled):
            self.number = len(self.plan.steps) + 1
            rows = self._members(step.source, [value for _, value in step.columns])
            titles, cells = ["name"], list[str]()
            for at, (title, value) in enumerate(step.columns, 1):
                titles.append(f"{title} {at}" if title in titles else title)
                cells.append(f"{self._texts(f'x[{at}]', value)} AS {identifier(titles[-1])}")
            self.lines.append(f"UNWIND {rows} AS x RETURN x[0] AS name, {', '.join(cells)}")
        else:
            self.lines.append(f"UNWIND s{number} AS name RETURN name")

    def _new(self, letter: str) -> str:
        self.variables += 1
        return f"{letter}{self.variables}"

    def _with(self, *named: str, more: str = "") -> None:
        """Carry on what is needed later, and these; each is `x` or `expression AS x`."""
        kept = [name for name in self.made if self._is_needed(name)]
        self.lines.append(f"WITH {', '.join([*kept, *filter(None, named)])}{more}")

    def _is_needed(self, name: str) -> bool:
        return name not in self.spent and self.last_use[int(name[1:])] >= self.number

    def _make(self, number: int, expression: str) -> None:
        # what this step alone needs is left behind with it
        kept = [name for name in self.made if self.last_use[int(name[1:])] > number]
        self.lines.append(f"WITH {', '.join([*kept, f'{expression} AS s{number}'])}")
        self.made = [*kept, f"s{number}"]

    # Sets

    def _step(self, number: int, step: AlgebraStep) -> None:
        match step:
            case Topic(name):
                self._make(number, f"[{literal(name)}]")
            case AllOfKind(kind):
                fact = f"[:{identifier(kind.relation)}]" if kind.how != ALL else "[]"
                other = f"(:Entity {{name: {literal(kind.value)}}})" if kind.how == OF_TYPE else "(:Entity)"
                ends = ("(b:Entity)", other) if kind.how in (OF_TYPE, HEADS, ALL) else (other, "(b:Entity)")
                self.lines.append(f"OPTIONAL MATCH {ends[0]}-{fact}->{ends[1]}")
                self._make(number, "collect(DISTINCT b.name)")
            case Followed(source, path, window):
                self._make(number, self._ends(source, path, window))
            case Combined(how, left, right):
                self._make(
                    number,
                    {
                        "intersect": f"[x IN s{left} WHERE x IN s{right}]",
                        "union": f"s{left} + [x IN s{right} WHERE NOT x IN s{left}]",
                        "minus": f"[x IN s{left} WHERE NOT x IN s{right}]",
                    }[how],
                )
            case Quantified(how, source, path, others):
                condition = {
                    "none": f"none(y IN x[1] WHERE y IN s{others})",
                    "only": f"size(x[1]) > 0 AND all(y IN x[1] WHERE y IN s{others})",
                    "every": f"all(y IN s{others} WHERE y IN x[1])",
                }[how]
                rows = self._members(source, [MemberValue(path)])
                self._make(number, f"[x IN {rows} WHERE {condition} | x[0]]")
            case Filtered():
                self._filtered(number, step)
            case ExtremeMembers():
                keys = self._keys(step)
                best = f"reduce(b = null, x IN {keys} | {_better('x[1]', step.largest)})"
                self._with(keys, f"{best} AS best")
                self._make(number, f"[x IN {keys} WHERE x[1] = best | x[0]]")
            case RankedMembers():
                keys = self._keys(step)
                self.lines.append(f"UNWIND {keys} AS x")
                self._with("x[0] AS n", "x[1] AS k")  # so that no row carries all the others while they are sorted
                self._with("n", "k", more=f" ORDER BY k{' DESC' * step.largest} WHERE k IS NOT NULL")
                cut = "" if step.size is None else f"[0..{step.size}]"
                self._make(number, f"collect(n){cut}")
            case Place(source, n):
                self._make(number, f"s{source}[{n - 1}..{n}]")
            case SetSize(source):
                self._make(number, f"[toString(size(s{source}))]")
            case Aggregated():
                self._aggregated(number, step)
            case Arithmetic():
                self._make(number, f"[{_arithmetic(step)}]")
            case ValueVerdict(left, comparison, right, reading):
                condition = holds(reading, _operand(left), comparison, _operand(right))
                self._make(number, f"[CASE WHEN {condition} THEN 'yes' ELSE 'no' END]")
            case SetVerdict(how, left, right):
                yes = f"any(x IN s{left} WHERE x IN s{right})"
                if how == "is_in":
                    yes = f"size(s{left}) > 0 AND all(x IN s{left} WHERE x IN s{right})"
                self._make(number, f"[CASE WHEN {yes} THEN 'yes' ELSE 'no' END]")
            case Tabled(source, _):
                self._make(number, f"s{source}")
            case TimesOf(source, hop, others):
                time, end = self._dated(source, hop)
                inside = "" if others is None else f"CASE WHEN {end}.name IN s{others} THEN {time}.time END"
                self._make(number, f"collect(DISTINCT {inside or f'{time}.time'})")
            case ByTime():
                self._by_time(number, step)

    def _filtered(self, number: int, step: Filtered) -> None:
        comparison = "=" if step.comparison == "!=" else step.comparison
        if isinstance(step.bounds, MemberValue):
            rows = self._members(step.source, [step.value, step.bounds])
            condition = holds(step.reading, "y", comparison, "z", step.reading.form == MADE)
            fits = f"any(y IN x[1] WHERE any(z IN x[2] WHERE {condition}))"
        else:
            rows = self._members(step.source, [step.value])
            if isinstance(step.bounds, int):
                fits = (
                    f"any(y IN x[1] WHERE any(z IN s{step.bounds} WHERE {holds(step.reading, 'y', comparison, 'z')}))"
                )
            else:
                number_form = step.reading.form in (NUMBER, MADE)
                alternatives = [
                    holds(step.reading, "y", comparison, bound if number_form else literal(bound), number_form)
                    for bound in step.bounds
                ]
                fits = f"any(y IN x[1] WHERE {' OR '.join(alternatives)})"
        if step.comparison == "!=":
            fits = f"size(x[1]) > 0 AND NOT {fits}"
        self._make(number, f"[x IN {rows} WHERE {fits} | x[0]]")

    def _keys(self, step: ExtremeMembers | RankedMembers) -> str:
        """A list of [name, what the member is ordered by]."""
        rows, keys = self._members(step.source, [step.value]), self._new("k")
        best = f"reduce(b = null, y IN x[1] | {_better(key(step.reading, 'y'), step.largest)})"
        self._with(f"[x IN {rows} | [x[0], {best}]] AS {keys}")
        return keys

    def _aggregated(self, number: int, step: Aggregated) -> None:
        rows = self._members(step.source, [step.value], every=True)
        if step.how in EXTREMES:
            all_of = f"reduce(l = [], x IN {rows} | l + x[1])"
            best = f"reduce(b = null, y IN {all_of} | {_better_text(step.reading, step.how == 'greatest')})"
            self._make(number, f"[{_as_text(best, step.value)}]")
            return
        total = f"reduce(t = 0.0, x IN {rows} | t + reduce(u = 0.0, y IN x[1] | u + {key(step.reading, 'y')}))"
        if step.how == "average":
            total += f" / reduce(t = 0, x IN {rows} | t + size(x[1]))"
        self._with(f"{total} AS total")
        self._make(number, f"[{written('total', step.reading.unit or step.value.unit)}]")

    def _by_time(self, number: int, step: ByTime) -> None:
        time, end = self._dated(step.source, step.hop)
        facts = self._new("t")
        self._with(f"[x IN collect([{end}.name, {_since(f'{time}.time')}]) WHERE x[0] IS NOT NULL] AS {facts}")
        if step.limit:
            condition = f"x[1] {'<' if step.how == 'before' else '>'} {literal(step.limit)}"
        else:
            best = f"reduce(b = null, x IN {facts} | {_better('x[1]', step.how == 'latest')})"
            self._with(facts, f"{best} AS best")
            condition = "x[1] = best"
        names = self._new("l")
        self._with(f"[x IN {facts} WHERE {condition} | x[0]] AS {names}")
        self._make(number, f"reduce(l = [], x IN {names} | CASE WHEN x IN l THEN l ELSE l + [x] END)")

    # Paths

    def _ends(self, source: int, path: Path, window: Window | None) -> str:
        """Matches the ways of a path from a set; the expression of the list of their ends."""
        found: list[str] = []
        for at, way in enumerate(path, 1):
            end = self._way("a", f" WHERE a.name IN s{source}", way, window)
            if at == len(path) == 1:
                return f"collect(DISTINCT {end}.name)"
            found.append(self._new("w"))
            self._with(*found[:-1], f"collect(DISTINCT {end}.name) AS {found[-1]}")
        both = found[0]
        for one in found[1:]:
            both = f"{both} + [x IN {one} WHERE NOT x IN {both}]"
        return both

    def _way(self, start: str, where: str, way: tuple[Hop, ...], window: Window | None = None) -> str:
        """A line for each hop; the variable of the last node."""
        for at, hop in enumerate(way):
            end = self._new("b")
            first = f"({start}:Entity)" if where and at == 0 else f"({start})"
            relation, condition = self._relationship(hop, window)
            condition = " AND ".join(filter(None, [where.removeprefix(" WHERE ") if at == 0 else "", condition]))
            self.lines.append(
                f"OPTIONAL MATCH {first}{relation}({end}:Entity)" + (f" WHERE {condition}" if condition else "")
            )
            start = end
        return start

    def _relationship(self, hop: Hop, window: Window | None) -> tuple[str, str]:
        """The pattern between two nodes, and the condition on its time."""
        if hop.path:
            return self._quantified_path(hop, window), ""
        held = hop.at.split("..") if hop.at else [window.first, window.last] if window is not None else []
        variable = self._new("r") if held else ""
        if held and hop.again:
            raise self.plan.refuse(self.number, "the times of facts that are followed again and again", _NAME)
        inside = f"[{variable}:{identifier(hop.relation)}{'*1..' * hop.again}]"
        pattern = f"-{inside}->" if hop.out else f"<-{inside}-"
        if not held:
            return pattern, ""
        time = f"{variable}.time"
        begins, ends = f"{_since(time)} <= {literal(held[1])}", f"{_until(time)} >= {literal(held[0])}"
        return pattern, f"{time} <> '' AND {begins} AND {ends}"

    def _quantified_path(self, hop: Hop, window: Window | None) -> str:
        """A path in brackets. A quantified path takes no relationship twice, which changes nothing where its relations
        differ: the shortest way to an end never takes one twice.
        """
        way = hop.path[0]
        plain = len(hop.path) == 1 and not any(one.again or one.path or one.at for one in way) and window is None
        if not plain or len({one.relation for one in way}) < len(way):
            raise self.plan.refuse(self.number, "such a path in brackets", _NAME)
        steps = [f"-[:{identifier(one.relation)}]->" if one.out else f"<-[:{identifier(one.relation)}]-" for one in way]
        return f" ((){'()'.join(steps)}()){'+' if hop.again else '{1}'} "

    def _dated(self, source: int, hop: Hop) -> tuple[str, str]:
        """Matches the dated facts of a relation; the variables of the relationship and of the other end."""
        relation, end = self._new("r"), self._new("b")
        inside = f"[{relation}:{identifier(hop.relation)}]"
        pattern = f"-{inside}->" if hop.out else f"<-{inside}-"
        condition = f"a.name IN s{source} AND {relation}.time <> ''"
        if hop.at:
            first, last = hop.at.split("..")
            time = f"{relation}.time"
            condition += f" AND {_since(time)} <= {literal(last)} AND {_until(time)} >= {literal(first)}"
        self.lines.append(f"OPTIONAL MATCH (a:Entity){pattern}({end}:Entity) WHERE {condition}")
        return relation, end

    # Values

    def _members(self, source: int, values: list[MemberValue], *, every: bool = False) -> str:
        """A list of [name, values, ...] of the members of a set; `every`: a value once for each node that has it."""
        rows = self._new("v")
        self.lines.append(f"OPTIONAL MATCH (a:Entity) WHERE a.name IN s{source}")
        again = self.number <= len(self.plan.steps) and source in _needs(self.plan[self.number], but_source=True)
        if self.last_use[source] == self.number and not again:
            self.spent.add(f"s{source}")  # carried on, it would be compared with itself for each member
        found: list[str] = []
        for value in values:
            lists: list[str] = []
            for way in value.path:
                lists.append(self._new("w"))
                self._with("a", *found, *lists[:-1], f"{self._collected(way, value, every)} AS {lists[-1]}")
            joined = lists[0]
            for one in lists[1:]:
                joined = (
                    f"{joined} + {one}" if every or value.inner else f"{joined} + [y IN {one} WHERE NOT y IN {joined}]"
                )
            if len(lists) > 1 or value.how or every:
                found.append(self._new("l"))
                self._with("a", *found[:-1], f"{self._made_of(joined, value, every)} AS {found[-1]}")
            else:
                found.append(joined)
        self._with(f"[x IN collect([a.name, {', '.join(found)}]) WHERE x[0] IS NOT NULL] AS {rows}")
        return rows

    def _collected(self, way: tuple[Hop, ...], value: MemberValue, every: bool) -> str:
        """Matches a way from `a`; the expression of what is collected."""
        if value.how in TIMES:
            hop, relation, end = way[0], self._new("r"), self._new("b")
            inside = f"[{relation}:{identifier(hop.relation)}]"
            pattern = f"-{inside}->" if hop.out else f"<-{inside}-"
            conditions = [f"{relation}.time <> ''"]
            if value.among is not None:
                conditions.append(f"{'NOT ' * value.outside}{end}.name IN s{value.among}")
            self.lines.append(f"OPTIONAL MATCH (a){pattern}({end}:Entity) WHERE {' AND '.join(conditions)}")
            part = _part(f"{relation}.time", 0 if value.how == "start" else 1)
            return f"[y IN collect(DISTINCT {part}) WHERE y <> '']"
        if (every and value.how == "") or value.inner is not None:
            before = self._way("a", "", way[:-1]) if way[:-1] else "a"
            end = self._way(before, "", way[-1:])
            return f"[p IN collect(DISTINCT [{before}.name, {end}.name]) WHERE p[1] IS NOT NULL]"
        return f"collect(DISTINCT {self._way('a', '', way)}.name)"

    def _made_of(self, found: str, value: MemberValue, every: bool) -> str:
        """What a value makes of the ends that were collected, as a list."""
        if value.how == COUNTED:
            if value.among is not None:
                found = f"[y IN {found} WHERE {'NOT ' * value.outside}y IN s{value.among}]"
            return f"[size({found})]"
        if value.inner is None:
            return f"[p IN {found} | p[1]]" if every and value.how == "" else found
        texts = f"[p IN {found} | p[1]]"
        if value.how in EXTREMES:
            best = f"reduce(b = null, y IN {texts} | {_better_text(value.inner, value.how == 'greatest')})"
        else:
            best = f"reduce(t = 0.0, y IN {texts} | t + {key(value.inner, 'y')})"
            best = f"round({best}{f' / size({found})' * (value.how == 'average')}, 9)"
        return f"CASE WHEN size({found}) = 0 THEN [] ELSE [{best}] END"

    def _texts(self, found: str, value: MemberValue) -> str:
        return f"[y IN {found} | {_as_text('y', value)}]" if value.is_number else found


def _needs(step: AlgebraStep, *, but_source: bool = False) -> set[int]:
    """The sets that a step is made from; `but_source`: those beside the one whose members it goes through."""
    numbers: set[int] = set()
    for name in ("source", "left", "right", "others", "bounds")[but_source:]:
        if isinstance(one := getattr(step, name, None), int):
            numbers.add(one)
    values = [getattr(step, "value", None), getattr(step, "bounds", None)]
    values += [value for _, value in step.columns] if isinstance(step, Tabled) else []
    return numbers | {value.among for value in values if isinstance(value, MemberValue) and value.among is not None}


def _better(candidate: str, largest: bool) -> str:
    sign = ">" if largest else "<"
    return f"CASE WHEN b IS NULL OR {candidate} {sign} b THEN {candidate} ELSE b END"


def _better_text(reading: ValueReading, largest: bool) -> str:
    sign = ">" if largest else "<"
    return f"CASE WHEN b IS NULL OR {key(reading, 'y')} {sign} {key(reading, 'b')} THEN y ELSE b END"


def _operand(operand: int | str) -> str:
    return literal(operand) if isinstance(operand, str) else f"s{operand}[0]"


def _as_text(found: str, value: MemberValue) -> str:
    return written(found, value.unit) if value.is_number else found


def key(reading: ValueReading, text: str) -> str:
    """What a value is ordered by: a number, or a text that sorts as the value does.

    >>> key(ValueReading(NUMBER, unit="EUR", commas=True), "y")
    "toFloat(trim(replace(replace(y, ',', ''), 'EUR', '')))"
    """
    if reading.form == MADE:
        return text
    if reading.form == DATE:
        return _guarded(reading, f"substring({_begin(reading, text)} + '-01-01', 0, 10)", text)
    if reading.form != NUMBER:
        return _guarded(reading, text, text) if reading.form == CLOCKED else text
    plain = f"replace({text}, ',', '')" if reading.commas else text
    plain = f"trim(replace({plain}, {literal(reading.unit)}, ''))" if reading.unit else plain
    return f"toFloat({plain})"  # null for what is no number


def _guarded(reading: ValueReading, read: str, text: str) -> str:
    if not reading.others:
        return read
    allowed = "".join("\\" + one if one in ".+-" else one for one in reading.characters)
    return f"CASE WHEN {text} =~ {literal(f'[{allowed}]+')} THEN {read} END"


def _begin(reading: ValueReading, text: str) -> str:
    return f"substring({_part(text, 0)}, 0, 10)" if reading.spans else f"substring({text}, 0, 10)"


def _part(time: str, at: int) -> str:
    return f"CASE WHEN {time} CONTAINS '..' THEN split({time}, '..')[{at}] ELSE {time} END"


def _last(begin: str) -> str:
    return (
        f"CASE size({begin}) WHEN 0 THEN '9999-99-99' WHEN 4 THEN {begin} + '-12-31' "
        f"WHEN 7 THEN {begin} + '-31' ELSE {begin} END"
    )


def _since(time: str) -> str:
    return f"substring({_part(time, 0)} + '-01-01', 0, 10)"


def _until(time: str) -> str:
    return _last(_part(time, 1))


def holds(reading: ValueReading, left: str, comparison: str, right: str, plain: bool = False) -> str:
    """A condition; `plain`: the right side is a number already."""
    sign = {"!=": "<>"}.get(comparison, comparison)
    if reading.form != DATE:
        read = ValueReading(NUMBER, unit=reading.unit) if reading.form == MADE else reading
        return f"{key(reading, left)} {sign} {right if plain else key(read, right)}"
    first, since = key(reading, left), key(reading, right)
    until = _last(_begin(reading, right))
    if comparison in ("=", "!="):
        inside = f"({since} <= {first} AND {_last(_begin(reading, left))} <= {until})"
        return inside if comparison == "=" else f"NOT {inside}"
    return f"{first} {sign} {until if comparison in ('>', '<=') else since}"


def written(number: str, unit: str = "") -> str:
    """A number as a text with its unit, whole where it is whole."""
    text = f"CASE WHEN {number} = toInteger({number}) THEN toString(toInteger({number})) ELSE toString({number}) END"
    if not unit:
        return text
    if unit in "$€£¥₹":
        return f"{literal(unit)} + {text}"
    return f"{text} + {literal(unit if unit in '%°‰' else f' {unit}')}"


def _arithmetic(step: Arithmetic) -> str:
    left, right = _operand(step.left), _operand(step.right)
    if step.by == "years":
        return f"toString(toInteger(substring({left}, 0, 4)) - toInteger(substring({right}, 0, 4)))"
    if step.by == "days":
        days = f"duration.inDays(date({right}), date({left})).days"
        return f"toString({days}) + CASE WHEN abs({days}) = 1 THEN ' day' ELSE ' days' END"
    one, two = key(step.reading, left), key(step.reading, right)
    return written(f"({one} {'-' if step.how == 'subtract' else '/'} {two})", step.unit)
