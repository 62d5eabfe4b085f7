"""The choice of the jobs that start next, org by org in fair order.

A job that was given back (lost with its worker, or released by it) continues first, and costs its org no turn. Others
cost one: due retries go before the waiting jobs of their own org, and of no other. Every look-up
starts from an analysis with free slots and leaves out orgs without: jobs that a limit or a pause holds back are
neither scanned nor in the way of others.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from langlauf.domain.attempt import ClaimRequest
from langlauf.domain.fairness import OrgQueue, deal_jobs, share_slots
from langlauf.domain.instant import Instant, after
from langlauf.store.sql import json_text
from langlauf.store.sqlite.transaction import Transaction

#: An org and an analysis, by their numbers.
Lane = tuple[int, int]
#: The virtual start of an org brought up to the present, the stored one, and when it was served.
Turn = tuple[int, int, int]
#: Lanes with due jobs that one claim reads: among more, the longest due come first.
_MOST_DUE_LANES = 1_000


class Startable(NamedTuple):
    """A job that may start."""

    job: int
    org: int
    analysis: int


class DueJob(NamedTuple):
    """A job that had started and waits for its next attempt."""

    at: Instant
    job: int
    given_back: bool


class FreeSlots:
    """Free slots: in total, of analyses with a limit of their own, and of orgs. They only shrink."""

    def __init__(self, tx: Transaction, request: ClaimRequest) -> None:
        paused = tx.paused_lanes()
        stopped = {analysis for org, analysis in paused if not org}
        known = {tx.analysis(name): name for name in request.analyses}
        self._known = [number for number in known if number >= 0 and number not in stopped]
        #: the orgs for which an analysis is paused
        self._paused: defaultdict[int, set[int]] = defaultdict(set)
        for org, analysis in paused:
            self._paused[analysis].add(org)
        self._limited = {number: limit for name, limit in request.limits.items() if (number := tx.analysis(name)) >= 0}
        self._org_limit = request.max_running_org
        self._orgs: Counter[int] = Counter()
        #: whether a candidate did not fit, so that another search is worthwhile
        self.cut = False
        #: whether a lane may have due jobs: mostly none has, and that is read once
        self.any_due = True
        running = tx.running_of_all()
        if self._limited or self._org_limit is not None or running + request.slots > request.max_running:
            running = self._count_live(tx)
        self.slots: int = min(request.slots, request.max_running - running)

    def _count_live(self, tx: Transaction) -> int:
        """Count the leases that are alive: only those count against a limit."""
        total = 0
        for org, analysis, running in tx.rows("live_leases", now=tx.now):
            total += running
            self._orgs[org] += running
            if analysis in self._limited:
                self._limited[analysis] -= running
        return total

    @property
    def analyses(self) -> list[int]:
        """The analyses that may still start jobs."""
        return [number for number in self._known if self.of(number) > 0]

    def excluded_orgs(self, analysis: int) -> str:
        """Return as JSON the orgs of which no job of an analysis may start: those without free slots or paused."""
        if self._org_limit is None and not self._paused:
            return "[]"
        full = {org for org in self._orgs if self._org_limit is not None and self.of_org(org) <= 0}
        return json_text(sorted(full | self._paused.get(analysis, set())))

    def of(self, analysis: int) -> int:
        """Return how many jobs of an analysis may still start."""
        return min(self.slots, self._limited.get(analysis, self.slots))

    def of_org(self, org: int) -> int:
        """Return how many jobs of an org may still start."""
        return self.slots if self._org_limit is None else min(self.slots, self._org_limit - self._orgs[org])

    def take(self, job: Startable) -> bool:
        """Take a slot for a job; False where there is none."""
        limited = job.analysis in self._limited or self._org_limit is not None
        if self.slots <= 0 or (limited and (self.of(job.analysis) <= 0 or self.of_org(job.org) <= 0)):
            self.cut = True
            return False
        self._use(job.org, job.analysis)
        return True

    def keep(self, lanes: Iterable[Lane]) -> None:
        """Reserve slots for jobs that are about to continue, one for each."""
        for org, analysis in lanes:
            if not self._paused or not self._paused.get(analysis, set()) & {0, org}:
                self._use(org, analysis)

    def _use(self, org: int, analysis: int) -> None:
        self.slots -= 1
        if analysis in self._limited:
            self._limited[analysis] -= 1
        if self._org_limit is not None:
            self._orgs[org] += 1


def choose_jobs(tx: Transaction, request: ClaimRequest) -> Iterator[list[int]]:
    """Yield the jobs to claim now, set by set; the caller claims a set before it asks for the next.

    Another set follows only where a limit cut the one before: at the end a slot is free only if no job may use it.
    """
    free = FreeSlots(tx, request)
    yield from _sets(tx, free, _given_back)
    if free.slots > 0:
        # Lost jobs that are not swept yet continue before others start; not for long where no sweep can take them.
        oldest = after(tx.now, -request.lease_seconds)
        free.keep((org, analysis) for org, analysis in tx.rows("lost_leases", now=tx.now, oldest=oldest))
    yield from _sets(tx, free, _next_turns)


def _sets(
    tx: Transaction, free: FreeSlots, jobs_of: Callable[[Transaction, FreeSlots], list[int]]
) -> Iterator[list[int]]:
    free.cut = free.slots > 0
    while free.cut and free.slots > 0:
        free.cut = False
        if picked := jobs_of(tx, free):
            yield picked
        if free.cut:
            tx.flush()


class DueLanes:
    """The lanes with jobs that may continue, longest due first, and those jobs."""

    def __init__(self, tx: Transaction, free: FreeSlots) -> None:
        self._tx = tx
        self.turns: dict[int, tuple[int, int]] = {}
        self._jobs: dict[Lane, list[DueJob]] = {}
        for analysis in free.analyses if free.any_due else ():
            values = {
                "analysis": analysis,
                "now": tx.now,
                "excluded": free.excluded_orgs(analysis),
                "lanes": _MOST_DUE_LANES,
            }
            for org, said, start, served in tx.rows("due_lanes", **values):
                self._look(free, (org, analysis), said)
                self.turns[org] = (start, served)
        free.any_due = bool(self._jobs)

    def _look(self, free: FreeSlots, lane: Lane, said: Instant) -> None:
        rows = self._tx.rows("lane_due", org=lane[0], analysis=lane[1], most=free.slots + 1)
        self._jobs[lane] = jobs = [DueJob(at, job, bool(given_back)) for job, at, given_back in rows]
        if not jobs or jobs[0].at > said:
            # A lane whose first job was canceled is due too early; other lanes may have been left out for it.
            free.cut = True
            self._correct(lane, jobs)

    def jobs(self, *, given_back: bool) -> list[tuple[DueJob, Startable]]:
        """Return the jobs that may continue now, longest due first."""
        found = [
            (due, Startable(due.job, *lane))
            for lane, jobs in self._jobs.items()
            for due in jobs
            if due.at <= self._tx.now and due.given_back is given_back
        ]
        return sorted(found)

    def leave(self, taken: Iterable[int]) -> None:
        """Set when the first remaining job of each lane is due."""
        gone = set(taken)
        for lane, jobs in self._jobs.items():
            left = [due for due in jobs if due.job not in gone]
            if len(left) < len(jobs):
                self._correct(lane, left)

    def _correct(self, lane: Lane, jobs: list[DueJob]) -> None:
        due_at = jobs[0].at if jobs else None
        self._tx.run("lane_due_at", org=lane[0], analysis=lane[1], due_at=due_at)


def _given_back(tx: Transaction, free: FreeSlots) -> list[int]:
    lanes = DueLanes(tx, free)
    taken = [job.job for _, job in lanes.jobs(given_back=True) if free.take(job)]
    lanes.leave(taken)
    return taken


def _next_turns(tx: Transaction, free: FreeSlots) -> list[int]:
    """Return the next jobs in the order of turns: of each org its due retries, then its waiting jobs.

    An org that was held back by a limit continues from the present virtual time, like an idle one.
    """
    [virtual_now] = tx.one("virtual_now") or (0,)
    due = DueLanes(tx, free)
    retries: defaultdict[int, list[Startable]] = defaultdict(list)
    for _, job in due.jobs(given_back=False):
        retries[job.org].append(job)
    turns: dict[int, Turn] = {org: (max(due.turns[org][0], virtual_now), *due.turns[org]) for org in retries}
    waiting = _waiting_lanes(tx, free, turns, virtual_now)
    queues = [
        OrgQueue(*turn, org, min(free.of_org(org), len(retries[org]) + sum(count for _, count in waiting[org])))
        for org, turn in turns.items()
    ]
    heads = {
        one.queue: retries[one.queue.org] + _heads(tx, free, one.queue.org, one.starts, waiting[one.queue.org])
        for one in share_slots(queues, free.slots)
    }
    dealt = {queue: taken for queue, taken in deal_jobs(heads, free.take).items() if taken}
    _pay(tx, dealt)
    for queue, taken in dealt.items():
        waited = {head.job for head in heads[queue][len(retries[queue.org]) :]}
        for analysis, starts in Counter(job.analysis for job in taken if job.job in waited).items():
            tx.waiting(queue.org, analysis, -starts)
    picked = [job.job for taken in dealt.values() for job in taken]
    due.leave(picked)
    return picked


def _pay(tx: Transaction, dealt: dict[OrgQueue, list[Startable]]) -> None:
    """Charge orgs for their turns, in the order in which they were served."""
    if dealt:
        tx.run("clock_advance", virtual_now=max(queue.virtual_start for queue in dealt), turns=len(dealt))
        tx.run_many(
            "org_advance",
            [
                {"org": queue.org, "virtual_start": queue.virtual_start + len(taken), "behind": behind}
                for behind, (queue, taken) in enumerate(reversed(dealt.items()))
            ],
        )


def _waiting_lanes(
    tx: Transaction, free: FreeSlots, turns: dict[int, Turn], virtual_now: int
) -> defaultdict[int, list[tuple[int, int]]]:
    """Return by org how many startable jobs of which analyses wait, and add the turns of these orgs.

    Of each analysis as many lanes are read as there are slots, which covers the next org of each slot.
    """
    found: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for analysis in free.analyses:
        values = {"analysis": analysis, "excluded": free.excluded_orgs(analysis), "lanes": free.slots}
        for org, waiting, start, served in tx.rows("waiting_lanes", **values):
            turns[org] = (max(start, virtual_now), start, served)
            found[org].append((analysis, min(waiting, free.of(analysis))))
    return found


def _heads(tx: Transaction, free: FreeSlots, org: int, starts: int, lanes: list[tuple[int, int]]) -> list[Startable]:
    """Return the next waiting jobs of one org over all its lanes: urgent ones first, then as they came."""
    heads = [
        (not expedite, queued_at, job, analysis)
        for analysis, _ in lanes
        for job, expedite, queued_at in tx.rows(
            "lane_heads", org=org, analysis=analysis, starts=min(starts, free.of(analysis)), now=tx.now
        )
    ]
    return [Startable(job, org, analysis) for _, _, job, analysis in sorted(heads)]
