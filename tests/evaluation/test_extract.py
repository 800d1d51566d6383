"""Text to graph: passages that a reader can check, a scripted model, a server on loopback, Ctrl-C, and any text."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks.extract.__main__ import PASSAGES, RELATIONS, annotated, score
from hypothesis import given
from hypothesis import strategies as st

from api_server import Said, completion, failure, serving
from commands import Cli
from kgwalk.evaluation.text_facts.extract import (
    ExtractReport,
    ExtractSettings,
    extract,
    passages_of,
    read_documents,
    read_relations,
)
from kgwalk.evaluation.text_facts.merging import entity_key, merge_names, merge_relations, near_names
from kgwalk.evaluation.text_facts.passage_facts import (
    REASONS,
    LocatedFact,
    SaidFact,
    TextDocument,
    TextPassage,
    locate,
    mentions,
    messages_of,
    parse_reply,
    reply_grammar,
)
from kgwalk.kg.build import build
from kgwalk.kg.fact_sources import sources_behind
from kgwalk.kg.names import normalise
from kgwalk.kg.store import open_graph
from kgwalk.llm.automaton import automaton_of
from kgwalk.llm.engine import Engine, Request, ScriptedEngine
from kgwalk.llm.tokenizers import ByteTokenizer
from kgwalk.types import InputError, KgwalkError, Triple
from kgwalk.walk.web.documents import entries, passages, source_files

BIG = "Big is a 1988 film directed by Penny Marshall. Tom Hanks plays a boy who wakes up as a man. He was praised."
PENNY = "Penny Marshall was born in New York. She directed BIG in 1988."
REPLIES = {
    "Big": "Big | director | Penny Marshall\nBig | cast member | Tom Hanks\nHe | praised by | Big\n"
    "Big | director | Ron Howard\nThis is all.\nBig | release_year | 1988",
    "Penny Marshall": "Penny Marshall | place of birth | New York\nBig | director | penny marshall\n"
    "Big | release year | 1988\nPenny Marshall | place of birth | New York\nPenny | x | PENNY",
    "Rain": "none",
}


def documents(folder: Path) -> Path:
    """Four documents of four kinds; the one about rain states nothing."""
    place = folder / "docs"
    place.mkdir()
    (place / "big.md").write_text(f"# Big\n\n{BIG}\n")
    (place / "notes.html").write_text("<title>Rain</title><p>It rained.</p><script>Big()</script>")
    rows = [{"title": "Penny Marshall", "text": PENNY, "url": "https://example.org/penny"}, {"title": "", "text": " "}]
    (place / "people.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return place


def title_of(request: Request) -> str:
    found = re.search(r"^Title: (.*)$", request.messages[-1].content, re.MULTILINE)
    assert found is not None
    return found[1]


def scripted(replies: Mapping[str, str], **options: Any) -> Callable[[], Engine]:
    return lambda: ScriptedEngine(lambda request: replies[title_of(request)], **options)


def extracted(
    folder: Path, replies: Mapping[str, str], settings: ExtractSettings | None = None, **options: Any
) -> ExtractReport:
    found = passages_of(read_documents([folder / "docs"]))
    return extract(found, scripted(replies), folder / "t.tsv", settings or ExtractSettings("script"), **options)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "t.sources.jsonl").read_text().splitlines()]


def no_engine() -> Engine:
    raise AssertionError("nobody needs a model")


# Worked by hand


def test_documents_become_triples_that_quote_their_sentences(tmp_path: Path) -> None:
    place = documents(tmp_path)
    report = extracted(tmp_path, REPLIES)
    assert (tmp_path / "t.tsv").read_text().splitlines() == [
        "Big\tdirector\tPenny Marshall",
        "Big\tcast member\tTom Hanks",
        "Big\trelease_year\t1988",
        "Penny Marshall\tplace of birth\tNew York",
    ]
    rows = rows_of(tmp_path)
    assert [(row["fact"][1], row["document"], row["sentence"]) for row in rows if "fact" in row] == [
        ("director", "docs/big.md", "Big is a 1988 film directed by Penny Marshall."),
        ("director", "docs/people.jsonl:1", "She directed BIG in 1988."),  # Penny Marshall is who "she" is
        ("cast member", "docs/big.md", "Tom Hanks plays a boy who wakes up as a man."),
        ("release_year", "docs/big.md", "Big is a 1988 film directed by Penny Marshall."),
        ("release_year", "docs/people.jsonl:1", "She directed BIG in 1988."),
        ("place of birth", "docs/people.jsonl:1", "Penny Marshall was born in New York."),
    ]
    assert rows[1]["url"] == "https://example.org/penny"
    assert (rows[0]["start"], rows[0]["end"], rows[0]["head"], rows[0]["tail"]) == (0, 46, [0, 3], [31, 45])
    assert (report.documents, report.passages, report.asked, report.failed) == (3, 3, 3, 0)
    assert (report.lines, report.malformed, report.cut) == (11, 1, 0)
    assert {why: count for why, count in report.dropped.items() if count} == {
        "pronoun": 1,  # He
        "object_not_in_text": 1,  # Ron Howard
        "same_name": 1,  # Penny, PENNY
    }
    assert (report.triples, report.sources, report.entities, report.relations) == (4, 6, 5, 4)
    assert report.merged_names == {"Big": ["BIG"]}
    assert rows[-1] == {"alias": "BIG", "of": "Big"}
    assert report.merged_relations == {"release_year": ["release year"]}
    assert report.examples["malformed"] == ["This is all."]
    for file in source_files(place):
        for entry in entries(file):
            for row in rows[:-1]:
                if row["document"] in (file.name, f"{file.name}:{entry.place}"):
                    assert entry.text[row["start"] : row["end"]] == row["sentence"]


def test_a_store_of_it_answers_with_the_sentences(tmp_path: Path) -> None:
    documents(tmp_path)
    extracted(tmp_path, REPLIES)
    report = build([tmp_path / "t.tsv"], tmp_path / "t.kg")
    assert (report.triples, report.sources) == (4, 6)
    fact = Triple("Big", "director", "Penny Marshall")
    found = sources_behind({"Penny Marshall": [fact]}, open_graph(tmp_path / "t.kg"))[fact]
    assert [(one.place, one.sentence) for one in found] == [
        ("docs/big.md", "Big is a 1988 film directed by Penny Marshall."),
        ("https://example.org/penny", "She directed BIG in 1988."),
    ]


def test_every_reason_to_drop_a_fact() -> None:
    text = "Ann Lee leads the Harbour Trust. Its seat is in Porto, near a bridge."
    passage = TextPassage(TextDocument("d", "Trusts of Faro", text), 0, len(text))
    said = {
        "too_long": ("Ann Lee", "leads", "x" * 101),
        "pronoun": ("Its", "seat", "Porto"),
        "other_relation": ("Ann Lee", "age", "Porto"),
        "subject_not_in_text": ("Ann Leeds", "leads", "Harbour Trust"),
        "object_not_in_text": ("Ann Lee", "leads", "Harbour"[:4]),
        "only_in_title": ("Trusts", "location", "Faro"),
        "same_name": ("Porto", "seat", "porto"),
    }
    asked = ("leads", "seat", "location")
    assert {why: locate(SaidFact(*fact), passage, asked) for why, fact in said.items()} == {why: why for why in REASONS}
    assert list(said) == list(REASONS)
    kept = locate(SaidFact("harbour trust", "LOCATION", "Faro"), passage, asked)
    assert isinstance(kept, LocatedFact)
    assert (kept.head, kept.relation, kept.tail) == ("Harbour Trust", "location", "Faro")
    assert (kept.head_at, kept.tail_at) == ((18, 31), None)  # Faro stands in the title
    assert text[slice(*kept.sentence)] == "Ann Lee leads the Harbour Trust."


def test_names_are_found_as_whole_words_and_written_as_the_text_has_them() -> None:
    text = 'Hucbert, lay- abbot of St.\nMaurice\'s Abbey, wrote" What is God?" in C++.'
    for name, found in (
        ("HUCBERT", "Hucbert"),
        ("lay-abbot", "lay- abbot"),
        ("St. Maurice's Abbey", "St.\nMaurice's Abbey"),
        ("What is God?", "What is God?"),
        ("C++", "C++"),
        ("Maurice", "Maurice"),
    ):
        assert [text[slice(*span)] for span in mentions(name, text)] == [found]
    assert mentions("Huc", text) == mentions("abbots", text) == mentions("God What", text) == []


def test_a_sentence_with_both_names_is_taken_before_one_with_a_pronoun() -> None:
    text = "Guy met Ann. Ann left. Guy and Ann married in Bern. They moved."
    passage = TextPassage(TextDocument("d", "", text), 0, len(text))
    for fact, sentence in (
        (("Ann", "spouse", "Guy"), "Guy met Ann."),
        (("Ann", "place of marriage", "Bern"), "Guy and Ann married in Bern."),
    ):
        found = locate(SaidFact(*fact), passage)
        assert isinstance(found, LocatedFact)
        assert text[slice(*found.sentence)] == sentence


# Replies


def test_lines_are_read_strictly() -> None:
    reply = "A | b | C\n\n- A | b\nA | b | C | D\n | b | C\nA|b|C\nhere you go:\n  A  |  b c |  D e "
    parsed = parse_reply(reply)
    assert parsed.facts == [("A", "b", "C"), ("A", "b", "C"), ("A", "b c", "D e")]
    assert parsed.malformed == ["- A | b", "A | b | C | D", "| b | C", "here you go:"]
    assert parse_reply(" NONE \n") == parse_reply("")
    assert parse_reply("none\nA | b | C").malformed == ["none"]
    assert parse_reply("A | b | C", ended=False).facts == []


@given(st.text(alphabet=st.sampled_from("Ab |\n\té|—")), st.booleans())
def test_no_line_of_any_reply_is_lost_or_guessed(text: str, ended: bool) -> None:
    parsed = parse_reply(text, ended=ended)
    lines = [line for line in text.split("\n") if line.strip()]
    cut = [] if ended or not text.rsplit("\n", 1)[-1].strip() else [text.rsplit("\n", 1)[-1].strip()]
    assert [parsed.cut] * bool(parsed.cut) == cut
    assert len(parsed.facts) + len(parsed.malformed) + len(cut) == len(lines)
    for fact in parsed.facts:
        assert all(part and "|" not in part and part == " ".join(part.split()) for part in fact)
        assert any([" ".join(one.split()) for one in line.split("|")] == list(fact) for line in lines)


WORDS = "Ann Lee of Porto met the C++ St. 1988 and Bern-Ost O'Neil She café"
words = st.lists(st.sampled_from(WORDS.split()), min_size=1, max_size=9)
texts = st.lists(words.map(" ".join), min_size=1, max_size=4).map(lambda parts: ". ".join(parts) + ".")


@given(texts, words.map(lambda some: " ".join(some[:3])), words.map(lambda some: " ".join(some[:3])), st.integers(0, 9))
def test_every_span_quotes_exactly_what_it_says(text: str, subject: str, object_: str, before: int) -> None:
    document = TextDocument("d", "Ann of Bern", "x" * before + "\n\n" + text)
    passage = TextPassage(document, before + 2, len(document.text))
    found = locate(SaidFact(subject, "met", object_), passage)
    if isinstance(found, str):
        assert found in REASONS
        return
    assert passage.start <= found.sentence.start < found.sentence.end <= passage.end
    for said, name, at in ((subject, found.head, found.head_at), (object_, found.tail, found.tail_at)):
        assert normalise(said) == normalise(name)
        assert name in ("Ann of Bern", "Ann", "Bern", "of", "of Bern", "Ann of") if at is None else True
        if at is not None:
            assert " ".join(document.text[slice(*at)].split()) == name
    inside = [at for at in (found.head_at, found.tail_at) if at is not None]
    assert any(found.sentence.start <= at.start < found.sentence.end for at in inside)


@given(texts, st.integers(1, 60))
def test_passages_are_slices_of_their_document(text: str, characters: int) -> None:
    document = TextDocument("d", "", text)
    assert [one.text for one in passages_of([document], characters)] == passages(text, characters)


# Constrained decoding


def test_the_grammar_allows_what_is_parsed_and_nothing_else() -> None:
    automaton = automaton_of(ByteTokenizer())
    assert automaton is not None

    def allows(text: str, relations: Sequence[str] = ()) -> bool:
        state = automaton.start(reply_grammar(relations))
        for byte in [*text.encode(), ByteTokenizer.END]:
            state = state.after(byte) if state is not None else None
        return state is not None

    for good in ("none", "Big | director | Penny Marshall", "A | b | C\nÉ | f g | 12"):
        assert allows(good)
        assert parse_reply(good).malformed == []
    for bad in ("", "It is a film.", "A | b | C | D", "A | b | C\n", "A | b", "none\n"):
        assert not allows(bad)
    asked = ("director", "date of birth")
    assert allows("Big | director | X\nX | date of birth | Y", asked)
    assert not allows("Big | year | X", asked)


def test_any_reply_under_the_grammar_has_three_parts_in_each_line() -> None:
    automaton = automaton_of(ByteTokenizer())
    assert automaton is not None
    for seed in range(20):
        draw, room, text = random.Random(seed), 40, bytearray()
        state = automaton.start(reply_grammar(("in", "of") if seed % 2 else ()))
        while True:
            allowed = state.allowed(room - len(text))
            token = int(draw.choice([one for one in allowed if one in {*b"| abino\nf", ByteTokenizer.END}]))
            if token == ByteTokenizer.END:
                break
            text.append(token)
            after = state.after(token)
            assert after is not None
            state = after
        lines = text.decode().split("\n")
        assert lines == ["none"] or all(line.count("|") == 2 for line in lines)


def test_a_reply_without_room_loses_its_last_line(tmp_path: Path) -> None:
    """Of 43 bytes 37 have room; a grammar ends the text there, in the middle of a name."""
    place = tmp_path / "docs"
    place.mkdir()
    (place / "a.txt").write_text("Ann Lee met Bo. Ann Lee met Cornelia.")
    settings, text = ExtractSettings("script", max_tokens=37), "Ann Lee | met | Bo\nAnn Lee | met | Cornelia"
    ended = text[:36]  # "Ann Lee | met | C", as a grammar has to: then comes the end token
    for said, constrained in ((text, False), (ended, True)):
        found = passages_of(read_documents([place]))
        make = scripted({"a": said}, constrained=constrained)
        report = extract(found, make, tmp_path / "t.tsv", settings, replace=True)
        assert (report.failed, report.triples, report.cut) == (0, 1, 1), report.notes
        assert (tmp_path / "t.tsv").read_text() == "Ann Lee\tmet\tBo\n"


# Names


def test_names_that_are_equal_but_for_their_writing_are_merged() -> None:
    said = ["Tom Hanks", "TOM HANKS", "Tom Hanks", "Hanks, Tom", "the University of Porto", "University of Porto"]
    said += [
        "University of Porto",
        "São Paulo",
        "Sao Paulo",
        "C",
        "C++",
        "1.5",
        "15",
        "turkey",
        "Turkey",
        "Anna",
        "Ann",
    ]
    merged = merge_names((name, at) for at, name in enumerate(said))
    assert merged.groups() == {
        "Tom Hanks": ["TOM HANKS", "Hanks, Tom"],
        "University of Porto": ["the University of Porto"],
        "São Paulo": ["Sao Paulo"],
    }
    assert merge_relations(["born_in", "born in", "Born in", "bornIn", "in"]).groups() == {
        "born_in": ["born in", "Born in", "bornIn"]
    }


def test_names_that_are_near_are_reported_and_merged_only_if_asked_for() -> None:
    said = [("Robert Zemeckis", 0), ("Robert Zemeckis", 1), ("Robert Zemekis", 2)]
    others = [
        "Adalbert I",
        "Adalbert II",
        "Francis Bell",
        "Frances Bell",
        "Apollo 11",
        "Apollo 12",
        "Austria",
        "Australia",
    ]
    every = [*said, *((name, 10 + at) for at, name in enumerate(others))]
    merged = merge_names(every)
    assert [pair[:2] for pair in merged.near] == [("Robert Zemeckis", "Robert Zemekis")]
    assert merged.groups() == {}
    assert merge_names(every, near=True).groups() == {"Robert Zemeckis": ["Robert Zemekis"]}
    # two that one passage tells apart are two
    assert merge_names([("Homburg", 1), ("Hamburg", 1)]).near == []
    assert near_names({"Homburg": 1, "Hamburg": 1}) != []


@given(st.lists(st.text(alphabet="Aa b,.é-1"), min_size=1, max_size=8))
def test_merging_keeps_a_name_that_was_said_and_forgets_none(names: list[str]) -> None:
    merged = merge_names((name, 0) for name in names)
    assert {merged[name] for name in names} <= set(names)
    for name in names:
        assert merged[merged[name]] == merged[name]
        assert entity_key(merged[name]) == entity_key(name)


# A run that goes on


def test_a_run_goes_on_with_what_it_has(tmp_path: Path) -> None:
    documents(tmp_path)
    found = passages_of(read_documents([tmp_path / "docs"]))
    first = extract(found[:1], scripted(REPLIES), tmp_path / "t.tsv", ExtractSettings("script"))
    assert (first.asked, first.passages) == (1, 1)
    with pytest.raises(KgwalkError, match="--resume"):
        extracted(tmp_path, REPLIES)
    rest = {title: reply for title, reply in REPLIES.items() if title != "Big"}
    assert extracted(tmp_path, rest, resume=True).asked == 2
    again = extract(found, no_engine, tmp_path / "t.tsv", ExtractSettings("script"), resume=True)
    assert (again.asked, again.triples) == (0, 4)
    with pytest.raises(KgwalkError, match="model was 'script' and is 'another'"):
        extracted(tmp_path, REPLIES, ExtractSettings("another"), resume=True)
    with pytest.raises(KgwalkError, match="relations was"):
        extracted(tmp_path, REPLIES, ExtractSettings("script", relations=("director",)), resume=True)
    # a document that changed is asked for again, the others are not
    (tmp_path / "docs" / "big.md").write_text("# Big\n\nBig is a film of 1988.\n")
    assert extracted(tmp_path, {"Big": "Big | year | 1988"}, resume=True).asked == 1
    only = ExtractSettings("script", relations=("director",))
    assert extracted(tmp_path, REPLIES, only, replace=True).dropped["other_relation"] == 5


def test_starting_over_keeps_the_old_replies_until_there_is_a_new_one(tmp_path: Path, cli: Cli) -> None:
    """They were paid for: a wrong name of a model, or a second option by mistake, must not cost them."""
    place, kept = documents(tmp_path), tmp_path / "t.replies.jsonl"
    extracted(tmp_path, REPLIES)
    before = kept.read_bytes()
    line = ("kg", "extract", place, "-o", tmp_path / "t.tsv", "--model", "script")
    both = cli(*line, "--resume", "--force")
    assert both.status == 2
    assert "--resume keeps the replies and --force starts over" in both.stderr
    with pytest.raises(KgwalkError, match="give one of them"):
        extracted(tmp_path, REPLIES, resume=True, replace=True)

    def missing() -> Engine:
        raise KgwalkError("no such model")

    found = passages_of(read_documents([place]))
    with pytest.raises(KgwalkError, match="no such model"):
        extract(found, missing, tmp_path / "t.tsv", ExtractSettings("scirpt"), replace=True)
    assert kept.read_bytes() == before
    with pytest.raises(KeyError, match="Rain"):  # the second passage has no reply
        extracted(tmp_path, {"Big": "none"}, ExtractSettings("new"), replace=True)
    head, *replies = [json.loads(row) for row in kept.read_text().splitlines()]
    assert (head["model"], [reply["text"] for reply in replies]) == ("new", ["none"])
    assert not [*tmp_path.glob(".*.partial")]


def test_given_relations_stand_in_the_prompt_and_the_report(tmp_path: Path) -> None:
    (tmp_path / "r.txt").write_text("# of films\ndirector\n\n  release   year\ndirector\n")
    assert read_relations(tmp_path / "r.txt") == ("director", "release year")
    passage = TextPassage(TextDocument("d", "Big", BIG), 0, len(BIG))
    asked = messages_of(passage, ("director", "release year"))
    assert asked[-1].content.startswith(
        "Use only these relations, and only where the passage says so: director; release year\n\nTitle: Big\n\nBig is a"
    )
    assert "Use only" not in "".join(message.content for message in messages_of(passage))
    for wrong in ("", "a | b"):
        (tmp_path / "r.txt").write_text(wrong)
        with pytest.raises(InputError, match="one relation a line"):
            read_relations(tmp_path / "r.txt")


def test_documents_of_the_same_name_are_told_apart_and_files_are_read_once(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "notes.txt").write_text(f"Of {folder}.")
    paths = [tmp_path / "a" / "notes.txt", tmp_path / "b" / "notes.txt", tmp_path / "a"]
    names = [one.name for one in read_documents(paths)]
    assert names == [(tmp_path / folder / "notes.txt").as_posix() for folder in "ab"]
    (tmp_path / "x.pdf").write_bytes(b"%PDF")
    with pytest.raises(InputError, match="no text that can be read"):
        list(read_documents([tmp_path / "x.pdf"]))


def test_what_no_file_takes_is_replaced(tmp_path: Path) -> None:
    """Half of a surrogate pair, in a file's name and in a reply."""
    place = tmp_path / "docs"
    place.mkdir()
    Path(os.fsdecode(os.fsencode(place) + b"/\xff.txt")).write_text("Ann met Bo.")

    class Broken(ByteTokenizer):
        def decode(self, ids: Sequence[int]) -> str:
            return "Ann | m\ud800t | Bo"

    found = passages_of(read_documents([place]))
    make = lambda: ScriptedEngine(lambda request: "x", tokens=Broken())  # noqa: E731
    assert extract(found, make, tmp_path / "t.tsv", ExtractSettings("script")).triples == 1
    assert (tmp_path / "t.tsv").read_text() == "Ann\tm?t\tBo\n"
    assert rows_of(tmp_path)[0]["document"] == "docs/?.txt"


