"""Grammars over tokens, worked by hand: what may come next, what a turn may still become, and nothing else."""

from __future__ import annotations

import asyncio
import json
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgwalk.llm.automaton import Automaton, GrammarState, automaton_of
from kgwalk.llm.engine import Request, Sampling, ScriptedEngine
from kgwalk.llm.grammar import (
    END,
    NEVER,
    STOPPED,
    Grammar,
    GrammarRule,
    Names,
    either,
    literal,
    loop,
    one_of,
    string,
    thought,
    whole_number,
)
from kgwalk.llm.tokenizers import ByteTokenizer
from kgwalk.types import EngineError

BYTES = ByteTokenizer()
PLAIN = [bytes([number]) for number in range(256)]


def automaton(*more: str) -> Automaton:
    """Bytes as tokens, then the given texts from 256 on, and the end token after those."""
    return Automaton([*PLAIN, *(text.encode() for text in more), None], 256 + len(more))


def state_of(rule: GrammarRule, over: Automaton) -> GrammarState:
    return over.start(Grammar(lambda: rule, ()))


def next_texts(state: GrammarState, over: Automaton, left: int = 99) -> set[str]:
    """The texts of the tokens that may come next; the end token is `END`."""
    texts = {number: text.decode("latin-1") for text, number in zip(over._texts, over._ids, strict=True)}
    return {texts.get(number, "END") for number in state.allowed(left).tolist()}


def after(state: GrammarState, text: str) -> GrammarState:
    for byte in text.encode():
        found = state.after(byte)
        assert found is not None, text
        state = found
    return state


def test_next_characters_by_hand() -> None:
    over = automaton()
    names = Names.of(["born_in", "borders", "area"])
    state = state_of(literal('f("', one_of(names, literal('")', END))), over)
    assert next_texts(state, over) == {"f"}
    state = after(state, 'f("')
    assert next_texts(state, over) == {"a", "b"}
    assert next_texts(after(state, "bor"), over) == {"n", "d"}
    assert next_texts(after(state, "area"), over) == {'"'}
    assert next_texts(after(state, 'area")'), over) == {"END"}
    assert state.after(ord("x")) is None


def test_a_name_that_another_begins_with_can_end_or_go_on() -> None:
    over = automaton()
    state = state_of(one_of(Names.of(["a", "ab"]), literal('"', END)), over)
    assert next_texts(after(state, "a"), over) == {"b", '"'}


def test_tokens_may_begin_and_end_anywhere() -> None:
    """`born`, `_in`, and tokens across the end of a name; `borne` and `in"x` fit nothing."""
    over = automaton("born", "_in", '_in"', 'in")', "borne", 'in"x', ')"')
    state = state_of(one_of(Names.of(["born_in"]), literal('")', END)), over)
    assert next_texts(state, over) == {"b", "born"}
    state = after(state, "born")
    assert next_texts(state, over) == {"_", "_in", '_in"'}
    assert next_texts(after(state, "_"), over) == {"i", 'in")'}


def test_the_same_place_of_two_grammars_is_one_state() -> None:
    over = automaton()
    close = literal(")", END)
    one, two = (literal("(", one_of(Names.of(names), close)) for names in (["ab"], ["ab", "cd"]))
    assert state_of(one, over) is not state_of(two, over)
    assert after(state_of(one, over), "(a") is after(state_of(two, over), "(a")


def test_a_turn_that_has_little_room_can_only_end() -> None:
    """`["..."]` with the end token takes 5 bytes at least. Of 7 tokens two may be text; a word is one token."""
    over = automaton("xyz")
    state = state_of(literal('["', string(literal('"]', END))), over)
    assert state.need == 5
    inside = after(state, '["')
    assert inside.need == 3
    assert {"x", "xyz", '"', "\\"} <= next_texts(inside, over, left=5)
    assert "\\" not in next_texts(inside, over, left=4)  # after it a quote must come, then the three
    assert {"x", "xyz", '"'} <= next_texts(inside, over, left=4)
    assert next_texts(inside, over, left=3) == {'"'}


def test_the_shortest_ending_is_counted_in_the_longest_tokens() -> None:
    over = automaton("longer", '")')
    state = state_of(one_of(Names.of(["longer", "short"]), literal('")', END)), over)
    assert state.need == 5 + 1 + 1  # the shortest text is `short")`, of which `")` is one token
    assert next_texts(state, over, left=4) == {"longer"}  # `longer`, `")` and the end are 3
    assert next_texts(after(state, "s"), over, left=6) == {"h"}


def test_strings_take_escapes_and_no_tags() -> None:
    over = automaton()
    inside = state_of(string(literal('"', END)), over)
    found = next_texts(inside, over)
    assert {"a", " ", "\xe9", "\\", '"'} <= found
    assert not {"<", "\n", "\x00"} & found
    assert next_texts(after(inside, "\\"), over) == {'"', "\\"}
    thinking = state_of(thought(literal("</think>", END)), over)
    assert {"\n", "<", '"'} <= next_texts(thinking, over)
    assert next_texts(after(thinking, "<"), over) == {"/"}


