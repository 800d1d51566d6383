"""Finds entities by approximate name: other case, no accents, typos, fewer words.

Two stages. Names that are equal once normalised (`names.normalise`) come from a sorted array of hashes. For the rest,
every name has a signature: 128 bits that say which pairs and triples of bytes occur in it. A scan over all signatures
proposes a few hundred names, and only those are read and compared with the text letter by letter. The scan takes about
3 ms for a million names.

`entity_names` writes the arrays (`hashes`, `signatures`); `Finder` reads them from the store, memory-mapped and without
copying. A smaller id is a better connected entity, which decides between equals. Names alone are compared, not
meanings: "NYC" does not find "New York City".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import xxhash
from rapidfuzz import fuzz, process
from rapidfuzz.distance import OSA

from kgwalk.kg.names import normalise

# Only so much of a long name enters its signature: past this the bits fill up and tell little apart.
# Of 300,000 names with 171 letters on average, the first four words find every one at 96, and 25% without a limit.
SIGNED_BYTES = 96
# Only so much of a long text or name is compared letter by letter, which bounds the time for any text.
COMPARED_CHARACTERS = 256
# Names proposed by each of two lists. At 1M names they contain the right one for 99.7% of texts with two typos.
PROPOSED = 200
# Below this no name is better than the best one. The best name for random letters scores about this much; a name with
# two typos in ten letters scores 0.77 and more.
LEAST_SCORE = 0.5
# Names scanned at a time: the working set, 0.5 MB, stays in the processor's cache.
SCANNED_AT_ONCE = 16_384
# Names signed at a time: bounds the memory of `signatures` whatever the number of names.
SIGNED_AT_ONCE = 16_384

# Odd multipliers that spread a gram over the upper bits of a 32-bit word: the golden ratio, and murmur3's.
_PAIR_MULTIPLIER = np.uint32(0x9E3779B1)
_TRIPLE_MULTIPLIER = np.uint32(0x85EBCA6B)
_BIT = np.uint64(1) << np.arange(64, dtype=np.uint64)


def hashes(normalised: Sequence[str]) -> npt.NDArray[np.uint64]:
    """The 64-bit xxh3 hash of each normalised name, in the order given."""
    digest = xxhash.xxh3_64_intdigest
    return np.fromiter((digest(_utf8(name)) for name in normalised), np.uint64, len(normalised))


def signatures(normalised: Sequence[str]) -> npt.NDArray[np.uint64]:
    """The signature of each normalised name: shape (n, 2), row i for name i.

    With a space before and after, each pair of neighbouring bytes sets one bit of the first word and each
    triple one bit of the second: "ab" gives the pairs " a", "ab", "b " and the triples " ab", "ab ".
    Bit of a gram: its bytes as a big-endian number, times the multiplier, modulo 2**32, divided by 2**26.
    """
    signed_N2 = np.empty((len(normalised), 2), np.uint64)
    for start in range(0, len(normalised), SIGNED_AT_ONCE):
        block = [_utf8(name)[:SIGNED_BYTES] for name in normalised[start : start + SIGNED_AT_ONCE]]
        _sign(block, out=signed_N2[start : start + SIGNED_AT_ONCE])
    return signed_N2


def _utf8(text: str) -> bytes:
    # A text that came through JSON may hold a lone surrogate, which has no UTF-8; it can still be searched for.
    return text.encode("utf-8", "surrogatepass")


def _sign(names: list[bytes], out: npt.NDArray[np.uint64]) -> None:
    """Signatures of a block of names, all at once over " name0 name1 ... ": neighbours share a space."""
    length_N = np.fromiter(map(len, names), np.int64, len(names))
    first_N = np.cumsum(length_N + 1) - (length_N + 1)  # where the space before each name stands
    byte_B = np.frombuffer(b" " + b" ".join(names) + b"  ", np.uint8).astype(np.uint32)
    pair_B = (byte_B[:-2] << 8) | byte_B[1:-1]
    triple_B = (pair_B << 8) | byte_B[2:]
    pair_bit_B = _BIT[(pair_B * _PAIR_MULTIPLIER) >> 26]
    triple_bit_B = _BIT[(triple_B * _TRIPLE_MULTIPLIER) >> 26]
    # The triple that begins at a name's last byte reaches into the next name.
    triple_bit_B[first_N + length_N] = 0
    np.bitwise_or.reduceat(pair_bit_B, first_N, out=out[:, 0])
    np.bitwise_or.reduceat(triple_bit_B, first_N, out=out[:, 1])


class Finder:
    """Finds entities by approximate name.

    `name(i)` is the name of entity i; `hash_sorted` holds `hashes` of all normalised names in ascending order
    and `hash_ids` the entities in that order; row i of `signatures` belongs to entity i.

    >>> names = ["New York", "São Paulo", "York"]
    >>> plain = [normalise(name) for name in names]
    >>> order = np.argsort(hashes(plain))
    >>> finder = Finder(names.__getitem__, hashes(plain)[order], order.astype(np.uint32), signatures(plain))
    >>> finder.find("sao_paulo", k=1), finder.find("Sao Palo", k=1)
    ([(1, 1.0, 'normalised')], [(1, 0.8941, 'fuzzy')])

    Threads may share a Finder.
    """

    def __init__(
        self,
        name: Callable[[int], str],
        hash_sorted: npt.NDArray[np.uint64],
        hash_ids: npt.NDArray[np.uint32],
        signatures: npt.NDArray[np.uint64],
    ) -> None:
        if not (len(hash_sorted) == len(hash_ids) == len(signatures)) or signatures.shape[1:] != (2,):
            raise ValueError(
                "the arrays must be of shape (n,), (n,) and (n, 2), got "
                f"{hash_sorted.shape}, {hash_ids.shape} and {signatures.shape}"
            )
        self._name = name
        self._hash_sorted, self._hash_ids, self._signatures = hash_sorted, hash_ids, signatures

    def equal(self, text: str) -> list[int]:
        """The entities whose normalised name is that of the text, smallest id first."""
        wanted = normalise(text)
        key = np.uint64(xxhash.xxh3_64_intdigest(_utf8(wanted)))
        start = self._hash_sorted.searchsorted(key, "left")
        if start == len(self._hash_sorted) or self._hash_sorted[start] != key:
            return []  # as of most stretches of a question
        stop = self._hash_sorted.searchsorted(key, "right")
        # Two names may share a hash, so each is read.
        return sorted(i for i in self._hash_ids[start:stop].tolist() if normalise(self._name(i)) == wanted)

    def find(self, text: str, k: int = 5) -> list[tuple[int, float, str]]:
        """At most k entities as (id, score, how), best first; fewer where no other name is near.

        First those with an equal normalised name ("normalised", score 1.0): those that differ from the text in case
        only, then by id; so "c++" finds C++ before C. Then the nearest others ("fuzzy", score below 1), by score and
        then by id.
        """
        if k <= 0:
            raise ValueError(f"k must be at least 1, got {k}")
        equal = self.equal(text)
        if len(equal) > 1:
            folded = text.casefold()
            equal.sort(key=lambda i: self._name(i).casefold() != folded)  # stable: ids stay in order
        found = [(i, 1.0, "normalised") for i in equal[:k]]
        return found + self._fuzzy(normalise(text), k - len(found), set(equal))

    def _fuzzy(self, query: str, k: int, known: set[int]) -> list[tuple[int, float, str]]:
        """The k nearest entities that are not known yet."""
        if k == 0 or not query or not len(self._signatures):
            return []
        proposed = [i for i in self._propose(query, k + len(known)).tolist() if i not in known]
        scores = similarity(query, [normalise(self._name(i)) for i in proposed]).tolist()
        ranked = sorted((-score, i) for score, i in zip(scores, proposed, strict=True) if score >= LEAST_SCORE)
        return [(i, -negated, "fuzzy") for negated, i in ranked[:k]]

    def _propose(self, query: str, k: int) -> npt.NDArray[np.int64]:
        """The entities worth reading, by signature: names near-equal to the query, and names that hold it."""
        shared_N = self._shared(signatures([query])[0])
        # Dice's 2 shared / (size + size of the query) exceeds d where 2 shared - d size exceeds a constant:
        # with d = 2/3 an order in small integers, and at 1M names it loses no more names than Dice itself.
        near_N = np.multiply(shared_N, 3, dtype=np.int16)
        near_N -= self._size_N
        count = max(PROPOSED, 2 * k)
        proposed = np.union1d(_highest(near_N, count), _highest(shared_N, count))
        return proposed[shared_N[proposed] > 0]

    @cached_property
    def _size_N(self) -> npt.NDArray[np.uint8]:
        """How many bits each signature has; one byte a name, kept because it saves a third of every scan."""
        return self._shared(np.full(2, ~np.uint64(0)))

    def _shared(self, query_2: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
        """How many bits of the query's signature each name's signature has."""
        total = len(self._signatures)
        shared_N = np.empty(total, np.uint8)
        block = min(SCANNED_AT_ONCE, total)
        query_W = np.tile(query_2, block)  # as long as a block's words: no broadcast over an axis of two
        both_W, count_W = np.empty(2 * block, np.uint64), np.empty(2 * block, np.uint8)
        for start in range(0, total, block):
            word_W = self._signatures[start : start + block].reshape(-1)
            both, count = both_W[: len(word_W)], count_W[: len(word_W)]
            np.bitwise_and(word_W, query_W[: len(word_W)], out=both)
            np.bitwise_count(both, out=count)
            np.add(count[::2], count[1::2], out=shared_N[start : start + block])
        return shared_N


def _highest(score_N: npt.NDArray[np.integer], count: int) -> npt.NDArray[np.int64]:
    """The positions of the `count` highest scores, highest first; equal scores in order of position."""
    width = len(score_N) // 64
    if width < count:
        return _ranked(score_N)[:count]
    # Seen as 64 rows of `width`: if `count` columns have a score that reaches the bound, then at least as many scores
    # reach it, so all of the highest do. That takes two passes, and leaves few scores to sort.
    column_W = score_N[: 64 * width].reshape(64, width).max(axis=0)
    bound = np.partition(column_W, width - count)[width - count]
    left = np.flatnonzero(score_N >= bound)
    return left[_ranked(score_N[left])[:count]]


def _ranked(score_N: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    # ~ reverses the order of integers and cannot overflow; a stable sort of 8 or 16 bits is a radix sort.
    return np.argsort(~score_N, kind="stable")


def similarity(query: str, names: Sequence[str]) -> npt.NDArray[np.float64]:
    """How near each normalised name is to the normalised query, in (0, 1): the best of four views.

    - letters: 1 - edits / longer length, where two letters swapped are one edit;
    - the same words in another order, with typos: 0.95 at most;
    - the words of one are among those of the other: 0.75 to 0.9 as the lengths near each other;
    - one is a part of the other, from a word's beginning: 0.65 to 0.85 likewise.

    The last two lose up to 0.25 more, the less of the query a shorter name covers: "the" is in many queries.
    """
    if not names:
        return np.empty(0)
    query = query[:COMPARED_CHARACTERS]
    names = [name[:COMPARED_CHARACTERS] for name in names]
    length_C = np.fromiter(map(len, names), np.float64, len(names))
    shorter_C, longer_C = np.minimum(length_C, len(query)), np.maximum(length_C, max(len(query), 1))
    alike_C = shorter_C / longer_C
    uncovered_C = np.maximum(len(query) - length_C, 0) / longer_C

    letters_C = _compare(query, names, OSA.normalized_similarity)
    reordered_C = 0.95 * _compare(query, names, fuzz.token_sort_ratio) / 100
    words_C = _compare(query, names, fuzz.token_set_ratio) / 100
    # The space before both makes the part begin with a word. Both have it, so it must not count as likeness: the share
    # that differs is taken over the letters alone.
    part_C = _compare(f" {query}", [f" {name}" for name in names], fuzz.partial_ratio) / 100
    part_C = np.where(shorter_C > 0, 1 - (1 - part_C) * (shorter_C + 1) / np.maximum(shorter_C, 1), 0)
    best_C = np.maximum(letters_C, reordered_C)
    best_C = np.maximum(best_C, words_C * (0.75 + 0.15 * alike_C - 0.25 * uncovered_C))
    best_C = np.maximum(best_C, part_C * (0.65 + 0.2 * alike_C - 0.25 * uncovered_C))
    # Four decimals: scores that differ by less are equal, and the better connected entity goes first.
    return best_C.round(4).clip(0.0001, 0.9999)


def _compare(query: str, names: list[str], scorer: Callable[..., float]) -> npt.NDArray[np.float64]:
    scores_C: npt.NDArray[np.float64] = process.cdist([query], names, scorer=scorer, dtype=np.float64)[0]
    return scores_C
