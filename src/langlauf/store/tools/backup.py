"""Backups of a SQLite file while it is served, and their restore.

The copy is a snapshot: a read transaction is held on the source while its pages are copied, so that writers neither
wait nor restart the copy; only the log grows meanwhile. A copy is made under another name, checked,
synced and renamed when complete: a reader finds the old file, the new one or none.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import apsw
import msgspec

from langlauf.clock import new_secret
from langlauf.domain.errors import SchemaTooNew, StoreError, StoreUnavailable
from langlauf.store.admin import KNOWN_AS
from langlauf.store.blobs.owner import INSTANCE
from langlauf.store.sql import load_queries, migrations_in
from langlauf.store.sqlite.connection import applied_migrations, open_connection, open_untouched, unseen_log
from langlauf.store.sqlite.snapshot import refuse_unfinished
from langlauf.store.tools.verify import Watch

#: Pages of one step: after each the progress is reported and an interrupt is noticed.
_PAGES = 2_048
_HEADER = b"SQLite format 3\0"
#: Tables that only a store has.
_OURS = frozenset({"job_rows", "event_rows", "result_rows", "key_rows"})
_ORPHANS = load_queries("langlauf.store.sqlite", "verify.sql")["own_orphans"]
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
_HAS_SECRETS = "SELECT 1 FROM sqlite_schema WHERE name = 'signing_secrets'"
_OWNER_READ = "SELECT secret FROM signing_secrets WHERE purpose = ?"
_OWNER_WRITE = "UPDATE signing_secrets SET secret = ? WHERE purpose = ?"
_BESIDE = ("-wal", "-shm", "-journal")
#: The file beside a store that names its last backup: the store itself may be damaged when it is needed.
_LAST = ".last-backup"


class BackupRefused(StoreError):
    """The target exists, or the file is no backup."""


class BackupReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was copied, and how many rows of each table the copy holds."""

    source: str
    target: str
    schema: int
    bytes: int
    tables: dict[str, int]
    #: where the replaced file is
    kept: str | None = None
    #: what of the source could not be read
    unseen: str | None = None


def back_up(path: str, target: Path, *, force: bool, watch: Watch = lambda *_: None) -> BackupReport:
    """Back up the store at a path while it is served."""
    if not Path(path).is_file():
        raise StoreUnavailable(f"there is no store at {path}")
    if target.exists() and not force:
        raise BackupRefused(f"{target} exists: name another file, or say --force")
    if target.exists() and target.samefile(path):
        raise BackupRefused(f"{target} is the store itself")
    with _read_transaction(path, _open_source(path)) as source, _temporary_file(target) as making:
        refuse_unfinished(path, source)
        tables = _copy_pages(source, making, watch)
        size = making.stat().st_size
        _rename_into_place(making, target, force=force)
        _record_last_backup(path, target)
        return BackupReport(
            source=path,
            target=str(target),
            schema=applied_migrations(source),
            bytes=size,
            tables=tables,
            unseen=unseen_log(path),
        )


def last_backup(path: str) -> Path | None:
    """Return the newest backup that was made of the store at a path, or None where it is not known or not there."""
    try:
        file = Path(Path(f"{path}{_LAST}").read_text("utf-8").strip())
    except (OSError, ValueError):
        return None
    return file if file.is_absolute() and file.is_file() else None


