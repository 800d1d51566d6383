"""A wording: puts plans into words, at a level of freedom, with as much noise as wanted.

    Wording(NameLexicon(survey(graph)), level=1).say(plan, random.Random(0))

Every set of a plan becomes a noun phrase, the last one a question. A hop's phrase nests the phrase of the set it starts
from: "the films that the spouse of X acted in". Sets that are combined are worded in `joins` and `differences`, sets
chosen by values in `measures`, whole chains and times in `chains`, the patterns of the full language as a whole in
`choices`, `comparisons` and `verdicts`. While a text is put together, a mark (one character
of private use) stands for each name and value, so that neither grammar nor noise touches them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from kgwalk.questions.plan import HOPS, QuestionPlan, way_of
from kgwalk.questions.wording import chains, choices, comparisons, differences, joins, measures, verdicts
from kgwalk.questions.wording.english import VALUES, is_person, word_set
from kgwalk.questions.wording.lexicon import Lexicon, Templates
from kgwalk.questions.wording.phrases import HEADLESS, Phrase, fill, fits, is_many, parts
from kgwalk.types import Call, KgwalkError
from kgwalk.walk.facts import DirectedRelation

# Weight of wording a chain in nouns alone, by its number of hops; a question around a phrase has the weight 5.
POSSESSIVE = (1.2, 3.5, 6.0)
THROUGH = 0.75  # the share of phrases over rows that do not speak of the rows
FIRST_MARK = 0xE000  # private use characters: no template has them

Weighted = list[tuple[float, str]]


LEVELS = (0, 1, 2)
LONGEST = 36  # words of a question, where a name counts as one
# Signs of a template that was filled badly: "the the", "the those".
_DOUBLED = re.compile(
    r"\b(the|a|an|of|in|by|is|was|are|has|have|that|who) \1\b|\bthe (?:a|an|all|those)\b|\b(?:has have|have has)\b",
    re.IGNORECASE,
)


class Wording:
    """Puts plans into words by a lexicon.

    Level 0 uses the words of the relations' own names, level 1 mixes them with paraphrases, level 2 uses paraphrases
    and orders them freely. `noise` is the share of words with a mistake. Names stand as the graph writes them, unless
    `noisy_names`.
    """

    def __init__(self, lexicon: Lexicon, *, level: int = 1, noise: float = 0.0, noisy_names: bool = False) -> None:
        if level not in LEVELS:
            raise KgwalkError(f"level {level} of wording: give 0 (plain), 1 (natural) or 2 (free)")
        if not 0 <= noise <= 1:
            raise KgwalkError(f"noise {noise} is no share of words: give 0 to 1")
        self.lexicon, self.level, self.noise, self.noisy_names = lexicon, level, noise, noisy_names

    def says_as_one(self, ways: tuple[DirectedRelation, ...]) -> bool:
        return self.lexicon.through(ways) is not None

    def say(self, plan: QuestionPlan, chance: random.Random) -> str | None:
        """The plan's question; None where there is no good wording for it."""
        if any(len(f".{name}.".splitlines()) > 1 for name in plan.topics):
            return None  # a question is one line
        speaker = Speaker(plan, self.lexicon, self.level, chance)
        text = speaker.ask()
        if text is None or not _is_complete(text, len(plan.topics)):
            return None
        text = add_noise(apply_manner(_capitalised(text), self.level, chance), self.noise, chance)
        if self.noisy_names:
            speaker.marked[:] = [add_noise(name, self.noise, chance) for name in speaker.marked]
        return speaker.unmarked(text)


def _is_complete(text: str, topics: int) -> bool:
    every = all(chr(FIRST_MARK + number) in text for number in range(topics))
    return every and "{}" not in text and _DOUBLED.search(text) is None and len(text.split()) <= LONGEST


def _capitalised(text: str) -> str:
    """A sentence that ends in a full stop opens with a capital; questions in lower case are so in the bank."""
    return text[:1].upper() + text[1:] if text.endswith(".") else text


