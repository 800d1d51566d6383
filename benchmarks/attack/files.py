"""Every parser: files and bodies damaged at random, by bytes and by structure; a message or success, never a traceback.

Good samples are made first, by kgwalk itself. Then one after the other is damaged and read as a user's file would be:
recipes, questions, datasets, demonstrations, adapters, rows and records of runs, proposals, rankers' cards, corpora,
graphs in every format, labels, and JSON sent to the server. A try fails if anything but success or a KgwalkError comes
of it; of the server, if it answers 500 or not at all. The line of a failure names the parser and the try's number: with
the same seed, `damaged(random.Random(f"{seed}/{parser}/{number}"), sample)` gives the same bytes again.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import logging
import random
import shutil
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
from benchmarks.attack import Result, environment

from kgwalk.types import KgwalkError

FILMS = Path(__file__).parents[2] / "examples" / "films.tsv"
ODD: list[Any] = [
    *(None, True, False, 0, -1, 1.5, 1e308, 2**62, 2**63, 10**30, "", "x", "\x00", "\ud800", "é" * 3, "1", "NaN"),
    *([], {}, [[]], [None], [1], ["a", 5], {"": {}}, {"a": [None]}, [[["a"]]]),
]
BYTES = (b"\xff", b"\x00", b"\xef\xbb\xbf", b"\xfe\xff", b"\r", b"\n", b'"', b"\\", b"\t", b"{", b"[", b"\xed\xa0\x80")
FORMATS = ("tsv", "csv", "nt", "nq", "ttl", "jsonl")


def attack(seconds: float, seed: int) -> Result:
    """Damage and read for so many seconds; every parser gets as much time as any other."""
    result, counts = Result(), Counter[str]()
    until = time.monotonic() + seconds
    logging.disable(logging.CRITICAL)
    with (
        tempfile.TemporaryDirectory(prefix="kgwalk-files-") as made,
        _environment(Path(made)),
        _parsers(Path(made)) as parsers,
    ):
        spent, number = dict.fromkeys(parsers, 0.0), dict.fromkeys(parsers, 0)
        while (began := time.monotonic()) < until:
            name = min(spent, key=spent.__getitem__)
            sample, read = parsers[name]
            outcome = _outcome(read, damaged(random.Random(f"{seed}/{name}/{number[name]}"), sample))
            result.check(outcome in ("read", "refused"), f"{name}, try {number[name]}: {outcome}")
            counts[outcome] += 1
            number[name] += 1
            spent[name] += time.monotonic() - began
    logging.disable(logging.NOTSET)
    result.figures = {
        "parsers": str(len(number)),
        "fewest tries of one": f"{min(number.values()):,}",
        "refused with a message": f"{counts['refused']:,}",
        "read all the same": f"{counts['read']:,}",
    }
    return result


def _outcome(read: Callable[[bytes], object], content: bytes) -> str:
    try:
        read(content)
    except KgwalkError as error:
        return "refused" if str(error).strip() else "a KgwalkError without a message"
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error)[:120]} ({Path(last.filename).name}:{last.lineno})"
    return "read"


# Damage


def damaged(draw: random.Random, sample: bytes) -> bytes:
    """The sample with one to three damages, of its bytes, its lines, or the JSON in it."""
    content = sample
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        content = draw.choice((_bytes, _bytes, _lines, _lines, _json, _json, _json, _json, _whole))(draw, content)
    return content


def _bytes(draw: random.Random, content: bytes) -> bytes:
    at = draw.randrange(len(content) + 1)
    match draw.randrange(5):
        case 0:
            return content[:at]
        case 1:
            return content[:at] + draw.choice(BYTES) + content[at:]
        case 2:
            return content[:at] + bytes([draw.randrange(256)]) + content[at + 1 :]
        case 3:
            return content[:at] + content[at + draw.randrange(1, 40) :]
        case _:
            return content[:at] + draw.randbytes(draw.randrange(1, 30)) + content[at:]


def _lines(draw: random.Random, content: bytes) -> bytes:
    lines = content.split(b"\n")
    one, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    match draw.randrange(5):
        case 0:
            lines[one], lines[other] = lines[other], lines[one]
        case 1:
            lines.insert(one, lines[other])
        case 2:
            del lines[one]
        case 3:
            lines[one] = lines[one][: draw.randrange(len(lines[one]) + 1)]
        case _:
            lines.insert(
                one, draw.choice((b"", b"   ", b"{}", b"[]", b"null", b"1", b"#", b'"', b"\t\t\t", b"[x", b"="))
            )
    return b"\n".join(lines)


def _json(draw: random.Random, content: bytes) -> bytes:
    """One value of the JSON, of one line of it, or of a TOML line, becomes another."""
    try:
        return json.dumps(_changed(draw, json.loads(content))).encode("utf-8", "replace")
    except (ValueError, RecursionError):
        pass
    lines = content.split(b"\n")
    at = draw.randrange(len(lines))
    try:
        lines[at] = json.dumps(_changed(draw, json.loads(lines[at]))).encode("utf-8", "replace")
    except (ValueError, RecursionError):
        key, found, _ = lines[at].partition(b"=")
        if found:
            lines[at] = key + b"= " + json.dumps(draw.choice(ODD)).encode("utf-8", "replace")
    return b"\n".join(lines)


def _changed(draw: random.Random, value: Any) -> Any:
    """A copy with one place changed: another value, a key gone, one too many."""
    places = list(_places(value))
    if not places:
        return draw.choice(ODD)
    holder, key = draw.choice(places)
    match draw.randrange(6):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.append(draw.choice(ODD))
        case 1:
            holder[draw.choice(("", "x", "id", "\x00"))] = draw.choice(ODD)
        case 2:
            other, place = draw.choice(places)
            with contextlib.suppress(LookupError):
                holder[key] = json.loads(json.dumps(other[place]))
        case _:
            holder[key] = draw.choice(ODD)
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a JSON value: the list or object, and the index or key."""
    for key, inside in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield value, key
        yield from _places(inside)


