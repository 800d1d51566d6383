"""What a check of a dataset finds: the kinds of findings, how bad each is, and a list of them with counts.

Knows nothing of how anything is found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ERROR, NOTE = "error", "note"

# An error makes a folder or a question useless, or its score wrong; a note is something to know when reading results.
KINDS: dict[str, tuple[str, str]] = {
    "unreadable_file": (ERROR, "a file that cannot be read"),
    "bad_line": (ERROR, "a line that is no question"),
    "no_splits": (ERROR, "no file of questions"),
    "graph": (ERROR, "no graph, or none that can be read"),
    "duplicate_id": (ERROR, "the id of an earlier question of the split"),
    "no_text": (ERROR, "no question text"),
    "no_topics": (ERROR, "no topic entity"),
    "no_answers": (ERROR, "no answer"),
    "gold_f1": (ERROR, "the gold answers do not score F1 = 1"),
    "gold_truth": (ERROR, "a yes-or-no question whose answer is neither"),
    "topics_missing": (ERROR, "no topic is in the graph"),
    "answers_missing": (ERROR, "no answer is in the graph"),
    "graph_only": (NOTE, "a graph without questions"),
    "texts_only": (NOTE, "texts without questions and graph"),
    "no_id": (NOTE, "no id"),
    "aliases_unused": (NOTE, "aliases of a name that is no answer"),
    "facts_left_out": (NOTE, "malformed facts left out of the graph"),
    "some_topics_missing": (NOTE, "some topics are not in the graph"),
    "some_answers_missing": (NOTE, "some answers are no node of the graph"),
    "answers_are_times": (NOTE, "the answers are times of facts, not nodes"),
    "answers_are_values": (NOTE, "the answers are of a kind that is no node"),
    "answers_elsewhere": (NOTE, "the answers are in the graph, not in the question's own facts"),
    "answers_far": (NOTE, "no answer within the hops given (4 where none are)"),
    "answers_unreached": (NOTE, "no way from a topic to an answer"),
    "answer_is_topic": (NOTE, "an answer is itself a topic"),
    "path_facts_missing": (NOTE, "a gold path has a fact that is not in the graph"),
    "path_start": (NOTE, "a gold path does not start at a topic"),
    "path_gap": (NOTE, "a gold path has facts that do not join"),
    "path_end": (NOTE, "a gold path does not end at an answer"),
    "same_text": (NOTE, "the text of an earlier question of the split"),
    "id_in_two_splits": (NOTE, "the id of a question of another split"),
    "leak": (NOTE, "text and topics of a question of another split"),
    "leak_of_text": (NOTE, "text of a question of another split, with other topics"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be. `split`, `id` and `line` are None where it is not about one question."""

    kind: str
    text: str
    path: Path
    split: str | None = None
    id: str | None = None
    line: int | None = None

    @property
    def severity(self) -> str:
        return KINDS[self.kind][0]

    @property
    def where(self) -> str:
        return str(self.path) if self.line is None else f"{self.path}:{self.line}"

    def row(self) -> dict[str, Any]:
        return {"split": self.split, "id": self.id, "file": str(self.path), "line": self.line, "text": self.text}


@dataclass
class Checked:
    """What a check came to. `reach[split][hops]` counts questions by the hops to their nearest answer.

    Only questions whose topics and answers are nodes are in `reach`; those without any way are under "none".
    """

    questions: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    reach: dict[str, Counter[str]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """No errors; notes there may be."""
        return not self.count(ERROR)

    def count(self, severity: str) -> int:
        return sum(found.severity == severity for found in self.findings)

    def by_kind(self) -> dict[str, list[Finding]]:
        """The findings by kind, in the order of KINDS."""
        groups: dict[str, list[Finding]] = {kind: [] for kind in KINDS}
        for found in self.findings:
            groups[found.kind].append(found)
        return {kind: group for kind, group in groups.items() if group}

    def row(self, examples: int) -> dict[str, Any]:
        """The object that `kgwalk data check --json` prints, with so many examples of each kind."""
        kinds = {
            kind: {
                "severity": KINDS[kind][0],
                "count": len(group),
                "splits": dict(Counter(found.split for found in group if found.split)),
                "examples": [found.row() for found in group[:examples]],
            }
            for kind, group in self.by_kind().items()
        }
        return {"questions": self.questions, "findings": kinds, "reach": self.reach, "ok": self.ok}


def quoted(names: Sequence[str], most: int = 3) -> str:
    """Names for a message, the first few, with control characters written out.

    >>> quoted(["Big", "Tom\\tHanks", "1988", "Splash", "Hook"])
    "'Big', 'Tom\\\\tHanks', '1988' and 2 more"
    """
    shown = ", ".join(repr(name if len(name) <= 60 else f"{name[:60]}...") for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
