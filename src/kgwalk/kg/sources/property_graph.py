"""Property graphs, of nodes and edges that have properties: how they become facts, and GraphML, which holds one.

    graph = PropertyGraph(source)
    graph.node("tt0133093", kinds=["Movie"], properties={"title": ["The Matrix"], "released": ["1999"]})
    graph.edge("nm0000206", "ACTED_IN", "tt0133093", properties={"since": ["1998"]})

A node is a thing, shown by the property that is called like a name; every other property is a fact with a value, and
each of its labels a fact `is_a`. An edge is a fact, and of its properties those that say when become its time. A fact
has no other properties: they are left out, with a note. `neo4j`, and graphs in memory, are told by the same rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from xml.parsers import expat

from kgwalk.kg.sources.source import FALLBACK_RANK, Block, FactBuffer, Source, TimeCheck, open_stream
from kgwalk.kg.sources.table_keys import LABELS, NAME_PARTS, column_words, says_when
from kgwalk.kg.sources.tables import IS_A

Properties = Mapping[str, Sequence[str]]

PART_OF = "part_of"  # from a node to the one that it stands inside
RELATED = "related_to"  # the relation of an edge that says none
# Properties that say what an edge is, the best first
RELATION_NAMES = [
    *("relation", "predicate", "relationship", "rel", "type", "edge type", "edge label", "label", "name", "kind"),
    *("interaction", "key"),
]
_NAMES = tuple(form for form in LABELS if "company" not in form)
_YEAR = re.compile(r"[+-]?\d{1,4}(?!\d).*", re.DOTALL)  # not the seconds since 1970, which would be read as a year
_MOST_LEFT_OUT = 1000  # kinds of properties that are counted apart
_LISTED = 5  # of them, in a note


class PropertyGraph:
    """Nodes and edges as facts, in a buffer that the reader empties."""

    def __init__(self, source: Source) -> None:
        self.facts = FactBuffer(source)
        self._source = source
        self._times = TimeCheck()
        self._left_out: dict[tuple[str, str], int] = {}  # relation and property: how many edges have it
        self._nameless = 0  # edges without a relation

    def node(self, key: str, *, kinds: Sequence[str] = (), properties: Properties | None = None, id: str = "") -> None:
        """A node. Without a name it is shown by its first label and its `id`, if the key is not what it goes by."""
        properties = properties or {}
        for kind in kinds:
            self.facts.fact(key, IS_A[0], kind)
        name, used = _name(properties, kinds)
        if name:
            self.facts.name(key, name)
        elif id and id != key:
            self.facts.name(key, f"{kinds[0] if kinds else 'node'} {id}", FALLBACK_RANK)
        for relation, values in properties.items():
            if relation not in used:
                for value in values:
                    self.facts.value(key, relation, value)

    def edge(self, head: str, relation: str, tail: str, properties: Properties | None = None) -> None:
        """An edge. Without a `relation` it is what a property says: `relation`, `type`, `label`, ..."""
        properties = properties or {}
        used: set[str] = set()
        if not relation:
            relation, used = _relation(properties)
            self._nameless += relation == RELATED
        time, when = self._time(properties)
        self.facts.fact(head, relation, tail, time)
        for name in properties.keys() - used - when:
            place = (relation, name)
            if place in self._left_out or len(self._left_out) < _MOST_LEFT_OUT:
                self._left_out[place] = self._left_out.get(place, 0) + 1

    def _time(self, properties: Properties) -> tuple[str, set[str]]:
        """When an edge holds, and the properties that say it."""
        found: dict[str, tuple[str, str]] = {}  # first, last, at: the property, and the date that it holds
        for name in sorted(properties):
            text = properties[name][0].strip() if len(properties[name]) == 1 else ""
            which = says_when(name, number=text.isdigit())
            if which and which not in found and self._is_date(text):
                found[which] = (name, text)
        if not {"first", "last"} & found.keys():
            return (found["at"][1], {found["at"][0]}) if found else ("", set())
        ends = [found.get(which) for which in ("first", "last")]
        span = "..".join("" if end is None else end[1] for end in ends)
        if self._times.problem(span):
            return "", set()
        return span, {end[0] for end in ends if end is not None}

    def _is_date(self, text: str) -> bool:
        return bool(_YEAR.fullmatch(text)) and ".." not in text and not self._times.problem(text)

    def write_notes(self) -> None:
        """Say what was left out, once all is read."""
        if self._nameless:
            self._source.note(f"{self._nameless:,} edges say no relation: they are `{RELATED}`")
        if self._left_out:
            most = sorted(self._left_out.items(), key=lambda item: (-item[1], item[0]))
            listed = ", ".join(f"{name} of {relation} ({count:,})" for (relation, name), count in most[:_LISTED])
            more = f" and {len(most) - _LISTED:,} more" if len(most) > _LISTED else ""
            self._source.note(f"a fact has no properties but its time; left out: {listed}{more}")


def node_key(id: str, space: str = "") -> str:
    """The key of a node: its id if that has a letter; a number gets what tells it from others of its value.

    >>> node_key("tt0133093"), node_key("7"), node_key("7", "Person")
    ('tt0133093', 'node/7', 'Person/7')
    """
    if space:
        return f"{space}/{id}"
    return id if any(map(str.isalpha, id)) else f"node/{id}"


def _name(properties: Properties, kinds: Sequence[str]) -> tuple[str, set[str]]:
    """The name that properties give a node, and which of them do."""
    by_words = {" ".join(column_words(name)): name for name in reversed([*properties]) if len(properties[name]) == 1}
    for form in _NAMES:
        own = [form.replace("*", " ".join(column_words(kind))) for kind in kinds] if "*" in form else [form]
        found = next((by_words[one] for one in own if one in by_words), None)
        if found is not None:
            return properties[found][0], {found}
    for parts in NAME_PARTS:
        if all(part in by_words for part in parts):
            names = [by_words[part] for part in parts]
            return " ".join(properties[name][0] for name in names), set(names)
    return "", set()


def _relation(properties: Properties) -> tuple[str, set[str]]:
    by_words = {" ".join(column_words(name)): name for name in reversed([*properties]) if len(properties[name]) == 1}
    found = next((by_words[form] for form in RELATION_NAMES if form in by_words), None)
    return (RELATED, set()) if found is None else (properties[found][0], {found})


# GraphML


@dataclass
class _Key:
    """A property as a GraphML file declares it."""

    name: str
    about: str  # node, edge, graph, all
    type: str
    default: str = ""
    drawn: bool = False  # how a program draws it: a place, a colour, a size


@dataclass
class _Item:
    """A node or an edge that is being read."""

    tag: str
    attributes: dict[str, str]
    line: int
    properties: dict[str, list[str]] = field(default_factory=dict)
    drawn_label: list[str] = field(default_factory=list)  # the text that yEd writes at it


_DRAWN = frozenset(("r", "g", "b", "alpha", "x", "y", "z", "size"))  # Gephi's own, where a node has a colour


def read_graphml(source: Source) -> Iterator[Block]:
    """GraphML as networkx, Gephi, yEd and Neo4j's apoc write it, element by element."""
    reader = _GraphmlReader(source)
    with open_stream(source) as stream:
        if stream.is_blank():
            return
        while chunk := stream.read(64 << 10):
            reader.feed(chunk)
            if reader.graph.facts.is_full:
                yield from reader.graph.facts.blocks()
    reader.feed(b"", last=True)
    yield from reader.graph.facts.blocks()
    reader.write_notes()


