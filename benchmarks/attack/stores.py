"""Changed stores: bytes flipped, files cut, headers and arrays forged with right checksums; opened and asked.

A store that was changed must give an error or the right answers. One that was forged, so that its checksums are right,
is another store and may say other things; but it too must end in an answer or a message, soon and in little memory.
Half of the stores are read as one over 256 MB is: by block.
"""

from __future__ import annotations

import json
import random
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import xxhash
from benchmarks.attack import Result

from kgwalk.kg import files
from kgwalk.kg.build import build
from kgwalk.kg.files import HEADER, write_header
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.types import KgwalkError

SOON = 20.0  # seconds for one store
MOST_MB = 600  # of memory, of which the program itself takes a fifth


def attack(seconds: float, seed: int) -> Result:
    """Change a store in one way after the other, and ask each in a process that may crash."""
    result, rng = Result(), random.Random(seed)
    until = time.monotonic() + seconds
    ended: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="attack-stores-") as name:
        folder = Path(name)
        stores = {
            "whole": _made(folder / "whole.kg", folder),
            "block": _made(folder / "block.kg", folder, by_block=True),
        }
        asker = _Asker()
        right = {how: asker.ask(store, how) for how, store in stores.items()}
        for how, said in right.items():
            result.check(said.startswith("said "), f"the {how} store as it was built: {said}")
        while time.monotonic() < until and result.tries < 600:
            how, change = rng.choice(sorted(stores)), rng.choice(CHANGES)
            number = rng.randrange(1 << 30)
            path = folder / "changed.kg"
            shutil.rmtree(path, ignore_errors=True)
            shutil.copytree(stores[how], path)
            change(path, random.Random(number))
            said = asker.ask(path, how)
            forged = change.__name__.startswith("forge")
            good = said.startswith("error") or (said.startswith("said ") and (forged or said == right[how]))
            ended["refused" if said.startswith("error") else "same answers" if said == right[how] else "forged"] += good
            result.check(good, f"{change.__name__}(random {number}) of the {how} store: {said[:300]}")
        asker.end()
    result.figures = {name: f"{count:,}" for name, count in sorted(ended.items())}
    result.figures["most memory"] = f"{asker.most_mb:.0f} MB"
    return result


