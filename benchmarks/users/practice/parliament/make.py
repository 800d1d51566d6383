"""The parliament of an invented republic, 1994 to 2026, as tab-separated facts with their time: `python make.py OUT.tsv`.

Who was in which party, held which office and sat for which constituency, from when to when; elections with their
results, cabinets, and laws with those they amend. Nobody and nothing in it is real. The draws are seeded: the same file
every time. A fact's fourth column is its time, `2004-05-01..2008-03-31`, without an end where it still holds.
"""

# ruff: noqa: E501, SIM905 (a row of a table a line; names in one string)

from __future__ import annotations

import random
import sys
from datetime import date, timedelta
from pathlib import Path

PROVINCES = {  # with their constituencies
    "Westmarch": ("Aldersund", "Brackwater", "Corvin", "Dunmere", "Eastgate"),
    "Ostvale": ("Falkenau", "Grenz", "Harrowfield", "Ilmstadt"),
    "Highmoor": ("Jutsk", "Karrow", "Lindmoor", "Marrick", "Nesford"),
    "Saltcoast": ("Ostia Nova", "Pellworth", "Quayside", "Rothsay", "Sandhaven"),
    "Kingsfell": ("Tarn", "Uffington", "Vellmar", "Wexcombe"),
}
PARTIES = (  # name, letters, founded, where it stands, the party it split from, strength
    ("Civic Union", "CU", 1946, "centre-right", None, 30),
    ("Labour Front", "LF", 1919, "centre-left", None, 32),
    ("Liberal Forum", "LIF", 1968, "centre", "Civic Union", 12),
    ("Farmers League", "FL", 1951, "right", "Civic Union", 10),
    ("People's Left", "PL", 1989, "left", "Labour Front", 8),
    ("Green Alliance", "GA", 1983, "centre-left", None, 9),
    ("Reform Now", "RN", 2005, "centre-right", "Liberal Forum", 7),
    ("Homeland", "HL", 2011, "far right", "Farmers League", 6),
)
MINISTRIES = "Finance,Justice,Health,Education,Foreign Affairs,Interior,Defence,Agriculture,Environment".split(",")
CABINETS = (  # from, to, the parties in it, the first of which has the prime minister
    ("1994-10-03", "1998-10-05", ("Labour Front", "People's Left")),
    ("1998-10-05", "2002-10-07", ("Civic Union", "Farmers League")),
    ("2002-10-07", "2005-02-14", ("Civic Union", "Liberal Forum")),
    ("2005-02-14", "2010-10-04", ("Labour Front", "Green Alliance")),
    ("2010-10-04", "2014-10-06", ("Civic Union", "Reform Now", "Farmers League")),
    ("2014-10-06", "2018-10-01", ("Labour Front", "Liberal Forum")),
    ("2018-10-01", "2022-10-03", ("Labour Front", "Green Alliance", "People's Left")),
    ("2022-10-03", "", ("Civic Union", "Liberal Forum", "Reform Now")),
)
COMMITTEES = (
    "Budget",
    "Petitions",
    "Foreign Relations",
    "Rural Affairs",
    "Social Policy",
    "Constitutional",
    "Transport",
)
YEARS = range(1994, 2023, 4)
SCHOOLS = ("University of Corvin", "Royal Law School", "Marrick Polytechnic", "Sandhaven College")
JOBS = "lawyer,teacher,farmer,economist,doctor,journalist,engineer,trade unionist,nurse,historian".split(",")
FIRST = "Adela Benedikt Cosima Darius Edda Florian Gisela Hartwig Isolde Janek Klara Leopold Mirela Norman Odette Percival Roswitha Stellan Theodora Ulla Valentin Wilma Yannick Zelda Arvid Brunhilde Conrad Dagmar Eskil Felicia Godfrey Hedda Ingmar Josepha Kasimir Lavinia Magnus Nerina Otmar Philippa Rasmus Sunniva Tancred Ute Verena Wendel Xaver Ysolde Zacharias Amalia Bertram Celeste Dorian Eleonora Ferdinand Gwendolyn Hector Imogen Julius Katinka Lothar Melchior Nadine Oswald Petronella Reinhold Saskia Tobias Undine Volker Winifred Alaric Bettina Clemens Delphine Erasmus".split()
LAST = "Abendroth Blackwood Carstens Drummond Ekberg Fairfax Gallager Hollander Isaksson Jernigan Kestrel Lockhart Merriweather Northcott Oberlin Prendergast Quist Ravensdale Stromberg Thackeray Underhill Vandermeer Whitlock Yarrow Zeller Ashcombe Birkeland Castleton Dorn Elphinstone Falk Greaves Hartmann Ingersoll Jessen Krol Lamprecht Mowbray Nyqvist Orlov Pomeroy Rask Sorensen Tolliver Ullmann Voss Wainwright Yates Zorn Arkwright Bellweather Crane Duval Everhart Fosse Grantham Hale Ives Jolly Kinsella Lange Mott Nettle Osgood Pike Rowe Sable Trask Usher Vane Wolfe Acker Bright Cole Dray".split()
LAWS = "Clean Rivers Act,Rent Control Act,Pensions Act,Rail Subsidy Act,Forest Protection Act,Press Freedom Act,Land Use Act,School Meals Act,Minimum Wage Act,Data Privacy Act,Harbour Dues Act,Hospital Funding Act,Border Service Act,Wind Power Act,Farm Support Act,Civil Partnership Act,Court Reform Act,Bank Levy Act,Adult Education Act,Fisheries Act,Housing Bonds Act,Police Powers Act,Parental Leave Act,Carbon Tax Act".split(
    ","
)
AMENDS = (("Carbon Tax Act", "Wind Power Act"), ("Wind Power Act", "Forest Protection Act"), ("Forest Protection Act", "Clean Rivers Act"), ("Housing Bonds Act", "Rent Control Act"), ("Parental Leave Act", "Minimum Wage Act"), ("Fisheries Act", "Harbour Dues Act"), ("Police Powers Act", "Border Service Act"), ("Minimum Wage Act", "Pensions Act"))  # fmt: skip


