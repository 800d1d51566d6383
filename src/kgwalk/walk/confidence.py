"""How sure an answer is: the probability that it is right, fitted on walks whose right answers are known.

    model = read_confidence(folder)          # of an adapter; None where nothing was fitted
    model.probability(episode)               # 0.83: of walks like this one, so many were right

How likely a model finds its own walk says little about whether the walk fits the question: an agent is surest of the
short walks that it has seen most. So a logistic regression weighs it with a few things that anybody can see from
outside: does the question ask "how many" and the answer is no number, is "not" or "most" in it and no call says so,
was a topic never used, were there errors, do several walks agree. `seen_in` gives these figures, from an episode
alone. `fitted` makes the model, `kgwalk calibrate` from evaluations; its weights are kept in the adapter's
`kgwalk.json`, since another agent errs in other ways.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
from rapidfuzz import fuzz

from kgwalk.kg.names import normalise
from kgwalk.llm.embeddings import split_words
from kgwalk.llm.models import CARD
from kgwalk.types import Answer, Call, Episode, KgwalkError, StopReason
from kgwalk.walk.language import WITH_RELATION
from kgwalk.walk.question_words import FUNCTION_WORDS
from kgwalk.walk.sets import BOOLEAN, ENTITY, NUMBER, TABLE, TIME
from kgwalk.walk.values import value_of

KEY = "confidence"  # of an adapter's kgwalk.json
STEM = 5  # letters by which words are the same: border, borders, bordering
LEAST_DOUBT = 0.001  # of minus a log-likelihood, whose logarithm is taken: 0.99 and 0.999 differ as 0.9 and 0.99 do
RIDGE = 1.0  # how strongly weights are held near 0, in walks
STEPS = 100

F64 = npt.NDArray[np.float64]

# What a question's words ask for, and the calls that say it
_NOT = (
    r"\b(?:not|never|without|except|excluding|neither|nor|none|\w+n't|dont|doesnt|didnt|isnt|arent|other than|"
    r"apart from)\b"
)
_MOST = (
    r"\b(?:most|least|fewest|top|bottom|first|last|latest|earliest|best|worst|"
    r"\w{2,}(?<!w)(?<!ter)(?<!for)est)\b"
)
_NTH = r"\b(?:second|third|fourth|fifth|\d(?:nd|rd|th)|(?:top|first|last|bottom) (?:\d+|two|three|four|five|ten))\b"
_MORE = (
    r"\b(?:(?:more|less|fewer|other|later|earlier|\w+er) than|at least|at most|over \W?\d|under \W?\d|above \W?\d|"
    r"below \W?\d|before|after|since|between \W?\d|from \d+ to|up to \W?\d)"
)
CUES: tuple[tuple[str, re.Pattern[str], frozenset[str]], ...] = tuple(
    (name, re.compile(pattern, re.IGNORECASE), frozenset(calls.split()))
    for name, pattern, calls in (
        ("not", _NOT, "minus none only filter"),
        ("most", _MOST, "argmax argmin top bottom nth least greatest earliest latest before after"),
        ("nth", _NTH, "top bottom nth"),
        ("more", _MORE, "filter between before after compare count minus argmax argmin"),
        ("total", r"\b(?:average|mean|sum|total|altogether|combined)\b", "sum average subtract divide count"),
        ("both", r"\b(?:both|as well as|and also)\b", "intersect union every filter"),
        ("each", r"\b(?:each|per|for every|by (?:country|year|month|department))\b", "table top bottom argmax argmin"),
    )
)
_HOW_MANY = re.compile(r"\b(?:how (?:many|much|old|tall|long|far|big|large|heavy)|number of|count)\b", re.IGNORECASE)
_WHEN = re.compile(r"\b(?:when|(?:what|which) (?:year|date|day|month)|how recently)\b", re.IGNORECASE)
_WHETHER = re.compile(
    r"\s*(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should) (?!you\b)(?!.*\bor\b)", re.IGNORECASE
)
_WHO = re.compile(r"\b(?:who|whom|whose|where|which)\b", re.IGNORECASE)


def seen_in(episode: Episode) -> dict[str, float]:
    """The figures of a walk that its probability depends on; none where the engine does not say how likely its tokens
    were.

    >>> from kgwalk.types import Question, Turn
    >>> call = Turn([7], [-0.5], "", Call("tail_entities", (1, "capital")))
    >>> end = Turn([8], [-0.1], "", Answer((2,)))
    >>> asked = Question("q", "how many people live in Paris", [], [])
    >>> figures = seen_in(Episode(asked, ["Paris"], [], "", [call, end], ["Rome"]))
    >>> round(figures["doubt"], 2), figures["other_kind"], figures["unused"]  # ln 0.601; Rome is no number
    (-0.51, 1.0, 0.0)
    """
    if episode.likelihood is None:
        return {}
    asked, calls = episode.question.question, _calls(episode)
    tokens = [value for turn in episode.turns for value in turn.logprobs]
    wanted, given = kind_asked(asked), kind_given(episode)
    words = _walked_words(episode, calls)
    used = [call.tool for call in calls]
    cues = [not calls_for.isdisjoint(used) for _, cue, calls_for in CUES if _meant(cue, asked, words)]
    topics = _topics(episode)
    several = episode.looked is not None
    return {
        "doubt": math.log(LEAST_DOUBT + max(0.0, -sum(tokens))),
        "worst_token": math.log(LEAST_DOUBT + max(0.0, -min(tokens))),
        "answered": float(episode.stop is StopReason.answered),
        "errors": math.log1p(sum(not turn.ok for turn in episode.turns)),
        "calls": math.log1p(len(calls)),
        "empty": float(not episode.answers),
        "size": math.log1p(len(episode.answers)),
        "right_kind": float(wanted is not None and wanted == given),
        "other_kind": float(wanted is not None and wanted != given),
        "said": float(sum(cues)),
        "unsaid": float(len(cues) - sum(cues)),
        "words_left": _left(asked, words),
        "strange_relation": _strange(asked, calls),
        "linking": min((_named(topic, asked) for topic in topics), default=1.0),
        "topics": math.log1p(len(topics)),
        "unused": float(_unused(episode, calls)),
        "echo": float(bool(episode.answers) and set(episode.answers) <= set(topics)),
        "several": float(several),
        "agreement": 0.0 if episode.looked is None else episode.looked.agreed / episode.looked.walks - 0.5,
    }


def kind_asked(question: str) -> str | None:
    """What kind of answer the words ask for; None where they leave it open.

    >>> kind_asked("how many films are there"), kind_asked("is Oslo in Norway"), kind_asked("who directed Big")
    ('number', 'boolean', 'entity')
    """
    if _HOW_MANY.search(question):
        return NUMBER
    if _WHEN.search(question):
        return TIME
    if _WHETHER.match(question):
        return BOOLEAN
    return ENTITY if _WHO.search(question) else None


def kind_given(episode: Episode) -> str:
    """The kind of the answer: as the walk says, else as its first name reads. A table is of things; a year may be meant
    as a time.
    """
    if episode.form.kind != ENTITY or not episode.answers:
        kind = ENTITY if episode.form.kind == TABLE else episode.form.kind
    else:
        value = value_of(episode.answers[0])
        kind = ENTITY if value is None else TIME if value.date else NUMBER
    if kind == NUMBER and kind_asked(episode.question.question) == TIME:
        return TIME
    return kind


def _calls(episode: Episode) -> list[Call]:
    return [turn.step for turn in episode.turns if isinstance(turn.step, Call)]


def _words(text: str) -> list[str]:
    return [word[:STEM] for word in normalise(split_words(text)).split()]


def _walked_words(episode: Episode, calls: Sequence[Call]) -> set[str]:
    """Every word of the topics and of what was called."""
    names = [arg for call in calls for arg in call.args if isinstance(arg, str)]
    return {word for name in (*episode.topics, *names) for word in _words(name)}


def _meant(cue: re.Pattern[str], asked: str, words: set[str]) -> bool:
    """Whether the cue stands in the question, and not as a part of a name: `highest_point` is a relation."""
    return any(not set(_words(found[0])) & words for found in cue.finditer(asked))


def _left(asked: str, words: set[str]) -> float:
    """The share of the question's own words that the walk took up in no topic and no call."""
    own = {word[:STEM] for word in normalise(asked).split() if word not in FUNCTION_WORDS}
    return len(own - words) / len(own) if own else 0.0


