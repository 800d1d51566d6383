"""GGUF files: a file becomes a Hugging Face folder once, and a model in memory is written as a file.

    gguf_folder(file, "float32")                       # the folder, in the cache
    write_gguf(model, Path("agent.gguf"), "q8_0")      # what llama.cpp, Ollama and LM Studio run
    modelfile(model.tokens, "agent.gguf", 8192)        # what `ollama create` reads beside it

What is written has the model as this program runs it: its chat template, end tokens, and the rule by which text is cut
before it is encoded. A family or a tokenizer whose form in GGUF is not known here is refused, as a file that is nearly
right gives other tokens, and so other answers.
"""

from __future__ import annotations

import functools
import json
import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

from kgwalk.config.cache import cache_folder, made_once
from kgwalk.llm.tokenizers import end_id
from kgwalk.types import EngineError, KgwalkError, Message

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kgwalk.llm.models import LoadedModel
    from kgwalk.llm.tokenizers import HfTokenizer

log = logging.getLogger(__name__)

FORM = 1  # of the folders made from GGUF files: a new number leaves the old ones alone
NUMBERS = ("f32", "f16", "bf16", "q8_0")  # of the weights in a file that is written
# Model types that can be written: the name of their architecture, and whether llama.cpp wants the two halves of each
# head of queries and keys interleaved.
FAMILIES = {"llama": ("LLAMA", True), "qwen2": ("QWEN2", False), "qwen3": ("QWEN3", False)}
ELSEWHERE = "export it as hf, and convert the folder with llama.cpp's convert_hf_to_gguf.py"
BLOCK = 32  # weights of q8_0 that share a scale
LARGEST_F16 = 65504.0

# How text is cut before it is encoded, by the regular expression of the tokenizer's own Split: llama.cpp's name for it,
# and whether a piece that is a token itself is taken without merging.
_SPLITS = {
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+": (
        "qwen2",
        False,
    ),
    (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+"
    ): ("llama-bpe", True),
}


# Reading


def gguf_folder(file: Path, dtype: str) -> Path:
    """The file's model and tokenizer as a folder that any Hugging Face tool loads; `dtype` is torch's name for it.

    transformers reads a GGUF file in half a minute, and such a folder in a second. The folder is kept in the cache,
    named by the file's content and the dtype.
    """
    place = cache_folder() / "models" / f"{file.stem}-{dtype}-{_digest(file)}-{FORM}"

    def make(beside: Path) -> None:
        started = time.monotonic()
        log.info("reading %s; this is done once", file)
        _convert(file, beside, dtype)
        log.info("read after %.0f s", time.monotonic() - started)

    return made_once(place, make, str(file), f"{_bytes_needed(file) / 1e9:.1f} GB")


def _digest(file: Path) -> str:
    digest = xxhash.xxh3_128()
    with file.open("rb") as stream:
        while block := stream.read(1 << 22):
            digest.update(block)
    return str(digest.hexdigest())[:16]


def _bytes_needed(file: Path) -> int:
    return file.stat().st_size * 8  # four bits a weight, written as 32


def _convert(file: Path, folder: Path, dtype: str) -> None:
    import torch
    from safetensors.torch import save_model
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import quantization_config as forms

    # Newer versions may leave some models' weights packed, unless they are told.
    form = getattr(forms, "GgufConfig", None)
    options = {} if form is None else {"quantization_config": form(dequantize=True)}
    with _read_once():
        try:
            tokenizer = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name, trust_remote_code=False)
            module: Any = AutoModelForCausalLM.from_pretrained(
                str(file.parent),
                gguf_file=file.name,
                dtype=getattr(torch, dtype),
                trust_remote_code=False,
                **options,
            )
        except (ValueError, KeyError, NotImplementedError) as error:
            raise EngineError(f"{file} is not a GGUF file that transformers reads: {error}") from error
    config = module.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config  # it says "GGUF", which the weights no longer are
    config.architectures = [type(module).__name__]
    if isinstance(config.eos_token_id, int):  # transformers 5.10 reads the file's as the tokenizer's bos
        tokenizer.eos_token = tokenizer.convert_ids_to_tokens(config.eos_token_id)
    tokenizer.save_pretrained(folder)
    module.generation_config.save_pretrained(folder)
    save_model(module, str(folder / "model.safetensors"), metadata={"format": "pt"})
    config.save_pretrained(folder)  # last: its presence says that the folder is whole


