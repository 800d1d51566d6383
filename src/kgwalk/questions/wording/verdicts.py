"""How statements are worded: yes or no, what is not so, only so or always so, and what is not known.

    "Did X direct Y?", "Which films were not directed by X?", "airlines that fly only from X"

The words come from the templates of a relation, turned into a statement: "Which films did {} direct?" becomes "Did {}
direct Y?", and "the films directed by {}" becomes "were not directed by {}". Called by `speaker`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from kgwalk.questions.plan import (
    NEGATION,
    QUANTIFIER,
    UNANSWERABLE,
    VERDICT,
    ZERO,
    way_of,
)
from kgwalk.questions.wording import measures
from kgwalk.questions.wording.choices import GroupWords, counted, group_words
from kgwalk.questions.wording.comparisons import comparison_question
from kgwalk.questions.wording.english import (
    PARTICIPLES,
    a,
    base,
    is_participle,
    is_person,
    is_plural,
    plural,
    singular,
    word_set,
)
from kgwalk.questions.wording.phrases import Phrase, as_many, fill, fits, parts
from kgwalk.questions.wording.relation_names import read_name
from kgwalk.types import Call
from kgwalk.walk.facts import DirectedRelation

if TYPE_CHECKING:
    from kgwalk.questions.wording.speaker import Speaker, Weighted

_TO = r"(?:in|on|at|of|for|to|with|from|by|under|against|about)"
# "Which films did {} direct?", "what country is {} in?", "Where was {} born?", "Who directed {}?", "Who starred in {}?"
_ABOUT = re.compile(
    rf"(?:which|what|who|whom)(?: [a-z-]+){{0,2}} (did|does|is|was|has) \{{\}} ([a-z]+(?: {_TO})?|{_TO})\??", re.I
)
_WHERE = re.compile(r"where (did|does|is|was) \{\} ([a-z]+)\??", re.IGNORECASE)
_WHO = re.compile(rf"who ([a-z]+)( {_TO})? \{{\}}\??", re.IGNORECASE)
_NO_VERB = word_set("have has had do did mean like called known famous")
_ASKED = {"did": "Did", "does": "Does", "is": "Is", "was": "Was", "has": "Has"}
_PAST = PARTICIPLES | word_set("wrote won sang drew led held gave made built spoke took ran began went came got")


def statements(speaker: Speaker, way: DirectedRelation, known: Phrase, other: Phrase) -> Weighted:
    """Questions whether a relation leads from `known` to `other`: "Did X direct Y?", "Is Y the director of X?"."""
    x, y = known.text, other.text
    options: Weighted = []
    templates = speaker.templates(way)
    for question in templates.at(speaker.level).questions:
        if not fits(question, known):
            continue
        if (found := _ABOUT.fullmatch(question)) is not None and _is_verb(found[2]):
            options.append((2, f"{_ASKED[found[1].lower()]} {x} {found[2]} {y}?"))
        elif (found := _WHERE.fullmatch(question)) is not None and _is_verb(found[2]):
            options.append((2, f"{_ASKED[found[1].lower()]} {x} {found[2]} in {y}?"))
        elif (found := _WHO.fullmatch(question)) is not None and (found[1] in _PAST or is_participle(found[1])):
            options.append((2, f"Did {y} {base(found[1])}{found[2] or ''} {x}?"))
    noun = speaker.noun(way, known)
    if noun is not None and parts(noun.text) is not None and not noun.text.startswith(("the one", "those", "anyone")):
        if noun.many:
            options += [(1.5, f"Is {y} one of {as_many(noun).text}?"), (0.5, f"Is {y} among {as_many(noun).text}?")]
        elif noun.text.startswith(("the ", "a ", "an ")):
            options += [(1.5, f"Is {y} {noun.text}?"), (0.5 * speaker.level, f"Is it true that {y} is {noun.text}?")]
    for one in templates.at(speaker.level).bare[:2]:
        if not is_plural(one) and " of " not in one:
            options.append((0.7, f"Is {y} {a(one)} of {x}?" if speaker.plan.pattern == "" else f"Is {y} {x}'s {one}?"))
            options.append((0.5, f"Is the {one} of {x} {y}?"))
            options.append((0.4, f"Does {x} have {y} as {a(one)}?"))
    return options


def _is_verb(words: str) -> bool:
    first = words.split(" ")[0]
    return first not in _NO_VERB and not (is_plural(first) and " " not in words)


def verdict_question(speaker: Speaker) -> str | None:
    plan, call = speaker.plan, speaker.plan.steps[-1]
    if call.tool == "is_in":
        made = plan.made_by(speaker.sources(call)[1])
        while made is not None and made.tool == "minus":  # the start is left out of its own relatives
            made = plan.made_by(speaker.sources(made)[0])
        known, other = None if made is None else speaker.phrase(speaker.sources(made)[0]), speaker.phrase(2)
        if made is None or known is None or other is None:
            return None
        if len(plan.topics) > 2:
            return _both_so(speaker, way_of(made), known)
        return speaker.choose(statements(speaker, way_of(made), known, other))
    if call.tool == "overlap":
        return _shared(speaker)
    made = plan.made_by(speaker.sources(call)[0])
    if made is not None and made.tool == "count":
        return _any(speaker)
    if call.args[1] == "=":
        return _is_true(speaker)
    return comparison_question(speaker, call)


def _both_so(speaker: Speaker, way: DirectedRelation, known: Phrase) -> str | None:
    """Whether a relation leads to two things: "Did X direct both Y and Z?"."""
    marks = [phrase.text for at in (2, 3) if (phrase := speaker.phrase(at)) is not None]
    two = speaker.chance.choice(("{} and {}", "both {} and {}", "{} as well as {}")).format(*marks)
    options = []
    for weight, text in statements(speaker, way, known, Phrase("{}", name="{}")):
        if text.startswith(("Is {}", "Is the ", "Is it", "Was {}")):  # "Are Y and Z among the films of X?"
            many = text.removeprefix("Is {} one of ").removeprefix("Is {} among ")
            options += [(weight, f"Are {two.replace('{}', '')} among {many}")] * (many != text)
        elif text.count("{}") == 1:
            options.append((weight, text.replace("{}", two)))
    return speaker.choose(options)


def _shared(speaker: Speaker) -> str | None:
    way, one, two = way_of(speaker.plan.steps[0]), speaker.phrase(1), speaker.phrase(2)
    if one is None or two is None:
        return None
    bare = [noun for noun in speaker.templates(way).at(speaker.level).bare if not is_plural(noun)]
    options: Weighted = []
    x, y = one.text, two.text
    if bare:
        noun = speaker.chance.choice(bare)
        options += [
            (2, f"Do {x} and {y} have {a(noun)} in common?"),
            (1, f"Do {x} and {y} share {a(noun)}?"),
            (1, f"Do {x} and {y} have the same {noun}?"),
            (speaker.level, f"same {noun} for {x} and {y}?"),
        ]
    words = counted(speaker, way)
    if words is not None and words.verb != "have":
        verb = words.verb if words.helps == "does" else words.do
        options.append((2, f"Are there {words.things} that both {x} and {y} {verb}?"))
    elif words is not None:
        options.append((1, f"Do {x} and {y} have any {words.things} in common?"))
    return speaker.choose(options)


def _any(speaker: Speaker) -> str | None:
    words, known = counted(speaker, way_of(speaker.plan.steps[0])), speaker.phrase(1)
    if words is None or known is None:
        return None
    helps = "Does" if words.helps == "does" else "Did"
    options: Weighted = [(2, f"{helps} {known.text} {words.verb} any {words.things}?")]
    if words.verb == "have":
        options += [
            (1, f"Does {known.text} have {a(singular(words.things))}?"),
            (0.7, f"Are there any {words.things} of {known.text}?"),
        ]
    return speaker.choose(options)


def _is_true(speaker: Speaker) -> str | None:
    """Is X radioactive? The words are those of the relation's own name."""
    name, known = read_name(str(speaker.plan.steps[0].args[1])), speaker.phrase(1)
    words = [word for word in name.words if word not in ("is", "has", "was")]
    if known is None or not words:
        return None
    said = " ".join(words)
    if name.words[0] == "has":
        return f"Does {known.text} have {a(said)}?"
    return speaker.choose([(3, f"Is {known.text} {said}?"), (1, f"Is it true that {known.text} is {said}?")])


