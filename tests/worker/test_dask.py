"""`job.map` on a Dask cluster: the same values, failures and promises as on processes of this machine."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from langlauf import Langlauf
from langlauf.bootstrap import Runtime
from tests.support.chunks import chunks_app
from tests.support.dask import DaskCluster, dask_cluster
from tests.support.working import Body, done, kinds, lines_of, result, run


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """Two workers with two threads each, for all tests that do not kill them."""
    with dask_cluster(tmp_path_factory.mktemp("dask")) as running:
        yield running


def _run(cluster: DaskCluster, folder: Path, body: Body, **environment: str) -> None:
    run(chunks_app(), folder, body, LANGLAUF_EXECUTOR=cluster.executor, **environment)


@pytest.mark.parametrize("analysis", ["maps", "maps_plainly"])
def test_values_come_in_the_order_of_the_items(cluster: DaskCluster, tmp_path: Path, analysis: str) -> None:
    """From the cluster's workers, each in a process of its own; more items than are under way at once."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        view = await done(app, runtime, analysis, function="place_of", items=[*range(30)], seconds=60)
        found = await result(runtime, view)
        assert [value["item"] for value in found] == [*range(30)]
        assert {value["worker"] for value in found} <= {worker.pid for worker in cluster.workers}
        assert not {value["pid"] for value in found} & {worker.pid for worker in cluster.workers}
        assert (await kinds(runtime, view.job.job_id)).count("job.progress") >= 2

    _run(cluster, tmp_path, body)
