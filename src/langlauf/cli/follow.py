"""`langlauf status`, `watch` and `result`: looking at a job, once, until it ends, and at what it made."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import click

from langlauf.cli.client_errors import EXIT_OF_STATUS, Exit, Refused, detached
from langlauf.cli.client_options import timeout_option, with_client
from langlauf.cli.live import show
from langlauf.cli.printing import command_line, json_text, note, plain, print_json, print_outcome, print_state
from langlauf.client import Client, Job, JobState, NotFound, Result
from langlauf.client.shapes import View
from langlauf.domain.state import TERMINAL, Status


@click.command()
@click.argument("job_id", metavar="JOB")
@with_client
def status(client: Client, job_id: str, as_json: bool) -> None:
    """Show a job as it is now. Exit code 0 whatever its state."""
    state = client.job(job_id).status()
    if as_json:
        print_json(state)
    else:
        print_state(state)


@click.command()
@click.argument("job_id", metavar="JOB")
@timeout_option
@with_client
def watch(client: Client, job_id: str, timeout: float | None, as_json: bool) -> None:
    """Follow a job live until it ends.

    Ctrl-C detaches, exit code 130, and the job goes on. Exit code 0 for a completed job, 1 for a failed one, 3 for a
    canceled one. With --json the final state goes to standard output.
    """
    state = watch_to_end(client.job(job_id), timeout)
    print_outcome(state)
    if as_json:
        print_json(state)
    click.get_current_context().exit(EXIT_OF_STATUS[state.status])


@click.command()
@click.argument("ident", metavar="ID")
@click.option(
    "--view",
    type=click.Choice(["latest", "requested"]),
    default="latest",
    help="Of a result's id: the newest of its job (default), or exactly this one.",
)
@click.option("--output", type=click.File("wb", lazy=True, atomic=True), metavar="FILE", help="Write it to a file.")
@with_client
def result(client: Client, ident: str, view: View, output: IO[bytes] | None, as_json: bool) -> None:
    """Print the result of a job, or one result by its id, as JSON.

    Of a job that has not completed, the last partial result; where there is none, exit code 1. Exit code 3 for a
    canceled job, with or without a partial result. With --json the result comes with what is known about it.
    """
    snapshot = _snapshot(client, ident, view)
    value = snapshot if as_json else snapshot.result
    if output is None:
        print_json(value)
    else:
        output.write(json_text(value) + b"\n")
        note(f"Written to {output.name}.")
    if snapshot.result_kind == "partial":
        note(f"This is partial result {snapshot.result_seq}; the job is {snapshot.job_status}.")
    if snapshot.job_status is Status.CANCELED:
        click.get_current_context().exit(Exit.CANCELED)


def watch_to_end(job: Job, timeout: float | None) -> JobState:
    """The final state of a job that is shown while it runs."""
    last: list[JobState] = []

    def remembered() -> Iterator[JobState]:
        for state in job.states(timeout):
            last[:] = [state]
            yield state

    with detachable(job):
        show(remembered())
    return last[0]


@contextmanager
def detachable(job: Job) -> Iterator[None]:
    """Ctrl-C leaves the job alone and tells how to come back."""
    try:
        yield
    except KeyboardInterrupt:
        raise detached(job.job_id) from None


def finish(job: Job, *, live: bool, timeout: float | None, as_json: bool) -> None:
    """Follows a job that this command has made; its result goes to standard output, its end becomes the exit code."""
    note(f"Accepted as {job.job_id}.")
    with detachable(job):
        state = watch_to_end(job, timeout) if live else job.wait(timeout)
        print_outcome(state)
        if as_json:
            print_json(state)
        elif state.status is Status.COMPLETED:
            print_json(job.result())
    click.get_current_context().exit(EXIT_OF_STATUS[state.status])


def _snapshot(client: Client, ident: str, view: View) -> Result:
    try:
        state = client.job(ident).status()
    except NotFound:
        return client.get_result(ident, view=view)
    if state.result_id is None:
        raise _without_result(state)
    return client.get_result(state.result_id, view=view)


def _without_result(state: JobState) -> Refused:
    if state.status not in TERMINAL:
        hint = f"wait for it: {command_line('watch', state.job_id)}"
        return Refused(Exit.FAILED, f"the job is {state.status} and has no result yet", hint)
    why = f"{state.error_code}: {plain(state.error_message)}" if state.error_code else plain(state.cancel_reason)
    message = f"the job has {'failed' if state.error_code else 'been canceled'} without a result"
    hint = f"try again: {command_line('retry', state.job_id)}"
    return Refused(EXIT_OF_STATUS[state.status], f"{message}: {why}" if why else message, hint)