# What is not so


_STATES = word_set("located situated based written spoken used found held kept stored published printed set made built")
_RELATIVE = re.compile(r"(?:that|who|which) ([a-z]+) (.*\{\}.*)")
_BY_TOPIC = re.compile(rf"(?:that |which |whom )?\{{\}} ([a-z]+)( {_TO})?")
_WHOSE = re.compile(r"whose ([a-z -]+) (?:is|are) \{\}")
_WITH_AS = re.compile(r"with \{\} as ([a-z -]+)")
_AUX = word_set("are were have can")


class _Clauses:
    """Clauses about a group's members and a known name: with "not", and with a word before the name."""

    def __init__(self, speaker: Speaker, way: DirectedRelation) -> None:
        self.rests: list[str] = []
        for noun in speaker.templates(way).at(speaker.level).nouns:
            found = parts(noun)
            if found is not None and "{}" in found.rest and found.rest.count("{}") == 1:
                self.rests.append(found.rest)

    def negated(self, *, never: bool = False) -> list[str]:
        """ "were not directed by {}", "do not border {}", "did {} not direct" (asked at once); "never ordered {}"."""
        made = [text for rest in self.rests for text in [_negated(rest)] if text]
        for rest in self.rests if never else ():
            found = _RELATIVE.fullmatch(rest)
            if found is not None and found[1] not in _AUX and _is_past(found[1]):
                made += [f"never {found[1]} {found[2]}", f"have never {found[1]} {found[2]}"]
        return list(dict.fromkeys(made))

    def with_word(self, word: str) -> list[str]:
        """ "border only {}", "speak all of {}": clauses whose name has a word before it."""
        made = []
        for rest in self.rests:
            found = _RELATIVE.fullmatch(rest)
            if found is None or found[1] in _AUX or _is_past(found[1]) or is_plural(found[1]):
                continue
            if found[2].startswith("{}"):
                made.append(f"{found[1]} {word} {found[2]}")
            elif re.fullmatch(rf"{_TO} \{{\}}", found[2]):
                to = found[2].removesuffix(" {}")
                made.append(f"{found[1]} only {to} {{}}" if word == "only" else f"{found[1]} {to} {word} {{}}")
        return list(dict.fromkeys(made))