@contextmanager
def _read_once() -> Iterator[None]:
    """Halves the time that transformers takes to load a GGUF file: it opens the file three times and makes the table of
    names once for each submodule; here both are done once. It also draws no progress bar.
    """
    try:
        import gguf
    except ImportError as error:
        raise EngineError("a GGUF file needs the package gguf: pip install 'kgwalk[local]'") from error
    from transformers import modeling_gguf_pytorch_utils as reading

    def no_bar(rows: Any, **_: object) -> Any:
        return rows

    replaced: list[tuple[Any, str, Any]] = [
        (gguf, "GGUFReader", functools.lru_cache(gguf.GGUFReader)),
        (gguf, "get_tensor_name_map", functools.lru_cache(gguf.get_tensor_name_map)),
        (reading, "tqdm", no_bar),
    ]
    before = [(module, name, getattr(module, name)) for module, name, _ in replaced]
    for module, name, value in replaced:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


# Writing


def write_gguf(model: LoadedModel, path: Path, numbers: str) -> None:
    """Writes the model, with its tokenizer and chat template; one-dimensional weights stay in f32, as llama.cpp wants.

    `numbers` is one of NUMBERS. A row whose length q8_0 does not divide is written in f16.
    """
    try:
        import gguf
    except ImportError as error:
        raise EngineError("a GGUF file needs the package gguf: pip install 'kgwalk[local]'") from error
    from kgwalk.llm.models import context_limit

    if numbers not in NUMBERS:
        raise KgwalkError(f"a GGUF file is written in {', '.join(NUMBERS)}, not in {numbers}")
    config: Any = model.module.config
    kind, interleaved = _family(model)
    tensors = dict(_tensors(model, getattr(gguf.MODEL_ARCH, kind), interleaved))
    types = {name: _number_type(tensor, numbers) for name, tensor in tensors.items()}
    words = len(tensors["token_embd.weight"])
    tokenizer = _tokenizer_fields(model.tokens, words)
    heads = int(config.num_attention_heads)
    size = int(getattr(config, "head_dim", None) or config.hidden_size // heads)
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[getattr(gguf.MODEL_ARCH, kind)])
    file_types = {"f32": "ALL_F32"} | {other: f"MOSTLY_{other.upper()}" for other in NUMBERS[1:]}
    for add, value in {
        "name": path.stem,
        "file_type": getattr(gguf.LlamaFileType, file_types[numbers]),
        "quantization_version": gguf.GGML_QUANT_VERSION,
        "context_length": context_limit(config),
        "embedding_length": int(config.hidden_size),
        "block_count": int(config.num_hidden_layers),
        "feed_forward_length": int(config.intermediate_size),
        "head_count": heads,
        "head_count_kv": int(config.num_key_value_heads),
        "key_length": size,
        "value_length": size,
        "rope_dimension_count": size,
        "rope_freq_base": float(config.rope_parameters["rope_theta"]),
        "layer_norm_rms_eps": float(config.rms_norm_eps),
        "vocab_size": words,
        "tokenizer_model": "gpt2",  # byte-level BPE
        **tokenizer,
    }.items():
        getattr(writer, f"add_{add}")(value)
    for name, tensor in tensors.items():  # first what is where; the weights follow one by one, as they are encoded
        shape = tuple(tensor.shape)
        nbytes = math.prod(gguf.quant_shape_to_byte_shape(shape, types[name]))
        writer.add_tensor_info(name, shape, np.dtype(np.float32), nbytes, raw_dtype=types[name])
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for name, tensor in tensors.items():
            floats = np.ascontiguousarray(_floats(name, tensor, types[name]))
            writer.write_tensor_data(gguf.quantize(floats, types[name]))
    finally:
        writer.close()


def _family(model: LoadedModel) -> tuple[str, bool]:
    config: Any = model.module.config
    if config.model_type not in FAMILIES:
        raise KgwalkError(
            f"{model.name}: a {config.model_type} is not written as GGUF, only a {', '.join(FAMILIES)}; {ELSEWHERE}"
        )
    rope = config.rope_parameters.get("rope_type", "default")
    if rope not in ("default", "llama3"):
        raise KgwalkError(f"{model.name}: positions scaled by {rope} are not written as GGUF; {ELSEWHERE}")
    return FAMILIES[config.model_type]


