"""A job in words, for terminals and notebooks: its state, its progress, the time left."""

import html
from datetime import UTC, datetime

from langlauf.client.models import JobState, JobSummary
from langlauf.domain.eta import progress_steps, remaining_range
from langlauf.domain.instant import from_datetime
from langlauf.domain.job import TOO_LATE, Phase
from langlauf.domain.state import Status
from langlauf.domain.text import counted, escaped, format_duration

#: Phases that say more than the state does.
_PHASE_TEXTS: dict[str, str] = {
    Phase.PAUSED: "paused",
    Phase.BACKOFF: "waiting for a retry",
    Phase.SILENT: "worker is silent",
    Phase.CANCELING: "stopping",
}


def state_text(job: JobSummary) -> str:
    """Return the state, and the phase where it says more."""
    phase = _PHASE_TEXTS.get(job.phase)
    return f"{job.status} ({phase})" if phase else str(job.status)


def cancel_reason_text(job: JobState) -> str:
    """Return why a job was canceled, or nothing where no reason was given."""
    return "it had not started by its latest start" if job.cancel_reason == TOO_LATE else job.cancel_reason or ""


def progress_parts(job: JobSummary) -> list[str]:
    """Return percent, step, attempt and partials, as far as there is something to say."""
    parts = [f"{job.progress_percent} %", escaped(job.step or ""), f"attempt {job.attempt}" if job.attempt else ""]
    parts.append(counted(job.partial_count, "partial") if job.partial_count else "")
    return [part for part in parts if part]


def pause_text(job: JobSummary) -> str:
    """Return until when the analysis of a waiting job is paused, and why; empty where it is not."""
    if job.phase != Phase.PAUSED:
        return ""
    until = f"{job.paused_until.astimezone():%Y-%m-%d %H:%M %Z}" if job.paused_until else "it is resumed"
    return f"until {until}: {escaped(job.paused_because or '')}"


def time_left(state: JobState) -> str:
    """Return the probable time left as the page tells it: a range, or nothing where it would be a guess.

    For a paused job it is the end of the pause, and the reason.
    """
    if paused := pause_text(state):
        return paused
    if state.status is Status.QUEUED:
        return f"about {format_duration(state.estimated_seconds)} left" if state.estimated_seconds else ""
    log = (
        (event.event_type, from_datetime(event.occurred_at), event.payload_json)
        for event in state.events
        if isinstance(event.payload_json, dict)
    )
    found = remaining_range(progress_steps(log), from_datetime(datetime.now(UTC)))
    if found is None or state.status not in (Status.RUNNING, Status.PARTIAL):
        return ""
    low, high, unit = found.rounded
    return f"about {low}–{high} {unit} left" if low else f"less than {high} {unit} left"  # noqa: RUF001 - a range


def job_html(job: JobSummary, url: str | None = None) -> str:
    """Return a job as HTML for a notebook; all that an analysis or a caller wrote is escaped."""
    percent = job.progress_percent
    name = html.escape(f"{job.analysis} {job.job_id}")
    title = name if url is None else f'<a href="{html.escape(url)}" target="_blank" rel="noopener">{name}</a>'
    words = html.escape(", ".join([state_text(job), *progress_parts(job)]))
    error = f"<br>{html.escape(f'{job.error_code}: {escaped(job.error_message or str())}')}" if job.error_code else ""
    return f'<div>{title}<br><progress max="100" value="{percent}">{percent} %</progress> {words}{error}</div>'
