"""The GRPO stage on verl: write its configuration, run its own entry point as a process, and take over the result.

    run/grpo/verl/config.yaml     what verl was told; log.txt is what it said
    run/grpo/verl/attempts.jsonl  each start of verl: from which step, how it ended
    run/grpo/metrics.jsonl        a row a step: what walks earned, as the native trainer has it, and verl's own numbers
    run/grpo/checkpoints          verl's checkpoints, with weights as safetensors
    run/grpo/checkpoint-STEP      the last of them as kgwalk's own: what the run's adapter is made of

verl is killed, or one of its processes is: what was done since its last checkpoint is done again by --resume, and the
rows of those walks are dropped before, so that no walk is counted twice.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgwalk.config.recipe import read_section
from kgwalk.config.run_folder import RowFile, read_rows, write_json
from kgwalk.data.mixture import evenly
from kgwalk.evaluation.report import STEP_METRICS
from kgwalk.llm.models import CARD, model_folder
from kgwalk.training.advantages import Rewards, group_credit
from kgwalk.training.backends.verl_config import VerlSettings, check_verl, verl_config
from kgwalk.training.backends.verl_job import VERL, WALKS, questions_of_steps, write_questions
from kgwalk.training.checkpoint import Checkpoints, copy_files, whole_or_not
from kgwalk.training.loop import TimeBudget, keep_rows, step_rows
from kgwalk.training.settings import GrpoSettings, ModelSettings
from kgwalk.types import KgwalkError

if TYPE_CHECKING:
    from kgwalk.training.run import TrainingRun

PLUGIN = "kgwalk.training.backends.verl_plugin"
MODULES = "VERL_USE_EXTERNAL_MODULES"
POLL = 0.5  # seconds between looks at what verl has written
CHECKED = 300  # seconds that verl may take to be imported
LATEST = "latest_checkpointed_iteration.txt"
# verl's names of what the native trainer writes a step
NUMBERS = {
    "actor/loss": "loss",
    "actor/grad_norm": "grad_norm",
    "actor/lr": "lr",
    "actor/pg_clipfrac": "clip_fraction",
    "actor/kl_loss": "kl_loss",  # as the loss counts it: summed over tokens where that sums
    "training/rollout_probs_diff_mean": "rollout_probs_diff",
    "timing_s/gen": "rollout_seconds",
    "timing_s/update_actor": "update_seconds",
    "timing_s/step": "seconds",
}


def check(run: TrainingRun) -> None:
    """Raises if the recipe cannot be trained on verl, or verl does not know kgwalk."""
    check_verl(run.recipe, judge=run.judge)
    if run.processes.count > 1:
        raise KgwalkError(
            f"this run has {run.processes.count} processes, and verl starts its own; run kgwalk train once, and set "
            "verl.gpus and verl.nodes"
        )
    if run.split == run.dev:
        raise KgwalkError(f"verl learns from one split and validates on another; both are {run.dev}; name --dev")
    asked = subprocess.run([sys.executable, "-m", PLUGIN], capture_output=True, text=True, timeout=CHECKED)
    if asked.returncode:
        said = asked.stderr.strip().splitlines() or ["it said nothing"]
        raise KgwalkError(f"verl cannot be used here: {said[-1]}; install requirements/verl.txt with kgwalk beside it")


def processes(run: TrainingRun) -> int:
    """How many processes train."""
    settings = read_section(VerlSettings, run.recipe, "verl")
    return settings.nodes * settings.gpus


def grpo(run: TrainingRun) -> dict[str, Any]:
    """Run the stage from where it stopped to its end; its last weights are the run's result."""
    settings = read_section(GrpoSettings, run.recipe, "grpo")
    place = run.folder.file("grpo")
    if _latest(place) < settings.steps:
        _prepare(run, settings, place)
        _run_verl(run, settings, place)
    _complete_rows(run, settings, place)
    _take_over(run, settings, place)
    return run.finish("grpo", settings.steps, TimeBudget(0.0))


