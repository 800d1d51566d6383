"""Reports of a work folder put into docs/results: one file a table, each report in one file.

A report that is published again replaces the one before it; what a work folder does not have stays as it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.agents import result_files
from benchmarks.agents.experiments import EXPERIMENTS, PAPERS, folder_name
from benchmarks.agents.measured import WorkFolder
from benchmarks.agents.result_files import FITS, NOTED, STEPS, TESTS

from kgwalk.config.run_folder import RUN, read_json

# Columns of GRPO's steps that are kept, and those that begin so.
KEPT = (
    *("step", "reward", "f1", "retrieval_rate", "answered", "generated_tokens", "turns", "dropped_groups", "entropy"),
    *("episodes", "updates", "rollout_seconds", "update_seconds", "seconds"),
)
VALIDATED = "eval_f1"
LOCAL = ("folder", "adapter")  # paths of the machine that measured
ABOUT = ("commit", "versions", "begun")  # of run.json
STEPPED = ("grpo-seeds", "recipes", "ablations-kg-r1", "ablations-eog")  # files that have steps


def file_of(name: str, way: str = "") -> str:
    """The file that has an experiment's reports.

    >>> file_of("agent"), file_of("without-pq"), file_of("eog-on-metaqa-23-sft"), file_of("kg-r1-start")
    ('shipped-agent', 'unseen-graphs', 'recipes', 'ablations-kg-r1')
    >>> file_of("graph-rft-on-metaqa-23", "drop-0.2"), file_of("kg-r1-runs", "runs-3")
    ('hidden-facts', 'several-walks')
    """
    if name.endswith("-runs"):
        return "several-walks"
    if way:
        return "hidden-facts"
    if name.startswith(tuple(f"{recipe}-on-" for recipe in (*PAPERS, "kgwalk"))):
        return "recipes"
    if name.startswith(("kg-r1-", "eog-")):
        return f"ablations-{'eog' if name.startswith('eog-') else 'kg-r1'}"
    if name.startswith(("worlds", "older-worlds", "without-", "fit-")):
        return "unseen-graphs"
    if name in ("vanilla", "cot"):
        return "without-a-graph"
    if name in ("all", "half-agent"):
        return "stages"
    return "grpo-seeds" if name == "half" or name.startswith("grpo-") else "shipped-agent"


def publish(work: Path, folder: Path) -> list[str]:
    """Of every experiment what was measured. The reports put there, as "file: report"."""
    source = WorkFolder(work)
    changed: dict[str, result_files.Reports] = {}
    for name, experiment in EXPERIMENTS.items():
        for data in experiment.tests:
            for way in experiment.ways:
                test = folder_name(name, data, way)
                report = source.find(TESTS, test)
                if report is not None:
                    _reports(changed, file_of(name, way), TESTS)[test] = _bare(report) | _about(work / "evals" / test)
        fit, steps = source.find(FITS, name), source.find(STEPS, name)
        if fit is not None:
            _reports(changed, file_of(name), FITS)[name] = _bare(fit) | _about(work / "runs" / name)
        if steps is not None and file_of(name) in STEPPED:
            _reports(changed, file_of(name), STEPS)[name] = [_kept(row) for row in steps]
    for file, sections in changed.items():
        _merge(folder / f"{file}.json", sections)
    return [f"{file}: {name}" for file, found in changed.items() for reports in found.values() for name in reports]


def _merge(file: Path, sections: result_files.Reports) -> None:
    found = result_files.read(file) if file.exists() else {}
    for section, reports in sections.items():
        found.setdefault(section, {}).update(reports)
    for name in sections.get(STEPS, {}):  # what was noted is of other steps
        found.get(NOTED, {}).pop(name, None)
    result_files.write(file, found)


def _reports(changed: dict[str, result_files.Reports], file: str, section: str) -> dict[str, Any]:
    return changed.setdefault(file, {}).setdefault(section, {})


def _bare(report: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in report.items() if key not in LOCAL}


def _about(run: Path) -> dict[str, Any]:
    """What a figure depends on beside the experiment: the commit, versions, the seed and the time."""
    if not (run / RUN).exists():
        return {}
    about = read_json(run / RUN)
    seed = about.get("settings", {}).get("seed")
    return {"run": {key: about[key] for key in ABOUT if key in about} | ({} if seed is None else {"seed": seed})}


def _kept(row: dict[str, Any]) -> dict[str, Any]:
    """
    >>> _kept({"stage": "grpo", "step": 15, "reward": 0.8, "eval_f1/pq-3h": 0.5, "grad_norm": 0.1})
    {'step': 15, 'reward': 0.8, 'eval_f1/pq-3h': 0.5}
    """
    return {key: value for key, value in row.items() if key in KEPT or key.startswith(VALIDATED)}
