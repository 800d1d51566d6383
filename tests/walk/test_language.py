"""Every call of the walking language: over a shop that is read at a glance, and against plain Python on any graph."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import store_of, temporary_store
from kgwalk.kg.store import StoredGraph
from kgwalk.llm.engine import ScriptedEngine
from kgwalk.systems.kgwalk.protocol import Kgwalk
from kgwalk.types import Question, Triple
from kgwalk.walk.kinds import ALL, HEADS, OF_TYPE, TAILS, THING, Kind, kind_named, kinds_in
from kgwalk.walk.language import CALLS, COMPARISONS, CORE, DATED_CALLS, Sets, line_of, signature, tools
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.rollout import rollout
from kgwalk.walk.sets import SetError

SHOP = """\
Ann	works_in	Sales
Bob	works_in	Sales
Cem	works_in	Design
Dee	works_in	Design
Eve	works_in	Design
Ann	salary	100
Bob	salary	200
Cem	salary	250
Dee	salary	400
Ann	speaks	French
Ann	speaks	German
Bob	speaks	French
Cem	speaks	German
Cem	speaks	French
Cem	speaks	Greek
Ann	is_a	Employee
Bob	is_a	Employee
Cem	is_a	Employee
Dee	is_a	Employee
Eve	is_a	Employee
Sales	is_a	Department
Design	is_a	Department
chair	price	p1
table	price	p2
lamp	price	p3
p1	amount	20 EUR
p2	amount	90 EUR
p3	amount	20 EUR
chair	width	40
chair	height	90
table	width	120
table	height	75
order 7	item	chair
order 7	item	lamp
order 7	item	table
chair	needs	seat
seat	needs	foam
foam	needs	oil
"""
DATED = """\
Ivo	plays_for	Roma	1990..1994
Ivo	plays_for	Bari	1994..1997
Ivo	plays_for	Pisa	1999
Una	plays_for	Bari	1995..2000
Una	plays_for	Lodi
"""


def rows(text: str) -> list[list[str]]:
    return [line.split("\t") for line in text.splitlines()]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> StoredGraph:
    return store_of(tmp_path_factory.mktemp("shop"), rows(SHOP))


@pytest.fixture(scope="module")
def dated(tmp_path_factory: pytest.TempPathFactory) -> StoredGraph:
    return store_of(tmp_path_factory.mktemp("dated"), rows(DATED))


EMPLOYEES = Kind("employee", OF_TYPE, "is_a", "Employee")
DEPARTMENTS = Kind("department", OF_TYPE, "is_a", "Department")


def walk(graph: StoredGraph, *calls: tuple[object, ...], topics: tuple[str, ...] = (), kinds: tuple[Kind, ...] = ()):
    """The sets after some calls; "$2" as an argument is a set."""
    sets = Sets(graph, topics, kinds=kinds, empty=True)
    for tool, *args in calls:
        sets.call(str(tool), [int(arg[1:]) if str(arg).startswith("$") else arg for arg in args])  # type: ignore[index]
    return sets


def last(graph: StoredGraph, *calls: tuple[object, ...], **given: object) -> list[str]:
    """The members of the last set, in alphabetical order unless it has one."""
    made = walk(graph, *calls, **given).made[-1]  # type: ignore[arg-type]
    return list(made.members) if made.ordered else sorted(made.members)


# What a walk sees around a set


def test_a_relation_to_nodes_that_hold_a_value_is_listed_with_what_they_hold(shop: StoredGraph) -> None:
    """The chair's price is p1, and only p1 says that it is 20 EUR; a seat that needs foam is a thing of its own."""
    chair = walk(shop, topics=("chair",))
    assert chair.relations_around(1, values=True) == (["height", "needs", "price/amount", "width"], ["item"])
    assert chair.relations_around(1)[0] == ["height", "needs", "price", "width"]
    order = walk(shop, ("tail_entities", "$1", "item"), topics=("order 7",))
    assert order.relations_around(2, values=True)[0] == ["price/amount", "height", "width", "needs"]


