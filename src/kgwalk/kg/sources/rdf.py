"""N-Triples, N-Quads, Turtle and JSON-LD, parsed by pyoxigraph.

The key of an IRI is its plain text; of a literal its N-Triples form, so that it can be written back, with the type of a
number by its text (5 is one number, whether it is called an integer or a decimal); of a blank node
`_:` and a prefix made from its file's name, so that nodes of several files stay apart. Triples of the label predicate
become names, not rows. Every key also gets a name made from itself, in case there is no better one. The names of
graphs are ignored, unless they give a time: <urn:kgwalk:time:2005-05>, percent-encoded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import blake2s
from math import inf
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, RdfFormat, parse

from kgwalk.kg.sources.source import (
    FALLBACK_RANK,
    GIVEN_RANK,
    Block,
    Labels,
    Lines,
    Source,
    TimeCheck,
    TripleBlock,
    line_blocks,
    open_stream,
    shown,
    strings,
)

# How an export writes entities and relations whose keys are not IRIs.
ENTITY_IRI, RELATION_IRI = "urn:kgwalk:entity:", "urn:kgwalk:relation:"
OWN_IRIS = (ENTITY_IRI, RELATION_IRI)
TIME_GRAPH = "urn:kgwalk:time:"  # a graph name that starts so is the row's time

XSD = "http://www.w3.org/2001/XMLSchema#"
_INTEGERS = "integer int long short byte nonNegativeInteger positiveInteger nonPositiveInteger negativeInteger"
_UNSIGNED = "unsignedInt unsignedLong unsignedShort unsignedByte"
_NUMBER_TYPES = frozenset(f"{XSD}{name}" for name in f"{_INTEGERS} {_UNSIGNED} decimal double float".split())
_NUMBER = re.compile(r"[-+]?\d*(\.\d+)?([eE][-+]?\d+)?")

_LINE_FORMATS = {"nt": RdfFormat.N_TRIPLES, "nq": RdfFormat.N_QUADS}
_DOCUMENT_FORMATS = {"ttl": RdfFormat.TURTLE, "jsonld": RdfFormat.JSON_LD}
_NAMES = {"nt": "N-Triples", "nq": "N-Quads", "ttl": "Turtle", "jsonld": "JSON-LD"}
_REMOTE = "its @context is an address, and a build asks no network"
_REMOTE_HINT = (
    "put the context itself in place of the address: the object that the address gives, or for schema.org "
    '{"@vocab": "https://schema.org/"}; or convert the file to N-Triples'
)
_CANONICAL = re.compile(r"-?\d\.\d+E-?\d+")
_SIMILAR_RANK, _FOREIGN_RANK = 1, 2  # a name without a language or of another region; one in another language
# pyoxigraph names a node that Turtle leaves unnamed ([], lists) by 128 random bits, without leading zeros.
_RANDOM_ID = re.compile(r"[a-f][0-9a-f]{15,31}")
_MOST_RENUMBERED = 1 << 20


def read_lines(source: Source, form: str) -> Iterator[Block]:
    """N-Triples or N-Quads. A block that fails is read again line by line, so that only its bad lines are refused."""
    keys = _Keys(source)
    with open_stream(source) as stream:
        for lines in line_blocks(source, stream):
            batch = _Batch(source, keys)
            try:
                batch.fill(parse(lines.data, _LINE_FORMATS[form]))
            except (SyntaxError, MemoryError, ValueError):
                batch = _line_by_line(source, keys, lines, form)
            yield from batch.blocks()
    keys.write_note()


def _line_by_line(source: Source, keys: _Keys, lines: Lines, form: str) -> _Batch:
    batch = _Batch(source, keys)
    for number, raw in enumerate(lines.data.split(b"\n"), lines.first):
        try:
            batch.fill(parse(raw, _LINE_FORMATS[form]))
        except (SyntaxError, MemoryError, ValueError) as error:
            source.refuse(_message(error, form), line=number, text=shown(raw))
    return batch


def read_document(source: Source, form: str) -> Iterator[Block]:
    """Turtle or JSON-LD, which are read as a whole: what follows an error has no meaning."""
    keys = _Keys(source, renumber=True)
    with open_stream(source) as stream:
        if stream.is_blank():
            return
        # pyoxigraph reads the stream as it goes, and lets an InputError from it through.
        quads = parse(stream, _DOCUMENT_FORMATS[form])  # type: ignore[arg-type]
        more = True
        while more:
            batch = _Batch(source, keys)
            more = _fill_from_document(source, form, batch, quads)
            yield from batch.blocks()
    keys.write_note()


def _fill_from_document(source: Source, form: str, batch: _Batch, quads: Iterator[Quad]) -> bool:
    """Fill a batch; returns whether it was full before the triples ended."""
    if form == "jsonld":
        quads = map(_plain_doubles, quads)
    while True:
        try:
            return batch.fill(quads, source.options.block_bytes)
        except ValueError as error:
            source.refuse(str(error))
        except (SyntaxError, MemoryError) as error:
            if isinstance(error, SyntaxError) and "LoadDocumentCallback" in error.msg:
                raise source.error(_REMOTE, hint=_REMOTE_HINT) from None
            raise source.error(
                _message(error, form),
                line=getattr(error, "lineno", None),
                hint=f"an error in {_NAMES[form]} cannot be skipped; one in N-Triples can, with --on-error skip",
            ) from None


def _plain_doubles(quad: Quad) -> Quad:
    """A number of JSON with a point, which JSON-LD turns into 1.5E0, as people write it."""
    term = quad.object
    if type(term) is Literal and term.datatype.value == f"{XSD}double" and _CANONICAL.fullmatch(term.value):
        plain = Literal(f"{float(term.value):.15g}", datatype=NamedNode(f"{XSD}double"))
        return Quad(quad.subject, quad.predicate, plain, quad.graph_name)
    return quad


def _message(error: SyntaxError | MemoryError | ValueError, form: str) -> str:
    if isinstance(error, MemoryError):
        if "buffer" not in str(error):
            raise error
        return f"{_NAMES[form]} statement too long: the parser takes 16 MiB at most"
    if isinstance(error, SyntaxError):
        # "Parser error at line 3 between columns 14 and 17: The predicate ...": the message has the place already.
        return f"not {_NAMES[form]}: {error.msg.partition(': ')[2] or error.msg} (column {error.offset})"
    return str(error)


class _Keys:
    """The keys of one file's blank nodes, and its count of empty literals."""

    def __init__(self, source: Source, renumber: bool = False) -> None:
        self._source = source
        self._prefix = "_:" + blake2s(os.fsencode(source.path), digest_size=4).hexdigest()
        self._renumber = renumber
        self._numbers: dict[str, int] = {}
        self.empty_literals = 0

    def blank(self, label: str) -> str:
        """`_:1f3a5b7c_label`, or `_:1f3a5b7c-12` for an unnamed node, so that two runs give it the same key.

        Past a million, unnamed nodes keep their random names, to bound memory.
        """
        if self._renumber and _RANDOM_ID.fullmatch(label):
            number = self._numbers.get(label)
            if number is None and len(self._numbers) < _MOST_RENUMBERED:
                number = self._numbers[label] = len(self._numbers) + 1
            if number is not None:
                return f"{self._prefix}-{number}"
        return f"{self._prefix}_{label}"

    def write_note(self) -> None:
        if self.empty_literals:
            plural = "" if self.empty_literals == 1 else "s"
            self._source.note(f"{self.empty_literals:,} triple{plural} with an empty literal left out")


