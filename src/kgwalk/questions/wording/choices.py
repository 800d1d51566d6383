"""How groups are worded that a question orders, adds up, counts for each or lists: the patterns of the full language.

    "top 5 countries by population", "Which department has the most employees?", "Which is larger, X or Y?"

A pattern is worded as a whole. Its group is all of a kind ("countries") or what a relation leads to ("films directed by
X"); what its members are compared by is a value or a count. Yes or no, and what is not so, are worded in `verdicts`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kgwalk.questions.plan import (
    AGAINST,
    AGGREGATE,
    ARITHMETIC,
    BEHIND,
    GROUP,
    KIND,
    REPEATED,
    TABLE,
    TOP,
    WHICH,
    way_of,
)
from kgwalk.questions.wording import measures
from kgwalk.questions.wording.english import (
    VAGUE,
    VALUES,
    base,
    is_participle,
    is_person,
    is_plural,
    past_of,
    plural,
    singular,
    third,
    word_set,
)
from kgwalk.questions.wording.measures import extreme_of, in_words, says_one, value_noun
from kgwalk.questions.wording.phrases import Phrase, as_many, fill, fits, parts
from kgwalk.questions.wording.values import value_words
from kgwalk.types import Call
from kgwalk.walk.facts import DirectedRelation
from kgwalk.walk.kinds import OF_TYPE, TAILS, Kind

if TYPE_CHECKING:
    from kgwalk.questions.wording.speaker import Speaker, Weighted


# Groups


# Kinds that nobody asks for all of
_NO_KIND = word_set(
    "name label id code email mail phone fax address url link website homepage description comment status note text "
    "abbreviation symbol unit type kind category domain offset amount value title contact image picture date year "
    "number key prefix alias version identifier iso alpha2 alpha3 thing class quantity node item entity resource "
    "property statement literal gender sex sense meaning example definition motto"
)
_LETTERS = re.compile(r"[^\W\d_]+(?:[ -][^\W\d_]+){0,2}")


class GroupWords(NamedTuple):
    """A group in the forms that sentences take; the last two are empty where it has no such form."""

    the: str  # "the countries", "X's children"
    many: str  # "countries", "films directed by X"
    one: str  # "country", "film directed by X"
    kind: str

    @property
    def who(self) -> str:
        return "Who" if is_person(self.kind) else "Which one"


def kind_phrase(speaker: Speaker, kind: Kind) -> Phrase | None:
    """All of a kind: "the countries"; None where its name is no noun that people ask for."""
    noun = kind_noun(speaker, kind)
    return None if noun is None else Phrase(f"the {plural(noun)}", True, noun)


def kind_noun(speaker: Speaker, kind: Kind) -> str | None:
    name = kind.name.rsplit("/", 1)[-1].rsplit("#", 1)[-1].rsplit(":", 1)[-1]
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).replace("_", " ").strip()
    noun = singular(words if words.isupper() and len(words) < 5 else words.lower())
    last = noun.split(" ")[-1]
    if not _LETTERS.fullmatch(noun) or last in _NO_KIND or is_participle(last) or last in VALUES:
        return None
    if kind.how == OF_TYPE:
        return noun
    templates = speaker.templates(DirectedRelation(kind.relation, kind.how == TAILS))
    nouns = {singular(one) for one in templates.bare + templates.plain_bare}
    return noun if noun in nouns and templates.kind not in VALUES else None


def group_words(speaker: Speaker, number: int) -> GroupWords | None:
    """The words for a set that is chosen from."""
    phrase = speaker.phrase(number)
    if phrase is None or phrase.simple:
        return None
    many = as_many(phrase)
    if not many.many:
        return None
    found = parts(many.text)
    if found is None or found.head in ("ones", "those", "all", "others"):
        return GroupWords(many.text, "", "", many.kind)
    several = f"{found.head} {found.rest}".rstrip()
    single = not found.rest or says_one(found)
    one = f"{singular(found.head)} {found.rest}".rstrip() if single and is_plural(found.head.split(" ")[-1]) else ""
    return GroupWords(f"the {several}", several, one, many.kind)


# What is counted for each


class CountWords(NamedTuple):
    """ "has ... films", "directed ... films": what the number of what a relation leads to is called."""

    things: str  # "films"
    does: str  # "has", "directed"
    do: str  # "have", "directed"
    verb: str  # after a helping verb: "have", "direct"
    helps: str  # "does", "did"
    to: str = ""  # "in": "starred in the most films"


_DID = re.compile(r"(?:which|what) ([a-z]+(?: [a-z]+)?) (did|does|do) \{\} ([a-z]+)( (?:in|on|for|at))?\??", re.IGNORECASE)
_HAS = ("has", "have", "have", "does")


def counted(speaker: Speaker, way: DirectedRelation) -> CountWords | None:
    """Words for the number of what a relation leads to; None where there are no clear ones."""
    templates = speaker.templates(way)
    if templates.silent or templates.kind in VALUES:
        return None
    options: list[CountWords] = []
    questions, _, bare = templates.at(speaker.level)
    options += [CountWords(plural(noun), *_HAS) for noun in bare[:4] if plural(noun) != noun or is_plural(noun)]
    if templates.kind not in VAGUE and speaker.lexicon.alone(way):
        options.append(CountWords(plural(templates.kind), *_HAS))
    for question in questions:
        asked = _DID.fullmatch(question)
        if asked is None or not is_plural(asked[1].split(" ")[-1]) or asked[3] in ("have", "do") or asked[1] == "ones":
            continue
        verb, to = asked[3], asked[4] or ""
        if asked[2].lower() == "did":
            options.append(CountWords(asked[1], past_of(verb) + to, past_of(verb) + to, verb + to, "did"))
        else:
            options.append(CountWords(asked[1], third(verb) + to, verb + to, verb + to, "does"))
    return speaker.chance.choice(options) if options else None


def _count_way(speaker: Speaker, text: str) -> DirectedRelation | None:
    """The relation that an expression counts; None where it counts nothing."""
    expression = speaker.plan.expressions.get(text)
    if expression is None or expression.how != "count":
        return None
    hop = expression.path[0][0]
    return DirectedRelation(hop.relation, hop.out)


# The largest, the first few, the n-th


_ORDINALS = ("", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_NUMERALS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


class Ranked(NamedTuple):
    """Wordings of an order: "most populous", "the largest population", "population", "has the most inhabitants"."""

    adjective: str
    value: str  # "largest population", "most employees"
    by: str  # "population", "number of employees"
    did: str  # "has the most employees"


def _ranked(speaker: Speaker, text: str, most: bool) -> Ranked | None:
    way = _count_way(speaker, text)
    if way is not None:
        count = counted(speaker, way)
        if count is None:
            return None
        number = "most" if most else "fewest"
        value = f"{number} {count.things}" if count.verb == "have" else ""
        return Ranked("", value, f"number of {count.things}", f"{count.does} the {number} {count.things}")
    extreme = extreme_of(speaker, text, most)
    found = value_noun(speaker, text)
    if extreme is None or found is None:
        return None
    value = extreme.most.removeprefix("the ")
    return Ranked(extreme.adjective, value, value.split(" ", 1)[1] if " recent " not in value else found[0], extreme.did)


def _superlatives(speaker: Speaker, group: GroupWords, call: Call) -> Weighted:
    ranked = _ranked(speaker, str(call.args[1]), call.tool == "argmax")
    if ranked is None:
        return []
    adjective, value, _, did = ranked
    options: Weighted = []
    if group.one:
        options += [(3, f"Which {group.one} has the {value}?"), (1, f"What {group.one} has the {value}?")] * bool(value)
        options += [(1.5, f"{group.one} with the {value}")] * bool(value and speaker.level)
        if did:
            options += [(3, f"Which {group.one} {did}?"), (0.7, f"Tell me which {group.one} {did}.")]
        if adjective:
            options += [(2, f"What is the {adjective} {group.one}?"), (1.5, f"Which {group.one} is the {adjective}?")]
            options += [(1.5 * speaker.level, f"{adjective} {group.one}"), (1, f"Name the {adjective} {group.one}.")]
    else:
        options += [(1, f"Which of {group.the} has the {value}?")] * bool(value)
        options += [(1, f"Which of {group.the} {did}?")] * bool(did)
        options += [(1, f"Which of {group.the} is the {adjective}?")] * bool(adjective)
    return options


def top_question(speaker: Speaker) -> str | None:
    last = speaker.plan.steps[-1]
    call = last if last.tool != "nth" else speaker.plan.steps[-2]
    group = group_words(speaker, speaker.sources(call)[0])
    ranked = _ranked(speaker, str(call.args[1]), call.tool == "top")
    if group is None or ranked is None or not group.many:
        return None
    adjective, value, by, did = ranked
    k = int(str(call.args[2]))
    if last.tool == "nth":
        return _nth(speaker, group, ranked, k)
    number = str(k) if speaker.chance.random() < 0.6 else _NUMERALS[k]
    options: Weighted = []
    if value:
        values = value if value.startswith(("most ", "fewest ")) else plural(value)
        options += [
            (2, f"Which {number} {group.many} have the {values}?"),
            (1, f"List the {number} {group.many} with the {values}."),
            (speaker.level, f"the {number} {group.many} with the {value}"),
        ]
    if call.tool == "top" and by:
        options += [(2.5 * (1 + speaker.level), f"top {number} {group.many} by {by}"), (1, f"What are the top {number} {group.many} by {by}?")]
    elif by:
        options += [(1.5 * speaker.level, f"bottom {number} {group.many} by {by}")]
    if adjective:
        options += [
            (2, f"What are the {number} {adjective} {group.many}?"),
            (1.5 * speaker.level, f"{number} {adjective} {group.many}"),
            (1, f"Name the {number} {adjective} {group.many}."),
        ]
        options += [(1.5 * speaker.level, f"top {number} {adjective} {group.many}")] * (call.tool == "top")
    return speaker.choose(options)


def _nth(speaker: Speaker, group: GroupWords, ranked: Ranked, k: int) -> str | None:
    adjective, value, by, _ = ranked
    nth = _ORDINALS[k] if speaker.chance.random() < 0.75 else f"{k}{ {2: 'nd', 3: 'rd'}.get(k, 'th') }"
    options: Weighted = []
    if group.one:
        if value and not value.startswith(("most recent", "earliest", "latest")):
            options += [(2, f"Which {group.one} has the {nth} {value}?")]
            options += [(1.5 * speaker.level, f"{group.one} with the {nth} {value}")]
        if adjective:
            options += [(2, f"What is the {nth} {adjective} {group.one}?"), (2 * speaker.level, f"{nth} {adjective} {group.one}")]
            options += [(1, f"Which is the {nth} {adjective} {group.one}?")]
        if not options and value:
            options.append((1, f"Which {group.one} has the {nth} {value}?"))
    elif value:
        options.append((1, f"Which of {group.the} has the {nth} {value}?"))
    return speaker.choose(options)


# Over a kind, and counts for each


def kind_question(speaker: Speaker) -> str | None:
    call = speaker.plan.steps[-1]
    source = speaker.sources(call)[0]
    if call.tool == "count":
        made = speaker.plan.made_by(source)
        if made is None:
            group = group_words(speaker, source)
            return None if group is None else _how_many_are(speaker, group)
        if made.tool == "filter":
            return _filtered(speaker, made, count=True)
        return measures.count_question(speaker, call)
    if call.tool in ("argmax", "argmin"):
        group = group_words(speaker, source)
        return None if group is None else speaker.choose(_superlatives(speaker, group, call))
    if call.tool == "filter":
        return _filtered(speaker, call)
    if call.tool == "intersect":
        return _of_kind(speaker, call)
    return _onward(speaker, call)


def _how_many_are(speaker: Speaker, group: GroupWords) -> str | None:
    return speaker.choose(
        [
            (2, f"How many {group.many} are there?"),
            (1, f"What is the number of {group.many}?"),
            (speaker.level, f"number of {group.many}"),
            (speaker.level, f"how many {group.many} do we have"),
        ]
    )


def _of_kind(speaker: Speaker, call: Call) -> str | None:
    """Of what a relation leads to, those of a kind."""
    kind, other = speaker.sources(call)
    group, phrase = group_words(speaker, kind), speaker.phrase(other)
    if group is None or phrase is None or not group.many:
        return None
    many = as_many(phrase)
    if singular(group.many) in many.text:
        return None
    return speaker.choose(
        [(2, f"Which of {many.text} are {group.many}?"), (1, f"Which {group.many} are among {many.text}?"),
         (1, f"List {many.text} that are {group.many}.")]
    )  # fmt: skip


def extreme_phrase(speaker: Speaker, call: Call) -> Phrase | None:
    """The largest of a kind: "the most populous country"."""
    group = group_words(speaker, speaker.sources(call)[0])
    ranked = _ranked(speaker, str(call.args[1]), call.tool == "argmax")
    if group is None or ranked is None or not group.one:
        return None
    texts = [f"the {ranked.adjective} {group.one}"] * bool(ranked.adjective)
    texts += [f"the {group.one} with the {ranked.value}"] * bool(ranked.value)
    return Phrase(speaker.chance.choice(texts), False, group.kind, hops=1) if texts else None


def _onward(speaker: Speaker, call: Call) -> str | None:
    """A hop from all of a kind, or from the largest of a kind."""
    made = speaker.plan.made_by(speaker.sources(call)[0])
    inner = extreme_phrase(speaker, made) if made is not None else speaker.phrase(speaker.sources(call)[0])
    if inner is None:
        return None
    questions = [text for text in speaker.templates(way_of(call)).at(speaker.level).questions if fits(text, inner)]
    noun = speaker.noun(way_of(call), inner)
    options: Weighted = [(1.0, fill(text, inner)) for text in questions]
    if noun is not None:
        options.append((2.0, speaker.frame(as_many(noun) if inner.many else noun) or ""))
    return speaker.choose([(weight, text) for weight, text in options if text])


def _filtered(speaker: Speaker, call: Call, *, count: bool = False) -> str | None:
    """A kind's members with a value above some bound, or how many they are."""
    group = group_words(speaker, speaker.sources(call)[0])
    if group is None:
        return None
    way = _count_way(speaker, str(call.args[1]))
    if way is not None:
        return _counted_bound(speaker, call, group, way, count=count)
    found = measures.condition_of(speaker, call)
    if found is None or not group.many:
        return None
    if count:
        options: Weighted = [(2, f"How many {group.many} have {found.having}?")]
        options += [(2, f"How many {group.many} {found.did}?")] * bool(found.did)
        options += [(speaker.level, f"number of {group.many} with {found.having}")]
        return speaker.choose(options)
    options = [(2, f"Which {group.many} have {found.having}?"), (1, f"List all {group.many} with {found.having}.")]
    options += [(2 * speaker.level, f"{group.many} with {found.having}")]
    if found.did:
        options += [(3, f"Which {group.many} {found.did}?"), (2 * speaker.level, f"{group.many} {found.done}")]
    return speaker.choose(options)


