"""Invented graphs: names, values, labels, concepts and facts, each by its rule; many graphs as one dataset."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

import kgwalk.questions.invented
from commands import ENVIRONMENT, quickly
from kgwalk.data.dataset import Dataset, load_dataset
from kgwalk.data.folder import line_of
from kgwalk.evaluation.evaluate import groups
from kgwalk.kg.times import parse_time
from kgwalk.questions.bank import Concept, load_bank
from kgwalk.questions.invented.columns import COLUMN_KINDS
from kgwalk.questions.invented.concepts import (
    LABEL_STYLES,
    ConceptPool,
    Exclusions,
    LabelStyle,
    PlacedConcept,
    abbreviated,
    asked_as,
    label_key,
    label_keys,
    phrasings_of,
    style_of,
)
from kgwalk.questions.invented.dataset import (
    InventedDataReport,
    InventedDataSettings,
    InventedWording,
    make_invented,
    write_invented,
)
from kgwalk.questions.invented.facts import InventedLexicon, MediatorEnd, draw_entities, draw_facts, passes_mediators
from kgwalk.questions.invented.graph import InventedGraph, InventedSettings, make_invented_graph
from kgwalk.questions.invented.names import PATTERNS, SPELLINGS, Namer, NamingStyle, family_of
from kgwalk.questions.invented.values import LATER, LITERALS, NARROWER, SYMMETRIC, Span, ValueStyle, random_span
from kgwalk.questions.invented.words import CLOSED_KINDS, PHONOLOGIES
from kgwalk.questions.plan import PATTERNS as QUESTIONS
from kgwalk.questions.plan import QuestionPlan
from kgwalk.questions.schema import askable
from kgwalk.questions.wording.speaker import Wording
from kgwalk.score.answers import gold_of
from kgwalk.systems.kgwalk.protocol import Kgwalk
from kgwalk.types import Call, KgwalkError, Question
from kgwalk.walk.facts import DirectedRelation
from kgwalk.walk.language import Sets
from kgwalk.walk.protocol import Environment as Surroundings
from kgwalk.walk.protocol import Task
from kgwalk.walk.values import number_of

BANK = {concept.id: concept for concept in load_bank()}
POOL = ConceptPool(list(BANK.values()))
PLAIN = NamingStyle(PHONOLOGIES[:3], "plain", 0.3, 0.0, set())
VALUES = ValueStyle(commas=False, dates="day")


def invented(number: int, pool: ConceptPool = POOL, **settings: Any) -> InventedGraph:
    return make_invented_graph(pool, number, random.Random(number), InventedSettings(**settings), Namer())


def pairs(concept: str, head: str, tail: str, total: int = 120) -> tuple[list[tuple[str, str]], list[str]]:
    """Heads and tails of one relation, and the names of the tails' kind from the earliest entity to the latest."""
    chance, placed = random.Random(5), PlacedConcept(BANK[concept], head, tail)
    entities = draw_entities([placed], total, PLAIN, chance)
    return draw_facts(placed, entities, VALUES, chance), [entity.name for entity in entities.get(tail, [])]


def test_worked_examples() -> None:
    for found in pkgutil.iter_modules(kgwalk.questions.invented.__path__):
        module = importlib.import_module(f"kgwalk.questions.invented.{found.name}")
        assert doctest.testmod(module).failed == 0, found.name


# Names


def test_tables_name_what_the_bank_has() -> None:
    kinds = {kind for concept in BANK.values() for kind in (concept.head, concept.tail)}
    assert BANK.keys() >= SYMMETRIC | LATER
    for name in SYMMETRIC | LATER:
        assert BANK[name].head == BANK[name].tail, name
    assert kinds >= NARROWER.keys() | CLOSED_KINDS.keys() - COLUMN_KINDS
    assert {family_of(kind) for kind in kinds - set(LITERALS)} <= PATTERNS.keys()


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_names_are_given_once_and_can_be_asked_about(spelling: str) -> None:
    chance, naming = random.Random(1), NamingStyle(PHONOLOGIES, spelling, 0.3, 0.0, set())
    kinds = sorted({concept.head for concept in BANK.values()})
    names = [naming.name(kind, chance) for kind in kinds for _ in range(20)]
    assert len(set(names)) == len(names)
    assert all(askable(name) and name == name.strip() and "{" not in name for name in names)
    if "underscored" in spelling:
        assert not any(" " in name for name in names)
    if "lower" in spelling:
        assert all(name == name.lower() for name in names)


