"""`kgwalk bench ...`: the figures of the README, measured again on this machine."""

from __future__ import annotations

import tempfile
from json import dumps, loads
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgwalk.cli.options import (
    RECIPE_FORMS,
    DatasetOption,
    DeviceOption,
    JsonOption,
    ProfileOption,
    RecipeOption,
    ValuesOption,
    chosen_recipe,
)
from kgwalk.cli.output import err, print_json, print_table, progress_bar

if TYPE_CHECKING:
    from kgwalk.bench.rows import Figure

app = typer.Typer(help="Measure kgwalk on this machine.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Measure kgwalk on this machine."""


@app.command(
    epilog="Examples: kgwalk bench kg --quick · kgwalk bench kg --json > kg.json · kgwalk bench kg --huge · "
    "kgwalk bench kg --scale"
)
def kg(
    huge: Annotated[
        bool, typer.Option("--huge", help="Only 100M triples: build, size, open (12 GB of disk, minutes).")
    ] = False,
    scale: Annotated[
        bool, typer.Option("--scale", help="Only 1M triples over HTTP: actions/s by workers and clients (minutes).")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small graphs: does it run? Not for quoting.")] = False,
    folder: Annotated[Path | None, typer.Option(help="Where to make the graphs; else a temporary folder.")] = None,
    json: JsonOption = False,
) -> None:
    """The store and the action server beside a plain list scan, in one run: about five minutes."""
    from kgwalk.bench.kg import GraphScale, bench_huge, bench_kg, bench_scale

    if huge and scale:
        raise typer.BadParameter("--huge and --scale are two benchmarks; choose one")
    size = GraphScale.quick() if quick else GraphScale()
    with tempfile.TemporaryDirectory(dir=folder) as made, progress_bar() as progress:
        if huge:
            rows = bench_huge(Path(made), progress)
        elif scale:
            rows = bench_scale(Path(made), size, progress)
        else:
            rows = bench_kg(Path(made), size, progress)
    _show("kgwalk bench kg", rows, json=json, baseline="1 worker" if scale else "list scan")


@app.command(epilog="Example: kgwalk bench soak --seconds 60 --clients 64")
def soak(
    seconds: Annotated[float, typer.Option(min=0.1, help="How long.")] = 60.0,
    clients: Annotated[int, typer.Option(min=1, help="Connections at the same time.")] = 64,
    json: JsonOption = False,
) -> None:
    """Good and bad items from many clients at once: is every good answer right, and does nothing grow?"""
    from kgwalk.bench.soak import soak as run_soak

    with tempfile.TemporaryDirectory() as made, progress_bar() as progress:
        progress("asking", 0, None)
        rows = run_soak(Path(made), seconds=seconds, clients=clients)
    _show("kgwalk bench soak", rows, json=json)
    if any(row.met is False for row in rows):
        raise typer.Exit(1)


@app.command(
    epilog="Examples: kgwalk bench engine · kgwalk bench engine --data metaqa --data cwq-fbpool --adapter adapter · "
    "kgwalk bench engine --only decode,check · kgwalk bench engine --check --adapter none · "
    "kgwalk bench engine --only episodes --workers 8 · kgwalk bench engine --batch 1,256 --context 1024 --json · "
    "kgwalk bench engine --beside vllm --data metaqa"
)
def engine(
    model: Annotated[str | None, typer.Option(help="A model's name or path (default: SmolLM2-135M).")] = None,
    data: Annotated[
        list[str] | None, typer.Option("--data", help="A dataset's folder or name; may be repeated (default: world).")
    ] = None,
    recipe: Annotated[
        list[str] | None,
        typer.Option("--recipe", help=f"May be repeated (default: kgwalk): {RECIPE_FORMS}."),
    ] = None,
    adapter: Annotated[
        str | None, typer.Option(help="A LoRA adapter's folder, shipped or none (default: shipped where it fits).")
    ] = None,
    batch: Annotated[
        str | None, typer.Option(help="Rows, separated by commas (default: 1,64,256,1024; on a CPU 1,8).")
    ] = None,
    context: Annotated[
        int | None, typer.Option(min=1, help="Tokens of a row while decoding (default: 512; on a CPU 128).")
    ] = None,
    episodes: Annotated[
        int | None,
        typer.Option(min=1, help="Of a recipe on a dataset (default: 4096; on a CPU 16; with --soak 10000)."),
    ] = None,
    device: DeviceOption = "auto",
    workers: Annotated[
        int | None,
        typer.Option(min=0, help="Processes that walk (default: by a GPU all cores but two, at most 12; on a CPU 0)."),
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="Parts, separated by commas: decode, episodes, check (default: all).")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Only: are the tokens the right ones?")] = False,
    soak: Annotated[bool, typer.Option("--soak", help="Only: does memory grow over many episodes?")] = False,
    beside: Annotated[
        str | None,
        typer.Option(metavar="ENGINE", help="Only: the same prompts and walks by another engine (vllm, cpu) as well."),
    ] = None,
    beside_options: Annotated[
        str | None, typer.Option(metavar="JSON", help="Options of that engine: '{\"max_num_seqs\": 1024}' for vLLM.")
    ] = None,
    profile: ProfileOption = None,
    values: ValuesOption = None,
    json: JsonOption = False,
) -> None:
    """The local engine: decoding by batch beside transformers, the roofline, rollouts with their split, checks.

    A few minutes on a GPU. Each figure is told on stderr as soon as it is known. Exit status 1 if the engine's tokens
    are not the model's.
    """
    if (check, soak, only is not None, beside is not None).count(True) > 1:
        raise typer.BadParameter("--check, --soak, --beside and --only are for one each; leave the others out")
    batches = None if batch is None else _numbers(batch)
    from dataclasses import replace

    from kgwalk.bench.engine import PARTS, SOAKED, EngineBench, EngineScale, wrong
    from kgwalk.bench.machine import Machine
    from kgwalk.data.dataset import load_dataset
    from kgwalk.llm.engine import check_kind
    from kgwalk.training.rollouts import worker_count

    others = _object(beside_options, "--beside-options")
    if beside is not None:
        check_kind(beside)
    parts = ("check",) if check else PARTS if only is None else _parts(only, PARTS)
    recipes = [chosen_recipe(name, profile, values) for name in recipe or ["kgwalk"]]
    machine = Machine.of(device)
    usual = EngineScale.of(machine)
    scale = replace(
        usual,
        batches=batches or usual.batches,
        context=context or usual.context,
        episodes=episodes or usual.episodes,
    )
    with progress_bar(quiet=json) as progress:
        datasets = [load_dataset(name) for name in data or ["world"]]
        count = worker_count(machine.device) if workers is None else workers
        bench = EngineBench(machine, scale, recipes, datasets, model, adapter, progress, count, _tell)
        if beside is not None:
            rows = bench.beside(beside, others)
        else:
            rows = bench.soak(episodes or SOAKED) if soak else bench.run(parts)
    _show("kgwalk bench engine", rows, json=json, baseline=beside or "transformers")
    if wrong(rows):
        raise typer.Exit(1)


@app.command(
    epilog="Examples: kgwalk bench train --data metaqa --start runs/a/adapter · "
    "kgwalk bench train --episodes 512 --steps 5 --set grpo.microbatch_tokens=32768 --json"
)
def train(
    recipe: RecipeOption = "kgwalk",
    data: DatasetOption = "world",
    episodes: Annotated[int | None, typer.Option(min=1, help="Of a step (default: 1024; on a CPU 16).")] = None,
    steps: Annotated[int, typer.Option(min=2, help="The first of which stands apart.")] = 3,
    model: Annotated[str | None, typer.Option(help="Another model than the recipe's.")] = None,
    start: Annotated[Path | None, typer.Option("--start", "--adapter", help="An adapter to go on from.")] = None,
    device: DeviceOption = "auto",
    workers: Annotated[
        int | None, typer.Option(min=0, help="Processes that walk (default: the recipe's grpo.rollout_workers).")
    ] = None,
    profile: ProfileOption = None,
    values: ValuesOption = None,
    json: JsonOption = False,
) -> None:
    """A step of GRPO: seconds by part, tokens a second, memory. The first step stands apart.

    The seconds of each step are told on stderr as it is done.
    """
    from kgwalk.bench.machine import Machine
    from kgwalk.bench.train import EPISODES, TrainBench
    from kgwalk.data.dataset import load_dataset

    machine = Machine.of(device)
    count = episodes or EPISODES.get(machine.kind, EPISODES["cpu"])
    named = [] if model is None else [f"model.name={dumps(model)}"]
    chosen = chosen_recipe(recipe, profile, [*named, *(values or [])])
    with tempfile.TemporaryDirectory() as folder, progress_bar(quiet=json) as progress:
        bench = TrainBench(machine, chosen, load_dataset(data), count, steps, start, progress, workers, _tell)
        rows = bench.run(Path(folder))
    _show("kgwalk bench train", rows, json=json, baseline="beside")


def _show(title: str, rows: list[Figure], *, json: bool, baseline: str = "list scan") -> None:
    from kgwalk.bench.rows import table

    if json:
        print_json({"rows": [row.as_json() for row in rows]})
    else:
        print_table(table(title, rows, baseline))


def _tell(row: Figure) -> None:
    """A figure on stderr at once: what was measured is not lost if the rest takes too long."""
    from kgwalk.bench.rows import line

    err.print(line(row))


def _parts(text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """`decode,check`."""
    from kgwalk.config.recipe import unknown

    parts = tuple(part.strip() for part in text.split(","))
    for part in parts:
        if part not in known:
            raise typer.BadParameter(str(unknown("part", part, known)))
    return parts


def _object(text: str | None, option: str) -> dict[str, Any]:
    """A JSON object that an option has; none is an empty one."""
    try:
        found = loads(text or "{}")
    except ValueError as error:
        raise typer.BadParameter(f"{option} takes a JSON object; {text!r} is none: {error}") from error
    if not isinstance(found, dict):
        raise typer.BadParameter(f"{option} takes a JSON object, not {text!r}")
    return found


def _numbers(text: str) -> tuple[int, ...]:
    """`1,64,256`."""
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise typer.BadParameter(f"--batch takes whole numbers separated by commas, not {text!r}") from error
    if min(numbers) < 1:
        raise typer.BadParameter(f"--batch takes numbers from 1 on, not {text!r}")
    return numbers
