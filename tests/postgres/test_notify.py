"""Hosts wake each other by notifications, and find jobs by polling without them."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import cast

import asyncpg
import pytest

from langlauf import Job, Langlauf
from langlauf.clock import new_id, new_trace_id
from langlauf.domain import job as jobs
from langlauf.domain.attempt import ClaimRequest
from langlauf.domain.job import Accepted, NewJob
from langlauf.domain.outcome import Completed
from langlauf.domain.read_models import CancelRequest
from langlauf.domain.state import Status
from langlauf.hints import Hints
from langlauf.settings import load_settings
from langlauf.store.postgres import notify
from langlauf.store.postgres.driver import PostgresStore
from langlauf.store.postgres.notify import (
    MAX_PAYLOAD_BYTES,
    MAX_PAYLOADS,
    NotificationListener,
    decode_payload,
    encode_payloads,
)
from langlauf.store.protocol import Store
from langlauf.telemetry.log import EVENT_COUNTS, LogEvent
from langlauf.telemetry.metrics import BATCHES
from langlauf.worker.claimer import Claimer
from langlauf.worker.worker import Worker
from tests.support.postgres import fetch

#: At how many moments of its start a listener is closed.
_MOMENTS = 60

#: Poll interval that no test reaches: what starts was woken by a notification.
SELDOM = 600.0
OFTEN = 0.1
#: Seconds to wait for an event on a busy machine.
WAIT_SECONDS = 60.0
_LISTENERS = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query ~ '^LISTEN|^NOTIFY'"
_END = f"SELECT pg_terminate_backend(pid) FROM ({_LISTENERS}) AS listeners"


class Host:
    """A store with hints of its own, as on another machine."""

    def __init__(self, store: PostgresStore, hints: Hints) -> None:
        self.store = store
        self.hints = hints

    async def submit(self) -> str:
        """Submit a job."""
        answer = await self.store.submit(_new_job())
        assert isinstance(answer, Accepted)
        return answer.job.job_id


@asynccontextmanager
async def _host(url: str, *, notify: bool = True) -> AsyncIterator[Host]:
    hints = Hints()
    store = await PostgresStore.open(url, hints=hints, notify=notify)
    try:
        yield Host(store, hints)
    finally:
        await store.close()


@asynccontextmanager
async def _working(host: Host, poll_seconds: float) -> AsyncIterator["asyncio.Queue[None]"]:
    """Run a worker on a host; the queue has an entry for each job that it started."""
    app, starts = Langlauf(), asyncio.Queue[None]()

    @app.analysis(duplicates=True)
    async def survey(job: Job) -> None:
        assert job.attempt == 1
        starts.put_nowait(None)

    settings = load_settings({}, poll_seconds=poll_seconds, watchdog=False)
    source = partial(Claimer, host.store, host.hints, settings.poll_seconds)
    worker = Worker(cast("Store", host.store), app.registry, settings, host.hints, host.store.clock, source)
    await worker.start()
    try:
        yield starts
    finally:
        await worker.stop()


def _new_job() -> NewJob:
    job = jobs.JobRecord(
        job_id=new_id(),
        org_id="org-a",
        analysis="survey",
        status=Status.QUEUED,
        priority_class="default",
        request_payload_hash="0" * 64,
        request_payload_ref=jobs.INLINE_REF,
        queued_at=0,
        updated_at=0,
        timeout_seconds=60.0,
        max_retries=0,
        trace_id=new_trace_id(),
        request_id=new_id(),
    )
    return NewJob(job=job, payload="{}", refuse_duplicate=False, max_waiting_org=1_000, max_waiting_all=1_000)


async def _start_one(host: Host, starts: "asyncio.Queue[None]") -> None:
    """Submit a job, and wait for its start."""
    await host.submit()
    async with asyncio.timeout(WAIT_SECONDS):
        await starts.get()


async def _until(condition: Callable[[], bool | Awaitable[bool]], seconds: float = WAIT_SECONDS) -> None:
    async with asyncio.timeout(seconds):
        while True:
            found = condition()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.02)


async def _listening(url: str, hosts: int) -> None:
    async def all_of_them() -> bool:
        return len(await asyncio.to_thread(fetch, url, _LISTENERS)) == hosts

    await _until(all_of_them)


def test_a_notification_starts_a_job_on_another_host(database: str) -> None:
    """Five in a row, none of them by polling."""

    async def main() -> None:
        async with _host(database) as api, _host(database) as other, _working(other, SELDOM) as starts:
            await _listening(database, 2)
            for _ in range(5):
                await _start_one(api, starts)

    asyncio.run(main())


@pytest.mark.parametrize(("api_tells", "worker_hears"), [(False, True), (True, False), (False, False)])
def test_without_notifications_a_job_is_found_by_polling(database: str, *, api_tells: bool, worker_hears: bool) -> None:
    """With notifications off on either side, a worker polls."""

    async def main() -> None:
        async with (
            _host(database, notify=api_tells) as api,
            _host(database, notify=worker_hears) as other,
            _working(other, OFTEN) as starts,
        ):
            await _listening(database, api_tells + worker_hears)
            for _ in range(5):
                await _start_one(api, starts)

    asyncio.run(main())


def test_a_killed_listener_reconnects_and_logs_it_once(database: str) -> None:
    """Each time its connection is ended, it logs once that it is away and once that it is back."""

    async def main() -> None:
        async with _host(database, notify=False) as api, _host(database) as other, _working(other, OFTEN) as starts:
            for _ in range(3):
                await _listening(database, 1)
                before = EVENT_COUNTS[LogEvent.LISTENER_AWAY], EVENT_COUNTS[LogEvent.LISTENER_BACK]
                await asyncio.to_thread(fetch, database, _END)
                await _start_one(api, starts)
                await _until(lambda before=before: EVENT_COUNTS[LogEvent.LISTENER_BACK] == before[1] + 1)  # type: ignore[misc]
                assert EVENT_COUNTS[LogEvent.LISTENER_AWAY] == before[0] + 1

    asyncio.run(main())


def test_a_reconnected_listener_wakes_workers(database: str) -> None:
    """Jobs of other hosts start at once as before."""

    async def main() -> None:
        async with _host(database) as api, _host(database) as other, _working(other, SELDOM) as starts:
            await _listening(database, 2)
            before = EVENT_COUNTS[LogEvent.LISTENER_BACK]
            await asyncio.to_thread(fetch, database, _END)
            await _until(lambda: EVENT_COUNTS[LogEvent.LISTENER_BACK] == before + 2)
            await _start_one(api, starts)  # the reconnect alone wakes all workers
            await _start_one(api, starts)

    asyncio.run(main())


def test_jobs_submitted_while_disconnected_are_found_on_reconnect(database: str) -> None:
    """Not only at the next poll."""

    async def main() -> None:
        async with _host(database) as api, _host(database) as other:
            await _listening(database, 2)
            before = EVENT_COUNTS[LogEvent.LISTENER_BACK]
            await asyncio.to_thread(fetch, database, _END)
            await api.submit()
            await _until(lambda: EVENT_COUNTS[LogEvent.LISTENER_BACK] == before + 2)
            async with asyncio.timeout(WAIT_SECONDS):
                await other.hints.wait_for_work(SELDOM)

    asyncio.run(main())


def test_followers_and_running_attempts_elsewhere_are_woken(database: str) -> None:
    """A start and an end wake followers of the job on another host, and a cancel wakes the heartbeat there."""

    async def main() -> None:
        async with _host(database) as api, _host(database) as other:
            await _listening(database, 2)
            job_id, stranger = await api.submit(), new_id()
            event, nothing = asyncio.Event(), asyncio.Event()
            api.hints.follow(job_id, event)
            api.hints.follow(stranger, nothing)
            request = ClaimRequest(
                worker_id="w", slots=1, analyses=("survey",), lease_seconds=60.0, max_running=8, limits={}
            )
            [claim] = await other.store.claim(request)
            async with asyncio.timeout(WAIT_SECONDS):
                await event.wait()
            event.clear()
            await other.hints.wait_for_attention(0)  # of its own start of listening
            canceled = CancelRequest(org_id="org-a", job_id=job_id, by="user", reason="no", request_id=new_id())
            await api.store.cancel(canceled)
            async with asyncio.timeout(WAIT_SECONDS):
                await other.hints.wait_for_attention(SELDOM)
            event.clear()
            await other.store.record(claim.lease, Completed(result_id=new_id(), payload="{}"))
            async with asyncio.timeout(WAIT_SECONDS):
                await event.wait()
            assert not nothing.is_set()

    asyncio.run(main())


def test_a_burst_is_sent_in_few_notifications(database: str) -> None:
    """Five hundred jobs at once wake other hosts a few times, and this one per batch: it ignores its notifications."""

    async def main() -> tuple[int, int]:
        heard: list[str] = []
        async with _host(database) as api, _host(database) as other:
            await _listening(database, 2)
            api.hints.work = lambda: heard.append("own")  # type: ignore[method-assign]
            other.hints.work = lambda: heard.append("other's")  # type: ignore[method-assign]
            await asyncio.gather(*(api.submit() for _ in range(500)))
            await _until(lambda: "other's" in heard)
            await asyncio.sleep(0.2)  # for anything else that might come
        return heard.count("own"), heard.count("other's")

    before = BATCHES.count("submits")
    own, others = asyncio.run(main())
    assert 1 <= own == BATCHES.count("submits") - before
    assert others <= 50


def test_a_host_that_is_alone_sends_nothing_until_another_one_comes(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only that it is there: by that another one is known as soon as it listens."""
    monkeypatch.setattr(notify, "_CHECK_INTERVAL", 0.1)
    monkeypatch.setattr(notify, "_ALONE_SECONDS", 2.0)

    async def main() -> None:
        sent: list[notify.NotifyPayload] = []
        watching = await asyncpg.connect(database)
        await watching.add_listener("langlauf", lambda *received: sent.append(decode_payload(str(received[-1]))))
        try:
            async with _host(database) as api:
                await api.submit()
                await _until(lambda: any(one.work for one in sent))  # there may be others
                await asyncio.sleep(3.0)
                sent.clear()
                await api.submit()
                await _until(lambda: len(sent) >= 5)
                assert not any(one.work or one.jobs for one in sent)
                async with _host(database) as other, _working(other, SELDOM) as starts:
                    await _listening(database, 3)
                    own = sent[0].sender
                    await _until(lambda: sum(one.sender != own for one in sent) >= 3)
                    for _ in range(5):
                        await _start_one(api, starts)
        finally:
            await watching.close()

    asyncio.run(main())


