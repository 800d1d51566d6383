"""Proposed facts: findings of the same triple merged, and their rows in a file that a person may edit.

    {"triple": ["Norway", "capital", "Oslo"], "confidence": 0.9, "features": {...}, "sources": [...], "questions": 2}

A row may be given `"accept": true` or `false`. Knows nothing of runs and stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from kgwalk.evaluation.additions.confidence import Features, confidence
from kgwalk.evaluation.additions.reading import Finding
from kgwalk.kg.normalise import normalise
from kgwalk.runs.question_rows import kind, triples_of
from kgwalk.runs.rows import read_rows
from kgwalk.types import InputError, KgwalkError, Triple

MOST_SOURCES = 5  # in a row


@dataclass(slots=True)
class Proposal:
    """A triple and all that speaks for it: of several findings the best, and how many there are."""

    triple: Triple
    sentence: float = 0.0
    fit: float = 0.0
    agreed: bool = False
    taken: bool = False
    sources: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)  # by title and snippet
    questions: set[str] = field(default_factory=set)

    def add(self, finding: Finding, question: str) -> None:
        self.sentence = max(self.sentence, finding.sentence)
        self.fit = max(self.fit, finding.fit)
        self.agreed |= finding.agreed
        self.taken |= finding.taken
        document = finding.document
        place = {"title": document.title, "source": document.source, "snippet": finding.snippet, "question": question}
        self.sources.setdefault((normalise(document.title), normalise(finding.snippet)), place)
        self.questions.add(question)

    @property
    def features(self) -> Features:
        titles, snippets = ({key[at] for key in self.sources} for at in (0, 1))
        # Parts of one document are not independent, nor are two that copy one sentence.
        repeated = len(titles) > 1 and len(snippets) > 1
        return Features(self.sentence, self.fit, float(self.agreed), float(repeated), float(self.taken))

    @property
    def confidence(self) -> float:
        return confidence(self.features)

    def row(self) -> dict[str, Any]:
        return {
            "triple": list(self.triple[:3]),
            "confidence": self.confidence,
            "features": asdict(self.features),
            "sources": list(self.sources.values())[:MOST_SOURCES],
            "questions": len(self.questions),
        }


def ranked(proposals: Iterable[Proposal], least: float) -> list[Proposal]:
    """Those sure enough, the surest first."""
    kept = (proposal for proposal in proposals if proposal.confidence >= least)
    return sorted(kept, key=lambda proposal: (-proposal.confidence, proposal.triple))


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """One row a line; the file is there whole or not at all."""
    beside = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(beside, "wb") as file:
            file.writelines(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)
        beside.replace(path)
    except OSError as error:
        raise KgwalkError(f"cannot write {path}: {error.strerror}; choose another place with -o") from error
    finally:
        beside.unlink(missing_ok=True)


def read_proposals(path: Path) -> Iterator[tuple[Triple, float, bool | None, dict[str, Any]]]:
    """Each row's triple, its confidence (1 where a person wrote a row without one), its `accept`, and the row."""
    if not path.is_file():
        raise KgwalkError(f"{path} is no file; `kgwalk kg propose RUN -o {path}` writes proposals")
    if path.read_bytes()[-1:] not in (b"\n", b""):  # an editor may leave the last line without its end
        raise InputError("the last line is not ended", path=str(path), hint="add a line break at the end of the file")
    for number, row in enumerate(read_rows(path), 1):
        sure, accept = row.get("confidence", 1.0), row.get("accept")
        try:
            (triple,) = triples_of([row.get("triple")], "triple")
        except ValueError as error:
            raise InputError(str(error), path=str(path), line=number) from None
        if "" in triple[:3]:
            raise InputError("a name in `triple` is empty", path=str(path), line=number)
        if isinstance(sure, bool) or not isinstance(sure, int | float):
            raise InputError(f"expected `confidence`, a number, got {kind(sure)}", path=str(path), line=number)
        if not (accept is None or isinstance(accept, bool)):
            raise InputError(f"expected `accept`, true or false, got {kind(accept)}", path=str(path), line=number)
        yield triple, float(sure), accept, row
