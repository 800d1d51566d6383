"""What a fit must not forget: questions about random worlds, a share of what an agent learns a new graph by.

Questions made from one graph have a few relations and the words of their names. An agent that learns from these alone
gets better at them, and worse at questions as people ask them: MetaQA's graph, F1 on made questions 0.91 to 0.98, on
labelled ones 0.85 to 0.79. Worlds have other relations, and the bank's phrasings. Knows how many, not what is learnt.
"""

from __future__ import annotations

import math
from pathlib import Path

from kgwalk.data.bank.concepts import load_bank
from kgwalk.data.dataset import Dataset
from kgwalk.questions.worlds.join import JoinSettings, write_worlds
from kgwalk.training.loop import Progress

WORLDS = "worlds"  # of the dataset, and of its folder in the run's
SHARE = 1 / 3  # of the course
MOST = 2500  # questions: each takes some hundredths of a second to make
PER_WORLD = 30


def of_course(questions: int) -> int:
    """How many of a course are about worlds.

    >>> of_course(300), of_course(16000)
    (100, 2500)
    """
    return min(round(SHARE * questions), MOST)


def rehearse(run: Path, questions: int, seed: int, progress: Progress) -> None:
    """Write so many questions about worlds into a run's folder, or a few less: not every world has all of its own."""
    worlds = math.ceil(questions / PER_WORLD)
    settings = JoinSettings(worlds=worlds, per_world=math.ceil(questions / worlds), seed=seed, dev=0.0, test=0.0)
    write_worlds(
        run / WORLDS,
        settings,
        load_bank(),
        replace_target=True,
        progress=lambda what, done, total: progress(WORLDS, done, total or done, {}),
    )


def rehearsed(run: Path) -> list[Dataset]:
    """What is there: the worlds of a run that has some."""
    return [Dataset(WORLDS, run / WORLDS)] if (run / WORLDS).exists() else []
