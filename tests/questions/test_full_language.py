"""Questions for the full walking language: every call, right answers, words that people say, and demonstrations."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from company import company
from conftest import store_of, temporary_store
from kgwalk.cli.main import make_app
from kgwalk.data.dataset import load_dataset
from kgwalk.demos.filter import DemoSettings
from kgwalk.demos.make import make_demos
from kgwalk.evaluation.check import check
from kgwalk.kg.store import StoredGraph
from kgwalk.questions.bank import load_bank
from kgwalk.questions.drawing import WalkSampler
from kgwalk.questions.full_patterns import FULL_DRAWS
from kgwalk.questions.groups import Groups
from kgwalk.questions.invented.dataset import InventedDataSettings, write_invented
from kgwalk.questions.invented.graph import InventedSettings
from kgwalk.questions.make import make_questions, split_key, split_questions
from kgwalk.questions.plan import FULL_PATTERNS, PATTERN_SHARES, MakeSettings, PlanRejected, QuestionPlan
from kgwalk.questions.schema import Schema, ValueNode, survey, types_of
from kgwalk.questions.wording.name_lexicon import NameLexicon
from kgwalk.questions.wording.speaker import Wording
from kgwalk.score.answers import f1, gold_of
from kgwalk.systems.baselines.oracle import Oracle
from kgwalk.systems.kgwalk.protocol import Kgwalk
from kgwalk.types import KgwalkError, Question, Triple
from kgwalk.walk.kinds import EVERYTHING, kinds_of
from kgwalk.walk.language import CALLS, DATED_CALLS
from kgwalk.walk.protocol import Environment, Task


@pytest.fixture(scope="module")
def firm(tmp_path_factory: pytest.TempPathFactory) -> StoredGraph:
    return store_of(tmp_path_factory.mktemp("firm"), company())


@pytest.fixture(scope="module")
def asked(firm: StoredGraph) -> list[Question]:
    return made(firm, 700)


def made(graph: StoredGraph, count: int, level: int = 1, **more: object) -> list[Question]:
    schema, lexicon = surveyed(graph)
    wording = Wording(lexicon, level=level)
    return make_questions(graph, wording, MakeSettings(count=count, language="full", **more), schema=schema)  # type: ignore[arg-type]


@lru_cache(1)
def surveyed(graph: StoredGraph) -> tuple[Schema, NameLexicon]:
    schema = survey(graph)
    return schema, NameLexicon(schema, types=types_of(graph, schema))


class Programs:
    """Says a plan as its program: every plan can be said."""

    def say(self, plan: QuestionPlan, chance: random.Random) -> str | None:
        return f"{plan.topics} {[kind.name for kind in plan.kinds]} {plan.program()} {plan.asked} {plan.meant}"


def tools_of(questions: Iterable[Question]) -> set[str]:
    return {step[0] for question in questions for step in question.extra["program"]}  # type: ignore[union-attr, attr-defined]


def oracle_scores(questions: Sequence[Question], graph: StoredGraph) -> list[float]:
    tasks = [(Task(question, question.topic_entities), Environment(graph)) for question in questions]
    episodes = asyncio.run(Oracle().walk(tasks, lambda episode, turn: None))
    return [f1(one.answers, gold_of(question), graph) for one, question in zip(episodes, questions, strict=True)]


# Every call, each answer right


def test_every_call_is_asked_for_and_the_oracle_answers_all(firm: StoredGraph, asked: list[Question]) -> None:
    questions = asked + make_questions(firm, Programs(), MakeSettings(count=700, seed=2, language="full"))
    assert tools_of(questions) >= {*CALLS, *DATED_CALLS}
    assert {question.type for question in questions} >= set(FULL_PATTERNS)
    assert set(oracle_scores(questions, firm)) == {1.0}


def test_half_of_the_questions_are_those_of_the_core(asked: list[Question]) -> None:
    own = sum(question.type in FULL_PATTERNS for question in asked)
    assert 0.4 < own / len(asked) < 0.65


def test_half_of_the_verdicts_are_no(asked: list[Question]) -> None:
    said = Counter(question.answers[0] for question in asked if question.type == "verdict")
    assert abs(said["yes"] - said["no"]) <= 0.2 * said.total()


def test_what_an_answer_is_stands_beside_it(asked: list[Question]) -> None:
    kinds = {str(question.type): question.extra["answer_kind"] for question in asked}
    assert kinds["verdict"] == "boolean"
    assert kinds["table"] == "table"
    assert kinds["unanswerable"] == "none"
    assert kinds["aggregate"] == "number"
    table = next(question for question in asked if question.type == "table")
    assert [row[0] for row in table.extra["rows"]] == table.answers  # type: ignore[attr-defined]
    nothing = next(question for question in asked if question.type == "unanswerable")
    assert nothing.answers == []
    assert nothing.extra["program"] == []


def test_kinds_that_the_text_names_stand_beside_those_that_are_needed(asked: list[Question]) -> None:
    """A walk is shown what it would be shown if the question were typed; sets are numbered after these."""
    groups = [one for one in asked if one.type == "group" and not one.topic_entities]
    question = next(one for one in groups if one.extra["kinds"][:1] == ["Department"])  # type: ignore[index]
    assert question.extra["program"][0][1] == "$1"  # type: ignore[index]


def test_core_has_none_of_it(firm: StoredGraph) -> None:
    questions = make_questions(firm, Programs(), MakeSettings(count=80))
    assert all("kinds" not in question.extra for question in questions)
    assert MakeSettings().patterns == PATTERN_SHARES["core"]
    with pytest.raises(KgwalkError, match="--language full"):
        MakeSettings(patterns={"verdict": 1.0})
    with pytest.raises(KgwalkError, match="language"):
        MakeSettings(language="half")


# Against plain Python


Values = Callable[[str], list[str]]


class Plain:
    """The calls over a list of facts, written out: no sets, no paths of the package."""

    def __init__(self, facts: Sequence[tuple[str, ...]]) -> None:
        self.facts = [fact[:3] for fact in facts]

    def values(self, text: str, sets: list[list[str]]) -> Values:
        if (found := re.fullmatch(r"count\((\^?)(\w+)(?: in \$(\d+))?\)", text)) is not None:
            inside = None if found[3] is None else sets[int(found[3]) - 1]
            step = self.values(found[1] + found[2], sets)
            return lambda name: [str(sum(inside is None or one in inside for one in step(name)))]
        if "/" in text:
            first, second = (self.values(part, sets) for part in text.split("/"))
            return lambda name: [value for node in first(name) for value in second(node)]
        if text.startswith("^"):
            return lambda name: [head for head, relation, tail in self.facts if (relation, tail) == (text[1:], name)]
        return lambda name: [tail for head, relation, tail in self.facts if (head, relation) == (name, text)]

    def run(self, question: Question, starts: list[list[str]]) -> list[str]:
        sets = [[topic] for topic in question.topic_entities] + starts
        for tool, *args in question.extra["program"]:  # type: ignore[attr-defined]
            sets.append(self.step(tool, args, sets))
        return sets[-1]

    def step(self, tool: str, args: list[str], sets: list[list[str]]) -> list[str]:
        source = sets[int(args[0][1:]) - 1]
        other = [sets[int(arg[1:]) - 1] if re.fullmatch(r"\$\d+", arg) else [arg] for arg in args[1:]]
        if tool in ("union", "minus", "intersect"):
            names = {"union": [*source, *other[0]], "minus": [one for one in source if one not in other[0]]}
            names["intersect"] = [one for one in source if one in other[0]]
            return list(dict.fromkeys(names[tool]))
        if tool == "count":
            return [str(len(source))]
        if tool == "nth":
            return [source[int(args[1]) - 1]]
        if tool == "is_in":
            return ["yes" if set(source) <= set(other[0]) else "no"]
        if tool == "overlap":
            return ["yes" if set(source) & set(other[0]) else "no"]
        if tool == "compare":
            one, two = source[0], other[1][0]
            return ["yes" if (one == two if args[1] == "=" else eval(f"{one} {args[1]} {two}")) else "no"]
        if tool in ("subtract", "divide"):
            one, two = Fraction(source[0]), Fraction(other[0][0])
            return [shown(one - two if tool == "subtract" else one / two)]
        of = self.values(args[1], sets)
        if tool == "tail_entities":
            return list(dict.fromkeys(value for name in source for value in of(name)))
        if tool == "head_entities":
            return self.step("tail_entities", [args[0], f"^{args[1]}"], sets)
        if tool in ("only", "none", "every"):
            inside = set(other[1])
            keeps = {"only": lambda own: own and own <= inside, "none": lambda own: not own & inside}
            keeps["every"] = lambda own: own >= inside
            return [name for name in source if keeps[tool](set(of(name)))]
        if tool == "filter":
            if args[2] == "=":  # also of what is true and false
                return [name for name in source if any(one == two for one in of(name) for two in other[2])]
            sign = args[2]
            return [name for name in source if any(eval(f"{one} {sign} {two}") for one in of(name) for two in other[2])]
        numbers = {name: [Fraction(value) for value in of(name)] for name in source if of(name)}
        if tool in ("sum", "average", "least", "greatest"):
            every = [value for some in numbers.values() for value in some]
            return [
                shown(
                    {"sum": sum(every), "average": sum(every) / len(every), "least": min(every)}.get(tool, max(every))
                )
            ]
        if tool in ("argmax", "argmin"):
            best = max(map(max, numbers.values())) if tool == "argmax" else min(map(min, numbers.values()))
            return [name for name, own in numbers.items() if best in own]
        assert tool in ("top", "bottom")
        sign = -1 if tool == "top" else 1
        return sorted(numbers, key=lambda name: sign * (max if sign < 0 else min)(numbers[name]))[: int(args[2])]


def shown(number: Fraction | int) -> str:
    """At most ten figures, as an answer has it."""
    return str(int(number)) if number == int(number) else f"{float(f'{float(number):.12g}'):.10g}"


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10_000))
def test_answers_are_those_of_plain_python(seed: int) -> None:
    """Orders, sums, counts for each, differences, verdicts, negation and quantifiers, over any such firm."""
    facts = company(seed)
    plain = Plain(facts)
    patterns = {"kind", "top", "aggregate", "group", "which", "against", "arithmetic", "verdict", "negation"}
    wanted = dict.fromkeys((*patterns, "quantifier", "zero", "behind"), 1.0)
    with temporary_store(facts) as graph:
        chosen = MakeSettings(count=60, seed=seed, language="full", patterns=wanted)
        for question in make_questions(graph, Programs(), chosen):
            kinds = kinds_of(graph)
            named = [next(kind for kind in kinds.values() if kind.name == name) for name in question.extra["kinds"]]  # type: ignore[attr-defined]
            answers = plain.run(question, [kind.members(graph) for kind in named])
            if question.type == "top":
                assert answers == question.answers, question
            else:
                assert sorted(answers) == sorted(question.answers), question


# Words


def test_the_words_are_those_that_people_use(firm: StoredGraph, asked: list[Question]) -> None:
    others = [(level, seed) for level in (0, 1, 2) for seed in range(3) if (level, seed) != (1, 0)]  # which is `asked`
    texts = {one.question for level, seed in others for one in made(firm, 400, level, seed=seed)}
    texts |= {one.question for one in asked}
    lower = {text.lower().rstrip("?. ") for text in texts}
    for wanted in (
        r"which department has the (?:most|fewest) (?:people|employees)",
        r"top \w+ employees by salary",
        r"how many employees (?:have no|do not speak any) (?:email|language)s?",
        r"(?:which|who) has the (?:higher|larger|greater|lower|smaller) salary, .* or .*",
        r"(?:is|are) .* on leave",
        r"employees with .* and .*",
        r"what is the price of (?:the )?\w+",
        r"(?:which|list the) employees .* only (?:language|.*)",
        r"(?:average|mean) salary of (?:the )?employees",
        r"employees (?:with|whose|who) .* between .* and ",  # two bounds
        r"(?:only one|just one|exactly one|a single|only 1) ",
        r"(?:since|until|till) when ",
        r"(?:in total|together|in all|altogether|combined)$",
        r"without (?:any|a) |have no .* at all|do(?: not|n't|nt) have (?:any|a single) ",
        r"(?:in the end|ultimately|finally|eventually|at the very end)",  # the last of a chain
        r"(?:also indirectly|all the way down|directly or indirectly|including indirect ones)",
        r"comes up most often among|has the most employees (?:who|that|with|in|of)|do most of ",
    ):
        assert any(re.search(wanted, text) for text in lower), wanted
    assert not [text for text in texts if re.search(r"\{\}|\b(?:the the|None)\b|[\ue000-\uf8ff]|_:p", text)]


# Where kinds and values are found


def test_a_value_behind_a_node_is_found_by_its_relations(firm: StoredGraph) -> None:
    sampler = WalkSampler(firm, MakeSettings(language="full"))
    assert sampler.value_nodes == {"price": ValueNode("amount", "currency")}
    assert Groups(sampler, firm).measure_of("price").text == "price/amount"


def test_a_part_of_a_store_has_kinds_of_its_own(tmp_path: Path) -> None:
    """Two invented graphs in one store call types differently: each knows its own."""
    from kgwalk.questions.invented.facts import store_of as stored

    graph = stored([Triple("Ann", "is_a", "Person"), Triple("Rome", "rdf:type", "City")], tmp_path)
    people = graph.subgraph([0])
    cities = graph.subgraph([1])
    assert [list(kinds_of(one)) for one in (people, cities)] in (
        [["person"], ["city"]],
        [["city"], ["person"]],
    )
    assert set(kinds_of(graph)) == {"person", "city"}
    assert sorted(EVERYTHING.members(one) for one in (people, cities)) == [["Ann"], ["Rome"]]


def test_questions_about_kinds_do_not_leak(asked: list[Question]) -> None:
    splits = split_questions(asked)
    keys = {split: {split_key(question) for question in questions} for split, questions in splits.items()}
    assert not keys["train"] & keys["test"]
    assert not keys["train"] & keys["dev"]
    assert any(not question.topic_entities for question in splits["test"])


# Demonstrations


def test_demonstrations_write_every_call(firm: StoredGraph, asked: list[Question]) -> None:
    demos, rejects = make_demos(asked, lambda question: firm, Kgwalk(language="full"), settings=DemoSettings(wrong=0.2))
    written = list(demos)
    assert rejects.kept >= 0.95 * len(asked), rejects.counts
    said = [str(message["content"]) for demo in written for message in demo.messages if message["role"] == "assistant"]
    calls = {found[1] for text in said for found in re.finditer(r"(?:^|</think>)(\w+)\(", text)}
    assert calls >= tools_of(asked)
    nothing = [demo for demo in written if not demo.gold]
    assert nothing
    assert all("<answer>[]</answer>" in str(demo.messages[-1]["content"]) for demo in nothing)
    texts = "\n".join(said)
    assert 'filter($1, "count(^works_in)", ">' in texts
    assert '"price/amount"' in texts
    prompts = [str(demo.messages[1]["content"]) for demo in written]
    assert any("$1 = 5 Department: " in prompt for prompt in prompts)


def test_the_core_protocol_leaves_out_what_it_has_no_word_for(firm: StoredGraph, asked: list[Question]) -> None:
    """A program that starts from a kind, or has a call or a path of the full language, is no route of the core."""
    only = DemoSettings(sources=("program",), wrong=0.0)
    demos, _ = make_demos(asked, lambda question: firm, Kgwalk(), settings=only)
    kept = {demo.id for demo in demos}
    assert kept
    simple = {
        "tail_entities",
        "head_entities",
        "intersect",
        "union",
        "minus",
        "count",
        "filter",
        "argmax",
        "argmin",
        "between",
    }
    for question in asked:
        if question.id in kept:
            assert tools_of([question]) <= simple


# Invented graphs


def test_invented_graphs_have_types_and_values_behind_nodes(tmp_path: Path) -> None:
    chosen = InventedDataSettings(
        worlds=4,
        per_world=30,
        world=InventedSettings(language="full", dated=0.2),
        questions=MakeSettings(language="full"),
    )
    report = write_invented(tmp_path / "worlds", chosen, load_bank())
    assert {"kind", "verdict", "group", "unanswerable"} <= set(report.by_type)
    data = load_dataset(tmp_path / "worlds")
    questions = [question for split in ("train", "dev", "test") for question in data.questions(split)]
    assert any(question.extra["kinds"] for question in questions)
    tasks = [(Task(one, one.topic_entities), Environment(data.graph_for(one))) for one in questions]
    episodes = asyncio.run(Oracle().walk(tasks, lambda episode, turn: None))
    assert all(f1(walk.answers, gold_of(one)) == 1 for walk, one in zip(episodes, questions, strict=True))


def test_what_has_no_answer_has_none(firm: StoredGraph) -> None:
    """A relation that is asked for leads nowhere from its topic, in the direction that is asked for."""
    groups = Groups(WalkSampler(firm, MakeSettings(seed=3, language="full")), firm)
    lacked = 0
    for _ in range(300):
        try:
            builder = FULL_DRAWS["unanswerable"](groups)
        except PlanRejected:
            continue
        if builder.asked is not None:
            lacked += 1
            assert not firm.neighbors(builder.topics[0], builder.asked.relation, out=builder.asked.out).names
    assert lacked > 20


def test_the_command_makes_both_languages(tmp_path: Path) -> None:
    source = tmp_path / "firm.tsv"
    source.write_text("".join("\t".join(fact[:3]) + "\n" for fact in company()))
    for language, own in (("core", False), ("full", True)):
        done = run("make", source, "-o", tmp_path / language, "-n", 90, "--language", language, "--json")
        assert done.exit_code == 0, done.output
        assert any(pattern in FULL_PATTERNS for pattern in orjson.loads(done.stdout)["by"]["pattern"]) == own
    checked = check(load_dataset(tmp_path / "full"))
    assert checked.ok, checked.findings
    refused = run("make", source, "-o", tmp_path / "x", "--patterns", "verdict")
    assert isinstance(refused.exception, KgwalkError)
    assert "--language full" in str(refused.exception)


def run(*args: object) -> Any:
    return CliRunner().invoke(make_app("questions"), ["questions", *map(str, args)])
