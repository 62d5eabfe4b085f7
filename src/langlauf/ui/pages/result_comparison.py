"""`/results/{result_id}/diff`: two snapshots compared, by rows of their table and by paths elsewhere."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
from msgspec import Raw
from starlette.responses import Response

from langlauf.api.context import ApiContext
from langlauf.auth.caller import Caller
from langlauf.domain.job import JobRecord
from langlauf.domain.redact import is_secret_name
from langlauf.domain.result import Column, StoredResult
from langlauf.problems import not_found
from langlauf.service.read import CallerReads
from langlauf.ui.formats import in_words
from langlauf.ui.language import AnalysisWords
from langlauf.ui.page_request import PageRequest
from langlauf.ui.pages.snapshots import (
    query_number,
    requested_snapshot,
    requested_version,
    require_payload,
    snapshot_neighbours,
    with_payload,
)
from langlauf.ui.renderer import PageRenderer
from langlauf.ui.views.raw_json import (
    is_list,
    is_number,
    is_object,
    is_text,
    items,
    members,
    parse_raw,
    pointer_to,
    raw_text,
)
from langlauf.ui.views.stored_views import RawTableView, ResultViews, result_views
from langlauf.ui.views.table import TableCell, column_names, row_fields, table_cell

MAX_COMPARED_ROWS = 20_000
MAX_LISTED_CHANGES = 200
_MAX_COMPARED_VALUES = 50_000
_MAX_COMPARE_DEPTH = 32
_MAX_CHANGED_FIELDS = 8
#: Columns that usually identify a row, best first.
_LIKELY_KEYS = ("id", "key", "uuid", "code", "name")

ChangeKind = Literal["added", "removed", "changed"]
RowFields = dict[str, Raw]


class FieldChange(msgspec.Struct, frozen=True, kw_only=True):
    """A value before and after; None where there was none."""

    name: str
    before: TableCell | None = None
    after: TableCell | None = None


class RowChange(msgspec.Struct, frozen=True, kw_only=True):
    """A changed row. `key` identifies it, or its number."""

    what: ChangeKind
    key: str
    fields: list[FieldChange]


class RowChanges(msgspec.Struct, frozen=True, kw_only=True):
    """All changed rows. `key` is the column that identifies rows; empty where they are matched by position."""

    key: str
    added: int
    removed: int
    changed: int
    listed: list[RowChange]

    @property
    def count(self) -> int:
        """Number of changed rows."""
        return self.added + self.removed + self.changed


def changed_rows(before: Sequence[Raw], after: Sequence[Raw], columns: Sequence[Column]) -> RowChanges | None:
    """Compare rows; return None where there are too many."""
    if max(len(before), len(after)) > MAX_COMPARED_ROWS:
        return None
    old, new = ([row_fields(row, columns) for row in rows] for rows in (before, after))
    key = _key_column(old, new)
    earlier, later = _rows_by_key(old, key), _rows_by_key(new, key)
    changes = [
        _row_change("added", name, {}, _without_key(row, key)) for name, row in later.items() if name not in earlier
    ]
    changes += [
        _row_change("removed", name, _without_key(row, key), {}) for name, row in earlier.items() if name not in later
    ]
    both = [(name, earlier[name], row) for name, row in later.items() if name in earlier]
    changes += [_row_change("changed", name, was, row) for name, was, row in both if not _same_row(was, row)]
    # In the order of the tables, so that a reader finds a row where it stands.
    places = {name: place for rows in (earlier, later) for place, name in enumerate(rows)}
    changes.sort(key=lambda change: (places[change.key], change.what != "removed"))
    counts = {what: sum(change.what == what for change in changes) for what in ("added", "removed", "changed")}
    return RowChanges(key=key, listed=changes[:MAX_LISTED_CHANGES], **counts)


def _key_column(old: list[RowFields], new: list[RowFields]) -> str:
    names = [name for name in column_names([*old[:1], *new[:1]]) if not is_secret_name(name)]
    likely = [name for name in _LIKELY_KEYS if name in names] + [name for name in names if name.endswith("_id")]
    return next((name for name in [*likely, *names] if _is_unique(name, old) and _is_unique(name, new)), "")


def _is_unique(name: str, rows: list[RowFields]) -> bool:
    """Whether a column has a different value in every row."""
    values = [row.get(name) for row in rows]
    texts = {raw_text(value) for value in values if value is not None and (is_text(value) or is_number(value))}
    return len(texts) == len(rows)


def _rows_by_key(rows: list[RowFields], key: str) -> dict[str, RowFields]:
    return {raw_text(row[key]) if key else str(number): row for number, row in enumerate(rows, 1)}


def _without_key(row: RowFields, key: str) -> RowFields:
    return {name: value for name, value in row.items() if name != key}


def _same_row(was: RowFields, row: RowFields) -> bool:
    return was.keys() == row.keys() and all(bytes(was[name]) == bytes(row[name]) for name in row)


def _row_change(what: ChangeKind, key: str, was: RowFields, row: RowFields) -> RowChange:
    names = [name for name in column_names([was, row]) if name not in was or name not in row or was[name] != row[name]]
    fields = [_field_change(name, was.get(name), row.get(name)) for name in names[:_MAX_CHANGED_FIELDS]]
    return RowChange(what=what, key=key, fields=fields)


def _field_change(name: str, was: Raw | None, value: Raw | None) -> FieldChange:
    before = None if was is None else table_cell(name, was)
    return FieldChange(name=name, before=before, after=None if value is None else table_cell(name, value))


class PathChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Changed values by path. `complete` tells whether the search was finished."""

    listed: list[FieldChange]
    complete: bool


