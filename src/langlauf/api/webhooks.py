"""Handlers of an org's webhook endpoints and deliveries, for its admins."""

from collections.abc import Awaitable
from datetime import datetime
from typing import TypeVar, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from langlauf.analysis.schema import InvalidInput, read_input
from langlauf.api.context import ApiContext, json_response
from langlauf.api.record_schemas import EndpointOut
from langlauf.api.request_schemas import ChangeWebhookBody, CreateWebhookBody, ReplayBody, RotateBody
from langlauf.api.requests import (
    choice_parameter,
    int_parameter,
    read_cursor,
    refuse_unknown_parameters,
    text_parameter,
    write_cursor,
)
from langlauf.api.response_schemas import (
    CreatedEndpointResponse,
    DeliveriesResponse,
    DeliveryResponse,
    EndpointResponse,
    EndpointsResponse,
    OrgSecretResponse,
    RemovedEndpointResponse,
    ReplayedDeliveryResponse,
    ReplayResponse,
    WebhookTestResponse,
)
from langlauf.api.wire import attempt_out, delivery_out, endpoint_out, tried_fields
from langlauf.auth.caller import Caller
from langlauf.auth.rates import RateKind, enforce_own_rate_limit
from langlauf.domain.delivery import DELIVERY_STATUSES, FINAL_SUBJECTS, DeliveryFilter, DeliveryStatus, WebhookEndpoint
from langlauf.domain.instant import Instant, from_text
from langlauf.problems import Problem, not_found
from langlauf.service.webhooks import (
    MOST_REPLAYED,
    USUAL_OVERLAP,
    CreatedEndpoint,
    EndpointDisabled,
    EndpointExists,
    TooManyEndpoints,
)
from langlauf.settings_values import parse_duration

T = TypeVar("T")


class WebhookHandlers:
    """Handlers under `/analyze/webhooks`."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._webhooks = context.services.webhooks

    async def list(self, request: Request, caller: Caller) -> Response:
        """List the org's endpoints, oldest first, with their health."""
        refuse_unknown_parameters(request)
        found = [self._out(one) for one in await self._webhooks.endpoints(caller.org_id)]
        return json_response(EndpointsResponse(request_id=caller.request_id, webhooks=found))

    async def create(self, request: Request, caller: Caller) -> Response:
        """Add an endpoint. Only this response contains its secret."""
        refuse_unknown_parameters(request)
        sent: CreateWebhookBody = read_input(CreateWebhookBody, await self._context.body(request, optional=True))
        made = await as_problem(
            self._webhooks.add(caller.org_id, sent.url, name=sent.name, subjects=sent.events or FINAL_SUBJECTS)
        )
        address = f"{self._context.links(request).base}/webhooks/{made.endpoint.endpoint_id}"
        return json_response(self._with_secret(caller, made), 201, headers={"Location": address})

    async def secret(self, request: Request, caller: Caller) -> Response:
        """Return the org's own secret; it can be read again."""
        refuse_unknown_parameters(request)
        secret, former, *_ = (*self._webhooks.org_secrets(caller.org_id), None, None)
        return json_response(OrgSecretResponse(request_id=caller.request_id, secret=secret, former_secret=former))

    async def one(self, request: Request, caller: Caller) -> Response:
        """Return one endpoint."""
        refuse_unknown_parameters(request)
        return self._answer(caller, await self._webhooks.one(caller.org_id, _id(request)))

    async def change(self, request: Request, caller: Caller) -> Response:
        """Change the given fields. Switching off gives up pending messages; switching on resets the failures."""
        refuse_unknown_parameters(request)
        sent: ChangeWebhookBody = read_input(ChangeWebhookBody, await self._context.body(request, optional=True))
        changed = await self._webhooks.change(
            caller.org_id, _id(request), name=sent.name, subjects=sent.events, enabled=sent.enabled
        )
        return self._answer(caller, changed)

    async def remove(self, request: Request, caller: Caller) -> Response:
        """Remove an endpoint."""
        refuse_unknown_parameters(request)
        if not await self._webhooks.remove(caller.org_id, _id(request)):
            raise not_found()
        return json_response(RemovedEndpointResponse(request_id=caller.request_id, endpoint_id=_id(request)))

    async def rotate(self, request: Request, caller: Caller) -> Response:
        """Create a new secret. Only this response contains it."""
        refuse_unknown_parameters(request)
        sent: RotateBody = read_input(RotateBody, await self._context.body(request, optional=True))
        made = await self._webhooks.rotate(caller.org_id, _id(request), overlap_seconds=_overlap(sent.overlap))
        if made is None:
            raise not_found()
        return json_response(self._with_secret(caller, made))

    async def test(self, request: Request, caller: Caller) -> Response:
        """Send a test event, and return the result."""
        refuse_unknown_parameters(request)
        await self._context.body(request, optional=True)
        if await self._webhooks.one(caller.org_id, _id(request)) is None:
            raise not_found()
        enforce_own_rate_limit(
            self._context.rates, request, RateKind.WEBHOOK_TEST, caller.org_id, "Too many test events"
        )
        tried = await self._webhooks.test(caller.org_id, _id(request))
        if tried is None:
            raise not_found()
        return json_response(WebhookTestResponse(request_id=caller.request_id, **tried_fields(tried)))

    async def replay(self, request: Request, caller: Caller) -> Response:
        """Send again what the endpoint did not accept."""
        refuse_unknown_parameters(request)
        sent: ReplayBody = read_input(ReplayBody, await self._context.body(request, optional=True))
        if await self._webhooks.one(caller.org_id, _id(request)) is None:
            raise not_found()
        enforce_own_rate_limit(self._context.rates, request, RateKind.REPLAY, caller.org_id, "Too many replays")
        replayed = await as_problem(
            self._webhooks.replay_failed(caller.org_id, _id(request), since=_instant(sent.since))
        )
        if replayed is None:
            raise not_found()
        body = ReplayResponse(request_id=caller.request_id, replayed=replayed, more=replayed >= MOST_REPLAYED)
        return json_response(body, 202)

    def _out(self, endpoint: WebhookEndpoint) -> EndpointOut:
        return endpoint_out(endpoint, self._webhooks.clock.now())

    def _answer(self, caller: Caller, endpoint: WebhookEndpoint | None) -> Response:
        if endpoint is None:
            raise not_found()
        return json_response(EndpointResponse(request_id=caller.request_id, webhook=self._out(endpoint)))

    def _with_secret(self, caller: Caller, made: CreatedEndpoint) -> CreatedEndpointResponse:
        return CreatedEndpointResponse(
            request_id=caller.request_id, webhook=self._out(made.endpoint), secret=made.secret
        )