_BOUNDS = {
    ">": ("more than", "more than", "over"),
    ">=": ("at least",),
    "<": ("fewer than", "less than"),
    "=": ("exactly",),
}


def _counted_bound(
    speaker: Speaker, call: Call, group: GroupWords, way: DirectedRelation, *, count: bool = False
) -> str | None:
    words = counted(speaker, way)
    comparison, bound = str(call.args[2]), str(call.args[3])
    if words is None:
        return None
    which = f"Which of {group.the}" if not group.many else f"Which {group.many}"
    things = words.things if bound != "1" else singular(words.things)
    number = _NUMERALS[int(bound)] if int(bound) <= 10 and speaker.chance.random() < 0.5 else bound
    than = f"{speaker.chance.choice(_BOUNDS[comparison])} {number} {things}"
    if count:
        if not group.many:
            return None
        return speaker.choose([(1, f"How many {group.many} {words.do} {than}?")])
    options: Weighted = [(2, f"{which} {words.do} {than}?")]
    if group.many:
        options += [(1.5 * speaker.level, f"{group.many} with {than}")] * (words.verb == "have")
        options += [(1, f"List the {group.many} that {words.do} {than}.")]
    return speaker.choose(options)


def by_count_question(speaker: Speaker) -> str | None:
    call = speaker.plan.steps[-1]
    if call.tool == "count":
        made = speaker.plan.made_by(speaker.sources(call)[0])
        return None if made is None else _filtered(speaker, made, count=True)
    if call.tool == "filter":
        return _filtered(speaker, call)
    group = group_words(speaker, speaker.sources(call)[0])
    if group is None:
        return None
    expression = speaker.plan.expressions[str(call.args[1])]
    if expression.among is None:
        return speaker.choose(_superlatives(speaker, group, call))
    inside = group_words(speaker, expression.among)
    hop = expression.path[0][0]
    words = counted(speaker, DirectedRelation(hop.relation, hop.out))
    if inside is None or words is None:
        return None
    which = f"Which {group.one}" if group.one else f"Which of {group.the}"
    return speaker.choose(
        [(2, f"{which} {words.does} the most of {inside.the}?")] * (words.verb != "have")
        + [(1, f"{which} has the most {words.things} among {inside.the}?")]
    )


