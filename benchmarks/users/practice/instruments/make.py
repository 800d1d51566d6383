"""An invented maker of laboratory instruments as Turtle: `python make.py OUT.ttl`.

Staff and who they report to, products with numbers and a tree of categories, prices as nodes with an amount and a
currency, components down to the screw, and the suppliers with their countries. Nobody and nothing in it is real. The
draws are seeded: the same file every time.
"""

# ruff: noqa: E501, SIM905 (a row of a table a line; names in one string)

from __future__ import annotations

import random
import sys
from datetime import date, timedelta
from pathlib import Path

FIRST = "Amara Bjorn Carmen Dmitri Elif Farid Greta Hugo Ines Jasper Keiko Lorenzo Marta Nikhil Olga Pavel Quirin Rosa Sanjay Tilda Ulrich Vera Wanda Xenia Yusuf Zofia Anton Beatriz Cedric Dorothea Emil Fatima Gustav Hanna Igor Jana Kofi Leila Mateo Nadia Oskar Petra Ravi Selma Tomas Ursula Viktor Wiebke Yara Zoltan Alba Bruno Clara Denis Esther Felix".split()
LAST = "Achterberg Baumann Castellano Dubois Eriksen Fontaine Grigorescu Haddad Ivanova Jankowski Kowalczyk Lindqvist Moreau Nakamura Okafor Petrov Quintero Rossi Schreiber Takahashi Urbanek Vasquez Wallner Yilmaz Zimmermann Abadi Brandt Costa Dahl Engel Ferrari Gruber Holm Iyer Jensen Keller Laurent Mehta Novak Olsen Pinto Reyes Sandoval Thorne Ueda Vogel Winter Xu Young Ziegler Arslan Bianchi Conrad Diaz Eder Fischer".split()
DEPARTMENTS = (  # name, cost centre, site, people, titles
    ("Research and Development", "4100", "Jena", 13, ("Optical Engineer", "Firmware Developer", "Mechanical Designer")),
    ("Manufacturing", "5200", "Jena", 11, ("Assembly Technician", "Calibration Technician")),
    ("Procurement", "5300", "Jena", 5, ("Strategic Buyer",)),
    ("Product Management", "3100", "Basel", 7, ("Product Manager",)),
    ("Sales and Service", "3200", "Basel", 9, ("Field Service Engineer", "Key Account Manager")),
    ("Quality Assurance", "5400", "Jena", 4, ("Quality Auditor",)),
    ("Finance and Controlling", "2100", "Basel", 4, ("Controller", "Bookkeeper")),
    ("People and Culture", "2200", "Basel", 2, ("Recruiter",)),
)
CATEGORIES = (  # name, the broader one
    ("Laboratory Equipment", None),
    ("Measuring Instruments", "Laboratory Equipment"),
    ("Sample Preparation", "Laboratory Equipment"),
    ("Liquid Handling", "Laboratory Equipment"),
    ("Thermal Equipment", "Laboratory Equipment"),
    ("Balances", "Measuring Instruments"),
    ("pH Meters", "Measuring Instruments"),
    ("Optical Instruments", "Measuring Instruments"),
    ("Microscopes", "Optical Instruments"),
    ("Spectrometers", "Optical Instruments"),
    ("Centrifuges", "Sample Preparation"),
    ("Shakers", "Sample Preparation"),
    ("Pipettes", "Liquid Handling"),
    ("Peristaltic Pumps", "Liquid Handling"),
    ("Incubators", "Thermal Equipment"),
    ("Water Baths", "Thermal Equipment"),
)
PRODUCTS = {  # category: names with a list price and a weight in grams
    "Balances": (
        ("Libra 200", 890, 3400),
        ("Libra 500", 1150, 3900),
        ("Libra Micro", 6400, 7200),
        ("Libra Field", 540, 1250),
    ),
    "pH Meters": (("Aquila Pocket", 129, 180), ("Aquila Bench", 720, 1900), ("Aquila Duo", 980, 2100)),
    "Microscopes": (
        ("Optiva B1", 1480, 6100),
        ("Optiva B2", 2350, 7400),
        ("Optiva Stereo", 1990, 5300),
        ("Optiva Inverse", 8700, 14800),
    ),
    "Spectrometers": (
        ("Spectra UV", 9800, 16500),
        ("Spectra IR", 12400, 18200),
        ("Spectra Duo", 17900, 21000),
        ("Spectra Mini", 3200, 2400),
    ),
    "Centrifuges": (
        ("Vortessa 12", 1690, 9800),
        ("Vortessa 24", 2780, 13500),
        ("Vortessa Mini", 460, 1600),
        ("Vortessa Cool", 5900, 42000),
    ),
    "Shakers": (("Rondo S", 640, 4200), ("Rondo L", 1120, 9600), ("Rondo Heat", 1540, 10300)),
    "Pipettes": (
        ("Dropp 10", 210, 85),
        ("Dropp 100", 205, 88),
        ("Dropp 1000", 215, 92),
        ("Dropp Octo", 790, 210),
        ("Dropp E", 480, 130),
    ),
    "Peristaltic Pumps": (("Flumen 1", 870, 2900), ("Flumen 4", 1760, 5100), ("Flumen Micro", 1310, 1700)),
    "Incubators": (("Nestor 40", 2450, 31000), ("Nestor 120", 3980, 58000), ("Nestor CO2", 7600, 64000)),
    "Water Baths": (("Calda 5", 390, 4100), ("Calda 20", 680, 8700), ("Calda Shake", 1580, 12600)),
}
CURRENCY = {"Spectrometers": "US dollar", "Microscopes": "Swiss franc"}  # the others are in euro
SUPPLIERS = (  # name, country
    ("Helvetia Optik", "Switzerland"), ("Glaswerk Ilmenau", "Germany"), ("Osaka Sensor Works", "Japan"), ("Nagoya Bearings", "Japan"),
    ("Brno Motors", "Czechia"), ("Plzen Metal", "Czechia"), ("Shenzhen Lumen", "China"), ("Suzhou Boards", "China"),
    ("Torino Guarnizioni", "Italy"), ("Officina Brescia", "Italy"), ("Malmo Pumpteknik", "Sweden"), ("Kaunas Laser", "Lithuania"),
    ("Bangalore Embedded", "India"), ("Lyon Thermique", "France"), ("Schraubenhaus Weber", "Germany"), ("Penang Displays", "Malaysia"),
    ("Wexford Plastics", "Ireland"), ("Daegu Power", "South Korea"),
)  # fmt: skip
REGION = {
    "Switzerland": "Europe",
    "Germany": "Europe",
    "Japan": "Asia",
    "Czechia": "Europe",
    "China": "Asia",
    "Italy": "Europe",
    "Sweden": "Europe",
    "Lithuania": "Europe",
    "India": "Asia",
    "France": "Europe",
    "Malaysia": "Asia",
    "Ireland": "Europe",
    "South Korea": "Asia",
}
COMPONENTS = (  # name, cost in euro, weight in grams, supplier or None where it is made in house, parts
    ("Drive Unit S", 64, 820, None, ("Brushless Motor 40 W", "Ball Bearing 608", "Rubber Belt", "Machine Screw M3")),
    ("Drive Unit L", 118, 1900, None, ("Brushless Motor 120 W", "Ball Bearing 6001", "Rubber Belt", "Machine Screw M4")),
    ("Brushless Motor 40 W", 31.5, 410, "Brno Motors", ("Copper Coil", "Ball Bearing 608", "Neodymium Magnet")),
    ("Brushless Motor 120 W", 57, 960, "Brno Motors", ("Copper Coil", "Ball Bearing 6001", "Neodymium Magnet")),
    ("Copper Coil", 4.2, 60, "Brno Motors", ()),
    ("Neodymium Magnet", 2.9, 18, "Shenzhen Lumen", ()),
    ("Ball Bearing 608", 1.8, 12, "Nagoya Bearings", ("Steel Ball",)),
    ("Ball Bearing 6001", 2.6, 21, "Nagoya Bearings", ("Steel Ball",)),
    ("Steel Ball", 0.04, 1, "Nagoya Bearings", ()),
    ("Rubber Belt", 1.1, 9, "Torino Guarnizioni", ()),
    ("Machine Screw M3", 0.03, 1, "Schraubenhaus Weber", ()),
    ("Machine Screw M4", 0.04, 2, "Schraubenhaus Weber", ()),
    ("Display Module", 42, 150, None, ("LCD Panel", "Touch Controller", "Ribbon Cable")),
    ("LCD Panel", 18.9, 75, "Penang Displays", ()),
    ("Touch Controller", 6.7, 8, "Bangalore Embedded", ("Microchip T7",)),
    ("Microchip T7", 2.2, 1, "Suzhou Boards", ()),
    ("Ribbon Cable", 0.9, 6, "Suzhou Boards", ()),
    ("Control Board A", 36, 90, "Bangalore Embedded", ("Microchip T7", "Voltage Regulator")),
    ("Control Board B", 58, 140, "Bangalore Embedded", ("Microchip T7", "Voltage Regulator", "Cooling Fan")),
    ("Voltage Regulator", 1.4, 3, "Daegu Power", ()),
    ("Cooling Fan", 5.3, 55, "Shenzhen Lumen", ()),
    ("Power Supply 60 W", 17.5, 240, "Daegu Power", ("Voltage Regulator",)),
    ("Power Supply 300 W", 49, 880, "Daegu Power", ("Voltage Regulator", "Cooling Fan")),
    ("Load Cell 200 g", 74, 130, "Osaka Sensor Works", ("Strain Gauge",)),
    ("Load Cell 500 g", 81, 170, "Osaka Sensor Works", ("Strain Gauge",)),
    ("Strain Gauge", 12, 2, "Osaka Sensor Works", ()),
    ("Draft Shield", 39, 700, "Glaswerk Ilmenau", ()),
    ("Glass Electrode", 46, 40, "Glaswerk Ilmenau", ()),
    ("Temperature Probe", 14.2, 25, "Lyon Thermique", ()),
    ("Heating Plate", 33, 640, "Lyon Thermique", ("Temperature Probe",)),
    ("Compressor", 210, 9500, "Lyon Thermique", ("Copper Coil",)),
    ("Objective Lens 10x", 62, 90, "Helvetia Optik", ()),
    ("Objective Lens 40x", 138, 110, "Helvetia Optik", ()),
    ("Eyepiece Pair", 54, 160, "Helvetia Optik", ()),
    ("LED Ring", 11, 48, "Shenzhen Lumen", ()),
    ("Illumination Unit", 29, 210, None, ("LED Ring", "Condenser Lens", "Machine Screw M3")),
    ("Condenser Lens", 22, 70, "Helvetia Optik", ()),
    ("Diffraction Grating", 320, 95, "Kaunas Laser", ()),
    ("Laser Diode", 88, 15, "Kaunas Laser", ()),
    ("Optical Bench", 610, 2600, None, ("Diffraction Grating", "Mirror Set", "Laser Diode", "Machine Screw M4")),
    ("Mirror Set", 95, 180, "Helvetia Optik", ()),
    ("Photodiode Array", 145, 22, "Osaka Sensor Works", ()),
    ("Steel Housing M", 48, 1800, "Plzen Metal", ("Machine Screw M4",)),
    ("Steel Housing L", 96, 5200, "Plzen Metal", ("Machine Screw M4",)),
    ("Plastic Shell", 7.5, 160, "Wexford Plastics", ("Machine Screw M3",)),
    ("Rotor 12", 72, 900, "Officina Brescia", ()),
    ("Rotor 24", 110, 1500, "Officina Brescia", ()),
    ("Pump Head", 83, 420, "Malmo Pumpteknik", ("Silicone Tube", "Roller Set")),
    ("Silicone Tube", 3.3, 30, "Torino Guarnizioni", ()),
    ("Roller Set", 15, 90, "Malmo Pumpteknik", ("Ball Bearing 608",)),
    ("Piston", 19, 22, "Officina Brescia", ("Sealing Ring",)),
    ("Sealing Ring", 0.6, 1, "Torino Guarnizioni", ()),
    ("Tip Cone", 2.1, 4, "Wexford Plastics", ()),
    ("Stainless Basin", 37, 1900, "Plzen Metal", ()),
    ("Door Gasket", 8.8, 120, "Torino Guarnizioni", ()),
)  # fmt: skip
PARTS = {  # of all products of a category; then of single ones
    "Balances": ("Plastic Shell", "Display Module", "Control Board A"),
    "pH Meters": ("Plastic Shell", "Glass Electrode", "Control Board A"),
    "Microscopes": ("Steel Housing M", "Illumination Unit", "Objective Lens 10x", "Eyepiece Pair"),
    "Spectrometers": ("Optical Bench", "Photodiode Array", "Control Board B", "Display Module"),
    "Centrifuges": ("Steel Housing M", "Control Board A", "Power Supply 300 W"),
    "Shakers": ("Steel Housing M", "Drive Unit S", "Control Board A"),
    "Pipettes": ("Piston", "Tip Cone", "Plastic Shell"),
    "Peristaltic Pumps": ("Pump Head", "Drive Unit S", "Control Board A"),
    "Incubators": ("Steel Housing L", "Heating Plate", "Door Gasket", "Control Board B", "Display Module"),
    "Water Baths": ("Stainless Basin", "Heating Plate", "Control Board A"),
    "Libra 200": ("Load Cell 200 g", "Power Supply 60 W"), "Libra 500": ("Load Cell 500 g", "Power Supply 60 W"), "Libra Micro": ("Load Cell 200 g", "Draft Shield", "Power Supply 60 W"), "Libra Field": ("Load Cell 500 g",),
    "Aquila Bench": ("Display Module", "Power Supply 60 W"), "Aquila Duo": ("Display Module", "Power Supply 60 W", "Temperature Probe"),
    "Optiva B2": ("Objective Lens 40x",), "Optiva Inverse": ("Objective Lens 40x", "Display Module", "Power Supply 60 W"),
    "Spectra UV": ("Steel Housing L", "Power Supply 300 W"), "Spectra IR": ("Steel Housing L", "Power Supply 300 W", "Temperature Probe"), "Spectra Duo": ("Steel Housing L", "Power Supply 300 W", "Mirror Set"), "Spectra Mini": ("Plastic Shell", "Power Supply 60 W"),
    "Vortessa 12": ("Rotor 12", "Drive Unit L"), "Vortessa 24": ("Rotor 24", "Drive Unit L"), "Vortessa Mini": ("Rotor 12", "Drive Unit S"), "Vortessa Cool": ("Rotor 24", "Drive Unit L", "Compressor"),
    "Rondo Heat": ("Heating Plate",), "Dropp E": ("Brushless Motor 40 W", "Control Board A"), "Flumen 4": ("Drive Unit L",), "Calda Shake": ("Drive Unit S",), "Nestor CO2": ("Compressor",),
}  # fmt: skip
COMPATIBLE = (
    ("Dropp Octo", "Flumen 4"),
    ("Libra Micro", "Spectra Mini"),
    ("Aquila Duo", "Calda 20"),
    ("Rondo Heat", "Nestor 40"),
    ("Vortessa Mini", "Dropp 1000"),
    ("Optiva B2", "Nestor CO2"),
)
REPLACED = (
    ("Libra 200", "Libra 500"),
    ("Spectra UV", "Spectra Duo"),
    ("Optiva B1", "Optiva B2"),
    ("Vortessa 12", "Vortessa 24"),
    ("Flumen 1", "Flumen 4"),
)


