"""What every place for blobs promises, files and object store alike."""

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from langlauf.domain.errors import SettingsError, StoreUnavailable
from langlauf.store.blobs.files import FileBlobs
from langlauf.store.blobs.protocol import KEYS_PER_PAGE, Blobs
from langlauf.store.blobs.s3 import Bucket, ObjectBlobs
from tests.blobs.conftest import SECONDS, Open
from tests.blobs.object_store import CREDENTIALS, ObjectStore

KEY = "store/acme/job-1/" + "a" * 64
OTHER = "store/acme/job-1/" + "b" * 64


def run(opened: Open, body: Callable[[Blobs], Awaitable[None]]) -> None:
    """Uses a place and closes it."""

    async def main() -> None:
        blobs = opened()
        try:
            await body(blobs)
        finally:
            await blobs.close()

    asyncio.run(main())


async def keys(blobs: Blobs, prefix: str) -> list[str]:
    """All keys under a prefix."""
    return sorted([one.key async for page in blobs.pages(prefix) for one in page])


def test_bytes_come_back_as_they_went(opened: Open) -> None:
    """Also many of them, and whatever they are."""
    large = os.urandom(6 * 1_048_576)

    async def body(blobs: Blobs) -> None:
        await blobs.check()
        await blobs.put(KEY, large)
        await blobs.put(OTHER, b"\0")
        assert await blobs.get(KEY, at_most=len(large)) == large
        assert await blobs.get(OTHER, at_most=1) == b"\0"

    run(opened, body)


def test_a_large_file_is_on_disk_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit of the store, which shares the disk, waits for one piece and not for all of it."""
    sizes: list[int] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        state = os.fstat(descriptor)
        if stat.S_ISREG(state.st_mode):
            sizes.append(state.st_size)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    data = os.urandom(5_000_000)

    async def main() -> None:
        blobs = FileBlobs(tmp_path / "blobs")
        await blobs.put("store/large", memoryview(data))
        assert await blobs.get("store/large", at_most=len(data)) == data
        await blobs.close()

    asyncio.run(main())
    assert sizes == [1_048_576, 2_097_152, 3_145_728, 4_194_304, 5_000_000]


def test_what_is_not_there_is_none(opened: Open) -> None:
    """Neither before it was written nor after it was removed."""

    async def body(blobs: Blobs) -> None:
        assert await blobs.get(KEY, at_most=9) is None
        await blobs.put(KEY, b"one")
        await blobs.delete([KEY, OTHER])
        assert await blobs.get(KEY, at_most=9) is None
        await blobs.delete([KEY])

    run(opened, body)


def test_more_than_was_asked_for_is_not_read(opened: Open) -> None:
    """A blob that has grown cannot fill the memory, and does not pass for what it was."""

    async def body(blobs: Blobs) -> None:
        await blobs.put(KEY, b"x" * 1_000)
        found = await blobs.get(KEY, at_most=10)
        assert found is not None
        assert len(found) == 11

    run(opened, body)


def test_writing_again_changes_nothing(opened: Open) -> None:
    """The same bytes under the same key are there once, and damage is healed."""

    async def body(blobs: Blobs) -> None:
        await blobs.put(KEY, b"damaged")
        await blobs.put(KEY, b"one")
        await asyncio.gather(*(blobs.put(KEY, b"one") for _ in range(8)))
        assert await keys(blobs, "store") == [KEY]
        assert await blobs.get(KEY, at_most=3) == b"one"

    run(opened, body)


def test_listing_goes_page_by_page_under_its_prefix(opened: Open) -> None:
    """More than a page is there once each; another store's keys, also of a similar name, are not."""

    async def body(blobs: Blobs) -> None:
        assert await keys(blobs, "store") == []
        made = [f"store/acme/job-{number % 7}/{number:064x}" for number in range(KEYS_PER_PAGE + 3)]
        for start in range(0, len(made), 64):
            await asyncio.gather(*(blobs.put(key, b"1") for key in made[start : start + 64]))
        await blobs.put("store2/acme/job-1/" + "a" * 64, b"1")
        pages = [page async for page in blobs.pages("store")]
        assert sorted(one.key for page in pages for one in page) == sorted(made)
        assert max(map(len, pages)) <= KEYS_PER_PAGE
        async for page in blobs.pages("store"):
            await blobs.delete([one.key for one in page])
        assert await keys(blobs, "store") == []
        assert len(await keys(blobs, "store2")) == 1

    run(opened, body)


