"""`langlauf errors`: failed jobs grouped by cause, as the page /errors groups them."""

from datetime import UTC, datetime, timedelta
from itertools import takewhile

import click
import msgspec

from langlauf.cli.client_command import with_client
from langlauf.cli.job_output import trace_in
from langlauf.cli.options import duration_option
from langlauf.cli.output import command_line, format_time, plain, print_json, print_note
from langlauf.client import Client, JobSummary
from langlauf.domain.failure import MOST_FAILURES, FailedJob, FailureGroup, group_failures, read_cause
from langlauf.domain.instant import from_datetime, to_datetime
from langlauf.domain.state import Status

_DEFAULT_RANGE = 86_400.0
_MAX_MESSAGES = 2


class ErrorGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Failures of one cause, as the command prints them."""

    analysis: str
    error_code: str
    #: the message, with a placeholder for what varies
    pattern: str
    count: int
    #: different messages of the newest failures
    messages: list[str]
    #: function, file and line, for callers who may see stack traces
    raised_in: str | None
    first_at: datetime
    last_at: datetime
    #: newest first
    job_ids: list[str]


@click.command()
@click.option("--analysis", "-a", metavar="NAME", help="Only failures of this analysis.")
@duration_option("--since", "Only jobs submitted within this time. Default: 24h.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Number of groups at most.")
@with_client
def errors(client: Client, *, analysis: str | None, since: float | None, limit: int, as_json: bool) -> None:
    """Group failed jobs by cause, the most frequent first. A cause is an analysis, a code and a message."""
    oldest = datetime.now(UTC) - timedelta(seconds=_DEFAULT_RANGE if since is None else since)
    listed = client.jobs(status=Status.FAILED, analysis=analysis, limit=MOST_FAILURES)
    jobs = {job.job_id: job for job in takewhile(lambda job: job.queued_at >= oldest, listed)}
    groups = [_shown(group, jobs) for group in group_failures(map(_failed, jobs.values()))]
    if as_json:
        print_json({"groups": groups[:limit], "failures": len(jobs), "complete": len(jobs) < MOST_FAILURES})
        return
    for group in groups[:limit]:
        _print(group)
    if not groups:
        print_note("No job failed in this time; --since looks further back.")
    if len(groups) > limit:
        print_note(f"The first {limit} of {len(groups)} causes are shown; --limit shows more.")
    if len(jobs) >= MOST_FAILURES:
        print_note(f"These are the newest {MOST_FAILURES:,} failures; there are more.")


def _failed(job: JobSummary) -> FailedJob:
    return FailedJob(
        job.job_id,
        job.analysis,
        job.error_code or "",
        job.error_message or "",
        from_datetime(job.queued_at),
        from_datetime(job.finished_at or job.queued_at),
        repeated=False,
    )


def _shown(group: FailureGroup, jobs: dict[str, JobSummary]) -> ErrorGroup:
    trace = trace_in(jobs[group.example.job_id])
    place = None if trace is None else read_cause(trace).place
    return ErrorGroup(
        analysis=group.analysis,
        error_code=group.error_code,
        pattern=group.shape,
        count=len(group.failures),
        messages=list(dict.fromkeys(one.error_message for one in group.failures))[:_MAX_MESSAGES],
        raised_in=None if place is None else f"{place.function}, {place.short}",
        first_at=to_datetime(group.first_at),
        last_at=to_datetime(group.last_at),
        job_ids=[one.job_id for one in group.failures],
    )


def _print(group: ErrorGroup) -> None:
    click.echo(f"{group.count} x {group.error_code}  {plain(group.analysis)}")
    for message in group.messages:
        click.echo(f"    {plain(message)}")
    if group.raised_in:
        click.echo(f"    raised in {plain(group.raised_in)}")
    first = f", first {format_time(group.first_at)}" if group.count > 1 else ""
    click.echo(f"    last {format_time(group.last_at)}{first}")
    click.echo(f"    {command_line('status', '--trace', group.job_ids[0])}")
