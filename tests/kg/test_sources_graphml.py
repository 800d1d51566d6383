"""GraphML as networkx, Gephi, yEd and apoc write it, and XML that would fill the memory."""

from __future__ import annotations

import tempfile
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_sources_reading import error, labels, triples, write

from kgwalk.kg.build import build
from kgwalk.kg.sources.property_graph import node_key
from kgwalk.kg.sources.source import Options, ReadCounts
from kgwalk.kg.store import open_graph

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns"'
GEPHI = f"""{HEAD}>
<key attr.name="label" attr.type="string" for="node" id="label"/>
<key attr.name="Edge Label" attr.type="string" for="edge" id="edgelabel"/>
<key attr.name="weight" attr.type="double" for="edge" id="weight"/>
<key attr.name="r" attr.type="int" for="node" id="r"/><key attr.name="g" attr.type="int" for="node" id="g"/>
<key attr.name="b" attr.type="int" for="node" id="b"/><key attr.name="size" attr.type="float" for="node" id="size"/>
<key attr.name="born" attr.type="int" for="node" id="v_born"><default>1900</default></key>
<graph edgedefault="directed">
<node id="0"><data key="label">Tom Hanks</data><data key="size">9.0</data><data key="r">1</data>
<data key="v_born">1956</data></node>
<node id="1"><data key="label">Big &amp; Small</data><data key="g">2</data></node>
<edge id="0" source="0" target="1"><data key="edgelabel">starred in</data><data key="weight">1.0</data></edge>
</graph></graphml>
"""
YED = f"""{HEAD} xmlns:y="http://www.yworks.com/xml/graphml" xmlns:yfiles="http://www.yworks.com/xml/graphml">
<key for="node" id="d6" yfiles.type="nodegraphics"/><key for="edge" id="d10" yfiles.type="edgegraphics"/>
<graph edgedefault="directed" id="G">
<node id="n0" yfiles.foldertype="group"><data key="d6"><y:ProxyAutoBoundsNode><y:Realizers active="0">
<y:GroupNode><y:NodeLabel>Films</y:NodeLabel></y:GroupNode></y:Realizers></y:ProxyAutoBoundsNode></data>
<graph edgedefault="directed" id="n0:">
<node id="n0::n0"><data key="d6"><y:ShapeNode><y:Geometry height="30"/><y:NodeLabel visible="true">Cast
 Away<y:LabelModel/></y:NodeLabel></y:ShapeNode></data></node>
</graph></node>
<node id="n1"><data key="d6"><y:ShapeNode><y:NodeLabel>Tom Hanks</y:NodeLabel></y:ShapeNode></data></node>
<edge id="e0" source="n1" target="n0::n0"><data key="d10"><y:PolyLineEdge><y:EdgeLabel>starred in</y:EdgeLabel>
</y:PolyLineEdge></data></edge>
</graph></graphml>
"""
APOC = f"""{HEAD}><graph id="G" edgedefault="directed">
<node id="n188" labels=":Person:Actor"><data key="labels">:Person:Actor</data><data key="name">Tom</data></node>
<node id="n189" labels=":Film"><data key="labels">:Film</data><data key="title">Big</data></node>
<edge id="e0" source="n188" target="n189" label="ACTED_IN"><data key="label">ACTED_IN</data>
<data key="since">1988</data></edge>
</graph></graphml>
"""


def facts_of(path: Path) -> tuple[set[tuple[str, ...]], list[str]]:
    target = path.parent / "made.kg"
    report = build([path], target, replace=True)
    return set(map(tuple, open_graph(target).match())), [note.partition(": ")[2] for note in report.notes]


def test_gephi(tmp_path: Path) -> None:
    """Labels are names, the default of a property counts, colours and sizes do not."""
    facts, notes = facts_of(write(tmp_path, "g.graphml", GEPHI))
    assert facts == {
        ("Tom Hanks", "born", "1956", ""),
        ("Big & Small", "born", "1900", ""),
        ("Tom Hanks", "starred in", "Big & Small", ""),
    }
    assert notes == ["a fact has no properties but its time; left out: weight of starred in (1)"]
    assert open_graph(tmp_path / "made.kg").id_of("Tom Hanks") == "node/0"


def test_yed(tmp_path: Path) -> None:
    """The texts that are drawn are names and relations; a node inside a group is part of it."""
    facts, notes = facts_of(write(tmp_path, "y.graphml", YED))
    assert facts == {("Tom Hanks", "starred in", "Cast Away", ""), ("Cast Away", "part_of", "Films", "")}
    assert notes == []


def test_apoc(tmp_path: Path) -> None:
    facts, _ = facts_of(write(tmp_path, "a.graphml", APOC))
    assert facts == {
        ("Tom", "is_a", "Person", ""),
        ("Tom", "is_a", "Actor", ""),
        ("Big", "is_a", "Film", ""),
        ("Tom", "ACTED_IN", "Big", "1988.."),
    }


