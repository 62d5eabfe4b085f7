"""`langlauf jobs` and `notifications`: lists."""

import click

from langlauf.cli.client_options import with_client
from langlauf.cli.printing import command_line, moment, note, plain, print_json, print_table, state_words
from langlauf.client import Client, JobSummary
from langlauf.domain.notification import CHANNELS
from langlauf.domain.state import Status


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


def _row(job: JobSummary) -> tuple[str, ...]:
    percent = f"{job.progress_percent} %"
    return job.job_id, job.analysis, state_words(job), percent, moment(job.queued_at), plain(job.step)
