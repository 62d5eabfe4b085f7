"""`/ops`: health, queues, failures, workers and orgs.

An operator sees all orgs, or the one in the address. Other callers see the figures of their own org, and only the
number of workers.
"""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup
from msgspec import structs
from starlette.responses import Response

from langlauf.api.context import ApiContext
from langlauf.auth.caller import Caller, is_valid_name
from langlauf.domain.access import Scope
from langlauf.domain.health import (
    FAILURES,
    LONG_WAIT,
    MIN_ENDED,
    MISSED_REPORTS,
    SLOW_CANCEL,
    Health,
    HealthFinding,
    WorkerStatus,
)
from langlauf.domain.instant import Instant, from_text, seconds_between
from langlauf.domain.schedule import ALL_ORGS, Pause
from langlauf.domain.statistics import OpsStatistics, TimeRange
from langlauf.problems import bad_request, forbidden
from langlauf.service.overview import OpsFigures
from langlauf.ui.formats import UNKNOWN, format_number, format_seconds, format_share
from langlauf.ui.language import Language
from langlauf.ui.page_request import PageRequest
from langlauf.ui.pages.ops_tiles import ops_tiles
from langlauf.ui.renderer import PageRenderer
from langlauf.ui.responses import see_other

DEFAULT_SPAN = TimeRange.HOUR
#: Seconds between reloads of an open page: a worker falls silent without an event.
_RELOAD_SECONDS = 5
#: Rows of a table on `/ops`; the rest is on a page of its own.
_FIRST_ROWS = 10
_MAX_ERROR_CODES = 10
#: Rows on `/ops/orgs`.
_MAX_ORGS = 500


class OpsPages:
    """`/ops`, `/ops/workers` and `/ops/orgs`."""

    def __init__(self, context: ApiContext, renderer: PageRenderer) -> None:
        self._context = context
        self._renderer = renderer

    async def show(self, request: PageRequest, caller: Caller) -> Response:
        """`/ops`."""
        seen = await self._glance(request, caller)
        figures = seen.figures
        return self._page(
            request,
            seen,
            "ops/index.html",
            tiles=ops_tiles(figures, request.language),
            headline=health_headline(seen.health, request.language),
            findings=[finding_text(one, request.language) for one in seen.health.findings],
            **self._analyses(figures),
            failures=figures.failures[:_MAX_ERROR_CODES],
            failures_more=len(figures.failures) > _MAX_ERROR_CODES,
            workers=self._first_workers(seen),
            orgs=figures.orgs[:_FIRST_ROWS],
            first=_FIRST_ROWS,
            pauses=await self._pauses(caller, seen),
            names=self._context.services.registry.names,
            rules=_health_rules(request.language),
        )

    async def pause(self, request: PageRequest, caller: Caller, fields: Mapping[str, str]) -> Response:
        """Pause an analysis, for all orgs or for one, and show `/ops` again."""
        caller, all_orgs = _for_org(caller, fields)
        await self._context.services.pauses.pause(
            caller, fields.get("analysis", ""), fields.get("because", ""), _until(fields), all_orgs=all_orgs
        )
        return _shown(request, fields)

    async def resume(self, request: PageRequest, caller: Caller, fields: Mapping[str, str]) -> Response:
        """End a pause, and show `/ops` again."""
        caller, all_orgs = _for_org(caller, fields)
        await self._context.services.pauses.resume(caller, fields.get("analysis", ""), all_orgs=all_orgs)
        return _shown(request, fields)

    async def redirect_to_page(self, request: PageRequest, _: Caller) -> Response:
        """Redirect a GET of the address of a form."""
        return see_other(request.link("ops"))

    async def _pauses(self, caller: Caller, seen: OpsFigures) -> list[Pause]:
        """Return the pauses of the org that is shown, and those of all orgs."""
        shown = await self._context.services.pauses.visible(caller)
        return [one for one in shown if seen.org_id is None or one.org_id in (ALL_ORGS, seen.org_id)]

    async def workers(self, request: PageRequest, _: Caller) -> Response:
        """`/ops/workers`, for operators."""
        _require_operator(request)
        overviews = self._context.services.overviews
        workers, at = await overviews.workers(), overviews.now()
        working = sum(worker.works(at) for worker in workers)
        return self._renderer.page(
            request,
            "ops/workers.html",
            workers=workers,
            working=working,
            at=at,
            again=_RELOAD_SECONDS,
            **_formatters(request, at),
        )

    async def orgs(self, request: PageRequest, caller: Caller) -> Response:
        """`/ops/orgs`, for operators."""
        _require_operator(request)
        seen = await self._context.services.overviews.glance(caller, _requested_span(request))
        return self._page(request, seen, "ops/orgs.html", orgs=seen.figures.orgs[:_MAX_ORGS], most=_MAX_ORGS)

    async def _glance(self, request: PageRequest, caller: Caller) -> OpsFigures:
        return await self._context.services.overviews.glance(caller, _requested_span(request), _requested_org(request))

    def _page(self, request: PageRequest, seen: OpsFigures, template: str, **values: Any) -> Response:
        shared: dict[str, Any] = {
            "glance": seen,
            "figures": seen.figures,
            "spans": list(TimeRange),
            "operates": request.allows(Scope.OPERATE),
            "limit": self._context.settings.max_running,
            "again": _RELOAD_SECONDS,
            "none_sign": UNKNOWN,
            "lasting": lambda seconds: format_seconds(seconds, request.language),
            "share": lambda part, whole: format_share(part, whole, request.language),
            **_formatters(request, seen.figures.at),
        }
        return self._renderer.page(request, template, **shared, **values)

    def _analyses(self, figures: OpsStatistics) -> dict[str, Any]:
        """Return the analyses with jobs and their limits, and the names of those without."""
        registry = self._context.services.registry
        limits = {one.name: one.max_running for one in registry}
        busy = {one.name for one in figures.analyses}
        return {
            "analyses": [(one, limits.get(one.name)) for one in figures.analyses],
            "idle": [name for name in registry.names if name not in busy],
        }

    def _first_workers(self, seen: OpsFigures) -> list[WorkerStatus]:
        """Return the first workers, those with problems before the others."""
        at = seen.figures.at
        return sorted(seen.workers, key=lambda one: (not one.silent(at), one.works(at)))[:_FIRST_ROWS]


