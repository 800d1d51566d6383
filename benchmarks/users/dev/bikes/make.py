"""An invented maker of bicycles as its database would export it: `python make.py FAKER OUT_FOLDER`.

Ten tables with keys and foreign keys. People's names are drawn from the lists of the package Faker, the rest is made
up here; nobody and nothing in it is real. The draws are seeded: the same tables every time.
"""

# ruff: noqa: E501 (a row of a table a line)

from __future__ import annotations

import csv
import importlib
import random
import sys
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

LOCALES = ("en_GB", "de_DE", "it_IT", "fr_FR", "nl_NL")
DEPARTMENTS = (  # name, building, floor, people
    ("Engineering", "Mill House", 2, 14),
    ("Production", "Hall A", 0, 20),
    ("Purchasing", "Mill House", 1, 6),
    ("Sales", "Canal Office", 1, 12),
    ("Marketing", "Canal Office", 2, 5),
    ("Finance", "Canal Office", 3, 5),
    ("Human Resources", "Canal Office", 3, 4),
    ("IT", "Mill House", 3, 5),
    ("Warehouse", "Hall B", 0, 9),
    ("Quality", "Hall A", 1, 4),
)
TITLES = {
    "Engineering": ("Design Engineer", "Test Engineer", "CAD Specialist"),
    "Production": ("Assembler", "Welder", "Painter"),
    "Purchasing": ("Buyer",),
    "Sales": ("Account Manager", "Sales Assistant"),
    "Marketing": ("Copywriter", "Brand Manager"),
    "Finance": ("Accountant", "Controller"),
    "Human Resources": ("Recruiter", "Payroll Clerk"),
    "IT": ("System Administrator", "Developer"),
    "Warehouse": ("Picker", "Forklift Driver"),
    "Quality": ("Inspector",),
}
CITIES = ("Utrecht", "Amersfoort", "Zeist", "Nieuwegein", "Houten")
SUPPLIERS = (  # name, country, city
    ("Ruota Nord", "Italy", "Bergamo"),
    ("Kettenwerk Hagen", "Germany", "Hagen"),
    ("Selle Fontana", "Italy", "Vicenza"),
    ("Taichung Alloy", "Taiwan", "Taichung"),
    ("Formosa Forks", "Taiwan", "Tainan"),
    ("Pedalia", "Portugal", "Aveiro"),
    ("Lumen Dynamo", "Germany", "Kassel"),
    ("Brabant Rubber", "Netherlands", "Tilburg"),
    ("Voltaic Cells", "Poland", "Wroclaw"),
    ("Sheffield Tubes", "United Kingdom", "Sheffield"),
    ("Atelier Garde-Boue", "France", "Lyon"),
    ("Nordkabel", "Denmark", "Odense"),
)
PARTS = (  # name, material, cost in euro, supplier or None where we make it, components with their number
    ("Steel Tube Set", "steel", 38.5, "Sheffield Tubes", ()),
    ("Alloy Tube Set", "aluminium", 52.0, "Taichung Alloy", ()),
    ("Bottom Bracket Shell", "steel", 6.4, "Sheffield Tubes", ()),
    ("Lacquer", "paint", 9.8, None, ()),
    ("City Frame", "steel", 88.0, None, (("Steel Tube Set", 1), ("Bottom Bracket Shell", 1), ("Lacquer", 1))),
    ("Sport Frame", "aluminium", 121.0, None, (("Alloy Tube Set", 1), ("Bottom Bracket Shell", 1), ("Lacquer", 2))),
    ("Rim 28", "aluminium", 17.2, "Ruota Nord", ()),
    ("Rim 26", "aluminium", 15.9, "Ruota Nord", ()),
    ("Spoke", "steel", 0.22, "Ruota Nord", ()),
    ("Front Hub", "aluminium", 14.0, "Pedalia", ()),
    ("Rear Hub", "aluminium", 29.5, "Pedalia", ()),
    ("Dynamo Hub", "aluminium", 46.0, "Lumen Dynamo", (("Front Hub", 1),)),
    ("Tyre 28", "rubber", 13.3, "Brabant Rubber", ()),
    ("Tyre 26", "rubber", 12.1, "Brabant Rubber", ()),
    ("Inner Tube", "rubber", 2.9, "Brabant Rubber", ()),
    (
        "City Front Wheel",
        "mixed",
        61.0,
        None,
        (("Rim 28", 1), ("Spoke", 36), ("Dynamo Hub", 1), ("Tyre 28", 1), ("Inner Tube", 1)),
    ),
    (
        "City Rear Wheel",
        "mixed",
        67.0,
        None,
        (("Rim 28", 1), ("Spoke", 36), ("Rear Hub", 1), ("Tyre 28", 1), ("Inner Tube", 1)),
    ),
    (
        "Sport Front Wheel",
        "mixed",
        48.0,
        None,
        (("Rim 26", 1), ("Spoke", 32), ("Front Hub", 1), ("Tyre 26", 1), ("Inner Tube", 1)),
    ),
    (
        "Sport Rear Wheel",
        "mixed",
        63.0,
        None,
        (("Rim 26", 1), ("Spoke", 32), ("Rear Hub", 1), ("Tyre 26", 1), ("Inner Tube", 1)),
    ),
    ("Chain", "steel", 8.7, "Kettenwerk Hagen", ()),
    ("Crank Set", "aluminium", 34.0, "Pedalia", ()),
    ("Pedal Pair", "plastic", 7.5, "Pedalia", ()),
    ("Rim Brake", "aluminium", 18.0, "Kettenwerk Hagen", ()),
    ("Disc Brake", "steel", 39.0, "Formosa Forks", ()),
    ("Brake Cable", "steel", 1.9, "Nordkabel", ()),
    ("Rigid Fork", "steel", 31.0, "Formosa Forks", ()),
    ("Suspension Fork", "aluminium", 94.0, "Formosa Forks", ()),
    ("Leather Saddle", "leather", 42.0, "Selle Fontana", ()),
    ("Gel Saddle", "plastic", 16.5, "Selle Fontana", ()),
    ("Handlebar", "aluminium", 12.6, "Taichung Alloy", ()),
    ("Front Lamp", "plastic", 19.9, "Lumen Dynamo", ()),
    ("Rear Lamp", "plastic", 9.4, "Lumen Dynamo", ()),
    ("Mudguard Set", "steel", 14.8, "Atelier Garde-Boue", ()),
    ("Battery Pack", "lithium", 210.0, "Voltaic Cells", (("Battery Cell", 40), ("Wiring Loom", 1))),
    ("Battery Cell", "lithium", 3.6, "Voltaic Cells", ()),
    ("Wiring Loom", "copper", 11.0, "Nordkabel", ()),
    ("Hub Motor", "mixed", 185.0, "Voltaic Cells", (("Rear Hub", 1), ("Wiring Loom", 1))),
    ("Bell", "brass", 2.4, None, ()),
)
CITY = (("City Frame", 1), ("City Front Wheel", 1), ("City Rear Wheel", 1), ("Chain", 1), ("Crank Set", 1), ("Pedal Pair", 1),
        ("Handlebar", 1), ("Mudguard Set", 1), ("Front Lamp", 1), ("Rear Lamp", 1), ("Brake Cable", 2), ("Rigid Fork", 1))  # fmt: skip
