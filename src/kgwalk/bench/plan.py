"""What a training takes: memory, GPUs and how to split over them, tokens and seconds of a step, and GPU hours.

    plan_training(shape_of("3B"), GPUS["h200"], TrainingWork.of(load_recipe("kg-r1")), gpus=4)

`bench/roofline.py` says what a step needs at least; here is what programs reach of that. Each factor is from a run on
one H200, and `tests/bench/test_plan.py` holds the plan against other runs. Nothing was measured on other GPUs, on
several at once, or above 1.5 billion weights: there the plan is arithmetic. Needs no torch.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from kgwalk.bench.roofline import (
    HALF,
    SINGLE,
    active_step_operations,
    cache_bytes_a_token,
    decoder_of_shape,
    floor_seconds,
    forward_operations_a_token,
    gather_seconds,
    kept_bytes_a_token,
    recomputed_bytes_a_token,
    state_bytes,
    step_bytes,
    training_operations_a_token,
)
from kgwalk.bench.shapes import ModelShape
from kgwalk.config.recipe import Recipe, read_section
from kgwalk.training.settings import GrpoSettings, ModelSettings
from kgwalk.types import KgwalkError
from kgwalk.walk.policy import budget_of

# Of the data sheet, measured on one H200 (`kgwalk bench engine`): copies 4.14 of 4.8 TB/s, products 784 of 989 TFLOP/s.
COPY_SHARE, PRODUCT_SHARE = 4.14 / 4.8, 784 / 989
# Of measured copies and products, SmolLM2-135M on one H200 (docs/reference/benchmarks.md).
LAYER_SECONDS = 35e-6  # that a layer's kernels take in a step, however little they do. From batch 256 and 1,024
DECODE_SHARE = 0.825  # of the bandwidth, by all else of a step. From the same two
STEP_SHARE = 0.337  # of the arithmetic, by a step of many sequences
# Of the arithmetic, by products of passes over prompts, and what a layer takes for a token besides, as bytes copied.
# From 1,147,447 tokens/s of 135M and 545,142 of Qwen2.5-0.5B.
PROMPT_SHARE, PROMPT_BYTES = 0.622, 55.1e3
WALK_SHARE = 0.51  # of full batches' speed, in walks: sequences wait for tools and for others. metaqa 0.476, cwq 0.546
TRAIN_SHARE = 0.185  # of the arithmetic, by an update with LoRA: 1,024 demonstrations in 2.18 s
EPISODE_SECONDS = 0.4e-3  # of the host, for rewards and packing: 0.41 s for 1,024 episodes of cwq-fbpool
VLLM_REQUEST_SECONDS, VLLM_TOKEN_SECONDS = 0.73e-3, 17e-6  # of the host. From 1,024 prompts and 4,096 walks
# Of `kept_bytes_a_token`, at most in use: 90 GB of a whole step, compiled; 27 GB for 16,384 tokens by transformers.
COMPILED_KEPT, PLAIN_KEPT = 0.86, 2.28

# As the engine and the trainer have them: llm/torch_engine/model.py, training/memory.py and training/updater.py.
SEQUENCES, LEAST_SEQUENCES = 1024, 8
CACHE_SHARE, ACTIVATION_SHARE = 0.5, 0.8  # of what is free
LOGIT_TOKENS, LOGIT_COPIES = 1024, 4
FEW_TOKENS = 8192  # a microbatch that would be smaller computes activations again

NODE_GPUS = 8
NODE_LINK = 50e9  # bytes a second from one node to another, for each GPU: 400 Gbit/s
MOST_GPUS = 512
NATIVE, OUTSIDE = "kgwalk", "verl or TRL"


@dataclass(frozen=True, slots=True)
class Gpu:
    """A data sheet: memory in bytes, bytes and bfloat16 operations a second, bytes a second to its neighbours."""

    name: str
    memory: float
    bandwidth: float
    rate: float
    link: float

    @property
    def copies(self) -> float:
        """Bytes that a copy reads and writes in a second."""
        return COPY_SHARE * self.bandwidth

    @property
    def products(self) -> float:
        """Operations a second of a large matrix product."""
        return PRODUCT_SHARE * self.rate


GPUS = {
    "h200": Gpu("H200", 141e9, 4.8e12, 989e12, 450e9),
    "h100": Gpu("H100", 80e9, 3.35e12, 989e12, 450e9),
    "a100": Gpu("A100 80GB", 80e9, 2.039e12, 312e12, 300e9),
    "a100-40": Gpu("A100 40GB", 40e9, 1.555e12, 312e12, 300e9),
    "b200": Gpu("B200", 180e9, 8.0e12, 2250e12, 900e9),
    "l40s": Gpu("L40S", 48e9, 0.864e12, 362e12, 32e9),
    "rtx4090": Gpu("RTX 4090", 24e9, 1.008e12, 165e12, 32e9),
}


@dataclass(frozen=True, slots=True)
class WalkLengths:
    """Tokens of an episode in the mean: its prompt, all observations together, all turns of the model's together."""

    turns: float
    prompt: float
    observed: float
    written: float

    @property
    def whole(self) -> float:
        return self.prompt + self.observed + self.written

    @property
    def context(self) -> float:
        """What a token that is drawn sees in the mean.

        >>> WalkLengths(3, prompt=300, observed=160, written=40).context
        400.0
        """
        return self.prompt + (self.observed + self.written) / 2

    def computed(self, group: int) -> float:
        """Tokens that are computed for an episode, if its prompt is computed once for the group.

        >>> WalkLengths(3, prompt=400, observed=160, written=40).computed(group=8)
        250.0
        """
        return self.prompt / group + self.observed + self.written


