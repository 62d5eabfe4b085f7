"""`/webhooks`, for admins: endpoints, their health, and deliveries.

Every form works without a script. A new secret is shown once, on the page that answers its form.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from langlauf.analysis.schema import InvalidInput
from langlauf.api.context import ApiContext, missing_scope
from langlauf.api.wire import shown_target
from langlauf.auth.caller import Caller
from langlauf.auth.rates import RateKind, enforce_own_rate_limit
from langlauf.domain.access import LONGEST_KEY_NAME, Scope
from langlauf.domain.delivery import (
    DELIVERY_STATUSES,
    FINAL_SUBJECTS,
    MOST_ENDPOINTS,
    SUBJECTS,
    DeliveryFilter,
    Notification,
    WebhookEndpoint,
    subject_of,
)
from langlauf.domain.webhook import LONGEST_WEBHOOK_URL
from langlauf.problems import not_found
from langlauf.service.webhooks import (
    SWITCHED_OFF,
    CreatedEndpoint,
    EndpointDisabled,
    EndpointExists,
    EndpointHealth,
    SendResult,
    TooManyEndpoints,
    endpoint_health,
)
from langlauf.ui.form_validation import input_error
from langlauf.ui.page_request import PageRequest
from langlauf.ui.renderer import PageRenderer
from langlauf.ui.responses import see_other

#: Deliveries shown; commands and the API list all.
MAX_DELIVERIES = 25


class EndpointRow(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint as the page shows it."""

    endpoint: WebhookEndpoint
    health: EndpointHealth


