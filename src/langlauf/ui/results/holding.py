"""Keeping a result from its page, and letting it go again. Both forms work without a script."""

from collections.abc import Mapping

from starlette.responses import Response

from langlauf.api.context import Context
from langlauf.api.results import expired
from langlauf.auth.caller import Caller
from langlauf.domain.holding import ResultGone
from langlauf.domain.views import JobView
from langlauf.problems import not_found
from langlauf.ui.going import see_other
from langlauf.ui.visit import Visit

_LONGEST_REASON = 500


class HoldForms:
    """`/results/{result_id}/hold` and `/results/{result_id}/release`."""

    def __init__(self, context: Context) -> None:
        self._holds = context.services.holds

    async def hold(self, visit: Visit, caller: Caller, fields: Mapping[str, str]) -> Response:
        """Keeps it, and shows it again. What retention took meanwhile is told."""
        reason = fields.get("reason", "").strip()[:_LONGEST_REASON]
        done = await self._holds.hold(caller, visit.request.path_params["result_id"], reason or None)
        if isinstance(done, ResultGone):
            raise expired(done)
        return self._shown(visit, done)

    async def release(self, visit: Visit, caller: Caller, _: Mapping[str, str]) -> Response:
        """Lets it go, and shows it again."""
        return self._shown(visit, await self._holds.release(caller, visit.request.path_params["result_id"]))

    def _shown(self, visit: Visit, done: JobView | None) -> Response:
        if done is None:
            raise not_found()
        return see_other(visit.link("results", visit.request.path_params["result_id"]))
