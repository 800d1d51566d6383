"""Graphs of what a program holds: tuples, Arrow tables, frames of pandas and polars, tables, networkx graphs."""

from __future__ import annotations

import gc
import subprocess
import sys
import warnings
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import networkx
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import kgwalk
from kgwalk.llm.engine import ScriptedEngine
from kgwalk.types import InputError, StoreError, Triple

ROWS = [
    ("Big", "directed_by", "Penny Marshall"),
    ("Big", "released", 1988),
    ("Tom Hanks", "starred_in", "Big", "1988-06"),
]
FACTS = {
    Triple("Big", "directed_by", "Penny Marshall"),
    Triple("Big", "released", "1988"),
    Triple("Tom Hanks", "starred_in", "Big", "1988-06"),
}
TABLE = pa.table(
    {
        "object": ["Penny Marshall", "1988", "Big"],  # columns in any order
        "subject": ["Big", "Big", "Tom Hanks"],
        "predicate": ["directed_by", "released", "starred_in"],
        "date": [None, None, "1988-06"],
    }
)


class Interchange:
    """A frame of a package that offers Arrow's C stream and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


class OldInterchange:
    """A frame of a package that offers the data frame interchange protocol and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> object:
        return self._table.__dataframe__(nan_as_null, allow_copy)


@pytest.mark.parametrize(
    "data",
    [
        ROWS,
        iter(ROWS),
        (list(row) for row in ROWS),
        FACTS,
        TABLE,
        TABLE.to_batches()[0],
        TABLE.to_reader(max_chunksize=1),
        Interchange(TABLE),
        OldInterchange(TABLE),
    ],
    ids=["list", "iterator", "generator", "triples", "table", "batch", "reader", "stream", "interchange"],
)
def test_facts_of_every_form(data: object) -> None:
    assert set(kgwalk.graph_from(data).match()) == FACTS


def test_the_graph_can_be_asked() -> None:
    graph = kgwalk.graph_from(ROWS)
    engine = ScriptedEngine(['tail_entities($1, "directed_by")', "<answer>$2</answer>"])
    asked = kgwalk.ask("who directed Big?", graph, protocol="kgwalk", engine=engine)
    assert asked.answers == ["Penny Marshall"]
    assert asked.evidence == {"Penny Marshall": [Triple("Big", "directed_by", "Penny Marshall")]}


def test_facts_come_out_as_they_came_in() -> None:
    """A fact is a tuple with names: that is all that a frame or another graph needs."""
    graph = kgwalk.graph_from(ROWS)
    table = pa.Table.from_pylist([fact._asdict() for fact in graph.match()])
    assert table.column_names == ["head", "relation", "tail", "time"]
    assert set(kgwalk.graph_from(table).match()) == FACTS
    back = networkx.MultiDiGraph()
    back.add_edges_from((head, tail, relation) for head, relation, tail, _ in graph.match())
    assert set(kgwalk.graph_from(back).match()) == {
        Triple("Big", "directed_by", "Penny Marshall"),
        Triple("Big", "released", "node 1988"),
        Triple("Tom Hanks", "starred_in", "Big"),
    }


def test_columns_may_be_said() -> None:
    table = TABLE.rename_columns(["film_or_person", "who", "what", "seen"])
    with pytest.warns(UserWarning, match="columns left out: seen"):
        graph = kgwalk.graph_from(table, head="who", relation="what", tail="film_or_person")
    assert set(graph.match()) == {fact._replace(time="") for fact in FACTS}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (
            set(kgwalk.graph_from(table, head="who", relation="what", tail="film_or_person", time="seen").match())
            == FACTS
        )


def test_values_are_written_as_people_write_them() -> None:
    values = [True, 5, 5.0, 5.25, date(2024, 1, 31), Decimal("1.10"), float("inf")]
    graph = kgwalk.graph_from([("a", "r", value) for value in values])
    assert set(graph.neighbors("a", "r").names) == {"true", "5", "5.25", "2024-01-31", "1.10", "inf"}
    typed = pa.table({"head": [1, 2], "relation": ["born", "born"], "tail": [date(2024, 1, 31), date(2023, 2, 1)]})
    assert set(kgwalk.graph_from(typed).match()) == {("1", "born", "2024-01-31", ""), ("2", "born", "2023-02-01", "")}


