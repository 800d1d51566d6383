"""A graph as a corpus of text: what the web would say if it knew just what the graph knows.

Every entity has a document with its facts as sentences, one a line, from both ends: Norway's says that its capital is
Oslo, Oslo's that it is the capital of Norway. What is long goes on in further documents of the same title. So facts
that are hidden from a graph can be found "on the web". Same graph, same corpus. Knows nothing of search.
"""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import orjson

from kgwalk.kg.store import StoredGraph
from kgwalk.tools.web.fact_sentences import Named, heads_sentence, tails_sentence
from kgwalk.types import Document, StoreError

NAMES = 10  # in one sentence; further facts of the relation follow in another
CHARACTERS = 500  # of one document, if it has more than one sentence: a reader sees little more of each
Progress = Callable[[str, int, int | None], None]


class Written(NamedTuple):
    documents: int
    entities: int
    sentences: int


def documents(graph: StoredGraph, *, names: int = NAMES, characters: int = CHARACTERS) -> Iterator[Document]:
    """The documents of a graph, its most mentioned entity first."""
    for number in graph.live_entities():
        yield from entity_documents(graph, graph.store.entity[number], names=names, characters=characters)


def entity_documents(
    graph: StoredGraph, entity: str, *, names: int = NAMES, characters: int = CHARACTERS
) -> Iterator[Document]:
    """The documents of one entity: sentences in the order of their relations, its own facts before those about it."""
    lines: list[str] = []
    length = 0
    for sentence in _sentences(graph, entity, names):
        if lines and length + len(sentence) + 1 > characters:
            yield Document(entity, "\n".join(lines))
            lines, length = [], 0
        lines.append(sentence)
        length += len(sentence) + 1
    if lines:
        yield Document(entity, "\n".join(lines))


def _sentences(graph: StoredGraph, entity: str, names: int) -> Iterator[str]:
    for out, write in ((True, tails_sentence), (False, heads_sentence)):
        for relation in graph.relations(entity, out=out):
            found = graph.neighbors(entity, relation, out=out)
            times = found.times or [[]] * len(found)
            others = [Named(name, dates) for name, dates in zip(found.names, times, strict=True)]
            for start in range(0, len(others), names):
                yield write(entity, relation, others[start : start + names])


def write_corpus(
    graph: StoredGraph,
    path: Path,
    *,
    names: int = NAMES,
    characters: int = CHARACTERS,
    progress: Progress = lambda what, done, total: None,
) -> Written:
    """The corpus as JSONL, {"title", "text"} a line, gzip if the name ends so. The file appears whole or not at all."""
    entities = graph.live_entities()
    count = sentences = 0
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as raw:
            # no name and no time inside: the same graph gives the same bytes
            packed = gzip.GzipFile("", "wb", 6, raw, mtime=0) if path.name.endswith(".gz") else None
            for done, number in enumerate(entities, 1):
                entity = graph.store.entity[number]
                for document in entity_documents(graph, entity, names=names, characters=characters):
                    (packed or raw).write(orjson.dumps({"title": document.title, "text": document.text}) + b"\n")
                    count += 1
                    sentences += document.text.count("\n") + 1
                if done % 1000 == 0 or done == len(entities):
                    progress("writing", done, len(entities))
            if packed is not None:
                packed.close()
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return Written(count, len(entities), sentences)
