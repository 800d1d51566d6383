"""How this process runs: its threads, its event loops, what it shows people, and what its figures depend on.

`set_thread_count` gives torch half of the cores, before it is imported. With all cores torch waits at every step for
threads that other programs keep from running: two busy cores decode 25 times slower than one. Training, whose matrix
products are long, loses less by that and gains more; `most_threads` says how many threads it may try. `host_free` says
how much memory is left.

`outside_a_loop` and `LoopThread` let code with an event loop of its own run anywhere. `without_progress_bars` keeps
transformers quiet around a piece of work. `surroundings` goes into a run's record.

What people read, on a terminal or in a log, is `visible`: characters that would steer it are shown escaped. A name may
hold an escape sequence that writes to the clipboard, a line break that forges a line, or a mark that turns the order of
letters; these are shown as Python writes them: `\\x1b`, `\\n`, `\\u202e`. Two places call it: the console of the
command line (cli/output.py) and the formatter of logs (`log_visibly`). JSON and exported files are data and are written
as they are.

`take_env_file` reads the `.env` of the current folder, for the command line. Whoever wrote the folder may have written
that file. So it names no folder and no agent, which kgwalk would open and trust, and no hub; and an address in it is
not taken where the key that would be sent there is one's own. SECURITY.md says what is promised.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import logging
import os
import platform
import re
import subprocess
import sys
import threading
import time
import unicodedata
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from kgwalk import __version__

VARIABLE = "OMP_NUM_THREADS"  # torch, OpenVINO and ONNX Runtime go by it here
_LIBRARIES = ("numpy", "torch", "transformers", "peft", "accelerate", "vllm")
_ours: list[str] = []  # what this process set it to, if nobody else had


def set_thread_count() -> None:
    """Half of the cores for torch and OpenVINO, unless the variable is set. To be called before torch is imported."""
    if VARIABLE not in os.environ:
        os.environ[VARIABLE] = str(max(1, (os.cpu_count() or 1) // 2))
        _ours.append(os.environ[VARIABLE])


def threads_asked() -> int:
    """OMP_NUM_THREADS; 0, which leaves it to a model's runtime, if it is not set."""
    asked = os.environ.get(VARIABLE, "").split(",")[0].strip()
    return int(asked) if asked.isdigit() else 0


def most_threads() -> int | None:
    """How many threads may be tried: one for each core that this process may use. None if a person has set a number."""
    told = os.environ.get(VARIABLE)
    return None if told is not None and told not in _ours else cores()


def cores(info: Path = Path("/proc/cpuinfo")) -> int:
    """The physical cores this process may use: two hardware threads of one core share its multipliers."""
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    try:
        places = {
            (one["physical id"], one["core id"])
            for one in map(_named, info.read_text().strip().split("\n\n"))
            if int(one["processor"]) in usable
        }
    except (OSError, KeyError, ValueError):  # another system, or one that does not say
        return len(usable)
    return len(places)


def _named(lines: str) -> dict[str, str]:
    """`core id : 3` and so on."""
    parts = (line.partition(":") for line in lines.splitlines())
    return {name.strip(): value.strip() for name, _, value in parts}


# The host's free memory

UNKNOWN = 0.25  # of the machine's memory, where the system does not say what is free


