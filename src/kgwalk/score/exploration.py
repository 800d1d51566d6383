"""How much of a walk's exploring was to the point: Explore-on-Graph's appendix P, over facts.

The paper reads the facts off the thought of a model that has the graph in its prompt. Here a fact is explored if an
observation told it, if an answer rests on it, or, where it stands in the prompt, if the model's own text names its
head, relation and tail, each as whole words. Dates are set aside. `edit_distance` compares two sets of facts as graphs,
for the reward that the paper tried and found worse (appendix L).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Set
from dataclasses import dataclass
from itertools import takewhile

from kgwalk.kg.names import normalise
from kgwalk.types import Episode, Question, Triple


@dataclass(frozen=True, slots=True)
class Explored:
    """How many facts were explored, how many are on the gold paths, and how many are both.

    Eight explored, two of them among the four that are needed: 8/2 = 4 facts for each needed one.

    >>> walk = Explored(explored=8, gold=4, both=2)
    >>> walk.efficiency, walk.coverage, walk.precision
    (4.0, 0.5, 0.25)
    """

    explored: int
    gold: int
    both: int

    @property
    def efficiency(self) -> float | None:
        """Equation 6 of one question, less is better; None where no needed fact was found: there it is 1/0.

        The paper does not say what it does then. Any number put in its place would rank a walk that found nothing, so
        such walks are left out of the mean and their share is reported beside it: see `found`.
        """
        return self.explored / self.both if self.both else None

    @property
    def coverage(self) -> float:
        """Equation 7 of one question: the share of the needed facts that was found."""
        return self.both / self.gold if self.gold else 0.0

    @property
    def precision(self) -> float:
        """The share of explored facts that is needed: what dumping the whole graph brings down. 0 if none was."""
        return self.both / self.explored if self.explored else 0.0

    @property
    def found(self) -> float:
        """1 if efficiency is a number."""
        return float(self.both > 0)


def exploration(explored: Set[Triple], gold: Set[Triple]) -> Explored:
    """
    >>> a, b, c = Triple("x", "r", "a"), Triple("x", "r", "b"), Triple("x", "r", "c")
    >>> exploration({a, b}, {b, c})
    Explored(explored=2, gold=2, both=1)
    """
    return Explored(len(explored), len(gold), len(explored & gold))


def gold_facts(question: Question) -> set[Triple]:
    """The facts of all gold paths; where there are none, the evidence; undated."""
    paths = question.gold_paths if question.gold_paths else [question.evidence or []]
    return {_undated(fact) for path in paths for fact in path}


def explored(episode: Episode) -> set[Triple]:
    """The facts that a walk explored, undated."""
    given, told = _given(episode)
    found = set(told)
    found.update(fact for path in episode.evidence.values() for fact in path)
    if given:
        found.update(named(given, (turn.text for turn in episode.turns)))
    return {_undated(fact) for fact in found}


def named(facts: Iterable[Triple], texts: Iterable[str]) -> list[Triple]:
    """The facts whose head, relation and tail all occur in the texts as whole words.

    >>> facts = [Triple("Big", "directed_by", "Penny Marshall"), Triple("Big", "genre", "US")]
    >>> named(facts, ["Big was directed by Penny Marshall; its genre? Music."])
    [Triple(head='Big', relation='directed_by', tail='Penny Marshall', time='')]
    """
    text = f" {' '.join(map(normalise, texts))} "
    known: dict[str, bool] = {}

    def occurs(name: str) -> bool:
        if name not in known:
            known[name] = f" {normalise(name)} " in text
        return known[name]

    return [fact for fact in facts if occurs(fact.head) and occurs(fact.tail) and occurs(fact.relation)]


def _given(episode: Episode) -> tuple[list[Triple], list[Triple]]:
    """The facts that the prompt told, which come first, and those that observations told."""
    if not episode.shown:
        return [], episode.seen
    shown = set(episode.shown)
    given = list(takewhile(lambda fact: fact.head in shown and fact.tail in shown, episode.seen))
    return given, episode.seen[len(given) :]


def _undated(fact: Triple) -> Triple:
    return fact._replace(time="") if fact.time else fact


# Graph edit distance


NamedFact = tuple[str, str, str]

EXACT = 6  # nodes


@dataclass(frozen=True)
class FactGraph:
    """`between[u, v]` are the relations from u to v."""

    nodes: tuple[str, ...]
    between: dict[tuple[str, str], frozenset[str]]

    @classmethod
    def of(cls, facts: Iterable[NamedFact]) -> FactGraph:
        labels: dict[tuple[str, str], set[str]] = {}
        ends: Counter[str] = Counter()
        for head, relation, tail in sorted(set(facts)):
            labels.setdefault((head, tail), set()).add(relation)
            ends.update((head, tail))
        # those with most edges first: their places decide most of the cost
        nodes = sorted(ends, key=lambda node: (-ends[node], node))
        return cls(tuple(nodes), {pair: frozenset(found) for pair, found in labels.items()})

    @property
    def edges(self) -> int:
        return sum(map(len, self.between.values()))

    @property
    def size(self) -> int:
        return len(self.nodes) + self.edges


def edit_distance(one: Collection[NamedFact], two: Collection[NamedFact]) -> int:
    """The fewest nodes and edges to add, take away or rename until one set of facts is the other.

    The nodes are the names in the facts. Every edit costs 1; a node that goes takes its edges with it, at 1 each. Exact
    for graphs of up to EXACT nodes, by branch and bound; for larger ones a bound from above, for which nodes of the
    same name stand for each other.

    Big -director-> Penny against Big -writer-> Anne: rename the relation and a node.

    >>> edit_distance([("Big", "director", "Penny")], [("Big", "writer", "Anne")])
    2

    Against Big -director-> Penny -born-> New York: a node and an edge are missing. Against nothing: 2 nodes and 1 edge.

    >>> edit_distance([("Big", "director", "Penny")], [("Big", "director", "Penny"), ("Penny", "born", "New York")])
    2
    >>> edit_distance([("Big", "director", "Penny")], [])
    3
    """
    mapping = _Mapping(FactGraph.of(one), FactGraph.of(two))
    best = mapping.cost(_by_name(mapping.one, mapping.two))
    if max(len(mapping.one.nodes), len(mapping.two.nodes)) > EXACT:
        return best
    return mapping.search({}, 0, best)


def likeness(one: Collection[NamedFact], two: Collection[NamedFact]) -> float:
    """1 - distance / the larger size (nodes and edges), not below 0: 1 for the same facts, 0 for nothing in common.

    >>> likeness([("Big", "director", "Penny")], [("Big", "director", "Penny"), ("Penny", "born", "New York")])
    0.6

    Three nodes and two edges are 5, of which 2 are missing: 1 - 2/5.
    """
    size = max(FactGraph.of(one).size, FactGraph.of(two).size)
    return max(0.0, 1 - edit_distance(one, two) / size) if size else 1.0


NodePlaces = dict[str, str | None]  # of a node of the first graph: the node it stands for; None: it goes


@dataclass
class _Mapping:
    one: FactGraph
    two: FactGraph

    def cost(self, places: NodePlaces) -> int:
        """Of a whole mapping."""
        total = sum(place != node for node, place in places.items())
        total += len(self.two.nodes) - sum(place is not None for place in places.values())
        met = set()
        for (head, tail), labels in self.one.between.items():
            to_head, to_tail = places[head], places[tail]
            wanted = frozenset[str]()
            if to_head is not None and to_tail is not None:
                wanted = self.two.between.get((to_head, to_tail), wanted)
                met.add((to_head, to_tail))
            total += max(len(labels), len(wanted)) - len(labels & wanted)
        return total + sum(len(labels) for pair, labels in self.two.between.items() if pair not in met)

    def search(self, places: NodePlaces, spent: int, best: int) -> int:
        """The least cost of completing a partial mapping, or `best` if none is less."""
        if spent + self._least(places) >= best:
            return best
        if len(places) == len(self.one.nodes):
            return min(best, spent + self._added(places))
        node = self.one.nodes[len(places)]
        free = [other for other in self.two.nodes if other not in places.values()]
        free.sort(key=lambda other: other != node)  # its namesake first
        for place in (*free, None):
            step = self._step(places, node, place)
            best = self.search({**places, node: place}, spent + step, best)
        return best

    def _step(self, places: NodePlaces, node: str, place: str | None) -> int:
        """What it costs to place one more node: itself, and its edges to those placed before, and to itself."""
        cost = int(place != node)
        for other, its in [*places.items(), (node, place)]:
            pairs = {(node, other), (other, node)}
            for head, tail in pairs:
                labels = self.one.between.get((head, tail), frozenset())
                to_head, to_tail = (place if end == node else its for end in (head, tail))
                if to_head is None or to_tail is None:
                    cost += len(labels)
                else:
                    wanted = self.two.between.get((to_head, to_tail), frozenset())
                    cost += max(len(labels), len(wanted)) - len(labels & wanted)
        return cost

    def _added(self, places: NodePlaces) -> int:
        """Nodes of the second graph that no node stands for, with their edges."""
        there = set(places.values())
        nodes = [node for node in self.two.nodes if node not in there]
        pairs = [pair for pair in self.two.between if not there.issuperset(pair)]
        return len(nodes) + sum(len(self.two.between[pair]) for pair in pairs)

    def _least(self, places: NodePlaces) -> int:
        """What the rest costs at least: of its nodes and of its edges, all that have no namesake."""
        there = set(places.values())
        ours = Counter(node for node in self.one.nodes if node not in places)
        theirs = Counter(node for node in self.two.nodes if node not in there)
        our_edges = _labels(self.one, places.keys())
        their_edges = _labels(self.two, there)
        return _apart(ours, theirs) + _apart(our_edges, their_edges)


def _labels(facts: FactGraph, placed: Collection[str | None]) -> Counter[str]:
    """The relations of edges that have an end which is not placed yet."""
    left = (labels for (head, tail), labels in facts.between.items() if head not in placed or tail not in placed)
    return Counter(label for labels in left for label in labels)


def _apart(one: Counter[str], two: Counter[str]) -> int:
    """
    >>> _apart(Counter(["a", "b"]), Counter(["b", "c", "d"]))
    2
    """
    return max(one.total(), two.total()) - (one & two).total()


def _by_name(one: FactGraph, two: FactGraph) -> NodePlaces:
    """Namesakes stand for each other, the others for each other in their order, as long as there are some."""
    ours, theirs = set(one.nodes), set(two.nodes)
    others = iter([node for node in two.nodes if node not in ours])
    return {node: node if node in theirs else next(others, None) for node in one.nodes}
