"""Updates a store: facts added and removed, names given to entities, duplicates merged; one batch of its journal.

    update("films.kg", ["more.tsv"], remove=["wrong.tsv"])

The sources are what `build` reads. Facts are removed first, then added; then duplicates are merged and aliases given.
When `update` returns, the batch is on the disk, whole; killed before that, the store is as it was. A fact that is there
is not added again and one that is not there not removed: both are counted. Who has the store open goes on with what it
read; `store.open_graph` reads the new state (`updated`), and `compact` folds the journal into a new build.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from kgwalk.kg.entity_names import short_key
from kgwalk.kg.fact_sources import add_sources, beside
from kgwalk.kg.files import naming_disk_errors, sole_writer_of_store
from kgwalk.kg.graph import with_nearest
from kgwalk.kg.journal import JournalState, KeyedFact, append, read_journal
from kgwalk.kg.names import NameTable
from kgwalk.kg.sources.reading import holds_tables, read, read_labels, stage
from kgwalk.kg.sources.source import Block, Labels, Options, ReadCounts
from kgwalk.kg.sources.table_keys import find_keys
from kgwalk.kg.sources.tables import Tables
from kgwalk.kg.store import Store, open_graph
from kgwalk.kg.times import parse_time
from kgwalk.kg.updated import stored_number
from kgwalk.types import KgwalkError, Progress, UnknownEntity, silent

WAIT = 2.0  # seconds for another update to end


@dataclass
class UpdateReport:
    """What an update read and changed; stands in `kg update --json`."""

    added: int = 0
    removed: int = 0
    known: int = 0  # facts to add that were there
    missing: int = 0  # facts to remove that were not there
    moved: int = 0  # facts of duplicates that are now the kept one's
    merged: int = 0
    aliases: int = 0
    new_entities: int = 0
    new_relations: int = 0
    rows: int = 0
    skipped: int = 0
    sources: int = 0  # sentences that facts were read in, from files beside the sources
    triples: int = 0  # facts of the store now
    changes: int = 0  # facts added and removed since the store was built
    notes: list[str] = field(default_factory=list)
    first_skipped: list[str] = field(default_factory=list)


def update(
    target: str | Path,
    add: Sequence[str | Path] = (),
    *,
    remove: Sequence[str | Path] = (),
    merges: Sequence[tuple[str, str]] = (),
    aliases: Sequence[tuple[str, str]] = (),
    options: Options | None = None,
    labels: str | Path | None = None,
    progress: Progress = silent,
) -> UpdateReport:
    """Change the store at `target`; `merges` are (duplicate, kept), `aliases` are (new name, name)."""
    target, options = Path(target), options or Options()
    report = UpdateReport()
    gone = _read(remove, options, None, report, progress) if remove else ([], {})
    new = _read(add, options, labels, report, progress) if add else ([], {})
    read_in = [file for source in add if (file := beside(source)) is not None]
    return _change(target, gone, new, merges, aliases, report, progress, read_in)


def update_facts(target: str | Path, add: Iterable[KeyedFact] = (), remove: Iterable[KeyedFact] = ()) -> UpdateReport:
    """The same with facts from memory."""
    add = list(add)
    for fact in add:
        if fact.time:
            parse_time(fact.time)  # ValueError for what is no time
    return _change(Path(target), (list(remove), {}), (add, {}), (), (), UpdateReport(), silent)


_Read = tuple[list[KeyedFact], dict[str, str]]  # facts, and the label of each key that has one


def _change(
    target: Path,
    gone: _Read,
    new: _Read,
    merges: Sequence[tuple[str, str]],
    aliases: Sequence[tuple[str, str]],
    report: UpdateReport,
    progress: Progress,
    sources: Sequence[Path] = (),
) -> UpdateReport:
    with naming_disk_errors(f"cannot update {target}"), sole_writer_of_store(target, WAIT):
        built = Store(target)
        state = read_journal(target, built.digest)
        edit = _Edit(built, state, report)
        for facts, labels, do in ((*gone, edit.remove), (*new, edit.add)):
            edit.labels = labels
            for done, fact in enumerate(facts, 1):
                do(fact)
                if done % 10_000 == 0:
                    progress("changing", done, len(facts))
        for duplicate, kept in merges:
            edit.merge(duplicate, kept)
        named: dict[str, str] = {}
        if sources:  # before the batch: a sentence behind a fact that is not there hurts nobody
            report.sources, named = add_sources(target, sources, edit.is_known)
        for name, of in [*aliases, *named.items()]:
            edit.alias(name, of)
        report.new_entities, report.new_relations = edit.introduced
        if edit.lines:
            append(target, built.digest, state, edit.lines)
    added, removed = len(state.changes.added), len(state.changes.removed)
    report.triples, report.changes = len(built.out.other) + added - removed, added + removed
    return report


# Reading the sources


def _read(
    sources: Sequence[str | Path], options: Options, labels: str | Path | None, report: UpdateReport, progress: Progress
) -> _Read:
    """All facts of the sources, by the keys they have there, and the best label of each key."""
    facts: list[KeyedFact] = []
    best: dict[str, tuple[int, str]] = {}
    tally = ReadCounts()
    for block in _blocks(sources, options, labels, tally):
        if isinstance(block, Labels):
            for key, label in zip(block.key.to_pylist(), block.label.to_pylist(), strict=True):
                best[key] = min(best.get(key, (block.rank, label)), (block.rank, label))
        else:
            times = [""] * len(block.head) if block.time is None else block.time.to_pylist()
            columns = (block.head.to_pylist(), block.relation.to_pylist(), block.tail.to_pylist(), times)
            facts += map(KeyedFact, *columns)
            if block.question is not None and not any("questions" in note for note in report.notes):
                report.notes.append("the facts of questions are taken, and their subgraphs stay as they are")
        progress("reading", tally.bytes_read, tally.bytes_total)
    report.rows += tally.rows
    report.skipped += tally.skipped
    report.notes += tally.notes
    report.first_skipped += tally.first_skipped[: options.messages - len(report.first_skipped)]
    return facts, {key: label for key, (_, label) in best.items()}


def _blocks(
    sources: Sequence[str | Path], options: Options, labels: str | Path | None, tally: ReadCounts
) -> Iterator[Block]:
    with TemporaryDirectory(prefix="kgwalk-update-") as scratch, closing(Tables(Path(scratch))) as tables:
        for source in sources:
            if holds_tables(source, options):
                stage(source, options, tally, tables)
            else:
                yield from read(source, options, tally)
        if tables.tables or options.keys:
            find_keys(tables, options.keys)
            yield from tables.blocks(options.block_bytes)
        if labels is not None:
            for block in read_labels(labels, options, tally):
                yield Labels(block.key, block.label, -1)  # before what the sources say


# Changing the store


class _Edit:
    """One batch in the making: what each fact means in the store, and the lines of the journal."""

    def __init__(self, built: Store, state: JournalState, report: UpdateReport) -> None:
        self._built, self._changes, self._report = built, state.changes, report
        self.lines: list[list[str]] = []
        self.labels: dict[str, str] = {}  # of keys in the source that is read
        changes = state.changes
        self._entities = _Keys(built.entity, built.entity_id, changes.names, "name")
        self._relations = _Keys(built.relation, built.relation_id, changes.relation_names, "relation")
        self._aliases = {name: self._entities.key_of(number) for name, number in built.aliases.items()}
        self._aliases |= changes.aliases
        self._times: defaultdict[tuple[str, str, str], dict[str, None]] = defaultdict(dict)  # of added facts
        for fact in changes.added:
            self._seen(fact)
            self._times[fact[:3]][fact.time] = None
        self._known_before = len(self._entities.new), len(self._relations.new)

    @property
    def introduced(self) -> tuple[int, int]:
        """How many entities and relations are new by this batch."""
        return len(self._entities.new) - self._known_before[0], len(self._relations.new) - self._known_before[1]

    def _seen(self, fact: KeyedFact) -> None:
        self._entities.new |= {key: None for key in (fact.head, fact.tail) if not self._entities.is_stored(key)}
        if not self._relations.is_stored(fact.relation):
            self._relations.new[fact.relation] = None

    def add(self, fact: KeyedFact) -> None:
        meant = self._meant(fact, new=True)
        if meant.time not in self._times_of(meant):
            self._write("+", meant)
            self._report.added += 1
        else:
            self._report.known += 1

    def remove(self, fact: KeyedFact) -> None:
        """Remove a fact; one without a time, whatever times it has."""
        meant = self._meant(fact, new=False)
        times = self._times_of(meant)
        found = [time for time in times if time == meant.time or not meant.time]
        for time in found:
            self._write("-", meant._replace(time=time))
        self._report.removed += len(found)
        self._report.missing += not found

    def merge(self, duplicate: str, kept: str) -> None:
        """The facts of the duplicate become the kept one's, and its name an alias."""
        gone, stays = self._known(duplicate), self._known(kept)
        if gone == stays:
            raise KgwalkError(f"{duplicate!r} and {kept!r} are the same entity already; leave out --merge for them")
        for fact in self._facts_of(gone):
            self._write("-", fact)
            now = fact._replace(**{end: stays for end in ("head", "tail") if getattr(fact, end) == gone})
            if now.time not in self._times_of(now):
                self._write("+", now)
            self._report.moved += 1
        for name in dict.fromkeys([duplicate, self._entities.name_of(gone), gone]):
            self._alias(name, stays)
        for name, key in list(self._aliases.items()):
            if key == gone:
                self._alias(name, stays)
        self._report.merged += 1

    def alias(self, name: str, of: str) -> None:
        key = self._known(of)
        if not name.strip():
            raise KgwalkError(f"an alias of {of!r} is empty; write it as --alias 'NEW NAME=NAME'")
        meant = self._aliases.get(name) or self._entities.find(name)
        if meant is not None and meant != key and next(self._facts_of(meant), None) is not None:
            raise KgwalkError(
                f"{name!r} is the name of another entity, so it cannot be an alias of {of!r}; if both are the same, "
                f"--merge '{name}={of}'"
            )
        if meant != key:
            self._alias(name, key)
            self._report.aliases += 1

    def _alias(self, name: str, key: str) -> None:
        self._aliases[name] = key
        self._changes.aliases[name] = key
        self.lines.append(["alias", name, key])

    def is_known(self, name: str) -> bool:
        """Whether it is the name of an entity that has a fact."""
        key = self._aliases.get(name) or self._entities.find(name)
        return key is not None and next(self._facts_of(key), None) is not None

    def _known(self, name: str) -> str:
        """The key of an entity that has a fact; UnknownEntity, with the nearest names, for another."""
        key = self._aliases.get(name) or self._entities.find(name)
        if key is None or not self.is_known(name):
            raise with_nearest(open_graph(self._built.folder.path), UnknownEntity(name))
        return key

    def _meant(self, fact: KeyedFact, *, new: bool) -> KeyedFact:
        """The fact by the store's keys. Entities and relations that are `new` get their names."""
        ends = []
        for said in (fact.head, fact.tail):
            named = self.labels.get(said, said)
            key = self._aliases.get(said) or self._aliases.get(named) or self._entities.find(said)
            if key is None and not self._entities.has_ids:
                key = named if named == said else self._entities.find(named)
            if key is None:
                key = said if self._entities.has_ids else named
            ends.append(key)
        relation = self._relations.find(fact.relation)
        label = self.labels.get(fact.relation, fact.relation)
        if relation is None:
            relation = fact.relation if self._relations.has_ids else label
        if new:
            for keys, one, name in (
                (self._entities, ends[0], self.labels.get(fact.head)),
                (self._entities, ends[1], self.labels.get(fact.tail)),
                (self._relations, relation, label),
            ):
                if (line := keys.introduce(one, name)) is not None:
                    self.lines.append(line)
        return KeyedFact(ends[0], relation, ends[1], fact.time)

    def _times_of(self, fact: KeyedFact) -> list[str]:
        """The times at which a fact's head, relation and tail are a fact now; "" for one without a time."""
        removed = self._changes.removed
        stored = _stored_times(self._built, fact)
        return [*(time for time in stored if fact._replace(time=time) not in removed), *self._times.get(fact[:3], ())]

    def _facts_of(self, key: str) -> Iterator[KeyedFact]:
        """The facts of an entity as they are now."""
        number = self._entities.number_of(key)
        if number is not None:
            for fact in self._stored_facts(number):
                if fact not in self._changes.removed:
                    yield fact
        yield from [fact for fact in self._changes.added if key in (fact.head, fact.tail)]

    def _stored_facts(self, number: int) -> Iterator[KeyedFact]:
        store = self._built
        arriving = (store.triple_of[at] for at in range(*store.in_.span(number)) if store.in_.other[at] != number)
        every = chain(range(*store.out.span(number)), arriving)
        while some := list(islice(every, 1024)):
            heads, relations = store.out.owners(np.array(some, np.int64))
            for triple, head, relation in zip(some, heads.tolist(), relations.tolist(), strict=True):
                ends = (self._entities.key_of(head), self._entities.key_of(store.out.other[triple]))
                time = store.date[store.date_of[triple]] if store.timed else ""
                yield KeyedFact(ends[0], self._relations.key_of(relation), ends[1], time)

    def _write(self, sign: str, fact: KeyedFact) -> None:
        if sign == "+":
            self._changes.add(fact)
            if fact in self._changes.added:
                self._times[fact[:3]][fact.time] = None
        else:
            if fact in self._changes.added:
                self._times[fact[:3]].pop(fact.time, None)
            self._changes.remove(fact)
        self.lines.append([sign, *(fact if fact.time else fact[:3])])


