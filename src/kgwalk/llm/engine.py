"""The `Engine` protocol: what a rollout asks of a language model, and nothing more.

A request is the whole context as token ids; what comes back are the ids the model chose, with their log-probabilities.
An engine that can only send text (an API) reads `messages` instead and says so with `exact = False`: its episodes are
for answering and evaluation, never for training. Knows nothing of graphs, tools or protocols.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import random
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, TypeVar, runtime_checkable

from kgwalk.llm.models import check_base, read_adapter
from kgwalk.llm.tokenizers import ByteTokenizer, Tokenizer
from kgwalk.types import EngineError, Message

# ----------------------------------------------------------------------------------------------------
# A request as an engine that runs here takes it: checked, with its luck drawn and its end watched for.
#
# What the engines `local` and `cpu` share before either runs a model. Needs no torch; knows nothing of models or
# caches.


# ----------------------------------------------------------------------------------------------------
# Watches generations for their end: an end token, or the token that completes a stop text.
#
# Finds the same end as `first_stop` does in the whole, by decoding only the last tokens, and only when the last of them
# holds the last character of a stop text. Remembers nothing: one watch serves all generations with the same stop texts.
# Knows nothing of models.


BROKEN = "\ufffd"  # how a decoder shows part of a character


class StopWatch:
    """`piece` gives the text of one token, if the caller has it at hand.

    >>> from kgwalk.llm.tokenizers import ByteTokenizer
    >>> watch, ids = StopWatch(ByteTokenizer(), ("</a>",)), list(b"x</a>")
    >>> [watch.end(ids[:count]) for count in range(1, 6)]
    [None, None, None, None, 'stop']
    """

    def __init__(self, tokens: Tokenizer, stops: Sequence[str], piece: Callable[[int], str] | None = None) -> None:
        self._tokens = tokens
        self._piece = piece or (lambda number: tokens.decode([number]))
        self._stops = tuple(stop for stop in stops if stop)
        self._lasts = frozenset(stop[-1] for stop in self._stops)
        # A token has a byte of text or more; a few tokens more, so that the first one's beginning does not matter.
        self._window = max((len(stop.encode("utf-8", "surrogatepass")) for stop in self._stops), default=0) + 4

    def end(self, ids: Sequence[int], begin: int = 0) -> Literal["stop", "eos"] | None:
        """How the generation ids[begin:] ends with its last token, which was not looked at yet; None if it goes on."""
        if ids[-1] in self._tokens.end_ids:
            return "eos"
        if not self._stops:
            return None
        piece = self._piece(ids[-1])
        if piece and BROKEN not in piece and self._lasts.isdisjoint(piece):
            return None
        text = self._tokens.decode(ids[self._from(ids, begin) :])
        return "stop" if any(stop in text for stop in self._stops) else None

    def _from(self, ids: Sequence[int], begin: int) -> int:
        """Where the last tokens begin that can hold a stop text. One without text (a marker, or a space that shows only
        among others) does not count.
        """
        at, left = len(ids), self._window
        if at - begin <= left:
            return begin
        while at > begin and left:
            at -= 1
            left -= bool(self._piece(ids[at]))
        return at


@dataclass(slots=True, eq=False)
class ActiveRequest:
    """`ids` is the context and, after the first `prompt` of them, what was chosen so far."""

    ids: list[int]
    sampling: Sampling
    most: int  # tokens to choose
    draws: Sequence[float]
    watch: StopWatch
    session: str
    prompt: int = 0
    logprobs: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.prompt = len(self.ids)


SequenceType = TypeVar("SequenceType", bound=ActiveRequest)


def taken(
    kind: type[SequenceType],
    request: Request,
    watch: StopWatch,
    *,
    seed: int | None,
    context: int,
    vocabulary: int,
) -> SequenceType | None:
    """The request as one of this kind; None if no token may be chosen. `seed` serves a request that has none."""
    sampling, ids = request.sampling, list(request.ids)
    most = tokens_to_choose(ids, sampling, context, vocabulary)
    if most == 0:
        return None
    seed = seed if sampling.seed is None else sampling.seed
    numbers = draws(seed_at(seed, len(ids)), most) if sampling.temperature > 0 else []
    return kind(ids, sampling, most, numbers, watch, request.session)


def tokens_to_choose(ids: list[int], sampling: Sampling, context: int, vocabulary: int) -> int:
    """How many tokens may be chosen; EngineError for what the model cannot be asked."""
    if not ids:
        raise EngineError("a request without tokens: there is nothing to continue")
    if len(ids) >= context:
        raise EngineError(f"the prompt has {len(ids):,} tokens; with a context of {context:,} none can follow")
    if min(ids) < 0 or max(ids) >= vocabulary:
        raise EngineError(f"ids must be 0 to {vocabulary - 1:,}; there are {min(ids)} to {max(ids)}")
    if not (sampling.temperature >= 0 and 0 < sampling.top_p <= 1):
        raise EngineError(
            f"temperature must be 0 or more and top_p in (0, 1]; they are {sampling.temperature} and {sampling.top_p}"
        )
    return max(0, min(sampling.max_tokens, context - len(ids)))


def seed_at(seed: int | None, position: int) -> int:
    """The seed of one generation; a random one for None.

    `position` is the length of the context: the turns of an episode share its seed and must not share their luck.
    """
    if seed is None:
        return secrets.randbits(63)
    return int.from_bytes(hashlib.blake2b(f"{seed}/{position}".encode(), digest_size=8).digest()) >> 1


def draws(seed: int, count: int) -> list[float]:
    """The numbers in [0, 1) that choose the tokens of one generation."""
    draw = random.Random(seed).random
    return [draw() for _ in range(count)]


# ----------------------------------------------------------------------------------------------------
# Where a generation ends: with the token that completes a stop text.
#
# The token is kept whole: a model's tokens are never cut or encoded anew, so a stop text may be followed by the rest of
# its last token, which the protocol's parser passes over.


def first_stop(tokens: Tokenizer, ids: Sequence[int], stops: Sequence[str]) -> int | None:
    """How many of the ids there are up to the one that completes the first stop text; None if none does."""
    if not stops or not any(stop in tokens.decode(ids) for stop in stops):
        return None
    low, high = 1, len(ids)  # the text of more tokens holds the text of fewer
    while low < high:
        middle = (low + high) // 2
        text = tokens.decode(ids[:middle])
        if any(stop in text for stop in stops):
            high = middle
        else:
            low = middle + 1
    return low


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are chosen. Temperature 0 takes the likeliest token; the seed makes a draw repeatable."""

    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int = 256
    stop: tuple[str, ...] = ()  # a generation ends with the token that completes one of these texts
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """`session` is the same for all turns of an episode: an engine may keep its cache of the common beginning."""

    ids: Sequence[int]
    messages: Sequence[Message]
    sampling: Sampling
    session: str = ""


@dataclass(frozen=True, slots=True)
class Generation:
    """`finish`: "stop" (a stop text), "eos" (an end token, which is the last of `ids`) or "length"."""

    ids: list[int]
    logprobs: list[float]  # of the chosen tokens, at temperature 1 without top_p; empty if the engine is not exact
    finish: Literal["stop", "eos", "length"]


@runtime_checkable
class Engine(Protocol):
    @property
    def tokens(self) -> Tokenizer: ...

    @property
    def context(self) -> int:
        """The most tokens that prompt and generation may have together."""
        ...

    @property
    def exact(self) -> bool:
        """Whether ids and log-probabilities are the model's own."""
        ...

    @property
    def at_once(self) -> int:
        """How many episodes it serves well at the same time; the requests of more would wait for each other."""
        ...

    async def generate(self, request: Request) -> Generation:
        """One continuation; raises EngineError if there is none to be had."""
        ...

    async def forget(self, session: str) -> None:
        """The episode is over: what was kept for it may go."""
        ...

    async def close(self) -> None: ...


# ----------------------------------------------------------------------------------------------------
# One door to the engines: a kind, a model, and the kind's own options. Each kind's libraries are imported when asked.
#
# Knows the engines by name only.


# the module and the class, and what it says of itself
KINDS = {
    "auto": ("", "", "local with a GPU, else cpu where OpenVINO is installed, else local"),
    "cpu": (
        "kgwalk.llm.openvino_engine.engine",
        "CpuEngine",
        "a Hugging Face or GGUF model, run here by OpenVINO on the processor",
    ),
    "local": ("kgwalk.llm.torch_engine.engine", "LocalEngine", "a Hugging Face or GGUF model, run here by torch"),
    "vllm": ("kgwalk.llm.vllm", "VllmEngine", "the same models, run here by vLLM"),
    "api": ("kgwalk.llm.api", "ApiEngine", "a model behind an OpenAI-compatible API"),
}
# what each kind must have installed, and how to get it
PACKAGES = {
    "cpu": (("openvino", "transformers"), "pip install 'kgwalk[cpu]'"),
    "local": (("torch", "transformers"), "pip install 'kgwalk[local]'"),
    "vllm": (("vllm",), "pip install vllm"),
}