def _record_last_backup(path: str, target: Path) -> None:
    """Record where the backup is; a read-only folder is ignored."""
    with contextlib.suppress(OSError):
        note = os.open(f"{path}{_LAST}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(note, "w", encoding="utf-8") as written:
            written.write(f"{target.absolute()}\n")


def restore_backup(file: Path, path: str, *, force: bool, watch: Watch = lambda *_: None) -> BackupReport:
    """Restore a backup to a path. An existing store is replaced only by force, and then kept aside."""
    target = Path(path)
    there = [one for one in (target, *(Path(f"{path}{end}") for end in _BESIDE)) if one.exists()]
    if there and not force:
        raise BackupRefused(f"{there[0]} exists: name another store, or say --force, which keeps it aside")
    if target.exists() and target.samefile(file):
        raise BackupRefused(f"{file} is the store itself")
    with _read_transaction(str(file), _open_backup(file)) as source:
        _refuse_foreign_file(file, source)
        target.parent.mkdir(parents=True, exist_ok=True)
        with _temporary_file(target) as making:
            tables = _copy_pages(source, making, watch)
            _rename_owner(making, _blob_owner_of(target))
            size = making.stat().st_size
            kept = _move_aside(target) if there else None
            _rename_into_place(making, target, force=False)
        return BackupReport(
            source=str(file),
            target=path,
            schema=applied_migrations(source),
            bytes=size,
            tables=tables,
            kept=None if kept is None else str(kept),
        )


def _open_source(path: str) -> apsw.Connection:
    try:
        return open_connection(path, read_only=True)
    except StoreUnavailable as error:
        if isinstance(error.__cause__, apsw.CorruptError):
            raise BackupRefused(f"{path} is damaged: {error.__cause__}") from error
        raise


@contextmanager
def _read_transaction(name: str, connection: apsw.Connection) -> Iterator[apsw.Connection]:
    """Yield a connection with an open read transaction on the file."""
    try:
        connection.execute("BEGIN")
        connection.execute("SELECT 1 FROM sqlite_schema").fetchall()
        yield connection
    except apsw.NotADBError as error:
        raise BackupRefused(f"{name} is not a SQLite file") from error
    except apsw.CorruptError as error:
        raise BackupRefused(f"{name} is damaged: {error}") from error
    except apsw.Error as error:
        raise StoreUnavailable(f"{name} cannot be copied: {error}") from error
    except OSError as error:
        raise StoreUnavailable(f"{name} cannot be copied: {error.strerror or error}") from error
    finally:
        connection.close()


@contextmanager
def _temporary_file(target: Path) -> Iterator[Path]:
    """Yield a new private file in the same folder, which is deleted at the end unless it was renamed."""
    try:
        target.absolute().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=target.absolute().parent, prefix=f".{target.name}.", suffix=".part")
    except OSError as error:
        raise StoreUnavailable(f"nothing can be written beside {target}: {error.strerror}") from error
    os.close(descriptor)
    making = Path(name)
    try:
        yield making
    finally:
        for one in (making, *(Path(f"{name}{end}") for end in _BESIDE)):
            one.unlink(missing_ok=True)


def _copy_pages(source: apsw.Connection, making: Path, watch: Watch) -> dict[str, int]:
    """Copy all pages, check the copy, and return its row counts."""
    copy = apsw.Connection(str(making))
    try:
        # The file is synced once, before it is renamed.
        copy.execute("PRAGMA synchronous = OFF")
        with copy.backup("main", source, "main") as pages:
            while not pages.done:
                pages.step(_PAGES)
                watch("copying", pages.page_count - pages.remaining, pages.page_count)
    finally:
        copy.close()
    wanted = _counts(source, watch)
    found = _check_copy(making, watch)
    if found != wanted:
        raise StoreError(f"the copy does not hold what it should: {found}, not {wanted}")
    return found


def _check_copy(file: Path, watch: Watch) -> dict[str, int]:
    """Check the copy on disk and return its row counts."""
    connection = open_untouched(file)
    try:
        watch("checking", 0, 1)
        _refuse_damaged(file, connection)
        return _counts(connection, watch)
    finally:
        connection.close()


def _refuse_damaged(file: Path, connection: apsw.Connection) -> None:
    damages = [str(line) for (line,) in connection.execute("PRAGMA integrity_check(10)") if line != "ok"]
    if damages:
        raise BackupRefused(f"{file} is damaged: {damages[0]}")
    if connection.execute("PRAGMA foreign_key_check").fetchall() or connection.execute(_ORPHANS).fetchall():
        raise BackupRefused(f"{file} has rows that belong to nothing: `langlauf verify` lists them")


