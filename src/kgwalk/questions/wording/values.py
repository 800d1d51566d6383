"""Words for values: what the most and the least of something is called, how a bound is said, and units.

    value_words("date of birth").least     # ("oldest", "eldest"): the earliest birth is the oldest person's
    value_words("distance", "star").most   # ("farthest", "most distant"): of a trip it would be "longest"
    split_unit(("height", "cm"))           # (("height",), "cm"): "the height of X", not "the height cm of X"
    spoken_units("kg")                     # ("kg", "kilos", "kilograms"): "under 12 kilos"

`measures` and what builds on it use the words, `relation_names` the units.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kgwalk.questions.wording.english import NUMBER, is_participle, is_plural, kind_of, plural, third, word_set


class ValueWords(NamedTuple):
    """Wordings for one kind of value, each empty where there is none."""

    most: tuple[str, ...] = ()  # adjectives for the largest value, the latest date: "most populous", "newest"
    least: tuple[str, ...] = ()
    did_most: tuple[str, ...] = ()  # what the one with the largest value does or did: "has the most inhabitants"
    did_least: tuple[str, ...] = ()
    did: str = ""  # for dates, a verb that a time follows: "were founded" after 1990
    done: str = ""  # the same after a noun: "that were founded"
    counted: str = ""  # what the number counts, in the plural: "inhabitants"
    verb: str = ""  # for numbers, a verb that an amount follows: "cost" more than 50


class _Row(NamedTuple):
    noun: str  # a pattern for the value's noun, from the start of a word
    kind: str  # a pattern for the kind of thing that has the value; "" fits any
    words: ValueWords


def _of(
    pattern: str, most: str = "", least: str = "", did: str = "", done: str = "", *, kind: str = "", **more: str
) -> _Row:
    """A row of the table. Alternatives are separated by commas; `did` also gives "was ... last" and "was ... first".

    A `verb` also gives "costs the most" and "costs the least", and a `counted` "has the most" and "has the fewest".
    """
    one, texts = re.sub(r"^are ", "is ", did.replace("were ", "was ")), {"most": most, "least": least}
    counted, verb = more.pop("counted", ""), more.pop("verb", "")
    if did:
        texts |= {"did_most": f"{one} last", "did_least": f"{one} first"}
    elif verb:
        texts |= {"did_most": f"{third(verb)} the most", "did_least": f"{third(verb)} the least"}
    elif counted:
        texts |= {"did_most": f"has the most {counted}", "did_least": f"has the fewest {counted}"}
    texts |= more
    split = {name: tuple(filter(None, text.split(", "))) for name, text in texts.items()}
    return _Row(pattern, kind, ValueWords(**split, did=did, done=done, counted=counted, verb=verb))


# The first row that fits counts. Of a date, the largest is the latest: the youngest person, the newest house.
_WORDINGS = (
    # where things lie
    _of(
        r"latitude|parallel",
        "northernmost, most northern, most northerly", "southernmost, most southern, most southerly",
        did_most="lies furthest north, lies farthest to the north",
        did_least="lies furthest south, lies farthest to the south",
    ),
    _of(
        r"longitude|meridian",
        "easternmost, most eastern, most easterly", "westernmost, most western, most westerly",
        did_most="lies furthest east, lies farthest to the east",
        did_least="lies furthest west, lies farthest to the west",
    ),
    _of(r"elevation|altitude", "highest, highest-lying", "lowest, lowest-lying",
        did_most="lies highest, lies the highest above the sea", did_least="lies lowest, lies nearest to sea level"),
    _of(r"distance", "longest", "shortest", kind="trip|flight|route|race|journey|stage|ride",
        did_most="covers the most ground, goes the farthest", did_least="covers the least ground"),
    _of(r"distance", "farthest, most distant, furthest", "nearest, closest",
        did_most="is farthest away", did_least="is the closest to us, is nearest"),
    # how many
    _of(
        r"population|inhabitants", "most populous, biggest", "least populous, smallest", counted="inhabitants",
        did_most="has the most inhabitants, has the most people",
        did_least="has the fewest inhabitants, has the fewest people",
    ),
    _of(r"downloads|number of downloads|download count", "most downloaded, most popular",
        "least downloaded, least popular", counted="downloads"),
    _of(r"attendance|spectators|number of spectators", "best attended, busiest", "worst attended, emptiest",
        counted="spectators", did_most="had the most spectators, drew the biggest crowd",
        did_least="had the fewest spectators, drew the smallest crowd"),
    _of(r"deaths|death toll|casualties", "deadliest, bloodiest", "least deadly",
        did_most="cost the most lives, killed the most people", did_least="cost the fewest lives"),
    _of(r"citation", "most cited", "least cited", counted="citations"),
    _of(r"circulation", "most read, most widely read", "least read"),
    _of(r"pages|number of pages|page count", "longest, thickest", "shortest, thinnest", counted="pages"),
    _of(r"stars|number of stars|star count", "most popular, most starred", "least popular", kind="software|project",
        counted="stars"),
    _of(r"employees|number of employees|headcount", "biggest, largest", "smallest", counted="employees"),
    _of(r"stock", "best stocked", did_most="has the most units left, has the most in stock, is best stocked",
        did_least="has the fewest units left, has the least in stock, is closest to running out"),
    _of(r"lines|number of lines|lines of code", "biggest, largest", "smallest", counted="lines"),
    _of(r"quantity", "biggest, largest", "smallest"),
    # money
    _of(r"salary|pay\b|wage|earnings", "best paid, highest paid, best-earning", "worst paid, lowest paid", verb="earn",
        did_most="earns the most, makes the most, gets the highest pay", did_least="earns the least, makes the least"),
    _of(r"rent\b|monthly rent|room rate|nightly rate", "most expensive, dearest, priciest", "cheapest, least expensive",
        verb="cost"),
    _of(r"budget", did_most="has the most money to spend", did_least="has the least money to spend"),
    _of(r"(?:\w+ )?(?:price|cost)", "most expensive, dearest, priciest, costliest", "cheapest, least expensive",
        verb="cost"),
    _of(r"credit", did_most="may owe us the most", did_least="may owe us the least"),
    _of(r"discount|rebate", did_most="got the most off, got the biggest discount",
        did_least="got the least off, got the smallest discount"),
    _of(r"box office|gross\b(?! weight)|revenue", did_most="took in the most money, earned the most",
        did_least="earned the least"),
    _of(r"net worth|fortune", "richest, wealthiest", "poorest"),
    _of(r"gdp|gross domestic", did_most="has the biggest economy", did_least="has the smallest economy"),
    _of(r"prize money", did_most="pays the most", did_least="pays the least"),
    _of(r"(?:\w+ )?value\b", "highest", "lowest", kind="reading|measurement|observation",
        did_most="shows the most", did_least="shows the least"),
    _of(r"(?:contract )?value\b", "biggest, largest", "smallest", kind="contract|grant|order"),
    _of(r"balance", "fullest", "emptiest", did_most="has the most money in it", did_least="has the least money in it"),
    _of(r"(?:insured |insurance )?value\b|valuation", "most valuable, most precious", "least valuable",
        did_most="is worth the most", did_least="is worth the least"),
    _of(r"(?:order |invoice )?(?:total|amount)|damages|sum\b", "biggest, largest", "smallest"),
    # size and weight
    _of(r"height|\btall\b", "highest, tallest", "lowest", kind="mountain|hill|peak|volcano|waterfall"),
    _of(r"height|\btall\b", "tallest", "shortest"),
    _of(r"depth", "deepest", "shallowest"),
    _of(r"diameter", "biggest, largest", "smallest"),
    _of(r"(?:molar |body |gross |net )?(?:weight|mass)\b|molecular weight", "heaviest", "lightest", verb="weigh"),
    _of(r"installed size|(?:\w+ )?size\b", "biggest, largest, bulkiest", "smallest, leanest", kind="package|software"),
    _of(r"(?:\w+ )?area\b|size\b|(?:\w+ )?size\b", "largest, biggest", "smallest"),
    _of(r"capacity", "biggest, largest", "smallest",
        did_most="has the most room, holds the most", did_least="has the least room, holds the least"),
    _of(r"density", "densest", "least dense"),
    _of(r"hardness", "hardest", "softest"),
    # time that passes
    _of(r"lifespan", "longest-lived", "shortest-lived", did_most="lives longest", did_least="has the shortest life"),
    _of(r"half[ -]life", "longest-lived", "shortest-lived", did_most="has the longest half-life, takes longest to go",
        did_least="has the shortest half-life, is gone soonest"),
    _of(r"gestation", did_most="carries its young the longest", did_least="carries its young the shortest"),
    _of(r"orbital period", did_most="takes longest for one orbit", did_least="gets round fastest"),
    _of(r"lead time|delivery time", "slowest", "fastest, quickest",
        did_most="takes the longest to get, must be ordered earliest", did_least="can be had soonest"),
    _of(r"response time", "slowest answered", "fastest answered, quickest answered",
        did_most="was answered the slowest, waited the longest",
        did_least="was answered the fastest, was answered the quickest"),
    _of(r"preparation time|prep time|cooking time", "slowest, most time-consuming", "quickest, fastest",
        did_most="takes the longest, takes the most time", did_least="takes the least time, is ready soonest"),
    _of(r"effort|estimate", "biggest, most laborious", "smallest, least laborious",
        did_most="takes the most work", did_least="takes the least work"),
    _of(r"delay", "most delayed", "least delayed, most punctual",
        did_most="had the longest delay, was the most behind",
        did_least="had the shortest delay, was the least behind"),
    _of(r"length of stay", "longest", "shortest", did_most="lasts longest", did_least="is over soonest"),
    _of(r"length|long\b|duration|runtime|running time", "longest", "shortest"),
    _of(r"age\b", "oldest", "youngest"),
    _of(r"mileage|odometer", did_most="has been driven the most, has the most kilometres on the clock",
        did_least="has been driven the least, has the fewest kilometres on the clock"),
    # how strong, how warm, how good
    _of(r"wind speed", "strongest, windiest", "weakest"),
    _of(r"(?:\w+ )?speed", "fastest, swiftest", "slowest"),
    _of(r"(?:rated )?power\b", "strongest, most powerful", "weakest"),
    _of(r"(?:final )?(?:grade|mark)\b", "best", "worst", kind="enrolment|exam",
        did_most="went best, got the best mark", did_least="went worst, got the worst mark"),
    _of(r"magnitude", "strongest, most violent", "weakest"),
    _of(r"alcohol", "strongest", "weakest", did_most="has the most alcohol", did_least="has the least alcohol"),
    _of(r"melting point", did_most="melts at the highest temperature, stays solid longest when heated",
        did_least="melts at the lowest temperature, melts first when heated"),
    _of(r"boiling point", did_most="boils at the highest temperature, boils last when heated",
        did_least="boils at the lowest temperature, boils first when heated"),
    _of(r"(?:\w+ )?temperature|record high", "hottest, warmest", "coldest, coolest"),
    _of(r"(?:annual )?rainfall|precipitation", "wettest, rainiest", "driest"),
    _of(r"(?:\w+ )?rating|(?:review |customer )?score\b", "best rated, highest rated, top-rated",
        "worst rated, lowest rated", did_most="is rated best, gets the best marks",
        did_least="is rated worst, gets the worst marks"),
    _of(r"yield", "most productive, richest", "least productive", did_most="brings the most",
        did_least="brings the least"),
    _of(r"calories", "most fattening, richest", "lightest", did_most="has the most calories",
        did_least="has the fewest calories"),
    _of(r"consumption|reading", did_most="has used the most, shows the most", did_least="has used the least"),
    _of(r"(?:daily )?dose", did_most="needs the highest dose", did_least="needs the lowest dose"),
    # dates
    _of(r"birth|born|birthday|date of birth|day of birth", "youngest", "oldest, eldest", did="were born",
        done="who were born"),
    _of(r"death|died|date of death", did="died", done="who died"),
    _of(r"wedding|marriage", did="got married", done="who married"),
    _of(r"hire|hiring|joined|joining|join date|employed since|start date at", "newest, most recently hired",
        "longest-serving", did="were hired",
        done="who were hired", did_most="was hired last, joined last, is the newest here",
        did_least="was hired first, joined first, has been with us the longest, has been here longest"),
    _of(r"expiry|expiration|end date", did="run out", done="that run out",
        did_most="runs out last, is good for longest", did_least="runs out first, runs out soonest",
        kind="permit|contract|certificate|licence|policy|grant|rental"),
    _of(r"due date|deadline", "", "most urgent", did="are due", done="that are due",
        did_most="is due last", did_least="is due first, is due soonest", kind="task|ticket|project|order"),
    _of(r"due date|deadline", did="are due", done="that are due",
        did_most="is due last", did_least="is due first, is due soonest"),
    _of(r"order date|date of order", "latest, most recent, newest", "oldest, earliest, first", did="were placed",
        done="that were placed"),
    _of(r"ship date|shipping date|dispatch", "latest, most recent", "earliest, first", did="went out",
        done="that went out"),
    _of(r"departure date", "latest, most recent", "earliest, first", did="left", done="that left"),
    _of(r"arrival date|delivery date", "latest, most recent", "earliest, first", did="arrived", done="that arrived",
        kind="shipment|parcel|package|delivery"),
    _of(r"(?:check-in|arrival) date", "", "", did="start", done="that start", kind="booking|stay|reservation",
        did_most="starts last", did_least="starts first, starts soonest"),
    _of(r"resolution date|closing date", "", "", did="were solved", done="that were solved"),
    _of(r"visit date|match date|date of visit", "latest, most recent, last", "earliest, first", did="took place",
        done="that took place"),
    _of(r"filing date", "newest, latest, most recent", "oldest, earliest", did="were filed", done="that were filed"),
    _of(r"installation date|date of installation", "newest", "oldest", did="were installed",
        done="that were installed"),
    _of(r"last release|last update|date of the last", "most recently updated, freshest", "longest untouched",
        did_most="was updated most recently", did_least="has gone longest without an update"),
    _of(r"acquisition|acquired", did="were acquired", done="that were acquired"),
    _of(r"model year|year of manufacture", "newest", "oldest", did="were built", done="that were built"),
    _of(r"completion|construction|built|year of construction", "newest", "oldest", did="were completed",
        done="that were completed"),
    _of(r"found|inception|established|foundation", "newest, youngest", "oldest",
        did="were founded", done="that were founded"),
    _of(r"discovery", did="were discovered", done="that were discovered"),
    _of(r"release|publication|published|premiere", "newest, latest, most recent", "oldest, earliest, first",
        did="came out", done="that came out"),
    _of(r"launch", "newest", "oldest", did="were launched", done="that were launched"),
    _of(r"opened|opening|created|creation", "newest, latest", "oldest, earliest", did="were opened",
        done="that were opened"),
    _of(r"independence", did="became independent", done="that became independent"),
)  # fmt: skip
_COUNTED = re.compile(r"number of ([\w ]+)|(\w+) count")
# Nouns that say by themselves what is counted: "has the most seats".
_THINGS = word_set(
    "seats rooms stars points credits servings nights copies goals floors students speakers sides players episodes "
    "seasons acts children wins losses votes medals beds units members tracks"
)
VERBS = {third(row.words.verb): row.words.verb for row in _WORDINGS if row.words.verb}  # "costs": "cost"


def value_words(noun: str, kind: str = "") -> ValueWords:
    """The wordings for the value that a noun names, of a thing of this kind.

    >>> value_words("latitude").most[0], value_words("founding year").did_least, value_words("number of pages").did_most
    ('northernmost', ('was founded first',), ('has the most pages',))
    >>> value_words("unit price").least[0], value_words("distance", "star").least[0], value_words("seats").did_least
    ('cheapest', 'nearest', ('has the fewest seats',))
    """
    for row in _WORDINGS:
        if re.search(rf"\b(?:{row.noun})", noun) and (not row.kind or re.search(rf"\b(?:{row.kind})\b", kind)):
            return row.words
    counts = _COUNTED.search(noun)
    things = (counts[1] or plural(counts[2])) if counts else noun if noun in _THINGS else ""
    if not things:
        return ValueWords()
    return ValueWords(did_most=(f"has the most {things}",), did_least=(f"has the fewest {things}",), counted=things)


# Units


# Units that hardly mean anything else at the end of a name.
_CURRENCIES = word_set("eur usd gbp chf jpy cny inr aud cad sek nok dkk pln czk brl")
_CLEAR = _CURRENCIES | word_set(
    "mm cm km mm2 cm2 km2 m3 cm3 sqm sqft sqkm mg kg lb lbs oz kmh kph mph knots celsius fahrenheit "
    "kw mw gw kwh mwh gwh kj kcal hz khz mhz ghz kib mib gib tib mbps gbps mins secs hrs"
)
# Units only after the name of a quantity: `opening_hours` are hours, `class_g` is no weight.
_AFTER_MEASURES = word_set(
    "m g t l h s w v ft mi ha yr sec dm ml cl hl metres meters centimetres centimeters millimetres millimeters "
    "kilometres kilometers miles feet inches hectares acres grams kilograms kilos tonnes tons pounds ounces litres "
    "liters years months weeks days hours minutes seconds milliseconds degrees euros dollars cents "
    "sq square cubic thousand thousands million millions billion billions"
)
# Units only after certain quantities: `office_gb` is in Great Britain, `degree_ms` a Master of Science.
_TIMES = word_set(
    "commute cooldown delay downtime duration gestation incubation interval jitter latency lifespan lag overtime "
    "period ping playtime response retention rtt runtime span time timeout ttl uptime wait"
)
_BYTES = word_set(
    "bandwidth cache capacity disk footprint heap limit memory quota ram size space ssd hdd storage swap traffic usage "
    "volume vram"
)
_AREAS = word_set("area floor footprint garden land living lot plot size space surface")
_AFTER_SOME = dict.fromkeys(("kb", "mb", "gb", "tb"), _BYTES) | {"ms": _TIMES, "min": _TIMES, "m2": _AREAS}
_AFTER_SOME |= dict.fromkeys(("c", "f"), word_set("temperature"))
_UNITS = _CLEAR | _AFTER_MEASURES | (_AFTER_SOME.keys() - {"min"})
_BOUNDS = {"min": "minimum", "max": "maximum"}  # `salary_min_eur`, `max_speed`
_PERCENT = ("pct", "perc", "percent")
# Quantities, added to those of `english`.
_MEASURES = word_set(
    "altitude assets calories carbohydrates carbs circumference costs debt diameter displacement dose earnings energy "
    "expenses fat fiber fibre frequency intake life notice perimeter power pressure profit profits protein radius "
    "rainfall range salaries sales salt savings serving sugar tenure thickness torque turnover voltage wage wages "
    "warranty wavelength wind"
)
_BARE = word_set("number count total value amount quantity rate score")  # `total_hours` are hours
_LINKS = word_set("of per by to for from with and or at on the a an")


def split_unit(words: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """The words without the unit at their end, and the unit. Percent and bounds are not units but become words.

    >>> split_unit(("monthly", "cost", "eur")), split_unit(("length", "in", "days")), split_unit(("size", "sq", "km"))
    ((('monthly', 'cost'), 'EUR'), (('length',), 'days'), (('size',), 'sq km'))
    >>> split_unit(("opening", "hours")), split_unit(("price", "per", "kg")), split_unit(("turnout", "pct"))
    ((('opening', 'hours'), ''), (('price', 'per', 'kg'), ''), (('turnout', 'percentage'), ''))
    >>> split_unit(("salary", "min", "eur")), split_unit(("max", "speed")), split_unit(("runtime", "min"))
    ((('minimum', 'salary'), 'EUR'), (('maximum', 'speed'), ''), (('runtime',), 'min'))
    """
    words = tuple(words)
    if len(words) > 1 and words[-1].lower() in _PERCENT and words[-2] not in _LINKS | {"in"}:
        return (*words[:-1], "percentage"), ""
    named, unit = _cut(words)
    if not unit:
        named, unit = _cut(_bounded(words))  # latency_ms_max
    return _bounded(named), " ".join(map(_written, unit))


def _cut(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    at = len(words)
    while at > 1 and words[at - 1].lower() in _UNITS:
        at -= 1
    if at == len(words) > 1 and words[-1].lower() == "min":  # minutes, or the least
        at -= 1
    named, unit = words[:at], words[at:]
    told = len(named) > 1 and named[-1] == "in"  # height in cm
    named = named[:-1] if told else named
    measured = named[:-1] if len(named) > 1 and named[-1] in _BOUNDS else named
    last = measured[-1]
    if not unit or last in _LINKS or is_participle(last):
        return words, ()
    spelled = all(word.lower() in _CLEAR or len(word) > len("min") for word in unit)
    if told and spelled and not is_plural(last):  # but `expires in days`, `lives in mi`
        return named, unit
    return (named, unit) if all(_fits(word.lower(), last, told) for word in unit) else (words, ())


def _fits(unit: str, last: str, told: bool) -> bool:
    """Whether a unit can stand after the last word of a name."""
    if unit in _AFTER_SOME:
        return last in _AFTER_SOME[unit]
    return _is_measure(last) or (unit in _CLEAR and not told)


def _is_measure(word: str) -> bool:
    return word not in _BARE and (word in _MEASURES or word in _TIMES or word in _BYTES or kind_of(word) == NUMBER)


def _bounded(words: tuple[str, ...]) -> tuple[str, ...]:
    """Minimum and maximum spelled out and put in front.

    >>> _bounded(("age", "min")), _bounded(("max", "players")), _bounded(("max",))
    (('minimum', 'age'), ('maximum', 'players'), ('max',))
    """
    if len(words) < 2:
        return words
    if words[-1] in _BOUNDS and words[-2] not in _LINKS | {"in"} and not is_participle(words[-2]):
        return _BOUNDS[words[-1]], *words[:-1]
    return (_BOUNDS[words[0]], *words[1:]) if words[0] in _BOUNDS else words


def _written(unit: str) -> str:
    """Currencies are written in capitals."""
    low = unit.lower()
    return low.upper() if low in _CURRENCIES else low


# How people say a unit, by how it is written. Money: the currency, or the ones that people have in mind.
_SPOKEN = {
    form.strip(): tuple(said.strip() for said in spoken.split(","))
    for forms, spoken in {
        "kg, kilogram, kilograms, kilos": "kg, kilos, kilograms",
        "g, gram, grams": "g, grams",
        "mg, milligram": "mg, milligrams",
        "t, tonne, tonnes, tons": "tonnes, t",
        "lb, lbs, pounds": "lb, pounds",
        "m, metre, metres, meters": "m, metres, meters",
        "cm, centimetre, centimetres": "cm, centimetres",
        "mm, millimetre, millimetres": "mm, millimetres",
        "km, kilometre, kilometres, kilometers": "km, kilometres, kilometers",
        "mi, mile, miles": "miles",
        "ft, foot, feet": "feet, ft",
        "m2, sqm, square metre": "square metres, sqm, m2",
        "km2, square kilometre": "square kilometres, km2",
        "ha, hectare, hectares": "hectares, ha",
        "l, litre, litres, liters": "litres, liters",
        "min, mins, minute, minutes": "minutes, min, mins",
        "h, hrs, hour, hours": "hours, h",
        "s, sec, secs, second, seconds": "seconds, s",
        "day, days": "days",
        "month, months": "months",
        "year, years": "years",
        "kmh, kph, kilometre per hour": "km/h, kilometres an hour",
        "kwh, kilowatt hour": "kWh, kilowatt hours",
        "mw, megawatt": "MW, megawatts",
        "k, kelvin": "kelvin, K",
        "c, celsius, degree Celsius": "degrees, degrees Celsius, C",
        "kb, kilobyte": "kB, kilobytes",
        "mb": "MB, megabytes",
        "gb": "GB, gigabytes",
        "percent": "percent, %",
        "pallet": "pallets",
        "light year": "light years",
        "gram per mole": "g/mol, grams per mole",
        "gram per cubic centimetre": "grams per cubic centimetre, g/cm3",
        "tonne per hectare": "tonnes, tonnes per hectare",
        "EUR, euro, euros": "euros, euro, EUR",
        "USD, US dollar, dollars": "dollars, USD, bucks",
        "GBP, pound": "pounds, GBP, quid",
        "CHF": "francs, CHF",
        "money": "euros, dollars",
    }.items()
    for form in forms.split(",")
}


def spoken_units(unit: str) -> tuple[str, ...]:
    """How people say a unit after a number; nothing for a unit that is not known.

    >>> spoken_units("kg"), spoken_units("EUR"), spoken_units("furlong")
    (('kg', 'kilos', 'kilograms'), ('euros', 'euro', 'EUR'), ())
    """
    return _SPOKEN.get(unit, ())
