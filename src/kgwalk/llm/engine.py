"""The `Engine` protocol: what a rollout asks of a language model, and nothing more.

A request is the whole context as token ids; what comes back are the ids the model chose, with their log-probabilities.
An engine that can only send text (an API) reads `messages` instead and says so with `exact = False`: its episodes are
for answering and evaluation, never for training. Knows nothing of graphs, tools or protocols.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from kgwalk.llm.models import check_base, read_adapter
from kgwalk.llm.tokenizers import Tokenizer
from kgwalk.types import EngineError, Message


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
