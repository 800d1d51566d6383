"""Benchmarks run, and can fail: a soak of a second, rows that know their goal; the arithmetic by hand."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig

from kgwalk.bench.checks import Amount, check_rows, chi_square, chi_square_p, least_certain
from kgwalk.bench.decode import decoder_of
from kgwalk.bench.engine import EngineBench, EngineScale
from kgwalk.bench.episodes import Workload
from kgwalk.bench.machine import Machine, with_goals
from kgwalk.bench.roofline import Decoder, floor_seconds, step_bytes, step_operations
from kgwalk.bench.rows import Figure
from kgwalk.bench.soak import soak
from kgwalk.bench.timers import ProcessorClock, TimedPasses
from kgwalk.bench.train import step_rows
from kgwalk.cli.main import main
from kgwalk.config.recipe import load_recipe
from kgwalk.data.dataset import load_dataset
from kgwalk.llm.models import DEFAULT_MODEL
from kgwalk.llm.torch_engine.cuda_graphs import Recorded
from kgwalk.walk.policy import VARIABLE, shipped
from tiny_models import tiny_module  # also: one thread for torch


@pytest.fixture(autouse=True)
def _own_place(run_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGWALK_CACHE", str(run_cache))
    monkeypatch.setenv("COLUMNS", "120")
    for name in ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)


def test_rows_know_what_is_better() -> None:
    assert Figure("rate", 900.0, "actions/s", 24.0, (">=", 900.0)).ratio == 37.5
    assert Figure("time", 2.0, "ms", 41.0).ratio == 20.5
    assert Figure("rate", 899.0, "actions/s", None, (">=", 900.0)).met is False
    assert Figure("time", 20.0, "us", None, ("<=", 20.0)).met is True
    assert Figure("time", 20.0, "us").met is None


def test_a_short_soak(tmp_path: Path) -> None:
    rows = {row.name: row for row in soak(tmp_path, seconds=1.5, clients=16, triples=5_000)}
    assert rows["good items"].value > 100
    assert rows["bad items among them"].value > 30
    assert rows["wrong answers"].value == 0
    assert rows["answers with status 5xx"].value == 0


# The roofline, by hand: 1,000 weights, 2 layers, 1 key head and 2 query heads of width 4, 10 tokens, 2 bytes a number.


def test_bytes_and_operations_of_a_step() -> None:
    model = Decoder(weights=1000, layers=2, key_heads=1, query_heads=2, width=4, vocabulary=10, itemsize=2)
    # weights 2000; a token has 2 layers x (a key and a value) x 4 numbers = 32 bytes, 3 rows of 5: 480; logits 120
    assert step_bytes(model, batch=3, length=5) == 2000 + 480 + 120
    assert step_operations(model, batch=3, length=5) == 6000 + 960
    # with one row of one token there are the weights and little else
    assert step_bytes(model, batch=1, length=1) == 2000 + 32 + 40


def test_the_floor_is_the_larger_of_the_two_times() -> None:
    assert floor_seconds(2600, 6960, bandwidth=1300, rate=6960) == 2.0
    assert floor_seconds(2600, 6960, bandwidth=2600, rate=1740) == 4.0


def test_the_sizes_of_a_model_that_is_there() -> None:
    module = tiny_module()  # 3 layers of width 64; 4 heads of 16, 2 of them with keys; gates of 128; float32
    sizes = decoder_of(module)
    vocabulary = module.config.vocab_size
    layer = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64  # queries and out, keys and values, gates, norms
    assert sizes == Decoder(3 * layer + 64 + 64 * vocabulary, 3, 2, 4, 16, vocabulary, 4)  # the table is looked up in


# Draws.


def test_chi_square() -> None:
    # 20 draws: expected 10, 8 and 2, the last two one class: (8 - 10)^2 / 10 + (12 - 10)^2 / 10
    assert chi_square([8, 10, 2], [0.5, 0.4, 0.1]) == pytest.approx((0.8, 1))
    assert chi_square([4, 0], [1.0, 0.0]) == (0.0, 0)  # one class: it says nothing
    assert chi_square_p(0.8, 1) == pytest.approx(math.erfc(math.sqrt(0.4)))
    assert chi_square_p(3.0, 2) == pytest.approx(math.exp(-1.5))


def test_draws_are_made_where_there_is_something_to_draw() -> None:
    """The first place is as uncertain, and too early; impossible tokens do no harm."""
    shares = torch.tensor([[0.5, 0.5], [0.9, 0.1], [0.6, 0.4], [1.0, 0.0]])
    assert least_certain(shares.log()) == 2


def test_an_unfair_sampler_is_found() -> None:
    assert chi_square_p(*chi_square([500, 500], [0.5, 0.5])) == 1.0
    assert chi_square_p(*chi_square([600, 400], [0.5, 0.5])) < 1e-8


# Where time goes.


def test_what_runs_inside_counts_for_itself_alone() -> None:
    clock = ProcessorClock()

    def work(seconds: float) -> None:
        until = time.thread_time() + seconds
        while time.thread_time() < until:
            pass

    inner = clock.timed("inner", lambda: work(0.04))

    def outer() -> None:
        work(0.02)
        inner()

    begun = time.thread_time()
    clock.timed("outer", outer)()
    whole = time.thread_time() - begun
    assert clock.seconds["inner"] > clock.seconds["outer"]
    assert sum(clock.seconds.values()) <= whole  # nothing is counted twice


def test_recorded_passes_are_timed_and_put_back() -> None:
    """As on a GPU, with a list for the device's clock."""
    done: list[str] = []

    def timed(kind: str, replay: Callable[[], None]) -> Callable[[], None]:
        return lambda: (done.append(kind), replay())[1]

    before, new = (Recorded(lambda: done.append("replayed"), torch.zeros(1)) for _ in range(2))
    passes = TimedPasses(timed)
    passes["steps", 8] = before
    passes["prefill", 64] = new
    passes["steps", 8].replay()
    passes["prefill", 64].replay()
    assert done == ["steps", "replayed", "prefill", "replayed"]
    assert passes.plain() == {("steps", 8): before, ("prefill", 64): new}
    before.replay()
    new.replay()
    assert done[4:] == ["replayed", "replayed"]


