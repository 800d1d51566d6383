"""A relation's name as words: snake_case, camelCase, dotted paths, prefixes, identifiers, inverse markers, units.

    read_name("film.film.directed_by")    # words "directed by", head kind "film"

Reads one name at a time, without a graph. What the words mean for a sentence is in `name_sayings`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from kgwalk.llm.embed import words as split_words
from kgwalk.questions.english.inflect import singular, word_set
from kgwalk.questions.english.units import split_unit

# What marks that a fact is read from tail to head.
_INVERSE = re.compile(
    r"^(?:inverse[_ -]?(?:of)?[_ -]|inv[_-]|reverse[_ -](?:of[_ -])?|\^|~|-(?=\w))|"
    r"(?:[_ -]inverse|[_-]inv|[_ -]reverse|[_-]reciprocal| ?\((?:inverse|reverse)\)|\^-1|\^|⁻¹)$"
    r"|(?<=[a-z])(?-i:Inv|Inverse|Reverse)$",
    re.IGNORECASE,
)
_IDENTIFIED = re.compile(r"^(?:wdt:|p:|wd:)?[PQ]\d+\s*[:|(_-]+\s*(?P<label>.+?)\)?$")  # "P57: director"
_URI = re.compile(r"^<?\w+://\S*?(?P<last>[^/#\s>]+)[/#]?>?$")
_PREFIX = re.compile(r"^[A-Za-z][\w-]{0,15}:(?=[A-Za-z_])")  # dbo:, rdf:, schema:
_ASIDE = re.compile(r"\s*\([^)]*\)")
# Second to last parts of a path that name no kind of thing.
_NO_KINDS = word_set("object topic common base user default domain schema type random extra")


@dataclass(frozen=True, slots=True)
class RelationName:
    """`words` are in lower case, but for what is written in capitals among others ("nominal GDP")."""

    words: tuple[str, ...]
    before: tuple[str, ...] = ()  # of two joined properties the first: Freebase's "spouse s" before "type of union"
    head: str = ""  # the kind of the head, where a path names it
    inverse: bool = False
    unit: str = ""  # what the tails are measured in, and no part of the words: "cm" of `height_cm`

    @property
    def text(self) -> str:
        return " ".join(self.words)


@lru_cache(maxsize=65536)
def read_name(relation: str) -> RelationName:
    """
    >>> read_name("people.person.place_of_birth")
    RelationName(words=('place', 'of', 'birth'), before=(), head='person', inverse=False, unit='')
    >>> [read_name(name).text for name in ("dbo:birthPlace", "P57: director", "HAS_CAST", "_member_meronym")]
    ['birth place', 'director', 'has cast', 'member meronym']
    >>> read_name("/people/person/spouse_s./people/marriage/type_of_union")
    RelationName(words=('type', 'of', 'union'), before=('spouses',), head='person', inverse=False, unit='')
    >>> read_name("plays_in_club_inverse"), read_name("http://dbpedia.org/ontology/timeZone").text
    (RelationName(words=('plays', 'in', 'club'), before=(), head='', inverse=True, unit=''), 'time zone')
    >>> read_name("heightCm").text, read_name("heightCm").unit, read_name("opening_hours").text
    ('height', 'cm', 'opening hours')
    """
    text = relation.strip()
    bare = _INVERSE.sub("", text)
    inverse = bare != text and bool(bare.strip("_ "))
    text = bare if inverse else text
    found = _IDENTIFIED.match(text)
    if found is not None:
        text = found["label"]
    uri = _URI.match(text)
    if uri is not None:
        text = uri["last"]
    text = _PREFIX.sub("", text) if " " not in text else _ASIDE.sub("", text) or text
    paths = _paths(text)
    if not paths:
        return RelationName((relation.strip() or "link",), inverse=inverse)
    head = _kind(paths[0][-2]) if len(paths[0]) > 1 else ""
    before = _split(paths[0][-1]) if len(paths) > 1 else ()
    words = _split(paths[-1][-1])
    if len(words) > 1 and words[-1] in ("1", "2"):  # `needed_by_1`, beside another of that name
        words = words[:-1]
    words, unit = split_unit(words)
    return RelationName(words, () if before == words else before, head, inverse, unit)


def _paths(text: str) -> list[list[str]]:
    """The properties that a name joins, each as the parts of its path."""
    if " " in text:
        return [[text]]
    joined = re.split(r"\.(?=/)", text)
    paths = [[part for part in re.split(r"__+|[./]+", one.strip("_./")) if part.strip("_")] for one in joined]
    return [path for path in paths if path]


def _split(part: str) -> tuple[str, ...]:
    part = re.sub(r"(\w)_s$", r"\1s", part)  # Freebase's spouse_s
    parts = split_words(part).replace("_", " ").replace(" / ", " or ").split() or [part]
    return tuple(word if word.isupper() and len(parts) > 1 and not part.isupper() else word.lower() for word in parts)


def _kind(part: str) -> str:
    words = [word for word in _split(part) if word not in _NO_KINDS]
    kind = singular(" ".join(words))
    return "" if not words or any(map(str.isdigit, kind)) else {"people": "person", "location": "place"}.get(kind, kind)
