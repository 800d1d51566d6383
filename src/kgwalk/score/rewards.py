"""The rewards of a recipe as one function: a number for each turn of an episode and one for the whole.

    [turn_rewards]
    format = 0.5                     # a weight
    [rewards]
    f1 = 1.0
    "my_rewards.py:polite" = 0.2     # a function of one's own
    [reward_settings]
    brevity_tokens = 256             # a keyword parameter of a reward above

A reward is a function of an `Outcome`, registered by its name (`@turn_reward`, `@whole_reward`) or named by its place.
It may have no value for an outcome, if its judge failed, say. Then it is left out and counted: in a group it is taken
to be the mean of the group's other rollouts, which neither pays nor costs; if it has no value for any of them, it is 0
for all.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from kgwalk.config.recipe import Parts, Recipe, imported, unknown
from kgwalk.types import Episode, KgwalkError, Malformed, StopReason, Triple
from kgwalk.walk.facts import read_name
from kgwalk.walk.tagged_text import split_arguments, unescape

# Rewards by name


TurnReward = Callable[..., list[float]]
WholeReward = Callable[..., float | None]
_F = TypeVar("_F", bound=Callable[..., Any])

TURN: Parts[TurnReward] = Parts("turn reward", "rewards")
WHOLE: Parts[WholeReward] = Parts("reward", "rewards")
_JUDGES: dict[Callable[..., Any], str] = {}
_NEEDED: set[Callable[..., Any]] = set()  # rewards that have no value without their judge
_WITHOUT_ANSWERS: set[str] = set()


def turn_reward(name: str) -> Callable[[_F], _F]:
    """Decorates a reward that gives one number for each turn of the episode.

    Its keyword-only parameters with defaults are settings, which a recipe's [reward_settings] may change.
    """
    return TURN.add(name)


def whole_reward(name: str) -> Callable[[_F], _F]:
    """Decorates a reward that gives one number for all of the episode, or None where there is nothing to go by: the
    judge failed, no gold path is known.

        @whole_reward("f1")
        def f1(outcome: Outcome) -> float: ...
    """
    return WHOLE.add(name)


def judged_by(kind: str, *, needed: bool = True) -> Callable[[_F], _F]:
    """The reward reads `outcome.judged[kind]`, so a judge must be asked; kinds are those of score/judge/kinds.py.

    Unless it is `needed`, a judge is asked where one was given; without, the reward finds no such key and goes by rule.
    """

    def keep(function: _F) -> _F:
        _JUDGES[function] = kind
        if needed:
            _NEEDED.add(function)
        return function

    return keep


def judge_of(function: Callable[..., Any]) -> str | None:
    return _JUDGES.get(function)


def pays_without_answers(*names: str) -> None:
    """These rewards read no gold answer: they can pay a question that has none. Others are taken to need them."""
    _WITHOUT_ANSWERS.update(names)


def reward_named(name: str, section: str) -> Callable[..., Any]:
    """A reward of [turn_rewards] or [rewards]; `package.module:function` and `file.py:function` need no registering."""
    own, other = (TURN, "rewards") if section == "turn_rewards" else (WHOLE, "turn_rewards")
    known: Mapping[str, Callable[..., Any]] = own
    if name in known:
        return known[name]
    if ":" in name:
        return _imported(name)
    if name in TURN or name in WHOLE:
        raise KgwalkError(f"the reward `{name}` belongs in [{other}], not in [{section}]")
    raise unknown(f"reward in [{section}]", name, known)


def _imported(place: str) -> Callable[..., Any]:
    found: Callable[..., Any] = imported("reward", place)
    if not callable(found):
        raise KgwalkError(f"the reward `{place}` is no function")
    return found


# What a reward looks at, and what comes of it


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished episode, its numbers, and what a judge said of it.

    No reward takes the model's own words for a score: `metrics` are those of `score.episode.measure`, observations come
    from the tools, `judged` from a judge: a number for each kind of judgement that was asked for, None where the judge
    failed. `complete`: the graph had every crucial fact of the question (Graph-RFT's CKG; False is IKG). `step` is the
    step of training and `progress` the share of its steps (or of its time) that is used with it, for rewards that
    change on the way. `web`: there was one to search.
    """

    episode: Episode
    metrics: Mapping[str, float]
    complete: bool = True
    judged: Mapping[str, float | None] = field(default_factory=dict)
    step: int = 0
    progress: float = 0.0
    web: bool = True

    @property
    def in_form(self) -> bool:
        """Whether every turn is written as the protocol asks, and the last one answers."""
        malformed = any(isinstance(turn.step, Malformed) for turn in self.episode.turns)
        return self.episode.stop == StopReason.answered and not malformed

    @property
    def right(self) -> bool:
        """Whether the answer is right: by the judge of answers where it was asked, else all names and no other."""
        return self.judged["correct"] == 1 if "correct" in self.judged else self.metrics["exact_set"] == 1


