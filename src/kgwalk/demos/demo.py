"""A demonstration: the messages of one good walk, as a line of JSONL for people, and as token ids for a trainer.

    lessons = EncodedDemos(read_demos(file), tokens)     # each is encoded when it is first asked for
    lessons.ahead([7, 3])                           # another thread encodes these meanwhile
    lessons[7]                                      # the same as `encode` of the demonstration

`encode` gives exactly the ids that a rollout with these turns would have. In an inline protocol the observations, which
are written here as the user's messages, continue the assistant's own message. Needs no torch.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, overload

import orjson

from kgwalk.llm.tokenizers import HfTokenizer, Tokenizer, end_id
from kgwalk.types import Flat, InputError, Message
from kgwalk.walk.policy import protocol_kind
from kgwalk.walk.rollout import BYTES_A_TOKEN, told_ids


@dataclass(frozen=True, slots=True)
class Demo:
    """`messages` are those of the prompt, then the assistant's turns and the observations by turns, the answer last.

    A turn with `"train": false` is a wrong one that the walk recovers from: it is in the context but not learned.
    """

    id: str
    question: str
    protocol: str
    inline: bool
    messages: list[dict[str, Any]]  # role, content, and train where it is False
    answers: list[str]
    gold: list[str]
    f1: float
    source: str  # program, gold, evidence, search or teacher
    style: str  # of the thoughts; the model's name for a teacher's
    hops: int | None
    wrong: bool = False  # whether there is a wrong turn in it
    web: bool = False  # whether the web was searched

    @property
    def turns(self) -> list[str]:
        return [message["content"] for message in self.messages if message["role"] == "assistant"]


def messages_of(
    prompt: Sequence[Message], turns: Iterable[tuple[str, str]], untrained: Iterable[int] = ()
) -> list[dict[str, Any]]:
    """The messages of a demo: the prompt's, and for each turn its text and its observation ("" after the last).

    `untrained` are the numbers of turns that are not learned, from 0.
    """
    skipped = set(untrained)
    messages: list[dict[str, Any]] = [{"role": one.role, "content": one.content} for one in prompt]
    for place, (text, observation) in enumerate(turns):
        messages.append({"role": "assistant", "content": text} | ({"train": False} if place in skipped else {}))
        if observation:
            messages.append({"role": "user", "content": observation})
    return messages


def encode(demo: Demo, tokens: Tokenizer) -> Flat:
    """The ids of the whole walk; `mask` is 1 on the turns to learn, `turn_index` counts all turns."""
    stop, end = protocol_kind(demo.protocol).stop, end_id(tokens)
    prompt = next(at for at, message in enumerate(demo.messages) if message["role"] == "assistant")
    opening = [Message(message["role"], message["content"]) for message in demo.messages[:prompt]]
    ids = tokens.open_chat(opening)
    flat = Flat(list(ids), [0] * len(ids), [], [-1] * len(ids))
    turn, ended = -1, False
    for message in demo.messages[prompt:]:
        if message["role"] == "assistant":
            turn += 1
            ids, ended = turn_ids(tokens, message["content"], stop, end)
            mask, index = int(message.get("train", True)), turn
        else:
            ids, mask, index = told_ids(tokens, message["content"], inline=demo.inline, ended=ended), 0, -1
        flat.ids.extend(ids)
        flat.mask.extend([mask] * len(ids))
        flat.turn_index.extend([index] * len(ids))
    flat.logprobs.extend([0.0] * len(flat.ids))
    return flat


def turn_ids(tokens: Tokenizer, text: str, stop: Sequence[str], end: int | None = None) -> tuple[list[int], bool]:
    """The ids of a turn, and whether they end with an end token, as they do where no stop text ended the turn.

    `end` is `end_id(tokens)`, for callers with many turns.
    """
    ids = tokens.encode(text)
    if any(word in text for word in stop):
        return ids, False
    return [*ids, end_id(tokens) if end is None else end], True


def write_line(demo: Demo) -> bytes:
    return orjson.dumps(asdict(demo), option=orjson.OPT_APPEND_NEWLINE)


def read_demos(path: str | Path) -> Iterator[Demo]:
    """The demos of a JSONL file; a bad line is an InputError with its number."""
    try:
        with Path(path).open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _demo(str(path), number, line)
    except OSError as error:
        raise InputError(f"cannot read the demos: {error.strerror}", path=str(path)) from error


def _demo(path: str, number: int, line: bytes) -> Demo:
    def wrong(why: str) -> InputError:
        return InputError(why, path=path, line=number, text=line.decode("utf-8", "backslashreplace"))

    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise wrong(f"not JSON: {error}") from None
    if not isinstance(row, dict):
        raise wrong("expected an object")
    known = set(Demo.__slots__)
    missing = sorted(known - {"wrong", "web"} - row.keys())
    if missing:
        raise wrong(f"expected a demo; there is no `{missing[0]}`")
    if not _is_chat(row["messages"]):
        raise wrong("expected `messages`: a prompt, then turns of the assistant; each has a role and a content")
    for key, (kind, what) in _KINDS.items():
        if key in row and not isinstance(row[key], kind):
            raise wrong(f"expected `{key}`, {what}")
    return Demo(**{key: value for key, value in row.items() if key in known})


_KINDS: dict[str, tuple[Any, str]] = {
    **dict.fromkeys(("id", "question", "protocol", "source", "style"), (str, "text")),
    **dict.fromkeys(("inline", "wrong", "web"), (bool, "true or false")),
    **dict.fromkeys(("answers", "gold"), (list, "a list of names")),
    "f1": (int | float, "a number"),
    "hops": (int | None, "a whole number or null"),
}


def _is_chat(messages: Any) -> bool:
    if not isinstance(messages, list) or not messages:
        return False
    each = all(
        isinstance(one, dict)
        and one.get("role") in ("system", "user", "assistant")
        and isinstance(one.get("content"), str)
        and isinstance(one.get("train", True), bool)
        for one in messages
    )
    return each and messages[0]["role"] != "assistant" and messages[-1]["role"] == "assistant"


# Many demonstrations, encoded lazily


AT_ONCE = 64  # demonstrations encoded together: some hundred texts, enough for all cores


class _PackedFlat(NamedTuple):
    """A Flat in seven bytes a token; its log-probabilities are all 0."""

    ids: array[int]
    mask: bytes
    turn_index: array[int]

    @classmethod
    def of(cls, flat: Flat) -> _PackedFlat:
        return cls(array("i", flat.ids), bytes(flat.mask), array("h", flat.turn_index))

    def flat(self) -> Flat:
        return Flat(list(self.ids), list(self.mask), [0.0] * len(self.ids), list(self.turn_index))


class EncodedDemos(Sequence[Flat]):
    """Demonstrations as ids, each encoded when it is first asked for, so that training begins at once.

    What was encoded is kept in seven bytes a token in place of the text. The order of requests changes no result.
    `names` are the demonstrations' ids, in order.
    """

    def __init__(self, demos: Iterable[Demo], tokens: HfTokenizer) -> None:
        self._tokens = tokens
        self._all: list[Demo | _PackedFlat] = []
        self.names: list[str] = []
        kinds: dict[tuple[str, ...], int] = {}
        for number, demo in enumerate(demos):
            self._all.append(demo)
            self.names.append(demo.id)
            kinds.setdefault(tuple(message["role"] for message in demo.messages), number)
        self._thread = ThreadPoolExecutor(1, "lessons")
        self._coming: Future[None] | None = None
        self._encode(list(kinds.values()))  # a chat template that rejects these roles fails now, not hours later

    def __len__(self) -> int:
        return len(self._all)

    @overload
    def __getitem__(self, number: int) -> Flat: ...
    @overload
    def __getitem__(self, number: slice) -> list[Flat]: ...
    def __getitem__(self, number: int | slice) -> Flat | list[Flat]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        self._wait()
        if isinstance(self._all[number], Demo):
            self._encode([number])
        kept = self._all[number]
        assert isinstance(kept, _PackedFlat)
        return kept.flat()

    def ahead(self, numbers: Sequence[int]) -> None:
        """Encodes these in another thread, together, as they will be asked for soon.

        An error there is raised by the next request, or the next call of `ahead`.
        """
        self._wait()
        missing = [number for number in numbers if isinstance(self._all[number], Demo)]
        if missing:
            self._coming = self._thread.submit(self._encode, missing)

    def _wait(self) -> None:
        coming, self._coming = self._coming, None
        if coming is not None:
            coming.result()

    def _encode(self, numbers: Sequence[int]) -> None:
        for start in range(0, len(numbers), AT_ONCE):
            some = [(number, self._all[number]) for number in numbers[start : start + AT_ONCE]]
            demos = {number: demo for number, demo in some if isinstance(demo, Demo)}
            self._tokens.foresee(partial(_encoded, demos.values()))
            for number, flat in zip(demos, _encoded(demos.values(), self._tokens), strict=True):
                self._all[number] = _PackedFlat.of(flat)


def _encoded(demos: Iterable[Demo], tokens: HfTokenizer) -> list[Flat]:
    return [encode(demo, tokens) for demo in demos]


# A stand-in tokenizer


_PAD = b"\xff"  # no byte of UTF-8


class RoughTokenizer:
    """For when the learner's tokenizer is not at hand: four bytes of UTF-8 are a token, which is about right.

    It serves to cut observations and to bound lengths while demos are made. No model has these ids.

    >>> tokens = RoughTokenizer()
    >>> len(tokens.encode("who directed Big?")), tokens.decode(tokens.encode("who directed Big?"))
    (5, 'who directed Big?')
    """

    END = 1 << 32
    end_ids = frozenset({END})
    _ROLES: ClassVar = {"system": END + 1, "user": END + 2, "assistant": END + 3}

    def encode(self, text: str) -> list[int]:
        data = text.encode("utf-8", "surrogatepass")
        return memoryview(data + _PAD * (-len(data) % BYTES_A_TOKEN)).cast("I").tolist()

    def decode(self, ids: Sequence[int]) -> str:
        words = array("I", [number for number in ids if number < self.END]).tobytes()
        return words.replace(_PAD, b"").decode("utf-8", "replace")

    def open_chat(self, messages: Sequence[Message]) -> list[int]:
        ids: list[int] = []
        for message in messages:
            ids += [self._ROLES[message.role], *self.encode(message.content), self.END]
        return [*ids, self._ROLES["assistant"]]

    def next_turn(self, text: str, *, ended: bool) -> list[int]:
        closing = [] if ended else [self.END]
        return [*closing, self._ROLES["user"], *self.encode(text), self.END, self._ROLES["assistant"]]
