"""An invented film festival as facts in JSON lines: `python make.py OUT_FOLDER`. Nobody and nothing in it is real."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

FILMS = """The Salt Orchard|Marta Oliveira|Portugal|Portuguese|drama|112|Competition
Night Bus to Varna|Dimo Petrov|Bulgaria|Bulgarian|comedy|96|Competition
Glass Rivers|Hanne Solberg|Norway|Norwegian|documentary|84|Panorama
The Clockmaker's Wife|Ilse Brandauer|Austria|German|drama|121|Competition
Paper Tigers|Chen Yulan|Taiwan|Mandarin|animation|78|Kids
Low Tide|Aoife Brennan|Ireland|English|thriller|103|Competition
A Field in Winter|Joost van Dael|Netherlands|Dutch|drama|99|Panorama
Seven Goats|Tamar Lomidze|Georgia|Georgian|comedy|88|Panorama
Echo Chamber|Priya Raman|India|Hindi|thriller|134|Panorama
The Last Lamplighter|Pavel Horak|Czechia|Czech|animation|71|Kids
Mother Tongue|Leila Haddad|Lebanon|Arabic|documentary|91|Competition
Bright Nothing|Sam Okoye|Nigeria|English|drama|107|First Features
Concrete Summer|Lucia Ferrer|Spain|Spanish|drama|94|First Features
Owl Season|Mikko Lahti|Finland|Finnish|horror|89|Midnight
Teeth|Rachel Stern|United States|English|horror|92|Midnight
The Weight of Honey|Ayse Demir|Turkey|Turkish|drama|118|Competition
Small Gods of the Metro|Luis Aranda|Mexico|Spanish|comedy|101|Panorama
Nine Minutes|Yuki Mori|Japan|Japanese|short|9|Shorts
Postcard|Emre Kaya|Turkey|Turkish|short|14|Shorts
Ferry, Waiting|Greta Lindholm|Sweden|Swedish|short|22|Shorts
Anthill|Joao Pinto|Brazil|Portuguese|short|17|Shorts
Whale Songs for Beginners|Aoife Brennan|Ireland|English|documentary|76|Panorama
Red Dust Choir|Thabo Nkosi|South Africa|Zulu|documentary|98|First Features
The Understudy|Claire Fontaine|France|French|comedy|105|Competition
Hollow Moon|Min-jun Park|South Korea|Korean|thriller|127|Midnight
Grandmother's Satellite|Elena Popescu|Romania|Romanian|comedy|93|First Features""".splitlines()
VENUES = {"Lido": 620, "Odeon 1": 340, "Odeon 2": 180, "Harbour Screen": 900, "Studio K": 75}
JURORS = {
    "Ingrid Vollmer": "Competition",
    "Rafael Duarte": "Competition",
    "Noriko Abe": "Competition",
    "Tomasz Wilk": "Shorts",
    "Bea Laurent": "Shorts",
    "Colm Daly": "First Features",
}
PRIZES = {
    "Golden Heron": "The Weight of Honey",
    "Silver Heron": "Low Tide",
    "Audience Award": "Grandmother's Satellite",
    "Best Short": "Postcard",
    "Best First Feature": "Red Dust Choir",
    "Youth Jury Prize": "Paper Tigers",
    "Best Screenplay": "The Understudy",
}
PRIZE_MONEY = {
    "Golden Heron": 50000,
    "Silver Heron": 20000,
    "Audience Award": 5000,
    "Best Short": 4000,
    "Best First Feature": 10000,
    "Youth Jury Prize": 2500,
    "Best Screenplay": 7500,
}
DISTRIBUTORS = ("Nordlicht", "Cine Aurora", "Kestrel Films", "Magnolia Bay")


def main() -> None:
    draw, facts = random.Random(12), []

    def fact(head: str, relation: str, tail: object) -> None:
        facts.append({"head": head, "relation": relation, "tail": tail})

    for line in FILMS:
        title, director, country, language, genre, runtime, section = line.split("|")
        fact(title, "is_a", "film")
        fact(title, "directed_by", director)
        fact(director, "is_a", "director")
        fact(director, "born_in", str(draw.randrange(1951, 1998)))
        fact(title, "country", country)
        fact(title, "language", language)
        fact(title, "genre", genre)
        fact(title, "runtime_minutes", int(runtime))
        fact(title, "section", section)
        fact(title, "submitted_on", f"2024-{draw.randrange(1, 5):02}-{draw.randrange(1, 29):02}")
        fact(title, "budget_eur", draw.randrange(20, 4000) * 1000 if genre != "short" else draw.randrange(4, 60) * 1000)
        if draw.random() < 0.7 and genre != "short":
            fact(title, "distributor", draw.choice(DISTRIBUTORS))
        for number in range(draw.choice((1, 2, 2))):
            show = f"{title} #{number + 1}"
            fact(show, "is_a", "screening")
            fact(show, "screening_of", title)
            fact(show, "venue", draw.choice(list(VENUES)))
            fact(show, "date", f"2024-09-{draw.randrange(12, 22)}")
            fact(show, "tickets_sold", draw.randrange(20, 600))
    for venue, seats in VENUES.items():
        fact(venue, "is_a", "venue")
        fact(venue, "seats", seats)
    for juror, section in JURORS.items():
        fact(juror, "is_a", "juror")
        fact(juror, "judges", section)
    for prize, film in PRIZES.items():
        fact(prize, "is_a", "prize")
        fact(prize, "won_by", film)
        fact(prize, "prize_money_eur", PRIZE_MONEY[prize])
    seen = list(dict.fromkeys(json.dumps(one, ensure_ascii=False) for one in facts))
    (Path(sys.argv[1]) / "festival.jsonl").write_text("".join(line + "\n" for line in seen))


if __name__ == "__main__":
    main()
