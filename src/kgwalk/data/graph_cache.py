"""Graphs of datasets as stores in the cache: built once from the files of a folder, opened ever after.

A store is named by what the files hold, so one graph that several datasets share is built once, and a file that
changes is built anew. Rows that cannot be read are left out with a warning, unless told to stop at them; the store's
header counts them. The source folder is never written to. Knows nothing of questions.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import xxhash

from kgwalk.config.cache import CACHE_VARIABLE, cache_folder, one_at_a_time
from kgwalk.kg.build import Progress, build
from kgwalk.kg.files import HEADER
from kgwalk.kg.sources import Options
from kgwalk.kg.store import VERSION, open_graph
from kgwalk.types import StoreError

log = logging.getLogger(__name__)

OnError = Literal["stop", "skip"]
READ_BYTES = 64 << 20  # files up to this size are known by their content, larger ones by path, size and date


def cached_store(
    sources: Sequence[Path], labels: Path | None, progress: Progress, *, on_error: OnError = "skip"
) -> Path:
    """The store folder of these files, built if it is not there yet; other processes that want it wait.

    `on_error` is what becomes of rows that cannot be read, as for `build`: with "stop" the first is an InputError, also
    where a store without these rows was built before.
    """
    place = cache_folder() / "graphs" / f"{_digest(sources, labels)}-{VERSION}.kg"
    if _is_there(place, on_error):
        return place
    try:
        with one_at_a_time(place):
            if not _is_there(place, on_error):
                _build(sources, place, labels, progress, on_error)
    except (OSError, StoreError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise StoreError(
            f"the graph of {sources[0]} cannot be kept as {place}: {why}\n"
            f"  Set {CACHE_VARIABLE} to a folder that can be written to."
        ) from error
    return place


def _is_there(place: Path, on_error: OnError) -> bool:
    if not (place / HEADER).is_file():
        return False
    return on_error == "skip" or not open_graph(place).store.folder.header["skipped"]


def _build(sources: Sequence[Path], place: Path, labels: Path | None, progress: Progress, on_error: OnError) -> None:
    options = Options(on_error=on_error)
    report = build(
        sources, place, options=options, labels=labels, replace=(place / HEADER).is_file(), progress=progress
    )
    if report.skipped:
        first = "".join(f"\n  {message}" for message in report.first_skipped)
        where = sources[0] if len(sources) == 1 else sources[0].parent.resolve()
        rows = "1 malformed row was" if report.skipped == 1 else f"{report.skipped:,} malformed rows were"
        log.warning("%s: %s left out:%s", where, rows, first)


def _digest(sources: Sequence[Path], labels: Path | None) -> str:
    digest = xxhash.xxh3_128()
    for file in (*sources, labels):
        digest.update(b"\0none\0" if file is None else f"\0{''.join(file.suffixes)}\0".encode())
        if file is None:
            continue
        status = file.stat()
        if status.st_size <= READ_BYTES:
            digest.update(file.read_bytes())
        else:
            digest.update(f"{file.resolve()}\0{status.st_size}\0{status.st_mtime_ns}".encode())
    return str(digest.hexdigest())
