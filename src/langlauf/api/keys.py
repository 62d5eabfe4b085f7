"""Handlers of an org's keys, for its admins, and of tokens for one job. A key cannot grant more than it has."""

from starlette.requests import Request
from starlette.responses import Response

from langlauf.analysis.schema import read_input
from langlauf.api.context import ApiContext, missing_scope
from langlauf.api.parameters import read_duration, refuse_unknown_parameters
from langlauf.api.record_schemas import KeyOut
from langlauf.api.request_schemas import CreateKeyBody, TokenBody
from langlauf.api.response_schemas import CreatedKeyResponse, KeyResponse, KeysResponse, TokenResponse
from langlauf.api.responses import json_response
from langlauf.api.wire import key_fields
from langlauf.auth.caller import Caller
from langlauf.auth.credentials import LONGEST_SECONDS, USUAL_SECONDS
from langlauf.domain.access import DEFAULT_SCOPES, OPEN_ISSUER, Scope
from langlauf.domain.instant import Instant, to_datetime
from langlauf.problems import bad_request, forbidden, not_found


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
