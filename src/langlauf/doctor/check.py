"""A check of `langlauf doctor`, what it looks at, its result, and how results name amounts."""

import shlex
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

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


class Needs(StrEnum):
    """What a check needs to run."""

    SETTINGS = "settings"
    SQLITE = "sqlite"
    POSTGRES = "postgres"
    STORE = "store"
    #: the schema must be that of this version
    ROWS = "rows"

    @property
    def shown(self) -> str:
        """The stores it is for, in the documents."""
        return {Needs.SQLITE: "SQLite", Needs.POSTGRES: "PostgreSQL"}.get(self, "both")


class CheckLevel(StrEnum):
    """The result of a check. `unknown` means that it could not run."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    UNKNOWN = "unknown"


class CheckResult(msgspec.Struct, frozen=True):
    """What one check found. `next_step` is a command, where there is something to do."""

    level: CheckLevel
    message: str
    next_step: str | None = None


class Finding(msgspec.Struct, frozen=True):
    """The same with the name of the check, as `--json` prints it."""

    name: str
    level: CheckLevel
    seen: str
    next: str | None


class Check(NamedTuple):
    """One check. `expectation` is its line in the documents."""

    name: str
    needs: Needs
    expectation: str
    run: Callable[[Any], CheckResult]


def ok(message: str) -> CheckResult:
    """Return the result of a check without a problem."""
    return CheckResult(CheckLevel.OK, message)


def warning(message: str, next_step: str) -> CheckResult:
    """Return a problem that can wait until the working day."""
    return CheckResult(CheckLevel.WARNING, message, next_step)


def error(message: str, next_step: str) -> CheckResult:
    """Return a problem to solve now."""
    return CheckResult(CheckLevel.ERROR, message, next_step)


def unknown(message: str, next_step: str | None = None) -> CheckResult:
    """Return the result of a check that could not run."""
    return CheckResult(CheckLevel.UNKNOWN, message, next_step)


def by_threshold(rule: HealthRule, value: float, message: str, next_step: str) -> CheckResult:
    """Return the result of comparing a value with the thresholds of a rule."""
    if value > rule.bad_threshold:
        return error(message, next_step)
    return warning(message, next_step) if value > rule.threshold else ok(message)


def join_first(names: list[str], most: int = 3) -> str:
    """Return the first few of a list, and how many more there are."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


_MINUTE, _HOUR, _DAY = 60.0, 3_600.0, 86_400.0
_MIN_UNITS = 2.0


def format_age(seconds: float) -> str:
    """Return a duration in the largest unit of which it has at least two: `90 s`, `3 min`."""
    for length, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= _MIN_UNITS * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def format_bytes(count: float) -> str:
    """Return a size in bytes, KiB, MiB or GiB."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1_024:  # noqa: PLR2004
            return f"{count:.0f} {unit}"
        count /= 1_024
    return f"{count:.1f} GiB"


# -- target ------------------------------------------------------------------------------------------------------------

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