def test_unknown_notifications_are_ignored(database: str) -> None:
    """The next notification is still received."""

    async def main() -> None:
        async with _host(database) as api, _host(database) as other, _working(other, SELDOM) as starts:
            await _listening(database, 2)
            for payload in ("", "hello", "[]", '{"from":1}', '{"from":"x","jobs":{}}', "\u2603" * 2_000):
                await asyncio.to_thread(fetch, database, "SELECT pg_notify('langlauf', $1)", payload)
            await _start_one(api, starts)
            await _start_one(api, starts)

    asyncio.run(main())


@pytest.mark.parametrize("count", [0, 1, 150, 5_000])
def test_notifications_are_small_and_complete(count: int) -> None:
    """Jobs beyond the limit are left out; the wake-up flags never are."""
    ids = [new_id() for _ in range(count)]
    payloads = encode_payloads("me", work=True, attention=False, jobs=ids)
    received = [decode_payload(payload) for payload in payloads]
    assert all(len(payload.encode()) <= MAX_PAYLOAD_BYTES for payload in payloads)
    assert len(received) <= MAX_PAYLOADS
    assert [job_id for one in received for job_id in one.jobs] == ids[: sum(len(one.jobs) for one in received)]
    assert sum(len(one.jobs) for one in received) >= min(count, 600)
    assert (received[0].sender, received[0].work, received[0].attention) == ("me", True, False)


@pytest.mark.parametrize("job_id", ['"' * 3_000, "\u00fc" * 4_000, "x" * 9_000, "a b"])
def test_ids_of_any_kind_fit(job_id: str) -> None:
    """Ids of legacy systems need not be UUIDs."""
    payloads = encode_payloads("me", work=False, attention=True, jobs=[job_id, new_id()])
    assert all(len(payload.encode()) <= MAX_PAYLOAD_BYTES for payload in payloads)
    assert decode_payload(payloads[0]).attention


def test_a_listener_can_be_closed_at_any_moment(database: str) -> None:
    """While it connects, as soon as it listens, or in between: a short command must end."""

    async def body() -> None:
        began = time.monotonic()
        listener = NotificationListener(database, Hints(), ignored_sender="none")
        listener.start()
        while not listener.listening:  # noqa: ASYNC110 - it has nobody to tell but its hints
            await asyncio.sleep(0)
        await listener.close()
        way = time.monotonic() - began
        for step in range(_MOMENTS):
            listener = NotificationListener(database, Hints(), ignored_sender="none")
            listener.start()
            await asyncio.sleep(1.2 * way * step / _MOMENTS)
            async with asyncio.timeout(WAIT_SECONDS):
                await listener.close()

    asyncio.run(body())
