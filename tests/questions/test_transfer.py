"""Questions that agents lose their way in: walks that come back, nouns in a row, two topics, times of nodes."""

from __future__ import annotations

import doctest
import random
import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from conftest import store_of
from kgwalk.demos.path_search import reverse
from kgwalk.questions.bank import Concept, load_bank
from kgwalk.questions.drawing import WalkSampler
from kgwalk.questions.invented.dataset import InventedDataSettings, InventedPart, make_invented
from kgwalk.questions.invented.facts import InventedLexicon, MediatorEnd, passes_mediators
from kgwalk.questions.invented.graph import InventedGraph, InventedSettings
from kgwalk.questions.invented.values import HAPPENS, LASTS
from kgwalk.questions.patterns import DRAWS
from kgwalk.questions.plan import MakeSettings, PlanBuilder, PlanRejected, QuestionPlan
from kgwalk.questions.wording import chains, joins, values
from kgwalk.questions.wording.bank_lexicon import BankLexicon, ConceptNouns
from kgwalk.questions.wording.speaker import Wording
from kgwalk.questions.wording.values import value_words
from kgwalk.types import Call, Question
from kgwalk.walk.facts import DirectedRelation

BANK = {concept.id: concept for concept in load_bank()}
OUT, IN = "tail_entities", "head_entities"


def meaning(**concepts: str) -> dict[str, tuple[Concept, bool]]:
    return {label: (BANK[name], False) for label, name in concepts.items()}


def said(lexicon: BankLexicon | InventedLexicon, plan: QuestionPlan, seeds: int = 400, level: int = 2) -> set[str]:
    texts = (Wording(lexicon, level=level).say(plan, random.Random(seed)) for seed in range(seeds))
    return {text.lower().rstrip("?. ").replace(" 's", "'s") for text in texts if text is not None}


