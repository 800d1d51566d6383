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
    GROUP,
    KIND,
    TOP,
    way_of,
)
from kgwalk.questions.schema import TRUTHS
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
from kgwalk.questions.wording.measures import extreme_of, says_one, value_noun
from kgwalk.questions.wording.phrases import HELPERS, LINKS, Phrase, as_many, fill, fits, parts
from kgwalk.questions.wording.relation_names import read_name
from kgwalk.types import Call
from kgwalk.walk.facts import DirectedRelation
from kgwalk.walk.kinds import ALL, OF_TYPE, TAILS, Kind

if TYPE_CHECKING:
    from kgwalk.questions.wording.speaker import Speaker, Weighted


# Groups


# Kinds that nobody asks for all of
_NO_KIND = word_set(
    "name label id code email mail phone fax address url link website homepage description comment status note text "
    "abbreviation symbol unit type kind category domain offset amount value title contact image picture date year "
    "number key prefix alias version identifier iso alpha2 alpha3 thing class quantity node item entity resource "
    "property statement literal gender sex sense meaning example definition motto birthplace deathplace hometown "
    "subject setting match sister brother sibling niece nephew parent child son daughter spouse wife husband killer "
    "murderer victim successor predecessor partner neighbour cause effect indication origin location place"
)
_NO_TYPE = word_set("thing class quantity node item entity resource property statement literal value number date text")
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


def _noun_of_all(speaker: Speaker) -> str | None:
    """What those of all things are called that have what the question asks for."""
    text = next((str(step.args[1]) for step in speaker.plan.steps if len(step.args) > 1), "")
    expression = speaker.plan.expressions.get(text)
    if expression is None:
        return None
    hop = expression.path[0][0]
    kind = speaker.templates(DirectedRelation(hop.relation, not hop.out)).kind
    return None if kind in VAGUE or kind in VALUES or not kind else kind


def kind_noun(speaker: Speaker, kind: Kind) -> str | None:
    if kind.how == ALL:
        return _noun_of_all(speaker)
    name = kind.name.rsplit("/", 1)[-1].rsplit("#", 1)[-1].rsplit(":", 1)[-1]
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).replace("_", " ").strip()
    noun = singular(words if words.isupper() and len(words) < 5 else words.lower())
    last = noun.split(" ")[-1]
    if not _LETTERS.fullmatch(noun) or is_participle(last) or last in VALUES:
        return None
    if kind.how == OF_TYPE:
        return None if last in _NO_TYPE else noun
    if last in _NO_KIND or " of " in noun:
        return None
    templates = speaker.templates(DirectedRelation(kind.relation, kind.how == TAILS))
    nouns = {singular(one) for one in templates.bare + templates.plain_bare}
    return noun if noun in nouns and templates.kind not in VALUES else None


def group_words(speaker: Speaker, number: int) -> GroupWords | None:
    """The words for a set that is chosen from."""
    phrase = speaker.phrase(number)
    if phrase is None or phrase.simple:
        return None
    if speaker.plan.made_by(number) is None:  # all of a kind
        return GroupWords(phrase.text, phrase.text.removeprefix("the "), phrase.kind, phrase.kind)
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


_DID = re.compile(
    r"(?:which|what) ([a-z]+(?: [a-z]+)?) (did|does|do) \{\} ([a-z]+)( (?:in|on|for|at))?\??", re.IGNORECASE
)
_HAS = ("has", "have", "have", "does")


def counted(speaker: Speaker, way: DirectedRelation, *, passive: bool = False) -> CountWords | None:
    """Words for the number of what a relation leads to; None where there are no clear ones. With `passive` also those
    that say it of what is reached: "is needed by".
    """
    templates = speaker.templates(way)
    if templates.silent or templates.kind in VALUES:
        return None
    options: list[CountWords] = []
    questions, _, bare = templates.at(speaker.level)
    nouns = [noun for noun in bare[:4] if not re.search(r" (?:for|of|in|with|by|to|at)\b", noun)]
    options += [CountWords(plural(noun), *_HAS) for noun in nouns if plural(noun) != noun or is_plural(noun)]
    own = speaker.templates(DirectedRelation(way.relation, not way.out)).kind  # not "countries with most countries"
    if templates.kind not in VAGUE and templates.kind != own and speaker.lexicon.alone(way):
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
    options += _passive(questions, templates.kind) if passive else []
    return speaker.chance.choice(options) if options else None


_BY = re.compile(r"(?:which|what) ([a-z ]+?) ([a-z]+)( (?:in|on|for|at|to|from))? \{\}\??", re.IGNORECASE)
_NOT_DONE = word_set("belong come lie happen live go work wait run stand sit end")  # nothing "is belonged to"
_DONE_WITH = word_set("depend rely refer")  # with a preposition: "is relied on"


