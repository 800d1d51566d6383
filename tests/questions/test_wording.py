"""Questions in words: names read as grammar, lexicons from the bank and from names, whole plans said at every level."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgwalk.kg.build import build
from kgwalk.kg.open import load_graph
from kgwalk.questions.bank import Concept, load_bank
from kgwalk.questions.plan import PATTERNS, QuestionPlan
from kgwalk.questions.schema import survey
from kgwalk.questions.wording.bank_lexicon import BankLexicon, BankMatch, bare_nouns, plain_label
from kgwalk.questions.wording.english import a, base, past_of, plural, singular
from kgwalk.questions.wording.lexicon import Templates, name_templates
from kgwalk.questions.wording.name_lexicon import NameLexicon
from kgwalk.questions.wording.phrases import Phrase, as_many, fill, fits, is_many, parts
from kgwalk.questions.wording.reading import Acts, By, DoneTo, Event, Noun, PlacedIn, Whole, read
from kgwalk.questions.wording.relation_names import read_name
from kgwalk.questions.wording.speaker import Wording, add_noise, apply_manner
from kgwalk.questions.wording.templates import Ends
from kgwalk.types import Call, KgwalkError
from kgwalk.walk.facts import Way

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


# Names


@pytest.mark.parametrize(
    ("relation", "text", "head"),
    [
        ("place_of_birth", "place of birth", ""),
        ("timeZone", "time zone", ""),
        ("film.film.directed_by", "directed by", "film"),
        ("/people/deceased_person/place_of_burial", "place of burial", "deceased person"),
        ("__people__person__gender", "gender", "person"),
        ("dbo:birthPlace", "birth place", ""),
        ("http://dbpedia.org/ontology/birthPlace", "birth place", ""),
        ("<http://www.w3.org/2000/01/rdf-schema#subClassOf>", "sub class of", ""),
        ("P57: director", "director", ""),
        ("HAS_CAST", "has cast", ""),
        ("official language", "official language", ""),
        ("_member_meronym", "member meronym", ""),
        ("people.person.spouse_s", "spouses", "person"),
        ("has part(s)", "has part", ""),
        ("导演", "导演", ""),
        ("term16", "term16", ""),
        ("", "link", ""),
    ],
)
def test_names_as_words(relation: str, text: str, head: str) -> None:
    name = read_name(relation)
    assert (name.text, name.head, name.inverse) == (text, head, False)


@pytest.mark.parametrize(
    "relation", ["plays_in_club_inverse", "inverse_of_plays_in_club", "^plays_in_club", "plays in club (inverse)"]
)
def test_inverse_marks(relation: str) -> None:
    assert read_name(relation) == read_name("plays_in_club").__class__(("plays", "in", "club"), inverse=True)
    # the head is the club now: going out from it one finds the players
    assert "the ones that play in {}" in name_templates(read_name(relation), out=True).plain_nouns


@pytest.mark.parametrize(
    ("words", "reading"),
    [
        ("capital", Noun("capital")),
        ("capital of", Noun("capital", of=True)),
        ("children", Noun("children", many=True)),
        ("has genre", Noun("genre")),
        ("starred actors", Noun("starred actors", many=True)),
        ("directed by", DoneTo("directed")),
        ("executive produced by", DoneTo("executive produced")),
        ("awards won", DoneTo("won", "awards", active=True)),
        ("music by", By("music")),
        ("born in", PlacedIn("born", "in", be="was")),
        ("located in the time zone", PlacedIn("located", "in", "time zone")),
        ("in language", PlacedIn("", "in", "language")),
        ("similar to", PlacedIn("similar", "to")),
        ("participant in", PlacedIn("a participant", "in")),
        ("borders", Acts("borders")),
        ("acted in", Acts("acted", "in")),
        ("wears number", Acts("wears", "", "number")),
        ("partially contains", Acts("partially contains")),
        ("people born here", Whole("people born in {}")),
        ("games on this platform", Whole("games on {}")),
        ("countries spoken in", Whole("countries that {} is spoken in")),
        ("make a visit", Event("make a visit", "to")),
        ("accuse of crime", Event("accuse", "", "of crime")),
        ("isa", Noun("type")),
        ("supersedes", Acts("supersedes")),
        ("holds office", Acts("holds", "", "office")),
        ("held in", PlacedIn("held", "in")),
        ("is produced at", PlacedIn("produced", "at", be="was")),
        ("created in", PlacedIn("created", "in", be="was")),
        ("place founded", PlacedIn("founded", "in", "place", "was")),
        ("in love with", PlacedIn("in love", "with")),
        ("part of conflict", PlacedIn("a part", "of", "conflict")),
        ("member of union", Noun("member", of=True)),
        ("distinct from", PlacedIn("distinct", "from")),
        ("countries formerly used", Whole("countries that formerly used {}")),
        ("contact category", Noun("contact category")),
        ("next in series", Noun("next in series")),
        # verbs in the third person, by the tables and, before a preposition, by their end
        ("depends on", Acts("depends", "on")),
        ("depends on package", Acts("depends", "on", "package")),
        ("provides", Acts("provides")),
        ("monitors service", Acts("monitors", "", "service")),
        ("hikes in", Acts("hikes", "in")),
        ("works for", Acts("works", "for")),
        ("partners with", Acts("partners", "with")),
        ("crystallizes in", Acts("crystallizes", "in")),
        ("ranks among", Acts("ranks", "among")),
        ("underlies", Acts("underlies")),
        ("expires in days", Acts("expires", "in", "number of days")),
        ("supports format", Acts("supports", "", "format")),
        ("plays instrument", Acts("plays", "", "instrument")),
        ("holds rank", Acts("holds", "", "rank")),
        ("mentors student", Acts("mentors", "", "student")),
        ("orbits star", Acts("orbits", "", "star")),
        # and nouns that look like them
        ("monitors", Noun("monitors", many=True)),
        ("tests passed", DoneTo("passed", "tests", active=True)),
        ("orders count", Noun("orders count")),
        ("orders status", Noun("orders status")),
        ("orders total price", Noun("orders total price")),
        ("files size", Noun("files size")),
        ("claims amount", Noun("claims amount")),
        ("records label", Noun("records label")),
        ("masters degree", Noun("masters degree")),
        ("programs director", Noun("programs director")),
        ("results date", Noun("results date")),
        ("orders customer", Noun("orders customer")),
        ("deaths in", Whole("deaths in {}")),
        ("languages in", Whole("languages in {}")),
        ("hospitals in", Whole("hospitals in {}")),
        ("orders in", Whole("orders in {}")),
        ("drugs for", Whole("drugs for {}")),
        ("books about", Whole("books about {}")),
        ("customers in", Acts("has customers", "in")),
        ("effects on", Acts("has effects", "on")),
        ("main offices in", Acts("has main offices", "in")),
        ("has employees at", Acts("has employees", "at")),
        ("tracks", Noun("tracks", many=True)),
        ("used in", PlacedIn("used", "in")),
        ("used by", DoneTo("used")),
        ("currency used", DoneTo("used", "currency", active=True)),
        ("set in", PlacedIn("set", "in")),
        ("on call", PlacedIn("on call", "for")),
        ("on call team", Noun("on-call team")),
        ("on album", PlacedIn("", "on", "album")),
    ],
)
def test_how_a_name_reads(words: str, reading: object) -> None:
    assert read(words.split()) == reading


@pytest.mark.parametrize(
    ("relation", "out", "question", "noun"),
    [
        ("film.film.directed_by", True, "Who directed {}?", "the one who directed {}"),
        ("film.film.directed_by", False, "Which films were directed by {}?", "the films directed by {}"),
        ("written_by", True, "Who wrote {}?", "whoever wrote {}"),
        ("capital", True, "What is the capital of {}?", "{}'s capital"),
        ("capital", False, "Of what is {} the capital?", "the ones whose capital is {}"),
        ("capital_of", False, "What is the capital of {}?", "the capital of {}"),
        ("people.person.children", True, "Who are the children of {}?", "the children of {}"),
        ("people.person.children", False, "Which people have {} as their child?", "the people whose child is {}"),
        ("born_in", True, "Where was {} born?", "the place {} was born in"),
        ("plays_for_country", True, "What country does {} play for?", "the country that {} plays for"),
        ("borders", False, "What borders {}?", "those that border {}"),
        ("book.author.works_written", True, "What did {} write?", "the things written by {}"),
        ("location.country.languages_spoken", False, "Where is {} spoken?", "the countries where {} is spoken"),
        ("Make a visit", True, "To whom did {} make a visit?", "those that {} made a visit to"),
        ("Accuse of crime", False, "Who accused {} of crime?", "those who accused {} of crime"),
    ],
)
def test_what_a_name_says(relation: str, out: bool, question: str, noun: str) -> None:
    said = name_templates(read_name(relation), out)
    assert question in said.plain_questions
    assert noun in said.plain_nouns


def test_what_a_name_is_of() -> None:
    """`operator_of_line` runs from the company to the line where lines are its tails; `place_of_birth` does not."""
    lines = name_templates(read_name("operator_of_line"), True, Ends("company", "railway line"))
    assert "Which railway lines have {} as their operator?" in lines.plain_questions
    places = name_templates(read_name("place_of_birth"), True, Ends("person", "city"))
    assert "What is the place of birth of {}?" in places.plain_questions
    causes = name_templates(read_name("cause_of_death"), True, Ends("person", "cause of death"))
    assert "What is the cause of death of {}?" in causes.plain_questions


def test_a_verb_alone_says_when_or_what() -> None:
    year = name_templates(read_name("established"), True, Ends("company", "year"))
    assert "In what year was {} established?" in year.plain_questions
    died = name_templates(read_name("died"), True, Ends("person", "date"))
    assert "On what date did {} die?" in died.plain_questions
    found = name_templates(read_name("discovered"), False, Ends("person", "planet"))
    assert "Who discovered {}?" in found.plain_questions


def test_what_is_done_in_a_place_and_what_by_it() -> None:
    signed = name_templates(read_name("signed_by"), False, Ends("treaty", "country"))
    assert "the treaties signed by {}" in signed.plain_nouns
    spoken = name_templates(read_name("languages_spoken"), True, Ends("country", "language"))
    assert "the languages spoken in {}" in spoken.plain_nouns
    won = name_templates(read_name("wars_won"), True, Ends("country", "war"))
    assert "the wars won by {}" in won.plain_nouns


def test_a_verb_with_its_preposition() -> None:
    out, back = (name_templates(read_name("depends_on"), way) for way in (True, False))
    assert {"What does {} depend on?", "On what does {} depend?"} <= set(out.plain_questions)
    assert {"What depends on {}?", "Which ones depend on {}?"} <= set(back.plain_questions)
    assert "the ones that {} depends on" in out.plain_nouns
    assert "those that depend on {}" in back.plain_nouns


def test_in_a_place_and_in_something_else() -> None:
    written, filmed = (name_templates(read_name(name), True) for name in ("written_in", "filmed_in"))
    assert "the thing in which {} was written" in written.plain_nouns
    assert not any("place" in text or "Where" in text for text in written.plain_questions + written.plain_nouns)
    assert "the place in which {} is filmed" in filmed.plain_nouns
    city = name_templates(read_name("written_in"), True, Ends("book", "city"))
    assert "Where was {} written?" in city.plain_questions


def test_who_does_it_if_nothing_tells() -> None:
    """People write; teams and companies own, and what is owned is owned now."""
    owned = name_templates(read_name("owned_by"), True)
    assert {"What owns {}?", "Which one owns {}?", "What is {} owned by?"} <= set(owned.plain_questions)
    assert {"the one that owns {}", "the ones that own {}", "the one {} is owned by"} <= set(owned.plain_nouns)
    assert "Who owns {}?" in name_templates(read_name("owned_by"), True, Ends("", "person")).plain_questions
    things = name_templates(read_name("owned_by"), False)
    assert {"Which things are owned by {}?", "What does {} own?"} <= set(things.plain_questions)


def test_who_is_on_call_for_what() -> None:
    who = name_templates(read_name("on_call"), True, Ends("service", "person"))
    assert "Who is on call for {}?" in who.plain_questions
    assert "the people on call for {}" in who.plain_nouns
    assert who == name_templates(read_name("on_call"), False, Ends("person", "service"))
    assert "the on-call of {}" in name_templates(read_name("on_call"), True).plain_nouns  # either may be on call


@pytest.mark.parametrize(
    ("relation", "text", "unit"),
    [
        ("height_cm", "height", "cm"),
        ("heightCm", "height", "cm"),
        ("monthly_cost_eur", "monthly cost", "EUR"),
        ("revenue_million_usd", "revenue", "million USD"),
        ("runtime_minutes", "runtime", "minutes"),
        ("depth_in_m", "depth", "m"),
        ("opening_hours", "opening hours", ""),
        ("active_years", "active years", ""),
        ("total_hours", "total hours", ""),
        ("price_per_kg", "price per kg", ""),
        ("class_g", "class g", ""),
        ("turnout_pct", "turnout percentage", ""),
        # the least and the most; minutes of a time alone
        ("temperature_min", "minimum temperature", ""),
        ("price_min", "minimum price", ""),
        ("age_min", "minimum age", ""),
        ("salary_min_eur", "minimum salary", "EUR"),
        ("temperature_max_c", "maximum temperature", "c"),
        ("min_price", "minimum price", ""),
        ("max_speed", "maximum speed", ""),
        ("speed_max_kmh", "maximum speed", "kmh"),
        ("latency_ms_max", "maximum latency", "ms"),
        ("duration_min", "duration", "min"),
        ("response_time_min", "response time", "min"),
        # what is no quantity has no unit
        ("expires_in_days", "expires in days", ""),
        ("delivers_in_days", "delivers in days", ""),
        ("trades_in_usd", "trades in usd", ""),
        ("lives_in_mi", "lives in mi", ""),
        ("office_in_gb", "office in gb", ""),
        ("office_gb", "office gb", ""),
        ("population_gb", "population gb", ""),
        ("degree_ms", "degree ms", ""),
        ("model_m2", "model m2", ""),
        ("team_ml", "team ml", ""),
        ("memory_gb", "memory", "gb"),
        ("latency_ms", "latency", "ms"),
        ("floor_space_m2", "floor space", "m2"),
        ("volume_ml", "volume", "ml"),
        ("trip_in_days", "trip", "days"),
        ("earnings_in_usd", "earnings", "USD"),
    ],
)
def test_units_are_no_part_of_the_noun(relation: str, text: str, unit: str) -> None:
    assert (read_name(relation).text, read_name(relation).unit) == (text, unit)


def test_a_unit_is_said_where_it_tells_two_relations_apart(tmp_path: Path) -> None:
    facts = "".join(f"mug {n}\t{name}\t{n}5\n" for n in range(1, 9) for name in ("price_eur", "price_usd", "weight_kg"))
    (tmp_path / "facts.tsv").write_text(facts, "utf-8")
    build([tmp_path / "facts.tsv"], tmp_path / "facts.kg")
    mugs = NameLexicon(survey(load_graph(tmp_path / "facts.kg")))
    assert mugs.value_words("price_eur") == ("price in EUR",)
    assert "the price in USD of {}" in mugs.templates(Way("price_usd", True)).plain_nouns
    assert "the weight of {}" in mugs.templates(Way("weight_kg", True)).plain_nouns


def test_a_verb_that_leads_to_a_value() -> None:
    starts = name_templates(read_name("starts_at"), True, Ends("period", "year"))
    assert {"What year does {} start at?", "Name the year that {} starts at."} <= set(starts.plain_questions)
    assert "What does {} melt at?" in name_templates(read_name("melts_at"), True, Ends("", "number")).plain_questions


def test_first_released_says_when() -> None:
    released = name_templates(read_name("first_released"), True, Ends("", "year"))
    assert "In what year was {} first released?" in released.plain_questions


def test_people_are_known_by_their_births(tmp_path: Path) -> None:
    """Nothing but `born` tells that Ada and the others are people; then they are also who is on call."""
    names = ("Ada", "Ben", "Cleo", "Dan")
    facts = [f"{name}\tborn\t198{n}-05-02\n" for n, name in enumerate(names)]
    facts += [f"app {n}\ton_call\t{name}\n" for n, name in enumerate(names)]
    (tmp_path / "facts.tsv").write_text("".join(facts), "utf-8")
    build([tmp_path / "facts.tsv"], tmp_path / "facts.kg")
    team = NameLexicon(survey(load_graph(tmp_path / "facts.kg")))
    assert "Who is on call for {}?" in team.templates(Way("on_call", True)).plain_questions


@pytest.mark.parametrize("relation", ["birth_rate", "gender_ratio", "people_born", "nationality", "births"])
def test_countries_are_no_people_by_their_births(tmp_path: Path, relation: str) -> None:
    names = ("France", "Norway", "Peru", "Chad", "Fiji", "Cuba", "Iran", "Mali")
    facts = [f"{name}\t{relation}\t{n}.5\n" for n, name in enumerate(names, 10)]
    facts += [f"{name}\tcapital\t{name} City\n" for name in names]
    facts += [f"{name}\tally\t{names[n - 1]}\n" for n, name in enumerate(names)]
    (tmp_path / "facts.tsv").write_text("".join(facts), "utf-8")
    build([tmp_path / "facts.tsv"], tmp_path / "facts.kg")
    countries = NameLexicon(survey(load_graph(tmp_path / "facts.kg")))
    said = [countries.templates(Way(name, out)) for name in ("capital", "ally") for out in (True, False)]
    if relation in ("birth_rate", "gender_ratio"):
        said.append(countries.templates(Way(relation, False)))
    for text in (text for one in said for text in one.plain_questions + one.plain_nouns):
        assert re.search(r"\b(people|who|whom)\b", text, re.IGNORECASE) is None, text


@given(st.text(min_size=1, max_size=40), st.booleans())
@settings(max_examples=300, deadline=None)
def test_any_name_can_be_said(relation: str, out: bool) -> None:
    said = name_templates(read_name(relation.replace("{", "").replace("}", "")), out)
    assert len(said.plain_questions) >= 6
    assert len(said.plain_nouns) >= 3
    for text in said.plain_questions + said.plain_nouns:
        assert text.count("{}") == 1
        assert text == " ".join(text.split())


def test_labels_of_the_bank_can_be_said() -> None:
    for one in load_bank()[::6]:
        for label in one.labels + one.inverse_labels:
            for out in (True, False):
                said = name_templates(read_name(label), out)
                assert len(said.plain_questions) >= 6, label
                assert len(said.plain_nouns) >= 3, label


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
    out, back = lexicon.templates(Way("directed_by", True)), lexicon.templates(Way("directed_by", False))
    assert (out.questions, out.nouns, out.kind) == (director.forward, director.forward_nouns, "person")
    assert (back.questions, back.nouns, back.kind) == (director.backward, director.backward_nouns, "film")
    assert lexicon.templates(Way("films_directed", True)).questions == director.backward
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
            assert not BankLexicon({relation: (one, False)}).templates(Way(relation, True)).plain_questions
    editor = BankLexicon({"film_editor": (concept("film-editor"), False)}).templates(Way("film_editor", True))
    assert "the film editor of {}" in editor.plain_nouns


def test_levels_choose_among_the_sayings() -> None:
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
    assert "Who called the shots on the set of {}?" in lexicon.templates(Way("directed_by", True)).questions
    assert lexicon.templates(Way("kn_q7", True)).questions == ()
    assert "the kn q7 of {}" in lexicon.templates(Way("kn_q7", True)).plain_nouns
    assert "release year" in lexicon.value_words("release_year")
    without = NameLexicon(lexicon.schema, bank=False)
    assert without.concept_of("directed_by") is None
    assert without.templates(Way("directed_by", True)).questions == ()


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


def test_dress() -> None:
    drawn = {apply_manner("What is \ue000's genre?", 1, random.Random(seed)) for seed in range(300)}
    assert {"What is \ue000's genre?", "what is \ue000's genre", "what is \ue000 's genre ?"} <= drawn
    assert {apply_manner("Who is \ue000?", 0, random.Random(seed)) for seed in range(50)} == {"Who is \ue000?"}
    assert any("quiz" in apply_manner("Who is \ue000?", 2, random.Random(seed)) for seed in range(300))


def test_settings_that_make_no_sense(lexicon: NameLexicon) -> None:
    with pytest.raises(KgwalkError, match="level 3 of wording: give 0"):
        Wording(lexicon, level=3)
    with pytest.raises(KgwalkError, match=r"noise 1.5 is no share"):
        Wording(lexicon, noise=1.5)
