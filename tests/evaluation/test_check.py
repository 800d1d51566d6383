"""`kgwalk data check`: a good folder passes, a broken one gives a list of what is wrong and never a traceback.

The folder is the films of conftest with four questions. Breadth-first search is checked against a plain one.
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from commands import ENVIRONMENT, SCRIPT, Done, quickly
from conftest import FILMS, memory_folder, store_of, temporary_store
from kgwalk.data.dataset import Dataset
from kgwalk.evaluation.check import check, distances
from kgwalk.evaluation.findings import KINDS, DataReport
from kgwalk.kg.build import build
from kgwalk.kg.store import StoredGraph
from kgwalk.types import KgwalkError

Row = dict[str, Any]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # `quickly` sets the environment of the command to ENVIRONMENT
    monkeypatch.setitem(ENVIRONMENT, "KGWALK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KGWALK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def asked(id: str, question: str, topic: str, answers: list[str], hops: int = 1, **more: Any) -> Row:
    return {"id": id, "question": question, "topic_entities": [topic], "answers": answers, "hops": hops, **more}


def rows_of_train() -> list[Row]:
    path = [["Big", "starred_actors", "Tom Hanks"], ["Cast Away", "starred_actors", "Tom Hanks"]]
    return [
        asked("t1", "who directed Big?", "Big", ["Penny Marshall"]),
        asked("t2", "which films share an actor with Big?", "Big", ["Cast Away"], 2, gold_paths=[path]),
        asked("t3", "when did Cast Away come out?", "Cast Away", ["2000"]),
    ]


def rows_of_test() -> list[Row]:
    return [asked("e1", "who directed Contact?", "Contact", ["Robert Zemeckis"])]


def lines(rows: list[Row]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def facts(rows: list[tuple[str, ...]]) -> bytes:
    return "".join("\t".join(row) + "\n" for row in rows).encode()


def folder(path: Path, **files: bytes | None) -> Path:
    """A good dataset folder, with the files given in place of its own; `__` stands for a dot, None for no file."""
    own = {"train__jsonl": lines(rows_of_train()), "test__jsonl": lines(rows_of_test()), "kg__tsv": facts(FILMS)}
    path.mkdir(parents=True)
    for name, data in (own | files).items():
        if data is not None:
            (path / name.replace("__", ".")).write_bytes(data)
    return path


def checked(path: Path, split: str | None = None) -> DataReport:
    return check(Dataset(path.name, path), split)


def found(path: Path) -> list[tuple[str, str | None, int | None]]:
    """What was found: kind, split and line."""
    return [(one.kind, one.split, one.line) for one in checked(path).findings]


# A good folder


def test_a_good_folder_passes(tmp_path: Path) -> None:
    result = checked(folder(tmp_path / "films"))
    assert (result.findings, result.ok) == ([], True)
    assert result.questions == {"train": 3, "test": 1}
    assert result.reach == {"train": {"1": 2, "2": 1}, "test": {"1": 1}}


def test_the_command_says_so(tmp_path: Path) -> None:
    folder(tmp_path / "films")
    done = quickly("data", "check", "films", cwd=tmp_path)
    assert done == Done(
        0,
        "train: hops to the nearest answer: 1: 2, 2: 1\n"
        "test: hops to the nearest answer: 1: 1\n"
        "checked 4 questions: 0 errors, 0 notes\n",
        "",
    )
    report = quickly("data", "check", "films", "--json", cwd=tmp_path).json
    reach = {"train": {"1": 2, "2": 1}, "test": {"1": 1}}
    assert report == {"questions": {"train": 3, "test": 1}, "findings": {}, "reach": reach, "ok": True}


# Broken folders: each in one way, and what is found


def changed(**fields: Any) -> bytes:
    """The train split with its second question changed; ... leaves a field out."""
    rows = rows_of_train()
    rows[1] = {key: value for key, value in (rows[1] | {"gold_paths": None} | fields).items() if value is not ...}
    return lines(rows)


def with_line(line: bytes) -> bytes:
    return lines(rows_of_train()[:1]) + line + b"\n" + lines(rows_of_train()[2:])


BROKEN: dict[str, tuple[dict[str, bytes | None], tuple[str, str | None, int | None], str]] = {
    "no JSON": ({"train__jsonl": with_line(b'{"id": "t2", ')}, ("bad_line", "train", 2), "not JSON"),
    "not UTF-8": ({"train__jsonl": with_line(b'{"id": "t\xff"}')}, ("bad_line", "train", 2), "got the byte 0xff"),
    "no object": ({"train__jsonl": with_line(b'["t2"]')}, ("bad_line", "train", 2), "expected an object, got a list"),
    "no question": ({"train__jsonl": changed(question=...)}, ("bad_line", "train", 2), "no `question`"),
    "question a number": ({"train__jsonl": changed(question=7)}, ("bad_line", "train", 2), "expected `question`, text"),
    "id a list": ({"train__jsonl": changed(id=["t2"])}, ("bad_line", "train", 2), "expected `id`, text, got a list"),
    "answers left out": ({"train__jsonl": changed(answers=...)}, ("bad_line", "train", 2), "expected `answers`"),
    "topics a text": ({"train__jsonl": changed(topic_entities="Big")}, ("bad_line", "train", 2), "got text"),
    "hops a text": ({"train__jsonl": changed(hops="2")}, ("bad_line", "train", 2), "expected `hops`"),
    "hops below 0": ({"train__jsonl": changed(hops=-1)}, ("bad_line", "train", 2), "got -1"),
    "a path of names": ({"train__jsonl": changed(gold_paths=[["Big"]])}, ("bad_line", "train", 2), "`gold_paths`"),
    "aliases a list": ({"train__jsonl": changed(aliases=["x"])}, ("bad_line", "train", 2), "expected `aliases`"),
    "an id twice": ({"train__jsonl": changed(id="t1")}, ("duplicate_id", "train", 2), "the same id as line 1"),
    "a blank question": ({"train__jsonl": changed(question=" ")}, ("no_text", "train", 2), "`question` is blank"),
    "no topics": ({"train__jsonl": changed(topic_entities=[])}, ("no_topics", "train", 2), "is empty"),
    "no answers": ({"train__jsonl": changed(answers=[])}, ("no_answers", "train", 2), "is empty"),
    # the blank answer is no entity, so that two are predicted and one is right: F1 = 2 * 1 / (2 + 1)
    "a blank answer": ({"train__jsonl": changed(answers=["Cast Away", ""])}, ("gold_f1", "train", 2), "F1 = 0.667"),
    "neither yes nor no": (
        {"train__jsonl": changed(answers=["Cast Away"], answer_kind="boolean")},
        ("gold_truth", "train", 2),
        "'Cast Away'",
    ),
    "topic unknown": ({"train__jsonl": changed(topic_entities=["Bog"])}, ("topics_missing", "train", 2), "'Bog'"),
    "answer unknown": ({"train__jsonl": changed(answers=["Hook"])}, ("answers_missing", "train", 2), "'Hook'"),
    "a count that is not said to be one": (
        {"train__jsonl": changed(answers=["2"])},
        ("answers_missing", "train", 2),
        """'2'; for an answer that is counted or worked out, give the question `"answer_kind": "number"`""",
    ),
    "an empty file": ({"train__jsonl": b"\n"}, ("unreadable_file", "train", None), "no questions"),
    "gzip cut off": (
        {"train__jsonl": None, "train__jsonl__gz": gzip.compress(lines(rows_of_train()))[:-12]},
        ("unreadable_file", "train", None),
        "truncated gzip file",
    ),
    "gzip garbled": (
        {"train__jsonl": None, "train__jsonl__gz": gzip.compress(lines(rows_of_train()))[:10] + b"\xff" * 40},
        ("unreadable_file", "train", None),
        "corrupt gzip file",
    ),
    "zstd cut off": (
        {"train__jsonl": None, "train__jsonl__zst": zstandard.compress(lines(rows_of_train()))[:-12]},
        ("unreadable_file", "train", None),
        "truncated zstd file",
    ),
    "gzip without the suffix": (
        {"train__jsonl": gzip.compress(lines(rows_of_train()))},
        ("unreadable_file", "train", None),
        "gzip data where text was expected",
    ),
    "a split twice": (
        {"train__jsonl__gz": gzip.compress(lines(rows_of_train()))},
        ("unreadable_file", None, None),
        "has both train.jsonl and train.jsonl.gz",
    ),
    "no graph": ({"kg__tsv": None}, ("graph", None, None), "has no graph"),
    "no facts": ({"kg__tsv": b"Big\tTom Hanks\n"}, ("graph", None, None), "no triples; 1 malformed rows"),
    "graph cut off": (
        {"kg__tsv": None, "kg__tsv__gz": gzip.compress(facts(FILMS))[:-12]},
        ("graph", None, None),
        "truncated gzip file",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_folder_gives_a_list(name: str, tmp_path: Path) -> None:
    files, (kind, split, line), text = BROKEN[name]
    folder(tmp_path / "films", **files)
    done = quickly("data", "check", "films", "--json", cwd=tmp_path)  # any exception but ours would come through
    assert (done.status, done.json["ok"]) == (1, False)
    group = done.json["findings"][kind]
    assert (group["severity"], group["count"]) == ("error", 1)
    (example,) = group["examples"]
    assert (example["split"], example["line"]) == (split, line)
    assert text in example["text"]


def test_all_that_is_wrong_is_listed_at_once(tmp_path: Path) -> None:
    bad = b"{\n[]\n" + changed(question="") + b"}\n" + lines([rows_of_train()[0] | {"id": "x", "answers": [1]}])
    films = folder(tmp_path / "films", train__jsonl=bad, test__jsonl=changed(id="t1"))
    assert found(films) == [
        ("bad_line", "train", 1),
        ("bad_line", "train", 2),
        ("bad_line", "train", 6),
        ("bad_line", "train", 7),
        ("no_text", "train", 4),
        ("id_in_two_splits", "test", 1),
        ("leak", "test", 1),
        ("duplicate_id", "test", 2),
        ("id_in_two_splits", "test", 3),
        ("leak", "test", 3),
    ]


def test_a_split_that_cannot_be_read_does_not_hide_the_graph(tmp_path: Path) -> None:
    cut = gzip.compress(lines(rows_of_test()))[:-12]
    films = folder(tmp_path / "films", train__jsonl=changed(answers=["Hook"]), test__jsonl=None, test__jsonl__gz=cut)
    assert found(films) == [("unreadable_file", "test", None), ("answers_missing", "train", 2)]


def test_a_broken_store_is_a_finding(tmp_path: Path) -> None:
    films = folder(tmp_path / "films", kg__tsv=None)
    source = tmp_path / "films.tsv"
    source.write_bytes(facts(FILMS))
    build([source], films / "graph.kg")
    assert found(films) == []
    array = films / "graph.kg" / "entity.heap.bin"
    array.write_bytes(array.read_bytes().replace(b"Big", b"Bug"))
    (broken,) = checked(films).findings
    assert (broken.kind, broken.split) == ("graph", None)
    assert "entity.heap.bin is corrupted" in broken.text
    array.write_bytes(b"")
    assert "holds 0 bytes" in checked(films).findings[0].text


@settings(max_examples=60)
@given(st.sampled_from(["train.jsonl", "test.jsonl.gz", "kg.tsv", "zip.tsv.gz"]), st.data())
def test_no_garbling_of_a_file_is_a_traceback(name: str, data: st.DataObject) -> None:
    with memory_folder() as place:
        kg: dict[str, bytes | None] = {"kg__tsv": None, "kg__tsv__gz": gzip.compress(facts(FILMS), mtime=0)}
        zipped: dict[str, bytes | None] = {
            "test__jsonl": None,
            "test__jsonl__gz": gzip.compress(lines(rows_of_test()), mtime=0),
        }
        films = folder(place / "films", **zipped, **(kg if name.startswith("zip") else {}))
        file = films / name.replace("zip", "kg")
        content = bytearray(file.read_bytes())
        for at in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
            content[at] = data.draw(st.integers(0, 255))
        file.write_bytes(content[: data.draw(st.integers(len(content) // 2, len(content)))])
        result = checked(films)
        assert result.ok is not any(one.severity == "error" for one in result.findings)


def test_a_broken_folder_as_a_table(tmp_path: Path) -> None:
    folder(tmp_path / "films", train__jsonl=with_line(b"{"))
    done = quickly("data", "check", "films", cwd=tmp_path)
    assert (done.status, done.stderr) == (1, "")
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.stdout.splitlines()]
    assert ["error", KINDS["bad_line"][1], "1", "0", "1"] in rows
    assert done.stdout.endswith("checked 3 questions: 1 error, 0 notes\n")


def test_as_a_process_of_its_own(tmp_path: Path) -> None:
    folder(tmp_path / "films", train__jsonl=with_line(b"{"), kg__tsv=b"\x00\xff\n")
    done = subprocess.run(
        [SCRIPT, "data", "check", "films"], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=180
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "films/train.jsonl:2: not JSON" in done.stdout
    assert done.stdout.endswith("checked 3 questions: 2 errors, 0 notes\n")


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    done = quickly("data", "check", "nowhere/films", cwd=tmp_path)
    assert (done.status, done.stdout) == (1, "")
    assert done.stderr.startswith("error: nowhere/films does not exist")
    folder(tmp_path / "films")
    with pytest.raises(KgwalkError, match="no split 'tset' of films; there are: train, test"):
        checked(tmp_path / "films", "tset")
    (tmp_path / "empty").mkdir()
    assert found(tmp_path / "empty") == [("no_splits", None, None), ("graph", None, None)]


# Notes: what to know, and the exit status stays 0


def notes(path: Path) -> dict[str, int]:
    result = checked(path)
    assert result.ok
    return dict(Counter(one.kind for one in result.findings))


NOTED: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "no id": ({"id": ...}, {"no_id": 1}),
    "a topic too many": ({"topic_entities": ["Bog", "Big"]}, {"some_topics_missing": 1}),
    "an answer too many": ({"answers": ["Cast Away", "Hook"]}, {"some_answers_missing": 1}),
    "an answer by its alias": ({"answers": ["Castaway"], "aliases": {"Castaway": ["Cast Away"]}}, {}),
    "an alias of nothing": ({"aliases": {"Castaway": ["Cast Away"]}}, {"aliases_unused": 1}),
    "a count": ({"answers": ["1988"], "answer_kind": "number"}, {"answers_are_values": 1}),
    "yes or no": ({"answers": ["true"], "answer_kind": "boolean"}, {"answers_are_values": 1}),
    "an answer too far": ({"hops": 1}, {"answers_far": 1}),
    "hops not given": ({"hops": None}, {}),
    "the topic is an answer": ({"answers": ["Big", "Cast Away"]}, {"answer_is_topic": 1}),
    "a path that is not there": (
        {"gold_paths": [[["Big", "sequel_of", "Cast Away"]]]},
        {"path_facts_missing": 1},
    ),
    "a path at another time": (
        {"gold_paths": [[["Big", "starred_actors", "Tom Hanks", "1988"]]], "answers": ["Tom Hanks"]},
        {"path_facts_missing": 1},
    ),
    "a path from elsewhere": ({"gold_paths": [[["Cast Away", "release_year", "2000"]]]}, {"path_start": 1}),
    "a path to elsewhere": ({"gold_paths": [[["Big", "directed_by", "Penny Marshall"]]]}, {"path_end": 1}),
    "a path with a gap": (
        {"gold_paths": [[["Big", "release_year", "1988"], ["Cast Away", "starred_actors", "Tom Hanks"]]]},
        {"path_gap": 1},
    ),
    "a text twice": ({"question": "Who directed 'Big'", "answers": ["Tom Hanks"]}, {"same_text": 1}),
    "a text of train": ({"question": "who directed contact"}, {"leak_of_text": 1}),
    "a question of train": ({"question": "who directed contact", "topic_entities": ["Contact"]}, {"leak": 1}),
}


@pytest.mark.parametrize("name", NOTED)
def test_notes(name: str, tmp_path: Path) -> None:
    fields, expected = NOTED[name]
    assert notes(folder(tmp_path / "films", train__jsonl=changed(**fields))) == expected


def test_facts_that_were_left_out_are_a_note(tmp_path: Path) -> None:
    (note,) = checked(folder(tmp_path / "films", kg__tsv=facts(FILMS) + b"Big\tTom Hanks\n")).findings
    assert note.kind == "facts_left_out"
    assert note.text.startswith("1; the first: ")
    assert "kg.tsv:8: expected head<TAB>relation<TAB>tail" in note.text


def test_an_island_cannot_be_reached(tmp_path: Path) -> None:
    islands = facts([*FILMS, ("Hook", "directed_by", "Steven Spielberg")])
    films = folder(tmp_path / "films", kg__tsv=islands, train__jsonl=changed(answers=["Hook"]))
    result = checked(films)
    assert [(one.kind, one.text) for one in result.findings] == [("answers_unreached", "from 'Big' to 'Hook'")]
    assert result.reach["train"] == {"1": 2, "none": 1}


def test_answers_that_are_times(tmp_path: Path) -> None:
    dated = facts([("Obama", "visited", "Japan", "2014-04"), ("Trump", "holds", "President", "2017-01-20..2021-01-20")])
    path = [["Trump", "holds", "President", "2017-01-20..2021-01-20"]]
    rows = [
        asked("1", "when did Obama visit Japan?", "Obama", ["2014"], answer_kind="time"),
        asked("2", "until when was Trump president?", "Trump", ["2021-01-20"], gold_paths=[path]),
        asked("3", "when did Obama visit Kenya?", "Obama", ["2015"], answer_kind="time"),
    ]
    assert notes(folder(tmp_path / "events", kg__tsv=dated, train__jsonl=lines(rows), test__jsonl=None)) == {
        "answers_are_times": 2,
        "answers_are_values": 1,
    }


def test_questions_are_checked_over_their_own_facts(tmp_path: Path) -> None:
    big, contact = [list(fact) for fact in FILMS[:2]], [list(FILMS[6])]
    rows = [
        rows_of_train()[0] | {"graph": big},
        asked("t4", "who directed Contact?", "Big", ["Robert Zemeckis"], graph=big),  # in the other's facts alone
        asked("t5", "who made Contact?", "Contact", ["Robert Zemeckis"], graph=contact),
        asked("t6", "who else?", "Big", ["Robert Zemeckis"], graph=contact),
    ]
    films = folder(tmp_path / "films", kg__tsv=None, train__jsonl=lines(rows), test__jsonl=None)
    assert found(films) == [("answers_elsewhere", "train", 2), ("topics_missing", "train", 4)]


def test_answers_by_id_must_score_by_name(tmp_path: Path) -> None:
    """Of two cities called Paris a walk shows 'Paris (Q90)', which is not the answer 'Q90' unless an alias says so."""
    cities = facts([("Q142", "P36", "Q90"), ("Q30", "P150", "Q830149")])
    names = b"Q90\tParis\nQ830149\tParis\nQ142\tFrance\nQ30\tUnited States\nP36\tcapital\nP150\tcontains\n"
    row = asked("1", "what is the capital of France?", "France", ["Q90"])
    aliased = asked("2", "what is France's capital?", "France", ["Q90"], aliases={"Q90": ["Paris (Q90)"]})
    cities_folder = folder(
        tmp_path / "cities", kg__tsv=cities, names__tsv=names, train__jsonl=lines([row, aliased]), test__jsonl=None
    )
    (wrong,) = checked(cities_folder).findings
    assert (wrong.kind, wrong.line) == ("gold_f1", 1)
    assert wrong.text == "F1 = 0.000 for 'Paris (Q90)', as the graph names 'Q90'"


def test_leaks_between_splits(tmp_path: Path) -> None:
    """A later split's question is the finding; with --split it is that split's, whichever side it is on."""
    leak = asked("e2", "Who directed Big", "Big", ["Penny Marshall"])
    other = asked("e3", "when did cast away come out", "Big", ["1988"])
    films = folder(tmp_path / "films", test__jsonl=lines([*rows_of_test(), leak, other]))
    assert [(one.kind, one.split, one.id, one.text) for one in checked(films).findings] == [
        ("leak", "test", "e2", "'Who directed Big' is line 1 of train (t1), with the same answers"),
        ("leak_of_text", "test", "e3", "'when did cast away come out' is line 3 of train (t3), with other answers"),
    ]
    assert [(one.kind, one.id) for one in checked(films, "train").findings] == [("leak", "t1"), ("leak_of_text", "t3")]
    assert checked(films, "train").questions == {"train": 3}


def test_examples_are_few_and_names_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    rows = [asked(f"q{n}", f"where is {n}?", "Big", ["Tom Hanks", f"\x1b[31m{n}"]) for n in range(20)]
    folder(tmp_path / "films", train__jsonl=lines(rows))
    done = quickly("data", "check", "films", "-n", "2", cwd=tmp_path)
    assert done.status == 0
    assert "\x1b" not in done.stdout
    assert done.stdout.splitlines()[5:] == [
        "note: some answers are no node of the graph",
        r"  films/train.jsonl:1: q0: not in the graph: '\x1b[31m0'",
        r"  films/train.jsonl:2: q1: not in the graph: '\x1b[31m1'",
        "  and 18 more (-n)",
        "train: hops to the nearest answer: 1: 20",
        "test: hops to the nearest answer: 1: 1",
        "checked 21 questions: 0 errors, 20 notes",
    ]
    report = quickly("data", "check", "films", "-n", "2", "--json", cwd=tmp_path).json["findings"]
    group = report["some_answers_missing"]
    assert (group["severity"], group["count"], group["splits"], len(group["examples"])) == (
        "note",
        20,
        {"train": 20},
        2,
    )


# Reachability


def numbers(graph: StoredGraph, *names: str) -> list[int]:
    found = [graph.store.entity_number(name) for name in names]
    assert None not in found
    return [number for number in found if number is not None]


def test_distances_by_hand(store: Callable[..., StoredGraph]) -> None:
    """a -> b <- c -> d and, apart from them, e -> f: against an arrow counts as much as along it."""
    graph = store([("a", "r", "b"), ("c", "r", "b"), ("c", "s", "d"), ("c", "r", "d"), ("e", "r", "f")])
    a, b, c, d, e, f = ([number] for number in numbers(graph, *"abcdef"))
    starts = [a, a, a, a, a, d, a + e, [], a]
    ends = [a, b, c, d, e, a, f + d, a, []]
    assert distances(graph, starts, ends, 9) == [0, 1, 2, 3, None, 3, 1, None, None]
    assert distances(graph, starts, ends, 2) == [0, 1, 2, None, None, None, 1, None, None]
    assert distances(graph, starts, ends, 0) == [0, *[None] * 8]
    assert distances(graph, [], [], 9) == []


def test_distances_in_a_view(store: Callable[..., StoredGraph]) -> None:
    graph = store([("a", "r", "b"), ("b", "r", "c"), ("a", "r", "c")])
    a, b, c = ([number] for number in numbers(graph, *"abc"))
    without = graph.subgraph([n for n, fact in enumerate(graph.match()) if fact != ("a", "r", "c", "")])
    assert distances(graph, [a], [c], 9) == [1]
    assert distances(without, [a], [c], 9) == [2]
    only = graph.subgraph([n for n, fact in enumerate(graph.match()) if fact == ("a", "r", "b", "")])
    assert distances(only, [a, c, a], [b, c, c], 9) == [1, None, None]  # c has no fact there
    assert distances(graph.subgraph([]), [a], [a], 9) == [None]


def plain_search(edges: list[tuple[str, str, str]], starts: list[str], ends: list[str], most: int) -> int | None:
    beside: dict[str, set[str]] = {}
    for head, _, tail in edges:
        beside.setdefault(head, set()).add(tail)
        beside.setdefault(tail, set()).add(head)
    seen = dict.fromkeys(starts, 0)
    queue = deque(seen)
    while queue:
        name = queue.popleft()
        if name in ends:
            return seen[name] if seen[name] <= most else None
        for other in beside[name]:
            if other not in seen:
                seen[other] = seen[name] + 1
                queue.append(other)
    return None


names = st.integers(0, 30).map(str)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(names, st.sampled_from("rs"), names), min_size=1, max_size=40),
    st.integers(0, 6),
    st.integers(0, 1 << 30),
)
def test_distances_are_those_of_a_plain_search(edges: list[tuple[str, str, str]], most: int, seed: int) -> None:
    """200 questions: more than fit into three words."""
    chance = random.Random(seed)
    there = sorted({name for head, _, tail in edges for name in (head, tail)})
    starts, ends = (
        [chance.sample(there, min(len(there), chance.randint(0, 2))) for _ in range(200)] for _ in ("starts", "ends")
    )
    with temporary_store(edges) as graph:
        got = distances(graph, [numbers(graph, *one) for one in starts], [numbers(graph, *one) for one in ends], most)
    assert got == [plain_search(edges, *pair, most) for pair in zip(starts, ends, strict=True)]


def test_a_long_way_is_walked_to_its_end(tmp_path: Path) -> None:
    graph = store_of(tmp_path, [(str(n), "r", str(n + 1)) for n in range(60)])
    assert distances(graph, [numbers(graph, "0")], [numbers(graph, "60")], 64) == [60]