def _passive(questions: Sequence[str], kind: str) -> list[CountWords]:
    """What those are called to which others are related: "is depended on by ... packages".

    >>> _passive(["Which packages depend on {}?", "what lies on {}", "Which packages wrote {}"], "package")
    [CountWords(things='packages', does='is depended on by', do='are depended on by', verb='be depended on by', \
helps='is', to='')]
    """
    made = []
    for question in questions:
        asked = _BY.fullmatch(question)
        if asked is None or asked[1].lower() != plural(kind) or asked[2] in HELPERS | _NOT_DONE | LINKS:
            continue
        done = past_of(asked[2])
        if asked[3] and asked[2] not in _DONE_WITH:
            continue
        if done.endswith("ed") and not asked[2].endswith(("ed", "s")):  # not "is wrote by"
            rest = f"{done}{asked[3] or ''} by"
            made.append(CountWords(asked[1], f"is {rest}", f"are {rest}", f"be {rest}", "is"))
    return made


def count_way(speaker: Speaker, text: str) -> DirectedRelation | None:
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


def ranked_words(speaker: Speaker, text: str, most: bool) -> Ranked | None:
    way = count_way(speaker, text)
    if way is not None:
        count = counted(speaker, way, passive=True)
        if count is None:
            return None
        number = "most" if most else "fewest"
        if count.helps == "is":  # the most depended on package
            done = f"{'most' if most else 'least'} {count.verb.removeprefix('be ').removesuffix(' by')}"
            return Ranked(done, "", "", f"{count.does} the {number} {count.things}")
        value = f"{number} {count.things}" if count.verb == "have" else ""
        return Ranked("", value, f"number of {count.things}", f"{count.does} the {number} {count.things}")
    extreme = extreme_of(speaker, text, most)
    found = value_noun(speaker, text)
    if extreme is None or found is None:
        return None
    value = extreme.most.removeprefix("the ")
    by = "" if found[1] else value.split(" ", 1)[1]  # nobody says "top 3 by year of birth"
    return Ranked(extreme.adjective, value, by, extreme.did)


def _superlatives(speaker: Speaker, group: GroupWords, call: Call) -> Weighted:
    ranked = ranked_words(speaker, str(call.args[1]), call.tool == "argmax")
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
    ranked = ranked_words(speaker, str(call.args[1]), call.tool == "top")
    if group is None or ranked is None or not group.many:
        return None
    adjective, value, by, _ = ranked
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
        options += [
            (2.5 * (1 + speaker.level), f"top {number} {group.many} by {by}"),
            (1, f"What are the top {number} {group.many} by {by}?"),
        ]
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
    adjective, value, _, did = ranked
    nth = _ORDINALS[k] if speaker.chance.random() < 0.75 else f"{k}{ {2: 'nd', 3: 'rd'}.get(k, 'th') }"
    options: Weighted = []
    if group.one:
        if value and not value.startswith(("most recent", "earliest", "latest")):
            options += [(2, f"Which {group.one} has the {nth} {value}?")]
            options += [(1.5 * speaker.level, f"{group.one} with the {nth} {value}")]
        if adjective:
            options += [
                (2, f"What is the {nth} {adjective} {group.one}?"),
                (2 * speaker.level, f"{nth} {adjective} {group.one}"),
            ]
            options += [(1, f"Which is the {nth} {adjective} {group.one}?")]
        if did.endswith(" first"):
            said = did.removesuffix(" first")
            verb, _, rest = said.partition(" ")
            to = f"be {rest}" if verb in ("was", "is") else f"{base(verb)} {rest}".rstrip()
            options += [
                (3, f"What was the {nth} {group.one} to {to}?"),
                (2, f"Which {group.one} {said} {nth}?"),
                (1.5 * speaker.level, f"{nth} {group.one} to {to}"),
            ]
        if not options and value:
            options.append((1, f"Which {group.one} has the {nth} {value}?"))
    elif value:
        options.append((1, f"Which of {group.the} has the {nth} {value}?"))
    return speaker.choose(options)


# Over a kind, and counts for each


def kind_question(speaker: Speaker) -> str | None:
    if not speaker.plan.steps:
        return _all_of(speaker)
    call = speaker.plan.steps[-1]
    source = speaker.sources(call)[0]
    if call.tool == "count":
        made = speaker.plan.made_by(source)
        if made is None:
            group = group_words(speaker, source)
            return None if group is None else _how_many_are(speaker, group)
        if made.tool == "filter":
            return _being(speaker, made, count=True) if _of_truths(made) else _filtered(speaker, made, count=True)
        return measures.count_question(speaker, call)
    if call.tool in ("argmax", "argmin"):
        group = group_words(speaker, source)
        return None if group is None else speaker.choose(_superlatives(speaker, group, call))
    if call.tool == "top":
        return top_question(speaker)
    if call.tool == "filter":
        return _being(speaker, call, count=False) if _of_truths(call) else _filtered(speaker, call)
    if call.tool == "intersect":
        return _of_kind(speaker, call)
    return _onward(speaker, call)


