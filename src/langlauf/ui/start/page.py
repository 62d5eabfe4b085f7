"""`/`: choose an analysis, fill in its form, see what the org asked for lately."""

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from langlauf.analysis.schema import InvalidInput
from langlauf.api.context import Context
from langlauf.auth.caller import Caller
from langlauf.domain.errors import StoreUnavailable
from langlauf.domain.job import JobRecord
from langlauf.domain.views import JobFilter
from langlauf.problems import not_found
from langlauf.service.control import NotTerminal
from langlauf.ui.formatting import face
from langlauf.ui.forms.flaws import Flaw
from langlauf.ui.forms.writing import text_of
from langlauf.ui.going import see_other
from langlauf.ui.rendering import Rendering
from langlauf.ui.showing.subject import subjects_of
from langlauf.ui.start.offers import Offer, curl, offers_of
from langlauf.ui.start.ordering import (
    NOTIFY,
    OPTIONS,
    PRIORITY,
    Ordered,
    body_of,
    came_of,
    form_key,
    idempotency_key,
    new_form_key,
    notify_entries,
    place,
    read_input,
)
from langlauf.ui.start.prefill import Earlier, earlier_of, prefilled
from langlauf.ui.visit import Visit

RECENT = 10


class Line(msgspec.Struct, frozen=True):
    """A row of the list of jobs."""

    job: JobRecord
    #: what it is about, where its input tells
    subject: str
    face: str


class Sheet(msgspec.Struct, frozen=True, kw_only=True):
    """A form as it stands on the page: what is in it, and what is wrong with it."""

    key: str
    #: by field, and so are the flaws
    texts: Mapping[str, str]
    flaws: Mapping[str, Flaw] = {}
    #: fields that an earlier job had filled and that are not shown
    hidden: list[str] = []


class StartPage:
    """`/`."""

    def __init__(self, context: Context, rendering: Rendering) -> None:
        self._context = context
        self._rendering = rendering
        self._offers = offers_of(context.services.registry)

    async def show(self, visit: Visit, caller: Caller) -> Response:
        """The form of one analysis, empty or filled from an earlier job."""
        query = visit.request.query_params
        if "from" in query:
            return await self._again(visit, caller, query["from"])
        offer = self._offer(query["analysis"]) if "analysis" in query else self._default()
        return await self._page(visit, caller, offer, _blank(offer))

    async def _again(self, visit: Visit, caller: Caller, job_id: str) -> Response:
        """The form of an earlier job; one of another org is not there."""
        earlier = await earlier_of(self._context.services.reads, caller, job_id)
        if earlier is None:
            raise not_found()
        offer = next((one for one in self._offers if one.name == earlier.job.analysis), None)
        if offer is None:
            return await self._page(visit, caller, self._default(), _blank(self._default()), gone=earlier.job.analysis)
        texts, hidden = prefilled(offer.entries, earlier)
        texts[PRIORITY.field] = text_of(PRIORITY.kind, earlier.job.priority_class)
        sheet = Sheet(key=new_form_key(), texts=texts, hidden=hidden)
        return await self._page(visit, caller, offer, sheet, earlier=earlier)

    async def submit(self, visit: Visit, caller: Caller, fields: Mapping[str, str]) -> Response:
        """Starts a job, and leads to it; or the form again, with what is wrong beside its entries."""
        key = form_key(fields)
        if "resume" in fields:
            return await self._resume(visit, caller, fields["resume"], key)
        offer = self._offer(fields.get("analysis", ""))
        filled = read_input(offer, fields, self._context.settings.max_depth)
        ordered = Ordered(flaws=filled.flaws, status=400)
        if not filled.flaws:
            body = body_of(offer, filled.values, fields)
            ordered = await place(self._context.services.submissions, caller, body, key, visit.language.code)
        if ordered.job is not None:
            return _to(visit, ordered.job)
        options = {option.field: fields.get(option.field, "") for option in (*OPTIONS, *NOTIFY)}
        sheet = Sheet(key=key, texts={**filled.texts, **options}, flaws=ordered.flaws)
        return await self._page(visit, caller, offer, sheet, ordered=ordered)

    async def _resume(self, visit: Visit, caller: Caller, job_id: str, key: str) -> Response:
        """A new job that goes on where an earlier one stopped."""
        wish = idempotency_key(key, {"resume": job_id})
        try:
            made = await self._context.services.control.retry(caller, job_id, resume=True, idempotency_key=wish)
        except InvalidInput:  # the analysis has changed since, or is not known here
            blank = _blank(self._default())
            refused = Ordered(refused="validation_error", status=422)
            return await self._page(visit, caller, self._default(), blank, ordered=refused)
        if made is None:
            raise not_found()
        ordered = Ordered(refused="not_terminal", status=409) if isinstance(made, NotTerminal) else came_of(made)
        if ordered.job is not None:
            return _to(visit, ordered.job)
        offer = self._default()
        return await self._page(visit, caller, offer, _blank(offer), ordered=ordered)

    def _offer(self, name: str) -> Offer:
        found = next((one for one in self._offers if one.name == name), None)
        if found is None:
            raise not_found()
        return found

    def _default(self) -> Offer | None:
        return self._offers[0] if self._offers else None

    async def _page(
        self,
        visit: Visit,
        caller: Caller,
        offer: Offer | None,
        sheet: Sheet,
        *,
        ordered: Ordered | None = None,
        earlier: Earlier | None = None,
        gone: str = "",
    ) -> Response:
        ordered = ordered or Ordered()
        values: dict[str, Any] = {
            "offers": self._offers,
            "offer": offer,
            "sheet": sheet,
            "ordered": ordered,
            "earlier": earlier,
            "gone": gone,
            "option_entries": OPTIONS,
            "more_open": ordered.duplicate is not None or any(one.field in sheet.flaws for one in OPTIONS),
            "notify_entries": notify_entries(self._context.settings),
            "notify_open": any(one.field in sheet.flaws or sheet.texts.get(one.field) for one in NOTIFY),
            "curl": None if offer is None else curl(self._context, visit, caller, offer),
            "largest": self._context.settings.max_body,
            "recent": RECENT,
            **await self._recent(caller),
        }
        return self._rendering.page(visit, "start/start.html", ordered.status, headers=ordered.headers, **values)

    async def _recent(self, caller: Caller) -> dict[str, Any]:
        """The newest jobs; None where the store does not tell, which is not the same as none."""
        reads = self._context.services.reads
        try:
            page = await reads.of(caller).jobs(JobFilter(limit=RECENT))
            subjects = await subjects_of(self._context, caller, [view.job for view in page.views])
        except StoreUnavailable:
            return {"lines": None, "more": False}
        lines = [
            Line(view.job, subjects.get(view.job.job_id, ""), face(view.job.status, reads.phase(view)))
            for view in page.views
        ]
        return {"lines": lines, "more": page.after is not None}


def _blank(offer: Offer | None) -> Sheet:
    """A form with the defaults in it."""
    entries = [*OPTIONS] if offer is None else [*offer.entries, *OPTIONS]
    return Sheet(key=new_form_key(), texts={entry.field: entry.initial for entry in entries})


def _to(visit: Visit, job: JobRecord) -> Response:
    """To the page of a job."""
    return see_other(visit.link("jobs", job.job_id))
