"""Public datasets as dataset folders: `convert` from their published files, `get` from the hub.

    convert("metaqa", Path("MetaQA"), Path("metaqa"))
    get("webqsp")                      # a name that kgwalk knows
    get("rmanluo/RoG-cwq")             # any repository on the hub in a known format
    get("downloads/RoG-webqsp")        # a folder laid out like one

A malformed record stops the conversion, or is left out and listed in the report. Files from the hub come through
huggingface_hub, so HF_TOKEN, HF_ENDPOINT, HF_HOME and HF_HUB_OFFLINE have their usual meaning.
"""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from kgwalk.config.recipe import unknown
from kgwalk.data.dataset import fetched_folder
from kgwalk.data.folder import NAMES, DatasetWriter, in_order
from kgwalk.data.formats import FORMATS, format_called, format_of
from kgwalk.data.formats.base import Format, RecordReading
from kgwalk.data.formats.records import json_records, line_records
from kgwalk.types import InputError, KgwalkError, Progress, Triple, silent


@dataclass
class ConvertReport:
    """What was written, and what was left out and why."""

    questions: dict[str, int] = field(default_factory=dict)  # by split
    unanswered: dict[str, int] = field(default_factory=dict)  # of those, the ones without answers
    facts: int | None = None  # written to the graph; None: no graph was written, or one was copied
    graph: str | None = None  # where the graph was copied from
    own_graphs: int = 0  # questions with facts of their own
    dropped: list[str] = field(default_factory=list)  # malformed records: where, and why


def convert(
    format: str,
    source: Path,
    target: Path,
    *,
    split: str | None = None,
    graph: Path | None = None,
    names: Path | None = None,
    language: str = "en",
    skip_bad: bool = False,
    replace_target: bool = False,
    progress: Progress = silent,
) -> ConvertReport:
    """Write the dataset folder `target` from a file or folder.

    `split` names the split of a single file, or chooses one of a folder's. `graph` is copied as the dataset's graph, in
    place of the source's own. `names` is a file of ids and names; without it, names.tsv in the source is used.
    """
    form = format_called(format)
    if not source.exists():
        raise KgwalkError(f"{source} does not exist; expected a file or folder with {form.files}")
    beside = source / f"{NAMES}.tsv"
    if names is None and beside.is_file():
        names = beside
    report = ConvertReport(graph=None if graph is None else str(graph))
    reading = RecordReading(
        language=language,
        names={} if names is None else read_names(names),
        skipped=report.dropped if skip_bad else None,
    )
    with DatasetWriter(target, replace=replace_target) as out:
        if graph is not None:
            out.copy_graph(graph)
        files = _chosen(form, source, split)
        evidence = _write_questions(form, files, reading, out, report, progress)
        if not any(report.questions.values()):
            left_out = f"; {len(report.dropped):,} malformed records were left out" if report.dropped else ""
            raise InputError(f"no questions{left_out}", path=str(source))
        if graph is None:
            _write_graph(form, source, reading, evidence, out, report, progress)
        out.finish()
    return report


def read_names(path: Path) -> dict[str, str]:
    """Names for ids, from rows of id<TAB>name. A name that several ids share gets its id in parentheses."""
    names: dict[str, str] = {}
    owners: dict[str, str] = {}
    shared: set[str] = set()
    for record in line_records(path):
        key, found, name = record.value.partition("\t")
        if not (found and key and name.strip()):
            raise record.error("expected id<TAB>name")
        names[key] = name.strip()
        if owners.setdefault(name.strip(), key) != key:
            shared.add(name.strip())
    return {key: f"{name} ({key})" if name in shared else name for key, name in names.items()}


def _chosen(form: Format, source: Path, split: str | None) -> dict[str, list[Path]]:
    files = form.question_files(source)
    if split is None:
        return {name: files[name] for name in in_order(files)}
    if source.is_file():
        return {split: [source]}
    if split not in files:
        raise KgwalkError(f"no split {split!r} in {source}; there are {', '.join(files)}")
    return {split: files[split]}


