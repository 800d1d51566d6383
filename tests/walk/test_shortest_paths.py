"""Shortest paths between two entities: all of them and no others, in either direction, within limits."""

from __future__ import annotations

import itertools
import random
from collections import deque

import pytest

from kgwalk.bench.servers import ScanGraph
from kgwalk.types import UnknownEntity
from kgwalk.walk.shortest_paths import shortest_paths

FACTS = [
    ("a", "to", "b"),
    ("c", "to", "b"),  # against its direction on the way from b
    ("c", "to", "d"),
    ("a", "via", "e"),
    ("e", "via", "d"),
    ("a", "year", "1999"),
    ("d", "year", "1999"),
    ("alone", "to", "nowhere"),
]
GRAPH = ScanGraph(FACTS)


def names(start: str, end: str, **options: int) -> list[list[str]]:
    """The facts of each path, as the names of their ends."""
    found = shortest_paths(GRAPH, start, end, passes=lambda name: not name.isdigit(), **options)
    return sorted(["".join(fact[::2]) for fact in path] for path in found.paths())


def test_paths_by_hand() -> None:
    assert names("a", "d") == [["ae", "ed"]]
    assert names("b", "d") == [["cb", "cd"]]
    assert names("b", "e") == [["ab", "ae"]]
    assert names("a", "1999") == [["a1999"]]  # a value may be an end, not a way
    assert names("a", "a") == [[]]
    assert names("a", "d", hops=1) == []
    assert names("a", "alone") == []
    whole = shortest_paths(GRAPH, "a", "d")
    assert (whole.hops, len(list(whole.paths()))) == (2, 2)  # where values may be passed, by their year too
    with pytest.raises(UnknownEntity):
        shortest_paths(GRAPH, "a", "zork")


def test_a_limit_that_leaves_something_out_says_so() -> None:
    hub = ScanGraph([("hub", "has", f"part {number}") for number in range(50)])
    assert shortest_paths(hub, "part 1", "part 49", each=10).cut
    assert not shortest_paths(hub, "part 1", "part 49", each=50).cut
    assert shortest_paths(hub, "part 1", "part 49", most=1).hops is None


@pytest.mark.parametrize("seed", range(6))
def test_the_same_as_a_search_from_one_end(seed: int) -> None:
    draws = random.Random(seed)
    nodes = [f"n{number}" for number in range(12)]
    facts = sorted({(draws.choice(nodes), draws.choice("rs"), draws.choice(nodes)) for _ in range(22)})
    graph = ScanGraph(facts)
    there = sorted({name for fact in facts for name in fact[::2]})
    for start, end in itertools.permutations(there, 2):
        found = shortest_paths(graph, start, end, hops=12)
        paths = [[tuple(fact[:3]) for fact in path] for path in found.paths()]
        expected = by_hand(facts, start, end)
        assert sorted(paths) == expected
        assert found.hops == (len(expected[0]) if expected else None)


def by_hand(facts: list[tuple[str, str, str]], start: str, end: str) -> list[list[tuple[str, str, str]]]:
    """All shortest paths by going on from every path, the shortest first."""
    paths: deque[tuple[str, list[tuple[str, str, str]], frozenset[str]]] = deque([(start, [], frozenset([start]))])
    found: list[list[tuple[str, str, str]]] = []
    while paths:
        at, path, seen = paths.popleft()
        if found and len(path) >= len(found[0]):
            break
        for fact in facts:
            for here, other in ((fact[0], fact[2]), (fact[2], fact[0])):
                if here == at and other == end:
                    found.append([*path, fact])
                elif here == at and other not in seen:
                    paths.append((other, [*path, fact], seen | {other}))
    return sorted(found)
