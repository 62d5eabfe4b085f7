"""Requests and replies as values, and the retry policy. Nothing here uses the network or sleeps.

An `ApiCall` is a generator that yields requests, is sent the reply to each, and returns its value. The two
clients only send the requests, so that retries, deadlines and errors are decided in one place for both.
"""

import time
from collections.abc import Generator, Mapping
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec

from langlauf.client.errors import ApiError, NotLanglauf, Unreachable, error_class
from langlauf.clock import draw, new_id

T = TypeVar("T")
#: Statuses that are retried: of a busy or restarting server, of one that got half of a request, or of a proxy.
RETRY_STATUSES = frozenset({408, 429, 502, 503, 504})
NOT_MODIFIED = 304
_GRACE_SECONDS = 0.05


class ClientRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request. All requests of this client may be repeated: they read, are idempotent, or carry a key."""

    path: str
    method: str = "GET"
    params: Mapping[str, str | int] = {}
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    #: seconds to wait before it is sent
    delay: float = 0.0
    #: seconds that a long poll may take beyond the client's own timeout
    extra: float = 0.0
    #: seconds until the caller's deadline
    at_most: float | None = None


class ServerReply(msgspec.Struct, frozen=True):
    """A reply of the server. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class NoReply(msgspec.Struct, frozen=True):
    """No reply arrived; whether the server got the request is unknown."""

    url: str
    reason: str


ApiCall = Generator[ClientRequest, ServerReply | NoReply, T]


class Deadline:
    """The time until which the caller waits; without seconds, forever."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._at = None if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float | None:
        """Seconds left, not under 0; None without a deadline."""
        return None if self._at is None else max(0.0, self._at - time.monotonic())

    @property
    def over(self) -> bool:
        """Whether the deadline has passed."""
        return self.left == 0.0

    def shorten(self, seconds: float) -> float:
        """Return the seconds, or what is left if that is less."""
        left = self.left
        return seconds if left is None else min(seconds, left)

    def reply_timeout(self, delay: float = 0.0) -> float | None:
        """Return how long to wait for a reply to a request that is sent after a delay: slightly past the deadline."""
        left = self.left
        return None if left is None else max(0.0, left - delay) + _GRACE_SECONDS


NO_DEADLINE = Deadline(None)


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how long a request is retried. Delays double, with jitter, so that clients spread out."""

    #: seconds from the first failure to giving up
    seconds: float
    #: retries without a reply; None for as many as fit into the seconds
    repeats: int | None = None
    first: float = 0.2
    longest: float = 5.0

    def delay(self, tries: int, spent: float, retry_after: float | None) -> float | None:
        """Return the seconds before the next try, or None to give up. A Retry-After of the server is the minimum."""
        backoff: float = min(self.longest, self.first * 2.0 ** min(tries, 60)) * (0.5 + draw() / 2)
        delay = backoff if retry_after is None else retry_after + backoff
        no_more = retry_after is None and self.repeats is not None and tries >= self.repeats
        if no_more or spent + delay > self.seconds:
            return None
        return delay


#: A single call: about three seconds for a restart, longer only if the server sends Retry-After.
CALL_RETRIES = RetryPolicy(seconds=12.0, repeats=4)
#: Following a job: two minutes without a server, as in a deployment.
FOLLOW_RETRIES = RetryPolicy(seconds=120.0)


def send(
    request: ClientRequest, policy: RetryPolicy = CALL_RETRIES, deadline: Deadline = NO_DEADLINE
) -> ApiCall[ServerReply]:
    """Return the server's reply; retry lost connections and `503`, raise for other error statuses.

    At the deadline the last failure raises, too: the caller decides what that means.
    """
    tries, failing_since = 0, None
    # One id for all tries: the server's log and the raised error name the same request.
    request = msgspec.structs.replace(request, headers={"X-Request-Id": new_id(), **request.headers})
    while True:
        reply = yield request
        if isinstance(reply, ServerReply) and reply.status not in RETRY_STATUSES:
            return _raise_for_status(reply)
        now = time.monotonic()
        failing_since = now if failing_since is None else failing_since
        delay = policy.delay(tries, now - failing_since, _retry_after(reply))
        if delay is None or deadline.over:
            raise Unreachable(reply.url, reply.reason) if isinstance(reply, NoReply) else error_of(reply)
        tries += 1
        delay = deadline.shorten(delay)
        request = msgspec.structs.replace(request, delay=delay, at_most=deadline.reply_timeout(delay))


def decode(reply: ServerReply, kind: type[T]) -> T:
    """Return the body as one of the client's models."""
    try:
        return msgspec.json.decode(reply.body, type=kind)
    except msgspec.MsgspecError as error:
        raise NotLanglauf(
            f"the reply cannot be decoded: {error}; check the URL and the versions of client and server"
        ) from None


def error_of(reply: ServerReply) -> ApiError:
    """Return the error of a reply, also of a proxy's, which has another format."""
    try:
        problem: dict[str, Any] = msgspec.json.decode(reply.body, type=dict[str, Any])
    except msgspec.MsgspecError:
        problem = {}
    code = str(problem.get("error") or _phrase(reply.status).lower().replace(" ", "_"))
    message = str(problem.get("message") or f"the server answered {reply.status} {_phrase(reply.status)}")
    request_id = problem.get("request_id") or reply.headers.get("x-request-id")
    kind = error_class(reply.status, code)
    return kind(reply.status, code, message, request_id, problem, retry_after=_retry_after(reply))


def _raise_for_status(reply: ServerReply) -> ServerReply:
    if reply.status < HTTPStatus.MULTIPLE_CHOICES or reply.status == NOT_MODIFIED:
        return reply
    raise error_of(reply)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


def _retry_after(reply: ServerReply | NoReply) -> float | None:
    text = reply.headers.get("retry-after", "") if isinstance(reply, ServerReply) else ""
    return float(text) if text.isascii() and text.isdigit() and len(text) <= 6 else None  # noqa: PLR2004
