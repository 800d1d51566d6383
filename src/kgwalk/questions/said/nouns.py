"""What is said for a relation whose name is a noun: the capital of a country, the people born in a place.

Knows the name's reading and the kinds of its ends, no graph.
"""

from __future__ import annotations

from kgwalk.questions.english.inflect import a, singular
from kgwalk.questions.english.kinds import (
    DATE,
    NUMBER,
    PERSON,
    PLACE,
    VAGUE,
    VALUES,
    YEAR,
    is_person,
    kind_of,
    several,
)
from kgwalk.questions.reading import Noun, Reading, Whole
from kgwalk.questions.said.ends import Ends, Said, relative


def noun_said(reading: Reading, out: bool, ends: Ends) -> Said:
    assert isinstance(reading, Noun)
    if reading.of:  # the head is the tail's noun
        return _has(reading, ends.turned()) if not out else _owner(reading, ends.turned())
    return _has(reading, ends) if out else _owner(reading, ends)


def _has(reading: Noun, ends: Ends) -> Said:
    """Asks for the noun of `{}`."""
    noun, be = reading.noun, "are" if reading.many else "is"
    kind = ends.tail or kind_of(noun.split(" in ")[0])
    what = "Who" if is_person(kind) else "What"
    questions = [
        f"{what} {be} the {noun} of {{}}?",
        f"{what} {be} {{}}'s {noun}?",
        f"{'What' if kind in VALUES else 'Which'} {noun} does {{}} have?",
        f"{{}} {noun}?",
        f"Name the {noun} of {{}}.",
        f"Tell me the {noun} of {{}}.",
        f"{{}} has {'whom as its' if is_person(kind) and not reading.many else 'which'} {noun}?",
        f"Can you tell me {{}}'s {noun}?",
        f"Give the {noun} of {{}}.",
    ]
    if kind == DATE:
        questions += [f"On what date is the {noun} of {{}}?"] if noun == "date" else [f"When is {{}}'s {noun}?"]
    if kind == PLACE and not reading.many and " " not in kind and singular(noun.split(" of ")[0]) != "origin":
        questions.append(f"Where is the {noun} of {{}}?")
    nouns = [f"the {noun} of {{}}", f"{{}}'s {noun}", f"the {noun} that {{}} has"]
    return Said(questions, nouns, [noun], kind)


def _owner(reading: Noun, ends: Ends) -> Said:
    """Asks for what has `{}` as its noun."""
    noun = singular(reading.noun) if " in " not in reading.noun else reading.noun
    kind = ends.head
    many, who = several(kind), "Who" if is_person(kind) else "What"
    own = "their" if kind not in VAGUE or is_person(kind) else "the"
    questions = [
        f"Which {many} have {{}} as {own} {noun}?",
        f"{who} has {{}} as {a(noun) if is_person(kind) else f'its {noun}'}?",
        f"{{}} is the {noun} of {'whom' if is_person(kind) else 'what'}?",
        f"Name the {many} whose {noun} is {{}}.",
        f"Whose {noun} is {{}}?" if kind in ("", PERSON) else f"Which {kind}'s {noun} is {{}}?",
        f"{'Of whom' if is_person(kind) else 'Of what'} is {{}} the {noun}?",
        f"List the {many} that have {{}} as {noun}.",
        f"Which {many} have the {noun} {{}}?",
    ]
    nouns = [
        f"the {many} whose {noun} is {{}}",
        f"the {many} with {{}} as {noun}",
        f"the {many} {relative(kind)} have {{}} as {own} {noun}",
        f"the {many} whose {noun} is one of {{}}",
    ]
    if ends.tail in (NUMBER, YEAR, DATE):
        questions += [f"Which {many} have {a(noun)} of {{}}?", f"{who} has {a(noun)} of {{}}?"]
        nouns.append(f"the {many} with {a(noun)} of {{}}")
    return Said(questions, nouns, [], kind)


def whole_said(reading: Reading, out: bool, ends: Ends) -> Said:
    assert isinstance(reading, Whole)
    noun = reading.noun
    what = "Who" if kind_of(noun.split(" ")[0]) == PERSON else "What"
    kind = kind_of(noun.split(" ")[0])
    if out:
        questions = [
            f"{what} are the {noun}?",
            f"Name the {noun}.",
            f"Which {noun} are there?",
            f"List the {noun}.",
            f"{noun}?",
            f"Tell me the {noun}.",
        ]
        return Said(questions, [f"the {noun}", noun, f"all {noun}"], [], kind)
    it = noun.replace("that {}", "that it").format("it")
    asks = noun.format("what") if noun.endswith("{}") else ""
    questions = [
        f"{{}} is among the {asks}?" if asks else f"What has {{}} among the {it}?",
        f"What is it that has {{}} among the {it}?",
        f"Which {several(ends.head)} have {{}} among the {noun.format('them') if asks else it}?",
        f"Name what has {{}} among the {it}.",
        f"Tell me what has {{}} among the {it}.",
        f"Where is {{}} among the {it}?",
    ]
    one = ends.head if ends.head not in VAGUE else "one"
    nouns = [f"the {one} that has {{}} among the {it}", f"the {one} with {{}} among the {it}"]
    nouns.append(f"the {one} for which {{}} is among the {it}")
    return Said(questions, nouns, [], ends.head)
