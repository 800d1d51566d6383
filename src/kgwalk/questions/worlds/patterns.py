"""How things of a kind are called: patterns of names for families of kinds.

`{Place}`, `{Adj}`, `{noun}` and so on are filled by names.py; families.py says which family a kind is of.
"""

from __future__ import annotations

# Slots: given family title roman cap (a capital) Place Word word Adj adj Noun noun Nouns nouns Verb Field year two (to
# 99), CODE (2 to 4 capitals) code (letters and digits). A pattern that stands twice comes up twice as often.
_PATTERNS: dict[str, str] = {
    "person": "{given} {family} | {given} {family} | {given} {family} | {given} {family} | "
    "{given} {given} {family} | {given} {cap}. {family} | {given} {family}-{family} | "
    "{given} van {family} | {given} de la {family} | {given} al-{family} | {given} O'{family} | "
    '{given} {family}, Jr. | {given} "{Noun}" {family} | {given} {roman} of {Place} | '
    "{given} of {Place} | {title} {given} {family} | {given}",
    "character": "{given} | {given} {family} | {title} {family} | The {Adj} {Noun} | {Word} the {Adj} | {Word}",
    "deity": "{Word} | {Word} | {Word} {roman} | {Word}-{Word} | {Word} of the {Noun}",
    "creature": "{Word} | {Adj} {Noun} of {Place} | the {Word}",
    "name": "{given} | {Word}",
    "surname": "{family}",
    "dynasty": "House of {Word} | {Word} dynasty | {family} family | the {family}s",
    "country": "{Place} | {Place} | {Place} | Republic of {Place} | {Place} Islands | Kingdom of {Place} | New {Place}",
    "city": "{Place} | {Place} | {Place} | {Place} | Port {Place} | San {given} | {Place} {Place} | "
    "{Place}-on-{Word} | St. {given} | Fort {family} | {Place}, {Place} | {Adj} {Place}",
    "region": "{Place} | {Place} Province | {Adj} {Place} | {Place} Valley | {Place} County | {Place} and {Place}",
    "water": "{Place} River | {Place} | River {Word} | Lake {Word} | {Place} Creek | {Adj} {Noun} Creek | {Word} Sea",
    "mountain": "Mount {Word} | {Place} Peak | {Word} Hill | Monte {Word} | Mt. {family} | {Place} | {Word} Falls",
    "island": "{Place} Island | Isle of {Word} | {Place} | {Adj} Island",
    "company": "{Word} Corporation | {Word} | {family} & {family} | {Word} Group | {family} Brothers | "
    "{Place} {Noun} Company | {CODE} | {Word}{word} Inc. | {Noun}{Noun} | {family}, {family} and Sons | "
    "{Adj} {Noun} Ltd | {Word}.io | {Word} AG | {two} {Noun}s",
    "organization": "{Place} Society for {Field} | {Word} Foundation | Institute of {Field}, {Place} | {CODE} | "
    "{Adj} {Noun} Alliance | International {Field} Union | {Place} Council | Order of the {Adj} {Noun}",
    "team": "{Place} United | {Place} {Noun}s | FC {Place} | {CODE} {Place} | Real {Place} | {Place} | "
    "Sporting {Word} | {Place} City FC",
    "crew": "{Field} | {Noun} | {Field} Team | {Adj} {Nouns} | {CODE} | Team {Word} | {Noun} Operations | "
    "{Place} Sales",
    "project": "{Word} | Project {Noun} | {Adj} {Noun} | {Place} {Noun} {roman} | {CODE}-{two} | Operation {Word}",
    "university": "University of {Place} | {Place} University | {family} College | {Place} Institute of {Field} | "
    "{CODE} | {given} {family} School",
    "party": "{Place} People's Party | {Adj} Front | {Adj} Alliance of {Place} | {Word} Movement | {CODE}",
    "band": "The {Nouns} | {Word} | {Adj} {Noun} | {Word} and the {Nouns} | {Noun} {two} | {given} {family} Trio",
    "work": "The {Adj} {Noun} | {Adj} {Nouns} | The {Noun} of {Place} | {Noun} of the {Noun} | "
    "To {Verb} in {Place} | A {Noun} for {given} | {Place} | The {Nouns} | "
    "{given} and the {Adj} {Noun} | {Noun} | {two} {Nouns} | {Verb}, {given}, {Verb} | "
    "Letters from {Place} | What the {Noun} Said | {Noun} {roman} | {Word}: The {Noun} | {Adj} & {Adj} | "
    "Who Is {given} {family}? | Goodbye, {Place}! | {year} | The {Noun}, the {Noun} and the {Noun} | "
    "{Word} | No {Nouns} in {Place} | I {Verb} at {Noun}",
    "song": "{Verb} Me {Adj} | {given} | {Adj} {Noun} | Don't {Verb} the {Noun} | {Noun} (in {Place}) | "
    "{Verb} It All | My {Noun} Is {Adj} | {Word} {Word} | {Noun} Song | {two} Ways to {Verb}",
    "paper": "On the {Field} of {Adj} {Nouns} | Towards {Adj} {Field} | {Word}: {Adj} {Nouns} for {Field} | "
    "A Survey of {Adj} {Nouns} | Why {Nouns} {Verb}: A Study in {Field} | {Adj} {Noun} Networks | "
    "{Field} without {Nouns}",
    "painting": "{Noun} with {Nouns} | Portrait of {given} {family} | View of {Place} | The {Adj} {Noun} | "
    "{Noun} No. {two} | Woman with a {Noun}",
    "event": "{year} {Place} Festival | {Place} Games {year} | {Word} Congress | Treaty of {Place} | "
    "{Adj} Revolution of {Place} | {Place} Cup | Storm {given} | {Place} Open | Great {Place} Fire",
    "war": "{Place} War | {Adj} {Word} War | War of the {Adj} {Noun} | {two} Days' War | Siege of {Place}",
    "battle": "Battle of {Place} | Siege of {Place} | Battle of {Adj} {Noun} | Raid on {Place}",
    "election": "{year} {Place} election | {Place} general election, {year} | {year} elections in {Place}",
    "award": "{family} Prize | {Word} Award | {Adj} {Noun} Award for {Field} | {Place} Medal | "
    "{given} {family} Prize for {Field} | Order of {Word} | {CODE} Award | {Adj} {Noun}",
    "building": "{Place} Tower | {family} Hall | {Place} Station | {Word} Stadium | Palace of {Place} | "
    "Museum of {Field}, {Place} | {Adj} Bridge | St. {given}'s Church | {two} {Noun} Street | "
    "{Place} International Airport | {Word} Gardens",
    "vehicle": "{Word} {two} | {CODE}-{two} | {Noun} {roman} | {CODE} {Word} | {Word} | {Adj} {Noun} | {CODE} {Noun}",
    "species": "{Word} {word} | {adj} {noun} {word} | {adj} {word} | {Place} {noun} | {word} | {family}'s {word} | "
    "{adj}-tailed {word} | {Place} {adj} {word}",
    "chemical": "{word}ine | {word}ium | {word}ol | {word}ic acid | {two}-{word}yl {word}ate | di{word}ide | "
    "{word}ite | {Word}-{two}",
    "drug": "{word}mab | {word}pril | {word}olol | {Word} | {word}cillin | {word}statin {two} | {word}ine",
    "disease": "{family} disease | {word}itis | {Word} fever | {family}-{family} syndrome | {adj} {word}osis | "
    "{Word} virus | {word}emia",
    "gene": "{CODE}{two} | {CODE} | {CODE}R{two} | {word}{two} | {CODE}-{word}",
    "star": "{Word} | {Word} {roman} | {CODE} {two} | {Word} {CODE} | {two} {Word} | {CODE}-{two} {word}",
    "software": "{Word} | {word}-{noun} | lib{word} | {Noun}{Noun} | {Word} {two} | {word}.js | {CODE} | py{word} | "
    "{Word}DB | {noun}_{noun}",
    "product": "{Word} {two} | {Word} Pro | {CODE}-{two} | {Noun}{Word} | {Word} {Adj} | {family} {Noun} {roman}",
    "site": "{word}.com | {noun}{noun}.org | {Word} | {word}hub.net",
    "user": "{noun}{two} | {adj}_{noun} | {word}_{two} | x{word}x",
    "law": "{Place} {Noun} Act | {Noun} Protection Act {year} | {family} v. {family} | {family} v. {Place} | "
    "Directive {two}/{year} | {Place} Convention on {Field}",
    "food": "{word} | {adj} {word} | {Place} {noun} | {word} with {nouns} | {word} soup | {family} pie | {Word}",
    "language": "{Word}ian | {Word}ese | {Word} | Old {Word} | {Adj} {Word} | {Word}ish",
    "faith": "{Word}ism | Church of {Place} | {Word} | {Adj} {Word}ism | Temple of the {Noun}",
    "currency": "{Place} {word} | {word} | {Word} dollar | {Place} crown | {word} {roman}",
    "word": "{word} | {noun} | {adj} | {word}ing | {word}ness | un{adj} | {noun}{noun} | to {word}",
    "idea": "{Word} theorem | {family}'s law | {adj} {noun} theory | {Word}ism | {adj} {noun} | {word} effect | "
    "{family}-{family} conjecture | {word} {word}",
    "file": "{word}.{word} | {Noun}{Noun} | get_{noun} | {noun}_{word}() | {Noun}{Word}Error | {word}/{noun}.py",
    "term": "{adj} {noun} | {word} | {Word} {noun} | {word} {noun} | {noun} {word} | {adj} {word}",
    "id": "m.0{code} | g.11{code} | m.0{code} | _:b{code}",
}
PATTERNS = {family: tuple(patterns.split(" | ")) for family, patterns in _PATTERNS.items()}
