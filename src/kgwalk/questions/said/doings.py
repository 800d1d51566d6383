"""What is said for what one did to another: a film is directed by somebody, its music is by somebody.

Knows the name's reading and the kinds of its ends, no graph.
"""

from __future__ import annotations

from typing import NamedTuple

from kgwalk.questions.english.inflect import base, past, plural, singular, third, word_set
from kgwalk.questions.english.kinds import PERSON, VAGUE, asked, is_person, is_place, several
from kgwalk.questions.reading import By, Done, Reading
from kgwalk.questions.relation_words import GOES_ON, PEOPLE_DO
from kgwalk.questions.said.ends import Ends, Said, relative

# What is done in a place rather than by it: languages are spoken in a country, wars are won by it.
_IN_PLACES = word_set(
    "spoken based headquartered located stationed registered shot filmed held found produced made grown mined used "
    "published born buried raised built set staged played worn eaten practised practiced"
)


def done_said(reading: Reading, out: bool, ends: Ends) -> Said:
    assert isinstance(reading, Done)
    if reading.active:
        agent, thing = ends.head, singular(reading.thing) or ends.tail
        if not out:
            placed = is_place(agent) and reading.thing and reading.participle in _IN_PLACES
            return _done_at(reading.participle, agent) if placed else _doer(reading.participle, agent)
        placed = is_place(agent) and bool(reading.thing) and reading.participle in _IN_PLACES
        return _things(reading.participle, thing, placed)
    return _doer(reading.participle, ends.tail) if out else _things(reading.participle, ends.head, False)


class _Forms(NamedTuple):
    """Of a verb, as it is said of what it is done to and of who does it: in the present if it goes on."""

    did: str  # "directed", "owns"
    all_did: str  # "directed", "own"
    do: str
    does: str  # the helping verb: "did", "does"
    be: str  # "was", "is"


def _forms(participle: str) -> _Forms:
    """
    >>> _forms("executive produced").did, _forms("written").be, _forms("owned")
    ('executive produced', 'was', _Forms(did='owns', all_did='own', do='own', does='does', be='is'))
    """
    *before, last = participle.split(" ")

    def said(form: str) -> str:
        return " ".join([*before, form])

    do = said(base(last))
    if last in GOES_ON:
        return _Forms(said(third(base(last))), do, do, "does", "is")
    return _Forms(said(past(last)), said(past(last)), do, "did", "was")


def _doer(participle: str, kind: str) -> Said:
    """Asks who did it to `{}`. Of an unknown kind it is somebody if only people do such things."""
    form = _forms(participle)
    one, many = "person" if is_person(kind) else "one" if kind in VAGUE else kind, several(kind)
    kind = kind or (PERSON if participle.split(" ")[-1] in PEOPLE_DO else "")
    who, whom = ("Who", "whom") if kind == PERSON else ("What", "what") if kind in VAGUE else (f"Which {kind}",) * 2
    rel, did, be = relative(kind), form.did, form.be
    questions = [
        f"{who} {did} {{}}?",
        f"By {_low(whom)} {be} {{}} {participle}?",
        f"{who} {be} {{}} {participle} by?",
        f"{{}} {be} {participle} by {_low(whom)}?",
        f"Tell me {_low(who)} {did} {{}}.",
        f"Which {one} {did} {{}}?",
        f"Name the {one} {rel} {did} {{}}.",
        f"Do you know {_low(who)} {did} {{}}?",
    ]
    nouns = [
        f"the {one} {rel} {did} {{}}",
        f"the {many} {rel} {form.all_did} {{}}",
        f"{'whoever' if rel == 'who' else 'whatever'} {did} {{}}",
        f"the {one} {{}} {be} {participle} by",
    ]
    return Said(questions, nouns, [], kind)


def _low(text: str) -> str:
    return text[:1].lower() + text[1:]


def _done_at(participle: str, kind: str) -> Said:
    """Asks for the place where it is done to `{}`: languages are spoken in countries."""
    many = several(kind)
    questions = [
        f"Where is {{}} {participle}?",
        f"In which {many} is {{}} {participle}?",
        f"Which {many} have {{}} {participle} in them?",
        f"Name the {many} where {{}} is {participle}.",
        f"{{}} is {participle} in which {many}?",
        f"Tell me where {{}} is {participle}.",
    ]
    nouns = [
        f"the {many} where {{}} is {participle}",
        f"the {many} in which {{}} is {participle}",
        f"the {many} that {{}} is {participle} in",
    ]
    return Said(questions, nouns, [], kind)


def _things(participle: str, kind: str, placed: bool) -> Said:
    """What was done by `{}`; with `placed`, what is done in it: the languages spoken in a country."""
    form = _forms(participle)
    are = "are" if placed or form.be == "is" else "were"
    many = "things" if kind in VAGUE else plural(kind)
    by = "in" if placed else "by"
    questions = [
        f"Which {many} {are} {participle} {by} {{}}?",
        f"Name the {many} {participle} {by} {{}}.",
        f"{many} {participle} {by} {{}}?",
        f"What {many if kind not in VAGUE else ''} {are} {participle} {by} {{}}?",
        f"List the {many} {participle} {by} {{}}.",
    ]
    nouns = [f"the {many} {participle} {by} {{}}", f"{many} {participle} {by} {{}}"]
    if placed:
        questions += [f"What {many} do people in {{}} {form.do}?"]
        nouns += [f"the {many} that people in {{}} {form.do}"]
    else:
        questions += [
            f"What {form.does} {{}} {form.do}?",
            f"What has {{}} {participle}?" if form.be == "was" else f"What is {participle} by {{}}?",
            f"Which {many} {form.does} {{}} {form.do}?",
            f"Tell me what {{}} {form.did}.",
        ]
        nouns += [f"the {many} that {{}} {form.did}", f"the {many} {{}} {form.did}"]
    return Said(questions, nouns, [], kind)


def by_said(reading: Reading, out: bool, ends: Ends) -> Said:
    assert isinstance(reading, By)
    noun, many, agent = reading.noun, several(ends.head), ends.tail or PERSON
    if out:
        who = asked(agent) if is_person(agent) else f"which {agent}"
        questions = [
            f"{who.capitalize()} did the {noun} of {{}}?",
            f"{who.capitalize()} is the {noun} of {{}} by?",
            f"By {'whom' if is_person(agent) else who} is the {noun} of {{}}?",
            f"Tell me {who} did the {noun} for {{}}.",
            f"{who.capitalize()} was responsible for the {noun} of {{}}?",
            f"{{}} {noun} by {who}?",
        ]
        one = "one" if agent in VAGUE else agent
        nouns = [
            f"the {one} {relative(agent)} did the {noun} of {{}}",
            f"the {one} responsible for the {noun} of {{}}",
            f"the {one} behind the {noun} of {{}}",
        ]
        return Said(questions, nouns, [], agent)
    questions = [
        f"Which {many} have {noun} by {{}}?",
        f"What has {noun} by {{}}?",
        f"Name the {many} with {noun} by {{}}.",
        f"{{}} did the {noun} of which {many}?",
        f"For which {many} did {{}} do the {noun}?",
        f"List the {many} that have {noun} by {{}}.",
    ]
    nouns = [
        f"the {many} with {noun} by {{}}",
        f"the {many} that have {noun} by {{}}",
        f"the {many} that {{}} did the {noun} of",
    ]
    return Said(questions, nouns, [], ends.head)
