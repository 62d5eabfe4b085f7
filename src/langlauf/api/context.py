"""What every handler needs: the use cases, the settings, the authentication of the caller, and JSON responses."""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from langlauf.api.requests import read_object
from langlauf.api.response_schemas import JobResponse
from langlauf.api.wire import ApiLinks, job_out
from langlauf.auth.caller import Caller, caller_of, check_host, serves_this_machine, trusted_proxies
from langlauf.auth.credentials import grant_of, secret_in_headers
from langlauf.auth.rates import RateLimits, enforce_rate_limit, limit_wrong_keys
from langlauf.auth.sessions import BY_SCRIPT, READING, BrowserCheck, is_cross_site, session_grant
from langlauf.domain.access import CAPABILITY_ISSUER, GRANTABLE_SCOPES, OPEN_ISSUER, Grant, Scope
from langlauf.domain.job import JobRecord
from langlauf.domain.read_models import JobFingerprint, JobView
from langlauf.domain.result import PayloadSource
from langlauf.problems import VARY, Problem, forbidden, not_found, unauthorized
from langlauf.server.asgi import LargeResponse, count_for_org, root_url
from langlauf.service.request_limits import FairQueue
from langlauf.service.services import Services
from langlauf.settings import Settings

# -- responses ---------------------------------------------------------------------------------------------------------

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


# -- context -----------------------------------------------------------------------------------------------------------