def test_a_unit_may_have_a_class_and_a_code(tmp_path: Path) -> None:
    facts = [("euro", "type", "Currency"), ("euro", "currencyCode", "EUR")]
    for at, item in enumerate(("chair", "lamp", "table")):
        facts += [(item, "hasPrice", f"p{at}"), (f"p{at}", "amount", str(10 + at)), (f"p{at}", "currency", "euro")]
    items = walk(store_of(tmp_path, facts), topics=("chair",))
    assert items.relations_around(1, values=True)[0] == ["hasPrice/amount", "hasPrice/currency"]


def test_a_value_is_read_through_the_node_that_holds_it(shop: StoredGraph) -> None:
    """`price` alone is enough where a price is ordered, compared, added up or shown; followed, it leads to the node."""
    order, item = ("order 7",), ("tail_entities", "$1", "item")
    assert last(shop, item, ("argmax", "$2", "price"), topics=order) == ["table"]
    assert last(shop, item, ("filter", "$2", "price", "<", "50"), topics=order) == ["chair", "lamp"]
    assert last(shop, item, ("top", "$2", "price", "1"), topics=order) == ["table"]
    assert last(shop, ("sum", "$1", "item/price"), topics=order) == ["130 EUR"]
    assert last(shop, item, ("average", "$2", "price"), topics=("order 7",))[0].startswith("43.33")
    made = walk(shop, item, ("table", "$2", "price", "width"), topics=order).made[-1]
    assert made.rows["chair"] == (("20 EUR",), ("40",))
    assert last(shop, ("tail_entities", "$1", "price"), topics=("chair",)) == ["p1"]
    facts = walk(shop, item, ("argmax", "$2", "price"), topics=order).evidence("table", 3)
    assert Triple("table", "price", "p2") in facts
    assert Triple("p2", "amount", "90 EUR") in facts


# Where a walk starts


def test_a_walk_starts_from_all_of_a_kind_by_type_or_by_a_relation(shop: StoredGraph) -> None:
    assert last(shop, kinds=(EMPLOYEES,)) == ["Ann", "Bob", "Cem", "Dee", "Eve"]
    assert last(shop, kinds=(Kind("languages", TAILS, "speaks"),)) == ["French", "German", "Greek"]
    assert last(shop, kinds=(Kind("priced", HEADS, "price"),)) == ["chair", "lamp", "table"]
    sets = walk(shop, kinds=(EMPLOYEES,))
    assert sets.evidence("Bob", 1) == [Triple("Bob", "is_a", "Employee")]


def test_all_things_are_a_kind_where_the_graph_has_no_word_for_them(tmp_path: Path) -> None:
    """The largest package: no relation says "package", but every fact is of one. Values are no things."""
    graph = store_of(tmp_path, rows("bash\tsize\t7\nzsh\tsize\t9\nzsh\tneeds\tlibc\n"))
    thing = kind_named("things", graph)
    assert thing == Kind(THING, ALL, "")
    assert last(graph, kinds=(thing,)) == ["bash", "zsh"]
    assert last(graph, ("argmax", 1, "size"), kinds=(thing,)) == ["zsh"]
    assert walk(graph, kinds=(thing,)).evidence("bash", 1) == [Triple("bash", "size", "7")]


def test_an_entity_and_a_kind_are_numbered_in_that_order(shop: StoredGraph) -> None:
    assert last(shop, ("overlap", "$1", "$2"), topics=("Ann",), kinds=(EMPLOYEES,)) == ["yes"]


# Paths in place of a relation


def test_a_path_goes_backwards_on_and_again(shop: StoredGraph) -> None:
    assert last(shop, ("tail_entities", "$1", "^works_in"), topics=("Sales",)) == ["Ann", "Bob"]
    assert last(shop, ("tail_entities", "$1", "price/amount"), topics=("table",)) == ["90 EUR"]
    assert last(shop, ("head_entities", "$1", "price/amount"), topics=("20 EUR",)) == ["chair", "lamp"]
    assert last(shop, ("tail_entities", "$1", "needs+"), topics=("chair",)) == ["foam", "oil", "seat"]
    assert last(shop, ("tail_entities", "$1", "width|height"), topics=("chair",)) == ["40", "90"]


