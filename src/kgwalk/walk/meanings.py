"""By meaning: what words of a question mean that no name, kind or relation explains by its letters.

    "scary movies"              the genre horror
    "youngest filmmaker"        the kind director
    "kept in the fridge"        the relation refrigerated, and so the kind that has it

Words that the rules leave over are compared with the names of the graph's kinds, relations, things and values in the
table of `word_vectors`. What is near enough, and nearer than all else, is meant. A word that people ask with means
nothing so, nor does a name: the table has none. Only graphs of few names are looked through, and English questions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from kgwalk.kg.names import normalise
from kgwalk.kg.store import Store, StoredGraph
from kgwalk.types import Found
from kgwalk.walk.kinds import OF_TYPE, Kind, MentionedKind, kinds_of
from kgwalk.walk.linking import Mention
from kgwalk.walk.name_lookup import Stored, is_naming, last_words
from kgwalk.walk.name_matches import PART_OF_NAME
from kgwalk.walk.question_words import FUNCTION_WORDS, OVER_ALL, Text, is_common, is_noun, stem
from kgwalk.walk.values import value_of
from kgwalk.walk.word_vectors import WIDTH, adjective_share, is_term, noun_share, vector

F32 = npt.NDArray[np.float32]
_T = TypeVar("_T")

# How near a word must be to what it means
LEAST_KIND, LEAST_VALUE, LEAST_THING, LEAST_RELATION = 0.5, 0.6, 0.75, 0.5
SURE_KIND = 0.65  # beside a name, and of a word that is not in the place of what is asked for
BEFORE_OTHERS = 0.1  # by how much a thing must be nearer than any other thing, and than any relation
LEAST_MEMBER, BEFORE_MEMBERS = 0.3, 0.05  # the same of a thing before the word for what it is
SAME_WORD = 0.99  # another form of the very word
MOST_NAMES = 5_000  # of things and values, the best connected first: bounds the time of a graph's first question
LONGEST = 4  # words of a name
WHY = "by meaning"


class Meanings(NamedTuple):
    """What words mean that nothing else explains: things, kinds, and relations that the question speaks of."""

    things: list[Mention]
    kinds: list[MentionedKind]
    relations: list[str]
    explained: frozenset[int]  # places of words


NOTHING = Meanings([], [], [], frozenset())


class _Phrase(NamedTuple):
    """One word or two that are left over."""

    first: int
    last: int
    plain: str
    noun: bool
    adjective: bool
    common: bool
    asked: bool  # in the place of what is asked for: not after a preposition


class _Near(NamedTuple):
    """What a phrase means, and how near that is."""

    score: float
    phrase: _Phrase
    meant: str | Kind


def meanings(text: Text, graph: StoredGraph, mentions: Sequence[Mention], kinds: Sequence[MentionedKind]) -> Meanings:
    """What the words mean that these mentions and kinds leave over."""
    if text.language != "en" or not Stored(graph).few:
        return NOTHING
    parts = _parts_before_kinds(text, graph, mentions, kinds)
    places = sorted({*_left_over(text, graph, mentions, kinds), *parts})
    phrases = list(_phrases(text, places))
    if not phrases:
        return NOTHING
    targets = _targets(graph)
    named = any(not one.common for one in mentions)
    before = {one.start: one.kind for one in kinds if one.kind.how == OF_TYPE}
    found = []
    for phrase in phrases:
        kind = before.get(text.words[phrase.last + 1].start) if phrase.last + 1 < len(text.words) else None
        near = None if kind is None else _member(phrase, graph, kind, targets)
        near = near or (None if phrase.first in parts else _meant(phrase, graph, targets, named))
        found += [near] if near is not None else []
    said = [(phrase, relation) for phrase in phrases if (relation := _relation(phrase, targets)) is not None]
    chosen: list[_Near] = []
    for near in sorted(found, key=lambda near: -near.score):
        if all(near.phrase.last < other.phrase.first or other.phrase.last < near.phrase.first for other in chosen):
            chosen.append(near)
    explained = {
        at
        for phrase in [*(one.phrase for one in chosen), *(phrase for phrase, _ in said)]
        for at in range(phrase.first, phrase.last + 1)
    }
    return Meanings(
        [_mention(text, near.phrase, near.meant, near.score) for near in chosen if isinstance(near.meant, str)],
        [_mentioned(text, near.phrase, near.meant) for near in chosen if isinstance(near.meant, Kind)],
        [relation for _, relation in said],
        frozenset(explained),
    )


def _meant(phrase: _Phrase, graph: StoredGraph, targets: _Targets, named: bool) -> _Near | None:
    """The thing or the kind that a phrase means, in a question that has names beside it or not."""
    own_D = vector(phrase.plain)
    if own_D is None:
        return None
    of_kinds, of_relations, of_names = targets.kinds_KD @ own_D, targets.relations_RD @ own_D, targets.names_ED @ own_D
    relation, kind = float(of_relations.max(initial=0.0)), float(of_kinds.max(initial=0.0))
    order = np.argsort(-of_names, kind="stable")[:8]
    if len(order):
        best = targets.names[order[0]]
        near = float(of_names[order[0]])
        others = [float(of_names[at]) for at in order[1:] if normalise(targets.names[at]) != normalise(best)]
        first = near - max([*others, kind]) >= BEFORE_OTHERS and near - relation >= BEFORE_OTHERS
        if _may_mean(phrase, best, near, graph) and (first or near >= SAME_WORD):
            return _Near(near, phrase, best)
    best_kind = targets.kinds[int(of_kinds.argmax())] if len(of_kinds) else None
    if best_kind is None or not phrase.noun or phrase.common:
        return None
    least = LEAST_KIND if phrase.asked and not named and best_kind.how == OF_TYPE else SURE_KIND
    if kind >= least and kind >= relation - BEFORE_OTHERS / 2:
        return _Near(kind, phrase, best_kind)
    return None


def _member(phrase: _Phrase, graph: StoredGraph, kind: Kind, targets: _Targets) -> _Near | None:
    """Which of a kind's things a noun before the word for it means: the heart ward is Cardiology."""
    own_D = vector(phrase.plain) if phrase.noun and not phrase.common else None
    if own_D is None:
        return None
    members = set(kind.members(graph))
    places = [at for at, name in enumerate(targets.names) if name in members]
    near = sorted(((float(targets.names_ED[at] @ own_D), at) for at in places), reverse=True)
    others = [0.0, *(score for score, _ in near[1:])]
    if not near or near[0][0] < LEAST_MEMBER or near[0][0] - max(others) < BEFORE_MEMBERS:
        return None
    return _Near(near[0][0], phrase, targets.names[near[0][1]])


