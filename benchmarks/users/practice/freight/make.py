"""An invented haulier around the Baltic as its database exports it: `python make.py OUT_FOLDER`.

Eleven tables with keys and foreign keys: depots and the hub each is fed from, ports and ferry lines, trucks and drivers,
clients, goods, shipments with their lines, and routes with the times of their stops. Nobody and nothing in it is real
but the names of towns. The draws are seeded: the same tables every time.
"""

# ruff: noqa: E501, SIM905 (a row of a table a line; names in one string)

from __future__ import annotations

import csv
import random
import sys
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from pathlib import Path

DEPOTS = (  # town, country, m3, opened, the hub that feeds it
    ("Hamburg", "Germany", 41000, 1994, None), ("Gothenburg", "Sweden", 36000, 1999, "Hamburg"), ("Gdansk", "Poland", 33000, 2004, "Hamburg"), ("Tallinn", "Estonia", 12500, 2008, "Gdansk"),
    ("Lubeck", "Germany", 15000, 1996, "Hamburg"), ("Rostock", "Germany", 9800, 2001, "Lubeck"), ("Kiel", "Germany", 8700, 2011, "Lubeck"), ("Malmo", "Sweden", 14200, 2003, "Gothenburg"),
    ("Stockholm", "Sweden", 22400, 2000, "Gothenburg"), ("Turku", "Finland", 10100, 2012, "Stockholm"), ("Helsinki", "Finland", 18900, 2006, "Tallinn"), ("Riga", "Latvia", 11800, 2009, "Gdansk"),
    ("Klaipeda", "Lithuania", 9100, 2010, "Gdansk"), ("Vilnius", "Lithuania", 7600, 2015, "Klaipeda"), ("Szczecin", "Poland", 13300, 2007, "Gdansk"), ("Poznan", "Poland", 16700, 2013, "Szczecin"),
    ("Copenhagen", "Denmark", 19500, 1998, "Malmo"), ("Aarhus", "Denmark", 12000, 2014, "Copenhagen"), ("Oslo", "Norway", 17300, 2005, "Gothenburg"), ("Tampere", "Finland", 6900, 2018, "Helsinki"),
)  # fmt: skip
PORTS = (  # code, name, country, berths, depth in metres
    ("DEHAM", "Port of Hamburg", "Germany", 43, 15.1), ("DELBC", "Port of Lubeck", "Germany", 18, 9.5), ("DEKEL", "Port of Kiel", "Germany", 12, 11.0), ("DERSK", "Port of Rostock", "Germany", 27, 14.5),
    ("SEGOT", "Port of Gothenburg", "Sweden", 31, 17.5), ("SETRG", "Port of Trelleborg", "Sweden", 10, 7.5), ("SESTO", "Port of Stockholm", "Sweden", 22, 10.0), ("PLGDN", "Port of Gdansk", "Poland", 29, 17.0),
    ("PLSWI", "Port of Swinoujscie", "Poland", 9, 13.2), ("LTKLJ", "Port of Klaipeda", "Lithuania", 25, 14.0), ("LVRIX", "Port of Riga", "Latvia", 28, 15.0), ("EETLL", "Port of Tallinn", "Estonia", 20, 16.5),
    ("FIHEL", "Port of Helsinki", "Finland", 24, 11.0), ("FITKU", "Port of Turku", "Finland", 11, 10.0), ("DKCPH", "Port of Copenhagen", "Denmark", 16, 10.0), ("NOOSL", "Port of Oslo", "Norway", 14, 11.5),
)  # fmt: skip
FERRIES = (  # from, to, operator, leaves, arrives, hours, sailings a week
    ("DELBC", "SETRG", "Nordlinie", "22:00", "07:00", 9, 14), ("DERSK", "SETRG", "Hansa Ferries", "07:45", "13:45", 6, 21), ("SETRG", "PLSWI", "Baltica Line", "22:30", "05:30", 7, 14),
    ("DEKEL", "SEGOT", "Nordlinie", "18:45", "09:15", 14.5, 7), ("DEKEL", "NOOSL", "Fjordline Cargo", "14:00", "10:00", 20, 7), ("DEKEL", "LTKLJ", "Baltica Line", "22:00", "18:30", 20.5, 6),
    ("SESTO", "FITKU", "Aura Shipping", "07:10", "19:15", 11, 14), ("SESTO", "EETLL", "Aura Shipping", "17:30", "10:15", 15.75, 7), ("EETLL", "FIHEL", "Aura Shipping", "10:30", "12:30", 2, 42),
    ("PLGDN", "SESTO", "Baltica Line", "18:00", "13:00", 19, 6), ("FIHEL", "DELBC", "Hansa Ferries", "17:00", "21:30", 29.5, 7), ("DKCPH", "NOOSL", "Fjordline Cargo", "15:00", "10:00", 19, 7), ("LVRIX", "SESTO", "Baltica Line", "17:30", "10:30", 18, 3),
)  # fmt: skip
MODELS = (
    ("Volvo FH", 24500),
    ("Scania R450", 25000),
    ("MAN TGX", 24000),
    ("DAF XF", 23800),
    ("Volvo FM Electric", 19000),
    ("Mercedes Actros", 24800),
    ("Iveco Daily", 3500),
)
FUEL = {"Volvo FM Electric": "electric", "Scania R450": "biogas"}
PLATES = {
    "Germany": "HH",
    "Sweden": "SE",
    "Poland": "GD",
    "Finland": "FI",
    "Denmark": "DK",
    "Estonia": "EE",
    "Latvia": "LV",
    "Lithuania": "LT",
    "Norway": "NO",
}
FIRST = "Aino Bartek Casper Dagny Eero Frida Gintaras Henrik Ilze Juhani Katarzyna Lasse Maija Nils Ole Piotr Ragna Signe Tomasz Urmas Veera Wojtek Ylva Zuzanna Anders Birgit Egle Fredrik Gerda Heikki Inga Jonas Kaja Liisa Marek Norbert".split()
LAST = "Aalto Berg Czarnecki Drews Ekholm Forsberg Grabowski Hakala Ilves Johansen Kask Lund Makinen Nowak Ozols Petersen Rasmussen Saar Tamm Uusitalo Virtanen Wisniewski Zielinski Ahlgren Brandis Dahlin Eglitis Friis Gunnarsson Holst Jonaitis Koppel Lepik Mikkelsen Nieminen Ostrowski".split()
CLIENTS = (  # name, branch of trade, country
    ("Aurora Paper", "paper", "Finland"), ("Bernstein Apotheke", "pharma", "Germany"), ("Dala Timber", "wood", "Sweden"), ("Fjell Seafood", "food", "Norway"), ("Gdynia Yachts", "marine", "Poland"), ("Hanse Kontor", "retail", "Germany"),
    ("Kalev Sweets", "food", "Estonia"), ("Fyn Toys", "retail", "Denmark"), ("Laima Textiles", "fashion", "Latvia"), ("Nida Amber", "retail", "Lithuania"), ("Ostsee Chemie", "chemicals", "Germany"), ("Saimaa Steel", "metals", "Finland"),
    ("Skane Dairy", "food", "Sweden"), ("Wielkopolska Agro", "food", "Poland"), ("Zeeland Pharma", "pharma", "Denmark"),
)  # fmt: skip
GOODS = (  # sku, name, kind, kg a unit, hazard class, must be cooled
    ("SKU-310", "Newsprint Roll", "paper", 820, "", "no"), ("SKU-311", "Copy Paper Pallet", "paper", 610, "", "no"), ("SKU-320", "Pine Boards", "wood", 940, "", "no"), ("SKU-321", "Plywood Sheets", "wood", 700, "", "no"),
    ("SKU-330", "Frozen Salmon", "food", 450, "", "yes"), ("SKU-331", "Butter", "food", 380, "", "yes"), ("SKU-332", "Chocolate", "food", 290, "", "no"), ("SKU-333", "Potatoes", "food", 720, "", "no"), ("SKU-334", "Cheese Wheels", "food", 410, "", "yes"),
    ("SKU-340", "Insulin", "pharma", 60, "", "yes"), ("SKU-341", "Painkillers", "pharma", 95, "", "no"), ("SKU-350", "Paint Thinner", "chemicals", 510, "class 3", "no"), ("SKU-351", "Battery Acid", "chemicals", 640, "class 8", "no"), ("SKU-352", "Fertiliser", "chemicals", 880, "class 5", "no"),
    ("SKU-360", "Steel Coils", "metals", 1900, "", "no"), ("SKU-361", "Copper Wire", "metals", 1250, "", "no"), ("SKU-370", "Toy Bricks", "retail", 160, "", "no"), ("SKU-371", "Winter Coats", "fashion", 140, "", "no"), ("SKU-372", "Amber Jewellery", "retail", 20, "", "no"), ("SKU-380", "Outboard Motors", "marine", 330, "class 9", "no"),
)  # fmt: skip
ROUTES = (  # code, name, towns in order, leaves at
    ("R10", "Amber Run", ("Hamburg", "Lubeck", "Rostock", "Szczecin", "Gdansk"), 300), ("R11", "Sound Shuttle", ("Copenhagen", "Malmo", "Gothenburg"), 390), ("R12", "Nordic Arrow", ("Gothenburg", "Oslo"), 345),
    ("R13", "Via Baltica", ("Gdansk", "Klaipeda", "Riga", "Tallinn"), 240), ("R14", "Finn Loop", ("Helsinki", "Tampere", "Turku"), 410), ("R15", "Jutland Link", ("Hamburg", "Kiel", "Aarhus"), 330), ("R16", "Lake Express", ("Stockholm", "Gothenburg", "Malmo"), 285), ("R17", "Wielkopolska Line", ("Poznan", "Szczecin", "Rostock"), 360), ("R18", "Lithuanian Hop", ("Vilnius", "Klaipeda"), 450),
)  # fmt: skip


