"""The errors of the client, as a family.

ClientError                   a LanglaufError
├── Unreachable               no reply from the URL, after all retries
├── NotLanglauf               a reply that is not of this API
├── WaitTimeout               the job has not ended in time; it goes on (also a TimeoutError)
├── JobEnded                  the job has ended without a result
│   ├── JobFailed
│   └── JobCanceled
└── ApiError                  an error response: status, code, message, request_id, problem
    ├── BadRequest            invalid request; `field` says where
    ├── NotAllowed
    │   ├── Unauthorized      a valid key is required
    │   └── Forbidden         the key does not allow this
    ├── NotFound              it does not exist, or belongs to another org
    ├── Expired               retention has removed it
    ├── Conflict              not in this state; for a duplicate, `job` is the existing one
    └── Unavailable           overloaded or restarting; `retry_after` if the server sent it
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from langlauf.client.job_text import cancel_reason_text
from langlauf.client.models import JobResult, JobState, JobSummary
from langlauf.domain.errors import LanglaufError


class ClientError(LanglaufError):
    """Base class of the client's errors."""


class Unreachable(ClientError):
    """No reply from the URL."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"no server answers at {url}: {reason}")
        self.url = url
        self.reason = reason


class NotLanglauf(ClientError):
    """A reply that this client cannot decode: of another program, or of a far newer server."""


class WaitTimeout(ClientError, TimeoutError):
    """The job has not ended in time and goes on; `state` is its last known state."""

    def __init__(self, job_id: str, seconds: float, state: JobState | None) -> None:
        super().__init__(f"job {job_id} has not ended within {seconds:g} s; it goes on")
        self.job_id = job_id
        self.state = state


class JobEnded(ClientError):
    """The job has ended without a result; `state` is its final state, `url` its page."""

    def __init__(self, message: str, state: JobState, last_partial: JobResult | None, url: str) -> None:
        super().__init__(f"job {state.job_id} {message} ({url})")
        self.job_id = state.job_id
        self.state = state
        #: the last partial result, if there was one
        self.last_partial = last_partial
        self.url = url


class JobFailed(JobEnded):
    """The job failed: `code` for programs, `message` for people."""

    def __init__(self, state: JobState, last_partial: JobResult | None, url: str) -> None:
        super().__init__(f"failed: {state.error_code}: {state.error_message}", state, last_partial, url)
        self.code = state.error_code
        self.message = state.error_message
        self.retry_hint = state.retry_hint


class JobCanceled(JobEnded):
    """The job was canceled."""

    def __init__(self, state: JobState, last_partial: JobResult | None, url: str) -> None:
        why = f": {cancel_reason_text(state)}" if state.cancel_reason else ""
        super().__init__(f"was canceled by {state.canceled_by}{why}", state, last_partial, url)
        self.reason = state.cancel_reason


class ApiError(ClientError):
    """An error response of the server."""

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
        #: names the request in the server's log
        self.request_id = request_id
        #: the whole body of the response
        self.problem = problem
        #: seconds after which to try again, by the server's Retry-After
        self.retry_after = retry_after


class BadRequest(ApiError):
    """The request is invalid."""

    @property
    def field(self) -> str | None:
        """The invalid field of the request, or None."""
        field = self.problem.get("field")
        return field if isinstance(field, str) else None


class NotAllowed(ApiError):
    """The caller is not allowed to do that."""


class Unauthorized(NotAllowed):
    """The server wants a valid key."""


class Forbidden(NotAllowed):
    """The key is valid, but does not allow this."""

    @property
    def reason(self) -> str | None:
        """Why, in one word of the API, such as `scope` or `other_org`; None where the server did not say."""
        reason = self.problem.get("reason")
        return reason if isinstance(reason, str) else None

    @property
    def required_scope(self) -> str | None:
        """The scope that the key lacks, or None."""
        scope = self.problem.get("required_scope")
        return scope if isinstance(scope, str) else None


class NotFound(ApiError):
    """It does not exist, or belongs to another org."""


class Expired(ApiError):
    """Retention has removed it."""


class Conflict(ApiError):
    """The request conflicts with the current state."""

    @property
    def job(self) -> JobSummary | None:
        """For a duplicate, the existing job."""
        try:
            return msgspec.convert(self.problem.get("job"), JobSummary)
        except msgspec.ValidationError:
            return None


class Unavailable(ApiError):
    """The server cannot process the request now."""


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


def error_class(status: int, code: str) -> type[ApiError]:
    """Return the error class of a status and code."""
    return _BY_CODE.get(code) or _BY_STATUS.get(status, ApiError)
