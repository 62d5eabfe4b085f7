"""`/inbox`: completed and failed jobs, newest first, with those that are unread."""

import re
from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from langlauf.api.context import ApiContext
from langlauf.auth.caller import Caller
from langlauf.domain.delivery import TEMPLATES
from langlauf.domain.instant import Instant
from langlauf.domain.job import JobRecord
from langlauf.domain.read_models import InboxRecord
from langlauf.ui.formatting import display_state
from langlauf.ui.page_request import PageRequest
from langlauf.ui.renderer import PageRenderer
from langlauf.ui.responses import see_other

INBOX_PAGE_SIZE = 50
_CURSOR = re.compile(r"([0-9]{1,18})_([0-9A-Za-z_.:-]{1,128})", re.ASCII)
_STATUS_OF_TEMPLATE = {template: status.value for status, template in TEMPLATES.items()}


class InboxEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A message as the page shows it."""

    notification_id: str
    created_at: Instant
    unread: bool
    #: the status that it reports; empty for another template
    status: str
    job: JobRecord
    display_state: str
    #: the page of the result if it is stored, else of the job
    way: tuple[str, str]


class InboxPages:
    """`/inbox`, and the form that marks messages as read."""

    def __init__(self, context: ApiContext, renderer: PageRenderer) -> None:
        self._context = context
        self._renderer = renderer

    async def show(self, request: PageRequest, caller: Caller) -> Response:
        """Show a page of messages."""
        at = request.query_params.get("at", "")
        match = _CURSOR.fullmatch(at)
        before = (int(match[1]), match[2]) if match else None
        page = await self._context.services.reads.of(caller).inbox(before=before, limit=INBOX_PAGE_SIZE)
        older = None if page.after is None else request.link("inbox", at=f"{page.after[0]}_{page.after[1]}")
        entries = [self._entry(one) for one in page.messages]
        return self._renderer.page(
            request,
            "lists/inbox.html",
            entries=entries,
            until=entries[0].created_at if entries else 0,
            older=older,
            first=match is None,
            at=at if match else "",
        )

    async def mark_read(self, request: PageRequest, caller: Caller, fields: Mapping[str, str]) -> Response:
        """Mark one message as read, or all up to the newest that the page showed."""
        inbox = self._context.services.inbox
        if fields.get("until", "").isdecimal():
            await inbox.read_all(caller, int(fields["until"][:18]))
        elif "message" in fields:
            await inbox.read_one(caller, fields["message"])
        at = fields.get("at", "")
        way = request.link("inbox", **({"at": at} if _CURSOR.fullmatch(at) else {}))
        return see_other(way)

    def _entry(self, message: InboxRecord) -> InboxEntry:
        notification, job = message.notification, message.view.job
        has_result = job.result_id is not None and job.result_expired_at is None and job.terminal
        return InboxEntry(
            notification_id=notification.notification_id,
            created_at=notification.created_at,
            unread=message.unread,
            status=_STATUS_OF_TEMPLATE.get(notification.template_key, ""),
            job=job,
            display_state=display_state(job.status, self._context.services.reads.phase(message.view)),
            way=("results", job.result_id) if has_result and job.result_id else ("jobs", job.job_id),
        )
