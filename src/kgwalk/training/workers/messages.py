"""What a process and its workers tell each other; numbers travel as the bytes of arrays.

    process -> worker: Prepare, Places, Walk, list of Reply
    worker -> process: list of Wanted, Forget, Done, Unfit, Failed

What comes by the thousand is a plain tuple, which pickle makes several times as quickly as one with names.

Needs no torch. Knows nothing of sockets.
"""

from __future__ import annotations

import io
import pickle
import struct
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from kgwalk.config.plugins import imported
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.llm.engine import Sampling
from kgwalk.llm.tokenizers import HfTokenizer
from kgwalk.training.curriculum import MeasuredEpisode
from kgwalk.types import Answer, Call, Episode, Malformed, Question, Step, StopReason, Triple, Turn
from kgwalk.walk.budget import Budget
from kgwalk.walk.environment import Environments
from kgwalk.walk.protocol import Protocol
from kgwalk.walk.web.search import open_web

IDS, REALS, MARKS = "i", "d", "q"  # types of arrays: 4, 8 and 8 bytes a number

# A request to the engine, checked and with its luck drawn, which is all that can be done before a model is needed:
# its number, its session, tokens to choose, tokens at its beginning that the other end has from the session's last
# request and reply, the ids after them, draws and marks.
PackedRequest = tuple[int, str, int, int, bytes, bytes, bytes]
# What came of a request: its number, tokens, log-probabilities and how it ended; or why nothing came of it.
PackedResult = tuple[int, list[int], list[float], Any, str | None]


class Prepare(NamedTuple):
    """The first message: a pickled `Luggage`."""

    luggage: bytes


class EnvironmentsMessage(NamedTuple):
    """Pickled worlds, which later messages call by number."""

    number: int
    environments: bytes


class WalkMessage(NamedTuple):
    """Episodes to walk: each has its place among all that were asked for, its question among `questions`, and a key."""

    environments: int
    sampling: Sampling
    questions: list[Question]
    asked: list[tuple[int, int, str]]


class Forget(NamedTuple):
    """These sessions are over."""

    sessions: list[str]


class EpisodesDone(NamedTuple):
    """So many episodes have ended: `pack_episodes` of them, to be unpacked when there is time."""

    ended: int
    episodes: bytes


class Unfit(NamedTuple):
    """The worker cannot be given what walks need; whoever asked had better walk himself."""

    why: str


class WalkFailed(NamedTuple):
    """A walk broke off. `ours`: by a bug, and `text` is its traceback."""

    text: str
    ours: bool


def packed(kind: str, numbers: Sequence[int] | Sequence[float]) -> bytes:
    """
    >>> unpacked(IDS, packed(IDS, [7, 8])).tolist()
    [7, 8]
    """
    return array(kind, numbers).tobytes()


@lru_cache(maxsize=512)
def unpacked_prompt(data: bytes) -> tuple[int, ...]:
    """The ids of a prompt, which comes with each rollout of a question, twice; where all have the same objects for
    numbers, lists of them are compared at once.
    """
    return tuple(unpacked(IDS, data))


def unpacked(kind: str, data: bytes) -> Any:
    """The numbers where they lie: a memoryview, which type checkers take for one of integers."""
    return memoryview(data).cast(kind)  # type: ignore[call-overload,unused-ignore]


# ----------------------------------------------------------------------------------------------------
# Messages over a local stream: the length of each in eight bytes, then the message.
#
# The two ends are a process and the workers that it started, over a socket that nobody else has: messages are pickles
# of plain tuples. Nothing of this is ever written to a file. Knows nothing of what they say.


_LENGTH = struct.Struct("!Q")


def framed(message: Any) -> bytes:
    """A message as it goes over the stream."""
    body = pickle.dumps(message, protocol=5)
    return _LENGTH.pack(len(body)) + body


class Frames:
    """Bytes in, as they come; whole messages out.

    >>> frames, both = Frames(), framed("one") + framed(("two", 2))
    >>> frames.feed(both[:30]), frames.feed(both[30:])
    (['one'], [('two', 2)])
    """

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, more: bytes) -> list[Any]:
        """The messages that are complete now."""
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


# ----------------------------------------------------------------------------------------------------
# An episode with its numbers as a plain tuple and back, quickly: the process with the model unpacks a thousand a step.
#
# The tokens of all turns are one array, and each of its facts is written once. The question does not travel: whoever
# asked has it. Needs no torch. Knows the nouns of kgwalk.types.


