"""Copies all of a store into an empty one, in batches, and can go on where it was; the tables and columns to copy."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import msgspec

from langlauf.domain.delivery import DeliveryAttempt, Notification
from langlauf.domain.errors import StoreError
from langlauf.domain.event import Event
from langlauf.domain.instant import Instant
from langlauf.domain.job import JobRecord
from langlauf.domain.provenance import CodeVersion
from langlauf.domain.result import Snapshot
from langlauf.domain.schedule import SCHEDULE_FIELDS, Pause
from langlauf.store.sql import load_queries
from langlauf.store.tools.verify import Watch

# -- tables ------------------------------------------------------------------------------------------------------------


class RowOrder(NamedTuple):
    """The order in which rows are read, and how to find the place behind one of them from its key."""

    key: tuple[str, ...]
    order: str
    behind: str


def by(*key: str) -> RowOrder:
    """In the order of a key."""
    return RowOrder(key, ", ".join(key), ", ".join(f":key{place}" for place in range(len(key))))


class Table(NamedTuple):
    """A table whose rows are the same in every store."""

    name: str
    columns: tuple[str, ...]
    #: the order of its rows; None where each store has its own
    order: RowOrder | None = None


def _table(name: str, columns: str, *key: str) -> Table:
    return Table(name, tuple(columns.split()), by(*key) if key else None)


#: Jobs come before what belongs to them.
TABLES = (
    # A job's record has no read mark: that is about the message of its end.
    Table("jobs", (*JobRecord.__struct_fields__, "read_at")),
    _table("job_inputs", "org_id job_id queued_at payload"),
    Table("job_events", Event.__struct_fields__),
    Table("job_results", (*Snapshot.__struct_fields__, "payload", "views", "schema_text")),
    # In-app messages about the end of a job are derived from the job, and are in no table.
    Table("outbox", Notification.__struct_fields__),
    Table("delivery_attempts", DeliveryAttempt.__struct_fields__),
    _table("delivery_lanes", "org_id lane failures failing_since paused_until", "org_id", "lane"),
    _table("job_wishes", "org_id job_id channel target lane language"),
    _table(
        "webhook_endpoints",
        "org_id endpoint_id url name subjects created_at version former_until disabled_at disabled_reason",
    ),
    Table("schedules", SCHEDULE_FIELDS, by("org_id", "name")),
    _table("mail_marks", "org_id address mark at", "org_id", "address", "mark"),
    _table("inbox_marks", "org_id read_until", "org_id"),
    _table("job_chunks", "org_id job_id chunk_key payload created_at total"),
    _table("leases", "org_id job_id attempt worker_id expires_at deadline_at"),
    _table("idempotency_keys", "org_id idempotency_key job_id payload_hash created_at"),
    _table("pace", "analysis runs mean_seconds", "analysis"),
    Table("pauses", Pause.__struct_fields__, by("org_id", "analysis")),
    Table("codes", ("code", *CodeVersion.__struct_fields__, "seen_at"), by("code")),
    _table("imports", "file_name sha256 imported_at jobs", "file_name", "sha256"),
    _table(
        "api_keys",
        "key_id org_id name secret_hash scopes created_at expires_at revoked_at last_used_at version",
        "key_id",
    ),
    _table("signing_secrets", "purpose secret created_at", "purpose"),
    _table("ended_sessions", "session_id expires_at number", "session_id"),
)
BY_NAME = {table.name: table for table in TABLES}


# -- copy --------------------------------------------------------------------------------------------------------------
# The copy is compared with its source before it may be used: every table has as many rows and the same digest. What can
# be made from the rest is not copied but made: lanes and what they count.

Row = tuple[Any, ...]
#: What one transaction of the target may take.
ROWS_PER_BATCH = 2_000
_BYTES_PER_BATCH = 8 * 1024 * 1024
#: The columns that make a row large.
_HEAVY = frozenset({"payload", "views"})
_WATCH_EVERY = 1_000
_QUERIES = load_queries("langlauf.store.tools", "transfer.sql")
_encode = msgspec.msgpack.Encoder().encode


class CopyRefused(StoreError):
    """The copy was not begun, or does not go on: what would have to be so is not."""


def half_copied(name: str, source: str) -> str:
    """Why a store cannot be used while a copy into it is under way."""
    return f"{name} is not complete: a copy from {source} was begun; `langlauf copy-store` goes on with it"


class CopyProgress(NamedTuple):
    """How far a copy is: up to which row of which table, by the key of the source."""

    source: str
    table: str
    #: the key of the last row as JSON; None before the first one
    position: str | None


class CopySource(ABC):
    """A store to read, as it was at one moment."""

    #: its unique name
    name: str
    #: the orders of tables that have none for every store
    orders: Mapping[str, RowOrder]

    @abstractmethod
    def _read(self, table: str, sql: str, **values: Any) -> Iterator[Row]:
        """Return the rows that a query gives, which are those of a table."""

    @abstractmethod
    def _now(self) -> Instant:
        """Return the store's time."""

    def rows(self, table: Table, behind: Sequence[Any] | None = None) -> Iterator[Row]:
        """Return the rows of a table in the order of their keys, from the first one or behind one."""
        query = _QUERIES["read_rows" if behind is None else "read_rows_behind"]
        _, order, place = self._order(table)
        sql = query.format(columns=", ".join(table.columns), table=table.name, order=order, behind=place)
        return self._read(table.name, sql, **{f"key{place}": value for place, value in enumerate(behind or ())})

    def key(self, table: Table, row: Row) -> list[Any]:
        """Return the key of a row."""
        return [row[table.columns.index(column)] for column in self._order(table).key]

    def _order(self, table: Table) -> RowOrder:
        return table.order or self.orders[table.name]

    def count(self, table: Table) -> int:
        """Return how many rows a table has."""
        [(count,)] = self._read(table.name, _QUERIES["count_rows"].format(table=table.name))
        return int(count)

    def live_leases(self) -> int:
        """Return how many attempts run."""
        [(count,)] = self._read("leases", _QUERIES["live_leases"], now=self._now())
        return int(count)


