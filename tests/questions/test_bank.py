"""The bank of relation concepts: every file keeps the format's rules, and what breaks them is said clearly."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import FrozenInstanceError
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import pytest

from kgwalk.questions.bank import MANY, Concept, domain_names, load_bank, load_paths, read_concepts, read_paths
from kgwalk.types import InputError, KgwalkError

LEAST = {"labels": 6, "inverse_labels": 3, "forward": 8, "backward": 8, "forward_nouns": 3, "backward_nouns": 3}
PHRASINGS = ("forward", "backward", "forward_nouns", "backward_nouns")
# Two concepts with the same kind of `{}` may ask alike only where a person could mean either.
AMBIGUOUS: frozenset[str] = frozenset()
ENTRY = """[[concept]]
id = "film-director"
head = "film"
tail = "person"
many = "n:1"
labels = ["directed_by"]
inverse_labels = ["directed"]
forward = ["who directed {}?"]
backward = ["what did {} direct?"]
forward_nouns = ["the director of {}"]
backward_nouns = ["the films of {}"]
"""


PATH = """[[path]]
steps = ["^a-b", "a-c"]
forward = ["what does {} take?"]
backward = ["who takes {}?"]
forward_nouns = ["the courses of {}"]
backward_nouns = ["the students of {}"]
"""


@cache
def concepts(domain: str) -> list[Concept]:
    return load_bank([domain])


@pytest.mark.parametrize("domain", domain_names())
def test_ids_open_with_their_domain(domain: str) -> None:
    assert concepts(domain)
    for concept in concepts(domain):
        assert concept.domain == domain
        assert re.fullmatch(rf"{re.escape(domain)}(-[a-z0-9]+)+", concept.id), f"{domain}.toml: {concept.id}"


@pytest.mark.parametrize("domain", domain_names())
def test_kinds_are_plain_nouns(domain: str) -> None:
    for concept in concepts(domain):
        for kind in (concept.head, concept.tail):
            assert re.fullmatch(r"[a-z]+([ -][a-z]+)*", kind), f"{concept.id}: {kind!r}"
        assert concept.many in MANY
        assert concept.head not in ("year", "date", "number", "text"), f"{concept.id}: a literal is no head"


@pytest.mark.parametrize("domain", domain_names())
def test_there_are_enough_of_each_and_none_twice(domain: str) -> None:
    for concept in concepts(domain):
        for field, least in LEAST.items():
            values = getattr(concept, field)
            assert len(values) >= least, f"{concept.id}: {len(values)} {field}, {least} are needed"
            assert all(one == " ".join(one.split()) for one in values), f"{concept.id}: stray blanks in {field}"
            twice = [text for text, count in Counter(map(_plain, values)).items() if count > 1 and field in PHRASINGS]
            assert twice == [], f"{concept.id}: {field} that differ in case or stop alone"
            assert len(set(values)) == len(values), f"{concept.id}: {field} hold a text twice"
        # "natives of {}?" may be a question and a noun phrase, but not of both directions
        forward = {_plain(text) for text in concept.forward + concept.forward_nouns}
        backward = {_plain(text) for text in concept.backward + concept.backward_nouns}
        assert forward & backward == set(), f"{concept.id}: asked in both directions"
        if concept.head != concept.tail:  # a symmetric relation is called the same both ways
            both = set(concept.labels) & set(concept.inverse_labels)
            assert not both, f"{concept.id}: {both} name both directions"


@pytest.mark.parametrize("domain", domain_names())
def test_the_place_of_the_name_stands_once(domain: str) -> None:
    for concept in concepts(domain):
        for field in PHRASINGS:
            for text in getattr(concept, field):
                assert re.findall(r"[{}]+", text) == ["{}"], f"{concept.id}: {text!r}"
                assert text.isascii(), f"{concept.id}: {text!r} is not ASCII"
        for label in (*concept.labels, *concept.inverse_labels):
            assert "{" not in label, f"{concept.id}: {label!r}"
            assert label.isprintable(), f"{concept.id}: {label!r}"


@pytest.mark.parametrize("domain", domain_names())
def test_labels_come_in_several_styles(domain: str) -> None:
    for concept in concepts(domain):
        styles = {_style(label) for label in concept.labels}
        assert len(styles) >= 3, f"{concept.id}: {concept.labels} are all {styles}"


def test_ids_are_unique_over_all_files() -> None:
    counts = Counter(concept.id for domain in domain_names() for concept in concepts(domain))
    assert [name for name, count in counts.items() if count > 1] == []


def test_no_question_asks_for_two_relations() -> None:
    owners: dict[tuple[str, str], set[str]] = defaultdict(set)
    for concept in load_bank():
        for kind, texts in (
            (concept.head, concept.forward + concept.forward_nouns),
            (concept.tail, concept.backward + concept.backward_nouns),
        ):
            for text in texts:
                owners[kind, _plain(text)].add(concept.id)
    shared = {key: sorted(ids) for key, ids in owners.items() if len(ids) > 1 and key[1] not in AMBIGUOUS}
    assert shared == {}


def test_no_label_names_two_relations_between_the_same_kinds() -> None:
    """A label may be one concept's own and another's inverse: where there is `contains` beside `located_in`."""
    for field in ("labels", "inverse_labels"):
        owners: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        for concept in load_bank():
            for label in getattr(concept, field):
                owners[concept.head, concept.tail, label].add(concept.id)
        assert {key: sorted(ids) for key, ids in owners.items() if len(ids) > 1} == {}, field


def test_a_path_leads_from_kind_to_kind_over_concepts_of_the_bank() -> None:
    known = {concept.id: concept for concept in load_bank()}
    steps = Counter(one.steps for path in load_paths() for one in (path, path.turned()))
    assert [one for one, count in steps.items() if count > 1] == []
    for path in load_paths():
        ends = []
        for step in path.steps:
            concept = known[step.removeprefix("^")]
            ends.append((concept.tail, concept.head) if step.startswith("^") else (concept.head, concept.tail))
        assert all(one[1] == two[0] for one, two in pairwise(ends)), f"{path.steps}: {ends}"
        for field in PHRASINGS:
            texts = getattr(path, field)
            assert len(texts) >= (3 if field.endswith("nouns") else 4), f"{path.steps}: {len(texts)} {field}"
            assert len(set(map(_plain, texts))) == len(texts), f"{path.steps}: {field} hold a text twice"
            assert all(re.findall(r"[{}]+", text) == ["{}"] and text.isascii() for text in texts), path.steps


def test_a_path_turned_round() -> None:
    path = next(one for one in load_paths(["school"]) if len(one.steps) == 2)
    assert path.steps == ("^school-enrolment-student", "school-enrolment-course")
    back = path.turned()
    assert back.steps == ("^school-enrolment-course", "school-enrolment-student")
    assert (back.forward, back.backward_nouns) == (path.backward, path.forward_nouns)
    assert back.turned() == path


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("steps =", "step =", "path 1: unknown key `step`; did you mean `steps`?"),
        ('["^a-b", "a-c"]', '["^a-b"]', "path 1: `steps` must be two or more ids of concepts"),
        ('backward = ["who takes {}?"]\n', "", "path 1 lacks `backward`"),
        ('["who takes {}?"]', '"who takes {}?"', "path 1: `backward` must be a list of texts"),
    ],
)
def test_what_is_wrong_with_a_path(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(ENTRY + PATH, "utf-8")
    assert [one.steps for one in read_paths(path, "x")] == [("^a-b", "a-c")]
    assert len(read_concepts(path, "x")) == 1
    path.write_text(ENTRY + PATH.replace(old, new, 1), "utf-8")
    with pytest.raises(InputError, match=re.escape(complaint)):
        read_paths(path, "x")


def test_the_bank_lies_in_the_package() -> None:
    """Found as package data, so that an installed kgwalk has it; hatch packs every file below src/kgwalk."""
    folder = files("kgwalk.questions") / "concepts"
    found = {entry.name for entry in folder.iterdir() if entry.name.endswith(".toml")}
    assert {"film.toml", "person.toml", "kinship.toml", "music.toml"} <= found
    assert found == {f"{domain}.toml" for domain in domain_names()}
    pyproject = (Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8")
    assert 'packages = ["src/kgwalk"]' in pyproject
    assert "exclude" not in pyproject.split("[tool.hatch")[1]


def test_loading() -> None:
    film = load_bank(["film"])
    director = next(concept for concept in film if concept.id == "film-director")
    assert (director.head, director.tail, director.many) == ("film", "person", "n:1")
    assert "directed_by" in director.labels
    with pytest.raises(FrozenInstanceError):
        director.head = "book"  # type: ignore[misc]
    film.clear()  # the caller's own list: what is cached stays
    assert load_bank(["film"])[0] is next(
        concept for concept in load_bank(["film", "music"]) if concept.domain == "film"
    )
    assert load_bank(["music", "film"])[0].domain == "music"
    assert load_bank([]) == []
    assert {concept.domain for concept in load_bank()} == set(domain_names())


def test_an_unknown_domain() -> None:
    with pytest.raises(KgwalkError, match="unknown domain of the bank `flim`; did you mean `film`"):
        load_bank(["flim"])


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('tail = "person"\n', "", "x.toml: concept `film-director` lacks `tail`"),
        ("many =", "mnay =", "concept `film-director`: unknown key `mnay`; did you mean `many`?"),
        ('"n:1"', '"one"', "`many` must be one of n:1, 1:n, n:m, 1:1, given 'one'"),
        ('["directed_by"]', '"directed_by"', "`labels` must be a list of texts"),
        ('["directed"]', "[1]", "`inverse_labels` must be a list of texts"),
        ('"film"', "3", "`head` must be a text, given 3"),
        (
            "[[concept]]",
            "[[concepts]]",
            "expected [[concept]] and [[path]] entries and nothing else, but there is `concepts`",
        ),
        ("[[concept]]", "[[concept]", "x.toml: not TOML: "),
        ("[[concept]]", "[concept]", "expected [[concept]] and [[path]] entries and nothing else"),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(ENTRY, "utf-8")
    assert [concept.id for concept in read_concepts(path, "x")] == ["film-director"]
    path.write_text(ENTRY.replace(old, new, 1), "utf-8")
    with pytest.raises(InputError, match=re.escape(complaint)):
        read_concepts(path, "x")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"x.toml: cannot be read: No such file"):
        read_concepts(tmp_path / "x.toml", "x")


def _plain(text: str) -> str:
    return text.lower().rstrip("?!. ")


def _style(label: str) -> str:
    """How a label is written: directed_by, director, film.film.directed_by, directedBy, P57: director and so on."""
    if not label.isascii():
        return "another alphabet or accents"
    for style, pattern in (
        ("identifier", r"[A-Z]\d+\b.*"),
        ("prefix", r"\w+:\S+"),
        ("path", r"[^ ]+[./][^ ]+"),
        ("shouting", r"[A-Z0-9_ -]+"),
        ("snake", r"\w+_\w+"),
        ("camel", r"[A-Za-z]+[a-z][A-Z]\w*"),
        ("words", r".+[ -].+"),
    ):
        if re.fullmatch(pattern, label):
            return style
    return "word"
