"""Conditional requests: what the caller has already is not sent again."""

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from langlauf.domain.job import Job
from langlauf.http.problems import VARY

#: Tenant data that may be kept by its own reader alone, and is asked for again before it is used.
REVALIDATED = "private, no-cache"


def known_tags(request: Request) -> str | None:
    """What the caller has, as one list of tags; None where it does not say."""
    return ",".join(request.headers.getlist("if-none-match")) or None


def matches(known: str, etag: str) -> bool:
    """Weak comparison over the list of an If-None-Match header."""
    tags = {tag.strip().removeprefix("W/") for tag in known.split(",")}
    return "*" in tags or etag.removeprefix("W/") in tags


def hold_mark(job: Job) -> str:
    """What the tag of an answer about a job has where its results are held: nothing else of the job tells that."""
    return "" if job.held_at is None else f"-h{job.held_at}"


def not_modified(etag: str, headers: Mapping[str, str] | None = None) -> Response:
    """304 with what a 200 would say about keeping it."""
    return Response(
        status_code=304, headers={"ETag": etag, "Cache-Control": REVALIDATED, "Vary": VARY, **(headers or {})}
    )
