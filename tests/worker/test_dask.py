"""`job.map` on a Dask cluster: the same values, failures and checkpoints as on processes of this machine."""

import io
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import msgspec
import pytest
from distributed import Client

from langlauf import Langlauf
from langlauf.analysis.payload import decode
from langlauf.auth.caller import internal_caller
from langlauf.bootstrap import Runtime
from langlauf.domain.job import Accepted, JobRecord
from langlauf.domain.provenance import Source, sources_in
from langlauf.domain.state import Status
from langlauf.worker.dask import chunk_server, executor
from langlauf.worker.dask.executor import DaskSession
from tests.support.certificates import make_certificate
from tests.support.running_app import ORG, Body, done, ended, kinds, result, run
from tests.support.server import ROOT, command, environment
from tests.worker.dask_app import chunks_app
from tests.worker.dask_cluster import DaskCluster, dask_cluster

WAYS_TO_FAIL = ("value", "transient", "permanent", "flaky", "exit", "nan", "large", "memory", "die")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """Two workers with two threads each, for all tests that do not kill them."""
    with dask_cluster(tmp_path_factory.mktemp("dask")) as running:
        yield running


def _run(cluster: DaskCluster, folder: Path, body: Body, **environment: str) -> None:
    run(chunks_app(), folder, body, LANGLAUF_EXECUTOR=cluster.executor, **environment)


@pytest.mark.parametrize("analysis", ["maps", "maps_plainly"])
def test_values_come_in_the_order_of_the_items(cluster: DaskCluster, tmp_path: Path, analysis: str) -> None:
    """From processes beside the cluster's workers, with their sources; also more items than are under way."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        view = await done(app, runtime, analysis, function="place_of", items=[*range(30)])
        found = await result(runtime, view)
        assert [value["item"] for value in found] == [*range(30)]
        workers = {worker.pid for worker in cluster.workers}
        assert {value["worker"] for value in found} <= workers
        assert not {value["pid"] for value in found} & workers
        assert (await kinds(runtime, view.job.job_id)).count("job.progress") >= 2
        trail = await runtime.store.tenant(ORG).trail(view.job.job_id)
        assert sources_in(trail) == [Source(name="Places", version="1")]

    _run(cluster, tmp_path, body)


def _told(job: JobRecord) -> tuple[Any, ...]:
    meta = {name: value for name, value in decode(job.error_meta or "{}").items() if name != "trace"}
    return job.status, job.error_code, job.error_message, job.retryable, job.retry_hint, job.attempt, meta


async def _failures(app: Langlauf, runtime: Runtime) -> dict[str, tuple[Any, ...]]:
    jobs = {how: await app.submit("maps", function="fail", items=[how]) for how in WAYS_TO_FAIL}
    return {how: _told((await ended(runtime, job.job_id, 60)).job) for how, job in jobs.items()}


def test_failures_are_those_of_local_processes(cluster: DaskCluster, tmp_path: Path) -> None:
    """Code, message, hint, details, retries and deaths: nothing tells where the chunk was computed."""
    found: list[dict[str, tuple[Any, ...]]] = []

    async def body(app: Langlauf, runtime: Runtime) -> None:
        found.append(await _failures(app, runtime))

    (tmp_path / "local").mkdir()
    limits = {"LANGLAUF_MAX_RESULT": "1000000", "LANGLAUF_PROCESS_MEMORY": str(2**30)}
    run(chunks_app(), tmp_path / "local", body, **limits)
    _run(cluster, tmp_path, body, **limits)
    locally, on_dask = found
    assert on_dask == locally
    codes = {how: told[1] for how, told in on_dask.items()}
    assert codes == {
        "value": "validation_error",
        "transient": "network_error",
        "permanent": "address_intel",
        "flaky": "internal",
        "exit": "internal",
        "nan": "result_unstorable",
        "large": "result_too_large",
        "memory": "internal",
        "die": "worker_lost",
    }
    assert "hunter22" not in str(on_dask)


def test_only_the_name_of_the_runner_and_bytes_are_sent(
    cluster: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Dask pickles refers to Python and Dask alone; our function is text, the application's in the bytes."""
    graphs: list[Any] = []
    send: Any = Client._send_to_scheduler

    def listen(self: Client, message: dict[str, Any]) -> None:
        if message["op"] == "update-graph":
            graphs.append(message)
        send(self, message)

    monkeypatch.setattr(Client, "_send_to_scheduler", listen)

    async def body(app: Langlauf, runtime: Runtime) -> None:
        await done(app, runtime, "maps", function="cube", items=[2])

    with dask.config.set({"distributed.diagnostics.computations.nframes": 5}):
        _run(cluster, tmp_path, body)
    [graph] = graphs
    first, *buffers = graph["expr_ser"].frames
    names: set[str] = set()
    _Listening(first, buffers, names).load()
    foreign = {name for name in names if not name.startswith(("dask.", "builtins."))}
    assert foreign == {"_operator.call", "pkgutil.resolve_name"}
    assert b"langlauf.worker.dask.chunk_server:run_chunk" in bytes(first)
    assert b"tests.support.plain_app:cube" in bytes(first)
    assert graph["code"].data == (), "no source code goes along, whatever is configured"