def _whole(draw: random.Random, content: bytes) -> bytes:
    match draw.randrange(7):
        case 0:
            return content.decode("utf-8", "replace").encode("utf-16")
        case 1:
            return content.decode("utf-8", "replace").encode("latin-1", "replace").replace(b"?", b"\xe9")
        case 2:
            return gzip.compress(content, mtime=0)
        case 3:
            return draw.choice((b"", b"\n", b"\x00" * 64, b"null", b"[]", b"{}", b'""', b"0", b"PAR1", b"\x1f\x8b"))
        case 4:
            return draw.choice((b"[", b'{"a":', b"a = [", b"[[", b"(")) * draw.choice((10, 500, 100_000))
        case 5:
            return content.replace(b"\n", b"\r\n")
        case _:
            return content * draw.choice((2, 3))


# What is read


Parser = tuple[str, bytes, Callable[[bytes], object]]


@contextlib.contextmanager
def _environment(folder: Path) -> Iterator[None]:
    """A cache of its own, no agent that comes with kgwalk, and nothing on the terminal."""
    own = {"KGWALK_CACHE": str(folder / "cache"), "KGWALK_AGENT": "none", "HF_HUB_OFFLINE": "1"}
    with environment(own), contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        yield


@contextlib.contextmanager
def _parsers(folder: Path) -> Iterator[dict[str, tuple[bytes, Callable[[bytes], object]]]]:
    """Every parser with a good sample. What it reads lies under the folder."""
    found = [*_texts(folder), *_runs(folder), *_trainings(folder), *_graphs(folder), *_adapters(folder)]
    with _server(folder) as server:
        yield {name: (sample, read) for name, sample, read in (*found, *server)}


