"""The tables of benchmarks/agents from folders written by hand, and its experiments side by side."""

from __future__ import annotations

import doctest
import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # benchmarks are no part of the package

from benchmarks.agents import prepare
from benchmarks.agents.curves import FILE, mean_curve, plot, smoothed
from benchmarks.agents.experiments import (
    BUNDLED,
    COMPARED,
    EXPERIMENTS,
    FRESH,
    FRESH_WORLDS,
    LEARNT,
    MADE,
    PAPERS,
    SETS,
)
from benchmarks.agents.jobs import Jobs
from benchmarks.agents.markdown import deviation, difference, mean
from benchmarks.agents.measured import episodes_a_second
from benchmarks.agents.tables import tables

from kgwalk.llm.models import DEFAULT_MODEL
from kgwalk.types import KgwalkError


def _write(file: Path, value: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value))


def _tested(work: Path, name: str, f1: float, *, n: int = 200, several: dict[str, float] | None = None) -> None:
    """A test of which all other shares are 0.1 higher; three runs if `several` is given."""
    shares = {"f1": f1, **dict.fromkeys(("hits_at_1", "hit_any", "retrieval_rate"), f1 + 0.1)}
    report = {
        "n": n,
        "runs": 1 if several is None else 3,
        "metrics": {**shares, "generated_tokens": 40.25},
        "intervals": {"f1": [f1 - 0.05, f1 + 0.05], "hits_at_1": [0.0, 1.0]},
    }
    _write(work / "evals" / name / "metrics.json", report | ({} if several is None else {"several": several}))


def _stepped(work: Path, name: str, rows: list[dict[str, float]]) -> None:
    """Steps of GRPO; what a row does not say is the same in all."""
    file = work / "runs" / name / "grpo" / "metrics.jsonl"
    file.parent.mkdir(parents=True)
    shared = {"stage": "grpo", "reward": 0.5, "episodes": 512.0, "updates": 1.0, "rollout_seconds": 2.0}
    lines = [json.dumps({**shared, "step": step, **row}) for step, row in enumerate(rows, 1)]
    file.write_text("\n".join(lines) + "\n")


def test_a_work_folder_without_tests_has_no_tables(tmp_path: Path) -> None:
    assert tables(tmp_path) == ""
    assert plot(tmp_path, tmp_path / "plots") is None
    assert not (tmp_path / "plots").exists()


def test_our_agents_stand_side_by_side_and_the_shipped_one_in_full(tmp_path: Path) -> None:
    _tested(tmp_path, "worlds-pq-2h", 0.5, n=132)
    _tested(tmp_path, "agent-pq-2h", 0.75, n=132)
    _tested(tmp_path, "agent-metaqa", 0.875, n=3000)
    _tested(tmp_path, "all-metaqa", 0.8, n=300)  # with a limit: not the same questions
    found = tables(tmp_path)
    assert (
        "| questions | n | `vanilla` | `cot` | `worlds` | `worlds-grpo` | `half` | `half-agent` | `all` | `agent` |"
        in found
    )
    assert "| pq-2h | 132 | - | - | 0.500 | - | - | - | - | 0.750 |" in found
    assert "| metaqa | 300 / 3,000 | - | - | - | - | - | - | 0.800 | 0.875 |" in found
    assert "| wc2014 | - | - | - | - | - | - | - | - | - |" in found
    assert tables(tmp_path, ["shipped-agent"]).splitlines()[2:] == [
        "| questions | n | F1 | Hits@1 | hit_any | answer in what was seen | tokens written | oracle F1 "
        "| random walk F1 | seconds on two cores |",
        "|---|---|---|---|---|---|---|---|---|---|",
        "| metaqa, 1 to 3 hops | 3,000 | 0.875 (0.825 to 0.925) | 0.975 | 0.975 | 0.975 | 40.2 | - | - | - |",
        "| pq-2h | 132 | 0.750 (0.700 to 0.800) | 0.850 | 0.850 | 0.850 | 40.2 | - | - | - |",
    ]
    assert "| metaqa | - | 0.800 | 0.875 |" in tables(tmp_path, ["stages"])


