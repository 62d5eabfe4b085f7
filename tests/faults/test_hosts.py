"""The verdicts over hosts can fail: what is left in a database is found."""

import asyncio
import socket
import subprocess
import sys
from pathlib import Path

from langlauf.domain.outcome import Completed
from langlauf.hints import Hints
from langlauf.store.postgres.driver import PostgresStore
from tests.support.network import network
from tests.support.postgres import execute, fetch
from tests.support.processes import eventually
from tests.support.relay import function_of
from tests.support.stores import JobFactory, SetClock

_LEFT = Path(__file__).with_name("left.sql").read_text("utf-8")
_PORT = 8080
_SECONDS = 1.0


def test_unended_jobs_are_reported(database: str) -> None:
    """A waiting job and a running one with its lease; no completed job."""

    async def main() -> tuple[str, str]:
        store = await PostgresStore.open(database, hints=Hints(), clock=SetClock(), notify=False)
        maker = JobFactory(store, SetClock())
        done = await maker.running()
        assert await store.record(done.lease, Completed(result_id="r", payload="{}"))
        found = (await maker.queued()).job_id, (await maker.running()).lease.job_id
        await store.close()
        return found

    waits, runs = asyncio.run(main())
    left = {(row["job_id"], row["status"]) for row in fetch(database, _LEFT)}
    assert left == {(waits, "queued"), (runs, "running"), (runs, "leased")}


def test_a_second_end_is_reported(database: str) -> None:
    """As after a second worker that also wrote one."""

    async def main() -> str:
        store = await PostgresStore.open(database, hints=Hints(), clock=SetClock(), notify=False)
        claim = await JobFactory(store, SetClock()).running()
        assert await store.record(claim.lease, Completed(result_id="r", payload="{}"))
        await store.close()
        return claim.lease.job_id

    job_id = asyncio.run(main())
    assert fetch(database, _LEFT) == []
    execute(
        database,
        "INSERT INTO langlauf.job_events "
        "SELECT org_id, job_id, event_seq + 1, gen_random_uuid(), event_type, occurred_at, actor_type, payload_json, "
        "trace_id, request_id FROM langlauf.job_events WHERE event_type = 'job.completed'",
    )
    assert [row["job_id"] for row in fetch(database, _LEFT)] == [job_id]


def test_a_cut_is_silent_and_heals() -> None:
    """Nothing arrives, no connection is refused, and afterwards all is as before."""

    def reached() -> bool:
        try:
            socket.create_connection((host.address, _PORT), timeout=_SECONDS).close()
        except TimeoutError:
            return False
        return True

    with network() as net:
        host = net.host("other")
        words = (sys.executable, "-m", "http.server", str(_PORT), "--bind", host.address)
        listening = subprocess.Popen((*host.prefix, *words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            eventually(lambda: _accepts(host.address))
            host.cut()
            assert not reached()
            host.heal()
            eventually(reached)
        finally:
            listening.kill()
            listening.wait()


def _accepts(address: str) -> bool:
    with socket.socket() as probe:
        probe.settimeout(_SECONDS)
        return probe.connect_ex((address, _PORT)) == 0


def test_a_statement_is_known_by_its_function() -> None:
    """In every form of the call."""
    assert function_of("SELECT submit($1, $2)") == "submit"
    assert function_of("SELECT * FROM claim($1)") == "claim"
    assert function_of("BEGIN") == ""
