"""How much of a walk's exploring was to the point: Explore-on-Graph's appendix P, over facts.

The paper reads the facts off the thought of a model that has the graph in its prompt. Here a fact is explored if an
observation told it, if an answer rests on it, or, where it stands in the prompt, if the model's own text names its
head, relation and tail, each as whole words. Dates are set aside. Knows nothing of answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from itertools import takewhile

from kgwalk.kg.normalise import normalise
from kgwalk.types import Episode, Question, Triple


@dataclass(frozen=True, slots=True)
class Explored:
    """How many facts were explored, how many are on the gold paths, and how many are both.

    Eight explored, two of them among the four that are needed: 8/2 = 4 facts for each needed one.

    >>> walk = Explored(explored=8, gold=4, both=2)
    >>> walk.efficiency, walk.coverage, walk.precision
    (4.0, 0.5, 0.25)
    """

    explored: int
    gold: int
    both: int

    @property
    def efficiency(self) -> float | None:
        """Equation 6 of one question, less is better; None where no needed fact was found: there it is 1/0.

        The paper does not say what it does then. Any number put in its place would rank a walk that found nothing, so
        such walks are left out of the mean and their share is reported beside it: see `found`.
        """
        return self.explored / self.both if self.both else None

    @property
    def coverage(self) -> float:
        """Equation 7 of one question: the share of the needed facts that was found."""
        return self.both / self.gold if self.gold else 0.0

    @property
    def precision(self) -> float:
        """The share of explored facts that is needed: what dumping the whole graph brings down. 0 if none was."""
        return self.both / self.explored if self.explored else 0.0

    @property
    def found(self) -> float:
        """1 if efficiency is a number."""
        return float(self.both > 0)


def exploration(explored: Set[Triple], gold: Set[Triple]) -> Explored:
    """
    >>> a, b, c = Triple("x", "r", "a"), Triple("x", "r", "b"), Triple("x", "r", "c")
    >>> exploration({a, b}, {b, c})
    Explored(explored=2, gold=2, both=1)
    """
    return Explored(len(explored), len(gold), len(explored & gold))


def gold_facts(question: Question) -> set[Triple]:
    """The facts of all gold paths; where there are none, the evidence; undated."""
    paths = question.gold_paths if question.gold_paths else [question.evidence or []]
    return {_undated(fact) for path in paths for fact in path}


def explored(episode: Episode) -> set[Triple]:
    """The facts that a walk explored, undated."""
    given, told = _given(episode)
    found = set(told)
    found.update(fact for path in episode.evidence.values() for fact in path)
    if given:
        found.update(named(given, (turn.text for turn in episode.turns)))
    return {_undated(fact) for fact in found}


def named(facts: Iterable[Triple], texts: Iterable[str]) -> list[Triple]:
    """The facts whose head, relation and tail all occur in the texts as whole words.

    >>> facts = [Triple("Big", "directed_by", "Penny Marshall"), Triple("Big", "genre", "US")]
    >>> named(facts, ["Big was directed by Penny Marshall; its genre? Music."])
    [Triple(head='Big', relation='directed_by', tail='Penny Marshall', time='')]
    """
    text = f" {' '.join(map(normalise, texts))} "
    known: dict[str, bool] = {}

    def occurs(name: str) -> bool:
        if name not in known:
            known[name] = f" {normalise(name)} " in text
        return known[name]

    return [fact for fact in facts if occurs(fact.head) and occurs(fact.tail) and occurs(fact.relation)]


def _given(episode: Episode) -> tuple[list[Triple], list[Triple]]:
    """The facts that the prompt told, which come first, and those that observations told."""
    if not episode.shown:
        return [], episode.seen
    shown = set(episode.shown)
    given = list(takewhile(lambda fact: fact.head in shown and fact.tail in shown, episode.seen))
    return given, episode.seen[len(given) :]


def _undated(fact: Triple) -> Triple:
    return fact._replace(time="") if fact.time else fact
