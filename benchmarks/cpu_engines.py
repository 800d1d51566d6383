"""Runtimes for a small language model on a processor, side by side: the choice behind the engine `cpu`.

Run: python benchmarks/cpu_engines.py [--threads 2] [--batch 1 4] [--tokens 32 64] [--rounds 3] [--only NAME ...]

Whichever of the runtimes are installed take part, each in a process of its own, which reads the default model in the
form that suits it (made once, under --work). The prompts are those of the kgwalk recipe over the bundled graph, with
turns of gold walks; each is asked for once with one token and once with many, which gives the speed of reading a prompt
and of writing. The candidates take turns within a round, since other work on the machine comes and goes; the table has
medians over the rounds, and ratios to `transformers` in the same rounds. A prompt begins with a token of its own, so
that nobody finds it in a cache; `same` is the share of natural prompts answered with the very tokens of transformers in
float32. A round of all candidates takes a minute or two on two cores. On a machine that is busy with other work, one
thread and `--clock cpu` (seconds of the processor instead of the wall) give the speeds that it would have alone.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kgwalk.config.cache import cache_folder
from kgwalk.llm.models import model_folder, packaged_gguf

Generate = Callable[[list[list[int]], int], list[list[int]]]  # prompts and a number of tokens, to the tokens


# The candidates: each makes its files if it must, and gives a function. Their libraries are imported inside.


def transformers(work: Path, threads: int, change: Callable[[Any], None] = lambda module: None, **how: Any) -> Generate:
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(threads)
    dtype = torch.bfloat16 if how.pop("half", False) else torch.float32
    module = AutoModelForCausalLM.from_pretrained(str(model_folder()), dtype=dtype).eval()
    change(module)

    def generate(prompts: list[list[int]], count: int) -> list[list[int]]:
        width = max(map(len, prompts))
        ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        with torch.no_grad():
            out = module.generate(
                ids,
                attention_mask=mask,
                max_new_tokens=count,
                do_sample=False,
                eos_token_id=None,
                pad_token_id=0,
                **how,
            )
        return [row[width:] for row in out.tolist()]

    return generate


def transformers_bf16(work: Path, threads: int) -> Generate:
    return transformers(work, threads, half=True)


def torchao_int8(work: Path, threads: int) -> Generate:
    def change(module: Any) -> None:
        from torchao.quantization import Int8WeightOnlyConfig, quantize_

        quantize_(module, Int8WeightOnlyConfig())

    return transformers(work, threads, change)


def _engine(made: Any) -> Generate:
    from kgwalk.llm.engine import Request, Sampling

    made.tokens.end_ids = frozenset()  # all write as many tokens

    async def together(prompts: list[list[int]], count: int) -> list[list[int]]:
        requests = [Request(prompt, [], Sampling(max_tokens=count)) for prompt in prompts]
        return [one.ids for one in await asyncio.gather(*(made.generate(request) for request in requests))]

    return lambda prompts, count: asyncio.run(together(prompts, count))


def kgwalk_local(work: Path, threads: int) -> Generate:
    import torch

    from kgwalk.llm.torch_engine.engine import LocalEngine

    torch.set_num_threads(threads)
    return _engine(LocalEngine(device="cpu"))


def kgwalk_cpu(work: Path, threads: int) -> Generate:
    from kgwalk.llm.openvino_engine.engine import CpuEngine

    return _engine(CpuEngine(threads=threads, guesses=0))  # the prompts come again, and so would what it wrote


def kgwalk_cpu_float32(work: Path, threads: int) -> Generate:
    from kgwalk.llm.openvino_engine.engine import CpuEngine

    return _engine(CpuEngine(threads=threads, dtype="float32", guesses=0))


def openvino_genai(work: Path, threads: int) -> Generate:
    """Intel's own pipeline over the graph of the engine cpu: the same kernels, with its scheduler."""
    from kgwalk.llm.openvino_engine.model import converted_folder, ov

    folder, kept = work / "openvino-genai", converted_folder("smollm2-135m", None, "int8")
    if not (folder / "openvino_detokenizer.xml").is_file():
        from openvino_tokenizers import convert_tokenizer
        from transformers import AutoTokenizer

        folder.mkdir(parents=True, exist_ok=True)
        for suffix in ("xml", "bin"):
            (folder / f"openvino_model.{suffix}").unlink(missing_ok=True)
            (folder / f"openvino_model.{suffix}").symlink_to(kept / f"model.{suffix}")
        both = convert_tokenizer(AutoTokenizer.from_pretrained(str(kept)), with_detokenizer=True)
        for graph, name in zip(both, ("tokenizer", "detokenizer"), strict=True):
            ov.save_model(graph, folder / f"openvino_{name}.xml")
    import numpy as np
    import openvino_genai as genai

    hints = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "INFERENCE_NUM_THREADS": threads}
    pipeline = genai.LLMPipeline(str(folder), "CPU", DYNAMIC_QUANTIZATION_GROUP_SIZE=0, **hints)

    def generate(prompts: list[list[int]], count: int) -> list[list[int]]:
        width = max(map(len, prompts))
        ids = np.array([[0] * (width - len(prompt)) + prompt for prompt in prompts])
        mask = np.array([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        inputs = genai.TokenizedInputs(ov.Tensor(ids), ov.Tensor(mask))
        config = genai.GenerationConfig(max_new_tokens=count, ignore_eos=True, do_sample=False)
        return [list(row) for row in pipeline.generate(inputs, config).tokens]

    return generate


def ctranslate2_int8(work: Path, threads: int) -> Generate:
    import ctranslate2
    from tokenizers import Tokenizer

    folder, source = work / "ctranslate2-int8", model_folder()
    if not folder.is_dir():
        ctranslate2.converters.TransformersConverter(str(source)).convert(str(folder), quantization="int8")
    name = Tokenizer.from_file(str(source / "tokenizer.json")).id_to_token
    model = ctranslate2.Generator(str(folder), "cpu", intra_threads=threads, inter_threads=1, compute_type="int8")

    def generate(prompts: list[list[int]], count: int) -> list[list[int]]:
        texts = [[name(number) for number in prompt] for prompt in prompts]
        made = model.generate_batch(texts, max_length=count, min_length=count, include_prompt_in_result=False)
        return [one.sequences_ids[0] for one in made]

    return generate


def onnxruntime_int8(work: Path, threads: int) -> Generate:
    import numpy as np
    import onnxruntime_genai as genai

    folder = work / "onnxruntime-int8"
    if not (folder / "genai_config.json").is_file():
        command = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", str(model_folder()), "-p", "int8"]
        subprocess.run([*command, "-e", "cpu", "-o", str(folder)], check=True, capture_output=True)
    config = json.loads((folder / "genai_config.json").read_text())
    config["model"]["decoder"]["session_options"]["intra_op_num_threads"] = threads
    (folder / "genai_config.json").write_text(json.dumps(config))
    model = genai.Model(str(folder))

    def generate(prompts: list[list[int]], count: int) -> list[list[int]]:
        width = max(map(len, prompts))
        params = genai.GeneratorParams(model)
        params.set_search_options(
            do_sample=False, max_length=width + count, min_length=width + count, batch_size=len(prompts)
        )
        maker = genai.Generator(model, params)
        maker.append_tokens(np.array([[2] * (width - len(prompt)) + prompt for prompt in prompts], dtype=np.int32))
        for _ in range(count):
            maker.generate_next_token()
        return [list(map(int, maker.get_sequence(row)[width:])) for row in range(len(prompts))]

    return generate


def llama_cpp(work: Path, threads: int) -> Generate:
    """The GGUF file as it is, four bits a weight; one sequence at a time."""
    from llama_cpp import Llama

    model = Llama(str(packaged_gguf()), n_ctx=1024, n_threads=threads, n_threads_batch=threads, verbose=False)

    def one(prompt: list[int], count: int) -> list[int]:
        model.reset()
        made: list[int] = []
        for number in model.generate(prompt, temp=0.0, repeat_penalty=1.0, top_k=1):
            made.append(number)
            if len(made) == count:
                break
        return made

    return lambda prompts, count: [one(prompt, count) for prompt in prompts]


CANDIDATES: dict[str, tuple[Callable[..., Generate], str]] = {  # and the package that each needs
    "transformers": (transformers, "transformers"),
    "transformers bf16": (transformers_bf16, "transformers"),
    "torchao int8": (torchao_int8, "torchao"),
    "kgwalk local": (kgwalk_local, "transformers"),
    "kgwalk cpu": (kgwalk_cpu, "openvino"),
    "kgwalk cpu float32": (kgwalk_cpu_float32, "openvino"),
    "openvino-genai int8": (openvino_genai, "openvino_genai"),
    "ctranslate2 int8": (ctranslate2_int8, "ctranslate2"),
    "onnxruntime-genai int8": (onnxruntime_int8, "onnxruntime_genai"),
    "llama.cpp q4_1": (llama_cpp, "llama_cpp"),
}
BASELINE = "transformers"


# A candidate in its process: a line of JSON in, a line of JSON out.


def work_for(name: str, work: Path, threads: int) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    started = time.perf_counter()
    generate = CANDIDATES[name][0](work, threads)
    print(json.dumps({"load": time.perf_counter() - started}), file=answers, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        started, busy = time.perf_counter(), time.process_time()
        ids = generate(asked["prompts"], asked["tokens"])
        seconds = {"wall": time.perf_counter() - started, "cpu": time.process_time() - busy}
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"ids": ids, "seconds": seconds, "memory": peak}), file=answers, flush=True)