def _strange(asked: str, calls: Sequence[Call]) -> float:
    """Of the relation that fits the question least, the share of its words that are not in the question."""
    own = set(_words(asked))
    shares = []
    for call in calls:
        if call.tool in WITH_RELATION and len(call.args) > 1 and isinstance(call.args[1], str):
            words = set(_words(call.args[1]))
            shares.append(len(words - own) / len(words) if words else 0.0)
    return max(shares, default=0.0)


def _named(topic: str, asked: str) -> float:
    """How much of a topic's name stands in the question, from 0 to 1."""
    return fuzz.partial_ratio(normalise(topic), normalise(asked)) / 100


def _topics(episode: Episode) -> list[str]:
    return list(dict.fromkeys(episode.topics))


def _unused(episode: Episode, calls: Sequence[Call]) -> int:
    """How many topics no call and no answer refers to."""
    answers = [turn.step for turn in episode.turns if isinstance(turn.step, Answer)]
    named = {arg for call in calls for arg in call.args} | {name for answer in answers for name in answer.names}
    return sum(at not in named and topic not in named for at, topic in enumerate(_topics(episode), 1))


# The model


@dataclass(frozen=True)
class Confidence:
    """A logistic regression: weights of the figures, each less its mean and divided by its spread.

    `about` says what it was fitted on and how right it was on graphs left out: `questions`, `graphs`, `ece`, `auroc`.
    """

    weights: Mapping[str, float]
    means: Mapping[str, float]
    spreads: Mapping[str, float]
    intercept: float
    about: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def _order(self) -> list[str]:
        return list(self.weights)

    def probability(self, episode: Episode) -> float | None:
        """How likely the answer is right; None where the engine does not say how likely its tokens were."""
        figures = seen_in(episode)
        return self.of_figures(figures) if figures else None

    def of_figures(self, figures: Mapping[str, float]) -> float:
        """
        >>> model = Confidence({"errors": -1.0}, {"errors": 0.5}, {"errors": 0.5}, 2.0)
        >>> [round(model.of_figures({"errors": each}), 3) for each in (0.5, 1.5)]  # e**2 / (1 + e**2) and a half
        [0.881, 0.5]
        """
        parts = ((figures.get(name, 0.0) - self.means[name]) / self.spreads[name] for name in self._order)
        total = self.intercept + sum(part * self.weights[name] for part, name in zip(parts, self._order, strict=True))
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))

    def as_json(self) -> dict[str, Any]:
        return {
            "about": dict(self.about),
            "intercept": round(self.intercept, 5),
            "figures": {
                name: [round(value, 5) for value in (self.weights[name], self.means[name], self.spreads[name])]
                for name in self._order
            },
        }


