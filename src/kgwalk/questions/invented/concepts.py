"""Which concepts an invented graph has, what it calls them, and what of the bank is left out.

    ConceptPool(load_bank()).choose(20, ["film", "place"], chance)     # concepts between the graph's kinds
    LabelStyle.of(chance).label(concept, False, chance, free)          # "directedBy", or "hasDirector" as in the bank
    Exclusions(labels=label_keys(["directed_by"]), phrasings=phrasings_of(test_questions)).of(load_bank())

Concepts are chosen so that some lead on from each other and others are easily confused: a film's director, writer and
producer stand together on purpose, as only the words of a question tell them apart. What is left out of the bank is
neither seen nor asked for in training: labels are compared by their words (directedBy is directed_by), phrasings with
a mark in the place of the name.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kgwalk.kg.names import normalise
from kgwalk.questions.bank import Concept, load_paths
from kgwalk.questions.invented.values import LITERALS, fitting, wider
from kgwalk.types import KgwalkError, Question

# Labels


# Ways to write labels, and the share of graphs that use each.
LABEL_STYLES: dict[str, float] = {
    "snake": 0.30,
    "path": 0.17,
    "camel": 0.11,
    "words": 0.13,
    "word": 0.08,
    "shouting": 0.05,
    "prefix": 0.08,
    "identifier": 0.05,
    "foreign": 0.03,
}
_SHAPES = (
    ("foreign", r".*[^\x00-\x7f].*"),
    ("identifier", r"[A-Z]\d+\b.*"),
    ("prefix", r"\w+:\S+"),
    ("path", r"[^ ]+[./][^ ]+"),
    ("shouting", r"[A-Z0-9_ -]+"),
    ("snake", r"\w+_\w+"),
    ("camel", r"[A-Za-z]+[a-z][A-Z]\w*"),
    ("words", r".+[ -].+"),
)
_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9\x80-\U0010ffff']+")
_PREFIXES = ("dbo:", "ex:", "schema:", "rel:", "wdt:", "kg:", "onto:", "http://example.org/rel/", "ns1:")
_INVERSES = ("{}_inverse", "{}_inverse", "inverse_of_{}", "{}_inv", "{}_reverse", "{} (inverse)")
# Words for the start, the end and the date of a mediator node.
_TIMES = tuple(
    tuple(zip(("start", "end", "date"), names.split(", "), strict=True))
    for names in (
        "from, to, date", "start date, end date, on date", "start time, end time, point in time", "begin, end, year",
        "since, until, when", "start year, end year, in year", "valid from, valid until, happened on",
    )
)  # fmt: skip
_BEST_KNOWN = 3  # the first labels of a concept, which can still be read when shortened
_TRIES = 12  # labels drawn before the free ones are looked through


def style_of(label: str) -> str:
    """How a label is written.

    >>> [style_of(label) for label in ("directed_by", "film.film.directed_by", "P57: director", "director")]
    ['snake', 'path', 'identifier', 'word']
    """
    return next((style for style, shape in _SHAPES if re.fullmatch(shape, label)), "word")


def words_of(label: str) -> list[str]:
    """The words of a label in lower case: the last part of a path, the text after an identifier.

    >>> [words_of(label) for label in ("film.film.directed_by", "hasDirector", "P57: director", "dbo:birthPlace")]
    [['directed', 'by'], ['has', 'director'], ['director'], ['birth', 'place']]
    """
    last = re.sub(r"^[A-Z]\d+\b[:\s]*", "", label) or label
    last = re.split(r"[/.:](?=[^/.:]*$)", last.rstrip("/.:"))[-1]
    return [word.lower() for word in _BOUNDARY.split(last) if word]


def label_key(label: str) -> str:
    """A key that is equal for labels that differ only in spelling: film.film.directed_by, directedBy, DIRECTED_BY.

    >>> {label_key(label) for label in ("film.film.directed_by", "directedBy", "DIRECTED_BY", "directed by")}
    {'directed by'}
    """
    return normalise(" ".join(words_of(label)))


@dataclass(frozen=True)
class LabelStyle:
    """How one invented graph writes the labels of its relations."""

    main: str
    mixed: float  # the share of relations in any other style
    odd: float  # the share with a short or odd label
    prefix: str

    @classmethod
    def of(cls, chance: random.Random) -> LabelStyle:
        (main,) = chance.choices(list(LABEL_STYLES), list(LABEL_STYLES.values()))
        mixed = chance.choice((0.0, 0.05, 0.15, 0.5))
        return cls(main, mixed, chance.choice((0.0, 0.0, 0.05, 0.15)), chance.choice(_PREFIXES))

    @classmethod
    def of_tables(cls, chance: random.Random) -> LabelStyle:
        return cls(chance.choice(_TABLE_STYLES), chance.choice((0.0, 0.0, 0.05)), chance.choice((0.0, 0.1)), "")

    def label(self, concept: Concept, turned: bool, chance: random.Random, free: Callable[[str], bool]) -> str | None:
        """A label for a concept, or for its inverse with `turned`; None where no label is `free`."""
        labels = concept.inverse_labels if turned else concept.labels
        for attempt in range(_TRIES):
            mixed = chance.random() < self.mixed or attempt > _TRIES // 2
            style = chance.choice(list(LABEL_STYLES)) if mixed else self.main
            label = self._one(labels, style, concept, turned, chance)
            if free(label):
                return label
        return next((label for label in chance.sample(labels, len(labels)) if free(label)), None)

    def _one(self, labels: Sequence[str], style: str, concept: Concept, turned: bool, chance: random.Random) -> str:
        own = [label for label in labels if style_of(label) == style]
        if own and chance.random() < 0.6:
            return chance.choice(own)
        plain = [label for label in labels if label.isascii()]
        if style == "foreign" or not plain:
            return chance.choice(own or labels)
        odd = chance.random() < self.odd
        words = words_of(chance.choice(plain[:_BEST_KNOWN] if odd else plain))
        if odd:
            words = abbreviated(words, chance)
        kinds = (concept.tail, concept.head) if turned else (concept.head, concept.tail)
        return self.written(words, style, concept.domain, kinds[0], chance)

    def written(self, words: Sequence[str], style: str, domain: str, kind: str, chance: random.Random) -> str:
        """Words in a style; a path starts with the domain and the kind of the head."""
        snake = "_".join(words)
        camel = words[0] + "".join(word.capitalize() for word in words[1:])
        match style:
            case "path":
                kind = kind.replace(" ", "_")
                return chance.choice((f"{domain}.{kind}.{snake}", f"{domain}.{kind}.{snake}", f"{kind}.{snake}"))
            case "camel":
                has = words[0] not in ("has", "is") and len(words) == 1
                return f"has{camel[0].upper()}{camel[1:]}" if has else camel
            case "shouting":
                return snake.upper()
            case "prefix":
                return f"{self.prefix}{camel}"
            case "identifier":
                return f"P{chance.randrange(10, 9000)}: {' '.join(words)}"
            case "words":
                return " ".join(words)
            case "word":
                return snake
            case _:
                return f"has_{snake}" if len(words) == 1 and chance.random() < 0.5 else snake

    def far_label(self, label: str, concept: Concept, chance: random.Random) -> str:
        """The label from a mediator node to the tail; `label` is the one from the head to the node.

        `film.film.starring` leads to the node, `film.starring.person` leads on from it.
        """
        words, kind = words_of(label), concept.tail.split()
        if self.main == "path":
            return f"{concept.domain}.{'_'.join(words)}.{'_'.join(kind)}"
        ending = ["value"] if kind[-1] in words else kind
        return self.written([*words, *ending], self.main, concept.domain, concept.head, chance)

    def time_labels(self, label: str, concept: Concept, ats: Sequence[str], chance: random.Random) -> list[str]:
        """Labels for a mediator node's times, `ats` ("start", "end", "date"); `label` leads to the node.

        `film.film.starring` leads to the node, `film.starring.from` and `film.starring.to` to its dates.
        """
        names = dict(chance.choice(_TIMES))
        words = [names[at].split() for at in ats]
        if self.main == "path":
            return [f"{concept.domain}.{'_'.join(words_of(label))}.{'_'.join(some)}" for some in words]
        return [
            self.written(some, self.main if self.main != "identifier" else "words", "", "", chance) for some in words
        ]

    def opaque(self, chance: random.Random) -> str:
        """A label that says nothing; such relations are never asked for."""
        number = chance.randrange(10, 9000)
        return chance.choice(
            (f"P{number}", f"rel_{number}", f"r{number}", f"{self.prefix}{number:04x}", f"attr{number}")
        )


def inverse_label(label: str, chance: random.Random) -> str:
    """A name derived for the inverse of a relation: `plays_for_inverse`."""
    return chance.choice(_INVERSES).format(label)


def abbreviated(words: Sequence[str], chance: random.Random) -> list[str]:
    """The words shortened, without vowels, reduced to the longest, or with a number after them."""
    how = chance.choice(("cut", "vowels", "number", "longest"))
    if how == "number":
        return [*words, str(chance.randrange(1, 4))]
    if how == "cut":
        return [word if len(word) < 6 else word[: chance.choice((3, 4, 5))] for word in words]
    longest = max(words, key=len)
    if how == "longest" and len(longest) > 4:
        return [longest]
    return [word[0] + re.sub("[aeiou]", "", word[1:]) if len(word) > 6 else word for word in words]


# Choosing concepts

# How a schema grows, and the share of each move: by a concept between the same kinds as one that is there ("near"), one
# that leads on, one with values, after a concept that tells where something happens one that tells where that is, or
# one that completes a path with one that is there: the courses of the enrolments of students ("path").
_MOVES = {"near": 0.39, "on": 0.31, "value": 0.14, "where": 0.07, "path": 0.09}
# The same for a graph made of tables, where a row has many columns with values.
_TABLE_MOVES = {"near": 0.1, "on": 0.25, "value": 0.4, "where": 0.05, "path": 0.2}
_TABLE_STYLES = ("snake", "snake", "camel", "word")  # how columns are called
_MOST_BETWEEN = 9  # concepts between the same two kinds, at most
_HOME, _WANTED = 8.0, 8.0  # weights of the graph's own domains, and of wanted concepts
_PLACES = 4.0  # weight of concepts that tell where something happens: two in a row are asked as one
_LIKE = 3.0  # weight of concepts within one kind: only a question's words tell in which direction it goes
# Values that most graphs have and many questions need: "the youngest", "the largest", "the first".
_ORDINARY = (
    *("person-birthdate", "person-deathdate", "person-height", "film-release-year", "book-year", "music-album-year"),
    *("business-company-founded-year", "business-company-employees", "workplace-employee-hired", "product-price"),
    *("building-completed", "building-height", "place-city-population", "place-area", "place-mountain-height"),
    *("place-river-length", "sport-player-goals"),
)
_ORDINARY_WEIGHT = 20.0
_ON_PATHS = 3.0  # weight of concepts on a path of the bank: rows that join two things
_GENERIC = "generic"  # the domain of relations between any kinds, whose share is bounded
_GENERIC_SHARE = 0.06
_MOVES_EACH = 15  # moves tried for each concept that is wanted
_STARTS, _ENOUGH = 4, 0.7  # a schema with less than this share of the wanted concepts is started anew, so often


@dataclass(frozen=True, slots=True)
class PlacedConcept:
    """A concept between two kinds of an invented graph."""

    concept: Concept
    head: str
    tail: str

    @property
    def literal(self) -> bool:
        return self.tail in LITERALS


@dataclass(frozen=True, slots=True)
class _Entry:
    concept: Concept
    forward: frozenset[str]  # phrasings that give the head, in one spelling
    backward: frozenset[str]  # phrasings that give the tail
    keys: frozenset[str]  # of its labels
    inverse_keys: frozenset[str]


class ConceptPool:
    """The concepts that invented graphs are drawn from. It counts `uses`, so that rare concepts come up more."""

    def __init__(self, concepts: Sequence[Concept]) -> None:
        if not any(concept.tail not in LITERALS for concept in concepts):
            raise KgwalkError("no concept is left to make worlds of; give more domains, or leave fewer labels out")
        self.entries = {concept.id: _entry(concept) for concept in concepts}
        self.domains = sorted({concept.domain for concept in concepts})
        self.uses: Counter[str] = Counter()  # graphs that had a concept, by its id
        self._by_head: dict[str, list[Concept]] = defaultdict(list)
        self._by_tail: dict[str, list[Concept]] = defaultdict(list)
        self.partners: dict[str, set[str]] = defaultdict(set)  # ids of concepts on a path together with another's
        for path in load_paths():
            ids = [step.removeprefix("^") for step in path.steps]
            for one in ids:
                self.partners[one] |= set(ids) - {one}
        # domains with such paths between concepts that are there
        self.row_domains = sorted({one.domain for one in concepts if self.partners[one.id] & self.entries.keys()})
        for concept in concepts:
            self._by_head[concept.head].append(concept)
            self._by_tail[concept.tail].append(concept)

    def choose(
        self,
        count: int,
        domains: Collection[str],
        chance: random.Random,
        wanted: Collection[str] = (),
        *,
        tables: bool = False,
    ) -> list[PlacedConcept]:
        """Up to `count` concepts around these domains; those with `wanted` ids come up more often. With `tables` half
        of them are values.
        """
        best: list[PlacedConcept] = []
        for _ in range(_STARTS):
            found = self._grown(count, frozenset(domains), frozenset(wanted), chance, tables)
            best = max(best, found, key=len)
            if len(best) >= _ENOUGH * count:
                break
        self.uses.update(one.concept.id for one in best)
        return best

    def _grown(
        self, count: int, domains: frozenset[str], wanted: frozenset[str], chance: random.Random, tables: bool
    ) -> list[PlacedConcept]:
        growing = _SchemaDraft(
            self,
            domains,
            wanted,
            chance,
            generic=math.ceil(_GENERIC_SHARE * count),
            moves=_TABLE_MOVES if tables else _MOVES,
        )
        growing.start()
        for _ in range(_MOVES_EACH * count):
            if len(growing.placed) >= count:
                break
            growing.step()
        return growing.placed

    def of_kind(self, kind: str, *, head: bool) -> list[Concept]:
        """The concepts whose head (or tail) may be of this kind."""
        index = self._by_head if head else self._by_tail
        return [concept for one in wider(kind) for concept in index[one]]


@dataclass
class _SchemaDraft:
    """The schema of one graph while it grows."""

    pool: ConceptPool
    domains: frozenset[str]
    wanted: frozenset[str]
    chance: random.Random
    generic: int  # concepts of the generic domain that may still come
    moves: Mapping[str, float]
    placed: list[PlacedConcept] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)  # without literals

    def start(self) -> None:
        every = [entry.concept for entry in self.pool.entries.values() if entry.concept.tail not in LITERALS]
        home = [concept for concept in every if concept.domain in self.domains]
        self._place(self._drawn(home or every))

    def step(self) -> None:
        (move,) = self.chance.choices(list(self.moves), list(self.moves.values()))
        near = self.chance.choice(self.placed)
        kind = self.chance.choice(self.kinds)
        if move == "near":
            options = self.pool.of_kind(near.head, head=True)
            options = [one for one in options if near.tail in fitting(one.tail, [near.tail])]
            options = [one for one in options if one.head != one.tail or near.head == near.tail]
        elif move == "where":
            places = [one.tail for one in self.placed if one.concept.where]
            kind = self.chance.choice(places) if places else kind
            options = [one for one in self.pool.of_kind(kind, head=True) if one.where]
        elif move == "path":
            ids = {other for one in self.placed for other in self.pool.partners[one.concept.id]}
            options = [entry.concept for id, entry in self.pool.entries.items() if id in ids]
            kind = ""
        elif move == "value":
            options = [one for one in self.pool.of_kind(kind, head=True) if one.tail in LITERALS]
        else:
            head = self.chance.random() < 0.5
            options = [one for one in self.pool.of_kind(kind, head=head) if one.tail not in LITERALS]
        there = {one.concept.id for one in self.placed}
        anything = _GENERIC in self.domains or self.generic > 0
        options = [one for one in options if one.id not in there and (anything or one.domain != _GENERIC)]
        if options:
            self._place(self._drawn(options), near if move == "near" else None, kind)

    def _drawn(self, options: Sequence[Concept]) -> Concept:
        weights = [
            (_HOME if one.domain in self.domains else 1.0)
            * (_WANTED if one.id in self.wanted else 1.0)
            * (_PLACES if one.where else 1.0)
            * (_LIKE if one.head == one.tail else 1.0)
            * (_ON_PATHS if self.pool.partners[one.id] else 1.0)
            * (_ORDINARY_WEIGHT if one.id in _ORDINARY else 1.0)
            / (1 + self.pool.uses[one.id]) ** 1.5
            for one in options
        ]
        return self.chance.choices(options, weights)[0]

    def _place(self, concept: Concept, near: PlacedConcept | None = None, kind: str = "") -> None:
        if near is not None:
            head, tail = near.head, near.tail
        else:
            first = [kind] if kind and kind in fitting(concept.head, [kind]) else self.kinds
            head = self.chance.choice(fitting(concept.head, first))
            last = [kind] if kind and kind in fitting(concept.tail, [kind]) and head != kind else self.kinds
            same = concept.head == concept.tail
            tail = head if same else self.chance.choice(fitting(concept.tail, last))
        placed = PlacedConcept(concept, head, tail)
        if self._clashes(placed):
            return
        self.placed.append(placed)
        self.generic -= concept.domain == _GENERIC
        self.kinds += [one for one in dict.fromkeys((head, tail)) if one not in (*self.kinds, *LITERALS)]

    def _clashes(self, new: PlacedConcept) -> bool:
        """Whether another concept here is asked for in the same words, or the two kinds have enough concepts."""
        entry = self.pool.entries[new.concept.id]
        between = 0
        for old in self.placed:
            other = self.pool.entries[old.concept.id]
            between += (old.head, old.tail) == (new.head, new.tail)
            if (old.head == new.head and entry.forward & other.forward) or (
                old.tail == new.tail and entry.backward & other.backward
            ):
                return True
            crossed = (old.head == new.tail and entry.backward & other.forward) or (
                old.tail == new.head and entry.forward & other.backward
            )
            if crossed:
                return True
        return between >= _MOST_BETWEEN


def _entry(concept: Concept) -> _Entry:
    return _Entry(
        concept,
        frozenset(map(_plain, concept.forward + concept.forward_nouns)),
        frozenset(map(_plain, concept.backward + concept.backward_nouns)),
        frozenset(map(label_key, concept.labels)),
        frozenset(map(label_key, concept.inverse_labels)),
    )


def _plain(text: str) -> str:
    return text.lower().rstrip("?!. ")


# What is left out


_SLOT = "0name0"  # stands in the place of a name
_LABELS = ("labels", "inverse_labels")
_PHRASINGS = ("forward", "backward", "forward_nouns", "backward_nouns")


@dataclass(frozen=True)
class Exclusions:
    """What is left out of the bank."""

    labels: frozenset[str] = frozenset()  # as `label_keys` gives them
    phrasings: frozenset[str] = frozenset()  # as `phrasings_of` gives them

    def of(self, concepts: Iterable[Concept]) -> tuple[list[Concept], Counter[str]]:
        """The concepts without these, and how many labels, phrasings and whole concepts were dropped."""
        kept: list[Concept] = []
        counts: Counter[str] = Counter(labels=0, phrasings=0, concepts=0)
        for concept in concepts:
            fields: dict[str, tuple[str, ...]] = {}
            for name in _LABELS:
                fields[name] = tuple(one for one in getattr(concept, name) if label_key(one) not in self.labels)
                counts["labels"] += len(getattr(concept, name)) - len(fields[name])
            for name in _PHRASINGS:
                fields[name] = tuple(one for one in getattr(concept, name) if _phrasing(one) not in self.phrasings)
                counts["phrasings"] += len(getattr(concept, name)) - len(fields[name])
            if all(fields.values()):
                kept.append(replace(concept, **fields))  # type: ignore[arg-type]
            else:  # nothing to call it by, or nothing to ask
                counts["concepts"] += 1
        return kept, counts


def label_keys(labels: Iterable[str]) -> frozenset[str]:
    """The keys of labels, equal for labels that differ only in spelling.

    >>> sorted(label_keys(["film.film.directed_by", "releaseYear"]))
    ['directed by', 'release year']
    """
    return frozenset(map(label_key, labels))


def phrasings_of(questions: Iterable[Question]) -> frozenset[str]:
    """The phrasings of the questions that name one topic.

    >>> phrasings_of([Question("1", "Who directed Toy Story?", ["Toy Story"], [])])
    frozenset({'who directed 0name0'})
    """
    texts = {asked_as(question.question, question.topic_entities) for question in questions}
    return frozenset(text for text in texts if text.count(_SLOT) == 1)


def asked_as(text: str, topics: Sequence[str]) -> str:
    """A question in one spelling, with a mark in the place of each name that is in it.

    >>> asked_as("who acted with tom hanks ?", ["Tom_Hanks"])
    'who acted with 0name0'
    """
    marked = f" {normalise(text)} "
    for topic in sorted(topics, key=len, reverse=True):
        marked = marked.replace(f" {normalise(topic)} ", f" {_SLOT} ")
    return marked.strip()


def _phrasing(text: str) -> str:
    return normalise(text.replace("{}", f" {_SLOT} "))
