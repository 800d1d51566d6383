"""The facts that a thought names, in the two forms in which prompts and observations write facts.

    ["Big", "directed_by", "Penny Marshall"]      JSON, as in Explore-on-Graph's prompt; a date may follow
    (Big, directed_by, Penny Marshall)            a name with a comma or a quote in double quotes

A name may hold commas, brackets and quotes. Knows nothing of which facts are right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kgwalk.tools.facts import read_name
from kgwalk.tools.text import split_arguments
from kgwalk.types import Episode, Malformed, Triple

_THOUGHT = re.compile(r"<think>(.*?)</think>", re.DOTALL)
# Possessive throughout: what a model writes is as long as it likes, and nothing here may look at it twice.
_STRING = r'"(?:[^"\\]|\\.)*+"'
_ROW = re.compile(rf"\[(\s*+{_STRING}(?:\s*+,\s*+{_STRING}){{2,3}}+\s*+)\]", re.DOTALL)
_NAME = rf'(\s*+{_STRING}\s*+|(?:[^",()\n]|\([^()\n]*+\))++)'
_BRACKETED = re.compile(rf"\({_NAME},{_NAME},{_NAME}\)")


def thought_of(episode: Episode) -> str:
    """What the model wrote between think tags, in all turns that are in form; a thought may go on over turns.

    >>> from kgwalk.types import Answer, Call, Question, Turn
    >>> first = Turn([], [], "<think>One. <search>x</search>", Call("search", ("x",)), "<triples>(x, r, y)</triples>")
    >>> last = Turn([], [], "Two.</think><answer>y</answer>", Answer(("y",)))
    >>> thought_of(Episode(Question("q", "?", [], []), [], [], "", [first, last]))
    'One. <search>x</search>Two.'
    """
    text = "".join(turn.text for turn in episode.turns if not isinstance(turn.step, Malformed))
    return "\n".join(_THOUGHT.findall(text))


def facts_named(text: str) -> set[Triple]:
    """The facts of a text, undated.

    >>> sorted(facts_named('So ["Washington, D.C.", "in", "US"]. (Big (film), by, "Marshall, Penny") and (that, is).'))
    [Triple(head='Big (film)', relation='by', tail='Marshall, Penny', time=''), \
Triple(head='Washington, D.C.', relation='in', tail='US', time='')]
    """
    return set(_facts_named(text))


def _facts_named(text: str) -> Iterator[Triple]:
    for found in _ROW.finditer(text):
        names = split_arguments(found.group(1))
        if names is not None:
            yield Triple(*names[:3])
    for found in _BRACKETED.finditer(text):
        yield Triple(*map(read_name, found.groups()))