def test_tables_by_their_names() -> None:
    """The products and orders of the guide: keys are found, rows are shown by their names, lists are several facts."""
    products = pa.table({"id": [1, 2], "name": ["Heron", "Bell"], "tags": [["blue", "fast"], []]})
    lines = pa.table({"id": [7, 8], "product_id": [2, 1], "count": [3, None]})
    graph = kgwalk.graph_from({"products": products, "lines": lines})
    assert set(graph.match()) == {
        ("Heron", "is_a", "products", ""),
        ("Bell", "is_a", "products", ""),
        ("Heron", "name", "Heron", ""),
        ("Bell", "name", "Bell", ""),
        ("Heron", "tags", "blue", ""),
        ("Heron", "tags", "fast", ""),
        ("lines 7", "is_a", "lines", ""),
        ("lines 8", "is_a", "lines", ""),
        ("lines 7", "product_id", "Bell", ""),
        ("lines 8", "product_id", "Heron", ""),
        ("lines 7", "count", "3", ""),
    }
    assert "read as a table of lines, by column 1 (id); product_id -> products" in str(
        graph.store.folder.header["notes"]
    )
    unlinked = kgwalk.graph_from({"products": products, "lines": lines}, keys=["lines.product_id=none"])
    assert unlinked.neighbors("lines 7", "product_id").names == ["2"]


