"""A changed store is an error and never another answer: flipped bytes, cut files, headers that somebody forged."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash

from conftest import FILMS, store_of
from kgwalk.kg import blocks, files
from kgwalk.kg.blocks import BlockArray
from kgwalk.kg.files import BLOCKS, HEADER, read_header, write_header
from kgwalk.kg.store import KIND, VERSION, StoredGraph, open_graph
from kgwalk.types import KgwalkError, StoreError

TIMED = [(*fact, "1990") for fact in FILMS]


@pytest.fixture
def by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores of any size are read as large ones are, in blocks of 64 bytes, of which ten are kept."""
    for module in (blocks, files):
        monkeypatch.setattr(module, "BLOCK_BYTES", 64)
    monkeypatch.setattr(files, "WHOLE_BYTES", 0)
    monkeypatch.setattr(files, "SMALL_BYTES", 0)
    monkeypatch.setattr(blocks, "POOL_BYTES", 640)


def many(count: int = 400) -> list[tuple[str, str, str]]:
    rng = random.Random(5)
    return [
        (f"thing {rng.randrange(90)}", f"relation {rng.randrange(5)}", f"thing {rng.randrange(90)}")
        for _ in range(count)
    ]


def everything(graph: StoredGraph) -> list[Any]:
    """What a graph says, whichever way it is asked."""
    names = sorted({name for fact in graph.match() for name in (fact.head, fact.tail)})
    said: list[Any] = [sorted(graph.match()), graph.info() | {"path": ""}]
    for name in names[:12]:
        said.append(graph.find(name.upper() + "x", 3))
        for out in (True, False):
            relations = graph.relations(name, out=out)
            said += [relations, *(graph.neighbors(name, relation, out=out) for relation in relations)]
    said.append([sorted(graph.match(relation=relation.name)) for relation in graph.find_relation("r", 3)])
    numbers = np.arange(0, len(graph), 3)
    said += [
        graph.triples(numbers),
        sorted(graph.subgraph(numbers).match()),
        sorted(graph.between("1985", None).match()),
    ]
    return said


def test_by_block_it_says_the_same(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    for facts in (TIMED, many()):
        whole = everything(store_of(tmp_path, facts))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(files, "WHOLE_BYTES", 0)
            patch.setattr(files, "SMALL_BYTES", 0)
            for module in (blocks, files):
                patch.setattr(module, "BLOCK_BYTES", 64)
            old = open_graph(tmp_path / "graph.kg")  # written without checksums of blocks
            new = store_of(tmp_path, facts)
            for graph in (old, new):
                assert isinstance(graph.store.out.other_array, BlockArray)
                said = everything(graph)
                said[1]["bytes"] = whole[1]["bytes"]  # the checksums of its blocks come on top
                assert said == whole
            assert BLOCKS in new.store.folder
            assert BLOCKS not in old.store.folder


def test_a_search_among_blocks_is_numpys(tmp_path: Path, by_block: None) -> None:
    store_of(tmp_path, many())
    start = open_graph(tmp_path / "graph.kg").store.out.start_array
    assert isinstance(start, BlockArray)
    plain = np.asarray(start)
    wanted = np.random.default_rng(1).integers(0, int(plain[-1]) + 5, 200)
    for side in ("left", "right"):
        assert np.searchsorted(start, wanted, side).tolist() == np.searchsorted(plain, wanted, side).tolist()
    assert start[wanted % len(plain)].tolist() == plain[wanted % len(plain)].tolist()
    assert [start[low : low + 40].tolist() for low in range(0, len(plain), 7)] == [
        plain[low : low + 40].tolist() for low in range(0, len(plain), 7)
    ]
    with pytest.raises(IndexError):
        start[np.array([len(plain)])]


def _flips(path: Path, seed: int, number: int) -> Iterator[tuple[str, int]]:
    """Places in the arrays' files, by their share of the bytes."""
    rng = random.Random(seed)
    there = sorted(file for file in path.glob("*.bin") if file.stat().st_size)
    for file in rng.choices(there, [file.stat().st_size for file in there], k=number):
        yield file.name, rng.randrange(file.stat().st_size)


def test_a_flipped_byte_is_an_error_when_it_is_opened(tmp_path: Path) -> None:
    store_of(tmp_path, TIMED)
    path = tmp_path / "graph.kg"
    for name, at in _flips(path, 1, 60):
        good = (path / name).read_bytes()
        (path / name).write_bytes(good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :])
        with pytest.raises(StoreError, match=f"{name} is corrupted"):
            open_graph(path)
        (path / name).write_bytes(good)
    open_graph(path)


def test_by_block_it_is_an_error_when_it_is_asked(tmp_path: Path, by_block: None) -> None:
    """Of each flip: the same answers, where the block was not read, or an error. Reading all finds every one."""
    store_of(tmp_path, many(120))
    path = tmp_path / "graph.kg"
    graph = open_graph(path)
    right = {name: graph.relations(name) for name in sorted({fact.head for fact in graph.match()})}
    asked_wrong = 0
    for name, at in _flips(path, 2, 60):
        good = (path / name).read_bytes()
        (path / name).write_bytes(good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :])
        try:
            opened = open_graph(path)
            assert {entity: opened.relations(entity) for entity in right} == right
        except StoreError as error:
            assert "corrupted" in str(error)  # noqa: PT017 - one of the two that may be
            asked_wrong += 1
        with pytest.raises(StoreError, match=f"{name} is corrupted"):
            list(open_graph(path).store.folder.verify())
        (path / name).write_bytes(good)
    assert asked_wrong > 10


