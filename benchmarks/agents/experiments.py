"""What is tried: each experiment is data, a name for a training run and what it is tested on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kgwalk.config.recipe import unknown

SETS = ("metaqa", "pq-2h", "pq-3h", "wc2014", "webqsp-fbpool", "cwq-fbpool", "timequestions")
BUNDLED = "world"
LEARNT = ("grailqa-fbpool",)  # its train split is learnt; it is too easy to be a test
TESTED = (*SETS, BUNDLED)
SAMPLED = ("metaqa:3000", *TESTED[1:])  # metaqa has 26,835 test questions
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
    "metaqa": ("metaqa:3000",),
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
FRESH_WORLDS = "fresh-worlds"  # as well
# Demonstrations: how many times all of a file, or how many of it.
WORLDS = 44_000  # of the first stage
MIXED: dict[str, float | int] = {
    "worlds": 8000,
    **dict.fromkeys(MADE, 1.0),
    "metaqa": 8000,
    "pq-2h": 1.0,
    "pq-3h": 1.0,
    "wc2014": 4000,
    "cwq-fbpool": 3.0,
    "webqsp-fbpool": 4.0,
    "grailqa-fbpool": 2.0,
    "timequestions": 2.0,
    "world": 3.0,
}
# What GRPO on fbpool starts from: half of the labelled questions are left to it.
HALF = MIXED | {"cwq-fbpool": 0.5, "webqsp-fbpool": 0.5, "worlds": 6000, "metaqa": 5000, "wc2014": 2500}
# Left-out agents learn less of everything else: it is the graph that is missing that counts.
LESS = MIXED | {
    "worlds": 4000,
    **dict.fromkeys(MADE, 0.5),
    "metaqa": 2000,
    "pq-2h": 0.5,
    "pq-3h": 1500,
    "wc2014": 1500,
    "cwq-fbpool": 1.0,
    "webqsp-fbpool": 1.5,
    "grailqa-fbpool": 1.0,
    "timequestions": 1.0,
    "world": 1.0,
}
# What may be learnt from by anyone: sources that state a licence. More invented questions fill the gap.
LICENSED: dict[str, float | int] = {
    "worlds": 24_000,
    "made-world": 1.0,
    "made-metaqa": 1.0,
    "made-fb15k237": 1.0,
    "metaqa": 8000,
    "world": 3.0,
}
SFT = ("sft.epochs=1", "sft.batch=64", "sft.eval_questions=200", "sft.save_every=100000")
GRPO = (
    'curriculum.order="variance"',  # most questions of training are known by heart after SFT
    "grpo.lr=1.5e-4",
    "grpo.questions=128",
    "grpo.eval_every=0",
    "grpo.eval_questions=200",
    "grpo.save_every=100000",
)
FITTED = 8.0  # minutes, as many as a fit has on a GPU unless told
PAPERS = ("kg-r1", "graph-rft", "kg-reasoner", "kg-hopper", "eog")
COMPARED = {"metaqa-23": 2000, "cwq-fbpool": 1500}  # sets on which recipes are compared, and demonstrations of each
DROPS = (0.2, 0.4, 0.6)
QUICK = ("sft.eval_questions=64", "sft.save_every=100000")
BRIEF = (*QUICK, "grpo.eval_every=0", "grpo.save_every=100000", "grpo.lr=1e-4")
ABLATED = "cwq-fbpool"  # relations with dots: a hierarchy of them says something
ABLATED_MADE = "made-fbpool"  # beside it, for a start that has learnt to walk: 1,300 labelled questions are few
ABLATED_DEMOS = 4000  # of these
TRIED = ("grpo.questions=32", "grpo.group=8", "grpo.steps=16")  # of an ablation, three seeds each
HIERARCHY = "flat-relations"
# KG-R1, Table 3: what is taken away, by values of the recipe.
KG_R1_WITHOUT = {
    "nothing": (),
    "turn-rewards": ("turn_rewards.format=0", "turn_rewards.query=0", "turn_rewards.answer=0"),
    "turn-advantage": ('grpo.advantage="trajectory"',),
    "retrieval-reward": ("rewards.retrieval=0",),
    HIERARCHY: ('protocol.relation_format="hierarchical"',),  # ours is flat, as section 4.3 has it
}
EOG_WITHOUT = {"nothing": (), "path-reward": ('reward_settings.path_form="none"',), "sft": ()}

FIT = "fit.json"  # what came of a fit, in its run's folder
VALIDATED = ("metaqa:200",)  # by SFT on a mixture, at its end


@dataclass(frozen=True)
class Experiment:
    """A training run, and what it is tested on.

    `demos` are files of WORK/demos and how much of each, for SFT; `data` the questions of GRPO; `fitted` the set to
    whose graph `kgwalk fit` is put instead. Without any of these nothing is trained: a baseline. `start` is the
    experiment whose adapter is gone on from. `tests` are datasets, by their test splits, "name:1000" a sample of one;
    `ways` are other ways to walk them, by values.
    """

    what: str
    start: str | None = None
    demos: dict[str, float | int] = field(default_factory=dict)
    data: tuple[str, ...] = ()
    fitted: str | None = None
    minutes: float = 0.0  # of a fit
    values: tuple[str, ...] = ()
    tests: tuple[str, ...] = SAMPLED
    ways: dict[str, tuple[str, ...]] = field(default_factory=lambda: {"": ()})
    recipe: str = "kgwalk"
    profile: str | None = None
    seed: int = 0

    @property
    def stage(self) -> str | None:
        return "sft" if self.demos else "grpo" if self.data else "fit" if self.fitted else None


def plain(data: str) -> str:
    """
    >>> plain("metaqa:3000"), plain("pq-2h")
    ('metaqa', 'pq-2h')
    """
    return data.partition(":")[0]


def folder_name(name: str, data: str, way: str = "") -> str:
    """Of a test's folder.

    >>> folder_name("agent", "metaqa:3000"), folder_name("agent-runs", "pq-2h", "runs-3")
    ('agent-metaqa', 'agent-runs-pq-2h-runs-3')
    """
    return "-".join(filter(None, [name, plain(data), way]))


def without(demos: dict[str, float | int], names: Iterable[str]) -> dict[str, float | int]:
    """
    >>> without({"metaqa": 8000, "made-metaqa": 1.0, "pq-2h": 1.0}, GRAPHS["metaqa"])
    {'pq-2h': 1.0}
    """
    return {name: much for name, much in demos.items() if name not in set(names)}


def _ours() -> dict[str, Experiment]:
    """The agent that is shipped, what its parts are worth, and graphs it has never seen."""
    found = {
        "worlds": Experiment("random worlds alone", demos={"worlds": WORLDS}, values=(*SFT, "sft.lr=2e-3")),
        "all": Experiment("then made questions and train splits", "worlds", MIXED, values=(*SFT, "sft.lr=1.5e-3")),
        "agent": Experiment(
            "then GRPO: the agent that is shipped",
            "all",
            data=(
                "cwq-fbpool",
                "webqsp-fbpool",
                f"{FRESH}:800",
                "world",
                "pq-3h:200",
                "metaqa:200",
                "timequestions:200",
            ),
            values=(*GRPO, "grpo.questions=96", "grpo.steps=80"),
        ),
        "licensed-all": Experiment(
            "as `all`, but only of sources that state a licence",
            "worlds",
            LICENSED,
            values=(*SFT, "sft.lr=1.5e-3"),
        ),
        "licensed-agent": Experiment(
            "then GRPO, as `agent`, on questions of such sources",
            "licensed-all",
            data=(FRESH_WORLDS, "world", "metaqa:400"),
            values=(*GRPO, "grpo.questions=96", "grpo.steps=80"),
        ),
        "half-agent": Experiment(
            "GRPO after `half` on a mixture with as many made questions as labelled ones",
            "half",
            data=("cwq-fbpool", "webqsp-fbpool", FRESH, "world", "pq-3h:400", "metaqa:400", "timequestions:300"),
            values=(*GRPO, "grpo.questions=96", "grpo.steps=60"),
        ),
        "agent-runs": Experiment(
            "the agent, each question walked three times: the union of the answers",
            "agent",
            tests=("cwq-fbpool", "webqsp-fbpool"),
            ways={f"runs-{runs}": (f"eval.runs={runs}", "eval.temperature=1") for runs in (1, 3)},
        ),
        "worlds-grpo": Experiment(
            "random worlds alone, then GRPO on others",
            "worlds",
            data=(FRESH_WORLDS,),
            values=(*GRPO, "grpo.questions=96", "grpo.steps=80"),
        ),
        "half": Experiment(
            "as `all`, but half of fbpool's questions, once",
            "worlds",
            HALF,
            values=(*SFT, "sft.lr=1.5e-3"),
            tests=("cwq-fbpool", "webqsp-fbpool"),
        ),
    }
    for graph, names in GRAPHS.items():
        found[f"without-{graph}"] = Experiment(
            f"as `all`, but nothing of {graph}",
            "worlds",
            without(LESS, names),
            values=(*SFT, "sft.lr=1.5e-3"),
            tests=TESTED_LEFT_OUT[graph],
        )
        for data in TESTED_LEFT_OUT[graph]:
            name = plain(data)
            found[f"fit-{name}"] = Experiment(
                f"`kgwalk fit` to the graph of {name} after `worlds-grpo`, {FITTED:g} minutes",
                "worlds-grpo",
                fitted=name,
                minutes=FITTED,
                tests=(data,),
            )
    for seed in range(3):
        found[f"grpo-{seed}"] = Experiment(
            f"GRPO after `half` on all of cwq-fbpool and webqsp-fbpool, seed {seed}",
            "half",
            data=("cwq-fbpool", "webqsp-fbpool"),
            values=(*GRPO, "grpo.questions=64", "grpo.steps=60", "grpo.eval_every=15"),
            tests=("cwq-fbpool", "webqsp-fbpool"),
            seed=seed,
        )
    return found


def _baselines() -> dict[str, Experiment]:
    """The model itself, without a graph."""
    tests = tuple(f"{name}:300" for name in TESTED)
    recipes = ("vanilla", "cot")
    ways = {"": ("protocol.examples=true",)}
    return {
        recipe: Experiment(f"the untrained model: {recipe}", recipe=recipe, tests=tests, ways=ways)
        for recipe in recipes
    }


def _papers() -> dict[str, Experiment]:
    """Every recipe on the same model and questions, for as many epochs of SFT and minutes of GRPO."""
    found = {}
    for recipe in (*PAPERS, "kgwalk"):
        for data in COMPARED:
            name = f"{recipe}-on-{data}"
            found[f"{name}-sft"] = Experiment(
                f"{recipe}, SFT on demonstrations of {data}, two epochs",
                demos={f"{recipe}/{data}": 1.0},
                data=(data,),
                values=(*QUICK, "sft.epochs=2", "sft.batch=32", "sft.lr=1e-3"),
                tests=(f"{data}:300",),
                recipe=recipe,
                profile="135m",
            )
            hides = recipe == "graph-rft"
            whole = ("world.drop=0",) if hides else ()
            drops = {f"drop-{drop}": (f"world.drop={drop}", "world.share=1") for drop in DROPS if hides}
            found[name] = Experiment(
                f"{recipe}, then GRPO on {data}, 90 seconds",
                f"{name}-sft",
                data=(data,),
                values=(*BRIEF, "grpo.questions=64", "grpo.group=8", "grpo.minutes=1.5"),
                tests=(f"{data}:300",),
                ways={"": whole, **drops},
                recipe=recipe,
                profile="135m",
            )
    return found


def _ablations() -> dict[str, Experiment]:
    """What KG-R1 and Explore-on-Graph take away, from the same SFT, three seeds."""
    data, tests, profile = (ABLATED,), (f"{ABLATED}:300",), "135m"
    flat = f"kg-r1-without-{HIERARCHY}"
    starts = {"kg-r1": ("kg-r1", ()), flat: ("kg-r1", KG_R1_WITHOUT[HIERARCHY]), "eog": ("eog", ())}
    found = {
        f"{name}-start": Experiment(
            f"SFT that ablations of {recipe} start from",
            demos={f"{name}/{ABLATED}": 2.0, f"{name}/{ABLATED_MADE}": 1.0},
            data=data,
            values=(*QUICK, "sft.epochs=1", "sft.batch=32", "sft.lr=1e-3", *values),
            tests=tests,
            recipe=recipe,
            profile=profile,
        )
        for name, (recipe, values) in starts.items()
    }
    for seed in range(3):
        for part, values in KG_R1_WITHOUT.items():
            found[f"kg-r1-without-{part}-{seed}"] = Experiment(
                f"kg-r1, GRPO without {part}, seed {seed}",
                f"{flat}-start" if part == HIERARCHY else "kg-r1-start",
                data=data,
                values=(*BRIEF, *TRIED, *values),
                tests=tests,
                recipe="kg-r1",
                profile=profile,
                seed=seed,
            )
        for part, values in EOG_WITHOUT.items():
            found[f"eog-without-{part}-{seed}"] = Experiment(
                f"eog, GRPO without {part}, seed {seed}",
                None if part == "sft" else "eog-start",
                data=data,
                values=(*BRIEF, *TRIED, "reward_settings.path_from=0.375", *values),
                tests=tests,
                recipe="eog",
                profile=profile,
                seed=seed,
            )
    found["kg-r1-runs"] = Experiment(
        "kg-r1 after GRPO, each question walked three times: the union of the answers",
        "kg-r1-without-nothing-0",
        tests=tests,
        ways={f"runs-{runs}": (f"eval.runs={runs}", "eval.temperature=1") for runs in (1, 3)},
        recipe="kg-r1",
        profile=profile,
    )
    return found


EXPERIMENTS = {**_ours(), **_baselines(), **_papers(), **_ablations()}


def checked(names: Sequence[str]) -> Sequence[str]:
    for name in names:
        if name not in EXPERIMENTS:
            raise unknown("experiment", name, EXPERIMENTS)
    return names
