"""Finds the keys of tables: which column names a row, which one shows it, and which lead to other tables' rows.

    find_keys(tables, ["orders=number", "departments.head=employees"])

A table's key is declared by its source, chosen by a person, or found by name (`id`, `employee_id`, `code`, ...) and by
being different in every row; else it is the first column, if that is. A foreign key is declared, chosen, or found by
name: `product_id`, `productId` and `product` lead to `products`, `home_team_id` to `teams`, `manager_id` to the people,
if the cells are keys there. What was found stands in the build's output, so that a person can correct it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import lru_cache

from kgwalk.kg.names import normalise, singular
from kgwalk.kg.sources.tables import Column, ForeignKey, Table, Tables
from kgwalk.types import InputError

NONE = "none"  # what a person writes for no key and no foreign key
MOSTLY = 0.9  # of an `id` column that is different in nearly every row: the others are rows about one thing
HALF = 0.5  # the share of cells that a key and a label must have, and of labels that differ


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# What the last word of a key's name is, beside the table's own name
ID_WORDS = _set("id key code uuid guid pk no nr num number sku isbn slug ref fk oid uid")
NAME_WORDS = _set("name title label")
# Columns that show a row, the best first; "*" is the table's name in the singular
LABELS = ("name", "* name", "full name", "display name", "label", "title", "* title", "company name", "company")
NAME_PARTS = (
    ("first name", "last name"),
    ("firstname", "lastname"),
    ("given name", "family name"),
    ("forename", "surname"),
    ("first", "last"),
)
# Tables of people, and words for what people are to others: manager_id, reports_to and approved_by lead to the people.
PEOPLE = _set("employee person staff user member worker contact player author colleague")
ROLES = _set("head lead boss chief chair rep assistant contact captain president founder coach superior representative")
ROLES |= _set("to by")
_ROLE_ENDINGS = ("er", "or", "ee", "ist", "person")
# What a row may be to another of its own table, or of the table that another foreign key of a join leads to
KIN = _set("parent child component sub super root previous next prior original replacement related other similar same")
KIN |= _set("source target from first second superior predecessor successor ancestor base duplicate linked friend")
# The words of a relationship's properties that say when it held: from a time on, up to one, at one; and those beside
_WHEN = {
    "first": _set("since from start started starts begin began begins"),
    "last": _set("until till to end ended ends"),
    "at": _set("date day year time on at when timestamp"),
}
_BESIDE_WHEN = _set("valid point date day year time at on in")
# Words before a table's own name: tbl_products, dim_product
_PREFIXES = _set("tbl table dim fct fact vw")


def find_keys(tables: Tables, chosen: Sequence[str] = ()) -> None:
    """Find the keys, labels and foreign keys of all tables; a person's words on them go first: `chosen`, then those in
    the addresses of databases.
    """
    for table in tables.tables:
        tables.look(table)
    keys, links = _chosen(tables.tables, [*tables.keys, *chosen])
    for table in tables.tables:
        table.key = keys[table] if table in keys else _key(tables, table)
    _find_links(tables, links)
    for table in tables.tables:
        _find_join(tables, table)
        table.bare = table.key is None or not (_id_like(table.key, table) and table.key.integers)
    _part_shared_keys(tables)
    for table in tables.tables:
        if not table.joins:
            table.label = _label(table)
        _note_doubts(table, len(tables.tables))


def _note_doubts(table: Table, tables: int) -> None:
    """Notes on foreign keys that lead nowhere, for a person to correct."""
    for column in table.columns:
        if column.dangling and column.link is not None:
            table.source.note(
                f"{column.dangling:,} of the {column.distinct:,} different cells of {column.name} are no key of "
                f"{column.link.table.name}; they stay as they are"
            )
    lost = [
        one.name for one in table.columns if one.link is None and one is not table.key and _base(one)[1] and one.cells
    ]
    if lost and tables > 1:
        table.source.note(
            f"no table was found that {', '.join(lost)} lead{'s' if len(lost) == 1 else ''} to; "
            f"--key {table.name}.{lost[0]}=TABLE says which"
        )


# A person's words


def _chosen(
    tables: Sequence[Table], chosen: Sequence[str]
) -> tuple[dict[Table, Column | None], dict[Column, Table | None]]:
    """TABLE=COLUMN is a key, TABLE.COLUMN=TABLE a foreign key; `none` in place of the last is no key."""
    keys: dict[Table, Column | None] = {}
    links: dict[Column, Table | None] = {}
    for said in chosen:
        left, equals, right = (part.strip() for part in said.partition("="))
        if not equals or not left or not right:
            raise InputError(f"key {said}: expected TABLE=COLUMN, or TABLE.COLUMN=TABLE for a foreign key")
        table = _table_called(tables, left)
        if table is not None:
            keys[table] = None if right == NONE else _column_called(said, table, right)
            continue
        before, _, after = left.rpartition(".")
        table = _table_called(tables, before) if before else None
        if table is None:
            raise _unknown(said, "table", before or left, [table.name for table in tables])
        target = None if right == NONE else _table_called(tables, right)
        if target is None and right != NONE:
            raise _unknown(said, "table", right, [table.name for table in tables])
        links[_column_called(said, table, after)] = target
    return keys, links


def _table_called(tables: Sequence[Table], name: str) -> Table | None:
    exact = (table for table in tables if table.name == name)
    return next(exact, None) or next((one for one in tables if one.name.casefold() == name.casefold()), None)


def _column_called(said: str, table: Table, name: str) -> Column:
    if (column := table.column(name)) is None:
        raise _unknown(said, f"column of {table.name}", name, [column.name for column in table.columns])
    return column


def _unknown(said: str, what: str, name: str, known: Sequence[str]) -> InputError:
    near = get_close_matches(name, known, 1)
    maybe = f"; did you mean {near[0]!r}?" if near else ""
    hint = f"there are {', '.join(known)}" if known else "nothing was read as a table; --table reads TSV and CSV so"
    return InputError(f"key {said}: no {what} is called {name!r}{maybe}", hint=hint)


# Keys


def _key(tables: Tables, table: Table) -> Column | None:
    if table.keyed_by is not None:  # several columns are a key together, which no other table can name
        return table.column(table.keyed_by[0]) if len(table.keyed_by) == 1 else None
    own = [column for column in table.columns if _own_key_rank(column, table) is not None and column.link is None]
    own.sort(key=lambda column: _own_key_rank(column, table) or 0)
    if table.nested:
        return _nested_key(tables, table, own)
    for column in own:
        filled = (HALF if column is table.columns[0] else MOSTLY) * table.rows
        if column.distinct >= MOSTLY * column.cells and column.cells >= filled:
            return column
    first = table.columns[0] if table.columns else None
    if first is None or first.link is not None:
        return None
    if first.cells >= HALF * table.rows and first.distinct == first.cells:
        return first
    for column in table.columns[1:]:
        words = column_words(column.name)
        if column.distinct == column.cells == table.rows and words and words[-1] in ID_WORDS | NAME_WORDS:
            return column
    if _leads_elsewhere(first, table, tables.tables) or (first.values and not _id_like(first, table)):
        return None
    # Several rows are about one thing, as long as no two columns differ among them: else it would be lost which cells
    # stood in one row.
    varying = sum(tables.varies(first, column) for column in table.columns[1:])
    return first if varying <= 1 else None


def _nested_key(tables: Tables, table: Table, own: Sequence[Column]) -> Column | None:
    """The key of rows that stand inside others, where one thing may come again: an id, or a name that always comes with
    the same further cells.
    """
    for column in own:
        if column.cells == table.rows:
            return column
    for column in table.columns:
        words = column_words(column.name)
        if column.cells == table.rows and not column.link and words and words[-1] in NAME_WORDS:
            others = [other for other in table.columns if other is not column]
            if not any(tables.varies(column, other) for other in others):
                return column
    return None


def _own_key_rank(column: Column, table: Table) -> int | None:
    """How much a column's name is that of its own table's key, 0 for the most; None if it is not at all."""
    words, own = column_words(column.name), _table_words(table)
    forms = [[], own, own[-1:]]  # id, order_line_id, line_id
    for rank, word in enumerate(("id", "uuid", "guid", "key", "pk", "code", "no", "nr", "number")):
        for form in forms:
            if words == [*form, word] or (word == "id" and words == ["".join(form) + word]):
                return rank * len(forms) + forms.index(form)
    return None


def _id_like(column: Column, table: Table) -> bool:
    """Whether a column's name says that its cells stand for something else."""
    words = column_words(column.name)
    return bool(words) and (words[-1] in ID_WORDS or _own_key_rank(column, table) is not None)


