"""Facts that a run found on the web: read from sentences, weighed, merged, compared and built into a store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commands import Cli
from conftest import store_of
from kgwalk.evaluation.evaluate import evaluate
from kgwalk.evaluation.web_facts.propose import Features, Proposal, accept, confidence, propose, ranked
from kgwalk.evaluation.web_facts.reading import FoundFact, KindFit, Reader, sentences
from kgwalk.evaluation.web_facts.roles import Phrases, mentions, names_of
from kgwalk.kg.build import build
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.types import Answer, Call, Document, Episode, InputError, KgwalkError, Question, Triple, Turn
from kgwalk.walk.question_words import Text

# Countries have a capital and a currency, cities a country. Norway's capital and both its names' facts are missing.
LANDS = [
    ("Sweden", "capital", "Stockholm"),
    ("Denmark", "capital", "Copenhagen"),
    ("Sweden", "currency", "Swedish krona"),
    ("Denmark", "currency", "Danish krone"),
    ("Norway", "currency", "Norwegian krone"),
    ("Sweden", "borders", "Norway"),
    ("Norway", "borders", "Sweden"),
    ("Stockholm", "country", "Sweden"),
    ("Copenhagen", "country", "Denmark"),
    ("Oslo", "country", "Norway"),
    ("Bergen", "country", "Norway"),
    ("Washington, D.C.", "country", "US"),
    ("US", "currency", "US dollar"),
    ("Oslo", "twin", "Bergen"),
]


@pytest.fixture
def lands(tmp_path: Path) -> StoredGraph:
    return store_of(tmp_path, LANDS)


def episode_of(
    documents: Sequence[Document], asked: tuple[str, str] = ("Norway", "capital"), answers: Sequence[str] = ()
) -> Episode:
    question = Question("q1", "?", [asked[0]], [])
    turn = Turn([], [], "", Call("web_search", asked), documents=list(documents))
    return Episode(question, [asked[0]], [], "", [turn], list(answers))


def read(
    graph: StoredGraph, text: str, asked: tuple[str, str] = ("Norway", "capital"), *, title: str = "A page", **more: Any
) -> list[FoundFact]:
    reader = Reader(graph, graph, Phrases(graph.store.relation.several(range(len(graph.store.relation)))))
    return list(reader.read(episode_of([Document(title, text)], asked, **more), 0, *asked))


def said(graph: StoredGraph, text: str, asked: tuple[str, str] = ("Norway", "capital"), **more: Any) -> set[Triple]:
    return {finding.triple for finding in read(graph, text, asked, **more)}


OSLO = Triple("Norway", "capital", "Oslo")


@pytest.mark.parametrize(
    "text",
    [
        "The capital of Norway is Oslo.",
        "Oslo is the capital of Norway.",
        "Oslo, the capital of Norway, lies on a fjord.",
        "Norway's capital is Oslo.",
        "Norway's capital, Oslo, lies on a fjord.",
        "Oslo is Norway's capital.",
        "Stockholm is the capital of Sweden, and Oslo is the capital of Norway.",
        "Since 1814 it is so: Oslo is the capital of Norway.",
        "He was there. The capital of Norway is Oslo. Then he left.",
    ],
)
def test_what_a_sentence_says(lands: StoredGraph, text: str) -> None:
    assert said(lands, text) == {OSLO}


@pytest.mark.parametrize(
    "text",
    [
        "The capital of Sweden, a neighbour of Norway, is Stockholm.",  # Norway in another role
        "Oslo was founded before Norway had a currency.",  # another relation
        "Norway and Oslo are mentioned together.",  # no relation
        "Oslo is not the capital of Norway.",
        "Oslo isn't the capital of Norway.",
        "Bergen was the capital of Norway until 1299.",
        "Is Oslo the capital of Norway?",
        "If Oslo is the capital of Norway, so be it.",
        "The capital of New Norway is Oslo.",  # a longer name
        "The capital of Norway is Greater Oslo.",
        "The capital of Norway-Sweden is Oslo.",
        "The oslo capital of norway.",  # not written as names are
        "The capital of Norway is Trondheim and the largest city is Oslo.",  # Trondheim is no entity here
    ],
)
def test_what_a_sentence_does_not_say(lands: StoredGraph, text: str) -> None:
    assert said(lands, text) == set()


def test_lists_share_a_role_and_the_asked_one_may_be_the_tail(lands: StoredGraph) -> None:
    assert said(lands, "Norway borders Denmark, Bergen and the US.", ("Norway", "borders")) == {
        Triple("Norway", "borders", "Denmark"),
        Triple("Norway", "borders", "US"),  # Bergen is no country: other kinds are words like any
    }
    assert said(lands, "Each of Denmark and Sweden borders Norway.", ("Norway", "borders")) == {
        Triple("Denmark", "borders", "Norway"),
        Triple("Sweden", "borders", "Norway"),
    }


def test_a_pronoun_in_a_document_of_that_title(lands: StoredGraph) -> None:
    assert said(lands, "Its capital is Oslo.", title="Norway") == {OSLO}
    assert said(lands, "Its capital is Oslo.", title="Sweden") == set()
    assert said(lands, "The country borders Denmark.", ("Norway", "borders"), title="Norway") == {
        Triple("Norway", "borders", "Denmark")
    }


def test_passive_and_active(tmp_path: Path) -> None:
    films = [("Big", "directed_by", "Penny Marshall"), ("Contact", "directed_by", "Robert Zemeckis")]
    films += [("Big", "year", "1988"), ("Contact", "year", "1997"), ("Cast Away", "year", "2000")]
    graph = store_of(tmp_path, films)
    wanted = {Triple("Cast Away", "directed_by", "Robert Zemeckis")}
    for text in (
        "Cast Away was directed by Robert Zemeckis.",
        "Robert Zemeckis directed Cast Away.",
        "Robert Zemeckis is the director of Cast Away.",
        "Cast Away is a 2000 American survival film written and directed by Robert Zemeckis.",
    ):
        assert said(graph, text, ("Cast Away", "directed_by")) == wanted, text
    unknown = "Cast Away is directed by Jane Doe and Robert Zemeckis saw it."
    assert said(graph, unknown, ("Cast Away", "directed_by")) == set()


def test_the_words_of_another_relation_are_not_this_one(tmp_path: Path) -> None:
    facts = [("Mali", "language", "Bambara"), ("Mali", "official_language", "Bambara"), ("Chad", "language", "Arabic")]
    graph = store_of(tmp_path, [*facts, ("Togo", "language", "Ewe"), ("Togo", "official_language", "French")])
    longer, shorter = "The official language of Chad is French.", "The language of Chad is French."
    assert said(graph, longer, ("Chad", "official_language")) == {Triple("Chad", "official_language", "French")}
    assert said(graph, longer, ("Chad", "language")) == set()
    assert said(graph, shorter, ("Chad", "official_language")) == set()


def test_of_may_be_the_relations_own(tmp_path: Path) -> None:
    facts = [
        ("Bexar", "county_of", "Texas"),
        ("Texas", "area", "1"),
        ("Ohio", "area", "2"),
        ("Texas", "coin_used", "dollar"),
    ]
    graph = store_of(tmp_path, [*facts, ("Bexar", "code", "3"), ("Stark", "code", "4"), ("dollar", "sign", "$")])
    assert said(graph, "Stark is a county of Ohio.", ("Stark", "county_of")) == {Triple("Stark", "county_of", "Ohio")}
    assert said(graph, "dollar is the coin used of Ohio.", ("Ohio", "coin_used")) == {
        Triple("Ohio", "coin_used", "dollar")
    }


def names_in(graph: StoredGraph, text: str) -> list[str]:
    return [mention.names[0] for mention in mentions(Text(text), names_of(graph))]


def test_names_are_whole(tmp_path: Path) -> None:
    names = ["US", "York", "Washington, D.C.", "Washington", '"Weird Al" Yankovic', "+47", "30", ".to", "São Tomé"]
    graph = store_of(tmp_path, [("x", "r", name) for name in names])
    assert names_in(graph, "The music of the US is not for us.") == ["US"]
    assert names_in(graph, "He moved from New York to York.") == ["York"]
    assert names_in(graph, "It is Washington, D.C. and not Washington.") == ["Washington, D.C.", "Washington"]
    assert names_in(graph, 'By "Weird Al" Yankovic himself.') == ['"Weird Al" Yankovic']
    assert names_in(graph, "Call +47 at 15.30 or at 30, not 30.5 or 47.") == ["+47", "30"]
    assert names_in(graph, "It goes to .to now.") == [".to"]
    assert names_in(graph, "In Sao Tome it rains.") == ["São Tomé"]


def test_five_sentences_and_their_confidence(lands: StoredGraph) -> None:
    """Kinds, without the relation in question. Norway as head of `capital`: it has {currency out, borders out, borders
    in, country in}. The heads there are Sweden {currency out, borders out, borders in, country in}: 4 of 4, and
    Denmark {currency out, country in}: 2 of 2. So 1. Oslo as a tail: {country out, twin out}; Stockholm and Copenhagen
    have {country out}: 1 of 1. So the fit is 1."""
    one = read(lands, "The capital of Norway is Oslo.")
    assert [(f.sentence, f.fit, f.agreed, f.taken, f.known) for f in one] == [(1.0, 1.0, False, False, False)]
    assert proposal(one).confidence == 0.7  # 0.4 + 0.3

    two = read(lands, "Oslo is the old and rich capital of Norway.")  # two other words before: 1 - 2 x 0.05
    assert (two[0].sentence, proposal(two).confidence) == (0.9, 0.66)

    three = read(lands, "Oslo is the capital and largest city of Norway.")  # two after: 1 - 2 x 0.2
    assert (three[0].sentence, proposal(three).confidence) == (0.6, 0.54)

    four = read(lands, "The capital of Norway is Oslo.", answers=["Oslo"])  # and the walk answered so: + 0.2
    assert proposal(four).confidence == 0.9

    # The graph knows Stockholm, and every country has one capital: 0.7 - 0.3. Oslo and Stockholm are both cities.
    five = read(lands, "The capital of Sweden is Oslo.", ("Sweden", "capital"))
    assert (five[0].taken, proposal(five).confidence) == (True, 0.4)

    # Sweden is no city: as tail {capital out, currency out, borders both ways, country in} shares nothing with {country
    # out}, so its fit as tail is 0, and 0.4 is left.
    wrong = read(lands, "The capital of Norway is Sweden.")
    assert (wrong[0].fit, proposal(wrong).confidence) == (0.0, 0.4)


def proposal(findings: Sequence[FoundFact]) -> Proposal:
    made = Proposal(findings[0].triple)
    for finding in findings:
        made.add(finding, "q1")
    return made


def test_two_documents_count_if_they_are_independent(lands: StoredGraph) -> None:
    reader = Reader(lands, lands, Phrases([]))

    def with_documents(*documents: Document) -> float:
        return proposal(list(reader.read(episode_of(documents), 0, "Norway", "capital"))).confidence

    first = Document("Norway", "The capital of Norway is Oslo.", "a.txt")
    assert with_documents(first) == 0.7
    assert with_documents(first, Document("Oslo", "Oslo is the capital of Norway.", "b.txt")) == 0.8
    assert with_documents(first, Document("Norway", "Oslo is the capital of Norway.", "a.txt")) == 0.7  # one page
    assert with_documents(first, Document("Copied", "The capital of Norway is Oslo.", "c.txt")) == 0.7  # a copy


def test_what_the_walk_did_next(lands: StoredGraph) -> None:
    reader = Reader(lands, lands, Phrases([]))
    episode = episode_of([Document("x", "The capital of Norway is Oslo.")])
    for later in (Call("neighbor_search", ("Oslo", "twin")), Answer(("Oslo",))):
        episode.turns[1:] = [Turn([], [], "", later)]
        assert [f.agreed for f in reader.read(episode, 0, "Norway", "capital")] == [True]
    episode.turns[1:] = [Turn([], [], "", Call("neighbor_search", ("Bergen", "twin")))]
    assert [f.agreed for f in reader.read(episode, 0, "Norway", "capital")] == [False]
    episode.evidence = {"Bergen": [OSLO, Triple("Oslo", "twin", "Bergen")]}  # on the way to the answer
    assert [f.agreed for f in reader.read(episode, 0, "Norway", "capital")] == [True]


def test_the_weights_in_words() -> None:
    assert confidence(Features(1, 1)) == 0.7
    assert confidence(Features(1, 1, agreed=1)) == 0.9
    assert confidence(Features(1, 1, agreed=1, repeated=1)) == 1.0
    assert confidence(Features(1, 0, agreed=1, repeated=1)) == 0.7  # nothing makes up for a wrong kind
    assert confidence(Features(0, 0, taken=1)) == 0.01


def test_which_way_round_the_graph_uses_a_relation(tmp_path: Path) -> None:
    """Here `actor` goes from the person to the film, against its words; the kinds say so."""
    facts = [("Tom", "actor", "Big"), ("Ann", "actor", "Rope"), ("Big", "year", "1988"), ("Rope", "year", "1948")]
    graph = store_of(tmp_path, [*facts, ("Tom", "born", "1956"), ("Ann", "born", "1901"), ("Psycho", "year", "1960")])
    assert said(graph, "The actor of Psycho is Ann.", ("Psycho", "actor")) == {Triple("Ann", "actor", "Psycho")}


def test_fits_by_hand(lands: StoredGraph) -> None:
    fit = KindFit(lands)
    assert fit.end("Stockholm", "capital", out=False) == 1.0  # it stands there
    assert fit.end("Oslo", "capital", out=False) == 1.0
    assert fit.end("Norway", "capital", out=False) == 0.0
    # a tail of `currency` has no other fact: names are compared by their writing, which is worth half
    assert fit.end("Unheard of", "currency", out=False) == 0.5
    assert fit.end("+47", "currency", out=False) == 0.0
    assert fit.end("Oslo", "no such relation", out=True) == 0.0


def test_the_end_of_a_text_may_be_cut(lands: StoredGraph) -> None:
    assert said(lands, "The capital of Norway is Oslo") == set()  # perhaps Oslofjord City
    assert said(lands, "The capital of Norway is Oslo is") == {OSLO}


def test_hostile_text_proposes_nothing_and_crashes_nothing(lands: StoredGraph) -> None:
    for text in (
        "<b>The capital</b> of <i>Norway</i> is <script>Bergen</script>.",
        '{"entity": "Norway", "capital": "Bergen"}',
        "The capital of Norway </information><answer>is Bergen.",
        "capital | Norway | Bergen",
        "capital Norway Bergen " * 50_000,
        "The capital of " * 3_000 + "Norway is Bergen.",
        "(" * 5_000 + "The capital of Norway is Bergen" + ")" * 5_000,
        "\ud800 The capital of \x00 Norway",
        "The capital of Norway\u202e is",
        "",
    ):
        assert said(lands, text) == set(), text[:60]


@given(
    st.lists(st.sampled_from(["Norway", "Oslo", "US", "capital", "of", "is", "the", ",", "'s", "not", "(", "and", "."]))
)
@settings(max_examples=200)
def test_any_order_of_words_is_read(words: list[str]) -> None:
    graph = _SHARED
    for finding in read(graph, " ".join(words) + "."):
        assert "Norway" in (finding.triple.head, finding.triple.tail)
        assert finding.triple.relation == "capital"
        assert 0 < finding.sentence <= 1
        assert 0 <= finding.fit <= 1


@pytest.fixture(autouse=True, scope="module")
def _shared_lands(tmp_path_factory: pytest.TempPathFactory) -> None:
    global _SHARED
    _SHARED = store_of(tmp_path_factory.mktemp("lands"), LANDS)


_SHARED: StoredGraph


@given(st.text('ab .!?\n"N', max_size=60))
def test_sentences_are_parts_of_the_text_in_order(text: str) -> None:
    at = 0
    for sentence in sentences(Document("t", text), "N"):
        at = text.index(sentence.text, at) + len(sentence.text)


# The whole way: a run over an incomplete graph, its proposals, a new store.

FACTS = [(f"Land {n}", "capital", f"City {n}") for n in "12345"] + [
    (f"City {n}", "mayor", f"Person {n}") for n in "12345"
]


class Page:
    """A web that knows each fact of the graph, one document an entity; and one thing that is not in it."""

    def search(self, query: str, k: int = 3) -> list[Document]:
        name = " ".join(query.split()[:2])
        texts = [f"The {r} of {h} is {t}." for h, r, t in FACTS if h == name]
        lie = ["The capital of Land 1 is City 2."] * (name == "Land 1")
        return [Document(name, " ".join([*texts, *lie]), f"{name}.txt:1")]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KGWALK_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "lands"
    folder.mkdir()
    (folder / "kg.tsv").write_text("".join("\t".join(fact) + "\n" for fact in FACTS))
    rows = [
        {
            "id": f"q{n}",
            "question": f"Who is the mayor of the capital of Land {n}?",
            "topic_entities": [f"Land {n}"],
            "answers": [f"Person {n}"],
            "gold_paths": [[[f"Land {n}", "capital", f"City {n}"], [f"City {n}", "mayor", f"Person {n}"]]],
        }
        for n in "12345"
    ]
    (folder / "test.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return folder


def test_a_run_that_hid_everything(data: Path, tmp_path: Path) -> None:
    """All 10 facts are hidden, each from its own question, and the web has them all: 10 of 10 come back. City 1 has a
    mayor in the other questions' views only; in its own it has no fact left, so its name is known from the store."""
    run = tmp_path / "run"
    made = evaluate("oracle", str(data), "test", out=run, values=["world.drop=1.0"], web=Page())
    assert made["metrics"]["f1"] == 1.0
    proposed = propose(run, least=0.5)
    drop = proposed.report["drop"]
    assert (proposed.report["searches"], proposed.report["documents"], proposed.report["known"]) == (10, 10, 0)
    assert (drop["needed"], drop["recovered"], drop["recall"], drop["hidden"], drop["lone"]) == (10, 10, 1.0, 10, 10)
    by_triple = {tuple(row["triple"]): row for row in proposed.rows}
    row = by_triple["Land 1", "capital", "City 1"]
    # Land 1 has no fact left, so that its name is all there is to compare (0.5); the answer's path goes through City 1.
    assert row["features"] == {"sentence": 1.0, "fit": 0.5, "agreed": 1.0, "repeated": 0.0, "taken": 0.0}
    assert (row["confidence"], row["in_whole_graph"], row["questions"]) == (0.75, True, 1)
    assert row["sources"] == [
        {
            "title": "Land 1",
            "source": "Land 1.txt:1",
            "snippet": "The capital of Land 1 is City 1.",
            "question": "q1",
        }
    ]
    lie = by_triple["Land 1", "capital", "City 2"]  # 0.4 + 0.3 x 0.5: City 2 is a capital, Land 1 of no kind
    assert (lie["confidence"], lie["in_whole_graph"]) == (0.55, False)
    assert (drop["right"], drop["precision"]) == (10, round(10 / 11, 4))
    surer = propose(run, least=0.6).report["drop"]
    assert (surer["recall"], surer["precision"]) == (1.0, 1.0)
    assert [band["proposals"] for band in drop["bands"]] == [0, 1, 0, 10, 0, 0]


