"""What is said for a relation that is a verb, a place, an event: borders, born in, in a language, make a visit.

Knows the name's reading and the kinds of its ends, no graph.
"""

from __future__ import annotations

from kgwalk.questions.english.inflect import base, past_of, plural
from kgwalk.questions.english.kinds import (
    DATE,
    NUMBER,
    TEXT,
    VAGUE,
    VALUES,
    YEAR,
    is_person,
    is_place,
    kind_of,
    several,
)
from kgwalk.questions.reading import Acts, Event, Placed, Reading
from kgwalk.questions.relation_words import DONE_AT_PLACES
from kgwalk.questions.said.ends import Ends, Said, opening, relative


def placed_said(reading: Reading, out: bool, ends: Ends) -> Said:
    assert isinstance(reading, Placed)
    be, how, to = reading.be, reading.participle, reading.preposition
    if out:
        return _place(be, how, to, reading.thing, ends)
    kind, many = ends.head, several(ends.head)
    who, was = opening(kind), {"is": "are", "was": "were"}[be]
    how_many = plural(how.split(" ", 1)[1]) if how.startswith(("a ", "an ")) else how
    at = f"{to} the {reading.thing}" if reading.thing and not is_place(kind_of(reading.thing)) else to
    questions = [
        f"{who} {be} {how} {at} {{}}?",
        f"Which {many} {was} {how_many} {to} {{}}?",
        f"Name the {many} that {was} {how_many} {to} {{}}.",
        f"List the {many} that {was} {how_many} {at} {{}}.",
        f"Tell me which {many} {was} {how_many} {to} {{}}.",
        f"What are the {many} that {was} {how_many} {to} {{}}?",
        f"{many} that {was} {how_many} {to} {{}}?" if many != "ones" else f"what {be} {how} {to} {{}}?",
    ]
    nouns = [
        f"the {many} {how_many if not how.startswith(('a ', 'an ')) else f'that {was} {how_many}'} {to} {{}}",
        f"the {many} {relative(kind)} {was} {how_many} {to} {{}}",
        f"those {relative(kind)} {was} {how_many} {at} {{}}",
        f"all {many if many != 'ones' else 'those'} {relative(kind)} {was} {how_many} {to} {{}}",
    ]
    return Said(questions, nouns, [], kind)


def _place(be: str, how: str, to: str, thing: str, ends: Ends) -> Said:
    kind = ends.tail or (kind_of(thing) if thing else "place" if how == "born" else "")
    if is_person(kind):
        what = "who"
    else:
        what = f"what {thing}" if thing else f"what {kind}" if kind not in VAGUE and kind not in VALUES else "what"
    what = " ".join(what.split())
    whom = "whom" if what == "who" else what
    questions = [
        f"{what.capitalize()} {be} {{}} {how} {to}?",
        f"{to.capitalize()} {whom} {be} {{}} {how}?",
        f"{{}} {be} {how} {to} {whom}?",
        f"Tell me {what} {{}} {be} {how} {to}.",
        f"Do you know {what} {{}} {be} {how} {to}?",
        f"{to.capitalize()} {whom.replace('what ', 'which ')} {be} {{}} {how}?",
    ]
    one = thing or (kind if kind not in VAGUE else "")
    if not one:
        there = how in DONE_AT_PLACES if to == "in" else to == "at" and not how.startswith(("a ", "an "))
        one = "place" if there else "thing"  # one is born in a place, but written in a language
    questions.append(f"Name the {one} that {{}} {be} {how} {to}.")
    if is_place(kind) and to in ("in", "at"):
        questions += [f"Where {be} {{}} {how}?", f"Tell me where {{}} {be} {how}."]
    nouns = [
        f"the {one} that {{}} {be} {how} {to}",
        f"the {one} {{}} {be} {how} {to}",
        f"the {one} {to} {'whom' if is_person(kind) else 'which'} {{}} {be} {how}",
    ]
    if not how:
        nouns.append(f"the {one} of {{}}")
    return Said(questions, nouns, [one] if thing and kind not in (YEAR, DATE) else [], kind)


def acts_said(reading: Reading, out: bool, ends: Ends) -> Said:
    assert isinstance(reading, Acts)
    return _object(reading, ends) if out else _subject(reading, ends)


def _verb_forms(reading: Acts) -> tuple[str, str, str]:
    """The verb, its base and the helping verb: "plays", "play", "does"."""
    words = reading.verb.split(" ")
    at = 1 if words[0].endswith("ly") and len(words) > 1 else 0  # "partially contains"
    bare = " ".join([*words[:at], base(words[at]), *words[at + 1 :]])
    return reading.verb, bare, "did" if reading.past else "does"


