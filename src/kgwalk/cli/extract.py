"""`kgwalk kg extract`: documents into triples with the sentences that say them, by a language model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kgwalk.cli.options import ENGINES, ForceOption, JsonOption, QuietOption
from kgwalk.cli.output import counted, err, out, print_json, progress_bar, telling_what_is_kept

if TYPE_CHECKING:
    from kgwalk.evaluation.text_facts.extract import ExtractReport
    from kgwalk.llm.engine import Engine

EXTRACT_EXAMPLES = (
    "kgwalk kg extract notes/ -o notes.tsv --model qwen2.5-coder-1.5b · "
    "kgwalk kg extract wiki.jsonl.gz -o wiki.tsv --engine api --model gpt-4o-mini --limit 100 --report report.json · "
    "kgwalk kg extract notes/ -o notes.tsv --model qwen2.5-coder-1.5b --resume · "
    "kgwalk kg extract notes/ -o people.tsv --model qwen2.5-coder-1.5b --relations relations.txt --json"
)
FIRST = 10  # merges and near names that are shown


def extract(
    documents: Annotated[
        list[Path],
        typer.Argument(metavar="DOCS...", help="Folders and files: .txt, .md, .html, .jsonl with title and text."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The TSV file to write; two more stand beside it.")],
    model: Annotated[str, typer.Option(help="A model's name or path; see docs/guides/extract.md for what to expect.")],
    engine: Annotated[str, typer.Option("--engine", help=ENGINES)] = "auto",
    adapter: Annotated[str | None, typer.Option("--adapter", help="A LoRA adapter's folder.")] = None,
    relations: Annotated[
        Path | None, typer.Option("--relations", metavar="FILE", help="Only these relations, one a line.")
    ] = None,
    characters: Annotated[int, typer.Option(min=100, help="A passage has at most so many.")] = 1000,
    max_tokens: Annotated[int, typer.Option(min=16, help="The reply to a passage has at most so many.")] = 512,
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many passages, the first.")] = None,
    near: Annotated[
        bool, typer.Option("--near", help="Also merge names that differ by one slip in a long word.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on: passages that have a reply keep it.")] = False,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write the report there, as JSON.")
    ] = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Read documents with a language model and write what they say as triples, each with its sentence.

    A fact whose names do not stand in its passage is dropped and counted. Beside triples.tsv stand
    triples.sources.jsonl, which `kgwalk kg build` takes along so that answers quote their sentences, and
    triples.replies.jsonl, with which --resume goes on.
    """
    from kgwalk.config.lock import sole_writer_of
    from kgwalk.config.run_folder import write_json
    from kgwalk.evaluation.text_facts.extract import (
        REPLIES,
        ExtractSettings,
        as_json,
        passages_of,
        read_documents,
        read_relations,
    )
    from kgwalk.evaluation.text_facts.extract import extract as extract_facts
    from kgwalk.llm.engine import check_kind, open_engine

    if resume and force:
        raise typer.BadParameter("--resume keeps the replies and --force starts over; give one of them")
    check_kind(engine)
    asked = () if relations is None else read_relations(relations)
    settings = ExtractSettings(model, adapter or "", asked, max_tokens, near)
    passages = passages_of(read_documents(documents), characters, limit)

    def opened() -> Engine:
        return open_engine(engine, model, **({} if adapter is None else {"adapter": adapter}))

    kept = output.with_suffix(REPLIES)
    with (
        sole_writer_of(output),
        telling_what_is_kept(kept, "goes on with --resume"),
        progress_bar(quiet=quiet or json) as progress,
    ):
        done = extract_facts(passages, opened, output, settings, resume=resume, replace=force, progress=progress)
    whole = as_json(done, output)
    if report is not None:
        write_json(report, whole)
    if json:
        print_json(whole)
    else:
        _print(done, output)


def _print(report: ExtractReport, output: Path) -> None:
    for note in report.notes:
        err.print(f"note: {note}")
    for kept, others in [*report.merged_names.items()][:FIRST]:
        out.print(f"merged: {kept} = {', '.join(others)}")
    for kept, others in [*report.merged_relations.items()][:FIRST]:
        out.print(f"merged relation: {kept} = {', '.join(others)}")
    for one, other, score in report.near_names[:FIRST]:
        out.print(f"the same? {one}, {other} ({score}); --near merges such names")
    dropped = sum(report.dropped.values())
    why = ", ".join(f"{reason} {count:,}" for reason, count in report.dropped.items() if count)
    of_lines = f"of {counted(report.lines, 'line')}: {report.malformed:,} malformed, {report.cut:,} cut off"
    out.print(f"{of_lines}, {dropped:,} dropped{f' ({why})' if why else ''}")
    read = f"{counted(report.passages, 'passage')} of {counted(report.documents, 'document')}"
    tokens = f"{report.tokens['prompt']:,} + {report.tokens['generated']:,} tokens"
    names = f"{counted(report.entities, 'entity', 'entities')}, {counted(report.relations, 'relation')}"
    said = f"{counted(report.triples, 'triple')} ({names}) with {counted(report.sources, 'quotation')}"
    out.print(f"{output}: {said}; {read}, {report.asked:,} asked now, {tokens}, {report.seconds:.1f} s")
    if report.triples:
        out.print(f"build it: kgwalk kg build {output} -o {output.with_suffix('.kg')}")