def fitted(figures: Sequence[Mapping[str, float]], right: Sequence[bool], about: Mapping[str, Any] = {}) -> Confidence:
    """The regression that fits these walks best, by Newton's method; weights are held near 0 by a ridge.

    Of walks with an error a fourth is right, of those without three fourths:

    >>> walks = [{"errors": 1.0}] * 400 + [{"errors": 0.0}] * 400
    >>> model = fitted(walks, ([True] * 100 + [False] * 300) + ([True] * 300 + [False] * 100))
    >>> round(model.of_figures({"errors": 1.0}), 2), round(model.of_figures({"errors": 0.0}), 2)
    (0.25, 0.75)
    """
    names = sorted({name for one in figures for name in one})
    raw_NF = np.array([[one.get(name, 0.0) for name in names] for one in figures])
    mean_F, spread_F = raw_NF.mean(axis=0), raw_NF.std(axis=0)
    spread_F = np.where(spread_F > 1e-9, spread_F, 1.0)
    x_NF = np.hstack([(raw_NF - mean_F) / spread_F, np.ones((len(figures), 1))])
    y_N = np.asarray(right, np.float64)
    ridge_F = np.array([RIDGE] * len(names) + [1e-6])  # the share of right walks is not held back
    weight_F: F64 = np.zeros(len(names) + 1)
    for _ in range(STEPS):
        p_N = 1 / (1 + np.exp(-np.clip(x_NF @ weight_F, -30, 30)))
        gradient_F = x_NF.T @ (y_N - p_N) - ridge_F * weight_F
        curve_FF = (x_NF * (p_N * (1 - p_N))[:, None]).T @ x_NF + np.diag(ridge_F)
        step_F = np.linalg.solve(curve_FF, gradient_F)
        weight_F += step_F
        if np.abs(step_F).max() < 1e-8:
            break
    columns = [dict(zip(names, values.tolist(), strict=True)) for values in (weight_F[:-1], mean_F, spread_F)]
    return Confidence(columns[0], columns[1], columns[2], float(weight_F[-1]), about)