TURNS, WHOLES, SETTINGS = "turn_rewards", "rewards", "reward_settings"


@dataclass(frozen=True, slots=True)
class Rewarded:
    """`turns` and `whole` are weighted sums; `parts` is each reward by itself, unweighted: of a turn reward the mean,
    under `turn.name`. `missing` are the rewards that had no value; they have no part."""

    turns: list[float]
    whole: float
    parts: dict[str, float] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WeightedReward:
    """A reward with its weight and settings. A weight of 0 only reports."""

    name: str
    weight: float
    of: Callable[[Outcome], Any]
    judge: str | None = None
    needed: bool = True  # it has no value without the judge

    def can_judge(self, outcome: Outcome) -> bool:
        """Whether there is what it needs; an error if it counts and no judge was asked at all."""
        if self.judge is None or not self.needed or self.judge in outcome.judged:
            return True
        if self.weight:
            raise KgwalkError(
                f"the reward `{self.name}` needs a judge of {self.judge}, and none was asked; "
                f"name one, or set {WHOLES}.{self.name}=0"
            )
        return False


@dataclass(frozen=True)
class RewardFunction:
    turn_parts: tuple[WeightedReward, ...]
    whole_parts: tuple[WeightedReward, ...]

    @classmethod
    def of(cls, recipe: Recipe) -> RewardFunction:
        """The rewards of the recipe's three sections; an error names what is wrong in them."""
        settings = recipe.section(SETTINGS)
        found = {section: _functions(recipe, section) for section in (TURNS, WHOLES)}
        functions = [function for _, _, function in (*found[TURNS], *found[WHOLES])]
        if not any(weight for each in found.values() for _, weight, _ in each):
            raise KgwalkError(f"the recipe {recipe.name} pays for nothing: give a reward a weight in [{WHOLES}]")
        _check_settings(settings, functions)
        turns, wholes = (
            tuple(
                WeightedReward(
                    name,
                    weight,
                    partial(function, **_own(settings, function)),
                    judge_of(function),
                    function in _NEEDED,
                )
                for name, weight, function in found[section]
            )
            for section in (TURNS, WHOLES)
        )
        return cls(turns, wholes)

    @property
    def judges(self) -> set[str]:
        """The kinds of judgement that must be asked for."""
        return self._kinds(needed=True)

    @property
    def judgeable(self) -> set[str]:
        """The kinds that a judge is asked for where there is one."""
        return self._kinds(needed=False)

    def _kinds(self, *, needed: bool) -> set[str]:
        paid = [part for part in (*self.turn_parts, *self.whole_parts) if part.weight]
        return {part.judge for part in paid if part.judge is not None and (part.needed or not needed)}

    @property
    def needs_answers(self) -> bool:
        """Whether a question must have gold answers: not where a judge says what is right, and nothing else looks."""
        counting = {part.name for part in (*self.turn_parts, *self.whole_parts) if part.weight}
        return "correct" not in self.judges or not counting <= _WITHOUT_ANSWERS

    def __call__(self, outcome: Outcome) -> Rewarded:
        """Of one outcome alone: what is missing counts 0."""
        return self.group([outcome])[0]

    def group(self, outcomes: Sequence[Outcome]) -> list[Rewarded]:
        """Of the rollouts of one question.

        f1 and a judge's verdict, each with weight 1. The judge failed on the third rollout: its verdict is taken to be
        the mean of the other two, so that it is ranked by its f1 alone.

            f1 1, 0, 1    verdict 1, 0, none -> 1/2    whole 2, 0, 3/2
        """
        values = {part.name: [_whole(part, outcome) for outcome in outcomes] for part in self.whole_parts}
        filled = {name: _filled(row) for name, row in values.items()}
        rewarded = []
        for number, outcome in enumerate(outcomes):
            turns = {part.name: _turns(part, outcome) for part in self.turn_parts}
            whole = {name: row[number] for name, row in values.items()}
            rewarded.append(
                Rewarded(
                    [
                        math.fsum(part.weight * turns[part.name][at] for part in self.turn_parts)
                        for at in range(len(outcome.episode.turns))
                    ],
                    math.fsum(part.weight * filled[part.name][number] for part in self.whole_parts),
                    {f"turn.{name}": math.fsum(row) / len(row) for name, row in turns.items() if row}
                    | {name: value for name, value in whole.items() if value is not None},
                    tuple(part.name for part in self.whole_parts if part.weight and whole[part.name] is None),
                )
            )
        return rewarded


