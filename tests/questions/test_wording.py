"""Plans in words: grammar, lexicons from the bank and from names, whole plans said at every level."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgwalk.kg.build import build
from kgwalk.kg.store import load_graph
from kgwalk.questions.bank import Concept, load_bank
from kgwalk.questions.plan import PATTERNS, QuestionPlan
from kgwalk.questions.schema import survey
from kgwalk.questions.wording.bank_lexicon import BankLexicon, BankMatch, bare_nouns, plain_label
from kgwalk.questions.wording.english import a, base, past_of, plural, singular
from kgwalk.questions.wording.lexicon import Templates
from kgwalk.questions.wording.name_lexicon import NameLexicon
from kgwalk.questions.wording.phrases import Phrase, as_many, fill, fits, is_many, parts
from kgwalk.questions.wording.relation_names import read_name
from kgwalk.questions.wording.speaker import Wording, add_noise, apply_manner
from kgwalk.types import Call, KgwalkError
from kgwalk.walk.facts import DirectedRelation

FACTS = """Rooks\tdirected_by\tAda Lumen
Glass Tide\tdirected_by\tAda Lumen
Rooks\twritten_by\tViktor Oss
Rooks\tfilm_editor\tViktor Oss
Rooks\trelease_year\t1999
Glass Tide\trelease_year\t2004
Ada Lumen\tplace_of_birth\tVelmora
Viktor Oss\tplace_of_birth\tVelmora
Velmora\tpopulation\t81000
Ada Lumen\tspouse\tViktor Oss
Velmora\tin_country\tOstria
Ada Lumen\tkn_q7\tViktor Oss
"""


@pytest.fixture(scope="module")
def lexicon(tmp_path_factory: pytest.TempPathFactory) -> NameLexicon:
    folder = tmp_path_factory.mktemp("graph")
    (folder / "facts.tsv").write_text(FACTS, "utf-8")
    build([folder / "facts.tsv"], folder / "facts.kg")
    return NameLexicon(survey(load_graph(folder / "facts.kg")))


def concept(name: str) -> Concept:
    return next(one for one in load_bank() if one.id == name)


# Grammar


def test_inflection() -> None:
    assert [plural(word) for word in ("film", "city", "person", "place of birth")] == [
        "films", "cities", "people", "places of birth",
    ]  # fmt: skip
    assert [singular(plural(word)) for word in ("film", "city", "child", "church")] == [
        "film", "city", "child", "church",
    ]  # fmt: skip
    ies = ("underlies", "vies", "belies", "belied", "lies", "relies")
    assert [base(form) for form in ies] == ["underlie", "vie", "belie", "belie", "lie", "rely"]
    assert [base(form) for form in ("directed", "produced", "wrote", "carries", "starred", "edited")] == [
        "direct", "produce", "write", "carry", "star", "edit",
    ]  # fmt: skip
    assert (past_of("host"), past_of("ban"), a("award"), a("university")) == (
        "hosted",
        "banned",
        "an award",
        "a university",
    )


def test_phrases_agree() -> None:
    sons, son = Phrase("the sons of X", many=True), Phrase("the son of X")
    assert fill("Where was {} born?", sons) == "Where were the sons of X born?"
    assert fill("Where was {} born?", son) == "Where was the son of X born?"
    assert fill("What does {} do?", sons) == "What do the sons of X do?"
    assert fill("What has {} as its capital?", sons) == "What has the sons of X as its capital?"
    assert fill("What has {} written?", sons) == "What have the sons of X written?"
    assert fill("{} belongs to what?", sons) == "The sons of X belong to what?"


def test_the_verb_agrees_with_its_own_subject() -> None:
    lands = Phrase("the lands of X", many=True)
    assert fill("tell me what the capital of {} is", lands) == "tell me what the capital of the lands of X is"
    assert fill("the ones that {} partially contains", lands) == "the ones that the lands of X partially contain"
    assert fill("{} has whom as its king?", lands) == "The lands of X have whom as their king?"
    units = Phrase("units of X", many=True)
    assert fill("the person {} was led by", units).startswith("the person the units of X")


def test_several_of_what_was_one() -> None:
    assert as_many(Phrase("\ue000's child", short=True)).text == "\ue000's children"
    assert as_many(Phrase("a half-brother or half-sister of X")).text == "the half-brothers or half-sisters of X"
    assert as_many(Phrase("the body that looks after X")).text == "the bodies that look after X"
    assert as_many(Phrase("the next in the series after X")).text == "the next in the series after X"


def test_no_template_of_the_bank_raises() -> None:
    """Every template of a concept, in both directions, with every noun phrase of that concept in it, two deep."""
    name = Phrase("\ue000", name="Velmora", short=True)
    for one in load_bank():
        nouns = one.forward_nouns + one.backward_nouns
        once = [Phrase(fill(noun, name), is_many(noun), one.tail, hops=1) for noun in nouns]
        for phrase in [*once, *(as_many(inner) for inner in once[::2])]:
            for template in one.forward + one.backward + nouns:
                if fits(template, phrase):
                    as_many(Phrase(fill(template, phrase), hops=2))


def test_what_takes_a_name_only() -> None:
    name, films = Phrase("X", name="X", short=True), Phrase("the films of X", many=True)
    for template in ("Who made the movie {}?", "{} cast?", "Who is {}'s wife?", "who plays in club {}"):
        assert fits(template, name)
        assert not fits(template, films)
    assert fits("Who made {}?", films)
    assert not fits("Who came from the {}?", Phrase("The Hague", name="The Hague"))


def test_heads_of_noun_phrases() -> None:
    assert parts("the films directed by {}") == ("the", "films", "directed by {}")
    assert parts("nations adjacent to {}") == ("", "nations", "adjacent to {}")
    assert parts("the sports team of {}") == ("the", "sports team", "of {}")
    assert parts("the person \ue000 was held by") == ("the", "person", "\ue000 was held by")
    assert is_many("the people who met {}")
    assert not is_many("the series of {}")
    assert as_many(Phrase("someone who plays for X")).text == "those who play for X"
    assert as_many(Phrase("the person who was born in X")).text == "the people who were born in X"


# Lexicons


def test_the_bank_speaks_for_its_labels() -> None:
    director = concept("film-director")
    lexicon = BankLexicon({"directed_by": (director, False), "films_directed": (director, True)})
    out, back = (
        lexicon.templates(DirectedRelation("directed_by", True)),
        lexicon.templates(DirectedRelation("directed_by", False)),
    )
    assert (out.questions, out.nouns, out.kind) == (director.forward, director.forward_nouns, "person")
    assert (back.questions, back.nouns, back.kind) == (director.backward, director.backward_nouns, "film")
    assert lexicon.templates(DirectedRelation("films_directed", True)).questions == director.backward
    assert "Who directed {}?" in out.plain_questions
    assert out.bare == ("director", "filmmaker", "helmer", "film director", "movie director")
    assert out.plain_bare == ("director",)
    assert lexicon.value_words("directed_by") == ()


def test_bare_nouns_tell_the_relation() -> None:
    assert "film" not in bare_nouns(concept("film-director"), False)  # X's films: written, directed, or about it?
    assert "capital" in bare_nouns(concept("place-country-capital"), True)
    for one in load_bank():
        for forward in (True, False):
            assert all(noun.isascii() and len(noun.split()) <= 3 for noun in bare_nouns(one, forward)), one.id


def test_labels_that_make_no_sentence_leave_it_to_the_bank() -> None:
    """`can_open` is no noun, and `on_drums` does not name the drummer; `film_editor` is as good as the bank's words."""
    for relation, name in (("can_open", "software-reads-format"), ("endstation", "transport-rail-line-terminus")):
        known = [one for one in load_bank() if one.id == name]
        for one in known:
            assert not BankLexicon({relation: (one, False)}).templates(DirectedRelation(relation, True)).plain_questions
    editor = BankLexicon({"film_editor": (concept("film-editor"), False)}).templates(
        DirectedRelation("film_editor", True)
    )
    assert "the film editor of {}" in editor.plain_nouns


