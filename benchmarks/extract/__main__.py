"""Precision and recall of `kgwalk kg extract` on the annotated passages beside this file.

    python -m benchmarks.extract --model qwen2.5-coder-1.5b            # with the annotation's relations given
    python -m benchmarks.extract --model qwen2.5-coder-1.5b --open     # without: only who is joined with whom
    python -m benchmarks.extract --triples notes.tsv                   # of triples that were written before

`facts` are what a passage states, `also` what one may say of it as well: these are right, and nobody has to find them.
The passages are about people and places that do not exist, so no model has read of them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kgwalk.evaluation.text_facts.extract import ExtractSettings, extract, passages_of, read_documents, read_relations
from kgwalk.evaluation.text_facts.passage_facts import relation_key
from kgwalk.kg.names import normalise
from kgwalk.llm.engine import open_engine

HERE = Path(__file__).parent
PASSAGES, RELATIONS = HERE / "passages.jsonl", HERE / "relations.txt"
Fact = Collection[str]  # keys of head, relation and tail; without relations, of head and tail in any order


class Score(NamedTuple):
    triples: int
    right: int
    facts: int
    found: int

    @property
    def precision(self) -> float:
        return self.right / self.triples if self.triples else 0.0

    @property
    def recall(self) -> float:
        return self.found / self.facts if self.facts else 0.0


def score(triples: Sequence[Sequence[str]], gold: Sequence[dict[str, Any]], *, pairs: bool = False) -> Score:
    """The triples against the annotation; with `pairs` whatever the relation and direction.

    >>> gold = [{"facts": [["Big", "genre", ["comedy", "comedy film"]], ["Big", "year", "1988"]], "also": []}]
    >>> score([("big", "genre", "comedy film"), ("Big", "genre", "drama")], gold)
    Score(triples=2, right=1, facts=2, found=1)
    """
    facts = [_spellings(fact, pairs) for row in gold for fact in row["facts"]]
    allowed = {one for row in gold for fact in row["also"] for one in _spellings(fact, pairs)}.union(*facts)
    said = {_key(triple, pairs) for triple in triples}
    return Score(len(said), len(said & allowed), len(facts), sum(1 for fact in facts if fact & said))


def _spellings(fact: Sequence[Any], pairs: bool) -> set[Fact]:
    heads, tails = ([end] if isinstance(end, str) else end for end in (fact[0], fact[2]))
    return {_key((head, fact[1], tail), pairs) for head in heads for tail in tails}


def _key(triple: Sequence[str], pairs: bool) -> Fact:
    ends = normalise(triple[0]), normalise(triple[2])
    return frozenset(ends) if pairs else (ends[0], relation_key(triple[1]), ends[1])


def annotated() -> list[dict[str, Any]]:
    return [json.loads(line) for line in PASSAGES.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--model")
    parser.add_argument("--triples", type=Path, help="a TSV to score, in place of a model")
    parser.add_argument("--open", action="store_true", help="no relations are given; pairs are scored")
    given = parser.parse_args()
    if (given.model is None) == (given.triples is None):
        parser.error("give --model or --triples")
    with tempfile.TemporaryDirectory() as scratch:
        path = given.triples or Path(scratch) / "triples.tsv"
        if given.model is not None:
            relations = () if given.open else read_relations(RELATIONS)
            settings = ExtractSettings(given.model, relations=relations)
            passages = passages_of(read_documents([PASSAGES]))
            report = extract(passages, lambda: open_engine(given.engine, given.model), path, settings)
            dropped = {reason: count for reason, count in report.dropped.items() if count}
            print(f"{report.lines} lines, {report.malformed} malformed, {report.cut} cut, dropped: {dropped or 'none'}")
            print(f"{report.tokens['generated']} tokens generated in {report.seconds} s")
        triples = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    found = score(triples, annotated(), pairs=given.open)
    for triple in triples:
        wrong = not score([triple], annotated(), pairs=given.open).right
        print("  wrong: " if wrong else "  right: ", " | ".join(triple))
    print(f"precision {found.precision:.3f} ({found.right} of {found.triples})")
    print(f"recall    {found.recall:.3f} ({found.found} of {found.facts})")


if __name__ == "__main__":
    main()
