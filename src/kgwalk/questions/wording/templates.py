"""Templates of questions and noun phrases for each reading of a relation's name.

    noun_templates(Noun("capital"), True, Ends("country", "city")).questions[0]     # "What is the capital of {}?"

One function for each kind of reading: a noun (capital), a verb (borders), a state (born in), what one did to another
(directed by), an event (make a visit), a whole phrase (people born here). `lexicon.name_templates` chooses among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kgwalk.questions.wording.english import (
    DATE,
    NUMBER,
    PERSON,
    PLACE,
    TEXT,
    VAGUE,
    VALUES,
    YEAR,
    a,
    asked,
    base,
    is_person,
    is_place,
    kind_of,
    past,
    past_of,
    plural,
    several,
    singular,
    third,
    word_set,
)
from kgwalk.questions.wording.reading import Acts, By, DoneTo, Event, Noun, PlacedIn, Reading, Whole
from kgwalk.questions.wording.relation_names import DONE_AT_PLACES, GOES_ON, PEOPLE_DO


class NameTemplates(NamedTuple):
    """Templates of questions and nouns, nouns without an article, and the kind of what is reached."""

    questions: list[str]
    nouns: list[str]
    bare: list[str]
    kind: str


@dataclass(frozen=True, slots=True)
class Ends:
    """The kinds of a fact's ends; "" is unknown."""

    head: str
    tail: str

    def turned(self) -> Ends:
        return Ends(self.tail, self.head)


def opening(kind: str) -> str:
    """The words that open a question for a kind: "Who", "What", "Which film"."""
    return asked(kind).capitalize() if kind in (PERSON, *VAGUE) or kind in VALUES else f"Which {kind}"


def relative(kind: str) -> str:
    return "who" if is_person(kind) else "that"


# States and verbs: born in, in a language, borders, make a visit


def placed_templates(reading: Reading, out: bool, ends: Ends) -> NameTemplates:
    assert isinstance(reading, PlacedIn)
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
    return NameTemplates(questions, nouns, [], kind)


def _place(be: str, how: str, to: str, thing: str, ends: Ends) -> NameTemplates:
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
    return NameTemplates(questions, nouns, [one] if thing and kind not in (YEAR, DATE) else [], kind)


def verb_templates(reading: Reading, out: bool, ends: Ends) -> NameTemplates:
    assert isinstance(reading, Acts)
    return _object(reading, ends) if out else _subject(reading, ends)


def _verb_forms(reading: Acts) -> tuple[str, str, str]:
    """The verb, its base form and the helping verb: "plays", "play", "does"."""
    words = reading.verb.split(" ")
    at = 1 if words[0].endswith("ly") and len(words) > 1 else 0  # "partially contains"
    bare = " ".join([*words[:at], base(words[at]), *words[at + 1 :]])
    return reading.verb, bare, "did" if reading.past else "does"


def _object(reading: Acts, ends: Ends) -> NameTemplates:
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
    return NameTemplates(
        questions, nouns, [thing] if thing and kind not in (YEAR, DATE) and thing != "number" else [], kind
    )


def _called(kind: str) -> str:
    """A noun for what is reached: singular for values, plural for other kinds."""
    return {YEAR: YEAR, DATE: DATE, NUMBER: "value", TEXT: "thing"}.get(kind) or several(kind)


def _subject(reading: Acts, ends: Ends) -> NameTemplates:
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
    return NameTemplates(questions, nouns, [], kind)


def event_templates(reading: Reading, out: bool, ends: Ends) -> NameTemplates:
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
        return NameTemplates(questions, nouns, [], ends.tail)
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
    return NameTemplates(questions, nouns, [], ends.head)


# Nouns: the capital of a country, the people born in a place


def noun_templates(reading: Reading, out: bool, ends: Ends) -> NameTemplates:
    assert isinstance(reading, Noun)
    if reading.of:  # the head is the tail's noun
        return _has(reading, ends.turned()) if not out else _owner(reading, ends.turned())
    return _has(reading, ends) if out else _owner(reading, ends)


def _has(reading: Noun, ends: Ends) -> NameTemplates:
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
    return NameTemplates(questions, nouns, [noun], kind)


def _owner(reading: Noun, ends: Ends) -> NameTemplates:
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
    return NameTemplates(questions, nouns, [], kind)


def whole_templates(reading: Reading, out: bool, ends: Ends) -> NameTemplates:
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
        return NameTemplates(questions, [f"the {noun}", noun, f"all {noun}"], [], kind)
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
    return NameTemplates(questions, nouns, [], ends.head)


# Deeds: a film is directed by somebody, its music is by somebody


# Done in a place rather than by it: languages are spoken in a country, wars are won by it.
_IN_PLACES = word_set(
    "spoken based headquartered located stationed registered shot filmed held found produced made grown mined used "
    "published born buried raised built set staged played worn eaten practised practiced"
)


def done_templates(reading: Reading, out: bool, ends: Ends) -> NameTemplates:
    assert isinstance(reading, DoneTo)
    if reading.active:
        agent, thing = ends.head, singular(reading.thing) or ends.tail
        if not out:
            placed = is_place(agent) and reading.thing and reading.participle in _IN_PLACES
            return _done_at(reading.participle, agent) if placed else _doer(reading.participle, agent)
        placed = is_place(agent) and bool(reading.thing) and reading.participle in _IN_PLACES
        return _things(reading.participle, thing, placed)
    return _doer(reading.participle, ends.tail) if out else _things(reading.participle, ends.head, False)


class _Forms(NamedTuple):
    """The forms of a verb: in the past, or in the present for what goes on, such as owning."""

    did: str  # "directed", "owns"
    all_did: str  # the plural: "directed", "own"
    do: str  # the base: "direct", "own"
    does: str  # the helping verb: "did", "does"
    be: str  # "was", "is"


def _forms(participle: str) -> _Forms:
    """
    >>> _forms("executive produced").did, _forms("written").be, _forms("owned")
    ('executive produced', 'was', _Forms(did='owns', all_did='own', do='own', does='does', be='is'))
    """
    *before, last = participle.split(" ")

    def phrased(form: str) -> str:
        return " ".join([*before, form])

    do = phrased(base(last))
    if last in GOES_ON:
        return _Forms(phrased(third(base(last))), do, do, "does", "is")
    return _Forms(phrased(past(last)), phrased(past(last)), do, "did", "was")


def _doer(participle: str, kind: str) -> NameTemplates:
    """Asks who did it to `{}`: "who" also for an unknown kind, if only people do such things."""
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
    return NameTemplates(questions, nouns, [], kind)


def _low(text: str) -> str:
    return text[:1].lower() + text[1:]


def _done_at(participle: str, kind: str) -> NameTemplates:
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
    return NameTemplates(questions, nouns, [], kind)


def _things(participle: str, kind: str, placed: bool) -> NameTemplates:
    """Asks what was done by `{}`; with `placed`, what is done in it: the languages spoken in a country."""
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
    return NameTemplates(questions, nouns, [], kind)


def by_templates(reading: Reading, out: bool, ends: Ends) -> NameTemplates:
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
        return NameTemplates(questions, nouns, [], agent)
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
    return NameTemplates(questions, nouns, [], ends.head)
