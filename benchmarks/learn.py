"""Learning is real: a model of a million random weights learns to walk a small graph, on one core, in minutes.

Run: OMP_NUM_THREADS=1 python benchmarks/learn.py [--seeds 0 1 2] [--output runs/learn] [--steps N]
     [--plot FILE] [--json]

A made-up graph of films, people, companies and cities is asked questions of one and two hops; the topics of test
questions are in no question of training. For each seed a Llama with its own tokenizer is made from scratch, shown
demonstrations of a tenth of the training questions (SFT), and then walks all of them by itself (GRPO), both through
`kgwalk.training.pipeline.train` with the recipe `kgwalk` and the values below. Both models are evaluated greedily on
the test split. A run that is stopped goes on when the same command is given again; a finished seed is not done again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgwalk.config.recipe import Recipe, load_recipe
from kgwalk.config.run_folder import read_json, read_rows, write_json
from kgwalk.data.dataset import Dataset, load_dataset
from kgwalk.data.folder import DatasetWriter
from kgwalk.demos.writer import WRITERS
from kgwalk.llm.tiny import make_tiny
from kgwalk.systems.kgwalk.protocol import Kgwalk, KgwalkWalk
from kgwalk.training.pipeline import train
from kgwalk.types import Answer, Call, Message, Question, Triple
from kgwalk.walk.protocol import PROTOCOLS, Environment, Task

STEPS = 130
A_WORDING = {"train": 16, "dev": 2, "test": 3}  # questions of each wording in a split
SHARES = {"train": 0.6, "dev": 0.15, "test": 0.25}  # of the entities that may be a split's topics
VALUES = (
    'protocol.name="bare"',
    "protocol.turns=4",
    "rollout.turn_tokens=32",
    "rollout.observation_tokens=128",
    "rollout.total_tokens=768",
    "model.lora_rank=0",
    "model.checkpoint_activations=false",
    "demos.limit=58",  # a tenth of the questions of training
    "demos.wrong=0.0",
    "sft.epochs=25",
    "sft.batch=8",
    "sft.lr=2e-3",
    "sft.microbatch_tokens=1024",  # what fits into a core's cache is twice as quick
    "grpo.questions=32",
    "grpo.lr=3e-4",
    "grpo.warmup=0.1",
    "grpo.microbatch_tokens=1024",
    "grpo.save_every=10",
    "grpo.eval_every=5",
    "grpo.eval_questions=72",
    'grpo.advantage="turn"',
    "turn_rewards.valid=0.0",  # to answer at once is always valid: paid for by itself, it is all that is learnt
    "rewards.retrieval=0.5",
    "rewards.validity=0.0",
)

# A question walks from a topic of some kind along relations; `<` marks those that are walked backwards.
KINDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("film", "directed_by"): ("who directed {}?", "who is the director of {}?", "{} was made by whom?"),
    ("film", "starring"): ("who acted in {}?", "who are the stars of {}?", "name the cast of {}"),
    ("film", "set_in"): ("where does {} take place?", "in which city is {} set?", "what is the scene of {}?"),
    ("film", "directed_by born_in"): (
        "where was the director of {} born?",
        "what is the birthplace of the maker of {}?",
        "who made {} came from which city?",
    ),
    ("film", "set_in located_in"): (
        "in which country does {} take place?",
        "what country is {} set in?",
        "the scene of {} lies in which land?",
    ),
    ("person", "born_in"): ("where was {} born?", "what is the birthplace of {}?", "{} came from which city?"),
    ("person", "married_to"): ("who is married to {}?", "name the spouse of {}", "{} has which partner?"),
    ("person", "works_for"): ("which company employs {}?", "who pays {}?", "{} has a contract with whom?"),
    ("person", "<directed_by"): ("what did {} direct?", "name the films made by {}", "{} is the maker of what?"),
    ("person", "born_in located_in"): (
        "in which country was {} born?",
        "what land did {} come from?",
        "{} is a native of which country?",
    ),
    ("city", "<born_in"): ("who was born in {}?", "who came from {}?", "name the natives of {}"),
    ("city", "<set_in"): ("which films are set in {}?", "what takes place in {}?", "{} is the scene of what?"),
}


class BareWalk(KgwalkWalk):
    def prompt(self) -> list[Message]:
        return super().prompt()[1:]


@dataclass(frozen=True)
class Bare(Kgwalk):
    """The protocol without its instructions, which a model that cannot read has no use for: 35 tokens, not 280."""

    name = "bare"

    def begin(self, task: Task, environment: Environment, count: Callable[[str], int]) -> BareWalk:
        return BareWalk(task, environment, protocol=self)


PROTOCOLS.add(Bare.name)(Bare)
WRITERS.add(Bare.name)(WRITERS[Kgwalk.name])


# How many there are of a kind, and the words of their names: a name that is new is made of words that are known.
NAMES = {
    "film": (
        120,
        "Red Silent Last Golden Broken Winter Hidden Burning Empty Second Glass Iron Midnight Paper",
        "River Garden Letter Horizon Mirror Harbour Witness Summer Orchard Signal Promise Stranger Bridge Crown",
    ),
    "person": (
        160,
        "Anna Boris Clara David Elena Felix Greta Hugo Irene Jonas Karin Louis Marta Nils Olga Peter Rosa Simon",
        "Adler Bruno Costa Dahl Ekman Fuchs Grant Holm Ivers Jansen Keller Lund Moreau Novak Orsini Petrov Quist Rossi",
    ),
    "city": (
        50,
        "Port Saint New Old Lake",
        "Almar Belden Corvo Derry Elsin Farrow Gamla Hestia Istra Jarrow Kolm Lemna",
    ),
    "company": (30, "Orion Ember Atlas Cobalt Delta Falcon Juniper Meridian", "Works Motors Pictures Foods Lines"),
    "country": (8, "North South East West", "Arland Borea Cymra"),
}


@dataclass(frozen=True)
class Graph:
    """Entities by kind, and facts."""

    entities: dict[str, list[str]]
    facts: list[Triple]

    def walk(self, topic: str, ways: str) -> list[str]:
        """Where a walk along the relations ends."""
        names = [topic]
        for way in ways.split():
            relation, back = way.lstrip("<"), way.startswith("<")
            here = dict.fromkeys(names)
            reached = [
                fact.head if back else fact.tail
                for name in here
                for fact in self.facts
                if fact.relation == relation and (fact.tail if back else fact.head) == name
            ]
            names = list(dict.fromkeys(reached))
        return names


def make_graph(seed: int = 0) -> Graph:
    """368 entities, 8 relations."""
    draw = random.Random(seed)
    entities = {}
    for kind, (count, first, second) in NAMES.items():
        able = [f"{one} {two}" for one in first.split() for two in second.split()]
        entities[kind] = draw.sample(able, count)
    people, cities = entities["person"], entities["city"]
    directors, actors = people[:60], people[60:]
    facts = []
    for film in entities["film"]:
        facts.append(Triple(film, "directed_by", draw.choice(directors)))
        facts += [Triple(film, "starring", actor) for actor in draw.sample(actors, 2)]
        facts.append(Triple(film, "set_in", draw.choice(cities)))
    for person in people:
        facts.append(Triple(person, "born_in", draw.choice(cities)))
        facts.append(Triple(person, "married_to", draw.choice(people)))
        facts.append(Triple(person, "works_for", draw.choice(entities["company"])))
    facts += [Triple(company, "based_in", draw.choice(cities)) for company in entities["company"]]
    facts += [Triple(city, "located_in", draw.choice(entities["country"])) for city in cities]
    return Graph(entities, facts)


def make_questions(graph: Graph, seed: int = 0) -> Iterator[tuple[str, Question]]:
    """Questions with their splits; no topic is in two splits."""
    draw = random.Random(f"{seed}/questions")
    topics = {split: set[str]() for split in SHARES}
    for names in graph.entities.values():
        mixed = draw.sample(names, len(names))
        for split, share in SHARES.items():
            take = round(share * len(names))
            topics[split].update(mixed[:take])
            mixed = mixed[take:]
    for (kind, ways), wordings in KINDS.items():
        for split, count in A_WORDING.items():
            able = [name for name in graph.entities[kind] if name in topics[split] and graph.walk(name, ways)]
            for number, wording in enumerate(wordings):
                for topic in draw.sample(able, count):
                    yield split, _question(graph, topic, ways, wording, f"{ways}/{number}/{topic}")


def _question(graph: Graph, topic: str, ways: str, wording: str, name: str) -> Question:
    steps = ways.split()
    program = [
        ["head_entities" if way.startswith("<") else "tail_entities", f"${number}", way.lstrip("<")]
        for number, way in enumerate(steps, 1)
    ]
    answers = graph.walk(topic, ways)
    return Question(
        name, wording.format(topic), [topic], answers, hops=len(steps), type=ways, extra={"program": program}
    )


def write_dataset(folder: Path) -> Dataset:
    if not folder.exists():
        graph = make_graph()
        with DatasetWriter(folder) as writer:
            for split, question in make_questions(graph):
                writer.add(split, question)
            writer.write_facts(lambda: graph.facts)
            writer.finish()
    return load_dataset(folder)


def texts(dataset: Dataset) -> Iterator[str]:
    """What the tokenizer learns its words from: prompts of training, and the calls that there are."""
    environment = Environment(dataset.graph())
    for question in dataset.questions("train"):
        walk = Bare().begin(Task(question, question.topic_entities), environment, len)
        yield "\n".join(message.content for message in walk.prompt())
        for number in (1, 2, 3):
            yield Kgwalk.render(Answer((number,)))
    for relation in dict.fromkeys(fact.relation for fact in make_graph().facts):
        for tool in ("tail_entities", "head_entities"):
            yield from [Kgwalk.render(Call(tool, (number, relation))) for number in (1, 2)] * 20


def make_model(folder: Path, dataset: Dataset, seed: int) -> Path:
    if not (folder / "tokenizer_config.json").exists():  # what is written last
        make_tiny(folder, texts(dataset), vocabulary=768, hidden=136, layers=4, heads=4, context=1024, seed=seed)
    return folder


def parameters(folder: Path) -> int:
    from safetensors import safe_open

    with safe_open(str(folder / "model.safetensors"), "pt") as file:
        return sum(file.get_tensor(name).numel() for name in file.keys())  # noqa: SIM118 - it is no dict


def run_seed(out: Path, dataset: Dataset, seed: int, recipe: Recipe) -> dict[str, Any]:
    """SFT and its evaluation, GRPO and its evaluation; what they gave, also in `result.json`."""
    place = out / f"seed-{seed}"
    if (place / "result.json").exists():
        return dict(read_json(place / "result.json"))
    begun = time.monotonic()
    model = make_model(place / "model", dataset, seed)
    common: dict[str, Any] = {
        "model": str(model.resolve()),
        "seed": seed,
        "device": "cpu",
        "resume": True,
        "report_to": "none",
        "progress": lambda stage, step, steps, numbers: _tell(seed, stage, step, steps, numbers),
    }
    shown = train(recipe, dataset, out=place / "sft", values=['train.stages=["demos", "sft", "eval"]'], **common)
    between = time.monotonic()
    walked = train(
        recipe,
        dataset,
        out=place / "grpo",
        values=['train.stages=["grpo", "eval"]'],
        start=place / "sft" / "adapter",
        **common,
    )
    result = {
        "seed": seed,
        "parameters": parameters(model),
        "demos": shown["stages"]["demos"]["kept"],
        "sft": shown["stages"]["eval"],
        "grpo": walked["stages"]["eval"],
        "gain": walked["stages"]["eval"]["metrics"]["f1"] - shown["stages"]["eval"]["metrics"]["f1"],
        "sft_seconds": between - begun,
        "grpo_seconds": time.monotonic() - between,
    }
    write_json(place / "result.json", result)
    return result


def _tell(seed: int, stage: str, step: int, steps: int, numbers: dict[str, float]) -> None:
    if stage in ("demos", "eval") or (stage == "sft" and step % 20 and "eval_f1" not in numbers):
        return
    names = ("loss", "reward", "f1", "entropy", "dropped_groups", "rollout_seconds", "update_seconds", "eval_f1")
    shown = "  ".join(f"{name} {numbers[name]:.3f}" for name in names if name in numbers)
    print(f"seed {seed}  {stage} {step}/{steps}  {shown}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--output", type=Path, default=Path("runs/learn"))
    parser.add_argument("--steps", type=int, default=STEPS, help="of GRPO")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="a value anew")
    parser.add_argument("--plot", type=Path, help="draw the curves into this file")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    os.environ["KGWALK_CACHE"] = str((given.output / "cache").resolve())
    recipe = load_recipe("kgwalk").with_values([*VALUES, f"grpo.steps={given.steps}", *given.set])
    dataset = write_dataset(given.output / "films")
    results = [run_seed(given.output, dataset, seed, recipe) for seed in given.seeds]
    if given.plot is not None:
        plot(given.output, given.seeds, given.plot)
    print(json.dumps(results, indent=2) if given.json else table(results))


def table(results: list[dict[str, Any]]) -> str:
    """F1 on the test split, seed by seed."""
    lines = ["seed  parameters  demos  F1 after SFT  F1 after GRPO    gain  seconds"]
    for one in results:
        before, after = (one[stage]["metrics"]["f1"] for stage in ("sft", "grpo"))
        seconds = one["sft_seconds"] + one["grpo_seconds"]
        lines.append(
            f"{one['seed']:4}  {one['parameters']:10,}  {one['demos']:5}  {before:12.3f}  {after:13.3f}  "
            f"{one['gain']:+.3f}  {seconds:7.0f}"
        )
    return "\n".join(lines)


def plot(out: Path, seeds: list[int], file: Path) -> None:
    """F1 in validation by step of GRPO, a line a seed; where each starts is what SFT gave."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.6), layout="constrained")
    for seed in seeds:
        place = out / f"seed-{seed}"
        begun = [row["eval_f1"] for row in read_rows(place / "sft/sft/metrics.jsonl") if "eval_f1" in row]
        rows = [row for row in read_rows(place / "grpo/grpo/metrics.jsonl") if "eval_f1" in row]
        axes.plot(
            [0, *(row["step"] for row in rows)], [begun[-1], *(row["eval_f1"] for row in rows)], label=f"seed {seed}"
        )
    axes.set(xlabel="GRPO step", ylabel="F1 (dev, greedy)", ylim=(0, 1))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    main()
