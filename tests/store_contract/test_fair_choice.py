"""Picking under any limits and any history: never too much, never too little, and in the right order.

A model keeps what waits and runs; hypothesis makes the history, and after each claim the model says what must hold.
"""

import asyncio
from collections import Counter

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from langlauf.clock import new_id
from langlauf.domain.attempt import Backoff, Claim, ClaimRequest
from langlauf.domain.outcome import Completed, Released, Retry
from langlauf.store.protocol import Store
from tests.support.stores import LEASE_SECONDS, SetClock, opened
from tests.support.submissions import accept, cancel_request, claim
from tests.support.tiers import at_scale

ORGS = ("org-a", "org-b", "org-c", "org-d", "org-e")
ANALYSES = ("survey", "census", "narrow")
CLASSES = ("default", "expedite")
_limit = st.integers(1, 4)
#: All lanes of an org that wait show the same turn: a claim relies on meeting them at the same place.
TURNS_OF_ONE_ORG = """SELECT org_id FROM lanes WHERE waiting > 0
    GROUP BY org_id HAVING count(DISTINCT virtual_start) > 1 OR count(DISTINCT served) > 1"""


class Rules(msgspec.Struct, frozen=True):
    """The limits of one history."""

    max_running: int
    max_running_org: int | None
    limits: dict[str, int]


class Known(msgspec.Struct):
    """A job as the model sees it."""

    org: str
    analysis: str
    priority: str
    number: int
    #: when it may be claimed; None while it has never started
    due_at: int | None = None
    #: whether it was lost or released, and is not to be retried
    given_back: bool = False


rules = st.builds(
    Rules, st.integers(1, 8), st.none() | _limit, st.dictionaries(st.sampled_from(ANALYSES), _limit, max_size=2)
)
steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("submit"),
            st.tuples(st.sampled_from(ORGS), st.sampled_from(ANALYSES), st.sampled_from(CLASSES), st.integers(1, 6)),
        ),
        st.tuples(st.just("claim"), st.integers(1, 8)),
        st.tuples(st.sampled_from(("complete", "release", "retry", "cancel")), st.integers(0, 1_000)),
        st.tuples(st.just("vanish"), st.none()),
    ),
    min_size=1,
    max_size=30,
)


class Model:
    """Plays a history on a store and keeps account of it."""

    def __init__(self, store: Store, clock: SetClock, rules: Rules) -> None:
        self.store = store
        self.clock = clock
        self.rules = rules
        self.submitted = 0
        self.waiting: dict[str, Known] = {}
        self.running: dict[str, tuple[Known, Claim]] = {}

    async def submit(self, what: tuple[str, str, str, int]) -> None:
        org, analysis, priority, count = what
        for _ in range(count):
            job = await accept(self.store, self.clock, org=org, analysis=analysis, priority_class=priority)
            self.submitted += 1
            self.waiting[job.job_id] = Known(org, analysis, priority, self.submitted)

    async def cancel(self, number: int) -> None:
        if self.waiting:
            job_id = sorted(self.waiting)[number % len(self.waiting)]
            known = self.waiting.pop(job_id)
            await self.store.cancel(cancel_request(job_id, known.org))

    async def complete(self, number: int) -> None:
        if self.running:
            _, made = self._end(number)
            assert await self.store.record(made.lease, Completed(result_id=new_id(), payload="{}"))

    async def release(self, number: int) -> None:
        if self.running:
            known, made = self._end(number)
            assert await self.store.record(made.lease, Released())
            self._park(known, made)

    async def retry(self, number: int) -> None:
        if self.running:
            known, made = self._end(number)
            delay = number % 3
            assert await self.store.record(made.lease, Retry(code="timeout", message="", delay_seconds=delay))
            self._park(known, made, delay, given_back=False)

    async def vanish(self, _: None) -> None:
        """All workers are gone; the sweep finds out."""
        self.clock.pass_(LEASE_SECONDS + 1)
        await self.store.sweep(grace_seconds=5, backoff=Backoff())
        for known, made in self.running.values():
            self._park(known, made)
        self.running.clear()

    def _end(self, number: int) -> tuple[Known, Claim]:
        return self.running.pop(sorted(self.running)[number % len(self.running)])

    def _park(self, known: Known, made: Claim, delay: float = 0, *, given_back: bool = True) -> None:
        known.given_back = given_back
        known.due_at = self.clock.now() + round(delay * 1_000_000)
        self.waiting[made.lease.job_id] = known
        self.clock.pass_(0.001)

    async def claim(self, slots: int) -> None:
        room = min(slots, self.rules.max_running - len(self.running))
        request = ClaimRequest(
            worker_id="w",
            slots=slots,
            analyses=ANALYSES,
            lease_seconds=LEASE_SECONDS,
            max_running=self.rules.max_running,
            limits=self.rules.limits,
            max_running_org=self.rules.max_running_org,
        )
        claims = await self.store.claim(request)
        taken = [(self.waiting.pop(made.lease.job_id), made) for made in claims]
        for known, made in taken:
            self.running[made.lease.job_id] = (known, made)
        self._check_limits(room, len(claims))
        self._check_order([known for known, _ in taken])
        for known, _ in taken:
            known.due_at, known.given_back = None, False

    def _full(self, known: Known) -> bool:
        """Whether a limit keeps a job from starting now."""
        orgs = Counter(one.org for one, _ in self.running.values())
        analyses = Counter(one.analysis for one, _ in self.running.values())
        most = self.rules.max_running_org
        return (most is not None and orgs[known.org] >= most) or analyses[known.analysis] >= self.rules.limits.get(
            known.analysis, 1_000
        )

    def _check_limits(self, room: int, claimed: int) -> None:
        assert claimed <= max(room, 0)
        assert len(self.running) <= self.rules.max_running or not claimed
        orgs = Counter(one.org for one, _ in self.running.values())
        analyses = Counter(one.analysis for one, _ in self.running.values())
        assert max(orgs.values(), default=0) <= (self.rules.max_running_org or 1_000)
        assert all(analyses[name] <= limit for name, limit in self.rules.limits.items())
        if claimed < room:  # a slot stayed free: then nothing that waits may take it
            assert all(self._full(known) for known in self.waiting.values() if self._may_start(known))

    def _may_start(self, known: Known) -> bool:
        return known.due_at is None or known.due_at <= self.clock.now()

    def _check_order(self, taken: list[Known]) -> None:
        left = [known for known in self.waiting.values() if self._may_start(known) and not self._full(known)]
        for one in taken:
            for other in left:
                # What was given back goes before everybody; then each org has its turn, with its retries first.
                assert one.given_back or not other.given_back
                if other.org == one.org and one.due_at is None:
                    assert other.due_at is None
                    assert (one.priority, -one.number) >= (other.priority, -other.number)