def _part_shared_keys(tables: Tables) -> None:
    """Codes that two tables have, of different things, get their table's name."""
    coded = [one for one in tables.tables if one.key is not None and one.key.link is None and not one.joins]
    coded = [one for one in coded if one.bare and one.key is not None and _id_like(one.key, one)]
    for at, one in enumerate(coded):
        for other in coded[at + 1 :]:
            if one.key and other.key and tables.shared(one.key, other.key):
                one.bare = other.bare = False


# Foreign keys


def _find_links(tables: Tables, chosen: dict[Column, Table | None]) -> None:
    for table in tables.tables:
        for column in table.columns:
            if column in chosen:
                target = chosen[column]
                column.link = None if target is None else _checked(column, target)
            elif column.link is None and column.name in table.declared:
                name, key = table.declared[column.name]
                target = _table_called(tables.tables, name)
                if (
                    target is not None
                    and target.key is not None
                    and target.key is target.column(key or target.key.name)
                ):
                    column.link = ForeignKey(target)
    for exact in (True, False):  # a column that fits by its name alone shows where another one of its table may lead
        for table in tables.tables:
            for column in table.columns:
                if column not in chosen and column.link is None and column.cells:
                    found = _named_table(tables, column, table) if exact else _fitting_table(tables, column, table)
                    column.link = None if found is None else ForeignKey(found)
    for table in tables.tables:
        if table.key is not None and table.key.link is not None:
            target = table.key.link.table
            if target is table or (target.key is not None and target.key.link is not None):
                table.key.link = None
        for column in table.columns:
            if column.link is not None and not column.link.by_row and column.link.table.key is not None:
                column.dangling = tables.missing(column, column.link.table.key)


