"""The vectors of a store's names on disk: made once, mapped, resumed, found by text."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from conftest import FILMS
from kgwalk.kg.names import split_words
from kgwalk.kg.store import StoredGraph
from kgwalk.llm.embeddings import CachedEmbedder, entity_file, make_entities, open_entities
from letters import Letters

Stores = Callable[..., StoredGraph]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGWALK_CACHE", str(tmp_path / "cache"))


def test_names_are_embedded_once_and_found_by_their_words(store: Stores) -> None:
    graph = store([*FILMS, ("Big", "studio", "big_studio")])
    first = Letters()
    told: list[tuple[str, int, int | None]] = []
    embedder = CachedEmbedder(first, graph.store)
    embedder.keep_entities(lambda *words: told.append(words))
    assert told == [("embedding names", 9, 9)]
    assert sorted(first.asked) == sorted({end for h, _, t in FILMS for end in (h, t)} | {"big studio"})

    second = Letters()
    again = CachedEmbedder(second, graph.store)
    rows = again.embed([split_words("big_studio"), "Tom Hanks", "directed by", "who?"])
    assert sorted(second.asked) == ["directed by", "release year", "starred actors", "studio", "who?"]
    # half precision: three digits
    np.testing.assert_allclose(rows, Letters().embed(["big studio", "Tom Hanks", "directed by", "who?"]), atol=1e-3)
    assert rows.dtype == np.float32
    assert not [name for name in os.listdir(entity_file(graph.store, "letters").parent) if "partial" in name]


def test_what_was_stopped_goes_on(store: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgwalk.llm.embeddings.NAMES_AT_ONCE", 2)
    graph, letters = store([("a", "r", "bb"), ("ccc", "r", "dddd"), ("eeeee", "r", "ffffff")]), Letters()
    asked: list[str] = []

    def failing(texts: Sequence[str]) -> np.ndarray:
        if len(asked) >= 4:
            raise KeyboardInterrupt
        asked.extend(texts)
        return letters.embed(texts)

    with pytest.raises(KeyboardInterrupt):
        make_entities(graph.store, "letters", split_words, failing, lambda *_: None)
    assert open_entities(graph.store, "letters") is None
    rest = Letters()
    found = make_entities(graph.store, "letters", split_words, rest.embed, lambda *_: None)
    assert (found.places(["a", "nobody"]) >= 0).tolist() == [True, False]
    assert (asked, rest.asked) == (["a", "bb", "ccc", "dddd"], ["eeeee", "ffffff"])
    np.testing.assert_allclose(found.rows_ED[found.places(["ccc"])], letters.embed(["ccc"]), atol=1e-3)


def test_a_broken_file_is_made_again(store: Stores) -> None:
    graph = store(FILMS)
    path = entity_file(graph.store, "letters")
    CachedEmbedder(Letters(), graph.store).keep_entities()
    for content in (b"", b"nonsense" * 100):
        path.write_bytes(content)
        assert open_entities(graph.store, "letters") is None
        CachedEmbedder(Letters(), graph.store).keep_entities()
        assert open_entities(graph.store, "letters") is not None
