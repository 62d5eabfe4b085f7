"""`langlauf doctor`: every check, and running them one after the other, each within a time limit."""

import threading
from collections.abc import Iterator

from langlauf.doctor import jobs, postgres, sqlite, store
from langlauf.doctor.check import Check, CheckLevel, CheckResult, DoctorTarget, Finding, Needs, unknown
from langlauf.domain.errors import LanglaufError

#: In the order in which they run; the command, the documents and a test read it.
CHECKS: tuple[Check, ...] = (
    *sqlite.CHECKS,
    *postgres.CHECKS,
    *store.CHECKS,
    *jobs.CHECKS,
    *store.BLOB_CHECKS,
    *store.SETTINGS_CHECKS,
)
#: Time limit of a check.
CHECK_SECONDS = 10.0
#: Time for an interrupted check to end.
_INTERRUPT_SECONDS = 2.0
_STORE_NEEDS = {"sqlite": Needs.SQLITE, "postgres": Needs.POSTGRES}


def run_checks(target: DoctorTarget, *, seconds: float = CHECK_SECONDS) -> Iterator[Finding]:
    """Run the checks that fit the store, and yield each finding at once."""
    kind = _STORE_NEEDS[target.inspector.kind]
    readable = False
    for check in CHECKS:
        if check.needs in _STORE_NEEDS.values() and check.needs is not kind:
            continue
        if check.needs is Needs.ROWS and not readable:
            result = unknown("not checked: the schema is of another version, or cannot be read")
        else:
            result = _run_limited(seconds, check, target)
        if check.name == "schema_version":
            readable = result.level is CheckLevel.OK
        yield Finding(check.name, result.level, result.message, result.next_step)


def _run_limited(seconds: float, check: Check, target: DoctorTarget) -> CheckResult:
    """Run a check in a daemon thread: a file system that hangs cannot be interrupted, and must not block the exit."""
    found: list[CheckResult] = []
    thread = threading.Thread(target=lambda: found.append(_run_check(check, target)), daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        target.inspector.interrupt()
        thread.join(_INTERRUPT_SECONDS)
    return found[0] if found else unknown(f"no answer within {seconds:g} s")


def _run_check(check: Check, target: DoctorTarget) -> CheckResult:
    try:
        return check.run(target)
    except (LanglaufError, OSError) as error:
        return unknown(str(error) or type(error).__name__)
