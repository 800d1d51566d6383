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
from kgwalk.questions.wording.choices import GroupWords, count_way, counted, group_words, ranked_words
from kgwalk.questions.wording.english import a, base, is_person, is_plural, plural, singular, third
from kgwalk.questions.wording.measures import (
    amount,
    bound_phrase,
    comparative,
    in_words,
    of_one,
    value_noun,
    words_for,
)
from kgwalk.questions.wording.phrases import PLURAL_ASKED, Phrase, as_many, fill, fits, parts
from kgwalk.questions.wording.values import VERBS
from kgwalk.types import Call
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
        the = "" if words.value.startswith(("more ", "fewer ")) else "the "
        options += [
            (2, f"{which} has {the}{words.value}, {two}?"),
            (1, f"Does {two} have {the}{words.value}?"),
            (0.7, f"Which of {texts[0]} and {texts[1]} has {the}{words.value}?"),
            (speaker.level, f"{two}: which has {the}{words.value}"),
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
    an = "" if words.value.startswith(("more ", "fewer ")) else "an " if words.value[0] in "aeiou" else "a "
    options: Weighted = [(2, f"{which} have {an}{words.value} than {other.text}?")]
    options += [(2, f"{which} are {words.adjective} than {other.text}?")] * bool(words.adjective)
    options += [(2, f"{which} {_plural_verb(words.did)} than {other.text}?")] * bool(words.did)
    if group.many and speaker.level:
        options += [(1, f"{group.many} with {an}{words.value} than {other.text}")]
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


def comparison_question(speaker: Speaker, call: Call) -> str | None:
    """Whether a value is above another, or above a bound: "Is X larger than Y?", "Does X cost more than 50 euros?"."""
    text = str(speaker.plan.steps[0].args[1])
    more, known = call.args[1] == ">", speaker.phrase(1)
    words, found = compared_words(speaker, text, more), value_noun(speaker, text)
    if words is None or found is None or known is None:
        return None
    (noun, timed), x = found, known.text
    if len(speaker.plan.topics) > 1:
        other = speaker.phrase(2)
        assert other is not None
        y = other.text
        options: Weighted = [(2, f"Is {x} {words.adjective} than {y}?")] * bool(words.adjective)
        aan = "" if words.value.startswith(("more ", "fewer ")) else "an " if words.value[0] in "aeiou" else "a "
        options += [(1.5, f"Does {x} have {aan}{words.value} than {y}?")]
        options += [(1, f"Is the {noun} of {x} {words.value.split(' ')[0]} than that of {y}?")]
        if words.did.startswith("was "):
            options.append((2, f"Was {x} {words.did.removeprefix('was ')} than {y}?"))
        elif words.did.startswith("has "):
            options.append((2, f"Does {x} have {words.did.removeprefix('has ')} than {y}?"))
        elif words.did.split(" ")[0] in VERBS:
            verb, _, rest = words.did.partition(" ")
            options.append((3, f"Does {x} {VERBS[verb]} {rest} than {y}?"))
        return speaker.choose(options)
    bound = str(call.args[2])
    mark = speaker.mark(bound) if timed else amount(speaker, text, noun, bound)
    wording = words_for(speaker, text, noun)
    if timed:
        when = "after" if more else "before"
        did = wording.did
        options = [(1, f"Is the {noun} of {x} {when} {mark}?")]
        if did.startswith("were "):
            options.append((3, f"Was {x} {did.removeprefix('were ')} {when} {mark}?"))
        elif did.startswith("are "):
            options.append((3, f"Is {x} {did.removeprefix('are ')} {when} {mark}?"))
        elif did:
            options.append(
                (
                    3,
                    f"Did {x} {base(did.split(' ')[0])} {' '.join(did.split(' ')[1:])} {when} {mark}?".replace(
                        "  ", " "
                    ),
                )
            )
        return speaker.choose(options)
    than = speaker.chance.choice(
        ("above", "over", "more than", "higher than") if more else ("below", "under", "less than")
    )
    options = [(2, f"Is the {noun} of {x} {than} {mark}?"), (speaker.level, f"is {x}'s {noun} {than} {mark}")]
    if wording.counted:
        number = speaker.mark(in_words(bound, speaker.chance))
        options.append((2, f"Does {x} have {'more' if more else 'fewer'} than {number} {wording.counted}?"))
    beyond = bound_phrase(speaker, wording, ">" if more else "<", mark)
    if beyond.startswith("are "):
        options.append((2, f"Is {x} {beyond.removeprefix('are ')}?"))
    elif beyond:
        options.append((2, f"Does {x} {beyond}?"))
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
    verb = "" if timed else words_for(speaker, str(call.args[1]), noun).verb
    if call.tool == "sum":
        ending = speaker.chance.choice(("in total", "together", "all together", "in all", "altogether", "combined"))
        options += [(3, f"How many {things} do {group.the} have {ending}?")] * bool(things)
        options += [(2 * speaker.level, f"how many {things} are there in {group.the} {ending}")] * bool(things)
        options += [(3, f"How much do {group.the} {verb} {ending}?")] * bool(verb)
        options += [(2 * speaker.level, f"what do {group.the} {verb} {ending}")] * bool(verb)
        options += [
            (1, f"What do the {plural(noun)} of {group.the} add up to?"),
            (speaker.level, f"sum of {plural(noun)} of {of}"),
            (1, f"How much {noun} do {group.the} have {ending}?") if not things else (0, ""),
            (1, f"What is the {noun} of all {group.many} {ending}?") if group.many else (0, ""),
            (speaker.level, f"{noun} of {of} {ending}"),
            (1, f"Add up the {noun} of {group.the}."),
            (speaker.level, f"what does it come to if you sum the {noun} over {group.the}"),
            (speaker.level, f"overall {noun} of {of}"),
        ]
    elif call.tool == "average":
        ending = speaker.chance.choice(("on average", "on average", "on the average", "typically, on average"))
        options += [(1, f"What is the {noun} of {group.the} {ending}?")]
        options += [(1, f"How many {things} do {group.the} have {ending}?")] * bool(things)
        options += [(3, f"How much do {group.the} {verb} {ending}?")] * bool(verb)
        options += [(2 * speaker.level, f"what does {a(group.one)} {verb} {ending}")] * bool(verb and group.one)
        options += [
            (1, f"On average, what is the {noun} of {a(group.one)}?") if group.one else (0, ""),
            (speaker.level, f"avg {noun} of {of}"),
            (speaker.level, f"mean {noun} for {of}"),
            (1, f"Work out the average {noun} over {group.the}."),
        ]
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


def _names(speaker: Speaker) -> GroupWords | None:
    """The topics in a row: "X, Y and Z"."""
    names = [phrase.text for at in range(1, len(speaker.plan.topics) + 1) if (phrase := speaker.phrase(at)) is not None]
    text = f"{', '.join(names[:-1])} and {names[-1]}"
    return GroupWords(text, text, "", "")


def table_question(speaker: Speaker) -> str | None:
    call = speaker.plan.steps[-1]
    made = speaker.plan.made_by(speaker.sources(call)[0])
    group = _names(speaker) if made and made.tool == "union" else group_words(speaker, speaker.sources(call)[0])
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
    *("directly or indirectly", "directly or not", "all the way", "at any level", "directly and indirectly"),
    *("also indirectly", "all the way down", "however many steps it takes", "including indirect ones", "step by step"),
)
_TOGETHER = ("all together", "in total", "directly or indirectly", "counting indirect ones", "in all", "at any level")
_FINALLY = (
    "in the end",
    "ultimately",
    "at the very end",
    "finally",
    "when all is done",
    "as the last step",
    "eventually",
)


