"""Writes the names of a store: entities and relations, homonyms told apart, the index of `find`.

A source that has ids (RDF, labelled JSONL, `--labels`) gives keys and labels: the label is the name people see, and
the key is kept beside it. Where several keys share a label, each name gets its key: `Paris (Q90)`, `Paris (Q830149)`.
One of them may keep the bare label (`_keepers`): an entity whose label is its key, as from a source without ids; else
the only thing among them, before literals of the same text (`Paris (text)`); else the literal that is mentioned most.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kgwalk.kg.bulk_names import NameWriter, from_parts, hash_names, string_parts, write_table
from kgwalk.kg.external_memory import Interner, RowSorter, alphabetical, inverse
from kgwalk.kg.files import FolderWriter
from kgwalk.kg.find import hashes, signatures
from kgwalk.kg.names import OTHER_NAMES, U32, U64, normalise
from kgwalk.types import Progress

_BLOCK = 1 << 18  # names handled at once
_LITERAL = re.compile(r'".*"(?:@([A-Za-z0-9-]+)|\^\^<(.*)>)?', re.DOTALL)


@dataclass(frozen=True)
class Homonyms:
    """What was done about labels that several entities have: an example of each is enough for a note."""

    both: Sequence[str] = ()  # labels that an entity with an id shares with one without (`also_bare`)
    things: Sequence[str] = ()  # names of things that got their key, since another thing is called so
    literals: Sequence[str] = ()  # names of literals that got their type, since something else is called so


class EntityWriter:
    """Writes the entity tables of a store from an interner that has seen every block."""

    def __init__(self, out: FolderWriter, scratch: Path, sort_rows: int, progress: Progress) -> None:
        self._out, self._scratch, self._sort_rows, self._progress = out, scratch, sort_rows, progress

    def write(self, entities: Interner, relation_keys: Sequence[str]) -> Homonyms:
        """Write the tables; returns what was done about names that several have."""
        keys = _NameFile(self._scratch / "keys")
        labels = _NameFile(self._scratch / "labels") if entities.labelled else None
        writer = NameWriter(self._out, "entity_id" if labels else "entity")
        numbers: list[U32] = []
        others: list[tuple[int, str]] = []

        def parts() -> Iterator[tuple[U64, U32]]:
            for part in entities.resolve(relation_keys):
                keys.append(part.keys)
                if labels is not None:
                    labels.append(part.labels)
                numbers.append(part.numbers)
                others.extend(part.other_names)
                yield part.hashes, part.numbers

        writer.index(parts())
        order = inverse(np.concatenate(numbers))
        for block in keys.in_order(order):
            writer.append(block)
        if labels is None:
            self._write_find(keys, order)
            return Homonyms()
        if others:
            others.sort()
            write_table(self._out, OTHER_NAMES, [name for _, name in others])
            self._out.write(f"{OTHER_NAMES}.of", np.array([number for number, _ in others], np.uint32))
        distinct, homonyms = _told_apart(self._out, labels, keys, order)
        self._write_names(distinct, len(order))
        self._write_find(distinct, np.arange(len(order), dtype=np.uint32))
        return homonyms

    def _write_names(self, names: _NameFile, count: int) -> None:
        writer = NameWriter(self._out, "entity")
        index = RowSorter(self._scratch, "name-hash", columns=3, limit=self._sort_rows)
        start = 0
        for block in names.in_order(np.arange(count, dtype=np.uint32)):
            writer.append(block)
            index.add(_hash_rows(hash_names(block), start))
            start += len(block)
        writer.index(_hash_blocks(index))

    def _write_find(self, names: _NameFile, order: U32) -> None:
        """The arrays of `find.Finder`: a signature for each name, and the sorted hashes of the normalised names."""
        index = RowSorter(self._scratch, "find-hash", columns=3, limit=self._sort_rows)
        signature_file = self._out.array("find.signatures", np.uint64)
        start = 0
        for block in names.in_order(order):
            normalised = [normalise(name) for name in block.to_pylist()]
            signature_file.append(signatures(normalised))
            index.add(_hash_rows(hashes(normalised), start))
            start += len(block)
            self._progress("indexing names", start, len(order))
        hash_file = self._out.array("find.hash", np.uint64)
        ids_file = self._out.array("find.ids", np.uint32)
        for hashed, numbers in _hash_blocks(index):
            hash_file.append(hashed)
            ids_file.append(numbers)


def write_relations(out: FolderWriter, keys: Sequence[str], entities: Interner) -> tuple[U32, list[str]]:
    """Write the relation tables, in alphabetical order of the names shown.

    Returns the number of each key, and the names that a relation with an id shares with one without.
    """
    labels = [entities.other_labels.get(key, key) for key in keys]
    names = _tell_apart(labels, list(keys))
    order, numbers = alphabetical(names)
    write_table(out, "relation", [names[at] for at in order])
    if entities.labelled:
        write_table(out, "relation_id", [keys[at] for at in order])
        told = [number for number, at in enumerate(order) if names[at] != labels[at]]
        pairs = [(labels[order[number]], names[order[number]]) for number in told]
        _write_suffixes(out, "relation", told, pairs)
    return numbers, also_bare(labels, keys)


class _NameFile:
    """Names appended to a file, then read back in any order by memory map."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ends = [np.zeros(1, np.int64)]
        self._size = 0
        self._file = open(path, "wb")  # noqa: SIM115 - closed by the first read

    def append(self, names: pa.LargeStringArray) -> None:
        heap, offsets = string_parts(names)
        self._file.write(heap.tobytes())
        self._ends.append(offsets[1:] - offsets[0] + self._size)
        self._size += len(heap)

    def in_order(self, order: U32) -> Iterator[pa.LargeStringArray]:
        self._file.close()
        self._ends = [np.concatenate(self._ends)]
        heap = np.memmap(self.path, np.uint8, "r") if self._size else np.empty(0, np.uint8)
        names = from_parts(heap, self._ends[0])
        for start in range(0, len(order), _BLOCK):
            yield names.take(pa.array(order[start : start + _BLOCK]))


