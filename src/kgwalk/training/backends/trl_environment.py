"""A graph as an environment in TRL's own sense: for those who have a training script and want a graph in it.

    trainer = GRPOTrainer(
        model="Qwen/Qwen3-0.6B",
        args=GRPOConfig(output_dir="mine", max_completion_length=1024, max_tool_calling_iterations=6),
        train_dataset=Dataset.from_list(question_rows(data.questions("train"))),
        environment_factory=partial(GraphEnvironment, data.graph_for),
    )

TRL makes one `GraphEnvironment` for each rollout, shows its public methods to the model as tools, runs what the model
calls, and asks it for the reward. The prompt, the calls and what is between them are in the form of the model's chat
template; everything else is TRL's. For kgwalk's systems, with their prompts, rewards and credit for turns, there is
`kgwalk train --backend trl`. Needs neither trl nor torch; examples/trl_environment.py is a whole script.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from kgwalk.config.run_folder import question_of, row_of
from kgwalk.kg.graph import Graph
from kgwalk.score.answers import f1, gold_of
from kgwalk.types import KgwalkError, Question
from kgwalk.walk.actions import run

INSTRUCTIONS = (
    "Answer the question from a knowledge graph. Look around with the tools, which take names exactly as they were "
    "shown to you, and give the answer with the tool answer."
)
LISTED = 40  # names that an observation has, at most
QUESTION = "kgwalk_question"


def question_rows(questions: Iterable[Question]) -> list[dict[str, Any]]:
    """A row of TRL's dataset for each question: the conversation so far, and the question with all that is known of it.

    >>> row = question_rows([Question("q", "who directed Big?", ["Big"], ["Penny Marshall"])])[0]
    >>> row["prompt"][1]
    {'role': 'user', 'content': 'who directed Big?\\nStart from: Big'}
    """
    rows = []
    for question in questions:
        asked = f"{question.question}\nStart from: {', '.join(question.topic_entities)}"
        prompt = [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": asked}]
        # as text: a table's columns would give every question the fields of all others
        rows.append({"prompt": prompt, QUESTION: json.dumps(row_of(question))})
    return rows


class GraphEnvironment:
    """One rollout's state: its question, its graph, what it answered. TRL calls all methods.

    The reward is the F1 of the answer; None, which TRL leaves out of the group's mean, if the graph failed: that is no
    fault of the model's.
    """

    def __init__(self, graph_for: Callable[[Question], Graph]) -> None:
        self._graph_for = graph_for
        self._question: Question | None = None
        self._answers: list[str] = []
        self._failed = False

    def reset(self, **row: Any) -> None:
        """Begin a rollout of a row of `question_rows`."""
        if QUESTION not in row:
            raise KgwalkError(f"the dataset's rows have no column {QUESTION}; make them with `question_rows`")
        self._question = question_of(json.loads(row[QUESTION]), "")
        self._answers, self._failed = [], False

    def get_reward(self) -> float | None:
        """What the rollout earned."""
        if self._failed:
            return None
        question = self._asked
        return f1(self._answers, gold_of(question), self._graph_for(question)) if self._answers else 0.0

    def get_head_relations(self, entity: str) -> str:
        """
        Lists the relations of facts that have the entity as their tail.

        Args:
            entity: The entity's name.

        Returns:
            The names of the relations.
        """
        return self._run("get_head_relations", entity)

    def get_tail_relations(self, entity: str) -> str:
        """
        Lists the relations of facts that have the entity as their head.

        Args:
            entity: The entity's name.

        Returns:
            The names of the relations.
        """
        return self._run("get_tail_relations", entity)

    def get_head_entities(self, entity: str, relation: str) -> str:
        """
        Lists the heads of the facts with this relation and the entity as tail.

        Args:
            entity: The entity's name.
            relation: The relation's name.

        Returns:
            The names of the heads.
        """
        return self._run("get_head_entities", entity, relation)

    def get_tail_entities(self, entity: str, relation: str) -> str:
        """
        Lists the tails of the facts with the entity as head and this relation.

        Args:
            entity: The entity's name.
            relation: The relation's name.

        Returns:
            The names of the tails.
        """
        return self._run("get_tail_entities", entity, relation)

    def answer(self, names: list[str]) -> str:
        """
        Gives the answer to the question. Call it once, at the end.

        Args:
            names: The names of all entities that answer the question.

        Returns:
            That the answer was noted.
        """
        self._answers = [str(name) for name in names]
        return "The answer is noted."

    @property
    def _asked(self) -> Question:
        if self._question is None:
            raise KgwalkError("the environment was asked before `reset`")
        return self._question

    def _run(self, action: str, entity: str, relation: str | None = None) -> str:
        """A wrong name is an observation like any other; a graph that fails is remembered, and TRL tells the model."""
        try:
            return run(self._graph_for(self._asked), action, str(entity), relation, limit=LISTED).text
        except KgwalkError:
            self._failed = True
            raise
