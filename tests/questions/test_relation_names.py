"""Names of relations: their words and units, how they read in a sentence, and the templates they give."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgwalk.kg.build import build
from kgwalk.kg.store import load_graph
from kgwalk.questions.bank import load_bank
from kgwalk.questions.schema import survey
from kgwalk.questions.wording.lexicon import name_templates
from kgwalk.questions.wording.name_lexicon import NameLexicon
from kgwalk.questions.wording.reading import Acts, By, DoneTo, Event, Noun, PlacedIn, Whole, read
from kgwalk.questions.wording.relation_names import read_name
from kgwalk.questions.wording.templates import Ends
from kgwalk.walk.facts import DirectedRelation


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
    assert "the price in USD of {}" in mugs.templates(DirectedRelation("price_usd", True)).plain_nouns
    assert "the weight of {}" in mugs.templates(DirectedRelation("weight_kg", True)).plain_nouns


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
    assert "Who is on call for {}?" in team.templates(DirectedRelation("on_call", True)).plain_questions


@pytest.mark.parametrize("relation", ["birth_rate", "gender_ratio", "people_born", "nationality", "births"])
def test_countries_are_no_people_by_their_births(tmp_path: Path, relation: str) -> None:
    names = ("France", "Norway", "Peru", "Chad", "Fiji", "Cuba", "Iran", "Mali")
    facts = [f"{name}\t{relation}\t{n}.5\n" for n, name in enumerate(names, 10)]
    facts += [f"{name}\tcapital\t{name} City\n" for name in names]
    facts += [f"{name}\tally\t{names[n - 1]}\n" for n, name in enumerate(names)]
    (tmp_path / "facts.tsv").write_text("".join(facts), "utf-8")
    build([tmp_path / "facts.tsv"], tmp_path / "facts.kg")
    countries = NameLexicon(survey(load_graph(tmp_path / "facts.kg")))
    said = [countries.templates(DirectedRelation(name, out)) for name in ("capital", "ally") for out in (True, False)]
    if relation in ("birth_rate", "gender_ratio"):
        said.append(countries.templates(DirectedRelation(relation, False)))
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
