"""Datasets from the hub, as dataset folders.

    get("webqsp")                      # a name of the table
    get("rmanluo/RoG-cwq")             # any repository of a known format
    get("downloads/RoG-webqsp")        # a folder laid out like one

Files come through huggingface_hub, so HF_TOKEN, HF_ENDPOINT, HF_HOME and HF_HUB_OFFLINE mean what they always do.
Knows which repositories there are; reading and writing them is `convert`'s.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from kgwalk.config.recipe import unknown
from kgwalk.data.convert import ConvertReport, convert
from kgwalk.data.dataset import fetched_folder
from kgwalk.data.formats.format import Format
from kgwalk.data.formats.records import json_records
from kgwalk.data.formats.table import FORMATS, format_of
from kgwalk.kg.build import Progress
from kgwalk.types import InputError, KgwalkError

DATA_FILES = ("*.parquet", "*.jsonl", "*.jsonl.gz", "*.jsonl.zst", "*.json", "*.txt", "*.tsv", "*.tsv.gz")


@dataclass(frozen=True)
class OnHub:
    """A repository, the format of its files, and which of them are wanted."""

    repository: str
    format: str = ""
    files: tuple[str, ...] = DATA_FILES
    about: str = ""


KNOWN = {
    "webqsp": OnHub("rmanluo/RoG-webqsp", "rog", about="WebQSP with a Freebase subgraph for each question"),
    "cwq": OnHub("rmanluo/RoG-cwq", "rog", about="ComplexWebQuestions with a Freebase subgraph for each question"),
    "webquestions": OnHub("stanfordnlp/web_questions", "webquestions", about="WebQuestions; no graph"),
    "2wiki": OnHub("xanhho/2WikiMultihopQA", "2wiki", ("*.parquet",), "2WikiMultihopQA; its evidence is the graph"),
    "trex": OnHub("facebook/kilt_tasks", "kilt", ("trex/*",), "KILT's T-REx; no graph"),
    "zsre": OnHub("facebook/kilt_tasks", "kilt", ("structured_zeroshot/*",), "KILT's zero-shot RE; no graph"),
}


def get(
    name: str,
    output: Path | None = None,
    *,
    format: str | None = None,
    skip_bad: bool = False,
    replace_target: bool = False,
    bars: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> tuple[Path, ConvertReport]:
    """Fetch a dataset and write it as a folder: `output`, else one in the cache that `load_dataset(name)` opens.

    `bars` lets the hub's library draw its own while it downloads.
    """
    folder = Path(name).expanduser()
    known = KNOWN.get(name)
    if known is None and not folder.is_dir() and "/" not in name:
        error = unknown("dataset", name, KNOWN)
        raise KgwalkError(f"{error}\n  Or give a repository on the hub, owner/name, or a folder.")
    is_local = known is None and folder.is_dir()
    target = output or fetched_folder(folder.resolve().name if is_local else name)
    if target.exists() and not replace_target and any(target.iterdir()):
        raise KgwalkError(f"{target} exists; fetch it again with --force")
    source = folder if is_local else download(known or OnHub(name), bars=bars)
    form = format or (known.format if known else _format_in(source).name)
    report = convert(
        form,
        source,
        target,
        skip_bad=skip_bad,
        replace_target=replace_target,
        progress=progress,
    )
    return target, report


def download(wanted: OnHub, *, bars: bool = False) -> Path:
    """The repository's data files, in the hub's own cache."""
    if importlib.util.find_spec("huggingface_hub") is None:
        raise KgwalkError("datasets from the hub need huggingface_hub, not installed: pip install huggingface_hub")
    from huggingface_hub import constants, errors, snapshot_download

    where = f"{wanted.repository} on the hub ({constants.ENDPOINT})"
    try:
        with _bars(bars):
            folder = snapshot_download(wanted.repository, repo_type="dataset", allow_patterns=list(wanted.files))
    except errors.HFValidationError:
        raise KgwalkError(f"{wanted.repository!r} is no name of a repository, which is owner/name") from None
    except errors.GatedRepoError as error:
        raise KgwalkError(f"{where}: its owner wants to be asked; accept the terms and set HF_TOKEN") from error
    except errors.RepositoryNotFoundError as error:
        raise KgwalkError(f"{where}: no such dataset, or it is private and HF_TOKEN does not open it") from error
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        why = "HF_HUB_OFFLINE is set" if constants.is_offline_mode() else "it cannot be reached"
        raise KgwalkError(f"{where}: {why}, and {constants.HF_HUB_CACHE} (HF_HOME) has no copy") from error
    except Exception as error:  # a broken connection's class differs between the library's versions
        raise KgwalkError(f"{where}: {error}") from error
    return Path(folder)


@contextmanager
def _bars(wanted: bool) -> Iterator[None]:
    import huggingface_hub

    utils: Any = huggingface_hub.utils  # it has these, and says so to no type checker
    shown = not utils.are_progress_bars_disabled()
    if not wanted:
        utils.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            utils.enable_progress_bars()


def _format_in(source: Path) -> Format:
    """The format of a folder's first record."""
    hint = f"give --format: {', '.join(FORMATS)}"
    try:
        files = FORMATS["rog"].question_files(source)
    except InputError:
        raise InputError("no file of JSON or parquet to tell the format by", path=str(source), hint=hint) from None
    path = next(iter(files.values()))[0]
    record = next(islice(json_records(path), 1), None)
    row = record.value if record is not None and isinstance(record.value, dict) else {}
    form = format_of(row)
    if form is None:
        keys = f"its questions have the keys {', '.join(row)}" if row else "its first record is no object"
        raise InputError(f"unknown format: {keys}", path=str(path), hint=hint)
    return form
