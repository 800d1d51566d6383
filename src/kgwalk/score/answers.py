"""Strict scores of an answer: the set of entities it names against the set of right ones.

KG-R1, section 3.2: answers are normalised, each is counted once, and they are resolved to entities of the graph.
A blank name is a wrong prediction, never a wildcard. Knows names and counts, nothing of walks.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from kgwalk.kg.graph import Graph
from kgwalk.kg.normalise import normalise
from kgwalk.score.gold import Gold, forms, truth_of

_LOOKED_AT = 8  # names that `find` gives for one prediction


@dataclass(frozen=True, slots=True)
class Matched:
    """How many entities were predicted, are right, and both; and whether the first prediction is.

    Three predicted, two of them right, of four: P = 2/3, R = 2/4, F1 = 2 * 2 / (3 + 4).

    >>> scores = Matched(predicted=3, gold=4, both=2, first=True)
    >>> round(scores.precision, 3), scores.recall, round(scores.f1, 3), scores.hits_at_1, scores.exact_set
    (0.667, 0.5, 0.571, 1.0, 0.0)
    >>> Matched(predicted=0, gold=4, both=0, first=False).f1
    0.0

    Where nothing is right (a question without an answer), to predict nothing is: all scores are 1.

    >>> Matched(predicted=0, gold=0, both=0, first=False).f1, Matched(predicted=1, gold=0, both=0, first=False).f1
    (1.0, 0.0)
    """

    predicted: int
    gold: int
    both: int
    first: bool

    @property
    def precision(self) -> float:
        return self.both / self.predicted if self.predicted else self._nothing

    @property
    def recall(self) -> float:
        return self.both / self.gold if self.gold else self._nothing

    @property
    def f1(self) -> float:
        """2PR / (P + R), which is Graph-RFT's equation 3 and EoG's equation 3."""
        return 2 * self.both / (self.predicted + self.gold) if self.predicted + self.gold else 1.0

    @property
    def hits_at_1(self) -> float:
        """1 if the first predicted name is right: the first of the list, not any of it."""
        return float(self.first) if self.predicted else self._nothing

    @property
    def exact_set(self) -> float:
        """1 if all that is right was predicted and nothing else."""
        return float(self.both == self.predicted == self.gold)

    @property
    def _nothing(self) -> float:
        return float(self.predicted == self.gold == 0)


def match(predicted: Sequence[str], gold: Gold, graph: Graph | None = None) -> Matched:
    """Predictions against the right answers. Each entity counts once, by whichever of its names it was predicted.

    >>> gold = Gold((("United States", "USA"), ("Washington, D.C.",)))
    >>> match(["USA", "united states", "Washington, D.C.", "Paris", "paris!"], gold)
    Matched(predicted=3, gold=2, both=2, first=True)
    >>> match(["", "D.C.", "USA"], gold)
    Matched(predicted=3, gold=2, both=1, first=False)
    """
    named = [gold.entity_of(name, graph) for name in predicted]
    right = {entity for entity in named if entity is not None}
    wrong = [name for name, entity in zip(predicted, named, strict=True) if entity is None]
    others = len(distinct(wrong, graph))
    return Matched(len(right) + others, len(gold), len(right), bool(named) and named[0] is not None)


def f1(predicted: Sequence[str], gold: Gold, graph: Graph | None = None) -> float:
    """The F1 of `match`: what rewards are made of."""
    return match(predicted, gold, graph).f1


def accuracy(predicted: Sequence[str], gold: Gold) -> float:
    """Of a question that asks whether something is so: 1 if all that was answered is the right word for it.

    >>> gold = Gold((("true", "yes"),), truth=True)
    >>> accuracy(["Yes."], gold), accuracy(["no"], gold), accuracy(["yes", "no"], gold), accuracy([], gold)
    (1.0, 0.0, 0.0, 0.0)
    """
    said = {truth_of(name) for name in predicted}
    return float(gold.truth is not None and said == {gold.truth})


def processed(predicted: Sequence[str], graph: Graph | None = None) -> list[str]:
    """The predicted names as entities of the graph where they are, each once, in the order given.

    A name is an entity's if it is written so, or if one entity alone has that name but for case, accents and
    punctuation. Nothing is guessed: "Tom Hank" stays what it is. `match` gives a list and what becomes of it here the
    same score; it asks the graph less.

    >>> processed(["  Tom   Hanks ", "tom hanks", "Big"])
    ['Tom Hanks', 'Big']
    """
    return distinct([_resolved(name, graph) for name in predicted], graph)


def distinct(names: Sequence[str], graph: Graph | None = None) -> list[str]:
    """The names that differ by their key, the first spelling of each; names that are all in the graph all stay."""
    alike: dict[str, list[str]] = {}
    for name in names:
        spellings = alike.setdefault(forms(name).key, [])
        if name not in spellings:
            spellings.append(name)
    kept: list[str] = []
    for spellings in alike.values():
        known = [name for name in spellings if name in graph] if graph is not None and len(spellings) > 1 else []
        kept += known or spellings[:1]
    return kept


def _resolved(name: str, graph: Graph | None) -> str:
    text = " ".join(name.split())
    if graph is None or not text:
        return text
    if name in graph:
        return name
    # `find` takes "C" for "C++", so a few of its names are looked at, and only those of the same key are meant.
    alike = [found.name for found in graph.find(text, _LOOKED_AT) if found.how != "fuzzy"]
    alike = [found for found in alike if forms(found).key == forms(text).key]
    return alike[0] if len(alike) == 1 else text


# ----------------------------------------------------------------------------------------------------
# Lenient scores, under their own names, for comparison with published figures. None of them counts wrong answers.
#
# What a paper calls Hit@1 is usually one of these; docs/reference/metrics.md says which. Ours is `hits_at_1` in
# score/answers.py. A blank name matches nothing here either, though published code lets it match everything.


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def hit_any(predicted: Sequence[str], gold: Gold, graph: Graph | None = None) -> float:
    """1 if any predicted name is right, however many are wrong: EoG's Hit@1 (section 4.1), and that of KG-R1's code.

    >>> gold = Gold((("Paris",),))
    >>> hit_any(["London", "Rome", "paris"], gold), hit_any(["Paris, Texas"], gold)
    (1.0, 0.0)
    """
    return float(any(gold.entity_of(name, graph) is not None for name in predicted))


def hit_substring(predicted: Sequence[str], gold: Gold) -> float:
    """1 if a right name, normalised, is a part of the normalised answer, even inside a word.

    The test of RoG's evaluator, and one direction of Think-on-Graph's: KG-R1 says that it follows both, Graph-RFT,
    KG-Hopper and KG-Reasoner the second. "US" is a part of "music":

    >>> hit_substring(["Country music"], Gold((("US",),))), hit_substring(["Paris, Texas"], Gold((("Paris",),)))
    (1.0, 1.0)
    >>> hit_substring([""], Gold((("Paris",),)))
    0.0
    """
    answer = " ".join(filter(None, (normalise(name) for name in predicted)))
    return float(any(text in answer for text in gold.texts))


def em_token(predicted: Sequence[str], gold: Gold) -> float:
    """1 if the words of a predicted name, or of all of them one after the other, are those of a right name.

    The exact match of SQuAD (case, punctuation and English articles dropped wherever they stand, the best over the
    right names): the "exact match accuracy" of Graph-RFT's section 4, and the EM of KG-R1's Table 7.

    >>> gold = Gold((("Washington, D.C.",),))
    >>> em_token(["the Washington DC"], gold), em_token(["Washington", "D.C."], gold), em_token(["Washington"], gold)
    (1.0, 1.0, 0.0)
    """
    right = {_words(name) for names in gold.entities for name in names} - {""}
    said = {_words(name) for name in predicted} | {_words(" ".join(predicted))}
    return float(not right.isdisjoint(said))


@lru_cache(1 << 16)
def _words(text: str) -> str:
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())