SPORT = (("Sport Frame", 1), ("Sport Front Wheel", 1), ("Sport Rear Wheel", 1), ("Chain", 1), ("Crank Set", 1), ("Pedal Pair", 1),
         ("Handlebar", 1), ("Brake Cable", 2))  # fmt: skip
PRODUCTS = (  # name, category, price in euro, kilograms, launched, components
    ("Heron", "city bike", 649, 17.8, "2016-03-01", (*CITY, ("Rim Brake", 2), ("Gel Saddle", 1), ("Bell", 1))),
    ("Heron Deluxe", "city bike", 899, 18.4, "2018-04-15", (*CITY, ("Disc Brake", 2), ("Leather Saddle", 1), ("Bell", 1))),
    ("Stork", "cargo bike", 1890, 29.5, "2019-09-01", (*CITY, ("Disc Brake", 2), ("Gel Saddle", 1), ("Bell", 1))),
    ("Stork Electric", "e-bike", 3490, 38.2, "2021-05-10", (*CITY, ("Disc Brake", 2), ("Gel Saddle", 1), ("Battery Pack", 2), ("Hub Motor", 1))),
    ("Kingfisher", "mountain bike", 1290, 13.1, "2017-06-20", (*SPORT, ("Disc Brake", 2), ("Suspension Fork", 1), ("Gel Saddle", 1))),
    ("Kingfisher Pro", "mountain bike", 2190, 11.6, "2020-02-01", (*SPORT, ("Disc Brake", 2), ("Suspension Fork", 1), ("Leather Saddle", 1))),
    ("Swift", "sport bike", 1090, 10.2, "2015-01-15", (*SPORT, ("Rim Brake", 2), ("Rigid Fork", 1), ("Gel Saddle", 1))),
    ("Swift Electric", "e-bike", 2790, 16.9, "2022-03-30", (*SPORT, ("Disc Brake", 2), ("Rigid Fork", 1), ("Battery Pack", 1), ("Hub Motor", 1))),
    ("Wren", "children's bike", 329, 8.9, "2016-11-05", (*SPORT, ("Rim Brake", 1), ("Rigid Fork", 1), ("Gel Saddle", 1), ("Bell", 1))),
    ("Heron Electric", "e-bike", 2290, 24.6, "2019-03-12", (*CITY, ("Disc Brake", 2), ("Gel Saddle", 1), ("Battery Pack", 1), ("Hub Motor", 1))),
)  # fmt: skip
CUSTOMERS = (  # name, country, city
    ("Fietsen Jansen", "Netherlands", "Utrecht"),
    ("Velo Bern", "Switzerland", "Bern"),
    ("Radhaus Freiburg", "Germany", "Freiburg"),
    ("Cykelhuset", "Denmark", "Aarhus"),
    ("Two Wheels York", "United Kingdom", "York"),
    ("Cicli Ferrara", "Italy", "Ferrara"),
    ("Bicis del Sur", "Spain", "Sevilla"),
    ("Stadtrad Wien", "Austria", "Vienna"),
    ("Velorama Gent", "Belgium", "Gent"),
    ("De Trapper", "Netherlands", "Groningen"),
    ("Pedal Power Leipzig", "Germany", "Leipzig"),
    ("Roue Libre", "France", "Nantes"),
    ("Fahrradladen Nord", "Germany", "Kiel"),
    ("Polkupyora Oy", "Finland", "Turku"),
    ("Sykkelkroken", "Norway", "Bergen"),
)
STATUSES = ("delivered", "delivered", "delivered", "shipped", "open", "cancelled")


