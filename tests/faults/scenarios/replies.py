"""Commits whose response is lost: a relay cuts connections between programs and database, and every answer is true."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from tests.faults.api import Api
from tests.faults.fleet import Program
from tests.faults.hosts import hosts
from tests.faults.ledger import KEPT, REFUSED, Line
from tests.faults.load import Load
from tests.faults.plan import Plan
from tests.faults.promises import promises
from tests.faults.report import Figure, all_of, at_least, measured, never
from tests.faults.verdicts import JobObservation, computed_again, observe_jobs
from tests.support.relay import Loss, losing, relayed

_LOST = 300
_SHARE = 0.1
#: Statements that write: without a response their outcome is unknown.
_WRITES = frozenset({"submit", "claim", "record", "renew", "cancel"})
#: Silence lasts for a statement timeout, so it is the rarest.
_LOSSES = (Loss.ANSWERED,) * 5 + (Loss.UNDERWAY,) * 4 + (Loss.SILENT,)
#: Longer than a silence, so that it alone loses no lease.
_SETTINGS = {"LANGLAUF_LEASE_SECONDS": "12"}
_UNFINISHED, _LONGEST_JOB = 48, 0.8
_TIMEOUT = 90.0


async def run(plan: Plan) -> list[Figure]:
    """Run a server and two workers behind a relay under load, until so many responses were lost."""
    wanted = plan.times(_LOST)
    chance = plan.chance("replies")
    draw = losing(chance, _SHARE, _WRITES, _LOSSES, most=wanted)
    async with hosts(plan, "replies", _SETTINGS) as fleet, Api(fleet) as api:
        async with relayed(fleet.store, fleet.network.address, draw) as (relay, store):
            _, *workers = await asyncio.gather(
                fleet.serve(store=store), fleet.work(store=store), fleet.work(store=store)
            )
            async with Load(api, fleet.ledger, chance, unfinished=_UNFINISHED, longest=_LONGEST_JOB) as load:
                while (lost := relay.lost.total()) < wanted:
                    plan.watch(lost, wanted)
                    await asyncio.sleep(0.1)
            plan.watch(wanted, wanted)
            seen = await observe_jobs(api, load.accepted, seconds=_TIMEOUT)
            unknown = len(await api.jobs()) - len(set(load.accepted))
            await fleet.stop()
        sound = await fleet.sound()
        lines = fleet.ledger.lines
    return [
        at_least("answers of the database that were lost", relay.lost.total(), wanted),
        *_kinds(relay.lost),
        *promises(list(seen.values())),
        never("jobs made twice by a repeated request", unknown, len(seen)),
        never("finished chunks computed again", computed_again(lines), sum(line.kind == KEPT for line in lines)),
        *_untrue(workers, seen, lines),
        all_of("databases that are sound", int(sound), 1),
    ]


def _kinds(lost: Counter[tuple[str, Loss]]) -> list[Figure]:
    by_function, by_loss = Counter[str](), Counter[Loss]()
    for (function, loss), count in lost.items():
        by_function[function] += count
        by_loss[loss] += count
    return [
        measured(
            "of them by statement", len(by_function), ", ".join(f"{n} {word}" for word, n in by_function.most_common())
        ),
        measured("of them by kind", len(by_loss), ", ".join(f"{n} {word}" for word, n in by_loss.most_common())),
    ]


def _untrue(workers: Sequence[Program], seen: dict[str, JobObservation], lines: Sequence[Line]) -> list[Figure]:
    """Compare what workers and analyses were answered with what is stored."""
    ended = {(job_id, one.job["attempt"]) for job_id, one in seen.items() if one.job is not None}
    lost = [(fact["job_id"], fact["attempt"]) for worker in workers for fact in worker.log_lines("attempt_lost")]
    refused = {(line.job_id, line.attempt) for line in lines if line.kind == REFUSED}
    attempts = sum(one.job["attempt"] for one in seen.values() if one.job is not None)
    return [
        never("writes refused to an attempt that then ended its job", len(refused & ended), attempts),
        never("ends that stand and that their worker took for lost", sum(one in ended for one in lost), attempts),
        measured("attempts that were given up", len(lost)),
    ]
