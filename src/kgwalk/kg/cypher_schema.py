"""What a property graph holds, and how it is read as facts: its labels, its properties, what names its nodes.

    schema = CypherSchema(engine, names=["Person.fullName"])
    schema.naming["Person"], schema.relations()         "fullName", ["ACTED_IN", "born", "is_a", ...]

A node is an entity. Its labels are its kinds, (node, `is_a`, label); its properties are facts with values, but for the
one that names it; a relationship is a fact whose relation is its type. Of the properties of a relationship only dates
are read: they are when the fact held.

The schema is read off a sample, since databases keep none or keep it each in its own way. A `CypherEngine` is what runs
the queries. Text of a query is only what stands here and in `cypher`, and names of the schema in backticks (`quoted`);
all else are parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import Any, Protocol

from kgwalk.kg.names import value_text
from kgwalk.kg.sources.table_keys import HALF, ID_WORDS, LABELS, MOSTLY, column_words, says_when
from kgwalk.kg.sources.tables import IS_A
from kgwalk.kg.times import parse_time
from kgwalk.types import InputError

Row = Sequence[Any]
SAMPLED = 2000  # nodes of a label, and relationships of a type, that are looked at
SHOWN = 20  # values of a property among them
MOST_ITEMS = 100  # of a list that is told value by value: a longer one is a vector, or data of a program
LONGEST_NAME = 80  # characters of a text that may name nodes where no property is called name, title or the like


class CypherEngine(Protocol):
    """A database that answers Cypher. All that the databases differ in is here."""

    shown: str  # for messages; without a password
    strict: bool  # a property may stand in a query only with a label that has it
    asked: int  # queries that were sent

    def rows(self, query: str, **parameters: Any) -> list[Row]:
        """The rows of a query that only reads."""
        ...

    def stream(self, query: str, **parameters: Any) -> Iterator[Row]:
        """The same row by row, however many they are."""
        ...

    def union(self, parts: Sequence[str], **parameters: Any) -> list[Row]:
        """The rows of all these queries, none of none; in one query where the database can."""
        ...

    def sample(self, names: Sequence[str], *, nodes: bool) -> Iterator[tuple[str, str, int, int, list[Any]]]:
        """Of labels or types the properties in a sample: how many have it, how many values there are, some of these."""
        ...

    def node_id(self, variable: str) -> str:
        """The expression for what tells a node from all others: a text, or a number."""
        ...

    def labels_of(self, variable: str) -> str:
        """The expression for a list of a node's labels."""
        ...

    def type_of(self, variable: str) -> str:
        """The expression for a relationship's type."""
        ...

    def filled(self, variable: str, properties: Iterable[str]) -> str:
        """The expression for a list of the properties that a node has; others than these may be in it, and null."""
        ...

    def lower(self, expression: str) -> str:
        """The expression for a value as text in small letters."""
        ...

    def ids(self, texts: Iterable[str]) -> list[Any]:
        """The ids that these texts say; a text that says none is left out."""
        ...

    def labels(self) -> list[str]: ...

    def types(self) -> list[str]:
        """The types of relationships."""
        ...

    def close(self) -> None: ...


def quoted(name: str) -> str | None:
    r"""A label, type or property as Cypher writes it; None where no database is sure to read it as this name.

    Neo4j before 5 replaces \u0060 by a backtick before it parses, so a name with \u could end the quotes.

    >>> quoted("ACTED_IN"), quoted("odd `name"), quoted("\\u0060]-() DELETE n")
    ('`ACTED_IN`', '`odd ``name`', None)
    """
    return None if not name or "\0" in name or "\\u" in name else f"`{name.replace('`', '``')}`"


@dataclass(slots=True)
class Property:
    """What the values of a property are like: the sorts that were seen, and whether lists of them were."""

    sorts: set[str] = field(default_factory=set)
    many: bool = False
    dates: bool = True  # all that were seen are dates

    def see(self, value: object) -> None:
        self.dates &= bool(date_text(value))
        if isinstance(value, list | tuple):
            self.many |= bool(texts(value))
            value = next(iter(value), None) if texts(value) else None
        if texts(value) and (sort := sort_of(value)) is not None:
            self.sorts.add(sort)


def sort_of(value: object) -> str | None:
    """The sort of a value; None of what has no text: nothing, bytes, maps, points."""
    if isinstance(value, bool):
        return "flag"
    sorts = ((str, "text"), (int | float, "number"), (datetime, "moment"), (date, "day"), (time, "time"))
    return next((name for kind, name in sorts if isinstance(value, kind)), None)