def _being(speaker: Speaker, call: Call, *, count: bool) -> str | None:
    """Those of a kind that are so, where that is true or false: the words are those of the relation's own name."""
    group = group_words(speaker, speaker.sources(call)[0])
    words = " ".join(word for word in read_name(str(call.args[1])).words if word not in ("is", "has", "was"))
    if group is None or not words or not group.many:
        return None
    if str(call.args[3]).lower() in ("false", "no"):
        said = speaker.choose([(2, f"{group.many} that are not {words}"), (1, f"{group.many} which aren't {words}")])
        which = f"{group.many} are not {words}"
    else:
        said = speaker.choose([(3, f"{words} {group.many}"), (1, f"{group.many} that are {words}")])
        which = f"{group.many} are {words}"
    if count:
        return speaker.choose(
            [(2, f"How many {which}?"), (1, f"how many {said} are there"), (speaker.level, f"number of {said}")]
        )
    return speaker.choose(
        [(2, f"Which {which}?"), (1, f"List the {said}."), (speaker.level, f"{said}"), (1, f"What {which}?")]
    )


def _all_of(speaker: Speaker) -> str | None:
    group = group_words(speaker, speaker.plan.last)
    if group is None:
        return None
    return speaker.choose(
        [
            (2, f"Which {group.many} are there?"),
            (1, f"What {group.many} are there?"),
            (1, f"List all {group.many}."),
            (1, f"Name all the {group.many}."),
            (speaker.level, f"all {group.many}"),
            (speaker.level, f"what {group.many} do we have"),
            (speaker.level, f"show me every {group.one}") if group.one else (0, ""),
        ]
    )


def _of_truths(call: Call) -> bool:
    return call.args[2] == "=" and str(call.args[3]).lower() in TRUTHS


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
    ranked = ranked_words(speaker, str(call.args[1]), call.tool == "argmax")
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
    way = count_way(speaker, str(call.args[1]))
    found = measures.condition_of(speaker, call) if way is None else None  # two bounds are one condition
    group = group_words(speaker, speaker.sources(call)[0] if found is None else found.source)
    if group is None:
        return None
    if way is not None:
        return _counted_bound(speaker, call, group, way, count=count)
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
    words = counted(speaker, way, passive=True)
    comparison, bound = str(call.args[2]), str(call.args[3])
    if words is None:
        return None
    which = f"Which of {group.the}" if not group.many else f"Which {group.many}"
    things = words.things if bound != "1" else singular(words.things)
    number = _NUMERALS[int(bound)] if int(bound) <= 10 and speaker.chance.random() < 0.5 else bound
    than = f"{speaker.chance.choice(_BOUNDS[comparison])} {number} {things}"
    if (comparison, bound) == ("=", "1"):
        words_for_one = ("only one", "just one", "exactly one", "a single", "only 1", "no more and no less than one")
        than = f"{speaker.chance.choice(words_for_one)} {things}"
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
    return _most_inside(speaker, DirectedRelation(expression.path[0][0].relation, True), expression.among)


def _most_inside(speaker: Speaker, way: DirectedRelation, among: int) -> str | None:
    """ "Which maintainer has the most packages in libs?": what most of a group have in common."""
    inside, templates = group_words(speaker, among), speaker.templates(way)
    nouns = [one for one in templates.at(speaker.level).bare if not is_plural(one)]
    if inside is None or not (nouns or templates.kind not in VAGUE):
        return None
    noun = speaker.chance.choice(nouns) if nouns else templates.kind
    options: Weighted = [
        (1, f"Which {noun} comes up most often among {inside.the}?"),
        (1, f"Which {noun} do most of {inside.the} have?"),
        (speaker.level, f"most common {noun} of {inside.the}"),
        (1, f"What is the most frequent {noun} among {inside.the}?"),
    ]
    if inside.many:
        options += [
            (3, f"Which {noun} has the most {inside.many}?"),
            (2 * speaker.level, f"{noun} with the most {inside.many}"),
            (1, f"Who is the {noun} of the most {inside.many}?") if is_person(templates.kind) else (0, ""),
            (1, f"Which {noun} has the largest number of {inside.many}?"),
            (speaker.level, f"which {noun} got the most {inside.many}"),
        ]
    return speaker.choose(options)


QUESTIONS: dict[str, Callable[[Speaker], str | None]] = {
    KIND: kind_question,
    TOP: top_question,
    GROUP: by_count_question,
}
