"""The papers' recipes beside ours, with facts hidden, with parts taken away, and with several walks a question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.agents.experiments import ABLATED, COMPARED, EXPERIMENTS, HIERARCHY, PAPERS, plain
from benchmarks.agents.markdown import amount, bold, chance, counted, deviation, difference, mean, share, table, welch
from benchmarks.agents.measured import Measured, episodes_a_second, seeds

OURS = "kgwalk"
RECIPES = {f"{recipe}-on-{data}": (recipe, data) for data in COMPARED for recipe in (*PAPERS, OURS)}
RUNS = ("agent-runs", "kg-r1-runs")
AT_THE_END = 3  # steps that a figure of training is the mean of
HIERARCHICAL = "relations in a hierarchy instead of flat"
# Rows of an ablation: experiments by title, several that differ in their seed, or the one SFT before them.
KG_R1_ROWS = {
    "SFT, what all but the last start from": ["kg-r1-start"],
    "GRPO, whole": seeds("kg-r1-without-nothing"),
    "without turn rewards": seeds("kg-r1-without-turn-rewards"),
    "without the turn-wise advantage (one for the trajectory)": seeds("kg-r1-without-turn-advantage"),
    "without the retrieval reward": seeds("kg-r1-without-retrieval-reward"),
    f"{HIERARCHICAL}: SFT": [f"kg-r1-without-{HIERARCHY}-start"],
    f"{HIERARCHICAL}: GRPO": seeds(f"kg-r1-without-{HIERARCHY}"),
}
EOG_ROWS = {
    "SFT, what the next two start from": ["eog-start"],
    "GRPO, whole": seeds("eog-without-nothing"),
    "without the path reward (which is paid from step 6 on)": seeds("eog-without-path-reward"),
    "without SFT": seeds("eog-without-sft"),
}
WHOLE = "GRPO, whole"
TURNS, TOKENS = ("turns", "turns", 1), ("tokens written", "generated_tokens", 0)
RETRIEVAL, ANSWERED = ("retrieval rate", "retrieval_rate", 2), ("answered", "answered", 2)


def recipes(measured: Measured) -> str | None:
    """Every recipe on the same model, questions and minutes. Hits@1 and tokens are those after GRPO."""
    if not any(measured.tested(name) or measured.tested(f"{name}-sft") for name in RECIPES):
        return None
    rows = []
    for name, (recipe, data) in RECIPES.items():
        figures = [
            share(measured.number(f"{name}-sft", data)),
            share(measured.number(name, data)),
            share(measured.number(name, data, "hits_at_1")),
            amount(measured.number(name, data, "generated_tokens")),
        ]
        ours = [recipe, *figures] if recipe != OURS else list(map(bold, [recipe, *figures]))
        rows.append([ours[0], data, *ours[1:], *_speed(measured, name)])
    head = ["recipe", "questions", "SFT", "then GRPO", "Hits@1", "tokens written", "steps of GRPO"]
    return table([*head, "episodes/s in it"], rows)


def _speed(measured: Measured, name: str) -> list[str]:
    """Steps of GRPO, and episodes a second if there was more than one."""
    steps, noted = measured.steps(name), measured.noted(name)
    count = len(steps) if steps else noted.get("steps")
    speed = episodes_a_second(steps) if steps else noted.get("episodes_a_second")
    return [amount(count, 0), "" if count == 1 else amount(speed, 0)]


def hidden(measured: Measured) -> str | None:
    """Graph-RFT, which was also tested with facts of the graph hidden."""
    names = [name for name in RECIPES if len(EXPERIMENTS[name].ways) > 1]
    ways = list(dict.fromkeys(way for name in names for way in EXPERIMENTS[name].ways))
    if not any(measured.test(name, RECIPES[name][1], way) for name in names for way in ways if way):
        return None
    rows = [
        [RECIPES[name][1], *(share(measured.number(name, RECIPES[name][1], way=way)) for way in ways)] for name in names
    ]
    shares = [f"{100 * float(way.rpartition('-')[2]):.0f}%" for way in ways if way]
    return table(["questions", "all", f"{shares[0]} gone", *shares[1:]], rows)


def ablations_kg_r1(measured: Measured) -> str | None:
    return _ablations(measured, "kg-r1", KG_R1_ROWS, [TURNS, TOKENS, RETRIEVAL])


def ablations_eog(measured: Measured) -> str | None:
    return _ablations(measured, "eog", EOG_ROWS, [TOKENS, ANSWERED])


def _ablations(
    measured: Measured, recipe: str, rows: dict[str, list[str]], columns: Sequence[tuple[str, str, int]]
) -> str | None:
    """What a recipe is worth without one of its parts, three seeds each; the best mean is bold."""
    if not any(measured.tested(name) for names in rows.values() for name in names):
        return None
    values = {title: [measured.number(name, ABLATED) for name in names] for title, names in rows.items()}
    means_of = [mean(f1) for title, f1 in values.items() if len(rows[title]) > 1]
    best = max((value for value in means_of if value is not None), default=None)
    shown = []
    for title, names in rows.items():
        means = [_mean(measured, names, metric, digits) for _, metric, digits in columns]
        if all(value is None for value in values[title]) and all(map(measured.steps, names)):
            shown.append(_in_training(measured, title, names, columns))
        elif len(names) == 1:
            shown.append([title, share(values[title][0]), "", "", "", "", "", "", *means])
        else:
            shown.append([title, *_seeds(values[title], values[WHOLE], title == WHOLE, best), *means])
    return table(
        [recipe, "F1, seed 0", "1", "2", "mean", "sd", "to whole", "p", *(name for name, *_ in columns)], shown
    )


def _seeds(values: list[float | None], whole: list[float | None], is_whole: bool, best: float | None) -> list[str]:
    against = ["", ""] if is_whole else [difference(mean(values), mean(whole)), chance(welch(values, whole))]
    middle = mean(values)
    return [*map(share, values), share(middle, best=middle == best), share(deviation(values)), *against]


def _mean(measured: Measured, names: Sequence[str], metric: str, digits: int) -> str:
    return amount(mean([measured.number(name, ABLATED, metric) for name in names]), digits)


def _in_training(
    measured: Measured, title: str, names: Sequence[str], columns: Sequence[tuple[str, str, int]]
) -> list[str]:
    """A row of runs that were trained and not tested: walks that answered, and what the last steps were like."""
    steps = [measured.steps(name) for name in names]
    answered, walks = zip(*(_walks(measured, name) for name in names), strict=True)
    cells = [f"{one:,} of {all_of:,}" for one, all_of in zip(answered, walks, strict=True)]
    f1 = [mean([row["f1"] for row in rows]) for rows in steps]
    return [
        f"{title}, in training, {min(map(len, steps))} to {max(map(len, steps))} steps",
        f"{cells[0]} walks answered",
        *cells[1:],
        f"{mean(f1):.3g}",
        f"{deviation(f1):.3g}",
        "",
        "",
        *(
            amount(sum(answered) / sum(walks), digits)
            if metric == "answered"
            else amount(_at_the_end(steps, metric), digits)
            for _, metric, digits in columns
        ),
    ]


def _walks(measured: Measured, name: str) -> tuple[int, int]:
    """How many walks of a training answered, and how many there were."""
    steps, noted = measured.steps(name), measured.noted(name)
    if noted:  # of steps that were kept without these columns
        return noted["answered"], noted["episodes"]
    return round(sum(row["answered"] * row["episodes"] for row in steps)), round(sum(row["episodes"] for row in steps))


def _at_the_end(steps: Sequence[list[dict[str, Any]]], metric: str) -> float | None:
    """The mean of the last steps, tokens in tens: they still fall."""
    value = mean([row.get(metric) for rows in steps for row in rows[-AT_THE_END:]])
    return round(value, -1) if value is not None and metric == TOKENS[1] else value


def several_walks(measured: Measured) -> str | None:
    """The answers of several walks of a question, united as in KG-R1's paper."""
    rows = []
    for name in filter(measured.tested, RUNS):
        experiment = EXPERIMENTS[name]
        for data in map(plain, experiment.tests):
            rows += [
                _united(experiment.start or "", data, way, measured.test(name, data, way)) for way in experiment.ways
            ]
    head = ["agent", "questions", "n", "runs", "F1 of a run", "F1 of the union", "hit_any of the union"]
    return table([*head, "tokens, all runs"], rows) if rows else None


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
