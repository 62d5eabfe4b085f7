"""Checks of workers, jobs, maintenance duties and deliveries: nothing is stuck, and nothing is late."""

from collections import Counter
from functools import partial
from typing import cast

from langlauf.background import RECORD_SECONDS
from langlauf.doctor.check import (
    MAX_ROWS,
    Check,
    CheckResult,
    DoctorTarget,
    Needs,
    by_threshold,
    error,
    format_age,
    join_first,
    ok,
    warning,
)
from langlauf.domain.health import (
    DELIVERY_DUTY,
    DUTY_ROUNDS,
    DUTY_STOPPED,
    FAILURES,
    LATE_DELIVERY,
    LONG_WAIT,
    MANY_DELIVERIES,
    MIN_ENDED,
    NO_WORKER,
    OVERDUE_LEASES,
    RECEIVERS_DOWN,
    RETENTION_DUTY,
    SILENT_WORKER,
    SLOW_CANCEL,
    SWEEP_DUTY,
    UNKNOWN_ANALYSIS,
    runnable_analyses,
)
from langlauf.domain.instant import after, seconds_between
from langlauf.domain.schedule import GRACE_SECONDS
from langlauf.domain.state import Status
from langlauf.store.tools.inspection import RetiredKind

_HOUR, _DAY = 3_600.0, 86_400.0
_MANY_RETRIES = 1_000
#: A pause without an end that is older was probably forgotten.
_FORGOTTEN_PAUSE = _DAY
#: A planned run is fired within seconds. One that is overdue for so long has no process to fire it.
_LATE_RUN = 2 * GRACE_SECONDS
#: Number of the youngest jobs past their retention that are looked at.
_RETENTION_SAMPLE = 100


def workers(target: DoctorTarget) -> CheckResult:
    live = [one for one in target.workers if one.works(target.now)]
    silent = [one for one in target.workers if one.silent(target.now)]
    if not live and target.waiting:
        message = NO_WORKER.message.format(waiting=target.waiting)
        return error(f"{NO_WORKER.headline}. {message}", NO_WORKER.remedy)
    if silent:
        held = sum(one.held for one in silent)
        names = join_first([f"{one.report.host}:{one.report.pid}" for one in silent])
        seconds = format_age(max(one.quiet_seconds(target.now) for one in silent))
        message = SILENT_WORKER.message.format(workers=names, seconds=seconds, jobs=held)
        return error(message, target.remedy(SILENT_WORKER)) if held else warning(message, NO_WORKER.remedy)
    if not live:
        return warning("no worker is running, and no job waits", NO_WORKER.remedy)
    return ok(f"{len(live)} running, with {sum(one.held for one in live)} jobs")


def worker_versions(target: DoctorTarget) -> CheckResult:
    live = [one.report for one in target.workers if one.works(target.now)]
    versions = sorted({one.version for one in live} | {target.version} - {""})
    if len(versions) > 1:
        return warning(f"workers of different versions: {join_first(versions)}", "langlauf --version")
    return ok(join_first(versions) or "no worker is running")


def unknown_analyses(target: DoctorTarget) -> CheckResult:
    known = runnable_analyses(target.workers, target.now)
    waiting = Counter[str]()
    for queue in target.queues:
        waiting[queue.analysis] += queue.waiting
    # A started job without a lease waits too: for its next attempt, or because its worker was lost.
    waiting.update(job.analysis for job in target.underway if job.lease_until is None)
    unknown = {name: count for name, count in waiting.items() if count and name not in known}
    if unknown and known:
        names, jobs = join_first(sorted(unknown)), sum(unknown.values())
        return error(UNKNOWN_ANALYSIS.message.format(analyses=names, waiting=jobs), UNKNOWN_ANALYSIS.remedy)
    return ok("every analysis with waiting jobs has a worker" if known else "no worker is running")


def ended_leases(target: DoctorTarget) -> CheckResult:
    limit = max(OVERDUE_LEASES.threshold, 2 * target.settings.sweep_seconds)
    over = [
        seconds_between(job.lease_until, target.now)
        for job in target.underway
        if job.lease_until is not None and seconds_between(job.lease_until, target.now) > limit
    ]
    if over:
        message = OVERDUE_LEASES.message.format(jobs=len(over), seconds=format_age(max(over)))
        return error(message, target.remedy(OVERDUE_LEASES))
    return ok("none")


