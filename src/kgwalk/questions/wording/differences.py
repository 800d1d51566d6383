"""How a difference is worded: one set without another, the others of a kind, and walks there and back.

    "films by X that do not star Y", "the other films of X's director", "the films with the same director as X"

A walk there and back follows a relation, comes back by it, and leaves its start out: X's co-stars. Called by `speaker`,
which words the rest of the sentence.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from kgwalk.questions.wording.english import (
    VAGUE,
    VALUES,
    a,
    is_participle,
    is_person,
    kind_of,
    past_of,
    plural,
    several,
)
from kgwalk.questions.wording.joins import asked_together, hop_of, pair_of, predicate, relative_of, says_kind
from kgwalk.questions.wording.phrases import HELPERS, Phrase, as_many, fill, fits, is_many
from kgwalk.types import Call
from kgwalk.walk.facts import DirectedRelation

if TYPE_CHECKING:
    from kgwalk.questions.wording.speaker import Speaker, Weighted


# Walks there and back


# "Which films did {} direct?", "what movies did {} star in": the things, the verb, and its preposition.
_DID = re.compile(r"(?:which|what) ([a-z]+) did \{\} ([a-z]+)( (?:in|on|for|at))?\??", re.IGNORECASE)
_WHICH = re.compile(r"(which|what) ([a-z]+) (.*)", re.IGNORECASE)


class Return(NamedTuple):
    """A walk from a topic along a relation and back again, both with their directions."""

    topic: Phrase
    there: DirectedRelation
    back: DirectedRelation


def return_of(speaker: Speaker, call: Call) -> Return | None:
    """The walk there and back whose start a step leaves out; None if the step is not of that form."""
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
    templates = speaker.templates(found.back)
    text = speaker.choose(_same(speaker, found) + _fellows(speaker, found))
    return None if text is None else Phrase(text, True, templates.kind, hops=2)


def return_question(speaker: Speaker, call: Call) -> str | None:
    """The same as a question, also in forms that only a question has: "With whom did X direct films?"."""
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
    for question in speaker.templates(back[0]).at(speaker.level).questions:
        if not fits(question, inner):
            continue
        which, did = _WHICH.match(fill(question, inner)), _DID.fullmatch(question)
        if which is not None and _is_noun(which[1], which[2], speaker.templates(back[0]).kind):
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
    """Phrases for the others that share something with the start; none where there is no noun for it."""
    noun, topic = _shared_noun(speaker, found), found.topic.text
    if noun is None:
        return []
    kind = speaker.templates(found.back).kind
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
    """A noun for what the start and the others share."""
    bare = speaker.templates(found.there).at(speaker.level).bare
    return speaker.chance.choice(bare) if bare else None


def _same_asked(speaker: Speaker, found: Return) -> Weighted:
    noun, topic = _shared_noun(speaker, found), found.topic.text
    if noun is None:
        return []
    kind = speaker.templates(found.back).kind
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
    """X's co-directors: people who have the same role as X in the same films."""
    there, templates = speaker.templates(found.there), speaker.templates(found.back)
    if not is_person(templates.kind) or is_person(there.kind) or there.kind in VALUES:
        return []
    topic, options = found.topic.text, list[tuple[float, str]]()
    for things, verb, to in _deeds(speaker, found.there):
        options.append((1, f"the people who {past_of(verb)}{to} the same {plural(things)} as {topic}"))
    nouns = [noun for noun in templates.at(speaker.level).bare if " " not in noun and kind_of(noun) == "person"]
    if nouns:
        noun = plural(speaker.chance.choice(nouns))
        options += [(1, f"the co-{noun} of {topic}"), (1, f"{topic}'s fellow {noun}")]
    return options


def _together_asked(speaker: Speaker, found: Return) -> Weighted:
    if not is_person(speaker.templates(found.back).kind) or is_person(speaker.templates(found.there).kind):
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


def _deeds(speaker: Speaker, there: DirectedRelation) -> list[tuple[str, str, str]]:
    """The thing, verb and preposition of questions like "Which films did {} star in?": films, star, in."""
    found = (_DID.fullmatch(question) for question in speaker.templates(there).at(speaker.level).questions)
    return [(one[1], one[2], one[3] or "") for one in found if one is not None and one[1] not in ("one", "ones")]


