"""The cpu engine against transformers itself; what it keeps, shares and computes, counted in tokens."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("kgwalk.llm.openvino_engine.runtime")  # not openvino itself: see there

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine_helpers import ask, ask_for_a_call, by_constrained_pass, by_full_pass, by_transformers, prompt, run
from kgwalk.config.cache import CACHE_VARIABLE, damage
from kgwalk.llm.engine import Engine, Generation, auto_kind, common_length, draws, first_stop, open_engine, seed_at
from kgwalk.llm.openvino_engine.blocks import BlockTable
from kgwalk.llm.openvino_engine.convert import check, quantise
from kgwalk.llm.openvino_engine.engine import CpuEngine
from kgwalk.llm.openvino_engine.model import converted_folder
from kgwalk.llm.openvino_engine.runtime import ov
from kgwalk.llm.sampling import sample
from kgwalk.systems.kgwalk.protocol import parse
from kgwalk.types import Answer, EngineError, Malformed, Message
from tiny_models import save_tiny, tiny_model, tiny_module

KINDS = ["llama", "qwen2", "qwen3"]
SIZE = 32  # tokens a block


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A tiny Llama on disk, and a cache folder of this module's own, so that it is made ready once."""
    place = tmp_path_factory.mktemp("models")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(place / "cache"))
        yield save_tiny(place / "base")


@pytest.fixture(scope="module")
def made(folder: Path) -> Iterator[Callable[..., CpuEngine]]:
    """Engines, one for each family and kind of number, closed at the end."""
    engines: dict[tuple[str, str], CpuEngine] = {}

    def one(kind: str, dtype: str = "float32") -> CpuEngine:
        if (kind, dtype) not in engines:
            model = folder if (kind, dtype) == ("llama", "float32") else tiny_model(kind)
            engines[kind, dtype] = CpuEngine(model, dtype=dtype, threads=1)
        return engines[kind, dtype]

    yield one
    for engine in engines.values():
        asyncio.run(engine.close())


@pytest.fixture
def engine(made: Callable[..., CpuEngine]) -> CpuEngine:
    """A tiny Llama in float32 that holds nothing."""
    found = made("llama")
    found._scheduler._table.clear()
    return found


def forget(engine: CpuEngine, *sessions: str) -> None:
    async def all_of_them() -> None:
        for session in sessions:
            await engine.forget(session)

    asyncio.run(all_of_them())


# The same tokens as transformers, with the log-probabilities of a full pass.


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_ids_and_logprobs_are_transformers_own(kind: str, made: Any) -> None:
    engine, reference = made(kind), tiny_module(kind)
    assert isinstance(engine, Engine)
    prompts = [prompt(length, seed=length) for length in (1, 7, 40, 90)]
    for ids, generation in zip(prompts, run(engine, *(ask(ids, max_tokens=20) for ids in prompts)), strict=True):
        assert generation.ids == by_transformers(reference, ids, 20, engine.tokens.end_ids)
        assert generation.logprobs == pytest.approx(by_full_pass(reference, ids, generation.ids), abs=1e-3)
        assert generation.finish == ("eos" if generation.ids[-1] in engine.tokens.end_ids else "length")


def test_a_prompt_longer_than_a_pass_is_computed_in_parts(engine: CpuEngine) -> None:
    ids = prompt(700)  # a pass takes 512
    assert run(engine, ask(ids))[0].ids == by_transformers(tiny_module(), ids, 12, engine.tokens.end_ids)


def test_eight_bits_change_little(made: Any) -> None:
    ids = prompt(60)
    generation = run(made("llama", "int8"), ask(ids, temperature=1.0, seed=1))[0]
    exact = by_full_pass(tiny_module(), ids, generation.ids)
    assert generation.logprobs == pytest.approx(exact, abs=0.5)
    assert generation.logprobs != pytest.approx(exact, abs=1e-4)


