"""Which rows copy a beginning from another slot, and which wait for one: no model, no tensors."""

from __future__ import annotations

from kgwalk.llm.engine import Sampling, StopDetector
from kgwalk.llm.tokenizers import ByteTokenizer
from kgwalk.llm.torch_engine.prefix_cache import WORTH_COPYING, PrefixCache
from kgwalk.llm.torch_engine.sequence import SlotSequence
from kgwalk.llm.torch_engine.slots import Slot

PROMPT = list(range(100, 164))  # four blocks of 16 tokens


def row(slot: int, ids: list[int]) -> SlotSequence:
    found = SlotSequence(
        ids, Sampling(), max_new=8, draws=[], stop_detector=StopDetector(ByteTokenizer(), ()), session=""
    )
    found.work_in(Slot(slot))
    return found


def test_a_group_computes_its_prompt_once() -> None:
    """Three rows begin with the same 64 tokens: the first computes them, the others wait, and then copy."""
    prefix_cache = PrefixCache()
    one, two, three = (row(slot, [*PROMPT, last]) for slot, last in enumerate((7, 8, 9)))
    first = prefix_cache.plan([one, two, three])
    assert (first.copies, first.ready, first.deferred) == ([], [one], [two, three])
    assert one.slot is not None
    one.slot.cached = 65  # the pass has computed it
    prefix_cache.computed(one, 65)
    then = prefix_cache.plan([two, three])
    assert then.copies == [(0, 1, 64), (0, 2, 64)]
    assert (then.ready, then.deferred) == ([two, three], [])
    assert [each.slot.cached for each in (two, three) if each.slot is not None] == [64, 64]


def test_short_beginnings_are_computed() -> None:
    prefix_cache = PrefixCache()
    short = list(range(WORTH_COPYING))
    rows = [row(slot, [*short]) for slot in range(3)]
    found = prefix_cache.plan(rows)
    assert (found.copies, found.ready, found.deferred) == ([], rows, [])


def test_a_slot_keeps_what_it_holds_of_a_longer_context() -> None:
    """All but one token: the logits after the last are what a row wants."""
    slot = Slot(0, ids=[1, 2, 3, 9], cached=4)
    first = row(1, [1, 2, 3, 4, 5])
    first.work_in(slot)
    assert slot.cached == 3
    same = row(2, [1, 2, 3])
    same.work_in(Slot(0, ids=[1, 2, 3], cached=3))
    assert same.slot is not None
    assert same.slot.cached == 2
