"""How a chain of hops is worded in other ways than one phrase nested in the next.

    "X's wife's religion", "X wife religion", "Take X's wife. What is her religion?", "In which country does X play?"

Also how times are worded: "Who governed X in 2009?", "the first governor of X". In graphs like Freebase a term of
office is a nameless node with a start and an end, or a date. The hop that leaves the node says what it is about, and
the time follows. In the full language facts have dates of their own: "since when does X play for Y". Called by
`speaker`, which words one hop at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kgwalk.demos.route import CHOICES
from kgwalk.questions.plan import DATED, HOPS, QuestionPlan, way_of
from kgwalk.questions.wording.english import VAGUE, a, is_person, is_place, is_plural, plural, several, singular
from kgwalk.questions.wording.lexicon import Templates
from kgwalk.questions.wording.phrases import HEADLESS, PLURAL_ASKED, Phrase, fill, fits, is_many
from kgwalk.questions.wording.verdicts import statements
from kgwalk.types import Call
from kgwalk.walk.facts import DirectedRelation

if TYPE_CHECKING:
    from kgwalk.questions.wording.speaker import Speaker, Weighted


_ON = ("continent", "island", "planet")  # "on" these, "in" other places


class SpokenChain(NamedTuple):
    """A topic's number, the directed relations from it (without hops that add no words), and the last set's number."""

    topic: int
    ways: tuple[DirectedRelation, ...]
    last: int


def chain_of(speaker: Speaker, call: Call) -> SpokenChain | None:
    """The chain that ends with a step; None unless the step and all before it are plain hops in a row."""
    ways: list[DirectedRelation] = []
    number = last = speaker.plan.starts + speaker.plan.steps.index(call) + 1
    while (step := speaker.plan.made_by(number)) is not None:
        if step.tool not in HOPS or step.tool == "between":
            return None
        way = way_of(step)
        if not speaker.templates(way).silent:
            ways.append(way)
        number = speaker.sources(step)[0]
    return SpokenChain(number, tuple(ways[::-1]), last)


MOST_STEPS = 3  # hops of a path that are worded as one


def through_of(speaker: Speaker, call: Call) -> tuple[Templates, Phrase] | None:
    """Templates that word the last hops as one, and what they start from: "Which courses does X take?".

    Not at level 0, which speaks of each relation by its name.
    """
    chain = chain_of(speaker, call) if speaker.level else None
    if chain is None:
        return None
    for count in range(min(len(chain.ways), MOST_STEPS), 1, -1):
        templates = speaker.lexicon.through(chain.ways[-count:])
        inner = None if templates is None else _before(speaker, chain.last, count)
        if templates is not None and inner is not None:
            return templates, inner
    return None


def bare_of(speaker: Speaker, chain: SpokenChain) -> list[tuple[str, ...]]:
    """The nouns for each hop; an empty list if any hop has none."""
    nouns = [speaker.templates(way).at(speaker.level).bare for way in chain.ways]
    return nouns if all(nouns) else []


def possessive(speaker: Speaker, chain: SpokenChain, nouns: Sequence[Sequence[str]]) -> str | None:
    """ "X's wife's religion"; with the last hops written as "of": "the religion of X's wife"."""
    name = speaker.phrase(chain.topic)
    assert name is not None
    chosen = [speaker.chance.choice(some) for some in nouns]
    turned = speaker.chance.randint(0, len(chosen)) if speaker.level else 0
    kept = len(chosen) - turned
    text = name.text
    for at, noun in enumerate(chosen[:kept]):
        before = chosen[at - 1] if at else ""
        text += f"' {noun}" if before.endswith("s") and is_many(f"the {before}") else f"'s {noun}"
    article = "the " if not speaker.level or speaker.chance.random() < 0.6 else ""
    for at, noun in enumerate(chosen[kept:], 1):
        text = f"{'the ' if at == turned else article}{noun} of {text}"
    kind = speaker.templates(chain.ways[-1]).kind
    return speaker.frame(Phrase(text, is_many(f"the {chosen[-1]}"), kind))


def keywords(speaker: Speaker, chain: SpokenChain, nouns: Sequence[Sequence[str]]) -> str | None:
    """As typed into a search box: "X wife religion"."""
    name = speaker.phrase(chain.topic)
    assert name is not None
    chosen = [speaker.chance.choice(some) for some in nouns]
    return speaker.choose(
        [
            (2, " ".join([name.text, *chosen])),
            (1, " ".join([*chosen[::-1], name.text])),
            (1, " of ".join([*chosen[::-1], name.text])),
            (0.7, f"{name.text}, {' '.join(chosen)}?"),
            (0.5, f"{name.text}: {', '.join(chosen)}?"),
        ]
    )


def stepwise(speaker: Speaker, questions: Sequence[str], inner: Phrase) -> str | None:
    """The first hops as a statement, the last as a question: "Take the films by X. Who wrote those films?"."""
    if inner.kind in VAGUE:
        those = "those" if inner.many else "that one"
    else:
        those = f"those {several(inner.kind)}" if inner.many else f"that {inner.kind}"
    pointer = Phrase(those, inner.many, inner.kind)
    template = speaker.choose([(1.0, text) for text in questions if fits(text, pointer)])
    if template is None or inner.text.split(" ")[0].lower() in HEADLESS:
        return None
    question = fill(template, pointer)
    opening = speaker.choose(
        [
            (2, f"Take {inner.text}."),
            (1, f"Consider {inner.text}."),
            (1, f"I am thinking of {inner.text}."),
            (1, f"Start from {inner.text}."),
            (1, f"There {'are' if inner.many else 'is'} {inner.text}."),
        ]
    )
    return f"{opening} {question[:1].upper() + question[1:] if question[:1].isalpha() else question}"


def implied(speaker: Speaker, chain: SpokenChain) -> str | None:
    """Without naming the middle: "In which country does X play?" asks for the country of X's team."""
    if len(chain.ways) < 2:
        return None
    middle, last = (speaker.templates(way) for way in chain.ways[-2:])
    inner = _before(speaker, chain.last, 2)
    if inner is None or not middle.where or not last.where or not is_place(last.kind):
        return None
    templates: list[tuple[float, str]] = []
    for clause in middle.where:
        if last.kind != "place":
            to = "on" if last.kind in _ON else "in"
            templates += [
                (1, f"{to.capitalize()} which {last.kind} {clause}?"),
                (1, f"What {last.kind} {clause} {to}?"),
            ]
            templates.append((0.7, f"which {last.kind} {clause} {to}"))
        if is_place(middle.kind):
            continue  # where X was born is the city, and not its country
        templates.append((0.3, f"Where {clause}?"))
    template = speaker.choose([(weight, text) for weight, text in templates if fits(text, inner)])
    return None if template is None else fill(template, inner)


