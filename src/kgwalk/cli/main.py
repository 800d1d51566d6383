"""The command `kgwalk`: its groups, and how errors end it (0 done, 1 failed, 2 wrong usage)."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from kgwalk import __version__
from kgwalk.cli import bench, kg, serve
from kgwalk.cli.output import err, print_json
from kgwalk.types import KgwalkError

app = typer.Typer(
    help="Answer questions by walking a knowledge graph.",
    epilog="Start with: kgwalk kg build my.tsv -o my.kg, then kgwalk kg query my.kg ENTITY.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(kg.app, name="kg")
app.command("serve")(serve.serve)
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
    except BrokenPipeError:  # the reader of our output left, as in `kgwalk kg export ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        err.print("interrupted")
        sys.exit(130)


if __name__ == "__main__":
    main()
