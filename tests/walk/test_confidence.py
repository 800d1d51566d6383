"""How sure an answer is: what is seen in a walk, the fitted probability, a second look."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from kgwalk.kg.store import StoredGraph
from kgwalk.llm.engine import Request, ScriptedEngine
from kgwalk.types import Answer, AnswerForm, Call, Episode, KgwalkError, Question, SecondLook, StopReason, Turn
from kgwalk.walk.agent import AskResult, answer_question, as_json
from kgwalk.walk.confidence import (
    FIGURES,
    KEY,
    Confidence,
    best_of,
    fitted,
    is_started,
    kind_asked,
    kind_given,
    read_confidence,
    seen_in,
    write_confidence,
)
from kgwalk.walk.policy import AskSettings

FACTS = [
    ("Ann", "works_in", "Design"),
    ("Bob", "works_in", "Design"),
    ("Cid", "works_in", "Sales"),
    ("Ann", "born_in", "Oslo"),
]


def walked(asked: str, calls: list[Call], answers: list[str], topics: list[str], **more: object) -> Episode:
    """A walk whose every turn had a probability of one half."""
    turns = [Turn([1], [math.log(0.5)], "", call) for call in calls]
    turns.append(Turn([1], [math.log(0.5)], "", Answer((len(topics) + len(calls),))))
    episode = Episode(Question("q", asked, topics, []), topics, [], "", turns, answers, stop=StopReason.answered)
    for name, value in more.items():
        setattr(episode, name, value)
    return episode


def test_what_the_question_says_and_no_call_does() -> None:
    """ "not" is said by minus; a walk without it leaves it unsaid."""
    forwards = Call("head_entities", (1, "works_in"))
    without = seen_in(walked("who does not work in Design", [forwards], ["Ann"], ["Design"]))
    assert without["unsaid"] == 1.0
    minus = [forwards, Call("minus", (2, 1))]
    assert seen_in(walked("who does not work in Design", minus, ["Ann"], ["Design"]))["unsaid"] == 0.0
    second = seen_in(walked("the second largest city", [Call("argmax", (1, "size"))], ["Oslo"], ["city"]))
    assert second["unsaid"] == 1.0  # largest is said, second is not
    named = seen_in(walked("highest point of Norway", [Call("tail_entities", (1, "highest_point"))], ["G"], ["Norway"]))
    assert named["unsaid"] == 0.0  # a relation's own name


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        ("how many people work in Design", "number"),
        ("when was Ann hired", "time"),
        ("does Ann work in Design", "boolean"),
        ("can you name a film", None),
        ("is Ann or Bob older", None),
        ("who works in Design", "entity"),
        ("population of Oslo", None),
    ],
)
def test_the_kind_that_is_asked_for(asked: str, kind: str | None) -> None:
    assert kind_asked(asked) == kind


def test_the_kind_that_is_given() -> None:
    assert kind_given(walked("who", [], ["28"], [])) == "number"
    assert kind_given(walked("when", [], ["1999"], [])) == "time"  # a year is a number, and here a time
    assert kind_given(walked("who", [], ["Ann"], [], form=AnswerForm("table"))) == "entity"
    assert seen_in(walked("which bikes have a bell", [], ["28"], ["bell"]))["other_kind"] == 1.0


def test_topics_that_no_call_uses_and_words_that_the_walk_leaves() -> None:
    episode = walked(
        "who in Design was born in Oslo", [Call("head_entities", (1, "works_in"))], ["Ann"], ["Design", "Oslo"]
    )
    found = seen_in(episode)
    assert found["unused"] == 1.0
    assert found["linking"] == 1.0  # both names stand in the question
    assert found["doubt"] == pytest.approx(math.log(0.001 + 2 * math.log(2)))


def test_without_likelihoods_nothing_is_seen() -> None:
    episode = walked("who", [], ["Ann"], [])
    episode.turns[0].logprobs = []
    assert seen_in(episode) == {}
    assert fitted([{"errors": 0.0}, {"errors": 1.0}], [True, False]).probability(episode) is None


def test_a_fitted_model_is_kept_beside_the_adapter(tmp_path: Path) -> None:
    (tmp_path / "kgwalk.json").write_text('{"recipe": "kgwalk"}')
    assert read_confidence(tmp_path) is None
    assert read_confidence(None) is None
    model = fitted(
        [{"errors": 0.0}] * 3 + [{"errors": 1.0}] * 3, [True, True, False, False, False, True], {"questions": 6}
    )
    write_confidence(tmp_path, model)
    again = read_confidence(tmp_path)
    assert again is not None
    assert again.about == {"questions": 6}
    assert again.of_figures({"errors": 1.0}) == pytest.approx(model.of_figures({"errors": 1.0}), abs=1e-4)
    card = json.loads((tmp_path / "kgwalk.json").read_text())
    assert card["recipe"] == "kgwalk"
    card[KEY] = {"figures": {"errors": [1.0]}}
    (tmp_path / "kgwalk.json").write_text(json.dumps(card))
    with pytest.raises(KgwalkError, match="`confidence` is damaged; fit it again with `kgwalk calibrate`"):
        read_confidence(tmp_path)


def test_walks_that_agree_outweigh_one_that_is_surer() -> None:
    """0.5 ** 2 for the long walk, 0.5 for each short one: 0.25 against 0.5 + 0.5."""
    long = walked("who", [Call("head_entities", (1, "works_in"))], ["Ann"], ["Design"])
    short = [walked("who", [], ["Bob"], ["Design"]), walked("who", [], ["bob"], ["Design"])]
    assert best_of([long, *short], None) == (1, 2)
    unanswered = walked("who", [], [], ["Design"], stop=StopReason.turns)
    assert best_of([unanswered, long], None) == (1, 1)


# --- a second look


def design(request: Request) -> str:
    """A greedy walk goes where Ann was born; a sampled one where she works."""
    turn = sum(message.role == "assistant" for message in request.messages)
    relation = "works_in" if request.sampling.temperature else "born_in"
    return [f'tail_entities($1, "{relation}")', "<answer>$2</answer>"][turn]


def asked(store: Callable[..., StoredGraph], asking: AskSettings, confidence: Confidence | None = None) -> AskResult:
    ended: list[Episode] = []

    def watch(episode: Episode, turn: Turn | None) -> None:
        ended.extend([episode] if turn is None else [])

    found = asyncio.run(
        answer_question(
            "where is Ann",
            store(FACTS),
            protocol="kgwalk",
            engine=ScriptedEngine(design),
            confidence=confidence,
            asking=asking,
            watch=watch,
        )
    )
    assert ended == found.episodes  # however often it was walked, one walk is the question's
    return found


def test_an_unsure_walk_is_looked_at_again(store: Callable[..., StoredGraph]) -> None:
    """A script finds its tokens unlikely, so the first walk is unsure; three sampled walks agree on another answer."""
    once, again = asked(store, AskSettings()), asked(store, AskSettings(walks=4))
    assert (once.answers, once.walks, again.answers, again.walks) == (["Oslo"], 1, ["Design"], 4)
    assert again.episodes[0].looked is not None
    assert again.episodes[0].looked.agreed == 3
    assert again.tokens["generated"] > 3 * once.tokens["generated"]
    assert as_json(again)["walks"] == 4


def test_a_sure_walk_is_not_looked_at_again(store: Callable[..., StoredGraph]) -> None:
    sure = Confidence({"errors": 0.0}, {"errors": 0.0}, {"errors": 1.0}, 3.0)  # e**3 / (1 + e**3) for every walk
    found = as_json(asked(store, AskSettings(walks=4), sure))
    assert (found["walks"], found["confidence"], found["calibrated"], found["note"]) == (1, 0.953, True, None)


PROMPT = """\
how many italian suppliers do we have
$1 = 1: Italy
<- country
$2 = 12 suppliers: Pedalia, Ruota Nord, ... (+10 more)
-> city, country, since (year), contact
<- supplier_id"""


def test_a_kind_that_no_call_uses_is_seen() -> None:
    """All of Italy is counted, customers too: the set that the walk has is not like the suppliers it began with."""
    asked, country = "how many italian suppliers do we have", Call("head_entities", (1, "country"))
    first = (
        "$3 = 3: Cicli Ferrara, Ruota Nord, Selle Fontana\n-> city, country, since, contact, manager\n<- customer_id"
    )
    mixed = walked(asked, [country, Call("count", (3,))], ["3"], ["Italy"], prompt=PROMPT)
    mixed.turns[0].observation = first
    assert seen_in(mixed)["unused_kind"] == pytest.approx(1 - 4 / 7)  # 4 relations shared, of 5 and 6
    assert seen_in(mixed)["words_left"] == 0.5  # "suppliers" is the kind; "italian" is not "italy"
    same = walked(asked, [country, Call("intersect", (3, 2)), Call("count", (4,))], ["2"], ["Italy"], prompt=PROMPT)
    assert seen_in(same)["unused_kind"] == 0.0


def test_a_relation_of_the_questions_words_that_was_not_taken_is_seen() -> None:
    prompt = "what year was helium discovered\n$1 = 1: Helium\n-> discoveredBy, discoveryYear\n<- decaysTo"
    by, year = (Call("tail_entities", (1, relation)) for relation in ("discoveredBy", "discoveryYear"))
    asked = "what year was helium discovered"
    assert seen_in(walked(asked, [by], ["William Ramsay"], ["Helium"], prompt=prompt))["missed"] == 1.0  # year
    assert seen_in(walked(asked, [year], ["1895"], ["Helium"], prompt=prompt))["missed"] == 0.0
    refused = seen_in(walked(asked, [], [], ["Helium"], prompt=prompt))
    assert (refused["nothing"], refused["nothing_missed"], refused["nothing_left"]) == (1.0, 2.0, 2 / 3)
    assert "words_left" not in refused  # where nothing was walked, what was not taken up means another thing


@pytest.mark.parametrize(
    ("asked", "call", "wrong"),
    [
        ("who is older, Ian or Gary", Call("argmax", (3, "born")), 1.0),
        ("who is older, Ian or Gary", Call("argmin", (3, "born")), 0.0),
        ("who is older, Ian or Gary", Call("argmax", (3, "age")), 0.0),
        ("the three cheapest bikes", Call("top", (1, "price", "3")), 1.0),
        ("the three cheapest bikes", Call("bottom", (1, "price", "3")), 0.0),
        ("the least expensive bike", Call("argmin", (1, "price")), 0.0),
        ("who has been here longest", Call("argmin", (1, "since")), 0.0),  # open: of years it is the least
    ],
)
def test_the_least_for_the_most_is_seen(asked: str, call: Call, wrong: float) -> None:
    assert seen_in(walked(asked, [call], ["Ian"], []))["wrong_way"] == wrong


def test_a_walk_has_something_to_start_from() -> None:
    assert is_started(walked("who", [], ["Ann"], ["Design"]))
    assert is_started(walked("all suppliers", [], ["Ann"], [], prompt="all suppliers\n$1 = 12 suppliers: Pedalia, ..."))
    assert not is_started(walked("wer", [], [], [], prompt="Results are sets: $1, $2, ...\n\nwer"))


def test_every_figure_is_a_known_one() -> None:
    walks = [walked("who", [], answers, ["Design"]) for answers in (["Ann"], [])]
    assert {name for one in walks for name in seen_in(one)} == FIGURES


def test_a_confidence_over_other_figures_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Weights of an older kgwalk would be read as 0 where a figure is gone: a number that means nothing."""
    old = Confidence({"worst_token": -1.0}, {"worst_token": 0.0}, {"worst_token": 1.0}, 2.0)
    write_confidence(tmp_path, old)
    assert read_confidence(tmp_path) is None
    assert "is of another kgwalk and is not used; fit it with `kgwalk calibrate`" in caplog.text


def test_agreement_is_seen() -> None:
    episode = walked("who", [], ["Ann"], ["Design"], looked=SecondLook(4, 3))
    assert (seen_in(episode)["several"], seen_in(episode)["agreement"]) == (1.0, 0.25)
