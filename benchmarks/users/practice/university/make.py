"""An invented university as its database would export it: `python make.py FAKER OUT_FOLDER`.

Ten tables with keys and foreign keys, four of them between others. People's
names are drawn from the lists of the package Faker, the rest is made up here; nobody and nothing in it is real. The
draws are seeded: the same tables every time.
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

LOCALES = ("en_GB", "de_DE", "es_ES", "fr_FR", "pl_PL")
BUILDINGS = (  # name, street, opened, floors
    ("Old Library", "Castle Street", 1902, 3),
    ("Curie Building", "Science Park", 1968, 5),
    ("Turing Hall", "Science Park", 2011, 4),
    ("Harbour Campus", "Quay Road", 1994, 2),
)
FACULTIES = (  # name, building
    ("Computer Science", "Turing Hall"),
    ("Mathematics", "Turing Hall"),
    ("Physics", "Curie Building"),
    ("Biology", "Curie Building"),
    ("History", "Old Library"),
    ("Modern Languages", "Old Library"),
    ("Economics", "Harbour Campus"),
)
RANKS = ("Professor", "Senior Lecturer", "Lecturer", "Lecturer", "Research Assistant")
COURSES = (  # code, title, faculty, credits, level, courses that are needed before
    ("CS101", "Introduction to Programming", "Computer Science", 10, "bachelor", ()),
    ("CS102", "Data Structures", "Computer Science", 10, "bachelor", ("CS101",)),
    ("CS210", "Databases", "Computer Science", 5, "bachelor", ("CS102",)),
    ("CS220", "Operating Systems", "Computer Science", 5, "bachelor", ("CS102",)),
    ("CS310", "Machine Learning", "Computer Science", 10, "master", ("CS102", "MA120", "MA201")),
    ("CS320", "Computer Vision", "Computer Science", 5, "master", ("CS310",)),
    ("MA101", "Calculus", "Mathematics", 10, "bachelor", ()),
    ("MA120", "Linear Algebra", "Mathematics", 10, "bachelor", ()),
    ("MA201", "Probability Theory", "Mathematics", 5, "bachelor", ("MA101",)),
    ("MA310", "Topology", "Mathematics", 5, "master", ("MA101", "MA120")),
    ("PH101", "Mechanics", "Physics", 10, "bachelor", ()),
    ("PH201", "Thermodynamics", "Physics", 5, "bachelor", ("PH101", "MA101")),
    ("PH310", "Quantum Physics", "Physics", 10, "master", ("PH201", "MA120")),
    ("PH320", "Astrophysics", "Physics", 5, "master", ("PH310",)),
    ("BI101", "Cell Biology", "Biology", 10, "bachelor", ()),
    ("BI201", "Genetics", "Biology", 5, "bachelor", ("BI101",)),
    ("BI310", "Bioinformatics", "Biology", 5, "master", ("BI201", "CS101")),
    ("BI220", "Marine Ecology", "Biology", 5, "bachelor", ()),
    ("HI101", "Medieval Europe", "History", 5, "bachelor", ()),
    ("HI201", "The Industrial Revolution", "History", 5, "bachelor", ()),
    ("HI310", "History of Science", "History", 5, "master", ("HI201",)),
    ("ML101", "German for Beginners", "Modern Languages", 5, "bachelor", ()),
    ("ML102", "Intermediate German", "Modern Languages", 5, "bachelor", ("ML101",)),
    ("ML201", "Spanish Literature", "Modern Languages", 5, "bachelor", ()),
    ("EC101", "Microeconomics", "Economics", 10, "bachelor", ()),
    ("EC201", "Game Theory", "Economics", 5, "bachelor", ("EC101", "MA101")),
    ("EC310", "Econometrics", "Economics", 10, "master", ("EC101", "MA201")),
)
ROOMS = (  # name, building, floor, seats, projector
    ("T-001", "Turing Hall", 0, 220),
    ("T-105", "Turing Hall", 1, 40),
    ("T-210", "Turing Hall", 2, 32),
    ("T-301", "Turing Hall", 3, 24),
    ("C-012", "Curie Building", 0, 160),
    ("C-120", "Curie Building", 1, 60),
    ("C-230", "Curie Building", 2, 28),
    ("C-404", "Curie Building", 4, 18),
    ("L-Great Hall", "Old Library", 0, 300),
    ("L-14", "Old Library", 1, 25),
    ("L-22", "Old Library", 2, 20),
    ("H-1", "Harbour Campus", 0, 120),
    ("H-2", "Harbour Campus", 0, 45),
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
HOMES = ("Ashford", "Brookhaven", "Carrow", "Dunmere", "Eastwick", "Farleigh")


def main() -> None:
    sys.path.insert(0, sys.argv[1])
    out = Path(sys.argv[2])
    draw = random.Random(41)
    people = [importlib.import_module(f"faker.providers.person.{locale}").Provider for locale in LOCALES]
    used: set[str] = set()

    def write(name: str, columns: str, rows: Sequence[Sequence[object]]) -> None:
        with (out / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns.split())
            writer.writerows(rows)

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

    building = {name: at for at, (name, *_) in enumerate(BUILDINGS, 1)}
    faculty = {name: at for at, (name, _) in enumerate(FACULTIES, 1)}
    write("buildings", "building_id name street opened floors", [(building[row[0]], *row) for row in BUILDINGS])
    rooms = [(name, building[at], *rest, draw.choice(("yes", "yes", "no"))) for name, at, *rest in ROOMS]
    write("rooms", "room_id building_id floor seats projector", rooms)

    lecturers: list[list[object]] = []
    for name, at in faculty.items():
        first = len(lecturers) + 1
        for rank in RANKS[: 5 if name in ("Computer Science", "Physics") else 4]:
            office = draw.choice([room[0] for room in rooms])
            born = day("1955-01-01", "1975-01-01")
            boss = "" if rank == "Professor" else first if rank != "Research Assistant" else first + 1
            row = [len(lecturers) + 1, person(), rank, at, boss, office, born, day("1999-01-01", "2023-09-01")]
            lecturers.append([*row, draw.randrange(2800, 4800, 50) + (2400 if rank == "Professor" else 0)])
    write("lecturers", "lecturer_id name rank faculty_id supervisor_id office_id born joined salary", lecturers)
    deans = {row[3]: row[0] for row in lecturers if row[2] == "Professor"}
    write(
        "faculties",
        "faculty_id name building_id dean_id budget",
        [(at, name, building[dict(FACULTIES)[name]], deans[at], draw.randrange(300, 1900) * 1000) for name, at in faculty.items()],
    )  # fmt: skip

    courses, taught, slots = [], [], []
    for code, title, of, credits, level, _ in COURSES:
        courses.append((code, title, faculty[of], credits, level))
        own = [row[0] for row in lecturers if row[3] == faculty[of] and row[2] != "Research Assistant"]
        for at, who in enumerate(draw.sample(own, draw.choice((1, 1, 2)))):
            taught.append((len(taught) + 1, code, who, "lead" if at == 0 else "assistant"))
        for _ in range(draw.choice((1, 2))):
            near = [room[0] for room in rooms if room[1] == building[dict(FACULTIES)[of]]]
            slots.append((len(slots) + 1, code, draw.choice(near), draw.choice(DAYS), f"{draw.randrange(8, 18):02}:00"))
    write("courses", "course_id title faculty_id credits level", courses)
    write("teaching", "id course_id lecturer_id role", taught)
    write("timetable", "id course_id room_id weekday starts_at", slots)
    before = [(code, needed) for code, *_, needs in COURSES for needed in needs]
    write("prerequisites", "id course_id required_course_id", [(at, *row) for at, row in enumerate(before, 1)])

    students, enrolments = [], []
    advisers = [row[0] for row in lecturers if row[2] != "Research Assistant"]
    for number in range(1, 91):
        of = draw.choice(sorted(faculty.values()))
        started = f"{draw.randrange(2019, 2025)}-10-01"
        students.append(
            (
                f"S{20000 + number}",
                person(),
                of,
                draw.choice(HOMES),
                day("1993-01-01", "2001-01-01"),
                started,
                draw.choice(advisers),
            )
        )
        own = [row[0] for row in courses if row[2] == of]
        others = [row[0] for row in courses if row[2] != of]
        for code in [
            *draw.sample(own, min(len(own), draw.choice((2, 3)))),
            *draw.sample(others, draw.choice((0, 1, 2))),
        ]:
            grade = "" if draw.random() < 0.15 else draw.choice((1.0, 1.3, 1.7, 2.0, 2.3, 2.7, 3.0, 3.3, 3.7, 4.0, 5.0))
            enrolments.append((len(enrolments) + 1, f"S{20000 + number}", code, day("2023-09-15", "2024-10-15"), grade))
    write("students", "student_id name faculty_id home_town born started adviser_id", students)
    write("enrolments", "id student_id course_id enrolled_on grade", enrolments)


main()
