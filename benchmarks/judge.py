"""How often a model, as a judge of answers, agrees with what is known to be right.

Run: python benchmarks/judge.py ENGINE:MODEL [--questions 20] [--split train] [--minutes 15] [--reasons]
                                             [--without-gold] [--replies] [--json]
     python benchmarks/judge.py cpu:qwen2.5-coder-1.5b-instruct-q4_k_m.gguf

Questions of the bundled set with one to four answers, of which at least one has another name in OTHER_NAMES. Five cases
of each, as KG-Hopper's equation 4 asks them (`correct`), with the verdict that is right:

    right       1   the gold answers, last one first: settled without a call
    sentence    1   "The answer is A and B.", as one text
    other name  1   each answer that has one by its other name
    partly      0   one gold answer less, or where there is only one, a wrong one besides
    wrong       0   as many answers of another question of the same type

"rule" is what the exact set of names says of the same cases. Verdicts are not cached, so that each run asks.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kgwalk.data.bundled import world_folder
from kgwalk.data.dataset import load_dataset
from kgwalk.kg.graph import Graph
from kgwalk.llm.engine import Sampling, open_engine
from kgwalk.score.answers import gold_of, match
from kgwalk.score.judge.judge import Judge, name_of
from kgwalk.score.judge.kinds import Case
from kgwalk.score.judge.verdict import Verdict
from kgwalk.types import Question

TRUTH = {"right": 1, "sentence": 1, "other name": 1, "partly": 0, "wrong": 0}
OTHER_NAMES = {
    **dict(zip("123456789", ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine"), strict=True)),
    "Arabic script": "the Arabic alphabet",
    "Beijing": "Peking",
    "Belarus": "Byelorussia",
    "Bogotá": "Santa Fe de Bogota",
    "Bolivia": "Plurinational State of Bolivia",
    "Brunei": "Brunei Darussalam",
    "Cambodia": "Kampuchea",
    "Cape Verde": "Cabo Verde",
    "China": "People's Republic of China",
    "Cyrillic script": "the Cyrillic alphabet",
    "Czechia": "Czech Republic",
    "Democratic Republic of the Congo": "Congo-Kinshasa",
    "Eswatini": "Swaziland",
    "Germany": "Federal Republic of Germany",
    "India": "Republic of India",
    "Iran": "Islamic Republic of Iran",
    "Italy": "Italian Republic",
    "Ivory Coast": "Côte d'Ivoire",
    "Laos": "Lao People's Democratic Republic",
    "Latin script": "the Roman alphabet",
    "Myanmar": "Burma",
    "Netherlands": "Holland",
    "Poland": "Republic of Poland",
    "Portugal": "Portuguese Republic",
    "Republic of the Congo": "Congo-Brazzaville",
    "Russia": "Russian Federation",
    "Spain": "Kingdom of Spain",
    "Sri Lanka": "Ceylon",
    "Tanzania": "United Republic of Tanzania",
    "Thailand": "Siam",
    "Timor Leste": "East Timor",
    "Turkey": "Türkiye",
    "US dollar": "USD",
    "United Kingdom": "Great Britain and Northern Ireland",
    "United States": "USA",
    "Vietnam": "Viet Nam",
    "Zimbabwe": "Republic of Zimbabwe",
    "euro": "EUR",
}


@dataclass(frozen=True)
class KnownCase:
    """A case of a class, and whether the exact set of names takes its answer to be right."""

    kind: str
    case: Case
    rule: int


@dataclass
class Agreement:
    """Of one class of cases: how many were asked, judged 1, judged as is right, failed; and the rule's ones."""

    cases: int = 0
    ones: int = 0
    agreed: int = 0
    failed: int = 0
    rule_agreed: int = 0


