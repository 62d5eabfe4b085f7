"""What goes wrong in a sweep holds up nothing else, and is told."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from langlauf.background import PeriodicDuty
from langlauf.domain.attempt import Backoff
from langlauf.domain.errors import StoreUnavailable
from langlauf.hints import Hints
from langlauf.store.sqlite import connection
from langlauf.telemetry.log import EVENT_COUNTS, LogEvent
from tests.support.stores import LEASE_SECONDS, JobFactory, SetClock, opened


def _take_next_event_number(path: Path, job_id: str) -> None:
    """Breaks a job: whatever is written of it next finds the number of its event taken."""
    other = apsw.Connection(str(path))
    other.execute(
        "INSERT INTO job_events (org_id, job_id, event_seq, event_id, event_type, occurred_at, actor_type, "
        "payload_json, trace_id, request_id) SELECT org_id, job_id, event_seq + 1, 'x', event_type, occurred_at, "
        "actor_type, payload_json, trace_id, request_id FROM job_events "
        "WHERE job_id = ? ORDER BY event_seq DESC LIMIT 1",
        (job_id,),
    )
    other.close()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Another program holds the file for itself."""
    other = apsw.Connection(str(path))
    other.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


def test_a_broken_row_does_not_stop_the_sweep(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A job that cannot be swept is named in the log; those before and after it are, also on other pages."""

    async def body() -> None:
        clock = SetClock()
        async with opened(tmp_path / "store.db", clock) as store:
            maker = JobFactory(store, clock)
            leases = [(await maker.running()).lease for _ in range(3)]
            broken = sorted(lease.job_id for lease in leases)[1]
            _take_next_event_number(tmp_path / "store.db", broken)
            clock.pass_(LEASE_SECONDS + 1)
            with caplog.at_level(logging.ERROR, "langlauf"):
                swept = await store.sweep(grace_seconds=5, backoff=Backoff(), limit=2)
            assert {one.job_id for one in swept} == {lease.job_id for lease in leases} - {broken}
            told = [record.fields for record in caplog.records if record.message == LogEvent.MAINTENANCE_FAILED]  # type: ignore[attr-defined]
            assert [(fields["duty"], fields["job_id"], fields["jobs"]) for fields in told] == [("sweep", broken, 1)]

    asyncio.run(body())


def test_a_store_that_is_away_fails_the_sweep_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asked for one sweep learns that nothing came of it; one line tells of all the jobs."""
    monkeypatch.setattr(connection, "BUSY_MILLISECONDS", 50)

    async def body() -> None:
        clock = SetClock()
        async with opened(tmp_path / "store.db", clock) as store:
            maker = JobFactory(store, clock)
            for _ in range(5):
                await maker.running()
            clock.pass_(LEASE_SECONDS + 1)
            told = EVENT_COUNTS[LogEvent.MAINTENANCE_FAILED]
            with _locked(tmp_path / "store.db"), pytest.raises(StoreUnavailable):
                await store.sweep(grace_seconds=5, backoff=Backoff())
            assert EVENT_COUNTS[LogEvent.MAINTENANCE_FAILED] == told + 1
            assert len(await store.sweep(grace_seconds=5, backoff=Backoff())) == 5

    asyncio.run(body())


def test_the_sweep_goes_on_after_the_store_was_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds fail and are told while another program holds the file, past the time SQLite waits; then one succeeds."""
    monkeypatch.setattr(connection, "BUSY_MILLISECONDS", 50)

    async def body() -> None:
        clock = SetClock()
        async with opened(tmp_path / "store.db", clock) as store:
            lost = await JobFactory(store, clock).running()
            clock.pass_(LEASE_SECONDS + 1)
            failed, taken = asyncio.Event(), asyncio.Event()

            async def once() -> None:
                try:
                    swept = await store.sweep(grace_seconds=5, backoff=Backoff())
                except StoreUnavailable:
                    failed.set()
                    raise
                if [one.job_id for one in swept] == [lost.lease.job_id]:
                    taken.set()

            sweep = PeriodicDuty("sweep", 0.01, once)
            told = EVENT_COUNTS[LogEvent.MAINTENANCE_FAILED]
            with _locked(tmp_path / "store.db"):
                await sweep.start()
                await asyncio.wait_for(failed.wait(), 10)
                failed.clear()
                await asyncio.wait_for(failed.wait(), 10)
                assert sweep.alive
            await asyncio.wait_for(taken.wait(), 10)
            await sweep.stop()
            assert EVENT_COUNTS[LogEvent.MAINTENANCE_FAILED] >= told + 2

    asyncio.run(body())


def test_a_hint_wakes_the_sweep_before_its_time() -> None:
    """The pause ends when a job is overdue, and only then."""

    async def body() -> None:
        hints, rounds = Hints(), asyncio.Queue[float]()
        loop = asyncio.get_running_loop()

        async def once() -> None:
            rounds.put_nowait(loop.time())

        sweep = PeriodicDuty("sweep", 1e9, once, pause=hints.wait_for_overdue)  # no tick comes meanwhile
        await sweep.start()
        first = await asyncio.wait_for(rounds.get(), 5)
        hints.overdue_after(0.2)
        second = await asyncio.wait_for(rounds.get(), 5)
        await sweep.stop()
        assert second - first >= 0.19
        assert rounds.empty()

    asyncio.run(body())
