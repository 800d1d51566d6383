"""A firm as a graph, for tests of the full walking language."""

from __future__ import annotations

import random

DEPARTMENTS = ("Sales", "Design", "Finance", "Legal", "Support")
LANGUAGES = ("French", "German", "Greek", "Welsh", "Dutch", "Farsi")
FIRST = ("Ann", "Bob", "Cem", "Dee", "Eve", "Fay", "Gus", "Hal", "Ida", "Jon", "Kim", "Lea")
LAST = ("Moss", "Reed", "Stone")
CLUBS = ("Rowers", "Archers", "Sailors", "Climbers")


def company(seed: int = 0) -> list[tuple[str, ...]]:
    """A firm: people with a department, a salary, languages, a boss and dated clubs; parts with prices as nodes."""
    chance = random.Random(seed)
    people = [f"{first} {last}" for last in LAST for first in FIRST]
    facts: list[tuple[str, ...]] = [(name, "is_a", "Department") for name in DEPARTMENTS]
    facts += [(name, "is_a", "Language") for name in LANGUAGES] + [(name, "is_a", "Club") for name in CLUBS]
    for at, name in enumerate(people):
        facts += [
            (name, "is_a", "Employee"),
            (name, "salary", str(400 + 37 * at)),
            (name, "on_leave", ("false", "true")[at % 5 == 0]),
        ]
        facts.append((name, "works_in", chance.choice(DEPARTMENTS)))
        facts += [(name, "speaks", language) for language in chance.sample(LANGUAGES, chance.choice((0, 1, 1, 2, 3)))]
        facts += [(name, "email", f"{name.lower().replace(' ', '.')}@firm.example")] * (at % 7 > 0)
        if at:
            facts.append((name, "reports_to", people[chance.randrange(at)]))
        year = 1990
        for club in chance.sample(CLUBS, chance.choice((1, 2, 3))):
            facts.append((name, "member_of", club, f"{year}..{year + 3}"))
            year += chance.randrange(4, 7)
    for at, name in enumerate(DEPARTMENTS):
        facts.append((name, "budget", str(100_000 * (at + 2))))
    for at, part in enumerate(("seat", "wheel", "frame", "bell", "chain", "pedal", "lamp", "brake")):
        facts += [
            (part, "is_a", "Part"),
            (part, "price", f"_:p{at}"),
            (f"_:p{at}", "amount", str(5 + at * at)),
            (f"_:p{at}", "currency", "EUR"),
        ]
        facts += [(part, "made_by", chance.choice(("Acme", "Bolt & Co")))]
    return facts
