"""Which shapes of gold programs the made questions teach: `python -m benchmarks.users.coverage MADE`.

    python -m kgwalk questions worlds -o made --worlds 30 --language full --dated 0.15 --seed 11
    python -m benchmarks.users.coverage made

A program becomes a skeleton: its calls, which set each takes, the form of its paths and the comparison; names and
values are dropped. Printed are the skeletons of the development questions with how often each is made, for a thousand
made questions, those that are made less than once in a thousand, and the share of the questions that these hold, by
shape.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kgwalk.walk.paths import VALUE

RARE = 1.0  # for a thousand
DEV = Path(__file__).parent / "dev"
_SIGNS = re.compile(r"[^/^|+()@$]+")
_AMONG = re.compile(r"\s+(not in|in)\s+(\$\d+)$")
_ADDRESS = re.compile(r"\w+://[\w.]+/\w+/")  # before a relation's name: its signs are none of a path
_COMPARISONS = ("<", ">", "<=", ">=", "=", "!=")


def skeleton(program: Sequence[Sequence[str]], starts: int, *, answered: bool = True, by_steps: bool = False) -> str:
    """A program without names and values. Topics and kinds are all `s`, what the steps make is `a`, `b`, `c`; where
    there are no steps, the answer is all of a kind, or there is none.

    >>> skeleton([["tail_entities", "$1", "^part_id/product_id"], ["is_in", "$2", "$3"]], 2)
    'tail_entities s ^r/r; is_in s a'
    >>> skeleton([["filter", "$1", "count(^works_in in $2)", ">", "8"]], 2)
    'filter s count(^r in s) >'
    """
    program = stepwise(program, starts) if by_steps else program
    return "; ".join(" ".join(_step(step, starts)) for step in program) or ("s" if answered else "nothing")


def _step(step: Sequence[str], starts: int) -> Iterator[str]:
    tool, *args = step
    yield tool
    for at, arg in enumerate(args):
        if re.fullmatch(r"\$\d+", arg):
            yield _set(arg, starts)
        elif arg in _COMPARISONS:
            yield arg
        elif (at == 1 and tool not in ("compare", "nth")) or tool == "table":
            yield path_form(arg, starts)


def _set(text: str, starts: int) -> str:
    number = int(text[1:])
    return "s" if number <= starts else chr(ord("a") + number - starts - 1)


def stepwise(program: Sequence[Sequence[str]], starts: int) -> list[list[str]]:
    """The program with every path of plain hops made hop by hop, and no set that is limited: two ways to say one thing.

    >>> stepwise([["tail_entities", "$1", "^part_id/product_id"], ["is_in", "$2", "$3"]], 2)
    [['head_entities', '$1', 'part_id'], ['tail_entities', '$3', 'product_id'], ['is_in', '$2', '$4']]
    """
    steps: list[list[str]] = []
    place = {f"${number}": f"${number}" for number in range(1, starts + 1)}
    for number, (tool, *args) in enumerate(program, starts + 1):
        args = [_ADDRESS.sub("", arg) for arg in args]
        args = [re.sub(r"\$\d+", lambda found: place.get(found[0], found[0]), arg) for arg in args]
        hops = args[1].split("/") if tool == "tail_entities" and not re.search(r"[+(|@]", args[1]) else []
        if len(hops) > 1:
            for hop in hops:
                steps.append(["head_entities" if hop[0] == "^" else "tail_entities", args[0], hop.lstrip("^")])
                args = [f"${starts + len(steps)}"]
        else:
            steps.append([tool, *args])
        place[f"${number}"] = f"${starts + len(steps)}"
    return steps


def path_form(text: str, starts: int) -> str:
    """The form of a path or value.

    >>> path_form("(^part_id/component_id)+", 1), path_form("start(currency in $2)", 2), path_form("currency@now", 1)
    ('(^r/r)+', 'start(r in s)', 'r@now')
    """
    text = _ADDRESS.sub("", text)
    wrapped = VALUE.fullmatch(text)
    if wrapped is not None:
        among = _AMONG.search(wrapped[2])
        inside = wrapped[2][: among.start()] if among else wrapped[2]
        limit = f" {among[1]} {_set(among[2], starts)}" if among else ""
        return f"{wrapped[1]}({path_form(inside, starts)}{limit})"
    text, _, date = text.partition("@")
    again = "+" if date.endswith("+") else ""
    return _SIGNS.sub("r", text) + (f"@{'now' if date.startswith('now') else 'date'}{again}" if date else "")


def loose(text: str) -> str:
    """A skeleton without what is learnt apart: all comparisons are one, and a hop is a hop in either direction.

    >>> loose("head_entities s r; filter a r >=")
    'hop s r; filter a r <>'
    """
    text = re.sub(r"(?:head|tail)_entities", "hop", text)
    text = re.sub(r"\barg(?:max|min)\b", "arg", re.sub(r"\b(?:top|bottom)\b", "top", text))
    return re.sub(r"(?<= )(?:[<>]=?)(?=;|$)", "<>", text)


def gold(folder: Path = DEV, *, by_steps: bool = False) -> Iterator[tuple[dict[str, Any], str]]:
    """The development questions, each with its skeleton."""
    for path in sorted(folder.glob("*/questions.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            question = json.loads(line)
            found = question["starts"]
            starts = len(found["entities"]) + len(found["kinds"])
            yield (
                question,
                skeleton(
                    question.get("program", ()), starts, answered=question["answer_kind"] != "none", by_steps=by_steps
                ),
            )


def made(folder: Path, *, by_steps: bool = False) -> Iterator[str]:
    """The skeletons of the questions of a made dataset."""
    for path in sorted(folder.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                question = json.loads(line)
                starts = len(question["topic_entities"]) + len(question.get("kinds", ()))
                yield skeleton(
                    question["program"], starts, answered=question["answer_kind"] != "none", by_steps=by_steps
                )


def report(folder: Path, *, exact: bool) -> dict[str, Any]:
    """How often each gold skeleton is made, and what is rarely made, all together and by shape."""
    form = str if exact else loose
    counts = Counter(form(one) for one in made(folder, by_steps=not exact))
    total = counts.total()
    asked: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for question, text in gold(by_steps=not exact):
        asked[form(text)].append(question)
    rate = {text: 1000 * counts[text] / total for text in asked}
    rare = {text for text in asked if rate[text] < RARE}
    shapes: dict[str, list[bool]] = defaultdict(list)
    for text, questions in asked.items():
        for question in questions:
            shapes[question["shape"]].append(text in rare)
    every = [one for some in shapes.values() for one in some]
    return {
        "made": total,
        "skeletons": [
            {"skeleton": text, "questions": len(asked[text]), "per_thousand": round(rate[text], 2)}
            for text in sorted(asked, key=lambda one: (rate[one], one))
        ],
        "never": sum(not counts[text] for text in asked),
        "rare": len(rare),
        "share_rare": round(sum(every) / len(every), 3),
        "share_rare_by_shape": {name: f"{sum(some)}/{len(some)}" for name, some in sorted(shapes.items())},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("made", type=Path, help="a dataset folder of `kgwalk questions worlds`")
    parser.add_argument(
        "--loose",
        action="store_true",
        help="a path counts as its hops; directions of hops and comparisons count as the same",
    )
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = report(args.made, exact=not args.loose)
    if args.json:
        print(json.dumps(found, indent=1))
        return
    for one in found["skeletons"]:
        print(f"{one['per_thousand']:7.2f}  {one['questions']:3}  {one['skeleton']}")
    print(
        f"{found['made']} made; of {len(found['skeletons'])} skeletons {found['never']} never, {found['rare']} rarely"
    )
    print(f"questions with a rare skeleton: {found['share_rare']}")
    for name, share in found["share_rare_by_shape"].items():
        print(f"  {name}: {share}")


if __name__ == "__main__":
    main()
