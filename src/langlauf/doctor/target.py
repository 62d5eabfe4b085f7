"""What the checks look at: a store, its settings and its blobs."""

import shlex
from collections.abc import Callable
from typing import TypeVar, cast

from langlauf.domain.errors import StoreUnavailable
from langlauf.domain.health import HealthRule, WorkerStatus
from langlauf.domain.instant import Instant
from langlauf.domain.read_models import StartedJob, WaitingJobs
from langlauf.domain.schedule import Pause
from langlauf.settings import Settings
from langlauf.store.blobs.owner import BlockingPayloads
from langlauf.store.tools.inspection import (
    ClockFacts,
    FileFacts,
    FileInspector,
    Inspector,
    RightsSeen,
    ServerFacts,
    ServerInspector,
    SessionSeen,
)
from langlauf.store.tools.location import PostgresLocation, StoreLocation

T = TypeVar("T")
#: At most so many queues and started jobs are read.
MAX_ROWS = 5_000


class DoctorTarget:
    """One store with its settings. What several checks need is read once."""

    def __init__(
        self,
        settings: Settings,
        place: StoreLocation,
        inspector: Inspector,
        *,
        named: bool,
        payloads: BlockingPayloads | None = None,
        deep: bool = False,
        version: str = "",
    ) -> None:
        self.settings = settings
        self.place = place
        self.inspector = inspector
        self.payloads = payloads
        self.deep = deep
        self.version = version
        #: whether a flag named the store: the next command then needs the flag too
        self._named = named
        self._attempted: set[str] = set()
        self._known: dict[str, object] = {}

    def command(self, *words: str) -> str:
        """Return a command to type next, for this store."""
        return self._on_store(shlex.join(["langlauf", *words]))

    def remedy(self, rule: HealthRule, **values: str) -> str:
        """Return the next step of a violated rule, for this store."""
        command = rule.remedy.format(**values)
        return self._on_store(command) if rule.remedy_on_store else command

    def _on_store(self, command: str) -> str:
        if not self._named:
            return command
        # A URL may hold a password: it is not shown.
        shown = '"$LANGLAUF_STORE"' if isinstance(self.place, PostgresLocation) else shlex.quote(self.place.path)
        return f"{command} --store {shown}"

    def once(self, name: str, read: Callable[[], T]) -> T:
        """Read something once. A read that failed is not repeated: it would fail again, after the same time."""
        if name not in self._known:
            if name in self._attempted:
                raise StoreUnavailable("not checked: an earlier check got no answer")
            self._attempted.add(name)
            self._known[name] = read()
        return cast("T", self._known[name])

    @property
    def clock(self) -> ClockFacts:
        """The store's time and the machine's."""
        return self.once("clock", self.inspector.clock)

    @property
    def server(self) -> ServerFacts:
        """Facts about the database server."""
        return self.once("server", cast("ServerInspector", self.inspector).server)

    @property
    def session(self) -> SessionSeen:
        """Facts about a session of the program on it."""
        return self.once("session", cast("ServerInspector", self.inspector).session)

    @property
    def rights(self) -> RightsSeen:
        """Roles and privileges in the database."""
        return self.once("rights", cast("ServerInspector", self.inspector).rights)

    @property
    def file(self) -> FileFacts:
        """Facts about the file of a SQLite store."""
        return self.once("file", cast("FileInspector", self.inspector).file)

    @property
    def now(self) -> Instant:
        """The store's time."""
        return self.clock.store

    @property
    def workers(self) -> list[WorkerStatus]:
        """Workers that run, or did so lately."""
        return self.once("workers", self.inspector.workers)

    @property
    def pauses(self) -> list[Pause]:
        """Pauses that hold."""
        return [one for one in self.once("pauses", self.inspector.pauses) if one.active(self.now)]

    @property
    def queues(self) -> list[WaitingJobs]:
        """Waiting jobs by org and analysis."""
        return self.once("queues", lambda: self.inspector.queues(MAX_ROWS))

    @property
    def underway(self) -> list[StartedJob]:
        """Jobs that run, or wait for their next attempt."""
        return self.once("underway", lambda: self.inspector.underway(MAX_ROWS))

    @property
    def waiting(self) -> int:
        """The number of jobs that wait for their first attempt."""
        return sum(queue.waiting for queue in self.queues)

    @property
    def busy(self) -> bool:
        """Whether any job is queued or running."""
        return bool(self.queues or self.underway)
