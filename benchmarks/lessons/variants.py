"""Variants of a lesson: the graph under other names, its questions drawn anew, each walk run over it.

    with built(lesson) as graph:                                  # as `kgwalk kg build` makes it of the raw files
        facts, renamed = variant_of(lesson, graph, chance)        # breads -> bakery_items, price -> unit_price
        made = questions_of(lesson, facts, renamed, chance, ...)  # datasets' questions, with programs

An agent that has seen a column under one name only has learnt the name. Starts are what linking really finds in the
text, where it finds all that the walk needs; so what it finds too much is in the lessons as well.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from benchmarks.lessons.lesson import NOT_THERE, Ask, Drawn, Lesson
from benchmarks.users.run import build

from kgwalk.data.dataset import GRAPH_ID
from kgwalk.demos.route import kind_calls, program_of, sets_named, with_asked, with_numbers
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.questions.invented.facts import store_of
from kgwalk.questions.wording.speaker import add_noise
from kgwalk.systems.kgwalk.protocol import MOST_LISTED, Kgwalk, run_program
from kgwalk.types import Call, Episode, KgwalkError, Question, Triple
from kgwalk.walk.kinds import Kind, kind_named
from kgwalk.walk.paths import SIGNS
from kgwalk.walk.starts import NoTopic, kinds_beside, start_of

TRIES = 12  # drawings of an entry until one has an answer
AS_IT_IS = 0.3  # the share of names that a variant keeps
SMALL_TALK = 2  # sayings that ask nothing of the graph, for each question of an entry
LOWER, NOISY, NOISE = 0.5, 0.1, 0.08  # shares of texts in lower case, of those with typos, and of words with one


@contextmanager
def built(lesson: Lesson) -> Iterator[StoredGraph]:
    """The graph of the raw files, built as a user would."""
    with tempfile.TemporaryDirectory(prefix="kgwalk-lesson-") as made:
        build(lesson, Path(made) / "graph.kg")
        yield open_graph(Path(made) / "graph.kg")


@dataclass(frozen=True)
class Renamed:
    """What relations and kinds are called in a variant."""

    names: Mapping[str, str]

    def name(self, text: str) -> str:
        """A kind, or a row that is shown by its table's name and a number."""
        if text in self.names:
            return self.names[text]
        table, _, number = text.rpartition(" ")
        return f"{self.names[table]} {number}" if number.isdecimal() and table in self.names else text

    def expression(self, text: str) -> str:
        """A relation, path or value with its relations renamed.

        >>> Renamed({"price": "cost"}).expression("count(^price in $2)")
        'count(^cost in $2)'
        """
        if text in self.names or SIGNS.search(text) is None:
            return self.names.get(text, text)
        longest = sorted(self.names, key=len, reverse=True)
        pattern = re.compile("|".join(rf"(?<![\w]){re.escape(name)}(?![\w])" for name in longest))
        return pattern.sub(lambda found: self.names[found[0]], text) if longest else text

    def call(self, call: Call) -> Call:
        """The call over the variant. Values stay: only places of relations are renamed."""
        places = range(1, len(call.args)) if call.tool == "table" else [1]
        args = [self.expression(a) if at in places and isinstance(a, str) else a for at, a in enumerate(call.args)]
        if call.tool == "filter" and isinstance(args[3], str) and args[3].split("/")[0] in self.names:
            args[3] = self.expression(args[3])  # wider than tall: another value of the member
        return Call(call.tool, tuple(args))


def variant_of(lesson: Lesson, graph: StoredGraph, chance: random.Random) -> tuple[list[Triple], Renamed]:
    """The facts under names that are drawn anew; no two that differ get the same."""
    taken = set(lesson.names) | {fact.relation for fact in graph.match()}
    chosen = {fact.relation: fact.relation for fact in graph.match()}  # all: `award received` is no `award`
    for name, others in lesson.names.items():
        free = [other for other in others if other not in taken]
        if free and chance.random() >= AS_IT_IS:
            chosen[name] = chance.choice(free)
            taken.add(chosen[name])
    renamed = Renamed(chosen)
    entities = {fact.tail for fact in graph.match()} | {fact.head for fact in graph.match()}
    kinds = {name for name in chosen if name in entities and name in lesson.names}
    of_things = Renamed({name: chosen[name] for name in kinds})
    facts = [
        Triple(of_things.name(head), chosen.get(relation, relation), of_things.name(tail), time)
        for head, relation, tail, time in graph.match()
    ]
    return facts, renamed


def questions_of(
    lesson: Lesson, key: str, facts: Sequence[Triple], renamed: Renamed, chance: random.Random, each: int
) -> list[Question]:
    """Of every entry `each` questions, with other texts and fillings as far as there are."""
    made: list[Question] = []
    with tempfile.TemporaryDirectory(prefix="kgwalk-lesson-") as folder:
        graph = store_of(list(facts), Path(folder))
        for at, ask in enumerate(lesson.asks):
            texts = chance.sample(ask.texts, min(each, len(ask.texts)))
            for number, text in enumerate(texts):
                drawn = answered(ask, graph, renamed, chance, text)
                if drawn is not None:
                    question, walked = drawn
                    made.append(_question(f"{key}-{at}-{number}", key, question, walked, graph, chance))
        for number, text in enumerate(chance.sample(small_talk(), SMALL_TALK * each)):
            said = Drawn(text, NOT_THERE, (), (), ())
            made.append(_question(f"{key}-talk-{number}", key, said, None, graph, chance))
    return made


