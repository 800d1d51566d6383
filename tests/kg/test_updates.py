"""Updates: facts added to a store and removed from it, beside a plain set of facts that says what must be there."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import httpx
import numpy as np
import pytest

from commands import Cli
from conftest import FILMS, store_of
from kgwalk.kg import blocks, files
from kgwalk.kg.build import build
from kgwalk.kg.compact import compact
from kgwalk.kg.export import ExportTerms, export
from kgwalk.kg.files import sole_writer_of_store
from kgwalk.kg.graph import find_among
from kgwalk.kg.journal import KeyedFact as Fact
from kgwalk.kg.store import JOURNAL, StoredGraph, open_graph
from kgwalk.kg.update import update, update_facts
from kgwalk.types import KgwalkError, StoreError, Triple, UnknownEntity, UnknownRelation
from kgwalk.walk.kinds import kinds_in, kinds_of
from kgwalk.walk.linking import link, topics
from serve.test_serve_reload import serving

FIVE = [
    ("Big", "directed_by", "Penny Marshall"),
    ("Big", "starred_actors", "Tom Hanks"),
    ("Apollo 13", "starred_actors", "Tom Hanks"),
    ("Apollo 13", "directed_by", "Ron Howard"),
    ("Big", "release_year", "1988"),
]


def five(folder: Path) -> Path:
    return store_of(folder, FIVE).store.folder.path


def facts_of(graph: StoredGraph) -> list[tuple[str, ...]]:
    return sorted(tuple(fact)[: 3 + bool(fact.time)] for fact in graph.match())


def tsv(path: Path, facts: Iterable[Iterable[str]]) -> Path:
    path.write_text("".join("\t".join(fact) + "\n" for fact in facts))
    return path


# Worked examples


def test_added_and_removed_facts_are_seen_by_every_question(tmp_path: Path) -> None:
    store = five(tmp_path)
    more = tsv(tmp_path / "more.tsv", [("Cast Away", "starred_actors", "Tom Hanks"), FIVE[0], ("Big", "award", "None")])
    wrong = tsv(tmp_path / "wrong.tsv", [FIVE[3], ("Big", "release_year", "1987")])
    report = update(store, [more], remove=[wrong])
    assert (report.added, report.known, report.removed, report.missing) == (2, 1, 1, 1)
    assert (report.new_entities, report.new_relations, report.triples, report.changes) == (2, 1, 6, 3)
    graph = open_graph(store)
    assert graph.relations("Big") == ["award", "directed_by", "release_year", "starred_actors"]  # in their order
    assert graph.neighbors("Tom Hanks", "starred_actors", out=False).names == ["Big", "Apollo 13", "Cast Away"]
    assert graph.neighbors("Tom Hanks", "starred_actors", out=False, limit=2).left_out == 1
    assert "Ron Howard" not in graph  # nothing is said of him any more
    with pytest.raises(UnknownEntity):
        graph.relations("Ron Howard")
    assert [found.name for found in graph.find("ron howard")] == []
    assert [(found.name, found.how) for found in graph.find("cast away", 1)] == [("Cast Away", "normalised")]
    assert list(graph.match(tail="Tom Hanks", relation="starred_actors", limit=1)) == [Triple(*FIVE[1], "")]
    assert graph.find_relation("awards", 1)[0].name == "award"
    info = graph.info()
    assert (info["triples"], info["entities"], info["relations"], len(graph)) == (6, 7, 4, 6)
    assert info["updates"] == {"batches": 1, "added": 2, "removed": 1, "aliases": 0}


def test_a_relation_without_a_fact_left_is_gone_and_may_come_back(tmp_path: Path) -> None:
    store = five(tmp_path)
    update_facts(store, remove=[Fact(*FIVE[4])])
    graph = open_graph(store)
    assert not graph.has_relation("release_year")
    assert graph.find_relation("release_year") == []
    with pytest.raises(UnknownRelation):
        graph.neighbors("Big", "release_year")
    update_facts(store, [Fact(*FIVE[4])])
    assert facts_of(open_graph(store)) == sorted(FIVE)
    assert open_graph(store).store.changes == {"batches": 2, "added": 0, "removed": 0, "aliases": 0}


def test_nothing_is_found_of_what_is_gone(tmp_path: Path) -> None:
    """Not by its exact name; and a store without any fact is no damaged one."""
    store = five(tmp_path)
    update_facts(store, remove=[Fact(*FIVE[3])])
    assert "Ron Howard" not in [one.name for one in open_graph(store).find("Ron Howard")]
    update_facts(store, remove=[Fact(*fact) for fact in FIVE])
    assert list(open_graph(store).match("Big", "directed_by")) == []


def test_dates_are_told_of_added_facts_too(tmp_path: Path) -> None:
    """Which relations have dates decides how a SPARQL query asks for their facts."""
    store = store_of(tmp_path, [("A", "mayor", "B", "2001"), ("A", "near", "C", "")]).store.folder.path
    assert [ExportTerms(open_graph(store).store).is_dated(name) for name in ("mayor", "near")] == [True, False]
    update_facts(store, add=[Fact("A", "head", "E", "2010")])
    dated = [ExportTerms(open_graph(store).store).is_dated(name) for name in ("mayor", "near", "head")]
    assert dated == [True, False, True]


def test_a_link_to_a_store_has_its_lock_and_stays_a_link(tmp_path: Path) -> None:
    store, linked = five(tmp_path), tmp_path / "link.kg"
    linked.symlink_to(store)
    update_facts(linked, add=[Fact("Cast Away", "starred_actors", "Tom Hanks")])
    with sole_writer_of_store(store), pytest.raises(StoreError), sole_writer_of_store(linked):
        pass
    assert compact(linked) is not None
    assert linked.is_symlink()
    assert len(facts_of(open_graph(store))) == 6


def test_times(tmp_path: Path) -> None:
    """One fact at two times is two; removed without a time, both go; a graph without times gets some."""
    store = five(tmp_path)
    visit = ("Obama", "visited", "Japan")
    update_facts(store, [Fact(*visit, "2016"), Fact(*visit, "2014-04"), Fact("Obama", "visited", "Kenya")])
    graph = open_graph(store)
    assert graph.neighbors("Obama", "visited").times == [["2014-04", "2016"], []]
    assert graph.neighbors("Japan", "visited", out=False).times == [["2014-04", "2016"]]
    seen = graph.between("2015", None, undated=False)
    assert list(seen.match()) == [Triple(*visit, "2016")]
    update_facts(store, remove=[Fact(*visit, "2016")])
    assert open_graph(store).neighbors("Obama", "visited").times == [["2014-04"], []]
    update_facts(store, [Fact(*visit, "1999")], remove=[Fact(*visit)])  # removed first
    compact(store)
    assert open_graph(store).neighbors("Obama", "visited").times == [["1999"], []]


def test_merged_names_and_aliases(tmp_path: Path) -> None:
    store = five(tmp_path)
    update_facts(store, [Fact("Cast Away", "starred_actors", "T. Hanks"), Fact("Big", "starred_actors", "T. Hanks")])
    report = update(store, merges=[("T. Hanks", "Tom Hanks")], aliases=[("Apollo XIII", "Apollo 13")])
    assert (report.moved, report.merged, report.aliases) == (2, 1, 1)
    for _ in range(2):  # with updates, and folded in
        graph = open_graph(store)
        assert sorted(graph.neighbors("T. Hanks", "starred_actors", out=False).names) == [
            "Apollo 13",
            "Big",
            "Cast Away",
        ]
        assert len(graph) == 6  # Big had both
        assert "T. Hanks" not in {fact.tail for fact in graph.match()}
        assert topics(link("films with t. hanks", graph)) == ["Tom Hanks"]
        assert topics(link("who directed apollo xiii?", graph)) == ["Apollo 13"]
        assert graph.find("T. Hanks", 1)[0].name == "Tom Hanks"
        compact(store)
    update_facts(store, [Fact("T. Hanks", "born", "1956")])  # the name still means him
    assert open_graph(store).neighbors("Tom Hanks", "born").names == ["1956"]
    with pytest.raises(UnknownEntity, match=r"'Tom Hangs' is not in the graph; did you mean 'Tom Hanks'"):
        update(store, merges=[("Tom Hangs", "Tom Hanks")])
    with pytest.raises(KgwalkError, match="are the same entity already"):
        update(store, merges=[("T. Hanks", "Tom Hanks")])
    with pytest.raises(KgwalkError, match="'Big' is the name of another entity"):
        update(store, aliases=[("Big", "Apollo 13")])


def test_ids_and_labels_of_rdf(tmp_path: Path) -> None:
    """New things are known by their ids and shown by their labels; one that is called like another gets its id."""

    def nt(name: str, *lines: str) -> Path:
        path = tmp_path / f"{name}.nt"
        path.write_text("".join(f"{line} .\n" for line in lines))
        return path

    label = "<http://www.w3.org/2000/01/rdf-schema#label>"
    first = nt("first", "<urn:x/big> <urn:x/by> <urn:x/pm>", f'<urn:x/pm> {label} "Penny Marshall"')
    build([first], tmp_path / "g.kg")
    more = nt(
        "more",
        "<urn:x/big> <urn:x/star> <urn:x/pm2>",
        f'<urn:x/pm2> {label} "Penny Marshall"',
        '<urn:x/big> <urn:x/year> "1988"',
    )
    update(tmp_path / "g.kg", [more], remove=[nt("gone", "<urn:x/big> <urn:x/by> <urn:x/none>")])
    update(tmp_path / "g.kg", [tsv(tmp_path / "plain.tsv", [("big", "seen by", "Ann")])])  # by the name that is shown
    for _ in range(2):
        graph = open_graph(tmp_path / "g.kg")
        assert graph.id_of("Penny Marshall (pm2)") == "urn:x/pm2"
        assert graph.neighbors("big", "star").names == ["Penny Marshall (pm2)"]
        assert graph.neighbors("urn:x/big", "urn:x/by").names == ["Penny Marshall"]
        assert graph.relations("big") == ["by", "seen by", "star", "year"]
        assert graph.neighbors("big", "year").names == ["1988"]
        compact(tmp_path / "g.kg")


def test_question_subgraphs_follow_what_is_left_of_them(tmp_path: Path, cli: Cli) -> None:
    source, about = tmp_path / "q.jsonl", {"question": "?", "q_entity": ["a"], "a_entity": ["b"]}
    of_questions = {"q1": [["a", "r", "b"], ["a", "r", "c"]], "q2": [["c", "s", "d"], ["a", "r", "b"]]}
    source.write_text("".join(json.dumps({"id": id_, **about, "graph": of}) + "\n" for id_, of in of_questions.items()))
    build([source], tmp_path / "q.kg")
    update_facts(tmp_path / "q.kg", [Fact("a", "p", "z"), Fact("a", "r", "zz")], remove=[Fact("a", "r", "c")])
    for _ in range(2):
        graph = open_graph(tmp_path / "q.kg")
        assert facts_of(graph.question("q1")) == [("a", "r", "b")]
        assert facts_of(graph.question("q2")) == [("a", "r", "b"), ("c", "s", "d")]
        assert graph.question("q2").neighbors("b", "r", out=False).names == ["a"]
        compact(tmp_path / "q.kg")
    store = five(tmp_path)
    (tmp_path / "asked.jsonl").write_text('{"id": "1", "question": "?", "topic_entities": ["Big"], "answers": []}\n')
    assert cli("kg", "subgraphs", store, tmp_path / "asked.jsonl", "--hops", "1").status == 0
    update_facts(store, [Fact("Big", "award", "None")], remove=[Fact(*FIVE[4])])
    assert facts_of(open_graph(store).question("1")) == sorted(FIVE[:2])
    refused = cli("kg", "subgraphs", store, tmp_path / "asked.jsonl", "--force")
    assert refused.status == 1
    assert "fold them in first: kgwalk kg compact" in refused.stderr
    folded = cli("kg", "compact", store)
    assert "question subgraphs are not kept" in folded.stderr
    assert open_graph(store).question_sets is None


def test_kinds_values_and_linking_follow(tmp_path: Path) -> None:
    store = five(tmp_path)
    graph = open_graph(store)
    assert kinds_in("which starships are there?", graph) == []
    update_facts(
        store,
        [
            Fact("USS Enterprise", "is_a", "starship"),
            Fact("Voyager", "is_a", "starship"),
            Fact("USS Enterprise", "length", "289 m"),
            Fact("Voyager", "length", "344 m"),
        ],
    )
    graph = open_graph(store)
    (found,) = kinds_in("which starships are there?", graph)
    assert sorted(found.kind.members(graph)) == ["USS Enterprise", "Voyager"]
    assert topics(link("how long is the enterprise?", graph)) == ["USS Enterprise"]
    assert graph.neighbors("Voyager", "length").names == ["344 m"]
    update_facts(store, remove=[Fact("Voyager", "is_a", "starship"), Fact("USS Enterprise", "is_a", "starship")])
    assert "starship" not in kinds_of(open_graph(store))


# Against a set of facts


class Model:
    """The facts as a plain set, and what each question must answer."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self.facts = set(facts)

    def check(self, graph: StoredGraph, draw: random.Random) -> None:
        facts = self.facts
        assert len(graph) == len(facts)
        entities = {end for fact in facts for end in (fact.head, fact.tail)}
        relations = {fact.relation for fact in facts}
        for name in [*draw.sample(sorted(entities), min(5, len(entities))), f"e{draw.randrange(60)}"]:
            assert (name in graph) == (name in entities)
            if name in entities:
                self.check_entity(graph, name, draw)
        relation = f"r{draw.randrange(9)}"
        assert graph.has_relation(relation) == (relation in relations)
        head, tail = f"e{draw.randrange(60)}", f"e{draw.randrange(60)}"
        for pattern in ((head, None, None), (None, relation, None), (None, None, tail), (head, relation, None),
                        (None, relation, tail), (head, None, tail)):  # fmt: skip
            wanted = {f for f in facts if all(p is None or p == part for p, part in zip(pattern, f, strict=False))}
            got = [Fact(*fact) for fact in graph.match(*pattern)]
            assert len(got) == len(wanted)
            assert set(got) == wanted
        text = f"E {draw.randrange(60)}"
        near = find_among(text, sorted(entities), 3)
        assert {one.score for one in graph.find(text, 1)} == {one.score for one in near[:1]}
        assert {one.name for one in graph.find_relation(relation, 20)} <= relations
        assert [graph.store.relation[number] for number in graph.live_relations()] == sorted(relations)

    def check_entity(self, graph: StoredGraph, name: str, draw: random.Random) -> None:
        assert graph.find(name, 1)[0].name == name
        for out in (True, False):
            mine = [fact for fact in self.facts if (fact.head if out else fact.tail) == name]
            assert graph.relations(name, out=out) == sorted({fact.relation for fact in mine})
            for relation in graph.relations(name, out=out)[:3]:
                of_it = [fact for fact in mine if fact.relation == relation]
                times: dict[str, list[str]] = {}
                for fact in sorted(of_it):
                    times.setdefault(fact.tail if out else fact.head, []).append(fact.time)
                found = graph.neighbors(name, relation, out=out)
                assert (sorted(found.names), found.total) == (sorted(times), len(times))
                if found.times is not None:
                    pairs = zip(found.names, found.times, strict=True)
                    assert dict(pairs) == {one: [date for date in dates if date] for one, dates in times.items()}
                limit = draw.randrange(1, 4)
                some = graph.neighbors(name, relation, out=out, limit=limit)
                assert (some.names, some.total) == (found.names[:limit], found.total)

    def apply(self, added: Iterable[Fact], removed: Iterable[Fact]) -> None:
        for fact in removed:
            self.facts = {one for one in self.facts if one[:3] != fact[:3] or (fact.time and one.time != fact.time)}
        self.facts |= set(added)


