"""Words that invented names are made of: syllables of several language families, and lists of English words.

    PHONOLOGIES[0].word(chance)        # a new word that could be English

Words of one phonology look alike and those of two do not, so that a tokenizer cuts them in many ways.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Phonology:
    """How words of a language family sound: a syllable is an onset, a vowel and perhaps a coda.

    Endings turn a word into a given name, a family name or the name of a place.
    """

    name: str
    onsets: tuple[str, ...]
    vowels: tuple[str, ...]
    codas: tuple[str, ...]  # "" among them: an open syllable
    given: tuple[str, ...]
    family: tuple[str, ...]
    place: tuple[str, ...]

    def word(self, chance: random.Random, most: int = 3) -> str:
        """A word of one to `most` syllables, at least three letters long, in lower case."""
        text = ""
        for left in reversed(range(chance.choice(range(1, most + 1)))):
            text += chance.choice(self.onsets) + chance.choice(self.vowels)
            if not left or chance.random() < 0.3:  # inside a word, most syllables are open
                text += chance.choice(self.codas)
        while len(text) < 3:
            text += chance.choice(self.onsets) + chance.choice(self.vowels)
        return text

    def with_ending(self, chance: random.Random, endings: tuple[str, ...]) -> str:
        """A capitalised word with one of these endings; no vowel meets a vowel, no letter is doubled at the join."""
        stem, ending = self.word(chance, 2), chance.choice(endings)
        vowels = "".join(self.vowels)
        if ending and ending[0] in vowels:
            stem = stem.rstrip(vowels) or stem
        if ending and stem[-1] == ending[0]:
            ending = ending[1:]
        return (stem + ending).capitalize()


def _phonology(name: str, onsets: str, vowels: str, codas: str, given: str, family: str, place: str) -> Phonology:
    """Parts are separated by blanks; `-` stands for an empty one."""
    parts = (tuple("" if one == "-" else one for one in text.split()) for text in (onsets, vowels, codas))
    ends = (tuple("" if one == "-" else one for one in text.split()) for text in (given, family, place))
    return Phonology(name, *parts, *ends)


PHONOLOGIES: tuple[Phonology, ...] = (
    _phonology(
        "english",
        "b br c ch cl d f g gr h j k l m n p r s sh st t th tr w wh",
        "a e i o u ea oo ai",
        "- n r l m t ck ll rd nd st x",
        "- y ie a ett on wyn ric",
        "son man ley ford well ton er smith wood croft - field",
        "ton ham ford bury wick mouth dale port ville by stead minster",
    ),
    _phonology(
        "romance",
        "b c d f g l m n p r s t v br cr fl gr tr ch qu",
        "a e i o ia io ue",
        "- - - n r l s",
        "o a ina elo etta ando isa iel",
        "ez ini etti ardo oso eira ano ella ucci",
        "ona ia ada eria ara ello agna ino",
    ),
    _phonology(
        "french",
        "b bl c ch d f g j l m n p r s t v gr pr",
        "a e é i o ou eu au oi",
        "- - n r l s t x",
        "ine elle ot ard ette ien aud e",
        "eau ier ard oux in et ault ois",
        "ville ac euil ay ières ieux bourg on",
    ),
    _phonology(
        "germanic",
        "b br d f g gr h k kl l m n r s sch st t w z fr",
        "a e i o u ei au ie ö ü",
        "- n r l m rt nd ch ck lz rg",
        "e a bert hild win mar fried ke",
        "mann er berg stein bach ner hoff ler",
        "burg stadt heim dorf berg hausen feld au",
    ),
    _phonology(
        "norse",
        "b bj d f fr g gr h hj k l m n r s sk st t th v",
        "a e i o u y å ø ei",
        "- n r l m rn ld nd k g",
        "a e ulf rid var hild geir unn",
        "sen son dottir gaard lund strand vik berg",
        "vik fjord holm by heim sund nes dal",
    ),
    _phonology(
        "slavic",
        "b br d dr g k kr l m n p r s sl st t v z zh ch sh",
        "a e i o u ya",
        "- - n r l m v k sk",
        "a mir slav ina ko ena islav ka",
        "ov ova sky ić enko czyk in ev",
        "grad ovo sk ice ov any ino ets",
    ),
    _phonology(
        "hellenic",
        "a k l m n p r s t th ph d g x z ps kr",
        "a e i o y ou ai eu",
        "- - s n r l",
        "os ia as is eon anthe yra ides",
        "opoulos akis idis ou atos elis as",
        "polis os ia ossos ene andria aki",
    ),
    _phonology(
        "arabic",
        "b d f h j k kh m n q r s sh t w y z gh l",
        "a i u aa ee",
        "- - n r m d l h f",
        "a ah id ir ima an een ul",
        "i awi ani oun ullah zadeh - ari",
        "abad iyah an ut ar qir oun a",
    ),
    _phonology(
        "indic",
        "b bh ch d dh g h j k kh l m n p r s sh t v",
        "a aa i u e o ai",
        "- - n r m nd sh t",
        "a esh ika ini endra it ya vi",
        "an kar ia ppa swamy wala ra ji",
        "pur nagar abad i ore garh am patti",
    ),
    _phonology(
        "japanese",
        "k s t n h m y r w g z d b sh ch ts",
        "a i u e o ai ei ou",
        "- - - - n",
        "ko mi to ro ka ji ki na",
        "moto mura da yama kawa saki shi no",
        "shima zaki hara machi oka saka do ura",
    ),
    _phonology(
        "chinese",
        "b ch d f g h j k l m n p q r s sh t w x y z zh",
        "a e i u ao ei ia iu ou uan",
        "- - n ng",
        "- ming hua lin wei fang xin jun",
        "- - ng n u",
        "zhou jing shan hai jiang nan xi yang",
    ),
    _phonology(
        "african",
        "b ch d f g k l m n nd ng mb ny s t w y z kw gb",
        "a e i o u ua ia",
        "- - - - n m",
        "a i we isha ko ola emi di",
        "we ba nga eke mbo ola du ye",
        "ni ja wa ngo la ruba ka so",
    ),
    _phonology(
        "oceanic",
        "h k l m n p r t w v f ng",
        "a e i o u ai au oa",
        "-",
        "a ni lani ua hina po",
        "loa kea mua nui taki ra",
        "nga hiti loa tui va pai",
    ),
    _phonology(
        "turkic",
        "b ç d g h k m n r s ş t y z al er",
        "a e ı i o ö u ü",
        "- n r l m k z t",
        "ay gül han can an e el ur",
        "oğlu er kaya türk bek ov demir en",
        "köy şehir tepe kale ova kent dağ bul",
    ),
    _phonology(
        "celtic",
        "b c d f g gl l ll m n r s t br cr dr gw",
        "a e i o u ae io wy",
        "- n r l s th dd ch",
        "wen a an wyn ach een gan dh",
        "ach ey nan doch an gh agh lyn",
        "more glas ness bridge ach wick ydd aber",
    ),
    _phonology(
        "american",
        "ch h k l m n p qu s t tl w x y hu ch'",
        "a e i o u ua ee",
        "- - n l k tl c sh",
        "tl a ka i wa na li quil",
        "tzin ka ahua coatl ni mac an",
        "huacan tepec mac ta tlan chee homa ka",
    ),
    _phonology(
        "cyrillic",
        "б в г д ж з к л м н п р с т ш",
        "а е и о у я",
        "- - н р л к",
        "а ья ил ина мир ей",
        "ов ова ин енко ский ев",
        "град ово ск ино ец ка",
    ),
)
# How often a graph uses each: other alphabets are rare in graphs that people ask about in English.
PHONOLOGY_WEIGHTS = tuple(0.15 if phonology.name == "cyrillic" else 1.0 for phonology in PHONOLOGIES)


# English words, common names of people, and kinds whose members everyone knows


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


NOUNS = _words(
    """harbor river winter garden mirror shadow lantern station letter voice empire orchard bridge ocean mountain
    engine window island forest kingdom thunder copper glass paper crown wolf sparrow falcon tiger horse whale fox moon
    star comet planet desert valley canyon storm rain snow fire stone iron silver gold velvet ribbon ladder compass
    anchor ship train road street house tower castle cathedral market theatre school hospital prison factory mill farm
    field meadow salt sugar honey bread coffee apple lemon rose lily thorn root seed clock hour midnight morning summer
    autumn spring season year child daughter son mother father brother sister widow soldier captain sailor doctor
    teacher painter poet hunter thief stranger ghost angel devil king queen prince knight pilgrim secret promise dream
    memory silence song dance story game puzzle riddle machine signal code number circle line edge border"""
)
ADJECTIVES = _words(
    """silent broken golden hidden crimson distant endless bitter gentle hollow frozen burning lonely ancient modern
    quiet wild lost last first second final great little long short dark bright pale deep high low open closed secret
    sacred strange simple perfect crooked green blue red black white grey silver electric invisible northern southern
    eastern western central royal young old new early late blind brave proud cruel sweet sour empty full heavy light
    narrow wide rapid slow true false double single public private foreign common rare"""
)
VERBS = _words(
    """run fall wait return forget remember follow leave cross burn break build carry catch chase count dance dream
    drive escape fight find fly hide hold hunt keep kill kiss learn lie live lose love meet open pray promise read rise
    save sell sing sleep speak stay steal swim teach trust wake walk whisper win"""
)
FIELDS = _words(
    """physics chemistry literature poetry peace medicine economics design architecture journalism mathematics biology
    music painting sculpture photography cinema theatre history philosophy engineering agriculture navigation optics
    genetics linguistics ecology logistics robotics acoustics"""
)
GIVEN = _words(
    """James Mary John Linda Robert Susan Michael Karen David Nancy William Lisa Thomas Sarah Charles Anna Daniel Emma
    Paul Laura Mark Julia George Alice Peter Helen Henry Clara Frank Rosa Walter Ruth Arthur Grace Oscar Nina Hugo Ivy
    Leo Maya Carlos Elena Luis Sofia Pierre Claire Hans Greta Marco Lucia Ivan Olga Ahmed Leila Raj Priya Kenji Yuki Wei
    Mei Kofi Ama Erik Ingrid"""
)
FAMILY = _words(
    """Smith Jones Brown Taylor Wilson Davies Evans Walker Wright Turner Hill Moore Clark Baker Carter Parker Cook Bell
    Ward Fisher Mason Hunt Palmer Stone Fox Marsh Lane Grant Cole Hayes Burke Doyle Quinn Garcia Lopez Silva Costa
    Rossi Moretti Weber Becker Larsen Berg Novak Horvat Petrov Kaya Khan Patel Singh Tanaka Sato Chen Wang Kim Park
    Okafor Mensah Diallo"""
)
TITLES = ("Sir", "Dr.", "Lady", "Saint", "Prince", "Princess", "King", "Queen", "Count", "Baron")
ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "XI", "XIV", "XVI")

# Countries with what people call the things from there: tables have them, and the words of a question differ.
DEMONYMS: dict[str, str] = dict(
    re.findall(
        r"(\w+) (\w+)",
        "Sweden Swedish, Norway Norwegian, Denmark Danish, Finland Finnish, Poland Polish, Germany German, "
        "Italy Italian, France French, Spain Spanish, Portugal Portuguese, Austria Austrian, Switzerland Swiss, "
        "Belgium Belgian, Greece Greek, Turkey Turkish, Hungary Hungarian, Ireland Irish, Iceland Icelandic, "
        "Estonia Estonian, "
        "Latvia Latvian, Lithuania Lithuanian, Croatia Croatian, Serbia Serbian, Romania Romanian, Bulgaria Bulgarian, "
        "Ukraine Ukrainian, Japan Japanese, China Chinese, India Indian, Vietnam Vietnamese, Thailand Thai, "
        "Indonesia Indonesian, Australia Australian, Canada Canadian, Mexico Mexican, Brazil Brazilian, Chile Chilean, "
        "Argentina Argentinian, Peru Peruvian, Egypt Egyptian, Morocco Moroccan, Kenya Kenyan, Nigeria Nigerian, "
        "Ghana Ghanaian, Israel Israeli, Lebanon Lebanese, Slovakia Slovak, Slovenia Slovenian, Korea Korean",
    )
)

# Kinds with few members, whose names are the same in every graph.
CLOSED_KINDS: dict[str, tuple[str, ...]] = {
    kind: tuple(part.strip() for part in names.split(","))
    for kind, names in {
        "month": "January, February, March, April, May, June, July, August, September, October, November, December",
        "weekday": "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday",
        "season": "spring, summer, autumn, winter, rainy season, dry season",
        "colour": "red, blue, green, yellow, black, white, orange, purple, brown, pink, grey, turquoise, ivory, maroon",
        "zodiac sign": "Aries, Taurus, Gemini, Cancer, Leo, Virgo, Libra, Scorpio, Sagittarius, Capricorn, Aquarius",
        "part of speech": "noun, verb, adjective, adverb, pronoun, preposition, conjunction, interjection",
        "grammatical gender": "masculine, feminine, neuter, common gender",
        "occupation": "painter, engineer, lawyer, farmer, actor, nurse, architect, journalist, sailor, teacher, "
        "chemist, composer, judge, baker, pilot, carpenter, photographer, economist, diplomat, surgeon, translator",
        "genre": "drama, comedy, thriller, horror, western, romance, science fiction, fantasy, documentary, musical, "
        "crime, war, adventure, mystery, satire, family, noir",
        "literary genre": "novel, novella, epic, gothic fiction, detective fiction, memoir, fable, travel writing, "
        "historical fiction, magic realism, dystopia, essay",
        "music genre": "jazz, folk, rock, techno, blues, reggae, soul, punk, ambient, opera, disco, hip hop, bluegrass",
        "game genre": "role-playing game, platformer, puzzle game, shooter, strategy, racing game, simulation",
        "game mode": "single-player, multiplayer, co-op, online, split screen, hot seat",
        "sport": "football, tennis, rugby, swimming, fencing, judo, rowing, cricket, archery, handball, volleyball",
        "position": "goalkeeper, defender, midfielder, forward, winger, striker, point guard, pitcher, libero, prop",
        "symptom": "fever, cough, headache, nausea, fatigue, rash, dizziness, joint pain, insomnia, chest pain, chills",
        "side effect": "drowsiness, dry mouth, weight gain, blurred vision, constipation, tremor, hair loss, hives",
        "cause of death": "pneumonia, heart attack, stroke, drowning, tuberculosis, cancer, car accident, a fall",
        "musical instrument": "piano, violin, cello, flute, trumpet, oboe, harp, guitar, drums, accordion, clarinet",
        "voice type": "soprano, mezzo-soprano, alto, tenor, baritone, bass, countertenor",
        "musical key": "C major, A minor, G major, E minor, D minor, F major, B-flat major, C-sharp minor",
        "degree": "bachelor of arts, master of science, doctor of philosophy, bachelor of laws, diploma, licentiate",
        "energy source": "coal, wind, solar, hydropower, natural gas, uranium, biomass, geothermal, tidal",
        "body part": "head, neck, wrist, foot, waist, hand, shoulder, ear, ankle, finger",
        "organ": "heart, liver, kidney, lung, brain, stomach, pancreas, spleen, skin, bladder",
        "climate": "oceanic climate, desert climate, tundra, monsoon climate, continental climate, steppe climate",
        "form of government": "republic, monarchy, federation, theocracy, city-state, military junta, confederation",
        "military rank": "general, colonel, major, captain, lieutenant, sergeant, corporal, admiral, commodore",
        "military branch": "army, navy, air force, coast guard, marines, cavalry, artillery",
        "conservation status": "endangered, vulnerable, extinct, least concern, critically endangered, near threatened",
        "taxonomic rank": "species, genus, family, order, class, phylum, subspecies, tribe",
        "crystal system": "cubic, hexagonal, monoclinic, triclinic, tetragonal, orthorhombic",
        "programming paradigm": "functional, object-oriented, imperative, logic programming, procedural, reactive",
        "typing discipline": "static typing, dynamic typing, strong typing, duck typing, gradual typing",
        "data type": "integer, string, float, boolean, list, map, tuple, bytes, date-time",
        "word order": "subject-verb-object, subject-object-verb, verb-subject-object, object-verb-subject, free order",
        "cooking method": "boiling, frying, baking, grilling, steaming, smoking, roasting, braising, pickling",
        "course of a meal": "starter, main course, dessert, side dish, appetizer, soup course",
        "allergen": "peanuts, gluten, milk, eggs, soy, shellfish, sesame, mustard, celery",
        "route of administration": "oral, intravenous, topical, inhalation, subcutaneous, nasal, rectal",
        "transmission route": "air, water, mosquito bites, blood, contact, contaminated food, ticks",
        "medical specialty": "cardiology, neurology, oncology, dermatology, pediatrics, urology, psychiatry",
        "light condition": "full sun, partial shade, deep shade, bright indirect light",
        "rating": "suitable for all ages, parental guidance, 12 and over, 16 and over, adults only",
        "order status": "open, confirmed, packed, shipped, delivered, cancelled, on hold, returned",
        "ticket status": "new, in progress, waiting for customer, resolved, closed, reopened",
        "priority": "low, normal, high, urgent, critical",
        "payment method": "credit card, bank transfer, cash, direct debit, invoice, gift card, instalments",
        "market segment": "retail, wholesale, public sector, small business, private households, enterprise, students",
        "job title": "accountant, sales manager, software engineer, warehouse clerk, analyst, receptionist, buyer, "
        "data scientist, office assistant, team leader, controller, technician, intern",
        "skill": "Excel, negotiation, Python, bookkeeping, forklift driving, welding, SQL, public speaking, Spanish, "
        "first aid, project planning, copywriting",
        "issue state": "open, closed, in review, stale, needs information, merged, duplicate",
        "issue label": "bug, enhancement, documentation, question, good first issue, security, performance, regression",
        "severity": "minor, warning, major, critical, information only",
        "measured quantity": "temperature, pressure, humidity, vibration, flow, oil level, noise, voltage",
        "inspection result": "passed, failed, passed with remarks, follow-up needed, postponed",
        "permit type": "demolition, new building, scaffolding, tree felling, road closure, blasting, sign, extension",
        "school subject": "mathematics, history, biology, geography, physics, French, music, chemistry, economics",
        "fare zone": "zone A, zone B, zone C, zone D, zone E, zone F, zone G",
        "outcome": "settled, dismissed, won, lost, appealed, withdrawn, still pending",
        "package category": "utils, libs, games, admin, devel, net, science, fonts, python, sound, text",
        "nation": ", ".join(DEMONYMS),
        "record status": "active, inactive, pending, archived, suspended, approved, planned, closed, on hold",
        "tier": "gold, silver, bronze, platinum, standard, premium, basic, trial",
        "sales region": "Scandinavia, Iberia, North America, Latin America, Oceania, East Asia, Central Europe",
        "division": "Finance, Marketing, Logistics, Purchasing, Research, Legal, Production, Quality, Training",
        "currency code": "EUR, USD, GBP, CHF, SEK, PLN, JPY, CAD, NOK, BRL",
        "spectral class": "class O, class B, class A, class F, class G, class K, class M",
    }.items()
}

# What may be true or false of a thing, by its kind or the last word of that. Of other kinds nothing is.
TRUTH_WORDS: dict[str, tuple[str, ...]] = {
    kind: tuple(words.split(", "))
    for kinds, words in {
        "film, book, song, album, game, series, magazine, newspaper, painting, play, podcast, episode, poem": (
            "award winning, out of print, restored, digital, controversial, translated, archived, banned"
        ),
        "food, dish, ingredient, drink, beverage, cheese, wine, beer, recipe, meal": (
            "vegan, organic, seasonal, gluten free, edible raw, spicy, vegetarian, halal"
        ),
        "animal, species, bird, breed, fish, mammal, pet": "endangered, nocturnal, domesticated, venomous, extinct",
        "plant, crop, flower, tree, fruit": "edible, evergreen, poisonous, organic, invasive, protected, perennial",
        "element, compound, substance, mineral, gemstone, isotope, material, metal, drug, chemical": (
            "radioactive, toxic, magnetic, flammable, soluble, synthetic, conductive, hazardous, recyclable"
        ),
        "person, employee, customer, student, patient, driver, player, supplier, vendor, client, author, agent": (
            "active, retired, insured, verified, certified, licensed, vaccinated, full time, remote"
        ),
        "company, bank, brand, shop, store, hospital, school, university, museum, hotel, restaurant, organization": (
            "public, private, listed, accredited, certified, wheelchair accessible, nonprofit, family owned, open"
        ),
        "product, part, item, article, device, bike, vehicle, car, machine, tool, component, instrument": (
            "electric, discontinued, portable, waterproof, foldable, imported, refundable, fragile, recyclable, taxable"
        ),
        "order, invoice, ticket, task, shipment, booking, loan, trip, flight, project, contract, delivery": (
            "paid, urgent, approved, refundable, archived, cancelled, overdue, insured, confidential"
        ),
        "software, package, library, service, website, dataset, repository, application, server": (
            "open source, free, deprecated, maintained, archived, digital, verified, public, encrypted"
        ),
        "city, town, village, country, region, island, place, park, lake, river, mountain, beach, district": (
            "inhabited, protected, navigable, fortified, coastal, accessible, landlocked, walkable"
        ),
        "building, stadium, station, airport, bridge, castle, church, house, warehouse, room, tower": (
            "listed, wheelchair accessible, heated, fortified, automatic, renovated, public, inhabited"
        ),
        "law, document, court case, patent, paper, article, standard": (
            "classified, public, approved, archived, peer reviewed, binding, expired"
        ),
        "star, planet, galaxy, moon, constellation": "visible, inhabited, ringed, explored, magnetic",
        "team, club, league, match, race": "professional, international, sold out, undefeated, televised",
        "disease, symptom, treatment, gene, protein": "contagious, hereditary, chronic, approved, reportable, curable",
        "language, word": "endangered, tonal, official, extinct, standardized",
    }.items()
    for kind in kinds.split(", ")
}


def truth_words(kind: str) -> tuple[str, ...]:
    """What may be true or false of a thing of this kind.

    >>> truth_words("book")[1], truth_words("software package")[0], truth_words("blood type")
    ('out of print', 'open source', ())
    """
    return TRUTH_WORDS.get(kind) or TRUTH_WORDS.get(kind.split(" ")[-1], ())
