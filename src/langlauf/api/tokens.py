"""Tokens for one job, for pages that show it to somebody who has no key."""

from starlette.requests import Request
from starlette.responses import Response

from langlauf.api.context import Context, convert
from langlauf.api.requests import refuse_unknown, seconds_of
from langlauf.api.responses import answer
from langlauf.api.schemas import TokenAnswer, TokenBody
from langlauf.auth.caller import Caller
from langlauf.auth.credentials import forbidden
from langlauf.auth.tokens import LONGEST_SECONDS, USUAL_SECONDS
from langlauf.domain.access import Scope
from langlauf.domain.instant import to_datetime
from langlauf.problems import not_found


class Tokens:
    """`/analyze/jobs/{job_id}/token`."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def create(self, request: Request, caller: Caller) -> Response:
        """A token that reads this job, for a while, and may stop it where that is asked for."""
        refuse_unknown(request)
        wish: TokenBody = convert(TokenBody, await self._context.body(request, optional=True))
        seconds = seconds_of(wish.expires_in, "expires_in", longest=LONGEST_SECONDS) or USUAL_SECONDS
        if wish.cancel and Scope.CANCEL not in caller.scopes:
            raise forbidden("This key may not cancel, and so makes no token that may.")
        view = await self._context.services.reads.of(caller).job(request.path_params["job_id"])
        if view is None:
            raise not_found()
        made = await self._context.services.tokens.make(caller, view.job.job_id, seconds, cancel=wish.cancel)
        body = TokenAnswer(
            request_id=caller.request_id,
            token=made.text,
            token_type="Bearer",  # noqa: S106 - the kind of it
            expires_at=to_datetime(made.expires_at),
            job_id=view.job.job_id,
        )
        return answer(body)
