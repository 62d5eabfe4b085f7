"""From what went wrong to an exit code and a next step: the one place that knows the codes of client commands."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from http import HTTPStatus

import click

from langlauf.cli.options import Stopped
from langlauf.cli.printing import command_line, note
from langlauf.client import errors
from langlauf.domain.errors import SettingsError
from langlauf.domain.state import Status


class Exit(IntEnum):
    """How a client command ends."""

    FINE = 0
    FAILED = 1
    USAGE = 2
    CANCELED = 3
    NOT_FOUND = 4
    UNREACHABLE = 5
    NOT_ALLOWED = 6
    CONFLICT = 7
    TIMEOUT = 124
    DETACHED = 130


#: How a command ends that followed a job to its end.
EXIT_OF_STATUS = {Status.COMPLETED: Exit.FINE, Status.FAILED: Exit.FAILED, Status.CANCELED: Exit.CANCELED}

#: The first class that fits gives the code: special ones stand before general ones.
_CODES: tuple[tuple[type[Exception], Exit], ...] = (
    (errors.Unreachable, Exit.UNREACHABLE),
    (errors.Unavailable, Exit.UNREACHABLE),
    (errors.NotAllowed, Exit.NOT_ALLOWED),
    (errors.NotFound, Exit.NOT_FOUND),
    (errors.Expired, Exit.NOT_FOUND),
    (errors.Conflict, Exit.CONFLICT),
    (errors.BadRequest, Exit.USAGE),
    (errors.WaitTimeout, Exit.TIMEOUT),
    (errors.ClientError, Exit.FAILED),
)


class Refused(Exception):
    """Ends the command with a message, what to do next, and an exit code."""

    def __init__(self, code: Exit, message: str, *hints: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hints = hints


@contextmanager
def exit_codes() -> Iterator[None]:
    """Turns the client's errors into the end of the command."""
    try:
        yield
    except SettingsError as error:
        raise Stopped(str(error)) from None
    except Refused as end:
        raise _exit(end) from None
    except errors.ClientError as error:
        raise _exit(_refused(error)) from None
    except KeyboardInterrupt:
        raise _exit(Refused(Exit.DETACHED, "interrupted; jobs that were accepted go on")) from None


def _exit(end: Refused) -> click.exceptions.Exit:
    note(f"langlauf: {end.message}")
    for hint in end.hints:
        note(f"  {hint}")
    return click.exceptions.Exit(end.code)


def _refused(error: errors.ClientError) -> Refused:
    """The end of a command for an error of the client."""
    code = next(code for kind, code in _CODES if isinstance(error, kind))
    return Refused(code, _message(error), *_hints(error))


def detached(job_id: str) -> Refused:
    """Somebody pressed Ctrl-C while following a job."""
    return Refused(Exit.DETACHED, "detached; the job goes on", f"watch it again: {command_line('watch', job_id)}")


def _message(error: errors.ClientError) -> str:
    return error.message if isinstance(error, errors.ApiError) else str(error)


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
            hints = ("show a key with --key or LANGLAUF_KEY",)
        case errors.Forbidden():
            hints = ("show another key with --key or LANGLAUF_KEY, or leave out an --org that is not the key's",)
        case errors.NotFound():
            hints = (f"see what there is: {command_line('jobs')}", "is it another org's? name it with --org")
        case errors.Expired(problem={"job_id": str(job_id)}):
            hints = (f"compute it again: {command_line('retry', job_id)}",)
        case errors.Conflict():
            hints = _conflict_hints(error)
        case errors.Unavailable(retry_after=float(seconds)) if "try again in" not in error.message:
            hints = (f"try again in {seconds:g} s",)
        case _ if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR and error.request_id:
            hints = (f"the server's log tells more under request id {error.request_id}",)
    return hints


def _conflict_hints(error: errors.Conflict) -> tuple[str, ...]:
    if error.job is not None:
        follow = f"follow that job: {command_line('watch', error.job.job_id)}"
        return (follow, "or submit it all the same: --allow-duplicate")
    if error.code == "idempotency_mismatch":
        return ("give another --idempotency-key, or leave it out",)
    return ()
