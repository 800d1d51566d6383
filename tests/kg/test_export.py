"""What is exported builds the same graph again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import FILMS, awkward_names, few_names, memory_folder, store_of
from kgwalk.kg.build import build
from kgwalk.kg.export import export
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.types import KgwalkError, Triple

triples = st.lists(st.tuples(awkward_names, awkward_names, awkward_names), min_size=1, max_size=10)
dated = st.lists(
    st.tuples(few_names, few_names, few_names, st.sampled_from(["", "1990", "1990..1991"])),
    min_size=1,
    max_size=10,
)


def _again(graph: StoredGraph, format: str, folder: Path) -> list[Triple]:
    source = folder / f"again.{format}"
    source.write_bytes(b"".join(export(graph, format)))
    build([source], folder / f"again-{format}.kg", replace=True)
    return sorted(open_graph(folder / f"again-{format}.kg").match())


@given(triples)
@settings(max_examples=30)
def test_any_names_survive(facts: list[tuple[str, str, str]]) -> None:
    with memory_folder() as folder:
        graph = store_of(folder, facts)
        for format in ("tsv", "nt", "nq"):
            assert _again(graph, format, folder) == sorted({Triple(*t) for t in facts})


@given(dated)
@settings(max_examples=30)
def test_dates_survive(facts: list[tuple[str, str, str, str]]) -> None:
    with memory_folder() as folder:
        graph = store_of(folder, facts)
        for format in ("tsv", "nq"):
            assert _again(graph, format, folder) == sorted({Triple(*t) for t in facts})
        if graph.store.timed:
            with pytest.raises(KgwalkError, match="export it as nq or tsv"):
                export(graph, "nt")


def test_plain_names_give_plain_tsv(tmp_path: Path) -> None:
    text = b"".join(export(store_of(tmp_path, FILMS), "tsv")).decode()
    assert sorted(text.splitlines()) == sorted("\t".join(t) for t in FILMS)


def test_a_tab_in_one_name_marks_and_escapes_the_file(tmp_path: Path) -> None:
    text = b"".join(export(store_of(tmp_path, [("a\tb", "r", "c\\d")]), "tsv")).decode()
    assert text == "#kgwalk-tsv escaped\na\\tb\tr\tc\\\\d\n"


def test_a_triple_that_looks_like_a_header_survives(tmp_path: Path) -> None:
    assert _again(store_of(tmp_path, [("head", "relation", "tail")]), "tsv", tmp_path) == [
        Triple("head", "relation", "tail")
    ]


def test_rdf_comes_back_with_its_terms_labels_and_homonyms(tmp_path: Path) -> None:
    (tmp_path / "in.ttl").write_text(
        """@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . @prefix e: <http://x/> .
        e:Q90 e:P17 e:Q142 ; rdfs:label "Paris" ; e:motto "Paris"@fr , "Paris" , 7 .
        e:Q8 e:P17 e:Q30 ; rdfs:label "Paris" . e:Q90 e:near [ e:P17 e:Q142 ] ."""
    )
    build([tmp_path / "in.ttl"], tmp_path / "in.kg")
    graph = open_graph(tmp_path / "in.kg")
    assert {"Paris (Q90)", "Paris (Q8)", "Paris (fr)", "Paris (text)"} <= {
        name for t in graph.match() for name in (t.head, t.tail)
    }
    text = b"".join(export(graph, "nt")).decode()
    assert '<http://x/Q90> <http://x/motto> "7"^^<http://www.w3.org/2001/XMLSchema#integer> .' in text.splitlines()
    assert '<http://x/Q90> <http://www.w3.org/2000/01/rdf-schema#label> "Paris" .' in text.splitlines()
    assert _again(graph, "nt", tmp_path) == sorted(graph.match())
    again = open_graph(tmp_path / "again-nt.kg")
    assert again.id_of("Paris (Q90)") == "http://x/Q90"


def test_ids_that_are_no_iris_come_back_from_ntriples(tmp_path: Path) -> None:
    (tmp_path / "wd.tsv").write_text("Q90\tP17\tQ142\nQ8\tP17\tQ30\n")
    (tmp_path / "names.tsv").write_text("Q90\tParis\nQ8\tParis\nQ142\tFrance\nP17\tcountry\n")
    build([tmp_path / "wd.tsv"], tmp_path / "wd.kg", labels=tmp_path / "names.tsv")
    graph = open_graph(tmp_path / "wd.kg")
    assert _again(graph, "nt", tmp_path) == sorted(graph.match())
    assert open_graph(tmp_path / "again-nt.kg").neighbors("Q90", "P17").names == ["France"]


def test_a_view_exports_what_it_shows(tmp_path: Path) -> None:
    graph = store_of(tmp_path, [("a", "r", "b", "1990"), ("a", "r", "c", "2000")])
    assert b"".join(export(graph.between("1999", None), "tsv")) == b"a\tr\tc\t2000\n"
    lines = b"".join(export(graph.subgraph([0]), "nq")).decode().splitlines()
    assert len(lines) == 4  # one fact, and labels for what is in it
    with pytest.raises(KgwalkError, match="choose one of tsv, nt, nq"):
        export(graph, "xlsx")
