"""Facts about a store for `doctor`, read without changing anything, beside running servers.

Each driver has an inspector. It opens a store in any state: a schema of another version, a file that is
damaged, a misconfigured server. Nothing is migrated or created. Each query has a time limit.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from langlauf.domain.health import DutySuccess, WorkerStatus
from langlauf.domain.instant import Instant
from langlauf.domain.read_models import EndedJob, StartedJob, WaitingJobs
from langlauf.domain.result import ReferencedPayloads
from langlauf.domain.schedule import Pause
from langlauf.store.admin import worker_from
from langlauf.store.blobs.owner import INSTANCE, OwnerMark, StoreIdentity, mark_of
from langlauf.store.blobs.protocol import IDENTITY, store_name
from langlauf.store.sql import pause_from

Kind = Literal["sqlite", "postgres"]
#: The kinds of records that retention removes, each by its own age.
RetiredKind = Literal["results", "events", "jobs"]


class SchemaFacts(NamedTuple):
    """The schema version of the store, the one of this program, and the source of an unfinished copy."""

    found: int
    known: int
    copied_from: str | None


class ClockFacts(NamedTuple):
    """The time of the store and of this machine at the same moment; the doubt is the round trip."""

    store: Instant
    machine: Instant
    doubt_seconds: float


class BlobReference(NamedTuple):
    """A blob as a row references it."""

    org_id: str
    job_id: str
    result_id: str
    ref: str


class PathFacts(NamedTuple):
    """A file or folder and its mode."""

    path: str
    mode: int


class FileFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A SQLite file, its neighbours and the connections that this program opens to it."""

    library: str
    oldest_safe: str
    journal_mode: str
    synchronous: int
    foreign_keys: bool
    busy_milliseconds: int
    mapped_bytes: int
    paths: list[PathFacts]
    file_system: str
    page_size: int
    pages: int
    free_pages: int
    log_bytes: int
    largest_log: int
    disk_free: int
    disk_size: int
    #: why this user cannot write to it; None where nothing forbids it
    unwritable: str | None = None


class HotTable(NamedTuple):
    """A table in which rows come and go all the time."""

    name: str
    live: int
    dead: int
    #: seconds since the last vacuum
    vacuumed_ago: float | None


class Holder(NamedTuple):
    """What keeps dead rows from being removed, and for how many transactions and seconds it has."""

    what: str
    transactions: int
    seconds: float


class ServerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A PostgreSQL server, as it is set up for the login of this program."""

    version: int
    oldest: int
    fsync: bool
    full_page_writes: bool
    #: of a session of this login before the program sets it
    synchronous_commit: str
    standby: bool
    read_only: bool
    notify_usage: float
    connections: int
    reserved_connections: int
    most_connections: int
    #: whether what answers is not the process that greeted: a pooler is in between
    pooled: bool
    #: whether two connections of ours were answered by one process of the server
    shared: bool
    #: whether the URL says that a pooler in session mode is there
    pooler_expected: bool


class SessionSeen(NamedTuple):
    """How the sessions of the program are set, in milliseconds; 0 is without a limit."""

    statement_timeout: int
    lock_timeout: int
    idle_timeout: int
    synchronous_commit: str
    search_path: str


class RightsSeen(msgspec.Struct, frozen=True, kw_only=True):
    """Who may do what in the database."""

    #: roles of the store that are missing
    missing_roles: list[str]
    #: roles of the store that row-level security does not bind
    boundless_roles: list[str]
    #: tables of tenants' rows where row-level security is not on, or not forced on their owner
    unguarded_tables: list[str]
    #: objects that every role may access
    open_to_all: list[str]


class DeliveriesSeen(NamedTuple):
    """Deliveries: how many are pending, and which receivers are paused or disabled."""

    pending: int
    #: when the most overdue message of a lane that is not paused was due
    oldest_due: Instant | None
    paused_lanes: int
    disabled_endpoints: int


class PlannedAnalysis(NamedTuple):
    """An analysis with planned runs: the schedule whose run is the first, and how many there are."""

    analysis: str
    org_id: str
    name: str
    next_run_at: Instant
    schedules: int


class Inspector(ABC):
    """Inspects one store. A query that fails raises `StoreError` with the reason."""

    #: which driver it is of
    kind: Kind

    @abstractmethod
    def _ask(self, query: str, /, **values: Any) -> list[Any]:
        """Return the rows of a query. Values have the order that a function of that name has."""

    @abstractmethod
    def _identity(self) -> StoreIdentity:
        """Return the identity of the store."""

    @abstractmethod
    def schema(self) -> SchemaFacts:
        """Return which schema is there."""

    @abstractmethod
    def changed_objects(self) -> list[str]:
        """Return schema objects that differ from the migrations."""

    @abstractmethod
    def damages(self) -> list[str]:
        """Return what the database says is damaged; raises `TimeoutError` where that takes too long to find out."""

    @abstractmethod
    def clock(self) -> ClockFacts:
        """Both times."""

    def workers(self) -> list[WorkerStatus]:
        """Who works, or did so lately."""
        return [worker_from(row) for row in self._ask("all_workers")]

    def pauses(self) -> list[Pause]:
        """Return all pauses."""
        return [pause_from(row) for row in self._ask("all_pauses")]

    def queues(self, most: int) -> list[WaitingJobs]:
        """Return what waits, by org and analysis."""
        return [WaitingJobs(*row) for row in self._ask("all_queues", most=most)]

    def underway(self, most: int) -> list[StartedJob]:
        """Return what runs or waits for its next attempt."""
        return [StartedJob(*row) for row in self._ask("all_underway", most=most)]

    def ended(self, since: Instant, most: int) -> list[EndedJob]:
        """Return the jobs that ended since a time, the newest first."""
        return [EndedJob(*row) for row in self._ask("all_ended", since=since, most=most)]

    def duties(self) -> list[DutySuccess]:
        """Return when each maintenance duty last succeeded."""
        return [DutySuccess(*row) for row in self._ask("all_duties")]

    def kept_beyond(self, kind: RetiredKind, before: Instant, most: int) -> tuple[int, int]:
        """Of the youngest jobs that ended before a time, how many there are and how many still have it."""
        [(looked, kept)] = self._ask("kept_beyond", kind=kind, before=before, most=most)
        return looked, kept

    def deliveries(self, now: Instant) -> DeliveriesSeen:
        """Messages to the outside."""
        [row] = self._ask("delivery_state", now=now)
        return DeliveriesSeen(*row)

    def planned_analyses(self) -> list[PlannedAnalysis]:
        """Return the analyses with planned runs."""
        return [PlannedAnalysis(*row) for row in self._ask("planned_analyses")]

    def has_keys(self) -> bool:
        """Whether callers are asked for keys."""
        return bool(self._ask("key_changes", after=0))

    def blobs(self, most: int) -> list[BlobReference]:
        """Return what the jobs that ended last keep outside of the store."""
        return [BlobReference(*row) for row in self._ask("newest_blobs", most=most)]

    @abstractmethod
    def kept_payloads(self, jobs: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], ReferencedPayloads]:
        """Return the blobs that these jobs still reference."""

    def blob_folder(self) -> str | None:
        """Return the folder of its blobs; None where it never had any."""
        secret = self._secret(IDENTITY)
        return None if secret is None else store_name(secret)

    def blob_owner(self) -> OwnerMark | None:
        """Return the owner mark of this store; None where no server has started with its blobs yet."""
        secret = self._secret(INSTANCE)
        return None if secret is None else mark_of(secret, self._identity())

    def _secret(self, purpose: str) -> bytes | None:
        """Return a secret, where one was made."""
        found = [secret for (secret,) in self._ask("kept_secret", purpose=purpose) if secret is not None]
        return bytes(found[0]) if found else None

    @abstractmethod
    def interrupt(self) -> None:
        """End the question that is under way, from another thread."""

    @abstractmethod
    def close(self) -> None:
        """Close it."""


class FileInspector(Inspector):
    """Inspects a file."""

    @abstractmethod
    def file(self) -> FileFacts:
        """Return the file as such."""

    @abstractmethod
    def loose_rows(self) -> list[str]:
        """Return rows that belong to a row which is not there; raises `TimeoutError` where that takes too long."""


class ServerInspector(Inspector):
    """Inspects a database."""

    @abstractmethod
    def server(self) -> ServerFacts:
        """Return facts about the server."""

    @abstractmethod
    def session(self) -> SessionSeen:
        """Return a session of the program."""

    @abstractmethod
    def rights(self) -> RightsSeen:
        """Who may do what."""

    @abstractmethod
    def hot_tables(self) -> list[HotTable]:
        """Tables with many changes."""

    @abstractmethod
    def holders(self) -> list[Holder]:
        """Who keeps dead rows, the oldest first."""
