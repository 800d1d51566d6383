"""A system in a folder outside the package: asked by the command line, its parts found by their names."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api_server import completion, serving
from kgwalk.cli.main import main
from kgwalk.config import recipe
from kgwalk.config.recipe import load_recipe
from kgwalk.data.bundled import world_path, world_questions
from kgwalk.demos.filter import DemoSettings
from kgwalk.demos.make import make_demos
from kgwalk.demos.writer import WRITERS
from kgwalk.kg.store import open_graph
from kgwalk.score.rewards import TURN, WHOLE, Outcome, RewardFunction
from kgwalk.training.settings import check_recipe
from kgwalk.types import Answer, Episode, KgwalkError, Question, Turn
from kgwalk.walk.policy import POLICIES, protocol_of
from kgwalk.walk.protocol import PROTOCOLS, Environment

RECIPE = """
# kgwalk ask "what is the capital of Norway?" --recipe step_by_step
# The model says where to go.

[protocol]
name = "step-by-step"
turns = 4
greeting = "Hello."

[rollout]
turn_tokens = 32

[turn_rewards]
short_turn = 0.5

[rewards]
f1 = 1.0
one_name = 0.25
"""

PROTOCOL = """
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kgwalk.types import Answer, Call, Malformed, Message, Step
from kgwalk.walk.protocol import PROTOCOLS, Environment, Listing, Observation, Protocol, Task, Walk, said

from .words import DONE


@PROTOCOLS.add("step-by-step")
@dataclass(frozen=True)
class StepByStep(Protocol):
    name = "step-by-step"
    stop = ("\\n",)
    inline = False
    greeting: str = ""

    def begin(self, task: Task, environment: Environment, count: Callable[[str], int]) -> StepWalk:
        return StepWalk(task, environment, protocol=self, here=list(task.topics))


@dataclass
class StepWalk(Walk):
    protocol: StepByStep = field(default_factory=StepByStep)
    here: list[str] = field(default_factory=list)

    def prompt(self) -> list[Message]:
        return [Message("user", f"{self.protocol.greeting} {self.task.question.question}")]

    def parse(self, text: str) -> Step:
        match text.split(maxsplit=1):
            case [word] if word == DONE:
                return Answer(tuple(self.here))
            case ["go", relation]:
                return Call("go", (relation.strip(),))
        return Malformed("say: go RELATION, or done")

    def act(self, call: Call) -> Observation:
        relation = str(call.args[0])
        facts = [fact for name in self.here for fact in self.environment.graph.match(name, relation)]
        self.seen += facts
        self.here = [fact.tail for fact in facts]
        return Observation("", "", [Listing("now at: ", self.here, entities=True)])

    def tell(self, text: str) -> Observation:
        return said("", text, "")
"""

WORDS = 'DONE = "done"\n'

REWARDS = """
from kgwalk.score.rewards import Outcome, turn_reward, whole_reward


@turn_reward("short_turn")
def short_turn(outcome: Outcome, *, short_characters: int = 10) -> list[float]:
    return [float(len(turn.text) <= short_characters) for turn in outcome.episode.turns]


@whole_reward("one_name")
def one_name(outcome: Outcome) -> float:
    return float(len(outcome.episode.answers) == 1)
"""

DEMOS = """
from kgwalk.demos.writer import NO_STEP, WRITERS, Script, Unwritable, Writer, WrittenTurn

from .protocol import StepWalk
from .words import DONE


@WRITERS.add("step-by-step")
class StepWriter(Writer):
    def script(self) -> Script:
        assert isinstance(self.walk, StepWalk)
        for step in self.route.steps:
            if step.tool != "tail_entities":
                raise Unwritable(NO_STEP)
            yield WrittenTurn(f"go {step.args[1]}")
        yield WrittenTurn(DONE)
