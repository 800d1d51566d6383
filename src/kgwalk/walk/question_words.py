"""The words of a question: what their writing tells, and other forms of them.

    Text("does the Heron have a bell?").capital             [False, False, True, False, False, False]
    singular_name("disc brakes"), plural_name("gas")        "disc brake", "gases"
    other_names("italian"), other_names("uk")               ["italy"], ["united kingdom", "great britain", ...]

`Text` is the question: where each word begins and ends, quotation marks, capitals, underscores, scripts without spaces.
A question says "French suppliers" where the graph has France, and "disc brakes" where it has Disc Brake. All forms are
in small letters and without accents, as `kg.names.normalise` writes names, and but for a few plurals of English alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple

from kgwalk.kg.names import normalise, singular

# The question


LONGEST = 12.0  # words looked up together; of metaqa's 43,000 names 4 have more
CHARACTER = 0.3  # a character of a script without spaces, in words: names of up to 40 characters are found
MOST_WORDS = 600  # of a longer text only the beginning is read: bounds the time

# Words that join others or ask; a name made of these alone needs more evidence than being equal.
_FUNCTION = """
    a an the this that these those it its he him his she her hers they them their theirs we us our you your i me my
    myself yourself himself herself itself themselves and or but nor not no so if then than as of in on at by for with
    from to into onto over under about after before between during through without within against among upon up down
    out off per via since until while because is are was were be been being am do does did done doing has have had
    having can could will would shall should may might must s t d ll re ve m who whom whose what which when where why
    how whether there here all any both each every some many much more most other another such same own only also too
    very just now today currently ever still yet again once one ones first last next get got go goes went come came
    make made take took give gave given use used using say said name list tell show find know known called call mean
    want like kind type sort please pls plz nr vs btw avg incl excl etc ppl thx hi hello hey im ive dont w
