"""The health of a store: damage is never written over, and a program does not start on what it cannot write."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from langlauf.domain.errors import StoreUnavailable
from langlauf.hints import Hints
from langlauf.store.health import StoreProblem
from langlauf.store.sqlite import health
from langlauf.store.sqlite.driver import SqliteStore
from tests.support.processes import eventually
from tests.support.stores import JobFactory, SetClock, query, with_store

_PAGE = 4_096
_CLOCK = SetClock()


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A store in which the root of one index of jobs is torn; everything else can be read and written."""
    path = tmp_path / "store.db"
    with_store(path, _CLOCK, lambda store: JobFactory(store, _CLOCK).one_of_each())
    query(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    [(root,)] = query(path, "SELECT rootpage FROM sqlite_schema WHERE name = 'idx_notifications_inbox'")
    with path.open("r+b") as file:
        file.seek((int(str(root)) - 1) * _PAGE)
        file.write(b"\xa5" * _PAGE)
    return path


def _on(path: Path, use: Callable[[SqliteStore], Awaitable[Any]]) -> None:
    with_store(path, _CLOCK, use)


def test_a_read_that_meets_damage_ends_all_writes(damaged: Path) -> None:
    """What is written over damage makes it worse: from then on nothing is, and reads of the rest go on."""

    async def scene(store: SqliteStore) -> None:
        await store.duties.record_success("before", "host")
        with pytest.raises(StoreUnavailable, match="damaged"):
            await store.tenant("org-a").inbox(before=None, limit=10)
        assert store.health.problem is StoreProblem.DAMAGED
        with pytest.raises(StoreUnavailable, match="nothing more is written"):
            await store.duties.record_success("after", "host")
        await store.health.watch()  # no probe heals damage
        assert store.health.problem is StoreProblem.DAMAGED
        assert [done.name for done in await store.duties.successes()] == ["before"]
        await store.check()

    _on(damaged, scene)


def test_a_program_does_not_start_on_a_damaged_file(damaged: Path) -> None:
    """It says how to go on, and has written nothing."""
    before = damaged.read_bytes()

    async def scene(store: SqliteStore) -> None:
        with pytest.raises(StoreUnavailable, match=r"damaged: .*langlauf restore BACKUP --force"):
            await store.health.admit()

    _on(damaged, scene)
    assert damaged.read_bytes() == before


def test_what_the_start_had_no_time_for_is_looked_at_in_the_background(
    damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large file is served at once, and no longer written once damage is found."""
    monkeypatch.setattr(health, "QUICK_SECONDS", 0.0)

    async def scene(store: SqliteStore) -> None:
        with contextlib.suppress(StoreUnavailable):  # where the background was quicker than the start
            await store.health.admit()
        await asyncio.to_thread(eventually, lambda: store.health.damaged)

    _on(damaged, scene)


def test_an_inspection_of_a_sound_file_finds_nothing_and_can_be_stopped(tmp_path: Path) -> None:
    """Every table is looked at; one that is stopped says nothing."""
    path = tmp_path / "store.db"
    _on(path, lambda store: JobFactory(store, _CLOCK).one_of_each())
    inspection = health.DamageScan(str(path))
    assert (inspection.run(0.0), inspection.finished) == (None, False)
    assert (inspection.run(), inspection.finished) == (None, True)
    stopped = health.DamageScan(str(path))
    stopped.stop()
    assert (stopped.run(), stopped.finished) == (None, False)


def test_a_program_does_not_start_on_a_store_that_it_cannot_write(tmp_path: Path) -> None:
    """The reason and the remedy, in one line."""

    async def scene(store: SqliteStore) -> None:
        store._writer_thread.submit(store._writer.pragma, "query_only", 1).result()
        with pytest.raises(StoreUnavailable, match=r"readonly.*make the file and its folder writable"):
            await store.health.admit()

    _on(tmp_path / "store.db", scene)


def test_a_file_that_is_no_store_names_the_remedy(tmp_path: Path) -> None:
    """Garbage in the place of a store is not written over."""
    path = tmp_path / "store.db"
    path.write_bytes(os.urandom(2 * _PAGE))
    before = path.read_bytes()

    async def opening() -> None:
        await SqliteStore.open(str(path), hints=Hints())

    with pytest.raises(StoreUnavailable, match=r"not a database.*langlauf restore"):
        asyncio.run(opening())
    assert path.read_bytes() == before