def test_files_are_nobody_elses(tmp_path: Path) -> None:
    """Modes 0600 and 0700, nothing half-written left, and no empty folder of a job."""
    blobs = FileBlobs(tmp_path / "made" / "blobs")

    async def body(_: Blobs) -> None:
        await blobs.check()
        await blobs.put(KEY, b"one")
        for path in (tmp_path / "made" / "blobs").rglob("*"):
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
        await blobs.put(OTHER, b"two")
        await blobs.delete([OTHER])

    run(lambda: blobs, body)
    [file] = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert file == tmp_path / "made" / "blobs" / KEY
    run(lambda: FileBlobs(tmp_path / "made" / "blobs"), lambda again: again.delete([KEY]))
    assert not file.parent.exists()


@pytest.mark.parametrize(
    "key", ["../x", "store/../../x", "/etc/passwd", "store//x", "store/.hidden", "A/b", "a\0b", ""]
)
def test_no_key_leads_out_of_the_root(tmp_path: Path, key: str) -> None:
    """What is no key of ours is refused before the file system hears of it."""

    async def body(blobs: Blobs) -> None:
        for doing in (blobs.put(key, b"1"), blobs.get(key, at_most=1), blobs.delete([key])):
            with pytest.raises(ValueError, match="is no key"):
                await doing

    run(lambda: FileBlobs(tmp_path / "blobs"), body)
    assert list(tmp_path.iterdir()) == []


def test_links_are_not_followed(tmp_path: Path) -> None:
    """Neither to a file nor to a folder; what lies elsewhere is neither read nor listed nor removed."""
    secret = tmp_path / "secret" / ("a" * 64)
    secret.parent.mkdir()
    secret.write_bytes(b"not yours")

    async def body(blobs: Blobs) -> None:
        await blobs.put(OTHER, b"1")
        (tmp_path / "blobs" / KEY).symlink_to(secret)
        (tmp_path / "blobs" / "store" / "acme" / "job-2").symlink_to(secret.parent)
        assert await keys(blobs, "store") == [OTHER]
        with pytest.raises(StoreUnavailable):
            await blobs.get(KEY, at_most=99)
        await blobs.delete([KEY])
        assert secret.read_bytes() == b"not yours"

    run(lambda: FileBlobs(tmp_path / "blobs"), body)


def test_a_folder_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    """It is said at once, and not at the first large result."""
    (tmp_path / "file").write_text("in the way")

    async def body(blobs: Blobs) -> None:
        with pytest.raises(SettingsError, match="LANGLAUF_BLOBS"):
            await blobs.check()
        with pytest.raises(StoreUnavailable):
            await blobs.put(KEY, b"1")

    run(lambda: FileBlobs(tmp_path / "file" / "blobs"), body)


def test_a_missing_bucket_stops_the_start(objects: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket is not made by itself: its name may be a mistake."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)

    async def body(blobs: Blobs) -> None:
        with pytest.raises(SettingsError, match="'nowhere'"):
            await blobs.check()
        with pytest.raises(StoreUnavailable):
            await blobs.put(KEY, b"1")

    bucket = Bucket(name="nowhere", endpoint=objects.endpoint, allow_http=True)
    run(lambda: ObjectBlobs(bucket, seconds=SECONDS), body)


def test_a_server_that_is_away_does_not_stop_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be back in a moment; until then it is an outage and no mistake in the settings."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)

    async def body(blobs: Blobs) -> None:
        with pytest.raises(StoreUnavailable):
            await blobs.check()

    bucket = Bucket(name="bucket", endpoint="http://127.0.0.1:9", allow_http=True)
    run(lambda: ObjectBlobs(bucket, seconds=1), body)