# Two things


class Compared(NamedTuple):
    """Wordings of more or less: "larger", "has a larger population", "were founded earlier"."""

    adjective: str  # "larger"
    value: str  # "larger population", "more inhabitants"
    did: str  # "was founded earlier", "has more inhabitants"


def compared_words(speaker: Speaker, text: str, more: bool) -> Compared | None:
    way = _count_way(speaker, text)
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
    words = value_words(noun)
    adjectives = [one for one in map(comparative, words.most if more else words.least) if one]
    adjective = speaker.chance.choice(adjectives) if adjectives else ""
    if timed:
        late = "later" if more else "earlier"
        did = f"{words.did.replace('were ', 'was ')} {late}" if words.did else ""
        return Compared(adjective, f"{late} {noun}", did)
    word = speaker.chance.choice(("higher", "larger", "greater") if more else ("lower", "smaller"))
    did = f"has {'more' if more else 'fewer'} {words.counted}" if words.counted else ""
    return Compared(adjective, f"{word} {noun}", did)


def comparative(adjective: str) -> str:
    """
    >>> [comparative(word) for word in ("largest", "most populous", "oldest", "northernmost", "first", "least populous")]
    ['larger', 'more populous', 'older', '', '', 'less populous']
    """
    if adjective.startswith(("most ", "least ")):
        return adjective.replace("most ", "more ").replace("least ", "less ")
    return adjective[:-3] + "er" if adjective.endswith("est") and adjective not in ("latest", "eldest") else ""