def _tensors(model: LoadedModel, architecture: Any, interleaved: bool) -> Iterator[tuple[str, Any]]:
    """The weights by their names in a GGUF file."""
    import gguf
    import torch

    config: Any = model.module.config
    names = gguf.get_tensor_name_map(architecture, config.num_hidden_layers)
    weights = model.module.state_dict()
    embedding = weights["model.embed_tokens.weight"]
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for name, weight in weights.items():
        if name == "lm_head.weight" and weight.data_ptr() == embedding.data_ptr():
            continue  # llama.cpp takes the embeddings
        called = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if called is None:
            raise KgwalkError(f"{model.name}: GGUF has no place for its weights {name}; {ELSEWHERE}")
        count = next((count for part, count in heads.items() if f".{part}." in name), None)
        if interleaved and count is not None:
            weight = weight.reshape(count, 2, -1, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)
        yield called, weight
    if config.rope_parameters.get("rope_type", "default") != "default":
        scaled = model.module.model.rotary_emb.inv_freq.float().cpu()
        steps = torch.arange(0, 2 * len(scaled), 2, dtype=torch.float32) / (2 * len(scaled))
        yield "rope_freqs.weight", config.rope_parameters["rope_theta"] ** -steps / scaled


def _number_type(tensor: Any, numbers: str) -> Any:
    import gguf

    if tensor.ndim == 1:
        return gguf.GGMLQuantizationType.F32
    divided = tensor.shape[-1] % BLOCK == 0
    return gguf.GGMLQuantizationType["F16" if numbers == "q8_0" and not divided else numbers.upper()]


def _floats(name: str, tensor: Any, number_type: Any) -> NDArray[np.float32]:
    values: NDArray[np.float32] = tensor.detach().float().cpu().numpy()
    if number_type.name == "F16" and float(np.abs(values).max()) > LARGEST_F16:
        raise KgwalkError(f"{name} has a weight above {LARGEST_F16:,.0f}, the largest of f16; choose --dtype bf16")
    return values


def _tokenizer_fields(tokens: HfTokenizer, words: int) -> dict[str, Any]:
    """What GGUF says of a tokenizer, by the writer's names for it. `words` is how long the table of embeddings is."""
    from gguf import TokenType

    backend: Any = tokens.hf.backend_tokenizer  # type: ignore[attr-defined,unused-ignore]
    spec = json.loads(backend.to_str())
    cut = _cutting(spec, str(tokens.hf.name_or_path))
    texts = {number: text for text, number in spec["model"]["vocab"].items()}
    types = dict.fromkeys(texts, TokenType.NORMAL)
    for number, token in backend.get_added_tokens_decoder().items():
        texts[number] = token.content
        types[number] = TokenType.CONTROL if token.special else TokenType.USER_DEFINED
    numbers = {name: getattr(tokens.hf, f"{name}_token_id") for name in ("bos", "pad", "unk")}
    end = end_id(tokens)
    return {
        "tokenizer_pre": cut,
        "token_list": [texts.get(number, f"[PAD{number}]") for number in range(words)],
        "token_types": [types.get(number, TokenType.UNUSED) for number in range(words)],
        "token_merges": [pair if isinstance(pair, str) else " ".join(pair) for pair in spec["model"]["merges"]],
        "eos_token_id": end,
        "eot_token_id": end,
        **{f"{name}_token_id": number for name, number in numbers.items() if number is not None},
        # the chat template writes whatever a chat begins with
        "add_bos_token": False,
        "add_space_prefix": False,
        "chat_template": tokens.chat_template,
    }


def _cutting(spec: dict[str, Any], name: str) -> str:
    """llama.cpp's name for how this tokenizer cuts a text before it encodes the parts."""
    before = spec.get("pre_tokenizer") or {}
    steps = before.get("pretokenizers", [before])
    kinds = [step.get("type") for step in steps]
    model, form = spec["model"], (spec.get("normalizer") or {}).get("type")
    known = None
    if model.get("type") == "BPE" and not model.get("byte_fallback") and form in (None, "NFC"):
        words = kinds[-1] == "ByteLevel" and not steps[-1].get("add_prefix_space") and steps[-1].get("use_regex", True)
        if kinds == ["ByteLevel"] and words and not model.get("ignore_merges"):
            known = "gpt-2"
        elif kinds == ["Digits", "ByteLevel"] and words and steps[0].get("individual_digits"):
            known = "smollm"
        elif kinds == ["Split", "ByteLevel"] and not words:
            found = _SPLITS.get(steps[0].get("pattern", {}).get("Regex", ""))
            known = found[0] if found is not None and found[1] == bool(model.get("ignore_merges")) else None
    if known is None:
        raise KgwalkError(f"{name}: how its tokenizer cuts a text has no known name in GGUF; {ELSEWHERE}")
    return known


