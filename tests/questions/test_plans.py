"""Plans of made questions: what a graph's relations are like, steps that say nothing, and answers that are exact."""

from __future__ import annotations

import doctest
import random
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import store_of
from kgwalk.data.dataset import load_dataset
from kgwalk.kg.store import StoredGraph
from kgwalk.questions import make, plan, schema
from kgwalk.questions.drawing import StartIndex, WalkSampler
from kgwalk.questions.make import QuotaCell, RelationShares, make_questions, quotas
from kgwalk.questions.patterns import DRAWS
from kgwalk.questions.plan import (
    PATTERNS,
    MakeSettings,
    PlanBuilder,
    PlanRejected,
    QuestionPlan,
    facts_used,
    gold_paths,
    run_plan,
)
from kgwalk.questions.schema import survey
from kgwalk.questions.wording import measures
from kgwalk.questions.wording.measures import in_words, round_between
from kgwalk.types import Call, KgwalkError, Question, Triple
from kgwalk.walk.facts import DirectedRelation
from kgwalk.walk.language import COMPARISONS
from kgwalk.walk.values import number_of

FILMS = [
    ("Big", "directed_by", "Penny Marshall"),
    ("Cast Away", "directed_by", "Robert Zemeckis"),
    ("Contact", "directed_by", "Robert Zemeckis"),
    ("Flight", "directed_by", "Robert Zemeckis"),
    ("Big", "starred_actors", "Tom Hanks"),
    ("Cast Away", "starred_actors", "Tom Hanks"),
    ("Contact", "starred_actors", "Jodie Foster"),
    ("Big", "release_year", "1988"),
    ("Cast Away", "release_year", "2000"),
    ("Contact", "release_year", "1997"),
    ("Flight", "release_year", "2012"),
]
DIRECTED, BY, STARRED = (
    DirectedRelation("directed_by", False),
    DirectedRelation("directed_by", True),
    DirectedRelation("starred_actors", False),
)


class Programs:
    """Says a plan as its program: every plan can be said, and each in its own way."""

    def say(self, plan: QuestionPlan, chance: random.Random) -> str:
        return f"{plan.topics} {plan.program()}"


@pytest.fixture
def films(tmp_path: Path) -> StoredGraph:
    return store_of(tmp_path, FILMS)


@pytest.fixture(scope="module")
def world() -> StoredGraph:
    graph = load_dataset("world").graph()
    assert isinstance(graph, StoredGraph)
    return graph