def repeated_question(speaker: Speaker) -> str | None:
    """All that a relation leads to again and again, how many that are, or only the last of them."""
    call = speaker.plan.steps[0]
    hop = speaker.plan.expressions[str(call.args[1])].path[0][0]
    way, inner = DirectedRelation(hop.relation, call.tool == "tail_entities"), speaker.phrase(1)
    if inner is None:
        return None
    noun = speaker.noun(way, inner)
    many = None if noun is None else as_many(noun)
    many = many if many is not None and many.many else None
    questions = [text for text in speaker.templates(way).at(speaker.level).questions if fits(text, inner)]
    questions = [fill(text, inner).rstrip("?. ") for text in questions if not text.lower().startswith(("tell", "name"))]
    bare = [plural(one) for one in speaker.templates(way).at(speaker.level).bare if is_plural(plural(one))]
    last = speaker.plan.steps[-1].tool
    if last == "filter":
        return speaker.choose(_last_ones(speaker, inner, questions, bare))
    return speaker.choose((_all_counted if last == "count" else _all_reached)(speaker, inner, many, questions, bare))


def _all_reached(
    speaker: Speaker, inner: Phrase, many: Phrase | None, questions: list[str], bare: list[str]
) -> Weighted:
    how = speaker.chance.choice(_INDIRECTLY)
    options: Weighted = [(1.0, f"{text}, {how}?") for text in questions if not text.lower().startswith("who")]
    options += [(0.7, f"{text} {how}?") for text in questions if text.lower().startswith("who")]
    if many is not None:
        options += [(2, f"What are all of {many.text}, {how}?"), (1, f"List {many.text}, {how}.")]
        options += [(speaker.level, f"{many.text}, {how}"), (1, f"Name {many.text}, and not only the direct ones.")]
        if bare:
            options.append((1.5, f"List {many.text}, their {speaker.chance.choice(bare)}, and so on."))
    for things in bare[:2]:
        options += [
            (1, f"What are all the direct and indirect {things} of {inner.text}?"),
            (speaker.level, f"all {things} of {inner.text} in the end, also indirectly"),
            (speaker.level, f"everything among {inner.text}'s {things}, {how}"),
            (0.7, f"Give me the {things} of {inner.text} and the {things} of those and so on."),
        ]
    return options