def test_networkx() -> None:
    graph = networkx.DiGraph()
    graph.add_node("h", name="Tom Hanks", born=1956, aliases=["Tom", "T. J."])
    graph.add_edge("h", "Big", type="starred in", start=1988, weight=3)
    with pytest.warns(UserWarning, match=r"left out: weight of starred in \(1\)"):
        made = kgwalk.graph_from(graph)
    assert set(made.match()) == {
        ("Tom Hanks", "born", "1956", ""),
        ("Tom Hanks", "aliases", "Tom", ""),
        ("Tom Hanks", "aliases", "T. J.", ""),
        ("Tom Hanks", "starred in", "Big", "1988.."),
    }
    assert made.id_of("Tom Hanks") == "h"
    undirected = networkx.Graph([(1, 2), (2, 3)])
    networkx.set_edge_attributes(undirected, "touches", "how")
    made = kgwalk.graph_from(undirected, relation="how")
    assert set(made.match()) == {("node 1", "touches", "node 2", ""), ("node 2", "touches", "node 3", "")}
    with pytest.raises(InputError, match="two nodes are called '1': 1 and '1'"):
        kgwalk.graph_from(networkx.Graph([(1, "1")]))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([("a", "r")], "data:1: expected head, relation, tail with an optional 4th column time, got 2 columns"),
        (
            [("a", "r", "b"), ("a", None, "b")],
            "data:2: expected head, relation, tail with an optional 4th column time, got an",
        ),
        ([("a", "r", "b", "May")], "data:1: column 4 is the time: 'May' is not a time"),
        (["abc"], "data:1: expected (head, relation, tail), with an optional time, got 'abc'"),
        ([], "no facts in the given data"),
        (
            pa.table({"a": [1], "b": [2]}),
            "data: no column is known as the head or the relation or the tail; there are a, b",
        ),
        (
            pa.table({"head": ["a"], "relation": ["r"], "tail": [None]}),
            "data:1: expected a tail in the column 'tail', got",
        ),
        (
            pa.table({"h": ["a"], "r": ["r"], "t": ["b"], "time": ["May"]}),
            "data: the column 'time' is the time: 'May' is",
        ),
        ({"people": [1, 2]}, "people: expected a data frame or an Arrow table, got a list"),
        ("films.tsv", "a path is no data"),
        (7, "a graph cannot be made of a int"),
    ],
)
def test_data_that_is_wrong(data: object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        kgwalk.graph_from(data)
    assert str(caught.value).startswith(message)


def test_options_that_do_not_fit() -> None:
    with pytest.raises(InputError, match=r"no column is called 'subjekt'; did you mean 'subject'\?"):
        kgwalk.graph_from(TABLE, head="subjekt")
    for data, options in ((ROWS, {"head": "a"}), (ROWS, {"keys": ["a=b"]}), (networkx.Graph(), {"head": "a"})):
        with pytest.raises(InputError):
            kgwalk.graph_from(data, **options)  # type: ignore[arg-type]


def test_the_folder_goes_with_the_graph_and_stays_at_a_target(tmp_path: Path) -> None:
    graph = kgwalk.graph_from(ROWS)
    folder = graph.store.folder.path
    view = graph.between("1988", None)
    del graph
    gc.collect()
    assert folder.exists()  # a view still reads it
    assert list(view.match("Tom Hanks"))
    del view
    gc.collect()
    assert not folder.parent.exists()
    kgwalk.graph_from(ROWS, target=tmp_path / "kept.kg")
    assert set(kgwalk.load_graph(tmp_path / "kept.kg").match()) == FACTS
    with pytest.raises(StoreError, match=r"kept\.kg exists"):
        kgwalk.graph_from(ROWS, target=tmp_path / "kept.kg")


def test_a_generator_is_read_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgwalk.kg.in_memory._ROWS", 10)

    def rows() -> Iterator[tuple[str, str, str]]:
        for number in range(95):
            yield f"a{number}", "r", "b"

    assert len(kgwalk.graph_from(rows())) == 95


def test_no_package_of_frames_or_graphs_is_imported() -> None:
    """By kgwalk: pyarrow itself imports pandas where that is installed."""
    code = (
        "import sys, kgwalk; graph = kgwalk.graph_from([('a', 'r', 'b')]); assert len(graph) == 1; "
        "print([name for name in ('networkx', 'polars', 'torch') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
    assert found.stderr == ""


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)


@given(st.sets(st.tuples(names, names, names), min_size=1, max_size=6))
@example({("0", "#REF!", "NaT")})
@settings(max_examples=8, deadline=None)
def test_any_names_are_kept(rows: set[tuple[str, str, str]]) -> None:
    columns = dict(zip(("head", "relation", "tail"), map(list, zip(*rows, strict=True)), strict=True))
    for data in (rows, pa.table(columns)):
        assert {fact[:3] for fact in kgwalk.graph_from(data).match()} == rows


# With the packages themselves, where they are: `make test-frames`


def test_pandas() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed; `make test-frames` brings it")
    frame = pandas.DataFrame([(*row, "")[:4] for row in ROWS], columns=["head", "relation", "tail", "time"])
    frame["tail"] = frame["tail"].astype(str)
    assert set(kgwalk.graph_from(frame).match()) == FACTS
    assert set(kgwalk.graph_from(frame.set_index(pandas.Index([5, 6, 7]))).match()) == FACTS
    back = pandas.DataFrame(kgwalk.graph_from(frame).match())
    assert list(back.columns) == ["head", "relation", "tail", "time"]
    assert set(kgwalk.graph_from(back).match()) == FACTS
    people = pandas.DataFrame(
        {"name": ["Ann", "Bob"], "born": [1990, None], "seen": pandas.to_datetime(["2024-01-31", None])}
    )
    assert set(kgwalk.graph_from({"people": people}).match()) == {
        ("Ann", "is_a", "people", ""),
        ("Bob", "is_a", "people", ""),
        ("Ann", "born", "1990", ""),
        ("Ann", "seen", "2024-01-31", ""),
    }
    mixed = pandas.DataFrame({"head": ["a", "b"], "relation": ["r", "r"], "tail": ["x", 5]})
    with pytest.raises(InputError, match=r"frame\.astype\(str\) makes them so"):
        kgwalk.graph_from(mixed)


def test_polars() -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed; `make test-frames` brings it")
    assert set(kgwalk.graph_from(polars.from_arrow(TABLE)).match()) == FACTS
    people = polars.DataFrame({"name": ["Ann"], "born": [1990], "tags": [["a", "b"]]})
    assert len(kgwalk.graph_from({"people": people})) == 4


def test_a_text_that_looks_like_pandas_nothing_is_a_text() -> None:
    graph = kgwalk.graph_from([("NaT", "is", "<NA>")])
    assert list(graph.match()) == [Triple("NaT", "is", "<NA>")]
