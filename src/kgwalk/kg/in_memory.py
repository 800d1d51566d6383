"""Graphs of what a Python program holds: tuples, data frames, Arrow tables, networkx graphs.

    graph = graph_from([("Big", "directed_by", "Penny Marshall")])
    graph = graph_from(frame)                                   columns head, relation, tail and perhaps time
    graph = graph_from({"people": people, "orders": orders})    tables: a thing a row, with keys found
    graph = graph_from(networkx_graph)                          nodes and edges with their properties

The graph is a store as `build` makes it of files, in a folder that goes when the graph does, or at `target`. Neither
pandas nor networkx is imported here: frames of any package come through Arrow's interfaces, networkx graphs by their
methods.
"""

from __future__ import annotations

import math
import re
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow.interchange import from_dataframe

from kgwalk.kg.build import BuildReport, build_blocks
from kgwalk.kg.files import FolderWriter
from kgwalk.kg.names import value_text
from kgwalk.kg.sources.delimited import TRIPLES
from kgwalk.kg.sources.property_graph import RELATED, PropertyGraph, node_key
from kgwalk.kg.sources.source import Block, Columns, Options, ReadCounts, Source, TimeCheck, TripleBlock, strings
from kgwalk.kg.sources.table_keys import find_keys
from kgwalk.kg.sources.tables import Tables
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.types import InputError, StoreError

_ROLES = (*TRIPLES.columns, "time")
_INDEX = re.compile(r"__index_level_\d+__")  # pandas' row numbers, where they are a column of the Arrow table
_ROWS = 50_000  # facts in a block
_TUPLE = "(head, relation, tail), with an optional time"


def graph_from(
    data: object,
    *,
    head: str | None = None,
    relation: str | None = None,
    tail: str | None = None,
    time: str | None = None,
    keys: Sequence[str] = (),
    target: str | Path | None = None,
) -> StoredGraph:
    """A graph of `data`: tuples or `Triple`s, a data frame or Arrow table, tables by their names, a networkx graph.

    `head`, `relation`, `tail` and `time` name the columns of a frame; without them columns are known by their names,
    as in the header of a CSV file. Of a networkx graph `relation` names the attribute that says what an edge is. `keys`
    are for tables, as `kgwalk kg build --key`. With a `target` the store stays there; a path that exists is an error.
    What is left out is a warning.
    """
    said = {"head": head, "relation": relation, "tail": tail, "time": time}
    tally = ReadCounts()
    with tempfile.TemporaryDirectory(prefix="kgwalk-tables-") as scratch:
        blocks = _blocks(data, said, keys, tally, Path(scratch))
        if target is not None:
            return open_graph(_built(blocks, Path(target), tally))
        folder = tempfile.mkdtemp(prefix="kgwalk-graph-")
        try:
            graph = open_graph(_built(blocks, Path(folder, "graph.kg"), tally))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    weakref.finalize(graph.store, shutil.rmtree, folder, ignore_errors=True)  # also when the program ends
    return graph


def _built(blocks: Iterator[Block], target: Path, tally: ReadCounts) -> Path:
    if target.exists():
        raise StoreError(f"{target} exists; choose another name, or remove it first")
    first = next(blocks, None)
    if first is None:
        raise InputError("no facts in the given data")

    def told() -> Iterator[Block]:
        yield first
        yield from blocks

    def noted(_: FolderWriter, report: BuildReport) -> None:
        report.notes += tally.notes

    build_blocks(told, target, more=noted)
    return target


def _blocks(
    data: object, said: Mapping[str, str | None], keys: Sequence[str], tally: ReadCounts, scratch: Path
) -> Iterator[Block]:
    """The facts of the data, by what it is."""
    source = Source("data", Options(), tally)
    if isinstance(data, str | Path):
        raise InputError(
            "a path is no data", text=str(data), hint="kgwalk.build_graph reads files, load_graph opens stores"
        )
    if isinstance(data, Mapping):
        yield from _tables(data, keys, tally, scratch)
    elif keys:
        raise InputError("keys are for tables by their names", hint='give {"orders": frame}')
    elif _is_networkx(data):
        yield from _property_graph(data, said, source)
    elif (batches := _arrow(data, source)) is not None:
        yield from _columns(batches, said, source)
    elif isinstance(data, Iterable):
        if any(said.values()):
            raise InputError(f"tuples have no columns: each is {_TUPLE}")
        yield from _tuples(data, source)
    else:
        raise InputError(
            f"a graph cannot be made of a {type(data).__name__}",
            hint="give tuples, a data frame, an Arrow table, a networkx graph, or tables by their names",
        )


