"""Questions about the bundled world graph, made from its facts and the patterns in world_patterns.toml.

Every answer is computed by running the question's own program over the graph; a pattern gives the words. Questions that
walk the same relations from the same topics come into the same split, so none is a paraphrase of one in another.
Knows nothing of where the facts came from.
"""

from __future__ import annotations

import math
import operator
import random
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

Fact = tuple[str, str, str]
Walk = tuple[Fact, ...]  # the edges from a topic to an entity, each in the graph's own direction
Named = dict[str, list[Walk]]  # a named set: its entities, and for each the walks that led there
Row = dict[str, Any]
Key = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]  # the topics, and the relations walked from them

PATTERNS = Path(__file__).with_name("world_patterns.toml")
SEED = 2026
MOST_PATHS = 3
# Dealt to the questions as they come, pattern after pattern: of 15, 10 go to train, 2 to dev and 3 to test.
DEAL = [{"t": "train", "d": "dev", "x": "test"}[letter] for letter in "txttdttxttdtxtt"]


class World:
    """The facts, to walk both ways, and the kinds of things there are."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self.tails: dict[tuple[str, str], list[str]] = defaultdict(list)
        self.heads: dict[tuple[str, str], list[str]] = defaultdict(list)
        heads_of: dict[str, set[str]] = defaultdict(set)
        tails_of: dict[str, set[str]] = defaultdict(set)
        for head, relation, tail in sorted(facts):
            self.tails[head, relation].append(tail)
            self.heads[tail, relation].append(head)
            heads_of[relation].add(head)
            tails_of[relation].add(tail)
        cities = heads_of["latitude"]
        self.kinds = {
            "country": heads_of["iso_alpha2"],
            "city": cities,
            "us_city": heads_of["state"],
            "capital": tails_of["capital"],
            "city_not_capital": cities - tails_of["capital"],
            "us_state": heads_of["state_of"],
            "county": {name for name in heads_of["county_of"] if re.search(r"(County|Parish)\b", name)},
            "language": {name for name in heads_of["language_code"] if not name.endswith(" language")},
            "script": tails_of["script"],
            "currency": heads_of["currency_code"],
            "timezone": tails_of["timezone"],
            "utc_offset": tails_of["utc_offset"],
            "subregion": tails_of["subregion"],
            **{r: tails_of[r] for r in ("calling_code", "internet_domain", "iso_alpha3", "currency_code")},
        }

    def number(self, entity: str, relation: str) -> float | None:
        values = self.tails.get((entity, relation), [])
        return float(values[0]) if values else None

    def renown(self, name: str) -> float:
        """How much rather a thing is asked about than another of its kind."""
        people = self.number(name, "population")
        if people is not None:
            return math.pow(max(people, 1.0), 0.8 if name in self.kinds["city"] else 0.25)
        owners = [h for r in ("calling_code", "internet_domain", "iso_alpha3") for h in self.heads.get((name, r), [])]
        if owners:
            return max(map(self.renown, owners))
        users = [h for r in ("language", "currency", "timezone", "script") for h in self.heads.get((name, r), [])]
        return math.sqrt(max(len(users), 1))


def doubted(facts: Iterable[Fact], book: Row) -> tuple[World, World]:
    """The world without the doubtful facts, and the world with the possible ones."""
    doubtful: dict[str, list[str]] = book["doubtful"]
    stated = set(facts)
    kept = {fact for fact in stated if fact[0] not in doubtful.get(fact[1], [])}
    possible = {(head, relation, tail) for relation, pairs in book["possible"].items() for head, tail in pairs}
    unsettled = doubtful["official_language"]
    possible |= {(h, "official_language", t) for h, r, t in stated if r == "language" and h in unsettled}
    known = {name for head, _, tail in stated for name in (head, tail)}
    unknown = {name for names in doubtful.values() for name in names} | {n for h, _, t in possible for n in (h, t)}
    assert unknown <= known, f"not in the graph: {unknown - known}"
    return World(kept), World(stated | possible)


@dataclass
class Run:
    """A program as it was run: every named set, and what tells whether the question is worth asking."""

    sets: list[Named]
    trivial: bool = False
    counted: list[str] = field(default_factory=list)

    @property
    def answers(self) -> list[str]:
        return sorted(self.sets[-1])


def run(world: World, program: Sequence[Sequence[str]], topics: Sequence[str]) -> Run:
    done = Run([{topic: [()]} for topic in topics])

    def named(name: str) -> Named:
        return done.sets[int(name.removeprefix("$")) - 1]

    for step in program:
        match step:
            case ["tail_entities", source, relation]:
                done.sets.append(_walk(world, named(source), relation, True))
            case ["head_entities", source, relation]:
                done.sets.append(_walk(world, named(source), relation, False))
            case ["intersect", left, right]:
                a, b = named(left), named(right)
                done.sets.append({name: a[name] + b[name] for name in sorted(a.keys() & b.keys())})
                done.trivial |= len(done.sets[-1]) in (len(a), len(b))
            case ["minus", left, right]:
                done.sets.append({name: walks for name, walks in named(left).items() if name not in named(right)})
                # Taking out the second topic itself may well change nothing.
                done.trivial |= len(done.sets[-1]) == len(named(left)) and right not in ("$1", "$2")
            case ["count", source]:
                done.counted = sorted(named(source))
                done.trivial |= len(done.counted) < 2
                done.sets.append({str(len(done.counted)): []})
            case ["argmax" | "argmin" as which, source, relation]:
                done.sets.append(_extreme(world, named(source), relation, which))
                done.trivial |= len(named(source)) < 3 or len(done.sets[-1]) != 1
            case ["filter", source, relation, sign, value]:
                done.sets.append(_filter(world, named(source), relation, sign, value))
                done.trivial |= len(done.sets[-1]) == len(named(source))
            case _:
                raise ValueError(f"no such step: {step}")
    return done


def _walk(world: World, source: Named, relation: str, out: bool) -> Named:
    edges = world.tails if out else world.heads
    result: Named = {}
    for entity, walks in source.items():
        for other in edges.get((entity, relation), []):
            edge = (entity, relation, other) if out else (other, relation, entity)
            result.setdefault(other, [(*walk, edge) for walk in walks])
    return result


def _extreme(world: World, source: Named, relation: str, which: str) -> Named:
    numbers = {name: number for name in source if (number := world.number(name, relation)) is not None}
    if not numbers:
        return {}
    best = (max if which == "argmax" else min)(numbers.values())
    return {name: source[name] for name, number in numbers.items() if number == best}


def _filter(world: World, source: Named, relation: str, sign: str, value: str) -> Named:
    holds = {">": operator.gt, "<": operator.lt}[sign]
    numbers = {name: number for name in source if (number := world.number(name, relation)) is not None}
    return {name: source[name] for name, number in numbers.items() if holds(number, float(value))}


def make_questions(facts: Iterable[Fact]) -> dict[str, list[Row]]:
    """The questions of each split. Those that walk the same way from the same topics come into the same one."""
    facts = list(facts)
    book = tomllib.loads(PATTERNS.read_text("utf-8"))
    maker = _Maker(World(facts), doubted(facts, book), _Words(book))
    splits: dict[str, list[Row]] = {"train": [], "dev": [], "test": []}
    split_of: dict[Key, str] = {}
    deal = cycle(DEAL)
    for pattern in book["pattern"]:
        for key, row in maker.of_pattern(pattern):
            split = split_of.get(key) or split_of.setdefault(key, next(deal))
            splits[split].append({"id": f"world-{split}-{len(splits[split]) + 1:03}", **row})
    return splits


class _Maker:
    """Makes the questions of one pattern after another, and remembers what has been asked."""

    def __init__(self, world: World, doubted: tuple[World, World], words: _Words) -> None:
        self.world, self.doubted, self.words = world, doubted, words
        self.edges: set[Fact] = set()  # of questions with one step and one answer: not asked the other way round
        self.texts: set[str] = set()

    def of_pattern(self, pattern: Row) -> list[tuple[Key, Row]]:
        chance = random.Random(f"{SEED} {pattern['name']}")
        wordings: list[str] = []
        given: Counter[tuple[str, ...]] = Counter()  # how often each answer was, and each of two topics
        often = max(2, pattern["take"] // 4)
        rows: dict[Key, Row] = {}
        walked = tuple((step[0], step[2]) for step in pattern["steps"] if step[0].endswith("_entities"))
        for topics in _topic_choices(self.world, pattern, chance):
            key = (tuple(sorted(topics)), walked)
            if len(rows) == pattern["take"]:
                break
            program = None if key in rows else self._fitting_program(pattern, topics, chance)
            if program is None:
                continue
            done = run(self.world, program, topics)
            edges = {edge for walks in done.sets[-1].values() for walk in walks for edge in walk}
            repeated = [tuple(done.answers), *((topic,) for topic in topics if len(topics) > 1)]
            if (len(edges) == 1 and edges <= self.edges) or any(given[what] >= often for what in repeated):
                continue
            wordings = wordings or chance.sample(pattern["wordings"], len(pattern["wordings"]))
            text = self.words.question(self.world, wordings[-1], pattern, topics, program, done)
            if text in self.texts:
                continue
            wordings.pop()
            self.texts.add(text)
            self.edges |= edges if len(edges) == 1 else set()
            given.update(repeated)
            rows[key] = _row(pattern, topics, program, done, text)
        if len(rows) < pattern["take"]:
            print(f"{pattern['name']}: only {len(rows)} of {pattern['take']} questions")
        return list(rows.items())

    def _fitting_program(self, pattern: Row, topics: list[str], chance: random.Random) -> list[list[str]] | None:
        """The pattern's steps, with a threshold that makes a good question if it needs one; None if there is none."""
        thresholds = [str(value) for value in pattern.get("thresholds", [])]
        for value in chance.sample(thresholds, len(thresholds)) or [""]:
            program = [[part.replace("{n}", value) for part in step] for step in pattern["steps"]]
            if self._worth_asking(pattern, topics, program):
                return program
        return None

    def _worth_asking(self, pattern: Row, topics: list[str], program: list[list[str]]) -> bool:
        done = run(self.world, program, topics)
        size = len(done.counted) if done.counted else len(done.answers)
        if done.trivial or not pattern.get("least", 1) <= size <= pattern.get("most", 15):
            return False
        if set(done.answers) & set(topics):  # "neighbours of neighbours": nobody means the country itself
            return False
        if pattern.get("owners", len(done.sets[1])) != len(done.sets[1]):
            return False
        return all(run(world, program, topics).answers == done.answers for world in self.doubted)