def test_networkx(tmp_path: Path) -> None:
    graph = networkx.MultiDiGraph()
    graph.add_node("Tom Hanks", born=1956, alive=True)
    graph.add_edge("Tom Hanks", "Big", relation="starred in", since=1988)
    graph.add_edge("Tom Hanks", "Big", relation="knows")
    graph.add_edge(1, 2)
    networkx.write_graphml(graph, tmp_path / "n.graphml")
    facts, notes = facts_of(tmp_path / "n.graphml")
    assert facts == {
        ("Tom Hanks", "born", "1956", ""),
        ("Tom Hanks", "alive", "true", ""),
        ("Tom Hanks", "starred in", "Big", "1988.."),
        ("Tom Hanks", "knows", "Big", ""),
        ("node 1", "related_to", "node 2", ""),
    }
    assert notes == ["1 edges say no relation: they are `related_to`"]


def test_entities_are_refused(tmp_path: Path) -> None:
    """Ten entities of ten each: some hundred bytes that would be ten billion characters. No address is asked either."""
    bomb = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10 if n else "lol"}">' for n in range(10))
    laughs = f"<!DOCTYPE g [{bomb}]><graphml><graph><node id='&l9;'/></graph></graphml>"
    assert error(write(tmp_path, "a.graphml", laughs)) == (
        "a.graphml:1: the file declares the XML entity 'l0', which GraphML has no use for\n"
        "  delete the <!DOCTYPE ...> at its beginning"
    )
    outside = "<!DOCTYPE g [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><graphml><graph><node id='&x;'/></graph></graphml>"
    assert "declares the XML entity 'x'" in error(write(tmp_path, "b.graphml", outside))
    parameter = "<!DOCTYPE g [<!ENTITY % p SYSTEM 'http://127.0.0.1:9/x'> %p;]><graphml/>"
    assert "declares the XML entity 'p'" in error(write(tmp_path, "c.graphml", parameter))


def test_items_that_are_wrong(tmp_path: Path) -> None:
    text = "<graphml><graph>\n<edge source='a' target='b' label='r'/>\n<edge source='a'/>\n<node/>\n</graph></graphml>"
    path = write(tmp_path, "a.graphml", text)
    assert error(path) == (
        'a.graphml:3: expected an edge with source and target, got no target\n  the line: <edge source="a">\n'
        "  give --on-error skip to leave such rows out"
    )
    tally = ReadCounts()
    assert triples(path, tally, on_error="skip") == [("a", "r", "b")]
    assert tally.first_skipped[1] == f"{path}:4: expected a node with id, got no id"
    for name, broken in [("b.graphml", text[:-9]), ("c.graphml", text.replace("</graph>", "<x>"))]:
        assert error(write(tmp_path, name, broken), on_error="skip").startswith(f"{name}:5: not XML: ")


def test_hyperedges_are_counted(tmp_path: Path) -> None:
    tally = ReadCounts()
    text = "<graphml><graph><edge source='a' target='b'/><hyperedge><endpoint node='a'/></hyperedge></graph></graphml>"
    assert triples(write(tmp_path, "a.graphml", text), tally) == [("a", "related_to", "b")]
    assert "1 hyperedges left out: a fact has two ends" in tally.notes[0]


def test_a_long_value_is_refused(tmp_path: Path) -> None:
    text = f"<graphml><graph><node id='a'><data key='k'>{'x' * 9999}</data></node></graph></graphml>"
    assert "a value of more than 6,400 characters" in error(write(tmp_path, "a.graphml", text), block_bytes=100)


names = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Zs", "S")), min_size=1, max_size=6)
ids = names.map(lambda text: " ".join(text.split())).filter(bool)  # XML makes all white space of attributes blanks


@given(st.lists(st.tuples(ids, ids, ids), min_size=1, max_size=6), st.dictionaries(ids, ids, max_size=4))
@settings(max_examples=40)
def test_what_is_written_reads_back(edges: list[tuple[str, str, str]], said: dict[str, str]) -> None:
    nodes = "".join(f"<node id={quoteattr(id)}><data key='k'>{escape(text)}</data></node>" for id, text in said.items())
    told = "".join(
        f"<edge source={quoteattr(head)} target={quoteattr(tail)} label={quoteattr(relation)}/>"
        for head, relation, tail in edges
    )
    expected = [(node_key(head), relation, node_key(tail)) for head, relation, tail in edges]
    expected += [(node_key(id), "k", text) for id, text in said.items()]
    with tempfile.TemporaryDirectory() as folder:
        text = f"<graphml><graph>{nodes}{told}</graph></graphml>"
        path = write(Path(folder), "a.graphml", text)
        shown = {key: label for key, label, _ in labels(path) if key.startswith('"')}
        for block_bytes in (64, Options().block_bytes):
            found = triples(path, block_bytes=block_bytes, line_bytes=1 << 20)
            values = {fact for fact in expected if fact[1] == "k"}
            assert sorted(
                (h, r, shown.get(t, t) if (h, r, shown.get(t, t)) in values else t) for h, r, t in found
            ) == sorted(expected)


@pytest.mark.parametrize("format", [None, "graphml"])
def test_the_name_or_the_option_says_the_format(tmp_path: Path, format: str | None) -> None:
    path = write(tmp_path, "a.xml" if format else "a.graphml", APOC)
    assert len(triples(path, format=format)) == 4
