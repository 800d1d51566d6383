"""Which file of a dataset folder is what: splits, the graph, graphs of single questions, names.

Knows file names alone, never what the files hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kgwalk.kg.files import HEADER
from kgwalk.types import InputError

KG = "kg"  # kg.tsv.gz, kg.nt, ...: the facts
STORE = "graph.kg"  # the same as a built store
GRAPHS = "graphs"  # graphs.jsonl.zst: facts of single questions, {"id": ..., "graph": [[h, r, t], ...]}
NAMES = "names"  # names.tsv: what the ids in kg are called
KG_SUFFIXES = (".tsv", ".csv", ".nt", ".ttl", ".nq", ".jsonl", ".ndjson")
_COMPRESSED = (".gz", ".zst")
_NOT_SPLITS = {KG, GRAPHS, "passages", "descriptions"}  # JSON lines that are no questions
_ORDER = ("train", "dev", "valid", "validation", "test")


@dataclass
class Layout:
    """The files of one folder; `splits` in the order train, dev, test, then by name."""

    folder: Path
    splits: dict[str, Path] = field(default_factory=dict)
    store: Path | None = None
    kg: Path | None = None
    graphs: Path | None = None
    names: Path | None = None


def layout_of(folder: Path) -> Layout:
    """What is where in a dataset folder; the splits may stand in a folder `questions` inside it."""
    found = Layout(folder)
    inner = folder / "questions"
    files = [*_files(folder), *(_files(inner) if inner.is_dir() else [])]
    for file in files:
        name, suffix = stem_and_suffix(file)
        if name == KG and suffix in KG_SUFFIXES:
            found.kg = _only(found.kg, file)
        elif name == NAMES and suffix == ".tsv":
            found.names = _only(found.names, file)
        elif name == GRAPHS and suffix == ".jsonl":
            found.graphs = _only(found.graphs, file)
        elif suffix == ".jsonl" and name not in _NOT_SPLITS:
            found.splits[name] = _only(found.splits.get(name), file)
    found.splits = {name: found.splits[name] for name in in_order(found.splits)}
    stores = (folder / STORE, folder / f"{folder.name}.kg")
    found.store = next((path for path in stores if (path / HEADER).is_file()), None)
    return found


def in_order(splits: Iterable[str]) -> list[str]:
    """train, dev, test, then the others by name."""
    return sorted(splits, key=lambda split: (_ORDER.index(split) if split in _ORDER else len(_ORDER), split))


def is_split_name(name: str) -> bool:
    """Whether `name.jsonl.gz` would be read as a split of that name."""
    return re.fullmatch(r"\w[\w-]*", name) is not None and name not in _NOT_SPLITS


def stem_and_suffix(file: Path) -> tuple[str, str]:
    """The name without its suffixes, and the suffix but for the compression's.

    >>> stem_and_suffix(Path("a/kg.tsv.gz"))
    ('kg', '.tsv')
    """
    plain = file.with_suffix("") if file.suffix.lower() in _COMPRESSED else file
    return plain.stem, plain.suffix.lower()


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))


def _only(first: Path | None, second: Path) -> Path:
    if first is not None:
        raise InputError(
            f"{first.parent} has both {first.name} and {second.name}, which are the same part of a dataset",
            hint="remove one of the two",
        )
    return second