def test_levels_choose_among_the_templates() -> None:
    said = Templates(("who made {}",), ("the maker of {}",), "", ("Who is the r of {}?",), ("the r of {}",), (), ("r",))
    assert said.at(0) == (("Who is the r of {}?",), ("the r of {}",), ("r",))
    assert said.at(1)[0] == ("Who is the r of {}?", "who made {}")
    assert said.at(2) == (("who made {}",), ("the maker of {}",), ("r",))


def test_a_graph_is_matched_with_the_bank(lexicon: NameLexicon) -> None:
    meant = {relation: lexicon.concept_of(relation) for relation in lexicon.schema.relations}
    assert {name: found[0].id for name, found in meant.items() if found is not None} == {
        "directed_by": "film-director",
        "written_by": "film-screenwriter",
        "film_editor": "film-editor",
        "release_year": "film-release-year",
        "place_of_birth": "person-birthplace",
        "spouse": "kinship-spouse",
    } | {
        name: found[0].id for name, found in meant.items() if found is not None and name in ("population", "in_country")
    }
    assert (
        "Who called the shots on the set of {}?" in lexicon.templates(DirectedRelation("directed_by", True)).questions
    )
    assert lexicon.templates(DirectedRelation("kn_q7", True)).questions == ()
    assert "the kn q7 of {}" in lexicon.templates(DirectedRelation("kn_q7", True)).plain_nouns
    assert "release year" in lexicon.value_words("release_year")
    without = NameLexicon(lexicon.schema, bank=False)
    assert without.concept_of("directed_by") is None
    assert without.templates(DirectedRelation("directed_by", True)).questions == ()


