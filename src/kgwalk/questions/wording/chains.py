"""How a chain of hops is worded in other ways than one phrase nested in the next.

    "X's wife's religion", "X wife religion", "Take X's wife. What is her religion?", "In which country does X play?"

Also how times are worded: "Who governed X in 2009?", "the first governor of X". In graphs like Freebase a term of
office is a nameless node with a start and an end, or a date. The hop that leaves the node says what it is about, and
the time follows. Called by `speaker`, which words one hop at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kgwalk.demos.route import CHOICES
from kgwalk.questions.plan import HOPS, way_of
from kgwalk.questions.wording.english import VAGUE, is_place, several
from kgwalk.questions.wording.lexicon import Templates
from kgwalk.questions.wording.phrases import HEADLESS, Phrase, fill, fits, is_many
from kgwalk.types import Call
from kgwalk.walk.facts import DirectedRelation

if TYPE_CHECKING:
    from kgwalk.questions.wording.speaker import Speaker


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