class _Batch:
    """One block being filled."""

    def __init__(self, source: Source, keys: _Keys) -> None:
        self._keys = keys
        self._label, self._lang = source.options.label, source.options.lang.lower()
        self._heads: list[str] = []
        self._relations: list[str] = []
        self._tails: list[str] = []
        self._times: list[str] = []
        self._time_check = TimeCheck()
        self._literals: dict[str, str] = {}  # key to lexical value
        self._labels: dict[int, tuple[list[str], list[str]]] = {}  # rank to keys and labels
        self._empty_literals = 0
        self._size = 0  # characters of text held

    def fill(self, quads: Iterable[Quad], limit: float = inf) -> bool:
        """Add triples until `limit` characters are held (True) or none are left (False).

        Raises ValueError for a triple that a graph of names cannot hold; call again to read on after it.
        """
        add_head, add_relation, add_tail = self._heads.append, self._relations.append, self._tails.append
        for quad in quads:
            subject, term, relation = quad.subject, quad.object, _iri(quad.predicate.value)
            head = _iri(subject.value) if type(subject) is NamedNode else self._key(subject)
            if type(term) is NamedNode:
                tail = _iri(term.value)
            elif type(term) is Literal:
                if not term.value:
                    self._empty_literals += 1
                    continue
                if relation == self._label:
                    self._add_label(head, term)
                    if self._size >= limit:
                        return True
                    continue
                tail = _literal_key(term)
                self._literals[tail] = term.value
            else:
                tail = self._key(term)
            time = "" if type(quad.graph_name) is DefaultGraph else self._time(quad.graph_name)
            if time:
                self._times.extend([""] * (len(self._heads) - len(self._times)))
                self._times.append(time)
            add_head(head)
            add_relation(relation)
            add_tail(tail)
            self._size += len(head) + len(relation) + len(tail)
            if self._size >= limit:
                return True
        return False

    def _key(self, term: object) -> str:
        if isinstance(term, BlankNode):
            return self._keys.blank(term.value)
        raise ValueError("expected an IRI, a literal or a blank node, got a triple inside a triple (RDF-star)")

    def _time(self, graph: object) -> str:
        if not (isinstance(graph, NamedNode) and graph.value.startswith(TIME_GRAPH)):
            return ""
        time = unquote(graph.value.removeprefix(TIME_GRAPH))
        if problem := self._time_check.problem(time):
            raise ValueError(f"the graph name is the time: {problem}")
        return time

    def _add_label(self, key: str, name: Literal) -> None:
        keys, labels = self._labels.setdefault(_rank(name.language, self._lang), ([], []))
        keys.append(key)
        labels.append(name.value)
        self._size += len(key) + len(name.value)

    def blocks(self) -> Iterator[Block]:
        self._keys.empty_literals += self._empty_literals
        heads, relations, tails = map(strings, (self._heads, self._relations, self._tails))
        if self._heads:
            untimed = [""] * (len(self._heads) - len(self._times))
            time = strings(self._times + untimed) if self._times else None
            yield TripleBlock(heads, relations, tails, time)
        for rank, (keys, labels) in sorted(self._labels.items()):
            yield Labels(strings(keys), strings(labels), rank)
        if self._heads:
            distinct = pa.concat_arrays([heads, relations, tails]).unique()
            yield Labels(distinct, fallback_labels(distinct, self._literals), FALLBACK_RANK)