def test_of_two_names_for_a_concept_the_nearer_one_has_it() -> None:
    match = BankMatch(["official_language", "language", "capital", "currency", "borders", "continent"])
    assert match.find("language") is None
    found = match.find("official_language")
    assert found is not None
    assert found[0].id == "country-language"


def test_a_bare_name_needs_others_of_its_field() -> None:
    """`is_in_country` may be about clubs, `adjacent_to` about organs."""
    assert BankMatch(["plays_in_club", "is_in_country", "is_in_country_inverse"]).find("is_in_country") is None
    assert BankMatch(["adjacent_to", "treats", "part_of"]).find("adjacent_to") is None


def test_which_concept_a_shared_name_means() -> None:
    films = ["directed_by", "genre", "cast member", "film_editor"]
    found = BankMatch(films).find("genre")
    assert found is not None
    assert found[0].id == "film-genre"
    books = BankMatch(["book.book.genre", "book.written_work.author"]).find("book.book.genre")
    assert books is not None
    assert books[0].id == "book-genre"
    assert BankMatch(["exhibits"]).find("exhibits") is None  # one word, and nothing says that these are museums
    assert plain_label(read_name("hasDirector")) == plain_label(read_name("P57: director")) == "director"


# Whole plans

OUT, IN = "tail_entities", "head_entities"


def hop(number: int, relation: str, out: bool = True) -> Call:
    return Call(OUT if out else IN, (number, relation))