def _write_questions(
    form: Format,
    files: dict[str, list[Path]],
    reading: RecordReading,
    out: DatasetWriter,
    report: ConvertReport,
    progress: Progress,
) -> dict[Triple, None]:
    """Write the splits; returns the evidence of all questions, for a format whose graph it is."""
    evidence: dict[Triple, None] = {}
    seen: dict[tuple[str, str], None] = {}
    for split, paths in files.items():
        counted = unanswered = 0
        for path in paths:
            for question, own, record in form.read_with_graphs(path, replace(reading, split=split)):
                # Questions' own graphs are found by id, so there ids must be unique over all splits, else in a split.
                key = ("" if form.graph else split, question.id)
                if key in seen:
                    reading.refuse(record.error(f"the id {question.id!r} occurs twice"))
                    continue
                seen[key] = None
                out.add(split, question)
                if own:
                    out.add_graph(question.id, own)
                    report.own_graphs += 1
                if form.evidence_is_graph:
                    evidence.update(dict.fromkeys(question.evidence or []))
                counted += 1
                unanswered += not question.answers
                if counted % 1000 == 0:
                    progress(f"{split} questions", counted, None)
        report.questions[split] = counted
        if unanswered:
            report.unanswered[split] = unanswered
    return evidence


def _write_graph(
    form: Format,
    source: Path,
    reading: RecordReading,
    evidence: dict[Triple, None],
    out: DatasetWriter,
    report: ConvertReport,
    progress: Progress,
) -> None:
    """Write the graph: the facts of the source's graph files, or copies of them, or else the evidence."""
    read, paths = form.facts, form.graph_files(source)
    if read is not None and paths:
        report.facts = out.write_facts(_facts_of(read, paths, reading, progress))
        return
    for path in paths:
        out.copy_part(path)
        report.graph = str(path)
    if evidence:
        report.facts = out.write_facts(lambda: evidence)


def _facts_of(
    read: Callable[[Path, RecordReading], Iterator[Triple]],
    paths: list[Path],
    reading: RecordReading,
    progress: Progress,
) -> Callable[[], Iterator[Triple]]:
    """A function that reads the facts of all files, and may be called again."""
    passes = itertools.count()

    def facts() -> Iterator[Triple]:
        # only the first pass notes malformed rows, or they would be listed twice
        noting = reading if next(passes) == 0 or reading.skipped is None else replace(reading, skipped=[])
        for path in paths:
            for count, fact in enumerate(read(path, noting), 1):
                if count % 10_000 == 0:
                    progress(f"facts of {path.name}", count, None)
                yield fact

    return facts


# Datasets from the hub

DATA_FILES = ("*.parquet", "*.jsonl", "*.jsonl.gz", "*.jsonl.zst", "*.json", "*.txt", "*.tsv", "*.tsv.gz")


@dataclass(frozen=True)
class OnHub:
    """A repository, the format of its files, and which of them are wanted."""

    repository: str
    format: str = ""
    files: tuple[str, ...] = DATA_FILES
    about: str = ""


HUB_DATASETS = {
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
    progress: Progress = silent,
) -> tuple[Path, ConvertReport]:
    """Fetch a dataset and write it as a folder: `output`, or one in the cache that `load_dataset(name)` opens.

    `bars` lets the hub's library draw its own progress bars while it downloads.
    """
    folder = Path(name).expanduser()
    known = HUB_DATASETS.get(name)
    if known is None and not folder.is_dir() and "/" not in name:
        error = unknown("dataset", name, HUB_DATASETS)
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
    """Download a repository's data files into the hub's own cache; returns their folder."""
    if importlib.util.find_spec("huggingface_hub") is None:
        raise KgwalkError("datasets from the hub need huggingface_hub, not installed: pip install huggingface_hub")
    from huggingface_hub import constants, errors, snapshot_download

    where = f"{wanted.repository} on the hub ({constants.ENDPOINT})"
    try:
        with hub_bars(bars):
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
    except Exception as error:  # the class for a broken connection differs between the library's versions
        raise KgwalkError(f"{where}: {error}") from error
    return Path(folder)


@contextmanager
def hub_bars(wanted: bool) -> Iterator[None]:
    """Turns the progress bars of the hub's library off, unless they are wanted."""
    import huggingface_hub

    utils: Any = huggingface_hub.utils  # its type stubs lack the functions used here
    shown = not utils.are_progress_bars_disabled()
    if not wanted:
        utils.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            utils.enable_progress_bars()


def _format_in(source: Path) -> Format:
    """The format of a folder's files, told by the keys of the first record."""
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
