"""Commands about jobs and their results: list, status, watch, open, result, cancel, retry, hold, release."""

import webbrowser
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import IO, Any

import click

from langlauf.cli.client_command import find_job, timeout_option, with_client
from langlauf.cli.job_output import (
    EXIT_CODE_OF_STATUS,
    detach_on_interrupt,
    follow_new_job,
    print_new_job,
    print_outcome,
    print_state,
    print_trace,
    watch_to_end,
)
from langlauf.cli.options import (
    CommandError,
    ExitCode,
    command_line,
    duration_option,
    format_time,
    json_text,
    plain,
    print_json,
    print_note,
    print_table,
)
from langlauf.client import Client, JobResult, JobState, JobSummary, NotFound
from langlauf.client.job_text import cancel_reason_text, state_text
from langlauf.client.models import ResultView
from langlauf.domain.state import TERMINAL, Status

#: In characters; `status` shows all of it.
_MAX_ERROR = 100
_job = click.argument("job_id", metavar="JOB")


@click.command()
@click.option("--status", type=click.Choice([str(status) for status in Status]), help="Only jobs in this state.")
@click.option("--analysis", "-a", metavar="NAME", help="Only jobs of this analysis.")
@click.option("--q", metavar="TEXT", help="Only jobs that have this text.")
@duration_option("--since", "Only jobs submitted within this time, such as 24h.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Number of jobs at most.")
@with_client
def jobs(
    client: Client,
    *,
    status: str | None,
    analysis: str | None,
    q: str | None,
    since: float | None,
    limit: int,
    as_json: bool,
) -> None:
    """List jobs, newest first."""
    oldest = None if since is None else datetime.now(UTC) - timedelta(seconds=since)
    # One more than is shown, to know whether there are more.
    listed = client.jobs(status=status, analysis=analysis, q=q, limit=limit + 1)
    matching = list(takewhile(lambda job: oldest is None or job.queued_at >= oldest, listed))
    found = matching[:limit]
    if as_json:
        print_json(found)
    elif found:
        headings = ("JOB", "ANALYSIS", "LABEL", "STATE", "DONE", "QUEUED", "STEP OR ERROR")
        print_table(headings, [_job_row(job) for job in found])
        if len(matching) > limit:
            print_note(f"The newest {limit} are shown; --limit shows more.")
    else:
        print_note(f"No jobs. Submit one: {command_line('submit')}")


def _job_row(job: JobSummary) -> tuple[str, ...]:
    percent = f"{job.progress_percent} %"
    label = plain(job.label)
    match job.status:
        case Status.FAILED:
            last = _shortened(plain(job.error_message or job.error_code))
        case Status.COMPLETED:
            last = ""
        case _:
            last = plain(job.step)
    return job.job_id, job.analysis, label, state_text(job), percent, format_time(job.queued_at), last


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_ERROR else f"{text[: _MAX_ERROR - 1]}…"


@click.command()
@_job
@click.option("--trace", is_flag=True, help="Also print the stack trace of a failed job, for those who may see it.")
@with_client
def status(client: Client, job_id: str, trace: bool, as_json: bool) -> None:
    """Show a job as it is now. Exit code 0 whatever its state."""
    job = find_job(client, job_id)
    state = job.status()
    if as_json:
        print_json(state)
        return
    print_state(state, job.url)
    if trace:
        print_trace(state)


@click.command("open")
@_job
@with_client
def open_page(client: Client, job_id: str, as_json: bool) -> None:
    """Open the page of a job in the browser. Its address is printed, too."""
    job = find_job(client, job_id)
    url = job.url
    if as_json:
        print_json({"job_id": job.job_id, "url": url})
    else:
        click.echo(url)
    if not webbrowser.open(url):
        print_note(f"No browser was found; open {url} yourself.")