# Steps of training.


def test_the_first_step_stands_apart() -> None:
    numbers = [(9.0, 6.0), (2.0, 1.0), (4.0, 2.0)]  # seconds, of which the update
    steps = [
        {"seconds": all_, "update_seconds": update, "tokens_a_second": 5.0, "episodes": 4.0, "dropped_groups": 0.0}
        for all_, update in numbers
    ]
    rows = {row.name: row.value for row in step_rows("x", steps, [1000, 1000, 1000])}
    assert rows["x: first step"] == 9.0
    assert rows["x: first step, update"] == 6.0
    assert rows["x: step"] == 3.0
    assert rows["x: step, update"] == 1.5
    assert rows["x: update, tokens of the episodes"] == 750.0  # of 1,000 and 500
    assert rows["x: tokens of an episode"] == 250.0


def test_goals_are_for_one_machine_and_model() -> None:
    class H200(Machine):
        @property
        def name(self) -> str:
            return "NVIDIA H200"

    rows = [Figure("kgwalk on metaqa: episodes", 900.0, "episodes/s"), Figure("other", 1.0, "s")]
    model, other = (LlamaConfig(num_hidden_layers=layers, hidden_size=576) for layers in (30, 32))
    assert [row.met for row in with_goals(rows, H200("cuda"), model)] == [False, None]
    assert [row.met for row in with_goals(rows, H200("cuda"), other)] == [None, None]
    assert [row.met for row in with_goals(rows, Machine("cpu"), model)] == [None, None]


