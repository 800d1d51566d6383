"""How two sets are said of which both must hold; one clause for both is said in `one_clause`.

Knows noun phrases and the ways that made them; the rest of the sentence is the speaker's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgwalk.questions.english.fitting import fits
from kgwalk.questions.english.inflect import singular, word_set
from kgwalk.questions.english.kinds import is_person, several
from kgwalk.questions.english.phrases import Phrase, as_many, fill, parts
from kgwalk.questions.one_clause import hop_of, one_clause, says_kind
from kgwalk.tools.facts import Way
from kgwalk.types import Call

if TYPE_CHECKING:
    from kgwalk.questions.speaker import Speaker

ONE_CLAUSE = 0.75  # how often one clause is tried for two conditions
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
# Nobody is both: "the grandmother of X who is also the nephew of Y".
_WOMEN = word_set("mother grandmother daughter sister wife aunt niece girlfriend queen actress mother-in-law")
_MEN = word_set("father grandfather son brother husband uncle nephew boyfriend king actor father-in-law granddad")


def same_way(speaker: Speaker, call: Call, link: str) -> tuple[Way, Phrase] | None:
    """If both sets come by one relation: that, and what they come from, "both A and B"."""
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
    questions, _, _ = speaker.said(way).at(speaker.level)
    # the names end the clause: "who directed both A and B", not "what did A but not B direct"
    fitting = [text for text in questions if fits(text, inner) and text.rstrip("?.! ").endswith("{}")]
    template = speaker.choose([(1.0, text) for text in fitting])
    return None if template is None else fill(template, inner)


def pair_of(speaker: Speaker, call: Call) -> tuple[Phrase, Phrase] | None:
    """Both sides as phrases; a side that stands beside a plural one becomes plural."""
    one, two = (speaker.phrase(number) for number in speaker.sources(call))
    if one is None or two is None:
        return None
    if one.many != two.many and not two.simple:
        one, two = as_many(one), as_many(two)
    return one, two


def _both_of(speaker: Speaker, call: Call) -> tuple[Phrase, Phrase] | None:
    """Both sides, the shorter one first, so that what is said of it is not taken for a part of the longer one."""
    pair = pair_of(speaker, call)
    if pair is None or _apart(*pair):
        return None
    one, two = (as_many(side) if side.many else side for side in pair)  # "which of the films", not "which of films"
    return (two, one) if two.hops < one.hops else (one, two)


def _is_anyone(text: str) -> bool:
    return text.split(" ")[0] in ("everybody", "everyone", "everything", "whoever", "whatever", "anyone", "all")


def _apart(one: Phrase, two: Phrase) -> bool:
    heads = [singular(found.head.lower()) for phrase in (one, two) if (found := parts(phrase.text)) is not None]
    return bool(_WOMEN.intersection(heads) and _MEN.intersection(heads))


def relative_of(phrase: Phrase) -> str:
    return "who" if is_person(phrase.kind) else "that"


# Both


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

    Not where a head says more than the kind: the writer of B must not become "the director of A and of B".
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
        return None  # what comes second would be said of the last noun of the first
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
    """What a set is said to be: "the director of B", "among the films of B"."""
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
    """Which director do A and B have in common?"""
    left, right = (hop_of(speaker, number) for number in speaker.sources(call))
    if left is None or right is None or left[0] != right[0]:
        return None
    bare = speaker.said(left[0]).at(speaker.level)[2]
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
