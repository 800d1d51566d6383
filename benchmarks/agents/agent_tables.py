"""The three agents that come with kgwalk, side by side: people's questions, the public sets, and how sure they are.

What people ask is read from the reports that `python -m benchmarks.users --json` wrote (benchmarks/users/results); the
public sets are `noted`, from `python -m benchmarks.agents.exam`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.agents.markdown import MISSING, amount, bold, counted, share, table
from benchmarks.agents.measured import Measured

SIZES = {"135m": "135M, the default", "0.5b": "0.5B", "1.5b": "1.5B"}
PEOPLE = Path(__file__).parents[1] / "users" / "results"
GROUPS = {  # of users' graphs, those least known first
    "sealed": "sealed: seen by nobody",
    "fresh": "fresh: half of them read",
    "practice": "practice: read",
    "dev": "dev: read",
}
NOTED = "agents"


@cache
def asked_by_people(size: str) -> dict[str, Any]:
    """The report of one agent on the users' graphs, by set."""
    found: dict[str, Any] = json.loads((PEOPLE / f"{size}.json").read_text(encoding="utf-8"))
    return found


def people(measured: Measured) -> str | None:
    """People's questions about graphs of their own. The same whatever was measured: the reports lie elsewhere."""
    rows = []
    for group, title in GROUPS.items():
        best = max(asked_by_people(size)[group]["total"]["f1"] for size in SIZES)
        for size, name in SIZES.items():
            one = asked_by_people(size)[group]
            total = one["total"]
            figures = [share(one[key]) for key in ("refused_rightly", "refused_wrongly")]
            cells = [share(total["f1"], total["interval"], best=total["f1"] == best), share(one["company"]["f1"])]
            rows.append([title, name, counted([total["n"]]), *cells, *figures])
    head = ["graphs", "agent", "questions", "F1", "the companies' graphs", "refused, of those without an answer"]
    return table([*head, "refused, of the others"], rows)


def shapes(measured: Measured) -> str | None:
    """F1 on the sealed graphs by the shape of the question, the smallest agent's weakest first."""
    by_size = {size: asked_by_people(size)["sealed"]["by_shape"] for size in SIZES}
    first = by_size[next(iter(SIZES))]
    order = sorted(first, key=lambda shape: first[shape]["f1"])
    rows = [
        [shape, counted([first[shape]["n"]]), *(share(by_size[size][shape]["f1"]) for size in SIZES)] for shape in order
    ]
    return table(["shape", "questions", *SIZES.values()], rows)


def public_sets(measured: Measured) -> str | None:
    """Test splits of the public sets: F1, Hits@1 and tokens written, a set a row."""
    noted = measured.noted(NOTED)
    if not noted:
        return None
    sets = list(dict.fromkeys(name for size in SIZES for name in noted[size]["sets"]))
    rows = []
    for name in sets:
        found = {size: noted[size]["sets"].get(name) for size in SIZES}
        best = max(one["f1"] for one in found.values() if one)
        cells = [_figures(one, best) for one in found.values()]
        rows.append([name, counted([one["n"] for one in found.values() if one][:1]), *cells])
    return table(["questions", "n", *(f"{name}: F1, Hits@1, tokens" for name in SIZES.values())], rows)


def _figures(one: Mapping[str, Any] | None, best: float) -> str:
    """
    >>> _figures({"f1": 0.5, "hits_at_1": 0.625, "tokens": 30.0}, 0.5), _figures(None, 0.5)
    ('**0.500**, 0.625, 30.0', '-')
    """
    if one is None:
        return MISSING
    f1 = share(one["f1"])
    return f"{bold(f1) if one['f1'] == best else f1}, {share(one['hits_at_1'])}, {amount(one['tokens'])}"


def sureness(measured: Measured) -> str | None:
    """How far a stated confidence can be believed, on graphs that were left out when it was fitted."""
    noted = measured.noted(NOTED)
    if not noted:
        return None
    rows = []
    for size, name in SIZES.items():
        one = noted[size]["confidence"]
        figures = [share(one["ece"], one["ece_interval"]), share(one["auroc"], one["auroc_interval"])]
        rows.append([name, counted([one["n"]]), *figures, str(one["above"]), f"{one['above_right']:.0%}"])
    return table(["agent", "answers", "calibration error", "AUROC", "said above 0.9", "of these right"], rows)
