"""The client for coroutines against a real server: the same promises."""

import asyncio
from pathlib import Path

import pytest

from langlauf.client import AsyncClient, AsyncRemoteJob, Conflict, JobCanceled, NotFound, WaitTimeout
from langlauf.domain.state import Status
from tests.support.server import ServerProcess


async def until_step(job: AsyncRemoteJob, step: str) -> None:
    """Returns when the job says that it is there."""
    async for state in job.states(timeout=60):
        if state.step == step:
            return
    raise AssertionError(f"the job ended before {step}")


def test_many_jobs_at_once(server: ServerProcess, org: str) -> None:
    """One client follows many jobs side by side."""

    async def run() -> list[int]:
        async with AsyncClient(server.url, org) as client:
            jobs = await asyncio.gather(*(client.submit("echo", value=number) for number in range(30)))
            results = await asyncio.gather(*(job.result(timeout=60) for job in jobs))
            assert len([job async for job in client.jobs()]) == 30
            return [result["value"] for result in results]

    assert asyncio.run(run()) == list(range(30))


def test_events_and_partials(server: ServerProcess, org: str) -> None:
    """Followed live, the log has every number once and every partial comes with its payload."""

    async def run() -> None:
        async with AsyncClient(server.url, org) as client:
            job = await client.submit("steps", count=5)
            numbers = [event.event_seq async for event in job.events(timeout=60)]
            assert numbers == list(range(1, len(numbers) + 1))
            assert [len(partial.result["done"]) async for partial in job.partials()] == [1, 2, 3, 4, 5]
            assert len(await job.snapshots()) == 6
            assert len(await client.notifications(job.job_id)) == 1
            [message] = [one async for one in client.inbox(unread=True)]
            assert message.job_id == job.job_id
            assert (await client.mark_read(message.notification_id)).unread == 0

    asyncio.run(run())


def test_cancel_and_retry(server: ServerProcess, org: str) -> None:
    """A canceled job raises on its result and can be tried again."""

    async def run() -> None:
        async with AsyncClient(server.url, org) as client:
            job = await client.submit("hang")
            await until_step(job, "hanging")
            await job.cancel("enough")
            assert (await job.wait(timeout=60)).status is Status.CANCELED
            with pytest.raises(JobCanceled, match="enough"):
                await job.result()
            again = await job.retry()
            assert (await again.status()).retry_of == job.job_id
            with pytest.raises(Conflict):
                await client.submit("hang")
            await again.cancel()

    asyncio.run(run())


def test_waiting_gives_up_and_can_be_canceled(server: ServerProcess, org: str, tmp_path: Path) -> None:
    """A timeout, of the call or of the surrounding code, leaves the job alone."""

    async def run() -> None:
        async with AsyncClient(server.url, org) as client:
            job = await client.submit("gate", path=str(tmp_path / "go"))
            with pytest.raises(WaitTimeout):
                await job.wait(timeout=0.1)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(job.wait(), 0.1)
            (tmp_path / "go").touch()
            assert (await job.result(timeout=60)) == {"passed": str(tmp_path / "go")}
            with pytest.raises(NotFound):
                await client.get_result("nothing")
            with pytest.raises(NotFound):
                await client.get_views("nothing")

    asyncio.run(run())


def test_run_and_as_completed(server: ServerProcess, org: str) -> None:
    """One call to a result, and many jobs in the order of their ends."""

    async def run() -> None:
        async with AsyncClient(server.url, org) as client:
            assert (await client.run("echo", value=3))["value"] == 3
            jobs = [await client.submit("echo", value=number) for number in range(3)]
            ended = [job.job_id async for job in client.as_completed(jobs, timeout=60)]
            assert sorted(ended) == sorted(job.job_id for job in jobs)
            assert jobs[0].url in jobs[0]._repr_html_()

    asyncio.run(run())
