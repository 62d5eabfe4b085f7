"""Doctor on a SQLite file: each fault of the file is found by name."""

import asyncio
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from langlauf.doctor import CHECKS
from langlauf.doctor import sqlite as file
from langlauf.doctor.check import CheckLevel, CheckResult, DoctorTarget, Needs
from langlauf.settings import load_settings
from langlauf.store.sqlite.health import file_system_of, over_network
from langlauf.store.sqlite.inspection import SqliteInspector
from langlauf.store.tools.backup import back_up
from langlauf.store.tools.location import SqliteLocation
from tests.doctor.checked_store import CheckedStore, opened

_PAGE = 4_096


def _other_journal(store: CheckedStore) -> None:
    store.run("PRAGMA journal_mode = DELETE")


def _readable_by_all(store: CheckedStore) -> None:
    Path(store.place).chmod(0o644)


def _open_folder(store: CheckedStore) -> None:
    store.folder.chmod(0o777)


def _newer(store: CheckedStore) -> None:
    store.run("PRAGMA user_version = 9999")


def _older(store: CheckedStore) -> None:
    store.run("DROP TABLE duties", "PRAGMA user_version = 15")


def _unfinished_copy(store: CheckedStore) -> None:
    columns = [name for _, name, *_ in apsw.Connection(store.place).execute("PRAGMA table_info(copying)")]
    values = ", ".join("'elsewhere'" if name == "source" else "1" for name in columns)
    store.run(f"INSERT INTO copying ({', '.join(map(str, columns))}) VALUES ({values})")


def _loose_row(store: CheckedStore) -> None:
    store.run("INSERT INTO inputs (job, input) VALUES (9999, '{}')")