def needs_judge(recipe: Recipe) -> set[str]:
    """The kinds of judgement that the recipe's rewards read."""
    return RewardFunction.of(recipe).judges


def _whole(part: WeightedReward, outcome: Outcome) -> float | None:
    value = part.of(outcome) if part.can_judge(outcome) else None
    return None if value is None else _number(part.name, value)


def _turns(part: WeightedReward, outcome: Outcome) -> list[float]:
    row, turns = part.of(outcome), len(outcome.episode.turns)
    if not isinstance(row, list) or len(row) != turns:
        got = f"{len(row)} numbers" if isinstance(row, list) else repr(row)
        raise KgwalkError(f"the turn reward `{part.name}` must give {turns} numbers, one for each turn, not {got}")
    return [_number(part.name, value) for value in row]


def _number(name: str, value: Any) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise KgwalkError(f"the reward `{name}` must give a finite number, not {value!r}")
    return float(value)


def _filled(row: Sequence[float | None]) -> list[float]:
    """What is missing, as the mean of what is there.

    >>> _filled([1.0, None, 0.0]), _filled([None])
    ([1.0, 0.5, 0.0], [0.0])
    """
    known = [value for value in row if value is not None]
    mean = math.fsum(known) / len(known) if known else 0.0
    return [mean if value is None else value for value in row]


def _functions(recipe: Recipe, section: str) -> list[tuple[str, float, Callable[..., Any]]]:
    found = []
    for name, weight in recipe.section(section).items():
        function = reward_named(name, section)
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight):
            raise KgwalkError(f"`{section}.{name}` must be a number, the weight of the reward, not {weight!r}")
        if weight < 0:
            raise KgwalkError(f"`{section}.{name}` must not be below 0, not {weight}: a penalty is a negative reward")
        found.append((name, float(weight), function))
    return found


def _parameters(function: Callable[..., Any]) -> dict[str, Any]:
    """Its settings, with their defaults."""
    every = inspect.signature(function).parameters.values()
    return {one.name: one.default for one in every if one.kind is inspect.Parameter.KEYWORD_ONLY}


def _own(settings: Mapping[str, Any], function: Callable[..., Any]) -> dict[str, Any]:
    for name, default in _parameters(function).items():
        if default is inspect.Parameter.empty and name not in settings:
            raise KgwalkError(f"`{SETTINGS}.{name}` has no default, and a reward of the recipe needs it")
    return {name: settings[name] for name in _parameters(function) if name in settings}


def _check_settings(settings: Mapping[str, Any], functions: Iterable[Callable[..., Any]]) -> None:
    known: dict[str, Any] = {}
    for function in functions:
        known |= _parameters(function)
    for name, value in settings.items():
        if name not in known:
            if not known:
                raise KgwalkError(f"`{SETTINGS}.{name}` is read by none of the recipe's rewards; they have no settings")
            raise unknown("setting", f"{SETTINGS}.{name}", (f"{SETTINGS}.{other}" for other in known))
        if not _alike(value, known[name]):
            raise KgwalkError(f"`{SETTINGS}.{name}` must be like its default, {known[name]!r}, not {value!r}")