def fallback_labels(keys: pa.StringArray, literals: Mapping[str, str]) -> pa.StringArray:
    """A name for each key: the value of a literal, the local part of an IRI, a blank node as it is."""
    names = pc.replace_substring_regex(keys, r"(?s)^.*[/#]", "")
    # A plain local part has a letter or digit and no percent sign; keys without one go through Python.
    plain = pc.and_(
        pc.match_substring_regex(names, r"^[^%]*[\pL\pN][^%]*$"),
        pc.invert(pc.match_substring_regex(keys, r'^(_:|")')),
    )
    others = pc.invert(plain)
    replaced = [literals.get(key) or local_part(key) for key in keys.filter(others).to_pylist()]
    return pc.replace_with_mask(names, others, strings(replaced))


def local_part(key: str) -> str:
    """What follows the last `#` or `/` of an IRI, percent-decoded; the whole key if nothing follows.

    >>> local_part("http://example.org/film/Am%C3%A9lie")
    'Amélie'
    >>> local_part("http://example.org/")
    'http://example.org/'
    """
    if key.startswith("_:"):
        return key
    local = key[max(key.rfind("#"), key.rfind("/")) + 1 :]
    if "%" in local:
        with suppress(UnicodeDecodeError):  # percent signs that do not encode UTF-8 are kept
            local = unquote(local, errors="strict")
    return local if local.strip() else key


def _literal_key(term: Literal) -> str:
    """The key of a literal: its N-Triples form. A number's type goes by its text, so that 5 is one number.

    >>> _literal_key(Literal("5", datatype=NamedNode(f"{XSD}decimal"))) == _literal_key(Literal(5))
    True
    >>> _literal_key(Literal("5.0", datatype=NamedNode(f"{XSD}float")))
    '"5.0"^^<http://www.w3.org/2001/XMLSchema#decimal>'
    """
    if term.datatype.value in _NUMBER_TYPES and (found := _NUMBER.fullmatch(term.value)):
        written = "double" if found[2] else "decimal" if found[1] else "integer"
        return f'"{term.value}"^^<{XSD}{written}>'
    return str(term)


def _rank(tag: str | None, lang: str) -> int:
    """0 for the language asked, 1 for an untagged name or another region's (en-GB for en), 2 for others."""
    if tag is None:
        return _SIMILAR_RANK
    tag = tag.lower()
    if tag == lang:
        return GIVEN_RANK
    return _SIMILAR_RANK if tag.partition("-")[0] == lang.partition("-")[0] else _FOREIGN_RANK


def _iri(text: str) -> str:
    """The key of an IRI: itself, or the plain key that an export made it from."""
    if text.startswith(OWN_IRIS):
        return unquote(text.split(":", 3)[3])
    return text
