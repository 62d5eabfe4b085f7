"""Chunks on a Dask cluster end when they must, at a cancel, a time limit or a lost lease, and survive lost workers."""

import asyncio
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from langlauf import Client, Langlauf
from langlauf.auth.caller import internal_caller
from langlauf.bootstrap import Runtime
from langlauf.domain.state import Status
from langlauf.worker.dask import executor
from tests.support.processes import alive, eventually
from tests.support.running_app import ORG, Body, cancel, done, ended, lines_of, result, run
from tests.support.server import serving
from tests.worker.dask_app import chunks_app
from tests.worker.dask_cluster import DaskCluster, dask_cluster

#: For tests in which a lease ends.
SHORT_LEASE = {"LANGLAUF_LEASE_SECONDS": "3"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """One worker with two threads; it stays."""
    with dask_cluster(tmp_path_factory.mktemp("dask"), workers=1) as running:
        yield running


def _run(executor: str, folder: Path, body: Body, app: Langlauf | None = None, **environment: str) -> None:
    run(app or chunks_app(), folder, body, LANGLAUF_EXECUTOR=executor, **environment)


def _pids(file: Path) -> set[int]:
    return {int(line.split()[1]) for line in file.read_text("utf-8").splitlines()}


def _wait_until_gone(file: Path) -> None:
    """Wait until every process that noted a tick is gone; by itself each would tick for ten minutes."""
    eventually(lambda: not any(alive(pid) for pid in _pids(file)))


def _ticking(file: Path, count: int) -> list[dict[str, object]]:
    return [{"n": number, "file": str(file)} for number in range(count)]


@pytest.mark.parametrize("analysis", ["maps", "maps_plainly"])
def test_a_cancel_ends_the_processes_of_chunks_that_run(cluster: DaskCluster, tmp_path: Path, analysis: str) -> None:
    """Within the grace; those that waited never begin, and the cluster computes for others."""
    ledger = tmp_path / "ledger"

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = await app.submit(analysis, function="tick", items=_ticking(ledger, 6))
        await lines_of(ledger, 1)
        await asyncio.to_thread(eventually, lambda: len(_pids(ledger)) == 2)
        await cancel(runtime, job.job_id)
        assert (await ended(runtime, job.job_id)).job.status is Status.CANCELED
        await asyncio.to_thread(_wait_until_gone, ledger)
        assert await result(runtime, await done(app, runtime, "maps", function="cube", items=[2])) == [8]
        assert len(_pids(ledger)) == 2, "one for each thread of the cluster"

    _run(cluster.executor, tmp_path, body)


def test_a_function_that_clings_to_its_map_does_not_keep_it(cluster: DaskCluster, tmp_path: Path) -> None:
    """It is left alone after the grace, and what computed for it ends."""
    ledger = tmp_path / "ledger"

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = await app.submit("clings", function="tick", items=_ticking(ledger, 2))
        await lines_of(ledger, 20)
        await cancel(runtime, job.job_id)
        assert (await ended(runtime, job.job_id)).job.status is Status.CANCELED
        await asyncio.to_thread(_wait_until_gone, ledger)

    _run(cluster.executor, tmp_path, body)


def test_a_time_limit_ends_the_processes(cluster: DaskCluster, tmp_path: Path) -> None:
    """The attempt is over, and so is everything that computed for it."""
    ledger = tmp_path / "ledger"

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = (await done(app, runtime, "maps", function="tick", items=_ticking(ledger, 2))).job
        assert (job.status, job.error_code) == (Status.FAILED, "timeout")
        if ledger.exists():
            await asyncio.to_thread(_wait_until_gone, ledger)

    for limit in (2, 8, 32):  # on a busy machine a short one is over before a chunk has begun
        if not ledger.exists():
            _run(cluster.executor, tmp_path, body, chunks_app(timeout=limit, max_retries=0))
    assert ledger.exists()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_chunks_end_with_the_worker_that_asked_for_them(
    cluster: DaskCluster, tmp_path: Path, how: signal.Signals
) -> None:
    """Dask notices a killed worker; for a paused one, the heartbeat stops before its lease expires."""
    ledger = tmp_path / "ledger"
    settings = {"LANGLAUF_EXECUTOR": cluster.executor, **(SHORT_LEASE if how is signal.SIGSTOP else {})}
    with serving(tmp_path / "store.db", app="tests.worker.dask_app:app", settings=settings) as server:
        with Client(server.url) as client:
            client.submit("maps", function="tick", items=_ticking(ledger, 4))
        eventually(lambda: ledger.exists() and ledger.stat().st_size > 500)
        server.process.send_signal(how)
        _wait_until_gone(ledger)
        begun = _pids(ledger)
        time.sleep(1)  # nothing tells that nothing begins
        assert _pids(ledger) == begun
        server.stop(signal.SIGKILL)


def test_a_dask_worker_that_dies_costs_nothing_until_a_chunk_kills_too_many(tmp_path: Path) -> None:
    """Its chunk is computed again by another one, in the same attempt; after three deaths the job is given up."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        for how in (signal.SIGKILL, signal.SIGTERM):
            file = tmp_path / how.name
            item = {"file": str(file), "times": 1, "signal": how}
            view = await done(app, runtime, "maps", function="kill", items=[item])
            assert await result(runtime, view) == ["survived"]
            assert (view.job.attempt, view.job.crash_count) == (1, 0)
            assert file.read_text("utf-8").splitlines() == ["killer", "killer"]
        item = {"file": str(tmp_path / "again"), "times": 9, "signal": signal.SIGKILL}
        job = (await done(app, runtime, "maps", function="kill", items=[item])).job
        assert (job.status, job.error_code, job.retryable) == (Status.FAILED, "worker_lost", True)
        assert "after 3 deaths" in (job.error_message or "")
        assert (tmp_path / "again").read_text("utf-8").splitlines() == ["killer"] * 3

    with dask_cluster(tmp_path, workers=5, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="2") as cluster:
        _run(cluster.executor, tmp_path, body)


def test_a_scheduler_that_cannot_be_reached_is_a_failure_that_may_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again, and the job says in the end what was missing."""
    monkeypatch.setattr(executor, "_CONNECT_SECONDS", 0.3)

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = (await done(app, runtime, "maps", function="cube", items=[1])).job
        assert (job.status, job.error_code, job.retryable) == (Status.FAILED, "network_error", True)
        assert (job.attempt, job.retry_hint) == (2, "retry_with_backoff")
        assert "cannot be reached" in (job.error_message or "")

    _run("dask://127.0.0.1:1", tmp_path, body)


def test_a_map_goes_on_with_a_new_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old one took what was under way along; what was finished is kept, and a new client takes over."""
    monkeypatch.setattr(executor, "_CONNECT_SECONDS", 0.5)
    ledger, ticks = tmp_path / "ledger", tmp_path / "ticks"
    items = [{"n": number, "file": str(ledger)} for number in range(3)]
    items.append({"n": 3, "file": str(ledger), "wait": str(ticks)})

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = await app.submit("maps", function="square_after", items=items)
        until = runtime.services.followers.until
        view = await until(internal_caller(ORG), job.job_id, 60, lambda view: view.job.progress_percent >= 75)
        assert view is not None
        assert view.job.progress_percent == 75, "three of four chunks are stored"
        await lines_of(ticks, 3)
        cluster.scheduler.kill()
        cluster.scheduler.wait()
        await asyncio.to_thread(_wait_until_gone, ticks)
        ticks.rename(tmp_path / "no longer")
        await asyncio.to_thread(cluster.start_scheduler, port)
        cluster.add_worker()
        view = await ended(runtime, job.job_id)
        assert await result(runtime, view) == [0, 1, 4, 9]
        assert view.job.attempt >= 2
        assert sorted(ledger.read_text("utf-8").splitlines()) == [f"square {number}" for number in range(4)]

    with dask_cluster(tmp_path, workers=1) as cluster:
        port = cluster.executor.rpartition(":")[2]
        app = chunks_app(max_retries=50)
        quick = {"LANGLAUF_RETRY_BASE": "0.5", "LANGLAUF_RETRY_CAP": "0.5", **SHORT_LEASE}
        _run(cluster.executor, tmp_path, body, app, **quick)