def test_sampled_tokens_are_those_of_the_full_pass_with_the_same_draws(engine: CpuEngine) -> None:
    ids = prompt(30)
    generation = run(engine, ask(ids, temperature=0.8, top_p=0.9, seed=5))[0]
    numbers = draws(seed_at(5, len(ids)), 12)
    with torch.no_grad():
        logits = tiny_module()(torch.tensor([ids + generation.ids])).logits[0, len(ids) - 1 : -1].numpy()
    assert generation.ids == [sample(row, 0.8, 0.9, draw)[0] for row, draw in zip(logits, numbers, strict=False)]


# What is kept, and what is shared.


def test_under_a_grammar_turns_are_whole_and_probabilities_are_among_what_is_allowed(engine: CpuEngine) -> None:
    """Drafts or not, alone or with others: the same calls, of the relations and sets that there are."""
    requests = [ask_for_a_call(prompt(30, seed=n), seed=n, temperature=n % 3 / 2) for n in range(12)]
    together = run(engine, *requests)
    alone = [run(engine, request)[0] for request in requests]
    for request, made, again in zip(requests, together, alone, strict=True):
        step = parse(engine.tokens.decode(made.ids))
        assert not isinstance(step, Malformed), step
        assert made.finish == ("stop" if isinstance(step, Answer) else "eos")
        assert made.room == 40
        assert again.ids == made.ids
        expected = by_constrained_pass(tiny_module(), list(request.ids), made, engine.tokens)
        assert made.logprobs == pytest.approx(expected, abs=1e-3)
    assert len({engine.tokens.decode(made.ids) for made in together}) > 4
    drafted, accepted = engine.guessed
    assert accepted > 0.3 * drafted  # where only one token is allowed the draft is right


def test_a_turn_without_room_for_any_call_is_free(engine: CpuEngine) -> None:
    [made] = run(engine, ask_for_a_call(prompt(30), max_tokens=2))
    assert made.room is None
    assert made.logprobs == pytest.approx(by_full_pass(tiny_module(), prompt(30), made.ids), abs=1e-3)


def test_a_session_computes_only_what_is_new(engine: CpuEngine) -> None:
    before = engine.computed
    first = run(engine, ask(prompt(200), "s", max_tokens=4))[0]
    assert engine.computed - before == 200 + 3  # the last token chosen has not been through the model
    before = engine.computed
    ids = prompt(200) + first.ids + prompt(9, seed=1)
    second = run(engine, ask(ids, "s", max_tokens=4))[0]
    assert engine.computed - before == 1 + 9 + 3
    assert second.ids == by_transformers(tiny_module(), ids, 4, engine.tokens.end_ids)
    assert second.logprobs == pytest.approx(by_full_pass(tiny_module(), ids, second.ids), abs=1e-3)
    forget(engine, "s")


def test_the_next_question_finds_the_beginning_of_the_last_one(engine: CpuEngine) -> None:
    fixed = prompt(100)  # three blocks of 32, and four tokens
    run(engine, ask(fixed + prompt(20, seed=1), "one", max_tokens=1))
    forget(engine, "one")
    before = engine.computed
    ids = fixed + prompt(20, seed=2)
    assert run(engine, ask(ids, "two", max_tokens=1))[0].ids == by_transformers(
        tiny_module(), ids, 1, engine.tokens.end_ids
    )
    assert engine.computed - before == 120 - 3 * SIZE
    forget(engine, "two")


def test_prompts_that_come_together_compute_their_common_beginning_once(engine: CpuEngine) -> None:
    shared = prompt(160)  # five blocks
    requests = [ask(shared + prompt(20, seed=n), f"s{n}", max_tokens=5) for n in range(6)]
    before = engine.computed
    together = run(engine, *requests)
    assert engine.computed - before <= 160 + 6 * (20 + 4)
    for request, generation in zip(requests, together, strict=True):
        assert generation.ids == by_transformers(tiny_module(), list(request.ids), 5, engine.tokens.end_ids)
    forget(engine, *(f"s{n}" for n in range(6)))


def test_a_context_that_was_changed_is_computed_from_the_change_on(engine: CpuEngine) -> None:
    ids = prompt(80)
    run(engine, ask(ids, "s"), ask([*ids, 11], "t"))  # the two share blocks
    ids[50] = 11 if ids[50] != 11 else 12
    for some in (ids, ids[:20]):
        assert run(engine, ask(some, "s"))[0].ids == by_transformers(tiny_module(), some, 12, engine.tokens.end_ids)
    whole = [*prompt(80), 11]
    assert run(engine, ask(whole, "t"))[0].ids == by_transformers(tiny_module(), whole, 12, engine.tokens.end_ids)
    forget(engine, "s", "t")


