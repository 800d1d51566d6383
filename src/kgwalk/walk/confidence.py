"""How sure an answer is: the probability that it is right, fitted on walks whose right answers are known.

    model = read_confidence(folder)          # of an adapter; None where nothing was fitted
    model.probability(episode)               # 0.83: of walks like this one, so many were right

How likely a model finds its own walk says little about whether the walk fits the question: an agent is surest of the
short walks that it has seen most. So a logistic regression weighs it with a few things that anybody can see from
outside: does the question ask "how many" and the answer is no number, is "not" or "most" in it and no call says so,
are there words that no topic, kind or relation accounts for, though a relation with that word was offered, was a topic
or a kind never used, were there errors, do several walks agree. That nothing is there is another kind of answer, with
figures of its own: how sure the model was of it, and whether a relation of the question's words was offered.

`seen_in` gives these figures, from an episode alone. `fitted` makes the model, `kgwalk calibrate` from evaluations; its
weights are kept in the adapter's `kgwalk.json`, since another agent errs in other ways.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
from rapidfuzz import fuzz

from kgwalk.kg.names import normalise, split_words
from kgwalk.llm.models import CARD
from kgwalk.types import Answer, Call, Episode, KgwalkError, StopReason
from kgwalk.walk.language import WITH_RELATION
from kgwalk.walk.question_words import FUNCTION_WORDS
from kgwalk.walk.sets import BOOLEAN, ENTITY, NUMBER, TABLE, TIME
from kgwalk.walk.values import value_of

KEY = "confidence"  # of an adapter's kgwalk.json
STEM = 5  # letters by which words are the same: border, borders, bordering
LEAST_DOUBT = 0.001  # of minus a log-likelihood, whose logarithm is taken: 0.99 and 0.999 differ as 0.9 and 0.99 do
RIDGE = (
    3.0  # how strongly weights are held near 0, in walks; between 1 and 10 it makes no difference on graphs left out
)
STEPS = 100

# What `seen_in` can give: a model that was fitted on other figures says nothing any more
FIGURES = frozenset(
    {
        *("errors", "several", "agreement"),
        *("nothing", "nothing_doubt", "nothing_left", "nothing_missed"),
        *("doubt", "last_doubt", "size", "zero", "other_kind", "unsaid", "wrong_way", "words_left", "missed"),
        *("strange_relation", "linking", "unused", "unused_kind"),
    }
)

F64 = npt.NDArray[np.float64]
log = logging.getLogger(__name__)

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
# Calls that take the most or the least, and the words that ask for it
_UPWARDS, _DOWNWARDS = frozenset({"argmax", "top", "greatest"}), frozenset({"argmin", "bottom", "least"})
# Not "long" and "first": of years the longest since is the least
_LOW = re.compile(
    r"\b(?:(?:small|few|cheap|low|light|short|cold|near|close|weak|thin|slow|old)(?:er|est)|least|earliest|minimum)\b"
)
_HIGH = re.compile(
    r"\b(?:(?:larg|bigg|high|heavi|tall|hott|great|fast|strong|young|new)(?:er|est)|most|latest|maximum|expensive)\b"
)
_AGE = re.compile(r"(?:^|[\W_])age(?:[\W_]|$)")  # where the oldest has most

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
    asked, calls, sets = episode.question.question, _calls(episode), _told(episode)
    kinds = {number: one for number, one in sets.items() if one.start and number > len(_topics(episode))}
    words = _walked_words(episode, calls) | {word for one in kinds.values() for word in _words(one.kind)}
    left = own_words(asked) - words
    missed = left & {word for one in sets.values() for relation in one.relations for word in _words(relation)}
    doubt = _doubt(value for turn in episode.turns for value in turn.logprobs)
    share_left = len(left) / max(1, len(own_words(asked)))
    of_both = {
        "errors": math.log1p(sum(not turn.ok for turn in episode.turns)),
        "several": float(episode.looked is not None),
        "agreement": 0.0 if episode.looked is None else episode.looked.agreed / episode.looked.walks - 0.5,
        "nothing": float(not episode.answers),
    }
    if not episode.answers:
        return of_both | {"nothing_doubt": doubt, "nothing_left": share_left, "nothing_missed": float(len(missed))}
    used = _used(episode, calls)
    return of_both | {
        "doubt": doubt,
        "last_doubt": _doubt(episode.turns[-1].logprobs),
        "size": math.log1p(len(episode.answers)),
        "zero": float(episode.answers == ["0"]),
        "other_kind": float(kind_asked(asked) not in (None, kind_given(episode))),
        "unsaid": float(_unsaid(asked, calls, words)),
        "wrong_way": float(_wrong_way(asked, calls)),
        "words_left": share_left,
        "missed": float(len(missed)),
        "strange_relation": _strange(asked, calls),
        "linking": min((_named(topic, asked) for topic in _topics(episode)), default=1.0),
        "unused": float(_unused(episode, calls)),
        "unused_kind": max((_unlike(kinds[number], sets, used) for number in kinds if number not in used), default=0.0),
    }


def is_started(episode: Episode) -> bool:
    """Whether it had anything to walk from: a topic, or a kind. Else `kgwalk ask` refuses before a model is asked."""
    return bool(episode.topics) or any(one.start for one in _told(episode).values())


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


_SET = re.compile(r"\$(\d+) = [\d,]+(?: ([^:]+))?:")
_ASIDE = re.compile(r" ?\([^()]*\)")  # what lies behind a relation, where a listing says so


@dataclass
class _ToldSet:
    """A set as the model read of it: its kind, if that was said, and the relations around it."""

    kind: str
    start: bool
    relations: set[str] = field(default_factory=set)


def _told(episode: Episode) -> dict[int, _ToldSet]:
    """The sets that prompt and observations tell of, by number; empty of a protocol without named sets."""
    found: dict[int, _ToldSet] = {}
    last: _ToldSet | None = None
    begun = episode.prompt.rpartition(episode.question.question)[2]
    for start, text in ((True, begun), *((False, turn.observation) for turn in episode.turns)):
        for line in text.splitlines():
            if made := _SET.match(line):
                last = found[int(made[1])] = _ToldSet(made[2] or "", start)
            elif last is not None and line.startswith(("-> ", "<- ")):
                last.relations |= {line[:2] + name.strip() for name in _ASIDE.sub("", line[3:]).split(",")}
    return found


def _unlike(kind: _ToldSet, sets: Mapping[int, _ToldSet], used: Collection[int]) -> float:
    """How far a kind that was left aside is from every set that was used: 0 where one has the same relations."""
    others = (one.relations for number, one in sets.items() if number in used and one is not kind)
    return 1 - max((len(kind.relations & one) / len(kind.relations | one) for one in others if one), default=0.0)


def _used(episode: Episode, calls: Sequence[Call]) -> set[int]:
    """The sets that a call or the answer refers to; a path may name one inside: `start(r in $3)`."""
    answers = [turn.step for turn in episode.turns if isinstance(turn.step, Answer)]
    args = [arg for call in calls for arg in call.args] + [name for answer in answers for name in answer.names]
    inside = (int(number) for arg in args if isinstance(arg, str) for number in re.findall(r"\$(\d+)", arg))
    return {arg for arg in args if isinstance(arg, int)} | set(inside)


def _doubt(logprobs: Iterable[float]) -> float:
    return math.log(LEAST_DOUBT + max(0.0, -sum(logprobs)))


def _calls(episode: Episode) -> list[Call]:
    return [turn.step for turn in episode.turns if isinstance(turn.step, Call)]


def _words(text: str) -> list[str]:
    return [word[:STEM] for word in normalise(split_words(text)).split()]


def own_words(asked: str) -> set[str]:
    """The words of a question that say something: stems, without function words."""
    return {word[:STEM] for word in normalise(asked).split() if word not in FUNCTION_WORDS}


def _walked_words(episode: Episode, calls: Sequence[Call]) -> set[str]:
    """Every word of the topics and of what was called."""
    names = [arg for call in calls for arg in call.args if isinstance(arg, str)]
    return {word for name in (*episode.topics, *names) for word in _words(name)}


def _unsaid(asked: str, calls: Sequence[Call], words: set[str]) -> int:
    """How many cues of the question no call says."""
    used = {call.tool for call in calls}
    return sum(calls_for.isdisjoint(used) for _, cue, calls_for in CUES if _meant(cue, asked, words))


def _wrong_way(asked: str, calls: Sequence[Call]) -> bool:
    """Whether the most was taken where the question asks for the least, or the other way round.

    >>> _wrong_way("who is the youngest", [Call("argmin", (1, "born"))])
    True
    """
    low, high = (cue.search(asked.lower()) is not None for cue in (_LOW, _HIGH))
    used = {call.tool for call in calls}
    up, down = (not tools.isdisjoint(used) for tools in (_UPWARDS, _DOWNWARDS))
    if low == high or up == down or any(_AGE.search(str(arg)) for call in calls for arg in call.args):
        return False
    return low == up


def _meant(cue: re.Pattern[str], asked: str, words: set[str]) -> bool:
    """Whether the cue stands in the question, and not as a part of a name: `highest_point` is a relation."""
    return any(not set(_words(found[0])) & words for found in cue.finditer(asked))


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
    """What was fitted for an adapter; None without an adapter, or where nothing was, or by a kgwalk that looked at
    other figures of a walk: those weights would give numbers that mean nothing.
    """
    card = None if folder is None else Path(folder) / CARD
    found = _card(card).get(KEY) if card is not None and card.is_file() else None
    if found is None:
        return None
    try:
        each = {str(name): tuple(map(float, values)) for name, values in found["figures"].items()}
        if not FIGURES.issuperset(each):
            log.warning("%s: its confidence is of another kgwalk and is not used; fit it with `kgwalk calibrate`", card)
            return None
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