def test_a_path_may_be_repeated_as_a_whole(tmp_path: Path) -> None:
    """A bill of materials as a table has it: a row for each part of a whole. The bike has a wheel, that has a rim."""
    bill = "row 1\twhole\tbike\nrow 1\tpart\twheel\nrow 2\twhole\twheel\nrow 2\tpart\trim\nrow 3\twhole\tcar\n"
    graph = store_of(tmp_path, rows(bill))
    parts = "(^whole/part)+"
    assert last(graph, ("tail_entities", 1, parts), topics=("bike",)) == ["rim", "wheel"]
    assert last(graph, ("head_entities", 1, parts), topics=("rim",)) == ["bike", "wheel"]
    assert last(graph, ("tail_entities", 1, "(whole|part)/^whole"), topics=("row 1",)) == ["row 1", "row 2"]
    assert last(graph, ("argmax", 1, f"count({parts})"), kinds=(Kind("whole", TAILS, "whole"),)) == ["bike"]
    sets = walk(graph, ("tail_entities", 1, parts), topics=("bike",))
    assert sets.evidence("rim", 2) == [
        Triple("row 1", "whole", "bike"),
        Triple("row 1", "part", "wheel"),
        Triple("row 2", "whole", "wheel"),
        Triple("row 2", "part", "rim"),
    ]


def test_the_evidence_of_a_path_is_the_whole_path(shop: StoredGraph) -> None:
    sets = walk(shop, ("tail_entities", "$1", "needs+"), topics=("chair",))
    assert [fact.tail for fact in sets.evidence("oil", 2)] == ["seat", "foam", "oil"]
    sets = walk(shop, ("tail_entities", "$1", "item"), ("tail_entities", "$2", "price/amount"), topics=("order 7",))
    assert sets.evidence("90 EUR", 3) == [
        Triple("order 7", "item", "table"),
        Triple("table", "price", "p2"),
        Triple("p2", "amount", "90 EUR"),
    ]


# Choosing


def test_the_most_by_a_count_and_more_than_so_many(shop: StoredGraph) -> None:
    assert last(shop, ("argmax", "$1", "count(^works_in)"), kinds=(DEPARTMENTS,)) == ["Design"]
    assert last(shop, ("filter", "$1", "count(speaks)", ">=", "2"), kinds=(EMPLOYEES,)) == ["Ann", "Cem"]
    assert last(shop, ("filter", "$1", "count(salary)", "=", "0"), kinds=(EMPLOYEES,)) == ["Eve"]
    many = walk(shop, ("filter", "$1", "salary", ">", "150"), ("argmax", "$2", "count(^works_in in $3)"),
                kinds=(EMPLOYEES, DEPARTMENTS))  # fmt: skip
    assert list(many.made[-1].members) == ["Design"], "two of Design earn more than 150, one of Sales"


def test_top_bottom_and_the_nth(shop: StoredGraph) -> None:
    assert last(shop, ("top", "$1", "salary", "2"), kinds=(EMPLOYEES,)) == ["Dee", "Cem"]
    assert last(shop, ("bottom", "$1", "salary", "all"), kinds=(EMPLOYEES,)) == ["Ann", "Bob", "Cem", "Dee"]
    assert last(shop, ("bottom", "$1", "salary", "all"), ("nth", "$2", "2"), kinds=(EMPLOYEES,)) == ["Bob"]
    parts = Kind("part", HEADS, "needs")  # chair needs a seat, a seat foam, foam oil
    assert last(shop, ("bottom", "$1", "needs", "2"), kinds=(parts,)) == ["seat", "foam"], "by letters"
    assert walk(shop, ("top", "$1", "salary", "2"), kinds=(EMPLOYEES,)).made[-1].ordered
    with pytest.raises(SetError, match="no 9-th"):
        last(shop, ("nth", "$1", "9"), kinds=(EMPLOYEES,))


