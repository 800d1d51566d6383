"""What is read of a reply that does not keep to the form: worked examples, and that no reply breaks the reader."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kgwalk.bench.servers import ScanGraph
from kgwalk.config.recipe import load_recipe
from kgwalk.llm.engine import ScriptedEngine
from kgwalk.score.episode import measure
from kgwalk.systems.baselines.protocol import COT_EXAMPLES, VANILLA_EXAMPLES, parse
from kgwalk.types import Answer, Malformed, Question
from kgwalk.walk.policy import protocol_of
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.rollout import rollout
from kgwalk.walk.tagged_text import plain_names

READ = {
    # the form that is asked for
    "Answer: Mercury | Venus": ["Mercury", "Venus"],
    "Two have none.\nAnswer: Mercury | Venus": ["Mercury", "Venus"],
    "Answer: Washington, D.C. | Paris": ["Washington, D.C", "Paris"],  # a full stop at the end of a name is nothing
    # other words that announce an answer; the last ones count
    "The answer is Berlin.": ["Berlin"],
    "The answer to this question is: 6": ["6"],
    "**Final answer:** Big, Splash": ["Big", "Splash"],
    "Answer: The correct answers are Big; Splash, the film": ["Big", "Splash, the film"],
    "Answer: Rome\nNo, wait.\nAnswer: Paris\nIt lies on the Seine.": ["Paris"],
    "Answer:\n\nBerlin": ["Berlin"],
    "Answer: Berlin\n\nThe answer is": ["Berlin"],  # nothing comes after the last
    "ANSWER : Berlin": ["Berlin"],
    # none: the last line
    "Penny Marshall": ["Penny Marshall"],
    "I think of films.\nBig, Splash, and Cast Away.\n\n": ["Big", "Splash", "Cast Away"],
    "The capital of Germany is Berlin.": ["The capital of Germany is Berlin"],  # a sentence is one name
    "```\nBerlin\n```": ["Berlin"],
    # lists
    "They are:\n1. Mercury\n2. Venus": ["Mercury", "Venus"],
    "Answer:\n- Mercury\n- **Venus**\nBoth are small.": ["Mercury", "Venus"],
    "* Mercury\n\n* Venus.": ["Mercury", "Venus"],
    "Answer: Alpha - Omega": ["Alpha - Omega"],
    "- Not this one.\nBut this one": ["But this one"],
    # numbers, quotes, brackets
    "Answer: 679,400": ["679,400"],
    "Answer: 1998,1999": ["1998", "1999"],
    'Answer: "Big"': ["Big"],
    'Answer: "Weird Al" Yankovic': ['"Weird Al" Yankovic'],
    'Answer: ["Washington, D.C.", 1998]': ["Washington, D.C.", "1998"],
    "Answer: [Mercury, Venus]": ["Mercury", "Venus"],
    "A &lt; B; C": ["A < B", "C"],  # as names are written in a prompt
    # answer tags that are left open, or hold no list of names
    '<answer>["Mercury", "Ven': ["Mercury", "Ven"],
    "I go film by film. <answer>[1, 2]</answer> and more": ["1", "2"],
    "Berlin</answer>": ["Berlin"],
    # thoughts are not the answer
    "<think>The answer is Rome.</think>\nParis": ["Paris"],
    "Paris\n<think>The answer is": ["Paris"],
    # a name may have the word in it
    "Answer: Answer Me": ["Answer Me"],
}


@pytest.mark.parametrize("reply", READ)
def test_what_is_read(reply: str) -> None:
    assert list(plain_names(reply)) == READ[reply]
    assert parse(reply) == Answer(tuple(READ[reply]))


@pytest.mark.parametrize("reply", ["", " \n", "...", "[]", "The answer is:", "<answer></answer>", "<think>Paris", "- "])
def test_nothing_to_read(reply: str) -> None:
    assert plain_names(reply) == ()
    assert isinstance(parse(reply), Malformed)


def test_an_answer_in_tags_is_read_first() -> None:
    assert parse('Answer: Rome <answer>["Paris | Oslo", "Big."]</answer>') == Answer(("Paris | Oslo", "Big."))
    assert parse("Answer: Rome <answer>Washington, D.C.</answer>") == Answer(("Washington, D.C.",))
    assert parse("Answer: Rome <answer>[]</answer>") == Answer(()), "the answer that there is none"


def test_the_examples_of_the_prompts_are_read_as_they_are_meant() -> None:
    for examples in (VANILLA_EXAMPLES, COT_EXAMPLES):
        assert [list(plain_names(reply)) for _, reply in examples] == [["Mercury", "Venus"], ["carbon dioxide"]]


PIECES = [
    *[
        "answer",
        "The answer is",
        "Answer:",
        "answers to",
        "are",
        "final ",
        "<answer>",
        "</answer>",
        "<think>",
        "</think>",
    ],
    *["\n", " ", "- ", "* ", "1. ", "2) ", "|", ";", ",", ".", '"', "*", "`", "[", "]", "and ", "x", "Big", "679,400"],
    *["&lt;", "&#55296;", "&#10;", "\ud800", "\x00", "\u2028", '["a"]', "[1, null]", "["],
]


@example("[" * 100_000)
@example("Answer: [" + "1" * 5_000 + "]")
@example("the " * 20_000 + "the" + " " * 50_000)
@example("answer to " * 20_000)
@example("answer" + " " * 50_000 + "answer" + "*" * 50_000)
@given(st.text(max_size=80) | st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_no_reply_breaks_the_reader(reply: str) -> None:
    names = plain_names(reply)
    assert all(name.strip() == name != "" for name in names)
    "".join(names).encode()  # no half surrogates


@given(st.lists(st.from_regex(r"[A-Z][a-z]{1,8}( [A-Z][a-z]{1,8}(, [A-Z][a-z]{1,8})?)?", fullmatch=True), min_size=2))
def test_names_in_the_form_asked_for_are_read_back(names: list[str]) -> None:
    assert list(plain_names(f"A thought.\nAnswer: {' | '.join(names)}")) == names


@pytest.mark.parametrize("recipe", ["vanilla", "cot"])
def test_scores_of_a_sentence(recipe: str) -> None:
    """A sentence is no name, so strict scores are 0; the loose one finds the name in it. It is not malformed."""
    replies = {
        "The capital of Germany is Berlin.": {"f1": 0.0, "hits_at_1": 0.0, "hit_any": 0.0, "hit_substring": 1.0},
        "Answer: Berlin": {"f1": 1.0, "hits_at_1": 1.0, "hit_any": 1.0, "hit_substring": 1.0},
        "Answer: Bonn | Berlin": {"f1": 2 / 3, "hits_at_1": 0.0, "hit_any": 1.0, "hit_substring": 1.0},
        "Answer: Bonn": {"f1": 0.0, "hits_at_1": 0.0, "hit_any": 0.0, "hit_substring": 0.0},
    }
    task = Task(Question("q", "what is the capital of germany", ["Germany"], ["Berlin"]), ["Germany"])
    for reply, scores in replies.items():
        protocol = protocol_of(load_recipe(recipe))
        [episode] = rollout([(task, Environment(ScanGraph([])))], protocol, ScriptedEngine([reply]))
        found = measure(episode)
        assert {name: found[name] for name in scores} == pytest.approx(scores)
        assert (found["malformed"], found["answered"]) == (0, 1)