def _prepare(run: TrainingRun, settings: GrpoSettings, place: Path) -> None:
    """Write what verl reads, and drop the rows of steps that are done again."""
    from kgwalk.training.pipeline import curriculum_of

    files = place / VERL
    held_out = None
    if settings.eval_questions and run.dev in run.dataset.splits():
        held_out = files / "held_out.parquet"
        sample = evenly(run.dataset.questions(run.dev), settings.eval_questions, run.seed)
        write_questions(held_out, sample, [range(len(sample))], run.dev)
    questions = files / "train.parquet"
    write_questions(questions, run.questions, questions_of_steps(curriculum_of(run), settings.steps), run.split)
    config = verl_config(
        run.recipe,
        run=run.path.resolve(),
        stage=place.resolve(),
        model=_source(run),
        questions=questions.resolve(),
        held_out=None if held_out is None else held_out.resolve(),
        seed=run.seed,
        report_to=run.report_to,
        variables=_variables(place),
    )
    write_config(files, config)
    Path(_variables(place)["VERL_FILE_LOGGER_PATH"]).unlink(missing_ok=True)  # of an attempt without a checkpoint
    done = _latest(place)
    for path in (place / STEP_METRICS, *(place / WALKS).glob("*.jsonl")):
        if path.exists():
            keep_rows(path, lambda row: row["step"] <= done)
    _complete_rows(run, settings, place)


def _complete_rows(run: TrainingRun, settings: GrpoSettings, place: Path) -> None:
    """Add rows of steps that verl has a checkpoint of, and was killed before it wrote their numbers."""
    there = {row["step"] for row in step_rows(place / STEP_METRICS)}
    with RowFile(place / STEP_METRICS) as rows:
        for step in range(1, _latest(place) + 1):
            if step not in there:
                rows.add({"stage": "grpo", "step": step, **_earned(place, step, run, settings)})


def write_config(folder: Path, config: Mapping[str, Any]) -> None:
    """`config.yaml`, as verl reads it. JSON is YAML."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(json.dumps(config, indent=2), "utf-8")


def command(folder: Path, overrides: Sequence[str] = ()) -> list[str]:
    """verl's own entry point with the configuration of a folder."""
    verl = [sys.executable, "-m", "verl.trainer.main_ppo"]
    return [*verl, "--config-dir", str(folder.resolve()), "--config-name", "config", *overrides]


def _variables(place: Path) -> dict[str, str]:
    """For the environment of every process of verl, on every node."""
    modules = [name for name in os.environ.get(MODULES, "").split(",") if name]
    return {
        MODULES: ",".join([*modules, *([] if PLUGIN in modules else [PLUGIN])]),
        "VERL_FILE_LOGGER_PATH": str((place / VERL / f"metrics-{_latest(place)}.jsonl").resolve()),
    }


def _source(run: TrainingRun) -> Path:
    """The weights to start from: those of this run's SFT, else the ones that were given, else the model's own."""
    sft = run.folder.file("sft")
    if (sft / "done.json").exists():
        best, last = sft / "best", Checkpoints(sft).latest()
        return (best if best.exists() or last is None else last).resolve()
    if run.start is not None:
        return run.start.resolve()
    return model_folder(read_section(ModelSettings, run.recipe, "model").name).resolve()


def _latest(place: Path) -> int:
    """The step of verl's last whole checkpoint; 0 without one."""
    file = place / "checkpoints" / LATEST
    return int(file.read_text()) if file.exists() else 0


def _run_verl(run: TrainingRun, settings: GrpoSettings, place: Path) -> None:
    """Run verl to its end; raises if that is not the last step."""
    files, first = place / VERL, _latest(place)
    overrides = read_section(VerlSettings, run.recipe, "verl").overrides
    variables = _variables(place)
    begun = time.time()
    with RowFile(files / "attempts.jsonl") as attempts, open(files / "log.txt", "ab") as log:
        start = log.tell()
        process = subprocess.Popen(
            command(files, overrides),
            env=os.environ | variables,
            stdout=log,
            stderr=subprocess.STDOUT,
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,
        )
        try:
            metrics = RowFile(place / STEP_METRICS)
            rows = _follow(process, Path(variables["VERL_FILE_LOGGER_PATH"]))
            for step, numbers in rows:
                numbers |= _earned(place, step, run, settings)
                metrics.add({"stage": "grpo", "step": step, **numbers})
                run.progress("grpo", step, settings.steps, numbers)
            metrics.close()
        finally:
            if process.poll() is None:
                process.terminate()
            code = process.wait()
            ended = {"exit": code, "from": first, "checkpoint": _latest(place), "seconds": time.time() - begun}
            attempts.add(ended | ({} if code == 0 else {"error": _error(files / "log.txt", start)}))
    if code or _latest(place) < settings.steps:
        raise KgwalkError(
            f"verl stopped with exit code {code} and {_words(_latest(place))}: {_error(files / 'log.txt', start)}; "
            f"{files / 'log.txt'} has all that it said, and --resume goes on"
        )