@pytest.mark.parametrize(
    ("model", "adapter", "recipe", "expected"),
    [
        (None, None, "kgwalk", ("shipped", None)),  # an adapter's folder names its base
        (DEFAULT_MODEL, None, "kgwalk", (DEFAULT_MODEL, "shipped")),
        (None, "none", "kgwalk", (DEFAULT_MODEL, None)),
        ("tiny-random", None, "kgwalk", ("tiny-random", None)),  # it was not made for that
        (None, None, "kg-r1", (DEFAULT_MODEL, None)),  # nor has it learnt to walk so
    ],
)
def test_the_engine_is_measured_with_the_shipped_agent_where_it_fits(
    model: str | None,
    adapter: str | None,
    recipe: str,
    expected: tuple[str, str | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(VARIABLE)
    machine = Machine("cpu")
    bench = EngineBench(machine, EngineScale.of(machine), [load_recipe(recipe)], [], model, adapter)
    found = bench._named(bench.recipes[0])
    assert tuple("shipped" if name == str(shipped()) else name for name in found) == expected


def test_checks_in_bfloat16() -> None:
    """Log-probabilities beside the trainer's, and the trainer's beside its own in other rows."""
    place = Workload.of(load_recipe("kgwalk"), load_dataset("world"))
    with torch.backends.mkldnn.flags(enabled=False):  # whose bfloat16 kernels some processors do not have
        made = check_rows("tiny-random", None, place, Machine("cpu"), Amount(4, 8, 0), "bfloat16")
    rows = {row.name: row for row in made}
    assert rows["log-probabilities, bfloat16: mean difference"].met
    assert rows["log-probabilities, bfloat16: mean difference"].baseline is not None
    assert rows["log-probabilities, bfloat16: largest difference"].met is None
    assert rows["log-probabilities, bfloat16: of a token, in the mean"].value > 1  # it knows nothing
    assert not [name for name in rows if "sampled" in name]


# The commands, on a tiny model.

SHORT = ("--model", "tiny-random", "--device", "cpu", "--set", "rollout.turn_tokens=8", "--set", "protocol.turns=1")


def _rows(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> dict[str, Any]:
    """The command in this process, as the console script calls it; its rows by name."""
    monkeypatch.setattr(sys, "argv", ["kgwalk", "bench", *arguments, "--json"])
    capfd.readouterr()
    try:
        main()
        status: object = 0
    except SystemExit as end:
        status = end.code or 0
    found = json.loads(capfd.readouterr().out)
    assert status == 0, found
    assert all(set(row) == {"name", "value", "unit", "baseline", "goal", "ratio", "met"} for row in found["rows"])
    rows = {row["name"]: row for row in found["rows"]}
    assert len(rows) == len(found["rows"])  # no two of one name
    assert all(row["value"] >= 0 for row in rows.values())
    return rows


def test_bench_engine(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    rows = _rows(capfd, monkeypatch, "engine", *SHORT, "--batch", "1,2", "--context", "16", "--episodes", "8")
    for batch in (1, 2):
        label = f"batch {batch}, context 16"
        for name in (f"decode, {label}", f"prompt and 36 tokens, {label}"):
            assert rows[name]["value"] > 0
            assert rows[name]["ratio"] > 0
        assert rows[f"decode, {label}: share of the roofline"]["value"] > 0
        assert rows[f"prefill, {label}"]["value"] > 0
    place = "kgwalk on world"
    assert rows[f"{place}: episodes"]["value"] > 0
    assert 1 <= rows[f"{place}: turns"]["value"] <= 2
    assert 0 < rows[f"{place}: generated tokens"]["value"] <= 16
    device = [rows[f"{place}: device, {part}"]["value"] for part in ("prefill", "decode", "idle")]
    assert sum(device) == pytest.approx(1)
    for part in ("prompt", "parse", "graph", "tokenise"):
        assert f"{place}: Python, {part}" in rows
    assert rows[f"{place}: host memory, most"]["value"] > 0
    assert rows["greedy output, float32: prompts that differ"]["met"]
    assert rows["log-probabilities, float32: largest difference"]["met"]
    assert rows["sampled tokens against softmax: p of chi-square"]["met"]


def test_bench_engine_with_workers(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the part that was asked for; the workers' time is theirs, and there are no timers in them."""
    rows = _rows(capfd, monkeypatch, "engine", *SHORT, "--only", "episodes", "--episodes", "16", "--workers", "2")
    place = "kgwalk on world"
    assert rows[f"{place}: episodes"]["value"] > 0
    assert rows[f"{place}: processor, this process"]["value"] > 0
    assert f"{place}: processor, 2 workers" in rows
    assert not [name for name in rows if "Python" in name or "decode, batch" in name or "greedy" in name]


def test_bench_engine_beside_another(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The same prompts and walks by OpenVINO, same weights: its figures stand beside, its tokens are checked."""
    amount = ("--batch", "2", "--episodes", "8", "--workers", "2")
    rows = _rows(capfd, monkeypatch, "engine", *SHORT, *amount, "--beside", "cpu", "--beside-options", '{"batch": 2}')
    for label, what in (
        ("2 prompts of 476 tokens", "prompts"),
        ("kgwalk on world, one process", "episodes"),
        ("kgwalk on world, by 2 workers", "episodes"),
    ):
        for row in (rows[f"{label}: {what}"], rows[f"{label}: generated"]):
            assert row["value"] > 0
            assert row["ratio"] == pytest.approx(row["value"] / row["baseline"])
    alone, together = (rows[f"kgwalk on world, {how}: episodes"] for how in ("one process", "by 2 workers"))
    assert alone["baseline"] == together["baseline"]
    assert rows["greedy output, float32: prompts that differ, cpu"]["met"]
    assert rows["log-probabilities, float32: mean difference, cpu"]["met"]


def test_bench_engine_soak(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    rows = _rows(capfd, monkeypatch, "engine", *SHORT, "--soak", "--episodes", "20")
    assert rows["kgwalk on world, 20 episodes: episodes"]["value"] > 0
    assert rows["kgwalk on world, 20 episodes: host memory, growth"]["value"] > 0


def test_bench_train(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    rows = _rows(capfd, monkeypatch, "train", *SHORT, "--episodes", "16", "--steps", "2")
    place = "kgwalk on world, 16 episodes"
    for name in ("first step", "step", "step, rollout", "step, update", "update, tokens of the episodes"):
        assert rows[f"{place}: {name}"]["value"] > 0
    assert rows[f"{place}: groups without a difference"]["value"] == 0  # luck is among the rewards


def test_bad_input_is_told(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments, status, words in (
        (("engine", "--batch", "1,x"), 2, "whole numbers"),
        (("engine", "--batch", "0"), 2, "from 1 on"),
        (("engine", "--check", "--soak"), 2, "one each"),
        (("engine", "--beside", "vlm"), 1, "did you mean 'vllm'"),
        (("engine", "--beside", "cpu", "--beside-options", "[1]"), 2, "takes a JSON object, not '[1]'"),
        (("engine", "--only", "decod"), 2, "did you mean `decode`"),
        (("engine", "--recipe", "kgwak"), 1, "did you mean `kgwalk`"),
        (("train", "--episodes", "3", "--device", "cpu"), 1, "a group of kgwalk has 8"),
    ):
        monkeypatch.setattr(sys, "argv", ["kgwalk", "bench", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == status
        assert words in capfd.readouterr().err
