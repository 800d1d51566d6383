"""Lessons: an entry drawn, a graph under other names, and questions that still have their answers."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from benchmarks.lessons.lesson import Ask, Lesson, lessons, read_lesson
from benchmarks.lessons.variants import Renamed, built, questions_of, variant_of, walk

from kgwalk.types import Call, KgwalkError

LESSON = """
title = "A bakery"
files = ["shops.csv", "breads.csv", "sales.csv"]
options = ["--table"]
[names]
breads = ["loaves"]
sales = ["deals"]
price = ["cost"]
shop_id = ["sold_at"]
[[ask]]
shape = "one hop"
texts = ["how much is the {bread}", "price of {bread}?", "what do you charge for a {bread}"]
fill = { bread = ["Rye Loaf", "Brioche"] }
entities = ["{bread}"]
calls = ['tail_entities($1, "price")']
[[ask]]
shape = "three hops"
texts = ["in which cities is {bread} sold", "where do they sell {bread}", "cities with {bread}"]
fill = { bread = ["Rye Loaf", "Brioche"] }
entities = ["{bread}"]
calls = ['tail_entities($1, "^bread_id/shop_id")', 'tail_entities($2, "city")']
[[ask]]
shape = "comparison"
texts = ["breads under {most}", "what can i get for less than {most}", "anything below {most}"]
fill = { most = [["three euros", "3"]] }
kinds = ["breads"]
calls = ['filter($1, "price", "<", "{most}")']
[[ask]]
shape = "not in the graph"
texts = ["calories of {bread}", "how fat is {bread}", "is {bread} vegan"]
fill = { bread = ["Rye Loaf"] }
entities = ["{bread}"]
calls = []
"""


@pytest.fixture
def bakery(tmp_path: Path) -> Lesson:
    folder = tmp_path / "bakery"
    folder.mkdir()
    (folder / "shops.csv").write_text("id,name,city\n1,Mill Lane,Porto\n2,Harbour,Lisbon\n")
    (folder / "breads.csv").write_text("id,name,price\n1,Rye Loaf,3.2\n2,Spelt Roll,0.9\n3,Brioche,2.5\n")
    (folder / "sales.csv").write_text("id,shop_id,bread_id\n1,1,1\n2,1,2\n3,2,1\n")
    (folder / "lesson.toml").write_text(LESSON)
    return read_lesson(folder)


def test_a_text_says_it_one_way_and_the_call_another(bakery: Lesson) -> None:
    drawn = bakery.asks[2].drawn(random.Random(0), "breads under {most}")
    assert drawn.text == "breads under three euros"
    assert drawn.calls == (Call("filter", (1, "price", "<", "3")),)


def test_a_variant_renames_relations_kinds_and_rows(bakery: Lesson) -> None:
    renamed = Renamed({"sales": "deals", "shop_id": "sold_at", "breads": "loaves"})
    assert renamed.name("sales 2") == "deals 2"
    assert renamed.call(Call("argmax", (1, "count(^shop_id in $2)"))).args == (1, "count(^sold_at in $2)")
    with built(bakery) as graph:
        facts, drawn = variant_of(bakery, graph, random.Random(3))
        said = {fact.relation for fact in facts}
        assert said == {drawn.names.get(one, one) for one in ("is_a", "name", "city", "price", "shop_id", "bread_id")}
        assert said != {fact.relation for fact in graph.match()}


def test_every_question_of_a_variant_has_its_answer(bakery: Lesson) -> None:
    """Brioche is sold nowhere, so only the other filling is asked. Some sayings ask nothing of the graph."""
    chance = random.Random(1)
    with built(bakery) as graph:
        facts, renamed = variant_of(bakery, graph, chance)
    made = questions_of(bakery, "bakery-0", facts, renamed, chance, each=2)
    talk = [question for question in made if "-talk-" in question.id]
    by_shape = {question.type: question for question in made if question not in talk}
    assert (len(made), len(talk)) == (12, 4)
    assert all(question.extra["answer_kind"] == "none" and not question.topic_entities for question in talk)
    assert sorted(by_shape["three hops"].answers) == ["Lisbon", "Porto"]
    assert sorted(by_shape["comparison"].answers) == ["Brioche", "Spelt Roll"]
    assert by_shape["not in the graph"].extra["answer_kind"] == "none"
    assert by_shape["one hop"].extra["graph_id"] == "bakery-0"


def test_what_is_wrong_with_an_entry_is_said(bakery: Lesson) -> None:
    wrong = Ask("one hop", ["a {x}", "b {x}", "c"], ["count($1)"], entities=["{y}"], fill={"x": ["1"]})
    assert wrong.problems() == [
        "'c' lacks x",
        "the walk has slots that nothing fills: y",
        "the walk does not use x",
    ]
    with built(bakery) as graph, pytest.raises(KgwalkError, match="no 'Bagel'"):
        walk(Ask("one hop", [], [], entities=["Bagel"]).drawn(random.Random(0), "bagel"), graph)


@pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: lesson.name)
def test_the_entries_of_a_lesson_are_in_order(lesson: Lesson) -> None:
    assert [problem for ask in lesson.asks for problem in ask.problems()] == []
