"""Commits whose response is lost: each runs once, and the caller gets the true outcome."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from langlauf.clock import new_id
from langlauf.domain.attempt import Progress, Write
from langlauf.domain.errors import StoreError, StoreUnavailable
from langlauf.domain.outcome import Canceled, Completed, Failed
from langlauf.hints import Hints
from langlauf.store.postgres.batch import run_rounds
from langlauf.store.postgres.connection import CALL_TIMEOUT
from langlauf.store.postgres.driver import PostgresStore
from tests.support.network import NoNetwork, network
from tests.support.postgres import fetch, own_server
from tests.support.relay import Draw, Loss, Relay, function_of, relayed
from tests.support.stores import JobFactory, SetClock

CUT = (Loss.ANSWERED, Loss.UNDERWAY)
ENDS: dict[str, Callable[[], Write]] = {
    "completed": lambda: Completed(result_id=new_id(), payload="{}"),
    "failed": lambda: Failed(code="internal", message="no", retryable=False),
    "canceled": lambda: Canceled(by="worker", reason="asked"),
}
#: TCP retransmits with growing pauses: later than this after a cut of `CALL_TIMEOUT`, not at all.
_SENT_AGAIN = 2 * CALL_TIMEOUT
#: Until then TCP has acknowledged what arrived; PostgreSQL drops a connection with unacknowledged data.
_SETTLED = 0.3


def _first_of(function: str, loss: Loss) -> Draw:
    """Lose the first response of a function."""
    left = [loss]
    return lambda query: left.pop() if left and function_of(query) == function else None


@asynccontextmanager
async def _behind_a_relay(url: str, draw: Draw) -> AsyncIterator[tuple[Relay, JobFactory]]:
    async with relayed(url, "127.0.0.1", draw) as (relay, through):
        store = await PostgresStore.open(through, hints=Hints(), clock=SetClock(), notify=False)
        try:
            yield relay, JobFactory(store, SetClock())
        finally:
            await store.close()


def _count(url: str, table: str) -> int:
    return int(fetch(url, f"SELECT count(*) FROM langlauf.{table}")[0][0])


@pytest.mark.parametrize("loss", CUT)
def test_a_submission_is_accepted_once(database: str, loss: Loss) -> None:
    """Its outcome comes with the second try, and there is one job."""

    async def main() -> None:
        async with _behind_a_relay(database, _first_of("submit", loss)) as (relay, maker):
            job = await maker.queued()
            assert relay.lost.total() == 1
            assert [row["job_id"] for row in fetch(database, "SELECT job_id FROM langlauf.jobs")] == [job.job_id]

    asyncio.run(main())


@pytest.mark.parametrize("loss", CUT)
def test_a_retried_claim_returns_its_jobs(database: str, loss: Loss) -> None:
    """The retry returns the jobs of the lost response: none is left to its lease."""

    async def main() -> None:
        async with _behind_a_relay(database, _first_of("claim", loss)) as (relay, maker):
            claim = await maker.claim(await maker.queued())
            assert relay.lost.total() == 1
            assert claim.lease.attempt == 1
            assert _count(database, "leases") == 1

    asyncio.run(main())


@pytest.mark.parametrize("loss", CUT)
@pytest.mark.parametrize("kind", ENDS)
def test_an_end_is_written_once_and_confirmed(database: str, kind: str, loss: Loss) -> None:
    """It is no lost attempt, although its lease is gone at the retry."""

    async def main() -> None:
        async with _behind_a_relay(database, _first_of("record", loss)) as (relay, maker):
            claim = await maker.claim(await maker.queued())
            assert await maker.store.record(claim.lease, ENDS[kind]())
            assert relay.lost.total() == 1

    asyncio.run(main())


@pytest.mark.parametrize("kind", ENDS)
def test_an_end_sent_again_after_a_timeout_is_confirmed(database: str, kind: str) -> None:
    """After a silence its batch is given up; the same end in another batch finds that it was committed."""

    async def main() -> None:
        async with _behind_a_relay(database, _first_of("record", Loss.SILENT)) as (_, maker):
            claim = await maker.claim(await maker.queued())
            end = ENDS[kind]()
            with pytest.raises(StoreUnavailable):
                await maker.store.record(claim.lease, end)
            assert await maker.store.record(claim.lease, end)
            assert not await maker.store.record(claim.lease, Completed(result_id=new_id(), payload="{}"))
            assert not await maker.store.record(claim.lease, Failed(code="other", message="no", retryable=False))
            assert not await maker.store.record(claim.lease, Progress(percent=1))

    asyncio.run(main())


@pytest.fixture(scope="module")
def hosted() -> Iterator[tuple[str, Callable[[], None], Callable[[], None]]]:
    """A database on a host of its own: its URL, and functions that cut and heal its network."""
    with network() as net:
        host = net.host("database")
        with own_server(listen=(host.address,), prefix=host.prefix) as server:
            yield server.url(), host.cut, host.heal


def test_a_refused_write_is_not_executed_after_the_cut(
    hosted: tuple[str, Callable[[], None], Callable[[], None]],
) -> None:
    """A submission during a cut fails in time, and does not arrive afterwards."""
    url, cut, heal = hosted

    async def main() -> None:
        store = await PostgresStore.open(url, hints=Hints(), clock=SetClock(), notify=False)
        maker = JobFactory(store, SetClock())
        await maker.queued()
        await asyncio.sleep(_SETTLED)
        cut()
        began = time.monotonic()
        with pytest.raises(StoreUnavailable):
            await maker.queued()
        assert time.monotonic() - began < 30, "the system itself would send again for a quarter of an hour"
        heal()
        await asyncio.sleep(_SENT_AGAIN)  # nothing comes
        assert await asyncio.to_thread(_count, url, "jobs") == 1
        await maker.queued()
        await store.close()

    asyncio.run(main())


def test_hosts_need_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the tests say what they need, instead of being skipped silently."""
    monkeypatch.setattr("os.geteuid", lambda: 1_000)
    with pytest.raises(NoNetwork, match=r"CAP_NET_ADMIN.*Missing: "), network():
        pass


def test_a_batch_fails_at_once_if_the_database_is_away() -> None:
    """Its later rounds would each wait for the timeout, one after the other."""
    sent: list[list[str]] = []

    async def away(batch: object) -> list[object]:
        sent.append(list(batch))  # type: ignore[call-overload]
        raise StoreUnavailable("away")

    answers = asyncio.run(run_rounds(["a", "a", "b", "a"], lambda one: [one], len, away))
    assert sent == [["a", "b"]]
    assert all(isinstance(answer, StoreUnavailable) for answer in answers)


def test_a_refused_operation_does_not_fail_the_others() -> None:
    """The others are sent again without it, and its own later rounds are tried."""

    async def send(batch: object) -> list[object]:
        operations = list(batch)  # type: ignore[call-overload]
        if "bad" in operations:
            raise StoreError("no")
        return [True] * len(operations)

    answers = asyncio.run(run_rounds(["a", "bad", "b", "a"], lambda one: [one], len, send))
    assert [answer if answer is True else type(answer) for answer in answers] == [True, StoreError, True, True]
