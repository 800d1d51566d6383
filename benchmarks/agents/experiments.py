"""What is tried: each experiment is data, a name for a training run and what it is tested on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

SETS = ("metaqa", "pq-2h", "pq-3h", "wc2014", "webqsp-fbpool", "cwq-fbpool", "timequestions")
BUNDLED = "world"
TESTED = (*SETS, BUNDLED)
# Of which graph a set's questions, and questions made, are: those of one graph are left out together.
FREEBASE = ("webqsp-fbpool", "cwq-fbpool", "grailqa-fbpool", "made-fbpool")
GRAPHS = {
    "metaqa": ("metaqa", "made-metaqa"),
    "pq": ("pq-2h", "pq-3h", "made-pq-2h", "made-pq-3h"),  # two cuts of one source, with the same relations
    "wc2014": ("wc2014", "made-wc2014"),
    "fbpool": FREEBASE,
    "timequestions": ("timequestions", "made-timequestions"),
    "world": ("world", "made-world"),
}
TESTED_LEFT_OUT = {
    "metaqa": ("metaqa",),
    "pq": ("pq-2h", "pq-3h"),
    "wc2014": ("wc2014",),
    "fbpool": ("webqsp-fbpool", "cwq-fbpool"),
    "timequestions": ("timequestions",),
    "world": ("world",),
}
# Graphs that questions are made from: the source, a dataset or a graph alone, and how many.
MADE = {
    "made-world": ("world", 3000),
    "made-fbpool": ("cwq-fbpool", 8000),
    "made-metaqa": ("metaqa", 3000),
    "made-pq-2h": ("pq-2h", 1000),
    "made-pq-3h": ("pq-3h", 2000),
    "made-wc2014": ("wc2014", 2500),
    "made-timequestions": ("timequestions", 2500),
    "made-fb15k237": ("kg-fb15k237", 5000),
    "made-pql-3h": ("pql-3h", 1500),
}
FRESH = "fresh-fbpool"  # made for GRPO alone, with another seed
# Demonstrations of the second stage: how many times all of a file, or how many of it.
WORLDS = 34_000  # demonstrations of the first stage
MIXED: dict[str, float | int] = {
    "worlds": 8000,
    **dict.fromkeys(MADE, 1.0),
    "metaqa": 8000,
    "pq-2h": 1.0,
    "pq-3h": 1.0,
    "wc2014": 4000,
    "cwq-fbpool": 3.0,
    "webqsp-fbpool": 4.0,
    "timequestions": 2.0,
    "world": 3.0,
}
SFT = ("sft.epochs=1", "sft.batch=64", "sft.eval_questions=200", "sft.save_every=100000")
GRPO = (
    'curriculum.order="variance"',  # most questions of training are known by heart after SFT
    "grpo.lr=1.5e-4",
    "grpo.questions=64",
    "grpo.eval_every=0",
    "grpo.eval_questions=200",
    "grpo.save_every=100000",
)
PAPERS = ("kg-r1", "graph-rft", "kg-reasoner", "kg-hopper", "eog")


@dataclass(frozen=True)
class Experiment:
    """A training run: `demos` are files of WORK/demos and how much of each, for SFT; `data` the questions of GRPO.

    `start` is the experiment whose adapter is gone on from. `tests` are datasets, by their test splits.
    """

    what: str
    start: str | None = None
    demos: dict[str, float | int] = field(default_factory=dict)
    data: tuple[str, ...] = ("metaqa:200",)
    values: tuple[str, ...] = ()
    tests: tuple[str, ...] = TESTED
    recipe: str = "kgwalk"
    seed: int = 0

    @property
    def stage(self) -> str:
        return "sft" if self.demos else "grpo"


def without(demos: dict[str, float | int], names: Iterable[str]) -> dict[str, float | int]:
    """
    >>> without({"metaqa": 8000, "made-metaqa": 1.0, "pq-2h": 1.0}, GRAPHS["metaqa"])
    {'pq-2h': 1.0}
    """
    return {name: much for name, much in demos.items() if name not in set(names)}


def _experiments() -> dict[str, Experiment]:
    found = {
        "worlds": Experiment("random worlds alone", demos={"worlds": WORLDS}, values=(*SFT, "sft.lr=2e-3")),
        "all": Experiment("then made questions and train splits", "worlds", MIXED, values=(*SFT, "sft.lr=1.5e-3")),
        "agent": Experiment(
            "then GRPO: the agent that is shipped",
            "all",
            data=("cwq-fbpool", "webqsp-fbpool", FRESH, "world", "pq-3h:400", "metaqa:400", "timequestions:300"),
            values=(*GRPO, "grpo.questions=128", "grpo.steps=80"),
        ),
        "worlds-grpo": Experiment(
            "random worlds alone, then GRPO on them",
            "worlds",
            data=("worlds:20000",),
            values=(*GRPO, "grpo.questions=128", "grpo.steps=60"),
        ),
    }
    for graph, names in GRAPHS.items():
        found[f"without-{graph}"] = Experiment(
            f"as `all`, but nothing of {graph}",
            "worlds",
            without(MIXED, names),
            values=(*SFT, "sft.lr=1.5e-3"),
            tests=TESTED_LEFT_OUT[graph],
        )
    for seed in range(3):
        found[f"grpo-{seed}"] = Experiment(
            f"GRPO after `all` on cwq-fbpool and webqsp-fbpool, seed {seed}",
            "all",
            data=("cwq-fbpool", "webqsp-fbpool"),
            values=(*GRPO, "grpo.questions=192", "grpo.steps=60", "grpo.eval_every=10"),
            tests=("cwq-fbpool", "webqsp-fbpool"),
            seed=seed,
        )
    for recipe in (*PAPERS, "kgwalk"):
        for data in ("metaqa-23", "cwq-fbpool"):
            name = f"{recipe}-on-{data}"
            found[f"{name}-sft"] = Experiment(
                f"{recipe}, SFT on demonstrations of {data}, 2 minutes",
                demos={f"{recipe}/{data}": 1.0},
                values=("sft.epochs=4", "sft.batch=32", "sft.lr=1e-3", "sft.minutes=2"),
                tests=(data,),
                recipe=recipe,
            )
            found[name] = Experiment(
                f"{recipe}, then GRPO on {data}, 2 minutes",
                f"{name}-sft",
                data=(data,),
                values=("grpo.questions=64", "grpo.group=8", "grpo.lr=1e-4", "grpo.minutes=2"),
                tests=(data,),
                recipe=recipe,
            )
    return found


EXPERIMENTS = _experiments()
