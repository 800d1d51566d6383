"""One passage and a model: what it is asked, what it may answer, and which of its facts the passage bears out.

    Big is a 1988 film directed by Penny Marshall.    ->    Big | director | Penny Marshall
                                                            Big | release year | 1988

The answer is lines of three parts, or `none`. A line of another form is malformed and counted; nothing is read into it.
A fact is kept only if its subject and its object stand in the passage (or the title of its document), word by word.
They are then written as the text writes them, with the sentence in which they stand. Whether the sentence says what the
relation says is the model's word alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import xxhash

from kgwalk.kg.names import normalise
from kgwalk.llm.grammar import END, Grammar, GrammarRule, Names, either, field, literal, loop, one_of
from kgwalk.types import Message
from kgwalk.walk.web.documents import sentence_spans

NONE = "none"  # what the model says of a passage without a fact
LONGEST_NAME, LONGEST_RELATION = 100, 60  # characters; what is longer is a clause and no name

# The passage


class TextDocument(NamedTuple):
    """A document by where it lies; `url` is what it says itself of where it comes from."""

    name: str
    title: str
    text: str
    url: str = ""


class TextPassage(NamedTuple):
    """Characters `start` to `end` of a document's text."""

    document: TextDocument
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.document.text[self.start : self.end]

    @property
    def key(self) -> str:
        """What a reply about it depends on, as a digest."""
        whole = f"{self.document.title}\0{self.text}"
        return xxhash.xxh3_128_hexdigest(whole.encode("utf-8", "replace"))


# What the model is asked

SYSTEM = """You turn text into a knowledge graph. Write down the facts that the passage states, a fact a line:

subject | relation | object

It reads: the relation of the subject is the object.
- Subject and object are names, dates, numbers or short phrases, copied from the passage letter by letter.
- Never write a pronoun (he, she, it, they): write the name that it stands for.
- The relation is one to four words in small letters.
- Write only what the passage says, each fact once. Write nothing else.
- If the passage states no fact, write: none"""

# (title, passage, facts): people, places and films that do not exist, so that nobody has read of them
EXAMPLES = (
    (
        "Lantern Bay",
        "Lantern Bay is a 1962 Danish drama film directed by Karen Holm and starring Otto Lind. It was produced by "
        "Nordlys Film, which has its studios in Aarhus.",
        (
            ("Lantern Bay", "release year", "1962"),
            ("Lantern Bay", "country of origin", "Danish"),
            ("Lantern Bay", "genre", "drama film"),
            ("Lantern Bay", "director", "Karen Holm"),
            ("Lantern Bay", "cast member", "Otto Lind"),
            ("Lantern Bay", "producer", "Nordlys Film"),
            ("Nordlys Film", "location", "Aarhus"),
        ),
    ),
    (
        "Ines Duarte",
        "Ines Duarte (3 May 1871 – 12 June 1940) was a Portuguese botanist. She was born in Tavira, the daughter of "
        "the physician Paulo Duarte, and taught at the College of Silves. In 1902 she married Henrique Sousa.",
        (
            ("Ines Duarte", "date of birth", "3 May 1871"),
            ("Ines Duarte", "date of death", "12 June 1940"),
            ("Ines Duarte", "nationality", "Portuguese"),
            ("Ines Duarte", "occupation", "botanist"),
            ("Ines Duarte", "place of birth", "Tavira"),
            ("Ines Duarte", "father", "Paulo Duarte"),
            ("Paulo Duarte", "occupation", "physician"),
            ("Ines Duarte", "employer", "College of Silves"),
            ("Ines Duarte", "spouse", "Henrique Sousa"),
        ),
    ),
)


def messages_of(passage: TextPassage, relations: Sequence[str] = ()) -> list[Message]:
    """The chat in which the passage is read: what to do, two worked examples, the passage.

    With `relations` only these may be used. Each example is then given the relations of all examples: of the first try,
    with its own alone, a small model learnt to write a line for each relation that it was given, known or not.
    """
    chat = [Message("system", SYSTEM)]
    own = sorted({relation for _, _, facts in EXAMPLES for _, relation, _ in facts}) if relations else ()
    for title, text, facts in EXAMPLES:
        chat.append(Message("user", _asked(title, text, own)))
        chat.append(Message("assistant", "\n".join(" | ".join(fact) for fact in facts)))
    return [*chat, Message("user", _asked(passage.document.title, passage.text, relations))]