def _all_counted(
    speaker: Speaker, inner: Phrase, many: Phrase | None, questions: list[str], bare: list[str]
) -> Weighted:
    how = speaker.chance.choice(_TOGETHER)
    options: Weighted = []
    if many is not None:
        found = parts(many.text)
        clear = found is not None and found.head not in ("those", "ones", "all")
        described = f"{found.head} {found.rest}" if found is not None and clear else ""
        options += [(2, f"How many {described} are there, {how}?")] * bool(described)
        options += [(speaker.level, f"number of {described} {how}")] * bool(described)
        options += [(1, f"Count {many.text}, {how}.")]
    for text in questions:
        asked = PLURAL_ASKED.match(text)
        if asked and is_plural(asked[1]) and asked[1] != "ones":
            options += [(1.5, f"How many {asked[1]} {asked[2]} {how}?")]
    for things in bare[:2]:
        options += [
            (1, f"How many {things} does {inner.text} have {how}?"),
            (speaker.level, f"how many direct and indirect {things} does {inner.text} have"),
            (speaker.level, f"total number of {things} of {inner.text}, also the indirect ones"),
        ]
    return options


def _last_ones(speaker: Speaker, inner: Phrase, questions: list[str], bare: list[str]) -> Weighted:
    """Those from which it leads no further: "What does X decay to in the end?"."""
    how = speaker.chance.choice(_FINALLY)
    options: Weighted = [(1.0, f"{text} {how}?") for text in questions]
    for things in bare[:2]:
        one = singular(things)
        options += [
            (1, f"What is the last {one} of {inner.text} down the line?"),
            (1, f"Which {things} of {inner.text} are at the very end of the chain?"),
            (speaker.level, f"final {one} of {inner.text}"),
            (1, f"Which direct or indirect {things} of {inner.text} have no {things} themselves?"),
            (speaker.level, f"{things} of {inner.text} all the way to the end, only the last ones"),
            (1, f"Following {things} from {inner.text} to the end, where does it stop?"),
        ]
    return options


QUESTIONS: dict[str, Callable[[Speaker], str | None]] = {
    WHICH: which_question,
    AGAINST: against_question,
    ARITHMETIC: arithmetic_question,
    AGGREGATE: aggregate_question,
    TABLE: table_question,
    BEHIND: behind_question,
    REPEATED: repeated_question,
}
