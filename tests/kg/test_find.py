"""Finding entities by a text that is not exactly their name."""

from __future__ import annotations

import random
import string
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgwalk.kg import find
from kgwalk.kg.find import Finder, hashes, signatures, similarity
from kgwalk.kg.names import normalise

# Ids are positions: the first is the best connected.
NAMES = [
    "São Paulo",
    "Paris",
    "Paris Hilton",
    "Paris, Texas",
    "The Godfather",
    "The Godfather Part II",
    "Godfather",
    "Łódź",
    "Malmö",
    "C",
    "C++",
    "C#",
    "!!!",
    "東京",
    "東京都",
    "Москва",
    "القاهرة",
    "हिन्दी",
    "Schindler's List",
    "J.R.R. Tolkien",
    "Tom Hanks",
    "Tom Hardy",
    "Tim Hanks",
    "Hanks",
    "starred_actors",
    "release year",
    "AC/DC",
    "Jürgen Habermas",
    "2001: A Space Odyssey",
    "Space Jam",
    "José",
    "Jose",
    "JOSE",
]


def finder_of(names: Sequence[str]) -> Finder:
    plain = [normalise(name) for name in names]
    hashed = hashes(plain)
    order = np.argsort(hashed, kind="stable")
    return Finder(names.__getitem__, hashed[order], order.astype(np.uint32), signatures(plain))


@pytest.fixture(scope="module")
def finder() -> Finder:
    return finder_of(NAMES)


def found(finder: Finder, text: str, k: int = 5) -> list[str]:
    return [NAMES[entity] for entity, _, _ in finder.find(text, k)]


class TestNormalise:
    @pytest.mark.parametrize(
        ("text", "plain"),
        [
            ("São Paulo", "sao paulo"),
            ("sao_paulo", "sao paulo"),
            ("  SAO -- PAULO!\n", "sao paulo"),
            ("Schindler's List", "schindler s list"),
            ("Łódź, Ærø & Þingvellir", "lodz aero thingvellir"),
            ("Straße", "strasse"),
            ("İstanbul", "istanbul"),
            ("ﬁn x² Ⅷ ½", "fin x2 viii 1 2"),
            ("東京", "東京"),
            ("МОСКВА", "москва"),
            ("zero\u200bwidth\ufeff", "zerowidth"),
            ("I ❤️ NY", "i ny"),
            ("", ""),
            ("  \t", ""),
        ],
    )
    def test_examples(self, text: str, plain: str) -> None:
        assert normalise(text) == plain

    def test_composed_and_decomposed_are_the_same(self) -> None:
        assert normalise("e\u0301") == normalise("\u00e9") == "e"

    def test_a_name_of_symbols_keeps_them(self) -> None:
        assert normalise(" !!! ") == "!!!"
        assert normalise("…") == "..."
        assert normalise("+ / -") == "+ / -"

    def test_marks_that_spell_a_sound_stay(self) -> None:
        assert normalise("हिन्दी") == "हिन्दी"
        assert normalise("が") != normalise("か")

    def test_apostrophe_letters_are_apostrophes(self) -> None:
        assert normalise("Hawai\u02bbi") == normalise("Hawai'i") == "hawai i"

    @given(st.text())
    def test_idempotent(self, text: str) -> None:
        assert normalise(normalise(text)) == normalise(text)

    @given(st.text(alphabet="!?\u0301\u0345\u00a8\u00a0\u02bc\ufe0f…_ \ud800", max_size=6))
    def test_idempotent_on_symbols_and_marks(self, text: str) -> None:
        assert normalise(normalise(text)) == normalise(text)

    @given(st.text(alphabet=string.printable))
    def test_the_fast_way_for_ascii_is_the_same(self, text: str) -> None:
        # A combining accent sends the text the other way and is then dropped.
        assert not text.strip() or normalise(text + " a\u0301") == f"{_words(text)} a".strip()

    @given(st.text(alphabet="abcXYZ_ -'!.éÉøß東", min_size=1))
    def test_case_does_not_matter(self, text: str) -> None:
        assert normalise(text.upper()) == normalise(text.lower()) or "ß" in text


def _words(ascii_text: str) -> str:
    return " ".join("".join(c.lower() if c.isalnum() else " " for c in ascii_text).split())