def texts(value: object) -> list[str]:
    """A property's value as the values of its facts: one, those of a list, or none.

    >>> texts(1995), texts(["x", "y", "x"]), texts([0.1] * 384), texts({"a": 1})
    (['1995'], ['x', 'y'], [], [])
    """
    if isinstance(value, list | tuple):
        if len(value) > MOST_ITEMS or any(isinstance(one, list | tuple) for one in value):
            return []
        return list(dict.fromkeys(text for one in value for text in texts(one)))
    text = "" if sort_of(value) is None else value_text(value)
    return [text] if text and not text.isspace() and _is_utf8(text) else []


def readings(text: str, sorts: Iterable[str]) -> list[Any]:
    """The values of these sorts that a text may stand for.

    >>> readings("1995", ["number", "text"]), readings("1995-06-30", ["day"]), readings("true", ["flag"])
    (['1995', 1995], [datetime.date(1995, 6, 30)], [True])
    """
    found: list[Any] = [text] if "text" in sorts else []
    if "number" in sorts and re.fullmatch(r"[+-]?\d{1,18}", text):
        found.append(int(text))
    elif "number" in sorts and re.fullmatch(r"[+-]?(\d+\.\d*|\d{19,})(e[+-]?\d+)?|[+-]?\d+e[+-]?\d+", text):
        found.append(float(text))
    if "flag" in sorts and text in ("true", "false"):
        found.append(text == "true")
    for sort, read in (("day", date.fromisoformat), ("time", time.fromisoformat)):
        if sort in sorts:
            found += _read(read, text)
    if "moment" in sorts:
        moments = _read(datetime.fromisoformat, text)
        found += [*moments, *_read(datetime.fromisoformat, f"{text}T00:00+00:00")]
    return found


def _read(read: Any, text: str) -> list[Any]:
    try:
        return [read(text)]
    except ValueError:
        return []


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate cannot be sent
        return False
    return True


def sendable(text: str) -> bool:
    """Whether a text can be a parameter at all."""
    return bool(text) and "\0" not in text and _is_utf8(text)


@dataclass(slots=True)
class Dates:
    """The properties of a type of relationships that say when: at a time, or from one to one."""

    at: str = ""
    first: str = ""
    last: str = ""

    def names(self) -> list[str]:
        return [name for name in (self.at, self.first, self.last) if name]

    def text(self, values: Sequence[object]) -> str:
        """The time of a fact, from the values of `names`; "" where it has none.

        >>> Dates(first="since", last="until").text([1990, None]), Dates(at="year").text([1995])
        ('1990..', '1995')
        """
        said = dict(zip(self.names(), (date_text(value) for value in values), strict=True))
        first, last = said.get(self.first, ""), said.get(self.last, "")
        span = f"{first}..{last}" if first or last else said.get(self.at, "")
        try:
            parse_time(span)
        except ValueError:
            return ""
        return span


def date_text(value: object) -> str:
    """A date as facts have it; "" for what is none, such as milliseconds."""
    if isinstance(value, datetime | date):
        return value.isoformat()[:10]
    text = value_text(value) if sort_of(value) in ("text", "number") else ""
    try:
        parse_time(text)
    except ValueError:
        return ""
    return text if not text.isdigit() or len(text) <= 4 else ""


