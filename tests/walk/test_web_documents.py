"""Texts cut into passages, HTML into text, bytes into characters: nothing lost, nothing forged, never an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgwalk.walk.web.documents import decode, page, passages, plain, sentences

# Texts rich in what matters: spaces, line ends, full stops, abbreviations, other scripts.
PIECES = st.sampled_from(
    [
        "Oslo",
        "is",
        "big",
        ".",
        "!",
        "?",
        " ",
        "  ",
        "\n",
        "\n\n",
        "\t",
        "St.",
        "U.S.",
        "J.",
        "a",
        "B",
        '."',
        "東京は大きい。",
        "…",
    ]
)
TEXTS = st.one_of(st.lists(PIECES, max_size=60).map("".join), st.text(max_size=200))


@given(TEXTS, st.integers(1, 60))
def test_passages_lose_nothing_and_keep_the_order(text: str, characters: int) -> None:
    found = passages(text, characters)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(piece and piece == piece.strip() and len(piece) <= characters for piece in found)
    start = 0
    for piece in found:  # each is a piece of the text as it stands, after the one before it
        start = text.index(piece, start) + len(piece)


@given(TEXTS, st.integers(1, 60))
def test_a_sentence_that_fits_is_whole_in_one_passage(text: str, characters: int) -> None:
    found = passages(text, characters)
    for sentence in sentences(text):
        if len(sentence) <= characters:
            assert any(sentence in piece for piece in found)


@given(TEXTS)
def test_sentences_lose_nothing(text: str) -> None:
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Oslo is big. It lies by the sea.", ["Oslo is big.", "It lies by the sea."]),
        ("Mr. Smith met J. K. Rowling in St. Louis.", ["Mr. Smith met J. K. Rowling in St. Louis."]),
        ("It is in Washington, D.C.\nThe next line.", ["It is in Washington, D.C.", "The next line."]),
        ("wrapped lines\nare one sentence", ["wrapped lines\nare one sentence"]),
        ("A heading\n\nA paragraph", ["A heading", "A paragraph"]),
        ("It cost 3.5 million. e.g. this", ["It cost 3.5 million. e.g. this"]),
        ('He said "no." Then he left!', ['He said "no."', "Then he left!"]),
        ("東京は大きい。京都は古い。", ["東京は大きい。", "京都は古い。"]),
        ("", []),
        (" \n ", []),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


def test_passages_are_filled_with_as_many_sentences_as_fit() -> None:
    assert passages("Aa aa. Bb bb. Cc cc.", 13) == ["Aa aa. Bb bb.", "Cc cc."]
    assert passages("Aa aa. Bb bb. Cc cc.", 12) == ["Aa aa.", "Bb bb.", "Cc cc."]
    assert passages("x" * 25, 10) == ["x" * 10, "x" * 10, "x" * 5]


# HTML


def test_page() -> None:
    html = """<!DOCTYPE html><html><head><title> The
      city </title><style>p { color: red }</style><script>var x = "<p>no</p>";</script></head>
      <body><h1>Oslo</h1><p>Oslo is the <em>capital</em> of Norway&nbsp;&mdash; since 1814.</p>
      <ul><li>fjord<li>opera</ul><!-- a comment --><noscript>turn it on</noscript></body></html>"""
    assert page(html) == ("The city", "Oslo\nOslo is the capital of Norway — since 1814.\nfjord\nopera")


def test_a_page_without_title_is_called_by_its_first_heading() -> None:
    assert page("<h2>First</h2><h1>Second</h1>text") == ("First", "First\nSecond\ntext")
    assert page("text") == ("", "text")


@given(st.text(alphabet="<>&;/!-\"'= abscriptl\n", max_size=120))
def test_any_markup_gives_text(text: str) -> None:
    assert "\n" not in plain(text)
    page(text)


@given(st.text(alphabet=st.characters(exclude_characters="<>&", exclude_categories=["Cs"]), max_size=60))
def test_plain_text_stays_as_it_is_but_for_white_space(text: str) -> None:
    assert plain(text) == " ".join(text.split())
    assert plain(f"<b>{text}</b>&amp;") == " ".join(f"{text}&".split())


@given(
    st.binary(max_size=100), st.sampled_from([None, "utf-8", "latin-1", "hex", "utf-16", "idna", "nonsense", "rot13"])
)
def test_any_bytes_decode(data: bytes, declared: str | None) -> None:
    assert isinstance(decode(data, declared), str)


def test_decoding() -> None:
    assert decode("ø".encode("latin-1"), "latin-1") == "ø"
    assert decode("ø".encode("utf-16")) == "ø"
    assert decode(b"\xef\xbb\xbfx") == "x"
    assert decode('<meta charset="iso-8859-1">ø'.encode("latin-1")).endswith("ø")
