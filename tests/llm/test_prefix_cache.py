"""Which sequences copy a prefix from another slot, and which wait for one: no model, no tensors."""

from __future__ import annotations

from kgwalk.llm.engine import Sampling, StopDetector
from kgwalk.llm.tokenizers import ByteTokenizer
from kgwalk.llm.torch_engine.kv_cache import WORTH_COPYING, PrefixCache, PrefixIndex
from kgwalk.llm.torch_engine.sequence import Slot, SlotSequence, SlotTable, prefix_hashes

PROMPT = list(range(100, 164))  # four blocks of 16 tokens


def sequence(slot: int, ids: list[int]) -> SlotSequence:
    found = SlotSequence(
        ids, Sampling(), max_new=8, draws=[], stop_detector=StopDetector(ByteTokenizer(), ()), session=""
    )
    found.work_in(Slot(slot))
    return found


def test_a_group_computes_its_prompt_once() -> None:
    """Three sequences begin with the same 64 tokens: the first computes them, the others wait, and then copy."""
    prefix_cache = PrefixCache()
    one, two, three = (sequence(slot, [*PROMPT, last]) for slot, last in enumerate((7, 8, 9)))
    first = prefix_cache.plan([one, two, three])
    assert (first.copies, first.ready, first.deferred) == ([], [one], [two, three])
    assert one.slot is not None
    one.slot.cached = 65  # the pass has computed it
    prefix_cache.computed(one, 65)
    then = prefix_cache.plan([two, three])
    assert then.copies == [(0, 1, 64), (0, 2, 64)]
    assert (then.ready, then.deferred) == ([two, three], [])
    assert [each.slot.cached for each in (two, three) if each.slot is not None] == [64, 64]


def test_short_prefixes_are_computed() -> None:
    prefix_cache = PrefixCache()
    short = list(range(WORTH_COPYING))
    sequences = [sequence(slot, [*short]) for slot in range(3)]
    found = prefix_cache.plan(sequences)
    assert (found.copies, found.ready, found.deferred) == ([], sequences, [])


def test_a_slot_keeps_what_it_holds_of_a_longer_context() -> None:
    """All but one token: the logits after the last are what a sequence needs."""
    slot = Slot(0, ids=[1, 2, 3, 9], cached=4)
    first = sequence(1, [1, 2, 3, 4, 5])
    first.work_in(slot)
    assert slot.cached == 3
    same = sequence(2, [1, 2, 3])
    same.work_in(Slot(0, ids=[1, 2, 3], cached=3))
    assert same.slot is not None
    assert same.slot.cached == 2


def test_prefixes_are_found_and_removed() -> None:
    table, index = SlotTable(2), PrefixIndex()
    one = table.take("one")
    assert one is not None
    one.ids, one.cached = list(range(50)), 50
    index.add(one, prefix_hashes(one.ids))

    def longest(ids: list[int]) -> tuple[Slot, int] | None:
        return index.longest(ids, prefix_hashes(ids))

    assert longest(list(range(60))) == (one, 48)  # three blocks of 16
    assert longest([*range(20), 99, *range(21, 60)]) == (one, 16)
    assert longest([99, *range(1, 60)]) is None
    one.ids = [*range(16), *range(100, 140)]  # the slot is another's now
    assert longest(list(range(60))) == (one, 16)
    index.clear()
    assert longest(list(range(60))) is None
