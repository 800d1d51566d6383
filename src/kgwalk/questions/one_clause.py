"""Two conditions in one clause, without "and" or "both": "Which films by A star B?", "Name a Brazil player at club B."

One topic may stand before the noun like an adjective ("A films with B"), where only one relation joins their kinds.
Knows noun phrases and the ways that made them; the rest of the sentence is the speaker's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kgwalk.questions.english.fitting import fits
from kgwalk.questions.english.inflect import a, is_participle, is_plural, plural, singular, word_set
from kgwalk.questions.english.kinds import VAGUE, VALUES, is_person
from kgwalk.questions.english.phrases import BEFORE_NOUN, Phrase, fill, parts
from kgwalk.questions.plan import HOPS
from kgwalk.tools.facts import Way
from kgwalk.types import Call

if TYPE_CHECKING:
    from kgwalk.questions.speaker import Speaker, Weighted

LONGEST = 4  # words of a name that stands before a noun
# Kinds whose names stand before what belongs to them, like adjectives; people's before what they made.
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


def hop_of(speaker: Speaker, number: int) -> tuple[Way, int] | None:
    """The way and the source of a set that was made by a hop without dates."""
    call = speaker.plan.made_by(number)
    if call is None or call.tool not in HOPS or call.tool == "between":
        return None
    return Way(str(call.args[1]), call.tool != "head_entities"), speaker.sources(call)[0]


def says_kind(head: str, kind: str) -> bool:
    """
    >>> says_kind("films", "film"), says_kind("movies", "film"), says_kind("screenplays", "film")
    (True, True, False)
    """
    one = singular(head)
    return one in (kind, "one", "those", "person", "thing", "place") or (one, kind) in (
        ("movie", "film"),
        ("picture", "film"),
    )


def one_clause(speaker: Speaker, call: Call) -> str | None:
    """A question for both of two sets; None where the sides have no words that go together."""
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
    said, options = speaker.said(hop[0]), list[tuple[float, str]]()
    for question in said.at(speaker.level)[0]:
        if not fits(question, inner):
            continue
        text = fill(question, inner)
        found = _WHICH.match(text)
        if found and says_kind(found[2], said.kind) and found[2] not in ("one", "ones"):
            texts = rests + (clauses if is_plural(found[2]) else [])
            options += [(1.0, f"{found[1]} {found[2]} {rest} {found[3]}") for rest in texts]
        elif text.lower().startswith("who ") and inner.simple and text.rstrip("?").endswith(inner.text):
            # "Who plays for A at position B?"; a participle would be said of A: "Who owns A based in B?"
            at = [rest for rest in rests if rest.split(" ")[0] in ("at", "for", "in", "on", "with")]
            options += [(0.7, f"{text.rstrip('?')} {rest}?") for rest in at]
    return options


def _rests(speaker: Speaker, number: int, *, clauses: bool = False) -> list[str]:
    """What can be said of a noun right after it, for a set: "starring B", "at club B", but not "of B".

    With `clauses`, only clauses of a plural: "that B wrote", "whose language is B".
    """
    hop = hop_of(speaker, number)
    inner = None if hop is None else speaker.phrase(hop[1])
    if hop is None or inner is None or not inner.simple:
        return []
    said, rests = speaker.said(hop[0]), list[str]()
    for noun in said.at(speaker.level)[1]:
        found = parts(noun)
        if found is None or not found.rest or not says_kind(found.head, said.kind) or not fits(noun, inner):
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
    kind, options = speaker.said(hop[0]).kind, list[tuple[float, str]]()
    before = speaker.said(Way(hop[0].relation, not hop[0].out)).kind
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
    for question in speaker.said(other[0]).at(speaker.level)[0]:
        found = _WHICH.match(question)
        if found and says_kind(found[2], kind) and found[2] not in ("one", "ones") and fits(question, inner):
            filled = _WHICH.match(fill(question, inner))
            if filled is not None:
                noun = filled[2] if is_plural(filled[2]) or filled[2] != "person" else kind
                options.append((1.5, f"{filled[1]} {topic.text} {noun} {filled[3]}"))
    return options


def _stands_before(topic: Phrase) -> bool:
    """Whether a name can be an adjective: a short one, with no sign and no article in it."""
    name = (topic.name or "").replace("_", " ")
    plain = all(sign.isalnum() or sign in " -." for sign in name)
    return (
        topic.simple and plain and len(name.split()) <= LONGEST and not name.lower().startswith(("the ", "a ", "an "))
    )
