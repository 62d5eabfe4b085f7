"""Handlers for admins and operators: keys and tokens, pauses, and health, readiness and metrics."""

from starlette.requests import Request
from starlette.responses import Response

from langlauf.analysis.schema import read_input
from langlauf.api.context import ApiContext, json_response, missing_scope
from langlauf.api.record_schemas import KeyOut
from langlauf.api.request_schemas import CreateKeyBody, PauseBody, ResumeBody, TokenBody
from langlauf.api.requests import choice_parameter, read_duration, refuse_unknown_parameters
from langlauf.api.response_schemas import (
    CreatedKeyResponse,
    HealthResponse,
    KeyResponse,
    KeysResponse,
    PauseResponse,
    ResumeResponse,
    TokenResponse,
)
from langlauf.api.wire import key_fields, pause_out
from langlauf.auth.caller import Caller
from langlauf.auth.credentials import LONGEST_SECONDS, USUAL_SECONDS
from langlauf.domain.access import DEFAULT_SCOPES, OPEN_ISSUER, Scope
from langlauf.domain.errors import StoreError
from langlauf.domain.health import STORE_AWAY, WORKER_STOPPED
from langlauf.domain.instant import Instant, from_text, to_datetime
from langlauf.problems import VARY, Problem, bad_request, forbidden, not_found

# -- keys and tokens ---------------------------------------------------------------------------------------------------


class KeyHandlers:
    """Handlers under `/analyze/keys`."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._keys = context.services.keys

    async def list(self, request: Request, caller: Caller) -> Response:
        """List the org's keys, oldest first, including revoked and expired ones."""
        refuse_unknown_parameters(request)
        keys = [KeyOut(**key_fields(key)) for key in await self._keys.list(caller.org_id)]
        return json_response(KeysResponse(request_id=caller.request_id, keys=keys))

    async def create(self, request: Request, caller: Caller) -> Response:
        """Create a key of the org. Only this response contains its text."""
        refuse_unknown_parameters(request)
        sent: CreateKeyBody = read_input(CreateKeyBody, await self._context.body(request, optional=True))
        if caller.grant is not None and caller.grant.issuer == OPEN_ISSUER:
            raise forbidden(
                "key_limits", "The first key is created on the machine of the server: langlauf keys create --org ORG."
            )
        if not sent.name.isprintable():
            raise bad_request("name may have printable characters only.", "name")
        scopes = DEFAULT_SCOPES if sent.scopes is None else frozenset(Scope(word) for word in sent.scopes)
        if excess := sorted(scopes - caller.scopes):
            raise forbidden(
                "key_limits", f"This key does not have the scope {excess[0]}, so it cannot create one that has it."
            )
        expires_at = self._expiry(caller, read_duration(sent.expires_in, "expires_in"))
        made = await self._keys.create(caller.org_id, name=sent.name, scopes=scopes, expires_at=expires_at)
        self._context.services.authenticator.forget()
        body = CreatedKeyResponse(request_id=caller.request_id, key=made.text, **key_fields(made.key))
        return json_response(body, 201)

    def _expiry(self, caller: Caller, seconds: float | None) -> Instant | None:
        """Return the expiry of the new key: not after that of the key it is created with."""
        wished = self._keys.expiry(seconds)
        latest = caller.grant.expires_at if caller.grant is not None else None
        if wished is not None and latest is not None and wished > latest:
            raise forbidden(
                "key_limits", "A key cannot create one that expires later than itself: choose a shorter expires_in."
            )
        return latest if wished is None else wished

    async def revoke(self, request: Request, caller: Caller) -> Response:
        """Revoke a key of the org, with its sessions and tokens. Repeating it changes nothing."""
        refuse_unknown_parameters(request)
        await self._context.body(request, optional=True)
        revoked = await self._keys.revoke(request.path_params["key_id"], org_id=caller.org_id)
        if revoked is None:
            raise not_found()
        self._context.services.authenticator.forget()
        return json_response(KeyResponse(request_id=caller.request_id, **key_fields(revoked)))


