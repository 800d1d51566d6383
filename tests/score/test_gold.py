"""Names and right answers: which texts are the same entity, and which are not however alike they look."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from types import ModuleType

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conftest import awkward_names
from kgwalk.data.bundled import SPLITS, world_path, world_questions
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.score import answers, episode, exploration, statistics
from kgwalk.score.answers import Gold, forms, gold_of, key, match
from kgwalk.types import Question


@pytest.mark.parametrize(
    "module",
    [answers, episode, exploration, statistics],
    ids=lambda m: m.__name__,
)
def test_the_examples_in_the_modules(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Washington, D.C.", "washington d.c"),
        ('"Weird Al" Yankovic', "“Weird Al” Yankovic"),
        ("Paris (Texas)", "paris_texas"),
        ("Beyoncé", "BEYONCE"),
        ("Beyonce\u0301", "Beyoncé"),
        ("  Tom \n Hanks ", "tom hanks"),
        ("1,000", "1000"),
        ("1,234,567.50", "1234567.5"),
        ("−5", "-5"),
        ("2.0", "2"),
        ("-0.0", "0"),
        ("10,000 Maniacs", "10000 maniacs"),
        ("2000-01-31", "2000/01/31"),
        ("F-16", "f 16"),
        ("C ++", "c++"),
        ("C＋＋", "C++"),
    ],
)
def test_the_same_name(one: str, other: str) -> None:
    assert Gold(((one,),)).entity_of(other) == 0
    assert Gold(((other,),)).entity_of(one) == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("C", "C++"),
        ("C++", "C#"),
        ("C♯", "C"),
        ("Google", "Google+"),
        ("5", "-5"),
        ("15", "1.5"),
        ("1 5", "1.5"),
        ("1-5", "1.5"),
        ("5", "$5"),
        ("5", "5%"),
        ("98", "98°"),
        ("-5 °C", "5 °C"),
        ("-2015-08-10", "2015-08-10"),  # before our era, and in it
        ("O-", "O+"),
        ("O-", "O"),
        ('"O-"', "O"),
        ("(-5)", "5"),
        ("Sagittarius A", "Sagittarius A*"),
        ("7", "007"),
        ("US", "music"),
        ("1999", "1999-05-01"),
        ("1999-05-01", "May 1, 1999"),  # dates are names: how they are written is left to the data's aliases
        ("2.5", "2,5"),
        ("The 1975", "1975"),
        ("The The", "The"),
        ("The The", "the"),
        ("A", "The"),
        ("A-ha", "Ha"),
        ("Tom Hanks", "Tom Hank"),
        ("!!!", "!!"),
    ],
)
def test_not_the_same_name(one: str, other: str) -> None:
    assert Gold(((one,),)).entity_of(other) is None
    assert Gold(((other,),)).entity_of(one) is None


@pytest.mark.parametrize("blank", ["", " ", "\n\t", "\u3000"])
def test_a_blank_text_names_nothing(blank: str) -> None:
    assert key(blank) == ""
    assert gold_of(Question("q", "?", [], [blank, "Paris"])).entities == (("Paris",),)
    assert Gold((("!!!",), ("the",), ("?",))).entity_of(blank) is None


def test_a_leading_article_is_dropped_where_that_is_clear() -> None:
    beatles = Gold((("The Beatles",),))
    assert [beatles.entity_of(name) for name in ("Beatles", "A Beatles", "the_beatles", '"The" Beatles')] == [0] * 4
    assert Gold((("Beatles",),)).entity_of("The Beatles") == 0
    # "Band" without its article could be either; written out, each is itself.
    bands = Gold((("The Band",), ("A Band",)))
    assert [bands.entity_of(name) for name in ("Band", "the band", "a band")] == [None, 0, 1]
    # The entity that is called so without an article comes before one that is called so with it.
    both = Gold((("The Band",), ("Band",)))
    assert [both.entity_of(name) for name in ("Band", "The Band", "A Band")] == [1, 0, None]
    assert Gold((("The The",), ("A",))).entity_of("A") == 1


def test_an_id_beside_its_name_is_the_same_entity() -> None:
    aliases = {"Barack Obama": ["m.02mjmr", "Obama"]}
    beside = gold_of(Question("q", "?", [], ["Barack Obama"], aliases=aliases))
    assert beside.entities == (("Barack Obama", "m.02mjmr", "Obama"),)
    listed = gold_of(Question("q", "?", [], ["m.02mjmr", "Joe Biden", "Barack Obama"], aliases=aliases))
    assert listed.entities == (("m.02mjmr", "Barack Obama", "Obama"), ("Joe Biden",))
    assert [listed.entity_of(name) for name in ("OBAMA", "m.02mjmr", "joe biden")] == [0, 0, 1]


def test_answers_that_are_spelt_alike_are_one_entity() -> None:
    question = Question("q", "?", [], ["São Paulo", "Sao Paulo", "C", "C++", "Paris", "Paris"])
    assert gold_of(question).entities == (("São Paulo", "Sao Paulo"), ("C",), ("C++",), ("Paris",))


def test_a_shared_alias_does_not_make_two_answers_one() -> None:
    aliases = {"Georgia (country)": ["Georgia"], "Georgia (state)": ["Georgia"]}
    shared = gold_of(Question("q", "?", [], list(aliases), aliases=aliases))
    assert len(shared) == 2
    # It stands for one of them, the first; the full names tell them apart.
    assert [shared.entity_of(name) for name in ("Georgia", "georgia country", "Georgia (State)")] == [0, 0, 1]


def test_an_own_name_comes_before_the_alias_of_another() -> None:
    aliases = {"São Paulo FC": ["Sao Paulo"]}
    clubs = gold_of(Question("q", "?", [], ["São Paulo FC", "São Paulo"], aliases=aliases))
    assert len(clubs) == 2
    assert [clubs.entity_of(name) for name in ("São Paulo", "Sao Paulo", "SAO PAULO!")] == [1, 0, 1]


def test_an_answer_that_joins_two_others() -> None:
    aliases = {"c": ["A1", "B1"]}
    assert gold_of(Question("q", "?", [], ["a1", "b1", "c"], aliases=aliases)).entities == (
        ("a1", "b1", "c", "A1", "B1"),
    )


def test_two_names_of_the_graph_are_two_entities(store: Callable[..., StoredGraph]) -> None:
    graph = store([("Paris", "r", "paris"), ("The Band", "r", "Band"), ("30", "r", "30.00")])
    right = Gold((("Paris",), ("The Band",)))
    assert [right.entity_of(name) for name in ("paris", "PARIS", "Band")] == [0, 0, 1]
    assert [right.entity_of(name, graph) for name in ("paris", "PARIS", "Band", "A Band")] == [None, 0, None, 1]
    # unless the data says that they are one, or they are numbers
    assert Gold((("Paris", "paris"),)).entity_of("paris", graph) == 0
    assert Gold((("30",),)).entity_of("30.00", graph) == 0


def test_the_world_questions_against_themselves() -> None:
    graph = open_graph(world_path())
    for question in [question for split in SPLITS for question in world_questions(split)]:
        right = gold_of(question)
        assert len(right) == len(question.answers)
        assert match(question.answers, right, graph).exact_set == 1.0
        assert match([f" {name.upper()}!" for name in question.answers], right, graph).f1 == 1.0
    # A domain of the internet and a country's code: alike, and two entities of this graph.
    assert match([".va"], Gold((("VA",),)), graph).f1 == 0.0


@pytest.mark.parametrize(
    ("answer", "truth", "same"), [("True", True, "yes"), ("no", False, "Incorrect."), ("YES", True, "true")]
)
def test_true_and_false_go_by_many_words(answer: str, truth: bool, same: str) -> None:
    right = gold_of(Question("q", "?", [], [answer], extra={"answer_kind": "boolean"}))
    assert (right.truth, len(right), right.entity_of(same)) == (truth, 1, 0)
    assert gold_of(Question("q", "?", [], [answer])).truth is None


@given(awkward_names)
@example('"-0')
@example("0:-0")
@example("at -5 °C")
def test_a_key_is_a_name_of_its_own_key(name: str) -> None:
    assert key(key(name)) == key(name)
    assert (key(name) == "") == (not name.strip())
    assert forms(name.upper()).key == forms(name).key or not name.isascii()


@given(st.integers(), st.integers(0, 10**6), st.integers(-(10**9), 10**9))
def test_numbers_are_told_apart(one: int, other: int, large: int) -> None:
    assert (key(str(one)) == key(str(other))) == (one == other)
    assert key(f"{large:,}") == key(str(large)) == key(f"{large}.00")
    assert key(f"{large}.5") != key(f"{large}5")


@given(awkward_names.filter(str.strip), awkward_names | st.sampled_from("aA.-"), st.booleans())
def test_an_entity_is_named_by_any_form_of_its_name(name: str, other: str, derived: bool) -> None:
    text = f"{other}{name.swapcase()}" if derived else other
    same = name == text or any(one == two for one, two in zip(forms(name), forms(text), strict=True))
    assert Gold(((name,),)).entity_of(text) == (0 if same else None)