def test_a_file_cut_short_while_it_is_open_is_an_error(tmp_path: Path, by_block: None) -> None:
    store_of(tmp_path, many())
    (tmp_path / "other").mkdir()
    graph, other = open_graph(tmp_path / "graph.kg"), store_of(tmp_path / "other", FILMS)
    for file in (tmp_path / "graph.kg").glob("*.bin"):
        os.truncate(file, 10)
    with pytest.raises(StoreError, match=r"\.bin was cut short while it was open"):
        everything(graph)
    assert other.neighbors("Big", "directed_by").names == ["Penny Marshall"]


@pytest.mark.parametrize(
    "harm", [lambda file: os.truncate(file, 0), os.unlink, lambda file: file.write_bytes(b"\xff" * 99)]
)
def test_a_private_graph_outlives_its_files(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    store_of(tmp_path, TIMED)
    graph = open_graph(tmp_path / "graph.kg", private=True)
    right = everything(graph)
    for file in (tmp_path / "graph.kg").glob("*.bin"):
        harm(file)
    assert everything(graph) == right


def _forge(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """A change of the header, whose own checksum is right afterwards."""

    def forge(path: Path) -> None:
        body = read_header(path, kind=KIND, version=VERSION)
        change(body)
        write_header(path, body)

    return forge


def _array(name: str, **values: object) -> Callable[[Path], None]:
    return _forge(lambda body: body["arrays"][name].update(values))


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (_array("out.other", items=2**62), "holds 28 bytes and should hold"),
        (_array("out.other", items=-7), "'out.other' is described wrongly"),
        (_array("out.other", items=7.0), "'out.other' is described wrongly"),
        (_array("out.other", items="7"), "'out.other' is described wrongly"),
        (_array("out.other", dtype="|O"), "'out.other' is described wrongly"),
        (_array("out.other", dtype="V0", items=7), "'out.other' is described wrongly"),
        (_array("out.other", dtype="|u1", items=28), "'out.other' holds |u1, not <u4"),
        (_array("entity.hash", dtype="<i4"), "build the store again"),
        (_array("out.other", xxh3=None), "'out.other' is described wrongly"),
        (_array("out.other", xxh3="0" * 16), "out.other.bin is corrupted"),
        (_forge(lambda body: body["arrays"].pop("out.start")), "lists no array 'out.start'"),
        (
            _forge(lambda body: body["arrays"].update({"../../etc/passwd": body["arrays"]["out.other"]})),
            "described wrongly",
        ),
        (_forge(lambda body: body["arrays"].update({"out.other": [1, 2]})), "'out.other' is described wrongly"),
        (_forge(lambda body: body.update(arrays=["out.other"])), "it lists no arrays"),
        (_forge(lambda body: body.pop("kind")), "holds a None"),
        (_forge(lambda body: body.update(version=[1])), "version"),
    ],
)
def test_a_forged_header_is_refused(tmp_path: Path, forge: Callable[[Path], None], message: str) -> None:
    store_of(tmp_path, FILMS)
    forge(tmp_path / "graph.kg")
    with pytest.raises(KgwalkError) as caught:
        open_graph(tmp_path / "graph.kg")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("one", "other"), [("out.start", "in.groups"), ("entity.offsets", "find.hash"), ("out.other", "in.triple")]
)
def test_arrays_of_another_length_are_refused(tmp_path: Path, one: str, other: str) -> None:
    """Two arrays of a smaller graph, with right checksums, inside a larger one."""
    store_of(tmp_path, FILMS)
    (tmp_path / "small").mkdir()
    store_of(tmp_path / "small", FILMS[:2])
    path, small = tmp_path / "graph.kg", tmp_path / "small" / "graph.kg"
    body = read_header(path, kind=KIND, version=VERSION)
    theirs = read_header(small, kind=KIND, version=VERSION)
    for name in (one, other):
        shutil.copy(small / f"{name}.bin", path / f"{name}.bin")
        body["arrays"][name] = theirs["arrays"][name]
    write_header(path, body)
    with pytest.raises(StoreError, match="is no header that kgwalk wrote"):
        open_graph(path)


def test_a_header_of_gigabytes_is_not_read(tmp_path: Path) -> None:
    store_of(tmp_path, FILMS)
    os.truncate(tmp_path / "graph.kg" / HEADER, 8 << 30)  # a sparse file
    with pytest.raises(StoreError, match="truncated or corrupted"):
        open_graph(tmp_path / "graph.kg")


def test_block_checksums_that_do_not_fit_are_refused(tmp_path: Path, by_block: None) -> None:
    store_of(tmp_path, many())
    path = tmp_path / "graph.kg"
    sums = (path / f"{BLOCKS}.bin").read_bytes()
    (path / f"{BLOCKS}.bin").write_bytes(sums[:-8])
    digest = xxhash.xxh3_64_hexdigest(sums[:-8])
    _forge(lambda body: body["arrays"][BLOCKS].update(items=len(sums) // 8 - 1, xxh3=digest))(path)
    with pytest.raises(StoreError, match="'blocks' has"):
        open_graph(path)
