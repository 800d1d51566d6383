"""A lexicon: what people say for a relation, read from head to tail or from tail to head.

    lexicon.sayings(Way("directed_by", out=True)).questions    # "Who directed {}?", ...

`{}` is where the known end stands. Knows neither graphs nor whole questions; see `bank_lexicon` and `name_lexicon` for
where sayings come from, and `words` for how they are put together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kgwalk.tools.facts import Way


@dataclass(frozen=True, slots=True)
class Sayings:
    """What is said for one relation read one way. The plain ones use the words of the relation's own name."""

    questions: tuple[str, ...]  # "Who directed {}?"
    nouns: tuple[str, ...]  # "the director of {}"
    kind: str = ""  # plain noun of what is reached, singular: "person"; a literal's is "year", "date", "number"
    plain_questions: tuple[str, ...] = ()
    plain_nouns: tuple[str, ...] = ()
    bare: tuple[str, ...] = ()  # nouns that need no article, for "X's director" and "X director": "director"
    plain_bare: tuple[str, ...] = ()
    where: tuple[str, ...] = ()  # what happens there, where a place is reached, or what has one: "does {} play"

    @property
    def silent(self) -> bool:
        """Whether the hop adds no words: it leads to a nameless node, and the hop from there says what both mean."""
        return self.nouns == ("{}",)

    def at(self, level: int) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Questions, nouns and bare nouns: of the name itself at level 0, of both at 1, paraphrases at 2."""
        kept = []
        for plain, free in (
            (self.plain_questions, self.questions),
            (self.plain_nouns, self.nouns),
            (self.plain_bare, self.bare),
        ):
            texts = plain or free if level == 0 else (plain + free if level == 1 else free or plain)
            kept.append(tuple(dict.fromkeys(texts)))
        return kept[0], kept[1], kept[2]


class Lexicon(Protocol):
    def sayings(self, way: Way) -> Sayings:
        """What is said for this relation, read this way; empty where nothing can be said."""
        ...

    def value_words(self, relation: str) -> tuple[str, ...]:
        """Nouns of what a relation with values measures: "population". Empty for other relations."""
        ...

    def alone(self, way: Way) -> bool:
        """Whether no other relation joins the same two kinds, so that "the X films" can mean this one only."""
        ...
