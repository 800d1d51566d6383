"""An invented wine shop in Turtle: `python make.py OUT_FOLDER`. Grapes and regions are real, wines and wineries are not."""

# ruff: noqa: E501 (a wine a line)

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

REGIONS = [
    "Rioja",
    "Spain",
    "warm",
    "Ribera del Duero",
    "Spain",
    "warm",
    "Mosel",
    "Germany",
    "cool",
    "Rheingau",
    "Germany",
    "cool",
    "Wachau",
    "Austria",
    "cool",
    "Tuscany",
    "Italy",
    "warm",
    "Piedmont",
    "Italy",
    "cool",
    "Burgundy",
    "France",
    "cool",
    "Bordeaux",
    "France",
    "warm",
    "Alsace",
    "France",
    "cool",
    "Loire",
    "France",
    "cool",
    "Douro",
    "Portugal",
    "warm",
    "Mendoza",
    "Argentina",
    "warm",
    "Marlborough",
    "New Zealand",
    "cool",
    "Stellenbosch",
    "South Africa",
    "warm",
]
GRAPES = {
    "Tempranillo": "red",
    "Riesling": "white",
    "Gruner Veltliner": "white",
    "Sangiovese": "red",
    "Nebbiolo": "red",
    "Pinot Noir": "red",
    "Chardonnay": "white",
    "Merlot": "red",
    "Cabernet Sauvignon": "red",
    "Gewurztraminer": "white",
    "Chenin Blanc": "white",
    "Touriga Nacional": "red",
    "Malbec": "red",
    "Sauvignon Blanc": "white",
    "Syrah": "red",
}
WINERIES = """Bodega Alarcon|Rioja|1921|no
Finca Torreluna|Ribera del Duero|1988|yes
Weingut Steinkuhl|Mosel|1768|yes
Weingut Adlerberg|Rheingau|1902|no
Hofkellerei Prandtner|Wachau|1954|yes
Tenuta Casaverde|Tuscany|1830|no
Cantina Bracco|Piedmont|1899|no
Domaine Perrault|Burgundy|1847|yes
Chateau Montferrand|Bordeaux|1792|no
Maison Ziegler|Alsace|1911|yes
Domaine du Heron|Loire|1976|yes
Quinta da Pedra|Douro|1865|no
Bodega Cerro Azul|Mendoza|1997|no
Kea Point|Marlborough|2003|yes
Blouberg Estate|Stellenbosch|1961|no""".splitlines()
WINES = """Alarcon Reserva|Bodega Alarcon|Tempranillo|2016|19.5|14|red|lamb,hard cheese
Alarcon Rosado|Bodega Alarcon|Tempranillo|2022|9.9|12.5|rose|salad,seafood
Torreluna Noche|Finca Torreluna|Tempranillo,Merlot|2018|27|14.5|red|beef
Steinkuhl Kabinett|Weingut Steinkuhl|Riesling|2021|14|8.5|white|seafood,spicy food
Steinkuhl Eiswein|Weingut Steinkuhl|Riesling|2018|62|7|dessert|blue cheese
Adlerberg Trocken|Weingut Adlerberg|Riesling|2022|12.5|12|white|seafood,salad
Prandtner Federspiel|Hofkellerei Prandtner|Gruner Veltliner|2023|13.9|12|white|veal,salad
Prandtner Smaragd|Hofkellerei Prandtner|Gruner Veltliner|2020|29|13.5|white|veal
Casaverde Chianti|Tenuta Casaverde|Sangiovese|2019|16|13.5|red|pasta,hard cheese
Casaverde Superiore|Tenuta Casaverde|Sangiovese,Cabernet Sauvignon,Merlot|2017|48|14|red|beef
Bracco Barolo|Cantina Bracco|Nebbiolo|2015|54|14.5|red|game,beef
Bracco Langhe|Cantina Bracco|Nebbiolo|2020|22|14|red|pasta
Perrault Village|Domaine Perrault|Pinot Noir|2019|38|13|red|duck
Perrault Blanc|Domaine Perrault|Chardonnay|2020|44|13|white|chicken,seafood
Montferrand Grand Vin|Chateau Montferrand|Cabernet Sauvignon,Merlot|2010|115|13.5|red|lamb,beef
Montferrand Clairet|Chateau Montferrand|Merlot|2022|11|12.5|rose|salad
Ziegler Gewurz|Maison Ziegler|Gewurztraminer|2021|18|13.5|white|spicy food,blue cheese
Ziegler Cremant|Maison Ziegler|Riesling,Chardonnay|2020|17.5|12|sparkling|seafood
Heron Vouvray|Domaine du Heron|Chenin Blanc|2021|15|12.5|white|chicken
Heron Petillant|Domaine du Heron|Chenin Blanc|2022|21|11.5|sparkling|salad
Pedra Tinto|Quinta da Pedra|Touriga Nacional|2019|17|14|red|lamb
Pedra Vintage|Quinta da Pedra|Touriga Nacional|2003|78|20|dessert|blue cheese,chocolate
Cerro Azul Malbec|Bodega Cerro Azul|Malbec|2021|10.5|14|red|beef
Kea Point Sauvignon|Kea Point|Sauvignon Blanc|2023|14.5|13|white|seafood,goat cheese
Kea Point Pinot|Kea Point|Pinot Noir|2021|24|13.5|red|duck
Blouberg Shiraz|Blouberg Estate|Syrah|2020|12|14.5|red|game
Blouberg Chenin|Blouberg Estate|Chenin Blanc|2022|9.5|13|white|chicken,salad""".splitlines()
CUSTOMERS = ["Hugo Lenoir", "Restaurant Zander", "Olive & Vine", "Bistro Paulette", "Karin Stahl", "Hotel Seeblick"]