def test_two_graphs_share_no_invented_name() -> None:
    namer = Namer()
    known = {
        name.lower() for some in CLOSED_KINDS.values() for name in some
    }  # months, colours, genres: the same everywhere
    names: list[set[str]] = []
    for number in range(4):
        made = make_invented_graph(POOL, number, random.Random(number), InventedSettings(), namer)
        heads = {fact.head for fact in made.facts}  # a value is never a head
        names.append({name for name in heads if name.lower().replace("_", " ") not in known})
        assert len(names[-1]) > 50
    assert sum(map(len, names)) == len(set().union(*names))


# Values


@pytest.mark.parametrize("concept", [one for one in BANK.values() if one.tail in LITERALS], ids=lambda one: one.id)
def test_values_read_as_what_they_are(concept: Concept) -> None:
    chance = random.Random(2)
    for dates in ("day", "month", "year"):
        value = ValueStyle(commas=dates == "month", dates=dates).value(concept, random_span(chance), chance)
        assert value == value.strip() != ""
        if concept.tail == "year":
            assert 1500 < int(value) < 2030
        elif concept.tail == "number":
            assert number_of(value) is not None
        elif concept.tail == "date" and not value[-1].isalpha():
            assert parse_time(value)


def test_nobody_dies_before_being_born() -> None:
    chance = random.Random(3)
    for span in [Span(1990, 1990), *(random_span(chance) for _ in range(50))]:
        born = VALUES.value(BANK["person-birthdate"], span, chance)
        died = VALUES.value(BANK["person-deathdate"], span, chance)
        assert born < died, span


# Labels


@pytest.mark.parametrize("style", LABEL_STYLES)
def test_a_graph_writes_in_its_style(style: str) -> None:
    chance, own = random.Random(4), LabelStyle(style, 0.0, 0.0, "ex:")
    labels = [own.label(concept, False, chance, lambda label: True) for concept in load_bank(["film", "person"])]
    found = Counter(style_of(label) for label in labels if label)
    if style not in ("foreign", "word"):  # not every concept has a foreign name, nor a name of one word
        assert found.most_common(1)[0][0] in (style, "word")
    assert all(labels)


def test_labels_that_are_not_free_are_not_used() -> None:
    chance = random.Random(4)
    director = BANK["film-director"]
    taken = label_keys(["directed_by", "director"])
    for _ in range(50):
        label = LabelStyle.of(chance).label(director, False, chance, lambda text: label_key(text) not in taken)
        assert label is not None
        assert label_key(label) not in taken
    assert LabelStyle.of(chance).label(director, False, chance, lambda text: False) is None


def test_odd_labels_keep_the_beginnings_of_words() -> None:
    chance = random.Random(0)
    made = {" ".join(abbreviated(["place", "of", "birth"], chance)) for _ in range(30)}
    assert {"place of birth 1", "place", "place of birth"} & made
    assert all(name.startswith(("place", "birth")) for name in made)


# Which concepts, which facts


@pytest.mark.parametrize("number", range(8))
def test_a_graph_is_connected_and_not_ambiguous(number: int) -> None:
    chance = random.Random(number)
    placed = POOL.choose(24, chance.sample(POOL.domains, 2), chance)
    assert 12 <= len(placed) <= 24
    assert len({one.concept.id for one in placed}) == len(placed)
    reached, last = {placed[0].head}, 0
    while len(reached) > last:
        last = len(reached)
        reached |= {kind for one in placed for kind in (one.head, one.tail) if {one.head, one.tail} & reached}
    assert reached >= {one.head for one in placed}
    asked = Counter((one.head, text.lower().rstrip("?. ")) for one in placed for text in one.concept.forward)
    assert [text for text, count in asked.items() if count > 1] == []


