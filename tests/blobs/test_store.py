"""A store with blobs: what goes out, what comes back, and what happens where the place does not do."""

import asyncio
import logging
from pathlib import Path

import pytest

from langlauf.domain.attempt import Partial, Progress
from langlauf.domain.errors import PayloadUnavailable, StoreUnavailable
from langlauf.domain.job import INLINE_REF
from langlauf.domain.outcome import Completed
from langlauf.domain.read_models import ResultView, StatusView
from langlauf.store.blobs.files import FileBlobs
from langlauf.store.blobs.payloads import PIECE
from langlauf.store.blobs.protocol import read_ref
from langlauf.store.sqlite.driver import SqliteStore
from tests.blobs.blob_stores import INLINE_BYTES, SilentBlobs, keys_in, play_with
from tests.blobs.conftest import Open
from tests.support.stores import SetClock, query
from tests.support.submissions import ORG, accept, started

#: They stay in the row, whatever their payload does.
VIEWS = '[{"kind":"table","at":""}]'
LARGE = '{"text":"' + "Zürich " * 50 + '"}'
OTHER = '{"text":"' + "Genf " * 60 + '"}'
SMALL = '{"text":"Bern"}'


@pytest.fixture(params=["store.db", ":memory:"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store in a file, and one in memory."""
    return request.param if request.param == ":memory:" else str(tmp_path / request.param)


async def _result(store: SqliteStore, result_id: str, *, latest: bool = False, payload: bool = True) -> ResultView:
    found = await store.tenant(ORG).result(result_id, latest=latest, payload=payload)
    assert found is not None
    return found


async def _status(store: SqliteStore, job_id: str, limit: int) -> StatusView:
    found = await store.tenant(ORG).status(job_id, events=10, inline_limit=limit)
    assert found is not None
    return found


def test_only_what_is_large_goes_out_and_all_comes_back(path: str, opened: Open) -> None:
    """Partials and finals alike, as the newest, as the requested, and not at all where nobody asks for it."""

    async def scene(store: SqliteStore, clock: SetClock) -> None:
        made = await started(store, clock)
        for result_id, payload in (("r-1", LARGE), ("r-2", SMALL)):
            assert await store.record(
                made.lease, Partial(result_id=result_id, payload=payload, summary='{"n":1}', views=VIEWS)
            )
        assert (await _result(store, "r-1", latest=True)).delivered.payload == SMALL
        assert await store.record(made.lease, Completed(result_id="r-3", payload=OTHER))
        found = {name: await _result(store, name) for name in ("r-1", "r-2", "r-3")}
        assert [one.delivered.payload for one in found.values()] == [LARGE, SMALL, OTHER]
        assert [one.delivered.views for one in found.values()] == [VIEWS, VIEWS, None]
        refs = [one.result_payload_ref for one in await store.tenant(ORG).results(made.lease.job_id)]
        assert refs[1] == INLINE_REF
        sizes = [ref.size for text in (refs[0], refs[2]) if (ref := read_ref(text))]
        assert sizes == [len(LARGE.encode()), len(OTHER)]
        assert (await _result(store, "r-1", latest=True)).delivered.payload == OTHER
        assert (await _result(store, "r-1", payload=False)).delivered.payload is None
        assert len(await keys_in(store)) == 2

    play_with(path, opened, scene)


def test_the_row_holds_none_of_a_blob(tmp_path: Path) -> None:
    """And nothing that says where on the machine it is."""
    path = tmp_path / "s.db"

    async def scene(store: SqliteStore, clock: SetClock) -> None:
        made = await started(store, clock)
        assert await store.record(made.lease, Completed(result_id="r", payload=LARGE))

    play_with(path, lambda: FileBlobs(tmp_path / "blobs"), scene)
    [(payload, ref)] = query(path, "SELECT payload, result_payload_ref FROM job_results")
    assert payload is None
    assert isinstance(ref, str)
    assert read_ref(ref) is not None
    assert str(tmp_path) not in ref


@pytest.mark.parametrize("letter", ["x", "ü", "€"])
def test_the_limit_counts_bytes(tmp_path: Path, letter: str) -> None:
    """A payload of exactly the limit stays; one byte more goes."""
    most = (INLINE_BYTES - 2) // len(letter.encode())
    filled = letter * most + "x" * (INLINE_BYTES - 2 - most * len(letter.encode()))

    async def scene(store: SqliteStore, clock: SetClock) -> None:
        made = await started(store, clock)
        for name, text in (("fits", filled), ("over", filled + "x")):
            assert await store.record(made.lease, Partial(result_id=name, payload=f'"{text}"'))
        kept = {one.result_id: one.result_payload_ref for one in await store.tenant(ORG).results(made.lease.job_id)}
        assert kept["fits"] == INLINE_REF
        assert kept["over"].startswith("blob:")

    play_with(tmp_path / "s.db", lambda: FileBlobs(tmp_path / "blobs"), scene)


def test_the_same_snapshot_is_kept_once(path: str, opened: Open) -> None:
    """Of one job; another job of the same org, and the same words of another org, have their own."""

    async def scene(store: SqliteStore, clock: SetClock) -> None:
        made = await started(store, clock)
        for number in range(3):
            assert await store.record(made.lease, Partial(result_id=f"r-{number}", payload=LARGE))
        assert len(await keys_in(store)) == 1
        for org in (ORG, "Other.Org:1", "other.org:1"):
            another = await started(store, clock, org=org)
            assert await store.record(another.lease, Completed(result_id=f"of-{org}", payload=LARGE))
        assert len(await keys_in(store)) == 4

    play_with(path, opened, scene)


def test_a_small_blob_is_shown_with_its_job(path: str, opened: Open) -> None:
    """The limit of a status answer is its own; over it, and after retention, there is none."""

    async def scene(store: SqliteStore, clock: SetClock) -> None:
        made = await started(store, clock)
        assert await store.record(made.lease, Partial(result_id="r-1", payload=LARGE))
        assert (await _status(store, made.lease.job_id, 10_000)).result is None
        assert await store.record(made.lease, Completed(result_id="r-2", payload=OTHER))
        assert (await _status(store, made.lease.job_id, len(OTHER))).result == OTHER
        assert (await _status(store, made.lease.job_id, len(OTHER) - 1)).result is None

    play_with(path, opened, scene)


def test_an_imported_job_of_any_id_keeps_its_results(tmp_path: Path) -> None:
    """Where its id is too long for the name of a file, they stay in the store."""
    job_ids = ["../../" + "x" * 20, "Ω" * 300]

    async def scene(store: SqliteStore, clock: SetClock) -> None:
        for job_id in job_ids:
            made = await started(store, clock, job_id=job_id)
            assert await store.record(made.lease, Completed(result_id=f"r-{len(job_id)}", payload=LARGE))
            assert (await _result(store, f"r-{len(job_id)}")).delivered.payload == LARGE
        assert len(await keys_in(store)) == 1

    play_with(tmp_path / "deep" / "s.db", lambda: FileBlobs(tmp_path / "deep" / "blobs"), scene)
    assert [path.name for path in tmp_path.iterdir()] == ["deep"]


def _damage(file: Path, how: str) -> None:
    data = file.read_bytes()
    if how == "missing":
        file.unlink()
    else:
        file.write_bytes({"changed": b"X" + data[1:], "short": data[:-1], "long": data + b" ", "empty": b""}[how])


@pytest.mark.parametrize("how", ["missing", "changed", "short", "long", "empty"])
def test_a_damaged_blob_is_an_error_and_never_an_answer(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The job is shown, its other snapshots can be read, and the log says which job it is and where to look."""

    async def scene(store: SqliteStore, clock: SetClock) -> None:
        made = await started(store, clock)
        assert await store.record(made.lease, Partial(result_id="r-1", payload=SMALL))
        assert await store.record(made.lease, Completed(result_id="r-2", payload=LARGE))
        [file] = [one for one in (tmp_path / "blobs").rglob("*") if one.is_file()]
        _damage(file, how)
        for latest in (True, False):
            with pytest.raises(PayloadUnavailable, match=made.lease.job_id) as refused:
                await _result(store, "r-2", latest=latest)
            assert str(tmp_path) not in str(refused.value)
        assert (await _result(store, "r-1")).delivered.payload == SMALL
        assert (await _result(store, "r-2", payload=False)).delivered.payload is None
        assert (await _status(store, made.lease.job_id, 10_000)).result is None
        told = [record for record in caplog.records if record.getMessage() == "payload_unavailable"]
        assert {record.fields["job_id"] for record in told} == {made.lease.job_id}  # type: ignore[attr-defined]
        assert all("blob" in record.fields["reason"] for record in told)  # type: ignore[attr-defined]

    with caplog.at_level(logging.ERROR):
        play_with(tmp_path / "s.db", lambda: FileBlobs(tmp_path / "blobs"), scene)


def test_without_its_place_a_blob_is_an_error_and_never_null(tmp_path: Path) -> None:
    """Whoever takes LANGLAUF_BLOBS away is told, and has everything again with it."""
    path = tmp_path / "s.db"

    async def write(store: SqliteStore, clock: SetClock) -> None:
        made = await started(store, clock)
        assert await store.record(made.lease, Completed(result_id="r", payload=LARGE))

    async def read_without(store: SqliteStore, clock: SetClock) -> None:
        with pytest.raises(PayloadUnavailable):
            await _result(store, "r")
        made = await started(store, clock)
        assert await store.record(made.lease, Completed(result_id="inline", payload=LARGE))
        assert (await _result(store, "inline")).delivered.payload == LARGE

    async def read(store: SqliteStore, clock: SetClock) -> None:
        for name in ("r", "inline"):
            assert (await _result(store, name)).delivered.payload == LARGE

    clock = SetClock()
    play_with(path, lambda: FileBlobs(tmp_path / "blobs"), write, clock=clock)
    play_with(path, lambda: None, read_without, clock=clock)
    (tmp_path / "blobs").rename(tmp_path / "moved")
    play_with(path, lambda: FileBlobs(tmp_path / "moved"), read, clock=clock)


def test_a_place_that_does_not_answer_holds_up_nobody_else(tmp_path: Path) -> None:
    """A large write is refused after its time and nothing of it is kept; meanwhile all others are taken."""
    patience = 0.5

    async def scene(store: SqliteStore, clock: SetClock) -> None:
        slow, quick = await started(store, clock), await started(store, clock)
        loop = asyncio.get_running_loop()
        began = loop.time()
        writing = asyncio.ensure_future(store.record(slow.lease, Partial(result_id="r", payload=LARGE)))
        writes = 0
        while not writing.done():
            assert await store.record(quick.lease, Progress(step=f"{writes}"))
            assert await store.tenant(ORG).job(slow.lease.job_id) is not None
            writes += 1
        with pytest.raises(StoreUnavailable, match="could not be stored"):
            await writing
        assert patience <= loop.time() - began < 10 * patience
        assert writes > 5
        assert await store.tenant(ORG).results(slow.lease.job_id) == []
        assert await store.record(slow.lease, Partial(result_id="r", payload=SMALL))

    play_with(tmp_path / "s.db", SilentBlobs, scene, seconds=patience)


def test_a_place_that_is_away_hides_large_results_alone(tmp_path: Path) -> None:
    """Reading one is refused after its time, a status answer goes without, and retention does its other work."""
    path, clock = tmp_path / "s.db", SetClock()

    async def write(store: SqliteStore, clock: SetClock) -> None:
        made = await started(store, clock)
        assert await store.record(made.lease, Completed(result_id="r", payload=LARGE))
        await accept(store, clock)

    async def read(store: SqliteStore, clock: SetClock) -> None:
        await store.blobs.check()
        with pytest.raises(PayloadUnavailable):
            await _result(store, "r")
        job_id = (await _result(store, "r", payload=False)).job.job_id
        assert (await _status(store, job_id, 10_000)).result is None

    play_with(path, lambda: FileBlobs(tmp_path / "blobs"), write, clock=clock)
    play_with(path, SilentBlobs, read, clock=clock, seconds=0.2)


async def _in_pieces(store: SqliteStore, result_id: str) -> bytes:
    source = await store.tenant(ORG).source(result_id)
    assert source is not None
    found = b""
    while len(found) < source.size:
        found += await source.read(len(found))
    return found


def test_a_blob_is_read_in_pieces(path: str, opened: Open) -> None:
    """They are what was written; what stayed in its row is read from there."""
    large = '"' + "ü" * PIECE + '"'

    async def scene(store: SqliteStore, clock: SetClock) -> None:
        made = await started(store, clock)
        for result_id, payload in (("r-1", large), ("r-2", SMALL)):
            assert await store.record(made.lease, Partial(result_id=result_id, payload=payload))
            assert await _in_pieces(store, result_id) == payload.encode()
        source = await store.tenant(ORG).source("r-1")
        assert source is not None
        assert (source.size, source.holds) == (len(large.encode()), PIECE)

    play_with(path, opened, scene)


@pytest.mark.parametrize("damage", ["changed", "short", "missing"])
def test_a_damaged_blob_is_never_given_to_its_end(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its last piece is held back, and operators are told."""
    large = '"' + "x" * (2 * PIECE) + '"'

    async def scene(store: SqliteStore, clock: SetClock) -> None:
        made = await started(store, clock)
        assert await store.record(made.lease, Partial(result_id="r", payload=large))
        [blob] = [file for file in (tmp_path / "blobs").rglob("*") if file.is_file()]
        if damage == "missing":
            blob.unlink()
        else:
            blob.write_bytes(large.replace("x", "y", 1).encode() if damage == "changed" else large[:-1].encode())
        with pytest.raises(PayloadUnavailable):
            await _in_pieces(store, "r")

    play_with(tmp_path / "s.db", lambda: FileBlobs(tmp_path / "blobs"), scene)
    assert any("payload_unavailable" in record.getMessage() for record in caplog.records)