class CopyTarget(ABC):
    """A store to fill. Each of its verbs is one transaction."""

    name: str

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[None]:
        """Run the block in one transaction."""

    @abstractmethod
    def _run(self, sql: str, **values: Any) -> list[Row]:
        """Run a statement."""

    @abstractmethod
    def _put(self, table: Table, rows: Sequence[Row]) -> None:
        """Insert rows."""

    @abstractmethod
    def _complete(self) -> None:
        """Make what was not copied."""

    def progress(self) -> CopyProgress | None:
        """How far a copy into this store is, if one is under way."""
        with self._transaction():
            rows = self._run(_QUERIES["read_progress"])
        return CopyProgress(*rows[0]) if rows else None

    def begin(self, progress: CopyProgress) -> None:
        """Save that a copy is under way."""
        with self._transaction():
            self._run(_QUERIES["begin_copy"], **_values(progress))

    def put(self, table: Table, rows: Sequence[Row], before: CopyProgress, after: CopyProgress) -> None:
        """Insert rows and save the progress; raise `CopyRefused` where another process saved it meanwhile."""
        with self._transaction():
            self._move("move_copy", **_values(after), from_table=before.table, from_position=before.position)
            self._put(table, rows)

    def finish(self, before: CopyProgress) -> None:
        """Derive what was not copied and delete the progress row, which releases the store for use."""
        with self._transaction():
            self._complete()
            self._move("end_copy", **_values(before))

    def _move(self, query: str, **values: Any) -> None:
        if not self._run(_QUERIES[query], **values):
            raise CopyRefused(f"another program copies into {self.name}")


def _values(progress: CopyProgress) -> dict[str, Any]:
    return {"source": progress.source, "table": progress.table, "position": progress.position}


class Copied(msgspec.Struct, frozen=True):
    """A table of both stores."""

    rows: int
    digest: str
    #: whether the copy has the same
    same: bool