class Speaker:
    """Words one plan; `level` is that of `Wording`."""

    def __init__(self, plan: QuestionPlan, lexicon: Lexicon, level: int, chance: random.Random) -> None:
        self.plan, self.lexicon, self.level, self.chance = plan, lexicon, level, chance
        self.marked: list[str] = list(plan.topics)
        self._phrases: dict[int, Phrase | None] = {}

    def mark(self, text: str) -> str:
        """A character that stands for a value until the text is finished."""
        self.marked.append(text)
        return chr(FIRST_MARK + len(self.marked) - 1)

    def unmarked(self, text: str) -> str:
        """The text with the names and values in place of their marks."""
        last = FIRST_MARK + len(self.marked)
        return "".join(self.marked[ord(sign) - FIRST_MARK] if FIRST_MARK <= ord(sign) < last else sign for sign in text)

    def choose(self, options: Weighted) -> str | None:
        options = [(weight, text) for weight, text in options if weight > 0]
        if not options:
            return None
        return self.chance.choices([text for _, text in options], [weight for weight, _ in options])[0]

    def templates(self, way: DirectedRelation) -> Templates:
        return self.lexicon.templates(way)

    def through(self, call: Call) -> tuple[Templates, Phrase] | None:
        """Templates that word the last hops as one, and what they start from."""
        return chains.through_of(self, call)

    # Noun phrases

    def phrase(self, number: int) -> Phrase | None:
        """A set as a noun phrase, the same each time; None where there are no words for it."""
        if number not in self._phrases:
            call = self.plan.made_by(number)
            if call is None and number > len(self.plan.topics):
                self._phrases[number] = choices.kind_phrase(self, self.plan.kinds[number - len(self.plan.topics) - 1])
            elif call is None:
                mark = chr(FIRST_MARK + number - 1)
                self._phrases[number] = Phrase(mark, name=self.plan.topics[number - 1], short=True)
            else:
                self._phrases[number] = PHRASES[call.tool](self, call)
        return self._phrases[number]

    def sources(self, call: Call) -> list[int]:
        return [argument for argument in call.args if isinstance(argument, int)]

    def noun(self, way: DirectedRelation, inner: Phrase, *, whole: bool = False) -> Phrase | None:
        """A phrase for what a relation leads to from `inner`. With `whole`, it has a head noun that more may follow."""
        return self.noun_by(self.templates(way), inner, whole=whole)

    def noun_by(self, templates: Templates, inner: Phrase, *, whole: bool = False) -> Phrase | None:
        _, nouns, bare = templates.at(self.level)
        fitting = [text for text in nouns if fits(text, inner) and (not whole or parts(text))]
        options: Weighted = [(_weight(text, inner), text) for text in fitting]
        for noun in bare:
            share = 3.0 / len(bare) if self.level else 1.0
            options.append((share, f"the {noun} of {{}}"))
            if inner.short and not whole:
                options.append((share, f"{{}}'s {noun}"))
        template = self.choose(options)
        if template is None:
            return None
        text = fill(template, inner)
        if template.startswith("{}"):
            text = text[:1] + text[1:] if inner.simple else text[:1].lower() + text[1:]
        short = template.startswith("{}'s") and inner.short
        return Phrase(text, is_many(template), templates.kind, short=short, hops=inner.hops + 1)

    # Questions

    def ask(self) -> str | None:
        """The plan's question, with marks for names."""
        if self.plan.pattern in ASKED:
            return ASKED[self.plan.pattern](self)
        call = self.plan.steps[-1] if self.plan.steps else None
        return None if call is None else QUESTIONS[call.tool](self, call)

    def frame(self, phrase: Phrase) -> str | None:
        """A question for a noun phrase: "Who are ...?", "Name ...", "...?"."""
        text, be = phrase.text, "are" if phrase.many else "is"
        first = text.split(" ")[0].lower()
        if first in HEADLESS:
            return self.choose([(1, f"Tell me {text}."), (1, f"Do you know {text}?"), (0.5, f"I want to know {text}.")])
        who = "Who" if is_person(phrase.kind) else "What"
        options: Weighted = [
            (3, f"{who} {be} {text}?"),
            (1.5, f"Name {text}."),
            (1, f"Tell me {text}."),
            (0.7, f"Find {text}."),
            (0.7, f"Can you tell me {who.lower()} {text} {be}?")
            if len(text.split()) < 6
            else (0.7, f"Give me {text}."),
            (0.5, f"I am looking for {text}."),
        ]
        if phrase.many:
            options += [(1, f"List {text}."), (0.5, f"Give me all of {text}.")]
        elif phrase.kind not in VALUES:
            options.append((0.7, f"What is the name of {text}?"))
        if self.level:
            options += [(1, f"{text}?"), (0.4, f"{_capital(text)} {be} {who.lower()}?")]
        return self.choose(options)


def _weight(noun: str, inner: Phrase) -> float:
    """How well a noun template nests: best definite or plural ones that end with the phrase, less "a film by {}"."""
    first = noun.split(" ")[0].lower()
    if first in HEADLESS:
        return 0.0
    if noun.endswith("{} has"):
        return 0.3
    if first == "all":
        return 0.2
    if not inner.simple and not noun.endswith("{}"):
        return 0.3
    return 0.25 if first in ("a", "an", "another", "whoever", "whatever", "anyone", "something", "somebody") else 1.0


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


