"""When an exported agent counts as the agent that it was made of: the judgement of benchmarks/export.py."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from benchmarks.export import TOLERANCES, shortfalls

# as measured (docs/guides/export.md), in q8_0
MEASURED: dict[str, Any] = {
    "questions": 250,
    "same_answers": 247,
    "prompts": 250,
    "same_ids": 250,
    "furthest_logprob": 0.52,
}


@pytest.mark.parametrize(
    ("name", "changed", "said"),
    [
        ("gguf-q8_0", {}, []),
        ("gguf-q8_0", {"same_answers": 245}, []),  # 98% of 250
        ("gguf-q8_0", {"same_answers": 244}, ["gguf-q8_0: 244 of 250 questions have the same answers; it takes 98%"]),
        ("gguf-q8_0", {"same_ids": 249}, ["gguf-q8_0: 249 of 250 prompts are the same ids; all must be"]),
        ("gguf-q8_0", {"furthest_logprob": float("nan")}, ["gguf-q8_0: off by nan; at most 1.0 is allowed"]),
        ("gguf-q8_0", {"questions": 248}, ["gguf-q8_0: 248 of 250 questions were walked"]),
        # what is good enough in eight bits is not in sixteen
        (
            "gguf-f16",
            {},
            [
                "gguf-f16: 247 of 250 questions have the same answers; it takes 99%",
                "gguf-f16: off by 0.52; at most 0.05 is allowed",
            ],
        ),
        ("gguf-f16", {"same_answers": 248, "furthest_logprob": 0.016}, []),
    ],
)
def test_a_form_is_held_to_its_tolerance(name: str, changed: dict[str, Any], said: list[str]) -> None:
    assert shortfalls(name, MEASURED | changed) == said


def test_the_guide_names_every_tolerance() -> None:
    page = (Path(__file__).parents[2] / "docs" / "guides" / "export.md").read_text()
    table = re.findall(r"^\| `(\w+)`, (\w+) \| (\d+)% \| ([\d.]+) \|$", page, re.MULTILINE)
    listed = {
        "hf" if form == "hf" else f"{form}-{number}": (int(same), float(off)) for form, number, same, off in table
    }
    assert listed == {name: (round(100 * one.same), one.furthest) for name, one in TOLERANCES.items()}