def _told_apart(out: FolderWriter, labels: _NameFile, keys: _NameFile, order: U32) -> tuple[_NameFile, Homonyms]:
    """The names to show, in the order of their numbers, and what was done about homonyms.

    Holds only the shared labels in memory, and 8 bytes for each of the others.
    """
    hashed = np.concatenate([hash_names(block) for block in labels.in_order(order)])
    repeated = _repeated(hashed)
    shared = np.flatnonzero(repeated)
    some_labels = [name for block in labels.in_order(order[shared]) for name in block.to_pylist()]
    some_keys = [name for block in keys.in_order(order[shared]) for name in block.to_pylist()]
    told = _tell_apart(some_labels, some_keys, set(hashed[~repeated].tolist()) if len(shared) else None)
    _write_suffixes(out, "entity", shared.tolist(), list(zip(some_labels, told, strict=True)))
    names = dict(zip(shared.tolist(), told, strict=True))
    result = _NameFile(labels.path.with_name("distinct-names"))
    start = 0
    for block in labels.in_order(order):
        if names:
            shown = [names.get(start + at, name) for at, name in enumerate(block.to_pylist())]
            block = pa.array(shown, pa.large_string())
        result.append(block)
        start += len(block)
    changed = [(name, key) for label, name, key in zip(some_labels, told, some_keys, strict=True) if name != label]
    return result, Homonyms(
        also_bare(some_labels, some_keys),
        [name for name, key in changed if not _is_literal(key)],
        [name for name, key in changed if _is_literal(key)],
    )


def also_bare(labels: Sequence[str], keys: Sequence[str]) -> list[str]:
    """The labels that are the bare name of one entity and also the label of another that has an id, in order.

    >>> also_bare(["Paris", "Paris", "Rome", "Bonn", "Bonn"], ["http://x/Q90", "Paris", "Rome", "Q586", "Q2"])
    ['Paris']
    """
    pairs = list(zip(labels, keys, strict=True))
    bare = {label for label, key in pairs if label == key}
    return list(dict.fromkeys(label for label, key in pairs if label != key and label in bare))


def _write_suffixes(out: FolderWriter, prefix: str, numbers: list[int], pairs: list[tuple[str, str]]) -> None:
    """Record which names were told apart and how many bytes that added, so that an export can write the label."""
    added = [len(name.encode()) - len(label.encode()) for label, name in pairs]
    out.write(f"{prefix}.told", np.array(numbers, np.uint32))
    out.write(f"{prefix}.suffix", np.array(added, np.uint32))