"""
FUNCTION_WORDS = frozenset(_FUNCTION.split())
# The same of other languages, without accents. They count in a question that has several of one language, so that Los
# Angeles stays a name, and "die" a verb.
_FOREIGN = {
    "de": """
    der die das den dem des ein eine einen einem einer eines
    und oder aber nicht kein keine ist sind war waren wird werden
    wurde wurden hat haben hatte wer wen wem wessen was welche welcher welches welchen welchem wo wohin woher wann warum
    wie viel viele wieviele es er sie ihr ihre sein seine wir uns
    unser unsere man ich mir in im am an auf aus bei mit nach
    von vom zu zum zur fur uber unter vor seit bis gegen ohne um als auch nur noch schon mehr meisten alle jede jeder
    gibt gibts gehort liegt heisst sich dass denen deren dort da
    """,
    "fr": """
    le la les l un une des du de d et ou mais pas ne ni est sont etait ete a ont avait qui que quoi quel quelle quels
    quelles ou quand pourquoi comment combien il elle ils elles on
    nous vous leur leurs son sa ses notre nos ce cette ces
    dans sur sous avec sans pour par chez vers depuis plus moins tous toutes tout y en au aux se qu t
    """,
    "es": """
    el la los las un una unos unas de del al y o pero no ni es son esta estan era fue han ha hay que quien quienes cual
    cuales cuando cuanto cuantos cuantas donde como por para con
    sin sobre en entre desde hasta su sus nuestro nuestra lo
    se le les mas menos todos todas cada
    """,
}
_FOREIGN_WORDS = {language: frozenset(words.split()) for language, words in _FOREIGN.items()}
# Words of these alone that tell a question's language: not those that are English words or parts of names.
_TELLING = {
    language: frozenset(words.split())
    for language, words in {
        "de": "welche welcher welches welchen welchem wer wie wo wann ist sind und der viele gibt nicht hat",
        "fr": "quel quelle quels quelles est sont qui combien dans les quand pourquoi comment avec",
        "es": "que quien cual cuales cuantos cuantas donde cuando es son los las esta hay como",
    }.items()
}


def language_of(words: Sequence[str]) -> str:
    """The language of a question, by its small words: "de", "fr" or "es", else "en".

    >>> language_of("wie viele professoren gibt es".split()), language_of("what is in los angeles".split())
    ('de', 'en')
    """
    english = sum(word in FUNCTION_WORDS for word in words)
    for language, telling in _TELLING.items():
        own = sum(word in _FOREIGN_WORDS[language] for word in words)
        if own > max(1, english) and not telling.isdisjoint(words):
            return language
    return "en"


_QUOTED = re.compile(
    r'"([^"]+)"|“([^”]+)”|„([^“”]+)[“”]|«([^»]+)»|「([^」]+)」|『([^』]+)』|《([^》]+)》|(?<!\w)[\'‘]([^\'‘’]+)[\'’](?!\w)'
)
# Thai and Lao, Burmese, Khmer, kana, Han, Hangul (which has spaces, but joins particles to names).
_UNSPACED = (
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3005, 0x30FF), (0x3400, 0x9FFF), (0xAC00, 0xD7AF),
    (0xF900, 0xFAFF), (0x20000, 0x3FFFF),
)  # fmt: skip


def is_long(question: str) -> bool:
    """Whether it has words that are not read."""
    return next(islice(_words(question), MOST_WORDS, None), None) is not None


class _Word(NamedTuple):
    start: int
    end: int
    plain: str  # normalised
    size: float  # in words: 1, or CHARACTER


class Text:
    """The question, its words, and what their writing tells."""

    def __init__(self, question: str) -> None:
        self.question = question
        self.words = list(islice(_words(question), MOST_WORDS))
        words = self.words
        self.capital = [question[word.start].isupper() and word.plain != "i" for word in words]
        self.digits = [question[word.start].isdecimal() for word in words]
        # Capitals tell names apart only where other words have none. A sentence's first word tells nothing.
        small = [question[word.start].islower() for word in words]
        # Nor does one that is all in capitals, JFK or SO-1003: people write it so whether or not they write Kennedy.
        self.upper = [
            any(small) and word.end - word.start > 1 and question[word.start : word.end].isupper() for word in words
        ]
        titled = [capital and not upper for capital, upper in zip(self.capital, self.upper, strict=True)]
        self.cased = any(titled[1:]) and any(small[1:])
        between = [question[one.end : other.start] for one, other in pairwise(words)]
        joined = [_joins(question, one, other) for one, other in pairwise(words)]
        hyphen = [glue in ("-", "‐", "‑", "–") for glue in between]
        count = len(words)
        self.joined_before, self.joined_after = [False, *joined][:count], [*joined, False][:count]
        self.hyphen_before, self.hyphen_after = [False, *hyphen][:count], [*hyphen, False][:count]
        self.language = language_of([word.plain for word in words])
        asking = FUNCTION_WORDS | _FOREIGN_WORDS.get(self.language, frozenset())
        self.function = [word.plain in asking or self._says_now(at) for at, word in enumerate(words)]
        self.quoted = set(self._quoted())

    def _says_now(self, at: int) -> bool:
        """ "right now", and "right?" at the end, are no name."""
        if self.words[at].plain != "right":
            return False
        return self.words[at + 1].plain in ("now", "away") if at + 1 < len(self.words) else at > 0

    def _quoted(self) -> Iterator[tuple[int, int]]:
        """The first and last word of each quotation."""
        end_of_words = self.words[-1].end + 1 if self.words else 0
        for found in _QUOTED.finditer(self.question, 0, end_of_words):
            start, end = found.span(found.lastindex or 0)
            inside = [at for at, word in enumerate(self.words) if start <= word.start and word.end <= end]
            if inside:
                yield inside[0], inside[-1]

    def stretches(self) -> Iterator[tuple[int, int]]:
        """First and last word of all that may be a name: LONGEST at most, where words joined by _ count as one.

        Joined words are not parted; a quotation may have any length.
        """
        for first, word in enumerate(self.words):
            if self.joined_before[first]:
                continue
            size = 0.0
            for last in range(first, len(self.words)):
                size += 0 if self.joined_before[last] else self.words[last].size
                if size > LONGEST + word.size / 2:  # half a word for rounding
                    break
                if not self.joined_after[last]:
                    yield first, last
        yield from (ends for ends in sorted(self.quoted) if self.size(*ends) > LONGEST)

    def capital_beside(self, first: int, last: int) -> bool:
        """Whether a capitalised word stands right before or after."""
        before = first > 0 and self.capital[first - 1] and self.question[self.words[first].start - 1] == " "
        return before or (last + 1 < len(self.words) and self.capital[last + 1])

    def span(self, first: int, last: int) -> tuple[int, int]:
        return self.words[first].start, self.words[last].end

    def size(self, first: int, last: int) -> float:
        return sum(word.size for word in self.words[first : last + 1])


def _joins(question: str, one: _Word, other: _Word) -> bool:
    """Whether two neighbouring words are one token of a name like anna_of_holstein-gottorp or 1._FC_Union."""
    glue = question[one.end : other.start]
    if "_" in glue:
        return not any(character.isspace() for character in glue)
    if glue not in ("-", "'", "’") or (glue != "-" and other.plain == "s"):
        return False
    return question[one.start - 1 : one.start] == "_" or question[other.end : other.end + 1] == "_"


class _Kinds(dict[str, str]):
    """What a character is to a word: "letter", "alone" (a word by itself), "mark" (goes with the last) or ""."""

    def __missing__(self, character: str) -> str:
        category = unicodedata.category(character)
        code = ord(character)
        if category[0] == "M" or category == "Cf":
            kind = "mark"
        elif category[0] not in "LN":
            kind = ""
        else:
            kind = "alone" if any(low <= code <= high for low, high in _UNSPACED) else "letter"
        self[character] = kind
        return kind


KINDS = _Kinds()


def _words(question: str) -> Iterator[_Word]:
    """Runs of letters and digits; single characters where a script has no spaces.

    >>> [word.plain for word in _words("Hanks's film, 東京?")]
    ['hanks', 's', 'film', '東', '京']
    """
    start, last = 0, ""
    for at, character in enumerate(question + " "):
        kind = KINDS[character]
        if kind == "mark" and last:
            continue
        if last and (kind != last or kind == "alone"):
            size = CHARACTER if last == "alone" else 1.0
            yield _Word(start, at, normalise(question[start:at]), size)
        if kind != last or kind == "alone":
            start = at
        last = "" if kind == "mark" else kind


# Forms of words

# Words for kinds of things, which stand beside names in questions: as weak as the words of a relation.
_CLASSES = """
    person people man men woman women child children kid family father mother parent son daughter brother sister wife
    husband film movie picture show series episode season book novel story song album music band artist actor actress
    director writer screenwriter author character role place city town country state county nation continent world
    team club player coach company organization university college school language year date day time word number
    topic subject theme genre title part thing
