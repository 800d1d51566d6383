"""`kgwalk plan`: memory, GPUs, tokens and seconds of a training before it is run, from one GPU to a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kgwalk.cli.options import JsonOption, ProfileOption, RecipeOption, ValuesOption, chosen_recipe
from kgwalk.cli.output import out, print_json, print_table

if TYPE_CHECKING:
    from rich.table import Table

    from kgwalk.bench.plan import ClusterPlan, Gpu, TrainingWork

EXAMPLES = (
    "kgwalk plan --model 3B --gpus 4",
    "kgwalk plan --recipe kg-r1 --full",
    "kgwalk plan --model 7B --model 8B --model 30B --recipe kg-r1 --gpus 8 --gpu h100",
    "kgwalk plan --model my/model --memory 48 --bandwidth 0.86 --tflops 362 --lora --json",
)


def plan(
    model: Annotated[
        list[str] | None,
        typer.Option("--model", help="A size (135M to 30B), a name, or a config.json; may be repeated."),
    ] = None,
    recipe: RecipeOption = "kgwalk",
    gpus: Annotated[int | None, typer.Option(min=1, help="How many there are (default: the fewest that do).")] = None,
    gpu: Annotated[str, typer.Option(help="h200, h100, a100, a100-40, b200, l40s or rtx4090.")] = "h200",
    memory: Annotated[float | None, typer.Option(min=1, help="GB of one GPU, instead of its data sheet's.")] = None,
    bandwidth: Annotated[float | None, typer.Option(min=0.01, help="TB a second, likewise.")] = None,
    tflops: Annotated[float | None, typer.Option(min=1, help="bfloat16 TFLOP a second, likewise.")] = None,
    lora: Annotated[
        bool | None, typer.Option("--lora/--full", help="Train an adapter, or all weights (default: as the recipe).")
    ] = None,
    questions: Annotated[int | None, typer.Option(min=1, help="Of a step (default: grpo.questions).")] = None,
    group: Annotated[int | None, typer.Option(min=2, help="Walks of a question (default: grpo.group).")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Of GRPO (default: grpo.steps).")] = None,
    told: Annotated[
        float | None, typer.Option(min=1, help="Tokens of prompt and observations, a walk (default: as measured).")
    ] = None,
    written: Annotated[
        float | None, typer.Option(min=1, help="Tokens that the model writes, a walk (default: as measured).")
    ] = None,
    profile: ProfileOption = None,
    values: ValuesOption = None,
    json: JsonOption = False,
) -> None:
    """What a training by GRPO takes: memory of a GPU, how many, how to split, tokens a second, seconds a step, hours.

    Arithmetic with factors from runs on one H200 (docs/guides/cluster.md says how far it was checked). Nothing is
    loaded or downloaded. A walk's tokens are those of an agent of 135M weights; larger models write more.
    """
    from kgwalk.bench.plan import TrainingWork, plan_training
    from kgwalk.bench.shapes import shape_of
    from kgwalk.training.settings import ModelSettings

    chosen = chosen_recipe(recipe, profile, values)
    work = TrainingWork.of(chosen).with_walk(told, written)
    work = _asked(work, lora, {"questions": questions, "group": group, "steps": steps})
    names = model or [str(chosen.section("model").get("name", ModelSettings().name))]
    card = _card(gpu, memory, bandwidth, tflops)
    plans = [plan_training(shape_of(name), card, work, gpus) for name in names]
    if json:
        print_json({"plans": [one.as_json() for one in plans]})
        return
    print_table(_table(plans))
    for line in _notes(plans):
        out.print(line)


def _asked(work: TrainingWork, lora: bool | None, numbers: dict[str, int | None]) -> TrainingWork:
    """The recipe's work with what the options say instead."""
    from dataclasses import replace

    from kgwalk.training.settings import ModelSettings

    rank = work.lora_rank
    if lora is not None:
        rank = (rank or ModelSettings().lora_rank) if lora else 0
    given = {name: number for name, number in numbers.items() if number is not None}
    return replace(work, lora_rank=rank, **given)  # type: ignore[arg-type]