def _topic_choices(world: World, pattern: Row, chance: random.Random) -> Iterator[list[str]]:
    """Topics in a random order that favours the better known; pairs are drawn independently, so some come twice."""
    avoid = set(pattern.get("avoid", []))
    pools = [sorted(world.kinds[kind] - avoid) for kind in pattern["topics"]]
    if pattern.get("bare_names"):
        pools = [[name for name in pool if not set(",(") & set(name)] for pool in pools]
    weights = [[world.renown(name) for name in pool] for pool in pools]
    if len(pools) == 1:  # sampling without replacement: Efraimidis and Spirakis, 2006
        order = {name: chance.random() ** (1 / weight) for name, weight in zip(pools[0], weights[0], strict=True)}
        yield from ([name] for name in sorted(order, key=lambda name: -order[name]))
        return
    for _ in range(20_000):
        topics = [chance.choices(pool, weight)[0] for pool, weight in zip(pools, weights, strict=True)]
        if len(set(topics)) == len(topics):
            yield topics


def _row(pattern: Row, topics: list[str], program: list[list[str]], done: Run, text: str) -> Row:
    row: Row = {"question": text, "topic_entities": topics, "answers": done.answers}
    if done.counted:
        # The answer is a number, which no path leads to; what was counted is the evidence.
        members = [walks for named in done.sets for name, walks in named.items() if name in done.counted]
        edges = sorted({edge for walks in members for walk in walks for edge in walk})
        row |= {"hops": _hops(done), "gold_paths": None, "evidence": edges}
    else:
        paths = [walk for name in done.answers for walk in done.sets[-1][name]]
        row |= {"hops": _hops(done), "gold_paths": paths[:MOST_PATHS]}
    kind = {"answer_kind": "number"} if pattern["type"] == "count" else {}
    return row | {"type": pattern["type"]} | kind | {"pattern": pattern["name"], "program": program}


