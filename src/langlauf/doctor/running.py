"""Makes the checks one after the other, each within its time: one that hangs does not hold up the others."""

import threading
from collections.abc import Callable, Iterator

from langlauf.doctor.check import Check, Needs
from langlauf.doctor.findings import Finding, Level, Seen, unknown
from langlauf.doctor.patient import Patient
from langlauf.doctor.registry import CHECKS
from langlauf.domain.errors import LanglaufError

#: What one check may take.
SECONDS = 10.0
#: What an interrupted one may take to notice.
_NOTICE_SECONDS = 2.0
_KINDS = {"sqlite": Needs.SQLITE, "postgres": Needs.POSTGRES}


def examined(patient: Patient, *, seconds: float = SECONDS) -> Iterator[Finding]:
    """The findings, as they are made."""
    kind = _KINDS[patient.examiner.kind]
    readable = False
    for check in CHECKS:
        if check.needs in _KINDS.values() and check.needs is not kind:
            continue
        if check.needs is Needs.ROWS and not readable:
            seen = unknown("not looked at: the schema is not this program's, or cannot be read")
        else:
            seen = _within(seconds, check, patient)
        if check.name == "schema_version":
            readable = seen.level is Level.OK
        yield Finding(check.name, seen.level, seen.words, seen.step)


def _within(seconds: float, check: Check, patient: Patient) -> Seen:
    """A thread of its own that nobody waits for at the end: a file system that hangs cannot be interrupted."""
    found: list[Seen] = []
    thread = threading.Thread(target=lambda: found.append(guarded(check.look, patient)), daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        patient.examiner.interrupt()
        thread.join(_NOTICE_SECONDS)
    return found[0] if found else unknown(f"no answer within {seconds:g} s")


def guarded(look: Callable[[Patient], Seen], patient: Patient) -> Seen:
    """What a check saw, or why it could not be made."""
    try:
        return look(patient)
    except (LanglaufError, OSError) as error:
        return unknown(str(error) or type(error).__name__)