"""


def stem(plain: str) -> str:
    """A word without its ending, so that "directed", "director" and "directs" are one.

    >>> [stem(word) for word in ("directed", "directors", "starred", "star", "languages", "countries", "sing")]
    ['direct', 'direct', 'star', 'star', 'languag', 'country', 'sing']
    """
    if len(plain) > 5 and plain.endswith("ies"):
        return plain[:-3] + "y"
    stem = re.sub(r"(?:ing|ed|ors?|ers?|es|s|e)$", "", plain)
    if len(stem) < 3:
        return plain
    return stem[:-1] if len(stem) > 3 and stem[-1] == stem[-2] else stem


CLASS_STEMS = frozenset(map(stem, _CLASSES.split()))

_PLURALS = {"person": "people", "man": "men", "woman": "women", "child": "children", "series": "series"}
_PLURALS |= {"species": "species", "wife": "wives", "knife": "knives", "shelf": "shelves", "foot": "feet"}


def singular_name(name: str) -> str:
    """A name whose last word is in the singular.

    >>> [singular_name(name) for name in ("countries", "sales people", "noble gasses", "disc brakes", "status")]
    ['country', 'sales person', 'noble gas', 'disc brake', 'status']
    """
    before, _, last = name.rpartition(" ")
    one = last[:-1] if _CODES.fullmatch(last) else singular(last)
    return f"{before} {one}".strip()


_CODES = re.compile(r"[a-z]+\d+s")  # several of a code: P1s


_NUMBERS = "one two three four five six seven eight nine ten eleven twelve"
_FIGURES = {word: str(number) for number, word in enumerate(_NUMBERS.split(), 1)}


def numbered_name(name: str) -> str:
    """A name with its numbers in figures where they are words, or in words.

    >>> numbered_name("seven wonders"), numbered_name("12 monkeys"), numbered_name("heron")
    ('7 wonders', 'twelve monkeys', 'heron')
    """
    figures = " ".join(_FIGURES.get(word, word) for word in name.split())
    if figures != name:
        return figures
    spelt = {figure: word for word, figure in _FIGURES.items()}
    return " ".join(spelt.get(word, word) for word in name.split())


_SPELLINGS: tuple[tuple[str, str], ...] = (
    (r"our\b", "or"),
    (r"ence\b", "ense"),
    (r"tre\b", "ter"),
    (r"os$", "oes"),
    (r"is(?=(?:e|ed|ing|ation)\b)", "iz"),
)
# as addresses and departments are shortened
_SPELLINGS += (
    (r"(?<= )st$", "street"),
    (r"(?<= )rd$", "road"),
    (r"(?<= )ave?$", "avenue"),
    (r"(?<= )dept$", "department"),
)
_SPELLINGS += ((r"or\b", "our"), (r"ense\b", "ence"), (r"ter\b", "tre"), (r"iz(?=(?:e|ed|ing|ation)\b)", "is"))
_SPELT_TWO_WAYS = re.compile("|".join(old for old, _ in _SPELLINGS))  # few names are, and it is asked for every stretch


def spellings(name: str) -> list[str]:
    """A name as it is spelt on the other side of the Atlantic.

    >>> spellings("ministry of defense"), spellings("labour front"), spellings("heron")
    (['ministry of defence'], ['labor front'], [])
    """
    if _SPELT_TWO_WAYS.search(name) is None:
        return []
    return list(dict.fromkeys(other for old, new in _SPELLINGS if (other := re.sub(old, new, name)) != name))


def foreign_singulars(name: str, language: str) -> list[str]:
    """A name whose last word may be in the singular, in another language than English: without each of its endings.

    >>> foreign_singulars("professoren", "de"), foreign_singulars("villes", "fr"), foreign_singulars("cities", "en")
    (['professor', 'professore'], ['ville'], [])
    """
    endings = {"de": ("innen", "en", "er", "n", "e", "s"), "fr": ("s", "x"), "es": ("es", "s")}.get(language, ())
    return [name[: -len(end)] for end in endings if name.endswith(end) and len(name) - len(end) > 3]


def plural_name(name: str) -> str:
    """A name whose last word is in the plural.

    >>> [plural_name(name) for name in ("country", "sales person", "bus", "noble gas", "day")]
    ['countries', 'sales people', 'buses', 'noble gases', 'days']
    """
    before, _, last = name.rpartition(" ")
    if last in _PLURALS:
        many = _PLURALS[last]
    elif re.search(r"[^aeiou]y$", last):
        many = last[:-1] + "ies"
    else:
        many = last + ("es" if re.search(r"(?:s|x|z|ch|sh)$", last) else "s")
    return f"{before} {many}".strip()


# Countries and continents: what belongs to them is called, and what else they are called themselves

_DEMONYMS = """
    afghanistan: afghan | africa: african | albania: albanian | algeria: algerian | americas: american
    angola: angolan | antarctica: antarctic | argentina: argentine, argentinian, argentinean | armenia: armenian
    asia: asian | australia: australian, aussie | austria: austrian | azerbaijan: azerbaijani, azeri
    bahamas: bahamian | bahrain: bahraini | bangladesh: bangladeshi | barbados: barbadian | belarus: belarusian
    belgium: belgian | belize: belizean | benin: beninese | bhutan: bhutanese | bolivia: bolivian
    bosnia and herzegovina: bosnian | botswana: botswanan | brazil: brazilian | brunei: bruneian
    bulgaria: bulgarian | burkina faso: burkinabe | burundi: burundian | cambodia: cambodian | cameroon: cameroonian
    canada: canadian | cape verde: cape verdean | central african republic: central african | chad: chadian
    chile: chilean | china: chinese | colombia: colombian | comoros: comorian | congo: congolese
    costa rica: costa rican | croatia: croatian, croat | cuba: cuban | cyprus: cypriot | czech republic: czech
    denmark: danish, dane | djibouti: djiboutian | dominica: dominican | dominican republic: dominican
    ecuador: ecuadorian | egypt: egyptian | el salvador: salvadoran, salvadorean | england: english
    equatorial guinea: equatoguinean | eritrea: eritrean | estonia: estonian | eswatini: swazi | ethiopia: ethiopian
    europe: european | fiji: fijian | finland: finnish, finn | france: french | gabon: gabonese | gambia: gambian
    georgia: georgian | germany: german | ghana: ghanaian | greece: greek | greenland: greenlandic
    grenada: grenadian | guatemala: guatemalan | guinea: guinean | guyana: guyanese | haiti: haitian
    honduras: honduran | hungary: hungarian | iceland: icelandic, icelander | india: indian | indonesia: indonesian
    iran: iranian, persian | iraq: iraqi | ireland: irish | israel: israeli | italy: italian | ivory coast: ivorian
    jamaica: jamaican | japan: japanese | jordan: jordanian | kazakhstan: kazakh, kazakhstani | kenya: kenyan
    kosovo: kosovar | kuwait: kuwaiti | kyrgyzstan: kyrgyz | laos: lao, laotian | latvia: latvian
    lebanon: lebanese | liberia: liberian | libya: libyan | liechtenstein: liechtensteiner | lithuania: lithuanian
    luxembourg: luxembourgish, luxembourger | madagascar: malagasy, madagascan | malawi: malawian
    malaysia: malaysian | maldives: maldivian | mali: malian | malta: maltese | mauritania: mauritanian
    mauritius: mauritian | mexico: mexican | micronesia: micronesian | moldova: moldovan | monaco: monegasque
    mongolia: mongolian | montenegro: montenegrin | morocco: moroccan | mozambique: mozambican | myanmar: burmese
    namibia: namibian | nauru: nauruan | nepal: nepalese, nepali | netherlands: dutch
    new zealand: new zealander, kiwi | nicaragua: nicaraguan | niger: nigerien | nigeria: nigerian
    north america: north american | north korea: north korean | north macedonia: macedonian | norway: norwegian
    oceania: oceanian | oman: omani | pakistan: pakistani | palestine: palestinian | panama: panamanian
    papua new guinea: papua new guinean, papuan | paraguay: paraguayan | peru: peruvian
    philippines: filipino, philippine | poland: polish, pole | portugal: portuguese | puerto rico: puerto rican
    qatar: qatari | romania: romanian | russia: russian | rwanda: rwandan | samoa: samoan
    saudi arabia: saudi, saudi arabian | scotland: scottish, scots, scot | senegal: senegalese
    serbia: serbian, serb | seychelles: seychellois | sierra leone: sierra leonean | singapore: singaporean
    slovakia: slovak, slovakian | slovenia: slovenian, slovene | somalia: somali | south africa: south african
    south america: south american | south korea: south korean, korean | south sudan: south sudanese
    spain: spanish, spaniard | sri lanka: sri lankan | sudan: sudanese | suriname: surinamese
    sweden: swedish, swede | switzerland: swiss | syria: syrian | taiwan: taiwanese | tajikistan: tajik
    tanzania: tanzanian | thailand: thai | tibet: tibetan | timor leste: timorese | togo: togolese | tonga: tongan
    trinidad and tobago: trinidadian | tunisia: tunisian | turkey: turkish, turk | turkmenistan: turkmen
    uganda: ugandan | ukraine: ukrainian | united arab emirates: emirati | united kingdom: british, briton
    united states: american | uruguay: uruguayan | uzbekistan: uzbek | venezuela: venezuelan | vietnam: vietnamese
    wales: welsh | yemen: yemeni, yemenite | zambia: zambian | zimbabwe: zimbabwean | scandinavia: scandinavian
    california: californian | texas: texan | bavaria: bavarian | catalonia: catalan | flanders: flemish
    latin america: latin american | middle east: middle eastern | soviet union: soviet | paris: parisian
    london: londoner | rome: roman | vienna: viennese | venice: venetian | new york: new yorker