class _GraphmlReader:
    """The events of the XML parser. Refuses entities, which a few lines may make as long as memory is large."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.graph = PropertyGraph(source)
        self._keys: dict[str, _Key] = {}
        self._open: list[_Item] = []  # nodes stand inside nodes
        self._text: list[str] | None = None  # of the element that is read now
        self._key: _Key | None = None  # the property whose value is read, or the declaration whose default is
        self._length = 0
        self._hyperedges = self._ports = 0
        self._parser = parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler, parser.EntityDeclHandler = self._characters, self._entity

    def feed(self, chunk: bytes, last: bool = False) -> None:
        try:
            self._parser.Parse(chunk, last)
        except expat.ExpatError as error:
            raise self._source.error(
                f"not XML: {expat.ErrorString(error.code)} (column {error.offset + 1})",
                line=error.lineno,
                hint="what follows an error in XML cannot be read; write the file again with the program that made it",
            ) from None

    def write_notes(self) -> None:
        if self._hyperedges:
            self._source.note(f"{self._hyperedges:,} hyperedges left out: a fact has two ends")
        self.graph.write_notes()

    def _entity(self, name: str, *_: object) -> None:
        raise self._source.error(
            f"the file declares the XML entity {name!r}, which GraphML has no use for",
            line=self._parser.CurrentLineNumber,
            hint="delete the <!DOCTYPE ...> at its beginning",
        )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        tag = name.rpartition(" ")[2]
        attributes = {name.rpartition(" ")[2]: value for name, value in attributes.items()}
        if tag == "key":
            self._declare(attributes)
        elif tag in ("node", "edge", "hyperedge"):
            self._open.append(_Item(tag, attributes, self._parser.CurrentLineNumber))
        elif tag == "data":
            key = attributes.get("key", "")
            self._key = self._keys.get(key, _Key(key, "all", "string"))
            self._begin_text()
        elif tag in ("default", "NodeLabel", "EdgeLabel"):
            self._begin_text()

    def _declare(self, attributes: dict[str, str]) -> None:
        id, about = attributes.get("id", ""), attributes.get("for", "all")
        drawn = "yfiles.type" in attributes or any(attribute.startswith("yfiles") for attribute in attributes)
        self._key = _Key(attributes.get("attr.name", id), about, attributes.get("attr.type", "string"), drawn=drawn)
        self._keys[id] = self._key

    def _begin_text(self) -> None:
        self._text, self._length = [], 0

    def _characters(self, text: str) -> None:
        if self._text is None:
            return
        self._text.append(text)
        self._length += len(text)
        if self._length > self._source.options.longest_line:
            raise self._source.error(
                f"a value of more than {self._source.options.longest_line:,} characters",
                line=self._parser.CurrentLineNumber,
            )

    def _end(self, name: str) -> None:
        tag = name.rpartition(" ")[2]
        text = None if self._text is None else "".join(self._text).strip()
        if tag == "default" and self._key is not None and text:
            self._key.default = text
        elif tag in ("NodeLabel", "EdgeLabel") and self._open and text:
            self._open[-1].drawn_label.append(text)
        elif tag == "data" and self._key is not None and self._open and text and not self._key.drawn:
            value = text.lower() if self._key.type == "boolean" else text
            self._open[-1].properties.setdefault(self._key.name, []).append(value)
        elif tag in ("node", "edge", "hyperedge"):
            self._told(self._open.pop())
        if tag in ("default", "data", "NodeLabel", "EdgeLabel", "key"):
            self._text = None  # what follows a label inside `data` is how it is drawn
        if tag in ("data", "key"):
            self._key = None

    def _told(self, item: _Item) -> None:
        properties, attributes = self._with_defaults(item), item.attributes
        if item.tag == "hyperedge":
            self._hyperedges += 1
            return
        wanted = ("id",) if item.tag == "node" else ("source", "target")
        for name in wanted:
            if not attributes.get(name):
                written = " ".join(f'{key}="{value}"' for key, value in attributes.items())
                problem = f"expected {'a node' if item.tag == 'node' else 'an edge'} with {' and '.join(wanted)}"
                self._source.refuse(f"{problem}, got no {name}", line=item.line, text=f"<{item.tag} {written}>")
                return
        if item.tag == "edge":
            head, tail = node_key(attributes["source"]), node_key(attributes["target"])
            relation = attributes.get("label", "")
            if relation and properties.get("label") == [relation]:  # as apoc writes it, twice
                del properties["label"]
            self.graph.edge(head, relation or _first_line(item.drawn_label), tail, properties)
            return
        id = attributes["id"]
        kinds = [kind for kind in attributes.get("labels", "").split(":") if kind]
        if kinds:
            properties.pop("labels", None)
        if item.drawn_label and not _name(properties, kinds)[0]:
            properties["label"] = [_first_line(item.drawn_label)]
        self.graph.node(node_key(id), kinds=kinds, properties=properties, id=id)
        inside = next((other for other in reversed(self._open) if other.tag == "node"), None)
        if inside is not None and inside.attributes.get("id"):
            self.graph.facts.fact(node_key(id), PART_OF, node_key(inside.attributes["id"]))

    def _with_defaults(self, item: _Item) -> dict[str, list[str]]:
        """An item's properties with those that it leaves to the declaration, without those that a program draws by."""
        about = [key for key in self._keys.values() if key.about in (item.tag, "all")]
        found = dict(item.properties)
        for key in about:
            if key.default and not key.drawn:
                found.setdefault(key.name, [key.default])
        names = {key.name for key in about}
        if item.tag == "node" and names >= {"r", "g", "b"}:
            found = {name: values for name, values in found.items() if name not in _DRAWN}
        return found


def _first_line(texts: Sequence[str]) -> str:
    """The label that yEd draws, in one line: people break it where the box is narrow.

    >>> _first_line(["Tom\\nHanks", "actor"]), _first_line([])
    ('Tom Hanks', '')
    """
    return " ".join(texts[0].split()) if texts else ""
