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
        "symbolizes threatens transmits translates unlocks wields came drew gave lost ran sat stood took"
    )
) - {"featured", "starring", "starred", "can", "is", "was", "were", "has", "had"}
# Verbs where more words follow, nouns alone: `holds office`, but the "holds" of a ship; `hosted event`.
ACTIVE_BEFORE = word_set(
    "acts adds anchors attacks bears broadcasts calls captains coaches covers dams drains edits exports extracts "
    "falls fields fits fronts funds grows heads holds honours imports issues links lists orbits passes powers presents "
    "raises reads returns rules samples signs sits sounds spreads stocks tops transports visits watches yields looks "
    "caused climbed commanded commissioned conducted dammed decided designed discovered formulated held hosted led "
    "made ordered passed photographed published released shot suffered supervised triggered visited"
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
INTRANSITIVE = {"lived": "where {} lived", "involved": "involved in {}", "located": "in {}", "died": "where {} died"}
# What is said of a thing as over and done: "was born", but "is located".
WAS = word_set(
    "born buried killed founded created built nominated elected appointed educated discovered invented named "
    "raised published produced recorded written made introduced drafted released launched married baptized "
    "featured arrested defeated executed convicted established formed signed sent taught portrayed shown "
    "awarded honored"
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