def _card(name: str, memory: float | None, bandwidth: float | None, tflops: float | None) -> Gpu:
    from dataclasses import replace

    from kgwalk.bench.plan import GPUS
    from kgwalk.config.recipe import unknown

    if name.lower() not in GPUS:
        raise unknown("GPU", name, GPUS)
    card = GPUS[name.lower()]
    if memory is None and bandwidth is None and tflops is None:
        return card
    return replace(
        card,
        name="GPU as given",
        memory=card.memory if memory is None else memory * 1e9,
        bandwidth=card.bandwidth if bandwidth is None else bandwidth * 1e12,
        rate=card.rate if tflops is None else tflops * 1e12,
    )


def _table(plans: list[ClusterPlan]) -> Table:
    """A column for each model."""
    from rich.table import Table

    first = plans[0]
    work = first.work
    kind = f"LoRA of rank {work.lora_rank}" if work.lora else "all weights"
    title = f"{work.recipe}, {kind}, {work.questions} x {work.group} walks a step, {first.gpu.name}"
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for one in plans:
        table.add_column(one.shape.name, justify="right")
    for name, *cells in zip(*(_cells(one) for one in plans), strict=True):
        label, shown = name[0], [name[1], *(cell[1] for cell in cells)]
        table.add_row(label, *shown)
    return table


def _cells(one: ClusterPlan) -> list[tuple[str, str]]:
    held = one.memory.held
    weights = f"{one.shape.weights / 1e9:.2f} billion"
    if one.shape.experts:
        weights += f", {one.shape.active_weights / 1e9:.2f} active"
    again = "computed again" if one.memory.recomputed else "kept"
    return [
        ("weights", weights),
        ("GPUs", f"{one.layout.gpus} on {one.nodes} {'node' if one.nodes == 1 else 'nodes'}"),
        ("fewest that it fits on", f"{one.fewest}"),
        ("trainer", one.layout.backend),
        ("split", one.how),
        ("memory of a GPU", f"{_gb(one.memory.total)} of {_gb(one.gpu.memory)}"),
        ("  weights", _gb(held["weights"])),
        ("  gradients", _gb(held["gradients"])),
        ("  optimiser", _gb(held["optimiser"])),
        ("  reference", _gb(held.get("reference", 0.0))),
        ("  engine's copy", _gb(held["engine's copy"])),
        ("  cache of keys and values", f"{_gb(held['cache'])}, {one.memory.sequences:,} walks"),
        ("  activations, logits", f"{_gb(held['activations'] + held['logits'])}, {again}"),
        ("tokens of a microbatch", f"{one.memory.microbatch_tokens:,}"),
        ("decoding, a GPU", f"{one.decode_tokens_a_second:,.0f} tokens/s"),
        ("update, a GPU", f"{one.training_tokens_a_second:,.0f} tokens/s"),
        ("a step", _seconds(one.step_seconds)),
        ("  walks", _seconds(one.walk_seconds)),
        ("  update", _seconds(one.update_seconds)),
        ("  between GPUs", _seconds(one.link_seconds)),
        ("  rewards, packing", _seconds(one.host_seconds)),
        (f"{one.work.steps} steps", f"{one.gpu_hours:,.1f} GPU hours"),
    ]


def _notes(plans: list[ClusterPlan]) -> list[str]:
    """How to run it, and what the figures rest on."""
    walk = plans[0].work.walk
    lines = [
        f"A walk: {walk.prompt + walk.observed:,.0f} tokens told, {walk.written:,.0f} written (--told, --written).",
        "Factors from one H200 and 135M weights; several GPUs and more than 1.5B weights were not measured.",
    ]
    runs = {
        f"accelerate launch {'--use_fsdp --fsdp_version 2 ' if one.layout.shards > 1 else ''}"
        f"--num_processes {one.layout.gpus} $(which kgwalk) train {one.work.recipe} ..."
        for one in plans
        if one.layout.native and one.layout.gpus > 1
    }
    return [*lines, *sorted(runs)]


def _gb(value: float) -> str:
    return "0" if value == 0 else f"{value / 1e9:,.1f} GB" if value >= 5e7 else "< 0.1 GB"


def _seconds(value: float) -> str:
    return "0" if value == 0 else f"{value:,.2f} s" if value < 10 else f"{value:,.0f} s"
