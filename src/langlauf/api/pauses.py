"""Handlers of pauses: for an org's admins, and for the operator over all orgs."""

from starlette.requests import Request
from starlette.responses import Response

from langlauf.analysis.schema import read_input
from langlauf.api.context import ApiContext
from langlauf.api.parameters import refuse_unknown_parameters
from langlauf.api.request_schemas import PauseBody, ResumeBody
from langlauf.api.response_schemas import PauseResponse, ResumeResponse
from langlauf.api.responses import json_response
from langlauf.api.wire import pause_out
from langlauf.auth.caller import Caller
from langlauf.domain.instant import from_text


class PauseHandlers:
    """Handlers under `/analyze/analyses`."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._pauses = context.services.pauses

    async def pause(self, request: Request, caller: Caller) -> Response:
        """Let no job of the analysis start; running ones go on. Repeating it changes the reason and the end."""
        refuse_unknown_parameters(request)
        sent: PauseBody = read_input(PauseBody, await self._context.body(request))
        until = None if sent.until is None else from_text(sent.until.isoformat())
        name = request.path_params["analysis_name"]
        held = await self._pauses.pause(caller, name, sent.because, until, all_orgs=sent.all_orgs)
        return json_response(PauseResponse(request_id=caller.request_id, pause=pause_out(held)))

    async def resume(self, request: Request, caller: Caller) -> Response:
        """Let its jobs start again. Repeating it changes nothing."""
        refuse_unknown_parameters(request)
        sent: ResumeBody = read_input(ResumeBody, await self._context.body(request, optional=True))
        name = request.path_params["analysis_name"]
        resumed = await self._pauses.resume(caller, name, all_orgs=sent.all_orgs)
        return json_response(ResumeResponse(request_id=caller.request_id, resumed=resumed))
