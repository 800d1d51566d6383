"""Models as ONNX: written by onnxruntime-genai's own builder; in f32 checked against the model they were made of.

    write_onnx(folder, Path("agent-onnx"), "int8")      # `folder` is a Hugging Face one

What is written opens in onnxruntime-genai as it is: model.onnx with its weights beside it, keys and values of earlier
tokens as inputs and outputs, genai_config.json with the stop tokens, tokenizer and chat template. The builder writes
Llama, Qwen2, Qwen3 and more from their weights, layer by layer, without tracing torch; its attention and its weights in
eight or four bits are operators of ONNX Runtime's own (domain com.microsoft), so other programs may not run the file.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kgwalk.types import EngineError, KgwalkError, Message

if TYPE_CHECKING:
    from kgwalk.llm.models import LoadedModel

# The builder's names for numbers. Its f16 and bf16 are for GPUs: ONNX Runtime does not run them on a processor.
PRECISIONS = {"f32": "fp32", "int8": "int8", "int4": "int4"}
CONFIG = "genai_config.json"
COPIED = ("config.json", "generation_config.json")  # for programs that go by them; the builder leaves them out
PACKAGES = {"onnxruntime_genai": "onnxruntime-genai", "onnx": "onnx", "onnx_ir": "onnx-ir"}
INSTALL = "pip install 'kgwalk[onnx]'"
QUIET = "ORT_DISABLE_TELEMETRY"
FURTHEST = 0.01  # that a log-probability of a model in f32 may be off; rounding alone makes it 0.0001
PROBE = [
    Message("system", "Be brief. Answer by calls."),
    Message("user", "who directed Big in 1988?\n$1 = 1: Ünïcödé 東京  12,345\n> tail_entities($1, 'directed by')"),
]


def need_onnx(*packages: str) -> None:
    """Raises EngineError with what to install if one is missing; all that writing takes, if none is named."""
    missing = [PACKAGES[one] for one in packages or PACKAGES if importlib.util.find_spec(one) is None]
    if missing:
        raise EngineError(f"ONNX needs {' and '.join(missing)}, not installed: {INSTALL}")


def runtime() -> Any:
    """onnxruntime-genai itself, which imports ONNX Runtime.

    ONNX Runtime's wheels report their use to Microsoft over HTTPS unless a variable says no before it is loaded. An
    answer from a graph here needs no network, so no is said, except by who set the variable.
    """
    os.environ.setdefault(QUIET, "1")
    import onnxruntime_genai

    return onnxruntime_genai


def is_onnx(folder: Path) -> bool:
    return (folder / CONFIG).is_file()


def read_config(folder: Path) -> dict[str, Any]:
    """What genai_config.json says of the model: context_length, eos_token_id, vocab_size and the like."""
    try:
        found = json.loads((folder / CONFIG).read_text("utf-8"))["model"]
        return {**found, "eos_token_id": _list(found["eos_token_id"])}
    except FileNotFoundError:
        raise EngineError(f"{folder} is no ONNX model: it has no {CONFIG}; `kgwalk export` makes one") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EngineError(f"{folder / CONFIG} cannot be read: {type(error).__name__}: {error}") from error


def _list(value: Any) -> list[int]:
    return [int(one) for one in value] if isinstance(value, list) else [int(value)]


# Writing


def write_onnx(model: LoadedModel, plain: Path, folder: Path, numbers: str) -> None:
    """The model, which lies in float32 in the Hugging Face folder `plain`, as ONNX in `folder`.

    A model in f32 is asked beside the one it was made of, and refused if its log-probabilities are others.
    """
    need_onnx()
    os.environ.setdefault(QUIET, "1")
    # A process of its own, since the builder puts modules of common names on the path, and prints. -P: the current
    # folder is not on it.
    run = [sys.executable, "-P", "-m", "onnxruntime_genai.models.builder", "-i", str(plain), "-o", str(folder)]
    run += ["-p", PRECISIONS[numbers], "-e", "cpu", "-c", str(folder / ".cache"), "--extra_options", "hf_token=false"]
    done = subprocess.run(run, capture_output=True, text=True)
    shutil.rmtree(folder / ".cache", ignore_errors=True)
    if done.returncode:
        said = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), f"status {done.returncode}")
        raise KgwalkError(f"{model.name}: onnxruntime-genai's builder does not write it: {said}; export it as hf")
    for name in COPIED:
        if (plain / name).is_file():
            shutil.copyfile(plain / name, folder / name)
    if numbers == "f32" and (off := off_by(model, folder)) > FURTHEST:
        raise KgwalkError(
            f"{model.name}: written as ONNX its log-probabilities are off by {off:.2g}, so onnxruntime-genai's builder "
            "does not know this model right; export it as hf"
        )


def off_by(model: LoadedModel, folder: Path) -> float:
    """By how much log-probabilities differ at most: after a prompt, after more of it, and after one token."""
    import torch

    ids = model.tokens.open_chat(PROBE)
    steps = [ids[: len(ids) // 2], ids[len(ids) // 2 : -1], ids[-1:]]
    with torch.no_grad():
        own_TV = torch.log_softmax(model.module(torch.tensor([ids])).logits[0].float(), -1).numpy()
    sequence = CachedTokens(folder, len(ids) + 1)
    furthest, seen = 0.0, 0
    for step in steps:
        seen += len(step)
        logits_V = sequence.read(step)
        logprobs_V = logits_V - np.logaddexp.reduce(logits_V)
        furthest = max(furthest, float(np.abs(logprobs_V - own_TV[seen - 1]).max()))
    return furthest


# Reading


class CachedTokens:
    """One sequence in onnxruntime-genai, with room for `room` tokens: what was read stays in the model's cache.

    `threads` is 0 for the runtime's choice.
    """

    def __init__(self, folder: Path, room: int, threads: int = 0) -> None:
        genai = runtime()
        self._vocabulary = int(read_config(folder)["vocab_size"])
        try:
            config = genai.Config(str(folder))
            if threads:
                options = {"session_options": {"intra_op_num_threads": threads}}
                config.overlay(json.dumps({"model": {"decoder": options}}))
            self._model = genai.Model(config)
            given = genai.GeneratorParams(self._model)
            given.set_search_options(max_length=room)
            self._generator = genai.Generator(self._model, given)
        except RuntimeError as error:
            raise EngineError(f"ONNX Runtime does not open {folder}: {error}") from error

    def read(self, ids: Sequence[int]) -> NDArray[np.float64]:
        """Puts the tokens after those that were read; the logits of the next one, V of them."""
        self._generator.append_tokens(np.array(ids, np.int32))
        return np.asarray(self._generator.get_logits(), np.float64).reshape(-1)[-self._vocabulary :]

    def keep(self, count: int) -> None:
        """Forgets all but the first `count` tokens."""
        self._generator.rewind_to(count)


def readme(called: str, base: str, numbers: str) -> str:
    """How the folder is used, for who finds it; a test runs what stands in it."""
    return f"""# {called} as ONNX