def _checked(column: Column, target: Table) -> ForeignKey:
    if target.key is None:
        raise InputError(
            f"{column.name} cannot lead to {target.name}: no column of it is its key",
            hint=f"choose one: --key {target.name}=COLUMN, or ?key={target.name}=COLUMN in an address",
        )
    return ForeignKey(target)


def _keyed(tables: Tables, column: Column, table: Table) -> Iterator[Table]:
    """The tables that a column may lead to: those that have a key; its own, if it is not the key itself."""
    for other in tables.tables:
        if other.key is not None and other.key is not column and not (other is table and column is table.key):
            yield other


def _named_table(tables: Tables, column: Column, table: Table) -> Table | None:
    """The table that a column's name says: product_id, productId, product, home_team_id, or another table's key's name.

    Most cells of `product_id` have to be keys there; with a name that says less, all have to.
    """
    base, is_id = _base(column)
    fits: list[tuple[int, Table]] = []
    own_key = column is table.key and _own_key_rank(column, table) is not None
    for other in [] if own_key else _keyed(tables, column, table):
        words = _table_words(other)
        if base == words or "".join(base) == "".join(words):
            fits.append((0, other))
        elif is_id and len(words) < len(base) and base[-len(words) :] == words:
            fits.append((1, other))
        elif other.key is not None and _same_name(column, other.key, table):
            fits.append((2, other))
    for rank, other in sorted(fits, key=lambda fit: fit[0]):
        assert other.key is not None
        # A name that says the table, or a text that is a key there, may be wrong in some rows; a number may not.
        sure = (rank == 0 and is_id) or (rank != 1 and not column.values and not other.key.integers)
        if tables.missing(column, other.key) < (HALF * column.distinct if sure else 1):
            return other
    return None


def _fitting_table(tables: Tables, column: Column, table: Table) -> Table | None:
    """Where else a column may lead, if all its cells are keys there: a manager_id to people, a component_id as the
    part_id beside it, a text to the one table that has it as a key.
    """
    if column is table.key:
        return None
    base, is_id = _base(column)
    missing = {other: tables.missing(column, other.key) for other in _keyed(tables, column, table) if other.key}
    if not is_id:
        texts = [other for other in missing if not column.values and other.key and not other.key.integers]
        texts = [other for other in texts if missing[other] <= (1 - MOSTLY) * column.distinct]
        return texts[0] if len(texts) == 1 and column.distinct > 1 else None
    able = [other for other in missing if not missing[other]]
    if not able or not base:
        return None
    people = [other for other in able if _table_words(other)[-1:] and _table_words(other)[-1] in PEOPLE]
    if people and (base[-1] in ROLES or base[-1].endswith(_ROLE_ENDINGS)):
        return table if table in people else people[0]
    if base[-1] in KIN or base[-1] in column_words(table.name)[1:]:
        beside = {one.link.table for one in table.columns if one.link is not None and one is not column}
        if len(beside) == 1 and next(iter(beside)) in able:
            return next(iter(beside))
        return table if table in able else None
    return None