def main() -> None:
    sys.path.insert(0, sys.argv[1])
    out = Path(sys.argv[2])
    draw = random.Random(22)
    people = [importlib.import_module(f"faker.providers.person.{locale}").Provider for locale in LOCALES]

    def write(name: str, columns: str, rows: Sequence[tuple[object, ...]]) -> None:
        with (out / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns.split())
            writer.writerows(rows)

    used: set[str] = set()

    def person() -> str:
        while True:
            of = draw.choice(people)
            first, last = draw.choice(sorted(of.first_names)), draw.choice(sorted(of.last_names))
            if first not in used and last not in used and (first + last).isalpha() and (first + last).isascii():
                used.update((first, last))
                return f"{first} {last}"

    def day(first: str, last: str) -> date:
        start, end = date.fromisoformat(first), date.fromisoformat(last)
        return start + timedelta(draw.randrange((end - start).days))

    employees: list[tuple[object, ...]] = []

    def employ(title: str, department: int | str, manager: int | str, least: int, most: int) -> int:
        name = person()
        first, last = name.lower().split()
        number = len(employees) + 1
        phone = f"+31 30 555 {100 + number:04}"
        salary = draw.randrange(least, most, 100)
        hired = day("2009-01-01", "2024-06-01").isoformat()
        place = draw.choice(CITIES)
        employees.append(
            (
                number,
                name,
                title,
                department,
                manager,
                f"{first}.{last}@heronbikes.example",
                phone,
                place,
                hired,
                salary,
            )
        )
        return number

    chief = employ("Managing Director", "", "", 9000, 9100)
    heads = [employ(f"Head of {name}", at, chief, 5600, 7800) for at, (name, *_) in enumerate(DEPARTMENTS, 1)]
    for at, (name, _, _, size) in enumerate(DEPARTMENTS, 1):
        leads = [heads[at - 1]]
        if size > 8:
            leads = [employ("Team Lead", at, heads[at - 1], 4300, 5200) for _ in range(2)]
        for _ in range(size - 1 - (len(leads) if size > 8 else 0)):
            employ(draw.choice(TITLES[name]), at, draw.choice(leads), 2400, 4200)
    write("employees", "id name title department_id manager_id email phone city hired salary", employees)
    departments = [
        (at, name, heads[at - 1], building, floor, draw.randrange(200, 2400) * 1000)
        for at, (name, building, floor, _) in enumerate(DEPARTMENTS, 1)
    ]
    write("departments", "id name head_id building floor budget", departments)
    contacts = [person() for _ in SUPPLIERS]
    suppliers = [
        (
            at,
            name,
            country,
            city,
            contact,
            f"{contact.split()[0].lower()}@{name.split()[0].lower()}.example",
            draw.randrange(2004, 2023),
        )
        for at, ((name, country, city), contact) in enumerate(zip(SUPPLIERS, contacts, strict=True), 1)
    ]
    write("suppliers", "id name country city contact email since", suppliers)
    by_supplier = {row[1]: row[0] for row in suppliers}
    by_part = {name: at for at, (name, *_) in enumerate(PARTS, 1)}
    parts = [
        (
            at,
            name,
            material,
            cost,
            by_supplier.get(supplier or "", ""),
            draw.choice((5, 7, 10, 14, 21, 28, 45)),
            draw.randrange(0, 900),
        )
        for at, (name, material, cost, supplier, _) in enumerate(PARTS, 1)
    ]
    write("parts", "id name material cost supplier_id lead_days stock", parts)
    components = [(by_part[name], by_part[of], number) for name, *_, inside in PARTS for of, number in inside]
    write("part_components", "id part_id component_id quantity", [(at, *row) for at, row in enumerate(components, 1)])
    engineers = [row[0] for row in employees if row[3] in (1, 5)]
    products = [
        (at, name, category, price, "EUR", weight, launched, draw.choice(engineers))
        for at, (name, category, price, weight, launched, _) in enumerate(PRODUCTS, 1)
    ]
    write("products", "id name category price currency weight_kg launched product_manager_id", products)
    inside = [(at, by_part[of], number) for at, (*_, of_it) in enumerate(PRODUCTS, 1) for of, number in of_it]
    write("product_parts", "id product_id part_id quantity", [(at, *row) for at, row in enumerate(inside, 1)])
    sellers = [row[0] for row in employees if row[3] == 4 and row[2] == "Account Manager"]
    customers = [(at, *row, draw.randrange(2010, 2024), draw.choice(sellers)) for at, row in enumerate(CUSTOMERS, 1)]
    write("customers", "id name country city since account_manager_id", customers)
    orders: list[tuple[object, ...]] = []
    lines: list[tuple[object, ...]] = []
    for number in range(1, 121):
        ordered, status = day("2023-01-02", "2024-10-01"), draw.choice(STATUSES)
        shipped = ordered + timedelta(draw.randrange(3, 40)) if status in ("delivered", "shipped") else ""
        customer = draw.choice(customers)
        orders.append((f"SO-{1000 + number}", customer[0], ordered, shipped, status))
        for product in draw.sample(range(1, len(PRODUCTS) + 1), draw.choice((1, 1, 2, 3))):
            lines.append((len(lines) + 1, f"SO-{1000 + number}", product, draw.randrange(1, 13)))
    write("orders", "id customer_id ordered_on shipped_on status", orders)
    write("order_lines", "id order_id product_id quantity", lines)


main()
