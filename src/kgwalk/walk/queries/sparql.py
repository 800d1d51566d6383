"""A walk as SPARQL 1.1, over what `kgwalk kg export --format nt` (or nq, where facts have dates) writes of the graph.

    PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
    SELECT DISTINCT ?answer ?name WHERE {
      VALUES ?x1 { <urn:kgwalk:entity:France> }
      ?x1 <urn:kgwalk:relation:borders> ?answer .
      ?answer rdfs:label ?name .
    }

Each set is a pattern for one variable, written where it is used. Things are the terms of the export: the IRIs and
literals of the RDF that the graph was built from, else IRIs made of names (`kg.export`). What is worked out (a count,
yes) is a text, `?name` alone. A fact with a date stands in the graph of that date.
"""

from __future__ import annotations

import re
from textwrap import indent

from kgwalk.kg.export import ExportTerms
from kgwalk.kg.sources.rdf import TIME_GRAPH
from kgwalk.kg.sources.source import RDFS_LABEL
from kgwalk.kg.store import Store
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
    hops_of,
)
from kgwalk.walk.queries.program import QueryError
from kgwalk.walk.queries.readings import DATE, MADE, NUMBER, ValueReading

_NAME = "SPARQL"
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_SPECIAL = re.compile(r"[.^$*+?()\[\]{}|\\-]")


def write_sparql(plan: Plan, store: Store) -> str:
    """The query over the export of a store."""
    return _Writer(plan, ExportTerms(store)).written()


def literal(text: str) -> str:
    r"""
    >>> print(literal('say "hi"\n'))
    "say \"hi\"\n"
    """
    if "\0" in text:
        raise QueryError(f"no SPARQL: {text!r} has the character NUL, which SPARQL has no literal for")
    return '"' + "".join(_ESCAPES.get(one, one) for one in text) + '"'


def _group(body: str, before: str = "", after: str = "") -> str:
    return f"{before}{{\n{indent(body, '  ')}\n}}{after}"


