"""Is it up, is it ready, what does it count."""

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from langlauf.domain.errors import StoreError
from langlauf.http.context import Context
from langlauf.http.problems import VARY, Problem
from langlauf.http.responses import answer
from langlauf.http.schemas import HealthAnswer
from langlauf.service.tenant import Caller
from langlauf.telemetry import COUNTS, Fact


class System:
    """What operators and their machines ask."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def health(self, request: Request) -> Response:
        """The process is up; nothing else is looked at."""
        return answer(HealthAnswer(request_id=request.scope["langlauf.request_id"], status="up"))

    async def ready(self, request: Request) -> Response:
        """The store answers with this program's schema, and the workers of this process, if any, are alive."""
        retry = {"Retry-After": "5"}
        try:
            await self._context.services.reads.check()
        except StoreError as error:
            raise Problem(503, "unavailable", "The store does not answer.", headers=retry) from error
        if not self._context.alive():
            raise Problem(503, "unavailable", "A worker of this process has stopped.", headers=retry)
        return answer(HealthAnswer(request_id=request.scope["langlauf.request_id"], status="ready"))

    async def metrics(self, _: Request, __: Caller) -> Response:
        """What is counted, in the text format of Prometheus."""
        depth = await self._context.services.reads.depth()
        lines = [
            "# HELP langlauf_jobs_waiting Jobs that wait for their first attempt.",
            "# TYPE langlauf_jobs_waiting gauge",
            f"langlauf_jobs_waiting {depth.waiting}",
            "# HELP langlauf_jobs_running Jobs that a live worker holds.",
            "# TYPE langlauf_jobs_running gauge",
            f"langlauf_jobs_running {depth.running}",
            "# HELP langlauf_facts_total What this process told, by name.",
            "# TYPE langlauf_facts_total counter",
        ]
        lines += [f'langlauf_facts_total{{fact="{fact}"}} {COUNTS[fact]}' for fact in Fact]
        headers = {"Cache-Control": "no-store", "Vary": VARY}
        return PlainTextResponse("\n".join(lines) + "\n", headers=headers, media_type="text/plain; version=0.0.4")
