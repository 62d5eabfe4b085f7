"""Choosing which jobs start next: those that had started before, then the waiting ones, org by org in fair order.

Every look-up starts from an analysis that may still start and leaves out the orgs that may not: what a limit holds back
is neither walked over nor in the way of what is behind it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from langlauf.domain.attempt import ClaimRequest
from langlauf.domain.fairness import Queue, Turns, deal, share
from langlauf.domain.instant import Instant, after
from langlauf.store.rows import json_text
from langlauf.store.sqlite.transaction import Row, Transaction

#: Where the columns stand that every pick has in common.
ORG, JOB, ANALYSIS, PRIORITY, QUEUED_AT = 0, 1, 4, 11, 12
Lane = tuple[str, str]
Turn = tuple[int, int, int]
DueJob = tuple[Instant, str]


class Room:
    """The free slots: over all, of the analyses that have a limit of their own, and of orgs. It only shrinks."""

    def __init__(self, tx: Transaction, request: ClaimRequest) -> None:
        live = tx.one("live_leases", now=tx.now) or (0,)
        self.slots: int = min(request.slots, request.max_running - live[0])
        #: whether something that was looked at could not be taken, so that it is worth looking further
        self.cut = False
        self._known = request.analyses
        self._limited = dict(request.limits)
        self._org_limit = request.max_running_org
        self._orgs: Counter[str] = Counter()
        if self.slots > 0:
            self._count_running(tx)

    def _count_running(self, tx: Transaction) -> None:
        if self._limited:
            for analysis, running in tx.rows("running_by_analysis", now=tx.now):
                if analysis in self._limited:
                    self._limited[analysis] -= running
        if self._org_limit is not None:
            self._orgs.update(dict(tx.rows("running_by_org", now=tx.now)))

    @property
    def analyses(self) -> tuple[str, ...]:
        """What may still start."""
        return tuple(name for name in self._known if self.of(name) > 0)

    @property
    def full_orgs(self) -> str:
        """The orgs that may not start anything more, as JSON; at most as many as jobs run."""
        return json_text([org_id for org_id in self._orgs if self.of_org(org_id) <= 0])

    def of(self, analysis: str) -> int:
        """How many jobs of an analysis may still start."""
        return min(self.slots, self._limited.get(analysis, self.slots))

    def of_org(self, org_id: str) -> int:
        """How many jobs of an org may still start."""
        return self.slots if self._org_limit is None else min(self.slots, self._org_limit - self._orgs[org_id])

    def take(self, org_id: str, analysis: str) -> bool:
        """Gives a slot to a job, where there is one for it."""
        if self.of(analysis) <= 0 or self.of_org(org_id) <= 0:
            self.cut = True
            return False
        self._use(org_id, analysis)
        return True

    def keep(self, lanes: Iterable[Lane]) -> None:
        """Keeps slots for jobs that are about to go on, one for each."""
        for org_id, analysis in lanes:
            self._use(org_id, analysis)

    def _use(self, org_id: str, analysis: str) -> None:
        self.slots -= 1
        if analysis in self._limited:
            self._limited[analysis] -= 1
        if self._org_limit is not None:
            self._orgs[org_id] += 1


def pick(tx: Transaction, request: ClaimRequest) -> Iterator[list[Row]]:
    """The jobs to claim now, set by set; the caller claims a set before it asks for the next.

    Another set follows only where a limit cut the one before: in the end a slot is free only if nothing may take it.
    """
    room = Room(tx, request)
    yield from _sets(tx, room, _due_jobs)
    if room.slots > 0:
        # What was lost and is not swept yet goes on before others begin; a row that no sweep can take is not kept long.
        oldest = after(tx.now, -request.lease_seconds)
        room.keep((org_id, analysis) for org_id, analysis in tx.rows("lost_leases", now=tx.now, oldest=oldest))
    yield from _sets(tx, room, _waiting_jobs)


def _sets(tx: Transaction, room: Room, jobs_of: Callable[[Transaction, Room], list[Row]]) -> Iterator[list[Row]]:
    room.cut = room.slots > 0
    while room.cut and room.slots > 0:
        room.cut = False
        if picked := jobs_of(tx, room):
            yield picked
        if room.cut:
            tx.flush()


def _due_jobs(tx: Transaction, room: Room) -> list[Row]:
    """Jobs that had started and may go on, the longest due first."""
    found = _lanes_due(tx, room)
    due = sorted((*job, *lane) for lane, jobs in found.items() for job in jobs if job[0] <= tx.now)
    taken = [(org_id, job_id, analysis) for _, job_id, org_id, analysis in due if room.take(org_id, analysis)]
    for lane, count in Counter((org_id, analysis) for org_id, _, analysis in taken).items():
        # Of one lane the first ones are taken, so the next is the first of the rest.
        _correct_lane(tx, lane, found[lane][count:])
    return [row for org_id, job_id, _ in taken for row in tx.rows("due_job", org_id=org_id, job_id=job_id)]


def _lanes_due(tx: Transaction, room: Room) -> dict[Lane, list[DueJob]]:
    """The lanes that are due longest, with their next jobs; none of them while one has still to be corrected.

    A lane whose first job was canceled says too early when it is due. Others may have been left out behind it: nothing
    is taken before all say what is so.
    """
    found: dict[Lane, list[DueJob]] = {}
    for analysis in room.analyses:
        values = {"analysis": analysis, "now": tx.now, "full": room.full_orgs, "lanes": room.slots}
        for org_id, said in tx.rows("due_lanes", **values):
            lane = (org_id, analysis)
            rows = tx.rows("lane_due", org_id=org_id, analysis=analysis, most=room.slots + 1)
            found[lane] = [(due_at, job_id) for due_at, job_id in rows]
            if not rows or rows[0][0] > said:
                room.cut = True
                _correct_lane(tx, lane, found[lane])
    return {} if room.cut else found


def _correct_lane(tx: Transaction, lane: Lane, jobs: list[DueJob]) -> None:
    """Notes when a lane is due that has these jobs left."""
    due_at = jobs[0][0] if jobs else None
    tx.run("lane_due_at", org_id=lane[0], analysis=lane[1], due_at=due_at)


def _waiting_jobs(tx: Transaction, room: Room) -> list[Row]:
    """The next waiting jobs, dealt out in the order of turns."""
    lanes = _lanes_in_turn(tx, room)
    queues = [
        Queue(*turn, org_id, min(room.of_org(org_id), sum(min(waiting, room.of(name)) for name, waiting in mine)))
        for org_id, (turn, mine) in lanes.items()
    ]
    heads = {
        turns.queue: _heads(tx, room, turns, [name for name, _ in lanes[turns.queue.org_id][1]])
        for turns in share(queues, room.slots)
    }
    picked: list[Row] = []
    for queue, taken in deal(heads, lambda row: room.take(row[ORG], row[ANALYSIS])).items():
        if taken:
            tx.run("clock_advance", virtual_now=queue.virtual_start)
            tx.run("org_advance", org_id=queue.org_id, virtual_start=queue.virtual_start + len(taken))
        for row in taken:
            tx.waiting(queue.org_id, row[ANALYSIS], -1)
        picked += taken
    return picked


def _lanes_in_turn(tx: Transaction, room: Room) -> dict[str, tuple[Turn, list[tuple[str, int]]]]:
    """The turns of orgs, and by analysis how many of their jobs wait that may start.

    Of each analysis there are as many lanes as there are slots: the next orgs, one per slot, are there with all theirs.
    An org that was held back is not behind the virtual clock: it goes on from the present, as one that was idle does.
    """
    [virtual_now] = tx.one("virtual_now") or (0,)
    lanes: dict[str, tuple[Turn, list[tuple[str, int]]]] = {}
    for analysis in room.analyses:
        values = {"analysis": analysis, "full": room.full_orgs, "lanes": room.slots}
        for start, served, org_id, waiting in tx.rows("waiting_lanes", **values):
            turn = (max(start, virtual_now), start, served)
            lanes.setdefault(org_id, (turn, []))[1].append((analysis, waiting))
    return lanes


def _heads(tx: Transaction, room: Room, turns: Turns, analyses: list[str]) -> list[Row]:
    """The next jobs of one org over all its lanes: urgent ones first, then as they came."""
    heads: list[Row] = []
    for analysis in analyses:
        starts = min(turns.starts, room.of(analysis))
        heads += tx.rows("lane_heads", org_id=turns.queue.org_id, analysis=analysis, starts=starts)
    heads.sort(key=lambda row: (row[PRIORITY] != "expedite", row[QUEUED_AT], row[JOB]))
    return heads