def _is_past(verb: str) -> bool:
    return verb in _PAST or is_participle(verb)


def _negated(rest: str) -> str:
    """
    >>> [_negated(rest) for rest in ("directed by {}", "that border {}", "in {}", "that {} made", "who starred in {}")]
    ['were not directed by {}', 'do not border {}', 'are not in {}', 'did {} not make', 'did not star in {}']
    >>> [_negated(rest) for rest in ("whose capital is {}", "with {} as capital", "that are in {}", "of {}")]
    ['do not have {} as their capital', 'do not have {} as capital', 'are not in {}', '']
    """
    if (found := _WHOSE.fullmatch(rest)) is not None:
        return f"do not have {{}} as their {found[1]}"
    if (found := _WITH_AS.fullmatch(rest)) is not None:
        return f"do not have {{}} as {found[1]}"
    if (found := _BY_TOPIC.fullmatch(rest)) is not None:
        return f"did {{}} not {base(found[1])}{found[2] or ''}" if _is_past(found[1]) else ""
    if (found := _RELATIVE.fullmatch(rest)) is not None:
        verb, more = found.groups()
        if verb in ("are", "were", "can"):
            return f"{verb} not {more}"
        if verb == "have":
            return f"do not have {more}"
        if _is_past(verb):
            return f"did not {base(verb)} {more}"
        return "" if is_plural(verb) or verb in ("the", "a", "{}") or verb.endswith("s") else f"do not {verb} {more}"
    first = rest.split(" ")[0]
    if is_participle(first):
        if re.match(rf"[a-z]+ {_TO} ", rest) is None:
            return ""
        return f"{'are' if first in _STATES else 'were'} not {rest}"
    return f"are not {rest}" if re.fullmatch(r"(?:in|on|at|from|under) (?:the [a-z ]+ )?\{\}", rest) else ""


