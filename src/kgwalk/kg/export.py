"""Writes a graph as text: TSV, N-Triples or N-Quads, in blocks of bytes.

Building from what is written gives the same graph: the same names, facts and dates. TSV is plain, or marked and
escaped where a name holds a tab or line break. N-Triples cannot hold dates; N-Quads can, as the name of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyoxigraph import Literal, NamedNode, RdfFormat, parse

from kgwalk.kg.bulk_names import arrow_names
from kgwalk.kg.names import NameTable
from kgwalk.kg.sources.delimited import ESCAPED_MARK, escape, misread_first
from kgwalk.kg.sources.rdf import ENTITY_IRI, RELATION_IRI, TIME_GRAPH
from kgwalk.kg.sources.source import RDFS_LABEL
from kgwalk.kg.store import Store, StoredGraph
from kgwalk.types import KgwalkError, UnknownEntity

FORMATS = ("tsv", "nt", "nq")
OWN_LABEL = "urn:kgwalk:label"  # gives names if rdfs:label is an ordinary relation of the graph
_BLOCK = 1 << 17
_NOT_IN_IRI = frozenset('<>"{}|^`\\') | {chr(code) for code in range(0x21)}


def export(graph: StoredGraph, format: str) -> Iterator[bytes]:
    """The graph (or view) in one of FORMATS, block by block."""
    if format == "tsv":
        return _tsv(graph)
    if format == "nt" and graph.store.timed:
        raise KgwalkError("N-Triples cannot hold the dates of this graph; export it as nq or tsv")
    if format in ("nt", "nq"):
        return _rdf(graph, dated=format == "nq" and graph.store.timed)
    raise KgwalkError(f"unknown format {format!r}; choose one of {', '.join(FORMATS)}")


def _numbers(graph: StoredGraph) -> Iterator[npt.NDArray[np.int64]]:
    """The numbers of the graph's triples, in blocks."""
    total = len(graph.store.out.other)
    for start in range(0, total, _BLOCK):
        block = np.asarray(graph._positions(start, min(start + _BLOCK, total), True), np.int64)
        if len(block):
            yield block


def _tsv(graph: StoredGraph) -> Iterator[bytes]:
    store = graph.store
    tables = [store.entity, store.relation]
    entity, relation = arrow_names(store.entity), arrow_names(store.relation)
    date = arrow_names(store.date) if store.timed else None
    first = next(graph.match(limit=1), None)
    escaped = any(table.any_byte(b"\t\n\r") for table in tables) or (first is not None and misread_first(first))
    if escaped:
        yield f"{ESCAPED_MARK}\n".encode()
    for numbers in _numbers(graph):
        heads, relations = store.out.owners(numbers)
        columns = [entity.take(pa.array(heads)), relation.take(pa.array(relations))]
        columns.append(entity.take(pa.array(store.out.other_array[numbers])))
        if escaped:
            columns = [_escaped(column) for column in columns]
        if date is not None:
            columns.append(date.take(pa.array(store.date_of_array[numbers])))
        yield from _lines(pc.binary_join_element_wise(*columns, pa.scalar("\t", pa.large_string())))


def _escaped(column: pa.LargeStringArray) -> pa.LargeStringArray:
    encoded = column.dictionary_encode()
    return pa.array([escape(name) for name in encoded.dictionary.to_pylist()], pa.large_string()).take(encoded.indices)


def _lines(rows: pa.LargeStringArray) -> Iterator[bytes]:
    if len(rows):
        yield ("\n".join(rows.to_pylist()) + "\n").encode()


def _rdf(graph: StoredGraph, *, dated: bool) -> Iterator[bytes]:
    store = graph.store
    used = label_predicate(store)
    entity_term = partial(_term, store.entity, store.entity_id, ENTITY_IRI)
    relation_term = partial(_term, store.relation, store.relation_id, RELATION_IRI)
    yield from _labels(store, "entity", graph.live_entities(), entity_term, used)
    yield from _labels(store, "relation", graph.live_relations(), relation_term, used)
    for numbers in _numbers(graph):
        heads, relations = store.out.owners(numbers)
        columns = [
            _terms(entity_term, heads),
            _terms(relation_term, relations),
            _terms(entity_term, store.out.other_array[numbers]),
        ]
        if dated:
            columns.append(_terms(partial(_time_term, store.date), store.date_of_array[numbers]))
        columns.append(pa.repeat(pa.scalar("."), len(numbers)))
        rows = pc.binary_join_element_wise(
            *(c.cast(pa.large_string()) for c in columns), pa.scalar(" ", pa.large_string())
        )
        yield from _lines(rows)