"""

FILES = {
    "recipe.toml": RECIPE,
    "protocol.py": PROTOCOL,
    "words.py": WORDS,
    "rewards.py": REWARDS,
    "demos.py": DEMOS,
}


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is registered here is forgotten afterwards: other tests count the bundled systems."""
    monkeypatch.setattr(recipe, "_own", [])
    for table in (PROTOCOLS, POLICIES, WRITERS, TURN, WHOLE):
        list(table)  # the bundled ones are imported once, and stay
        monkeypatch.setattr(table, "_known", dict(table._known))
        monkeypatch.setattr(table, "_read", set(table._read))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "step_by_step"
    place.mkdir()
    for name, text in FILES.items():
        (place / name).write_text(text)
    return place


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with serving([completion("go capital\n"), completion("done\n")]) as (api, url):
        monkeypatch.setenv("OPENAI_BASE_URL", f"{url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "secret")
        yield api


def command(*arguments: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code and what was printed: on stdout, or if it failed on stderr."""
    monkeypatch.setattr(sys, "argv", ["kgwalk", *arguments])
    capfd.readouterr()
    with pytest.raises(SystemExit) as end:
        main()
    code = int(end.value.code or 0)
    out, err = capfd.readouterr()
    return code, err if code else out


@pytest.mark.parametrize("named", ["folder", "file", "from here"])
def test_it_is_asked_as_any_other(
    folder: Path, named: str, api: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder.parent)
    recipe = {"folder": str(folder), "file": f"{folder}/recipe.toml", "from here": "step_by_step/"}[named]
    question = (
        "ask",
        "what is the capital of Norway?",
        "--recipe",
        recipe,
        "--engine",
        "api",
        "--model",
        "m",
        "--json",
    )
    code, said = command(*question, monkeypatch=monkeypatch, capfd=capfd)
    assert code == 0, said
    asked = json.loads(said)
    assert (asked["answers"], asked["evidence"]) == (["Oslo"], {"Oslo": [["Norway", "capital", "Oslo"]]})
    assert api.asked[0]["messages"][-1]["content"] == "Hello. what is the capital of Norway?"


def test_it_is_shown(folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    code, said = command("recipes", "show", str(folder), "--json", monkeypatch=monkeypatch, capfd=capfd)
    shown = json.loads(said)
    assert (code, shown["name"]) == (0, "step-by-step")
    assert shown["about"].endswith("The model says where to go.")
    assert shown["sections"]["protocol"] == {"name": "step-by-step", "turns": 4, "greeting": "Hello."}
    code, said = command("recipes", "show", str(folder), monkeypatch=monkeypatch, capfd=capfd)
    assert 'name = "step-by-step"' in said


def test_its_parts_are_found_by_name(folder: Path) -> None:
    assert "step-by-step" not in PROTOCOLS
    recipe = load_recipe(str(folder))
    protocol = protocol_of(recipe)
    assert type(protocol) is PROTOCOLS["step-by-step"]
    assert "step-by-step" in WRITERS
    reward = RewardFunction.of(recipe.with_values(["reward_settings.short_characters=4"]))
    episode = Episode(Question("q", "?", [], ["Oslo"]), [], [], "", answers=["Oslo"])
    for text in ("go capital", "done"):
        episode.turns.append(Turn([1], [0.0], text, Answer(("Oslo",))))
    rewarded = reward(Outcome(episode, {"f1": 1.0}))
    assert (rewarded.turns, rewarded.whole) == ([0.0, 0.5], 1.25)


def test_it_can_be_taught(folder: Path) -> None:
    """Its writer's demos are walks by its protocol, and training takes the recipe for one with a stage of demos."""
    recipe = load_recipe(str(folder))
    check_recipe(recipe.with_profile("135m"), ["demos", "sft", "grpo"])
    world = open_graph(world_path())
    questions = [question for question in world_questions("train") if question.hops == 1][:20]
    demos, _ = make_demos(
        questions,
        lambda question: world,
        protocol_of(recipe),
        settings=DemoSettings(wrong=0.0),
        environment_of=lambda question: Environment(world),
    )
    turns = [demo.turns for demo in demos]
    assert turns
    assert all(first.startswith("go ") and last == "done" for first, last in turns)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"recipe.toml": None}, "the folder {folder} is no system: it has no recipe.toml"),
        (
            {"recipe.toml": '[protocol]\nname = "step-by-stop"\n'},
            "unknown protocol `step-by-stop`; did you mean `step-by-",
        ),
        ({"recipe.toml": RECIPE.replace("greeting", "greting")}, "unknown setting `protocol.greting`; did you mean"),
        ({"recipe.toml": "[protocol\n"}, "the recipe {folder} is not TOML"),
        (
            {"protocol.py": PROTOCOL.replace('add("step-by-step")', 'add("kg-r1")')},
            "there are two protocols called `kg-r1`",
        ),
    ],
)
def test_a_folder_that_is_wrong_is_told(
    folder: Path,
    change: dict[str, str | None],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name, text in change.items():
        if text is None:
            (folder / name).unlink()
        else:
            (folder / name).write_text(text)
    question = ("ask", "what is the capital of Norway?", "--recipe", str(folder), "--engine", "api", "--model", "m")
    code, said = command(*question, monkeypatch=monkeypatch, capfd=capfd)
    assert code == 1
    assert " ".join(message.format(folder=folder).split()) in " ".join(said.split())


def test_a_file_that_fails_is_read_again(folder: Path) -> None:
    (folder / "protocol.py").write_text("import no_such_module\n")
    recipe = load_recipe(str(folder))
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="no_such_module"):
            protocol_of(recipe)
    (folder / "protocol.py").write_text(PROTOCOL)
    assert protocol_of(recipe).name == "step-by-step"


def test_a_name_that_is_taken_is_the_bundled_system(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of the same name, here, is meant with a path: ./kgwalk."""
    folder.rename(folder.with_name("kgwalk"))
    monkeypatch.chdir(folder.parent)
    assert protocol_of(load_recipe("kgwalk")).name == "kgwalk"
    assert protocol_of(load_recipe("./kgwalk")).name == "step-by-step"
    with pytest.raises(KgwalkError, match="unknown recipe `kgwalks`; did you mean `kgwalk`"):
        load_recipe("kgwalks")