def main() -> None:
    random.seed(1994)
    lines: list[str] = []

    def fact(head: str, relation: str, tail: object, start: object = "", end: object = "") -> None:
        lines.append("\t".join([head, relation, str(tail), *([f"{start}..{end}"] if start else [])]))

    towns = {town: province for province, ones in PROVINCES.items() for town in ones}
    for province in PROVINCES:
        fact(province, "is_a", "province")
    for committee in COMMITTEES:
        fact(f"{committee} Committee", "is_a", "committee")
    for town, province in towns.items():
        fact(town, "is_a", "constituency")
        fact(town, "lies_in", province)
        fact(town, "registered_voters", random.randrange(28000, 96000))
    for name, letters, founded, stands, parent, _ in PARTIES:
        fact(name, "is_a", "party")
        fact(name, "abbreviation", letters)
        fact(name, "founded", founded)
        fact(name, "political_position", stands)
        fact(name, "headquarters", random.choice(sorted(towns)))
        if parent:
            fact(name, "split_from", parent)

    # Politicians: some of them change their party once
    firsts, lasts = random.sample(FIRST, len(FIRST)), random.sample(LAST, len(LAST))
    people = [f"{first} {last}" for first, last in zip(firsts, lasts, strict=False)]
    since = {party[0]: max(party[2], 1978) for party in PARTIES}
    active: dict[str, list[tuple[str, int, int]]] = {party[0]: [] for party in PARTIES}  # who, from and to which year
    for person in people:
        first = random.randrange(1984, 2019)
        last = min(first + random.randrange(9, 26), 2027)
        party = random.choices([p[0] for p in PARTIES], [p[5] for p in PARTIES])[0]
        first = max(first, since[party])
        last = max(last, first + 5)
        fact(person, "is_a", "politician")
        fact(person, "born_on", date(first - random.randrange(24, 41), 1, 1) + timedelta(random.randrange(365)))
        fact(person, "born_in", random.choice(sorted(towns)))
        fact(person, "studied_at", random.choice(SCHOOLS))
        fact(person, "profession", random.choice(JOBS))
        others = [p[0] for p in PARTIES if p[0] != party and since[p[0]] <= first + 6]
        left = "" if last >= 2027 else f"{last}-{random.randrange(1, 13):02}-15"
        if random.random() < 0.22 and last - first > 9 and others:
            moved, new = f"{first + 7}-{random.randrange(1, 13):02}-01", random.choice(others)
            fact(person, "party_member", party, f"{first}-03-01", moved)
            fact(person, "party_member", new, moved, left)
            active[party].append((person, first, first + 6))
            active[new].append((person, first + 8, last))
        else:
            fact(person, "party_member", party, f"{first}-03-01", left)
            active[party].append((person, first, last))
        begun = next((year for year in YEARS if first <= year < last), None)
        if begun and random.random() < 0.85:
            ended = min(last, begun + 4 * random.choice((1, 1, 2, 3, 4)))
            fact(
                person,
                "represents",
                random.choice(sorted(towns)),
                f"{begun}-10-01",
                "" if ended >= 2026 else f"{ended}-09-30",
            )
            for committee in random.sample(COMMITTEES, random.choice((1, 2, 2))):
                fact(
                    person,
                    "sits_on",
                    f"{committee} Committee",
                    f"{begun}-11-01",
                    "" if ended >= 2026 else f"{ended}-08-31",
                )
    for name, _, founded, _, _, _ in PARTIES:
        year = max(founded, 1990)
        while year < 2026:
            able = [who for who, first, last in active[name] if first <= year < last]
            if not able:
                year += 1
                continue
            until = min(year + random.randrange(4, 11), 2027)
            fact(random.choice(able), "leader_of", name, f"{year}-05-20", "" if until >= 2026 else f"{until}-05-20")
            year = until

    # Cabinets, and who was minister in them
    numbers: dict[str, int] = {}
    for start, end, parties in CABINETS:
        year = int(start[:4])
        by_party = {
            party: [who for who, first, last in active[party] if first <= year and last >= min(year + 2, 2026)]
            for party in parties
        }
        chief = random.choice(by_party[parties[0]])
        numbers[chief] = numbers.get(chief, 0) + 1
        surname = chief.split()[1]
        cabinet = f"{surname} {'I' * numbers[chief]} cabinet"
        fact(cabinet, "is_a", "cabinet")
        fact(cabinet, "took_office", start)
        if end:
            fact(cabinet, "left_office", end)
        for party in parties:
            fact(cabinet, "coalition_party", party)
        fact(chief, "held_office", "Prime Minister", start, end)
        fact(chief, "served_in", cabinet)
        pool = [who for party in parties for who in by_party[party] if who != chief]
        for ministry, who in zip(MINISTRIES, random.sample(pool, min(len(pool), len(MINISTRIES))), strict=False):
            fact(who, "held_office", f"Minister of {ministry}", start, end)
            fact(who, "served_in", cabinet)
    for office in ("Prime Minister", *(f"Minister of {ministry}" for ministry in MINISTRIES)):
        fact(office, "is_a", "office")
    for town in ("Corvin", "Marrick", "Sandhaven", "Vellmar", "Falkenau"):
        fact(f"Mayor of {town}", "is_a", "office")
        year = 1995
        while year < 2026:
            until = year + random.choice((5, 10))
            able_now = [
                who
                for ones in active.values()
                for who, first, last in ones
                if first <= year and last >= min(year + 3, 2026)
            ]
            fact(
                random.choice(able_now),
                "held_office",
                f"Mayor of {town}",
                f"{year}-01-01",
                "" if until > 2026 else f"{until - 1}-12-31",
            )
            year = until

    # Elections, with a node for what each party got
    for year in YEARS:
        election = f"{year} election"
        fact(election, "is_a", "election")
        fact(election, "held_on", date(year, 9, random.randrange(10, 28)))
        fact(election, "turnout_percent", round(random.uniform(61, 84), 1))
        standing = [(party[0], party[1], party[5] * random.uniform(0.6, 1.4)) for party in PARTIES if party[2] <= year]
        total = sum(share for _, _, share in standing)
        for party_name, letters, share in standing:
            result = f"{letters} in {year}"
            fact(result, "is_a", "result")
            fact(result, "of_election", election)
            fact(result, "of_party", party_name)
            fact(result, "vote_percent", round(100 * share / total, 1))
            fact(result, "seats", round(150 * share / total))
    amends = dict(AMENDS)
    for at, law in enumerate(LAWS):
        passed = date(1996, 2, 1) + timedelta(at * 440 + random.randrange(300))
        able_now = [
            who for ones in active.values() for who, first, last in ones if first <= passed.year and last > passed.year
        ]
        fact(law, "is_a", "law")
        fact(law, "passed_on", passed)
        for sponsor in random.sample(able_now, random.choice((1, 1, 2))):
            fact(law, "proposed_by", sponsor)
        ayes = random.randrange(76, 140)
        fact(law, "votes_for", ayes)
        fact(law, "votes_against", random.randrange(5, 149 - ayes + 5))
        if law in amends:
            fact(law, "amends", amends[law])
    Path(sys.argv[1]).write_text("\n".join(lines) + "\n")


main()