def _before(speaker: Speaker, number: int, hops: int) -> Phrase | None:
    """The phrase of the set that lies this many hops before a set; hops that add no words are not counted."""
    while hops:
        call = speaker.plan.made_by(number)
        assert call is not None
        hops -= not speaker.templates(way_of(call)).silent
        number = speaker.sources(call)[0]
    return speaker.phrase(number)


# Times


FIRST, LAST = ("first", "earliest"), ("last", "latest", "most recent")
_ADVERBS = {"earliest": "first", "latest": "last", "most recent": "most recently"}
# The words before a year, by what the date is and how it is compared.
_SINCE = {
    ("date", "<"): ("before",),
    ("date", ">"): ("after",),
    ("date", "<="): ("in or before", "up to"),
    ("date", ">="): ("in or after", "since"),
    ("start", "<"): ("starting before", "beginning before"),
    ("start", ">"): ("starting after", "beginning after"),
    ("start", "<="): ("starting in or before", "beginning no later than"),
    ("start", ">="): ("starting in or after", "beginning no earlier than"),
    ("end", "<"): ("until some time before", "ending before"),
    ("end", ">"): ("until some time after", "ending after"),
    ("end", "<="): ("ending in or before", "until no later than"),
    ("end", ">="): ("ending in or after", "until no earlier than"),
}


def window(speaker: Speaker, start: str, end: str) -> str:
    """ "in 2012", "between 2012-01 and 2012-05", "since 2012"."""
    if start and end:
        if start == end:
            mark = speaker.mark(start)
            day = start.count("-") == 2 and not start.startswith("-")
            return (
                speaker.choose([(3, f"on {mark}")]) or ""
                if day
                else f"{speaker.choose([(4, 'in'), (1, 'during')])} {mark}"
            )
        one, two = speaker.mark(start), speaker.mark(end)
        return speaker.choose([(1, f"between {one} and {two}"), (1, f"from {one} to {two}")]) or ""
    mark = speaker.mark(start or end)
    return f"since {mark}" if start else f"until {mark}"


