"""What client commands print: results and tables on standard output, notes and hints on standard error."""

import re
import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click
import msgspec

from langlauf.client import JobState, JobSummary
from langlauf.domain.job import Phase
from langlauf.domain.state import TERMINAL, Status
from langlauf.domain.text import escaped, escaped_lines

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_TWO_MINUTES, _TWO_HOURS, _TWO_DAYS = 2 * _MINUTE, 2 * _HOUR, 2 * _DAY
#: JSON may hold these as they are. They stand in its strings alone, and mean the same when escaped.
_STEERING = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
#: Phases that say more than the state does.
_TELLING: dict[str, str] = {
    Phase.BACKOFF: "waiting for a retry",
    Phase.SILENT: "worker is silent",
    Phase.CANCELING: "stopping",
}


def json_text(value: Any) -> bytes:
    """A value as JSON that people can read, too; what would steer their terminal is escaped in it."""
    return msgspec.json.format(json_line(value), indent=2)


def json_line(value: Any) -> bytes:
    """A value as JSON on one line; what would steer a terminal is escaped in it."""
    return _STEERING.sub(lambda found: f"\\u{ord(found.group()):04x}", msgspec.json.encode(value).decode()).encode()


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    click.echo(json_text(value))


def note(text: str) -> None:
    """A line for people, on standard error."""
    click.echo(escaped_lines(text), err=True)


def plain(text: str | None) -> str:
    """Text of others on one line, with escapes for characters that could steer a terminal."""
    return escaped(text or "")


def command_line(*words: str) -> str:
    """A command to type next, with the server and the org of this one; never with the key."""
    context = click.get_current_context(silent=True)
    given = context.params if context else {}
    flags = [part for name in ("url", "org") if given.get(name) for part in (f"--{name}", str(given[name]))]
    return shlex.join(["langlauf", *words, *flags])


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns on standard output; nothing is cut off, so that ids can be copied."""
    rows = [[plain(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    for row in (headings, *rows):
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def span(seconds: float) -> str:
    """So many seconds, as people say it."""
    if seconds < _TWO_MINUTES:
        return f"{seconds:.1f} s" if 0 < seconds < 10 else f"{seconds:.0f} s"  # noqa: PLR2004
    if seconds < _TWO_HOURS:
        return f"{seconds / _MINUTE:.0f} min"
    if seconds < _TWO_DAYS:
        return f"{seconds / _HOUR:.1f} h"
    return f"{seconds / _DAY:.1f} d"


def moment(time: datetime | None) -> str:
    """A time to the second, in UTC like everything on the wire."""
    return "" if time is None else f"{time:%Y-%m-%d %H:%M:%S}Z"


def count(number: int, one: str) -> str:
    """`1 partial`, `2 partials`."""
    return f"{number} {one}" if number == 1 else f"{number} {one}s"


def state_words(job: JobSummary) -> str:
    """The state, and the phase where it says more."""
    telling = _TELLING.get(job.phase)
    return f"{job.status} ({telling})" if telling else str(job.status)


def progress_words(job: JobSummary) -> list[str]:
    """How far the job is, in parts: percent, step, attempt, partials."""
    parts = [f"{job.progress_percent} %", plain(job.step), f"attempt {job.attempt}" if job.attempt else ""]
    parts.append(count(job.partial_count, "partial") if job.partial_count else "")
    return [part for part in parts if part]


def print_outcome(state: JobState) -> None:
    """How a job ended and what to do next, for whoever watched it."""
    match state.status:
        case Status.COMPLETED:
            took = (state.finished_at - state.queued_at).total_seconds() if state.finished_at else 0.0
            note(f"Completed, {span(took)} after it was submitted.")
            note(f"  get the result: {command_line('result', state.job_id)}")
        case Status.FAILED:
            note(f"Failed: {state.error_code}: {plain(state.error_message)}")
            if state.retry_hint == "check_input_and_retry":
                note(f"  check the input, then submit it again: {command_line('submit')}")
            else:
                note(f"  try again: {command_line('retry', state.job_id)}")
        case Status.CANCELED:
            why = f": {plain(state.cancel_reason)}" if state.cancel_reason else ""
            note(f"Canceled by {state.canceled_by}{why}.")
            note(f"  go on where it stopped: {command_line('retry', state.job_id)}")
    if state.status is not Status.COMPLETED and state.partial_count:
        note(f"  see the last partial result: {command_line('result', state.job_id)}")


def print_state(state: JobState) -> None:
    """Everything about a job that people ask for first."""
    left = None if state.status in TERMINAL else state.estimated_seconds
    error = f"{state.error_code}: {plain(state.error_message)}" if state.error_code else ""
    rows = (
        ("Job", state.job_id),
        ("Analysis", state.analysis),
        ("State", state_words(state)),
        ("Progress", ", ".join(progress_words(state))),
        ("Time left", "" if left is None else f"about {span(left)}"),
        ("Queued", moment(state.queued_at)),
        ("Started", moment(state.started_at)),
        ("Next attempt", moment(state.next_attempt_at)),
        ("Finished", moment(state.finished_at)),
        ("Retries", f"{state.retry_count} of {state.max_retries}" if state.retry_count else ""),
        ("Retry of", state.retry_of or ""),
        ("Error", error),
        ("Canceled by", state.canceled_by or ""),
        ("Reason", plain(state.cancel_reason)),
        ("Result", state.result_id or ""),
    )
    for label, value in rows:
        if value:
            click.echo(f"{label:<13} {plain(value)}")
