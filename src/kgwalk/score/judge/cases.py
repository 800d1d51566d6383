"""What there is to judge: a case of one kind, written by hand or read off an episode.

Knows nothing of prompts or engines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from kgwalk.agent.protocols.graph_rft import parse
from kgwalk.config.recipe import unknown
from kgwalk.types import Episode


class Said(NamedTuple):
    """A piece of an episode: what the model wrote, or what its tools told it."""

    by: Literal["model", "tools"]
    text: str


@dataclass(frozen=True, slots=True)
class Case:
    """`kind` is one of `kinds.KINDS`; which of the other fields it looks at stands there.

    `gold` is None where no answer is known. `aliases` are other names of gold entities. `given` is what the model was
    told at first. `void` says why there is nothing to judge: such a case fails without a call.
    """

    kind: str
    question: str
    gold: Sequence[str] | None = None
    aliases: Mapping[str, Sequence[str]] = field(default_factory=dict)
    predicted: Sequence[str] = ()
    steps: Sequence[Said] = ()
    plan: str = ""
    given: str = ""
    void: str | None = None


def equivalence_case(episode: Episode) -> Case:
    """For each gold answer: is it among the answers given, by whatever name? (KG-R1, appendix C.1)"""
    question = episode.question
    return Case(
        "equivalence",
        question.question,
        gold=list(question.answers),
        aliases=question.aliases,
        predicted=list(episode.answers),
        void=_void(episode),
    )


def correct_case(episode: Episode, *, gold: bool = True) -> Case:
    """Is the answer right: by the gold answers, or without them by what the judge knows? (KG-Hopper, equation 4)"""
    question = episode.question
    return Case(
        "correct",
        question.question,
        gold=list(question.answers) if gold else None,
        aliases=question.aliases if gold else {},
        predicted=list(episode.answers),
        void=_void(episode),
    )


def reasoning_case(episode: Episode) -> Case:
    """How sound is the reasoning? The judge sees the walk, and no gold answer (KG-Hopper, equation 3)."""
    return Case("reasoning", episode.question.question, steps=steps(episode), void=_void(episode))


def plan_case(episode: Episode, plan: str | None = None) -> Case:
    """Is the plan reasonable? (Graph-RFT, appendix A.1) Without `plan`, the first one that the episode's turns hold
    in Graph-RFT's form; a plan that its parser could not read is none."""
    written = plan_of(episode) if plan is None else plan
    return Case("plan", episode.question.question, plan=written, void=_void(episode))


def quality_case(episode: Episode) -> Case:
    """Six scores of the reasoning (Explore-on-Graph, section 4.4). The prompt is shown too: EoG's graph is in it."""
    question = episode.question
    return Case(
        "quality",
        question.question,
        gold=list(question.answers) or None,
        aliases=question.aliases,
        steps=steps(episode),
        given=episode.prompt,
        void=_void(episode),
    )


def case_of(kind: str, episode: Episode) -> Case:
    """The case of a kind by its name, with the gold answers if there are any."""
    if kind not in BUILDERS:
        raise unknown("kind of judgement", kind, BUILDERS)
    return BUILDERS[kind](episode)


BUILDERS: dict[str, Callable[[Episode], Case]] = {
    "equivalence": equivalence_case,
    "correct": lambda episode: correct_case(episode, gold=bool(episode.question.answers)),
    "reasoning": reasoning_case,
    "plan": plan_case,
    "quality": quality_case,
}


def steps(episode: Episode) -> list[Said]:
    """The walk: each turn's text, and what was told after it."""
    said: list[Said] = []
    for turn in episode.turns:
        said.append(Said("model", turn.text))
        if turn.observation:
            said.append(Said("tools", turn.observation))
    return said


def plan_of(episode: Episode) -> str:
    """The plan as the walk kept it, or "".

    >>> from kgwalk.types import Malformed, Question, Turn
    >>> text = '<think>x</think><plan>Step 1: Who? Ans1 = SearchKG(t=team | h=Rocky, r=mascot)</plan>'
    >>> print(plan_of(Episode(Question("q", "?", [], []), [], [], "", [Turn([], [], text, Malformed("no action"))])))
    Step 1: Who?
    Ans1 = SearchKG(t="team" | h="Rocky", r="mascot")
    """
    for turn in episode.turns:
        _, plan = parse(turn.text, planned=False)
        if plan is not None:
            return str(plan)
    return ""


def _void(episode: Episode) -> str | None:
    """An episode that a backend ended says nothing of the model: to judge its empty answer would be to score it."""
    return None if episode.trainable else f"the episode failed ({episode.stop}): {episode.failure}"
