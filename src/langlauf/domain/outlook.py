"""How long a waiting job waits: what starts before it under fair sharing, and when slots become free for it."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate

from langlauf.domain.eta import Run, remaining_seconds
from langlauf.domain.instant import Instant, seconds_between
from langlauf.domain.waiting import Lane, Limits, Load


class Outlook:
    """When slots become free and who takes them, from one look at all that waits and runs.

    An analysis with a limit of its own has a pool of slots to itself; all others share the rest.
    """

    def __init__(self, load: Load, limits: Limits) -> None:
        self._load = load
        self._limits = limits
        known = list(load.paces.values())
        self._usual = sum(known) / len(known) if known else 0.0
        self._ends = [(run, self._left(run)) for run in load.runs]
        self._ends_of: defaultdict[str, list[float]] = defaultdict(list)
        for run, left in self._ends:
            self._ends_of[run.org_id].append(left)
        self._waiting_of: defaultdict[str, set[str]] = defaultdict(set)
        for lane in load.lanes:
            self._waiting_of[lane.org_id].add(lane.analysis)
        self._pools: dict[str | None, Pool] = {}

    def _pace(self, analysis: str) -> float:
        return self._load.paces.get(analysis, self._usual)

    def _left(self, run: Run) -> float:
        return remaining_seconds(run, self._load.seen_at, self._pace(run.analysis)) or 0.0

    def wait(self, org_id: str, analysis: str, before: Mapping[str, float], now: Instant) -> float:
        """Seconds until a job starts that has so many of its org before it, by analysis."""
        pool = self._pool(analysis)
        mine = {name: count for name, count in before.items() if self._pool(name) is pool}
        wait = pool.start_in(org_id, sum(mine.values()), self._work(mine))
        if self._limits.per_org is not None:
            own = _free_in(self._ends_of.get(org_id, ()), self._limits.per_org)
            limited = _after(own, sum(before.values()), self._work(before))
            wait = max(wait, limited) if self._contended else limited
        return max(0.0, wait - seconds_between(self._load.seen_at, now))

    def next_start(self, analysis: str, now: Instant) -> float | None:
        """Seconds until the next job of an analysis starts; None where nothing runs that could end."""
        return self._soonest({analysis}, now)

    def next_start_of_any(self, analysis: str, now: Instant) -> float | None:
        """Seconds until the next job starts, whatever it is; one of that analysis where no other is known to wait."""
        return self._soonest(self._waiting or {analysis}, now)

    def next_start_of_org(self, org_id: str, analysis: str, now: Instant) -> float | None:
        """Seconds until the next job of an org starts; one of that analysis where no other is known to wait."""
        if not self._informed:
            return None
        return min(self.wait(org_id, name, {}, now) for name in self._waiting_of.get(org_id, {analysis}))

    def _soonest(self, analyses: set[str], now: Instant) -> float | None:
        if not self._informed:
            return None
        free_in = min(self._pool(name).free_in for name in analyses)
        return max(0.0, free_in - seconds_between(self._load.seen_at, now))

    @cached_property
    def _waiting(self) -> set[str]:
        return {lane.analysis for lane in self._load.lanes}

    @property
    def _informed(self) -> bool:
        return bool(self._load.runs and self._load.paces)

    def _work(self, jobs: Mapping[str, float]) -> float:
        return sum(count * self._pace(name) for name, count in jobs.items())

    @cached_property
    def _contended(self) -> bool:
        """Whether orgs stand in each other's way: else each of them runs up to its own limit."""
        orgs = self._waiting_of.keys() | self._ends_of.keys()
        return (self._limits.per_org or 0) * len(orgs) > self._limits.slots

    def _pool(self, analysis: str) -> "Pool":
        name = analysis if analysis in self._limits.per_analysis else None
        if name not in self._pools:
            self._pools[name] = self._make_pool(name)
        return self._pools[name]

    def _make_pool(self, name: str | None) -> "Pool":
        limits = self._limits
        taken = 0 if name else sum(min(limit, self._busy(one)) for one, limit in limits.per_analysis.items())
        slots = min(limits.slots, limits.per_analysis[name]) if name else max(1, limits.slots - taken)

        def belongs(analysis: str) -> bool:
            return analysis == name if name else analysis not in limits.per_analysis

        lanes = [(lane, self._pace(lane.analysis)) for lane in self._load.lanes if belongs(lane.analysis)]
        ends = [left for run, left in self._ends if belongs(run.analysis)]
        return Pool(lanes, _free_in(ends, slots), self._load.virtual_now)

    def _busy(self, analysis: str) -> int:
        """How many slots an analysis could use now."""
        waiting = sum(lane.waiting for lane in self._load.lanes if lane.analysis == analysis)
        return waiting + sum(run.analysis == analysis for run in self._load.runs)


