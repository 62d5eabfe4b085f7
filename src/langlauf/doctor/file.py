"""The SQLite file: durable, private, sound, and with room to grow."""

import shlex
import stat
from typing import cast

from langlauf.doctor.check import Check, Needs
from langlauf.doctor.findings import Seen, fine, odd, size, some, wrong
from langlauf.doctor.patient import Patient
from langlauf.store.sqlite.health import over_network
from langlauf.store.tools.backup import last_backup
from langlauf.store.tools.inspection import FileInspector
from langlauf.store.tools.location import SqliteLocation

_FULL = 2
_MIB, _GIB = 1_048_576, 1_073_741_824
_LITTLE_SPACE, _LITTLE_SHARE = _GIB, 0.05
_NO_SPACE, _NO_SHARE = 100 * _MIB, 0.01
_MUCH_FREE, _MUCH_SHARE = 256 * _MIB, 0.5
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def _path(patient: Patient) -> str:
    return shlex.quote(patient.place.shown)


def library(patient: Patient) -> Seen:
    seen = patient.file
    if tuple(map(int, seen.library.split("."))) < tuple(map(int, seen.oldest_safe.split("."))):
        words = f"SQLite {seen.library} can damage its log; {seen.oldest_safe} or later is needed"
        return wrong(words, "pip install --upgrade apsw")
    return fine(f"SQLite {seen.library}")


def journal_mode(patient: Patient) -> Seen:
    mode = patient.file.journal_mode
    if mode != "wal":
        return wrong(f"the file is in mode {mode}, in which readers hold up writers", patient.command("migrate"))
    return fine("write-ahead log")


def durability(patient: Patient) -> Seen:
    seen = patient.file
    wants = {
        f"synchronous is {seen.synchronous}, so that a power cut can take what was promised": seen.synchronous < _FULL,
        "foreign keys are not enforced": not seen.foreign_keys,
        "a locked file is not waited for": seen.busy_milliseconds == 0,
        "the file is mapped into memory, where a stray write reaches it": seen.mapped_bytes > 0,
    }
    found = [words for words, is_so in wants.items() if is_so]
    if found:
        return wrong("; ".join(found), "pip install --force-reinstall langlauf")
    return fine(f"synchronous=FULL, foreign keys, waits {seen.busy_milliseconds} ms for a lock")


def file_modes(patient: Patient) -> Seen:
    *files, folder = patient.file.paths
    wide = [one.path for one in files if one.mode & _OTHERS]
    if wide:
        words = f"others may read or write {some(wide)}"
        return wrong(words, shlex.join(["chmod", "600", *wide]))
    if folder.mode & _OTHERS_WRITE and not folder.mode & stat.S_ISVTX:
        return wrong(f"others may put files into {folder.path}", shlex.join(["chmod", "go-w", folder.path]))
    return fine("its owner's alone")


def writable(patient: Patient) -> Seen:
    reason = patient.file.unwritable
    if reason is not None:
        return wrong(f"{reason}: a server does not start on it", f"ls -ld {_path(patient)} $(dirname {_path(patient)})")
    return fine("the file and its folder")


def file_system(patient: Patient) -> Seen:
    kind = patient.file.file_system
    if over_network(kind):
        words = f"the file lies on {kind}: locks and shared memory cannot be relied on over a network"
        return odd(words, f"langlauf copy-store {_path(patient)} /a/local/disk/store.db")
    return fine(kind)


def log_size(patient: Patient) -> Seen:
    seen = patient.file
    if seen.log_bytes > 2 * seen.largest_log:
        words = f"the log has grown to {size(seen.log_bytes)}: somebody reads for long, or nobody writes any more"
        return odd(words, f"fuser -v {_path(patient)}")
    return fine(size(seen.log_bytes))


def disk_space(patient: Patient) -> Seen:
    seen = patient.file
    share = seen.disk_free / seen.disk_size if seen.disk_size else 1.0
    words = f"{size(seen.disk_free)} of {size(seen.disk_size)} are free"
    step = f"df -h {_path(patient)}"
    if seen.disk_free < _NO_SPACE or share < _NO_SHARE:
        return wrong(words, step)
    if seen.disk_free < _LITTLE_SPACE or share < _LITTLE_SHARE:
        return odd(words, step)
    return fine(words)


def free_pages(patient: Patient) -> Seen:
    seen = patient.file
    unused = seen.free_pages * seen.page_size
    share = seen.free_pages / seen.pages if seen.pages else 0.0
    words = f"{size(unused)} of {size(seen.pages * seen.page_size)} are unused"
    if unused > _MUCH_FREE and share > _MUCH_SHARE:
        return odd(
            f"{words}; with the servers stopped the file can be made small", f"python -m apsw {_path(patient)} VACUUM"
        )
    return fine(words)


def damage(patient: Patient) -> Seen:
    """Page by page, and every row that belongs to another one."""
    try:
        torn = patient.examiner.damages()
        loose = [] if torn else cast("FileInspector", patient.examiner).loose_rows()
    except TimeoutError:
        return odd("not read to its end in the time there is", patient.command("verify"))
    if torn:
        words = f"{some(torn)}; stop every server and worker, and put back the newest backup"
        newest = last_backup(patient.place.path) if isinstance(patient.place, SqliteLocation) else None
        return wrong(words, patient.command("restore", str(newest or "BACKUP"), "--force"))
    if loose:
        return wrong(some(loose), patient.command("verify"))
    return fine("none found")


CHECKS = (
    Check("sqlite_version", Needs.SQLITE, "SQLite is 3.51.3 or later: earlier ones can damage their log.", library),
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
        "The file, `-wal` and `-shm` are their owner's alone (0600), and nobody else may write into the folder.",
        file_modes,
    ),
    Check("writable", Needs.SQLITE, "This user may write to the file and into its folder.", writable),
    Check("file_system", Needs.SQLITE, "The file does not lie on a file system over a network.", file_system),
    Check("damage", Needs.SQLITE, "`quick_check` and `foreign_key_check` find nothing.", damage),
    Check("log_size", Needs.SQLITE, "The write-ahead log is at most twice as large as it is kept.", log_size),
    Check(
        "disk_space", Needs.SQLITE, "The disk has 1 GiB and 5 % left; under 100 MiB or 1 % it is an error.", disk_space
    ),
    Check("free_pages", Needs.SQLITE, "Not most of a large file is unused.", free_pages),
)
