"""The bundled world graph and its questions: facts anyone knows, and every question answered again from the graph."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from kgwalk.data.bundled import BUNDLED, SPLITS, world_path, world_questions
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.types import KgwalkError, Question, Triple

ROOT = Path(__file__).parents[2]
TYPES = ["1-hop", "1-hop-back", "2-hop", "3-hop", "intersection", "difference", "count", "superlative", "filter"]


@cache
def world() -> StoredGraph:
    return open_graph(world_path())


@cache
def questions() -> list[tuple[str, Question]]:
    return [(split, question) for split in SPLITS for question in world_questions(split)]


def program_of(question: Question) -> list[list[str]]:
    program = question.extra["program"]
    assert isinstance(program, list)
    return program


def number(entity: str, relation: str) -> float:
    (value,) = world().neighbors(entity, relation)
    return float(value)


def answer(question: Question) -> set[str]:
    """What the question's program comes to: topics are $1 .. $n, every step's result is the next set."""
    graph = world()
    sets = [{topic} for topic in question.topic_entities]
    for action, *rest in program_of(question):
        given = [sets[int(name[1:]) - 1] for name in rest if name.startswith("$")]
        words = [word for word in rest if not word.startswith("$")]
        first = given[0]
        match action:
            case "tail_entities" | "head_entities":
                out = action == "tail_entities"
                sets.append({other for one in first for other in graph.neighbors(one, words[0], out=out)})
            case "intersect":
                sets.append(first & given[1])
            case "minus":
                sets.append(first - given[1])
            case "count":
                sets.append({str(len(first))})
            case "argmax" | "argmin":
                sign = 1 if action == "argmax" else -1
                best = max(sign * number(one, words[0]) for one in first)
                sets.append({one for one in first if sign * number(one, words[0]) == best})
            case "filter":
                relation, comparison, value = words
                sign = {">": 1, "<": -1}[comparison]
                sets.append({one for one in first if sign * number(one, relation) > sign * float(value)})
            case _:
                raise AssertionError(f"no such step: {action}")
    return sets[-1]


def test_the_store_is_whole_and_small() -> None:
    info = world().info()
    assert info["triples"] >= 20_000
    assert sum(size for _, size in world().store.folder.verify()) == info["bytes"] < 6_000_000
    assert BUNDLED["world"]() == world_path()


def test_the_store_holds_the_source() -> None:
    lines = gzip.decompress((ROOT / "scripts" / "world.tsv.gz").read_bytes()).decode().splitlines()
    triples = world().triples(np.arange(len(world())))
    assert sorted(lines) == sorted("\t".join(triple[:3]) for triple in triples)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", triple.relation) for triple in triples)


@pytest.mark.parametrize(
    ("head", "relation", "tails"),
    [
        ("France", "capital", {"Paris"}),
        ("United States", "capital", {"Washington, D.C."}),
        ("Norway", "borders", {"Finland", "Russia", "Sweden"}),
        ("United States", "borders", {"Canada", "Mexico"}),
        ("Portugal", "borders", {"Spain"}),
        ("Netherlands", "currency", {"euro"}),
        ("Japan", "official_language", {"Japanese"}),
        ("Canada", "official_language", {"English", "French"}),
        ("Japan", "calling_code", {"+81"}),
        ("Germany", "internet_domain", {".de"}),
        ("Brazil", "continent", {"South America"}),
        ("Brazil", "iso_alpha3", {"BRA"}),
        ("Greek", "script", {"Greek script"}),
        ("US dollar", "currency_code", {"USD"}),
        ("Springfield, Illinois", "state", {"Illinois"}),
        ("London", "country", {"United Kingdom"}),
        ("London, Canada", "country", {"Canada"}),
        ("Los Angeles County", "county_of", {"California"}),
        ("Mumbai", "timezone", {"Asia/Kolkata"}),
        ("Asia/Kolkata", "utc_offset", {"UTC+05:30"}),
    ],
)
def test_facts_anyone_knows(head: str, relation: str, tails: set[str]) -> None:
    assert set(world().neighbors(head, relation)) == tails


def test_borders_go_both_ways() -> None:
    borders = {(fact.head, fact.tail) for fact in world().match(relation="borders")}
    assert borders == {(tail, head) for head, tail in borders}


def test_numbers_are_plain_decimals() -> None:
    for relation in ("population", "area_km2", "latitude", "longitude"):
        for fact in world().match(relation=relation):
            assert re.fullmatch(r"-?\d+(\.\d+)?", fact.tail), fact


def test_programs_lead_to_the_answers() -> None:
    for _, question in questions():
        assert len(question.answers) == len(set(question.answers)) <= 40
        assert set(question.answers) == answer(question), question
        assert question.answers, question


def test_gold_paths_lead_from_a_topic_to_an_answer() -> None:
    for _, question in questions():
        if question.type == "count":  # a number is no place to walk to; what was counted is the evidence
            assert question.gold_paths is None
            assert question.evidence
            assert all(_is_fact(fact) for fact in question.evidence)
            continue
        assert question.gold_paths is not None
        assert 1 <= len(question.gold_paths) <= 3
        for path in question.gold_paths:
            assert all(_is_fact(fact) for fact in path)
            assert any(_end(path, topic) in question.answers for topic in question.topic_entities), question
            assert len(path) <= (question.hops or 0)


def _is_fact(fact: Triple) -> bool:
    return next(world().match(fact.head, fact.relation, fact.tail), None) is not None


def _end(path: list[Triple], start: str) -> str | None:
    """Where a path ends that starts there; None if its edges do not hang together."""
    at = start
    for fact in path:
        if at not in (fact.head, fact.tail):
            return None
        at = fact.tail if at == fact.head else fact.head
    return at


def test_splits_share_neither_walks_nor_words() -> None:
    split_of: dict[object, str] = {}
    for split, question in questions():
        walk = tuple((step[0], step[2]) for step in program_of(question) if step[0].endswith("_entities"))
        for key in ((*sorted(question.topic_entities), walk), question.question.lower(), question.id):
            assert split_of.setdefault(key, split) == split, question
    texts = [question.question for _, question in questions()]
    assert len(texts) == len(set(texts))


def test_how_many_there_are() -> None:
    counts = Counter(split for split, _ in questions())
    assert counts["train"] >= 600
    assert counts["dev"] >= 120
    assert counts["test"] >= 180
    by_type = Counter((split, question.type) for split, question in questions())
    assert {type_ for _, type_ in by_type} == set(TYPES)
    for type_ in TYPES:
        assert by_type["train", type_] >= 30
        assert by_type["dev", type_] >= 5
        assert by_type["test", type_] >= 9


def test_questions_read_like_questions() -> None:
    for _, question in questions():
        text = question.question
        assert not re.search(r"[{}~$]|\s\s|\bthe the\b|\(US state\)|\(city\)", text), text
        assert text == text.strip()
        # A sentence ends as one; the colloquial ones, in lower case, may not end at all.
        assert text[-1] in ".?" or text[0].islower(), text


def test_an_unknown_split_is_named() -> None:
    with pytest.raises(KgwalkError, match=r"no split 'valid' .* train, dev, test"):
        world_questions("valid")
