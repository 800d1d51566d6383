"""The messages between the process with the model and its workers, packed and framed.

    process -> worker: Prepare, EnvironmentsMessage, WalkMessage, list of PackedResult
    worker -> process: list of PackedRequest, GrammarMessage, Forget, EpisodesDone, Unfit, WalkFailed

Messages are pickles over a socket that only a process and the worker it started share; nothing of this is ever written
to a file. What comes by the thousand is a plain tuple, which pickles several times as fast as a named one, and its
numbers travel as the bytes of arrays. What a worker is given at its start is a `WorkerPayload`. Needs no torch.

The frames are written by hand (`framed`, `Frames`), not by `multiprocessing.connection`, because a worker must never
wait until its message is read: with `Connection.send_bytes` on both sides, a process and a worker that send more than
the socket holds wait for each other for ever. Sending from a thread avoids that, but the thread waits for the busy
worker's interpreter lock: a round trip of a bundle took 1.5 to 2 ms instead of 0.4.
"""

from __future__ import annotations

import io
import pickle
import struct
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from kgwalk.config.recipe import imported
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.llm.engine import Sampling
from kgwalk.llm.grammar import Grammar
from kgwalk.llm.tokenizers import HfTokenizer
from kgwalk.training.curriculum import MeasuredEpisode
from kgwalk.types import Answer, Call, Constraint, Episode, Malformed, Question, Step, StopReason, Triple, Turn
from kgwalk.walk.environment import Environments
from kgwalk.walk.protocol import Protocol
from kgwalk.walk.rollout import Budget
from kgwalk.walk.web.search import GRAPH, NONE, open_web

IDS, REALS, HASHES = "i", "d", "q"  # array types for token ids, real numbers and prefix hashes: 4, 8 and 8 bytes each

# A request to the engine, with all done that needs no model: its number, its session, how many tokens to generate, how
# many tokens at its beginning the other end has from the session's last request and reply, the ids after those, its
# draws, its prefix hashes, and the number of its grammar (0 for none), which a GrammarMessage brought before.
PackedRequest = tuple[int, str, int, int, bytes, bytes, bytes, int]
# The result of a request: its number, tokens, log-probabilities, how it ended and its room; or the error.
PackedResult = tuple[int, list[int], list[float], Any, int | None, str | None]
MOST_GRAMMARS = 1024  # with more, both ends forget them all before the next walk


class Prepare(NamedTuple):
    """The first message: a `WorkerPayload`, packed."""

    payload: bytes


class EnvironmentsMessage(NamedTuple):
    """Environments, packed; later messages refer to them by number."""

    number: int
    environments: bytes


class WalkMessage(NamedTuple):
    """Episodes to walk: `asked` has, for each, its place among all of them, its question's place, and its key."""

    environments: int
    sampling: Sampling
    questions: list[Question]
    asked: list[tuple[int, int, str]]


class GrammarMessage(NamedTuple):
    """A grammar, which later messages name by its number."""

    number: int
    grammar: Grammar


class Forget(NamedTuple):
    """These sessions are over."""

    sessions: list[str]


class EpisodesDone(NamedTuple):
    """How many episodes have ended, and `pack_episodes` of them, to be unpacked when there is time."""

    ended: int
    episodes: bytes


class Unfit(NamedTuple):
    """The worker could not load what walks need; the process with the model walks by itself then."""

    why: str


class WalkFailed(NamedTuple):
    """A walk failed. `ours`: because of a bug, and `text` is its traceback."""

    text: str
    ours: bool


def packed(kind: str, numbers: Sequence[int] | Sequence[float]) -> bytes:
    """Numbers as the bytes of an array.

    >>> unpacked(IDS, packed(IDS, [7, 8])).tolist()
    [7, 8]
    """
    return array(kind, numbers).tobytes()