# Beside the adapter


def read_confidence(folder: str | Path | None) -> Confidence | None:
    """What was fitted for an adapter; None without an adapter, or where nothing was."""
    card = None if folder is None else Path(folder) / CARD
    found = _card(card).get(KEY) if card is not None and card.is_file() else None
    if found is None:
        return None
    try:
        each = {str(name): tuple(map(float, values)) for name, values in found["figures"].items()}
        weights, means, spreads = ({name: values[at] for name, values in each.items()} for at in range(3))
        return Confidence(weights, means, spreads, float(found["intercept"]), dict(found.get("about", {})))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise KgwalkError(f"{card}: its `{KEY}` is damaged; fit it again with `kgwalk calibrate`") from error


def write_confidence(folder: str | Path, model: Confidence) -> Path:
    """Keep a fitted model in the adapter's kgwalk.json, in place of the one before."""
    card = Path(folder) / CARD
    known = _card(card) if card.is_file() else {}
    partial = card.with_name(f".{card.name}.partial")
    partial.write_bytes(orjson.dumps(known | {KEY: model.as_json()}, option=orjson.OPT_INDENT_2) + b"\n")
    partial.replace(card)
    return card


def _card(file: Path) -> dict[str, Any]:
    try:
        found = orjson.loads(file.read_bytes())
    except orjson.JSONDecodeError as error:
        raise KgwalkError(f"{file} is no JSON: {error}") from error
    return found if isinstance(found, dict) else {}


# Which of several walks


def answer_key(episode: Episode) -> frozenset[str]:
    """What walks agree on: the same names, whatever their order and writing."""
    return frozenset(normalise(name) for name in episode.answers)


def best_of(episodes: Sequence[Episode], model: Confidence | None) -> tuple[int, int]:
    """The place of the walk to believe, and how many of all gave its answer.

    Walks with the same answer add up their probabilities; among those of the best answer the likeliest is taken. So
    three walks that are half sure of one answer outweigh one that is surer of another.
    """
    chances = [_chance(episode, model) for episode in episodes]
    keys = [(episode.stop is StopReason.answered, answer_key(episode)) for episode in episodes]
    totals: dict[tuple[bool, frozenset[str]], float] = {}
    for key, chance in zip(keys, chances, strict=True):
        totals[key] = totals.get(key, 0.0) + chance
    best = max(range(len(episodes)), key=lambda at: (totals[keys[at]], chances[at], -at))
    return best, keys.count(keys[best])


def _chance(episode: Episode, model: Confidence | None) -> float:
    """The likelihood stands in where nothing was fitted; a walk without an answer has none."""
    if episode.stop is not StopReason.answered:
        return 0.0
    found = episode.likelihood if model is None else model.probability(episode)
    return 0.0 if found is None else found