def host_free(root: Path = Path("/")) -> int:
    """Bytes that no program holds and that the container, if any, may still use.

    `root` holds Linux's `proc` and `sys`; on other systems a share of the machine's memory is assumed. psutil would
    not do: it reads `MemAvailable` too, but not a container's limit (cgroup).
    """
    try:
        lines = dict(line.split(":", 1) for line in (root / "proc/meminfo").read_text().splitlines())
        free = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return int(UNKNOWN * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    left = _left_of_container(root / "sys/fs/cgroup")
    return free if left is None else min(free, left)


def _left_of_container(group: Path) -> int | None:
    """None where no limit is set or readable. The file cache counts as free, since it gives way."""
    try:
        held = int((group / "memory.current").read_text())
        parts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return max(0, int((group / "memory.max").read_text()) - held + int(parts["inactive_file"]))
    except (OSError, KeyError, ValueError):  # "max" is no number
        return None


# Event loops


T = TypeVar("T")


def outside_a_loop(work: Callable[[], T]) -> T:
    """What `work` returns, which runs an event loop of its own. Where one is running already, as in a notebook, the
    work is done in a thread beside it.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(1, "kgwalk-work") as thread:
        return thread.submit(work).result()


class LoopClosed(Exception):
    """The loop was closed before, or while, the work was done."""


async def _nothing() -> None:
    pass


class LoopThread:
    """An event loop in a thread of its own, for what must outlive its callers' loops: connections, a shared engine.

    Every `asyncio.run` makes a new loop, and a connection belongs to the loop that opened it. What runs here keeps its
    loop whoever calls, and cannot hold up the caller's. The thread starts with the first work. `at_end` runs last in
    it, when all work is done or cancelled.
    """

    def __init__(self, name: str, at_end: Callable[[], Awaitable[None]] = _nothing) -> None:
        self._name, self._at_end = name, at_end
        self._lock = threading.RLock()  # close() may be called by the garbage collector, in the middle of anything
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._closed = False

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What the work returns or raises; cancelling this cancels the work."""
        loop = self._started()
        future = asyncio.run_coroutine_threadsafe(work(), loop)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._closed and (task is None or not task.cancelling()):
                raise LoopClosed from None  # it is the work that was cancelled, not the caller
            raise

    def close(self) -> None:
        """Cancel what is under way, run `at_end`, and wait for the thread; a second call does nothing."""
        with self._lock:
            self._closed = True
            thread, loop, self._loop = self._thread, self._loop, None
        if thread is None or loop is None:
            return
        loop.call_soon_threadsafe(self._stop.set)
        if thread is not threading.current_thread():
            thread.join()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise LoopClosed
            if self._loop is None:
                ready = threading.Event()
                # A daemon: a program that forgets to close must still end.
                self._thread = threading.Thread(target=self._main, args=(ready,), name=self._name, daemon=True)
                self._thread.start()
                ready.wait()
            if self._loop is None:
                raise LoopClosed  # it could not start; the thread has said why
            return self._loop

    def _main(self, ready: threading.Event) -> None:
        async def stay() -> None:
            self._loop = asyncio.get_running_loop()
            ready.set()
            await self._stop.wait()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await self._at_end()

        try:
            asyncio.run(stay())
        finally:
            ready.set()


# Around a piece of work


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """No progress bars of transformers' own: standard error belongs to the command line."""
    from transformers import utils

    logging: Any = utils.logging  # untyped
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


# What a figure depends on


def surroundings() -> dict[str, Any]:
    """What else a figure depends on: the command, versions, the commit, the machine's kind, the time."""
    return {
        "command": command(),
        "versions": {"kgwalk": __version__, "python": platform.python_version(), **_versions()},
        "commit": _commit(),
        "machine": {"system": platform.platform(), "cores": os.cpu_count()},
        "begun": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def command() -> list[str]:
    """The command as it was typed; of another program than `kgwalk`, that program's."""
    program, *arguments = sys.argv
    own = Path(program).name == "kgwalk" or program.endswith(("kgwalk/cli/main.py", "kgwalk/__main__.py"))
    return ["kgwalk" if own else program, *arguments]


def _versions() -> dict[str, str]:
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _commit() -> str | None:
    """The commit of the code that runs, if it runs from a checkout of its own; with a + if that has changes."""
    git = ["git", "--no-optional-locks", "-C", str(Path(__file__).parent)]
    try:
        # installed inside another project's folder, git would speak of that project
        subprocess.run([*git, "ls-files", "--error-unmatch", Path(__file__).name], check=True, capture_output=True)
        describe = [*git, "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
        done = subprocess.run(describe, check=True, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


# What people read

# Persian, Indic scripts and emoji need the zero-width joiner and non-joiner; the Arabic and Syriac number signs are
# drawn, though Unicode counts them as format characters.
_NEEDED = frozenset(
    "\u200c\u200d\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
)
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str) -> str:
    """Text on one line, with control and format characters escaped. All else is as it was, backslashes too.

    >>> print(visible("Berlin\\x1b[2J\\nParis \\u202etfel"))
    Berlin\\x1b[2J\\nParis \\u202etfel
    >>> visible("می\u200cخواهم") == "می\u200cخواهم", visible("Zoë") == "Zoë"
    (True, True)
    """
    if text.isprintable():
        return text
    return "".join(map(_shown, text))


def visible_lines(text: str) -> str:
    """The same for text that has lines of its own, such as a recipe or a traceback."""
    return "\n".join(map(visible, text.split("\n")))


def visible_message(text: str) -> str:
    """The same for an error or a warning: their advice stands on lines of its own, indented by two spaces.

    >>> print(visible_message("no entity \\x1b[31m\\nerror: forged\\n  Look for it with `kgwalk kg find`."))
    no entity \\x1b[31m\\nerror: forged
      Look for it with `kgwalk kg find`.
    """
    return "\n  ".join(map(visible, text.split("\n  ")))


def _shown(character: str) -> str:
    if unicodedata.category(character) not in _HIDDEN or character in _NEEDED:
        return character
    if character in _SHORT:
        return _SHORT[character]
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class VisibleFormatter(logging.Formatter):
    """A message as `visible_message` has it; a traceback keeps its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = visible_message(record.message)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        return visible_lines(super().format(record))


def log_visibly() -> None:
    """From now on warnings and errors for which nobody set a handler reach stderr in this form."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(VisibleFormatter())


# Variables from a file

FILE_VARIABLE = "KGWALK_ENV_FILE"  # another file's path, or `none`
# An address, and the secret that is sent to it.
SENT_TO = {
    "OPENAI_BASE_URL": "OPENAI_API_KEY",
    "NEO4J_URI": "NEO4J_PASSWORD",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "OTEL_EXPORTER_OTLP_HEADERS",
}
NAMES = {*SENT_TO, *SENT_TO.values(), "NEO4J_USERNAME", "NEO4J_DATABASE", "OTEL_SERVICE_NAME", "HF_TOKEN"}
NAMES |= {"HF_HUB_OFFLINE", "KGWALK_API_KEY", "KGWALK_GPU_SHARE", "KGWALK_WEB_RATE", "KGWALK_WEB_DAYS"}
MOST_BYTES = 65536
# KEY=VALUE, KEY="VALUE" or KEY='VALUE', perhaps after `export`, perhaps with a comment; `*+`: never tried again shorter
ASSIGNMENT = re.compile(
    r"""\s*+(?:export\s++)?(\w++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'#]\S*+(?:\s++[^\s#]\S*+)*+)?)\s*+(?:#.*)?"""
)

taken: list[str] = []  # by this process, for `kgwalk doctor`


def assignments(text: str) -> dict[str, str]:
    """The lines KEY=VALUE; any other line is left alone. Nothing in a value is expanded.

    >>> assignments("export A=1 # one\\nB='two # $A'\\n# C=3\\nD = four five\\nE=\\nnot a line")
    {'A': '1', 'B': 'two # $A', 'D': 'four five', 'E': ''}
    """
    found = (ASSIGNMENT.fullmatch(line) for line in text.splitlines())
    return {match[1]: match[2] or match[3] or match[4] or "" for match in found if match is not None}


def choose(assigned: Mapping[str, str], environment: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """What is taken, and the addresses that are not: the key that would be sent there is the environment's.

    >>> choose({"OPENAI_BASE_URL": "http://h/v1", "PATH": "/tmp"}, {})
    ({'OPENAI_BASE_URL': 'http://h/v1'}, [])
    >>> choose({"OPENAI_BASE_URL": "http://h/v1", "OPENAI_API_KEY": "theirs"}, {"OPENAI_API_KEY": "mine"})
    ({}, ['OPENAI_BASE_URL'])
    """
    wanted = {name: value for name, value in assigned.items() if name in NAMES and name not in environment}
    refused = [name for name in wanted if environment.get(SENT_TO.get(name, ""))]
    return {name: value for name, value in wanted.items() if name not in refused}, refused


def take_env_file(environment: MutableMapping[str, str]) -> list[str]:
    """Adds to the environment what its file says; what to tell about it, without values."""
    named = environment.get(FILE_VARIABLE) or ".env"
    path = Path(named)
    try:
        if named == "none" or not path.is_file():
            return []
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1)
    except OSError as error:
        return [f"note: {named} cannot be read: {error.strerror}"]
    if len(text) > MOST_BYTES or b"\0" in text:
        return [f"note: {named} is no file of variables, and is left alone"]
    values, refused = choose(assignments(text.decode("utf-8-sig", errors="replace")), environment)
    environment.update(values)
    taken[:] = sorted(values)
    notes = [f"note: from {named}: {', '.join(taken)}"] if taken else []
    return notes + [
        f"note: {named}: {name} is not taken: your {SENT_TO[name]} would be sent there; set both in one place"
        for name in refused
    ]
