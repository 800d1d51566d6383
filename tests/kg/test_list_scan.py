"""ScanGraph by hand-checked examples: everything else is compared with it."""

from __future__ import annotations

import pytest

from kgwalk.bench.servers import ScanGraph
from kgwalk.kg.graph import Graph
from kgwalk.types import Neighbors, Triple, UnknownEntity, UnknownRelation

FILMS = [
    ("Big", "director", "Penny Marshall"),
    ("Big", "star", "Tom Hanks"),
    ("Cast Away", "star", "Tom Hanks"),
    ("Cast Away", "star", "Helen Hunt"),
    ("Big", "star", "Tom Hanks"),
]
DATED = [
    ("Iran", "visit", "Malaysia", "2006-07"),
    ("Iran", "visit", "Malaysia", "2006-05"),
    ("Japan", "visit", "Malaysia", "2005-05"),
    ("Japan", "visit", "Peru"),
]


@pytest.fixture
def films() -> ScanGraph:
    return ScanGraph(FILMS)


def test_it_is_a_graph(films: ScanGraph) -> None:
    assert isinstance(films, Graph)


def test_membership(films: ScanGraph) -> None:
    assert "Big" in films
    assert "Tom Hanks" in films
    assert "star" not in films
    assert 7 not in films
    assert films.has_relation("star")
    assert not films.has_relation("Big")


def test_relations_in_both_directions(films: ScanGraph) -> None:
    assert films.relations("Big") == ["director", "star"]
    assert films.relations("Tom Hanks", out=False) == ["star"]
    assert films.relations("Tom Hanks") == []


def test_neighbors_are_distinct_and_sorted_by_name(films: ScanGraph) -> None:
    assert films.neighbors("Cast Away", "star") == Neighbors(["Helen Hunt", "Tom Hanks"], 2)
    assert films.neighbors("Tom Hanks", "star", out=False) == Neighbors(["Big", "Cast Away"], 2)
    assert films.neighbors("Cast Away", "star", limit=1) == Neighbors(["Helen Hunt"], 2)
    assert films.neighbors("Cast Away", "star", limit=0) == Neighbors([], 2)
    assert films.neighbors("Big", "director", out=False) == Neighbors([], 0)


def test_dates_are_sorted_and_an_undated_fact_has_none() -> None:
    graph = ScanGraph(DATED)
    assert graph.neighbors("Malaysia", "visit", out=False) == Neighbors(
        ["Iran", "Japan"], 2, [["2006-05", "2006-07"], ["2005-05"]]
    )
    assert graph.neighbors("Japan", "visit") == Neighbors(["Malaysia", "Peru"], 2, [["2005-05"], []])


def test_match_takes_none_for_anything_and_drops_repeats(films: ScanGraph) -> None:
    assert list(films.match()) == [Triple(*fact) for fact in FILMS[:4]]
    assert list(films.match(None, "star", "Tom Hanks")) == [Triple(*FILMS[1]), Triple(*FILMS[2])]
    assert list(films.match("Big", limit=1)) == [Triple(*FILMS[0])]
    assert list(films.match("Tom Hanks")) == []


def test_unknown_names_raise_and_match_nothing(films: ScanGraph) -> None:
    with pytest.raises(UnknownEntity, match="'Bigg' is not in the graph"):
        films.relations("Bigg")
    with pytest.raises(UnknownEntity):
        films.neighbors("Bigg", "stars")
    with pytest.raises(UnknownRelation):
        films.neighbors("Big", "stars")
    assert list(films.match(tail="Bigg")) == []


def test_find_puts_exact_before_normalised_before_fuzzy() -> None:
    graph = ScanGraph([("Tom_Hanks", "r", "tom hanks"), ("Tom Hank", "r", "xyz")])
    found = graph.find("tom hanks")
    assert [(one.name, one.how) for one in found] == [
        ("tom hanks", "exact"),
        ("Tom_Hanks", "normalised"),
        ("Tom Hank", "fuzzy"),
    ]
    assert [one.score for one in found[:2]] == [1.0, 1.0]
    assert 0 < found[2].score < 1
    assert graph.find("tom hanks", k=1) == found[:1]
    assert [one.name for one in graph.find_relation("R")] == ["r"]