def test_which_of_two_is_the_union_and_its_most(shop: StoredGraph) -> None:
    calls = (("union", "$1", "$2"), ("argmax", "$3", "salary"))
    assert last(shop, *calls, topics=("Ann", "Dee")) == ["Dee"]


def test_a_filter_takes_a_number_a_set_or_another_value_of_the_member(shop: StoredGraph) -> None:
    things = Kind("thing", HEADS, "width")
    assert last(shop, ("filter", "$1", "width", ">", "height"), kinds=(things,)) == ["table"]
    assert last(shop, ("filter", "$1", "price/amount", "<", "50"), kinds=(things,)) == ["chair"]
    more = (("tail_entities", "$1", "salary"), ("filter", "$2", "salary", ">", "$3"))
    assert last(shop, *more, topics=("Bob",), kinds=(EMPLOYEES,)) == ["Cem", "Dee"]
    assert last(shop, ("filter", "$1", "speaks", ">", "2"), kinds=(EMPLOYEES,)) == [], "no language is a number"
    assert last(shop, ("filter", "$1", "salary", "!=", "200"), kinds=(EMPLOYEES,)) == ["Ann", "Cem", "Dee"]


def test_only_none_and_every(shop: StoredGraph) -> None:
    speakers = (EMPLOYEES,)
    assert last(shop, ("only", "$2", "speaks", "$1"), topics=("French",), kinds=speakers) == ["Bob"]
    assert last(shop, ("none", "$2", "speaks", "$1"), topics=("German",), kinds=speakers) == ["Bob", "Dee", "Eve"]
    both = (("union", "$1", "$2"), ("every", "$3", "speaks", "$4"))
    assert last(shop, *both, topics=("French", "German"), kinds=speakers) == ["Ann", "Cem"]


# Numbers


def test_sums_averages_and_the_least(shop: StoredGraph) -> None:
    assert last(shop, ("sum", "$1", "salary"), kinds=(EMPLOYEES,)) == ["950"]
    assert last(shop, ("average", "$1", "salary"), kinds=(EMPLOYEES,)) == ["237.5"]
    assert last(shop, ("average", "$1", "count(^works_in)"), kinds=(DEPARTMENTS,)) == ["2.5"]
    assert last(shop, ("least", "$1", "salary"), kinds=(EMPLOYEES,)) == ["100"]
    sets = walk(shop, ("sum", "$1", "item/price/amount"), topics=("order 7",))
    assert list(sets.made[-1].members) == ["130 EUR"], "two of its things cost 20"
    with pytest.raises(SetError, match="not all numbers"):
        last(shop, ("sum", "$1", "speaks"), kinds=(EMPLOYEES,))


def test_a_sum_over_a_path_counts_equal_values_of_different_things(shop: StoredGraph) -> None:
    assert last(shop, ("argmax", "$1", "sum(item/price/amount)"), topics=("order 7",)) == ["order 7"]
    assert last(shop, ("table", "$1", "sum(item/price/amount)"), topics=("order 7",)) == ["order 7"]
    made = walk(shop, ("table", "$1", "sum(item/price/amount)"), topics=("order 7",)).made[-1]
    assert made.rows == {"order 7": (("130 EUR",),)}


def test_differences_and_ratios(shop: StoredGraph) -> None:
    two = (("tail_entities", "$1", "salary"), ("tail_entities", "$2", "salary"))
    assert last(shop, *two, ("subtract", "$4", "$3"), topics=("Ann", "Dee")) == ["300"]
    assert last(shop, *two, ("divide", "$4", "$3"), topics=("Ann", "Dee")) == ["4"]


# Yes or no, and rows


def test_yes_and_no(shop: StoredGraph) -> None:
    spoken = ("tail_entities", "$1", "speaks")
    assert last(shop, spoken, ("is_in", "$2", "$3"), topics=("Ann", "German")) == ["yes"]
    assert last(shop, spoken, ("is_in", "$2", "$3"), topics=("Bob", "German")) == ["no"]
    two = (("tail_entities", "$1", "salary"), ("tail_entities", "$2", "salary"), ("compare", "$3", ">", "$4"))
    assert last(shop, *two, topics=("Ann", "Bob")) == ["no"]
    assert last(shop, ("tail_entities", "$1", "salary"), ("compare", "$2", "<", "150"), topics=("Ann",)) == ["yes"]
    sets = walk(shop, spoken, ("overlap", "$2", "$3"), topics=("Ann", "German"))
    assert sets.made[-1].answer_kind == "boolean"
    assert sets.evidence("yes", 4) == [Triple("Ann", "speaks", "German")]


