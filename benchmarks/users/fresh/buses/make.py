"""An invented city's bus network as its planners would export it: `python make.py OUT_FOLDER`. Seeded."""

# ruff: noqa: E501 (a row of a table a line)

from __future__ import annotations

import csv
import random
import sys
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

DISTRICTS = (
    ("Old Town", 18200),
    ("Riverside", 31400),
    ("Hillcrest", 22750),
    ("Docklands", 12900),
    ("Northfield", 40100),
    ("University Quarter", 9800),
)
STOPS = """Central Station|1|A|yes
Market Square|1|A|yes
Cathedral|1|A|no
Town Hall|1|A|yes
Fish Quay|4|B|no
Ferry Terminal|4|B|yes
Shipyard|4|B|no
Botanical Garden|2|A|yes
Millbrook|2|B|no
Willow Bridge|2|B|yes
Hospital|3|A|yes
Hilltop|3|B|no
Observatory|3|C|no
Science Campus|6|A|yes
Main Library|6|A|yes
Student Village|6|B|yes
Northfield Mall|5|B|yes
Swimming Pool|5|B|yes
Airport|5|C|yes
Stadium|5|B|yes
Cemetery|3|B|no
Zoo|2|B|yes""".splitlines()
DEPOTS = (("Gasworks Depot", 4, 60), ("Elm Lane Depot", 5, 85), ("Summit Depot", 3, 25))
LINES = {  # stops by number
    "1": (1, 2, 4, 8, 9, 22),
    "2": (1, 3, 11, 12, 13),
    "5": (6, 5, 7, 2, 1, 14),
    "8": (16, 15, 14, 1, 17, 18),
    "12": (19, 17, 20, 1, 6),
    "N1": (1, 2, 8, 17, 16),
    "N4": (1, 11, 21, 12),
    "X9": (1, 19),
    "E3": (20, 1, 10, 22),
}
MODELS = (
    ("Solaris Urbino 12", "diesel", 75),
    ("Volvo 7900", "hybrid", 82),
    ("Citaro K", "diesel", 58),
    ("eVivacity", "electric", 70),
    ("Urbino 18", "electric", 120),
)
FIRST = [
    "Agnes",
    "Bela",
    "Cedric",
    "Dora",
    "Ewan",
    "Filip",
    "Gina",
    "Harald",
    "Ida",
    "Jarek",
    "Kaja",
    "Leon",
    "Mona",
    "Niels",
    "Orla",
    "Piotr",
    "Renate",
    "Silvio",
    "Teresa",
    "Ursula",
    "Viktor",
    "Wilma",
    "Yves",
    "Zora",
]
LAST = [
    "Archer",
    "Blum",
    "Crane",
    "Dietz",
    "Ekholm",
    "Farkas",
    "Gomez",
    "Haas",
    "Iversen",
    "Jung",
    "Kramer",
    "Lacroix",
    "Meyer",
    "Nilsson",
    "Ortega",
    "Pauli",
    "Rinaldi",
    "Sharp",
    "Toth",
    "Urban",
    "Vance",
    "Wolff",
    "Young",
    "Ziegler",
]


def main() -> None:
    out, draw = Path(sys.argv[1]), random.Random(3)

    def write(name: str, columns: str, rows: Sequence[Sequence[object]]) -> None:
        with (out / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns.split())
            writer.writerows(rows)

    def day(first: str, last: str) -> date:
        start, end = date.fromisoformat(first), date.fromisoformat(last)
        return start + timedelta(draw.randrange((end - start).days))

    write("districts", "district_id name residents", [(at, *row) for at, row in enumerate(DISTRICTS, 1)])
    stops = [line.split("|") for line in STOPS]
    write("stops", "stop_id name district_id fare_zone shelter", [(at, *row) for at, row in enumerate(stops, 1)])
    write("depots", "depot_id name located_in spaces", [(at, *row) for at, row in enumerate(DEPOTS, 1)])
    lines, calls = [], []
    for at, (name, served) in enumerate(LINES.items(), 1):
        kind = "night" if name[0] == "N" else "express" if name[0] in "XE" else "regular"
        lines.append(
            (
                at,
                f"Line {name}",
                kind,
                draw.choice((10, 15, 20, 30)) if kind != "night" else 60,
                served[0],
                served[-1],
                draw.randrange(1955, 2022),
            )
        )
        calls += [(len(calls) + 1 + number, at, stop, number + 1) for number, stop in enumerate(served)]
    write("lines", "line_id name service every_minutes first_stop_id last_stop_id opened", lines)
    write("line_stops", "id at_line_id stop_id position", calls)
    vehicles = []
    for number in range(1, 25):
        model, fuel, seats = draw.choice(MODELS)
        vehicles.append(
            (
                f"B-{200 + number}",
                model,
                fuel,
                seats,
                draw.randrange(1, 4),
                draw.randrange(2008, 2024),
                draw.choice(("yes", "yes", "no")),
            )
        )
    write("vehicles", "vehicle_id model fuel seats garage_id built wheelchair_ramp", vehicles)
    draw.shuffle(LAST)
    drivers = [
        (
            at,
            f"{first} {last}",
            day("1960-01-01", "1999-01-01"),
            day("1995-01-01", "2023-06-01"),
            draw.randrange(1, 4),
            draw.randrange(2400, 3600, 20),
        )
        for at, (first, last) in enumerate(zip(FIRST, LAST, strict=True), 1)
    ]
    write("drivers", "driver_id name birthday employed_since depot_id monthly_pay", drivers)
    runs = [
        (number, draw.randrange(1, len(LINES) + 1), draw.choice(vehicles)[0], draw.randrange(1, len(drivers) + 1), day("2024-03-01", "2024-03-15"), max(0, draw.randrange(-8, 26)), draw.randrange(5, 140))
        for number in range(1, 131)
    ]  # fmt: skip
    write("runs", "run_id line_id vehicle_id driver_id day minutes_late passengers", runs)


if __name__ == "__main__":
    main()
