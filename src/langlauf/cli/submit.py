"""`langlauf submit` and `run`: a new job from JSON, or from `name=value` words, whose value may be a file's text."""

import json
import os
import shlex
import subprocess
from collections.abc import Callable
from datetime import datetime
from typing import IO, Any, NoReturn

import click

from langlauf.cli.client_command import timeout_option, with_client
from langlauf.cli.job_output import follow_new_job, print_new_job
from langlauf.cli.options import CommandError, ExitCode, duration_option, time_option
from langlauf.client import Client, RemoteJob, SubmitOptions
from langlauf.client.errors import BadRequest
from langlauf.domain.job import PriorityClass


def submission_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add what a new job can be given to a command that submits one."""
    for option in reversed(_SUBMISSION_OPTIONS):
        function = option(function)
    return function


_SUBMISSION_OPTIONS: tuple[Callable[[Callable[..., None]], Callable[..., None]], ...] = (
    click.argument("words", nargs=-1, metavar="[ANALYSIS] [NAME=VALUE]..."),
    click.option("--analysis", "-a", metavar="NAME", help="The analysis; else the server's default."),
    click.option("--input", "input_text", metavar="JSON", help="The parameters as a JSON object."),
    click.option(
        "--input-file", type=click.File("rb"), metavar="FILE", help="The same from a file; - is standard input."
    ),
    click.option(
        "--priority",
        type=click.Choice(["default", "expedite"]),
        default="default",
        help="expedite goes first.",
    ),
    duration_option("--timeout-seconds", "Time limit of an attempt."),
    click.option(
        "--max-retries", type=click.IntRange(0, 100), metavar="NUMBER", help="Retries after transient failures."
    ),
    click.option("--allow-duplicate", is_flag=True, help="Submit although the same job is queued or running."),
    click.option("--no-reuse", is_flag=True, help="Run it although a stored result could be reused."),
    click.option("--label", metavar="TEXT", help="What people read in lists, the inbox and mails."),
    click.option("--idempotency-key", metavar="KEY", help="The same key gives the same job."),
    click.option("--notify-webhook", metavar="URL", help="URL that gets a signed request when the job ends."),
    click.option("--notify-email", metavar="ADDRESS", help="E-mail address that gets a mail when the job ends."),
    click.option("--notify-language", type=click.Choice(["en", "de"]), help="The language of that mail."),
    time_option("--at", "When it may start: tomorrow 6:00, 18:30, 2h, 2027-01-31 06:00, or RFC 3339."),
    duration_option("--delay", "How long it waits before it may start."),
    time_option("--start-by", "When it is canceled unless it has started."),
)


@click.command()
@submission_options
@click.option("--wait", is_flag=True, help="Wait for the end and print the result.")
@timeout_option
@with_client
def submit(client: Client, *, wait: bool, timeout: float | None, as_json: bool, **given: Any) -> None:
    """Submit a job.

    The first word may name the analysis. Parameters are NAME=VALUE words: a VALUE that is valid JSON is read as JSON,
    anything else as text; @FILE is the text of a file, @- that of standard input, and @@ begins a text with @. Or give
    a JSON object with --input or --input-file; words override its members. Prints the job's id; with --wait, the
    result.
    """
    if timeout is not None and not wait:
        raise click.UsageError("--timeout needs --wait; a job's own limit is --timeout-seconds.")
    job = _submit(client, **given)
    if wait:
        follow_new_job(job, live=False, timeout=timeout, as_json=as_json)
    else:
        print_new_job(job, as_json=as_json)


@click.command()
@submission_options
@timeout_option
@with_client
def run(client: Client, *, timeout: float | None, as_json: bool, **given: Any) -> None:
    """Submit a job, watch it, and print its result.

    Takes what `submit` takes, such as: langlauf run address query=Bern. Progress goes to standard error, the result to
    standard output; the exit code is that of `watch`. Ctrl-C detaches, and the job goes on.
    """
    follow_new_job(_submit(client, **given), live=True, timeout=timeout, as_json=as_json)


def _submit(
    client: Client,
    *,
    words: tuple[str, ...],
    analysis: str | None,
    input_text: str | None,
    input_file: IO[bytes] | None,
    priority: PriorityClass,
    timeout_seconds: float | None,
    max_retries: int | None,
    allow_duplicate: bool,
    no_reuse: bool,
    label: str | None,
    idempotency_key: str | None,
    notify_webhook: str | None,
    notify_email: str | None,
    notify_language: str | None,
    at: datetime | None,
    delay: float | None,
    start_by: datetime | None,
) -> RemoteJob:
    if at is not None and delay is not None:
        raise click.UsageError("Give --at or --delay, not both.")
    if words and "=" not in words[0]:
        if analysis is not None:
            raise click.UsageError(f"{words[0]!r} is not NAME=VALUE, such as query=text; the analysis is {analysis}.")
        analysis, words = words[0], words[1:]
    options = SubmitOptions(
        priority_class=priority,
        timeout_seconds=timeout_seconds,
        max_retries=max_retries,
        allow_duplicate=allow_duplicate,
        reuse=not no_reuse,
        label=label,
        idempotency_key=idempotency_key,
        run_at=at,
        delay_seconds=delay,
        start_by=start_by,
    )
    values = {**_parse_object(input_text, input_file), **parse_words(words)}
    notify = {"webhook": notify_webhook, "email": notify_email, "language": notify_language}
    named = {name: value for name, value in notify.items() if value is not None}
    try:
        return client.submit(analysis, values, options=options, notify=named)
    except BadRequest as error:
        raise _with_quotes(error, words) or error from None


def _with_quotes(error: BadRequest, words: tuple[str, ...]) -> CommandError | None:
    """Return the error with the word as the shell needs it, where a text was wanted and a number or so was read."""
    name = (error.field or "").rpartition(".")[2]
    word = next((word for word in words if word.partition("=")[0] == name), "")
    text = word.partition("=")[2]
    if (
        not word
        or not error.message.rstrip(".").endswith("must be a text")
        or isinstance(_parse_value(name, text), str)
    ):
        return None
    quoted = f"{name}={json.dumps(text, ensure_ascii=False)}"
    shown = subprocess.list2cmdline([quoted]) if os.name == "nt" else shlex.quote(quoted)
    return CommandError(error.message, f"{text} was read as JSON; as a text it is written {shown}", code=ExitCode.USAGE)


def _parse_object(text: str | None, file: IO[bytes] | None) -> dict[str, Any]:
    """Return the JSON object of --input or --input-file, or an empty one."""
    if text is not None and file is not None:
        raise click.UsageError("Give --input or --input-file, not both.")
    name = "--input" if file is None else "--input-file"
    given = text if file is None else file.read()
    if given is None:
        return {}
    try:
        value = json.loads(given, parse_constant=_reject_constant, object_pairs_hook=_reject_duplicate_names)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{name} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise click.UsageError(f'{name} must be a JSON object, like {{"query": "text"}}.')
    return value


def parse_words(parameters: tuple[str, ...]) -> dict[str, Any]:
    """Return `years=3 region=CH` as a mapping."""
    values: dict[str, Any] = {}
    for word in parameters:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{word!r} is not NAME=VALUE, such as query=text.")
        if name in values:
            raise click.UsageError(f"{name} is given twice.")
        values[name] = _parse_value(name, text)
    return values


def _parse_value(name: str, text: str) -> Any:
    if text.startswith("@"):
        return text[1:] if text.startswith("@@") else _read_text(name, text[1:])
    try:
        return json.loads(text, parse_constant=_reject_constant, object_pairs_hook=_reject_duplicate_names)
    except (ValueError, RecursionError):
        return text


def _read_text(name: str, file: str) -> str:
    """Return a file's content, always as text, even if it looks like JSON."""
    try:
        with click.open_file(file, "rb") as opened:
            content: bytes = opened.read()
        return content.decode().removeprefix("\ufeff")
    except OSError as error:
        raise click.UsageError(f"{name}: {file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{name}: {file} is not UTF-8 (byte {error.start}).") from None


def _reject_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")


def _reject_duplicate_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice in one object")
    return found
