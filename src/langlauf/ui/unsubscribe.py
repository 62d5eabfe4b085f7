"""`/unsubscribe/{token}`: the receiver of a mail asks for no more of them. The link is what entitles to it, not a key.

Opening the page changes nothing, because programs follow links of mails; its form, or the one-click request of a mail
program (RFC 8058), does. That request has no page of ours behind it: it is answered without a redirect.
"""

from starlette.responses import Response

from langlauf.api.context import Context
from langlauf.api.requests import SMALL_FORM, read_body
from langlauf.domain.mail_address import shown_mail_address
from langlauf.problems import not_found
from langlauf.service.mail_receivers import Receiver
from langlauf.ui.rendering import Rendering
from langlauf.ui.visit import Visit


class UnsubscribePage:
    """`/unsubscribe/{token}`."""

    def __init__(self, context: Context, rendering: Rendering) -> None:
        self._context = context
        self._rendering = rendering
        self._receivers = context.services.mail_receivers

    async def show(self, visit: Visit) -> Response:
        """The question."""
        return self._page(visit, await self._receiver(visit), done=False)

    async def unsubscribe(self, visit: Visit) -> Response:
        """Does it; repeating it changes nothing. What the request says beside its address does not matter."""
        receiver = await self._receiver(visit)
        await read_body(visit.request, SMALL_FORM, self._context.settings.body_seconds)
        await self._receivers.unsubscribe(receiver)
        return self._page(visit, receiver, done=True)

    async def _receiver(self, visit: Visit) -> Receiver:
        receiver = await self._receivers.receiver(visit.request.path_params["token"])
        if receiver is None:
            raise not_found()
        return receiver

    def _page(self, visit: Visit, receiver: Receiver, *, done: bool) -> Response:
        return self._rendering.page(
            visit,
            "unsubscribe.html",
            done=done,
            token=visit.request.path_params["token"],
            from_org=receiver.org_id,
            address=shown_mail_address(receiver.address),
        )