def test_more_sessions_than_the_cache_holds_give_the_same(folder: Path) -> None:
    small = CpuEngine(folder, dtype="float32", threads=1, batch=2, tokens=0, context=130)  # 7 blocks

    async def walk(number: int) -> list[int]:
        ids = prompt(40 + number, seed=number)
        for turn in range(3):
            request = ask(ids, f"s{number}", temperature=1.0, seed=number, max_tokens=6)
            ids = ids + (await small.generate(request)).ids + prompt(4, seed=turn)
        return ids

    async def all_of_them() -> list[list[int]]:
        return list(await asyncio.gather(*(walk(number) for number in range(7))))

    together = asyncio.run(all_of_them())
    assert small._scheduler._table.count <= 7
    alone = [asyncio.run(walk(number)) for number in range(7)]
    assert together == alone
    asyncio.run(small.close())


# Guesses ahead.


def test_draft_tokens_change_nothing_that_is_written(engine: CpuEngine, folder: Path) -> None:
    plain = CpuEngine(folder, dtype="float32", threads=1, guesses=0)
    before = engine.guessed
    for number, how in enumerate(({}, {"temperature": 0.7, "top_p": 0.9, "seed": 3}, {"temperature": 0.2, "seed": 4})):
        ids = prompt(30, seed=number) * 2
        for turn in range(3):
            found, expected = (run(one, ask(ids, f"s{number}", max_tokens=25, **how))[0] for one in (engine, plain))
            assert (found.ids, found.finish) == (expected.ids, expected.finish)
            assert found.logprobs == pytest.approx(expected.logprobs, abs=1e-4)
            ids = ids + found.ids + prompt(5, seed=turn)
        forget(engine, f"s{number}")
    guessed, right = (now - then for now, then in zip(engine.guessed, before, strict=True))
    assert 0 < right < guessed
    assert plain.guessed == (0, 0)
    asyncio.run(plain.close())


# Ends.


def test_what_is_asked_together_is_what_is_asked_alone_with_two_streams_too(engine: CpuEngine, folder: Path) -> None:
    """Sixteen requests, greedy and sampled, two turns each, in two passes at a time."""
    first = [ask([*prompt(40), *prompt(5 + n, seed=n)], f"s{n}", temperature=float(n % 2), seed=n) for n in range(16)]
    alone = [run(engine, one)[0] for one in first]
    both = CpuEngine(folder, dtype="float32", threads=1, streams=2)
    try:
        assert [one.ids for one in run(both, *first)] == [one.ids for one in alone]
        turns = [[*one.ids, *made.ids] for one, made in zip(first, alone, strict=True)]
        again = [ask([*ids, *prompt(9, seed=n)], f"s{n}") for n, ids in enumerate(turns)]
        alone = [run(engine, one)[0] for one in again]
        together = run(both, *again)
        assert [one.ids for one in together] == [one.ids for one in alone]
        for one, other in zip(together, alone, strict=True):
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
    finally:
        asyncio.run(both.close())


def test_a_stop_text_ends_with_the_token_that_completes_it(engine: CpuEngine) -> None:
    ids = prompt(30)
    whole = run(engine, ask(ids, temperature=1.0, seed=1, max_tokens=40))[0]
    text = engine.tokens.decode(whole.ids)
    stops = [text[at : at + 3] for at in range(5, len(text) - 6, 9) if "\ufffd" not in text[at : at + 3]]
    assert stops
    for stop in stops:
        generation = run(engine, ask(ids, temperature=1.0, seed=1, max_tokens=40, stop=("never", stop)))[0]
        assert generation.finish == "stop"
        assert generation.ids == whole.ids[: first_stop(engine.tokens, whole.ids, [stop])]