@pytest.mark.parametrize("timed", [False, True])
def test_10_000_random_changes_and_reads_agree_with_a_set(tmp_path: Path, timed: bool) -> None:
    draw = random.Random(timed)

    def fact() -> Fact:
        time = draw.choice(["", "1999", "2001-02", "2014..2016"]) if timed else ""
        return Fact(f"e{draw.randrange(60)}", f"r{draw.randrange(9)}", f"e{draw.randrange(60)}", time)

    model = Model(fact() for _ in range(300))
    build([tsv(tmp_path / "a.tsv", [f if timed else f[:3] for f in model.facts])], tmp_path / "a.kg")
    done = 0
    while done < 10_000:
        added = [fact() for _ in range(draw.randrange(80))]
        there = sorted(model.facts)
        removed = [draw.choice(there) if draw.random() < 0.6 else fact() for _ in range(draw.randrange(80))]
        if draw.random() < 0.05:
            removed += [one for one in there if one.relation == "r4"]
        model.apply(added, removed)
        update_facts(tmp_path / "a.kg", added, removed)
        done += len(added) + len(removed)
        model.check(open_graph(tmp_path / "a.kg"), draw)
        if draw.random() < 0.1:
            compact(tmp_path / "a.kg")
    graph = open_graph(tmp_path / "a.kg")
    consistent(graph)
    same_as_built_anew(graph, tmp_path)