# Hops


def source_of(speaker: Speaker, call: Call) -> tuple[Phrase, str] | None:
    """What a hop starts from, and the words for its time, or ""; None where there are no words for either."""
    number, when = speaker.sources(call)[0], ""
    found = chains.chosen_from(speaker, number)
    if found is not None:
        number = found[0]
        when = chains.term(speaker, found[1]) or ""
        if not when:
            return None
    elif call.tool == "between":
        when = chains.window(speaker, str(call.args[2]), str(call.args[3]))
    inner = speaker.phrase(number)
    return None if inner is None else (inner, when)


def hop_phrase(speaker: Speaker, call: Call) -> Phrase | None:
    if speaker.templates(way_of(call)).silent:
        return speaker.phrase(speaker.sources(call)[0])
    through = speaker.through(call)
    if through is not None and speaker.chance.random() < THROUGH:
        made = speaker.noun_by(*through)
        if made is not None:
            return made
    found = source_of(speaker, call)
    made = None if found is None else speaker.noun(way_of(call), found[0])
    if found is None or made is None or not found[1]:
        return made
    return chains.phrase_with_term(made, found[1])


def hop_question(speaker: Speaker, call: Call) -> str | None:
    found = source_of(speaker, call)
    if found is None:
        return None
    inner, when = found
    way = way_of(call)
    questions, _, _ = speaker.templates(way).at(speaker.level)
    ways: list[tuple[float, Callable[[], str | None]]] = [
        (5, lambda: _asked(speaker, questions, inner)),
        (2, lambda: _framed(speaker, way, inner)),
        (6.0 * (not when), lambda: joins.met_question(speaker, call)),
    ]
    chain = None if when else chains.chain_of(speaker, call)
    if chain is not None:
        nouns = chains.bare_of(speaker, chain)
        if nouns:
            weight = POSSESSIVE[min(len(nouns), len(POSSESSIVE)) - 1]
            ways.append((weight, lambda: chains.possessive(speaker, chain, nouns)))
            ways.append((0.6 * speaker.level, lambda: chains.keywords(speaker, chain, nouns)))
        ways.append((8.0 * (len(chain.ways) > 1), lambda: chains.implied(speaker, chain)))
        through = speaker.through(call)
        if through is not None:
            ways.append((25.0, lambda: _asked(speaker, through[0].questions, through[1])))
    if speaker.level > 1 and len(inner.text) > 1 and not when:  # a name is one mark
        ways.append((0.8, lambda: chains.stepwise(speaker, questions, inner)))
    text = first_worded(speaker, ways)
    if text is None or not when:
        return text
    return chains.with_term(text, when, front=speaker.level > 0 and speaker.chance.random() < 0.3)


def _framed(speaker: Speaker, way: DirectedRelation, inner: Phrase) -> str | None:
    """A question around the noun phrase of a hop, without its dates."""
    made = speaker.noun(way, inner)
    return None if made is None else speaker.frame(made)


def first_worded(speaker: Speaker, ways: Sequence[tuple[float, Callable[[], str | None]]]) -> str | None:
    """The text of one of these functions, drawn by weight; if it has none, that of another."""
    left = [(weight, way) for weight, way in ways if weight > 0]
    while left:
        at = speaker.chance.choices(range(len(left)), [weight for weight, _ in left])[0]
        text = left.pop(at)[1]()
        if text is not None:
            return text
    return None


def _asked(speaker: Speaker, questions: Sequence[str], inner: Phrase) -> str | None:
    template = speaker.choose([(1.0, text) for text in questions if fits(text, inner)])
    return None if template is None else fill(template, inner)


PHRASES: dict[str, Callable[[Speaker, Call], Phrase | None]] = {
    **dict.fromkeys(HOPS, hop_phrase),
    "intersect": joins.both_phrase,
    "union": joins.either_phrase,
    "minus": differences.difference_phrase,
    "count": measures.count_phrase,
    "argmax": measures.extreme_phrase,
    "argmin": measures.extreme_phrase,
    "filter": measures.compared_phrase,
}
QUESTIONS: dict[str, Callable[[Speaker, Call], str | None]] = {
    **dict.fromkeys(HOPS, hop_question),
    "intersect": joins.both_question,
    "union": joins.either_question,
    "minus": differences.difference_question,
    "count": measures.count_question,
    "argmax": measures.extreme_question,
    "argmin": measures.extreme_question,
    "filter": measures.compared_question,
}
# Of the patterns of the full language: each is worded as a whole.
ASKED: dict[str, Callable[[Speaker], str | None]] = {
    **chains.QUESTIONS,
    **choices.QUESTIONS,
    **comparisons.QUESTIONS,
    **verdicts.QUESTIONS,
}