def test_seeds_of_grpo_beside_their_start(tmp_path: Path) -> None:
    _tested(tmp_path, "half-cwq-fbpool", 0.48)
    assert "SFT against GRPO" not in tables(tmp_path)
    for seed, f1 in enumerate((0.50, 0.52, 0.54)):
        _tested(tmp_path, f"grpo-{seed}-cwq-fbpool", f1)
    _tested(tmp_path, "grpo-1-webqsp-fbpool", 0.6)
    # mean 0.52; the standard deviation with n - 1: sqrt((0.02^2 + 0 + 0.02^2) / 2) = 0.02
    section = tables(tmp_path, ["grpo-seeds"]).partition("## SFT against GRPO: F1\n\n")[2].splitlines()
    assert section == [
        "| questions | n | SFT | seed 0 | seed 1 | seed 2 | mean | standard deviation | difference |",
        "|---|---|---|---|---|---|---|---|---|",
        "| cwq-fbpool | 200 | 0.480 | 0.500 | 0.520 | 0.540 | 0.520 | 0.020 | +0.040 |",
        "| webqsp-fbpool | 200 | - | - | 0.600 | - | 0.600 | - | - |",
    ]


def test_graphs_left_out_with_and_without_a_fit(tmp_path: Path) -> None:
    _tested(tmp_path, "worlds-pq-3h", 0.4)
    assert tables(tmp_path, ["unseen-graphs"]) == ""
    _tested(tmp_path, "without-pq-pq-3h", 0.5)
    _tested(tmp_path, "fit-pq-3h-pq-3h", 0.5)
    _write(tmp_path / "runs/fit-pq-3h/fit.json", {"kept": "start", "before": {"f1": 0.7}, "after": {"f1": 0.65}})
    _tested(tmp_path, "fit-world-world", 0.9)
    _write(tmp_path / "runs/fit-world/fit.json", {"kept": "result", "before": {"f1": 0.7}, "after": {"f1": 0.8}})
    found = tables(tmp_path, ["unseen-graphs"])
    left_out, worlds = "0.500 (0.450 to 0.550)", "0.400 (0.350 to 0.450)"
    # the last of the best is bold
    assert f"| pq-3h | 200 | - | {left_out} | {worlds} | - | **0.500** (0.450 to 0.550) |" in found
    assert "| world | 200 | - | - | - | - | **0.900** (0.850 to 0.950) |" in found
    assert "| wc2014 | - | - | - | - | - | not run |" in found
    held_out = tables(tmp_path, ["fits-held-out"])
    assert "| pq-3h | 0.700 | 0.650 | start kept |" in held_out
    assert "| world | 0.700 | 0.800 | taken |" in held_out


def test_recipes_with_speed_and_steps(tmp_path: Path) -> None:
    _tested(tmp_path, "graph-rft-on-metaqa-23-sft-metaqa-23", 0.3, n=300)
    _tested(tmp_path, "graph-rft-on-metaqa-23-metaqa-23", 0.4, n=300)
    _tested(tmp_path, "eog-on-metaqa-23-metaqa-23", 0.2, n=300)
    # the first step is slow; the others walk 2 x 512 episodes in 2 + 6 seconds
    _stepped(tmp_path, "graph-rft-on-metaqa-23", [{"rollout_seconds": 90.0}, {}, {"rollout_seconds": 6.0}])
    _stepped(tmp_path, "eog-on-metaqa-23", [{}])  # one step has no speed
    found = tables(tmp_path)
    assert "| graph-rft | metaqa-23 | 0.300 | 0.400 | 0.500 | 40.2 | 3 | 128 |" in found
    assert "| eog | metaqa-23 | - | 0.200 | 0.300 | 40.2 | 1 | |" in found
    assert "| **kgwalk** | cwq-fbpool | **-** | **-** | **-** | **-** | - | - |" in found
    assert "Facts hidden" not in found
    _tested(tmp_path, "graph-rft-on-metaqa-23-metaqa-23-drop-0.4", 0.2, n=300)
    found = tables(tmp_path).partition("## Facts hidden")[2]
    assert "| questions | all | 20% gone | 40% | 60% |" in found
    assert "| metaqa-23 | 0.400 | - | 0.200 | - |" in found


