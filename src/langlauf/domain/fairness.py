"""Fair sharing between orgs: which jobs start next, and the forecast of when a waiting job starts."""

import heapq
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import TypeVar

import msgspec

from langlauf.domain.eta import Lane, QueueLoad, RunningLimits, RunProgress, remaining_seconds
from langlauf.domain.instant import Instant, seconds_between

Item = TypeVar("Item")


def take_in_turns(
    items: Sequence[Item], holder_of: Callable[[Item], str], *, most: int, most_of_one: int
) -> tuple[list[Item], list[Item]]:
    """Return the items that go first and those that wait, both in their order.

    If several holders have items, each gets at most `most_of_one`: the first of each, then the second of each, and so
    on. Items without a holder (an empty name) are not held back.
    """
    if len(items) <= min(most, most_of_one):
        return list(items), []
    holders = [holder_of(item) for item in items]
    several = len(set(holders) - {""}) > 1
    if len(items) <= (most_of_one if several else most):
        return list(items), []
    seen: Counter[str] = Counter()
    ranks: list[tuple[int, int]] = []
    for index, holder in enumerate(holders):
        rank = seen[holder]
        seen[holder] += bool(holder)
        if rank < most_of_one or not several:
            ranks.append((rank, index))
    first = {index for _, index in heapq.nsmallest(most, ranks)}
    taken = [item for index, item in enumerate(items) if index in first]
    return taken, [item for index, item in enumerate(items) if index not in first]


class OrgQueue(msgspec.Struct, frozen=True, order=True):
    """The waiting jobs of one org. The lowest virtual start has the next turn, then the org that waited longest."""

    virtual_start: int
    #: its virtual start before it was brought up to the present
    stood_at: int
    #: counts over all orgs: the lower, the longer ago this one was served
    served: int
    #: the number of the org
    org: int
    waiting: int


class OrgStarts(msgspec.Struct, frozen=True):
    """How many jobs of an org may start now."""

    queue: OrgQueue
    starts: int


def share_slots(queues: list[OrgQueue], room: int) -> list[OrgStarts]:
    """Distribute the free slots one by one, each to the org with the fewest."""
    ordered = sorted(queues)
    starts = [0] * len(ordered)
    heap = [(queue.virtual_start, index) for index, queue in enumerate(ordered)]
    while room > 0 and heap:
        turn, index = heap[0]
        starts[index] += 1
        room -= 1
        if starts[index] < ordered[index].waiting:
            heapq.heapreplace(heap, (turn + 1, index))
        else:
            heapq.heappop(heap)
    return [OrgStarts(queue, count) for queue, count in zip(ordered, starts, strict=True) if count]


def deal_jobs(heads: Mapping[OrgQueue, Sequence[Item]], take: Callable[[Item], bool]) -> dict[OrgQueue, list[Item]]:
    """Hand out jobs one by one in the order of turns; a job that cannot be taken costs its org no turn."""
    ordered = sorted(heads)
    taken: list[list[Item]] = [[] for _ in ordered]
    left = [iter(heads[queue]) for queue in ordered]
    heap = [(queue.virtual_start, index) for index, queue in enumerate(ordered)]
    while heap:
        turn, index = heap[0]
        for item in left[index]:
            if take(item):
                taken[index].append(item)
                heapq.heapreplace(heap, (turn + 1, index))
                break
        else:
            heapq.heappop(heap)
    return dict(zip(ordered, taken, strict=True))


class WaitForecast:
    """Forecast of when slots become free and which jobs take them, from one `QueueLoad`.

    An analysis with a limit has a pool of slots of its own; all others share the rest.
    """

    def __init__(self, load: QueueLoad, limits: RunningLimits) -> None:
        self._load = load
        self._limits = limits
        known = list(load.paces.values())
        self._usual = sum(known) / len(known) if known else 0.0
        lanes: defaultdict[str | None, list[Lane]] = defaultdict(list)
        for lane in load.lanes:
            lanes[self._pool_name(lane.analysis)].append(lane)
        ends: defaultdict[str | None, list[float]] = defaultdict(list)
        self._ends_of: defaultdict[str, list[float]] = defaultdict(list)
        for run in load.runs:
            left = self._left(run)
            ends[self._pool_name(run.analysis)].append(left)
            self._ends_of[run.org_id].append(left)
        slots: dict[str | None, int] = {name: min(limits.slots, limit) for name, limit in limits.per_analysis.items()}
        busy = {name: len(ends[name]) + sum(lane.waiting for lane in lanes[name]) for name in slots}
        slots[None] = max(1, limits.slots - sum(min(limit, busy[name]) for name, limit in slots.items()))
        self._pools = {
            name: SlotPool(lanes[name], SlotTimes(ends[name], limit), load.virtual_now, self._pace)
            for name, limit in slots.items()
        }

    def _pool_name(self, analysis: str) -> str | None:
        return analysis if analysis in self._limits.per_analysis else None

    def _pace(self, analysis: str) -> float:
        return self._load.paces.get(analysis, self._usual)

    def _left(self, run: RunProgress) -> float:
        return remaining_seconds(run, self._load.seen_at, self._pace(run.analysis)) or 0.0

    def wait(self, org_id: str, analysis: str, before: Mapping[str, float], now: Instant) -> float:
        """Return the seconds until a job starts that has so many of its org before it, by analysis."""
        return self._from(now, self._start_in(self._pool(analysis), org_id, before))

    def next_start(self, analysis: str, now: Instant) -> float | None:
        """Return the seconds until the next job of an analysis starts, or None if nothing runs."""
        return self._from(now, self._pool(analysis).slots.free_in) if self._informed else None

    def next_start_of_any(self, analysis: str, now: Instant) -> float | None:
        """Return the seconds until any job starts; one of that analysis if no other is known to wait."""
        waiting = [pool for pool in self._pools.values() if pool.orgs] or [self._pool(analysis)]
        return self._from(now, min(pool.slots.free_in for pool in waiting)) if self._informed else None

    def next_start_of_org(self, org_id: str, analysis: str, now: Instant) -> float | None:
        """Return the seconds until the next job of an org starts; one of that analysis if no other is known to wait."""
        waiting = [pool for pool in self._pools.values() if org_id in pool.orgs] or [self._pool(analysis)]
        return self._from(now, min(self._start_in(pool, org_id, {}) for pool in waiting)) if self._informed else None

    def _from(self, now: Instant, seconds: float) -> float:
        """Subtract the time since the load was read, which may be after the caller looked at the clock."""
        return max(0.0, seconds - max(0.0, seconds_between(self._load.seen_at, now)))

    @property
    def _informed(self) -> bool:
        return bool(self._load.runs and self._load.paces)

    def _start_in(self, pool: "SlotPool", org_id: str, before: Mapping[str, float]) -> float:
        mine = {name: count for name, count in before.items() if self._pool(name) is pool}
        start_in = pool.start_in(org_id, sum(mine.values()), self._work(mine))
        if self._limits.per_org is None:
            return start_in
        own = SlotTimes(self._ends_of.get(org_id, ()), self._limits.per_org)
        limited = own.start_in(sum(before.values()), self._work(before))
        return max(start_in, limited) if self._contended else limited

    def _work(self, jobs: Mapping[str, float]) -> float:
        return sum(count * self._pace(name) for name, count in jobs.items())

    @cached_property
    def _contended(self) -> bool:
        """Whether orgs compete for slots; otherwise each runs up to its own limit."""
        orgs = self._ends_of.keys() | {org_id for pool in self._pools.values() for org_id in pool.orgs}
        return (self._limits.per_org or 0) * len(orgs) > self._limits.slots

    def _pool(self, analysis: str) -> "SlotPool":
        return self._pools[self._pool_name(analysis)]