def label_predicate(store: Store) -> str:
    """The predicate that gives names in an export."""
    ids = store.relation_id
    return RDFS_LABEL if ids is None or ids.number(RDFS_LABEL) is None else OWN_LABEL


class ExportTerms:
    """What an export calls the names of a store: for those who write a query of what was exported."""

    def __init__(self, store: Store) -> None:
        self.store, self.label = store, label_predicate(store)

    def entity(self, name: str) -> str:
        """The RDF term of an entity; of a blank node `_:` and its label, which no query can name."""
        return self._of(self.store.entity, self.store.entity_id, ENTITY_IRI, name)

    def relation(self, name: str) -> str:
        return self._of(self.store.relation, self.store.relation_id, RELATION_IRI, name)

    def is_told_apart(self, name: str) -> bool:
        """Whether a name has more to it than the label, since several things have that."""
        folder = self.store.folder
        return "entity.told" in folder and self.store.entity.number(name) in np.asarray(folder["entity.told"])

    def is_dated(self, relation: str) -> bool:
        """Whether any fact of a relation has a date."""
        store, number = self.store, self.store.relation_number(relation)
        if not store.timed or number is None:
            return False
        undated = store.date.number("")
        for group in np.flatnonzero(np.asarray(store.out.relation_array) == number).tolist():
            dates = store.date_of_array[store.out.start[group] : store.out.start[group + 1]]
            if undated is None or (dates != undated).any():
                return True
        return False

    @staticmethod
    def _of(names: NameTable, ids: NameTable | None, prefix: str, name: str) -> str:
        number = names.number(name)
        if number is None:
            raise UnknownEntity(name)
        return _term(names, ids, prefix, number)


def _terms(term: Callable[[int], str], numbers: npt.NDArray[np.integer]) -> pa.Array:
    """The term of each number; each distinct one is made once."""
    distinct, place = np.unique(numbers, return_inverse=True)
    return pa.array([term(number) for number in distinct.tolist()], pa.large_string()).take(pa.array(place))


def _term(names: NameTable, ids: NameTable | None, prefix: str, number: int) -> str:
    """The RDF term of an entity or relation: the one it came from, or one made from its name."""
    key = names[number] if ids is None else ids[number]
    if ids is not None and key.startswith('"') and _is_literal(key):
        return key
    if ids is not None and key.startswith("_:"):
        return key
    if ids is not None and ":" in key and not _NOT_IN_IRI.intersection(key):
        return f"<{key}>"
    return f"<{prefix}{quote(key, safe='')}>"


def _is_literal(key: str) -> bool:
    """Whether a key is a literal as N-Triples writes it; the parser decides, since a name may begin like one."""
    try:
        quads = list(parse(f"<urn:s> <urn:p> {key} .".encode(), format=RdfFormat.N_TRIPLES))
    except SyntaxError:
        return False
    return len(quads) == 1 and isinstance(quads[0].object, Literal)


def _time_term(dates: NameTable, number: int) -> str:
    return f"<{TIME_GRAPH}{quote(dates[number], safe='')}>" if dates[number] else ""


def told_apart(store: Store, prefix: str) -> dict[str, int]:
    """The bytes that were put after a label to tell it from a homonym, by key: updates give relations other numbers."""
    built, folder = store.built, store.folder
    if f"{prefix}.told" not in folder:
        return {}
    ids = built.entity_id if prefix == "entity" else built.relation_id
    assert ids is not None
    told, added = (np.asarray(folder[f"{prefix}.{name}"]).tolist() for name in ("told", "suffix"))
    return dict(zip(ids.several(told), added, strict=True))


def _labels(
    store: Store, prefix: str, numbers: Sequence[int], term: Callable[[int], str], predicate: str
) -> Iterator[bytes]:
    """The labels of IRIs and blank nodes, as they were before homonyms were told apart."""
    names, ids = (store.entity, store.entity_id) if prefix == "entity" else (store.relation, store.relation_id)
    told = told_apart(store, prefix)
    property_ = str(NamedNode(predicate))
    for start in range(0, len(numbers), _BLOCK):
        lines: list[str] = []
        for number in numbers[start : start + _BLOCK]:
            subject = term(number)
            if not subject.startswith('"'):
                label = names[number].encode()
                suffix = told.get(ids[number], 0) if told and ids is not None else 0
                text = label[: len(label) - suffix].decode()
                lines.append(f"{subject} {property_} {Literal(text)} .\n")
        yield "".join(lines).encode()