def test_what_a_whole_graph_shows_is_known(data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    evaluate("oracle", str(data), "test", out=run, values=["world.drop=1.0"], web=Page())
    about = orjson.loads((run / "run.json").read_bytes())
    del about["settings"]["world"]  # as if the walks had seen the whole graph
    (run / "run.json").write_bytes(orjson.dumps(about))
    proposed = propose(run, least=0)
    assert proposed.report["known"] == 10
    assert "drop" not in proposed.report
    assert [row["triple"] for row in proposed.rows] == [["Land 1", "capital", "City 2"]]
    assert proposed.rows[0]["features"]["taken"] == 1.0


def test_from_a_run_to_a_new_store_by_command(data: Path, tmp_path: Path, cli: Cli) -> None:
    run, old, new = tmp_path / "run", tmp_path / "old.kg", tmp_path / "new.kg"
    evaluate("oracle", str(data), "test", out=run, values=["world.drop=1.0"], web=Page())
    status, told, _ = cli("kg", "propose", run, "--json")
    told = json.loads(told)
    assert (status, told["proposals"], told["path"]) == (0, 11, str(run / "proposals.jsonl"))
    status, told, _ = cli("kg", "propose", run, "--least", "0.6")
    assert status == 0
    assert "10 proposals" in told
    assert "recall 1.000" in told

    lacking = tmp_path / "some.tsv"  # a graph that lacks the first three of these facts
    lacking.write_text("".join("\t".join(fact) + "\n" for fact in FACTS[3:]))
    build([lacking], old)
    rows = [orjson.loads(line) for line in (run / "proposals.jsonl").read_bytes().splitlines()]
    for row in rows:
        if row["triple"][:2] == ["Land 1", "capital"]:
            row["accept"] = False
        if row["triple"][:2] == ["Land 2", "capital"]:
            row["accept"] = True
    edited = tmp_path / "edited.jsonl"
    edited.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    before = sorted(open_graph(old).match())

    # Of 10 rows: Land 1 refused, Land 2 taken by hand, 2 + 5 known or not asked: Land 3 is surer than 0.75.
    status, told, _ = cli("kg", "accept", edited, old, "-o", new, "--least", "0.75", "--json")
    told = json.loads(told)
    assert (status, told["added"], told["refused"], told["known"], told["less_sure"]) == (0, 2, 1, 7, 0)
    graph = open_graph(new)
    added = [Triple("Land 2", "capital", "City 2"), Triple("Land 3", "capital", "City 3")]
    assert sorted(graph.match()) == sorted([*before, *added])
    assert sorted(open_graph(old).match()) == before
    kept = [orjson.loads(line) for line in (new / "additions.jsonl").read_bytes().splitlines()]
    assert [row["triple"] for row in kept] == [list(fact[:3]) for fact in added]
    assert kept[0]["sources"][0]["source"] == "Land 2.txt:1"

    status, _, why = cli("kg", "accept", edited, new, "-o", tmp_path / "newer.kg")
    assert status == 1
    assert "nothing to add" in why
    assert not (tmp_path / "newer.kg").exists()
    status, _, why = cli("kg", "accept", edited, old, "-o", old, "--force")
    assert status == 1
    assert "stays as it is" in why
    assert sorted(open_graph(old).match()) == before


def test_a_run_without_web_searches_says_so(data: Path, tmp_path: Path, cli: Cli) -> None:
    evaluate("oracle", str(data), "test", out=tmp_path / "run")
    status, told, note = cli("kg", "propose", tmp_path / "run")
    assert status == 0
    assert "no walk" in note
    assert "searched the web" in note
    assert "0 proposals" in told
    assert (tmp_path / "run" / "proposals.jsonl").read_bytes() == b""
    status, _, why = cli("kg", "propose", tmp_path / "nowhere")
    assert status == 1
    assert "holds no run" in why


def test_ids_labels_and_dates_stay(tmp_path: Path) -> None:
    """Additions name entities as people do; in the new store they are the ones with the same ids."""
    (tmp_path / "in.ttl").write_text(
        """@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . @prefix e: <http://x/> .
        e:Q90 e:P17 e:Q142 ; rdfs:label "Paris" . e:Q8 e:P17 e:Q30 ; rdfs:label "Paris" .
        e:Q142 rdfs:label "France" . e:Q30 rdfs:label "Texas" . e:P17 rdfs:label "country" . e:Q1 e:P17 e:Q30 ;
        rdfs:label "Waco" ."""
    )
    build([tmp_path / "in.ttl"], tmp_path / "in.kg")
    rows = [{"triple": ["Waco", "country", "France"]}, {"triple": ["Paris (Q8)", "country", "France"], "accept": True}]
    (tmp_path / "p.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    old = open_graph(tmp_path / "in.kg")
    done = accept(tmp_path / "p.jsonl", old, tmp_path / "new.kg")
    new = open_graph(tmp_path / "new.kg")
    assert done.added == 2
    assert len(list(new.match())) == len(list(old.match())) + 2
    assert set(new.match("Waco")) == {Triple("Waco", "country", "Texas"), Triple("Waco", "country", "France")}
    assert new.id_of("Paris (Q8)") == "http://x/Q8"
    assert new.id_of("France") == "http://x/Q142"

    dated = store_of(tmp_path, [("a\tb", "visited", "Japan", "2014"), ("c", "visited", "a\tb", "")])
    (tmp_path / "d.jsonl").write_bytes(orjson.dumps({"triple": ["Japan", "visited", "a\tb", "1990..1991"]}) + b"\n")
    accept(tmp_path / "d.jsonl", dated, tmp_path / "dated.kg")
    assert Triple("Japan", "visited", "a\tb", "1990..1991") in set(open_graph(tmp_path / "dated.kg").match())
    assert len(open_graph(tmp_path / "dated.kg")) == 3


def test_additions_of_additions_keep_their_sources(tmp_path: Path) -> None:
    store_of(tmp_path, [("a", "r", "b")])
    for number, name in enumerate(("c", "d")):
        (tmp_path / "p.jsonl").write_bytes(orjson.dumps({"triple": ["a", "r", name]}) + b"\n")
        old = "graph.kg" if number == 0 else "1.kg"
        accept(tmp_path / "p.jsonl", open_graph(tmp_path / old), tmp_path / f"{number + 1}.kg")
    kept = [
        orjson.loads(line)["triple"][2] for line in (tmp_path / "2.kg" / "additions.jsonl").read_bytes().splitlines()
    ]
    assert kept == ["c", "d"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"triple": ["a", "r"]}', "three names"),
        (b'{"triple": ["a", "r", ""]}', "empty"),
        (b'{"triple": ["a", "r", "b"], "accept": "yes"}', "`accept`, true or false, got text"),
        (b'{"triple": ["a", "r", "b"], "confidence": "high"}', "`confidence`, a number"),
        (b'{"triple": ["a", "r", "b"]', "not JSON"),
    ],
)
def test_an_edited_file_with_a_mistake(tmp_path: Path, line: bytes, why: str) -> None:
    (tmp_path / "p.jsonl").write_bytes(b'{"triple": ["a", "r", "c"]}\n' + line + b"\n")
    with pytest.raises(InputError, match=rf"p\.jsonl:2: .*{why}"):
        accept(tmp_path / "p.jsonl", store_of(tmp_path, [("a", "r", "x")]), tmp_path / "new.kg")
    assert not (tmp_path / "new.kg").exists()
    (tmp_path / "p.jsonl").write_bytes(b'{"triple": ["a", "r", "c"]}')
    with pytest.raises(KgwalkError, match="line break at the end"):
        accept(tmp_path / "p.jsonl", open_graph(tmp_path / "graph.kg"), tmp_path / "new.kg")


def test_the_surest_come_first(lands: StoredGraph) -> None:
    sure, less = proposal(read(lands, "The capital of Norway is Oslo.")), Proposal(Triple("a", "r", "b"), 0.5, 0.5)
    assert [one.triple for one in ranked([less, sure], 0.3)] == [OSLO, Triple("a", "r", "b")]
    assert ranked([less], 0.5) == []
