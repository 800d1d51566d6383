"""Models and tokenizers small enough to be made in a test: random weights, a BPE trained on three sentences."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from kgwalk.llm.models import LoadedModel
from kgwalk.llm.tokenizers import HfTokenizer

# Two cores, two test processes, and other work beside them: threads that wait for each other would wait for long.
torch.set_num_threads(1)

# Values over the profile `smoke`: one short pass of SFT leaves the model knowing nothing, so that it earns luck alone.
# For tests of what is around the learning. (Left as it is, the profile learns its demonstrations by heart.)
UNTAUGHT = {
    "model.lora_rank": 4,
    "model.lora_alpha": 8.0,
    "train.limit": 12,
    "demos.limit": 8,
    "sft.epochs": 1,
    "sft.batch": 4,
    "sft.lr": 1e-3,
    "sft.save_every": 1,
    "grpo.questions": 2,
    "grpo.group": 2,
    "grpo.episodes": 1,
    "rewards.luck": 1.0,
    "curriculum.demonstrated": "false",
}
UNTAUGHT_VALUES = tuple(f"{key}={value}" for key, value in UNTAUGHT.items())

SENTENCES = [
    "Cast Away was directed by Robert Zemeckis and starred Tom Hanks; who directed Big? Penny Marshall directed Big.",
    "<search>tail_relations('Tom Hanks')</search> <information>starred_actors, directed_by</information>",
    "Ünïcödé names such as 東京 and Жуковский are names, too. The quick brown fox jumps over the lazy dog.",
]

CHATML = (
    "{% for m in messages %}{% if loop.first and m['role'] != 'system' %}"
    "{{ '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}{% endif %}"
    "{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
LLAMA3 = (
    "{{ bos_token }}{% set today = strftime_now('%d %b %Y') %}"
    "{% for m in messages %}{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' }}"
    "{% if m['role'] == 'system' %}{{ 'Today Date: ' + today + '\\n\\n' }}{% endif %}"
    "{{ m['content'] | trim + '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"
)
MISTRAL = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}"
    "{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + ' [/INST]' }}"
    "{% else %}{{ ' ' + m['content'] + eos_token }}{% endif %}{% endfor %}"
)
SPECIAL: dict[str, list[str]] = {  # the first is bos, the second eos
    "chatml": ["<|endoftext|>", "<|im_end|>", "<|im_start|>"],
    "llama3": ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"],
    "mistral": ["<s>", "</s>", "[INST]", "[/INST]"],
    "none": ["<s>", "</s>"],
}
TEMPLATES = {"chatml": CHATML, "llama3": LLAMA3, "mistral": MISTRAL, "none": None}


@functools.cache
def tiny_tokenizer(kind: str = "chatml", *, spaced: bool = False) -> PreTrainedTokenizerFast:
    """`spaced`: as SentencePiece does it, with a space before every text and a mark for a space."""
    special = SPECIAL[kind]
    tokenizer = Tokenizer(models.BPE())
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    if spaced:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
        tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
        alphabet = ["\n", *map(chr, range(33, 127))]
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(SENTENCES * 4, trainer)
    if kind in ("mistral", "none"):  # as theirs do: an encoded text begins with <s>
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{special[0]} $A", special_tokens=[(special[0], tokenizer.token_to_id(special[0]))]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=special[0],
        eos_token=special[1],
        chat_template=TEMPLATES[kind],
        name_or_path=f"tiny-{kind}",
    )


SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 1024,
    "initializer_range": 0.15,  # wide: the likeliest token is so by far more than what rounding can change
}
KINDS = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
}


def tiny_module(kind: str = "llama", **changes: Any) -> PreTrainedModel:
    config_class, model_class = KINDS[kind]
    size = len(tiny_tokenizer())
    torch.manual_seed(7)
    module: PreTrainedModel = model_class(config_class(vocab_size=size, eos_token_id=None, **{**SIZES, **changes}))
    return module.eval()


def tiny_model(kind: str = "llama", **changes: Any) -> LoadedModel:
    return LoadedModel(f"tiny-{kind}", tiny_module(kind, **changes), HfTokenizer(tiny_tokenizer()))


def save_tiny(folder: Path, kind: str = "llama") -> Path:
    tiny_module(kind).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder
