"""A graph as a corpus of text: what the web would say if it knew just what the graph knows.

So facts that are hidden from a graph can be found "on the web". Every entity has a document with its facts as
sentences, one a line, from both ends: Norway's says that its capital is Oslo, Oslo's that it is the capital of Norway.
What is long goes on in further documents of the same title. The same graph gives the same corpus.

A relation is read by its name: as a noun ("The capital of Norway is Oslo."), a verb ("China borders India."), a
participle ("Big is directed by Penny Marshall."), what a thing is of another ("Texas is a state of United States.") or
an event ("Host a visit: China to Japan (2014-03-01)."). Names stand whole, as the graph writes them.

`web_of` is that corpus as a web, kept in the cache folder: what `world.web = "graph"` searches.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import tempfile
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import orjson

from kgwalk.config.cache import cache_folder, exclusive
from kgwalk.kg.names import split_words
from kgwalk.kg.store import Store, StoredGraph
from kgwalk.types import Document, KgwalkError, Progress, StoreError, silent
from kgwalk.walk.web.corpus import LocalCorpus
from kgwalk.walk.web.search import GRAPH

# Facts as sentences


_PREPOSITIONS = "about after as at before by for from in into near of on over to under via with"
# First words of relation names that are verbs, with the thing itself as their subject.
_VERBS = (
    "acted affects appeared attended became belongs borders built can causes composed connects contains contributed "
    "created crosses died directed edited featured flows follows founded gained had has includes influenced influences "
    "invented is joined killed leads likes lived lives married owns played plays precedes produced produces received "
    "shares spans speaks starred starring studied treats uses was were won worked works wrote"
)
# Participles that do not end in -ed; "is" stands before them.
_PARTICIPLES = "born built drawn given held known led made seen set spoken sung taught won written"
PREPOSITIONS, VERBS, PARTICIPLES = (frozenset(text.split()) for text in (_PREPOSITIONS, _VERBS, _PARTICIPLES))


class DatedName(NamedTuple):
    """The other end of a fact, with the dates that the fact holds for."""

    name: str
    dates: Sequence[str] = ()

    def __str__(self) -> str:
        return f"{self.name} ({'; '.join(self.dates)})" if self.dates else self.name


def tails_sentence(head: str, relation: str, tails: Sequence[DatedName]) -> str:
    """The facts of one head and relation.

    >>> tails_sentence("Norway", "capital", [DatedName("Oslo")])
    'The capital of Norway is Oslo.'
    >>> tails_sentence("Canada", "language", [DatedName("English"), DatedName("French")])
    'The language of Canada is English and French.'
    >>> tails_sentence("China", "borders", [DatedName("India"), DatedName("Laos"), DatedName("Nepal")])
    'China borders India, Laos and Nepal.'
    >>> tails_sentence("Texas", "state_of", [DatedName("United States")])
    'Texas is a state of United States.'
    >>> tails_sentence("Big", "film.film.directed_by", [DatedName("Penny Marshall", ["1988"])])
    'Big is directed by Penny Marshall (1988).'
    """
    phrase, verb = wording(relation)
    if verb == ":":
        return _ended(f"{phrase}: {head} to {_listed(tails)}")
    if verb is None:
        return _ended(f"The {phrase} of {head} is {_listed(tails)}")
    return _ended(f"{head} {verb}{phrase} {_listed(tails)}")


def heads_sentence(tail: str, relation: str, heads: Sequence[DatedName]) -> str:
    """The facts of one tail and relation, as the tail's own document tells them.

    >>> heads_sentence("Oslo", "capital", [DatedName("Norway")])
    'Oslo is the capital of Norway.'
    >>> heads_sentence("India", "borders", [DatedName("China"), DatedName("Nepal")])
    'Each of China and Nepal borders India.'
    >>> heads_sentence("Japan", "Host a visit", [DatedName("China", ["2014-03-01"])])
    'Host a visit: China (2014-03-01) to Japan.'
    """
    phrase, verb = wording(relation)
    if verb == ":":
        return _ended(f"{phrase}: {_listed(heads)} to {tail}")
    if verb is None:
        return _ended(f"{tail} is the {phrase} of {_listed(heads)}")
    subject = f"Each of {_listed(heads)}" if len(heads) > 1 else _listed(heads)
    return _ended(f"{subject} {verb}{phrase} {tail}")


def wording(relation: str) -> tuple[str, str | None]:
    """The relation's words, and what stands before them: None for a noun, ":" for an event, else "", "is ", "is a ".

    Of a dotted name the last part is read, as in Freebase's people.person.place_of_birth.

    >>> wording("people.person.place_of_birth"), wording("timeZone"), wording("has_genre"), wording("in_language")
    (('place of birth', None), ('time zone', None), ('has genre', ''), ('in language', 'is '))
    >>> wording("county_of"), wording("located_in"), wording("island_of"), wording("Make a visit")
    (('county of', 'is a '), ('located in', 'is '), ('island of', 'is an '), ('Make a visit', ':'))
    """
    if " " in relation.strip() and relation.strip()[0].isupper():
        return relation.strip(), ":"
    last = relation.rsplit(".", 1)[-1].rsplit("/", 1)[-1]
    parts = [part if part.isupper() else part.lower() for part in split_words(last or relation).split()]
    phrase = " ".join(parts) or relation
    if not parts or (len(parts) > 1 and parts[0] in VERBS and not _passive(parts)) or phrase in VERBS:
        return phrase, "" if parts else None
    if parts[0] in PREPOSITIONS or _passive(parts):
        return phrase, "is "
    if parts[-1] in PREPOSITIONS:
        return phrase, "is an " if phrase[0] in "aeiou" else "is a "
    return phrase, None


def _passive(parts: Sequence[str]) -> bool:
    """`directed by`, `located in`; what is done `by` somebody is passive even of a verb that can be active."""
    if len(parts) < 2 or parts[-1] not in PREPOSITIONS:
        return False
    participle = parts[0].endswith("ed") or parts[0] in PARTICIPLES
    return participle and (parts[-1] == "by" or parts[0] not in VERBS)


def _listed(names: Sequence[DatedName]) -> str:
    """`A, B and C`; with semicolons where a comma or an "and" of a name's own could be taken for one of the list's.

    >>> _listed([DatedName("Washington, D.C."), DatedName("Oslo")]), _listed([DatedName("Washington, D.C.")])
    ('Washington, D.C.; and Oslo', 'Washington, D.C.')
    """
    texts = [str(name) for name in names]
    own = any("," in text or ";" in text or " and " in text for text in texts)
    comma, last = ("; ", "; and ") if own else (", ", " and ")
    return texts[0] if len(texts) == 1 else comma.join(texts[:-1]) + last + texts[-1]


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


NAMES = 10  # in one sentence; further facts of the relation follow in another
CHARACTERS = 500  # of one document, if it has more than one sentence: a reader sees little more of each


class CorpusCounts(NamedTuple):
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
            others = [DatedName(name, dates) for name, dates in zip(found.names, times, strict=True)]
            for start in range(0, len(others), names):
                yield write(entity, relation, others[start : start + names])


def write_corpus(
    graph: StoredGraph,
    path: Path,
    *,
    names: int = NAMES,
    characters: int = CHARACTERS,
    progress: Progress = silent,
) -> CorpusCounts:
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
    return CorpusCounts(count, len(entities), sentences)


# The corpus of a graph as its web


FORMAT = 1  # of the sentences: another number, another file
MOST_FACTS = 5_000_000  # of a graph whose corpus is written unasked: above, it takes minutes and gigabytes

log = logging.getLogger("kgwalk.web")


def web_of(store: Store) -> LocalCorpus:
    """The corpus of a whole store: written and indexed in the cache folder the first time, opened after that."""
    facts = len(store.out.other)
    if facts > MOST_FACTS:
        raise KgwalkError(
            f"`world.web` is {GRAPH!r}, and a graph of {facts:,} facts makes a large corpus; write it once with "
            f"`kgwalk web corpus {store.folder.path} -o web.jsonl.gz` and give that file, or set world.web=none"
        )
    arrays = {name: array["xxh3"] for name, array in store.folder.header["arrays"].items()}
    updates = [] if store.built is store else [store.digest]
    contents = orjson.dumps([FORMAT, NAMES, CHARACTERS, arrays, *updates], option=orjson.OPT_SORT_KEYS)
    name = hashlib.blake2b(contents, digest_size=12).hexdigest()
    return _opened(cache_folder() / "graph-web" / f"{name}.jsonl.gz", store)


@lru_cache(16)
def _opened(file: Path, store: Store) -> LocalCorpus:
    if not file.exists():
        with exclusive(file):
            if not file.exists():
                log.info("writing what the graph %s knows as text, to be its web", store.folder.path)
                write_corpus(StoredGraph(store), file)
    return LocalCorpus(file)
