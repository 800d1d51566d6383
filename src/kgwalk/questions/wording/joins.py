"""How two sets are worded together: what is in both, and what is in either.

    "Which films starring B did A direct?", "the directors of both A and B", "Who is the writer or the director of A?"

An intersection is preferably one clause without "and" or "both". There a topic may stand before the noun like an
adjective ("A films with B"), if only one relation joins their kinds. A union always has a word that marks it: or,
either, as well as, together. "A and B" is never written for a union, as it could mean what both have.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kgwalk.questions.bank import row_kinds
from kgwalk.questions.plan import HOPS, way_of
from kgwalk.questions.wording.english import (
    VAGUE,
    VALUES,
    a,
    is_participle,
    is_person,
    is_plural,
    plural,
    several,
    singular,
    word_set,
)
from kgwalk.questions.wording.phrases import BEFORE_NOUN, Phrase, as_many, fill, fits, parts
from kgwalk.types import Call
from kgwalk.walk.facts import DirectedRelation

if TYPE_CHECKING:
    from kgwalk.questions.wording.speaker import Speaker, Weighted


# Two conditions in one clause


LONGEST = 4  # words of a name that stands before a noun
# Kinds whose names may stand before a noun like an adjective; names of people only before what people make.
_BEFORE = word_set("country city region continent language company brand team university band religion league") | {
    *("genre", "literary genre", "music genre", "game genre", "colour", "occupation", "position", "sport", "material"),
    *(
        "political party",
        "cuisine",
        "art movement",
        "architectural style",
        "tv channel",
        "newspaper",
        "museum",
        "award",
    ),
    *("ethnic group", "military branch", "programming language", "operating system", "platform", "energy source"),
}
_MADE = word_set("film book song album painting game poem play opera sculpture photograph") | {
    "tv series",
    "fashion house",
}
_WHICH = re.compile(r"(which|what) ([a-z]+) (.*)", re.IGNORECASE)
_RELATIVES = word_set("that who whose which where")
_LINKS = BEFORE_NOUN | {"under", "near", "starring", "featuring", "against"}


def hop_of(speaker: Speaker, number: int) -> tuple[DirectedRelation, int] | None:
    """The directed relation and the source set of a hop; None if the set was not made by a hop without dates."""
    call = speaker.plan.made_by(number)
    if call is None or call.tool not in HOPS or call.tool == "between":
        return None
    return way_of(call), speaker.sources(call)[0]


def says_kind(head: str, kind: str) -> bool:
    """Whether a phrase's head word says no more than the kind.

    >>> says_kind("films", "film"), says_kind("movies", "film"), says_kind("screenplays", "film")
    (True, True, False)
    """
    one = singular(head)
    return one in (kind, "one", "those", "person", "thing", "place") or (one, kind) in (
        ("movie", "film"),
        ("picture", "film"),
    )


def one_clause(speaker: Speaker, call: Call) -> str | None:
    """A question for an intersection in one clause; None where the two sides have no words that go together."""
    sides = speaker.sources(call)
    if speaker.chance.random() < 0.5:
        sides = sides[::-1]
    for asked, added in (sides, sides[::-1]):
        options = _inserted(speaker, asked, added) + _before_noun(speaker, asked, added)
        if options:
            return speaker.choose(options)
    return None


def _inserted(speaker: Speaker, asked: int, added: int) -> Weighted:
    """ "Which films did A direct?" and "starring B" as "Which films starring B did A direct?"."""
    hop = hop_of(speaker, asked)
    inner = None if hop is None else speaker.phrase(hop[1])
    rests, clauses = _rests(speaker, added), _rests(speaker, added, clauses=True)
    if hop is None or inner is None or not rests + clauses:
        return []
    templates, options = speaker.templates(hop[0]), list[tuple[float, str]]()
    for question in templates.at(speaker.level).questions:
        if not fits(question, inner):
            continue
        text = fill(question, inner)
        found = _WHICH.match(text)
        if found and says_kind(found[2], templates.kind) and found[2] not in ("one", "ones"):
            texts = rests + (clauses if is_plural(found[2]) else [])
            options += [(1.0, f"{found[1]} {found[2]} {rest} {found[3]}") for rest in texts]
        elif text.lower().startswith("who ") and inner.simple and text.rstrip("?").endswith(inner.text):
            # "Who plays for A at position B?"; a participle would be templates of A: "Who owns A based in B?"
            at = [rest for rest in rests if rest.split(" ")[0] in ("at", "for", "in", "on", "with")]
            options += [(0.7, f"{text.rstrip('?')} {rest}?") for rest in at]
    return options


def _rests(speaker: Speaker, number: int, *, clauses: bool = False) -> list[str]:
    """What may directly follow a noun to describe a set: "starring B", "at club B", but not "of B".

    With `clauses`, only clauses that follow a plural: "that B wrote", "whose language is B".
    """
    hop = hop_of(speaker, number)
    inner = None if hop is None else speaker.phrase(hop[1])
    if hop is None or inner is None or not inner.simple:
        return []
    templates, rests = speaker.templates(hop[0]), list[str]()
    for noun in templates.at(speaker.level).nouns:
        found = parts(noun)
        if found is None or not found.rest or not says_kind(found.head, templates.kind) or not fits(noun, inner):
            continue
        first = found.rest.split(" ")[0]
        if clauses:
            if first in _RELATIVES and is_plural(found.head):
                rests.append(fill(found.rest, inner))
        elif first != "of" and (first in _LINKS or is_participle(first)):
            rests.append(fill(found.rest, inner))
    return rests


def _before_noun(speaker: Speaker, asked: int, added: int) -> Weighted:
    """ "A films with B", "Which A players play for B?": the topic of one side stands before the noun."""
    hop = hop_of(speaker, added)
    topic = None if hop is None else speaker.phrase(hop[1])
    if hop is None or topic is None or not _stands_before(topic) or not speaker.lexicon.alone(hop[0]):
        return []
    kind, options = speaker.templates(hop[0]).kind, list[tuple[float, str]]()
    before = speaker.templates(DirectedRelation(hop[0].relation, not hop[0].out)).kind
    if not (before in _BEFORE or (is_person(before) and kind in _MADE)):
        return []
    if kind in VAGUE or kind in VALUES or (topic.name or "").lower().endswith(kind):
        return []
    for rest in _rests(speaker, asked):
        many, one = plural(kind), singular(kind)
        options += [
            (1, f"Name {a(f'{topic.name} {one}').split(' ')[0]} {topic.text} {one} {rest}."),
            (1, f"Which {topic.text} {many} are there {rest}?"),
            (1, f"{topic.text} {many} {rest}?"),
            (0.5, f"List the {topic.text} {many} {rest}."),
        ]
    other = hop_of(speaker, asked)
    inner = None if other is None else speaker.phrase(other[1])
    if other is None or inner is None:
        return options
    for question in speaker.templates(other[0]).at(speaker.level).questions:
        found = _WHICH.match(question)
        if found and says_kind(found[2], kind) and found[2] not in ("one", "ones") and fits(question, inner):
            filled = _WHICH.match(fill(question, inner))
            if filled is not None:
                noun = filled[2] if is_plural(filled[2]) or filled[2] != "person" else kind
                options.append((1.5, f"{filled[1]} {topic.text} {noun} {filled[3]}"))
    return options


def _stands_before(topic: Phrase) -> bool:
    """Whether a name can be used like an adjective: it is short, without an article or special characters."""
    name = (topic.name or "").replace("_", " ")
    plain = all(sign.isalnum() or sign in " -." for sign in name)
    return (
        topic.simple and plain and len(name.split()) <= LONGEST and not name.lower().startswith(("the ", "a ", "an "))
    )


ONE_CLAUSE = 0.75  # the share of intersections for which one clause is tried first
_RELATIVE = (
    "that ",
    "who ",
    "whom ",
    "whose ",
    "which ",
    "where ",
    "in which ",
    "for which ",
    "on which ",
    "to which ",
)
# Never joined: "the grandmother of X who is also the nephew of Y".
_WOMEN = word_set("mother grandmother daughter sister wife aunt niece girlfriend queen actress mother-in-law")
_MEN = word_set("father grandfather son brother husband uncle nephew boyfriend king actor father-in-law granddad")


def same_way(speaker: Speaker, call: Call, link: str) -> tuple[DirectedRelation, Phrase] | None:
    """If both sets come from one directed relation: that relation, and their sources as a phrase, "both A and B"."""
    left, right = (hop_of(speaker, number) for number in speaker.sources(call))
    if left is None or right is None or left[0] != right[0]:
        return None
    one, two = speaker.phrase(left[1]), speaker.phrase(right[1])
    if one is None or two is None:
        return None
    if two.hops < one.hops and "but not" not in link:  # "both Morocco and the countries of the Caribbean"
        one, two = two, one
    return left[0], Phrase(link.format(one.text, two.text), many="but not" not in link, hops=max(one.hops, two.hops))


def together(speaker: Speaker, call: Call, link: str) -> Phrase | None:
    same = same_way(speaker, call, link)
    return None if same is None else speaker.noun(same[0], same[1], whole=True)


def asked_together(speaker: Speaker, call: Call, link: str) -> str | None:
    same = same_way(speaker, call, link)
    if same is None:
        return None
    way, inner = same
    questions, _, _ = speaker.templates(way).at(speaker.level)
    # the names must end the clause: "who directed both A and B", not "what did A but not B direct"
    fitting = [text for text in questions if fits(text, inner) and text.rstrip("?.! ").endswith("{}")]
    template = speaker.choose([(1.0, text) for text in fitting])
    return None if template is None else fill(template, inner)


def pair_of(speaker: Speaker, call: Call) -> tuple[Phrase, Phrase] | None:
    """Both sides as phrases; if one is plural, the other becomes plural too."""
    one, two = (speaker.phrase(number) for number in speaker.sources(call))
    if one is None or two is None:
        return None
    if one.many != two.many and not two.simple:
        one, two = as_many(one), as_many(two)
    return one, two


def _both_of(speaker: Speaker, call: Call) -> tuple[Phrase, Phrase] | None:
    """Both sides, the one of fewer hops first, so that the second is not read as a part of the first."""
    pair = pair_of(speaker, call)
    if pair is None or _apart(*pair):
        return None
    one, two = (as_many(side) if side.many else side for side in pair)  # "which of the films"
    return (two, one) if two.hops < one.hops else (one, two)


def _is_anyone(text: str) -> bool:
    return text.split(" ")[0] in ("everybody", "everyone", "everything", "whoever", "whatever", "anyone", "all")


def _apart(one: Phrase, two: Phrase) -> bool:
    heads = [singular(found.head.lower()) for phrase in (one, two) if (found := parts(phrase.text)) is not None]
    return bool(_WOMEN.intersection(heads) and _MEN.intersection(heads))


def relative_of(phrase: Phrase) -> str:
    return "who" if is_person(phrase.kind) else "that"


# What is in both sets


def both_phrase(speaker: Speaker, call: Call) -> Phrase | None:
    joined = together(speaker, call, "both {} and {}") if speaker.chance.random() < 0.6 else None
    if joined is not None:
        return joined
    pair = _both_of(speaker, call)
    if pair is None:
        return None
    one, two = pair
    text = _joined(one, two) if speaker.chance.random() < 0.75 else None
    if text is None and one.hops > 1 and one.many:
        text = f"those of {one.text} {relative_of(one)} are also {predicate(one, two)}"
    if text is None:
        text = f"{one.text} {relative_of(one)} {'are' if one.many else 'is'} also {predicate(one, two)}"
    return Phrase(text, one.many, one.kind or two.kind, hops=max(one.hops, two.hops))


def _joined(one: Phrase, two: Phrase) -> str | None:
    """ "the films directed by A" and "films that B acted in" as one: "the films directed by A that B acted in".

    None where a head word says more than the kind: a writer of B must not become "the director of A and of B".
    """
    first, second = parts(one.text), parts(two.text)
    if first is None or second is None or one.many != two.many or not first.rest or not second.rest:
        return None
    hops = one.hops
    if not says_kind(second.head, two.kind):
        if not says_kind(first.head, one.kind):
            return None
        first, second, hops = second, first, two.hops
    if _is_clause(first.rest) and not _is_clause(second.rest):
        if not says_kind(first.head, one.kind):
            return None
        first, second, hops = second._replace(head=first.head), first, two.hops
    if hops > 1 or second.rest.startswith(("or ", "and ", "of ")):
        return None  # what comes second would describe the last noun of the first
    if first.head in ("all", "everything", "everyone", "whoever", "something"):
        return None
    determiner = "the " if first.head not in ("those", "these") else ""
    alike = _is_clause(first.rest) == _is_clause(second.rest) and (
        _is_clause(first.rest) or _first(first.rest) == _first(second.rest)
    )
    return f"{determiner}{first.head} {first.rest}{' and ' if alike else ' '}{_clause(second.rest)}"


def _is_clause(rest: str) -> bool:
    """A clause with a verb, "that X made", "X made"; not "by X"."""
    return rest.startswith((*_RELATIVE, "the ")) or "\ue000" <= rest[:1] <= "\uf8ff"


def _clause(rest: str) -> str:
    return rest if rest.startswith(_RELATIVE) or not _is_clause(rest) else f"that {rest}"


def _first(text: str) -> str:
    return text.split(" ")[0]


def predicate(one: Phrase, two: Phrase) -> str:
    """The second set as a predicate of the first: "the director of B", "among the films of B"."""
    return two.text if one.many == two.many and not two.text.startswith("those") else f"among {two.text}"


def both_question(speaker: Speaker, call: Call) -> str | None:
    if speaker.chance.random() < ONE_CLAUSE:
        text = one_clause(speaker, call)
        if text is not None:
            return text
    if speaker.chance.random() < 0.5:
        text = asked_together(speaker, call, "both {} and {}") or _in_common(speaker, call)
        if text is not None:
            return text
    pair = _both_of(speaker, call)
    if pair is None:
        return None
    one, two = pair
    are, kinds = "are" if one.many else "is", several(one.kind)
    options = [
        (1.0, f"Which of {one.text} {are} also {predicate(one, two)}?") if one.many else (0.0, ""),
        (0.6, f"Which {kinds} are both among {one.text} and among {two.text}?") if one.many and two.many else (0, ""),
        (0.8, f"{'Who' if is_person(one.kind) else 'What'} {are} both {one.text} and {two.text}?")
        if one.many == two.many and not _is_anyone(one.text) and not _is_anyone(two.text)
        else (0, ""),
    ]
    joined = _joined(one, two)
    if joined is not None:
        framed = speaker.frame(Phrase(joined, one.many, one.kind or two.kind))
        options += [(3.0, framed or "")]
    return speaker.choose(options)


def _in_common(speaker: Speaker, call: Call) -> str | None:
    """ "Which director do A and B have in common?"."""
    left, right = (hop_of(speaker, number) for number in speaker.sources(call))
    if left is None or right is None or left[0] != right[0]:
        return None
    bare = speaker.templates(left[0]).at(speaker.level).bare
    one, two = speaker.phrase(left[1]), speaker.phrase(right[1])
    if not bare or one is None or two is None:
        return None
    noun = speaker.chance.choice(bare)
    return speaker.choose(
        [
            (1, f"Which {noun} do {one.text} and {two.text} have in common?"),
            (1, f"What {noun} do {one.text} and {two.text} share?"),
            (0.6, f"{one.text} and {two.text} have which {noun} in common?"),
            (0.6, f"What do {one.text} and {two.text} have in common as {noun}?"),
        ]
    )


# Either of two sets


def either_phrase(speaker: Speaker, call: Call) -> Phrase | None:
    joined = together(speaker, call, "{} or {}") if speaker.chance.random() < 0.6 else None
    if joined is not None:
        return joined
    pair = pair_of(speaker, call)
    if pair is None:
        return None
    one, two = pair
    before = speaker.plan.made_by(speaker.sources(call)[0])
    first = one.text.replace(" or ", ", ") if before is not None and before.tool == "union" else one.text
    return Phrase(f"{first} or {two.text}", one.many, one.kind, hops=max(one.hops, two.hops))


def either_question(speaker: Speaker, call: Call) -> str | None:
    if speaker.chance.random() < 0.5:
        link = speaker.choose([(1, "{} or {}"), (1, "either {} or {}"), (0.4, "{} or else {}")])
        text = asked_together(speaker, call, link or "{} or {}")
        if text is not None:
            return text
    pair = pair_of(speaker, call)
    if pair is None:
        return None
    one, two = pair
    what = "Who" if is_person(one.kind) else "What"
    be = "are" if one.many else "is"
    return speaker.choose(
        [
            (1.5, f"{what} {be} {one.text} or {two.text}?"),
            (1, f"Name {one.text} as well as {two.text}."),
            (1, f"Give me {one.text} together with {two.text}."),
            (1, f"{what} {be} either {one.text} or {two.text}?"),
            (0.7, f"List all that are {one.text} or {two.text}.") if one.many and two.many else (0, ""),
        ]
    )


# What a row of two things says


def _is_in_row(speaker: Speaker, way: DirectedRelation) -> bool:
    """Whether a relation leads to rows, and only by it; `booking.status` is one of many such columns, and says more."""
    kind = speaker.templates(way).kind
    shared = way.relation.startswith(f"{kind.replace(' ', '_')}.")
    return kind in row_kinds() and not shared and speaker.lexicon.alone(way)


def met_question(speaker: Speaker, call: Call) -> str | None:
    """A value of the row where two things meet: "grade for X and Y"; None where other relations join them as well."""
    made = speaker.plan.made_by(speaker.sources(call)[0])
    if made is None or made.tool != "intersect":
        return None
    hops = [hop_of(speaker, number) for number in speaker.sources(made)]
    ways = [hop for hop in hops if hop is not None and not hop[0].out and hop[1] <= len(speaker.plan.topics)]
    if len(ways) < 2 or not all(_is_in_row(speaker, way) for way, _ in ways):
        return None
    phrases = [speaker.phrase(at) for _, at in ways]
    names = [phrase.text for phrase in phrases if phrase is not None]
    options: Weighted = []
    for noun in speaker.templates(way_of(call)).at(speaker.level).bare[:3]:
        for one, two in (names, names[::-1]):
            options += [
                (1, f"What is the {noun} for {one} and {two}?"),
                (0.7, f"Which {noun} does {one} have for {two}?"),
                (speaker.level, f"{noun} for {one} and {two}"),
                (0.5 * speaker.level, f"{one} {two} {noun}"),
                (0.5, f"{one} with {two}: what is the {noun}?"),
            ]
    return speaker.choose(options)