class Worker:
    def __init__(self, name: str, work: Path, threads: int) -> None:
        self.name = name
        command = [sys.executable, __file__, "--worker", name, "--work", str(work), "--threads", str(threads)]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True, env=environment
        )
        self.load: float = self._answer()["load"]

    def ask(self, prompts: list[list[int]], tokens: int) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"prompts": prompts, "tokens": tokens}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._said.seek(0)
            last = (self._said.read().strip().splitlines() or ["no word of why"])[-1]
            raise RuntimeError(f"ended with {self._process.wait()}: {last}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        self._process.communicate()
        self._said.close()


def started(names: list[str], work: Path, threads: int, prompts: list[list[int]]) -> list[Worker]:
    """Those that load and answer, as one prompt and as all of these at once."""
    workers = []
    for name in names:
        if importlib.util.find_spec(CANDIDATES[name][1]) is None:
            print(f"{name}: {CANDIDATES[name][1]} is not installed", file=sys.stderr)
            continue
        try:
            worker = Worker(name, work, threads)
            worker.ask(prompts[:1], 4)
            worker.ask(prompts, 4)
        except RuntimeError as error:
            print(f"{name}: {error}", file=sys.stderr, flush=True)
        else:
            print(f"{name}: loaded in {worker.load:.1f} s", file=sys.stderr, flush=True)
            workers.append(worker)
    return workers


def real_prompts(count: int) -> list[list[int]]:
    """Contexts of the kgwalk recipe at every turn of the gold walks of world questions, in the model's own tokens."""
    from transformers import AutoTokenizer

    from kgwalk.data.bundled import world_path, world_questions
    from kgwalk.kg.store import open_graph
    from kgwalk.llm.engine import Request, ScriptedEngine
    from kgwalk.llm.tokenizers import HfTokenizer
    from kgwalk.walk.agent import ask

    tokens, graph, found = HfTokenizer(AutoTokenizer.from_pretrained(str(model_folder()))), open_graph(world_path()), []
    for question in world_questions("test"):
        program: Any = question.extra.get("program", [])
        lines = [f"{tool}({', '.join(a if a[0] == '$' else json.dumps(a) for a in args)})" for tool, *args in program]
        lines.append(f"<answer>${len(question.topic_entities) + len(program)}</answer>")

        def said(request: Request, lines: list[str] = lines) -> str:
            found.append(list(request.ids))
            return lines.pop(0) if lines else "<answer>$1</answer>"

        engine = ScriptedEngine(said, tokens=tokens, context=8192)
        ask(question.question, graph, protocol="kgwalk", engine=engine, topics=question.topic_entities)
        if len(found) >= count:
            return found[:count]
    return found


def measure(
    workers: list[Worker], prompts: list[list[int]], batches: list[int], tokens: list[int], rounds: int, clock: str
) -> Any:
    """Seconds by candidate, batch and tokens, a list over the rounds; the prompts of a cell are the same for all."""
    seconds: dict[tuple[str, int, int], list[float]] = {}
    lengths: dict[int, list[int]] = {}
    fresh = 1000  # ids of ordinary tokens: no two prompts of the run begin alike
    for number in range(rounds):
        for batch in batches:
            some = [prompts[(number * batch + row) % len(prompts)] for row in range(batch)]
            lengths.setdefault(batch, []).append(sum(map(len, some)) + batch)
            for count in (1, *tokens):
                fresh += max(batches)  # more than any cell uses: the next one's are new
                asked = [[fresh + row, *prompt] for row, prompt in enumerate(some)]
                for worker in workers:
                    took = worker.ask(asked, count)["seconds"][clock]
                    seconds.setdefault((worker.name, batch, count), []).append(took)
    return seconds, lengths


def speeds(seconds: Any, lengths: Any, name: str, batch: int, tokens: list[int]) -> dict[str, float]:
    """Tokens a second, medians over the rounds: of reading a prompt, and of writing after it."""
    first = seconds[name, batch, 1]
    found = {"prompt": statistics.median(n / s for n, s in zip(lengths[batch], first, strict=True))}
    for count in tokens:
        pairs = zip(seconds[name, batch, count], first, strict=True)
        found[str(count)] = statistics.median(batch * (count - 1) / max(whole - one, 1e-3) for whole, one in pairs)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--tokens", type=int, nargs="+", default=[32, 64])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--agree", type=int, default=20, help="prompts on which outputs are compared")
    parser.add_argument("--only", nargs="+", choices=list(CANDIDATES), help=f"these, and {BASELINE}")
    parser.add_argument("--work", type=Path, default=cache_folder() / "bench-cpu")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work_for(given.worker, given.work, given.threads)
        return
    given.work.mkdir(parents=True, exist_ok=True)
    names = [name for name in CANDIDATES if given.only is None or name in (BASELINE, *given.only)]
    prompts = real_prompts(max(given.agree, 40))
    workers = started(names, given.work, given.threads, prompts[: max(given.batch)])
    seconds, lengths = measure(workers, prompts, given.batch, given.tokens, given.rounds, given.clock)
    rows: list[dict[str, Any]] = []
    expected: list[list[int]] = []
    for worker in workers:
        answers = [worker.ask([prompt], given.tokens[0]) for prompt in prompts[: max(1, given.agree)]]
        outputs = [answer["ids"][0] for answer in answers]
        expected = expected or outputs
        same = sum(one == other for one, other in zip(outputs, expected, strict=True)) / max(1, len(outputs))
        row = {"name": worker.name, "load_seconds": worker.load, "memory_mb": answers[-1]["memory"] / 1e6, "same": same}
        row["speeds"] = {batch: speeds(seconds, lengths, worker.name, batch, given.tokens) for batch in given.batch}
        rows.append(row)
        worker.end()
    print(json.dumps({"threads": given.threads, "rows": rows}) if given.json else table(rows, given.tokens))


def table(rows: list[dict[str, Any]], tokens: list[int]) -> str:
    """Markdown; a speed is followed by its ratio to the first row's."""
    batches = list(rows[0]["speeds"])
    cells = [(batch, kind) for batch in batches for kind in ("prompt", *map(str, tokens))]
    heads = [f"{'prompt' if kind == 'prompt' else f'write {kind}'}, batch {batch}" for batch, kind in cells]
    lines = ["| runtime | " + " | ".join(heads) + " | load s | memory MB | same |"]
    lines.append("|---|" + "--:|" * (len(cells) + 3))
    for row in rows:
        shown = [(row["speeds"][batch][kind], rows[0]["speeds"][batch][kind]) for batch, kind in cells]
        numbers = [f"{speed:.0f} ({speed / base:.1f}x)" for speed, base in shown]
        ends = [f"{row['load_seconds']:.1f}", f"{row['memory_mb']:.0f}", f"{row['same']:.2f}"]
        lines.append(f"| {row['name']} | " + " | ".join([*numbers, *ends]) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
