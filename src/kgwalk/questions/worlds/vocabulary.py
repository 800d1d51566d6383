"""English words for titles and things, common names of people, and the kinds whose members everyone knows.

Knows no grammar, and nothing of graphs.
"""

from __future__ import annotations


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

# Kinds with few members, which graphs share: the names are no secret, and are the same in every world.
CLOSED: dict[str, tuple[str, ...]] = {
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
        "spectral class": "class O, class B, class A, class F, class G, class K, class M",
    }.items()
}
