"""Graph-RFT's reward (section 3.3.2, equations 2 to 8): accuracy, retrieval, the right source.

Accuracy comes first, then a penalty for the wrong source, then retrieval. The lines of equation 8 overlap, so there are
three readings by name (`READINGS`). The paper's own protocol is the one with a web search; in others the web is never
used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kgwalk.config.recipe import unknown
from kgwalk.kg.names import normalise
from kgwalk.score.answers import Gold, forms, gold_of, key
from kgwalk.score.judge.kinds import BUILDERS, Case, void_of
from kgwalk.score.rewards import Outcome, whole_reward
from kgwalk.systems.graph_rft.protocol import INFORMATION, parse
from kgwalk.types import Call, Episode
from kgwalk.walk.tagged_text import unescape

LEAST = 0.1  # for an answer in the right form, however wrong; and for retrieval without one
WEB = "web_search"
_DOCUMENTS = re.compile(rf"<{INFORMATION[WEB]}>(.*?)</{INFORMATION[WEB]}>", re.DOTALL)
_NUMBERED = re.compile(r"^Doc [0-9]+: ", re.MULTILINE)  # our own words, not a document's


PENALTY = 0.1  # for the wrong source


@whole_reward("graph_rft")
def graph_rft(
    outcome: Outcome,
    *,
    equation_8: str = "printed",
    graph_retrieval: bool = True,
    web_retrieval: bool = True,
    penalty: float = PENALTY,
) -> float:
    """R_over (equation 8) by one of three readings: "printed", "top-down" or "use".

    Right form, two names, one of them right, of one: F1 = 2/3 and R_over = 0.667; all wrong: 0.1. In the wrong form,
    where R_acc = 0, what counts is whether searches of the graph (R_graph) and documents (R_web) showed every right
    answer, whether the web was used, and whether the graph was complete (CKG) or not (IKG):

    | R_graph | web | printed: CKG, IKG | top-down: CKG, IKG | use: CKG, IKG |
    |---|---|---|---|---|
    | 0 | not used | 0, -0.1 | 0, -0.1 | 0, -0.1 |
    | 0 | used in vain | 0, -0.1 | 0, -0.1 | -0.1, 0 |
    | 0 | showed all | -0.1, 0.1 | 0.1, 0.1 | -0.1, 0.1 |
    | 1 | not used | 0.1, -0.1 | 0.1, 0.1 | 0.1, -0.1 |
    | 1 | used in vain | 0.1, -0.1 | 0.1, 0.1 | -0.1, 0.1 |
    | 1 | showed all | -0.1, 0.1 | 0.1, 0.1 | -0.1, 0.1 |

    All three begin with R_acc. "printed" has the conditions as printed, and the penalty (R_web > 0 with a complete
    graph, R_web = 0 with an incomplete one) before the 0.1. "top-down" has the lines in the order in which they are
    printed: then the penalty on complete graphs never applies, since R_web > 0 was paid for one line before. "use" is
    "printed" with the penalty for using the web at all, or not using it, as the paper's text has it.

    The ablations: `graph_retrieval` and `web_retrieval` false pay no 0.1 for R_graph and for R_web (Table 4), a
    `penalty` of 0 takes that line away (Figure 3). Where there was no web to search, there is no wrong source, and so
    no penalty: else every walk in the wrong form over an incomplete graph would get -0.1 for what it could not do.
    """
    if equation_8 not in READINGS:
        raise unknown("value of reward_settings.equation_8", equation_8, READINGS)
    web, graph = bool(r_web(outcome)), bool(r_graph(outcome))
    used = web_documents(outcome.episode) is not None
    found = Sources(graph and graph_retrieval, web and web_retrieval, web=web, used=used)
    return overall(
        r_acc(outcome), found, equation_8, complete=outcome.complete, penalty=penalty if outcome.web else 0.0
    )


@whole_reward("r_acc")
def r_acc(outcome: Outcome) -> float:
    """R_acc (equation 2), measured by itself: F1, at least 0.1, in the right form; else 0. F1 = 0 in form: 0.1."""
    return accuracy_reward(outcome.in_form, outcome.metrics["f1"])


@whole_reward("r_graph")
def r_graph(outcome: Outcome) -> float:
    """R_graph (equations 4 and 5), measured by itself: 1 if searches of the graph showed every right answer, else 0.
    Two of three: 0."""
    return outcome.metrics["retrieval_all"]


@whole_reward("r_web")
def r_web(outcome: Outcome) -> float:
    """R_web (equations 6 and 7), measured by itself: 1 if documents named every right answer (`web_reward`).
    One of two: 0."""
    return web_reward(web_documents(outcome.episode), gold_of(outcome.episode.question))


@dataclass(frozen=True, slots=True)
class Sources:
    """What a walk retrieved, for equation 8: which of R_graph and R_web is paid for, R_web itself, and whether the web
    was used, be it in vain."""

    pays_graph: bool
    pays_web: bool
    web: bool
    used: bool


def accuracy_reward(in_form: bool, f1: float) -> float:
    """R_acc, equation 2.

    >>> accuracy_reward(True, 0.5), accuracy_reward(True, 0.0), accuracy_reward(False, 0.5)
    (0.5, 0.1, 0.0)
    """
    return max(LEAST, f1) if in_form else 0.0


def web_reward(documents: str | None, gold: Gold) -> float:
    """R_web, equations 6 and 7: 1 if the documents name every right answer, each by one of its names, as whole words.

    >>> web_reward("The band came from the US, to Paris.", Gold((("US", "United States"), ("paris",))))
    1.0
    >>> web_reward("Country music", Gold((("US",),))), web_reward(None, Gold((("US",),)))
    (0.0, 0.0)
    """
    if not documents or not gold.entities:
        return 0.0
    return float(all(any(_stands_in(name, documents) for name in names) for names in gold.entities))


READINGS = ("printed", "top-down", "use")


def overall(accuracy: float, found: Sources, reading: str, *, complete: bool, penalty: float = PENALTY) -> float:
    """R_over, equation 8; `graph_rft` has the table.

    >>> by_graph, by_web = Sources(True, False, False, False), Sources(False, True, True, True)
    >>> overall(0.5, by_web, "printed", complete=True)
    0.5
    >>> [overall(0.0, found, "printed", complete=whole) for found in (by_graph, by_web) for whole in (True, False)]
    [0.1, -0.1, -0.1, 0.1]
    >>> [overall(0.0, found, "top-down", complete=whole) for found in (by_graph, by_web) for whole in (True, False)]
    [0.1, 0.1, 0.1, 0.1]
    >>> in_vain = Sources(False, False, False, True)
    >>> [overall(0.0, in_vain, reading, complete=complete) for reading in READINGS for complete in (True, False)]
    [0.0, -0.1, 0.0, -0.1, -0.1, 0.0]
    """
    if accuracy > 0:
        return accuracy
    wrong_source = penalty > 0 and complete == (found.used if reading == "use" else found.web)
    retrieved = found.pays_graph or found.pays_web
    if reading == "top-down" and retrieved:
        return LEAST
    if wrong_source:
        return -penalty
    return LEAST if retrieved else 0.0


def web_documents(episode: Episode) -> str | None:
    """All that the web was heard to say; None if it was never used: no search, or none that was answered."""
    used = [turn for turn in episode.turns if isinstance(turn.step, Call) and turn.step.tool == WEB and turn.ok]
    if not used:
        return None
    found = [text for turn in used for text in _DOCUMENTS.findall(turn.observation)]
    return "\n".join(unescape(_NUMBERED.sub("", text)) for text in found)


def _stands_in(name: str, text: str) -> bool:
    """As whole words, case, accents and punctuation aside; of a name whose symbols mean something only case.

    >>> [_stands_in(name, "He wrote C++ in Sao Paulo") for name in ("C", "c++", "São Paulo", "Paul", "")]
    [False, True, True, False, False]
    """
    folded = normalise(name)
    if folded and folded == key(name) and len(folded) > 1:
        return f" {folded} " in f" {normalise(text)} "
    plain, said = forms(name).plain, " ".join(text.casefold().split())
    return bool(plain) and re.search(rf"(?<![\w+#]){re.escape(plain)}(?![\w+#])", said) is not None


@BUILDERS.add("plan")
def plan_case(episode: Episode, plan: str | None = None) -> Case:
    """Is the plan reasonable? (Graph-RFT, appendix A.1) Without `plan`, the first one that the episode's turns hold
    in Graph-RFT's form; a plan that its parser could not read is none."""
    written = plan_of(episode) if plan is None else plan
    return Case("plan", episode.question.question, plan=written, void=void_of(episode))


def plan_of(episode: Episode) -> str:
    """The plan as the walk kept it, or "".

    >>> from kgwalk.types import Malformed, Question, Turn
    >>> text = '<think>x</think><plan>Step 1: Who? Ans1 = SearchKG(t=team | h=Rocky, r=mascot)</plan>'
    >>> print(plan_of(Episode(Question("q", "?", [], []), [], [], "", [Turn([], [], text, Malformed("no action"))])))
    Step 1: Who?
    Ans1 = SearchKG(t="team" | h="Rocky", r="mascot")
    """
    for turn in episode.turns:
        _, plan = parse(turn.text, planned=False)
        if plan is not None:
            return str(plan)
    return ""