class _Writer:
    def __init__(self, plan: Plan, terms: ExportTerms) -> None:
        self.plan, self.terms = plan, terms
        self.only_names = terms.store.entity_id is None  # then every term is an IRI with a label
        self.label = "rdfs:label" if terms.label == RDFS_LABEL else f"<{terms.label}>"
        self.dated, self.known = set[str](), set[str]()  # relations whose facts have dates; those that were looked at
        self.variables = 0
        self.set = 0  # the one that is being written

    def written(self) -> str:
        told = next((text for text in self.plan.read if self.terms.is_told_apart(text)), None)
        if told is not None:
            raise QueryError(f'no SPARQL: "{told}" is compared, which is told apart from others by more than its label')
        query = self._query()
        prefixes = "PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>\n" if "rdfs:" in query else ""
        prefixes += "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n" if "xsd:" in query else ""
        return f"{prefixes}{query}\n"

    def _query(self) -> str:
        number = self.plan.answer
        step = self.plan[number]
        if self.plan.makes_text(number):
            return _group(self._pattern(number, "?name"), "SELECT DISTINCT ?name WHERE ")
        if isinstance(step, RankedMembers):
            body = self._ranked(step, "?answer", "?value") + "\n" + self._text("?answer", "?name")
            return _group(body, "SELECT ?answer ?name WHERE ", f" ORDER BY {_order(step, '?value')}")
        if isinstance(step, Tabled):
            return self._table(step)
        body = self._pattern(number, "?answer") + "\n" + self._text("?answer", "?name")
        return _group(body, "SELECT DISTINCT ?answer ?name WHERE ")

    def _table(self, step: Tabled) -> str:
        lines = [self._pattern(step.source, "?answer"), self._text("?answer", "?name")]
        names = ["?answer", "?name"]
        for title, value in step.columns:
            plain = f"?{title}"
            # a variable called as the column, unless another is, or might be, called so
            free = re.fullmatch(r"\?(?!x\d)[A-Za-z]\w*", plain, re.ASCII) and plain not in names
            names.append(plain if free else self._new())
            found, text = self._values(step.source, value, "?answer", cell := self._new()), self._new()
            body = f"{found}\n{self._text(cell, text, value)}"
            shown = _written(text, value.unit) if value.is_number else text
            cells = f'(GROUP_CONCAT(DISTINCT {shown}; SEPARATOR="; ") AS {names[-1]})'
            lines.append(_group(_group(body, f"SELECT ?answer {cells} WHERE ", " GROUP BY ?answer"), "OPTIONAL "))
        return _group("\n".join(lines), f"SELECT DISTINCT {' '.join(names)} WHERE ")

    def _new(self) -> str:
        self.variables += 1
        return f"?x{self.variables}"

    # Sets: a pattern that binds a variable to each member, maybe more than once

    def _pattern(self, number: int, x: str) -> str:
        self.set = number
        match self.plan[number]:
            case Topic(name):
                return self._topic(name, x)
            case AllOfKind(kind):
                if kind.how == ALL:
                    return self._fact(x, self._new(), self._new())
                relation = self.terms.relation(kind.relation)
                self._is_dated(Hop(kind.relation))
                if kind.how == OF_TYPE:
                    value = self._new()
                    return f"{self._topic(kind.value, value)}\n{self._fact(x, relation, value)}"
                other = self._new()
                return self._fact(*((x, relation, other) if kind.how == HEADS else (other, relation, x)))
            case Followed(source, path, window):
                start = self._new()
                return f"{self._things(source, start)}\n{self._path(start, path, x, window)}"
            case Combined(how, left, right):
                return self._combined(how, left, right, x)
            case Quantified() as step:
                return self._quantified(step, x)
            case Filtered() as step:
                return self._filtered(step, x)
            case ExtremeMembers() as step:
                return self._extreme(step, x)
            case RankedMembers() as step:
                return self._ranked(step, x, self._new())
            case Place(source, n):
                ranked = self.plan[source]
                assert isinstance(ranked, RankedMembers)
                return self._ranked(ranked, x, self._new(), place=n)
            case Tabled(source, _):
                return self._pattern(source, x)
            case SetSize(source):
                member = self._new()
                body = self._pattern(source, member)
                return _group(_group(body, f"SELECT (STR(COUNT(DISTINCT {member})) AS {x}) WHERE "))
            case Aggregated() as step:
                return self._aggregated(step, x)
            case Arithmetic() as step:
                return self._arithmetic(step, x)
            case ValueVerdict(left, comparison, right, reading):
                (one, first), (two, second) = self._operand(left), self._operand(right)
                return f"{one}{two}BIND({_yes(holds(reading, first, comparison, second))} AS {x})"
            case SetVerdict(how, left, right):
                return self._verdict(how, left, right, x)
            case TimesOf(source, hop, others):
                start, end = self._new(), self._new()
                inside = "" if others is None else f"\n{self._things(others, end)}"
                return f"{self._things(source, start)}{inside}\n{self._dated(start, hop, end, x)}"
            case ByTime() as step:
                return self._by_time(step, x)

    def _things(self, number: int, x: str) -> str:
        """A set that must be of things of the graph, since facts are asked of them."""
        if self.plan.makes_text(number):
            why = "its set was worked out, which SPARQL has as a text, not as a thing of the graph"
            raise self.plan.refuse(self.set, why, _NAME)
        at, body = self.set, self._pattern(number, x)
        self.set = at
        return body

    def _topic(self, name: str, x: str) -> str:
        term = self.terms.entity(name)
        if not term.startswith("_:"):
            return f"VALUES {x} {{ {term} }}"
        if self.terms.is_told_apart(name):
            raise QueryError(f'no SPARQL: "{name}" is a blank node whose label others have, too')
        return f"{x} {self.label} {literal(name)} ."

    def _combined(self, how: str, left: int, right: int, x: str) -> str:
        if self.plan.makes_text(left) != self.plan.makes_text(right):
            raise self.plan.refuse(self.set, "one set was worked out, the other has things of the graph", _NAME)
        one, two = self._pattern(left, x), self._pattern(right, x)
        if how == "intersect":
            return f"{_group(one)}\n{_group(two)}"
        return f"{_group(one)} {'UNION' if how == 'union' else 'MINUS'} {_group(two)}"

    def _quantified(self, step: Quantified, x: str) -> str:
        members, end = self._things(step.source, x), self._new()
        if step.how == "none":
            led = f"{self._path(x, step.path, end)}\n{self._things(step.others, end)}"
            return f"{members}\n{_group(led, 'MINUS ')}"
        if step.how == "only":
            others = _group(self._things(step.others, end), "MINUS ")
            led = f"{self._path(x, step.path, end)}\n{others}"
            return f"{members}\n{self._path(x, step.path, self._new())}\n{_group(led, 'MINUS ')}"
        again = f"{self._things(step.source, x)}\n{self._things(step.others, end)}"
        lacks = f"{again}\n{_group(self._path(x, step.path, end), 'MINUS ')}"
        return f"{members}\n{_group(lacks, 'MINUS ')}"

    def _filtered(self, step: Filtered, x: str) -> str:
        value, text = self._new(), self._new()
        found = f"{self._values(step.source, step.value, x, value)}\n{self._text(value, text, step.value)}"
        comparison = "=" if step.comparison == "!=" else step.comparison
        if isinstance(step.bounds, tuple):
            number = step.reading.form in (NUMBER, MADE)
            alternatives = [
                holds(step.reading, text, comparison, bound if number else literal(bound), number)
                for bound in step.bounds
            ]
            found += f"\nFILTER({' || '.join(alternatives)})"
        elif isinstance(step.bounds, int):
            lines, bound = self._operand(step.bounds)
            found += f"\n{lines}FILTER({holds(step.reading, text, comparison, bound)})"
        else:
            other, bound = self._new(), self._new()
            found += f"\n{self._values(step.source, step.bounds, x, other)}\n{self._text(other, bound, step.bounds)}"
            found += f"\nFILTER({holds(step.reading, text, comparison, bound, step.reading.form == MADE)})"
        if step.comparison == "!=":
            return f"{self._values(step.source, step.value, x, self._new())}\n{_group(found, 'MINUS ')}"
        return found

    def _keyed(self, source: int, value: MemberValue, x: str, key_name: str, reading: ValueReading) -> str:
        """The members of a set with what their values are ordered by."""
        found, text = self._new(), self._new()
        lines = [self._values(source, value, x, found), self._text(found, text, value)]
        return "\n".join([*lines, _bound(reading, text, key_name)])

    def _extreme(self, step: ExtremeMembers, x: str) -> str:
        best, one, other = self._new(), self._new(), self._new()
        all_keys = self._keyed(step.source, step.value, self._new(), other, step.reading)
        select = f"SELECT ({'MAX' if step.largest else 'MIN'}({other}) AS {best}) WHERE "
        keys = self._keyed(step.source, step.value, x, one, step.reading)
        return f"{_group(_group(all_keys, select))}\n{keys}\nFILTER({one} = {best})"

    def _ranked(self, step: RankedMembers, x: str, best: str, place: int | None = None) -> str:
        one = self._new()
        keys = self._keyed(step.source, step.value, x, one, step.reading)
        select = f"SELECT {x} ({'MAX' if step.largest else 'MIN'}({one}) AS {best}) WHERE "
        limit = f" LIMIT {step.size}" if step.size is not None else ""
        if place is not None:
            limit = f" LIMIT 1 OFFSET {place - 1}"
        return _group(_group(keys, select, f" GROUP BY {x} ORDER BY {_order(step, best)}{limit}"))

    def _aggregated(self, step: Aggregated, x: str) -> str:
        member, value, text, one = (self._new() for _ in range(4))
        every = step.value.how == ""
        found = (self._all_values if every else self._values)(step.source, step.value, member, value)
        keys = f"{found}\n{self._text(value, text, step.value)}\n{_bound(step.reading, text, one)}"
        if step.how not in EXTREMES:
            total = f"{'SUM' if step.how == 'sum' else 'AVG'}({one})"
            text = _written(total, step.reading.unit or step.value.unit)
            return _group(_group(keys, f"SELECT ({text} AS {x}) WHERE "))
        best, other = self._new(), self._new()
        all_keys = self._keyed(step.source, step.value, self._new(), other, step.reading)
        select = f"SELECT ({'MIN' if step.how == 'least' else 'MAX'}({other}) AS {best}) WHERE "
        answer = _written(text, step.value.unit) if step.value.is_number else text
        return f"{_group(_group(all_keys, select))}\n{keys}\nFILTER({one} = {best})\nBIND({answer} AS {x})"

    def _arithmetic(self, step: Arithmetic, x: str) -> str:
        (one, first), (two, second) = self._operand(step.left), self._operand(step.right)
        if step.by == "years":
            apart = f"xsd:integer(SUBSTR({first}, 1, 4)) - xsd:integer(SUBSTR({second}, 1, 4))"
            return f"{one}{two}BIND(STR({apart}) AS {x})"
        if step.by == "days":
            days = self._new()
            words = f'IF(ABS({days}) = 1, " day", " days")'
            apart = f"{_day_number(first)} - ({_day_number(second)})"
            return f"{one}{two}BIND({apart} AS {days})\nBIND(CONCAT(STR(xsd:integer({days})), {words}) AS {x})"
        left, right = key(step.reading, first), key(step.reading, second)
        made = f"{left} {'-' if step.how == 'subtract' else '/'} {right}"
        return f"{one}{two}BIND({_written(made, step.unit)} AS {x})"

    def _verdict(self, how: str, left: int, right: int, x: str) -> str:
        if self.plan.makes_text(left) != self.plan.makes_text(right):
            raise self.plan.refuse(self.set, "one set was worked out, the other has things of the graph", _NAME)
        one, two = self._new(), self._new()
        if how == "overlap":
            both = f"{_group(self._pattern(left, one))}\n{_group(self._pattern(right, one))}"
            return f'BIND(IF({_group(both, "EXISTS ")}, "yes", "no") AS {x})'
        outside = f"{_group(self._pattern(left, two))} MINUS {_group(self._pattern(right, two))}"
        some = _group(self._pattern(left, one), "EXISTS ")
        return f'BIND(IF({some} && {_group(outside, "NOT EXISTS ")}, "yes", "no") AS {x})'

    def _operand(self, operand: int | str) -> tuple[str, str]:
        """Lines that bind a text, each with its newline, and the text."""
        if isinstance(operand, str):
            return "", literal(operand)
        member = self._new()
        lines = self._pattern(operand, member)
        if self.plan.makes_text(operand):
            return f"{lines}\n", member
        return f"{lines}\n{self._text(member, text := self._new())}\n", text

    # Facts and paths

    def _fact(self, head: str, relation: str, tail: str) -> str:
        """A fact, dated or not; any but a label, where the relation is a variable."""
        fact = f"{head} {relation} {tail} ."
        if relation.startswith("?"):
            fact += f" FILTER({relation} != {self.label})"
        if not self.plan.dated or (relation not in self.dated and not relation.startswith("?")):
            return fact
        return f"{{ {fact} }} UNION {{ GRAPH {self._new()} {{ {fact} }} }}"

    def _path(self, start: str, path: Path, end: str, window: Window | None = None) -> str:
        dated = window is not None or any(hop.at or self._is_dated(hop) for hop in hops_of(path))
        if not dated:
            return f"{start} {self._property_path(path)} {end} ."
        if any(hop.again for hop in hops_of(path)):
            why = "facts with dates stand in graphs by date, and a SPARQL path cannot go from one graph to another"
            raise self.plan.refuse(self.set, why, _NAME)
        ways = []
        for way in path:
            nodes = [start, *(self._new() for _ in way[1:]), end]
            lines = [self._hop(nodes[at], hop, nodes[at + 1], window) for at, hop in enumerate(way)]
            ways.append("\n".join(lines))
        return ways[0] if len(ways) == 1 else " UNION ".join(map(_group, ways))

    def _is_dated(self, hop: Hop) -> bool:
        """Whether the facts of a relation have dates; those of one without stand together in the default graph."""
        if hop.path or not self.plan.dated:
            return False
        term = self.terms.relation(hop.relation)
        if term not in self.known:
            self.known.add(term)
            if self.terms.is_dated(hop.relation):
                self.dated.add(term)
        return term in self.dated

    def _hop(self, start: str, hop: Hop, end: str, window: Window | None) -> str:
        if hop.path:
            return self._path(start, hop.path, end, window)
        if not hop.at and window is None:
            relation = self.terms.relation(hop.relation)
            self._is_dated(hop)
            return self._fact(*((start, relation, end) if hop.out else (end, relation, start)))
        return self._dated(start, hop, end, self._new(), window)

    def _dated(self, start: str, hop: Hop, end: str, time: str, window: Window | None = None, first: str = "") -> str:
        """A fact with its date, as a text, and where that is asked for the day on which it begins."""
        relation, graph = self.terms.relation(hop.relation), self._new()
        fact = f"{start} {relation} {end} ." if hop.out else f"{end} {relation} {start} ."
        lines = [f"GRAPH {graph} {{ {fact} }}", f"BIND(STRAFTER(STR({graph}), {literal(TIME_GRAPH)}) AS {time})"]
        held = hop.at.split("..") if hop.at else [window.first, window.last] if window is not None else []
        if held:
            begins, ends = f"{_since(time)} <= {literal(held[1])}", f"{_until(time)} >= {literal(held[0])}"
            lines.append(f"FILTER({begins} && {ends})")
        if first:
            lines.append(f"BIND({_since(time)} AS {first})")
        return "\n".join(lines)

    def _by_time(self, step: ByTime, x: str) -> str:
        def facts(end: str, first: str) -> str:
            start = self._new()
            return f"{self._things(step.source, start)}\n{self._dated(start, step.hop, end, self._new(), first=first)}"

        first = self._new()
        found = facts(x, first)
        if step.limit:
            return f"{found}\nFILTER({first} {'<' if step.how == 'before' else '>'} {literal(step.limit)})"
        best, other = self._new(), self._new()
        select = f"SELECT ({'MIN' if step.how == 'earliest' else 'MAX'}({other}) AS {best}) WHERE "
        return f"{_group(_group(facts(self._new(), other), select))}\n{found}\nFILTER({first} = {best})"

    def _property_path(self, path: Path) -> str:
        return "|".join("/".join(self._path_element(hop) for hop in way) for way in path)

    def _path_element(self, hop: Hop) -> str:
        if hop.path:
            return f"({self._property_path(hop.path)}){'+' * hop.again}"
        relation = f"{'^' * (not hop.out)}{self.terms.relation(hop.relation)}"
        return f"({relation})+" if hop.again and not hop.out else f"{relation}{'+' * hop.again}"

    # Values: a pattern that binds a member and a value of it, a term or, if it was worked out, a number or text

    def _values(self, source: int, value: MemberValue, x: str, found: str) -> str:
        if value.how in ("", *TIMES):
            return f"{self._things(source, x)}\n{self._ends(value, x, found)}"
        end = self._new()
        if value.how == COUNTED:
            led = self._ends(value, x, end)
            body = f"{self._things(source, x)}\n{_group(led, 'OPTIONAL ')}"
            return _group(_group(body, f"SELECT {x} (COUNT(DISTINCT {end}) AS {found}) WHERE ", f" GROUP BY {x}"))
        assert value.inner is not None
        text, one = self._new(), self._new()
        body = f"{self._all_values(source, value, x, end)}\n{self._text(end, text)}\n{_bound(value.inner, text, one)}"
        how = {"sum": "SUM", "average": "AVG", "least": "MIN", "greatest": "MAX"}[value.how]
        best = found if value.how not in EXTREMES else self._new()
        totals = _group(_group(body, f"SELECT {x} ({how}({one}) AS {best}) WHERE ", f" GROUP BY {x}"))
        if value.how not in EXTREMES:
            return totals
        text, one = self._new(), self._new()
        again = self._all_values(source, value, x, found)
        again = f"{again}\n{self._text(found, text)}\n{_bound(value.inner, text, one)}"
        return f"{totals}\n{again}\nFILTER({one} = {best})"

    def _ends(self, value: MemberValue, x: str, end: str) -> str:
        """What a value's path leads to from a member, of those that count; of a time, its text."""
        if value.how not in TIMES:
            return f"{self._path(x, value.path, end)}{self._among(end, value)}"
        ways = []
        for way in value.path:
            other, time = self._new(), self._new()
            part = f'STRBEFORE({time}, "..")' if value.how == "start" else f'STRAFTER({time}, "..")'
            text = f'BIND(IF(CONTAINS({time}, ".."), {part}, {time}) AS {end}) FILTER({end} != "")'
            ways.append(f"{self._dated(x, way[0], other, time)}{self._among(other, value)}\n{text}")
        return ways[0] if len(ways) == 1 else " UNION ".join(map(_group, ways))

    def _among(self, end: str, value: MemberValue) -> str:
        if value.among is None:
            return ""
        return "\n" + _group(self._things(value.among, end), "MINUS " if value.outside else "")

    def _all_values(self, source: int, value: MemberValue, x: str, end: str) -> str:
        """Every value once for each node before the last hop that has it."""
        ways, nodes, number = [], "", self._new() if len(value.path) > 1 else ""
        for at, way in enumerate(value.path):
            node = nodes = self._new()
            before = self._path(x, (way[:-1],), node) if way[:-1] else f"BIND({x} AS {node})"
            which = f"\nBIND({at} AS {number})" if number else ""
            ways.append((f"{self._things(source, x)}\n{before}\n{self._path(node, (way[-1:],), end)}{which}", node))
        body = ways[0][0]
        if len(ways) > 1:
            nodes = self._new()
            body = " UNION ".join(_group(f"{lines}\nBIND({node} AS {nodes})") for lines, node in ways)
        select = f"SELECT DISTINCT {' '.join(filter(None, [x, nodes, end, number]))} WHERE "
        return _group(_group(body, select))

    def _text(self, x: str, text: str, value: MemberValue | None = None) -> str:
        """The text of a term: its label, of a literal what it says; of what was worked out, itself."""
        if value is not None and (value.is_number or value.how in TIMES):
            return f"BIND({x} AS {text})"
        if self.only_names:
            return f"{x} {self.label} {text} ."
        label = self._new()
        return f"OPTIONAL {{ {x} {self.label} {label} }} BIND(COALESCE({label}, STR({x})) AS {text})"