# The command, with a server on loopback


def model(path: str, body: Any) -> Said:
    """Reads passages by REPLIES, and walks to a director."""
    last = body["messages"][-1]["content"]
    title = re.search(r"^Title: (.*)$", last, re.MULTILINE)
    if body["messages"][0]["content"].startswith("You turn text into"):
        assert title is not None
        return completion(REPLIES[title[1]])
    turns = ['tail_entities($1, "director")', "<answer>$2</answer>"]
    return completion(turns[sum(one["role"] == "assistant" for one in body["messages"])])


def test_from_documents_to_an_answer_that_quotes_its_sentence(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, triples, store = documents(tmp_path), tmp_path / "films.tsv", tmp_path / "films.kg"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    with serving(model) as (api, url):
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        by = ("--engine", "api", "--model", "m")
        done = cli("kg", "extract", place, "-o", triples, *by, "--report", tmp_path / "r.json", "--json")
        assert done.status == 0, done.stderr
        assert done.json["tokens"] == {"generated": 30, "prompt": 57, "total": 87}  # as the server counts
        assert done.json == json.loads((tmp_path / "r.json").read_text())
        assert cli("kg", "extract", place, "-o", triples, *by).status == 1
        again = cli("kg", "extract", place, "-o", triples, *by, "--resume")
        assert "4 triples (5 entities, 4 relations) with 6 quotations; 3 passages" in again.stdout
        assert "0 asked now" in again.stdout
        assert len(api.asked) == 3
        built = cli("kg", "build", triples, "-o", store)
        assert "4 triples, 5 entities, 4 relations, 6 quotations" in built.stdout
        asked = cli("ask", "who is the director of Big?", "--graph", store, *by)
        assert asked.stdout.splitlines() == [
            "Penny Marshall",
            "    (Big, director, Penny Marshall)",
            '        "Big is a 1988 film directed by Penny Marshall." (docs/big.md)',
            '        "She directed BIG in 1988." (https://example.org/penny)',
        ]
        told = cli("ask", "who is the director of Big?", "--graph", store, *by, "--json").json
    assert [one["sentence"] for one in told["sources"]] == [
        "Big is a 1988 film directed by Penny Marshall.",
        "She directed BIG in 1988.",
    ]
    assert told["evidence"] == {"Penny Marshall": [["Big", "director", "Penny Marshall"]]}


def test_a_model_that_is_down_ends_the_run_and_one_that_stumbles_does_not(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docs").mkdir()
    for number in range(9):
        (tmp_path / "docs" / f"{number}.txt").write_text(f"Ann met Bo in room {number}.")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    bad = {"3"}
    with serving(
        lambda path, body: (
            failure(400, "no")
            if bad & {body["messages"][-1]["content"].split()[1]} or not bad
            else completion("Ann | met | Bo")
        )
    ) as (_, url):
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        line = ("kg", "extract", tmp_path / "docs", "-o", tmp_path / "t.tsv", "--engine", "api", "--model", "m")
        done = cli(*line)
        assert (done.status, "1 passages failed; --resume asks again" in done.stderr) == (0, True), done.stderr
        assert "with 8 quotations" in done.stdout
        bad = set()
        down = cli(*line, "--force")
        assert down.status == 1
        assert re.search("the engine failed [0-9]+ times in a row .* 0 replies are kept", down.stderr)


def test_ctrl_c_keeps_what_was_said_and_resume_asks_for_the_rest(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for number in range(6):
        (tmp_path / "docs" / f"{number}.txt").write_text(f"Ann met Bo{number}.")
    held, seen = threading.Event(), threading.Event()
    asked: list[str] = []
    lock = threading.Lock()

    def slow(path: str, body: Any) -> Said:
        title = body["messages"][-1]["content"].split()[1]
        with lock:
            asked.append(title)
        if title in "345" and not held.is_set():
            held.wait(20)
        return completion(f"Ann | met | Bo{title}")

    with serving(slow) as (_, url):
        line = [sys.executable, "-m", "kgwalk.cli.main", "kg", "extract", "docs", "-o", "t.tsv", "--model", "m"]
        environment = {**os.environ, "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "sk-x"}
        run = [*line, "--engine", "api"]
        first = subprocess.Popen(run, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
        replies = tmp_path / "t.replies.jsonl"
        while not (replies.exists() and len(replies.read_text().splitlines()) == 4):
            assert first.poll() is None
            seen.wait(0.02)
        first.send_signal(signal.SIGINT)
        held.set()
        _, said = first.communicate(timeout=30)
        assert first.returncode == 130
        assert "what was done is kept in t.replies.jsonl, and the same command goes on with --resume" in said
        assert not (tmp_path / "t.tsv").exists()
        with open(replies, "a") as file:
            file.write('{"passage": "cut of')  # as a kill would leave it
        before = len(asked)
        subprocess.run([*run, "--resume"], cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert sorted(asked[before:]) == ["3", "4", "5"]
    assert len((tmp_path / "t.tsv").read_text().splitlines()) == 6


# The annotated passages


def test_the_annotation_is_in_its_texts_and_scores_full_marks(tmp_path: Path) -> None:
    gold, relations = annotated(), read_relations(RELATIONS)
    lines: dict[str, str] = {}
    for row in gold:
        passage = TextPassage(TextDocument("d", row["title"], row["text"]), 0, len(row["text"]))
        for head, relation, tails in [*row["facts"], *row["also"]]:
            for tail in [tails] if isinstance(tails, str) else tails:
                found = locate(SaidFact(head, relation, tail), passage, relations)
                assert isinstance(found, LocatedFact), (head, relation, tail, found)
        first = [(h, r, t if isinstance(t, str) else t[-1]) for h, r, t in row["facts"]]
        lines[row["title"]] = "\n".join(" | ".join(fact) for fact in first) or "none"
    settings = ExtractSettings("script", relations=relations)
    found = passages_of(read_documents([PASSAGES]))
    report = extract(found, scripted(lines), tmp_path / "t.tsv", settings)
    triples = [line.split("\t") for line in (tmp_path / "t.tsv").read_text().splitlines()]
    perfect = score(triples, gold)
    assert (report.triples, perfect.facts, perfect.precision, perfect.recall) == (33, 33, 1.0, 1.0)
    turned = [(tail, "is", head) for head, _, tail in triples]
    assert score(turned, gold).right == 0
    assert score(turned, gold, pairs=True).recall == 1.0
    half = score([*triples[:11], ("Serrin", "river", "Vall")], gold)
    assert (half.right, half.triples, half.found) == (11, 12, 11)
