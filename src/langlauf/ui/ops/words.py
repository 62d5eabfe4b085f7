"""Figures in words: amounts, shares, durations, and what is wrong."""

from markupsafe import Markup

from langlauf.domain.health import Finding
from langlauf.domain.instant import Instant, seconds_between
from langlauf.domain.workers import WorkerSeen
from langlauf.ui.language import Language

#: Between thousands, the same in every language.
_THIN = "\u202f"
#: Keeps a number and its unit on one line.
_FIXED = "\u00a0"
#: What is not known, or does not apply.
NONE = "\u2013"
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_FEW = 10


def amount(number: float) -> str:
    """A number as people read it: its thousands apart, small ones with a digit behind the point."""
    if number != round(number) and number < _FEW:
        return f"{number:.1f}"
    return f"{round(number):,}".replace(",", _THIN)


def lasting(seconds: float | None) -> str:
    """How long something takes or took, in at most two units."""
    return NONE if seconds is None else _in_units(seconds).replace(" ", _FIXED)


def _in_units(seconds: float) -> str:
    if seconds < _FEW:
        return f"{seconds:.1f} s"
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), _MINUTE)
    if seconds < _HOUR:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, _MINUTE)
    if seconds < _DAY:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


def share(part: int, whole: int) -> str:
    """A share in percent; nothing where there is nothing to share."""
    if not whole:
        return NONE
    percent = 100 * part / whole
    digits = 1 if 0 < percent < _FEW else 0
    return f"{percent:.{digits}f}{_FIXED}%"


def told(finding: Finding, language: Language) -> Markup:
    """One thing that is wrong, as a sentence."""
    values = {
        name: lasting(value) if name == "seconds" else amount(value) if isinstance(value, int) else value
        for name, value in finding.values.items()
    }
    return language.say(f"ops.health.{finding.name}", **values)


def doing(worker: WorkerSeen, now: Instant, language: Language) -> Markup:
    """What a worker is doing, and of one that is silent what becomes of its jobs."""
    if not worker.silent(now):
        return language.say("ops.worker.stopping") if worker.report.stopping else language.say("ops.worker.works")
    quiet = lasting(worker.quiet_seconds(now))
    if not worker.held or worker.held_until is None:
        return language.say("ops.worker.silent", quiet=quiet)
    left = seconds_between(now, worker.held_until)
    if left > 0:
        return language.say("ops.worker.silent.holds", quiet=quiet, left=lasting(left), jobs=amount(worker.held))
    return language.say("ops.worker.silent.over", quiet=quiet, jobs=amount(worker.held))