def _hops(done: Run) -> int:
    """The length of the longest walk; looking up a number to compare is no step of it."""
    return max(len(walk) for named in done.sets for walks in named.values() for walk in walks)


class _Words:
    """Puts a question into words."""

    def __init__(self, book: Row) -> None:
        self.with_article, self.territories = set(book["with_article"]), set(book["territories"])
        self.named_like_a_city = set(book["named_like_a_city"])

    def question(
        self, world: World, wording: str, pattern: Row, topics: list[str], program: list[list[str]], done: Run
    ) -> str:
        lower = wording.startswith("~")
        said = [self.said(name, kind, lower) for name, kind in zip(topics, pattern["topics"], strict=True)]
        values = [step[4] for step in program if step[0] == "filter"]
        walked = [[name for name in named if name in world.kinds["country"]] for named in done.sets[len(topics) :]]
        places = [names for names in walked if names] or [[]]
        text = wording.removeprefix("~").format(
            a=said[0],
            b=said[-1],
            n=_number(values[0]) if values else "",
            # The countries asked for are the last ones come to; the one country on the way to something is the first.
            countries="countries and territories" if self._any_territory(world, places[-1]) else "countries",
            country="country or territory" if self._any_territory(world, places[0]) else "country",
        )
        text = re.sub(r"s's\b", "s'", text)
        return text[0].upper() + text[1:] if text[0].isalpha() and not lower else text

    def _any_territory(self, world: World, names: list[str]) -> bool:
        return any(code in self.territories for name in names for code in world.tails[name, "iso_alpha2"])

    def said(self, name: str, kind: str, lower: bool) -> str:
        """A name as one says it in the middle of a sentence; short ones keep their capitals, to be known for names."""
        text = name.lower() if lower and len(name) > 4 else name
        if name.endswith(" (US state)"):
            return f"the {'us' if lower else 'US'} state of {text[: -len(' (US state)')]}"
        if name.endswith(" (city)"):
            return f"the city of {text[: -len(' (city)')]}"
        if kind == "us_state" and name in self.named_like_a_city:
            return f"{text} state"
        return f"the {text}" if name in self.with_article or kind in ("currency", "script") else text


def _number(value: str) -> str:
    """
    >>> _number("200000"), _number("5000000")
    ('200,000', '5 million')
    """
    number = int(value)
    return f"{number // 1_000_000} million" if number % 1_000_000 == 0 else f"{number:,}"