def _file(path: Path, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """A function that writes a file and reads it."""
    path.parent.mkdir(parents=True, exist_ok=True)

    def parse(content: bytes) -> object:
        path.write_bytes(content)
        return read(path)

    return parse


def _texts(folder: Path) -> Iterator[Parser]:
    from kgwalk.config.recipe import BUNDLED
    from kgwalk.data.bundled import world_folder
    from kgwalk.data.dataset import load_dataset
    from kgwalk.data.folder import read_questions
    from kgwalk.demos.demo import read_demos
    from kgwalk.walk.ranker import INPUTS, KIND, NUMBERS, VERSION, read_card
    from kgwalk.walk.web.corpus import LocalCorpus

    for name in ("kgwalk", "kg_r1"):
        recipe = (BUNDLED / name / "recipe.toml").read_bytes()
        yield f"recipe {name}", recipe, _file(folder / "recipes" / "mine.toml", _read_recipe)

    world = load_dataset(world_folder())
    from kgwalk.config.run_folder import row_of

    questions = b"".join(json.dumps(row_of(one)).encode() + b"\n" for one in world.questions("test")[:12])
    yield "questions", questions, _file(folder / "questions.jsonl", lambda path: list(read_questions(path)))

    data = folder / "data"
    data.mkdir()
    shutil.copyfile(FILMS, data / "kg.tsv")
    (data / "names.tsv").write_text("Big\tBig (film)\n")

    def dataset(path: Path) -> None:
        shutil.rmtree(data / "graph.kg", ignore_errors=True)
        opened = load_dataset(data)
        for split in opened.splits():
            for question in opened.questions(split):
                opened.graph_for(question)

    yield "dataset", questions, _file(data / "test.jsonl", dataset)
    own = b'{"id": "1", "graph": [["a", "r", "b"], ["b", "r", "c"]]}\n{"id": "2", "graph": [["a", "s", "c"]]}\n'
    yield "graphs of questions", own, _file(_beside(folder, "own", questions) / "graphs.jsonl", _read_dataset)

    demo = {
        "id": "q1",
        "question": "who directed Big?",
        "protocol": "kgwalk",
        "inline": False,
        "answers": ["a"],
        "gold": ["a"],
        "f1": 1.0,
        "source": "gold",
        "style": "plain",
        "hops": 1,
        "wrong": False,
        "web": False,
        "messages": [
            {"role": "system", "content": "walk"},
            {"role": "user", "content": "who directed Big?"},
            {"role": "assistant", "content": "tail_entities", "train": False},
            {"role": "user", "content": "$1"},
            {"role": "assistant", "content": "<answer>$1</answer>"},
        ],
    }
    lines = json.dumps(demo).encode() + b"\n"
    yield "demos", lines * 3, _file(folder / "demos.jsonl", lambda path: _use_demos(list(read_demos(path))))

    shape = {"inputs": next(iter(INPUTS)), "vector": 4, "width": 8}
    card = {"kind": KIND, "version": VERSION, "numbers": list(NUMBERS), "shape": shape, "near": {"most": 3}}
    yield (
        "ranker's card",
        json.dumps(card).encode(),
        _file(folder / "ranker" / "ranker.json", lambda p: read_card(p.parent)),
    )

    page = b'{"title": "Big", "text": "Big was directed by Penny Marshall.", "source": "web"}\n'

    def corpus(path: Path) -> None:
        with contextlib.closing(LocalCorpus(path)) as web:
            web.search("who directed Big", 3)

    yield "corpus", page * 3, _file(folder / "corpus.jsonl", corpus)


def _use_demos(demos: list[Any]) -> None:
    from kgwalk.demos.demo import encode
    from kgwalk.llm.tokenizers import ByteTokenizer

    tokens = ByteTokenizer()
    for demo in demos:
        encode(demo, tokens)


def _beside(folder: Path, name: str, questions: bytes) -> Path:
    made = folder / name
    made.mkdir()
    (made / "test.jsonl").write_bytes(questions)
    return made


def _read_dataset(path: Path) -> None:
    from kgwalk.data.dataset import load_dataset

    opened = load_dataset(path.parent)
    for question in opened.questions("test"):
        opened.graph_for(question)


def _read_recipe(path: Path) -> None:
    """As the commands read it: all sections, and the profiles."""
    from kgwalk.config.recipe import load_recipe, read_section
    from kgwalk.demos.filter import DemoSettings
    from kgwalk.evaluation.evaluate import EvalSettings
    from kgwalk.score.rewards import RewardFunction
    from kgwalk.training.pipeline import TrainSettings
    from kgwalk.training.settings import GrpoSettings, ModelSettings, SftSettings
    from kgwalk.walk.environment import environment_settings
    from kgwalk.walk.policy import budget_of, protocol_of

    for recipe in (load_recipe(str(path)), load_recipe(str(path)).with_profile("smoke")):
        for kind, section in (
            *((EvalSettings, "eval"), (TrainSettings, "train"), (ModelSettings, "model")),
            *((SftSettings, "sft"), (GrpoSettings, "grpo")),
        ):
            read_section(kind, recipe, section)
        DemoSettings.of(recipe)
        RewardFunction.of(recipe)
        environment_settings(recipe)
        budget_of(recipe)
        if "policy" not in recipe.sections:
            protocol_of(recipe)
        path.with_name("resolved.toml").write_text(recipe.toml(), "utf-8")
        load_recipe(str(path.with_name("resolved.toml")))


def _runs(folder: Path) -> Iterator[Parser]:
    from kgwalk.evaluation.evaluate import evaluate
    from kgwalk.evaluation.report import compare
    from kgwalk.evaluation.web_facts.propose import propose, read_proposals

    run, other = folder / "run", folder / "other"
    for place in (run, other):
        evaluate("oracle", "world", "test", out=place, limit=6)
    rows, record = (run / "predictions.jsonl").read_bytes(), (run / "run.json").read_bytes()
    metrics = (run / "metrics.json").read_bytes()

    def at(name: str, read: Callable[[], object]) -> Callable[[bytes], object]:
        """A file of the run is damaged, the others are as they were."""

        def parse(content: bytes) -> object:
            for file, good in (("predictions.jsonl", rows), ("run.json", record), ("metrics.json", metrics)):
                (run / file).write_bytes(content if file == name else good)
            return read()

        return parse

    def again() -> object:
        return evaluate("oracle", "world", "test", out=run, limit=6)

    for what, read in (
        ("eval goes on", again),
        ("compare", lambda: compare(run, other)),
        ("propose", lambda: propose(run)),
        ("episodes", lambda: _read_episodes(run / "predictions.jsonl")),
    ):
        yield what, rows, at("predictions.jsonl", read)
        if what != "episodes":
            yield f"{what}, run.json", record, at("run.json", read)
    fact = b'{"triple": ["Norway", "capital", "Oslo"], "confidence": 0.9, "accept": true, "sources": []}\n'
    yield "proposals", fact * 3, _file(folder / "proposals.jsonl", lambda path: list(read_proposals(path)))


def _trainings(folder: Path) -> Iterator[Parser]:
    """A training that was stopped after its last checkpoint goes on with one of its files damaged."""
    from kgwalk.training.pipeline import train

    good, place = folder / "trained", folder / "training"

    def run(out: Path, *, resume: bool) -> None:
        stages = ['train.stages=["demos", "sft"]', "sft.eval_questions=0"]
        train("kgwalk", "world", out=out, profile="smoke", values=stages, device="cpu", resume=resume, report_to="none")

    run(good, resume=False)
    state = next((good / "sft").glob("checkpoint-*")).name + "/trainer_state.json"

    def at(name: str, *without: str) -> Callable[[bytes], object]:
        def parse(content: bytes) -> None:
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(good, place)
            for gone in without:
                (place / gone).unlink()
            (place / name).write_bytes(content)
            run(place, resume=True)

        return parse

    for name, *without in (
        *(("run.json",), ("sft/done.json",), ("demos.json",)),
        *(("demos.jsonl", "sft/done.json"), ("sft/metrics.jsonl", "sft/done.json"), (f"sft/{state}", "sft/done.json")),
    ):
        yield f"train goes on, {name}", (good / name).read_bytes(), at(name, *without)


def _read_episodes(path: Path) -> None:
    """As a judge does."""
    from kgwalk.evaluation.report import whole_episodes
    from kgwalk.score.judge.kinds import BUILDERS, case_of

    for _, episode in whole_episodes(path):
        for kind in BUILDERS:
            case_of(kind, episode)
        episode.flatten()


def _graphs(folder: Path) -> Iterator[Parser]:
    from kgwalk.kg.build import build
    from kgwalk.kg.export import export
    from kgwalk.kg.sources.source import Options
    from kgwalk.kg.store import open_graph

    build([FILMS], folder / "films.kg")
    films = open_graph(folder / "films.kg")
    samples = {form: b"".join(export(films, form)) for form in ("tsv", "nt", "nq")}
    samples["ttl"] = samples["nt"]
    samples["csv"] = b"head,relation,tail\n" + samples["tsv"].replace(b"\t", b",")
    facts = [line.split("\t") for line in samples["tsv"].decode().splitlines() if not line.startswith("#")]
    samples["jsonl"] = b"".join(json.dumps(fact[:3]).encode() + b"\n" for fact in facts)
    target = folder / "built.kg"

    def reader(labels: Path | None = None, **options: Any) -> Callable[[Path], object]:
        def read(path: Path) -> object:
            shutil.rmtree(target, ignore_errors=True)
            sources = [path] if labels is None else [FILMS]
            build(sources, target, options=Options(**options), labels=None if labels is None else path, replace=True)
            graph = open_graph(target)
            return [fact for fact, _ in zip(graph.match(None, None, None), range(100), strict=False)]

        return read

    for form in FORMATS:
        yield f"graph {form}", samples[form], _file(folder / f"graph.{form}", reader())
        skipping = _file(folder / f"skip.{form}", reader(on_error="skip"))
        yield f"graph {form}, bad rows skipped", samples[form], skipping
    table = b"name,year,directed_by\nBig,1988,Penny Marshall\nContact,1997,Robert Zemeckis\n"
    yield "table", table, _file(folder / "table.csv", reader(table=True))
    labels = folder / "labels.tsv"
    yield "labels", b"Big\tBig (1988)\nContact\tContact (1997)\n", _file(labels, reader(labels))


def _adapters(folder: Path) -> Iterator[Parser]:
    from kgwalk.llm.models import adapter_scale, check_base, find_model, read_adapter

    adapter = folder / "adapter"
    adapter.mkdir()
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "tiny-random",
        "r": 2,
        "lora_alpha": 4,
        "target_modules": ["q_proj"],
        "bias": "none",
        "lora_dropout": 0.0,
        "rank_pattern": {},
    }
    card = {"base_model": "tiny-random", "recipe": "kgwalk", "protocol": {"name": "kgwalk"}, "data": "world"}
    good = {"adapter_config.json": json.dumps(config).encode(), "kgwalk.json": json.dumps(card).encode()}
    good["adapter_model.safetensors"] = _weights()

    def at(name: str, read: Callable[[], object]) -> Callable[[bytes], object]:
        def parse(content: bytes) -> object:
            for file, content_of_it in good.items():
                (adapter / file).write_bytes(content if file == name else content_of_it)
            return read()

        return parse

    def look() -> None:
        check_base(read_adapter(adapter), "tiny-random")
        adapter_scale(adapter)
        find_model(adapter)

    def load() -> None:
        from kgwalk.llm.models import load_model

        load_model("tiny-random", adapter=adapter)

    yield "adapter's config", good["adapter_config.json"], at("adapter_config.json", look)
    yield "adapter's card", good["kgwalk.json"], at("kgwalk.json", look)
    yield "adapter in a model", good["adapter_config.json"], at("adapter_config.json", load)
    yield "weights", good["adapter_model.safetensors"], at("adapter_model.safetensors", load)


