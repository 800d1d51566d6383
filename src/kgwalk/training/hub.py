"""An agent on the model hub: `push` puts its files there with a model card, `pull` fetches them.

    push(agent_at("runs/films"), "me/films-walker")      # private, unless asked otherwise
    pull("me/films-walker", Path("films-walker"))        # what `--adapter`, or `--model`, takes

huggingface_hub does the work, so HF_TOKEN, HF_ENDPOINT, HF_HOME and HF_HUB_OFFLINE have their usual meaning. Only files
that an agent consists of travel, in either direction: no optimiser, no pickle, no code, no recipe.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import orjson

from kgwalk.config.run_folder import read_json
from kgwalk.evaluation.report import METRICS
from kgwalk.evaluation.runs import FIT_REPORT
from kgwalk.llm.models import (
    CARD,
    CONFIG,
    DEFAULT_MODEL,
    DEFAULT_ON_HUB,
    GGUF_ON_HUB,
    is_adapter,
    known_as,
    learnt_in,
    need,
)
from kgwalk.llm.onnx_files import is_onnx
from kgwalk.training.export import MODEL_CARD, OWN, TrainedAgent, new_folder
from kgwalk.types import KgwalkError
from kgwalk.walk.policy import shipped

# The files of an agent, and what else may lie in a checkpoint's folder
WEIGHTS = ("*.safetensors", "*.gguf", "*.onnx", "*.onnx.data")
FILES = (*WEIGHTS, "*.json", "*.jinja", "Modelfile", "merges.txt", "vocab.txt", "tokenizer.model")
NOT_FILES = ("optimizer.safetensors", "trainer_state.json", "run.json", "checksums.json", ".*")
TAGS = ["kgwalk", "knowledge-graph", "question-answering"]
LIBRARY = {"peft": "peft", "hf": "transformers", "gguf": "gguf", "ollama": "gguf", "onnx": "onnx"}
SCORES = {"f1": "F1", "hits_at_1": "Hits@1", "hit_any": "Hit, any"}
FIRST_CARDS = (MODEL_CARD, "MODEL_CARD.md")  # where an agent's folder, or its run's, tells of it already
LICENCE = "apache-2.0"  # of the agents that come with kgwalk

_FRONT = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
_LOCAL_LINK = re.compile(r"\[([^\]]*)\]\((?!https?://)[^)]*\)")
_HEADING = re.compile(r"^(#+ )", re.MULTILINE)
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True, slots=True)
class HubScore:
    """What a run reports of its agent: on which questions, how many, and the metrics."""

    data: str
    split: str
    n: int
    metrics: Mapping[str, float]


def push(
    agent: TrainedAgent,
    repository: str,
    *,
    public: bool = False,
    licence: str | None = None,
    message: str | None = None,
    bars: bool = False,
) -> dict[str, Any]:
    """Uploads the agent in one commit; makes the repository if there is none, private unless `public`.

    One that is there already stays as private or public as it is, and holds this agent alone: files of another that
    have no successor go in the same commit. Returns its name, address, commit, files, and those that went.
    """
    need("huggingface_hub")
    import huggingface_hub
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, constants

    from kgwalk.data.convert import hub_bars  # brings pyarrow along

    if huggingface_hub.get_token() is None:
        raise KgwalkError(
            f"there is no token for the hub: make one that may write at {constants.ENDPOINT}/settings/tokens, then "
            "set HF_TOKEN, or run `hf auth login`"
        )
    files = files_of(agent)
    api = HfApi()
    with telling_hub_errors(repository, writes=True):
        named = api.create_repo(repository, private=not public, exist_ok=True).repo_id
    contents: dict[str, bytes | Path] = {**files, MODEL_CARD: model_card(agent, named, licence).encode()}
    if agent.is_adapter:
        contents[CONFIG] = _config_for_hub(agent)
    added = [
        CommitOperationAdd(name, what if isinstance(what, bytes) else str(what)) for name, what in contents.items()
    ]
    with telling_hub_errors(named, writes=True), hub_bars(bars):
        there = api.list_repo_files(named)
        removed = sorted(name for name in there if "/" not in name and _travels(name) and name not in contents)
        gone = [CommitOperationDelete(name) for name in removed]
        said = message or f"An agent by kgwalk: {agent.format}"
        commit = api.create_commit(named, [*added, *gone], commit_message=said)
        is_private = bool(api.model_info(named).private)
    sizes = [len(what) if isinstance(what, bytes) else what.stat().st_size for what in contents.values()]
    return {
        "repository": named,
        "url": f"{constants.ENDPOINT}/{named}",
        "private": is_private,
        "commit": commit.oid,
        "files": sorted(contents),
        "removed": removed,
        "bytes": sum(sizes),
    }


def files_of(agent: TrainedAgent) -> dict[str, Path]:
    """The files of an agent that travel, by their names."""
    files = (file for file in agent.folder.iterdir() if file.is_file())
    return {file.name: file for file in sorted(files) if _travels(file.name)}


def _travels(name: str) -> bool:
    return any(fnmatch(name, one) for one in FILES) and not any(fnmatch(name, one) for one in NOT_FILES)


def _config_for_hub(agent: TrainedAgent) -> bytes:
    """The adapter's config, its model by the name that the hub and peft know it by. kgwalk.json keeps the other one."""
    config = orjson.loads((agent.folder / CONFIG).read_bytes())
    base = on_hub(agent.base)
    if base is not None:
        config["base_model_name_or_path"] = base
    return orjson.dumps(config, option=orjson.OPT_INDENT_2) + b"\n"


