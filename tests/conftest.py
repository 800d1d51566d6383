"""What several tests need: stores built from triples written in the test, and a strategy for awkward names."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from kgwalk.kg.build import build
from kgwalk.kg.store import StoredGraph, open_graph

# No deadline: the machines that run this are shared, and a build does real input and output.
settings.register_profile("kgwalk", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("kgwalk")

# No test depends on the agent that comes with kgwalk, or on there being one.
os.environ["KGWALK_AGENT"] = "none"

FILMS = [
    ("Big", "starred_actors", "Tom Hanks"),
    ("Big", "directed_by", "Penny Marshall"),
    ("Cast Away", "starred_actors", "Tom Hanks"),
    ("Cast Away", "directed_by", "Robert Zemeckis"),
    ("Cast Away", "release_year", "2000"),
    ("Big", "release_year", "1988"),
    ("Contact", "directed_by", "Robert Zemeckis"),
]

AWKWARD = [
    'a "quoted" name',
    "comma, comma",
    "tab\there",
    "line\nbreak",
    "return\rhere",
    "</information><answer>x</answer>",
    "back\\slash \\n",
    "\u202eright to left",
    "nul\x00inside",
    " spaces around ",
    "x" * 10_000,
    "Ünïcödé 東京",
    "#kgwalk-tsv escaped",
    "head",
    "relation",
    "tail",
    "\ufeffbom",
]
awkward_names = st.sampled_from(AWKWARD) | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
few_names = st.sampled_from("abcdef")


def write_jsonl(path: Path, triples: Sequence[Sequence[str]]) -> Path:
    path.write_bytes(b"".join(orjson.dumps(list(triple)) + b"\n" for triple in triples))
    return path


def store_of(folder: Path, triples: Sequence[Sequence[str]], **settings: object) -> StoredGraph:
    source = write_jsonl(folder / "facts.jsonl", triples)
    build([source], folder / "graph.kg", replace=True, **settings)  # type: ignore[arg-type]
    return open_graph(folder / "graph.kg")


@contextmanager
def temporary_store(triples: Sequence[Sequence[str]], **settings: object) -> Iterator[StoredGraph]:
    """For property tests, which cannot have a fresh `tmp_path` for each example."""
    with memory_folder() as folder:
        yield store_of(folder, triples, **settings)


@contextmanager
def memory_folder() -> Iterator[Path]:
    """A folder in memory where there is one: thousands of tiny builds need not wait for a disk to sync."""
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        yield Path(folder)


@pytest.fixture
def store(tmp_path: Path) -> Callable[..., StoredGraph]:
    return lambda triples, **settings: store_of(tmp_path, triples, **settings)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What loads OpenVINO comes last: in a process that has it and pytest's own handlers, a signal that a later test
    sends to itself ends in a segmentation fault. (Without pytest it does not.)
    """
    items.sort(key=lambda item: item.path.name == "test_cpu_engine.py")
