"""The papers' recipes beside ours, with facts hidden, with parts taken away, and with several walks a question."""

from __future__ import annotations

from typing import Any

from benchmarks.agents.experiments import COMPARED, EOG_WITHOUT, EXPERIMENTS, KG_R1_WITHOUT, PAPERS, plain
from benchmarks.agents.markdown import amount, counted, deviation, difference, mean, share, table
from benchmarks.agents.measured import LAST, Measured, episodes_a_second, seeds

RECIPES = {f"{recipe}-on-{data}": (recipe, data) for recipe in (*PAPERS, "kgwalk") for data in COMPARED}
ABLATIONS = {"kg-r1": KG_R1_WITHOUT, "eog": EOG_WITHOUT}
WHOLE = "nothing"  # is left out
RUNS = ("agent-runs", "kg-r1-runs")


def recipes(measured: Measured) -> str | None:
    """Every recipe on the same model, questions and minutes."""
    if not any(measured.tested(name) or measured.tested(f"{name}-sft") for name in RECIPES):
        return None
    rows = []
    for name, (recipe, data) in RECIPES.items():
        steps = measured.steps(name)
        rows.append(
            [
                recipe,
                data,
                counted(measured.counts([f"{name}-sft", name], data)),
                share(measured.number(f"{name}-sft", data)),
                share(measured.number(name, data)),
                share(measured.number(name, data, "hits_at_1")),
                amount(measured.number(name, data, "generated_tokens")),
                amount(episodes_a_second(steps), 0),
                amount(sum(row["updates"] for row in steps) if steps else None, 0),
            ]
        )
    head = ["recipe", "questions", "n", "SFT F1", "GRPO F1", "Hits@1", "tokens written", "episodes a second", "updates"]
    note = (
        f"Hits@1 and tokens are those after GRPO; episodes a second are of its last {LAST} steps, the first one never "
        "among them. Experiments that ran side by side shared the GPU."
    )
    return f"## Recipes\n\n{table(head, rows)}\n\n{note}"


def hidden(measured: Measured) -> str | None:
    """Those that were also tested with facts of the graph hidden."""
    names = [name for name in RECIPES if len(EXPERIMENTS[name].ways) > 1]
    ways = list(dict.fromkeys(way for name in names for way in EXPERIMENTS[name].ways))
    if not any(measured.test(name, RECIPES[name][1], way) for name in names for way in ways if way):
        return None
    rows = []
    for name in names:
        recipe, data = RECIPES[name]
        figures = [share(measured.number(name, data, way=way)) for way in ways]
        rows.append([recipe, data, counted(measured.counts([name], data)), *figures])
    head = ["recipe", "questions", "n", *(way or "whole graph" for way in ways)]
    return f"### Facts hidden: F1\n\n{table(head, rows)}"


def ablations(measured: Measured) -> str | None:
    """What a recipe is worth without one of its parts, from the same SFT."""
    found = []
    for recipe, parts in ABLATIONS.items():
        names = {part: seeds(f"{recipe}-without-{part}") for part in parts}
        every = [name for several in names.values() for name in several]
        if any(map(measured.tested, every)):
            found.append(f"### {recipe}\n\n{_without(measured, names)}")
    return "\n\n".join(["## Ablations: F1", *found]) if found else None


def _without(measured: Measured, names: dict[str, list[str]]) -> str:
    data = plain(EXPERIMENTS[names[WHOLE][0]].tests[0])
    values = {part: [measured.number(name, data) for name in several] for part, several in names.items()}
    rows = [
        [
            part,
            counted(measured.counts(names[part], data)),
            *map(share, [*figures, mean(figures), deviation(figures)]),
            "" if part == WHOLE else difference(mean(figures), mean(values[WHOLE])),
        ]
        for part, figures in values.items()
    ]
    head = ["left out", "n", *(f"seed {EXPERIMENTS[name].seed}" for name in names[WHOLE])]
    return table([*head, "mean", "standard deviation", f"difference to {WHOLE}"], rows)


def several_runs(measured: Measured) -> str | None:
    """The answers of several walks of a question, united as in KG-R1's paper."""
    rows = []
    for name in filter(measured.tested, RUNS):
        experiment = EXPERIMENTS[name]
        for data in map(plain, experiment.tests):
            rows += [
                _united(experiment.start or "", data, way, measured.test(name, data, way)) for way in experiment.ways
            ]
    if not rows:
        return None
    head = [
        "agent",
        "questions",
        "n",
        "runs",
        "F1 of a run",
        "F1 of the union",
        "hit_any of the union",
        "tokens, all runs",
    ]
    return f"### Several runs\n\n{table(head, rows)}"


def _united(agent: str, data: str, way: str, report: dict[str, Any] | None) -> list[str]:
    """`metrics` are means over the runs, `several` what they give together; one run is its own union."""
    runs = way.rpartition("-")[2]
    if report is None:
        return [agent, data, counted([]), runs, *map(share, [None] * 4)]
    metrics = report["metrics"]
    united = report.get("several") or {f"union_{key}": value for key, value in metrics.items()}
    tokens = metrics.get("generated_tokens")
    figures = [metrics.get("f1"), united.get("union_f1"), united.get("union_hit_any")]
    total = amount(None if tokens is None else tokens * report["runs"])
    return [agent, data, counted([report["n"]]), str(report["runs"]), *map(share, figures), total]
