"""The nouns that every other package shares: triples, questions, turns, episodes, and the errors.

A walk is an `Episode` of `Turn`s. What the model wrote in a turn is read once, into a `Step`: a `Call` of a tool, an
`Answer`, or `Malformed`. `Episode.flatten` gives all tokens of a walk to a trainer. Every error with a message for a
person is a `KgwalkError`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Protocol


class Triple(NamedTuple):
    """One fact. `time` is "" for a fact without a date, else as the source wrote it: `2005-05`, `1990..1994`."""

    head: str
    relation: str
    tail: str
    time: str = ""


@dataclass(frozen=True, slots=True)
class Neighbors:
    """The entities one relation away; from a store, those first that its source mentions most.

    `total` counts the distinct entities there are; `names` may hold fewer (a limit was given).
    `times[i]` lists the dates of the facts that lead to `names[i]`; None where the graph has no time column.
    """

    names: list[str]
    total: int
    times: list[list[str]] | None = None

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def left_out(self) -> int:
        return self.total - len(self.names)


@dataclass(frozen=True, slots=True)
class Found:
    """One entity that `find` proposes for a text.

    `how` is "exact", "normalised" (same but for case, accents, underscores, punctuation) or "fuzzy";
    `score` is 1.0 for the first two and in (0, 1) for the third.
    """

    name: str
    score: float
    how: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A question with what is known about it; the folder format of the datasets has one a line."""

    id: str
    question: str
    topic_entities: list[str]
    answers: list[str]
    hops: int | None = None
    gold_paths: list[list[Triple]] | None = None
    evidence: list[Triple] | None = None
    type: str | None = None
    aliases: dict[str, list[str]] = field(default_factory=dict)  # of an answer: other names and ids it goes by
    extra: dict[str, object] = field(default_factory=dict)

    @property
    def needs_topic(self) -> bool:
        """Whether a walk needs an entity to start from: not if it starts from all of a kind, if its gold program asks
        for one, or if the graph is known not to say.
        """
        known = self.extra.get("kinds") or self.extra.get("program")
        return not known and self.extra.get("answer_kind") != "none"


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat; `role` is system, user or assistant."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Document:
    """What a web search found, or the part of it that was shown."""

    title: str
    text: str
    source: str = ""  # an address or file, for evidence


# What a model's turn says, as the protocol's parser reads it


