"""`kill -9` of webhook senders at random moments: every final event arrives under one id."""

import asyncio
import random
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from standardwebhooks import WebhookVerificationError

from langlauf.clock import SystemClock, new_id
from langlauf.domain.delivery import FINAL_SUBJECTS, DeliveryFilter, WebhookEndpoint
from langlauf.domain.webhook import ENDPOINT_SECRETS_PURPOSE, endpoint_secret, secret_text
from langlauf.hints import Hints
from langlauf.store.sqlite.driver import SqliteStore
from tests.faults.api import Api
from tests.faults.fleet import Fleet, verified
from tests.faults.load import Load
from tests.faults.plan import Plan
from tests.faults.promises import promises
from tests.faults.report import Figure, all_of, at_least, measured, never
from tests.faults.verdicts import JobObservation, observe_jobs
from tests.support.receiver import Handler, Receiver, answer, receiving

ORG = "default-org"
SETTINGS = {
    "LANGLAUF_LEASE_SECONDS": "1.5",
    "LANGLAUF_SWEEP_SECONDS": "0.3",
    "LANGLAUF_MAX_RUNNING": "8",
    "LANGLAUF_WEBHOOK_ALLOW": "127.0.0.0/8",
    "LANGLAUF_WEBHOOK_SECONDS": "1",
    "LANGLAUF_WEBHOOK_SCHEDULE": ",".join(["0.2"] * 20),
}
_ROUNDS = 100
_ENDPOINTS = 4
_LONGEST_PAUSE = 1.2
_LONGEST_ANSWER = 0.3
_BROKEN_SHARE = 0.1
_TIMEOUT = 60.0


class Found(NamedTuple):
    """The outcome of the rounds."""

    kills: int
    seen: list[JobObservation]
    #: final events times endpoints
    expected: int
    missing: int
    arrived: int
    #: repeated arrivals
    again: int
    refused: int
    two_ids: int
    two_bodies: int
    bad_signatures: int
    unsettled: int
    sound: bool


class Judge:
    """A receiver that delays, refuses now and then, and checks every signature."""

    def __init__(self, receiver: Receiver, chance: random.Random) -> None:
        self.receiver = receiver
        self._chance = chance
        self._secrets: dict[str, str] = {}
        #: by endpoint and job: the ids, bodies, and how often it was accepted
        self.ids: dict[tuple[str, str], set[str]] = defaultdict(set)
        self.bodies: dict[tuple[str, str], set[bytes]] = defaultdict(set)
        self.taken: dict[tuple[str, str], int] = defaultdict(int)
        self.refused = 0
        self.bad_signatures = 0

    async def register(self, store: Path) -> None:
        """Add endpoints to a store before it is served."""
        opened = await SqliteStore.open(str(store), hints=Hints())
        try:
            master = await opened.access.signing_secret(ENDPOINT_SECRETS_PURPOSE)
            for number in range(_ENDPOINTS):
                path, endpoint_id = f"/{number}", new_id()
                new = WebhookEndpoint(
                    org_id=ORG,
                    endpoint_id=endpoint_id,
                    url=self.receiver.url(path),
                    name=path,
                    subjects=FINAL_SUBJECTS,
                    created_at=SystemClock().now(),
                )
                assert await opened.deliveries.add_endpoint(new) is not None
                self._secrets[path] = secret_text(endpoint_secret(master, ORG, endpoint_id, 1))
                self.receiver.manners[path] = self._receive
        finally:
            await opened.close()

    def _receive(self, handler: Handler) -> None:
        one = handler.arrived
        try:
            event = one.verify(self._secrets[one.path])
        except WebhookVerificationError:
            self.bad_signatures += 1
            return
        assert isinstance(event, dict)
        key = one.path, str(event["subject"])
        self.ids[key].add(one.message_id)
        self.bodies[key].add(one.body)
        handler.server.closing.wait(self._chance.random() ** 3 * _LONGEST_ANSWER)
        if self._chance.random() < _BROKEN_SHARE:
            self.refused += 1
            answer(500)(handler)
        else:
            self.taken[key] += 1  # before the response: a sender killed now never receives it
            answer(200)(handler)


async def run(plan: Plan) -> list[Figure]:
    """Kill a server and a worker process, which both send."""
    return _figures(plan, await _deployment(plan))


async def _deployment(plan: Plan) -> Found:
    chance = plan.chance("deliveries")
    rounds = plan.times(_ROUNDS)
    with ExitStack() as stack:
        judge = Judge(stack.enter_context(receiving()), random.Random(chance.random()))
        async with Fleet(plan, "deliveries", SETTINGS) as fleet, Api(fleet) as api:
            await judge.register(fleet.store)
            await asyncio.gather(fleet.serve(workers=1), fleet.work())
            async with Load(api, fleet.ledger, chance, unfinished=12, longest=0.6) as load:
                for number in range(rounds):
                    await asyncio.sleep(chance.uniform(0, _LONGEST_PAUSE))  # the moment of the kill is the point
                    victim = chance.choice(fleet.programs)
                    await fleet.kill(victim)
                    await fleet.again(victim)
                    plan.watch(number + 1, rounds)
            seen = await observe_jobs(api, load.accepted, seconds=_TIMEOUT)
            unsettled = await _unsettled(fleet.store)
            await fleet.stop()
            sound = await verified(fleet.store)
    return _judged(judge, rounds, list(seen.values()), unsettled, sound)


def _judged(judge: Judge, kills: int, seen: list[JobObservation], unsettled: int, sound: bool) -> Found:
    jobs = [one.job["job_id"] for one in seen if one.job is not None]
    keys = [(f"/{number}", job_id) for number in range(_ENDPOINTS) for job_id in jobs]
    return Found(
        kills=kills,
        seen=seen,
        expected=len(keys),
        missing=sum(not judge.taken.get(key) for key in keys),
        arrived=len(judge.receiver.requests),
        again=sum(max(0, number - 1) for number in judge.taken.values()),
        refused=judge.refused,
        two_ids=sum(len(ids) > 1 for ids in judge.ids.values()),
        two_bodies=sum(len(bodies) > 1 for bodies in judge.bodies.values()),
        bad_signatures=judge.bad_signatures,
        unsettled=unsettled,
        sound=sound,
    )


async def _unsettled(store: Path) -> int:
    """Return how many messages are still pending, or failed."""
    opened = await SqliteStore.open(str(store), hints=Hints())
    try:
        end = asyncio.get_running_loop().time() + _TIMEOUT
        while True:
            pending = (await opened.deliveries.figures()).pending.get("webhook", 0)
            if not pending or asyncio.get_running_loop().time() > end:
                break
            await asyncio.sleep(0.2)
        failed = await opened.tenant(ORG).deliveries(DeliveryFilter(status="failed", limit=200))
    finally:
        await opened.close()
    return pending + len(failed)


def _figures(plan: Plan, found: Found) -> list[Figure]:
    return [
        at_least("rounds of kill -9 of a sender", found.kills, plan.times(_ROUNDS)),
        *promises(found.seen),
        never("finals that did not arrive", found.missing, found.expected),
        never("finals that came under two ids", found.two_ids, found.expected),
        never("messages whose bytes differ from try to try", found.two_bodies, found.expected),
        never("signatures that do not verify", found.bad_signatures, found.arrived),
        never("messages left waiting, or given up", found.unsettled, found.expected),
        measured("requests that the receivers saw", found.arrived),
        measured("of them refused with 500", found.refused),
        measured("of them for what had arrived before", found.again),
        all_of("stores that verify calls sound", int(found.sound), 1),
    ]
