"""How sets are said that are counted, chosen from by values, or dated: how many, the largest, above, in 2012.

Knows noun phrases and the words for values; the rest of the sentence is the speaker's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kgwalk.questions.english.fitting import fits
from kgwalk.questions.english.inflect import UNCOUNTED, a, is_plural, plural, singular
from kgwalk.questions.english.kinds import DATE, YEAR
from kgwalk.questions.english.phrases import Parts, Phrase, as_many, fill, parts
from kgwalk.questions.plan import HOPS
from kgwalk.tools.facts import Way
from kgwalk.types import Call

if TYPE_CHECKING:
    from kgwalk.questions.speaker import Speaker


# What one says for more and less of a value, by words of its name: adjectives for the most and for the least.
_ADJECTIVES: tuple[tuple[str, str, str], ...] = (
    (r"\bpopulation|inhabitants\b", "most populous", "least populous"),
    (r"\bheight|tall\b", "tallest", "shortest"),
    (r"\blength|long\b", "longest", "shortest"),
    (r"\bduration|runtime|running time\b", "longest", "shortest"),
    (r"\bage\b", "oldest", "youngest"),
    (r"\bweight|mass\b", "heaviest", "lightest"),
    (r"\bprice|cost|budget\b", "most expensive", "cheapest"),
    (r"\bdepth\b", "deepest", "shallowest"),
    (r"\belevation|altitude\b", "highest", "lowest"),
    (r"\barea|size\b", "largest", "smallest"),
    (r"\bspeed\b", "fastest", "slowest"),
    (r"\bbirth|born\b", "youngest", "oldest"),
    (r"\bfound|inception|established|opened|built|creat|construct\w*", "newest", "oldest"),
    (r"\brelease|publication|published|premiere\b", "newest", "oldest"),
)
_MORE = {
    ">": ("above", "over", "greater than", "of more than", "higher than"),
    "<": ("below", "under", "less than", "of less than", "lower than"),
    ">=": ("of at least", "not below"),
    "<=": ("of at most", "not above"),
    "!=": ("other than",),
}
_LATER = {
    ">": ("after", "later than"),
    "<": ("before", "earlier than"),
    ">=": ("in or after", "not before"),
    "<=": ("in or before", "not after"),
    "!=": ("not in",),
}

# Numbers that only tell things apart: nobody asks for the largest calling code.
_CODES = re.compile(r"\b(?:code|prefix|id|isbn|port|doi|phone|postal|zip|iso)\b")


def _value(speaker: Speaker, relation: str) -> tuple[str, bool] | None:
    """A noun for what a relation measures, and whether it is a time."""
    words = [word for word in speaker.lexicon.value_words(relation) if not _CODES.search(word)]
    if not words:
        return None
    kind = speaker.said(Way(relation, True)).kind
    return (words[0] if speaker.level == 0 else speaker.chance.choice(words)), kind in (DATE, YEAR)


# Counts


def count_phrase(speaker: Speaker, call: Call) -> Phrase | None:
    inner = speaker.phrase(speaker.sources(call)[0])
    return None if inner is None else Phrase(f"the number of {inner.text}", False, "number", hops=inner.hops)


def count_question(speaker: Speaker, call: Call) -> str | None:
    number = speaker.sources(call)[0]
    counted = speaker.phrase(number)
    made = speaker.plan.made_by(number)
    if counted is None:
        return None
    counted = as_many(counted)
    options: list[tuple[float, str]] = []
    found = parts(counted.text)
    if found is not None and found.rest and counted.many and found.head not in ("ones", "those", "all"):
        said = f"{found.head} {found.rest}"
        options += [(3, f"How many {said} are there?"), (0.7, f"Count the {said}.")]
        options += [(1, f"What is the number of {said}?"), (0.7, f"number of {said}?")]
    elif counted.many:
        options += [(1, f"How many are there of {counted.text}?"), (1, f"Count {counted.text}.")]
    if made is not None and made.tool in HOPS and made.tool != "between":
        options += _how_many(speaker, made)
    return speaker.choose(options)


def _how_many(speaker: Speaker, made: Call) -> list[tuple[float, str]]:
    """ "Which films did {} direct?" as "How many films did {} direct?"; "How many children does {} have?"."""
    inner = speaker.phrase(speaker.sources(made)[0])
    if inner is None:
        return []
    questions, _, bare = speaker.said(Way(str(made.args[1]), made.tool != "head_entities")).at(speaker.level)
    found: list[tuple[float, str]] = []
    for question in questions:
        # "what stands before {}" opens with a verb, so after "what" a helping verb must follow the noun
        opened = re.match(r"(?:which|what(?= \w+ (?:do|did|does|are|were|have|has|is|was)\b)) (\w+) ", question, re.I)
        if opened and is_plural(opened[1]) and opened[1] != "ones" and fits(question, inner):
            found.append((1.0, f"How many {fill(question, inner).split(' ', 1)[1]}"))
    for noun in bare:
        if noun.split(" ")[-1] not in UNCOUNTED:
            does = "do" if inner.many else "does"
            found.append((1.0, f"How many {plural(noun)} {does} {inner.text} have?"))
    return found


# The largest and the smallest


def _extremes(speaker: Speaker, call: Call) -> tuple[str, str] | None:
    """What is said for the most of a value: "the largest population", and an adjective where there is one."""
    found = _value(speaker, str(call.args[1]))
    if found is None:
        return None
    noun, timed = found
    most = call.tool == "argmax"
    if timed:
        word = speaker.chance.choice(("latest", "most recent") if most else ("earliest",))
    else:
        word = speaker.chance.choice(("highest", "largest", "greatest") if most else ("lowest", "smallest"))
    adjective = next((pair for pair in _ADJECTIVES if re.search(pair[0], noun)), None)
    return f"the {word} {noun}", "" if adjective is None else adjective[1 if most else 2]


def extreme_phrase(speaker: Speaker, call: Call) -> Phrase | None:
    inner, said = speaker.phrase(speaker.sources(call)[0]), _extremes(speaker, call)
    if inner is None or said is None:
        return None
    inner, (most, adjective) = as_many(inner), said
    options = [(1.0, f"the one of {inner.text} with {most}"), (1, f"whichever of {inner.text} has {most}")]
    if adjective and inner.many:
        options.append((1.5, f"the {adjective} of {inner.text}"))
    found = parts(inner.text)
    if found is not None and inner.many and inner.hops < 2 and _says_one(found):
        options.append((2, f"the {singular(found.head)} {found.rest} with {most}"))
    return Phrase(speaker.choose(options) or "", False, inner.kind, hops=inner.hops)


def _says_one(found: Parts) -> bool:
    """Whether a plural head can become one with the rest as it is: not "the players who play"."""
    opened = re.match(r"(?:who|that|which) (\w+)", found.rest)
    return (
        bool(found.rest) and found.head not in ("ones", "those", "all") and (not opened or opened[1] in ("the", "was"))
    )


def extreme_question(speaker: Speaker, call: Call) -> str | None:
    inner, said = speaker.phrase(speaker.sources(call)[0]), _extremes(speaker, call)
    if inner is None or said is None:
        return None
    inner, (most, adjective) = as_many(inner), said
    options = [
        (2.0, f"Which of {inner.text} has {most}?"),
        (1, f"Among {inner.text}, which has {most}?"),
        (0.8, f"Of {inner.text}, which one has {most}?"),
        (0.7, f"Name the one of {inner.text} with {most}."),
        (0.5, f"Out of {inner.text}, tell me the one that has {most}."),
    ]
    found = parts(inner.text)
    if found is not None and inner.many and _says_one(found):
        options.append((1.5, f"Which {singular(found.head)} {found.rest} has {most}?"))
        if adjective:
            options.append((1.5, f"What is the {adjective} {singular(found.head)} {found.rest}?"))
    if adjective:
        options += [
            (1.5, f"Which of {inner.text} is the {adjective}?"),
            (1, f"What is the {adjective} of {inner.text}?"),
        ]
    return speaker.choose(options)


# Comparisons


def _condition(speaker: Speaker, call: Call) -> tuple[int, str, str] | None:
    """The set that is filtered, what its members have, and the same as a clause.

    "a population above 5", "whose population is above 5". Two bounds of one value are said as one.
    """
    relation, comparison, value = (str(argument) for argument in call.args[1:])
    found = _value(speaker, relation)
    if found is None:
        return None
    noun, timed = found
    source = speaker.sources(call)[0]
    before = speaker.plan.made_by(source)
    if before is not None and before.tool == "filter" and before.args[1] == relation:
        pair = _between(speaker, (str(before.args[2]), str(before.args[3])), (comparison, value))
        if pair is not None:
            return speaker.sources(before)[0], f"{a(noun)} {pair}", f"whose {noun} is {pair}"
    mark = speaker.mark(value)
    if comparison == "=":
        return source, f"{a(noun)} of {mark}", f"whose {noun} is {mark}"
    word = speaker.chance.choice((_LATER if timed else _MORE)[comparison])
    return source, f"{a(noun)} {word} {mark}", f"whose {noun} is {word.removeprefix('of ')} {mark}"


def _between(speaker: Speaker, one: tuple[str, str], two: tuple[str, str]) -> str | None:
    """`>= 1999` and `< 2000` are the year 1999."""
    low, high = sorted((one, two), key=lambda bound: bound[0], reverse=True)
    if (low[0], high[0]) != (">=", "<") or not low[1].isdigit() or not high[1].isdigit():
        return None
    first, last = int(low[1]), int(high[1]) - 1
    if first == last:
        return f"in {speaker.mark(str(first))}"
    start, end = speaker.mark(str(first)), speaker.mark(str(last))
    return speaker.choose([(1, f"between {start} and {end}"), (1, f"from {start} to {end}")])


def compared_phrase(speaker: Speaker, call: Call) -> Phrase | None:
    found = _condition(speaker, call)
    inner = None if found is None else speaker.phrase(found[0])
    if found is None or inner is None:
        return None
    inner, (_, having, clause) = as_many(inner), found
    members = f"those of {inner.text}" if inner.hops > 1 and inner.many else inner.text  # of these it is said
    text = speaker.choose([(1, f"{members} with {having}"), (1.2, f"{members} {clause}")])
    return Phrase(text or "", inner.many, inner.kind, hops=inner.hops)


def compared_question(speaker: Speaker, call: Call) -> str | None:
    found = _condition(speaker, call)
    inner = None if found is None else speaker.phrase(found[0])
    if found is None or inner is None:
        return None
    inner, (_, having, clause) = as_many(inner), found
    have = "have" if inner.many else "has"
    options = [
        (3.0, f"Which of {inner.text} {have} {having}?"),
        (1, f"Of {inner.text}, which {have} {having}?"),
        (0.7, f"Which of {inner.text} {'are those' if inner.many else 'is the one'} {clause}?"),
    ]
    if inner.hops < 2:  # else it would be said of the last noun
        options += [
            (1, speaker.frame(Phrase(f"{inner.text} with {having}", inner.many, inner.kind)) or ""),
            (1, speaker.frame(Phrase(f"{inner.text} {clause}", inner.many, inner.kind)) or ""),
        ]
    head = parts(inner.text)
    if head is not None and head.rest and inner.many and head.head not in ("ones", "those"):
        options.append((2, f"Which {head.head} {head.rest} have {having}?"))
    return speaker.choose(options)


# Times


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


def with_time(question: str, when: str, *, front: bool) -> str:
    """The time at the end of a question, or before it.

    >>> with_time("Whom did X visit?", "in 2012", front=False), with_time("Whom did X visit?", "in 2012", front=True)
    ('Whom did X visit in 2012?', 'In 2012, whom did X visit?')
    """
    if front:
        lowered = question[:1].lower() + question[1:]
        return f"{when[:1].upper()}{when[1:]}, {lowered}"
    stop = question[-1:] if question[-1:] in "?." else ""
    return f"{question.removesuffix(stop).rstrip()} {when}{stop}"
