"""`langlauf hold` and `release`: what retention must leave alone, and what it may have again."""

import click

from langlauf.cli.client_options import with_client
from langlauf.cli.printing import command_line, moment, note, plain, print_json, print_table
from langlauf.client import Client, JobSummary


@click.command()
@click.argument("result_id", metavar="[RESULT]", required=False)
@click.option("--reason", metavar="TEXT", help="Why; it is kept with the job.")
@click.option("--list", "listed", is_flag=True, help="List what is held, the last that was held first.")
@with_client
def hold(client: Client, result_id: str | None, *, reason: str | None, listed: bool, as_json: bool) -> None:
    """Keep a result from retention, with its job, until it is released. Who held it first stays."""
    if listed == (result_id is not None):
        raise click.UsageError("Give the id of a RESULT, or --list.")
    if result_id is None:
        _list(client, as_json=as_json)
        return
    job = client.hold(result_id, reason=reason)
    if as_json:
        print_json(job)
    else:
        click.echo(f"{result_id} is held{_since(job)}")
        note(f"  let it go again: {command_line('release', result_id)}")


@click.command()
@click.argument("result_id", metavar="RESULT")
@with_client
def release(client: Client, result_id: str, *, as_json: bool) -> None:
    """Let retention have a result again. Its age counts from the end of its job, as ever."""
    job = client.release(result_id)
    if as_json:
        print_json(job)
    else:
        click.echo(f"{result_id} is not held")


def _list(client: Client, *, as_json: bool) -> None:
    found = list(client.held())
    if as_json:
        print_json(found)
    elif found:
        rows = [
            (
                job.result_id or "",
                job.job_id,
                job.analysis,
                moment(job.held_at),
                plain(job.held_by),
                plain(job.hold_reason),
            )
            for job in found
        ]
        print_table(("RESULT", "JOB", "ANALYSIS", "HELD", "BY", "REASON"), rows)
    else:
        note("Nothing is held.")


def _since(job: JobSummary) -> str:
    by = f" by {job.held_by}" if job.held_by else ""
    return f"{by} since {moment(job.held_at)}" + (f": {job.hold_reason}" if job.hold_reason else "")
