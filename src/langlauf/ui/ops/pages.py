"""`/ops` and what it leads to: is it healthy, what waits longest, who fails, which worker is silent.

An operator sees all orgs, or the one that the address names. Anybody else sees the figures of their own org, and of
workers how many there are.
"""

from typing import Any

from starlette.responses import Response

from langlauf.api.context import Context
from langlauf.auth.caller import Caller, usable_name
from langlauf.domain.access import Scope
from langlauf.domain.figures import Figures
from langlauf.domain.health import CANCEL_SECONDS, FAILED_SHARE, FEW_ENDED, LONG_WAIT_SECONDS
from langlauf.domain.instant import Instant, seconds_between
from langlauf.domain.periods import Span
from langlauf.domain.workers import MISSED_REPORTS, WorkerSeen
from langlauf.problems import bad_request, forbidden
from langlauf.service.overview import Glance
from langlauf.ui.ops.tiles import tiles
from langlauf.ui.ops.words import NONE, amount, doing, lasting, share, told
from langlauf.ui.rendering import Rendering
from langlauf.ui.visit import Visit

USUAL = Span.HOUR
#: Seconds after which an open page looks again: workers fall silent without an event, and other orgs have their own.
_LOOK_AGAIN = 5
#: Rows of a table on the first page; the others are on a page of their own.
_FIRST = 10
_MOST_ERRORS = 10
#: Orgs on their own page.
_MOST_ORGS = 500


class OpsPages:
    """The pages, over one glance each."""

    def __init__(self, context: Context, rendering: Rendering) -> None:
        self._context = context
        self._rendering = rendering

    async def show(self, visit: Visit, caller: Caller) -> Response:
        """`/ops`."""
        seen = await self._glance(visit, caller)
        figures = seen.figures
        return self._page(
            visit,
            seen,
            "ops/index.html",
            tiles=tiles(figures, visit.language),
            findings=[told(one, visit.language) for one in seen.health.findings],
            **self._analyses(figures),
            failures=figures.failures[:_MOST_ERRORS],
            failures_more=len(figures.failures) > _MOST_ERRORS,
            workers=self._first_workers(seen),
            orgs=figures.orgs[:_FIRST],
            first=_FIRST,
            rules=_rules(),
        )

    async def workers(self, visit: Visit, _: Caller) -> Response:
        """`/ops/workers`, for operators."""
        _refuse_others(visit)
        overviews = self._context.services.overviews
        workers, at = await overviews.workers(), overviews.now()
        working = sum(worker.works(at) for worker in workers)
        return self._rendering.page(
            visit, "ops/workers.html", workers=workers, working=working, at=at, again=_LOOK_AGAIN, **_words(visit, at)
        )

    async def orgs(self, visit: Visit, caller: Caller) -> Response:
        """`/ops/orgs`, for operators."""
        _refuse_others(visit)
        seen = await self._context.services.overviews.glance(caller, _span_in(visit))
        return self._page(visit, seen, "ops/orgs.html", orgs=seen.figures.orgs[:_MOST_ORGS], most=_MOST_ORGS)

    async def _glance(self, visit: Visit, caller: Caller) -> Glance:
        return await self._context.services.overviews.glance(caller, _span_in(visit), _org_in(visit))

    def _page(self, visit: Visit, seen: Glance, template: str, **values: Any) -> Response:
        shared: dict[str, Any] = {
            "glance": seen,
            "figures": seen.figures,
            "spans": list(Span),
            "operates": visit.may(Scope.OPERATE),
            "limit": self._context.settings.max_running,
            "again": _LOOK_AGAIN,
            "none_sign": NONE,
            "lasting": lasting,
            "share": share,
            **_words(visit, seen.figures.at),
        }
        return self._rendering.page(visit, template, **shared, **values)

    def _analyses(self, figures: Figures) -> dict[str, Any]:
        """Those that have jobs, with the most of them that run at once; and the names of the others."""
        registry = self._context.services.registry
        limits = {one.name: one.max_running for one in registry}
        busy = {one.name for one in figures.analyses}
        return {
            "analyses": [(one, limits.get(one.name)) for one in figures.analyses],
            "idle": [name for name in registry.names if name not in busy],
        }

    def _first_workers(self, seen: Glance) -> list[WorkerSeen]:
        """Those that something is wrong with come first."""
        at = seen.figures.at
        return sorted(seen.workers, key=lambda one: (not one.silent(at), one.works(at)))[:_FIRST]


def _words(visit: Visit, at: Instant) -> dict[str, Any]:
    """How templates say amounts, ages, and what workers do."""
    return {
        "amount": amount,
        "age": lambda instant: NONE if instant is None else lasting(seconds_between(instant, at)),
        "doing": lambda worker: doing(worker, at, visit.language),
    }


def _rules() -> dict[str, str]:
    """The thresholds, as the page names them."""
    return {
        "reports": str(MISSED_REPORTS),
        "wait": lasting(LONG_WAIT_SECONDS),
        "share": f"{FAILED_SHARE:.0%}".replace("%", " %"),
        "few": str(FEW_ENDED),
        "cancel": lasting(CANCEL_SECONDS),
    }


def _span_in(visit: Visit) -> Span:
    """The range that the address asks for; an unknown one is the usual one."""
    wished = visit.request.query_params.get("range", USUAL)
    return Span(wished) if wished in set(Span) else USUAL


def _org_in(visit: Visit) -> str | None:
    """The org that the address names; none means all."""
    wished = visit.request.query_params.get("org", "").strip()
    if wished and not usable_name(wished):
        raise bad_request("There can be no org with this name.", "org")
    return wished or None


def _refuse_others(visit: Visit) -> None:
    if not visit.may(Scope.OPERATE):
        raise forbidden("This page is for operators.")
