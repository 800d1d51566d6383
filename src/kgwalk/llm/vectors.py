"""Vectors of a store's names, kept on disk: made once for a model, memory-mapped, found again by their text.

    relations-KEY.npy      float32, a row for each relation
    entities-KEY.npy       float16, a row for each entity: half the bytes, and rankings do not change by it
    entities-KEY.at.npy    the hashes of the entities' texts, ascending, and beside each the row it belongs to

KEY stands for the store's triples and the model. The files lie in the store's folder, or in the cache where that cannot
be written to. A name is embedded as its `words`. Knows no model, and nothing of what the vectors are compared with.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import xxhash

from kgwalk.config.cache import cache_folder, one_at_a_time
from kgwalk.kg.store import Store

F16 = npt.NDArray[np.float16]
F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
Embed = Callable[[Sequence[str]], F32]
Progress = Callable[[str, int, int | None], None]

AT_ONCE = 1024  # names that are embedded between two words to `progress`


def relation_file(store: Store, model: str) -> Path:
    """Where the vectors of a store's relations are kept."""
    return store.folder.path / f"relations-{_key(store, model)}.npy"


def entity_file(store: Store, model: str) -> Path:
    """Where the vectors of a store's entities are kept."""
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
    """The vectors of a store's entities, from disk or else made now; other processes that want them wait.

    It takes minutes for a hundred thousand names: stopped, it goes on where it was.
    """
    path = entity_file(store, model)
    with one_at_a_time(cache_folder() / "vectors" / path.name):
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
    """The file that rows are written into as they come, perhaps with some; where none can be written, memory."""
    known = _load(partial)
    mode: Literal["r+", "w+"] = "r+" if known is not None and known.shape == shape else "w+"
    try:
        return np.lib.format.open_memmap(partial, mode, np.float16, shape)
    except OSError:  # a folder that may only be read, or no space
        return np.zeros(shape, np.float16)


def _fill(rows_ED: F16, texts: Sequence[str], embed: Embed, progress: Progress) -> None:
    """Texts of a length go through the model together: little of a batch is padding. A row of zeros is not done yet."""
    by_length = sorted(range(len(texts)), key=lambda at: len(texts[at]))
    for start in range(0, len(texts), AT_ONCE):
        places = by_length[start : start + AT_ONCE]
        if not rows_ED[places].any(axis=1).all():
            rows_ED[places] = embed([texts[at] for at in places])
        progress("embedding names", start + len(places), len(texts))


def read_rows(path: Path, count: int, kind: type[np.floating]) -> npt.NDArray | None:  # type: ignore[type-arg]
    """The rows of a file, mapped; None if it is absent, broken or of another size: it can be made again."""
    rows = _load(path)
    return rows if rows is not None and rows.ndim == 2 and len(rows) == count and rows.dtype == kind else None


def write_rows(path: Path, rows: npt.NDArray) -> None:  # type: ignore[type-arg]
    """Write a file, whole or not at all. Where that cannot be done the vectors stay in memory."""
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