# SmolLM2-135M after SFT and GRPO, 300 questions of cwq-fbpool (docs/results/recipes.json); prompts counted on the
# bundled graph. EoG's were cut to 3,000 tokens. Larger models write more: give their numbers.
WALKS = {
    "kgwalk": WalkLengths(3.3, 308, 326, 44),
    "kg-r1": WalkLengths(5.2, 289, 246, 297),
    "graph-rft": WalkLengths(4.0, 490, 182, 267),
    "kg-hopper": WalkLengths(3.7, 202, 394, 330),
    "kg-reasoner": WalkLengths(4.6, 264, 640, 301),
    "eog": WalkLengths(1.0, 3037, 0, 171),
}


@dataclass(frozen=True, slots=True)
class TrainingWork:
    """What a recipe asks of the machine, by its own numbers."""

    recipe: str
    walk: WalkLengths
    questions: int
    group: int
    steps: int
    context: int  # tokens of an episode at most
    microbatch_tokens: int
    lora_rank: int  # 0: all weights are trained
    reference: bool  # a KL term
    recomputed: bool | str = "auto"
    epochs: int = 1

    @classmethod
    def of(cls, recipe: Recipe) -> TrainingWork:
        """The recipe's work; the lengths of its walks as they were measured, or those of KG-R1."""
        grpo, model = read_section(GrpoSettings, recipe, "grpo"), read_section(ModelSettings, recipe, "model")
        return cls(
            recipe=recipe.name,
            walk=WALKS.get(recipe.name, WALKS["kg-r1"]),
            questions=grpo.questions,
            group=grpo.group,
            steps=grpo.steps,
            context=budget_of(recipe).total_tokens,
            microbatch_tokens=grpo.microbatch_tokens,
            lora_rank=model.lora_rank,
            reference=grpo.kl > 0,
            recomputed=model.checkpoint_activations,
            epochs=grpo.epochs,
        )

    def with_walk(self, told: float | None, written: float | None) -> TrainingWork:
        """With other tokens an episode; those that it is told are a prompt as long as before, and observations."""
        walk = self.walk
        if told is not None:
            prompt = min(walk.prompt, told)
            walk = replace(walk, prompt=prompt, observed=told - prompt)
        return replace(self, walk=walk if written is None else replace(walk, written=written))

    @property
    def lora(self) -> bool:
        return self.lora_rank > 0

    @property
    def episodes(self) -> int:
        return self.questions * self.group


# Speeds of one GPU


def decode_step_seconds(shape: ModelShape, gpu: Gpu, batch: int, length: float, split: int = 1) -> float:
    """Seconds in which each of `batch` sequences gets a token; `split` is over how many GPUs a layer is cut.

    SmolLM2-135M, 1,024 sequences of 512 tokens: 12.6 GB at 0.825 x 4.14 TB/s are 3.7 ms, 30 layers 1.05 ms:

    >>> from kgwalk.bench.shapes import shape_of
    >>> round(1e3 * decode_step_seconds(shape_of("135M"), GPUS["h200"], 1024, 512.5), 2)  # 4.74 ms measured
    4.73
    """
    moved = step_bytes(decoder_of_shape(shape, batch), batch, length)
    operations = active_step_operations(shape, batch, length)
    rates = {"bandwidth": DECODE_SHARE * gpu.copies * split, "rate": STEP_SHARE * gpu.products * split}
    return shape.layers * LAYER_SECONDS + floor_seconds(moved, operations, **rates)


