"""A graph in a training script of TRL's: its environment has the graph's tools, TRL does the rest.

Run: python examples/trl_environment.py tiny           (a tiny random model: shows that it runs, and learns nothing)
     python examples/trl_environment.py Qwen/Qwen3-0.6B
"""

import sys
import tempfile
from functools import partial
from importlib.resources import files
from pathlib import Path

from datasets import Dataset
from transformers import AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from kgwalk import load_dataset
from kgwalk.llm.tiny import make_tiny
from kgwalk.training.backends.trl_environment import GraphEnvironment, question_rows


def tiny(folder: Path) -> str:
    """A random model whose chat template can call tools."""
    make_tiny(folder, ["which countries border Norway? What is the capital of Kenya?"] * 4, vocabulary=320)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = files("trl").joinpath("chat_templates/qwen3.jinja").read_text()
    tokenizer.save_pretrained(folder)
    return str(folder)


def main(model: str, out: Path) -> None:
    small = model == "tiny"
    data = load_dataset("world")
    trainer = GRPOTrainer(
        model=tiny(out / "tiny") if small else model,
        args=GRPOConfig(
            output_dir=str(out),
            max_steps=1 if small else 100,
            num_generations=2 if small else 8,
            per_device_train_batch_size=4 if small else 8,
            max_completion_length=16 if small else 1024,
            max_tool_calling_iterations=6,
            bf16=not small,
            use_cpu=small,
            report_to="none",
            save_strategy="no",
            logging_steps=1,
        ),
        train_dataset=Dataset.from_list(question_rows(data.questions("train")[:200])),
        environment_factory=partial(GraphEnvironment, data.graph_for),
    )
    trainer.train()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(sys.argv[1] if len(sys.argv) > 1 else "tiny", Path(place))
