"""Answers: encoded once, with the headers that tenant data needs."""

import secrets
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from langlauf.domain.job import JobRecord
from langlauf.domain.read_models import JobFingerprint
from langlauf.problems import VARY
from langlauf.server.fair_queue import FairQueue

_encoder = msgspec.json.Encoder()
_JSON = (b"content-type", b"application/json")
_VARY = (b"vary", VARY.encode())


def payload_envelope(shape: Callable[[msgspec.Raw], msgspec.Struct]) -> tuple[bytes, bytes]:
    """What stands before and after a stored payload in an answer: together they are what `json_response` would send."""
    mark = b'"%b"' % secrets.token_hex(16).encode()
    before, _, after = _encoder.encode(shape(msgspec.Raw(mark))).partition(mark)
    return before, after


def tenant_headers(headers: Mapping[str, str] | None, cache: str) -> dict[str, str]:
    """The headers that every answer with tenant data has, and those."""
    return {"Cache-Control": cache, "Vary": VARY, **(headers or {})}


class TenantJsonResponse(Response):
    """A JSON body with the headers of tenant data, made without a detour over text where it is the same every time."""

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
    """A JSON answer that holds tenant data."""
    return TenantJsonResponse(_encoder.encode(body), status, headers or {}, cache)


#: Tenant data that may be kept by its own reader alone, and is asked for again before it is used.
REVALIDATED = "private, no-cache"
#: What is kept of answers, in bytes: in all, and the largest of them.
_MOST_KEPT, _LARGEST_KEPT = 16 * 1_048_576, 65_536


def etags_of_caller(request: Request) -> str | None:
    """What the caller has, as one list of tags; None where it does not say."""
    return ",".join(request.headers.getlist("if-none-match")) or None


def etag_matches(known: str, etag: str) -> bool:
    """Weak comparison over the list of an If-None-Match header."""
    tags = {tag.strip().removeprefix("W/") for tag in known.split(",")}
    return "*" in tags or etag.removeprefix("W/") in tags


def etag_hold_suffix(job: JobRecord) -> str:
    """What the tag of an answer about a job has where its results are held: nothing else of the job tells that."""
    return "" if job.held_at is None else f"-h{job.held_at}"


def not_modified(etag: str, headers: Mapping[str, str] | None = None) -> Response:
    """304 with what a 200 would say about keeping it."""
    return Response(
        status_code=304, headers={"ETag": etag, "Cache-Control": REVALIDATED, "Vary": VARY, **(headers or {})}
    )


class StatusCacheKey(NamedTuple):
    """For whom an answer about a job was made: what they see of it differs in nothing else."""

    org_id: str
    job_id: str
    operator: bool
    #: where the addresses in it begin
    base: str


class CachedStatus(msgspec.Struct, frozen=True):
    """The answer about a job that has ended, and the pulse with which it is still right."""

    pulse: JobFingerprint
    headers: dict[str, str]
    job: bytes


class StatusCache:
    """Answers about jobs that have ended, within a bound: the oldest of the org with the most go first."""

    def __init__(self) -> None:
        self._kept: dict[StatusCacheKey, CachedStatus] = {}
        self._order: FairQueue[StatusCacheKey] = FairQueue()
        self._bytes = 0

    def get(self, audience: StatusCacheKey) -> CachedStatus | None:
        """The answer that was kept. It is right as long as the job has the same pulse."""
        return self._kept.get(audience)

    def put(self, audience: StatusCacheKey, json_response: CachedStatus) -> None:
        """Keep an answer, in the place of an earlier one, unless it is large."""
        self.drop(audience)
        if len(json_response.job) > _LARGEST_KEPT:
            return
        self._kept[audience] = json_response
        self._order.add(audience, audience.org_id)
        self._bytes += len(json_response.job)
        while self._bytes > _MOST_KEPT and (oldest := self._order.pop()) is not None:
            self.drop(oldest)

    def drop(self, audience: StatusCacheKey) -> None:
        """Forget an answer, if it is here."""
        json_response = self._kept.pop(audience, None)
        if json_response is not None:
            self._order.discard(audience)
            self._bytes -= len(json_response.job)