def difference_phrase(speaker: Speaker, call: Call) -> Phrase | None:
    same = return_phrase(speaker, call)
    if same is not None and speaker.chance.random() < 0.6:
        return same
    pair = pair_of(speaker, call)
    if pair is None:
        return None
    one, two = pair
    if two.simple:
        # what follows "other than X" would describe X, so "the other films" wherever the phrase names X
        many = as_many(one)
        other = _other(many.text)
        if other is not None and two.text in other:
            return Phrase(other, True, one.kind, hops=one.hops)
        return Phrase(f"{one.text} other than {two.text}", one.many, one.kind, hops=one.hops)
    text = speaker.choose(
        [
            (1, f"{one.text} {relative_of(one)} {'are' if one.many else 'is'} not {predicate(one, two)}"),
            (1, f"{one.text} except {two.text}"),
        ]
    )
    return Phrase(text or one.text, one.many, one.kind, hops=max(one.hops, two.hops))


def difference_question(speaker: Speaker, call: Call) -> str | None:
    if _topic(speaker, call) is not None:
        return _others(speaker, call)
    if speaker.chance.random() < 0.5:
        text = asked_together(speaker, call, "{} but not {}")
        if text is not None:
            return text
    pair = pair_of(speaker, call)
    if pair is None:
        return None
    one, two = (as_many(side) if side.many else side for side in pair)
    are = "are" if one.many else "is"
    framed = speaker.frame(one)
    options = [
        (1.5, f"Which of {one.text} are not {predicate(one, two)}?") if one.many else (0, ""),
        (1, _added(framed or "", f", leaving out {two.text}")),
        (0.7, f"Except for {two.text}, {_lower(framed or '')}"),
    ]
    without = Phrase(f"{one.text} {relative_of(one)} {are} not {predicate(one, two)}", one.many, one.kind)
    return speaker.choose([*options, (1.5, speaker.frame(without) or "")])


def _topic(speaker: Speaker, call: Call) -> Phrase | None:
    """The phrase of the set that is taken away, if that is a topic."""
    number = speaker.sources(call)[1]
    return speaker.phrase(number) if speaker.plan.made_by(number) is None else None


def _others(speaker: Speaker, call: Call) -> str | None:
    """A question for a chain that comes back over its start: the other films of its director.

    Some of these leave "other" out, as people do: an answer is never what was asked about.
    """
    from kgwalk.questions.wording.speaker import first_worded  # speaker imports this module

    return first_worded(
        speaker,
        [
            (3.5, lambda: return_question(speaker, call)),
            (2.5, lambda: also_question(speaker, call)),
            (2, lambda: _apart(speaker, call)),
            (2, lambda: _unmarked(speaker, call)),
        ],
    )


def _unmarked(speaker: Speaker, call: Call) -> str | None:
    from kgwalk.questions.wording.speaker import QUESTIONS

    made = speaker.plan.made_by(speaker.sources(call)[0])
    return None if made is None else QUESTIONS[made.tool](speaker, made)


def _apart(speaker: Speaker, call: Call) -> str | None:
    """ "Apart from X, which films did X's director make?"."""
    topic, question = _topic(speaker, call), _unmarked(speaker, call)
    one = speaker.phrase(speaker.sources(call)[0])
    if topic is None or one is None:
        return None
    options = []
    if question is not None and ". " not in question:
        options += [
            (1.5, f"Apart from {topic.text}, {_lower(question)}"),
            (1, f"Other than {topic.text}, {_lower(question)}"),
            (1, _added(question, f", besides {topic.text}")),
            (0.6, _added(question, f", not counting {topic.text}")),
        ]
    other = _other(one.text)
    if other is not None:
        options.append((1.5, speaker.frame(Phrase(other, True, one.kind)) or ""))
    return speaker.choose([(weight, text) for weight, text in options if topic.text in text])


def _other(text: str) -> str | None:
    """ "the films of X" as "the other films of X"; only a plural can have others."""
    opened = re.match(r"(?:the ones|those) (?=that |who |which |whom |with |in )", text)
    if opened:
        return f"the others {text[opened.end() :]}"
    if not is_many(text) or not text.startswith("the ") or text.startswith("the ones"):
        return None
    return f"the other {text[4:]}"


def _added(question: str, more: str) -> str:
    """The question with more words at its end, before the question mark or full stop."""
    stop = "." if question.endswith(".") else "?"
    return f"{question.rstrip('?. ')}{more}{stop}"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
