"""`kgwalk web ...`: index a corpus, search it or the web, and write a corpus from a graph."""

from __future__ import annotations

import time
from pathlib import Path
from textwrap import indent
from typing import Annotated

import typer

from kgwalk.cli.options import JsonOption, QuietOption
from kgwalk.cli.output import counted, err, out, print_json, progress_bar, size
from kgwalk.types import KgwalkError

app = typer.Typer(help="Search a local corpus or the web; write a corpus from a graph.", no_args_is_help=True)


@app.command(epilog="Examples: kgwalk web index notes/ · kgwalk web index world.jsonl.gz --again --json")
def index(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="A folder of documents, .jsonl or .jsonl.gz.")],
    again: Annotated[
        bool, typer.Option("--again", help="Read every file, also those of the same size and date.")
    ] = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Index a corpus, or bring its index up to date: only what is new or changed is indexed.

    Searching does the same by itself; this shows what was new. A folder may hold .txt, .md, .html and .jsonl files; a
    JSONL line is {"title": ..., "text": ...} and may have "url", "source" or "id". The index is kept in the cache.
    """
    from dataclasses import asdict

    from kgwalk.walk.web.corpus import LocalCorpus

    started = time.perf_counter()
    with progress_bar(quiet=quiet or json) as progress:
        corpus = LocalCorpus(source, again=again, progress=progress)
    seconds, changes = time.perf_counter() - started, corpus.changes
    corpus.close()
    if json:
        print_json(
            {"source": str(source), "index": str(corpus.folder), "seconds": round(seconds, 3), **asdict(changes)}
        )
        return
    made = f"{counted(changes.documents, 'document')} in {counted(changes.passages, 'passage')}"
    out.print(f"{source}: {made}; {changes.added:,} added, {changes.removed:,} removed, in {seconds:.1f} s")
    if changes.empty:
        err.print(f"note: {counted(changes.empty, 'document')} without text left out")


@app.command(
    epilog="Examples: kgwalk web search 'Norway capital' --web world.jsonl.gz · "
    "kgwalk web search 'who directed Big' --web brave -k 5 --json"
)
def search(
    query: Annotated[str, typer.Argument(help="Words to look for.")],
    web: Annotated[
        str,
        typer.Option(help="A corpus (folder, .jsonl, .jsonl.gz; minilm+CORPUS), searxng, brave, bing or tavily."),
    ],
    k: Annotated[int, typer.Option("-k", min=1, help="At most so many documents.")] = 3,
    json: JsonOption = False,
) -> None:
    """Search a corpus or the web, as an agent's web_search does.

    Engines are set up by the environment: KGWALK_SEARXNG_URL; BRAVE_API_KEY; KGWALK_BING_URL and KGWALK_BING_KEY;
    TAVILY_API_KEY. Answers are kept for 30 days (KGWALK_WEB_DAYS); KGWALK_WEB_RATE is in requests a second.
    """
    from kgwalk.walk.web.search import open_web

    opened = open_web(web)
    started = time.perf_counter()
    found = [] if opened is None else opened.search(query, k)
    seconds = time.perf_counter() - started
    if json:
        rows = [{"title": one.title, "text": one.text, "source": one.source} for one in found]
        print_json({"query": query, "web": web, "seconds": round(seconds, 4), "documents": rows})
        return
    for number, one in enumerate(found, 1):
        out.print(f"{number}. {one.title}  ({one.source})")
        out.print_lines(indent(f"{one.text}\n", "   "))  # so that it cannot forge another document
    if not found:
        err.print("nothing found")


@app.command(
    epilog="Examples: kgwalk web corpus world -o world.jsonl.gz · kgwalk web corpus films.kg -o films.jsonl --names 5"
)
def corpus(
    graph: Annotated[str, typer.Argument(metavar="GRAPH", help="A store folder, or `world`.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write: .jsonl or .jsonl.gz.")],
    names: Annotated[int, typer.Option(min=1, help="At most so many names in one sentence.")] = 10,
    characters: Annotated[int, typer.Option(min=1, help="About so long is a document.")] = 500,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Write what a graph knows as text documents, one or more an entity, in plain sentences.

    So facts that `--graph-drop` hides from a graph can be found "on the web". Every fact stands in the documents of
    both its ends.
    """
    from kgwalk.cli.options import graph_called
    from kgwalk.kg.store import StoredGraph, shown_address
    from kgwalk.walk.web.graph_corpus import write_corpus

    if not output.name.endswith((".jsonl", ".jsonl.gz")):
        raise typer.BadParameter(f"{output.name} does not end in .jsonl or .jsonl.gz")
    opened = graph_called(graph)
    if not isinstance(opened, StoredGraph):
        raise KgwalkError(
            f"{shown_address(graph)} is not a store here; a corpus needs every entity: give a store folder, or `world`"
        )
    started = time.perf_counter()
    with progress_bar(quiet=quiet or json) as progress:
        written = write_corpus(opened, output, names=names, characters=characters, progress=progress)
    seconds = time.perf_counter() - started
    if json:
        counts = {"documents": written.documents, "entities": written.entities, "sentences": written.sentences}
        print_json({"path": str(output), "seconds": round(seconds, 3), **counts})
        return
    made = f"{counted(written.documents, 'document')} of {counted(written.entities, 'entity', 'entities')}"
    out.print(f"{output}: {made}, {size(output.stat().st_size)}, in {seconds:.1f} s")