class ApiContext(msgspec.Struct, frozen=True):
    """Shared by the handlers of one application."""

    services: Services
    settings: Settings
    prefix: str
    #: whether the workers and the maintenance of this process, if it has any, are alive
    alive: Callable[[], bool]
    rates: RateLimits

    async def caller(
        self,
        request: Request,
        scope: Scope,
        *,
        in_address: str | None = None,
        one_job: bool = False,
        how: BrowserCheck = BY_SCRIPT,
        store_may_be_away: bool = False,
    ) -> Caller:
        """Authenticate and authorize the caller; raise 401, 403 or 429 otherwise.

        `one_job` allows a token for the job in the path.
        `store_may_be_away` allows cached keys while the store is unavailable: for endpoints without data of an org.
        """
        caller = await self.authenticate(
            request, in_address=in_address, one_job=one_job, how=how, store_may_be_away=store_may_be_away
        )
        self.authorize(request, caller, scope)
        return caller

    async def authenticate(
        self,
        request: Request,
        *,
        in_address: str | None = None,
        one_job: bool = False,
        how: BrowserCheck = BY_SCRIPT,
        store_may_be_away: bool = False,
    ) -> Caller:
        """Return the caller of a request; raise 401, 403 or 429 otherwise. `authorize` follows, for one scope."""
        shown = secret_in_headers(request)
        grant = await grant_of(
            self.services.authenticator, self.services.tokens, shown, in_address, store_may_be_away=store_may_be_away
        )
        if grant is None:
            if in_address is None and shown is None:
                grant = await session_grant(request, self.services.sessions, self.settings, how)
            else:
                self.limit_wrong_keys(request)
        if grant is None:
            raise unauthorized()
        if grant.issuer == OPEN_ISSUER:
            check_host(request)
            if request.method not in READING and is_cross_site(request, self.settings):
                raise forbidden(
                    "other_site", "The request comes from a page of another site, which may not change anything here."
                )
            if not serves_this_machine(request, self.settings):
                grant = msgspec.structs.replace(grant, scopes=grant.scopes - {Scope.DEBUG})
        caller = caller_of(request, grant)
        if grant.job_id is not None and not one_job:
            raise forbidden("one_job", "This token is for one job only; use a key for anything else.")
        count_for_org(request.scope, caller.org_id)
        return caller

    def authorize(self, request: Request, caller: Caller, scope: Scope) -> None:
        """Raise 403 where the caller lacks a scope, and 429 above a rate limit."""
        if scope not in caller.scopes:
            raise missing_scope(scope)
        enforce_rate_limit(self.rates, request, scope, caller)

    async def holder(
        self, request: Request, kind: Literal["job", "result"], *, in_address: str | None = None
    ) -> Caller:
        """Return a caller for the owner of a job or result, where the settings make its id enough to read it."""
        owner = await self.services.reads.owner(kind, request.path_params[f"{kind}_id"])
        if owner is None:
            raise not_found()
        grant = Grant(
            issuer=CAPABILITY_ISSUER,
            org_id=owner.org_id,
            scopes=frozenset({Scope.READ}),
            job_id=owner.job_id,
            shown=await self._shown_for(request, owner.org_id, in_address),
        )
        caller = caller_of(request, grant)
        count_for_org(request.scope, caller.org_id)
        enforce_rate_limit(self.rates, request, Scope.READ, caller)
        return caller

    async def _shown_for(self, request: Request, org_id: str, in_address: str | None) -> Grant | None:
        """Return a valid credential of the org that a request carries although it needs none; ignore any other."""
        try:
            shown = secret_in_headers(request)
            grant = await grant_of(self.services.authenticator, self.services.tokens, shown, in_address)
            if grant is None and in_address is None and shown is None:
                grant = await session_grant(request, self.services.sessions, self.settings, BY_SCRIPT)
        except Problem:
            return None
        theirs = grant is not None and grant.issuer != OPEN_ISSUER and grant.org_id in (None, org_id)
        return grant if theirs else None

    def limit_wrong_keys(self, request: Request) -> None:
        """Count a wrong key; raise 429 where the client's address has sent too many."""
        peer = request.client.host if request.client else None
        limit_wrong_keys(self.rates, trusted_proxies(self.settings).client_of(peer, request.scope["headers"]))

    def links(self, request: Request) -> ApiLinks:
        """Return the base of links: the public URL where it is set, else a path that also works under a mount point."""
        return ApiLinks(root_url(request.scope, self.settings.public_url) + self.prefix)

    async def body(self, request: Request, *, optional: bool = False) -> dict[str, Any]:
        """Return the JSON object in the request's body, within the limits."""
        limits = self.settings
        return await read_object(
            request,
            largest=limits.max_body,
            deepest=limits.max_depth,
            seconds=limits.body_seconds,
            optional=optional,
        )

    def payload_answer(
        self,
        caller: Caller,
        source: PayloadSource,
        shape: Callable[[msgspec.Raw], msgspec.Struct],
        *,
        headers: Mapping[str, str],
        cache: str = "no-store",
        gone: Callable[[], Awaitable[object]],
    ) -> Response:
        """Return a JSON response around a stored payload; a large one is streamed."""
        if source.whole is not None:
            return json_response(shape(msgspec.Raw(source.whole)), headers=headers, cache=cache)
        return LargeResponse(
            source,
            self.services.response_memory,
            caller.org_id,
            headers=tenant_headers(headers, cache),
            media_type="application/json",
            gone=gone,
            envelope=payload_envelope(shape),
        )

    async def job_answer(self, request: Request, caller: Caller, view: JobView, status: int) -> Response:
        """Return a response with one job, its Retry-After and its location."""
        moment = await self.services.reads.derived_fields(view)
        links = self.links(request)
        body = JobResponse(request_id=caller.request_id, job=job_out(view.job, moment, links, trace=caller.sees_traces))
        headers = {"Retry-After": str(moment.poll_after), "Content-Location": links.job(view.job.job_id)}
        return json_response(body, status, headers=headers)


def missing_scope(scope: Scope) -> Problem:
    """Return the 403 for a caller without a scope."""
    if scope not in GRANTABLE_SCOPES:
        return forbidden("operator", "Only the operator may do this, with the server's API_AUTH_TOKEN as the key.")
    message = f"This key does not have the scope {scope}: use one that has it, or ask the operator for one."
    return forbidden("scope", message, required_scope=scope)
