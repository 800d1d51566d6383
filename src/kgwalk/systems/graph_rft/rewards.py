"""Graph-RFT's reward (section 3.3.2, equations 2 to 8): accuracy, retrieval, the right source.

Accuracy comes first, then retrieval, and a penalty for searching the wrong source. The paper's own protocol is the one
with a web search; in others the web is never used.
"""

from __future__ import annotations

import re

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


@whole_reward("graph_rft")
def graph_rft(outcome: Outcome) -> float:
    """R_over. The cases in the order in which they are tested here; the first that fits decides:

    | # | form | web | graph was | every right answer shown | R_over |
    |---|---|---|---|---|---|
    | 1 | right | | | | max(0.1, F1) |
    | 2 | wrong | used | complete | | -0.1 |
    | 3 | wrong | not used | incomplete | | -0.1 |
    | 4 | wrong | | | by the graph or by the web | 0.1 |
    | 5 | wrong | | | neither | 0 |

    As printed the cases overlap: with a complete graph, a walk in the wrong form that found all answers on the web gets
    0.1 by the second line of equation 8 and -0.1 by its third; with an incomplete graph and nothing retrieved it gets
    -0.1 by the third and 0 by the fourth. Read from the top, the penalty would hardly ever apply, so it is tested
    before the 0.1. Its condition is printed as R_web > 0 (the web showed every answer); the text speaks of turning to
    the web at all, and that is what is tested.

    Right form, two names, one of them right, of one: F1 = 2/3 and R_over = 0.667. All wrong: 0.1.
    """
    documents = web_documents(outcome.episode)
    accuracy = accuracy_reward(outcome.in_form, outcome.metrics["f1"])
    shown = graph_reward(outcome) or web_reward(documents, gold_of(outcome.episode.question))
    return overall(accuracy, shown=bool(shown), web=documents is not None, complete=outcome.complete)


def accuracy_reward(in_form: bool, f1: float) -> float:
    """R_acc, equation 2.

    >>> accuracy_reward(True, 0.5), accuracy_reward(True, 0.0), accuracy_reward(False, 0.5)
    (0.5, 0.1, 0.0)
    """
    return max(LEAST, f1) if in_form else 0.0


def graph_reward(outcome: Outcome) -> float:
    """R_graph, equations 4 and 5: 1 if searches of the graph showed every right answer. Two of three: 0."""
    return outcome.metrics["retrieval_all"]


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


def overall(accuracy: float, *, shown: bool, web: bool, complete: bool) -> float:
    """R_over, equation 8, as `graph_rft` orders it.

    >>> overall(0.5, shown=False, web=True, complete=True)
    0.5
    >>> overall(0.0, shown=True, web=True, complete=True), overall(0.0, shown=True, web=False, complete=False)
    (-0.1, -0.1)
    >>> overall(0.0, shown=True, web=False, complete=True), overall(0.0, shown=True, web=True, complete=False)
    (0.1, 0.1)
    >>> overall(0.0, shown=False, web=False, complete=True), overall(0.0, shown=False, web=True, complete=False)
    (0.0, 0.0)
    """
    if accuracy > 0:
        return accuracy
    if web == complete:
        return -0.1
    return LEAST if shown else 0.0


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