@lru_cache(maxsize=512)
def unpacked_prompt(data: bytes) -> tuple[int, ...]:
    """The ids of a prompt. Cached, since each rollout of a question sends it twice, and lists of the same int objects
    are compared faster.
    """
    return tuple(unpacked(IDS, data))


def unpacked(kind: str, data: bytes) -> Any:
    """The numbers without a copy: a memoryview, which type checkers take for one of integers."""
    return memoryview(data).cast(kind)  # type: ignore[call-overload,unused-ignore]


# Frames: the length of a message in eight bytes, then the message

_LENGTH = struct.Struct("!Q")


def framed(message: Any) -> bytes:
    """The bytes of a message on the socket."""
    body = pickle.dumps(message, protocol=5)
    return _LENGTH.pack(len(body)) + body


class Frames:
    """Takes bytes as they come and gives whole messages.

    >>> frames, both = Frames(), framed("one") + framed(("two", 2))
    >>> frames.feed(both[:30]), frames.feed(both[30:])
    (['one'], [('two', 2)])
    """

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, more: bytes) -> list[Any]:
        """The messages that are now complete."""
        self._bytes += more
        found, at = [], 0
        while len(self._bytes) >= at + _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._bytes, at)
            end = at + _LENGTH.size + length
            if len(self._bytes) < end:
                break
            with memoryview(self._bytes) as view:
                found.append(pickle.loads(view[at + _LENGTH.size : end]))
            at = end
        if at:
            del self._bytes[:at]
        return found


# Episodes, packed fast: the process with the model unpacks a thousand a step

_CALL, _ANSWER, _MALFORMED = 0, 1, 2


def pack_episode(place: int, walked: MeasuredEpisode, number_of: Callable[[Grammar], int]) -> tuple[Any, ...]:
    """An episode with its metrics as a plain tuple; `place` is which of the episodes asked for it is.

    The tokens of all turns are one array, and each fact is sent once. The question does not travel: the other end has
    it, and the grammars under the numbers that `number_of` gives.
    """
    one = walked.episode
    facts = {fact: number for number, fact in enumerate(dict.fromkeys(chain(one.seen, *one.evidence.values())))}
    return (
        place,
        packed(IDS, one.prompt_ids),
        packed(IDS, [number for turn in one.turns for number in (*turn.ids, *turn.observation_ids)]),
        packed(REALS, [value for turn in one.turns for value in turn.logprobs]),
        [_pack_turn(turn, number_of) for turn in one.turns],
        [tuple(fact) for fact in facts],
        {name: [facts[fact] for fact in path] for name, path in one.evidence.items()},
        [facts[fact] for fact in one.seen],
        one.stop.value,
        (one.topics, one.prompt, one.answers, one.failure, one.seconds, one.shown, one.key, one.form),
        walked.numbers,
        (walked.complete, walked.web),
    )


def unpack_episode(row: tuple[Any, ...], question: Question, grammars: Mapping[int, Grammar]) -> MeasuredEpisode:
    _, prompt_ids, packed_ids, packed_logprobs, rows, facts, evidence, seen, stop, rest, numbers, place = row
    topics, prompt, answers, failure, seconds, shown, key, form = rest
    ids, logprobs = unpacked(IDS, packed_ids).tolist(), unpacked(REALS, packed_logprobs).tolist()
    turns, at, done = [], 0, 0
    for count, valued, told, text, step, observation, *others, bound in rows:
        end, after = at + count, at + count + told
        own, done = logprobs[done : done + valued], done + valued
        constraint = None if bound is None else Constraint(grammars[bound[0]], bound[1])
        turn = Turn(ids[at:end], own, text, _unpack_step(*step), observation, ids[end:after], *others)
        turn.constraint = constraint
        turns.append(turn)
        at = after
    known = [tuple.__new__(Triple, fact) for fact in facts]  # several times as quick as Triple(*fact)
    paths = {name: [known[number] for number in path] for name, path in evidence.items()}
    told_facts = [known[number] for number in seen]
    return MeasuredEpisode(
        Episode(
            question,
            topics,
            list(unpacked_prompt(prompt_ids)),
            prompt,
            turns,
            answers,
            paths,
            StopReason(stop),
            failure,
            seconds,
            shown,
            told_facts,
            key,
            form=form,
        ),
        numbers,
        *place,
    )


