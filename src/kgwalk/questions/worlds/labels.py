"""What a world calls its relations: labels of the bank in the world's own style, inverse ones, short and odd ones.

    World style "camel": directed_by -> directedBy, or hasDirector as the bank has it.

Knows concepts and spelling. Which label may not be used is said by a test that the caller gives.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kgwalk.data.bank.concepts import Concept
from kgwalk.kg.normalise import normalise

# How worlds write relations, and how often one does.
STYLES: dict[str, float] = {
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
# Words for the beginning, the end and the date of a node in between.
_TIMES = tuple(
    tuple(zip(("start", "end", "date"), names.split(", "), strict=True))
    for names in (
        "from, to, date", "start date, end date, on date", "start time, end time, point in time", "begin, end, year",
        "since, until, when", "start year, end year, in year", "valid from, valid until, happened on",
    )
)  # fmt: skip
_BEST_KNOWN = 3  # the first labels of a concept are English: others cannot be read any more when shortened
_TRIES = 12


def style_of(label: str) -> str:
    """How a label is written.

    >>> [style_of(label) for label in ("directed_by", "film.film.directed_by", "P57: director", "director")]
    ['snake', 'path', 'identifier', 'word']
    """
    return next((style for style, shape in _SHAPES if re.fullmatch(shape, label)), "word")


def words_of(label: str) -> list[str]:
    """The words of a label, in lower case: of a path the last part, of an identifier the text after it.

    >>> [words_of(label) for label in ("film.film.directed_by", "hasDirector", "P57: director", "dbo:birthPlace")]
    [['directed', 'by'], ['has', 'director'], ['director'], ['birth', 'place']]
    """
    last = re.sub(r"^[A-Z]\d+\b[:\s]*", "", label) or label
    last = re.split(r"[/.:](?=[^/.:]*$)", last.rstrip("/.:"))[-1]
    return [word.lower() for word in _BOUNDARY.split(last) if word]


def label_key(label: str) -> str:
    """Equal for labels that differ in spelling alone: film.film.directed_by, directedBy, DIRECTED_BY.

    >>> {label_key(label) for label in ("film.film.directed_by", "directedBy", "DIRECTED_BY", "directed by")}
    {'directed by'}
    """
    return normalise(" ".join(words_of(label)))


@dataclass(frozen=True)
class Style:
    """How one world writes relations."""

    main: str
    mixed: float  # the share of relations in any other style
    odd: float  # the share with a short or odd label
    prefix: str

    @classmethod
    def of(cls, chance: random.Random) -> Style:
        (main,) = chance.choices(list(STYLES), list(STYLES.values()))
        mixed = chance.choice((0.0, 0.05, 0.15, 0.5))
        return cls(main, mixed, chance.choice((0.0, 0.0, 0.05, 0.15)), chance.choice(_PREFIXES))

    def label(self, concept: Concept, turned: bool, chance: random.Random, free: Callable[[str], bool]) -> str | None:
        """A label for a concept, or for the same fact turned round; None where all that come to mind are not `free`."""
        labels = concept.inverse_labels if turned else concept.labels
        for attempt in range(_TRIES):
            mixed = chance.random() < self.mixed or attempt > _TRIES // 2
            style = chance.choice(list(STYLES)) if mixed else self.main
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
            words = oddly(words, chance)
        kinds = (concept.tail, concept.head) if turned else (concept.head, concept.tail)
        return self.written(words, style, concept.domain, kinds[0], chance)

    def written(self, words: Sequence[str], style: str, domain: str, kind: str, chance: random.Random) -> str:
        """Words in a style; a path opens with the domain and the kind that it leaves from."""
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
        """For a fact with a node in between, the relation at the tail; `label` is the one at the head.

        `film.film.starring` leads to the node, `film.starring.person` from it on.
        """
        words, kind = words_of(label), concept.tail.split()
        if self.main == "path":
            return f"{concept.domain}.{'_'.join(words)}.{'_'.join(kind)}"
        ending = ["value"] if kind[-1] in words else kind
        return self.written([*words, *ending], self.main, concept.domain, concept.head, chance)

    def mark_labels(self, label: str, concept: Concept, ats: Sequence[str], chance: random.Random) -> list[str]:
        """For the times of a node in between; `label` is the one that leads to the node, `ats` what the times are.

        `film.film.starring` leads to it, `film.starring.from` and `film.starring.to` from it to two dates.
        """
        names = dict(chance.choice(_TIMES))
        words = [names[at].split() for at in ats]
        if self.main == "path":
            return [f"{concept.domain}.{'_'.join(words_of(label))}.{'_'.join(some)}" for some in words]
        return [
            self.written(some, self.main if self.main != "identifier" else "words", "", "", chance) for some in words
        ]

    def opaque(self, chance: random.Random) -> str:
        """A label that says nothing: such relations are there, and are not asked for."""
        number = chance.randrange(10, 9000)
        return chance.choice(
            (f"P{number}", f"rel_{number}", f"r{number}", f"{self.prefix}{number:04x}", f"attr{number}")
        )


def inverted(label: str, chance: random.Random) -> str:
    """The name of the same relation read backwards, as graphs derive it: `plays_for_inverse`."""
    return chance.choice(_INVERSES).format(label)


def oddly(words: Sequence[str], chance: random.Random) -> list[str]:
    """The words as someone in a hurry writes them: shortened, without vowels, or with a number after them."""
    how = chance.choice(("cut", "vowels", "number", "longest"))
    if how == "number":
        return [*words, str(chance.randrange(1, 4))]
    if how == "cut":
        return [word if len(word) < 6 else word[: chance.choice((3, 4, 5))] for word in words]
    longest = max(words, key=len)
    if how == "longest" and len(longest) > 4:
        return [longest]
    return [word[0] + re.sub("[aeiou]", "", word[1:]) if len(word) > 6 else word for word in words]
