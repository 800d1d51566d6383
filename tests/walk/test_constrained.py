"""Walks under the grammar of the `kgwalk` protocol: what may come next by hand, and no walk that does not parse."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from company import company
from conftest import AWKWARD, store_of, temporary_store
from kgwalk.config.recipe import load_recipe
from kgwalk.demos.filter import DemoSettings
from kgwalk.demos.make import make_demos
from kgwalk.kg.graph import Graph
from kgwalk.kg.store import StoredGraph
from kgwalk.llm.automaton import Automaton, GrammarState, automaton_of
from kgwalk.llm.engine import Generation, Request, ScriptedEngine
from kgwalk.llm.tokenizers import ByteTokenizer, HfTokenizer, Tokenizer
from kgwalk.questions.make import make_questions
from kgwalk.questions.plan import MakeSettings
from kgwalk.questions.schema import survey, types_of
from kgwalk.questions.wording.name_lexicon import NameLexicon
from kgwalk.questions.wording.speaker import Wording
from kgwalk.systems.kgwalk.protocol import Kgwalk, KgwalkWalk
from kgwalk.systems.kgwalk.turn_grammar import RelationForms
from kgwalk.types import Answer, Episode, Malformed, Question, StopReason
from kgwalk.walk.policy import protocol_of
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.rollout import Budget, rollout

BYTES = ByteTokenizer()
FILMS = [
    ("Big", "directed_by", "Penny Marshall"),
    ("Big", "release_year", "1988"),
    ("Cast Away", "directed_by", "Robert Zemeckis"),
    ("Cast Away", "starred", "Tom Hanks"),
    ("Big", "starred", "Tom Hanks"),
    ("Penny Marshall", "born in", "New York"),
    ("Big", "length (minutes)", "104"),
]
# Observations that the grammar is to make impossible.
IMPOSSIBLE = (
    "there is no set",
    "is not in the graph",
    "there is no tool",
    " arguments: ",
    "after the set",
    "Write one",
)


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> StoredGraph:
    return store_of(tmp_path_factory.mktemp("films"), FILMS)


def walk_of(graph: Graph, *topics: str, **settings: object) -> KgwalkWalk:
    task = Task(Question("q", "?", list(topics), []), topics, kinds=[])
    return Kgwalk(**settings).begin(task, Environment(graph), len)  # type: ignore[arg-type]


def next_characters(walk: KgwalkWalk, text: str, *, answer: bool = False, left: int = 200) -> str:
    """What may come after a text, a character each; `.` is the end of the turn."""
    automaton = automaton_of(BYTES)
    grammar = walk.grammar(answer=answer)
    assert automaton is not None
    assert grammar is not None
    state: GrammarState | None = automaton.start(grammar)
    for byte in text.encode():
        assert state is not None, text
        state = state.after(byte)
    assert state is not None, text
    return "".join("." if number == BYTES.END else chr(number) for number in state.allowed(left).tolist())


# By hand


def test_which_characters_may_come_next(films: StoredGraph) -> None:
    walk = walk_of(films, "Tom Hanks", "Big", thoughts=False)
    assert (
        next_characters(walk, "") == "<acfhimtu"
    )  # <answer>, argmax, count, filter, head_, intersect, minus, tail_, union
    assert next_characters(walk, "tail_entities") == "("
    assert next_characters(walk, "tail_entities($") == "12"
    assert next_characters(walk, "tail_entities($1") == ","
    assert next_characters(walk, 'tail_entities($1, "') == "bdlrs"
    assert next_characters(walk, 'tail_entities($1, "born') == " "
    assert next_characters(walk, 'tail_entities($1, "born in') == '"'
    assert next_characters(walk, 'tail_entities($1, "born in"') == ")"
    assert next_characters(walk, 'tail_entities($1, "born in")') == "."
    assert next_characters(walk, 'filter($2, "release_year", "') == "!<=>"
    assert next_characters(walk, 'filter($2, "release_year", ">') == '"='
    assert next_characters(walk, 'filter($2, "release_year", ">=", ') == '"$'
    assert next_characters(walk, "<answer>") == "$["
    assert next_characters(walk, "<answer>[") == '"]'
    assert next_characters(walk, "", answer=True) == "<"
    assert next_characters(walk, "<", answer=True) == "a"


def test_a_thought_may_come_first_where_there_are_thoughts(films: StoredGraph) -> None:
    walk = walk_of(films, "Big")
    assert next_characters(walk, "<") == "at"
    assert next_characters(walk, "<think>So.</think>") == next_characters(walk_of(films, "Big", thoughts=False), "")


def test_a_set_can_be_named_once_it_was_made(films: StoredGraph) -> None:
    walk = walk_of(films, "Tom Hanks")
    assert next_characters(walk, "count($") == "1"
    walk.sets.head_entities(1, "starred")
    assert next_characters(walk, "count($") == "12"
    for _ in range(9):
        walk.sets.count(1)
    assert next_characters(walk, "count($1") == ")01"  # $1, $10 and $11


def test_the_full_language_has_paths_and_values(films: StoredGraph) -> None:
    walk = walk_of(films, "Tom Hanks", language="full", thoughts=False, walkable=False)
    assert next_characters(walk, 'tail_entities($1, "') == "(^bdlrs"
    assert next_characters(walk, 'tail_entities($1, "(^starred/directed_by)') == '"+/|'  # a path as a whole, again
    assert next_characters(walk, 'tail_entities($1, "^starred') == '"+/|'
    assert next_characters(walk, 'tail_entities($1, "^starred/directed_by+') == '"/|'
    assert next_characters(walk, 'tail_entities($1, "length (minutes)') == '"'  # no sign may follow: its name has some
    assert "c" in next_characters(walk, 'argmax($1, "')  # count(...)
    assert next_characters(walk, 'argmax($1, "count(') == "(^bdlrs"
    assert next_characters(walk, 'argmax($1, "count(^starred') == " )+/|"
    assert next_characters(walk, 'argmax($1, "count(^starred ') == "in"
    assert next_characters(walk, 'argmax($1, "count(^starred not in $') == "1"
    assert next_characters(walk, 'top($1, "release_year", "') == "123456789a"
    assert next_characters(walk, 'table($1, "starred"') == "),"


def test_a_turn_always_has_room_to_end(films: StoredGraph) -> None:
    """From `filter($1, "starred", "=", "` on, `")` and the end take three tokens."""
    walk = walk_of(films, "Big", thoughts=False)
    begun = 'filter($1, "starred", "=", "'
    assert len(next_characters(walk, begun, left=5)) > 100
    assert next_characters(walk, begun, left=3) == '"'
    assert next_characters(walk, "", left=13) == "c"  # count($1) and the end are 10
    assert next_characters(walk, "", left=14) == "cmu"  # minus($1, $1), and union


def test_without_a_set_or_a_relation_there_is_only_the_answer(films: StoredGraph) -> None:
    assert next_characters(walk_of(films, thoughts=False), "") == "<"
    assert next_characters(walk_of(films, thoughts=False), "<answer>") == "["


def test_a_graph_elsewhere_lists_no_relations_so_those_that_were_shown_count(films: StoredGraph) -> None:
    class Elsewhere:
        """Only what the `Graph` protocol has."""

        def __init__(self, graph: StoredGraph) -> None:
            for name in ("has_relation", "relations", "neighbors", "match", "find", "find_relation"):
                setattr(self, name, getattr(graph, name))
            self._inside = graph

        def __contains__(self, name: object) -> bool:
            return name in self._inside

    walk = walk_of(Elsewhere(films), "Tom Hanks", thoughts=False)  # type: ignore[arg-type]
    walk.prompt()
    assert next_characters(walk, 'head_entities($1, "') == "s"


def test_relations_are_written_as_they_are_shown() -> None:
    forms = RelationForms.of(["born in", 'the "x"', "a < 5", "km/h", " odd", " a/b", "count(x)", "is not"])
    assert forms.plain.texts == (
        "born in", 'the \\"x\\"', "a &lt; 5", "km/h", " odd", "&#99;ount&#40;x)", "is not",
    )  # fmt: skip
    assert forms.simple.texts == ("born in",)
    assert forms.raw.texts == ('the \\"x\\"', "a < 5", "km/h", "count(x)", "is not")


def test_the_recipe_says_whether(films: StoredGraph) -> None:
    recipe = load_recipe("kgwalk")
    protocol = protocol_of(recipe)
    assert isinstance(protocol, Kgwalk)
    assert protocol.constrain
    assert not protocol.thoughts  # its demonstrations have none
    free = protocol_of(recipe.with_values(["protocol.constrain=false", 'demos.styles=["terse"]']))
    assert isinstance(free, Kgwalk)
    assert free.thoughts
    task = Task(Question("q", "?", ["Big"], []), ["Big"])
    assert free.begin(task, Environment(films), len).grammar(answer=False) is None


# Whatever is sampled


class Dice:
    """An engine that takes any allowed token, each as likely as the others."""

    exact = True
    at_once = 1
    context = 1 << 20

    def __init__(self, seed: int, tokens: Tokenizer = BYTES) -> None:
        self.tokens, self._chance = tokens, random.Random(seed)
        automaton = automaton_of(tokens)
        assert automaton is not None
        self._automaton: Automaton = automaton

    async def generate(self, request: Request) -> Generation:
        assert request.grammar is not None
        room, ids = request.sampling.max_tokens, list[int]()
        state: GrammarState | None = self._automaton.start(request.grammar)
        while not any(stop in self.tokens.decode(ids) for stop in request.sampling.stop):
            assert state is not None
            ids.append(self._chance.choice(state.allowed(room - len(ids)).tolist()))
            if ids[-1] in self.tokens.end_ids:
                return Generation(ids, [0.0] * len(ids), "eos", room)
            state = state.after(ids[-1])
        return Generation(ids, [0.0] * len(ids), "stop", room)

    async def forget(self, session: str) -> None:
        pass

    async def close(self) -> None:
        pass


def check(episodes: Sequence[Episode]) -> None:
    for episode in episodes:
        assert episode.stop in (StopReason.answered, StopReason.tokens), (episode.stop, episode.failure)
        for turn in episode.turns:
            assert not isinstance(turn.step, Malformed), turn.text
            assert turn.ok or not any(words in turn.observation for words in IMPOSSIBLE), (turn.text, turn.observation)


ODD = [
    "a",
    "b",
    "a/b",
    "b/a",
    "a (b)",
    "count(a)",
    "^a",
    "a+",
    'q"q',
    "a|b",
    "not",
    "a not",
    "in $1",
    "<x>",
    " a",
    "a in",
]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("xyz12"), st.sampled_from(ODD + AWKWARD[:12]), st.sampled_from("xyz12")),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(["core", "full"]),
    st.booleans(),
    st.integers(0, 1 << 30),
)
def test_no_walk_under_the_grammar_is_malformed(
    facts: list[tuple[str, str, str]], language: str, dated: bool, seed: int
) -> None:
    """Over relations whose names have every sign of a path: what is drawn parses, and names what there is."""
    rows = [(*fact, "1990..1995") for fact in facts] if dated else facts
    with temporary_store(rows) as graph:
        topics = [facts[0][0], facts[-1][2]]
        tasks = [(Task(Question(f"q{n}", "?", topics, []), topics, kinds=[]), Environment(graph)) for n in range(3)]
        protocol = Kgwalk(language=language, turns=6)
        budget = Budget(turn_tokens=80, total_tokens=1 << 19, observation_tokens=400)
        check(rollout(tasks, protocol, Dice(seed), budget=budget))


def test_the_last_turn_can_only_be_the_answer(films: StoredGraph) -> None:
    tasks = [(Task(Question(f"q{n}", "?", ["Big"], []), ["Big"]), Environment(films)) for n in range(20)]
    episodes = rollout(tasks, Kgwalk(turns=1), Dice(0), budget=Budget(total_tokens=1 << 19))
    check(episodes)
    assert all(isinstance(episode.turns[-1].step, Answer) for episode in episodes)


def test_a_walk_without_room_for_a_turn_ends(films: StoredGraph) -> None:
    task = (Task(Question("q", "?", ["Big"], []), ["Big"]), Environment(films))
    [whole] = rollout([task], Kgwalk(turns=1), Dice(0), budget=Budget(total_tokens=1 << 19))
    prompt = len(whole.prompt_ids)
    [cut] = rollout([task], Kgwalk(turns=1), Dice(0), budget=Budget(total_tokens=prompt + 5))
    assert cut.stop == StopReason.tokens
    assert not cut.turns


# Whatever a demonstration says


@pytest.mark.parametrize("language", ["core", "full"])
def test_every_demonstration_is_within_the_grammar(tmp_path_factory: pytest.TempPathFactory, language: str) -> None:
    """Tokenised as the tokenizer does it; wrong turns too, which are shown and not learnt. Those may lead nowhere, so
    they are within the grammar of any path.
    """
    pytest.importorskip("torch")
    from tiny_models import tiny_tokenizer

    firm = store_of(tmp_path_factory.mktemp("firm"), company())
    schema = survey(firm)
    wording = Wording(NameLexicon(schema, types=types_of(firm, schema)), level=1)
    asked = make_questions(firm, wording, MakeSettings(count=200, language=language), schema=schema)
    tokens = HfTokenizer(tiny_tokenizer())
    budget = Budget(turn_tokens=400, total_tokens=1 << 16)
    written, _ = make_demos(
        asked, lambda question: firm, Kgwalk(language=language), settings=DemoSettings(wrong=0.3), tokens=tokens,
        budget=budget,
    )  # fmt: skip
    questions, turns = {question.id: question for question in asked}, 0
    for demo in written:
        protocol = Kgwalk(language=language, walkable=not demo.wrong)
        said = [str(message["content"]) for message in demo.messages if message["role"] == "assistant"]
        engine = ScriptedEngine(said, tokens=tokens, constrained=True)
        task = Task(questions[demo.id], questions[demo.id].topic_entities)
        [episode] = rollout([(task, Environment(firm))], protocol, engine, budget=budget)
        assert [turn.text for turn in episode.turns] == said, episode.failure
        assert all(turn.constraint is not None for turn in episode.turns)
        turns += len(said)
    assert turns > 400
