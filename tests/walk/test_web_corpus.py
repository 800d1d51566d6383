"""The local corpus: BM25 worked by hand, changes noticed, kills survived, processes side by side."""

from __future__ import annotations

import gzip
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgwalk.llm.embeddings import F32
from kgwalk.types import Document, InputError, StoreError
from kgwalk.walk.web.corpus import LocalCorpus, Reranked, corpus_folder, index_folder
from kgwalk.walk.web.index import Catalogue, WordIndex
from kgwalk.walk.web.search import open_web

Rows = list[tuple[str, str]]


def write(path: Path, rows: Rows) -> Path:
    path.write_text("".join(json.dumps({"title": title, "text": text}) + "\n" for title, text in rows))
    return path


def ranked(corpus: LocalCorpus, query: str, k: int = 10) -> list[tuple[str, str, float]]:
    return [(one.document.title, one.document.text, score) for one, score in corpus.ranked(query, k)]


# Scores


def test_bm25_by_hand(tmp_path: Path) -> None:
    """Titles count twice, so the three have 4, 5 and 4 words; the mean is 13/3. "red" is in 2 of 3 passages.

    idf = ln(1 + (3 - 2 + 0.5) / (2 + 0.5)) = ln 1.6 = 0.470
    one: f = 1, 2.2 / (1 + 1.2 (0.25 + 0.75 * 4 / 4.333)) = 1.0325; times idf 0.4853
    two: f = 2, 4.4 / (2 + 1.2 (0.25 + 0.75 * 5 / 4.333)) = 1.3180; times idf 0.6194
    """
    source = write(tmp_path / "c.jsonl", [("one", "red fish"), ("two", "red red bird"), ("three", "blue bird")])
    corpus = LocalCorpus(source, cache=tmp_path)
    assert corpus.ranked("Red!", 5)[0][1] == pytest.approx(0.6194, abs=1e-4)
    assert ranked(corpus, "red") == [("two", "red red bird", pytest.approx(0.6194, abs=1e-4)), ("one", "red fish", pytest.approx(0.4853, abs=1e-4))]  # fmt: skip  # noqa: E501
    assert [title for title, _, _ in ranked(corpus, "red fish")] == ["one", "two"]
    assert ranked(corpus, "green") == ranked(corpus, "") == ranked(corpus, "?!") == []
    assert corpus.search("red", 0) == []


def by_scan(rows: Rows, query: list[str]) -> dict[str, float]:
    """The formula of word_index over a list, for words that have no endings."""
    bags = {title: Counter([title, title, *text.split()]) for title, text in rows}
    mean = sum(map(Counter.total, bags.values())) / len(bags)
    scores: dict[str, float] = {}
    for word in dict.fromkeys(query):
        having = sum(word in bag for bag in bags.values())
        idf = math.log(1 + (len(bags) - having + 0.5) / (having + 0.5))
        for title, bag in bags.items():
            if bag[word]:
                length = 1.2 * (1 - 0.75 + 0.75 * bag.total() / mean)
                scores[title] = scores.get(title, 0) + idf * bag[word] * 2.2 / (bag[word] + length)
    return scores


WORDS = st.sampled_from(["red", "blue", "fish", "bird", "cat", "dog", "sun"])
FEW = settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))


@FEW
@given(st.lists(st.lists(WORDS, min_size=1, max_size=12), min_size=1, max_size=12), st.lists(WORDS, max_size=4))
def test_the_index_is_a_list_scan(texts: list[list[str]], query: list[str]) -> None:
    rows = [(f"t{number}", " ".join(text)) for number, text in enumerate(texts)]
    with tempfile.TemporaryDirectory() as folder:
        corpus = LocalCorpus(write(Path(folder) / "c.jsonl", rows), cache=Path(folder))
        found = {title: score for title, _, score in ranked(corpus, " ".join(query), len(rows))}
        corpus.close()
    assert found == pytest.approx(by_scan(rows, query), rel=1e-3)


def test_words_without_case_accents_endings_and_spaces(tmp_path: Path) -> None:
    rows = [("Zürich", "Two cities by the lake."), ("東京", "東京は日本の首都です。"), ("Łódź", "A city.")]
    corpus = LocalCorpus(write(tmp_path / "c.jsonl", rows), cache=tmp_path)
    for query, title in [("zurich", "Zürich"), ("LAKES", "Zürich"), ("日本の首都", "東京"), ("Lodz", "Łódź")]:
        assert corpus.search(query, 1)[0].title == title