def prompt_tokens_a_second(shape: ModelShape, gpu: Gpu, length: float) -> float:
    """Tokens of prompts and observations that a GPU takes in in a second.

    SmolLM2-135M: 230 million operations at 0.622 x 784 TFLOP/s are 0.47 us, 30 layers 0.40 us:

    >>> from kgwalk.bench.shapes import shape_of
    >>> round(1e6 / prompt_tokens_a_second(shape_of("135M"), GPUS["h200"], 512), 2)
    0.87
    """
    operations = forward_operations_a_token(shape, length, written=0)
    return 1 / (operations / (PROMPT_SHARE * gpu.products) + shape.layers * PROMPT_BYTES / gpu.copies)


def training_tokens_a_second(
    shape: ModelShape, gpu: Gpu, walk: WalkLengths, *, lora: bool, recomputed: bool = False, forwards: int = 0
) -> float:
    """Tokens that an update computes in a second; `forwards` are passes besides, such as that of a reference."""
    share = walk.written / walk.whole
    operations = training_operations_a_token(shape, walk.whole, share, lora=lora, recomputed=recomputed)
    operations += forwards * forward_operations_a_token(shape, walk.whole, share)
    return TRAIN_SHARE * gpu.products / operations


def walk_seconds(shape: ModelShape, gpu: Gpu, work: TrainingWork, episodes: int, batch: int) -> float:
    """Seconds in which one GPU rolls out `episodes` by kgwalk's engine, at most `batch` at once."""
    walk, batch = work.walk, min(batch, episodes)
    told = episodes * (walk.prompt / work.group + walk.observed)
    drawn = episodes * walk.written * decode_step_seconds(shape, gpu, batch, walk.context) / batch
    return told / prompt_tokens_a_second(shape, gpu, walk.context) + drawn / WALK_SHARE


def vllm_walk_seconds(
    shape: ModelShape, gpu: Gpu, work: TrainingWork, episodes: int, batch: int, split: int = 1
) -> float:
    """The same by vLLM on `split` GPUs: its host's time for each request and token comes on top of the GPU's."""
    walk, batch = work.walk, min(batch, episodes)
    told = episodes * (walk.prompt / work.group + walk.observed)
    drawn = episodes * walk.written * decode_step_seconds(shape, gpu, batch, walk.context, split) / batch
    host = episodes * (walk.turns * VLLM_REQUEST_SECONDS + walk.written * VLLM_TOKEN_SECONDS)
    return told / (split * prompt_tokens_a_second(shape, gpu, walk.context)) + drawn + host


# Memory of one GPU


