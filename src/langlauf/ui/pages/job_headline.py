"""The head of a job's page: state, progress, remaining time, and what the state means."""

import math
from collections.abc import Sequence

import msgspec
from markupsafe import Markup

from langlauf.domain.attempt import HIGHEST_UNFINISHED
from langlauf.domain.eta import ProgressStep, RemainingRange, progress_steps, remaining_range
from langlauf.domain.event import Event
from langlauf.domain.instant import Instant, after, seconds_between
from langlauf.domain.job import JobRecord
from langlauf.domain.read_models import JobView
from langlauf.domain.schedule import Pause
from langlauf.domain.state import STARTED, Status
from langlauf.service.read import DerivedFields
from langlauf.settings import Settings
from langlauf.ui.formats import (
    display_state,
    event_payload,
    format_duration,
    format_estimate,
    format_stopwatch,
    machine_time,
    time_tag,
)
from langlauf.ui.language import Language

_QUARTER = 25
#: Seconds without progress that are named.
_QUIET_SECONDS = 60


class JobHeadline(msgspec.Struct, frozen=True, kw_only=True):
    """The values of the page's head."""

    #: selects shape, colour and text
    display_state: str
    title: Markup
    #: what the state means and what comes next
    explanations: list[Markup]
    #: None where the job has not reported progress: then the bar shows no figure
    percent: int | None
    progress: Markup
    estimate: Markup | None
    #: where the estimate comes from
    source: Markup | None
    #: when progress was last reported, or for how long none was
    activity: Markup | None
    #: start time and elapsed time, which a script keeps up to date
    since: str | None
    elapsed: str | None
    #: announced to screen readers: the state, and every 25 %
    milestone: Markup


class JobObservation(msgspec.Struct, frozen=True, kw_only=True):
    """What the page knows about a job at one moment."""

    view: JobView
    moment: DerivedFields
    now: Instant
    events: Sequence[Event]
    #: jobs of its org that start before it, while it waits
    ahead: int | None
    #: whether a running worker knows the analysis
    worker_seen: bool

    def steps(self) -> list[ProgressStep]:
        """Return the progress of the current attempt."""
        log = ((event.event_type, event.occurred_at, event_payload(event.payload_json)) for event in self.events)
        return progress_steps(log)


def job_headline(observed: JobObservation, settings: Settings, language: Language) -> JobHeadline:
    """Return the texts for the current state of a job."""
    job = observed.view.job
    shown = display_state(job.status, observed.moment.phase)
    percent = None if job.status in STARTED and job.progress_percent == 0 else job.progress_percent
    estimate, source = _estimate(observed, shown, language)
    end = job.finished_at or observed.now
    return JobHeadline(
        display_state=shown,
        title=_headline_text(job, shown, language),
        explanations=_explanations(observed, shown, settings, language),
        percent=percent,
        progress=_progress_text(job, percent, language),
        estimate=estimate,
        source=source,
        activity=_activity(observed, shown, language),
        since=None if job.started_at is None else machine_time(job.started_at),
        elapsed=None if job.started_at is None else format_stopwatch(seconds_between(job.started_at, end)),
        milestone=_milestone(job, shown, language),
    )


def _headline_text(job: JobRecord, shown: str, language: Language) -> Markup:
    if shown == "backoff" and job.next_attempt_at is not None:
        return language.text("job.starts_at", time=time_tag(job.next_attempt_at))
    if shown == "scheduled" and job.run_at is not None:
        return language.text("job.scheduled_for", time=time_tag(job.run_at))
    return language.text(f"state.{shown}")


def _progress_text(job: JobRecord, percent: int | None, language: Language) -> Markup:
    """Return the figure beside the bar; at the highest unfinished percent it says that the job is finishing."""
    if percent is None:
        return language.text("job.no_progress")
    if percent == HIGHEST_UNFINISHED and not job.terminal:
        return language.text("job.finishing", percent=percent)
    return Markup("{} %").format(percent)


