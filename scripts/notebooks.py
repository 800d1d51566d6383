"""Run the notebooks of examples/notebooks from their first cell to their last; `make docs` checks them by it.

    python scripts/notebooks.py             # write what their cells print and show into them
    python scripts/notebooks.py --check     # nothing is written: do they still print and show what stands in them?

A check passes over numbers, which depend on the machine (a curve, a confidence), and over the inside of pictures. What
is kept of a cell's outputs is what it prints, and of a value the picture, else the HTML, else the text; no warnings.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "examples" / "notebooks"
RICHEST = ("image/png", "text/html", "text/plain")


def executed(path: Path) -> Any:
    """The notebook with what its cells print and show now; a cell that fails is an error."""
    notebook = nbformat.read(path, as_version=4)
    place = {"metadata": {"path": str(FOLDER)}}
    client = NotebookClient(notebook, timeout=300, record_timing=False, resources=place)
    client.execute(env={name: value for name, value in os.environ.items() if name != "KGWALK_AGENT"})
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"], "language_info": {"name": "python"}}
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = list(_kept(cell.outputs))
    return notebook


def _kept(outputs: list[Any]) -> Iterator[Any]:
    printed = "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stdout")
    if printed:
        yield nbformat.v4.new_output("stream", name="stdout", text=printed)
    for output in outputs:
        if "data" in output:
            kind = next(kind for kind in RICHEST if kind in output.data)
            yield nbformat.v4.new_output("display_data", data={kind: output.data[kind]})


def shown(notebook: Any) -> list[tuple[str, list[str]]]:
    """Each cell's source, and its outputs without their numbers."""
    return [(cell.source, [_without_numbers(output) for output in cell.get("outputs", ())]) for cell in notebook.cells]


def _without_numbers(output: Any) -> str:
    if output.output_type == "stream":
        return re.sub(r"\d+", "0", output.text)
    [(kind, value)] = output.data.items()
    return kind if kind == "image/png" else re.sub(r"\d+", "0", value)


def main(check: bool) -> int:
    wrong = 0
    for path in sorted(FOLDER.glob("*.ipynb")):
        begun = time.perf_counter()
        made = executed(path)
        print(f"{path.name}: {len(made.cells)} cells in {time.perf_counter() - begun:.1f} s")
        if not check:
            nbformat.write(made, path)
            continue
        for stands, now in zip(shown(nbformat.read(path, as_version=4)), shown(made), strict=True):
            if stands != now:
                wrong += 1
                print(f"{path.name}: this cell shows something else now:\n{now[0]}\nthen: {stands[1]}\nnow:  {now[1]}")
    if wrong:
        print("write the outputs anew with `.venv/docs/bin/python scripts/notebooks.py`, and read them")
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the notebooks of examples/notebooks.")
    parser.add_argument("--check", action="store_true", help="compare with what stands in them")
    sys.exit(main(parser.parse_args().check))