def pull(
    repository: str, target: Path, *, revision: str | None = None, force: bool = False, bars: bool = False
) -> dict[str, Any]:
    """Fetches an agent into a folder of its own; returns commit, folder, and how it is given to `kgwalk ask`."""
    need("huggingface_hub")
    from huggingface_hub import snapshot_download

    from kgwalk.data.convert import hub_bars  # brings pyarrow along

    with telling_hub_errors(repository, revision=revision), hub_bars(bars):
        # to the hub's library `*` is any text, so that `*.json` alone is also those of checkpoint-100/
        ignored = ["*/*", *NOT_FILES]
        fetched = snapshot_download(repository, revision=revision, allow_patterns=list(FILES), ignore_patterns=ignored)
    found = Path(fetched)
    files = sorted(file for file in found.glob("*") if file.is_file() and _travels(file.name))
    names = {file.name for file in files}
    ggufs = sorted(name for name in names if name.endswith(".gguf"))
    if not (CONFIG in names or OWN in names or ggufs):
        raise KgwalkError(
            f"{repository} holds no agent: no {CONFIG} of an adapter, no {OWN} of a model and no .gguf file"
        )
    with new_folder(target, force=force) as beside:
        for file in files:
            shutil.copyfile(file, beside / file.name)
    option = "--adapter" if is_adapter(target) else "--engine onnx --model" if is_onnx(target) else "--model"
    return {
        "repository": repository,
        "commit": found.name,
        "folder": str(target),
        "files": sorted(names),
        "protocol": learnt_in(target).get("name"),
        "ask": f"{option} {target / ggufs[0] if ggufs else target}",
    }


# The model card


def model_card(agent: TrainedAgent, repository: str, licence: str | None = None) -> str:
    """README.md for the hub: what is known of the agent as YAML, how it is used, and what its own card says."""
    from huggingface_hub import EvalResult, ModelCardData

    old = next((text for place in _cards(agent) if (text := _read(place))), "")
    front = _FRONT.match(old)
    said = re.search(r"^license: *(\S+) *$", front[1], re.MULTILINE) if front else None
    scores = scores_of(agent)
    base = on_hub(agent.base)
    data = ModelCardData(
        base_model=base,
        library_name=LIBRARY[agent.format],
        pipeline_tag="text-generation",
        license=licence or (said[1] if said else None) or (LICENCE if _comes_with_kgwalk(agent) else None),
        datasets=datasets_of(agent) or None,
        tags=[*TAGS, *(["lora"] if agent.is_adapter else [])],
        model_name=repository.rpartition("/")[2] if scores else None,
        eval_results=[
            EvalResult(
                task_type="question-answering",
                task_name="Questions over a knowledge graph",
                dataset_type=score.data,
                dataset_name=score.data,
                dataset_split=score.split,
                metric_type=name,
                metric_name=SCORES[name],
                metric_value=round(float(score.metrics[name]), 4),
            )
            for score in scores
            for name in SCORES
            if name in score.metrics
        ]
        or None,
    )
    return f"---\n{data.to_yaml()}\n---\n{_told(agent, repository, base, scores, _FRONT.sub('', old, count=1))}"


def _told(agent: TrainedAgent, repository: str, base: str | None, scores: list[HubScore], old: str) -> str:
    name = repository.rpartition("/")[2]
    kind = "A LoRA adapter" if agent.is_adapter else "A language model"
    of = f" of {base}" if base else f" of {Path(agent.base).name}" if agent.base else ""
    protocol = learnt_in(agent.folder).get("name")
    by = f" by the protocol `{protocol}` of kgwalk" if protocol else " with kgwalk"
    option = f"--adapter {name}" if agent.is_adapter else f"--model {name}"
    lines = [
        f"# {name}",
        "",
        f"{kind}{of} that answers questions by walking a knowledge graph{by}. `{CARD}` says how it is asked.",
        "",
        "    pip install 'kgwalk[local]'",
        f"    kgwalk pull {repository} -o {name}",
        f"    kgwalk ask 'YOUR QUESTION' --graph YOUR.kg {option}",
    ]
    if scores:
        names = [one for one in SCORES if any(one in score.metrics for score in scores)]
        lines += [
            "",
            "| questions | n | " + " | ".join(SCORES[one] for one in names) + " |",
            "|---|---" + "|---" * len(names) + "|",
        ]
        for score in scores:
            shown = (f"{score.metrics[one]:.3f}" if one in score.metrics else "" for one in names)
            lines.append(f"| {score.data}, {score.split} | {score.n:,} | {' | '.join(shown)} |")
    if old.strip():
        lines += ["", "## Its own card", "", _HEADING.sub(r"#\1", _LOCAL_LINK.sub(r"\1", old.strip()))]
    return "\n".join(lines) + "\n"