def test_an_empty_set_is_a_set_and_can_be_counted(shop: StoredGraph) -> None:
    spoken = (("tail_entities", "$1", "speaks"), ("intersect", "$3", "$2"), ("count", "$4"))
    assert last(shop, *spoken, topics=("Bob", "Greek")) == ["0"]
    sets = Sets(shop, ["Bob", "Greek"])
    spoken_by_bob = sets.tail_entities(1, "speaks")
    with pytest.raises(SetError, match="the result is empty"):
        sets.intersect(spoken_by_bob, 2)


def test_a_table_has_a_row_for_each_member(shop: StoredGraph) -> None:
    made = walk(shop, ("table", "$1", "works_in", "count(speaks)"), kinds=(EMPLOYEES,)).made[-1]
    assert made.columns == ("works_in", "count(speaks)")
    assert made.rows["Ann"] == (("Sales",), ("2",))
    assert made.rows["Eve"] == (("Design",), ("0",))


# Times of facts


def test_a_value_may_be_limited_to_facts_that_lead_to_a_set(dated: StoredGraph) -> None:
    """Who came to Bari first, of Ivo (Roma 1990, Bari 1994) and Una (Bari 1995)?"""
    both = ("union", 1, 2)
    assert last(dated, both, ("argmin", 4, "start(plays_for in $3)"), topics=("Ivo", "Una", "Bari")) == ["Ivo"]
    assert last(dated, both, ("argmax", 4, "start(plays_for not in $3)"), topics=("Ivo", "Una", "Bari")) == ["Ivo"]
    assert last(dated, both, ("table", 4, "end(plays_for in $3)"), topics=("Ivo", "Una", "Bari")) == ["Ivo", "Una"]


def test_a_hop_may_have_a_date_of_its_own(dated: StoredGraph) -> None:
    """In 1996 Ivo and Una both played for Bari; today nobody plays, as far as there are dates."""
    sets = walk(dated, ("union", 1, 2), ("table", 3, "plays_for@1996", "count(plays_for@1999)"), topics=("Ivo", "Una"))
    assert sets.made[-1].rows == {"Ivo": (("Bari",), ("1",)), "Una": (("Bari",), ("1",))}
    assert last(dated, ("head_entities", 1, "plays_for@1994"), topics=("Bari",)) == ["Ivo"]
    assert last(dated, ("tail_entities", 1, "plays_for@1992/^plays_for@1990"), topics=("Ivo",)) == ["Ivo"]
    assert last(dated, ("tail_entities", 1, "plays_for@now"), topics=("Una",)) == []
    assert last(dated, ("between", 1, "plays_for", "1999", "now"), topics=("Ivo",)) == ["Pisa"]
    with pytest.raises(SetError, match="is not a time"):
        last(dated, ("tail_entities", 1, "plays_for@soon"), topics=("Una",))


def test_a_day_is_in_its_year_and_not_after_it(tmp_path: Path) -> None:
    """Ann was hired in May 2022, Bob in January 2023, of Cem only the year 2022 is known."""
    graph = store_of(tmp_path, rows("Ann\thired\t2022-05-01\nBob\thired\t2023-01-09\nCem\thired\t2022\n"))
    kinds = (Kind("person", HEADS, "hired"),)
    said = {
        (comparison, bound): set(last(graph, ("filter", 1, "hired", comparison, bound), kinds=kinds))
        for comparison in ("=", ">", ">=", "<", "<=", "!=")
        for bound in ("2022", "2022-05-01")
    }
    assert said[">", "2022"] == {"Bob"}
    assert said["=", "2022"] == said["<=", "2022"] == {"Ann", "Cem"}
    assert said[">=", "2022"] == {"Ann", "Bob", "Cem"}
    assert said["<", "2022"] == set()
    assert said["!=", "2022"] == said[">", "2022-05-01"] == {"Bob"}
    assert said["=", "2022-05-01"] == {"Ann"}
    assert said["<", "2022-05-01"] == {"Cem"}  # it begins before
    assert said["<=", "2022-05-01"] == {"Ann", "Cem"}