def test_in_most_graphs_some_relations_are_easily_confused() -> None:
    """The same two kinds, so that only the words tell."""
    chances = [random.Random(number) for number in range(8)]
    graphs = [POOL.choose(24, chance.sample(POOL.domains, 2), chance) for chance in chances]
    most = [max(Counter((one.head, one.tail) for one in placed).values()) for placed in graphs]
    assert sum(count > 1 for count in most) >= 6


def test_a_head_has_as_many_tails_as_its_concept_says() -> None:
    directed, _ = pairs("film-director", "film", "person")  # n:1
    assert len({film for film, _ in directed}) == len(directed)
    assert len({person for _, person in directed}) < len(directed)
    contained, _ = pairs("generic-contains", "city", "building")  # 1:n
    assert len({building for _, building in contained}) == len(contained)
    capitals, _ = pairs("country-anthem", "country", "song")  # 1:1
    assert len({song for _, song in capitals}) == len({country for country, _ in capitals}) == len(capitals)
    acted, _ = pairs("film-actor", "film", "person")  # n:m
    assert len({film for film, _ in acted}) < len(acted) > len({person for _, person in acted})
    assert len(set(acted)) == len(acted)
    codes, _ = pairs("country-iso-code", "country", "text")
    assert len({code for _, code in codes}) == len(codes)


def test_facts_between_entities_of_one_kind() -> None:
    married, _ = pairs("kinship-spouse", "person", "person")
    assert {(tail, head) for head, tail in married} == set(married)
    assert all(head != tail for head, tail in married)
    for concept, tail_is_later in (("kinship-father", False), ("kinship-son", True), ("film-sequel", True)):
        related, order = pairs(concept, "person", "person")
        place = {name: at for at, name in enumerate(order)}
        assert all((place[tail] > place[head]) == tail_is_later for head, tail in related), concept
    fathers, _ = pairs("kinship-father", "person", "person")
    assert len({child for child, _ in fathers}) == len(fathers)
    sequels, _ = pairs("film-sequel", "film", "film")
    assert len({tail for _, tail in sequels}) == len(sequels) == len({head for head, _ in sequels})


def test_a_graph_by_its_number() -> None:
    one, two = (ConceptPool(load_bank(["film", "person"])) for _ in range(2))
    assert invented(3, one) == invented(3, two)
    assert invented(3, one).facts != invented(4, two).facts
    assert invented(3).key == "w0003"


def test_what_was_rare_comes_up_more() -> None:
    pool = ConceptPool(load_bank(["film"]))
    for number in range(16):
        pool.choose(8, ["film"], random.Random(number))
    assert len(pool.uses) >= 27  # of 29


def test_what_most_graphs_have_comes_up_more() -> None:
    """When somebody was born and how tall they are, beside what they are worth and how many children they have."""
    pool = ConceptPool(load_bank())
    for number in range(60):
        chance = random.Random(number)
        pool.choose(20, chance.sample(pool.domains, 2), chance)
    ordinary = [pool.uses[name] for name in ("person-birthdate", "person-height")]
    others = [pool.uses[name] for name in ("person-net-worth", "kinship-child-count")]
    assert sum(ordinary) > 1.5 * sum(others) > 0