def _cards(agent: TrainedAgent) -> list[Path]:
    places = [agent.folder, *([agent.run] if agent.run is not None else [])]
    return [place / name for place in places for name in FIRST_CARDS]


def _read(file: Path) -> str:
    return file.read_text("utf-8", "replace") if file.is_file() else ""


def _comes_with_kgwalk(agent: TrainedAgent) -> bool:
    own = shipped(agent.base or None)
    return own is not None and own.resolve() == agent.folder.resolve()


def on_hub(base: str) -> str | None:
    """A model as the hub calls it; None for one that is only here.

    >>> on_hub("smollm2-135m"), on_hub("qwen2.5-coder-0.5b"), on_hub("/models/mine")
    ('HuggingFaceTB/SmolLM2-135M-Instruct', 'Qwen/Qwen2.5-Coder-0.5B-Instruct', None)
    """
    known = known_as(base) if base else ""
    if known == DEFAULT_MODEL:
        return DEFAULT_ON_HUB
    if known in GGUF_ON_HUB:
        return GGUF_ON_HUB[known][0].removesuffix("-GGUF")
    return base if _REPOSITORY.fullmatch(base) and not Path(base).exists() else None


def datasets_of(agent: TrainedAgent) -> list[str]:
    """The data that it learnt from, as far as the hub has it."""
    from kgwalk.data.convert import HUB_DATASETS  # brings pyarrow along

    named = [part.strip() for part in str(agent.card.get("data", "")).split(",")]
    known = [HUB_DATASETS[name].repository if name in HUB_DATASETS else name for name in named]
    return sorted({name for name in known if _REPOSITORY.fullmatch(name)})


def scores_of(agent: TrainedAgent) -> list[HubScore]:
    """What its run measured: the evaluation at its end, or what a fit held out."""
    if agent.run is None:
        return []
    found = []
    report, settings = agent.run / "eval" / METRICS, agent.run / "eval" / "run.json"
    if report.is_file() and settings.is_file():
        asked, told = read_json(settings)["settings"], read_json(report)
        data = asked["data"] if isinstance(asked["data"], str) else "mixture"
        found.append(HubScore(Path(data).name, str(asked["split"]), int(told["n"]), told["metrics"]))
    if (agent.run / FIT_REPORT).is_file():
        told = read_json(agent.run / FIT_REPORT)
        after = told["after"]
        found.append(HubScore(str(told["graph"]), "test", int(after["n"]), after))
    return found


# What goes wrong


@contextmanager
def telling_hub_errors(repository: str, *, revision: str | None = None, writes: bool = False) -> Iterator[None]:
    """Errors of the hub's library as what to do about them."""
    from huggingface_hub import constants, errors

    where = f"{repository} on the hub ({constants.ENDPOINT})"
    try:
        yield
    except errors.HFValidationError:
        raise KgwalkError(f"{repository!r} is no name of a repository, which is owner/name") from None
    except errors.GatedRepoError as error:
        raise KgwalkError(
            f"{where}: its owner wants to be asked; accept the terms on its page and set HF_TOKEN"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise KgwalkError(f"{where}: it has no revision {revision}; leave --revision out for the newest") from error
    except errors.RepositoryNotFoundError as error:
        why = "no such repository, or it is private and HF_TOKEN does not open it"
        raise KgwalkError(f"{where}: {why}; check the name, and the token") from error
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        why = "HF_HUB_OFFLINE is set" if constants.is_offline_mode() else "it cannot be reached"
        copy = "" if writes else f", and {constants.HF_HUB_CACHE} (HF_HOME) has no copy"
        raise KgwalkError(f"{where}: {why}{copy}") from error
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        if status == 401:
            raise KgwalkError(f"{where}: the token is not accepted; make a new one and set HF_TOKEN") from error
        if status == 403:
            may = "write there: choose a name of your own as owner, and a token with the right to write"
            raise KgwalkError(f"{where}: the token may not {may if writes else 'read it'}") from error
        raise KgwalkError(f"{where}: the hub said {status}: {error.server_message or error}") from error
    except Exception as error:  # the class of a broken connection differs between the library's versions
        what = "HF_ENDPOINT names another hub, and HF_HUB_DISABLE_XET=1 is for one without Xet"
        raise KgwalkError(f"{where}: it cannot be reached ({error}); {what}") from error
