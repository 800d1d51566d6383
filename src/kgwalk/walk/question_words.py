"""The words of a question: what their writing tells, and other forms of them.

    Text("does the Heron have a bell?").capital             [False, False, True, False, False, False]
    singular_name("disc brakes"), plural_name("gas")        "disc brake", "gases"
    other_names("italian"), other_names("uk")               ["italy"], ["united kingdom", "great britain", ...]

`Text` is the question: where each word begins and ends, quotation marks, capitals, underscores, scripts without spaces.
A question says "French suppliers" where the graph has France, and "disc brakes" where it has Disc Brake. All forms are
in small letters and without accents, as `kg.names.normalise` writes names, and of English alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
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
    return f"{before} {singular(last)}".strip()


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


# Words for one kind of thing: a question says "clients" where a graph has customers. A word may be in several rows.
_SAME_KIND = """
    employee staff worker personnel colleague coworker workforce | person people individual human
    customer client buyer purchaser shopper
    supplier vendor provider distributor | product item good article merchandise
    part component piece | order purchase | film movie picture | series show | song track tune | book novel title
    author writer | artist performer musician | singer vocalist | painting picture artwork work | band group ensemble
    country nation state land | city town municipality | village settlement | place location site | river stream
    airline carrier | plane aircraft airplane aeroplane | airport airfield | ship vessel boat | car vehicle automobile
    company firm business organisation organization corporation enterprise manufacturer maker producer brand
    department division | team club side squad | player athlete sportsman | match game fixture | coach trainer
    tournament competition championship contest | season year | doctor physician | hospital clinic
    drug medicine medication | disease illness disorder | symptom complaint | student pupil learner
    teacher instructor tutor lecturer professor faculty | course class module subject lecture
    exam test | grade mark score
    school university college institution uni | scientist researcher | paper publication article | journal magazine
    program programme software application app | package library module | file document | language tongue
    currency money | animal creature beast | species taxon | dish recipe meal | drink beverage | restaurant eatery diner
    hotel accommodation lodging | building structure house | museum gallery | exhibit artefact artifact object
    event incident occurrence | invoice bill
    payment transaction | shipment delivery consignment | warehouse depot storehouse
    store shop outlet branch | machine device appliance equipment instrument | sensor probe | tool utensil
    contract agreement | ticket issue case request
    bug defect fault error | user account member | manager boss supervisor
    job position post occupation profession | street road avenue | mountain peak summit | station stop | line route
    stadium arena ground venue | award prize | king monarch ruler | war conflict | battle fight | monster enemy mob foe
    quest mission | district region area province county | loan credit | volunteer helper | donor contributor
    tenant renter | landlord owner | property estate | apartment flat | photo image picture | brewery brewer
    genre style | measurement reading observation | experiment trial | booking reservation | review rating
    cabinet government administration | law act statute | truck lorry
    product device machine appliance instrument gadget
    language dialect | train railway | bus coach | bicycle bike cycle | driver racer | race event | winner champion
    specimen sample | project undertaking | task job assignment | office bureau | plant flower | seller merchant dealer
    lecture talk session | conference congress | chapter section | festival feast | trip journey tour | pet animal
"""
# Kinds of people, the likeliest first: what "who" may be.
_WHO = """
    employee staff person people member worker player athlete scientist researcher author writer user contact artist
    musician composer performer singer actor student pupil teacher professor lecturer instructor doctor nurse patient
    engineer developer technician maintainer curator director driver rider racer pilot crew passenger guest visitor
    volunteer donor tenant owner landlord politician president monarch king ruler saint character hero coach referee
    agent inventor explorer philosopher painter poet borrower reader patron librarian chef cook farmer trainer skater
    candidate applicant customer client buyer supplier seller human individual name
"""
WHO = tuple(_WHO.split())


# Words that speak of one property: "who earns most" is about what has a salary.
_SAME_PROPERTY = """
    earn salary wage pay paid income | cost price expensive cheap pricey amount | weigh weight heavy light mass
    old born birth age young | tall height high low altitude elevation | long length short duration | far distance
    fast speed slow | big size large small area capacity | wide width | deep depth | hot cold warm temperature
    launch release introduce publish out issue | hire join employ start begin since | found establish create open
    live city town home address reside | locate location place | make manufacture produce build | die death dead
    populous population inhabitant people crowded | rich wealthy gdp wealth | many number count quantity stock
    buy purchase order | sell sale revenue | work job title role position | own owner | teach lecture | score goal point
