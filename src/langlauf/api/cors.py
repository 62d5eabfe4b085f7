"""Browsers of other origins: what they may send, and which headers of an answer their pages may read."""

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import Message

ALLOWED_METHODS = "GET, HEAD, POST, PATCH, DELETE"
ALLOWED_HEADERS = (
    "Authorization",
    "Content-Type",
    "Idempotency-Key",
    "If-None-Match",
    "Last-Event-ID",
    "Prefer",
    "X-API-Key",
    "X-Org-Id",
    "X-Request-Id",
    "X-Tenant-Id",
    "X-User-Id",
    "traceparent",
    "tracestate",
)
EXPOSED_HEADERS = (
    "Content-Location",
    "ETag",
    "Idempotent-Replayed",
    "Link",
    "Location",
    "Preference-Applied",
    "RateLimit",
    "RateLimit-Policy",
    "Retry-After",
    "X-Request-Id",
)
_ANY = "*"
_REMEMBERED_SECONDS = "600"


class Cors:
    """The origins of the settings. Cookies are never asked for: a page of another origin shows its key itself."""

    def __init__(self, origins: tuple[str, ...]) -> None:
        self._origins = frozenset(origins)

    def preflight(self, method: str, headers: Headers) -> Response | None:
        """The answer to a browser that asks before it calls. It needs no key, and tells nothing about the address."""
        if not self._origins or method != "OPTIONS" or "access-control-request-method" not in headers:
            return None
        vary = "Access-Control-Request-Method, Access-Control-Request-Headers"
        answer = Response(status_code=204, headers={"Vary": vary, "Cache-Control": "no-store"})
        if self._allowed(headers.get("origin")) is not None:
            answer.headers["Access-Control-Allow-Methods"] = ALLOWED_METHODS
            answer.headers["Access-Control-Allow-Headers"] = ", ".join(ALLOWED_HEADERS)
            answer.headers["Access-Control-Max-Age"] = _REMEMBERED_SECONDS
        return answer

    def mark(self, origin: str | None, start: Message) -> None:
        """Lets the caller's page read an answer, an error as well. What depends on the origin says so to caches."""
        if not self._origins:
            return
        answer = MutableHeaders(scope=start)
        if _ANY not in self._origins:
            answer.add_vary_header("Origin")
        allowed = self._allowed(origin)
        if allowed is not None:
            answer["Access-Control-Allow-Origin"] = allowed
            answer["Access-Control-Expose-Headers"] = ", ".join(EXPOSED_HEADERS)

    def _allowed(self, origin: str | None) -> str | None:
        if origin is None:
            return None
        if _ANY in self._origins:
            return _ANY
        return origin if origin in self._origins else None
