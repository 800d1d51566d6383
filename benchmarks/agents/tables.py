"""The tables of docs/results.md, by name: what each is called, the files that it rests on and how it is made.

    python -m benchmarks.agents tables docs/results                              # all of them, from what was published
    python -m benchmarks.agents tables docs/results recipes                      # one
    python -m benchmarks.agents tables docs/results --into docs/results.md       # the page's tables, made anew
    python -m benchmarks.agents tables WORK                                      # from what was measured just now

A table is shown as soon as one of its own experiments was tested; what else it compares is a "-" until then. Those
about the agents of the core language are made here, the others in agent_tables.py, strength.py, paper_tables.py and
fit_tables.py. In the page a table stands above
the line that names its files and its command, which is how it is found there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.agents.agent_tables import people, public_sets, shapes, sureness
from benchmarks.agents.experiments import BUNDLED, EXPERIMENTS, TESTED, TESTED_LEFT_OUT, plain
from benchmarks.agents.fit_tables import fit_command, small_courses
from benchmarks.agents.markdown import MISSING, amount, counted, deviation, difference, mean, share, table
from benchmarks.agents.measured import Measured, seeds
from benchmarks.agents.paper_tables import ablations_eog, ablations_kg_r1, hidden, recipes, several_walks
from benchmarks.agents.strength import at_strength

from kgwalk.config.recipe import unknown
from kgwalk.types import KgwalkError

SIDE_BY_SIDE = ["vanilla", "cot", "worlds", "worlds-grpo", "half", "half-agent", "all", "agent"]
SHIPPED = "agent"
STAGES = {"worlds": "worlds", "all": "then made questions and train splits (`all`)", "agent": "then GRPO (`agent`)"}
STAGED = ("metaqa", "webqsp-fbpool", "cwq-fbpool", "timequestions", BUNDLED)
GRPO = "grpo"
OLDER = "older-worlds"  # agents of worlds as they were a version before; no experiment makes them any more
CONFIDENT = (  # agents and sets whose F1 is shown by how sure the model was
    ("cwq-fbpool", SHIPPED, "cwq-fbpool"),
    ("webqsp-fbpool", SHIPPED, "webqsp-fbpool"),
    ("the bundled graph", SHIPPED, BUNDLED),
    ("metaqa, by an agent that had not seen it (`worlds-grpo`)", "worlds-grpo", "metaqa"),
    ("webqsp-fbpool, by the same", "worlds-grpo", "webqsp-fbpool"),
    ("webqsp-fbpool, by one that had SFT alone (`worlds`)", "worlds", "webqsp-fbpool"),
    ("wc2014, by `worlds-grpo`", "worlds-grpo", "wc2014"),
)
FIFTHS = ("0-20", "20-40", "40-60", "60-80", "80-100")  # percent


def side_by_side(measured: Measured) -> str | None:
    """F1, a column an experiment."""
    if not any(map(measured.tested, SIDE_BY_SIDE)):
        return None
    listed = [f"- `{name}`{_after(name)}: {EXPERIMENTS[name].what}" for name in SIDE_BY_SIDE]
    rows = [
        [
            data,
            counted(measured.counts(SIDE_BY_SIDE, data)),
            *(share(measured.number(name, data)) for name in SIDE_BY_SIDE),
        ]
        for data in TESTED
    ]
    head = ["questions", "n", *(f"`{name}`" for name in SIDE_BY_SIDE)]
    return "\n".join([*listed, "", table(head, rows)])


def _after(name: str) -> str:
    """
    >>> _after("worlds-grpo"), _after("vanilla")
    (' (after `worlds`)', '')
    """
    start = EXPERIMENTS[name].start
    return "" if start is None else f" (after `{start}`)"


def shipped_agent(measured: Measured) -> str | None:
    """The numbers of the agent of the core language that was shipped, beside an oracle and a random walk."""
    titles = {"metaqa": "metaqa, 1 to 3 hops", BUNDLED: f"the bundled graph (`{BUNDLED}`)"}
    rows = []
    for data in TESTED:
        report = measured.test(SHIPPED, data)
        if report is not None:
            metrics, noted = report["metrics"], measured.noted("shipped-agent").get(data, {})
            median, most = noted.get("seconds_median"), noted.get("seconds_90_percent")
            rows.append(
                [
                    titles.get(data, data),
                    counted([report["n"]]),
                    share(metrics.get("f1"), report["intervals"].get("f1")),
                    *(share(metrics.get(key)) for key in ("hits_at_1", "hit_any", "retrieval_rate")),
                    amount(metrics.get("generated_tokens")),
                    share(noted.get("oracle_f1")),
                    share(noted.get("random_walk_f1")),
                    MISSING if median is None else f"{amount(median)} ({amount(most)})",
                ]
            )
    head = ["questions", "n", "F1", "Hits@1", "hit_any", "answer in what was seen", "tokens written", "oracle F1"]
    return table([*head, "random walk F1", "seconds on two cores"], rows) if rows else None


def without_a_graph(measured: Measured) -> str | None:
    """The untrained model, which answers from what it knows."""
    names = ("vanilla", "cot")
    if not any(map(measured.tested, names)):
        return None
    columns = {
        "F1": ("f1", 3),
        "Hits@1": ("hits_at_1", 2),
        "answer in the text": ("hit_substring", 2),
        "tokens": ("generated_tokens", 0),
    }
    asked = [(name, key, digits) for name in names for key, digits in columns.values()]
    rows = [
        [data, *(amount(measured.number(name, data, key), digits) for name, key, digits in asked)] for data in TESTED
    ]
    head = [f"{name} {title}" if title == "F1" else title for name in names for title in columns]
    return table(["questions", *head], rows)


def stages(measured: Measured) -> str | None:
    """What each stage of training adds to the agent of the core language."""
    if not any(map(measured.tested, STAGES)):
        return None
    rows = [[data, *(share(measured.number(name, data)) for name in STAGES)] for data in STAGED]
    return table(["questions", *STAGES.values()], rows)


def grpo_seeds(measured: Measured) -> str | None:
    """The seeds of GRPO beside what they all began from."""
    names = seeds(GRPO)
    if not any(map(measured.tested, names)):
        return None
    rows, sft = [], EXPERIMENTS[names[0]].start or ""
    for data in map(plain, EXPERIMENTS[names[0]].tests):
        start, values = measured.number(sft, data), [measured.number(name, data) for name in names]
        rows.append(
            [
                data,
                counted(measured.counts([sft, *names], data)),
                *map(share, [start, *values, mean(values), deviation(values)]),
                difference(mean(values), start),
            ]
        )
    head = ["questions", "n", "SFT", *(f"seed {EXPERIMENTS[name].seed}" for name in names)]
    return table([*head, "mean", "standard deviation", "difference"], rows)


def unseen_graphs(measured: Measured) -> str | None:
    """Graphs of which nothing was learnt: worlds alone, all the other graphs, then GRPO and a fit.

    The best of a row is bold, unless it is of the older worlds, which are gone.
    """
    rows, tested = [], False
    for graph, tests in TESTED_LEFT_OUT.items():
        for data in map(plain, tests):
            left_out, fitted = f"without-{graph}", f"fit-{data}"
            tested = tested or any(map(measured.tested, [left_out, "worlds-grpo", fitted]))
            names = [OLDER, left_out, "worlds", "worlds-grpo", fitted]
            best = _best(measured, names, data)
            cells = [
                share(measured.number(name, data), measured.interval(name, data), best=name == best)
                for name in names[1:]
            ]
            if measured.test(fitted, data) is None:
                cells[-1] = "see below" if data == BUNDLED else "not run"
            older = share(measured.number(OLDER, data))
            rows.append([data, counted(measured.counts(names, data)), older, *cells])
    head = ["questions", "n", "worlds, as they were", "left out", "worlds", "worlds, GRPO", "fit"]
    return table(head, rows) if tested else None


def _best(measured: Measured, names: Sequence[str], data: str) -> str | None:
    """The experiment with the highest F1 on a set, of equals the last."""
    found = [(f1, at) for at, name in enumerate(names) if (f1 := measured.number(name, data)) is not None]
    return names[max(found)[1]] if found else None


def fits_held_out(measured: Measured) -> str | None:
    """What the fits of `unseen_graphs` say of themselves, on made questions held out."""
    rows = []
    for data in TESTED:
        fit = measured.fit(f"fit-{data}")
        if fit is not None:
            figures = [share(fit["before"].get("f1")), share(fit["after"].get("f1"))]
            rows.append([data, *figures, "start kept" if fit["kept"] == "start" else "taken"])
    return table(["fit to the graph of", "F1 before", "after", "what became of it"], rows) if rows else None


def confidence(measured: Measured) -> str | None:
    """F1 by the chance that the model gave to all that it wrote."""
    rows = []
    for title, name, data in CONFIDENT:
        report = measured.test(name, data)
        if report is not None:
            fifths = report["by"].get("confidence", {})
            shown = [fifths.get(fifth) for fifth in FIFTHS]
            cells = ["none" if one is None else f"{one['f1']:.2f} of {one['n']:,}" for one in shown]
            rows.append([title, *cells])
    return table(["questions", *(f"{fifth.replace('-', ' to ')}%" for fifth in FIFTHS)], rows) if rows else None


@dataclass(frozen=True)
class Table:
    title: str
    make: Callable[[Measured], str | None]
    files: tuple[str, ...]  # of docs/results, with all that it rests on; none where its reports lie elsewhere


TABLES = {
    "people": Table("The agents that come with kgwalk, asked by people: F1", people, ()),
    "shapes": Table("The same, sealed graphs, by shape: F1", shapes, ()),
    "public-sets": Table("The same, public sets", public_sets, ("agents",)),
    "sureness": Table("The same: how sure they are", sureness, ("agents",)),
    "at-strength": Table("The papers' systems, trained until they stop improving", at_strength, ()),
    "side-by-side": Table(
        "Our agents: F1",
        side_by_side,
        ("without-a-graph", "unseen-graphs", "grpo-seeds", "stages", "shipped-agent"),
    ),
    "shipped-agent": Table("The agent of the core language", shipped_agent, ("shipped-agent",)),
    "without-a-graph": Table("Without a graph", without_a_graph, ("without-a-graph",)),
    "stages": Table("What its stages add: F1", stages, ("unseen-graphs", "stages", "shipped-agent")),
    "grpo-seeds": Table("SFT against GRPO: F1", grpo_seeds, ("grpo-seeds",)),
    "unseen-graphs": Table("Graphs it has never seen: F1", unseen_graphs, ("unseen-graphs",)),
    "fits-held-out": Table("The fits, on made questions held out", fits_held_out, ("unseen-graphs",)),
    "recipes": Table("Recipes: F1", recipes, ("recipes",)),
    "hidden-facts": Table("Facts hidden: F1", hidden, ("recipes", "hidden-facts")),
    "ablations-kg-r1": Table("Ablations of KG-R1: F1", ablations_kg_r1, ("ablations-kg-r1",)),
    "ablations-eog": Table("Ablations of Explore-on-Graph: F1", ablations_eog, ("ablations-eog",)),
    "several-walks": Table("Several walks", several_walks, ("several-walks",)),
    "fit-command": Table("`kgwalk fit`", fit_command, ("fit-command",)),
    "fit-small-courses": Table("`kgwalk fit` on a processor", small_courses, ("fit-small-courses",)),
    "confidence": Table("F1 by confidence", confidence, ("shipped-agent", "unseen-graphs")),
}
# In a page: a table, and below it the line with its command.
COMMAND = r"`python -m benchmarks\.agents tables docs/results (?P<name>[\w-]+)`"
IN_PAGE = re.compile(rf"(?P<table>(?:^\|.*\n)+)\n(?=.*{COMMAND})", re.MULTILINE)


def tables(folder: Path, names: Sequence[str] = ()) -> str:
    """Those named, or all of which something was measured, in a work folder or a folder of results files. Tables of
    reports that lie elsewhere in this repository say nothing about a work folder: there they are shown by name alone.
    """
    measured = Measured.of(folder)
    wanted = names or [name for name, table in TABLES.items() if table.files or measured.published]
    made = {name: _table(name).make(measured) for name in wanted}
    return "\n\n".join(f"## {TABLES[name].title}\n\n{text}" for name, text in made.items() if text is not None)


def remade(page: str, measured: Measured) -> str:
    """A page with its tables made anew."""

    def replaced(found: re.Match[str]) -> str:
        text = _table(found["name"]).make(measured)
        if text is None:
            raise KgwalkError(f"nothing was measured of the table `{found['name']}`; publish its reports first")
        return f"{text}\n\n"

    return IN_PAGE.sub(replaced, page)


def in_page(page: str) -> dict[str, str]:
    """The tables of a page, by name."""
    return {found["name"]: found["table"].rstrip("\n") for found in IN_PAGE.finditer(page)}


def _table(name: str) -> Table:
    if name not in TABLES:
        raise unknown("table", name, TABLES)
    return TABLES[name]