def _object(reading: Acts, ends: Ends) -> Said:
    verb, do, does = _verb_forms(reading)
    thing, to = reading.thing, reading.preposition
    kind = ends.tail or (kind_of(thing) if thing else "")
    what = (
        "who"
        if is_person(kind)
        else f"what {thing or ('' if kind in (*VAGUE, NUMBER, TEXT) else _called(kind))}".strip()
    )
    whom = "whom" if what == "who" else what
    questions = [
        f"{what.capitalize()} {does} {{}} {do} {to}?",
        f"{{}} {verb} {to} {whom}?",
        f"Tell me {what} {{}} {verb} {to}.",
        f"Which {thing or _called(kind)} {does} {{}} {do} {to}?",
        f"Do you know {what} {{}} {verb} {to}?",
        f"Name the {thing or _called(kind)} that {{}} {verb} {to}.",
    ]
    if to and to != "out":
        questions.append(f"{to.capitalize()} {whom} {does} {{}} {do}?")
    one = thing or _called(kind)
    nouns = [f"the {one} that {{}} {verb} {to}", f"the {one} {{}} {verb} {to}", f"the {one} which {{}} {verb} {to}"]
    # "the number of the players" would be how many there are
    return Said(questions, nouns, [thing] if thing and kind not in (YEAR, DATE) and thing != "number" else [], kind)


def _called(kind: str) -> str:
    """What is reached, in a word: of values one, of things several."""
    return {YEAR: YEAR, DATE: DATE, NUMBER: "value", TEXT: "thing"}.get(kind) or several(kind)


def _subject(reading: Acts, ends: Ends) -> Said:
    verb, do, _ = _verb_forms(reading)
    kind, to = ends.head, reading.preposition
    many, all_do = several(kind), verb if reading.past else do
    person = is_person(kind)
    the = f"{to} the {reading.thing}" if reading.thing else to
    at = f"{to} {reading.thing}" if reading.thing and not reading.thing.startswith("number of ") else the
    questions = [
        f"{opening(kind)} {verb} {at} {{}}?",
        f"Which {many} {all_do} {the} {{}}?",
        f"Name the {many} {relative(kind)} {all_do} {to} {{}}.",
        f"List {'everyone who' if person else 'everything that'} {verb} {the} {{}}.",
        f"Tell me {'who' if person else 'what'} {verb} {at} {{}}.",
        f"{'Who are' if person else 'What are'} the {many} that {all_do} {to} {{}}?",
        f"{f'{many} {relative(kind)}' if many != 'ones' else 'which'} {all_do} {at} {{}}?",
    ]
    nouns = [
        f"the {many} {relative(kind)} {all_do} {the} {{}}",
        f"the {many} {relative(kind)} {all_do} {to} {{}}",
        f"those {relative(kind)} {all_do} {to} {{}}",
        f"{'everyone who' if person else 'everything that'} {verb} {the} {{}}",
    ]
    return Said(questions, nouns, [], kind)


def event_said(reading: Reading, out: bool, ends: Ends) -> Said:
    assert isinstance(reading, Event)
    verb, to, rest = reading.verb, reading.preposition, reading.rest
    first, _, more = verb.partition(" ")
    # two verbs joined by "or" are left as they are: "did praise or endorse"
    did = f"did {verb}" if "or" in verb.split() or "," in verb or first.endswith("ly") else f"{past_of(first)} {more}"
    if out:
        questions = [
            f"Whom did {{}} {verb} {to} {rest}?",
            f"Who did {{}} {verb} {to} {rest}?",
            f"Tell me whom {{}} {did} {to} {rest}.",
            f"Which ones did {{}} {verb} {to} {rest}?",
            f"Name those that {{}} {did} {to} {rest}.",
            f"{{}} {did} {to} whom {rest}?",
        ]
        if to:
            questions.append(f"{to.capitalize()} whom did {{}} {verb}?")
        nouns = [f"those that {{}} {did} {to} {rest}", f"the ones whom {{}} {did} {to} {rest}"]
        nouns.append(f"the ones that {{}} {did} {to} {rest}")
        return Said(questions, nouns, [], ends.tail)
    questions = [
        f"Who {did} {to} {{}} {rest}?",
        f"Which ones {did} {to} {{}} {rest}?",
        f"Tell me who {did} {to} {{}} {rest}.",
        f"Name those who {did} {to} {{}} {rest}.",
        f"Who was it that {did} {to} {{}} {rest}?",
        f"List the ones that {did} {to} {{}} {rest}.",
    ]
    nouns = [f"those who {did} {to} {{}} {rest}", f"the ones that {did} {to} {{}} {rest}"]
    nouns.append(f"whoever {did} {to} {{}} {rest}")
    return Said(questions, nouns, [], ends.head)
