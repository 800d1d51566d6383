"""Made questions as a dataset folder: a file for each split, and the graph copied into it or linked to.

Knows the folder's parts, not how questions are made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from kgwalk.data.folder import DatasetWriter
from kgwalk.data.layout import STORE
from kgwalk.kg.store import StoredGraph
from kgwalk.types import Question


def write_dataset(
    target: Path,
    splits: Mapping[str, Sequence[Question]],
    graph: StoredGraph,
    *,
    link: bool = False,
    replace: bool = False,
) -> None:
    """Whole or not at all. With `link`, the folder holds a symbolic link to the graph's store where that lies now."""
    store = Path(graph.store.folder.path).resolve()
    with DatasetWriter(target, replace=replace) as writer:
        for split, questions in splits.items():
            for question in questions:
                writer.add(split, question)
        if link:
            (writer.folder / STORE).symlink_to(store, target_is_directory=True)
        else:
            writer.copy_graph(store)
        writer.finish()
