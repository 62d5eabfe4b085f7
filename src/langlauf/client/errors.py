"""The errors of the client, as a family.

ClientError                   a LanglaufError
├── Unreachable               no server answers at the address, after every repetition
├── NotLanglauf               something answered, but not as this API does
├── WaitTimeout               the time to wait is over; the job goes on (also a TimeoutError)
├── JobEnded                  the job has ended without a result
│   ├── JobFailed
│   └── JobCanceled
└── ApiError                  the server refused: status, code, message, request_id, problem
    ├── BadRequest            the request cannot be used as it is; `field` says where
    ├── NotAllowed
    │   ├── Unauthorized      the server wants a valid key
    │   └── Forbidden         the key is not for this
    ├── NotFound              there is nothing, or it belongs to another org
    ├── Expired               retention has removed it
    ├── Conflict              not in this state; of a duplicate, `job` is the one that exists
    └── Unavailable           not now; `retry_after` says when, where the server said so
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from langlauf.client.shapes import JobState, JobSummary
from langlauf.domain.errors import LanglaufError


class ClientError(LanglaufError):
    """The root of everything the client raises."""


class Unreachable(ClientError):
    """No server answers at the address."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"no server answers at {url}: {reason}")
        self.url = url
        self.reason = reason


class NotLanglauf(ClientError):
    """Something answered that this client cannot read: another program, or a far newer server."""


class WaitTimeout(ClientError, TimeoutError):
    """The time to wait is over. The job goes on; `state` is how it was last seen."""

    def __init__(self, job_id: str, seconds: float, state: JobState | None) -> None:
        super().__init__(f"job {job_id} has not ended within {seconds:g} s; it goes on")
        self.job_id = job_id
        self.state = state


class JobEnded(ClientError):
    """The job has ended and there is no result to return; `state` tells the rest."""

    def __init__(self, message: str, state: JobState) -> None:
        super().__init__(message)
        self.state = state


class JobFailed(JobEnded):
    """The job failed."""

    def __init__(self, state: JobState) -> None:
        super().__init__(f"job {state.job_id} failed: {state.error_code}: {state.error_message}", state)
        self.code = state.error_code
        self.retry_hint = state.retry_hint


class JobCanceled(JobEnded):
    """The job was canceled."""

    def __init__(self, state: JobState) -> None:
        why = f": {state.cancel_reason}" if state.cancel_reason else ""
        super().__init__(f"job {state.job_id} was canceled by {state.canceled_by}{why}", state)
        self.reason = state.cancel_reason


class ApiError(ClientError):
    """The server refused the request, and said why."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        request_id: str | None,
        problem: Mapping[str, Any],
        *,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        #: finds the request in the server's log
        self.request_id = request_id
        #: the whole body of the answer
        self.problem = problem
        #: seconds after which the server wants to be asked again
        self.retry_after = retry_after


class BadRequest(ApiError):
    """The request cannot be used as it is."""

    @property
    def field(self) -> str | None:
        """The part of the request that is wrong, where it is one."""
        field = self.problem.get("field")
        return field if isinstance(field, str) else None


class NotAllowed(ApiError):
    """The server does not let this caller do that."""


class Unauthorized(NotAllowed):
    """The server wants a valid key."""


class Forbidden(NotAllowed):
    """The key is valid, but not for this."""


class NotFound(ApiError):
    """There is nothing here, or it belongs to another org."""


class Expired(ApiError):
    """Retention has removed it."""


class Conflict(ApiError):
    """The request does not fit the state of things."""

    @property
    def job(self) -> JobSummary | None:
        """Of a duplicate, the job that exists already."""
        try:
            return msgspec.convert(self.problem.get("job"), JobSummary)
        except msgspec.ValidationError:
            return None


class Unavailable(ApiError):
    """The server cannot take the request right now."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    408: Unavailable,
    409: Conflict,
    410: Expired,
    413: BadRequest,
    414: BadRequest,
    415: BadRequest,
    422: BadRequest,
    429: Unavailable,
    431: BadRequest,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}
#: Codes that say more than their status does.
_BY_CODE: dict[str, type[ApiError]] = {"idempotency_mismatch": Conflict}


def kind_of(status: int, code: str) -> type[ApiError]:
    """The class of an error answer."""
    return _BY_CODE.get(code) or _BY_STATUS.get(status, ApiError)
