"""How a job is doing, in one sentence for a model and in fields for a program."""

from typing import Any

from langlauf.domain.instant import to_datetime, to_text
from langlauf.domain.job import JobRecord, Phase
from langlauf.domain.read_models import JobView
from langlauf.domain.state import Status
from langlauf.service.read import DerivedFields

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_HINTS = {
    "check_input_and_retry": "Check the input, then call the tool again.",
    "retry_with_backoff": "Try again later.",
}


def latest_uri(job_id: str) -> str:
    """Return the URI of a job's newest snapshot."""
    return f"langlauf:///jobs/{job_id}/latest"


def result_uri(result_id: str) -> str:
    """Return the URI of one snapshot."""
    return f"langlauf:///results/{result_id}"


def status_sentence(job: JobRecord, derived: DerivedFields) -> str:
    """Return how a job is doing: `Reading year 3 · 40 % · about 3 min left · interim result 3`."""
    match job.status:
        case Status.COMPLETED:
            return "Completed"
        case Status.FAILED:
            return failure_sentence(job)
        case Status.CANCELED:
            return f"Canceled: {job.cancel_reason}"
    if derived.phase is Phase.SCHEDULED and job.run_at is not None:
        return f"Starts at {to_datetime(job.run_at):%Y-%m-%dT%H:%M:%SZ}"
    activity = _ACTIVITIES.get(derived.phase) or job.step or "Running"
    words = [activity, f"{job.progress_percent} %" if job.started_at is not None else ""]
    if derived.estimated_seconds is not None and derived.phase is not Phase.CANCELING:
        words.append(f"about {_duration(derived.estimated_seconds)} left")
    if job.partial_count:
        words.append(f"interim result {job.partial_count}")
    return " · ".join(filter(None, words))


_ACTIVITIES = {
    Phase.CANCELING: "Stopping",
    Phase.BACKOFF: "Waiting for the next attempt",
    Phase.WAITING: "Waiting for a worker",
    Phase.PAUSED: "Paused by the operator",
}


def _duration(seconds: float) -> str:
    if seconds < _MINUTE:
        return f"{max(1, round(seconds))} s"
    for size, unit, larger in ((_MINUTE, "min", _HOUR), (_HOUR, "h", _DAY)):
        if seconds < larger:
            return f"{round(seconds / size)} {unit}"
    return f"{round(seconds / _DAY)} d"


def failure_sentence(job: JobRecord) -> str:
    """Return why a job failed, and what to do."""
    text = job.error_message or "The analysis failed"
    hint = _HINTS.get(job.retry_hint or "", "")
    return f"{text.rstrip('.')} ({job.error_code}). {hint}".rstrip()


def job_fields(view: JobView, derived: DerivedFields) -> dict[str, Any]:
    """Return the same for programs."""
    job = view.job
    fields: dict[str, Any] = {
        "job_id": job.job_id,
        "analysis": job.analysis,
        "status": job.status,
        "phase": derived.phase,
        "progress_percent": job.progress_percent,
        "step": job.step,
        "estimated_seconds": derived.estimated_seconds,
        "partial_count": job.partial_count,
        "updated_at": to_text(job.updated_at),
    }
    if job.run_at is not None:
        fields["run_at"] = to_text(job.run_at)
    return fields if job.result_id is None else {**fields, "latest": latest_uri(job.job_id)}