def _same_name(column: Column, key: Column, table: Table) -> bool:
    """Whether a column has the name of another table's key, and it is a name that says something (not `id`)."""
    words = column_words(column.name)
    plain = words == column_words(key.name) and not (len(words) == 1 and words[0] in ID_WORDS | NAME_WORDS)
    return plain and column is not table.key


def _leads_elsewhere(column: Column, table: Table, tables: Sequence[Table]) -> bool:
    """Whether a column's name is another table's, with `id` after it."""
    base, is_id = _base(column)
    return is_id and any(base == _table_words(other) for other in tables if other is not table)


def _find_join(tables: Tables, table: Table) -> None:
    """A table of two foreign keys and nothing else, no two rows alike, is a relation between other tables' rows."""
    links = [column for column in table.columns if column.link is not None]
    filled = [column for column in table.columns if column.cells]
    table.joins = table.key is None and links == filled and len(links) == 2 and not tables.repeats(*links)


# Labels


def _label(table: Table) -> tuple[Column, ...]:
    """The column that shows a row; none where the key itself does."""
    free = [column for column in table.columns if column is not table.key and column.link is None and column.cells]
    by_name = {" ".join(column_words(column.name)): column for column in reversed(free)}
    if table.key is not None and table.key.link is not None:
        return ()
    own = " ".join(_table_words(table))
    if table.key is not None:
        words = column_words(table.key.name)
        if " ".join(words) == own or (words and words[-1] in NAME_WORDS):
            return ()
    for form in LABELS:
        column = by_name.get(form.replace("*", own))
        if column is not None and _shows(column, table):
            return (column,)
    for parts in NAME_PARTS:
        if all(part in by_name for part in parts):
            return tuple(by_name[part] for part in parts)
    if table.key is None or not _id_like(table.key, table):
        return ()
    named = [
        column for column in free if column_words(column.name)[-1:] and column_words(column.name)[-1] in NAME_WORDS
    ]
    return next(((column,) for column in named if _shows(column, table) and column.distinct == column.cells), ())


def _shows(column: Column, table: Table) -> bool:
    """Whether the cells of a column tell rows apart, mostly."""
    things = table.rows if table.key is None else max(1, table.key.distinct)
    return column.cells >= HALF * table.rows and column.distinct >= HALF * min(things, column.cells)


# Words


def column_words(name: str) -> list[str]:
    """The words of a column's or a table's name.

    >>> column_words("productId"), column_words("Order_Lines"), column_words("dbo.Products")
    (['product', 'id'], ['order', 'lines'], ['products'])
    """
    last = name.rsplit(".", 1)[-1] or name
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", last)
    return normalise(re.sub(r"[_\W]+", " ", spaced)).split()


@lru_cache(1000)
def says_when(name: str, *, number: bool = False) -> str:
    """Which time a property of a relationship is called after: `first`, `last` or `at`; "" for none.

    A `number` called a time is minutes or a count of seconds, and not a year, but for Wikidata's point in time.

    >>> says_when("startDate"), says_when("valid_to"), says_when("point in time"), says_when("role")
    ('first', 'last', 'at', '')
    >>> says_when("time"), says_when("time", number=True), says_when("year", number=True)
    ('at', '', 'at')
    """
    words = column_words(name)
    if number and "time" in words and "point" not in words:
        return ""
    fits = (one for one, of in _WHEN.items() if of.intersection(words) and of | _BESIDE_WHEN >= {*words})
    return next(fits, "")


def _table_words(table: Table) -> list[str]:
    """The words of a table's name, in the singular: `tbl_order_lines` is about an order line."""
    words = column_words(table.name)
    while len(words) > 1 and words[0] in _PREFIXES:
        words = words[1:]
    return [*words[:-1], singular(words[-1])] if words else [table.name]


def _base(column: Column) -> tuple[list[str], bool]:
    """The words of a column's name without `id` or the like, and whether there was such a word.

    A plural without one (`orders`) is a number of them, not a foreign key.
    """
    words = column_words(column.name)
    if len(words) > 1 and words[-1] in ID_WORDS:
        return words[:-1], True
    if len(words) > 1 and words[0] in ("id", "fk"):
        return words[1:], True
    if len(words) > 1 and words[-1] in ("by", "to") and column.integers:
        return words, True
    if len(words) == 1 and len(words[0]) > 4 and words[0].endswith("id"):
        return [words[0][:-2]], True
    if column.integers and words and singular(words[-1]) != words[-1]:
        return [], False
    return [*words[:-1], singular(words[-1])] if words else [], False
