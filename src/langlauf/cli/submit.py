"""`langlauf submit`: a new job from JSON, or from `name=value` words, whose value may stand in a file."""

import json
from typing import IO, Any, NoReturn

import click

from langlauf.cli.client_options import duration_option, timeout_option, with_client
from langlauf.cli.follow import finish
from langlauf.cli.printing import command_line, note, print_json
from langlauf.client import Client, SubmitOptions
from langlauf.domain.job import PriorityClass


@click.command()
@click.argument("parameters", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--analysis", "-a", metavar="NAME", help="Which analysis; else the server's default.")
@click.option("--input", "input_text", metavar="JSON", help="The parameters as a JSON object.")
@click.option("--input-file", type=click.File("rb"), metavar="FILE", help="The same from a file; - is standard input.")
@click.option(
    "--priority", type=click.Choice(["default", "expedite"]), default="default", help="Which queue it waits in."
)
@duration_option("--timeout-seconds", "What an attempt may take at most.")
@click.option("--max-retries", type=click.IntRange(0, 100), metavar="NUMBER", help="Retries after transient failures.")
@click.option("--allow-duplicate", is_flag=True, help="Submit although the same job has not ended yet.")
@click.option("--idempotency-key", metavar="KEY", help="The same key gives the same job.")
@click.option("--notify-webhook", metavar="URL", help="A web address that is called, signed, when the job ends.")
@click.option("--notify-email", metavar="ADDRESS", help="An e-mail address that is written to when it ends.")
@click.option("--notify-language", type=click.Choice(["en", "de"]), help="The language of that mail.")
@click.option("--wait", is_flag=True, help="Wait for the end and print the result.")
@click.option("--watch", is_flag=True, help="The same, showing the progress.")
@timeout_option
@with_client
def submit(
    client: Client,
    *,
    parameters: tuple[str, ...],
    analysis: str | None,
    input_text: str | None,
    input_file: IO[bytes] | None,
    priority: PriorityClass,
    timeout_seconds: float | None,
    max_retries: int | None,
    allow_duplicate: bool,
    idempotency_key: str | None,
    notify_webhook: str | None,
    notify_email: str | None,
    notify_language: str | None,
    wait: bool,
    watch: bool,
    timeout: float | None,
    as_json: bool,
) -> None:
    """Submit a job.

    Parameters are NAME=VALUE words, where a VALUE that is JSON is taken as JSON and anything else as text; @FILE is the
    text of a file, @- that of standard input, and @@ begins a text with @. Or they are a JSON object by --input or
    --input-file, to which words add. Prints the job's id; with --wait or --watch, the result.
    """
    following = wait or watch
    if timeout is not None and not following:
        raise click.UsageError("--timeout needs --wait or --watch; a job's own limit is --timeout-seconds.")
    options = SubmitOptions(
        priority_class=priority,
        timeout_seconds=timeout_seconds,
        max_retries=max_retries,
        allow_duplicate=allow_duplicate,
        idempotency_key=idempotency_key,
    )
    values = {**_object(input_text, input_file), **_words(parameters)}
    notify = {"webhook": notify_webhook, "email": notify_email, "language": notify_language}
    asked = {name: value for name, value in notify.items() if value is not None}
    job = client.submit(analysis, values, options=options, notify=asked)
    if following:
        finish(job, live=watch, timeout=timeout, as_json=as_json)
    elif as_json:
        print_json(job.accepted)
    else:
        click.echo(job.job_id)
        note(f"  watch it: {command_line('watch', job.job_id)}")


def _object(text: str | None, file: IO[bytes] | None) -> dict[str, Any]:
    """The JSON object of the flags; nothing given counts as an empty one."""
    if text is not None and file is not None:
        raise click.UsageError("Give --input or --input-file, not both.")
    name = "--input" if file is None else "--input-file"
    given = text if file is None else file.read()
    if given is None:
        return {}
    try:
        value = json.loads(given, parse_constant=_no_number, object_pairs_hook=_no_name_twice)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{name} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise click.UsageError(f'{name} must be a JSON object, like {{"query": "text"}}.')
    return value


def _words(parameters: tuple[str, ...]) -> dict[str, Any]:
    """`years=3 region=CH` as a mapping."""
    values: dict[str, Any] = {}
    for word in parameters:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{word!r} is not NAME=VALUE.")
        if name in values:
            raise click.UsageError(f"{name} is given twice.")
        values[name] = _value(name, text)
    return values


def _value(name: str, text: str) -> Any:
    if text.startswith("@"):
        return text[1:] if text.startswith("@@") else _file_text(name, text[1:])
    try:
        return json.loads(text, parse_constant=_no_number, object_pairs_hook=_no_name_twice)
    except (ValueError, RecursionError):
        return text


def _file_text(name: str, file: str) -> str:
    """What stands in a file: always a text, whatever it looks like."""
    try:
        with click.open_file(file, "rb") as opened:
            content: bytes = opened.read()
        return content.decode().removeprefix("\ufeff")
    except OSError as error:
        raise click.UsageError(f"{name}: {file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{name}: {file} is not UTF-8 (byte {error.start}).") from None


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return found
