"""Which step can follow which: paths that lead nowhere in the whole graph are not written, all others are."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import memory_folder, store_of, temporary_store
from kgwalk.kg.graph import Graph
from kgwalk.kg.store import StoredGraph
from kgwalk.kg.views import incomplete
from kgwalk.llm.automaton import Automaton
from kgwalk.llm.grammar import END, NOTHING, STOPPED, Grammar, GrammarRule
from kgwalk.systems.kgwalk.path_grammar import Walkable
from kgwalk.systems.kgwalk.protocol import Kgwalk
from kgwalk.types import Question
from kgwalk.walk import next_hops as module
from kgwalk.walk.next_hops import HopTable, next_hops
from kgwalk.walk.protocol import Environment, Task

SITE = [
    ("Roof Membrane", "is_a", "product"),
    ("Roof Membrane", "price", "40"),
    ("Oak Floor", "is_a", "product"),
    ("Oak Floor", "stock", "7"),
    ("DL-1", "is_a", "delivery"),
    ("DL-1", "item", "Roof Membrane"),
    ("DL-1", "meant_for", "Hall Roof"),
    ("DL-1", "arrived", "2024-05-02"),
    ("DL-2", "item", "Roof Membrane"),
    ("Hall Roof", "is_a", "task"),
    ("Hall Roof", "lead", "Sally Quirke"),
    ("Hall Roof", "before", "Handover"),
    ("Handover", "is_a", "task"),
    ("Handover", "needs", "Hall Roof"),
]


@pytest.fixture(scope="module")
def site() -> StoredGraph:
    with memory_folder() as folder:
        return store_of(folder, SITE)


def told(table: HopTable, hops: Sequence[int]) -> list[str]:
    return sorted("^" * (hop % 2) + table.names[hop // 2] for hop in hops)


def hop(table: HopTable, name: str) -> int:
    return 2 * table.names.index(name.removeprefix("^")) + name.startswith("^")


def allows(graph: Graph, topics: Sequence[str], text: str, *calls: str, walkable: bool = True) -> bool:
    """Whether a turn may be this text, after these calls."""
    protocol = Kgwalk(language="full", thoughts=False, walkable=walkable)
    walk = protocol.begin(Task(Question("q", "?", list(topics), []), topics, kinds=[]), Environment(graph), len)
    for call in calls:
        step = walk.parse(call)
        assert walk.act(step).ok, call  # type: ignore[arg-type]
    grammar = walk.grammar(answer=False)
    assert grammar is not None
    here = grammar.rule.items()
    for byte in text.encode():
        here = NOTHING.union(*(rule.step(byte) for rule in here)) if here else NOTHING
    return END in here or STOPPED in here


def test_what_can_follow_a_step(site: StoredGraph) -> None:
    hops = next_hops(site, str)
    assert hops is not None
    table = hops.table
    assert told(table, table.after[hop(table, "^item")]) == ["arrived", "is_a", "item", "meant_for"]
    assert told(table, table.after[hop(table, "meant_for")]) == ["^meant_for", "^needs", "before", "is_a", "lead"]
    assert told(table, table.after[hop(table, "lead")]) == ["^lead"]


def test_a_first_step_is_any_that_a_thing_of_the_class_has(site: StoredGraph) -> None:
    """No price of the Oak Floor is known, and nothing was delivered: that is an answer. Products have no lead."""
    hops = next_hops(site, str)
    assert hops is not None
    assert told(hops.table, hops.starts(site, ["Oak Floor"])) == ["^item", "is_a", "price", "stock"]
    assert told(hops.table, hops.starts(site, ["Sally Quirke"])) == ["^lead"]
    assert hops.starts(site, ["Nobody"]) == hops.starts(site, []) == ()


def test_what_leads_to_numbers_and_dates(site: StoredGraph) -> None:
    hops = next_hops(site, str)
    assert hops is not None
    table = hops.table
    measured = [number for number, yes in enumerate(table.measured) if yes]
    assert told(table, measured) == ["arrived", "price", "stock"]
    assert table.to_measured[hop(table, "item")] == 1  # item/price
    assert table.to_measured[hop(table, "^lead")] == 2  # ^lead/^meant_for/arrived


def test_the_shortest_path_is_known_without_opening_any(site: StoredGraph) -> None:
    hops = next_hops(site, str)
    assert hops is not None
    here = hops.starts(site, ["Hall Roof"])
    assert told(hops.table, here) == ["^before", "^meant_for", "^needs", "before", "is_a", "lead", "needs"]
    assert hops.table.fewest_bytes(here, False) == len("is_a")
    assert hops.table.fewest_bytes(here, True) == len("is_a/^is_a/price")  # any class, anything of it
    assert hops.table.fewest_bytes((hop(hops.table, "lead"),), True) == len("lead/^lead/is_a/^is_a/price")
    assert hops.table.fewest_bytes((), False) == module.NEVER


def test_a_number_may_lie_in_a_node_that_only_holds_it() -> None:
    """`price` of a price with a currency is ordered by its amount."""
    facts = [("Desk", "price", "p1"), ("p1", "amount", "40"), ("p1", "currency", "EUR"), ("Desk", "made_in", "Oslo")]
    with temporary_store(facts) as graph:
        assert allows(graph, ["Desk"], 'argmax($1, "price")')
        assert not allows(graph, ["Desk"], 'argmax($1, "made_in")')


@pytest.mark.parametrize(
    ("text", "yes"),
    [
        ('tail_entities($1, "^item")', True),
        ('tail_entities($1, "^item/meant_for/lead")', True),
        ('tail_entities($1, "^item/lead")', False),  # what is delivered for has a lead, a delivery has none
        ('tail_entities($1, "^item/^lead")', False),
        ('tail_entities($1, "item")', False),  # nothing is an item of a product
        ('head_entities($1, "item")', True),
        ('head_entities($1, "price")', False),
        ('tail_entities($1, "stock")', True),  # of another product it is known
        ('tail_entities($1, "price+")', False),  # a price has no price
        ('filter($1, "^item/arrived", "<", "2024")', True),
        ('filter($1, "is_a", "=", "product")', True),
        ('filter($1, "is_a", ">", "2")', False),  # neither numbers nor dates
        ('filter($1, "count(^item)", ">", "0")', True),
        ('filter($1, "count(lead)", "=", "0")', False),
        ('argmax($1, "price")', True),
        ('argmax($1, "is_a")', False),  # no number
        ('argmax($1, "^item")', False),
        ('argmax($1, "^item/arrived")', True),
        ('argmax($1, "count(^item)")', True),
        ('top($1, "is_a", "3")', True),  # in the order of the letters
        ('sum($1, "price")', True),
        ('table($1, "price", "stock", "^item/arrived")', True),
        ('table($1, "price", "lead")', False),
        ('tail_entities($1, "(^item/meant_for)")', True),
        ('tail_entities($1, "(^item/lead)")', False),
        ('tail_entities($1, "price|stock")', True),
        ('tail_entities($1, "price|lead")', False),
        ('tail_entities($1, "^item/item/^item/item/^item")', True),
        ('tail_entities($1, "^item/item/^item/item/^item/item")', False),  # more steps than anyone asks for
        ('argmax($1, "^item/item/^item/item/price")', True),
        # alternatives in a bracket begin where it was opened, with the steps that were left there
        ('tail_entities($1, "^item/(arrived|meant_for)")', True),
        ('tail_entities($1, "^item/(arrived|price)")', False),
        ('tail_entities($1, "(^item|price)/arrived")', True),  # after one of them
        ('tail_entities($1, "(price|^item)/arrived")', True),
        ('tail_entities($1, "(price|^item)/lead")', False),
        ('tail_entities($1, "^item/item/(^item|price)/item/^item")', True),
        ('tail_entities($1, "^item/item/(^item|price)/item/^item/item")', False),
        ('argmax($1, "price|stock")', True),
        ('argmax($1, "is_a|price")', False),  # each of them is a number
        ('argmax($1, "price|is_a")', False),
        ('argmax($1, "(is_a|price)")', False),
        ('argmax($1, "(^item|^item/item/^item)/arrived")', True),
    ],
)
def test_a_call_has_paths_that_lead_somewhere(site: StoredGraph, text: str, yes: bool) -> None:
    assert allows(site, ["Roof Membrane"], text) == yes
    assert allows(site, ["Roof Membrane"], text, walkable=False)


def test_each_set_has_paths_of_its_own(site: StoredGraph) -> None:
    begun = 'tail_entities($1, "^item")', 'tail_entities($2, "meant_for")'
    assert allows(site, ["Roof Membrane"], 'tail_entities($3, "lead")', *begun)
    assert not allows(site, ["Roof Membrane"], 'tail_entities($2, "lead")', *begun)
    assert allows(site, ["Roof Membrane"], 'tail_entities($3, "(before/needs)+")', *begun)
    assert not allows(site, ["Roof Membrane"], 'tail_entities($3, "(before/price)+")', *begun)
    assert allows(site, ["Roof Membrane"], 'tail_entities($3, "(before|^needs)+")', *begun)


def test_dates_are_for_facts_that_have_some() -> None:
    facts = [("Ann", "works_for", "Acme", "2019.."), ("Ann", "born_in", "Bonn", "")]
    with temporary_store(facts) as graph:
        for text, yes in {
            'tail_entities($1, "works_for@2020")': True,
            'tail_entities($1, "born_in@2020")': False,
            'when($1, "works_for")': True,
            'when($1, "born_in")': False,
            'table($1, "start(works_for)")': True,
            'table($1, "start(born_in)")': False,
        }.items():
            assert allows(graph, ["Ann"], text) == yes, text


def test_a_subgraph_has_its_own_and_other_views_those_of_the_store(site: StoredGraph) -> None:
    prices = site.subgraph([number for number, fact in enumerate(site.match()) if fact.relation == "price"])
    [only] = {fact.relation for fact in prices.match()}
    hops = next_hops(prices, str)
    assert hops is not None
    assert (only, hops.table.names) == ("price", ("price",))
    hidden = incomplete(site, list(site.match(relation="lead")), drop=1.0)
    assert next_hops(hidden, str) is next_hops(site, str)


def test_of_a_large_set_without_a_class_any_step_may_be_first(
    site: StoredGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only some of its members are looked at: the one with a lead might be another."""
    hops = next_hops(site, str)
    assert hops is not None
    nobody = ["40", "7", "2024-05-02", "Sally Quirke"]
    assert told(hops.table, hops.starts(site, nobody)) == ["^arrived", "^lead", "^price", "^stock"]
    monkeypatch.setattr(module, "MEMBERS", 3)
    assert hops.starts(site, nobody) == module.ANY
    products = ["Roof Membrane", "Oak Floor", "Roof Membrane", "Oak Floor"]
    assert told(hops.table, hops.starts(site, products)) == ["^item", "is_a", "price", "stock"]


