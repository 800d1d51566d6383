"""How a walk there and back is said: the same director as X, films whose director also made X, X's co-stars.

Such a walk follows a relation and comes back by it, and leaves its start out. Knows noun phrases and the ways that made
them; the rest of the sentence is the speaker's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from kgwalk.questions.english.fitting import fits
from kgwalk.questions.english.inflect import a, is_participle, past_of, plural
from kgwalk.questions.english.kinds import VAGUE, VALUES, is_person, kind_of, several
from kgwalk.questions.english.phrases import HELPERS, Phrase, fill, is_many
from kgwalk.questions.one_clause import hop_of, says_kind
from kgwalk.tools.facts import Way
from kgwalk.types import Call

if TYPE_CHECKING:
    from kgwalk.questions.speaker import Speaker, Weighted

# "Which films did {} direct?", "what movies did {} star in": the things, the verb, and its preposition.
_DID = re.compile(r"(?:which|what) ([a-z]+) did \{\} ([a-z]+)( (?:in|on|for|at))?\??", re.IGNORECASE)
_WHICH = re.compile(r"(which|what) ([a-z]+) (.*)", re.IGNORECASE)


class Return(NamedTuple):
    """The topic, the way there and the way back."""

    topic: Phrase
    there: Way
    back: Way


def return_of(speaker: Speaker, call: Call) -> Return | None:
    """If a relation is followed there and back from a topic, which is left out."""
    number = speaker.sources(call)[1]
    back = hop_of(speaker, speaker.sources(call)[0])
    there = None if back is None else hop_of(speaker, back[1])
    topic = speaker.phrase(number) if speaker.plan.made_by(number) is None else None
    if topic is None or back is None or there is None or there[1] != number:
        return None
    if there[0].relation != back[0].relation or there[0].out == back[0].out:
        return None
    return Return(topic, there[0], back[0])


def return_phrase(speaker: Speaker, call: Call) -> Phrase | None:
    """ "the films with the same director as X", "the co-directors of X"."""
    found = return_of(speaker, call)
    if found is None:
        return None
    said = speaker.said(found.back)
    text = speaker.choose(_same(speaker, found) + _fellows(speaker, found))
    return None if text is None else Phrase(text, True, said.kind, hops=2)


def return_question(speaker: Speaker, call: Call) -> str | None:
    """The same as questions, and those that only a question can have: "With whom did X direct films?"."""
    found = return_of(speaker, call)
    if found is None:
        return None
    phrase = return_phrase(speaker, call)
    options: Weighted = [(3.0, speaker.frame(phrase) or "")] if phrase is not None else []
    options += _same_asked(speaker, found) + _together_asked(speaker, found)
    return speaker.choose([(weight, text) for weight, text in options if text])


def also_question(speaker: Speaker, call: Call) -> str | None:
    """ "Which other films did the director of X direct?", "The director of X also directed which films?"."""
    back = hop_of(speaker, speaker.sources(call)[0])
    inner = None if back is None else speaker.phrase(back[1])
    if back is None or inner is None:
        return None
    options: Weighted = []
    for question in speaker.said(back[0]).at(speaker.level)[0]:
        if not fits(question, inner):
            continue
        which, did = _WHICH.match(fill(question, inner)), _DID.fullmatch(question)
        if which is not None and _is_noun(which[1], which[2], speaker.said(back[0]).kind):
            options.append((1, f"{which[1]} other {which[2]} {which[3]}"))
        if did is not None:
            things, verb, to = did[1], did[2], did[3] or ""
            opened = inner.text[:1].upper() + inner.text[1:]
            options.append((1.5, f"{opened} also {past_of(verb)}{to} which {things}?"))
            options.append((1, f"Which {things} did {inner.text} also {verb}{to}?"))
    return speaker.choose(options)


def _is_noun(opening: str, word: str, kind: str) -> bool:
    """Whether "other" can stand between two words: "which films", not "what inspired", "which one"."""
    if word in ("other", "one", "ones", "else") or word in HELPERS or is_participle(word):
        return False
    return says_kind(word, kind) or opening.lower() == "which"


def _same(speaker: Speaker, found: Return) -> Weighted:
    """Phrases for others with the same noun: not where the start has no noun for what it shares."""
    noun, topic = _shared_noun(speaker, found), found.topic.text
    if noun is None:
        return []
    kind = speaker.said(found.back).kind
    kinds = several(kind) if kind not in VAGUE else "others"
    shared = noun if is_many(f"the {noun}") else a(noun)
    be = "are" if is_many(f"the {noun}") else "is"
    return [
        (2, f"the {kinds} with the same {noun} as {topic}"),
        (1, f"the {kinds} that have the same {noun} as {topic}"),
        (1, f"the {kinds} sharing {shared} with {topic}"),
        (1, f"the {kinds} that share {shared} with {topic}"),
        (1, f"the {kinds} whose {noun} {be} also the {noun} of {topic}"),
        (1, f"the other {kinds if kinds != 'others' else 'ones'} with {topic}'s {noun}"),
    ]


def _shared_noun(speaker: Speaker, found: Return) -> str | None:
    """What the start and the others share, by one of its nouns."""
    bare = speaker.said(found.there).at(speaker.level)[2]
    return speaker.chance.choice(bare) if bare else None


def _same_asked(speaker: Speaker, found: Return) -> Weighted:
    noun, topic = _shared_noun(speaker, found), found.topic.text
    if noun is None:
        return []
    kind = speaker.said(found.back).kind
    which = f"Which {several(kind)}" if kind not in VAGUE else "Which others"
    own = noun if is_many(f"the {noun}") else a(noun)
    return [
        (1, f"{which} have the same {noun} as {topic}?"),
        (1, f"{which} share {own} with {topic}?"),
        (0.7, f"{which} share the {noun} of {topic}?"),
        (0.7, f"{'Who' if is_person(kind) else 'What'} else has the same {noun} as {topic}?"),
        (0.7, f"{topic} shares its {noun} with {which.lower()}?") if not is_person(kind) else (0, ""),
        (0.7, f"{which} also have {topic}'s {noun}?"),
    ]


def _fellows(speaker: Speaker, found: Return) -> Weighted:
    """X's co-directors: people who are to the same films what X is to them."""
    there, said = speaker.said(found.there), speaker.said(found.back)
    if not is_person(said.kind) or is_person(there.kind) or there.kind in VALUES:
        return []
    topic, options = found.topic.text, list[tuple[float, str]]()
    for things, verb, to in _deeds(speaker, found.there):
        options.append((1, f"the people who {past_of(verb)}{to} the same {plural(things)} as {topic}"))
    nouns = [noun for noun in said.at(speaker.level)[2] if " " not in noun and kind_of(noun) == "person"]
    if nouns:
        noun = plural(speaker.chance.choice(nouns))
        options += [(1, f"the co-{noun} of {topic}"), (1, f"{topic}'s fellow {noun}")]
    return options


def _together_asked(speaker: Speaker, found: Return) -> Weighted:
    if not is_person(speaker.said(found.back).kind) or is_person(speaker.said(found.there).kind):
        return []
    topic, options = found.topic.text, list[tuple[float, str]]()
    for things, verb, to in _deeds(speaker, found.there):
        many = plural(things)
        options += [
            (1, f"With whom did {topic} {verb}{to} {many}?"),
            (1, f"{topic} {past_of(verb)}{to} {many} together with whom?"),
            (1, f"Who {past_of(verb)}{to} the same {many} as {topic}?"),
            (0.7, f"who did {topic} {verb}{to} {many} with"),
            (0.7, f"Who co-{past_of(verb)} {many} with {topic}?") if not to else (0, ""),
        ]
    return options


def _deeds(speaker: Speaker, there: Way) -> list[tuple[str, str, str]]:
    """What one did, of questions like "Which films did {} star in?": films, star, in."""
    found = (_DID.fullmatch(question) for question in speaker.said(there).at(speaker.level)[0])
    return [(one[1], one[2], one[3] or "") for one in found if one is not None and one[1] not in ("one", "ones")]