def negation_question(speaker: Speaker) -> str | None:
    plan = speaker.plan
    call = plan.steps[-1]
    count = call.tool == "count"
    if count:
        call = plan.steps[-2]
    group = group_words(speaker, speaker.sources(call)[0])
    if group is None:
        return None
    if call.tool == "minus":
        return _not_related(speaker, call, group, count)
    if call.tool == "filter":
        return _without(speaker, call, group, count)
    others = plan.made_by(speaker.sources(call)[1])
    if others is None or others.tool == "union":
        return _not_to(speaker, call, group, count)
    return _none(speaker, call, group, count)


def _asked(speaker: Speaker, group: GroupWords, clause: str, count: bool, *, listed: str = "") -> Weighted:
    """A clause with its verb asked of a group; `listed` is how it follows the group in a list."""
    which = f"Which {group.many}" if group.many else f"Which of {group.the}"
    if count:
        many = f"How many {group.many}" if group.many else f"How many of {group.the}"
        return [(1, f"{many} {clause}?")]
    options: Weighted = [(2, f"{which} {clause}?")]
    if listed and group.many:
        options += [(1.5 * speaker.level, f"{group.many} {listed}"), (1, f"List the {group.many} {listed}.")]
    return options


def _that(group: GroupWords) -> str:
    return "who" if is_person(group.kind) else "that"


def _not_related(speaker: Speaker, call: Call, group: GroupWords, count: bool) -> str | None:
    made = speaker.plan.made_by(speaker.sources(call)[1])
    if made is None:
        return None
    topic, others = speaker.phrase(speaker.sources(made)[0]), speaker.phrase(speaker.sources(call)[1])
    if topic is None or others is None:
        return None
    options: Weighted = []
    for clause in _Clauses(speaker, way_of(made)).negated():
        text = clause.replace("{}", topic.text)
        listed = "" if text.startswith("did ") and topic.text in text.split(" ")[1] else f"{_that(group)} {text}"
        options += _asked(speaker, group, text, count, listed=listed)
    if not options:
        many = as_many(others)
        if not many.many or speaker.chance.random() < 0.7:  # clear, but few people say it so
            return None
        options += _asked(speaker, group, f"are not among {many.text}", count)
        if group.many and not count:
            options.append((1, f"All {group.many} except {many.text}?"))
    return speaker.choose(options)