def test_a_table_of_another_process_is_the_same(site: StoredGraph) -> None:
    """Texts have another hash in each process: that of a table is not sent with it."""
    hops = next_hops(site, str)
    assert hops is not None
    code = "import pickle, sys; one = pickle.load(sys.stdin.buffer); print(hash(one) == hash((one.names, one.after)))"
    run = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(hops.table), capture_output=True, check=True)
    assert run.stdout.strip() == b"True"


def test_a_large_graph_is_not_looked_through(site: StoredGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_HOPS", 4)
    assert next_hops(site, str, "few") is None
    assert next_hops(site, str) is not None  # known already


def test_a_set_with_very_many_first_steps_may_take_any(site: StoredGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products have four. A person has one."""
    monkeypatch.setattr(module, "MOST_STARTS", 3)
    assert allows(site, ["Roof Membrane"], 'tail_entities($1, "lead")')
    assert allows(site, ["Roof Membrane"], 'filter($1, "lead", ">", "2")')
    assert not allows(site, ["Sally Quirke"], 'tail_entities($1, "price")')


NAMES = st.sampled_from(["a", "b", "c", "d", "e", "f"])


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(NAMES, st.sampled_from(["is_a", "r", "s", "t", "u"]), NAMES), min_size=1, max_size=12),
    st.integers(0, 1 << 30),
)
def test_whatever_leads_somewhere_may_be_written(facts: list[tuple[str, str, str]], seed: int) -> None:
    """A path that was walked from an entity is within its grammar; so is each of its steps backwards."""
    chance = random.Random(seed)
    with temporary_store(facts) as graph:
        start = here = chance.choice(facts)[0]
        path = []
        for _ in range(chance.randint(1, 3)):
            ways = [(name, out) for out in (True, False) for name in graph.relations(here, out=out)]
            relation, out = chance.choice(ways)
            path.append(("" if out else "^") + relation)
            here = chance.choice(graph.neighbors(here, relation, out=out).names)
        assert allows(graph, [start], f'tail_entities($1, "{"/".join(path)}")')
        more = [("" if out else "^") + name for out in (True, False) for name in graph.relations(start, out=out)]
        rest = "".join(f"/{one}" for one in path[1:])
        assert allows(graph, [start], f'tail_entities($1, "({"|".join([*more, path[0]])}){rest}|{more[0]}")')
        last = path[-1][1:] if path[-1].startswith("^") else f"^{path[-1]}"
        assert allows(graph, [here], f'tail_entities($1, "{last}")')
        assert allows(graph, [here], f'head_entities($1, "{path[-1]}")')


def rooms(grammar: Grammar, texts: Sequence[str]) -> list[tuple[int, int]]:
    """Of each place on these texts: what an ending needs, and how many tokens may come with just that room."""
    pieces = [bytes([byte]) for byte in range(256)] + [b"tail", b"_ent", b"ities", b"mass (kg)", b'")', None]
    automaton = Automaton(pieces, len(pieces) - 1)
    state, found = automaton.start(grammar), []
    for text in texts:
        here = state
        for byte in text.encode():
            found.append((here.need, len(here.allowed(here.need))))
            there = here.after(byte)
            assert there is not None, text
            here = there
    return found


def test_there_is_always_room_for_an_ending() -> None:
    """Also where the fewest bytes are not the fewest tokens: `xqz` are three, `mass (kg)` is one."""
    facts = [("Ann", "xqz", "Bob"), ("Bob", "xqz", "Cem"), ("Ann", "mass (kg)", "70"), ("Cem", "^odd|", "70")]
    with temporary_store(facts) as graph:
        protocol = Kgwalk(language="full", thoughts=False)
        walk = protocol.begin(Task(Question("q", "?", ["Ann"], []), ["Ann"], kinds=[]), Environment(graph), len)
        grammar = walk.grammar(answer=False)
        assert grammar is not None
        calls = ['tail_entities($1, "xqz/xqz+|xqz', 'tail_entities($1, "mass (kg)', 'argmax($1, "count(xqz/(xqz|^xqz))']
        for need, allowed in rooms(grammar, calls):
            assert need < 60
            assert allowed > 0


def test_few_steps_are_opened_to_find_an_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four layers with forty relations from each to the next, numbers behind the last: 64,000 ways to them."""
    facts = [
        (f"{layer} {place}", f"{relation}{'x' * relation} of {layer}", f"{layer + 1} {place % 3}")
        for layer in range(3)
        for relation in range(40)
        for place in range(3)
    ]
    opened = []
    step = Walkable._step

    def counted(self: Walkable, *given: Any) -> GrammarRule:
        opened.append(given)
        return step(self, *given)

    monkeypatch.setattr(Walkable, "_step", counted)
    with temporary_store([*facts, *((f"3 {place}", "price", "7") for place in range(3))]) as graph:
        protocol = Kgwalk(language="full", thoughts=False)
        walk = protocol.begin(Task(Question("q", "?", ["0 0"], []), ["0 0"], kinds=[]), Environment(graph), len)
        grammar = walk.grammar(answer=False)
        assert grammar is not None
        assert all(need < 120 for need, _ in rooms(grammar, ['argmax($1, "0 of 0/0 of 1/0 of 2/price']))
    assert len(opened) < 100  # each once, and hardly any more; a search by bytes alone opens 137