def chosen_from(speaker: Speaker, number: int) -> tuple[int, list[Call]] | None:
    """For a set of nameless nodes chosen by their times: the set they were reached from, and the choosing steps."""
    choices: list[Call] = []
    while (call := speaker.plan.made_by(number)) is not None and call.tool in CHOICES:
        choices.append(call)
        number = speaker.sources(call)[0]
    if not choices or call is None or call.tool not in HOPS:
        return None
    if not speaker.templates(way_of(call)).silent:
        return None
    return speaker.sources(call)[0], choices[::-1]


def term(speaker: Speaker, choices: list[Call]) -> str | None:
    """The words for a time: "in 2009", "before 1990", "first"; None where there are none."""
    ats = [next(iter(speaker.lexicon.value_words(str(call.args[1]))), "") for call in choices]
    if [call.tool for call in choices] == ["filter", "filter"]:
        return _during(speaker, choices, ats)
    if len(choices) > 1:
        return None
    (call,), (at,) = choices, ats
    if call.tool == "filter":
        words = _SINCE.get((at, str(call.args[2])))
        return None if words is None else f"{speaker.chance.choice(words)} {speaker.mark(str(call.args[3]))}"
    if at == "end":
        return None  # who ended first may have begun last
    return speaker.chance.choice(FIRST if call.tool == "argmin" else LAST)


def _during(speaker: Speaker, choices: list[Call], ats: list[str]) -> str | None:
    """Two bounds as one time: what ended in 2009 or later and began before 2010 was so "in" 2009."""
    (_, first, low_by, low), (_, second, high_by, high) = (call.args for call in choices)
    if (low_by, high_by) != (">=", "<") or not str(low).isdigit() or not str(high).isdigit():
        return None
    year, last = int(low), int(high) - 1
    if year == last and ats in (["end", "start"], ["date", "date"]):
        return f"{speaker.choose([(4, 'in'), (1, 'during')])} {speaker.mark(str(year))}"
    if first == second and ats == ["date", "date"]:
        return f"between {speaker.mark(str(year))} and {speaker.mark(str(last))}"
    return None


def with_term(question: str, when: str, *, front: bool) -> str:
    """The question with a time at its end or, with `front`, before it; "first" and "last" always go to the end.

    >>> with_term("Who governed X?", "in 2009", front=True), with_term("Who governed X?", "most recent", front=True)
    ('In 2009, who governed X?', 'Who governed X most recently?')
    """
    if when in FIRST + LAST:
        when, front = _ADVERBS.get(when, when), False
    if front:
        return f"{when[:1].upper()}{when[1:]}, {question[:1].lower()}{question[1:]}"
    stop = question[-1:] if question[-1:] in "?." else ""
    return f"{question.removesuffix(stop).rstrip()} {when}{stop}"


def phrase_with_term(phrase: Phrase, when: str) -> Phrase | None:
    """ "the governor of X in 2009", "the first governor of X"."""
    text = f"{phrase.text} {when}"
    if when in FIRST + LAST:
        if not phrase.text.startswith("the "):
            return None
        text = f"the {when} {phrase.text.removeprefix('the ')}"
    return Phrase(text, phrase.many, phrase.kind, hops=phrase.hops)


# When something was so


_PAST_ASKED = re.compile(
    r"(?:(?:in |at )?(?:which|what|who|whom|where).* (?:did|was|were) |who [a-z]+ed )", re.IGNORECASE
)


_NOW = ("now", "today", "at the moment", "currently", "these days", "at present", "right now", "nowadays")


