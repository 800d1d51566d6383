"""Countries, their languages and the money they have used, as N-Quads: `python make.py CLDR_CORE CLDR_NAMES OUT.nq`.

From the Unicode locale data (packages cldr-core, cldr-localenames-full and, beside the latter, cldr-numbers-full).
When a currency was tender is the time of the fact; names are there in English, German, French and Spanish.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

BASE = "http://example.org/money/"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
LANGUAGES = ("en", "de", "fr", "es")
CONTINENTS = {"002": "Africa", "019": "Americas", "142": "Asia", "150": "Europe", "009": "Oceania"}
OFFICIAL = ("official", "de_facto_official")
DAYS = {"mon": "Monday", "sun": "Sunday", "sat": "Saturday", "fri": "Friday"}


def main() -> None:
    core, names = Path(sys.argv[1]), Path(sys.argv[2])
    numbers = names.parent.parent / "cldr-numbers-full" / "package"

    def supplemental(name: str) -> Any:
        return json.loads((core / "supplemental" / f"{name}.json").read_text())["supplemental"][name]

    def display(language: str, part: str, where: Path = names) -> Any:
        file = where / "main" / language / f"{part}.json"
        return json.loads(file.read_text())["main"][language]

    territories = {at: display(at, "territories")["localeDisplayNames"]["territories"] for at in LANGUAGES}
    languages = {at: display(at, "languages")["localeDisplayNames"]["languages"] for at in LANGUAGES}
    currencies = {at: display(at, "currencies", numbers)["numbers"]["currencies"] for at in LANGUAGES}
    information, regions = supplemental("territoryInfo"), supplemental("currencyData")["region"]
    containment, weeks = supplemental("territoryContainment"), supplemental("weekData")["firstDay"]
    lines: list[str] = []

    def node(kind: str, code: str) -> str:
        return f"<{BASE}{kind}/{code}>"

    def fact(head: str, relation: str, tail: str, time: str = "") -> None:
        lines.append(f"{head} <{BASE}{relation}> {tail}{f' <urn:kgwalk:time:{time}>' if time else ''} .")

    def text(value: object, tag: str = "") -> str:
        return json.dumps(str(value), ensure_ascii=False) + (f"@{tag}" if tag else "")

    def thing(kind: str, code: str, names: dict[str, str]) -> str:
        head = node(kind, code)
        lines.append(f"{head} <{TYPE}> <{BASE}{kind.capitalize()}> .")
        lines.extend(f"{head} <{LABEL}> {text(name, tag)} ." for tag, name in names.items())
        return head

    held = {code for code in information if code in regions and code.isalpha()}
    parts: dict[str, str] = {}
    for continent in CONTINENTS:
        left = list(containment[continent]["_contains"])
        thing("continent", continent, {at: territories[at][continent] for at in LANGUAGES})
        while left:
            code = left.pop()
            if code.isalpha() and code in held:
                parts[code] = continent
            elif code in containment:
                left += containment[code]["_contains"]
    spoken, money = set(), set()
    for code in sorted(parts):
        head = thing("country", code, {at: territories[at][code] for at in LANGUAGES})
        fact(head, "continent", node("continent", parts[code]))
        about = information[code]
        for relation, key in (("population", "_population"), ("gdp_usd", "_gdp"), ("literacy", "_literacyPercent")):
            if key in about:
                fact(head, relation, text(about[key]))
        fact(head, "week_starts_on", text(DAYS[weeks.get(code, weeks["001"])]))
        for language, share in about.get("languagePopulation", {}).items():
            if share.get("_officialStatus") in OFFICIAL and language in languages["en"]:
                spoken.add(language)
                fact(head, "official_language", node("language", language))
        for entry in regions[code]:
            ((currency, span),) = entry.items()
            if span.get("_tender") != "false" and currency in currencies["en"] and "_from" in span:
                money.add(currency)
                fact(head, "currency", node("currency", currency), f"{span['_from']}..{span.get('_to', '')}")
    for code in sorted(spoken):
        thing("language", code, {at: languages[at][code] for at in LANGUAGES if code in languages[at]})
    for code in sorted(money):
        shown = {at: currencies[at][code].get("displayName", "") for at in LANGUAGES if code in currencies[at]}
        head = thing("currency", code, {at: name for at, name in shown.items() if name})
        fact(head, "code", text(code))
    Path(sys.argv[3]).write_text("\n".join(lines) + "\n")


main()
