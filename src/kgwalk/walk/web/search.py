"""The web as a tool sees it: a query in, a few documents out.

`open_web` opens one by its name: none, a corpus on this machine, or a search engine. `search_web` is a search in a
walk: the query for an entity's relation, the documents within the caps, and an engine that fails. What documents say is
data, never markup.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from pathlib import Path
from typing import Protocol, runtime_checkable

from kgwalk.config.recipe import unknown
from kgwalk.kg.names import normalise, split_words
from kgwalk.types import Document, KgwalkError, RemoteError
from kgwalk.walk.tagged_text import escape


@runtime_checkable
class WebSearch(Protocol):
    def search(self, query: str, k: int = 3) -> list[Document]:
        """The k best documents for a query, best first; raises RemoteError if the engine does not answer.

        `Document.source` says where the text stands: an address, or a file (with its line) of a local corpus.
        Threads may share one.
        """
        ...


# Opening one by its name


NONE = "none"
GRAPH = "graph"  # a corpus written from the graph that is walked (graph_corpus.py); `Environments` opens it
RERANKED = "minilm+"  # before a corpus: its best passages are put in order by meaning
ENGINES = ("searxng", "brave", "bing", "tavily")


def open_web(text: str, *, cache: Path | None = None) -> WebSearch | None:
    """The web that `text` names; None for "none".

    A folder of documents or a .jsonl[.gz] file is a local corpus (`minilm+FOLDER`: reranked by meaning); `searxng`,
    `brave`, `bing` and `tavily` are engines, whose addresses and keys stand in the environment. Indexes and answers
    are kept in `cache` (default: kgwalk's cache folder).
    """
    if text == NONE:
        return None
    if text == GRAPH:
        raise KgwalkError(
            "the web `graph` belongs to a graph from which facts are hidden, in training and evaluation; elsewhere "
            "write it with `kgwalk web corpus GRAPH -o web.jsonl.gz` and name the file"
        )
    if text in ENGINES:
        from kgwalk.walk.web.providers import PROVIDERS, SearchEngine

        return SearchEngine(PROVIDERS[text], cache=cache)
    from kgwalk.walk.web.documents import LINES, is_corpus

    path = Path(text.removeprefix(RERANKED))
    if is_corpus(path):
        from kgwalk.walk.web.corpus import LocalCorpus

        corpus = LocalCorpus(path, cache=cache)
        if not text.startswith(RERANKED):
            return corpus
        from kgwalk.llm.embeddings import CachedEmbedder, MiniLM
        from kgwalk.walk.web.corpus import Reranked

        return Reranked(corpus, CachedEmbedder(MiniLM()))
    if text.startswith(RERANKED) or "/" in text or text.lower().endswith(LINES) or path.exists():
        raise KgwalkError(f"no corpus at {path}; give a folder of documents, a .jsonl or a .jsonl.gz file")
    raise unknown("web", text, (NONE, *ENGINES))


# A search in a walk


log = logging.getLogger("kgwalk.web")

WEB_SEARCH = "web_search"  # the tool's name, in every walk that has it
WEB_FAILED = "web_failed"  # the error of a turn whose search the engine did not answer; no fault of the walker


def search_web(web: WebSearch, entity: str, relation: str, most: int, characters: int) -> list[Document] | None:
    """At most `most` documents, each cut to so many characters; None where the engine failed (the log has why)."""
    try:
        found = web.search(f"{entity} {split_words(relation)}", most)[:most]
    except RemoteError as error:
        _tell(str(error))
        return None
    return [cut(document, characters) for document in found]


def cut(document: Document, characters: int) -> Document:
    """The document on one line, so that title and text together have at most so many characters.

    >>> cut(Document("Oslo", "The capital\\nof Norway."), 14)
    Document(title='Oslo', text='The capi', source='')
    """
    title, text = (" ".join(part.split()) for part in (document.title, document.text))
    return Document(title[:characters], text[: max(0, characters - len(title) - 2)], document.source)


def shown(number: int, document: Document) -> str:
    """A document as a walker reads it; nothing in it can be taken for a tag."""
    return f"Doc {number}: {escape(f'{document.title}: {document.text}')}"


def names(document: Document, name: str) -> bool:
    """Whether the document has the name, as whole words; case, accents and punctuation aside.

    >>> about = Document("Oslo", "A city of music. Its river: the Akers-elva.")
    >>> [names(about, name) for name in ("oslo", "Akers elva", "US", "")]
    [True, True, False, False]
    """
    folded = normalise(name)
    return bool(folded) and any(f" {folded} " in f" {normalise(text)} " for text in (document.title, document.text))


@lru_cache(64)
def _tell(message: str) -> None:
    """Each message once: an engine that is down would say the same a thousand times."""
    log.warning("a web search failed: %s", message)
