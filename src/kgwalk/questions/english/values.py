"""What one says for more and less of a value, by the words of its name: the northernmost, was born first, founded in.

    wording_of("date of birth").least      # ("oldest", "eldest"): the earliest birth is the oldest person's

Knows nouns for values; neither numbers nor graphs.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kgwalk.questions.english.inflect import plural


class Wording(NamedTuple):
    """For the largest value and for the smallest: adjectives, and what such a one did or does. For dates, also verbs.

    `did` and `done` are followed by a time: "were founded" after 1990, the ones "that were founded" after 1990.
    """

    most: tuple[str, ...] = ()
    least: tuple[str, ...] = ()
    did_most: tuple[str, ...] = ()
    did_least: tuple[str, ...] = ()
    did: str = ""
    done: str = ""
    counted: str = ""  # what the number counts, in the plural: "inhabitants"


def _of(
    pattern: str, most: str = "", least: str = "", did: str = "", done: str = "", **more: str
) -> tuple[str, Wording]:
    """Alternatives are separated by commas; a verb in the past also says what came first and last."""
    one, texts = did.replace("were ", "was "), {"most": most, "least": least, **more}
    texts |= {"did_most": f"{one} last", "did_least": f"{one} first"} if did else {}
    counted = texts.pop("counted", "")
    split = {name: tuple(filter(None, text.split(", "))) for name, text in texts.items()}
    return pattern, Wording(**split, did=did, done=done, counted=counted)


_WORDINGS = (
    _of(
        r"latitude|parallel",
        "northernmost, most northern, most northerly", "southernmost, most southern, most southerly",
        did_most="lies furthest north, lies farthest to the north",
        did_least="lies furthest south, lies farthest to the south",
    ),
    _of(
        r"longitude|meridian",
        "easternmost, most eastern, most easterly", "westernmost, most western, most westerly",
        did_most="lies furthest east, lies farthest to the east",
        did_least="lies furthest west, lies farthest to the west",
    ),
    _of(
        r"population|inhabitants", "most populous, biggest", "least populous, smallest", counted="inhabitants",
        did_most="has the most inhabitants, has the most people",
        did_least="has the fewest inhabitants, has the fewest people",
    ),
    _of(r"height|tall", "tallest", "shortest"),
    _of(r"length|long|duration|runtime|running time", "longest", "shortest"),
    _of(r"lifespan", did_most="lives longest", did_least="has the shortest life"),
    _of(r"age", "oldest", "youngest"),
    _of(r"weight|mass", "heaviest", "lightest"),
    _of(r"price|cost|budget", "most expensive", "cheapest", did_most="cost the most", did_least="cost the least"),
    _of(r"box office|gross|revenue", did_most="took in the most money, earned the most", did_least="earned the least"),
    _of(r"net worth|fortune", "richest", "poorest"),
    _of(r"depth", "deepest", "shallowest"),
    _of(r"elevation|altitude", "highest", "lowest"),
    _of(r"area|size", "largest, biggest", "smallest"),
    _of(r"speed", "fastest", "slowest"),
    _of(r"birth|born|birthday", "youngest", "oldest, eldest", did="were born", done="who were born"),
    _of(r"death|died", did="died", done="who died"),
    _of(r"wedding|marriage", did="got married", done="who married"),
    _of(r"completion|construction|built", "newest", "oldest", did="were completed", done="that were completed"),
    _of(r"found|inception|established|foundation", "newest, youngest", "oldest",
        did="were founded", done="that were founded"),
    _of(r"discovery", did="were discovered", done="that were discovered"),
    _of(r"release|publication|published|premiere", "newest, latest, most recent", "oldest, earliest, first",
        did="came out", done="that came out"),
    _of(r"launch|opened|opening", "newest", "oldest", did="were launched", done="that were launched"),
    _of(r"independence", did="became independent", done="that became independent"),
)  # fmt: skip
_COUNTED = re.compile(r"number of (\w+)|(\w+) count")


def wording_of(noun: str) -> Wording:
    """What is said for more and less of what a noun names; nothing where there are no words of its own.

    >>> wording_of("latitude").most[0], wording_of("founding year").did_least, wording_of("number of pages").did_most
    ('northernmost', ('was founded first',), ('has the most pages',))
    """
    for pattern, found in _WORDINGS:
        if re.search(rf"\b(?:{pattern})", noun):
            return found
    counts = _COUNTED.search(noun)
    if counts is None:
        return Wording()
    things = counts[1] or plural(counts[2])
    return Wording(did_most=(f"has the most {things}",), did_least=(f"has the fewest {things}",), counted=things)