def _order(step: RankedMembers, x: str) -> str:
    return f"DESC({x})" if step.largest else x


def _yes(condition: str) -> str:
    return f'IF({condition}, "yes", "no")'


def key(reading: ValueReading, text: str) -> str:
    """What a value is ordered by: a number, or a text that sorts as the value does.

    >>> key(ValueReading(NUMBER, unit="$", commas=True), "?t")
    'xsd:decimal(REPLACE(REPLACE(REPLACE(?t, ",", ""), "\\\\\\\\$", ""), "^ +| +$", ""))'
    """
    if reading.form == DATE:
        return f'SUBSTR(CONCAT({_begin(reading, text)}, "-01-01"), 1, 10)'
    if reading.form != NUMBER:
        return text
    plain = f'REPLACE({text}, ",", "")' if reading.commas else text
    if reading.unit:
        pattern = _SPECIAL.sub(lambda found: f"\\{found[0]}", reading.unit)
        plain = f'REPLACE(REPLACE({plain}, {literal(pattern)}, ""), "^ +| +$", "")'
    return f"xsd:{'double' if reading.exponents or reading.large else 'decimal'}({plain})"


def _bound(reading: ValueReading, text: str, x: str) -> str:
    """A line that binds what a value is ordered by, and leaves out what is none."""
    line = f"BIND({key(reading, text)} AS {x})"
    if not reading.others:
        return line
    if reading.form == NUMBER:
        return f"{line} FILTER(BOUND({x}))"
    allowed = "".join(_SPECIAL.sub(lambda found: f"\\{found[0]}", one) for one in reading.characters)
    return f"FILTER(REGEX({text}, {literal(f'^[{allowed}]+$')})) {line}"