class _Listening(pickle.Unpickler):
    """Takes down every name that a pickle refers to."""

    def __init__(self, data: bytes, buffers: list[Any], names: set[str]) -> None:
        super().__init__(io.BytesIO(data), buffers=buffers)
        self._names = names

    def find_class(self, module: str, name: str) -> Any:
        self._names.add(f"{module}.{name}")
        return super().find_class(module, name)


def test_a_resume_computes_only_what_is_missing(cluster: DaskCluster, tmp_path: Path) -> None:
    """Finished chunks were kept at once, although another one failed."""
    ledger = tmp_path / "ledger"
    items = [{"n": number, "file": str(ledger)} for number in range(4)]
    items[3]["fail"] = "value"

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = (await done(app, runtime, "maps", function="square", items=items)).job
        assert (job.status, job.error_code) == (Status.FAILED, "validation_error")
        again = await runtime.services.control.retry(
            internal_caller(ORG), job.job_id, resume=True, idempotency_key=None
        )
        assert isinstance(again, Accepted)
        assert (await ended(runtime, again.job.job_id, 60)).job.status is Status.FAILED
        lines = ledger.read_text(encoding="utf-8").splitlines()
        assert (lines.count("square 3"), len(lines)) == (2, 5)

    _run(cluster, tmp_path, body)


