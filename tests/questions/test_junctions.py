"""Relations that go through rows: how a plan is led through them, and that its answers stay the same."""

from __future__ import annotations

import asyncio
import json
import random
import re
from pathlib import Path

import pytest

from kgwalk.kg.store import StoredGraph
from kgwalk.questions.bank import load_bank
from kgwalk.questions.invented.columns import draw_columns, with_demonyms
from kgwalk.questions.invented.concepts import ConceptPool, PlacedConcept
from kgwalk.questions.invented.dataset import InventedDataSettings, make_invented
from kgwalk.questions.invented.facts import store_of
from kgwalk.questions.invented.graph import InventedSettings, make_invented_graph
from kgwalk.questions.invented.junctions import Junctions, RowGraph
from kgwalk.questions.invented.names import Namer
from kgwalk.questions.invented.words import truth_words
from kgwalk.questions.make import make_questions
from kgwalk.questions.plan import MakeSettings, PlanBuilder, QuestionPlan
from kgwalk.questions.wording.english import singular
from kgwalk.score.answers import f1, gold_of
from kgwalk.systems.baselines.oracle import Oracle
from kgwalk.types import Question, Triple
from kgwalk.walk.kinds import is_type, kinds_of
from kgwalk.walk.language import Sets
from kgwalk.walk.paths import Hop
from kgwalk.walk.protocol import Environment, Task

BANK = {concept.id: concept for concept in load_bank()}
PARTS = {"Heron": ("Bell", "Saddle", "Wheel"), "Swift": ("Saddle", "Wheel"), "Wren": ("Wheel",)}
COUNTRIES = {"Heron Ltd": ("Suppliers", "Italy"), "Selle": ("Suppliers", "Italy"), "Rossi": ("Customers", "Italy")}
JUNCTIONS = Junctions(
    {
        "contains": (Hop("product_id", out=False), Hop("part_id")),
        "made_of": (Hop("part_id", out=False), Hop("component_id")),
        "supplier_country": (Hop("country"),),
        "customer_country": (Hop("country"),),
    },
    kinds={"supplier_country": "Suppliers", "customer_country": "Customers"},
)


def asked_facts() -> list[Triple]:
    """As a question is drawn: a bike contains its parts."""
    facts = [Triple(bike, "contains", part) for bike, parts in PARTS.items() for part in parts]
    facts += [Triple("Wheel", "made_of", "Rim"), Triple("Rim", "made_of", "Alloy")]
    for name, (kind, country) in COUNTRIES.items():
        label = "supplier_country" if kind == "Suppliers" else "customer_country"
        facts += [Triple(name, label, country), Triple(name, "is_a", kind)]
    return [*facts, *(Triple(bike, "is_a", "Bikes") for bike in PARTS)]


def row_facts() -> list[Triple]:
    """As a database exports it: rows of `product_parts` and `part_components`, and one column `country`."""
    facts: list[Triple] = []
    tables = {"contains": ("product_parts", "product_id", "part_id"),
              "made_of": ("part_components", "part_id", "component_id")}  # fmt: skip
    for number, fact in enumerate(asked_facts()):
        if fact.relation in tables:
            table, near, far = tables[fact.relation]
            row = f"{table} {number}"
            facts += [Triple(row, "is_a", table), Triple(row, near, fact.head), Triple(row, far, fact.tail)]
        else:
            shared = "country" if fact.relation.endswith("_country") else fact.relation
            facts.append(fact._replace(relation=shared))
    return facts


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> tuple[StoredGraph, StoredGraph]:
    folders = [tmp_path_factory.mktemp(name) for name in ("asked", "walked")]
    return store_of(asked_facts(), folders[0]), store_of(row_facts(), folders[1])


def answers(plan: QuestionPlan, graph: StoredGraph) -> set[str]:
    sets = Sets(graph, plan.topics, kinds=plan.kinds, empty=True)
    for step in plan.steps:
        getattr(sets, step.tool)(*step.args)
    return set(sets.made[plan.last - 1].members)


def test_a_hop_goes_through_the_rows_one_by_one(graphs: tuple[StoredGraph, StoredGraph]) -> None:
    drawn, walked = graphs
    builder = PlanBuilder(drawn, ["Saddle"], MakeSettings(language="full"))
    builder.call("head_entities", 1, "contains")
    plan = JUNCTIONS.through(builder.plan("chain"))
    assert plan.program() == [["head_entities", "$1", "part_id"], ["tail_entities", "$2", "product_id"]]
    assert answers(plan, walked) == {"Heron", "Swift"}


