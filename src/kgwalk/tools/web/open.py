"""One door to any web: nothing, a local corpus, or an engine by its name.

Knows the kinds by how they are called, and imports what a kind needs when it is opened.
"""

from __future__ import annotations

from pathlib import Path

from kgwalk.config.recipe import unknown
from kgwalk.tools.web.search import WebSearch
from kgwalk.types import KgwalkError

NONE = "none"
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
    if text in ENGINES:
        from kgwalk.tools.web.engine import SearchEngine
        from kgwalk.tools.web.providers import PROVIDERS

        return SearchEngine(PROVIDERS[text], cache=cache)
    from kgwalk.tools.web.documents import LINES, is_corpus

    path = Path(text.removeprefix(RERANKED))
    if is_corpus(path):
        from kgwalk.tools.web.local import LocalCorpus

        corpus = LocalCorpus(path, cache=cache)
        if not text.startswith(RERANKED):
            return corpus
        from kgwalk.llm.embed import CachedEmbedder, MiniLM
        from kgwalk.tools.web.rerank import Reranked

        return Reranked(corpus, CachedEmbedder(MiniLM()))
    if text.startswith(RERANKED) or "/" in text or text.lower().endswith(LINES) or path.exists():
        raise KgwalkError(f"no corpus at {path}; give a folder of documents, a .jsonl or a .jsonl.gz file")
    raise unknown("web", text, (NONE, *ENGINES))