def test_equal_scores_come_in_the_order_of_the_corpus(tmp_path: Path) -> None:
    """Also where there are more than were asked for, in several parts of the index."""
    rows = [(f"t{number:03}", "same words") for number in range(300)]
    for count in (299, 300):
        corpus = LocalCorpus(write(tmp_path / "c.jsonl", rows[300 - count :]), cache=tmp_path)
    assert [one.title for one in corpus.search("words", 5)] == ["t000", "t001", "t002", "t003", "t004"]


# Sources


def test_a_folder_of_documents(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    (notes / "deep" / ".hidden").mkdir(parents=True)
    (notes / "a.md").write_text("# Oslo\n\nThe capital of Norway.\n")
    (notes / "deep" / "b.html").write_bytes("<title>Tromsø</title><p>A town<script>no()</script>".encode("latin-1"))
    (notes / "c_d.txt").write_text("A first line that is a sentence.\nMore of the text.")
    (notes / "e.txt").write_text("Bergen\nRain falls.")
    (notes / "f.jsonl").write_text('{"title": "Moss", "text": "A ferry.", "url": "https://example.org/moss"}\n')
    with gzip.open(notes / "g.jsonl.gz", "wt") as file:
        file.write('\n{"title": "Hamar", "text": "A lake.", "id": 7}\n{"text": "A tram."}\n')
    (notes / "deep" / ".hidden" / "x.txt").write_text("unseen")
    (notes / "picture.png").write_bytes(b"\x89PNG")
    corpus = open_web(str(notes), cache=tmp_path / "cache")
    assert isinstance(corpus, LocalCorpus)
    assert corpus.changes.documents == 7
    expected = {
        "capital": Document("Oslo", "The capital of Norway.", "notes/a.md"),
        "town": Document("Troms\ufffd", "A town", "notes/deep/b.html"),
        "sentence": Document("c d", "A first line that is a sentence.\nMore of the text.", "notes/c_d.txt"),
        "rain": Document("Bergen", "Rain falls.", "notes/e.txt"),
        "ferry": Document("Moss", "A ferry.", "https://example.org/moss"),
        "lake": Document("Hamar", "A lake.", "notes/g.jsonl.gz#7"),
        "tram": Document("", "A tram.", "notes/g.jsonl.gz:3"),
        "unseen": None,
    }
    assert {query: next(iter(corpus.search(query, 1)), None) for query in expected} == expected


def test_long_documents_are_found_by_the_passage(tmp_path: Path) -> None:
    text = " ".join(f"Sentence number {number} says nothing much at all." for number in range(100))
    source = write(tmp_path / "c.jsonl", [("Long", f"{text} The walrus sleeps. {text}")])
    corpus = LocalCorpus(source, cache=tmp_path)
    assert len(corpus) > 10
    (found,) = corpus.search("walrus", 1)
    assert (found.title, found.source) == ("Long", "c.jsonl:1")
    assert "The walrus sleeps." in found.text
    assert len(found.text) <= 600


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("nonsense", r"c.jsonl:2: not JSON"),
        ("[1]", r"c.jsonl:2: not an object"),
        ('{"title": "x"}', r"c.jsonl:2: no text"),
        ('{"title": 1, "text": "x"}', r"c.jsonl:2: a title or text that is no string"),
    ],
)
def test_a_bad_line_is_named_and_changes_nothing(tmp_path: Path, line: str, told: str) -> None:
    source = write(tmp_path / "c.jsonl", [("one", "red")])
    LocalCorpus(source, cache=tmp_path).close()
    good = source.read_text()
    source.write_text(f"{good}{line}\n")
    with pytest.raises(InputError, match=told):
        LocalCorpus(source, cache=tmp_path)
    source.write_text(good)
    again = LocalCorpus(source, cache=tmp_path)
    assert (again.changes.added, again.changes.anew) == (0, False)
    assert [one.title for one in again.search("red")] == ["one"]


def test_sources_that_cannot_be_read(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match="a folder without documents"):
        LocalCorpus(empty, cache=tmp_path)
    with pytest.raises(InputError, match="no such folder or file"):
        LocalCorpus(tmp_path / "missing", cache=tmp_path)
    broken = tmp_path / "b.jsonl.gz"
    broken.write_bytes(gzip.compress(b'{"text": "x"}\n' * 100)[:40])
    with pytest.raises(InputError, match="a damaged gzip file"):
        LocalCorpus(broken, cache=tmp_path)
    file = tmp_path / "file"
    file.write_text("in the way")
    with pytest.raises(StoreError, match=r"Set KGWALK_CACHE to a folder"):
        LocalCorpus(write(tmp_path / "c.jsonl", [("a", "b")]), cache=file)


