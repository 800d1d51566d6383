"""What was measured, as Markdown: our own experiments here, then those of paper_tables.py.

A section is shown as soon as one of its own experiments was tested; what else it compares is a "-" until then.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.agents.experiments import EXPERIMENTS, TESTED, TESTED_LEFT_OUT, plain
from benchmarks.agents.markdown import MISSING, amount, counted, deviation, difference, mean, share, table
from benchmarks.agents.measured import Measured, seeds
from benchmarks.agents.paper_tables import ablations, hidden, recipes, several_runs

SIDE_BY_SIDE = ["vanilla", "cot", "worlds", "worlds-grpo", "half", "half-agent", "all", "agent"]
IN_FULL = "agent"
GRPO = "grpo"
OTHERS = {"Hits@1": "hits_at_1", "hit_any": "hit_any", "retrieval": "retrieval_rate"}


def tables(work: Path) -> str:
    """All sections of which something was measured."""
    measured = Measured(work)
    sections: list[Callable[[Measured], str | None]] = [
        side_by_side,
        in_full,
        sft_against_grpo,
        left_out,
        recipes,
        hidden,
        ablations,
        several_runs,
    ]
    return "\n\n".join(found for section in sections if (found := section(measured)) is not None)


def side_by_side(measured: Measured) -> str | None:
    """F1, a column an experiment."""
    if not any(map(measured.tested, SIDE_BY_SIDE)):
        return None
    listed = [f"- `{name}`{_after(name)}: {EXPERIMENTS[name].what}" for name in SIDE_BY_SIDE]
    rows = [
        [
            data,
            counted(measured.counts(SIDE_BY_SIDE, data)),
            *(share(measured.number(name, data)) for name in SIDE_BY_SIDE),
        ]
        for data in TESTED
    ]
    head = ["questions", "n", *(f"`{name}`" for name in SIDE_BY_SIDE)]
    return "\n".join(["## Our agents: F1", "", *listed, "", table(head, rows)])


def _after(name: str) -> str:
    """
    >>> _after("worlds-grpo"), _after("vanilla")
    (' (after `worlds`)', '')
    """
    start = EXPERIMENTS[name].start
    return "" if start is None else f" (after `{start}`)"


def in_full(measured: Measured) -> str | None:
    """The numbers of the agent that is shipped."""
    rows = []
    for data in TESTED:
        report = measured.test(IN_FULL, data)
        if report is not None:
            metrics = report["metrics"]
            cells = [share(metrics.get("f1"), report["intervals"].get("f1"))]
            cells += [share(metrics.get(key)) for key in OTHERS.values()]
            rows.append([data, counted([report["n"]]), *cells, amount(metrics.get("generated_tokens"))])
    if not rows:
        return None
    head = ["questions", "n", "F1", *OTHERS, "tokens"]
    return f"### {IN_FULL}: {EXPERIMENTS[IN_FULL].what}\n\n{table(head, rows)}"


def sft_against_grpo(measured: Measured) -> str | None:
    """The seeds of GRPO beside what they all began from."""
    names = seeds(GRPO)
    if not any(map(measured.tested, names)):
        return None
    rows, sft = [], EXPERIMENTS[names[0]].start
    assert sft is not None
    for data in map(plain, EXPERIMENTS[names[0]].tests):
        start, values = measured.number(sft, data), [measured.number(name, data) for name in names]
        rows.append(
            [
                data,
                counted(measured.counts([sft, *names], data)),
                *map(share, [start, *values, mean(values), deviation(values)]),
                difference(mean(values), start),
            ]
        )
    head = ["questions", "n", f"SFT (`{sft}`)", *(f"seed {EXPERIMENTS[name].seed}" for name in names)]
    return f"## SFT against GRPO: F1\n\n{table([*head, 'mean', 'standard deviation', 'difference'], rows)}"


def left_out(measured: Measured) -> str | None:
    """Graphs of which nothing was learnt: worlds alone, all the other graphs, and then a fit to it."""
    rows, tested = [], False
    for graph, tests in TESTED_LEFT_OUT.items():
        for data in map(plain, tests):
            names = ["worlds", f"without-{graph}", f"fit-{data}"]
            tested = tested or any(map(measured.tested, names[1:]))
            figures = [share(measured.number(name, data)) for name in names]
            rows.append([data, counted(measured.counts(names, data)), *figures, _held_out(measured, names[-1])])
    if not tested:
        return None
    head = ["questions", "n", "`worlds`", "`without-GRAPH`", "`fit-SET`", "the fit, on made questions held out"]
    return f"## Left out: F1\n\n{table(head, rows)}"


def _held_out(measured: Measured, name: str) -> str:
    """What the fit itself saw of its gain, and whether it settled on the weights it began from."""
    fit = measured.fit(name)
    if fit is None:
        return MISSING
    kept = ", start kept" if fit["kept"] == "start" else ""
    return f"{share(fit['before'].get('f1'))} to {share(fit['after'].get('f1'))}{kept}"
