"""The graphs and questions that come with kgwalk. Knows where they lie, not what is in them.

`world` is geography: countries, cities, languages, currencies, time zones, US states and counties. Its sources and
licences stand in world/NOTICE.md; scripts/make_world.py makes it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

from kgwalk.types import KgwalkError, Question

SPLITS = ("train", "dev", "test")


def world_path() -> Path:
    """The store folder of the world graph; open it with `open_graph`."""
    return world_folder() / "world.kg"


def world_questions(split: str) -> list[Question]:
    """The questions about the world graph of one split; `extra["program"]` holds the walk to the answer."""
    from kgwalk.data.folder import read_questions  # needs pyarrow

    if split not in SPLITS:
        raise KgwalkError(f"no split {split!r} of the world questions; there are {', '.join(SPLITS)}")
    return list(read_questions(world_folder() / "questions" / f"{split}.jsonl.gz"))


BUNDLED: dict[str, Callable[[], Path]] = {"world": world_path}


def world_folder() -> Path:
    """The folder with the world's questions and graph; `load_dataset("world")` opens it."""
    # A real folder, since the store is memory-mapped: wheels are unpacked when they are installed.
    return Path(str(files("kgwalk.data"))) / "world"