def _may_mean(phrase: _Phrase, name: str, near: float, graph: StoredGraph) -> bool:
    """Whether a phrase can be the name: it has as many words, or the name is a term; and it is no word to ask with.

    A value may be called otherwise (scary, of horror); a thing that has facts of its own goes by its name more often:
    who asks for astrology, where there is a course of Astrophysics, asks for what is not there.
    """
    plain = normalise(name)
    if plain.count(" ") > phrase.plain.count(" ") and not is_term(plain):
        return False
    if phrase.common:
        return phrase.noun and near >= SAME_WORD and plain != phrase.plain
    least = LEAST_THING if graph.relations(name) else LEAST_VALUE
    return near >= least and (phrase.noun or phrase.adjective)


def _relation(phrase: _Phrase, targets: _Targets) -> str | None:
    own_D = None if phrase.common else vector(phrase.plain)
    if own_D is None or not targets.relations:
        return None
    of_relations = targets.relations_RD @ own_D
    best = int(of_relations.argmax())
    return targets.relations[best] if of_relations[best] >= LEAST_RELATION else None


def _mention(text: Text, phrase: _Phrase, name: str, score: float) -> Mention:
    start, end = text.span(phrase.first, phrase.last)
    found = Found(name, round(score, 3), "fuzzy")
    return Mention(text.question[start:end], start, end, [found], False, f"fuzzy: {WHY}")


def _mentioned(text: Text, phrase: _Phrase, kind: Kind) -> MentionedKind:
    return MentionedKind(kind, phrase.first, *text.span(phrase.first, phrase.last))


# What is left over


def _left_over(
    text: Text, graph: StoredGraph, mentions: Sequence[Mention], kinds: Sequence[MentionedKind]
) -> list[int]:
    """The places of words that tell something and that nothing explains."""
    taken = [(one.start, one.end) for one in mentions if not one.common] + [(one.start, one.end) for one in kinds]
    words = Stored(graph).said_words
    left = []
    for at, word in enumerate(text.words):
        name = text.capital[at] and at > 0 and not text.upper[at]
        if text.function[at] or text.digits[at] or name or len(word.plain) < 3 or word.size < 1:
            continue
        if word.plain in OVER_ALL or _EST.search(word.plain) or stem(word.plain) in words:
            continue
        if not any(start < word.end and word.start < end for start, end in taken) and value_of(word.plain) is None:
            left.append(at)
    return left


_EST = re.compile(r"..est$")