def _explanations(observed: JobObservation, shown: str, settings: Settings, language: Language) -> list[Markup]:
    """Return sentences about the state, the most specific first."""
    job, text = observed.view.job, language.text
    lines = []
    if shown in ("queued", "waiting") and not observed.worker_seen:
        return [text("job.no_worker")]
    if shown == "queued" and observed.ahead is not None:
        lines.append(text("job.ahead", count=observed.ahead) if observed.ahead else text("job.next_in_line"))
    if shown in ("queued", "scheduled") and job.start_by is not None:
        lines.append(text("job.start_by", time=time_tag(job.start_by)))
    if shown == "paused" and observed.moment.pause is not None:
        lines.append(pause_text(observed.moment.pause, language))
    if shown == "backoff":
        lines.append(text("job.next_after", attempt=job.attempt + 1, count=job.retry_count, most=job.max_retries))
    if shown == "silent" and observed.view.lease_expires_at is not None:
        expires = observed.view.lease_expires_at
        seen = max(0.0, seconds_between(after(expires, -settings.lease_seconds), observed.now))
        taken = time_tag(after(expires, settings.sweep_seconds))
        return [text("job.last_seen", seconds=math.floor(seen), time=taken)]
    if shown == "canceling" and job.cancel_requested_at is not None:
        age = Markup('<span class="elapsed" data-elapsed="{}">{}</span>').format(
            machine_time(job.cancel_requested_at),
            format_stopwatch(seconds_between(job.cancel_requested_at, observed.now)),
        )
        who = text(f"job.cancel_by.{job.canceled_by or 'user'}")
        lines.append(text("job.cancel_age", time=time_tag(job.cancel_requested_at), age=age, who=who))
    if shown == "completed":
        lines += _retention(job, settings, language)
    elif shown not in ("failed", "canceled"):  # these have a note of their own
        lines.append(text(f"help.{shown}"))
    return lines


def pause_text(pause: Pause, language: Language) -> Markup:
    """Return since or until when an analysis is paused, and why."""
    when = (
        language.text("job.paused_since", since=time_tag(pause.paused_at))
        if pause.paused_until is None
        else language.text("job.paused_until", until=time_tag(pause.paused_until))
    )
    return Markup("{} {}").format(when, language.text("job.pause_reason", reason=pause.because))


def _retention(job: JobRecord, settings: Settings, language: Language) -> list[Markup]:
    """Return until when the result is kept, unless it is gone already."""
    seconds = settings.retention.final_results
    if job.result_expired_at is not None or job.finished_at is None:
        return []
    if job.held_at is not None:
        return [language.text("job.result_held")]
    if seconds is None:
        return [language.text("job.result_kept")]
    return [language.text("job.result_kept_until", time=time_tag(after(job.finished_at, seconds)))]


def _activity(observed: JobObservation, shown: str, language: Language) -> Markup | None:
    """Return for how long a job whose worker is alive has reported no progress, or when it last did."""
    if shown not in ("running", "partial"):
        return None
    steps = observed.steps()
    since = steps[-1].at if steps else observed.view.job.attempt_started_at
    quiet = 0.0 if since is None else seconds_between(since, observed.now)
    if quiet >= _QUIET_SECONDS:
        return language.text("job.quiet", time=format_duration(quiet, language))
    return language.text("job.last_progress", time=time_tag(steps[-1].at)) if steps else None


def _estimate(observed: JobObservation, shown: str, language: Language) -> tuple[Markup | None, Markup | None]:
    """Return the remaining time and its source, or nothing where it would be a guess."""
    if shown in ("running", "partial"):
        found = remaining_range(observed.steps(), observed.now)
        if found is None:
            return None, None
        return format_remaining(found, language), language.text("job.source.pace", steps=found.steps)
    if shown == "queued" and observed.worker_seen and observed.moment.estimated_seconds is not None:
        return format_estimate(observed.moment.estimated_seconds, language), language.text("job.source.others")
    return None, None


def format_remaining(left: RemainingRange, language: Language) -> Markup:
    """Return a range of time in a fitting unit, rounded outwards."""
    low, high, unit = left.rounded
    if low == 0:
        return language.text("left.under", high=high, unit=unit)
    return language.text("left.between", low=low, high=high, unit=unit)


def _milestone(job: JobRecord, shown: str, language: Language) -> Markup:
    quarters = job.progress_percent // _QUARTER * _QUARTER
    state = language.text(f"state.{shown}")
    if job.status in (Status.RUNNING, Status.PARTIAL) and quarters:
        return language.text("job.milestone", state=language.text("state.running"), percent=quarters)
    return language.text("state.running") if shown == "partial" else state
