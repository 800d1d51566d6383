"""Lenient scores, under their own names, for comparison with published figures. None of them counts wrong answers.

What a paper calls Hit@1 is usually one of these; docs/reference/metrics.md says which. Ours is `hits_at_1` in
score/answers.py. A blank name matches nothing here either, though published code lets it match everything.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from functools import lru_cache

from kgwalk.kg.graph import Graph
from kgwalk.kg.normalise import normalise
from kgwalk.score.gold import Gold

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
