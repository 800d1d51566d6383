"""The scheduler of the engine `cpu`: many requests at once over one paged model, in a thread or two.

The draft tokens that it works with are here too; the cache's blocks are in blocks.py.

Sequences join and leave between passes. A pass takes the next token of every sequence that waits for one, and as many
tokens of new prompts as fit beside them. A prompt that begins like one that is being computed waits for it, and shares
its blocks (`BlockTable`). Where sequences are few, a pass takes draft tokens as well (prompt-lookup decoding, `draft`),
and those that the model would not have sampled are dropped. With two streams the sequences are dealt between two passes
that run at the same time, each in a thread: a pass over an observation is bound by one core's arithmetic, and more
sequences in it make it no cheaper for each. A pass that fails ends the requests under way and is logged; the next
request starts afresh.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kgwalk.llm.automaton import GrammarState
from kgwalk.llm.engine import ActiveRequest, Generation, common_length
from kgwalk.llm.openvino_engine.blocks import BlockTable, CachedSequence
from kgwalk.llm.sampling import sample
from kgwalk.types import EngineError

log = logging.getLogger(__name__)
LONGEST = 4  # tokens that are looked up together; with six, one pass in a hundred was saved
MAX_ENTRIES = 1 << 16  # about 10 MB
OWN_TOKENS = 2048  # the last tokens of a sequence that its drafts come from; indexing so many takes 3 ms


class Model(Protocol):
    """What the scheduler asks of a model; `PagedModel` is one."""

    def reserve(self, blocks: int) -> None: ...
    def release(self) -> None: ...
    def wipe(self, blocks: Sequence[int]) -> None: ...
    def forward(
        self, sequences: Sequence[tuple[Sequence[int], int, Sequence[int]]], wanted: Sequence[int]
    ) -> NDArray[np.float32]: ...


class PagedScheduler:
    """At most `batch` sequences at once and `prefill_tokens` new tokens in one pass, and `draft_tokens` beside a
    sequence that is alone. So many `streams` of the model run passes at the same time.

    `computed` counts the tokens that went through the model and were kept. Of `drafted` tokens, `accepted` were kept.
    """

    def __init__(
        self,
        model: Model,
        table: BlockTable,
        *,
        batch: int,
        prefill_tokens: int,
        draft_tokens: int = 0,
        streams: int = 1,
    ) -> None:
        self._model, self._table = model, table
        self._batch, self._prefill_tokens, self._draft_tokens = batch, prefill_tokens, draft_tokens
        self.computed = self.drafted = self.accepted = 0
        self._written_ngrams = NgramIndex()  # of what earlier generations wrote
        self._new: list[PagedSequence] = []
        self._forgotten: list[str] = []
        self._waiting: list[PagedSequence] = []
        self._running: list[PagedSequence] = []
        self._reserved = 0  # blocks that the model has tensors for
        self._streams = streams
        self._passes = 0  # under way in the model
        self._closed = self._ending = False
        # Held by whoever looks at anything here; a stream's thread lets it go while the model works.
        self._wake = threading.Condition()
        self._threads = [threading.Thread(target=self._main, name="kgwalk-cpu", daemon=True) for _ in range(streams)]
        for thread in self._threads:
            thread.start()

    # Called from other threads

    def submit(self, sequence: PagedSequence) -> Future[Generation]:
        with self._wake:
            if self._closed:
                raise EngineError("the engine is closed")
            self._new.append(sequence)
            self._wake.notify()
        return sequence.future

    def forget(self, session: str) -> None:
        with self._wake:
            self._forgotten.append(session)
            self._wake.notify()

    def close(self) -> None:
        with self._wake:
            self._closed = True
            self._wake.notify_all()
        if threading.current_thread() not in self._threads:
            for thread in self._threads:
                thread.join()

    def kept_sessions(self) -> list[str]:
        """The sessions whose cache is kept."""
        return [one.session for one in list(self._table.sequences) if one.session]

    # The threads

    def _main(self) -> None:
        with self._wake:
            try:
                while not self._closed:
                    try:
                        self._round()
                    except Exception as error:
                        log.exception("the model failed with %d requests under way", len(self._running))
                        self._start_over(EngineError(f"the model failed: {type(error).__name__}: {error}"))
            finally:
                self._closed = True
                self._waiting += self._new
                self._new = []
                self._start_over(EngineError("the engine was closed"))

    def _round(self) -> None:
        """A pass, or else the wait for something to do: a request, or the end of another stream's pass."""
        self._take_in()
        parts = [] if self._ending else self._next_pass()
        if parts:
            self._pass(parts)
        else:
            self._wake.wait()

    def _take_in(self) -> None:
        """Takes what other threads asked for, and lets those go that were cancelled."""
        self._waiting = [one for one in [*self._waiting, *self._new] if not one.future.done()]
        forgotten, self._new, self._forgotten = self._forgotten, [], []
        for session in forgotten:
            self._table.forget(session)
        for sequence in [one for one in self._running if one.future.done() and not one.in_pass]:
            self._leave(sequence)

    def _admit(self) -> None:
        """Gives blocks to those that wait; first those whose session has some: they cost least, and end sooner."""
        self._waiting.sort(key=lambda sequence: self._table.idle_sequence(sequence.session) is None)
        for sequence in list(self._waiting):
            if len(self._running) == self._batch:
                return
            if self._waits_for_prefix(sequence):
                continue
            room = len(sequence.ids) + sequence.max_new
            cache = self._table.take(sequence.session, sequence.ids, room)
            if cache is None:
                if self._running:
                    return  # until one of them leaves
                raise RuntimeError(f"no blocks for {room} tokens with nobody at work")
            sequence.cache = cache
            self._waiting.remove(sequence)
            self._running.append(sequence)

    def _waits_for_prefix(self, sequence: PagedSequence) -> bool:
        """Whether a prompt under way will hold at least a block more of this one's beginning than is cached now."""
        prefilling = [other for other in self._running if len(other.uncomputed) > 1]
        if not prefilling:
            return False
        known = self._table.idle_sequence(sequence.session)
        now = max(self._table.shared(sequence.ids), 0 if known is None else common_length(known.ids, sequence.ids))
        soon = max(common_length(other.ids[:-1], sequence.ids) for other in prefilling)
        return soon >= now + self._table.size

    def _next_pass(self) -> list[tuple[PagedSequence, list[int]]]:
        """The new tokens of each sequence in this stream's next pass; those that sample come before prompts. Streams
        that are idle too get their share of the sequences.
        """
        self._admit()
        if self._table.count > self._reserved:
            if self._passes:
                return []  # until it has ended: the cache's tensors are about to move
            self._model.reserve(self._table.count)
            self._reserved = self._table.count
        ready = sorted((one for one in self._running if not one.in_pass), key=lambda one: len(one.uncomputed) > 1)
        idle = self._streams - self._passes
        left = self._prefill_tokens
        parts: list[tuple[PagedSequence, list[int]]] = []
        for sequence in ready[::idle]:
            new = sequence.uncomputed[: max(left, 0)]
            if new:
                parts.append((sequence, new))
                left -= len(new)
        if len(parts) < len(ready):
            self._wake.notify()
        return parts

    def _pass(self, parts: list[tuple[PagedSequence, list[int]]]) -> None:
        drafts = self._drafts(parts)
        passes = [
            ([*new, *drafted], len(sequence.cache.ids), sequence.cache.blocks)
            for (sequence, new), drafted in zip(parts, drafts, strict=True)
        ]
        wanted = [1 + len(drafted) for drafted in drafts]
        logits_PV = self._forward([sequence for sequence, _ in parts], passes, wanted)
        for (sequence, new), drafted, end in zip(parts, drafts, np.cumsum(wanted), strict=True):
            self.computed += len(new)
            self.drafted += len(drafted)
            sequence.cache.ids += new
            if not sequence.uncomputed and not sequence.future.done():
                self._sample_and_verify(sequence, drafted, logits_PV[end - 1 - len(drafted) : end])

    def _forward(
        self,
        sequences: Sequence[PagedSequence],
        passes: Sequence[tuple[Sequence[int], int, Sequence[int]]],
        wanted: Sequence[int],
    ) -> NDArray[np.float32]:
        """The model's work, while others may look and change."""
        for sequence in sequences:
            sequence.in_pass = True
        self._passes += 1
        self._wake.release()
        try:
            return self._model.forward(passes, wanted)
        finally:
            self._wake.acquire()
            self._passes -= 1
            for sequence in sequences:
                sequence.in_pass = False
            if self._streams > 1:
                self._wake.notify_all()

    def _drafts(self, parts: list[tuple[PagedSequence, list[int]]]) -> list[list[int]]:
        """The draft tokens of each sequence, dealt in turn. One more sequence is one draft token less, so that a pass
        has no more tokens than with one sequence: of 3 draft tokens two sequences get one each, and four get none.
        """
        room = 1 + self._draft_tokens - len(parts)
        return [
            self._draft(sequence, new, len(range(at, room, len(parts)))) for at, (sequence, new) in enumerate(parts)
        ]

    def _draft(self, sequence: PagedSequence, new: list[int], count: int) -> list[int]:
        count = min(count, sequence.max_new - len(sequence.logprobs) - 1)  # one is sampled in any case
        if count <= 0 or len(new) < len(sequence.uncomputed):
            return []
        sequence.own_ngrams.note(sequence.ids, max(sequence.indexed, len(sequence.ids) - OWN_TOKENS))
        sequence.indexed = len(sequence.ids)
        sources = (self._written_ngrams, sequence.own_ngrams)
        return draft(sequence.ids, sources, count, sequence.state, sequence.max_new - len(sequence.logprobs))

    def _sample_and_verify(self, sequence: PagedSequence, drafted: list[int], logits_KV: NDArray[np.float32]) -> None:
        """Samples after the last token, and after each draft token for as long as these are what was sampled."""
        for accepted, logits_V in enumerate(logits_KV):
            self._sample(sequence, logits_V)
            if accepted == len(drafted) or sequence.future.done() or sequence.ids[-1] != drafted[accepted]:
                return
            sequence.cache.ids.append(sequence.ids[-1])
            self.computed += 1
            self.accepted += 1

    def _sample(self, sequence: PagedSequence, logits_V: NDArray[np.float32]) -> None:
        sampling = sequence.sampling
        draw = sequence.draws[len(sequence.logprobs)] if sequence.draws else 0.0
        left = sequence.max_new - len(sequence.logprobs)
        allowed = None if sequence.state is None else sequence.state.allowed(left)
        number, logprob = sample(logits_V, sampling.temperature, sampling.top_p, draw, allowed)
        if not math.isfinite(logprob):
            self._model.wipe(sequence.cache.blocks)
            sequence.cache.ids = []
            self._leave(sequence)
            _settle(sequence.future, EngineError("the model's numbers overflowed (NaN); its weights may be broken"))
            return
        sequence.ids.append(number)
        sequence.logprobs.append(logprob)
        if sequence.state is not None:
            sequence.state = sequence.state.after(number)
        finish = sequence.stop_detector.end(sequence.ids, sequence.prompt_length)
        if finish is not None or len(sequence.logprobs) == sequence.max_new:
            self._leave(sequence)
            if self._draft_tokens:
                self._written_ngrams.note(sequence.ids, sequence.prompt_length)
            _settle(sequence.future, sequence.made(finish))

    def _leave(self, sequence: PagedSequence) -> None:
        self._running.remove(sequence)
        self._table.release(sequence.cache)

    def _start_over(self, error: EngineError) -> None:
        """Ends all requests with this error, and empties the cache, when no other stream is in a pass."""
        self._ending = True
        while self._passes:
            self._wake.wait()
        self._ending = False
        sequences, self._running = self._running + self._waiting, []
        self._waiting = []
        self._table.clear()
        self._model.release()
        self._reserved = 0
        for sequence in sequences:
            _settle(sequence.future, error)
        self._wake.notify_all()