def dated_question(speaker: Speaker) -> str | None:
    call = speaker.plan.steps[-1]
    if len(speaker.plan.steps) > 1 and call.tool in ("argmin", "argmax"):
        return _earlier(speaker, call)
    if (call.tool in HOPS and call.tool != "between") or call.tool in (
        "count",
        "minus",
    ):  # the start is left out of its own relatives
        return _now(speaker)
    way, known = _dated_way(speaker.plan, call), speaker.phrase(1)
    if known is None:
        return None
    if call.tool in ("when", "least", "greatest"):
        other = speaker.phrase(2)
        assert other is not None
        begun = {"least": _since, "greatest": _until, "when": _when}[call.tool]
        found = statements(speaker, way, known, other)
        return speaker.choose([(weight * share, text) for weight, one in found for share, text in begun(one)])
    questions = [text for text in speaker.templates(way).at(speaker.level).questions if fits(text, known)]
    options: Weighted = []
    if call.tool in ("earliest", "latest"):
        word = "first" if call.tool == "earliest" else speaker.chance.choice(("last", "most recently"))
        options = [(1, f"{fill(text, known).rstrip('?. ')} {word}?") for text in questions if _PAST_ASKED.match(text)]
        word = "first" if call.tool == "earliest" else speaker.chance.choice(("last", "latest", "most recent"))
        for noun in speaker.templates(way).at(speaker.level).bare[:3]:
            one = singular(noun)
            options += [
                (1, f"What was the {word} {one} of {known.text}?"),
                (speaker.level, f"{known.text}'s {word} {one}"),
                (0.7, f"Which {one} did {known.text} have {'first' if word == 'first' else 'last'}?"),
                (0.7 * speaker.level, f"what {one} did {known.text} {'first' if word == 'first' else 'last'} have"),
                (0.5, f"Which was the {'original' if word == 'first' else word} {one} of {known.text}?"),
                (0.5 * speaker.level, f"{word} {one} {known.text} had"),
            ]
        return speaker.choose(options)
    word = "in" if call.tool == "between" else call.tool
    when = f"{word} {speaker.mark(str(call.args[2]))}"
    past = 4 if call.tool == "between" else 1  # who was it in 2012, rather than who is
    options = [
        (past if _PAST_ASKED.match(text) else 1, with_term(fill(text, known), when, front=False)) for text in questions
    ]
    for noun in speaker.templates(way).at(speaker.level).bare[:2] if call.tool == "between" else ():
        options += [(2, f"What was the {singular(noun)} of {known.text} {when}?")] * (not is_plural(noun))
        options += [(speaker.level, f"{known.text}'s {noun} {when}"), (speaker.level, f"{noun} of {known.text} {when}")]
    return speaker.choose([(weight, text) for weight, text in options if text])


def _now(speaker: Speaker) -> str | None:
    """By the facts that hold now: "who is the mayor of X today", "how many countries use X now", "which languages are
    spoken in the countries that use X now".
    """
    steps = [step for step in speaker.plan.steps if step.tool in HOPS]
    known, when = speaker.phrase(1), speaker.chance.choice(_NOW)
    if known is None:
        return None
    inner = known
    for step in steps[:-1]:
        way, now = _way_at(speaker.plan, step)
        noun = speaker.noun(way, inner)
        if noun is None or (now and not noun.text.rstrip().endswith(inner.text)):
            return None
        inner = Phrase(f"{noun.text} {when}", noun.many, noun.kind, hops=1) if now else noun
    way, now = _way_at(speaker.plan, steps[-1])
    questions = [fill(text, inner) for text in speaker.templates(way).at(speaker.level).questions if fits(text, inner)]
    if speaker.plan.steps[-1].tool == "count":
        asked = [PLURAL_ASKED.match(text) for text in questions]
        questions = [f"How many {it[1]} {it[2]}" for it in asked if it and is_plural(it[1]) and it[1] != "ones"]
        for one in speaker.templates(way).at(speaker.level).bare[:2]:
            questions += [
                f"How many {plural(one)} does {inner.text} have?",
                f"number of {plural(one)} of {inner.text}",
            ]
    if not questions:
        return None
    text = speaker.chance.choice(questions)
    return with_term(text, when, front=False) if now else text


def _way_at(plan: QuestionPlan, step: Call) -> tuple[DirectedRelation, bool]:
    """The relation of a hop, and whether only the facts count that hold now."""
    expression = plan.expressions.get(str(step.args[1]))
    if expression is None:
        return way_of(step), False
    hop = expression.path[0][0]
    return DirectedRelation(hop.relation, hop.out == (step.tool == "tail_entities")), bool(hop.at)


