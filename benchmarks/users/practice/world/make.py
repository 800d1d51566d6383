"""The countries of the world as Turtle: `python make.py WORLD_COUNTRIES COUNTRY_JSON OUT.ttl`.

The first two are the unpacked npm packages world-countries (names, borders, languages, currencies, areas) and
country-json (population, height, temperature, life expectancy, independence, government, dish). Areas, heights,
temperatures and life expectancies are nodes with an amount and a unit. Countries and regions have names in English and
German, and cities whose German name is another one too.
"""

# ruff: noqa: E501 (a table of names)

from __future__ import annotations

import json
import re
import sys
import unicodedata
from pathlib import Path
from typing import Any

HEAD = """@prefix : <http://example.org/world/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .

"""
GERMAN = {
    "Africa": "Afrika", "Americas": "Amerika", "Asia": "Asien", "Europe": "Europa", "Oceania": "Ozeanien",
    "Australia and New Zealand": "Australien und Neuseeland", "Caribbean": "Karibik", "Central America": "Mittelamerika",
    "Central Asia": "Zentralasien", "Central Europe": "Mitteleuropa", "Eastern Africa": "Ostafrika", "Eastern Asia": "Ostasien",
    "Eastern Europe": "Osteuropa", "Melanesia": "Melanesien", "Micronesia": "Mikronesien", "Middle Africa": "Zentralafrika",
    "North America": "Nordamerika", "Northern Africa": "Nordafrika", "Northern Europe": "Nordeuropa", "Polynesia": "Polynesien",
    "South America": "Südamerika", "South-Eastern Asia": "Südostasien", "Southeast Europe": "Südosteuropa",
    "Southern Africa": "Südliches Afrika", "Southern Asia": "Südasien", "Southern Europe": "Südeuropa",
    "Western Africa": "Westafrika", "Western Asia": "Vorderasien", "Western Europe": "Westeuropa",
    "Athens": "Athen", "Beijing": "Peking", "Belgrade": "Belgrad", "Brussels": "Brüssel", "Bucharest": "Bukarest", "Cairo": "Kairo",
    "Copenhagen": "Kopenhagen", "Lisbon": "Lissabon", "Moscow": "Moskau", "Prague": "Prag", "Rome": "Rom", "Tokyo": "Tokio",
    "Vienna": "Wien", "Warsaw": "Warschau", "Kyiv": "Kiew", "Mexico City": "Mexiko-Stadt", "Havana": "Havanna",
    "English": "Englisch", "French": "Französisch", "Spanish": "Spanisch", "German": "Deutsch", "Portuguese": "Portugiesisch",
    "Arabic": "Arabisch", "Russian": "Russisch", "Italian": "Italienisch", "Dutch": "Niederländisch", "Chinese": "Chinesisch",
}  # fmt: skip
QUANTITIES = (  # relation, file and field of country-json (none: from world-countries), unit
    ("area", "", "", "square kilometres"),
    ("averageElevation", "elevation", "elevation", "metres"),
    ("averageTemperature", "yearly-average-temperature", "temperature", "degrees Celsius"),
    ("lifeExpectancy", "life-expectancy", "expectancy", "years"),
)


def slug(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9]+", "_", plain).strip("_")


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def main() -> None:
    countries = [one for one in json.loads((Path(sys.argv[1]) / "countries.json").read_text()) if one["unMember"]]
    iri = {one["cca3"]: f":{slug(one['name']['common'])}" for one in countries}
    lines: dict[str, None] = {}  # in order, each once

    def thing(name: str, kind: str, taken: str = "", german: str = "") -> str:
        """A thing with its class and labels; one that has a country's name gets its class behind it in the address."""
        node = f":{slug(name)}"
        if kind != "Country" and (node in iri.values() or taken):
            node += f"_{kind.lower()}"
        german = german or GERMAN.get(name, "")
        also = f" , {quoted(german)}@de" if german else ""
        lines[f"{node} a :{kind} ; rdfs:label {quoted(name)}@en{also} ."] = None
        return node

    def extra(file: str, field: str) -> dict[str, Any]:
        rows = json.loads((Path(sys.argv[2]) / "src" / f"country-by-{file}.json").read_text())
        return {row["country"]: row[field] for row in rows if row.get(field) not in (None, "", "NULL")}

    numbers = {relation: extra(file, field) if file else {} for relation, file, field, _ in QUANTITIES}
    people, since = extra("population", "population"), extra("independence-date", "independence")
    rule, dish = extra("government-type", "government"), extra("national-dish", "dish")
    for one in countries:
        name = one["name"]["common"]
        node = thing(name, "Country", german=one["translations"]["deu"]["common"])
        numbers["area"][name] = one["area"]
        said: list[tuple[str, str]] = [
            ("isoCode", quoted(one["cca3"])),
            ("officialName", quoted(one["name"]["official"])),
        ]
        region = thing(one["region"], "Region")
        part = thing(one["subregion"], "Region") if one["subregion"] else region
        if part != region:
            lines[f"{part} :partOf {region} ."] = None
        said.append(("partOf", part))
        said += [("capital", thing(city, "City")) for city in one["capital"]]
        said += [("language", thing(text, "Language", "language")) for text in one["languages"].values()]
        said += [("currency", thing(money["name"], "Currency", "currency")) for money in one["currencies"].values()]
        said += [("borders", iri[code]) for code in one["borders"] if code in iri]
        said += [("landlocked", str(one["landlocked"]).lower()), ("demonym", quoted(one["demonyms"]["eng"]["m"]))]
        if name in people:
            said.append(("population", str(int(people[name]))))
        if re.fullmatch(r"\d{4}", str(since.get(name, ""))):
            said.append(("independentSince", f'"{since[name]}"^^xsd:gYear'))
        if name in rule:
            said.append(("government", thing(rule[name], "Government", "government")))
        if name in dish:
            said.append(("nationalDish", quoted(dish[name].strip(" ,"))))
        for relation, *_, unit in QUANTITIES:
            if name in numbers[relation]:
                value = f"{node}_{relation}"
                lines[f"{value} a :Quantity ; :amount {numbers[relation][name]} ; :unit {quoted(unit)} ."] = None
                said.append((relation, value))
        lines[f"{node} " + " ;\n    ".join(f":{relation} {what}" for relation, what in said) + " ."] = None
    Path(sys.argv[3]).write_text(HEAD + "\n".join(lines) + "\n")


main()
