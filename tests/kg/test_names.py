"""Short names of relations: the shortest end that tells each from all others, understood either way."""

from __future__ import annotations

import doctest
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from conftest import awkward_names, store_of
from kgwalk.kg import names as names_module
from kgwalk.kg.names import ShortNames
from kgwalk.systems.kgwalk.protocol import Kgwalk
from kgwalk.types import Call, Question, Triple
from kgwalk.walk.language import Sets
from kgwalk.walk.protocol import Environment, Task

FREEBASE = [
    ("Big", "film.film.directed_by", "Penny Marshall"),
    ("Riget", "tv.tv_program.directed_by", "Lars von Trier"),
    ("Big", "film.film.country", "United States"),
    ("Big", "film.film.runtime", "104"),
]


def test_the_examples_in_the_module() -> None:
    result = doctest.testmod(names_module)
    assert (result.failed, result.attempted) == (0, 9)


def test_addresses_and_prefixes() -> None:
    names = ["http://dbpedia.org/ontology/director", "dbo:writer", "http://xmlns.com/foaf/0.1/name#", "name"]
    assert [*map(ShortNames(names).shown, names)] == ["director", "writer", "name#", "name"]


paths = st.lists(st.sampled_from(["film", "tv", "country", "a b", ""]), min_size=1, max_size=4).map(".".join)


@given(st.lists(paths | awkward_names, unique=True, max_size=12))
def test_each_has_a_name_of_its_own_that_leads_back(names: list[str]) -> None:
    short = ShortNames(names)
    shown = [short.shown(name) for name in names]
    assert len(set(shown)) == len(names)
    for name, one in zip(names, shown, strict=True):
        assert name.endswith(one)
        assert short.real(one) == name
        assert short.real(name) == name
        assert one or not name


def test_sets_go_by_short_names_and_their_facts_by_whole_ones(tmp_path: Path) -> None:
    sets = Sets(store_of(tmp_path, FREEBASE), ["Big"], short=True)
    assert sets.relations_around(1) == (["country", "film.directed_by", "runtime"], [])
    number = sets.tail_entities(1, "film.directed_by")
    assert sets.made[number - 1].members == ("Penny Marshall",)
    assert sets.evidence("Penny Marshall", number) == [Triple("Big", "film.film.directed_by", "Penny Marshall")]
    assert sets.made[sets.tail_entities(1, "film.film.directed_by") - 1].members == ("Penny Marshall",)
    assert sets.made[sets.filter(1, "runtime", ">", "100") - 1].members == ("Big",)
    assert sets.made[sets.argmax(1, "runtime") - 1].members == ("Big",)


def test_a_prompt_has_short_names_unless_told(tmp_path: Path) -> None:
    environment = Environment(store_of(tmp_path, FREEBASE))
    task = Task(Question("q", "who directed Big?", ["Big"], ["Penny Marshall"]), ["Big"])
    walk = Kgwalk().begin(task, environment, len)
    assert "-> country, film.directed_by, runtime" in walk.prompt()[1].content
    assert "= 1: Penny Marshall" in walk.act(Call("tail_entities", (1, "film.directed_by"))).render(40)
    whole = Kgwalk(short=False).begin(task, environment, len)
    assert "-> film.film.country, film.film.directed_by, film.film.runtime" in whole.prompt()[1].content