def test_tantivy_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tantivy", None)  # an import of it fails
    with pytest.raises(StoreError, match="pip install tantivy"):
        LocalCorpus(write(tmp_path / "c.jsonl", [("a", "b")]), cache=tmp_path)


def test_documents_without_text_are_counted(tmp_path: Path) -> None:
    corpus = LocalCorpus(write(tmp_path / "c.jsonl", [("a", "b"), ("c", " \n")]), cache=tmp_path)
    assert (corpus.changes.documents, corpus.changes.empty) == (1, 1)


# Changes


def test_only_what_changed_is_indexed(tmp_path: Path) -> None:
    source = tmp_path / "c.jsonl"
    corpus = LocalCorpus(write(source, [("a", "red"), ("b", "blue"), ("c", "sun")]), cache=tmp_path)
    assert (corpus.changes.added, corpus.changes.removed) == (3, 0)
    corpus = LocalCorpus(source, cache=tmp_path)
    assert (corpus.changes.added, corpus.changes.removed, corpus.changes.kept) == (0, 0, 3)
    # one is put before the others, one changes, one goes: what only moved is cited by its new line
    corpus = LocalCorpus(write(source, [("new", "fish"), ("a", "red"), ("b", "green")]), cache=tmp_path)
    assert (corpus.changes.added, corpus.changes.removed, corpus.changes.kept) == (2, 2, 1)
    assert corpus.search("red") == [Document("a", "red", "c.jsonl:2")]
    assert corpus.search("blue") == corpus.search("sun") == []


def test_files_that_are_not_read_again(tmp_path: Path) -> None:
    source = write(tmp_path / "c.jsonl", [("a", "red")])
    old = time.time() - 100
    os.utime(source, (old, old))
    LocalCorpus(source, cache=tmp_path).close()
    write(source, [("a", "sun")])  # as long as before, and made to look as old
    os.utime(source, (old, old))
    assert LocalCorpus(source, cache=tmp_path).search("sun") == []
    assert len(LocalCorpus(source, cache=tmp_path, again=True).search("sun")) == 1


def test_a_change_within_the_clocks_tick_is_noticed(tmp_path: Path) -> None:
    source = write(tmp_path / "c.jsonl", [("a", "red")])
    before = source.stat()
    LocalCorpus(source, cache=tmp_path).close()
    write(source, [("a", "sun")])
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert len(LocalCorpus(source, cache=tmp_path).search("sun")) == 1


ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c"]), st.lists(WORDS, min_size=1, max_size=5).map(" ".join)), max_size=6
)


