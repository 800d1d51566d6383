"""What a walk must pass to be a demonstration: named filters, each with a reason for those that fall out.

Graph-RFT, appendix A.1: the format (no tags but its own, one plan), the answer, the retrieval (what was answered was
retrieved, and the web was asked for what the graph lacks and for nothing else) and the plan. There GPT-4 judges the
plan; here its steps must be those that were walked. Explore-on-Graph and KG-Hopper ask for the right form and the right
answer. Knows walks, not how they came about.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from kgwalk.agent.plan import Plan, SearchKG
from kgwalk.agent.protocol import World
from kgwalk.agent.protocols import graph_rft
from kgwalk.agent.web import WEB_SEARCH, names
from kgwalk.config.recipe import unknown
from kgwalk.score.retrieval import shown_to
from kgwalk.types import Answer, Call, Episode, StopReason, Turn

_TAG = re.compile(r"</?([A-Za-z][\w-]*)[^<>]*>")
_COMMON = {"think", "answer"}


@dataclass(frozen=True, slots=True)
class Walked:
    """A walk and what is known of it. Turns in `untrained` are wrong on purpose; `counted`: the answer is a count of
    what was shown, as its writer saw to; `lacking`: the graph lacked a fact, and there was a web to ask."""

    episode: Episode
    protocol: str
    f1: float
    untrained: Collection[int] = ()
    answer_f1: float = 1.0
    counted: bool = False
    lacking: bool = False


def reason_against(walked: Walked, filters: Sequence[str]) -> str | None:
    """Why the walk is no demonstration, by the first filter that it does not pass; None if it passes all."""
    for name in filters:
        if name not in FILTERS:
            raise unknown("filter", name, FILTERS)
        why = FILTERS[name](walked)
        if why is not None:
            return f"{name}: {why}"
    return None


def by_length(walked: Walked) -> str | None:
    reasons = {StopReason.tokens: "the context is full", StopReason.prompt: "the prompt is too long"}
    return reasons.get(walked.episode.stop)


def by_format(walked: Walked) -> str | None:
    episode = walked.episode
    for place, turn in enumerate(episode.turns):
        if not turn.ok and place not in walked.untrained:
            return turn.error or "a call fails"
    if episode.stop != StopReason.answered:
        return f"no answer ({episode.stop})"
    own = _COMMON | {found.lower() for found in _TAG.findall(episode.prompt)}
    for turn in episode.turns:
        foreign = [found for found in _TAG.findall(turn.text) if found.lower() not in own]
        if foreign:
            return "a tag that is not the protocol's"
    return None


def by_answer(walked: Walked) -> str | None:
    return None if walked.f1 >= walked.answer_f1 else f"F1 below {walked.answer_f1:g}"


def by_retrieval(walked: Walked) -> str | None:
    """Every answer was shown: by a set that a tool made, as an entity, in a document, or as a number to be counted."""
    episode, web = walked.episode, web_turns(walked.episode)
    if walked.lacking and not web:
        return "the web was not searched for what the graph lacks"
    last = episode.turns[-1].step if episode.turns else None
    by_set = isinstance(last, Answer) and last.names and all(isinstance(name, int) for name in last.names)
    if by_set or walked.counted:
        return None
    shown = shown_to(episode)
    missing = [name for name in episode.answers if name not in shown]
    if web and not missing and not walked.lacking:
        return "the web was searched for what the graph had"
    missing = [name for name in missing if not read_of(name, episode)]
    sizes = {str(size) for size in _sizes(episode)}
    return "an answer was never shown" if any(name not in sizes for name in missing) else None


def lacking(world: World) -> bool:
    """Whether a walk in this world should ask the web."""
    return not world.complete and world.web is not None


def web_turns(episode: Episode) -> list[Turn]:
    return [turn for turn in episode.turns if isinstance(turn.step, Call) and turn.step.tool == WEB_SEARCH]


def read_of(name: str, episode: Episode) -> bool:
    """Whether a document that the walk was shown has the name."""
    return any(names(document, name) for turn in web_turns(episode) for document in turn.documents)


def _sizes(episode: Episode) -> set[int]:
    """How many entities each relation was shown to lead to from each entity: what a count may come from."""
    ends: dict[tuple[str, str, bool], set[str]] = {}
    for head, relation, tail, _ in episode.seen:
        ends.setdefault((head, relation, True), set()).add(tail)
        ends.setdefault((tail, relation, False), set()).add(head)
    return {len(names) for names in ends.values()}


def by_plan(walked: Walked) -> str | None:
    """Each search of the plan was done, in its order, and nothing was searched that neither it nor the graph named."""
    if walked.protocol != graph_rft.GraphRft.name:
        return None
    plans = [plan for turn in walked.episode.turns[:1] if (plan := graph_rft.parse(turn.text, planned=False)[1])]
    if not plans:
        return "there is no plan in the first turn"
    calls = [turn.step for turn in walked.episode.turns if isinstance(turn.step, Call)]
    shown = shown_to(walked.episode)
    return _followed(plans[0], calls, lambda name: name in shown or read_of(name, walked.episode))


def _followed(plan: Plan, calls: Sequence[Call], shown: Callable[[str], bool]) -> str | None:
    searched = [str(call.args[0]) for call in calls if call.tool in ("neighbor_search", WEB_SEARCH)]
    heads = [step.function.head for step in plan.steps if isinstance(step.function, SearchKG)]
    named = {head for head in heads if isinstance(head, str)}
    if any(entity not in named and not shown(entity) for entity in searched):
        return "an entity was searched that is not in the plan"
    at = 0
    for head in heads:
        while at < len(searched) and not (searched[at] == head if isinstance(head, str) else shown(searched[at])):
            at += 1
        if at == len(searched):
            return "a step of the plan was not carried out"
        at += 1
    return None


FILTERS: dict[str, Callable[[Walked], str | None]] = {
    "length": by_length,
    "format": by_format,
    "answer": by_answer,
    "retrieval": by_retrieval,
    "plan": by_plan,
}
