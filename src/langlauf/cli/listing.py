"""`langlauf jobs`, `notifications` and `inbox`: lists."""

import click

from langlauf.cli.client_options import with_client
from langlauf.cli.printing import command_line, moment, note, plain, print_json, print_table, state_words
from langlauf.client import Client, InboxMessage, JobSummary
from langlauf.domain.notification import CHANNELS
from langlauf.domain.state import Status

#: Messages that one request may mark as read.
_MOST_AT_ONCE = 100


@click.command()
@click.option("--status", type=click.Choice([str(status) for status in Status]), help="Only jobs in this state.")
@click.option("--analysis", "-a", metavar="NAME", help="Only jobs of this analysis.")
@click.option("--q", metavar="TEXT", help="Only jobs that have this text.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many.")
@with_client
def jobs(client: Client, *, status: str | None, analysis: str | None, q: str | None, limit: int, as_json: bool) -> None:
    """List jobs, newest first."""
    found = list(client.jobs(status=status, analysis=analysis, q=q, limit=limit))
    if as_json:
        print_json(found)
    elif found:
        print_table(("JOB", "ANALYSIS", "STATE", "DONE", "QUEUED", "STEP"), [_row(job) for job in found])
    else:
        note(f"No jobs. Submit one: {command_line('submit')}")


@click.command()
@click.argument("job_id", metavar="JOB")
@click.option("--channel", type=click.Choice(CHANNELS), help="Only messages of this channel.")
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True, help="At most so many.")
@with_client
def notifications(client: Client, job_id: str, *, channel: str | None, limit: int, as_json: bool) -> None:
    """List the messages about a job's end, latest first."""
    found = client.notifications(job_id, channel=channel, limit=limit)
    if as_json:
        print_json(found)
    elif found:
        rows = [
            (moment(one.created_at), one.channel, one.template_key, one.delivery_status, plain(one.last_error))
            for one in found
        ]
        print_table(("CREATED", "CHANNEL", "MESSAGE", "DELIVERY", "ERROR"), rows)
    else:
        note("No notifications.")


@click.command()
@click.option("--unread", is_flag=True, help="Only messages that nobody has read.")
@click.option("--mark-read", is_flag=True, help="Mark what is listed as read, for the whole org.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many.")
@with_client
def inbox(client: Client, *, unread: bool, mark_read: bool, limit: int, as_json: bool) -> None:
    """List the org's messages about jobs that completed or failed, newest first."""
    found = list(client.inbox(unread=unread, limit=limit))
    if as_json:
        print_json(found)
    elif found:
        print_table(("CREATED", "", "MESSAGE", "JOB"), [_message(one) for one in found])
    else:
        note("Nothing unread." if unread else "No messages yet: one comes when a job completes or fails.")
    if mark_read and found:
        ids = [one.notification_id for one in found]
        for start in range(0, len(ids), _MOST_AT_ONCE):
            left = client.mark_read(*ids[start : start + _MOST_AT_ONCE]).unread
        note(f"Marked as read; {left} unread.")
    elif any(one.unread for one in found):
        note(f"  mark them as read: {command_line('inbox', '--unread', '--mark-read')}")


def _message(one: InboxMessage) -> tuple[str, ...]:
    return moment(one.created_at), "new" if one.unread else "", one.template_key, one.job_id


def _row(job: JobSummary) -> tuple[str, ...]:
    percent = f"{job.progress_percent} %"
    return job.job_id, job.analysis, state_words(job), percent, moment(job.queued_at), plain(job.step)
