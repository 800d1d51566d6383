"""Sequences into microbatches: rows of tokens for the model to compute, lines for the loss to read.

The rollouts of a group answer one question, all questions follow the same instructions, and rollouts often take the
same first turn. What several sequences begin with is therefore computed once: a row is a `Tree` of sequences that share
their beginning, each one's own tokens after it. So a model computes R rows of L tokens, while the loss sees B sequences
of T tokens, as if each had a row of its own.

- `trees` puts sequences into rows as far as sharing pays; `forests` does it for attention by blocks.
- `microbatches` puts rows of like length together, so that little is padding.
- `collate` makes the tensors of one microbatch (`Batch`), and `pack` does all three.
- `inputs_of` gives a model its rows, with the mask that keeps branches apart.

How sequences are cut changes nothing that is learnt: the losses of microbatches add up to that of the batch (`loss`).
All indices are made here, on the host, so that the device never has to be asked how many there are.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from kgwalk.llm.automaton import Automaton
from kgwalk.training.fused import sight
from kgwalk.types import Flat, KgwalkError

PAIRS = 4096  # pairs of tokens in attention that cost as much time as one token in the layers; see `pairs_a_token`
# The most tokens that may follow one shared beginning where attention is computed by blocks. The gradient of a block of
# keys is summed over all blocks that see it, one after the other, so the whole row waits for its first block: with
# 23,552 tokens behind one beginning that took 65% of an update's time on an H200 (docs/log.md).
BEHIND = 2048
MASKED = 32_768  # pairs in a mask that take the memory of one token: 2 to 5 bytes a pair, 100 kB and more a token
AnyArray: TypeAlias = NDArray[Any]


class Tree(NamedTuple):
    """A row: the numbers of its sequences, and how many tokens each shares with the one before it in the row.

    Members stand in the order of their tokens, so that those that share most are neighbours.
    """

    members: tuple[int, ...]
    shared: tuple[int, ...]
    length: int

    @property
    def forks(self) -> bool:
        return len(self.members) > 1


def work(length: int, forks: bool, pairs: int = PAIRS) -> int:
    """The time that a row costs, in tokens: its own, plus the pairs of its attention.

    A row that forks needs a mask, and all pairs are computed. Without a fork only the half that looks back is.

    >>> work(4096, forks=True), work(4096, forks=False), work(770, forks=True)
    (8192, 6144, 914)
    """
    return length + length * length // (pairs if forks else 2 * pairs)


def room(length: int, forks: bool) -> int:
    """The memory that a row takes, in tokens: its own, plus those of its mask if it forks.

    >>> room(4096, forks=True), room(4096, forks=False), room(770, forks=True)
    (4608, 4096, 788)
    """
    return length + (length * length // MASKED if forks else 0)


def trees(
    flats: Sequence[Flat],
    budget: int,
    *,
    share: bool = True,
    pairs: int = PAIRS,
    ids: Sequence[AnyArray] | None = None,
) -> list[Tree]:
    """Rows in which sequences that begin alike stand together, as far as that saves time and fits the budget.

    Attention pairs every token of a row with every other, and a mask then hides what a branch may not see. So a row
    ends where its pairs would cost more time than another copy of what is shared. Without `share` each sequence has a
    row of its own. `ids` are those of the sequences, where they have been made arrays already (`id_arrays`).

    >>> walks = [[1, 2, 7, 8], [1, 2, 9], [5, 6, 7], [1, 2, 7, 3]]
    >>> flats = [Flat(ids, [0, 0] + [1] * (len(ids) - 2), [0.0] * len(ids), []) for ids in walks]
    >>> trees(flats, 100)  # 1 2 7 3, of the next its 8, of the next its 9; and 5 6 7: 9 tokens instead of 14
    [Tree(members=(3, 0, 1), shared=(0, 3, 2), length=6), Tree(members=(2,), shared=(0,), length=3)]
    >>> [tree.members for tree in trees(flats, 5)]
    [(3, 0), (1,), (2,)]
    """
    _check_first_tokens(flats)
    if not share:
        return [Tree((number,), (0,), len(flat.ids)) for number, flat in enumerate(flats)]
    found: list[Tree] = []
    for number, same in _in_order(id_arrays(flats) if ids is None else ids):
        own = len(flats[number].ids)
        row = found[-1] if found else Tree((), (), 0)
        longer = row.length + own - same
        dearer = work(longer, True, pairs) - work(row.length, row.forks, pairs)
        if same and room(longer, True) <= budget and dearer <= work(own, False, pairs):
            found[-1] = Tree((*row.members, number), (*row.shared, same), longer)
        else:
            found.append(Tree((number,), (0,), own))
    return found


def forests(
    flats: Sequence[Flat], budget: int, *, behind: int = BEHIND, ids: Sequence[AnyArray] | None = None
) -> list[Tree]:
    """Rows of at most `budget` tokens for attention by blocks, which pairs only tokens that see each other.

    There a long row costs nothing, so rows are as long as they may be. Sequences that begin differently stand side by
    side in one row; so do sequences that begin alike, once `behind` tokens follow one beginning. A sequence longer than
    the budget has a row of its own. `ids` as in `trees`.

    >>> walks = [[1, 2, 7, 8], [1, 2, 9], [5, 6, 7], [1, 2, 7, 3]]
    >>> flats = [Flat(ids, [0, 0] + [1] * (len(ids) - 2), [0.0] * len(ids), []) for ids in walks]
    >>> forests(flats, 100)
    [Tree(members=(3, 0, 1, 2), shared=(0, 3, 2, 0), length=9)]
    >>> forests(flats, 100, behind=5)  # 1 2 7 3 and 8; then 1 2 9 anew
    [Tree(members=(3, 0, 1, 2), shared=(0, 3, 0, 0), length=11)]
    """
    _check_first_tokens(flats)
    found: list[tuple[list[int], list[int]]] = []
    length = begun = 0  # tokens in the row, and in it since the last fresh beginning
    for number, same in _in_order(id_arrays(flats) if ids is None else ids):
        own = len(flats[number].ids)
        if begun + own - same > behind:
            same = 0
        if not found or length + own - same > budget:
            found.append(([], []))
            length = same = 0
        length += own - same
        begun = begun + own - same if same else own
        found[-1][0].append(number)
        found[-1][1].append(same)
    return [_row(flats, members, shared) for members, shared in found]


def microbatches(rows: Sequence[Tree], budget: int) -> list[list[Tree]]:
    """Rows in groups: in each, the room of the longest row times the number of rows is within `budget`.

    The longest rows come first, so that too little memory shows at once. A row over the budget is alone.

    >>> rows = [Tree((number,), (0,), length) for number, length in enumerate([5, 3, 9, 2, 3])]
    >>> [[tree.length for tree in batch] for batch in microbatches(rows, 10)]
    [[9], [5, 3], [3, 2]]
    """
    if budget < 1:
        raise KgwalkError(f"the budget of a microbatch is at least 1 token; it is {budget}")
    batches: list[list[Tree]] = []
    longest, forks = 0, False
    for tree in sorted(rows, key=lambda tree: -tree.length):
        forks = forks or tree.forks  # one tree that forks gives the whole microbatch a mask
        if batches and room(longest, forks) * (len(batches[-1]) + 1) <= budget:
            batches[-1].append(tree)
        else:
            batches.append([tree])
            longest, forks = tree.length, tree.forks
    return batches


def id_arrays(flats: Sequence[Flat]) -> list[AnyArray]:
    """The ids of each sequence as an array, made in a third of the time of np.array, which asks each for its type."""
    return [np.frombuffer(struct.pack(f"{len(flat.ids)}q", *flat.ids), np.int64) for flat in flats]


def _in_order(ids: Sequence[AnyArray]) -> Iterator[tuple[int, int]]:
    """The numbers of sequences in the order of their tokens, and how many tokens each shares with the one before it."""
    before = np.zeros(0, np.int64)
    # The bytes of ids, highest byte first, have the order of the ids, and comparing them takes one call.
    for number in sorted(range(len(ids)), key=lambda number: ids[number].astype(">i8").tobytes()):
        both = min(len(before), len(ids[number]))
        differ = before[:both] != ids[number][:both]
        yield number, int(differ.argmax()) if differ.any() else both
        before = ids[number]


def _row(flats: Sequence[Flat], members: list[int], shared: list[int]) -> Tree:
    return Tree(tuple(members), tuple(shared), sum(len(flats[number].ids) for number in members) - sum(shared))


def _check_first_tokens(flats: Sequence[Flat]) -> None:
    for number, flat in enumerate(flats):
        if flat.mask and flat.mask[0]:
            raise KgwalkError(f"the first token of sequence {number} is marked, and nothing before it predicts it")


@dataclass(frozen=True)
class Batch:
    """A microbatch: B sequences in R rows, both padded on the right.

    N counts the tokens that the model wrote, sequence by sequence. `place_N` is where each stands in (B, T), flattened;
    `before_N` is where in (R, L), flattened, the token before it lies, whose state predicts it.
    """

    ids_RL: torch.Tensor
    position_RL: torch.Tensor  # in its own sequence: a branch goes on from what it shares
    end_RL: torch.Tensor | None  # where the row's tokens end that go on from this one; None: no row has two branches
    before_N: torch.Tensor
    target_N: torch.Tensor  # the tokens themselves
    place_N: torch.Tensor
    mask_BT: torch.Tensor  # True on these
    old_logprobs_BT: torch.Tensor  # of these, as the engine that drew them reported; else 0
    advantages_BT: torch.Tensor  # of these; else 0
    # Log-probabilities that stay fixed over several updates, where needed: of the model before the first update, and of
    # the reference model.
    start_logprobs_BT: torch.Tensor | None = None
    ref_logprobs_BT: torch.Tensor | None = None
    # Where a grammar constrained some of the tokens: the allowed tokens as bits, a line for each set that occurs (the
    # first allows all), and the line of each token. A token that was the only one allowed has log-probability 0
    # whatever the model says, and is not among the N.
    allowed_UW: torch.Tensor | None = None
    set_N: torch.Tensor | None = None

    def to(self, device: torch.device | str) -> Batch:
        """The same on a device. To a GPU the copies are made from pinned memory, so nothing waits for them."""
        pin = torch.device(device).type == "cuda"

        def move(value: torch.Tensor | None) -> torch.Tensor | None:
            if value is None:
                return None
            return (value.pin_memory() if pin and not value.is_cuda else value).to(device, non_blocking=True)

        return Batch(*(move(getattr(self, part.name)) for part in fields(self)))  # type: ignore[arg-type]


class Packed(NamedTuple):
    """A microbatch, and the numbers of the sequences in its lines."""

    members: list[int]
    batch: Batch


def pack(
    flats: Sequence[Flat],
    advantages: Sequence[Sequence[float]] | None,
    *,
    budget: int,
    pad_id: int,
    share: bool = True,
    side_by_side: bool = False,
    pairs: int = PAIRS,
    multiple: int = 1,
    automaton: Automaton | None = None,
) -> list[Packed]:
    """All sequences, in microbatches that take the room of at most `budget` tokens.

    `share` and `pairs` are those of `trees`; with `side_by_side` each microbatch is one row instead (`forests`).
    `automaton` is that of the model's tokenizer, for turns that a grammar constrained.
    """
    ids = id_arrays(flats)
    if side_by_side:
        cut = [[row] for row in forests(flats, budget, ids=ids)]
    else:
        cut = microbatches(trees(flats, budget, share=share, pairs=pairs, ids=ids), budget)
    packed = []
    for rows in cut:
        members = [member for tree in rows for member in tree.members]
        batch = collate(flats, advantages, pad_id, rows=rows, multiple=multiple, automaton=automaton, ids=ids)
        packed.append(Packed(members, batch))
    return packed


def collate(
    flats: Sequence[Flat],
    advantages: Sequence[Sequence[float]] | None,
    pad_id: int,
    *,
    rows: Sequence[Tree] | None = None,
    multiple: int = 1,
    automaton: Automaton | None = None,
    ids: Sequence[AnyArray] | None = None,
) -> Batch:
    """One microbatch of the trees in `rows`, or, without them, of all sequences in rows of their own.

    Its lines are the trees' members in order. `advantages` has a number for each token (`token_advantages`); None means
    all 0, for SFT. Rows are as long as the longest, rounded up to a `multiple`. `ids` as in `trees`.

    >>> short = Flat([5, 6], [0, 1], [0.0, -0.5], [-1, 0])
    >>> long = Flat([5, 7, 8], [0, 1, 1], [0.0, -2.0, -1.0], [-1, 0, 0])
    >>> batch = collate([short, long], [[0.0, 1.5], [0.0, -1.0, -1.0]], pad_id=9, rows=trees([short, long], 100))
    >>> batch.ids_RL, batch.position_RL  # 5, its branch 6, its branch 7 8
    (tensor([[5, 6, 7, 8]]), tensor([[0, 1, 1, 2]]))
    >>> batch.end_RL  # what follows 5 ends with the row, what follows 6 with itself: 7 does not see it
    tensor([[4, 2, 4, 4]])
    >>> batch.target_N, batch.before_N  # 6 and 7 both follow the 5 in the row's first place, 8 the 7 in its third
    (tensor([6, 7, 8]), tensor([0, 0, 2]))
    >>> batch.mask_BT
    tensor([[False,  True, False],
            [False,  True,  True]])
    >>> batch.advantages_BT
    tensor([[ 0.0000,  1.5000,  0.0000],
            [ 0.0000, -1.0000, -1.0000]])
    """
    if not flats:
        raise KgwalkError("a microbatch needs at least one sequence")
    planted = trees(flats, 1, share=False) if rows is None else rows
    members = [member for tree in planted for member in tree.members]
    mask_BT = np.zeros((len(members), max(len(flats[at].ids) for at in members)), np.bool_)
    logprobs: list[float] = []
    values: list[float] = []
    for line, at in enumerate(members):
        flat, row = flats[at], None if advantages is None else advantages[at]
        _check(at, flat, row)
        mask_BT[line, : len(flat.ids)] = np.frombuffer(bytes(flat.mask), np.uint8)
        marked = mask_BT[line].nonzero()[0].tolist()
        logprobs += [flat.logprobs[token] for token in marked]
        values += [] if row is None else [row[token] for token in marked]
    sets = _AllowedSets(automaton, [flats[at] for at in members], mask_BT)
    arrays = (
        *_lay(id_arrays(flats) if ids is None else ids, planted, sets.open_BT, pad_id, multiple),
        mask_BT,
        _spread(logprobs, mask_BT),
        _spread(values, mask_BT),
        None,
        None,
        *sets.arrays(),
    )
    return Batch(*(None if array is None else torch.from_numpy(array) for array in arrays))  # type: ignore[arg-type]


class _AllowedSets:
    """The sets of tokens that grammars allowed in the lines of a microbatch; `open_BT` are the marked tokens that had a
    choice.
    """

    def __init__(self, automaton: Automaton | None, flats: Sequence[Flat], mask_BT: AnyArray) -> None:
        self._size = 0 if automaton is None else automaton.size
        self._sets: list[AnyArray] = []
        self._line_BT: AnyArray | None = None
        self.open_BT = mask_BT
        if not any(flat.constraints for flat in flats):
            return
        if automaton is None:
            raise KgwalkError("turns under a grammar cannot be learnt from without their tokenizer's automaton")
        self.open_BT, self._line_BT = mask_BT.copy(), np.zeros(mask_BT.shape, np.int64)
        lines: dict[bytes, int] = {}
        known: dict[int, tuple[int, AnyArray]] = {}  # by the array's id, which it keeps: most are a state's own
        for row, flat in enumerate(flats):
            for begin, end, (grammar, room) in flat.constraints:
                for at, allowed in enumerate(automaton.replay(grammar, room, flat.ids[begin:end]), begin):
                    if len(allowed) == 1:
                        self.open_BT[row, at] = False
                        continue
                    if id(allowed) not in known:
                        line = lines.setdefault(allowed.tobytes(), len(lines) + 1)
                        if line > len(self._sets):
                            self._sets.append(allowed)
                        known[id(allowed)] = line, allowed
                    self._line_BT[row, at] = known[id(allowed)][0]

    def arrays(self) -> tuple[AnyArray | None, AnyArray | None]:
        """`Batch.allowed_UW` and `Batch.set_N`."""
        if self._line_BT is None:
            return None, None
        allowed_UV = np.zeros((1 + len(self._sets), self._size), np.bool_)
        allowed_UV[0] = True
        for line, allowed in enumerate(self._sets, 1):
            allowed_UV[line, allowed] = True
        return np.packbits(allowed_UV, axis=1, bitorder="little"), self._line_BT[self.open_BT]


def computed(batches: Sequence[Batch], flats: Sequence[Flat]) -> float:
    """Tokens computed per token of the sequences: padding raises it above 1, shared prompts lower it."""
    return sum(batch.ids_RL.numel() for batch in batches) / max(1, sum(len(flat.ids) for flat in flats))


def _lay(
    ids: Sequence[AnyArray], rows: Sequence[Tree], mask_BT: AnyArray, pad_id: int, multiple: int
) -> tuple[AnyArray, AnyArray, AnyArray | None, AnyArray, AnyArray, AnyArray]:
    """The first six fields of a Batch; of the tokens in the mask the last three."""
    R, L = len(rows), -(-max(tree.length for tree in rows) // multiple) * multiple
    count = np.arange(1 + max(R * L, mask_BT.shape[1]))
    ids_RL, position_RL, end_RL = np.full((R, L), pad_id), np.zeros((R, L), np.int64), np.empty((R, L), np.int64)
    end_RL[:] = count[1 : L + 1]  # padding sees itself: a softmax over nothing would be NaN
    flat_ids, flat_position, flat_end = ids_RL.ravel(), position_RL.ravel(), end_RL.ravel()  # the same memory
    path_BT = np.zeros(mask_BT.shape, np.int64)  # where in it each token of a sequence lies
    line = 0
    for row, tree in enumerate(rows):
        length, end = 0, row * L
        for member, shared in zip(tree.members, tree.shared, strict=True):
            flat_end[path_BT[line - 1, shared:length]] = end - row * L  # nothing that follows goes on from these
            length = len(ids[member])
            start, end = end, end + length - shared
            path_BT[line, :shared] = path_BT[line - 1, :shared]
            path_BT[line, shared:length] = count[start:end]
            flat_ids[start:end] = ids[member][shared:]
            flat_position[start:end] = count[shared:length]
            line += 1
        flat_end[path_BT[line - 1, :length]] = end - row * L
    several = any(tree.forks for tree in rows)
    place_N, path = np.flatnonzero(mask_BT), path_BT.ravel()
    # The state that predicts a token is that of the token before it, which may be another's as well.
    return ids_RL, position_RL, end_RL if several else None, path[place_N - 1], flat_ids[path[place_N]], place_N


def _spread(values: Sequence[float], mask_BT: AnyArray) -> AnyArray:
    """Each value in the place of a marked token, the others 0; without values all 0."""
    spread_BT = np.zeros(mask_BT.shape, np.float32)
    if values:
        with np.errstate(over="ignore"):  # a number too large is infinite in float32, and the loss will say so
            spread_BT.ravel()[np.flatnonzero(mask_BT)] = values
    return spread_BT


def _check(number: int, flat: Flat, advantages: Sequence[float] | None) -> None:
    parts: dict[str, Sequence[float] | None] = {
        "ids": flat.ids,
        "mask": flat.mask,
        "logprobs": flat.logprobs,
        "advantages": advantages,
    }
    counts = {name: len(part) for name, part in parts.items() if part is not None}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise KgwalkError(f"sequence {number} has {told}; each token needs one of each")


# A model and its inputs

Head = Callable[[torch.Tensor], torch.Tensor]


def parts_of(model: torch.nn.Module) -> tuple[torch.nn.Module, Head] | None:
    """The decoder, which makes hidden states, and the head, which makes logits; None where they cannot be told apart.

    Looked up for each pass, since wrapping a model for several devices may replace its modules.
    """
    plain = plain_of(model)
    if not hasattr(plain, "get_output_embeddings") or not hasattr(plain, "get_decoder"):
        return None
    head, decoder = plain.get_output_embeddings(), plain.get_decoder()
    return None if head is None or decoder is None or decoder is plain else (decoder, head)


def inputs_of(model: torch.nn.Module, batch: Batch, quick: bool = False) -> dict[str, Any]:
    """The model inputs of a microbatch; `quick` for a fused pass.

    Positions and a mask are given only if some row has two branches. Without them a model counts and looks back from
    the left, which is right since padding is on the right, and attention runs its fastest kernel.
    """
    inputs: dict[str, Any] = {"input_ids": batch.ids_RL, "use_cache": False}
    if quick and batch.ids_RL.is_cuda:  # on a CPU attention by blocks has no gradient
        end_L = torch.full_like(batch.ids_RL[0], batch.ids_RL.shape[1]) if batch.end_RL is None else batch.end_RL[0]
        return inputs | {"position_ids": batch.position_RL, "attention_mask": sight(end_L)}
    if batch.end_RL is not None:
        inputs["position_ids"] = batch.position_RL
        inputs["attention_mask"] = tree_mask(batch.end_RL, computed_in(model, batch.ids_RL.device.type))
    return inputs


def tree_mask(end_RL: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What is added to attention's scores, (R, 1, L, L): 0 where token i of a row sees token j, else the least number.

    A token sees itself and the tokens before it whose branch it continues:

    >>> tree_mask(torch.tensor([[4, 2, 4, 4]]), torch.float32) == 0
    tensor([[[[ True, False, False, False],
              [ True,  True, False, False],
              [ True, False,  True, False],
              [ True, False,  True,  True]]]])
    """
    at_L = torch.arange(end_RL.shape[1], device=end_RL.device)
    seen_RLL = (at_L[:, None] >= at_L) & (at_L[:, None] < end_RL[:, None, :])
    # In the type that attention computes in: a mask of True and False would be converted anew in every layer.
    hidden = torch.full((), torch.finfo(dtype).min, dtype=dtype, device=end_RL.device)
    return torch.where(seen_RLL, torch.zeros_like(hidden), hidden)[:, None]


def computed_in(model: torch.nn.Module, kind: str) -> torch.dtype:
    """The type that passes run in."""
    if torch.is_autocast_enabled(kind):
        return torch.get_autocast_dtype(kind)
    dtype: torch.dtype = plain_of(model).get_input_embeddings().weight.dtype
    return dtype


def plain_of(model: torch.nn.Module) -> Any:
    """The model without an adapter around it."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model  # type: ignore[operator]
