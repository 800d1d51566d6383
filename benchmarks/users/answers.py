"""The right answers, computed from the raw files by other code than kgwalk's: SQLite, or a SPARQL engine for Turtle.

A CSV is a table of its name. JSON lines, TSV, N-Triples and N-Quads are one table `facts` (head, relation, tail, time,
since, until) by the names people see, and a view of each relation's name. Turtle is asked in SPARQL.

    >>> Answers(read_graph(HERE / "dev" / "debian")).rows("SELECT tail FROM section WHERE head = 'git'")
    [('vcs',)]
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.users.graphs import HERE, Cells, UserGraph, UserQuestion, read_graph  # noqa: F401 (the docstring's)

PREFIXES = """PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#>
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>
"""
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_TIME = "urn:kgwalk:time:"
_TERM = r'(<[^>]*>|_:\S+|"(?:[^"\\]|\\.)*"(?:@[\w-]+|\^\^<[^>]*>)?)'
_LINE = re.compile(rf"{_TERM}\s+{_TERM}\s+{_TERM}(?:\s+(<[^>]*>))?\s*\.\s*$")
Value = str | int | float | None
Row = tuple[Value, ...]


class Answers:
    """The raw files of one graph, opened to be asked."""

    def __init__(self, graph: UserGraph) -> None:
        self.graph = graph
        self._rdf = _Turtle(graph.sources) if _suffix(graph.sources[0]) == ".ttl" else None
        self._db = None if self._rdf else _database(graph.sources)
        pairs = self.rows(graph.aliases) if graph.aliases else []
        self._aliases: dict[str, list[str]] = {}
        for name, other in pairs:
            if other is not None and str(other) != str(name):
                self._aliases.setdefault(str(name), []).append(str(other))

    def rows(self, query: str) -> list[Row]:
        if self._db is not None:
            return list(self._db.execute(query))
        assert self._rdf is not None
        return self._rdf.rows(query)

    def answers(self, question: UserQuestion) -> list[Cells]:
        """The answers of a question, as its file should have them."""
        if not question.query:
            return []
        rows = [row for row in self.rows(question.query) if row[0] is not None]
        if question.answer_kind == "yes/no":
            return ["yes" if rows and rows[0][0] not in (0, "false") else "no"]
        if question.answer_kind == "table":
            return [[written(value) for value in row] for row in rows]
        return list(dict.fromkeys(written(row[0]) for row in rows))

    def names(self) -> set[str]:
        """Every name and value that the raw files have."""
        if self._db is None:
            assert self._rdf is not None
            found = self._rdf.rows("SELECT DISTINCT ?x { { ?x ?r ?o } UNION { ?s ?r ?x } }")
            return {written(row[0]) for row in found}
        tables = [row[0] for row in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = (row for table in tables for row in self._db.execute(f"SELECT * FROM {_quoted(table)}"))
        return {written(value) for row in rows for value in row}

    def aliases(self, answers: list[Cells]) -> dict[str, list[str]]:
        """The other names of those answers that have any."""
        named = [answer for answer in answers if isinstance(answer, str)]
        return {name: sorted(set(self._aliases[name])) for name in named if name in self._aliases}

    def same(self, name: str) -> set[str]:
        """All names of the thing that goes by this name."""
        return {name, *self._aliases.get(name, ()), *(own for own, others in self._aliases.items() if name in others)}


def written(value: Value) -> str:
    """A value as an answer has it: whole numbers without a point, others to six figures.

    >>> written(3.0), written(2 / 3), written(12345678.9), written("Iron"), written(None)
    ('3', '0.666667', '12345678.9', 'Iron', '')
    """
    if isinstance(value, float):
        if value == int(value):
            return str(int(value))
        return repr(round(value, 2)) if abs(value) >= 1000 else f"{value:.6g}"
    return "" if value is None else str(value)


def _suffix(path: Path) -> str:
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix


def _lines(path: Path) -> list[str]:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode().splitlines()


def _number(text: str) -> Value:
    """A cell as SQL should compare it: a number where it is written as one, NULL where it is blank."""
    if not text:
        return None
    if re.fullmatch(r"-?(0|[1-9]\d*)", text):
        return int(text)
    return float(text) if re.fullmatch(r"-?\d+\.\d+", text) else text


# Tables and facts in SQLite


def _database(sources: list[Path]) -> sqlite3.Connection:
    db = sqlite3.connect(":memory:")
    facts: list[tuple[str, str, str, str]] = []
    for path in sources:
        suffix = _suffix(path)
        if suffix == ".csv":
            columns, *rows = csv.reader(_lines(path))
            name = path.name.partition(".")[0]
            db.execute(f'CREATE TABLE "{name}" ({", ".join(map(_quoted, columns))})')
            marks = ", ".join("?" * len(columns))
            db.executemany(f'INSERT INTO "{name}" VALUES ({marks})', [[_number(cell) for cell in row] for row in rows])
        elif suffix == ".jsonl":
            objects = map(json.loads, _lines(path))
            facts += [(one["head"], one["relation"], str(one["tail"]), one.get("time", "")) for one in objects]
        elif suffix == ".tsv":
            cells = (line.split("\t") for line in _lines(path))
            facts += [(h, r, t, time[0] if time else "") for h, r, t, *time in cells]
        else:
            facts += _rdf_facts(path)
    if facts:
        _load_facts(db, facts)
    return db


def _load_facts(db: sqlite3.Connection, facts: list[tuple[str, str, str, str]]) -> None:
    db.execute("CREATE TABLE facts (head, relation, tail, time, since, until)")
    for head, relation, tail, time in facts:
        since, _, until = time.partition("..") if ".." in time else (time, "", time)
        row = (head, relation, _number(tail), time or None, since or None, until or None)
        db.execute("INSERT INTO facts VALUES (?, ?, ?, ?, ?, ?)", row)
    for relation in sorted({fact[1] for fact in facts}):
        shown = relation.replace("'", "''")
        view = f"SELECT head, tail, time, since, until FROM facts WHERE relation = '{shown}'"
        db.execute(f"CREATE VIEW {_quoted(relation)} AS {view}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _rdf_facts(path: Path) -> Iterator[tuple[str, str, str, str]]:
    """The facts of N-Triples or N-Quads by English labels; names in other languages are facts `label`."""
    terms = [found.groups() for line in _lines(path) if (found := _LINE.match(line))]
    labels = {}
    for head, relation, tail, _ in terms:
        if relation == f"<{LABEL}>" and tail.endswith("@en"):
            labels[head] = _literal(tail)

    def name(term: str) -> str:
        if term.startswith('"'):
            return _literal(term)
        return labels.get(term) or re.split(r"[/#]", term.strip("<>"))[-1]

    for head, relation, tail, time in terms:
        shown = "label" if relation == f"<{LABEL}>" else "type" if relation == f"<{TYPE}>" else name(relation)
        yield name(head), shown, name(tail), (time or "").strip("<>").removeprefix(_TIME)


def _literal(term: str) -> str:
    return str(json.loads(re.sub(r'"(@[\w-]+|\^\^<[^>]*>)$', '"', term)))


# Turtle in a SPARQL engine


class _Turtle:
    """Files of Turtle in a store that answers SPARQL; things are shown by their English labels."""

    def __init__(self, sources: list[Path]) -> None:
        import pyoxigraph

        self._store = pyoxigraph.Store()
        self._namespace = ""
        for path in sources:
            text = "\n".join(_lines(path))
            self._store.load(text.encode(), format=pyoxigraph.RdfFormat.TURTLE)
            found = re.search(r"@prefix : <([^>]*)>", text)
            self._namespace = found[1] if found else self._namespace
        query = f'SELECT ?x ?name WHERE {{ ?x <{LABEL}> ?name FILTER(lang(?name) IN ("en", "")) }}'
        labels: Any = self._store.query(query)
        self._labels: dict[str, str] = {row[0].value: row[1].value for row in labels}

    def rows(self, query: str) -> list[Row]:
        found: Any = self._store.query(f"{PREFIXES}PREFIX : <{self._namespace}>\n{query}")
        if isinstance(found, bool) or not hasattr(found, "variables"):
            return [("true" if found else "false",)]
        return [tuple(self._value(term) for term in row) for row in found]

    def _value(self, term: object) -> Value:
        if term is None:
            return None
        value = str(getattr(term, "value", term))
        kind = getattr(getattr(term, "datatype", None), "value", "")
        if kind.endswith(("#integer", "#decimal", "#double", "#float")):
            return float(value)
        if kind:
            return value
        return self._labels.get(value) or re.split(r"[/#]", value)[-1]
