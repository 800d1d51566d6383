"""Stores in the cache: a file of facts or tables, or a database, built once and opened from there ever after.

    open_graph(file_store(Path("shop.xlsx"), silent)), open_graph(database_store("duckdb:///shop.duckdb"))

A store is named by what its files hold, so one that changes is built again when it is next opened. A database of tables
is asked in this way, too, and not row by row through SQL: which cells are names, keys and links to other tables' rows
is told from all its rows, so they have to be read anyway; and a store tells kinds and finds names, which are what a
question starts from.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import xxhash

from kgwalk.config.cache import CACHE_VARIABLE, cache_folder, exclusive
from kgwalk.kg.build import build
from kgwalk.kg.fact_sources import beside
from kgwalk.kg.files import HEADER
from kgwalk.kg.sources.reading import looks_like_a_table
from kgwalk.kg.sources.source import Options
from kgwalk.kg.store import VERSION, database_at, open_graph
from kgwalk.types import Progress, StoreError, silent

log = logging.getLogger(__name__)

OnError = Literal["stop", "skip"]
READ_BYTES = 64 << 20  # files up to this size are known by their content, larger ones by path, size and date
UNSAVED = ("-wal", ".wal")  # beside a database: what is written, but not yet in its file


def database_store(address: str, progress: Progress = silent) -> Path:
    """The store folder of an SQLite or DuckDB database at an address such as `sqlite:///shop.db`, in the cache."""
    at = database_at(address)
    if not at.path.is_file():
        raise StoreError(f"{address}: there is no file {at.path}; three slashes lead from here, four from the root")
    return cached_store([at.path], None, progress, on_error="stop", form=at.format, keys=at.keys)


def file_store(path: Path, progress: Progress, *, on_error: OnError = "stop") -> Path:
    """The store folder of one file, in the cache; a TSV or CSV file that looks like a table is read as one."""
    return cached_store([path], None, progress, on_error=on_error, table=looks_like_a_table(path))


def cached_store(
    sources: Sequence[Path],
    labels: Path | None,
    progress: Progress,
    *,
    on_error: OnError = "skip",
    table: bool = False,
    form: str | None = None,
    keys: Sequence[str] = (),
) -> Path:
    """The store folder of these files, built if it is not there yet; other processes that want it wait. `form` is the
    format, where the files' names do not say it; `keys` corrects the keys of tables.

    A store is named by what its files hold, and by the keys that were said, so datasets that share a graph share its
    store, and a file that changes gets a new one. Rows that cannot be read are left out with a warning, and counted in
    the store's header; with `on_error="stop"` the first is an InputError, even if a store without these rows was built
    before.
    """
    place = cache_folder() / "graphs" / f"{_digest(sources, labels, keys)}-{'table-' * table}{VERSION}.kg"
    if _is_there(place, on_error):
        return place
    try:
        with exclusive(place):
            if not _is_there(place, on_error):
                options = Options(on_error=on_error, table=table, format=form, keys=keys)
                _build(sources, place, labels, progress, options)
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


def _build(sources: Sequence[Path], place: Path, labels: Path | None, progress: Progress, options: Options) -> None:
    report = build(
        sources, place, options=options, labels=labels, replace=(place / HEADER).is_file(), progress=progress
    )
    if report.skipped:
        first = "".join(f"\n  {message}" for message in report.first_skipped)
        where = sources[0] if len(sources) == 1 else sources[0].parent.resolve()
        rows = "1 malformed row was" if report.skipped == 1 else f"{report.skipped:,} malformed rows were"
        log.warning("%s: %s left out:%s", where, rows, first)


def _digest(sources: Sequence[Path], labels: Path | None, keys: Sequence[str]) -> str:
    """What the files hold, as a name: by content, or for large ones by path, size and date; and the keys."""
    digest = xxhash.xxh3_128()
    unsaved = [Path(f"{file}{end}") for file in sources for end in UNSAVED]
    read_in = filter(None, map(beside, sources))  # the sentences that facts were read in
    for file in (*sources, *(file for file in unsaved if file.is_file()), labels, *read_in):
        digest.update(b"\0none\0" if file is None else f"\0{''.join(file.suffixes)}\0".encode())
        if file is None:
            continue
        status = file.stat()
        if status.st_size <= READ_BYTES:
            digest.update(file.read_bytes())
        else:
            digest.update(f"{file.resolve()}\0{status.st_size}\0{status.st_mtime_ns}".encode())
    for key in keys:
        digest.update(f"\0key\0{key}".encode("utf-8", "surrogatepass"))
    return str(digest.hexdigest())
