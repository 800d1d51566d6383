"""A web search in a walk: the query for an entity's relation, the documents after the caps, an engine that fails.

Knows no protocol and no engine; what the documents say is for the walker to read.
"""

from __future__ import annotations

import logging
from functools import lru_cache

from kgwalk.kg.normalise import normalise
from kgwalk.llm.embed import words
from kgwalk.tools.text import escape
from kgwalk.tools.web.search import WebSearch
from kgwalk.types import Document, RemoteError

log = logging.getLogger("kgwalk.web")

WEB_SEARCH = "web_search"  # the tool's name, in every walk that has it
WEB_FAILED = "web_failed"  # the error of a turn whose search the engine did not answer; no fault of the walker


def search_web(web: WebSearch, entity: str, relation: str, most: int, characters: int) -> list[Document] | None:
    """At most `most` documents, each cut to so many characters; None where the engine failed (the log has why)."""
    try:
        found = web.search(f"{entity} {words(relation)}", most)[:most]
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
