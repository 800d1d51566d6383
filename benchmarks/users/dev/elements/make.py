"""The chemical elements as Turtle, from the database of the package mendeleev: `python make.py elements.db OUT.ttl`.

Elements, series, discoverers, countries and isotopes are things with a class; temperatures, densities and prices are
nodes with an amount and a unit, as many vocabularies have them.
"""

from __future__ import annotations

import re
import sqlite3
import sys
from pathlib import Path

HEAD = """@prefix : <http://example.org/elements/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .

"""
QUANTITIES = (  # relation, column, unit
    ("meltingPoint", "melting_point", "kelvin"),
    ("boilingPoint", "boiling_point", "kelvin"),
    ("density", "density", "grams per cubic centimetre"),
    ("price", "price_per_kg", "US dollars per kilogram"),
)
CHAINS = ((92, 238), (92, 235), (90, 232))  # the heads of the natural decay chains
STEPS = {"A": (-2, -4), "B-": (1, 0), "EC": (-1, 0), "B+": (-1, 0)}
RENAMED = {
    "Sir William Ramsey": "William Ramsay",
    "Sir William Ramsay": "William Ramsay",
    "Sir William Crookes": "William Crookes",
    "Sir H. Davy": "Humphry Davy",
    "Sir Humphrey Davy": "Humphry Davy",
    "R. Bunsen": "Robert Bunsen",
    "G. Kirchoff": "Gustav Kirchhoff",
    "Gustov Kirchoff": "Gustav Kirchhoff",
    "J. Berzelius": "Jöns Berzelius",
    "M. Klaproth": "Martin Klaproth",
    "S. Tenant": "Smithson Tennant",
    "Smithson Tenant": "Smithson Tennant",
    "L. N. Vauquelin": "Louis Vauquelin",
    "P. T. Cleve": "Per Theodor Cleve",
    "E. Segré": "Emilio Segrè",
    "Émillo Segrè": "Emilio Segrè",
    "Pierre": "Pierre Curie",
    "Fausto": "Fausto Elhuyar",
}
NO_PERSON = re.compile(
    "Argonne|Los Alamos|Calif|Institute|Soviet|Research|RIKEN|Laborator|et al|team|scientist|Univ", re.I
)
COUNTRIES = {"United States": "USA", "Kyrgzstan": "Kyrgyzstan", "Republic of Korea": "South Korea"}


def iri(name: str) -> str:
    return ":" + re.sub(r"\W+", "_", name).strip("_")


def people(text: str | None) -> list[str]:
    """The persons of a field that also has "Known to the ancients", teams and remarks."""
    if not text or "ancient" in text.lower():
        return []
    parts = re.split(r",| and | & |;", re.sub(r"\(.*?\)", "", text))
    names = [" ".join(part.replace(".", ". ").split()).rstrip(".") for part in parts]
    return [RENAMED.get(name, name) for name in names if len(name) > 4 and not NO_PERSON.search(name)]


def main() -> None:
    db = sqlite3.connect(sys.argv[1])
    db.row_factory = sqlite3.Row
    lines = [HEAD]
    seen: set[str] = set()

    def thing(name: str, kind: str) -> str:
        node = iri(name)
        if node not in seen:
            seen.add(node)
            lines.append(f'{node} a :{kind} ; rdfs:label "{name}"@en .')
        return node

    series = {row["id"]: row["name"] for row in db.execute("SELECT * FROM series")}
    names = {row["atomic_number"]: row["name"] for row in db.execute("SELECT * FROM elements")}
    query = """SELECT e.*, p.melting_point, p.boiling_point FROM elements e LEFT JOIN
        (SELECT * FROM phasetransitions GROUP BY atomic_number HAVING id = MIN(id)) p USING (atomic_number)
        ORDER BY atomic_number"""
    for row in db.execute(query):
        node = thing(row["name"], "Element")
        facts = [f":atomicNumber {row['atomic_number']}", f':symbol "{row["symbol"]}"', f":period {row['period']}"]
        facts.append(f":series {thing(series[row['series_id']], 'Series')}")
        facts.append(f':block "{row["block"]}-block"')
        if row["group_id"]:
            facts.append(f":groupNumber {row['group_id']}")
        if row["atomic_weight"]:
            facts.append(f":atomicWeight {row['atomic_weight']:.6g}")
        if row["discovery_year"]:
            facts.append(f':discoveryYear "{row["discovery_year"]}"^^xsd:gYear')
        facts += [f":discoveredBy {thing(person, 'Scientist')}" for person in people(row["discoverers"])]
        for place in re.split("/| and ", row["discovery_location"] or ""):
            if place.strip():
                facts.append(f":discoveredIn {thing(COUNTRIES.get(place.strip(), place.strip()), 'Country')}")
        for country in re.findall(r"\d\) ?([A-Z][\w. ]*?)(?= *\d\)|,|;|$)", row["top_3_producers"] or ""):
            facts.append(f":topProducer {thing(COUNTRIES.get(country.strip(), country.strip()), 'Country')}")
        facts.append(f":radioactive {'true' if row['is_radioactive'] else 'false'}")
        for relation, column, unit in QUANTITIES:
            if row[column] is not None:
                value = f"{iri(row['name'])}_{column}"
                lines.append(f'{value} a :Quantity ; :amount {row[column]:.6g} ; :unit "{unit}" .')
                facts.append(f":{relation} {value}")
        lines.append(f"{node} " + " ;\n    ".join(facts) + " .")

    isotopes: dict[tuple[int, int], sqlite3.Row] = {}
    for row in db.execute("SELECT * FROM isotopes WHERE abundance > 0"):
        isotopes[row["atomic_number"], row["mass_number"]] = row
    decays: dict[tuple[int, int], tuple[int, int]] = {}
    for head in CHAINS:
        at: tuple[int, int] | None = head
        while at is not None:
            row = db.execute("SELECT * FROM isotopes WHERE atomic_number = ? AND mass_number = ?", at).fetchone()
            isotopes[at] = row
            mode = db.execute(
                "SELECT mode FROM isotopedecaymodes WHERE isotope_id = ? ORDER BY intensity DESC", (row["id"],)
            ).fetchone()
            step = STEPS.get(mode["mode"]) if mode and row["is_radioactive"] else None
            following = (at[0] + step[0], at[1] + step[1]) if step else None
            if following is not None:
                decays[at] = following
            at = following
    for (number, mass), row in sorted(isotopes.items()):
        node = thing(f"{names[number]}-{mass}", "Isotope")
        facts = [f":isotopeOf {iri(names[number])}", f":massNumber {mass}"]
        if row["abundance"]:
            facts.append(f":naturalAbundancePercent {row['abundance']:.6g}")
        if row["discovery_year"]:
            facts.append(f':discoveryYear "{row["discovery_year"]}"^^xsd:gYear')
        if (number, mass) in decays:
            to, to_mass = decays[number, mass]
            facts.append(f":decaysTo {iri(f'{names[to]}-{to_mass}')}")
        lines.append(f"{node} " + " ; ".join(facts) + " .")
    Path(sys.argv[2]).write_text("\n".join(lines) + "\n")


main()