def consistent(graph: StoredGraph) -> None:
    """Both directions have the same facts, and bounds ascend."""
    store = graph.store
    for edges in (store.out, store.in_):
        groups, start = np.asarray(edges.groups_array).astype(int), np.asarray(edges.start_array).astype(int)
        assert (groups[0], groups[-1], start[-1]) == (0, len(edges.relation), len(edges.other))
        assert (np.diff(groups) >= 0).all()
        assert (np.diff(start) > 0).all()
        place = np.searchsorted(edges.groups_array, np.arange(len(edges.relation)), side="right") - 1
        assert (place == np.searchsorted(groups, np.arange(len(edges.relation)), side="right") - 1).all()
    heads, relations = store.out.owners(np.arange(len(store.out.other)))
    tails, again = store.in_.owners(np.arange(len(store.in_.other)))
    of = np.asarray(store.triple_of_array).astype(int)
    assert (heads[of] == np.asarray(store.in_.other_array)).all()
    assert (np.asarray(store.out.other_array)[of] == tails).all()
    assert (relations[of] == again).all()


def same_as_built_anew(graph: StoredGraph, folder: Path) -> None:
    """Views, export and kinds are those of a store built of the same facts, and so is the compacted store."""
    (folder / "anew.tsv").write_bytes(b"".join(export(graph, "tsv")))
    build([folder / "anew.tsv"], folder / "anew.kg", replace=True)
    anew = open_graph(folder / "anew.kg")
    assert facts_of(graph) == facts_of(anew)
    assert kinds_of(graph) == kinds_of(anew)
    for view in (lambda one: one.between("2000", "2015"), lambda one: one.between(None, "2000", undated=False)):
        seen, wanted = view(graph), view(anew)
        assert facts_of(seen) == facts_of(wanted)
        assert set(seen.store.relation.several(seen.live_relations())) == set(
            wanted.store.relation.several(wanted.live_relations())
        )
    some = np.arange(0, len(graph), 3)
    assert facts_of(graph.subgraph(some)) == sorted(
        tuple(fact)[: 3 + bool(fact.time)] for fact in graph.triples(some.astype(np.int64))
    )
    path = graph.store.folder.path
    compact(path)
    assert open_graph(path).store.digest == anew.store.digest