class TestArrays:
    def test_a_signature_by_hand(self) -> None:
        # " a", "ab", "b " set bits of word 0; " ab", "ab " of word 1.
        pairs = [0x2061, 0x6162, 0x6220]
        triples = [0x206162, 0x616220]
        word0 = {(gram * 0x9E3779B1) % 2**32 // 2**26 for gram in pairs}
        word1 = {(gram * 0x85EBCA6B) % 2**32 // 2**26 for gram in triples}
        assert signatures(["ab"]).tolist() == [[sum(2**bit for bit in word0), sum(2**bit for bit in word1)]]

    @given(st.lists(st.text(max_size=40), max_size=12))
    def test_vectorised_equals_plain(self, names: list[str]) -> None:
        expected = np.array([_signature(name) for name in names], np.uint64).reshape(len(names), 2)
        assert np.array_equal(signatures(names), expected)

    def test_blocks_do_not_show(self, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = signatures(NAMES)
        monkeypatch.setattr(find, "SIGNED_AT_ONCE", 7)
        assert np.array_equal(signatures(NAMES), whole)

    def test_of_a_long_name_the_beginning_counts(self) -> None:
        long = "a rather long beginning " * 10
        assert np.array_equal(signatures([long + "one end"]), signatures([long + "another"]))

    def test_shapes_and_types(self) -> None:
        assert signatures([]).shape == (0, 2)
        assert signatures([]).dtype == hashes([]).dtype == np.uint64
        assert hashes([]).shape == (0,)
        assert signatures(["", "x"]).flags.c_contiguous

    def test_hash_is_xxh3(self) -> None:
        assert hashes([""]).tolist() == [0x2D06800538D394C2]  # the published value for no input, seed 0


def _signature(name: str) -> tuple[int, int]:
    padded = b" " + name.encode()[: find.SIGNED_BYTES] + b" "
    words = []
    for size, multiplier in ((2, 0x9E3779B1), (3, 0x85EBCA6B)):
        word = 0
        for at in range(len(padded) - size + 1):
            gram = int.from_bytes(padded[at : at + size], "big")
            word |= 1 << (gram * multiplier % 2**32 >> 26)
        words.append(word)
    return words[0], words[1]


class TestEqualNames:
    @pytest.mark.parametrize("text", ["sao_paulo", "SAO PAULO!", "São Paulo", "Sa\u0303o-Paulo"])
    def test_case_accents_underscores_punctuation(self, finder: Finder, text: str) -> None:
        assert finder.find(text, 1) == [(0, 1.0, "normalised")]

    @pytest.mark.parametrize(
        ("text", "name"),
        [
            ("lodz", "Łódź"),
            ("MALMO", "Malmö"),
            ("!!!", "!!!"),
            ("東京", "東京"),
            ("москва", "Москва"),
            ("القاهرة", "القاهرة"),
            ("हिन्दी", "हिन्दी"),
            ("j r r tolkien", "J.R.R. Tolkien"),
            ("Starred Actors", "starred_actors"),
            ("ac-dc", "AC/DC"),
        ],
    )
    def test_scripts_and_symbols(self, finder: Finder, text: str, name: str) -> None:
        entity, score, how = finder.find(text)[0]
        assert (NAMES[entity], score, how) == (name, 1.0, "normalised")

    def test_equal_lists_all_by_id(self, finder: Finder) -> None:
        assert [NAMES[entity] for entity in finder.equal("josé")] == ["José", "Jose", "JOSE"]
        assert finder.equal("nobody") == []

    def test_same_but_for_case_goes_first(self, finder: Finder) -> None:
        assert found(finder, "c++", 3) == ["C++", "C", "C#"]
        assert found(finder, "jose", 3) == ["Jose", "JOSE", "José"]
        assert found(finder, "Jose!", 3) == ["José", "Jose", "JOSE"]

    def test_a_shared_hash_is_not_a_shared_name(self) -> None:
        names = ["alpha", "beta"]
        clash = hashes(["beta", "beta"])  # as if both names hashed alike
        finder = Finder(names.__getitem__, clash, np.array([0, 1], np.uint32), signatures(names))
        assert finder.equal("Beta") == [1]

    @given(st.lists(st.text(), min_size=1, max_size=8, unique=True))
    def test_any_name_finds_itself(self, names: list[str]) -> None:
        finder = finder_of(names)
        for entity, name in enumerate(names):
            assert entity in finder.equal(name)
            assert (entity, 1.0, "normalised") in finder.find(name, len(names))


class TestFuzzy:
    @pytest.mark.parametrize(
        ("text", "name"),
        [
            ("Sao Palo", "São Paulo"),
            ("Tom Hansk", "Tom Hanks"),
            ("Hanks, Tom", "Tom Hanks"),
            ("the godfahter", "The Godfather"),
            ("godfather part 2", "The Godfather Part II"),
            ("schindlers list", "Schindler's List"),
            ("JRR Tolkien", "J.R.R. Tolkien"),
            ("habermas", "Jürgen Habermas"),
            ("a space odyssey", "2001: A Space Odyssey"),
            ("Schindl", "Schindler's List"),
            ("Масква", "Москва"),
            ("release_yaer", "release year"),
        ],
    )
    def test_examples(self, finder: Finder, text: str, name: str) -> None:
        entity, score, how = finder.find(text)[0]
        assert (NAMES[entity], how) == (name, "fuzzy")
        assert 0.5 <= score < 1

    def test_equal_then_near(self, finder: Finder) -> None:
        assert finder.find("tom hanks", 3) == [
            (NAMES.index("Tom Hanks"), 1.0, "normalised"),
            (NAMES.index("Tim Hanks"), 0.8889, "fuzzy"),  # one letter of nine
            # "hanks" is among the words, 5 letters of 9: 0.75 + 0.15 * 5/9 - 0.25 * 4/9
            (NAMES.index("Hanks"), 0.7222, "fuzzy"),
        ]

    def test_a_near_equal_name_goes_before_one_that_contains_the_text(self, finder: Finder) -> None:
        assert found(finder, "Pariss", 2) == ["Paris", "Paris, Texas"]
        assert found(finder, "東京", 2) == ["東京", "東京都"]
        near, part = similarity("space jan", ["space jam", "space jan in a far longer name"])
        assert near == pytest.approx(8 / 9, abs=1e-4)
        assert near > part

    def test_of_equal_scores_the_smaller_id(self) -> None:
        names = ["Karl Xu", "Karl Xa", "Karl Xe"]
        assert [entity for entity, _, _ in finder_of(names).find("Karl Xo")] == [0, 1, 2]
        assert [entity for entity, _, _ in finder_of(names[::-1]).find("Karl Xo")] == [0, 1, 2]

    def test_nothing_near_is_no_answer(self, finder: Finder) -> None:
        assert finder.find("qqqqwwwwzzzz") == []

    def test_similarity_by_hand(self) -> None:
        assert similarity("ab cd", ["cd ab", "ab dc", "xy zw"])[:2].tolist() == [0.95, 0.8]
        assert similarity("a", []).tolist() == []
        assert similarity("", ["a"]).tolist() == similarity("a", [""]).tolist() == [0.0001]

    @given(st.text(max_size=30), st.lists(st.text(max_size=30), min_size=1, max_size=8))
    def test_similarity_lies_between_0_and_1(self, query: str, names: list[str]) -> None:
        score_C = similarity(query, names)
        assert score_C.shape == (len(names),)
        assert ((score_C > 0) & (score_C < 1)).all()


class TestEdges:
    def test_k_must_be_positive(self, finder: Finder) -> None:
        for k in (0, -1):
            with pytest.raises(ValueError, match=f"k must be at least 1, got {k}"):
                finder.find("Paris", k)

    def test_empty_graph(self) -> None:
        finder = finder_of([])
        assert finder.find("Paris") == []
        assert finder.equal("") == []

    def test_empty_text(self, finder: Finder) -> None:
        assert finder.find("") == finder.find(" \n") == []

    def test_an_empty_name_is_found_by_an_empty_text_only(self) -> None:
        finder = finder_of(["", "a"])
        assert finder.find("") == [(0, 1.0, "normalised")]
        assert finder.find("a") == [(1, 1.0, "normalised")]

    def test_k_beyond_all_names(self, finder: Finder) -> None:
        entities = [entity for entity, _, _ in finder.find("paris", 1000)]
        assert NAMES[entities[0]] == "Paris"
        assert len(entities) == len(set(entities)) < len(NAMES)

    def test_a_large_k_is_filled(self) -> None:
        names = [f"item number {n}" for n in range(3000)]
        assert len(finder_of(names).find("item number", 1000)) == 1000

    @pytest.mark.parametrize("text", ["x" * 10_000, "paris " * 1700, "東" * 10_000, "!" * 10_000])
    def test_long_text(self, finder: Finder, text: str) -> None:
        assert all(0 < score < 1 for _, score, _ in finder.find(text))

    def test_a_long_name_with_a_typo(self) -> None:
        name = "on the history and theory of approximate names " * 40
        assert finder_of(["other", name]).find("x" + name)[0][0] == 1

    def test_half_a_surrogate_pair(self, finder: Finder) -> None:
        assert found(finder, "Par\ud800is")[0].startswith("Paris")
        assert finder.find("\ud800") == []

    def test_wrong_shapes(self) -> None:
        ids = np.zeros(1, np.uint32)
        with pytest.raises(ValueError, match=r"\(1,\), \(1,\) and \(2, 1\)"):
            Finder(str, hashes(["a"]), ids, np.zeros((2, 1), np.uint64))

    def test_mapped_arrays_are_read_in_place(self, tmp_path: Path) -> None:
        plain = [normalise(name) for name in NAMES]
        hashed = hashes(plain)
        order = np.argsort(hashed, kind="stable")
        mapped = []
        for stem, array in (("h", hashed[order]), ("i", order.astype(np.uint32)), ("s", signatures(plain))):
            np.save(tmp_path / f"{stem}.npy", array)
            mapped.append(np.load(tmp_path / f"{stem}.npy", mmap_mode="r"))
        finder = Finder(NAMES.__getitem__, *mapped)
        assert found(finder, "sao palo", 1) == found(finder, "sao paulo", 1) == ["São Paulo"]
        assert all(
            np.shares_memory(array, kept)
            for array, kept in zip(mapped, (finder._hash_sorted, finder._hash_ids, finder._signatures), strict=True)
        )

    def test_threads_share_one(self) -> None:
        finder = finder_of(NAMES)  # a fresh one: the first scans meet
        texts = ["Sao Palo", "Tom Hansk", "the godfahter", "habermas"] * 5
        results: dict[int, list[str]] = {}

        def search(at: int) -> None:
            results[at] = found(finder, texts[at])

        threads = [threading.Thread(target=search, args=(at,)) for at in range(len(texts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == {at: found(finder, text) for at, text in enumerate(texts)}


class TestScan:
    @given(
        st.lists(st.integers(0, 5), max_size=700),
        st.integers(1, 8),
        st.sampled_from([np.uint8, np.int16]),
    )
    def test_highest(self, scores: list[int], count: int, kind: type[np.uint8] | type[np.int16]) -> None:
        expected = sorted(range(len(scores)), key=lambda at: (-scores[at], at))[:count]
        assert find._highest(np.array(scores, kind), count).tolist() == expected

    def test_highest_of_negative_scores(self) -> None:
        scores = np.arange(-500, 0, dtype=np.int16)
        assert find._highest(scores, 2).tolist() == [499, 498]

    @settings(max_examples=30)
    @given(st.integers(1, 40))
    def test_shared_bits_in_any_block(self, block: int) -> None:
        finder = finder_of(NAMES)
        (query_2,) = signatures(["tom hanks"])
        expected = [sum(map(int.bit_count, row)) for row in (finder._signatures & query_2).tolist()]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(find, "SCANNED_AT_ONCE", block)
            assert finder._shared(query_2).tolist() == expected


# A typo as people make them: a wrong letter, one left out, one too many, two swapped.
def typo(name: str, rng: random.Random) -> str:
    while True:
        at = rng.choice([at for at, letter in enumerate(name) if letter.isalpha()])
        letter = rng.choice(string.ascii_lowercase)
        changed = rng.choice(
            [
                name[:at] + letter + name[at + 1 :],
                name[:at] + name[at + 1 :],
                name[:at] + letter + name[at:],
                name[:at] + name[at + 1 : at + 2] + name[at] + name[at + 2 :],
            ]
        )
        if normalise(changed) != normalise(name):
            return changed


@pytest.fixture(scope="module")
def many() -> tuple[list[str], Finder]:
    """30,000 made-up names of one to four words."""
    rng = random.Random(20240607)
    syllables = [c + v for c in "bcdfghklmnprstvz" for v in "aeiou"] + ["an", "er", "on", "ing", "ée", "ö"]
    words = ["".join(rng.choices(syllables, k=rng.randint(2, 4))).title() for _ in range(4000)]
    names = sorted({" ".join(rng.choices(words, k=rng.choice([1, 2, 2, 2, 3, 4]))) for _ in range(40_000)})
    rng.shuffle(names)
    return names[:30_000], finder_of(names[:30_000])


class TestQuality:
    """The share of texts whose name is among the first k."""

    def recall(self, many: tuple[list[str], Finder], texts: list[tuple[int, str]], k: int) -> float:
        _, finder = many
        return sum(entity in [e for e, _, _ in finder.find(text, k)] for entity, text in texts) / len(texts)

    def sample(self, many: tuple[list[str], Finder], letters: int = 5, words: int = 1) -> list[tuple[int, str]]:
        fits = [(i, n) for i, n in enumerate(many[0]) if len(n) >= letters and len(n.split()) >= words]
        return random.Random(3).sample(fits, 300)

    def test_one_typo(self, many: tuple[list[str], Finder]) -> None:
        rng = random.Random(1)
        texts = [(i, typo(name, rng)) for i, name in self.sample(many)]
        assert self.recall(many, texts, 1) >= 0.97
        assert self.recall(many, texts, 5) >= 0.99

    def test_two_typos(self, many: tuple[list[str], Finder]) -> None:
        rng = random.Random(2)
        texts = [(i, typo(typo(name, rng), rng)) for i, name in self.sample(many, letters=10)]
        assert self.recall(many, texts, 5) >= 0.97

    def test_a_word_left_out(self, many: tuple[list[str], Finder]) -> None:
        texts = [(i, " ".join(name.split()[1:])) for i, name in self.sample(many, words=3)]
        assert self.recall(many, texts, 5) >= 0.95

    def test_lower_case_and_underscores(self, many: tuple[list[str], Finder]) -> None:
        texts = [(i, name.lower().replace(" ", "_")) for i, name in self.sample(many)]
        assert self.recall(many, texts, 5) == 1.0
