"""Whether a walk was shown the right answers: entities by name, in what the model could read after truncation.

KG-R1's retrieval rate (v_ret of equation 2, "Ret.Rate" of Table 3) is `rate`; Graph-RFT's equation 4 asks for all of
them. Their code looks for the text of a name in all that was retrieved, where "US" is found in "music". Documents of
a web search hold no entities and do not count. Knows nothing of what was answered.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kgwalk.kg.graph import Graph
from kgwalk.score.gold import Gold
from kgwalk.types import Episode


@dataclass(frozen=True, slots=True)
class Retrieved:
    """How many of the right entities were shown.

    >>> shown = Retrieved(shown=1, gold=4)
    >>> shown.rate, shown.share, shown.all
    (1.0, 0.25, 0.0)
    """

    shown: int
    gold: int

    @property
    def rate(self) -> float:
        """1 if any was."""
        return float(self.shown > 0)

    @property
    def share(self) -> float:
        return self.shown / self.gold if self.gold else 0.0

    @property
    def all(self) -> float:
        return float(self.shown == self.gold > 0)


def retrieved(names: Iterable[str], gold: Gold, graph: Graph | None = None) -> Retrieved:
    """
    >>> retrieved(["music", "The Beatles"], Gold((("US",), ("Beatles",))))
    Retrieved(shown=1, gold=2)
    """
    shown: set[int] = set()
    for name in names:
        entity = gold.entity_of(name, graph)
        if entity is not None:
            shown.add(entity)
            if len(shown) == len(gold):
                break
    return Retrieved(len(shown), len(gold))


def shown_to(episode: Episode) -> dict[str, None]:
    """The entities that the model was shown, in order: those of facts in its prompt, then of each observation; then
    the dates of the facts that it was told, of a span both ends.

    The topics are given, not retrieved: they count where a fact or a result shows them.
    """
    dates = [date for fact in episode.seen if fact.time for date in (fact.time, *fact.time.split(".."))]
    shown = (episode.shown, *(turn.shown for turn in episode.turns), dates)
    return dict.fromkeys(name for names in shown for name in names if name)