def test_a_store_that_is_read_by_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (blocks, files):
        monkeypatch.setattr(module, "BLOCK_BYTES", 64)
    monkeypatch.setattr(files, "WHOLE_BYTES", 0)
    monkeypatch.setattr(files, "SMALL_BYTES", 0)
    draw = random.Random(7)
    model = Model(Fact(f"e{draw.randrange(60)}", f"r{draw.randrange(9)}", f"e{draw.randrange(60)}") for _ in range(400))
    build([tsv(tmp_path / "a.tsv", [fact[:3] for fact in model.facts])], tmp_path / "a.kg")
    for _ in range(5):
        added = [Fact(f"e{draw.randrange(70)}", f"q{draw.randrange(9)}", f"e{draw.randrange(60)}") for _ in range(20)]
        removed = draw.sample(sorted(model.facts), 20)
        model.apply(added, removed)
        update_facts(tmp_path / "a.kg", added, removed)
        for private in (False, True):
            graph = open_graph(tmp_path / "a.kg", private=private)
            model.check(graph, draw)
    consistent(graph)
    same_as_built_anew(graph, tmp_path)


# The journal


def test_half_a_batch_is_passed_over_and_cut_off_by_the_next(tmp_path: Path) -> None:
    store = five(tmp_path)
    update_facts(store, [Fact("Big", "award", "one")])
    whole = (store / JOURNAL).read_bytes()
    update_facts(store, [Fact("Big", "award", "two"), Fact("Big", "award", "three")])
    both = (store / JOURNAL).read_bytes()
    for end in range(len(whole), len(both)):
        (store / JOURNAL).write_bytes(both[:end])
        assert open_graph(store).neighbors("Big", "award").names == ["one"]
    update_facts(store, [Fact("Big", "award", "four")])
    assert open_graph(store).neighbors("Big", "award").names == ["one", "four"]
    (store / JOURNAL).write_bytes(whole[:20])  # not even the first was acknowledged
    assert facts_of(open_graph(store)) == sorted(FIVE)
    update_facts(store, [Fact("Big", "award", "five")])
    assert open_graph(store).neighbors("Big", "award").names == ["five"]