def _weights() -> bytes:
    """The weights of an adapter of rank 2 for `tiny-random`."""
    import torch
    from safetensors.torch import save

    from kgwalk.llm.models import load_model

    layer = load_model("tiny-random").module.get_submodule("model.layers.0.self_attn.q_proj")
    outputs, inputs = layer.weight.shape  # type: ignore[union-attr,misc]
    name = "base_model.model.model.layers.0.self_attn.q_proj"
    return save({f"{name}.lora_A.weight": torch.ones(2, inputs), f"{name}.lora_B.weight": torch.ones(outputs, 2)})


@contextlib.contextmanager
def _server(folder: Path) -> Iterator[list[Parser]]:
    """A server in this process; each body is sent to one of its routes."""
    from kgwalk.kg.store import open_graph
    from kgwalk.serve.app import create_app
    from kgwalk.serve.run import in_background
    from kgwalk.serve.settings import ServeSettings

    bodies: dict[str, Any] = {
        "/kg/actions": [{"graph": "films", "action": "tail_entities", "entity": "Big", "relation": "directed_by"}],
        "/kg/query": {"graph": "films", "head": "Big", "relation": "directed_by", "limit": 5},
        "/v1/ask": {"graph": "films", "question": "who directed Big?", "topics": ["Big"]},
        "/v1/chat/completions": {
            "model": "kgwalk",
            "messages": [{"role": "user", "content": "who directed Big?"}],
            "stream": False,
            "max_tokens": 5,
        },
    }
    app = create_app(ServeSettings(), {"films": open_graph(folder / "films.kg")})
    with in_background(app) as url, httpx.Client(base_url=url, timeout=20) as client:

        def sender(route: str) -> Callable[[bytes], None]:
            def send(content: bytes) -> None:
                answer = client.post(route, content=content, headers={"content-type": "application/json"})
                if answer.status_code == 500:
                    raise RuntimeError(f"500: {answer.text[:200]}")
                if answer.status_code >= 400:
                    raise KgwalkError(answer.text)

            return send

        yield [(f"POST {route}", json.dumps(body).encode(), sender(route)) for route, body in bodies.items()]