def test_a_speed_is_of_the_last_ten_steps() -> None:
    slow, quick = {"episodes": 100.0, "rollout_seconds": 50.0}, {"episodes": 100.0, "rollout_seconds": 1.0}
    assert episodes_a_second([slow, slow, slow] + 10 * [quick]) == 100.0
    assert episodes_a_second([slow]) is None
    assert episodes_a_second([]) is None


def test_ablations_are_compared_with_nothing_left_out(tmp_path: Path) -> None:
    for seed in range(3):
        _tested(tmp_path, f"kg-r1-without-nothing-{seed}-cwq-fbpool", 0.5)
        _tested(tmp_path, f"kg-r1-without-turn-rewards-{seed}-cwq-fbpool", 0.3 + 0.1 * seed)
    _tested(tmp_path, "eog-without-sft-2-cwq-fbpool", 0.1)
    _, kg_r1, eog = tables(tmp_path).split("## Ablations")
    assert "| GRPO, whole | 0.500 | 0.500 | 0.500 | **0.500** | 0.000 | | | - | 40 | 0.60 |" in kg_r1
    # t = 0.1 / sqrt(0.01 / 3) = 1.732 with two degrees of freedom: p = 1 - 1.732 / sqrt(1.732^2 + 2) = 0.225
    assert "| without turn rewards | 0.300 | 0.400 | 0.500 | 0.400 | 0.100 | -0.100 | 0.23 | - | 40 | 0.50 |" in kg_r1
    assert "| without the retrieval reward | - | - | - | - | - | - | - | - | - | - |" in kg_r1
    assert "| without SFT | - | - | 0.100 | **0.100** | - | - | - | 40 | - |" in eog


def test_an_ablation_that_was_trained_and_not_tested(tmp_path: Path) -> None:
    _tested(tmp_path, "eog-start-cwq-fbpool", 0.2)
    for seed in range(3):
        rows = [{"f1": 0.0, "answered": 0.125, "episodes": 256.0, "generated_tokens": tokens} for tokens in (900, 373)]
        _stepped(tmp_path, f"eog-without-sft-{seed}", rows[: 2 if seed else 1] + 2 * [rows[1]])
    # seed 0 has three steps, the last three of all have (900 + 373 + 373) / 3 tokens, or 373: 433 in the mean
    assert tables(tmp_path, ["ablations-eog"]).splitlines()[-1] == (
        "| without SFT, in training, 3 to 4 steps | 96 of 768 walks answered | 128 of 1,024 | 128 of 1,024 | 0 | 0 | | "
        "| 430 | 0.12 |"
    )


def test_one_run_is_its_own_union(tmp_path: Path) -> None:
    _tested(tmp_path, "agent-runs-cwq-fbpool-runs-1", 0.6)
    _tested(tmp_path, "agent-runs-cwq-fbpool-runs-3", 0.59, several={"union_f1": 0.64, "union_hit_any": 0.8})
    _tested(tmp_path, "kg-r1-runs-cwq-fbpool-runs-1", 0.2)
    found = tables(tmp_path, ["several-walks"])
    assert "| agent | cwq-fbpool | 200 | 1 | 0.600 | 0.600 | 0.700 | 40.2 |" in found
    assert "| agent | cwq-fbpool | 200 | 3 | 0.590 | 0.640 | 0.800 | 120.8 |" in found  # 3 x 40.25 tokens
    assert "| kg-r1-without-nothing-0 | cwq-fbpool | - | 3 | - | - | - | - |" in found