@cache
def small_talk() -> list[str]:
    """What people say to whatever answers, and no graph does."""
    return (Path(__file__).parent / "small_talk.txt").read_text(encoding="utf-8").splitlines()


def answered(
    ask: Ask, graph: StoredGraph, renamed: Renamed, chance: random.Random, text: str | None = None
) -> tuple[Drawn, Episode | None] | None:
    """A drawing with what its walk answers over the graph; None if none of some drawings has an answer."""
    for _ in range(TRIES):
        drawn = ask.drawn(chance, text)
        drawn = Drawn(
            drawn.text,
            drawn.shape,
            tuple(map(renamed.name, drawn.entities)),
            tuple(map(renamed.name, drawn.kinds)),
            tuple(map(renamed.call, drawn.calls)),
        )
        if not ask.answered:
            return drawn, None
        walked = walk(drawn, graph)
        if walked.answers or ask.empty:
            return drawn, walked
    return None


def walk(drawn: Drawn, graph: StoredGraph) -> Episode:
    """The walk, run; an error names what the graph lacks."""
    for name in drawn.entities:
        if name not in graph:
            raise KgwalkError(f"the graph has no {name!r}")
    return run_program(drawn.calls, graph, drawn.entities, kinds_named(drawn.kinds, graph))


def kinds_named(names: Sequence[str], graph: StoredGraph) -> list[Kind]:
    """The kinds of these names; an error for one that the graph has not."""
    found = {name: kind_named(name, graph) for name in names}
    if missing := [name for name, kind in found.items() if kind is None]:
        raise KgwalkError(f"the graph has no kind {missing[0]!r}")
    return [kind for kind in found.values() if kind is not None]


def _question(
    name: str, key: str, drawn: Drawn, walked: Episode | None, graph: StoredGraph, chance: random.Random
) -> Question:
    """The drawing as a dataset has it."""
    text = drawn.text.lower() if chance.random() < LOWER else drawn.text
    text = add_noise(text, NOISE, chance) if chance.random() < NOISY else text
    topics, kinds, calls = with_linked_starts(text, drawn, graph)
    extra: dict[str, object] = {GRAPH_ID: key, "program": program_of(calls), "kinds": kinds}
    answers: list[str] = []
    if walked is None:
        extra |= {"answer_kind": "none", "answerable": False}
    else:
        answers = walked.answers
        extra["answer_kind"] = walked.form.kind
        if walked.form.rows:
            extra |= {"rows": [list(row) for row in walked.form.rows]}
    return Question(name, text, list(topics), answers, type=drawn.shape, extra=extra)


def with_linked_starts(text: str, drawn: Drawn, graph: StoredGraph) -> tuple[list[str], list[str], tuple[Call, ...]]:
    """The starts that linking finds in the text and the walk from them. A kind that it does not find the walk asks for;
    where it does not find an entity, or there is no way to ask, the starts are the gold ones.

    Kinds are looked up again by name, so those whose names are ambiguous are left out.
    """
    try:
        topics = list(start_of(text, graph, protocol=_PROTOCOL).topics)
    except NoTopic:
        return list(drawn.entities), list(drawn.kinds), drawn.calls
    kinds = [kind.name for kind in kinds_beside(text, topics, graph) if kind_named(kind.name, graph) == kind]
    if drawn.shape == NOT_THERE or (not drawn.calls and [*topics, *kinds] == [*drawn.entities, *drawn.kinds]):
        return topics, kinds, drawn.calls
    asked = _asking_for_kinds(drawn, kinds, graph)
    if asked is None or not set(drawn.entities) <= set(topics):
        return list(drawn.entities), list(drawn.kinds), drawn.calls
    drawn = asked
    gold, wanted = [*drawn.entities, *drawn.kinds], kinds_named(drawn.kinds, graph)
    of_gold = [topics.index(name) + 1 for name in drawn.entities]
    of_gold += [len(topics) + kinds.index(kind.name) + 1 for kind in wanted]
    more = len(topics) + len(kinds) - len(gold)
    number = dict(enumerate(of_gold, 1)) | {
        at: at + more for at in range(len(gold) + 1, len(gold) + len(drawn.calls) + 1)
    }
    calls = tuple(with_numbers(call, {at: number[at] for at in sets_named(call)}) for call in drawn.calls)
    return topics, kinds, calls


def _asking_for_kinds(drawn: Drawn, found: Sequence[str], graph: StoredGraph) -> Drawn | None:
    """The drawing where each kind that was not found is asked for by its calls; None where one cannot be."""
    listed, kinds, calls = _PROTOCOL.kinds_listed(graph), list(drawn.kinds), list(drawn.calls)
    for kind in reversed(kinds_named(drawn.kinds, graph)):
        at = next(at for at, name in enumerate(kinds) if kind_named(name, graph) == kind)
        if kind.name in found and drawn.calls:
            continue
        asking = kind_calls(kind, listed, graph)
        if not asking:
            return None
        starts = len(drawn.entities) + len(kinds)
        calls = with_asked(calls, starts, len(drawn.entities) + at + 1, asking)
        del kinds[at]
    return replace(drawn, kinds=tuple(kinds), calls=tuple(calls))


_PROTOCOL = Kgwalk(language="full", kinds=MOST_LISTED)
