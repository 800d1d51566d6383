"""`kgwalk ask` as a person runs it: every recipe, through an API that the test serves, and the examples."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from api_server import listening
from conftest import store_of
from kgwalk.cli.ask import is_count, no_agent, note_of
from kgwalk.cli.main import main
from kgwalk.config.recipe import load_recipe, names
from kgwalk.types import Found, Triple
from kgwalk.walk.linking import Mention

ROOT = Path(__file__).parents[2]
FINAL = '<answer>["Oslo"]</answer>'
TURNS = {
    "kgwalk": ['tail_entities($1, "capital")', "<answer>$2</answer>"],
    "kg-r1": [
        '<think>.</think><kg-query>get_tail_entities("Norway", "capital")</kg-query>',
        f"<think>.</think>{FINAL}",
    ],
    "graph-rft": [
        "<think>.</think><plan>Step 1: the capital. Ans1 = SearchKG(t=city | h=Norway, r=capital)</plan>"
        '<neighbor_search>"Norway", "capital"</neighbor_search>',
        f"<think>.</think>{FINAL}",
    ],
    "kg-hopper": ["<think>I look. <search>Norway</search>", f"Found it.</think>{FINAL}"],
    "kg-reasoner": ["<think>I look. <search>Norway</search>", f"Found it.</think>{FINAL}"],
    "eog": [f"<think>.</think>{FINAL}"],
    "vanilla": [FINAL],
    "cot": [f"I remember. {FINAL}"],
}
MUTE = "mute"  # a model that never answers
BROKEN = "broken"  # one that the server cannot run
STAFF = [("Priya Raman", "boss", "Jonas Weber"), ("Priya Raman", "age", "31"), ("Jonas Weber", "boss", "Ada Lind")]
NO_FACTS = ("eog", "vanilla", "cot")  # nothing was asked of the graph


class _Api(BaseHTTPRequestHandler):
    """Says the next turn of the recipe that is the model's name."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if request["model"] == BROKEN:
            self.send_error(400)
            return
        turns = TURNS.get(request["model"], [])
        said = sum(message["content"] in turns for message in request["messages"])  # a prompt may have other replies
        text = "hm" if request["model"] == MUTE else turns[said]
        message = {"role": "assistant", "content": text}
        usage = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
        body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage})
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def api() -> Iterator[str]:
    with listening(_Api) as url:
        yield f"{url}/v1"


def ask_in_a_process(api: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kgwalk.cli.main", "ask", *arguments, "--engine", "api"],
        env={**os.environ, "OPENAI_BASE_URL": api, "OPENAI_API_KEY": "secret"},
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        **options,
    )


def ask_at_a_terminal(api: str, *lines: str) -> subprocess.CompletedProcess[str]:
    person, terminal = pty.openpty()
    with os.fdopen(person, "wb", buffering=0) as keyboard, os.fdopen(terminal, "rb") as screen:
        keyboard.write("".join(f"{line}\n" for line in lines).encode())
        return ask_in_a_process(api, "--model", "kgwalk", stdin=screen, stderr=subprocess.STDOUT)


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Ask = Callable[..., Done]


@pytest.fixture
def ask(api: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    """The same in this process, as the console script calls it: to start one takes longer than to ask."""
    monkeypatch.setenv("OPENAI_BASE_URL", api)
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    for name in ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: str, stdin: str | bytes = "") -> Done:
        monkeypatch.setattr(sys, "argv", ["kgwalk", "ask", *arguments, "--engine", "api"])
        raw = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8"))
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        return Done(int(end.value.code or 0), *capfd.readouterr())

    return call


@pytest.mark.parametrize("recipe", [name for name in names() if "policy" not in load_recipe(name).sections])
def test_every_recipe_answers_with_its_evidence(ask: Ask, recipe: str) -> None:
    done = ask("what is the capital of Norway?", "--recipe", recipe, "--model", recipe, "--json")
    assert done.returncode == 0, done.stderr
    asked: dict[str, Any] = json.loads(done.stdout)
    assert asked["answers"] == ["Oslo"]
    assert asked["evidence"] == {"Oslo": [["Norway", "capital", "Oslo"]]} or recipe in NO_FACTS
    assert asked["topics"] == ["Norway"]
    assert (asked["stop"], asked["turns"]) == ("answered", len(TURNS[recipe]))
    assert asked["tokens"]["total"] == 13 * len(TURNS[recipe])
    assert asked["seconds"] > 0


def test_the_query_goes_to_stdout_and_the_answer_to_stderr(ask: Ask) -> None:
    done = ask("what is the capital of Norway?", "--model", "kgwalk", "--as", "sparql")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("PREFIX rdfs:")
    assert "?x1 <urn:kgwalk:relation:capital> ?answer ." in done.stdout
    assert "answer: Oslo" in done.stderr
    asked = json.loads(ask("what is the capital of Norway?", "--model", "kgwalk", "--as", "sql", "--json").stdout)
    assert (asked["answers"], asked["query"].splitlines()[-1]) == (["Oslo"], "SELECT name FROM s2;")