def test_a_changed_byte_is_an_error_and_no_other_answer(tmp_path: Path) -> None:
    store = five(tmp_path)
    update_facts(store, [Fact("Big", "award", "one")])
    update_facts(store, [Fact("Big", "award", "two")])
    whole = (store / JOURNAL).read_bytes()
    for at in range(len(whole) - 1):
        (store / JOURNAL).write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(StoreError, match=r"updates\.jsonl"):
            open_graph(store)
    other = store_of(tmp_path, FILMS).store.folder.path
    (other / JOURNAL).write_bytes(whole)
    with pytest.raises(StoreError, match="belongs to another store"):
        open_graph(other)


def test_one_writer_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = five(tmp_path)
    monkeypatch.setattr("kgwalk.kg.update.WAIT", 0.05)
    with sole_writer_of_store(store):
        with pytest.raises(StoreError, match="another process is writing"):
            update_facts(store, [Fact("Big", "award", "one")])
        assert facts_of(open_graph(store)) == sorted(FIVE)  # a reader never waits
    update_facts(store, [Fact("Big", "award", "one")])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["facts.jsonl", "graph.kg"]


WORKER = """
import os, sys
from kgwalk.kg.compact import compact
from kgwalk.kg.journal import KeyedFact as Fact
from kgwalk.kg.update import update_facts

store = sys.argv[1]
for line in sys.stdin:
    pid = os.fork()
    if pid:
        os.write(1, b"pid %d\\n" % pid)
        os.waitpid(pid, 0)
        os.write(1, b"ended\\n")
        continue
    number = int(line)
    while True:
        added = [Fact(f"batch {number}", "holds", f"{number}.{one}") for one in range(5)]
        update_facts(store, added, [Fact(f"batch {number - 1}", "holds", f"{number - 1}.0")])
        os.write(1, b"done %d\\n" % number)
        number += 1
        if number % 3 == 0:
            os.write(1, b"compacting\\n")
            compact(store)
"""


