"""Which entities of a graph a question mentions: equal names first, longest first, then near spellings.

Every run of up to twelve words is looked up by name, as written and normalised. What is found is weighed by rules,
each of which can be read off `Mention.why`: quotation marks, underscores, capitals where the question has capitals
and small letters, how many words tell something. Where that leaves nothing but common words, near spellings and
names that hold the words ("obama", Barack Obama) are looked for. Of equal names the better connected one is chosen.

It knows English function words, the words of the graph's relations, and scripts without spaces. It does not know
what a question means: no aliases ("the Big Apple", "JFK" unless the graph has the name), no plurals or demonyms
("Jamaican"), no types, no context; and which of two equal names is meant is a guess by popularity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kgwalk.agent.linking.evidence import FAIR, STRONG, WEAK, Match, choose, equal_names, overlapping
from kgwalk.agent.linking.names import Asked, Names, Stored
from kgwalk.agent.linking.near import better_known, faintly_alike, near_names
from kgwalk.agent.linking.words import FUNCTION_WORDS, Text
from kgwalk.kg.graph import Graph
from kgwalk.kg.store import StoredGraph
from kgwalk.types import Found

__all__ = ["FUNCTION_WORDS", "Mention", "link", "nearest", "topics"]


@dataclass(frozen=True, slots=True)
class Mention:
    """One stretch of the question and the entities it may mean.

    `start` and `end` count characters of the question; `candidates` has the best first, which is the choice.
    Not `sure`: show the candidates to the user. `why` says what spoke for it; `rank` is 0 for the best evidence.
    """

    text: str
    start: int
    end: int
    candidates: list[Found]
    sure: bool
    why: str = ""
    rank: int = 0


def link(question: str, graph: Graph, *, most: int = 5) -> list[Mention]:
    """The mentions of a question in order of appearance, none overlapping, each with at most `most` candidates."""
    if most < 1:
        raise ValueError(f"most must be at least 1, got {most}")
    text, names = Text(question), _names(graph)
    chosen = choose(equal_names(text, names))
    chosen = choose([*chosen, *near_names(text, names, chosen)])
    if not text.cased:
        chosen = [better_known(text, names, match) for match in chosen]
        chosen.sort(key=lambda match: match.weight, reverse=True)
    best = _telling(chosen)
    mentions = [_mention(text, best, rank, most) for rank in range(len(best))]
    return sorted(mentions, key=lambda mention: mention.start)


def nearest(question: str, graph: Graph, *, most: int = 3) -> list[str]:
    """Names to offer where a question mentions nothing: those with a word like one of its words, the likest first."""
    return faintly_alike(Text(question), _names(graph))[:most]


def _names(graph: Graph) -> Names:
    return Stored(graph) if isinstance(graph, StoredGraph) else Asked(graph)


def _telling(chosen: Sequence[Match]) -> list[Match]:
    """What to return of matches in order of evidence: a name that is one common word only where nothing is better."""
    if not chosen:
        return []
    least = {STRONG: FAIR, FAIR: WEAK}.get(chosen[0].level, chosen[0].level)
    return [match for match in chosen if match.level >= least]


def topics(mentions: list[Mention]) -> list[str]:
    """The chosen names, best evidence first."""
    ranked = sorted(mentions, key=lambda mention: mention.rank)
    return list(dict.fromkeys(mention.candidates[0].name for mention in ranked))


def _mention(text: Text, best: Sequence[Match], rank: int, most: int) -> Mention:
    match = best[rank]
    candidates = [one.found for one in match.named]
    stretch = text.question[match.start : match.end]
    why = f"{candidates[0].how}: {match.why}"
    return Mention(stretch, match.start, match.end, candidates[:most], _sure(text, best, match), why, rank)


def _sure(text: Text, best: Sequence[Match], match: Match) -> bool:
    """Whether an equal name is the only one, and nothing beside it looks like more of the name."""
    first, *others = (one.found for one in match.named)
    if first.how == "fuzzy" or match.level < (FAIR if len(best) == 1 else STRONG):
        return False
    if not text.cased:
        return not others
    beside = [at for at in (match.first - 1, match.last + 1) if 0 < at < len(text.words) and text.capital[at]]
    if any(not overlapping(best, at, at) for at in beside):
        return False
    return first.how == "exact" or (not others and first.name[:1].isupper())
