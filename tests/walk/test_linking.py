"""Which entities a question mentions: worked examples on a graph small enough to check by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from conftest import memory_folder, store_of, temporary_store
from kgwalk.bench.servers import ScanGraph
from kgwalk.data.bundled import world_path
from kgwalk.kg.build import build
from kgwalk.kg.names import normalise
from kgwalk.kg.sources.source import Options
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.types import Found
from kgwalk.walk.kinds import EVERYTHING
from kgwalk.walk.linking import FUNCTION_WORDS, Mention, link, topics
from kgwalk.walk.question_words import CLASS_STEMS
from kgwalk.walk.question_words import stem as _stem
from kgwalk.walk.starts import starts_in

FACTS = [
    ("Big", "starred_actors", "Tom Hanks"),
    ("Cast Away", "starred_actors", "Tom Hanks"),
    ("Cast Away", "directed_by", "Robert Zemeckis"),
    ("Forrest Gump", "starred_actors", "Tom Hanks"),
    ("Forrest Gump", "directed_by", "Robert Zemeckis"),
    ("It", "directed_by", "Andy Muschietti"),
    ("Up", "directed_by", "Pete Docter"),
    ("Airplane!", "directed_by", "David Zucker"),
    ("The Godfather", "directed_by", "Francis Ford Coppola"),
    ("Schindler's List", "release_year", "1993"),
    ("2012", "directed_by", "Roland Emmerich"),
    ("Director", "directed_by", "A. B."),
    ("New York", "contains", "New York City"),
    ("New York City", "contains", "Broadway"),
    ("Eclipse", "license", "EPL"),
    ("The Eclipse", "directed_by", "Conor McPherson"),
    ("king kong", "tag_of", "Kong"),
    ("King Kong", "starred_actors", "Fay Wray"),
    ("King Kong", "release_year", "1933"),
    ("henry_viii_of_england", "spouse", "jane_seymour"),
    ("anna_of_holstein-gottorp", "spouse", "enno_iii"),
    ("England", "capital", "London"),
    ("東京", "国", "日本"),
    ("東京都", "首都", "東京"),
]


@pytest.fixture(scope="module")
def graph() -> Iterator[StoredGraph]:
    with memory_folder() as folder:
        yield store_of(folder, FACTS)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("what films did Tom Hanks star in", ["Tom Hanks"]),
        ("what films did tom hanks star in", ["Tom Hanks"]),  # all in small letters
        ("WHAT FILMS DID TOM HANKS STAR IN", ["Tom Hanks"]),
        ("who directed It", ["It"]),  # a capital where other words have none
        ("is it directed by Pete Docter", ["Pete Docter"]),  # the word it
        ("Up is directed by who", ["Up"]),
        ("Who directed Up?", ["Up"]),
        ("tom hanks's films", ["Tom Hanks"]),
        ("Tom Hanks' films", ["Tom Hanks"]),
        ("who was Henry_VIII_of_England 's wife ?", ["henry_viii_of_england"]),  # not England
        ("the wife of henry_viii_of_england's father", ["henry_viii_of_england"]),
        ("the child of anna_of_holstein-gottorp ?", ["anna_of_holstein-gottorp"]),
        ("who lives in New York City", ["New York City"]),  # the longest, not New York
        ("what does new york contain", ["New York"]),
        ("which films have Tom Hanks and were directed by Robert Zemeckis", ["Tom Hanks", "Robert Zemeckis"]),
        ("films with tom hanks by robert zemeckis", ["Tom Hanks", "Robert Zemeckis"]),
        ('who made "up"', ["Up"]),
        ("who made 'It'", ["It"]),
        ("what year was Schindler's List released", ["Schindler's List"]),
        ("who directed Airplane!?", ["Airplane!"]),
        ("東京都の首都は何ですか", ["東京都"]),  # the longest run of characters, no spaces to go by
        ("東京はどこ", ["東京"]),
        ("who made Director", ["Director"]),  # a capital beats being a word of a relation
        ("who is the director of Forrest Gump", ["Forrest Gump"]),  # and here it is that word
        ("who directed 2012", ["2012"]),  # a number where there is nothing else
        ("did Tom Hanks star in anything before 2012", ["Tom Hanks"]),
        ("who acted in Godfather yesterday", ["The Godfather"]),
        ("the license of the Eclipse project", ["Eclipse"]),
        ("who directed The Eclipse", ["The Eclipse"]),
        ("who was in King Kong", ["King Kong"]),
        ("films about king kong", ["King Kong"]),  # equal but for case: the better connected
        ('films tagged "king kong"', ["king kong"]),  # quoted: as written
        # near spellings
        ("what films did Tom Henks star in", ["Tom Hanks"]),
        ("what films did tom hnaks star in", ["Tom Hanks"]),
        ("what did zemeckis direct", ["Robert Zemeckis"]),
        ("the wife of henry_vii_of_england", ["henry_viii_of_england"]),
        # nothing
        ("who directed the film", []),
        ("what is it", []),
        ("", []),
        ("?!", []),
    ],
)
def test_the_topics_of_a_question(graph: StoredGraph, question: str, expected: list[str]) -> None:
    assert sorted(topics(link(question, graph))) == sorted(expected)


def test_a_known_name_in_small_letters_beside_one_with_a_capital() -> None:
    """The euro is a thing with many facts; "the director" of a film graph is a word with none."""
    world = open_graph(world_path())
    assert topics(link("which European countries do not use the euro?", world)) == ["Europe", "euro"]
    assert topics(link("what is the capital of Norway", world)) == ["Norway"]


def test_what_a_mention_says(graph: StoredGraph) -> None:
    assert link("what films did Tom Hanks star in", graph) == [
        Mention("Tom Hanks", 15, 24, [Found("Tom Hanks", 1.0, "exact")], True, "exact: capitals")
    ]
    (typo,) = link("what films did Tom Henks star in", graph)
    assert (typo.text, typo.sure, typo.why) == ("Tom Henks", False, "fuzzy: near spelling")
    (two,) = link("films about king kong", graph)
    assert [found.name for found in two.candidates] == ["King Kong", "king kong"]
    assert not two.sure
    (one,) = link("films about king kong", graph, most=1)
    assert [found.name for found in one.candidates] == ["King Kong"]
    assert not one.sure  # there are two, shown or not
    with pytest.raises(ValueError, match="at least 1, got 0"):
        link("films", graph, most=0)


def test_mentions_and_topics_come_in_the_order_of_the_question(graph: StoredGraph) -> None:
    mentions = link("up with tom hanks", graph)
    assert [mention.text for mention in mentions] == ["tom hanks"]  # up is a function word beside a name
    mentions = link("did Big or Robert Zemeckis win", graph)
    assert [mention.text for mention in mentions] == ["Big", "Robert Zemeckis"]
    assert topics(mentions) == ["Big", "Robert Zemeckis"]
    again = link("Tom Hanks, oh Tom Hanks", graph)
    assert (len(again), topics(again)) == (2, ["Tom Hanks"])


def test_a_part_of_a_name_is_a_guess_and_says_so(graph: StoredGraph) -> None:
    (mention,) = link("where was coppola born", graph)
    assert (topics([mention]), mention.sure) == (["Francis Ford Coppola"], False)
    (mention,) = link("who directed The Godfather Returns", graph)  # not in the graph, but its beginning is
    assert (topics([mention]), mention.sure) == (["The Godfather"], False)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("which team owns the most expensive service", []),
        ("which service uses redis", []),
        ("who owns the fraud service", ["fraud-guard"]),
        ("who owns the service", ["eta-service"]),
        ("who owns the eta service", ["eta-service"]),
        ("which team does boss lind lead", ["Ada Lind"]),  # a name with capitals is a name of its own
    ],
)
def test_a_kind_of_thing_is_not_a_thing_whose_name_ends_with_it(
    store: Callable[..., StoredGraph], question: str, expected: list[str]
) -> None:
    facts = [("eta-service", "owned_by", "Routing"), ("fraud-guard", "owned_by", "Payments")]
    assert topics(link(question, store([*facts, ("Ada Lind", "heads", "Payments")]))) == expected


def test_a_far_better_connected_name_is_meant_by_its_last_word(store: Callable[..., StoredGraph]) -> None:
    """Rank 0 is Abraham Lincoln, with 40 facts; the film Lincoln has one and stands behind 1,500 others."""
    facts = [("Abraham Lincoln", "speech", f"speech {n}") for n in range(40)]
    facts += [(f"film {n}", "theme", f"theme {n}") for n in range(750)]
    facts += [(f"film {n}", "sequel", f"theme {n}") for n in range(750)]
    graph = store([*facts, ("Lincoln", "year", "1865")])
    (mention,) = link("where was lincoln shot", graph)
    assert [found.name for found in mention.candidates] == ["Abraham Lincoln", "Lincoln"]
    assert not mention.sure
    assert topics(link("where was the film Lincoln shot", graph)) == ["Lincoln"]  # the capital is evidence
    assert topics(link('where was "lincoln" shot', graph)) == ["Lincoln"]


SHOP = [
    ("Ruota Nord", "is_a", "supplier"),
    ("Ruota Nord", "country", "Italy"),
    ("Lux & Co", "is_a", "supplier"),
    ("Lux & Co", "country", "France"),
    ("Velo Bern", "is_a", "customer"),
    ("Velo Bern", "country", "Switzerland"),
    ("Velo Roma", "is_a", "customer"),
    ("Velo Roma", "country", "Italy"),
    ("Disc Brake", "is_a", "part"),
    ("Disc Brake", "supplier", "Ruota Nord"),
    ("Disc Brake", "cost", "50"),
    ("Bell", "is_a", "part"),
    ("Bell", "supplier", "Lux & Co"),
    ("Heron", "is_a", "bike"),
    ("Heron", "contains", "Bell"),
    ("Heron", "sold_in", "United Kingdom"),
    ("Swift", "is_a", "bike"),
    ("Swift", "contains", "Disc Brake"),
    ("Swift", "status", "open"),
    ("TOP", "is_a", "bike"),
    ("Maria Lopez", "is_a", "employee"),
    ("Maria Lopez", "office", "Lisbon"),
    ("Maria Chen", "is_a", "employee"),
    ("Maria Chen", "office", "Berlin"),
    ("Priya Raman", "is_a", "employee"),
    ("Priya Raman", "department", "Research & Development"),
    ("Research & Development", "is_a", "department"),
    ("Research & Development", "head", "Maria Chen"),
    ("Priya Raman", "title", "Head of Purchasing"),
    ("Priya Raman", "head", "Purchasing"),
    ("Purchasing", "is_a", "department"),
    ("HNL", "is_a", "airport"),
    ("HNL", "name", "Honolulu Intl"),
    ("HNL", "zone", "Pacific/Honolulu"),
    ("python3", "written_in", "c"),
]


@pytest.fixture(scope="module")
def shop() -> Iterator[StoredGraph]:
    with memory_folder() as folder:
        yield store_of(folder, SHOP)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("which bikes have disc brakes", ["Disc Brake"]),  # a plural
        ("how many italian suppliers do we have", ["Italy"]),  # of a country
        ("parts from the french", ["France"]),
        ("what do the swiss buy", ["Switzerland"]),
        ("what is sold in the UK", ["United Kingdom"]),  # another name
        ("who is in R&D", ["Research & Development"]),  # letters
        ("does the Heron have a bell", ["Heron", "Bell"]),  # small letters beside capitals
        ("bikes with disc brakes but not from italy", ["Disc Brake", "Italy"]),  # in order of mention
        ("where is priya", ["Priya Raman"]),  # a first name
        ("which maria works in berlin", ["Maria Chen", "Berlin"]),  # of two the one that has to do with the other name
        ("who is maria", ["Maria Chen", "Maria Lopez"]),  # two readings, the better connected first
        ("who is the head of purchasing", ["Purchasing"]),  # no title
        ("flights to honolulu", ["HNL"]),  # the thing, not its name, nor a value with the same word
        ("parts of ruota nrod", ["Ruota Nord"]),  # misspelt
        ("do we get bells from ruota nord", ["Bell", "Ruota Nord"]),
        ("what is written in c", ["c"]),
        ("which bikes does velo hamburg buy", ["bike"]),  # not Velo Bern; and a class where there is nothing else
        ("top 5 suppliers in italy", ["Italy"]),  # neither TOP nor the class
    ],
)
def test_what_people_type_about_a_graph_of_their_own(shop: StoredGraph, question: str, expected: list[str]) -> None:
    assert topics(link(question, shop)) == expected


@pytest.mark.parametrize(
    ("question", "things", "kinds"),
    [
        ("how many italian suppliers do we have", ["Italy"], ["supplier"]),  # customers are from Italy, too
        ("which suppliers are in switzerland", ["Switzerland"], ["supplier"]),  # all there are customers: none
        ("suppliers that are not from italy", ["Italy"], ["supplier"]),  # about all of them
        ("which parts cost more than 50 euro", [], ["part"]),  # 50 is a value
        ("top 5 parts", [], ["part"]),
        ("who is the tallest", [], ["employee"]),  # people
        ("which part is the cheapest", [], ["part"]),
        ("which supplier has the most parts", [], ["supplier", "part"]),
        ("which countries do we deal with", [], ["country"]),  # what a relation leads to
        ("which bikes go to tokyo", [], []),  # about something that is not there
    ],
)
def test_where_a_walk_in_the_full_language_starts(
    shop: StoredGraph, question: str, things: list[str], kinds: list[str]
) -> None:
    mentions, found = starts_in(question, shop)
    assert (topics(mentions), [kind.name for kind in found]) == (things, kinds)


def test_a_graph_without_kinds_starts_from_all_its_things(store: Callable[..., StoredGraph]) -> None:
    graph = store([("bash", "size", "7"), ("zsh", "size", "9"), ("zsh", "needs", "libc")])
    assert starts_in("which package is the largest", graph) == ([], [EVERYTHING])
    assert starts_in("what does firefox need", graph) == ([], [])  # not there
    (mention,), kinds = starts_in("what does zsh need", graph)
    assert (mention.text, kinds) == ("zsh", [])


def test_rows_of_tables_are_found_by_their_keys(tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("order_no,client,state\n10248,Blue Fig,open\n10249,Acme,paid\n")
    (tmp_path / "items.csv").write_text("sku,item_name,price\n10248,Lamp,5\n4711,Milk Frother,49\n")
    files = [tmp_path / "orders.csv", tmp_path / "items.csv"]
    build(files, tmp_path / "x.kg", options=Options(table=True))
    graph = open_graph(tmp_path / "x.kg")
    assert topics(link("who is the client of order 10248", graph)) == ["orders 10248"]
    assert topics(link("what does sku 4711 cost", graph)) == ["Milk Frother"]
    assert topics(link("price of item no. 10248", graph)) == ["Lamp"]


def test_words_that_count_name_nothing(store: Callable[..., StoredGraph]) -> None:
    graph = store([("less", "depends_on", "libc6"), ("bash", "depends_on", "libc6")])
    assert topics(link("what has less than 3 dependencies", graph)) == []
    assert topics(link("what does less depend on", graph)) == ["less"]


def test_homonyms_are_found_by_their_label_and_ids_by_themselves(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("Q90\tP1\tQ142\nQ90\tP1\tQ30\nQ830149\tP1\tQ30\n")
    (tmp_path / "names.tsv").write_text("Q90\tParis\nQ830149\tParis\nQ142\tFrance\nQ30\tUSA\nP1\tcountry\n")
    build([tmp_path / "x.tsv"], tmp_path / "x.kg", labels=tmp_path / "names.tsv")
    graph = open_graph(tmp_path / "x.kg")
    (mention,) = link("what country is paris in", graph)
    assert [(found.name, found.id) for found in mention.candidates] == [
        ("Paris (Q90)", "Q90"),  # the better connected
        ("Paris (Q830149)", "Q830149"),
    ]
    assert not mention.sure
    assert topics(link("what country is Q830149 in", graph)) == ["Paris (Q830149)"]


def test_a_view_mentions_only_what_is_in_it(graph: StoredGraph) -> None:
    view = graph.subgraph([n for n, fact in enumerate(graph.match()) if fact.head == "Big"])
    assert topics(link("did Tom Hanks star in Big", view)) == ["Tom Hanks", "Big"]
    assert topics(link("did Robert Zemeckis direct Big", view)) == ["Big"]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("what films did Tom Hanks star in", ["Tom Hanks"]),
        ("what films did tom hanks star in", ["Tom Hanks"]),
        ("what films did Tom Henks star in", ["Tom Hanks"]),
        ("which films with Tom Hanks did Robert Zemeckis direct", ["Robert Zemeckis", "Tom Hanks"]),
        ("who lives in New York City", ["New York City"]),
        ("what is it", []),
    ],
)
def test_a_graph_without_a_store(question: str, expected: list[str]) -> None:
    assert sorted(topics(link(question, ScanGraph(FACTS)))) == expected


class Counting(ScanGraph):
    def __init__(self, facts: Sequence[tuple[str, ...]]) -> None:
        super().__init__(facts)
        self.asked = 0

    def __contains__(self, entity: object) -> bool:
        self.asked += 1
        return super().__contains__(entity)

    def find(self, text: str, k: int = 5) -> list[Found]:
        self.asked += 1
        return super().find(text, k)


def test_a_graph_elsewhere_is_asked_little() -> None:
    graph = Counting([("a", "b", "c")])
    link(" ".join(f"Word{n} word{n}" for n in range(300)), graph)
    assert graph.asked <= 40


# Any text at all

QUESTIONS = st.text(max_size=60) | st.lists(
    st.sampled_from(
        ["Tom Hanks", "It", "up", "who", "東京都", '"', "'s", "_", "-", "Henks", "2012", "The", "\ud800", "é"]
    )
).flatmap(lambda parts: st.sampled_from(["", " ", "_"]).map(lambda glue: glue.join(parts)))


@given(QUESTIONS)
@settings(max_examples=150)
def test_any_text_gives_mentions_in_order_that_do_not_overlap(graph: StoredGraph, question: str) -> None:
    mentions = link(question, graph)
    end = 0
    for mention in mentions:
        assert end <= mention.start < mention.end <= len(question)
        assert mention.text == question[mention.start : mention.end]
        assert 1 <= len(mention.candidates) <= 5
        assert all(found.name in graph for found in mention.candidates)
        assert len({found.name for found in mention.candidates}) == len(mention.candidates)
        end = mention.end
    assert sorted(mention.rank for mention in mentions) == list(range(len(mentions)))
    assert mentions == link(question, graph)


spaced = st.text(st.characters(categories=["Lu", "Ll"]), min_size=2, max_size=7)
unspaced = st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FA5), min_size=2, max_size=3)
words = (spaced | unspaced).filter(
    lambda word: (
        normalise(word).isalpha()
        and normalise(word) not in FUNCTION_WORDS
        and _stem(normalise(word)) not in CLASS_STEMS | {"likeness"}
    )
)


@given(
    st.lists(words, min_size=2, max_size=4),
    st.sampled_from([" ", "_", " of the ", "-", ", "]),
    st.sampled_from(["please tell us about {} today", "{}", "who is {}'s father?", 'what is "{}"', "Is it {}?"]),
)
@settings(max_examples=60)
def test_a_name_of_two_telling_words_is_found_in_a_sentence(parts: list[str], glue: str, sentence: str) -> None:
    name = glue.join(parts)
    assume(len(normalise(name).split()) >= 2)
    with temporary_store([(name, "likeness", "other"), ("other", "likeness", "father")]) as graph:
        assert topics(link(sentence.format(name), graph))[0] == name