def test_a_walk_that_is_no_algebra_has_no_query(ask: Ask) -> None:
    done = ask("what is the capital of Norway?", "--recipe", "kg-r1", "--model", "kg-r1", "--as", "sql")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no query: a walk of `kg-r1` is no algebra" in done.stderr
    told = json.loads(
        ask("what is the capital of Norway?", "--recipe", "cot", "--model", "cot", "--as", "sql", "--json").stdout
    )
    assert (told["answers"], told["query"]) == (["Oslo"], None)
    assert "no algebra" in told["no_query"]


def test_the_walk_goes_to_stderr_and_the_answer_to_stdout(api: str) -> None:
    done = ask_in_a_process(api, "what is the capital of Norway?", "--model", "kgwalk", stderr=subprocess.PIPE)
    assert done.stdout == "Oslo\n    (Norway, capital, Oslo)\n"
    assert '> tail_entities($1, "capital")\n  $2 = 1: Oslo\n' in done.stderr


def test_a_session(api: str) -> None:
    """With a person at a terminal: a pipe would be read to its end."""
    done = ask_at_a_terminal(api, "what is the capital of Norway?", "and its capital, norway?", "")
    assert done.returncode == 0
    assert "Ask a question; an empty line or Ctrl-D ends." in done.stdout
    assert done.stdout.count("(Norway, capital, Oslo)") == 2


QUESTIONS = "what is the capital of Norway?\n\nWho is the oldest employee?\n  and its capital, norway?\n"


def test_questions_from_a_pipe_are_told_with_their_answers(ask: Ask) -> None:
    """An empty line ends nothing, and what is wrong with one question is not in the way of the next."""
    done = ask("--model", "kgwalk", stdin=QUESTIONS)
    assert done.returncode == 1  # not all have an answer
    assert done.stdout == (
        "what is the capital of Norway?\nOslo\n    (Norway, capital, Oslo)\n\n"
        "Who is the oldest employee?\nthe graph does not say\n\n"
        "and its capital, norway?\nOslo\n    (Norway, capital, Oslo)\n\n"
    )
    assert "error: the graph does not say: the question names no entity" in done.stderr
    assert ask("-", "--model", "kgwalk", stdin="what is the capital of Norway?").returncode == 0


def test_questions_from_a_pipe_as_json_lines(ask: Ask) -> None:
    done = ask("--model", "kgwalk", "--json", stdin=QUESTIONS)
    first, second, third = map(json.loads, done.stdout.splitlines())
    assert (first["question"], first["answers"]) == ("what is the capital of Norway?", ["Oslo"])
    assert (second["question"], second["error"]["kind"]) == ("Who is the oldest employee?", "NoTopic")
    assert (third["question"], third["topics"]) == ("and its capital, norway?", ["Norway"])
    alone = ask("what is the capital of Norway?", "--model", "kgwalk", "--json")
    assert json.loads(alone.stdout).keys() | {"question"} == first.keys()
    told = ask("--model", "kgwalk", "--json", "--topic", "Norway", stdin="what is its capital?\n")
    assert json.loads(told.stdout)["topics"] == ["Norway"]  # of every question


def test_what_cannot_be(ask: Ask) -> None:
    unknown = ask("?", "--model", "kgwalk", "--topic", "Norwai")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "entity 'Norwai' is not in the graph; did you mean 'Norway'" in unknown.stderr
    assert "did you mean `kg-r1`" in ask("?", "--recipe", "kgr1").stderr
    assert "needs the name of a model" in ask("where is Norway?").stderr
    empty = ask("where is it?", "--model", "kgwalk", "--topic", " ")
    assert empty.stderr == "error: a topic is empty; leave it out, and entities are found in the question\n"
    assert "there is no adapter's folder nowhere" in ask("where is Norway?", "--adapter", "nowhere").stderr


def test_the_hint_to_fit_names_the_recipe_unless_it_is_the_one_that_fit_takes() -> None:
    alone = "agent: none; the model walks as it is"
    assert no_agent("club.kg", "kgwalk", trains=True) == f"{alone}. `kgwalk fit club.kg` trains one"
    assert no_agent("club.kg", "kg-r1", trains=True) == f"{alone}. `kgwalk fit club.kg --recipe kg-r1` trains one"
    assert no_agent("club.kg", "vanilla", trains=False) == alone


def test_a_question_that_names_no_entity_is_refused_before_a_model_is_opened(ask: Ask) -> None:
    asked = ask("Who is the oldest employee?")  # no model was named, and nobody asked for one
    assert (asked.returncode, asked.stdout) == (1, "")
    assert asked.stderr.startswith("error: the graph does not say: the question names no entity of the graph")
    assert "or give it as a topic to start from (`--topic`, or " in asked.stderr
    told = json.loads(ask("Who is the oldest employee?", "--json").stdout)
    assert told["error"]["kind"] == "NoTopic"


