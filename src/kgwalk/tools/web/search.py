"""The web as a tool sees it: a query in, a few documents out. Engines behind it come as providers.

Knows nothing of any engine; what documents say is data, never markup.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from kgwalk.types import Document


@runtime_checkable
class WebSearch(Protocol):
    def search(self, query: str, k: int = 3) -> list[Document]:
        """The k best documents for a query, best first; raises RemoteError if the engine does not answer.

        `Document.source` says where the text stands: an address, or a file (with its line) of a local corpus.
        Threads may share one.
        """
        ...


class NoWeb:
    """Finds nothing: for worlds without a web."""

    def search(self, query: str, k: int = 3) -> list[Document]:
        return []
