"""The command line of the agents' experiments."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.agents.experiments import EXPERIMENTS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agents", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    prepare = commands.add_parser("prepare", help="graphs, worlds, made questions, demonstrations")
    prepare.add_argument("data", type=Path, help="a folder of datasets")
    prepare.add_argument("work", type=Path)
    prepare.add_argument("--worlds", type=int, default=1600)
    prepare.add_argument("--scale", type=float, default=1.0, help="of the numbers of made questions and demonstrations")
    run = commands.add_parser("run", help="experiments by name, in this order; without a name: which there are")
    run.add_argument("work", type=Path)
    run.add_argument("names", nargs="*")
    run.add_argument("--model", default=None, help="another than the recipe's")
    run.add_argument("--limit", type=int, default=None, help="questions of a test, at most")
    run.add_argument("--minutes", type=float, default=None, help="no experiment is begun after so many")
    tables = commands.add_parser("tables", help="what was measured, as Markdown")
    tables.add_argument("work", type=Path)
    given = parser.parse_args()
    if given.command == "prepare":
        from benchmarks.agents.prepare import prepare as prepared

        prepared(given.data, given.work, worlds=given.worlds, scale=given.scale)
    elif given.command == "run" and not given.names:
        for name, experiment in EXPERIMENTS.items():
            print(f"{name:24} {experiment.what}")
    elif given.command == "run":
        from benchmarks.agents.run import Bench

        Bench(given.work, given.model, given.limit, given.minutes).run(given.names)
    else:
        from benchmarks.agents.tables import tables as shown

        print(shown(given.work))


if __name__ == "__main__":
    main()