def _stored_times(store: Store, fact: KeyedFact) -> list[str]:
    """The times of a fact in a store as built."""
    if not store.timed:
        return [] if stored_number(store, fact._replace(time="")) is None else [""]
    keys, relations = store.entity_id or store.entity, store.relation_id or store.relation
    head, relation, tail = keys.number(fact.head), relations.number(fact.relation), keys.number(fact.tail)
    bounds = None if head is None or relation is None or tail is None else store.out.bounds(head, relation)
    if bounds is None:
        return []
    low = bisect_left(store.out.other, tail, *bounds)
    return [store.date[store.date_of[at]] for at in range(low, bisect_right(store.out.other, tail, low, bounds[1]))]


class _Keys:
    """What the texts of a source mean: keys of the store, or new ones."""

    def __init__(self, names: NameTable, ids: NameTable | None, new_names: dict[str, str], line: str) -> None:
        self._names, self._ids, self._line = names, ids, line
        self._keys = ids or names
        self.has_ids = ids is not None
        self._name_of = new_names
        self._by_name = {name: key for key, name in new_names.items()}
        self.new: dict[str, None] = {}  # keys that are not stored

    def is_stored(self, key: str) -> bool:
        return self._keys.number(key) is not None

    def find(self, text: str) -> str | None:
        """The key that a text is, or is the name of."""
        if text in self.new or self.is_stored(text):
            return text
        number = self._names.number(text) if self._ids is not None else None
        return self.key_of(number) if number is not None else self._by_name.get(text)

    def key_of(self, number: int) -> str:
        return self._keys[number]

    def number_of(self, key: str) -> int | None:
        return self._keys.number(key)

    def name_of(self, key: str) -> str:
        number = self._keys.number(key)
        return self._name_of.get(key, key) if number is None else self._names[number]

    def introduce(self, key: str, label: str | None) -> list[str] | None:
        """The line of the journal that names a new key; None if it is known, or its own name."""
        if key in self.new or self.is_stored(key):
            return None
        self.new[key] = None
        name = next(name for name in self._possible(key, label or key) if not self._is_taken(name, key))
        if name == key:
            return None
        self._name_of[key], self._by_name[name] = name, key
        return [self._line, key, name]

    def _possible(self, key: str, label: str) -> Iterator[str]:
        """The names that a key may get: a label that others have is told apart by the key."""
        yield label
        yield f"{label} ({short_key(key)})"
        yield f"{label} ({key})"
        yield key

    def _is_taken(self, name: str, key: str) -> bool:
        if name == key:
            return False
        return self._names.number(name) is not None or self._by_name.get(name, key) != key or name in self.new