def test_both_of_two_in_one_path_each(graphs: tuple[StoredGraph, StoredGraph]) -> None:
    drawn, walked = graphs
    builder = PlanBuilder(drawn, ["Bell", "Saddle"], MakeSettings(language="full"))
    first, second = (builder.call("head_entities", at, "contains") for at in (1, 2))
    builder.call("intersect", first, second)
    plan = JUNCTIONS.through(builder.plan("intersection"), stepwise=False)
    assert plan.program() == [
        ["tail_entities", "$1", "^part_id/product_id"],
        ["tail_entities", "$2", "^part_id/product_id"],
        ["intersect", "$3", "$4"],
    ]
    assert answers(plan, walked) == {"Heron"}


@pytest.mark.parametrize(
    ("tool", "text", "rest", "walked_text", "found"),
    [
        ("none", "contains", (1,), "^product_id/part_id", {"Wren"}),
        ("only", "contains", (1,), "^product_id/part_id", set[str]()),
        ("filter", "count(contains)", (">", "2"), "count(^product_id/part_id)", {"Heron"}),
        ("argmax", "count(contains)", (), "count(^product_id/part_id)", {"Heron"}),
    ],
)
def test_a_value_goes_through_the_rows(
    graphs: tuple[StoredGraph, StoredGraph],
    tool: str,
    text: str,
    rest: tuple[str | int, ...],
    walked_text: str,
    found: set[str],
) -> None:
    """Bikes without a saddle, with only a saddle, with more than two parts, with the most."""
    drawn, walked = graphs
    builder = PlanBuilder(drawn, ["Saddle"], MakeSettings(language="full"), [kinds_of(drawn)["bike"]], empty=True)
    builder.say(text)
    builder.call(tool, 2, text, *rest)
    plan = JUNCTIONS.through(builder.plan("group"))
    assert plan.steps[-1].args[1] == walked_text
    assert answers(plan, walked) == found


def test_again_and_again_through_rows(graphs: tuple[StoredGraph, StoredGraph]) -> None:
    """What goes into a wheel, all the way down; and backwards, what an alloy ends up in."""
    drawn, walked = graphs
    for topic, tool, text, found in (
        ("Wheel", "tail_entities", "(^part_id/component_id)+", {"Rim", "Alloy"}),
        ("Alloy", "head_entities", "(^component_id/part_id)+", {"Rim", "Wheel"}),
    ):
        builder = PlanBuilder(drawn, [topic], MakeSettings(language="full"))
        builder.say("made_of+")
        builder.call(tool, 1, "made_of+")
        plan = JUNCTIONS.through(builder.plan("repeated"))
        assert plan.program() == [["tail_entities", "$1", text]]
        assert answers(plan, walked) == found


def test_a_shared_column_takes_the_kind(graphs: tuple[StoredGraph, StoredGraph]) -> None:
    """How many Italian suppliers: Italy is the country of a customer, too."""
    drawn, walked = graphs
    builder = PlanBuilder(drawn, ["Italy"], MakeSettings(language="full"))
    builder.call("count", builder.call("head_entities", 1, "supplier_country"))
    plan = JUNCTIONS.through(builder.plan("count"), named=[kinds_of(walked)["supplier"]])
    assert plan.program() == [["head_entities", "$1", "country"], ["intersect", "$3", "$2"], ["count", "$4"]]
    assert answers(plan, walked) == {"2"}
    assert answers(JUNCTIONS.through(builder.plan("count")), walked) == {"3"}  # not told: the customer is counted


class Programs:
    """Says a plan as its program: every plan can be said."""

    def say(self, plan: QuestionPlan, chance: random.Random) -> str | None:
        return f"{plan.topics} {[kind.name for kind in plan.kinds]} {plan.program()} {plan.asked} {plan.meant}"


def test_made_questions_have_the_answers_of_both_graphs(graphs: tuple[StoredGraph, StoredGraph]) -> None:
    drawn, walked = graphs
    settings = MakeSettings(count=150, language="full")
    questions = make_questions(drawn, Programs(), settings, rows=RowGraph(walked, JUNCTIONS))
    named = {part for one in questions for step in one.extra["program"] for part in step[1:]}  # type: ignore[attr-defined]
    assert "contains" not in named
    assert any("part_id" in part for part in named)
    assert set(scores(questions, walked)) == {1.0}


