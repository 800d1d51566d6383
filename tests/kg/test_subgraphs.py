"""Per-question subgraphs: breadth first by hand on small graphs, and stored lists that open as views."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import few_names, store_of, temporary_store
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.kg.subgraphs import Seeds, around, write_subgraphs
from kgwalk.types import InputError, StoreError, Triple, UnknownQuestion

CHAIN = [("a", "r", "b"), ("b", "r", "c"), ("c", "r", "d"), ("x", "s", "a"), ("y", "s", "z")]


def _around(graph: StoredGraph, seeds: str, hops: int, hub: int = 100, most: int = 1000) -> set[str]:
    numbers = np.array([graph.store.entity_number(name) for name in seeds], np.int64)
    triples, _ = around(graph, numbers, hops, hub=hub, max_triples=most)
    return {t.head + t.tail for t in graph.triples(triples)}


def test_edges_are_followed_both_ways(tmp_path: Path) -> None:
    graph = store_of(tmp_path, CHAIN)
    assert _around(graph, "a", 1) == {"ab", "xa"}
    assert _around(graph, "a", 2) == {"ab", "xa", "bc"}
    assert _around(graph, "a", 9) == {"ab", "xa", "bc", "cd"}
    assert _around(graph, "ay", 1) == {"ab", "xa", "yz"}
    assert _around(graph, "", 3) == set()


def test_a_hub_is_followed_only_so_far_but_keeps_every_relation(tmp_path: Path) -> None:
    facts = [("h", "many", f"m{n}") for n in range(50)] + [
        ("h", "one", "o"),
        ("m7", "r", "far"),
        ("m7", "r", "farther"),
    ]
    graph = store_of(tmp_path, facts)
    kept = graph.triples(around(graph, np.array([graph.store.entity_number("h")]), 1, hub=3, max_triples=99)[0])
    assert [t.relation for t in kept].count("many") == 3
    assert Triple("h", "one", "o") in kept
    assert Triple("h", "many", "m7") in kept  # the best connected of the fifty
    few, cut = around(graph, np.array([graph.store.entity_number("h")]), 1, hub=99, max_triples=10)
    assert (len(few), cut) == (10, True)


@given(
    st.lists(st.tuples(few_names, st.sampled_from("pq"), few_names), min_size=1, max_size=25),
    few_names,
    st.integers(1, 4),
)
@settings(max_examples=40)
def test_the_same_as_a_plain_search(facts: list[tuple[str, str, str]], topic: str, hops: int) -> None:
    reached, kept = {topic}, set()
    for _ in range(hops):
        kept |= {t for t in facts if t[0] in reached or t[2] in reached}
        reached |= {name for t in kept for name in (t[0], t[2])}
    with temporary_store(facts) as graph:
        number = graph.store.entity_number(topic)
        seeds = np.array([] if number is None else [number], np.int64)
        triples, cut = around(graph, seeds, hops, hub=1000, max_triples=1000)
        assert {t[:3] for t in graph.triples(triples)} == kept
        assert not cut


def test_stored_beside_the_graph_and_found_by_question(tmp_path: Path) -> None:
    graph = store_of(tmp_path, CHAIN)
    report = write_subgraphs(graph, [Seeds("q1", ["a"]), Seeds("q2", ["nobody", "y"]), Seeds("q3", ["nobody"])], hops=1)
    assert (report.questions, report.triples, report.largest, report.empty) == (3, 3, 2, 1)
    assert report.unknown == ["nobody"]
    opened = open_graph(tmp_path / "graph.kg")
    assert {t.head + t.tail for t in opened.question("q1").match()} == {"ab", "xa"}
    assert opened.question("q1").relations("a", out=False) == ["s"]
    assert opened.question("q1").neighbors("a", "s", out=False).names == ["x"]
    assert list(opened.question("q3").match()) == []
    assert opened.info()["questions"] == 3
    with pytest.raises(UnknownQuestion):
        opened.question("q4")
    assert opened.question_sets is not None
    assert opened.question_sets.folder.header["around"] == ["topics"]


def test_gold_answers_are_marked(tmp_path: Path) -> None:
    graph = store_of(tmp_path, CHAIN)
    write_subgraphs(graph, [Seeds("q1", ["a"], ["d"])], hops=1)
    sets = open_graph(tmp_path / "graph.kg").question_sets
    assert sets is not None
    assert sets.folder.header["around"] == ["topics", "answers"]


def test_lists_of_another_store_are_refused(tmp_path: Path) -> None:
    write_subgraphs(store_of(tmp_path, CHAIN), [Seeds("q1", ["a"])])
    (tmp_path / "b").mkdir()
    other = store_of(tmp_path / "b", CHAIN[:3])
    (tmp_path / "graph.kg" / "subgraphs").rename(other.store.folder.path / "subgraphs")
    with pytest.raises(StoreError, match="made for another graph"):
        other.question("q1")


def test_questions_that_cannot_be(tmp_path: Path) -> None:
    graph = store_of(tmp_path, CHAIN)
    with pytest.raises(InputError, match="'q1' occurs twice"):
        write_subgraphs(graph, [Seeds("q1", ["a"]), Seeds("q1", ["b"])])
    with pytest.raises(InputError, match="no questions"):
        write_subgraphs(graph, [])
    assert not (graph.store.folder.path / "subgraphs").exists()