def _repeated(values: U64) -> npt.NDArray[np.bool_]:
    ordered = np.sort(values)
    twice = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    return np.isin(values, twice)


def _tell_apart(labels: list[str], keys: list[str], taken: set[int] | None = None) -> list[str]:
    """Distinct names for labels that may repeat; `taken` holds the hashes of names that are not free.

    >>> _tell_apart(["Paris", "Paris", "Rome"], ["http://x/Q90", "http://x/Q830149", "http://x/Q220"])
    ['Paris (Q90)', 'Paris (Q830149)', 'Rome']
    >>> _tell_apart(["Paris", "Paris", "Paris"], ["Paris", "http://x/Q90", "http://x/Paris"])
    ['Paris', 'Paris (Q90)', 'Paris (http://x/Paris)']
    >>> _tell_apart(["Paris", "Paris", "5", "5"], ['"Paris"', "http://x/Q90", '"5"', '"5"^^<http://x#int>'])
    ['Paris (text)', 'Paris', '5', '5 (int)']
    """
    taken = taken or set()
    names = list(labels)
    kept = _keepers(labels, keys)
    changing = [at for at in range(len(labels)) if at not in kept]
    for suffix in (short_key, str):
        clashing = _clashing(names, taken, changing)
        if not clashing:
            return names
        for at in clashing:
            told = suffix(keys[at])
            names[at] = f"{labels[at]} ({keys[at] if told == labels[at] else told})"
    while clashing := _clashing(names, taken, changing):  # some label reads like a name with its key
        for at in clashing:
            names[at] += f" #{at}"
    return names


def _keepers(labels: Sequence[str], keys: Sequence[str]) -> set[int]:
    """The places of those that keep the bare label: one of each label at most, since keys are distinct.

    A label that is its own key: the key would say it twice. Else the only thing: a person who says the name means the
    thing and not a text. Else, of texts alone, the first, which is the most mentioned.
    """
    places: dict[str, list[int]] = {}
    for at, label in enumerate(labels):
        places.setdefault(label, []).append(at)
    kept: set[int] = set()
    for label, group in places.items():
        bare = [at for at in group if keys[at] == label]
        things = [at for at in group if not _is_literal(keys[at])]
        if bare or len(things) == 1:
            kept.update(bare or things)
        elif not things:
            kept.add(group[0])
    return kept


def _is_literal(key: str) -> bool:
    """Whether a key is an RDF literal, as N-Triples writes it."""
    return key.startswith('"') and len(key) > 1 and _LITERAL.fullmatch(key) is not None


def _clashing(names: list[str], taken: set[int], among: list[int]) -> list[int]:
    hashed = hash_names(pa.array(names, pa.large_string()))
    repeated, values = _repeated(hashed), hashed.tolist()
    return [at for at in among if repeated[at] or values[at] in taken]


def short_key(key: str) -> str:
    """The part of a key that tells it apart: the end of an IRI, the language or type of a literal.

    >>> short_key("http://www.wikidata.org/entity/Q90"), short_key('"Paris"@fr'), short_key('"Paris"')
    ('Q90', 'fr', 'text')
    """
    literal = _LITERAL.fullmatch(key)
    if literal:
        language, datatype = literal.groups()
        return language or (short_key(datatype) if datatype else "text")
    return re.split(r"[/#]", key.rstrip("/#"))[-1] or key


def _hash_rows(hashed: U64, start: int) -> npt.NDArray[np.uint32]:
    """Hashes and numbers as rows that sort by hash, then number."""
    numbers = np.arange(start, start + len(hashed), dtype=np.uint32)
    high, low = (hashed >> np.uint64(32)).astype(np.uint32), hashed.astype(np.uint32)
    return np.stack([high, low, numbers], axis=1)


def _hash_blocks(index: RowSorter) -> Iterator[tuple[U64, U32]]:
    for rows in index.sorted():
        yield (rows[:, 0].astype(np.uint64) << np.uint64(32)) | rows[:, 1], rows[:, 2]
