"""Words of relation names by what they are in a sentence: verbs of the head, adjectives, events.

Tables for `reading`; knows no grammar.
"""

from __future__ import annotations

from kgwalk.questions.english.inflect import word_set
from kgwalk.tools.web.fact_sentences import VERBS

ONE_WORD = {
    "starring": "star", "containedby": "contained by", "isa": "type", "citytown": "town", "is_a": "type",
    "crewmember": "crew member", "aged": "age", "isin": "in",
}  # fmt: skip
# With the head as their subject, in the third person or the past; beside those of tools/web.
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
        "violates wants"
    )
) - {"featured", "starring", "starred", "can", "is", "was", "were", "has", "had"}
# Verbs where more words follow, nouns alone: `holds office`, but the "holds" of a ship; `hosted event`.
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
# After such a word these count it, and the word is a noun: `orders count`.
OF_NOUNS = word_set("count number total id")
# Plural nouns that come before a preposition, where most other words in s are verbs: `cities in`, `hikes in`.
NOUNS_IN_S = word_set(
    "accidents albums articles battles books branches bridges buildings businesses clubs companies courses datasets "
    "diseases dishes documents elements events films fatalities firms games garments goods hotels houses items jobs "
    "lakes laws machines magazines maps movies museums mountains novels offices organizations paintings papers parks "
    "parts pipelines plants products projects rights rivers roads roles rooms schools sites songs species stations "
    "stories streets teams tools towns tracks trees units universities uses videos weapons weddings wars words works"
)
# Of plural nouns these words say more: "passes of the city", "awards in field", "calls by X".
NOUN_GOES_ON = word_set("of in with by")
# Done to the head where a place or a time follows: a film was produced in a country.
DONE_THERE = word_set(
    "created produced founded invented built directed edited composed killed discovered made developed designed"
)
ADVERBS = word_set("executive co mainly partially jointly officially partly originally currently formerly")
ADJECTIVES = word_set(
    "adjacent similar together equal opposite due next close identical equivalent prior distinct different independent "
    "endemic native notable famous known guilty sacred toxic poisonous compatible responsible subject"
)
# What one can be with regard to another, without its last word: `on call` for a service, `in charge` of a team.
BEING = {
    "on call": "for", "on duty": "for", "on standby": "for", "on watch": "for", "in charge": "of", "in command": "of",
    "in love": "with", "in contact": "with", "in touch": "with", "in conflict": "with", "in dispute": "with",
    "in partnership": "with", "in competition": "with", "at war": "with", "at odds": "with", "in debt": "to",
    "on loan": "to", "under contract": "with", "on display": "at", "in stock": "at", "on sale": "at",
}  # fmt: skip
# Of these only somebody can be: where the tail is a person, it is the tail.
BEING_SOMEBODY = frozenset(("on call", "on duty", "on standby", "on watch", "in charge", "in command"))
INTRANSITIVE = {"lived": "where {} lived", "involved": "involved in {}", "located": "in {}", "died": "where {} died"}
# What is said of a thing as over and done: "was born", but "is located".
WAS = word_set(
    "born buried killed founded created built nominated elected appointed educated discovered invented named "
    "raised published produced recorded written made introduced drafted released launched married baptized "
    "featured arrested defeated executed convicted established formed signed sent taught portrayed shown "
    "awarded honored"
)
# What people do rather than companies, teams or things: who wrote it, but what owns it.
PEOPLE_DO = word_set(
    "acted approved arranged authored captained chaired choreographed climbed coached commanded composed conducted "
    "conjectured coined created curated designed directed discovered drafted drawn edited excavated explored "
    "formulated founded headed held hosted illustrated impersonated instructed interviewed introduced invented judged "
    "killed led lyricised managed married mentored murdered narrated painted performed photographed played portrayed "
    "presented proposed proved produced recorded refereed reviewed ruled scored sculpted said seen signed slain "
    "spoken sung supervised taught told translated uploaded visited voiced wielded worn written won"
)
# What goes on: who owns it, rather than who owned it.
GOES_ON = word_set(
    "owned operated maintained used contained required needed supported administered monitored powered bordered "
    "surrounded inhabited regulated controlled supplied employed covered consumed hosted provided followed loved "
    "managed"
)
# Where this is done, is a place: "the place where it was filmed", but "the thing it was written in".
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