def main() -> None:
    random.seed(1023)
    lines = ["@prefix ecc: <http://example.org/voss/> .", "@prefix : <http://example.org/voss/> .",
             "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .", "@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .", ""]  # fmt: skip

    def node(name: str) -> str:
        return "ecc:" + name.replace(" ", "")

    def thing(key: str, kind: str, name: str, facts: list[tuple[str, object]]) -> None:
        lines.append(
            f'{key} a ecc:{kind} ; rdfs:label "{name}"@en'
            + "".join(f" ;\n    ecc:{relation} {value}" for relation, value in facts)
            + " ."
        )

    def text(value: object) -> str:
        return f'"{value}"'

    def day(first: int, last: int) -> str:
        start = date(first, 1, 1)
        return f'"{start + timedelta(random.randrange((date(last, 12, 31) - start).days))}"^^xsd:date'

    def price(key: str, amount: float, currency: str) -> str:
        at = f"{key}_price"
        lines.append(f"{at} a ecc:Price ; ecc:amount {amount} ; ecc:currency {node(currency)} .")
        return at

    for currency, code in (("Euro", "EUR"), ("US dollar", "USD"), ("Swiss franc", "CHF")):
        thing(
            node(currency),
            "Currency",
            currency.lower() if currency == "Euro" else currency,
            [("currencyCode", text(code))],
        )
    for country, region in REGION.items():
        thing(node(country), "Country", country, [("inRegion", node(region))])
    for region in ("Europe", "Asia"):
        thing(node(region), "Region", region, [])
    for name, broader in CATEGORIES:
        thing(node(name), "ProductCategory", name, [("broaderCategory", node(broader))] if broader else [])

    # Staff: the boss, the heads, two team leads in large departments, the others
    firsts, lasts = random.sample(FIRST, len(FIRST)), random.sample(LAST, len(LAST))
    staff = [
        (f"ecc:E-{number:03}", f"{first} {last}")
        for number, (first, last) in enumerate(zip(firsts, lasts, strict=True), 101)
    ]
    people = iter(staff)
    managers: list[str] = []
    buyers: list[str] = []

    def employee(who: tuple[str, str], title: str, department: str, site: str, boss: str, pay: int) -> None:
        key, name = who
        facts: list[tuple[str, object]] = [("employeeNumber", text(key.removeprefix("ecc:"))), ("jobTitle", text(title)), ("emailAddress", text(f"{name.lower().replace(' ', '.')}@aldervoss.example")),
            ("joinedOn", day(2003, 2024)), ("basedIn", node(site)), ("annualSalary", pay), ("phoneExtension", text(random.randrange(2000, 9999)))]  # fmt: skip
        facts += [("memberOf", department)] if department else []
        facts += [("reportsTo", boss)] if boss else []
        if title != "Managing Director":
            facts += [("expertIn", node(one)) for one in random.sample(sorted(PRODUCTS), random.choice((0, 1, 1, 2)))]
        thing(key, "Employee", name, facts)

    for site, country in (("Jena", "Germany"), ("Basel", "Switzerland")):
        thing(node(site), "Site", site, [("locatedIn", node(country))])
    chief = next(people)
    employee(chief, "Managing Director", "", "Basel", "", 168000)
    for name, centre, site, size, titles in DEPARTMENTS:
        key, members = f"ecc:D-{centre}", [next(people) for _ in range(size)]
        thing(key, "Department", name, [("costCentre", text(f"CC-{centre}")), ("headedBy", members[0][0])])
        employee(members[0], f"Head of {name}", key, site, chief[0], random.randrange(92, 121) * 1000)
        leads = members[1:3] if size > 8 else []
        for lead in leads:
            employee(lead, "Team Lead", key, site, members[0][0], random.randrange(74, 89) * 1000)
        for at, member in enumerate(members[1 + len(leads) :]):
            boss = leads[at % 2][0] if leads else members[0][0]
            employee(member, titles[at % len(titles)], key, site, boss, random.randrange(80, 140) * 500)
            if name == "Product Management":
                managers.append(member[0])
            if name == "Procurement":
                buyers.append(member[0])

    # What is bought, built and sold
    for number, (name, country) in enumerate(SUPPLIERS, 11):
        thing(
            f"ecc:S-{number:03}",
            "Supplier",
            name,
            [
                ("supplierNumber", text(f"S-{number:03}")),
                ("locatedIn", node(country)),
                ("qualityRating", random.choice((2, 3, 3, 4, 4, 5))),
                ("handledBy", random.choice(buyers)),
                ("leadTimeDays", random.randrange(5, 60)),
                ("partnerSince", text(random.randrange(1998, 2024)) + "^^xsd:gYear"),
            ],
        )
    supplier = {name: f"ecc:S-{number:03}" for number, (name, _) in enumerate(SUPPLIERS, 11)}
    component = {row[0]: f"ecc:C-{number}" for number, row in enumerate(COMPONENTS, 2041)}
    for name, cost, weight, source, parts in COMPONENTS:
        key = component[name]
        facts: list[tuple[str, object]] = [
            ("componentNumber", text(key.removeprefix("ecc:"))),
            ("hasPrice", price(key, cost, "Euro")),
            ("weightGrams", weight),
            ("unitsInStock", random.randrange(0, 900)),
            ("minimumOrder", random.choice((1, 10, 25, 100))),
        ]
        facts += [("suppliedBy", supplier[source])] if source else []
        thing(key, "Component", name, facts + [("consistsOf", component[part]) for part in parts])
    product = {
        row[0]: f"ecc:P-{number}"
        for number, row in enumerate((row for rows in PRODUCTS.values() for row in rows), 1001)
    }
    for category, rows in PRODUCTS.items():
        for name, amount, weight in rows:
            key = product[name]
            facts = [("productNumber", text(key.removeprefix("ecc:"))), ("inCategory", node(category)), ("hasPrice", price(key, amount, CURRENCY.get(category, "Euro"))), ("weightGrams", weight),
                ("releasedOn", day(2009, 2024)), ("hasProductManager", random.choice(managers)), ("warrantyMonths", random.choice((12, 24, 24, 36, 60))), ("widthMm", random.randrange(90, 700)), ("heightMm", random.randrange(90, 700))]  # fmt: skip
            facts += [("consistsOf", component[part]) for part in (*PARTS[category], *PARTS.get(name, ()))]
            facts += [("compatibleWith", product[two]) for one, two in COMPATIBLE if one == name]
            facts += [("replacedBy", product[two]) for one, two in REPLACED if one == name]
            thing(key, "Product", name, facts)
    Path(sys.argv[1]).write_text("\n".join(lines) + "\n")


main()
