"""The judge: cases through a language model, many at once, each asked once, each verdict kept on disk.

    engine = ScriptedEngine(lambda request: reply_to(request, {"correct": 1}))      # or any other
    Judge(engine, "name of the model", cache=folder).judge_all([correct_case(episode)])

A reply that cannot be read is asked for again; after that, as when the engine fails, the case is recorded as failed and
has no value. Any engine will do; the papers use large models behind an API.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import re
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from kgwalk.config.cache import cache_folder, use_write_ahead_log
from kgwalk.llm.engine import Engine, Generation, Request, Sampling, open_engine
from kgwalk.score.judge.kinds import Case, Judgement, JudgePrompt, judgement_named
from kgwalk.score.judge.verdict import JudgeCost, Unreadable, Verdict
from kgwalk.types import EngineError, KgwalkError, Message, StoreError
from kgwalk.walk.rollout import ids_a_token, server_counts

# Verdicts on disk


FILE = "judge.sqlite"
FORMAT = 1
WAIT = 60.0  # seconds for which a write waits for another process's
SCHEMA = """
CREATE TABLE IF NOT EXISTS secret (only INTEGER PRIMARY KEY CHECK (only = 1), salt BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS verdicts (
    digest BLOB PRIMARY KEY, kind TEXT NOT NULL, model TEXT NOT NULL, reply TEXT NOT NULL, cut INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL, generated_tokens INTEGER NOT NULL, at REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS failures (
    id INTEGER PRIMARY KEY, digest BLOB NOT NULL, kind TEXT NOT NULL, model TEXT NOT NULL, why TEXT NOT NULL,
    reply TEXT NOT NULL, at REAL NOT NULL
);
"""


class FailedCall(NamedTuple):
    """A call that gave no verdict. `at` is in seconds since 1970."""

    kind: str
    model: str
    why: str
    reply: str
    at: float


class VerdictCache:
    """Verdicts in one SQLite file in `folder`, which processes share; without a folder, in memory for the life of this.

    Each verdict is one transaction in a write-ahead log: a kill at any moment leaves the file whole, and what was paid
    for is kept. Failures are listed beside the verdicts, for a person to read, and never given back as verdicts: the
    next run asks again. The file also holds the secret from which the judge's keys are made.
    """

    def __init__(self, folder: Path | None) -> None:
        self._lock = threading.Lock()
        self._place = ":memory:" if folder is None else str(folder / FILE)
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot make the folder of the judge's cache, {folder}: {error.strerror}") from error
        with self._errors():
            # No implicit transactions: each statement stands alone, on disk when it returns.
            self._db = sqlite3.connect(self._place, timeout=WAIT, check_same_thread=False, isolation_level=None)
        try:
            self.salt = self._open()
        except BaseException:
            self._db.close()
            raise

    def _open(self) -> bytes:
        with self._errors():
            use_write_ahead_log(self._db, WAIT)
            self._db.execute("PRAGMA synchronous = NORMAL")  # a killed process loses nothing; a power cut, the last few
            (found,) = self._db.execute("PRAGMA user_version").fetchone()
            if found not in (0, FORMAT):
                raise StoreError(f"{self._place} has format {found}, this kgwalk reads {FORMAT}; give another folder")
            self._db.executescript(SCHEMA)
            self._db.execute(f"PRAGMA user_version = {FORMAT}")
            # Of two processes that start at once, both read the one that came first.
            self._db.execute("INSERT OR IGNORE INTO secret VALUES (1, ?)", (secrets.token_bytes(32),))
            (salt,) = self._db.execute("SELECT salt FROM secret").fetchone()
        return bytes(salt)

    def get(self, digest: bytes) -> tuple[str, bool] | None:
        """The reply that held a verdict, to be read again with the same key, and whether the text had been cut."""
        with self._lock, self._errors():
            row = self._db.execute("SELECT reply, cut FROM verdicts WHERE digest = ?", (digest,)).fetchone()
        return None if row is None else (row[0], bool(row[1]))

    def put(self, digest: bytes, model: str, verdict: Verdict) -> None:
        """A verdict is kept, a failure listed."""
        now = time.time()
        reply = verdict.reply.encode("utf-8", "replace").decode()  # half a surrogate pair is no text for a file
        with self._lock, self._errors():
            if verdict.value is None:
                failed = (digest, verdict.kind, model, verdict.failure, reply, now)
                self._db.execute(
                    "INSERT INTO failures (digest, kind, model, why, reply, at) VALUES (?, ?, ?, ?, ?, ?)", failed
                )
                return
            spent = (verdict.cut, verdict.prompt_tokens, verdict.generated_tokens, now)
            row = (digest, verdict.kind, model, reply, *spent)
            self._db.execute("INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def __len__(self) -> int:
        with self._lock, self._errors():
            (count,) = self._db.execute("SELECT count(*) FROM verdicts").fetchone()
        return int(count)

    def failures(self) -> list[FailedCall]:
        """In the order they came."""
        with self._lock, self._errors():
            rows = self._db.execute("SELECT kind, model, why, reply, at FROM failures ORDER BY id").fetchall()
        return [FailedCall(*row) for row in rows]

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            hint = "move the file away, or give the judge another folder"
            raise StoreError(f"the judge's cache {self._place} cannot be used: {error}; {hint}") from error


GREEDY = Sampling(temperature=0.0, max_tokens=1024)
# The judge

CHARACTERS = 24_000  # of judged text in one prompt; about 6,000 tokens
KEY_BYTES = 4  # two hexadecimal digits each: short enough for a small model to copy
LEAST_CHARACTERS = 200  # of judged text, below which a prompt that does not fit is given up
_RUNS = itertools.count()  # sessions of two judges that share an engine must differ

VerdictWatch = Callable[[Verdict], None]  # told of each verdict as it comes


def name_of(kind: str, engine: Engine) -> str:
    """What verdicts are kept under: the kind of engine, its model, and where that runs, if it is elsewhere."""
    model, url = getattr(engine, "model", ""), getattr(engine, "url", "")
    return f"{kind}:{model}" + (f" at {url}" if url else "")


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """[judge]: how a judge is asked; which one, says `--judge`."""

    reasons: bool = True  # before each verdict; a model of one or two billion parameters keeps to the form without


@contextmanager
def opened_judge(named: str, settings: JudgeSettings) -> Iterator[Judge]:
    """The judge by ENGINE[:MODEL], with verdicts in the cache folder; its engine is closed at the end."""
    kind, _, model = named.partition(":")
    engine = open_engine(kind, model or None)
    try:
        kept = cache_folder() / "judge"
        with Judge(engine, model_name=name_of(kind, engine), cache=kept, reasons=settings.reasons) as judge:
            yield judge
    finally:
        asyncio.run(engine.close())


class Judge:
    """`model_name` names the judge in the cache: the same case, asked of another model, is another verdict.

    `cache` is a folder; without one, verdicts are remembered for the life of this object. `retries` are further tries
    after a reply that cannot be read; an engine has its own for calls that fail. `at_once` bounds the calls under way,
    `characters` the judged text in one prompt. `reasons`: whether the judge says why before its verdict; a model of one
    or two billion parameters keeps to the form better without. The engine is the caller's to close.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        model_name: str,
        cache: Path | str | None = None,
        retries: int = 1,
        at_once: int = 16,
        sampling: Sampling = GREEDY,
        characters: int = CHARACTERS,
        reasons: bool = True,
    ) -> None:
        if not model_name:
            raise KgwalkError("a judge needs model_name: verdicts are kept under it")
        if retries < 0 or at_once < 1 or characters < LEAST_CHARACTERS:
            least = f"retries at least 0, at_once at least 1, characters at least {LEAST_CHARACTERS}"
            raise KgwalkError(f"retries={retries}, at_once={at_once}, characters={characters}: {least}")
        self.engine, self.model_name, self.sampling = engine, model_name, sampling
        self.retries, self.at_once, self.characters, self.reasons = retries, at_once, characters, reasons
        self.cost = JudgeCost()  # of everything judged so far
        self._cache = VerdictCache(None if cache is None else Path(cache))

    def judge_all(self, cases: Sequence[Case], watch: VerdictWatch = lambda verdict: None) -> list[Verdict]:
        """`judge` in an event loop of its own."""
        return asyncio.run(self.judge(cases, watch))

    async def judge(self, cases: Sequence[Case], watch: VerdictWatch = lambda verdict: None) -> list[Verdict]:
        """A verdict for each case, in their order. The same case twice is one call."""
        digests = [self._digest(case) for case in cases]
        gate = asyncio.Semaphore(self.at_once)
        run = next(_RUNS)

        async def one(digest: bytes, case: Case) -> Verdict:
            verdict = self._known(digest, case)
            if verdict is None:
                async with gate:
                    verdict = await self._ask(digest, case, f"judge:{run}:{digest.hex()}")
                self._cache.put(digest, self.model_name, verdict)
            self._count(verdict, watch)
            return verdict

        unique = dict(zip(digests, cases, strict=True))
        tasks = [asyncio.ensure_future(one(digest, case)) for digest, case in unique.items()]
        try:
            found = dict(zip(unique, await asyncio.gather(*tasks), strict=True))
        finally:
            for task in tasks:
                task.cancel()  # of those that still run when one has raised
        verdicts: list[Verdict] = []
        came: set[bytes] = set()
        for digest in digests:
            verdict = found[digest]
            if digest in came:
                verdict = _same_again(verdict)
                self._count(verdict, watch)
            came.add(digest)
            verdicts.append(verdict)
        return verdicts

    def failures(self) -> list[FailedCall]:
        """Every call of this cache that gave no verdict, with what the judge wrote."""
        return self._cache.failures()

    def close(self) -> None:
        self._cache.close()

    def __enter__(self) -> Judge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _count(self, verdict: Verdict, watch: VerdictWatch) -> None:
        self.cost += JudgeCost.of([verdict])
        watch(verdict)

    def _digest(self, case: Case) -> bytes:
        """Of all that decides the verdict: the model, its sampling, and every word of the prompt but the key."""
        prompt = judgement_named(case.kind).messages(case, "", self.characters, reasons=self.reasons)
        chosen = (self.sampling.temperature, self.sampling.top_p, self.sampling.stop, self.sampling.seed)
        texts = [message.content for message in prompt.messages]
        whole = json.dumps(
            [self.model_name, case.kind, chosen, case.void, texts]
        )  # ASCII, so surrogates are no trouble
        return hashlib.blake2b(whole.encode(), digest_size=20).digest()

    def _key(self, digest: bytes) -> str:
        """The same for the same case, as long as the cache lives; no text that is judged can know it."""
        return hashlib.blake2b(digest, key=self._cache.salt, digest_size=KEY_BYTES).hexdigest()

    def _known(self, digest: bytes, case: Case) -> Verdict | None:
        """What needs no call: there is nothing to judge, a rule decides, or the verdict is in the cache."""
        if case.void is not None:
            return Verdict(case.kind, failure=case.void)
        judgement = judgement_named(case.kind)
        settled = judgement.settled(case)
        if isinstance(settled, Unreadable):
            return Verdict(case.kind, failure=settled.why)
        if settled is not None:
            return Verdict(case.kind, settled)
        stored = self._cache.get(digest)
        if stored is None:
            return None
        reply, cut = stored
        value = judgement.parse(reply, case, self._key(digest))
        return None if isinstance(value, Unreadable) else Verdict(case.kind, value, reply=reply, cut=cut, cached=True)

    async def _ask(self, digest: bytes, case: Case, session: str) -> Verdict:
        call = _Call(self, judgement_named(case.kind), case, self._key(digest), session)
        try:
            return await call.run()
        finally:
            await self.engine.forget(session)


@dataclass(slots=True)
class _Call:
    """One case under way."""

    judge: Judge
    judgement: Judgement
    case: Case
    key: str
    session: str
    calls: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0

    async def run(self) -> Verdict:
        started = time.monotonic()
        reply, cut = "", False
        outcome: Unreadable | None = None
        value = None
        try:
            (messages, cut), ids = self._fit()
            for attempt in range(self.judge.retries + 1):
                if attempt and not self._room_for(ids):
                    break
                generation = await self._generate(messages, ids)
                reply = self.judge.engine.tokens.decode(generation.ids)
                read = self.judgement.parse(reply, self.case, self.key)
                if not isinstance(read, Unreadable):
                    value, outcome = read, None
                    break
                outcome = self._explain(read, generation)
                self._tell(messages, ids, reply, generation, read)
        except EngineError as error:
            outcome = Unreadable(str(error))
        return Verdict(
            self.case.kind,
            value,
            failure=None if outcome is None else outcome.why,
            reply=reply,
            cut=cut,
            calls=self.calls,
            prompt_tokens=self.prompt_tokens,
            generated_tokens=self.generated_tokens,
            seconds=time.monotonic() - started,
        )

    def _fit(self) -> tuple[JudgePrompt, list[int]]:
        """The prompt with as much of the judged text as the engine's context has room for."""
        characters = self.judge.characters
        while True:
            prompt = self.judgement.messages(self.case, self.key, characters, reasons=self.judge.reasons)
            ids = self.judge.engine.tokens.open_chat(prompt.messages)
            if self._room_for(ids):
                return prompt, ids
            if characters <= LEAST_CHARACTERS:
                break
            characters = max(LEAST_CHARACTERS, characters * 2 // 3)
        used, most = self._tokens(len(ids)), self.judge.sampling.max_tokens
        context = self.judge.engine.context
        raise EngineError(
            f"the judge's prompt has {used:,} tokens and its reply may have {most:,}, in a context of {context:,}; "
            "choose an engine with a longer context, or a smaller max_tokens"
        )

    def _tokens(self, ids: int) -> int:
        return -(-ids // ids_a_token(self.judge.engine))

    def _room_for(self, ids: Sequence[int]) -> bool:
        return self._tokens(len(ids)) + self.judge.sampling.max_tokens <= self.judge.engine.context

    async def _generate(self, messages: list[Message], ids: list[int]) -> Generation:
        request = Request(list(ids), list(messages), self.judge.sampling, self.session)
        generation = await self.judge.engine.generate(request)
        self.calls += 1
        own = self._tokens(len(ids)), self._tokens(len(generation.ids))
        prompt, generated = server_counts(generation) or own
        self.prompt_tokens += prompt
        self.generated_tokens += generated
        return generation

    def _explain(self, read: Unreadable, generation: Generation) -> Unreadable:
        most = self.judge.sampling.max_tokens
        cut_off = f"; it was cut off after {most:,} tokens" if generation.finish == "length" else ""
        return Unreadable(f"the reply cannot be read: {read.why}{cut_off}")

    def _tell(
        self, messages: list[Message], ids: list[int], reply: str, generation: Generation, read: Unreadable
    ) -> None:
        """What was wrong: asked the same again, a model that takes its likeliest tokens would say the same again."""
        text = self.judgement.again(self.case, self.key, read)
        messages += [Message("assistant", reply), Message("user", text)]
        ended = bool(generation.ids) and generation.ids[-1] in self.judge.engine.tokens.end_ids
        ids += [*generation.ids, *self.judge.engine.tokens.next_turn(text, ended=ended)]


def _same_again(verdict: Verdict) -> Verdict:
    """The verdict for the same case a second time in one batch: nothing was spent on it."""
    kept = verdict.cached or verdict.calls > 0
    return replace(verdict, cached=kept and verdict.scored, calls=0, prompt_tokens=0, generated_tokens=0, seconds=0.0)


# Replies for tests and documents


_KEY = re.compile(r'"key": "([0-9a-f]+)"\}\s*$')


def key_of(request: Request) -> str:
    """The key that the prompt asks for."""
    found = _KEY.search(request.messages[-1].content)
    if found is None:
        raise ValueError("the request is not a judge's: it does not end with the form of a verdict")
    return found.group(1)


def reply_to(request: Request, verdict: Mapping[str, Any], reasons: str = "") -> str:
    """A reply with this verdict, in the form that the prompt ends with: what a scripted judge says."""
    line = json.dumps({"verdict": dict(verdict), "key": key_of(request)})
    return f"{reasons}\n{line}" if reasons else line