class CypherSchema:
    """Labels with their properties, types with their dates, and what names nodes.

    names: the properties that name nodes, where another was found: `fullName` of all labels, `Person.fullName` of one.
    """

    def __init__(self, engine: CypherEngine, names: Sequence[str] = ()) -> None:
        self._engine = engine
        self.labels: dict[str, dict[str, Property]] = {}
        self.naming: dict[str, str] = {}  # by label: the property that names its nodes
        self.keys: dict[str, str] = {}  # by label: another one that tells them apart
        self.types: dict[str, Dates] = {}
        self.nodes = int(engine.rows("MATCH (n) RETURN count(n)")[0][0])
        labels = [name for name in engine.labels() if quoted(name)]
        for label, seen in self._sample(labels, nodes=True).items():
            self.labels[label] = {name: one for name, _, _, one in seen}
            self._find_naming(label, seen)
        self._choose_naming(names)
        for type_, seen in self._sample([name for name in engine.types() if quoted(name)], nodes=False).items():
            self.types[type_] = _dates(seen)
        taken = {name for properties in self.labels.values() for name in properties} | set(self.types)
        self.is_a = next((name for name in IS_A if name not in taken), IS_A[0])

    def _sample(self, names: Sequence[str], *, nodes: bool) -> dict[str, list[tuple[str, int, int, Property]]]:
        """Of each label or type its properties: how often they are there, how many values, and what these are like."""
        found: dict[str, list[tuple[str, int, int, Property]]] = {name: [] for name in names}
        for name, key, count, distinct, values in self._engine.sample(names, nodes=nodes):
            seen = Property()
            for value in values:
                seen.see(value)
            seen.many &= bool(seen.sorts)
            if quoted(key) and seen.sorts:
                found[name].append((key, count, distinct, seen))
        return {name: sorted(seen, key=lambda one: one[0]) for name, seen in found.items()}

    def _find_naming(self, label: str, seen: Sequence[tuple[str, int, int, Property]]) -> None:
        """By its name, if most nodes have it and it tells them apart; else a key; else a short text, each once."""
        most = max((count for _, count, _, _ in seen), default=0)
        single = [one for one in seen if not one[3].many and one[1] >= HALF * most]
        by_words = {" ".join(column_words(name)): one for one in reversed(single) for name in one[:1]}
        own = " ".join(column_words(label))
        keys = [name for name, count, distinct, _ in single if distinct == count and _is_key(name, own)]
        keys.sort(key=lambda name: (column_words(name)[-1] != "id", len(name), name))
        shown = [by_words[form.replace("*", own)] for form in LABELS if form.replace("*", own) in by_words]
        shown = [one for one in shown if one[2] >= HALF * one[1] and one[3].sorts == {"text"}]
        if shown:
            self.naming[label] = shown[0][0]
        elif keys:
            self.naming[label] = keys.pop(0)
        else:
            plain = [one for one in single if one[3].sorts == {"text"} and one[2] >= MOSTLY * one[1] >= MOSTLY * most]
            if plain:
                self.naming[label] = plain[0][0]
        if keys:
            self.keys[label] = keys[0]

    def _choose_naming(self, names: Sequence[str]) -> None:
        for said in names:
            label, dot, name = said.rpartition(".")
            chosen = [label] if dot else [one for one, properties in self.labels.items() if name in properties]
            for one in chosen:
                if name not in self.labels.get(one, {}):
                    what = f"{one!r} has no property {name!r}" if one in self.labels else f"there is no label {one!r}"
                    raise InputError(f"name={said}: {what}", hint=f"labels are {', '.join(self.labels)}")
                self.naming[one] = name
            if not chosen:
                raise InputError(f"name={said}: no label has a property {name!r}", hint="as in name=Person.fullName")

    # What is asked of it

    @property
    def kinds(self) -> list[str]:
        """The labels that are kinds: not those of tools, which begin with an underscore."""
        return [label for label in self.labels if not label.startswith("_")]

    @property
    def timed(self) -> bool:
        return any(dates.names() for dates in self.types.values())

    def relations(self) -> list[str]:
        """All relations, in alphabetical order."""
        return sorted({*self.types, *self.properties(), *([self.is_a] if self.kinds else [])})

    def properties(self) -> dict[str, list[str]]:
        """The properties that are relations, each with the labels that have it but are not named by it."""
        found: dict[str, list[str]] = {}
        for label, properties in self.labels.items():
            for name in properties:
                if self.naming.get(label) != name:
                    found.setdefault(name, []).append(label)
        return found

    def tells(self, labels: Sequence[str], name: str) -> bool:
        """Whether a property of a node with these labels is a fact, not the node's name."""
        return all(self.naming.get(label) != name for label in labels)

    def named_by(self, label: str) -> list[str]:
        """The properties that a node of a label may be called by, the better first."""
        return [found[label] for found in (self.naming, self.keys) if label in found]

    def note(self) -> dict[str, Any]:
        """What was found, for a person: what names the nodes of each label, and which facts have dates."""
        return {
            "labels": {label: {"named by": self.naming.get(label), "properties": sorted(found)}
                       for label, found in self.labels.items()},
            "types": {name: {"dates": dates.names()} for name, dates in self.types.items()},
        }  # fmt: skip


def _is_key(name: str, label: str) -> bool:
    """Whether a property's name is that of a key of its label: id, movieId of Movie, but not directorId."""
    words = column_words(name)
    return bool(words) and words[-1] in ID_WORDS and " ".join(words[:-1]) in ("", label)


def _dates(seen: Iterable[tuple[str, int, int, Property]]) -> Dates:
    found = Dates()
    for name, _, _, like in seen:
        which = says_when(name, number="number" in like.sorts)
        if like.dates and which and not getattr(found, which):
            setattr(found, which, name)
    return found
