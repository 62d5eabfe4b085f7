"""Choosing which jobs start next: those that had started before, then the waiting ones, org by org in fair order."""

from collections import defaultdict
from collections.abc import Iterable

from langlauf.domain.attempt import ClaimRequest
from langlauf.domain.fairness import Queue, Turns, deal, share
from langlauf.domain.instant import after
from langlauf.store.sqlite.transaction import Row, Transaction, json_text

#: Where the columns stand that every pick has in common.
JOB, ANALYSIS, PRIORITY, QUEUED_AT = 1, 4, 11, 12


class Room:
    """The free slots: over all, and of the analyses that have a limit of their own. It only shrinks."""

    def __init__(self, tx: Transaction, request: ClaimRequest) -> None:
        live = tx.one("live_leases", now=tx.now) or (0,)
        self.slots: int = min(request.slots, request.max_running - live[0])
        self._known = request.analyses
        self._limited = dict(request.limits)
        if self._limited and self.slots > 0:
            for analysis, running in tx.rows("running_by_analysis", now=tx.now):
                if analysis in self._limited:
                    self._limited[analysis] -= running

    @property
    def analyses(self) -> tuple[str, ...]:
        """What may still start."""
        return tuple(name for name in self._known if self.of(name) > 0)

    def of(self, analysis: str) -> int:
        """How many jobs of an analysis may still start."""
        return min(self.slots, self._limited.get(analysis, self.slots))

    def take(self, row: Row) -> bool:
        """Gives a slot to a job, where there is one for it."""
        analysis = row[ANALYSIS]
        if self.of(analysis) <= 0:
            return False
        self._use(analysis)
        return True

    def keep(self, analyses: Iterable[str]) -> None:
        """Keeps slots for jobs that are about to go on, one for each."""
        for analysis in analyses:
            self._use(analysis)

    def _use(self, analysis: str) -> None:
        self.slots -= 1
        if analysis in self._limited:
            self._limited[analysis] -= 1


def pick(tx: Transaction, request: ClaimRequest) -> list[Row]:
    """The jobs to claim now, as many as there is room for."""
    room = Room(tx, request)
    if room.slots <= 0:
        return []
    due = tx.rows("due_jobs", now=tx.now, analyses=json_text(room.analyses), room=room.slots)
    picked = [row for row in due if room.take(row)]
    # What was lost and is not swept yet goes on before others begin; a row that no sweep can take holds up nobody long.
    room.keep(row[0] for row in tx.rows("lost_leases", now=tx.now, oldest=after(tx.now, -request.lease_seconds)))
    if room.slots > 0:
        picked += _waiting_jobs(tx, room)
    return picked


def _waiting_jobs(tx: Transaction, room: Room) -> list[Row]:
    analyses = room.analyses
    # So many lanes hold at least as many orgs as there are slots, or all that wait.
    most = room.slots * len(analyses)
    lanes: defaultdict[tuple[int, str], list[tuple[str, int]]] = defaultdict(list)
    for start, org_id, analysis, waiting in tx.rows("waiting_lanes", analyses=json_text(analyses), lanes=most):
        lanes[start, org_id].append((analysis, waiting))
    queues = [
        Queue(start, org_id, sum(min(waiting, room.of(analysis)) for analysis, waiting in found))
        for (start, org_id), found in lanes.items()
    ]
    heads = {
        turns.queue: _heads(tx, room, turns, [name for name, _ in lanes[turns.queue.virtual_start, turns.queue.org_id]])
        for turns in share(queues, room.slots)
    }
    picked: list[Row] = []
    for queue, taken in deal(heads, room.take).items():
        tx.run("org_advance", org_id=queue.org_id, virtual_start=queue.virtual_start + len(taken))
        tx.run("clock_advance", virtual_now=queue.virtual_start)
        for row in taken:
            tx.waiting(queue.org_id, row[ANALYSIS], -1)
        picked += taken
    return picked


def _heads(tx: Transaction, room: Room, turns: Turns, analyses: list[str]) -> list[Row]:
    """The next jobs of one org over all its lanes: urgent ones first, then as they came."""
    heads: list[Row] = []
    for analysis in analyses:
        starts = min(turns.starts, room.of(analysis))
        heads += tx.rows("lane_heads", org_id=turns.queue.org_id, analysis=analysis, starts=starts)
    heads.sort(key=lambda row: (row[PRIORITY] != "expedite", row[QUEUED_AT], row[JOB]))
    return heads