PLANS = [
    QuestionPlan("chain", ("Rooks",), (hop(1, "directed_by"),)),
    QuestionPlan("chain", ("Ada Lumen",), (hop(1, "directed_by", False),)),
    QuestionPlan("chain", ("Rooks",), (hop(1, "directed_by"), hop(2, "place_of_birth"))),
    QuestionPlan(
        "chain", ("Velmora",), (hop(1, "place_of_birth", False), hop(2, "directed_by", False), hop(3, "release_year"))
    ),
    QuestionPlan(
        "chain", ("Rooks",), (hop(1, "directed_by"), hop(2, "spouse"), hop(3, "place_of_birth"), hop(4, "population"))
    ),
    QuestionPlan("chain", ("Rooks",), (hop(1, "directed_by"), hop(2, "directed_by", False), Call("minus", (3, 1)))),
    QuestionPlan("chain", ("Rooks",), (hop(1, "directed_by"), hop(2, "kn_q7"), hop(3, "in_country"))),
    QuestionPlan(
        "intersection",
        ("Ada Lumen", "Viktor Oss"),
        (hop(1, "directed_by", False), hop(2, "written_by", False), Call("intersect", (3, 4))),
    ),
    QuestionPlan(
        "intersection",
        ("Rooks", "Glass Tide"),
        (hop(1, "directed_by"), hop(2, "directed_by"), Call("intersect", (3, 4))),
    ),
    QuestionPlan(
        "union", ("Rooks", "Glass Tide"), (hop(1, "directed_by"), hop(2, "directed_by"), Call("union", (3, 4)))
    ),
    QuestionPlan("union", ("Rooks",), (hop(1, "directed_by"), hop(1, "written_by"), Call("union", (2, 3)))),
    QuestionPlan(
        "difference",
        ("Ada Lumen", "Viktor Oss"),
        (hop(1, "directed_by", False), hop(2, "written_by", False), Call("minus", (3, 4))),
    ),
    QuestionPlan("count", ("Ada Lumen",), (hop(1, "directed_by", False), Call("count", (2,)))),
    QuestionPlan("superlative", ("Ada Lumen",), (hop(1, "directed_by", False), Call("argmax", (2, "release_year")))),
    QuestionPlan(
        "superlative",
        ("Ada Lumen",),
        (hop(1, "directed_by", False), Call("argmin", (2, "release_year")), hop(3, "written_by")),
    ),
    QuestionPlan(
        "comparison", ("Ada Lumen",), (hop(1, "directed_by", False), Call("filter", (2, "release_year", ">", "2000")))
    ),
    QuestionPlan(
        "time",
        ("Ada Lumen",),
        (
            hop(1, "directed_by", False),
            Call("filter", (2, "release_year", ">=", "1999")),
            Call("filter", (3, "release_year", "<", "2000")),
        ),
    ),
    QuestionPlan("time", ("Ada Lumen",), (Call("between", (1, "spouse", "1999", "1999")),)),
    QuestionPlan("time", ("Rooks",), (hop(1, "directed_by"), Call("between", (2, "spouse", "1999-02", "2001")))),
]


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.shape)
def test_every_plan_is_said_well(lexicon: NameLexicon, plan: QuestionPlan, level: int) -> None:
    said: list[str] = []
    for seed in range(40):
        text = Wording(lexicon, level=level).say(plan, random.Random(seed))
        if text is not None:
            said.append(text)
            for topic in plan.topics:
                assert topic in text, text
            assert len(text.splitlines()) == 1
            assert "{" not in text, text
            assert re.search(r"\b(the|a|an|of|in|by) \1\b|  |[\ue000-\uf8ff]", text, re.IGNORECASE) is None, text
    assert len(said) >= 36, f"{plan.shape}: too often nothing to say"
    assert len(set(said)) >= (3 if level == 0 else 8), said


def test_the_plans_cover_the_patterns() -> None:
    assert {plan.pattern for plan in PLANS} == set(PATTERNS)


def says(lexicon: NameLexicon, plan: QuestionPlan, level: int = 1, seeds: int = 400) -> set[str]:
    return {Wording(lexicon, level=level).say(plan, random.Random(seed)) or "" for seed in range(seeds)}


def test_some_sentences_by_heart(lexicon: NameLexicon) -> None:
    assert "Who directed Rooks?" in says(lexicon, PLANS[0])
    assert "Rooks director" in says(lexicon, PLANS[0])
    two = says(lexicon, PLANS[2], seeds=900)
    assert {"Rooks director place of birth", "Where was the director of Rooks born?"} & two
    assert any(text.startswith(("what is rooks 's".replace("rooks", "Rooks"), "what is the")) for text in two)
    again = says(lexicon, PLANS[5])
    assert any("the same director as Rooks" in text for text in again)
    assert any(text.startswith(("Apart from Rooks, ", "Other than Rooks, ")) for text in again)
    assert any("both Rooks and Glass Tide" in text for text in says(lexicon, PLANS[8]))
    assert any(text.startswith("How many films") for text in says(lexicon, PLANS[12]))
    assert any("the newest" in text for text in says(lexicon, PLANS[13]))
    assert any("in 1999" in text for text in says(lexicon, PLANS[16]))
    assert any(text.startswith("In 1999, ") for text in says(lexicon, PLANS[17]))
    assert any("between 1999-02 and 2001" in text for text in says(lexicon, PLANS[18]))


