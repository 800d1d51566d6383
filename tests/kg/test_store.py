"""The store answers as a plain list of triples does, after any build, under any name, through any view."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import FILMS, awkward_names, few_names, store_of, temporary_store
from kgwalk.bench.servers import ScanGraph
from kgwalk.kg.graph import Graph
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.kg.times import parse_time, parse_window
from kgwalk.kg.views import incomplete
from kgwalk.types import StoreError, Triple, UnknownEntity, UnknownQuestion, UnknownRelation

Store = Callable[..., StoredGraph]
dates = st.sampled_from(["", "1990", "1991-05", "1992-02-29", "1990..1993", "..1991", "1992.."])
awkward_triples = st.lists(st.tuples(awkward_names, awkward_names, awkward_names), min_size=1, max_size=12)
dense_triples = st.lists(st.tuples(few_names, st.sampled_from("pqr"), few_names), min_size=1, max_size=40)
dated_triples = st.lists(st.tuples(few_names, st.sampled_from("pq"), few_names, dates), min_size=1, max_size=30)


def assert_same(graph: Graph, triples: list[Triple], others: list[str]) -> None:
    """Every question of the protocol, for every name there is and some that are not."""
    plain = ScanGraph(triples)
    names = sorted({name for t in triples for name in (t.head, t.tail)} | set(others))
    relations = sorted({t.relation for t in triples} | {"no such relation"})
    assert sorted(graph.match()) == sorted(set(triples))
    for relation in relations:
        assert graph.has_relation(relation) == plain.has_relation(relation)
        assert sorted(graph.match(relation=relation)) == sorted(plain.match(relation=relation))
    for name in names:
        assert (name in graph) == (name in plain)
        assert sorted(graph.match(head=name)) == sorted(plain.match(head=name))
        assert sorted(graph.match(tail=name)) == sorted(plain.match(tail=name))
        for out in (True, False):
            if name not in plain:
                with pytest.raises(UnknownEntity):
                    graph.relations(name, out=out)
                continue
            assert graph.relations(name, out=out) == plain.relations(name, out=out)
            for relation in relations[:-1]:
                if not plain.has_relation(relation):
                    continue
                mine, theirs = (g.neighbors(name, relation, out=out) for g in (graph, plain))
                assert mine.total == len(mine.names) == theirs.total
                dates = [theirs.times[theirs.names.index(n)] for n in mine.names] if theirs.times else None
                assert sorted(mine.names) == theirs.names
                if dates is not None and mine.times is not None:
                    assert [sorted(times) for times in mine.times] == dates
                for limit in (0, 1, 2):
                    cut = graph.neighbors(name, relation, out=out, limit=limit)
                    assert cut.names == mine.names[:limit]
                    assert cut.total == mine.total
            with pytest.raises(UnknownRelation):
                graph.neighbors(name, "no such relation", out=out)


def test_a_small_graph_by_hand(store: Store) -> None:
    graph = store([*FILMS, FILMS[0]])
    assert len(graph) == 7
    assert graph.relations("Big") == ["directed_by", "release_year", "starred_actors"]
    assert graph.relations("Tom Hanks", out=False) == ["starred_actors"]
    assert graph.relations("Tom Hanks") == []
    assert sorted(graph.neighbors("Tom Hanks", "starred_actors", out=False)) == ["Big", "Cast Away"]
    # most connected first: Cast Away has three facts, Contact one
    assert graph.neighbors("Robert Zemeckis", "directed_by", out=False).names == ["Cast Away", "Contact"]
    assert graph.neighbors("Robert Zemeckis", "directed_by", out=False, limit=1).left_out == 1
    assert list(graph.match("Big", "directed_by")) == [Triple("Big", "directed_by", "Penny Marshall")]
    assert list(graph.match("Big", None, "1988")) == [Triple("Big", "release_year", "1988")]
    assert list(graph.match("nobody")) == []
    assert [f.name for f in graph.find("tom hancks", 1)] == ["Tom Hanks"]
    assert [f.name for f in graph.find_relation("directed by", 1)] == ["directed_by"]
    assert graph.info()["entities"] == 8


@given(awkward_triples)
@settings(max_examples=40)
def test_any_names(triples: list[tuple[str, str, str]]) -> None:
    with temporary_store(triples) as graph:
        assert_same(graph, [Triple(*t) for t in triples], ["not there", ""])


@given(dense_triples)
@settings(max_examples=40)
def test_many_edges_between_few(triples: list[tuple[str, str, str]]) -> None:
    with temporary_store(triples) as graph:
        assert_same(graph, [Triple(*t) for t in triples], ["z"])


def test_all_facts_by_number(store: Store) -> None:
    graph = store([("a", "r", "b"), ("b", "s", "c"), ("a", "s", "c")])
    assert _named(graph) == {("a", "r", "b"), ("b", "s", "c"), ("a", "s", "c")}
    assert _named(incomplete(graph, [Triple("b", "s", "c")], 1.0)) == {("a", "r", "b"), ("a", "s", "c")}


def _named(graph: StoredGraph) -> set[tuple[str, str, str]]:
    store = graph.store
    return {
        (store.entity[head], store.relation_name(relation), store.entity[tail])
        for head, relation, tail in np.stack(graph.facts_by_number(), 1).tolist()
    }


@given(dated_triples)
@settings(max_examples=40)
def test_dates(triples: list[tuple[str, str, str, str]]) -> None:
    with temporary_store(triples) as graph:
        assert_same(graph, [Triple(*t) for t in triples], ["z"])


@given(
    dated_triples,
    st.sampled_from([None, "1990", "1991-06"]),
    st.sampled_from([None, "1991-06", "1995"]),
    st.booleans(),
)
@settings(max_examples=40)
def test_time_windows(
    triples: list[tuple[str, str, str, str]], start: str | None, end: str | None, undated: bool
) -> None:
    low, high = parse_window(start, end)

    def holds(time: str) -> bool:
        if not time:
            return undated
        first, last = parse_time(time)
        return first <= high and last >= low

    with temporary_store(triples) as graph:
        kept = [Triple(*t) for t in triples if holds(t[3])]
        view = graph.between(start, end, undated=undated)
        assert len(view) == len(set(kept))
        assert_same(view, kept, list("abcdef"))


@given(dense_triples, st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_subgraphs_and_views_of_views(triples: list[tuple[str, str, str]], rng: random.Random) -> None:
    with temporary_store(triples) as graph:
        numbers = list(range(len(graph)))
        first = [n for n in numbers if rng.random() < 0.6]
        second = [n for n in numbers if rng.random() < 0.6]
        kept = graph.triples(np.array(first, np.int64))
        view = graph.subgraph(first)
        assert_same(view, kept, list("abcdef"))
        both = graph.triples(np.array(sorted(set(first) & set(second)), np.int64))
        assert_same(view.subgraph(second), both, list("abcdef"))
        crucial = [t for t in kept if rng.random() < 0.5]
        hidden = {frozenset((t.head, t.tail)) for t in crucial}
        left = [t for t in kept if frozenset((t.head, t.tail)) not in hidden]
        assert_same(incomplete(view, crucial, drop=1.0), left, list("abcdef"))


def test_an_incomplete_graph_by_hand(store: Store) -> None:
    graph = store(
        [
            ("a", "r", "b"),
            ("a", "s", "b"),
            ("b", "t", "a"),
            ("a", "r", "c"),
            ("c", "r", "d"),
            ("d", "r", "e"),
            ("e", "r", "f"),
        ]
    )
    crucial = [
        Triple("a", "r", "b"),
        Triple("a", "r", "c"),
        Triple("c", "r", "d"),
        Triple("d", "r", "e"),
        Triple("e", "r", "f"),
    ]
    assert len(incomplete(graph, crucial, drop=0.0)) == 7
    # every relation between a and b goes with the first, in both directions
    assert sorted(incomplete(graph, crucial[:1], drop=1.0).match()) == sorted(
        Triple(*t) for t in [("a", "r", "c"), ("c", "r", "d"), ("d", "r", "e"), ("e", "r", "f")]
    )
    sizes = {
        drop: len(crucial) - sum(t in set(incomplete(graph, crucial, drop, seed=3).match()) for t in crucial)
        for drop in (0.2, 0.4, 0.6)
    }
    assert sizes == {0.2: 1, 0.4: 2, 0.6: 3}
    one, again = (list(incomplete(graph, order, 0.4, seed=3).match()) for order in (crucial, crucial[::-1]))
    assert one == again
    assert {tuple(incomplete(graph, crucial, 0.4, seed=s).match()) for s in range(20)} != {tuple(one)}
    with pytest.raises(ValueError, match="between 0 and 1"):
        incomplete(graph, crucial, drop=1.5)


def test_reopened_and_moved(store: Store, tmp_path: Path) -> None:
    before = sorted(store(FILMS).match())
    shutil.move(tmp_path / "graph.kg", tmp_path / "moved.kg")
    assert sorted(open_graph(tmp_path / "moved.kg").match()) == before


def test_a_hub_with_a_million_edges(tmp_path: Path) -> None:
    source = tmp_path / "hub.tsv"
    source.write_text("".join(f"hub\tknows\tperson {n}\n" for n in range(1_000_000)) + "hub\tlikes\tperson 7\n")
    from kgwalk.kg.build import build

    build([source], tmp_path / "hub.kg")
    graph = open_graph(tmp_path / "hub.kg")
    assert graph.relations("hub") == ["knows", "likes"]
    known = graph.neighbors("hub", "knows", limit=3)
    assert known.total == 1_000_000
    assert known.names[0] == "person 7"  # the only one with two facts
    assert graph.neighbors("person 7", "likes", out=False).names == ["hub"]
    assert len(list(graph.match("hub", "likes", "person 7"))) == 1


def test_self_loops_and_unicode_twins(store: Store) -> None:
    graph = store([("a", "r", "a"), ("é", "r", "e\u0301")])  # composed and decomposed stay two names
    assert graph.neighbors("a", "r").names == ["a"]
    assert graph.neighbors("a", "r", out=False).names == ["a"]
    assert graph.neighbors("é", "r").names == ["e\u0301"]
    assert {f.name for f in graph.find("É", 2)} == {"é", "e\u0301"}


def test_unknown_names_come_with_the_nearest(store: Store) -> None:
    from kgwalk.kg.graph import with_nearest

    graph = store(FILMS)
    with pytest.raises(UnknownEntity) as entity:
        graph.relations("Tom Hank")
    assert (
        str(with_nearest(graph, entity.value, 1)) == "entity 'Tom Hank' is not in the graph; did you mean 'Tom Hanks'?"
    )
    with pytest.raises(UnknownRelation) as relation:
        graph.neighbors("Big", "directedby")
    assert with_nearest(graph, relation.value, 1).nearest == ["directed_by"]
    with pytest.raises(UnknownQuestion):
        graph.question("q1")


def test_a_lone_surrogate_is_simply_not_there(store: Store) -> None:
    assert "\ud800" not in store(FILMS)
    assert store(FILMS).find("\ud800 Tom Hanks", 1)[0].name == "Tom Hanks"


def _damage(path: Path, name: str, how: Callable[[bytes], bytes]) -> None:
    file = path / name
    file.write_bytes(how(file.read_bytes()))


@pytest.mark.parametrize(
    ("name", "how", "message"),
    [
        ("kgwalk.json", lambda b: b[:-30], "truncated or corrupted"),
        ("kgwalk.json", lambda b: b"[]", "truncated or corrupted"),
        ("kgwalk.json", lambda b: b.replace(b'"triples": 7', b'"triples": 8'), "checksum does not match"),
        ("out.other.bin", lambda b: b[:-4], "holds 24 bytes and should hold 28"),
        ("entity.heap.bin", lambda b: b + b"x", "build the store again"),
    ],
)
def test_a_damaged_store_does_not_open(
    store: Store, tmp_path: Path, name: str, how: Callable[[bytes], bytes], message: str
) -> None:
    store(FILMS)
    _damage(tmp_path / "graph.kg", name, how)
    with pytest.raises(StoreError, match=message):
        open_graph(tmp_path / "graph.kg")


def test_a_missing_array_a_foreign_folder_and_another_version(store: Store, tmp_path: Path) -> None:
    store(FILMS)
    with pytest.raises(StoreError, match="does not exist"):
        open_graph(tmp_path / "nowhere.kg")
    with pytest.raises(StoreError, match=r"a folder without a store .* give .*graph\.kg"):
        open_graph(tmp_path)
    with pytest.raises(StoreError, match="not a kgwalk store"):
        open_graph(tmp_path / "facts.jsonl")
    from kgwalk.kg.files import read_header, write_header
    from kgwalk.kg.store import KIND, VERSION

    header = read_header(tmp_path / "graph.kg", kind=KIND, version=VERSION)
    write_header(tmp_path / "graph.kg", {**header, "version": 99})
    with pytest.raises(StoreError, match=r"version 99 .* reads version 1"):
        open_graph(tmp_path / "graph.kg")
    write_header(tmp_path / "graph.kg", {**header, "kind": "something else"})
    with pytest.raises(StoreError, match="holds a something else"):
        open_graph(tmp_path / "graph.kg")
    write_header(tmp_path / "graph.kg", header)
    (tmp_path / "graph.kg" / "in.start.bin").unlink()
    with pytest.raises(StoreError, match=r"in\.start\.bin is missing"):
        open_graph(tmp_path / "graph.kg")


def test_verify_finds_one_flipped_bit_in_any_array(tmp_path: Path) -> None:
    store_of(tmp_path, [(*t, "1990") for t in FILMS])
    folder = open_graph(tmp_path / "graph.kg").store.folder
    assert sum(size for _, size in folder.verify()) == folder.size()
    for file in sorted((tmp_path / "graph.kg").glob("*.bin")):
        good = file.read_bytes()
        if good:
            file.write_bytes(bytes([good[0] ^ 1]) + good[1:])
            with pytest.raises(StoreError, match=f"{file.name} is corrupted"):
                list(open_graph(tmp_path / "graph.kg").store.folder.verify())
            file.write_bytes(good)
