"""Check the lessons, or make a dataset of them: `python -m benchmarks.lessons check | make`."""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from pathlib import Path

from benchmarks.lessons.lesson import Ask, Lesson, lessons
from benchmarks.lessons.variants import Renamed, answered, built, questions_of, variant_of

from kgwalk.data.folder import DatasetWriter
from kgwalk.kg.store import StoredGraph
from kgwalk.types import KgwalkError

SHOWN = 2  # drawings of each entry that `check` shows
AS_IT_IS = Renamed({})


def main() -> int:
    """The exit status is 1 where a lesson has a mistake."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.lessons",
        description="Graphs as people have them with questions as people type them, to learn from.",
        epilog="Examples: python -m benchmarks.lessons check museum · python -m benchmarks.lessons make -o lessons",
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    check = verbs.add_parser("check", help="run every walk, show texts and answers, say what is wrong")
    check.add_argument("names", nargs="*", help="lessons (default: all)")
    check.add_argument("--quiet", action="store_true", help="only what is wrong, and a line for each lesson")
    make = verbs.add_parser("make", help="a dataset of all lessons, each graph under several names")
    make.add_argument("names", nargs="*", help="lessons (default: all)")
    make.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    make.add_argument("--variants", type=int, default=8, help="graphs of each lesson (default: %(default)s)")
    make.add_argument("--each", type=int, default=2, help="questions of each entry and graph (default: %(default)s)")
    make.add_argument("--dev", type=int, default=0, help="lessons for the split dev, drawn by the seed (default: none)")
    make.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    try:
        chosen = lessons(given.names)
        if given.verb == "check":
            return int(sum(_check(lesson, given.quiet) for lesson in chosen) > 0)
        _make(chosen, given.output, given.variants, given.each, given.dev, given.seed)
    except KgwalkError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _check(lesson: Lesson, quiet: bool) -> int:
    """How many entries have a mistake."""
    wrong, shapes = 0, Counter[str]()
    with built(lesson) as graph:
        for at, ask in enumerate(lesson.asks, 1):
            shapes[ask.shape] += 1
            problems = ask.problems() or _walked(ask, graph, quiet, at)
            for problem in problems:
                print(f"  WRONG {lesson.name} {at} ({ask.texts[0]!r}): {problem}")
            wrong += bool(problems)
        relations = {fact.relation for fact in graph.match()}
        kinds = {fact.tail for fact in graph.match() if fact.relation in ("is_a", "instance of", "type", "rdf:type")}
        unnamed = sorted(name for name in relations | kinds if name not in lesson.names)
        strange = sorted(name for name in lesson.names if name not in relations | kinds)
    texts = sum(len(ask.texts) for ask in lesson.asks)
    print(f"{lesson.name}: {len(lesson.asks)} entries, {texts} texts, {wrong} wrong")
    print(f"  shapes: {', '.join(f'{shape} {count}' for shape, count in shapes.most_common())}")
    if unnamed:
        print(f"  without other names: {', '.join(unnamed[:40])}")
    if strange:
        print(f"  in [names], but no relation or kind of the graph: {', '.join(strange[:40])}")
    return wrong


def _walked(ask: Ask, graph: StoredGraph, quiet: bool, at: int) -> list[str]:
    """What is wrong with the walks of some drawings; shows them unless quiet."""
    chance = random.Random(at)
    for turn in range(min(SHOWN, ask.fillings())):
        try:
            drawn = answered(ask, graph, AS_IT_IS, chance, None if turn else ask.texts[0])
        except KgwalkError as error:
            return [str(error)]
        if drawn is None:
            return ["no drawing has an answer"]
        question, walked = drawn
        if not quiet:
            said = walked.answers if walked else ["(the graph does not say)"]
            if walked and walked.form.rows:
                said = [" | ".join(map(str, row)) for row in walked.form.rows]
            print(f"{at:3} [{ask.shape}] {question.text}\n      = {len(said)}: {'; '.join(said[:6])}")
    return []


def _make(chosen: list[Lesson], output: Path, variants: int, each: int, dev: int, seed: int) -> None:
    for_dev = {lesson.name for lesson in random.Random(seed).sample(chosen, dev)}
    made = 0
    with DatasetWriter(output) as writer:
        for lesson in chosen:
            with built(lesson) as graph:
                for number in range(variants):
                    chance = random.Random(f"{seed}/{lesson.name}/{number}")
                    key = f"{lesson.name}-{number}"
                    facts, renamed = variant_of(lesson, graph, chance)
                    writer.add_graph(key, facts)
                    for question in questions_of(lesson, key, facts, renamed, chance, each):
                        writer.add("dev" if lesson.name in for_dev else "train", question)
                        made += 1
            print(f"{lesson.name}: {made} questions so far", file=sys.stderr)
        writer.finish()
    print(f"{made} questions of {len(chosen)} lessons in {output}")


if __name__ == "__main__":
    sys.exit(main())
