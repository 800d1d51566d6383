"""What went wrong in a wrong episode: Graph-RFT's five classes (section 4.4), by rule.

The paper sorts 50 failures by hand and gives no rules. These are ours, over the trace and the gold paths; the first
that fits decides:

| # | when | class |
|---|---|---|
| 1 | the answer is right (F1 is 1) | None |
| 2 | the engine or a tool failed, or the prompt did not fit | unassigned |
| 3 | no answer, and the last turn or half of all were malformed or failed; or every call failed | invalid_action |
| 4 | several topics, of which some were asked about and some never | decomposition |
| 5 | every right answer was shown or answered, or every gold fact explored | reasoning |
| 6 | there are no gold paths and no evidence | unassigned |

Else a gold path is broken. Of the unfinished paths take the one followed furthest, and its first fact that was not
explored: it leads from an entity here, by a relation, to an entity there.

| # | when | class |
|---|---|---|
| 7 | the relation was followed from here, but what is there did not come up | neighbor_selection |
| 8 | something was asked about here, never by the relation | relation_selection |
| 9 | nothing was asked about here, but about an entity that is on no gold path | neighbor_selection |
| 10 | nothing further was asked: the walk stopped short, or left a branch out | decomposition |

A call past the last turn is no fault of form. The rules hold for every protocol: they read only the texts in the
arguments of calls, the facts that were told, and the entities shown. Where calls take named sets, members that were not
shown are not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kgwalk.kg.graph import Graph
from kgwalk.score.answers import Gold, forms, gold_of, match
from kgwalk.score.episode import retrieved, shown_to
from kgwalk.score.exploration import explored, gold_facts
from kgwalk.types import Call, Episode, Question, StopReason, Triple, Turn
from kgwalk.walk.facts import path_to


class ErrorClass(StrEnum):
    invalid_action = "invalid_action"
    relation_selection = "relation_selection"
    neighbor_selection = "neighbor_selection"
    reasoning = "reasoning"
    decomposition = "decomposition"
    unassigned = "unassigned"


@dataclass(frozen=True, slots=True)
class GoldFact:
    """One fact of a gold path, in the direction in which it is walked."""

    here: str
    fact: Triple
    there: str


def error_class(episode: Episode, graph: Graph | None = None, gold: Gold | None = None) -> ErrorClass | None:
    """The class of a wrong episode's error; None for a right one. The module's docstring has the rules."""
    gold = gold or gold_of(episode.question)
    answered = episode.stop == StopReason.answered
    scores = match(episode.answers, gold, graph)
    if answered and scores.f1 == 1:
        return None
    if not episode.trainable:
        return ErrorClass.unassigned
    if _invalid(episode.turns, answered):
        return ErrorClass.invalid_action
    trace = _Trace(episode)
    if trace.forgot_a_topic():
        return ErrorClass.decomposition
    facts = gold_facts(episode.question)
    whole = bool(facts) and facts <= trace.facts
    if whole or (answered and scores.recall == 1) or retrieved(shown_to(episode), gold, graph).all:
        return ErrorClass.reasoning
    return trace.broken(gold_steps(episode.question))


def gold_steps(question: Question) -> list[list[GoldFact]]:
    """The gold paths, each walked from a topic; where only evidence is known, the ways to each of its entities."""
    topics = question.topic_entities
    paths: Sequence[Sequence[Triple]] = question.gold_paths or []
    if not paths and question.evidence:
        ends = dict.fromkeys(end for fact in question.evidence for end in (fact.tail, fact.head))
        paths = [path_to(end, topics, question.evidence) for end in ends if end not in topics]
    return [list(_walked(path, topics)) for path in paths if path]


def _walked(path: Sequence[Triple], topics: Sequence[str]) -> Iterator[GoldFact]:
    here: str | None = None
    for fact in path:
        if here not in (fact.head, fact.tail):  # the beginning, or no chain: begin anew
            here = fact.tail if fact.tail in topics and fact.head not in topics else fact.head
        there = fact.tail if here == fact.head else fact.head
        yield GoldFact(here, fact._replace(time=""), there)
        here = there


def _invalid(turns: Sequence[Turn], answered: bool) -> bool:
    faults = [not turn.ok and not (turn.error == "no_turns" and isinstance(turn.step, Call)) for turn in turns]
    if not answered and turns and (faults[-1] or 2 * sum(faults) >= len(faults)):
        return True
    calls = [turn.ok for turn in turns if isinstance(turn.step, Call) and turn.error != "no_turns"]
    return bool(calls) and not any(calls)


class _Trace:
    """What a walk asked about and what it learnt. Entities are compared by their keys."""

    def __init__(self, episode: Episode) -> None:
        self.question = episode.question
        self.facts = explored(episode)
        self.asked: set[str] = set()  # keys of all texts in calls, and of entities that something was asked about
        self.sources: set[str] = set()  # of these, the ones that are known to be entities
        self.followed: set[tuple[str, str]] = set()  # a source, with a relation
        entities = {forms(name).key for name in [*episode.topics, *shown_to(episode)]}
        accounted: set[Triple] = set()
        for turn in episode.turns:
            if isinstance(turn.step, Call) and turn.ok:
                named = {forms(arg).key for arg in turn.step.args if isinstance(arg, str)}
                self.asked |= named
                self.sources |= named & entities
                accounted.update(self._told(turn, turn.step, named, episode.seen))
        for path in episode.evidence.values():
            for step in _walked(path, episode.topics):
                self._ask(step.here, step.fact.relation)
                accounted.add(step.fact)
        for fact in self.facts - accounted:  # read in the prompt, or between two sets: either end was thought of
            self._ask(fact.head, fact.relation)
            self._ask(fact.tail, fact.relation)

    def _told(self, turn: Turn, call: Call, named: set[str], seen: Sequence[Triple]) -> Iterator[Triple]:
        """The facts that a call told: one end was shown, and the other end or the relation stands in the call."""
        shown = set(turn.shown)
        for fact in seen:
            for source, other in ((fact.head, fact.tail), (fact.tail, fact.head)):
                by_relation = fact.relation in call.args and source not in shown
                if other in shown and (by_relation or forms(source).key in named):
                    self._ask(source, fact.relation)
                    yield fact._replace(time="")

    def _ask(self, entity: str, relation: str) -> None:
        key = forms(entity).key
        self.asked.add(key)
        self.sources.add(key)
        self.followed.add((key, relation))

    def forgot_a_topic(self) -> bool:
        used = [forms(topic).key in self.asked for topic in self.question.topic_entities]
        return any(used) and not all(used)

    def broken(self, paths: Sequence[Sequence[GoldFact]]) -> ErrorClass:
        """Rules 6 to 10."""
        unfinished = [(done, path) for path in paths if (done := self._done(path)) < len(path)]
        if not unfinished:
            return ErrorClass.unassigned
        done, path = max(unfinished, key=lambda entry: entry[0])
        here, relation = forms(path[done].here).key, path[done].fact.relation
        if (here, relation) in self.followed:
            return ErrorClass.neighbor_selection
        if here in self.asked:
            return ErrorClass.relation_selection
        right = {forms(end).key for path in paths for step in path for end in (step.here, step.there)}
        right.update(forms(topic).key for topic in self.question.topic_entities)
        return ErrorClass.neighbor_selection if self.sources - right else ErrorClass.decomposition

    def _done(self, path: Sequence[GoldFact]) -> int:
        return next((at for at, step in enumerate(path) if step.fact not in self.facts), len(path))