def test_kill_at_any_moment_loses_only_what_was_not_acknowledged(tmp_path: Path) -> None:
    """Each batch adds five facts and removes the first of the batch before; every third time all is folded in.

    Twelve times the process is killed while it updates, and twelve times while it compacts.
    """
    store, draw = five(tmp_path), random.Random(3)
    update_facts(store, [Fact("Big", "award", "one")])
    began = time.perf_counter()
    compact(store)
    takes, done = time.perf_counter() - began, 0
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for turn in range(24):
            process.stdin.write(f"{done + 1}\n")
            process.stdin.flush()
            said: list[str] = []
            wanted = "compacting" if turn % 2 else "done"
            while not any(line.startswith("pid") for line in said) or not any(line.startswith(wanted) for line in said):
                said.append(process.stdout.readline().strip())
            (pid,) = (int(line.split()[1]) for line in said if line.startswith("pid"))
            time.sleep(draw.random() * takes)
            os.kill(pid, signal.SIGKILL)
            while said[-1] != "ended":
                said.append(process.stdout.readline().strip())
            done = max([done, *(int(line.split()[1]) for line in said if line.startswith("done"))])
            graph = open_graph(store)
            facts = [tuple(fact[:3]) for fact in graph.match(relation="holds")]
            assert len(facts) == len(set(facts))
            # The next batch may have been written and not acknowledged yet: then it is there as a whole.
            done += f"batch {done + 1}" in graph
            assert set(facts) == {
                (f"batch {number}", "holds", f"{number}.{one}")
                for number in range(1, done + 1)
                for one in range(number < done, 5)
            }
        process.stdin.close()
    update_facts(store, [Fact("Big", "award", "two")])
    compact(store)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