def test_of_a_very_long_question_the_beginning_is_read(ask: Ask) -> None:
    long = ask(f"{'please ' * 600}what is the capital of Norway?", "--model", "kgwalk")
    assert long.stderr.startswith("error: the graph does not say: of the question the first 600 words are read")


def test_one_candidate_is_taken_and_several_are_shown(ask: Ask, tmp_path: Path) -> None:
    store_of(tmp_path, STAFF)
    arguments = ("who is the boss of priya?", "--graph", str(tmp_path / "graph.kg"), "--model", MUTE)
    assert 'note: "priya" is taken for Priya Raman\n' in ask(*arguments).stderr
    store_of(tmp_path, [*STAFF, ("Priya Shah", "boss", "Ada Lind")])
    note = 'note: "priya" may mean Priya Raman, Priya Shah; the first is taken, choose with --topic\n'
    assert note in ask(*arguments).stderr
    assert "note" not in ask(*arguments, "--topic", "priya shah").stderr
    (mention,) = json.loads(ask(*arguments, "--json").stdout)["mentions"]
    assert mention["candidates"] == ["Priya Raman", "Priya Shah"]


def test_a_name_as_it_stands_needs_no_note() -> None:
    assert note_of(Mention("2012", 13, 17, [Found("2012", 1.0, "exact")], False)) == ""


def test_no_answer_is_exit_code_1(ask: Ask) -> None:
    done = ask("what is the capital of Norway?", "--model", MUTE)
    assert done.returncode == 1
    assert done.stdout.splitlines()[:2] == ["no answer (turns)", "nearest: Norway -> capital: Oslo"]
    done = ask("what is the capital of Norway?", "--model", MUTE, "--json")
    assert (done.returncode, json.loads(done.stdout)["answers"]) == (1, [])
    assert ask("--model", MUTE, stdin="what is the capital of Norway?\n").returncode == 1


def test_a_count_shows_what_it_counts_and_how_many_more() -> None:
    facts = [Triple("Northwind", "makes", "Gale"), Triple("Northwind", "makes", "Storm")]
    assert is_count("2", facts)
    assert not is_count("2", [Triple("Gale", "wheels", "2")])
    assert not is_count("2", [])


def test_a_protocol_of_ones_own() -> None:
    script = ROOT / "examples" / "own_protocol.py"
    assert len(script.read_text().splitlines()) < 60
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stdout == "['Penny Marshall'] answered ['now at: Penny Marshall', '']\n"


def test_stdin_that_is_not_as_it_should_be(ask: Ask) -> None:
    """A line in another encoding is refused, and the others answered; where there is nothing, no model is loaded."""
    done = ask("--model", "kgwalk", "--json", stdin=b"\xef\xbb\xbfcapital of Norway?\nTroms\xf8?\ncapital of Norway?\n")
    first, second, third = map(json.loads, done.stdout.splitlines())
    assert (first["question"], first["answers"]) == ("capital of Norway?", ["Oslo"])  # without the mark of the file
    assert second == {"question": "Troms\ufffd?", "error": {"kind": "KgwalkError", "message": "the line is not UTF-8"}}
    assert third["answers"] == ["Oslo"]
    nothing = ask("--json", stdin="\n \n")
    assert (nothing.returncode, json.loads(nothing.stdout)["error"]["kind"]) == (2, "UsageError")
    assert "there is no question: give one, or questions on stdin" in nothing.stderr
    unknown = ask("--json", "--topic", "Norwai", stdin=QUESTIONS)  # told once, before a model is asked for
    assert (unknown.returncode, len(unknown.stdout.splitlines())) == (1, 1)
    broken = ask("--model", BROKEN, "--json", stdin="capital of Norway?\n" * 9)
    assert len(broken.stdout.splitlines()) == 4  # three, and that there is no use going on
    assert "the engine failed 3 times in a row" in json.loads(broken.stdout.splitlines()[-1])["error"]["message"]


def test_a_graph_in_the_wrong_place(ask: Ask) -> None:
    wrong = ask("where is Norway?", "films.kg")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.endswith("A graph is given with --graph.\n")


def test_an_answer_that_nobody_vouches_for_is_a_guess_and_exits_with_3(ask: Ask) -> None:
    """An API says nothing of its likelihoods, so no answer of it is sure enough."""
    done = ask("what is the capital of Norway?", "--model", "kgwalk", "--min-confidence", "0.5")
    assert (done.returncode, done.stdout.splitlines()[:2]) == (3, ["a guess, nobody knows how sure:", "Oslo"])
    told = ask("what is the capital of Norway?", "--model", "kgwalk", "--min-confidence", "0.5", "--json")
    assert (told.returncode, json.loads(told.stdout)["guess"]) == (3, True)
    piped = ask("--model", "kgwalk", "--min-confidence", "0.5", stdin="what is the capital of Norway?")
    assert piped.returncode == 3