def _earlier(speaker: Speaker, call: Call) -> str | None:
    """Which of two it was first, or last, that something was so of: "who had X earlier, Y or Z"."""
    way = _dated_way(speaker.plan, call)
    known, *two = (speaker.phrase(at) for at in (1, 2, 3))
    nouns = [singular(noun) for noun in speaker.templates(DirectedRelation(way.relation, not way.out)).at(1).bare]
    if known is None or any(one is None for one in two):
        return None
    y, z = (one.text for one in two if one is not None)
    first = call.tool == "argmin"
    word, late = ("first", "earlier") if first else ("last", "later")
    person = is_person(speaker.templates(DirectedRelation(way.relation, not way.out)).kind)
    who = "Who" if person else "Which"
    options: Weighted = []
    for noun in nouns[:3]:
        options += [
            (2, f"{who} was {a(noun)} of {known.text} {late}, {y} or {z}?"),
            (1, f"{who} came {word} as {noun} of {known.text}: {y} or {z}?"),
            (speaker.level, f"{y} or {z}, which was {known.text}'s {noun} {late}"),
            (1, f"Of {y} and {z}, {who.lower()} was the {late} {noun} of {known.text}?"),
            (1, f"{who} became {noun} of {known.text} {word}, {y} or {z}?"),
        ]
    for noun in [singular(one) for one in speaker.templates(way).at(1).bare][:2]:
        options += [
            (2, f"{who} had {known.text} as {noun} {late}, {y} or {z}?"),
            (1, f"{who} got {known.text} as {noun} {word}: {y} or {z}?"),
            (speaker.level, f"{y} or {z}, who had {known.text} as {noun} {word}"),
        ]
    return speaker.choose(options)


def _dated_way(plan: QuestionPlan, call: Call) -> DirectedRelation:
    hop = plan.expressions[str(call.args[1])].path[0][0]
    return DirectedRelation(hop.relation, hop.out)


_BEGUN: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("Does ", ("When did ",), ("Since when does ", "Since when did ")),
    ("Did ", ("When did ",), ("Since when did ", "From when on did ")),
    ("Is it true that", (), ()),
    ("Is ", ("When was ",), ("Since when is ", "Since when has it been that ")),
    ("Was ", ("When was ",), ("Since when was ",)),
    ("Has ", (), ("Since when has ",)),
)


def _when(statement: str) -> list[tuple[float, str]]:
    """
    >>> _when("Does X play for Y?"), _when("Is Y the capital of X?")
    ([(1.0, 'When did X play for Y?')], [(1.0, 'When was Y the capital of X?')])
    """
    for start, then, _ in _BEGUN:
        if statement.startswith(start):
            return [(1.0, f"{one}{statement[len(start) :]}") for one in then]
    return []


def _since(statement: str) -> list[tuple[float, str]]:
    """
    >>> _since("Does X play for Y?")[0], _since("Is Y the capital of X?")[1]
    ((1.0, 'Since when does X play for Y?'), (0.5, 'how long has Y been the capital of X, since when?'))
    """
    for start, _, since in _BEGUN:
        if statement.startswith(start) and since:
            rest = statement[len(start) :]
            made = [(1.0, f"{since[0]}{rest}")]
            if start == "Is " and len(words := rest.rstrip("?").split(" ", 1)) > 1 and words[0] != "the":
                made.append((0.5, f"how long has {words[0]} been {words[1]}, since when?"))
                made.append((1.0, f"Since when has {words[0]} been {words[1]}?"))
            elif start == "Does " and len(words := rest.split(" have ", 1)) > 1:
                made += [
                    (2.0, f"Since when has {words[0]} had {words[1]}"),
                    (1.0, f"since when {words[0]} had {words[1]}"),
                ]
            elif start in ("Does ", "Did "):
                made.append((0.7, f"{since[1]}{rest}"))
            return made
    return []


def _until(statement: str) -> list[tuple[float, str]]:
    """
    >>> _until("Does X play for Y?")[0], _until("Is Y the capital of X?")[0]
    ((1.0, 'Until when did X play for Y?'), (1.0, 'Until when was Y the capital of X?'))
    """
    for asked in _when(statement):
        rest = asked[1].removeprefix("When ")
        return [
            (1.0, f"Until when {rest}"),
            (1.0, f"till when {rest}"),
            (0.7 * rest.startswith("did"), f"How long {rest.rstrip('?')}, till when?"),
        ]
    return []


QUESTIONS: dict[str, Callable[[Speaker], str | None]] = {DATED: dated_question}
