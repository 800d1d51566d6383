"""The command `kgwalk`: its commands, and the exit status (0 done, 1 failed, 2 wrong usage)."""

from __future__ import annotations

import errno
import importlib
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from kgwalk import __version__
from kgwalk.config.runtime import log_visibly, set_thread_count, take_env_file, visible
from kgwalk.types import KgwalkError

# Each is a module here: a group has `app`; a command has a function of its name, and EXAMPLES for the end of its help.
# One that shares the module of another has its name before them: CALIBRATE_EXAMPLES.
COMMANDS = (
    "ask",
    "eval",
    "compare",
    "report",
    "calibrate",
    "train",
    "plan",
    "fit",
    "export",
    "push",
    "pull",
    "demos",
    "paths",
    "recipes",
    "data",
    "questions",
    "kg",
    "web",
    "rank",
    "serve",
    "mcp",
    "bench",
    "doctor",
)

SHARED = {"calibrate": "compare", "report": "compare", "push": "export", "pull": "export"}

# Packages that commands import and the base install lacks, with the extra that brings each.
EXTRAS = {"torch": "local", "transformers": "local", "accelerate": "local", "peft": "local", "safetensors": "local"}
EXTRAS |= {"resvg_py": "png"}
OF_GRAPHS = ("build", "info", "relations", "query", "find", "verify", "export", "subgraphs")  # after `kgwalk kg`
ASKING = ("ask", "serve", "mcp")  # commands that take their graph as an option, not as an argument


class VisibleGroup(TyperGroup):
    """The top of the command line. Complaints about arguments quote them: what would steer a terminal is escaped."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        with _visible_complaints():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        with _visible_complaints():
            return super().invoke(ctx)


@contextmanager
def _visible_complaints() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if hasattr(error, "format_message"):  # a usage error of click's; which click it is differs by typer's version
            vars(error)["message"] = visible(vars(error).get("message", ""))
        raise


def make_app(wanted: str | None = None) -> typer.Typer:
    """The command line; with `wanted`, that command alone: a server should not wait for imports of others."""
    app = typer.Typer(
        cls=VisibleGroup,
        help="Answer questions by walking a knowledge graph.",
        epilog="Start with: kgwalk kg build my.tsv -o my.kg, then kgwalk kg query my.kg ENTITY.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for name in [wanted] if wanted in COMMANDS else COMMANDS:
        module = importlib.import_module(f"kgwalk.cli.{SHARED.get(name, name)}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            examples = getattr(module, f"{name.upper()}_EXAMPLES" if name in SHARED else "EXAMPLES")
            app.command(name, epilog=f"Examples: {' · '.join(examples)}")(getattr(module, name))
    return app


def _version(wanted: bool) -> None:
    if wanted:
        print(f"kgwalk {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Answer questions by walking a knowledge graph."""


def main() -> None:
    """The console script. A KgwalkError becomes a message for a person; anything else is our bug, with a traceback."""
    for note in take_env_file(os.environ):
        print(visible(note), file=sys.stderr)
    set_thread_count()
    log_visibly()
    try:
        make_app(sys.argv[1] if len(sys.argv) > 1 else None)()
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        from kgwalk.cli.output import err

        err.print(f"error: this needs {error.name}, which is not installed: pip install 'kgwalk[{EXTRAS[error.name]}]'")
        sys.exit(1)
    except KgwalkError as error:
        from kgwalk.cli.output import err, print_json_line

        if "--json" in sys.argv:
            print_json_line(told_error(error))
        err.print_error(error)
        sys.exit(1)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        from kgwalk.cli.output import err

        _drop_stdout()
        err.print(f"error: the output could not be written: {error.strerror}")
        sys.exit(1)
    except SystemExit as end:
        sys.exit(_ended(end))


def told_error(error: KgwalkError) -> dict[str, Any]:
    """An error as JSON; `nearest` are facts near to a question that the graph does not answer."""
    near = [[*fact[:3]] for fact in getattr(error, "facts", ())]
    told: dict[str, Any] = {"error": {"kind": type(error).__name__, "message": str(error)}}
    return told | {"nearest": near} if near else told


def _ended(end: SystemExit) -> int | str | None:
    """The exit code when typer or rich end the program; the exception that they were handling says why."""
    why = end.__context__
    if isinstance(why, BrokenPipeError):  # the reader of our output left, as in `kgwalk kg export ... | head`
        _drop_stdout()
        return 0
    if end.code not in (2, 130):  # before the import: the doctor ends well where that has no package to print with
        return end.code
    from kgwalk.cli.output import err, print_json_line

    if end.code == 130:
        err.print("interrupted")
    elif end.code == 2 and (message := getattr(why, "format_message", None)):
        if "--json" in sys.argv:
            print_json_line({"error": {"kind": "UsageError", "message": message()}})
        if hint := _hint("".join(sys.argv[1:2]), message()):
            err.print(hint)
    return end.code


def _hint(command: str, message: str) -> str:
    """Advice on unexpected arguments, and on commands that belong to a group.

    >>> _hint("serve", "Got unexpected extra argument(s) (films.kg)")
    'A graph is given with --graph.'
    >>> _hint("ask", "Got unexpected extra argument(s) (is the capital of Norway)")
    'Put the question in quotes.'
    >>> _hint("build", "No such command 'build'.")
    'Did you mean kgwalk kg build?'
    """
    if message.startswith("No such command") and command in OF_GRAPHS:
        return f"Did you mean kgwalk kg {command}?"
    extra = re.search(r"unexpected extra arguments?(?:\(s\))? \((.*)\)$", message)
    if extra is None or command not in ASKING:
        return ""
    if " " not in extra[1] and (extra[1].endswith(".kg") or "/" in extra[1] or os.path.exists(extra[1])):
        return "A graph is given with --graph."
    return "Put the question in quotes." if command == "ask" else ""


def _drop_stdout() -> None:
    """Discard what is still buffered: writing it would fail once more when Python exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
