"""Client commands: the client they work with, and each of its errors as an exit code with a next step."""

import functools
import queue
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from itertools import islice
from typing import Any

from langlauf.cli.options import (
    CLIENT_SETTINGS,
    CommandError,
    ExitCode,
    command_line,
    duration_option,
    json_option,
    settings_options,
)
from langlauf.client import Client, JobSummary, NotFound, RemoteJob, errors
from langlauf.client.requests import ClientRequest, NoReply, ServerReply
from langlauf.domain.access import Scope
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
#: The beginning of an id. Shorter than a whole one: that is looked up as it is.
_SHORTENED_ID = re.compile(r"[0-9a-fA-F-]{4,35}")
#: Codes whose message says after which time to try again.
_SAYS_WHEN = frozenset({"queue_full", "rate_limited"})
_SHOWN_MATCHES = 5
#: How long Ctrl-C may go unnoticed.
_INTERRUPT_SECONDS = 0.1


class InterruptibleClient(Client):
    """A client that Ctrl-C always interrupts, also in a long poll.

    Python acts on a signal in its main thread alone. One that comes just before that thread blocks in a system call, or
    that the kernel gives to another thread, such as the one that draws the bar, is noticed when the call returns: after
    a long poll of 25 s. One that arrives in a finaliser or a callback of an import is dropped. So another thread sends,
    and the main thread looks for an interrupt while it waits.
    """

    def __init__(self, *place: str | None, interrupted: threading.Event) -> None:
        super().__init__(*place)
        self._interrupted = interrupted

    def _send(self, request: ClientRequest) -> ServerReply | NoReply:
        outcome: queue.SimpleQueue[ServerReply | NoReply | Exception] = queue.SimpleQueue()

        def send() -> None:
            try:
                outcome.put(super(InterruptibleClient, self)._send(request))
            except Exception as error:  # noqa: BLE001 - raised again by the thread that waits
                outcome.put(error)

        # A daemon: a command that was interrupted does not wait for the reply.
        threading.Thread(target=send, daemon=True).start()
        while not self._interrupted.is_set():
            try:
                found = outcome.get(timeout=_INTERRUPT_SECONDS)
            except queue.Empty:
                continue
            if isinstance(found, Exception):
                raise found
            return found
        raise KeyboardInterrupt


@contextmanager
def _interrupt_event() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C sets, besides raising KeyboardInterrupt."""
    interrupted = threading.Event()

    def interrupt(*_: object) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    previous = signal.getsignal(signal.SIGINT)
    if previous is not signal.default_int_handler:  # ignored, as in the background of a shell
        yield interrupted
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, previous)


def with_client(function: Callable[..., None]) -> Callable[..., None]:
    """Make a function a client command: pass it a client, and turn the client's errors into exit codes."""

    @functools.wraps(function)
    def command(*, url: str | None, org: str | None, key: str | None, **values: Any) -> None:
        with (
            _errors_as_exit_codes(),
            _interrupt_event() as interrupted,
            InterruptibleClient(url, org, key, interrupted=interrupted) as client,
        ):
            function(client, **values)

    return settings_options(*CLIENT_SETTINGS)(json_option(command))


def find_job(client: Client, text: str) -> RemoteJob:
    """Return the job with this id, or the only one whose id begins with it."""
    if not _SHORTENED_ID.fullmatch(text):
        return client.job(text)
    job = client.job(text)
    try:
        job.status()
    except NotFound:
        same_start = (one for one in client.jobs(q=text) if one.job_id.startswith(text.lower()))
        matches = list(islice(same_start, _SHOWN_MATCHES + 1))
        if len(matches) > 1:
            raise _ambiguous(text, matches) from None
        if not matches:
            raise
        return client.job(matches[0].job_id)
    return job


def _ambiguous(text: str, matches: list[JobSummary]) -> CommandError:
    shown = [f"{one.job_id}  {one.analysis}  {one.status}" for one in matches[:_SHOWN_MATCHES]]
    more = ["and more"] if len(matches) > _SHOWN_MATCHES else []
    return CommandError(f"several ids begin with {text}; give more of it:", *shown, *more, code=ExitCode.USAGE)


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
            hints = _forbidden_hints(error)
        case errors.NotFound(problem={"field": "analysis"}):  # the message names them all
            pass
        case errors.NotFound():
            hints = (f"list the jobs: {command_line('jobs')}", "does it belong to another org? name it with --org")
        case errors.Expired(problem={"job_id": str(job_id)}):
            hints = (f"compute it again: {command_line('retry', job_id)}",)
        case errors.Conflict():
            hints = _conflict_hints(error)
        case errors.Unavailable(retry_after=float(seconds)) if error.code not in _SAYS_WHEN:
            hints = (f"try again in {seconds:g} s",)
        case _ if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR and error.request_id:
            hints = (f"search the server's log for request id {error.request_id}",)
    return hints


def _forbidden_hints(error: errors.Forbidden) -> tuple[str, ...]:
    another = "give another key with --key or LANGLAUF_KEY"
    operator = "give the operator's token, the server's API_AUTH_TOKEN, with --key or LANGLAUF_KEY"
    match error.reason:
        case "scope":
            scopes = dict.fromkeys((Scope.READ, error.required_scope))
            flags = " ".join(f"--scope {scope}" for scope in scopes)
            return another, f"create one beside the server: langlauf keys create --org ORG {flags}"
        case "other_org":
            return ("leave out --org and LANGLAUF_ORG, or give a key of that org with --key or LANGLAUF_KEY",)
        case "all_orgs":
            return "name it with --org", f"or {operator}"
        case "operator":
            return (operator,)
        case "unknown_host":
            return ("name another address of the server with --url",)
    return (another,)


def _conflict_hints(error: errors.Conflict) -> tuple[str, ...]:
    if error.job is not None:
        follow = f"follow that job: {command_line('watch', error.job.job_id)}"
        return (follow, "or submit it anyway: --allow-duplicate")
    if error.code == "idempotency_mismatch":
        return ("give another --idempotency-key, or leave it out",)
    return ()
