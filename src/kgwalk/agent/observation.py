"""What a model is told after its turn: tagged text made of lists that can be cut to fit and say what was cut.

Knows how text is laid out and counted, nothing of tools.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kgwalk.tools.text import escape
from kgwalk.types import Document, Triple


@dataclass(frozen=True, slots=True)
class Listing:
    """A line of names after a lead. `total` may exceed the names at hand: the tool had a limit of its own."""

    lead: str
    items: Sequence[str] = ()
    separator: str = ", "
    total: int | None = None
    most: int | None = None  # show no more than this, however much room there is
    entities: bool = False  # the items are entities (and count as shown), not relations or other text
    notes: Sequence[str] = ()  # beside each item, e.g. its dates
    layout: Callable[[list[str]], str] | None = None  # how the items are set, if not one after the other
    documents: Sequence[Document] = ()  # what the items are, if they are documents

    def render(self, limit: int) -> str:
        shown = self.items[: self.shown(limit)]
        texts = [escape(item) for item in shown]
        if self.notes:
            texts = [f"{text}{note}" for text, note in zip(texts, self.notes, strict=False)]
        if self.layout is not None:
            texts = [self.layout(texts)] if texts else []
        left_out = (len(self.items) if self.total is None else self.total) - len(shown)
        if left_out:
            texts.append(f"... (+{left_out} more)")
        return self.lead + self.separator.join(texts)

    def shown(self, limit: int) -> int:
        return min(limit, len(self.items), len(self.items) if self.most is None else self.most)


class Fitted(NamedTuple):
    """A text that fits, with the entities and the documents that are left in it."""

    text: str
    entities: list[str]
    documents: list[Document]


@dataclass(frozen=True, slots=True)
class Observation:
    """`opening` and `closing` are the protocol's tags; `triples` are the facts behind it, for evidence."""

    opening: str
    closing: str
    listings: Sequence[Listing]
    ok: bool = True
    error: str | None = None
    triples: Sequence[Triple] = field(default_factory=tuple)

    def render(self, limit: int) -> str:
        return self.opening + "\n".join(listing.render(limit) for listing in self.listings) + self.closing

    def fit(self, count: Callable[[str], int], most: int) -> Fitted:
        """The text within `most` tokens, its closing tag included, and what is left in it."""
        longest = max((len(listing.items) for listing in self.listings), default=0)
        text = self.render(longest)
        if count(text) <= most:
            return self._fitted(text, longest)
        low, high = 0, longest  # the most items of each listing that fit
        while low < high:
            middle = (low + high + 1) // 2
            if count(self.render(middle)) <= most:
                low = middle
            else:
                high = middle - 1
        text = self.render(low)
        return self._fitted(text, low) if count(text) <= most else Fitted(self._cut(count, most), [], [])

    def _fitted(self, text: str, limit: int) -> Fitted:
        entities = [name for part in self.listings if part.entities for name in part.items[: part.shown(limit)]]
        documents = [one for part in self.listings for one in part.documents[: part.shown(limit)]]
        return Fitted(text, entities, documents)

    def _cut(self, count: Callable[[str], int], most: int) -> str:
        """Even the leads are too long (a name of ten thousand characters): cut them, but close the tag."""
        body = self.render(0)[len(self.opening) : len(self.render(0)) - len(self.closing)]
        low, high = 0, len(body)
        while low < high:
            middle = (low + high + 1) // 2
            if count(f"{self.opening}{body[:middle]}... (cut){self.closing}") <= most:
                low = middle
            else:
                high = middle - 1
        return f"{self.opening}{body[:low]}... (cut){self.closing}"
