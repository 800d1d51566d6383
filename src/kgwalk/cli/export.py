"""`kgwalk export`, `kgwalk push` and `kgwalk pull`: a trained agent as a model to serve, and to and from the hub."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kgwalk.cli.options import ForceOption, JsonOption
from kgwalk.cli.output import counted, err, out, print_json, size

EXAMPLES = (
    "kgwalk export shipped --format gguf -o agent",
    "kgwalk export runs/films --format hf -o films-model --dtype bf16",
    "kgwalk export films.kg.agent --format ollama -o films-ollama --dtype q8_0",
    "kgwalk export shipped --format onnx -o agent-onnx --dtype int8",
)
PUSH_EXAMPLES = (
    "kgwalk push runs/films me/films-walker",
    "kgwalk push films-model me/films-model --public --license apache-2.0",
)
PULL_EXAMPLES = ("kgwalk pull me/films-walker", "kgwalk pull me/films-walker -o agents/films --revision v1 --json")


class ModelFormat(StrEnum):
    """The form of an exported agent."""

    hf = "hf"
    gguf = "gguf"
    ollama = "ollama"
    onnx = "onnx"


class WeightNumbers(StrEnum):
    """The numbers of exported weights."""

    f32 = "f32"
    f16 = "f16"
    bf16 = "bf16"
    q8_0 = "q8_0"
    int8 = "int8"
    int4 = "int4"


AgentArgument = Annotated[
    str,
    typer.Argument(metavar="RUN|ADAPTER|shipped", help="A run's folder, an adapter's, a whole model's, or `shipped`."),
]
BaseOption = Annotated[
    str | None, typer.Option("--model", help="The model that the adapter was made for, if its folder does not say.")
]


def export(
    agent: AgentArgument,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where to write it.")],
    format: Annotated[
        ModelFormat,
        typer.Option(
            help="hf (for transformers), gguf (llama.cpp), ollama (gguf and a Modelfile) or onnx (ONNX Runtime)."
        ),
    ] = ModelFormat.hf,
    dtype: Annotated[
        WeightNumbers | None,
        typer.Option(
            help="The weights' numbers: f32, f16, bf16, of GGUF also q8_0; of onnx f32, int8, int4 "
            "(default: hf and onnx f32, else f16)."
        ),
    ] = None,
    model: BaseOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Write a trained agent as one model, its adapter in the weights, with tokenizer, chat template and stop tokens.

    What is written is asked with `kgwalk ask --model`, as the agent learnt, and runs where such models run. recipe.toml
    beside it is for asking through a server of it: `kgwalk ask --engine api --model NAME --recipe FOLDER/recipe.toml`.
    """
    from kgwalk.training.export import agent_at
    from kgwalk.training.export import export as write

    found = agent_at(agent, model)
    with err.status(f"exporting {found.folder}"):
        written = write(found, format.value, output, numbers=None if dtype is None else dtype.value, force=force)
    files = sorted(file for file in output.iterdir() if file.is_file())
    total = sum(file.stat().st_size for file in files)
    named = str(written)
    if json:
        told = {"folder": str(output), "format": format.value, "model": named, "agent": str(found.folder)}
        print_json(told | {"files": [file.name for file in files], "bytes": total})
        return
    out.print(f"{output}: {counted(len(files), 'file')}, {size(total)}")
    engine = "--engine onnx " if format is ModelFormat.onnx else ""
    out.print(f"ask it: kgwalk ask 'YOUR QUESTION' {engine}--model {named}", soft_wrap=True)
    if format is ModelFormat.ollama:
        out.print(f"serve it: ollama create {output.resolve().name} -f {output / 'Modelfile'}", soft_wrap=True)


def push(
    agent: AgentArgument,
    repository: Annotated[str, typer.Argument(metavar="REPO", help="On the hub: owner/name.")],
    public: Annotated[
        bool, typer.Option("--public", help="A new repository for all to see; else it is private.")
    ] = False,
    license: Annotated[str | None, typer.Option(help="The agent's licence, such as apache-2.0, for its card.")] = None,
    message: Annotated[str | None, typer.Option("--message", "-m", help="The commit's message.")] = None,
    model: BaseOption = None,
    json: JsonOption = False,
) -> None:
    """Upload an agent to the model hub, with a card: an adapter, or what `kgwalk export` wrote.

    HF_TOKEN, or `hf auth login`, says who you are; HF_ENDPOINT names another hub. The optimiser of a run and other
    files that no agent needs stay here.
    """
    from kgwalk.training.export import agent_at
    from kgwalk.training.hub import push as upload

    found = agent_at(agent, model)
    bars = not json and err.is_terminal
    told = upload(found, repository, public=public, licence=license, message=message, bars=bars)
    if json:
        print_json(told)
        return
    seen = "private" if told["private"] else "public"
    out.print(f"{told['url']}: {counted(len(told['files']), 'file')}, {size(told['bytes'])}, {seen}", soft_wrap=True)
    if told["removed"]:
        out.print(f"removed, of the agent that was there: {', '.join(told['removed'])}", soft_wrap=True)
    out.print(f"fetch it: kgwalk pull {told['repository']}", soft_wrap=True)


def pull(
    repository: Annotated[str, typer.Argument(metavar="REPO", help="On the hub: owner/name.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FOLDER", help="Where to put it (default: its name).")
    ] = None,
    revision: Annotated[str | None, typer.Option(help="A branch, tag or commit (default: the newest).")] = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Fetch an agent from the model hub into a folder, for `kgwalk ask --adapter` or `--model`."""
    from kgwalk.training.hub import pull as fetch

    target = output or Path(repository.rpartition("/")[2] or repository)
    told = fetch(repository, target, revision=revision, force=force, bars=not json and err.is_terminal)
    if json:
        print_json(told)
        return
    out.print(f"{target}: {counted(len(told['files']), 'file')}, commit {told['commit'][:12]}", soft_wrap=True)
    if told["protocol"] is None:
        err.print("note: it does not say how it is asked (no kgwalk.json); the recipe's own settings hold")
    out.print(f"ask it: kgwalk ask 'YOUR QUESTION' {told['ask']}", soft_wrap=True)
