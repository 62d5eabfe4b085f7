"""One broken row holds up no other: the sweep goes on to its neighbours."""

import asyncio
from pathlib import Path

import apsw

from langlauf.domain.retry import Backoff
from tests.support.stores import LEASE_SECONDS, Maker, SetClock, opened


def test_a_broken_row_does_not_stop_the_sweep(tmp_path: Path) -> None:
    """A job whose next event number is taken cannot be swept; the lost job beside it is."""

    async def body() -> None:
        clock = SetClock()
        async with opened(tmp_path / "store.db", clock) as store:
            maker = Maker(store, clock)
            broken, healthy = await maker.running(), await maker.running()
            connection = apsw.Connection(str(tmp_path / "store.db"))
            connection.execute(
                "INSERT INTO job_events SELECT org_id, job_id, event_seq + 1, 'x', event_type, occurred_at, "
                "actor_type, payload_json, trace_id, request_id FROM job_events "
                "WHERE job_id = ? ORDER BY event_seq DESC LIMIT 1",
                (broken.lease.job_id,),
            )
            connection.close()
            clock.pass_(LEASE_SECONDS + 1)
            swept = await store.sweep(grace_seconds=5, backoff=Backoff())
            assert [one.job_id for one in swept] == [healthy.lease.job_id]

    asyncio.run(body())
