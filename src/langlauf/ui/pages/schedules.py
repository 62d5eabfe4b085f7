"""`/schedules`: what runs again and again, its last and next runs, and forms to pause, run and remove it.

Every form works without a script; times are shown in the reader's zone with one.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from langlauf.api.context import ApiContext
from langlauf.api.schedules import SHOWN_RUNS, shown_runs
from langlauf.auth.caller import Caller
from langlauf.domain.instant import Instant
from langlauf.domain.job import Accepted, Replayed
from langlauf.domain.read_models import JobView
from langlauf.domain.schedule import Schedule
from langlauf.problems import not_found
from langlauf.ui.formatting import display_state
from langlauf.ui.page_request import PageRequest
from langlauf.ui.renderer import PageRenderer
from langlauf.ui.responses import see_other

#: Schedules shown; commands and the API list all.
MAX_SCHEDULES = 100


class ScheduledRun(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a schedule, as the page shows it."""

    view: JobView
    display_state: str


class ScheduleRow(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as the page shows it."""

    schedule: Schedule
    #: the next planned times, and the newest jobs
    next_runs: list[Instant]
    runs: list[ScheduledRun]
    #: the first word of what became of the last planned time
    outcome: str
    #: whether an analysis of that name is registered
    known: bool


class SchedulePages:
    """`/schedules`, and the forms on it."""

    def __init__(self, context: ApiContext, renderer: PageRenderer) -> None:
        self._services = context.services
        self._schedules = context.services.schedules
        self._renderer = renderer

    async def show(self, request: PageRequest, caller: Caller) -> Response:
        """Show the page."""
        found = await self._schedules.all_of(caller.org_id)
        rows = [await self._row(caller, one) for one in found[:MAX_SCHEDULES]]
        # A form posts to an address below this page; a change of language or colours returns to the page itself.
        more = len(found) > MAX_SCHEDULES
        values: dict[str, Any] = {"rows": rows, "more": more, "most": MAX_SCHEDULES, "back": "/schedules"}
        return self._renderer.page(request, "schedules/index.html", **values)

    async def _row(self, caller: Caller, one: Schedule) -> ScheduleRow:
        views = await self._schedules.runs(caller.org_id, one.name, SHOWN_RUNS)
        runs = [
            ScheduledRun(view=view, display_state=display_state(view.job.status, self._services.reads.phase(view)))
            for view in views
        ]
        return ScheduleRow(
            schedule=one,
            next_runs=shown_runs(one),
            runs=runs,
            outcome=(one.last_outcome or "").partition(":")[0],
            known=self._services.registry.get(one.analysis) is not None,
        )

    async def redirect_to_page(self, request: PageRequest, _: Caller) -> Response:
        """Redirect to the page; a reload or a change of language sends GET to the address of a form."""
        return see_other(request.link("schedules"))

    async def pause(self, request: PageRequest, caller: Caller, fields: Mapping[str, str]) -> Response:
        """Pause or resume a schedule."""
        paused = fields.get("paused") == "yes"
        if await self._schedules.change(caller.org_id, _name(request), {"paused": paused}) is None:
            raise not_found()
        return see_other(request.link("schedules"))

    async def run(self, request: PageRequest, caller: Caller, _: Mapping[str, str]) -> Response:
        """Submit a run now, and go to its page."""
        made = await self._schedules.run_now(caller, _name(request), None)
        if made is None:
            raise not_found()
        if isinstance(made, Accepted | Replayed):
            return see_other(request.link("jobs", made.job.job_id))
        return see_other(request.link("schedules"))

    async def remove(self, request: PageRequest, caller: Caller, _: Mapping[str, str]) -> Response:
        """Remove a schedule."""
        if not await self._schedules.remove(caller.org_id, _name(request)):
            raise not_found()
        return see_other(request.link("schedules"))


def _name(request: PageRequest) -> str:
    return str(request.path_params["schedule"])
