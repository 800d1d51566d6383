"""GET /kg/suggest: what the end of a half-typed question may become: entities, kinds, and example questions.

    /kg/suggest?q=who directed the films tom ha    {"entities": [{"name": "Tom Hanks", "replaces": "tom ha"}], ...}

Of each graph the names mentioned most are put in order once, by every word that they begin with; all other names are
reached by their spelling. Example questions are made from the graph in the background, in a few seconds and once; those
of the bundled world come with it. A graph that is not a store on this machine gives no names to complete.
"""

# Without `from __future__ import annotations`: only then does a TypedDict know which of its fields are required.
import asyncio
import logging
import random
import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import Annotated, NotRequired, TypedDict
from weakref import WeakKeyDictionary

import numpy as np
import orjson

from kgwalk.kg.graph import Graph
from kgwalk.kg.names import normalise
from kgwalk.kg.store import StoredGraph
from kgwalk.serve.agent import refusing
from kgwalk.serve.asgi import HttpReply
from kgwalk.serve.graphs import ServedGraphs
from kgwalk.serve.reading import QueryStringReader, given
from kgwalk.serve.shapes import MAX_SUGGEST, About, GraphName
from kgwalk.types import KgwalkError

log = logging.getLogger("kgwalk.serve")

MOST_NAMES = 50_000  # of a graph, the most mentioned, that are completed by their first letters
MOST_WORDS = 5  # at the end of the text that may be a name
LONGEST_NAME = 80  # characters; longer ones are texts
LEAST_LETTERS = 2
LEAST_NEAR = 4  # letters from which on a name is also found by its spelling
NEAR = 0.7  # the score of a name that is near enough
SHOWN = 6
LATER_WORD = 4  # a name that is met by a later word counts as mentioned so many times less
EXAMPLES = 60
MOST_FACTS = 3_000_000  # of a graph that examples are made from: larger ones would be read for long
EXAMPLE_SECONDS = 3.0
SHORT = 60  # characters of an example that is shown before longer ones
# What agents answer well, and people ask.
PATTERNS = {"chain": 0.4, "intersection": 0.12, "count": 0.12, "superlative": 0.12, "verdict": 0.12, "kind": 0.12}


class SuggestQuery(TypedDict):
    q: NotRequired[Annotated[str | None, About("what is typed so far")]]
    graph: NotRequired[GraphName]
    limit: NotRequired[Annotated[int | None, About("most of each; 6 unless given", least=1, most=MAX_SUGGEST)]]


class SuggestedName(TypedDict):
    name: str
    replaces: Annotated[str, About("the end of the text that the name stands for")]


class Suggestions(TypedDict):
    entities: list[SuggestedName]
    kinds: Annotated[list[SuggestedName], About("of things in the graph: a question may be about all of a kind")]
    questions: Annotated[list[str], About("examples made from the graph that fit the text; some of all without one")]
    ready: Annotated[bool, About("false while the examples are still being made")]


class SuggestRoute:
    def __init__(self, graphs: ServedGraphs) -> None:
        self._graphs = graphs
        self._names: WeakKeyDictionary[Graph, asyncio.Task[NameIndex]] = WeakKeyDictionary()
        self._examples: WeakKeyDictionary[Graph, asyncio.Task[list[str]]] = WeakKeyDictionary()

    async def __call__(self, query: bytes, deadline: float) -> HttpReply:
        asked = refusing(lambda: read_suggest(query))
        graph = refusing(lambda: self._graphs.graph(asked.get("graph")))
        text, limit = given(asked.get("q"), ""), given(asked.get("limit"), SHOWN)
        if graph not in self._names:
            self._names[graph] = asyncio.create_task(asyncio.to_thread(NameIndex, graph))
            self._examples[graph] = asyncio.create_task(asyncio.to_thread(example_questions, graph))
        examples = self._examples[graph]
        names = await asyncio.shield(self._names[graph])
        entities, kinds = await asyncio.to_thread(names.complete, text, limit)
        found: Suggestions = {
            "entities": entities,
            "kinds": kinds,
            "questions": fitting(examples.result(), text, limit) if examples.done() else [],
            "ready": examples.done(),
        }
        return HttpReply(200, orjson.dumps(found))


