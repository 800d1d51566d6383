"""What an ending needs is told without a search: it is the shortest text of all, the first in order among equals."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import temporary_store
from kgwalk.kg.graph import Graph
from kgwalk.llm.automaton import Automaton
from kgwalk.llm.grammar import END, NOTHING, STOPPED, Ending, Grammar, GrammarRule
from kgwalk.systems.kgwalk.protocol import Kgwalk
from kgwalk.types import Question
from kgwalk.walk.next_hops import next_hops
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.shortest_path_texts import Bracket

Items = frozenset[GrammarRule]
# `a-` stands between `a)` and `a/`; `c^` and `b|` have signs of paths, so each is a path by itself.
RELATIONS = ["is_a", "a", "a-", "b", "bb", "c", "c^", "b|", "long one"]
THINGS = ["x", "y", "z", "u", "v", "7", "1990-01-02"]


def defined(items: Items, most: int = 60) -> Ending | None:
    """The shortest ending by looking at all texts, in the order of their lengths."""
    layer, seen = {items: b""}, {items}
    for length in range(most):
        found = [(text, one) for here, text in layer.items() for one in (STOPPED, END) if one in here]
        if found:
            text, one = min(found, key=lambda pair: (pair[0], pair[1] is END))
            return length, text, int(one is END)
        further: dict[Items, bytes] = {}
        for here, text in sorted(layer.items(), key=lambda pair: pair[1]):
            for byte in sorted({byte for rule in here for byte in rule.firsts()}):
                there = NOTHING.union(*(rule.step(byte) for rule in here))
                if there and there not in seen:
                    seen.add(there)
                    further[there] = text + bytes([byte])
        layer = further
    return None


def told(items: Items) -> Ending | None:
    return min((ending for rule in items if (ending := rule.shortest()) is not None), default=None)


def begun(graph: Graph, topic: str, *, walkable: bool = True) -> Grammar:
    protocol = Kgwalk(language="full", thoughts=False, walkable=walkable)
    walk = protocol.begin(Task(Question("q", "?", [topic], []), [topic], kinds=[]), Environment(graph), len)
    grammar = walk.grammar(answer=False)
    assert grammar is not None
    return grammar


def after(items: Items, text: bytes) -> Items:
    for byte in text:
        items = NOTHING.union(*(rule.step(byte) for rule in items))
    return items


CALLS = ["tail_entities", "head_entities", "filter", "argmax", "argmin", "sum", "top", "group", "table", "when"]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(THINGS), st.sampled_from(RELATIONS), st.sampled_from(THINGS)), min_size=2, max_size=14
    ),
    st.booleans(),
    st.booleans(),
    st.integers(0, 1 << 30),
)
def test_what_is_told_is_the_shortest_text(
    facts: list[tuple[str, str, str]], dated: bool, walkable: bool, seed: int
) -> None:
    chance = random.Random(seed)
    with temporary_store([(*fact, chance.choice(["1990..1995", ""])) for fact in facts] if dated else facts) as graph:
        whole = begun(graph, facts[0][0], walkable=walkable).rule.items()
        assert told(whole) == defined(whole)
        call = chance.choice(CALLS)
        text = f'{call}($1, "'.encode()
        here = after(whole, text) or whole
        for _ in range(14):
            assert told(here) == defined(here), (call, text)
            firsts = sorted({byte for rule in here for byte in rule.firsts()})
            signs = [byte for byte in firsts if byte in b"(|/^"]
            if not firsts:
                break
            byte = chance.choice(signs if signs and chance.random() < 0.7 else firsts)
            here, text = after(here, bytes([byte])), text + bytes([byte])


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(THINGS), st.sampled_from(RELATIONS), st.sampled_from(THINGS)), min_size=3, max_size=14
    ),
    st.sampled_from(["", "a", "^a", "^is_a", "a-", "bb/^bb", "^c"]),
    st.sampled_from(["(", "((", "(a|", "(^a|", "(a/", "(^is_a/", "(^is_a|is_a/", "(a-|", "(bb|^b/", "(^c/c|^c/"]),
)
def test_the_same_in_brackets_of_numbers(facts: list[tuple[str, str, str]], before: str, opened: str) -> None:
    """From whichever alternative a path goes on to a number."""
    with temporary_store(facts) as graph:
        for call in ("argmax", "sum", "filter"):
            for topic in {head for head, _, _ in facts}:
                text = f'{call}($1, "{before}{"/" * bool(before)}{opened}'
                here = after(begun(graph, topic).rule.items(), text.encode())
                if not here:
                    continue
                for byte in {byte for rule in here for byte in rule.firsts()}:
                    there = after(here, bytes([byte]))
                    assert told(there) == defined(there), (topic, text, chr(byte))


def test_by_hand() -> None:
    """An item has a price; a delivery has items and a date, which is written shorter."""
    facts = [("i1", "price", "40"), ("d1", "item", "i1"), ("d1", "on", "2024-05-02"), ("d1", "is_a", "delivery")]
    with temporary_store(facts) as graph:
        hops = next_hops(graph, str)
        assert hops is not None
        texts, item = hops.table.texts, hops.starts(graph, ["i1"])
        assert texts.step(item) == b"^item"
        assert texts.to_measured(item, 3) == b"price"
        delivery = hops.starts(graph, ["d1"])
        assert texts.to_measured(delivery, 1) == b"on"
        only = tuple(hop for hop in item if hops.table.names[hop // 2] == "item")
        assert texts.to_measured(only, 1) is None
        assert texts.to_measured(only, 2) == b"^item/on"
        bracket = Bracket(only, 2)
        assert texts.in_bracket(only, 2, bracket) == b"^item)/on"
        assert texts.beside(bracket.with_one(only, 0, False)) is None  # no steps are left for any of them
        assert texts.beside(bracket.with_one(only, 1, False)) == b"|^item)/on"
        assert texts.beside(bracket.with_one(delivery, 1, False)) == b")/on"
        kind = tuple(hop for hop in delivery if hops.table.names[hop // 2] == "is_a")
        assert texts.to_measured(kind, 5) == b"is_a/^is_a/on"


def test_a_need_is_counted_of_that_text() -> None:
    """Of which tokens may come with just the room of the shortest ending there is always one."""
    facts = [("Ann", "xqz", "Bob"), ("Bob", "mass", "70"), ("Bob", "born", "1990-02-03"), ("Ann", "is_a", "person")]
    automaton = Automaton([*(bytes([byte]) for byte in range(256)), b'")', b"born", b"/", None], 259)
    with temporary_store(facts) as graph:
        state = automaton.start(begun(graph, "Ann"))
        for byte in b'argmax($1, "(xqz/':
            there = state.after(byte)
            assert there is not None
            state = there
        assert defined(state.items) == (len(b'born)")'), b'born)")', 1)
        assert state.need == 4  # `born`, `)`, `")` and the end
        assert len(state.allowed(state.need)) > 0


@pytest.mark.parametrize("walkable", [True, False])
def test_a_search_finds_the_same(walkable: bool) -> None:
    """Where nothing is told, the grammar itself is searched: with the same result."""
    from kgwalk.llm.grammar import _nearest_end

    facts = [("Ann", "xqz", "Bob"), ("Bob", "mass", "70"), ("Bob", "born", "1990-02-03"), ("Ann", "is_a", "person")]
    with temporary_store(facts) as graph:
        for text in (b"", b'argmax($1, "', b'argmax($1, "(xqz', b'table($1, "', b'filter($1, "(xqz|'):
            for rule in after(begun(graph, "Ann", walkable=walkable).rule.items(), text):
                assert (_nearest_end(rule) or None) == rule.shortest()