@click.command()
@_job
@click.option("--notify", is_flag=True, help="Ring the terminal's bell when the job has ended.")
@timeout_option
@with_client
def watch(client: Client, job_id: str, *, notify: bool, timeout: float | None, as_json: bool) -> None:
    """Follow a job live until it ends.

    Ctrl-C detaches, exit code 130, and the job goes on. Exit code 0 for a completed job, 1 for a failed one, 3 for a
    canceled one. With --json the final state goes to standard output.
    """
    state = watch_to_end(find_job(client, job_id), timeout)
    if notify:
        click.echo("\a", err=True, nl=False)
    print_outcome(state)
    if as_json:
        print_json(state)
    click.get_current_context().exit(EXIT_CODE_OF_STATUS[state.status])


@click.command()
@click.argument("ident", metavar="ID")
@click.option(
    "--view",
    type=click.Choice(["latest", "requested"]),
    default="latest",
    help="For a result id: the newest result of its job (default), or exactly this one.",
)
@click.option("--output", type=click.File("wb", lazy=True, atomic=True), metavar="FILE", help="Write it to a file.")
@with_client
def result(client: Client, ident: str, view: ResultView, output: IO[bytes] | None, as_json: bool) -> None:
    """Print the result of a job as JSON, or one result by its id.

    For a job that has not completed, print the last partial result; exit code 1 if there is none. Exit code 3 for a
    canceled job, with or without a partial result. With --json the result's metadata is included.
    """
    found = _find_result(client, ident, view)
    value = found if as_json else found.result
    if output is None:
        print_json(value)
    else:
        output.write(json_text(value) + b"\n")
        print_note(f"Written to {output.name}.")
    if found.result_kind == "partial":
        print_note(f"This is partial result {found.result_seq}; the job is {found.job_status}.")
    if found.job_status is Status.CANCELED:
        click.get_current_context().exit(ExitCode.CANCELED)


def _find_result(client: Client, ident: str, view: ResultView) -> JobResult:
    try:
        state = find_job(client, ident).status()
    except NotFound:
        return client.get_result(ident, view=view)
    if state.result_id is None:
        raise _no_result(state)
    return client.get_result(state.result_id, view=view)


def _no_result(state: JobState) -> CommandError:
    if state.status not in TERMINAL:
        hint = f"wait for it: {command_line('watch', state.job_id)}"
        return CommandError(f"the job is {state.status} and has no result yet", hint)
    failure = f"{state.error_code}: {plain(state.error_message)}" if state.error_code else None
    reason = failure or plain(cancel_reason_text(state))
    message = f"the job has {'failed' if state.error_code else 'been canceled'} without a result"
    hint = f"try again: {command_line('retry', state.job_id)}"
    code = EXIT_CODE_OF_STATUS[state.status]
    return CommandError(f"{message}: {reason}" if reason else message, hint, code=code)


@click.command()
@_job
@click.option("--reason", metavar="TEXT", help="Why; stored with the job.")
@click.option("--wait", is_flag=True, help="Return when the job has ended.")
@timeout_option
@with_client
def cancel(
    client: Client, job_id: str, *, reason: str | None, wait: bool, timeout: float | None, as_json: bool
) -> None:
    """Stop a job. Repeating it changes nothing; a job that has ended stays as it ended. Exit code 0 in each case."""
    if timeout is not None and not wait:
        raise click.UsageError("--timeout needs --wait.")
    job = find_job(client, job_id)
    answer = job.cancel(reason)
    if answer.status in TERMINAL or wait:
        with detach_on_interrupt(job):
            answer = state = job.wait(timeout)
        if state.status is not Status.CANCELED:
            print_note("The job had ended before it could be canceled.")
        print_outcome(state)
    else:
        print_note("The job is stopping.")
        print_note(f"  watch it end: {command_line('watch', job.job_id)}")
    if as_json:
        print_json(answer)


@click.command()
@_job
@click.option("--no-resume", is_flag=True, help="Compute finished parts again.")
@click.option("--watch", is_flag=True, help="Follow the new job and print its result.")
@timeout_option
@with_client
def retry(client: Client, job_id: str, *, no_resume: bool, watch: bool, timeout: float | None, as_json: bool) -> None:
    """Run an ended job again, as a new job. It starts with the finished parts of the old one; its id is printed."""
    if timeout is not None and not watch:
        raise click.UsageError("--timeout needs --watch.")
    job = find_job(client, job_id).retry(resume=not no_resume)
    if watch:
        follow_new_job(job, live=True, timeout=timeout, as_json=as_json)
    else:
        print_new_job(job, as_json=as_json)