def main() -> None:
    random.seed(4011)
    out = Path(sys.argv[1])

    def table(name: str, columns: str, rows: Iterable[Sequence[object]]) -> None:
        with (out / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns.split())
            writer.writerows(rows)

    depots = {row[0]: number for number, row in enumerate(DEPOTS, 1)}
    table(
        "depots",
        "depot_id name country capacity_m3 opened_year hub_id",
        ((depots[t], f"{t} Depot", c, m, y, depots[h] if h else "") for t, c, m, y, h in DEPOTS),
    )
    table("ports", "port_code name country berths depth_m", PORTS)
    table(
        "ferry_lines",
        "line_id from_port to_port operator departs arrives hours sailings_per_week",
        ((f"F{number:02}", *row) for number, row in enumerate(FERRIES, 1)),
    )
    trucks = []
    for number in range(1, 37):
        depot = DEPOTS[(number - 1) % len(DEPOTS)]
        model, payload = random.choice(MODELS)
        plate = f"{PLATES[depot[1]]}-{random.choice('ABCDEFGHKLMNPRSTUVWXYZ')}{random.choice('ABCDEFGHKLMNPRSTUVWXYZ')} {random.randrange(100, 999)}"
        trucks.append(
            (
                plate,
                model,
                FUEL.get(model, "diesel"),
                payload,
                random.randrange(2012, 2025),
                random.randrange(8, 900) * 1000,
                depots[depot[0]],
            )
        )
    table("trucks", "plate model fuel payload_kg built odometer_km depot_id", trucks)
    firsts, lasts = random.sample(FIRST, len(FIRST)), random.sample(LAST, len(LAST))
    drivers = []
    for number, (first, last) in enumerate(zip(firsts, lasts, strict=True), 1):
        truck = trucks[number - 1]
        hired = date(2006, 1, 1) + timedelta(random.randrange(6900))
        drivers.append(
            (
                number,
                f"{first} {last}",
                truck[0] if number % 9 else "",
                truck[6],
                hired,
                f"+{random.randrange(40, 50)} 555 {random.randrange(1000, 9999)}",
                random.choice(("yes", "no", "no")),
            )
        )
    table("drivers", "driver_id name plate depot_id hired phone adr_certified", drivers)
    clients = {row[0]: number for number, row in enumerate(CLIENTS, 1)}
    table("clients", "client_id name trade country", ((clients[row[0]], *row) for row in CLIENTS))
    table("goods", "sku name category unit_kg hazard_class cooled", GOODS)
    shipments: list[tuple[object, ...]] = []
    lines: list[tuple[object, ...]] = []
    for number in range(4011, 4131):
        name, trade, country = random.choice(CLIENTS)
        near = [row[0] for row in DEPOTS if row[1] == country] or ["Hamburg"]
        origin = random.choice(near)
        target = random.choice([row[0] for row in DEPOTS if row[0] != origin])
        truck = random.choice(trucks[:33])
        left = date(2025, 1, 2) + timedelta(random.randrange(170))
        status = "delivered" if left < date(2025, 5, 28) else random.choice(("in transit", "delayed"))
        if random.random() < 0.12:
            status = "lost" if random.random() < 0.3 else "returned"
        arrived = left + timedelta(random.choice((1, 1, 2, 2, 3, 4, 6))) if status in ("delivered", "returned") else ""
        of_trade = [row for row in GOODS if row[2] == trade]
        chosen = (
            random.sample(GOODS, 1)
            if random.random() < 0.15
            else random.sample(of_trade, min(len(of_trade), random.choice((1, 1, 2, 3))))
        )
        weight = 0
        for row in chosen:
            units = random.randrange(1, 9)
            weight += units * row[3]
            lines.append((len(lines) + 1, f"SH-{number}", row[0], units))
        shipments.append(
            (
                f"SH-{number}",
                clients[name],
                depots[origin],
                depots[target],
                truck[0],
                left,
                arrived,
                weight,
                status,
                round(180 + weight * 0.11 + random.randrange(400), 2),
            )
        )
    table(
        "shipments",
        "shipment_no client_id origin_id destination_id plate shipped delivered gross_kg status freight_eur",
        shipments,
    )
    table("shipment_lines", "line_no shipment_no sku units", lines)
    table("routes", "route_code name", (row[:2] for row in ROUTES))
    stops: list[tuple[object, ...]] = []
    for code, _, towns, start in ROUTES:
        at = start
        for order, town in enumerate(towns, 1):
            arrives = at
            leaves = at + random.choice((20, 30, 45))
            ended = order == len(towns)
            stops.append(
                (
                    len(stops) + 1,
                    code,
                    order,
                    depots[town],
                    "" if order == 1 else f"{arrives // 60:02}:{arrives % 60:02}",
                    "" if ended else f"{leaves // 60:02}:{leaves % 60:02}",
                )
            )
            at = leaves + random.randrange(12, 44) * 5
    table("route_stops", "stop_id route_code stop_no depot_id arrival departure", stops)


main()