@pytest.mark.parametrize("number", range(6))
def test_labels_of_a_graph(number: int) -> None:
    made = invented(number)
    labels = {fact.relation for fact in made.facts}
    assert made.meanings.keys() <= labels
    assert len({label_key(label) for label in made.meanings}) == len(made.meanings)
    opaque = labels - made.meanings.keys() - made.ends.keys()
    assert len(opaque) <= len(labels) / 3
    both = Counter(concept.id for concept, _ in made.meanings.values())
    for label, (concept, turned) in made.meanings.items():
        if both[concept.id] == 2 and not turned:  # the same facts, read the other way
            (other,) = (name for name, (one, back) in made.meanings.items() if one is concept and back)
            facts = {(fact.head, fact.tail) for fact in made.facts if fact.relation == label}
            assert facts == {(fact.tail, fact.head) for fact in made.facts if fact.relation == other}


def test_dates_where_they_are_wanted() -> None:
    assert not any(fact.time for fact in invented(1).facts)
    timed = [fact for fact in invented(1, dated=1.0).facts if fact.time]
    assert timed
    assert all(parse_time(fact.time) for fact in timed)


def test_settings_that_make_no_sense() -> None:
    with pytest.raises(KgwalkError, match="entities from 9 to 3: give a range from 1 up"):
        InventedSettings(entities=(9, 3))
    with pytest.raises(KgwalkError, match="0 worlds of 60 questions"):
        InventedDataSettings(worlds=0)
    with pytest.raises(KgwalkError, match="no concept is left to make worlds of"):
        ConceptPool([concept for concept in BANK.values() if concept.tail == "year"])


# Facts with a node in between

ACTOR = BANK["film-actor"]
ENDS = {"film.film.starring": MediatorEnd(ACTOR, True, True), "film.starring.person": MediatorEnd(ACTOR, False, False)}
TO_NODE, TO_PERSON = (Call("tail_entities", (number, label)) for number, label in enumerate(ENDS, 1))


def test_two_hops_over_a_node_are_said_as_one() -> None:
    lexicon = InventedLexicon({}, ENDS)
    assert lexicon.templates(DirectedRelation("film.film.starring", True)).nouns == ("{}",)
    assert lexicon.templates(DirectedRelation("film.starring.person", True)).questions == ACTOR.forward
    assert lexicon.templates(DirectedRelation("film.starring.person", False)).nouns == ("{}",)
    assert lexicon.templates(DirectedRelation("film.film.starring", False)).questions == ACTOR.backward
    plan = QuestionPlan("chain", ("The House",), (TO_NODE, TO_PERSON))
    text = Wording(lexicon, level=0).say(plan, random.Random(0))
    assert text is not None
    assert "The House" in text


def test_a_plan_may_not_stop_at_the_node() -> None:
    assert passes_mediators(QuestionPlan("chain", ("x",), (TO_NODE, TO_PERSON)), ENDS)
    assert not passes_mediators(QuestionPlan("chain", ("x",), (TO_NODE,)), ENDS)
    assert not passes_mediators(QuestionPlan("count", ("x",), (TO_NODE, Call("count", (2,)))), ENDS)
    assert not passes_mediators(
        QuestionPlan("chain", ("m.0abc",), (Call("tail_entities", (1, "film.starring.person")),)), ENDS
    )
    back = Call("head_entities", (2, "film.film.starring"))  # to the films that it came from
    assert not passes_mediators(QuestionPlan("chain", ("x",), (TO_NODE, back)), ENDS)


def test_mediator_nodes_of_a_graph() -> None:
    made = next(one for number in range(60) if (one := invented(number)).ends)
    for label, end in made.ends.items():
        nodes = [fact.tail if end.inward else fact.head for fact in made.facts if fact.relation == label]
        assert len(set(nodes)) == len(nodes)  # each fact has its own
        assert not any(map(askable, nodes))
        (other,) = (name for name, one in made.ends.items() if one.concept is end.concept and name != label)
        assert made.ends[other].head != end.head
        far = {fact.tail if made.ends[other].inward else fact.head for fact in made.facts if fact.relation == other}
        assert far == set(nodes)


# What is left out