def pack_episodes(rows: list[tuple[Any, ...]]) -> bytes:
    """Packed episodes as bytes."""
    return pickle.dumps(rows, protocol=5)


def unpack_episodes(data: bytes) -> list[tuple[Any, ...]]:
    """The tuples, for `unpack_episode`."""
    rows: list[tuple[Any, ...]] = pickle.loads(data)
    return rows


def _pack_turn(turn: Turn, number_of: Callable[[Grammar], int]) -> tuple[Any, ...]:
    """A turn, with the numbers of its tokens, its log-probabilities and its observation's tokens in the arrays."""
    return (
        len(turn.ids),
        len(turn.logprobs),
        len(turn.observation_ids),
        turn.text,
        _pack_step(turn.step),
        turn.observation,
        turn.ok,
        turn.error,
        turn.shown,
        turn.counted,
        turn.seconds,
        turn.documents,
        None if turn.constraint is None else (number_of(turn.constraint.grammar), turn.constraint.room),
    )


def _pack_step(step: Step) -> tuple[Any, ...]:
    match step:
        case Call(tool, args):
            return _CALL, tool, args
        case Answer(names):
            return _ANSWER, names
        case Malformed(why):
            return _MALFORMED, why


def _unpack_step(kind: int, *rest: Any) -> Step:
    return (Call, Answer, Malformed)[kind](*rest)


# The payload of a worker


class CannotTravel(Exception):
    """Something cannot be given to another process; the message says what and why."""


@dataclass(frozen=True, slots=True)
class WorkerPayload:
    """What a worker needs to walk. `at_once` is how many episodes it walks together.

    Things that live in files are opened again in the worker instead of being copied: a store is sent as its folder, a
    web engine as its name, a tokenizer without its cache. Everything else must be something that pickle can name, so
    not a function inside a function.
    """

    protocol: Protocol
    budget: Budget
    tokens: HfTokenizer
    context: int
    vocabulary: int
    at_once: int


class _Packer(pickle.Pickler):
    def reducer_override(self, thing: Any) -> Any:
        if type(thing) is StoredGraph:  # the worker makes views over it itself
            return open_graph, (thing.store.folder.path,)
        if isinstance(thing, Environments):
            web = None if thing.web is None or thing.settings.web in (NONE, GRAPH) else thing.settings.web
            own = thing.web if web is None else None
            return _environments, (thing.graph_for, thing.settings, thing.base, own, web, thing.examples)
        if type(thing) is HfTokenizer:
            return _tokens, (thing.hf, sorted(thing.end_ids))
        if isinstance(thing, type) and thing.__module__.endswith(
            ".py"
        ):  # from a file given by path, which pickle could not import
            return imported, ("class", f"{thing.__module__}:{thing.__qualname__}")
        return NotImplemented


def pack(thing: Any) -> bytes:
    """The bytes of a thing for a worker; CannotTravel if it has none."""
    into = io.BytesIO()
    try:
        _Packer(into, protocol=5).dump(thing)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError) as error:
        raise CannotTravel(str(error)) from error
    return into.getvalue()


def unpack(data: bytes) -> Any:
    """The thing, in the worker."""
    return pickle.loads(data)


def _environments(
    graph_for: Any, settings: Any, base: Any, web: Any, web_name: str | None, examples: Any
) -> Environments:
    return Environments(graph_for, settings, base, web if web_name is None else open_web(web_name), examples)


def _tokens(hf: Any, end_ids: list[int]) -> HfTokenizer:
    return HfTokenizer(hf, end_ids=end_ids)
