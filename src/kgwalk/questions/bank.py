"""The bank of relation concepts, read from the TOML files in `concepts/`: one file a domain, one entry a concept.

    load_bank(["film"])[0].forward         # "Who directed {}?", ...
    load_paths(["education"])[0].forward   # "Which courses is {} enrolled in?", ...

A concept is one kind of fact: the names that graphs give it, in either direction, and how people ask for either end.
A path is what people ask through rows without speaking of them: from a student over the enrolments to the courses.
This module checks the shape of an entry; tests/questions/test_bank.py checks how many phrasings it has and their form.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from kgwalk.config.recipe import unknown
from kgwalk.types import InputError

_FOLDER = files("kgwalk.questions") / "concepts"
MANY = ("n:1", "1:n", "n:m", "1:1")


@dataclass(frozen=True, slots=True)
class Concept:
    """One concept. `forward` questions give the head as `{}` and ask for the tail, `backward` ones the reverse."""

    id: str  # "film-director": the domain first
    head: str  # kind of the head, a plain noun: "film"
    tail: str  # "person"; a literal is a "year", "date", "number" or "text"
    many: str  # "n:1": a head has one tail, and a tail many heads
    labels: tuple[str, ...]  # names of the relation, head to tail: "directed_by"
    inverse_labels: tuple[str, ...]  # names of the same fact, tail to head: "films_directed"
    forward: tuple[str, ...]
    backward: tuple[str, ...]
    forward_nouns: tuple[str, ...]  # "the director of {}"
    backward_nouns: tuple[str, ...]  # "the films directed by {}"
    domain: str  # the file's name, without its ending
    # Optional everyday nouns for the tail of a head, and for the heads of a tail: X's "dad", X's "kids". The nouns that
    # labels give need not be repeated.
    nouns: tuple[str, ...] = ()
    inverse_nouns: tuple[str, ...] = ()
    # Optional, if the tail is a place or has one: what happens there, "does {} play" for a team. So "In which country
    # does X play?" can ask for the country of X's team.
    where: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConceptPath:
    """How people ask over several concepts in a row. `forward` gives the start as `{}` and asks for the end."""

    # Ids of concepts from the start on; "^" before one that is walked from its tail to its head:
    # "^education-enrolment-student", "education-enrolment-course" leads from a student to courses.
    steps: tuple[str, ...]
    forward: tuple[str, ...]
    backward: tuple[str, ...]
    forward_nouns: tuple[str, ...]
    backward_nouns: tuple[str, ...]
    domain: str  # the file's name, without its ending

    def turned(self) -> ConceptPath:
        """The same path from its end to its start."""
        steps = tuple(step[1:] if step.startswith("^") else f"^{step}" for step in reversed(self.steps))
        return ConceptPath(
            steps, self.backward, self.forward, self.backward_nouns, self.forward_nouns, domain=self.domain
        )


_TEXTS = ("id", "head", "tail", "many")
_OPTIONAL = ("nouns", "inverse_nouns", "where")
_LISTS = tuple(field.name for field in fields(Concept) if field.name not in (*_TEXTS, *_OPTIONAL, "domain"))
_PATH_LISTS = tuple(field.name for field in fields(ConceptPath) if field.name != "domain")


def domain_names() -> list[str]:
    """The domains of the bank, one for each file."""
    return sorted(entry.name.removesuffix(".toml") for entry in _FOLDER.iterdir() if entry.name.endswith(".toml"))


def load_bank(domains: Iterable[str] | None = None) -> list[Concept]:
    """The concepts of these domains, in order; by default of all domains."""
    concepts: dict[str, Concept] = {}
    known = domain_names()
    for domain in dict.fromkeys(known if domains is None else domains):
        if domain not in known:
            raise unknown("domain of the bank", domain, known)
        for concept in _domain(domain):
            if concept.id in concepts:
                raise InputError(
                    f"concept `{concept.id}` stands in {concepts[concept.id].domain}.toml as well",
                    path=f"{domain}.toml",
                    hint="give one of the two another id, or join them",
                )
            concepts[concept.id] = concept
    return list(concepts.values())


def load_paths(domains: Iterable[str] | None = None) -> list[ConceptPath]:
    """The paths of these domains, each once, as its file has it; by default of all domains."""
    return [path for domain in (domain_names() if domains is None else domains) for path in _domain_paths(domain)]


@cache
def row_kinds() -> frozenset[str]:
    """The kinds that join two others, and of which people do not speak: enrolments, order lines, stops of a line."""
    heads = {concept.id: concept.head for concept in load_bank()}
    found = (heads[path.steps[0][1:]] for path in load_paths() if path.steps[0].startswith("^"))
    return frozenset(found) - {"product"}  # these are spoken of


@cache
def _domain(domain: str) -> tuple[Concept, ...]:
    entries, _ = _domain_entries(domain)
    return tuple(_concepts(entries, domain))


@cache
def _domain_paths(domain: str) -> tuple[ConceptPath, ...]:
    _, entries = _domain_entries(domain)
    return tuple(_paths(entries, domain))


@cache
def _domain_entries(domain: str) -> tuple[list[Any], list[Any]]:
    """To read the TOML takes longer than all else here: it is read once for the concepts and the paths."""
    return _entries(_FOLDER / f"{domain}.toml", domain)


def read_concepts(file: Traversable, domain: str) -> list[Concept]:
    """The concepts of one file."""
    entries, _ = _entries(file, domain)
    return _concepts(entries, domain)


def read_paths(file: Traversable, domain: str) -> list[ConceptPath]:
    """The paths of one file."""
    _, entries = _entries(file, domain)
    return _paths(entries, domain)


def _concepts(entries: Iterable[Any], domain: str) -> list[Concept]:
    return [_concept(entry, number, f"{domain}.toml", domain) for number, entry in enumerate(entries, 1)]


def _paths(entries: Iterable[Any], domain: str) -> list[ConceptPath]:
    return [_path(entry, f"path {number}", f"{domain}.toml", domain) for number, entry in enumerate(entries, 1)]


def _entries(file: Traversable, domain: str) -> tuple[list[Any], list[Any]]:
    """The concepts and the paths of one file, as they are written."""
    path = f"{domain}.toml"
    try:
        values = tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not TOML: {error}", path=path) from error
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    concepts, paths = values.pop("concept", None), values.pop("path", [])
    if not isinstance(concepts, list) or not isinstance(paths, list) or values:
        extra = f", but there is `{next(iter(values))}`" if values else ""
        raise InputError(f"expected [[concept]] and [[path]] entries and nothing else{extra}", path=path)
    return concepts, paths


def _path(entry: Any, name: str, file: str, domain: str) -> ConceptPath:
    if not isinstance(entry, dict):
        raise InputError(f"{name} is no table", path=file, hint="write [[path]] above its keys")
    for key in entry:
        if key not in _PATH_LISTS:
            raise InputError(f"{name}: {unknown('key', key, _PATH_LISTS)}", path=file)
    for key in _PATH_LISTS:
        if key not in entry:
            raise InputError(f"{name} lacks `{key}`", path=file)
        if not isinstance(entry[key], list) or not all(isinstance(one, str) and one for one in entry[key]):
            raise InputError(f"{name}: `{key}` must be a list of texts", path=file)
    if len(entry["steps"]) < 2:
        raise InputError(f"{name}: `steps` must be two or more ids of concepts", path=file)
    return ConceptPath(**{key: tuple(entry[key]) for key in _PATH_LISTS}, domain=domain)


def _concept(entry: Any, number: int, path: str, domain: str) -> Concept:
    if not isinstance(entry, dict):
        raise InputError(f"concept {number} is no table", path=path, hint="write [[concept]] above its keys")
    name = f"concept `{entry['id']}`" if isinstance(entry.get("id"), str) else f"concept {number}"
    for key in entry:
        if key not in (*_TEXTS, *_LISTS, *_OPTIONAL):
            raise InputError(f"{name}: {unknown('key', key, (*_TEXTS, *_LISTS, *_OPTIONAL))}", path=path)
    for key in (*_TEXTS, *_LISTS):
        if key not in entry:
            raise InputError(f"{name} lacks `{key}`", path=path)
    for key in _TEXTS:
        if not isinstance(entry[key], str) or not entry[key]:
            raise InputError(f"{name}: `{key}` must be a text, given {entry[key]!r}", path=path)
    if entry["many"] not in MANY:
        raise InputError(f"{name}: `many` must be one of {', '.join(MANY)}, given {entry['many']!r}", path=path)
    given = (*_LISTS, *(key for key in _OPTIONAL if key in entry))
    for key in given:
        if not isinstance(entry[key], list) or not all(isinstance(one, str) and one for one in entry[key]):
            raise InputError(f"{name}: `{key}` must be a list of texts", path=path)
    values: dict[str, Any] = {key: entry[key] for key in _TEXTS} | {key: tuple(entry[key]) for key in given}
    return Concept(**values, domain=domain)