@dataclass(frozen=True, slots=True)
class GpuLayout:
    """Who trains on how many GPUs: each weight lies in `shards` parts, a layer that walks is cut over `split` GPUs."""

    backend: str
    gpus: int
    shards: int = 1
    split: int = 1

    @property
    def native(self) -> bool:
        return self.backend == NATIVE


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes of one GPU by what holds them, and how much fits beside: sequences that walk, tokens of a microbatch."""

    held: dict[str, float]
    sequences: int
    microbatch_tokens: int
    recomputed: bool

    @property
    def total(self) -> float:
        return sum(self.held.values())


def memory_use(shape: ModelShape, gpu: Gpu, work: TrainingWork, layout: GpuLayout) -> MemoryUse | None:
    """What lies in the memory of one GPU; None if it does not fit.

    Weights, gradients and moments are in shards; the engine that walks has its own copy in bfloat16. kgwalk's cache has
    room for the longest episodes and stays while it updates. vLLM's has pages for what there is, and is given back, so
    that the larger of cache and activations counts.
    """
    held = {name: value / layout.shards for name, value in state_bytes(shape, work.lora_rank).items()}
    if work.reference and not work.lora:
        held["reference"] = 2 * SINGLE * shape.weights / layout.shards  # itself, and the weights that it replaces
    held["engine's copy"] = HALF * shape.weights / layout.split
    held["logits"] = LOGIT_COPIES * LOGIT_TOKENS * shape.vocabulary * SINGLE
    free = gpu.memory - sum(held.values())
    length = work.context if layout.native else min(work.walk.whole, work.context)
    a_sequence = length * cache_bytes_a_token(shape) / layout.split
    sequences = min(SEQUENCES, int(CACHE_SHARE * free / a_sequence))
    if sequences < min(LEAST_SEQUENCES, work.episodes):
        return None
    held["cache"] = sequences * a_sequence
    room = free - held["cache"] if layout.native else free
    found = _microbatch(shape, work, ACTIVATION_SHARE * room, native=layout.native)
    if found is None:
        return None
    tokens, recomputed, activations = found
    held["activations"] = activations if layout.native else max(0.0, activations - held["cache"])
    return MemoryUse(held, sequences, tokens, recomputed)


def _microbatch(shape: ModelShape, work: TrainingWork, room: float, *, native: bool) -> tuple[int, bool, float] | None:
    """Tokens of a microbatch, whether their activations are computed again, and bytes; None without room for one
    episode.
    """
    factor = COMPILED_KEPT if native else PLAIN_KEPT
    ways = [(kept_bytes_a_token(shape), False), (recomputed_bytes_a_token(shape), True)]
    for bytes_a_token, again in ways:
        tokens = min(work.microbatch_tokens, int(room / (factor * bytes_a_token)))
        if work.recomputed == "auto":
            wanted = again or tokens >= min(FEW_TOKENS, work.microbatch_tokens)
        else:
            wanted = again is work.recomputed
        if wanted and tokens >= min(work.context, work.microbatch_tokens):
            return tokens, again, tokens * factor * bytes_a_token
    return None


# The whole


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """A training on so many GPUs: memory in bytes of one of them, seconds of a step and its parts."""

    shape: ModelShape
    gpu: Gpu
    work: TrainingWork
    layout: GpuLayout
    memory: MemoryUse
    decode_tokens_a_second: float  # of one GPU, while all its sequences are drawn
    training_tokens_a_second: float  # of one GPU, computed ones
    walk_seconds: float
    update_seconds: float
    link_seconds: float
    host_seconds: float
    fewest: int = 0  # GPUs on which it fits

    @property
    def nodes(self) -> int:
        return math.ceil(self.layout.gpus / NODE_GPUS)

    @property
    def step_seconds(self) -> float:
        return self.walk_seconds + self.update_seconds + self.link_seconds + self.host_seconds

    @property
    def gpu_hours(self) -> float:
        return self.layout.gpus * self.step_seconds * self.work.steps / 3600

    @property
    def how(self) -> str:
        """The split in words."""
        copies = self.layout.gpus // self.layout.shards
        parts = [f"data parallel x {copies}"] if copies > 1 else []
        parts += [f"FSDP in {self.layout.shards} shards"] if self.layout.shards > 1 else []
        parts += [f"walks split over {self.layout.split}"] if self.layout.split > 1 else []
        return ", ".join(parts) or "one process"

    def as_json(self) -> dict[str, Any]:
        shape = {"weights": self.shape.weights, "active_weights": self.shape.active_weights}
        return {
            "model": self.shape.name,
            **shape,
            "gpu": self.gpu.name,
            "fewest_gpus": self.fewest,
            "nodes": self.nodes,
            **asdict(self.layout),
            "how": self.how,
            "work": asdict(self.work),
            "memory_bytes": self.memory.held,
            "memory_total_bytes": self.memory.total,
            "sequences": self.memory.sequences,
            "microbatch_tokens": self.memory.microbatch_tokens,
            "recomputed": self.memory.recomputed,
            "decode_tokens_a_second": self.decode_tokens_a_second,
            "training_tokens_a_second": self.training_tokens_a_second,
            "seconds": {
                "walk": self.walk_seconds,
                "update": self.update_seconds,
                "links": self.link_seconds,
                "host": self.host_seconds,
                "step": self.step_seconds,
            },
            "gpu_hours": self.gpu_hours,
        }


def plan_training(shape: ModelShape, gpu: Gpu, work: TrainingWork, gpus: int | None = None) -> ClusterPlan:
    """The plan for so many GPUs; without `gpus`, for the fewest on which it fits, counted in powers of two."""
    fewest = next(filter(None, (_plan_on(2**power, shape, gpu, work) for power in range(MOST_GPUS.bit_length()))), None)
    if fewest is None:
        raise KgwalkError(
            f"{shape.name} does not fit on {MOST_GPUS} GPUs of {gpu.memory / 1e9:.0f} GB with episodes of "
            f"{work.context:,} tokens; give a smaller rollout.total_tokens" + ("" if work.lora else ", or --lora")
        )
    found = fewest if gpus is None else _plan_on(gpus, shape, gpu, work)
    if found is None:
        what = "an adapter" if work.lora else "all weights"
        raise KgwalkError(
            f"to train {what} of {shape.name} does not fit on {gpus} x {gpu.name} ({gpu.memory / 1e9:.0f} GB each); "
            f"give --gpus {fewest.layout.gpus}" + ("" if work.lora else ", or --lora")
        )
    return replace(found, fewest=fewest.layout.gpus)


def _plan_on(gpus: int, shape: ModelShape, gpu: Gpu, work: TrainingWork) -> ClusterPlan | None:
    """By kgwalk's own trainer on one node, the simplest way that fits; else by the outside ones, the quickest way."""
    if gpus <= NODE_GPUS and not shape.experts:
        native = _fitting(shape, gpu, work, _native_layouts(gpus))
        if native:
            return native[0]
    outside = _fitting(shape, gpu, work, _outside_layouts(gpus))
    return min(outside, key=lambda plan: plan.step_seconds) if outside else None


