"""RDF terms and how they are written into a query.

Every value that enters a query passes through `render`; nothing else writes a term.
Knows nothing of endpoints, queries or graphs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from pyoxigraph import NamedNode

XSD = "http://www.w3.org/2001/XMLSchema#"

_IRI = re.compile(r'[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>"{}|^`\\\ud800-\udfff]*')
_LANGUAGE = re.compile(r"[A-Za-z]+(-[A-Za-z0-9]+)*")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_NEEDS_ESCAPE = re.compile(r'\\[uU]|[\\"\n\r\t\b\f]')
_FORMS = [
    (re.compile(form, re.ASCII), [XSD + name for name in names.split()])
    for form, names in (
        (r"[+-]?\d+", "integer int long short nonNegativeInteger positiveInteger"),
        (r"[+-]?(\d+\.?\d*|\.\d+)", "decimal"),
        (r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", "double float"),
        (r"-?\d{4,}", "gYear"),
        (r"-?\d{4,}-\d\d", "gYearMonth"),
        (r"-?\d{4,}-\d\d-\d\d", "date"),
        (r"-?\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?", "dateTime"),
        (r"true|false", "boolean"),
    )
]


class Term(NamedTuple):
    """An RDF term as the JSON results write it; `kind` is "uri", "literal" or "bnode"."""

    kind: str
    value: str
    lang: str = ""
    datatype: str = ""


def iri(value: str) -> Term:
    return Term("uri", value)


def literal(value: str, *, lang: str = "", datatype: str = "") -> Term:
    return Term("literal", value, lang, "" if datatype == f"{XSD}string" else datatype)


def is_iri(text: str) -> bool:
    """Whether the text is an absolute IRI that SPARQL can write: a scheme, and nothing IRIREF forbids."""
    return _IRI.fullmatch(text) is not None


def is_wellformed(text: str) -> bool:
    """Whether every endpoint must take the text as an absolute IRI.

    Stricter than `is_iri`: endpoints hold, and take back, IRIs that break RFC 3987 (a `[` in the path), but
    some refuse the whole query for one. So a text that a caller made up must pass this; theirs need not.
    """
    try:
        return is_iri(text) and bool(NamedNode(text))
    except ValueError:
        return False


def is_language(text: str) -> bool:
    return _LANGUAGE.fullmatch(text) is not None


def render(term: Term) -> str:
    r"""The term as SPARQL text; ValueError where SPARQL has no way to write it.

    >>> render(iri("http://example.org/a")), render(literal('say "hi"', lang="en"))
    ('<http://example.org/a>', '"say \\"hi\\""@en')
    """
    if term.kind == "uri":
        if not is_iri(term.value):
            raise ValueError(f"not an absolute IRI: {term.value!r}")
        return f"<{term.value}>"
    if term.kind != "literal":
        raise ValueError(f"a blank node has no name outside its reply: {term.value!r}")
    term.value.encode()  # a lone surrogate cannot be sent: UnicodeEncodeError is a ValueError
    quoted = '"' + _NEEDS_ESCAPE.sub(_escape, term.value) + '"'
    if term.lang:
        if not is_language(term.lang):
            raise ValueError(f"not a language tag: {term.lang!r}")
        return f"{quoted}@{term.lang}"
    return f"{quoted}^^{render(iri(term.datatype))}" if term.datatype else quoted


def _escape(match: re.Match[str]) -> str:
    # Some engines replace \uXXXX before they parse, so that the text \u0022, escaped as \\u0022, could still
    # close the string. The letter u written as \u0075 leaves them, and all others, with a backslash and a u.
    text = match.group()
    return _ESCAPES[text[0]] + (f"\\u{ord(text[1]):04X}" if len(text) == 2 else "")


def can_render(term: Term) -> bool:
    try:
        render(term)
    except ValueError:
        return False
    return True


def values(variable: str, terms: Iterable[Term]) -> str:
    return f"VALUES {variable} {{ {' '.join(map(render, terms))} }}"


def local_part(thing: str) -> str:
    """What follows the last `/` or `#` of an IRI, or the last `:` where it has neither; may be empty.

    >>> local_part("http://example.org/city#Paris"), local_part("urn:isbn:123"), local_part("http://example.org/")
    ('Paris', '123', '')
    """
    cut = max(thing.rfind("/"), thing.rfind("#"))
    return thing[(cut if cut >= 0 else thing.rfind(":")) + 1 :]


def readings(text: str, lang: str) -> list[Term]:
    """The literals that may read so: plain, in the language, and of each type whose form the text has.

    A lookup by term is quick at every endpoint; one by text alone would scan all literals.
    """
    types = [datatype for form, datatypes in _FORMS if form.fullmatch(text) for datatype in datatypes]
    types += [f"{XSD}anyURI"] if is_iri(text) else []
    tagged = [literal(text, lang=lang)] if lang else []
    return [literal(text), *tagged, *(literal(text, datatype=datatype) for datatype in types)]
