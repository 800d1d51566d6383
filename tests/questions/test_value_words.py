"""The words for values point the right way: of a date the largest is the latest, so the youngest person is `argmax`."""

from __future__ import annotations

import random

import pytest

from kgwalk.questions.bank import load_bank
from kgwalk.questions.plan import QuestionPlan
from kgwalk.questions.wording.bank_lexicon import BankLexicon
from kgwalk.questions.wording.speaker import Wording
from kgwalk.questions.wording.values import spoken_units, value_words
from kgwalk.types import Call

# the value's noun, the kind of thing that has it, what is said of argmax, what is said of argmin
DIRECTIONS = [
    # dates: the largest is the latest
    ("birth date", "employee", "youngest", "oldest"),
    ("date of birth", "person", "youngest", "eldest"),
    ("hire date", "employee", "newest", "longest-serving"),
    ("hire date", "employee", "joined last", "has been with us the longest"),
    ("release date", "product", "newest", "oldest"),
    ("publication year", "book", "most recent", "earliest"),
    ("founding year", "company", "youngest", "oldest"),
    ("year of construction", "property", "newest", "oldest"),
    ("completion year", "building", "newest", "oldest"),
    ("model year", "vehicle", "newest", "oldest"),
    ("order date", "order", "latest", "earliest"),
    ("due date", "invoice", "is due last", "is due soonest"),
    ("opening date", "ticket", "newest", "oldest"),
    ("departure date", "shipment", "latest", "earliest"),
    ("arrival date", "shipment", "arrived last", "arrived first"),
    ("visit date", "visit", "most recent", "first"),
    ("match date", "match", "latest", "first"),
    ("last release", "software package", "most recently updated", "has gone longest without an update"),
    # numbers
    ("age", "person", "oldest", "youngest"),
    ("price", "product", "most expensive", "cheapest"),
    ("unit cost", "product", "dearest", "cheapest"),
    ("rent", "property", "most expensive", "cheapest"),
    ("room rate", "hotel", "priciest", "cheapest"),
    ("price", "product", "costs the most", "costs the least"),
    ("salary", "employee", "best paid", "worst paid"),
    ("salary", "employee", "highest paid", "lowest paid"),
    ("salary", "employee", "earns the most", "earns the least"),
    ("net worth", "person", "richest", "poorest"),
    ("insured value", "painting", "most valuable", "least valuable"),
    ("weight", "product", "heaviest", "lightest"),
    ("gross weight", "shipment", "heaviest", "lightest"),
    ("molar mass", "chemical", "heaviest", "lightest"),
    ("height", "person", "tallest", "shortest"),
    ("height", "mountain", "highest", "lowest"),
    ("length", "river", "longest", "shortest"),
    ("runtime", "film", "longest", "shortest"),
    ("distance", "trip", "longest", "shortest"),
    ("distance", "star", "farthest", "nearest"),
    ("depth", "lake", "deepest", "shallowest"),
    ("elevation", "airport", "highest", "lowest"),
    ("floor area", "property", "biggest", "smallest"),
    ("area", "country", "largest", "smallest"),
    ("population", "city", "most populous", "least populous"),
    ("density", "material", "densest", "least dense"),
    ("hardness", "mineral", "hardest", "softest"),
    ("temperature", "sample", "hottest", "coldest"),
    ("record high", "place", "hottest", "coldest"),
    ("annual rainfall", "place", "wettest", "driest"),
    ("top speed", "animal", "fastest", "slowest"),
    ("lead time", "part", "slowest", "fastest"),
    ("preparation time", "dish", "slowest", "quickest"),
    ("delay", "flight", "most delayed", "most punctual"),
    ("rating", "restaurant", "best rated", "worst rated"),
    ("review score", "restaurant", "highest rated", "lowest rated"),
    ("downloads", "software package", "most popular", "least popular"),
    ("attendance", "match", "busiest", "emptiest"),
    ("stock", "product", "has the most in stock", "has the least in stock"),
    ("capacity", "warehouse", "biggest", "smallest"),
    ("installed size", "software package", "bulkiest", "leanest"),
    ("number of seats", "vehicle", "has the most seats", "has the fewest seats"),
    ("latitude", "city", "northernmost", "southernmost"),
]  # fmt: skip


@pytest.mark.parametrize(("noun", "kind", "most", "least"), DIRECTIONS)
def test_which_end_a_word_means(noun: str, kind: str, most: str, least: str) -> None:
    words = value_words(noun, kind)
    assert most in words.most + words.did_most
    assert least in words.least + words.did_least
    assert not {*words.most, *words.did_most} & {*words.least, *words.did_least}


def said(concept: str, call: Call) -> set[str]:
    """What 300 questions about the employees of a department, or the products of a supplier, say."""
    bank = {one.id: one for one in load_bank()}
    group = "workplace-employee-department" if concept.startswith("workplace") else "inventory-product-supplier"
    lexicon = BankLexicon({"group": (bank[group], False), "value": (bank[concept], False)})
    plan = QuestionPlan("superlative", ("Kovar",), (Call("head_entities", (1, "group")), call))
    texts = {Wording(lexicon, level=level).say(plan, random.Random(seed)) for seed in range(100) for level in (0, 1, 2)}
    return {text.lower() for text in texts if text}


def test_the_youngest_was_born_last() -> None:
    latest, earliest = (said("workplace-employee-birthdate", Call(tool, (2, "value"))) for tool in ("argmax", "argmin"))
    assert any("youngest" in text for text in latest)
    assert not any("oldest" in text or "eldest" in text for text in latest)
    assert any("oldest" in text for text in earliest)
    assert not any("youngest" in text for text in earliest)


def test_who_has_been_with_us_the_longest() -> None:
    earliest = said("workplace-employee-hired", Call("argmin", (2, "value")))
    assert any("has been with us the longest" in text for text in earliest)


def test_bounds_with_units_verbs_and_adjectives() -> None:
    light = said("inventory-product-weight", Call("filter", (2, "value", "<", "12")))
    assert any("weigh less than 12 kilos" in text for text in light)
    assert any("lighter than 12 kg" in text for text in light)
    assert not any("heavier" in text for text in light)
    paid = said("workplace-employee-salary", Call("filter", (2, "value", ">", "50000")))
    assert any("earn more than 50,000 euros" in text for text in paid)


def test_units_as_people_say_them() -> None:
    assert spoken_units("kelvin") == ("kelvin", "K")
    assert "euro" in spoken_units("EUR")
    assert spoken_units("") == ()