def changed_paths(before: Raw, after: Raw, *, without: str | None) -> PathChanges:
    """Compare two results outside the table that is compared by rows."""
    search = _PathComparer(without)
    search.look(before, after, ())
    return PathChanges(listed=search.found, complete=search.left > 0)


class _PathComparer:
    """Searches for differences until a limit of results or of compared values."""

    def __init__(self, without: str | None) -> None:
        self.found: list[FieldChange] = []
        self.left = _MAX_COMPARED_VALUES
        self._without = without

    def look(self, before: Raw, after: Raw, path: tuple[str, ...]) -> None:
        self.left -= 1
        if len(self.found) >= MAX_LISTED_CHANGES:
            self.left = 0
        if self.left <= 0 or bytes(before) == bytes(after) or pointer_to(path) == self._without:
            return
        for kind in (is_object, is_list):
            if (
                kind(before)
                and kind(after)
                and len(path) < _MAX_COMPARE_DEPTH
                and not (path and is_secret_name(path[-1]))
            ):
                self._inside(_children(before), _children(after), path)
                return
        self._add(path, before, after)

    def _inside(self, before: RowFields, after: RowFields, path: tuple[str, ...]) -> None:
        for name in column_names([before, after]):
            if name in before and name in after:
                self.look(before[name], after[name], (*path, name))
            else:
                self._add((*path, name), before.get(name), after.get(name))

    def _add(self, path: tuple[str, ...], before: Raw | None, after: Raw | None) -> None:
        if len(self.found) < MAX_LISTED_CHANGES and pointer_to(path) != self._without:
            name = path[-1] if path else ""
            change = _field_change(name, before, after)
            self.found.append(FieldChange(name=pointer_to(path) or "/", before=change.before, after=change.after))


def _children(value: Raw) -> RowFields:
    return members(value) if is_object(value) else {str(number): one for number, one in enumerate(items(value))}


