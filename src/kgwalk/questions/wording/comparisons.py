"""How two things are compared, groups are added up or listed in rows, and paths are asked for, in the full language.

    "Which is larger, X or Y?", "average price of our e-bikes", "people in finance with email and phone"

What lies behind a node is asked for as if the node were not there; what a relation leads to again and again is asked
for "directly or not". Called by `speaker`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kgwalk.questions.plan import AGAINST, AGGREGATE, ARITHMETIC, BEHIND, REPEATED, TABLE, WHICH
from kgwalk.questions.wording.choices import count_way, counted, group_words, ranked_words
from kgwalk.questions.wording.english import is_person, is_plural, plural, third
from kgwalk.questions.wording.measures import comparative, of_one, value_noun, words_for
from kgwalk.questions.wording.phrases import as_many, fill, fits, parts
from kgwalk.questions.wording.values import VERBS
from kgwalk.walk.facts import DirectedRelation

if TYPE_CHECKING:
    from kgwalk.questions.wording.speaker import Speaker, Weighted


# Two things


class Compared(NamedTuple):
    """Wordings of more or less: "larger", "has a larger population", "were founded earlier"."""

    adjective: str  # "larger"
    value: str  # "larger population", "more inhabitants"
    did: str  # "was founded earlier", "has more inhabitants"


def compared_words(speaker: Speaker, text: str, more: bool) -> Compared | None:
    way = count_way(speaker, text)
    if way is not None:
        count = counted(speaker, way)
        amount = "more" if more else "fewer"
        if count is None:
            return None
        value = f"{amount} {count.things}" if count.verb == "have" else ""
        return Compared("", value, f"{count.does} {amount} {count.things}")
    found = value_noun(speaker, text)
    if found is None:
        return None
    noun, timed = found
    words = words_for(speaker, text, noun)
    adjectives = [one for one in map(comparative, words.most if more else words.least) if one]
    adjective = speaker.chance.choice(adjectives) if adjectives else ""
    if timed:
        late = "later" if more else "earlier"
        did = f"{of_one(words.did)} {late}" if words.did else ""
        return Compared(adjective, f"{late} {noun}", did)
    word = speaker.chance.choice(("higher", "larger", "greater") if more else ("lower", "smaller"))
    did = f"has {'more' if more else 'fewer'} {words.counted}" if words.counted else ""
    did = f"{third(words.verb)} {'more' if more else 'less'}" if words.verb else did
    return Compared(adjective, f"{word} {noun}", did)


def which_question(speaker: Speaker) -> str | None:
    call = speaker.plan.steps[-1]
    text, names = str(call.args[1]), [speaker.phrase(at) for at in range(1, len(speaker.plan.topics) + 1)]
    texts = [phrase.text for phrase in names if phrase is not None]
    relation = next(iter(speaker.plan.ways()))
    person = is_person(speaker.templates(DirectedRelation(relation.relation, not relation.out)).kind)
    which = "Who" if person else "Which"
    if len(texts) > 2:
        ranked = ranked_words(speaker, text, call.tool == "argmax")
        if ranked is None:
            return None
        three = f"{', '.join(texts[:-1])} and {texts[-1]}"
        options: Weighted = [(1, f"Which of {three} has the {ranked.value}?")] * bool(ranked.value)
        options += [(1, f"Which of {three} {ranked.did}?")] * bool(ranked.did)
        options += [(1, f"Which of {three} is the {ranked.adjective}?")] * bool(ranked.adjective)
        return speaker.choose(options)
    words = compared_words(speaker, text, call.tool == "argmax")
    if words is None:
        return None
    two = f"{texts[0]} or {texts[1]}"
    options = []
    if words.adjective:
        is_ = ("is", "is")
        options += [
            (3, f"{which} {is_[0]} {words.adjective}, {two}?"),
            (1, f"{which} one is {words.adjective}: {two}?") if not person else (1, f"Is {two} {words.adjective}?"),
            (speaker.level, f"{two}, which is {words.adjective}"),
        ]
    if words.did:
        options += [(3, f"{which} {words.did}, {two}?"), (1, f"{which} {words.did}: {two}?")]
    if words.value:
        a = "" if words.value.startswith(("more ", "fewer ")) else "the "
        options += [
            (2, f"{which} has {a}{words.value}, {two}?"),
            (1, f"Does {two} have {a}{words.value}?"),
            (0.7, f"Which of {texts[0]} and {texts[1]} has {a}{words.value}?"),
            (speaker.level, f"{two}: which has {a}{words.value}"),
        ]
    return speaker.choose(options)


def against_question(speaker: Speaker) -> str | None:
    call = speaker.plan.steps[-1]
    group = group_words(speaker, speaker.sources(call)[0])
    words = compared_words(speaker, str(call.args[1]), call.args[2] == ">")
    other = speaker.phrase(len(speaker.plan.topics))
    if group is None or words is None or other is None:
        return None
    which = f"Which {group.many}" if group.many else f"Which of {group.the}"
    a = "" if words.value.startswith(("more ", "fewer ")) else "an " if words.value[0] in "aeiou" else "a "
    options: Weighted = [(2, f"{which} have {a}{words.value} than {other.text}?")]
    options += [(2, f"{which} are {words.adjective} than {other.text}?")] * bool(words.adjective)
    options += [(2, f"{which} {_plural_verb(words.did)} than {other.text}?")] * bool(words.did)
    if group.many and speaker.level:
        options += [(1, f"{group.many} with {a}{words.value} than {other.text}")]
        options += [(1, f"{group.many} {words.adjective} than {other.text}")] * bool(words.adjective)
    return speaker.choose(options)


def _plural_verb(did: str) -> str:
    first, _, rest = did.partition(" ")
    return f"{({'has': 'have', 'was': 'were', 'is': 'are', 'starts': 'start'} | VERBS).get(first, first)} {rest}"


def arithmetic_question(speaker: Speaker) -> str | None:
    call = speaker.plan.steps[-1]
    text = str(speaker.plan.steps[0].args[1])
    found, one, two = value_noun(speaker, text), speaker.phrase(1), speaker.phrase(2)
    words = compared_words(speaker, text, True)
    if found is None or one is None or two is None or words is None:
        return None
    (noun, timed), x, y = found, one.text, two.text
    if call.tool == "divide":
        return speaker.choose(
            [
                (2, f"How many times as large is the {noun} of {x} as that of {y}?"),
                (1, f"What is the {noun} of {x} divided by that of {y}?"),
                (1, f"By what factor is the {noun} of {x} larger than that of {y}?"),
                (speaker.level, f"ratio of the {noun} of {x} to that of {y}"),
            ]
        )
    if timed:
        return speaker.choose(
            [
                (2, f"How much time lies between the {noun} of {y} and that of {x}?"),
                (1, f"How much later is the {noun} of {x} than that of {y}?"),
                (speaker.level, f"time between the {noun} of {y} and the {noun} of {x}"),
            ]
        )
    counted_things = words_for(speaker, text, noun).counted
    options: Weighted = [
        (2, f"How much {words.value.split(' ')[0]} is the {noun} of {x} than that of {y}?"),
        (1, f"What is the difference between the {noun} of {x} and the {noun} of {y}?"),
        (1, f"By how much does the {noun} of {x} exceed that of {y}?"),
        (speaker.level, f"difference in {noun} between {x} and {y}"),
    ]
    options += [(3, f"How many more {counted_things} does {x} have than {y}?")] * bool(counted_things)
    return speaker.choose(options)


# Sums and rows


def aggregate_question(speaker: Speaker) -> str | None:
    call = speaker.plan.steps[-1]
    found, group = value_noun(speaker, str(call.args[1])), group_words(speaker, speaker.sources(call)[0])
    if found is None or group is None:
        return None
    (noun, timed), things = found, words_for(speaker, str(call.args[1]), found[0]).counted
    of = group.many if group.many and speaker.chance.random() < 0.5 and speaker.level else group.the
    how = {
        "sum": ("total", "total", "combined", "summed"),
        "average": ("average", "average", "mean"),
        "greatest": ("latest", "most recent") if timed else ("highest", "largest", "maximum"),
        "least": ("earliest",) if timed else ("lowest", "smallest", "minimum"),
    }[call.tool]
    word = speaker.chance.choice(how)
    among = "among" if call.tool in ("least", "greatest") else "of"
    options: Weighted = [
        (3, f"What is the {word} {noun} {among} {group.the}?"),
        (1.5 * speaker.level, f"{word} {noun} {among if among == 'of' else 'of'} {of}"),
    ]
    if call.tool == "sum":
        options += [(2, f"How many {things} do {group.the} have in total?")] * bool(things)
        options += [
            (1, f"What do the {plural(noun)} of {group.the} add up to?"),
            (speaker.level, f"sum of {plural(noun)} of {of}"),
        ]
    elif call.tool == "average":
        options += [(1, f"What is the {noun} of {group.the} on average?")]
        options += [(1, f"How many {things} do {group.the} have on average?")] * bool(things)
    else:
        options += [(1, f"Of {group.the}, what is the {word} {noun}?")]
    return speaker.choose(options)


def column_noun(speaker: Speaker, text: str) -> str | None:
    """What a column of a table is called."""
    hop = speaker.plan.expressions[text].path[0][0]
    templates = speaker.templates(DirectedRelation(hop.relation, hop.out))
    values = list(speaker.lexicon.value_words(hop.relation))
    nouns = values or list(templates.at(speaker.level).bare)
    return None if not nouns else nouns[0] if speaker.level == 0 else speaker.chance.choice(nouns[:3])


def table_question(speaker: Speaker) -> str | None:
    call = speaker.plan.steps[-1]
    group = group_words(speaker, speaker.sources(call)[0])
    columns = [column_noun(speaker, str(arg)) for arg in call.args[1:]]
    nouns = [noun for noun in columns if noun is not None]
    if group is None or len(nouns) < len(columns) or len(set(nouns)) < len(nouns):
        return None
    listed = f"{', '.join(nouns[:-1])} and {nouns[-1]}"
    options: Weighted = [
        (3, f"List {group.the} with their {listed}."),
        (1, f"Give me the {listed} of each of {group.the}."),
        (1, f"For {group.the}, show {listed}."),
        (1, f"What are the {' and '.join([', '.join(map(plural, nouns[:-1])), plural(nouns[-1])])} of {group.the}?"),
    ]
    if group.many and speaker.level:
        options += [(3, f"{group.many} with {listed}"), (1.5, f"list all {group.many} with {listed}")]
    return speaker.choose(options)


# Paths


def behind_question(speaker: Speaker) -> str | None:
    """The amount behind a node is asked for as the value itself; the unit by its own name."""
    expression = speaker.plan.expressions[str(speaker.plan.steps[-1].args[1])]
    first, last = expression.path[0][0], expression.path[0][-1]
    way, inner = DirectedRelation(first.relation, True), speaker.phrase(1)
    found = value_noun(speaker, str(speaker.plan.steps[-1].args[1]))
    if inner is None or found is None:
        return None
    noun = found[0]
    if re.search(r"unit|currency", last.relation, re.IGNORECASE):
        unit = "currency" if re.search(r"currency", last.relation, re.IGNORECASE) else "unit"
        return speaker.choose(
            [
                (2, f"In what {unit} is the {noun} of {inner.text} given?"),
                (1, f"What is the {unit} of the {noun} of {inner.text}?"),
                (speaker.level, f"{unit} of {inner.text}'s {noun}"),
            ]
        )
    questions = [text for text in speaker.templates(way).at(speaker.level).questions if fits(text, inner)]
    options: Weighted = [(1.0, fill(text, inner)) for text in questions]
    options += [(1, f"What is the {noun} of {inner.text}?"), (speaker.level, f"{noun} of {inner.text}")]
    return speaker.choose(options)


_INDIRECTLY = (
    "directly or indirectly",
    "directly or not",
    "in the end",
    "all the way",
    "at any level",
    "directly and indirectly",
)


def repeated_question(speaker: Speaker) -> str | None:
    """All that a relation leads to again and again."""
    call = speaker.plan.steps[0]
    hop = speaker.plan.expressions[str(call.args[1])].path[0][0]
    way, inner = DirectedRelation(hop.relation, call.tool == "tail_entities"), speaker.phrase(1)
    if inner is None:
        return None
    how = speaker.chance.choice(_INDIRECTLY)
    noun = speaker.noun(way, inner)
    many = None if noun is None else as_many(noun)
    bare = [plural(one) for one in speaker.templates(way).at(speaker.level).bare if is_plural(plural(one))]
    count = speaker.plan.steps[-1].tool == "count"
    options: Weighted = []
    if many is not None and many.many:
        found = parts(many.text)
        if count:
            clear = found is not None and found.head not in ("those", "ones", "all")
            described = f"{found.head} {found.rest}" if found is not None and clear else ""
            options += [(2, f"How many {described} are there, {how}?")] * bool(described)
            options += [(1, f"Count {many.text}, {how}.")]
        else:
            options += [(2, f"What are all of {many.text}, {how}?"), (1, f"List {many.text}, {how}.")]
            if bare:
                options.append((1.5, f"List {many.text}, their {speaker.chance.choice(bare)}, and so on."))
    if not count:
        for question in speaker.templates(way).at(speaker.level).questions:
            if fits(question, inner) and not question.lower().startswith(("who", "tell", "name")):
                options.append((1.0, f"{fill(question, inner).rstrip('?. ')}, {how}?"))
    return speaker.choose(options)


QUESTIONS: dict[str, Callable[[Speaker], str | None]] = {
    WHICH: which_question,
    AGAINST: against_question,
    ARITHMETIC: arithmetic_question,
    AGGREGATE: aggregate_question,
    TABLE: table_question,
    BEHIND: behind_question,
    REPEATED: repeated_question,
}
