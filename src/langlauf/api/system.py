"""Handlers of health, readiness and metrics."""

from starlette.requests import Request
from starlette.responses import Response

from langlauf.api.context import ApiContext
from langlauf.api.parameters import choice_parameter
from langlauf.api.response_schemas import HealthResponse
from langlauf.api.responses import json_response
from langlauf.auth.caller import Caller
from langlauf.domain.errors import StoreError
from langlauf.domain.health import STORE_AWAY, WORKER_STOPPED
from langlauf.problems import VARY, Problem


class SystemHandlers:
    """Handlers for operators and their monitoring."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context

    async def health(self, request: Request) -> Response:
        """Return that the process is up, without checking anything else."""
        return json_response(HealthResponse(request_id=request.scope["langlauf.request_id"], status="up"))

    async def ready(self, request: Request) -> Response:
        """Check that the store answers and takes writes, and that the workers of this process, if any, are alive.

        With `for=reads`, only check that the store answers.
        """
        reads_alone = choice_parameter(request, "for", ("reads",)) is not None
        retry = {"Retry-After": "5"}
        try:
            await self._context.services.reads.check()
        except StoreError as error:
            raise Problem(503, "unavailable", STORE_AWAY.message, headers=retry) from error
        unwell = None if reads_alone else await self._context.services.reads.unwell()
        if unwell is not None:
            raise Problem(503, "unavailable", unwell, headers=retry)
        if not reads_alone and not self._context.alive():
            raise Problem(503, "unavailable", WORKER_STOPPED.message, headers=retry)
        return json_response(HealthResponse(request_id=request.scope["langlauf.request_id"], status="ready"))

    async def metrics(self, request: Request, _: Caller) -> Response:
        """Return all metrics in the Prometheus format, or in OpenMetrics where the client accepts it."""
        text, kind = await self._context.services.metrics.text(request.headers.get("accept", ""))
        return Response(text, headers={"Cache-Control": "no-store", "Vary": VARY, "Content-Type": kind})