def _made(path: Path, folder: Path, *, by_block: bool = False) -> Path:
    """A store of 600 facts with dates, of which some share a name."""
    rng = random.Random(0)
    rows = [
        (
            f"thing {rng.randrange(150)}",
            f"relation.{rng.randrange(7)}",
            f"thing {rng.randrange(150)}",
            f"19{rng.randrange(10, 99)}",
        )
        for _ in range(600)
    ]
    (folder / "facts.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    whole = getattr(files, "WHOLE_BYTES", 0)
    if by_block:
        files.WHOLE_BYTES = 0
    try:
        build([folder / "facts.tsv"], path)
    finally:
        files.WHOLE_BYTES = whole
    return path


# The changes


def _file(path: Path, rng: random.Random) -> Path:
    return rng.choice(sorted(file for file in path.glob("*.bin") if file.stat().st_size))


def flip(path: Path, rng: random.Random) -> None:
    file = _file(path, rng)
    data = bytearray(file.read_bytes())
    for _ in range(rng.choice((1, 1, 1, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    file.write_bytes(data)


def overwrite(path: Path, rng: random.Random) -> None:
    file = _file(path, rng)
    data = bytearray(file.read_bytes())
    start = rng.randrange(len(data))
    data[start : start + 64] = rng.choice((bytes(64), b"\xff" * 64, rng.randbytes(64)))[: len(data) - start]
    file.write_bytes(data)


def cut(path: Path, rng: random.Random) -> None:
    file = _file(path, rng)
    file.write_bytes(file.read_bytes()[: rng.randrange(file.stat().st_size)])


def swap(path: Path, rng: random.Random) -> None:
    one, other = _file(path, rng), _file(path, rng)
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def change_header(path: Path, rng: random.Random) -> None:
    data = bytearray((path / HEADER).read_bytes())
    if rng.random() < 0.3:
        del data[rng.randrange(len(data)) :]
    else:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    (path / HEADER).write_bytes(data)


ODD: list[Any] = [
    None,
    -1,
    0,
    1,
    2**31,
    2**62,
    2**63,
    1e300,
    7.0,
    "",
    "x" * 10_000,
    "|O",
    "<f8",
    "V0",
    "<u4",
    [],
    {},
    True,
    "../x",
]


def forge_header(path: Path, rng: random.Random) -> None:
    """A value of the header is another, and the header's checksum is right."""
    body = orjson.loads((path / HEADER).read_bytes())["header"]
    places: list[tuple[Any, Any]] = [(body, key) for key in body]
    places += [(body["arrays"], name) for name in body["arrays"]] * 2
    places += [(entry, key) for entry in body["arrays"].values() for key in entry] * 2
    for _ in range(rng.choice((1, 1, 3))):
        there, key = rng.choice(places)
        if rng.random() < 0.2:
            there.pop(key, None)
        else:
            there[key] = rng.choice(ODD)
    try:
        write_header(path, body)
    except TypeError:  # a number that the format cannot hold
        forge_header(path, rng)


def forge_array(path: Path, rng: random.Random) -> None:
    """Items of an array are others, or fewer, or more, and all checksums are right."""
    body = orjson.loads((path / HEADER).read_bytes())["header"]
    name = rng.choice(sorted(name for name, entry in body["arrays"].items() if entry["items"]))
    entry, file = body["arrays"][name], path / f"{name}.bin"
    items = np.frombuffer(file.read_bytes(), entry["dtype"]).copy()
    kind = rng.randrange(4)
    if kind == 0:  # numbers far out of range
        for at in rng.sample(range(len(items)), min(len(items), 3)):
            items[at] = np.iinfo(items.dtype).max - rng.randrange(3)
    elif kind == 1:
        rng_np = np.random.default_rng(rng.randrange(1 << 30))
        rng_np.shuffle(items)
    elif kind == 2:
        items = items[: rng.randrange(len(items))]
    else:
        items[:] = items[rng.randrange(len(items))]
    file.write_bytes(items.tobytes())
    entry.update(items=len(items), xxh3=xxhash.xxh3_64_hexdigest(items.tobytes()))
    if "blocks" in body["arrays"]:  # its blocks' checksums too, by leaving them to be made from the file
        body["arrays"].pop("blocks")
        body.pop("block_bytes", None)
    write_header(path, body)


CHANGES: list[Callable[[Path, random.Random], None]] = [
    flip, flip, flip, overwrite, cut, swap, change_header, forge_header, forge_header, forge_array, forge_array
]  # fmt: skip


# Asking, in a process of its own


class _Asker:
    """A process that opens stores and asks them; it is started again when a store ended it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self.most_mb = 0.0

    def ask(self, path: Path, how: str) -> str:
        if self._process is None:
            command = [sys.executable, "-m", "benchmarks.attack.stores"]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, bufsize=1)
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(f"{how}\t{path}\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], SOON)
        line = process.stdout.readline() if ready else ""
        if not line:
            self.end(at_once=not ready)
            return "hangs" if not ready else f"crashed with status {process.returncode}: {process.stderr.read()[-300:]}"
        said = json.loads(line)
        self.most_mb = max(self.most_mb, said["mb"])
        if said["mb"] > MOST_MB:
            self.end()
            return f"took {said['mb']:.0f} MB"
        return str(said["text"])

    def end(self, *, at_once: bool = False) -> None:
        if self._process is not None and self._process.stdin is not None:
            if at_once:
                self._process.kill()
            else:
                self._process.stdin.close()
            self._process.wait()
        self._process = None


def everything(graph: StoredGraph) -> str:
    """A digest of what a graph says, whichever way it is asked."""
    names = [f"thing {number}" for number in range(0, 150, 9)]
    said: list[Any] = [sorted(graph.match()), len(graph)]
    for name in names:
        said.append(graph.find(name.upper() + "x", 3))
        if name in graph:
            for out in (True, False):
                relations = graph.relations(name, out=out)
                said += [relations, *(graph.neighbors(name, relation, out=out) for relation in relations)]
    said += [graph.find_relation("relation", 3), sorted(graph.match(relation="relation.3"))]
    numbers = np.arange(0, len(graph), 3)
    part = graph.subgraph(numbers)
    said += [graph.triples(numbers), sorted(part.match()), part.find("thing 7"), graph.live_relations()]
    window = graph.between("1940", "1960")
    said += [sorted(window.match()), window.find("thing 7"), [window.has_relation("relation.1")]]
    return xxhash.xxh3_64_hexdigest(repr(said).encode("utf-8", "replace"))


def main() -> None:
    """Read lines of how and path; write what came of each as JSON."""
    whole = getattr(files, "WHOLE_BYTES", 0)
    for line in sys.stdin:
        how, _, path = line.rstrip("\n").partition("\t")
        files.WHOLE_BYTES, files.SMALL_BYTES = (whole, 1 << 20) if how == "whole" else (0, 0)
        try:
            text = f"said {everything(open_graph(path))}"
        except KgwalkError as error:
            text = f"error {error}"
        except Exception as error:  # noqa: BLE001 - what the attack looks for
            import traceback

            text = f"traceback {type(error).__name__}: {error} {traceback.format_tb(error.__traceback__)[-1]}"
        print(json.dumps({"text": text, "mb": _peak_mb()}), flush=True)


def _peak_mb() -> float:
    """The most memory of this process. Not ru_maxrss, which begins with what the parent had when it forked."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    main()
