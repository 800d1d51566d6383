"""Units at the end of a relation's name: `height_cm`, `salary_eur`, `runtime_minutes`.

    split_unit(("height", "cm"))       # ("height",), "cm"

A unit is no part of the noun: one says "the height of X", not "the height cm of X". Knows words, no graph.
"""

from __future__ import annotations

from collections.abc import Sequence

from kgwalk.questions.english.inflect import is_participle, word_set
from kgwalk.questions.english.kinds import NUMBER, kind_of

# Abbreviations that hardly stand for anything else at the end of a name.
_CURRENCIES = word_set("eur usd gbp chf jpy cny inr aud cad sek nok dkk pln czk brl")
_CLEAR = _CURRENCIES | word_set(
    "mm cm dm km mm2 cm2 m2 km2 m3 cm3 sqm sqft sqkm mg kg lb lbs oz ml cl hl kmh kph mph knots celsius fahrenheit "
    "kw mw gw kwh mwh gwh kj kcal hz khz mhz ghz kb mb gb tb kib mib gib tib mbps gbps ms mins secs hrs "
)
# Units after the name of a quantity alone: `opening_hours` are hours, `class_g` is no weight.
_AFTER_MEASURES = word_set(
    "m g t l h s w v ft mi ha yr min sec metres meters centimetres centimeters millimetres millimeters kilometres "
    "kilometers miles feet inches hectares acres grams kilograms kilos tonnes tons pounds ounces litres liters "
    "years months weeks days hours minutes seconds milliseconds degrees euros dollars cents "
    "sq square cubic thousand thousands million millions billion billions"
)
_UNITS = _CLEAR | _AFTER_MEASURES
_PERCENT = ("pct", "perc", "percent")
# Quantities beside the common ones of `kinds`.
_MEASURES = word_set(
    "calories carbohydrates carbs circumference delay diameter dose energy fat fiber fibre frequency gestation "
    "incubation interval latency life lifespan memory notice period power pressure protein radius rainfall ram range "
    "retention salt span storage sugar tenure thickness time timeout uptime voltage warranty wavelength wind"
)
_BARE = word_set("number count total value amount quantity rate score")  # `total_hours` are hours
_LINKS = word_set("of per by to for from with and or at on the a an")


def split_unit(words: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """The words without the unit at their end, and the unit; percent is a word like others.

    >>> split_unit(("monthly", "cost", "eur")), split_unit(("length", "in", "days")), split_unit(("size", "sq", "km"))
    ((('monthly', 'cost'), 'EUR'), (('length',), 'days'), (('size',), 'sq km'))
    >>> split_unit(("opening", "hours")), split_unit(("price", "per", "kg")), split_unit(("turnout", "pct"))
    ((('opening', 'hours'), ''), (('price', 'per', 'kg'), ''), (('turnout', 'percentage'), ''))
    """
    words = tuple(words)
    if len(words) > 1 and words[-1].lower() in _PERCENT and words[-2] not in _LINKS | {"in"}:
        return (*words[:-1], "percentage"), ""
    at = len(words)
    while at > 1 and words[at - 1].lower() in _UNITS:
        at -= 1
    named, unit = words[:at], words[at:]
    told = len(named) > 1 and named[-1] == "in"  # height in cm
    named = named[:-1] if told else named
    last = named[-1]
    if not unit or last in _LINKS or is_participle(last):
        return words, ""
    if told or all(word.lower() in _CLEAR for word in unit) or _is_measure(last):
        return named, " ".join(map(_written, unit))
    return words, ""


def _is_measure(word: str) -> bool:
    return word not in _BARE and (word in _MEASURES or kind_of(word) == NUMBER)


def _written(unit: str) -> str:
    """Currencies are written in capitals."""
    low = unit.lower()
    return low.upper() if low in _CURRENCIES else low