def _native_layouts(gpus: int) -> list[GpuLayout]:
    """kgwalk's own trainer, whole in each process or in as many shards as there are. Not for experts, which its engine
    was never tried with.
    """
    return [GpuLayout(NATIVE, gpus), GpuLayout(NATIVE, gpus, shards=gpus)]


def _outside_layouts(gpus: int) -> list[GpuLayout]:
    parts = [part for part in (1, 2, 4, 8) if gpus % part == 0]
    shards = sorted({*parts, *(part for part in range(NODE_GPUS, gpus + 1, NODE_GPUS) if gpus % part == 0), gpus})
    return [GpuLayout(OUTSIDE, gpus, count, split) for count in shards for split in parts]


def _fitting(shape: ModelShape, gpu: Gpu, work: TrainingWork, layouts: list[GpuLayout]) -> list[ClusterPlan]:
    uses = [(layout, memory_use(shape, gpu, work, layout)) for layout in layouts]
    return [_planned(shape, gpu, work, layout, memory) for layout, memory in uses if memory is not None]


def _planned(shape: ModelShape, gpu: Gpu, work: TrainingWork, layout: GpuLayout, memory: MemoryUse) -> ClusterPlan:
    walk = work.walk
    own = math.ceil(work.episodes / layout.gpus)  # episodes of one GPU
    forwards = int(work.reference) + (0 if layout.native else 1)  # the others compute old log-probabilities again
    speed = training_tokens_a_second(shape, gpu, walk, lora=work.lora, recomputed=memory.recomputed, forwards=forwards)
    computed = own * (walk.computed(work.group) if layout.native else walk.whole)
    batch = min(memory.sequences, own * layout.split)
    if layout.native:
        rolled = walk_seconds(shape, gpu, work, own, batch)
    else:
        rolled = vllm_walk_seconds(shape, gpu, work, own * layout.split, batch, layout.split)
    step = decode_step_seconds(shape, gpu, batch, walk.context, layout.split)
    return ClusterPlan(
        shape=shape,
        gpu=gpu,
        work=work,
        layout=layout,
        memory=memory,
        decode_tokens_a_second=batch / step / layout.split,
        training_tokens_a_second=speed,
        walk_seconds=rolled,
        update_seconds=work.epochs * computed / speed,
        link_seconds=work.epochs * _link_seconds(shape, gpu, work, layout, computed / memory.microbatch_tokens),
        host_seconds=own * EPISODE_SECONDS,
    )


def _link_seconds(shape: ModelShape, gpu: Gpu, work: TrainingWork, layout: GpuLayout, microbatches: float) -> float:
    """Seconds between GPUs in one pass over a step's episodes. Each microbatch gathers the weights forward and backward
    and, if all are trained, scatters their gradients; then the copies' gradients are summed. Not measured.
    """
    link = gpu.link if layout.shards <= NODE_GPUS else NODE_LINK
    gathers = (2 if work.lora else 3) * math.ceil(microbatches) + 1  # one more for the engine's copy
    seconds = gathers * gather_seconds(HALF * shape.weights, layout.shards, link=link)
    copies = layout.gpus // layout.shards
    trained = state_bytes(shape, work.lora_rank)["gradients"] / layout.shards
    between = gpu.link if layout.gpus <= NODE_GPUS else NODE_LINK
    return seconds + 2 * gather_seconds(trained, copies, link=between)