def _torn_page(store: CheckedStore) -> None:
    """The last pages of the file are overwritten: they hold an index or a table."""
    with Path(store.place).open("r+b") as opened_file:
        size = os.fstat(opened_file.fileno()).st_size
        for page in range(size // _PAGE - 6, size // _PAGE):
            opened_file.seek(page * _PAGE)
            opened_file.write(b"\xa5" * _PAGE)


def _long_log(store: CheckedStore) -> None:
    """A file of that length, of which nothing was written."""
    log = Path(f"{store.place}-wal")
    log.touch(0o600)
    os.truncate(log, 200 * 1_048_576)


def _apart(store: CheckedStore) -> None:
    """The store's clock is moved on; what it calls new is then old by as much, so it is only looked at by name."""
    store.run("UPDATE clocks SET shift = shift + 3600000000")


#: What is not looked at where the schema is another one.
_UNREAD = frozenset(check.name for check in CHECKS if check.needs is Needs.ROWS)


@pytest.mark.parametrize(
    ("name", "plant", "unread"),
    [
        ("journal_mode", _other_journal, frozenset()),
        ("file_modes", _readable_by_all, frozenset()),
        ("file_modes", _open_folder, frozenset()),
        ("schema_version", _newer, _UNREAD),
        ("schema_version", _older, _UNREAD),
        ("schema_version", _unfinished_copy, _UNREAD),
        ("damage", _loose_row, frozenset()),
    ],
)
def test_a_fault_of_the_file_is_found(
    sqlite: CheckedStore, name: str, plant: Callable[[CheckedStore], None], unread: frozenset[str]
) -> None:
    """By name, as an error; what could not be looked at because of it says so."""
    plant(sqlite)
    found = sqlite.examine()
    assert found.wrong == {name: "error"} | dict.fromkeys(unread, "unknown"), found.findings
    assert found.findings[name]["next"]
    assert found.exit_code == 1


def test_a_torn_page_is_found(sqlite: CheckedStore) -> None:
    """Whatever else can still be read."""
    _torn_page(sqlite)
    found = sqlite.examine()
    assert (found.levels["damage"], found.exit_code) == ("error", 1)
    assert found.findings["damage"]["next"] == f"langlauf restore BACKUP --force --store {sqlite.place}"


def test_a_torn_page_is_told_with_the_newest_backup(sqlite: CheckedStore, tmp_path: Path) -> None:
    """The command can be typed as it stands; a backup that is gone is not named."""
    older, newest = tmp_path / "older.db", tmp_path / "newest.db"
    back_up(sqlite.place, older, force=False)
    back_up(sqlite.place, newest, force=False)
    _torn_page(sqlite)
    assert sqlite.examine().findings["damage"]["next"] == f"langlauf restore {newest} --force --store {sqlite.place}"
    newest.unlink()
    assert sqlite.examine().findings["damage"]["next"] == f"langlauf restore BACKUP --force --store {sqlite.place}"


def test_a_long_log_is_found(sqlite: CheckedStore) -> None:
    """It was not checkpointed."""
    _long_log(sqlite)
    assert sqlite.examine().wrong == {"log_size": "warning"}


def test_a_clock_that_is_apart_is_found(sqlite: CheckedStore) -> None:
    """By an hour: what was a moment ago is an hour ago."""

    async def nothing() -> None:
        await (await opened("sqlite", sqlite.place)).close()

    asyncio.run(nothing())
    _apart(sqlite)
    found = sqlite.examine()
    assert found.levels["clock"] == "error"
    assert "3600" in found.findings["clock"]["seen"]


def test_looking_changes_nothing(sqlite: CheckedStore) -> None:
    """Not a byte of the file, also where its schema is an earlier one."""
    _older(sqlite)
    before = Path(sqlite.place).read_bytes()
    assert sqlite.examine().exit_code == 1
    assert Path(sqlite.place).read_bytes() == before


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    """Nothing can be said, and nothing is created."""
    found = CheckedStore("sqlite", str(tmp_path / "none.db"), tmp_path).examine()
    assert (found.exit_code, found.wrong) == (2, {"store": "unknown"})
    assert list(tmp_path.iterdir()) == []
    found = CheckedStore("sqlite", "memory://", tmp_path).examine()
    assert (found.exit_code, set(found.wrong)) == (2, {"store"})


def _looked(sqlite: CheckedStore, check: Callable[[DoctorTarget], CheckResult], **changes: Any) -> CheckLevel:
    """What a check says of the file, as it would be with these changes."""
    inspector = SqliteInspector(sqlite.place)
    target = DoctorTarget(load_settings({}), SqliteLocation(sqlite.place), inspector, named=True)
    seen = inspector.file()
    inspector.close()
    target.once("file", lambda: msgspec.structs.replace(seen, **changes))
    return check(target).level


@pytest.mark.parametrize(
    ("check", "changes", "level"),
    [
        (file.library, {"library": "3.51.2"}, CheckLevel.ERROR),
        (file.durability, {"synchronous": 1}, CheckLevel.ERROR),
        (file.durability, {"foreign_keys": False}, CheckLevel.ERROR),
        (file.durability, {"busy_milliseconds": 0}, CheckLevel.ERROR),
        (file.durability, {"mapped_bytes": 1}, CheckLevel.ERROR),
        (file.writable, {"unwritable": "mounted read-only"}, CheckLevel.ERROR),
        (file.file_system, {"file_system": "nfs4"}, CheckLevel.WARNING),
        (file.disk_space, {"disk_free": 2**29, "disk_size": 2**40}, CheckLevel.ERROR),
        (file.disk_space, {"disk_free": 2**29, "disk_size": 2**32}, CheckLevel.WARNING),
        (file.disk_space, {"disk_free": 2**20, "disk_size": 2**24}, CheckLevel.ERROR),
        (file.free_pages, {"pages": 200_000, "free_pages": 150_000}, CheckLevel.WARNING),
        (file.free_pages, {"pages": 200, "free_pages": 150}, CheckLevel.OK),
    ],
)
def test_what_a_test_cannot_bring_about_is_judged(
    sqlite: CheckedStore, check: Callable[[DoctorTarget], CheckResult], changes: dict[str, Any], level: CheckLevel
) -> None:
    """A full disk, another library: the facts are changed, not the check."""
    assert _looked(sqlite, check, **changes) is level


def test_the_file_system_is_the_one_mounted_last_and_nearest() -> None:
    """Of several at one place the last counts, of several on the way the nearest; blanks are written as numbers."""
    mounts = """/dev/a / ext4 rw 0 0
server:/export /srv/shared nfs4 rw 0 0
/dev/b /srv/shared/local xfs rw 0 0
server:/b /srv/with\\040blank cifs rw 0 0
"""
    for path, kind in (
        ("/home/s.db", "ext4"),
        ("/srv/shared/s.db", "nfs4"),
        ("/srv/shared/local/s.db", "xfs"),
        ("/srv/with blank/s.db", "cifs"),
    ):
        assert file_system_of(Path(path), mounts) == kind
    assert [over_network(kind) for kind in ("nfs4", "fuse.sshfs", "ext4")] == [True, True, False]


def test_a_check_that_hangs_does_not_hold_up_the_others(sqlite: CheckedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe in place of the list of mounts gives no answer for ever; the check says so in its time."""
    pipe = sqlite.folder / "mounts"
    os.mkfifo(pipe)
    monkeypatch.setattr("langlauf.store.sqlite.health._MOUNTS", pipe)
    monkeypatch.setattr("langlauf.cli.doctor.CHECK_SECONDS", 0.3)
    monkeypatch.setattr("langlauf.doctor._INTERRUPT_SECONDS", 0.1)
    found = sqlite.examine()
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert (found.levels["sqlite_version"], found.levels["schema_version"], found.exit_code) == ("unknown", "ok", 2)
    assert "no answer" in found.findings["sqlite_version"]["seen"]
