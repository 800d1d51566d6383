"""An invented hospital as its database would export it: `python make.py OUT_FOLDER`.

Eight tables with keys and foreign keys. Names of people are put together from two lists; nobody in it is real. The
draws are seeded: the same tables every time.
"""

# ruff: noqa: E501 (a row of a table a line)

from __future__ import annotations

import csv
import random
import sys
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

WARDS = (  # name, floor, beds, visiting hours end
    ("Cardiology", 3, 24, "19:00"),
    ("Maternity", 2, 18, "20:00"),
    ("Oncology", 4, 22, "19:00"),
    ("Paediatrics", 2, 20, "20:30"),
    ("Orthopaedics", 1, 28, "19:30"),
    ("Intensive Care", 3, 10, "17:00"),
    ("Emergency", 0, 14, "22:00"),
    ("Geriatrics", 5, 30, "18:30"),
)
ROLES = (
    "consultant",
    "registrar",
    "charge nurse",
    "staff nurse",
    "staff nurse",
    "staff nurse",
    "physiotherapist",
    "porter",
)
WAGES = {
    "consultant": 62,
    "registrar": 41,
    "charge nurse": 33,
    "staff nurse": 26,
    "physiotherapist": 29,
    "porter": 17,
    "midwife": 31,
}
DIAGNOSES = (  # code, name
    ("I21", "Myocardial infarction"),
    ("I50", "Heart failure"),
    ("J18", "Pneumonia"),
    ("S72", "Hip fracture"),
    ("C50", "Breast cancer"),
    ("E11", "Type 2 diabetes"),
    ("J45", "Asthma"),
    ("O80", "Normal delivery"),
    ("K35", "Appendicitis"),
    ("S06", "Concussion"),
)
LIKELY = {"Cardiology": "I21 I50", "Maternity": "O80", "Oncology": "C50", "Paediatrics": "J45 K35 S06", "Orthopaedics": "S72",
          "Intensive Care": "I21 J18 S06", "Emergency": "K35 S06 S72 J45", "Geriatrics": "E11 J18 I50 S72"}  # fmt: skip
MEDICINES = (  # name, form, price, supplier, needs a fridge
    ("Paracetamol", "tablet", 0.08, "Brenner Pharma", "no"),
    ("Ibuprofen", "tablet", 0.12, "Brenner Pharma", "no"),
    ("Morphine", "injection", 2.4, "Ostrava Labs", "no"),
    ("Insulin glargine", "injection", 11.5, "Ostrava Labs", "yes"),
    ("Amoxicillin", "capsule", 0.31, "Medirex", "no"),
    ("Salbutamol", "inhaler", 4.9, "Medirex", "no"),
    ("Heparin", "injection", 3.75, "Ostrava Labs", "yes"),
    ("Bisoprolol", "tablet", 0.19, "Brenner Pharma", "no"),
    ("Oxytocin", "injection", 5.2, "Kalmar Biotech", "yes"),
    ("Tamoxifen", "tablet", 0.66, "Kalmar Biotech", "no"),
)
FIRST = [
    "Amara",
    "Bruno",
    "Celia",
    "Dmitri",
    "Esther",
    "Farid",
    "Greta",
    "Hamish",
    "Ines",
    "Jonas",
    "Kirsten",
    "Luca",
    "Mirela",
    "Nadia",
    "Oskar",
    "Petra",
    "Quentin",
    "Rosa",
    "Stefan",
    "Tilda",
    "Umar",
    "Vera",
    "Willem",
    "Xenia",
    "Yusuf",
    "Zofia",
    "Aisling",
    "Boris",
    "Carmen",
    "Dalia",
    "Emil",
    "Fatima",
    "Gideon",
    "Helga",
    "Ivo",
    "Jana",
    "Kofi",
    "Lena",
    "Marek",
    "Noor",
    "Olga",
    "Pablo",
    "Ruth",
    "Soren",
    "Talia",
    "Ugo",
    "Viola",
    "Wanda",
    "Yara",
    "Zoltan",
]
LAST = [
    "Abbott",
    "Brandt",
    "Costa",
    "Dvorak",
    "Eriksen",
    "Faulkner",
    "Grieg",
    "Hollis",
    "Ivanov",
    "Jansen",
    "Kessler",
    "Lindqvist",
    "Moreau",
    "Novak",
    "Okafor",
    "Pereira",
    "Quinn",
    "Rossi",
    "Sandoval",
    "Thorne",
    "Ulrich",
    "Vasquez",
    "Weller",
    "Yilmaz",
    "Zimmer",
    "Adler",
    "Becker",
    "Castell",
    "Doyle",
    "Engel",
    "Frost",
    "Garza",
    "Hart",
    "Irving",
    "Jimenez",
    "Kowal",
    "Lund",
    "Marsh",
    "Nemeth",
    "Olsen",
    "Prior",
    "Reyes",
    "Stone",
    "Tanaka",
    "Unger",
    "Vogel",
    "Walsh",
    "York",
    "Zeman",
    "Ames",
]
TOWNS = ("Halden", "Mossbury", "Kirkham", "Port Elin", "Sandvik")