def test_plain_words_are_the_names_own(lexicon: NameLexicon) -> None:
    for text in says(lexicon, PLANS[0], level=0):
        assert "direct" in text, text


def test_the_seed_decides(lexicon: NameLexicon) -> None:
    wording = Wording(lexicon, level=2, noise=0.2)
    for plan in PLANS:
        assert wording.say(plan, random.Random(7)) == wording.say(plan, random.Random(7))


@given(
    st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=20),
    st.integers(0, 10_000),
    st.sampled_from([0, 1, 2]),
    st.sampled_from([0.0, 0.5]),
)
@settings(max_examples=200, deadline=None)
def test_any_name_stands_as_it_is(name: str, seed: int, level: int, noise: float) -> None:
    director = concept("film-director")
    lexicon = BankLexicon({"directed_by": (director, False), "spouse": (concept("kinship-spouse"), False)})
    plan = QuestionPlan("chain", (name,), (hop(1, "directed_by"), hop(2, "spouse")))
    text = Wording(lexicon, level=level, noise=noise).say(plan, random.Random(seed))
    if len(f".{name}.".splitlines()) > 1:
        assert text is None  # no question has two lines
    else:
        assert text is not None
        assert name in text


def test_chains_of_bank_concepts_are_said() -> None:
    """Five hundred random chains over the whole bank, of one to four hops."""
    chance = random.Random(11)
    by_kind: dict[str, list[tuple[Concept, bool]]] = {}
    for one in load_bank():
        by_kind.setdefault(one.head, []).append((one, True))
        by_kind.setdefault(one.tail, []).append((one, False))
    silent = 0
    for _ in range(500):
        kind, steps, concepts = chance.choice(["person", "film", "city", "company"]), [], {}
        for number in range(1, chance.randint(1, 4) + 1):
            if kind not in by_kind:
                break
            one, forward = chance.choice(by_kind[kind])
            turned = chance.random() < 0.3
            label = chance.choice(one.inverse_labels if turned else one.labels)
            concepts[label] = (one, turned)
            steps.append(hop(number, label, forward != turned))
            kind = one.tail if forward else one.head
        plan = QuestionPlan("chain", ("The Old One",), tuple(steps))
        text = Wording(BankLexicon(concepts), level=chance.choice([0, 1, 2])).say(plan, chance)
        silent += text is None
        assert text is None or (
            "The Old One" in text and not re.search(r"\bthe the\b", text.lower()) and "{}" not in text
        )
    assert silent < 10


def test_noise_spares_names_and_is_measured() -> None:
    text = "Who directed the famous film \ue000 which everybody remembers?"
    worn = {add_noise(text, 0.5, random.Random(seed)) for seed in range(50)}
    assert len(worn) > 40
    assert all("\ue000" in one for one in worn)
    assert add_noise(text, 0.0, random.Random(0)) == text


def test_noise_in_names_where_wanted(lexicon: NameLexicon) -> None:
    wording = Wording(lexicon, noise=1.0, noisy_names=True)
    assert any("Ada Lumen" not in (wording.say(PLANS[1], random.Random(seed)) or "") for seed in range(20))


def test_casing_and_manner() -> None:
    drawn = {apply_manner("What is \ue000's genre?", 1, random.Random(seed)) for seed in range(300)}
    assert {"What is \ue000's genre?", "what is \ue000's genre", "what is \ue000 's genre ?"} <= drawn
    assert {apply_manner("Who is \ue000?", 0, random.Random(seed)) for seed in range(50)} == {"Who is \ue000?"}
    assert any("quiz" in apply_manner("Who is \ue000?", 2, random.Random(seed)) for seed in range(300))


def test_settings_that_make_no_sense(lexicon: NameLexicon) -> None:
    with pytest.raises(KgwalkError, match="level 3 of wording: give 0"):
        Wording(lexicon, level=3)
    with pytest.raises(KgwalkError, match=r"noise 1.5 is no share"):
        Wording(lexicon, noise=1.5)