@FEW
@given(st.lists(ROWS, min_size=2, max_size=4))
def test_incremental_is_as_rebuilt(versions: list[Rows]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for version in versions:
            source = write(folder / "c.jsonl", version)
            LocalCorpus(source, cache=folder / "old").close()
        old, new = LocalCorpus(source, cache=folder / "old"), LocalCorpus(source, cache=folder / "new")
        for query in ("red", "blue fish", "a cat", "sun dog bird"):
            first, second = ([(one.document, score) for one, score in c.ranked(query, 20)] for c in (old, new))
            assert first == second
        old.close()
        new.close()


def test_files_come_and_go(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    for name in ("a", "b"):
        (notes / f"{name}.txt").write_text(f"the {name} file")
    assert LocalCorpus(notes, cache=tmp_path).changes.added == 2
    (notes / "b.txt").unlink()
    (notes / "c.txt").write_text("the c file")
    corpus = LocalCorpus(notes, cache=tmp_path)
    assert (corpus.changes.added, corpus.changes.removed, corpus.changes.kept) == (1, 1, 1)
    assert [one.source for one in corpus.search("file", 5)] == ["notes/a.txt", "notes/c.txt"]


# Processes


INDEX = """
import sys; from pathlib import Path
from kgwalk.walk.web.corpus import LocalCorpus
corpus = LocalCorpus(Path(sys.argv[1]), cache=Path(sys.argv[2]))
print(len(corpus), [one.title for one in corpus.search("w7 x")])
"""


def _start(source: Path, cache: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", INDEX, source, cache], stdout=subprocess.PIPE, text=True)


def _many(path: Path, count: int) -> Path:
    return write(path, [(f"t{number}", f"w{number} x") for number in range(count)])


def test_killed_while_indexing(tmp_path: Path) -> None:
    source, cache = _many(tmp_path / "c.jsonl", 50), tmp_path / "cache"
    LocalCorpus(source, cache=cache).close()
    _many(source, 4000)
    log = corpus_folder(source, cache) / "catalogue.sqlite-wal"
    for _ in range(3):
        process = _start(source, cache)
        until = time.monotonic() + 30
        while not (log.exists() and log.stat().st_size > 0) and process.poll() is None and time.monotonic() < until:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    corpus = LocalCorpus(source, cache=cache)
    assert (len(corpus), corpus.changes.documents) == (4000, 4000)
    assert (
        len(WordIndex(index_folder(corpus.folder, Catalogue(corpus.folder / "catalogue.sqlite").index_state()[0])))
        == 4000
    )
    assert corpus.ranked("w7 x", 3) == LocalCorpus(source, cache=tmp_path / "fresh").ranked("w7 x", 3)


def test_killed_between_index_and_catalogue(tmp_path: Path) -> None:
    """The index has a passage that the catalogue does not know, and lacks one that it has."""
    source = write(tmp_path / "c.jsonl", [("a", "red"), ("b", "red blue")])
    corpus = LocalCorpus(source, cache=tmp_path)
    before = corpus.ranked("red", 5)
    catalogue = Catalogue(corpus.folder / "catalogue.sqlite")
    number, _ = catalogue.index_state()
    with WordIndex(index_folder(corpus.folder, number)).writer() as writer:
        writer.add(77, "red red red")
        writer.remove([1])
    catalogue.set_index_state(number, whole=False)
    catalogue.close()
    again = LocalCorpus(source, cache=tmp_path)
    assert again.changes.anew
    assert again.ranked("red", 5) == before


def test_two_processes_at_once(tmp_path: Path) -> None:
    source = _many(tmp_path / "c.jsonl", 2000)
    processes = [_start(source, tmp_path / "cache") for _ in range(2)]
    assert [process.communicate()[0] for process in processes] == ["2000 ['t7', 't0', 't1']\n"] * 2


def test_a_corpus_that_changes_while_it_is_open(tmp_path: Path) -> None:
    source = write(tmp_path / "c.jsonl", [("a", "red"), ("b", "blue")])
    opened = LocalCorpus(source, cache=tmp_path)
    LocalCorpus(write(source, [("b", "blue"), ("c", "red fish")]), cache=tmp_path).close()
    # the index that was open names a passage that is gone: it is opened anew
    assert opened.search("red") == [Document("c", "red fish", "c.jsonl:2")]
    assert opened.search("blue") == [Document("b", "blue", "c.jsonl:1")]


def test_threads_and_a_fork_share_one(tmp_path: Path) -> None:
    corpus = LocalCorpus(_many(tmp_path / "c.jsonl", 200), cache=tmp_path)
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda number=number: found.append(corpus.search(f"w{number}", 1)[0].title))
        for number in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(f"t{number}" for number in range(20))
    child = os.fork()
    if child == 0:
        os._exit(0 if corpus.search("w3", 1)[0].title == "t3" else 1)
    assert os.waitpid(child, 0)[1] == 0


# Reranking


class _Letters:
    """A vector of which of the letters a to e a text has."""

    name = "letters"

    def embed(self, texts: Sequence[str]) -> F32:
        rows = np.array([[letter in text for letter in "abcde"] for text in texts], np.float32)
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_reranked(tmp_path: Path) -> None:
    """By words: x, y, z, as the word weighs most in the shortest. By likeness to the query's letters: z, y, x.

    The query has the letter a. "x. w bcde" has b, c, d, e: likeness 0; "y. w ab" has a, b: 0.71; "z. w a1" has a: 1.
    Sums: x 1/61 + 1/63 = 0.032266, z the same, y 1/62 + 1/62 = 0.032258. Equal sums keep the order by words.
    """
    rows = [("x", "w bcde"), ("y", "w ab y y"), ("z", "w a1 z z z z")]
    corpus = LocalCorpus(write(tmp_path / "c.jsonl", rows), cache=tmp_path)
    assert [one.title for one in corpus.search("w a")] == ["x", "y", "z"]
    assert [one.title for one in Reranked(corpus, _Letters()).search("w a")] == ["x", "z", "y"]
    assert Reranked(corpus, _Letters()).search("nothing") == []


def test_minilm_before_a_corpus(tmp_path: Path) -> None:
    source = write(tmp_path / "c.jsonl", [("a", "red")])
    assert isinstance(open_web(f"minilm+{source}", cache=tmp_path), Reranked)