"""
SAME_PROPERTY = [row.split() for row in filter(str.strip, re.split(r"[|\n]", _SAME_PROPERTY))]


def _kind_words() -> dict[str, list[str]]:
    same: dict[str, list[str]] = {}
    for row in filter(str.strip, re.split(r"[|\n]", _SAME_KIND)):
        for word in row.split():
            same.setdefault(word, []).extend(other for other in row.split() if other != word)
    return same


_KIND_WORDS = _kind_words()


def same_kind(name: str) -> list[str]:
    """Other names of a kind, by its last word: a kind in the singular.

    >>> same_kind("regular client"), same_kind("movie"), same_kind("lamp")
    (['regular customer', 'regular buyer', 'regular purchaser', 'regular shopper'], ['film', 'picture'], [])
    """
    before, _, last = name.rpartition(" ")
    return [f"{before} {other}".strip() for other in _KIND_WORDS.get(last, ())]


# Words that people ask with. A name of which the question has only such a word, or which is spelt nearly like one, is
# not meant: "united" may be United Airlines, "open" is not The Open. In the singular, verbs as they are.
_COMMON = """
    able above accept across act active actual add adult age ago agree air alive allow almost alone along already
    always amount animal answer anyone anything anywhere appear apply area arrive arrival ask attend available
    average away back bad base basic bear become begin behind belong below best better big bill body book born
    border bottom box break bring brother brown build building built business busy buy buying bought by car card
    care carry case cause center centre century certain change charge cheap check child choose city claim class
    clean clear close cold colour color column common company compare complete consist contain content continue
    control cook cool copy correct cost count country couple course cover create cross current customer cut daily
    dark data date day dead deal death decide deep delay deliver delivery depend dependency describe design detail
    die difference different difficult direct directly discover distance divide document door double draw drink
    drive drop dry due each early earn east easy eat economy either element else email employ employee empty end
    enough enter entire equal especially even event everybody everyone everything everywhere exact exactly example
    except exist expensive fact fail fall family famous far fast favorite feature feel female few fewer field fight
    fill final find fine finish fire fit fix flight fly follow food foot force foreign form former found four five
    six seven eight nine ten free frequent friend front full function future game general girl good great green
    group grow guy half hand happen happy hard head hear heavy height help hero high hire history hit hold home hot
    hour house human idea important inch include income indirectly inside install instead interest item join job
    jump keep key kill kilo kilometer know lack land language large largest late later latest lead learn least
    leave left length less let letter level lie life light like limit line link little live local locate location
    long look lose loss lot love low lower main maintain maintainer major male man manage manager market marry
    material maximum meaning measure meet member men mention mile million minimum minute miss model modern money
    month more morning move movie music near nearly need neighbor neighbour never new news next nice night nobody
    none normal north note nothing number object occur offer office official old older oldest open operate opposite
    order original outside owe own owner page paint pair paper parent park part pass past pay people per percent
    perhaps period person phone pick picture piece place plan plane plant play player please point poor popular
    population position possible power present president pretty price print private probably problem process
    produce product profit program project provide public pull purchase push put quality quantity question quick
    quickly quiet rank rate ratio reach read ready real really reason receive recent record red reduce region
    relate release remain remember remove report require rest result return revenue rich ride right ring rise road
    role room round row rule run safe salary sale same save scale schedule school score sea season seat second
    section see seem select sell send separate serve service set several shape share shelf ship shipment short shot
    side sign similar simple since single sister sit size slow small smart smell sold someone something sometimes
    son soon sort sound source south space speak special speed spell spend spoken stand standard star start state
    status stay step stock stop store story straight street strong study subject such suggest sum supplier supply
    sure surname system table tall task team tell temperature term test text thank thing think third thousand three
    tie till time title today together tomorrow tonight top total town trade train travel tree trip true try turn
    twice two under unit until unusual upper useful user usual usually value various version view visit voice wait
    walk wall want war warm wash watch water way weak wear week weekend weigh weight well west wet whatever wheel
    white whole wide wife win wind window winner winter wish woman wonder word work worker world worse worst write
    writer wrong year yellow yes yesterday young youngest zero adress apart approximately arent besides both
    couldnt didnt doesnt dont earliest fewest hadnt hasnt havent highest heaviest heavier higher isnt longest
    longer lowest nearest newest overall roughly shortest smallest smaller biggest bigger strongest tallest taller
    thats theres wasnt werent whats whos wont wouldnt youve
"""
COMMON_WORDS = frozenset(_COMMON.split()) | _KIND_WORDS.keys() | {word for row in SAME_PROPERTY for word in row}
_NAMES = {"united"}  # no form of "unit"


def is_common(plain: str) -> bool:
    """Whether a word is one that people ask with, in any of its forms.

    >>> [is_common(word) for word in ("orders", "ordered", "cheapest", "shipping", "melting", "united", "honolulu")]
    [True, True, True, True, False, False, False]
    """
    if plain in COMMON_WORDS or singular(plain) in COMMON_WORDS:
        return True
    if plain in _NAMES:
        return False
    form = re.sub(r"(?:ing|ed|er|est|ly)$", "", plain)
    once = form[:-1] if form[-1:] == form[-2:-1] else form
    return len(once) > 2 and form != plain and any(word in COMMON_WORDS for word in (form, once, form + "e"))