def test_few_chunks_are_under_way_at_once(
    cluster: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice as many as the cluster has threads, and not all of them."""
    under_way, most = 0, 0
    ask = DaskSession.run

    async def count(self: DaskSession, task: str, call: bytes) -> object:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        try:
            return await ask(self, task, call)
        finally:
            under_way -= 1

    monkeypatch.setattr(DaskSession, "run", count)

    async def body(app: Langlauf, runtime: Runtime) -> None:
        found = await result(runtime, await done(app, runtime, "maps", function="cube", items=[*range(200)]))
        assert found == [number**3 for number in range(200)]

    _run(cluster, tmp_path, body)
    assert most == 8


def test_items_may_be_large_and_prints_are_logged_under_their_job(cluster: DaskCluster, tmp_path: Path) -> None:
    """Without a warning about the size; the output of a chunk is in the log of its Dask worker."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        view = await done(app, runtime, "maps", function="length", items=["x" * 12_000_000])
        assert await result(runtime, view) == [12_000_000]
        [line] = [line for line in cluster.log.splitlines() if "12000000 letters" in line]
        assert view.job.job_id in line
        assert "hunter22" not in line

    _run(cluster, tmp_path, body)


def test_a_function_of_the_started_program_is_refused(cluster: DaskCluster, tmp_path: Path) -> None:
    """A Dask worker has another main program: people hear where to put the function."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = (await done(app, runtime, "maps", function="of_main", items=[1])).job
        assert job.status is Status.FAILED
        assert "move it to a module that is installed on the cluster" in (job.error_message or "")

    _run(cluster, tmp_path, body)


def test_a_cluster_without_the_application_says_what_to_install(cluster: DaskCluster, tmp_path: Path) -> None:
    """The function's module is missing there."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = (await done(app, runtime, "maps", function="missing", items=[1])).job
        assert (job.status, job.error_code, job.attempt) == (Status.FAILED, "internal", 1)
        assert (job.error_message or "").startswith("tests.nowhere:missing cannot be imported")
        assert "install the application there" in (job.error_message or "")

    _run(cluster, tmp_path, body)


def test_a_cluster_without_langlauf_says_what_to_install(tmp_path: Path) -> None:
    """And nothing falls over there: the worker goes on working for others."""
    (tmp_path / "langlauf.py").write_text("raise ModuleNotFoundError('No module named langlauf')\n", "utf-8")

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = (await done(app, runtime, "maps", function="cube", items=[1])).job
        assert (job.status, job.error_code, job.attempt) == (Status.FAILED, "internal", 1)
        assert "(ModuleNotFoundError): install langlauf" in (job.error_message or "")
        assert bare.workers[0].poll() is None

    with dask_cluster(tmp_path, workers=1, PYTHONPATH=str(tmp_path)) as bare:
        _run(bare, tmp_path, body)


def test_another_version_of_the_message_is_a_clear_error(
    cluster: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither side guesses what the other one meant."""
    monkeypatch.setattr(
        executor,
        "encode_message",
        lambda call: chunk_server.encode_message(
            msgspec.structs.replace(call, version=chunk_server.PROTOCOL_VERSION + 1)
        ),
    )

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = (await done(app, runtime, "maps", function="cube", items=[1])).job
        assert (job.status, job.error_code, job.attempt) == (Status.FAILED, "internal", 1)
        assert "another version of langlauf" in (job.error_message or "")

    _run(cluster, tmp_path, body)


def test_without_the_extra_the_program_says_what_to_install(tmp_path: Path) -> None:
    """At its start, and not when the first chunk is due."""
    (tmp_path / "distributed.py").write_text("raise ModuleNotFoundError('none', name='distributed')\n", "utf-8")
    known = environment(LANGLAUF_EXECUTOR="dask://127.0.0.1:8786")
    known["PYTHONPATH"] = os.pathsep.join((str(tmp_path), known["PYTHONPATH"]))
    words = command("worker", "tests.worker.dask_app:app", "--store", "memory://")
    ended = subprocess.run(words, env=known, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "needs the package distributed: pip install 'langlauf[dask]'" in ended.stderr


def test_without_a_cluster_nothing_of_dask_is_loaded() -> None:
    """Without its setting, Dask need not be installed, and is not imported."""
    program = "import sys, langlauf.cli.main; print({'dask', 'distributed'} & set(sys.modules))"
    told = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=True
    )
    assert told.stdout == "set()\n"


def test_a_cluster_may_ask_for_tls(tmp_path: Path) -> None:
    """Certificates are where Dask's own configuration says."""
    key, certificate = make_certificate(tmp_path)
    roles = ("scheduler", "worker", "client")
    tls: dict[str, str] = {"ca-file": str(certificate)}
    tls |= {f"{role}.{part}": str(file) for role in roles for part, file in (("cert", certificate), ("key", key))}
    known = {
        f"DASK_DISTRIBUTED__COMM__TLS__{name.replace('.', '__').replace('-', '_').upper()}": tls[name] for name in tls
    }

    async def body(app: Langlauf, runtime: Runtime) -> None:
        assert await result(runtime, await done(app, runtime, "maps", function="cube", items=[2])) == [8]

    with (
        dask.config.set({f"distributed.comm.tls.{name}": value for name, value in tls.items()}),
        dask_cluster(tmp_path, workers=1, DASK_DISTRIBUTED__COMM__DEFAULT_SCHEME="tls", **known) as cluster,
    ):
        assert cluster.executor.startswith("tls://")
        _run(cluster, tmp_path, body)
