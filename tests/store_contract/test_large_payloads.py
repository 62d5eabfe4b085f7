"""Every store asks where large payloads lie: when they are written, read and removed, and not otherwise."""

from pathlib import Path

import pytest

from langlauf.domain.attempt import Partial
from langlauf.domain.errors import PayloadUnavailable
from langlauf.domain.outcome import Completed
from langlauf.domain.result import RetentionPolicy
from langlauf.maintenance.erasure import erase
from langlauf.store.blobs.files import FileBlobs
from langlauf.store.protocol import Store
from tests.store_contract.conftest import Harness
from tests.support.stores import DAY, SetClock
from tests.support.submissions import ORG, started

_LIMIT = 100
_SMALL, _LARGE, _LARGER = '"small"', '"' + "x" * 200 + '"', '"' + "y" * 300 + '"'
_POLICY = RetentionPolicy(final_results=7 * DAY, partial_results=7 * DAY, events=3 * DAY, jobs=90 * DAY)


def _use(store: Store, folder: Path) -> None:
    store.blobs.use(FileBlobs(folder), largest_inline=_LIMIT, seconds=10)


def _sizes(folder: Path) -> list[int]:
    """How large the blobs are that lie there."""
    return sorted(file.stat().st_size for file in folder.rglob("*") if file.is_file() and file.suffix != ".mark")


async def _written(store: Store, clock: SetClock) -> str:
    """A job with a small partial, a large one and a large result."""
    made = await started(store, clock)
    assert await store.record(made.lease, Partial(result_id="r-1", payload=_SMALL))
    assert await store.record(made.lease, Partial(result_id="r-2", payload=_LARGE))
    assert await store.record(made.lease, Completed(result_id="r-3", payload=_LARGER))
    return made.lease.job_id


async def _read(store: Store, result_id: str) -> tuple[str | None, bytes]:
    """A payload as a whole, and in pieces."""
    reads = store.tenant(ORG)
    found, source = await reads.result(result_id, latest=False), await reads.source(result_id)
    assert found is not None
    assert source is not None
    pieces = b""
    while len(pieces) < source.size:
        pieces += await source.read(len(pieces))
    return found.delivered.payload, pieces


def test_what_is_large_is_a_blob_and_reads_the_same(harness: Harness, tmp_path: Path) -> None:
    """Whole, in pieces and with its job; what is small stays in its row."""
    folder = tmp_path / "large"

    async def body(store: Store, clock: SetClock) -> None:
        _use(store, folder)
        job_id = await _written(store, clock)
        assert _sizes(folder) == [len(_LARGE), len(_LARGER)]
        for result_id, payload in (("r-1", _SMALL), ("r-2", _LARGE), ("r-3", _LARGER)):
            assert await _read(store, result_id) == (payload, payload.encode())
        status = await store.tenant(ORG).status(job_id, events=1, inline_limit=len(_LARGER))
        assert status is not None
        assert status.result == _LARGER
        shorter = await store.tenant(ORG).status(job_id, events=1, inline_limit=len(_LARGER) - 1)
        assert shorter is not None
        assert shorter.result is None

    harness.run(body)


def test_blobs_go_with_the_rows_that_name_them(harness: Harness, tmp_path: Path) -> None:
    """A dry run takes nothing."""
    folder = tmp_path / "large"

    async def body(store: Store, clock: SetClock) -> None:
        _use(store, folder)
        await _written(store, clock)
        clock.pass_(8 * DAY)
        await store.retire(_POLICY, dry_run=True)
        assert len(_sizes(folder)) == 2
        await store.retire(_POLICY, dry_run=False)
        assert _sizes(folder) == []

    harness.run(body)


def test_blobs_go_with_their_org(harness: Harness, tmp_path: Path) -> None:
    """Those of another org stay."""
    folder = tmp_path / "large"

    async def body(store: Store, clock: SetClock) -> None:
        _use(store, folder)
        await _written(store, clock)
        other = await started(store, clock, org="org-b")
        assert await store.record(other.lease, Completed(result_id="r-b", payload=_LARGE))
        assert (await erase(store, ORG, with_held=False)).blobs == 2
        assert _sizes(folder) == [len(_LARGE)]

    harness.run(body)


def test_without_its_place_a_blob_cannot_be_read(shared: Harness, tmp_path: Path) -> None:
    """And nobody is given something else for it; what is in rows is read as ever."""

    async def body(stores: list[Store], clock: SetClock) -> None:
        with_place, without = stores
        _use(with_place, tmp_path / "large")
        job_id = await _written(with_place, clock)
        reads = without.tenant(ORG)
        for reading in (reads.result("r-3", latest=False), reads.source("r-3")):
            with pytest.raises(PayloadUnavailable):
                await reading
        assert await _read(without, "r-1") == (_SMALL, _SMALL.encode())
        status = await reads.status(job_id, events=1, inline_limit=10_000)
        assert status is not None
        assert status.result is None

    shared.run_many(2, body)


@pytest.mark.parametrize("with_blobs", [False, True])
def test_what_came_as_bytes_is_the_same_text(harness: Harness, tmp_path: Path, with_blobs: bool) -> None:
    """In the row and as a blob, read as a whole and in pieces, and counted like a text."""
    text = '"' + "Zürich " * 50 + '"'
    data = memoryview(text.encode())

    async def body(store: Store, clock: SetClock) -> None:
        if with_blobs:
            _use(store, tmp_path / "large")
        made = await started(store, clock)
        assert await store.record(made.lease, Partial(result_id="r-1", payload=None, payload_data=data))
        view = await store.tenant(ORG).job(made.lease.job_id)
        assert view is not None
        assert view.job.partial_bytes == len(data)
        assert await store.record(made.lease, Completed(result_id="r-2", payload=None, payload_data=data))
        for name in ("r-1", "r-2"):
            assert await _read(store, name) == (text, text.encode())
        assert _sizes(tmp_path / "large") == ([len(data)] if with_blobs else [])

    harness.run(body)
