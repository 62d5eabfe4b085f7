"""Requests and answers as values, and the patience between them. Nothing here touches the network or waits.

An operation is a *talk*: a generator that yields requests, is sent what came of each, and returns its value. The two
clients only carry out the requests, so everything that is decided is decided once.
"""

import time
from collections.abc import Generator, Mapping
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec

from langlauf.client.errors import ApiError, NotLanglauf, Unreachable, kind_of
from langlauf.clock import draw, new_id

T = TypeVar("T")
#: Answers that ask to come back: a busy or restarting server, one that got half of a request, or the proxy before it.
COME_BACK = frozenset({408, 429, 502, 503, 504})
NOT_MODIFIED = 304
_GRACE_SECONDS = 0.05


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request. All requests of this client may be repeated: they read, are idempotent, or carry a key."""

    path: str
    method: str = "GET"
    params: Mapping[str, str | int] = {}
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    #: seconds to wait before it is sent
    delay: float = 0.0
    #: seconds that the server may take on purpose, beyond the client's own timeout
    extra: float = 0.0
    #: seconds until nobody waits for the answer any more
    at_most: float | None = None


class Reply(msgspec.Struct, frozen=True):
    """The server's answer. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Lost(msgspec.Struct, frozen=True):
    """No answer came; whether the server saw the request is not known."""

    url: str
    reason: str


Talk = Generator[Request, Reply | Lost, T]


class Deadline:
    """The moment at which a caller no longer wants to wait; without seconds it never comes."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._at = None if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float | None:
        """Seconds until then, not under 0; None where there is no end."""
        return None if self._at is None else max(0.0, self._at - time.monotonic())

    @property
    def over(self) -> bool:
        """Whether it has come."""
        return self.left == 0.0

    def shorten(self, seconds: float) -> float:
        """So many seconds, or what is left."""
        left = self.left
        return seconds if left is None else min(seconds, left)

    def patience(self, delay: float = 0.0) -> float | None:
        """How long to wait for an answer that is asked for after a delay: a little past the end, never short of it."""
        left = self.left
        return None if left is None else max(0.0, left - delay) + _GRACE_SECONDS


NEVER = Deadline(None)


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how long a request is repeated. Delays double, with jitter: clients do not all return at once."""

    #: seconds from the first trouble to giving up
    seconds: float
    #: repetitions after lost answers; None for as many as the seconds hold
    repeats: int | None = None
    first: float = 0.2
    longest: float = 5.0

    def delay(self, tries: int, spent: float, asked: float | None) -> float | None:
        """Seconds before the next try, or None when it is enough. What the server asks for is not undercut."""
        backoff: float = min(self.longest, self.first * 2.0 ** min(tries, 60)) * (0.5 + draw() / 2)
        wished = backoff if asked is None else asked + backoff
        if (asked is None and self.repeats is not None and tries >= self.repeats) or spent + wished > self.seconds:
            return None
        return wished


#: A single call: about three seconds for a restart, longer only where the server says when to come back.
CALLING = Patience(seconds=12.0, repeats=4)
#: Following a job: two minutes without a server, as in a deployment.
FOLLOWING = Patience(seconds=120.0)


def ask(request: Request, patience: Patience = CALLING, deadline: Deadline = NEVER) -> Talk[Reply]:
    """The server's answer, through lost connections and `503`; error answers raise.

    At the deadline whatever trouble there is raises, too: the caller decides what that means.
    """
    tries, trouble_since = 0, None
    # One id for all tries: the server's log and the error that is raised tell of the same request.
    request = msgspec.structs.replace(request, headers={"X-Request-Id": new_id(), **request.headers})
    while True:
        answer = yield request
        if isinstance(answer, Reply) and answer.status not in COME_BACK:
            return _accepted(answer)
        now = time.monotonic()
        trouble_since = now if trouble_since is None else trouble_since
        delay = patience.delay(tries, now - trouble_since, _retry_after(answer))
        if delay is None or deadline.over:
            raise Unreachable(answer.url, answer.reason) if isinstance(answer, Lost) else error_of(answer)
        tries += 1
        delay = deadline.shorten(delay)
        request = msgspec.structs.replace(request, delay=delay, at_most=deadline.patience(delay))


def read(reply: Reply, kind: type[T]) -> T:
    """The body as one of our shapes."""
    try:
        return msgspec.json.decode(reply.body, type=kind)
    except msgspec.MsgspecError as error:
        raise NotLanglauf(f"the answer cannot be read: {error}") from None


def error_of(reply: Reply) -> ApiError:
    """The error an answer stands for; also for answers of a proxy, which have another shape."""
    try:
        problem: dict[str, Any] = msgspec.json.decode(reply.body, type=dict[str, Any])
    except msgspec.MsgspecError:
        problem = {}
    code = str(problem.get("error") or _phrase(reply.status).lower().replace(" ", "_"))
    message = str(problem.get("message") or f"the server answered {reply.status} {_phrase(reply.status)}")
    request_id = problem.get("request_id") or reply.headers.get("x-request-id")
    kind = kind_of(reply.status, code)
    return kind(reply.status, code, message, request_id, problem, retry_after=_retry_after(reply))


def _accepted(reply: Reply) -> Reply:
    if reply.status < HTTPStatus.MULTIPLE_CHOICES or reply.status == NOT_MODIFIED:
        return reply
    raise error_of(reply)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


def _retry_after(answer: Reply | Lost) -> float | None:
    text = answer.headers.get("retry-after", "") if isinstance(answer, Reply) else ""
    return float(text) if text.isascii() and text.isdigit() and len(text) <= 6 else None  # noqa: PLR2004