class TokenHandler:
    """The handler of `/analyze/jobs/{job_id}/token`."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context

    async def create(self, request: Request, caller: Caller) -> Response:
        """Issue a token that reads this job for a while and, where requested, may cancel it."""
        refuse_unknown_parameters(request)
        sent: TokenBody = read_input(TokenBody, await self._context.body(request, optional=True))
        seconds = read_duration(sent.expires_in, "expires_in", longest=LONGEST_SECONDS) or USUAL_SECONDS
        if sent.cancel and Scope.CANCEL not in caller.scopes:
            raise missing_scope(Scope.CANCEL)
        view = await self._context.services.reads.of(caller).job(request.path_params["job_id"])
        if view is None:
            raise not_found()
        made = await self._context.services.tokens.make(caller, view.job.job_id, seconds, cancel=sent.cancel)
        body = TokenResponse(
            request_id=caller.request_id,
            token=made.text,
            token_type="Bearer",  # noqa: S106 - the kind of it
            expires_at=to_datetime(made.expires_at),
            job_id=view.job.job_id,
        )
        return json_response(body)


# -- pauses ------------------------------------------------------------------------------------------------------------


class PauseHandlers:
    """Handlers under `/analyze/analyses`."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._pauses = context.services.pauses

    async def pause(self, request: Request, caller: Caller) -> Response:
        """Let no job of the analysis start; running ones go on. Repeating it changes the reason and the end."""
        refuse_unknown_parameters(request)
        sent: PauseBody = read_input(PauseBody, await self._context.body(request))
        until = None if sent.until is None else from_text(sent.until.isoformat())
        name = request.path_params["analysis_name"]
        held = await self._pauses.pause(caller, name, sent.because, until, all_orgs=sent.all_orgs)
        return json_response(PauseResponse(request_id=caller.request_id, pause=pause_out(held)))

    async def resume(self, request: Request, caller: Caller) -> Response:
        """Let its jobs start again. Repeating it changes nothing."""
        refuse_unknown_parameters(request)
        sent: ResumeBody = read_input(ResumeBody, await self._context.body(request, optional=True))
        name = request.path_params["analysis_name"]
        resumed = await self._pauses.resume(caller, name, all_orgs=sent.all_orgs)
        return json_response(ResumeResponse(request_id=caller.request_id, resumed=resumed))


# -- health, readiness and metrics -------------------------------------------------------------------------------------


class SystemHandlers:
    """Handlers for operators and their monitoring."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context

    async def health(self, request: Request) -> Response:
        """Return that the process is up, without checking anything else."""
        return json_response(HealthResponse(request_id=request.scope["langlauf.request_id"], status="up"))

    async def ready(self, request: Request) -> Response:
        """Check that the store answers and takes writes, and that the workers of this process, if any, are alive.

        With `for=reads`, only check that the store answers.
        """
        reads_alone = choice_parameter(request, "for", ("reads",)) is not None
        retry = {"Retry-After": "5"}
        try:
            await self._context.services.reads.check()
        except StoreError as error:
            raise Problem(503, "unavailable", STORE_AWAY.message, headers=retry) from error
        unwell = None if reads_alone else await self._context.services.reads.unwell()
        if unwell is not None:
            raise Problem(503, "unavailable", unwell, headers=retry)
        if not reads_alone and not self._context.alive():
            raise Problem(503, "unavailable", WORKER_STOPPED.message, headers=retry)
        return json_response(HealthResponse(request_id=request.scope["langlauf.request_id"], status="ready"))

    async def metrics(self, request: Request, _: Caller) -> Response:
        """Return all metrics in the Prometheus format, or in OpenMetrics where the client accepts it."""
        text, kind = await self._context.services.metrics.text(request.headers.get("accept", ""))
        return Response(text, headers={"Cache-Control": "no-store", "Vary": VARY, "Content-Type": kind})