def test_numbers_and_loops() -> None:
    over = automaton()
    number = state_of(whole_number(literal('"', END)), over)
    assert next_texts(number, over) == set("123456789")
    assert next_texts(after(number, "10"), over) == {*"0123456789", '"'}
    assert next_texts(after(number, "1000"), over) == {'"'}

    def path() -> GrammarRule:
        return one_of(Names.of(["a", "b"]), either(literal('"', END), literal("/", loop(("path",), path))))

    state = state_of(loop(("path",), path), over)
    assert next_texts(after(state, "a/b/a"), over) == {'"', "/"}
    assert state.need == 3
    assert next_texts(after(state, "a"), over, left=3) == {'"'}  # `/`, `a`, `"` and the end would be 4


def test_a_stop_text_needs_no_end_token() -> None:
    over = automaton()
    assert state_of(literal("</a>", STOPPED), over).need == 4
    assert state_of(literal("</a>", END), over).need == 5


def test_what_cannot_be_written_is_never_begun() -> None:
    """A vocabulary without `z`: the name `az` has no tokens, so `a` may only become `ab`."""
    pieces = [piece for piece in PLAIN if piece != b"z"]
    over = Automaton([*pieces, None], 255)
    state = state_of(one_of(Names.of(["az", "ab"]), END), over)
    assert state.need == 3
    assert next_texts(after(state, "a"), over) == {"b"}
    assert state_of(literal("z", END), over).need == NEVER


def make(names: Names, count: int) -> GrammarRule:
    return literal("$" * count, one_of(names, END))


def test_a_grammar_travels_as_what_it_is_made_of() -> None:
    names = Names.of(["x", "y"])
    again = pickle.loads(pickle.dumps(Grammar(make, (names, 2))))
    assert again.rule is Grammar(make, (names, 2)).rule  # the same names are one object, and so are the rules


def test_a_replay_says_what_was_allowed() -> None:
    over = automaton_of(BYTES)
    assert over is automaton_of(BYTES)
    grammar = Grammar(make, (Names.of(["ab", "ac"]), 1))
    ids = [*b"$ac", BYTES.END]
    assert [allowed.tolist() for allowed in over.replay(grammar, 9, ids)] == [[36], [97], [98, 99], [BYTES.END]]
    with pytest.raises(ValueError, match="token 2 of the turn"):
        over.replay(grammar, 9, [*b"$x", BYTES.END])


def test_what_is_forced_is_known_ahead() -> None:
    over = automaton()
    state = state_of(literal("abc", one_of(Names.of(["x", "y"]), END)), over)
    assert bytes(state.forced(9, 9)) == b"abc"
    assert bytes(state.forced(9, 2)) == b"ab"


def test_a_script_can_be_held_to_its_grammar() -> None:
    grammar = Grammar(make, (Names.of(["ab", "ac"]), 1))
    request = Request([1], [], Sampling(max_tokens=8), grammar=grammar)
    assert asyncio.run(ScriptedEngine(["$ac"], constrained=True).generate(request)).room == 8
    assert asyncio.run(ScriptedEngine(["$ad"]).generate(request)).room is None
    with pytest.raises(EngineError, match="does not allow the script's turn after '\\$a'"):
        asyncio.run(ScriptedEngine(["$ad"], constrained=True).generate(request))


WORDS = st.text(alphabet='ab"\\é/ ', min_size=1, max_size=5)


@settings(max_examples=150, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=6), st.lists(WORDS, max_size=8), st.randoms(), st.integers(0, 12))
def test_whatever_is_drawn_is_complete_and_within_its_room(
    names: list[str], tokens: list[str], chance: object, spare: int
) -> None:
    """A list of one name and free strings: drawn token by token, it is always whole JSON of known names."""
    over = automaton(*dict.fromkeys(tokens))
    written = Names.of(dict.fromkeys(json.dumps(name, ensure_ascii=False) for name in names))

    def more() -> GrammarRule:
        again = literal(', "', loop(("more",), more))
        return string(literal('"', either(literal("]", END), again)))

    rule = literal("[", one_of(written, either(literal("]", END), literal(', "', loop(("more",), more)))))
    state: GrammarState | None = state_of(rule, over)
    assert state is not None
    room = state.need + spare
    ids: list[int] = []
    while state is not over.done:
        assert state is not None
        allowed = state.allowed(room - len(ids))
        assert len(allowed), ids
        ids.append(chance.choice(allowed.tolist()))  # type: ignore[attr-defined]
        state = state.after(ids[-1])
    assert len(ids) <= room
    text = b"".join(over._texts[over._ids.index(number)] for number in ids[:-1]).decode("utf-8", "replace")
    found = json.loads(text)
    assert found[0] in names
    assert all(
        number in allowed
        for number, allowed in zip(ids, over.replay(Grammar(lambda: rule, ()), room, ids), strict=True)
    )
