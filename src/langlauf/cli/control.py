"""`langlauf cancel` and `retry`: what a person may do with a job."""

import click

from langlauf.cli.client_options import timeout_option, with_client
from langlauf.cli.follow import detachable, finish
from langlauf.cli.printing import command_line, note, print_json, print_outcome
from langlauf.client import Client
from langlauf.domain.state import TERMINAL, Status


@click.command()
@click.argument("job_id", metavar="JOB")
@click.option("--reason", metavar="TEXT", help="Why; it is kept with the job.")
@click.option("--wait", is_flag=True, help="Return when the job has ended.")
@timeout_option
@with_client
def cancel(
    client: Client, job_id: str, *, reason: str | None, wait: bool, timeout: float | None, as_json: bool
) -> None:
    """Stop a job. Repeating it changes nothing; a job that has ended stays as it ended. Exit code 0 in each case."""
    if timeout is not None and not wait:
        raise click.UsageError("--timeout needs --wait.")
    job = client.job(job_id)
    answer = job.cancel(reason)
    if answer.status in TERMINAL or wait:
        with detachable(job):
            answer = state = job.wait(timeout)
        if state.status is not Status.CANCELED:
            note("The job had ended before it could be canceled.")
        print_outcome(state)
    else:
        note("The job is stopping.")
        note(f"  see it end: {command_line('watch', job_id)}")
    if as_json:
        print_json(answer)


@click.command()
@click.argument("job_id", metavar="JOB")
@click.option("--no-resume", is_flag=True, help="Compute finished chunks again.")
@click.option("--watch", is_flag=True, help="Follow the new job and print its result.")
@timeout_option
@with_client
def retry(client: Client, job_id: str, *, no_resume: bool, watch: bool, timeout: float | None, as_json: bool) -> None:
    """Make a new job of one that has ended, starting with its finished chunks. Prints the new job's id."""
    if timeout is not None and not watch:
        raise click.UsageError("--timeout needs --watch.")
    job = client.job(job_id).retry(resume=not no_resume)
    if watch:
        finish(job, live=True, timeout=timeout, as_json=as_json)
    elif as_json:
        print_json(job.accepted)
    else:
        click.echo(job.job_id)
        note(f"  watch it: {command_line('watch', job.job_id)}")
