"""Relations that say the same from the other end, and that plans prefer the one that goes forwards."""

from __future__ import annotations

from collections.abc import Callable

from kgwalk.kg.store import StoredGraph
from kgwalk.questions.drawing import WalkSampler
from kgwalk.questions.make import make_questions
from kgwalk.questions.plan import MakeSettings
from kgwalk.questions.schema import Inverses, survey
from kgwalk.questions.wording.name_lexicon import NameLexicon
from kgwalk.questions.wording.speaker import Wording
from kgwalk.types import Triple
from kgwalk.walk.facts import DirectedRelation

# Ann and Bob have Cid and Dot; Dot has Eve. Of Eve nobody wrote down the parents, and of Cid one only.
FAMILY = [
    Triple("Ann", "children", "Cid"),
    Triple("Ann", "children", "Dot"),
    Triple("Bob", "children", "Cid"),
    Triple("Bob", "children", "Dot"),
    Triple("Dot", "children", "Eve"),
    Triple("Cid", "parents", "Ann"),
    Triple("Dot", "parents", "Ann"),
    Triple("Dot", "parents", "Bob"),
    Triple("Ann", "spouse", "Bob"),
    Triple("Bob", "spouse", "Ann"),
    Triple("Rome", "country", "Italy"),
    Triple("Milan", "country", "Italy"),
    Triple("Turin", "country", "Italy"),
    Triple("Bari", "country", "Italy"),
    Triple("Pisa", "country", "Italy"),
    Triple("Italy", "capital", "Rome"),
    Triple("Ann", "born_in", "Milan"),
    Triple("Bob", "born_in", "Turin"),
    Triple("Cid", "born_in", "Rome"),
    Triple("Dot", "born_in", "Rome"),
    Triple("Eve", "born_in", "Bari"),
]


def test_found_by_the_facts_of_both(store: Callable[..., StoredGraph]) -> None:
    found = Inverses(store(FAMILY))
    assert found.of("children") == {"parents"}  # 3 of its 5 facts are there as parents
    assert found.of("parents") == {"children"}  # and 3 of 3 the other way
    assert found.of("spouse") == {"spouse"}
    # every capital's country is there, but of 5 countries one only is so by its capital: less than a quarter
    assert found.of("capital") == found.of("country") == found.of("born_in") == frozenset()
    assert found.said_forwards("parents", ["born_in", "children"])
    assert not found.said_forwards("parents", ["born_in"])
    assert not found.said_forwards("born_in", ["born_in", "children"])


def test_a_part_of_a_relation_is_no_inverse_of_it(store: Callable[..., StoredGraph]) -> None:
    """Every captain plays for the club, but of three players one only is captain: who plays for it is asked still."""
    facts = [Triple(who, "plays_for", "Rovers") for who in ("Ann", "Bob", "Cid")] + [Triple("Rovers", "captain", "Ann")]
    graph = store(facts)
    assert Inverses(graph).of("captain") == Inverses(graph).of("plays_for") == frozenset()
    assert DirectedRelation("plays_for", False) in WalkSampler(graph, MakeSettings()).around("Rovers")


def test_ways_go_forwards_where_they_can(store: Callable[..., StoredGraph]) -> None:
    sampler = WalkSampler(store(FAMILY), MakeSettings())

    def around(name: str) -> set[DirectedRelation]:
        return {way for way in sampler.around(name) if way.relation in ("children", "parents", "spouse")}

    # Ann has children, so nobody is asked for by having Ann for a parent; her spouse is asked for forwards
    assert around("Ann") == {DirectedRelation("children", True), DirectedRelation("spouse", True)}
    # Dot has both: whose child Dot is, is said by parents
    assert around("Dot") == {DirectedRelation("children", True), DirectedRelation("parents", True)}
    # Eve's parents are nowhere: the way back by children is all there is
    assert around("Eve") == {DirectedRelation("children", False)}


def test_no_question_goes_backwards_where_a_relation_goes_forwards(store: Callable[..., StoredGraph]) -> None:
    graph = store(FAMILY)
    schema, inverses = survey(graph), Inverses(graph)
    made = make_questions(graph, Wording(NameLexicon(schema)), MakeSettings(count=60, seed=3), schema=schema)
    chains = [one for one in made if one.type == "chain"]
    assert len(chains) >= 10
    for question in chains:
        first, *_ = question.extra["program"]
        if first[0] == "head_entities":
            (topic,) = question.topic_entities
            assert not inverses.said_forwards(first[2], graph.relations(topic)), question.question


def test_topics_that_can_be_walked_either_way(store: Callable[..., StoredGraph]) -> None:
    """Ann reports to Bob, Bob to Cid: of Bob only the words tell whether his boss is meant, or who reports to him."""
    facts = [Triple("Ann", "reports_to", "Bob"), Triple("Bob", "reports_to", "Cid"), Triple("Ann", "works_in", "Rome")]
    graph = store(facts)
    sampler = WalkSampler(graph, MakeSettings(either=1.0))
    for out in (True, False):
        assert {sampler.topic(DirectedRelation("reports_to", out)) for _ in range(20)} == {"Bob"}
    assert sampler.topic(DirectedRelation("works_in", True)) == "Ann"  # no place works anywhere
    names = {
        WalkSampler(graph, MakeSettings(either=0.0, seed=n)).topic(DirectedRelation("reports_to", True))
        for n in range(20)
    }
    assert names == {"Ann", "Bob"}


def test_a_relation_named_by_a_verb_can_be_compared_by(store: Callable[..., StoredGraph]) -> None:
    """Small graphs call a date `born`: the youngest of a club's players can be asked for all the same."""
    years = {"Ann": "1990-01-25", "Bob": "1993-10-02", "Cid": "1999-06-14"}
    facts = [Triple(who, "plays_for", "Rovers") for who in years]
    graph = store([*facts, *(Triple(who, "born", when) for who, when in years.items())])
    schema = survey(graph)
    settings = MakeSettings(count=6, patterns={"superlative": 1.0}, hops={1: 1.0})
    made = make_questions(graph, Wording(NameLexicon(schema)), settings, schema=schema)
    asked = {question.extra["program"][-1][0]: question for question in made}
    assert asked["argmin"].answers == ["Ann"]
    assert asked["argmax"].answers == ["Cid"]
    words = " ".join(question.question.lower() for question in made)
    assert any(word in words for word in ("youngest", "oldest", "eldest", "born last", "born first", "birth date"))
