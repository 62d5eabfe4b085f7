"""What the checks look at: a store, the settings, and the place of its blobs."""

import shlex
from functools import cached_property

from langlauf.domain.instant import Instant
from langlauf.domain.overview import Queue, Underway
from langlauf.domain.workers import WorkerSeen
from langlauf.settings import Settings
from langlauf.store.blobs.blocking import BlockingPayloads
from langlauf.store.examining import ClockSeen, Examiner
from langlauf.store.location import Place, PostgresPlace

#: Of queues and of jobs under way, no more are looked at.
MOST = 5_000


class Patient:
    """One store with its settings. What several checks need is asked once."""

    def __init__(
        self,
        settings: Settings,
        place: Place,
        examiner: Examiner,
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

    def command(self, *words: str) -> str:
        """A command to type next, for this store."""
        if not self._named:
            return shlex.join(["langlauf", *words])
        # A URL may hold a password: it is not shown.
        shown = '"$LANGLAUF_STORE"' if isinstance(self.place, PostgresPlace) else shlex.quote(self.place.path)
        return f"{shlex.join(['langlauf', *words])} --store {shown}"

    @cached_property
    def clock(self) -> ClockSeen:
        """The store's time and the machine's."""
        return self.examiner.clock()

    @property
    def now(self) -> Instant:
        """The store's time."""
        return self.clock.store

    @cached_property
    def workers(self) -> list[WorkerSeen]:
        """Who works, or did so lately."""
        return self.examiner.workers()

    @cached_property
    def queues(self) -> list[Queue]:
        """What waits."""
        return self.examiner.queues(MOST)

    @cached_property
    def underway(self) -> list[Underway]:
        """What runs, or waits for its next attempt."""
        return self.examiner.underway(MOST)

    @property
    def waiting(self) -> int:
        """How many jobs wait for their first attempt."""
        return sum(queue.waiting for queue in self.queues)

    @property
    def busy(self) -> bool:
        """Whether there is work that has not ended."""
        return bool(self.queues or self.underway)