"""
# Names of one thing, the first the most usual. "us" and "it" in small letters are words.
_SAME = """
    united states: usa, us, u s, u s a, united states of america, america, the states
    united kingdom: uk, u k, great britain, britain, united kingdom of great britain and northern ireland
    united arab emirates: uae, u a e, emirates
    european union: eu, e u
    united nations: un, u n
    czech republic: czechia
    netherlands: holland, the netherlands
    ivory coast: cote d ivoire
    timor leste: east timor
    myanmar: burma, myanmar burma
    eswatini: swaziland
    cape verde: cabo verde
    north macedonia: macedonia, republic of macedonia
    turkey: turkiye
    russia: russian federation
    south korea: republic of korea, korea republic of, korea south
    north korea: dprk, democratic people s republic of korea, korea north
    vietnam: viet nam
    bosnia and herzegovina: bosnia, bosnia herzegovina
    vatican city: vatican, holy see
    democratic republic of the congo: dr congo, drc, congo kinshasa, congo dem rep
    republic of the congo: congo brazzaville, congo rep
    trinidad and tobago: trinidad, trinidad tobago
    papua new guinea: png
    new zealand: nz
    china: people s republic of china, prc
    soviet union: ussr, u s s r
    new york city: nyc, new york
    washington d c: washington dc
    saint petersburg: st petersburg