def test_figures_of_seeds() -> None:
    assert mean([0.25, None, 0.75]) == 0.5
    assert mean([None]) is None
    assert deviation([1.0, 3.0, None]) == pytest.approx(2**0.5)  # (1 + 1) / (2 - 1)
    assert difference(None, 0.5) == "-"


def test_a_seed_that_is_behind_ends_the_mean() -> None:
    assert mean_curve([{10: 0.25, 20: 0.5, 30: 1.0}, {10: 0.75, 20: 1.0}]) == {10: 0.5, 20: 0.75}
    assert smoothed({1: 0.0, 2: 1.0, 3: 2.0}, 2) == {1: 0.0, 2: 0.5, 3: 1.5}


@pytest.mark.parametrize("keys", [("eval_f1", "eval_f1/cwq-fbpool", "eval_f1/webqsp-fbpool"), ("eval_f1",), ()])
def test_the_seeds_are_drawn(tmp_path: Path, keys: tuple[str, ...]) -> None:
    """F1 of each set, of both together, or the reward alone: 3, 2 or 1 panels."""
    for seed in (0, 2):
        _stepped(tmp_path, f"grpo-{seed}", [{}, dict.fromkeys(keys, 0.5), {}, dict.fromkeys(keys, 0.6)])
    file = plot(tmp_path, tmp_path / "plots")
    assert file == tmp_path / "plots" / FILE
    head = file.read_bytes()[:24]
    assert head[:4] == b"\x89PNG"
    width = int.from_bytes(head[16:20], "big")
    assert width == {3: 3, 1: 2, 0: 1}[len(keys)] * 540  # 3.6 inches a panel, 150 dots an inch


# Each starts from the one before it; the last trains nothing.
START, NEXT, RUNS = "kg-r1-start", "kg-r1-without-nothing-0", "kg-r1-runs"
# An experiment's process: it notes that it began and that it ended, and writes the report that says it is trained.
JOB = """
import json, pathlib, sys, time
work, name, stage, together = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
def note(mark):
    with open(work / "notes.txt", "a") as file:
        file.write(mark + name + "\\n")
note("+")
while (work / "notes.txt").read_text().count("+") < together:
    time.sleep(0.01)
if stage == "fails":
    sys.exit("out of luck")
folder = work / "runs" / name
folder.mkdir(parents=True)
(folder / "part.json").write_text(json.dumps({"stages": {stage: {}}}))
(folder / "part.json").rename(folder / "train.json")  # whole or not at all, as a real report is
note("-")
"""


def _job(work: Path, name: str, stage: str, together: int = 1) -> list[str]:
    """`together`: it does not end before so many have begun."""
    return [sys.executable, "-S", "-c", JOB, str(work), name, stage, str(together)]


def _jobs(work: Path, jobs: int, stages: dict[str, str], minutes: float | None = None) -> Jobs:
    return Jobs(work, jobs, lambda name: _job(work, name, stages[name]), minutes, pause=0.01)


def _notes(work: Path) -> list[str]:
    file = work / "notes.txt"
    return file.read_text().split() if file.exists() else []


def test_an_experiment_waits_for_its_start(tmp_path: Path) -> None:
    jobs = _jobs(tmp_path, 3, {START: "sft", NEXT: "grpo", RUNS: "none"})
    assert jobs.run([RUNS, NEXT, START]) == []
    begun = [note for note in _notes(tmp_path) if note.startswith("+")]
    assert begun == [f"+{START}", f"+{NEXT}", f"+{RUNS}"]


