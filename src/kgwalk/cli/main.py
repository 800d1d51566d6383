"""The command `kgwalk`: its groups, and how errors end it (0 done, 1 failed, 2 wrong usage)."""

from __future__ import annotations

import errno
import os
import sys
from typing import Annotated

import typer

from kgwalk import __version__
from kgwalk.cli import ask, bench, kg, serve
from kgwalk.cli.output import err, print_json
from kgwalk.types import KgwalkError

app = typer.Typer(
    help="Answer questions by walking a knowledge graph.",
    epilog="Start with: kgwalk kg build my.tsv -o my.kg, then kgwalk kg query my.kg ENTITY.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(
    "ask",
    epilog="Examples: kgwalk ask 'what is the capital of France?' · kgwalk ask 'who directed Big?' --graph films.kg · "
    "kgwalk ask --engine api --model gpt-4o-mini --recipe kg-r1",
)(ask.ask)
app.add_typer(kg.app, name="kg")
app.command(
    "serve",
    epilog="Examples: kgwalk serve --graph films.kg · kgwalk serve --graph films.kg --graph news=events.kg · "
    "KGWALK_API_KEY=secret kgwalk serve --graph films.kg --host 0.0.0.0 --workers 2",
)(serve.serve)
app.add_typer(bench.app, name="bench")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"kgwalk {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Answer questions by walking a knowledge graph."""


def main() -> None:
    """The console script: a KgwalkError is a message for a person, anything else is our bug and a traceback."""
    try:
        app()
    except KgwalkError as error:
        if "--json" in sys.argv:
            print_json({"error": {"kind": type(error).__name__, "message": str(error)}})
        err.print(f"error: {error}")
        sys.exit(1)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _drop_stdout()
        err.print(f"error: the output could not be written: {error.strerror}")
        sys.exit(1)
    except SystemExit as end:
        sys.exit(_ended(end))


def _ended(end: SystemExit) -> int | str | None:
    """The exit code when typer or rich end the program; why they did is the exception that they were handling."""
    why = end.__context__
    if isinstance(why, BrokenPipeError):  # the reader of our output left, as in `kgwalk kg export ... | head`
        _drop_stdout()
        return 0
    if end.code == 130:
        err.print("interrupted")
    elif end.code == 2 and "--json" in sys.argv and (message := getattr(why, "format_message", None)):
        print_json({"error": {"kind": "UsageError", "message": message()}})
    return end.code


def _drop_stdout() -> None:
    """What is still buffered goes nowhere: Python would fail on it once more when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
