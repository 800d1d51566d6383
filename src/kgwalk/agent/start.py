"""Where the walk of a question starts: the topics that are given, or those that are found in the question.

A question that names no entity of the graph is refused here, before a model is asked: a walk needs a place to start.
Knows no protocol by name, and no engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kgwalk.agent.link import Mention, link, nearest
from kgwalk.agent.link import topics as topics_of
from kgwalk.agent.linking.words import MOST_WORDS, is_long
from kgwalk.agent.protocol import Protocol
from kgwalk.kg.graph import Graph, with_nearest
from kgwalk.types import KgwalkError, UnknownEntity


@dataclass(frozen=True, slots=True)
class Start:
    """The entities that a walk starts from; `unsure` are parts of the question that may mean another entity."""

    topics: list[str]
    unsure: list[Mention] = field(default_factory=list)


class NoTopic(UnknownEntity):
    """A question that names no entity of the graph; `nearest` holds names that have a word like one of its words.
    `read` is how many of its words were looked at, where it has more.
    """

    def __init__(
        self, question: str, nearest: Sequence[str] = (), *, where: str = "the graph", read: int | None = None
    ) -> None:
        super().__init__(question, nearest, where=where)
        near = f" Nearest to its words: {', '.join(map(repr, self.nearest))}." if self.nearest else ""
        what = (
            "the question names" if read is None else f"of the question the first {read:,} words are read, which name"
        )
        self.args = (
            f"{what} no entity of {where}, so there is nowhere to start from.{near} "
            "Name one in it as the graph writes it, "
            'or give it as a topic to start from (`--topic`, or "topics" over HTTP)',
        )


def start_of(
    question: str, graph: Graph, given: Sequence[str] | None = None, *, protocol: Protocol, web: bool = False
) -> Start:
    """Where to start; `given` topics are taken as they are, none of them too. `web`: there is one to search.

    NoTopic where nothing is found and the protocol needs a place to start: it reads the graph, and has no web search
    to find one by.
    """
    if not question.strip():
        raise KgwalkError("the question is empty")
    if given is not None:
        return Start(list(dict.fromkeys(_known(name, graph) for name in given)))
    mentions = link(question, graph)
    if not mentions and protocol.reads_graph and not (web and protocol.searches_web):
        raise NoTopic(question, nearest(question, graph), read=MOST_WORDS if is_long(question) else None)
    return Start(topics_of(mentions), [mention for mention in mentions if not mention.sure])


def _known(name: str, graph: Graph) -> str:
    """The entity of this name, or of the name that is the same but for case, accents and punctuation."""
    if not name.strip():
        raise KgwalkError("a topic is empty; leave it out, and entities are found in the question")
    if name in graph:
        return name
    found = graph.find(name, 1)
    if found and found[0].how != "fuzzy":
        return found[0].name
    raise with_nearest(graph, UnknownEntity(name))