def oldest_waiting(target: DoctorTarget) -> CheckResult:
    ages = [
        (seconds_between(one.oldest_at, target.now), one)
        for one in target.queues
        if one.oldest_at is not None and not any(held.covers(one.org_id, one.analysis) for held in target.pauses)
    ]
    if not ages:
        return ok("no job waits, but for the end of a pause" if target.waiting else "no job waits")
    seconds, queue = max(ages, key=lambda pair: pair[0])
    name = f"{queue.org_id}/{queue.analysis}"
    message = f"{target.waiting} wait. {LONG_WAIT.message.format(analysis=name, seconds=format_age(seconds))}"
    return by_threshold(LONG_WAIT, seconds, message, target.remedy(LONG_WAIT, org=queue.org_id))


def paused(target: DoctorTarget) -> CheckResult:
    if not target.pauses:
        return ok("nothing is paused")
    names = join_first([f"{one.analysis} for {one.org_id or 'all orgs'} ({one.because})" for one in target.pauses])
    forgotten = [
        one
        for one in target.pauses
        if one.paused_until is None and seconds_between(one.paused_at, target.now) > _FORGOTTEN_PAUSE
    ]
    if not forgotten:
        return _paused_jobs(target) or ok(f"paused: {names}")
    first = forgotten[0]
    days = format_age(seconds_between(first.paused_at, target.now))
    org = f" --org {first.org_id}" if first.org_id else ""
    return warning(
        f"{first.analysis} has been paused for {days}, without an end: {first.because}",
        f"langlauf resume {first.analysis}{org}",
    )


def _paused_jobs(target: DoctorTarget) -> CheckResult | None:
    """Return a warning where jobs have waited for the end of a pause for long."""
    waits = [
        (seconds_between(queue.oldest_at, target.now), queue, held)
        for queue in target.queues
        for held in target.pauses
        if queue.oldest_at is not None and held.covers(queue.org_id, queue.analysis)
    ]
    seconds, queue, held = max(waits, key=lambda wait: wait[0], default=(0.0, None, None))
    if queue is None or held is None or seconds <= _FORGOTTEN_PAUSE:
        return None
    org = f" --org {held.org_id}" if held.org_id else ""
    return warning(
        f"{queue.waiting} jobs of {queue.org_id}/{queue.analysis} wait for the end of its pause, the oldest for "
        f"{format_age(seconds)}: {held.because}",
        f"langlauf resume {held.analysis}{org}",
    )


def schedules(target: DoctorTarget) -> CheckResult:
    planned = target.inspector.planned_analyses()
    known = runnable_analyses(target.workers, target.now)
    late = [one for one in planned if seconds_between(one.next_run_at, target.now) > _LATE_RUN]
    unfired = [one for one in late if one.analysis in known or not known]
    if unfired:
        first = min(unfired, key=lambda one: one.next_run_at)
        seconds = format_age(seconds_between(first.next_run_at, target.now))
        message = f"the schedule {first.org_id}/{first.name} has been due for {seconds}, and no process fires it"
        return error(message, NO_WORKER.remedy)
    unknown = [one for one in planned if known and one.analysis not in known]
    if unknown:
        names, first = join_first([one.analysis for one in unknown]), unknown[0]
        count = sum(one.schedules for one in unknown)
        message = f"no live worker knows {names}, which {count} schedules run"
        return warning(message, f"langlauf schedules remove {first.name} --org {first.org_id}")
    return ok(f"{sum(one.schedules for one in planned)} have planned runs, and none is late")


def oldest_running(target: DoctorTarget) -> CheckResult:
    held = [(seconds_between(job.started_at, target.now), job) for job in target.underway if job.lease_until]
    if not held:
        return ok("no job is running")
    seconds, job = max(held, key=lambda pair: pair[0])
    name = f"{job.job_id} of {job.org_id}/{job.analysis}"
    message = f"{len(held)} running; the oldest, {name}, started {format_age(seconds)} ago"
    return warning(message, f"langlauf status {job.job_id} --org {job.org_id}") if seconds > _DAY else ok(message)