def test_what_cannot_be_asked_is_refused(engine: CpuEngine) -> None:
    for request, words in (
        (ask([]), "nothing to continue"),
        (ask(prompt(1024)), "prompt has 1,024 tokens; with a context of 1,024 none can follow"),
        (ask([10**6]), "ids must be 0 to"),
        (ask([5], temperature=-1.0), "temperature must be 0 or more"),
    ):
        with pytest.raises(EngineError, match=words):
            run(engine, request)
    assert run(engine, ask(prompt(5), max_tokens=0)) == [Generation([], [], "length")]


def test_a_failing_pass_fails_its_requests_and_no_later_one(
    engine: CpuEngine, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run(engine, ask(prompt(20), "s"))[0]

    def fail(rows: object, wanted: object) -> None:
        raise RuntimeError("out of memory, say")

    with monkeypatch.context() as patch, caplog.at_level(logging.CRITICAL):
        patch.setattr(engine._scheduler._model, "forward", fail)
        with pytest.raises(EngineError, match="RuntimeError: out of memory, say"):
            run(engine, ask(prompt(20), "s"))
    assert run(engine, ask(prompt(20), "s"))[0].ids == expected.ids


def test_numbers_that_overflow_fail_their_own_request(engine: CpuEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = engine._scheduler._model
    forward = model.forward

    def poisoned(rows: Any, wanted: Any) -> Any:  # id 5 is in no prompt here; a model for which it is no number
        logits = forward(rows, wanted)
        for end, count, (ids, _, blocks) in zip(np.cumsum(wanted), wanted, rows, strict=True):
            if 5 in ids:
                logits[end - count : end] = np.nan
                for tensor in model._tensors.values():
                    tensor.data[blocks] = np.nan
        return logits

    monkeypatch.setattr(model, "forward", poisoned)
    good, bad = ask(prompt(20)), ask([*prompt(60, seed=1), 5])
    expected = run(engine, good)[0].ids
    with pytest.raises(EngineError, match="overflowed"):
        run(engine, bad)
    assert run(engine, ask(prompt(60, seed=1)))[0].ids == by_transformers(
        tiny_module(), prompt(60, seed=1), 12, engine.tokens.end_ids
    )  # in the blocks that had them
    assert run(engine, good)[0].ids == expected


def test_closing_ends_what_is_under_way_and_what_comes_later(folder: Path) -> None:
    engine = CpuEngine(folder, dtype="float32", threads=1, batch=1)

    async def scenario() -> None:
        tasks = [asyncio.create_task(engine.generate(ask(prompt(20, n), max_tokens=900))) for n in range(3)]
        await asyncio.sleep(0.02)
        await engine.close()
        for result in await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20):
            assert isinstance(result, EngineError)
            assert "was closed" in str(result)
        with pytest.raises(EngineError, match="the engine is closed"):
            await engine.generate(ask(prompt(20)))
        await engine.close()

    asyncio.run(scenario())


# Made once, and kept.


def test_an_adapter_is_merged_once_and_the_next_start_needs_no_torch(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    from peft import LoraConfig, PeftModel, get_peft_model

    torch.manual_seed(0)
    grown = get_peft_model(tiny_module(), LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False))
    grown.save_pretrained(str(tmp_path / "adapter"))
    engine = open_engine("cpu", str(folder), adapter=str(tmp_path / "adapter"), dtype="float32", threads=1)
    assert isinstance(engine, CpuEngine)
    ids = engine.tokens.open_chat([Message("user", "who directed Big?")])
    found = run(engine, ask(ids, max_tokens=8))[0]
    merged = PeftModel.from_pretrained(tiny_module(), str(tmp_path / "adapter"))
    plain = by_transformers(tiny_module(), ids, 8, engine.tokens.end_ids)
    assert found.ids == by_transformers(merged, ids, 8, engine.tokens.end_ids) != plain
    asyncio.run(engine.close())

    options = f"{str(folder)!r}, adapter={str(tmp_path / 'adapter')!r}, dtype='float32', threads=1"
    code = (
        "import asyncio, json, sys\n"
        "from kgwalk.llm.engine import Request, Sampling\n"
        "from kgwalk.llm.engine import open_engine\n"
        f"engine = open_engine('cpu', {options})\n"
        f"made = asyncio.run(engine.generate(Request({ids}, [], Sampling(max_tokens=8))))\n"
        "asyncio.run(engine.close())\n"
        "loaded = [name for name in ('torch', 'openvino_telemetry') if sys.modules.get(name)]\n"
        "print(json.dumps([made.ids, loaded]))\n"
    )
    again = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(again.stdout) == [found.ids, []]

    weights = tmp_path / "adapter" / "adapter_model.safetensors"
    weights.rename(tmp_path / "gone")
    with pytest.raises(EngineError, match=r"has no adapter_model\.safetensors"):
        open_engine("cpu", str(folder), adapter=str(tmp_path / "adapter"))


def test_a_damaged_copy_is_made_again(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    place = converted_folder(folder, None, "int8")
    weights = (place / "model.bin").read_bytes()
    damages = {
        "model.bin is damaged": ("model.bin", weights[:50] + bytes([weights[50] ^ 1]) + weights[51:]),
        "kgwalk.json is damaged": ("kgwalk.json", b"{"),
        "model.xml is damaged": ("model.xml", b"<net"),
        "it cannot be read": ("checksums.json", b"\xff"),
    }
    for why, (name, content) in damages.items():
        (place / name).write_bytes(content)
        caplog.clear()
        assert converted_folder(folder, None, "int8") == place
        (said,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
        assert said.startswith(f"{place}: {why}")
        assert said.endswith("; it is made again")
        assert (place / "model.bin").read_bytes() == weights
        assert damage(place) is None
    (place / "model.bin").unlink()
    converted_folder(folder, None, "int8")
    assert "model.bin is missing; it is made again" in caplog.text


def test_one_copy_however_the_model_is_named(folder: Path, tmp_path: Path) -> None:
    """`ask` gives an adapter, which names its model; `serve` gives both. What an older version kept goes."""
    pytest.importorskip("peft")
    from peft import LoraConfig, get_peft_model

    grown = get_peft_model(tiny_module(), LoraConfig(r=4, target_modules=["q_proj"], init_lora_weights=False))
    grown.save_pretrained(str(tmp_path / "shipped"))
    config = tmp_path / "shipped" / "adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"base_model_name_or_path": str(folder)}))
    first = converted_folder(tmp_path / "shipped", None, "float32")
    older = first.with_name(first.name.replace("base-", "shipped-", 1).removesuffix("2") + "1")
    other = first.with_name("shipped-float32-0123456789abcdef-1")
    for place in (older, other):
        place.mkdir()
    assert converted_folder(folder, tmp_path / "shipped", "float32") == first
    assert older.is_dir()  # no error, and looked at only when something is made
    (first / "model.bin").unlink()
    assert converted_folder(folder, tmp_path / "shipped", "float32") == first
    assert not older.exists()
    assert other.is_dir()  # of something else


def test_auto_is_the_processor_where_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    assert auto_kind() == ("local" if torch.cuda.is_available() else "cpu")
    monkeypatch.setitem(sys.modules, "openvino", None)  # as if it were not installed
    assert auto_kind() == "local"
    with pytest.raises(EngineError, match=r"needs the package openvino.*pip install 'kgwalk\[cpu\]'"):
        open_engine("cpu")


def test_options_that_do_not_exist_are_named() -> None:
    with pytest.raises(EngineError, match="unknown dtype 'int4' of the engine cpu; there are int8, float32"):
        CpuEngine(tiny_model(), dtype="int4")
    with pytest.raises(EngineError, match="batch must be at least 1; it is 0"):
        CpuEngine(tiny_model(), batch=0)
    with pytest.raises(EngineError, match="guesses must be 0 or more; they are -1"):
        CpuEngine(tiny_model(), guesses=-1)


def test_a_copy_that_is_not_the_model_is_refused(folder: Path) -> None:
    graph = ov.Core().read_model(converted_folder(folder, None, "float32") / "model.xml")
    check(tiny_module(), graph)
    other = tiny_module()
    with torch.no_grad():
        other.get_output_embeddings().weight[20] += 0.5
    with pytest.raises(EngineError, match=r"is off by .* in log-probability"):
        check(other, graph)


# The parts, by hand.


def test_blocks_are_shared_counted_and_given_up() -> None:
    table = BlockTable(size=4, max_blocks=4)
    one = table.take("one", [1, 2, 3, 4, 5, 6], room=8)
    assert one is not None
    assert (one.blocks, one.ids) == ([0, 1], [])
    one.ids = [1, 2, 3, 4, 5, 6]
    two = table.take("two", [1, 2, 3, 4, 9], room=8)
    assert two is not None
    assert (two.blocks, two.ids) == ([0, 2], [1, 2, 3, 4])  # the first block is in both lists
    assert table.take("three", [7] * 8, room=8) is None  # one block is left, two are wanted, all others are at work
    two.ids = [1, 2, 3, 4, 9]
    table.release(one)
    table.release(two)
    again = table.take("one", [1, 2, 8], room=4)  # it may not write into block 0, which is two's as well
    assert again is one
    assert again.ids == []
    assert again.blocks != [0]
    table.release(again)
    three = table.take("three", [7] * 16, room=16)  # all four blocks: whoever is idle goes
    assert three is not None
    assert sorted(three.blocks) == [0, 1, 2, 3]
    assert [one.session for one in table.sequences] == ["three"]


Steps = st.lists(
    st.tuples(st.sampled_from("abcd"), st.lists(st.integers(0, 1), min_size=1, max_size=12), st.booleans())
)


@given(Steps, st.integers(4, 8))
def test_no_block_is_written_by_one_and_read_by_another(steps: Any, most: int) -> None:
    """The cache is played with: a block's content is the tokens up to each place in it."""
    table, content = BlockTable(size=3, max_blocks=most), {}
    for session, ids, over in steps:
        held = table.take(session, ids, len(ids))
        assert held is not None  # nobody else is at work, and 12 tokens fit into 4 blocks
        assert len(held.ids) < len(ids)
        for place in range(len(held.ids), len(ids)):
            content[held.blocks[place // 3], place % 3] = tuple(ids[: place + 1])
        held.ids = list(ids)
        table.release(held)
        if over:
            table.forget(session)
        for one in table.sequences:
            for place in range(len(one.ids)):
                assert content[one.blocks[place // 3], place % 3] == tuple(one.ids[: place + 1])
    assert table.count <= most


@given(st.lists(st.integers(0, 2), max_size=9), st.lists(st.integers(0, 2), max_size=9))
def test_common_length_counts_from_the_beginning(one: list[int], other: list[int]) -> None:
    common = common_length(one, other)
    assert one[:common] == other[:common]
    assert common == min(len(one), len(other)) or one[common] != other[common]


def test_choosing_by_hand() -> None:
    logits = np.log(np.array([0.5, 0.1, 0.4]))
    cases = [(0, 1, 0.9, 0), (1, 1, 0.49, 0), (1, 1, 0.55, 1), (1, 1, 0.61, 2), (1, 0.8, 0.6, 2), (1, 0.5, 0.99, 0)]
    # greedy; in [0, .5) is 0; in [.5, .6) is 1; in [.6, 1) is 2; of 0.9 kept (tokens 0 and 2) 0.54 is in token 2's
    # part; of the likeliest token alone everything is token 0's
    for temperature, top_p, draw, expected in cases:
        number, logprob = sample(logits, temperature, top_p, draw)
        assert number == expected
        assert logprob == pytest.approx(math.log([0.5, 0.1, 0.4][number]))


def test_a_group_of_numbers_is_rounded_by_its_largest() -> None:
    row = np.array([[1.27, -0.5, 0.004] + 29 * [0.0] + 32 * [0.0]], dtype=np.float32)
    numbers, scales = quantise(row)
    assert numbers.shape == (1, 2, 32)
    assert numbers[0, 0, :4].tolist() == [127, -50, 0, 0]  # 0.004 / 0.01 is nearer to 0
    assert scales[0, :, 0].tolist() == pytest.approx([0.01, 1.0])  # a group of zeros has any scale
    assert quantise(np.ones((2, 5), dtype=np.float32))[0].shape == (2, 1, 5)  # no multiple of 32: one group
