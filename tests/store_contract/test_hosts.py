"""Several programs at one store, all at the same time: what no single one of them can promise."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from langlauf.clock import new_id
from langlauf.domain.access import DEFAULT_SCOPES, ApiKey, HashedKey, Rate, hash_key
from langlauf.domain.attempt import Backoff, Claim, Lease, Write
from langlauf.domain.delivery import Delivery, DeliveryClaim, DeliveryEnd, DeliveryFilter, Subscription
from langlauf.domain.event import FINAL_EVENTS
from langlauf.domain.job import Accepted, Duplicate, JobRecord, Replayed
from langlauf.domain.mail import MailAdmission
from langlauf.domain.outcome import Completed, Released, Retry
from langlauf.domain.read_models import QueueDepth
from langlauf.domain.state import Status
from langlauf.store.protocol import Store
from tests.store_contract.conftest import Harness
from tests.support.stores import LEASE_SECONDS, SetClock
from tests.support.submissions import ORG, accept, cancel_request, claim, event_types, new_job, read_job

HOSTS = 4
ANALYSES = ("survey", "census")
ORGS = ("org-a", "org-b", "org-c")


async def _fill(stores: list[Store], clock: SetClock, number: int) -> list[JobRecord]:
    """Jobs of all orgs and analyses, over all stores."""
    return [
        await accept(stores[n % HOSTS], clock, org=ORGS[n % len(ORGS)], analysis=ANALYSES[n % len(ANALYSES)])
        for n in range(number)
    ]


async def _claim_everywhere(stores: list[Store], slots: int, **rules: Any) -> list[Claim]:
    """All stores claim at once; no job may have been given twice."""
    found = await asyncio.gather(*(claim(store, slots, analyses=ANALYSES, **rules) for store in stores))
    made = [one for claims in found for one in claims]
    assert len({one.lease.job_id for one in made}) == len(made), "a job was given to two"
    return made


@pytest.mark.parametrize(
    ("rules", "count"),
    [
        ({"max_running": 5}, 5),
        ({"limits": {"survey": 2, "census": 1}}, 3),
        ({"max_running_org": 2}, 6),
        ({"max_running": 4, "limits": {"census": 1}, "max_running_org": 2}, 4),
        ({}, 18),
    ],
)
def test_limits_hold_over_all_hosts(shared: Harness, rules: dict[str, Any], count: int) -> None:
    """However many claim at once, together they get what the limits leave, and none of it twice."""

    async def body(stores: list[Store], clock: SetClock) -> None:
        await _fill(stores, clock, 18)
        assert len(await _claim_everywhere(stores, 6, **rules)) == count
        assert await _claim_everywhere(stores, 6, **rules) == []
        assert (await stores[0].depth()).running == count

    shared.run_many(HOSTS, body)


class _Runners:
    """Hosts that claim and complete side by side; after each claim the limits are looked at."""

    def __init__(self, jobs: int) -> None:
        self.left = jobs
        self.running: dict[str, Claim] = {}
        self.most = Counter[str]()

    async def work(self, store: Store) -> None:
        while self.left:
            for made in await claim(
                store, 3, analyses=ANALYSES, max_running=6, limits={"survey": 4}, max_running_org=3
            ):
                assert made.lease.job_id not in self.running
                self.running[made.lease.job_id] = made
            self._look()
            if self.running:
                job_id, made = next(iter(self.running.items()))
                del self.running[job_id]  # before it is over: what is counted here runs for certain
                assert await store.record(made.lease, Completed(result_id=new_id(), payload="1"))
                self.left -= 1
            await asyncio.sleep(0)

    def _look(self) -> None:
        self.most["all"] = max(self.most["all"], len(self.running))
        for count in (
            Counter(made.analysis for made in self.running.values()),
            Counter(made.lease.org_id for made in self.running.values()),
        ):
            for name, number in count.items():
                self.most[name] = max(self.most[name], number)


def test_limits_hold_while_jobs_come_and_go(shared: Harness) -> None:
    """At no moment more run than may, over all hosts; every job runs once."""

    async def body(stores: list[Store], clock: SetClock) -> None:
        jobs = await _fill(stores, clock, 48)
        runners = _Runners(len(jobs))
        await asyncio.gather(*(runners.work(store) for store in stores))
        assert runners.most["all"] <= 6
        assert runners.most["survey"] <= 4
        assert max(runners.most[org] for org in ORGS) <= 3
        for job in jobs:
            assert await event_types(stores[0], job.job_id, job.org_id) == [
                "job.queued",
                "job.running",
                "job.completed",
            ]
        assert await stores[0].depth() == QueueDepth(0, 0)

    shared.run_many(HOSTS, body)


def _same_key() -> dict[str, Any]:
    return {"query": "Bern", "idempotency_key": "once"}


def _same_input() -> dict[str, Any]:
    return {"query": "Bern", "refuse_duplicate": True}


@pytest.mark.parametrize(("rules", "other"), [(_same_key, Replayed), (_same_input, Duplicate)])
def test_the_same_submitted_at_every_host_is_one_job(
    shared: Harness, rules: Callable[[], dict[str, Any]], other: type[Replayed | Duplicate]
) -> None:
    """One is accepted; all others are told of that one."""

    async def body(stores: list[Store], clock: SetClock) -> None:
        wishes = [new_job(clock, **rules()) for _ in range(200)]
        answers = await asyncio.gather(*(stores[n % HOSTS].submit(wish) for n, wish in enumerate(wishes)))
        [made] = [answer for answer in answers if isinstance(answer, Accepted)]
        others = [answer for answer in answers if isinstance(answer, other)]
        assert len(others) == len(wishes) - 1
        assert {answer.job.job_id for answer in others} == {made.job.job_id}
        assert (await stores[0].depth()).waiting == 1

    shared.run_many(HOSTS, body)


def test_a_queue_takes_no_more_than_its_org_may_have(shared: Harness) -> None:
    """The limit of an org holds to the job, wherever its submissions come in."""

    async def body(stores: list[Store], clock: SetClock) -> None:
        wishes = [new_job(clock, max_waiting_org=10) for _ in range(60)]
        answers = await asyncio.gather(*(stores[n % HOSTS].submit(wish) for n, wish in enumerate(wishes)))
        assert sum(isinstance(answer, Accepted) for answer in answers) == 10
        assert (await stores[0].depth()).waiting == 10

    shared.run_many(HOSTS, body)


def test_a_cancel_and_a_claim_at_once_leave_one_truth(shared: Harness) -> None:
    """A job was canceled and nobody has it, or somebody has it and is told to stop; nothing in between."""

    async def body(stores: list[Store], clock: SetClock) -> None:
        jobs = [await accept(stores[0], clock) for _ in range(40)]
        cancels = [stores[n % 2].cancel(cancel_request(job.job_id)) for n, job in enumerate(jobs)]
        claims = [claim(stores[2 + n % 2], 2) for n in range(20)]
        found, _ = await asyncio.gather(asyncio.gather(*claims), asyncio.gather(*cancels))
        given = {one.lease.job_id: one.lease for made in found for one in made}
        for job in jobs:
            view = await read_job(stores[0], job.job_id)
            if job.job_id in given:
                assert view.job.status is Status.RUNNING
                [renewal] = await stores[3].renew([given[job.job_id]], lease_seconds=LEASE_SECONDS)
                assert (renewal.held, renewal.cancel_reason) == (True, "not needed")
                expected = ["job.queued", "job.running", "job.cancel_requested"]
            else:
                assert view.job.status is Status.CANCELED
                expected = ["job.queued", "job.canceled"]
            assert await event_types(stores[0], job.job_id) == expected
        assert (await stores[0].depth()).waiting == 0
        assert await claim(stores[0], 40) == []

    shared.run_many(HOSTS, body)


def test_each_lease_is_taken_back_once(shared: Harness) -> None:
    """By whichever host sweeps first; what was lost is then given out once, before anything else begins."""

    async def body(stores: list[Store], clock: SetClock) -> None:
        jobs = [await accept(stores[0], clock) for _ in range(30)]
        assert len(await _claim_everywhere(stores, 8)) == 30
        clock.pass_(LEASE_SECONDS + 1)
        later = [await accept(stores[0], clock) for _ in range(10)]
        sweeps = (store.sweep(grace_seconds=5.0, backoff=Backoff(), limit=7) for store in stores)
        swept = [one for found in await asyncio.gather(*sweeps) for one in found]
        assert sorted(one.job_id for one in swept) == sorted(job.job_id for job in jobs)
        assert {(await read_job(stores[1], job.job_id)).job.lost_count for job in jobs} == {1}
        again = await _claim_everywhere(stores, 6)
        assert [one.lease.attempt for one in again] == [2] * 24
        rest = await _claim_everywhere(stores, 4)
        assert Counter(one.lease.attempt for one in rest) == {2: 6, 1: 10}
        assert {one.lease.job_id for one in rest if one.lease.attempt == 1} == {job.job_id for job in later}

    shared.run_many(HOSTS, body)


def test_what_is_due_again_goes_to_one_host(shared: Harness) -> None:
    """Released ones and retries whose time has come; a retry whose time has not come goes to nobody."""

    async def body(stores: list[Store], clock: SetClock) -> None:
        await _fill(stores, clock, 12)
        for number, made in enumerate(await _claim_everywhere(stores, 12)):
            retry = Retry(code="network_error", message="no route", delay_seconds=5.0 if number % 2 else 60.0)
            assert await stores[number % HOSTS].record(made.lease, Released() if number < 4 else retry)
        clock.pass_(10)
        again = await _claim_everywhere(stores, 12)
        assert [one.lease.attempt for one in again] == [2] * 8
        clock.pass_(60)
        assert len(await _claim_everywhere(stores, 12)) == 4

    shared.run_many(HOSTS, body)


def test_the_first_end_of_a_job_counts(shared: Harness) -> None:
    """A worker that completes, one that cancels and sweeps, all at once: one end, one last event, and all agree."""

    async def body(stores: list[Store], clock: SetClock) -> None:
        jobs = [await accept(stores[0], clock) for _ in range(20)]
        leases = {one.lease.job_id: one.lease for one in await claim(stores[0], 20)}
        writes = [
            stores[1].record(leases[job.job_id], Completed(result_id=new_id(), payload=str(n)))
            for n, job in enumerate(jobs)
        ]
        twice = [stores[2].record(lease, Completed(result_id=new_id(), payload="0")) for lease in leases.values()]
        cancels = [stores[3].cancel(cancel_request(job.job_id)) for job in reversed(jobs)]
        first, second, _ = await asyncio.gather(
            asyncio.gather(*writes), asyncio.gather(*twice), asyncio.gather(*cancels)
        )
        told = dict(zip([job.job_id for job in jobs], first, strict=True))
        for lease, held in zip(leases.values(), second, strict=True):
            assert held is not told[lease.job_id], "both, or neither, were told that they wrote"
        for job in jobs:
            assert (await read_job(stores[0], job.job_id)).job.status is Status.COMPLETED
            assert len(await stores[0].tenant(ORG).results(job.job_id)) == 1
            assert (await event_types(stores[0], job.job_id)).count("job.completed") == 1

    shared.run_many(HOSTS, body)


def test_whoever_reads_past_a_version_misses_no_key(shared: Harness) -> None:
    """Keys made and revoked at every host at once have versions without a gap, and come in their order."""

    async def body(stores: list[Store], __: SetClock) -> None:
        ids = [f"llk_{number:012d}" for number in range(40)]

        async def change(number: int, key_id: str) -> None:
            key = ApiKey(key_id=key_id, org_id=ORG, name="ci", scopes=DEFAULT_SCOPES, created_at=0)
            made = await stores[number % HOSTS].access.create_key(HashedKey(key, hash_key(key_id.encode())))
            assert made is not None
            await stores[(number + 1) % HOSTS].access.revoke_key(key_id, org_id=ORG)

        async def follow(store: Store) -> dict[str, bool]:
            seen: dict[str, bool] = {}
            version = 0
            while len(seen) < len(ids) or not all(seen.values()):
                changes = await store.access.key_changes(version)
                assert changes.version >= version
                version = changes.version
                seen |= {one.key.key_id: one.key.revoked_at is not None for one in changes.changed}
            return seen

        async with asyncio.timeout(60):  # a change that is missed is never seen again
            _, *seen = await asyncio.gather(
                asyncio.gather(*(change(number, key_id) for number, key_id in enumerate(ids))),
                *(follow(store) for store in stores),
            )
        assert seen == [dict.fromkeys(ids, True)] * HOSTS
        assert (await stores[0].access.key_changes(0)).version == 2 * len(ids)

    shared.run_many(HOSTS, body)


class _Storm:
    """Everything that hosts do, in an order that chance decides: each host with dice of its own."""

    def __init__(self, clock: SetClock, rounds: int) -> None:
        self.clock = clock
        self.rounds = rounds
        self.leases: list[Lease] = []
        self.jobs: list[JobRecord] = []

    async def blow(self, store: Store, dice: random.Random) -> None:
        for _ in range(self.rounds):
            self.clock.pass_(dice.choice((0.0, 0.1, 1.0, LEASE_SECONDS)) / 10)
            await asyncio.gather(*(self._do(store, dice) for _ in range(dice.randint(1, 6))))

    async def _do(self, store: Store, dice: random.Random) -> None:
        match dice.choice(("submit", "submit", "claim", "record", "record", "cancel", "renew", "sweep")):
            case "submit":
                orgs = dice.sample(ORGS, len(ORGS))
                wishes = [new_job(self.clock, org=org, analysis=dice.choice(ANALYSES), max_retries=1) for org in orgs]
                answers = await asyncio.gather(*(store.submit(wish) for wish in wishes))
                self.jobs += [answer.job for answer in answers if isinstance(answer, Accepted)]
            case "claim":
                made = await claim(store, 5, analyses=ANALYSES, max_running=20, max_running_org=9)
                self.leases += [one.lease for one in made]
            case "record" if self.leases:
                lease = self.leases.pop(dice.randrange(len(self.leases)))
                await store.record(lease, self._write(dice))
            case "cancel" if self.jobs:
                some = dice.sample(self.jobs, min(3, len(self.jobs)))
                await asyncio.gather(*(store.cancel(cancel_request(job.job_id, job.org_id)) for job in some))
            case "renew":
                await store.renew(dice.sample(self.leases, len(self.leases)), lease_seconds=LEASE_SECONDS)
            case "sweep":
                await store.sweep(grace_seconds=1.0, backoff=Backoff(base=0.1, cap=0.5), limit=3)

    def _write(self, dice: random.Random) -> Write:
        retry = Retry(code="network_error", message="no route", delay_seconds=0.1)
        return dice.choice((Completed(result_id=new_id(), payload="1"), retry, Released()))


@pytest.mark.parametrize("seed", range(2))
def test_hosts_that_do_everything_at_once_are_all_answered(shared: Harness, seed: int) -> None:
    """Nobody is refused because two waited for each other, and in the end every job can be brought to its end."""

    async def body(stores: list[Store], clock: SetClock) -> None:
        storm = _Storm(clock, rounds=15)
        await asyncio.gather(*(storm.blow(store, random.Random(f"{seed} {n}")) for n, store in enumerate(stores)))
        for _ in range(40):  # what was lost and tried again comes back a few times at most
            clock.pass_(2 * LEASE_SECONDS)
            await stores[0].sweep(grace_seconds=1.0, backoff=Backoff(base=0.1, cap=0.5))
            made = await _claim_everywhere(stores, 1_000)
            ends = [Completed(result_id=new_id(), payload="1") for _ in made]
            await asyncio.gather(*(stores[0].record(one.lease, end) for one, end in zip(made, ends, strict=True)))
            if await stores[0].depth() == QueueDepth(0, 0) and not made:
                break
        for job in storm.jobs:
            assert (await read_job(stores[1], job.job_id, job.org_id)).job.terminal
            assert (await event_types(stores[1], job.job_id, job.org_id))[-1] in FINAL_EVENTS

    shared.run_many(HOSTS, body)


class _Senders:
    """Hosts that claim messages and end their attempts side by side; after each claim the lanes are looked at."""

    def __init__(self, messages: int) -> None:
        self.left = messages
        self.flying: dict[str, Delivery] = {}
        self.most = Counter[str]()
        self.attempts = Counter[str]()

    async def send(self, store: Store) -> None:
        wanted = DeliveryClaim(most=3, most_of_lane=2, claim_seconds=60, cautious_after=3)
        while self.left:
            for one in await store.deliveries.claim(wanted):
                assert one.notification_id not in self.flying, "a message was given to two"
                self.flying[one.notification_id] = one
                self.attempts[one.notification_id] += 1
                assert one.attempt == self.attempts[one.notification_id]
            for lane, number in Counter(one.lane for one in self.flying.values()).items():
                self.most[lane] = max(self.most[lane], number)
            if self.flying:
                name, one = next(iter(self.flying.items()))
                del self.flying[name]  # before it is over: what is counted here is under way for certain
                fails = self.attempts[name] == 1
                end = DeliveryEnd(
                    org_id=one.org_id,
                    notification_id=name,
                    attempt=one.attempt,
                    status="pending" if fails else "sent",
                    seconds=0.1,
                )
                assert await store.deliveries.finish(end)
                self.left -= not fails
            await asyncio.sleep(0)


def test_the_rate_of_mails_holds_over_all_hosts(shared: Harness) -> None:
    """Asked for at once at every host, as many mails go out as may, and no more."""

    async def body(stores: list[Store], _: SetClock) -> None:
        rates = {"org_rate": Rate(5, 60), "address_rate": Rate(60, 60)}

        def wish(number: int) -> MailAdmission:
            one = {"org_id": "org-a", "notification_id": f"m{number}", "attempt": 1, "address": "a@mail.example"}
            return MailAdmission(**one, counted=True, only_listed=False, **rates)  # type: ignore[arg-type]

        said = await asyncio.gather(*(stores[number % HOSTS].mail.admit(wish(number)) for number in range(24)))
        assert Counter(said) == {None: 5, "org_rate": 19}

    shared.run_many(HOSTS, body)


def test_a_message_is_sent_by_one_host_at_a_time(shared: Harness) -> None:
    """Several tasks of several hosts claim at once: none is handed out twice, and a lane's limit holds over all."""

    async def body(stores: list[Store], clock: SetClock) -> None:
        for host in ("a", "b", "c"):
            wish = Subscription(channel="webhook", target=f"https://{host}.example/", lane=f"https://{host}.example")
            for number in range(6):
                job = await accept(stores[number % HOSTS], clock, subscriptions=(wish,))
                await stores[0].cancel(cancel_request(job.job_id))
        senders = _Senders(18)
        await asyncio.gather(*(senders.send(store) for store in stores for _ in range(2)))
        assert set(senders.most.values()) <= {1, 2}
        assert set(senders.attempts.values()) == {2}
        assert {one.delivery_status for one in await stores[0].tenant(ORG).deliveries(DeliveryFilter())} == {"sent"}

    shared.run_many(HOSTS, body)
