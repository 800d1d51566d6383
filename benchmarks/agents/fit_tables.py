"""Runs of `kgwalk fit` on machines of all sorts. Of most no report was kept: their figures are `noted`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.agents.markdown import amount, chance, counted, share, table
from benchmarks.agents.measured import Measured

TAKEN = "taken"  # what became of a fit that walked better than its start
HEAD = ("graph", "machine", "minutes allowed", "taken")
FIGURES = ("questions held out", "F1 before", "after", "what became of it")


def fit_command(measured: Measured) -> str | None:
    runs = _runs(measured, "fit-command")
    rows = [[*_machine(run), *_figures(run, best=False)] for run in runs]
    return table([*HEAD, *FIGURES], rows) if rows else None


def small_courses(measured: Measured) -> str | None:
    """With the number of demonstrations, and in bold what was worth taking."""
    runs = _runs(measured, "fit-small-courses")
    rows = [[*_machine(run), str(run["demonstrations"]), *_figures(run, best=run["became"] == TAKEN)] for run in runs]
    return table([*HEAD, "learnt from", *FIGURES], rows) if rows else None


def _runs(measured: Measured, name: str) -> Sequence[dict[str, Any]]:
    """What was noted of each run, with the figures of its report where there is one."""
    runs: list[dict[str, Any]] = measured.noted(name).get("runs", [])
    return [run | _reported(measured.fit(run["report"])) if "report" in run else run for run in runs]


def _reported(fit: dict[str, Any] | None) -> dict[str, Any]:
    if fit is None:
        return {}
    gain = fit["gain"]
    figures = {"n": gain["n"], "before": gain["first"], "after": gain["second"], "p": gain["p"]}
    return {"minutes": fit["minutes"], "taken": fit["seconds"] / 60, **figures}


def _machine(run: dict[str, Any]) -> list[str]:
    return [run["graph"], run["machine"], f"{run['minutes']:g}", amount(run["taken"])]


def _figures(run: dict[str, Any], *, best: bool) -> list[str]:
    p = f" (p {chance(run['p'])})" if "p" in run else ""
    return [counted([run["n"]]), share(run["before"]), share(run["after"], best=best) + p, run["became"]]
