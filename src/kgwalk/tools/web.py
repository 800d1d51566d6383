"""The web as a tool sees it: a query in, a few documents out. Engines behind it come as providers.

Knows nothing of any engine; what documents say is data, never markup.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Document:
    title: str
    text: str
    source: str = ""  # an address or file, for evidence


@runtime_checkable
class WebSearch(Protocol):
    def search(self, query: str, k: int = 3) -> list[Document]:
        """The k best documents for a query, best first; raises RemoteError if the engine does not answer."""
        ...


class NoWeb:
    """Finds nothing: for worlds without a web."""

    def search(self, query: str, k: int = 3) -> list[Document]:
        return []
