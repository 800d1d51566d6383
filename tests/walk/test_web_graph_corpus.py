"""Facts as sentences, graphs as corpora: every fact of a graph stands in its documents, names whole."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from kgwalk.bench.servers import ScanGraph
from kgwalk.cli.main import make_app
from kgwalk.data.bundled import world_path
from kgwalk.kg.build import build
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.training.workers.messages import pack, unpack
from kgwalk.types import KgwalkError, Question, Triple
from kgwalk.walk.environment import Environments, EnvironmentSettings, opened_web
from kgwalk.walk.protocol import Environment
from kgwalk.walk.web.corpus import LocalCorpus
from kgwalk.walk.web.graph_corpus import (
    DatedName,
    documents,
    entity_documents,
    heads_sentence,
    tails_sentence,
    web_of,
    write_corpus,
)
from kgwalk.walk.web.search import open_web

FACTS = """\
Norway\tcapital\tOslo\t
Norway\tlanguage\tNorwegian\t
Norway\tlanguage\tSami\t
Norway\tborders\tSweden\t1905..
Norway\tborders\tRussia\t
Sweden\tborders\tNorway\t1905..
United States\tcapital\tWashington, D.C.\t
Bosnia and Herzegovina\tborders\tCroatia\t
Serbia\tborders\tCroatia\t
Oslo\tlocated_in\tNorway\t
Japan\tHost a visit\tChina\t2014-03-01
Japan\tHost a visit\tChina\t2014-05-02
"""


@pytest.fixture
def graph(tmp_path: Path) -> StoredGraph:
    (tmp_path / "facts.tsv").write_text(FACTS)
    build([tmp_path / "facts.tsv"], tmp_path / "facts.kg")
    return open_graph(tmp_path / "facts.kg")


def text_of(graph: StoredGraph, entity: str) -> str:
    (document,) = entity_documents(graph, entity)
    assert document.title == entity
    return document.text


def test_the_documents_of_a_small_graph(graph: StoredGraph) -> None:
    assert text_of(graph, "Norway").split("\n") == [
        "Norway borders Sweden (1905..) and Russia.",
        "The capital of Norway is Oslo.",
        "The language of Norway is Sami and Norwegian.",
        "Sweden (1905..) borders Norway.",
        "Oslo is located in Norway.",
    ]
    assert text_of(graph, "Oslo") == "Oslo is located in Norway.\nOslo is the capital of Norway."
    # semicolons where a name has a comma or an "and" of its own; its full stop ends the sentence
    assert text_of(graph, "Croatia") == "Each of Bosnia and Herzegovina; and Serbia borders Croatia."
    assert text_of(graph, "United States") == "The capital of United States is Washington, D.C."
    assert text_of(graph, "China") == "Host a visit: Japan (2014-03-01; 2014-05-02) to China."


def test_many_facts_go_on_in_further_sentences_and_documents(graph: StoredGraph) -> None:
    one_a_sentence = [one.text for one in entity_documents(graph, "Norway", names=1, characters=60)]
    assert one_a_sentence == [
        "Norway borders Sweden (1905..).\nNorway borders Russia.",
        "The capital of Norway is Oslo.",
        "The language of Norway is Sami.",
        "The language of Norway is Norwegian.",
        "Sweden (1905..) borders Norway.\nOslo is located in Norway.",
    ]


@pytest.mark.parametrize(
    ("relation", "sentence"),
    [
        ("film.film.directed_by", "A is directed by B."),
        ("people.person.place_of_birth", "The place of birth of A is B."),
        ("http://example.org/timeZone", "The time zone of A is B."),
        ("starred_actors", "A starred actors B."),
        ("has_genre", "A has genre B."),
        ("in_language", "A is in language B."),
        ("county_of", "A is a county of B."),
        ("island_of", "A is an island of B."),
        ("born_in", "A is born in B."),
        ("produced_by", "A is produced by B."),
        ("starred_in", "A starred in B."),
        ("iso_alpha2", "The iso alpha2 of A is B."),
        ("首都", "The 首都 of A is B."),
        ("...", "The ... of A is B."),
        ("Make a visit", "Make a visit: A to B."),
    ],
)
def test_wordings(relation: str, sentence: str) -> None:
    assert tails_sentence("A", relation, [DatedName("B")]) == sentence


def check_every_fact(graph: StoredGraph) -> int:
    """Each fact is in a sentence of its head's documents and in one of its tail's, both names whole."""
    lines: dict[str, list[str]] = defaultdict(list)
    for document in documents(graph):
        lines[document.title] += document.text.split("\n")
    facts = graph.triples(np.arange(len(graph)))
    for head, relation, tail, time in facts:
        before, _, _ = tails_sentence(head, relation, [DatedName("|")]).partition("|")
        assert any(line.startswith(before) and tail in line[len(before) :] and time in line for line in lines[head])
        before, _, after = heads_sentence(tail, relation, [DatedName("|")]).partition("|")
        assert any(before in line and after in line and head in line for line in lines[tail])
    return len(facts)


def test_every_fact_of_a_small_graph_is_told(graph: StoredGraph) -> None:
    assert check_every_fact(graph) == len(FACTS.splitlines())


def test_every_fact_of_the_bundled_graph_is_told() -> None:
    graph = open_graph(world_path())
    assert check_every_fact(graph) == len(graph)


def test_a_corpus_is_the_same_twice_and_found_again(graph: StoredGraph, tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl.gz"
    written = write_corpus(graph, first)
    write_corpus(graph, second)
    assert first.read_bytes() == second.read_bytes()
    rows = [json.loads(line) for line in gzip.decompress(first.read_bytes()).splitlines()]
    assert rows == [{"title": one.title, "text": one.text} for one in documents(graph)]
    assert (len(rows), written.entities) == (written.documents, len(graph.live_entities()))
    corpus = LocalCorpus(first, cache=tmp_path)
    for query, told in [
        ("Norway capital", "is Oslo."),
        ("Croatia borders", "Serbia"),
        ("Washington, D.C. capital", "United"),
    ]:
        assert any(told in one.text for one in corpus.search(query))


# As a web


def test_a_graph_has_its_own_web(graph: StoredGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written once into the cache; it has what is hidden from a view, since it is the whole graph's."""
    monkeypatch.setenv("KGWALK_CACHE", str(tmp_path / "cache"))
    capital = Triple("Norway", "capital", "Oslo")
    question = Question("q", "?", ["Norway"], ["Oslo"], gold_paths=[[capital]])
    environments = Environments(lambda _: graph, EnvironmentSettings(drop=1.0, web="graph"), Environment)
    environment = environments.of(question)
    assert not environment.complete
    assert not list(environment.graph.match("Norway", "capital"))
    assert environment.web is not None
    assert "The capital of Norway is Oslo." in environment.web.search("Norway capital", 2)[1].text
    files = list((tmp_path / "cache" / "graph-web").glob("*.jsonl.gz"))
    assert len(files) == 1
    written = files[0].stat().st_mtime_ns
    assert web_of(graph.store) is environment.web
    assert files[0].stat().st_mtime_ns == written
    travelled = unpack(pack(Environments(open_same, environments.settings, Environment)))
    assert travelled.settings.web == "graph"
    assert travelled.web is None  # a worker makes it of its own graph