def _not_to(speaker: Speaker, call: Call, group: GroupWords, count: bool) -> str | None:
    """Those that a relation does not lead to a name, or to either of two: "airlines that don't fly from X or Y"."""
    hop = speaker.plan.expressions[str(call.args[1])].path[0][0]
    made = speaker.plan.made_by(speaker.sources(call)[1])
    numbers = [speaker.sources(call)[1]] if made is None else speaker.sources(made)
    names = [phrase.text for number in numbers if (phrase := speaker.phrase(number)) is not None]
    either = " or ".join(names)
    that, options = _that(group), list[tuple[float, str]]()
    for clause in _Clauses(speaker, DirectedRelation(hop.relation, not hop.out)).negated(never=True):
        text = _spoken(speaker, clause).replace("{}", either)
        asked = text.startswith("did ") and names[0] in text.split(" ")[1]
        options += _asked(speaker, group, text, count, listed="" if asked else f"{that} {text}")
    templates = speaker.templates(DirectedRelation(hop.relation, hop.out))
    bare = [singular(noun) for noun in templates.at(speaker.level).bare]
    for noun in bare[:2]:
        clauses = (
            (f"do not have {either} as {noun}", f"without {either} as {noun}"),
            (f"have a {noun} other than {either}", f"whose {noun} is not {either}"),
            (f"do not count {either} among their {plural(noun)}", f"{that} do not have {either} as {a(noun)}"),
        )
        for clause, listed in clauses[:1] if len(names) > 1 else clauses[::2]:
            some = _asked(speaker, group, _spoken(speaker, clause), count, listed=_spoken(speaker, listed))
            options += [(0.5 * weight, text) for weight, text in some]
    return speaker.choose(options)


_SHORT = (("do not ", "don't ", "dont "), ("did not ", "didn't ", "didnt "), ("are not ", "aren't ", "arent "),
          ("were not ", "weren't ", "werent "))  # fmt: skip


def _spoken(speaker: Speaker, clause: str) -> str:
    """A clause with its "not" as people say or type it."""
    drawn = speaker.chance.random()
    for full, short, typed in _SHORT if speaker.level else ():
        if full in clause and drawn < 0.6:
            return clause.replace(full, short if drawn < 0.4 else typed, 1)
    return clause


_NOBODY = re.compile(rf"(what|who|which [a-z]+) ([a-z]+(?: [a-z]+)?(?: {_TO})?) \{{\}}\??", re.IGNORECASE)


def _nothing(speaker: Speaker, way: DirectedRelation) -> list[str]:
    """ "nothing depends on" and "nobody manages": from "What depends on {}?" and "Who manages {}?"."""
    made = []
    for question in speaker.templates(way).at(speaker.level).questions:
        found = _NOBODY.fullmatch(question)
        if found is None or found[2].split(" ")[0] in ("is", "are", "was", "were", "has", "have", "do", "does", "did"):
            continue
        who = found[1].lower()
        if who in ("what", "who"):
            made.append(f"{'nothing' if who == 'what' else 'nobody'} {found[2]}")
        elif not is_plural(who.split(" ")[1]):
            made.append(f"no {who.split(' ')[1]} {found[2]}")
    return made


def _without(speaker: Speaker, call: Call, group: GroupWords, count: bool) -> str | None:
    hop = speaker.plan.expressions[str(call.args[1])].path[0][0]
    way = DirectedRelation(hop.relation, hop.out)
    words = counted(speaker, way)
    nothing = _nothing(speaker, way)
    if nothing and (words is None or speaker.chance.random() < 0.5):
        clause = speaker.chance.choice(nothing)
        many = group.many or f"of {group.the}"
        if count:
            return speaker.choose([(1, f"How many {many} are there that {clause}?"), (1, f"number of {many} {clause}")])
        return speaker.choose(
            [
                (1, f"Which {many} are there that {clause}?"),
                (1, f"List the {many} that {clause}.") if group.many else (0, ""),
                (1 + speaker.level, f"{many} that {clause}") if group.many else (0, ""),
                (1, f"Is there anything among {group.the} that {clause}?"),
            ]
        )
    if words is None:
        return None
    that = _that(group)
    if words.verb == "have" and speaker.chance.random() < 0.6:
        things, one = words.things, singular(words.things)
        options = []
        for clause, listed in (
            (f"have no {things} at all", f"without any {things}"),
            (f"do not have any {things}", f"{that} do not have any {things}"),
            (f"have zero {things}", f"with zero {things}"),
            (f"do not have a single {one}", f"without a single {one}"),
            (f"are without {a(one)}", f"without {a(one)}"),
            (f"lack {a(one)}", f"with no {one}"),
            (f"have never had {a(one)}", f"{that} never had {a(one)}"),
        ):
            options += _asked(speaker, group, _spoken(speaker, clause), count, listed=_spoken(speaker, listed))
        return speaker.choose(options)
    if words.helps == "did" and speaker.chance.random() < 0.5:
        clause = f"never {words.do} {speaker.chance.choice(('any', 'a single'))} "
        clause += words.things if clause.endswith("any ") else singular(words.things)
        return speaker.choose(_asked(speaker, group, clause, count, listed=f"{that} {clause}"))
    if words.verb == "have":
        options = _asked(speaker, group, f"have no {words.things}", count, listed=f"without {words.things}")
        options += _asked(
            speaker, group, f"have no {singular(words.things)}", count, listed=f"{_that(group)} have no {words.things}"
        )
        return speaker.choose(options)
    helps = "do" if words.helps == "does" else "did"
    clause = f"{helps} not {words.verb} any {words.things}"
    return speaker.choose(_asked(speaker, group, clause, count, listed=f"{_that(group)} {clause}"))