@pytest.mark.parametrize("module", [joins, chains, values], ids=lambda one: one.__name__)
def test_the_examples_in_the_documentation(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


# Walks that come back

FAMILY = [
    ("Ann", "parents", "Bob"),
    ("Cid", "parents", "Bob"),
    ("Bob", "children", "Ann"),
    ("Bob", "children", "Cid"),
    ("Ann", "spouse", "Dan"),
    ("Cid", "spouse", "Eve"),
    ("Dan", "spouse", "Ann"),
    ("Eve", "spouse", "Cid"),
    ("Ann", "religion", "Sunism"),
    ("Cid", "religion", "Moonism"),
]
PARENTS, CHILDREN, SPOUSE = (
    DirectedRelation("parents", True),
    DirectedRelation("children", True),
    DirectedRelation("spouse", True),
)


def test_a_walk_that_keeps_its_start(tmp_path: Path) -> None:
    graph, settings = store_of(tmp_path, FAMILY), MakeSettings()
    left_out = PlanBuilder(graph, ["Ann"], settings)
    left_out.follow(1, [PARENTS, CHILDREN, SPOUSE])  # whom did Ann's siblings marry?
    assert left_out.plan("chain").program()[2] == ["minus", "$3", "$1"]
    assert left_out.members(5) == ("Eve",)
    kept = PlanBuilder(graph, ["Ann"], settings)
    kept.follow(1, [PARENTS, CHILDREN, SPOUSE], keeps=True)  # whom did the children of Ann's parents marry?
    assert [step.tool for step in kept.steps] == [OUT, OUT, OUT]
    assert set(kept.members(4)) == {"Dan", "Eve"}
    ended = PlanBuilder(graph, ["Ann"], settings)
    ended.follow(1, [PARENTS, CHILDREN], keeps=True)  # an answer is never the topic
    assert ended.members(4) == ("Cid",)


def test_a_walk_that_is_where_it_was(tmp_path: Path) -> None:
    """The religion of Ann's husband's wife is Ann's: it is asked for, as people do, if the walk may come back so."""
    graph, settings = store_of(tmp_path, FAMILY), MakeSettings()
    ways = [SPOUSE, SPOUSE, DirectedRelation("religion", True)]
    with pytest.raises(PlanRejected, match="comes back to its start alone"):
        PlanBuilder(graph, ["Ann"], settings).follow(1, ways)
    with pytest.raises(PlanRejected, match="comes back to where it was"):
        PlanBuilder(graph, ["Ann"], settings).follow(1, ways, keeps=True)
    again = PlanBuilder(graph, ["Ann"], settings)
    again.follow(1, ways, keeps=True, again=True)
    assert again.members(4) == ("Sunism",)


def test_a_turn_may_come_back_by_another_relation(tmp_path: Path) -> None:
    sampler = WalkSampler(store_of(tmp_path, FAMILY), MakeSettings(loops=1.0))
    found = set()
    for _ in range(300):
        try:
            found.add(sampler.path(2, turns=True).ways)
        except PlanRejected:
            continue
    assert {(PARENTS, CHILDREN), (CHILDREN, PARENTS)} <= found
    assert (PARENTS, reverse(PARENTS)) not in found  # `children` says it forwards
    assert all(sampler.path(1).ways for _ in range(5))


def test_many_walks_go_forwards_alone(tmp_path: Path) -> None:
    """A walk of two hops forwards is from a person over the town to the land, backwards the other way round. As many
    would be drawn of either; but a quarter of all start from what facts tell of, never from the land, and go forwards.
    """
    facts = [(name, relation, "Town") for name in ("Ann", "Bob") for relation in ("born_in", "lives_in", "died_in")]
    sampler = WalkSampler(store_of(tmp_path, [*facts, ("Town", "in", "Land")]), MakeSettings())
    walks = Counter[tuple[bool, ...]]()
    for _ in range(400):
        try:
            walks[tuple(way.out for way in sampler.path(2).ways)] += 1
        except PlanRejected:
            continue
    assert walks[True, True] > 1.5 * walks[False, False] > 0
    heads_only = {sampler.starts.any_entity(sampler.chance, 0.0, heads_only=True) for _ in range(100)}
    assert heads_only == {"Ann", "Bob", "Town"}


def test_a_turn_leans_to_where_another_relation_could_be_meant(tmp_path: Path) -> None:
    """Ada directs and writes, Zed only directs: from Ada, `written_by` leads back to films as well."""
    facts = [(f"A{film}", relation, "Ada") for film in range(3) for relation in ("directed_by", "written_by")]
    facts += [(f"Z{film}", "directed_by", "Zed") for film in range(3)]
    sampler = WalkSampler(store_of(tmp_path, facts), MakeSettings(loops=1.0))
    middles: Counter[str] = Counter()
    for _ in range(400):
        path = sampler.path(2, turns=True)
        if path.topic[0] in "AZ" and path.ways[0] == DirectedRelation("directed_by", True):
            middles[path.entities[1]] += 1
    assert middles["Ada"] > 2 * middles["Zed"] > 0


FILMS = BankLexicon(meaning(directed_by="film-director", written_by="film-screenwriter", has_genre="film-genre"))
SAME = QuestionPlan(
    "chain", ("Rooks",), (Call(OUT, (1, "directed_by")), Call(IN, (2, "directed_by")), Call("minus", (3, 1)))
)


def test_there_and_back_in_words() -> None:
    texts = said(FILMS, SAME, 1500)
    assert "which films have the same director as rooks" in texts
    assert "which films share a filmmaker with rooks" in texts
    assert "the director of rooks also directed which films" in texts
    assert any(text.startswith("apart from rooks, ") for text in texts)
    assert any("rooks's director" in text or "director of rooks" in text for text in texts)
    assert "which films did the director of rooks direct" in texts  # nobody must say "other"


def test_who_does_the_same_together() -> None:
    """From a person over films to people, by one relation: the others who are there."""
    steps = (Call(IN, (1, "directed_by")), Call(OUT, (2, "directed_by")), Call("minus", (3, 1)))
    texts = said(FILMS, QuestionPlan("chain", ("Ada Lumen",), steps), 1500)
    assert "with whom did ada lumen direct films" in texts
    assert "who co-directed films with ada lumen" in texts
    assert any("co-directors of ada lumen" in text for text in texts)
    assert any("directed the same films as ada lumen" in text for text in texts)


def test_what_is_left_out_on_the_way_is_said() -> None:
    back = (Call(OUT, (1, "directed_by")), Call(IN, (2, "directed_by")))
    marked = QuestionPlan("chain", ("Rooks",), (*back, Call("minus", (3, 1)), Call(OUT, (4, "has_genre"))))
    kept = QuestionPlan("chain", ("Rooks",), (*back, Call(OUT, (3, "has_genre"))))
    says_so = re.compile(r"\b(?:other|others|same|shar\w+|also|besides|co-\w+)\b")
    assert all(says_so.search(text) for text in said(FILMS, marked))
    assert not any(re.search(r"\b(?:other|others|same|shar\w+|besides)\b", text) for text in said(FILMS, kept))


# Nouns in a row

KIN = meaning(parents="kinship-parent", spouse="kinship-spouse", religion="person-religion")
NESTED = QuestionPlan(
    "chain", ("Ann",), (Call(OUT, (1, "parents")), Call(OUT, (2, "spouse")), Call(OUT, (3, "religion")))
)


def test_nouns_of_everyday_speech_in_a_row() -> None:
    texts = said(BankLexicon(KIN), NESTED, 1200)
    marry, believe = "(?:wife|husband|other half)", "(?:faith|creed|belief|religion)"
    assert any(re.search(f"ann's [a-z]+'s {marry}'s {believe}", text) for text in texts)
    assert any(re.search(f"the {believe} of (?:the )?{marry} of ann's", text) for text in texts)
    assert any("ann's dad" in text for text in texts)
    assert sum("'s" in text for text in texts) > len(texts) / 10


def test_a_noun_means_the_nearest_relation() -> None:
    """Where a graph has fathers, "dad" is the father; else it may be either parent."""
    parent, father = BANK["kinship-parent"], BANK["kinship-father"]
    assert {"dad", "mom", "father"} <= set(ConceptNouns([parent]).nouns(parent, True))
    both = ConceptNouns([parent, father])
    assert not {"dad", "father"} & set(both.nouns(parent, True))
    assert "mom" in both.nouns(parent, True)
    assert "dad" in both.nouns(father, True)


def test_books_of_somebody_are_those_of_the_one_relation() -> None:
    author, editor = BANK["book-author"], BANK["book-editor"]
    assert "books" in ConceptNouns([author]).nouns(author, False)
    assert ConceptNouns([author]).alone(author)
    assert "books" not in ConceptNouns([author, editor]).nouns(author, False)
    assert not ConceptNouns([author, BANK["generic-created-by"]]).alone(author)  # anything by anybody


def test_most_concepts_have_four_nouns() -> None:
    few = [one.id for one in BANK.values() if len(ConceptNouns([one]).nouns(one, True)) < 4]
    assert len(few) < 0.2 * len(BANK)  # English has no four words for a feast day
    for one in BANK.values():
        for noun in one.nouns + one.inverse_nouns:
            assert re.fullmatch(r"[a-z][a-z -]*", noun), f"{one.id}: {noun!r}"
            assert len(noun.split()) <= 3, f"{one.id}: {noun!r}"
            assert noun.split()[0] not in ("the", "a", "an"), f"{one.id}: {noun!r}"
        assert len(set(one.nouns)) == len(one.nouns), one.id
        for clause in one.where:
            assert re.fullmatch(r"(?:does|did|is|was|can)( one \w+)? \{\}( [a-z -]+)?", clause), f"{one.id}: {clause!r}"


# A middle that is not named

PLACES = meaning(
    team="sport-player-team", city="sport-team-city", born="person-birthplace", country="place-city-country"
)


def test_a_middle_that_is_implied() -> None:
    lexicon = BankLexicon(PLACES)
    club = said(lexicon, QuestionPlan("chain", ("Ann",), (Call(OUT, (1, "team")), Call(OUT, (2, "city")))))
    assert {"in which city does ann play", "where does ann play"} & club
    birth = said(lexicon, QuestionPlan("chain", ("Ann",), (Call(OUT, (1, "born")), Call(OUT, (2, "country")))))
    assert "in which country was ann born" in birth
    assert "where was ann born" not in birth  # that is the city
    one = said(lexicon, QuestionPlan("chain", ("Ann",), (Call(OUT, (1, "born")),)))
    assert "in which country was ann born" not in one


# Rows that join two things, which nobody names

SCHOOL = meaning(student="school-enrolment-student", course="school-enrolment-course", grade="school-enrolment-grade")
TAKES = QuestionPlan("chain", ("Ann",), (Call(IN, (1, "student")), Call(OUT, (2, "course"))))
TAKEN = QuestionPlan("chain", ("Algebra",), (Call(IN, (1, "course")), Call(OUT, (2, "student"))))


def test_a_question_goes_over_rows_as_if_over_one_relation() -> None:
    lexicon = BankLexicon(SCHOOL)
    assert {"which courses does ann take", "what is ann studying"} <= said(lexicon, TAKES)
    assert {"who takes algebra", "which students take algebra"} <= said(lexicon, TAKEN)
    one = said(lexicon, QuestionPlan("chain", ("Ann",), (Call(IN, (1, "student")),)))
    assert not any("courses" in text for text in one)  # these are her enrolments
    plain = said(lexicon, TAKES, level=0)
    assert "which courses does ann take" not in plain  # level 0 has the words of the relations' own names


def test_what_is_over_rows_is_counted_and_goes_on() -> None:
    lexicon = BankLexicon(SCHOOL | meaning(teacher="school-class-teacher"))
    counted = said(lexicon, replace(TAKES, pattern="count", steps=(*TAKES.steps, Call("count", (3,)))))
    assert "how many courses does ann take" in counted
    texts = said(lexicon, replace(TAKES, steps=(*TAKES.steps, Call(OUT, (3, "teacher")))), 800)
    assert "who teaches ann" in texts  # three hops as one
    assert any("the courses that ann takes" in text for text in texts)  # and two of the three


def test_where_a_relation_joins_the_two_the_words_mean_that_one() -> None:
    direct = BankLexicon(SCHOOL | meaning(attends="education-student-course"))
    assert "which courses does ann take" not in said(direct, TAKES)
    generic = BankLexicon(SCHOOL | meaning(related="generic-related-to"))
    assert "which courses does ann take" in said(generic, TAKES)
    assert direct.through((DirectedRelation("student", False), DirectedRelation("course", True))) is None


# Two topics


def both(one: str, two: str, tool: str = "intersect") -> QuestionPlan:
    pattern = "intersection" if tool == "intersect" else tool
    return QuestionPlan(pattern, ("Kade", "Lumen"), (Call(IN, (1, one)), Call(IN, (2, two)), Call(tool, (3, 4))))


def test_two_conditions_in_one_clause() -> None:
    texts = said(FILMS, both("directed_by", "written_by"), 800)
    alone = [text for text in texts if not re.search(r"\b(?:and|both|also|common)\b", text)]
    assert len(alone) > len(texts) / 2
    assert any(re.match(r"(?:which|what) (?:films|movies|pictures) .*lumen.*kade", text) for text in alone)


def test_a_topic_before_the_noun() -> None:
    players = BankLexicon(meaning(team="sport-player-team", position="sport-player-position"))
    assert players.alone(DirectedRelation("team", True))
    texts = said(players, both("team", "position"), 1500)
    assert any(re.search(r"\b(?:kade|lumen) players?\b", text) for text in texts)
    two = BankLexicon(meaning(directed_by="film-director", written_by="film-screenwriter"))
    assert not two.alone(DirectedRelation("directed_by", True))  # films that Kade directed, or those that he wrote?
    assert not any("kade films" in text for text in said(two, both("directed_by", "written_by"), 600))


def test_a_union_is_never_said_with_and() -> None:
    mark = re.compile(r"\bor\b|\beither\b|as well as|together with")
    for plan in (both("directed_by", "directed_by", "union"), both("directed_by", "written_by", "union")):
        texts = said(FILMS, plan, 600)
        assert texts
        assert all(mark.search(text) for text in texts)
        assert not any(" and " in text for text in texts)


# More and less


def test_directions_and_first_and_last() -> None:
    assert value_words("latitude").least[0] == "southernmost"
    assert value_words("longitude").least[0] == "westernmost"
    assert "eldest" in value_words("date of birth").least  # the earliest birth
    assert value_words("release year").did_least == ("came out first",)
    assert value_words("publication year").most == ("newest", "latest", "most recent")
    assert value_words("number of pages").did_least == ("has the fewest pages",)
    assert value_words("charge") == values.ValueWords()


def test_the_most_southern_city() -> None:
    lexicon = BankLexicon(
        meaning(country="place-city-country", latitude="place-latitude", people="place-city-population")
    )
    south = QuestionPlan("superlative", ("Ostria",), (Call(IN, (1, "country")), Call("argmin", (2, "latitude"))))
    texts = said(lexicon, south, 800)
    assert any("most southern" in text or "southernmost" in text for text in texts)
    assert any(text.endswith("lies furthest south") for text in texts)
    assert not any("north" in text for text in texts)
    more = QuestionPlan(
        "comparison", ("Ostria",), (Call(IN, (1, "country")), Call("filter", (2, "people", ">=", "5000")))
    )
    assert any(text.endswith("at least 5000 inhabitants") for text in said(lexicon, more))


def test_dates_as_verbs() -> None:
    lexicon = BankLexicon(meaning(born="person-birthplace", birth="person-birthdate"))
    later = QuestionPlan("comparison", ("Ostria",), (Call(IN, (1, "born")), Call("filter", (2, "birth", ">", "1980"))))
    assert any("were born after 1980" in text for text in said(lexicon, later))
    first = QuestionPlan("superlative", ("Ostria",), (Call(IN, (1, "born")), Call("argmin", (2, "birth"))))
    texts = said(lexicon, first, 800)
    assert any("was born first" in text for text in texts)
    assert any("eldest" in text or "oldest" in text for text in texts)
    assert not any("youngest" in text for text in texts)


# Times of nodes

GOVERNOR = BANK["politics-region-governor"]
ENDS = {"governed_in": MediatorEnd(GOVERNOR, True, True), "office_holder": MediatorEnd(GOVERNOR, False, False)}
MARKS = {"from": "start", "to": "end"}
IN_2009 = (
    Call(OUT, (1, "governed_in")),
    Call("filter", (2, "to", ">=", "2009")),
    Call("filter", (3, "from", "<", "2010")),
    Call(OUT, (4, "office_holder")),
)


def test_the_time_of_a_node_in_words() -> None:
    lexicon = InventedLexicon({}, ENDS, MARKS)
    texts = said(lexicon, QuestionPlan("time", ("Velmora",), IN_2009))
    assert any(text.endswith("in 2009") for text in texts)
    assert any(text.startswith("in 2009, ") for text in texts)
    assert all("2009" in text and "2010" not in text for text in texts)
    first = (IN_2009[0], Call("argmin", (2, "from")), Call(OUT, (3, "office_holder")))
    assert any(
        re.search(r"\b(?:first|earliest)\b", text)
        for text in said(lexicon, QuestionPlan("superlative", ("Velmora",), first))
    )
    ended = (IN_2009[0], Call("argmin", (2, "to")), Call(OUT, (3, "office_holder")))
    assert said(lexicon, QuestionPlan("superlative", ("Velmora",), ended)) == set()


def test_nodes_are_chosen_from_by_their_times_alone() -> None:
    assert passes_mediators(QuestionPlan("time", ("Velmora",), IN_2009), ENDS, MARKS)
    assert not passes_mediators(QuestionPlan("time", ("Velmora",), IN_2009[:3]), ENDS, MARKS)  # ends at the nodes
    assert not passes_mediators(QuestionPlan("time", ("Velmora",), IN_2009), ENDS)
    when = (IN_2009[0], Call(OUT, (2, "from")))
    assert not passes_mediators(QuestionPlan("chain", ("Velmora",), when), ENDS, MARKS)


def test_a_question_of_the_time_of_a_node(tmp_path: Path) -> None:
    terms_of_office = [("Ada", 2001, 2006), ("Bob", 2006, 2010), ("Cid", 2011, 2019)]
    facts = []
    for number, (name, first, last) in enumerate(terms_of_office):
        node = f"m.0ab{number}x"
        facts += [("Velmora", "governed_in", node), (node, "office_holder", name)]
        facts += [(node, "from", f"{first}-03-01"), (node, "to", f"{last}-02-01")]
    sampler = WalkSampler(store_of(tmp_path, facts), MakeSettings())
    assert {way.relation for way in sampler.at_nodes} == {"from", "to"}
    found = {}
    for _ in range(200):
        try:
            builder = DRAWS["time"](sampler, 2)
        except PlanRejected:
            continue
        if builder.topics == ("Velmora",):
            year = builder.steps[1].args[3]
            found[year] = set(builder.members(len(builder.sets.made)))
    assert found["2009"] == {"Bob"}
    assert found["2006"] == {"Ada", "Bob"}
    assert found["2015"] == {"Cid"}


def test_tables_of_times_name_what_the_bank_has() -> None:
    assert BANK.keys() >= LASTS | HAPPENS
    assert LASTS.isdisjoint(HAPPENS)


# Worlds


def test_shares_of_invented_questions() -> None:
    settings = InventedDataSettings(
        worlds=4, per_world=50, seed=2, dev=0, test=0, noise=0.0, world=InventedSettings(entities=(150, 300))
    )
    made = list(make_invented(settings, list(BANK.values())))
    questions = [question for one in made for question in one.questions]
    types = Counter(str(question.type) for question in questions)
    assert types["union"] <= 0.05 * len(questions)
    assert 0.1 * len(questions) <= types["intersection"] <= 0.2 * len(questions)
    chains = [question for question in questions if question.type == "chain"]
    hops = Counter(question.hops for question in chains)
    for number, share in MakeSettings().hops.items():
        assert hops[number] == pytest.approx(share * len(chains), abs=0.07 * len(chains))
    longer = [
        (one.graph, asked) for one in made for asked in one.questions if asked.type == "chain" and asked.hops != 1
    ]
    assert 0.1 * len(longer) <= sum(_turns(*one) for one in longer) <= 0.35 * len(longer)
    assert any(map(_both_ways, made))  # a relation that is there in either direction, under two names


def _both_ways(made: InventedPart) -> bool:
    return len({concept.id for concept, _ in made.graph.meanings.values()}) < len(made.graph.meanings)


def _turns(graph: InventedGraph, question: Question) -> bool:
    """Whether two hops in a row are of one concept, there and back: by one label, or by two."""

    def hop(step: list[str]) -> tuple[str, bool]:
        concept, turned = graph.meanings.get(step[2], (None, False))
        return step[2] if concept is None else concept.id, (step[0] == OUT) != turned

    hops = [hop(step) for step in question.extra["program"] if step[0] in (OUT, IN)]
    return any(one[0] == two[0] and one[1] != two[1] for one, two in pairwise(hops))