def test_times_of_day_compare(tmp_path: Path) -> None:
    graph = store_of(tmp_path, rows("BA1\tleaves\t09:50\nBA2\tleaves\t21:05\nBA3\tleaves\t9:05\n"))
    kinds = (Kind("flight", HEADS, "leaves"),)
    assert last(graph, ("filter", 1, "leaves", ">", "20:30"), kinds=kinds) == ["BA2"]
    assert last(graph, ("bottom", 1, "leaves", "2"), kinds=kinds) == ["BA3", "BA1"]
    assert last(graph, ("least", 1, "leaves"), kinds=kinds) == ["9:05"]


def test_when_first_last_before_and_after(dated: StoredGraph) -> None:
    assert last(dated, ("when", "$1", "plays_for", "$2"), topics=("Ivo", "Bari")) == ["1994..1997"]
    assert last(dated, ("earliest", "$1", "plays_for"), topics=("Ivo",)) == ["Roma"]
    assert last(dated, ("latest", "$1", "plays_for"), topics=("Ivo",)) == ["Pisa"]
    at_bari = ("when", "$1", "plays_for", "$2")
    assert last(dated, at_bari, ("before", "$1", "plays_for", "$3"), topics=("Ivo", "Bari")) == ["Roma"]
    assert last(dated, at_bari, ("after", "$1", "plays_for", "$3"), topics=("Ivo", "Bari")) == ["Pisa"]
    assert last(dated, at_bari, ("between", "$2", "^plays_for", "$3", "$3"), topics=("Ivo", "Bari")) == ["Ivo", "Una"]
    assert last(dated, ("argmin", "$1", "start(plays_for)"), topics=("Una",)) == ["Una"]
    with pytest.raises(SetError, match="has a date"):
        last(dated, ("earliest", "$1", "^plays_for"), topics=("Lodi",))


# What a model reads, and what it may get wrong


def test_each_call_says_what_it_does_on_one_line() -> None:
    for tool in CALLS + DATED_CALLS:
        assert line_of(tool).startswith(f"{tool}(")
        assert len(line_of(tool)) <= 130, tool
    assert signature("filter") == "filter(source, relation, comparison, value)"
    assert tools("core", dated=False) == CORE


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (("jump", "$1"), "there is no tool jump"),
        (("count",), "count takes 1 arguments: source"),
        (("count", "$1", "$1"), "count takes 1 arguments"),
        (("tail_entities", "$1", "$1"), "names in double quotes"),
        (("tail_entities", "$1", "salry"), 'relation "salry" is not in the graph; there is "salary"'),
        (("tail_entities", "$1", "works_in/salry"), 'relation "salry" is not in the graph'),
        (("tail_entities", "$1", "count(salary)"), "is a value"),
        (("filter", "$1", "salary", "~", "3"), "is no comparison"),
        (("filter", "$1", "salary", ">", "many"), "is not a number or date"),
        (("top", "$1", "salary", "few"), "no whole number for k"),
        (("compare", "$1", "<", "5"), "is not a number or date"),
        (("subtract", "$1", "5"), "are not two values"),
        (("count", "$7"), "there is no set $7; the last is $1"),
    ],
)
def test_a_wrong_call_is_told_what_is_wrong(shop: StoredGraph, call: tuple[str, ...], told: str) -> None:
    with pytest.raises(SetError, match=told.replace("$", r"\$").replace("(", r"\(")):
        last(shop, call, topics=("Ann",))


# Against plain Python