def open_same(question: Question) -> StoredGraph:
    raise NotImplementedError


def test_a_web_of_what_cannot_have_one(graph: StoredGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgwalk.walk.web.graph_corpus.MOST_FACTS", 3)
    with pytest.raises(KgwalkError, match=r"12 facts makes a large corpus.*kgwalk web corpus .*world\.web=none"):
        web_of(graph.store)
    settings = EnvironmentSettings(web="graph")
    remote = Environments(lambda _: ScanGraph([Triple("a", "r", "b")]), settings, Environment)
    with pytest.raises(KgwalkError, match="from a store only, not from a ScanGraph"):
        remote.of(Question("q", "?", ["a"], ["b"]))
    with pytest.raises(KgwalkError, match="belongs to a graph from which facts are hidden"):
        open_web("graph")
    assert opened_web(settings) is None  # of a question that is asked


# The command line


def run(*arguments: object) -> str:
    result = CliRunner().invoke(make_app("web"), ["web", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_corpus_index_and_search(graph: StoredGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGWALK_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "facts.jsonl"
    assert "documents of 13 entities" in run("corpus", tmp_path / "facts.kg", "-o", file)
    assert json.loads(run("corpus", tmp_path / "facts.kg", "-o", file, "--json"))["documents"] == 13
    assert "13 documents in 13 passages; 13 added, 0 removed" in run("index", file)
    again = json.loads(run("index", file, "--json"))
    assert (again["added"], again["kept"]) == (0, 13)
    found = json.loads(run("search", "Norway capital", "--web", file, "-k", 2, "--json"))
    assert [one["title"] for one in found["documents"]] == ["Oslo", "Norway"]  # the shorter first
    assert found["documents"][0]["source"].startswith("facts.jsonl:")
    assert "1. Oslo  (facts.jsonl:" in run("search", "Norway capital", "--web", file)
    assert run("search", "zxqv", "--web", file) == run("search", "Norway", "--web", "none") == ""


def test_a_corpus_needs_a_name_that_says_what_it_is(graph: StoredGraph, tmp_path: Path) -> None:
    wrong = CliRunner().invoke(make_app("web"), ["web", "corpus", str(tmp_path / "facts.kg"), "-o", "x.txt"])
    assert wrong.exit_code == 2
    assert "does not end in .jsonl or .jsonl.gz" in wrong.output
