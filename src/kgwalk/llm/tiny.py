"""Small models made from scratch: random weights, and a tokenizer trained on given texts.

`tiny-random` is such a model by name, for tests and for trying things out: it runs anywhere in moments, and its answers
mean nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kgwalk.config.cache import cache_folder, made_once
from kgwalk.config.runtime import without_progress_bars

TINY = "tiny-random"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
_FORM = 4  # to be raised when `tiny-random` changes
# Words of prompts, calls and thoughts: they become short in tokens, so that a turn takes few steps.
_TEXTS = [
    "Answer the question by walking a knowledge graph. Each turn is one call or the answer; think before each of them.",
    "The question, the entities to start from and the graph are given: a list of facts [head, relation, tail].",
    "Names stand in double quotes, written exactly as they were shown to you. Write the plan once, step by step.",
    "Then answer with a JSON list of names, for example the first name and the second name, and nothing else.",
    "If an entity leads nowhere, go back to the nearest one that still has candidates which you have not searched.",
    "What is in all of them, in any of them, in the first and in none of the others; count it, or take the largest.",
    '<think>The relation that leaves the set is capital_of.</think><kg-query>get_tail_entities("Norway", "capital")'
    '</kg-query><information>Tail entities: Oslo</information><answer>["Oslo"]</answer>',
    '<kg-query>get_head_relations("euro")</kg-query><information>Head relations: currency, country</information>',
    '<think>Relations of Norway?</think><plan>Step 1: Find the country of Oslo. Ans1 = SearchKG(t="entity" | h="Oslo", '
    'r="country") Ans2 = SearchKG(t="entity" | h=Ans1, r="borders") Intersect(Ans1, Ans2) Union Negation</plan>',
    '<relation_search>"Norway", "borders"</relation_search><relation_information>borders</relation_information>',
    '<neighbor_search>"Norway", "borders"</neighbor_search><neighbor_information>(Norway, borders, ?): Sweden'
    "</neighbor_information>",
    '<search>Norway</search><searched_triples>(Norway, currency, krone)</searched_triples><search backtrack="true">'
    "</search>",
    'tail_entities($1, "currency") head_entities($2, "in_country") intersect($1, $2) minus count <answer>$3</answer>',
    'tail_relations("Norway") union($1, $2) argmax($1, "population") filter($1, "area", ">", "1000")',
    "What does it have? Who or what has it? List relations of it. Follow borders. Next: capital. Common: none. "
    "Find what has it as its language. That is the answer. Answer found. Done. Backwards.",
    "Which countries and territories share a border with France, use the euro, belong to Asia? How many are there? "
    "What is the population of the capital of Kenya, its continent, subregion, official language, time zone, domain?",
    "continent subregion capital country borders currency currency_code official_language language timezone "
    "spans_timezone utc_offset internet_domain population area calling_code",
]


def make_tiny(
    folder: Path,
    texts: Iterable[str],
    *,
    vocabulary: int = 512,
    hidden: int = 64,
    layers: int = 2,
    heads: int = 4,
    context: int = 8192,
    spread: float = 0.02,
    seed: int = 0,
) -> Path:
    """A small Llama in a Hugging Face folder; its byte-level BPE tokenizer is trained on the texts.

    `spread` is the standard deviation of the weights. 0.02 is for wide models; a narrow one that is to learn a few
    texts by heart in some dozen steps wants about 1 / sqrt(hidden), so that what a layer adds is not lost beside what
    passes by it.
    """
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # type: ignore[assignment,unused-ignore]
    bpe.decoder = decoders.ByteLevel()  # type: ignore[assignment,unused-ignore]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    bpe.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call,unused-ignore]
        tokenizer_object=bpe, eos_token=SPECIAL[2], pad_token=SPECIAL[0], chat_template=TEMPLATE
    )
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=max(1, heads // 2),
        max_position_embeddings=context,
        bos_token_id=None,
        eos_token_id=tokenizer.convert_tokens_to_ids(SPECIAL[2]),
        tie_word_embeddings=True,
        initializer_range=spread,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)  # type: ignore[no-untyped-call,unused-ignore]
    with without_progress_bars():
        model.save_pretrained(str(folder), safe_serialization=True)
    tokenizer.save_pretrained(str(folder))
    return folder


def tiny_folder() -> Path:
    """The folder of `tiny-random` in the cache, made at the first call."""
    place = cache_folder() / "models" / f"{TINY}-{_FORM}"
    return made_once(
        place, lambda beside: make_tiny(beside, _TEXTS * 4, vocabulary=1024, layers=1, heads=2, spread=0.2), TINY
    )