def open_engine(kind: str, model: str | None = None, **options: object) -> Engine:
    """The engine; without a model, the kind's default one. Options are those of its class."""
    _check_known(kind)
    make = _maker(kind)
    known = inspect.signature(make).parameters
    any_option = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    for option in options:
        if option not in known and not any_option:
            listed = ", ".join(known)
            raise EngineError(f"the engine {kind} has no option {option!r}{_near(option, known)}; it has {listed}")
    if model is not None:
        if isinstance(adapter := options.get("adapter"), str | Path):
            check_base(read_adapter(adapter), model)
        return make(model, **options)
    if needs_model(kind):
        raise EngineError(f"the engine {kind} needs the name of a model")
    return make(**options)


def check_kind(kind: str) -> None:
    """EngineError if there is no such kind, or what it needs is not installed. Imports none of it."""
    _check_known(kind)
    if kind == "auto":  # whether there is a GPU is not asked: that would import torch
        kind = "local" if importlib.util.find_spec("openvino") is None else "cpu"
    packages, install = PACKAGES.get(kind, ((), ""))
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise EngineError(f"the engine {kind} needs {' and '.join(missing)}, not installed: {install}")


def needs_model(kind: str) -> bool:
    """Whether an engine of this kind has no default model."""
    return inspect.signature(_maker(kind)).parameters["model"].default is inspect.Parameter.empty


def takes_adapter(kind: str) -> bool:
    """Whether an engine of this kind adds a LoRA adapter to its model; an API's model is what it is."""
    if kind == "auto":  # both that it may stand for; which one, only torch may know
        return True
    return kind in KINDS and "adapter" in inspect.signature(_maker(kind)).parameters


def kind_here() -> str:
    """What `auto` stands for on this machine."""
    if importlib.util.find_spec("openvino") is None:
        return "local"
    if not [device for name in ("nvidia[0-9]*", "kfd") for device in Path("/dev").glob(name)]:
        return "cpu"  # found without torch, which takes seconds to import
    import torch

    return "local" if torch.cuda.is_available() else "cpu"


def _check_known(kind: str) -> None:
    if kind not in KINDS:
        listed = "".join(f"\n  {name}: {words}" for name, (_, _, words) in KINDS.items())
        raise EngineError(f"unknown engine {kind!r}{_near(kind, KINDS)}; there are:{listed}")


def _maker(kind: str) -> Callable[..., Engine]:
    module, name, _ = KINDS[kind_here() if kind == "auto" else kind]
    make: Callable[..., Engine] = getattr(importlib.import_module(module), name)
    return make


def _near(word: str, words: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(words), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


# ----------------------------------------------------------------------------------------------------
# An engine that says what it is told: for tests, documentation, and trying out a protocol without a model.
#
# It chooses its tokens as a model would (one after the other, until a stop text or the length), so an episode with it
# has every property of a real one. Log-probabilities are made up but fixed: -1/8 for each token.


LOGPROB = -0.125


class ScriptedEngine:
    """Replays turns. `script` is a list of turns for every episode, a mapping from a text that occurs in the prompt
    to such a list, or a function from a request to the next turn's text.

    >>> import asyncio
    >>> from kgwalk.llm.engine import Sampling
    >>> engine = ScriptedEngine(["<a>x</a> and more"])
    >>> request = Request([1], [], Sampling(stop=("</a>",)), session="s")
    >>> engine.tokens.decode(asyncio.run(engine.generate(request)).ids)
    '<a>x</a>'
    """

    exact = True
    at_once = 1 << 20

    def __init__(
        self,
        script: Sequence[str] | Mapping[str, Sequence[str]] | Callable[[Request], str],
        *,
        tokens: Tokenizer | None = None,
        context: int = 1 << 20,
    ) -> None:
        self._script = script
        self.tokens: Tokenizer = tokens or ByteTokenizer()
        self.context = context
        self._said: dict[str, int] = {}

    async def generate(self, request: Request) -> Generation:
        text = self._next(request)
        ids = self.tokens.encode(text)[: request.sampling.max_tokens]
        stop = first_stop(self.tokens, ids, request.sampling.stop)
        if stop is not None:
            return Generation(ids[:stop], [LOGPROB] * stop, "stop")
        if len(ids) == request.sampling.max_tokens:
            return Generation(ids, [LOGPROB] * len(ids), "length")
        ids.append(min(self.tokens.end_ids))
        return Generation(ids, [LOGPROB] * len(ids), "eos")

    def _next(self, request: Request) -> str:
        if callable(self._script):
            return self._script(request)
        turns = self._script
        if isinstance(turns, Mapping):
            prompt = "\n".join(message.content for message in request.messages)
            turns = next((lines for key, lines in turns.items() if key in prompt), ())
        at = self._said.get(request.session, 0)
        self._said[request.session] = at + 1
        if at >= len(turns):
            raise EngineError(f"the script has {len(turns)} turns and was asked for turn {at + 1}")
        return turns[at]

    async def forget(self, session: str) -> None:
        self._said.pop(session, None)

    async def close(self) -> None:
        self._said.clear()