class DeliveryRow(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery as the page shows it."""

    message: Notification
    #: the last word of its template
    subject: str
    target: str
    #: whether it can be sent again: it is settled, and its endpoint is enabled
    replayable: bool


class EndpointForm(msgspec.Struct, frozen=True, kw_only=True):
    """The form for a new endpoint, and its error."""

    url: str = ""
    name: str = ""
    subjects: tuple[str, ...] = FINAL_SUBJECTS
    #: the invalid field, and its error
    field: str = ""
    error: str = ""


class EndpointOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a form, shown at the top of the page."""

    made: CreatedEndpoint | None = None
    #: whether the secret belongs to a new endpoint
    added: bool = False
    tried: SendResult | None = None
    tried_url: str = ""
    replayed: int | None = None
    #: the error code of a refusal
    refused: str = ""


class WebhookPages:
    """`/webhooks`, and the forms on it."""

    def __init__(self, context: ApiContext, renderer: PageRenderer) -> None:
        self._context = context
        self._webhooks = context.services.webhooks
        self._renderer = renderer

    async def show(self, request: PageRequest, caller: Caller) -> Response:
        """Show the page."""
        if Scope.ADMIN not in caller.scopes:
            raise missing_scope(Scope.ADMIN)
        return await self._page(request, caller)

    async def redirect_to_page(self, request: PageRequest, _: Caller) -> Response:
        """Redirect to the page; a reload or a change of language sends GET to the address of a form."""
        return see_other(request.link("webhooks"))

    async def add(self, request: PageRequest, caller: Caller, fields: Mapping[str, str]) -> Response:
        """Add an endpoint and show its secret, or show the form again."""
        chosen = tuple(one for one in SUBJECTS if fields.get(f"hears.{one}") == "on")
        form = EndpointForm(url=fields.get("url", "").strip(), name=fields.get("name", "").strip(), subjects=chosen)
        try:
            made = await self._webhooks.add(caller.org_id, form.url, name=form.name, subjects=chosen)
        except InvalidInput as error:
            invalid = msgspec.structs.replace(form, field=error.field, error=_field_error(request, error))
            return await self._page(request, caller, form=invalid, status=400)
        except EndpointExists:
            invalid = msgspec.structs.replace(form, field="url")
            return await self._page(
                request, caller, form=invalid, outcome=EndpointOutcome(refused="endpoint_exists"), status=409
            )
        except TooManyEndpoints:
            many = request.language.text("webhooks.error.many", most=MOST_ENDPOINTS)
            invalid = msgspec.structs.replace(form, field="url", error=many)
            return await self._page(request, caller, form=invalid, status=400)
        return await self._page(request, caller, outcome=EndpointOutcome(made=made, added=True))

    async def rotate(self, request: PageRequest, caller: Caller, _: Mapping[str, str]) -> Response:
        """Create a new secret and show it; the previous one stays valid for a day."""
        made = await self._webhooks.rotate(caller.org_id, _endpoint_id(request))
        if made is None:
            raise not_found()
        return await self._page(request, caller, outcome=EndpointOutcome(made=made))

    async def test(self, request: PageRequest, caller: Caller, _: Mapping[str, str]) -> Response:
        """Send a test event and show the response."""
        endpoint = await self._existing(request, caller)
        self._count(request, caller, RateKind.WEBHOOK_TEST, "Too many test events")
        tried = await self._webhooks.test(caller.org_id, endpoint.endpoint_id)
        return await self._page(request, caller, outcome=EndpointOutcome(tried=tried, tried_url=endpoint.url))

    async def switch(self, request: PageRequest, caller: Caller, fields: Mapping[str, str]) -> Response:
        """Enable or disable an endpoint."""
        changed = await self._webhooks.change(
            caller.org_id, _endpoint_id(request), enabled=fields.get("enabled") == "yes"
        )
        if changed is None:
            raise not_found()
        return see_other(request.link("webhooks"))

    async def remove(self, request: PageRequest, caller: Caller, _: Mapping[str, str]) -> Response:
        """Remove an endpoint."""
        if not await self._webhooks.remove(caller.org_id, _endpoint_id(request)):
            raise not_found()
        return see_other(request.link("webhooks"))

    async def replay_failed(self, request: PageRequest, caller: Caller, _: Mapping[str, str]) -> Response:
        """Send the failed deliveries of an endpoint again."""
        endpoint = await self._existing(request, caller)
        self._count(request, caller, RateKind.REPLAY, "Too many replays")
        try:
            replayed = await self._webhooks.replay_failed(caller.org_id, endpoint.endpoint_id)
        except EndpointDisabled:
            return await self._page(request, caller, outcome=EndpointOutcome(refused="endpoint_disabled"), status=409)
        return await self._page(request, caller, outcome=EndpointOutcome(replayed=replayed))

    async def replay(self, request: PageRequest, caller: Caller, _: Mapping[str, str]) -> Response:
        """Send one delivery again."""
        notification_id = request.path_params["notification_id"]
        if await self._webhooks.delivery(caller.org_id, notification_id) is None:
            raise not_found()
        self._count(request, caller, RateKind.REPLAY, "Too many replays")
        try:
            await self._webhooks.replay(caller.org_id, notification_id)
        except EndpointDisabled:
            return await self._page(request, caller, outcome=EndpointOutcome(refused="endpoint_disabled"), status=409)
        return await self._page(request, caller, outcome=EndpointOutcome(replayed=1))

    def _count(self, request: PageRequest, caller: Caller, kind: RateKind, what: str) -> None:
        enforce_own_rate_limit(self._context.rates, request.http, kind, caller.org_id, what)

    async def _existing(self, request: PageRequest, caller: Caller) -> WebhookEndpoint:
        found = await self._webhooks.one(caller.org_id, _endpoint_id(request))
        if found is None:
            raise not_found()
        return found

    async def _page(
        self,
        request: PageRequest,
        caller: Caller,
        *,
        form: EndpointForm | None = None,
        outcome: EndpointOutcome | None = None,
        status: int = 200,
    ) -> Response:
        endpoints = await self._webhooks.endpoints(caller.org_id)
        only = request.query_params.get("status", "")
        wanted = next((word for word in DELIVERY_STATUSES if word == only), None)
        found = await self._webhooks.deliveries(caller.org_id, DeliveryFilter(status=wanted, limit=MAX_DELIVERIES))
        now = self._webhooks.clock.now()
        values: dict[str, Any] = {
            "endpoint_rows": [EndpointRow(endpoint=one, health=endpoint_health(one, now)) for one in endpoints],
            "rows": [_delivery_row(one, endpoints) for one in found],
            "only": wanted or "",
            "statuses": DELIVERY_STATUSES,
            "subjects": SUBJECTS,
            "form": form or EndpointForm(),
            "outcome": outcome or EndpointOutcome(),
            "most": MAX_DELIVERIES,
            "by_hand": SWITCHED_OFF,
            "longest_url": LONGEST_WEBHOOK_URL,
            "longest_name": LONGEST_KEY_NAME,
            # A form posts to an address below this page; a change of language or colours returns to the page itself.
            "back": "/webhooks",
        }
        return self._renderer.page(request, "webhooks/index.html", status, **values)


def _delivery_row(message: Notification, endpoints: list[WebhookEndpoint]) -> DeliveryRow:
    by_id = {one.endpoint_id: one for one in endpoints}
    reachable = message.endpoint_id is None or (
        message.endpoint_id in by_id and by_id[message.endpoint_id].disabled_at is None
    )
    return DeliveryRow(
        message=message,
        subject=subject_of(message.template_key),
        target=shown_target(message, endpoints) or "",
        replayable=message.delivery_status != "pending" and message.lane is not None and reachable,
    )


def _field_error(request: PageRequest, error: InvalidInput) -> str:
    """Return the error of a field."""
    if error.field == "url":
        return input_error(error).message(request.language)
    if error.field == "name":
        return request.language.text("webhooks.error.name", most=LONGEST_KEY_NAME)
    return request.language.text("webhooks.events.none")


def _endpoint_id(request: PageRequest) -> str:
    found: str = request.path_params["endpoint_id"]
    return found