read_suggest = QueryStringReader(SuggestQuery)


class NameIndex:
    """The names of a graph by the words in them: what begins so, the most mentioned first."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._listed: list[str] = []
        kinds: list[str] = []
        if isinstance(graph, StoredGraph):
            from kgwalk.walk.kinds import kinds_of
            from kgwalk.walk.question_words import plural_name
            from kgwalk.walk.values import value_of

            names = graph.store.entity.several(graph.live_entities()[:MOST_NAMES])
            self._listed = [name for name in names if len(name) <= LONGEST_NAME and value_of(name) is None]
            kinds = [plural_name(kind.name) for kind in kinds_of(graph).values()]
        keyed = sorted(
            (key, place if first else place * LATER_WORD, place)
            for place, name in enumerate(self._listed)
            for key, first in _word_starts(name)
        )
        self._keys = [key for key, _, _ in keyed]
        self._rank_K = np.array([rank for _, rank, _ in keyed], np.int64)
        self._place_K = np.array([place for _, _, place in keyed], np.int64)
        self._kinds = sorted((normalise(name), name) for name in kinds)

    def complete(self, text: str, limit: int) -> tuple[list[SuggestedName], list[SuggestedName]]:
        """Entities and kinds that the end of the text may mean."""
        return self._entities(text, limit), self._kinds_like(text, limit)

    def _entities(self, text: str, limit: int) -> list[SuggestedName]:
        found: dict[str, str] = {}
        ends = _ends(text)
        for end in ends:  # the longest first: "tom ha" before "ha"
            for name in self._begun(normalise(end), limit):
                found.setdefault(name, end)
            if len(found) >= limit:
                break
        if not found:
            near = [(one.score, one.name, end) for end in _misspelt(ends) for one in self._graph.find(end, limit)]
            found = {name: end for score, name, end in sorted(near, reverse=True) if score >= NEAR}
        return [{"name": name, "replaces": end} for name, end in list(found.items())[:limit]]

    def _begun(self, prefix: str, limit: int) -> list[str]:
        low = bisect_left(self._keys, prefix)
        high = bisect_left(self._keys, prefix + "\U0010ffff")
        rank = self._rank_K[low:high]
        most = 3 * limit  # a name may be there by several of its words
        best = np.argpartition(rank, most)[:most] if len(rank) > most else np.arange(len(rank))
        order = best[np.argsort(rank[best], kind="stable")]
        names = dict.fromkeys(self._listed[place] for place in self._place_K[low + order].tolist())
        return sorted(names, key=lambda name: normalise(name) != prefix)[:limit]  # stable: by mentions

    def _kinds_like(self, text: str, limit: int) -> list[SuggestedName]:
        found: dict[str, str] = {}
        for end in _ends(text)[-2:]:
            plain = normalise(end)
            for key, name in self._kinds:
                if key.startswith(plain):
                    found.setdefault(name, end)
        return [{"name": name, "replaces": end} for name, end in list(found.items())[:limit]]


def _word_starts(name: str) -> list[tuple[str, bool]]:
    """A name from each of its words on, and whether that is its first.

    >>> _word_starts("Tom Hanks")
    [('tom hanks', True), ('hanks', False)]
    """
    words = normalise(name).split()
    return [(" ".join(words[at:]), at == 0) for at in range(min(len(words), MOST_WORDS))]


def _ends(text: str) -> list[str]:
    """The last words of a text, as many as may be a name, the longest end first.

    >>> _ends("who directed Tom Ha")
    ['who directed Tom Ha', 'directed Tom Ha', 'Tom Ha', 'Ha']
    >>> _ends("what is the")
    ['what is the', 'is the']
    """
    from kgwalk.walk.question_words import FUNCTION_WORDS

    starts = [word.start() for word in re.finditer(r"\S+", text)][-MOST_WORDS:]
    ends = [text[start:] for start in starts]
    return [end for end in ends if len(normalise(end)) >= LEAST_LETTERS and normalise(end) not in FUNCTION_WORDS]


def _misspelt(ends: Sequence[str]) -> list[str]:
    """The ends that may be a name spelt otherwise: the last word, or the last two, if they say something.

    >>> _misspelt(["what is the capital", "is the capital", "the capital", "capital"]), _misspelt(["capital of"])
    (['capital'], [])
    """
    from kgwalk.walk.question_words import FUNCTION_WORDS

    if not ends or len(ends[-1].split()[-1]) < LEAST_NEAR:
        return []
    return [end for end in ends[-2:] if len(end.split()) <= 2 and normalise(end.split()[0]) not in FUNCTION_WORDS]


def fitting(questions: Sequence[str], text: str, limit: int) -> list[str]:
    """The questions that go on as the text begins, then those that have all its words; some of all for no text.

    >>> asked = ["who directed Big?", "which films did Tom Hanks star in?", "who starred in Big?"]
    >>> fitting(asked, "who star", 5), fitting(asked, "big", 5)
    (['who starred in Big?'], ['who directed Big?', 'who starred in Big?'])
    """
    plain = normalise(text)
    if not plain:
        return list(questions[:limit])
    words = [f" {word}" for word in plain.split()]
    spaced = [(f" {normalise(question)}", question) for question in questions]
    begun = [question for key, question in spaced if key.startswith(f" {plain}")]
    others = [question for key, question in spaced if all(word in key for word in words)]
    return list(dict.fromkeys([*begun, *others]))[:limit]


# Example questions


def example_questions(graph: Graph) -> list[str]:
    """Questions that the graph can answer, in an order that shows different kinds first."""
    if not isinstance(graph, StoredGraph) or graph.info()["triples"] > MOST_FACTS:
        return []
    try:
        found = _of_the_world() if _is_world(graph) else _made(graph)
    except KgwalkError as error:  # a graph of which nothing can be asked
        log.warning("no example questions: %s", error)
        return []
    by_kind: dict[str | None, list[str]] = {}
    for kind, question in sorted(found, key=lambda one: len(one[1]) > SHORT):
        by_kind.setdefault(kind, []).append(question)
    rounds = max(map(len, by_kind.values()), default=0)
    return [own[at] for at in range(rounds) for own in by_kind.values() if at < len(own)][:EXAMPLES]


def _is_world(graph: StoredGraph) -> bool:
    from kgwalk.data.bundled import world_path

    return world_path().resolve() == graph.store.folder.path.resolve()


def _of_the_world() -> list[tuple[str | None, str]]:
    from kgwalk.data.bundled import world_questions

    found = [one for one in world_questions("dev") if one.question[:1].isupper() and one.answers]
    random.Random(3).shuffle(found)
    return [(one.type, one.question) for one in found]


def _made(graph: StoredGraph) -> list[tuple[str | None, str]]:
    from kgwalk.questions.make import make_questions
    from kgwalk.questions.plan import MakeSettings
    from kgwalk.questions.schema import survey, types_of
    from kgwalk.questions.wording.name_lexicon import NameLexicon
    from kgwalk.questions.wording.speaker import Wording

    schema = survey(graph)
    wording = Wording(NameLexicon(schema, types=types_of(graph, schema)))
    settings = MakeSettings(count=EXAMPLES, language="full", patterns=PATTERNS, hops={1: 0.6, 2: 0.4})
    made = make_questions(graph, wording, settings, schema=schema, seconds=EXAMPLE_SECONDS)
    return [(one.type, one.question[:1].upper() + one.question[1:]) for one in made if one.answers]
