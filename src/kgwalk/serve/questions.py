"""The questions of a served dataset: an id stands for the view of the graph that its walk sees.

So an agent that is trained or evaluated against a server sees what it would see without one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kgwalk.config.recipe import Recipe
from kgwalk.data.dataset import Dataset, load_dataset
from kgwalk.kg.graph import Graph
from kgwalk.types import KgwalkError, Question, UnknownQuestion
from kgwalk.walk.environment import Environments, EnvironmentSettings, crucial_facts, environment_settings
from kgwalk.walk.protocol import Environment


def settings_of(values: Mapping[str, Any]) -> EnvironmentSettings:
    """The values of a section [world]; an error names what is wrong."""
    return environment_settings(Recipe("serve", {"world": values}))


@dataclass(frozen=True)
class Questions:
    """The questions of a dataset by their ids, and the environments of their walks."""

    dataset: Dataset
    environments: Environments
    by_id: dict[str, Question] = field(repr=False)

    def graph(self, question: str) -> Graph:
        if question not in self.by_id:
            raise UnknownQuestion(question, where=f"the questions of {self.dataset.name}")
        return self.environments.of(self.by_id[question]).graph


def open_questions(data: str, settings: EnvironmentSettings) -> Questions:
    """The questions of every split of a dataset; one id stands for one view."""
    dataset = load_dataset(data)
    dataset.hold()
    by_id: dict[str, Question] = {}
    for split in dataset.splits():
        for question in dataset.questions(split):
            known = by_id.setdefault(question.id, question)
            if settings.drop > 0 and crucial_facts(known) != crucial_facts(question):
                raise KgwalkError(
                    f"two questions of {dataset.name} have the id {question.id!r} and other facts; with facts hidden "
                    "an id must stand for one question"
                )
    return Questions(dataset, Environments(dataset.graph_for, settings, Environment), by_id)
