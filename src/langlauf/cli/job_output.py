"""A job on the terminal: a bar that is redrawn, or a line per change where there is no terminal; state and outcome."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import click

from langlauf.cli.options import CommandError, ExitCode, command_line, format_time, plain, print_json, print_note
from langlauf.client import JobState, JobSummary, RemoteJob
from langlauf.client.job_text import cancel_reason_text, pause_text, progress_parts, state_text, time_left
from langlauf.client.progress_bar import drawn_job, terminal
from langlauf.domain.failure import read_cause
from langlauf.domain.state import TERMINAL, Status
from langlauf.domain.text import escaped_lines, format_duration

#: Exit code of a command that followed a job to its end.
EXIT_CODE_OF_STATUS = {
    Status.COMPLETED: ExitCode.OK,
    Status.FAILED: ExitCode.FAILED,
    Status.CANCELED: ExitCode.CANCELED,
}
#: Where a job failed and the answer has no trace.
_NO_TRACE = (
    "No stack trace: none was stored, or this key may not see it.\n"
    "  create one that may: langlauf keys create --org ORG --scope read --scope debug"
)


def follow_new_job(job: RemoteJob, *, live: bool, timeout: float | None, as_json: bool) -> None:
    """Wait for a job that this command submitted; print its result, and exit with the code of its end."""
    print_note(f"Accepted as {job.job_id}: {job.url}")
    with detach_on_interrupt(job):
        state = watch_to_end(job, timeout) if live else job.wait(timeout)
        print_outcome(state, result_follows=not as_json)
        if as_json:
            print_json(state)
        elif state.status is Status.COMPLETED:
            print_json(job.result())
    click.get_current_context().exit(EXIT_CODE_OF_STATUS[state.status])


def watch_to_end(job: RemoteJob, timeout: float | None) -> JobState:
    """Show the job while it runs, and return its final state."""
    last: list[JobState] = []

    def states() -> Iterator[JobState]:
        for state in job.states(timeout):
            last[:] = [state]
            yield state

    with detach_on_interrupt(job):
        if console := terminal():
            with drawn_job(console) as draw:
                for state in states():
                    draw(state)
        else:
            _print_changes(states())
    return last[0]


@contextmanager
def detach_on_interrupt(job: RemoteJob) -> Iterator[None]:
    """Turn Ctrl-C into exit code 130 with the command that follows the job again; the job goes on."""
    try:
        yield
    except KeyboardInterrupt:
        hint = f"watch it again: {command_line('watch', job.job_id)}"
        raise CommandError("detached; the job goes on", hint, code=ExitCode.DETACHED) from None


def print_new_job(job: RemoteJob, *, as_json: bool) -> None:
    """Print the id of a job that was accepted, and how to watch it."""
    if as_json:
        print_json(job.accepted)
        return
    click.echo(job.job_id)
    if job.accepted is not None and (paused := pause_text(job.accepted)):
        print_note(f"  it waits, as its analysis is paused {paused}")
    print_note(f"  watch it: {command_line('watch', job.job_id)}")
    print_note(f"  its page: {job.url}")


def parts_text(state: JobState) -> str:
    """Return how many parts a retry does not compute again, such as `6 of 10`; empty where there are none."""
    if not state.kept_parts:
        return ""
    return f"{state.kept_parts}" if state.total_parts is None else f"{state.kept_parts} of {state.total_parts}"


def _print_kept(state: JobState) -> None:
    """Print what a retry would not compute again. Where the input is wrong, that is no help."""
    if kept := parts_text(state):
        print_note(f"  kept parts, which {command_line('retry')} does not compute again: {kept}")


def print_outcome(state: JobState, *, result_follows: bool = False) -> None:
    """Print on standard error how a job ended and what to do next."""
    match state.status:
        case Status.COMPLETED:
            took = (state.finished_at - state.queued_at).total_seconds() if state.finished_at else 0.0
            print_note(f"Completed, {format_duration(took)} after it was submitted.")
            if not result_follows:
                print_note(f"  get the result: {command_line('result', state.job_id)}")
        case Status.FAILED:
            print_note(f"Failed: {state.error_code}: {plain(state.error_message)}")
            if state.retry_hint == "check_input_and_retry":
                print_note(
                    f"  check the input; its page runs it again with another: {command_line('open', state.job_id)}"
                )
            else:
                print_note(f"  try again: {command_line('retry', state.job_id)}")
                _print_kept(state)
            if trace_in(state) is not None:
                print_note(f"  see where it was raised: {command_line('status', '--trace', state.job_id)}")
        case Status.CANCELED:
            reason = f": {plain(cancel_reason_text(state))}" if state.cancel_reason else ""
            print_note(f"Canceled by {state.canceled_by}{reason}.")
            print_note(f"  resume it: {command_line('retry', state.job_id)}")
            _print_kept(state)
    if state.status is not Status.COMPLETED and state.partial_count:
        print_note(f"  get the last partial result: {command_line('result', state.job_id)}")


def print_state(state: JobState, url: str) -> None:
    """Print the fields of a job that matter first, one per line."""
    error = f"{state.error_code}: {plain(state.error_message)}" if state.error_code else ""
    rows = (
        ("Job", state.job_id),
        ("Analysis", state.analysis),
        ("Label", plain(state.label)),
        ("State", state_text(state)),
        ("Progress", ", ".join(progress_parts(state))),
        ("Paused", pause_text(state)),
        ("Time left", "" if state.status in TERMINAL or pause_text(state) else time_left(state).removesuffix(" left")),
        ("Queued", format_time(state.queued_at)),
        ("Started", format_time(state.started_at)),
        ("Next attempt", format_time(state.next_attempt_at)),
        ("Finished", format_time(state.finished_at)),
        ("Retries", f"{state.retry_count} of {state.max_retries}" if state.retry_count else ""),
        ("Retry of", state.retry_of or ""),
        ("Error", error),
        ("Kept parts", parts_text(state)),
        ("Canceled by", state.canceled_by or ""),
        ("Reason", plain(cancel_reason_text(state))),
        ("Result", state.result_id or ""),
        ("Page", url),
    )
    for label, value in rows:
        if value:
            click.echo(f"{label:<13} {plain(value)}")


def print_trace(state: JobState) -> None:
    """Print what was raised, where in the application, and the stack trace; or why there is none."""
    trace = trace_in(state)
    if trace is None:
        print_note("No stack trace: the job has not failed." if state.error_code is None else _NO_TRACE)
        return
    cause = read_cause(trace)
    click.echo(f"{'Cause':<13} {plain(cause.error)}")
    if cause.place is not None:
        click.echo(f"{'Raised in':<13} {plain(cause.place.function)}, {plain(cause.place.short)}")
    click.echo("\n" + escaped_lines(cause.trace.rstrip()))


def trace_in(state: JobSummary) -> str | None:
    """Return the stack trace of a failed job, where the server shows it to this caller."""
    found = (state.error_meta or {}).get("trace")
    return found if isinstance(found, str) else None


def _print_changes(states: Iterable[JobState]) -> None:
    previous = ""
    for state in states:
        line = ", ".join([state_text(state), *progress_parts(state)])
        if line != previous:
            print_note(", ".join(part for part in (line, time_left(state)) if part))
            previous = line
