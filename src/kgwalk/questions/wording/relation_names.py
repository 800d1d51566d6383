"""A relation's name as words: snake_case, camelCase, dotted paths, prefixes, identifiers, inverse markers, units.

    read_name("film.film.directed_by")    # words "directed by", head kind "film"

Below it stand the tables of words that `reading` and `templates` use: verbs, adjectives, events.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from kgwalk.kg.names import split_words as split_words
from kgwalk.questions.wording.english import singular, word_set
from kgwalk.questions.wording.values import split_unit
from kgwalk.walk.web.graph_corpus import VERBS

# Markers of a relation that is read from tail to head.
_INVERSE = re.compile(
    r"^(?:inverse[_ -]?(?:of)?[_ -]|inv[_-]|reverse[_ -](?:of[_ -])?|\^|~|-(?=\w))|"
    r"(?:[_ -]inverse|[_-]inv|[_ -]reverse|[_-]reciprocal| ?\((?:inverse|reverse)\)|\^-1|\^|⁻¹)$"
    r"|(?<=[a-z])(?-i:Inv|Inverse|Reverse)$",
    re.IGNORECASE,
)
_IDENTIFIED = re.compile(r"^(?:wdt:|p:|wd:)?[PQ]\d+\s*[:|(_-]+\s*(?P<label>.+?)\)?$")  # "P57: director"
_URI = re.compile(r"^<?\w+://\S*?(?P<last>[^/#\s>]+)[/#]?>?$")
_PREFIX = re.compile(r"^[A-Za-z][\w-]{0,15}:(?=[A-Za-z_])")  # dbo:, rdf:, schema:
_ASIDE = re.compile(r"\s*\([^)]*\)")
# Second to last parts of a path that do not name a kind.
_NO_KINDS = word_set("object topic common base user default domain schema type random extra")


@dataclass(frozen=True, slots=True)
class RelationName:
    """A name that was read. `words` are in lower case, except a word in capitals among others ("nominal GDP")."""

    words: tuple[str, ...]
    before: tuple[str, ...] = ()  # the first of two joined properties: Freebase's "spouses" before "type of union"
    head: str = ""  # the kind of the head, where a dotted path names it
    inverse: bool = False
    unit: str = ""  # of the tails, not part of the words: "cm" in `height_cm`

    @property
    def text(self) -> str:
        return " ".join(self.words)


@lru_cache(maxsize=65536)
def read_name(relation: str) -> RelationName:
    """The words of a relation's name, and what else the name tells.

    >>> read_name("people.person.place_of_birth")
    RelationName(words=('place', 'of', 'birth'), before=(), head='person', inverse=False, unit='')
    >>> [read_name(name).text for name in ("dbo:birthPlace", "P57: director", "HAS_CAST", "_member_meronym")]
    ['birth place', 'director', 'has cast', 'member meronym']
    >>> read_name("/people/person/spouse_s./people/marriage/type_of_union")
    RelationName(words=('type', 'of', 'union'), before=('spouses',), head='person', inverse=False, unit='')
    >>> read_name("plays_in_club_inverse"), read_name("http://dbpedia.org/ontology/timeZone").text
    (RelationName(words=('plays', 'in', 'club'), before=(), head='', inverse=True, unit=''), 'time zone')
    >>> read_name("heightCm").text, read_name("heightCm").unit, read_name("opening_hours").text
    ('height', 'cm', 'opening hours')
    """
    text = relation.strip()
    bare = _INVERSE.sub("", text)
    inverse = bare != text and bool(bare.strip("_ "))
    text = bare if inverse else text
    found = _IDENTIFIED.match(text)
    if found is not None:
        text = found["label"]
    uri = _URI.match(text)
    if uri is not None:
        text = uri["last"]
    text = _PREFIX.sub("", text) if " " not in text else _ASIDE.sub("", text) or text
    paths = _paths(text)
    if not paths:
        return RelationName((relation.strip() or "link",), inverse=inverse)
    head = _kind(paths[0][-2]) if len(paths[0]) > 1 else ""
    before = _split(paths[0][-1]) if len(paths) > 1 else ()
    words = _split(paths[-1][-1])
    if len(words) > 1 and words[-1] in ("1", "2"):  # `needed_by_1`, beside another of that name
        words = words[:-1]
    words, unit = split_unit(words)
    return RelationName(words, () if before == words else before, head, inverse, unit)


def _paths(text: str) -> list[list[str]]:
    """The properties that a name joins, each as the parts of its path."""
    if " " in text:
        return [[text]]
    joined = re.split(r"\.(?=/)", text)
    paths = [[part for part in re.split(r"__+|[./]+", one.strip("_./")) if part.strip("_")] for one in joined]
    return [path for path in paths if path]


def _split(part: str) -> tuple[str, ...]:
    part = re.sub(r"(\w)_s$", r"\1s", part)  # Freebase's spouse_s
    parts = split_words(part).replace("_", " ").replace(" / ", " or ").split() or [part]
    return tuple(word if word.isupper() and len(parts) > 1 and not part.isupper() else word.lower() for word in parts)


def _kind(part: str) -> str:
    words = [word for word in _split(part) if word not in _NO_KINDS]
    kind = singular(" ".join(words))
    return "" if not words or any(map(str.isdigit, kind)) else {"people": "person", "location": "place"}.get(kind, kind)


# Tables of words, by what they are in a sentence


ONE_WORD = {
    "starring": "star", "containedby": "contained by", "isa": "type", "citytown": "town", "is_a": "type",
    "crewmember": "crew member", "aged": "age", "isin": "in",
}  # fmt: skip
# Verbs with the head as their subject, in the third person or the past; added to those of walk/web.
ACTIVE = (
    VERBS
    | word_set(
        "adjoins analyzes assesses attends carries comes complicates consists depicts describes develops "
        "diagnoses disrupts employs enters exhibits expresses feeds follows governs grew helps hosts houses "
        "inhibits interacts involves issued leads left lies makes manages manufactures measures meets needs "
        "neighbors neighbours occurs operates participated participates performs possesses prevents publishes "
        "reacts regulates replaces reports represents requires resides runs sells serves signed speaks stands "
        "stars studies succeeds succeeded supplies supports surrounds targets takes teaches trades trained "
        "treats wears wins writes appears belonged belongs binds graduated emigrated married moved retired "
        "served fought dated befriended impersonated canoodled depicts indicates interconnects exported "
        "imported happens happened ended began begins ends opened opens closed specializes specialises "
        "abolishes abrogates accompanies administers assists catalyses catalyzes cites commemorates competes confers "
        "consumes cultivates deals declares defines detects dissolves distributes eats emits encloses encodes entails "
        "explains extends feels fights gives harms hunts identifies illustrates implies impounds infests invokes joins "
        "keeps knows loves maintains obsoletes observes occupies organises originates pollinates portrays practises "
        "predicts presides proposes protects provokes receives remembers repeals resembles ruptures supersedes "
        "symbolizes threatens transmits translates unlocks wields came drew gave lost ran sat stood took "
        "accepts accesses achieves adheres adopts allows applies approves arises arrives asks assigns "
        "authenticates authorizes authorises becomes believes buys chooses collaborates collects "
        "communicates compiles comprises computes configures conforms considers constructs converts "
        "cooperates corresponds creates decides delivers denotes depends deploys derives descends differs directs "
        "discovers discusses earns elects emerges enables endorses enforces engages enrolls ensures establishes "
        "evaluates evolves exceeds excludes executes exists exposes facilitates fetches focuses founds generates "
        "goes hears ignores implements improves incorporates informs ingests inherits inspires "
        "installs instantiates integrates introduces invents invests learns lends listens loses merges "
        "migrates mitigates negotiates notifies obtains opposes outranks oversees owes paints persists "
        "prefers prepares prescribes preserves preys proves provides pushes reaches recommends "
        "reduces refers reflects rejects relates relies remains removes renders replicates resolves responds "
        "restricts retains satisfies says seeks sees selects sends serializes sings sleeps solves "
        "specifies spends submits subscribes suffers suggests summarizes supervises sustains synchronizes tells "
        "terminates thinks transforms understands undergoes utilizes validates varies verifies "
        "violates wants belies expires underlies vies"
    )
) - {"featured", "starring", "starred", "can", "is", "was", "were", "has", "had"}
# Verbs if more words follow, nouns if not: `holds office`, but the "holds" of a ship; `hosted event`.
ACTIVE_BEFORE = word_set(
    "acts adds anchors attacks bears broadcasts calls captains coaches covers dams drains edits exports extracts "
    "falls fields fits fronts funds grows heads holds honours imports issues links lists orbits passes powers presents "
    "raises reads returns rules samples signs sits sounds spreads stocks tops transports visits watches yields looks "
    "caused climbed commanded commissioned conducted dammed decided designed discovered formulated held hosted led "
    "made ordered passed photographed published released shot suffered supervised triggered visited "
    "accounts airs answers approaches audits authors backs banks blocks blogs campaigns chairs charges "
    "checks claims commands commits conducts controls cooks copies costs counts credits debuts delegates "
    "designs documents drafts drives drums exits features fathers files filters flags flowers forwards fuels grants "
    "guards guides handles helms hits interfaces interns judges lands lasts launches lectures loads logs masters "
    "mentors mines mirrors models monitors moves names orders parks parents partners permits plans "
    "points posts practices premieres processes programs queries queues races ranks rates records references "
    "registers releases rents repairs requests rests results reviews rides routes sails scores ships shops "
    "shoots shows smells sponsors stages starts stems steps stops stores streams tests tops touches tours trains "
    "transfers travels tutors turns updates views votes waits walks winters "
    "aims builds embeds finds hires indexes offers provisions pulls schedules tracks triggers volunteers"
)
# Attributes: a word in s before one of these is a plural noun and not a verb: `orders status`, `files size`.
ATTRIBUTES = word_set(
    "account address amount area budget category class code color colour cost count currency date degree "
    "description duration fee folder format frequency grade group id identifier index key label length level limit "
    "link list location mode name number owner page path percentage period phase price priority quality "
    "quantity quota range rank rate rating ratio reason score share size source state status subtype sum summary table "
    "tag time title total type unit uri url value version volume weight year"
)
# Words that may stand before an attribute: `orders total price`.
ATTRIBUTE_SIZES = word_set("average current first last main maximum mean median minimum net overall total")
# Verbs before an attribute, too, as they are hardly ever plural nouns: `holds rank`, `covers area`.
MOSTLY_VERBS = word_set(
    "acts adds aims bears builds commits conducts covers delegates edits embeds extracts falls finds fits grows guards "
    "handles helms hires holds honours lasts launches looks orbits raises reads rides shoots shows sits smells sounds "
    "spreads touches visits watches yields"
)
# People, added to those of `english`: `orders customer`.
SOMEBODY = word_set("admin approver assignee captain client clerk customer engineer reviewer supplier user vendor")
# Verbs that take a person as object: `mentors student`, but `programs director`.
DONE_TO_PEOPLE = word_set(
    "attacks blocks captains charges coaches commands fathers features fields guides judges mentors monitors names "
    "parents presents rates registers reviews sponsors tests tracks trains transfers tutors"
)
# Verbs with an object, though the first is a plural noun elsewhere and the second an attribute.
VERB_PAIRS = frozenset(("exports format", "imports format", "loads format", "grants degree", "returns type"))
# Verbs before a preposition, added to those above: `hikes in`. Other words in s are plural nouns: `hospitals in`.
BEFORE_PREPOSITIONS = word_set(
    "abides abounds abuts accedes accrues acquiesces acts adapts adjusts agrees aligns alternates amounts applies "
    "ascends aspires attaches awakens bathes behaves belongs bleeds blooms boils borders borrows breeds burrows caters "
    "ceases clashes clings coexists coincides collides combines commences commutes competes complies concentrates "
    "concludes condenses confesses connects consents consists conspires contends contributes converges copes "
    "culminates curls deals debuts decays decomposes defers departs depends derives descends deviates dies differs "
    "dines disagrees disappears discharges disembarks dissents diverges drifts dwells elaborates embarks emigrates "
    "empties encroaches endures erupts evaporates evolves excels expands expires falls fares feeds ferments fishes "
    "fits flees flies floats flourishes flows focuses forages freezes gathers germinates graduates gravitates grazes "
    "grinds grows hangs happens hibernates hikes hinges hovers impinges infringes inquires insists intends interacts "
    "interferes intersects intervenes jogs kneels lags lands lapses lasts laughs leads leans leaps lies lingers "
    "listens lives lodges looks marches matures melts merges migrates mingles mixes mutates navigates nests occurs "
    "operates originates oscillates overlaps participates perches performs perishes persists pertains plays pours "
    "presides prevails proceeds prospers protrudes quarrels radiates ranks rebels recovers recurs redirects refers "
    "refrains reigns relies relocates reports reproduces resides resigns responds rests results retires revolves "
    "rhymes rises roams roosts rotates runs rushes sails scavenges seeps sells serves settles shines shrinks sinks "
    "sits skates sleeps soars spawns specialises spreads stands stars starts starves stays stems sticks strays strives "
    "struggles subsists surfs survives swears swims syncs talks tends thrives toils trades travels vanishes verges "
    "vies wades waits wanders weighs winters works worships wrestles yearns"
)
# Verbs before one preposition that are nouns before others.
PREPOSITION_PAIRS = {
    (word, preposition)
    for preposition, words in {
        "at": "camps vacations", "for": "cares", "in": "drums flowers trains vacations", "near": "camps",
        "from": "benefits branches escapes hails hatches ranges", "into": "branches crashes drops transitions turns",
        "on": "centers centres", "onto": "maps", "over": "ranges", "to": "appeals climbs maps transitions",
        "with": "conflicts contrasts interfaces links matches pairs partners presents ships trains",
    }.items()
    for word in words.split()
}  # fmt: skip
# Plural nouns that the head has there: `offices in`. Other plural nouns are there themselves: `hospitals in`.
HAD_THERE = word_set(
    "branches clients connections contacts contracts customers effects exports factories flights impacts imports "
    "interests investments links offices operations relations relationships shares shops stakes stores subscribers "
    "subsidiaries ties users warehouses"
)
# After a plural noun these go on describing it: "passes of the city", "awards in field", "calls by X".
NOUN_GOES_ON = word_set("of in with by")
# Done to the head if a place or a time follows: a film was produced in a country.
DONE_THERE = word_set(
    "created produced founded invented built directed edited composed killed discovered made developed designed"
)
ADVERBS = word_set("executive co mainly partially jointly officially partly originally currently formerly")
ADJECTIVES = word_set(
    "adjacent similar together equal opposite due next close identical equivalent prior distinct different independent "
    "endemic native notable famous known guilty sacred toxic poisonous compatible responsible subject"
)
# States with the preposition that names leave out: `on call` (for a service), `in charge` (of a team).
BEING = {
    "on call": "for", "on duty": "for", "on standby": "for", "on watch": "for", "in charge": "of", "in command": "of",
    "in love": "with", "in contact": "with", "in touch": "with", "in conflict": "with", "in dispute": "with",
    "in partnership": "with", "in competition": "with", "at war": "with", "at odds": "with", "in debt": "to",
    "on loan": "to", "under contract": "with", "on display": "at", "in stock": "at", "on sale": "at",
}  # fmt: skip
# States that only a person can be in: if the tail is a person, it is the tail.
BEING_SOMEBODY = frozenset(("on call", "on duty", "on standby", "on watch", "in charge", "in command"))
INTRANSITIVE = {"lived": "where {} lived", "involved": "involved in {}", "located": "in {}", "died": "where {} died"}
# Participles with "was": "was born", but "is located".
WAS = word_set(
    "born buried killed founded created built nominated elected appointed educated discovered invented named "
    "raised published produced recorded written made introduced drafted released launched married baptized "
    "featured arrested defeated executed convicted established formed signed sent taught portrayed shown "
    "awarded honored"
)
# Done by people rather than companies, teams or things: who wrote it, but what owns it.
PEOPLE_DO = word_set(
    "acted approved arranged authored captained chaired choreographed climbed coached commanded composed conducted "
    "conjectured coined created curated designed directed discovered drafted drawn edited excavated explored "
    "formulated founded headed held hosted illustrated impersonated instructed interviewed introduced invented judged "
    "killed led lyricised managed married mentored murdered narrated painted performed photographed played portrayed "
    "presented proposed proved produced recorded refereed reviewed ruled scored sculpted said seen signed slain "
    "spoken sung supervised taught told translated uploaded visited voiced wielded worn written won"
)
# Worded in the present: who owns it, not who owned it.
GOES_ON = word_set(
    "owned operated maintained used contained required needed supported administered monitored powered bordered "
    "surrounded inhabited regulated controlled supplied employed covered consumed hosted provided followed loved "
    "managed"
)
# Done at a place: "the place where it was filmed", but "the thing it was written in".
DONE_AT_PLACES = word_set(
    "born located situated based buried filmed shot held headquartered housed stationed registered built founded "
    "established raised bred grown mined cultivated harvested discovered killed murdered crowned jailed imprisoned "
    "detained settled exhibited hosted manufactured assembled produced made found staged set died baptized married "
    "educated kept stored parked docked moored invented formed created recorded launched spoken venerated worshipped "
    "domiciled incorporated seated sited placed premiered tried arrested executed performed played sold signed "
    "observed eaten worn practised practiced elected"
)
EVENTS = word_set(
    "abduct accede accuse acknowledge apologize appeal arrest assassinate attempt ban bring carry coerce "
    "complain conduct confiscate consider consult cooperate criticize decline declare defend defy demand "
    "demobilize demonstrate deny destroy detonate discuss ease employ engage expel express fight forgive give "
    "grant halt host impose increase investigate kill make mediate meet mobilize obstruct occupy physically "
    "praise protest provide rally receive reduce refuse reject retreat return seize sexually share sign "
    "threaten torture use veto violate yield visit attack pardon invite sue contact warn blame"
)
ALSO_NOUNS = word_set("contact host share sign visit use return attack appeal ban demand protest blame veto torture")
WITH = word_set(
    "meet negotiate negotiation negotiations agreement cooperation cooperate relations discuss telephone "
    "economically militarily accord mediation intelligence information rally consult dispute"
)
AGAINST = word_set(
    "force violence repression weapons bombing embargo sanctions blockade boycott strike forces power protest "
    "violently riot tanks artillery lawsuit dissent law"
)
EVENT_PREPOSITIONS = {
    "to": word_set("make give grant provide apologize yield appeal accede"),
    "for": frozenset(("host",)),
    "from": word_set("demand receive"),
}
TAKES_OBJECT = word_set(
    "abduct accuse arrest assassinate attack blame coerce consult contact criticize defend forgive "
    "investigate invite kill pardon physically praise reject sexually sue threaten torture veto visit warn"
)
