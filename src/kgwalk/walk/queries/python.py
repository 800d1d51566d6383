"""A walk as Python: a script of plain sets, without kgwalk, over the TSV that `kgwalk kg export` writes.

    s1 = {"France"}
    s2 = follow(s1, "borders")
    s3 = {name for name in s2 if any(number(value) > 50000000 for value in follow({name}, "population"))}

Only the functions that the walk needs are in it. It prints a name a line, of a table a row with tabs between.
"""

from __future__ import annotations

from kgwalk.kg.sources.delimited import ESCAPED_MARK
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
from kgwalk.walk.queries.readings import DATE, MADE, NUMBER, ValueReading

_OPENING = f"""\
import re
import sys
from collections import defaultdict

# kgwalk kg export GRAPH > facts.tsv; python this.py facts.tsv
with open(sys.argv[1], encoding="utf-8", newline="\\n") as file:
    rows = [line.split("\\t") for line in file.read().split("\\n")[:-1]]
if rows and rows[0] == [{ESCAPED_MARK!r}]:
    plain = {{"t": "\\t", "n": "\\n", "r": "\\r", "\\\\": "\\\\"}}
    rows = [[re.sub(r"\\\\(.)", lambda found: plain[found[1]], cell) for cell in row] for row in rows[1:]]
facts = [(head, relation, tail, *time, "")[:4] for head, relation, tail, *time in rows]
tails, heads = defaultdict(set), defaultdict(set)
for head, relation, tail, time in facts:
    tails[relation, head].add(tail)
    heads[relation, tail].add(head)
"""

# What a script may need; a function comes after those that it calls.
_FUNCTIONS = {
    "follow": """
def follow(names, relation):
    return {tail for name in names for tail in tails.get((relation, name), ())}
""",
    "back": """
def back(names, relation):
    return {head for name in names for head in heads.get((relation, name), ())}
""",
    "again": """
def again(names, step):
    found, edge = set(), names
    while edge:
        edge = step(edge) - found
        found |= edge
    return found
""",
    "days": '''
def days(time):
    """The first and the last day as texts; an open beginning sorts before all years, an open end after them."""
    since, dots, until = time.partition("..")
    until = until if dots else since
    ends = {0: "9999-99-99", 4: f"{until}-12-31", 7: f"{until}-31"}
    return f"{since}-01-01"[:10], ends.get(len(until), until[:10])
''',
    "dated": '''
def dated(names, relation, out, first="", last="~"):
    """The other end and the time of the dated facts of a relation that hold from one day to another."""
    ends = [(head, tail, time) if out else (tail, head, time) for head, name, tail, time in facts if name == relation]
    held = [(name, other, time) for name, other, time in ends if name in names and time]
    return [(other, time) for _, other, time in held if days(time)[0] <= last and days(time)[1] >= first]
''',
    "written": """
def written(number, unit="{}"):
    number = float(f"{number:.12g}")
    whole = abs(number) < 1e15 and number == int(number)
    return unit.replace("{}", str(int(number)) if whole else f"{number:.10g}")
""",
    "best": '''
def best(values, key, choose):
    """Each name with the key that counts, of those that have one."""
    keys = {name: [key(one) for one in some if key(one) is not None] for name, some in values.items()}
    return {name: choose(some) for name, some in keys.items() if some}
''',
}
_NEEDS = {"dated": ["days"]}


def write_python(plan: Plan) -> str:
    """The script."""
    return _Writer(plan).written()