def _formatters(request: PageRequest, at: Instant) -> dict[str, Any]:
    """Return the functions that templates format figures with."""
    return {
        "amount": lambda number: format_number(number, request.language),
        "age": lambda instant: format_seconds(
            None if instant is None else seconds_between(instant, at), request.language
        ),
        "doing": lambda worker: worker_text(worker, at, request.language),
    }


def _health_rules(language: Language) -> dict[str, str]:
    """Return the thresholds of the health rules."""
    return {
        "reports": str(MISSED_REPORTS),
        "wait": format_seconds(LONG_WAIT.threshold, language),
        "share": f"{FAILURES.threshold:.0%}".replace("%", " %"),
        "few": str(MIN_ENDED),
        "cancel": format_seconds(SLOW_CANCEL.threshold, language),
    }


def _requested_span(request: PageRequest) -> TimeRange:
    """Return the requested time range, or the default for an unknown one."""
    wished = request.query_params.get("range", DEFAULT_SPAN)
    return TimeRange(wished) if wished in set(TimeRange) else DEFAULT_SPAN


def _requested_org(request: PageRequest) -> str | None:
    """Return the requested org, or None for all."""
    wished = request.query_params.get("org", "").strip()
    if wished and not is_valid_name(wished):
        raise bad_request("This is not a valid name of an org.", "org")
    return wished or None


def _for_org(caller: Caller, fields: Mapping[str, str]) -> tuple[Caller, bool]:
    """Return the caller for the org of a form, which only an operator may choose, and whether it is for all orgs."""
    org_id = fields.get("org", "").strip()
    if not org_id:
        return caller, True
    if org_id != caller.org_id and (Scope.OPERATE not in caller.scopes or not is_valid_name(org_id)):
        raise forbidden("operator", "Only the operator pauses and resumes for other orgs.")
    return structs.replace(caller, org_id=org_id), False


def _until(fields: Mapping[str, str]) -> Instant | None:
    text = fields.get("until", "").strip()
    try:
        return from_text(f"{text}Z") if text else None
    except ValueError:
        raise bad_request("until must be a date and a time.", "until") from None


def _shown(request: PageRequest, fields: Mapping[str, str]) -> Response:
    org_id = fields.get("shown", "").strip()
    return see_other(request.link("ops", **({"org": org_id} if is_valid_name(org_id) else {})))


def _require_operator(request: PageRequest) -> None:
    if not request.allows(Scope.OPERATE):
        raise forbidden("operator", "This page is for operators.")


def health_headline(health: Health, language: Language) -> Markup:
    """Return the gravest finding in a few words, or that all is well."""
    if not health.findings:
        return language.text("ops.level.ok")
    gravest = health.findings[0]
    most = gravest.name == "failures" and 2 * gravest.values["failed"] > gravest.values["ended"]
    return language.text(f"ops.headline.{gravest.name}{'_most' if most else ''}")


def finding_text(finding: HealthFinding, language: Language) -> Markup:
    """Return a finding as a sentence."""
    values = {
        name: format_seconds(value, language)
        if name == "seconds"
        else format_number(value, language)
        if isinstance(value, int)
        else value
        for name, value in finding.values.items()
    }
    return language.text(f"ops.health.{finding.name}", **values)


def worker_text(worker: WorkerStatus, now: Instant, language: Language) -> Markup:
    """Return the state of a worker; for a silent one also what happens to its jobs."""
    if not worker.silent(now):
        return language.text("ops.worker.stopping") if worker.report.stopping else language.text("ops.worker.works")
    quiet = format_seconds(worker.quiet_seconds(now), language)
    if not worker.held or worker.held_until is None:
        return language.text("ops.worker.silent", quiet=quiet)
    left = seconds_between(now, worker.held_until)
    if left > 0:
        return language.text(
            "ops.worker.silent.holds",
            quiet=quiet,
            left=format_seconds(left, language),
            jobs=format_number(worker.held, language),
        )
    return language.text("ops.worker.silent.over", quiet=quiet, jobs=format_number(worker.held, language))
