"""Handlers of an org's inbox: messages about ended jobs, newest first, and which are read."""

from datetime import datetime

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from langlauf.analysis.schema import read_input
from langlauf.api.context import ApiContext
from langlauf.api.parameters import (
    choice_parameter,
    int_parameter,
    list_mark,
    read_position,
    refuse_unknown_parameters,
    text_parameter,
    write_position,
)
from langlauf.api.request_schemas import ReadBody
from langlauf.api.response_schemas import InboxReadResponse, InboxResponse
from langlauf.api.responses import json_response
from langlauf.api.wire import inbox_out
from langlauf.auth.caller import Caller
from langlauf.domain.instant import Instant, from_text
from langlauf.problems import bad_request

_LONGEST_PAGE = 200
#: Unread messages are counted up to here.
MOST_COUNTED = 1_000


class InboxHandlers:
    """Handlers under `/analyze/inbox`."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._inbox = context.services.inbox

    async def list(self, request: Request, caller: Caller) -> Response:
        """Return the org's messages for people, newest first. Reading does not mark them."""
        refuse_unknown_parameters(request, "limit", "cursor", "unread")
        limit = int_parameter(request, "limit", default=50, lowest=1, highest=_LONGEST_PAGE)
        unread = choice_parameter(request, "unread", ("true", "false")) == "true"
        cursor = text_parameter(request, "cursor")
        mark = list_mark(caller.org_id, "inbox", "unread" if unread else "")
        before = read_position(cursor, mark) if cursor else None
        page = await self._inbox.page(caller, before=before, limit=limit, unread=unread)
        next_cursor = None if page.after is None else write_position(page.after, mark)
        headers = {}
        if next_cursor:
            query = request.url.include_query_params(cursor=next_cursor).query
            headers["Link"] = f'<{self._context.links(request).base}/inbox?{query}>; rel="next"'
        body = InboxResponse(
            request_id=caller.request_id,
            notifications=[inbox_out(message) for message in page.messages],
            unread=await self._unread(caller),
            next_cursor=next_cursor,
        )
        return json_response(body, headers=headers)

    async def read(self, request: Request, caller: Caller) -> Response:
        """Mark messages as read for the whole org. Repeating it, or an unknown id, changes nothing."""
        refuse_unknown_parameters(request)
        sent: ReadBody = read_input(ReadBody, await self._context.body(request, optional=True))
        ids = [] if sent.notification_ids is msgspec.UNSET else sent.notification_ids
        one = [] if sent.notification_id is msgspec.UNSET else [sent.notification_id]
        until = None if sent.until is msgspec.UNSET else _instant(sent.until)
        if not ids and not one and until is None:
            raise bad_request("Say which messages to mark as read: notification_id, notification_ids or until.")
        changed = await self._inbox.read_some(caller, [*one, *ids], until)
        return json_response(
            InboxReadResponse(request_id=caller.request_id, changed=changed, unread=await self._unread(caller))
        )

    async def _unread(self, caller: Caller) -> int:
        return await self._context.services.reads.of(caller).unread(most=MOST_COUNTED)


def _instant(moment: datetime) -> Instant:
    """Return the instant; one before the epoch marks nothing."""
    return max(0, from_text(moment.isoformat()))