# The commands, and a server


def test_commands(tmp_path: Path, cli: Cli) -> None:
    store = five(tmp_path)
    more = tsv(tmp_path / "more.tsv", [("Cast Away", "starred_actors", "T. Hanks"), FIVE[0]])
    wrong = tsv(tmp_path / "wrong.tsv", [("Big", "release_year", "1987")])
    told = cli("kg", "update", store, more, "--remove", wrong)
    assert told.stdout.splitlines()[0].startswith(f"{store}: 1 fact added, 0 removed, in ")
    assert "left out: 1 already there, 1 to remove that are not there, 0 malformed rows" in told.stdout
    merged = cli("kg", "update", store, "--merge", "T. Hanks=Tom Hanks", "--alias", "Apollo=Apollo 13", "--json").json
    assert (merged["moved"], merged["merged"], merged["aliases"], merged["changes"]) == (1, 1, 1, 1)
    assert cli("kg", "query", store, "Apollo", "starred_actors", "--json").json["out"]["names"] == ["Tom Hanks"]
    assert "1 fact added, 0 removed, 2 aliases; kgwalk kg compact folds them in" in cli("kg", "info", store).stdout
    assert cli("kg", "compact", store, "--json").json["store"]["triples"] == 6
    assert "no updates to fold in" in cli("kg", "compact", store).stdout
    assert cli("kg", "update", store).status == 2
    assert cli("kg", "update", store, "--merge", "Tom Hanks").status == 2
    assert "comes with kgwalk and stays as it is" in cli("kg", "update", "world", more).stderr
    assert "does not exist" in cli("kg", "update", tmp_path / "none.kg", more).stderr


@pytest.mark.parametrize("workers", [1, 2])
def test_a_running_server_sees_updates(tmp_path: Path, workers: int) -> None:
    store = shutil.copytree(five(tmp_path), tmp_path / "films.kg")

    def stars(url: str) -> set[tuple[str, ...]]:
        asked = {"op": "neighbors", "entity": "Tom Hanks", "relation": "starred_actors", "out": False}
        with httpx.Client(base_url=url, trust_env=False, timeout=20) as client:
            (found,) = client.post("/kg/query", json=[asked]).json()["results"]
        return {tuple(sorted(found["value"]["names"]))}

    def until(url: str, names: set[str]) -> None:
        for _ in range(100):
            if all(stars(url) == {tuple(sorted(names))} for _ in range(4 * workers)):
                return
            time.sleep(0.05)
        raise AssertionError(f"the server did not see {names}")

    with serving(store, workers=workers) as server:
        until(server.url, {"Big", "Apollo 13"})
        update_facts(store, [Fact("Cast Away", "starred_actors", "Tom Hanks")])
        until(server.url, {"Big", "Apollo 13", "Cast Away"})
        compact(store)
        update_facts(store, remove=[Fact(*FIVE[1])])
        until(server.url, {"Apollo 13", "Cast Away"})
        (store / JOURNAL).write_bytes(b"no journal\n")
        server.until("an update of the graph films is not served")
        until(server.url, {"Apollo 13", "Cast Away"})