def _none(speaker: Speaker, call: Call, group: GroupWords, count: bool) -> str | None:
    hop = speaker.plan.expressions[str(call.args[1])].path[0][0]
    words, others = (
        counted(speaker, DirectedRelation(hop.relation, hop.out)),
        group_words(speaker, speaker.sources(call)[1]),
    )
    single = speaker.phrase(speaker.sources(call)[1])
    if words is None or single is None:
        return None
    if others is None:
        return None
    if words.verb == "have":
        clause = f"have no {singular(words.things)} among {others.the}"
    else:
        clause = f"{'do' if words.helps == 'does' else 'did'} not {words.verb} any of {others.the}"
    return speaker.choose(_asked(speaker, group, clause, count, listed=f"{_that(group)} {clause}"))


# Only, every


def quantifier_question(speaker: Speaker) -> str | None:
    call = speaker.plan.steps[-1]
    source, other = speaker.sources(call)
    hop = speaker.plan.expressions[str(call.args[1])].path[0][0]
    way = DirectedRelation(hop.relation, hop.out)
    group = group_words(speaker, source)
    if group is None:
        return None
    back = _Clauses(speaker, DirectedRelation(hop.relation, not hop.out))
    bare = [noun for noun in speaker.templates(way).at(speaker.level).bare if is_plural(plural(noun))]
    options: Weighted = []
    if call.tool == "only":
        if speaker.plan.made_by(other) is not None:
            return _only_true(speaker, group, way, other)
        topic = speaker.phrase(other)
        if topic is None:
            return None
        clauses = back.with_word("only")
        if speaker.chance.random() < 0.4:
            clauses = back.with_word(speaker.chance.choice(("nothing but", "just", "exclusively", "solely"))) or clauses
        for clause in clauses:
            text = clause.replace("{}", topic.text)
            options += [
                (2 * weight, asked)
                for weight, asked in _asked(speaker, group, text, False, listed=f"{_that(group)} {text}")
            ]
        for noun in bare[:2]:
            one = singular(noun)
            options += _asked(
                speaker,
                group,
                f"have {topic.text} as their only {one}",
                False,
                listed=f"with {topic.text} as their only {one}",
            )
            options += _asked(
                speaker,
                group,
                f"have no {one} other than {topic.text}",
                False,
                listed=f"whose only {one} is {topic.text}",
            )
        return speaker.choose(options)
    inside = group_words(speaker, other)
    if inside is None:
        return None
    for clause in back.with_word("all of"):
        text = clause.replace("{}", inside.the)
        options += _asked(speaker, group, text, False, listed=f"{_that(group)} {text}")
    for noun in bare[:2]:
        text = f"have all of {inside.the} as {plural(noun)}"
        options += _asked(speaker, group, text, False, listed=f"{_that(group)} {text}")
    return speaker.choose(options)


