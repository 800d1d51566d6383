"""What words mean that no name has: synonyms of kinds and values, and implied kinds, on a small festival."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import memory_folder, store_of
from kgwalk.kg.store import StoredGraph
from kgwalk.kg.views import incomplete
from kgwalk.walk.kind_choice import FEATURES, choose_kind, profiles, weights
from kgwalk.walk.linking import link, topics
from kgwalk.walk.question_words import Text
from kgwalk.walk.starts import starts_in
from kgwalk.walk.word_vectors import WIDTH, noun_share, similarity, vector

FILMS = [("Teeth", "horror", "92"), ("Owl Season", "horror", "89"), ("Seven Goats", "western", "131")]
FESTIVAL = [
    *((film, "is_a", "film") for film, _, _ in FILMS),
    *((film, "genre", genre) for film, genre, _ in FILMS),
    *((film, "runtime_minutes", minutes) for film, _, minutes in FILMS),
    ("Teeth", "directed_by", "Rachel Stern"),
    ("Rachel Stern", "is_a", "director"),
    ("Rachel Stern", "born_in", "1971"),
    ("Lido", "is_a", "venue"),
    ("Lido", "seats", "620"),
    ("Line X9", "is_a", "bus line"),
    ("Line X9", "leads_to", "Lido"),
    ("Cardiology", "is_a", "ward"),
    ("Emergency", "is_a", "ward"),
    ("Heart failure", "is_a", "diagnosis"),
    ("Insulin", "is_a", "drug"),
    ("Insulin", "refrigerated", "yes"),
]


@pytest.fixture(scope="module")
def festival() -> StoredGraph:
    with memory_folder() as folder:
        return store_of(folder, FESTIVAL)


@pytest.mark.parametrize(
    ("question", "things", "kinds"),
    [
        ("scary movies", ["horror"], []),  # a value by its meaning
        ("youngest filmmaker", [], ["director"]),  # a kind
        ("how many medicines are there", [], ["drug"]),
        ("everything that must be kept in the fridge", [], ["drug"]),  # the kind that has such a relation
        ("anything with more than 600 seats", [], ["venue"]),
        ("who was born before 1980", [], ["director"]),
        ("where is the heart ward", ["Cardiology"], []),  # of the wards, not Heart failure
        ("where does the x9 go", ["Line X9"], []),  # a code that one name has
        ("hello", [], []),  # says nothing of the graph
        ("tell me a joke", [], []),
    ],
)
def test_what_no_name_has(festival: StoredGraph, question: str, things: list[str], kinds: list[str]) -> None:
    mentions, found = starts_in(question, festival)
    assert topics(mentions) == things
    if kinds:
        assert [kind.name for kind in found] == kinds
    elif not things:
        assert found == []


def test_a_mention_by_meaning_says_so_and_is_never_sure(festival: StoredGraph) -> None:
    [mention] = starts_in("scary movies", festival)[0]
    assert (mention.text, mention.why, mention.sure) == ("scary", "fuzzy: by meaning", False)


def test_what_a_view_leaves_out_is_not_meant(festival: StoredGraph) -> None:
    """Without the facts of its genres there is no horror film; the graph that the view is of still has two."""
    without = incomplete(festival, list(festival.match(tail="horror")), drop=1.0)
    assert "horror" not in without
    assert topics(starts_in("scary movies", without)[0]) == []
    assert topics(starts_in("where does the x9 go", without)[0]) == ["Line X9"]
    assert topics(starts_in("scary movies", festival)[0]) == ["horror"]


def test_questions_in_other_languages_go_by_names_alone(festival: StoredGraph) -> None:
    assert starts_in("welche sind die scary filme", festival)[0] == []


def test_the_kind_that_is_implied_is_the_likeliest_and_said(festival: StoredGraph) -> None:
    first, *others = choose_kind(Text("longer than 100 minutes"), festival)
    assert (first.kind.name, first.said) == ("film", True)
    assert first.probability > max(one.probability for one in others)
    assert not any(one.said for one in choose_kind(Text("hello"), festival))


def test_what_is_read_of_a_kind(festival: StoredGraph) -> None:
    of = {one.kind.name: one for one in profiles(festival)}
    assert (of["film"].numbers, of["film"].dates, of["director"].dates) == (True, False, True)
    assert of["director"].people > 0 == of["venue"].people
    assert (of["venue"].pointed_at, of["director"].pointed_at) == (1, 1)  # by leads_to and by directed_by
    assert of["film"].size == pytest.approx(3 / 10)
    assert len(weights()) == len(FEATURES)


def test_words_lie_near_what_they_mean() -> None:
    assert similarity("prawns", "shrimp") > 0.6 > similarity("prawns", "lorry")
    assert similarity("midwives", "midwife") == pytest.approx(1.0)  # another form
    assert similarity("clients", "customer") > similarity("clients", "product")
    row = vector("heart attack")
    assert row is not None
    assert (row.shape, float(np.linalg.norm(row))) == ((WIDTH,), pytest.approx(1.0))
    assert vector("Zyxwvut") is None
    assert vector("tokyo") is None  # a name
    assert noun_share("cinema") > 0.9 > 0.1 > noun_share("send")


def test_a_word_of_english_is_no_initials() -> None:
    with memory_folder() as folder:
        graph = store_of(folder, [("Maria of Montferrat", "child", "Isabella"), ("Unit of Care", "lies_in", "Kiel")])
        assert topics(link("who is the mom of isabella", graph)) == ["Isabella"]
        assert topics(link("who works on the uoc", graph)) == ["Unit of Care"]