class DeliveryHandlers:
    """Handlers under `/analyze/deliveries`."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._webhooks = context.services.webhooks

    async def list(self, request: Request, caller: Caller) -> Response:
        """List the org's deliveries, newest first."""
        refuse_unknown_parameters(request, "endpoint", "job", "status", "limit", "cursor")
        limit = int_parameter(request, "limit", default=50, lowest=1, highest=200)
        which = DeliveryFilter(
            endpoint_id=text_parameter(request, "endpoint"),
            job_id=text_parameter(request, "job"),
            status=cast("DeliveryStatus | None", choice_parameter(request, "status", DELIVERY_STATUSES)),
            limit=limit + 1,
        )
        cursor = text_parameter(request, "cursor")
        before = None if cursor is None else read_cursor(cursor, caller.org_id, which)
        found = await self._webhooks.deliveries(caller.org_id, msgspec.structs.replace(which, before=before))
        endpoints = await self._webhooks.endpoints(caller.org_id)
        page, headers, following = found[:limit], {}, None
        if len(found) > limit:
            following = write_cursor((page[-1].created_at, page[-1].notification_id), caller.org_id, which)
            address = request.url.include_query_params(cursor=following)
            headers["Link"] = f'<{self._context.links(request).base}/deliveries?{address.query}>; rel="next"'
        body = DeliveriesResponse(
            request_id=caller.request_id,
            deliveries=[delivery_out(one, endpoints) for one in page],
            next_cursor=following,
        )
        return json_response(body, headers=headers)

    async def one(self, request: Request, caller: Caller) -> Response:
        """Return one delivery with its attempts."""
        refuse_unknown_parameters(request)
        found = await self._webhooks.delivery(caller.org_id, request.path_params["notification_id"])
        if found is None:
            raise not_found()
        endpoints = await self._webhooks.endpoints(caller.org_id)
        body = DeliveryResponse(
            request_id=caller.request_id,
            delivery=delivery_out(found.message, endpoints),
            attempts=[attempt_out(one) for one in found.attempts],
        )
        return json_response(body)

    async def replay(self, request: Request, caller: Caller) -> Response:
        """Send one delivery again. A pending one is left as it is."""
        refuse_unknown_parameters(request)
        await self._context.body(request, optional=True)
        notification_id = request.path_params["notification_id"]
        if await self._webhooks.delivery(caller.org_id, notification_id) is None:
            raise not_found()
        enforce_own_rate_limit(self._context.rates, request, RateKind.REPLAY, caller.org_id, "Too many replays")
        message = await as_problem(self._webhooks.replay(caller.org_id, notification_id))
        if message is None:
            raise not_found()
        endpoints = await self._webhooks.endpoints(caller.org_id)
        return json_response(
            ReplayedDeliveryResponse(request_id=caller.request_id, delivery=delivery_out(message, endpoints)), 202
        )


async def as_problem(use: Awaitable[T]) -> T:
    """Turn the refusal of a use case into a problem."""
    try:
        return await use
    except EndpointExists as error:
        raise Problem(409, "endpoint_exists", _sentence(error), field="url") from None
    except TooManyEndpoints as error:
        raise Problem(400, "bad_request", _sentence(error)) from None
    except EndpointDisabled as error:
        raise Problem(409, "endpoint_disabled", _sentence(error)) from None


def _sentence(error: Exception) -> str:
    text = str(error)
    return text[:1].upper() + text[1:] + "."


def _id(request: Request) -> str:
    found: str = request.path_params["endpoint_id"]
    return found


def _overlap(value: float | str | None) -> float:
    """Return seconds; 0 ends the previous secret at once."""
    if value is None:
        return USUAL_OVERLAP
    try:
        return parse_duration(value) if isinstance(value, str) else float(value)
    except ValueError as error:
        raise InvalidInput("overlap", f"overlap: {error}") from None


def _instant(moment: datetime | None) -> Instant | None:
    return None if moment is None else from_text(moment.isoformat())