NODES, RELATIONS = "abcdef", ("r", "s")
FACTS = st.sets(st.tuples(st.sampled_from(NODES), st.sampled_from(RELATIONS), st.sampled_from(NODES)), min_size=1)
NUMBERS = st.dictionaries(st.sampled_from(NODES), st.integers(-5, 5), min_size=1)


@settings(max_examples=40, deadline=None)
@given(facts=FACTS, numbers=NUMBERS, data=st.data())
def test_calls_agree_with_plain_python(
    facts: set[tuple[str, str, str]],
    numbers: dict[str, int],
    data: st.DataObject,
) -> None:
    lines = [f"{h}\t{r}\t{t}" for h, r, t in sorted(facts)] + [f"{h}\tn\t{v}" for h, v in sorted(numbers.items())]
    # every node and relation is there, whatever was drawn
    lines += [f"hub\tall\t{node}" for node in NODES] + [f"hub\t{relation}\thub" for relation in RELATIONS]
    with temporary_store([line.split("\t") for line in lines]) as graph:
        check(graph, facts, numbers, data)


def check(graph: StoredGraph, facts: set[tuple[str, str, str]], numbers: dict[str, int], data: st.DataObject) -> None:
    relation, node = data.draw(st.sampled_from(RELATIONS)), data.draw(st.sampled_from(NODES))

    def tails(name: str) -> set[str]:
        return {t for h, r, t in facts if h == name and r == relation}

    def heads(name: str) -> set[str]:
        return {h for h, r, t in facts if t == name and r == relation}

    both = ("hub", node)

    def made(*calls: tuple[object, ...]) -> set[str]:
        return set(last(graph, ("tail_entities", "$1", "all"), *calls, topics=both))

    assert made() == set(NODES)
    reached, edge = set[str](), {node}
    while edge:
        edge = {t for name in edge for t in tails(name)} - reached
        reached |= edge
    twice, edge = set[str](), {node}
    while edge:
        edge = {t for name in edge for between in tails(name) for t in tails(between)} - twice
        twice |= edge
    assert _hop(graph, both, f"{relation}+") == reached
    assert _hop(graph, both, f"^{relation}") == heads(node)
    assert _hop(graph, both, f"({relation}/{relation})+") == twice
    assert _hop(graph, both, f"{relation}/{relation}") == {t for name in tails(node) for t in tails(name)}
    assert _hop(graph, both, f"{relation}|^{relation}") == tails(node) | heads(node)
    degree = {name: len(tails(name)) for name in NODES}
    assert made(("argmax", "$3", f"count({relation})")) == {n for n in NODES if degree[n] == max(degree.values())}
    assert made(("filter", "$3", f"count({relation})", ">", "1")) == {n for n in NODES if degree[n] > 1}
    assert made(("none", "$3", relation, "$2")) == {n for n in NODES if node not in tails(n)}
    assert made(("only", "$3", relation, "$2")) == {n for n in NODES if tails(n) == {node}}
    assert made(("sum", "$3", "n")) == {str(sum(numbers.values()))}
    assert made(("greatest", "$3", "n")) == {str(max(numbers.values()))}
    ordered = last(graph, ("tail_entities", "$1", "all"), ("top", "$3", "n", "all"), topics=both)
    assert [numbers[name] for name in ordered] == sorted(numbers.values(), reverse=True)
    assert made(("filter", "$3", "n", ">", "0")) == {n for n, v in numbers.items() if v > 0}


def _hop(graph: StoredGraph, topics: tuple[str, str], path: str) -> set[str]:
    return set(last(graph, ("tail_entities", "$2", path), topics=topics))


DAYS = st.dates(date(2000, 1, 1), date(2003, 12, 31)).map(date.isoformat)


