"""The bundled graph, `world`, and its questions: where they lie.

`world` is geography: countries, cities, languages, currencies, time zones, US states and counties. world/NOTICE.md
lists its sources and licences; scripts/make_world.py makes it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

from kgwalk.config.cache import cache_folder
from kgwalk.types import KgwalkError, Question

SPLITS = ("train", "dev", "test")


def world_path() -> Path:
    """The store folder of the world graph; open it with `open_graph`."""
    return world_folder() / "world.kg"


def world_questions(split: str) -> list[Question]:
    """One split of the questions about the world graph; `extra["program"]` holds the walk to the answer."""
    from kgwalk.data.folder import read_questions  # needs pyarrow

    if split not in SPLITS:
        raise KgwalkError(f"no split {split!r} of the world questions; there are {', '.join(SPLITS)}")
    return list(read_questions(world_folder() / "questions" / f"{split}.jsonl.gz"))


BUNDLED: dict[str, Callable[[], Path]] = {"world": world_path}


def beside(store: Path, ending: str) -> Path:
    """Where a fit puts what belongs to a graph: beside its store; of a graph that comes with kgwalk, in the cache.

    >>> beside(Path("/graphs/films.kg"), ".agent")
    PosixPath('/graphs/films.kg.agent')
    """
    store = store.resolve()
    for name, path in BUNDLED.items():
        if path().resolve() == store:
            return cache_folder() / "agents" / f"{name}{ending}"
    return store.with_name(f"{store.name}{ending}")


def world_folder() -> Path:
    """The folder with the world's questions and graph; `load_dataset("world")` opens it."""
    # The store is memory-mapped, so this must be a real folder; it is, since wheels are unpacked when installed.
    return Path(str(files("kgwalk.data"))) / "world"