def known_cases(questions: Sequence[Question], count: int, graph: Graph, *, gold: bool) -> Iterator[KnownCase]:
    """Five of each of `count` questions, question by question, so that a run cut short has all classes."""
    chance = random.Random(0)
    usable = [one for one in questions if 1 <= len(one.answers) <= 4 and OTHER_NAMES.keys() & set(one.answers)]
    for question in chance.sample(usable, count):
        known = question.answers
        others = [
            other.answers
            for other in questions
            if other.type == question.type and len(other.answers) >= len(known) and not set(other.answers) & set(known)
        ]
        wrong = random.Random(question.id).choice(others)[: len(known)]
        answers = {
            "right": known[::-1],
            "sentence": [f"The answer is {' and '.join(known)}."],
            "other name": [OTHER_NAMES.get(name, name) for name in known],
            "partly": known[:-1] or [*known, wrong[0]],
            "wrong": wrong,
        }
        for kind, predicted in answers.items():
            case = Case("correct", question.question, gold=known if gold else None, predicted=predicted)
            yield KnownCase(kind, case, int(match(predicted, gold_of(question), graph).exact_set))


def tallied(cases: Sequence[KnownCase], verdicts: Sequence[Verdict]) -> dict[str, Agreement]:
    found = {kind: Agreement() for kind in TRUTH}
    for known, verdict in zip(cases, verdicts, strict=True):
        row = found[known.kind]
        row.cases += 1
        row.rule_agreed += known.rule == TRUTH[known.kind]
        if not verdict.scored:
            row.failed += 1
            continue
        row.ones += verdict.number == 1
        row.agreed += verdict.number == TRUTH[known.kind]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("judge", metavar="ENGINE:MODEL")
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--split", default="train")
    parser.add_argument("--minutes", type=float, default=15.0, help="no case is begun after these")
    parser.add_argument("--at-once", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=160, help="of a reply, at most")
    parser.add_argument("--reasons", action="store_true", help="before each verdict")
    parser.add_argument("--without-gold", action="store_true", help="by what the judge knows")
    parser.add_argument("--replies", action="store_true", help="print what the judge wrote")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    dataset = load_dataset(world_folder())
    questions = dataset.questions(options.split)
    graph = dataset.graph_for(questions[0])
    cases = list(known_cases(questions, options.questions, graph, gold=not options.without_gold))
    kind, _, model = options.judge.partition(":")
    engine = open_engine(kind, model or None)
    started, verdicts = time.monotonic(), list[Verdict]()
    sampling = Sampling(temperature=0.0, max_tokens=options.tokens)

    async def ask() -> None:
        settings = {"at_once": options.at_once, "sampling": sampling, "reasons": options.reasons}
        with Judge(engine, model_name=name_of(kind, engine), **settings) as judge:
            while len(verdicts) < len(cases) and time.monotonic() - started < 60 * options.minutes:
                some = cases[len(verdicts) : len(verdicts) + options.at_once]
                verdicts.extend(await judge.judge([known.case for known in some]))
        await engine.close()

    asyncio.run(ask())
    seconds = time.monotonic() - started
    found = tallied(cases[: len(verdicts)], verdicts)
    if options.replies:
        for known, verdict in zip(cases, verdicts, strict=False):
            print(known.kind, known.case.gold, known.case.predicted, verdict.failure or verdict.value, verdict.reply)
    agreed = sum(row.agreed for row in found.values())
    if options.json:
        rows = {kind: vars(row) for kind, row in found.items()}
        print(json.dumps({"judge": options.judge, "seconds": round(seconds), "agreed": agreed, "classes": rows}))
        return
    print(f"{options.judge}: {agreed} of {len(verdicts)} cases as known, in {seconds:.0f} s")
    print(f"{'class':12}{'truth':>6}{'cases':>6}{'ones':>6}{'agreed':>7}{'failed':>7}{'rule':>6}")
    for name, row in found.items():
        print(f"{name:12}{TRUTH[name]:6}{row.cases:6}{row.ones:6}{row.agreed:7}{row.failed:7}{row.rule_agreed:6}")


if __name__ == "__main__":
    main()