def test_leaving_out() -> None:
    questions = [Question("1", "who directed the_house ?", ["the_house"], []), Question("2", "and now?", ["x"], [])]
    left_out = Exclusions(label_keys(["directedBy", "film.film.written_by"]), phrasings_of(questions))
    (concept,), counts = left_out.of([BANK["film-director"]])
    assert counts == {"labels": 4, "phrasings": 1, "concepts": 0}
    assert {"directed_by", "film.film.directed_by", "directed by", "DIRECTED_BY"} & set(concept.labels) == set()
    assert "director" in concept.labels
    assert "Who directed {}?" not in concept.forward
    every = Exclusions(label_keys(concept.labels + BANK["film-director"].labels))
    labels = len(BANK["film-director"].labels)
    assert every.of([BANK["film-director"]]) == ([], {"labels": labels, "phrasings": 0, "concepts": 1})


def test_what_is_left_out_does_not_come_back_in_another_style() -> None:
    banned = label_keys(label for concept in load_bank(["film"]) for label in concept.labels[:2])
    left_out = Exclusions(banned)
    concepts, _ = left_out.of(load_bank(["film", "person"]))
    for number in range(4):
        made = make_invented_graph(
            ConceptPool(concepts), number, random.Random(number), InventedSettings(), Namer(), banned=left_out.labels
        )
        assert banned.isdisjoint(map(label_key, made.meanings))


def test_nothing_is_asked_as_a_question_that_is_left_out() -> None:
    made = InventedGraph(0, [], {"director": (BANK["film-director"], False)}, {})
    plan = QuestionPlan("chain", ("The House",), (Call("tail_entities", (1, "director")),))

    def texts(left_out: frozenset[str]) -> set[str | None]:
        voices, chance = InventedWording(made, 0.0, left_out), random.Random(0)
        return {text and asked_as(text, plan.topics) for text in (voices.say(plan, chance) for _ in range(300))}

    every = texts(frozenset())
    assert "who directed 0name0" in every
    assert texts(frozenset({"who directed 0name0"})) == every - {"who directed 0name0"} | {None}


# Many graphs

JOINED = InventedDataSettings(
    worlds=6, per_world=20, noise=0.0, world=InventedSettings(entities=(80, 150), relations=(9, 14)), dev=0.2, test=0.2
)


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Dataset, InventedDataReport]]:
    folder = tmp_path_factory.mktemp("worlds")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KGWALK_CACHE", str(folder / "cache"))
        report = write_invented(folder / "made", JOINED, list(BANK.values()))
        yield load_dataset(folder / "made"), report


def test_whole_graphs_go_to_one_split(joined: tuple[Dataset, InventedDataReport]) -> None:
    dataset, report = joined
    assert dataset.splits() == ["train", "dev", "test"]
    assert report.worlds == {"train": 4, "dev": 1, "test": 1}
    graphs = [{question.extra["graph_id"] for question in dataset.questions(split)} for split in dataset.splits()]
    assert list(map(len, graphs)) == [4, 1, 1]
    assert len(set().union(*graphs)) == 6
    assert report.questions.total() == sum(len(dataset.questions(split)) for split in dataset.splits()) >= 100


def test_training_has_nothing_of_the_concepts_that_are_held_out(joined: tuple[Dataset, InventedDataReport]) -> None:
    dataset, report = joined
    unseen = JOINED.unseen(list(BANK.values()))
    assert len(unseen) == round(0.1 * len(BANK))
    for split in dataset.splits():
        for question in dataset.questions(split):
            concepts = question.extra["concepts"]
            assert isinstance(concepts, list)
            assert concepts
            assert question.extra["unseen"] == (not unseen.isdisjoint(concepts))
            assert not (split == "train" and question.extra["unseen"])
    assert report.unseen["train"] == 0 < report.unseen["dev"] + report.unseen["test"]