def _asked(title: str, text: str, relations: Sequence[str]) -> str:
    only = f"Use only these relations, and only where the passage says so: {'; '.join(relations)}\n\n"
    return f"{only if relations else ''}Title: {title}\n\n{text}"


def reply_rule(relations: tuple[str, ...]) -> GrammarRule:
    """Lines of three parts, or `none`; with `relations` the second part is one of them."""

    def line() -> GrammarRule:
        ended = either(END, literal("\n", loop(("facts", relations), line)))
        rest = literal(" ", field(ended))
        if relations:
            return field(literal("| ", one_of(Names.of(relations), literal(" |", rest))))
        return field(literal("| ", field(literal("|", rest))))

    return either(literal(NONE, END), line())


def reply_grammar(relations: Sequence[str] = ()) -> Grammar:
    return Grammar(reply_rule, (tuple(relations),))


# What it answers


class SaidFact(NamedTuple):
    """A line of a reply."""

    subject: str
    relation: str
    object: str


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """The facts of a reply, and the lines that are none; `cut` is a last line that the model had no room to end."""

    facts: list[SaidFact]
    malformed: list[str]
    cut: str = ""


def parse_reply(text: str, *, ended: bool = True) -> ParsedReply:
    """The lines of a reply; `ended` is False where its tokens ran out, and its last line may be half a name.

    >>> parse_reply("Big | director | Penny Marshall\\nIt is a film.\\nBig | year | 19", ended=False)
    ParsedReply(facts=[SaidFact(subject='Big', relation='director', object='Penny Marshall')], \
malformed=['It is a film.'], cut='Big | year | 19')
    >>> parse_reply("none")
    ParsedReply(facts=[], malformed=[], cut='')
    """
    lines = text.split("\n")
    cut = "" if ended else lines.pop().strip()
    said = [line.strip() for line in lines if line.strip()]
    if [line.casefold() for line in said] == [NONE]:
        return ParsedReply([], [], cut)
    facts, malformed = [], []
    for line in said:
        parts = [" ".join(part.split()) for part in line.split("|")]
        if len(parts) == 3 and all(parts):
            facts.append(SaidFact(*parts))
        else:
            malformed.append(line)
    return ParsedReply(facts, malformed, cut)


# Which of it the passage bears out

# Words that stand for a name: as a node of a graph they would be everybody's.
_PRONOUNS = (
    "he him his himself she her hers herself it its itself they them their theirs themselves this that these those who "
    "whom whose which what i me my we us our you your one someone somebody there here"
)
PRONOUNS = frozenset(_PRONOUNS.split())
REASONS = {  # in the order in which they are looked for
    "too_long": f"a name of more than {LONGEST_NAME} characters, or a relation of more than {LONGEST_RELATION}",
    "pronoun": "the subject or object is a pronoun",
    "other_relation": "the relation is not among those asked for",
    "subject_not_in_text": "the subject does not stand in the passage",
    "object_not_in_text": "the object does not stand in the passage",
    "only_in_title": "subject and object stand in the title alone, so no sentence says it",
    "same_name": "subject and object are the same",
}
_WORD = re.compile(r"\w+")
_BETWEEN = r"[\s.\-–—'’\"“”()]{1,4}"  # what may stand between the words of a name where the text writes it otherwise


class TextSpan(NamedTuple):
    """Characters of a document's text."""

    start: int
    end: int


_ABSENT: Sequence[TextSpan | None] = (None,)


class LocatedFact(NamedTuple):
    """A fact in the words of its text: the sentence that says it, and its names there (None: it is in the title)."""

    head: str
    relation: str
    tail: str
    sentence: TextSpan
    head_at: TextSpan | None
    tail_at: TextSpan | None


