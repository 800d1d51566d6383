"""What lies behind a relation, in listings: worked examples over a small shop of three tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import store_of
from kgwalk.kg.build import build
from kgwalk.kg.sources.source import Options
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.systems.kgwalk.protocol import Kgwalk
from kgwalk.types import Call, Question
from kgwalk.walk.look_ahead import Behind, Outlook, spread
from kgwalk.walk.protocol import Environment, Task

TABLES = {
    "bikes.csv": "id,name,price\n1,Swift,900\n2,Wren,700\n",
    "parts.csv": "id,name,cost\n1,Bell,4\n2,Leather Saddle,30\n",
    "bike_parts.csv": "id,bike_id,part_id,quantity\n1,1,2,1\n2,2,1,2\n3,1,1,1\n",
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> StoredGraph:
    folder = tmp_path_factory.mktemp("shop")
    for name, text in TABLES.items():
        (folder / name).write_text(text)
    build([folder / name for name in TABLES], folder / "shop.kg", options=Options(table=True))
    return open_graph(folder / "shop.kg")


def walk(graph: StoredGraph, topics: list[str], ahead: int = 8, samples: bool = False):
    question = Question("q", "which bikes have a leather saddle", topics, [])
    protocol = Kgwalk(language="full", documented=False, ahead=ahead, samples=samples)
    return protocol.begin(Task(question, topics, kinds=[]), Environment(graph), len)


def test_a_row_that_joins_two_things_says_what_it_joins(shop: StoredGraph) -> None:
    asked = walk(shop, ["Leather Saddle"]).prompt()[1].content
    assert asked.splitlines()[1:] == [
        "$1 = 1 parts: Leather Saddle",
        "-> cost",
        "<- part_id (bike_parts: bike_id, quantity)",
    ]


def test_every_result_looks_ahead_and_says_what_it_is(shop: StoredGraph) -> None:
    one = walk(shop, ["Leather Saddle"])
    rows = one.act(Call("head_entities", (1, "part_id"))).render(40)
    assert rows.splitlines() == [
        "$2 = 1 bike_parts: bike_parts 1",
        "-> bike_id (bikes: price), part_id (parts: cost), quantity",
    ]
    assert one.act(Call("tail_entities", (2, "bike_id"))).render(40).splitlines()[0] == "$3 = 1 bikes: Swift"


def test_samples_tell_numbers_days_and_names_apart(shop: StoredGraph, tmp_path: Path) -> None:
    asked = walk(shop, ["Leather Saddle"], samples=True).prompt()[1].content
    assert asked.splitlines()[2:] == ["-> cost = 30", "<- part_id (bike_parts: bike_id, quantity)"]  # a class is enough
    facts = [
        ("Ann", "born", "1990-05-01"),
        ("Ann", "lives_in", "Oslo"),
        ("Oslo", "mayor", "Eva"),
        ("Oslo", "twinned_with", "a town whose name is too long to be shown whole"),
        ("Ann", "account", "_:b7"),
        ("Ann", "height", "n1"),
        ("n1", "amount", "1.82 m"),
    ]
    people = store_of(tmp_path, facts)
    start = walk(people, ["Ann"], samples=True)
    assert start.prompt()[1].content.splitlines()[2] == (
        "-> account, born = 1990-05-01, height/amount = 1.82 m, lives_in = Oslo (mayor, twinned_with)"
    )
    there = start.act(Call("tail_entities", (1, "lives_in"))).render(40)
    assert there.splitlines()[1] == "-> mayor = Eva, twinned_with = a town whose name is..."


def test_without_it_nothing_is_said(shop: StoredGraph) -> None:
    asked = walk(shop, ["Leather Saddle"], ahead=0).prompt()[1].content
    assert asked.splitlines()[1:] == ["$1 = 1: Leather Saddle", "-> cost", "<- part_id"]


def test_where_there_is_no_room_the_relations_stay_and_the_notes_go(shop: StoredGraph) -> None:
    shown = walk(shop, ["Leather Saddle"])._show(1)
    whole = shown.render(40)
    assert shown.fit(len, len(whole)).text == whole
    assert shown.fit(len, len(whole) - 1).text == "$1 = 1 parts: Leather Saddle\n-> cost\n<- part_id"


def test_things_like_the_set_and_things_like_others_are_said_in_a_word(tmp_path: Path) -> None:
    (tmp_path / "g.tsv").write_text(
        "jq\tdepends_on\tlibc\njq\tsection\tutils\njq\tversion\t1.6\njq\tsize\t90\n"
        "libc\tsection\tlibs\nlibc\tversion\t2.36\nlibc\tsize\t12000\n"
        "jq\tmade_by\tAnn\njq\ttested_by\tBob\n"
        "Ann\temail\ta@x.org\nAnn\tphone\t1\nAnn\tcity\tRome\nBob\temail\tb@x.org\nBob\tphone\t2\nBob\tcity\tBern\n"
    )
    build([tmp_path / "g.tsv"], tmp_path / "g.kg")
    graph = open_graph(tmp_path / "g.kg")
    around = [("depends_on", True), ("made_by", True), ("tested_by", True), ("size", True)]
    notes = Outlook(graph).notes(["jq"], around, 5)
    assert notes == [" (alike)", " (city, email, phone)", " (as made_by)", ""]


def test_many_relations_leave_no_room_for_what_is_behind_each(tmp_path: Path) -> None:
    facts = [f"hub\tr{n}\tthing {n}\n" for n in range(21)]
    facts += [f"thing {n}\tof_{n}_{side}\tend\n" for n in range(21) for side in "abc"]
    (tmp_path / "g.tsv").write_text("".join(facts))
    build([tmp_path / "g.tsv"], tmp_path / "g.kg")
    outlook = Outlook(open_graph(tmp_path / "g.kg"))
    assert outlook.notes(["hub"], [("r1", True), ("r2", True)], 2) == [" (of_1_a, of_1_b)", " (of_2_a, of_2_b)"]
    assert set(outlook.notes(["hub"], [(f"r{n}", True) for n in range(21)], 8)) == {""}


def test_names_of_a_note_are_escaped() -> None:
    assert Behind(("<b>",), ("a\nb",)).note(3).count("\n") == 0


def test_spread_takes_from_all_over() -> None:
    assert spread(["a", "b"], 3) == ["a", "b"]
    assert spread(list("abcdef"), 2) == ["a", "d"]