def test_a_question_is_answered_in_its_own_graph(joined: tuple[Dataset, InventedDataReport]) -> None:
    """The program of every question, walked over the joined dataset, gives its answers."""
    dataset, _ = joined
    for split in dataset.splits():
        for question in dataset.questions(split):
            sets = Sets(dataset.graph_for(question), question.topic_entities)
            program = question.extra["program"]
            assert isinstance(program, list)
            assert question.type in QUESTIONS
            number = 0
            for tool, *args in program:
                number = getattr(sets, tool)(*(int(arg[1:]) if arg.startswith("$") else arg for arg in args))
            assert sorted(sets.made[number - 1].members) == sorted(question.answers), question.question


def test_a_prompt_shows_nothing_of_other_graphs(joined: tuple[Dataset, InventedDataReport]) -> None:
    dataset, _ = joined
    lines = pa.input_stream(str(dataset.path / "graphs.jsonl.zst"), compression="zstd").read().splitlines()
    facts = {row["id"]: row["graph"] for row in map(orjson.loads, lines)}
    relations = {key: {fact[1] for fact in rows} for key, rows in facts.items()}
    assert len(relations) == 6
    for question in dataset.questions("train"):
        key = str(question.extra["graph_id"])
        graph = dataset.graph_for(question)
        walk = Kgwalk().begin(Task(question, question.topic_entities), Surroundings(graph), len)
        for number in range(1, len(walk.sets.made) + 1):
            leaving, entering = walk.sets.relations_around(number)
            assert {*leaving, *entering} <= {walk.sets.shown(name) for name in relations[key]}
    # numbers and the names of months are shared between graphs: in the whole graph they would join them
    names = Counter(name for rows in facts.values() for name in {end for fact in rows for end in (fact[0], fact[2])})
    shared = [name for name, count in names.items() if count > 1]
    around = [
        {key for key, own in relations.items() if own & {*dataset.graph().relations(name, out=False)}}
        for name in shared
    ]
    assert max(map(len, around)) > 1


def test_an_evaluation_tells_unseen_concepts_apart(joined: tuple[Dataset, InventedDataReport]) -> None:
    dataset, report = joined
    for split in dataset.splits():
        lines = Counter(dict(groups(one, gold_of(one)))["unseen"] for one in dataset.questions(split))
        assert lines["yes"] == report.unseen[split]
        assert lines["no"] == report.questions[split] - report.unseen[split]


def test_the_same_settings_make_the_same_graphs() -> None:
    few = InventedDataSettings(worlds=1, per_world=6, world=InventedSettings(entities=(40, 50), relations=(9, 10)))
    one, two = (next(make_invented(few, list(BANK.values()))) for _ in range(2))
    assert one == two
    assert [question.id for question in one.questions[:2]] == ["w0000-00001", "w0000-00002"]


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENVIRONMENT, "KGWALK_CACHE", str(tmp_path / "cache"))
    (tmp_path / "labels.txt").write_text("directed_by\n")
    asked = Question("1", "Who directed The House?", ["The House"], ["x"])
    (tmp_path / "test.jsonl").write_bytes(
        line_of({"id": asked.id, "question": asked.question, "topic_entities": ["The House"], "answers": ["x"]})
    )
    arguments = ("questions", "worlds", "-o", "made", "--worlds", "3", "--per-world", "10", "--domains", "film,person")
    without = ("--without-labels", "labels.txt", "--without-phrasings", "test.jsonl", "--without-graph", "world")
    done = quickly(*arguments, *without, "--json", cwd=tmp_path)
    assert (done.status, done.stderr) == (0, "")
    assert done.json["worlds"] == {"train": 1, "dev": 1, "test": 1}
    assert done.json["left_out"]["labels"] >= 4
    assert done.json["left_out"]["phrasings"] == 1
    assert sum(done.json["questions"].values()) > 10
    again = quickly(*arguments, cwd=tmp_path)
    assert (again.status, "exists" in again.stderr) == (1, True)
    unknown = quickly("questions", "worlds", "-o", "x", "--domains", "flim", cwd=tmp_path)
    assert "unknown domain of the bank `flim`; did you mean `film`" in unknown.stderr