@settings(max_examples=40, deadline=None)
@given(days=st.dictionaries(st.sampled_from(NODES), st.tuples(DAYS, DAYS).map(sorted), min_size=1), day=DAYS)
def test_dates_agree_with_plain_python(days: dict[str, list[str]], day: str) -> None:
    """Each node was hired on its first day, and worked for z from then to its second."""
    lines = [[name, "hired", first] for name, (first, _) in days.items()]
    lines += [[name, "works_for", "z", f"{first}..{second}"] for name, (first, second) in days.items()]
    year = day[:4]
    hired = (Kind("hired", HEADS, "hired"),)
    with temporary_store(lines) as graph:
        for bound, first in ((year, {name: first[:4] for name, (first, _) in days.items()}),
                             (day, {name: first for name, (first, _) in days.items()})):  # fmt: skip
            for sign, compare in COMPARISONS.items():
                kept = {name for name in first if compare(first[name], bound)}  # ISO dates compare as texts
                assert set(last(graph, ("filter", 1, "hired", sign, bound), kinds=hired)) == kept
        there = {name for name, (first, second) in days.items() if first <= day <= second}
        assert set(last(graph, ("head_entities", 1, f"works_for@{day}"), topics=("z",))) == there
        dated = {name: first for name, (first, _) in days.items()}
        first_of = {name for name in dated if dated[name] == min(dated.values())}
        assert set(last(graph, ("argmin", 2, "start(works_for in $1)"), topics=("z",), kinds=hired)) == first_of
        later = {name for name in dated if dated[name][:4] > year}
        assert set(last(graph, ("after", 1, "^works_for", year), topics=("z",))) == later


# In a question, and in a walk


def test_kinds_are_found_in_the_plural_and_by_relations(shop: StoredGraph) -> None:
    assert [one.kind.name for one in kinds_in("which departments have 3 employees", shop)] == ["Department", "Employee"]
    [price] = kinds_in("what is the lowest price?", shop)
    assert price.kind == Kind("price", TAILS, "price")
    assert kinds_in("which width is it", shop) == [], "widths are numbers, no things"
    assert kinds_in("departments", shop, taken=[(0, 11)]) == []


def test_a_walk_in_the_full_language(shop: StoredGraph) -> None:
    asked = Question("q", "which department has the most employees?", [], [])
    turns = [
        'argmax($1, "count(^works_in)")',
        'table($2, "count(^works_in)")',
        'none($1, "is_a", $1)',
        "<answer>$2</answer>",
    ]
    [episode] = rollout(
        [(Task(asked, [], kinds=[DEPARTMENTS]), Environment(shop))], Kgwalk(language="full"), ScriptedEngine(turns)
    )
    assert "$1 = 2 department: Design, Sales\n<- works_in" in episode.prompt
    assert "compare(left, comparison, right): yes if" in episode.prompt
    assert [turn.observation.splitlines()[0] for turn in episode.turns[:3]] == [
        "$2 = 1: Design",
        "$3 = 1: Design | 3",
        "$4 = 2: Design, Sales",
    ]
    assert episode.answers == ["Design"]
    assert len(episode.evidence["Design"]) == 4, "what makes it a department, and the three who work there"


def test_an_empty_set_is_shown_as_one(shop: StoredGraph) -> None:
    asked = Question("q", "how many Greek speakers does Sales have?", [], [])
    turns = [
        'tail_entities($1, "^works_in")',
        'head_entities($2, "speaks")',
        "intersect($3, $4)",
        "count($5)",
        "<answer>$6</answer>",
    ]
    engine = ScriptedEngine(turns)
    [episode] = rollout([(Task(asked, ["Sales", "Greek"]), Environment(shop))], Kgwalk(language="full"), engine)
    assert episode.turns[2].observation == "$5 = 0"
    assert episode.answers == ["0"]


def test_nobody_is_an_answer_also_where_the_relation_goes_the_other_way(shop: StoredGraph) -> None:
    """Does anything need a chair? The chair needs a seat, so the walk is told; but no is the answer."""
    asked = Question("q", "does anything need the chair?", [], [])
    turns = ['head_entities($1, "needs")', "count($2)", 'compare($3, ">", "0")', "<answer>$4</answer>"]
    task = (Task(asked, ["chair"], kinds=()), Environment(shop))
    [episode] = rollout([task], Kgwalk(language="full"), ScriptedEngine(turns))
    assert episode.turns[0].observation == '$2 = 0; "needs" leaves the set: tail_entities'
    assert episode.answers == ["no"]
