"""From the files a dataset is published in to a dataset folder.

    convert("metaqa", Path("MetaQA"), Path("metaqa"))

Knows formats by their table and the folder by its writer; what is malformed stops it, or is counted and listed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from kgwalk.data.folder import DatasetWriter
from kgwalk.data.formats.format import Format, Reading
from kgwalk.data.formats.records import line_records
from kgwalk.data.formats.table import format_called
from kgwalk.data.layout import NAMES, in_order
from kgwalk.kg.build import Progress
from kgwalk.types import InputError, KgwalkError, Triple


@dataclass
class ConvertReport:
    """What was written, and what was not and why."""

    questions: dict[str, int] = field(default_factory=dict)  # by split
    unanswered: dict[str, int] = field(default_factory=dict)  # of those, the ones whose answers are not given
    facts: int | None = None  # None: no graph was written, or one was copied
    graph: str | None = None  # the graph given, as it was
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
    progress: Progress = lambda what, done, total: None,
) -> ConvertReport:
    """Write the dataset folder `target`; `split` names a lone file's split, or chooses one of a folder's."""
    form = format_called(format)
    if not source.exists():
        raise KgwalkError(f"{source} does not exist; expected a file or folder with {form.files}")
    beside = source / f"{NAMES}.tsv"
    if names is None and beside.is_file():
        names = beside
    report = ConvertReport(graph=None if graph is None else str(graph))
    reading = Reading(
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
    """Names for ids, from rows of id and name between tabs. A name that several ids share gets the id after it."""
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
    reading: Reading,
    out: DatasetWriter,
    report: ConvertReport,
    progress: Progress,
) -> dict[Triple, None]:
    """Write the splits; the evidence of all questions, where that is the graph."""
    evidence: dict[Triple, None] = {}
    seen: dict[tuple[str, str], None] = {}
    for split, paths in files.items():
        counted = unanswered = 0
        for path in paths:
            for question, own, record in form.read_with_graphs(path, replace(reading, split=split)):
                # Own graphs are found by id, so an id must be one question's; else one question's of its split.
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
    reading: Reading,
    evidence: dict[Triple, None],
    out: DatasetWriter,
    report: ConvertReport,
    progress: Progress,
) -> None:
    read, paths = form.facts, form.graph_files(source)

    if read is None:
        for path in paths:
            out.copy_part(path)
            report.graph = str(path)
        paths = []

    passes = itertools.count()

    def facts() -> Iterator[Triple]:
        # a second pass would note the malformed rows once more
        noting = reading if next(passes) == 0 or reading.skipped is None else replace(reading, skipped=[])
        for path in paths:
            assert read is not None
            for count, fact in enumerate(read(path, noting), 1):
                if count % 10_000 == 0:
                    progress(f"facts of {path.name}", count, None)
                yield fact

    if paths:
        report.facts = out.write_facts(facts)
    elif evidence:
        report.facts = out.write_facts(lambda: evidence)
