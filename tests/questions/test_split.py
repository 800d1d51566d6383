"""Splits of made questions: no chain of relations, no topic with its one relation, no text in two of them."""

from __future__ import annotations

from collections import Counter

import pytest

from kgwalk.questions.make import split_key, split_questions
from kgwalk.types import KgwalkError, Question

RELATIONS = [f"r{number}" for number in range(8)]


def _question(number: int, topic: str, *relations: str) -> Question:
    program = [["tail_entities", f"${at}", relation] for at, relation in enumerate(relations, 1)]
    text = f"question {number}"
    return Question(str(number), text, [topic], ["x"], len(relations), type="chain", extra={"program": program})


def _questions() -> list[Question]:
    chains = [(one, two) for one in RELATIONS for two in RELATIONS]
    made = [(f"topic {number % 40}", chains[number % len(chains)]) for number in range(400)]
    made += [(f"topic {number % 40}", (RELATIONS[number % 7],)) for number in range(200)]
    return [_question(number, topic, *relations) for number, (topic, relations) in enumerate(made)]


def test_no_chain_and_no_topic_of_one_relation_is_in_two_splits() -> None:
    questions = _questions()
    splits = split_questions(questions, seed=1)
    assert sorted(one.id for split in splits.values() for one in split) == sorted(one.id for one in questions)
    places: dict[object, set[str]] = {}
    for name, split in splits.items():
        for question in split:
            program = question.extra["program"]
            assert isinstance(program, list)
            chain = tuple(step[2] for step in program)
            seen = chain if len(chain) > 1 else (question.topic_entities[0], chain)
            places.setdefault(seen, set()).add(name)
            places.setdefault(split_key(question), set()).add(name)
    assert all(len(names) == 1 for names in places.values())


def test_every_kind_has_its_share_in_every_split() -> None:
    splits = split_questions(_questions(), shares={"train": 8, "dev": 1, "test": 1})
    counts = {name: Counter(question.hops for question in split) for name, split in splits.items()}
    for hops, whole in ((1, 200), (2, 400)):
        assert counts["train"][hops] == pytest.approx(0.8 * whole, abs=0.05 * whole)
        assert counts["dev"][hops] == pytest.approx(0.1 * whole, abs=0.05 * whole)


def test_the_order_of_questions_stays_and_the_seed_decides() -> None:
    questions = _questions()
    one, two = split_questions(questions, 0), split_questions(questions, 1)
    numbers = [int(question.id) for question in one["train"]]
    assert numbers == sorted(numbers)
    assert one == split_questions(questions, 0)
    assert [question.id for question in one["test"]] != [question.id for question in two["test"]]


def test_two_directions_are_two_keys() -> None:
    forth = _question(1, "a", "r1", "r2")
    back = Question(
        "2", "?", ["a"], [], extra={"program": [["head_entities", "$1", "r1"], ["tail_entities", "$2", "r2"]]}
    )
    assert split_key(forth) != split_key(back)


def test_a_question_without_a_program_has_no_split() -> None:
    with pytest.raises(KgwalkError, match="has no program"):
        split_questions([Question("q", "?", ["a"], ["b"])])
    with pytest.raises(KgwalkError, match="shares"):
        split_questions([], shares={"train": -1})
