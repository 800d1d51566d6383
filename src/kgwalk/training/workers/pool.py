"""The pool of workers: hands out questions and runs the engine's rounds.

    pool = WorkerPool(engine, protocol, budget, count=8)
    pool.walk(environments, [(question, key), ...], sampling)

Each round of the engine starts with the requests that have come so far. While it runs, the workers go on, and ended
episodes are unpacked here. Neighbouring episodes of one question go to one worker, which then has their texts cached.
If a walk fails, all workers are ended, and the next walk starts new ones.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from kgwalk.llm.engine import Generation, Sampling
from kgwalk.llm.grammar import Grammar
from kgwalk.llm.torch_engine.engine import LocalEngine
from kgwalk.training.curriculum import MeasuredEpisode
from kgwalk.training.workers.messages import (
    HASHES,
    IDS,
    MOST_GRAMMARS,
    REALS,
    CannotTravel,
    EnvironmentsMessage,
    EpisodesDone,
    Forget,
    Frames,
    GrammarMessage,
    PackedRequest,
    PackedResult,
    Prepare,
    Unfit,
    WalkFailed,
    WalkMessage,
    WorkerPayload,
    framed,
    pack,
    unpack_episode,
    unpack_episodes,
    unpacked,
    unpacked_prompt,
)
from kgwalk.types import KgwalkError, Question
from kgwalk.walk.environment import Environments
from kgwalk.walk.protocol import Protocol
from kgwalk.walk.rollout import Budget, without_garbage_collection

READ = 1 << 20  # bytes read at once
ROOM = 1 << 22  # bytes of the socket's buffer: a bundle of requests is 50 kB
STDERR = 2  # file descriptor: this process's standard output is for results
PATIENCE = 5.0  # seconds for a worker to exit by itself
KeyedQuestions = Sequence[tuple[Question, str]]  # questions, with the keys that decide their draws


class WorkerPool:
    """`count` workers, started with the first walk. `engine` must be in lockstep, since its rounds are run here."""

    def __init__(self, engine: LocalEngine, protocol: Protocol, budget: Budget, *, count: int) -> None:
        self._engine, self._protocol, self._budget = engine, protocol, budget
        self._at_once = min(budget.at_once, engine.at_once)
        self.count = min(count, self._at_once)
        self._links: list[Link] = []
        self._known: list[Environments] = []  # in the order of the numbers that the workers have them under

    def walk(self, environments: Environments, asked: KeyedQuestions, sampling: Sampling) -> list[MeasuredEpisode]:
        """An episode for each question, in order. CannotTravel if the workers cannot be given what they need."""
        if not asked:
            return []
        try:
            number = self._number_of(environments)
            under_way = _WalkInProgress(self._engine, self._links, asked, replace(sampling, stop=self._protocol.stop))
            for link, walk in zip(self._links, _dealt(asked, len(self._links), number, sampling), strict=True):
                if walk.asked:
                    link.begin_walk()
                    link.send(framed(walk))
            with without_garbage_collection(circles=False):
                return under_way.run()
        except BaseException:
            self.close()
            raise

    def pids(self) -> list[int]:
        """The process ids of the workers that were started."""
        return [link.pid for link in self._links]

    def processor_seconds(self) -> list[float]:
        """CPU seconds of each worker so far."""
        return [link.processor_seconds() for link in self._links]

    def close(self) -> None:
        """End the workers and wait until they have exited."""
        for link in self._links:
            link.hang_up()
        for link in self._links:
            link.wait()
        self._links, self._known = [], []

    def _start(self) -> None:
        if self._links:
            return
        engine = self._engine
        share = max(1, self._at_once // self.count)
        payload = WorkerPayload(
            self._protocol,
            replace(self._budget, at_once=share),
            engine.tokens,
            engine.context,
            engine.vocabulary,
            share,
        )
        first = framed(Prepare(pack(payload)))
        for number in range(self.count):
            self._links.append(Link(number + 1, self.count))
        for link in self._links:  # only now, since sending waits until a worker has started and reads
            link.send(first)

    def _number_of(self, environments: Environments) -> int:
        """The number of these environments, which are sent to the workers if they are new."""
        for number, known in enumerate(self._known):
            if known is environments:
                return number
        message = framed(EnvironmentsMessage(len(self._known), pack(environments)))
        self._start()
        for link in self._links:
            link.send(message)
        self._known.append(environments)
        return len(self._known) - 1


class _WalkInProgress:
    """One call of `WorkerPool.walk` in progress."""

    def __init__(self, engine: LocalEngine, links: Sequence[Link], asked: KeyedQuestions, sampling: Sampling) -> None:
        self._engine, self._links, self._asked, self._sampling = engine, links, asked, sampling
        self._found: list[MeasuredEpisode | None] = [None] * len(asked)
        self._left = len(asked)
        self._packed: deque[tuple[int, bytes]] = deque()
        self._rows: list[tuple[int, tuple[Any, ...]]] = []
        self._over = False
        self._contexts: dict[str, list[int]] = {}  # of each session: its last request and the tokens generated for it

    def run(self) -> list[MeasuredEpisode]:
        try:
            with selectors.DefaultSelector() as selector:
                for place, link in enumerate(self._links):
                    selector.register(link, selectors.EVENT_READ, place)
                self._engine.answers()  # drop those of a walk that failed
                busy = self._engine.turn()  # loads new weights while the workers write their prompts
                while self._left:
                    self._receive(selector, 0 if busy else None)
                    busy = self._engine.begin_round()
                    while busy and not self._engine.there():
                        if not self._receive(selector, 0) and not self._unpack():
                            break  # nothing to do but to wait
                    if busy:
                        self._engine.end_round()
                    self._answer()
        finally:
            self._over = True  # requests still in the engine are dropped in its next round
        while self._unpack():
            pass
        return [one for one in self._found if one is not None]

    def _receive(self, selector: selectors.BaseSelector, timeout: float | None) -> bool:
        """Handle the messages that have come; False if there were none."""
        ready = selector.select(timeout)
        for key, _ in ready:
            for message in self._links[key.data].received():
                self._take(key.data, message)
        return bool(ready)

    def _unpack(self) -> bool:
        """Unpack one episode, or the next bundle of them; False if none is left."""
        if self._rows:
            place, row = self._rows.pop()
            self._found[row[0]] = unpack_episode(row, self._asked[row[0]][0], self._links[place].grammars)
        elif self._packed:
            place, bundle = self._packed.popleft()
            self._rows = [(place, row) for row in unpack_episodes(bundle)]
        else:
            return False
        return True

    def _take(self, place: int, message: Any) -> None:
        match message:
            case list():
                self._ask(place, message)
            case Forget(sessions):
                over = [f"{place}/{session}" for session in sessions]
                for session in over:
                    self._contexts.pop(session, None)
                self._engine.drop(over)
            case GrammarMessage(number, grammar):
                self._links[place].grammars[number] = grammar
            case EpisodesDone(ended, episodes):
                self._packed.append((place, episodes))
                self._left -= ended
            case Unfit(why):
                raise CannotTravel(why)
            case WalkFailed(text, ours):
                raise RuntimeError(f"{self._links[place]} failed:\n{text}") if ours else KgwalkError(text)

    def _ask(self, place: int, bundle: list[PackedRequest]) -> None:
        wanted = []
        grammars = self._links[place].grammars
        for number, own, most, held, new, draws, hashes, grammar in bundle:
            session = f"{place}/{own}"
            if held:
                ids = self._contexts[session]  # the engine has appended the tokens that it generated
                ids[held:] = unpacked(IDS, new).tolist()
            else:
                ids = self._contexts[session] = list(unpacked_prompt(new))
            arrays = unpacked(REALS, draws), unpacked(HASHES, hashes)
            wanted.append(((place, number), session, most, ids, *arrays, grammars.get(grammar)))
        self._engine.ask(self._sampling, wanted, lambda: self._over)

    def _answer(self) -> None:
        replies: dict[int, list[PackedResult]] = {}
        for (place, number), came in self._engine.answers():
            some = replies.setdefault(place, [])
            if isinstance(came, Generation):
                some.append((number, came.ids, came.logprobs, came.finish, came.room, None))
            else:
                some.append((number, [], [], None, None, str(came)))
        for place, some in replies.items():
            self._links[place].send(framed(some))


def _dealt(asked: KeyedQuestions, workers: int, environments: int, sampling: Sampling) -> list[WalkMessage]:
    """What each worker walks: neighbours with the same question go to one worker, workers take turns.

    >>> one, two, three = (Question(name, "?", ["x"], ["y"]) for name in "abc")
    >>> asked = [(one, "k0"), (one, "k1"), (two, "k2"), (three, "k3")]
    >>> walks = _dealt(asked, 2, 0, Sampling())
    >>> [[(walk.questions[number].id, place) for place, number, _ in walk.asked] for walk in walks]
    [[('a', 0), ('a', 1), ('c', 3)], [('b', 2)]]
    """
    walks = [WalkMessage(environments, sampling, [], []) for _ in range(workers)]
    groups = groupby(range(len(asked)), key=lambda place: id(asked[place][0]))
    for number, (_, places) in enumerate(groups):
        walk = walks[number % workers]
        for place in places:
            question, key = asked[place]
            if not walk.questions or walk.questions[-1] is not question:
                walk.questions.append(question)
            walk.asked.append((place, len(walk.questions) - 1, key))
    return walks


# One worker process, seen from here


class Link:
    """A worker process and this side's end of the socket to it. `number` of `count` is its name in messages.

    The worker is a new Python, not a fork, since a process that has used a GPU cannot be forked. It sees no GPU, has
    one thread for mathematics, can import what this process can, and prints to this process's standard error.
    """

    def __init__(self, number: int, count: int) -> None:
        self._name = f"worker {number} of {count}"
        self.grammars: dict[int, Grammar] = {}  # by the numbers that the worker gave them
        self._frames = Frames()
        self._end, other = socket.socketpair()
        with other:
            for end in (self._end, other):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ROOM)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "kgwalk.training.workers.process", str(other.fileno())],
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=STDERR,
                env=os.environ | _environment(),
            )

    def begin_walk(self) -> None:
        """Forgets the grammars if they are many, as the worker does."""
        if len(self.grammars) > MOST_GRAMMARS:
            self.grammars.clear()

    def __str__(self) -> str:
        return f"{self._name} (process {self.pid})"

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        return self._end.fileno()

    def send(self, data: bytes) -> None:
        """Send all, waiting if the socket is full; a worker always reads."""
        try:
            self._end.sendall(data)
        except OSError as error:
            raise self._died() from error

    def received(self) -> list[Any]:
        """The messages that have come; call it when the socket is readable."""
        try:
            data = self._end.recv(READ)
        except OSError as error:
            raise self._died() from error
        if not data:
            raise self._died()
        return self._frames.feed(data)

    def processor_seconds(self) -> float:
        """CPU seconds that the process has used; 0 where the system does not say."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # user and system time, in ticks

    def hang_up(self) -> None:
        """Close the socket; the worker exits when it finds it closed."""
        self._end.close()

    def wait(self) -> None:
        """Wait until the worker has exited; kill it if it does not."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE)
            return
        self._process.kill()
        self._process.wait()

    def _died(self) -> KgwalkError:
        try:
            code = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return KgwalkError(f"{self} closed its connection and runs on; it was ended, and the walk with it")
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with status {code}"
        hint = " (memory may have run out)" if code == -signal.SIGKILL else ""
        return KgwalkError(f"{self} {how}{hint} before its walks were done; grpo.rollout_workers=0 walks without any")


def _environment() -> dict[str, str]:
    paths = [path or os.getcwd() for path in sys.path]
    return {
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "CUDA_VISIBLE_DEVICES": "",
    }
