"""Every number of one episode, by name. A failed or unanswered episode has zeros and stays in every mean.

docs/reference/metrics.md says what each number means and which paper's it is. Knows no protocol and no engine.
"""

from __future__ import annotations

from collections.abc import Iterable

from kgwalk.agent.counted import tokens
from kgwalk.agent.web import WEB_FAILED, WEB_SEARCH
from kgwalk.kg.graph import Graph
from kgwalk.score.answers import Matched, accuracy, match
from kgwalk.score.exploration import exploration, explored, gold_facts
from kgwalk.score.gold import Gold, gold_of
from kgwalk.score.lenient import em_token, hit_any, hit_substring
from kgwalk.score.retrieval import retrieved, shown_to
from kgwalk.types import Call, Episode, Malformed, StopReason


def measure(
    episode: Episode, graph: Graph | None = None, gold: Gold | None = None, *, ids_a_token: int = 1
) -> dict[str, float]:
    """All numbers of an episode. `gold` saves making it again for another run of the question.

    Always there: f1, precision, recall, hits_at_1, exact_set, hit_any, hit_substring, em_token, retrieval_rate,
    retrieval_share, retrieval_all, generated_tokens, prompt_tokens, total_tokens, turns, calls, invalid_calls,
    malformed, answered, failed, seconds, web_calls, web_failed, web_used. Of questions that ask whether something is
    so: accuracy. Where the engine says how likely its tokens were: confidence. Where gold facts are known:
    exploration_facts, _coverage, _precision, _found, and _efficiency if one was found.

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
    return found


def _sure(episode: Episode) -> dict[str, float]:
    found = episode.confidence
    return {} if found is None else {"confidence": found}


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