# Ollama


def modelfile(tokens: HfTokenizer, file: str, context: int) -> str:
    """What `ollama create` reads: the file, the chat template in Ollama's language, where a message ends, and greedy
    decoding, as agents walk.
    """
    ends = [tokens.hf.convert_ids_to_tokens(number) for number in sorted(tokens.end_ids)]
    lines = [
        f"FROM ./{file}",
        f'TEMPLATE """{go_template(tokens)}"""',
        "PARAMETER temperature 0",
        f"PARAMETER num_ctx {context}",
    ]
    return "\n".join([*lines, *(f"PARAMETER stop {json.dumps(end, ensure_ascii=False)}" for end in ends)]) + "\n"


_SYSTEM, _QUESTION, _REPLY, _NEXT = (
    "kgwalksystem",
    "kgwalkquestion",
    "kgwalkreply",
    "kgwalknext",
)  # words of no template


@dataclass(frozen=True, slots=True)
class ChatParts:
    """What a chat template writes around messages: before and after those of each role, before a chat without a system
    message, and where the model begins.
    """

    around: Mapping[str, tuple[str, str]]
    default: str
    begin: str

    def text(self, messages: Sequence[Message]) -> str:
        told = "".join(message.content.join(self.around[message.role]) for message in messages)
        return ("" if messages[0].role == "system" else self.default) + told + self.begin


def chat_parts(tokens: HfTokenizer) -> ChatParts:
    """The template cut apart by chats of stand-ins; KgwalkError for one that does not write message after message."""
    system, user = Message("system", _SYSTEM), Message("user", _QUESTION)
    reply, again = Message("assistant", _REPLY), Message("user", _NEXT)
    chats = [[system, user], [user], [system, user, reply, again], [user, reply, again]]
    try:
        before, rest = tokens.chat_text([system, user]).split(_SYSTEM)
        middle, opened = rest.split(_QUESTION)
        asked, replied = tokens.chat_text([system, user, reply, again]).split(_QUESTION)[1].split(_REPLY)
        follows, last = replied.split(_NEXT)
        alone = tokens.chat_text([user]).split(_QUESTION)[0]
        closed = tokens.chat_text([system, user], begin=False).split(_QUESTION)[1]
        ended = tokens.chat_text([user, reply], begin=False).split(_REPLY)[1]
    except (ValueError, IndexError, EngineError):
        raise _no_go(tokens) from None
    ask = follows.removeprefix(ended)
    parts = ChatParts(
        {
            "system": (before, middle.removesuffix(ask)),
            "user": (ask, closed),
            "assistant": (asked.removeprefix(closed), ended),
        },
        alone.removesuffix(ask),
        opened.removeprefix(closed),
    )
    if last != opened or any(parts.text(chat) != tokens.chat_text(chat) for chat in chats):
        raise _no_go(tokens)
    return parts


def go_template(tokens: HfTokenizer) -> str:
    """The chat template in the language of Go's templates, which Ollama reads.

    All text stands in strings, so that nothing is said of white space around the braces.
    """
    parts = chat_parts(tokens)

    def literal(text: str) -> str:
        return f"{{{{ {json.dumps(text, ensure_ascii=False)} }}}}" if text else ""

    roles = [
        f'{{{{ {"else if" if number else "if"} eq .Role "{role}" }}}}{literal(one)}{{{{ .Content }}}}{literal(other)}'
        for number, (role, (one, other)) in enumerate(parts.around.items())
    ]
    default = f"{{{{ if not .System }}}}{literal(parts.default)}{{{{ end }}}}" if parts.default else ""
    return f"{default}{{{{ range .Messages }}}}{''.join(roles)}{{{{ end }}}}{{{{ end }}}}{literal(parts.begin)}"


def _no_go(tokens: HfTokenizer) -> KgwalkError:
    return KgwalkError(
        f"{tokens.hf.name_or_path}: its chat template does not write message after message in one form, so Ollama's "
        "language cannot say it; export as gguf, for programs that read the template itself"
    )