def test_what_starts_from_a_failure_is_not_begun(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = _jobs(tmp_path, 2, {START: "fails", "vanilla": "none"})
    assert jobs.run([START, NEXT, RUNS, "vanilla"]) == [START, NEXT, RUNS]
    assert sorted(_notes(tmp_path)) == [f"+{START}", "+vanilla", "-vanilla"]
    assert (tmp_path / "logs" / f"{START}.txt").read_text() == "out of luck\n"
    said = capsys.readouterr().err
    assert f"{START}: failed (1): see logs/{START}.txt" in said
    assert f"{NEXT}: not begun, {START} is not trained" in said
    assert f"{RUNS}: not begun, {NEXT} is not trained" in said


def test_a_start_of_an_earlier_call_will_do(tmp_path: Path) -> None:
    _write(tmp_path / "runs" / START / "train.json", {"stages": {"sft": {}}})
    assert _jobs(tmp_path, 2, {NEXT: "grpo"}).run([NEXT]) == []
    assert _notes(tmp_path) == [f"+{NEXT}", f"-{NEXT}"]


def test_nothing_is_begun_after_the_minutes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _jobs(tmp_path, 2, {}, minutes=0).run(["vanilla", "worlds"]) == ["vanilla", "worlds"]
    assert _notes(tmp_path) == []
    assert "worlds: not begun, the minutes are over" in capsys.readouterr().err


def test_two_at_once_are_two_and_no_more(tmp_path: Path) -> None:
    names = ["vanilla", "cot", "worlds", START, "eog-on-cwq-fbpool-sft"]
    beside: list[int] = []  # of each that is begun: how many have begun before it and not ended

    def command(name: str) -> list[str]:
        beside.append(len(beside) - sum(note.startswith("-") for note in _notes(tmp_path)))
        return _job(tmp_path, name, "sft", together=2)

    assert Jobs(tmp_path, 2, command, None, pause=0.01).run(names) == []
    assert len(beside) == len(names)
    assert beside[:2] == [0, 1]  # the first ends only after the second has begun
    assert max(beside) == 1


def test_an_unknown_experiment_is_told_before_any_is_begun(tmp_path: Path) -> None:
    with pytest.raises(KgwalkError, match="did you mean `worlds`"):
        _jobs(tmp_path, 2, {}).run(["vanilla", "world5"])
    assert _notes(tmp_path) == []


def test_only_what_is_asked_for_is_prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """eog's two starts: questions of cwq-fbpool and those made from its graph, and eog's demonstrations of both."""
    made: list[str] = []
    monkeypatch.setattr(prepare, "_dataset", lambda source, target: made.append(f"{source} {target.name}"))
    monkeypatch.setattr(prepare, "_kgwalk", lambda target, *command: made.append(" ".join((target.stem, *command))))
    prepare.prepare(Path("sets"), tmp_path, worlds=8, scale=0.5, names=["eog-without-path-reward-1"])
    asked = f"--tokenizer {DEFAULT_MODEL}"
    assert made == [
        "sets/cwq-fbpool cwq-fbpool",
        "made-fbpool questions make sets/cwq-fbpool --count 4000 --noise 0.03 --quiet",
        f"cwq-fbpool demos eog --data {tmp_path}/data/cwq-fbpool --limit 750 {asked}",
        f"made-fbpool demos eog --data {tmp_path}/data/made-fbpool --limit 2000 {asked}",
    ]
    with pytest.raises(KgwalkError, match="did you mean `eog-without-nothing"):
        prepare.prepare(Path("sets"), tmp_path, worlds=8, scale=1.0, names=["eog-without-nothing"])


def test_everything_is_prepared_unless_told() -> None:
    every = prepare.needed(EXPERIMENTS)
    assert every.data >= {*SETS, *LEARNT, *MADE, FRESH, FRESH_WORLDS, "worlds", "metaqa-23"}
    assert every.demos >= {*SETS, *LEARNT, *MADE, BUNDLED, "worlds"}
    assert every.demos >= {f"{recipe}/{data}" for recipe in (*PAPERS, "kgwalk") for data in COMPARED}
    worlds = prepare.needed(["worlds-grpo"])
    assert worlds.demos == {"worlds"}
    assert worlds.data == {*SETS, BUNDLED, "worlds", FRESH_WORLDS}  # tested on all, and all their phrasings left out


def test_examples_in_the_code_of_preparing() -> None:
    found = doctest.testmod(prepare)
    assert found.attempted
    assert not found.failed
