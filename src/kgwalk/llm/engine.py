"""The `Engine` protocol: token ids go in, the sampled ids and their log-probabilities come out.

In this order: the protocol and what passes through it (`Sampling`, `Request`, `Generation`); `open_engine`, the one
door to all kinds of engine; what engines that run a model here share about a request (checks, draws, stop texts); and
`ScriptedEngine`, which replays turns for tests and documentation.

An engine that can only send text (an API) reads `messages` instead of `ids` and says so with `exact = False`: its
episodes are for answering and evaluation, never for training. Nothing here needs torch: each kind's libraries are
imported when it is opened.
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

from kgwalk.llm.automaton import Automaton, GrammarState, automaton_of
from kgwalk.llm.grammar import Grammar
from kgwalk.llm.models import check_base, read_adapter
from kgwalk.llm.tokenizers import ByteTokenizer, Tokenizer, end_id
from kgwalk.types import EngineError, Message


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are sampled. Temperature 0 takes the likeliest token; the same seed gives the same tokens again."""

    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int = 256
    stop: tuple[str, ...] = ()  # a generation ends with the token that completes one of these texts
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """`session` is the same for all turns of an episode: an engine may keep the cache of what the turns share.

    `grammar` is what may be written. An engine that cannot see to that (`vllm`, `api`) writes freely.
    """

    ids: Sequence[int]
    messages: Sequence[Message]
    sampling: Sampling
    session: str = ""
    grammar: Grammar | None = None


@dataclass(frozen=True, slots=True)
class Generation:
    """`finish`: "stop" (a stop text), "eos" (an end token, which is the last of `ids`) or "length".

    `room` is how many tokens there could have been, where the request's grammar was kept to; None where it was not.
    """

    ids: list[int]
    # Of the sampled tokens, at temperature 1 without top_p, among those that the grammar allows; empty if the engine is
    # not exact.
    logprobs: list[float]
    finish: Literal["stop", "eos", "length"]
    room: int | None = None


@runtime_checkable
class Engine(Protocol):
    """What a rollout asks of a language model, and nothing more."""

    @property
    def tokens(self) -> Tokenizer: ...

    @property
    def context(self) -> int:
        """The most tokens that prompt and generation may have together."""
        ...

    @property
    def exact(self) -> bool:
        """Whether ids and log-probabilities are the model's own, so that its episodes can be trained on."""
        ...

    @property
    def at_once(self) -> int:
        """How many episodes it serves well at the same time; with more, requests wait for each other."""
        ...

    async def generate(self, request: Request) -> Generation:
        """One continuation; raises EngineError if the engine cannot give one."""
        ...

    async def forget(self, session: str) -> None:
        """The episode is over: what the engine cached for it may be dropped."""
        ...

    async def close(self) -> None: ...


# The door

# Each kind's module, class and description.
KINDS = {
    "auto": ("", "", "local with a GPU, else cpu where OpenVINO is installed, else local"),
    "cpu": (
        "kgwalk.llm.openvino_engine.engine",
        "CpuEngine",
        "a Hugging Face or GGUF model, run here by OpenVINO on the processor",
    ),
    "local": ("kgwalk.llm.torch_engine.engine", "LocalEngine", "a Hugging Face or GGUF model, run here by torch"),
    "onnx": ("kgwalk.llm.onnx", "OnnxEngine", "a model exported as ONNX, run here by ONNX Runtime on the processor"),
    "vllm": ("kgwalk.llm.vllm", "VllmEngine", "the same models, run here by vLLM"),
    "api": ("kgwalk.llm.api", "ApiEngine", "a model behind an OpenAI-compatible API"),
}
# The packages each kind needs, and how to install them.
PACKAGES = {
    "cpu": (("openvino", "transformers"), "pip install 'kgwalk[cpu]'"),
    "local": (("torch", "transformers"), "pip install 'kgwalk[local]'"),
    "onnx": (("onnxruntime_genai", "transformers"), "pip install 'kgwalk[onnx]'"),
    "vllm": (("vllm",), "pip install vllm"),
}


