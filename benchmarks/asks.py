"""Many people who ask at once: asks a second, waiting, refusals and memory of a server with the agent that is shipped.

    python -m benchmarks.asks                              # 1, 8, 32 and 50 clients, 40 s each, three rounds
    python -m benchmarks.asks --clients 1 8 --seconds 20 --rounds 1 --json
    python -m benchmarks.asks --url http://127.0.0.1:8000  # a server that runs already, over the bundled world

Each client asks, waits for the answer, and asks the next question; no question comes twice, so that no walk is found in
the cache. The questions are those of the bundled test split and others that are made from the graph; every second one
is streamed. After the time nobody begins a new question, and asks a second are all answers over the time until the last
of them. Who is refused (503) waits as long as `Retry-After` says and asks again. Each level stands beside the
first of its own round, since other work on the machine slows all of them. "Processor" is the server's own time over the
answers, which other work changes least; over the clock's time it says how many cores the server had.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from kgwalk.bench.servers import Running, start
from kgwalk.data.bundled import world_path, world_questions
from kgwalk.kg.store import load_graph

EXTRA = 1500  # questions that are made from the graph, beside those of the test split
LOOK_EVERY = 0.5  # seconds between two looks at the server's memory and at its queue
MOST_SECONDS = 180.0  # that a client waits for an answer; the server's own limit is 120
REFUSED = ("503", "busy")  # at once, or in a stream after its time in the queue
PAUSE = 5.0  # seconds before asking again, where a refusal does not say how long


@dataclass
class Level:
    """What so many clients met."""

    clients: int
    seconds: float
    asks_a_second: float = 0.0
    median_seconds: float = 0.0
    slow_seconds: float = 0.0  # 95% took less
    processor: float | None = None  # seconds of the server an answer
    cores: float | None = None  # that the server had in the mean
    statuses: dict[str, int] = field(default_factory=dict)  # "200", one of REFUSED, or what went wrong
    without_retry_after: int = 0  # refusals that do not say when to come back
    told_to_wait: int = 0  # streams that began with `waiting`
    longest_queue: int = 0  # as /health shows it
    slowest_health: float = 0.0  # seconds
    memory: list[float] = field(default_factory=list)  # MB, at every look
    ratio: float | None = None  # asks a second, beside the round's first level

    @property
    def failed(self) -> int:
        """Answers that are neither an answer nor a polite refusal."""
        return sum(many for status, many in self.statuses.items() if status not in ("200", *REFUSED))


# The clients


async def load(
    url: str, questions: Iterator[str], clients: int, seconds: float, pid: int | None = None, level: Level | None = None
) -> Level:
    """So many clients ask for so long. What they meet is in the level meanwhile."""
    level = Level(clients, seconds) if level is None else level
    waits: list[float] = []
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=MOST_SECONDS, limits=limits, trust_env=False) as http:
        used, began = _processor(pid), time.monotonic()
        stop = began + seconds

        async def client(number: int) -> None:
            streamed = bool(number % 2)
            while (asked := time.monotonic()) < stop:
                status, pause = await _ask(http, next(questions), streamed, level)
                answered = time.monotonic()
                level.statuses[status] = level.statuses.get(status, 0) + 1
                if status == "200":
                    waits.append(answered - asked)
                streamed = not streamed
                await asyncio.sleep(min(pause, max(0.0, stop - answered)))

        async with _watched(http, pid, level):
            await asyncio.gather(*(client(number) for number in range(clients)))
        took = time.monotonic() - began
        spent = None if used is None else (_processor(pid) or 0.0) - used
    level.asks_a_second = len(waits) / took
    level.cores = None if spent is None else spent / took
    if waits:
        waits.sort()
        level.median_seconds, level.slow_seconds = median(waits), waits[min(len(waits) - 1, int(0.95 * len(waits)))]
        level.processor = None if spent is None else spent / len(waits)
    return level


async def _ask(http: httpx.AsyncClient, question: str, streamed: bool, level: Level) -> tuple[str, float]:
    """What came of a question, and how long to wait before the next one."""
    try:
        async with http.stream("POST", "/v1/ask", json={"question": question, "stream": streamed}) as reply:
            if reply.status_code != 200:
                await reply.aread()
                after = reply.headers.get("retry-after")
                level.without_retry_after += reply.status_code == 503 and after is None
                return str(reply.status_code), PAUSE if after is None else float(after)
            if not streamed:
                return ("200" if "answers" in json.loads(await reply.aread()) else "no answer"), 0.0
            last: dict[str, Any] = {"event": "nothing"}
            async for line in reply.aiter_lines():
                if line.startswith("data: "):
                    last = json.loads(line.removeprefix("data: "))
                    level.told_to_wait += last["event"] == "waiting"
            if last["event"] == "answer":
                return "200", 0.0
            kind = last.get("error", {}).get("kind")
            return ("busy", PAUSE) if kind == "busy" else (f"stream ended with {kind or last['event']}", 0.0)
    except (httpx.HTTPError, ValueError) as error:
        return type(error).__name__, PAUSE


@contextlib.asynccontextmanager
async def _watched(http: httpx.AsyncClient, pid: int | None, level: Level) -> AsyncIterator[None]:
    """Look at the server's memory and queue until the block ends."""

    async def look() -> None:
        while True:
            asked = time.monotonic()
            about = (await http.get("/health")).json()
            level.slowest_health = max(level.slowest_health, time.monotonic() - asked)
            level.longest_queue = max(level.longest_queue, about["waiting"])
            if pid is not None:
                level.memory.append(Running("", 0.0, pid).rss())
            await asyncio.sleep(LOOK_EVERY)

    looking = asyncio.create_task(look())
    try:
        yield
    finally:
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking


def _processor(pid: int | None) -> float | None:
    """Seconds of processor that the process has used, all of its threads together."""
    if pid is None:
        return None
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


# What is asked, and of whom


def questions_of_the_world(seed: int) -> Iterator[str]:
    """Those of the test split and made ones, mixed, each once; after more than a thousand they come again."""
    from kgwalk.questions.make import make_questions
    from kgwalk.questions.plan import MakeSettings
    from kgwalk.questions.schema import survey, types_of
    from kgwalk.questions.wording.name_lexicon import NameLexicon
    from kgwalk.questions.wording.speaker import Wording

    graph = load_graph(world_path())
    schema = survey(graph)
    wording = Wording(NameLexicon(schema, types=types_of(graph, schema)))
    made = make_questions(graph, wording, MakeSettings(count=EXTRA, hops={1: 0.6, 2: 0.4}), schema=schema, seconds=20)
    found = [*dict.fromkeys(one.question for one in [*world_questions("test"), *made])]
    random.Random(seed).shuffle(found)
    while True:
        yield from found


@contextlib.contextmanager
def server(url: str | None) -> Iterator[tuple[str, int | None]]:
    """The address and process of the server: a new one with its model open, or the one at the address."""
    if url is not None:
        yield url, None
        return
    with start(["-m", "kgwalk", "serve", "--graph", f"world={world_path()}", "--port", "0"]) as running:
        while (state := httpx.get(f"{running.url}/health", trust_env=False).json()["model"]) == "opening":
            time.sleep(0.2)
        if state is None:
            raise SystemExit("the server has no language model; install kgwalk[cpu] or kgwalk[local]")
        yield running.url, running.pid


def measure(url: str | None, clients: Sequence[int], seconds: float, rounds: int, seed: int = 0) -> list[list[Level]]:
    """The levels of every round. A few questions come first, which are not counted."""
    questions = questions_of_the_world(seed)
    measured = []
    with server(url) as (address, pid):
        asyncio.run(load(address, questions, max(clients), min(5.0, seconds)))  # the cache takes its memory here
        for number in range(rounds):
            levels: list[Level] = []
            for many in clients:
                level = asyncio.run(load(address, questions, many, seconds, pid))
                levels.append(level)
                first = levels[0].asks_a_second
                level.ratio = level.asks_a_second / first if first else None
                print(f"round {number + 1}: {_line(level)}", file=sys.stderr, flush=True)
            measured.append(levels)
    return measured


def _line(level: Level) -> str:
    statuses = ", ".join(f"{many} x {status}" for status, many in sorted(level.statuses.items()))
    ratio = "" if level.ratio is None else f" ({level.ratio:.2f} times)"
    return (
        f"{level.clients} clients: {level.asks_a_second:.2f} asks/s{ratio}, median {level.median_seconds:.1f} s, "
        f"95% under {level.slow_seconds:.1f} s, processor {level.processor or 0:.2f} s an ask, "
        f"{level.cores or 0:.2f} cores; {statuses}"
    )


def table(rounds: Sequence[Sequence[Level]]) -> str:
    """Markdown: for each number of clients the median of the rounds, counts of all of them together."""
    lines = [
        "| clients | asks/s | times the first | median | 95% under | processor an ask | cores | answered "
        "| refused, said when | failed | told to wait, of streams | longest queue | memory | slowest /health |",
        "|" + "--:|" * 14,
    ]
    for levels in zip(*rounds, strict=True):
        statuses: Counter[str] = Counter()
        for level in levels:
            statuses.update(level.statuses)
        memory = [one for level in levels for one in level.memory]
        used = [level.processor for level in levels if level.processor is not None]
        ratios = [level.ratio for level in levels if level.ratio is not None]
        cells = [
            str(levels[0].clients),
            f"{median(level.asks_a_second for level in levels):.2f}",
            f"{median(ratios):.2f} ({', '.join(f'{one:.2f}' for one in ratios)})" if ratios else "",
            f"{median(level.median_seconds for level in levels):.1f} s",
            f"{median(level.slow_seconds for level in levels):.1f} s",
            f"{median(used):.2f} s" if used else "",
            f"{median(level.cores or 0.0 for level in levels):.2f}" if used else "",
            f"{statuses['200']:,}",
            f"{sum(statuses[one] for one in REFUSED) - sum(level.without_retry_after for level in levels):,}",
            f"{sum(level.failed + level.without_retry_after for level in levels):,}",
            f"{sum(level.told_to_wait for level in levels):,}",
            str(max(level.longest_queue for level in levels)),
            f"{memory[0]:,.0f} to {memory[-1]:,.0f}, at most {max(memory):,.0f} MB" if memory else "",
            f"{1000 * max(level.slowest_health for level in levels):,.0f} ms",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Many people who ask a server at once.")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32, 50])
    parser.add_argument("--seconds", type=float, default=40.0, help="for each number of clients")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0, help="of the questions' order")
    parser.add_argument("--url", help="a server that runs already")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    rounds = measure(asked.url, asked.clients, asked.seconds, asked.rounds, asked.seed)
    about: dict[str, Any] = {"rounds": [[asdict(level) for level in levels] for levels in rounds]}
    print(json.dumps(about) if asked.json else table(rounds))
    return int(any(level.failed or level.without_retry_after for levels in rounds for level in levels))


if __name__ == "__main__":
    raise SystemExit(main())
