"""How long one GRPO update takes: made-up episodes of the default model, in groups that share a prompt.

Run: python benchmarks/update.py [--device cuda] [--episodes 1024] [--shapes 290/60 1200/300] [--alone] [--json]

A shape is the length of a prompt and what follows it on average, two thirds of that the model's own tokens. All prompts
begin with the same instructions, 200 tokens unless told. What is timed is what a step does after its rollouts: packing
on the host, forward and backward passes, the optimiser. The first round warms up and is left out; the table has the
median of the others. `--alone` adds the same update with a row for each episode, in the same run. On a processor take
few episodes: `--episodes 16 --rounds 1`.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import time
from typing import Any

import torch

from kgwalk.llm.models import DEFAULT_MODEL
from kgwalk.training.logprobs import TokenScores
from kgwalk.training.loss import LossStats, Totals, policy_loss, token_weights
from kgwalk.training.microbatch import Batch, computed
from kgwalk.training.model import PolicyModel
from kgwalk.training.settings import GrpoSettings, ModelSettings
from kgwalk.training.updater import Updater
from kgwalk.types import Flat


def episodes(
    count: int, group: int, instructions: int, prompt: int, after: int, vocabulary: int
) -> tuple[list[Flat], list[list[float]]]:
    """Turns of up to 20 tokens and observations of up to 10; lengths differ by a third either way."""
    draw = random.Random(0)
    told = [draw.randrange(vocabulary) for _ in range(min(instructions, prompt - 1))]
    flats, advantages = [], []
    for at in range(count):
        if at % group == 0:
            shared = told + [draw.randrange(vocabulary) for _ in range(prompt - len(told))]
        flat = Flat(list(shared), [0] * prompt, [0.0] * prompt, [])
        end = prompt + draw.randint(after * 2 // 3, after * 4 // 3)
        while len(flat.ids) < end:
            for mark, length in ((1, draw.randint(10, 20)), (0, draw.randint(5, 10))):
                length = min(length, end - len(flat.ids))
                flat.ids.extend(draw.randrange(vocabulary) for _ in range(length))
                flat.mask.extend([mark] * length)
                flat.logprobs.extend([-1.0 * mark] * length)
        flats.append(flat)
        advantages.append([draw.choice((-1.0, 1.0)) * mark for mark in flat.mask])
    return flats, advantages


def updated(updater: Updater, flats: list[Flat], advantages: list[list[float]], tokens: int) -> dict[str, float]:
    """One update as a step makes it, and its seconds."""
    totals = Totals.of(flat.mask for flat in flats)
    settings = GrpoSettings()
    _wait(updater)
    begun = time.perf_counter()

    def loss_of(batch: Batch, scores: TokenScores) -> tuple[torch.Tensor, LossStats]:
        return policy_loss(
            scores.logprobs_BT,
            scores.logprobs_BT.detach(),
            batch.advantages_BT,
            batch.mask_BT,
            token_weights("token-mean", batch.mask_BT, totals),
            clip_low=settings.clip_low,
            clip_high=settings.clip_high,
            sampler_BT=batch.old_logprobs_BT,
            importance_cap=settings.importance_cap,
            entropy_BT=scores.entropy_BT,
        )

    batches = [batch for _, batch in updater.pack(flats, advantages, tokens)]
    _, tally = updater.update(batches, loss_of, entropy=True)
    assert tally is not None
    tally.cpu()
    seconds = updater.clock.read("pack", "update", "optimiser")
    _wait(updater)
    return {
        "seconds": time.perf_counter() - begun,
        **seconds,
        "microbatches": len(batches),
        "computed": computed(batches, flats),
        "rows_tokens": sum(batch.ids_RL.numel() for batch in batches),
    }


def _wait(updater: Updater) -> None:
    if updater.on_gpu:
        torch.cuda.synchronize()


def measured(updater: Updater, given: argparse.Namespace, shape: str, share: bool) -> dict[str, Any]:
    prompt, after = map(int, shape.split("/"))
    vocabulary = int(updater.model.module.get_input_embeddings().weight.shape[0])
    flats, advantages = episodes(given.episodes, given.group, given.instructions, prompt, after, vocabulary)
    updater.scorer.takes_trees = share
    if updater.on_gpu:
        torch.cuda.reset_peak_memory_stats()
    rounds = [updated(updater, flats, advantages, given.microbatch_tokens) for _ in range(given.rounds + 1)]
    found: dict[str, Any] = {name: statistics.median(one[name] for one in rounds[1:]) for name in rounds[0]}
    tokens = sum(len(flat.ids) for flat in flats)
    memory = (
        torch.cuda.max_memory_allocated()
        if updater.on_gpu
        else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    )
    return {
        "name": f"{shape}, {'packed' if share else 'a row each'}",
        "episodes": len(flats),
        "tokens": tokens,
        "learnt_tokens": sum(sum(flat.mask) for flat in flats),
        **found,
        "tokens_a_second": tokens / found["seconds"],
        "computed_a_second": found["rows_tokens"] / found["seconds"],
        "peak_gb": memory / 1e9,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--lora-rank", type=int, default=ModelSettings().lora_rank)
    parser.add_argument("--episodes", type=int, default=1024)
    parser.add_argument("--group", type=int, default=GrpoSettings().group)
    parser.add_argument("--instructions", type=int, default=200, help="tokens that all prompts begin with")
    parser.add_argument("--shapes", nargs="+", default=["290/60", "1200/300"], help="prompt/after")
    parser.add_argument("--microbatch-tokens", type=int, default=GrpoSettings().microbatch_tokens)
    parser.add_argument("--checkpoint", choices=("auto", "on", "off"), default="auto", help="compute activations again")
    parser.add_argument("--compile", choices=("auto", "on", "off"), default="auto", help="the model's layers")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--alone", action="store_true", help="also with a row for each episode")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    choices: dict[str, bool | str] = {"auto": "auto", "on": True, "off": False}
    settings = ModelSettings(
        name=given.model,
        lora_rank=given.lora_rank,
        checkpoint_activations=choices[given.checkpoint],
        compile=choices[given.compile],
    )
    model = PolicyModel(settings, device=given.device)
    updater = Updater(model, lr=1e-6, weight_decay=0.0, clip=1.0, most_loss=1e4)
    updater.expect(given.microbatch_tokens)
    ways = (True, False) if given.alone else (True,)
    if given.alone and updater.scorer.quick:
        parser.error("a compiled model takes one row; --alone goes with --compile off")
    if True in ways and not updater.scorer.takes_trees:
        parser.error(f"{given.model} cannot be packed: its layers take no mask of this kind")
    rows = [measured(updater, given, shape, share) for shape in given.shapes for share in ways]
    about = {
        "device": torch.cuda.get_device_name() if updater.on_gpu else f"cpu, {torch.get_num_threads()} threads",
        "model": given.model,
        "dtype": model.dtype,
        "checkpointing": model.checkpointing,
        "compiled": updater.scorer.quick,
        "microbatch_tokens": given.microbatch_tokens,
    }
    print(json.dumps({**about, "rows": rows}) if given.json else table(about, rows))


COLUMNS = {
    "seconds": "{:.2f}",
    "pack_seconds": "{:.2f}",
    "update_seconds": "{:.2f}",
    "optimiser_seconds": "{:.3f}",
    "tokens_a_second": "{:,.0f}",
    "computed_a_second": "{:,.0f}",
    "computed": "{:.2f}",
    "microbatches": "{:.0f}",
    "peak_gb": "{:.1f}",
}


def table(about: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    lines = [", ".join(f"{name} {value}" for name, value in about.items()), ""]
    lines += ["| episodes | " + " | ".join(COLUMNS) + " |", "|---|" + "--:|" * len(COLUMNS)]
    for row in rows:
        cells = [shape.format(row[name]) for name, shape in COLUMNS.items()]
        lines.append(f"| {row['episodes']:,} of {row['name']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
