"""`kgwalk report`: runs as one HTML file that opens from disk, and its figures and tables as files of their own.

    report = make_report([Path("runs/eval-kgwalk-world-test"), Path("runs/kgwalk-world")])
    Path("report.html").write_text(report.html())

A run is an evaluation, a training (its stages and its own evaluation) or a fit (before, after, training). A report is a
list of sections of figures (charts.py), tables and walks. All numbers come from the files of the runs by the functions
that `kgwalk eval` and `kgwalk compare` print from. The file loads nothing and has no script; names are escaped text.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgwalk import __version__
from kgwalk.config.run_folder import RESTORE, RunFolder, episode_from, open_run, read_rows
from kgwalk.evaluation.charts import (
    Bar,
    Cell,
    Curve,
    Estimate,
    ReportFigure,
    ReportTable,
    ReportWalk,
    Section,
    bar_chart,
    csv_text,
    line_chart,
    reliability_chart,
    section_html,
    slug,
    to_png,
)
from kgwalk.evaluation.report import (
    ACCURACY,
    METRICS,
    PREDICTIONS,
    STEP_EPISODES,
    STEP_METRICS,
    PredictionRow,
    accuracy_by,
    chances_of,
    check_finished,
    compare,
    grouped,
    key_of,
    read_predictions,
    summarise,
    whole_rows,
)
from kgwalk.score.statistics import bootstrap_interval, reliability
from kgwalk.types import InputError, KgwalkError, escaped, transcript_html

EPISODES = 12  # walks in a report
STAGES = ("sft", "grpo")
CURVES = {
    "reward": "Reward",
    "f1": "F1 of the training walks",
    "eval_f1": "F1 in validation",
    "loss": "Loss",
    "kl": "KL from the start",
    "entropy": "Entropy",
    "generated_tokens": "Tokens a walk",
    "tokens": "Tokens a step",
    "tokens_a_second": "Tokens a second",
    "seconds": "Seconds a step",
}
COSTS = ("generated_tokens", "prompt_tokens", "total_tokens", "turns", "calls", "seconds")
WITHIN = ("before", "after", "train", "eval")  # runs inside the folder of a run
_BARS = 40  # of one figure
_CHANGED = 5  # questions that a comparison shows each way
_CSS = Path(__file__).with_name("report.css")
_GENERATOR = '<meta name="generator" content="kgwalk'  # by which a report is known
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # what a browser may load for the file: nothing


@dataclass(frozen=True)
class Evaluated:
    label: str
    folder: RunFolder
    rows: list[PredictionRow]
    report: dict[str, Any]


@dataclass(frozen=True)
class Trained:
    """A training, ended or not: the rows of each stage by name."""

    label: str
    folder: RunFolder
    stages: dict[str, list[dict[str, Any]]]


Run = Evaluated | Trained


# The runs


def read_runs(paths: Sequence[Path]) -> list[Run]:
    """The evaluations and trainings of folders; those inside a training or a fit as well."""
    found: dict[Path, RunFolder] = {}
    for path in paths:
        for folder in _inside(open_run(path)):
            found.setdefault(folder.path.resolve(), folder)
    labels = _labels(list(found))
    return [_read(folder, labels[path]) for path, folder in found.items()]


def _inside(folder: RunFolder) -> Iterator[RunFolder]:
    if folder.kind == "eval":
        check_finished(folder)
        yield folder
        return
    if folder.kind not in ("train", "fit"):
        raise KgwalkError(
            f"{folder.path} is a run of kind {folder.kind!r}: a report takes folders of `kgwalk eval`, `kgwalk train` "
            "and `kgwalk fit`"
        )
    if folder.kind == "train":
        yield folder
    for name in WITHIN:
        if (folder.file(name) / "run.json").exists():
            inner = open_run(folder.file(name))
            if inner.kind == "train" or inner.file(METRICS).exists():
                yield from _inside(inner)


def _labels(paths: Sequence[Path]) -> dict[Path, str]:
    """The shortest ends of the paths that tell them apart.

    >>> list(_labels([Path("/a/x/run"), Path("/a/y/run"), Path("/a/three"), Path("/a/three/eval")]).values())
    ['x/run', 'y/run', 'three', 'three/eval']
    """
    labels = {}
    for path in paths:
        for depth in range(2 if path.name in WITHIN else 1, len(path.parts) + 1):
            label = "/".join(path.parts[-depth:])
            if sum(other.parts[-depth:] == path.parts[-depth:] for other in paths) == 1:
                break
        labels[path] = label
    return labels


def _read(folder: RunFolder, label: str) -> Run:
    if folder.kind == "eval":
        found = read_predictions(folder.file(PREDICTIONS))
        rows = [found[key] for key in sorted(found)]
        if not rows:
            raise KgwalkError(f"{folder.file(PREDICTIONS)} is empty; {RESTORE}")
        # a judge's verdicts are in the written report alone
        report = folder.read(METRICS)
        return Evaluated(label, folder, rows, report if "judge" in report else summarise(rows))
    places = {stage: folder.file(stage) / STEP_METRICS for stage in STAGES}
    return Trained(label, folder, {stage: list(_steps(path)) for stage, path in places.items() if path.exists()})


def _steps(path: Path) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(read_rows(path, hint=RESTORE), 1):
        if type(row.get("step")) is not int:
            raise InputError("no proper `step`", path=str(path), line=number, hint=RESTORE)
        yield row


# The sections


@dataclass(frozen=True)
class Report:
    runs: list[Run]
    sections: list[Section]

    @property
    def figures(self) -> list[ReportFigure]:
        return [figure for section in self.sections for figure in section.figures]

    @property
    def tables(self) -> list[ReportTable]:
        return [table for section in self.sections for table in section.tables]

    def html(self) -> str:
        """The whole file."""
        names = ", ".join(run.label for run in self.runs)
        links = [f'<a href="#{slug(section.title)}">{escaped(section.title)}</a>' for section in self.sections]
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'{_GENERATOR} {__version__}">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escaped(names)} · kgwalk report</title>\n<style>\n{_CSS.read_text()}</style>\n</head>\n<body>\n"
            f"<header>\n<h1>kgwalk report</h1>\n<p>{escaped(names)}</p>\n"
            f'<nav aria-label="Sections">{"".join(links)}</nav>\n</header>\n'
            f"<main>\n{''.join(map(section_html, self.sections))}</main>\n</body>\n</html>\n"
        )


def make_report(paths: Sequence[Path], *, episodes: int = EPISODES) -> Report:
    """The report of run folders; `episodes` walks in all are shown, of each run about as many."""
    runs = read_runs(paths)
    done = [run for run in runs if isinstance(run, Evaluated)]
    trained = [run for run in runs if isinstance(run, Trained)]
    sections = [
        _about(runs),
        *([_scores(done), *_by_group(done), _calibration(done), _errors(done), _web(done)] if done else []),
        *(_compared(done[0], other) for other in done[1:]),
        *([_curves(trained)] if trained else []),
        _cost(done, trained),
        _walks(runs, episodes),
    ]
    return Report(runs, [section for section in sections if section])


def write_report(
    report: Report,
    file: Path,
    *,
    svg: Path | None = None,
    png: Path | None = None,
    csv: Path | None = None,
    force: bool = False,
) -> dict[str, Any]:
    """Write the file, and its figures and tables into folders; what was written, as `report --json` prints it."""
    if file.exists() and not force and _GENERATOR not in file.read_bytes()[:1_000].decode(errors="replace"):
        raise KgwalkError(f"{file} is there already and no report of kgwalk; choose another name, or give --force")
    html = report.html().encode()
    written: dict[str, Any] = {"file": str(file), "bytes": len(html), "runs": [run.label for run in report.runs]}
    files = {file: html}
    for kind, folder, parts in (
        ("svg", svg, {one.name: one.svg.encode() for one in report.figures}),
        ("png", png, {one.name: to_png(one.svg) for one in report.figures} if png else {}),
        ("csv", csv, {one.name: csv_text(one).encode() for one in report.tables}),
    ):
        if folder is not None:
            written[kind] = [str(folder / f"{name}.{kind}") for name in parts]
            files |= {folder / f"{name}.{kind}": value for name, value in parts.items()}
    try:
        for path, value in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            beside = path.with_name(f".{path.name}.partial")
            beside.write_bytes(value)
            beside.replace(path)
    except OSError as error:
        raise KgwalkError(f"cannot write {path}: {error.strerror or error}; choose another place") from error
    return written


def _about(runs: Sequence[Run]) -> Section:
    columns = ["run", "what", "recipe", "data", "questions", "model", "adapter", "begun", "kgwalk", "folder"]
    rows: list[list[Cell]] = []
    for run in runs:
        about = run.folder.about
        settings = about["settings"]
        data, split = settings.get("data"), settings.get("split")
        named = ", ".join(map(str, data)) if isinstance(data, list) else Path(str(data)).name
        model = settings.get("model") or settings.get("sections", {}).get("model", {}).get("name")
        count = run.report["n"] if isinstance(run, Evaluated) else None
        adapter = settings.get("adapter") or settings.get("start")
        rows.append(
            [
                run.label,
                {"eval": "evaluation", "train": "training"}[run.folder.kind],
                str(settings.get("recipe")),
                f"{named} {split or ''}".strip(),
                count,
                None if model is None else str(model),
                None if adapter is None else Path(str(adapter)).name,
                str(about.get("begun") or ""),
                str(about.get("versions", {}).get("kgwalk", "")),
                str(run.folder.path),
            ]
        )
    return Section("Runs", tables=[ReportTable("runs", "What was run", columns, rows)])


def _scores(runs: Sequence[Evaluated]) -> Section:
    labels = [run.label for run in runs]
    names = dict.fromkeys(name for run in runs for name in run.report["metrics"])
    rows: list[list[Cell]] = []
    for group, members in grouped(dict.fromkeys(names, 0.0)).items():
        if group == "web" and not any(run.report["metrics"].get("web_calls") for run in runs):
            continue  # most runs have no web: lines of zeros say nothing
        rows += [[group, name, *(_estimate(run, name) for run in runs)] for name in members]
    bars = [_bar(name.replace("_", " "), at, _estimate(run, name)) for name in ACCURACY for at, run in enumerate(runs)]
    note = "Means over all questions, failures too. Intervals are 95%, resampled over questions"
    clustered = [run for run in runs if "clusters" in run.report]
    note += "; where questions share a seed or topics, over those." if clustered else "."
    chart = bar_chart("Scores", [bar for bar in bars if bar is not None], labels)
    table = ReportTable("metrics", "Metrics", ["group", "metric", *labels], rows)
    return Section("Scores", note, [ReportFigure("scores", chart)], [table])


def _estimate(run: Evaluated, name: str) -> Cell:
    """A metric with the interval to believe: over clusters, where there are any."""
    value = run.report["metrics"].get(name)
    intervals = run.report["intervals"] | run.report.get("clusters", {}).get("intervals", {})
    return Estimate(value, *intervals[name]) if value is not None and name in intervals else value


def _bar(label: str, run: int, value: Cell, note: str = "") -> Bar | None:
    if isinstance(value, Estimate):
        return Bar(label, run, value.value, value.low, value.high, note or f"{value.value:.3f}")
    return None if not isinstance(value, int | float) else Bar(label, run, value, note=note or f"{value:.3f}")


def _by_group(runs: Sequence[Evaluated]) -> Iterator[Section]:
    """One section of the tables that tell something: by hops, type, kind of answer, and what the dataset marks."""
    found = [accuracy_by(run.rows) for run in runs]
    section = Section("Accuracy by group", "F1 of the questions of each group; n is how many there are.")
    for title in dict.fromkeys(title for tables in found for title in tables):
        sizes: dict[str, int] = defaultdict(int)
        for tables in found:
            for line, one in tables.get(title, {}).items():
                sizes[line] = max(sizes[line], one.n)
        if len(sizes) < 2:
            continue  # one line says what the scores say
        rows: list[list[Cell]] = []
        bars = []
        largest = sorted(sizes, key=lambda line: -sizes[line])[: max(2, _BARS // len(runs))]
        for line in sizes:
            for at, (run, tables) in enumerate(zip(runs, found, strict=True)):
                if (score := tables.get(title, {}).get(line)) is not None:
                    cells = [Estimate(*score.scores[name]) for name in ACCURACY]
                    rows.append([line, run.label, score.n, *cells])
                    if line in largest:
                        bars.append(_bar(line, at, cells[0], f"n {score.n:,}"))
        name = slug(f"by {title}")
        labels = [run.label for run in runs]
        chart = bar_chart(f"F1 by {title}", [bar for bar in bars if bar is not None], labels)
        section.figures.append(ReportFigure(name, chart))
        columns = [title, "run", "n", *(name.replace("_", " ") for name in ACCURACY)]
        section.tables.append(ReportTable(name, f"By {title}", columns, rows, folded=True))
    if section.figures:
        yield section


def _calibration(runs: Sequence[Evaluated]) -> Section:
    having = [(at, run) for at, run in enumerate(runs) if "calibration" in run.report]
    if not having:
        return Section("Calibration")
    bins = [(at, reliability(*chances_of(run.rows))) for at, run in having]
    labels = [run.label for run in runs]
    columns = ["run", "answers", "right", "ECE", "AUROC", "above 0.9", "of these right"]
    keys = ("n", "right", "ece", "auroc", "above_90", "above_90_right")
    rows: list[list[Cell]] = [[run.label, *(run.report["calibration"][key] for key in keys)] for _, run in having]
    note = (
        "Whether confidence can be relied on. On the dashed line an answer is as often right as it promises; below it, "
        "less often. The larger a dot, the more answers."
    )
    chart = ReportFigure("calibration", reliability_chart("Share that is right, by confidence", bins, labels))
    return Section("Calibration", note, [chart], [ReportTable("calibration", "Calibration", columns, rows)])


def _errors(runs: Sequence[Evaluated]) -> Section:
    section = Section("Errors", "What went wrong in walks that were not wholly right, by rule, and why walks ended.")
    labels = [run.label for run in runs]
    for key, title in (("errors", "Wrong walks by class of error"), ("stops", "Why walks ended")):
        names = dict.fromkeys(name for run in runs for name in run.report[key])
        if not names:
            continue
        columns = [key.removesuffix("s"), "run", "walks", "share of the run's walks"]
        rows: list[list[Cell]] = []
        bars = []
        for name in names:
            for at, run in enumerate(runs):
                count = run.report[key].get(name, {}).get("n", 0)
                rows.append([name, run.label, count, count / len(run.rows)])
                bars.append(Bar(name, at, count / len(run.rows), note=f"{count:,}"))
        section.tables.append(ReportTable(key, title, columns, rows, folded=key == "errors"))
        if key == "errors":
            section.figures.append(ReportFigure(key, bar_chart(f"{title}, as a share of all", bars, labels, most=None)))
    return section


def _web(runs: Sequence[Evaluated]) -> Section:
    """How often the web was asked, and with what success, where facts were hidden or there was a web."""
    rows: list[list[Cell]] = []
    points: dict[str, dict[str, list[tuple[float, float]]]] = {"f1": defaultdict(list), "web_used": defaultdict(list)}
    for run in runs:
        settings = run.folder.about["settings"]
        world = settings.get("world", {})
        drop = float(world.get("drop") or 0)
        if not drop and not run.report["metrics"].get("web_calls"):
            continue
        graphs = defaultdict(list)
        for row in run.rows:
            graphs["all"].append(row["metrics"])
            if "graph" in row["groups"]:
                graphs[row["groups"]["graph"]].append(row["metrics"])
        for graph, metrics in graphs.items():
            scores = [one["f1"] for one in metrics]
            f1 = Estimate(_mean(scores), *bootstrap_interval(scores))
            used = _mean([one.get("web_used", 0.0) for one in metrics])
            calls = _mean([one.get("web_calls", 0.0) for one in metrics])
            rows.append([run.label, drop, str(world.get("web") or ""), graph, len(metrics), f1, used, calls])
            if graph == "all":
                for name, value in (("f1", f1.value), ("web_used", used)):
                    points[name][str(settings.get("recipe"))].append((drop, value))
    columns = ["run", "facts hidden", "web", "graph", "walks", "f1", "web used", "web calls a walk"]
    tables = [ReportTable("web", "By share of facts hidden", columns, rows)] if rows else []
    section = Section("Hidden facts and the web" if rows else "", tables=tables)
    for name, title in (("f1", "F1 by share of facts hidden"), ("web_used", "Share of walks that used the web")):
        if len({drop for each in points[name].values() for drop, _ in each}) > 1:
            curves = [Curve(at, sorted(each)) for at, each in enumerate(points[name].values())]
            svg = line_chart(title, curves, list(points[name]), x="share of facts hidden", span=(0, 1))
            section.figures.append(ReportFigure(slug(f"web {name}"), svg))
    return section


def _compared(first: Evaluated, second: Evaluated) -> Section:
    title = f"{second.label} against {first.label}"
    try:
        found = compare(first.folder.path, second.folder.path)
    except KgwalkError as why:
        return Section(title, f"They cannot be paired: {why}")
    rows: list[list[Cell]] = [
        [name, one["n"], one["first"], one["second"], Estimate(one["difference"], *one["interval"]), f"{one['p']:.4f}"]
        for name, one in found["metrics"].items()
    ]
    columns = ["metric", "questions", first.label, second.label, "difference", "p"]
    tables = [ReportTable(slug(f"compared {title}"), "Question by question", columns, rows)]
    changed: list[list[Cell]] = [
        [way, *one["f1"], one["id"], one["question"]] for way in ("gained", "lost") for one in found[way][:_CHANGED]
    ]
    if changed:
        columns = ["", f"F1 {first.label}", f"F1 {second.label}", "id", "question"]
        tables.append(ReportTable(slug(f"changed {title}"), "The largest changes", columns, changed))
    note = (
        f"The {found['n']:,} questions of both, paired: {len(found['gained']):,} gained, {len(found['lost']):,} lost "
    )
    note += "by F1. p is how likely so large a difference is by chance."
    if any(found["left_out"]):
        note += f" Not in both and left out: {found['left_out'][0]:,} and {found['left_out'][1]:,}."
    return Section(title, note, tables=tables)


def _curves(runs: Sequence[Trained]) -> Section:
    labels = [run.label for run in runs]
    figures = []
    last: list[list[Cell]] = []
    for stage in STAGES:
        having = {at: run.stages[stage] for at, run in enumerate(runs) if run.stages.get(stage)}
        for name, title in CURVES.items():
            curves = [Curve(at, _points(rows, name)) for at, rows in having.items()]
            if any(curve.points for curve in curves):
                chart = line_chart(f"{title} ({stage.upper()})", [one for one in curves if one.points], labels)
                figures.append(ReportFigure(slug(f"{stage} {name}"), chart))
        for at, rows in having.items():
            best = max((value for _, value in _points(rows, "eval_f1")), default=None)
            ends = [rows[-1].get(name) for name in ("loss", "reward", "f1")]
            last.append([runs[at].label, stage, rows[-1]["step"], *ends, best])
    columns = ["run", "stage", "steps", "last loss", "last reward", "last F1", "best F1 in validation"]
    steps: list[list[Cell]] = [
        [run.label, stage, row["step"], *(row.get(name) for name in CURVES)]
        for run in runs
        for stage, rows in run.stages.items()
        for row in rows
    ]
    tables = [ReportTable("stages", "Stages", columns, last)] if last else []
    tables += [ReportTable("steps", "Steps", ["run", "stage", "step", *CURVES], steps, on_page=False)] if steps else []
    waiting = [run.label for run in runs if not run.folder.file("train.json").exists()]
    note = f"Not ended yet: {', '.join(waiting)}." if waiting else ""
    return Section("Training", note, figures, tables)


def _points(rows: Sequence[dict[str, Any]], name: str) -> list[tuple[float, float]]:
    return [(row["step"], row[name]) for row in rows if isinstance(row.get(name), int | float)]


def _cost(runs: Sequence[Evaluated], trained: Sequence[Trained]) -> Section:
    section = Section("Cost")
    rows: list[list[Cell]] = []
    for run in runs:
        sums = [sum(row["metrics"].get(name, 0) for row in run.rows) for name in COSTS]
        rows += [[run.label, "all walks", len(run.rows), *sums]]
        rows += [[run.label, "a walk", 1, *(value / len(run.rows) for value in sums)]]
    if rows:
        columns = ["run", "of", "walks", *(name.replace("_", " ") for name in COSTS)]
        section.tables.append(ReportTable("cost", "Evaluations", columns, rows))
        section.note = "Seconds are those of the walks, many of which are under way at once."
    learnt: list[list[Cell]] = []
    for one in trained:
        for stage, steps in one.stages.items():
            seconds = sum(value for _, value in _points(steps, "seconds"))
            walks = sum(value for _, value in _points(steps, "episodes"))
            written = sum(row.get("generated_tokens", 0) * row.get("episodes", 0) for row in steps)
            tokens = sum(value for _, value in _points(steps, "tokens")) or written
            learnt.append([one.label, stage, len(steps), seconds, int(walks), int(tokens)])
    if learnt:
        columns = ["run", "stage", "steps", "seconds", "walks", "tokens"]
        section.tables.append(ReportTable("cost-training", "Trainings", columns, learnt))
    return section


# Walks to read


def _walks(runs: Sequence[Run], count: int) -> Section:
    """A sample of walks, the wrong ones first; what the model was told is grey."""
    note = "A seeded sample, wrong ones first. What the model wrote has a line beside it; what it was told is grey."
    having = [run for run in runs if isinstance(run, Evaluated) or _recorded(run).exists()]
    found = []
    for at, run in enumerate(having):
        share = count // len(having) + (at < count % len(having))
        found += list(_evaluated_walks(run, share) if isinstance(run, Evaluated) else _training_walks(run, share))
    return Section("Walks", note, walks=sorted(found, key=lambda one: one.right)) if found else Section("")


def sampled(rows: Sequence[PredictionRow], count: int, seed: int = 0) -> list[PredictionRow]:
    """Two thirds wrong walks, if there are so many, of every class of error in turn; the rest right ones.

    >>> errors = ["reasoning"] * 9 + ["decomposition"] + [None] * 9
    >>> [row["error"] for row in sampled([{"error": error} for error in errors], 6)]
    ['reasoning', 'decomposition', 'reasoning', 'reasoning', None, None]
    """
    classes: dict[str | None, list[PredictionRow]] = defaultdict(list)
    for row in random.Random(f"kgwalk/{seed}").sample(list(rows), len(rows)):
        classes[row["error"]].append(row)
    right = classes.pop(None, [])
    order = sorted(classes.values(), key=lambda each: -len(each))
    wrong = [each[at] for at in range(count) for each in order if at < len(each)]
    most = max(count - count // 3, count - len(right))
    return [*wrong[:most], *right[: count - min(most, len(wrong))]]


def _evaluated_walks(run: Evaluated, count: int) -> Iterator[ReportWalk]:
    wanted = {key_of(row): row for row in sampled(run.rows, count)}
    path = run.folder.file(PREDICTIONS)
    episodes = {key_of(row): row["episode"] for row in whole_rows(path) if key_of(row) in wanted}
    for key, row in wanted.items():
        about = f"{run.label} · F1 {row['metrics']['f1']:.2f} · {row['error'] or 'right'} · {row['question']}"
        yield _walk(episodes[key], row["error"] is None, about, path)


def _recorded(run: Trained) -> Path:
    return run.folder.file("grpo") / STEP_EPISODES


def _training_walks(run: Trained, count: int) -> Iterator[ReportWalk]:
    """Walks spread over the steps, with what each turn was rewarded and credited."""
    rows = list(_steps(_recorded(run)))
    for at in range(min(count, len(rows))):
        row = rows[at * len(rows) // min(count, len(rows))]
        rewards = row.get("rewards") or {}
        turns, credit = rewards.get("turns") or [], row.get("advantages") or []
        notes = []
        for place in range(max(len(turns), len(credit))):
            reward = f"reward {turns[place]:.2f}" if place < len(turns) else ""
            advantage = f"advantage {credit[place]:+.2f}" if place < len(credit) else ""
            notes.append(" · ".join(filter(None, (reward, advantage))))
        parts = ", ".join(f"{name} {value:.2f}" for name, value in (rewards.get("parts") or {}).items())
        right = set(row["episode"].get("answers", [])) == set(row["episode"].get("question", {}).get("answers", []))
        about = f"{run.label} · step {row['step']} · reward {rewards.get('whole', 0.0):.2f} ({parts})"
        yield _walk(row["episode"], right, about, _recorded(run), notes)


def _walk(row: Any, right: bool, about: str, path: Path, notes: Sequence[str] = ()) -> ReportWalk:
    try:
        episode = episode_from(row)
    except ValueError as error:
        raise InputError(f"not an episode: {error}", path=str(path), hint=RESTORE) from None
    gold = escaped(", ".join(episode.question.answers)) or "none"
    shown = transcript_html(episode, notes)
    return ReportWalk(right, about, f"{shown}<p>right answer: <b>{gold}</b></p>")


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
