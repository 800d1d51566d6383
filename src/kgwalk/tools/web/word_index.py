"""Passages found by their words, by BM25: a tantivy index of numbers and words, nothing else.

Words are taken without case, accents and English endings; each CJK character is a word. The score of a passage is the
sum over the query's distinct words w of

    ln(1 + (N - n_w + 0.5) / (n_w + 0.5)) * f * (k1 + 1) / (f + k1 * (1 - b + b * L / mean L)),  k1 = 1.2, b = 0.75

with N passages, n_w that have the word, f times in this one of L words. Knows passages by number; what they say is kept
elsewhere. tantivy is imported when an index is opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from kgwalk.types import StoreError

MEMORY = 32 << 20  # bytes of words held before they go to disk; tantivy takes at least 15 MB
MOST_WORDS = 64  # of a query: a longer one is somebody's whole page
_ANALYZER = "kgwalk"
_CJK = re.compile("([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff])")


class WordIndex:
    """The index in a folder, made if it is not there. Threads may search one; one process at a time may write."""

    def __init__(self, folder: Path) -> None:
        self._tantivy = engine = _imported()
        builder = engine.SchemaBuilder()
        builder.add_unsigned_field("number", stored=True, indexed=True)
        builder.add_text_field("words", tokenizer_name=_ANALYZER, index_option="freq")
        self._schema = builder.build()
        filters = (engine.Filter.remove_long(64), engine.Filter.lowercase(), engine.Filter.ascii_fold())
        analyzer = engine.TextAnalyzerBuilder(engine.Tokenizer.simple())
        for one in (*filters, engine.Filter.stemmer("english")):
            analyzer = analyzer.filter(one)
        self._analyzer = analyzer.build()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._index = engine.Index(self._schema, path=str(folder))
        except (OSError, ValueError) as error:
            raise StoreError(f"the index {folder} cannot be opened: {error}; remove that folder") from error
        self._index.register_tokenizer(_ANALYZER, self._analyzer)
        self._index.config_reader("Manual")  # what another process writes is seen when the index is opened again
        self._searcher = self._index.searcher()

    def words(self, text: str) -> list[str]:
        """The distinct words of a text as they are indexed, in order."""
        return list(dict.fromkeys(self._analyzer.analyze(_spaced(text))))

    def search(self, query: str, k: int) -> list[tuple[int, float]]:
        """The k best passages and their scores; fewer where fewer have a word of the query."""
        engine = self._tantivy
        terms = [engine.Query.term_query(self._schema, "words", word) for word in self.words(query)[:MOST_WORDS]]
        if not terms or k < 1:
            return []
        wanted = engine.Query.boolean_query([(engine.Occur.Should, term) for term in terms])
        found = self._searcher.search(wanted, k, count=False).hits
        return [(int(self._searcher.doc(place)["number"][0]), float(score)) for score, place in found]

    def __len__(self) -> int:
        return int(self._searcher.num_docs)

    def writer(self) -> Writer:
        return Writer(self)


class Writer:
    """Changes to an index, which are there when it is left without an error, and not at all otherwise."""

    def __init__(self, index: WordIndex) -> None:
        self._index = index
        self._engine = index._tantivy
        try:
            self._writer = index._index.writer(MEMORY, 1)
        except ValueError as error:
            raise StoreError(f"the index cannot be written: {error}") from error

    def add(self, number: int, text: str) -> None:
        document = self._engine.Document.from_dict({"number": number, "words": _spaced(text)}, self._index._schema)
        self._writer.add_document(document)

    def remove(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._writer.delete_documents_by_term("number", number)

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._writer.rollback()
            return
        try:
            self._writer.commit()
            self._writer.wait_merging_threads()
        except ValueError as failure:  # a full disk reaches us like this
            raise StoreError(f"the index cannot be written: {failure}") from failure
        self._index._index.reload()
        self._index._searcher = self._index._index.searcher()


def _spaced(text: str) -> str:
    return text if text.isascii() else _CJK.sub(r" \1 ", text)


def _imported() -> Any:
    try:
        import tantivy
    except ImportError as error:
        raise StoreError(f"a local corpus is searched with tantivy ({error}); pip install tantivy") from error
    return tantivy