def main() -> None:
    out, draw = Path(sys.argv[1]), random.Random(7)
    firsts, lasts = FIRST[:], LAST[:]
    draw.shuffle(firsts)
    draw.shuffle(lasts)
    used: set[str] = set()

    def write(name: str, columns: str, rows: Sequence[Sequence[object]]) -> None:
        with (out / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns.split())
            writer.writerows(rows)

    def person() -> str:
        while (name := f"{draw.choice(firsts)} {draw.choice(lasts)}") in used:
            pass
        used.add(name)
        return name

    def day(first: str, last: str) -> date:
        start, end = date.fromisoformat(first), date.fromisoformat(last)
        return start + timedelta(draw.randrange((end - start).days))

    staff: list[tuple[object, ...]] = []
    heads = {}
    for ward, (name, *_) in enumerate(WARDS, 1):
        boss = len(staff) + 1
        for role in (*ROLES, *(("midwife", "midwife") if name == "Maternity" else ())):
            number = len(staff) + 1
            if role == "charge nurse":
                heads[ward] = number
            manager = "" if role == "consultant" else boss if role in ("registrar", "charge nurse") else boss + 2
            staff.append(
                (
                    number,
                    person(),
                    role,
                    ward,
                    day("2001-01-01", "2024-06-01"),
                    WAGES[role] + draw.randrange(0, 9),
                    manager,
                )
            )
    write(
        "wards",
        "ward_id name floor beds visiting_until head_nurse_id",
        [(at, *row, heads[at]) for at, row in enumerate(WARDS, 1)],
    )
    write("staff", "staff_id name role home_ward_id hired hourly_wage manager_id", staff)
    patients = [
        (at, person(), day("1936-01-01", "2022-01-01"), draw.choice(TOWNS), draw.choice(("A+", "B+", "O+", "O-", "AB+")), draw.choice(("NordCare", "Helvia", "State Fund")))
        for at in range(1, 71)
    ]  # fmt: skip
    write("patients", "patient_id name born town blood_group insurer", patients)
    write("diagnoses", "diagnosis_id name icd_code", [(at, name, code) for at, (code, name) in enumerate(DIAGNOSES, 1)])
    codes = {code: at for at, (code, _) in enumerate(DIAGNOSES, 1)}
    write(
        "medicines",
        "medicine_id name form unit_price supplier refrigerated",
        [(at, *row) for at, row in enumerate(MEDICINES, 1)],
    )
    admissions, prescriptions, shifts = [], [], []
    for number in range(1, 111):
        ward = draw.randrange(1, len(WARDS) + 1)
        doctors = [row[0] for row in staff if row[3] == ward and row[2] in ("consultant", "registrar")]
        came = day("2024-01-01", "2024-12-20")
        left = came + timedelta(draw.randrange(1, 21))
        code = draw.choice(LIKELY[WARDS[ward - 1][0]].split())
        admissions.append((number, draw.randrange(1, 71), ward, draw.choice(doctors), codes[code], came, left))
        for medicine in draw.sample(range(1, len(MEDICINES) + 1), draw.choice((0, 1, 1, 2))):
            prescriptions.append((len(prescriptions) + 1, number, medicine, draw.choice((5, 10, 50, 100, 500))))
    write("admissions", "admission_id patient_id ward_id doctor_id diagnosis_id admitted discharged", admissions)
    write("prescriptions", "id admission_id medicine_id dose_mg", prescriptions)
    for row in staff:
        if "nurse" in str(row[2]) or row[2] == "midwife":
            for weekday in draw.sample(
                ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"), 3
            ):
                shifts.append(
                    (
                        len(shifts) + 1,
                        row[0],
                        draw.choice((row[3], row[3], draw.randrange(1, 9))),
                        weekday,
                        draw.choice(("early", "late", "night")),
                    )
                )
    write("shifts", "shift_id staff_id on_ward_id weekday slot", shifts)


if __name__ == "__main__":
    main()
