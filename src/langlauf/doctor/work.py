"""Workers and jobs: somebody is there for what waits, and nothing is stuck."""

from collections import Counter

from langlauf.doctor.check import Check, Needs
from langlauf.doctor.findings import Seen, ago, fine, odd, some, wrong
from langlauf.doctor.patient import Patient
from langlauf.domain.health import LONG_WAIT_SECONDS, runnable_analyses
from langlauf.domain.instant import seconds_between

_DAY = 86_400.0
#: How long ago a lease, a wish to cancel or a retry may be due before somebody should have come.
_PATIENCE_SECONDS = 10.0
_STOP_SECONDS = 60.0
_MANY_RETRIES = 1_000
_SERVE = "langlauf serve"


def workers(patient: Patient) -> Seen:
    live = [one for one in patient.workers if one.works(patient.now)]
    silent = [one for one in patient.workers if one.silent(patient.now)]
    if not live and patient.waiting:
        return wrong(f"{patient.waiting} jobs wait, and no worker is there", _SERVE)
    if silent:
        held = sum(one.held for one in silent)
        quiet = max(one.quiet_seconds(patient.now) for one in silent)
        who = some([f"{one.report.host}:{one.report.pid}" for one in silent])
        words = f"{who} silent for {ago(quiet)}, holding {held} jobs"
        return wrong(words, patient.command("sweep")) if held else odd(words, _SERVE)
    if not live:
        return odd("no worker is there; nothing waits", _SERVE)
    return fine(f"{len(live)} at work, with {sum(one.held for one in live)} jobs")


def worker_versions(patient: Patient) -> Seen:
    live = [one.report for one in patient.workers if one.works(patient.now)]
    versions = sorted({one.version for one in live} | {patient.version} - {""})
    if len(versions) > 1:
        return odd(f"different versions at work: {some(versions)}", "langlauf --version")
    return fine(some(versions) or "no worker is there")


def unknown_analyses(patient: Patient) -> Seen:
    known = runnable_analyses(patient.workers, patient.now)
    waiting = Counter[str]()
    for queue in patient.queues:
        waiting[queue.analysis] += queue.waiting
    # A job that had started waits as well while no worker holds it: for its next attempt, or as its worker was lost.
    waiting.update(job.analysis for job in patient.underway if job.lease_until is None)
    unknown = {name: count for name, count in waiting.items() if count and name not in known}
    if unknown and known:
        words = f"{sum(unknown.values())} jobs of {some(sorted(unknown))} wait, and no worker knows them"
        return wrong(words, "langlauf worker MODULE:APP")
    return fine("every analysis that waits has a worker" if known else "no worker is there to ask")


def ended_leases(patient: Patient) -> Seen:
    limit = max(_PATIENCE_SECONDS, 2 * patient.settings.sweep_seconds)
    over = [
        seconds_between(job.lease_until, patient.now)
        for job in patient.underway
        if job.lease_until is not None and seconds_between(job.lease_until, patient.now) > limit
    ]
    if over:
        words = f"{len(over)} leases are over for up to {ago(max(over))} and were not swept"
        return wrong(words, patient.command("sweep"))
    return fine("none")


def oldest_waiting(patient: Patient) -> Seen:
    ages = [(seconds_between(one.oldest_at, patient.now), one) for one in patient.queues if one.oldest_at is not None]
    if not ages:
        return fine("nothing waits")
    seconds, queue = max(ages, key=lambda pair: pair[0])
    words = f"{patient.waiting} wait; the oldest, of {queue.org_id}/{queue.analysis}, for {ago(seconds)}"
    return odd(words, f"langlauf jobs --org {queue.org_id}") if seconds > LONG_WAIT_SECONDS else fine(words)


def oldest_running(patient: Patient) -> Seen:
    held = [(seconds_between(job.started_at, patient.now), job) for job in patient.underway if job.lease_until]
    if not held:
        return fine("nothing runs")
    seconds, job = max(held, key=lambda pair: pair[0])
    words = f"{len(held)} run; the oldest, {job.job_id} of {job.org_id}/{job.analysis}, began {ago(seconds)} ago"
    return odd(words, f"langlauf status {job.job_id} --org {job.org_id}") if seconds > _DAY else fine(words)


def canceling(patient: Patient) -> Seen:
    limit = _STOP_SECONDS + patient.settings.cancel_grace
    slow = [
        job
        for job in patient.underway
        if job.cancel_requested_at is not None and seconds_between(job.cancel_requested_at, patient.now) > limit
    ]
    if slow:
        words = f"{len(slow)} jobs were asked to stop more than {ago(limit)} ago and have not: {slow[0].job_id}"
        return odd(words, patient.command("sweep"))
    return fine("none that does not stop")


def retries(patient: Patient) -> Seen:
    due = [job.next_attempt_at for job in patient.underway if job.next_attempt_at is not None]
    late = [one for one in due if seconds_between(one, patient.now) > LONG_WAIT_SECONDS]
    words = f"{len(due)} wait for their next attempt"
    if late:
        longest = seconds_between(min(late), patient.now)
        return odd(f"{words}; {len(late)} of them are due, for up to {ago(longest)}", _SERVE)
    return odd(words, "langlauf jobs") if len(due) >= _MANY_RETRIES else fine(words)


CHECKS = (
    Check(
        "workers",
        Needs.ROWS,
        "A worker is there while jobs wait, and none is silent; one that is silent with jobs in its hands is an error.",
        workers,
    ),
    Check("worker_versions", Needs.ROWS, "All workers and this program have the same version.", worker_versions),
    Check(
        "unknown_analyses",
        Needs.ROWS,
        "Every analysis with jobs that wait, for a start or for their next attempt, is known to a live worker.",
        unknown_analyses,
    ),
    Check("ended_leases", Needs.ROWS, "No lease has been over for longer than two sweeps.", ended_leases),
    Check("oldest_waiting", Needs.ROWS, "No job has waited for more than 5 minutes.", oldest_waiting),
    Check("oldest_running", Needs.ROWS, "No job has been running for more than a day.", oldest_running),
    Check("canceling", Needs.ROWS, "No job goes on a minute past the grace after it was asked to stop.", canceling),
    Check("retries", Needs.ROWS, "Fewer than 1,000 jobs wait for a retry, and none is overdue by 5 minutes.", retries),
)