def _alike(value: Any, default: Any) -> bool:
    if default is None or default is inspect.Parameter.empty:
        return True
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if isinstance(default, int | float):
        return isinstance(value, int | float) and math.isfinite(value)
    return isinstance(value, type(default))


# The facts that a thought names


_THOUGHT = re.compile(r"<think>(.*?)</think>", re.DOTALL)
# Possessive or bounded throughout: what a model writes is as long as it likes, and nothing here may look at all of it
# twice.
_STRING = r'"(?:[^"\\]|\\.)*+"'
# In single quotes, as Python writes a name; an apostrophe before a letter does not end it: 'Rosa's Diner'.
_SINGLE = r"'(?:[^'\\\n]|\\.|'(?!\s{0,8}(?:[,\]]|$))){1,400}+'"
_BARE = r"[^\s\"',\[\]][^\"',\[\]\n]{0,200}+"
_ITEM = rf"(?:{_STRING}|{_SINGLE}|{_BARE})"
_ITEMS = re.compile(_ITEM, re.DOTALL)
_ROW = re.compile(rf"\[(\s*+{_ITEM}(?:\s*+,\s*+{_ITEM}){{2,3}}+\s*+)\]", re.DOTALL)
_NAME = rf'(\s*+{_STRING}\s*+|(?:[^",()\n]|\([^()\n]*+\))++)'
_BRACKETED = re.compile(rf"\({_NAME},{_NAME},{_NAME}\)")


def thought_of(episode: Episode, *, in_form: bool = True) -> str:
    """What the model wrote between think tags, in all turns that are `in_form`, or in all; a thought may go on over
    turns.

    >>> from kgwalk.types import Answer, Call, Question, Turn
    >>> first = Turn([], [], "<think>One. <search>x</search>", Call("search", ("x",)), "<triples>(x, r, y)</triples>")
    >>> last = Turn([], [], "Two.</think><answer>y</answer>", Answer(("y",)))
    >>> thought_of(Episode(Question("q", "?", [], []), [], [], "", [first, last]))
    'One. <search>x</search>Two.'
    """
    text = "".join(turn.text for turn in episode.turns if not (in_form and isinstance(turn.step, Malformed)))
    return "\n".join(_THOUGHT.findall(text))


def facts_named(text: str) -> set[Triple]:
    """The facts of a text, undated: `["head", "relation", "tail"]`, also in single quotes, with a name that has none,
    or with the quotes escaped (Explore-on-Graph's Figures 14, 13 and 8); and `(head, relation, tail)`.

    >>> sorted(facts_named('So ["Washington, D.C.", "in", "US"]. (Big (film), by, "Marshall, Penny") and (that, is).'))
    [Triple(head='Big (film)', relation='by', tail='Marshall, Penny', time=''), \
Triple(head='Washington, D.C.', relation='in', tail='US', time='')]
    >>> facts_named("I find [m.04, 'imported_from', 'Côte d'Ivoire'], of [1, 2, 3].")
    {Triple(head='m.04', relation='imported_from', tail="Côte d'Ivoire", time='')}
    """
    return set(_facts_named(text)) | (set(_facts_named(text.replace('\\"', '"'))) if '[\\"' in text else set())


def _facts_named(text: str) -> Iterator[Triple]:
    for found in _ROW.finditer(text):
        parts = _ITEMS.findall(found.group(1))
        names = [_row_name(part) for part in parts]
        if any(part[0] in "\"'" for part in parts) and None not in names:
            yield Triple(*map(str, names[:3]))
    for found in _BRACKETED.finditer(text):
        yield Triple(*map(read_name, found.groups()))


def _row_name(part: str) -> str | None:
    """A name of a row; None if it is in double quotes and no JSON."""
    if part[0] == '"':
        names = split_arguments(part)
        return None if names is None else names[0]
    if part[0] == "'":
        part = part[1:-1].replace("\\'", "'").replace("\\\\", "\\")
    return unescape(part.strip())