"""


def _rows(table: str) -> Iterator[tuple[str, list[str]]]:
    for row in filter(str.strip, re.split(r"[|\n]", table)):
        name, _, others = row.strip().partition(": ")
        yield name, others.split(", ")


def _tables() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The places of each people, and of each name the others of the same thing."""
    people: dict[str, list[str]] = {}
    for name, forms in _rows(_DEMONYMS):
        for form in forms:
            people.setdefault(form, []).append(name)
    same: dict[str, list[str]] = {}
    for name, others in _rows(_SAME):
        for one in [name, *others]:
            same.setdefault(one, []).extend(other for other in [name, *others] if other != one)
    return people, same


_PEOPLE, _SAME_NAMES = _tables()


def other_names(plain: str) -> list[str]:
    """Other names of what these words name, or whose people they name; none for most words.

    >>> other_names("french"), other_names("swiss"), other_names("east timor"), other_names("lamp")
    (['france'], ['switzerland'], ['timor leste'], [])
    """
    places = _PEOPLE.get(plain) or _PEOPLE.get(singular_name(plain)) or []
    named = [name for place in places for name in [place, *_SAME_NAMES.get(place, [])]]
    return list(dict.fromkeys([*_SAME_NAMES.get(plain, []), *named]))


_COMPASS = re.compile(r"(?:(north|south)[ -]?(?:ern )?)?(east|west|north|south|central|middle)(?:ern)? (.+)")


