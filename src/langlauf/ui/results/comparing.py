"""Two snapshots side by side: which rows came, went or changed, and which values elsewhere. Pure, and bounded."""

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Raw

from langlauf.domain.redact import secret_name
from langlauf.domain.showing import Column
from langlauf.ui.showing.table import Cell, cell_of, fields_of, names_of
from langlauf.ui.showing.written import is_list, is_number, is_object, is_text, items, members, pointer_to, text_of

MOST_ROWS = 20_000
MOST_LISTED = 200
_MOST_LOOKED_AT = 50_000
_DEEPEST = 32
_MOST_FIELDS = 8
#: Names that usually tell a row from the others, best first.
_KEYS = ("id", "key", "uuid", "code", "name")

What = Literal["added", "removed", "changed"]
Row = dict[str, Raw]


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """A value before and after; None where there was none."""

    name: str
    before: Cell | None = None
    after: Cell | None = None


class RowChange(msgspec.Struct, frozen=True, kw_only=True):
    """A row that is not the same. `key` tells which one, or its number."""

    what: What
    key: str
    fields: list[Field]


class RowChanges(msgspec.Struct, frozen=True, kw_only=True):
    """All of them, and how rows were told apart: by a column, or by their position where `key` is empty."""

    key: str
    added: int
    removed: int
    changed: int
    listed: list[RowChange]

    @property
    def count(self) -> int:
        """How many rows are not the same."""
        return self.added + self.removed + self.changed


def changed_rows(before: Sequence[Raw], after: Sequence[Raw], columns: Sequence[Column]) -> RowChanges | None:
    """What became of the rows; None where there are too many to compare."""
    if max(len(before), len(after)) > MOST_ROWS:
        return None
    old, new = ([fields_of(row, columns) for row in rows] for rows in (before, after))
    key = _key(old, new)
    earlier, later = _by_key(old, key), _by_key(new, key)
    changes = [_row("added", name, {}, _without(row, key)) for name, row in later.items() if name not in earlier]
    changes += [_row("removed", name, _without(row, key), {}) for name, row in earlier.items() if name not in later]
    both = [(name, earlier[name], row) for name, row in later.items() if name in earlier]
    changes += [_row("changed", name, was, row) for name, was, row in both if not _same(was, row)]
    counts = {what: sum(change.what == what for change in changes) for what in ("added", "removed", "changed")}
    return RowChanges(key=key, listed=changes[:MOST_LISTED], **counts)


def _key(old: list[Row], new: list[Row]) -> str:
    names = [name for name in names_of([*old[:1], *new[:1]]) if not secret_name(name)]
    likely = [name for name in _KEYS if name in names] + [name for name in names if name.endswith("_id")]
    return next((name for name in [*likely, *names] if _tells(name, old) and _tells(name, new)), "")


def _tells(name: str, rows: list[Row]) -> bool:
    """Whether every row has another value there."""
    values = [row.get(name) for row in rows]
    texts = {text_of(value) for value in values if value is not None and (is_text(value) or is_number(value))}
    return len(texts) == len(rows)


def _by_key(rows: list[Row], key: str) -> dict[str, Row]:
    return {text_of(row[key]) if key else str(number): row for number, row in enumerate(rows, 1)}


def _without(row: Row, key: str) -> Row:
    return {name: value for name, value in row.items() if name != key}


def _same(was: Row, row: Row) -> bool:
    return was.keys() == row.keys() and all(bytes(was[name]) == bytes(row[name]) for name in row)


def _row(what: What, key: str, was: Row, row: Row) -> RowChange:
    names = [name for name in names_of([was, row]) if name not in was or name not in row or was[name] != row[name]]
    fields = [_field(name, was.get(name), row.get(name)) for name in names[:_MOST_FIELDS]]
    return RowChange(what=what, key=key, fields=fields)


def _field(name: str, was: Raw | None, value: Raw | None) -> Field:
    before = None if was is None else cell_of(name, was)
    return Field(name=name, before=before, after=None if value is None else cell_of(name, value))


class PathChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Values that are not the same, by where they stand. `complete` says whether these are all."""

    listed: list[Field]
    complete: bool


def changed_paths(before: Raw, after: Raw, *, without: str | None) -> PathChanges:
    """Every place where two results differ, except in the table that is compared by its rows."""
    search = _Search(without)
    search.look(before, after, ())
    return PathChanges(listed=search.found, complete=search.left > 0)


class _Search:
    """Looks for differences until it has found enough, or has looked long enough."""

    def __init__(self, without: str | None) -> None:
        self.found: list[Field] = []
        self.left = _MOST_LOOKED_AT
        self._without = without

    def look(self, before: Raw, after: Raw, path: tuple[str, ...]) -> None:
        self.left -= 1
        if len(self.found) >= MOST_LISTED:
            self.left = 0
        if self.left <= 0 or bytes(before) == bytes(after) or pointer_to(path) == self._without:
            return
        for kind in (is_object, is_list):
            if kind(before) and kind(after) and len(path) < _DEEPEST and not (path and secret_name(path[-1])):
                self._inside(_named(before), _named(after), path)
                return
        self._add(path, before, after)

    def _inside(self, before: Row, after: Row, path: tuple[str, ...]) -> None:
        for name in names_of([before, after]):
            if name in before and name in after:
                self.look(before[name], after[name], (*path, name))
            else:
                self._add((*path, name), before.get(name), after.get(name))

    def _add(self, path: tuple[str, ...], before: Raw | None, after: Raw | None) -> None:
        if len(self.found) < MOST_LISTED and pointer_to(path) != self._without:
            name = path[-1] if path else ""
            change = _field(name, before, after)
            self.found.append(Field(name=pointer_to(path) or "/", before=change.before, after=change.after))


def _named(value: Raw) -> Row:
    return members(value) if is_object(value) else {str(number): one for number, one in enumerate(items(value))}
