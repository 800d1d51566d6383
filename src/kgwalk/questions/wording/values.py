"""Words for values: what the most and the least of something is called, and the units at the end of a name.

    value_words("date of birth").least     # ("oldest", "eldest"): the earliest birth is the oldest person's
    split_unit(("height", "cm"))           # (("height",), "cm"): "the height of X", not "the height cm of X"

`measures` uses the first, `relation_names` the second.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kgwalk.questions.wording.english import NUMBER, is_participle, is_plural, kind_of, plural, word_set


class ValueWords(NamedTuple):
    """Wordings for one kind of value, each empty where there is none."""

    most: tuple[str, ...] = ()  # adjectives for the largest value: "most populous"
    least: tuple[str, ...] = ()
    did_most: tuple[str, ...] = ()  # what the one with the largest value does or did: "has the most inhabitants"
    did_least: tuple[str, ...] = ()
    did: str = ""  # for dates, a verb that a time follows: "were founded" after 1990
    done: str = ""  # the same after a noun: "that were founded"
    counted: str = ""  # what the number counts, in the plural: "inhabitants"


def _of(
    pattern: str, most: str = "", least: str = "", did: str = "", done: str = "", **more: str
) -> tuple[str, ValueWords]:
    """A row of the table. Alternatives are separated by commas; `did` also gives "was ... last" and "was ... first"."""
    one, texts = did.replace("were ", "was "), {"most": most, "least": least, **more}
    texts |= {"did_most": f"{one} last", "did_least": f"{one} first"} if did else {}
    counted = texts.pop("counted", "")
    split = {name: tuple(filter(None, text.split(", "))) for name, text in texts.items()}
    return pattern, ValueWords(**split, did=did, done=done, counted=counted)


_WORDINGS = (
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
    _of(
        r"population|inhabitants", "most populous, biggest", "least populous, smallest", counted="inhabitants",
        did_most="has the most inhabitants, has the most people",
        did_least="has the fewest inhabitants, has the fewest people",
    ),
    _of(r"height|tall", "tallest", "shortest"),
    _of(r"length|long|duration|runtime|running time", "longest", "shortest"),
    _of(r"lifespan", did_most="lives longest", did_least="has the shortest life"),
    _of(r"age", "oldest", "youngest"),
    _of(r"weight|mass", "heaviest", "lightest"),
    _of(r"price|cost|budget", "most expensive", "cheapest", did_most="cost the most", did_least="cost the least"),
    _of(r"box office|gross|revenue", did_most="took in the most money, earned the most", did_least="earned the least"),
    _of(r"net worth|fortune", "richest", "poorest"),
    _of(r"depth", "deepest", "shallowest"),
    _of(r"elevation|altitude", "highest", "lowest"),
    _of(r"area|size", "largest, biggest", "smallest"),
    _of(r"speed", "fastest", "slowest"),
    _of(r"birth|born|birthday", "youngest", "oldest, eldest", did="were born", done="who were born"),
    _of(r"death|died", did="died", done="who died"),
    _of(r"wedding|marriage", did="got married", done="who married"),
    _of(r"completion|construction|built", "newest", "oldest", did="were completed", done="that were completed"),
    _of(r"found|inception|established|foundation", "newest, youngest", "oldest",
        did="were founded", done="that were founded"),
    _of(r"discovery", did="were discovered", done="that were discovered"),
    _of(r"release|publication|published|premiere", "newest, latest, most recent", "oldest, earliest, first",
        did="came out", done="that came out"),
    _of(r"launch|opened|opening", "newest", "oldest", did="were launched", done="that were launched"),
    _of(r"independence", did="became independent", done="that became independent"),
)  # fmt: skip
_COUNTED = re.compile(r"number of (\w+)|(\w+) count")


def value_words(noun: str) -> ValueWords:
    """The wordings for the value that a noun names.

    >>> value_words("latitude").most[0], value_words("founding year").did_least, value_words("number of pages").did_most
    ('northernmost', ('was founded first',), ('has the most pages',))
    """
    for pattern, found in _WORDINGS:
        if re.search(rf"\b(?:{pattern})", noun):
            return found
    counts = _COUNTED.search(noun)
    if counts is None:
        return ValueWords()
    things = counts[1] or plural(counts[2])
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