# Tuples


def _tuples(rows: Iterable[Any], source: Source) -> Iterator[Block]:
    """Tuples or lists of three or four; block by block, so that a generator need not fit in memory."""
    numbered, times = enumerate(rows, 1), TimeCheck()
    while some := list(islice(numbered, _ROWS)):
        facts = Columns(3)
        for number, row in some:
            if isinstance(row, str) or not isinstance(row, Sequence):
                raise source.error(f"expected {_TUPLE}, got {row!r:.80}", line=number)
            fields = [_text(value) for value in row]
            if problem := TRIPLES.problem(fields, ", ", times):
                raise source.error(problem, line=number, text=repr(row))
            facts.append(fields if len(fields) > 3 and fields[3] else fields[:3])
        yield TripleBlock(*facts.arrays())


def _text(value: Any) -> str:
    """A value as the text of a name; "" for none at all. A text is itself: what says in a sheet that a formula failed,
    or in pandas that something is missing, is a name here.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, float) and math.isnan(value):
        return ""
    missing = str(value) in ("NaT", "<NA>")
    return "" if missing else value_text(value)


# Frames, by Arrow's interfaces


def _arrow(data: object, source: Source) -> Iterator[pa.RecordBatch] | None:
    """What has columns as Arrow batches; None for anything else."""
    batches: Iterable[pa.RecordBatch]
    try:
        if isinstance(data, pa.RecordBatch):
            batches = [data]
        elif isinstance(data, pa.Table):
            batches = data.to_batches()
        elif isinstance(data, pa.RecordBatchReader):
            batches = data
        elif hasattr(data, "__arrow_c_stream__"):
            batches = pa.RecordBatchReader.from_stream(data)
        elif hasattr(data, "__dataframe__"):
            batches = from_dataframe(data).to_batches()
        else:
            return None
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise source.error(
            f"a column cannot be read: {error}",
            hint="a column holds values of one type: frame.astype(str) makes them so",
        ) from None
    return iter(batches)


def _columns(batches: Iterator[pa.RecordBatch], said: Mapping[str, str | None], source: Source) -> Iterator[Block]:
    """The facts of a frame with a column for each part of a fact."""
    row, times = 0, TimeCheck()
    for batch in batches:
        names = [name for name in batch.schema.names if not _INDEX.fullmatch(name)]
        places = _places(names, said, source, note=not row)
        columns = [_strings(batch.column(name)) for name in places]
        for at, role in enumerate(TRIPLES.columns):
            empty = next((place for place, text in enumerate(columns[at].to_pylist()) if not text), None)
            if empty is not None:
                raise source.error(f"expected a {role} in the column {places[at]!r}, got none", line=row + empty + 1)
        for time in columns[3].unique().to_pylist() if len(columns) > 3 else ():
            if problem := times.problem(time):
                raise source.error(f"the column {places[3]!r} is the time: {problem}")
        row += len(batch)
        if len(batch):
            yield TripleBlock(*columns)


def _places(names: Sequence[str], said: Mapping[str, str | None], source: Source, note: bool) -> list[str]:
    """The names of the columns of head, relation, tail and perhaps time: as they are said, else by known words."""
    found: dict[str, str] = {}
    for role, words in zip(_ROLES, TRIPLES.words, strict=True):
        if (name := said[role]) is not None:
            if name not in names:
                near = get_close_matches(name, names, 1)
                maybe = f"; did you mean {near[0]!r}?" if near else ""
                raise source.error(f"no column is called {name!r}{maybe}", hint=f"there are {', '.join(names)}")
            found[role] = name
        else:
            known = [one for one in names if one.strip().casefold() in words and one not in said.values()]
            if len(known) == 1:
                found[role] = known[0]
    if missing := [role for role in TRIPLES.columns if role not in found]:
        raise source.error(
            f"no column is known as the {' or the '.join(missing)}; there are {', '.join(names)}",
            hint=f"say {', '.join(f'{role}=COLUMN' for role in missing)}; or, if each row is a thing, give the "
            'frame with the name of its table: {"people": frame}',
        )
    if note and (others := [name for name in names if name not in found.values()]):
        warnings.warn(f"columns left out: {', '.join(others)}", stacklevel=2)
    return [found[role] for role in _ROLES if role in found]


def _strings(column: pa.Array) -> pa.StringArray:
    """A column as texts, "" for none."""
    if pa.types.is_string(column.type) and not column.null_count:
        return column
    return strings([_text(value) for value in column.to_pylist()])


def _tables(data: Mapping[Any, Any], keys: Sequence[str], tally: ReadCounts, scratch: Path) -> Iterator[Block]:
    """Frames by the names of their tables, as `kgwalk kg build --table` reads files."""
    with closing(Tables(scratch)) as tables:
        for name, frame in data.items():
            source = Source(str(name), Options(), tally)
            batches = _arrow(frame, source)
            if batches is None:
                raise source.error(f"expected a data frame or an Arrow table, got a {type(frame).__name__}")
            table, columns = tables.start(str(name), source), None
            for batch in batches:
                columns = columns or {
                    column: tables.add_column(table, column.strip())
                    for column in batch.schema.names
                    if not _INDEX.fullmatch(column)
                }
                for row in batch.to_pylist():
                    cells = [(column, text) for name, column in columns.items() for text in _cells(row[name])]
                    if cells:
                        tables.add_row(table, cells)
        find_keys(tables, keys)
        yield from tables.blocks(Options().block_bytes)


def _cells(value: Any) -> list[str]:
    """The cells of one field: of a list, one of each part."""
    parts = value if isinstance(value, list) else [value]
    return [text for part in parts if (text := _text(part)).strip()]


# networkx


def _is_networkx(data: object) -> bool:
    """Whether it is a graph as networkx has them; rustworkx and others that speak its language are too."""
    return all(hasattr(data, name) for name in ("nodes", "edges", "is_multigraph", "is_directed"))


def _property_graph(data: Any, said: Mapping[str, str | None], source: Source) -> Iterator[Block]:
    """Nodes and edges by the rules of every property graph; an edge without a direction is one fact."""
    if any(said[role] for role in ("head", "tail", "time")):
        raise InputError("a networkx graph has no columns; `relation` may name an attribute of its edges")
    graph = PropertyGraph(source)
    keys: dict[str, object] = {}
    for node, attributes in data.nodes(data=True):
        id = value_text(node) or str(node)
        key = node_key(id)
        if keys.setdefault(key, node) != node:
            raise source.error(f"two nodes are called {id!r}: {keys[key]!r} and {node!r}", hint="relabel one of them")
        graph.node(key, properties=_properties(attributes), id=id)
        if graph.facts.is_full:
            yield from graph.facts.blocks()
    multigraph = data.is_multigraph()
    for start, end, *key, attributes in data.edges(data=True, **({"keys": True} if multigraph else {})):
        properties = _properties(attributes)
        kind = ""
        if said["relation"] is not None:
            kind = " ".join(properties.pop(said["relation"], [])) or RELATED
        elif key and isinstance(key[0], str):
            properties.setdefault("key", [key[0]])  # what tells edges of the same ends apart, if nothing else says it
        ends = (node_key(value_text(node) or str(node)) for node in (start, end))
        graph.edge(next(ends), kind, next(ends), properties)
        if graph.facts.is_full:
            yield from graph.facts.blocks()
    yield from graph.facts.blocks()
    before = len(source.tally.notes)
    graph.write_notes()
    for note in source.tally.notes[before:]:
        warnings.warn(note, stacklevel=2)


def _properties(attributes: Mapping[Any, Any]) -> dict[str, list[str]]:
    return {str(name): texts for name, value in attributes.items() if (texts := _cells(value))}