def compass_names(plain: str) -> list[str]:
    """Other ways to write a part of the world, and that of a people.

    >>> compass_names("south east asia")
    ['south east asia', 'south eastern asia', 'southeast asia', 'southeastern asia']
    >>> compass_names("west african"), compass_names("west side")[:1], compass_names("asia")
    (['west africa', 'western africa'], ['west side'], [])
    """
    found = _COMPASS.fullmatch(plain)
    if found is None:
        return []
    first, last, rest = found.groups()
    ends = [last, f"{last}ern"] if last not in ("central", "middle") else ["central", "middle"]
    sides = [f"{first}{glue}{end}" for glue in (" ", "") for end in ends] if first else ends
    return [f"{side} {place}" for side in sides for place in _PEOPLE.get(rest) or [rest]]


def initials(name: str) -> set[str]:
    """The first letters of a name's words, with and without those of words that join others.

    >>> sorted(initials("bill of materials")), initials("paris")
    (['bm', 'bom'], set())
    """
    words = name.split()
    telling = [word for word in words if word not in ("of", "the", "and", "for", "de")]
    return {"".join(word[0] for word in some) for some in (words, telling) if len(some) > 1}


# The words of kind_words.txt: first rows of words for one kind of thing, as "clients" are customers, then kinds of
# people, the likeliest first, which "who" may be, then rows of words that speak of one property: earning of a salary.


