"""JSON responses with the headers for tenant data, ETags, and the cache of status responses."""

import secrets
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from langlauf.domain.job import JobRecord
from langlauf.domain.read_models import JobFingerprint
from langlauf.problems import VARY
from langlauf.service.request_limits import FairQueue

_encoder = msgspec.json.Encoder()
_JSON = (b"content-type", b"application/json")
_VARY = (b"vary", VARY.encode())


def payload_envelope(shape: Callable[[msgspec.Raw], msgspec.Struct]) -> tuple[bytes, bytes]:
    """Return the bytes before and after a stored payload; with the payload between, they equal a `json_response`."""
    mark = b'"%b"' % secrets.token_hex(16).encode()
    before, _, after = _encoder.encode(shape(msgspec.Raw(mark))).partition(mark)
    return before, after


def tenant_headers(headers: Mapping[str, str] | None, cache: str) -> dict[str, str]:
    """Return these headers with those of every response with tenant data."""
    return {"Cache-Control": cache, "Vary": VARY, **(headers or {})}


class TenantJsonResponse(Response):
    """A JSON response with tenant data; constant headers are encoded once."""

    def __init__(self, body: bytes, status: int, headers: Mapping[str, str], cache: str) -> None:
        self.status_code = status
        self.background = None
        self.body = body
        self.raw_headers = [
            (b"content-length", b"%d" % len(body)),
            _JSON,
            _VARY,
            (b"cache-control", cache.encode()),
            *((name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()),
        ]


def json_response(
    body: msgspec.Struct,
    status: int = 200,
    *,
    headers: Mapping[str, str] | None = None,
    cache: str = "no-store",
) -> Response:
    """Return a JSON response with tenant data."""
    return TenantJsonResponse(_encoder.encode(body), status, headers or {}, cache)


#: Only the client itself may cache it, and revalidates it before use.
REVALIDATED = "private, no-cache"
#: Limits of the status cache, in bytes: in total, and for one response.
_MOST_KEPT, _LARGEST_KEPT = 16 * 1_048_576, 65_536


def etags_of_caller(request: Request) -> str | None:
    """Return the caller's ETags as one list; None without If-None-Match."""
    return ",".join(request.headers.getlist("if-none-match")) or None


def etag_matches(known: str, etag: str) -> bool:
    """Whether an ETag is in the list of an If-None-Match header, by weak comparison."""
    tags = {tag.strip().removeprefix("W/") for tag in known.split(",")}
    return "*" in tags or etag.removeprefix("W/") in tags


def etag_hold_suffix(job: JobRecord) -> str:
    """Return the ETag suffix of a held job: nothing else of the job changes with a hold."""
    return "" if job.held_at is None else f"-h{job.held_at}"


def not_modified(etag: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return a 304 with the caching headers of a 200."""
    return Response(
        status_code=304, headers={"ETag": etag, "Cache-Control": REVALIDATED, "Vary": VARY, **(headers or {})}
    )


class StatusCacheKey(NamedTuple):
    """Everything that the status response of a job depends on, besides the job."""

    org_id: str
    job_id: str
    #: whether it contains the stack trace of the error
    trace: bool
    #: the base of the links in it
    base: str


class CachedStatus(msgspec.Struct, frozen=True):
    """The status response of an ended job, valid while the job has this fingerprint."""

    pulse: JobFingerprint
    headers: dict[str, str]
    job: bytes


class StatusCache:
    """Status responses of ended jobs, within a memory limit: the oldest of the org with the most are evicted first."""

    def __init__(self) -> None:
        self._kept: dict[StatusCacheKey, CachedStatus] = {}
        self._order: FairQueue[StatusCacheKey] = FairQueue()
        self._bytes = 0

    def get(self, audience: StatusCacheKey) -> CachedStatus | None:
        """Return the cached response. It is valid while the job has the same fingerprint."""
        return self._kept.get(audience)

    def put(self, audience: StatusCacheKey, json_response: CachedStatus) -> None:
        """Cache a response, unless it is large; replace an earlier one."""
        self.drop(audience)
        if len(json_response.job) > _LARGEST_KEPT:
            return
        self._kept[audience] = json_response
        self._order.add(audience, audience.org_id)
        self._bytes += len(json_response.job)
        while self._bytes > _MOST_KEPT and (oldest := self._order.pop()) is not None:
            self.drop(oldest)

    def drop(self, audience: StatusCacheKey) -> None:
        """Remove a response, if it is cached."""
        json_response = self._kept.pop(audience, None)
        if json_response is not None:
            self._order.discard(audience)
            self._bytes -= len(json_response.job)
