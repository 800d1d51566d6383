"""What is said for a relation from the words of its name alone, both ways, with light grammar.

    name_sayings(read_name("film.film.directed_by"), out=True).plain_questions     # "Who directed {}?", ...

Knows how a name reads (`reading`) and the kinds of its ends; neither the bank nor a graph.
"""

from __future__ import annotations

from collections.abc import Callable

from kgwalk.questions.english.inflect import is_participle, singular, word_set
from kgwalk.questions.english.kinds import DATE, VALUES, YEAR, is_person, kind_of
from kgwalk.questions.lexicon import Sayings
from kgwalk.questions.reading import Acts, By, Done, Event, Noun, Placed, Reading, Whole, read
from kgwalk.questions.relation_name import RelationName
from kgwalk.questions.relation_words import BEING_SOMEBODY
from kgwalk.questions.said.doings import by_said, done_said
from kgwalk.questions.said.ends import Ends, Said
from kgwalk.questions.said.nouns import noun_said, whole_said
from kgwalk.questions.said.verbs import acts_said, event_said, placed_said

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
    if isinstance(reading, Placed) and reading.participle in BEING_SOMEBODY and not is_person(ends.head):
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
    (Placed(participle='established', preposition='in', thing='year', be='was'), \
Done(participle='discovered', thing='', active=True))
    """
    if isinstance(reading, Done) and reading.active and reading.thing in _WHEN and tail in (YEAR, DATE):
        at, when = _AT[tail]
        return Placed(f"{reading.thing} {reading.participle}", at, when, "was")
    if isinstance(reading, Done) and reading.active and reading.thing and tail in VALUES:
        return Noun(f"{reading.thing} {reading.participle}")  # `date founded`
    if isinstance(reading, Noun) and not reading.of and is_participle(reading.noun):
        verb = reading.noun
    elif isinstance(reading, Acts) and reading.past and not reading.preposition and not reading.thing:
        verb = reading.verb
    else:
        return reading
    if tail in (YEAR, DATE):
        at, when = _AT[tail]
        return Acts(verb, at, when) if verb in _BY_ITSELF else Placed(verb, at, when, "was")
    if isinstance(reading, Noun) and tail not in VALUES and verb not in _NOT_DONE:
        return Done(verb, active=True)
    return reading


def _clean(text: str) -> str:
    """No doubled blanks, none before a stop."""
    return " ".join(text.split()).replace(" ?", "?").replace(" .", ".")


_SAID: dict[type[Reading], Callable[[Reading, bool, Ends], Said]] = {
    Noun: noun_said,
    Done: done_said,
    By: by_said,
    Placed: placed_said,
    Acts: acts_said,
    Whole: whole_said,
    Event: event_said,
}