def _table(rows: str) -> list[list[str]]:
    return [row.split() for row in re.split(r"[|\n]", rows) if row.strip()]


_SAME_KIND, _WHO, _SAME_PROPERTY, _BESIDE = (
    (Path(__file__).parent / "kind_words.txt").read_text(encoding="utf-8").split("\n\n")
)
WHO = tuple(_WHO.split())
SAME_PROPERTY = _table(_SAME_PROPERTY)
# Words that stand beside a kind, a row each: those by which a condition is about all of a kind, not only about what a
# topic leads to ("customers who never ..."); that count; after which a kind is asked for; before a noun; before a name,
# which may be one that is not in the graph ("which airlines fly to tokyo"); that speak of people.
OVER_ALL, COUNTED, ASKED_AFTER, BEFORE_A_NOUN, AFTER_WHICH_A_NAME, SAY_PEOPLE = map(
    frozenset, map(str.split, _BESIDE.strip().splitlines())
)
_KIND_WORDS: dict[str, list[str]] = {}
for _row in _table(_SAME_KIND):
    for _word in _row:
        _KIND_WORDS.setdefault(_word, []).extend(other for other in _row if other != _word)


def is_noun(text: Text, first: int, last: int) -> bool:
    """Whether words stand as a noun does, in the plural or after an article: not "routes that stop in Kiel"."""
    before, word = text.words[first - 1].plain if first else "", text.words[last].plain
    return singular(word) != word or before in BEFORE_A_NOUN or re.search("..est$", before) is not None


def same_kind(name: str) -> list[str]:
    """Other names of a kind, by its last word: a kind in the singular.

    >>> same_kind("regular client"), same_kind("movie"), same_kind("lamp")
    (['regular customer', 'regular buyer', 'regular purchaser', 'regular shopper'], ['film', 'picture'], [])
    """
    before, _, last = name.rpartition(" ")
    return [f"{before} {other}".strip() for other in _KIND_WORDS.get(last, ())]


# The words of common_words.txt: first those that people ask with, then other usual ones. A name of which the question
# has only such a word, or which is spelt nearly like one, is not meant: "open" is not The Open. In the singular.
_ASKING, _USUAL = (Path(__file__).parent / "common_words.txt").read_text(encoding="utf-8").split("\n\n")
COMMON_WORDS = frozenset(_ASKING.split())
USUAL_WORDS = COMMON_WORDS | set(_USUAL.split()) | _KIND_WORDS.keys() | {word for row in SAME_PROPERTY for word in row}
_NAMES = {"united"}  # no form of "unit"


def is_common(plain: str) -> bool:
    """Whether a word is one that people ask with, in any of its forms: as a name it needs more evidence.

    >>> [is_common(word) for word in ("orders", "ordered", "cheapest", "shipping", "melting", "united", "honolulu")]
    [True, True, True, True, False, False, False]
    """
    return _is_form(plain, COMMON_WORDS)


def is_usual(plain: str) -> bool:
    """Whether a word is one of usual English, in any of its forms: no misspelt name, and by itself no part of one.

    >>> [is_usual(word) for word in ("orders", "lawyers", "honolulu")]
    [True, True, False]
    """
    return _is_form(plain, USUAL_WORDS)


def _is_form(plain: str, words: frozenset[str]) -> bool:
    if plain in words or singular(plain) in words:
        return True
    if plain in _NAMES:
        return False
    form = re.sub(r"(?:ing|ed|er|est|ly)$", "", plain)
    once = form[:-1] if form[-1:] == form[-2:-1] else form
    return len(once) > 2 and form != plain and any(word in words for word in (form, once, form + "e"))