def locate(said: SaidFact, passage: TextPassage, relations: Sequence[str] = ()) -> LocatedFact | str:
    """The fact with its sentence, or why it is dropped (one of REASONS).

    >>> text = "Big is a film of 1988. It was directed by Penny Marshall."
    >>> passage = TextPassage(TextDocument("big.txt", "Big", text), 0, len(text))
    >>> found = locate(SaidFact("big", "director", "penny marshall"), passage)
    >>> found.head, found.tail, text[slice(*found.sentence)]
    ('Big', 'Penny Marshall', 'It was directed by Penny Marshall.')
    >>> locate(SaidFact("Big", "director", "Ron Howard"), passage)
    'object_not_in_text'
    """
    if max(len(said.subject), len(said.object)) > LONGEST_NAME or len(said.relation) > LONGEST_RELATION:
        return "too_long"
    if is_pronoun(said.subject) or is_pronoun(said.object):
        return "pronoun"
    relation = said.relation
    if relations:
        spelt = {relation_key(one): one for one in relations}
        if relation_key(relation) not in spelt:
            return "other_relation"
        relation = spelt[relation_key(relation)]
    title = passage.document.title
    heads, tails = mentions(said.subject, passage.text), mentions(said.object, passage.text)
    if not heads and not (in_title := mentions(said.subject, title)):
        return "subject_not_in_text"
    if not tails and not (of_title := mentions(said.object, title)):
        return "object_not_in_text"
    if not heads and not tails:
        return "only_in_title"
    sentence, head_at, tail_at = _nearest(passage, heads, tails)
    text = passage.document.text
    head = _quoted(title, in_title[0]) if head_at is None else _quoted(text, head_at)
    tail = _quoted(title, of_title[0]) if tail_at is None else _quoted(text, tail_at)
    if normalise(head) == normalise(tail):
        return "same_name"
    return LocatedFact(head, relation, tail, sentence, head_at, tail_at)


def is_pronoun(name: str) -> bool:
    """Whether it stands for a name.

    >>> is_pronoun("She"), is_pronoun("US"), is_pronoun("Us")
    (True, False, True)
    """
    return name.casefold() in PRONOUNS and (len(name) == 1 or not name.isupper())


def relation_key(relation: str) -> str:
    """What spellings of a relation have in common.

    >>> relation_key("Date_of_Birth") == relation_key("date of birth") == relation_key("dateOfBirth")
    True
    """
    return normalise(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", relation))


def mentions(name: str, text: str) -> list[TextSpan]:
    """Where a name stands in a text: whole words, in any case; if nowhere, then with other signs between its words.

    >>> mentions("lay-abbot", "the lay- abbot of St. Maurice"), mentions("Rome", "Romeo")
    ([TextSpan(start=4, end=14)], [])
    """
    exact = r"\s+".join(map(re.escape, name.split()))
    found = _found(exact, name, text)
    if not found and (words := _WORD.findall(name)):
        found = _found(_BETWEEN.join(map(re.escape, words)), "w", text)
    return found


def _found(pattern: str, name: str, text: str) -> list[TextSpan]:
    before = r"(?<!\w)" if _WORD.match(name[:1]) else ""
    after = r"(?!\w)" if _WORD.match(name[-1:]) else ""
    return [TextSpan(*one.span()) for one in re.finditer(f"{before}{pattern}{after}", text, re.IGNORECASE)]


def _nearest(
    passage: TextPassage, heads: Sequence[TextSpan], tails: Sequence[TextSpan]
) -> tuple[TextSpan, TextSpan | None, TextSpan | None]:
    """The sentence that says it, and the names nearest to each other, in the document.

    Of names in two sentences it is the later one: there a pronoun stands for the other name.
    """
    sentences = [TextSpan(*span) for span in sentence_spans(passage.text)]

    def place(span: TextSpan | None) -> int:
        return -1 if span is None else sum(1 for one in sentences if one.start <= span.start) - 1

    pairs: list[tuple[TextSpan | None, TextSpan | None]] = [*product(heads or _ABSENT, tails or _ABSENT)]
    head, tail = min(pairs, key=lambda pair: (_apart(*map(place, pair)), max(map(place, pair))))
    sentence = sentences[max(place(head), place(tail))]

    def moved(span: TextSpan) -> TextSpan:
        return TextSpan(span.start + passage.start, span.end + passage.start)

    return moved(sentence), None if head is None else moved(head), None if tail is None else moved(tail)


def _apart(one: int, other: int) -> int:
    return 0 if min(one, other) < 0 else abs(one - other)


def _quoted(text: str, at: TextSpan) -> str:
    return " ".join(text[at.start : at.end].split())
