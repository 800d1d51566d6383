"""A walk as SQL: a common table expression for each set, over one table facts(head, relation, tail, time).

    WITH
    s1(name) AS (SELECT 'France'),
    s2(name) AS (SELECT DISTINCT f.tail FROM s1 JOIN facts f ON f.head = s1.name AND f.relation = 'borders')
    SELECT name FROM s2;

SQLite (from 3.28 on) and DuckDB both take it: only what the two have in common is used. `time` is '' where a fact has
none; it is read only where a call asks for times. Names are literals in single quotes, in which nothing but the quote
itself means anything.
"""

from __future__ import annotations

from kgwalk.walk.kinds import ALL, HEADS, OF_TYPE
from kgwalk.walk.paths import COUNTED, TIMES, Hop, Path
from kgwalk.walk.queries.algebra import (
    EXTREMES,
    Aggregated,
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
from kgwalk.walk.queries.readings import DATE, MADE, NUMBER, ValueReading

# The first and the last day of a fact as texts: an open beginning sorts before all years, an open end after them.
_PARTS = """SELECT head, relation, tail, time,
  CASE WHEN INSTR(time, '..') > 0 THEN SUBSTR(time, 1, INSTR(time, '..') - 1) ELSE time END,
  CASE WHEN INSTR(time, '..') > 0 THEN SUBSTR(time, INSTR(time, '..') + 2) ELSE time END
  FROM facts WHERE time <> ''"""
_DATED = """SELECT head, relation, tail, time, since, until, SUBSTR(since || '-01-01', 1, 10),
  CASE LENGTH(until) WHEN 0 THEN '9999-99-99' WHEN 4 THEN until || '-12-31' WHEN 7 THEN until || '-31'
    ELSE SUBSTR(until, 1, 10) END
  FROM parts"""


def write_sql(plan: Plan) -> str:
    """The query, which ends with a semicolon."""
    return _Writer(plan).written()


def literal(text: str) -> str:
    """
    >>> print(literal("Saint George's"))
    'Saint George''s'
    """
    if "\0" in text:
        raise QueryError(f"no SQL: {text!r} has the character NUL, which SQL has no literal for")
    return "'" + text.replace("'", "''") + "'"


class _Writer:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.tables: dict[str, str] = {}  # the common table expressions: what is before AS, and the query
        self.recursive = False

    def written(self) -> str:
        for number in range(1, len(self.plan.steps) + 1):
            self._set(number)
        answer = self._answer()
        head = "WITH RECURSIVE" if self.recursive else "WITH"
        return f"{head}\n" + ",\n".join(f"{name} AS ({body})" for name, body in self.tables.items()) + f"\n{answer};\n"

    def _table(self, name: str, columns: str, body: str) -> str:
        self.tables[f"{name}({columns})"] = body
        return name

    def _fresh(self, letter: str) -> str:
        return f"{letter}{sum(name[0] == letter and name[1].isdigit() for name in self.tables) + 1}"

    def _answer(self) -> str:
        number = self.plan.answer
        match self.plan[number]:
            case RankedMembers():
                return f"SELECT name FROM s{number} ORDER BY place"
            case Tabled(_, columns):
                tables = [(title, self._texts(f"s{number}", value)) for title, value in columns]
                cells = [
                    f"COALESCE((SELECT GROUP_CONCAT(v.value, '; ') FROM {table} v WHERE v.name = s.name), '') "
                    f'AS "{_identifier(title)}"'
                    for title, table in tables
                ]
                return ",\n  ".join(["SELECT s.name", *cells]) + f"\nFROM s{number} s"
        return f"SELECT name FROM s{number}"

    # Sets

    def _set(self, number: int) -> None:
        name, columns = f"s{number}", "name"
        match self.plan[number]:
            case Topic(topic):
                body = f"SELECT {literal(topic)}"
            case AllOfKind(kind):
                body = {
                    OF_TYPE: f"SELECT DISTINCT head FROM facts WHERE relation = {literal(kind.relation)} "
                    f"AND tail = {literal(kind.value)}",
                    HEADS: f"SELECT DISTINCT head FROM facts WHERE relation = {literal(kind.relation)}",
                    ALL: "SELECT DISTINCT head FROM facts",
                }.get(kind.how, f"SELECT DISTINCT tail FROM facts WHERE relation = {literal(kind.relation)}")
            case Followed(source, path, window):
                body = self._followed(f"s{source}", path, window)
            case Combined(how, left, right):
                operator = {"intersect": "INTERSECT", "union": "UNION", "minus": "EXCEPT"}[how]
                body = f"SELECT name FROM s{left} {operator} SELECT name FROM s{right}"
            case Quantified() as step:
                body = self._quantified(step)
            case Filtered() as step:
                body = self._filtered(step)
            case ExtremeMembers(source, value, largest, reading):
                values = self._values(f"s{source}", value)
                best = f"SELECT {'MAX' if largest else 'MIN'}({key(reading, 'value')}) FROM {values}"
                body = f"SELECT DISTINCT name FROM {values} WHERE {key(reading, 'value')} = ({best})"
            case RankedMembers() as step:
                columns = "name, place"
                body = self._ranked(step)
            case Place(source, n):
                body = f"SELECT name FROM s{source} WHERE place = {n}"
            case SetSize(source):
                body = f"SELECT CAST(COUNT(*) AS VARCHAR) FROM s{source}"
            case Aggregated() as step:
                body = self._aggregated(step)
            case Arithmetic() as step:
                body = _arithmetic(step)
            case SetVerdict(how, left, right):
                both = f"SELECT name FROM s{left} INTERSECT SELECT name FROM s{right}"
                outside = f"SELECT name FROM s{left} EXCEPT SELECT name FROM s{right}"
                yes = f"EXISTS (SELECT 1 FROM s{left}) AND NOT EXISTS ({outside})"
                body = _yes(f"EXISTS ({both})" if how == "overlap" else yes)
            case ValueVerdict(left, comparison, right, reading):
                body = _yes(holds(reading, _operand(left), comparison, _operand(right)))
            case Tabled(source, _):
                body = f"SELECT name FROM s{source}"
            case TimesOf(source, hop, others):
                inside = "" if others is None else f" AND {_ends(hop)[1]} IN (SELECT name FROM s{others})"
                body = f"SELECT DISTINCT f.time FROM s{source} s JOIN {self._join(hop, 's.name', dated=True)}{inside}"
            case ByTime() as step:
                body = self._by_time(step)
        self._table(name, columns, body)

    def _followed(self, source: str, path: Path, window: Window | None) -> str:
        if (hop := _plain(path)) is not None:
            return f"SELECT DISTINCT {_ends(hop)[1]} FROM {source} s JOIN {self._join(hop, 's.name', window)}"
        return f"SELECT DISTINCT value FROM {self._pairs(source, path, window)}"

    def _quantified(self, step: Quantified) -> str:
        pairs, inside = self._pairs(f"s{step.source}", step.path), f"SELECT name FROM s{step.others}"
        if step.how == "none":
            led = f"SELECT name FROM {pairs} WHERE value IN ({inside})"
            return f"SELECT name FROM s{step.source} WHERE name NOT IN ({led})"
        if step.how == "only":
            return (
                f"SELECT DISTINCT name FROM {pairs} "
                f"WHERE name NOT IN (SELECT name FROM {pairs} WHERE value NOT IN ({inside}))"
            )
        led = f"SELECT 1 FROM {pairs} p WHERE p.name = s.name AND p.value = o.name"
        return (
            f"SELECT name FROM s{step.source} s "
            f"WHERE NOT EXISTS (SELECT 1 FROM s{step.others} o WHERE NOT EXISTS ({led}))"
        )

    def _filtered(self, step: Filtered) -> str:
        values = self._values(f"s{step.source}", step.value)
        comparison = "=" if step.comparison == "!=" else step.comparison
        if isinstance(step.bounds, tuple):
            alternatives = [
                holds(step.reading, "v.value", comparison, bound if _is_number(step.reading) else literal(bound), True)
                for bound in step.bounds
            ]
            found = f"SELECT v.name FROM {values} v WHERE {' OR '.join(alternatives)}"
        elif isinstance(step.bounds, int):
            condition = holds(step.reading, "v.value", comparison, "b.name")
            found = f"SELECT v.name FROM {values} v JOIN s{step.bounds} b ON {condition}"
        else:
            other = self._values(f"s{step.source}", step.bounds)
            condition = holds(step.reading, "v.value", comparison, "b.value", step.reading.form == MADE)
            found = f"SELECT v.name FROM {values} v JOIN {other} b ON b.name = v.name WHERE {condition}"
        if step.comparison == "!=":
            return f"SELECT DISTINCT name FROM {values} WHERE name NOT IN ({found})"
        return found.replace("SELECT", "SELECT DISTINCT", 1)

    def _ranked(self, step: RankedMembers) -> str:
        values, best = self._values(f"s{step.source}", step.value), "MAX" if step.largest else "MIN"
        number = key(step.reading, "value")
        order = f"ORDER BY {best}({number}){' DESC' * step.largest}"
        ranked = (
            f"SELECT name, ROW_NUMBER() OVER ({order}) AS place FROM {values} WHERE {number} IS NOT NULL GROUP BY name"
        )
        return ranked if step.size is None else f"SELECT name, place FROM ({ranked}) ranked WHERE place <= {step.size}"

    def _aggregated(self, step: Aggregated) -> str:
        number = key(step.reading, "value")
        if step.value.how or step.reading.form == MADE:
            values = self._values(f"s{step.source}", step.value)
        else:
            values = self._all_values(f"s{step.source}", step.value.path)
        if step.how in EXTREMES:
            best = f"SELECT {'MIN' if step.how == 'least' else 'MAX'}({number}) FROM {values}"
            text = written("value", step.value.unit) if step.value.is_number else "value"
            return f"SELECT DISTINCT {text} FROM {values} WHERE {number} = ({best})"
        total = f"{'SUM' if step.how == 'sum' else 'AVG'}({number})"
        return f"SELECT {written(total, step.reading.unit or step.value.unit)} FROM {values}"

    def _by_time(self, step: ByTime) -> str:
        facts = self._table(
            self._fresh("t"),
            "name, first",
            f"SELECT {_ends(step.hop)[1]}, f.first FROM s{step.source} s "
            f"JOIN {self._join(step.hop, 's.name', dated=True)}",
        )
        condition = {
            "earliest": f"first = (SELECT MIN(first) FROM {facts})",
            "latest": f"first = (SELECT MAX(first) FROM {facts})",
            "before": f"first < {literal(step.limit)}",
            "after": f"first > {literal(step.limit)}",
        }[step.how]
        return f"SELECT DISTINCT name FROM {facts} WHERE {condition}"

    # Paths

    def _join(self, hop: Hop, start: str, window: Window | None = None, *, dated: bool = False) -> str:
        """`facts f ON ...`: the facts by which a hop leads from an expression."""
        held = hop.at.split("..") if hop.at else [window.first, window.last] if window is not None else []
        if held or dated:
            self._dates()
        holding = f" AND f.first <= {literal(held[1])} AND f.last >= {literal(held[0])}" if held else ""
        table = "dated" if held or dated else "facts"
        return f"{table} f ON {_ends(hop)[0]} = {start} AND f.relation = {literal(hop.relation)}{holding}"

    def _dates(self) -> None:
        if "parts(head, relation, tail, time, since, until)" not in self.tables:
            self._table("parts", "head, relation, tail, time, since, until", _PARTS)
            self._table("dated", "head, relation, tail, time, since, until, first, last", _DATED)

    def _pairs(self, source: str, path: Path, window: Window | None = None) -> str:
        """A table (name, value) of the members of a table (name) with the ends of a path from each."""
        ways = []
        for way in path:
            here = ""
            for hop in way:
                here = self._hop(source, here, hop, window)
            ways.append(f"SELECT name, value FROM {here}")
        if len(ways) == 1:
            return ways[0].rpartition(" ")[2]
        return self._table(self._fresh("p"), "name, value", " UNION ".join(ways))

    def _hop(self, source: str, here: str, hop: Hop, window: Window | None) -> str:
        """One hop more: from the members of `source`, or from the values of the pairs `here`."""
        table, start = (here, "s.value") if here else (source, "s.name")
        if hop.path:
            nodes = self._table(self._fresh("n"), "name", self._nodes(hop, table, start))
            edges = self._pairs(nodes, hop.path, window)
            join, end = f"{edges} e ON e.name = {start}", "e.value"
        else:
            join, end = self._join(hop, start, window), _ends(hop)[1]
        name = self._fresh("p")
        once = f"SELECT DISTINCT s.name, {end} FROM {table} s JOIN {join}"
        if not hop.again:
            return self._table(name, "name, value", once)
        self.recursive = True
        again = join.replace(f"= {start}", "= p.value", 1)
        body = f"{once.replace(' DISTINCT', '', 1)} UNION SELECT p.name, {end} FROM {name} p JOIN {again}"
        return self._table(name, "name, value", body)

    def _nodes(self, hop: Hop, table: str, start: str) -> str:
        """Where a path in brackets may begin: here, or if it is followed again and again, anywhere."""
        if hop.again:
            return "SELECT head FROM facts UNION SELECT tail FROM facts"
        return f"SELECT DISTINCT {start} FROM {table} s"

    def _all_values(self, source: str, path: Path) -> str:
        """A table (name, node, value): a value once for each node before the last hop that has it."""
        ways = []
        for at, way in enumerate(path):
            before = self._pairs(source, (way[:-1],)) if way[:-1] else ""
            nodes = source
            if before:
                nodes = self._table(self._fresh("n"), "name", f"SELECT DISTINCT value FROM {before}")
            ends = self._pairs(nodes, (way[-1:],))
            if before:
                join = f"FROM {before} b JOIN {ends} e ON e.name = b.value"
                ways.append(f"SELECT b.name, {at}, b.value, e.value {join}")
            else:
                ways.append(f"SELECT name, {at}, name, value FROM {ends}")
        return self._table(self._fresh("v"), "name, way, node, value", " UNION ALL ".join(ways))

    # Values

    def _values(self, source: str, value: MemberValue) -> str:
        """A table (name, value): texts, or numbers where the value is one."""
        if value.how == "":
            return self._pairs(source, value.path)
        if value.how in TIMES:
            return self._times(source, value)
        if value.how == COUNTED:
            pairs = self._pairs(source, value.path)
            body = (
                f"SELECT s.name, COUNT(DISTINCT p.value) FROM {source} s LEFT JOIN {pairs} p ON p.name = s.name"
                f"{self._among('p.value', value)} GROUP BY s.name"
            )
            return self._table(self._fresh("v"), "name, value", body)
        assert value.inner is not None  # as all AGGREGATES have
        ends, number = self._all_values(source, value.path), key(value.inner, "value")
        if value.how in EXTREMES:
            best = f"{'MIN' if value.how == 'least' else 'MAX'}({number})"
            body = (
                f"SELECT DISTINCT v.name, v.value FROM {ends} v JOIN (SELECT name, {best} AS best FROM {ends} "
                f"GROUP BY name) b ON b.name = v.name WHERE {key(value.inner, 'v.value')} = b.best"
            )
        else:
            total = f"{'SUM' if value.how == 'sum' else 'AVG'}({number})"
            body = f"SELECT name, CAST(PRINTF('%.12g', {total}) AS DOUBLE) FROM {ends} GROUP BY name"
        return self._table(self._fresh("v"), "name, value", body)

    def _texts(self, source: str, value: MemberValue) -> str:
        """The same with numbers as they are written."""
        values = self._values(source, value)
        if not value.is_number:
            return values
        body = f"SELECT name, {written('value', value.unit)} FROM {values}"
        return self._table(self._fresh("v"), "name, value", body)

    def _times(self, source: str, value: MemberValue) -> str:
        part = "f.since" if value.how == "start" else "f.until"
        ways = [
            f"SELECT DISTINCT s.name, {part} FROM {source} s JOIN {self._join(way[0], 's.name', dated=True)}"
            f" AND {part} <> ''{self._among(_ends(way[0])[1], value)}"
            for way in value.path
        ]
        return self._table(self._fresh("v"), "name, value", " UNION ".join(ways))

    def _among(self, end: str, value: MemberValue) -> str:
        if value.among is None:
            return ""
        return f" AND {end} {'NOT ' * value.outside}IN (SELECT name FROM s{value.among})"


def _plain(path: Path) -> Hop | None:
    """The one hop of a path that is no more than a relation."""
    hop = path[0][0]
    return hop if len(path) == 1 and len(path[0]) == 1 and not hop.again and not hop.path else None


def _ends(hop: Hop) -> tuple[str, str]:
    return ("f.head", "f.tail") if hop.out else ("f.tail", "f.head")


def _identifier(name: str) -> str:
    literal(name)  # refuses NUL
    return name.replace('"', '""')


def _yes(condition: str) -> str:
    return f"SELECT CASE WHEN {condition} THEN 'yes' ELSE 'no' END"


def _operand(operand: int | str) -> str:
    return literal(operand) if isinstance(operand, str) else f"(SELECT name FROM s{operand})"


def _is_number(reading: ValueReading) -> bool:
    return reading.form in (NUMBER, MADE)


def key(reading: ValueReading, text: str) -> str:
    """What a value is ordered by: a number, or a text that sorts as the value does.

    >>> key(ValueReading(NUMBER, unit="EUR", commas=True), "value")
    "CAST(TRIM(REPLACE(REPLACE(value, ',', ''), 'EUR', '')) AS DOUBLE)"
    """
    if reading.form == MADE:
        return text
    if reading.form == DATE:
        return _guarded(reading, f"SUBSTR({_begin(reading, text)} || '-01-01', 1, 10)", text)
    if reading.form != NUMBER:
        return _guarded(reading, text, text)
    plain = f"REPLACE({text}, ',', '')" if reading.commas else text
    plain = f"TRIM(REPLACE({plain}, {literal(reading.unit)}, ''))" if reading.unit else plain
    return _guarded(reading, f"CAST({plain} AS DOUBLE)", plain)


def _guarded(reading: ValueReading, read: str, text: str) -> str:
    """Null for a text that is no value."""
    if not reading.others:
        return read
    return f"CASE WHEN {text} <> '' AND TRIM({text}, {literal(reading.characters)}) = '' THEN {read} END"


def _begin(reading: ValueReading, text: str) -> str:
    if not reading.spans:
        return f"SUBSTR({text}, 1, 10)"
    return f"CASE WHEN INSTR({text}, '..') > 0 THEN SUBSTR({text}, 1, INSTR({text}, '..') - 1) ELSE {text} END"


def _last(reading: ValueReading, text: str) -> str:
    begin = _begin(reading, text)
    ends = f"WHEN 4 THEN {begin} || '-12-31' WHEN 7 THEN {begin} || '-31' ELSE SUBSTR({begin}, 1, 10) END"
    return _guarded(reading, f"CASE LENGTH({begin}) {ends}", text)


def holds(reading: ValueReading, left: str, comparison: str, right: str, plain: bool = False) -> str:
    """A condition; `plain`: the right side is a number already, or a text as it is."""
    sign = {"!=": "<>"}.get(comparison, comparison)
    if reading.form != DATE:
        read = ValueReading(NUMBER, unit=reading.unit) if reading.form == MADE else reading
        bound = right if plain else key(read, right)
        return f"{key(reading, left)} {sign} {bound}"
    first, since, until = key(reading, left), key(reading, right), _last(reading, right)
    if comparison in ("=", "!="):
        inside = f"({since} <= {first} AND {_last(reading, left)} <= {until})"
        return inside if comparison == "=" else f"NOT {inside}"
    return f"{first} {sign} {until if comparison in ('>', '<=') else since}"


def written(number: str, unit: str = "") -> str:
    """A number as the walk writes it: whole where it is whole, else with ten figures; with its unit."""
    rounded = f"CAST(PRINTF('%.12g', {number}) AS DOUBLE)"
    text = (
        f"CASE WHEN ABS({rounded}) < 1e15 AND {rounded} = CAST({rounded} AS BIGINT) "
        f"THEN CAST(CAST({rounded} AS BIGINT) AS VARCHAR) ELSE PRINTF('%.10g', {rounded}) END"
    )
    if not unit:
        return text
    if unit in "$€£¥₹":
        return f"{literal(unit)} || {text}"
    return f"{text} || {literal(unit if unit in '%°‰' else f' {unit}')}"


def _arithmetic(step: Arithmetic) -> str:
    left, right = _operand(step.left), _operand(step.right)
    if step.by == "years":
        first, second = (f"CAST(SUBSTR({text}, 1, 4) AS BIGINT)" for text in (left, right))
        return f"SELECT CAST({first} - {second} AS VARCHAR)"
    if step.by == "days":
        apart = f"({_day_number(left)}) - ({_day_number(right)})"
        text = "CAST(days AS VARCHAR) || CASE WHEN ABS(days) = 1 THEN ' day' ELSE ' days' END"
        return f"SELECT {text} FROM (SELECT CAST({apart} AS BIGINT) AS days) d"
    one, two = key(step.reading, left), key(step.reading, right)
    sign = "-" if step.how == "subtract" else "/"
    return f"SELECT {written(f'({one} {sign} {two})', step.unit)}"


def _day_number(text: str) -> str:
    """Days of the Gregorian calendar, in arithmetic that every dialect has. A year begins in March."""
    year, month, day = (f"CAST(SUBSTR({text}, {at}, {size}) AS BIGINT)" for at, size in ((1, 4), (6, 2), (9, 2)))
    since = f"({year} - CASE WHEN {month} <= 2 THEN 1 ELSE 0 END)"
    months = f"(153 * (({month} + 9) % 12) + 2)"
    leaps = ("+", 4), ("-", 100), ("+", 400)
    whole = " ".join(f"{sign} ({since} - {since} % {every}) / {every}" for sign, every in leaps)
    return f"365 * {since} {whole} + ({months} - {months} % 5) / 5 + {day}"