@dataclass(frozen=True, slots=True)
class Call:
    """A tool is asked for. An argument is a name, or the number of a named set."""

    tool: str
    args: tuple[str | int, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """The walk ends with these names; a number stands for the members of a named set."""

    names: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """What an answer is beside its names. `kind` is as datasets' `answer_kind`: entity, number, time, boolean, table.

    `ordered`: the order of the names is part of the answer. `columns` and `rows` are a table's, names first.
    """

    kind: str = "entity"
    ordered: bool = False
    columns: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Malformed:
    """Neither a call nor an answer. `why` says what is wrong, in words the model can act on."""

    why: str


Step = Call | Answer | Malformed


class StopReason(StrEnum):
    """Why an episode ended. The last two are no fault of the model: such an episode is left out of every loss."""

    answered = "answered"
    turns = "turns"  # the turns were used up, the forced answer included
    tokens = "tokens"  # the context was full
    time = "time"
    prompt = "prompt"  # the prompt alone is longer than the context
    tool_failed = "tool_failed"
    engine_failed = "engine_failed"


@dataclass(slots=True)
class Turn:
    """What the model wrote (its own tokens, as they came) and what it was told after that."""

    ids: list[int]
    logprobs: list[float]
    text: str
    step: Step
    observation: str = ""
    observation_ids: list[int] = field(default_factory=list)
    ok: bool = True  # False: malformed, or the tool answered with an error
    error: str | None = None  # its kind
    shown: list[str] = field(default_factory=list)  # entities in the observation, after truncation
    counted: tuple[int, int] | None = None  # prompt and generated tokens, where the engine's server reports its own
    seconds: float = 0.0
    documents: list[Document] = field(default_factory=list)  # of a web search, as far as they were shown
    constraint: Constraint | None = None  # None: the model could write anything. Not written to files
    made: tuple[int, int] | None = None  # the number and the size of the set that the call made. Not written to files


class Constraint(NamedTuple):
    """What a turn could be: its grammar (`llm.grammar.Grammar`), and how many tokens it could have.

    With the turn's tokens these say which tokens were allowed at each place, so nothing more is kept.
    """

    grammar: Any
    room: int


@dataclass(frozen=True, slots=True)
class SecondLook:
    """A question was walked several times: of all `walks`, `agreed` gave the answer that was taken.

    The tokens are those of the walks that were not taken, so that a second look is paid for.
    """

    walks: int
    agreed: int
    prompt_tokens: int = 0
    generated_tokens: int = 0


class Flat(NamedTuple):
    """An episode as one sequence, for a trainer. `mask` is 1 on the engine's tokens, `turn_index` -1 elsewhere.

    `constraints` has, of each turn that was constrained, where its tokens begin and end, and by what.
    """

    ids: list[int]
    mask: list[int]
    logprobs: list[float]
    turn_index: list[int]
    constraints: Sequence[tuple[int, int, Constraint]] = ()


@dataclass(slots=True)
class Episode:
    """One walk from a question to an answer."""

    question: Question
    topics: list[str]
    prompt_ids: list[int]
    prompt: str
    turns: list[Turn] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    evidence: dict[str, list[Triple]] = field(default_factory=dict)
    stop: StopReason = StopReason.turns
    failure: str | None = None
    seconds: float = 0.0
    shown: list[str] = field(default_factory=list)  # entities of the facts that the prompt tells
    seen: list[Triple] = field(default_factory=list)  # every fact that the model was told, in order
    key: str = ""  # of the task that it belongs to
    form: AnswerForm = field(default_factory=AnswerForm)
    probability: float | None = None  # that the answer is right, where that was fitted (walk/confidence.py)
    looked: SecondLook | None = None

    @property
    def generated_tokens(self) -> int:
        return sum(len(turn.ids) for turn in self.turns)

    @property
    def total_tokens(self) -> int:
        return len(self.prompt_ids) + sum(len(turn.ids) + len(turn.observation_ids) for turn in self.turns)

    @property
    def confidence(self) -> float | None:
        """How sure the answer is: the fitted probability, else the likelihood, which says less."""
        return self.likelihood if self.probability is None else self.probability

    @property
    def likelihood(self) -> float | None:
        """The probability that the model gave to all that it wrote; None where the engine does not say.

        >>> turns = [Turn([7, 8], [-0.5, -0.25], "hi", Call("look")), Turn([9], [-1.0], "x", Answer(("x",)))]
        >>> round(Episode(Question("q", "?", [], []), [], [1, 2], "", turns).likelihood, 3)  # e ** -1.75
        0.174
        """
        if not self.generated_tokens or any(len(turn.logprobs) != len(turn.ids) for turn in self.turns):
            return None
        return math.exp(sum(value for turn in self.turns for value in turn.logprobs))

    @property
    def trainable(self) -> bool:
        """Whether the outcome is the model's own doing."""
        return self.stop not in (StopReason.tool_failed, StopReason.engine_failed, StopReason.prompt)

    def flatten(self) -> Flat:
        """All tokens in order, the model's own marked: the one bridge to every trainer.

        >>> turn = Turn([7, 8], [-0.5, -0.25], "hi", Call("look"), observation_ids=[3])
        >>> last = Turn([9], [-1.0], "x", Answer(("x",)))
        >>> episode = Episode(Question("q", "?", [], []), [], [1, 2], "", [turn, last])
        >>> episode.flatten()
        Flat(ids=[1, 2, 7, 8, 3, 9], mask=[0, 0, 1, 1, 0, 1], logprobs=[0.0, 0.0, -0.5, -0.25, 0.0, -1.0], \
turn_index=[-1, -1, 0, 0, -1, 1], constraints=[])
        """
        constraints: list[tuple[int, int, Constraint]] = []
        flat = Flat(list(self.prompt_ids), [0] * len(self.prompt_ids), [0.0] * len(self.prompt_ids), [], constraints)
        flat.turn_index.extend([-1] * len(self.prompt_ids))
        for index, turn in enumerate(self.turns):
            if turn.constraint is not None:
                constraints.append((len(flat.ids), len(flat.ids) + len(turn.ids), turn.constraint))
            for ids, mask, logprobs, number in (
                (turn.ids, 1, turn.logprobs, index),
                (turn.observation_ids, 0, [0.0] * len(turn.observation_ids), -1),
            ):
                flat.ids.extend(ids)
                flat.mask.extend([mask] * len(ids))
                flat.logprobs.extend(logprobs)
                flat.turn_index.extend([number] * len(ids))
        return flat

    def _repr_html_(self) -> str:
        """The walk as a notebook shows it."""
        return transcript_html(self)


def escaped(text: str) -> str:
    """Text as HTML and SVG show it: never markup, and without characters that are not shown or reorder others.

    >>> escaped('<img src=x onerror="alert(1)"> & \\x1b\\u202e')
    '&lt;img src=x onerror=&quot;alert(1)&quot;&gt; &amp; \ufffd\ufffd'
    """
    import html

    return html.escape(text.translate(_UNSEEN))


# control characters but tab and new line, marks of direction, halves of pairs: U+FFFD stands for each
_UNSEEN = dict.fromkeys(
    [*range(9), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\ufffd"
) | dict.fromkeys([*range(0xD800, 0xE000), 0xFFFE, 0xFFFF], "\ufffd")
_PRE = "white-space:pre-wrap;overflow-wrap:anywhere;margin:.2em 0"
_MASKED = f"{_PRE};opacity:.7"  # what the model was told: no loss is taken there


def transcript_html(episode: Episode, notes: Sequence[str] = (), longest: int = 4_000) -> str:
    """A walk as HTML that stands in any page: what the model was told is grey, `notes` stand beside its turns.

    Names and texts are escaped, and cut after so many characters.
    """

    def told(text: str, style: str, name: str) -> str:
        cut = f"... ({len(text) - longest:,} characters more)" if len(text) > longest else ""
        return f'<pre class="{name}" style="{style}">{escaped(text[:longest])}{cut}</pre>' if text else ""

    parts = [f"<p><b>{escaped(episode.question.question)}</b></p>"]
    if episode.prompt:
        prompt = told(episode.prompt, _MASKED, "kgwalk-masked")
        parts.append(f"<details><summary>the prompt, {len(episode.prompt_ids):,} tokens</summary>{prompt}</details>")
    for at, turn in enumerate(episode.turns):
        wrong = "" if turn.ok else f" · {escaped(turn.error or 'malformed')}"
        note = f" · {escaped(notes[at])}" if at < len(notes) else ""
        parts.append(f"<p style='margin:.6em 0 0'><small>turn {at + 1}{wrong}{note}</small></p>")
        parts.append(told(turn.text, _PRE, "kgwalk-own") + told(turn.observation, _MASKED, "kgwalk-masked"))
    answer = escaped(", ".join(episode.answers)) or "none"
    sure = "" if episode.confidence is None or not episode.answers else f" · confidence {episode.confidence:.2f}"
    why = "" if episode.failure is None else f" · {escaped(episode.failure)}"
    parts.append(f"<p>answer: <b>{answer}</b><small> · {escaped(episode.stop)}{sure}{why}</small></p>")
    return f'<div class="kgwalk-walk">{"".join(parts)}</div>'


class Progress(Protocol):
    """Told how far a piece of work is: `what` is done, so many of `total` (None: unknown), and `figures` so far."""

    def __call__(self, what: str, done: int, total: int | None, figures: Mapping[str, float] = {}, /) -> None: ...


def silent(what: str, done: int, total: int | None, figures: Mapping[str, float] = {}, /) -> None:
    """Progress that nobody watches."""


class KgwalkError(Exception):
    """An error with a message for a person: what, given what, do what. The command line prints it and exits 1."""


class InputError(KgwalkError):
    """A source that cannot be read as it is; names the file, the line, the text and what was expected."""

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        line: int | None = None,
        text: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.message, self.path, self.line, self.text = message, path, line, text
        where = f"{path}:{line}: " if path and line else f"{path}: " if path else ""
        shown = "" if text is None else f"\n  the line: {_shorten(text)}"
        advice = "" if hint is None else f"\n  {hint}"
        super().__init__(f"{where}{message}{shown}{advice}")


class StoreError(KgwalkError):
    """A store that cannot be opened or written: missing, truncated, corrupted, of another version, no space."""


class RemoteError(KgwalkError):
    """A graph or search engine on the network that gave no right answer, after the retries it was allowed.

    `kind` is the server's own word for what was wrong, where it is a kgwalk server that said so.
    """

    def __init__(self, message: str, *, kind: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind


class EngineError(KgwalkError):
    """A language model that did not answer, after the retries it was allowed; or a model that cannot be loaded."""


class UnknownName(KgwalkError):
    """An entity or relation that is not in the graph; `nearest` holds names that are."""

    kind = "name"

    def __init__(self, name: str, nearest: Sequence[str] = (), *, where: str = "the graph") -> None:
        self.name, self.nearest, self.where = name, list(nearest), where
        hint = f"; did you mean {_listed(self.nearest)}?" if self.nearest else ""
        super().__init__(f"{self.kind} {_shorten(name)!r} is not in {where}{hint}")


class UnknownEntity(UnknownName):
    kind = "entity"


class UnknownRelation(UnknownName):
    kind = "relation"


class UnknownQuestion(UnknownName):
    """A question id that no stored subgraph belongs to."""

    kind = "question"


def _shorten(text: str, limit: int = 200) -> str:
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text):,} characters)"


def _listed(names: Sequence[str]) -> str:
    quoted = [repr(_shorten(name, 60)) for name in names]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + " or " + quoted[-1]
