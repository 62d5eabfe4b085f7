"""Client commands: the client they work with, and each of its errors as an exit code with a next step."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from langlauf.cli.options import (
    CLIENT_SETTINGS,
    CommandError,
    ExitCode,
    duration_option,
    json_option,
    settings_options,
)
from langlauf.cli.output import command_line
from langlauf.client import Client, errors
from langlauf.domain.errors import SettingsError

timeout_option = duration_option("--timeout", "Stop waiting after this time, exit 124; the job goes on.")

#: The first class that fits gives the code: special ones stand before general ones.
_EXIT_CODES: tuple[tuple[type[Exception], ExitCode], ...] = (
    (errors.Unreachable, ExitCode.UNREACHABLE),
    (errors.Unavailable, ExitCode.UNREACHABLE),
    (errors.NotAllowed, ExitCode.NOT_ALLOWED),
    (errors.NotFound, ExitCode.NOT_FOUND),
    (errors.Expired, ExitCode.NOT_FOUND),
    (errors.Conflict, ExitCode.CONFLICT),
    (errors.BadRequest, ExitCode.USAGE),
    (errors.WaitTimeout, ExitCode.TIMEOUT),
    (errors.ClientError, ExitCode.FAILED),
)


def with_client(function: Callable[..., None]) -> Callable[..., None]:
    """Make a function a client command: pass it a client, and turn the client's errors into exit codes."""

    @functools.wraps(function)
    def command(*, url: str | None, org: str | None, key: str | None, **values: Any) -> None:
        with _errors_as_exit_codes(), Client(url, org, key) as client:
            function(client, **values)

    return settings_options(*CLIENT_SETTINGS)(json_option(command))


@contextmanager
def _errors_as_exit_codes() -> Iterator[None]:
    try:
        yield
    except SettingsError as error:
        raise CommandError(str(error)) from None
    except errors.ClientError as error:
        code = next(code for kind, code in _EXIT_CODES if isinstance(error, kind))
        message = error.message if isinstance(error, errors.ApiError) else str(error)
        raise CommandError(message, *_hints(error), code=code) from None
    except KeyboardInterrupt:
        raise CommandError("interrupted; accepted jobs go on", code=ExitCode.DETACHED) from None


def _hints(error: errors.ClientError) -> tuple[str, ...]:
    match error:
        case errors.Unreachable():
            return ("is the server running? start it with: langlauf serve", "or name another one with --url")
        case errors.NotLanglauf():
            return ("is that the address of a Langlauf server? name it with --url",)
        case errors.WaitTimeout(job_id=job_id):
            return (f"watch it again: {command_line('watch', job_id)}",)
        case errors.ApiError():
            return _api_hints(error)
    return ()


def _api_hints(error: errors.ApiError) -> tuple[str, ...]:
    hints: tuple[str, ...] = ()
    match error:
        case errors.Unauthorized():
            hints = ("give a key with --key or LANGLAUF_KEY",)
        case errors.Forbidden():
            hints = ("give another key with --key or LANGLAUF_KEY, or leave out an --org that is not the key's",)
        case errors.NotFound():
            hints = (f"list the jobs: {command_line('jobs')}", "does it belong to another org? name it with --org")
        case errors.Expired(problem={"job_id": str(job_id)}):
            hints = (f"compute it again: {command_line('retry', job_id)}",)
        case errors.Conflict():
            hints = _conflict_hints(error)
        case errors.Unavailable(retry_after=float(seconds)) if "try again in" not in error.message:
            hints = (f"try again in {seconds:g} s",)
        case _ if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR and error.request_id:
            hints = (f"search the server's log for request id {error.request_id}",)
    return hints


def _conflict_hints(error: errors.Conflict) -> tuple[str, ...]:
    if error.job is not None:
        follow = f"follow that job: {command_line('watch', error.job.job_id)}"
        return (follow, "or submit it anyway: --allow-duplicate")
    if error.code == "idempotency_mismatch":
        return ("give another --idempotency-key, or leave it out",)
    return ()
