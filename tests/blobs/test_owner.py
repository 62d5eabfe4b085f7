"""Blobs belong to one store: a copy of it neither serves nor removes them until an operator says so."""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from langlauf.analysis.registry import Registry
from langlauf.bootstrap import run_application
from langlauf.domain.outcome import Completed
from langlauf.domain.result import RetentionPolicy
from langlauf.hints import Hints
from langlauf.settings import load_settings
from langlauf.store.blobs.files import FileBlobs
from langlauf.store.blobs.owner import BlobsOfAnother
from langlauf.store.postgres.driver import PostgresStore
from langlauf.store.sqlite.driver import SqliteStore
from langlauf.store.tools.backup import back_up, restore_backup
from tests.blobs.blob_stores import keys_in, open_with
from tests.blobs.conftest import Open
from tests.support.postgres import fresh_database
from tests.support.postgres_stores import migrated_database
from tests.support.server import run_command
from tests.support.stores import DAY, SetClock
from tests.support.submissions import ORG, started

_POLICY = RetentionPolicy(final_results=7 * DAY, partial_results=7 * DAY, events=3 * DAY, jobs=90 * DAY)
_LARGE = '"' + "x" * 200 + '"'
_CLOCK = SetClock()


def _on(path: Path, opened: Open, scene: Callable[[SqliteStore], Awaitable[Any]]) -> Any:
    """Do something with the store of a file, as a program that has started on it."""

    async def main() -> Any:
        store = await open_with(path, _CLOCK, opened())
        try:
            return await scene(store)
        finally:
            await store.close()

    return asyncio.run(main())


async def _check(store: SqliteStore) -> None:
    await store.blobs.check()


async def _complete(store: SqliteStore) -> None:
    await store.blobs.check()
    made = await started(store, _CLOCK)
    assert await store.record(made.lease, Completed(result_id=made.lease.job_id, payload=_LARGE))


async def _clean_up(store: SqliteStore) -> list[str]:
    await store.retire(_POLICY, dry_run=False)
    return await keys_in(store)


@pytest.fixture
def files(tmp_path: Path) -> Open:
    """Blobs in a folder."""
    return lambda: FileBlobs(tmp_path / "blobs")


def test_a_copy_takes_nothing_from_the_original(tmp_path: Path, opened: Open) -> None:
    """It does not know of the results since it was made: to it they would be garbage."""
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    _on(path, opened, _complete)
    shutil.copy(path, copy)
    _on(path, opened, _complete)
    with pytest.raises(BlobsOfAnother, match=rf"{path} on .* {copy} on .*langlauf blobs take-over"):
        _on(copy, opened, _check)
    assert len(_on(copy, opened, _clean_up)) == 2
    with pytest.raises(BlobsOfAnother):
        _on(copy, opened, lambda store: store.blobs.remove_org(ORG))
    assert len(_on(path, opened, _clean_up)) == 2


def test_a_store_that_took_over_is_the_owner_and_the_other_is_not(
    tmp_path: Path, files: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the command; the original then removes nothing any more."""
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    _on(path, files, _complete)
    shutil.copy(path, copy)
    monkeypatch.setenv("LANGLAUF_BLOBS", str(tmp_path / "blobs"))
    said = run_command("blobs", "take-over", "--store", str(copy))
    assert (said.returncode, str(copy) in said.stdout, str(path) in said.stderr) == (0, True, True)
    _on(copy, files, _complete)
    with pytest.raises(BlobsOfAnother):
        _on(path, files, _check)
    assert len(_on(path, files, _clean_up)) == 2


def test_a_store_is_known_again(tmp_path: Path, files: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """By another process, on a host with another name, and where its file was put back by hand."""
    path, aside = tmp_path / "store.db", tmp_path / "aside.db"
    _on(path, files, _complete)
    _on(path, files, lambda _: asyncio.to_thread(_on, path, files, _check))
    with monkeypatch.context() as patch:
        patch.setattr("socket.gethostname", lambda: "another-container")
        _on(path, files, _check)
        shutil.copy(path, aside)
        aside.replace(path)
        _on(path, files, _check)
        patch.setattr("socket.gethostname", lambda: "a-third")
        _on(path, files, _check)


def test_a_restore_in_place_keeps_the_blobs_and_one_elsewhere_does_not(tmp_path: Path, files: Open) -> None:
    """What is restored elsewhere may have the path and the host's name of the original, and is not the original."""
    path, backup = tmp_path / "store.db", tmp_path / "backup.db"
    _on(path, files, _complete)
    back_up(str(path), backup, force=False)
    restore_backup(backup, str(path), force=True)
    _on(path, files, _complete)
    path.unlink()
    restore_backup(backup, str(path), force=False)
    with pytest.raises(BlobsOfAnother):
        _on(path, files, _check)


def test_a_server_does_not_start_on_a_copy(tmp_path: Path, files: Open) -> None:
    """Neither does a worker."""
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    _on(path, files, _complete)
    shutil.copy(path, copy)
    settings = load_settings({"LANGLAUF_STORE": str(copy), "LANGLAUF_BLOBS": str(tmp_path / "blobs")})

    async def start() -> None:
        async with run_application(Registry(), settings):
            pass

    with pytest.raises(BlobsOfAnother):
        asyncio.run(start())


def test_garbage_is_left_alone_while_it_is_young(tmp_path: Path, files: Open) -> None:
    """By the time at which it was written."""
    path = tmp_path / "store.db"
    _on(path, files, _complete)
    [blob] = [one for one in (tmp_path / "blobs").rglob("*") if one.is_file() and one.suffix != ".mark"]
    orphans = [blob.with_name(str(number) * 64) for number in (1, 2)]
    for orphan in orphans:
        orphan.write_bytes(b"of no row")
    os.utime(orphans[0], (0, 0))

    async def clean_up(store: SqliteStore) -> None:
        store.blobs._garbage_age = 3_600.0
        await store.retire(_POLICY, dry_run=False)

    _on(path, files, clean_up)
    assert [orphan.exists() for orphan in orphans] == [False, True]
    assert blob.exists()


def test_hosts_of_one_database_share_its_blobs_and_a_copy_of_it_does_not(tmp_path: Path) -> None:
    """Whatever the hosts call their server."""

    async def check(url: str) -> None:
        store = await PostgresStore.open(url, hints=Hints(), notify=False)
        store.blobs.use(FileBlobs(tmp_path / "blobs"), largest_inline=1, seconds=10)
        try:
            await store.blobs.check()
        finally:
            await store.close()

    with migrated_database() as url:
        for host in ("127.0.0.1", "localhost"):
            asyncio.run(check(url.replace("127.0.0.1", host)))
        name = url.partition("?")[0].rpartition("/")[2]
        with fresh_database(template=name) as copy, pytest.raises(BlobsOfAnother, match="database"):
            asyncio.run(check(copy))
