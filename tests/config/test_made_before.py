"""What version 0.1 wrote still opens, and is written the same today: a store, an evaluation, a training run's adapter.

The folder fixtures/version-0.1 was made by that version with `kg build examples/films.tsv`, `eval oracle --data world
--limit 6` and `train graph-rft --data world --smoke`; of the training only what others read later is kept.
"""

from __future__ import annotations

import filecmp
import json
import shutil
from pathlib import Path

from commands import Cli
from kgwalk.config.recipe import load_recipe
from kgwalk.kg.build import build
from kgwalk.kg.store import open_graph
from kgwalk.llm.models import read_adapter
from kgwalk.score.rewards import RewardFunction
from kgwalk.systems.graph_rft.protocol import GraphRft
from kgwalk.walk.environment import EnvironmentSettings, environment_settings
from kgwalk.walk.policy import budget_of, protocol_of

ROOT = Path(__file__).parents[2]
BEFORE = ROOT / "tests" / "fixtures" / "version-0.1"


def test_a_store_opens() -> None:
    graph = open_graph(BEFORE / "films.kg")
    assert graph.neighbors("Big", "directed_by").names == ["Penny Marshall"]
    assert [found.name for found in graph.find("amelie", 1)] == ["Amélie"]


def test_a_store_is_the_same_byte_for_byte(tmp_path: Path) -> None:
    build([ROOT / "examples" / "films.tsv"], tmp_path / "films.kg")
    names = sorted(path.name for path in (BEFORE / "films.kg").iterdir())
    assert sorted(path.name for path in (tmp_path / "films.kg").iterdir()) == names
    arrays = [name for name in names if name.endswith(".bin")]
    assert filecmp.cmpfiles(BEFORE / "films.kg", tmp_path / "films.kg", arrays, shallow=False)[1:] == ([], [])


def test_an_evaluation_is_read_and_gone_on_with(tmp_path: Path, cli: Cli) -> None:
    """All six questions are there, so nothing is walked again, and the report is the old one."""
    run = tmp_path / "eval-oracle"
    shutil.copytree(BEFORE / "eval-oracle", run)
    done = cli("eval", "oracle", "--data", "world", "--split", "test", "--limit", "6", "-o", run, "--json")
    assert done.status == 0, done.stderr
    assert (run / "predictions.jsonl").read_bytes() == (BEFORE / "eval-oracle" / "predictions.jsonl").read_bytes()
    old = json.loads((BEFORE / "eval-oracle" / "metrics.json").read_text())
    assert done.json["n"] == 6
    assert done.json["metrics"] == old["metrics"]
    assert cli("compare", run, BEFORE / "eval-oracle", "--json").status == 0


def test_a_new_evaluation_writes_the_same_rows(tmp_path: Path, cli: Cli) -> None:
    cli("eval", "oracle", "--data", "world", "--split", "test", "--limit", "6", "-o", tmp_path / "new")
    old, new = (
        [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]
        for folder in (BEFORE / "eval-oracle", tmp_path / "new")
    )
    # rows of version 0.1 have no cluster, and do not say that a count is a number
    assert all(row.pop("cluster").startswith("topics ") for row in new)
    forms = [row["episode"].pop("form") for row in new if "form" in row["episode"]]
    assert [form["kind"] for form in forms] == ["number"]
    assert [_untimed(row) for row in sorted(new, key=_place)] == [_untimed(row) for row in sorted(old, key=_place)]


def _place(row: dict[str, object]) -> str:
    return json.dumps([row.get("place"), row.get("run"), row.get("id")])


def _untimed(value: object) -> object:
    """Without what a clock decides."""
    if isinstance(value, dict):
        return {name: _untimed(inside) for name, inside in value.items() if "seconds" not in name}
    return [_untimed(inside) for inside in value] if isinstance(value, list) else value


def test_a_recipe_of_a_run_is_read_as_it_was() -> None:
    """A run's recipe.toml is read, section [world] and all. The recipe of that name hides facts today; the run did not,
    and keys that came later have their defaults."""
    old = load_recipe(str(BEFORE / "train-smoke" / "recipe.toml"))
    assert environment_settings(old) == EnvironmentSettings()
    assert environment_settings(load_recipe("graph-rft")).drop == 0.4
    assert protocol_of(old) == GraphRft(turns=3)
    assert RewardFunction.of(old).whole_parts[0].name == "graph_rft"
    assert budget_of(old).turn_tokens == 128


def test_an_adapter_is_known() -> None:
    adapter = read_adapter(BEFORE / "train-smoke" / "adapter")
    assert adapter.protocol == "graph-rft"
    assert adapter.base == "tiny-random"