class _Writer:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.used: set[str] = set()
        self.keys: dict[ValueReading, str] = {}
        self.lines: list[str] = []

    def written(self) -> str:
        for number in range(1, len(self.plan.steps) + 1):
            self.lines.append(f"s{number} = {self._set(number)}")
        self._answer()
        for name in list(self.used):
            self.used.update(_NEEDS.get(name, ()))
        functions = [f"\n{text}" for name, text in _FUNCTIONS.items() if name in self.used]
        keys = [f"\n\n{_definition(name, reading)}" for reading, name in self.keys.items()]
        return _OPENING + "".join([*functions, *keys]) + "\n\n" + "\n".join(self.lines) + "\n"

    def _use(self, name: str) -> str:
        self.used.add(name)
        return name

    def _key(self, reading: ValueReading) -> str:
        """The function that reads a value."""
        if reading.form == MADE:
            return "float"
        plain = ValueReading(reading.form, reading.unit, reading.commas, reading.exponents, reading.spans,
                        reading.large, reading.others)  # fmt: skip
        return self.keys.setdefault(plain, f"key{len(self.keys) + 1}")

    def _order(self, reading: ValueReading) -> str:
        """The function that values are ordered by: of a date, its first day."""
        key = self._key(reading)
        return f"lambda text: ({key}(text) or [None])[0]" if reading.form == DATE else key

    def _answer(self) -> None:
        number = self.plan.answer
        step = self.plan[number]
        if isinstance(step, Tabled):
            cells = [f'"; ".join(sorted({self._texts(value, "name")}))' for _, value in step.columns]
            self.lines.append(f'for name in sorted(s{number}):\n    print(name, {", ".join(cells)}, sep="\\t")')
        else:
            names = f"s{number}" if isinstance(step, RankedMembers) else f"sorted(s{number})"
            self.lines.append(f"for name in {names}:\n    print(name)")

    # Sets

    def _set(self, number: int) -> str:
        match self.plan[number]:
            case Topic(name):
                return f"{{{name!r}}}"
            case AllOfKind(kind):
                if kind.how == ALL:
                    return "{head for head, relation, tail, time in facts}"
                if kind.how == OF_TYPE:
                    return f"{self._use('back')}({{{kind.value!r}}}, {kind.relation!r})"
                end = "head" if kind.how == HEADS else "tail"
                return f"{{{end} for head, relation, tail, time in facts if relation == {kind.relation!r}}}"
            case Followed(source, path, window):
                return self._path(f"s{source}", path, window)
            case Combined(how, left, right):
                sign = {"intersect": "&", "union": "|", "minus": "-"}[how]
                return f"set(s{left}) {sign} set(s{right})"
            case Quantified(how, source, path, others):
                led = self._path("{name}", path)
                condition = {
                    "none": f"not {led} & set(s{others})",
                    "only": f"{led} and {led} <= set(s{others})",
                    "every": f"{led} >= set(s{others})",
                }[how]
                return f"{{name for name in s{source} if {condition}}}"
            case Filtered() as step:
                return self._filtered(step)
            case ExtremeMembers(source, value, largest, reading):
                self.lines.append(f"k{number} = {self._best(source, value, reading, largest)}")
                best = f"{'max' if largest else 'min'}(k{number}.values())"
                return f"{{name for name in k{number} if k{number}[name] == {best}}}"
            case RankedMembers(source, value, size, largest, reading):
                self.lines.append(f"k{number} = {self._best(source, value, reading, largest)}")
                cut = "" if size is None else f"[:{size}]"
                return f"sorted(k{number}, key=k{number}.get{', reverse=True' * largest}){cut}"
            case Place(source, n):
                return f"s{source}[{n - 1}:{n}]"
            case SetSize(source):
                return f"{{str(len(set(s{source})))}}"
            case Aggregated() as step:
                return self._aggregated(step)
            case Arithmetic() as step:
                return f"{{{self._arithmetic(step)}}}"
            case ValueVerdict(left, comparison, right, reading):
                condition = self._holds(reading, _operand(left), comparison, _operand(right))
                return f'{{"yes" if {condition} else "no"}}'
            case SetVerdict(how, left, right):
                yes = f"set(s{left}) & set(s{right})"
                if how == "is_in":
                    yes = f"s{left} and set(s{left}) <= set(s{right})"
                return f'{{"yes" if {yes} else "no"}}'
            case Tabled(source, _):
                return f"set(s{source})"
            case TimesOf(source, hop, others):
                inside = "" if others is None else f" if other in s{others}"
                return f"{{time for other, time in {self._dated(f's{source}', hop)}{inside}}}"
            case ByTime() as step:
                return self._by_time(number, step)

    def _filtered(self, step: Filtered) -> str:
        values = self._values(step.value, "name")
        comparison = "=" if step.comparison == "!=" else step.comparison
        if isinstance(step.bounds, tuple):
            bounds = ", ".join(bound if step.reading.form in (NUMBER, MADE) else repr(bound) for bound in step.bounds)
            bounds = f"({bounds},)"
        else:
            bounds = f"s{step.bounds}" if isinstance(step.bounds, int) else self._values(step.bounds, "name")
        plain = isinstance(step.bounds, tuple) and step.reading.form in (NUMBER, MADE)
        holds = self._holds(step.reading, "value", comparison, "bound", plain=plain)
        found = f"any({holds} for value in {values} for bound in {bounds})"
        if step.comparison == "!=":
            found = f"{values} and not {found}"
        return f"{{name for name in s{step.source} if {found}}}"

    def _best(self, source: int, value: MemberValue, reading: ValueReading, largest: bool) -> str:
        self._use("best")
        values = f"{{name: {self._values(value, 'name')} for name in s{source}}}"
        return f"best({values}, {self._order(reading)}, {'max' if largest else 'min'})"

    def _aggregated(self, step: Aggregated) -> str:
        every = self._all_values(step.value.path, "name") if step.value.how == "" else self._values(step.value, "name")
        values, key = f"[value for name in s{step.source} for value in {every}]", self._key(step.reading)
        if step.how in EXTREMES:
            best = f"{'min' if step.how == 'least' else 'max'}({values}, key={self._order(step.reading)})"
            return f"{{{self._as_text(best, step.value)}}}"
        unit = _template(step.reading.unit or step.value.unit)
        total = f"sum(map({key}, {values}))"
        if step.how == "average":
            total += f" / len({values})"
        return f"{{{self._use('written')}({total}{unit})}}"

    def _arithmetic(self, step: Arithmetic) -> str:
        left, right = _operand(step.left), _operand(step.right)
        if step.by == "years":
            return f"str(int({left}[:4]) - int({right}[:4]))"
        if step.by == "days":
            apart = f"(date.fromisoformat({left}) - date.fromisoformat({right})).days"
            self.lines.append(f"from datetime import date\n\ndays_apart = {apart}")
            return 'f"{days_apart} day" + "s" * (abs(days_apart) != 1)'
        key = self._key(step.reading)
        sign = "-" if step.how == "subtract" else "/"
        return f"{self._use('written')}({key}({left}) {sign} {key}({right}){_template(step.unit)})"

    def _by_time(self, number: int, step: ByTime) -> str:
        self._use("days")
        facts = self._dated(f"s{step.source}", step.hop)
        self.lines.append(f"t{number} = [(other, days(time)[0]) for other, time in {facts}]")
        best = f"{'min' if step.how == 'earliest' else 'max'}(first for _, first in t{number})"
        condition = {"before": f"first < {step.limit!r}", "after": f"first > {step.limit!r}"}.get(
            step.how, f"first == {best}"
        )
        return f"{{other for other, first in t{number} if {condition}}}"

    # Paths and values

    def _path(self, names: str, path: Path, window: Window | None = None) -> str:
        """An expression for the ends of a path from a set."""
        ways = []
        for way in path:
            here = names
            for hop in way:
                here = self._hop(here, hop, window)
            ways.append(here)
        return ways[0] if len(ways) == 1 else f"({' | '.join(ways)})"

    def _hop(self, names: str, hop: Hop, window: Window | None) -> str:
        if hop.again:
            once = Hop(hop.relation, hop.out, False, hop.at, hop.path)
            return f"{self._use('again')}({names}, lambda edge: {self._hop('edge', once, window)})"
        if hop.path:
            return self._path(names, hop.path, window)
        if hop.at or window is not None:
            return f"{{other for other, _ in {self._dated(names, hop, window)}}}"
        return f"{self._use('follow' if hop.out else 'back')}({names}, {hop.relation!r})"

    def _dated(self, names: str, hop: Hop, window: Window | None = None) -> str:
        held = hop.at.split("..") if hop.at else [window.first, window.last] if window is not None else []
        arguments = "".join(f", {one!r}" for one in held)
        return f"{self._use('dated')}({names}, {hop.relation!r}, {hop.out}{arguments})"

    def _values(self, value: MemberValue, name: str) -> str:
        """An expression for the values of a member: texts, or numbers."""
        one = f"{{{name}}}"
        if value.how in TIMES:
            part = "time.partition('..')[0]" if value.how == "start" else "time.rpartition('..')[2]"
            inside = "" if value.among is None else f" and (other in s{value.among}) is {not value.outside}"
            ways = [f"{{{part} for other, time in {self._dated(one, way[0])} if {part}{inside}}}" for way in value.path]
            return ways[0] if len(ways) == 1 else f"({' | '.join(ways)})"
        if value.how == "":
            return self._path(one, value.path)
        if value.how == COUNTED:
            found = self._path(one, value.path)
            if value.among is not None:
                found += f" {'-' if value.outside else '&'} set(s{value.among})"
            return f"[len({found})]"
        assert value.inner is not None
        every, key = self._all_values(value.path, name), self._key(value.inner)
        if value.how in EXTREMES:
            best = f"{'min' if value.how == 'least' else 'max'}(every, key={self._order(value.inner)})"
        else:
            total = f"sum(map({key}, every))" + " / len(every)" * (value.how == "average")
            best = f'float(f"{{{total}:.12g}}")'
        return f"[{best} for every in [{every}] if every]"

    def _all_values(self, path: Path, name: str) -> str:
        """A value once for each node before the last hop that has it."""
        ways = []
        for way in path:
            before = self._path(f"{{{name}}}", (way[:-1],)) if way[:-1] else f"{{{name}}}"
            ways.append(f"[end for node in {before} for end in {self._path('{node}', (way[-1:],))}]")
        return ways[0] if len(ways) == 1 else f"({' + '.join(ways)})"

    def _texts(self, value: MemberValue, name: str) -> str:
        found = self._values(value, name)
        return f"[{self._as_text('one', value)} for one in {found}]" if value.is_number else found

    def _as_text(self, found: str, value: MemberValue) -> str:
        return f"{self._use('written')}({found}{_template(value.unit)})" if value.is_number else found

    def _holds(self, reading: ValueReading, left: str, comparison: str, right: str, *, plain: bool = False) -> str:
        sign = {"=": "=="}.get(comparison, comparison)
        key = self._key(reading)
        if reading.form == DATE:
            first, since = f"{key}({left})[0]", f"{key}({right})[0]"
            if comparison in ("=", "!="):
                inside = f"({since} <= {first} and {key}({left})[1] <= {key}({right})[1])"
                return inside if comparison == "=" else f"not {inside}"
            return f"{first} {sign} {key}({right})[1]" if comparison in (">", "<=") else f"{first} {sign} {since}"
        read = ValueReading(NUMBER, reading.unit) if reading.form == MADE else reading
        bound = right if plain else f"{self._key(read)}({right})"
        if reading.others:
            return f"{key}({left}) is not None and {key}({left}) {sign} {bound}"
        return f"{key}({left}) {sign} {bound}"