class ComparisonPage:
    """`/results/{result_id}/diff?from=&to=`, and `?with=` for the newest results of two jobs."""

    def __init__(self, context: ApiContext, renderer: PageRenderer) -> None:
        self._context = context
        self._renderer = renderer

    async def show(self, request: PageRequest, caller: Caller) -> Response:
        """Compare two snapshots of a job, by default the newest with the one before, or two jobs."""
        reads = self._context.services.reads.of(caller)
        if other := request.query_params.get("with"):
            return await self._two_jobs(request, reads, other)
        newest = await requested_snapshot(reads, request, latest=True, payload=False)
        until = query_number(request, "to", newest.delivered.snapshot.result_seq)
        since = query_number(request, "from", max(1, until - 1))
        before = require_payload((await requested_version(reads, request, since)).delivered)
        after = require_payload((await requested_version(reads, request, until)).delivered)
        rows, paths = await asyncio.to_thread(_compare, before, after)
        return self._renderer.page(
            request,
            "results/diff.html",
            job=newest.job,
            result_id=newest.requested.result_id,
            before=before.snapshot,
            after=after.snapshot,
            inputs=None,
            around=snapshot_neighbours(await reads.results(newest.job.job_id), after.snapshot),
            rows=rows,
            paths=paths,
            where=self._labels(request, newest.job),
            most=MAX_LISTED_CHANGES,
        )

    def _labels(self, request: PageRequest, job: JobRecord) -> Callable[[str], str]:
        words = self._renderer.analyses.words(job.analysis, request.language)
        return lambda pointer: field_label(pointer, words)

    async def _two_jobs(self, request: PageRequest, reads: CallerReads, other_id: str) -> Response:
        """Compare the newest results of two jobs, the one that was accepted first on the left, and their inputs."""
        one = await requested_snapshot(reads, request, latest=True, payload=False)
        other = await reads.result(other_id, latest=True, payload=False)
        if other is None:
            raise not_found()
        early, late = sorted((one, other), key=lambda found: found.job.queued_at)
        before = require_payload((await with_payload(reads, request, early)).delivered)
        after = require_payload((await with_payload(reads, request, late)).delivered)
        rows, paths = await asyncio.to_thread(_compare, before, after)
        inputs = [await reads.payload(found.job.job_id) or "{}" for found in (early, late)]
        return self._renderer.page(
            request,
            "results/diff.html",
            job=late.job,
            result_id=one.requested.result_id,
            before=before.snapshot,
            after=after.snapshot,
            inputs=changed_paths(*map(parse_raw, inputs), without=None),
            around=None,
            rows=rows,
            paths=paths,
            where=self._labels(request, late.job),
            most=MAX_LISTED_CHANGES,
        )


def _compare(before: StoredResult, after: StoredResult) -> tuple[RowChanges | None, PathChanges]:
    old, new = result_views(before), result_views(after)
    table, earlier = _first_table(new), _first_table(old)
    if table is None or earlier is None or not comparable(earlier, table):
        return None, changed_paths(old.payload, new.payload, without=None)
    rows = changed_rows(old.rows(earlier), new.rows(table), table.columns)
    without = table.at if rows is not None else None
    return rows, changed_paths(old.payload, new.payload, without=without)


def comparable(before: RawTableView, after: RawTableView) -> bool:
    """Whether two tables are the same one at different times: rows of different tables have nothing in common."""
    names = [{column.name for column in table.columns} for table in (before, after)]
    return before.at == after.at and names[0] == names[1]


def field_label(pointer: str, words: AnalysisWords) -> str:
    """Return a path in words: `/summary/people_within_25_km` is "Summary: People within 25 km"."""
    labels = {fact.key: fact.label for fact in words.wording.facts if fact.label}
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.removeprefix("/").split("/")]
    shown = [str(int(one) + 1) if one.isdecimal() else words.text(labels.get(one) or in_words(one)) for one in parts]
    return ": ".join(shown) or pointer


def _first_table(found: ResultViews) -> RawTableView | None:
    return next((view for view in found.views if isinstance(view, RawTableView)), None)