@pytest.mark.parametrize("module", [make, schema, plan, measures], ids=lambda one: one.__name__)
def test_the_examples_in_the_documentation(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


# What a graph is like


def test_a_survey_counts_facts_and_ends(films: StoredGraph) -> None:
    schema = survey(films)
    directed = schema["directed_by"]
    assert (directed.facts, directed.heads, directed.tails) == (4, 4, 2)
    assert (directed.fan_out, directed.fan_in) == (1.0, 2.0)
    assert schema["release_year"].tail_kinds == {"year": 1.0}
    assert [name for name, relation in schema.relations.items() if relation.comparable] == ["release_year"]
    with pytest.raises(KgwalkError, match="did you mean `directed_by`"):
        schema["directed_bye"]


def test_numbers_that_are_codes_are_not_compared(world: StoredGraph) -> None:
    schema = survey(world)
    codes = {name for name, relation in schema.relations.items() if relation.codes}
    assert {"fips_code", "iso_numeric", "calling_code", "iso_alpha2", "internet_domain"} <= codes
    compared = {name for name, relation in schema.relations.items() if relation.comparable}
    assert compared == {"area_km2", "latitude", "longitude", "population"}


def test_a_survey_of_a_view_sees_the_view_alone(films: StoredGraph) -> None:
    directed = [number for number, fact in enumerate(films.match()) if fact.relation == "directed_by"]
    assert list(survey(films.subgraph(directed)).relations) == ["directed_by"]


def test_where_a_way_starts(films: StoredGraph) -> None:
    starts = StartIndex(films)
    chance = random.Random(0)
    drawn = {starts.draw(DIRECTED, chance, 0.5) for _ in range(50)}
    assert drawn == {"Penny Marshall", "Robert Zemeckis"}
    assert starts.alike(DIRECTED, STARRED) == 1.0  # every starred film is directed
    assert starts.alike(DIRECTED, BY) == 0.0


def test_a_walk_may_start_from_anyone(films: StoredGraph) -> None:
    chance, starts = random.Random(0), StartIndex(films)
    assert {starts.any_entity(chance, 0.0) for _ in range(300)} == {end for fact in FILMS for end in (fact[0], fact[2])}


@given(st.integers(0, 10**12), st.integers(0, 100))
def test_a_number_in_words_is_the_same_number(number: int, seed: int) -> None:
    assert number_of(in_words(str(number), random.Random(seed))) == number


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_a_round_number_lies_between(low: float, gap: float) -> None:
    high = low + gap
    if low < high:
        assert low < float(round_between(low, high)) <= high


# Steps


def test_a_walk_back_over_its_start_leaves_it_out(films: StoredGraph) -> None:
    builder = PlanBuilder(films, ["Contact"], MakeSettings())
    builder.follow(1, [BY, DIRECTED])
    assert builder.plan("chain").program() == [
        ["tail_entities", "$1", "directed_by"],
        ["head_entities", "$2", "directed_by"],
        ["minus", "$3", "$1"],
    ]
    assert set(builder.members(4)) == {"Cast Away", "Flight"}
    assert builder.plan("chain").hops == 2


def test_what_says_nothing_is_refused(films: StoredGraph) -> None:
    settings = MakeSettings()
    with pytest.raises(PlanRejected, match="comes back to its start alone"):
        PlanBuilder(films, ["Big"], settings).follow(1, [BY, DIRECTED])  # its director made no other film
    with pytest.raises(PlanRejected, match="comes back to where it was"):
        PlanBuilder(films, ["Tom Hanks"], settings).follow(1, [STARRED, BY, DIRECTED, BY])
    both = PlanBuilder(films, ["Robert Zemeckis", "Jodie Foster"], settings)
    directed, starred = both.follow(1, [DIRECTED]), both.follow(2, [STARRED])
    with pytest.raises(PlanRejected, match="a step changes nothing"):
        both.combine("intersect", directed, starred)  # all of her films are his
    with pytest.raises(PlanRejected, match="a step changes nothing"):
        both.filter(directed, "release_year", ">", "1990")
    with pytest.raises(PlanRejected, match="a count of one"):
        both.count(starred)
    with pytest.raises(PlanRejected, match="the same topic twice"):
        PlanBuilder(films, ["Big", "Big"], settings)
    few = PlanBuilder(films, ["Robert Zemeckis"], MakeSettings(most_answers=2))
    few.follow(1, [DIRECTED])
    with pytest.raises(PlanRejected, match="too many answers"):
        few.check()


def test_a_set_too_large_to_go_on_from_is_not_made(films: StoredGraph) -> None:
    settings = MakeSettings(most_onward=1)
    with pytest.raises(PlanRejected, match="a set on the way is too large"):
        PlanBuilder(films, ["Robert Zemeckis"], settings).follow(1, [DIRECTED, DirectedRelation("release_year", True)])
    last = PlanBuilder(films, ["Robert Zemeckis"], settings)
    assert len(last.members(last.follow(1, [DIRECTED]))) == 3  # nothing goes on from there
    # two films, of which the start is one: it is left out, and the walk goes on from the other
    builder = PlanBuilder(films, ["Big"], settings)
    builder.follow(1, [DirectedRelation("starred_actors", True), STARRED, DirectedRelation("release_year", True)])
    assert builder.members(5) == ("2000",)


def test_a_plan_walked_again_makes_the_same_sets_and_knows_their_facts(films: StoredGraph) -> None:
    builder = PlanBuilder(films, ["Robert Zemeckis", "Tom Hanks"], MakeSettings())
    builder.combine("minus", builder.follow(1, [DIRECTED]), builder.follow(2, [STARRED]))
    again = run_plan(builder.plan("difference"), films)
    assert [made.members for made in again.made] == [made.members for made in builder.sets.made]
    assert not builder.sets.made[2].came
    assert again.made[2].came["Contact"] == Triple("Contact", "directed_by", "Robert Zemeckis")


def test_a_superlative_needs_values_and_one_that_is_best(films: StoredGraph) -> None:
    builder = PlanBuilder(films, ["Robert Zemeckis", "Tom Hanks"], MakeSettings())
    films_of = builder.follow(1, [DIRECTED])
    assert builder.members(builder.extreme("argmax", films_of, "release_year")) == ("Flight",)
    with pytest.raises(PlanRejected, match="too few values"):
        builder.extreme("argmax", builder.follow(2, [STARRED]), "release_year")  # two are a comparison


def test_evidence_and_paths_are_the_facts_of_the_answer(films: StoredGraph) -> None:
    builder = PlanBuilder(films, ["Robert Zemeckis", "Tom Hanks"], MakeSettings())
    builder.combine("intersect", builder.follow(1, [DIRECTED]), builder.follow(2, [STARRED]))
    directed = Triple("Cast Away", "directed_by", "Robert Zemeckis")
    starred = Triple("Cast Away", "starred_actors", "Tom Hanks")
    plan = builder.plan("intersection")
    sets = run_plan(plan, films)
    assert gold_paths(plan, sets) == [[directed], [starred]]
    assert set(facts_used(plan, sets)) == {directed, starred}
    oldest = PlanBuilder(films, ["Robert Zemeckis"], MakeSettings())
    oldest.extreme("argmin", oldest.follow(1, [DIRECTED]), "release_year")
    values = oldest.plan("superlative")
    assert len(facts_used(values, run_plan(values, films))) == 6  # three films, and the year of each


# Draws and balance


def test_what_falls_short_waits_for_its_turn() -> None:
    cell: QuotaCell[str] = QuotaCell(4, {"1": 0.5, "2-5": 0.5}, RelationShares(10))
    way = [BY]
    assert [cell.offer(name, "1", name, way) for name in "abc"] == [True, True, False]  # two of four are of size 1
    assert cell.offer("d", "2-5", "d", way)
    assert not cell.full
    cell.settle()
    assert cell.taken == ["a", "b", "d", "c"]


def test_what_cannot_be_finished_is_left_out_when_its_turn_comes() -> None:
    asked: list[str] = []

    def finish(name: str) -> bool:
        asked.append(name)
        return name not in "bd"

    cell: QuotaCell[str] = QuotaCell(4, {"1": 0.5, "2-5": 0.5}, RelationShares(10), finish)
    assert [cell.offer(name, "1", name, [BY]) for name in "abcdef"] == [True, False, True, False, False, False]
    assert asked == ["a", "b", "c"]  # there are two of size 1; the others wait and are not asked
    assert cell.offered == 5  # b is as if it had not been there
    cell.settle()
    assert asked == ["a", "b", "c", "d", "e", "f"]
    assert cell.taken == ["a", "c", "e", "f"]
    assert cell.shares.total == 4


def test_quotas_add_up() -> None:
    shares = MakeSettings().cells()
    assert sum(shares.values()) == pytest.approx(1)
    assert sum(quotas(shares, 997).values()) == 997
    with pytest.raises(KgwalkError, match="did you mean `chain`"):
        MakeSettings(patterns={"chains": 1})
    with pytest.raises(KgwalkError, match="has 4 hops"):
        MakeSettings(patterns={"union": 1}, hops={4: 1}).cells()


@pytest.mark.parametrize("pattern", [pattern for pattern in PATTERNS if pattern != "time"])
def test_every_pattern_can_be_drawn(world: StoredGraph, pattern: str) -> None:
    made = make_questions(world, Programs(), MakeSettings(count=12, patterns={pattern: 1}))
    assert len(made) == 12
    assert {question.type for question in made} == {pattern}


DATED = [
    (f"Person {number}", "visited", f"Town {(number * step) % 7}", f"{2000 + (number + step) % 9}-0{1 + step % 9}")
    for number in range(12)
    for step in range(1, 6)
]


def test_times_of_facts(tmp_path: Path) -> None:
    graph = store_of(tmp_path, DATED)
    made = make_questions(graph, Programs(), MakeSettings(count=15, patterns={"time": 1}, hops={1: 1}))
    assert len(made) == 15
    for question in made:
        ((tool, _, relation, first, last),) = question.extra["program"]  # type: ignore[misc,attr-defined]
        assert (tool, relation) == ("between", "visited")
        facts = [fact for fact in DATED if fact[0] == question.topic_entities[0]]
        within = {fact[2] for fact in facts if first <= fact[3][: len(first)] and fact[3][: len(last)] <= last}
        assert set(question.answers) == within < {fact[2] for fact in facts}


def test_times_of_things(films: StoredGraph) -> None:
    sampler = WalkSampler(films, MakeSettings())
    found = set()
    for _ in range(200):
        try:
            found.add(DRAWS["time"](sampler, 1).plan("time"))
        except PlanRejected:
            continue
    assert any(step == Call("filter", (2, "release_year", "=", "1997")) for plan in found for step in plan.steps)
    assert all(plan.topics[0] in ("Robert Zemeckis", "Tom Hanks") for plan in found)


# Whole questions


def test_answers_are_what_the_facts_say(world: StoredGraph) -> None:
    """Every program run again by sets of Python over a list of facts, without the project's tools."""
    made = make_questions(world, Programs(), MakeSettings(count=150, seed=3))
    assert len(made) == 150
    forwards: dict[tuple[str, str], set[str]] = defaultdict(set)
    backwards: dict[tuple[str, str], set[str]] = defaultdict(set)
    for head, relation, tail, _ in world.match():
        forwards[head, relation].add(tail)
        backwards[tail, relation].add(head)
    for question in made:
        assert set(question.answers) == _run(question, forwards, backwards), question
        assert len(question.answers) == len(set(question.answers)) <= MakeSettings().most_answers
        assert set(question.answers).isdisjoint(question.topic_entities)


Index = dict[tuple[str, str], set[str]]


def _run(question: Question, forwards: Index, backwards: Index) -> set[str]:
    sets = [{topic} for topic in question.topic_entities]
    for tool, source, *rest in question.extra["program"]:  # type: ignore[attr-defined]
        members = sets[int(source[1:]) - 1]
        if tool in ("tail_entities", "head_entities"):
            index = forwards if tool == "tail_entities" else backwards
            sets.append({other for name in members for other in index[name, rest[0]]})
        elif tool == "count":
            sets.append({str(len(members))})
        elif tool in ("argmax", "argmin"):
            sets.append(_best(members, rest[0], max if tool == "argmax" else min, forwards))
        elif tool == "filter":
            relation, comparison, bound = rest
            compare = COMPARISONS[comparison]
            values = {name: [number_of(value) for value in forwards[name, relation]] for name in members}
            sets.append({name for name in members if any(compare(v, number_of(bound)) for v in values[name])})  # type: ignore[arg-type]
        else:
            other = sets[int(rest[0][1:]) - 1]
            sets.append({"intersect": members & other, "union": members | other, "minus": members - other}[tool])
    return sets[-1]


def _best(members: set[str], relation: str, choose: object, forwards: Index) -> set[str]:
    values = {name: number_of(value) or 0.0 for name in members for value in forwards[name, relation]}
    best = max(values.values()) if choose is max else min(values.values())
    return {name for name, value in values.items() if value == best}


def test_the_same_seed_makes_the_same_questions(world: StoredGraph) -> None:
    one, again = (make_questions(world, Programs(), MakeSettings(count=60, seed=5)) for _ in range(2))
    assert one == again
    other = make_questions(world, Programs(), MakeSettings(count=60, seed=6))
    assert {question.question for question in one} != {question.question for question in other}


def test_questions_are_balanced(world: StoredGraph) -> None:
    settings = MakeSettings(count=300)
    made = make_questions(world, Programs(), settings)
    assert len({(tuple(one.topic_entities), str(one.extra["program"])) for one in made}) == 300
    hops = Counter(question.hops for question in made)
    assert hops[1] >= 80
    assert hops[2] >= 100
    assert hops[3] >= 30
    relations = Counter(step[2] for one in made for step in one.extra["program"] if len(step) > 2)  # type: ignore[attr-defined]
    del relations["$1"]
    assert len([name for name in relations if not name.startswith("$")]) >= 25  # of 28
    assert max(relations.values()) <= 0.2 * relations.total()


def test_fewer_where_a_graph_has_no_more(films: StoredGraph) -> None:
    thrown: Counter[str] = Counter()
    made = make_questions(films, Programs(), MakeSettings(count=150), thrown=thrown)
    assert 10 < len(made) < 150
    assert thrown["the same plan again"] > 0
    assert thrown["the same text again"] > 0  # a plan that is drawn often is said anew; `Programs` has one way only
    assert all(
        topic in {end for fact in FILMS for end in (fact[0], fact[2])} for one in made for topic in one.topic_entities
    )
    assert not {topic for one in made for topic in one.topic_entities if topic.isdigit()}  # years are not asked about


def test_a_hop_by_facts_of_a_time_goes_on_from_few(tmp_path: Path) -> None:
    """As any hop: around 300 things not all relations are looked at, so nobody knows whether this one is shown."""
    towns = [("Hub", "has", f"Town {number}") for number in range(300)]
    visits = [("Town 299", "visited", "Rome", "2001"), ("Town 299", "visited", "Oslo", "2002")]
    builder = PlanBuilder(store_of(tmp_path, [*towns, *visits]), ["Hub"], MakeSettings())
    number = builder.follow(1, [DirectedRelation("has", True)])
    with pytest.raises(PlanRejected, match="goes on from too many"):
        builder.between(number, "visited", "2001", "2001", start=1)