class Pool:
    """Slots, and the orgs that wait for them in the order of their turns."""

    def __init__(self, lanes: Iterable[tuple[Lane, float]], free_in: list[float], virtual_now: int) -> None:
        self._free_in = free_in
        self._virtual_now = virtual_now
        counts: defaultdict[str, tuple[int, int, float]] = defaultdict(lambda: (virtual_now, 0, 0.0))
        for lane, pace in lanes:
            _, jobs, work = counts[lane.org_id]
            counts[lane.org_id] = (lane.virtual_start, jobs + lane.waiting, work + lane.waiting * pace)
        self._orgs = {org_id: (start, jobs, work / jobs) for org_id, (start, jobs, work) in counts.items()}
        # Of orgs with the same turn half go first.
        self._jobs = Ramps((start - 0.5, jobs, 1.0) for start, jobs, _ in self._orgs.values())
        self._work = Ramps((start - 0.5, jobs, mean) for start, jobs, mean in self._orgs.values())

    @property
    def free_in(self) -> float:
        """When the next slot becomes free."""
        return self._free_in[0]

    def start_in(self, org_id: str, before: float, work: float) -> float:
        """Seconds until an org starts a job that has so many of its own before it, and so much work in them."""
        start, jobs, mean = self._orgs.get(org_id, (self._virtual_now, 0, 0.0))
        turn = start + before
        own = min(before + 0.5, jobs)
        others, their_work = self._jobs.at(turn) - own, self._work.at(turn) - own * mean
        return _after(self._free_in, before + max(0.0, others), work + max(0.0, their_work))


def _free_in(ends: Sequence[float], slots: int) -> list[float]:
    """When each of so many slots becomes free, the soonest first."""
    ordered = sorted(ends)
    idle = max(0, slots - len(ordered))
    return [0.0] * idle + ordered[len(ordered) - (slots - idle) :]


def _after(free_in: Sequence[float], before: float, work: float) -> float:
    """When the slots have taken up so many jobs: round after round, each as long as these jobs take on the average."""
    rounds, place = divmod(int(before), len(free_in))
    return free_in[place] + rounds * work / max(before, 1)


class Ramps:
    """A sum of many ramps: each is nothing up to its start, then rises by its slope over its length, then stays.

    It is asked for its value without a walk over the ramps.
    """

    def __init__(self, ramps: Iterable[tuple[float, float, float]]) -> None:
        known = list(ramps)
        self._rising = _Hinges((start, slope) for start, _, slope in known)
        self._level = _Hinges((start + length, slope) for start, length, slope in known)

    def at(self, place: float) -> float:
        """The sum there."""
        return self._rising.at(place) - self._level.at(place)


class _Hinges:
    """A sum of half-lines that start at their place and rise from there."""

    def __init__(self, hinges: Iterable[tuple[float, float]]) -> None:
        ordered = sorted(hinges)
        self._places = [place for place, _ in ordered]
        self._slopes = list(accumulate((slope for _, slope in ordered), initial=0.0))
        self._offsets = list(accumulate((place * slope for place, slope in ordered), initial=0.0))

    def at(self, place: float) -> float:
        passed = bisect_left(self._places, place)
        return place * self._slopes[passed] - self._offsets[passed]
