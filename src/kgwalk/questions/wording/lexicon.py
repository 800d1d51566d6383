"""A lexicon: what people say for a relation, read from head to tail or from tail to head.

    lexicon.sayings(Way("directed_by", out=True)).questions    # "Who directed {}?", ...

`{}` is where the known end stands. Knows neither graphs nor whole questions; see `bank_lexicon` and `name_lexicon` for
where sayings come from, and `words` for how they are put together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kgwalk.questions.wording.english import DATE, VALUES, YEAR, is_participle, is_person, kind_of, singular, word_set
from kgwalk.questions.wording.reading import Acts, By, DoneTo, Event, Noun, PlacedIn, Reading, Whole, read
from kgwalk.questions.wording.relation_names import BEING_SOMEBODY, RelationName
from kgwalk.questions.wording.templates import (
    Ends,
    EndWords,
    acts_said,
    by_said,
    done_said,
    event_said,
    noun_said,
    placed_said,
    whole_said,
)
from kgwalk.walk.facts import Way


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


# ----------------------------------------------------------------------------------------------------
# What is said for a relation from the words of its name alone, both ways, with light grammar.
#
#     name_sayings(read_name("film.film.directed_by"), out=True).plain_questions     # "Who directed {}?", ...
#
# Knows how a name reads (`reading`) and the kinds of its ends; neither the bank nor a graph.


# Happen by themselves: a company closed in 1990, but was founded.
_BY_ITSELF = word_set("died happened ended began opened closed retired graduated ceased came occurred debuted started")
_AT = {YEAR: ("in", "year"), DATE: ("on", "date")}
_WHEN = ("first", "last")  # first released
# Look like what the head did to the tail, and are not.
_NOT_DONE = word_set("related accused defeated elected rated featured associated located")


def name_sayings(name: RelationName, out: bool, ends: Ends | None = None, *, whole: bool = False) -> Sayings:
    """With `whole`, a name of two joined properties is said with both of them, and one with a unit with that.

    >>> said = name_sayings(RelationName(("capital",)), out=True)
    >>> said.plain_questions[0], said.plain_nouns[0], said.plain_bare
    ('What is the capital of {}?', 'the capital of {}', ('capital',))
    """
    ends = ends or Ends(name.head, "")
    if name.inverse:
        ends, out = ends.turned(), not out
    reading = read(name.words)
    if isinstance(reading, Noun) and ends.tail and not reading.of and " of " not in ends.tail:
        noun, _, of = reading.noun.partition(" of ")
        agent = is_person(kind_of(noun)) or noun in ("owner", "developer", "operator")
        owner = agent and is_person(ends.head) and not is_person(ends.tail)
        # `operator of line` leads to lines, not to operators; so does `owner of business` from a person
        if of and (singular(of) == ends.tail.split(" ")[-1] or owner):
            reading = Noun(noun, of=True)
    reading = as_done(reading, ends.tail)
    if isinstance(reading, PlacedIn) and reading.participle in BEING_SOMEBODY and not is_person(ends.head):
        if is_person(ends.tail):  # `on call` of a service
            ends, out = ends.turned(), not out
        else:
            reading = Noun(reading.participle.replace(" ", "-"))  # says nothing of who is on call for whom
    if whole and name.unit and isinstance(reading, Noun):
        reading = Noun(f"{reading.noun} in {name.unit}")
    if whole and name.before:
        reading = Noun(f"{name.text} in the {' '.join(name.before)}")
    said = _SAID[type(reading)](reading, out, ends)
    texts = [tuple(dict.fromkeys(_clean(text) for text in some)) for some in said[:3]]
    return Sayings((), (), said.kind, texts[0], texts[1], plain_bare=texts[2])


def as_done(reading: Reading, tail: str) -> Reading:
    """A verb alone: `established` says when, if the tail is a time, and `discovered` what, if it is a thing.

    `first released` says when, too.

    >>> as_done(Noun("established"), "year"), as_done(Noun("discovered"), "planet")
    (PlacedIn(participle='established', preposition='in', thing='year', be='was'), \
DoneTo(participle='discovered', thing='', active=True))
    """
    if isinstance(reading, DoneTo) and reading.active and reading.thing in _WHEN and tail in (YEAR, DATE):
        at, when = _AT[tail]
        return PlacedIn(f"{reading.thing} {reading.participle}", at, when, "was")
    if isinstance(reading, DoneTo) and reading.active and reading.thing and tail in VALUES:
        return Noun(f"{reading.thing} {reading.participle}")  # `date founded`
    if isinstance(reading, Noun) and not reading.of and is_participle(reading.noun):
        verb = reading.noun
    elif isinstance(reading, Acts) and reading.past and not reading.preposition and not reading.thing:
        verb = reading.verb
    else:
        return reading
    if tail in (YEAR, DATE):
        at, when = _AT[tail]
        return Acts(verb, at, when) if verb in _BY_ITSELF else PlacedIn(verb, at, when, "was")
    if isinstance(reading, Noun) and tail not in VALUES and verb not in _NOT_DONE:
        return DoneTo(verb, active=True)
    return reading


def _clean(text: str) -> str:
    """No doubled blanks, none before a stop."""
    return " ".join(text.split()).replace(" ?", "?").replace(" .", ".")


_SAID: dict[type[Reading], Callable[[Reading, bool, Ends], EndWords]] = {
    Noun: noun_said,
    DoneTo: done_said,
    By: by_said,
    PlacedIn: placed_said,
    Acts: acts_said,
    Whole: whole_said,
    Event: event_said,
}