def _operand(operand: int | str) -> str:
    return repr(operand) if isinstance(operand, str) else f"[*s{operand}][0]"


def _template(unit: str) -> str:
    """How a number with a unit is written, as an argument."""
    if not unit:
        return ""
    text = f"{unit}{{}}" if unit in "$€£¥₹" else f"{{}}{unit}" if unit in "%°‰" else f"{{}} {unit}"
    return f", {text!r}"


def _definition(name: str, reading: ValueReading) -> str:
    """The function of a reading."""
    lines = [f"def {name}(text):"]
    if reading.commas:
        lines.append('    text = text.replace(",", "")')
    if reading.unit:
        lines.append(f'    text = text.replace({reading.unit!r}, "").strip(" ")')
    if reading.others:
        lines.append(f"    if text.strip({reading.characters!r}):\n        return None")
    if reading.form == DATE:
        lines.append('    """The first and the last day of a date; months are given 31, which sorts the same."""')
        lines.append("    day = text.partition('..')[0][:10]")
        lines.append('    return f"{day}-01-01"[:10], {4: f"{day}-12-31", 7: f"{day}-31"}.get(len(day), day)')
    else:
        lines.append("    return float(text)" if reading.form == NUMBER else "    return text")
    return "\n".join(lines) + "\n"