class SlotPool:
    """Slots, and the orgs that wait for them in the order of their turns."""

    def __init__(
        self, lanes: Iterable[Lane], slots: "SlotTimes", virtual_now: int, pace: Callable[[str], float]
    ) -> None:
        self.slots = slots
        self._virtual_now = virtual_now
        counts: dict[str, tuple[int, int, float]] = {}
        for lane in lanes:
            _, jobs, work = counts.get(lane.org_id, (0, 0, 0.0))
            counts[lane.org_id] = (lane.virtual_start, jobs + lane.waiting, work + lane.waiting * pace(lane.analysis))
        self.orgs = {org_id: (start, jobs, work / jobs) for org_id, (start, jobs, work) in counts.items()}
        # Of orgs with the same turn, half go first on average.
        self._jobs = Ramps((start - 0.5, jobs, 1.0) for start, jobs, _ in self.orgs.values())
        self._work = Ramps((start - 0.5, jobs, mean) for start, jobs, mean in self.orgs.values())

    def start_in(self, org_id: str, before: float, work: float) -> float:
        """Return the seconds until an org starts a job that has so many of its own before it, with so much work."""
        start, jobs, mean = self.orgs.get(org_id, (self._virtual_now, 0, 0.0))
        turn = start + before
        own = min(before + 0.5, jobs)
        others, their_work = self._jobs.at(turn) - own, self._work.at(turn) - own * mean
        return self.slots.start_in(before + max(0.0, others), work + max(0.0, their_work))


class SlotTimes:
    """Slots, and the seconds until each becomes free."""

    def __init__(self, ends: Sequence[float], count: int) -> None:
        self._count = count
        self._idle = max(0, count - len(ends))
        # If more jobs run than the limit allows, some must end before a slot becomes free.
        self._ends = sorted(ends)[max(0, len(ends) - count) :]

    @property
    def free_in(self) -> float:
        """Return the seconds until the next slot becomes free."""
        return 0.0 if self._idle else self._ends[0]

    def start_in(self, before: float, work: float) -> float:
        """Return the seconds until a job starts that has so many before it: full rounds of the mean duration."""
        rounds, place = divmod(int(before), self._count)
        free_in = 0.0 if place < self._idle else self._ends[place - self._idle]
        return free_in + rounds * work / max(before, 1)


class Ramps:
    """A sum of ramps: each is 0 up to its start, rises by its slope over its length, then stays constant.

    Its value is computed without iterating over the ramps.
    """

    def __init__(self, ramps: Iterable[tuple[float, float, float]]) -> None:
        rising: defaultdict[float, float] = defaultdict(float)
        level: defaultdict[float, float] = defaultdict(float)
        for start, length, slope in ramps:
            rising[start] += slope
            level[start + length] += slope
        self._rising, self._level = _Hinges(rising), _Hinges(level)

    def at(self, place: float) -> float:
        """Return the sum at a point."""
        return self._rising.at(place) - self._level.at(place)


class _Hinges:
    """A sum of half-lines: each starts at a point and rises from there by its slope."""

    def __init__(self, slopes: Mapping[float, float]) -> None:
        ordered = sorted(slopes.items())
        self._places = [place for place, _ in ordered]
        self._slopes = list(accumulate((slope for _, slope in ordered), initial=0.0))
        self._offsets = list(accumulate((place * slope for place, slope in ordered), initial=0.0))

    def at(self, place: float) -> float:
        passed = bisect_left(self._places, place)
        return place * self._slopes[passed] - self._offsets[passed]