def canceling(target: DoctorTarget) -> CheckResult:
    limit = SLOW_CANCEL.threshold + target.settings.cancel_grace
    slow = [
        (seconds_between(job.cancel_requested_at, target.now), job.job_id)
        for job in target.underway
        if job.cancel_requested_at is not None and seconds_between(job.cancel_requested_at, target.now) > limit
    ]
    if slow:
        seconds, job_id = max(slow)
        message = SLOW_CANCEL.message.format(jobs=len(slow), seconds=format_age(seconds))
        return warning(f"{message} It is {job_id}.", target.remedy(SLOW_CANCEL))
    return ok("every canceled job stops in time")


def failures(target: DoctorTarget) -> CheckResult:
    """Check the jobs that ended in the last hour, as /ops does."""
    ended = target.inspector.ended(after(target.now, -_HOUR), MAX_ROWS)
    failed = [job for job in ended if job.status == Status.FAILED]
    message = f"{len(failed)} of {len(ended)} jobs failed in the last hour"
    if len(ended) < MIN_ENDED or len(failed) <= FAILURES.threshold * len(ended):
        return ok(message)
    [(org, _)] = Counter(job.org_id for job in failed).most_common(1)
    return warning(f"{message}; the page /errors groups them by cause", target.remedy(FAILURES, org=org))


def retries(target: DoctorTarget) -> CheckResult:
    due = [job.next_attempt_at for job in target.underway if job.next_attempt_at is not None]
    late = [one for one in due if seconds_between(one, target.now) > LONG_WAIT.threshold]
    message = f"{len(due)} wait for their next attempt"
    if late:
        longest = format_age(seconds_between(min(late), target.now))
        return warning(f"{message}; {len(late)} of them are overdue by up to {longest}", NO_WORKER.remedy)
    return warning(message, "langlauf jobs") if len(due) >= _MANY_RETRIES else ok(message)


def duty_succeeded(name: str, target: DoctorTarget) -> CheckResult:
    """Check that a duty has succeeded within a few of its rounds."""
    every = {SWEEP_DUTY: target.settings.sweep_seconds, RETENTION_DUTY: target.settings.retention_every}[name]
    limit = DUTY_ROUNDS * every + RECORD_SECONDS + DUTY_STOPPED.threshold
    next_step = target.remedy(DUTY_STOPPED, command={SWEEP_DUTY: "sweep", RETENTION_DUTY: "cleanup"}[name])
    found = [done for done in target.inspector.duties() if done.name == name]
    violation = error if target.busy else warning
    if not found:
        used = target.busy or target.workers
        return violation("has never succeeded", next_step) if used else ok("not needed yet")
    age = seconds_between(found[0].succeeded_at, target.now)
    message = f"last succeeded {format_age(max(0.0, age))} ago on {found[0].host}"
    return violation(message, next_step) if age > limit else ok(message)


def delivery_duty(target: DoctorTarget) -> CheckResult:
    """Check that messages are sent, where some are due."""
    found = [done for done in target.inspector.duties() if done.name == DELIVERY_DUTY]
    due = target.inspector.deliveries(target.now).oldest_due
    late = 0.0 if due is None else seconds_between(due, target.now)
    age = seconds_between(found[0].succeeded_at, target.now) if found else None
    message = "has not run yet" if age is None else f"last succeeded {format_age(max(0.0, age))} ago on {found[0].host}"
    if late > LATE_DELIVERY.threshold and (age is None or age > DUTY_STOPPED.threshold + RECORD_SECONDS):
        return error(f"{message}, and messages are due", LATE_DELIVERY.remedy)
    return ok(message)