@settings(max_examples=at_scale(150, 30), deadline=None)
@given(rules, steps)
def test_limits_hold_and_no_slot_is_wasted(rules: Rules, steps: list[tuple[str, object]]) -> None:
    """After every claim: within all limits, nothing eligible left beside a free slot, urgent and older jobs first."""

    async def play() -> None:
        clock = SetClock()
        async with opened(":memory:", clock) as store:
            model = Model(store, clock, rules)
            for name, what in [*steps, ("claim", 8)]:
                await getattr(model, name)(what)
                assert store._writer.execute(TURNS_OF_ONE_ORG).fetchall() == []

    asyncio.run(play())


@settings(max_examples=at_scale(60, 20), deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(CLASSES), min_size=1, max_size=12), min_size=2, max_size=5),
    st.lists(st.integers(1, 5), min_size=1, max_size=20),
)
def test_shares_differ_by_one_at_most_while_both_wait(queues: list[list[str]], slots: list[int]) -> None:
    """However much of which class each org queues, and however many slots are free at a time."""

    async def play() -> None:
        clock = SetClock()
        async with opened(":memory:", clock) as store:
            waiting: Counter[str] = Counter()
            for number, classes in enumerate(queues):
                for index, priority in enumerate(classes):
                    name = ANALYSES[index % 2]
                    await accept(store, clock, org=ORGS[number], analysis=name, priority_class=priority)
                    waiting[ORGS[number]] += 1
            starts: Counter[str] = Counter()
            for free in slots:
                for made in await claim(store, free, analyses=ANALYSES):
                    starts[made.lease.org_id] += 1
                hungry = [org for org in waiting if starts[org] < waiting[org]]
                assert all(starts[org] - starts[other] <= 1 for org in waiting for other in hungry)

    asyncio.run(play())


@settings(max_examples=at_scale(60, 20), deadline=None)
@given(
    st.lists(st.integers(3, 12), min_size=2, max_size=4),
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 100)), min_size=5, max_size=25),
)
def test_a_limited_analysis_is_shared_as_well(queues: list[int], rounds: list[tuple[int, int]]) -> None:
    """While another org floods the rest, orgs that wait for the one narrow analysis start in it by turns."""

    async def play() -> None:
        clock = SetClock()
        async with opened(":memory:", clock) as store:
            waiting = Counter(dict(zip(ORGS, queues, strict=False)))
            for org in waiting.elements():
                await accept(store, clock, org=org, analysis="narrow")
            for _ in range(80):
                await accept(store, clock, org="flood")
            starts: Counter[str] = Counter()
            running: list[Claim] = []
            for slots, number in rounds:
                made = await claim(store, slots, analyses=ANALYSES, limits={"narrow": 1}, max_running=8)
                starts.update(one.lease.org_id for one in made if one.analysis == "narrow")
                hungry = [org for org in waiting if starts[org] < waiting[org]]
                assert all(starts[org] - starts[other] <= 1 for org in waiting for other in hungry)
                running += made
                for one in running[: 1 + number % max(len(running), 1)]:
                    assert await store.record(one.lease, Completed(result_id=new_id(), payload="{}"))
                    running.remove(one)

    asyncio.run(play())
