"""Builds that are killed or meet a full disk: the old store stands or the new one, whole, and the next build works."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path

from benchmarks.attack import Result

from kgwalk.kg.build import build
from kgwalk.kg.store import open_graph
from kgwalk.types import KgwalkError

FACTS = 20_000
TMPFS = "size=3m"  # holds one store of FACTS


def attack(seconds: float, seed: int) -> Result:
    """Half of the time for kills; then limits on the size of files, and a small disk where one may be mounted."""
    result, rng = Result(), random.Random(seed)
    began = time.monotonic()
    stood: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="attack-builds-") as name:
        work = _Work(Path(name))
        while time.monotonic() - began < seconds / 2:
            moment = rng.uniform(0, 1.1) * work.takes
            stood[_killed(result, work, moment)] += 1
        before = work.stands()
        (process := work.run(1 if before == "a" else 0)).communicate()
        left = [path.name for path in work.folder.iterdir() if path.name.startswith(".")]
        good = process.returncode == 0 and work.stands() not in (before, "") and not left
        result.check(good, f"a build after the kills: {work.stands()}, left behind {left}")
        while time.monotonic() - began < seconds * (0.65 if _can_mount() else 0.9):
            _full(result, work, limit=rng.randrange(1 << 10, 1 << 20), rng=rng)
        if _can_mount():
            _small_disk(result, work)
        result.figures["a build"] = f"{work.takes:.1f} s"
    result.figures |= {f"after a kill the {which} store": f"{count:,}" for which, count in sorted(stood.items())}
    result.figures["small disk"] = "a tmpfs" if _can_mount() else "not allowed here; limits of file sizes instead"
    return result


class _Work:
    """Two sources, and a store that is built from one or the other."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, folder / "graph.kg"
        self.sources = [self._source(letter) for letter in "ab"]
        build([self.sources[0]], self.store)
        before = time.monotonic()
        self.run(1).communicate()
        self.takes = time.monotonic() - before

    def _source(self, letter: str) -> Path:
        rng = random.Random(letter)
        path = self.folder / f"{letter}.tsv"
        rows = (
            f"{letter}{rng.randrange(4000)}\tr{rng.randrange(30)}\t{letter}{rng.randrange(4000)}\n"
            for _ in range(FACTS)
        )
        path.write_text("".join(rows))
        return path

    def run(self, which: int, store: Path | None = None, file_bytes: int | None = None) -> subprocess.Popen[str]:
        """A build of the store in a process of its own."""
        command = [
            sys.executable,
            "-m",
            "kgwalk",
            "kg",
            "build",
            str(self.sources[which]),
            "-o",
            str(store or self.store),
        ]

        def limits() -> None:
            if file_bytes is not None:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

        return subprocess.Popen(
            [*command, "--force", "--quiet"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=limits,
        )

    def stands(self, store: Path | None = None) -> str:
        """Which of the two is there, every byte of it: "a", "b", or what is wrong."""
        try:
            graph = open_graph(store or self.store)
            for folder in graph.folders():
                for _ in folder.verify():
                    pass
            fact = next(iter(graph.match(limit=1)))
        except KgwalkError as error:
            return str(error)
        return fact.head[0]


def _killed(result: Result, work: _Work, moment: float) -> str:
    """Kill a build of the other source; returns which store stood afterwards."""
    before = work.stands()
    process = work.run(1 if before == "a" else 0)
    time.sleep(moment)
    with suppress(ProcessLookupError):
        process.kill()
    process.communicate()
    after = work.stands()
    result.check(after in ("a", "b"), f"killed after {moment:.3f} s: {after}")
    return "old" if after == before else "new"


def _full(result: Result, work: _Work, limit: int, rng: random.Random) -> None:
    """A build that may write files of so many bytes only."""
    before = work.stands()
    _, words = (process := work.run(rng.randrange(2), file_bytes=limit)).communicate()
    after = work.stands()
    said = process.returncode == 0 or (words.startswith("error: ") and "Traceback" not in words)
    stood = after == before if process.returncode else after in ("a", "b")
    result.check(said and stood, f"files of at most {limit:,} bytes: {after}: {words[-300:]}")
    left = [path.name for path in work.folder.iterdir() if path.name.startswith(".")]
    result.check(not left, f"files of at most {limit:,} bytes: left behind {left}")


def _can_mount() -> bool:
    return os.geteuid() == 0 and _mounted(Path(tempfile.gettempdir()), dry=True)


def _mounted(where: Path, *, dry: bool = False) -> bool:
    if dry:
        with tempfile.TemporaryDirectory(prefix="attack-mount-") as name:
            good = _mounted(Path(name))
            if good:
                subprocess.run(["umount", name], check=False, capture_output=True)
            return good
    command = ["mount", "-t", "tmpfs", "-o", TMPFS, "tmpfs", str(where)]
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def _small_disk(result: Result, work: _Work) -> None:
    """A disk that holds one store: a second build fails with a message and leaves the first."""
    disk = work.folder / "disk"
    disk.mkdir()
    with ExitStack() as stack:
        result.check(_mounted(disk), "the small disk could not be mounted")
        stack.callback(subprocess.run, ["umount", str(disk)], check=False, capture_output=True)
        store = disk / "graph.kg"
        (process := work.run(0, store)).communicate()
        result.check(process.returncode == 0 and work.stands(store) == "a", "the first store does not fit the disk")
        for left in (20_000, 100_000, 300_000):
            (disk / "filler").unlink(missing_ok=True)
            (disk / "filler").write_bytes(bytes(max(0, _free(disk) - left)))
            _, words = (process := work.run(1, store)).communicate()
            good = process.returncode == 1 and words.startswith("error: ") and "disk is full" in words
            result.check(good and work.stands(store) == "a", f"a full disk: {work.stands(store)}: {words[-300:]}")
            there = sorted(path.name for path in disk.iterdir())
            result.check(there == ["filler", "graph.kg"], f"a full disk: there are {there}")


def _free(disk: Path) -> int:
    return os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