def _end_with_parent() -> None:
    """In the new process: end when kgwalk does, even if that was killed. Otherwise two verls would write one run."""
    import ctypes

    end_signal = 1  # PR_SET_PDEATHSIG
    ctypes.CDLL(None).prctl(end_signal, signal.SIGTERM)


def _words(step: int) -> str:
    return f"its last checkpoint is of step {step}" if step else "without a checkpoint"


def _follow(process: subprocess.Popen[bytes], path: Path) -> Iterator[tuple[int, dict[str, float]]]:
    """The rows that verl writes while it runs: a step and its numbers, each once."""
    seen = 0
    while True:
        ended = process.poll() is not None
        rows = list(read_rows(path)) if path.exists() else []
        for row in rows[seen:]:
            numbers = row["data"]
            found = {own: float(numbers[name]) for name, own in NUMBERS.items() if name in numbers}
            yield int(row["step"]), found
        seen = len(rows)
        if ended:
            return
        time.sleep(POLL)


def _earned(place: Path, step: int, run: TrainingRun, settings: GrpoSettings) -> dict[str, float]:
    """Means over the walks of a step, by the names of the native trainer; those of validation begin with `eval_`.

    `left_out` counts walks that failed and those that were lost with their process.
    """
    rows = [row for path in sorted((place / WALKS).glob("*.jsonl")) for row in read_rows(path) if row["step"] == step]
    walked = [row for row in rows if row["split"] == run.split]
    trained = [row for row in walked if row["trained"]]
    paid = [Rewards(row["rewards"]["turns"], row["rewards"]["whole"]) for row in trained]
    groups: dict[int, list[Rewards]] = {}
    for row, rewards in zip(trained, paid, strict=True):
        groups.setdefault(row["place"], []).append(rewards)
    return {
        **_means([{"reward": rewards.whole + sum(rewards.turns) / len(rewards.turns)} for rewards in paid]),
        **{f"reward_{name}": value for name, value in _means([row["rewards"]["parts"] for row in trained]).items()},
        **_means([row["metrics"] for row in walked]),
        "episodes": float(len(walked)),
        "dropped_groups": float(group_credit(list(groups.values()), settings).dropped),
        "left_out": float(settings.questions * settings.group - len(trained)),
        **{f"eval_{name}": value for name, value in _means(_held_out(rows, run)).items()},
    }


def _held_out(rows: Sequence[Mapping[str, Any]], run: TrainingRun) -> list[Mapping[str, float]]:
    return [row["metrics"] for row in rows if row["split"] == run.dev and run.dev != run.split]


def _means(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for row in rows for name in row)
    found = {name: [row[name] for row in rows if name in row] for name in names}
    return {name: sum(values) / len(values) for name, values in found.items()}


def _error(log: Path, start: int) -> str:
    """The last line of verl's log, after `start`, that names an error."""
    with open(log, "rb") as file:
        file.seek(start)
        lines = file.read().decode("utf-8", "replace").splitlines()
    named = [line.strip() for line in lines if "Error" in line and not line.lstrip().startswith("File ")]
    return (named or lines or ["it said nothing"])[-1][:500]


def _take_over(run: TrainingRun, settings: GrpoSettings, place: Path) -> None:
    """verl's last weights as a checkpoint of kgwalk's."""
    source = place / "checkpoints" / f"global_step_{settings.steps}" / "actor" / "huggingface"
    target = place / f"checkpoint-{settings.steps}"
    if target.exists():
        return
    with whole_or_not(target, "the weights that verl trained", f"they lie in {source}") as beside:
        copy_files(source, beside, without=[])
        name = read_section(ModelSettings, run.recipe, "model").name
        write_json(beside / CARD, {"base_model": name, **run.card()})
