"""What every endpoint needs: the use cases, the settings, and who is calling."""

from collections.abc import Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from langlauf.analysis.schema import invalid
from langlauf.domain.access import Scope
from langlauf.domain.views import JobView
from langlauf.http.mounting import root_address
from langlauf.http.presenting import Links, job_out
from langlauf.http.problems import Problem
from langlauf.http.requests import read_object
from langlauf.http.responses import answer
from langlauf.http.schemas import JobAnswer
from langlauf.http.tenant import caller_of
from langlauf.service.services import Services
from langlauf.service.tenant import Caller
from langlauf.settings import Settings


class Context(msgspec.Struct, frozen=True):
    """Shared by the endpoints of one application."""

    services: Services
    settings: Settings
    prefix: str
    #: whether the workers and the upkeep of this process, if it has any, are alive
    alive: Callable[[], bool]

    async def caller(self, request: Request, scope: Scope) -> Caller:
        """Who calls, and that they may: raises the problem where there is no such caller, or where they may not."""
        caller = caller_of(request, self.settings.auth_token)
        if scope not in caller.scopes:
            raise Problem(403, "forbidden", f"This key does not have the scope {scope}; ask for one that has.")
        return caller

    def links(self, request: Request) -> Links:
        """Absolute addresses where the public one is known, else paths that also work under a mount point."""
        return Links(root_address(request.scope, self.settings.public_url) + self.prefix)

    async def body(self, request: Request, *, optional: bool = False) -> dict[str, Any]:
        """The request's JSON object within the limits."""
        limits = self.settings
        return await read_object(request, largest=limits.max_body, deepest=limits.max_depth, optional=optional)

    async def job_answer(self, request: Request, caller: Caller, view: JobView, status: int) -> Response:
        """One job as an answer, with when to ask again and where it lives."""
        moment = await self.services.reads.moment(view)
        links = self.links(request)
        body = JobAnswer(request_id=caller.request_id, job=job_out(view.job, moment, links))
        headers = {"Retry-After": str(moment.poll_after), "Content-Location": links.job(view.job.job_id)}
        return answer(body, status, headers=headers)


def convert(kind: type[Any], values: Any, prefix: str = "") -> Any:
    """A part of a request as one of our structs; the error names the field."""
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise invalid(str(error), kind.__struct_fields__, prefix) from None
