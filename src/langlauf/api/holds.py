"""Holding results: what is held is not removed by age."""

from starlette.requests import Request
from starlette.responses import Response

from langlauf.api.context import Context, convert
from langlauf.api.paging import read_cursor, write_cursor
from langlauf.api.requests import free_text, refuse_unknown, whole_number
from langlauf.api.responses import answer
from langlauf.api.schemas import HoldBody, JobsAnswer
from langlauf.api.wire import job_out
from langlauf.auth.caller import Caller
from langlauf.domain.holding import ResultGone
from langlauf.domain.instant import to_datetime, to_text
from langlauf.domain.views import JobFilter
from langlauf.problems import Problem, not_found

#: What makes the cursors of this list its own: no other list can be asked for this text.
_LIST = JobFilter(text="\0held")


def expired(gone: ResultGone) -> Problem:
    """What retention took cannot be brought back."""
    message = f"Retention removed this result at {to_text(gone.removed_at)}; it cannot be held any more."
    return Problem(410, "expired", message, job_id=gone.job_id, expired_at=to_datetime(gone.removed_at))


class Holding:
    """`/analyze/results/{result_id}/hold`, and `/analyze/held`."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._holds = context.services.holds

    async def hold(self, request: Request, caller: Caller) -> Response:
        """Keeps a result, with its job. Who held it first stays."""
        refuse_unknown(request)
        wish: HoldBody = convert(HoldBody, await self._context.body(request, optional=True))
        done = await self._holds.hold(caller, request.path_params["result_id"], wish.reason)
        if done is None:
            raise not_found()
        if isinstance(done, ResultGone):
            raise expired(done)
        return await self._context.job_answer(request, caller, done, 200)

    async def release(self, request: Request, caller: Caller) -> Response:
        """Lets it grow old again."""
        refuse_unknown(request)
        done = await self._holds.release(caller, request.path_params["result_id"])
        if done is None:
            raise not_found()
        return await self._context.job_answer(request, caller, done, 200)

    async def list(self, request: Request, caller: Caller) -> Response:
        """The jobs whose results the org holds."""
        refuse_unknown(request, "limit", "cursor")
        limit = whole_number(request, "limit", default=50, lowest=1, highest=200)
        cursor = free_text(request, "cursor")
        before = read_cursor(cursor, caller.org_id, _LIST) if cursor else None
        views = await self._holds.held(caller, before, limit)
        links, reads = self._context.links(request), self._context.services.reads
        jobs = [job_out(view.job, await reads.moment(view), links) for view in views]
        last = views[-1].job if len(views) == limit else None
        more = None if last is None else write_cursor((last.held_at or 0, last.job_id), caller.org_id, _LIST)
        headers = {"Link": f'<{links.base}/held?limit={limit}&cursor={more}>; rel="next"'} if more else {}
        return answer(JobsAnswer(request_id=caller.request_id, jobs=jobs, next_cursor=more), headers=headers)