def _settle(future: Future[Generation], outcome: Generation | EngineError) -> None:
    try:
        if isinstance(outcome, Generation):
            future.set_result(outcome)
        else:
            future.set_exception(outcome)
    except InvalidStateError:
        pass  # the request was cancelled


# Prompt-lookup decoding


class NgramIndex:
    """An index of n-grams: for any one to four consecutive tokens, the token that last came after them.

    >>> index = NgramIndex()
    >>> index.note([1, 2, 3, 9, 2, 4])
    >>> index.after([7, 2])  # the later of 3 and 4
    (1, 4)
    >>> index.after([1, 2])  # but after 1 and 2 there was 3; two tokens tell more than one
    (2, 3)
    >>> index.after([5])
    (0, -1)
    """

    def __init__(self) -> None:
        self._next: dict[tuple[int, ...], int] = {}

    def note(self, ids: Sequence[int], begin: int = 0) -> None:
        """Adds the tokens ids[begin:], each with what came before it."""
        if len(self._next) > MAX_ENTRIES:
            self._next.clear()
        for at in range(max(begin, 1), len(ids)):
            for count in range(1, min(LONGEST, at) + 1):
                self._next[tuple(ids[at - count : at])] = ids[at]

    def after(self, ids: Sequence[int]) -> tuple[int, int]:
        """How many of the last tokens were met before, and what followed them; (0, -1) if none was met."""
        for count in range(min(LONGEST, len(ids)), 0, -1):
            found = self._next.get(tuple(ids[-count:]))
            if found is not None:
                return count, found
        return 0, -1