@click.command()
@_job
@click.option("--prov", is_flag=True, help="As a document of W3C PROV-JSON.")
@with_client
def provenance(client: Client, job_id: str, *, prov: bool, as_json: bool) -> None:
    """Show how the newest result of a job came about. Its input, code, attempts and sources."""
    state = client.job(job_id).status()
    if state.result_id is None:
        raise _no_result(state)
    facts = client.provenance(state.result_id, prov=prov)
    if as_json or prov:
        print_json(facts)
        return
    code = facts["code"] or {}
    shown = {**facts, **{f"code {name}": value for name, value in code.items() if name != "analysis"}}
    hidden = ("code", "input", "attempts", "sources", "sources_complete", "resumed_from", "result_seq")
    rows = [(name, plain(str(value))) for name, value in shown.items() if name not in hidden and value is not None]
    rows += [("attempt", plain(_attempt_text(attempt))) for attempt in facts["attempts"]]
    if resumed := facts["resumed_from"]:
        rows.append(("resumed from", f"{resumed['job_id']}: {resumed['chunks']} chunks"))
    rows += [("source", plain(_source_text(source))) for source in facts["sources"]]
    if not facts["sources_complete"]:
        rows.append(("source", "and others, which are not kept"))
    print_table(("FACT", "VALUE"), rows)


def _attempt_text(attempt: dict[str, Any]) -> str:
    where = f"on {attempt['host']}" if attempt["host"] else ""
    parts = (attempt["started_at"], attempt["outcome"] or "runs", attempt["ended_at"], attempt["why"], where)
    return f"{attempt['attempt']}: " + " ".join(part for part in parts if part)


def _source_text(source: dict[str, str | None]) -> str:
    return " ".join(source[name] or "" for name in ("name", "version", "hash", "url") if source[name])


@click.command()
@click.argument("result_id", metavar="[RESULT]", required=False)
@click.option("--reason", metavar="TEXT", help="Why; stored with the job.")
@click.option("--list", "listed", is_flag=True, help="List held results, the last that was held first.")
@with_client
def hold(client: Client, result_id: str | None, *, reason: str | None, listed: bool, as_json: bool) -> None:
    """Keep a result and its job from retention. A repeat keeps the first holder and reason; `release` ends it."""
    if listed == (result_id is not None):
        raise click.UsageError("Give the id of a RESULT, or --list.")
    if result_id is None:
        _list_held(client, as_json=as_json)
        return
    job = client.hold(result_id, reason=reason)
    if as_json:
        print_json(job)
        return
    by = f" by {job.held_by}" if job.held_by else ""
    why = f": {job.hold_reason}" if job.hold_reason else ""
    click.echo(f"{result_id} is held{by} since {format_time(job.held_at)}{why}")
    print_note(f"  release it: {command_line('release', result_id)}")


@click.command()
@click.argument("result_id", metavar="RESULT")
@with_client
def release(client: Client, result_id: str, *, as_json: bool) -> None:
    """Let retention remove a result again. Its age still counts from the end of its job."""
    job = client.release(result_id)
    if as_json:
        print_json(job)
    else:
        click.echo(f"{result_id} is not held")


def _list_held(client: Client, *, as_json: bool) -> None:
    found = list(client.held())
    if as_json:
        print_json(found)
    elif found:
        print_table(("RESULT", "JOB", "ANALYSIS", "HELD", "BY", "REASON"), [_held_row(job) for job in found])
    else:
        print_note("No held results.")


def _held_row(job: JobSummary) -> tuple[str, ...]:
    held = format_time(job.held_at), plain(job.held_by), plain(job.hold_reason)
    return job.result_id or "", job.job_id, job.analysis, *held