def open_engine(kind: str, model: str | None = None, **options: object) -> Engine:
    """An engine of this kind. Without `model` it has the kind's default one; `options` are those of its class."""
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
    """Raises EngineError if there is no such kind, or a package it needs is missing. Imports none of them."""
    _check_known(kind)
    asked = kind
    if kind == "auto":  # without asking whether there is a GPU: that would import torch
        kind = "local" if importlib.util.find_spec("openvino") is None else "cpu"
    packages, install = PACKAGES.get(kind, ((), ""))
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing and asked == "auto" and kind == "local":
        install = "pip install 'kgwalk[cpu]' for a processor, or 'kgwalk[local]' for a GPU"
        raise EngineError(f"nothing here runs a model: {install}; --engine api asks one elsewhere")
    if missing:
        raise EngineError(f"the engine {kind} needs {' and '.join(missing)}, not installed: {install}")


def needs_model(kind: str) -> bool:
    """Whether an engine of this kind has no default model."""
    return inspect.signature(_maker(kind)).parameters["model"].default is inspect.Parameter.empty


def takes_adapter(kind: str) -> bool:
    """Whether an engine of this kind can add a LoRA adapter to its model; an API cannot."""
    if kind == "auto":  # `cpu` and `local` both do; which of them it is, only torch may know
        return True
    return kind in KINDS and "adapter" in inspect.signature(_maker(kind)).parameters


def runs_here(kind: str) -> bool:
    """Whether an engine of this kind takes its model from this machine, so that the model's folder can say more."""
    return kind != "api"


def auto_kind() -> str:
    """The kind that `auto` stands for on this machine."""
    if importlib.util.find_spec("openvino") is None:
        return "local"
    if not [device for name in ("nvidia[0-9]*", "kfd") for device in Path("/dev").glob(name)]:
        return "cpu"  # no GPU's device file: found without torch, which takes seconds to import
    import torch

    return "local" if torch.cuda.is_available() else "cpu"


def _check_known(kind: str) -> None:
    if kind not in KINDS:
        listed = "".join(f"\n  {name}: {words}" for name, (_, _, words) in KINDS.items())
        raise EngineError(f"unknown engine {kind!r}{_near(kind, KINDS)}; there are:{listed}")


def _maker(kind: str) -> Callable[..., Engine]:
    module, name, _ = KINDS[auto_kind() if kind == "auto" else kind]
    make: Callable[..., Engine] = getattr(importlib.import_module(module), name)
    return make