def draft(
    ids: Sequence[int], sources: Sequence[NgramIndex], count: int, state: GrammarState | None = None, left: int = 0
) -> list[int]:
    """At most `count` draft tokens: each from the source that has met more of the last tokens, else from the first.
    Where a grammar (`state`, with `left` tokens to come) allows only one token it is that, and none that it forbids.

    Agents copy: relation names out of observations, the form of a call out of the turn before. So what last followed
    the same few tokens, in the sequence itself or in what was written before, is a good draft. A wrong draft token
    costs its place in a pass and nothing else, since the model says at each place what it would have sampled.

    >>> written, own = NgramIndex(), NgramIndex()
    >>> written.note([1, 2, 3])
    >>> own.note([5, 6, 2, 7])
    >>> draft([1, 2], [written, own], 3)  # written knows 1 and 2, own knows only 2; neither knows what follows 3
    [3]
    >>> draft([6, 2], [written, own], 3)
    [7]
    """
    last, drafted = list(ids[-LONGEST:]), list[int]()
    while len(drafted) < count:
        allowed = None if state is None else state.allowed(left - len(drafted))
        if allowed is not None and len(allowed) == 1:
            known, token = 1, int(allowed[0])
        else:
            known, token = max((source.after(last) for source in sources), key=lambda found: found[0])
        if not known:
            break
        if state is not None and (state := state.after(token)) is None:
            break
        drafted.append(token)
        last.append(token)
    return drafted


# A request under way


@dataclass(slots=True, eq=False)
class PagedSequence(ActiveRequest):
    """A request under way in the engine `cpu`."""

    future: Future[Generation] = field(default_factory=Future)
    cache: CachedSequence = field(default_factory=CachedSequence)
    own_ngrams: NgramIndex = field(default_factory=NgramIndex)
    indexed: int = 0  # how many of `ids` are in `own_ngrams`
    in_pass: bool = False

    @property
    def uncomputed(self) -> list[int]:
        """The tokens that the model has not seen: at least the last sampled one."""
        return self.ids[len(self.cache.ids) :]
