"""How often linking finds the topics of a question set, and what it misses.

Run: python benchmarks/link.py DATA [--sets metaqa,pq-2h,...] [--split dev] [--limit N] [--json]

DATA holds a folder a set, with kg.tsv.gz and {train,dev,test}.jsonl.gz. Each graph is built into a temporary folder.
"All found": every gold topic is among the first five of `topics(link(question, graph))`.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import quantiles

from rapidfuzz.distance import OSA

from kgwalk.data.folder import read_questions
from kgwalk.kg.build import build
from kgwalk.kg.graph import Graph
from kgwalk.kg.names import normalise
from kgwalk.kg.store import open_graph
from kgwalk.types import Question
from kgwalk.walk.linking import FUNCTION_WORDS, Mention, link, topics

SETS = "metaqa,pq-2h,pq-3h,wc2014,webqsp-fbpool"
MOST = 5
EXAMPLES = 2


@dataclass
class Miss:
    question: str
    gold: str
    chosen: list[str]


@dataclass
class Result:
    """The figures of one set; shares are of questions unless said otherwise."""

    name: str
    questions: int = 0
    all_found: float = 0
    among_candidates: float = 0  # every gold topic is a candidate of some mention, chosen or not
    same_set: float = 0  # the topics returned are the gold topics and no others
    topics_returned: float = 0  # mean
    sure: float = 0  # something was found and every mention is sure
    all_found_if_sure: float = 0
    p50_ms: float = 0
    p95_ms: float = 0
    misses: dict[str, int] = field(default_factory=dict)  # missed gold topics by class
    examples: dict[str, list[Miss]] = field(default_factory=dict)


def measure(name: str, graph: Graph, questions: Sequence[Question]) -> Result:
    result = Result(name, len(questions))
    counts = dict.fromkeys(("found", "among", "same", "returned", "sure", "sure_found"), 0)
    seconds = []
    link("", graph)  # reads what is read once a store
    for question in questions:
        start = time.perf_counter()
        mentions = link(question.question, graph, most=MOST)
        seconds.append(time.perf_counter() - start)
        chosen, gold = topics(mentions), set(question.topic_entities)
        found = gold <= set(chosen[:MOST])
        sure = bool(mentions) and all(mention.sure for mention in mentions)
        counts["found"] += found
        counts["among"] += gold <= {one.name for mention in mentions for one in mention.candidates}
        counts["same"] += gold == set(chosen)
        counts["returned"] += len(chosen)
        counts["sure"] += sure
        counts["sure_found"] += sure and found
        for topic in sorted(gold.difference(chosen[:MOST])):
            kind = classify(question.question, topic, mentions, graph)
            result.misses[kind] = result.misses.get(kind, 0) + 1
            examples = result.examples.setdefault(kind, [])
            if len(examples) < EXAMPLES:
                examples.append(Miss(question.question, topic, chosen))
    total = len(questions)
    result.all_found, result.among_candidates = counts["found"] / total, counts["among"] / total
    result.same_set, result.topics_returned = counts["same"] / total, counts["returned"] / total
    result.sure, result.all_found_if_sure = counts["sure"] / total, counts["sure_found"] / max(counts["sure"], 1)
    cuts = quantiles(seconds, n=20, method="inclusive")
    result.p50_ms, result.p95_ms = 1000 * cuts[9], 1000 * cuts[18]
    return result


def classify(question: str, gold: str, mentions: Iterable[Mention], graph: Graph) -> str:
    """Why a gold topic was not chosen.

    "not in the graph"; "longer span chosen", "other homonym chosen", "shorter or other span chosen" and
    "filtered as common": its name stands in the question; "fuzzy miss": it does but for the spelling;
    "paraphrase": some of its words do; "not in the question": none.
    """
    if gold not in graph:
        return "not in the graph"
    name, asked = normalise(gold), normalise(question)
    spaced = name.isascii()
    if (f" {name} " in f" {asked} ") if spaced else (name in asked):
        texts = [normalise(mention.text) for mention in mentions]
        if name in texts:
            return "other homonym chosen"
        if any(name in text for text in texts):
            return "longer span chosen"
        if any(set(text.split()) & set(name.split()) or text in name for text in texts):
            return "shorter or other span chosen"
        return "filtered as common"
    words, wanted = asked.split(), name.split()
    runs = [" ".join(words[at : at + len(wanted)]) for at in range(len(words) - len(wanted) + 1)]
    if any(OSA.normalized_similarity(run, name) >= 0.8 for run in runs):
        return "fuzzy miss"
    telling = set(wanted) - FUNCTION_WORDS
    return "paraphrase" if telling & set(words) else "not in the question"


def run(data: Path, name: str, split: str, limit: int | None, seed: int) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        build([data / name / "kg.tsv.gz"], Path(folder) / "graph.kg")
        questions = list(read_questions(data / name / f"{split}.jsonl.gz"))
        if limit is not None and limit < len(questions):
            questions = random.Random(seed).sample(questions, limit)
        return measure(name, open_graph(Path(folder) / "graph.kg"), questions)


def print_table(results: Iterable[Result], split: str) -> None:
    columns = ("all found", "candidates", "same set", "topics", "sure", "if sure", "p50 ms", "p95 ms")
    print(f"{split:15} {'questions':>9} " + " ".join(f"{column:>10}" for column in columns))
    for r in results:
        shares = (r.all_found, r.among_candidates, r.same_set, r.topics_returned, r.sure, r.all_found_if_sure)
        cells = [f"{share:10.3f}" for share in shares] + [f"{r.p50_ms:10.2f}", f"{r.p95_ms:10.2f}"]
        print(f"{r.name:15} {r.questions:9,} " + " ".join(cells))
        for kind, count in sorted(r.misses.items(), key=lambda entry: -entry[1]):
            print(f"    {count:4} {kind}")
            for miss in r.examples[kind]:
                print(f"         {miss.question!r}: {miss.gold!r}, chosen {miss.chosen}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("data", type=Path, help="the folder that holds a folder a set")
    parser.add_argument("--sets", default=SETS, help="names separated by commas; %(default)s")
    parser.add_argument("--split", default="dev", choices=("train", "dev", "test"))
    parser.add_argument("--limit", type=int, help="a sample of so many questions a set; all")
    parser.add_argument("--seed", type=int, default=0, help="of the sample; %(default)s")
    parser.add_argument("--json", action="store_true", help="one object on stdout")
    given = parser.parse_args()
    results = []
    for name in given.sets.split(","):
        print(f"{name} ...", file=sys.stderr)
        results.append(run(given.data, name, given.split, given.limit, given.seed))
    if given.json:
        print(json.dumps({"split": given.split, "sets": [asdict(result) for result in results]}, ensure_ascii=False))
    else:
        print_table(results, given.split)
    return 0


if __name__ == "__main__":
    sys.exit(main())