# Casing and manner: lower case without a stop, spaced as in some datasets, a phrase before or after


_BEFORE = (
    "Quick question: ", "Do you happen to know: ", "I was wondering: ", "Please tell me: ", "Hi, ", "Help me out: ",
    "For a quiz: ", "Question: ", "Can you find out: ", "I need to know: ",
)  # fmt: skip
_AFTER = (" Thanks.", " I forgot.", " Any idea?", " It is for a quiz.", " Please list all.", " I need this for work.")
# Shares of questions, by level: all lower case, spaced before signs, a word before, a word after.
_SHARES = ((0.0, 0.0, 0.0, 0.0), (0.2, 0.12, 0.0, 0.0), (0.28, 0.14, 0.05, 0.04))


def apply_manner(text: str, level: int, chance: random.Random) -> str:
    """The text in a casing and manner drawn by its level. Names must be marks."""
    lower, spaced, before, after = _SHARES[level]
    drawn = chance.random()
    asks = text.endswith("?") and ". " not in text  # "Do you know: take the films of X." is no question
    if chance.random() < before and asks:
        opening = chance.choice(_BEFORE)
        text = opening + (text[:1].lower() + text[1:])
    elif chance.random() < after:
        text = _stopped(text) + chance.choice(_AFTER)
    if drawn < lower:
        text = text.lower()
        if chance.random() < 0.7:
            text = text.rstrip("?. ")
    elif drawn < lower + spaced:
        text = re.sub(r"(?<=\w)'s\b|(?<=[\ue000-\uf8ff])'s\b", " 's", text.lower())
        text = text.rstrip("?. ") + " ?"
    return text


def _stopped(text: str) -> str:
    return text if text[-1:] in "?.!" else f"{text}?"


# Noise: typos, missing words, odd case, dropped signs, doubled blanks


_SMALL = word_set("the a an of is are was were do does did to in by for")
_NEIGHBOURS = {
    "a": "s", "b": "v", "c": "x", "d": "f", "e": "r", "f": "g", "g": "h", "h": "j", "i": "o", "j": "k", "k": "l",
    "l": "k", "m": "n", "n": "m", "o": "p", "p": "o", "q": "w", "r": "t", "s": "d", "t": "r", "u": "i", "v": "b",
    "w": "e", "x": "c", "y": "u", "z": "x",
}  # fmt: skip
LEAST = 4  # letters of a word that gets a typo: a shorter one would become another word


def add_noise(text: str, rate: float, chance: random.Random) -> str:
    """Each word gets a mistake with probability `rate`; the last stop and the first letter's case with twice that.

    Marks are left alone. The same `chance` makes the same mistakes.

    >>> add_noise("Who directed it?", 0.0, random.Random(1))
    'Who directed it?'
    """
    if rate <= 0:
        return text
    words = [_with_mistake(word, rate, chance) for word in text.split(" ")]
    text = " ".join(word for word in words if word is not None)
    if text[-1:] in "?." and chance.random() < 2 * rate:
        text = text[:-1].rstrip()
    if chance.random() < 2 * rate:
        text = text[:1].lower() + text[1:]
    if chance.random() < rate / 2:
        text = text.lower()
    return text


def _with_mistake(word: str, rate: float, chance: random.Random) -> str | None:
    if chance.random() >= rate or not word.strip("?.,'").isascii():
        return word
    if word.lower() in _SMALL:
        return None if chance.random() < 0.5 else word
    if chance.random() < 0.1:
        return f"{word} "  # a doubled blank
    letters = [at for at in range(1, len(word)) if word[at].isalpha()]
    if sum(map(str.isalpha, word)) < LEAST or not letters:
        return word
    return chance.choice(_TYPOS)(word, chance.choice(letters))


def _swap(word: str, at: int) -> str:
    return word[: at - 1] + word[at] + word[at - 1] + word[at + 1 :]


def _drop(word: str, at: int) -> str:
    return word[:at] + word[at + 1 :]


def _double(word: str, at: int) -> str:
    return word[:at] + word[at] + word[at:]


def _miss(word: str, at: int) -> str:
    return word[:at] + _NEIGHBOURS.get(word[at].lower(), word[at]) + word[at + 1 :]


_TYPOS: tuple[Callable[[str, int], str], ...] = (_swap, _drop, _double, _miss)