A kgwalk agent made of {base or "a model of its own"}, its weights in {numbers}. It answers questions by walking a
knowledge graph.

It walks with [kgwalk](https://github.com/kgwalk/kgwalk), `{INSTALL}`:

    kgwalk ask 'YOUR QUESTION' --engine onnx --model .

The model alone runs in [onnxruntime-genai](https://pypi.org/project/onnxruntime-genai/), in this folder:

```python
import json

import onnxruntime_genai as genai

model = genai.Model(".")
tokenizer = genai.Tokenizer(model)
chat = [{{"role": "user", "content": "who directed Big?"}}]
prompt = tokenizer.apply_chat_template(json.dumps(chat), add_generation_prompt=True)
params = genai.GeneratorParams(model)
params.set_search_options(max_length=256)  # greedy, as the agent walks; it ends at the stop tokens of {CONFIG}
generator = genai.Generator(model, params)
generator.append_tokens(tokenizer.encode(prompt))
while not generator.is_done():
    generator.generate_next_token()
print(tokenizer.decode(generator.get_sequence(0)))
```

onnxruntime opens `model.onnx` by itself as well: `input_ids`, `attention_mask` and `past_key_values.N.key` and `.value`
go in, `logits` and `present.N.key` and `.value` come out. ONNX Runtime reports its use to Microsoft unless
`{QUIET}=1` is set; kgwalk sets it.
"""
