"""The command line of the agents' experiments."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.agents.experiments import EXPERIMENTS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agents", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    prepare = commands.add_parser("prepare", help="graphs, worlds, made questions, demonstrations")
    prepare.add_argument("data", type=Path, help="a folder of datasets")
    prepare.add_argument("work", type=Path)
    prepare.add_argument("names", nargs="*", help="only what these experiments need")
    prepare.add_argument("--worlds", type=int, default=1600)
    prepare.add_argument("--scale", type=float, default=1.0, help="of the numbers of made questions and demonstrations")
    run = commands.add_parser("run", help="experiments by name, in this order; without a name: which there are")
    run.add_argument("work", type=Path)
    run.add_argument("names", nargs="*")
    run.add_argument("--model", default=None, help="another than the recipe's")
    run.add_argument("--limit", type=int, default=None, help="questions of a test, at most")
    run.add_argument("--minutes", type=float, default=None, help="no experiment is begun after so many")
    run.add_argument("--jobs", type=int, default=1, help="experiments at once, each with its share of the GPU")
    run.add_argument(
        "--beside", type=int, default=1, help="how many share the GPU, this one counted (--jobs sees to it)"
    )
    publish = commands.add_parser("publish", help="reports of a work folder into the files of docs/results")
    publish.add_argument("work", type=Path)
    publish.add_argument("results", type=Path, help="docs/results")
    tables = commands.add_parser("tables", help="what was measured, as Markdown")
    tables.add_argument("work", type=Path, help="a work folder, or docs/results")
    tables.add_argument("names", nargs="*", help="only these")
    tables.add_argument("--into", type=Path, default=None, help="a page whose tables are made anew, docs/results.md")
    tables.add_argument("--plots", type=Path, default=None, help="a folder for figures")
    given = parser.parse_args()
    if given.command == "prepare":
        from benchmarks.agents.prepare import prepare as prepared

        prepared(given.data, given.work, worlds=given.worlds, scale=given.scale, names=given.names)
    elif given.command == "run" and not given.names:
        for name, experiment in EXPERIMENTS.items():
            print(f"{name:24} {experiment.what}")
    elif given.command == "run" and given.jobs > 1:
        from benchmarks.agents.jobs import Jobs

        def command(name: str) -> list[str]:
            each = [
                sys.executable,
                "-m",
                "benchmarks.agents",
                "run",
                str(given.work),
                name,
                "--beside",
                str(given.jobs),
            ]
            model = [] if given.model is None else ["--model", given.model]
            return each + model + ([] if given.limit is None else ["--limit", str(given.limit)])

        failed = Jobs(given.work, given.jobs, command, given.minutes).run(given.names)
        sys.exit(1 if failed else 0)
    elif given.command == "run":
        from benchmarks.agents.run import Bench

        options = {"model": given.model, "limit": given.limit, "minutes": given.minutes, "beside": given.beside}
        sys.exit(1 if Bench(given.work, **options).run(given.names) else 0)
    elif given.command == "publish":
        from benchmarks.agents.publish import publish as published

        print("\n".join(published(given.work, given.results)))
    else:
        from benchmarks.agents.measured import Measured
        from benchmarks.agents.tables import remade
        from benchmarks.agents.tables import tables as shown

        if given.into is None:
            print(shown(given.work, given.names))
        else:
            given.into.write_text(remade(given.into.read_text(), Measured.of(given.work)))
        if given.plots is not None:
            from benchmarks.agents.curves import plot
            from benchmarks.agents.strength import plots

            print("\n".join(map(str, plots(given.plots))), file=sys.stderr)
            file = plot(given.work, given.plots)
            print("no seed of GRPO has taken a step: no figure" if file is None else file, file=sys.stderr)


if __name__ == "__main__":
    main()