def _begin(reading: ValueReading, text: str) -> str:
    if not reading.spans:
        return f"SUBSTR({text}, 1, 10)"
    return f'IF(CONTAINS({text}, ".."), STRBEFORE({text}, ".."), SUBSTR({text}, 1, 10))'


def _last(begin: str) -> str:
    month = f'IF(STRLEN({begin}) = 7, CONCAT({begin}, "-31"), {begin})'
    return f'IF(STRLEN({begin}) = 4, CONCAT({begin}, "-12-31"), {month})'


def _since(time: str) -> str:
    return f'SUBSTR(CONCAT(IF(CONTAINS({time}, ".."), STRBEFORE({time}, ".."), {time}), "-01-01"), 1, 10)'


def _until(time: str) -> str:
    end = f'IF(CONTAINS({time}, ".."), STRAFTER({time}, ".."), {time})'
    return f'IF({end} = "", "9999-99-99", {_last(end)})'


def holds(reading: ValueReading, left: str, comparison: str, right: str, plain: bool = False) -> str:
    """A condition; `plain`: the right side is a number already."""
    if reading.form != DATE:
        read = ValueReading(NUMBER, unit=reading.unit) if reading.form == MADE else reading
        return f"{key(reading, left)} {comparison} {right if plain else key(read, right)}"
    first, since = key(reading, left), key(reading, right)
    until = _last(_begin(reading, right))
    if comparison in ("=", "!="):
        inside = f"({since} <= {first} && {_last(_begin(reading, left))} <= {until})"
        return inside if comparison == "=" else f"!{inside}"
    return f"{first} {comparison} {until if comparison in ('>', '<=') else since}"


def _written(number: str, unit: str) -> str:
    """A number as a text with its unit."""
    if not unit:
        return f"STR({number})"
    if unit in "$€£¥₹":
        return f"CONCAT({literal(unit)}, STR({number}))"
    return f"CONCAT(STR({number}), {literal(unit if unit in '%°‰' else f' {unit}')})"


def _day_number(text: str) -> str:
    """Days of the Gregorian calendar; a year begins in March."""
    year, month, day = (f"xsd:integer(SUBSTR({text}, {at}, {size}))" for at, size in ((1, 4), (6, 2), (9, 2)))
    since = f"({year} - IF({month} <= 2, 1, 0))"
    since_march = f"IF({month} <= 2, {month} + 9, {month} - 3)"
    whole = f"FLOOR({since} / 4) - FLOOR({since} / 100) + FLOOR({since} / 400)"
    return f"365 * {since} + {whole} + FLOOR((153 * {since_march} + 2) / 5) + {day}"
