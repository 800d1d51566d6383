"""A demonstration: the messages of one good walk, as a line of JSONL that a person can read, and as ids for a trainer.

`encode` gives exactly the ids that a rollout with these turns would have. In an inline protocol the observations,
written here as the user's messages, continue the assistant's own. Knows nothing of how demos are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from kgwalk.agent.protocols import protocol_kind
from kgwalk.agent.rollout import told_ids
from kgwalk.llm.tokens import Tokenizer
from kgwalk.types import Flat, InputError, Message


@dataclass(frozen=True, slots=True)
class Demo:
    """`messages` are the prompt's, then turns of the assistant and observations in turn, the answer last.

    A turn with `"train": false` is a wrong one, there to be recovered from: it is read and not learned.
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
    """The messages of a demo: the prompt's, and for each turn its text and what was told after it ("" after the last).

    `untrained` are places of turns, from 0.
    """
    skipped = set(untrained)
    messages: list[dict[str, Any]] = [{"role": one.role, "content": one.content} for one in prompt]
    for place, (text, observation) in enumerate(turns):
        messages.append({"role": "assistant", "content": text} | ({"train": False} if place in skipped else {}))
        if observation:
            messages.append({"role": "user", "content": observation})
    return messages


def encode(demo: Demo, tokens: Tokenizer) -> Flat:
    """The ids of the whole walk; `mask` is 1 on the turns that are to be learned, `turn_index` counts all turns."""
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
    """The ids of a turn, and whether an end token is the last: so it is where no stop text ended the turn. `end` is
    what `end_id` says, from whoever has many turns.
    """
    ids = tokens.encode(text)
    if any(word in text for word in stop):
        return ids, False
    return [*ids, end_id(tokens) if end is None else end], True


def end_id(tokens: Tokenizer) -> int:
    """The token by which this chat's assistant ends its message: of several, the one that the template writes."""
    closing = tokens.next_turn("", ended=False)[:1]
    return closing[0] if closing and closing[0] in tokens.end_ids else min(tokens.end_ids)


def write_line(demo: Demo) -> bytes:
    return orjson.dumps(asdict(demo), option=orjson.OPT_APPEND_NEWLINE)


def read_demos(path: str | Path) -> Iterator[Demo]:
    """The demos of a JSONL file; a line that is none is an InputError with its number."""
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
    return Demo(**{key: value for key, value in row.items() if key in known})


def _is_chat(messages: Any) -> bool:
    if not isinstance(messages, list) or not messages:
        return False
    each = all(
        isinstance(one, dict)
        and one.get("role") in ("system", "user", "assistant")
        and isinstance(one.get("content"), str)
        for one in messages
    )
    return each and messages[0]["role"] != "assistant" and messages[-1]["role"] == "assistant"