def _near(word: str, words: Iterable[str]) -> str:
    """A hint at the most similar word, to be added to an error message."""
    near = difflib.get_close_matches(word, list(words), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


# A request under way, in an engine that runs its model here

MOST_CONSTRAINED = 4096  # tokens of a generation under a grammar: no more than the engines are given draws for at once


@dataclass(slots=True, eq=False)
class ActiveRequest:
    """What the engines `local` and `cpu` keep of a request while they generate; each adds its own fields.

    `ids` is the context and, after the first `prompt_length` of them, what was sampled so far.
    """

    ids: list[int]
    sampling: Sampling
    max_new: int  # tokens to sample at most
    draws: Sequence[float]  # a number in [0, 1) for each of them; none at temperature 0
    stop_detector: StopDetector
    session: str
    state: GrammarState | None = None  # where it is in its grammar; None where it may write anything
    prompt_length: int = 0
    logprobs: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.prompt_length = len(self.ids)
        if self.state is not None:
            self.max_new = min(self.max_new, MOST_CONSTRAINED)

    def made(self, finish: Literal["stop", "eos"] | None) -> Generation:
        """What was generated, at its end."""
        room = None if self.state is None else self.max_new
        return Generation(self.ids[self.prompt_length :], self.logprobs, finish or "length", room)


SequenceType = TypeVar("SequenceType", bound=ActiveRequest)


def activate(
    kind: type[SequenceType],
    request: Request,
    stop_detector: StopDetector,
    *,
    seed: int | None,
    context: int,
    vocabulary: int,
    automaton: Automaton | None = None,
) -> SequenceType | None:
    """The request, checked and with its draws, as a sequence of this kind; None if it asks for no tokens.

    `seed` serves a request that has none. Without the tokenizer's `automaton` no grammar is kept to.
    """
    sampling, ids = request.sampling, list(request.ids)
    max_new = max_new_tokens(ids, sampling, context, vocabulary)
    if max_new == 0:
        return None
    seed = seed if sampling.seed is None else sampling.seed
    numbers = draws(seed_at(seed, len(ids)), max_new) if sampling.temperature > 0 else []
    state = start_state(automaton, request.grammar, max_new)
    return kind(ids, sampling, max_new, numbers, stop_detector, request.session, state)


def start_state(automaton: Automaton | None, grammar: Grammar | None, room: int) -> GrammarState | None:
    """Where a generation begins in its grammar; None for none, and where not even the shortest text has room."""
    if automaton is None or grammar is None:
        return None
    state = automaton.start(grammar)
    return state if state.need <= room else None


def max_new_tokens(ids: list[int], sampling: Sampling, context: int, vocabulary: int) -> int:
    """How many tokens may be sampled; raises EngineError for a request that the model cannot serve."""
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

    `position` is the length of the context: the turns of an episode share its seed and must not share their draws.
    """
    if seed is None:
        return secrets.randbits(63)
    return int.from_bytes(hashlib.blake2b(f"{seed}/{position}".encode(), digest_size=8).digest()) >> 1


def draws(seed: int, count: int) -> list[float]:
    """The numbers in [0, 1) that one generation's tokens are sampled with, one for each."""
    draw = random.Random(seed).random
    return [draw() for _ in range(count)]


# Where a generation ends

REPLACEMENT = "\ufffd"  # what a decoder shows for part of a character


class StopDetector:
    """Finds the end of a generation token by token: an end token, or the token that completes a stop text.

    It finds the same end as `first_stop` does in the whole, but decodes only the last tokens, and only when the last of
    them holds the last character of a stop text. It keeps no state: one detector serves all generations with the same
    stop texts. `piece` gives the text of one token; a caller that caches these texts passes its own.

    >>> from kgwalk.llm.tokenizers import ByteTokenizer
    >>> detector, ids = StopDetector(ByteTokenizer(), ("</a>",)), list(b"x</a>")
    >>> [detector.end(ids[:count]) for count in range(1, 6)]
    [None, None, None, None, 'stop']
    """

    def __init__(self, tokens: Tokenizer, stops: Sequence[str], piece: Callable[[int], str] | None = None) -> None:
        self._tokens = tokens
        self._piece = piece or (lambda number: tokens.decode([number]))
        self._stops = tuple(stop for stop in stops if stop)
        self._lasts = frozenset(stop[-1] for stop in self._stops)
        # A token has a byte of text or more. A few more, so that it does not matter where the first one begins.
        self._window = max((len(stop.encode("utf-8", "surrogatepass")) for stop in self._stops), default=0) + 4

    def end(self, ids: Sequence[int], begin: int = 0) -> Literal["stop", "eos"] | None:
        """How the last token ends the generation ids[begin:]; None if it goes on. Earlier tokens did not end it."""
        if ids[-1] in self._tokens.end_ids:
            return "eos"
        if not self._stops:
            return None
        piece = self._piece(ids[-1])
        if piece and REPLACEMENT not in piece and self._lasts.isdisjoint(piece):
            return None
        text = self._tokens.decode(ids[self._window_start(ids, begin) :])
        return "stop" if any(stop in text for stop in self._stops) else None

    def _window_start(self, ids: Sequence[int], begin: int) -> int:
        """Where the last tokens begin that can hold a stop text. A token without text (a marker, or a space that shows
        only next to others) does not count.
        """
        at, left = len(ids), self._window
        if at - begin <= left:
            return begin
        while at > begin and left:
            at -= 1
            left -= bool(self._piece(ids[at]))
        return at


def first_stop(tokens: Tokenizer, ids: Sequence[int], stops: Sequence[str]) -> int | None:
    """The number of ids up to and with the one that completes the first stop text; None if none does.

    That token is kept whole, as a model's tokens are never cut or encoded again. A stop text may therefore be followed
    by the rest of its last token, which the protocol's parser ignores.
    """
    if not stops or not any(stop in tokens.decode(ids) for stop in stops):
        return None
    low, high = 1, len(ids)  # bisection: the text of more tokens contains the text of fewer
    while low < high:
        middle = (low + high) // 2
        text = tokens.decode(ids[:middle])
        if any(stop in text for stop in stops):
            high = middle
        else:
            low = middle + 1
    return low


# An engine without a model

LOGPROB = -0.125  # of every token of a scripted engine


def common_length(one: Sequence[int], other: Sequence[int]) -> int:
    """How many ids the two have in common at the beginning.

    >>> common_length([1, 2, 3, 4], [1, 2, 9])
    2
    """
    if len(one) > len(other):
        one, other = other, one
    low, high = 0, len(one)
    if one == other[:high]:
        return high
    while low < high:  # invariant: the first `low` are the same, the first `high + 1` are not
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class ScriptedEngine:
    """Replays turns: for tests, documentation, and trying out a protocol without a model.

    `script` is a list of turns for every episode, a mapping from a text that occurs in the prompt to such a list, or a
    function from a request to the next turn's text. Turns end as a model's do, at a stop text or at the length, so an
    episode has every property of a real one; only the log-probabilities are made up. A script may say what a grammar
    forbids, as mistakes are worth showing; with `constrained` that is an EngineError.

    >>> import asyncio
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
        constrained: bool = False,
    ) -> None:
        self._script, self._constrained = script, constrained
        self.tokens: Tokenizer = tokens or ByteTokenizer()
        self.context = context
        self._turns_said: dict[str, int] = {}

    async def generate(self, request: Request) -> Generation:
        text = self._next(request)
        ids = self.tokens.encode(text)[: request.sampling.max_tokens]
        stop = first_stop(self.tokens, ids, request.sampling.stop)
        finish: Literal["stop", "eos", "length"] = "length"
        if stop is not None:
            ids, finish = ids[:stop], "stop"
        elif len(ids) < request.sampling.max_tokens:
            ids, finish = [*ids, end_id(self.tokens)], "eos"
        return Generation(ids, [LOGPROB] * len(ids), finish, self._room(request, ids))

    def _room(self, request: Request, ids: Sequence[int]) -> int | None:
        """The most tokens that there could be, if the engine keeps to grammars; raises where the script does not."""
        automaton = automaton_of(self.tokens) if self._constrained else None
        state, room = start_state(automaton, request.grammar, request.sampling.max_tokens), request.sampling.max_tokens
        if state is None:
            return None
        for at, number in enumerate(ids):
            if state is None or number not in state.allowed(room - at):
                raise EngineError(
                    f"the grammar does not allow the script's turn after {self.tokens.decode(ids[:at])!r}"
                )
            state = state.after(number)
        return room

    def _next(self, request: Request) -> str:
        if callable(self._script):
            return self._script(request)
        turns = self._script
        if isinstance(turns, Mapping):
            prompt = "\n".join(message.content for message in request.messages)
            turns = next((lines for key, lines in turns.items() if key in prompt), ())
        at = self._turns_said.get(request.session, 0)
        self._turns_said[request.session] = at + 1
        if at >= len(turns):
            raise EngineError(f"the script has {len(turns)} turns and was asked for turn {at + 1}")
        return turns[at]

    async def forget(self, session: str) -> None:
        self._turns_said.pop(session, None)

    async def close(self) -> None:
        self._turns_said.clear()
