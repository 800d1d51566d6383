"""Every number of one episode, by name; and the numbers of several runs of one question.

`measure` gives those of one episode: answer, retrieval, cost, web, exploration. docs/reference/metrics.md says what
each means and which paper's it is. A failed or unanswered episode has zeros and stays in every mean.

Of N runs the answers are united (`union`, as in KG-R1's "N-run beam search", section 4.1) or voted on (`majority`).
KG-R1's code takes the best run instead, which needs the right answer to choose by: that is `oracle_max`, and no
system's score. A run without an answer is a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import comb

from kgwalk.kg.graph import Graph
from kgwalk.score.answers import (
    Gold,
    Matched,
    accuracy,
    em_token,
    forms,
    gold_of,
    hit_any,
    hit_substring,
    match,
    rows_f1,
)
from kgwalk.score.exploration import exploration, explored, gold_facts
from kgwalk.types import Call, Episode, KgwalkError, Malformed, Question, StopReason
from kgwalk.walk.rollout import tokens
from kgwalk.walk.web.search import WEB_FAILED, WEB_SEARCH


def measure(
    episode: Episode, graph: Graph | None = None, gold: Gold | None = None, *, ids_a_token: int = 1
) -> dict[str, float]:
    """All numbers of an episode. `gold` saves making it again for another run of the question.

    Always there: f1, precision, recall, hits_at_1, exact_set, hit_any, hit_substring, em_token, retrieval_rate,
    retrieval_share, retrieval_all, generated_tokens, prompt_tokens, total_tokens, turns, calls, invalid_calls,
    malformed, answered, failed, seconds, web_calls, web_failed, web_used. Of questions that ask whether something is
    so: accuracy. Of those that ask for a table: rows_f1. Where the engine says how likely its tokens were: confidence,
    likelihood. Where gold facts are known: exploration_facts, _coverage, _precision, _found, and _efficiency if one was
    found.

    >>> from kgwalk.types import Question
    >>> asked, stop = Question("q", "?", [], ["Oslo", "Bergen"]), StopReason("answered")
    >>> numbers = measure(Episode(asked, [], [], "", answers=["oslo"], stop=stop))
    >>> numbers["precision"], numbers["recall"], round(numbers["f1"], 3)
    (1.0, 0.5, 0.667)

    One of one is right, one of two is found: 2 * 1 / (1 + 2) = 0.667.
    """
    gold = gold or gold_of(episode.question)
    return {
        **_answer(episode, gold, graph),
        **_retrieval(episode, gold, graph),
        **_cost(episode, ids_a_token),
        **_sure(episode),
        **_web(episode),
        **_exploration(episode),
    }


def _answer(episode: Episode, gold: Gold, graph: Graph | None) -> dict[str, float]:
    # No answer is not the answer "nothing": where nothing is right, only to say so is.
    answered = episode.stop == StopReason.answered
    names = episode.answers if answered else []
    scores = match(names, gold, graph) if answered else Matched(0, max(1, len(gold)), 0, False)
    found = {
        "f1": scores.f1,
        "precision": scores.precision,
        "recall": scores.recall,
        "hits_at_1": scores.hits_at_1,
        "exact_set": scores.exact_set,
        "hit_any": hit_any(names, gold, graph),
        "hit_substring": hit_substring(names, gold),
        "em_token": em_token(names, gold),
    }
    if episode.question.extra.get("answer_kind") == "boolean":
        found["accuracy"] = accuracy(names, gold)
    rows = episode.question.extra.get("rows")
    if episode.question.extra.get("answer_kind") == "table" and isinstance(rows, list):
        found["rows_f1"] = rows_f1(episode.form.rows if answered else [], rows)
    return found


def _sure(episode: Episode) -> dict[str, float]:
    chances = {"confidence": episode.confidence, "likelihood": episode.likelihood}
    return {name: chance for name, chance in chances.items() if chance is not None}


def _retrieval(episode: Episode, gold: Gold, graph: Graph | None) -> dict[str, float]:
    seen = retrieved(shown_to(episode), gold, graph)
    return {"retrieval_rate": seen.rate, "retrieval_share": seen.share, "retrieval_all": seen.all}


def _cost(episode: Episode, ids_a_token: int) -> dict[str, float]:
    prompt, generated = tokens(episode, ids_a_token)
    calls = [turn for turn in episode.turns if isinstance(turn.step, Call)]
    return {
        "generated_tokens": generated,
        "prompt_tokens": prompt,
        "total_tokens": prompt + generated,
        "turns": len(episode.turns),
        "calls": len(calls),
        "invalid_calls": sum(not turn.ok for turn in calls),
        "malformed": sum(isinstance(turn.step, Malformed) for turn in episode.turns),
        "answered": float(episode.stop == StopReason.answered),
        "failed": float(not episode.trainable),
        "seconds": episode.seconds,
    }


def _web(episode: Episode) -> dict[str, float]:
    """Searches of the web that were carried out: where there is none, a call for it is invalid and counts there."""
    searches = [turn for turn in episode.turns if isinstance(turn.step, Call) and turn.step.tool == WEB_SEARCH]
    made = [turn for turn in searches if turn.ok]
    return {
        "web_calls": len(made),
        "web_failed": sum(turn.error == WEB_FAILED for turn in made),
        "web_used": float(bool(made)),
    }


def _exploration(episode: Episode) -> dict[str, float]:
    gold = gold_facts(episode.question)
    if not gold:
        return {}
    walk = exploration(explored(episode), gold)
    found = {
        "exploration_facts": float(walk.explored),
        "exploration_coverage": walk.coverage,
        "exploration_precision": walk.precision,
        "exploration_found": walk.found,
    }
    return found if walk.efficiency is None else found | {"exploration_efficiency": walk.efficiency}


def measure_all(
    episodes: Iterable[Episode], graph: Graph | None = None, *, ids_a_token: int = 1
) -> list[dict[str, float]]:
    """`measure` for each; runs that share a question share its gold."""
    golds: dict[int, tuple[Episode, Gold]] = {}  # by the question's identity; the episode keeps it alive
    rows = []
    for episode in episodes:
        key = id(episode.question)
        if key not in golds:
            golds[key] = episode, gold_of(episode.question)
        rows.append(measure(episode, graph, golds[key][1], ids_a_token=ids_a_token))
    return rows


# Whether a walk was shown the right answers


@dataclass(frozen=True, slots=True)
class Retrieved:
    """How many of the right entities were shown, by name, in what the model could read after truncation.

    KG-R1's retrieval rate (v_ret of equation 2, "Ret.Rate" of Table 3) is `rate`; Graph-RFT's equation 4 asks for all
    of them. Their code looks for the text of a name in all that was retrieved, where "US" is found in "music".
    Documents of a web search hold no entities and do not count.

    >>> shown = Retrieved(shown=1, gold=4)
    >>> shown.rate, shown.share, shown.all
    (1.0, 0.25, 0.0)
    """

    shown: int
    gold: int

    @property
    def rate(self) -> float:
        """1 if any was."""
        return float(self.shown > 0)

    @property
    def share(self) -> float:
        return self.shown / self.gold if self.gold else 0.0

    @property
    def all(self) -> float:
        return float(self.shown == self.gold > 0)


def retrieved(names: Iterable[str], gold: Gold, graph: Graph | None = None) -> Retrieved:
    """
    >>> retrieved(["music", "The Beatles"], Gold((("US",), ("Beatles",))))
    Retrieved(shown=1, gold=2)
    """
    shown: set[int] = set()
    for name in names:
        entity = gold.entity_of(name, graph)
        if entity is not None:
            shown.add(entity)
            if len(shown) == len(gold):
                break
    return Retrieved(len(shown), len(gold))


def shown_to(episode: Episode) -> dict[str, None]:
    """The entities that the model was shown, in order: those of facts in its prompt, then of each observation; then
    the dates of the facts that it was told, of a span both ends.

    The topics are given, not retrieved: they count where a fact or a result shows them.
    """
    dates = [date for fact in episode.seen if fact.time for date in (fact.time, *fact.time.split(".."))]
    shown = (episode.shown, *(turn.shown for turn in episode.turns), dates)
    return dict.fromkeys(name for names in shown for name in names if name)


# Several runs of one question


def pass_at_k(runs: int, right: int, k: int) -> float:
    """The chance that of k runs, drawn from these without putting back, one at least is right: 1 - C(n-c,k)/C(n,k).

    Four runs, one right: two of four can be drawn in 6 ways, 3 of them without the right one, so 1 - 3/6.

    >>> pass_at_k(4, 1, 1), pass_at_k(4, 1, 2), pass_at_k(4, 1, 4), pass_at_k(4, 0, 4)
    (0.25, 0.5, 1.0, 0.0)
    """
    if not (0 <= right <= runs and 1 <= k <= runs):
        raise KgwalkError(f"pass@{k} of {runs} runs with {right} right: need 1 <= k <= runs and 0 <= right <= runs")
    return 1.0 - comb(runs - right, k) / comb(runs, k)


def oracle_max(values: Sequence[float]) -> float:
    """The best of several runs, chosen by looking at the right answer: an upper bound, not a system's score.

    >>> oracle_max([0.2, 1.0, 0.5])
    1.0
    """
    return max(values, default=0.0)


def mean(values: Sequence[float]) -> float:
    """
    >>> mean([0.0, 1.0, 0.5])
    0.5
    """
    return sum(values) / len(values) if values else 0.0


def votes(runs: Sequence[Sequence[str]]) -> dict[str, int]:
    """How many runs gave each name, those with most first, then in the order first seen; spelt as first seen.

    >>> votes([["Rome", "Paris"], ["paris", "PARIS"], []])
    {'Paris': 2, 'Rome': 1}
    """
    spelling: dict[str, str] = {}
    count: dict[str, int] = {}
    for run in runs:
        for key in dict.fromkeys(forms(name).key for name in run):
            count[key] = count.get(key, 0) + 1
        for name in run:
            spelling.setdefault(forms(name).key, name)
    order = list(spelling)
    return {spelling[key]: count[key] for key in sorted(order, key=lambda key: -count[key])}


def united(runs: Sequence[Sequence[str]]) -> list[str]:
    """Every name that any run gave, by votes."""
    return list(votes(runs))


def agreed(runs: Sequence[Sequence[str]]) -> list[str]:
    """The names that more than half of the runs gave, by votes.

    >>> agreed([["Rome", "Paris"], ["paris"], ["Oslo"]]), agreed([["Rome"], ["Paris"]])
    (['Paris'], [])
    """
    return [name for name, count in votes(runs).items() if 2 * count > len(runs)]


def union(question: Question, runs: Sequence[Sequence[str]], graph: Graph | None = None) -> dict[str, float]:
    """The scores of the united answers: KG-R1's "(3 runs)" rows are `f1` and `hit_any`.

    >>> question = Question("q", "?", [], ["Paris", "Oslo"])
    >>> scores = union(question, [["Rome", "Paris"], ["Paris"], ["Oslo"]])
    >>> scores["f1"], scores["recall"], scores["hits_at_1"]
    (0.8, 1.0, 1.0)
    """
    return _scores(question, united(runs), graph)


def majority(question: Question, runs: Sequence[Sequence[str]], graph: Graph | None = None) -> dict[str, float]:
    """The scores of the names that more than half of the runs gave.

    >>> scores = majority(Question("q", "?", [], ["Paris", "Oslo"]), [["Rome", "Paris"], ["Paris"], ["Oslo"]])
    >>> scores["precision"], scores["recall"]
    (1.0, 0.5)
    """
    return _scores(question, agreed(runs), graph)


def _scores(question: Question, names: Sequence[str], graph: Graph | None) -> dict[str, float]:
    gold = gold_of(question)
    matched = match(names, gold, graph)
    return {
        "f1": matched.f1,
        "precision": matched.precision,
        "recall": matched.recall,
        "hits_at_1": matched.hits_at_1,
        "exact_set": matched.exact_set,
        "hit_any": hit_any(names, gold, graph),
    }
