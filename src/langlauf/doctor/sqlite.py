"""Checks of a SQLite file: durable, private, undamaged, with free disk space."""

import shlex
import stat
from typing import cast

from langlauf.doctor.check import (
    Check,
    CheckResult,
    DoctorTarget,
    Needs,
    error,
    format_bytes,
    join_first,
    ok,
    warning,
)
from langlauf.domain.health import DISK_SPACE, LARGE_LOG, LITTLE_DISK, NO_DISK
from langlauf.store.health import PROBLEM_TEXTS, StoreProblem
from langlauf.store.sqlite.health import over_network
from langlauf.store.tools.backup import last_backup
from langlauf.store.tools.inspection import FileInspector
from langlauf.store.tools.location import SqliteLocation

_FULL = 2
_MIB = 1_048_576
_MUCH_FREE, _MUCH_SHARE = 256 * _MIB, 0.5
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def _path(target: DoctorTarget) -> str:
    return shlex.quote(target.place.shown)


def library(target: DoctorTarget) -> CheckResult:
    facts = target.file
    if tuple(map(int, facts.library.split("."))) < tuple(map(int, facts.oldest_safe.split("."))):
        message = f"SQLite {facts.library} can damage its log; upgrade to {facts.oldest_safe} or later"
        return error(message, "pip install --upgrade apsw")
    return ok(f"SQLite {facts.library}")


def journal_mode(target: DoctorTarget) -> CheckResult:
    mode = target.file.journal_mode
    if mode != "wal":
        return error(f"the file is in mode {mode}, in which readers block writers", target.command("migrate"))
    return ok("write-ahead log")


def durability(target: DoctorTarget) -> CheckResult:
    facts = target.file
    problems = {
        f"synchronous is {facts.synchronous}, so that a power failure can lose committed jobs": facts.synchronous
        < _FULL,
        "foreign keys are not enforced": not facts.foreign_keys,
        "there is no busy timeout": facts.busy_milliseconds == 0,
        "the file is memory-mapped, where a stray write can damage it": facts.mapped_bytes > 0,
    }
    found = [problem for problem, present in problems.items() if present]
    if found:
        return error("; ".join(found), "pip install --force-reinstall langlauf")
    return ok(f"synchronous=FULL, foreign keys, busy timeout {facts.busy_milliseconds} ms")


def file_modes(target: DoctorTarget) -> CheckResult:
    *files, folder = target.file.paths
    wide = [one.path for one in files if one.mode & _OTHERS]
    if wide:
        message = f"other users may read or write {join_first(wide)}"
        return error(message, shlex.join(["chmod", "600", *wide]))
    if folder.mode & _OTHERS_WRITE and not folder.mode & stat.S_ISVTX:
        return error(f"other users may create files in {folder.path}", shlex.join(["chmod", "go-w", folder.path]))
    return ok("for the owner only")


def writable(target: DoctorTarget) -> CheckResult:
    reason = target.file.unwritable
    if reason is not None:
        return error(f"{reason}: no server can start on it", f"ls -ld {_path(target)} $(dirname {_path(target)})")
    return ok("the file and its folder are writable")


def file_system(target: DoctorTarget) -> CheckResult:
    kind = target.file.file_system
    if over_network(kind):
        message = f"the file is on {kind}: locks and shared memory are unreliable on a network file system"
        return warning(message, f"langlauf copy-store {_path(target)} /a/local/disk/store.db")
    return ok(kind)


def log_size(target: DoctorTarget) -> CheckResult:
    facts = target.file
    if facts.log_bytes > LARGE_LOG.threshold:
        message = f"the write-ahead log has grown to {format_bytes(facts.log_bytes)}: a long read blocks its checkpoint"
        return warning(message, target.remedy(LARGE_LOG, path=_path(target)))
    return ok(format_bytes(facts.log_bytes))


def disk_space(target: DoctorTarget) -> CheckResult:
    facts = target.file
    share = facts.disk_free / facts.disk_size if facts.disk_size else 1.0
    message = f"{format_bytes(facts.disk_free)} of {format_bytes(facts.disk_size)} are free"
    next_step = target.remedy(DISK_SPACE, path=_path(target))
    if facts.disk_free < NO_DISK.free_bytes or share < NO_DISK.free_share:
        return error(message, next_step)
    if facts.disk_free < LITTLE_DISK.free_bytes or share < LITTLE_DISK.free_share:
        return warning(message, next_step)
    return ok(message)


def free_pages(target: DoctorTarget) -> CheckResult:
    facts = target.file
    unused = facts.free_pages * facts.page_size
    share = facts.free_pages / facts.pages if facts.pages else 0.0
    message = f"{format_bytes(unused)} of {format_bytes(facts.pages * facts.page_size)} are unused"
    if unused > _MUCH_FREE and share > _MUCH_SHARE:
        return warning(
            f"{message}; with all servers stopped, the file can be compacted", f"python -m apsw {_path(target)} VACUUM"
        )
    return ok(message)


def damage(target: DoctorTarget) -> CheckResult:
    """Check every page, and every foreign key."""
    try:
        torn = target.inspector.damages()
        loose = [] if torn else cast("FileInspector", target.inspector).loose_rows()
    except TimeoutError:
        return warning("not read completely within the time limit", target.command("verify"))
    if torn:
        message = f"{join_first(torn)}; {PROBLEM_TEXTS[StoreProblem.DAMAGED].remedy}"
        newest = last_backup(target.place.path) if isinstance(target.place, SqliteLocation) else None
        return error(message, target.command("restore", str(newest or "BACKUP"), "--force"))
    if loose:
        return error(join_first(loose), target.command("verify"))
    return ok("none found")


CHECKS = (
    Check("sqlite_version", Needs.SQLITE, "SQLite is 3.51.3 or later: earlier versions can damage their log.", library),
    Check("journal_mode", Needs.SQLITE, "The file is in mode `wal`.", journal_mode),
    Check(
        "durability",
        Needs.SQLITE,
        "Connections have `synchronous=FULL`, foreign keys, a busy timeout, and no mapped memory.",
        durability,
    ),
    Check(
        "file_modes",
        Needs.SQLITE,
        "The file, `-wal` and `-shm` are for their owner only (0600), and no other user may write to the folder.",
        file_modes,
    ),
    Check("writable", Needs.SQLITE, "This user may write to the file and its folder.", writable),
    Check("file_system", Needs.SQLITE, "The file is not on a network file system.", file_system),
    Check("damage", Needs.SQLITE, "`quick_check` and `foreign_key_check` find nothing.", damage),
    Check(
        "log_size",
        Needs.SQLITE,
        "The write-ahead log is at most twice as large as the size at which it is truncated.",
        log_size,
    ),
    Check(
        "disk_space", Needs.SQLITE, "The disk has 1 GiB and 5 % left; under 100 MiB or 1 % it is an error.", disk_space
    ),
    Check("free_pages", Needs.SQLITE, "Less than half of a large file is unused.", free_pages),
)
