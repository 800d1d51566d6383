"""A lexicon gives the templates for a relation: the questions and noun phrases that ask for either of its ends.

    lexicon.templates(DirectedRelation("directed_by", out=True)).questions               # "Who directed {}?", ...
    name_templates(read_name("film.film.directed_by"), out=True)            # from the words of the name alone

`{}` is where the known end goes. Lexicons are made by `bank_lexicon` (the relations' concepts are known) and
`name_lexicon` (any graph). `speaker` puts their templates together into a question.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kgwalk.questions.wording.english import DATE, VALUES, YEAR, is_participle, is_person, kind_of, singular, word_set
from kgwalk.questions.wording.reading import Acts, By, DoneTo, Event, Noun, PlacedIn, Reading, Whole, read
from kgwalk.questions.wording.relation_names import BEING_SOMEBODY, RelationName
from kgwalk.questions.wording.templates import (
    Ends,
    NameTemplates,
    by_templates,
    done_templates,
    event_templates,
    noun_templates,
    placed_templates,
    verb_templates,
    whole_templates,
)
from kgwalk.walk.facts import DirectedRelation


class LevelTemplates(NamedTuple):
    """The templates of one relation at one level of wording."""

    questions: tuple[str, ...]
    nouns: tuple[str, ...]
    bare: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Templates:
    """The templates of one directed relation. The plain ones use the words of the relation's own name."""

    questions: tuple[str, ...]  # "Who directed {}?"
    nouns: tuple[str, ...]  # "the director of {}"
    kind: str = ""  # a singular noun for what is reached: "person"; for a literal "year", "date" or "number"
    plain_questions: tuple[str, ...] = ()
    plain_nouns: tuple[str, ...] = ()
    bare: tuple[str, ...] = ()  # nouns that need no article, for "X's director" and "X director": "director"
    plain_bare: tuple[str, ...] = ()
    where: tuple[str, ...] = ()  # what happens at the place that is reached, or that it has: "does {} play"

    @property
    def silent(self) -> bool:
        """Whether the hop adds no words: it leads to a nameless node, and the hop that leaves it words them both."""
        return self.nouns == ("{}",)

    def at(self, level: int) -> LevelTemplates:
        """Level 0: those of the name itself; level 1: all; level 2: paraphrases. Where there are none, the others."""
        kept = []
        for plain, free in (
            (self.plain_questions, self.questions),
            (self.plain_nouns, self.nouns),
            (self.plain_bare, self.bare),
        ):
            texts = plain or free if level == 0 else (plain + free if level == 1 else free or plain)
            kept.append(tuple(dict.fromkeys(texts)))
        return LevelTemplates(*kept)


class Lexicon(Protocol):
    def templates(self, way: DirectedRelation) -> Templates:
        """The templates of a directed relation; empty ones where there are no words for it."""
        ...

    def through(self, ways: tuple[DirectedRelation, ...]) -> Templates | None:
        """Templates that word several hops as one: a student's courses, over the enrolments; None without any."""
        ...

    def value_words(self, relation: str) -> tuple[str, ...]:
        """Nouns for what a relation with values measures: "population". Empty for other relations."""
        ...

    def units(self, relation: str) -> tuple[str, ...]:
        """How the unit of a relation's values may be said after a number: "kg", "kilos". Empty where there is none."""
        ...

    def alone(self, way: DirectedRelation) -> bool:
        """Whether no other relation joins the same two kinds, so that "the X films" can only mean this one."""
        ...


# Templates from the words of a name


# Verbs without a doer: a company "closed" in 1990, but "was founded".
_BY_ITSELF = word_set("died happened ended began opened closed retired graduated ceased came occurred debuted started")
_AT = {YEAR: ("in", "year"), DATE: ("on", "date")}
_WHEN = ("first", "last")  # first released
# These look like what the head did to the tail, but are not.
_NOT_DONE = word_set("related accused defeated elected rated featured associated located")


def name_templates(name: RelationName, out: bool, ends: Ends | None = None, *, whole: bool = False) -> Templates:
    """Plain templates from a relation's name. With `whole`, both of two joined properties are kept, and so is a unit.

    >>> made = name_templates(RelationName(("capital",)), out=True)
    >>> made.plain_questions[0], made.plain_nouns[0], made.plain_bare
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
    reading = verb_reading(reading, ends.tail)
    if isinstance(reading, PlacedIn) and reading.participle in BEING_SOMEBODY and not is_person(ends.head):
        if is_person(ends.tail):  # `on call` of a service
            ends, out = ends.turned(), not out
        else:
            reading = Noun(reading.participle.replace(" ", "-"))  # says nothing of who is on call for whom
    if whole and name.unit and isinstance(reading, Noun):
        reading = Noun(f"{reading.noun} in {name.unit}")
    if whole and name.before:
        reading = Noun(f"{name.text} in the {' '.join(name.before)}")
    made = _TEMPLATES[type(reading)](reading, out, ends)
    texts = [tuple(dict.fromkeys(_clean(text) for text in some)) for some in made[:3]]
    return Templates((), (), made.kind, texts[0], texts[1], plain_bare=texts[2])


def verb_reading(reading: Reading, tail: str) -> Reading:
    """A better reading of a verb alone, by its tail: `established` tells when, if the tail is a time.

    If it is a thing, `discovered` tells what was discovered. `first released` tells when, too.

    >>> verb_reading(Noun("established"), "year"), verb_reading(Noun("discovered"), "planet")
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
    """The text without doubled blanks, and without one before a question mark or full stop."""
    return " ".join(text.split()).replace(" ?", "?").replace(" .", ".")


_TEMPLATES: dict[type[Reading], Callable[[Reading, bool, Ends], NameTemplates]] = {
    Noun: noun_templates,
    DoneTo: done_templates,
    By: by_templates,
    PlacedIn: placed_templates,
    Acts: verb_templates,
    Whole: whole_templates,
    Event: event_templates,
}
