"""What the checks look at: a store, the settings, and the place of its blobs."""

import shlex
from collections.abc import Callable
from typing import TypeVar, cast

from langlauf.domain.errors import StoreUnavailable
from langlauf.domain.health import WorkerStatus
from langlauf.domain.instant import Instant
from langlauf.domain.overview import StartedJob, WaitingJobs
from langlauf.settings import Settings
from langlauf.store.tools.blocking_payloads import BlockingPayloads
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
#: Of queues and of jobs under way, no more are looked at.
MOST = 5_000


class Patient:
    """One store with its settings. What several checks need is asked once."""

    def __init__(
        self,
        settings: Settings,
        place: StoreLocation,
        examiner: Inspector,
        *,
        named: bool,
        payloads: BlockingPayloads | None = None,
        deep: bool = False,
        version: str = "",
    ) -> None:
        self.settings = settings
        self.place = place
        self.examiner = examiner
        self.payloads = payloads
        self.deep = deep
        self.version = version
        #: whether a flag named the store: the next command then needs it too
        self._named = named
        self._asked: set[str] = set()
        self._answers: dict[str, object] = {}

    def command(self, *words: str) -> str:
        """A command to type next, for this store."""
        if not self._named:
            return shlex.join(["langlauf", *words])
        # A URL may hold a password: it is not shown.
        shown = '"$LANGLAUF_STORE"' if isinstance(self.place, PostgresLocation) else shlex.quote(self.place.path)
        return f"{shlex.join(['langlauf', *words])} --store {shown}"

    def once(self, name: str, ask: Callable[[], T]) -> T:
        """What is asked once and then known. A question that got no answer is not asked again: it would not get one."""
        if name not in self._answers:
            if name in self._asked:
                raise StoreUnavailable("not looked at: there was no answer before")
            self._asked.add(name)
            self._answers[name] = ask()
        return cast("T", self._answers[name])

    @property
    def clock(self) -> ClockFacts:
        """The store's time and the machine's."""
        return self.once("clock", self.examiner.clock)

    @property
    def server(self) -> ServerFacts:
        """The server of a database."""
        return self.once("server", cast("ServerInspector", self.examiner).server)

    @property
    def session(self) -> SessionSeen:
        """A session of the program on it."""
        return self.once("session", cast("ServerInspector", self.examiner).session)

    @property
    def rights(self) -> RightsSeen:
        """Who may do what in it."""
        return self.once("rights", cast("ServerInspector", self.examiner).rights)

    @property
    def file(self) -> FileFacts:
        """The file of a store."""
        return self.once("file", cast("FileInspector", self.examiner).file)

    @property
    def now(self) -> Instant:
        """The store's time."""
        return self.clock.store

    @property
    def workers(self) -> list[WorkerStatus]:
        """Who works, or did so lately."""
        return self.once("workers", self.examiner.workers)

    @property
    def queues(self) -> list[WaitingJobs]:
        """What waits."""
        return self.once("queues", lambda: self.examiner.queues(MOST))

    @property
    def underway(self) -> list[StartedJob]:
        """What runs, or waits for its next attempt."""
        return self.once("underway", lambda: self.examiner.underway(MOST))

    @property
    def waiting(self) -> int:
        """How many jobs wait for their first attempt."""
        return sum(queue.waiting for queue in self.queues)

    @property
    def busy(self) -> bool:
        """Whether there is work that has not ended."""
        return bool(self.queues or self.underway)