def scores(questions: list[Question], graph: StoredGraph) -> list[float]:
    tasks = [(Task(one, one.topic_entities), Environment(graph)) for one in questions]
    walks = asyncio.run(Oracle().walk(tasks, lambda episode, turn: None))
    return [f1(walk.answers, gold_of(one), graph) for walk, one in zip(walks, questions, strict=True)]


# Invented tables


def test_invented_tables_have_rows_that_no_question_names(tmp_path: Path) -> None:
    settings = InventedDataSettings(
        worlds=5,
        per_world=30,
        dev=0,
        test=0,
        noise=0,
        world=InventedSettings(language="full", tables=1.0),
        questions=MakeSettings(language="full"),
    )
    through = 0
    for part in make_invented(settings, load_bank()):
        if part.graph.asked is None:
            continue
        heads = {fact.head for fact in part.graph.facts if fact.relation in part.graph.columns}
        tables = {head.rsplit(" ", 1)[0] for head in heads if re.search(r" \d+$", head)}  # rows: order_lines 7
        drawn = {fact.relation for fact in part.graph.asked} - {fact.relation for fact in part.graph.facts}
        assert set(part.graph.junctions.paths) == drawn
        for question in part.questions:
            program = str(question.extra["program"])
            through += any(column in program for column in part.graph.columns)
            assert not any(table in question.question for table in tables if "_" in table)
        (tmp_path / part.graph.key).mkdir()
        assert set(scores(part.questions, store_of(part.graph.facts, tmp_path / part.graph.key))) == {1.0}
    assert through >= 10


def test_what_is_true_or_false_fits_the_kind() -> None:
    """No book is vegan."""
    assert not set(truth_words("book")) & set(truth_words("dish"))
    pool, namer, seen = ConceptPool(load_bank()), Namer(), set[str]()
    for seed in range(12):
        settings = InventedSettings(language="full", tables=1.0)
        graph = make_invented_graph(pool, seed, random.Random(seed), settings, namer)
        kinds = {fact.head: fact.tail for fact in graph.facts if is_type(fact.relation)}
        for fact in graph.facts:
            if fact.relation in graph.truths and fact.head in kinds:
                kind = singular(kinds[fact.head].replace("_", " ").lower())
                words = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", fact.relation).lower().removeprefix("is ")
                assert words in truth_words(kind), (kind, words)
                seen.add(kind)
    assert len(seen) > 3


# Columns that several kinds share


def test_a_column_is_shared_by_kinds_that_have_it() -> None:
    placed = [PlacedConcept(BANK[name], BANK[name].head, BANK[name].tail) for name in ("logistics-shipment-carrier",)]
    columns = [one for seed in range(40) for one in draw_columns(placed, random.Random(seed), lambda label: True)]
    assert columns
    for column in columns:
        assert {one.head for one in column.relations} == {"shipment", "carrier"}, column.label
        assert len({one.tail for one in column.relations}) == 1
        labels = [column.asked_label(one) for one in column.relations]
        assert len(set(labels)) == 2
        assert all(label.endswith(f".{column.label}") for label in labels)
    assert not draw_columns(placed, random.Random(1), lambda label: False)  # every label is taken


def test_questions_over_a_shared_column_start_from_the_kind() -> None:
    """Of all that is made: whatever is asked backwards over one is of the kind that the question names alone."""
    settings = InventedDataSettings(
        worlds=6, per_world=30, seed=3, dev=0, test=0, world=InventedSettings(language="full"),
        questions=MakeSettings(language="full", patterns={"chain": 1.0}, hops={1: 1.0}),
    )  # fmt: skip
    kept = 0
    for part in make_invented(settings, load_bank()):
        shared = {hops[0].relation for label, hops in part.graph.junctions.paths.items() if len(hops) == 1}
        types: dict[str, set[str]] = {}
        for fact in part.graph.facts:
            types.setdefault(fact.tail, set()).add(fact.head)
        for question in part.questions:
            program: list[list[str]] = json.loads(json.dumps(question.extra["program"]))
            if [step[0] for step in program] == ["head_entities", "intersect"] and program[0][2] in shared:
                kinds: list[str] = json.loads(json.dumps(question.extra["kinds"]))
                kind = kinds[int(program[1][2][1:]) - len(question.topic_entities) - 1]
                assert set(question.answers) <= types[kind], question
                kept += 1
    assert kept


def test_countries_are_said_as_people_say_them() -> None:
    assert with_demonyms("Poland trucks without Diesel", ["Poland"]) == "Polish trucks without Diesel"
    assert with_demonyms("trucks from Poland that are red", ["Poland"]) == "trucks from Poland that are red"