def main() -> None:
    draw = random.Random(5)
    lines = [
        "@prefix : <http://example.org/wine/> .",
        "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .",
        "@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .",
        "",
    ]

    def node(name: str) -> str:
        return ":" + re.sub(r"\W+", "_", name)

    def thing(name: str, kind: str) -> None:
        line = f'{node(name)} a :{kind} ; rdfs:label "{name}"@en .'
        if line not in lines:
            lines.append(line)

    for at in range(0, len(REGIONS), 3):
        region, country, climate = REGIONS[at : at + 3]
        thing(country, "Country")
        thing(region, "Region")
        lines.append(f'{node(region)} :country {node(country)} ; :climate "{climate}" .')
    for grape, colour in GRAPES.items():
        thing(grape, "Grape")
        lines.append(f'{node(grape)} :skinColour "{colour}" .')
    for line in WINERIES:
        name, region, founded, organic = line.split("|")
        thing(name, "Winery")
        lines.append(
            f'{node(name)} :region {node(region)} ; :founded "{founded}"^^xsd:gYear ; :organic {"true" if organic == "yes" else "false"} ; :hectares {draw.randrange(6, 140)} .'
        )
    for line in WINES:
        name, winery, grapes, vintage, price, alcohol, style, foods = line.split("|")
        thing(name, "Wine")
        lines.append(f'{node(name)}_price a :Price ; :amount {price} ; :currency "EUR" .')
        lines.append(
            f'{node(name)} :producer {node(winery)} ; :vintage "{vintage}"^^xsd:gYear ; :price {node(name)}_price ; :alcohol {alcohol} ; :style {node(style + " wine")} ; :bottlesInStock {draw.randrange(0, 180)} .'
        )
        thing(style + " wine", "Style")
        for grape in grapes.split(","):
            lines.append(f"{node(name)} :grape {node(grape)} .")
        for food in foods.split(","):
            thing(food, "Dish")
            lines.append(f"{node(name)} :goesWith {node(food)} .")
    for number in range(1, 41):
        order = f"Order {1000 + number}"
        thing(order, "Order")
        wine = draw.choice(WINES).split("|")[0]
        day = f"2024-{draw.randrange(1, 13):02}-{draw.randrange(1, 29):02}"
        customer = draw.choice(CUSTOMERS)
        thing(customer, "Customer")
        lines.append(
            f'{node(order)} :customer {node(customer)} ; :item {node(wine)} ; :bottles {draw.choice((1, 3, 6, 12, 24))} ; :orderedOn "{day}"^^xsd:date .'
        )
    (Path(sys.argv[1]) / "wines.ttl").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
