"""Duties of upkeep: each has succeeded lately, and what it is for is done."""

from functools import partial
from typing import cast

from langlauf.background import RECORD_SECONDS
from langlauf.doctor.check import Check, Needs
from langlauf.doctor.findings import Seen, ago, fine, odd, some, wrong
from langlauf.doctor.patient import Patient
from langlauf.domain.health import DELIVERY_DUTY, RETENTION_DUTY, SWEEP_DUTY
from langlauf.domain.instant import after, seconds_between
from langlauf.store.tools.inspection import RetiredKind

#: A late round, a restart and a note that is not written each time are no reason to call anybody.
_SLACK_SECONDS = 60.0
_ROUNDS = 3
#: Of the youngest jobs that retention should have come to, so many are looked at.
_LOOKED_AT = 100


def succeeded(name: str, patient: Patient) -> Seen:
    """Whether a duty has succeeded within a few of its rounds."""
    every = {SWEEP_DUTY: patient.settings.sweep_seconds, RETENTION_DUTY: patient.settings.retention_every}[name]
    limit = _ROUNDS * every + RECORD_SECONDS + _SLACK_SECONDS
    step = patient.command({SWEEP_DUTY: "sweep", RETENTION_DUTY: "cleanup"}[name])
    found = [done for done in patient.examiner.duties() if done.name == name]
    judge = wrong if patient.busy else odd
    if not found:
        return (
            judge("has never succeeded here", step) if patient.busy or patient.workers else fine("nothing has run yet")
        )
    quiet = seconds_between(found[0].succeeded_at, patient.now)
    words = f"last succeeded {ago(max(0.0, quiet))} ago on {found[0].host}"
    return judge(words, step) if quiet > limit else fine(words)


def deliveries_sent(patient: Patient) -> Seen:
    """Whether anybody sends: it is judged where something is to be sent."""
    found = [done for done in patient.examiner.duties() if done.name == DELIVERY_DUTY]
    due = patient.examiner.deliveries(patient.now).oldest_due
    late = 0.0 if due is None else seconds_between(due, patient.now)
    quiet = seconds_between(found[0].succeeded_at, patient.now) if found else None
    words = "has not run yet" if quiet is None else f"last succeeded {ago(max(0.0, quiet))} ago on {found[0].host}"
    if late > _SLACK_SECONDS and (quiet is None or quiet > _SLACK_SECONDS + RECORD_SECONDS):
        return wrong(f"{words}, and messages are due", "langlauf serve --deliveries 8")
    return fine(words)


def retention_lag(patient: Patient) -> Seen:
    """Looks at the youngest jobs beyond each age: retention comes to them last."""
    policy = patient.settings.retention
    lag = _ROUNDS * patient.settings.retention_every + _SLACK_SECONDS
    results = [age for age in (policy.final_results, policy.partial_results) if age is not None]
    ages = {"results": max(results) if len(results) > 1 else None, "events": policy.events, "jobs": policy.jobs}
    late = []
    for kind, age in ages.items():
        if age is None:
            continue
        before = after(patient.now, -(age + lag))
        looked, kept = patient.examiner.kept_beyond(cast("RetiredKind", kind), before, _LOOKED_AT)
        if kept * 2 > looked:
            late.append(kind)
    if late:
        return odd(f"{some(late)} are kept for longer than they should be", patient.command("cleanup"))
    return fine("nothing is kept for longer than it should be")


CHECKS = (
    Check(
        "duty_sweep",
        Needs.ROWS,
        "The sweep has succeeded within three rounds and a minute.",
        partial(succeeded, SWEEP_DUTY),
    ),
    Check("duty_retention", Needs.ROWS, "So has retention.", partial(succeeded, RETENTION_DUTY)),
    Check(
        "duty_deliveries",
        Needs.ROWS,
        "Where messages have been due for a minute, sending has succeeded since.",
        deliveries_sent,
    ),
    Check(
        "retention_lag", Needs.ROWS, "Of the jobs that retention comes to last, most have been come to.", retention_lag
    ),
)