def _counts(connection: apsw.Connection, watch: Watch) -> dict[str, int]:
    names = [str(name) for (name,) in connection.execute(_TABLES)]
    counts: dict[str, int] = {}
    for done, name in enumerate(names):
        watch("counting", done, len(names))
        found: Any = connection.execute(f'SELECT count(*) FROM "{name}"').get  # noqa: S608 - a name of the schema
        counts[KNOWN_AS.get(name, name)] = int(found)
    return counts


def _open_backup(file: Path) -> apsw.Connection:
    try:
        with file.open("rb") as opened:
            header = opened.read(len(_HEADER))
    except OSError as error:
        raise StoreUnavailable(f"{file} cannot be read: {error.strerror}") from error
    if header != _HEADER:
        raise BackupRefused(f"{file} is not a SQLite file")
    log = Path(f"{file}-wal")
    if log.exists() and log.stat().st_size:
        words = "it belongs to a file that was in use, and is no backup: make one with `langlauf backup`"
        raise BackupRefused(f"{log} lies beside {file}: {words}")
    return open_untouched(file)


def _refuse_foreign_file(file: Path, source: apsw.Connection) -> None:
    names = {str(name) for (name,) in source.execute(_TABLES)}
    if not names >= _OURS:
        raise BackupRefused(f"{file} is a SQLite file, and not a store of this program")
    found, known = applied_migrations(source), len(migrations_in("langlauf.store.sqlite"))
    if found > known:
        raise SchemaTooNew(f"{file} has schema {found}, this program knows {known}: use the newer program")
    _refuse_damaged(file, source)
    refuse_unfinished(str(file), source)


def _blob_owner_of(target: Path) -> bytes | None:
    """Return the blob owner secret of the store to replace; None where there is none."""
    if not target.exists():
        return None
    try:
        connection = open_connection(str(target), read_only=True)
    except StoreUnavailable:
        return None  # it is damaged, which may be why it is replaced
    try:
        found: Any = connection.execute(_OWNER_READ, (INSTANCE,)).get
    except apsw.Error:
        return None
    finally:
        connection.close()
    return cast("bytes | None", found)


def _rename_owner(making: Path, replaced: bytes | None) -> None:
    """Tell a restored store from the one that the backup was made of, which may still be in use.

    One that takes the place of a store is that store from now on, and keeps its blobs. Any other has to take them over.
    """
    connection = apsw.Connection(str(making), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        if connection.execute(_HAS_SECRETS).get:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(_OWNER_WRITE, (replaced or new_secret(), INSTANCE))
    finally:
        connection.close()


def _move_aside(target: Path) -> Path:
    """Move the existing store aside; raise where a process has it open."""
    _refuse_in_use(target)
    mark = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    kept = target.with_name(f"{target.name}.before-{mark}")
    for end in ("", *_BESIDE):
        with contextlib.suppress(FileNotFoundError):
            shutil.move(f"{target}{end}", f"{kept}{end}")
    return kept


def _refuse_in_use(target: Path) -> None:
    """Raise where a process has the file open: its shared lock refuses exclusive use."""
    if not target.exists():
        return
    connection = apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE; ROLLBACK")
    except (apsw.BusyError, apsw.LockedError) as error:
        raise BackupRefused(f"{target} is in use: stop its servers and workers first") from error
    except apsw.Error:
        pass  # it is damaged, which may be why it is replaced: it is kept as it is
    finally:
        connection.close()


def _rename_into_place(making: Path, target: Path, *, force: bool) -> None:
    """Sync the file and rename it; a file that appeared meanwhile is overwritten only by force."""
    descriptor = os.open(making, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if force:
        making.replace(target)
    else:
        try:
            target.hardlink_to(making)
        except FileExistsError as error:
            raise BackupRefused(f"{target} exists: name another file, or say --force") from error
        except OSError:  # some file systems have no second names
            making.replace(target)
    folder = os.open(target.absolute().parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
