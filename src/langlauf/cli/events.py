"""`langlauf events`, `notifications`, `inbox` and `errors`: what happened to the jobs of an org."""

from datetime import UTC, datetime, timedelta
from itertools import takewhile

import click
import msgspec

from langlauf.cli.client_command import find_job, with_client
from langlauf.cli.job_output import trace_in
from langlauf.cli.options import (
    CommandError,
    ExitCode,
    command_line,
    duration_option,
    format_time,
    json_line,
    plain,
    print_json,
    print_note,
    print_table,
)
from langlauf.client import Client, Feed, InboxMessage, JobSummary, OrgEvent
from langlauf.domain.delivery import CHANNELS
from langlauf.domain.event import OutboundType
from langlauf.domain.failure import MOST_FAILURES, FailedJob, FailureGroup, group_failures, read_cause
from langlauf.domain.instant import from_datetime, to_datetime
from langlauf.domain.state import Status

_EVENT_TYPES = tuple(kind.rpartition(".")[2] for kind in OutboundType)
_TYPE_WIDTH = max(map(len, _EVENT_TYPES))
_DEFAULT_LIMIT = 50
#: Messages that one request may mark as read.
_MAX_MARKED = 100


@click.command()
@click.option("--follow", "-f", is_flag=True, help="Wait for further events; Ctrl-C ends it.")
@click.option("--after", metavar="PLACE", help="Start after this place; `latest`: with new events. Else the oldest.")
@click.option(
    "--type", "types", multiple=True, type=click.Choice(_EVENT_TYPES), help="Only this type; may be repeated."
)
@click.option(
    "--limit", type=click.IntRange(min=1), help=f"Number of events at most; {_DEFAULT_LIMIT} without --follow."
)
@with_client
def events(
    client: Client, *, follow: bool, after: str | None, types: tuple[str, ...], limit: int | None, as_json: bool
) -> None:
    """Show the events of all jobs of an org.

    The place to continue from is printed at the end. With --json, print one document with `events` and `next_after`;
    with --follow, a line of JSON per event.
    """
    if limit is None and not follow:
        limit = _DEFAULT_LIMIT
    feed = client.events(after, types=types, follow=follow, limit=limit)
    if as_json and not follow:
        found = list(feed)
        print_json({"events": found, "next_after": feed.place})
        return
    try:
        for event in feed:
            click.echo(json_line(event) if as_json else _event_line(event))
    except KeyboardInterrupt:
        raise CommandError("detached", _continue_hint(feed, types), code=ExitCode.DETACHED) from None
    print_note(_continue_hint(feed, types))


def _event_line(event: OrgEvent) -> str:
    kind = event.type.rpartition(".")[2].ljust(_TYPE_WIDTH)
    return f"{format_time(event.time)}  {kind}  {plain(event.subject)}  {plain(event.data.result_id)}".rstrip()


def _continue_hint(feed: Feed, types: tuple[str, ...]) -> str:
    type_flags = [word for name in types for word in ("--type", name)]
    return f"Continue from here: {command_line('events', '--follow', *type_flags, '--after', feed.place)}"


@click.command()
@click.argument("job_id", metavar="JOB")
@click.option("--channel", type=click.Choice(CHANNELS), help="Only messages of this channel.")
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True, help="Number of messages at most.")
@with_client
def notifications(client: Client, job_id: str, *, channel: str | None, limit: int, as_json: bool) -> None:
    """List the messages about a job's end, latest first."""
    found = client.notifications(find_job(client, job_id).job_id, channel=channel, limit=limit)
    if as_json:
        print_json(found)
    elif found:
        rows = [
            (format_time(one.created_at), one.channel, one.template_key, one.delivery_status, plain(one.last_error))
            for one in found
        ]
        print_table(("CREATED", "CHANNEL", "MESSAGE", "DELIVERY", "ERROR"), rows)
    else:
        print_note("No notifications.")


@click.command()
@click.option("--unread", is_flag=True, help="Only unread messages.")
@click.option("--mark-read", is_flag=True, help="Mark the listed messages as read, for the whole org.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Number of messages at most.")
@with_client
def inbox(client: Client, *, unread: bool, mark_read: bool, limit: int, as_json: bool) -> None:
    """List the org's messages, newest first. One comes when a job completes or fails."""
    found = list(client.inbox(unread=unread, limit=limit))
    if as_json:
        print_json(found)
    elif found:
        print_table(("CREATED", "", "MESSAGE", "JOB"), [_message_row(one) for one in found])
    else:
        print_note("No unread messages." if unread else "No messages yet: one comes when a job completes or fails.")
    if mark_read and found:
        ids = [one.notification_id for one in found]
        for start in range(0, len(ids), _MAX_MARKED):
            left = client.mark_read(*ids[start : start + _MAX_MARKED]).unread
        print_note(f"Marked as read; {left} unread.")
    elif any(one.unread for one in found):
        print_note(f"  mark them as read: {command_line('inbox', '--unread', '--mark-read')}")


def _message_row(one: InboxMessage) -> tuple[str, ...]:
    return format_time(one.created_at), "new" if one.unread else "", one.template_key, one.job_id


# -- failures by cause -------------------------------------------------------------------------------------------------

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