def which_question(speaker: Speaker) -> str | None:
    call = speaker.plan.steps[-1]
    text, names = str(call.args[1]), [speaker.phrase(at) for at in range(1, len(speaker.plan.topics) + 1)]
    texts = [phrase.text for phrase in names if phrase is not None]
    relation = next(iter(speaker.plan.ways()))
    person = is_person(speaker.templates(DirectedRelation(relation.relation, not relation.out)).kind)
    which = "Who" if person else "Which"
    if len(texts) > 2:
        ranked = _ranked(speaker, text, call.tool == "argmax")
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
    return re.sub(r"^has ", "have ", re.sub(r"^was ", "were ", did))


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
    counted_things = value_words(noun).counted
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
    (noun, timed), things = found, value_words(found[0]).counted
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
        options += [(1, f"What do the {plural(noun)} of {group.the} add up to?"), (speaker.level, f"sum of {plural(noun)} of {of}")]
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
    values = [word for word in speaker.lexicon.value_words(hop.relation)]
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


_INDIRECTLY = ("directly or indirectly", "directly or not", "in the end", "all the way", "at any level", "directly and indirectly")


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
            described = f"{found.head} {found.rest}" if found is not None else ""
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
    KIND: kind_question,
    TOP: top_question,
    GROUP: by_count_question,
    WHICH: which_question,
    AGAINST: against_question,
    ARITHMETIC: arithmetic_question,
    AGGREGATE: aggregate_question,
    TABLE: table_question,
    BEHIND: behind_question,
    REPEATED: repeated_question,
}