_CALL, _ANSWER, _MALFORMED = 0, 1, 2


def pack_episode(place: int, walked: MeasuredEpisode) -> tuple[Any, ...]:
    """`place` is the first of the tuple: which of the episodes that were asked for it is."""
    one = walked.episode
    facts = {fact: number for number, fact in enumerate(dict.fromkeys(chain(one.seen, *one.evidence.values())))}
    return (
        place,
        packed(IDS, one.prompt_ids),
        packed(IDS, [number for turn in one.turns for number in (*turn.ids, *turn.observation_ids)]),
        packed(REALS, [value for turn in one.turns for value in turn.logprobs]),
        [_pack_turn(turn) for turn in one.turns],
        [tuple(fact) for fact in facts],
        {name: [facts[fact] for fact in path] for name, path in one.evidence.items()},
        [facts[fact] for fact in one.seen],
        one.stop.value,
        (one.topics, one.prompt, one.answers, one.failure, one.seconds, one.shown, one.key),
        walked.numbers,
        walked.complete,
    )


def unpack_episode(row: tuple[Any, ...], question: Question) -> MeasuredEpisode:
    _, prompt_ids, packed_ids, packed_logprobs, rows, facts, evidence, seen, stop, rest, numbers, complete = row
    topics, prompt, answers, failure, seconds, shown, key = rest
    ids, logprobs = unpacked(IDS, packed_ids).tolist(), unpacked(REALS, packed_logprobs).tolist()
    turns, at, done = [], 0, 0
    for count, valued, told, text, step, observation, *others in rows:
        end, after = at + count, at + count + told
        own, done = logprobs[done : done + valued], done + valued
        turns.append(Turn(ids[at:end], own, text, _unpack_step(*step), observation, ids[end:after], *others))
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
        ),
        numbers,
        complete,
    )


def pack_episodes(rows: list[tuple[Any, ...]]) -> bytes:
    """For the process that started this one; never written to a file."""
    return pickle.dumps(rows, protocol=5)


def unpack_episodes(data: bytes) -> list[tuple[Any, ...]]:
    """The rows, for `unpack_episode`."""
    rows: list[tuple[Any, ...]] = pickle.loads(data)
    return rows


def _pack_turn(turn: Turn) -> tuple[Any, ...]:
    """With the counts of its tokens, their log-probabilities and the tokens it was told."""
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


# ----------------------------------------------------------------------------------------------------
# What a worker is given to walk with, in bytes: things that live in files are opened again there, not copied.
#
# A store is its folder, a web engine its name, a tokenizer goes without the texts that it knows. What else is given
# must be such that pickle can name it; a function inside a function is not. Needs no torch. Knows nothing of walks.


class CannotTravel(Exception):
    """What cannot be given to another process, and why."""


@dataclass(frozen=True, slots=True)
class Luggage:
    """`at_once` is how many episodes a worker has under way; the rest is what the engine says of itself."""

    protocol: Protocol
    budget: Budget
    tokens: HfTokenizer
    context: int
    vocabulary: int
    at_once: int


class _Packer(pickle.Pickler):
    def reducer_override(self, thing: Any) -> Any:
        if type(thing) is StoredGraph:  # a view over one is made anew by whoever asks for it
            return open_graph, (thing.store.folder.path,)
        if isinstance(thing, Environments):
            web = None if thing.web is None or thing.settings.web == "none" else thing.settings.web
            return _environments, (thing.graph_for, thing.settings, thing.base, thing.web if web is None else None, web)
        if type(thing) is HfTokenizer:
            return _tokens, (thing.hf, sorted(thing.end_ids))
        if isinstance(thing, type) and thing.__module__.endswith(".py"):  # pickle would not find a file's module
            return imported, ("class", f"{thing.__module__}:{thing.__qualname__}")
        return NotImplemented


def pack(thing: Any) -> bytes:
    """CannotTravel if it cannot be."""
    into = io.BytesIO()
    try:
        _Packer(into, protocol=5).dump(thing)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError) as error:
        raise CannotTravel(str(error)) from error
    return into.getvalue()


def unpack(data: bytes) -> Any:
    """In the worker, from the process that started it."""
    return pickle.loads(data)


def _environments(graph_for: Any, settings: Any, base: Any, web: Any, web_name: str | None) -> Environments:
    return Environments(graph_for, settings, base, web if web_name is None else open_web(web_name))


def _tokens(hf: Any, end_ids: list[int]) -> HfTokenizer:
    return HfTokenizer(hf, end_ids=end_ids)
