"""The ranker of candidate entities, by hand: attention, network, rows, labels, recall, BM25, the saved folder."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import orjson
import pytest

from conftest import FILMS
from kgwalk.evaluation.ranking import GoldStep, expand, places_of, sample
from kgwalk.kg.store import StoredGraph
from kgwalk.training.ranker import example, labels
from kgwalk.types import KgwalkError, Question, Triple
from kgwalk.walk.facts import candidates_around
from kgwalk.walk.ranker_features import Encoder, Near, Texts, joined
from kgwalk.walk.ranking import Bm25Ranker, Candidate, Recalls

torch = pytest.importorskip("torch")
from kgwalk.walk.ranker import (  # noqa: E402
    CandidateBatch,
    Network,
    NetworkShape,
    attend,
    load_ranker,
    mean,
    open_ranker,
    save_ranker,
)

Stores = Callable[..., StoredGraph]
BIG = Triple("Big", "starred_actors", "Tom Hanks")


# Equations 1 to 4


def test_attention_by_hand() -> None:
    query, keys = torch.tensor([[2.0, 0.0]]), torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    values = torch.tensor([[[1.0, 0.0], [0.0, 2.0]]])
    both = torch.tensor([[True, True]])
    # s = (2 / sqrt 2, 0); alpha = e^1.4142 / (e^1.4142 + 1) = 4.1133 / 5.1133
    np.testing.assert_allclose(attend(query, keys, both, values), [[0.8044, 0.3912]], atol=1e-4)
    np.testing.assert_allclose(attend(query, keys, torch.tensor([[False, True]]), values), [[0.0, 2.0]])
    np.testing.assert_allclose(attend(query, keys, ~both, values), [[0.0, 0.0]])


def test_the_papers_network_by_hand() -> None:
    network = Network(NetworkShape(vector=2, width=2, hidden=2, inputs="paper", dropout=0.0))
    one, nothing = torch.eye(2), torch.zeros(2, 2)
    weights = {"w.weight": one, "w_h.weight": torch.cat([nothing, one], dim=1), "first.weight": one}
    weights |= {"first.bias": torch.zeros(2), "second.weight": one.flip(0), "second.bias": torch.zeros(2)}
    network.load_state_dict(weights)
    batch = CandidateBatch(
        question_CD=torch.tensor([[1.0, 0.0]]),
        rest_CD=torch.zeros(1, 2),
        name_CD=torch.tensor([[0.0, 1.0]]),
        near_relation_CND=one[None],
        near_name_CND=one[None],  # t1 = r1 = (1, 0), t2 = r2 = (0, 1)
        there_CN=torch.tensor([[True, True]]),
        candidate_of_R=torch.tensor([0]),
        relation_RD=torch.zeros(1, 2),
        numbers_RK=torch.zeros(1, 5),
    )
    # entries are multiplied by sqrt 2: q (1.4142, 0), products (2, 0) and (0, 2), so s = (2, 0) and
    # alpha = (0.8808, 0.1192); the sum is 1.4142 alpha = (1.2456, 0.1686), which W_h passes on, and W2 swaps
    logits = network(batch)
    np.testing.assert_allclose(logits.detach(), [[0.1686, 1.2456]], atol=1e-4)
    assert logits.softmax(dim=1)[0, 1].item() == pytest.approx(0.7459, abs=1e-4)  # equation 3
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor([1]))
    assert loss.item() == pytest.approx(-math.log(0.7459), abs=1e-3)  # equation 4


def test_the_question_decides() -> None:
    """A candidate's score depends on the question with the paper's and our inputs; with the published code's it does
    not."""
    for inputs in ("paper", "joined", "code"):
        torch.manual_seed(0)
        network = Network(NetworkShape(vector=4, width=4, hidden=16, inputs=inputs)).eval()
        rest = {
            "rest_CD": torch.zeros(1, 4),
            "name_CD": torch.eye(4)[:1],
            "near_relation_CND": torch.ones(1, 2, 4) / 2,
            "near_name_CND": torch.eye(4)[None, 1:3],
            "there_CN": torch.ones(1, 2, dtype=torch.bool),
            "candidate_of_R": torch.tensor([0]),
            "relation_RD": torch.eye(4)[3:],
            "numbers_RK": torch.zeros(1, 5),
        }
        first, second = (network(CandidateBatch(question_CD=torch.eye(4)[at : at + 1], **rest)) for at in (0, 2))
        assert torch.equal(first, second) == (inputs == "code")


def test_the_published_code_takes_the_mean_of_the_neighbours() -> None:
    """Two neighbours (1, 0) and (0, 2), a third place empty: (0.5, 1); none at all: zeros."""
    values = torch.tensor([[[1.0, 0.0], [0.0, 2.0], [9.0, 9.0]]] * 2)
    there = torch.tensor([[True, True, False], [False, False, False]])
    assert mean(there, values).tolist() == [[0.5, 1.0], [0.0, 0.0]]


# What it reads


def test_rows_by_hand(store: Stores) -> None:
    graph = store(FILMS)
    texts = Texts()
    around = candidates_around(graph, "Big", 20)
    assert [one.name for one in around] == ["Penny Marshall", "1988", "Tom Hanks"]
    rows = Encoder(graph, Near(most=3, each=2), texts).rows("who directed Big?", around)

    def said(places: list[int]) -> list[str]:
        return [texts.all[place] for place in places]

    assert said(rows.question_Q.tolist()) == ["who directed Big?"]
    assert said(rows.rest_Q.tolist()) == ["who directed"]
    assert said(rows.name_C.tolist()) == ["Penny Marshall", "1988", "Tom Hanks"]
    assert said(rows.relation_R.tolist()) == ["directed by", "release year", "starred actors"]
    # Tom Hanks is the tail of two facts of one relation
    assert sorted(said(rows.near_name_CN[2][:2].tolist())) == ["Big", "Cast Away"]
    assert rows.near_name_CN[2].tolist()[2] == -1
    # leads out of Big; one fact; one candidate by this relation; the question names Big, and not Penny Marshall
    assert rows.numbers_RK[0].tolist() == pytest.approx([1, math.log(2) / 5, math.log(2) / 5, 1, 0])
    assert rows.numbers_RK[2].tolist() == pytest.approx([1, math.log(3) / 5, math.log(2) / 5, 1, 0])


def test_batches_and_parts_keep_their_places(store: Stores) -> None:
    encoder = Encoder(store(FILMS), Near(), Texts())
    parts = [encoder.rows("who?", candidates_around(encoder.graph, name, 20)) for name in ("Big", "Cast Away")]
    both = joined(parts)
    assert both.question_of_C.tolist() == [0] * 3 + [1] * 3
    assert both.candidate_of_R.tolist() == [0, 1, 2, 3, 4, 5]
    last = both.only(np.array([4, 5]))
    assert last.candidate_of_R.tolist() == [0, 1]
    assert last.name_C.tolist() == both.name_C[4:].tolist()
    assert last.question_of_C.tolist() == [1, 1]


# What it learns from


def test_labels_by_hand() -> None:
    place = GoldStep(Question("q", "?", ["Tom Hanks"], []), "Tom Hanks", frozenset([BIG]), 0)
    candidates = [
        Candidate("Big", (BIG, Triple("Big", "produced_by", "Tom Hanks"))),
        Candidate("Cast Away", (Triple("Cast Away", "starred_actors", "Tom Hanks"),)),
        Candidate("Concord", (Triple("Tom Hanks", "born_in", "Concord"),)),
    ]
    assert labels(place, candidates, siblings=False).tolist() == [1, -1, -1, 0]
    assert labels(place, candidates, siblings=True).tolist() == [1, -1, 0, 0]


def test_places_of_paths_that_come_back() -> None:
    """Both ways on from a are gold at a, as a ranker is not told how the walk came there."""
    path = [Triple("a", "parent", "b"), Triple("b", "child", "a"), Triple("a", "gender", "male")]
    other = [Triple("x", "parent", "y")]
    places = places_of(Question("q", "?", ["a"], ["male"], gold_paths=[path, other]))
    assert [(one.entity, sorted(one.gold), one.hop) for one in places] == [("a", ["b", "male"], 0), ("b", ["a"], 1)]
    assert [sorted(one.before) for one in places] == [["a", "b"], ["a"]]


def test_caps_and_draws(store: Stores) -> None:
    hub = [("hub", "has", f"n{at:02}") for at in range(50)] + [("hub", "kin", "gold"), ("hub", "has", "zz")]
    graph = store(hub)
    place = GoldStep(Question("q", "?", ["hub"], []), "hub", frozenset([Triple("hub", "has", "zz")]), 0)
    capped = expand(place, graph, 3)
    assert capped is not None
    assert len(capped.candidates) == 4  # three by `has`, one by `kin`; the gold one is cut off, and whoever measures
    learned = expand(place, graph, 3, with_gold=True)  # counts it as missed
    assert learned is not None
    assert [one.name for one in learned.candidates[-1:]] == ["zz"]
    assert expand(GoldStep(place.question, "nobody", place.facts, 0), graph, 3) is None

    texts = Texts()
    drawn = [example(learned, Encoder(graph, Near(), texts), negatives=2, siblings=True, seed="same") for _ in range(2)]
    assert drawn[0] is not None
    assert drawn[1] is not None
    assert sorted(drawn[0].label_R.tolist()) == [0, 0, 1]
    assert drawn[0].rows.name_C.tolist() == drawn[1].rows.name_C.tolist()
    questions = [Question(str(at), "?", [], []) for at in range(9)]
    assert sample(questions, 3, 0) == sample(questions, 3, 0)
    assert sample(questions, 99, 0) == questions


# Measuring


def test_recalls_by_hand() -> None:
    recalls = Recalls((1, 2))
    recalls.add(["a", "b", "c"], {"a", "c"})  # at 1: 1 of 2; at 2: 1 of 2
    recalls.add(["a", "b", "c"], {"b"})  # at 1: 0; at 2: 1
    assert recalls.means() == {"recall@1": 0.25, "recall@2": 0.75, "hit@1": 0.5, "hit@2": 1.0}


def test_bm25_by_hand(store: Stores) -> None:
    ranker = Bm25Ranker()
    # idf ln 2; lengths 2 and 1, mean 1.5: ln 2 * 2.5 / (1 + 1.5 * (0.25 + 0.75 * 2 / 1.5)) = 0.6027
    assert ranker.weigh(["a"], [Counter(["a", "b"]), Counter(["c"])]) == pytest.approx([0.6027, 0.0], abs=1e-4)
    graph = store(FILMS)
    found = ranker.score("directed by whom was Big", candidates_around(graph, "Big", 20), graph)
    assert found[0] > found[1] == found[2] == 0


# The folder


class Named:
    def __init__(self, name: str) -> None:
        self.name = name

    def embed(self, texts: list[str]) -> np.ndarray:
        return np.ones((len(texts), 4), np.float32) / 2


def test_a_saved_ranker_is_the_same(tmp_path: Path, store: Stores) -> None:
    network = Network(NetworkShape(vector=4, width=2, hidden=3)).eval()
    save_ranker(tmp_path / "r", network, Near(most=5), "letters", {"data": "films"})
    again, near, card = load_ranker(tmp_path / "r")
    assert near == Near(most=5)
    assert card["data"] == "films"
    assert card["parameters"] == sum(value.numel() for value in network.parameters())
    for name, value in network.state_dict().items():
        assert torch.equal(again.state_dict()[name], value)
    assert sorted(path.name for path in (tmp_path / "r").iterdir()) == ["ranker.json", "ranker.safetensors"]
    graph = store(FILMS)
    ranker = open_ranker(tmp_path / "r", Named("letters"))
    scores = ranker.score("who?", candidates_around(graph, "Big", 20), graph)
    assert len(scores) == 3
    assert all(0 < score < 1 for score in scores)
    assert ranker.score("who?", [], graph) == []
    assert ranker.score("who?", [Candidate("alone", ())], graph) == [0.0]


def test_what_is_wrong_with_a_folder_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    with pytest.raises(KgwalkError, match=r"no ranker in .*kgwalk rank train"):
        open_ranker(folder, Named("letters"))
    save_ranker(folder, Network(NetworkShape(vector=4)), Near(), "letters", {})
    with pytest.raises(KgwalkError, match="reads vectors of letters, not of other"):
        open_ranker(folder, Named("other"))
    with pytest.raises(KgwalkError, match="needs the text model letters"):
        open_ranker(folder, None)
    card = orjson.loads((folder / "ranker.json").read_bytes())
    for change, message in (
        ({"version": 0}, "of version 1"),
        ({"numbers": ["out"]}, "reads other inputs"),
        ({"shape": card["shape"] | {"hidden": 7}}, "not whole"),
    ):
        (folder / "ranker.json").write_bytes(orjson.dumps(card | change))
        with pytest.raises(KgwalkError, match=message):
            load_ranker(folder)
    (folder / "ranker.json").write_bytes(orjson.dumps(card))
    (folder / "ranker.safetensors").write_bytes(b"nonsense")
    with pytest.raises(KgwalkError, match="not whole"):
        load_ranker(folder)
