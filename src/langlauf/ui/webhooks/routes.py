"""The addresses of the pages about endpoints."""

from starlette.routing import Route

from langlauf.api.context import Context
from langlauf.domain.access import Scope
from langlauf.ui.rendering import FormPage, Rendering
from langlauf.ui.webhooks.page import WebhookPages


def webhook_routes(context: Context, rendering: Rendering) -> list[Route]:
    """The page, and where its forms are sent to."""
    pages = WebhookPages(context, rendering)
    forms: dict[str, FormPage] = {
        "/webhooks/add": pages.add,
        "/webhooks/{endpoint_id}/rotate": pages.rotate,
        "/webhooks/{endpoint_id}/test": pages.test,
        "/webhooks/{endpoint_id}/switch": pages.switch,
        "/webhooks/{endpoint_id}/remove": pages.remove,
        "/webhooks/{endpoint_id}/replay": pages.replay_failed,
        "/deliveries/{notification_id}/replay": pages.replay,
    }
    return [
        rendering.tenant_page("/webhooks", pages.show, missing="missing.page"),
        *(
            rendering.tenant_form(path, act, scope=Scope.ADMIN, missing="missing.endpoint")
            for path, act in forms.items()
        ),
        *(rendering.tenant_page(path, pages.go_back, missing="missing.endpoint") for path in forms),
    ]