def _only_true(speaker: Speaker, group: GroupWords, way: DirectedRelation, other: int) -> str | None:
    """ "Which series have only radioactive elements?": all that it leads to is so."""
    made, words = speaker.plan.made_by(other), counted(speaker, way)
    assert made is not None
    true = " ".join(word for word in read_name(str(made.args[1])).words if word not in ("is", "has", "was"))
    if words is None or not true:
        return None
    that, options = _that(group), list[tuple[float, str]]()
    for clause, listed in (
        (f"{words.do} only {true} {words.things}", f"{that} {words.do} only {true} {words.things}"),
        (f"{words.do} nothing but {true} {words.things}", f"with only {true} {words.things}"),
        (f"have {words.things} that are all {true}", f"whose {words.things} are all {true}"),
        (f"{words.do} {words.things} that are {true} without exception", f"with {true} {words.things} only"),
        (f"{words.do} exclusively {true} {words.things}", f"where all {words.things} are {true}"),
    ):
        kept = listed if words.verb == "have" or "with" not in listed else ""
        options += _asked(speaker, group, clause, False, listed=kept)
    return speaker.choose(options)


def zero_question(speaker: Speaker) -> str | None:
    return measures.count_question(speaker, speaker.plan.steps[-1])


# What the graph does not say


# What any thing might be asked, with the words that would show that a graph knows it.
LACKED: dict[str, tuple[str, ...]] = {
    "What colour is {}?": ("colo",),
    "what does {} smell like": ("smell", "odor", "odour"),
    "How much does {} weigh?": ("weigh", "mass"),
    "Who is the owner of {}?": ("own",),
    "phone number of {}": ("phone", "tel", "contact"),
    "What is the email address of {}?": ("mail", "contact"),
    "who painted {}": ("paint", "artist"),
    "What is the nickname of {}?": ("nick", "alias", "known_as", "known as"),
    "how much does {} cost": ("price", "cost", "amount", "money"),
    "When was {} sold?": ("sold", "sale", "sell"),
    "who insured {}": ("insur",),
    "What is the shoe size of {}?": ("shoe",),
    "Which bank finances {}?": ("bank", "financ", "fund", "loan"),
    "who is the lawyer of {}": ("law", "attorney"),
    "What is the warranty period of {}?": ("warrant", "guarantee"),
    "Which songs are about {}?": ("song", "music", "track"),
    "who designed the logo of {}": ("logo", "design"),
    "How many followers does {} have?": ("follow",),
    "what is the motto of {}": ("motto", "slogan"),
    "What is the star sign of {}?": ("zodiac", "sign"),
    "what hotel is near {}": ("hotel", "near"),
    "Who wrote the biography of {}?": ("biograph", "writ", "author"),
    "What is the tax number of {}?": ("tax", "vat"),
    "who voted for {}": ("vote", "elect"),
}


def unanswerable_question(speaker: Speaker) -> str | None:
    known = speaker.phrase(1)
    assert known is not None
    if speaker.plan.asked is None:
        return speaker.plan.meant.replace("{}", known.text)
    questions, _, bare = speaker.templates(speaker.plan.asked).at(speaker.level)
    options: Weighted = [(1, fill(text, known)) for text in questions if fits(text, known)]
    for noun in bare[:3]:
        options += [(0.5, f"What is the {noun} of {known.text}?"), (0.5 * speaker.level, f"{known.text} {noun}")]
    return speaker.choose(options)


QUESTIONS: dict[str, Callable[[Speaker], str | None]] = {
    VERDICT: verdict_question,
    NEGATION: negation_question,
    QUANTIFIER: quantifier_question,
    ZERO: zero_question,
    UNANSWERABLE: unanswerable_question,
}