def _parts_before_kinds(
    text: Text, graph: StoredGraph, mentions: Sequence[Mention], kinds: Sequence[MentionedKind]
) -> set[int]:
    """Words that were taken for a part of a name and stand before a kind of which the name is not: "heart" is a part of
    Heart Failure, which is no ward.
    """
    words = {word.end: at for at, word in enumerate(text.words)}
    return {
        words[one.end]
        for one in mentions
        if one.why.endswith(PART_OF_NAME) and one.text == text.question[one.start : one.end].split()[0]
        for kind in kinds
        if one.end + 1 == kind.start and kind.kind.how == OF_TYPE and one.end in words
        if kind.kind.fact(graph, one.candidates[0].name) is None
    }


def _phrases(text: Text, places: Sequence[int]) -> Iterator[_Phrase]:
    """Single words, and two that the table has as one term: heart attack."""
    for at in places:
        yield _phrase(text, at, at)
        if at + 1 in places and is_term(f"{text.words[at].plain} {text.words[at + 1].plain}"):
            yield _phrase(text, at, at + 1)


def _phrase(text: Text, first: int, last: int) -> _Phrase:
    start, end = text.span(first, last)
    word = text.words[last].plain
    before = [other.plain for other in text.words[max(first - 2, 0) : first]]
    if before[-1:] in (["the"], ["a"], ["an"], ["our"], ["your"]):
        before.pop()
    return _Phrase(
        first,
        last,
        normalise(text.question[start:end]),
        noun_share(word) > HALF or (noun_share(word) == HALF and is_noun(text, first, last)),
        adjective_share(word) >= HALF,
        first == last and is_common(word),
        not before or before[-1] not in _PREPOSITIONS,
    )


_PREPOSITIONS = frozenset({"in", "on", "at", "with", "from", "by", "to", "for", "about", "through", "under", "over"})
HALF = 0.5  # of a word's uses


# What it is compared with


class _Targets(NamedTuple):
    """What words are compared with, a row each."""

    kinds: list[Kind]
    kinds_KD: F32
    relations: list[str]
    relations_RD: F32
    names: list[str]
    names_ED: F32


_TARGETS: WeakKeyDictionary[Store | StoredGraph, _Targets] = WeakKeyDictionary()


def _targets(graph: StoredGraph) -> _Targets:
    """Read once a store, and of each view what it has of them: a name without a fact there is not meant."""
    store = graph.store
    if store not in _TARGETS:
        own = StoredGraph(store)
        classes = {kind.value for kind in kinds_of(own).values()}
        names = [(name, plain) for name, plain in _plain_names(store) if name not in classes]
        relations, relations_RD = _embedded(list(_words_of_relations(store)))
        things, names_ED = _embedded(names[:MOST_NAMES])
        _TARGETS[store] = _Targets(*_kinds(own), relations, relations_RD, things, names_ED)
    whole = _TARGETS[store]
    if type(graph) is StoredGraph:
        return whole
    if graph not in _TARGETS:
        said = [at for at, name in enumerate(whole.relations) if graph.has_relation(name)]
        here = [at for at, name in enumerate(whole.names) if name in graph]
        _TARGETS[graph] = _Targets(
            *_kinds(graph),
            [whole.relations[at] for at in said],
            whole.relations_RD[said],
            [whole.names[at] for at in here],
            whole.names_ED[here],
        )
    return _TARGETS[graph]


def _kinds(graph: StoredGraph) -> tuple[list[Kind], F32]:
    return _embedded([(kind, plain) for plain, kind in kinds_of(graph).items()])


def _plain_names(store: Store) -> Iterator[tuple[str, str]]:
    for name in store.entity.several(store.live_entities()):
        if not _NO_WORD.search(name) and 2 < len(plain := normalise(name)) < 50 and plain.count(" ") < LONGEST:
            yield name, plain


_NO_WORD = re.compile(r"\d|://|_")


def _words_of_relations(store: Store) -> Iterator[tuple[str, str]]:
    """Each relation by its words together and one by one."""
    for name in store.relation.several(store.live_relations()):
        words = _OF_KEYS.sub("", last_words(name))
        if not is_naming(words):
            telling = [word for word in words.split() if word not in FUNCTION_WORDS]
            yield from ((name, text) for text in dict.fromkeys([words, *telling]))


_OF_KEYS = re.compile(r" (?:id|no|nr|code|number|key)$")


def _embedded(texts: Sequence[tuple[_T, str]]) -> tuple[list[_T], F32]:
    """What has a vector, with it."""
    rows = [(one, row) for one, text in texts if (row := vector(text)) is not None]
    return [one for one, _ in rows], np.array([row for _, row in rows], np.float32).reshape(-1, WIDTH)