class CopyReport(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a copy. One that is not complete may not be used."""

    source: str
    target: str
    resumed: bool
    complete: bool
    tables: dict[str, Copied]


#: Opens a store of some kind as it is now.
OpenSource = Callable[[], AbstractContextManager[CopySource]]


class StoreCopy:
    """One run. `again` opens the target to be read, for the comparison."""

    def __init__(self, source: OpenSource, target: CopyTarget, again: OpenSource, watch: Watch) -> None:
        self._source = source
        self._target = target
        self._again = again
        self._watch = watch

    def run(self, *, running: bool) -> CopyReport:
        """Copy what is missing, compare, and release the target for use if both are equal.

        With `running`, attempts that run count as lost: their leases come along, end by themselves, and are swept.
        """
        with self._source() as source:
            if not running and (live := source.live_leases()):
                raise CopyRefused(
                    f"{live} attempts run in {source.name}: stop its workers first, or say that they count as lost"
                )
            before = self._target.progress()
            progress = before or self._begin(source)
            if progress.source != source.name:
                raise CopyRefused(f"a copy from {progress.source} is under way, not from {source.name}")
            progress = self._copy(source, progress)
        tables, names = self._compare()
        complete = all(table.same for table in tables.values())
        if complete:
            self._target.finish(progress)
        source_name, target_name = names
        return CopyReport(
            source=source_name, target=target_name, resumed=before is not None, complete=complete, tables=tables
        )

    def _begin(self, source: CopySource) -> CopyProgress:
        with self._again() as target:
            used = [table.name for table in TABLES if target.count(table)]
            if used:
                raise CopyRefused(f"{target.name} is in use, it has {', '.join(used)}: a copy needs an empty store")
        progress = CopyProgress(source.name, TABLES[0].name, None)
        self._target.begin(progress)
        return progress

    def _copy(self, source: CopySource, progress: CopyProgress) -> CopyProgress:
        names = [table.name for table in TABLES]
        for table in TABLES[names.index(progress.table) :]:
            if progress.table != table.name:
                self._target.put(table, [], progress, CopyProgress(source.name, table.name, None))
                progress = CopyProgress(source.name, table.name, None)
            progress = self._copy_table(source, table, progress)
        return progress

    def _copy_table(self, source: CopySource, table: Table, progress: CopyProgress) -> CopyProgress:
        total, done = source.count(table), 0
        behind = None
        if progress.position is not None:
            behind = msgspec.json.decode(progress.position)
            with self._again() as target:
                done = target.count(table)
        self._watch(table.name, done, total)
        for rows in batches(table, source.rows(table, behind)):
            position = msgspec.json.encode(source.key(table, rows[-1])).decode()
            after = CopyProgress(source.name, table.name, position)
            self._target.put(table, rows, progress, after)
            progress = after
            done += len(rows)
            self._watch(table.name, done, total)
        return progress

    def _compare(self) -> tuple[dict[str, Copied], tuple[str, str]]:
        """Both stores as they are now: a source that was written to meanwhile shows here."""
        found = {}
        with self._source() as source, self._again() as target:
            for table in TABLES:
                wanted = self._digest(source, table)
                found[table.name] = Copied(*wanted, same=self._digest(target, table) == wanted)
            return found, (source.name, target.name)

    def _digest(self, store: CopySource, table: Table) -> tuple[int, str]:
        total = store.count(table)
        step = f"comparing {table.name}"

        def watched() -> Iterator[Row]:
            for number, row in enumerate(store.rows(table)):
                if number % _WATCH_EVERY == 0:
                    self._watch(step, number, total)
                yield row

        return digest_of(watched())


def digest_of(rows: Iterable[Row]) -> tuple[int, str]:
    """Return how many rows, and a digest of them that does not depend on their order."""
    count, total = 0, 0
    for row in rows:
        count += 1
        total += int.from_bytes(hashlib.sha256(_encode(row)).digest())
    return count, f"{total % 2**256:064x}"


def batches(table: Table, rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Divide rows so that no transaction takes long, whatever they hold."""
    heavy = [place for place, column in enumerate(table.columns) if column in _HEAVY]
    batch: list[Row] = []
    size = 0
    for row in rows:
        weight = sum(len(row[place] or "") for place in heavy)
        if batch and (len(batch) >= ROWS_PER_BATCH or size + weight > _BYTES_PER_BATCH):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += weight
    if batch:
        yield batch