def retention_lag(target: DoctorTarget) -> CheckResult:
    """Check the youngest jobs past each age: retention removes them last."""
    policy = target.settings.retention
    lag = DUTY_ROUNDS * target.settings.retention_every + DUTY_STOPPED.threshold
    results = [age for age in (policy.final_results, policy.partial_results) if age is not None]
    ages = {"results": max(results) if len(results) > 1 else None, "events": policy.events, "jobs": policy.jobs}
    late = []
    for kind, age in ages.items():
        if age is None:
            continue
        before = after(target.now, -(age + lag))
        looked, kept = target.inspector.kept_beyond(cast("RetiredKind", kind), before, _RETENTION_SAMPLE)
        if kept * 2 > looked:
            late.append(kind)
    if late:
        return warning(f"{join_first(late)} are kept past their retention", target.command("cleanup"))
    return ok("nothing is kept past its retention")


def deliveries(target: DoctorTarget) -> CheckResult:
    facts = target.inspector.deliveries(target.now)
    late = 0.0 if facts.oldest_due is None else seconds_between(facts.oldest_due, target.now)
    since = f"; the oldest has been due for {format_age(late)}" if late > LATE_DELIVERY.threshold else ""
    message = f"{facts.pending} pending{since}"
    if late <= LATE_DELIVERY.threshold and facts.pending > MANY_DELIVERIES:
        return warning(message, LATE_DELIVERY.remedy)
    return by_threshold(LATE_DELIVERY, late, message, LATE_DELIVERY.remedy)


def endpoints(target: DoctorTarget) -> CheckResult:
    facts = target.inspector.deliveries(target.now)
    counts = {
        "receivers are paused after failures": facts.paused_lanes,
        "endpoints are disabled": facts.disabled_endpoints,
    }
    found = [f"{count} {what}" for what, count in counts.items() if count]
    return warning("; ".join(found), RECEIVERS_DOWN.remedy) if found else ok("no endpoint is paused or disabled")


CHECKS = (
    Check(
        "workers",
        Needs.ROWS,
        "A worker is running while jobs wait, and none is silent; a silent one that holds jobs is an error.",
        workers,
    ),
    Check("worker_versions", Needs.ROWS, "All workers and this program have the same version.", worker_versions),
    Check(
        "unknown_analyses",
        Needs.ROWS,
        "Every analysis with jobs that wait, for a start or for their next attempt, is known to a live worker.",
        unknown_analyses,
    ),
    Check("ended_leases", Needs.ROWS, "No lease has been expired for longer than two sweeps.", ended_leases),
    Check("oldest_waiting", Needs.ROWS, "No job has waited for more than 5 minutes.", oldest_waiting),
    Check(
        "paused",
        Needs.ROWS,
        "No analysis has been paused without an end for a day, and no job has waited for the end of a pause so long.",
        paused,
    ),
    Check(
        "schedules",
        Needs.ROWS,
        "No schedule has been due for 2 minutes, and the analysis of each is known to a live worker.",
        schedules,
    ),
    Check("oldest_running", Needs.ROWS, "No job has been running for more than a day.", oldest_running),
    Check("canceling", Needs.ROWS, "No job runs a minute past the grace after it was asked to stop.", canceling),
    Check(
        "failures",
        Needs.ROWS,
        "Of 20 jobs or more that ended in the last hour, at most a tenth failed.",
        failures,
    ),
    Check("retries", Needs.ROWS, "Fewer than 1,000 jobs wait for a retry, and none is overdue by 5 minutes.", retries),
    Check(
        "duty_sweep",
        Needs.ROWS,
        "The sweep has succeeded within three rounds and a minute.",
        partial(duty_succeeded, SWEEP_DUTY),
    ),
    Check(
        "duty_retention",
        Needs.ROWS,
        "Retention has succeeded within three rounds and a minute.",
        partial(duty_succeeded, RETENTION_DUTY),
    ),
    Check(
        "duty_deliveries",
        Needs.ROWS,
        "Where messages have been due for a minute, sending has succeeded since.",
        delivery_duty,
    ),
    Check("retention_lag", Needs.ROWS, "Most of the jobs that retention removes last are removed.", retention_lag),
    Check(
        "deliveries",
        Needs.ROWS,
        "No message has been due for a minute (15 minutes are an error), and at most 10,000 are pending.",
        deliveries,
    ),
    Check("endpoints", Needs.ROWS, "No endpoint is disabled, and no receiver is paused after failures.", endpoints),
)
