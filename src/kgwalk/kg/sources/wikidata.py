"""Wikidata's JSON: the dump, a list with an entity on each line, and what Special:EntityData gives for one entity.

An item is a thing with its id (Q42) as its key, shown by its label in the language that is asked for; a property (P31)
is a relation, shown by its own label if the file has it. A statement is a fact, with the time that its qualifiers say
(start time, end time, point in time). As the query service's `wdt:`, only the best rank of a property is read, unless
`Options.ranks` is "all": preferred statements where there are any, else normal ones; deprecated ones never.

Values are texts: 1.83 m, 1952-03-11, 1952-03, 1801..1900 for a century, 48.8567, 2.3508. Units have their symbols where
they have one that needs no translation, else the label of the unit's item where the file has it, else its id.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from kgwalk.kg.sources.source import (
    FALLBACK_RANK,
    GIVEN_RANK,
    Block,
    FactBuffer,
    Source,
    TimeCheck,
    line_blocks,
    not_utf8,
    open_stream,
    shown,
)
from kgwalk.kg.times import AT, END, START, date_text, statement_time

_ENTITY_IRI = "http://www.wikidata.org/entity/"
_ID = re.compile(r"[QPLM]\d+(-[FS]\d+)?")
_BEGINS = re.compile(r'\s*\[?\s*(\{\s*"entities"\s*:\s*)?\{')
_TYPED = re.compile(r'"type"\s*:\s*"(item|property|lexeme)"')
_LABELLED = re.compile(r'"(labels|lemmas)"\s*:\s*[\[{]')
_NAMED = re.compile(r'"id"\s*:\s*"[QPL]\d+"')
_SIMILAR_RANK, _FOREIGN_RANK, _ALIAS_RANK = 1, 2, 3
_MOST_UNITS = 100_000  # labels of units, and values that wait for one, that are held
# An item that has one of these is a unit: symbol, conversion to SI, conversion to a standard, UCUM code, ISO 4217 code
_OF_UNITS = frozenset(("P5061", "P2370", "P2442", "P7825", "P498"))
_SYMBOLS = {
    "Q11573": "m",
    "Q828224": "km",
    "Q174728": "cm",
    "Q174789": "mm",
    "Q25343": "m²",
    "Q712226": "km²",
    "Q35852": "ha",
    "Q11570": "kg",
    "Q41803": "g",
    "Q11574": "s",
    "Q25267": "°C",
    "Q11579": "K",
    "Q182429": "m/s",
    "Q180154": "km/h",
    "Q11229": "%",
    "Q28390": "°",
    "Q25236": "W",
    "Q4917": "USD",
    "Q4916": "EUR",
    "Q25224": "GBP",
}
_JOINED = "%°"  # written without a space before them
_KINDS = {"external-id": "external ids", "deprecated": "deprecated statements", "novalue": "statements of no value"}
_KINDS |= {"somevalue": "statements of an unknown value", "lexeme": "lexemes", "missing": "entities that are missing"}
_KINDS |= {
    "rank": "statements beside preferred ones",
    "date": "dates that cannot be read",
    "type": "values of other types",
}


def is_beginning(text: str) -> bool:
    """Whether a file begins as Wikidata's do: a list, an object or a line of entities.

    >>> is_beginning('[\\n{"type":"item","id":"Q31","labels":{'), is_beginning('[{"type": "item", "id": 7}]')
    (True, False)
    """
    return bool(_BEGINS.match(text)) and all(form.search(text) for form in (_TYPED, _NAMED, _LABELLED))


def read_wikidata(source: Source) -> Iterator[Block]:
    """Entities one a line, whatever the size of the file; or one JSON document, held whole."""
    reader = _Reader(source)
    with open_stream(source) as stream:
        blocks = line_blocks(source, stream)
        for lines in blocks:
            rest = lines.data
            for number, raw in enumerate(lines.data.split(b"\n"), lines.first):
                text = raw.strip().rstrip(b",")
                if text == b"{":  # printed over several lines: one document, or a list of such
                    _read_document(source, reader, b"[" if reader.in_list else b"", rest, blocks)
                    break
                rest = rest[len(raw) + 1 :]
                reader.line(text, number, raw)
                if reader.facts.is_full:
                    yield from reader.facts.blocks()
    reader.end()
    yield from reader.facts.blocks()


def _read_document(source: Source, reader: _Reader, before: bytes, data: bytes, blocks: Iterator[Any]) -> None:
    limit = source.options.longest_line
    for lines in blocks:
        data += lines.data
        if len(data) > limit:
            raise source.error(
                f"a JSON document of more than {limit:,} bytes that is printed over several lines",
                hint="write an entity on each line, as the dump does: `jq -c '.[]'` or `jq -c '.entities[]'` does it",
            )
    try:
        reader.tell_all(orjson.loads(before + data), None, b"")
    except orjson.JSONDecodeError as error:
        raise source.error(f"not JSON: {error.msg}", line=error.lineno) from None


class _Statement(NamedTuple):
    property: str
    target: str  # a key, or the text of a value
    is_thing: bool
    time: str


class _Malformed(Exception):
    """An entity that is not as Wikidata writes them; what is wrong, in words."""


class _Reader:
    """Entities as facts, in a buffer, with a count of what is left out."""

    def __init__(self, source: Source) -> None:
        self.facts = FactBuffer(source)
        self.in_list = False
        self._source, self._lang = source, source.options.lang.lower()
        self._best = source.options.ranks == "best"
        self._with_ids = source.options.external_ids
        self._times = TimeCheck()
        self._left_out: Counter[str] = Counter()
        self._unit_labels: dict[str, str] = {}
        self._waiting: dict[tuple[str, str], None] = {}  # amounts with a unit whose label is not known yet

    def line(self, text: bytes, number: int, raw: bytes) -> None:
        """A line of the file: an entity, or a bracket of the list around them."""
        if not self.in_list and text.startswith(b"[") and not text.endswith(b"]"):
            self.in_list, text = True, text[1:].strip()
        if not text or text == b"]":
            return
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            if text.endswith(b"]") and self.in_list:  # the last entity of a list, on one line with its end
                self.line(text[:-1].strip(), number, raw)
                return
            try:
                raw.decode("utf-8")
            except UnicodeDecodeError as why:
                self._source.refuse(not_utf8(why), line=number, text=shown(raw[:200]))
            else:
                problem = f"not JSON: {error.msg} (column {error.colno}); expected one entity a line"
                self._source.refuse(problem, line=number, text=shown(raw[:200]))
            return
        self.tell_all(value, number, raw)

    def tell_all(self, value: Any, number: int | None, raw: bytes) -> None:
        """An entity, a list of entities, or an object with `entities`."""
        if isinstance(value, dict) and isinstance(value.get("entities"), dict | list):
            found = value["entities"]
            value = list(found.values()) if isinstance(found, dict) else found
        for entity in value if isinstance(value, list) else [value]:
            try:
                self._tell(entity)
            except _Malformed as error:
                self._source.refuse(str(error), line=number, text=shown(raw[:200]) or None)

    def _tell(self, entity: Any) -> None:
        id = entity.get("id") if isinstance(entity, dict) else None
        if not isinstance(id, str) or not _ID.fullmatch(id):
            raise _Malformed('expected an entity of Wikidata, with an "id" such as Q42')
        if "missing" in entity or entity.get("type") == "lexeme":
            self._left_out["missing" if "missing" in entity else "lexeme"] += 1
            return
        try:
            statements = list(self._statements(entity.get("claims") or entity.get("statements") or {}))
            names = list(_names(entity.get("labels") or {}, entity.get("aliases") or {}, self._lang))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _Malformed(f"{id} is not as Wikidata writes an entity: {type(error).__name__} {error}") from None
        for label, rank in names:
            self.facts.name(id, label, rank)
        if names and (id in self._unit_labels or _OF_UNITS & (entity.get("claims") or {}).keys()):
            self._learn_unit(id, names[0][0])
        for property, target, is_thing, time in statements:
            if is_thing:
                self.facts.fact(id, property, target, time)
            else:
                self.facts.value(id, property, target, time)

    def end(self) -> None:
        """Name the values that waited for their units, and say what was left out."""
        for amount, unit in self._waiting:
            if label := self._unit_labels.get(unit):
                self.facts.name(_unit_key(amount, unit), f"{amount} {label}")
        if self._left_out:
            listed = ", ".join(f"{count:,} {_KINDS[kind]}" for kind, count in sorted(self._left_out.items()))
            self._source.note(f"left out: {listed}")

    def _statements(self, claims: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[_Statement]:
        for property, statements in (claims or {}).items():
            for statement in self._ranked(statements):
                snak = statement["mainsnak"]
                if snak["snaktype"] != "value":
                    self._left_out[snak["snaktype"]] += 1
                elif snak.get("datatype") == "external-id" and not self._with_ids:
                    self._left_out["external-id"] += 1
                else:
                    target, is_thing = self._target(snak["datavalue"])
                    if target:
                        yield _Statement(property, target, is_thing, self._time(statement.get("qualifiers") or {}))

    def _ranked(self, statements: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        ranks = [statement.get("rank", "normal") for statement in statements]
        self._left_out["deprecated"] += ranks.count("deprecated")
        wanted = ("preferred",) if self._best and "preferred" in ranks else ("preferred", "normal")
        kept = [statement for statement, rank in zip(statements, ranks, strict=True) if rank in wanted]
        self._left_out["rank"] += len(statements) - len(kept) - ranks.count("deprecated")
        self._left_out += Counter()  # without kinds of none
        return kept

    def _target(self, given: Mapping[str, Any]) -> tuple[str, bool]:
        """What a statement says: a key of a thing (True), or the text of a value."""
        kind, value = given["type"], given["value"]
        if kind == "wikibase-entityid":
            letter = {"item": "Q", "property": "P", "lexeme": "L"}.get(value.get("entity-type", ""), "Q")
            return value.get("id") or f"{letter}{value['numeric-id']}", True
        if kind == "string":
            return value, False
        if kind == "monolingualtext":
            return value["text"], False
        if kind == "time":
            return date_text(value["time"], value["precision"]), False
        if kind == "quantity":
            return self._quantity(value["amount"], value.get("unit", "1"))
        if kind == "globecoordinate":
            return coordinates(value["latitude"], value["longitude"], value.get("precision")), False
        self._left_out["type"] += 1
        return "", False

    def _quantity(self, amount: str, unit: str) -> tuple[str, bool]:
        """A value with its unit. One whose unit has to be named by a label has a key of its own, as a typed literal."""
        number, id = amount.removeprefix("+"), unit.rpartition("/")[2]
        if unit == "1":
            return number, False
        if id in _SYMBOLS:
            return f"{number}{_SYMBOLS[id]}" if _SYMBOLS[id] in _JOINED else f"{number} {_SYMBOLS[id]}", False
        label = self._unit_labels.get(id, "")
        self.facts.name(_unit_key(number, id), f"{number} {label or id}", GIVEN_RANK if label else FALLBACK_RANK)
        if not label and len(self._waiting) < _MOST_UNITS:
            self._waiting[number, id] = None
            self._unit_labels.setdefault(id, "")  # wanted, should its item come later
        return _unit_key(number, id), True

    def _learn_unit(self, id: str, label: str) -> None:
        if id in self._unit_labels or len(self._unit_labels) < _MOST_UNITS:
            self._unit_labels[id] = label

    def _time(self, qualifiers: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
        """When a statement holds, as a time of the store; "" where it does not say or cannot be read."""
        since, until, at = (self._qualified(qualifiers.get(name, ())) for name in (START, END, AT))
        text = statement_time(since, until, at)
        if text and self._times.problem(text):
            self._left_out["date"] += 1
            return ""
        return text

    @staticmethod
    def _qualified(snaks: Sequence[Mapping[str, Any]]) -> str:
        values = [snak["datavalue"]["value"] for snak in snaks if snak["snaktype"] == "value"]
        return date_text(values[0]["time"], values[0]["precision"]) if values else ""


def _names(labels: Mapping[str, Any], aliases: Mapping[str, Any], lang: str) -> Iterator[tuple[str, int]]:
    """The label of an entity with its rank, and the aliases in the language: other names of it."""
    base = lang.partition("-")[0]
    similar = [tag for tag in labels if tag.lower() != lang and tag.lower().partition("-")[0] == base]
    order = [(tag, GIVEN_RANK) for tag in labels if tag.lower() == lang]
    order += [(tag, _SIMILAR_RANK) for tag in (*sorted(similar, key=len), "mul")]
    order += [(tag, _FOREIGN_RANK) for tag in ("en", *labels)]
    found = next(((tag, rank) for tag, rank in order if tag in labels), None)
    if found is not None:
        yield labels[found[0]]["value"], found[1]
    for tag, several in aliases.items():
        if tag.lower() in (lang, "mul"):
            for alias in several:
                yield alias["value"], _ALIAS_RANK


def _unit_key(amount: str, unit: str) -> str:
    return f'"{amount}"^^<{_ENTITY_IRI}{unit}>'


def coordinates(latitude: float, longitude: float, precision: float | None) -> str:
    """Latitude and longitude, with as many figures as they are known to.

    >>> coordinates(48.856666666667, 2.3508333333333, 0.00027777777777778), coordinates(51.5, -0.125, None)
    ('48.8567, 2.3508', '51.5, -0.125')
    """
    figures = min(9, max(0, math.ceil(-math.log10(precision)))) if precision else 4
    return ", ".join(
        f"{round(value, figures):.{figures}f}".rstrip("0").rstrip(".") if figures else f"{value:.0f}"
        for value in (latitude, longitude)
    )
