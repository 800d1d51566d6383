"""A run's README.md: the model card of its adapter, written from what the run recorded."""

from __future__ import annotations

from typing import Any

from kgwalk.config.recipe import Recipe
from kgwalk.runs.folder import RunFolder


def write_card(folder: RunFolder, recipe: Recipe, data: str, report: dict[str, Any]) -> None:
    folder.file("README.md").write_text(card(folder, recipe, data, report), "utf-8")


def card(folder: RunFolder, recipe: Recipe, data: str, report: dict[str, Any]) -> str:
    base = recipe.section("model").get("name", "")
    about = folder.about
    lines = [
        "---",
        f"base_model: {base}",
        "library_name: peft",
        "tags: [kgwalk, knowledge-graph, question-answering]",
        "---",
        f"# {recipe.name} on {data}",
        "",
        recipe.about.splitlines()[-1] if recipe.about else "",
        "",
        f"Trained with kgwalk {about['versions']['kgwalk']}, commit {about['commit']}, begun {about['begun']}:",
        "",
        f"    {' '.join(about['command'])}",
        "",
        "| stage | outcome |",
        "|---|---|",
        *(f"| {name} | {_outcome(made)} |" for name, made in report["stages"].items()),
        "",
        "The recipe as it was used is recipe.toml; versions and settings are in run.json; the adapter is in adapter/.",
    ]
    return "\n".join(lines) + "\n"


def _outcome(made: dict[str, Any]) -> str:
    if "kept" in made:
        return f"{made['kept']:,} demonstrations of {made['tried']:,} tried"
    if "metrics" in made:
        shown = ", ".join(f"{name} {made['metrics'][name]:.3f}" for name in ("f1", "hits_at_1", "hit_any"))
        return f"{made['n']:,} questions: {shown}"
    if "steps" in made:
        best = made.get("best")
        validated = f", best F1 in validation {best['eval_f1']:.3f} (step {best['step']})" if best else ""
        note = f"; {made['note']}" if "note" in made else ""
        return f"{made['steps']:,} steps{validated}{note}"
    return ", ".join(f"{name} {value}" for name, value in made.items())
